#!/usr/bin/env python3
"""Measures `dmv api` over its pipes, without the package python/: benches/api_pipe.py DMV DIR [FILES].

DIR has a repository of FILES small files that benches/api.py has made. Prints how long the server takes for `states`, and
its peak memory with a client that sends long requests for eight seconds and reads no answer. It needs Linux, for /proc.
"""
import json
import os
import random
import statistics
import subprocess
import sys
import time

program = os.path.abspath(sys.argv[1])
top = os.path.abspath(sys.argv[2])
files = int(sys.argv[3]) if len(sys.argv) > 3 else 100000
os.environ.update(HOME=top, XDG_CONFIG_HOME=top, DMV_USER_NAME='a', DMV_USER_EMAIL='a@x')
random.seed(3)


def start():
    command = [program, '-C', top + '/work', 'api']
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)


def request(number, method, paths):
    params = {'paths': paths, 'raw': True}
    return json.dumps({'jsonrpc': '2.0', 'id': number, 'method': method, 'params': params}).encode() + b'\n'


def read_line(server):
    line = b''
    while not line.endswith(b'\n'):
        line += os.read(server.stdout.fileno(), 1 << 20)


def name(n):
    return f'd{n // 100}/f{n}'


def show_states(server, what, paths):
    times = []
    for number in range(3000):
        line = request(number, 'states', paths())
        begin = time.perf_counter()
        server.stdin.write(line)
        read_line(server)
        times.append(time.perf_counter() - begin)
    times = sorted(times[500:])
    median, late = statistics.median(times), times[len(times) * 99 // 100]
    print(f'states of {what:<40} {median * 1000:6.2f} ms, 99 %: {late * 1000:6.2f}', flush=True)


def show_unread(what, method, paths):
    server = start()
    os.set_blocking(server.stdin.fileno(), False)
    number, left, end = 0, b'', time.monotonic() + 8
    while time.monotonic() < end:
        if not left:
            left = request(number, method, paths)
            number += 1
        try:
            left = left[os.write(server.stdin.fileno(), left):]
        except BlockingIOError:
            time.sleep(0.02)
    with open(f'/proc/{server.pid}/status') as status:
        peak = next(int(line.split()[1]) for line in status if line.startswith('VmHWM'))
    print(f'nobody reads the answers to {what:<30} {peak // 1024} MiB', flush=True)
    server.stdout.close()
    server.stdin.close()
    server.wait(60)


server = start()
read_line(server)
show_states(server, 'one file', lambda: [name(random.randrange(files))])
show_states(server, '100 files of one directory', lambda: [name(n) for n in range(100)])
show_states(server, '100 files of the whole repository', lambda: [name(random.randrange(files)) for _ in range(100)])
server.stdin.close()
server.wait(60)
show_unread('a text of 15 MiB', 'states', ['z' * (15 << 20)])
show_unread('100,000 paths of 146 bytes', 'states', [f'{"z" * 140}{n:06}' for n in range(100000)])
show_unread('15 paths of 1 MiB', 'log', ['z' * (1 << 20)] * 15)
