//! Names for commits: no command gives one to a commit whose content is not here.

use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::repo::{
    AbsentError, AddOptions, CheckoutOptions, CheckoutTarget, FastForward, Head, MergeOptions,
    PickFrom, PickOptions, RefKind, Repo, RepoError, ResetFiles, VerifyDepth, Who,
};
use dmv_core::subset::Subset;
use dmv_net::session::{Client, History, Link, NetError};
use dmv_net::wire::Access;
use dmv_tests::garbage::{forget_operations, set_keys};
use dmv_tests::peers::{Cut, Done, Place, connect, fetch, serving, tips};
use dmv_tests::rng::Rng;
use dmv_tests::scratch::{commit, fast_dir, files_of, request};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Fetches `tip` over a connection that ends after some bytes.
fn fetch_in_part(ours: &Repo, theirs: &Place, tip: ObjectId, bytes: u64) -> Done {
    let ((down, to_us), (up, to_them)) = (io::pipe()?, io::pipe()?);
    serving(theirs, Link::over(up, to_us)?, Access::Read)?;
    let down = Cut {
        inner: down,
        left: bytes,
        passed: Arc::new(AtomicU64::new(0)),
    };
    let job = Job::default();
    let done = Client::connect(ours, Link::over(down, to_them)?, &job)
        .and_then(|mut session| session.fetch(&[tip]));
    assert!(matches!(done, Err(NetError::Closed)), "{done:?}");
    Ok(())
}

/// A repository with a commit of its own, and commits of another one that came without all of their
/// content.
struct Unfinished {
    ours: Place,
    theirs: Place,
    /// Their commits, oldest first.
    commits: Vec<ObjectId>,
}

impl Unfinished {
    fn new() -> Done<Unfinished> {
        let theirs = Place::new()?;
        let mut commits = Vec::new();
        for n in 0..3 {
            theirs.write(&format!("theirs/{n}"), &Rng::new(n).bytes(100_000))?;
            commits.push(theirs.commit(&format!("{n}"))?);
        }
        let ours = Place::new()?;
        ours.write("ours", b"ours")?;
        ours.commit("ours")?;
        fetch_in_part(&ours.again()?, &theirs, commits[2], 120_000)?;
        let repo = ours.again()?;
        for id in &commits {
            assert!(repo.store().has(id)?, "the commits come first");
        }
        assert!(files_of(&repo, &commits[2]).is_err());
        Ok(Unfinished {
            ours,
            theirs,
            commits,
        })
    }
}

/// What a test does to name a commit.
type Naming = fn(&Repo, ObjectId) -> Result<(), RepoError>;

fn merging() -> MergeOptions {
    MergeOptions::new("made", Who::new("Test", ""), request("merge"))
}

fn check_out(repo: &Repo, target: CheckoutTarget) -> Result<(), RepoError> {
    let options = CheckoutOptions::new(request("checkout"));
    repo.checkout(target, &options, &Job::default()).map(drop)
}

fn reset(repo: &Repo, id: ObjectId, files: ResetFiles) -> Result<(), RepoError> {
    let (request, job) = (request("reset"), Job::default());
    repo.reset(id, files, &request, &Default::default(), &job)
        .map(drop)
}

fn merge(repo: &Repo, id: ObjectId, how: FastForward) -> Result<(), RepoError> {
    repo.merge(id, how, &merging(), &Job::default()).map(drop)
}

fn pick(repo: &Repo, from: PickFrom) -> Result<(), RepoError> {
    let picks = PickOptions::default();
    repo.cherry_pick(&[from], picks, &merging(), &Job::default())
        .map(drop)
}

const NAMINGS: [(&str, Naming); 16] = [
    ("branch", |repo, id| {
        repo.create_ref(RefKind::Branch, "new", id, request("branch"))
    }),
    ("tag", |repo, id| {
        repo.create_ref(RefKind::Tag, "new", id, request("tag"))
    }),
    ("checkout", |repo, id| {
        check_out(repo, CheckoutTarget::Commit(id))
    }),
    ("checkout -b", |repo, id| {
        check_out(repo, CheckoutTarget::NewBranch("new".into(), id))
    }),
    ("reset", |repo, id| reset(repo, id, ResetFiles::Keep)),
    ("reset --hard", |repo, id| {
        reset(repo, id, ResetFiles::Match)
    }),
    ("reset of a branch", |repo, id| {
        repo.reset_branch(id, &merging(), &Job::default()).map(drop)
    }),
    ("merge", |repo, id| merge(repo, id, FastForward::Never)),
    ("merge --ff", |repo, id| merge(repo, id, FastForward::Auto)),
    ("revert", |repo, id| {
        repo.revert(id, None, &merging(), &Job::default()).map(drop)
    }),
    ("cherry-pick", |repo, id| pick(repo, PickFrom::One(id))),
    ("cherry-pick of a range", |repo, id| {
        let first = repo.read_commit(&id)?.parents[0];
        pick(repo, PickFrom::Range(first, id))
    }),
    ("rebase", |repo, id| {
        repo.rebase(id, id, &merging(), &Job::default()).map(drop)
    }),
    ("bisect", |repo, id| {
        let options = CheckoutOptions::new(request("bisect"));
        repo.bisect_start(Some(id), &[], &options, &Job::default())
            .map(drop)
    }),
    ("bisect good", |repo, id| {
        let options = CheckoutOptions::new(request("bisect"));
        repo.bisect_start(None, &[id], &options, &Job::default())
            .map(drop)
    }),
    ("worktree add", |repo, id| {
        let dir = fast_dir().expect("it can be made");
        let options = AddOptions {
            dir: dir.path().join("two"),
            head: Head::Commit(id),
            commit: id,
            subset: Default::default(),
            settings: Default::default(),
            request: request("worktree add"),
        };
        repo.add_worktree(&options, &Job::default()).map(drop)
    }),
];

