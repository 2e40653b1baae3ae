#!/usr/bin/env python3
"""Measures how space comes back, beside restic and Git. DIR is made, and removed at the end.

  benches/space.py DMV DIR versions V1 V2 ...   versions of a directory, one in place of the other: sizes, repack,
                                                export without it, after one, and after one for each commit
  benches/space.py DMV DIR saves XCF...         the same with versions of one file (benches/xcf-saves.scm makes some)
  benches/space.py DMV DIR line V1 V2 ...       bytes from the server when a follower fetches each version over ssh, and
                                                when a new clone gets all of them
  benches/space.py DMV DIR small FILES          gc: every second of FILES files of 200 bytes is garbage
  benches/space.py DMV DIR medium MIB           gc: every second file of 20 KiB is garbage
  benches/space.py DMV DIR large MIB            gc: every second file of 4 MiB is garbage
  benches/space.py DMV DIR beside FILES         commit, status and log while gc and repack run in turn
  benches/space.py DMV DIR commits LONG_HISTORY N   repack of N single commits, made by the example `long_history`

For gc, names of tools after the number limit the run to these: dmv, restic, git. It needs three times the
content in free space. A step of another tool that takes longer than 25 minutes is stopped, and its row says so.

Prints Markdown rows: seconds by the clock, seconds of CPU time, peak memory, bytes. Leaves out tools that are not
installed.
"""
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time

dmv, top, what, rest = os.path.realpath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3], sys.argv[4:]
env = dict(os.environ, HOME=top, XDG_CONFIG_HOME=top, XDG_CACHE_HOME=top + '/cache', GIT_CONFIG_GLOBAL='/dev/null',
           DMV_USER_NAME='a', DMV_USER_EMAIL='a@x', RESTIC_PASSWORD='x', GIT_AUTHOR_NAME='a', GIT_AUTHOR_EMAIL='a@x',
           GIT_COMMITTER_NAME='a', GIT_COMMITTER_EMAIL='a@x')
MIB = 1 << 20
# The length of each file for measuring gc.
BYTES = {'small': 200, 'medium': 20 << 10, 'large': 4 << 20}
# The longest time of a step of another tool, in seconds by the clock.
LIMIT = 25 * 60


class TooLong(Exception):
    """A step was stopped. It has the figures until then."""


def run(command, cwd=None, out=os.devnull, limit=None):
    """Returns seconds by the clock, seconds of CPU time, and peak memory in MiB."""
    start = time.time()
    with open(out, 'w') as output:
        child = subprocess.Popen(command, cwd=cwd, env=env, stdout=output, start_new_session=limit is not None)
    stopped = False
    try:
        while limit is not None and not os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG):
            stopped = time.time() - start > limit
            if stopped:
                os.killpg(child.pid, signal.SIGKILL)
                break
            time.sleep(0.02)
    except KeyboardInterrupt:
        os.killpg(child.pid, signal.SIGKILL)
        raise
    _, status, used = os.wait4(child.pid, 0)
    figures = time.time() - start, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
    if stopped:
        raise TooLong(figures)
    if code := os.waitstatus_to_exitcode(status):
        sys.exit(f'{command}: exit code {code}')
    return figures


def row(tool, work, figures, note=''):
    wall, cpu, peak = figures
    print(f'| {tool} | {work} | {wall:.2f} | {cpu:.2f} | {peak:.0f} | {note} |', flush=True)


def size(path):
    """Returns the bytes of all files below a directory. Files with several names count once."""
    # The memory of this program counts as that of the programs that it starts, so it keeps no list of all files.
    seen, total = set(), 0
    for root, _, names in os.walk(path):
        for name in names:
            stat = os.lstat(os.path.join(root, name))
            if stat.st_nlink == 1 or stat.st_ino not in seen:
                total += stat.st_size
            if stat.st_nlink > 1:
                seen.add(stat.st_ino)
    return total


def mb(bytes):
    return f'{bytes / 1e6:.1f} MB'


def has(tool):
    return shutil.which(tool) is not None


def clear(work):
    """Removes the files of a worktree."""
    for name in os.listdir(work):
        if name not in ('.dmv', '.git'):
            path = os.path.join(work, name)
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)


def put(version, work):
    clear(work)
    if os.path.isfile(version):
        shutil.copyfile(version, work + '/scene' + os.path.splitext(version)[1])
    else:
        subprocess.run(['cp', '-r', version + '/.', work], check=True)


