#!/usr/bin/env python3
"""Measures buckets as remotes: benches/bucket.py DMV DIR [--rows NAMES] [--delays 0,10,30,50] [--size GIB] [--runs N].

Starts versitygw over a directory in DIR and, for delays, proxy.py in front of it. Counts requests in the access log of
the server and compares them with what DMV says itself. Beside DMV it runs restic, kopia, rclone and git-remote-s3 where they are
installed. Prints a table in Markdown, and the load of the machine at the begin and end of each row.
"""

import argparse
import concurrent.futures
import json
import math
import os
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS = "small,large,many,subset,log,writers,cut,pushes,kill"
MIB = 1 << 20

ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
ap.add_argument("dmv")
ap.add_argument("dir", help="for all data; must not exist, or be of an earlier run")
ap.add_argument("--rows", default=ROWS, help=f"of {ROWS}")
ap.add_argument("--delays", default="0,10,30,50", help="milliseconds for the row `small`")
ap.add_argument("--size", type=float, default=3, help="GiB of the rows large, subset and kill")
ap.add_argument("--runs", type=int, default=3, help="runs of what is timed; the median counts")
ap.add_argument("--files", type=int, default=100_000, help="of the row many")
ap.add_argument("--commits", type=int, default=100_000, help="of the row log")
ap.add_argument("--writers", type=int, default=16)
ap.add_argument("--each", type=int, default=50, help="pushes of each writer")
ap.add_argument("--cut-pushes", type=int, default=1000)
ap.add_argument("--pushes", type=int, default=10_000)
ap.add_argument("--kills", type=int, default=20)
ap.add_argument("--history", help="the example program long_history, for the row log")
ap.add_argument("--peers", default="restic,kopia,rclone,git-remote-s3")
args = ap.parse_args()
TOP, DMV = os.path.abspath(args.dir), os.path.abspath(args.dmv)
TRASH = TOP + "/trash"
os.makedirs(TOP, exist_ok=True)
ENV = {
    "PATH": os.environ["PATH"],
    "HOME": TOP + "/home",
    "XDG_CONFIG_HOME": TOP + "/home",
    "XDG_CACHE_HOME": TOP + "/home/cache",
    "DMV_USER_NAME": "a",
    "DMV_USER_EMAIL": "a@example.org",
    "AWS_ACCESS_KEY_ID": "bench",
    "AWS_SECRET_ACCESS_KEY": "bench-secret",
    "AWS_REGION": "us-east-1",
    "RESTIC_PASSWORD": "bench",
    "GIT_CONFIG_GLOBAL": TOP + "/home/gitconfig",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
}
os.makedirs(ENV["HOME"], exist_ok=True)
PEERS = [peer for peer in args.peers.split(",") if shutil.which(peer)]
for missing in set(args.peers.split(",")) - set(PEERS):
    print(f"skipped: {missing} is not installed", file=sys.stderr)
# The largest memory of one command of DMV, in MiB; LISTs of the commands that must not make any.
peak, lists, table = (0, ""), 0, []


def note(what, figure, goal=""):
    table.append((what, figure, goal))
    print(f"| {what} | {goal} | {figure} |", flush=True)


def fail(why):
    print(f"FAILED: {why}", file=sys.stderr, flush=True)
    table.append((f"**failed**: {why}", "", ""))


class Run:
    """A command that has ended: wall-clock seconds, CPU seconds, peak memory in MiB, its output and exit code."""

    def __init__(self, command, env=None, cwd=None, may_fail=False):
        command = [str(word) for word in command]
        with open(f"{TOP}/out.{os.getpid()}.{random.getrandbits(64):x}", "w+b") as out:
            begun = time.perf_counter()
            process = subprocess.Popen(command, env={**ENV, **(env or {})}, cwd=cwd, stdout=out, stderr=subprocess.STDOUT)
            _, status, used = os.wait4(process.pid, 0)
            self.seconds = time.perf_counter() - begun
            process.returncode = self.code = os.waitstatus_to_exitcode(status)
            out.seek(0)
            self.out = out.read().decode(errors="replace")
            os.unlink(out.name)
        self.cpu, self.memory = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
        if self.code != 0 and not may_fail:
            sys.exit(f"{' '.join(command)}: exit code {self.code}\n{self.out[-2000:]}")


