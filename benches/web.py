#!/usr/bin/env python3
"""Measures the pages of `dmv web`: benches/web.py DMV DIR [--history PROGRAM] [--only NAMES] [--runs N].

Makes its repositories in DIR unless they are there: a directory of 100,000 files, a tree of 100,000 files, 500 JPEGs of 12 megapixels
(needs ffmpeg), a file of 1 GiB, and with --history (the example long_history of dmv-benches) 100,000 commits.
Prints a table with the figures that issue and documents ask for. With chromedriver it also measures in Chromium. A
static server for comparison is nginx if it is there, else the one of Python.
"""
import argparse
import concurrent.futures
import http.client
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import time

FILES, COMMITS, PHOTOS, BIG = 100_000, 100_000, 500, 1 << 30
ap = argparse.ArgumentParser()
ap.add_argument('dmv')
ap.add_argument('dir')
ap.add_argument('--history', help='the program long_history')
ap.add_argument('--only', default='start,wide,history,overview,weight,photos,big,browser')
ap.add_argument('--runs', type=int, default=9)
args = ap.parse_args()
top, only = os.path.abspath(args.dir), args.only.split(',')
env = dict(os.environ, HOME=top, XDG_CONFIG_HOME=top, XDG_CACHE_HOME=top + '/cache', DMV_USER_NAME='a', DMV_USER_EMAIL='a@x')
rows = []


def note(what, figure, goal=''):
    rows.append((what, figure, goal))
    print(f'{what:66} {figure:26} {goal}', flush=True)


def run(*command, **more):
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL, **more)


def made(name, fill):
    """A repository in DIR whose files `fill` makes."""
    root = f'{top}/{name}'
    if not os.path.exists(root + '/.made'):
        shutil.rmtree(root, ignore_errors=True)
        run(args.dmv, 'init', '-q', root)
        fill(root)
        run(args.dmv, '-C', root, 'commit', '-q', '-m', 'all')
        open(root + '/.dmvignore', 'w').write('.made\n')
        run(args.dmv, '-C', root, 'commit', '-q', '-m', 'ignore')
        open(root + '/.made', 'w').close()
    return root


class Pages:
    """A server and a client with its cookie."""

    def __init__(self, root, cpu=None):
        begun = time.perf_counter()
        self.process = subprocess.Popen([args.dmv, '-C', root, 'web', '--json'], env=env, stdout=subprocess.PIPE)
        told = json.loads(self.process.stdout.readline())
        self.port, self.url = told['port'], told['url']
        self.connection = http.client.HTTPConnection('127.0.0.1', self.port)
        self.connection.request('GET', self.url[self.url.index('/in/'):])
        answer = self.connection.getresponse()
        answer.read()
        self.started = time.perf_counter() - begun
        self.cookie = {'Cookie': answer.getheader('Set-Cookie').split(';')[0]}

    def ask(self, target, connection=None, **headers):
        connection = connection or self.connection
        connection.request('GET', target, headers={**self.cookie, **headers})
        return connection.getresponse()

    def get(self, target, connection=None, **headers):
        answer = self.ask(target, connection, **headers)
        body = answer.read()
        assert answer.status in (200, 206), (target, answer.status, body[:200])
        return body

    def timed(self, target):
        begun = time.perf_counter()
        body = self.get(target)
        return (time.perf_counter() - begun) * 1000, len(body)

    def memory(self):
        status = open(f'/proc/{self.process.pid}/status').read()
        return int(re.search(r'VmHWM:\s+(\d+)', status)[1]) / 1024

    def end(self):
        self.process.terminate()
        self.process.wait()


def spread(times, unit='ms', digits=1):
    return f'{statistics.median(times):.{digits}f} {unit} ({min(times):.{digits}f}-{max(times):.{digits}f})'


def page(root, what, target, goal, memory_goal=None):
    """The first load of a page in a fresh server, later loads, its size and the memory of the server."""
    first, later = [], []
    for _ in range(args.runs):
        pages = Pages(root)
        ms, size = pages.timed(target)
        first.append(ms)
        later += [pages.timed(target)[0] for _ in range(5)]
        memory = pages.memory()
        pages.end()
    note(f'{what}: first load', spread(first), goal)
    note(f'{what}: later loads', spread(later), goal)
    note(f'{what}: HTML', f'{size / 1024:.1f} KiB')
    note(f'{what}: peak memory of the server', f'{memory:.0f} MiB', memory_goal or '')


def measure_weight():
    """What a browser loads for a page without pictures: its HTML with the style sheet, the script and the icon, as they are sent."""
    targets = [('deep', 'overview of 100,000 files', '/'), ('wide', 'tree page of 100,000 files', '/tree/@/all'),
               ('wide', '... as a grid', '/tree/@/all?view=grid'), ('wide', 'page of a file', '/file/@/all/part%20000001.dat'),
               ('wide', 'comparison of two commits', '/compare?a=@~1:&b=@:'), ('deep', 'copies', '/copies'), ('deep', 'conflicts', '/conflicts')]
    if args.history:
        targets.append(('history', 'log page of 100,000 commits', '/log'))
    for root, what, target in targets:
        pages = Pages(f'{top}/{root}')
        html = pages.get(target, **{'Accept-Encoding': 'gzip'})
        parts = set(re.findall(r'<(?:link|script)[^>]* (?:href|src)="(/[^"]+)"', html.decode()))
        assert len(parts) == 3, parts
        assets = sum(len(pages.get(part, **{'Accept-Encoding': 'gzip'})) for part in parts)
        note(f'{what}: weight without pictures', f'{(len(html) + assets) / 1024:.1f} KiB', '<= 60 KiB')
        pages.end()


