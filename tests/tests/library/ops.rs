//! Complete commands between repositories, called as a library: no program, no settings file.

use dmv_core::job::Job;
use dmv_core::object::root::Lack;
use dmv_core::repo::{
    AbsentError, FilesError, LackOf, LookError, MergeOptions, PlaceError, Repo, RepoError,
    Selection, Who,
};
use dmv_core::subset::Subset;
use dmv_net::ops::{
    Caller, CloneDir, CloneError, CloneOptions, CloneReport, FetchOptions, KnownSource, Network,
    OpsError, PullOptions, PullOutcome, PushOptions, RefTip, Remote, Remotes, Step, SyncOptions,
    clone, fetch, pull, push, supplied, sync,
};
use dmv_net::session::{History, NetError};
use dmv_net::transport::{Purpose, Reach, Url};
use dmv_tests::peers::{Done, Place};
use dmv_tests::rng::Rng;
use dmv_tests::scratch::{commit, fast_dir, files_in, files_of, request};
use std::cell::RefCell;
use std::path::{Path, PathBuf};

fn url(dir: &Path) -> Url {
    Url::Path(dir.to_owned())
}

fn origin(place: &Place) -> Remote {
    Remote::new("origin", url(place.dir.path()))
}

fn network() -> Network {
    Network::new(request("library"))
}

fn merging() -> MergeOptions {
    MergeOptions::new("merged", Who::new("Test", ""), request("pull"))
}

fn options(place: &Place, dir: &Path) -> CloneOptions {
    CloneOptions::new(url(place.dir.path()), dir, request("clone"))
}

fn cloned(place: &Place, dir: &Path) -> Done<CloneReport> {
    Ok(clone(&options(place, dir), &network(), &Job::default())?)
}

#[test]
fn a_clone_of_a_path_is_complete_and_pulls_and_syncs() -> Done {
    let (theirs, temp) = (Place::with_files(1, 20, 900)?, fast_dir()?);
    let dir = temp.path().join("clone");
    let mut copying = options(&theirs, &dir);
    copying.copy = true;
    let made = clone(&copying, &network(), &Job::default())?;
    let first = theirs.tip()?;
    assert_eq!(made.repo.head_commit()?, Some(first));
    assert!(made.shared.is_none());
    assert!(made.summary.traffic.objects_received > 20);
    assert_eq!(made.written.map(|written| written.files), Some(20));
    assert_eq!(files_in(&dir)?, files_in(theirs.dir.path())?);
    assert!(made.repo.half_clone()?.is_none(), "the clone is finished");

    // Without `copy` the same clone uses their packs, and receives only the tip.
    let sharing = cloned(&theirs, &temp.path().join("sharing"))?;
    assert_eq!(sharing.repo.head_commit()?, Some(first));
    assert!(sharing.shared.is_some_and(|shared| shared.packs > 0));
    assert_eq!(sharing.summary.traffic.objects_received, 1);
    assert_eq!(sharing.written.map(|written| written.files), Some(20));

    // Their new commit: a fast-forward.
    theirs.write("d0/new", b"new")?;
    let second = theirs.commit("second")?;
    let pulling = PullOptions::new(origin(&theirs), "main", merging());
    let report = pull(&made.repo, &pulling, &network(), &Job::default())?;
    match report.outcome? {
        PullOutcome::Merged(merge) => assert!(merge.fast_forward && merge.commit == second),
        other => panic!("{other:?}"),
    }
    assert_eq!(files_in(&dir)?, files_in(theirs.dir.path())?);

    // A commit on each side: neither sync nor push loses one, and a pull merges them.
    theirs.write("theirs", b"1")?;
    theirs.commit("theirs")?;
    std::fs::write(dir.join("ours"), b"2")?;
    let ours = commit(&made.repo, "ours")?.commit.ok_or("no commit")?;
    let syncing = SyncOptions::new(origin(&theirs), request("sync"));
    let report = sync(&made.repo, &syncing, &network(), &Job::default())?;
    assert_eq!(report.diverged, ["main"]);
    assert!(report.pushed.is_empty() && report.is_left());
    let tip = RefTip::branch("main", ours);
    let pushing = PushOptions::new(origin(&theirs), vec![tip], request("push"));
    let report = push(&made.repo, &pushing, &network(), &Job::default())?;
    assert!(report.moved[0].refused.is_some());
    let report = pull(&made.repo, &pulling, &network(), &Job::default())?;
    let PullOutcome::Merged(merge) = report.outcome? else {
        panic!("it was to be merged");
    };
    assert!(!merge.fast_forward && merge.conflicts.is_empty());

    // Now this side is ahead, and a sync sends it.
    let report = sync(&made.repo, &syncing, &network(), &Job::default())?;
    assert!(report.diverged.is_empty() && !report.is_left());
    let moved: Vec<&str> = report.pushed.iter().map(|moved| &moved.key[..]).collect();
    assert_eq!(moved, ["branch/main"]);
    assert_eq!(theirs.tip()?, merge.commit);
    theirs.is_sound()
}

