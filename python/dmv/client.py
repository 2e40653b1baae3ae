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
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from .errors import DmvError, of_answer

#: Called with what has been done so far: files, bytes, new_bytes, objects, total_files, total_bytes.
Progress = Callable[[Dict[str, Any]], None]

#: A request has at most so many bytes.
MAX_REQUEST = 16 << 20

#: The pipe is read in pieces of so many bytes; what is longer goes where it belongs without a copy.
BUFFER = 64 << 10


_encode = json.JSONEncoder(allow_nan=False).encode


class Result:
    """What a command has answered."""

    def __init__(self, result: Dict[str, Any], pieces: Sequence[bytes] = (), filled: int = 0) -> None:
        self.exit: int = result.get("exit", 0)
        self.output: List[Dict[str, Any]] = result.get("output", [])
        self.notes: List[Dict[str, Any]] = result.get("notes", [])
        data = result.get("data")
        self.data: bytes = base64.b64decode(data) if data else b"".join(pieces)
        #: How many bytes went into a buffer of the caller instead.
        self.filled = filled

    @property
    def document(self) -> Dict[str, Any]:
        """The only document of a command that prints one."""
        return self.output[0] if self.output else {}


class _Call:
    """A call that has no answer yet: what has come of it."""

    def __init__(self, into: Optional[memoryview]) -> None:
        self.messages: "queue.SimpleQueue[Optional[Dict[str, Any]]]" = queue.SimpleQueue()
        self.pieces: List[bytes] = []
        #: Takes the bytes instead, as far as they fit.
        self.into = into
        self.filled = 0

    def take(self, stream: Any, length: int) -> None:
        """Read the bytes that a message announces."""
        if self.into is None:
            self.pieces.append(_exactly(stream.read(length), length))
            return
        end = self.filled + length
        if end > len(self.into):
            raise EOFError
        while self.filled < end:
            got = stream.readinto(self.into[self.filled:end])
            if not got:
                raise EOFError
            self.filled += got


