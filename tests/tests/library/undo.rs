//! Random commits, branches, checkouts and undos, compared with a model of the view and the files.

use dmv_core::hash::{ObjectId, encode_hex};
use dmv_core::job::{Job, Moment, Probe};
use dmv_core::object::name::RepoPath;
use dmv_core::refs::Effect;
use dmv_core::repo::{
    BranchError, CheckoutOptions, CheckoutTarget, CommitOptions, FilesError, GcOptions, Head,
    LookError, RefKind, Repo, RepoError, ResetFiles, StashOptions, StatusOptions, UndoError,
    UndoOptions, UndoWhat, UntrackOptions, Who, WorktreeSettings,
};
use dmv_core::worktree::select::Paths;
use dmv_tests::crashlab::Outcome;
use dmv_tests::garbage::set_keys;
use dmv_tests::rng::Rng;
use dmv_tests::scratch::{Files, Item, commit, fast_dir, files_in, files_of, request};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};

const BRANCHES: [&str; 3] = ["main", "one", "two"];
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// The keys that an undo restores.
type View = BTreeMap<String, String>;

/// The changes of one operation.
struct Done {
    before: View,
    after: View,
    /// Whether the worktree's files changed with the base.
    written: bool,
}

struct Subject {
    root: PathBuf,
    rng: Rng,
    done: Vec<Done>,
    view: View,
    trees: BTreeMap<String, Files>,
}

