//! A user edits, replaces, moves and removes files while a command changes the worktree. Nothing
//! that the user wrote may be lost, and the changed files must count as changed.
//!
//! The first tests make one change at each moment of each command. The others work in parallel to
//! commands. The long run makes `DMV_EDITS` changes (100,000): `cargo test -p dmv-tests --release
//! --test library -- mutator:: --ignored`.

#![allow(clippy::print_stdout)]

use dmv_core::hash::ObjectId;
use dmv_core::job::{Job, Moment, Probe};
use dmv_core::repo::{
    CheckoutOptions, CheckoutTarget, FastForward, FilesError, MergeOptions, RefKind, Repo,
    RepoError, StatusOptions, UndoOptions, UndoWhat, Who,
};
use dmv_core::subset::Subset;
use dmv_core::worktree::select::Paths;
use dmv_tests::mutator::{CHANGES, Change, Mutator, tokens_in};
use dmv_tests::rng::Rng;
use dmv_tests::scratch::{Item, commit, fast_dir, files_in, request};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// A command that changes the worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Command {
    Checkout,
    Force,
    Restore,
    Merge,
    Subset,
    Undo,
}

const COMMANDS: [Command; 6] = [
    Command::Checkout,
    Command::Force,
    Command::Restore,
    Command::Merge,
    Command::Subset,
    Command::Undo,
];

/// The number of files that a command plans at once.
const PORTION: usize = 3;

fn settings() -> dmv_core::repo::WorktreeSettings {
    Default::default()
}

fn options(force: bool) -> CheckoutOptions {
    CheckoutOptions {
        subset: None,
        force,
        settings: settings(),
        request: request("checkout"),
    }
}

/// Makes the commits `a` and `b` with a common parent, and leaves the worktree on `a`. Each file of
/// `a` differs in `b` or is absent there. Returns the paths.
fn prepare(root: &Path, dirs: usize, files: usize) -> Outcome<Vec<String>> {
    let repo = Repo::init(root, "main", false, request("init"))?;
    let mut paths = Vec::new();
    let write = |path: &str, version: &str| -> std::io::Result<()> {
        let at = root.join(path);
        at.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(at, format!("{version} of {path}, {}\n", "x".repeat(40)))
    };
    for dir in 0..dirs {
        for file in 0..files {
            paths.push(format!("d{dir}/f{file}"));
        }
    }
    for path in &paths {
        write(path, "first")?;
    }
    for path in ["gone/one", "gone/two", "to-dir", "to-file/in", "same"] {
        write(path, "first")?;
    }
    for path in ["before/one", "before/two", "before/three"] {
        write(path, "first")?;
    }
    symlink("d0", root.join("link"))?;
    let parent = commit(&repo, "parent")?.commit.ok_or("a commit")?;
    write("own", "own")?;
    let a = commit(&repo, "a")?.commit.ok_or("a commit")?;
    let detach = CheckoutTarget::Commit(parent);
    repo.checkout(detach, &options(false), &Job::default())?;
    for path in &paths {
        write(path, "second")?;
    }
    fs::remove_dir_all(root.join("gone"))?;
    fs::rename(root.join("before"), root.join("after"))?;
    fs::remove_file(root.join("to-dir"))?;
    fs::remove_dir_all(root.join("to-file"))?;
    fs::remove_file(root.join("link"))?;
    symlink("d1", root.join("link"))?;
    for path in ["to-dir/in", "to-file", "new/one", "new/two", "zz_new"] {
        write(path, "second")?;
    }
    let b = commit(&repo, "b")?.commit.ok_or("a commit")?;
    for (name, id) in [("a", a), ("b", b)] {
        repo.create_ref(RefKind::Branch, name, id, request("branch"))?;
    }
    let target = CheckoutTarget::Branch("a".into());
    repo.checkout(target, &options(false), &Job::default())?;
    for path in ["gone/one", "to-dir", "to-file/in", "link", "same", "own"] {
        paths.push(path.into());
    }
    for path in ["before/one", "before/two", "after/one", "after/two"] {
        paths.push(path.into());
    }
    for path in ["new/one", "zz_new", "to-dir/in", "to-file", "d0/extra"] {
        paths.push(path.into());
    }
    Ok(paths)
}

fn branch(repo: &Repo, name: &str) -> Outcome<ObjectId> {
    let target = repo.refs().get(&format!("branch/{name}"))?;
    let id: [u8; 32] = target.ok_or("a branch")?[..].try_into()?;
    Ok(ObjectId::from_bytes(id))
}

