//! The database and the operation log side by side: recovery while repositories are open, either of
//! the two lost or restored from an earlier time, and what `verify` reports.

use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::refs::testing;
use dmv_core::refs::{Change, DatabaseLock, Effect, RefsError};
use dmv_core::repo::{
    BusyError, Head, RecoverReport, RefKind, Repo, RepoError, StatusOptions, UndoOptions, UndoWhat,
    VerifyDepth, discover, recover,
};
use dmv_core::worktree::select::Paths;
use dmv_tests::crashlab::Outcome;
use dmv_tests::rng::Rng;
use dmv_tests::scratch::{Item, commit, fast_dir, files_of, request};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// A repository of a few commits, on a disk.
struct Subject {
    _dir: TempDir,
    root: PathBuf,
}

impl Subject {
    fn new() -> Outcome<Subject> {
        let dir = fast_dir()?;
        let root = dir.path().join("w");
        std::fs::create_dir(&root)?;
        Repo::init(&root, "main", false, request("init"))?;
        Ok(Subject { _dir: dir, root })
    }

    fn open(&self) -> Outcome<Repo> {
        Ok(Repo::open(&self.root)?)
    }

    fn dmv(&self) -> PathBuf {
        self.root.join(".dmv")
    }

    /// Returns the path of the operation log. It takes the id from the `format` file: if it opened
    /// the repository, the database would catch up with the log.
    fn log(&self) -> Outcome<PathBuf> {
        let format = std::fs::read_to_string(self.dmv().join("format"))?;
        let id = format.lines().find_map(|line| line.strip_prefix("id "));
        let id = id.ok_or("no id")?;
        Ok(self.dmv().join("packs").join(format!("{id}.pack")))
    }

    /// Changes a file and commits it.
    fn commit(&self, repo: &Repo, n: u64) -> Result<ObjectId, RepoError> {
        let write = std::fs::write(self.root.join("file"), format!("content {n}"));
        write.map_err(|e| RepoError::Text(e.to_string()))?;
        let done = commit(repo, &format!("commit {n}"))?;
        Ok(done.commit.unwrap_or_else(|| panic!("nothing to commit")))
    }

    fn recover(&self) -> Outcome<RecoverReport> {
        Ok(recover(&discover(&self.root)?, &Job::default())?)
    }

    fn check(&self, depth: VerifyDepth) -> Outcome<Vec<String>> {
        let report = self.open()?.verify(depth, &Job::default())?;
        let missing = report.missing.iter().map(|m| format!("missing {}", m.id));
        Ok(report.files.into_iter().chain(missing).collect())
    }

    /// Returns the content of the database's files.
    fn save(&self) -> Outcome<BTreeMap<PathBuf, Option<Vec<u8>>>> {
        let mut saved = BTreeMap::new();
        for name in ["refs.db", "refs.db-wal", "refs.db-shm"] {
            let path = self.dmv().join(name);
            saved.insert(path.clone(), std::fs::read(&path).ok());
        }
        Ok(saved)
    }

    fn history(&self) -> Outcome<Vec<ObjectId>> {
        let repo = self.open()?;
        let mut next = repo.head_commit()?;
        let mut found = Vec::new();
        while let Some(id) = next {
            found.push(id);
            next = repo.read_commit(&id)?.parents.first().copied();
        }
        found.reverse();
        Ok(found)
    }
}

fn put_back(saved: &BTreeMap<PathBuf, Option<Vec<u8>>>) -> Outcome {
    for (path, content) in saved {
        match content {
            Some(content) => std::fs::write(path, content)?,
            None => drop(std::fs::remove_file(path)),
        }
    }
    Ok(())
}

#[test]
fn a_commit_that_began_before_a_recovery_counts_after_it() -> Outcome {
    let subject = Subject::new()?;
    let repo = subject.open()?;
    let first = subject.commit(&repo, 1)?;
    // This repository has the database open, like a command that was stopped.
    let stopped = subject.open()?;
    subject.recover()?;
    let second = subject.commit(&stopped, 2)?;
    assert_eq!(subject.history()?, [first, second]);
    subject.recover()?;
    assert_eq!(subject.history()?, [first, second]);
    assert_eq!(subject.check(VerifyDepth::Full)?, [""; 0]);
    Ok(())
}

