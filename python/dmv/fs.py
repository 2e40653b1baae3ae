"""A commit as a read-only file system of fsspec (https://filesystem-spec.readthedocs.io).

``fsspec.open("dmv://main/shots/a.exr", repo="film")`` and ``repo.fs("main")`` use it.
"""

from __future__ import annotations

import base64
import os
from datetime import datetime
from typing import Any, Dict, List, Optional

from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from .errors import DmvError
from .repository import PIECE, Repository

_KINDS = {"directory": "directory", "symlink": "link"}


class DmvFileSystem(AbstractFileSystem):
    """The files of one commit.

    With ``repository`` and ``rev``, paths are those of the repository. Without ``rev``, as in ``dmv://REV/PATH``, the
    first part of a path is the revision.
    """

    protocol = "dmv"
    root_marker = ""
    # Where "." is and what a revision names may be another thing the next time.
    cachable = False

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
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
            if self._rev is not None and not self._follow:
                self._directories[path] = entries
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
        return datetime.fromisoformat(found[0]["commit_time"][:26] + found[0]["commit_time"][-6:])

    def checksum(self, path: str) -> int:
        return int(self.info(path).get("id", "0")[:16], 16)

    def ukey(self, path: str) -> str:
        return str(self.info(path).get("id", ""))

    def cat_file(self, path: str, start: Optional[int] = None, end: Optional[int] = None, **_: Any) -> bytes:
        if (start or 0) < 0 or (end or 0) < 0:
            size = self.info(path)["size"]
            start = size + start if (start or 0) < 0 else start
            end = size + end if (end or 0) < 0 else end
        return self._read(path, max(start or 0, 0), end)

    def _read(self, path: str, start: int, end: Optional[int]) -> bytes:
        try:
            return self.repository.read(self._place(path), start, end)
        except DmvError as error:
            if error.code in _NOT_FOUND:
                raise FileNotFoundError(path) from None
            if error.code == "wrong-kind" and self.info(path)["type"] == "directory":
                raise IsADirectoryError(path) from None
            raise

    def _open(self, path: str, mode: str = "rb", block_size: Optional[int] = None, **options: Any) -> "DmvFile":
        if mode != "rb":
            raise OSError(f"a commit does not change: {path} opens only for reading")
        info = self.info(path)
        if info["type"] == "directory":
            raise IsADirectoryError(path)
        if info.get("kind") == "conflict":
            raise OSError(f"{path} is an unresolved conflict: dmv conflicts")
        return DmvFile(self, path, mode, block_size=block_size or PIECE, **options)


#: Codes of failures that say that there is no such file.
_NOT_FOUND = {"no-such-path", "unknown-revision", "no-commit"}


class DmvFile(AbstractBufferedFile):
    """A file of a commit, open for reading."""

    def _fetch_range(self, start: int, end: int) -> bytes:
        return self.fs._read(self.path, start, end)
