//! A recovery beside commits, at every moment: before each operation on files of the one, the other
//! happens. Whatever a commit was told is stored must be there afterwards.

use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::locks;
use dmv_core::object::{ObjectType, ObjectWrite};
use dmv_core::refs::testing;
use dmv_core::repo::{Repo, discover, recover, recover_on};
use dmv_core::store::MetaWriter;
use dmv_tests::hookvfs::HookVfs;
use dmv_tests::peers::{Done, Place};
use dmv_tests::rng::Rng;
use dmv_tests::scratch::{commit, files_in, files_of};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A repository with a commit, and behind it in its packs what a killed command has left.
fn with_torn_tail() -> Done<Place> {
    let place = Place::with_files(1, 4, 30_000)?;
    let other = place.again()?;
    let writer = testing::writer(other.store())?;
    let mut meta = MetaWriter::new(&writer);
    for seed in 2..5 {
        meta.put(ObjectType::Chunk, &Rng::new(seed).bytes(20_000))?;
        meta.flush()?;
    }
    drop(meta);
    drop(writer);
    Ok(place)
}

/// Whether somebody is changing the database. The other one would wait for it.
fn is_taken(root: &Path) -> bool {
    let lock = root.join(".dmv/refs.lock");
    !matches!(locks::take(&lock, Duration::ZERO), Ok(Ok(_)))
}

/// Checks that a commit has all files of the worktree, and that nothing is damaged.
fn check(place: &Place, id: &ObjectId) -> Done {
    let files = files_of(&place.again()?, id)?;
    let mut wanted = files_in(place.dir.path())?;
    wanted.retain(|path, _| !path.starts_with(b".dmv"));
    assert_eq!(files, wanted);
    place.is_sound()
}

#[test]
fn a_recovery_at_any_moment_of_a_commit_loses_nothing() -> Done {
    for at in 0.. {
        let place = with_torn_tail()?;
        place.write("beside", &Rng::new(9).bytes(70_000))?;
        let vfs = HookVfs::default();
        let found = discover(place.dir.path())?;
        let repo = Repo::open_place_on(found.clone(), Arc::new(vfs.clone()))?;
        let root = place.dir.path().to_owned();
        vfs.before(at, move || {
            if !is_taken(&root) {
                recover(&found, &Job::default()).expect("nothing is in its way");
            }
        });
        let id = commit(&repo, "beside")?.commit.ok_or("a commit")?;
        check(&place, &id).map_err(|e| format!("moment {at}: {e}"))?;
        if vfs.count() <= at {
            assert!(at > 10, "{at}");
            return Ok(());
        }
    }
    Ok(())
}

#[test]
fn a_commit_at_any_moment_of_a_recovery_is_kept() -> Done {
    let mut made = 0;
    for at in 0.. {
        let place = with_torn_tail()?;
        let vfs = HookVfs::default();
        let done = Arc::new(Mutex::new(None));
        let (root, told) = (place.dir.path().to_owned(), done.clone());
        vfs.before(at, move || {
            if is_taken(&root) {
                return;
            }
            std::fs::write(root.join("beside"), Rng::new(9).bytes(70_000)).expect("there is room");
            let repo = Repo::open(&root).expect("it opens");
            let report = commit(&repo, "beside").expect("nothing is in its way");
            *told.lock().expect("nothing panics") = report.commit;
        });
        recover_on(
            &discover(place.dir.path())?,
            Arc::new(vfs.clone()),
            &Job::default(),
        )?;
        let is_over = vfs.count() <= at;
        if let Some(id) = done.lock().map_err(|_| "poisoned")?.take() {
            made += 1;
            check(&place, &id).map_err(|e| format!("moment {at}: {e}"))?;
        }
        if is_over {
            break;
        }
    }
    assert!(made > 10, "{made}");
    Ok(())
}
