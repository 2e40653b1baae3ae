import os
import pathlib
import threading

import dmv
import pytest


def root(repo) -> pathlib.Path:
    return pathlib.Path(repo.root)


def test_work_is_seen_committed_and_undone(repo):
    assert repo.status()["clean"]
    (root(repo) / "notes.txt").write_text("second\n")
    assert [change["path"] for change in repo.status()["changes"]] == ["notes.txt"]
    states = repo.states(["notes.txt", "shots/a.exr", "none"])
    assert [state["state"] for state in states] == ["modified", "unchanged", "unknown"]
    commit = repo.commit("second", date="2020-01-02T03:04:05Z")["commit"]
    assert [one["message"] for one in repo.log()] == ["second", "first"]
    assert [one["path"] for one in repo.diff("@~1", commit)] == ["notes.txt"]
    repo.undo()
    assert not repo.status()["clean"]


def test_nothing_to_commit_has_no_commit(repo):
    assert repo.commit("nothing")["commit"] is None


def test_files_and_ranges_are_read(repo):
    content = (root(repo) / "shots" / "a.exr").read_bytes()
    assert repo.read("@:shots/a.exr") == content
    assert repo.read("@:shots/a.exr", 10, 300) == content[10:300]
    assert repo.read("@:shots/a.exr", len(content) - 3) == content[-3:]
    assert repo.read("@:shots/a.exr", len(content) + 5) == b""
    assert b"".join(repo.pieces("@:shots/a.exr", size=1000)) == content
    assert list(repo.pieces("@:shots/a.exr", 5, 5)) == []


def test_a_file_name_that_is_no_text(repo):
    name = b"caf\xe9.txt"
    (pathlib.Path(os.fsdecode(os.path.join(os.fsencode(repo.root), name)))).write_text("x")
    repo.commit("odd", paths=[name])
    [state] = repo.states([os.fsdecode(name)])
    assert state["state"] == "unchanged"
    assert repo.read(b":/" + name) == b"x"


def test_failures_have_code_exit_and_hint(repo, tmp_path):
    with pytest.raises(dmv.DmvError) as failed:
        repo.checkout("nowhere")
    assert (failed.value.code, failed.value.exit, failed.value.hint) == ("unknown-revision", 20, "dmv branch")
    with pytest.raises(dmv.Usage):
        repo.call("log", colour=True)
    with pytest.raises(ValueError):
        repo.call("no-command")
    (root(repo) / "notes.txt").write_text("mine\n")
    repo.branch("other", "@")
    repo.commit("mine")
    (root(repo) / "notes.txt").write_text("unsaved\n")
    with pytest.raises(dmv.Refused) as failed:
        repo.checkout("other")
    assert failed.value.paths[0]["path"] == "notes.txt"
    with pytest.raises(dmv.NoRepository):
        dmv.Repository(tmp_path)
    with pytest.raises(dmv.DmvError, match="no-directory|cannot change"):
        dmv.Repository(tmp_path / "missing")


def test_a_merge_with_conflicts_is_done_and_raises(repo):
    repo.branch("other")
    (root(repo) / "notes.txt").write_text("ours\n")
    repo.commit("ours")
    repo.checkout("other")
    (root(repo) / "notes.txt").write_text("theirs\n")
    repo.commit("theirs")
    with pytest.raises(dmv.Conflicts) as failed:
        repo.merge("main")
    assert failed.value.paths == [{"path": "notes.txt"}]
    assert [one["path"] for one in repo.conflicts()] == ["notes.txt"]


def test_a_clone_gets_and_sends_commits(repo, tmp_path):
    with dmv.clone(repo.root, tmp_path / "copy", subset=["shots"]) as copy:
        assert sorted(os.listdir(copy.root)) == [".dmv", "shots"]
        (root(copy) / "shots" / "c.exr").write_bytes(b"c")
        copy.commit("from the copy")
        copy.push()
    assert repo.log(limit=1)[0]["message"] == "from the copy"


def test_threads_share_a_repository(repo):
    content = (root(repo) / "shots" / "a.exr").read_bytes()
    failed = []

    def read(number):
        for at in range(20):
            start = (number * 977 + at * 31) % len(content)
            if repo.read("@:shots/a.exr", start, start + 100) != content[start : start + 100]:
                failed.append((number, at))

    threads = [threading.Thread(target=read, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_a_process_that_has_ended_is_told(repo):
    repo._client._process.kill()
    repo._client._process.wait()
    with pytest.raises(dmv.DmvError, match="has ended"):
        for _ in range(3):
            repo.status()