impl Subject {
    fn open(&self) -> Result<Repo, RepoError> {
        Repo::open(&self.root)
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.rng.below(list.len() as u64) as usize]
    }

    fn files(&self) -> Outcome<Files> {
        let mut files = files_in(&self.root)?;
        files.retain(|_, item| *item != Item::EmptyDir);
        Ok(files)
    }

    fn base(view: &View) -> Option<&String> {
        view.get("worktree/main/base")
    }

    /// Returns the files of a view's base. There are none before the first commit.
    fn tree(&self, view: &View) -> Files {
        Self::base(view).map_or_else(Files::new, |id| self.trees[id].clone())
    }

    fn read_view(repo: &Repo) -> Outcome<View> {
        let mut view = View::new();
        for prefix in ["branch/", "tag/", "worktree/"] {
            for (key, value) in repo.refs().with_prefix(prefix)? {
                let value = match <[u8; 32]>::try_from(value.as_slice()) {
                    Ok(id) => ObjectId::from_bytes(id).to_string(),
                    Err(_) => String::from_utf8(value)?,
                };
                view.insert(key, value);
            }
        }
        Ok(view)
    }

    /// Records what an operation changed, if it changed anything.
    fn note(&mut self, repo: &Repo, written: bool) -> Outcome {
        let after = Self::read_view(repo)?;
        let before = std::mem::replace(&mut self.view, after.clone());
        if before != after {
            self.done.push(Done {
                before,
                after,
                written,
            });
        }
        Ok(())
    }

    /// Returns the files after a switch from the base of `from` to the base of `to`. Returns `None`
    /// if an uncommitted change is in the way.
    fn switched(&self, from: &View, to: &View) -> Outcome<Option<Files>> {
        let (base, target, mut files) = (self.tree(from), self.tree(to), self.files()?);
        for name in NAMES.map(str::as_bytes) {
            let (old, new, here) = (base.get(name), target.get(name), files.get(name).cloned());
            if old == new || here.as_ref() == new {
                continue;
            }
            if here.as_ref() != old {
                return Ok(None);
            }
            match new {
                Some(item) => files.insert(name.to_vec(), item.clone()),
                None => files.remove(name),
            };
        }
        Ok(Some(files))
    }

    fn edit(&mut self) -> Outcome {
        let name = self.pick(&NAMES);
        let path = self.root.join(name);
        if self.rng.one_in(4) && path.exists() {
            std::fs::remove_file(path)?;
        } else {
            std::fs::write(path, format!("{}", self.rng.below(3)))?;
        }
        Ok(())
    }

    fn commit(&mut self) -> Outcome {
        let repo = self.open()?;
        let message = format!("{}", self.done.len());
        match commit(&repo, &message) {
            Ok(report) => {
                let id = report.commit.ok_or("nothing was committed")?;
                self.trees.insert(id.to_string(), files_of(&repo, &id)?);
                assert_eq!(self.files()?, self.trees[&id.to_string()]);
            }
            // After an undo of a deleted or moved branch, the worktree is behind.
            Err(RepoError::Look(LookError::Moved { .. })) => {}
            Err(e) => return Err(e.into()),
        }
        self.note(&repo, false)
    }

    fn checkout(&mut self) -> Outcome {
        let repo = self.open()?;
        let name = self.pick(&BRANCHES);
        let Some(target) = self.view.get(&format!("branch/{name}")).cloned() else {
            return Ok(());
        };
        let mut goal = self.view.clone();
        goal.insert("worktree/main/base".into(), target);
        let want = self.switched(&self.view, &goal)?;
        let before = self.files()?;
        let options = CheckoutOptions {
            subset: None,
            force: false,
            settings: Default::default(),
            request: request("checkout"),
        };
        let target = CheckoutTarget::Branch(name.to_owned());
        self.agrees(
            repo.checkout(target, &options, &Job::default()).map(|_| ()),
            want,
            before,
        )?;
        self.note(&repo, true)
    }

    /// Checks the result of a switch against the model.
    fn agrees(&self, done: Result<(), RepoError>, want: Option<Files>, before: Files) -> Outcome {
        match (done, want) {
            (Ok(()), Some(want)) => assert_eq!(self.files()?, want),
            (Err(RepoError::Files(FilesError::WouldLose { .. })), None) => {
                assert_eq!(self.files()?, before)
            }
            (done, want) => return Err(format!("{done:?} where the model has {want:?}").into()),
        }
        Ok(())
    }

    fn refs(&mut self) -> Outcome {
        let repo = self.open()?;
        let name = self.pick(&BRANCHES);
        let other = self.pick(&BRANCHES);
        let done = match (self.rng.below(5), repo.head_commit()?) {
            (0 | 1, Some(id)) => repo.create_ref(RefKind::Branch, name, id, request("branch")),
            (2, Some(id)) => repo.create_ref(RefKind::Tag, name, id, request("tag")),
            (3, _) => repo
                .delete_ref(RefKind::Branch, name, request("branch -d"))
                .map(|_| ()),
            _ => repo.rename_branch(name, other, request("branch -m")),
        };
        match done {
            Ok(())
            | Err(
                RepoError::Branch(BranchError::RefExists { .. })
                | RepoError::Branch(BranchError::NoRef { .. })
                | RepoError::Branch(BranchError::InUse { .. }),
            ) => {}
            Err(e) => return Err(e.into()),
        }
        self.note(&repo, false)
    }

    /// Undoes an operation, mostly the last one.
    fn undo(&mut self) -> Outcome {
        let repo = self.open()?;
        let count = self.done.len() as u64;
        if count == 0 {
            return Ok(());
        }
        let back = if self.rng.one_in(2) {
            0
        } else {
            self.rng.below(count.min(6))
        };
        let last = &self.done[(count - 1 - back) as usize];
        let mut operations = repo.refs().operations(back as usize + 1)?;
        let id = operations.pop().ok_or("no operation")?.id;
        let id = dmv_core::hash::encode_hex(&id);
        let written = last.written;
        // The model: all keys must still have the values that the operation left. Then they get
        // their former values.
        let mut goal = self.view.clone();
        let mut fits = true;
        let keys = last.before.keys().chain(last.after.keys());
        for key in keys.filter(|key| last.before.get(*key) != last.after.get(*key)) {
            fits &= self.view.get(key) == last.after.get(key);
            match last.before.get(key) {
                Some(value) => goal.insert(key.clone(), value.clone()),
                None => goal.remove(key),
            };
        }
        let branch = |view: &View| view.get(&view["worktree/main/head"]).is_some();
        fits &= branch(&goal) || Self::base(&goal).is_none();
        let before = self.files()?;
        let options = UndoOptions {
            what: UndoWhat::Operation(id),
            settings: Default::default(),
            request: request("undo"),
        };
        let done = repo.undo(&options, &Job::default());
        if !fits {
            assert!(
                matches!(
                    done,
                    Err(RepoError::Undo(UndoError::ChangedSince { .. })
                        | RepoError::Undo(UndoError::NotUndone { .. })
                        | RepoError::Branch(BranchError::InUse { .. }))
                ),
                "{done:?}"
            );
            assert_eq!(
                (self.files()?, Self::read_view(&repo)?),
                (before, self.view.clone())
            );
            return Ok(());
        }
        let want = if written && Self::base(&goal) != Self::base(&self.view) {
            self.switched(&self.view, &goal)?
        } else {
            Some(before.clone())
        };
        if want.is_some() {
            assert_eq!(Self::read_view(&repo)?, goal);
        }
        if let Ok(report) = &done {
            assert_eq!(report.undone.effect() == Effect::Written, written);
            assert!(matches!(report.head, Head::Branch(_)));
        }
        self.agrees(done.map(|_| ()), want, before)?;
        self.note(&repo, written)
    }
}

