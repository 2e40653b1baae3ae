#!/usr/bin/env python3
"""Measures `dmv api` by the package python/: benches/api.py DMV DIR [FILES [GIB [CALLS]]].

Makes a repository of FILES small files and one of GIB of noise in DIR, unless DIR has it already. Prints, for each
kind of question, the median and the 99th percentile of many calls, or the speed beside `dmv cat`, and the memory of
the process at the begin and at the end. With CALLS it then makes so many more calls of several kinds, and prints the
memory after each tenth of them.
"""
import os
import random
import statistics
import subprocess
import sys
import threading
import time

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, '..', 'python'))
import dmv

os.environ['DMV'] = program = os.path.abspath(sys.argv[1])
top = os.path.abspath(sys.argv[2])
files, gib, calls = (float(n) for n in (sys.argv[3:6] + ['100000', '1', '0'][len(sys.argv[3:6]):]))
files, size, calls = int(files), int(gib * 2**30), int(calls)
os.environ.update(HOME=top, XDG_CONFIG_HOME=top, DMV_USER_NAME='a', DMV_USER_EMAIL='a@x')
random.seed(5)
work = top + '/work'


def make():
    os.makedirs(top, exist_ok=True)
    subprocess.run([program, 'init', work], check=True, stdout=subprocess.DEVNULL)
    for n in range(files):
        if n % 100 == 0:
            os.makedirs(f'{work}/d{n // 100}', exist_ok=True)
        with open(f'{work}/d{n // 100}/f{n}', 'w') as out:
            out.write(f'{n}\n' * 20)
    with open(f'{work}/large', 'wb') as out:
        for _ in range(size >> 20):
            out.write(random.randbytes(1 << 20))
    subprocess.run([program, '-C', work, 'commit', '-qm', 'all'], check=True)


def resident(pid):
    with open(f'/proc/{pid}/status') as status:
        return next(int(line.split()[1]) // 1024 for line in status if line.startswith('VmRSS'))


def show(what, times):
    times.sort()
    print(f'{what:<52} {statistics.median(times) * 1000:8.2f} ms, 99 %: {times[len(times) * 99 // 100] * 1000:8.2f}',
          flush=True)


def timed(times, work, *args):
    begin = time.perf_counter()
    done = work(*args)
    times.append(time.perf_counter() - begin)
    return done


def name(n):
    return f'd{n // 100}/f{n}'


if not os.path.exists(work):
    make()
starts = []
for _ in range(10):
    def first():
        with dmv.Repository(work) as repo:
            return repo.read('@:d0/f0')
    timed(starts, first)
show('first bytes of a file, with a process of its own', starts)
repo = dmv.Repository(work)
pid = repo._client._process.pid
begin = resident(pid)
for asked in (1, 100):
    times = []
    for _ in range(2000):
        timed(times, repo.states, [name(random.randrange(files)) for _ in range(asked)])
    show(f'states of {asked} of {files} files', times)
times = []
for _ in range(10):
    timed(times, repo.status)
show(f'status of {files} files', times)
times = []
fs = repo.fs('main')
for n in range(10000):
    timed(times, fs.cat_file, name(n % files))
show('a small file of a commit, in order', times)


def checkout(names):
    for one in names:
        with open(f'{work}/{one}', 'rb') as file:
            file.read()


def each(names):
    fs = repo.fs('main')
    for one in names:
        fs.cat_file(one)


def opened(names):
    fs = repo.fs('main')
    for one in names:
        with fs.open(one) as file:
            file.read()


def at_once(names):
    repo.fs('main').cat(names)


def lasted(work, names):
    spent = []
    for _ in range(5):
        before = time.perf_counter()
        work(names)
        spent.append(time.perf_counter() - before)
    return statistics.median(spent)


numbered = [name(n % files) for n in range(10000)]
named = sorted(map(name, range(files)))[:10000]
for order, names in (('names', named), ('numbers', numbered)):
    plain = lasted(checkout, names)
    print(f'10,000 small files in the order of {order}, beside reading them from the checkout in {plain:.2f} s: '
          f'cat_file {lasted(each, names) / plain:.1f} x, open {lasted(opened, names) / plain:.1f} x, '
          f'cat of all {lasted(at_once, names) / plain:.1f} x')
times = []
repo.branch('result')
for n in range(30):
    with open(top + '/result', 'wb') as out:
        out.write(random.randbytes(1 << 20))
    timed(times, lambda: repo.call('commit', message='result', onto='result', put=[f'result={top}/result']))
show(f'commit of 1 MiB onto a branch with {files} files', times)
repo.call('branch', delete='result')
before = time.perf_counter()
subprocess.run([program, '-C', work, 'cat', '@:large'], stdout=subprocess.DEVNULL, check=True)
cat = time.perf_counter() - before
for threads in (1, 8) if size else ():
    def part(k):
        at, buffer = size // threads, bytearray(8 << 20)
        for start in range(k * at, (k + 1) * at, 8 << 20):
            repo.readinto('@:large', buffer, start)
    before = time.perf_counter()
    running = [threading.Thread(target=part, args=(k,)) for k in range(threads)]
    [one.start() for one in running]
    [one.join() for one in running]
    spent = time.perf_counter() - before
    print(f'{size >> 20} MiB in ranges of 8 MiB, {threads} threads: {size / spent / 1e6:.0f} MB/s, {cat / spent:.2f} x dmv cat')
print(f'memory of the process: {begin} MiB at first, {resident(pid)} MiB at the end')

def one_call(n):
    path = name(random.randrange(files))
    kind = n % 20
    if kind == 0:
        repo.log(limit=1)
    elif kind == 1:
        repo.ls(f'@:{path.rpartition("/")[0]}')
    elif kind == 2:
        try:
            repo.read('@:none')
        except dmv.DmvError:
            pass
    elif kind < 10:
        repo.read(f'@:{path}')
    else:
        repo.states([path, name(random.randrange(files))])


for n in range(calls):
    one_call(n)
    if (n + 1) % (calls // 10 or 1) == 0:
        print(f'memory of the process after {n + 1} further calls: {resident(pid)} MiB', flush=True)
