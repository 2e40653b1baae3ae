#!/usr/bin/env python3
"""Measures how worktrees share blocks with packs, on XFS and btrfs beside ext4. Needs root, xfsprogs and btrfs-progs.

  benches/share.py DMV DIR [--mib N] [--reps N] [--fs xfs,btrfs,ext4] [--steps copies,versions]

It makes images of file systems in DIR, one after another, mounts them with direct I/O, and removes them at the end. An
image takes up to six times N MiB (default 2048).

  copies    files of N MiB that do not compress: commit, checkout of another commit that has half of them otherwise,
            worktree add, clone from a path; each beside `cp --reflink=never` of the same bytes, in turns. A commit
            and the cp that it is compared with find nothing in the cache. "sample": with worktree.check = sample
  versions  a file of N/2 MiB in 20 versions, of which each rewrites 1 % at eight places: the space of all, after each
            of gc and repack, and with one copy beside packs that share nothing

Prints Markdown rows: seconds until the data is durable (median, least, most), the ratio to cp, seconds of CPU time, MiB
of blocks that the step took, and the peak memory of dmv in MiB.
"""
import argparse
import contextlib
import os
import random
import shutil
import statistics
import subprocess
import sys
import time

MIB = 1 << 20
VERSIONS = 20
PLACES = 8
MAKE = {
    'xfs': ['mkfs.xfs', '-q', '-f', '-m', 'reflink=1'],
    'btrfs': ['mkfs.btrfs', '-q', '-f'],
    'ext4': ['mkfs.ext4', '-q', '-F'],
}


def call(command, **more):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **more)


