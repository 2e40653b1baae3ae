//! Commits without a worktree: the same files give the same tree as in a worktree, and nobody's change gets lost.

use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::ObjectType;
use dmv_core::object::tree::empty_tree_id;
use dmv_core::repo::{OntoFiles, OntoOptions, OntoReport, Repo, RepoError, VerbError, Who};
use dmv_tests::peers::{Done, Place};
use dmv_tests::rng::Rng;
use dmv_tests::scratch::{Item, commit, fast_dir, files_of, request};
use std::io;

pub fn options(message: &str) -> OntoOptions {
    OntoOptions {
        branch: "main".to_owned(),
        base: None,
        message: message.to_owned(),
        author: None,
        date: None,
        committer: Who {
            name: "Test".into(),
            email: String::new(),
        },
        allow_empty: false,
        portable_names: false,
        request: request("commit --onto main"),
    }
}

pub fn put(files: &mut OntoFiles<'_>, path: &str, content: &[u8]) -> Result<(), RepoError> {
    files.put(
        Repo::parse_path(path.as_bytes())?,
        0o644,
        content,
        &Job::default(),
    )
}

fn commit_of(repo: &Repo, files: &[(&str, &[u8])]) -> Result<OntoReport, RepoError> {
    let mut made = repo.files_for_branch(&request("commit"))?;
    for (path, content) in files {
        put(&mut made, path, content)?;
    }
    made.commit(&options("files"))
}

fn content(repo: &Repo, commit: &ObjectId, path: &str) -> Result<Option<Item>, RepoError> {
    Ok(files_of(repo, commit)?.remove(path.as_bytes()))
}

fn fails_with(done: Result<OntoReport, RepoError>, expected: &str) {
    match done {
        Err(RepoError::Verb(VerbError::CannotPut { path, why })) => {
            assert_eq!(format!("{path}: {why}"), expected);
        }
        other => panic!("{other:?} instead of {expected}"),
    }
}

#[test]
fn the_same_files_give_the_same_tree_as_in_a_worktree() -> Done {
    let (worktree, bare) = (Place::new()?, Place::new()?);
    let mut rng = Rng::new(3);
    let mut files = bare.repo.files_for_branch(&request("commit"))?;
    for (path, len) in [
        ("empty", 0),
        ("d/one", 1),
        ("d/e/large", 3 << 20),
        ("d!", 70_000),
    ] {
        let bytes = rng.bytes(len);
        worktree.write(path, &bytes)?;
        put(&mut files, path, &bytes)?;
    }
    let expected = worktree.commit("all")?;
    let made = files.commit(&options("all"))?;
    let id = made.commit.ok_or("a commit")?;
    let tree = |repo: &Repo, id| repo.read_commit(id).map(|commit| commit.tree);
    assert_eq!(tree(&bare.repo, &id)?, tree(&worktree.repo, &expected)?);
    assert_eq!((made.files, made.size.tree_files), (4, 4));
    assert_eq!(made.size.new_bytes, 1 + (3 << 20) + 70_000);
    bare.is_sound()?;
    // The same again is nothing new.
    let again = commit_of(&bare.repo, &[("d/one", b"x"), ("empty", b"")])?;
    assert_eq!(
        (again.commit.is_some(), again.files, again.size.new_bytes),
        (true, 1, 1)
    );
    assert!(commit_of(&bare.repo, &[("d/one", b"x")])?.commit.is_none());
    Ok(())
}