def wide(root):
    os.makedirs(root + '/all')
    for n in range(FILES):
        with open(f'{root}/all/part {n:06}.dat', 'w') as f:
            f.write(str(n))


def deep(root):
    for d in range(100):
        os.makedirs(f'{root}/d{d:02}')
        for n in range(FILES // 100):
            with open(f'{root}/d{d:02}/f{n:04}', 'w') as f:
                f.write(f'{d} {n}')


def photos(root):
    # Each of the first hundred has noise of its own; the others repeat them with a few bytes behind the picture.
    run('ffmpeg', '-loglevel', 'error', '-f', 'lavfi', '-i', 'testsrc2=s=4000x3000:r=1,noise=alls=10:allf=t', '-frames:v', '100',
        '-q:v', '4', '-pix_fmt', 'yuvj420p', '-start_number', '0', root + '/IMG%04dp.jpg')
    for n in range(100, PHOTOS):
        shutil.copy(f'{root}/IMG{n % 100:04}p.jpg', f'{root}/IMG{n:04}p.jpg')
        with open(f'{root}/IMG{n:04}p.jpg', 'ab') as f:
            f.write(str(n).encode())


def big(root):
    with open(root + '/film.mp4', 'wb') as f:
        for _ in range(BIG >> 20):
            f.write(os.urandom(1 << 20))


def measure_start():
    root = made('deep', deep)
    times = []
    for _ in range(args.runs):
        pages = Pages(root)
        times.append(pages.started * 1000)
        pages.end()
    note('start to first answered request', spread(times), '<= 200 ms')


def thumbnails(root):
    """The first screen as a browser loads it: six connections."""
    pages = Pages(root)
    found = re.findall(r'<img class="thumb" src="([^"]+)"', pages.get('/tree/@?view=grid').decode())[:60]
    connections = [http.client.HTTPConnection('127.0.0.1', pages.port) for _ in range(6)]

    def some(n):
        return [pages.get(target, connections[n]) for target in found[n::6]]

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        begun = time.perf_counter()
        got = list(pool.map(some, range(6)))
        seconds = time.perf_counter() - begun
    assert len(found) == 60 and all(body.startswith(b'\xff\xd8') for part in got for body in part)
    pages.end()
    return seconds


def measure_photos():
    root = made('photos', photos)
    cold, warm = [], []
    for _ in range(min(args.runs, 5)):
        shutil.rmtree(top + '/cache', ignore_errors=True)
        cold.append(thumbnails(root))
        warm.append(thumbnails(root))
    size = os.path.getsize(root + '/IMG0001p.jpg') / 1e6
    note(f'60 thumbnails of 12 megapixels ({size:.1f} MB each), cold', spread(cold, 's', 2), '<= 3 s')
    note('60 thumbnails, warm', spread(warm, 's', 3), '<= 0.2 s')


def drain(answer):
    buffer, total, begun = bytearray(1 << 20), 0, time.perf_counter()
    while n := answer.readinto(buffer):
        total += n
    return total / (time.perf_counter() - begun) / (1 << 20)


def static_server(root):
    port = 18231
    if shutil.which('nginx'):
        conf = f'{top}/nginx.conf'
        open(conf, 'w').write(f'daemon off; pid {top}/nginx.pid; error_log stderr crit; worker_processes 1; events {{}}\n'
                              f'http {{ access_log off; sendfile on; server {{ listen 127.0.0.1:{port}; root {root}; }} }}\nuser root;\n')
        command, name = ['nginx', '-c', conf], 'nginx'
    else:
        command, name = [sys.executable, '-m', 'http.server', str(port), '-b', '127.0.0.1', '-d', root], 'http.server'
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(0.7)
    return process, http.client.HTTPConnection('127.0.0.1', port), name


def measure_big():
    root = made('big', big)
    pages = Pages(root)
    connection = http.client.HTTPConnection('127.0.0.1', pages.port)
    seeks = []
    random.seed(3)
    for _ in range(60):
        at = random.randrange(BIG - (8 << 20))
        begun = time.perf_counter()
        answer = pages.ask('/raw/@/film.mp4', connection, Range=f'bytes={at}-')
        answer.read(1)
        seeks.append((time.perf_counter() - begun) * 1000)
        connection.close()
    note('1 GiB file: first byte after a seek', spread(seeks), '<= 20 ms')
    process, static, name = static_server(root)
    speeds = {'page': [], 'cat': [], name: []}
    for _ in range(min(args.runs, 5)):
        answer = pages.ask('/raw/@/film.mp4', connection, Range=f'bytes=1000-{BIG - 1000}')
        speeds['page'].append(drain(answer))
        begun = time.perf_counter()
        cat = subprocess.Popen([args.dmv, '-C', root, 'cat', '@:film.mp4', '--range', f'1000-{BIG - 1000}'], env=env, stdout=subprocess.PIPE, bufsize=0)
        while cat.stdout.read(1 << 20):
            pass
        assert cat.wait() == 0
        speeds['cat'].append(BIG / (time.perf_counter() - begun) / (1 << 20))
        static.request('GET', '/film.mp4', headers={'Range': f'bytes=1000-{BIG - 1000}'})
        speeds[name].append(drain(static.getresponse()))
    process.terminate()
    process.wait()
    note('range of 1 GiB through a page', spread(speeds['page'], 'MiB/s', 0))
    for other, goal in (('cat', 0.8), (name, 0.5)):
        ratios = [a / b for a, b in zip(speeds['page'], speeds[other])]
        title = 'dmv cat --range' if other == 'cat' else other
        note(f'... compared with {title}, {statistics.median(speeds[other]):.0f} MiB/s', spread(ratios, 'x', 2), f'>= {goal}x')
    note('... peak memory of the server', f'{pages.memory():.0f} MiB')
    pages.end()


def driver(port, method, path, body=None):
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=120)
    connection.request(method, path, json.dumps(body) if body is not None else None, {'Content-Type': 'application/json'})
    return json.loads(connection.getresponse().read())['value']


