"""Tries the add-on in Blender: blender --background --factory-startup --python-exit-code 1 --python try.py -- ARCHIVE DIR

Makes a repository in DIR, which must not exist.
"""
import importlib
import os
import sys

import bpy

archive, top = sys.argv[-2:]
bpy.ops.preferences.addon_install(filepath=archive)
bpy.ops.preferences.addon_enable(module="dmv_versions")
addon = importlib.import_module("dmv_versions")
assert addon.dmv.__name__ == "dmv_versions.dmv", "the package of the archive is in use"


def texts():
    return [text for text, _ in addon._state.lines()]


def fails(operator, said, **options):
    try:
        operator(**options)
    except RuntimeError as error:
        assert said in str(error), error
    else:
        raise AssertionError(f"{operator} has not failed")


os.makedirs(top)
# Neither saved, nor in a repository.
assert addon.refresh().trouble == "the file has not been saved yet"
fails(bpy.ops.dmv.commit, "poll", message="x")
outside = os.path.join(top, "outside.blend")
bpy.ops.wm.save_as_mainfile(filepath=outside)
assert texts() == ["this file is in no repository"], texts()
fails(bpy.ops.dmv.commit, "in no repository", message="x")

with addon.dmv.init(os.path.join(top, "film")) as repo:
    scene = os.path.join(repo.root, "scene.blend")
    picture = os.path.join(repo.root, "wood.png")
    image = bpy.data.images.new("wood", 8, 8)
    image.filepath_raw, image.file_format = picture, "PNG"
    image.save()
    image.use_fake_user = True
    bpy.ops.wm.save_as_mainfile(filepath=scene, compress=False)
    assert texts() == ["added, on main", "changed: wood.png"], texts()

    # A commit has the file and what it uses.
    fails(bpy.ops.dmv.commit, "write a message", message=" ")
    assert bpy.ops.dmv.commit(message="first") == {"FINISHED"}
    assert sorted(one["path"] for one in repo.ls("main:")) == ["scene.blend", "wood.png"]
    assert texts() == ["unchanged, on main"], texts()

    # What has not changed is neither saved nor committed; what has changed is saved first.
    bpy.ops.dmv.commit(message="nothing")
    assert len(repo.log()) == 1
    bpy.ops.mesh.primitive_cube_add()
    # A step that can be undone marks the file as changed; without a window, it stays marked from then on.
    bpy.ops.ed.undo_push(message="a cube")
    assert bpy.data.is_dirty
    cubes = len(bpy.data.objects)
    assert bpy.ops.dmv.commit(message="a cube") == {"FINISHED"}
    assert addon._state.state == "unchanged", addon._state
    bpy.ops.wm.open_mainfile(filepath=scene)
    assert len(bpy.data.objects) == cubes
    assert [one["message"].strip() for one in repo.log()] == ["a cube", "first"]

    # A file that was saved compressed.
    bpy.ops.wm.save_as_mainfile(filepath=scene, compress=True)
    assert texts()[:2] == ["modified, on main", "saved compressed: versions share nothing"], texts()
    bpy.ops.wm.save_as_mainfile(filepath=scene, compress=False)
    assert not addon._state.is_compressed
    bpy.ops.dmv.commit(message="plain again")

    # Claims.
    bpy.ops.dmv.claim()
    assert "claimed by you" in texts(), texts()
    bpy.ops.dmv.claim(release=True)
    assert "claimed by you" not in texts(), texts()

    # A newer version on another branch is told when the file is opened.
    repo.branch("light")
    with open(scene, "rb") as file:
        content = file.read()
    with repo.transaction("light", "brighter") as files:
        files.write("scene.blend", content + b" ")
    bpy.ops.wm.open_mainfile(filepath=scene)
    assert addon._state.newer == ["light, by a"], addon._state
    assert addon._state.warning() == "There is a newer version: light, by a"

    # Through a symlink, too.
    link = os.path.join(top, "link")
    os.symlink(repo.root, link)
    bpy.ops.wm.open_mainfile(filepath=os.path.join(link, "scene.blend"))
    assert texts()[0] == "unchanged, on main", texts()

bpy.ops.preferences.addon_disable(module="dmv_versions")
assert not hasattr(bpy.types, "DMV_PT_versions")
print("the add-on did what it should")
