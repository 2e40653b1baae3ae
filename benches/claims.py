#!/usr/bin/env python3
"""Measures claims and signed commits: what they add to a status, to a commit, and to a command offline.

    benches/claims.py target/dist/dmv [--files 100000] [--claims 4096] [--commits 1000] [--rounds 21]

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


def claims(device, other, base, options):
    """A status of many files with and without claims, and a claim offline."""
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
    step = max(1, options.files // options.claims)
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--claims", type=int, default=4096)
    parser.add_argument("--commits", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=21)
    options = parser.parse_args()
    program = str(options.program.resolve())
    with tempfile.TemporaryDirectory(prefix="dmv-claims-") as base:
        base = pathlib.Path(base)
        device, other = Device(program, base, "ada"), Device(program, base, "bob")
        signed_commits(device, base, options.commits)
        claims(device, other, base, options)


if __name__ == "__main__":
    main()
