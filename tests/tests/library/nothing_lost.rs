//! Random worktrees and random commands: `undo` restores exactly the files and empty directories that
//! were there, and whatever a command overwrites or removes is stored.
//!
//! `DMV_LOST_STORIES=500 cargo test -p dmv-tests --test library -- nothing_lost::` runs many: `DMV_LOST_STORIES`
//! is the number of stories, `DMV_SEED` the seed of the first one.

use dmv_core::hash::ObjectId;
use dmv_core::job::{Job, Moment, Probe};
use dmv_core::path::DiskPath;
use dmv_core::repo::{
    AddOptions, CheckoutOptions, CheckoutTarget, FastForward, FilesError, Head, MergeOptions,
    PickFrom, PickOptions, RefKind, Repo, RepoError, ResetFiles, StashAt, StashOptions,
    StatusOptions, UndoOptions, UndoWhat, Who, WorktreeError,
};
use dmv_core::subset::Subset;
use dmv_core::worktree::select::{Paths, is_under};
use dmv_core::worktree::snapshot::Problem;
use dmv_tests::crashlab::Outcome;
use dmv_tests::rng::{Rng, number, seed};
use dmv_tests::scratch::{Files, Item, commit, fast_dir, files_in, files_of, request};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

const BRANCHES: [&str; 2] = ["main", "side"];
const PATHS: [&str; 8] = ["a", "b", "d/x", "d/y", "d/e/z", "i.tmp", "d/i.tmp", "l"];
const STEPS: usize = 40;

struct Subject {
    root: PathBuf,
    rng: Rng,
    commits: Vec<ObjectId>,
    /// The commits that have been read.
    read: BTreeSet<ObjectId>,
    /// The content of all commits, by path.
    committed: BTreeSet<(Vec<u8>, Vec<u8>)>,
    /// The steps so far, for the message of a failure.
    told: Vec<String>,
}

/// Returns a file as bytes that distinguish it from others.
fn bytes_of(item: &Item) -> Vec<u8> {
    match item {
        Item::File(content, exec) => [&content[..], if *exec { b"+x" } else { b"" }].concat(),
        Item::Symlink(target) => [b"-> ", &target[..]].concat(),
        Item::EmptyDir => Vec::new(),
    }
}

/// Returns files as the message of a failure shows them.
fn shown(files: &Files) -> Vec<String> {
    let line = |(path, item): (&Vec<u8>, &Item)| {
        let (path, bytes) = (path.escape_ascii(), bytes_of(item));
        format!("{path}={}", bytes.escape_ascii())
    };
    files.iter().map(line).collect()
}

/// Returns whether `before` has a file at `path` and `after` has the same one.
fn is_kept(path: &[u8], before: &Files, after: &Files) -> bool {
    before.contains_key(path) && before.get(path) == after.get(path)
}

impl Subject {
    fn files(&self) -> Outcome<Files> {
        let mut files = files_in(&self.root)?;
        files.retain(|_, item| *item != Item::EmptyDir);
        Ok(files)
    }

