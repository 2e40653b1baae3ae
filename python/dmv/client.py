"""One conversation with ``dmv api``. It knows messages, and no command."""

from __future__ import annotations

import base64
import itertools
import json
import os
import queue
import shutil
import subprocess
import threading
import weakref
from typing import Any, Callable, Dict, List, Optional

from .errors import DmvError, of_answer

#: Called with what has been done so far: files, bytes, new_bytes, objects, total_files, total_bytes.
Progress = Callable[[Dict[str, Any]], None]

#: A request has at most so many bytes.
MAX_REQUEST = 16 << 20


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


class _Calls:
    """The calls that have no answer yet. The thread that reads answers knows only this."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: Dict[int, "queue.SimpleQueue[Optional[Dict[str, Any]]]"] = {}
        self._is_over = False

    def begin(self, identity: int) -> "queue.SimpleQueue[Optional[Dict[str, Any]]]":
        messages: "queue.SimpleQueue[Optional[Dict[str, Any]]]" = queue.SimpleQueue()
        with self._lock:
            if self._is_over:
                messages.put(None)
            else:
                self._waiting[identity] = messages
        return messages

    def end(self, identity: int) -> None:
        with self._lock:
            self._waiting.pop(identity, None)

    def read(self, answers: Any) -> None:
        for line in answers:
            message = json.loads(line)
            is_progress = message.get("method") == "progress"
            identity = message["params"]["id"] if is_progress else message.get("id")
            with self._lock:
                messages = self._waiting.get(identity)
            if messages is not None:
                messages.put(message)
        with self._lock:
            self._is_over = True
            for messages in self._waiting.values():
                messages.put(None)


def program() -> str:
    """Return the program: ``$DMV`` or the ``dmv`` of the search path."""
    named = os.environ.get("DMV")
    found = named or shutil.which("dmv")
    if not found:
        raise DmvError("there is no program 'dmv'; install it, or name it in $DMV")
    return found


class Client:
    """A process ``dmv api``. Several threads may call it at the same time. It ends with the client."""

    def __init__(self, directory: Optional[str] = None) -> None:
        arguments = [program()]
        if directory is not None:
            # Absolute, so that no name is taken for an option.
            arguments += ["-C", os.path.abspath(directory)]
        self._ids = itertools.count(1)
        self._calls = _Calls()
        self._sending = threading.Lock()
        self._pid = os.getpid()
        # In a session of its own, so that Ctrl-C at the terminal reaches Python alone.
        self._process = subprocess.Popen(
            arguments + ["api"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Answers with content are long lines.
            bufsize=1 << 20,
            start_new_session=True,
        )
        first = self._process.stdout.readline()
        if not first:
            _, said = self._process.communicate()
            raise DmvError(said.decode("utf-8", "replace").strip() or "dmv api has not begun")
        self.hello: Dict[str, Any] = json.loads(first)["params"]
        if self.hello["version"] != 1:
            self._process.kill()
            raise DmvError(f"this package speaks version 1 of dmv api, and dmv version {self.hello['version']}")
        # These end with the process, and do not know the client, so that it can go.
        for work, stream in ((self._calls.read, self._process.stdout), (_drain, self._process.stderr)):
            threading.Thread(target=work, args=(stream,), daemon=True).start()
        self._end = weakref.finalize(self, _end, self._process, self._pid)

    def call(
        self,
        method: str,
        params: Optional[Dict[str, Any]] = None,
        progress: Optional[Progress] = None,
    ) -> Result:
        """Run a command and return what it answers.

        Ctrl-C cancels it, and so does an exception of ``progress``, which is called in this thread.
        """
        if os.getpid() != self._pid:
            raise DmvError("a process that was forked needs a Repository of its own")
        identity = next(self._ids)
        given = {name: _value(value) for name, value in (params or {}).items() if value is not None}
        line = _line({"jsonrpc": "2.0", "id": identity, "method": method, "params": given})
        messages = self._calls.begin(identity)
        is_answered = False
        try:
            self._send(line)
            while True:
                message = messages.get()
                is_answered = message is None or "method" not in message
                if message is None:
                    raise DmvError("dmv api has ended")
                if "error" in message:
                    raise of_answer(message["error"])
                if is_answered:
                    return Result(message["result"])
                if progress is not None:
                    progress(message["params"])
        except BaseException:
            if not is_answered:
                self._cancel(identity)
            raise
        finally:
            self._calls.end(identity)

    def _cancel(self, identity: int) -> None:
        try:
            self._send(_line({"jsonrpc": "2.0", "method": "cancel", "params": {"id": identity}}))
        except DmvError:
            # It has ended, and the call with it.
            pass

    def _send(self, line: bytes) -> None:
        try:
            with self._sending:
                self._process.stdin.write(line)
                self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise DmvError("dmv api has ended") from None

    def close(self) -> None:
        """End the process when it has answered everything."""
        self._end()


def _drain(stream: Any) -> None:
    # A full pipe would stop the program.
    for _ in stream:
        pass


def _end(process: "subprocess.Popen[bytes]", pid: int) -> None:
    if os.getpid() != pid:
        return
    try:
        process.stdin.close()
    except BrokenPipeError:
        # It has ended already.
        pass
    process.wait()


def _line(request: Dict[str, Any]) -> bytes:
    line = json.dumps(request, allow_nan=False).encode() + b"\n"
    if len(line) > MAX_REQUEST:
        raise ValueError("a request has at most 16 MiB")
    return line


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
