//! Names are permuted: files become directories and directories files, names go in circles, files move
//! into directories that have their former names. Each verb leaves exactly the files that a plain tree
//! says, with untracked and ignored files beside them, and `undo` and `redo` lead there and back.
//!
//! `DMV_PERMUTED=2000 cargo test -p dmv-tests --test library -- permuted::` runs many: `DMV_PERMUTED` is
//! the number of steps, `DMV_SEED` the seed of the first story.

#![allow(clippy::print_stdout)]

use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::repo::{
    AddOptions, CheckoutOptions, CheckoutTarget, FastForward, Head, MergeOptions, MergeReport,
    PickFrom, PickOptions, Repo, ResetFiles, StashAt, StashOptions, UndoOptions, UndoWhat, Who,
};
use dmv_core::subset::Subset;
use dmv_core::worktree::select::{Paths, is_under};
use dmv_core::worktree::snapshot::Problem;
use dmv_tests::crashlab::Outcome;
use dmv_tests::rng::{Rng, number, seed};
use dmv_tests::scratch::{Files, Item, commit, fast_dir, files_in, files_of, request};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// Few names, so that a path is often a file in one tree and a directory in another.
const NAMES: [&str; 4] = ["a", "b", "s", "t"];
const MAX_DEPTH: u64 = 3;
/// Few contents, so that most files are somewhere else in another tree.
const CONTENTS: u64 = 7;
const STEPS: u64 = 20;
/// A file that no permutation touches.
const FIXED: &[u8] = b"zz/c";

fn file(text: &str) -> Item {
    Item::File(text.as_bytes().to_vec(), false)
}

fn item(rng: &mut Rng) -> Item {
    match rng.below(10) {
        0 => Item::Symlink(rng.pick(&NAMES).as_bytes().to_vec()),
        1 => Item::EmptyDir,
        n => Item::File(
            format!("content {}\n", rng.below(CONTENTS)).into_bytes(),
            n == 2,
        ),
    }
}

/// Whether one of two paths is the other, or above it.
fn meet(a: &[u8], b: &[u8]) -> bool {
    is_under(a, b) || is_under(b, a)
}

trait Pick {
    fn pick<T: Copy>(&mut self, list: &[T]) -> T;
}

impl Pick for Rng {
    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }
}

fn path(rng: &mut Rng) -> Vec<u8> {
    let depth = 1 + rng.below(MAX_DEPTH);
    let names: Vec<&str> = (0..depth).map(|_| rng.pick(&NAMES)).collect();
    names.join("/").into_bytes()
}

/// A random tree.
fn tree(rng: &mut Rng) -> Files {
    let fixed = [
        (&b".dmvignore"[..], "*.tmp\n"),
        (FIXED, "one\ntwo\nthree\n"),
    ];
    let mut out: Files = fixed
        .iter()
        .map(|(path, text)| (path.to_vec(), file(text)))
        .collect();
    for _ in 0..1 + rng.below(9) {
        let path = path(rng);
        if out.keys().all(|other| !meet(&path, other)) {
            out.insert(path, item(rng));
        }
    }
    out
}

/// The same entries under other names, or a random tree.
fn permuted(rng: &mut Rng, from: &Files) -> Files {
    if rng.one_in(3) {
        return tree(rng);
    }
    let mut out = from.clone();
    for _ in 0..1 + rng.below(3) {
        let (a, b) = (path(rng), path(rng));
        if !meet(&a, &b) {
            out = exchanged(&out, &a, &b);
        } else if out.contains_key(&a) {
            // A file goes down into a directory of its name.
            let entry = out.remove(&a).expect("it is there");
            out.insert([&a[..], b"/", rng.pick(&NAMES).as_bytes()].concat(), entry);
        } else if let Some(below) = out.keys().find(|p| is_under(p, &a)).cloned() {
            // A file takes the name of its directory.
            let entry = out.remove(&below).expect("it is there");
            out.retain(|path, _| !is_under(path, &a));
            out.insert(a, entry);
        }
    }
    settled(out)
}

/// Exchanges what is at two paths.
fn exchanged(from: &Files, a: &[u8], b: &[u8]) -> Files {
    let moved = |path: &[u8]| -> Vec<u8> {
        for (from, to) in [(a, b), (b, a)] {
            if is_under(path, from) {
                return [to, &path[from.len()..]].concat();
            }
        }
        path.to_vec()
    };
    from.iter()
        .map(|(path, item)| (moved(path), item.clone()))
        .collect()
}