    /// Returns the files and the empty directories.
    fn all(&self) -> Outcome<Files> {
        Ok(files_in(&self.root)?)
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.rng.below(list.len() as u64) as usize]
    }

    /// Puts a random entry at a random path, and removes what is in the way.
    fn edit(&mut self) -> Outcome {
        let name = self.pick(&PATHS);
        let path = self.root.join(name);
        if let Ok(stat) = fs::symlink_metadata(&path) {
            if stat.is_dir() {
                fs::remove_dir_all(&path)?
            } else {
                fs::remove_file(&path)?
            }
        }
        if self.rng.one_in(4) {
            return Ok(());
        }
        // A file gives way where a directory is needed.
        let mut dir = self.root.clone();
        for part in name
            .split('/')
            .rev()
            .skip(1)
            .collect::<Vec<_>>()
            .iter()
            .rev()
        {
            dir.push(part);
            if fs::symlink_metadata(&dir).is_ok_and(|stat| !stat.is_dir()) {
                fs::remove_file(&dir)?;
            }
        }
        fs::create_dir_all(&dir)?;
        match self.rng.below(8) {
            0 => symlink(format!("to{}", self.rng.below(3)), &path)?,
            1 if name == "d/e/z" => {
                let dir = self.root.join("d/e");
                fs::remove_dir_all(&dir)?;
                fs::write(dir, format!("in place {}", self.rng.below(3)))?;
            }
            2 => fs::create_dir(&path)?,
            n => {
                fs::write(&path, format!("{}", self.rng.below(4)))?;
                let mode = if n == 3 { 0o755 } else { 0o644 };
                fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
            }
        }
        Ok(())
    }

    fn options(&self, force: bool, subset: Option<Subset>) -> CheckoutOptions {
        CheckoutOptions {
            subset,
            force,
            settings: Default::default(),
            request: request("checkout"),
        }
    }

    fn merging(&self) -> MergeOptions {
        MergeOptions {
            message: "merge".into(),
            committer: Who {
                name: "Test".into(),
                email: String::new(),
            },
            settings: Default::default(),
            request: request("merge"),
        }
    }

    fn undo(&mut self, repo: &Repo, what: UndoWhat) -> Result<(), RepoError> {
        let options = UndoOptions {
            what,
            settings: Default::default(),
            request: request("undo"),
        };
        let report = repo.undo(&options, &Job::default())?;
        let told = self.told.join("\n");
        // The sides of a conflict give way to the user's files each time they would be written.
        let is_side = |problem: &Problem| problem.why.contains("this side is not shown");
        let refused: Vec<_> = report.refused.iter().filter(|p| !is_side(p)).collect();
        assert!(refused.is_empty(), "{refused:?}\n{told}");
        Ok(())
    }

    /// Runs a random command. Returns its name and result.
    fn command(&mut self, repo: &Repo) -> (String, Result<(), RepoError>) {
        let job = Job::default();
        let branch = self.pick(&BRANCHES).to_owned();
        let of = self.pick(&self.commits.clone());
        let path = self
            .pick(&["", "a", "b", "d", "d/x", "i.tmp", "l"])
            .as_bytes()
            .to_vec();
        let force = self.rng.one_in(2);
        let settings = Default::default();
        match self.rng.below(18) {
            12..=16 => self.newer_verb(repo, of, force),
            0..=2 => {
                let target = if self.rng.one_in(3) {
                    CheckoutTarget::Commit(of)
                } else {
                    CheckoutTarget::Branch(branch.clone())
                };
                let name = format!("checkout {target:?}, force {force}");
                let options = self.options(force, None);
                (name, repo.checkout(target, &options, &job).map(drop))
            }
            3 => {
                let name = format!("discard {}", String::from_utf8_lossy(&path));
                let paths = [Repo::parse_path(&path).expect("a path")];
                let done = repo.discard(&paths, &settings, request("discard"), &job);
                (name, done.map(drop))
            }
            4..=6 => {
                let from = self.rng.one_in(2).then_some(of);
                let name = format!("restore {from:?} {}", String::from_utf8_lossy(&path));
                let paths = [Repo::parse_path(&path).expect("a path")];
                let done = repo.restore(from, &paths, &settings, request("restore"), &job);
                (name, done.map(drop))
            }
            7 => {
                let patterns: &[&[u8]] = match self.rng.below(3) {
                    0 => &[b"d"],
                    1 => &[b"a", b"l"],
                    _ => &[b"**"],
                };
                let done = Subset::new(patterns.iter().copied())
                    .map_err(|e| RepoError::Text(e.to_string()));
                let name = format!("subset {patterns:?}");
                let done = done
                    .and_then(|subset| repo.set_subset(subset, &settings, request("subset"), &job));
                (name, done.map(drop))
            }
            8 => {
                let done = repo.merge(of, FastForward::Auto, &self.merging(), &job);
                (format!("merge {of}"), done.map(drop))
            }
            9 => {
                let done = repo.revert(of, None, &self.merging(), &job);
                (format!("revert {of}"), done.map(drop))
            }
            10 => {
                let done = repo.reset_branch(of, &self.merging(), &job);
                (format!("reset {of}"), done.map(drop))
            }
            _ => {
                let done = commit(repo, "c");
                if let Ok(report) = &done
                    && let Some(id) = report.commit
                {
                    self.commits.push(id);
                }
                ("commit".into(), done.map(drop))
            }
        }
    }

    /// Runs one of the verbs that make history anew or put changes aside.
    fn newer_verb(
        &mut self,
        repo: &Repo,
        of: ObjectId,
        force: bool,
    ) -> (String, Result<(), RepoError>) {
        let (job, settings) = (Job::default(), Default::default());
        match self.rng.below(5) {
            0 => {
                let files = if force {
                    ResetFiles::Match
                } else {
                    ResetFiles::Keep
                };
                let done = repo.reset(of, files, &request("reset"), &settings, &job);
                (format!("reset {files:?} {of}"), done.map(drop))
            }
            1 => {
                let done = repo.stash_push(&Paths::default(), None, &self.stashing(), &job);
                ("stash".into(), done.map(drop))
            }
            2 => {
                let done = repo.stash_apply(StashAt::Number(0), force, &self.stashing(), &job);
                (format!("stash apply, drops {force}"), done.map(drop))
            }
            3 => {
                let from = [PickFrom::One(of)];
                let done = repo.cherry_pick(&from, PickOptions::default(), &self.merging(), &job);
                (format!("cherry-pick {of}"), done.map(drop))
            }
            _ => {
                let done = repo.rebase(of, of, &self.merging(), &job);
                (format!("rebase {of}"), done.map(drop))
            }
        }
    }

    fn stashing(&self) -> StashOptions {
        StashOptions {
            committer: self.merging().committer,
            settings: Default::default(),
            request: request("stash"),
        }
    }

    fn note_commits(&mut self, repo: &Repo) -> Outcome {
        self.commits.extend(repo.head_commit()?);
        self.commits.sort();
        self.commits.dedup();
        for id in self.commits.clone() {
            if self.read.insert(id) {
                let files = files_of(repo, &id)?;
                self.told.push(format!("  {id} has {:?}", shown(&files)));
                for (path, item) in files {
                    self.committed.insert((path, bytes_of(&item)));
                }
            }
        }
        Ok(())
    }

    /// Checks that each file of `before` is still there, or there again, or in a commit.
    fn check_kept(&self, before: &Files, after: &Files, what: &str) {
        for (path, item) in before {
            let is_committed = self.committed.contains(&(path.clone(), bytes_of(item)));
            assert!(
                after.get(path) == Some(item) || is_committed,
                "{what}: {} is lost\n{}",
                String::from_utf8_lossy(path),
                self.told.join("\n")
            );
        }
    }

    /// Moves the entry at `path` out of the worktree.
    fn move_away(&self, path: &[u8]) -> Outcome {
        let path = self.root.join(String::from_utf8_lossy(path).as_ref());
        let away = tempfile::tempdir_in(self.root.parent().ok_or("no parent")?)?;
        Ok(fs::rename(path, away.keep().join("moved"))?)
    }

    /// Returns whether `path` is a directory now and was one in `before`.
    fn is_kept_dir(&self, path: &[u8], before: &Files) -> bool {
        let prefix = [path, b"/"].concat();
        let was_dir = before.keys().any(|file| file.starts_with(&prefix));
        let path = self.root.join(String::from_utf8_lossy(path).as_ref());
        was_dir && path.is_dir()
    }

    fn step(&mut self) -> Outcome {
        for _ in 0..self.rng.below(4) {
            self.edit()?;
        }
        let repo = Repo::open(&self.root)?;
        let (before, all_before) = (self.files()?, self.all()?);
        let last = repo.refs().last_operation()?;
        let (name, done) = self.command(&repo);
        self.told.push(format!("{name}: {done:?}"));
        self.note_commits(&repo)?;
        let after = self.files()?;
        if let Err(e) = done {
            // The command was refused: it must have changed nothing.
            assert_eq!(before, after, "{name}: {e}\n{}", self.told.join("\n"));
            return Ok(());
        }
        if repo.refs().last_operation()? == last {
            self.check_kept(&before, &after, &name);
            return Ok(());
        }
        // The repository has everything that a command writes, including conflicts in the form that
        // files show.
        for (path, item) in &after {
            if before.get(path) != Some(item) {
                self.committed.insert((path.clone(), bytes_of(item)));
            }
        }
        let all_after = self.all()?;
        let (from, to) = (shown(&all_before), shown(&all_after));
        self.told.push(format!("  from {from:?}\n  to {to:?}"));
        let undone = self.undo(&repo, UndoWhat::Last);
        if let Err(RepoError::Files(FilesError::WouldLose { paths, .. })) = &undone
            && paths
                .iter()
                .map(DiskPath::as_bytes)
                .all(|path| self.is_kept_dir(path, &before) || is_kept(path, &before, &after))
        {
            // The user had already put a directory in the place of a file, or a file in the place
            // of a directory. Once this is out of the way, all other files are restored.
            assert_eq!(self.files()?, after);
            let mut rest = before;
            for path in paths.iter().map(DiskPath::as_bytes) {
                self.move_away(path)?;
                rest.retain(|other, _| !is_under(other, path));
            }
            self.told.push(format!("moved away {paths:?}"));
            let undone = self.undo(&repo, UndoWhat::Last);
            assert!(undone.is_ok(), "{undone:?}\n{}", self.told.join("\n"));
            self.check_kept(&rest, &self.files()?, "undo with a clear way");
            return Ok(());
        }
        assert!(undone.is_ok(), "{undone:?}\n{}", self.told.join("\n"));
        let back = self.files()?;
        self.check_kept(&before, &back, "undo");
        // The undo leaves exactly what was there, with the empty directories.
        let all_before = match name.as_str() {
            // The files of a commit stay when it is undone.
            "commit" => all_after,
            _ => all_before,
        };
        let (was, is) = (shown(&all_before), shown(&self.all()?));
        assert_eq!(was, is, "undo\n{}", self.told.join("\n"));
        // The repository has everything that an undo has just restored.
        for (path, item) in &back {
            if after.get(path) != Some(item) {
                self.committed.insert((path.clone(), bytes_of(item)));
            }
        }
        let redone = self.undo(&repo, UndoWhat::LastUndo);
        assert!(redone.is_ok(), "{redone:?}\n{}", self.told.join("\n"));
        let again = self.files()?;
        assert_eq!(after, again, "redo\n{}", self.told.join("\n"));
        // Further undos and redos, until one is refused.
        if self.rng.one_in(3) {
            let mut states = vec![again];
            while states.len() < 5 && self.undo(&repo, UndoWhat::Last).is_ok() {
                states.push(self.files()?);
            }
            self.told.push(format!("{} undos", states.len() - 1));
            while states.len() > 1 && self.rng.below(5) > 0 {
                let redone = self.undo(&repo, UndoWhat::LastUndo);
                // Files that were edited between the commands differ from their state at that time.
                if let Err(RepoError::Files(FilesError::WouldLose { .. })) = redone {
                    break;
                }
                assert!(redone.is_ok(), "{redone:?}\n{}", self.told.join("\n"));
                let (was, now) = (states.pop(), self.files()?);
                let before = states.last().or(was.as_ref()).ok_or("no state")?;
                self.check_kept(before, &now, "redo after redo");
                self.told.push("redo".into());
            }
        }
        Ok(())
    }
}

