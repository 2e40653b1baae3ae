//! A process that frees garbage and moves everything else beside every command, at every moment.
//!
//! Before each operation on files of a command, another process frees all that nothing names and moves
//! all other objects into new packs. Whatever the command says then, everything that the view names
//! must be here. The same with the real gc, three times in a row.

use crate::deltas::repack;
use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::repo::{
    AddOptions, BusyError, CheckoutOptions, CheckoutTarget, FastForward, GcOptions, Head,
    MergeOptions, PickFrom, PickOptions, RefKind, Repo, RepoError, ResetFiles, StashOptions,
    UndoOptions, UndoWhat, Who, discover,
};
use dmv_core::worktree::select::Paths;
use dmv_net::session::{Client, Link, NetError, serve};
use dmv_net::wire::Access;
use dmv_tests::freeing::free_all;
use dmv_tests::garbage::{forget_operations, set_keys};
use dmv_tests::hookvfs::HookVfs;
use dmv_tests::peers::{Done, Place, serving, tips, update};
use dmv_tests::rng::Rng;
use dmv_tests::scratch::{commit, fast_dir, files_in, files_of, request};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How many moments of a command are tried, at most, spread evenly. `DMV_MOMENTS` sets another
/// number.
const MOMENTS: usize = 6;

/// Two repositories.
struct Stage {
    ours: Place,
    theirs: Place,
    /// A commit that nothing names.
    dead: ObjectId,
    /// The commit of the branch `other`, beside `main`.
    other: ObjectId,
}

/// Content that only garbage has, and content that only `other` has.
fn contents() -> [Vec<u8>; 2] {
    [Rng::new(1).bytes(150_000), Rng::new(2).bytes(150_000)]
}

fn check_out(repo: &Repo, target: CheckoutTarget) -> Result<(), RepoError> {
    let options = CheckoutOptions::new(request("checkout"));
    repo.checkout(target, &options, &Job::default()).map(drop)
}

fn merging() -> MergeOptions {
    MergeOptions::new("made", Who::new("Test", ""), request("merge"))
}

impl Stage {
    fn new() -> Done<Stage> {
        let [dead, other] = contents();
        let ours = Place::new()?;
        ours.write("a/one", &Rng::new(3).bytes(2000))?;
        ours.write("b/two", &Rng::new(4).bytes(2000))?;
        let first = ours.commit("first")?;
        let mut made = Vec::new();
        for (name, content) in [("dead", &dead), ("other", &other)] {
            let new = CheckoutTarget::NewBranch(name.into(), first);
            check_out(&ours.repo, new)?;
            ours.write(&format!("{name}/file"), content)?;
            // Of this only a chunk is garbage if another directory has it.
            ours.write(&format!("{name}/small"), &content[..5000])?;
            made.push(ours.commit(name)?);
            check_out(&ours.repo, CheckoutTarget::Branch("main".into()))?;
        }
        ours.write("a/three", b"three")?;
        ours.commit("second")?;
        ours.repo
            .delete_ref(RefKind::Branch, "dead", request("branch"))?;
        set_keys(&ours.repo, &[("worktree/main/steps", None)])?;
        forget_operations(&ours.repo)?;
        let theirs = Place::new()?;
        theirs.write("dead/file", &dead)?;
        theirs.write("other/file", &other)?;
        theirs.commit("theirs")?;
        Ok(Stage {
            ours,
            theirs,
            dead: made[0],
            other: made[1],
        })
    }
}

/// A command. It may use what nothing names.
type Command = fn(&Stage, &Repo) -> Result<(), RepoError>;

fn written(stage: &Stage, name: &str, content: &[u8]) {
    stage.ours.write(name, content).expect("it can be written");
}

fn commit_dead(stage: &Stage, repo: &Repo) -> Result<(), RepoError> {
    written(stage, "dead/file", &contents()[0]);
    commit(repo, "dead again").map(drop)
}

/// A slice says what is here on purpose. What is committed is here besides.
fn commit_in_part(stage: &Stage, repo: &Repo) -> Result<(), RepoError> {
    repo.change_slice(|slice| slice.metadata_only = true)?;
    written(stage, "new/name", &contents()[0][..5000]);
    commit(repo, "a new name").map(drop)
}

