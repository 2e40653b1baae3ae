"""docs/api-schema.json against what the program writes: each message fits it, and no field is missing there."""

import copy
import json
import pathlib
import subprocess

import dmv
import pytest

_DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
_SCHEMA = json.loads((_DOCS / "api-schema.json").read_text())
_KINDS = {type(None): "null", bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
#: What the schema may use. The rest of JSON Schema is not checked here, so it must not be there.
_WORDS = {"$schema", "$defs", "$ref", "title", "description", "anyOf", "type", "const", "enum", "required", "properties", "items"}


def wrong(schema, value, at="message"):
    """Return what of a value does not fit. A field that the schema does not name is a complaint, too."""
    assert set(schema) <= _WORDS, f"{at}: {set(schema) - _WORDS}"
    if "$ref" in schema:
        return wrong(_SCHEMA["$defs"][schema["$ref"].removeprefix("#/$defs/")], value, at)
    out = []
    if "anyOf" in schema:
        tried = [wrong(way, value, at) for way in schema["anyOf"]]
        if all(tried):
            out += min(tried, key=len)
    kinds = schema.get("type", _KINDS[type(value)])
    fits = _KINDS[type(value)] in (kinds if isinstance(kinds, list) else [kinds])
    if not fits or value not in schema.get("enum", [value]) or value != schema.get("const", value):
        out.append(f"{at}: {value!r} is not {schema}")
    if isinstance(value, dict):
        out += [f"{at}: there is no {name}" for name in schema.get("required", []) if name not in value]
        known = schema.get("properties")
        for name, field in value.items() if known is not None else ():
            out += wrong(known[name], field, f"{at}.{name}") if name in known else [f"{at}: {name!r} is not known"]
    if isinstance(value, list) and "items" in schema:
        out += [one for item in value for one in wrong(schema["items"], item, f"{at}[]")]
    return out


class Session:
    """A conversation of which each message is checked."""

    def __init__(self, root):
        self.process = subprocess.Popen(
            [dmv.client.program(), "-C", root, "api"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.seen = set()
        assert self._next(None)["method"] == "hello"

    def _next(self, method):
        message = json.loads(self.process.stdout.readline())
        found = wrong({key: value for key, value in _SCHEMA.items() if key != "$defs"}, message)
        name = f"document.{method}"
        if name in _SCHEMA["$defs"]:
            for one in message.get("result", {}).get("output", []):
                found += wrong(_SCHEMA["$defs"][name], one, name)
                self.seen.add(name)
        assert not found, f"{message}\n" + "\n".join(found)
        return message

    def send(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def call(self, method, **params):
        self.send(json.dumps({"jsonrpc": "2.0", "id": method, "method": method, "params": params}))
        while True:
            message = self._next(method)
            if message.get("id") == method:
                return message

    def close(self):
        self.process.stdin.close()
        self.process.stdout.read()
        assert self.process.wait() == 0


def test_what_the_program_writes_fits_the_schema(repo):
    root = pathlib.Path(repo.root)
    session = Session(repo.root)
    # Each change of the files comes before the call behind it.
    for step in (
        ("status", {}), ("branch", {"name": "side"}),
        "hello 2\n", ("diff", {}), ("commit", {"message": "second"}),
        ("log", {}), ("show", {"rev": "main"}), ("ls", {"place": "main:", "recursive": True}),
        ("cat", {"place": ["main:notes.txt", "main:shots/a.exr"]}), ("blame", {"place": "main:notes.txt"}),
        ("tag", {"name": "v1", "message": "one"}), ("branch", {}), ("tag", {}), ("id", {}), ("subset", {}),
        ("worktree.list", {}), ("whereis", {"paths": ["notes.txt"]}),
        ("claim", {"paths": ["notes.txt"], "message": "mine"}), ("claims", {}), ("release", {"paths": ["notes.txt"]}),
        ("remote.add", {"name": "nas", "url": "/srv/nas"}), ("remote", {}), ("checkout", {"rev": "side"}),
        "other\n", ("status", {}), ("commit", {"message": "third"}), ("newer", {}),
        ("states", {"paths": ["notes.txt", "none", {"b64": "/w=="}]}), ("merge", {"rev": "main"}), ("conflicts", {}),
        ("status", {}), ("resolve", {"paths": ["notes.txt"], "ours": True}), ("commit", {"message": "merged"}),
        ("undo", {}), ("redo", {}), ("op.log", {"max_count": 3}), ("mv", {"paths": ["shots/b.exr", "c.exr"]}),
        ("restore", {"paths": ["shots/b.exr"]}),
    ):
        if isinstance(step, str):
            (root / "notes.txt").write_text(step)
            continue
        method, params = step
        told = session.call(method, **params)
        assert "result" in told, told
    assert "error" in session.call("ls", place="none:")
    assert "error" in session.call("none")
    session.close()
    # No part of the schema is there unchecked.
    assert session.seen == {name for name in _SCHEMA["$defs"] if name.startswith("document.")}


def test_the_recorded_exchanges_fit_the_schema(tmp_path):
    with dmv.init(tmp_path / "r") as made:
        root = made.root
    (pathlib.Path(root) / "a.txt").write_text("hello\n")
    session = Session(root)
    for line in (_DOCS / "api-exchanges.txt").read_text().splitlines():
        if line.startswith("> "):
            session.send(line[2:])
            method = json.loads(line[2:])
            method = method.get("method") if isinstance(method, dict) else None
            length = session._next(method).get("raw", 0)
            assert len(session.process.stdout.read(length)) == length
    session.close()


@pytest.mark.parametrize("change", [
    lambda one: one.update(absent="no"), lambda one: one.update(more=1), lambda one: one.update(newer=[{}]),
    lambda one: one.pop("state"), lambda one: one.update(path=None),
])
def test_the_schema_refuses_what_does_not_fit(change):
    good = {"path": "a", "state": "unchanged", "absent": False, "newer": []}
    schema = _SCHEMA["$defs"]["document.states"]
    assert not wrong(schema, good)
    bad = copy.deepcopy(good)
    change(bad)
    assert wrong(schema, bad)
    for message in ({"jsonrpc": "2.0", "id": 1}, {"jsonrpc": "1.0", "id": 1, "result": {"canceled": True}}, 7):
        assert wrong({"anyOf": _SCHEMA["anyOf"]}, message)
