//! Commits without a worktree: the same files give the same tree as in a worktree, and nobody's change gets lost.

use dmv_core::fsutil::FileTime;
use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::ObjectType;
use dmv_core::object::name::RepoPath;
use dmv_core::object::tree::{empty_tree_id, lookup_path};
use dmv_core::repo::{
    FileFacts, OntoFiles, OntoOptions, OntoReport, Repo, RepoError, VerbError, Who,
};
use dmv_core::worktree::properties::Properties;
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
        properties: Properties::default(),
        request: request("commit --onto main"),
    }
}

const FACTS: FileFacts = FileFacts {
    mode: 0o644,
    modified: Some(FileTime {
        seconds: 7,
        nanos: 5,
    }),
};

pub fn put(files: &mut OntoFiles<'_>, path: &str, content: &[u8]) -> Result<(), RepoError> {
    files.put(
        Repo::parse_path(path.as_bytes())?,
        FACTS,
        content,
        &Job::default(),
    )
}

fn commit_of(repo: &Repo, files: &[(&str, &[u8])]) -> Result<OntoReport, RepoError> {
    let mut made = repo.files_for_branch(&request("commit"))?;
    for (path, content) in files {
        put(&mut made, path, content)?;
    }
    made.commit(&options("files"), &Job::default())
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
    let made = files.commit(&options("all"), &Job::default())?;
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
        made.commit(&options, &Job::default())
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
        files.commit(&options("x"), &Job::default()),
        Err(RepoError::Look(_))
    ));
    let mut files = repo.files_for_branch(&request("commit"))?;
    files.put_directory(Repo::parse_path(b"g")?);
    fails_with(
        files.commit(&options("x"), &Job::default()),
        "g: a file is there",
    );
    let mut files = repo.files_for_branch(&request("commit"))?;
    put(&mut files, "both", b"1")?;
    files.put_directory(Repo::parse_path(b"both")?);
    let both = "both: it is both a file and a directory";
    fails_with(files.commit(&options("x"), &Job::default()), both);
    let mut files = repo.files_for_branch(&request("commit"))?;
    for path in ["d", "d/e", "new", "new/er"] {
        files.put_directory(Repo::parse_path(path.as_bytes())?);
    }
    files.put_link(Repo::parse_path(b"link")?, b"../anywhere")?;
    assert!(files.put_link(Repo::parse_path(b"link")?, b"a\0b").is_err());
    assert!(files.put_link(Repo::parse_path(b"link")?, b"").is_err());
    let made = files
        .commit(&options("directories"), &Job::default())?
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
    assert!(matches!(
        files.commit(&other, &Job::default()),
        Err(RepoError::Branch(_))
    ));
    // What was stored is still there.
    let made = files
        .commit(&options("first"), &Job::default())?
        .commit
        .ok_or("a commit")?;
    assert_eq!(repo.read_commit(&made)?.parents, []);
    assert_eq!(
        content(&repo, &made, "a")?,
        Some(Item::File(b"1".to_vec(), false))
    );
    Ok(())
}

#[test]
fn what_is_said_last_about_a_path_counts() -> Done {
    let place = Place::new()?;
    let repo = &place.repo;
    commit_of(repo, &[("a", b"0"), ("b", b"0"), ("c", b"0")])?;
    let mut files = repo.files_for_branch(&request("commit"))?;
    put(&mut files, "b", b"1")?;
    put(&mut files, "a", b"1")?;
    put(&mut files, "c", b"1")?;
    put(&mut files, "b", b"2")?;
    files.remove(Repo::parse_path(b"a")?)?;
    files.remove(Repo::parse_path(b"c")?)?;
    put(&mut files, "c", b"3")?;
    let made = files.commit(&options("last"), &Job::default())?;
    let id = made.commit.ok_or("a commit")?;
    let file = |text: &[u8]| Some(Item::File(text.to_vec(), false));
    for (path, expected) in [("a", None), ("b", file(b"2")), ("c", file(b"3"))] {
        assert_eq!(content(repo, &id, path)?, expected, "{path}");
    }
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
    let done = first.commit(&options("first"), &Job::default());
    let refused = matches!(
        &done,
        Err(RepoError::Verb(VerbError::ChangedOnBranch { .. }))
    );
    assert!(refused, "{done:?}");
    let mut slow = repo.files_for_branch(&request("commit"))?;
    slow.see_branch("main")?;
    commit_of(&repo, &[("a", b"theirs")])?;
    put(&mut slow, "a", b"mine")?;
    let done = slow.commit(&options("slow"), &Job::default());
    let refused = matches!(
        &done,
        Err(RepoError::Verb(VerbError::ChangedOnBranch { .. }))
    );
    assert!(refused, "{done:?}");
    let mut slow = repo.files_for_branch(&request("commit"))?;
    slow.see_branch("main")?;
    commit_of(&repo, &[("a", b"theirs again")])?;
    put(&mut slow, "b", b"mine")?;
    let made = slow
        .commit(&options("slow"), &Job::default())?
        .commit
        .ok_or("a commit")?;
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
        .commit(&options("directory"), &Job::default())?
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
    let failed = files.put(path.clone(), FACTS, Broken, &Job::default());
    assert!(matches!(failed, Err(RepoError::Io(_))));
    assert!(files.is_empty());
    let stopped = Job::default();
    stopped.cancel();
    let failed = files.put(path, FACTS, &b"x"[..], &stopped);
    assert!(matches!(failed, Err(RepoError::Cancelled)));
    assert!(
        files
            .commit(&options("nothing"), &Job::default())?
            .commit
            .is_none()
    );
    Ok(())
}

