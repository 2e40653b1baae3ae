import os
import pathlib
import pickle
import random

import dmv
import pytest

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def fs(repo):
    return repo.fs("main")


def test_directories_and_files(fs):
    assert sorted(fs.ls("", detail=False)) == ["notes.txt", "shots"]
    assert fs.ls("shots", detail=False) == ["shots/a.exr", "shots/b.exr"]
    assert fs.isdir("shots") and fs.isfile("notes.txt") and not fs.exists("none")
    assert fs.info("shots/b.exr")["size"] == 1000
    assert fs.find("") == ["notes.txt", "shots/a.exr", "shots/b.exr"]
    assert fs.glob("shots/*.exr") == ["shots/a.exr", "shots/b.exr"]
    assert [names for _, _, names in fs.walk("")] == [["notes.txt"], ["a.exr", "b.exr"]]
    assert fs.du("shots") == 256 * 64 + 1000


def test_content(fs, repo):
    content = (pathlib.Path(repo.root) / "shots" / "a.exr").read_bytes()
    assert fs.cat_file("shots/a.exr") == content
    assert fs.cat_file("shots/a.exr", -5) == content[-5:]
    assert fs.cat_file("shots/a.exr", 3, -3) == content[3:-3]
    assert fs.cat(["notes.txt", "shots/b.exr"]) == {"notes.txt": b"first\n", "shots/b.exr": b"b" * 1000}
    assert fs.head("shots/a.exr", 7) == content[:7]
    with fs.open("shots/a.exr", block_size=1000) as file:
        file.seek(2000)
        assert file.read(3000) == content[2000:5000]
        file.seek(-2, 2)
        assert file.read() == content[-2:]
    with fs.open("notes.txt", "r") as file:
        assert file.read() == "first\n"


def test_what_is_not_there(fs):
    for call in (fs.info, fs.cat_file, fs.ls, fs.open):
        with pytest.raises(FileNotFoundError):
            call("shots/none")
    with pytest.raises(IsADirectoryError):
        fs.cat_file("shots")
    with pytest.raises(OSError):
        fs.open("shots/a.exr", "wb")


def test_a_commit_does_not_change_and_a_branch_does(repo):
    fixed, following = repo.fs("main"), repo.fs("main", follow=True)
    assert following.cat_file("notes.txt") == b"first\n"
    (pathlib.Path(repo.root) / "notes.txt").write_text("second\n")
    repo.commit("second")
    assert fixed.cat_file("notes.txt") == b"first\n"
    assert following.cat_file("notes.txt") == b"second\n"
    assert following.modified("notes.txt") > fixed.modified("notes.txt")


def test_a_path_is_no_revision(repo):
    for wrong in ("shots", "@..@", "notes.txt"):
        with pytest.raises(Exception, match="no branch, tag or commit|no-such|revision"):
            repo.fs(wrong)


def test_odd_names_and_leading_slashes(repo):
    name = b"caf\xe9 #1.txt"
    with open(os.path.join(os.fsencode(repo.root), name), "w") as file:
        file.write("x")
    repo.commit("odd")
    fs = repo.fs("main")
    assert fs.cat_file(os.fsdecode(name)) == b"x"
    assert fs.open("/" + os.fsdecode(name)).read() == b"x"
    assert fs.isdir("/shots") and fs.glob("/shots/*.exr") == fs.glob("shots/*.exr")


def test_a_conflict_is_no_empty_file(repo):
    repo.branch("other")
    note = pathlib.Path(repo.root) / "notes.txt"
    note.write_text("ours\n")
    repo.commit("ours")
    repo.checkout("other")
    note.write_text("theirs\n")
    repo.commit("theirs")
    with pytest.raises(dmv.Conflicts):
        repo.merge("main")
    fs = repo.fs("@")
    for read in (fs.cat_file, fs.open):
        with pytest.raises((OSError, dmv.DmvError)):
            read("notes.txt")


def test_addresses_name_a_revision(repo):
    with fsspec.open("dmv://main/shots/b.exr", repo=repo.root) as file:
        assert file.read() == b"b" * 1000
    fs, path = fsspec.core.url_to_fs("dmv://main/shots", repo=repo.root)
    assert fs.ls(path, detail=False) == ["main/shots/a.exr", "main/shots/b.exr"]


def test_a_slash_in_the_name_of_a_branch_is_written_as_2f(repo):
    repo.branch("scene/4")
    with fsspec.open("dmv://scene%2F4/shots/b.exr", repo=repo.root) as file:
        assert file.read() == b"b" * 1000


def test_nothing_is_written_into_a_commit(fs):
    for change in (fs.mkdir, fs.makedirs, fs.rmdir, fs.touch, fs.rm, fs.rm_file):
        with pytest.raises(OSError):
            change("shots/new")
    with pytest.raises(OSError):
        fs.pipe_file("shots/new", b"x")


def test_a_pickled_file_system_shows_the_same_commit(repo):
    fs = pickle.loads(pickle.dumps(repo.fs("main")))
    (pathlib.Path(repo.root) / "notes.txt").write_text("second\n")
    repo.commit("second")
    again = pickle.loads(pickle.dumps(fs))
    assert fs.cat_file("notes.txt") == again.cat_file("notes.txt") == b"first\n"
    assert fs.repository.root == again.repository.root == repo.root
    for one in (fs, again):
        one.repository.close()


