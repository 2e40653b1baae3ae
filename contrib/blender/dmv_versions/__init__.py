"""A Blender add-on: the state of the open file in a DMV repository, commits, newer versions elsewhere, claims.

It calls the program by the package ``dmv``, which stands beside this file or is installed.
"""

import atexit
import os
from dataclasses import dataclass, field
from typing import Dict, List, Optional, Tuple

import bpy
from bpy.app.handlers import persistent

try:
    from . import dmv
except ImportError:
    import dmv

bl_info = {
    "name": "DMV versions",
    "author": "The DMV developers",
    "version": (0, 1, 0),
    "blender": (3, 3, 0),
    "location": "3D View > Sidebar > DMV",
    "description": "State, commits and newer versions of the open file in a DMV repository",
    "category": "System",
}

#: What a file begins with that Blender has compressed: zstd, and gzip before Blender 3.0.
_COMPRESSED = (b"\x28\xb5\x2f\xfd", b"\x1f\x8b")

#: States that a commit has something to do with.
_CHANGED = ("added", "modified", "type")


@dataclass
class State:
    """What is known of the open file."""

    #: Why there is nothing to know.
    trouble: str = ""
    branch: str = ""
    state: str = ""
    newer: List[str] = field(default_factory=list)
    claimed_by: str = ""
    is_mine: bool = False
    is_compressed: bool = False
    #: Changed files that the open one uses.
    used: List[str] = field(default_factory=list)

    def lines(self) -> List[Tuple[str, str]]:
        """Return what the panel shows: texts and their icons."""
        if self.trouble:
            return [(self.trouble, "INFO")]
        words = self.state if self.branch == "" else f"{self.state}, on {self.branch}"
        out = [(words, "CHECKMARK" if self.state == "unchanged" else "FILE_TICK")]
        out += [(f"newer: {one}", "ERROR") for one in self.newer]
        if self.claimed_by:
            out.append((f"claimed by {'you' if self.is_mine else self.claimed_by}", "USER"))
        if self.is_compressed:
            out.append(("saved compressed: versions share nothing", "ERROR"))
            out.append(("turn off Compress when you save", "BLANK1"))
        out += [(f"changed: {one}", "LINKED") for one in self.used]
        return out

    def warning(self) -> str:
        """Return what somebody who begins to work on the file should know."""
        if self.newer:
            return f"There is a newer version: {self.newer[0]}"
        if self.claimed_by and not self.is_mine:
            return f"This file is claimed by {self.claimed_by}"
        return ""


class _Repositories:
    """A conversation with each repository that was needed."""

    def __init__(self) -> None:
        self._open: Dict[str, dmv.Repository] = {}

    def of(self, directory: str) -> dmv.Repository:
        root = _root(directory)
        if root is None:
            raise dmv.DmvError("this file is in no repository")
        if root not in self._open:
            self._open[root] = dmv.Repository(root)
        return self._open[root]

    def close(self) -> None:
        for repository in self._open.values():
            repository.close()
        self._open.clear()

    def forget(self, directory: str) -> None:
        """End a conversation that failed, so that the next one begins anew."""
        gone = self._open.pop(_root(directory) or "", None)
        if gone is not None:
            gone.close()


def _root(directory: str) -> Optional[str]:
    """Return the worktree that a directory is in. Its program is not started elsewhere."""
    at = os.path.realpath(directory)
    while not os.path.lexists(os.path.join(at, ".dmv")):
        above = os.path.dirname(at)
        if above == at:
            return None
        at = above
    return at


_repositories = _Repositories()
_state = State("not looked at yet")


def _inside(repository: dmv.Repository, path: str) -> Optional[str]:
    """Return a path from the root of a worktree, if it is in there."""
    real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    found = os.path.relpath(real, repository.root) if repository.root else os.pardir
    return None if found.split(os.sep)[0] in (os.pardir, ".dmv") else found.replace(os.sep, "/")


def _used(repository: dmv.Repository) -> List[str]:
    """Return the files that the open one uses and the repository has: images, sounds, libraries."""
    found = {_inside(repository, path) for path in bpy.utils.blend_paths(absolute=True)}
    found.discard(_inside(repository, bpy.data.filepath))
    return sorted(path for path in found if path is not None)


def _newer(one: dict) -> str:
    where = f"{one['remote']}/{one['branch']}" if one["remote"] else one["branch"]
    return f"{where}, by {one['author']}"


def look() -> State:
    """Ask for the state of the open file."""
    path = bpy.data.filepath
    if not path:
        return State("the file has not been saved yet")
    try:
        repository = _repositories.of(os.path.dirname(path))
        inside = _inside(repository, path)
        if inside is None:
            return State("this file is in no worktree")
        paths = [":/" + one for one in [inside, *_used(repository)]]
        first, *used = repository.states(paths)
        branch = next((one["name"] for one in repository.branches() if one["current"]), "")
    except dmv.DmvError as error:
        _repositories.forget(os.path.dirname(path))
        return State(str(error))
    claimed = first.get("claimed") or {}
    return State(
        branch=branch,
        state=first["state"],
        newer=[_newer(one) for one in first["newer"]],
        claimed_by=claimed.get("by") or claimed.get("device", "")[:8],
        is_mine=claimed.get("mine", False),
        is_compressed=_is_compressed(path),
        used=[one["path"] for one in used if one["state"] in _CHANGED],
    )


