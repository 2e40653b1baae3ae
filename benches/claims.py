#!/usr/bin/env python3
"""Measures claims, signed commits, newer versions and copies: what they add to other commands, and what they take.

    benches/claims.py target/dist/dmv [--files 100000] [--claims 4096] [--commits 1000] [--rounds 21]
    benches/claims.py target/dist/dmv --only newer,push,whereis,readonly

Without --only, it measures everything: signed, claims (status, and claim offline), newer (1,000 paths on 100 branches),
push (of 100 branches, where claims are kept to), whereis (with and without --ask), readonly (a checkout of 10,000 files).
Each pair is measured alternately, so that both see the same machine. Everything lies in one temporary directory, with
a home of its own for each device.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

FILES_IN_A_DIRECTORY = 1000
# One list of claims has at most 128 KiB.
CLAIMS_OF_A_CLONE = 1024
BRANCHES = 100
CHANGED_PATHS = 1000
PUSHES = 5
CHECKED_OUT = 10_000
PARTS = ["signed", "claims", "newer", "push", "whereis", "readonly"]


class Device:
    """A user with a home, a key and a name."""

    def __init__(self, program, base, name):
        self.program = program
        home = base / f"home-{name}"
        home.mkdir()
        self.env = {"HOME": str(home), "PATH": os.environ["PATH"], "DMV_USER_NAME": name}

    def run(self, place, *args):
        """Runs a command in a directory, and returns how many seconds it took."""
        begin = time.perf_counter()
        subprocess.run(
            [self.program, *args], cwd=place, env=self.env, check=True, stdout=subprocess.DEVNULL
        )
        return time.perf_counter() - begin


def milliseconds(seconds):
    """The median, and the least and the greatest value."""
    low, high = min(seconds), max(seconds)
    return f"{1000 * statistics.median(seconds):.1f} ms ({1000 * low:.1f}-{1000 * high:.1f})"


def compare(what, plain, other):
    """Prints two series, and how many times longer the second one takes."""
    times = statistics.median(other) / statistics.median(plain)
    print(f"{what}: {milliseconds(plain)} without, {milliseconds(other)} with: {times:.2f} x", flush=True)


def signed_commits(device, base, count):
    """Commits in a row in two repositories, in one of them signed."""
    places = {"unsigned": [], "signed": ["--sign"]}
    took = {name: [] for name in places}
    for name in places:
        (base / name).mkdir()
        device.run(base / name, "init")
    for n in range(count):
        for name, options in places.items():
            (base / name / "file").write_text(f"{n}\n")
            took[name].append(device.run(base / name, "commit", "-m", str(n), *options))
    compare(f"{count} commits in a row, signed", took["unsigned"], took["signed"])


def share(device, other, base, options):
    """A repository of many files, and two clones of it: one of them knows many claims."""
    shared = base / "shared"
    shared.mkdir()
    for n in range(options.files):
        directory = shared / f"d{n // FILES_IN_A_DIRECTORY:04}"
        directory.mkdir(exist_ok=True)
        (directory / f"f{n:06}").write_text(str(n))
    device.run(shared, "init")
    device.run(shared, "commit", "-m", "all")
    for name in ["plain", "known"]:
        device.run(base, "clone", str(shared), name)
    # Odd numbers: branches change even ones, so that they can be pushed.
    step = max(2, options.files // options.claims // 2 * 2)
    paths = [f"d{n // FILES_IN_A_DIRECTORY:04}/f{n:06}" for n in range(1, options.files, step)]
    # The device itself claims the rest.
    told = options.claims - options.rounds
    for begin in range(0, told, CLAIMS_OF_A_CLONE):
        theirs = f"theirs{begin}"
        other.run(base, "clone", str(shared), theirs)
        other.run(base / theirs, "claim", *paths[begin : min(begin + CLAIMS_OF_A_CLONE, told)])
    device.run(base / "known", "fetch")
    found = subprocess.run(
        [device.program, "claims", "--json"], cwd=base / "known", env=device.env, check=True, capture_output=True
    )
    lines = [json.loads(line) for line in found.stdout.splitlines()]
    assert len(lines) == told, len(lines)


def claims(device, base, options):
    """A status of many files with and without claims, and a claim offline."""
    for name in ["plain", "known"]:
        offline = [
            device.run(base / name, "--offline", "claim", f"notes/{n}") for n in range(options.rounds)
        ]
        print(f"claim offline, {name}: {milliseconds(offline)}", flush=True)
    # A status without changes does not look at claims.
    for name in ["plain", "known"]:
        (base / name / "d0000/f000000").write_text("changed")
    took = {"plain": [], "known": []}
    for _ in range(options.rounds):
        for name, seconds in took.items():
            seconds.append(device.run(base / name, "status"))
    compare(f"status of {options.files} files, {options.claims} claims", took["plain"], took["known"])


def branches(device, base, options):
    """A clone of the shared repository with branches that change other files each."""
    place = base / "branched"
    device.run(base, "clone", str(base / "shared"), place.name)
    step = max(2, options.files // CHANGED_PATHS // 2 * 2)
    paths = [f"d{n // FILES_IN_A_DIRECTORY:04}/f{n:06}" for n in range(0, options.files, step)]
    for n in range(BRANCHES):
        device.run(place, "checkout", "-b", f"b{n}", "main")
        for path in paths[n::BRANCHES]:
            (place / path).write_text(f"on {n}")
        device.run(place, "commit", "-m", f"branch {n}")
    device.run(place, "checkout", "main")
    return place


def newer(device, place, options):
    """Newer versions on all branches, beside a status."""
    took = {"status": [], "newer": []}
    for _ in range(options.rounds):
        for name, seconds in took.items():
            seconds.append(device.run(place, name))
    compare(f"newer: {CHANGED_PATHS} paths on {BRANCHES} branches, beside a status", took["status"], took["newer"])


def pushes(device, base, place, options):
    """A push of all branches to a repository without claims, and to one that keeps to those of others."""
    names = [f"b{n}" for n in range(BRANCHES)]
    took = {"plain": [], "known": []}
    for n in range(PUSHES):
        for name, seconds in took.items():
            to = base / f"to-{name}-{n}"
            # The clone knows the claims that the one has from which it comes.
            device.run(base, "clone", str(base / name), to.name)
            if name == "known":
                device.run(base / "known", "push", str(to), "main")
                device.run(to, "config", "set", "claims.enforce", "true")
                found = subprocess.run(
                    [device.program, "claims", "--json"], cwd=to, env=device.env, check=True, capture_output=True
                )
                assert found.stdout.count(b"\n") >= options.claims - options.rounds
                device.run(place, "fetch", str(to))
            seconds.append(device.run(place, "push", str(to), *names))
    compare(f"push of {BRANCHES} branches, {options.claims} claims kept to", took["plain"], took["known"])


def whereis(device, base, options):
    """Who has which file, as far as it is known and as the remote answers."""
    took = {"known": [], "asked": []}
    for _ in range(options.rounds):
        took["known"].append(device.run(base / "plain", "whereis", "--json"))
        took["asked"].append(device.run(base / "plain", "whereis", "--ask", "--json"))
    compare(f"whereis of {options.files} files, and with --ask", took["known"], took["asked"])


def readonly(device, base, options):
    """A checkout of many files that want a claim."""
    places = {"writable": "*.psd claim=readonly\n", "readonly": "* claim=readonly\n"}
    took = {name: [] for name in places}
    for name, rules in places.items():
        place = base / name
        place.mkdir()
        (place / ".dmvattributes").write_text(rules)
        device.run(place, "init")
        device.run(place, "commit", "-m", "no files")
        device.run(place, "tag", "empty")
        for n in range(CHECKED_OUT):
            directory = place / f"d{n // FILES_IN_A_DIRECTORY:04}"
            directory.mkdir(exist_ok=True)
            (directory / f"f{n:06}").write_text(str(n))
        device.run(place, "commit", "-m", "files")
    for _ in range(options.rounds):
        for name, seconds in took.items():
            device.run(base / name, "checkout", "empty")
            seconds.append(device.run(base / name, "checkout", "main"))
    some = next((base / "readonly").glob("d*/f*"))
    assert some.stat().st_mode & 0o200 == 0, "it is read-only"
    compare(f"checkout of {CHECKED_OUT} files, claim=readonly", took["writable"], took["readonly"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--claims", type=int, default=4096)
    parser.add_argument("--commits", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--only", type=lambda text: text.split(","), default=PARTS)
    options = parser.parse_args()
    unknown = set(options.only) - set(PARTS)
    if unknown:
        parser.error(f"there is no part {', '.join(unknown)}")
    program = str(options.program.resolve())
    with tempfile.TemporaryDirectory(prefix="dmv-claims-") as base:
        base = pathlib.Path(base)
        device, other = Device(program, base, "ada"), Device(program, base, "bob")
        if "signed" in options.only:
            signed_commits(device, base, options.commits)
        if "readonly" in options.only:
            readonly(device, base, options)
        if {"claims", "newer", "push", "whereis"} & set(options.only):
            share(device, other, base, options)
        if "claims" in options.only:
            claims(device, base, options)
        if "whereis" in options.only:
            whereis(device, base, options)
        if {"newer", "push"} & set(options.only):
            place = branches(device, base, options)
            if "newer" in options.only:
                newer(device, place, options)
            if "push" in options.only:
                pushes(device, base, place, options)


if __name__ == "__main__":
    main()