/// Runs a command. Returns the paths that it refused.
fn run(repo: &Repo, command: Command, job: &Job) -> Result<Vec<Vec<u8>>, RepoError> {
    let b = repo.refs().get("branch/b")?.unwrap_or_default();
    let b = ObjectId::from_bytes(b[..].try_into().unwrap_or([0; 32]));
    let refused = match command {
        Command::Checkout | Command::Force => {
            let options = options(command == Command::Force);
            let target = CheckoutTarget::Branch("b".into());
            repo.checkout(target, &options, job)?.refused
        }
        Command::Restore => {
            let paths = ["d0", "d1", "new", "zz_new", "link"]
                .map(|path| Repo::parse_path(path.as_bytes()).expect("a path"));
            repo.restore(Some(b), &paths, &settings(), request("restore"), job)?
                .refused
        }
        Command::Merge => {
            let options = MergeOptions {
                message: "merged".into(),
                committer: Who {
                    name: "Test".into(),
                    email: String::new(),
                },
                settings: settings(),
                request: request("merge"),
            };
            repo.merge(b, FastForward::Never, &options, job)?.refused
        }
        Command::Subset => {
            let subset = Subset::new([&b"d0"[..], b"same"]).expect("sound patterns");
            repo.set_subset(subset, &settings(), request("subset"), job)?
                .refused
        }
        Command::Undo => {
            let options = UndoOptions {
                what: UndoWhat::Last,
                settings: settings(),
                request: request("undo"),
            };
            repo.undo(&options, job)?.refused
        }
    };
    let paths = refused.into_iter().map(|problem| problem.path.into_bytes());
    Ok(paths.collect())
}

/// Returns the paths that a new process sees as changed, outside the subset, or unreadable. Checks
/// that the stat cache does not change the answer.
fn changed(root: &Path) -> Outcome<Vec<Vec<u8>>> {
    let look = || -> Outcome<Vec<Vec<u8>>> {
        let select = Paths::default();
        let options = StatusOptions {
            select: &select,
            settings: settings(),
        };
        let report = Repo::open(root)?.status(&options, &Job::default())?;
        let changes = report
            .changes
            .into_iter()
            .map(|change| change.path.into_bytes());
        let mut all: Vec<_> = changes.chain(report.outside).collect();
        all.sort();
        Ok(all)
    };
    let with = look()?;
    fs::remove_file(root.join(".dmv/worktrees/main/stat"))?;
    let without = look()?;
    assert_eq!(with, without, "the stat cache hides a change");
    Ok(with)
}

/// Checks that every file with a token counts as changed.
fn check_tokens_count(root: &Path, what: &str) -> Outcome {
    let changed = changed(root)?;
    for (path, item) in files_in(root)? {
        let Item::File(bytes, _) = item else { continue };
        if tokens_in(&bytes).next().is_none() {
            continue;
        }
        let is_told =
            |told: &Vec<u8>| path == *told || path.starts_with(&[told, &b"/"[..]].concat());
        let path = path.escape_ascii();
        assert!(
            changed.iter().any(is_told),
            "{what}: {path} counts as unchanged"
        );
    }
    Ok(())
}