#[test]
fn who_has_a_database_open_that_was_replaced_publishes_nothing_into_it() -> Outcome {
    for damaged in [false, true] {
        let subject = Subject::new()?;
        let first = subject.commit(&subject.open()?, 1)?;
        let stopped = subject.open()?;
        let db = subject.dmv().join("refs.db");
        if damaged {
            std::fs::write(&db, "nonsense")?;
        } else {
            std::fs::remove_file(&db)?;
        }
        if !damaged {
            let refused = subject.commit(&stopped, 2);
            assert!(matches!(
                refused,
                Err(RepoError::Refs(RefsError::Replaced(_)))
            ));
        }
        subject.recover()?;
        assert!(subject.commit(&stopped, 2).is_err());
        let second = subject.commit(&subject.open()?, 2)?;
        drop(stopped);
        assert_eq!(subject.history()?, [first, second]);
        assert_eq!(subject.check(VerifyDepth::Full)?, [""; 0]);
    }
    Ok(())
}

#[test]
fn who_has_a_log_open_that_was_replaced_publishes_nothing_into_it() -> Outcome {
    let subject = Subject::new()?;
    let repo = subject.open()?;
    subject.commit(&repo, 1)?;
    // Another log of the same length replaces it, as after a recovery.
    let (log, copy) = (subject.log()?, subject.root.join("copy"));
    std::fs::copy(&log, &copy)?;
    std::fs::rename(&copy, &log)?;
    let before = std::fs::read(&log)?;
    let Err(RepoError::Refs(RefsError::Replaced(path))) = subject.commit(&repo, 2) else {
        return Err("it was published into a log that is gone".into());
    };
    assert_eq!(path, log);
    assert_eq!(std::fs::read(&log)?, before);
    // The same command again opens the new log.
    let second = subject.commit(&repo, 3)?;
    assert!(std::fs::read(&log)?.len() > before.len());
    assert!(subject.history()?.contains(&second));
    assert_eq!(subject.check(VerifyDepth::Full)?, Vec::<String>::new());
    Ok(())
}

#[test]
fn commits_beside_recoveries_are_all_there_and_verify_finds_nothing() -> Outcome {
    const COMMITS: u64 = 40;
    let subject = Subject::new()?;
    let ends = AtomicBool::new(false);
    let until = |work: &dyn Fn() -> Result<(), String>| {
        let mut rounds = 0;
        while !ends.load(Ordering::Relaxed) {
            work()?;
            rounds += 1;
        }
        Ok::<u64, String>(rounds)
    };
    let (made, recovered, alarms) = std::thread::scope(|scope| {
        let recoveries = scope.spawn(|| until(&|| recover_at(&subject.root).map(drop)));
        let checks = scope.spawn(|| until(&|| verify_at(&subject.root)));
        let make = |n| -> Outcome<ObjectId> { Ok(subject.commit(&subject.open()?, n)?) };
        let made: Outcome<Vec<ObjectId>> = (0..COMMITS).map(make).collect();
        // Otherwise the other threads would go on for ever after a failure.
        ends.store(true, Ordering::Relaxed);
        (made, recoveries.join(), checks.join())
    });
    let made = made?;
    let rounds = recovered.map_err(|_| "a thread panicked")??;
    let checked = alarms.map_err(|_| "a thread panicked")??;
    assert!(rounds > 0 && checked > 0);
    assert_eq!(subject.history()?, made);
    assert_eq!(subject.check(VerifyDepth::Full)?, [""; 0]);
    Ok(())
}

fn verify_at(root: &Path) -> Result<(), String> {
    let repo = Repo::open(root).map_err(|e| e.to_string())?;
    let report = repo.verify(VerifyDepth::Full, &Job::default());
    let report = report.map_err(|e| e.to_string())?;
    report.is_ok().then_some(()).ok_or(format!("{report:?}"))
}

fn recover_at(root: &Path) -> Result<RecoverReport, String> {
    let place = discover(root).map_err(|e| e.to_string())?;
    recover(&place, &Job::default()).map_err(|e| e.to_string())
}