class _Calls:
    """The calls that have no answer yet. The thread that reads answers knows only this."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: Dict[int, _Call] = {}
        self._is_over = False

    def begin(self, identity: int, into: Optional[memoryview]) -> _Call:
        call = _Call(into)
        with self._lock:
            if self._is_over:
                call.messages.put(None)
            else:
                self._waiting[identity] = call
        return call

    def end(self, identity: int) -> None:
        with self._lock:
            self._waiting.pop(identity, None)

    def read(self, answers: Any) -> None:
        try:
            for line in iter(answers.readline, b""):
                self._take(answers, json.loads(line))
        except (EOFError, ValueError):
            # It ended in the middle of a message.
            pass
        with self._lock:
            self._is_over = True
            for call in self._waiting.values():
                call.messages.put(None)

    def _take(self, answers: Any, message: Dict[str, Any]) -> None:
        is_told = "method" in message
        identity = message["params"].get("id") if is_told else message.get("id")
        with self._lock:
            call = self._waiting.get(identity)
        length = message.get("raw", 0)
        if length and call is not None:
            call.take(answers, length)
        elif length:
            # Of a call that was given up.
            _exactly(answers.read(length), length)
        if call is not None and message.get("method") != "data":
            call.messages.put(message)


def _exactly(data: bytes, length: int) -> bytes:
    if len(data) < length:
        raise EOFError
    return data


def program() -> str:
    """Return the program: ``$DMV``, the one that came with this package, or the ``dmv`` of the search path."""
    found = os.environ.get("DMV") or _beside() or shutil.which("dmv")
    if not found:
        raise DmvError("there is no program 'dmv'; install it, or name it in $DMV")
    return found


def _beside() -> Optional[str]:
    """Return the program that a wheel has put into the directory of programs.

    It is PREFIX/bin for PREFIX/lib/pythonX/PACKAGES, and on Windows PREFIX/Scripts for PREFIX/Lib/PACKAGES.
    """
    packages = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if os.path.basename(packages) not in ("site-packages", "dist-packages"):
        return None
    place = ("..", "..", "Scripts", "dmv.exe") if os.name == "nt" else ("..", "..", "..", "bin", "dmv")
    found = os.path.normpath(os.path.join(packages, *place))
    return found if os.access(found, os.X_OK) else None


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
            bufsize=BUFFER,
            start_new_session=True,
        )
        first = self._process.stdout.readline()
        if not first:
            _, said = self._process.communicate()
            raise DmvError(said.decode("utf-8", "replace").strip() or "dmv api has not begun")
        self.hello: Dict[str, Any] = json.loads(first)["params"]
        #: Whether content comes as bytes of its own, behind the messages.
        self.is_raw = "raw" in self.hello["capabilities"]
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
        into: Optional[memoryview] = None,
    ) -> Result:
        """Run a command and return what it answers. ``into`` takes the content instead of the result.

        Ctrl-C cancels it, and so does an exception of ``progress``, which is called in this thread.
        """
        identity, call = self._begin(method, params, into)
        is_answered = False
        try:
            while True:
                message = call.messages.get()
                is_answered = message is None or "method" not in message
                if message is None:
                    raise DmvError("dmv api has ended")
                if "error" in message:
                    raise of_answer(message["error"])
                if is_answered:
                    return Result(message["result"], call.pieces, call.filled)
                if progress is not None and message["method"] == "progress":
                    progress(message["params"])
        except BaseException:
            if not is_answered:
                self._cancel(identity)
            raise
        finally:
            self._calls.end(identity)

    def events(self, method: str, params: Optional[Dict[str, Any]] = None) -> "Events":
        """Begin a command that tells what happens until it is closed."""
        identity, call = self._begin(method, params)
        return Events(self, identity, call)

    def _begin(
        self, method: str, params: Optional[Dict[str, Any]], into: Optional[memoryview] = None
    ) -> Tuple[int, _Call]:
        if os.getpid() != self._pid:
            raise DmvError("a process that was forked needs a Repository of its own")
        identity = next(self._ids)
        given = {name: _value(value) for name, value in (params or {}).items() if value is not None}
        if self.is_raw:
            given["raw"] = True
        line = _line({"jsonrpc": "2.0", "id": identity, "method": method, "params": given})
        call = self._calls.begin(identity, into)
        try:
            self._send(line)
        except BaseException:
            self._give_up(identity)
            raise
        return identity, call

    def _give_up(self, identity: int) -> None:
        self._cancel(identity)
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


class Events:
    """What a command tells, in its order. It ends when it is closed."""

    def __init__(self, client: Client, identity: int, call: _Call) -> None:
        self._client = client
        self._identity = identity
        self._call = call
        self._is_over = False

    def __iter__(self) -> "Events":
        return self

    def __next__(self) -> Dict[str, Any]:
        while not self._is_over:
            message = self._call.messages.get()
            if message is not None and message.get("method") == "event":
                return message["params"]["event"]
            if message is None or "method" not in message:
                self._is_over = True
                if message is None:
                    raise DmvError("dmv api has ended")
                if "error" in message:
                    raise of_answer(message["error"])
        raise StopIteration

    def close(self) -> None:
        """Stop the command. Another thread that waits for an event then gets none."""
        if not self._is_over:
            self._is_over = True
            self._client._give_up(self._identity)
            self._call.messages.put({"method": "closed"})

    def __enter__(self) -> "Events":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


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
    line = _encode(request).encode() + b"\n"
    if len(line) > MAX_REQUEST:
        raise ValueError("a request has at most 16 MiB")
    return line


def _value(value: Any) -> Any:
    """Return a parameter as JSON has it. Bytes that are no UTF-8 are allowed where a path is."""
    if isinstance(value, str):
        # Python shows bytes of file names that are no UTF-8 as lone surrogates.
        return value if value.isascii() else _value(value.encode("utf-8", "surrogateescape"))
    if isinstance(value, (list, tuple, set)):
        return [_value(one) for one in value]
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"b64": base64.b64encode(value).decode()}
    if isinstance(value, os.PathLike):
        return _value(os.fspath(value))
    return value