class Dmv(Run):
    """A command of DMV. Its requests, by class, if it has made any."""

    def __init__(self, *words, at=None, endpoint=None, may_fail=False):
        global peak
        env = {"AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{endpoint}"} if endpoint else {}
        where = ["-C", at] if at else []
        super().__init__([DMV, *where, *words, "--json"], env, may_fail=may_fail)
        self.told = {}
        for line in self.out.splitlines():
            if line.startswith("{"):
                self.told = json.loads(line)
        self.requests = {k: v for k, v in self.told.get("requests", {}).items() if k != "retried"}
        self.count = sum(self.requests.values())
        peak = max(peak, (self.memory, f"`{' '.join(map(str, words[:2]))}`"))


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def until(ready, what):
    end = time.monotonic() + 30
    while not ready():
        if time.monotonic() > end:
            sys.exit(f"{what} does not start")
        time.sleep(0.02)


class Gateway:
    """versitygw with the buckets dmv, restic, kopia, rclone and git."""

    def __init__(self):
        self.top, self.port = TOP + "/gateway", free_port()
        shutil.rmtree(self.top, ignore_errors=True)
        for name in ("data/dmv", "data/restic", "data/kopia", "data/rclone", "data/git"):
            os.makedirs(f"{self.top}/{name}")
        go = os.path.expanduser("~/go/bin/versitygw")
        program = shutil.which("versitygw") or (go if os.path.exists(go) else sys.exit("versitygw is not installed"))
        command = [program, "--port", f"127.0.0.1:{self.port}", "--quiet", "--keep-alive"]
        command += ["--access", ENV["AWS_ACCESS_KEY_ID"], "--secret", ENV["AWS_SECRET_ACCESS_KEY"]]
        command += ["--access-log", self.top + "/log", "posix", self.top + "/data"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: socket.socket().connect_ex(("127.0.0.1", self.port)) == 0, "versitygw")

    def mark(self):
        """The length of the access log once nothing more comes."""
        now = -1
        while now != (now := os.path.getsize(self.top + "/log")):
            time.sleep(0.25)
        return now

    def since(self, mark):
        """Requests by class, as DMV counts them."""
        self.mark()
        found = {"get": 0, "put": 0, "list": 0, "delete": 0}
        with open(self.top + "/log") as log:
            log.seek(mark)
            for action in re.findall(r" s3_(\w+) ", log.read()):
                if action in ("GetObject", "HeadObject"):
                    found["get"] += 1
                elif action.startswith(("Delete", "Abort")):
                    found["delete"] += 1
                else:
                    found["list" if action.startswith("List") else "put"] += 1
        return found

    def clear(self, bucket):
        shutil.rmtree(f"{self.top}/data/{bucket}")
        os.makedirs(f"{self.top}/data/{bucket}")

    def root_bytes(self, place):
        return os.path.getsize(f"{self.top}/data/dmv/{place}/root")

    def end(self):
        self.process.terminate()
        self.process.wait()


class Proxy:
    """proxy.py, for a `with`. Without delays and cuts it is left out, unless `always`."""

    def __init__(self, delay, cut=0, always=False):
        self.delay, self.cut, self.is_there = delay, cut, always or delay > 0 or cut > 0

    def __enter__(self):
        if not self.is_there:
            return gateway.port
        self.port = free_port()
        command = [sys.executable, HERE + "/proxy.py", self.port, gateway.port, self.delay, self.cut]
        self.process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()
        return self.port

    def told(self):
        self.process.send_signal(signal.SIGUSR1)
        return [int(word) for word in self.process.stdout.readline().split()]

    def __exit__(self, *_):
        if self.is_there:
            self.process.terminate()
            self.process.wait()


def counted(*words, to_new=False, **more):
    """A command of DMV whose own count has to be that of the server. It lists nothing; the first push to a new place once."""
    global lists
    mark = gateway.mark()
    run = Dmv(*words, **more)
    logged = gateway.since(mark)
    lists += max(0, logged["list"] - to_new)
    if run.requests and run.requests != logged:
        fail(f"{' '.join(map(str, words))}: DMV counts {run.requests}, the server {logged}")
    run.count = sum(logged.values())
    return run