fn copy_dir(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let (entry, kind) = entry.and_then(|e| e.file_type().map(|kind| (e, kind)))?;
        let to = to.join(entry.file_name());
        if kind.is_dir() {
            copy_dir(&entry.path(), &to)?;
        } else if kind.is_symlink() {
            symlink(fs::read_link(entry.path())?, to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

/// Returns how often a command reaches a moment at which the probe is called.
fn moments(root: &Path, command: Command) -> Outcome<usize> {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let job = Job::with_probe(Probe {
        portion: PORTION,
        at: Box::new(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
        }),
    });
    run(&Repo::open(root)?, command, &job)?;
    Ok(count.load(Ordering::Relaxed))
}

/// The commits of what `command` overwrote on request: a restore takes that into the repository.
fn saved_by(repo: &Repo, command: Command) -> Outcome<Vec<ObjectId>> {
    if command != Command::Restore {
        return Ok(Vec::new());
    }
    let id = repo.refs().get("worktree/main/steps")?;
    let id = id.and_then(|id| <[u8; 32]>::try_from(id).ok());
    let mut all = Vec::from_iter(id.map(ObjectId::from_bytes));
    while let Some(id) = all.last() {
        match repo.read_commit(id)?.parents.first() {
            Some(before) => all.push(*before),
            None => break,
        }
    }
    Ok(all)
}

/// Makes one change at one moment of one command, and checks the result.
fn change_at(
    root: &Path,
    (command, number): (Command, usize),
    path: &str,
    change: Change,
) -> Outcome<bool> {
    let repo = Repo::open(root)?;
    let mutator = Arc::new(Mutex::new((Mutator::new(root, 1), false)));
    let (count, at, inner) = (AtomicUsize::new(0), path.to_owned(), mutator.clone());
    let job = Job::with_probe(Probe {
        portion: PORTION,
        at: Box::new(move |_| {
            if count.fetch_add(1, Ordering::Relaxed) == number {
                let mut mutator = inner.lock().expect("nothing panics");
                mutator.1 = mutator.0.change(&at, change);
            }
        }),
    });
    let done = run(&repo, command, &job);
    let what = format!("{command:?}, moment {number}, {change:?} of {path}");
    if let Err(e) = done {
        assert!(
            matches!(e, RepoError::Files(FilesError::WouldLose { .. })),
            "{what}: {e}"
        );
    }
    drop(repo);
    let repo = Repo::open(root)?;
    let mutator = mutator.lock().map_err(|_| "poisoned")?;
    let saved = saved_by(&repo, command)?;
    let lost = mutator.0.lost(&repo, &saved)?;
    assert!(lost.is_empty(), "{what}: lost");
    check_tokens_count(root, &what)?;
    let names = files_in(root)?;
    let temporary = |path: &&Vec<u8>| path.windows(9).any(|w| w == b".dmv-tmp-");
    // A later command removes the temporary files in a directory that was moved meanwhile.
    if change != Change::MoveDirectory {
        assert_eq!(names.keys().find(temporary), None, "{what}: left over");
    }
    Ok(mutator.1)
}

fn one_change_at_each_moment(changes_each: usize, commands: &[Command], seed: u64) -> Outcome {
    let temp = fast_dir()?;
    let mut rng = Rng::new(seed);
    println!("seed {seed}");
    for command in commands {
        let first = temp.path().join(format!("{command:?}"));
        fs::create_dir(&first)?;
        let paths = prepare(&first, 2, 3)?;
        if *command == Command::Undo {
            run(&Repo::open(&first)?, Command::Checkout, &Job::default())?;
        }
        let trial = temp.path().join("trial");
        copy_dir(&first, &trial)?;
        let count = moments(&trial, *command)?;
        fs::remove_dir_all(&trial)?;
        assert!(count > 4, "{command:?} has {count} moments");
        // The copies are made first. Most files are then old enough that they need not be read
        // again.
        let mut trials = Vec::new();
        for number in 0..count {
            for n in 0..changes_each {
                let dir = temp.path().join(format!("{command:?}-{number}-{n}"));
                copy_dir(&first, &dir)?;
                trials.push((number, dir));
            }
        }
        let mut made = 0;
        for (number, dir) in &trials {
            if rng.one_in(2) {
                changed(dir)?;
                let select = Paths::default();
                let options = StatusOptions {
                    select: &select,
                    settings: settings(),
                };
                Repo::open(dir)?.status(&options, &Job::default())?;
            }
            let change = CHANGES[rng.below(CHANGES.len() as u64) as usize];
            let path = &paths[rng.below(paths.len() as u64) as usize];
            made += usize::from(change_at(dir, (*command, *number), path, change)?);
            fs::remove_dir_all(dir)?;
        }
        println!("{command:?}: {made} changes in {} runs", trials.len());
        assert!(made * 4 > trials.len(), "{command:?}: {made}");
    }
    Ok(())
}

#[test]
fn a_change_at_any_moment_of_a_command_is_kept_and_counts() -> Outcome {
    one_change_at_each_moment(2, &COMMANDS, 7)
}

#[test]
#[ignore = "heavy"]
fn changes_at_any_moment_of_a_command_are_kept_and_count() -> Outcome {
    let runs: u64 = std::env::var("DMV_RUNS").map_or(Ok(20), |n| n.parse())?;
    (0..runs).try_for_each(|seed| one_change_at_each_moment(6, &COMMANDS, 100 + seed))
}

/// The state of a mutator that works on a thread, with pauses, until it must stop.
struct AtWork {
    go: Arc<AtomicBool>,
    stop: AtomicBool,
    idle: AtomicBool,
    made: AtomicU64,
}

/// Makes changes in parallel to checkouts, merges, restores and commits, until `edits` changes were
/// made.
fn beside_commands(edits: u64, (dirs, files): (usize, usize), seed: u64) -> Outcome {
    let temp = fast_dir()?;
    println!("seed {seed}");
    let root = temp.path().join("w");
    fs::create_dir(&root)?;
    let paths = prepare(&root, dirs, files)?;
    let work = AtWork {
        go: Arc::default(),
        stop: AtomicBool::new(false),
        idle: AtomicBool::new(true),
        made: AtomicU64::new(0),
    };
    let mutator = Mutex::new(Mutator::new(&root, 1));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut rng = Rng::new(seed);
            let mut quiet = 0;
            while !work.stop.load(Ordering::SeqCst) {
                if !work.go.load(Ordering::SeqCst) {
                    work.idle.store(true, Ordering::SeqCst);
                    std::thread::yield_now();
                    quiet = 0;
                    continue;
                }
                let mut mutator = mutator.lock().expect("nothing panics");
                if mutator.random(&mut rng, &paths) {
                    work.made.fetch_add(1, Ordering::SeqCst);
                    quiet += 1;
                }
                drop(mutator);
                // Not all files change at once: most of them should be unchanged when their turn
                // comes.
                for _ in 0..quiet * rng.below(40) {
                    std::hint::spin_loop();
                }
            }
            work.idle.store(true, Ordering::SeqCst);
        });
        let _stop = Stop(&work);
        rounds(&root, &work, &mutator, edits)
    })
}