@contextlib.contextmanager
def mounted(kind, top, mib):
    """Makes a file system in an image, and returns where it is mounted."""
    image, place = os.path.join(top, f'{kind}.img'), os.path.join(top, kind)
    os.makedirs(place)
    with open(image, 'wb') as file:
        file.truncate(mib * MIB)
    device = None
    try:
        call([*MAKE[kind], image])
        loop = ['losetup', '--find', '--show', '--direct-io=on', image]
        device = subprocess.run(loop, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        call(['mount', device, place])
        yield place
    finally:
        subprocess.run(['umount', place], check=False)
        if device:
            subprocess.run(['losetup', '--detach', device], check=False)
        os.remove(image)
        os.rmdir(place)


def used(place):
    """Returns the bytes of blocks that are in use."""
    call(['sync', '-f', place])
    stat = os.statvfs(place)
    return (stat.f_blocks - stat.f_bfree) * stat.f_frsize


class Bench:
    """A file system, and the program that is measured there."""

    def __init__(self, dmv, place):
        self.dmv, self.place, self.peak = dmv, place, 0
        home = os.path.join(place, 'home')
        os.makedirs(home)
        self.env = dict(os.environ, HOME=home, XDG_CONFIG_HOME=home, XDG_CACHE_HOME=home, DMV_USER_NAME='a',
                        DMV_USER_EMAIL='a@x', DMV_COMMIT_LARGE='0')

    def at(self, *names):
        return os.path.join(self.place, *names)

    def run(self, *args, cwd=None):
        """Runs dmv. Notes its peak memory."""
        child = subprocess.Popen([self.dmv, '-q', *args], cwd=cwd, env=self.env, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            sys.exit(f'dmv {" ".join(args)} failed with {child.returncode}')
        self.peak = max(self.peak, usage.ru_maxrss >> 10)

    @contextlib.contextmanager
    def sampling(self):
        """Makes checkouts check a sample of what shares blocks."""
        self.env['DMV_WORKTREE_CHECK'] = 'sample'
        yield
        del self.env['DMV_WORKTREE_CHECK']

    def timed(self, step):
        """Returns the seconds until what the step wrote is durable, the seconds of CPU time, and the bytes of blocks that it
        took."""
        before, start, processors = used(self.place), time.time(), os.times()
        step()
        call(['sync', '-f', self.place])
        seconds, now = time.time() - start, os.times()
        cpu = now.children_user + now.children_system - processors.children_user - processors.children_system
        return seconds, cpu, used(self.place) - before


def fill(path, size, seed):
    """Writes random bytes."""
    source = random.Random(seed)
    with open(path, 'wb') as file:
        for _ in range(size // MIB):
            file.write(source.randbytes(MIB))


def forget(path):
    """Removes a file from the cache of the system."""
    with open(path, 'rb') as file:
        os.fsync(file)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def forget_all(top, names):
    for name in names:
        forget(os.path.join(top, name))


def row(kind, what, runs, base, peak, bytes_of_content):
    seconds = [run[0] for run in runs]
    ratio = statistics.median(a[0] / b[0] for a, b in zip(runs, base))
    cpu, taken = (statistics.median(run[n] for run in runs) for n in (1, 2))
    middle, least, most = statistics.median(seconds), min(seconds), max(seconds)
    print(f'| {kind} | {what} | {middle:.2f} ({least:.2f}-{most:.2f}) | {ratio:.2f}x | {cpu:.2f} | '
          f'{taken / MIB:.0f} '
          f'({taken / bytes_of_content:+.1%}) | {peak or ""} |', flush=True)


def copies(kind, bench, mib, reps):
    data, repo, films, files = bench.at('data'), bench.at('repo'), bench.at('repo', 'films'), 4
    os.makedirs(data)
    size = mib // files * MIB
    for n in range(files):
        fill(os.path.join(data, f'{n}.raw'), size, n)
    half = [f'{n}.raw' for n in range(files // 2)]
    runs = {}

    def note(what, step):
        bench.peak = 0
        runs.setdefault(what, []).append((*bench.timed(step), bench.peak))

    def copy(names, source, name):
        os.makedirs(bench.at(name))
        paths = [os.path.join(source, file) for file in names]
        call(['cp', '--reflink=never', *paths, bench.at(name)])

    def remove(*names):
        for name in names:
            shutil.rmtree(bench.at(name))

    everything = sorted(os.listdir(data))
    for rep in range(reps):
        # The worktree's files are copies, so that nothing shares blocks with the data.
        def worktree():
            copy(everything, data, 'repo/films')
            bench.run('init', repo)
            call(['sync', '-f', bench.place])

        worktree()
        note('commit', lambda: bench.run('commit', '-m', 'one', cwd=repo))
        remove('repo')
        worktree()
        forget_all(films, everything)
        note('commit, not cached', lambda: bench.run('commit', '-m', 'one', cwd=repo))
        note('cp all', lambda: copy(everything, data, 'copy'))
        remove('copy')
        forget_all(data, everything)
        note('cp all, not cached', lambda: copy(everything, data, 'copy'))
        remove('copy')
        for name in half:
            fill(os.path.join(films, name), size, f'{rep} {name}')
        bench.run('commit', '-m', 'two', cwd=repo)
        note('checkout', lambda: bench.run('checkout', '@~1', cwd=repo))
        with bench.sampling():
            note('checkout, sample', lambda: bench.run('checkout', 'main', cwd=repo))
        note('cp half', lambda: copy(half, data, 'copy'))
        remove('copy')

        def compare(name):
            call(['diff', '-r', films, bench.at(name, 'films')])
            remove(name)

        def others(which):
            note('worktree add' + which, lambda: bench.run('worktree', 'add', bench.at('second'), '@', cwd=repo))
            compare('second')
            note('clone' + which, lambda: bench.run('clone', repo, bench.at('clone')))
            compare('clone')

        others('')
        with bench.sampling():
            others(', sample')
        remove('repo')
    base = {'checkout': 'cp half', 'checkout, sample': 'cp half', 'commit, not cached': 'cp all, not cached'}
    order = ['cp all', 'cp all, not cached', 'commit', 'commit, not cached', 'worktree add', 'worktree add, sample',
             'clone', 'clone, sample', 'cp half', 'checkout', 'checkout, sample']
    for what in order:
        beside = runs[what] if what.startswith('cp') else runs[base.get(what, 'cp all')]
        content = size * (files // 2 if what in ('cp half', 'checkout', 'checkout, sample') else files)
        row(kind, what, runs[what], beside, max(run[3] for run in runs[what]), content)
    remove('data')


def versions(kind, bench, mib, baseline):
    """Prints the space of versions. Returns packs and one copy, for file systems that share nothing."""
    repo, size = bench.at('repo'), mib // 2 * MIB
    bench.run('init', repo)
    start = used(bench.place)
    path = os.path.join(repo, 'film.raw')
    fill(path, size, 'film')
    source = random.Random('edits')
    part = size // 100 // PLACES
    for version in range(VERSIONS):
        if version:
            with open(path, 'r+b') as file:
                for _ in range(PLACES):
                    file.seek(source.randrange(size - part))
                    file.write(source.randbytes(part))
        bench.run('commit', '-m', str(version), cwd=repo)
    told = {'20 commits': used(bench.place) - start}
    for step in ['gc', 'repack']:
        bench.run(step, cwd=repo)
        told[step] = used(bench.place) - start
    shutil.rmtree(repo)
    baseline = baseline or told['repack']
    for what, taken in told.items():
        print(f'| {kind} | {what} | {taken / MIB:.0f} | {taken / size:.2f} | {taken / baseline:.2f}x | '
              f'{bench.peak} |', flush=True)
    return baseline


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('dmv')
    parser.add_argument('dir')
    parser.add_argument('--mib', type=int, default=2048)
    parser.add_argument('--reps', type=int, default=3)
    parser.add_argument('--fs', default='xfs,btrfs,ext4')
    parser.add_argument('--steps', default='copies,versions')
    args = parser.parse_args()
    dmv, top = os.path.realpath(args.dmv), os.path.abspath(args.dir)
    os.makedirs(top)
    steps, kinds = args.steps.split(','), args.fs.split(',')
    try:
        if 'copies' in steps:
            print('| file system | step | seconds | to cp | CPU s | MiB of blocks | peak MiB |\n'
                  '|---|---|---:|---:|---:|---:|---:|')
            for kind in kinds:
                with mounted(kind, top, 6 * args.mib) as place:
                    copies(kind, Bench(dmv, place), args.mib, args.reps)
        if 'versions' in steps:
            print('\n| file system | after | MiB of blocks | of one version | to packs and a copy | peak MiB |\n'
                  '|---|---|---:|---:|---:|---:|')
            baseline = None
            # ext4 comes first: it shares nothing.
            for kind in sorted(kinds, key=lambda kind: kind != 'ext4'):
                with mounted(kind, top, 6 * args.mib) as place:
                    baseline = versions(kind, Bench(dmv, place), args.mib, baseline)
    finally:
        shutil.rmtree(top, ignore_errors=True)


main()
