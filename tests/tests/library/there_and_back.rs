//! What a command does, what its undo brings back, and what its redo does again: cases that the model of
//! all commands (`dmv_tests::verbs`) found.

use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::repo::{Repo, StatusOptions, StatusReport};
use dmv_core::worktree::select::Paths;
use dmv_tests::peers::Done;
use dmv_tests::scratch::{Files, Item, commit, fast_dir, files_in, files_of, request};
use dmv_tests::verbs::{Driver, Library, Side, Verb};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const DONE: i32 = 0;
const INCOMPLETE: i32 = 3;
const CONFLICTS: i32 = 4;
const REFUSED: i32 = 5;

/// A repository without a remote.
struct Place {
    temp: TempDir,
    library: Library,
}

impl Place {
    fn new() -> Done<Place> {
        let temp = fast_dir()?;
        drop(Repo::init(
            &temp.path().join("r"),
            "main",
            false,
            request("init"),
        )?);
        let library = Library::new(temp.path().join("hub"));
        Ok(Place { temp, library })
    }

    fn root(&self) -> PathBuf {
        self.temp.path().join("r")
    }

    fn repo(&self) -> Done<Repo> {
        Ok(Repo::open(&self.root())?)
    }

    /// Writes files; an empty content with a slash at the end of the path: an empty directory.
    fn write(&self, files: &[(&str, &str)]) -> Done {
        for (path, content) in files {
            let path = self.root().join(path);
            if content.is_empty() && path.as_os_str().as_encoded_bytes().ends_with(b"/") {
                fs::create_dir_all(path)?;
            } else {
                fs::create_dir_all(path.parent().ok_or("no directory")?)?;
                fs::write(path, content)?;
            }
        }
        Ok(())
    }

    fn remove(&self, path: &str) -> Done {
        let path = self.root().join(path);
        if path.is_dir() {
            fs::remove_dir_all(path)?;
        } else {
            fs::remove_file(path)?;
        }
        Ok(())
    }

    fn commit(&self) -> Done<ObjectId> {
        Ok(commit(&self.repo()?, "story")?.commit.ok_or("no commit")?)
    }

    fn run_in(&self, dir: &Path, verb: &Verb, code: i32) -> Done {
        let ended = self.library.run(dir, verb, true)?;
        if ended.code == code {
            return Ok(());
        }
        Err(format!(
            "{verb:?} ended with {}, not {code}: {}",
            ended.code, ended.said
        )
        .into())
    }

    fn run(&self, verb: &Verb) -> Done {
        self.run_in(&self.root(), verb, DONE)
    }

    fn status(&self, select: &Paths) -> Done<StatusReport> {
        let options = StatusOptions {
            select,
            settings: Default::default(),
        };
        Ok(self.repo()?.status(&options, &Job::default())?)
    }

    /// The paths of the files in the newest commit.
    fn listed(&self) -> Done<Vec<String>> {
        let repo = self.repo()?;
        let files = files_of(&repo, &repo.resolve("@")?)?;
        let is_file = |(path, item): (Vec<u8>, Item)| {
            (item != Item::EmptyDir).then(|| String::from_utf8_lossy(&path).into_owned())
        };
        Ok(files.into_iter().filter_map(is_file).collect())
    }

    /// Runs a command, takes it back and does it again, and compares the files.
    fn back_and_forth(&self, verb: &Verb) -> Done<Files> {
        let files = || files_in(self.temp.path());
        let of_users = |files: Files| -> Files {
            let is_own = |path: &[u8]| path.windows(5).any(|part| part == b".dmv/");
            files
                .into_iter()
                .filter(|(path, _)| !is_own(path))
                .collect()
        };
        let before = of_users(files()?);
        self.run(verb)?;
        let after = of_users(files()?);
        for _ in 0..2 {
            self.run(&Verb::Undo)?;
            assert_eq!(of_users(files()?), before, "after undo of {verb:?}");
            self.run(&Verb::Redo)?;
            assert_eq!(of_users(files()?), after, "after redo of {verb:?}");
        }
        Ok(files_in(&self.root())?)
    }
}

fn subset_without(path: &str) -> Verb {
    let path = path.as_bytes().to_vec();
    Verb::RemoveSubset { path }
}