def _is_compressed(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(4).startswith(_COMPRESSED)
    except OSError:
        return False


def refresh() -> State:
    """Look, and show it."""
    global _state
    _state = look()
    for window in bpy.context.window_manager.windows:
        for area in window.screen.areas:
            if area.type == "VIEW_3D":
                area.tag_redraw()
    return _state


def commit(message: str, with_used: bool) -> str:
    """Save and commit the open file, and the changed files that it uses. Return what was done."""
    if bpy.data.is_dirty:
        bpy.ops.wm.save_mainfile()
    state = refresh()
    if state.trouble:
        raise dmv.DmvError(state.trouble)
    repository = _repositories.of(os.path.dirname(bpy.data.filepath))
    paths = [_inside(repository, bpy.data.filepath), *(state.used if with_used else [])]
    done = repository.commit(message, [":/" + path for path in paths])
    refresh()
    if not done["commit"]:
        return "nothing has changed"
    return f"committed {done['files']} file{'' if done['files'] == 1 else 's'} to {done['branch'] or 'no branch'}"


class _Operator:
    """What the operators have in common: a failure is reported, with its hint."""

    bl_options = {"REGISTER"}

    @classmethod
    def poll(cls, _: bpy.types.Context) -> bool:
        return bool(bpy.data.filepath)

    def execute(self, context: bpy.types.Context) -> set:
        try:
            said = self.run(context)
        except dmv.DmvError as error:
            hint = getattr(error, "hint", None)
            self.report({"ERROR"}, f"{error}{f' ({hint})' if hint else ''}")
            return {"CANCELLED"}
        if said:
            self.report({"INFO"}, said)
        return {"FINISHED"}


class DMV_OT_refresh(_Operator, bpy.types.Operator):
    """Look at the state of the open file again"""

    bl_idname = "dmv.refresh"
    bl_label = "Refresh"

    def run(self, _: bpy.types.Context) -> str:
        return refresh().warning()


class DMV_OT_commit(_Operator, bpy.types.Operator):
    """Save the open file and commit it, and the changed files that it uses"""

    bl_idname = "dmv.commit"
    bl_label = "Commit"

    message: bpy.props.StringProperty(name="Message", description="What you have done")
    with_used: bpy.props.BoolProperty(name="Files that it uses", default=True)

    def invoke(self, context: bpy.types.Context, _: bpy.types.Event) -> set:
        refresh()
        return context.window_manager.invoke_props_dialog(self, width=400)

    def draw(self, _: bpy.types.Context) -> None:
        if _state.warning():
            self.layout.label(text=_state.warning(), icon="ERROR")
        self.layout.prop(self, "message")
        self.layout.prop(self, "with_used")

    def run(self, _: bpy.types.Context) -> str:
        if not self.message.strip():
            raise dmv.DmvError("write a message for the commit")
        return commit(self.message, self.with_used)


class DMV_OT_claim(_Operator, bpy.types.Operator):
    """Tell others that you work on the open file, or that you no longer do"""

    bl_idname = "dmv.claim"
    bl_label = "Claim"

    release: bpy.props.BoolProperty(options={"HIDDEN"})

    def run(self, _: bpy.types.Context) -> str:
        repository = _repositories.of(os.path.dirname(bpy.data.filepath))
        path = _inside(repository, bpy.data.filepath)
        done = repository.call("release" if self.release else "claim", paths=[f":/{path}"])
        refresh()
        return "; ".join(note["message"] for note in done.notes)


class DMV_PT_versions(bpy.types.Panel):
    bl_label = "DMV"
    bl_space_type = "VIEW_3D"
    bl_region_type = "UI"
    bl_category = "DMV"

    def draw(self, _: bpy.types.Context) -> None:
        for text, icon in _state.lines():
            self.layout.label(text=text, icon=icon)
        self.layout.operator("dmv.commit", icon="CHECKMARK")
        row = self.layout.row(align=True)
        row.operator("dmv.claim", text="Release" if _state.is_mine else "Claim").release = _state.is_mine
        row.operator("dmv.refresh", icon="FILE_REFRESH")


class DMV_AP_preferences(bpy.types.AddonPreferences):
    bl_idname = __name__

    program: bpy.props.StringProperty(
        name="Program dmv", subtype="FILE_PATH", description="Empty: the one of the search path",
        update=lambda self, _: _use_program(self.program),
    )

    def draw(self, _: bpy.types.Context) -> None:
        self.layout.prop(self, "program")


def _use_program(program: str) -> None:
    """Only the user's preferences name the program; no file and no repository does."""
    _repositories.close()
    if program:
        os.environ["DMV"] = bpy.path.abspath(program)


@persistent
def _opened(*_: object) -> None:
    warning = refresh().warning()
    if not warning:
        return
    print(f"DMV: {warning}")
    if not bpy.app.background:
        draw = lambda self, _: self.layout.label(text=warning)  # noqa: E731
        bpy.context.window_manager.popup_menu(draw, title="DMV", icon="ERROR")


@persistent
def _saved(*_: object) -> None:
    refresh()


_CLASSES = (DMV_OT_refresh, DMV_OT_commit, DMV_OT_claim, DMV_PT_versions, DMV_AP_preferences)
_HANDLERS = ((bpy.app.handlers.load_post, _opened), (bpy.app.handlers.save_post, _saved))


def register() -> None:
    for one in _CLASSES:
        bpy.utils.register_class(one)
    for handlers, handler in _HANDLERS:
        handlers.append(handler)
    addon = bpy.context.preferences.addons.get(__name__)
    if addon is not None and addon.preferences is not None and addon.preferences.program:
        _use_program(addon.preferences.program)
    atexit.register(_repositories.close)


def unregister() -> None:
    for handlers, handler in _HANDLERS:
        handlers.remove(handler)
    for one in reversed(_CLASSES):
        bpy.utils.unregister_class(one)
    _repositories.close()
    atexit.unregister(_repositories.close)