#[test]
fn what_a_pull_has_fetched_counts_though_the_merge_fails() -> Done {
    let (theirs, temp) = (Place::with_files(2, 5, 300)?, fast_dir()?);
    let dir = temp.path().join("clone");
    let made = cloned(&theirs, &dir)?;
    theirs.write("d0/f0", b"theirs")?;
    let theirs_now = theirs.commit("theirs")?;
    std::fs::write(dir.join("d0/f0"), b"an edit that no commit has")?;
    let pulling = PullOptions::new(origin(&theirs), "main", merging());
    let report = pull(&made.repo, &pulling, &network(), &Job::default())?;
    let lost = matches!(
        report.outcome,
        Err(OpsError::Repo(RepoError::Files(
            FilesError::WouldLose { .. }
        )))
    );
    assert!(lost, "{:?}", report.outcome);
    assert_eq!(made.repo.resolve("origin/main")?, theirs_now);
    let edit = std::fs::read(dir.join("d0/f0"))?;
    assert_eq!(edit, b"an edit that no commit has");
    Ok(())
}

#[test]
fn a_push_creates_one_directory_where_it_may_and_touches_nothing_else() -> Done {
    let (ours, temp) = (Place::with_files(5, 5, 300)?, fast_dir()?);
    let tip = ours.tip()?;
    let push_to = |dir: &Path, only_new: bool| {
        let tips = vec![RefTip::branch("main", tip)];
        let mut pushing = PushOptions::new(Remote::new("new", url(dir)), tips, request("push"));
        (pushing.create, pushing.only_new) = (Some("main".to_owned()), only_new);
        push(&ours.repo, &pushing, &network(), &Job::default())
    };
    let dir = temp.path().join("new.dmv");
    let report = push_to(&dir, true)?;
    assert!(report.created && report.moved.iter().all(|moved| moved.refused.is_none()));
    assert_eq!(Repo::open(&dir)?.offered()?.head.as_deref(), Some("main"));
    assert_eq!(Repo::open(&dir)?.resolve("main")?, tip);
    // Its answer was perhaps lost, so the same push is done.
    assert!(!push_to(&dir, true)?.created);
    let other = temp.path().join("other.dmv");
    let side = RefTip::branch("side", tip);
    let mut pushing =
        PushOptions::new(Remote::new("new", url(&other)), vec![side], request("push"));
    pushing.create = Some("side".to_owned());
    push(&ours.repo, &pushing, &network(), &Job::default())?;
    assert!(matches!(
        push_to(&other, true),
        Err(OpsError::NotNew { .. })
    ));
    assert!(
        Repo::open(&other)?.resolve("main").is_err(),
        "nothing was pushed"
    );
    let full = temp.path().join("full");
    std::fs::create_dir(&full)?;
    std::fs::write(full.join("notes"), "mine")?;
    for (dir, is_right) in [
        (
            full.clone(),
            (|e| matches!(e, PlaceError::Taken(_))) as fn(&PlaceError) -> bool,
        ),
        (full.join("notes"), |e| matches!(e, PlaceError::Taken(_))),
        (temp.path().join("a/b"), |e| {
            matches!(e, PlaceError::NoParent(_))
        }),
    ] {
        let Err(OpsError::Session(e)) = push_to(&dir, false) else {
            panic!("{} is no place for a repository", dir.display());
        };
        let is_right = matches!(&e.source, NetError::Repo(RepoError::Place(e)) if is_right(e));
        assert!(is_right, "{}: {e}", dir.display());
    }
    assert_eq!(std::fs::read_dir(&full)?.count(), 1);
    assert!(!temp.path().join("a").exists());
    Ok(())
}