#[test]
fn a_branch_that_moves_meanwhile_gets_the_files_unless_the_paths_meet() -> Done {
    let place = Place::new()?;
    let repo = &place.repo;
    let base = commit_of(repo, &[("a", b"1"), ("d/b", b"1")])?
        .commit
        .ok_or("a commit")?;
    let later = commit_of(repo, &[("d/b", b"2")])?
        .commit
        .ok_or("a commit")?;
    let since = |files: &[(&str, &[u8])], removed: &[&str]| {
        let mut made = repo.files_for_branch(&request("commit"))?;
        for (path, content) in files {
            put(&mut made, path, content)?;
        }
        for path in removed {
            made.remove(Repo::parse_path(path.as_bytes())?)?;
        }
        let mut options = options("since");
        options.base = Some(base);
        made.commit(&options)
    };
    for (files, removed) in [
        (&[("d/b", &b"3"[..])][..], &[][..]),
        (&[("d/b/c", b"3")], &[]),
        (&[], &["d"]),
        (&[], &["d/b"]),
    ] {
        match since(files, removed) {
            Err(RepoError::Verb(VerbError::ChangedOnBranch { path, .. })) => {
                assert_eq!(path.as_bytes(), b"d/b");
            }
            other => panic!("{other:?}"),
        }
    }
    let made = since(&[("d/c", b"3"), ("a", b"3")], &[])?
        .commit
        .ok_or("a commit")?;
    assert_eq!(repo.read_commit(&made)?.parents, [later]);
    assert_eq!(
        content(repo, &made, "d/b")?,
        Some(Item::File(b"2".to_vec(), false))
    );
    assert_eq!(
        content(repo, &made, "a")?,
        Some(Item::File(b"3".to_vec(), false))
    );
    place.is_sound()
}

#[test]
fn what_is_in_the_way_of_a_file_is_never_replaced() -> Done {
    let place = Place::new()?;
    let repo = &place.repo;
    commit_of(repo, &[("d/e/f", b"1"), ("g", b"1")])?;
    fails_with(commit_of(repo, &[("d", b"2")]), "d: a directory is there");
    fails_with(
        commit_of(repo, &[("d/e", b"2")]),
        "d/e: a directory is there",
    );
    let above = "a file is where it needs a directory";
    fails_with(
        commit_of(repo, &[("g/x/y", b"2")]),
        &format!("g/x/y: {above}"),
    );
    fails_with(
        commit_of(repo, &[("n", b"2"), ("n/m", b"2")]),
        &format!("n/m: {above}"),
    );
    let mut files = repo.files_for_branch(&request("commit"))?;
    files.remove(Repo::parse_path(b"none")?)?;
    assert!(matches!(
        files.commit(&options("x")),
        Err(RepoError::Look(_))
    ));
    let mut files = repo.files_for_branch(&request("commit"))?;
    files.put_directory(Repo::parse_path(b"g")?);
    fails_with(files.commit(&options("x")), "g: a file is there");
    let mut files = repo.files_for_branch(&request("commit"))?;
    put(&mut files, "both", b"1")?;
    files.put_directory(Repo::parse_path(b"both")?);
    let both = "both: it is both a file and a directory";
    fails_with(files.commit(&options("x")), both);
    let mut files = repo.files_for_branch(&request("commit"))?;
    files.remove(Repo::parse_path(b"d")?)?;
    put(&mut files, "d/new", b"1")?;
    let below = "d/new: it is below a path that is removed";
    fails_with(files.commit(&options("x")), below);
    let mut files = repo.files_for_branch(&request("commit"))?;
    for path in ["d", "d/e", "new", "new/er"] {
        files.put_directory(Repo::parse_path(path.as_bytes())?);
    }
    files.put_link(Repo::parse_path(b"link")?, b"../anywhere")?;
    assert!(files.put_link(Repo::parse_path(b"link")?, b"a\0b").is_err());
    assert!(files.put_link(Repo::parse_path(b"link")?, b"").is_err());
    let made = files
        .commit(&options("directories"))?
        .commit
        .ok_or("a commit")?;
    assert_eq!(content(repo, &made, "new/er")?, Some(Item::EmptyDir));
    assert_eq!(
        content(repo, &made, "link")?,
        Some(Item::Symlink(b"../anywhere".to_vec()))
    );
    assert!(content(repo, &made, "d/e/f")?.is_some());
    place.is_sound()
}