def test_files_in_order_are_read_ahead(repo, monkeypatch):
    many = pathlib.Path(repo.root) / "many"
    many.mkdir()
    content = {f"many/{n}": b"%d" % n * 100 for n in range(300)}
    for path, data in content.items():
        (many / path.rpartition("/")[2]).write_bytes(data)
    repo.commit("many")
    fs = repo.fs("main")
    asked = []
    call = repo.call
    monkeypatch.setattr(repo, "call", lambda *args, **params: asked.append(args) or call(*args, **params))
    assert {path: fs.cat_file(path) for path in content} == content
    assert len(asked) < 10
    asked.clear()
    assert fs.cat(list(content)) == content
    assert len(asked) < 10
    asked.clear()
    opened = {}
    for path in content:
        with fs.open(path) as file:
            opened[path] = file.read()
    assert opened == content
    assert len(asked) < 10


def test_directories_in_order_are_read_ahead_together(repo, monkeypatch):
    content = {}
    for directory in range(20):
        (pathlib.Path(repo.root) / f"many{directory}" / "deep").mkdir(parents=True)
        for n in range(20):
            path = f"many{directory}/{'deep/' if n % 2 else ''}{n}"
            content[path] = b"%d" % n * 100
            (pathlib.Path(repo.root) / path).write_bytes(content[path])
    repo.commit("many")
    asked = []
    call = repo.call
    monkeypatch.setattr(repo, "call", lambda *args, **params: asked.append(args) or call(*args, **params))

    def questions(order):
        fs = repo.fs("main")
        asked.clear()
        for path in order:
            with fs.open(path) as file:
                assert file.read() == content[path]
        return len(asked)

    assert questions(sorted(content)) < 10
    # In the order of numbers, each directory of files costs one question, and few are in vain.
    numbers = sorted(content, key=lambda path: (int(path.split("/")[0][4:]), path.count("/"), path))
    assert questions(numbers) < 50


def test_a_large_file_among_small_ones_is_not_cut(repo):
    many = pathlib.Path(repo.root) / "many"
    many.mkdir()
    content = {f"many/{n:03}": os.urandom(300_000 if n % 50 == 40 else 262_144 if n == 90 else n) for n in range(100)}
    for path, data in content.items():
        (many / path.rpartition("/")[2]).write_bytes(data)
    repo.commit("many")
    fs = repo.fs("main")
    for path in content:
        with fs.open(path) as file:
            assert file.read() == content[path], path
    for wrong in ("many", "many/none"):
        with pytest.raises(OSError):
            fs.open(wrong)


def test_where_the_order_shows_nothing_little_is_read_for_nothing(repo, monkeypatch):
    many = pathlib.Path(repo.root) / "many"
    many.mkdir()
    content = {f"many/{n}": os.urandom(50_000) for n in range(200)}
    for path, data in content.items():
        (many / path.rpartition("/")[2]).write_bytes(data)
    repo.commit("many")
    fs = repo.fs("main")
    ahead = []
    read_ahead = repo.read_ahead

    def counted(*args):
        files = read_ahead(*args)
        ahead.append(len(files) - 1)
        return files

    monkeypatch.setattr(repo, "read_ahead", counted)
    order = sorted(content)
    random.Random(5).shuffle(order)
    for path in order:
        assert fs.cat_file(path) == content[path]
    assert 0 < sum(ahead) < len(order), "more was read for nothing than for something"
    # In order, most is read ahead.
    del ahead[:]
    fs = repo.fs("main")
    for path in sorted(content):
        assert fs.cat_file(path) == content[path]
    assert sum(ahead) > len(order) / 2


def test_a_small_file_is_a_file_like_others(repo):
    fs = repo.fs("main")
    with fs.open("notes.txt") as file:
        assert (file.path, file.size, file.mode, file.info()["size"]) == ("notes.txt", 6, "rb", 6)
        assert file.readable() and file.seekable() and not file.writable()
        again = pickle.loads(pickle.dumps(file))
        assert again.read() == file.read() == b"first\n"
        with pytest.raises(OSError):
            file.write(b"x")
    assert file.closed
    with fs.open("notes.txt", "r") as file:
        assert file.read() == "first\n"
    for wrong in ("none", "shots"):
        with pytest.raises(OSError):
            fs.open(wrong)


def test_one_file_of_many_that_is_not_there(fs):
    with pytest.raises(FileNotFoundError):
        fs.cat(["notes.txt", "none"])
    assert fs.cat(["notes.txt", "none"], on_error="omit") == {"notes.txt": b"first\n"}


def test_a_list_in_any_order(repo):
    paths = [f"{top}/f{n}" for top in ("many", "more/below") for n in range(300)]
    repo.branch("list")
    with repo.transaction("list", "many files") as files:
        for path in paths:
            files.write(path, path.encode())
    fs = repo.fs("list")
    for seed in range(3):
        random.Random(seed).shuffle(paths)
        assert fs.cat(paths) == {path: path.encode() for path in paths}
    with pytest.raises(FileNotFoundError):
        fs.cat(["many/f1", "many/f2", "many/f2x", "many/f3"])
    # The same paths in two commits.
    repo.branch("same", "list")
    with repo.transaction("same", "another content") as files:
        files.write("many/f2", b"new")
    places = ["list:many/f1", "list:many/f2", "same:many/f1", "same:many/f2", "same:many/f3", "list:many/f2"]
    assert repo.read_all(places) == [b"many/f1", b"many/f2", b"many/f1", b"new", b"many/f3", b"many/f2"]