fn story(seed: u64) -> Outcome {
    let dir = fast_dir()?;
    let root = dir.path().join("w");
    let repo = Repo::init(&root, "main", false, request("init"))?;
    let view = Subject::read_view(&repo)?;
    let mut subject = Subject {
        root,
        rng: Rng::new(seed),
        done: Vec::new(),
        view,
        trees: BTreeMap::new(),
    };
    for _ in 0..60 {
        match subject.rng.below(10) {
            0..=2 => subject.edit()?,
            3 | 4 => subject.commit()?,
            5 => subject.checkout()?,
            6 => subject.refs()?,
            _ => subject.undo()?,
        }
    }
    Ok(())
}

#[test]
fn undo_in_any_order_does_what_the_model_says() -> Outcome {
    for seed in 0..dmv_random::number("DMV_UNDO_STORIES", 30) {
        let told = std::panic::catch_unwind(|| story(seed).map_err(|e| e.to_string()));
        match told {
            Ok(Ok(())) => {}
            Ok(Err(e)) => return Err(format!("seed {seed}: {e}").into()),
            Err(_) => return Err(format!("seed {seed} panics").into()),
        }
    }
    Ok(())
}

/// A file that is no longer tracked and not on disk does not hold what a switch has put in the place
/// of its directory.
#[test]
fn an_undo_takes_away_a_file_above_one_that_is_no_longer_tracked() -> Outcome {
    let dir = fast_dir()?;
    let repo = Repo::init(dir.path(), "main", false, request("init"))?;
    std::fs::create_dir_all(dir.path().join("a/b"))?;
    std::fs::write(dir.path().join("a/b/x"), "x")?;
    let first = commit(&repo, "a directory")?.commit.ok_or("a commit")?;
    std::fs::remove_dir_all(dir.path().join("a"))?;
    std::fs::write(dir.path().join("a"), "a")?;
    let second = commit(&repo, "a file")?.commit.ok_or("a commit")?;
    let check_out = |id, force| {
        let options = CheckoutOptions {
            subset: None,
            force,
            settings: Default::default(),
            request: request("checkout"),
        };
        repo.checkout(CheckoutTarget::Commit(id), &options, &Job::default())
    };
    check_out(first, false)?;
    let untrack = UntrackOptions {
        paths: vec![RepoPath::parse(b"a/b/x")?],
        recursive: false,
        ignore: Vec::new(),
        settings: Default::default(),
        request: request("rm --cached"),
    };
    repo.untrack(&untrack, &Job::default())?;
    std::fs::remove_dir_all(dir.path().join("a"))?;
    check_out(second, true)?;
    assert_eq!(std::fs::read(dir.path().join("a"))?, b"a");
    let undo = UndoOptions {
        what: UndoWhat::Last,
        settings: Default::default(),
        request: request("undo"),
    };
    repo.undo(&undo, &Job::default())?;
    assert_eq!(files_in(dir.path())?, Files::new());
    Ok(())
}

/// A stash whose file could not take the place of a directory, because the user is in it, has done the rest,
/// and its undo brings that back.
#[test]
fn a_stash_that_left_a_directory_is_undone() -> Outcome {
    let dir = fast_dir()?;
    let at = |path: &str| dir.path().join(path);
    let repo = Repo::init(dir.path(), "main", false, request("init"))?;
    std::fs::write(at("c"), "c")?;
    std::fs::write(at("k"), "k")?;
    commit(&repo, "a file")?;
    std::fs::remove_file(at("c"))?;
    std::fs::create_dir_all(at("c/in-use"))?;
    std::fs::write(at("c/x"), "x")?;
    std::fs::write(at("k"), "edited")?;
    let before = files_in(dir.path())?;
    let options = StashOptions {
        committer: Who::new("T", ""),
        settings: WorktreeSettings {
            in_use: vec![at("c/in-use")],
            ..Default::default()
        },
        request: request("stash"),
    };
    let done = repo.stash_push(&Paths::default(), None, &options, &Job::default())?;
    assert_eq!(done.problems.len(), 1, "{:?}", done.problems);
    let undo = UndoOptions {
        what: UndoWhat::Last,
        settings: Default::default(),
        request: request("undo"),
    };
    repo.undo(&undo, &Job::default())?;
    assert_eq!(files_in(dir.path())?, before);
    Ok(())
}

