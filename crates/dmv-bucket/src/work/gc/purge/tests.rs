//! Purges at a bucket in memory: whatever is cut, nothing of the content stays and nothing else goes.

use super::super::{FreeOptions, FreeReport, Joins, free};
use super::*;
use crate::files::memory::{Fault, MemFiles};
use crate::format::{Page, PurgedContent};
use crate::machines::Limits;
use crate::work::access::BucketAccess;
use crate::work::push::push;
use crate::work::push::tests::{Outcome, Place, bucket, content, newest, noise, stamp, ten_files};
use dmv_core::job::Job;
use dmv_core::object::name::RepoPath;
use dmv_core::object::tree::lookup_path;
use dmv_core::reach::{Detail, Filter, Reach};
use dmv_core::refs::Change;
use dmv_core::repo::{OperationRequest, PurgeWhat, Repo, ToPurge, roots_of};
use std::sync::Arc;

/// Some chunks, which nothing compresses.
const SECRET: usize = 600_000;

fn secret() -> Vec<u8> {
    noise(77, SECRET)
}

fn why() -> Purge {
    Purge {
        at: 1_700_000_000,
        by: "ada".to_owned(),
        reason: "leaked key".to_owned(),
    }
}

fn options() -> FreeOptions {
    FreeOptions {
        forget_before: None,
        young_from: i64::MAX,
        joins: Joins::None,
        purge: None,
        dry_run: false,
        limits: Limits {
            kept: 1,
            ..Limits::default()
        },
        stamp: stamp(),
    }
}

/// Fills a repository and a bucket: of the secret, the half is also in another file.
fn filled() -> Outcome<(MemFiles, Place)> {
    let (files, root) = bucket()?;
    let place = Place::new()?;
    let secret = secret();
    let joined = [&secret[SECRET / 2..], &noise(2, 100_000)].concat();
    let first = [("secret", secret), ("small", noise(5, 900))];
    let mut all: Vec<(&str, Vec<u8>)> = first.into();
    all.extend([("joined", joined), ("stays", noise(1, 200_000))]);
    let tip = place.commit(&all)?;
    place.push(&files, root, "main", &tip)?.ok_or("moved")?;
    let tip = place.commit(&ten_files(7))?;
    let known = newest(&files)?;
    place.push(&files, known, "main", &tip)?.ok_or("moved")?;
    Ok((files, place))
}

/// Purges a path on the device alone.
fn purge_here(place: &Place, path: &str) -> Outcome {
    let what = PurgeWhat::Path(Repo::parse_path(path.as_bytes())?);
    let found = place.repo.purgeable(&what, &Job::default())?;
    let roots = roots_of(found.files.values().map(|(_, blob)| blob));
    let Stamp { time, who, .. } = stamp();
    let new = ToPurge {
        files: [(why(), roots)].into(),
        request: OperationRequest {
            time,
            who,
            command: "purge".to_owned(),
        },
    };
    place
        .repo
        .begin_to_free()?
        .purge(Some(new), &Job::default())?;
    Ok(())
}

/// Purges at the bucket what was purged on the device.
fn purge_there(files: &MemFiles, place: &Place) -> Result<FreeReport, PushError> {
    let purges = place.repo.purges()?;
    let of_purge = |purge: &dmv_core::repo::KnownPurge| {
        let ids: Vec<ObjectId> = purge.files.iter().copied().collect();
        ids.into_iter().zip(std::iter::repeat(purge.why.clone()))
    };
    let options = FreeOptions {
        purge: Some(purges.iter().flat_map(of_purge).collect()),
        ..options()
    };
    purge(&collector(files, place), newest(files).ok(), &options)
}

fn collector<'a>(files: &'a MemFiles, place: &'a Place) -> BucketAccess<'a> {
    BucketAccess::new(
        files,
        place.repo.store(),
        &place.job,
        Some(place.notes.path()),
    )
}

/// Whether any file of the bucket has a part of some bytes.
fn has_part(files: &MemFiles, what: &[u8]) -> bool {
    let parts: Vec<&[u8]> = what.windows(48).step_by(997).collect();
    let number = |bytes: &[u8]| usize::from(bytes[0]) << 8 | usize::from(bytes[1]);
    let mut starts = vec![false; 1 << 16];
    parts.iter().for_each(|part| starts[number(part)] = true);
    files.names().iter().any(|name| {
        let bytes = files.content(name).unwrap_or_default();
        let mut windows = bytes.windows(48);
        windows.any(|window| starts[number(window)] && parts.contains(&window))
    })
}

/// The half of the secret that no other file has.
fn only_secret() -> Vec<u8> {
    secret()[..SECRET / 2 - 70_000].to_vec()
}

