//! Cherry-picks and rebases: of random histories of texts they give what Git gives, and each is one
//! operation.

// A test prints its seed and what it could not try.
#![allow(clippy::print_stdout)]

use crate::merge::{Any, Files, History};
use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::repo::{
    CheckoutOptions, CheckoutTarget, MergeOptions, PickFrom, PickOptions, PickReport, Repo,
    UndoOptions, UndoWhat, Who,
};
use dmv_tests::scratch::{Item, commit, fast_dir, files_in, files_of, request};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The number of histories in the ordinary run. `DMV_REPLAY_ROUNDS` sets another number,
/// `DMV_FROM` the first seed, and `DMV_SEED` a single seed.
const ROUNDS: u64 = 20;

fn git(dir: &Path, args: &[&str]) -> Any<Output> {
    let mut command = Command::new("git");
    let identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"];
    command.arg("-C").arg(dir).args(identity).args(args);
    command
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_EDITOR", "true")
        .stdin(Stdio::null());
    Ok(command.output()?)
}

fn lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(str::to_owned).collect()
}

fn options(command: &str) -> MergeOptions {
    let who = Who::new("Test", "");
    MergeOptions::new("", who, request(command))
}

/// Replaces everything in a worktree.
fn put(root: &Path, files: &Files) -> Any<()> {
    for entry in fs::read_dir(root)? {
        let path = entry?.path();
        if path.ends_with(".dmv") {
            continue;
        }
        if path.is_dir() {
            fs::remove_dir_all(&path)?
        } else {
            fs::remove_file(&path)?
        }
    }
    for (name, (text, exec)) in files {
        let path = root.join(name);
        fs::create_dir_all(path.parent().ok_or("a file is in a directory")?)?;
        fs::write(&path, text.concat())?;
        let mode = if *exec { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

/// A history in a DMV repository: two branches from one commit.
struct Twice {
    history: History,
    /// The commits of each branch, oldest first, by number.
    upstream: Vec<usize>,
    topic: Vec<usize>,
    ids: Vec<ObjectId>,
    repo: Repo,
}

fn history(seed: u64, root: &Path) -> Any<Twice> {
    let mut h = History::new(seed);
    let first = h.first()?;
    let (mut upstream, mut topic) = (vec![], vec![]);
    let mut at = first;
    for _ in 0..1 + h.below(5) {
        at = h.edited(at)?;
        topic.push(at);
    }
    at = first;
    for _ in 0..1 + h.below(4) {
        at = h.edited(at)?;
        upstream.push(at);
    }
    if h.below(4) == 0 {
        // The same change is on both branches.
        let files = h.commits[topic[0]].files.clone();
        upstream = vec![h.commit(files, vec![first])?];
    }
    let repo = Repo::init(root, "main", false, request("init"))?;
    let mut ids = vec![None; h.commits.len()];
    let mut add = |n: usize| -> Any<()> {
        put(root, &h.commits[n].files)?;
        ids[n] = commit(&repo, &format!("c{n}"))?.commit;
        Ok(())
    };
    add(first)?;
    repo.create_ref(
        dmv_core::repo::RefKind::Branch,
        "topic",
        repo.resolve("main")?,
        request("branch"),
    )?;
    upstream.iter().try_for_each(|n| add(*n))?;
    checkout(&repo, "topic")?;
    topic.iter().try_for_each(|n| add(*n))?;
    let none = repo.resolve("main")?;
    let ids = ids.into_iter().map(|id| id.unwrap_or(none)).collect();
    Ok(Twice {
        history: h,
        upstream,
        topic,
        ids,
        repo,
    })
}

fn checkout(repo: &Repo, branch: &str) -> Any<()> {
    let options = CheckoutOptions::new(request("checkout"));
    let to = CheckoutTarget::Branch(branch.to_owned());
    let done = repo.checkout(to, &options, &Job::default())?;
    assert!(done.refused.is_empty());
    Ok(())
}

/// Passes commits to Git as `dN` and returns the ids of their trees; `None` for a commit with
/// conflicts.
fn trees_in_git(dir: &Path, repo: &Repo, commits: &[ObjectId]) -> Any<Vec<Option<String>>> {
    let mut stream = Vec::new();
    let mut out = Vec::new();
    for (n, id) in commits.iter().enumerate() {
        let is_open = !repo.conflicts(&repo.read_commit(id)?)?.is_empty();
        out.push(is_open);
        writeln!(stream, "commit refs/heads/d{n}\nmark :{}", n + 1)?;
        writeln!(stream, "committer t <t> 1000 +0000\ndata 0\ndeleteall")?;
        for (path, item) in files_of(repo, id)? {
            let Item::File(text, exec) = item else {
                continue;
            };
            let path = String::from_utf8(path)?;
            let mode = if exec { 755 } else { 644 };
            writeln!(stream, "M 100{mode} inline {path}\ndata {}", text.len())?;
            stream.extend(text);
            writeln!(stream)?;
        }
    }
    let mut child = Command::new("git")
        .arg("-C")
        .arg(dir)
        .args(["fast-import", "--quiet", "--force"])
        .stdin(Stdio::piped())
        .spawn()?;
    child.stdin.take().ok_or("stdin")?.write_all(&stream)?;
    assert!(child.wait()?.success());
    out.into_iter()
        .enumerate()
        .map(|(n, is_open)| {
            let tree = git(dir, &["rev-parse", &format!("d{n}^{{tree}}")])?;
            Ok((!is_open).then(|| lines(&tree).concat()))
        })
        .collect()
}

/// What Git made of a command: the trees of the new commits, and whether it stopped at conflicts.
struct Gits {
    trees: Vec<String>,
    stopped: bool,
    /// Git reports some moves as conflicts where DMV keeps all versions (docs/guide/merging.md).
    asks_about_moves: bool,
}

fn gits(dir: &Path, upstream: &str, done: &Output) -> Any<Gits> {
    let told =
        String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    let unmerged = lines(&git(dir, &["ls-files", "--unmerged"])?);
    assert_eq!(
        done.status.success(),
        unmerged.is_empty() && !told.contains("CONFLICT"),
        "{told}"
    );
    let range = format!("{upstream}..HEAD");
    let trees = git(dir, &["log", "--reverse", "--format=%T", &range])?;
    Ok(Gits {
        trees: lines(&trees),
        stopped: !done.status.success(),
        asks_about_moves: told.contains("CONFLICT (rename/"),
    })
}

/// Compares the commits of both. Returns whether all are clean; `None` if Git asks about moves.
fn same(mine: &[Option<String>], gits: &Gits) -> Result<Option<bool>, String> {
    let made = gits.trees.len();
    for (n, tree) in gits.trees.iter().enumerate() {
        if mine.get(n) != Some(&Some(tree.clone())) {
            return Err(format!("commit {n} differs"));
        }
    }
    match (gits.stopped, mine.get(made)) {
        (false, None) => Ok(Some(true)),
        (true, Some(None)) => Ok(Some(false)),
        (true, _) if gits.asks_about_moves => Ok(None),
        (stopped, next) => Err(format!("Git stopped: {stopped}, commit {made}: {next:?}")),
    }
}

fn has_git() -> bool {
    let found = Command::new("git").arg("--version").output();
    let found = found.is_ok_and(|output| output.status.success());
    if !found {
        dmv_random::skip("git is not installed");
    }
    found
}

fn seeds() -> std::ops::Range<u64> {
    let env = |name| {
        let text = std::env::var(name).ok()?;
        text.parse::<u64>().ok()
    };
    match env("DMV_SEED") {
        Some(seed) => seed..seed + 1,
        None => env("DMV_FROM").unwrap_or(0)..env("DMV_REPLAY_ROUNDS").unwrap_or(ROUNDS),
    }
}

fn commits_of(report: &PickReport) -> Vec<ObjectId> {
    report.made.iter().map(|one| one.commit).collect()
}

#[test]
fn rebases_are_those_that_git_makes() -> Any<()> {
    if !has_git() {
        return Ok(());
    }
    let (mut clean, mut conflicts, mut moves, mut wrong) = (0, 0, 0, Vec::new());
    for seed in seeds() {
        let dir = fast_dir()?;
        let (mine, theirs) = (dir.path().join("dmv"), dir.path().join("git"));
        fs::create_dir_all(&mine)?;
        let twice = history(seed, &mine)?;
        git(dir.path(), &["init", "--quiet", "git"])?;
        twice.history.tell(&theirs.join(".git"))?;
        let onto = *twice.upstream.last().ok_or("upstream")?;
        let tip = *twice.topic.last().ok_or("topic")?;
        let branch = format!("c{tip}");
        assert!(git(&theirs, &["checkout", "-q", &branch])?.status.success());
        let upstream = format!("c{onto}");
        let done = git(&theirs, &["rebase", &upstream])?;
        let gits = gits(&theirs, &upstream, &done)?;
        let id = twice.ids[onto];
        let report = twice
            .repo
            .rebase(id, id, &options("rebase"), &Job::default())?;
        let trees = trees_in_git(&theirs, &twice.repo, &commits_of(&report))?;
        match same(&trees, &gits) {
            Ok(Some(true)) => clean += 1,
            Ok(Some(false)) => conflicts += 1,
            Ok(None) => moves += 1,
            Err(why) => wrong.push((seed, why)),
        }
    }
    println!("{clean} clean, {conflicts} with conflicts, {moves} where Git asks about moves");
    assert!(wrong.is_empty(), "DMV_SEED: {wrong:?}");
    Ok(())
}

#[test]
fn cherry_picks_are_those_that_git_makes() -> Any<()> {
    if !has_git() {
        return Ok(());
    }
    let (mut clean, mut conflicts, mut moves, mut wrong) = (0, 0, 0, Vec::new());
    for seed in seeds() {
        let dir = fast_dir()?;
        let (mine, theirs) = (dir.path().join("dmv"), dir.path().join("git"));
        fs::create_dir_all(&mine)?;
        let mut twice = history(1000 + seed, &mine)?;
        git(dir.path(), &["init", "--quiet", "git"])?;
        twice.history.tell(&theirs.join(".git"))?;
        checkout(&twice.repo, "main")?;
        let onto = *twice.upstream.last().ok_or("upstream")?;
        let picked = twice.topic[twice.history.below(twice.topic.len())];
        let upstream = format!("c{onto}");
        assert!(
            git(&theirs, &["checkout", "-q", &upstream])?
                .status
                .success()
        );
        // A commit that changes nothing, or nothing any more, is no conflict.
        let kept = ["cherry-pick", "--allow-empty", "--keep-redundant-commits"];
        let done = git(&theirs, &[&kept[..], &[&format!("c{picked}")]].concat())?;
        let gits = gits(&theirs, "HEAD@{1}", &done)?;
        let from = [PickFrom::One(twice.ids[picked])];
        let (pick, options) = (PickOptions::default(), options("cherry-pick"));
        let report = twice
            .repo
            .cherry_pick(&from, pick, &options, &Job::default())?;
        let mut made = commits_of(&report);
        // Git made a commit without changes.
        made.extend(report.dropped.iter().map(|_| report.merge.commit));
        let trees = trees_in_git(&theirs, &twice.repo, &made)?;
        match same(&trees, &gits) {
            Ok(Some(true)) => clean += 1,
            Ok(Some(false)) => conflicts += 1,
            Ok(None) => moves += 1,
            Err(why) => wrong.push((seed, why)),
        }
    }
    println!("{clean} clean, {conflicts} with conflicts, {moves} where Git asks about moves");
    assert!(wrong.is_empty(), "DMV_SEED: {wrong:?}");
    Ok(())
}

#[test]
fn an_undo_takes_back_a_rebase_with_its_files_and_a_redo_repeats_it() -> Any<()> {
    for seed in 0..8 {
        let dir = fast_dir()?;
        let Twice { repo, ids, .. } = history(seed, dir.path())?;
        let (before, tip) = (files_in(dir.path())?, repo.resolve("topic")?);
        let onto = repo.resolve("main")?;
        let operations = repo.refs().operations_before(None, 1000)?.len();
        let job = Job::default();
        let report = repo.rebase(onto, onto, &options("rebase"), &job)?;
        assert_eq!(repo.resolve("topic")?, report.merge.commit);
        assert_ne!(report.merge.commit, tip, "seed {seed} of {}", ids.len());
        let now = repo.refs().operations_before(None, 1000)?.len();
        assert_eq!(now, operations + 1, "seed {seed}");
        let after = files_in(dir.path())?;
        for (what, files, at) in [
            (UndoWhat::Last, &before, tip),
            (UndoWhat::LastUndo, &after, report.merge.commit),
        ] {
            let undo = UndoOptions {
                what,
                settings: Default::default(),
                request: request("undo"),
            };
            repo.undo(&undo, &job)?;
            assert_eq!(&files_in(dir.path())?, files, "seed {seed}");
            assert_eq!(repo.resolve("topic")?, at);
        }
        let sound = repo.verify(dmv_core::repo::VerifyDepth::Full, &job)?;
        assert!(sound.is_ok(), "{sound:?}");
    }
    Ok(())
}