#[test]
fn an_older_database_goes_on_from_where_the_log_is() -> Outcome {
    let subject = Subject::new()?;
    let mut made = vec![subject.commit(&subject.open()?, 0)?];
    let older = subject.save()?;
    for n in 1..4 {
        made.push(subject.commit(&subject.open()?, n)?);
    }
    put_back(&older)?;
    // No process has the repository open while its database is restored: that is not allowed.
    let repo = subject.open()?;
    assert_eq!(repo.caught_up(), 3);
    made.push(subject.commit(&repo, 4)?);
    assert_eq!(subject.history()?, made);
    assert_eq!(subject.check(VerifyDepth::Full)?, [""; 0]);
    subject.recover()?;
    assert_eq!(subject.history()?, made);
    Ok(())
}

#[test]
fn of_a_forked_log_recovery_keeps_both_histories_within_reach() -> Outcome {
    let subject = Subject::new()?;
    let log = subject.log()?;
    let first = subject.commit(&subject.open()?, 0)?;
    let (older, short) = (subject.save()?, std::fs::read(&log)?);
    let lost = [1, 2, 3].map(|n| subject.open().and_then(|r| Ok(subject.commit(&r, n)?)));
    let lost = lost.into_iter().collect::<Result<Vec<_>, _>>()?;
    let long = std::fs::read(&log)?;
    put_back(&older)?;
    std::fs::write(&log, &short)?;
    let other = subject.commit(&subject.open()?, 9)?;
    // An earlier version of DMV left the log like this: it continued at the end of the log.
    let added = std::fs::read(&log)?[short.len()..].to_vec();
    std::fs::write(&log, [long, added].concat())?;
    let repo = subject.open()?;
    assert_eq!(repo.head_commit()?, Some(other));
    let refused = subject.commit(&repo, 10);
    assert!(matches!(
        refused,
        Err(RepoError::Refs(RefsError::OtherLog(_)))
    ));
    assert!(!subject.check(VerifyDepth::Quick)?.is_empty());
    let report = subject.recover()?;
    assert_eq!(subject.history()?, [first, other]);
    let [name] = &report.kept[..] else {
        return Err(format!("{:?}", report.kept).into());
    };
    let repo = subject.open()?;
    let key = format!("branch/{name}");
    assert_eq!(repo.refs().get(&key)?, Some(lost[2].as_bytes().to_vec()));
    for id in lost {
        repo.read_commit(&id)?;
    }
    assert_eq!(subject.recover()?.kept, [""; 0]);
    subject.commit(&repo, 11)?;
    assert_eq!(subject.check(VerifyDepth::Full)?, [""; 0]);
    Ok(())
}

#[test]
fn a_log_that_is_lost_or_older_is_reported_and_written_anew() -> Outcome {
    for lost in [true, false] {
        let subject = Subject::new()?;
        let log = subject.log()?;
        let first = subject.commit(&subject.open()?, 0)?;
        let short = std::fs::read(&log)?;
        let second = subject.commit(&subject.open()?, 1)?;
        if lost {
            std::fs::remove_file(&log)?;
        } else {
            std::fs::write(&log, short)?;
        }
        for depth in [VerifyDepth::Quick, VerifyDepth::Normal, VerifyDepth::Full] {
            let found = subject.check(depth)?;
            assert!(found.iter().any(|line| line.contains("operation log")));
        }
        let refused = subject.commit(&subject.open()?, 2);
        assert!(matches!(
            refused,
            Err(RepoError::Refs(RefsError::LogBehind(_)))
        ));
        assert_eq!(subject.history()?, [first, second]);
        assert_eq!(subject.recover()?.relogged, if lost { 3 } else { 1 });
        assert_eq!(subject.check(VerifyDepth::Full)?, [""; 0]);
        std::fs::remove_file(subject.dmv().join("refs.db"))?;
        subject.recover()?;
        assert_eq!(subject.history()?, [first, second]);
        subject.commit(&subject.open()?, 2)?;
    }
    Ok(())
}

/// What is left of an operation log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogLeft {
    Nothing,
    /// Everything except the last record.
    Shorter,
    /// Half of the last record is missing.
    Cut,
    /// The last record has a flipped bit.
    Flipped,
}

/// Removes the database and damages the log. `before` is the length of the log before its last
/// record.
fn lose(subject: &Subject, before: u64, left: LogLeft) -> Outcome {
    let log = subject.log()?;
    for name in ["refs.db", "refs.db-wal", "refs.db-shm"] {
        let _ = std::fs::remove_file(subject.dmv().join(name));
    }
    let mut bytes = std::fs::read(&log)?;
    let (before, len) = (before as usize, bytes.len());
    match left {
        LogLeft::Nothing => return Ok(std::fs::remove_file(&log)?),
        LogLeft::Shorter => bytes.truncate(before),
        LogLeft::Cut => bytes.truncate((before + len) / 2),
        LogLeft::Flipped => bytes[(before + len) / 2] ^= 1,
    }
    Ok(std::fs::write(&log, bytes)?)
}

