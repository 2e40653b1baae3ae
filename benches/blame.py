#!/usr/bin/env python3
"""Measures `blame` of a file of 10,000 lines, beside Git: benches/blame.py DMV DIR [COMMITS [RUNS]].

Makes the same history in DIR for both, unless DIR has it already, and prints the time and the CPU time of each run.
"""
import os
import random
import resource
import statistics
import subprocess
import sys
import time

dmv, top = sys.argv[1], sys.argv[2]
commits = int(sys.argv[3]) if len(sys.argv) > 3 else 5000
runs = int(sys.argv[4]) if len(sys.argv) > 4 else 7
random.seed(7)
env = dict(os.environ, HOME=top, XDG_CONFIG_HOME=top,
           DMV_USER_NAME='a', DMV_USER_EMAIL='a@x', GIT_CONFIG_GLOBAL='/dev/null')
w, g = top + '/d', top + '/g'
if not os.path.exists(g):
    os.makedirs(w)
    quiet = dict(env=env, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([dmv, 'init', w, '-q'], **quiet)
    subprocess.run(['git', 'init', '-q', '-b', 'main', g], **quiet)
    git = subprocess.Popen(['git', '-C', g, 'fast-import', '--quiet'], stdin=subprocess.PIPE, env=env)
    n = 0
    def line():
        global n
        n += 1
        return f'line {n} of the text {random.randrange(10**9)}\n'
    text = [line() for _ in range(10000)]
    for c in range(commits):
        for _ in range(random.randrange(1, 5) if c else 0):
            k, at = random.randrange(4), random.randrange(len(text))
            if k == 0: text.insert(at, line())
            elif k == 1: del text[at]
            else: text[at] = line()
        s = ''.join(text).encode()
        open(w + '/text', 'wb').write(s)
        subprocess.run([dmv, '-C', w, 'commit', '-q', '-m', f'c{c}'], **quiet)
        git.stdin.write(b'commit refs/heads/main\ncommitter t <t> %d +0000\ndata 0\nM 100644 inline text\ndata %d\n' % (1000 + c, len(s)) + s + b'\n')
    git.stdin.close()
    assert git.wait() == 0
    subprocess.run(['git', '-C', g, 'gc', '-q'], **quiet)

def timed(command):
    """Returns the seconds of a command: by the clock, and of CPU time."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return time.time() - start, cpu


times = {'dmv': [], 'git': []}
for _ in range(runs):
    times['dmv'].append(timed([dmv, '-C', w, 'blame', 'text']))
    times['git'].append(timed(['git', '-C', g, 'blame', 'main', '--', 'text']))
for n, word in enumerate(('seconds', 'of CPU time')):
    for name, found in times.items():
        column = [run[n] for run in found]
        print(f'{name}: {statistics.median(column):.2f} ({min(column):.2f}-{max(column):.2f}) {word}')
