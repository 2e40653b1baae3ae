//! `discard` puts files back as in the worktree's commit and removes new ones, and its undo brings all of it back.

use dmv_core::job::Job;
use dmv_core::repo::{
    FilesError, PathRefusal, Repo, RepoError, StatusOptions, UndoOptions, UndoWhat,
};
use dmv_core::worktree::select::Paths;
use dmv_tests::scratch::{commit, fast_dir, files_in, request};
use std::fs;

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn discard(repo: &Repo, paths: &[&str]) -> Result<(u64, u64), RepoError> {
    let paths: Result<Vec<_>, _> = paths
        .iter()
        .map(|p| Repo::parse_path(p.as_bytes()))
        .collect();
    let (settings, asked) = (Default::default(), request("discard"));
    let done = repo.discard(&paths?, &settings, asked, &Job::default())?;
    assert!(done.refused.is_empty(), "{:?}", done.refused);
    Ok((done.files, done.removed))
}

fn changed(repo: &Repo) -> Result<Vec<String>, RepoError> {
    let options = StatusOptions {
        select: &Paths::default(),
        settings: Default::default(),
    };
    let found = repo.status(&options, &Job::default())?.changes;
    Ok(found.iter().map(|change| change.path.to_string()).collect())
}

#[test]
fn what_is_discarded_comes_back_by_one_undo() -> Outcome {
    let dir = fast_dir()?;
    let root = dir.path();
    let repo = Repo::init(root, "main", false, request("init"))?;
    for (path, content) in [
        ("a", "1"),
        ("gone", "2"),
        ("stays", "3"),
        ("old.txt", "moved"),
    ] {
        fs::write(root.join(path), content)?;
    }
    commit(&repo, "first")?;
    fs::write(root.join("a"), "mine")?;
    fs::write(root.join("stays"), "mine, too")?;
    fs::remove_file(root.join("gone"))?;
    fs::create_dir_all(root.join("new/deep"))?;
    fs::write(root.join("new/deep/file"), "only here")?;
    fs::rename(root.join("old.txt"), root.join("new.txt"))?;
    let before = files_in(root)?;
    let done = discard(&repo, &["a", "gone", "new/deep/file", "old.txt", "new.txt"])?;
    assert_eq!(done, (3, 2));
    assert_eq!(
        changed(&repo)?,
        ["stays"],
        "nothing else, and no empty directory"
    );
    assert_eq!(fs::read(root.join("a"))?, b"1");
    assert!(!root.join("new").exists());
    let undo = UndoOptions {
        what: UndoWhat::Last,
        settings: Default::default(),
        request: request("undo"),
    };
    repo.undo(&undo, &Job::default())?;
    assert_eq!(files_in(root)?, before);
    Ok(())
}

#[test]
fn only_new_files_that_a_status_lists_are_discarded() -> Outcome {
    let dir = fast_dir()?;
    let root = dir.path();
    let repo = Repo::init(root, "main", false, request("init"))?;
    let refusal = discard(&repo, &["a"]);
    assert!(refusal.is_err(), "there is no commit to go back to");
    fs::write(root.join(".dmvignore"), "*.cfg\n")?;
    commit(&repo, "first")?;
    fs::write(root.join("local.cfg"), "ignored")?;
    fs::create_dir(root.join("dir"))?;
    fs::write(root.join("dir/new"), "new")?;
    let _socket = std::os::unix::net::UnixListener::bind(root.join("socket"))?;
    for (path, want) in [
        ("local.cfg", PathRefusal::Ignored),
        ("dir", PathRefusal::Directory),
        ("socket", PathRefusal::NotAFile),
    ] {
        match discard(&repo, &[path]) {
            Err(RepoError::Files(FilesError::PathRefused { why, .. })) if why == want => {}
            other => panic!("{path}: {other:?}"),
        }
        assert!(root.join(path).exists());
    }
    assert_eq!(discard(&repo, &["never-there"])?, (0, 0));
    for path in ["../outside", ".dmv/format"] {
        assert!(discard(&repo, &[path]).is_err(), "{path}");
    }
    Ok(())
}
