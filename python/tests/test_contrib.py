"""The programs of contrib/."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import dmv
import pytest

CONTRIB = pathlib.Path(__file__).resolve().parents[2] / "contrib"


def skip(why):
    """Say that a test does nothing, also where `.ci/run` lists such tests."""
    if "DMV_SKIPPED" in os.environ:
        with open(os.environ["DMV_SKIPPED"], "a") as skipped:
            skipped.write(f"skipped: {why}\n")
    pytest.skip(f"skipped: {why}")


def start(repo, *options):
    return subprocess.Popen(
        [sys.executable, str(CONTRIB / "mcp" / "dmv_mcp.py"), *options, repo.root],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(CONTRIB.parent / "python")},
    )


def matches(line, expected):
    at = 0
    parts = expected.split("[..]")
    for part in parts:
        found = line.find(part, at)
        if found < 0 or at == 0 and found > 0:
            return False
        at = found + len(part)
    return line.endswith(parts[-1])


def test_the_recorded_exchange_with_an_assistant(repo):
    server = start(repo)
    for line in (CONTRIB / "mcp" / "exchange.txt").read_text().splitlines():
        if line.startswith("> "):
            server.stdin.write(line[2:] + "\n")
            server.stdin.flush()
        elif line.startswith("< "):
            answer = server.stdout.readline().rstrip("\n")
            assert matches(answer, line[2:]), f"{answer}\ninstead of\n{line[2:]}"
    assert server.communicate()[0] == ""
    assert server.returncode == 0


def test_an_assistant_that_may_write_commits_and_no_other_tool_changes_anything(repo):
    server = start(repo, "--write")
    call = {"name": "commit_files", "arguments": {"branch": "main", "message": "by a program", "files": ["new.txt\na\nb"]}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    answers, _ = server.communicate(json.dumps(request) + "\n")
    assert json.loads(answers)["result"]["isError"] is False
    assert repo.read("main:new.txt") == b"a\nb"
    for wrong in ("new.txt", "\ntext"):
        call["arguments"]["files"] = [wrong]
        answers, _ = start(repo, "--write").communicate(json.dumps(request) + "\n")
        assert json.loads(answers)["result"]["isError"] is True, answers
    sys.path.insert(0, str(CONTRIB / "mcp"))
    try:
        import dmv_mcp
    finally:
        sys.path.pop(0)
    before = repo.call("op.log").output
    for name, tool in dmv_mcp.TOOLS.items():
        if not tool.writes:
            arguments = {"path": "notes.txt", "paths": ["notes.txt"]}
            given = {key: value for key, value in arguments.items() if key in tool.required}
            tool.run(repo, **tool.check(given))
    assert repo.call("op.log").output == before


def test_a_directory_for_a_job_and_its_key(repo, tmp_path):
    program = os.environ.get("DMV") or shutil.which("dmv")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "dmv").symlink_to(program)
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    meta = str(tmp_path / "meta")

    def subset(action, *more, code=0, source=repo.root):
        arguments = [str(CONTRIB / "ci" / "subset.sh"), action, source, "main", *more]
        done = subprocess.run(arguments, env={**os.environ, "PATH": path}, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        return done.stdout.strip()

    key = subset("tree", "shots", meta)
    assert len(key) == 64 and subset("tree", "shots/", meta) == key
    subset("fetch", "shots", meta, str(tmp_path / "out"))
    assert sorted(os.listdir(tmp_path / "out")) == ["shots"]
    assert (tmp_path / "out" / "shots" / "b.exr").read_bytes() == b"b" * 1000
    root = pathlib.Path(repo.root)
    (root / "notes.txt").write_text("second\n")
    repo.commit("second")
    assert subset("tree", "shots", meta) == key
    (root / "shots" / "b.exr").write_bytes(b"c")
    repo.commit("third")
    assert subset("tree", "shots", meta) != key
    subset("fetch", "shots", meta, code=2)
    # Another repository with the same directory for its listing.
    other = str(tmp_path / "other")
    subprocess.run([program, "init", other], check=True, capture_output=True)
    with dmv.Repository(other) as second:
        with second.transaction("main", "first") as files:
            files.write("shots/z.exr", b"z")
    key = subset("tree", "shots", meta)
    assert subset("tree", "shots", meta, source=other) != key
    subset("fetch", "shots", meta, str(tmp_path / "out2"), source=other)
    assert os.listdir(tmp_path / "out2" / "shots") == ["z.exr"]
    subset("tree", "none", meta, code=1)
    subset("tree", "--all", meta, code=2)


def test_the_extension_of_vs_code_with_a_stand_in_for_the_editor():
    if shutil.which("node") is None:
        skip("the extension of VS Code: node is not installed")
    program = os.environ.get("DMV") or shutil.which("dmv")
    done = subprocess.run(
        ["node", "--test", "test/extension.test.js"], cwd=CONTRIB / "vscode", capture_output=True, text=True,
        env={**os.environ, "DMV": program},
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_extension_of_vs_code_fits_the_types_of_the_editor():
    if not (CONTRIB / "vscode" / "node_modules" / ".bin" / "tsc").exists():
        skip("the types of VS Code: 'npm install' in contrib/vscode has not run")
    done = subprocess.run(["npm", "run", "check"], cwd=CONTRIB / "vscode", capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_add_on_of_blender_in_a_real_blender(tmp_path):
    if shutil.which("blender") is None:
        skip("the add-on of Blender: blender is not installed")
    archive = tmp_path / "dmv_versions.zip"
    subprocess.run([sys.executable, str(CONTRIB / "blender" / "pack.py"), str(archive)], check=True)
    program = os.environ.get("DMV") or shutil.which("dmv")
    options = ["--background", "--factory-startup", "--python-exit-code", "1"]
    done = subprocess.run(
        ["blender", *options, "--python", str(CONTRIB / "blender" / "try.py"), "--", str(archive), str(tmp_path / "top")],
        capture_output=True, text=True, timeout=300,
        env={**os.environ, "DMV": program, "BLENDER_USER_SCRIPTS": str(tmp_path / "scripts"),
             "DMV_USER_NAME": "a", "DMV_USER_EMAIL": "a@x"},
    )
    assert done.returncode == 0 and "the add-on did what it should" in done.stdout, done.stdout + done.stderr


def test_the_programs_stay_small():
    for path in [*CONTRIB.glob("*/*.py"), *CONTRIB.glob("*/*/__init__.py"), *CONTRIB.glob("*/*.sh")]:
        assert len(path.read_text().splitlines()) <= 400, path
    extension = ["client.js", "extension.js"]
    assert sum(len((CONTRIB / "vscode" / name).read_text().splitlines()) for name in extension) <= 400