/// Leaves out entries below files, and empty directories that are not empty.
fn settled(mut files: Files) -> Files {
    let all = files.clone();
    files.retain(|path, item| {
        let ends = path.iter().enumerate().filter(|(_, b)| **b == b'/');
        let mut above = ends.filter_map(|(end, _)| all.get(&path[..end]));
        let below = all.keys().any(|p| p != path && is_under(p, path));
        above.all(|above| *above == Item::EmptyDir) && !(below && *item == Item::EmptyDir)
    });
    files
}

fn union(a: &Files, b: &Files) -> Files {
    settled(
        a.iter()
            .chain(b)
            .map(|(p, i)| (p.clone(), i.clone()))
            .collect(),
    )
}

fn is_file(item: &Item) -> bool {
    *item != Item::EmptyDir
}

/// The files that a command leaves that writes all of `target` over `now`, whose `tracked` files go.
fn laid_over(now: &Files, tracked: &Files, target: &Files) -> Files {
    let tracked = |path: &[u8]| tracked.get(path).is_some_and(is_file);
    let free = |path: &[u8]| {
        target.iter().all(|(other, item)| {
            !meet(path, other) || !is_file(item) && other != path && is_under(path, other)
        })
    };
    let stays = now
        .iter()
        .filter(|(path, item)| is_file(item) && !tracked(path) && free(path));
    stays
        .chain(target)
        .map(|(path, item)| (path.clone(), item.clone()))
        .collect()
}

fn shown(files: &Files) -> Vec<String> {
    let line = |(path, item): (&Vec<u8>, &Item)| {
        let what = match item {
            Item::File(bytes, exec) => {
                format!(
                    "{:?}{}",
                    String::from_utf8_lossy(bytes),
                    if *exec { "+x" } else { "" }
                )
            }
            Item::Symlink(to) => format!("-> {}", to.escape_ascii()),
            Item::EmptyDir => "empty".into(),
        };
        format!("{}={what}", path.escape_ascii())
    };
    files.iter().map(line).collect()
}

struct Subject {
    root: PathBuf,
    rng: Rng,
    repo: Repo,
    /// The commit that the worktree is on, and its files.
    at: ObjectId,
    base: Files,
    /// Untracked and ignored files that no command may touch.
    beside: Files,
    told: Vec<String>,
    /// For names of files that are nowhere yet.
    number: u64,
}

impl Subject {
    fn new(root: PathBuf, seed: u64) -> Outcome<Subject> {
        let repo = Repo::init(&root, "main", false, request("init"))?;
        let mut rng = Rng::new(seed);
        let base = tree(&mut rng);
        write(&root, &base)?;
        let at = commit(&repo, "first")?.commit.ok_or("no commit")?;
        Ok(Subject {
            root,
            rng,
            repo,
            at,
            told: vec![format!("base {:?}", shown(&base))],
            base,
            beside: Files::new(),
            number: 0,
        })
    }

    /// Removes all files, writes others, and commits them.
    fn commit(&mut self, files: &Files) -> Outcome<ObjectId> {
        clear(&self.root)?;
        write(&self.root, files)?;
        self.commit_disk(files)
    }

    /// Commits what is on disk: exactly these files, without the ignored ones.
    fn commit_disk(&mut self, files: &Files) -> Outcome<ObjectId> {
        let report = commit(&self.repo, "c")?;
        self.agree("commit", &report.problems, &Files::new(), &Files::new());
        self.at = report.commit.ok_or("no commit")?;
        self.base = files_of(&self.repo, &self.at)?;
        self.base.retain(|_, item| *item != Item::EmptyDir);
        let mut want = files.clone();
        want.retain(|_, item| *item != Item::EmptyDir);
        let (now, told) = (self.base.clone(), self.told.join("\n"));
        assert_eq!(shown(&want), shown(&now), "the commit\n{told}");
        self.base = files.clone();
        self.told.push(format!("on {} {:?}", self.at, shown(files)));
        Ok(self.at)
    }