fn at(path: &str) -> Result<RepoPath, RepoError> {
    Repo::parse_path(path.as_bytes())
}

#[test]
fn a_directory_that_is_removed_makes_room_for_what_comes() -> Done {
    let place = Place::new()?;
    let repo = &place.repo;
    let old = [
        ("d/b", &b"1"[..]),
        ("d/c", b"1"),
        ("d/e/f", b"1"),
        ("d/e/g", b"1"),
        ("d/x", b"1"),
        ("g", b"1"),
        ("h", b"1"),
    ];
    commit_of(repo, &old)?;
    let mut files = repo.files_for_branch(&request("commit"))?;
    for path in ["d", "d/c", "g"] {
        files.remove(at(path)?)?;
    }
    // The same content, a file in the place of a directory, a directory in the place of files.
    put(&mut files, "d/b", b"1")?;
    put(&mut files, "d/e", b"2")?;
    put(&mut files, "d/x/y", b"2")?;
    put(&mut files, "g/i", b"2")?;
    files.put_directory(at("d/c")?);
    let made = files.commit(&options("anew"), &Job::default())?;
    // d/c, two below d/e and d/e itself, d/x and d/x/y, g and g/i.
    assert_eq!(made.files, 8);
    let id = made.commit.ok_or("a commit")?;
    let now = files_of(repo, &id)?;
    let paths: Vec<_> = now
        .keys()
        .map(|path| String::from_utf8_lossy(path))
        .collect();
    assert_eq!(paths, ["d/b", "d/c", "d/e", "d/x/y", "g/i", "h"]);
    assert_eq!(content(repo, &id, "d/c")?, Some(Item::EmptyDir));
    // What is removed as a whole counts once, and the place of what comes is still no place for more.
    let mut files = repo.files_for_branch(&request("commit"))?;
    for path in ["d", "d/x", "d/x/y"] {
        files.remove(at(path)?)?;
    }
    let made = files.commit(&options("gone"), &Job::default())?;
    assert_eq!((made.files, made.size.tree_files), (3, 2));
    let mut files = repo.files_for_branch(&request("commit"))?;
    files.remove(at("g")?)?;
    put(&mut files, "g/i", b"3")?;
    put(&mut files, "g/i/j", b"3")?;
    let blocked = "g/i/j: a file is where it needs a directory";
    fails_with(files.commit(&options("x"), &Job::default()), blocked);
    place.is_sound()
}

#[test]
fn equal_content_counts_once_and_its_time_stays() -> Done {
    let place = Place::new()?;
    let repo = &place.repo;
    let rules = ("d/.dmvattributes", &b"*.txt times\n"[..]);
    let new = [("a.txt", &b"12345"[..]), ("d/b.txt", b"12345"), rules];
    let made = commit_of(repo, &new)?;
    assert_eq!(made.size.new_bytes, 5 + rules.1.len() as u64);
    let time = |id: &ObjectId, path: &str| -> Result<_, RepoError> {
        let tree = repo.read_commit(id)?.tree;
        let entry = lookup_path(repo.objects(), &tree, &at(path)?)?;
        Ok(entry
            .and_then(|entry| entry.modified())
            .map(|time| (time.seconds, time.nanos)))
    };
    let id = made.commit.ok_or("a commit")?;
    assert_eq!(time(&id, "a.txt")?, None);
    assert_eq!(
        time(&id, "d/b.txt")?,
        Some((7, 5)),
        "the rules that come with it count"
    );
    // Another time of the same content is no change, as in a worktree.
    let mut files = repo.files_for_branch(&request("commit"))?;
    let other = FileFacts {
        modified: None,
        ..FACTS
    };
    files.put(at("d/b.txt")?, other, &b"12345"[..], &Job::default())?;
    assert!(
        files
            .commit(&options("again"), &Job::default())?
            .commit
            .is_none()
    );
    let mut later = options("all");
    later.properties.times = true;
    let mut files = repo.files_for_branch(&request("commit"))?;
    put(&mut files, "a.txt", b"2")?;
    put(&mut files, "d/c.png", b"3")?;
    let id = files
        .commit(&later, &Job::default())?
        .commit
        .ok_or("a commit")?;
    assert_eq!(time(&id, "a.txt")?, Some((7, 5)));
    assert_eq!(time(&id, "d/c.png")?, Some((7, 5)), "by the setting");
    place.is_sound()
}

#[test]
fn a_commit_that_is_stopped_changes_nothing() -> Done {
    let place = Place::new()?;
    let mut files = place.repo.files_for_branch(&request("commit"))?;
    put(&mut files, "a", b"1")?;
    let stopped = Job::default();
    stopped.cancel();
    let done = files.commit(&options("no"), &stopped);
    assert!(matches!(done, Err(RepoError::Cancelled)), "{done:?}");
    assert!(
        files
            .commit(&options("yes"), &Job::default())?
            .commit
            .is_some()
    );
    place.is_sound()
}
