"""A repository with some files, made anew for each test."""

import importlib.util
import pathlib

import dmv
import pytest

if importlib.util.find_spec("fsspec"):
    import fsspec

    # As an installed package does by its entry point.
    fsspec.register_implementation("dmv", "dmv.fs.DmvFileSystem", clobber=True)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Settings and keys of the user must not count."""
    directory = tmp_path / "home"
    directory.mkdir()
    monkeypatch.setenv("HOME", str(directory))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(directory / "config"))
    return directory


@pytest.fixture
def repo(tmp_path) -> dmv.Repository:
    with dmv.init(tmp_path / "film") as made:
        root = pathlib.Path(made.root)
        (root / "shots").mkdir()
        (root / "shots" / "a.exr").write_bytes(bytes(range(256)) * 64)
        (root / "shots" / "b.exr").write_bytes(b"b" * 1000)
        (root / "notes.txt").write_text("first\n")
        made.commit("first")
        yield made