fn story(seed: u64) -> Outcome {
    let dir = fast_dir()?;
    let root = dir.path().join("w");
    let repo = Repo::init(&root, "main", false, request("init"))?;
    fs::write(root.join(".dmvignore"), "*.tmp\n")?;
    let mut subject = Subject {
        root,
        rng: Rng::new(seed),
        commits: Vec::new(),
        read: BTreeSet::new(),
        committed: BTreeSet::new(),
        told: Vec::new(),
    };
    for n in 0..3 {
        for _ in 0..6 {
            subject.edit()?;
        }
        subject.commits.extend(commit(&repo, "c")?.commit);
        if n == 1 {
            let id = subject.commits[1];
            repo.create_ref(RefKind::Branch, "side", id, request("branch"))?;
        }
    }
    assert!(matches!(repo.head()?, Head::Branch(_)));
    drop(repo);
    for _ in 0..STEPS {
        subject.step()?;
    }
    Ok(())
}

#[test]
fn whatever_a_command_overwrites_comes_back() -> Outcome {
    let first = seed(1);
    for seed in first..first + number("DMV_LOST_STORIES", 3) {
        match std::panic::catch_unwind(|| story(seed).map_err(|e| e.to_string())) {
            Ok(Ok(())) => {}
            Ok(Err(e)) => return Err(format!("DMV_SEED={seed}: {e}").into()),
            Err(_) => return Err(format!("DMV_SEED={seed} DMV_LOST_STORIES=1 panics").into()),
        }
    }
    Ok(())
}