    /// Puts files beside those of `trees`, where none of them has a file. All are ignored, or only
    /// some.
    fn put_beside(&mut self, trees: &[&Files], all_ignored: bool) -> Outcome {
        self.beside = Files::new();
        for _ in 0..self.rng.below(4) {
            self.number += 1;
            let ignored = all_ignored || self.rng.one_in(2);
            let name = format!("u{}{}", self.number, if ignored { ".tmp" } else { "" });
            let path = match self.rng.below(3) {
                0 => name.into_bytes(),
                _ => [&path(&mut self.rng)[..], b"/", name.as_bytes()].concat(),
            };
            let is_taken = |files: &&Files| {
                let mut files = files.iter();
                files.any(|(other, item)| is_file(item) && is_under(&path, other))
            };
            // Where it would be in the place of a file, or in a directory that only it keeps there.
            if !trees.iter().any(is_taken) {
                self.beside.insert(path, file("beside"));
            }
        }
        write(&self.root, &self.beside)?;
        self.told.push(format!("beside {:?}", shown(&self.beside)));
        Ok(())
    }

    fn disk(&self) -> Outcome<Files> {
        Ok(files_in(&self.root)?)
    }

    fn agree(&self, what: &str, refused: &[Problem], want: &Files, now: &Files) {
        let told = self.told.join("\n");
        assert!(refused.is_empty(), "{what}: {refused:?}\n{told}");
        assert_eq!(shown(want), shown(now), "{what}\n{told}");
    }

    /// Checks that a command has left these files and those beside, and that `undo` and `redo` lead
    /// back to `before` and here again.
    fn check(
        &mut self,
        what: &str,
        refused: &[Problem],
        (before, want): (&Files, &Files),
    ) -> Outcome {
        self.told.push(what.to_owned());
        let want = union(want, &self.beside);
        self.agree(what, refused, &want, &self.disk()?);
        if self.rng.one_in(3) {
            self.undo(UndoWhat::Last, before)?;
            self.undo(UndoWhat::LastUndo, &want)?;
        }
        Ok(())
    }

    fn undo(&mut self, what: UndoWhat, want: &Files) -> Outcome {
        let name = format!("{what:?}");
        let options = UndoOptions {
            what,
            settings: Default::default(),
            request: request("undo"),
        };
        let done = self.repo.undo(&options, &Job::default());
        let done = done.map_err(|e| format!("{name}: {e:?}\n{}", self.told.join("\n")))?;
        self.agree(&name, &done.refused, want, &self.disk()?);
        Ok(())
    }

    fn merging(&self) -> MergeOptions {
        MergeOptions {
            message: "merge".into(),
            committer: who(),
            settings: Default::default(),
            request: request("merge"),
        }
    }

    fn checkout(&mut self, to: ObjectId, files: &Files, force: bool) -> Outcome {
        let before = self.disk()?;
        let options = CheckoutOptions {
            force,
            ..CheckoutOptions::new(request("checkout"))
        };
        let target = CheckoutTarget::Commit(to);
        let done = self.repo.checkout(target, &options, &Job::default());
        let done = done.map_err(|e| format!("checkout {to}: {e:?}\n{}", self.told.join("\n")))?;
        if !force {
            let what = format!("checkout {to}");
            return self.check(&what, &done.refused, (&before, files));
        }
        self.overwrote("checkout --force", &done.refused, (&before, files))
    }

    /// Checks a command that overwrites uncommitted files: those of `want` are there, and an undo gives
    /// back exactly what was there before.
    fn overwrote(
        &mut self,
        what: &str,
        refused: &[Problem],
        (before, want): (&Files, &Files),
    ) -> Outcome {
        self.told.push(format!("{what} over {:?}", shown(before)));
        let after = self.disk()?;
        let files = |all: &Files| -> Files {
            let files = all.iter().filter(|(_, item)| is_file(item));
            files
                .map(|(path, item)| (path.clone(), item.clone()))
                .collect()
        };
        self.agree(
            what,
            refused,
            &files(&union(want, &self.beside)),
            &files(&after),
        );
        for (dir, _) in want.iter().filter(|(_, item)| !is_file(item)) {
            let dir = self.root.join(std::ffi::OsStr::from_bytes(dir));
            assert!(dir.is_dir(), "{what}: {dir:?}\n{}", self.told.join("\n"));
        }
        self.undo(UndoWhat::Last, before)?;
        self.undo(UndoWhat::LastUndo, &after)
    }