def spread(runs, of=lambda run: run.seconds, digits=2):
    values = [of(run) for run in runs]
    text = f"{statistics.median(values):.{digits}f}"
    return text if len(values) == 1 else f"{text} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def median(runs, of=lambda run: run.seconds):
    return statistics.median(of(run) for run in runs)


def cpu(run):
    return run.cpu


def both(runs):
    return f"{spread(runs)} s, CPU {spread(runs, cpu)} s"


def beside(own, peer):
    """How many times as long a peer takes."""
    return f"{median(peer) / median(own):.1f}x; CPU {median(peer, cpu) / median(own, cpu):.1f}x"


def fresh(name):
    shutil.rmtree(f"{TOP}/{name}", ignore_errors=True)
    return f"{TOP}/{name}"


def aside(name):
    """The same for many files: ext4 creates files slowly just after it has deleted many. The end deletes them."""
    os.makedirs(TRASH, exist_ok=True)
    if os.path.exists(f"{TOP}/{name}"):
        os.rename(f"{TOP}/{name}", f"{TRASH}/{name}-{time.time_ns()}")
    return f"{TOP}/{name}"


def repository(name, place, endpoint=None):
    """A new repository with the remote `s` at a place of the bucket. Its endpoint comes from the environment of each
    command, so that delays differ."""
    root = aside(name)
    Dmv("init", root)
    Dmv("remote", "add", "s", f"s3://dmv/{place}", "--path-style", at=root, endpoint=endpoint or gateway.port)
    return root


def clone(place, name, *more, port=None, count=True):
    words = ["clone", f"s3://dmv/{place}", aside(name), "--path-style", *more]
    return (counted if count else Dmv)(*words, endpoint=port or gateway.port)


def ten_files(root, n):
    os.makedirs(root + "/small", exist_ok=True)
    for k in range(10):
        with open(f"{root}/small/{k}", "w") as f:
            f.write(f"{n} {k}\n" * 50)


def restic(*words, port=None, place="a"):
    run = ["restic", "-r", f"s3:http://127.0.0.1:{port or gateway.port}/restic/{place}", "-q", *words]
    return Run(run, {"AWS_DEFAULT_REGION": "us-east-1"})


def kopia(*words, config="kopia"):
    """With its settings and its cache in directories of that name."""
    run = ["kopia", "--config-file", f"{TOP}/{config}/config", "--no-progress", *words]
    return Run(run, {"KOPIA_PASSWORD": "bench", "KOPIA_CHECK_FOR_UPDATES": "false"})


def kopia_at(action, place, port=None, config="kopia"):
    """Makes a repository, or connects to it. Nothing is cached then."""
    cache = fresh(config) + "/cache"
    at = ["--bucket", "kopia", "--prefix", place + "/", "--endpoint", f"127.0.0.1:{port or gateway.port}"]
    keys = ["--access-key", ENV["AWS_ACCESS_KEY_ID"], "--secret-access-key", ENV["AWS_SECRET_ACCESS_KEY"]]
    at += ["--disable-tls", "--region", "us-east-1", "--cache-directory", cache]
    kopia("repository", action, "s3", *at, *keys, config=config)


def rclone(*words):
    where = f"s3,provider=Other,env_auth=true,region=us-east-1,force_path_style=true,endpoint='http://127.0.0.1:{gateway.port}'"
    return Run(["rclone", "--s3-no-check-bucket", *[word.replace("BUCKET", f":{where}:rclone") for word in words]])


def sync():
    """So that nobody pays for the writes of the step before."""
    os.sync()


def settled(work, *words, **more):
    """Runs it on a quiet disk, and then waits until everything is on the disk."""
    sync()
    run = work(*words, **more)
    begun = time.perf_counter()
    sync()
    run.synced = run.seconds + time.perf_counter() - begun
    return run


def synced(run):
    return run.synced