#[test]
fn a_file_of_a_directory_that_is_gone_goes_alone() -> Done {
    for in_its_place in [false, true] {
        let place = Place::new()?;
        place.write(&[("d/x", "x"), ("d/y", "y"), ("d/e/z", "z"), ("k", "k")])?;
        place.commit()?;
        place.remove("d")?;
        if in_its_place {
            place.write(&[("d", "a file")])?;
        }
        let one = |path: &str| Paths::new(vec![path.as_bytes().to_vec()]);
        let deleted = |select: &Paths| -> Done<Vec<String>> {
            let report = place.status(select)?;
            Ok(report
                .changes
                .iter()
                .map(|change| change.path.to_string())
                .collect())
        };
        assert_eq!(deleted(&one("d/x"))?, ["d/x"], "{in_its_place}");
        let verb = Verb::Commit {
            paths: vec![b"d/x".to_vec()],
            amend: false,
        };
        place.run(&verb)?;
        assert_eq!(place.listed()?, ["d/e/z", "d/y", "k"], "{in_its_place}");
        // The rest of the directory is still deleted, and goes with it.
        let verb = Verb::Commit {
            paths: vec![b"d".to_vec()],
            amend: false,
        };
        place.run(&verb)?;
        let rest: &[&str] = if in_its_place { &["d", "k"] } else { &["k"] };
        assert_eq!(place.listed()?, rest);
    }
    Ok(())
}

#[test]
fn a_redo_leaves_the_directories_that_the_first_run_left() -> Done {
    let place = Place::new()?;
    place.write(&[("s/c", "c"), ("t/a", "a"), ("t/b", "b")])?;
    place.commit()?;
    place.remove("s/c")?;
    place.remove("t/a")?;
    place.write(&[("s/d/", ""), ("t/new", "new")])?;
    let paths = vec![b"s/d".to_vec(), b"t/new".to_vec()];
    let after = place.back_and_forth(&Verb::Stash { paths })?;
    // Nothing of the commit is left in the one, and something in the other.
    let want = [(b"t/b".to_vec(), Item::File(b"b".to_vec(), false))];
    assert_eq!(after, Files::from(want));
    Ok(())
}

#[test]
fn a_worktree_that_was_removed_comes_back_without_what_was_missing_there() -> Done {
    for force in [false, true] {
        let place = Place::new()?;
        place.write(&[("d/a", "a"), ("d/b", "b"), ("e", "e"), ("f/x", "x")])?;
        let at = Err(place.commit()?);
        let dir = place.temp.path().join("w");
        place.run(&Verb::AddWorktree {
            dir: dir.clone(),
            at,
        })?;
        fs::remove_dir_all(dir.join("d"))?;
        fs::remove_file(dir.join("f/x"))?;
        if force {
            fs::write(dir.join("e"), "edited")?;
            fs::write(dir.join("new"), "new")?;
            // A file in the place of the directory.
            fs::write(dir.join("d"), "file")?;
        }
        place.back_and_forth(&Verb::RemoveWorktree { dir, force })?;
    }
    Ok(())
}

#[test]
fn the_redo_of_a_removal_refuses_what_has_changed_since() -> Done {
    let place = Place::new()?;
    place.write(&[("e", "e")])?;
    let at = Err(place.commit()?);
    let dir = place.temp.path().join("w");
    place.run(&Verb::AddWorktree {
        dir: dir.clone(),
        at,
    })?;
    fs::write(dir.join("new"), "new")?;
    let force = true;
    let removal = Verb::RemoveWorktree {
        dir: dir.clone(),
        force,
    };
    place.run(&removal)?;
    place.run(&Verb::Undo)?;
    fs::write(dir.join("new"), "newer")?;
    place.run_in(&place.root(), &Verb::Redo, REFUSED)?;
    assert_eq!(fs::read(dir.join("new"))?, b"newer");
    Ok(())
}

#[test]
fn a_file_that_is_the_beginning_of_the_other_commits_file_is_the_users() -> Done {
    for begun in ["", "te", "text"] {
        let place = Place::new()?;
        place.write(&[("k", "k")])?;
        let first = place.commit()?;
        place.write(&[("f", "text"), ("d/f", "text")])?;
        let second = place.commit()?;
        let force = false;
        place.run(&Verb::Detach {
            commit: first,
            force,
        })?;
        place.write(&[("f", begun)])?;
        let there = Verb::Detach {
            commit: second,
            force,
        };
        let code = if begun == "text" { DONE } else { REFUSED };
        place.run_in(&place.root(), &there, code)?;
        assert_eq!(fs::read_to_string(place.root().join("f"))?, begun);
        // What the user asks to overwrite comes back.
        if code == REFUSED {
            let force = true;
            place.back_and_forth(&Verb::Detach {
                commit: second,
                force,
            })?;
        }
    }
    Ok(())
}

#[test]
fn a_larger_subset_does_not_bring_what_is_no_longer_tracked() -> Done {
    let place = Place::new()?;
    place.write(&[("f", "f"), ("k", "k")])?;
    place.commit()?;
    place.run(&subset_without("f"))?;
    place.run(&Verb::Untrack {
        path: b"f".to_vec(),
    })?;
    let paths = Vec::new();
    let after = place.back_and_forth(&Verb::SetSubset { paths })?;
    assert!(!after.contains_key(&b"f"[..]), "{after:?}");
    Ok(())
}