fn id_of(place: &Place, revision: &str, path: &str) -> Outcome<ObjectId> {
    let commit = place.repo.read_commit(&place.repo.resolve(revision)?)?;
    let path: RepoPath = Repo::parse_path(path.as_bytes())?;
    let entry = lookup_path(place.repo.objects(), &commit.tree, &path)?;
    Ok(entry.ok_or("it is there")?.id)
}

/// What the bucket says that it has purged.
fn buried(files: &MemFiles) -> Outcome<PurgedContent> {
    let (root, _) = newest(files)?;
    let mut all = PurgedContent::default();
    for page in &root.purges.pages {
        let path = page.name.path(root.repository);
        let bytes = files.content(&path).ok_or("a page is missing")?;
        let Page::Purges(found) = Page::decode(&bytes)? else {
            return Err("another page".into());
        };
        for buried in found.into_values() {
            all.files.extend(buried.files);
            all.pieces.extend(buried.pieces);
        }
    }
    Ok(all)
}

/// Fails unless everything that the branch leads to is stored, apart from the purged file `but`.
fn has_all_but(files: &MemFiles, place: &Place, but: &ObjectId) -> Outcome {
    let (root, _) = newest(files)?;
    let there = content(files, &root)?;
    let filter = Filter {
        dropped: [*but].into(),
        ..Filter::default()
    };
    let tips = root.view.values().flatten();
    let tips = tips.map(|value| ObjectId::from_bytes(value[..].try_into().expect("an id")));
    let mut reach = Reach::filtered(tips, [], Detail::All, filter).skipping_chunks();
    let mut objects = 0;
    while let Some(found) = reach.next(place.repo.store())? {
        assert!(there.has(&found.id), "{:?} {} is gone", found.ty, found.id);
        objects += 1;
    }
    assert!(objects > 10, "{objects}");
    Ok(())
}

/// Returns a bucket with the same files.
fn copy(files: &MemFiles) -> MemFiles {
    let copy = MemFiles::default();
    for name in files.names() {
        copy.set(&name, files.content(&name).unwrap_or_default());
    }
    copy
}

#[test]
fn nothing_of_a_purged_file_stays_and_all_else_does() -> Outcome {
    let (files, place) = filled()?;
    let id = id_of(&place, "main", "secret")?;
    assert!(has_part(&files, &only_secret()));
    assert_eq!(newest(&files)?.0.encode()?[8], 1);
    purge_here(&place, "secret")?;
    let done = purge_there(&files, &place)?;
    assert!(done.all_deleted, "{done:?}");
    assert_eq!((done.buried.files, done.buried.left), (1, 0), "{done:?}");
    assert_eq!(done.buried.unknown, 0);
    let shared = done.buried.shared_bytes as usize;
    assert!(
        shared > SECRET / 6 && shared < SECRET / 2 + 70_000,
        "{shared}"
    );
    let (root, _) = newest(&files)?;
    assert_eq!((root.purges.count, root.purges.unpurged), (1, 0));
    assert_eq!(root.encode()?[8], 2);
    assert!(!has_part(&files, &only_secret()));
    assert!(has_part(&files, &noise(1, 200_000)));
    has_all_but(&files, &place, &id)?;
    let told = buried(&files)?;
    assert_eq!(told.files, [id].into());
    assert!(!told.pieces.is_empty());
    // Nothing more is to do.
    let again = purge_there(&files, &place)?;
    assert_eq!((again.buried.files, again.packs, again.strays), (0, 0, 0));
    assert_eq!(newest(&files)?.0, root);
    // A file of one chunk goes as well, into the same page.
    let small = id_of(&place, "main", "small")?;
    purge_here(&place, "small")?;
    purge_there(&files, &place)?;
    assert!(!has_part(&files, &noise(5, 900)));
    let told = buried(&files)?;
    assert_eq!(told.files, [id, small].into());
    assert!(told.pieces.contains(&small));
    assert_eq!(newest(&files)?.0.purges.pages.len(), 1);
    Ok(())
}

#[test]
fn a_purge_that_is_cut_after_any_request_loses_nothing_and_the_next_one_ends_it() -> Outcome {
    let (full, place) = filled()?;
    let id = id_of(&place, "main", "secret")?;
    purge_here(&place, "secret")?;
    for requests in 0.. {
        assert!(requests < 60, "a purge takes few requests");
        let files = copy(&full);
        files.cut_after(Some(requests));
        let cut = purge_there(&files, &place);
        files.cut_after(None);
        has_all_but(&files, &place, &id)?;
        let (root, _) = newest(&files)?;
        if root.purges.count > 0 && root.purges.unpurged == 0 {
            assert!(!has_part(&files, &only_secret()), "cut after {requests}");
        }
        let is_whole = cut.is_ok_and(|done| done.all_deleted);
        let done = purge_there(&files, &place)?;
        assert!(done.all_deleted, "cut after {requests}: {done:?}");
        let (root, _) = newest(&files)?;
        assert_eq!((root.purges.count, root.purges.unpurged), (1, 0));
        assert!(!has_part(&files, &only_secret()), "cut after {requests}");
        has_all_but(&files, &place, &id)?;
        // Only what the root names is left.
        let named = root.rows.len() + root.pages().count() + 1;
        assert_eq!(files.names().len(), named, "cut after {requests}");
        if is_whole && requests > 5 {
            return Ok(());
        }
    }
    Ok(())
}