fn commit_moved(stage: &Stage, repo: &Repo) -> Result<(), RepoError> {
    written(stage, "copy", &contents()[1]);
    commit(repo, "moved").map(drop)
}

fn stash(stage: &Stage, repo: &Repo) -> Result<(), RepoError> {
    written(stage, "a/one", &contents()[0]);
    let options = StashOptions {
        committer: Who::new("Test", ""),
        settings: Default::default(),
        request: request("stash"),
    };
    let all = Paths::default();
    repo.stash_push(&all, None, &options, &Job::default())
        .map(drop)
}

fn reset(stage: &Stage, repo: &Repo) -> Result<(), RepoError> {
    written(stage, "a/one", &contents()[0]);
    let (request, job) = (request("reset"), Job::default());
    let (to, how) = (stage.other, ResetFiles::Match);
    repo.reset(to, how, &request, &Default::default(), &job)
        .map(drop)
}

fn undo(_: &Stage, repo: &Repo) -> Result<(), RepoError> {
    let options = UndoOptions {
        what: UndoWhat::Last,
        settings: Default::default(),
        request: request("undo"),
    };
    repo.delete_ref(RefKind::Branch, "other", request("branch"))?;
    repo.undo(&options, &Job::default()).map(drop)
}

fn add_worktree(stage: &Stage, repo: &Repo) -> Result<(), RepoError> {
    let dir = fast_dir().expect("it can be made");
    let options = AddOptions {
        dir: dir.path().join("two"),
        head: Head::Commit(stage.other),
        commit: stage.other,
        subset: Default::default(),
        settings: Default::default(),
        request: request("worktree add"),
    };
    repo.add_worktree(&options, &Job::default()).map(drop)
}

fn pick(repo: &Repo, id: ObjectId) -> Result<(), RepoError> {
    let (from, how) = ([PickFrom::One(id)], PickOptions::default());
    repo.cherry_pick(&from, how, &merging(), &Job::default())
        .map(drop)
}

fn of_net<T>(done: Result<T, NetError>) -> Result<T, RepoError> {
    done.map_err(|e| match e {
        NetError::Repo(e) => e,
        e => RepoError::Text(e.to_string()),
    })
}

fn fetch(stage: &Stage, repo: &Repo) -> Result<(), RepoError> {
    let (ours, theirs) = Link::pair();
    serving(&stage.theirs, theirs, Access::Read).expect("it serves");
    fetch_over(repo, ours)
}

/// The peer sends differences from what is garbage here.
fn fetch_differences(stage: &Stage, repo: &Repo) -> Result<(), RepoError> {
    let sender = stage.theirs.again().expect("it opens");
    let mut content = contents()[0].clone();
    for n in 0..3 {
        content
            .iter_mut()
            .step_by(3_000)
            .for_each(|byte| *byte ^= 1 << n);
        let name = format!("newer/{n}");
        stage.theirs.write(&name, &content).expect("it is written");
        commit(&sender, "newer")?;
        let sender = stage.theirs.again().expect("it opens");
        repack(&sender).expect("it repacks");
    }
    let sender = stage.theirs.again().expect("it opens");
    assert!(sender.store().may_have_bases());
    let pipes = || std::io::pipe().expect("a pipe");
    let ((down, to_us), (up, to_them)) = (pipes(), pipes());
    let theirs = Link::over(up, to_us).expect("a thread");
    serving(&stage.theirs, theirs, Access::Read).expect("it serves");
    fetch_over(repo, Link::over(down, to_them).expect("a thread"))
}

fn fetch_over(repo: &Repo, ours: Link) -> Result<(), RepoError> {
    let job = Job::default();
    let mut session = of_net(Client::connect(repo, ours, &job))?;
    let offered = session.offered.clone();
    of_net(session.fetch(&tips(&offered)))?;
    let request = request("fetch");
    let note = || repo.note_remote("origin", &offered, &Default::default(), &request);
    of_net(session.name(note))?;
    session.finish(Vec::new());
    Ok(())
}

