"""A commit as a read-only file system of fsspec (https://filesystem-spec.readthedocs.io).

``fsspec.open("dmv://main/shots/a.exr", repo="film")`` and ``repo.fs("main")`` use it.
"""

from __future__ import annotations

import base64
import errno
import io
import os
import threading
from datetime import datetime
from typing import Any, Dict, List, Optional, Set, Tuple

from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from .errors import DmvError
from .repository import PIECE, Repository

_KINDS = {"directory": "directory", "symlink": "link"}


class _Ahead:
    """Files that were read before they are asked for, because somebody reads a directory file by file.

    A second question about the same directory, for a later name, begins it. If most of what was read ahead is used, more
    is read the next time, also of the directories that follow; if not, nothing is, until longer runs show that it is
    worth it. Directories that are read in another order than that of their names are read ahead one by one.
    """

    _LEAST, _MOST = 256 << 10, 4 << 20

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: Dict[str, bytes] = {}
        self._unused: Set[str] = set()
        self._budget = 0
        self._last = ""
        self._run, self._needed = 0, 1
        #: Batches that have been used up one after the other, and how many it takes to read on in further directories.
        self._batches, self._needed_batches = 0, 1
        self._is_further = False

    def get(self, path: str) -> Optional[bytes]:
        content = self._files.get(path)
        if content is not None:
            self._unused.discard(path)
        return content

    @property
    def is_running(self) -> bool:
        """Whether the last question brought several files."""
        return len(self._files) > 1

    def budget(self, path: str) -> Tuple[int, bool]:
        """Return how many bytes to read ahead with a file that :meth:`get` does not have, and whether to go on behind the
        end of its directory."""
        with self._lock:
            same = path.rpartition("/")[0] == self._last.rpartition("/")[0]
            self._run = self._run + 1 if same and path > self._last else 0
            self._last = path
            if self._files:
                if 2 * len(self._unused) <= len(self._files):
                    self._budget, self._needed = min(4 * self._budget, self._MOST), 1
                    self._batches += 1
                elif self._is_further:
                    self._budget, self._batches = self._LEAST, 0
                    self._needed_batches = min(4 * self._needed_batches, 256)
                else:
                    self._budget, self._run, self._needed = 0, 0, min(2 * self._needed, 64)
                    self._batches = 0
                self._files, self._unused = {}, set()
            elif self._run >= self._needed:
                self._budget = self._LEAST
            self._is_further = self._batches >= self._needed_batches
            return self._budget, self._is_further

    def keep(self, files: Dict[str, bytes], path: str) -> None:
        with self._lock:
            self._files, self._unused = files, set(files) - {path}