    /// Takes a step with one verb. Leaves a worktree that equals a commit, without files beside.
    fn step(&mut self) -> Outcome {
        let (a, from) = (self.at, self.base.clone());
        let to = permuted(&mut self.rng, &from);
        match self.rng.below(12) {
            0 | 1 => {
                let b = self.commit(&to)?;
                self.put_beside(&[&from, &to], false)?;
                self.checkout(a, &from, false)?;
                self.checkout(b, &to, false)?;
            }
            2 => self.forced(a, (&from, &to))?,
            3 => self.restored(a, (&from, &to))?,
            4 | 5 => self.stashed((&from, &to))?,
            6 => self.linked(a, (&from, &to))?,
            7 => self.subset(a, (&from, &to))?,
            8 => {
                let b = self.commit(&to)?;
                self.put_beside(&[&from, &to], false)?;
                let done = self
                    .repo
                    .revert(b, None, &self.merging(), &Job::default())?;
                let before = union(&to, &self.beside);
                self.check("revert", &done.refused, (&before, &from))?;
            }
            9 => {
                let b = self.commit(&to)?;
                self.put_beside(&[&from, &to], false)?;
                self.checkout(a, &from, false)?;
                let merging = self.merging();
                let done = self
                    .repo
                    .merge(b, FastForward::Auto, &merging, &Job::default())?;
                let before = union(&from, &self.beside);
                self.check("fast-forward", &done.refused, (&before, &to))?;
            }
            _ => self.merged(a, (&from, &to))?,
        }
        self.settle()
    }

    /// Commits what is there, together with a new file beside other files.
    fn settle(&mut self) -> Outcome {
        let mut files = self.disk()?;
        files.retain(|path, _| !path.ends_with(b".tmp"));
        self.number += 1;
        let name = format!("n{}", self.number).into_bytes();
        let dirs: Vec<Vec<u8>> = files
            .iter()
            .filter_map(|(path, item)| match item {
                Item::EmptyDir => Some(path.clone()),
                _ => Some(path[..path.iter().rposition(|b| *b == b'/')?].to_vec()),
            })
            .collect();
        let new = match dirs.len() {
            0 => name,
            n => [&dirs[self.rng.below(n as u64) as usize][..], b"/", &name].concat(),
        };
        let one = Files::from([(new, file("new"))]);
        write(&self.root, &one)?;
        files = union(&files, &one);
        self.commit_disk(&files)?;
        self.beside = Files::new();
        let next = tree(&mut self.rng);
        self.told.clear();
        self.commit(&next)?;
        Ok(())
    }

    /// Writes a commit over a worktree whose files have other names than those of its commit.
    fn forced(&mut self, a: ObjectId, (from, to): (&Files, &Files)) -> Outcome {
        self.commit(to)?;
        let now = permuted(&mut self.rng, to);
        clear(&self.root)?;
        write(&self.root, &now)?;
        self.put_beside(&[from, to, &now], true)?;
        let want = laid_over(&now, to, from);
        if self.rng.one_in(2) {
            return self.checkout(a, &want, true);
        }
        let (before, settings) = (self.disk()?, Default::default());
        let (files, asked) = (ResetFiles::Match, request("reset"));
        let done = self
            .repo
            .reset(a, files, &asked, &settings, &Job::default());
        let done = done.map_err(|e| format!("reset: {e:?}\n{}", self.told.join("\n")))?;
        self.overwrote("reset --hard", &done.merge.refused, (&before, &want))
    }

    /// Restores all files, of the worktree's own commit or another one.
    fn restored(&mut self, a: ObjectId, (from, to): (&Files, &Files)) -> Outcome {
        self.commit(to)?;
        let now = permuted(&mut self.rng, to);
        clear(&self.root)?;
        write(&self.root, &now)?;
        self.put_beside(&[from, to, &now], true)?;
        let (of, files) = self.rng.pick(&[(None, to), (Some(a), from)]);
        let (before, settings) = (self.disk()?, Default::default());
        let (paths, asked) = ([Repo::parse_path(b"")?], request("restore"));
        let done = self
            .repo
            .restore(of, &paths, &settings, asked, &Job::default());
        let done = done.map_err(|e| format!("restore: {e:?}\n{}", self.told.join("\n")))?;
        let want = laid_over(&now, &Files::new(), files);
        let changed = before != self.disk()?;
        if changed {
            self.overwrote("restore", &done.refused, (&before, &want))?;
        }
        Ok(())
    }

