#!/usr/bin/env python3
"""Measures imports from Git and exports to it, beside Git itself: benches/git.py DMV DIR [COMMITS [RUNS]].

Makes a history of text in DIR, unless DIR has it already: 2,000 files in 200 directories; each commit changes three
of them, and each twentieth merges a branch. Prints the median of the runs in seconds, of CPU time and of the clock,
the peak of memory, and the sizes. Then measures `log -- PATH`, `blame` and `status` beside Git before and after
`repack`, and `repack` beside Git's ways to make a repository small.
"""
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import time

dmv, top = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
commits = int(sys.argv[3]) if len(sys.argv) > 3 else 20000
runs = int(sys.argv[4]) if len(sys.argv) > 4 else 3
random.seed(7)
env = dict(os.environ, HOME=top, XDG_CONFIG_HOME=top, DMV_USER_NAME='a', DMV_USER_EMAIL='a@x',
           GIT_CONFIG_GLOBAL='/dev/null')
source = top + '/source.git'
words = [''.join(random.choice('abcdefghijklmnopqrstuvwxyz') for _ in range(random.randrange(2, 10))) for _ in range(4000)]


def line():
    return ' '.join(random.choice(words) for _ in range(random.randrange(3, 12))) + '\n'


def make():
    subprocess.run(['git', 'init', '-q', '--bare', '-b', 'main', source], env=env, check=True)
    git = subprocess.Popen(['git', '-C', source, 'fast-import', '--quiet'], stdin=subprocess.PIPE, env=env)
    files = {f'd{n % 200}/f{n}.txt': [line() for _ in range(random.randrange(20, 300))] for n in range(2000)}

    def write(path):
        text = ''.join(files[path]).encode()
        git.stdin.write(b'M 100644 inline %s\ndata %d\n' % (path.encode(), len(text)) + text + b'\n')

    for c in range(commits):
        head = b'commit refs/heads/%s\nmark :%d\n' % (b'side' if c % 20 == 18 else b'main', c + 1)
        git.stdin.write(head + b'author A <a@x> %d +0100\ncommitter A <a@x> %d +0100\n' % (10**9 + c, 10**9 + c))
        message = line().encode()
        git.stdin.write(b'data %d\n' % len(message) + message)
        if c:
            git.stdin.write(b'from :%d\n' % (c - 1 if c % 20 == 19 and c > 1 else c))
        if c % 20 == 19:
            git.stdin.write(b'merge :%d\n' % c)
        for path in files if c == 0 else random.sample(sorted(files), 3):
            text = files[path]
            for _ in range(3):
                text[random.randrange(len(text))] = line()
            text.insert(random.randrange(len(text)), line())
            write(path)
    git.stdin.close()
    assert git.wait() == 0
    subprocess.run(['git', '-C', source, 'gc', '-q', '--aggressive'], env=env, check=True)


def timed(command, **how):
    """Returns the seconds of CPU time and of the clock, and the peak of memory in MiB."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **how)
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0, command
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return cpu, time.time() - start, used.ru_maxrss / 1024


def size(path):
    return int(subprocess.check_output(['du', '-s', '--block-size=1000', path]).split()[0]) / 1000


def fresh(path):
    shutil.rmtree(path, ignore_errors=True)
    return path


if not os.path.exists(source):
    make()
film, back, again = top + '/film', top + '/back.git', top + '/again.git'
stream = top + '/stream'
with open(stream, 'wb') as out:
    subprocess.run(['git', '-C', source, 'fast-export', '--all'], env=env, check=True, stdout=out)


def show(work, times=runs):
    rows = {}
    for _ in range(times):
        for name, run in work.items():
            rows.setdefault(name, []).append(run())
    for name, row in rows.items():
        cpu, clock, memory = (statistics.median(column) for column in zip(*row))
        print(f'{name:<36} {cpu:9.3f} {clock:9.3f} {memory:8.0f}', flush=True)


def show_reads():
    """Measures commands that read the history, in clones with a worktree."""
    path, git, own = 'd7/f7.txt', top + '/work.git', top + '/work'
    subprocess.run(['git', 'clone', '-q', source, fresh(git)], env=env, check=True)
    subprocess.run([dmv, 'clone', '-q', film, fresh(own)], env=env, check=True, stdout=subprocess.DEVNULL)
    show({
        'git log -- PATH': lambda: timed(['git', '-C', source, 'log', 'main', '--', path]),
        'dmv log -- PATH': lambda: timed([dmv, '-C', film, 'log', 'main', '--', path]),
        'git blame': lambda: timed(['git', '-C', source, 'blame', 'main', '--', path]),
        'dmv blame': lambda: timed([dmv, '-C', film, 'blame', 'main', path]),
        'git status': lambda: timed(['git', '-C', git, 'status']),
        'dmv status': lambda: timed([dmv, '-C', own, 'status']),
    }, 15)


print(f'{commits} commits, median of {runs}: seconds of CPU time, of the clock, MiB at the peak')
told = subprocess.check_output([dmv, 'import', 'git', source, top + '/none', '--dry-run'], env=env, text=True)
print(f'the dry run says: {told}', end='', flush=True)
show({
    'git fast-export --all > /dev/null': lambda: timed(['git', '-C', source, 'fast-export', '--all']),
    'dmv import git --dry-run': lambda: timed([dmv, 'import', 'git', source, top + '/none', '--dry-run']),
    'dmv import git': lambda: timed([dmv, 'import', 'git', source, fresh(film), '--bare']),
    'dmv import git, nothing new': lambda: timed([dmv, '-C', film, 'import', 'git', source]),
    'git fast-import': lambda: (subprocess.run(['git', 'init', '-q', '--bare', fresh(again)], env=env, check=True),
                                timed(['git', '-C', again, 'fast-import', '--quiet'], stdin=open(stream)))[1],
    'dmv export --git': lambda: timed([dmv, '-C', film, 'export', '--git', fresh(back)]),
})
refs = ['for-each-ref', '--format=%(objectname) %(refname)']
same = [subprocess.check_output(['git', '-C', where] + refs, env=env) for where in (source, back)]
print('the same ids' if same[0] == same[1] else 'OTHER IDS')
show_reads()
print(f'MB: git gc --aggressive {size(source):.1f}, dmv {size(film):.1f}', end='')
print(f', git fast-import {size(again):.1f}')
show({'git repack -adq': lambda: timed(['git', '-C', again, 'repack', '-adq']),
      'git gc --aggressive': lambda: timed(['git', '-C', again, 'gc', '--aggressive', '-q']),
      'dmv repack': lambda: timed([dmv, '-C', film, 'repack', '-q'])}, 1)
subprocess.run([dmv, '-C', film, 'gc', '-q'], env=env, check=True, stdout=subprocess.DEVNULL)
print(f'MB after repack: {size(film):.1f}, without the map of ids {size(film) - size(film + "/git.db"):.1f}')
show_reads()