def measure_small():
    """One commit of 10 small files, and the fetch of it, for each delay."""
    root = repository("small", "small")
    ten_files(root, "first")
    Dmv("commit", "-m", "first", at=root)
    Dmv("push", "s", at=root, endpoint=gateway.port)
    clone("small", "small-reader")
    reader = f"{TOP}/small-reader"
    git_at = {}
    if "restic" in PEERS:
        restic("init")
        restic("backup", root + "/small")
    if "kopia" in PEERS:
        kopia_at("create", "small")
        kopia("snapshot", "create", root + "/small")
    if "git-remote-s3" in PEERS:
        git_at["cwd"] = fresh("small-git")
        Run(["git", "init", "-q", "-b", "main", git_at["cwd"]])
        Run(["git", "remote", "add", "s", "s3://git/small"], **git_at)
    for delay in (int(word) for word in args.delays.split(",")):
        with Proxy(delay) as port:
            push, fetch, nothing, backup, snapshot, git = [], [], [], [], [], []
            if "kopia" in PEERS:
                kopia_at("connect", "small", port)
            for n in range(max(args.runs, 5)):
                ten_files(root, f"{delay} {n}")
                Dmv("commit", "-m", "ten", at=root)
                push.append(counted("push", "s", at=root, endpoint=port))
                fetch.append(counted("fetch", at=reader, endpoint=port))
                nothing.append(counted("fetch", at=reader, endpoint=port))
                if "restic" in PEERS:
                    backup.append(restic("backup", root + "/small", port=port))
                if "kopia" in PEERS:
                    snapshot.append(kopia("snapshot", "create", root + "/small"))
                if git_at:
                    ten_files(git_at["cwd"], f"{delay} {n}")
                    Run(["git", "add", "."], **git_at)
                    Run(["git", "commit", "-q", "-m", "ten"], **git_at)
                    where = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_DEFAULT_REGION": "us-east-1"}
                    git.append(Run(["git", "push", "-q", "s", "main"], where, **git_at))
        most = {name: max(run.count for run in runs) for name, runs in (("push", push), ("fetch", fetch), ("nothing", nothing))}
        goal = "<= 4 requests" + (", <= 0.45 s" if delay == 50 else "")
        note(f"push of 10 small files, {delay} ms", f"{most['push']} requests, {both(push)}", goal)
        for name, runs in (("restic backup", backup), ("kopia snapshot", snapshot), ("git-remote-s3", git)):
            if runs:
                note(f"... {name}", f"{both(runs)}: {beside(push, runs)}", ">= 4x")
        note(f"fetch of it, {delay} ms", f"{most['fetch']} requests, {both(fetch)}", "<= 3 requests")
        note(f"fetch of nothing, {delay} ms", f"{most['nothing']} requests, {both(nothing)}", "1 request")


def film():
    """A repository of 100 directories, with random files of about 4 MB and `--size` GiB in all. Nothing is pushed yet."""
    root, each = f"{TOP}/film", max(1, round(args.size * (1 << 30) / 100 / 4_000_000))
    if not os.path.exists(f"{TOP}/film.made"):
        Dmv("init", fresh("film"))
        for d in range(100):
            os.makedirs(f"{root}/d{d:02}")
            for n in range(each):
                with open(f"{root}/d{d:02}/{n:03}", "wb") as f:
                    f.write(os.urandom(4_000_000))
        sync()
        commit = Dmv("commit", "-m", "all", at=root)
        with open(f"{TOP}/film.made", "w") as f:
            json.dump([commit.seconds, commit.cpu], f)
    with open(f"{TOP}/film.made") as f:
        seconds, used = json.load(f)
    return root, 100 * each * 4_000_000, seconds, used


def empty_place(root):
    """Makes `s` of a repository an empty place of an empty bucket. Its name is new: a device remembers what was at a
    place."""
    gateway.clear("dmv")
    place = f"film-{time.time_ns()}"
    remotes = Dmv("remote", at=root)
    if remotes.out.strip():
        Dmv("remote", "remove", "s", at=root)
    Dmv("remote", "add", "s", f"s3://dmv/{place}", "--path-style", at=root, endpoint=gateway.port)
    sync()
    return place