#[test]
fn a_purge_whose_root_is_lost_or_answered_late_is_done_once() -> Outcome {
    let (full, place) = filled()?;
    let id = id_of(&place, "main", "secret")?;
    purge_here(&place, "secret")?;
    for fault in [Fault::AnswerLost, Fault::Lost] {
        let files = copy(&full);
        files.fail(&[fault]);
        let done = purge_there(&files, &place)?;
        assert!(done.all_deleted, "{fault:?}: {done:?}");
        let (root, _) = newest(&files)?;
        assert_eq!(
            (root.purges.count, root.purges.unpurged),
            (1, 0),
            "{fault:?}"
        );
        assert!(!has_part(&files, &only_secret()));
        has_all_but(&files, &place, &id)?;
    }
    Ok(())
}

#[test]
fn gc_takes_the_rest_of_a_purge_along_and_joins_nothing_of_it() -> Outcome {
    let (files, place) = filled()?;
    let id = id_of(&place, "main", "secret")?;
    let pack = files.names();
    let has_secret = |name: &&String| {
        let one = MemFiles::default();
        one.set(name, files.content(name).unwrap_or_default());
        has_part(&one, &only_secret())
    };
    let stray = pack.iter().find(has_secret).ok_or("a pack")?;
    let old = files.content(stray).ok_or("a pack")?;
    purge_here(&place, "secret")?;
    purge_there(&files, &place)?;
    // An upload that ends after the purge has listed the files.
    files.set(stray, old);
    let spares_young = FreeOptions {
        young_from: 0,
        joins: Joins::Small,
        ..options()
    };
    let known = newest(&files).ok();
    let done = free(&collector(&files, &place), known, &spares_young)?;
    assert_eq!(done.strays, 1, "gc spares nothing young after a purge");
    assert!(!has_part(&files, &only_secret()));
    has_all_but(&files, &place, &id)?;
    // Many small packs are joined after it.
    for n in 0..9 {
        let tip = place.commit(&[("more", noise(900 + n, 3000))])?;
        place
            .push(&files, newest(&files)?, "main", &tip)?
            .ok_or("moved")?;
    }
    let known = newest(&files).ok();
    let done = free(&collector(&files, &place), known, &spares_young)?;
    assert!(done.joined.packs > 8, "{done:?}");
    assert!(!has_part(&files, &only_secret()));
    has_all_but(&files, &place, &id)
}

#[test]
fn who_still_stores_purged_content_cannot_push_it() -> Outcome {
    let (files, ada) = filled()?;
    purge_here(&ada, "secret")?;
    purge_there(&files, &ada)?;
    let bob = Place::new()?;
    bob.commit(&[("secret", secret())])?;
    let moved = bob.commit(&[("moved", secret())])?;
    let refused = bob.push(&files, newest(&files)?, "bob", &moved);
    let Err(PushError::Purged { files: 1, why }) = refused else {
        return Err(format!("{refused:?}").into());
    };
    assert_eq!(*why, self::why());
    assert!(!has_part(&files, &only_secret()));
    assert_eq!(newest(&files)?.0.view.len(), 1);
    // Once it is purged at his, too, the push leaves it out.
    purge_here(&bob, "secret")?;
    bob.push(&files, newest(&files)?, "bob", &moved)?
        .ok_or("moved")?;
    assert!(!has_part(&files, &only_secret()));
    assert_eq!(newest(&files)?.0.purges.count, 1);
    // A file that needs a part of it, which no other file has, is refused.
    let eve = Place::new()?;
    let part = eve.commit(&[("part", [only_secret(), noise(4, 50_000)].concat())])?;
    let refused = eve.push(&files, newest(&files)?, "eve", &part);
    assert!(
        matches!(refused, Err(PushError::Purged { .. })),
        "{refused:?}"
    );
    assert!(!has_part(&files, &only_secret()));
    Ok(())
}