fn clean_status(repo: &Repo) -> Outcome<usize> {
    let options = StatusOptions {
        select: &Paths::default(),
        settings: Default::default(),
    };
    Ok(repo.status(&options, &Job::default())?.changes.len())
}

#[test]
fn commits_that_only_packs_tell_of_get_branches() -> Outcome {
    use LogLeft::*;
    for left in [Nothing, Shorter, Cut, Flipped] {
        let subject = Subject::new()?;
        let mut made = Vec::new();
        for n in 0..3 {
            made.push(subject.commit(&subject.open()?, n)?);
        }
        let before = std::fs::metadata(subject.log()?)?.len();
        made.push(subject.commit(&subject.open()?, 3)?);
        let last = made[3];
        lose(&subject, before, left)?;
        let report = subject.recover()?;
        let name = format!("recovered/{}", last.short(12));
        assert_eq!(report.found, std::slice::from_ref(&name), "{left:?}");
        let repo = subject.open()?;
        let tip = repo.refs().get(&format!("branch/{name}"))?;
        assert_eq!(tip, Some(last.as_bytes().to_vec()), "{left:?}");
        assert_eq!(subject.check(VerifyDepth::Full)?, [""; 0], "{left:?}");
        match left {
            Nothing => {
                // The worktree's files show which branch they belong to.
                assert_eq!(repo.head()?, Head::Branch(name));
                assert_eq!(report.heads.len(), 1);
                assert_eq!((repo.base_commit()?, clean_status(&repo)?), (Some(last), 0));
                assert_eq!(subject.history()?, made);
            }
            _ => {
                assert_eq!(report.heads, []);
                assert_eq!(subject.history()?, made[..3], "{left:?}");
            }
        }
        let again = subject.recover()?;
        assert_eq!((again.found, again.heads), (vec![], vec![]), "{left:?}");
        subject.commit(&subject.open()?, 9)?;
        assert_eq!(subject.check(VerifyDepth::Full)?, [""; 0], "{left:?}");
        // The branch is not added a second time when the database is lost once more.
        std::fs::remove_file(subject.dmv().join("refs.db"))?;
        assert_eq!(subject.recover()?.found, [""; 0], "{left:?}");
    }
    Ok(())
}

#[test]
fn what_a_whole_log_says_was_deleted_stays_so() -> Outcome {
    let subject = Subject::new()?;
    let kept = subject.commit(&subject.open()?, 0)?;
    let repo = subject.open()?;
    subject.commit(&repo, 1)?;
    let undo = UndoOptions {
        what: UndoWhat::Last,
        settings: Default::default(),
        request: request("undo"),
    };
    repo.undo(&undo, &Job::default())?;
    for value in [Some(kept.as_bytes().to_vec()), None] {
        let key = "branch/gone".to_owned();
        let old = repo.refs().get(&key)?;
        let change = Change {
            key,
            old,
            new: value,
        };
        repo.publish(request("branch"), None, vec![change], Effect::Kept)?;
    }
    drop(repo);
    for lost in [false, true] {
        if lost {
            std::fs::remove_file(subject.dmv().join("refs.db"))?;
        }
        let report = subject.recover()?;
        assert_eq!((report.found, report.heads), (vec![], vec![]));
        let repo = subject.open()?;
        let branches = repo.refs().with_prefix("branch/")?;
        assert_eq!(branches.len(), 1, "{branches:?}");
    }
    Ok(())
}