/// Stories in which earlier builds lost an empty directory, or left one more: a command put something
/// into it while there was no commit, or while it was outside the subset, or made it where the user had
/// removed one.
#[test]
fn an_empty_directory_comes_back_that_no_scan_has_listed() -> Outcome {
    for seed in [3003, 30107, 40219] {
        story(seed)?;
    }
    Ok(())
}

#[test]
fn a_forced_checkout_that_is_cut_off_loses_nothing() -> Outcome {
    const FILES: usize = 200;
    let dir = fast_dir()?;
    let root = dir.path().join("w");
    let repo = Repo::init(&root, "main", false, request("init"))?;
    let write = |text: &str| -> Outcome {
        for n in 0..FILES {
            fs::create_dir_all(root.join(format!("d{}", n % 20)))?;
            fs::write(root.join(format!("d{}/{n}", n % 20)), format!("{text} {n}"))?;
        }
        Ok(())
    };
    write("one")?;
    let one = commit(&repo, "one")?.commit.ok_or("no commit")?;
    repo.create_ref(RefKind::Branch, "side", one, request("branch"))?;
    write("two")?;
    commit(&repo, "two")?;
    let options = CheckoutOptions {
        subset: None,
        force: true,
        settings: Default::default(),
        request: request("checkout --force side"),
    };
    let target = || CheckoutTarget::Branch("side".into());
    let undo = || {
        let options = UndoOptions {
            what: UndoWhat::Last,
            settings: Default::default(),
            request: request("undo"),
        };
        repo.undo(&options, &Job::default())
    };
    for round in 0..8u64 {
        write(&format!("edited {round}"))?;
        let edited = files_in(&root)?;
        let job = Job::default();
        let done = std::thread::scope(|scope| {
            let checkout = scope.spawn(|| repo.checkout(target(), &options, &job));
            // The counter counts files that are stored first, and files that are written.
            while job.progress.files.load(Ordering::Relaxed) < 45 * round && !checkout.is_finished()
            {
                std::thread::yield_now();
            }
            job.cancel();
            checkout.join()
        });
        let done = done.map_err(|_| "the checkout panicked")?;
        if round % 2 == 1 {
            // If the checkout runs again, it reuses what it has stored. A single undo restores
            // everything.
            if done.is_err() {
                repo.checkout(target(), &options, &Job::default())?;
            }
            assert!(matches!(repo.head()?, Head::Branch(name) if name == "side"));
            undo()?;
        } else if files_in(&root)? != edited || done.is_ok() {
            undo()?;
        }
        let now = files_in(&root)?;
        assert_eq!(now, edited, "in round {round}, {done:?}");
        let back = CheckoutTarget::Branch("main".into());
        repo.checkout(back, &options, &Job::default())?;
    }
    Ok(())
}