def versions(list_of):
    # One repository without repack, one with a single repack, and one with a repack after each commit.
    without, work, copy = (f'{top}/{name}' for name in ('without', 'dmv', 'copy'))
    for repo in (without, work, copy):
        run([dmv, 'init', repo])
    sizes, repacked = [], []
    for n, version in enumerate(list_of):
        put(version, work)
        figures = run([dmv, '-C', work, 'commit', '-q', '-m', f'v{n}'])
        sizes.append(size(work + '/.dmv'))
        for repo in (without, copy):
            put(version, repo)
            run([dmv, '-C', repo, 'commit', '-q', '-m', f'v{n}'])
        row('dmv', 'repack after this commit', run([dmv, '-C', copy, 'repack']), mb(size(copy + '/.dmv')))
        repacked.append(size(copy + '/.dmv'))
    for repo in (without, work, copy):
        clear(repo)
    row('dmv', 'the last commit', figures, ', '.join(map(mb, sizes)))
    steps = [repacked[0]] + [b - a for a, b in zip(repacked, repacked[1:])]
    print('repacked after each version, dmv grew by ' + ', '.join(map(mb, steps)), flush=True)
    row('dmv', 'repack', run([dmv, '-C', work, 'repack']), mb(size(work + '/.dmv')))
    for name, (old, *others) in exports((without, work, copy), len(list_of)):
        print(f'| dmv | export {name} | without repack {old[0]:.2f} s, {old[1]:.2f} CPU, {old[2]:.0f} MiB', end='')
        for kind, new in zip(('after one', 'after one for each commit'), others):
            print(f' | {kind} {new[0]:.2f} s, {new[1]:.2f} CPU, {new[2]:.0f} MiB: speed {old[0] / new[0]:.2f}x, '
                  f'by CPU {old[1] / new[1]:.2f}x', end='')
        print(' |', flush=True)
    for repo in (without, work, copy):
        shutil.rmtree(repo)
    if has('restic'):
        repo, source = top + '/restic', top + '/source'
        os.makedirs(source)
        run(['restic', '-q', 'init', '-r', repo])
        sizes = []
        for version in list_of:
            put(version, source)
            figures = run(['restic', '-q', 'backup', '-r', repo, '.'], cwd=source)
            sizes.append(size(repo))
        row('restic', 'the last backup', figures, ', '.join(map(mb, sizes)))
        shutil.rmtree(repo)
        shutil.rmtree(source)
    if has('git'):
        work = top + '/git'
        run(['git', 'init', '-q', work])
        for n, version in enumerate(list_of):
            put(version, work)
            run(['git', '-C', work, 'add', '-A'])
            run(['git', '-C', work, 'commit', '-q', '-m', f'v{n}'])
        loose = size(work + '/.git')
        row('git', 'repack -adf', run(['git', '-C', work, 'repack', '-q', '-adf']), f'{mb(loose)} -> {mb(size(work + "/.git"))}')
        shutil.rmtree(work)


# An ssh that stays on this machine, and counts the bytes from the other side.
SSH = '''#!/bin/bash
while :; do case "$1" in --) shift; break;; -[oplF]) shift 2;; -*) shift;; *) break;; esac; done
shift
bash -c "$*" | tee >(wc -c >> "$COUNT")
'''


def line(list_of):
    """Bytes that a server sends over ssh: to a follower for each version, and to a new clone at the end."""
    with open(top + '/ssh', 'w') as script:
        script.write(SSH)
    os.chmod(top + '/ssh', 0o755)
    count = top + '/count'
    env.update(COUNT=count, DMV_SSH_COMMAND=top + '/ssh', DMV_SSH_REMOTE=dmv, GIT_SSH_COMMAND=top + '/ssh')

    def counted(command):
        open(count, 'w').close()
        figures = run(command)
        while not open(count).read().endswith('\n'):
            time.sleep(0.01)
        return sum(map(int, open(count).read().split())), figures

    for tool, repacks in (('dmv', True), ('dmv', False), ('git', True)):
        if tool == 'git' and not has('git'):
            continue
        work, follower, clone = (f'{top}/{name}' for name in ('work', 'follower', 'clone'))
        program = [dmv] if tool == 'dmv' else ['git', '-c', 'gc.auto=0', '-c', 'protocol.version=2']
        run([*program, 'init', '-q', work])
        url = f'ssh://host{work}'
        sent = []
        for n, version in enumerate(list_of):
            put(version, work)
            if tool == 'git':
                run([*program, '-C', work, 'add', '-A'])
            run([*program, '-C', work, 'commit', '-q', '-m', f'v{n}'])
            if repacks:
                run([*program, '-C', work, 'repack', *(['-q', '-ad'] if tool == 'git' else [])])
            step = ['-C', follower, 'fetch', '-q', 'origin'] if n else ['clone', '-q', '--bare', url, follower]
            sent.append(counted([*program, *step])[0])
            if tool == 'git' and n == 0:
                # A bare clone fetches nothing by itself.
                run(['git', '-C', follower, 'config', 'remote.origin.fetch', '+refs/heads/*:refs/heads/*'])
        bytes, figures = counted([*program, 'clone', '-q', '--bare', url, clone])
        name = tool + (' repacked after each version' if repacks else ' without repack')
        row(name, 'clone of all versions', figures,
            f'{", ".join(map(mb, sent))} for each version; {mb(bytes)} for all; source {mb(size(work + "/." + tool))}, '
            f'clone {mb(size(clone))}, follower {mb(size(follower))}')
        for repo in (work, follower, clone):
            shutil.rmtree(repo)