#[test]
fn without_a_head_verify_says_so_and_recovery_writes_one() -> Outcome {
    let subject = Subject::new()?;
    let first = subject.commit(&subject.open()?, 0)?;
    let repo = subject.open()?;
    // An earlier version of DMV left the database like this after such a loss.
    let key = "worktree/main/head";
    let change = Change {
        key: key.to_owned(),
        old: repo.refs().get(key)?,
        new: None,
    };
    repo.publish(request("lose it"), None, vec![change], Effect::Kept)?;
    drop(repo);
    for depth in [VerifyDepth::Quick, VerifyDepth::Full] {
        let found = subject.check(depth)?;
        assert!(found.iter().any(|line| line.contains(key)), "{found:?}");
    }
    let report = subject.recover()?;
    let head = Head::Branch("main".to_owned());
    assert_eq!(report.heads, [("main".to_owned(), head.clone())]);
    assert_eq!(subject.open()?.head()?, head);
    assert_eq!(subject.history()?, [first]);
    assert_eq!(subject.check(VerifyDepth::Full)?, [""; 0]);
    Ok(())
}

/// Locks every pack except the log, as running jobs do.
fn lock_packs(subject: &Subject) -> Outcome<Vec<File>> {
    let (log, mut locks) = (subject.log()?, Vec::new());
    for entry in std::fs::read_dir(subject.dmv().join("packs"))? {
        let path = entry?.path();
        if path != log {
            let file = File::open(&path)?;
            file.try_lock()?;
            locks.push(file);
        }
    }
    Ok(locks)
}

/// Makes two commits. The second one is in the log but not in the database, and it lies in packs of
/// its own that no catalogue lists. Returns the locks of the first one's packs, too.
fn killed_before_the_database(subject: &Subject) -> Outcome<([ObjectId; 2], Vec<File>)> {
    let first = subject.commit(&subject.open()?, 0)?;
    let older = subject.save()?;
    let locks = lock_packs(subject)?;
    let second = subject.commit(&subject.open()?, 1)?;
    put_back(&older)?;
    Ok(([first, second], locks))
}

#[test]
fn packs_of_a_killed_command_that_another_has_taken_up_count() -> Outcome {
    let subject = Subject::new()?;
    let ([first, second], locks) = killed_before_the_database(&subject)?;
    // Opened while another process held the lock, so that the database did not catch up with the
    // log.
    let lock = DatabaseLock::take(&subject.dmv().join("refs.db"), Duration::from_secs(1))?;
    let busy = subject.open()?;
    drop(lock);
    let writer = testing::writer(busy.store())?;
    assert!(lock_packs(&subject).is_err());
    let repo = subject.open()?;
    assert_eq!((busy.caught_up(), repo.caught_up()), (0, 1));
    assert_eq!(subject.check(VerifyDepth::Quick)?, [""; 0]);
    let third = subject.commit(&repo, 2)?;
    assert_eq!(subject.history()?, [first, second, third]);
    // Objects that the job in these packs stores count, too.
    let sealed = writer.finish()?;
    testing::add_segments(busy.refs(), &sealed.segments, &sealed.relied)?;
    drop((sealed, locks));
    assert_eq!(subject.check(VerifyDepth::Full)?, [""; 0]);
    subject.recover()?;
    assert_eq!(subject.history()?, [first, second, third]);
    Ok(())
}

#[test]
fn packs_of_a_killed_command_wait_for_who_frees_space_and_are_no_damage() -> Outcome {
    let subject = Subject::new()?;
    let ([first, second], locks) = killed_before_the_database(&subject)?;
    drop(locks);
    let locks = lock_packs(&subject)?;
    let freeing = File::create(subject.dmv().join("keeping"))?;
    freeing.try_lock()?;
    let repo = subject.open()?;
    assert_eq!(repo.caught_up(), 0);
    assert_eq!(subject.check(VerifyDepth::Quick)?, [""; 0]);
    let refused = subject.commit(&repo, 2);
    assert!(
        matches!(refused, Err(RepoError::Busy(BusyError::Freeing(_)))),
        "{refused:?}"
    );
    drop((freeing, repo));
    let third = subject.commit(&subject.open()?, 2)?;
    assert_eq!(subject.history()?, [first, second, third]);
    drop(locks);
    assert_eq!(subject.check(VerifyDepth::Full)?, [""; 0]);
    Ok(())
}

/// Leaves the last operation in the write-ahead log, as a kill does before that is written back: a
/// commit of `n`, or a tag of the last one.
fn change_and_die(subject: &Subject, n: Option<u64>) -> Outcome<Option<ObjectId>> {
    let repo = subject.open()?;
    let id = n.map(|n| subject.commit(&repo, n)).transpose()?;
    if id.is_none() {
        let last = repo.head_commit()?.ok_or("no commit")?;
        repo.create_ref(RefKind::Tag, "last", last, request("tag"))?;
    }
    let lock = DatabaseLock::take(&subject.dmv().join("refs.db"), Duration::from_secs(1))?;
    drop(repo);
    drop(lock);
    let wal = std::fs::metadata(subject.dmv().join("refs.db-wal"))?;
    assert!(wal.len() > 0);
    Ok(id)
}

