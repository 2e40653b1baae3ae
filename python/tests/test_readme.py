"""The examples of README.md run, in their order."""

import importlib.util
import pathlib
import re

import dmv
import pytest

PAGE = pathlib.Path(__file__).parents[1] / "README.md"


@pytest.fixture
def film(tmp_path, monkeypatch):
    """A repository with a remote, a tag, a branch, and uncommitted work that is in its way."""
    monkeypatch.chdir(tmp_path)
    dmv.init("nas").close()
    with dmv.init("film") as repo:
        root = pathlib.Path(repo.root)
        (root / "shots").mkdir()
        (root / "tables").mkdir()
        (root / "reports").mkdir()
        (root / "reports" / "old.csv").write_text("shot\n")
        (root / "tables" / "shots.csv").write_text("shot,frames\nsky,100\nsea,80\n")
        (root / "shots" / "sky.exr").write_bytes(b"first" * 5000)
        repo.commit("first")
        repo.tag("v1.0")
        repo.branch("regrade")
        repo.call("remote.add", name="origin", url=str(tmp_path / "nas"))
        (root / "tables" / "shots.csv").write_text("shot,frames\nsky,120\nsea,80\n")
        repo.commit("longer")
        (root / "shots" / "sky.exr").write_bytes(b"second" * 5000)
    return root


def test_the_examples_do_what_the_page_says(film, capsys):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 6
    names = {}
    for block in blocks:
        needed = re.findall(r"^import (fsspec|pandas)$", block, re.MULTILINE)
        if all(importlib.util.find_spec(name) for name in needed):
            if "checkout" in block:
                # What the page calls uncommitted work.
                (film / "tables" / "shots.csv").write_text("mine\n")
                names["repo"] = dmv.Repository("film")
            exec(compile(block, str(PAGE), "exec"), names)
    said = capsys.readouterr().out
    assert "shots/sky.exr modified" in said
    assert "branch/scene-4" in said
    assert "would" in said or "tables/shots.csv" in said
    assert names["head"].startswith(b"second")
    if "longer" in names:
        assert list(names["longer"].shot) == ["sky"]
