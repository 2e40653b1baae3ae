"""Repositories of DMV from Python.

>>> import dmv
>>> repo = dmv.Repository("film")
>>> repo.status()["clean"]
True

The program ``dmv`` does the work: a :class:`Repository` starts ``dmv api`` and talks to it. docs/api.md of DMV
specifies the conversation.
"""

from .errors import (
    Absent,
    Busy,
    Conflicts,
    Damage,
    DmvError,
    Interrupted,
    NoPermission,
    NoRepository,
    Refused,
    Unreachable,
    Usage,
)
from .repository import Repository, clone, init

__all__ = [
    "Absent",
    "Busy",
    "Conflicts",
    "Damage",
    "DmvError",
    "Interrupted",
    "NoPermission",
    "NoRepository",
    "Refused",
    "Repository",
    "Unreachable",
    "Usage",
    "clone",
    "init",
]
