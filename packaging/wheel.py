#!/usr/bin/env python3
"""Makes the wheel of the Python package with the program in it: packaging/wheel.py PROGRAM ARCH DIR NOTICES.

ARCH is that of a static program for Linux, such as x86_64, or the tag of another platform, such as win_amd64.

It is what maturin makes of `bindings = "bin"`, from a program that is there already: `pip install` puts `dmv` into the
directory of programs, beside the package. NOTICES is a file with the licences of the program's parts. Only Python's own
library is needed, and the same files give the same bytes.
"""
import base64
import hashlib
import os
import re
import sys
import time
import zipfile

here = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'python')
program, arch, out, notices = sys.argv[1:]


def value(text, name):
    return re.search(rf'^{name} = "(.*)"$', text, re.M).group(1)


def table(text, header):
    """The pairs of a table of pyproject.toml: Python before 3.11 reads no TOML."""
    body = re.search(rf'^\[{re.escape(header)}\]\n(.*?)(?=^\[|\Z)', text, re.M | re.S).group(1)
    return re.findall(r'^"?([\w.-]+)"? = (.*)$', body, re.M)


def read(path):
    with open(path, 'rb') as file:
        return file.read()


project = read(os.path.join(here, 'pyproject.toml')).decode()
name, version = value(project, 'name').replace('-', '_'), value(project, 'version')
if arch.startswith(('win_', 'macosx_')):
    tags = [f'py3-none-{arch}']
else:
    # The program is static, so it runs with every C library.
    tags = [f'py3-none-manylinux_2_17_{arch}', f'py3-none-manylinux2014_{arch}', f'py3-none-musllinux_1_1_{arch}']
script = 'dmv.exe' if arch.startswith('win_') else 'dmv'
platforms = '.'.join(tag.rsplit('-', 1)[1] for tag in tags)
metadata = [
    'Metadata-Version: 2.1',
    f'Name: {value(project, "name")}',
    f'Version: {version}',
    f'Summary: {value(project, "description")}',
    'License: MIT OR Apache-2.0',
    f'Requires-Python: {value(project, "requires-python")}',
]
for extra, needs in table(project, 'project.optional-dependencies'):
    metadata.append(f'Provides-Extra: {extra}')
    metadata += [f'Requires-Dist: {need} ; extra == "{extra}"' for need in re.findall(r'"([^"]+)"', needs)]
metadata += ['Description-Content-Type: text/markdown', '', read(os.path.join(here, 'README.md')).decode()]
entries = [f'{key} = {point.strip(chr(34))}' for key, point in table(project, 'project.entry-points."fsspec.specs"')]

info = f'{name}-{version}.dist-info'
files = {
    f'{name}-{version}.data/scripts/{script}': (read(program), 0o755),
    f'{info}/METADATA': ('\n'.join(metadata).encode(), 0o644),
    f'{info}/WHEEL': (
        '\n'.join(['Wheel-Version: 1.0', 'Generator: dmv', 'Root-Is-Purelib: false'] + [f'Tag: {tag}' for tag in tags]).encode()
        + b'\n', 0o644),
    f'{info}/entry_points.txt': ('\n'.join(['[fsspec.specs]'] + entries + ['']).encode(), 0o644),
}
for one in sorted(os.listdir(os.path.join(here, 'dmv'))):
    if one.endswith('.py') or one == 'py.typed':
        files[f'dmv/{one}'] = (read(os.path.join(here, 'dmv', one)), 0o644)
for one in ('LICENSE-MIT', 'LICENSE-APACHE'):
    files[f'{info}/licenses/{one}'] = (read(os.path.join(here, '..', one)), 0o644)
files[f'{info}/licenses/THIRD-PARTY'] = (read(notices), 0o644)

# A zip file knows no time before 1980.
moment = time.gmtime(max(int(os.environ.get('SOURCE_DATE_EPOCH', time.time())), 315532800))[:6]
record = []
path = os.path.join(out, f'{name}-{version}-py3-none-{platforms}.whl')
with zipfile.ZipFile(path, 'w') as wheel:
    def put(at, content, mode):
        member = zipfile.ZipInfo(at, moment)
        member.external_attr = (0o100000 | mode) << 16
        member.compress_type = zipfile.ZIP_DEFLATED
        wheel.writestr(member, content)

    for at, (content, mode) in sorted(files.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b'=').decode()
        record.append(f'{at},sha256={digest},{len(content)}')
        put(at, content, mode)
    put(f'{info}/RECORD', '\n'.join(record + [f'{info}/RECORD,,', '']).encode(), 0o644)
print(path)
