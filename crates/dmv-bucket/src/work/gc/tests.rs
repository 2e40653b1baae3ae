//! gc of a bucket in memory that real pushes have filled.

use super::*;
use crate::files::memory::{Fault, MemFiles};
use crate::work::access::BucketAccess;
use crate::work::push::push;
use crate::work::push::tests::{
    Outcome, Place, bucket, content, is_complete, is_stored, newest, noise, stamp, ten_files,
};
use dmv_core::refs::Change;

fn options() -> FreeOptions {
    FreeOptions {
        stamp: stamp(),
        forget_before: None,
        young_from: i64::MAX,
        joins: Joins::None,
        purge: None,
        dry_run: false,
        limits: Limits {
            kept: 1,
            ..Limits::default()
        },
    }
}

fn collect(
    files: &MemFiles,
    place: &Place,
    options: &FreeOptions,
) -> Result<FreeReport, PushError> {
    let with = BucketAccess::new(
        files,
        place.repo.store(),
        &place.job,
        Some(place.notes.path()),
    );
    let known = newest(files).ok();
    free(&with, known, options)
}

fn delete(files: &MemFiles, place: &Place, branch: &str) -> Outcome {
    let root = newest(files)?;
    let with = BucketAccess::new(
        files,
        place.repo.store(),
        &place.job,
        Some(place.notes.path()),
    );
    let key = format!("branch/{branch}");
    let old = root.0.view.get(&key).cloned().flatten();
    let change = Change {
        key,
        old,
        new: None,
    };
    push(&with, root, vec![change], &stamp())?.ok_or("moved")?;
    Ok(())
}

#[test]
fn files_that_no_root_names_go_unless_they_are_young() -> Outcome {
    let (files, root) = bucket()?;
    let place = Place::new()?;
    let tip = place.commit(&ten_files(7))?;
    place
        .push(&files, root.clone(), "main", &tip)?
        .ok_or("moved")?;
    let stray = Name([9; 16]).path(root.0.repository);
    files.set(&stray, vec![0; 1000]);
    files.set("probe/x", vec![0; 10]);
    let young = FreeOptions {
        young_from: 0,
        ..options()
    };
    let none = collect(&files, &place, &young)?;
    assert_eq!((none.strays, none.bytes, none.all_deleted), (0, 0, true));
    let dry = FreeOptions {
        dry_run: true,
        ..options()
    };
    let foretold = collect(&files, &place, &dry)?;
    assert_eq!((foretold.strays, foretold.bytes), (1, 1000));
    assert!(files.names().contains(&stray));
    let freed = collect(&files, &place, &options())?;
    assert_eq!((freed.strays, freed.packs, freed.all_deleted), (1, 0, true));
    assert_eq!(files.names().len(), 3, "{:?}", files.names());
    let (root, _) = newest(&files)?;
    assert_eq!(root.freed, 1);
    is_complete(&content(&files, &root)?, &tip)
}

#[test]
fn a_deleted_branch_goes_once_the_log_has_forgotten_it() -> Outcome {
    let (files, root) = bucket()?;
    let place = Place::new()?;
    let first = place.commit(&ten_files(7))?;
    place.push(&files, root, "main", &first)?.ok_or("moved")?;
    let second = place.commit(&ten_files(8))?;
    let root = newest(&files)?;
    place.push(&files, root, "side", &second)?.ok_or("moved")?;
    delete(&files, &place, "side")?;
    let kept = collect(&files, &place, &options())?;
    assert_eq!((kept.packs, kept.bytes), (0, 0), "undo can bring it back");
    let third = place.commit(&ten_files(7))?;
    let root = newest(&files)?;
    place.push(&files, root, "main", &third)?;
    let forgets = FreeOptions {
        forget_before: Some(i64::MAX),
        ..options()
    };
    let before = newest(&files)?.0.rows.len();
    let freed = collect(&files, &place, &forgets)?;
    // The third commit descends from the second one, so all stays.
    assert_eq!((freed.packs, newest(&files)?.0.rows.len()), (0, before));
    let root = newest(&files)?;
    place.push(&files, root, "main", &first)?.ok_or("moved")?;
    let root = newest(&files)?;
    place.push(&files, root, "other", &first)?.ok_or("moved")?;
    let freed = collect(&files, &place, &forgets)?;
    // The third commit has the content of the first one, so its pack stays.
    assert_eq!((freed.packs, freed.all_deleted), (1, true));
    let (root, _) = newest(&files)?;
    assert_eq!(root.rows.len(), before - 1);
    is_complete(&content(&files, &root)?, &first)?;
    // A push after that uploads again what is gone.
    let done = place.push(&files, newest(&files)?, "side", &second)?;
    is_complete(&content(&files, &done.ok_or("moved")?.root.0)?, &second)
}