#[test]
fn an_older_database_beside_a_newer_write_ahead_log_is_damage() -> Outcome {
    for commits in [true, false] {
        let subject = Subject::new()?;
        let db = subject.dmv().join("refs.db");
        let log = subject.dmv().join("refs.db-wal");
        let (mut made, mut older) = (Vec::new(), Vec::new());
        for more in [8, 1, 2, 5, 20, 40] {
            for _ in 0..more {
                made.push(subject.commit(&subject.open()?, made.len() as u64)?);
            }
            older.push(std::fs::read(&db)?);
        }
        made.extend(change_and_die(&subject, commits.then_some(1000))?);
        let (now, wal) = (std::fs::read(&db)?, std::fs::read(&log)?);
        let mut refused = 0;
        for older in &older {
            std::fs::write(&db, older)?;
            std::fs::write(&log, &wal)?;
            let _ = std::fs::remove_file(subject.dmv().join("refs.db-shm"));
            match Repo::open(&subject.root) {
                Ok(_) => {
                    assert_eq!(subject.history()?, made);
                    assert_eq!(subject.check(VerifyDepth::Full)?, [""; 0]);
                }
                Err(e) => {
                    let is_damage = matches!(&e, RepoError::Refs(e) if e.is_damage());
                    assert!(is_damage && *older != now, "{e}");
                    refused += 1;
                }
            }
            let report = subject.recover()?;
            assert_eq!((report.found, report.kept), (vec![], vec![]));
            assert_eq!(subject.history()?, made);
            assert_eq!(subject.check(VerifyDepth::Full)?, [""; 0]);
        }
        assert!(refused > 1, "{refused}");
    }
    Ok(())
}

#[test]
fn a_pack_in_use_whose_index_is_lost_takes_one_recovery() -> Outcome {
    let subject = Subject::new()?;
    let mut made = Vec::new();
    for n in 0..3 {
        made.push(subject.commit(&subject.open()?, n)?);
    }
    let log = subject.log()?;
    for entry in std::fs::read_dir(subject.dmv().join("packs"))? {
        let path = entry?.path();
        if path == log {
            continue;
        }
        // A byte of the second segment's index, in front of its check and the trailer.
        let mut bytes = std::fs::read(&path)?;
        let at = places(&bytes, b"DMVt")[1] - 12;
        bytes[at] ^= 1;
        std::fs::write(&path, bytes)?;
    }
    let locks = lock_packs(&subject)?;
    std::fs::remove_file(subject.dmv().join("refs.db"))?;
    let report = subject.recover()?;
    assert_eq!((report.busy.len(), report.reindexed > 0), (2, true));
    assert_eq!(subject.history()?, made);
    assert_eq!(subject.check(VerifyDepth::Quick)?, [""; 0]);
    for (n, id) in made.iter().enumerate() {
        let files = files_of(&subject.open()?, id)?;
        let content = Item::File(format!("content {n}").into_bytes(), false);
        assert_eq!(files.get(&b"file"[..]), Some(&content));
    }
    drop(locks);
    subject.commit(&subject.open()?, 9)?;
    assert_eq!(subject.recover()?.busy, [""; 0].map(PathBuf::from));
    assert_eq!(subject.check(VerifyDepth::Quick)?, [""; 0]);
    Ok(())
}

#[test]
fn who_is_at_work_does_without_a_merged_index_that_is_gone() -> Outcome {
    let subject = Subject::new()?;
    subject.commit(&subject.open()?, 0)?;
    let at_work = subject.open()?;
    let mut made = Vec::new();
    for n in 1..12 {
        made.push(subject.commit(&subject.open()?, n)?);
    }
    let indexes = subject.open()?.refs().catalogue()?.indexes;
    assert!(!indexes.is_empty());
    for row in indexes {
        std::fs::remove_file(at_work.store().files().index_path(row.id))?;
    }
    for id in &made {
        at_work.read_commit(id)?;
    }
    Ok(())
}