/// Ends the mutator's work, even after a panic.
struct Stop<'a>(&'a AtWork);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::SeqCst);
    }
}

fn pause(work: &AtWork) {
    work.go.store(false, Ordering::SeqCst);
    work.idle.store(false, Ordering::SeqCst);
    while !work.idle.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
}

fn rounds(root: &Path, work: &AtWork, mutator: &Mutex<Mutator>, edits: u64) -> Outcome {
    let mut round = 0u64;
    let (mut refused, mut whole) = (0, 0);
    while work.made.load(Ordering::SeqCst) < edits {
        round += 1;
        let repo = Repo::open(root)?;
        let a = branch(&repo, "a")?;
        let on = CheckoutTarget::NewBranch(format!("round-{round}"), a);
        repo.checkout(on, &options(false), &Job::default())?;
        let command = [
            Command::Checkout,
            Command::Merge,
            Command::Restore,
            Command::Undo,
        ][(round % 5).min(3) as usize];
        let commits = round % 5 == 4;
        if command == Command::Undo && !commits {
            run(&repo, Command::Checkout, &Job::default())?;
        }
        if commits {
            work.go.store(true, Ordering::SeqCst);
            commit(&repo, "beside")?;
        } else {
            match run(&repo, command, &job_beside(command, &work.go)) {
                Ok(paths) => refused += paths.len(),
                Err(RepoError::Files(FilesError::WouldLose { .. })) => whole += 1,
                Err(e) => return Err(e.into()),
            }
        }
        pause(work);
        drop(repo);
        if commits {
            changed(root)?;
        } else {
            check_tokens_count(root, &format!("round {round}, {command:?}"))?;
        }
        let repo = Repo::open(root)?;
        let saved = saved_by(&repo, command)?;
        let kept = CheckoutTarget::NewBranch(format!("kept-{round}"), head(&repo)?);
        repo.checkout(kept, &options(false), &Job::default())?;
        let before = commit(&repo, "kept")?.commit.ok_or("a commit")?;
        let mut mutator = mutator.lock().map_err(|_| "poisoned")?;
        let mut commits = vec![before];
        commits.extend(repo.read_commit(&before)?.parents);
        commits.extend(&saved);
        let lost = mutator.lost(&repo, &commits)?;
        let shown: Vec<_> = lost
            .iter()
            .map(|token| token.escape_ascii().to_string())
            .collect();
        assert!(
            lost.is_empty(),
            "round {round}, {command:?}: lost {shown:?}"
        );
        mutator.tokens.clear();
    }
    let made = work.made.load(Ordering::SeqCst);
    println!("{made} changes, {round} rounds, {refused} paths refused, {whole} commands refused");
    Ok(())
}

fn head(repo: &Repo) -> Outcome<ObjectId> {
    Ok(repo.head_commit()?.ok_or("a commit")?)
}

/// Makes a job that starts the mutator when it begins.
fn job_beside(command: Command, go: &Arc<AtomicBool>) -> Job {
    let begin = match command {
        Command::Restore => Moment::Scanned,
        _ => Moment::Checked,
    };
    let go = go.clone();
    Job::with_probe(Probe {
        portion: 16,
        at: Box::new(move |moment| {
            if moment == begin {
                go.store(true, Ordering::SeqCst);
            }
        }),
    })
}

#[test]
fn who_edits_beside_commands_loses_nothing() -> Outcome {
    beside_commands(1_500, (6, 25), 3)
}

#[test]
#[ignore = "heavy"]
fn who_edits_beside_many_commands_loses_nothing() -> Outcome {
    let edits: u64 = std::env::var("DMV_EDITS").map_or(Ok(100_000), |n| n.parse())?;
    let seed: u64 = std::env::var("DMV_SEED").map_or(Ok(11), |n| n.parse())?;
    beside_commands(edits, (10, 60), seed)
}