#[test]
fn a_branch_that_was_deleted_there_is_forgotten_on_request() -> Done {
    let (theirs, temp) = (Place::with_files(3, 3, 300)?, fast_dir()?);
    let tip = theirs.tip()?;
    let ours = cloned(&theirs, &temp.path().join("clone"))?.repo;
    let side = RefTip::branch("side", tip);
    let mut pushing = PushOptions::new(origin(&theirs), vec![side], request("push"));
    let report = push(&ours, &pushing, &network(), &Job::default())?;
    assert!(report.may_push && report.moved.iter().all(|moved| moved.refused.is_none()));
    assert_eq!(theirs.again()?.resolve("side")?, tip);

    pushing.refs.clear();
    pushing.delete = vec!["side".to_owned(), "none".to_owned()];
    let failed = push(&ours, &pushing, &network(), &Job::default());
    assert!(
        matches!(&failed, Err(OpsError::NoSuchRef { name, .. }) if name == "none"),
        "{failed:?}"
    );
    assert_eq!(theirs.again()?.resolve("side")?, tip, "nothing was deleted");
    // Another clone deletes it; ours hears of it.
    let other = cloned(&theirs, &temp.path().join("other"))?.repo;
    pushing.delete.pop();
    let report = push(&other, &pushing, &network(), &Job::default())?;
    assert_eq!(report.deleted(), ["side"]);
    let mut fetching = FetchOptions::new(origin(&theirs), request("fetch"));
    let report = fetch(&ours, &fetching, &network(), &Job::default())?;
    assert_eq!(report.gone, ["side"]);
    assert_eq!(ours.resolve("origin/side")?, tip);
    fetching.prune = true;
    fetch(&ours, &fetching, &network(), &Job::default())?;
    assert!(ours.resolve("origin/side").is_err());
    Ok(())
}

/// A caller that records the steps.
struct Watching {
    network: Network,
    steps: RefCell<Vec<&'static str>>,
}

impl Caller for Watching {
    fn reach(&self, url: &Url, purpose: Purpose) -> Result<Reach, NetError> {
        self.network.reach(url, purpose)
    }

    fn remotes(&self) -> Result<Remotes, NetError> {
        self.network.remotes()
    }

    fn began(&self, step: Step<'_>) {
        self.steps.borrow_mut().push(match step {
            Step::Transfer => "transfer",
            Step::Dial(_) => "dial",
            Step::Dialled => "dialled",
            Step::Wait(..) => "wait",
            Step::Supply => "supply",
            Step::Work => "work",
        });
    }
}

/// The content of the whole newest commit that a repository lacks.
fn lacking(repo: &Repo) -> Result<Vec<Lack>, RepoError> {
    let id = repo.head_commit()?.ok_or(LookError::NoCommit)?;
    let commit = repo.read_commit(&id)?;
    let root = dmv_core::object::name::RepoPath::root();
    let located = repo.locate("@", &commit, &root)?;
    let wanted = Selection {
        path: &root,
        located: &located,
        subset: &Subset::everything(),
    };
    repo.lacking(wanted, LackOf::Content)
}