/// Records that an earlier build has left are refused, not ignored.
#[test]
fn a_worktree_with_records_of_an_earlier_build_is_refused() -> Outcome {
    let dir = fast_dir()?;
    let repo = Repo::init(dir.path(), "main", false, request("init"))?;
    std::fs::write(dir.path().join("a"), "a")?;
    let id = commit(&repo, "a")?.commit.ok_or("a commit")?;
    set_keys(
        &repo,
        &[("worktree/main/saved", Some(id.as_bytes().to_vec()))],
    )?;
    drop(repo);
    let refused = commit(&Repo::open(dir.path())?, "b")
        .err()
        .ok_or("refused")?;
    let refused = refused.to_string();
    assert!(refused.contains("'saved'"), "{refused}");
    Ok(())
}

#[test]
fn what_an_undo_reaches_stays_within_reach_until_it_has_ended() -> Outcome {
    let dir = fast_dir()?;
    let root = dir.path().join("w");
    let repo = Repo::init(&root, "main", false, request("init"))?;
    let mut ids = Vec::new();
    for text in ["one", "two"] {
        std::fs::write(root.join("f"), text)?;
        ids.extend(commit(&repo, text)?.commit);
    }
    let options = CheckoutOptions::new(request("checkout"));
    repo.checkout(CheckoutTarget::Commit(ids[0]), &options, &Job::default())?;
    let (begin, begun) = channel();
    let (end, ended) = channel();
    let ended = Mutex::new(ended);
    let job = Job::with_probe(Probe {
        portion: 64,
        at: Box::new(move |moment| {
            if moment == Moment::Checked {
                begin.send(()).expect("the expiry waits for this");
                let ended = ended.lock().expect("nobody else locks it");
                let waited = ended.recv_timeout(Duration::from_millis(200));
                assert_eq!(waited, Err(RecvTimeoutError::Timeout), "it did not wait");
            }
        }),
    });
    let options = UndoOptions {
        what: UndoWhat::Last,
        settings: Default::default(),
        request: request("undo"),
    };
    std::thread::scope(|scope| -> Outcome {
        let root = &root;
        let expiry = scope.spawn(move || {
            let repo = Repo::open(root)?;
            begun.recv().map_err(|_| RepoError::Cancelled)?;
            let reach = repo.expire_operations(i64::MAX, request("op expire"));
            // The undo may have ended by now.
            let _ = end.send(());
            reach
        });
        repo.undo(&options, &job)?;
        let reach = expiry.join().map_err(|_| "the expiry panicked")??;
        assert_eq!(reach.left, 1);
        Ok(())
    })?;
    assert_eq!(std::fs::read(root.join("f"))?, b"two");
    assert!(matches!(repo.head()?, Head::Branch(name) if name == "main"));
    // Nothing is left to give up: the numbers stay the same.
    let again = repo.expire_operations(i64::MAX, request("op expire"))?;
    assert!(again.operation.is_none());
    let last = repo.refs().last_operation()?;
    assert_eq!((again.expired + again.left, again.left), (last, 1));
    assert!(again.reaches_to.is_some());
    Ok(())
}

/// Returns a job that plans one file at a time, and that is cancelled when `moment` comes for the `n`-th time.
fn stopped_at(moment: Moment, n: u64) -> Job {
    let cancel: Arc<OnceLock<Arc<AtomicBool>>> = Arc::default();
    let (flag, begun) = (cancel.clone(), AtomicU64::new(0));
    let job = Job::with_probe(Probe {
        portion: 1,
        at: Box::new(move |now| {
            if now == moment && begun.fetch_add(1, Ordering::Relaxed) + 1 == n {
                let cancel = flag.get().expect("the job is made before it begins");
                cancel.store(true, Ordering::Relaxed);
            }
        }),
    });
    let set = cancel.set(job.cancel_handle());
    set.expect("it is set once");
    job
}

