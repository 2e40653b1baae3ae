"""Repositories and what one does with them."""

from __future__ import annotations

import base64
import os
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple, Union

from .client import Client, Events, Progress, Result
from .errors import Conflicts, of_answer
from .transaction import Transaction

#: A path in a repository or on the disk.
PathLike = Union[str, bytes, "os.PathLike[str]"]
#: One path or several.
Paths = Union[PathLike, Iterable[PathLike]]
#: A document as ``--json`` prints it.
Document = Dict[str, Any]

#: Content is read in pieces of so many bytes.
PIECE = 8 << 20

#: So many files are asked for in one question.
_MANY = 1024


def _paths(paths: Optional[Paths]) -> Optional[List[PathLike]]:
    if paths is None:
        return None
    if isinstance(paths, (str, bytes, os.PathLike)):
        return [paths]
    return list(paths)


class Repository:
    """The repository that contains a directory.

    It may be used by several threads, and as a context manager. ``offline=True`` never asks a remote for what is
    absent. Every method raises :class:`dmv.DmvError` if the command fails.
    """

    def __init__(self, directory: PathLike = ".", offline: bool = False) -> None:
        self._directory = os.path.abspath(os.fsdecode(directory))
        self._client = Client(self._directory)
        self._offline = offline
        # A directory without a repository is told at once, not by the first call.
        try:
            self.call("branch")
        except BaseException:
            self.close()
            raise

    @property
    def root(self) -> Optional[str]:
        """The root of the worktree; None without one."""
        return self._client.hello.get("root")

    def call(self, method: str, progress: Optional[Progress] = None, **params: Any) -> Result:
        """Run any command: ``repo.call("remote.add", name="nas", url="/mnt/nas/film")``."""
        if self._offline:
            params["offline"] = True
        return self._client.call(method, params, progress)

    def close(self) -> None:
        """End the conversation. What was called before is done."""
        self._client.close()

    def __enter__(self) -> "Repository":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __reduce__(self) -> Any:
        # Another process has a conversation of its own.
        return (Repository, (self._directory, self._offline))

    def __repr__(self) -> str:
        return f"<dmv.Repository {self.root or 'bare'}>"

    # Looking

    def status(self, paths: Optional[Paths] = None) -> Document:
        """Return uncommitted changes, conflicts and the state of the branch."""
        return self.call("status", paths=_paths(paths)).document

    def states(self, paths: Paths) -> List[Document]:
        """Return the state of each path: changed, conflict, absent, newer elsewhere."""
        return self.call("states", paths=_paths(paths)).output

    def log(self, rev: Optional[str] = None, paths: Optional[Paths] = None, limit: Optional[int] = None) -> List[Document]:
        """Return commits, the newest first."""
        return self.call("log", rev=rev, paths=_paths(paths), max_count=limit).output

    def diff(self, a: Optional[str] = None, b: Optional[str] = None, paths: Optional[Paths] = None) -> List[Document]:
        """Return what differs between two commits, or between a commit and the files."""
        return self.call("diff", a=a, b=b, paths=_paths(paths)).output

    def ls(self, place: Optional[str] = None, recursive: bool = False) -> List[Document]:
        """Return the files of a directory of a commit: ``repo.ls("main:shots")``."""
        return self.call("ls", place=place, recursive=recursive).output

    def branches(self) -> List[Document]:
        """Return the branches."""
        return self.call("branch").output

    def tags(self) -> List[Document]:
        """Return the tags."""
        return self.call("tag").output

    def conflicts(self) -> List[Document]:
        """Return the open conflicts."""
        return self.call("conflicts").output

    def newer(self, paths: Optional[Paths] = None) -> List[Document]:
        """Return files of which another branch has a newer version."""
        return self.call("newer", paths=_paths(paths)).output

    def read(self, place: PathLike, start: int = 0, end: Optional[int] = None) -> bytes:
        """Return the bytes from ``start`` up to ``end`` of a file in a commit: ``repo.read("main:a.exr", 0, 4096)``."""
        if self._client.is_raw:
            return self.call("cat", place=place, range=f"{start}-{'' if end is None else end}").data
        return b"".join(self.pieces(place, start, end))

    def readinto(self, place: PathLike, buffer: Any, start: int = 0) -> int:
        """Fill a buffer with the bytes from ``start`` of a file in a commit. Return how many these are."""
        view = memoryview(buffer).cast("B")
        params: Dict[str, Any] = {"place": place, "range": f"{start}-{start + len(view)}"}
        if self._offline:
            params["offline"] = True
        done = self._client.call("cat", params, into=view)
        if not self._client.is_raw:
            view[:len(done.data)] = done.data
            return len(done.data)
        return done.filled

    def read_all(self, places: Iterable[PathLike]) -> List[bytes]:
        """Return the content of several files of commits, in their order: quicker than one after the other."""
        asked = list(places)
        out: List[bytes] = []
        for at in range(0, len(asked), _MANY):
            some = asked[at:at + _MANY]
            if len(some) == 1:
                out.append(self.read(some[0]))
            else:
                out.extend(content for _, content in _parts(self.call("cat", place=some)))
        return out

    def read_ahead(
        self, place: PathLike, ahead: int, further: bool = False, end: Optional[int] = None
    ) -> Dict[str, bytes]:
        """Return a file of a commit by its path, and further files of its directory of ``ahead`` bytes together.

        They begin with the files that follow it. With ``further``, they are those that follow it in the order of
        :meth:`ls` with ``recursive``, also in other directories. What is not here is left out. A file with more bytes
        than ``end`` ends there, and is the only one.
        """
        asked = {"range": None if end is None else f"0-{end}", "further": further or None}
        return dict(_parts(self.call("cat", place=place, ahead=ahead, **asked)))

    def pieces(self, place: PathLike, start: int = 0, end: Optional[int] = None, size: int = PIECE) -> Iterator[bytes]:
        """Yield the content of a file in a commit in pieces, so that memory stays bounded."""
        while end is None or start < end:
            stop = start + size if end is None else min(start + size, end)
            piece = self.call("cat", place=place, range=f"{start}-{stop}").data
            if piece:
                yield piece
            start += len(piece)
            if start < stop:
                return

    def watch(self, paths: Optional[Paths] = None, refs: bool = False, interval: Optional[int] = None) -> Events:
        """Yield what changes from now on: branches and tags that move, and files as ``status`` sees them.

        >>> with repo.watch(["shots"]) as events:
        ...     for event in events:
        ...         print(event)
        """
        events = self._client.events("watch", {"paths": _paths(paths), "refs": refs, "interval": interval})
        next(events)  # It has begun.
        return events

    def fs(self, rev: str = "@", follow: bool = False) -> Any:
        """Return a commit as a read-only file system of fsspec.

        It shows the commit that ``rev`` names now; with ``follow`` the one that it names at each call.
        """
        from .fs import DmvFileSystem

        return DmvFileSystem(repository=self, rev=rev, follow=follow)

    # Changing

    def commit(self, message: str, paths: Optional[Paths] = None, **options: Any) -> Document:
        """Commit the files, or some of them. ``commit`` of the result is null if nothing has changed."""
        return self.call("commit", message=message, paths=_paths(paths), **options).document

    def transaction(self, branch: str, message: str, **options: Any) -> Transaction:
        """Collect files for one commit of a branch. It needs no worktree, and reads no other files."""
        return Transaction(self, branch, message, **options)

    def checkout(self, rev: Optional[str] = None, subset: Optional[Paths] = None, force: bool = False,
                 progress: Optional[Progress] = None, **options: Any) -> Document:
        """Make the files those of a commit or branch."""
        return self.call("checkout", progress, rev=rev, subset=_paths(subset), force=force, **options).document

    def restore(self, paths: Paths, **options: Any) -> Document:
        """Give files the content that they have in a commit."""
        return self.call("restore", paths=_paths(paths), **options).document

    def branch(self, name: str, rev: Optional[str] = None) -> None:
        """Make a branch."""
        self.call("branch", name=name, rev=rev)

    def tag(self, name: str, rev: Optional[str] = None, **options: Any) -> None:
        """Make a tag."""
        self.call("tag", name=name, rev=rev, **options)

    def merge(self, rev: str, **options: Any) -> Document:
        """Merge a commit or branch. Raises :class:`dmv.Conflicts` if conflicts are left: the merge is done then, too."""
        return _without_conflicts(self.call("merge", rev=rev, **options))

    def undo(self, **options: Any) -> Document:
        """Take back the last operation."""
        return self.call("undo", **options).document

    # Exchanging

    def fetch(self, remote: Optional[str] = None, progress: Optional[Progress] = None, **options: Any) -> List[Document]:
        """Fetch from a remote."""
        return self.call("fetch", progress, remote=remote, **options).output

    def pull(self, remote: Optional[str] = None, progress: Optional[Progress] = None, **options: Any) -> Document:
        """Fetch and merge. Raises :class:`dmv.Conflicts` if conflicts are left."""
        return _without_conflicts(self.call("pull", progress, remote=remote, **options))

    def push(self, remote: Optional[str] = None, branches: Optional[Paths] = None,
             progress: Optional[Progress] = None, **options: Any) -> List[Document]:
        """Push branches to a remote."""
        return self.call("push", progress, remote=remote, branches=_paths(branches), **options).output

    def get(self, paths: Optional[Paths] = None, progress: Optional[Progress] = None, **options: Any) -> Document:
        """Fetch the content of absent files."""
        return self.call("get", progress, paths=_paths(paths), **options).document