#[test]
fn a_clone_of_a_subset_fetches_more_when_work_lacks_it() -> Done {
    let (theirs, temp) = (Place::with_files(4, 25, 2000)?, fast_dir()?);
    let dir = temp.path().join("part");
    let mut part = options(&theirs, &dir);
    part.subset = Subset::new([&b"d1"[..]])?;
    part.history = History::Depth(1);
    let repo = clone(&part, &network(), &Job::default())?.repo;
    assert_eq!(repo.subset()?, part.subset);
    let names: Vec<Vec<u8>> = files_in(&dir)?.into_keys().collect();
    assert!(!names.is_empty() && names.iter().all(|name| name.starts_with(b"d1")));

    let work = || match lacking(&repo)? {
        lacks if lacks.is_empty() => Ok(files_of(&repo, &repo.resolve("main")?)?.len()),
        lacks => Err(AbsentError::Lacking(lacks).into()),
    };
    let job = Job::default();
    // Nobody to ask, offline, and only somebody who is not there.
    let failed = supplied(&repo, &network(), &job, work);
    assert!(matches!(failed, Err(OpsError::Absent(absent)) if absent.peers.is_empty()));
    let mut offline = network().with(origin(&theirs));
    offline.remotes.offline = true;
    let failed = supplied(&repo, &offline, &job, work);
    assert!(matches!(failed, Err(OpsError::Absent(absent)) if absent.offline));
    let nowhere = Remote::new("gone", url(&temp.path().join("nowhere")));
    let failed = supplied(&repo, &network().with(nowhere.clone()), &job, work);
    let Err(OpsError::Absent(absent)) = failed else {
        panic!("nobody has it");
    };
    assert!(!absent.peers[0].is_known && !absent.lacks.is_empty());
    assert!(
        absent.to_string().contains("gone did not answer"),
        "{absent}"
    );

    let watching = Watching {
        network: network().with(nowhere).with(origin(&theirs)),
        steps: RefCell::default(),
    };
    let done = supplied(&repo, &watching, &job, work)?;
    assert_eq!(done.done?, 25);
    let skipped: Vec<&str> = done.skipped.iter().map(|peer| &peer.name[..]).collect();
    assert_eq!(skipped, ["gone"]);
    let steps = watching.steps.into_inner();
    let dials = steps.iter().filter(|step| **step == "dial").count();
    assert_eq!(
        (steps[0], steps[1], steps.last()),
        ("work", "supply", Some(&"work"))
    );
    assert_eq!(dials, 2, "each remote was called once: {steps:?}");
    assert!(lacking(&repo)?.is_empty());
    Ok(())
}

#[test]
fn a_clone_goes_on_where_it_was_cut_off_and_only_there() -> Done {
    let (theirs, other) = (Place::with_files(5, 8, 700)?, Place::with_files(6, 3, 700)?);
    let temp = fast_dir()?;
    for bare in [false, true] {
        let dir = temp.path().join(format!("bare-{bare}"));
        let mut options = options(&theirs, &dir);
        options.bare = bare;
        // As after a kill: it is recorded what was asked for, and nothing has come.
        drop(CloneDir::look(&options)?.begin(&options, KnownSource::Nothing)?);
        let half = Repo::open(&dir)?
            .half_clone()?
            .ok_or("no half-made clone")?;
        assert_eq!(half.source, options.source.to_string());
        let mut elsewhere = options.clone();
        elsewhere.source = url(other.dir.path());
        let refused = clone(&elsewhere, &network(), &Job::default());
        assert!(matches!(refused, Err(CloneError::IsRepository(_))));
        let made = clone(&options, &network(), &Job::default())?;
        assert_eq!(made.repo.resolve("main")?, theirs.tip()?);
        assert_eq!(made.repo.worktree_root().is_some(), !bare);
        let again = clone(&options, &network(), &Job::default());
        assert!(
            matches!(again, Err(CloneError::IsRepository(_))),
            "it is finished"
        );
    }
    Ok(())
}