#[test]
fn a_resolve_refuses_a_file_in_the_place_of_the_directory_above() -> Done {
    let place = Place::new()?;
    place.write(&[("d/c", "base\n")])?;
    let base = place.commit()?;
    place.write(&[("d/c", "theirs\n")])?;
    let theirs = place.commit()?;
    let (to, hard) = (base, true);
    place.run(&Verb::Reset { to, hard })?;
    place.write(&[("d/c", "ours\n")])?;
    place.commit()?;
    let merge = Verb::Merge {
        commit: theirs,
        forward: true,
    };
    place.run_in(&place.root(), &merge, CONFLICTS)?;
    place.remove("d")?;
    place.write(&[("d", "a file of mine")])?;
    for side in [Side::Ours, Side::Theirs, Side::Base, Side::Both] {
        let path = b"d/c".to_vec();
        place.run_in(&place.root(), &Verb::Resolve { path, side }, REFUSED)?;
        assert_eq!(fs::read(place.root().join("d"))?, b"a file of mine");
    }
    Ok(())
}

#[test]
fn a_file_stays_in_the_place_of_a_directory_that_the_subset_leaves_out() -> Done {
    let place = Place::new()?;
    place.write(&[("c/d", "d"), ("k", "k")])?;
    let to = place.commit()?;
    place.run(&subset_without("c/d"))?;
    place.write(&[("c", "mine"), ("k", "edited")])?;
    let hard = true;
    let after = place.back_and_forth(&Verb::Reset { to, hard })?;
    assert_eq!(after[&b"c"[..]], Item::File(b"mine".to_vec(), false));
    assert_eq!(after[&b"k"[..]], Item::File(b"k".to_vec(), false));
    Ok(())
}

#[test]
fn a_conflict_that_a_stash_has_put_aside_does_not_hide_one_of_a_commit() -> Done {
    let place = Place::new()?;
    place.write(&[("k", "k")])?;
    let first = place.commit()?;
    place.write(&[("a", "theirs\n")])?;
    let theirs = place.commit()?;
    let (to, hard) = (first, true);
    place.run(&Verb::Reset { to, hard })?;
    let all = Vec::new;
    place.write(&[("a", "stashed\n")])?;
    place.run(&Verb::Stash { paths: all() })?;
    place.write(&[("a", "ours\n")])?;
    place.commit()?;
    let (number, pop) = (0, true);
    let unstash = Verb::Unstash { number, pop };
    place.run_in(&place.root(), &unstash, CONFLICTS)?;
    place.run(&Verb::Stash { paths: all() })?;
    let pick = Verb::CherryPick { commit: theirs };
    place.run_in(&place.root(), &pick, CONFLICTS)?;
    let report = place.status(&Paths::default())?;
    assert_eq!(report.conflicts.len(), 1, "{report:?}");
    assert!(report.changes.is_empty(), "{report:?}");
    place.run(&Verb::Undo)?;
    place.run_in(&place.root(), &Verb::Redo, DONE)?;
    Ok(())
}

#[test]
fn what_a_commit_refuses_is_not_remembered_as_a_part_of_it() -> Done {
    let place = Place::new()?;
    place.write(&[("a", "a"), ("k", "k")])?;
    place.commit()?;
    let paths = vec![b"a/b".to_vec(), b"k".to_vec()];
    place.run(&Verb::SetSubset { paths })?;
    place.write(&[("a/b", "in the place of a file of the commit"), ("k", "k2")])?;
    let (paths, amend) = (Vec::new(), false);
    place.run_in(&place.root(), &Verb::Commit { paths, amend }, INCOMPLETE)?;
    place.remove("a")?;
    place.write(&[("a", "outside of the subset")])?;
    let report = place.status(&Paths::default())?;
    assert!(report.changes.is_empty(), "{report:?}");
    Ok(())
}

#[test]
fn a_forced_switch_ends_older_notes_of_files_that_are_no_longer_tracked() -> Done {
    let place = Place::new()?;
    place.write(&[("a", "a"), ("k", "k")])?;
    let with = place.commit()?;
    place.remove("a")?;
    let without = place.commit()?;
    let switch = |commit, force| Verb::Detach { commit, force };
    place.run(&switch(with, false))?;
    let path = b"a".to_vec();
    place.run(&Verb::Untrack { path })?;
    // The note counts for the first commit alone, and waits for it.
    place.run(&switch(without, false))?;
    place.remove("a")?;
    place.remove("k")?;
    let files = place.back_and_forth(&switch(with, true))?;
    assert!(files.contains_key(&b"a"[..]));
    place.run(&Verb::Undo)?;
    assert!(!place.root().join("a").exists());
    Ok(())
}