class DiskUse(threading.Thread):
    """The blocks of a directory, looked at ten times a second while a command writes there: the most, and those at the
    end, in bytes. What the disk holds for files that were deleted while they are open is missing."""

    def __init__(self, top):
        super().__init__(daemon=True)
        self.top, self.over, self.most, self.end = top, threading.Event(), 0, 0
        self.start()

    def now(self):
        used = 0
        for at, _, names in os.walk(self.top):
            for name in names:
                try:
                    used += os.lstat(f"{at}/{name}").st_blocks * 512
                except FileNotFoundError:
                    pass
        return used

    def run(self):
        while not self.over.wait(0.1):
            self.most = max(self.most, self.now())

    def stop(self):
        self.over.set()
        self.join()
        self.end = self.now()
        self.most = max(self.most, self.end)


# Writes what a clone writes, and does nothing else: packs and files of SIZE bytes each, and a sync.
FLOOR = """
import os, sys, threading
top, size = sys.argv[1], int(sys.argv[2])
block = os.urandom(1_000_000)
def write(names, each):
    for name in names:
        with open(f"{top}/{name}", "wb", buffering=0) as f:
            for _ in range(each // len(block)):
                f.write(block)
os.makedirs(top)
packs = threading.Thread(target=write, args=(["pack"], size))
packs.start()
write(range(size // 4_000_000), 4_000_000)
packs.join()
os.sync()
"""


def floor(target, size):
    return Run([sys.executable, "-c", FLOOR, target, size])


def measure_large():
    """DMV and the others take turns, so that they meet the same load."""
    root, size, commit, commit_cpu = film()
    files = [f"{root}/{name}" for name in sorted(os.listdir(root)) if name.startswith("d")]
    gib, runs, uses = size / (1 << 30), {}, []

    def take(what, work, *words, **more):
        runs.setdefault(what, []).append(settled(work, *words, **more))

    def copy(what, work, *words, **more):
        fresh("film-copy")
        take(what, work, *words, **more)
        fresh("film-copy")

    target = f"{TOP}/film-copy"
    for _ in range(args.runs):
        place = empty_place(root)
        take("push", counted, "push", "s", to_new=True, at=root, endpoint=gateway.port)
        copy("bare", clone, place, "film-copy", "--bare")
        copy("clone", clone, place, "film-copy")
        fresh("film-copy")
        use = DiskUse(target)
        take("lean", clone, place, "film-copy", "--lean")
        use.stop()
        uses.append(use)
        fresh("film-copy")
        copy("floor", floor, target, size)
        if "rclone" in PEERS:
            gateway.clear("rclone")
            take("rclone up", rclone, "copy", root, "BUCKET/film", "--exclude", "/.dmv/**")
            copy("rclone down", rclone, "copy", "BUCKET/film", target)
        if "restic" in PEERS:
            gateway.clear("restic")
            restic("init", place="film")
            take("backup", restic, "backup", "--compression", "off", *files, place="film")
            copy("restore", restic, "restore", "latest", "--target", target, place="film")
        if "kopia" in PEERS:
            gateway.clear("kopia")
            kopia_at("create", "film")
            kopia("policy", "set", root, "--add-ignore", ".dmv")
            take("snapshot", kopia, "snapshot", "create", root)
            kopia_at("connect", "film")
            copy("kopia restore", kopia, "restore", root, target)
    for bucket in ("rclone", "restic", "kopia"):
        gateway.clear(bucket)
    check = counted("verify", "--at", "s", "--full", at=root, endpoint=gateway.port)

    def line(what, name, goal="<= 70 requests per GiB, <= 256 MiB"):
        some = runs[name]
        most, memory = max(run.count for run in some) / gib, max(run.memory for run in some)
        figure = f"{both(some)}, {spread(some, synced)} s with a sync, {most:.1f} requests per GiB, {memory:.0f} MiB"
        note(f"{gib:.2f} GiB of 4 MB files: {what}", figure, goal)

    def peer(what, name, own, goal, seconds=0.0, used=0.0):
        """A peer beside a command of DMV, which took `seconds` and CPU seconds more in another one."""
        if name not in runs:
            return
        some = runs[name]

        def ratio(of, more):
            return median(some, of) / (median(runs[own], of) + more)

        ratios = f"{ratio(lambda run: run.seconds, seconds):.2f}x, {ratio(synced, seconds):.2f}x with a sync"
        ratios += f", CPU {ratio(cpu, used):.2f}x"
        note(f"... {what}", f"{both(some)}: {ratios}", goal)

    note(f"{gib:.2f} GiB of 4 MB files: commit (once), before the push", f"{commit:.2f} s, CPU {commit_cpu:.2f} s")
    line("push", "push")
    peer("rclone copy, beside the push", "rclone up", "push", ">= 0.8x")
    peer("restic backup, beside commit and push", "backup", "push", ">= 1.5x", commit, commit_cpu)
    peer("kopia snapshot, beside commit and push", "snapshot", "push", ">= 1.5x", commit, commit_cpu)
    line("clone", "clone")
    peer("rclone copy, beside the clone", "rclone down", "clone", ">= 0.8x")
    peer("restic restore, beside the clone", "restore", "clone", ">= 1.5x")
    peer("kopia restore, beside the clone", "kopia restore", "clone", ">= 1.5x")
    peer("writing the same files and packs, beside the clone", "floor", "clone", "")
    line("clone --lean", "lean")
    peer("restic restore, beside clone --lean", "restore", "lean", ">= 1.5x")
    most, end = (statistics.median(of) / size for of in ([use.most for use in uses], [use.end for use in uses]))
    note("... its blocks on the disk, beside the files: at most, and at the end", f"{most:.3f}x, {end:.3f}x", "1.15x, 1.03x")
    line("clone --bare", "bare")
    peer("rclone copy, beside clone --bare", "rclone down", "bare", ">= 0.8x")
    figure = f"{check.seconds:.2f} s, CPU {check.cpu:.2f} s, {check.count / gib:.1f} requests per GiB, {check.memory:.0f} MiB"
    note(f"{gib:.2f} GiB of 4 MB files: verify --full", figure, "<= 256 MiB")