#[test]
fn uploads_from_before_a_purge_are_not_listed_and_go_with_the_next_push() -> Outcome {
    let (start, ada) = filled()?;
    let bob = Place::new()?;
    // A pack in two parts, which are noted, and a pack of metadata.
    let large = noise(78, 20 << 16);
    let tip = bob.commit(&[("secret", secret()), ("large", large)])?;
    purge_here(&ada, "secret")?;
    let mut uploads = 0;
    for requests in 2..6 {
        let (files, notes) = (copy(&start), tempfile::tempdir()?);
        let push = |root, purged| {
            let with = BucketAccess {
                purged,
                ..BucketAccess::new(&files, bob.repo.store(), &bob.job, Some(notes.path()))
            };
            let change = Change {
                key: "branch/bob".to_owned(),
                old: None,
                new: Some(tip.as_bytes().to_vec()),
            };
            push(&with, root, vec![change], &stamp())
        };
        let before = files.names();
        let known = newest(&files)?;
        files.cut_after(Some(requests));
        assert!(push(known, Default::default()).is_err());
        files.cut_after(None);
        // The store shows the files only after the purge.
        let mut late = Vec::new();
        for name in files.names() {
            if !before.contains(&name) {
                late.push((name.clone(), files.content(&name).unwrap_or_default()));
                files.remove(&name);
            }
        }
        uploads += late.len();
        purge_there(&files, &ada)?;
        late.iter()
            .for_each(|(name, bytes)| files.set(name, bytes.clone()));
        let refused = push(newest(&files)?, Default::default());
        assert!(
            matches!(refused, Err(PushError::Purged { .. })),
            "{refused:?}"
        );
        assert!(!has_part(&files, &only_secret()), "cut after {requests}");
        // As after a purge at his.
        let id = ada.repo.purges()?[0].files.clone();
        let purged = id.into_iter().map(|id| (id, Arc::new(why()))).collect();
        push(newest(&files)?, purged)?.ok_or("moved")?;
        assert!(!has_part(&files, &only_secret()), "cut after {requests}");
        let (root, _) = newest(&files)?;
        assert!(content(&files, &root)?.has(&tip));
    }
    assert!(uploads > 0, "no upload had ended");
    Ok(())
}

#[test]
fn a_push_says_why_content_is_absent_that_was_purged_on_the_device_alone() -> Outcome {
    let (files, root) = bucket()?;
    let place = Place::new()?;
    let mut all = ten_files(7);
    all.push(("secret", secret()));
    let tip = place.commit(&all)?;
    let id = id_of(&place, "main", "secret")?;
    purge_here(&place, "secret")?;
    place.push(&files, root, "main", &tip)?.ok_or("moved")?;
    assert!(!has_part(&files, &only_secret()));
    has_all_but(&files, &place, &id)?;
    let told = buried(&files)?;
    assert_eq!((told.files, told.pieces.len()), ([id].into(), 0));
    assert_eq!(
        (
            newest(&files)?.0.purges.count,
            newest(&files)?.0.purges.unpurged
        ),
        (1, 0)
    );
    Ok(())
}

#[test]
fn a_local_purge_says_nothing_of_content_that_the_bucket_has() -> Outcome {
    let (files, place) = filled()?;
    std::fs::rename(
        place.dir.path().join("secret"),
        place.dir.path().join("elsewhere"),
    )?;
    let tip = place.commit(&[("other", noise(40, 3000))])?;
    purge_here(&place, "secret")?;
    let known = newest(&files)?;
    place.push(&files, known, "main", &tip)?.ok_or("moved")?;
    let (root, _) = newest(&files)?;
    assert_eq!((root.purges.count, root.encode()?[8]), (0, 1));
    assert!(has_part(&files, &only_secret()), "the bucket keeps it");
    Ok(())
}

#[test]
fn two_purges_and_a_push_in_between_add_up() -> Outcome {
    let (files, ada) = filled()?;
    let id = id_of(&ada, "main", "secret")?;
    purge_here(&ada, "secret")?;
    // The first attempt at the root is lost, because of this push.
    let more = ada.commit(&[("later", noise(50, 4000))])?;
    ada.push(&files, newest(&files)?, "side", &more)?
        .ok_or("moved")?;
    files.fail(&[Fault::Lost, Fault::AnswerLost]);
    purge_there(&files, &ada)?;
    purge_here(&ada, "stays")?;
    files.fail(&[Fault::AnswerLost, Fault::Lost]);
    purge_there(&files, &ada)?;
    let (root, _) = newest(&files)?;
    assert_eq!((root.purges.count, root.purges.unpurged), (2, 0));
    assert!(!has_part(&files, &only_secret()));
    assert!(!has_part(&files, &noise(1, 200_000)));
    assert!(buried(&files)?.files.contains(&id));
    // The page of the first purge was written anew, and gc takes the old one.
    let named = root.rows.len() + root.pages().count() + 1;
    assert_eq!(files.names().len(), named + 1);
    Ok(())
}