/// A job that is cut off when `moment` has come `after` times before.
fn cut_at(moment: Moment, after: u64) -> Job {
    let cancel: Arc<OnceLock<Arc<AtomicBool>>> = Arc::default();
    let (seen, flag) = (AtomicU64::new(0), Arc::clone(&cancel));
    let at = Box::new(move |now: Moment| {
        if now == moment && seen.fetch_add(1, Ordering::Relaxed) == after {
            flag.get()
                .into_iter()
                .for_each(|flag| flag.store(true, Ordering::Relaxed));
        }
    });
    let job = Job::with_probe(Probe { portion: 1, at });
    cancel.get_or_init(|| job.cancel_handle());
    job
}

/// A removal of a worktree that is cut off has removed some files. No command takes them for deletions of the user:
/// it says which command was cut off, and that command goes on, as an undo goes back.
#[test]
fn a_removal_that_is_cut_off_deletes_nothing() -> Outcome {
    let dir = fast_dir()?;
    let (root, side) = (dir.path().join("w"), dir.path().join("side"));
    let repo = Repo::init(&root, "main", false, request("init"))?;
    fs::create_dir(root.join("d"))?;
    for name in ["a", "b", "c", "d/x", "d/y"] {
        fs::write(root.join(name), name)?;
    }
    let id = commit(&repo, "c")?.commit.ok_or("no commit")?;
    let options = AddOptions {
        dir: side.clone(),
        head: Head::Commit(id),
        commit: id,
        subset: Default::default(),
        settings: Default::default(),
        request: request("worktree add"),
    };
    repo.add_worktree(&options, &Job::default())?;
    fs::write(side.join("b"), "edited")?;
    fs::write(side.join("new"), "new")?;
    fs::remove_file(side.join("d/y"))?;
    let before = files_in(&side)?;
    let there = Repo::open(&side)?;
    let remove = |job: &Job| {
        let request = request("worktree remove");
        repo.remove_worktree(&side, true, &Default::default(), request, job)
    };
    let undo = |repo: &Repo| {
        let options = UndoOptions {
            what: UndoWhat::Last,
            settings: Default::default(),
            request: request("undo"),
        };
        repo.undo(&options, &Job::default())
    };
    let go_on = format!("dmv worktree remove --force {}", side.display());
    for cut in 1..=3 {
        let done = remove(&cut_at(Moment::Replacing, cut));
        assert!(matches!(done, Err(RepoError::Cancelled)), "{cut}: {done:?}");
        let half = files_in(&side)?;
        assert_ne!(half, before, "{cut}: it has removed nothing");
        let refused = |done: Option<RepoError>| match done {
            Some(RepoError::Worktree(WorktreeError::Unfinished { command })) => command == go_on,
            _ => false,
        };
        let options = StashOptions {
            committer: Who::new("Test", ""),
            settings: Default::default(),
            request: request("stash"),
        };
        let stashed = there.stash_push(&Paths::default(), None, &options, &Job::default());
        assert!(refused(stashed.err()), "{cut}");
        assert!(refused(commit(&there, "too early").err()), "{cut}");
        assert_eq!(files_in(&side)?, half, "{cut}");
        undo(&there)?;
        assert_eq!(shown(&files_in(&side)?), shown(&before), "{cut}");
        let select = Paths::default();
        let look = StatusOptions {
            select: &select,
            settings: Default::default(),
        };
        let told = there.status(&look, &Job::default())?;
        assert!(
            told.unfinished.is_none() && told.changes.len() == 3,
            "{cut}: {told:?}"
        );
    }
    assert!(matches!(
        remove(&cut_at(Moment::Replacing, 2)),
        Err(RepoError::Cancelled)
    ));
    remove(&Job::default())?;
    assert!(!side.exists());
    undo(&repo)?;
    assert_eq!(shown(&files_in(&side)?), shown(&before));
    Ok(())
}