    fn stashed(&mut self, (from, to): (&Files, &Files)) -> Outcome {
        clear(&self.root)?;
        write(&self.root, to)?;
        self.put_beside(&[from, to], true)?;
        let before = self.disk()?;
        let options = StashOptions {
            committer: who(),
            settings: Default::default(),
            request: request("stash"),
        };
        let (all, job) = (Paths::default(), Job::default());
        let done = self.repo.stash_push(&all, None, &options, &job);
        let done = done.map_err(|e| format!("stash: {e:?}\n{}", self.told.join("\n")))?;
        self.told.push(format!("stash of {:?}", shown(to)));
        if done.stash.is_none() {
            return Ok(());
        }
        self.check("stash", &done.problems, (&before, from))?;
        let drops = self.rng.one_in(2);
        let done = self
            .repo
            .stash_apply(StashAt::Number(0), drops, &options, &job);
        let done = done.map_err(|e| format!("pop: {e:?}\n{}", self.told.join("\n")))?;
        assert!(done.conflicts.is_empty(), "{}", self.told.join("\n"));
        assert_eq!(done.dropped, drops, "{}", self.told.join("\n"));
        let before = union(from, &self.beside);
        self.check("pop", &done.refused, (&before, to))
    }

    /// Switches a second worktree.
    fn linked(&mut self, a: ObjectId, (from, to): (&Files, &Files)) -> Outcome {
        let b = self.commit(to)?;
        let dir = self.root.with_extension("linked");
        let options = AddOptions {
            dir: dir.clone(),
            head: Head::Commit(a),
            commit: a,
            subset: Default::default(),
            settings: Default::default(),
            request: request("worktree add"),
        };
        let done = self.repo.add_worktree(&options, &Job::default())?;
        self.agree("worktree add", &done.refused, from, &files_in(&dir)?);
        let there = Repo::open(&dir)?;
        let options = CheckoutOptions::new(request("checkout"));
        let done = there.checkout(CheckoutTarget::Commit(b), &options, &Job::default())?;
        self.agree("in a worktree", &done.refused, to, &files_in(&dir)?);
        drop(there);
        let (settings, asked) = (Default::default(), request("worktree remove"));
        self.repo
            .remove_worktree(&dir, false, &settings, asked, &Job::default())?;
        assert!(!dir.exists(), "{}", self.told.join("\n"));
        Ok(())
    }

    /// Switches within a subset, and to the subset and back.
    fn subset(&mut self, a: ObjectId, (from, to): (&Files, &Files)) -> Outcome {
        self.commit(to)?;
        let mut names: Vec<Vec<u8>> = (0..2).map(|_| path(&mut self.rng)).collect();
        names.push(FIXED.to_vec());
        names.push(b".dmvignore".to_vec());
        let part = |files: &Files| -> Files {
            let mut files = files.clone();
            files.retain(|path, _| names.iter().any(|name| is_under(path, name)));
            files
        };
        self.put_beside(&[from, to], true)?;
        for (subset, of) in [
            (Some(&names), None),
            (None, Some(a)),
            (Some(&Vec::new()), None),
        ] {
            let (job, settings) = (Job::default(), Default::default());
            let done = match (subset, of) {
                (_, Some(of)) => {
                    let options = CheckoutOptions::new(request("checkout"));
                    let target = CheckoutTarget::Commit(of);
                    self.repo.checkout(target, &options, &job)
                }
                (Some(names), None) => {
                    let subset = match names.len() {
                        0 => Subset::everything(),
                        _ => Subset::new(names.iter().map(|name| &name[..]))?,
                    };
                    let asked = request("subset");
                    self.repo.set_subset(subset, &settings, asked, &job)
                }
                (None, None) => continue,
            };
            let done = done.map_err(|e| format!("subset: {e:?}\n{}", self.told.join("\n")))?;
            let want = match (subset.map(Vec::len), of) {
                (_, Some(_)) => part(from),
                (Some(0), _) => from.clone(),
                _ => part(to),
            };
            self.told
                .push(format!("subset {subset:?}, checkout {of:?}"));
            let want = union(&want, &self.beside);
            self.agree("subset", &done.refused, &want, &self.disk()?);
        }
        Ok(())
    }

