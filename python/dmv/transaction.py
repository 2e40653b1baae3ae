"""Files that become one commit of a branch, without a worktree."""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
import time
from typing import IO, Any, Dict, Optional, Set, Union

from .errors import DmvError, Refused


class Transaction:
    """Collects files in a temporary file and commits them when it ends without an exception.

    >>> with repo.transaction("main", "nightly report") as files:
    ...     files.write("reports/today.csv", b"shot,frames\\n")
    ...     files.remove("reports/old.csv")

    The files are made from the commit that the branch has at the beginning. If the branch has other commits at the end,
    they go onto these, and :class:`dmv.Refused` says that one of them has changed the same paths.
    """

    def __init__(self, repository: Any, branch: str, message: str, **options: Any) -> None:
        self._repository = repository
        self._branch = branch
        self._options = {"message": message, **options}
        #: The commit that the files are made from. None if the repository has no commit yet.
        self.base: Optional[str] = _tip(repository, branch)
        #: What the commit has done, as ``commit`` tells it. None before it is done.
        self.result: Optional[Dict[str, Any]] = None
        self._removed: Dict[str, None] = {}
        #: What was written, and the directories above it.
        self._written: Set[str] = set()
        self._file = tempfile.NamedTemporaryFile(prefix="dmv-", suffix=".tar")
        self._archive = tarfile.open(fileobj=self._file, mode="w", format=tarfile.GNU_FORMAT)

    def write(self, path: str, content: Union[bytes, IO[bytes]], executable: bool = False) -> None:
        """Give a path of the repository this content: bytes, or a file that can seek."""
        path = _tidy(path)
        stream = content if hasattr(content, "read") else io.BytesIO(memoryview(content))
        start = stream.tell()
        member = tarfile.TarInfo(path)
        member.mode = 0o755 if executable else 0o644
        member.size = stream.seek(0, os.SEEK_END) - start
        stream.seek(start)
        # As a file that is written now would have.
        member.mtime = int(time.time())
        end = self._archive.offset
        try:
            self._archive.addfile(member, stream)
        except BaseException:
            # A header without its content would take the next bytes for it.
            self._archive.offset = end
            self._file.seek(end)
            self._file.truncate()
            raise
        self._removed.pop(path, None)
        parts = path.split("/")
        self._written.update("/".join(parts[:n]) for n in range(1, len(parts) + 1))

    def open(self, path: str) -> "IO[bytes]":
        """Open a path of the repository for writing. It counts when it is closed."""
        return _Writer(self, path)

    def read(self, path: str) -> bytes:
        """Return what a path has in the commit that the files are made from."""
        if self.base is None:
            raise FileNotFoundError(path)
        try:
            return self._repository.read(f"{self.base}:{path}")
        except DmvError as error:
            if error.code == "no-such-path":
                raise FileNotFoundError(path) from None
            raise

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with everything in it.

        What is written below it afterwards stays. What was written below it before cannot be taken back.
        """
        path = _tidy(path)
        if path in self._written:
            raise ValueError(f"{path}, or a file below it, was written already")
        self._removed[path] = None

    def commit(self) -> Dict[str, Any]:
        """Commit now. ``commit`` of the result is None if nothing has changed."""
        self._archive.close()
        self._file.flush()
        try:
            if self.base is None and _tip(self._repository, self._branch) is not None:
                text = f"{self._branch} has got its first commit since the transaction began; nothing was committed"
                raise Refused(text, {"code": "changed-meanwhile", "exit": 5})
            self.result = self._repository.call(
                "commit", onto=self._branch, base=self.base, from_tar=self._file.name,
                remove=list(self._removed) or None, **self._options
            ).document
        finally:
            self._file.close()
        return self.result

    def __enter__(self) -> "Transaction":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is not None:
            self._file.close()
        elif not self._file.closed:
            self.commit()


class _Writer(io.BytesIO):
    """A file of a transaction, in memory until it is closed."""

    def __init__(self, transaction: Transaction, path: str) -> None:
        super().__init__()
        self._transaction = transaction
        self._path = path

    def __exit__(self, kind: Any, *rest: Any) -> None:
        if kind is not None:
            # Half a file is none.
            super().close()
        self.close()

    def close(self) -> None:
        if not self.closed:
            self._transaction.write(self._path, self.getvalue())
        super().close()


def _tidy(path: str) -> str:
    """Return the path in the only way that the archive and ``remove`` both have."""
    path = path[2:] if path.startswith(":/") else path
    return "/".join(part for part in path.split("/") if part not in ("", "."))


def _tip(repository: Any, branch: str) -> Optional[str]:
    for one in repository.branches():
        if one["name"] == branch:
            return one["commit"]
    # The commit says that there is no such branch.
    return None