#[test]
fn an_edit_while_a_worktree_is_removed_is_kept() -> Outcome {
    let moments = [
        Moment::Scanned,
        Moment::Portion,
        Moment::Replacing,
        Moment::Written,
    ];
    for (moment, force) in moments.iter().flat_map(|m| [(*m, true), (*m, false)]) {
        let dir = fast_dir()?;
        let (root, side) = (dir.path().join("w"), dir.path().join("side"));
        let repo = Repo::init(&root, "main", false, request("init"))?;
        fs::create_dir(root.join("d"))?;
        fs::write(root.join("d/f"), "one")?;
        fs::write(root.join("g"), "one")?;
        let commit = commit(&repo, "c")?.commit.ok_or("no commit")?;
        let options = AddOptions {
            dir: side.clone(),
            head: Head::Commit(commit),
            commit,
            subset: Default::default(),
            settings: Default::default(),
            request: request("worktree add"),
        };
        repo.add_worktree(&options, &Job::default())?;
        if force {
            fs::write(side.join("g"), "uncommitted")?;
        }
        let (edited, is_done) = (side.join("d/f"), AtomicBool::new(false));
        let job = Job::with_probe(Probe {
            portion: 64,
            at: Box::new(move |now| {
                if now == moment && !is_done.swap(true, Ordering::Relaxed) {
                    let _ = fs::create_dir_all(edited.parent().unwrap_or(&edited));
                    let _ = fs::write(&edited, "edited meanwhile");
                }
            }),
        });
        let settings = Default::default();
        let remove = |force, job: &Job| {
            let request = request("worktree remove");
            repo.remove_worktree(&side, force, &settings, request, job)
        };
        let done = remove(force, &job);
        let lost = matches!(
            &done,
            Err(RepoError::Worktree(WorktreeError::WouldLoseThere { .. }))
        );
        assert!(lost, "{moment:?}, force {force}: {done:?}");
        let now = fs::read_to_string(side.join("d/f"))?;
        assert_eq!(now, "edited meanwhile", "{moment:?}, force {force}");
        // The same command, by force, removes the rest; an undo brings all of it back.
        remove(true, &Job::default())?;
        assert!(!side.exists());
        let options = UndoOptions {
            what: UndoWhat::Last,
            settings: Default::default(),
            request: request("undo"),
        };
        repo.undo(&options, &Job::default())?;
        assert_eq!(fs::read_to_string(side.join("d/f"))?, "edited meanwhile");
        let g = if force { "uncommitted" } else { "one" };
        assert_eq!(fs::read_to_string(side.join("g"))?, g, "{moment:?}");
    }
    Ok(())
}