def measure_many():
    root = repository("many", "many")
    for d in range(100):
        os.makedirs(f"{root}/d{d:02}")
        for n in range(args.files // 100):
            with open(f"{root}/d{d:02}/{n:04}", "wb") as f:
                f.write(os.urandom(1024))
    sync()
    commit = Dmv("commit", "-m", "all", at=root)
    sync()
    push = counted("push", "s", to_new=True, at=root, endpoint=gateway.port)
    copy = []
    for _ in range(args.runs):
        aside("many-copy")
        copy.append(settled(clone, "many", "many-copy"))
    text = f"{args.files:,} files of 1 KiB: "
    seconds, used = commit.seconds + push.seconds, commit.cpu + push.cpu
    note(text + "commit and push", f"{seconds:.2f} s, CPU {used:.2f} s, {push.count} requests", "<= 100 requests")
    note(text + "clone", f"{both(copy)}, {copy[0].count} requests", "<= 100 requests")
    if "restic" in PEERS:
        gateway.clear("restic")
        restic("init", place="many")
        sync()
        backup = restic("backup", *[f"{root}/d{d:02}" for d in range(100)], place="many")
        restore = []
        for _ in range(args.runs):
            target = aside("many-copy")
            restore.append(settled(restic, "restore", "latest", "--target", target, place="many"))
        note("... restic backup", f"{both([backup])}: {backup.seconds / seconds:.1f}x; CPU {backup.cpu / used:.1f}x", ">= 3x")
        ratio = f"{beside(copy, restore)}, {median(restore, synced) / median(copy, synced):.1f}x with a sync"
        note("... restic restore", f"{both(restore)}: {ratio}", ">= 3x")
        gateway.clear("restic")
    aside("many-copy")
    aside("many")


def measure_subset():
    root, size, *_ = film()
    place = empty_place(root)
    Dmv("push", "s", at=root, endpoint=gateway.port)
    runs = {"direct": [], 0: [], 50: []}
    # Both delays go through the proxy, so that its own time is not taken for a delay.
    with Proxy(0, always=True) as near, Proxy(50) as far:
        for _ in range(max(args.runs, 5)):
            for name, port in (("direct", gateway.port), (0, near), (50, far)):
                runs[name].append(clone(place, "film-part", "--subset", "d42", port=port))
    slice_bytes = size / 100
    one = runs[0][0]
    got = one.told["bytes_received"] / slice_bytes
    goal = math.floor(64 + 1.5 * slice_bytes / (8 * MIB))
    gib = size / (1 << 30)
    note(f"1 % of {gib:.1f} GiB", f"{one.count} requests, {got:.4f} x the slice", f"<= {goal} requests, <= 1.15 x")
    slower = median(runs[50]) / median(runs[0])
    figure = f"{spread(runs['direct'])} s without the proxy; {spread(runs[0])} s; {spread(runs[50])} s: {slower:.2f}x"
    note("... at 0 ms; at 50 ms", figure, "<= 1.4x")
    fresh("film-part")


def measure_log():
    if not args.history:
        print("skipped: log needs --history PROGRAM", file=sys.stderr)
        return
    root = fresh("history")
    with open(os.devnull, "w") as nowhere:
        subprocess.run([args.history, root, str(args.commits), "content"], env=ENV, check=True, stdout=nowhere)
    Dmv("remote", "add", "s", "s3://dmv/history", "--path-style", at=root, endpoint=gateway.port)
    push = counted("push", "s", to_new=True, at=root, endpoint=gateway.port)
    figure = f"{push.count} requests, {both([push])}, {push.memory:.0f} MiB"
    note(f"push of {args.commits:,} commits", figure, "<= 256 MiB")
    for delay in (0, 50):
        with Proxy(delay) as port:
            got = clone("history", "history-copy", "--bare", "--meta-only", port=port)
            figure = f"{got.count} requests, {both([got])}, {got.memory:.0f} MiB"
            note(f"clone --meta-only of them, {delay} ms", figure, "<= 256 MiB")
    log = [Dmv("log", at=f"{TOP}/history-copy") for _ in range(args.runs)]
    note("log in the clone", both(log))
    fresh("history-copy")


def parallel(work, inputs):
    with concurrent.futures.ThreadPoolExecutor(len(inputs)) as pool:
        return list(pool.map(work, inputs))


def measure_writers():
    first = repository("writers", "writers")
    ten_files(first, "first")
    Dmv("commit", "-m", "first", at=first)
    Dmv("push", "s", at=first, endpoint=gateway.port)
    for delay in (0, 50):
        with Proxy(delay) as port:

            def write(n):
                root, done = f"{TOP}/writer-{n}", []
                clone("writers", f"writer-{n}", port=port, count=False)
                branch = f"w{n}-{delay}"
                Dmv("checkout", "-b", branch, at=root)
                for k in range(args.each):
                    ten_files(root, f"{n} {k} {delay}")
                    Dmv("commit", "-m", f"{n} {k}", at=root)
                    done.append(Dmv("push", "origin", branch, at=root, endpoint=port, may_fail=True))
                return done

            runs = [run for some in parallel(write, range(args.writers)) for run in some]
        landed = sum(run.code == 0 for run in runs)
        for run in [run for run in runs if run.code != 0][:3]:
            fail(run.out[-500:])
        seconds = sorted(run.seconds for run in runs)
        late = seconds[math.ceil(len(seconds) * 0.99) - 1]
        mean = sum(run.count for run in runs) / len(runs)
        figure = f"{landed} of {len(runs)}, p50 {statistics.median(seconds):.2f} s, p99 {late:.2f} s, {mean:.1f} requests each"
        note(f"{args.writers} writers x {args.each} pushes, own branches, {delay} ms", figure, "all, p99 <= 15 s")
        # Each branch has all that was pushed to it.
        clone("writers", "writers-all", "--bare", count=False)
        for n in range(args.writers):
            log = Dmv("log", f"w{n}-{delay}", at=f"{TOP}/writers-all")
            if log.out.count("\n") < args.each + 1:
                fail(f"branch w{n}-{delay} lacks commits")
    for n in range(args.writers):
        fresh(f"writer-{n}")


def measure_cut():
    root = repository("cut", "cut")
    ten_files(root, "first")
    Dmv("commit", "-m", "first", at=root)
    Dmv("push", "s", at=root, endpoint=gateway.port)
    before = generation("cut")
    failed, proxy = 0, Proxy(0, 30)
    with proxy as port:
        for n in range(args.cut_pushes):
            ten_files(root, n)
            Dmv("commit", "-m", f"cut {n}", at=root)
            failed += Dmv("push", "s", at=root, endpoint=port, may_fail=True).code != 0
        cuts = proxy.told()[0]
    doubled = generation("cut") - before - args.cut_pushes
    check = Dmv("verify", "--at", "s", "--full", at=root, endpoint=gateway.port, may_fail=True)
    if check.code != 0:
        fail(check.out[-500:])
    figure = f"{cuts} answers cut: {failed} pushes failed, {doubled} operations too many, verify --full: {check.told.get('ok')}"
    note(f"{args.cut_pushes:,} pushes, 30 % of the answers of root writes cut", figure, "0 false conflicts, 0 doubled")


def generation(place):
    """How often the root of a bucket was replaced: docs/format/bucket.md. Each operation replaces it once."""
    with open(f"{gateway.top}/data/dmv/{place}/root", "rb") as f:
        root = f.read()
    # Magic, version, the id of the repository, and the length and text of the chunker.
    at = 25 + 1 + root[25]
    value, shift = 0, 0
    while True:
        value |= (root[at] & 0x7F) << shift
        if root[at] < 0x80:
            return value
        at, shift = at + 1, shift + 7


def measure_pushes():
    root = repository("pushes", "pushes")
    most, largest, times = 0, 0, []
    for n in range(args.pushes):
        with open(root + "/one", "w") as f:
            f.write(str(n))
        Dmv("commit", "-m", str(n), at=root)
        push = Dmv("push", "s", at=root, endpoint=gateway.port)
        times.append(push)
        most = max(most, push.count if n > 0 else 0)
        largest = max(largest, gateway.root_bytes("pushes"))
    over = sum(push.count > 4 for push in times[1:])
    figure = f"root <= {largest / 1024:.1f} KiB, <= {most} requests ({over} with more than 4)"
    note(f"{args.pushes:,} pushes by one device", figure, "root <= 128 KiB, <= 4 requests")
    some = max(1, args.pushes // 20)
    note("... the first, the last 5 %", f"{spread(times[:some])} s, {spread(times[-some:])} s")
    got = clone("pushes", "pushes-copy", "--bare")
    note("... clone --bare of it", f"{got.count} requests, {got.seconds:.2f} s")
    fresh("pushes-copy")


def measure_kill():
    root, size, *_ = film()
    empty_place(root)
    proxy, killed, random_times = Proxy(1), 0, random.Random(1)
    with proxy as port:
        for n in range(args.kills):
            command = [DMV, "-C", root, "push", "s", "-q"]
            env = {**ENV, "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{port}"}
            # In the mean, each gets the share of the whole that is left for it.
            target = proxy.told()[1] + random_times.uniform(0.3, 1.1) * size / args.kills
            process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while process.poll() is None and proxy.told()[1] < target:
                time.sleep(0.005)
            if process.poll() is None:
                process.kill()
                killed += 1
            process.wait()
        Dmv("push", "s", at=root, endpoint=port)
        sent = proxy.told()[1]
    again = (sent - size) / MIB
    check = Dmv("verify", "--at", "s", "--full", at=root, endpoint=gateway.port, may_fail=True)
    if check.code != 0:
        fail(check.out[-500:])
    figure = f"{again:.0f} MiB sent again for all, {again / max(killed, 1):.0f} per kill; verify --full: {check.told.get('ok')}"
    note(f"{killed} kills (-9) in a push of {size / (1 << 30):.1f} GiB", figure, "<= 1 GiB per kill")


gateway = Gateway()
try:
    chosen = args.rows.split(",")
    unknown = set(chosen) - set(ROWS.split(","))
    if unknown:
        sys.exit(f"no such row: {', '.join(sorted(unknown))}")
    print("| work | goal | measured |\n|---|---|---|", flush=True)
    for row in chosen:
        load = os.getloadavg()[0]
        globals()[f"measure_{row}"]()
        print(f"{row}: load {load:.1f} at its begin, {os.getloadavg()[0]:.1f} at its end", file=sys.stderr, flush=True)
    note("LIST requests of all counted commands", lists, "0")
    if lists:
        fail("DMV lists names")
    note("largest memory of a command of DMV", f"{peak[0]:.0f} MiB ({peak[1]})", "<= 256 MiB")
finally:
    gateway.end()
    shutil.rmtree(TRASH, ignore_errors=True)
if any(what.startswith("**failed**") for what, *_ in table):
    sys.exit(1)