#[test]
fn a_repository_without_a_commit_takes_only_its_own_branch() -> Done {
    let temp = fast_dir()?;
    let repo = Repo::init(temp.path(), "main", true, request("init"))?;
    let mut other = options("first");
    other.branch = "mian".to_owned();
    let mut files = repo.files_for_branch(&request("commit"))?;
    put(&mut files, "a", b"1")?;
    assert!(matches!(files.commit(&other), Err(RepoError::Branch(_))));
    // What was stored is still there.
    let made = files.commit(&options("first"))?.commit.ok_or("a commit")?;
    assert_eq!(repo.read_commit(&made)?.parents, []);
    assert_eq!(
        content(&repo, &made, "a")?,
        Some(Item::File(b"1".to_vec(), false))
    );
    Ok(())
}

#[test]
fn what_the_branch_gets_while_files_are_read_is_not_overwritten() -> Done {
    let temp = fast_dir()?;
    let repo = Repo::init(temp.path(), "main", true, request("init"))?;
    let mut first = repo.files_for_branch(&request("commit"))?;
    first.see_branch("main")?;
    commit_of(&repo, &[("a", b"1"), ("b", b"1")])?;
    put(&mut first, "a", b"mine")?;
    let done = first.commit(&options("first"));
    let refused = matches!(
        &done,
        Err(RepoError::Verb(VerbError::ChangedOnBranch { .. }))
    );
    assert!(refused, "{done:?}");
    let mut slow = repo.files_for_branch(&request("commit"))?;
    slow.see_branch("main")?;
    commit_of(&repo, &[("a", b"theirs")])?;
    put(&mut slow, "a", b"mine")?;
    let done = slow.commit(&options("slow"));
    let refused = matches!(
        &done,
        Err(RepoError::Verb(VerbError::ChangedOnBranch { .. }))
    );
    assert!(refused, "{done:?}");
    let mut slow = repo.files_for_branch(&request("commit"))?;
    slow.see_branch("main")?;
    commit_of(&repo, &[("a", b"theirs again")])?;
    put(&mut slow, "b", b"mine")?;
    let made = slow.commit(&options("slow"))?.commit.ok_or("a commit")?;
    let theirs = Item::File(b"theirs again".to_vec(), false);
    assert_eq!(content(&repo, &made, "a")?, Some(theirs));
    Ok(())
}

#[test]
fn an_empty_directory_is_stored_with_the_commit_that_brings_it() -> Done {
    let temp = fast_dir()?;
    let repo = Repo::init(temp.path(), "main", false, request("init"))?;
    std::fs::write(temp.path().join("file"), "1")?;
    commit(&repo, "first")?;
    let mut files = repo.files_for_branch(&request("commit"))?;
    files.put_directory(Repo::parse_path(b"report/empty")?);
    files
        .commit(&options("directory"))?
        .commit
        .ok_or("a commit")?;
    drop(files);
    let empty = repo.objects().read(ObjectType::Tree, &empty_tree_id())?;
    assert!(empty.is_some(), "the tree of the directory is not stored");
    Ok(())
}

/// Content that ends with an error.
struct Broken;

impl io::Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("the network is down"))
    }
}

#[test]
fn content_that_cannot_be_read_is_an_error_and_no_file() -> Done {
    let place = Place::new()?;
    let mut files = place.repo.files_for_branch(&request("commit"))?;
    let path = Repo::parse_path(b"a")?;
    let failed = files.put(path.clone(), 0o644, Broken, &Job::default());
    assert!(matches!(failed, Err(RepoError::Io(_))));
    assert!(files.is_empty());
    let stopped = Job::default();
    stopped.cancel();
    let failed = files.put(path, 0o644, &b"x"[..], &stopped);
    assert!(matches!(failed, Err(RepoError::Cancelled)));
    assert!(files.commit(&options("nothing"))?.commit.is_none());
    Ok(())
}
