"""Failures of commands. It knows nothing of processes."""

from __future__ import annotations

from typing import Any, Dict, List, Optional


class DmvError(Exception):
    """A command that failed.

    ``code`` is a stable word, ``exit`` the exit code of the command, ``hint`` a command to run or None, and ``paths``
    the paths it is about, where there may be many.
    """

    def __init__(self, message: str, data: Optional[Dict[str, Any]] = None) -> None:
        super().__init__(message)
        data = data or {}
        self.code: str = data.get("code", "protocol")
        self.exit: int = data.get("exit", 20)
        self.hint: Optional[str] = data.get("hint")
        self.paths: List[Dict[str, str]] = data.get("paths", [])
        self.notes: List[Dict[str, Any]] = data.get("notes", [])

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text} (hint: {self.hint})" if self.hint else text


class Usage(DmvError, ValueError):
    """The parameters make no sense (exit code 2)."""


class Conflicts(DmvError):
    """Done, and conflicts are left (4)."""


class Refused(DmvError):
    """Refused, because something could be lost (5)."""


class Absent(DmvError):
    """Needs content that is not here (6)."""


class Damage(DmvError):
    """Damage was found (7)."""


class NoRepository(DmvError):
    """There is no repository here (10)."""


class Busy(DmvError):
    """Another command is at work (11)."""


class NoPermission(DmvError):
    """A key or a permission is wanting (12)."""


class Unreachable(DmvError):
    """A remote cannot be reached (13)."""


class Interrupted(DmvError):
    """The call was canceled (130)."""


_BY_EXIT = {
    2: Usage,
    4: Conflicts,
    5: Refused,
    6: Absent,
    7: Damage,
    10: NoRepository,
    11: Busy,
    12: NoPermission,
    13: Unreachable,
    130: Interrupted,
}


def of_answer(error: Dict[str, Any]) -> DmvError:
    """Return the exception for the ``error`` of an answer."""
    data = error.get("data")
    message = error.get("message", "unknown error")
    if data is None:
        # -32602: the method has no such parameters.
        exits = {-32602: 2, -32601: 2}
        data = {"code": "usage", "exit": exits.get(error.get("code"), 20)}
    return _BY_EXIT.get(data.get("exit"), DmvError)(message, data)
