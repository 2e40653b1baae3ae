#!/usr/bin/env python3
"""An MCP server for one repository: dmv_mcp.py [--write] [DIR].

It speaks the Model Context Protocol on standard input and output, one message a line, so that an assistant can look at
commits, files and states. It only reads, unless it is started with --write; then it also commits text files and claims
paths. It needs the package `dmv` (python/) and the program `dmv`.
"""
from __future__ import annotations

import argparse
import codecs
import json
import re
import sys
from typing import Any, Callable, Dict, List, Optional

import dmv

#: The versions of the protocol that differ in nothing that this server uses, the newest first.
VERSIONS = ["2025-06-18", "2025-03-26", "2024-11-05"]

#: A message has at most so many bytes.
MAX_MESSAGE = 4 << 20

#: An answer shows at most so many bytes of a file, and so many lines of a list.
MAX_BYTES = 256 << 10
MAX_LINES = 500

Arguments = Dict[str, Any]


def text(description: str) -> Arguments:
    return {"type": "string", "description": description}


def texts(description: str) -> Arguments:
    return {"type": "array", "items": {"type": "string"}, "description": description}


def number(description: str) -> Arguments:
    return {"type": "integer", "minimum": 0, "description": description}


class Tool:
    """What the assistant may call."""

    def __init__(self, run: Callable[..., Any], about: str, required: List[str], writes: bool = False,
                 **properties: Arguments) -> None:
        self.run = run
        self.about = about
        self.required = required
        self.writes = writes
        self.properties = properties

    def described(self, name: str) -> Arguments:
        schema = {
            "type": "object", "properties": self.properties, "required": self.required, "additionalProperties": False,
        }
        hints = {"readOnlyHint": not self.writes, "destructiveHint": False, "openWorldHint": False}
        return {"name": name, "description": self.about, "inputSchema": schema, "annotations": hints}

    def check(self, arguments: Any) -> Arguments:
        """Return the arguments. Raises ValueError unless they fit."""
        if not isinstance(arguments, dict):
            raise ValueError("arguments must be an object")
        for name in self.required:
            if name not in arguments:
                raise ValueError(f"{name} is missing")
        for name, value in arguments.items():
            kind = self.properties.get(name, {}).get("type")
            if kind is None:
                raise ValueError(f"there is no argument {name}")
            fits = {
                "string": isinstance(value, str),
                "integer": isinstance(value, int) and not isinstance(value, bool) and value >= 0,
                "array": isinstance(value, list) and all(isinstance(one, str) for one in value),
            }[kind]
            if not fits:
                raise ValueError(f"{name} is no {kind}")
        return arguments


def place(rev: str, path: str) -> str:
    # Any other colon would begin the path.
    if ":" in re.sub(r"^git:|\{[^}]*\}", "", rev):
        raise ValueError("the revision has a colon: give the path in 'path'")
    return f"{rev}:{path}"


def listed(lines: List[Any]) -> Any:
    if len(lines) <= MAX_LINES:
        return lines
    return {"first": lines[:MAX_LINES], "left_out": len(lines) - MAX_LINES}


def read(repo: dmv.Repository, path: str, rev: str = "@", start: int = 0) -> str:
    data = repo.read(place(rev, path), start, start + MAX_BYTES + 1)
    more = len(data) > MAX_BYTES
    data = data[:MAX_BYTES]
    if start:
        # The first character may be cut.
        data = data[:3].lstrip(bytes(range(0x80, 0xC0))) + data[3:]
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        shown = decoder.decode(data, not more)
    except UnicodeDecodeError:
        return f"{path} is no text"
    if "\0" in shown:
        return f"{path} is no text"
    # The next part begins with a character that is cut here.
    rest = len(decoder.getstate()[0])
    return shown + (f"\n[there is more: start {start + MAX_BYTES - rest}]" if more else "")


def commit_files(repo: dmv.Repository, branch: str, message: str, files: List[str]) -> Any:
    with repo.transaction(branch, message) as transaction:
        for one in files:
            path, has_content, content = one.partition("\n")
            if not path or not has_content:
                raise ValueError("each text has a path in its first line, and then a line feed")
            transaction.write(path, content.encode())
    return transaction.result


FIRST_LINE = "each text is the path of a file in its first line, and its new content in all others"
REV = text("a branch, tag or commit; @ is the commit of the worktree")
PATHS = texts("paths from the root of the repository")