#[test]
fn a_clone_that_comes_to_nothing_leaves_nothing() -> Done {
    let (theirs, temp) = (Place::with_files(7, 4, 400)?, fast_dir()?);
    let there = |dir: &PathBuf| dir.exists();
    let dir = temp.path().join("a");
    let mut options = options(&theirs, &dir);
    options.subset = Subset::new([&b"no/such/path"[..]])?;
    let failed = clone(&options, &network(), &Job::default());
    let Err(CloneError::Session(e)) = failed else {
        panic!("a subset that names nothing was taken");
    };
    let names_nothing = matches!(
        e.source,
        NetError::Repo(RepoError::Look(LookError::NothingMatches { .. }))
    );
    assert!(names_nothing && e.answered, "{e:?}");
    assert!(!there(&dir));

    options.subset = Subset::everything();
    let job = Job::default();
    job.cancel();
    assert!(clone(&options, &network(), &job).is_err());
    assert!(!there(&dir), "it was cancelled before anything came");

    options.source = url(&temp.path().join("nowhere"));
    let failed = clone(&options, &network(), &Job::default());
    assert!(matches!(failed, Err(CloneError::Source(_))));
    assert!(!there(&dir));

    // Somebody's files are never taken for the remains of a clone.
    std::fs::create_dir(&dir)?;
    std::fs::write(dir.join("notes"), "mine")?;
    options.source = url(theirs.dir.path());
    let failed = clone(&options, &network(), &Job::default());
    assert!(matches!(failed, Err(CloneError::NotEmpty(_))));
    options.dir = theirs.dir.path().join(".dmv/packs/x");
    let failed = clone(&options, &network(), &Job::default());
    assert!(matches!(
        failed,
        Err(CloneError::Repo(RepoError::Place(
            PlaceError::InsideRepository { .. }
        )))
    ));
    assert_eq!(std::fs::read(dir.join("notes"))?, b"mine");
    Ok(())
}

#[test]
fn a_rewritten_branch_is_not_merged_and_a_reset_follows_it() -> Done {
    let (theirs, temp) = (Place::with_files(8, 4, 400)?, fast_dir()?);
    let base = theirs.tip()?;
    theirs.write("x", &Rng::new(9).bytes(50))?;
    let dropped = theirs.commit("dropped")?;
    let ours = cloned(&theirs, &temp.path().join("clone"))?.repo;
    let other = cloned(&theirs, &temp.path().join("other"))?.repo;
    let mut rewriting = PushOptions::new(
        origin(&theirs),
        vec![RefTip::branch("main", base)],
        request("push"),
    );
    rewriting.force = true;
    push(&other, &rewriting, &network(), &Job::default())?;
    assert_eq!(theirs.tip()?, base);

    let mut pulling = PullOptions::new(origin(&theirs), "main", merging());
    let report = pull(&ours, &pulling, &network(), &Job::default())?;
    assert_eq!(report.rewritten, Some(dropped));
    assert!(matches!(report.outcome, Ok(PullOutcome::Refused)));
    assert_eq!(ours.head_commit()?, Some(dropped));
    pulling.integrate = dmv_net::ops::Integrate::Reset;
    let report = pull(&ours, &pulling, &network(), &Job::default())?;
    match report.outcome? {
        PullOutcome::Reset(reset) => assert_eq!(reset.left, [dropped]),
        other => panic!("{other:?}"),
    }
    assert_eq!(ours.head_commit()?, Some(base));
    pulling.branch = "none".to_owned();
    let report = pull(&ours, &pulling, &network(), &Job::default())?;
    assert!(matches!(report.outcome, Ok(PullOutcome::NoBranch)));
    Ok(())
}
