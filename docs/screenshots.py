#!/usr/bin/env python3
"""Makes the pictures of docs/guide/web.md: docs/screenshots.py DMV [--all DIR].

Needs Chromium with its driver, and ffmpeg, which also makes the pictures and the sound of the example. With --all it
writes each page in light and dark at the widths of a phone, a laptop and a 4K screen into DIR instead, to be looked at.
"""
import argparse
import base64
import http.client
import json
import os
import shutil
import subprocess
import tempfile
import time

ap = argparse.ArgumentParser()
ap.add_argument('dmv')
ap.add_argument('--all', metavar='DIR')
args = ap.parse_args()
here = os.path.dirname(os.path.abspath(__file__))
top = tempfile.mkdtemp(prefix='dmv-example-')
# Commands are shown as they were typed.
os.makedirs(top + '/bin')
program = shutil.copy(args.dmv, top + '/bin/dmv')
root = top + '/short-film'
clock = ['2026-11-02', 9]
env = dict(os.environ, HOME=top, XDG_CONFIG_HOME=top, XDG_CACHE_HOME=top, TZ='UTC', DMV_USER_NAME='Mira', DMV_USER_EMAIL='mira@example.org')


def dmv(*words, at=root, check=True):
    subprocess.run([program, *words], cwd=at, env=env, check=check, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def draw(name, source, *filters):
    path = f'{root}/{name}'
    os.makedirs(os.path.dirname(path), exist_ok=True)
    chain = ['-vf', ','.join(filters)] if filters else []
    subprocess.run(['ffmpeg', '-loglevel', 'error', '-y', '-f', 'lavfi', '-i', source, *chain, '-frames:v', '1', path], check=True)


def fractal(x, y, scale):
    return f'mandelbrot=s=1280x720:start_x={x}:start_y={y}:start_scale={scale}:end_scale={scale}:inner=mincol'


def example():
    subprocess.run([args.dmv, 'init', '-q', root], env=env, check=True)
    warm = 'colorchannelmixer=1.1:0.2:0:0:0.1:0.9:0:0:0:0.1:0.7'
    draw('titles/title.png', fractal(-0.743643, -0.131825, 0.02), 'hue=s=0.35')
    draw('matte/valley.png', fractal(-0.1592, -1.0317, 0.03), 'hue=h=40:s=0.6')
    for n in [1001, 1002, 1003, 1005, 1006]:
        draw(f'shots/s010/s010.{n}.tga', fractal(-0.7453, -0.1127, 0.03 - (n - 1000) * 0.002), 'scale=640:-1', 'hue=h=190:s=0.5')
    draw('matte/harbour.exr', fractal(-1.25066, -0.02012, 0.006), 'hue=h=120:s=0.4', 'format=gbrpf32le')
    subprocess.run(['ffmpeg', '-loglevel', 'error', '-y', '-f', 'lavfi', '-i', 'aevalsrc=sin(440*2*PI*t)*exp(-mod(t\\,0.5)*5):d=4', f'{root}/theme.wav'], check=True)
    open(root + '/notes.md', 'w').write('# Short film\n\nScene 10 opens above the valley.\nThe title stays for four seconds.\n')
    dmv('commit', '-m', 'First look of all shots')
    draw('titles/title.png', fractal(-0.743643, -0.131825, 0.02), 'hue=s=0.6', warm)
    dmv('commit', '-m', 'Warmer title')
    dmv('branch', 'night')
    draw('matte/valley.png', fractal(-0.1592, -1.0317, 0.026), 'hue=h=30:s=0.8', warm)
    open(root + '/notes.md', 'a').write('The valley is closer now.\n')
    dmv('commit', '-m', 'Valley: closer, and evening light')
    subprocess.run(['ffmpeg', '-loglevel', 'error', '-y', '-f', 'lavfi', '-i', 'aevalsrc=sin(330*2*PI*t)*exp(-mod(t\\,0.5)*3):d=4', f'{root}/theme.wav'], check=True)
    dmv('commit', '-m', 'Theme: lower, with longer notes')
    subprocess.run([args.dmv, 'clone', '-q', root, top + '/nas'], env=env, check=True, stdout=subprocess.DEVNULL)
    dmv('remote', 'add', 'nas', top + '/nas')
    dmv('fetch', 'nas')
    dmv('checkout', 'night')
    draw('matte/valley.png', fractal(-0.1592, -1.0317, 0.03), 'hue=h=210:s=0.7', 'eq=brightness=-0.12')
    dmv('commit', '-m', 'Valley at night')
    dmv('checkout', 'main')
    dmv('merge', 'night', check=False)
    draw('titles/title.png', fractal(-0.743643, -0.131825, 0.018), 'hue=s=0.6', warm)
    open(root + '/shots/todo.txt', 'w').write('s020: rain\n')
    draw('titles/credits.png', fractal(-0.7435, -0.1314, 0.004), 'hue=h=300:s=0.5')
    for n in range(1001, 1013):
        draw(f'shots/s020/s020.{n}.tga', fractal(-1.7687, -0.0017, 0.03 - (n - 1000) * 0.002), 'scale=640:-1', 'hue=h=20:s=0.6')
    os.rename(root + '/notes.md', root + '/scenes.md')


class Browser:
    def __init__(self):
        self.process = subprocess.Popen(['chromedriver', '--port=19516'], stdout=subprocess.DEVNULL)
        for _ in range(200):
            try:
                self.call('GET', '/status')
                break
            except OSError:
                time.sleep(0.1)
        binary = shutil.which('chromium') or shutil.which('google-chrome')
        options = {'binary': binary, 'args': ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--hide-scrollbars']}
        wanted = {'capabilities': {'alwaysMatch': {'goog:chromeOptions': options}}}
        self.at = '/session/' + self.call('POST', '/session', wanted)['sessionId']

    def call(self, method, path, body=None):
        connection = http.client.HTTPConnection('127.0.0.1', 19516, timeout=120)
        connection.request(method, path, json.dumps(body or {}), {'Content-Type': 'application/json'})
        return json.loads(connection.getresponse().read())['value']

    def tell(self, command, **params):
        return self.call('POST', self.at + '/goog/cdp/execute', {'cmd': command, 'params': params})

    def open(self, url):
        self.call('POST', self.at + '/url', {'url': url})

    def run(self, script):
        return self.call('POST', self.at + '/execute/sync', {'script': script, 'args': []})

    def view(self, width, height, scheme):
        self.tell('Emulation.setDeviceMetricsOverride', width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.tell('Emulation.setEmulatedMedia', features=[{'name': 'prefers-color-scheme', 'value': scheme}, {'name': 'prefers-reduced-motion', 'value': 'reduce'}])

    def reached(self, part):
        """Waits until the address has `part`, and returns it without the server's."""
        for _ in range(600):
            address = self.run('return location.href')
            if part in address:
                return address[len(base):]
            time.sleep(0.05)
        raise SystemExit(f'{part} is not reached: {address}')

    def shoot(self, path, whole=False):
        """Waits for pictures and late parts, and saves what is seen; or all of the page, up to 2,400 pixels."""
        for _ in range(600):
            if self.run('return !document.querySelector("[data-load]") && [...document.images].every((i) => i.complete || i.loading === "lazy" && i.getBoundingClientRect().top > innerHeight)'):
                break
            time.sleep(0.05)
        time.sleep(0.4)
        clip = {}
        if whole:
            width, height = self.run('return [innerWidth, Math.min(2400, document.documentElement.scrollHeight)]')
            clip = {'clip': {'x': 0, 'y': 0, 'width': width, 'height': height, 'scale': 1}, 'captureBeyondViewport': True}
        png = base64.b64decode(self.tell('Page.captureScreenshot', format='png', **clip)['data'])
        if path.endswith('.png'):
            open(path, 'wb').write(png)
            return
        subprocess.run(['ffmpeg', '-loglevel', 'error', '-y', '-f', 'image2pipe', '-i', '-', '-c:v', 'libwebp', '-quality', '60', path], input=png, check=True)


def shoot_all(pages):
    for scheme in ['light', 'dark']:
        for width, height in [(360, 900), (1440, 900), (3840, 2160)]:
            browser.view(width, height, scheme)
            for name, target in pages.items():
                browser.open(base + target)
                browser.shoot(f'{args.all}/{name}-{width}-{scheme}.png', whole=width < 2000)


example()
server = subprocess.Popen([args.dmv, '-C', root, 'web', '--json'], env=env, stdout=subprocess.PIPE)
url = json.loads(server.stdout.readline())['url']
base = url[:url.index('/in/')]
browser = Browser()
try:
    browser.open(url)
    compare = '/compare?a=@~2:titles/title.png&b=:titles/title.png'
    if args.all:
        os.makedirs(args.all, exist_ok=True)
        pages = {'overview': '/', 'log': '/log', 'tree': '/tree/@', 'grid': '/tree/@/matte?view=grid', 'sequence': '/tree/@/shots/s010',
                 'file': '/file/@/titles/title.png', 'exr': '/file/@/matte/harbour.exr', 'sound': '/file/@/theme.wav', 'text': '/file/@/notes.md',
                 'compare': compare, 'compare-text': '/compare?a=@~3:notes.md&b=@:notes.md', 'compare-sound': '/compare?a=@~3:theme.wav&b=@:theme.wav',
                 'compare-commits': '/compare?a=@~2:&b=@:', 'conflicts': '/conflicts', 'copies': '/copies', 'none': '/none', 'idle': '/doing'}
        shoot_all(pages)
        # A file with a hole: nobody commits it in the time of a picture.
        with open(root + '/huge.bin', 'wb') as f:
            f.truncate(256 << 30)
        browser.open(base)
        browser.run('document.getElementById("message").value = "Huge"; document.querySelector("form.commit").requestSubmit()')
        shoot_all({'doing': browser.reached('/doing')})
        browser.run('document.querySelector("form.stop").requestSubmit()')
        shoot_all({'stopped': browser.reached('note=')})
    else:
        out = here + '/guide/web'
        os.makedirs(out, exist_ok=True)
        browser.view(1160, 720, 'light')
        for name, target, script in [
                ('overview', '/', ''),
                ('history', '/log', ''),
                ('compare', compare, 'document.querySelector("[data-mode=swipe]").click()'),
                ('conflicts', '/conflicts', '')]:
            browser.open(base + target)
            if script:
                time.sleep(0.5)
                browser.run(script)
            browser.shoot(f'{out}/{name}.webp')
            size = os.path.getsize(f'{out}/{name}.webp')
            print(f'{name}.webp: {size / 1024:.1f} KiB')
            assert size < 60 << 10, name
finally:
    browser.call('DELETE', browser.at)
    browser.process.terminate()
    server.terminate()
    shutil.rmtree(top)