PAINTS = '''const done = arguments[0], found = {cls: 0, lcp: 0};
new PerformanceObserver((l) => { for (const e of l.getEntries()) if (!e.hadRecentInput) found.cls += e.value; })
  .observe({type: 'layout-shift', buffered: true});
new PerformanceObserver((l) => { for (const e of l.getEntries()) found.lcp = e.startTime; })
  .observe({type: 'largest-contentful-paint', buffered: true});
const wait = () => document.querySelector('[data-load]') ? setTimeout(wait, 20) : setTimeout(() => done(found), 400);
wait();'''


def measure_browser():
    chromium = shutil.which('chromium') or shutil.which('google-chrome')
    if not chromium or not shutil.which('chromedriver'):
        return print('skipped: Chromium and chromedriver are not installed')
    port = 19515
    process = subprocess.Popen(['chromedriver', f'--port={port}'], stdout=subprocess.DEVNULL)
    for _ in range(200):
        try:
            driver(port, 'GET', '/status')
            break
        except OSError:
            time.sleep(0.1)
    options = {'binary': chromium, 'args': ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--window-size=1280,900']}
    session = driver(port, 'POST', '/session', {'capabilities': {'alwaysMatch': {'goog:chromeOptions': options}}})['sessionId']
    at = f'/session/{session}'
    targets = [('deep', 'overview of 100,000 files', '/'), ('wide', 'tree page of 100,000 files', '/tree/@/all'), ('photos', 'grid of photos', '/tree/@?view=grid')]
    if args.history:
        targets.append(('history', 'log page of 100,000 commits', '/log'))
    for root, what, target in targets:
        lcp, cls = [], []
        for _ in range(min(args.runs, 5)):
            pages = Pages(f'{top}/{root}')
            # The cookie is the browser's: the address of the start works once.
            base = f'http://127.0.0.1:{pages.port}'
            driver(port, 'POST', at + '/url', {'url': base + '/none'})
            name, value = pages.cookie['Cookie'].split('=')
            driver(port, 'POST', at + '/cookie', {'cookie': {'name': name, 'value': value}})
            driver(port, 'POST', at + '/url', {'url': base + target})
            found = driver(port, 'POST', at + '/execute/async', {'script': PAINTS, 'args': []})
            lcp.append(found['lcp'])
            cls.append(found['cls'])
            pages.end()
        note(f'{what} in Chromium: largest contentful paint', spread(lcp, 'ms', 0), '<= 500 ms')
        note(f'{what} in Chromium: layout shift, worst', f'{max(cls):.4f}', '0')
    driver(port, 'DELETE', at)
    process.terminate()
    process.wait()


os.makedirs(top, exist_ok=True)
if 'start' in only:
    measure_start()
if 'wide' in only:
    page(made('wide', wide), 'tree page of a directory of 100,000 files', '/tree/@/all', '<= 50 ms', '<= 150 MiB')
if 'history' in only and args.history:
    if not os.path.exists(top + '/history/.dmv'):
        run(args.history, top + '/history', str(COMMITS))
    page(top + '/history', 'log page of 100,000 commits', '/log', '<= 30 ms')
if 'overview' in only:
    page(made('deep', deep), 'overview of a repository of 100,000 files', '/', '')
    page(top + '/deep', '... the part that compares the files', '/worktree?part', '')
if 'weight' in only:
    made('wide', wide), made('deep', deep)
    measure_weight()
if 'photos' in only:
    measure_photos()
if 'big' in only:
    measure_big()
if 'browser' in only:
    measure_browser()
