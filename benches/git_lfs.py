#!/usr/bin/env python3
"""Measures an import from Git LFS beside `git lfs migrate export`: benches/git_lfs.py DMV DIR [COMMITS [FILES [SCALE]]].

Makes a history of COMMITS commits in DIR, unless DIR has it already: each changes one of 500 small texts, and FILES of
them add a pointer of Git LFS. Their random contents have 1 to 50 MB, times SCALE, and lie where Git LFS keeps them.
Needs three times the space of the contents. Prints seconds of CPU time and of the clock, and the peak of memory.
"""
import hashlib
import os
import random
import resource
import shutil
import subprocess
import sys
import time

dmv, top = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
commits, files = (int(n) for n in (sys.argv[3:5] + ['40000', '200'][len(sys.argv[3:5]):]))
scale = float(sys.argv[5]) if len(sys.argv) > 5 else 1.0
random.seed(7)
env = dict(os.environ, HOME=top, XDG_CONFIG_HOME=top, DMV_USER_NAME='a', DMV_USER_EMAIL='a@x',
           GIT_CONFIG_NOSYSTEM='1')
source = top + '/source'


def content():
    """Stores a content, and returns the text of its pointer."""
    size = int(random.randrange(10**6, 50 * 10**6) * scale)
    data = random.randbytes(size)
    name = hashlib.sha256(data).hexdigest()
    place = f'{source}/.git/lfs/objects/{name[:2]}/{name[2:4]}'
    os.makedirs(place, exist_ok=True)
    with open(f'{place}/{name}', 'wb') as out:
        out.write(data)
    return f'version https://git-lfs.github.com/spec/v1\noid sha256:{name}\nsize {size}\n'.encode()


def make():
    subprocess.run(['git', 'init', '-q', '-b', 'main', source], env=env, check=True)
    git = subprocess.Popen(['git', '-C', source, 'fast-import', '--quiet'], stdin=subprocess.PIPE, env=env)
    for c in range(commits):
        changed = [(f'd{c % 50}/f{c % 500}.txt', f'{c} {random.random()}\n'.encode() * 20)]
        if c == 0:
            changed.append(('.gitattributes', b'*.bin filter=lfs diff=lfs merge=lfs -text\n'))
        if c % max(1, commits // files) == 1:
            changed.append((f'media/m{c}.bin', content()))
        who = b'A <a@x> %d +0100\n' % (10**9 + c)
        git.stdin.write(b'commit refs/heads/main\nauthor ' + who + b'committer ' + who + b'data 2\nm\n')
        for path, data in changed:
            git.stdin.write(b'M 100644 inline %s\ndata %d\n' % (path.encode(), len(data)) + data + b'\n')
    git.stdin.close()
    assert git.wait() == 0


def show(name, command, cwd=None):
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
    process = subprocess.Popen(command, env=env, cwd=cwd, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    print(f'{name:<36} {cpu:8.1f} {time.time() - start:8.1f} {used.ru_maxrss / 1024:8.0f}  exit {status >> 8}', flush=True)


if not os.path.exists(source):
    make()
film, rewritten = top + '/film', top + '/rewritten'
print(f'{commits} commits, {files} files: seconds of CPU time, of the clock, MiB at the peak')
shutil.rmtree(film, ignore_errors=True)
show('dmv import git --lfs here', [dmv, 'import', 'git', source, film, '--bare', '--lfs', 'here'])
shutil.rmtree(rewritten, ignore_errors=True)
# It rewrites the repository that it runs in.
subprocess.run(['cp', '-al', source, rewritten], check=True)
show('git lfs migrate export', ['git', 'lfs', 'migrate', 'export', '--everything', '--include=*.bin', '--yes'], rewritten)
size = int(subprocess.check_output(['du', '-s', '--block-size=1000', source + '/.git/lfs']).split()[0]) / 1000
show(f'cp of the contents, {size:.0f} MB', ['cp', '-r', source + '/.git/lfs', top + '/copy'])
shutil.rmtree(top + '/copy')
