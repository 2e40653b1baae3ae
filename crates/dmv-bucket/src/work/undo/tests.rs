//! Undo at a bucket in memory that real pushes have filled.

use super::*;
use crate::files::memory::{Fault as Bad, MemFiles};
use crate::work::access::BucketAccess;
use crate::work::gc::{FreeOptions, Joins, free};
use crate::work::push::tests::{Outcome, Place, bucket, newest as now, stamp, ten_files};
use dmv_core::hash::ObjectId;

fn take_back(files: &MemFiles, place: &Place, which: Which) -> Result<Undone, UndoError> {
    let known = now(files).ok();
    undo(&undoer(files, place), known, &which, stamp())
}

fn undoer<'a>(files: &'a MemFiles, place: &'a Place) -> BucketAccess<'a> {
    BucketAccess::new(
        files,
        place.repo.store(),
        &place.job,
        Some(place.notes.path()),
    )
}

fn branch(files: &MemFiles, name: &str) -> Option<ObjectId> {
    let (root, _) = now(files).ok()?;
    let value = root
        .view
        .get(&format!("branch/{name}"))
        .cloned()
        .flatten()?;
    Some(ObjectId::from_bytes(value.try_into().ok()?))
}

fn push(files: &MemFiles, place: &Place, name: &str, to: &ObjectId) -> Outcome {
    let root = now(files)?;
    place.push(files, root, name, to)?.ok_or("moved")?;
    Ok(())
}

#[test]
fn undo_goes_back_one_push_at_a_time_and_redo_forward() -> Outcome {
    let (files, _) = bucket()?;
    let place = Place::new()?;
    let none = take_back(&files, &place, Which::Last);
    assert!(matches!(none, Err(UndoError::Refused(NotUndone::Nothing))));
    let commits = [1, 2, 3].map(|n| place.commit(&ten_files(n)));
    let commits: Vec<ObjectId> = commits.into_iter().collect::<Outcome<_>>()?;
    for commit in &commits {
        push(&files, &place, "main", commit)?;
    }
    for (which, main) in [
        (Which::Last, Some(1)),
        (Which::Last, Some(0)),
        (Which::LastUndo, Some(1)),
        (Which::Last, Some(0)),
        (Which::Last, None),
        (Which::LastUndo, Some(0)),
        (Which::LastUndo, Some(1)),
        (Which::LastUndo, Some(2)),
    ] {
        let known = now(&files).ok();
        files.counts();
        undo(&undoer(&files, &place), known, &which, stamp())?;
        let counts = files.counts();
        assert_eq!((counts.get, counts.put), (1, 1), "the root alone");
        let expected = main.map(|n: usize| commits[n]);
        assert_eq!(branch(&files, "main"), expected, "{which:?}");
    }
    let none = take_back(&files, &place, Which::LastUndo);
    let why = NotUndone::NothingToRedo;
    assert!(matches!(none, Err(UndoError::Refused(found)) if found == why));
    take_back(&files, &place, Which::Last)?;
    push(&files, &place, "side", &commits[0])?;
    let none = take_back(&files, &place, Which::LastUndo);
    assert!(matches!(none, Err(UndoError::Refused(found)) if found == why));
    Ok(())
}

#[test]
fn an_undo_is_refused_if_the_ref_has_changed_since_and_names_who_did_it() -> Outcome {
    let (files, _) = bucket()?;
    let place = Place::new()?;
    let commits = [1, 2, 3].map(|n| place.commit(&ten_files(n)));
    let commits: Vec<ObjectId> = commits.into_iter().collect::<Outcome<_>>()?;
    push(&files, &place, "main", &commits[0])?;
    let first = now(&files)?.0.last.1;
    push(&files, &place, "side", &commits[1])?;
    let side = now(&files)?.0.last.1;
    push(&files, &place, "main", &commits[2])?;
    let last = now(&files)?.0.last.1;
    let refused = take_back(&files, &place, Which::Id(short(&first)));
    let Err(UndoError::Refused(NotUndone::ChangedSince { operation, key, by })) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!((operation, &key[..]), (short(&first), "branch/main"));
    assert_eq!(by.map(|(id, ..)| id), Some(short(&last)));
    // Another branch is no obstacle, and its commit is named by the log alone then.
    take_back(&files, &place, Which::Id(short(&side)))?;
    assert_eq!(branch(&files, "side"), None);
    let again = take_back(&files, &place, Which::Id(short(&side)));
    assert!(matches!(
        again,
        Err(UndoError::Refused(NotUndone::Already(_)))
    ));
    for unknown in ["00", "zzzz", "000000000000"] {
        let none = take_back(&files, &place, Which::Id(unknown.to_owned()));
        let is_none = matches!(none, Err(UndoError::Refused(NotUndone::NoOperation { .. })));
        assert!(is_none, "{unknown}");
    }
    Ok(())
}

#[test]
fn an_undo_whose_answer_is_lost_lands_once_and_one_that_loses_a_race_tries_again() -> Outcome {
    let (files, _) = bucket()?;
    let place = Place::new()?;
    let tip = place.commit(&ten_files(1))?;
    for (bad, name) in [(Bad::AnswerLost, "a"), (Bad::Lost, "b")] {
        push(&files, &place, name, &tip)?;
        let before = now(&files)?.0.last.0;
        files.fail(&[bad]);
        let done = take_back(&files, &place, Which::Last)?;
        assert_eq!(branch(&files, name), None);
        assert_eq!((done.root.0.last.0, done.undone.seq), (before + 1, before));
    }
    // The known root is old: somebody has pushed another branch since.
    push(&files, &place, "c", &tip)?;
    let old = now(&files)?;
    let c = short(&old.0.last.1);
    push(&files, &place, "d", &tip)?;
    undo(&undoer(&files, &place), Some(old), &Which::Id(c), stamp())?;
    assert_eq!(
        (branch(&files, "c"), branch(&files, "d")),
        (None, Some(tip))
    );
    Ok(())
}

#[test]
fn what_gc_has_forgotten_cannot_be_undone() -> Outcome {
    let (files, _) = bucket()?;
    let place = Place::new()?;
    let tip = place.commit(&ten_files(1))?;
    push(&files, &place, "main", &tip)?;
    let first = short(&now(&files)?.0.last.1);
    push(&files, &place, "side", &tip)?;
    let with = BucketAccess::new(&files, place.repo.store(), &place.job, None);
    let options = FreeOptions {
        stamp: stamp(),
        forget_before: Some(i64::MAX),
        young_from: 0,
        joins: Joins::None,
        purge: None,
        dry_run: false,
        limits: Limits {
            kept: 1,
            ..Limits::default()
        },
    };
    free(&with, now(&files).ok(), &options)?;
    let none = take_back(&files, &place, Which::Id(first));
    let is_none = matches!(none, Err(UndoError::Refused(NotUndone::NoOperation { .. })));
    assert!(is_none, "{none:?}");
    Ok(())
}