def _parts(result: Result) -> Iterator[Tuple[str, bytes]]:
    """Yield the files of an answer that tells which bytes belong to which."""
    at = 0
    data = result.data
    for one in result.output:
        end = at + one["bytes"]
        path = os.fsdecode(base64.b64decode(one["path_b64"])) if "path_b64" in one else one["path"]
        yield path, data[at:end]
        at = end


def _without_conflicts(result: Result) -> Document:
    if result.exit == 4:
        left = [one.get("path") for one in result.document.get("conflicts", [])]
        data = {"code": "conflicts", "exit": 4, "hint": "dmv conflicts", "paths": [{"path": path} for path in left]}
        error = of_answer({"message": "done, and conflicts are left", "data": data})
        assert isinstance(error, Conflicts)
        raise error
    return result.document


def init(directory: PathLike, **options: Any) -> Repository:
    """Make a repository."""
    client = Client()
    try:
        client.call("init", {"dir": os.path.abspath(os.fsdecode(directory)), **options})
    finally:
        client.close()
    return Repository(directory)


def clone(source: str, directory: PathLike, progress: Optional[Progress] = None, **options: Any) -> Repository:
    """Make a repository from another one: ``dmv.clone("ssh://nas/film", "film", subset=["shots"])``."""
    client = Client()
    try:
        client.call("clone", {"source": source, "dir": os.path.abspath(os.fsdecode(directory)), **options}, progress)
    finally:
        client.close()
    return Repository(directory)
