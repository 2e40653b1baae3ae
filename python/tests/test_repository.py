import gc
import io
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


def test_an_option_of_one_call_is_not_kept_for_the_next(repo):
    signed = repo.commit("signed", allow_empty=True, sign=True)["commit"]
    plain = repo.commit("plain", allow_empty=True)["commit"]
    checked = [repo.call("verify-commit", rev=commit).document["signature"] for commit in (signed, plain)]
    assert checked == ["good", "none"]


def test_a_new_remote_is_known_to_the_next_call(repo, tmp_path):
    dmv.init(tmp_path / "nas").close()
    repo.branches()
    repo.call("remote.add", name="nas", url=str(tmp_path / "nas"))
    repo.push("nas")
    assert repo.log("nas/main") == repo.log("main")


def test_an_empty_list_of_paths_is_not_everything(repo):
    (root(repo) / "notes.txt").write_text("second\n")
    with pytest.raises(dmv.Usage):
        repo.commit("nothing", paths=[])
    assert len(repo.log()) == 1


def test_what_no_message_can_hold_is_refused_at_once(repo):
    for wrong in (float("nan"), float("inf"), "x" * (17 << 20)):
        with pytest.raises(ValueError):
            repo.call("log", max_count=wrong)
    assert repo.status()["clean"]


def test_progress_is_called_in_the_calling_thread_and_may_fail(repo):
    heard = []

    def progress(done):
        heard.append(threading.current_thread())
        repo.branches()
        raise KeyError("mine")

    # A commit that is done in a quarter of a second tells nothing.
    for mib in (64, 256, 1024):
        (root(repo) / "large").write_bytes(os.urandom(mib << 20))
        try:
            repo.call("commit", progress, message="large")
        except KeyError:
            break
    else:
        pytest.fail("no commit told how far it was")
    assert heard == [threading.current_thread()]
    assert repo.branches()


def test_a_forked_process_is_refused(repo):
    child = os.fork()
    if child == 0:
        try:
            repo.branches()
        except dmv.DmvError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert repo.branches()


def test_a_repository_that_is_forgotten_ends_its_process(repo):
    other = dmv.Repository(repo.root)
    process = other._client._process
    del other
    gc.collect()
    assert process.wait(timeout=60) == 0


def test_content_of_any_length_comes_whole(repo):
    content = os.urandom(5 << 20)
    (root(repo) / "large").write_bytes(content)
    repo.commit("large")
    assert repo.read("@:large") == content
    assert repo.read("@:large", 7, (4 << 20) + 9) == content[7:(4 << 20) + 9]
    buffer = bytearray(3 << 20)
    assert repo.readinto("@:large", buffer, 4 << 20) == 1 << 20
    assert buffer[:1 << 20] == content[4 << 20:]
    assert repo.read_all(["@:notes.txt", "@:large", "@:notes.txt"]) == [b"first\n", content, b"first\n"]


def test_content_that_is_canceled_ends(repo):
    content = os.urandom(20 << 20)
    (root(repo) / "large").write_bytes(content)
    repo.commit("large")
    client = repo._client
    identity, call = client._begin("cat", {"place": ["@:large"] * 200})
    client._cancel(identity)
    message = call.messages.get(timeout=60)
    assert message["error"]["data"]["code"] == "interrupted"
    assert sum(map(len, call.pieces)) < 200 * len(content)
    client._calls.end(identity)
    assert repo.read("@:notes.txt") == b"first\n"


def test_a_transaction_commits_files_without_touching_the_worktree(repo):
    before = repo.branches()[0]["commit"]
    with repo.transaction("main", "report", author="Ci <ci@x>") as files:
        files.write("out/report.csv", b"a,b\n")
        files.write("bin/run", b"#!/bin/sh\n", executable=True)
        with files.open("out/log.txt") as log:
            log.write(b"one\n")
            log.write(b"two\n")
        files.remove("shots/a.exr")
        assert files.base == before and files.read("notes.txt") == b"first\n"
        with pytest.raises(FileNotFoundError):
            files.read("none")
    assert files.result["branch"] == "main" and files.result["files"] == 4
    made = files.result["commit"]
    assert [one["path"] for one in repo.ls("main:", recursive=True)] == [
        "bin/run", "notes.txt", "out/log.txt", "out/report.csv", "shots/b.exr"]
    assert repo.read("main:out/log.txt") == b"one\ntwo\n"
    assert repo.log("main", limit=1)[0]["parents"] == [before]
    assert not (root(repo) / "out").exists()
    assert repo.ls("main:bin")[0]["kind"] == "executable"
    with pytest.raises(ZeroDivisionError):
        with repo.transaction("main", "never") as files:
            files.write("x", b"x")
            1 / 0
    assert repo.branches()[0]["commit"] == made


def test_a_transaction_that_meets_another_one(repo):
    with repo.transaction("main", "first") as first:
        first.write("same", b"1")
        with repo.transaction("main", "second") as second:
            second.write("other", b"2")
    assert repo.read("main:same") == b"1" and repo.read("main:other") == b"2"
    with pytest.raises(dmv.Refused) as refused:
        with repo.transaction("main", "third") as third:
            third.write("same", b"3")
            with repo.transaction("main", "fourth") as fourth:
                fourth.write("same", b"4")
    assert refused.value.code == "changed-meanwhile"
    assert repo.read("main:same") == b"4"
    with repo.transaction("main", "fifth") as files:
        files.remove("same")
        files.write("same", b"5")
    assert repo.read("main:same") == b"5"
    with pytest.raises(dmv.DmvError) as failed:
        with repo.transaction("none", "nowhere") as files:
            files.write("x", b"x")
    assert failed.value.code == "no-ref"


def test_a_file_that_cannot_be_read_leaves_nothing_in_a_transaction(repo):
    class Broken(io.BytesIO):
        def read(self, *_):
            raise OSError("the disk is gone")

    with repo.transaction("main", "what could be read") as files:
        files.write("notes.txt", b"before")
        files.remove("shots/a.exr")
        for wrong in ("text", None, 7, io.StringIO("text")):
            with pytest.raises(TypeError):
                files.write("shots/a.exr", wrong)
        with pytest.raises(OSError):
            files.write("bad", Broken(b"x" * 100_000))
        files.write("./out//after", b"after")
        for written in ("out/after", "/out/after/", "out"):
            with pytest.raises(ValueError):
                files.remove(written)
    assert repo.read("main:notes.txt") == b"before" and repo.read("main:out/after") == b"after"
    names = [one["path"] for one in repo.ls("main:", recursive=True)]
    assert "bad" not in names and "shots/a.exr" not in names


def test_what_changes_is_told(repo):
    seen = []
    with repo.watch() as events:
        (root(repo) / "notes.txt").write_text("second\n")
        for event in events:
            seen.append(event)
            if event["event"] == "file":
                repo.branch("other")
            if event["event"] == "ref":
                break
    assert seen[0] == {"event": "file", "path": "notes.txt", "state": "modified"}
    assert seen[-1]["name"] == "branch/other" and seen[-1]["old"] is None


def test_a_transaction_replaces_a_directory(repo):
    with repo.transaction("main", "anew") as files:
        files.remove("shots")
        files.write("shots/c.exr", b"c")
    assert [one["path"] for one in repo.ls("main:shots")] == ["shots/c.exr"]
    with pytest.raises(ValueError):
        with repo.transaction("main", "no") as files:
            files.write("shots/d.exr", b"d")
            files.remove("shots")
    assert len(repo.log("main")) == 2