TOOLS = {
    "status": Tool(lambda repo: repo.status(), "Uncommitted changes, conflicts, and the state of the branch.", []),
    "states": Tool(
        lambda repo, paths: listed(repo.states([":/" + path for path in paths])),
        "The state of single files, and whether somebody has a newer version.", ["paths"], paths=PATHS,
    ),
    "log": Tool(
        lambda repo, rev="@", paths=None, limit=20: listed(
            repo.log(rev, [":/" + path for path in paths] if paths else None, min(limit, MAX_LINES))),
        "Commits, the newest first.", [], rev=REV, paths=PATHS, limit=number("at most so many"),
    ),
    "diff": Tool(
        lambda repo, a="@", b=None: listed(repo.diff(a, b)),
        "Which files differ between two commits, or between a commit and the files of the worktree.", [], a=REV, b=REV,
    ),
    "ls": Tool(
        lambda repo, path="", rev="@": listed(repo.ls(place(rev, path))),
        "The files of a directory in a commit.", [], path=text("the directory; empty for the root"), rev=REV,
    ),
    "read": Tool(read, "The text of a file in a commit, at most 256 KiB from a byte on.", ["path"],
                 path=text("the file"), rev=REV, start=number("the first byte")),
    "branches": Tool(lambda repo: listed(repo.branches()), "The branches.", []),
    "conflicts": Tool(lambda repo: listed(repo.conflicts()), "Open conflicts.", []),
    "newer": Tool(lambda repo: listed(repo.newer()), "Files of which another branch has a newer version.", []),
    "claims": Tool(lambda repo: listed(repo.call("claims").output), "Who works on what.", []),
    "commit_files": Tool(
        commit_files, f"Commit text files to a branch; the worktree is not touched. In files, {FIRST_LINE}.",
        ["branch", "message", "files"], writes=True,
        branch=text("the branch"), message=text("the message"), files=texts(FIRST_LINE),
    ),
    "claim": Tool(
        lambda repo, paths, message="": repo.call(
            "claim", paths=[":/" + path for path in paths], message=message).output,
        "Say that you work on some paths.", ["paths"], writes=True, paths=PATHS, message=text("why"),
    ),
}


class Server:
    """Answers messages. It knows nothing of streams."""

    def __init__(self, repo: dmv.Repository, writes: bool) -> None:
        self._repo = repo
        self._tools = {name: tool for name, tool in TOOLS.items() if writes or not tool.writes}

    def answer(self, line: bytes) -> Optional[Arguments]:
        """Return the answer to a message; None for one that wants none."""
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return self._error(None, -32700, "this line is no JSON")
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            return self._error(None, -32600, "this is no request")
        identity = message.get("id")
        if identity is None:
            return None
        if isinstance(identity, bool) or not isinstance(identity, (int, str)):
            return self._error(None, -32600, "an id is a text or a number")
        params = message.get("params") or {}
        if not isinstance(params, dict):
            return self._error(identity, -32602, "params must be an object")
        return self._run(identity, message["method"], params)

    def _run(self, identity: Any, method: str, params: Arguments) -> Arguments:
        if method == "initialize":
            asked = params.get("protocolVersion")
            return self._result(identity, {
                "protocolVersion": asked if asked in VERSIONS else VERSIONS[0],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "dmv", "version": "1"},
            })
        if method == "ping":
            return self._result(identity, {})
        if method == "tools/list":
            tools = [tool.described(name) for name, tool in self._tools.items()]
            return self._result(identity, {"tools": tools})
        if method == "tools/call":
            return self._call(identity, params)
        return self._error(identity, -32601, "there is no such method")

    def _call(self, identity: Any, params: Arguments) -> Arguments:
        name = params.get("name")
        tool = self._tools.get(name) if isinstance(name, str) else None
        if tool is None:
            return self._error(identity, -32602, "there is no such tool")
        failed = False
        try:
            done = tool.run(self._repo, **tool.check(params.get("arguments") or {}))
        except dmv.DmvError as error:
            failed, done = True, {"code": error.code, "message": str(error), "hint": error.hint}
        except ValueError as error:
            failed, done = True, str(error)
        shown = done if isinstance(done, str) else json.dumps(done, ensure_ascii=False)
        return self._result(identity, {"content": [{"type": "text", "text": shown}], "isError": failed})

    def _result(self, identity: Any, result: Arguments) -> Arguments:
        return {"jsonrpc": "2.0", "id": identity, "result": result}

    def _error(self, identity: Any, code: int, message: str) -> Arguments:
        return {"jsonrpc": "2.0", "id": identity, "error": {"code": code, "message": message}}


def main() -> None:
    parser = argparse.ArgumentParser(description="An MCP server for one repository of DMV.")
    parser.add_argument("--write", action="store_true", help="also offer tools that commit and claim")
    parser.add_argument("directory", nargs="?", default=".", help="a directory of the repository")
    arguments = parser.parse_args()
    with dmv.Repository(arguments.directory, offline=not arguments.write) as repo:
        server = Server(repo, arguments.write)
        for line in iter(lambda: sys.stdin.buffer.readline(MAX_MESSAGE), b""):
            if not line.endswith(b"\n") and len(line) == MAX_MESSAGE:
                sys.exit("a message has more than 4 MiB")
            answer = server.answer(line) if line.strip() else None
            if answer is not None:
                sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
                sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
