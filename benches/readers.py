#!/usr/bin/env python3
"""Measures the memory of `dmv web` while 96 readers with the cookie rest: benches/readers.py DMV.

Each reader asks for a file of 256 MiB, from a place of its own, and reads nothing. The script prints the resident memory
before, while they rest, and after the server has ended them. It needs Linux, for /proc.
"""
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

READERS = 96
FILE_BYTES = 256 << 20
program = os.path.abspath(sys.argv[1])
top = tempfile.mkdtemp(prefix='dmv-stalled-')
root = top + '/film'
env = dict(os.environ, HOME=top, XDG_CONFIG_HOME=top, XDG_CACHE_HOME=top, DMV_USER_NAME='Ada', DMV_USER_EMAIL='ada@example.org')


def resident():
    for line in open(f'/proc/{server.pid}/status'):
        if line.startswith('VmRSS:'):
            return int(line.split()[1]) / 1024
    return 0


def rest(readers, cookie, port):
    """Opens connections that ask for much and read nothing."""
    for n in range(readers):
        # A small buffer, so that the kernel does not take the file for the reader.
        reader = socket.socket()
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.connect(('127.0.0.1', port))
        start = n * FILE_BYTES // readers
        reader.sendall(f'GET /raw/@/film.bin HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: {cookie}\r\nRange: bytes={start}-\r\n\r\n'.encode())
        yield reader


subprocess.run([program, 'init', '-q', root], env=env, check=True)
with open(root + '/film.bin', 'wb') as f:
    for _ in range(FILE_BYTES >> 20):
        f.write(os.urandom(1 << 20))
subprocess.run([program, '-C', root, 'commit', '-q', '-m', 'a film'], env=env, check=True)
server = subprocess.Popen([program, '-C', root, 'web', '--json'], env=env, stdout=subprocess.PIPE)
try:
    address = json.loads(server.stdout.readline())
    port = address['port']
    entry = http.client.HTTPConnection('127.0.0.1', port)
    entry.request('GET', address['url'][address['url'].index('/in/'):])
    cookie = entry.getresponse().getheader('Set-Cookie').split(';')[0]
    entry.close()
    print(f'before: {resident():.0f} MiB')
    readers = list(rest(READERS, cookie, port))
    most = 0
    for _ in range(20):
        time.sleep(0.5)
        most = max(most, resident())
    print(f'{READERS} readers that rest: {most:.0f} MiB')
    # They are ended after 30 s in which they took nothing.
    time.sleep(35)
    print(f'afterwards: {resident():.0f} MiB')
    for reader in readers:
        reader.close()
finally:
    server.terminate()
    server.wait()
    shutil.rmtree(top)