#[test]
fn no_command_names_a_commit_that_came_without_its_content_and_a_fetch_completes_it() -> Done {
    let found = Unfinished::new()?;
    let before = found.ours.again()?.refs().last_operation()?;
    for id in &found.commits[1..] {
        for (name, naming) in NAMINGS {
            let repo = found.ours.again()?;
            let refused = naming(&repo, *id);
            let is_refused = matches!(&refused, Err(RepoError::Absent(AbsentError::Incomplete { id: told, missing }))
                if told == id && *missing > 0);
            assert!(is_refused, "{name}: {refused:?}");
            assert_eq!(repo.refs().last_operation()?, before, "{name}");
        }
    }
    let told = NAMINGS[0].1(&found.ours.again()?, found.commits[2]);
    let told = told.expect_err("it is refused").to_string();
    let short = found.commits[2].short(12).to_string();
    assert!(
        told.starts_with(&format!("commit {short} is not complete here: at least ")),
        "{told}"
    );
    found.ours.is_sound()?;
    fetch(&found.ours, &found.theirs)?;
    let (ours, theirs) = (found.ours.again()?, &found.theirs.repo);
    for id in &found.commits {
        assert_eq!(files_of(&ours, id)?, files_of(theirs, id)?);
    }
    for id in &found.commits {
        let name = id.short(12).to_string();
        ours.create_ref(RefKind::Branch, &name, *id, request("branch"))?;
    }
    found.ours.is_sound()
}

/// As if an earlier version had named such a commit.
#[test]
fn a_fetch_of_all_history_completes_a_commit_that_was_named_too_early() -> Done {
    let found = Unfinished::new()?;
    let (ours, tip) = (found.ours.again()?, found.commits[2]);
    set_keys(&ours, &[("branch/early", Some(tip.as_bytes().to_vec()))])?;
    let report = ours.verify(VerifyDepth::Quick, &Job::default())?;
    assert!(!report.missing.is_empty(), "verify tells");
    let job = Job::default();
    let mut session = connect(&ours, &found.theirs, &job)?;
    session.fetch_history(&tips(&session.offered), History::All)?;
    session.finish(Vec::new());
    let ours = found.ours.again()?;
    assert_eq!(files_of(&ours, &tip)?, files_of(&found.theirs.repo, &tip)?);
    found.ours.is_sound()
}

#[test]
fn a_complete_commit_may_be_named_though_nothing_names_it() -> Done {
    for (name, naming) in NAMINGS {
        // A merge commit cannot be reverted without a mainline, so the commits are a line.
        let place = Place::new()?;
        let mut commits = Vec::new();
        for n in 0..4 {
            place.write(&format!("{n}"), &Rng::new(n).bytes(50_000))?;
            commits.push(
                commit(&place.again()?, "a commit")?
                    .commit
                    .ok_or("it commits")?,
            );
        }
        let main = Some(commits[0].as_bytes().to_vec());
        let repo = place.again()?;
        reset(&repo, commits[0], ResetFiles::Match)?;
        set_keys(
            &repo,
            &[("branch/main", main.clone()), ("worktree/main/steps", None)],
        )?;
        forget_operations(&repo)?;
        drop(repo);
        let repo = place.again()?;
        naming(&repo, commits[2]).map_err(|e| format!("{name}: {e}"))?;
        place.is_sound()?;
    }
    Ok(())
}

/// What a slice leaves out is not missing.
#[test]
fn a_commit_may_be_named_though_content_is_absent_by_choice() -> Done {
    let theirs = Place::new()?;
    let mut commits = Vec::new();
    for n in 0..3 {
        for dir in ["in", "out"] {
            theirs.write(&format!("{dir}/{n}"), &Rng::new(n).bytes(50_000))?;
        }
        commits.push(theirs.commit(&format!("{n}"))?);
    }
    let ours = Place::new()?;
    ours.repo.change_slice(|slice| {
        slice.subset = Subset::new([&b"in"[..]]).expect("it is a pattern");
    })?;
    fetch(&ours, &theirs)?;
    let repo = ours.again()?;
    // Now nothing names them.
    set_keys(&repo, &[("remote/origin/main", None)])?;
    forget_operations(&repo)?;
    for (n, id) in commits.iter().enumerate() {
        repo.create_ref(RefKind::Branch, &format!("b{n}"), *id, request("branch"))?;
    }
    ours.is_sound()
}