/// Returns the places of `needle` in `bytes`.
fn places(bytes: &[u8], needle: &[u8]) -> Vec<usize> {
    let windows = bytes.windows(needle.len()).enumerate();
    windows
        .filter(|(_, w)| *w == needle)
        .map(|(n, _)| n)
        .collect()
}

#[test]
fn a_changed_value_in_the_database_is_noticed_and_mended() -> Outcome {
    let subject = Subject::new()?;
    for n in 0..3 {
        subject.commit(&subject.open()?, n)?;
    }
    let made = subject.history()?;
    let db = subject.dmv().join("refs.db");
    let good = std::fs::read(&db)?;
    let rows = || Ok::<_, RepoError>(format!("{:?}", Repo::open(&subject.root)?.refs().rows()?));
    let right = rows()?;
    let packs = subject.open()?.refs().catalogue()?.packs;
    let ids = made.iter().map(|id| id.as_bytes().to_vec());
    let packs = packs.iter().map(|row| row.id.as_bytes().to_vec());
    let mut tried = 0;
    for needle in ids.chain(packs) {
        for at in places(&good, &needle) {
            let mut bad = good.clone();
            bad[at + 5] ^= 1;
            std::fs::write(&db, &bad)?;
            if rows().is_ok_and(|rows| rows == right) {
                // This place is in an unused part of a page.
                continue;
            }
            let found = subject.check(VerifyDepth::Full);
            assert!(!found.is_ok_and(|f| f.is_empty()), "at {at}");
            subject.recover()?;
            assert_eq!(subject.history()?, made, "at {at}");
            assert_eq!(subject.check(VerifyDepth::Full)?, [""; 0], "at {at}");
            tried += 1;
        }
    }
    assert!(tried > 5, "{tried}");
    Ok(())
}

/// Another intact commit in the place of the right one: only the operations tell.
#[test]
fn a_value_that_no_operation_made_is_noticed_though_it_is_intact() -> Outcome {
    let subject = Subject::new()?;
    for n in 0..3 {
        subject.commit(&subject.open()?, n)?;
    }
    let made = subject.history()?;
    let (one, other) = (made[made.len() - 1], made[0]);
    let db = subject.dmv().join("refs.db");
    let good = std::fs::read(&db)?;
    let rows = || Ok::<_, RepoError>(format!("{:?}", Repo::open(&subject.root)?.refs().rows()?));
    let right = rows()?;
    let mut tried = 0;
    for (from, to) in [(one, other), (other, one)] {
        for at in places(&good, from.as_bytes()) {
            let mut bad = good.clone();
            bad[at..at + 32].copy_from_slice(to.as_bytes());
            std::fs::write(&db, &bad)?;
            if rows().is_ok_and(|rows| rows == right) {
                continue;
            }
            let found = subject.check(VerifyDepth::Full);
            assert!(!found.is_ok_and(|f| f.is_empty()), "at {at}");
            subject.recover()?;
            assert_eq!(subject.history()?, made, "at {at}");
            tried += 1;
        }
    }
    assert!(tried > 1, "{tried}");
    Ok(())
}

/// Random bytes anywhere in the database: recovery restores all commits, whatever was hit.
#[test]
fn after_any_damage_to_the_database_recovery_gives_every_commit() -> Outcome {
    let count = std::env::var("DMV_FLIPS").ok().and_then(|n| n.parse().ok());
    let subject = Subject::new()?;
    for n in 0..3 {
        subject.commit(&subject.open()?, n)?;
    }
    let made = subject.history()?;
    let db = subject.dmv().join("refs.db");
    let mut rng = Rng::new(11);
    for round in 0..count.unwrap_or(60u64) {
        let mut bad = std::fs::read(&db)?;
        for _ in 0..=rng.below(20) {
            let at = rng.below(bad.len() as u64) as usize;
            bad[at] = rng.below(256) as u8;
        }
        if round % 8 == 0 {
            bad.truncate(rng.below(bad.len() as u64) as usize);
        }
        std::fs::write(&db, &bad)?;
        let report = subject.recover();
        report.map_err(|e| format!("round {round}: {e}"))?;
        assert_eq!(subject.history()?, made, "round {round}");
        let found = subject.check(VerifyDepth::Full)?;
        assert_eq!(found, [""; 0], "round {round}");
    }
    Ok(())
}