    /// Merges a permutation with a change of another file: as a merge, a cherry-pick or a rebase. The
    /// other side may have changed this file, too: then there is one conflict.
    fn merged(&mut self, a: ObjectId, (from, to): (&Files, &Files)) -> Outcome {
        let conflicts = self.rng.one_in(3);
        let mut theirs = to.clone();
        if conflicts {
            theirs.insert(FIXED.to_vec(), file("one\n2\nthree\n"));
        }
        let t = self.commit(&theirs)?;
        self.checkout(a, from, false)?;
        let mut ours = from.clone();
        ours.insert(FIXED.to_vec(), file("one\nII\nthree\n"));
        ours.insert(b"zz/new".to_vec(), file("ours"));
        self.commit(&ours)?;
        self.put_beside(&[&ours, &theirs], false)?;
        let before = self.disk()?;
        let (job, merging) = (Job::default(), self.merging());
        let (name, done) = match self.rng.below(3) {
            0 => {
                let done = self.repo.merge(t, FastForward::Auto, &merging, &job);
                ("merge", done)
            }
            1 => {
                let options = PickOptions::default();
                let done = self
                    .repo
                    .cherry_pick(&[PickFrom::One(t)], options, &merging, &job);
                ("cherry-pick", done.map(|done| done.merge))
            }
            _ => {
                let done = self.repo.rebase(t, t, &merging, &job);
                ("rebase", done.map(|done| done.merge))
            }
        };
        let done: MergeReport =
            done.map_err(|e| format!("{name}: {e:?}\n{}", self.told.join("\n")))?;
        let listed: Vec<&[u8]> = done.conflicts.iter().map(|c| c.path.as_bytes()).collect();
        let want_listed = if conflicts { vec![FIXED] } else { Vec::new() };
        assert_eq!(listed, want_listed, "{name}\n{}", self.told.join("\n"));
        let mut want = union(&theirs, &Files::from([(b"zz/new".to_vec(), file("ours"))]));
        want.insert(FIXED.to_vec(), file("one\nII\nthree\n"));
        if conflicts {
            // The markers name the sides, and the versions are beside the file.
            let now = self.disk()?;
            let shown: Files = now
                .into_iter()
                .filter(|(path, _)| path.starts_with(FIXED))
                .collect();
            let marked = shown.get(FIXED);
            assert!(
                matches!(marked, Some(Item::File(text, _)) if text.starts_with(b"one\n<<<<<<<"))
            );
            want.extend(shown);
        }
        self.check(name, &done.refused, (&before, &want))?;
        if conflicts {
            self.undo(UndoWhat::Last, &before)?;
        }
        Ok(())
    }
}

fn who() -> Who {
    Who {
        name: "Test".into(),
        email: String::new(),
    }
}

/// Removes everything except `.dmv`.
fn clear(root: &Path) -> Outcome {
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        if entry.file_name() == ".dmv" {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Writes files where nothing is.
fn write(root: &Path, files: &Files) -> Outcome {
    for (path, item) in files {
        let path = root.join(std::ffi::OsStr::from_bytes(path));
        fs::create_dir_all(path.parent().ok_or("no parent")?)?;
        match item {
            Item::EmptyDir => fs::create_dir_all(&path)?,
            Item::Symlink(to) => symlink(std::ffi::OsStr::from_bytes(to), &path)?,
            Item::File(bytes, exec) => {
                fs::write(&path, bytes)?;
                let mode = if *exec { 0o755 } else { 0o644 };
                fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
            }
        }
    }
    Ok(())
}

fn story(seed: u64, steps: u64) -> Outcome {
    let dir = fast_dir()?;
    let mut subject = Subject::new(dir.path().join("w"), seed)?;
    for _ in 0..steps {
        subject.step()?;
    }
    Ok(())
}

#[test]
fn every_verb_moves_permuted_names_into_place() -> Outcome {
    let (first, steps) = (seed(1), number("DMV_PERMUTED", 40));
    let stories = steps.div_ceil(STEPS);
    for n in 0..stories {
        let seed = first + n;
        match std::panic::catch_unwind(|| story(seed, STEPS).map_err(|e| e.to_string())) {
            Ok(Ok(())) => {}
            Ok(Err(e)) => return Err(format!("DMV_SEED={seed} DMV_PERMUTED={STEPS}: {e}").into()),
            Err(_) => return Err(format!("DMV_SEED={seed} DMV_PERMUTED={STEPS} panics").into()),
        }
    }
    println!("harness permuted: {} steps, 0 wrong", stories * STEPS);
    Ok(())
}