#[test]
fn nothing_is_freed_if_anything_cannot_be_read() -> Outcome {
    let (files, root) = bucket()?;
    let (ada, bob) = (Place::new()?, Place::new()?);
    let tip = ada.commit(&ten_files(7))?;
    ada.push(&files, root.clone(), "main", &tip)?
        .ok_or("moved")?;
    let stray = Name([9; 16]).path(root.0.repository);
    files.set(&stray, vec![0; 1000]);
    let lacks = collect(&files, &bob, &options());
    assert!(matches!(lacks, Err(PushError::Lacking(_))), "{lacks:?}");
    let (root, _) = newest(&files)?;
    let pack = root.rows[0].name.path(root.repository);
    let mut bytes = files.content(&pack).ok_or("a pack")?;
    bytes[root.rows[0].tail as usize + 40] ^= 1;
    files.set(&pack, bytes);
    let damaged = collect(&files, &ada, &options());
    let is_told = matches!(damaged, Err(PushError::Trouble(Trouble::Damaged(_))));
    assert!(is_told, "{damaged:?}");
    files.remove(&pack);
    assert!(collect(&files, &ada, &options()).is_err());
    assert!(files.names().contains(&stray));
    Ok(())
}

#[test]
fn small_packs_are_joined_and_everything_stays_where_places_say() -> Outcome {
    let (files, root) = bucket()?;
    let place = Place::new()?;
    let mut tip = place.commit(&ten_files(0))?;
    place.push(&files, root, "main", &tip)?.ok_or("moved")?;
    for n in 1..12 {
        tip = place.commit(&[("d1/more", vec![n; 3000])])?;
        place.push(&files, newest(&files)?, "main", &tip)?;
    }
    let before = newest(&files)?.0;
    assert_eq!(before.rows.len(), 12);
    let generation = before.rows.iter().map(|row| row.generation).max();
    let joins = FreeOptions {
        joins: Joins::Small,
        ..options()
    };
    let dry = FreeOptions {
        dry_run: true,
        ..joins.clone()
    };
    let foretold = collect(&files, &place, &dry)?;
    assert_eq!(foretold.joined.packs, 12);
    assert_eq!(newest(&files)?.0, before);
    let done = collect(&files, &place, &joins)?;
    assert_eq!((done.joined.packs, done.joined.new_packs), (12, 1));
    assert_eq!(done.joined.bytes, foretold.joined.bytes);
    assert_eq!(done.joined.read_bytes, foretold.joined.read_bytes);
    assert!(done.joined.new_bytes < done.joined.bytes);
    let (root, _) = newest(&files)?;
    assert_eq!(root.rows.len(), 1);
    assert_eq!(
        Some(root.rows[0].generation),
        generation,
        "nobody fetches it again"
    );
    assert_eq!(files.names().len(), 2, "{:?}", files.names());
    is_complete(&content(&files, &root)?, &tip)?;
    // A push after that relies on it.
    let next = place.commit(&[("d1/more", vec![99; 3000])])?;
    let done = place.push(&files, newest(&files)?, "main", &next)?;
    is_complete(&content(&files, &done.ok_or("moved")?.root.0)?, &next)?;
    let few = collect(&files, &place, &joins)?;
    assert_eq!(few.joined.packs, 0, "two packs are not worth it");
    Ok(())
}