fn push(stage: &Stage, repo: &Repo) -> Result<(), RepoError> {
    let (ours, theirs) = Link::pair();
    let sender = Repo::open(stage.theirs.dir.path())?;
    std::thread::scope(|scope| {
        let pushing = scope.spawn(move || {
            let job = Job::default();
            let update = dmv_core::repo::RefUpdate {
                key: "branch/theirs".into(),
                ..update(None, sender.resolve("main")?, false)
            };
            let mut session = of_net(Client::connect(&sender, theirs, &job))?;
            let moved = of_net(session.push(&[update]))?;
            assert!(moved[0].refused.is_none(), "{moved:?}");
            session.finish(Vec::new());
            Ok(())
        });
        let served = serve(repo, ours, Access::Write, &request("push"), &Job::default());
        of_net(served)?;
        pushing.join().expect("it does not panic")
    })
}

/// What a command may say if something is freed beside it.
#[derive(Clone, Copy, PartialEq)]
enum May {
    /// It succeeds.
    Nothing,
    /// It asks to be run again, and then succeeds.
    RunAgain,
    /// It fails, since it asks for what nothing names.
    Fail,
}

const COMMANDS: [(&str, May, Command); 16] = [
    ("commit of dead content", May::Nothing, commit_dead),
    ("commit of moved content", May::Nothing, commit_moved),
    ("commit without content", May::Nothing, commit_in_part),
    ("fetch", May::Nothing, fetch),
    ("fetch of differences", May::Nothing, fetch_differences),
    ("push", May::Nothing, push),
    ("stash", May::RunAgain, stash),
    ("reset", May::RunAgain, reset),
    ("undo", May::RunAgain, undo),
    ("worktree add", May::RunAgain, add_worktree),
    ("merge", May::RunAgain, |stage, repo| {
        let (how, job) = (FastForward::Auto, Job::default());
        repo.merge(stage.other, how, &merging(), &job).map(drop)
    }),
    ("cherry-pick", May::RunAgain, |stage, repo| {
        pick(repo, stage.other)
    }),
    ("cherry-pick of garbage", May::Fail, |stage, repo| {
        pick(repo, stage.dead)
    }),
    ("branch of garbage", May::Fail, |stage, repo| {
        repo.create_ref(RefKind::Branch, "new", stage.dead, request("branch"))
    }),
    ("checkout of garbage", May::Fail, |stage, repo| {
        check_out(repo, CheckoutTarget::Commit(stage.dead))
    }),
    ("merge of garbage", May::Fail, |stage, repo| {
        let (how, job) = (FastForward::Auto, Job::default());
        repo.merge(stage.dead, how, &merging(), &job).map(drop)
    }),
];

/// What happened in a run.
struct Run {
    /// The operations on files.
    operations: usize,
    /// How many objects went, if the command had that many operations.
    freed: Option<usize>,
    done: Result<(), RepoError>,
}

/// Somebody who frees: returns how many objects went, or `None` if it could not begin.
type Freeing = fn(&Path) -> Done<Option<usize>>;

/// Runs gc three times, while the command stands still. It waits for nobody who stands still.
fn gc_three_times(dir: &Path) -> Done<Option<usize>> {
    let mut freed = 0;
    for _ in 0..3 {
        let repo = Repo::open(dir)?;
        // The command is at its commit point.
        let Some(lock) = repo.refs().try_lock_database()? else {
            return Ok(None);
        };
        drop(lock);
        let options = GcOptions {
            thorough: true,
            ..GcOptions::new(Duration::ZERO, request("gc").time)
        };
        match repo.gc(&options, &Job::default()) {
            Ok(report) => freed += report.freed_objects as usize,
            // A peer relies on what is stored.
            Err(RepoError::Busy(BusyError::Freeing(_))) => return Ok(None),
            Err(e) => return Err(e.into()),
        }
    }
    Ok(Some(freed))
}

