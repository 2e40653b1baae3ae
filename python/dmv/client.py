"""One conversation with ``dmv api``. It knows messages, and no command."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import threading
from concurrent.futures import Future
from typing import Any, Callable, Dict, List, Optional

from .errors import DmvError, of_answer

#: Called with what has been done so far: files, bytes, new_bytes, objects, total_files, total_bytes.
Progress = Callable[[Dict[str, Any]], None]


class Result:
    """What a command has answered."""

    def __init__(self, result: Dict[str, Any]) -> None:
        self.exit: int = result.get("exit", 0)
        self.output: List[Dict[str, Any]] = result.get("output", [])
        self.notes: List[Dict[str, Any]] = result.get("notes", [])
        data = result.get("data")
        self.data: bytes = base64.b64decode(data) if data else b""

    @property
    def document(self) -> Dict[str, Any]:
        """The only document of a command that prints one."""
        return self.output[0] if self.output else {}


class _Pending:
    def __init__(self, progress: Optional[Progress]) -> None:
        self.future: "Future[Dict[str, Any]]" = Future()
        self.progress = progress


def program() -> str:
    """Return the program: ``$DMV`` or the ``dmv`` of the search path."""
    named = os.environ.get("DMV")
    found = named or shutil.which("dmv")
    if not found:
        raise DmvError("there is no program 'dmv'; install it, or name it in $DMV")
    return found


class Client:
    """A process ``dmv api``. Several threads may call it at the same time."""

    def __init__(self, directory: Optional[str] = None, command: Optional[str] = None) -> None:
        arguments = [command or program()]
        if directory is not None:
            arguments += ["-C", os.fspath(directory)]
        self._ids = itertools.count(1)
        self._pending: Dict[int, _Pending] = {}
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._gone: Optional[DmvError] = None
        self._process = subprocess.Popen(
            arguments + ["api"],
            # Answers with content are long lines.
            bufsize=1 << 20,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        first = self._process.stdout.readline()
        if not first:
            _, said = self._process.communicate()
            raise of_start(said)
        self.hello: Dict[str, Any] = json.loads(first)["params"]
        if self.hello["version"] != 1:
            self._process.kill()
            raise DmvError(f"this package speaks version 1 of dmv api, and dmv version {self.hello['version']}")
        # Both end with the process.
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=self._drain, daemon=True).start()

    def _drain(self) -> None:
        # A full pipe would stop the program.
        for _ in self._process.stderr:
            pass

    def _read(self) -> None:
        for line in self._process.stdout:
            message = json.loads(line)
            if message.get("method") == "progress":
                pending = self._pending.get(message["params"]["id"])
                if pending is not None and pending.progress is not None:
                    pending.progress(message["params"])
                continue
            with self._lock:
                pending = self._pending.pop(message.get("id"), None)
            if pending is None:
                continue
            if "error" in message:
                pending.future.set_exception(of_answer(message["error"]))
            else:
                pending.future.set_result(message["result"])
        with self._lock:
            self._gone = DmvError("dmv api has ended")
            left, self._pending = list(self._pending.values()), {}
        for pending in left:
            pending.future.set_exception(self._gone)

    def call(
        self,
        method: str,
        params: Optional[Dict[str, Any]] = None,
        progress: Optional[Progress] = None,
    ) -> Result:
        """Run a command and return what it answers. Ctrl-C cancels it."""
        pending, identity = _Pending(progress), next(self._ids)
        given = {name: _value(value) for name, value in (params or {}).items() if value is not None}
        request = {"jsonrpc": "2.0", "id": identity, "method": method, "params": given}
        with self._lock:
            if self._gone is not None:
                raise self._gone
            self._pending[identity] = pending
        self._send(request)
        try:
            return Result(pending.future.result())
        except KeyboardInterrupt:
            self._send({"jsonrpc": "2.0", "method": "cancel", "params": {"id": identity}})
            raise

    def _send(self, request: Dict[str, Any]) -> None:
        line = json.dumps(request).encode() + b"\n"
        try:
            with self._sending:
                self._process.stdin.write(line)
                self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise DmvError("dmv api has ended") from None

    def close(self) -> None:
        """End the process when it has answered everything."""
        try:
            with self._sending:
                self._process.stdin.close()
        except BrokenPipeError:
            # It has ended already.
            pass
        self._process.wait()


def of_start(said: bytes) -> DmvError:
    """Return the exception for a process that has not begun."""
    return DmvError(said.decode("utf-8", "replace").strip() or "dmv api has not begun")


def _value(value: Any) -> Any:
    """Return a parameter as JSON has it. Bytes that are no UTF-8 are allowed where a path is."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"b64": base64.b64encode(value).decode()}
    if isinstance(value, os.PathLike):
        return _value(os.fspath(value))
    if isinstance(value, str):
        # Python shows bytes of file names that are no UTF-8 as lone surrogates.
        return value if value.isascii() else _value(value.encode("utf-8", "surrogateescape"))
    if isinstance(value, (list, tuple, set)):
        return [_value(one) for one in value]
    return value