/// A `stash pop` that is cut off has written markers into some files. They come into no commit: it says which
/// command was cut off, and that command goes on, as an undo goes back.
#[test]
fn a_pop_that_is_cut_off_comes_into_no_commit() -> Outcome {
    let dir = fast_dir()?;
    let root = dir.path().join("w");
    let repo = Repo::init(&root, "main", false, request("init"))?;
    let write = |text: &str| -> Outcome {
        ["a", "b"]
            .iter()
            .try_for_each(|name| Ok(fs::write(root.join(name), text)?))
    };
    write("base\n")?;
    commit(&repo, "base")?;
    let who = Who::new("Test", "");
    let options = |command: &str| StashOptions {
        committer: who.clone(),
        settings: Default::default(),
        request: request(command),
    };
    write("stashed\n")?;
    repo.stash_push(&Paths::default(), None, &options("stash"), &Job::default())?;
    write("edited\n")?;
    let edited = files_in(&root)?;
    let pop = |job: &Job| repo.stash_apply(StashAt::Number(0), true, &options("stash pop"), job);
    let cut = || -> Outcome {
        let job = cut_at(Moment::Replacing, 1);
        assert!(matches!(pop(&job), Err(RepoError::Cancelled)));
        assert_ne!(files_in(&root)?, edited, "it has changed nothing");
        Ok(())
    };
    let refuses = || -> Outcome {
        let done = commit(&repo, "too early").map_err(|e| e.to_string());
        assert!(
            done.as_ref()
                .is_err_and(|e| e.contains("'stash pop' was interrupted")),
            "{done:?}"
        );
        let select = Paths::default();
        let look = StatusOptions {
            select: &select,
            settings: Default::default(),
        };
        let told = repo.status(&look, &Job::default())?.unfinished;
        assert!(told.is_some_and(|cut| cut.command == "stash pop" && !cut.is_switch()));
        Ok(())
    };
    cut()?;
    refuses()?;
    let options = UndoOptions {
        what: UndoWhat::Last,
        settings: Default::default(),
        request: request("undo"),
    };
    repo.undo(&options, &Job::default())?;
    assert_eq!(files_in(&root)?, edited);
    cut()?;
    refuses()?;
    assert_eq!(pop(&Job::default())?.conflicts.len(), 2);
    // Open conflicts stay out of the commit, and it is no longer refused for the cut.
    let done = commit(&repo, "after").map_err(|e| e.to_string());
    assert!(!done.is_err_and(|e| e.contains("interrupted")));
    Ok(())
}