/// Runs a command, beside which something is freed before one of its operations on files.
fn run(stage: &Stage, command: Command, freeing: Freeing, at: usize) -> Done<Run> {
    let vfs = HookVfs::default();
    let place = discover(stage.ours.dir.path())?;
    let repo = Repo::open_place_on(place, Arc::new(vfs.clone()))?;
    let told = Arc::new(Mutex::new(None));
    let (dir, tell) = (stage.ours.dir.path().to_owned(), told.clone());
    vfs.before(at, move || {
        let freed = freeing(&dir).map_err(|e| e.to_string());
        *tell.lock().expect("nobody panics") = Some(freed);
    });
    let done = command(stage, &repo);
    let operations = vfs.count();
    let freed = told.lock().map_err(|e| e.to_string())?.take();
    Ok(Run {
        operations,
        freed: freed.transpose()?.flatten(),
        done,
    })
}

/// Checks that everything is here that the view names.
fn is_whole(place: &Place) -> Done {
    place.is_sound()?;
    let repo = place.again()?;
    for (key, value) in repo.refs().with_prefix("branch/")? {
        let id = ObjectId::from_bytes(value.try_into().map_err(|_| "an id")?);
        files_of(&repo, &id).map_err(|e| format!("{key}: {e}"))?;
    }
    Ok(())
}

fn try_at(number: usize, freeing: Freeing, at: usize) -> Done<Run> {
    let (name, may, command) = COMMANDS[number];
    let stage = Stage::new()?;
    let run = run(&stage, command, freeing, at)?;
    is_whole(&stage.ours)?;
    match (&run.done, may) {
        (Ok(()), _) | (Err(_), May::Fail) => {}
        (Err(e), May::RunAgain) if e.may_be_gone() => {
            command(&stage, &stage.ours.again()?)?;
            is_whole(&stage.ours)?;
        }
        (Err(e), _) => return Err(format!("{name} fails: {e}").into()),
    }
    if may == May::Nothing && name.starts_with("commit") {
        let (dir, repo) = (stage.ours.dir.path(), stage.ours.again()?);
        assert_eq!(files_of(&repo, &repo.resolve("main")?)?, files_in(dir)?);
    }
    Ok(run)
}

/// Tries one command with every moment, or with as many as there is time for.
fn beside(number: usize, freeing: Freeing) -> Done {
    let (name, ..) = COMMANDS[number];
    let moments = std::env::var("DMV_MOMENTS").ok();
    let moments = moments.map_or(Ok(MOMENTS), |text| text.parse())?;
    let alone = try_at(number, freeing, usize::MAX)?;
    assert!(alone.done.is_ok(), "{name}: {:?}", alone.done);
    let step = alone.operations.div_ceil(moments).max(1);
    let (mut tried, mut refused, mut freed) = (0, 0, 0);
    for at in (0..alone.operations).step_by(step) {
        let run = try_at(number, freeing, at).map_err(|e| format!("{name}, {at}: {e}"))?;
        tried += usize::from(run.freed.is_some());
        freed = freed.max(run.freed.unwrap_or(0));
        refused += usize::from(run.done.is_err());
    }
    let all = alone.operations;
    let told = format!("{name}: {tried} of {all} moments, {refused} times refused");
    writeln!(std::io::stdout(), "{told}")?;
    assert!(tried > 2 && freed > 3, "{told}, {freed} objects freed");
    Ok(())
}

/// Tries all commands at once.
fn beside_all(freeing: Freeing) -> Done {
    let threads: Vec<_> = (0..COMMANDS.len())
        .map(|number| {
            std::thread::spawn(move || beside(number, freeing).map_err(|e| e.to_string()))
        })
        .collect();
    let mut failed = Vec::new();
    for thread in threads {
        failed.extend(thread.join().map_err(|_| "a command panicked")?.err());
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}

#[test]
fn what_a_command_names_is_here_whatever_is_freed_beside_it() -> Done {
    beside_all(free_all)
}

/// As if the command were stopped before each of its operations, and went on after that.
#[test]
fn what_a_command_names_is_here_after_gc_ran_three_times_while_it_stood_still() -> Done {
    beside_all(gc_three_times)
}