def exports(repos, count, runs=5):
    """Returns the medians of exports of the newest, a middle and the oldest version, from the repositories in turn."""
    out = []
    for back in sorted({0, (count - 1) // 2, count - 1}):
        times = [[] for _ in repos]
        for _ in range(runs):
            for of, repo in zip(times, repos):
                of.append(run([dmv, '-C', repo, 'export', f'@~{back}', '--to', top + '/out']))
                shutil.rmtree(top + '/out')
        out.append((f'@~{back}', [[statistics.median(figures) for figures in zip(*of)] for of in times]))
    return out


def fill(work, kind, count):
    random.seed(5)
    for n in range(count):
        dir = f'{work}/d{n // 100:03}' if kind == 'large' else f'{work}/d{n // 1000:04}'
        os.makedirs(dir, exist_ok=True)
        with open(f'{dir}/f{n % 1000:03}', 'wb') as file:
            file.write(random.randbytes(BYTES[kind]))


def halve(work):
    for root, dirs, names in os.walk(work):
        dirs[:] = [d for d in dirs if d not in ('.dmv', '.git')]
        for name in sorted(names)[1::2]:
            os.remove(os.path.join(root, name))


def gc(kind, number, tools):
    """Measures one tool after the other, so that no more than twice the content is on the disk."""
    count = number if kind == 'small' else number * MIB // BYTES[kind]
    steps = {'dmv': gc_of_dmv, 'restic': gc_of_restic, 'git': gc_of_git}
    for tool in tools or steps:
        if tool == 'dmv' or has(tool):
            source = top + '/source'
            os.makedirs(source)
            fill(source, kind, count)
            try:
                steps[tool](source, count, kind)
            except TooLong as stopped:
                row(tool, 'stopped: it did not end', stopped.args[0], f'limit {LIMIT} s')
            for name in os.listdir(top):
                shutil.rmtree(f'{top}/{name}') if os.path.isdir(f'{top}/{name}') else os.remove(f'{top}/{name}')


def gc_of_dmv(source, count, kind):
    run([dmv, 'init', source])
    row('dmv', 'first commit', run([dmv, '-C', source, 'commit', '-q', '-m', 'all']))
    halve(source)
    run([dmv, '-C', source, 'commit', '-q', '--amend', '-m', 'half'])
    run([dmv, '-C', source, 'op', 'expire', '--older', '0s'])
    row('dmv', 'gc --grace 0 --dry-run', run([dmv, '-C', source, 'gc', '--grace', '0', '--dry-run']))
    before = size(source + '/.dmv')
    figures = run([dmv, '-C', source, 'gc', '--grace', '0', '--json'], out=top + '/report')
    after = size(source + '/.dmv')
    freed_row('dmv', 'gc --grace 0', figures, before, after, count, kind)
    with open(top + '/report') as report:
        copied = json.load(report)['copied_bytes']
    print(f'dmv copied {mb(copied)}, {copied / (before - after):.2f} bytes for each byte freed', flush=True)
    figures = run([dmv, '-C', source, 'gc', '--grace', '0'])
    row('dmv', 'gc again', figures, mb(size(source + '/.dmv')))
    row('dmv', 'verify', run([dmv, '-C', source, 'verify']))


def gc_of_restic(source, count, kind):
    repo = top + '/restic'
    restic = ['restic', '-q', '-r', repo]
    run(restic + ['init'])
    row('restic', 'first backup', run(restic + ['backup', '.'], cwd=source, limit=LIMIT))
    halve(source)
    run(restic + ['backup', '.'], cwd=source)
    run(restic + ['forget', '--keep-last', '1'])
    before = size(repo)
    for unused in ((), ('--max-unused', '0')):
        figures = run(restic + ['prune', *unused], limit=LIMIT)
        freed_row('restic', ' '.join(('prune',) + unused), figures, before, size(repo), count, kind)
    shutil.rmtree(repo)


def gc_of_git(source, count, kind):
    git = ['git', '-C', source, '-c', 'core.compression=0', '-c', 'gc.auto=0']
    run(['git', 'init', '-q', source])
    first = run(git + ['add', '-A'], limit=LIMIT)
    run(git + ['commit', '-q', '-m', 'all'])
    row('git', 'first add', first)
    halve(source)
    run(git + ['add', '-A'])
    run(git + ['commit', '-q', '--amend', '-m', 'half'])
    run(git + ['reflog', 'expire', '--expire=now', '--all'])
    before = size(source + '/.git')
    figures = run(git + ['gc', '-q', '--prune=now'], limit=LIMIT)
    freed_row('git', 'gc --prune=now', figures, before, size(source + '/.git'), count, kind)


def freed_row(tool, work, figures, before, after, count, kind):
    garbage = count // 2 * BYTES[kind]
    freed = before - after
    row(tool, work, figures, f'{mb(before)} -> {mb(after)}, {100 * freed / garbage:.0f} % of the garbage\'s content')


def beside(files, samples=60):
    work = top + '/dmv'
    os.makedirs(work)
    fill(work, 'small', files)
    run([dmv, 'init', work])
    run([dmv, '-C', work, 'commit', '-q', '-m', 'all'])
    works = {
        'commit': lambda n: (open(f'{work}/d0000/f000', 'w').write(f'{n} {time.time()}'),
                             run([dmv, '-C', work, 'commit', '-q', '-m', 'c', 'd0000/f000'])[0])[1],
        'status': lambda n: run([dmv, '-C', work, 'status'])[0],
        'log -n 20': lambda n: run([dmv, '-C', work, 'log', '-n', '20'])[0],
    }
    def measure():
        out = {name: [] for name in works}
        for n in range(samples):
            for name, step in works.items():
                out[name].append(step(n))
        return out
    measure()
    idle = measure()
    script = (f'while [ ! -e {top}/stop ]; do '
              f'{dmv} -C {work} op expire --older 0s; {dmv} -C {work} gc --grace 0; {dmv} -C {work} repack; '
              f'echo >> {top}/rounds; done')
    # What nothing needs, so that gc has something to move in each round.
    busy = subprocess.Popen(['sh', '-c', script], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with_gc = measure()
    open(top + '/stop', 'w')
    busy.wait()
    rounds = len(open(top + '/rounds').readlines())
    for name in works:
        a, b = sorted(idle[name]), sorted(with_gc[name])
        p99 = lambda list: list[min(len(list) - 1, int(len(list) * 0.99))]
        print(f'| {name} | {1000 * statistics.median(a):.1f} ms, p99 {1000 * p99(a):.1f} '
              f'| {1000 * statistics.median(b):.1f} ms, p99 {1000 * p99(b):.1f} '
              f'| {statistics.median(b) / statistics.median(a):.2f}x, p99 {p99(b) / p99(a):.2f}x |', flush=True)
    print(f'{rounds} rounds of op expire, gc and repack meanwhile')


def commits(history, count):
    work, git = top + '/dmv', top + '/git'
    os.makedirs(git)
    run(['git', 'init', '-q', '-b', 'main', '--bare', git])
    start = time.time()
    made = subprocess.Popen([history, work, str(count), 'single'], stdout=subprocess.PIPE, env=env)
    # Loose objects, as single commits leave them.
    imported = subprocess.Popen(['git', '-C', git, '-c', 'fastimport.unpackLimit=100000000', 'fast-import', '--quiet'],
                                stdin=made.stdout, env=env)
    assert made.wait() == 0 and imported.wait() == 0
    print(f'made in {time.time() - start:.0f} s: dmv {mb(size(work))}, git {mb(size(git))}')
    row('dmv', 'repack', run([dmv, '-C', work, 'repack']), mb(size(work)))
    row('git', 'repack -ad', run(['git', '-C', git, 'repack', '-q', '-ad']), mb(size(git)))
    run(['git', '-C', git, 'prune-packed', '-q'])
    run(['git', '-C', git, 'commit-graph', 'write', '--reachable'])
    for name in ('log -- d07/f3', 'log'):
        for tool, command in (('dmv', [dmv, '-C', work]), ('git', ['git', '-C', git])):
            full = command + name.split()
            if tool == 'git' and '--' in full:
                full.insert(full.index('--'), 'main')
            times = sorted(run(full) for _ in range(7))
            row(tool, name, times[3])


os.makedirs(top)
try:
    if what in ('versions', 'saves'):
        versions([os.path.realpath(path) for path in rest])
    elif what == 'line':
        line([os.path.realpath(path) for path in rest])
    elif what in BYTES:
        gc(what, int(rest[0]), rest[1:])
    elif what == 'beside':
        beside(int(rest[0]))
    elif what == 'commits':
        commits(os.path.realpath(rest[0]), int(rest[1]))
    else:
        sys.exit(__doc__)
finally:
    shutil.rmtree(top, ignore_errors=True)