class DmvFileSystem(AbstractFileSystem):
    """The files of one commit.

    With ``repository`` and ``rev``, paths are those of the repository. Without ``rev``, as in ``dmv://REV/PATH``, the
    first part of a path is the revision; ``%2F`` in it stands for a slash.
    """

    protocol = "dmv"
    root_marker = ""
    # Where "." is and what a revision names may be another thing the next time.
    cachable = False

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, str) and ":" not in path and not path.startswith("/") and not path.endswith("/"):
            # Called several times for each file.
            return path
        path = super()._strip_protocol(path)
        return path.lstrip("/") if isinstance(path, str) else path

    def __init__(
        self,
        repo: str = ".",
        repository: Optional[Repository] = None,
        rev: Optional[str] = None,
        follow: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.repository = repository or Repository(repo)
        self._follow = follow
        self._rev = rev
        if rev is not None and not follow:
            self._rev = self._pinned(rev)
        self._directories: Dict[str, List[Dict[str, Any]]] = {}
        self._entries: Dict[str, Dict[str, Any]] = {}
        self._ahead = _Ahead()

    def __reduce__(self) -> Any:
        # The same commit, whatever the revision names by then.
        return (_again, (type(self), self.repository, self._rev, self._follow))

    @property
    def _is_fixed(self) -> bool:
        """Whether what was read once stays true."""
        return self._rev is not None and not self._follow

    def _pinned(self, rev: str) -> str:
        # Fails unless it is a revision: `log` takes a path, too.
        self.repository.ls(f"{rev}:")
        return self.repository.log(rev, limit=1)[0]["id"]

    def _place(self, path: str) -> str:
        """Return a path as ``REV:PATH``."""
        path = self._strip_protocol(path)
        if self._rev is not None:
            return f"{self._rev}:{path}"
        rev, _, rest = path.partition("/")
        rev = rev.replace("%2F", "/").replace("%2f", "/")
        return f"{rev or '@'}:{rest}"

    def _entry(self, prefix: str, entry: Dict[str, Any]) -> Dict[str, Any]:
        kind = entry["kind"]
        path = entry["path"]
        if "path_b64" in entry:
            path = os.fsdecode(base64.b64decode(entry["path_b64"]))
        return {
            "name": prefix + path,
            "size": entry["size"],
            "type": _KINDS.get(kind, "file"),
            "kind": kind,
            "id": entry["id"],
            "absent": entry.get("absent", False),
        }

    def ls(self, path: str, detail: bool = True, **_: Any) -> List[Any]:
        path = self._strip_protocol(path)
        entries = None if self._follow else self._directories.get(path)
        if entries is None:
            entries = self._list(path)
            # A commit never changes; a revision may name another one later.
            if self._is_fixed:
                self._directories[path] = entries
                self._entries.update((entry["name"], entry) for entry in entries)
        return entries if detail else [entry["name"] for entry in entries]

    def _list(self, path: str) -> List[Dict[str, Any]]:
        place = self._place(path)
        prefix = "" if self._rev is not None else path.partition("/")[0] + "/"
        try:
            listed = self.repository.ls(place)
        except DmvError as error:
            raise FileNotFoundError(path) if error.code in _NOT_FOUND else error
        return [self._entry(prefix, entry) for entry in listed]

    def info(self, path: str, **_: Any) -> Dict[str, Any]:
        path = self._strip_protocol(path)
        known = self._entries.get(path)
        if known is not None:
            return known
        parent, _, name = path.rpartition("/")
        is_root = not path or (self._rev is None and "/" not in path)
        if is_root:
            self.ls(path)
            return {"name": path, "size": 0, "type": "directory"}
        try:
            listed = self.ls(parent)
        except NotADirectoryError:
            listed = []
        for entry in listed:
            if entry["name"] == path:
                return entry
        raise FileNotFoundError(path)

    def created(self, path: str) -> datetime:
        return self.modified(path)

    def modified(self, path: str) -> datetime:
        """Return the time of the newest commit that changed a file."""
        rev, _, at = self._place(path).partition(":")
        found = self.repository.log(rev, paths=[":/" + at], limit=1)
        if not found:
            raise FileNotFoundError(path)
        time = found[0]["commit_time"]
        # Imported commits have whole seconds, and Python before 3.11 reads no more than microseconds.
        return datetime.fromisoformat(time[:-6][:26] + time[-6:])

    def checksum(self, path: str) -> int:
        return int(self.info(path).get("id", "0")[:16], 16)

    def ukey(self, path: str) -> str:
        return str(self.info(path).get("id", ""))

    def cat(self, path: Any, recursive: bool = False, on_error: str = "raise", **options: Any) -> Any:
        if isinstance(path, (list, tuple)) and not recursive and not options:
            paths = [self._strip_protocol(one) for one in path]
            try:
                content = self.repository.read_all([self._place(one) for one in paths])
                return dict(zip(paths, content))
            except DmvError:
                # One by one, so that the failure is that of a file; also for patterns.
                pass
        return super().cat(path, recursive=recursive, on_error=on_error, **options)

    def cat_file(self, path: str, start: Optional[int] = None, end: Optional[int] = None, **_: Any) -> bytes:
        if not start and end is None:
            return self._whole(path)
        if (start or 0) < 0 or (end or 0) < 0:
            size = self.info(path)["size"]
            start = size + start if (start or 0) < 0 else start
            end = size + end if (end or 0) < 0 else end
        return self._read(path, max(start or 0, 0), end)

    def _whole(self, path: str) -> bytes:
        """Return the content of a file, which may have been read already."""
        content = self._ahead.get(path)
        if content is not None:
            return content
        path = self._strip_protocol(path)
        content = self._read_on(path)
        return self._read(path, 0, None) if content is None else content

    def _small(self, path: str) -> Optional[bytes]:
        """Return the content of a file if it is small."""
        content = self._ahead.get(path)
        if content is None and self._ahead.is_running and path not in self._entries:
            # This takes as long as to ask for its size.
            content = self._read_on(path, _SMALL)
        if content is None:
            info = self.info(path)
            if info.get("kind") in _FILES and info["size"] <= _SMALL:
                content = self._whole(path)
        return content

    def _read_on(self, path: str, most: Optional[int] = None) -> Optional[bytes]:
        """Return the content of a file, unless it has more than ``most`` bytes, and keep that of files behind it."""
        ahead, further = self._ahead.budget(path) if self._is_fixed else (0, False)
        if not ahead:
            return None
        try:
            files = self.repository.read_ahead(self._place(path), ahead, further, None if most is None else most + 1)
        except DmvError:
            # It may be about another file.
            return None
        content = files.get(path)
        if content is None or most is not None and len(content) > most:
            return None
        self._ahead.keep(files, path)
        return content

    def _read(self, path: str, start: int, end: Optional[int]) -> bytes:
        try:
            return self.repository.read(self._place(path), start, end)
        except DmvError as error:
            if error.code in _NOT_FOUND:
                raise FileNotFoundError(path) from None
            if error.code == "wrong-kind" and self.info(path)["type"] == "directory":
                raise IsADirectoryError(path) from None
            raise

    def _refuse(self, path: Any = "", *_: Any, **__: Any) -> None:
        raise OSError(errno.EROFS, "a commit does not change; use Repository.transaction", str(path))

    mkdir = makedirs = rmdir = touch = rm = rm_file = cp_file = mv = pipe_file = put_file = _refuse

    def open(self, path: str, mode: str = "rb", block_size: Optional[int] = None, cache_options: Any = None,
             compression: Optional[str] = None, **options: Any) -> Any:
        if mode == "rb" and compression is None and not options:
            path = self._strip_protocol(path)
            content = self._small(path)
            if content is not None:
                return SmallFile(self, path, content)
        return super().open(path, mode, block_size, cache_options, compression, **options)

    def _open(self, path: str, mode: str = "rb", block_size: Optional[int] = None, **options: Any) -> "DmvFile":
        if mode != "rb":
            self._refuse(path)
        info = self.info(path)
        if info["type"] == "directory":
            raise IsADirectoryError(path)
        if info.get("kind") == "conflict":
            raise OSError(f"{path} is an unresolved conflict: dmv conflicts")
        return DmvFile(self, path, mode, block_size=block_size or PIECE, **options)


#: Codes of failures that say that there is no such file.
_NOT_FOUND = {"no-such-path", "unknown-revision", "no-commit"}


#: A file of so many bytes is read at once when it is opened.
_SMALL = 256 << 10

_FILES = {"file", "executable"}


class SmallFile(io.BytesIO):
    """A small file of a commit, open for reading. It has been read already."""

    mode = "rb"

    def __init__(self, fs: DmvFileSystem, path: str, content: bytes) -> None:
        super().__init__(content)
        self.fs = fs
        self.path = self.name = path
        self.size = len(content)

    @property
    def details(self) -> Dict[str, Any]:
        return self.fs.info(self.path)

    def info(self) -> Dict[str, Any]:
        return self.details

    def writable(self) -> bool:
        return False

    def write(self, _: Any) -> int:
        raise io.UnsupportedOperation("a commit does not change; use Repository.transaction")

    writelines = truncate = write

    def __reduce__(self) -> Any:
        return (SmallFile, (self.fs, self.path, self.getvalue()))


class DmvFile(AbstractBufferedFile):
    """A file of a commit, open for reading."""

    def _fetch_range(self, start: int, end: int) -> bytes:
        if start == 0 and end >= self.size <= PIECE:
            return self.fs._whole(self.path)
        return self.fs._read(self.path, start, end)


def _again(kind: Any, repository: Repository, rev: Optional[str], follow: bool) -> DmvFileSystem:
    """Return a file system in another process: what pickle needs."""
    return kind(repository=repository, rev=rev, follow=follow)