#[test]
fn a_forced_command_that_goes_on_after_a_stop_is_undone_as_one() -> Outcome {
    let reset = |repo: &Repo, to, job: &Job| {
        let (files, settings) = (ResetFiles::Match, WorktreeSettings::default());
        let done = repo.reset(to, files, &request("dmv reset --hard"), &settings, job);
        done.map(|_| ())
    };
    let force = |repo: &Repo, _: ObjectId, job: &Job| {
        let mut options = CheckoutOptions::new(request("dmv checkout --force main"));
        options.force = true;
        let main = CheckoutTarget::Branch("main".to_owned());
        repo.checkout(main, &options, job).map(|_| ())
    };
    type ForcedVerb<'v> = &'v dyn Fn(&Repo, ObjectId, &Job) -> Result<(), RepoError>;
    let verbs: [ForcedVerb<'_>; 2] = [&reset, &force];
    for (first, again) in [(0, 0), (1, 1), (0, 1), (1, 0)] {
        let dir = fast_dir()?;
        let root = dir.path().join("w");
        let repo = Repo::init(&root, "main", false, request("init"))?;
        let names = ["a", "b", "c", "d"];
        for name in names {
            std::fs::write(root.join(name), "committed")?;
        }
        let id = commit(&repo, "first")?.commit.ok_or("a commit")?;
        for name in names {
            std::fs::write(root.join(name), "mine")?;
        }
        let stopped = verbs[first](&repo, id, &stopped_at(Moment::Replacing, 2));
        assert!(matches!(stopped, Err(RepoError::Cancelled)), "{stopped:?}");
        let is_mine =
            |name: &&str| std::fs::read(root.join(name)).is_ok_and(|text| text == b"mine");
        let left = names.iter().copied().filter(|name| is_mine(name)).count();
        assert!(
            (1..4).contains(&left),
            "{left} of 4 are not overwritten yet"
        );
        verbs[again](&repo, id, &Job::default())?;
        assert!(!names.iter().copied().any(|name| is_mine(&name)));
        let options = UndoOptions {
            what: UndoWhat::Last,
            settings: Default::default(),
            request: request("dmv undo"),
        };
        repo.undo(&options, &Job::default())?;
        assert!(names.iter().all(is_mine), "{:?}", files_in(&root)?);
    }
    Ok(())
}

#[test]
fn an_undo_that_a_page_began_goes_on_as_a_command() -> Outcome {
    let dir = fast_dir()?;
    let root = dir.path().join("w");
    let repo = Repo::init(&root, "main", false, request("init"))?;
    let mut ids = Vec::new();
    for text in ["one", "two"] {
        for name in ["a", "b", "c"] {
            std::fs::write(root.join(name), text)?;
        }
        ids.extend(commit(&repo, text)?.commit);
    }
    let options = CheckoutOptions::new(request("checkout"));
    repo.checkout(CheckoutTarget::Commit(ids[0]), &options, &Job::default())?;
    // Somebody presses Stop when the files begin to change.
    let job = stopped_at(Moment::Portion, 1);
    let undo = |command, job: &Job| {
        let options = UndoOptions {
            what: UndoWhat::Last,
            settings: Default::default(),
            request: request(command),
        };
        repo.undo(&options, job).map(|_| ())
    };
    let stopped = undo("dmv web: undo", &job);
    assert!(matches!(stopped, Err(RepoError::Cancelled)), "{stopped:?}");
    let options = StatusOptions {
        select: &Paths::default(),
        settings: Default::default(),
    };
    let status = repo.status(&options, &Job::default())?;
    let unfinished = status.unfinished.ok_or("the undo is not finished")?;
    assert_eq!(unfinished.command, "dmv undo");
    undo("dmv undo", &Job::default())?;
    for name in ["a", "b", "c"] {
        assert_eq!(std::fs::read(root.join(name))?, b"two");
    }
    assert!(matches!(repo.head()?, Head::Branch(name) if name == "main"));
    Ok(())
}

#[test]
fn what_is_forgotten_can_be_freed_and_all_else_undone() -> Outcome {
    let dir = fast_dir()?;
    let root = dir.path().join("w");
    let repo = Repo::init(&root, "main", false, request("init"))?;
    let make = |name: &str, bytes: &[u8]| -> Outcome<ObjectId> {
        std::fs::write(root.join(name), bytes)?;
        Ok(commit(&repo, name)?.commit.ok_or("nothing to commit")?)
    };
    let undo = |what| {
        let options = UndoOptions {
            what,
            settings: Default::default(),
            request: request("undo"),
        };
        repo.undo(&options, &Job::default())
    };
    make("first", b"first")?;
    let huge = make("huge", &Rng::new(1).bytes(500_000))?;
    let on_top = make("on top", b"more")?;
    for _ in 0..2 {
        undo(UndoWhat::Last)?;
    }
    std::fs::remove_file(root.join("huge"))?;
    std::fs::remove_file(root.join("on top"))?;
    let kept = make("other", b"other")?;
    undo(UndoWhat::Last)?;
    let mut of_huge = None;
    repo.each_operation(&mut |operation, _| {
        let new = operation
            .changes
            .iter()
            .filter_map(|change| change.new.as_deref());
        if operation.undoes == 0 && new.into_iter().any(|new| new == huge.as_bytes()) {
            of_huge = Some(operation);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let of_huge = of_huge.ok_or("no operation")?;
    let id = encode_hex(&of_huge.id);
    let report = repo.forget_operation(&id, request("op forget"))?;
    // The commit, the one on top of it, and the undo of each.
    let numbers: Vec<u64> = report.forgotten.iter().map(|op| op.seq).collect();
    let first = of_huge.seq;
    assert_eq!(numbers, [first + 3, first + 2, first + 1, first]);
    let refused = undo(UndoWhat::Operation(id.clone()));
    assert!(
        matches!(&refused, Err(RepoError::Undo(UndoError::Expired { by, at: Some(_), .. })) if *by == "dmv op forget"),
        "{refused:?}"
    );
    let options = GcOptions {
        grace: Duration::ZERO,
        now: SystemTime::now().into(),
        until: None,
        thorough: true,
        dry_run: false,
    };
    let report = repo.gc(&options, &Job::default())?;
    assert!(report.freed_bytes > 500_000, "{report:?}");
    assert_eq!(report.undo_lacks, 0);
    for gone in [huge, on_top] {
        assert!(repo.read_commit(&gone).is_err(), "{gone}");
    }
    // The undo of the other commit can still be undone.
    undo(UndoWhat::LastUndo)?;
    assert_eq!(repo.head_commit()?, Some(kept));
    // What a branch leads to is not forgotten.
    let last = encode_hex(&repo.next_to_undo()?.ok_or("something to undo")?.id);
    let report = repo.forget_operation(&last, request("op forget"))?;
    assert!(report.operation.is_none() && report.forgotten.is_empty());
    undo(UndoWhat::Last)?;
    Ok(())
}

#[test]
fn a_new_file_is_large_beside_a_tenth_of_the_commit_unless_it_was_moved() -> Outcome {
    let dir = fast_dir()?;
    let root = dir.path().join("w");
    let repo = Repo::init(&root, "main", false, request("init"))?;
    let select = Paths::all();
    let large = |least| -> Outcome<Vec<String>> {
        let options = StatusOptions {
            select: &select,
            settings: Default::default(),
        };
        let files = repo.large_new_files(&options, least, &Job::default())?;
        Ok(files
            .iter()
            .map(|file| format!("{} {}", file.path, file.bytes))
            .collect())
    };
    std::fs::write(root.join("a"), [1; 1000])?;
    // The first commit is an import.
    assert_eq!(large(10)?, [""; 0]);
    commit(&repo, "first")?;
    std::fs::create_dir(root.join("dir"))?;
    for (name, bytes) in [("dir/b", 101), ("c", 100), ("d", 300)] {
        std::fs::write(root.join(name), vec![2; bytes])?;
    }
    assert_eq!(large(10)?, ["d 300", "dir/b 101"]);
    assert_eq!(large(200)?, ["d 300"]);
    // A commit that may not store them finds the first one, and stores nothing.
    let job = Job::default();
    let refusing = |least| {
        let who = Who::new("T", "");
        let options = CommitOptions {
            refuse_large: Some(least),
            ..CommitOptions::new("large", who, request("commit"))
        };
        repo.commit(options, &job)
    };
    let head = repo.head_commit()?;
    let refused = refusing(200);
    assert!(
        matches!(&refused, Err(RepoError::Files(FilesError::Large(path))) if path.to_string() == "d"),
        "{refused:?}"
    );
    assert_eq!(repo.head_commit()?, head);
    assert!(!job.is_cancelled());
    std::fs::rename(root.join("a"), root.join("dir/a"))?;
    assert_eq!(large(200)?, ["d 300"]);
    // What is tracked is not new, however much it grows.
    commit(&repo, "second")?;
    std::fs::write(root.join("c"), [3; 5000])?;
    assert_eq!(large(10)?, [""; 0]);
    assert!(refusing(10)?.commit.is_some());
    Ok(())
}