#[test]
fn a_large_pack_of_which_little_is_needed_is_written_again() -> Outcome {
    let (files, root) = bucket()?;
    let place = Place::new()?;
    // Of one pack with two commits, only the smaller commit stays.
    let small = place.commit(&[("file", noise(1, 2 << 20))])?;
    let large = place.commit(&[("large", noise(2, 14 << 20))])?;
    place.push(&files, root, "side", &large)?.ok_or("moved")?;
    place
        .push(&files, newest(&files)?, "main", &small)?
        .ok_or("moved")?;
    delete(&files, &place, "side")?;
    let last = place.commit(&[("other", vec![1; 10])])?;
    let forgets = FreeOptions {
        forget_before: Some(i64::MAX),
        joins: Joins::Small,
        ..options()
    };
    place.push(&files, newest(&files)?, "tag", &small)?;
    let bytes = |root: &Root| root.rows.iter().map(|row| row.len).sum::<u64>();
    assert!(bytes(&newest(&files)?.0) > 16 << 20);
    let done = collect(&files, &place, &forgets)?;
    assert_eq!(done.joined.packs, 1, "{done:?}");
    let (root, _) = newest(&files)?;
    assert!(bytes(&root) < 3 << 20, "{}", bytes(&root));
    // The directories lie in a small pack that stays. Its places name the old pack.
    is_stored(&content(&files, &root)?, &small)?;
    let done = place.push(&files, newest(&files)?, "later", &last)?;
    is_stored(&content(&files, &done.ok_or("moved")?.root.0)?, &last)
}

#[test]
fn a_damaged_pack_is_not_joined() -> Outcome {
    let (files, root) = bucket()?;
    let place = Place::new()?;
    let mut root = root;
    for n in 0..9 {
        let tip = place.commit(&[("file", noise(n, 5000))])?;
        root = *place.push(&files, root, "main", &tip)?.ok_or("moved")?.root;
    }
    let row = root.0.rows[4];
    let path = row.name.path(root.0.repository);
    let mut bytes = files.content(&path).ok_or("it is there")?;
    bytes[2000] ^= 1;
    files.set(&path, bytes);
    let joins = FreeOptions {
        joins: Joins::Small,
        ..options()
    };
    let before = files.names().len();
    let failed = collect(&files, &place, &joins);
    let Err(PushError::Trouble(Trouble::Damaged(why))) = failed else {
        return Err(format!("{failed:?}").into());
    };
    assert!(why.contains(&row.name.to_string()), "{why}");
    assert_eq!(newest(&files)?.0, root.0);
    assert!(files.names().len() >= before);
    Ok(())
}

#[test]
fn a_lost_pack_is_named() -> Outcome {
    let (files, root) = bucket()?;
    let place = Place::new()?;
    let tip = place.commit(&ten_files(7))?;
    let root = *place.push(&files, root, "main", &tip)?.ok_or("moved")?.root;
    let path = root.0.rows[0].name.path(root.0.repository);
    files.remove(&path);
    let failed = collect(&files, &place, &options());
    let Err(PushError::Trouble(Trouble::Lost(lost))) = failed else {
        return Err(format!("{failed:?}").into());
    };
    assert_eq!(lost, path);
    Ok(())
}

#[test]
fn a_push_beside_a_join_loses_nothing() -> Outcome {
    let (files, root) = bucket()?;
    let place = Place::new()?;
    let mut root = root;
    let mut tip = None;
    for n in 0..9 {
        let next = place.commit(&[("file", noise(n, 5000))])?;
        root = *place
            .push(&files, root, "main", &next)?
            .ok_or("moved")?
            .root;
        tip = Some(next);
    }
    let joins = FreeOptions {
        joins: Joins::Small,
        ..options()
    };
    let tip = tip.ok_or("a tip")?;
    // The replacement of the root is lost: somebody has pushed in between.
    files.fail(&[Fault::Lost]);
    let done = collect(&files, &place, &joins)?;
    assert_eq!((done.joined.packs, done.joined.new_packs), (9, 1));
    let (now, _) = newest(&files)?;
    assert_eq!(now.rows.len(), 1);
    is_complete(&content(&files, &now)?, &tip)?;
    assert_eq!(
        files.names().len(),
        2,
        "what was made counted twice: {:?}",
        files.names()
    );
    Ok(())
}
