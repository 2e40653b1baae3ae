//! Expiring at a bucket in memory that real pushes have filled, by the keep rules of its branch.

use super::*;
use crate::files::memory::{Fault, MemFiles};
use crate::format::{Page, Reason};
use crate::work::push::each_chunk;
use crate::work::push::tests::{Outcome, Place, bucket, content, newest, noise, stamp};
use crate::work::undo::{NotUndone, UndoError, Which, undo};
use dmv_core::job::Job;
use dmv_core::object::name::RepoPath;
use dmv_core::object::tree::lookup_path;
use dmv_core::repo::{ElsewhereView, ExpireOptions, Expiry, OperationRequest, Repo};
use dmv_core::subset::Subset;

const NIGHTLY: usize = 600_000;

/// What happens in the bucket between the choice of files and its publication.
type Meanwhile<'a> = Box<dyn FnOnce() -> Outcome + 'a>;

/// Chooses by the keep rules of `main`.
struct ByRules<'a> {
    place: &'a Place,
    meanwhile: Option<Meanwhile<'a>>,
    choices: u32,
}

impl<'a> ByRules<'a> {
    fn of(place: &'a Place) -> ByRules<'a> {
        ByRules {
            place,
            meanwhile: None,
            choices: 0,
        }
    }
}

impl Expirer for ByRules<'_> {
    fn choose(
        &mut self,
        view: &View,
        absent: &BTreeSet<ObjectId>,
    ) -> Result<Option<Expirations>, PushError> {
        self.choices += 1;
        let repo = &self.place.repo;
        let id = |value: &Vec<u8>| ObjectId::from_bytes(value[..].try_into().expect("an id"));
        let branches: BTreeSet<ObjectId> = view.values().map(id).collect();
        let rules = repo.keep_rules_of(&id(&view["branch/main"]))?;
        let there = ElsewhereView {
            branches,
            absent: absent.clone(),
            ..ElsewhereView::default()
        };
        let found = repo.expirable_elsewhere(&rules, &there, &what(), &self.place.job)?;
        let mut expiring = Expirations::new();
        for file in found.files {
            let files = expiring.entry(Expiry::clone(&file.why)).or_default();
            files.insert(file.blob.id);
        }
        if let Some(meanwhile) = self.meanwhile.take() {
            meanwhile().map_err(|e| PushError::Caller(e.to_string().into()))?;
        }
        Ok(Some(expiring))
    }

    fn confirm(&mut self) -> Result<(), PushError> {
        Ok(())
    }
}

fn what() -> ExpireOptions {
    ExpireOptions {
        paths: Subset::everything(),
        max_bytes: None,
        now: 1_800_000_000,
    }
}

fn options() -> FreeOptions {
    FreeOptions {
        stamp: stamp(),
        forget_before: None,
        young_from: i64::MAX,
        joins: Joins::Wasted,
        purge: None,
        dry_run: false,
        limits: Limits {
            kept: 1,
            ..Limits::default()
        },
    }
}

fn access<'a>(files: &'a MemFiles, place: &'a Place) -> BucketAccess<'a> {
    let dir = Some(place.notes.path());
    BucketAccess::new(files, place.repo.store(), &place.job, dir)
}

fn run_expiry(files: &MemFiles, place: &Place, dry_run: bool) -> Outcome<FreeReport> {
    let options = FreeOptions {
        dry_run,
        ..options()
    };
    let known = newest(files).ok();
    let with = access(files, place);
    Ok(expire(&with, known, &options, &mut ByRules::of(place))?)
}

fn nightly(n: u64) -> Vec<u8> {
    // Neighbouring seeds give the same bytes.
    noise(1000 + 2 * n, NIGHTLY)
}

/// A bucket with so many versions of a nightly file, each pushed by itself, and another file. Of the nightlies
/// one is to stay. Returns the commits, too.
fn filled(versions: u64) -> Outcome<(MemFiles, Place, Vec<ObjectId>)> {
    let (files, mut root) = bucket()?;
    let place = Place::new()?;
    let mut tips = Vec::new();
    for n in 0..versions {
        let mut all = vec![("nightly/app", nightly(n))];
        if n == 0 {
            all.push((".dmvattributes", b"/nightly/** keep=last:1\n".to_vec()));
            all.push(("source", noise(5, 50_000)));
        }
        let tip = place.commit(&all)?;
        let done = place.push(&files, root, "main", &tip)?.ok_or("moved")?;
        root = *done.root;
        tips.push(tip);
    }
    Ok((files, place, tips))
}

fn id_at(place: &Place, commit: &ObjectId, path: &str) -> Outcome<ObjectId> {
    let commit = place.repo.read_commit(commit)?;
    let path: RepoPath = Repo::parse_path(path.as_bytes())?;
    let entry = lookup_path(place.repo.objects(), &commit.tree, &path)?;
    Ok(entry.ok_or("it is there")?.id)
}

/// A chunk of a commit's nightly file.
fn chunk_of(place: &Place, commit: &ObjectId) -> Outcome<ObjectId> {
    let list = id_at(place, commit, "nightly/app")?;
    let mut first = None;
    each_chunk(place.repo.store(), &list, &mut |id, _| {
        first = first.or(Some(*id));
        Ok(())
    })?;
    Ok(first.ok_or("a chunk")?)
}

/// The files that the bucket says have expired.
fn listed(files: &MemFiles) -> Outcome<BTreeSet<ObjectId>> {
    let (root, _) = newest(files)?;
    let mut all = BTreeSet::new();
    for page in &root.expired {
        let bytes = files.content(&page.name.path(root.repository));
        let page = Page::decode(&bytes.ok_or("a page is missing")?)?;
        let listed = Expiry::listed_on(&page).ok_or("another page")?;
        all.extend(ids_of(listed));
    }
    Ok(all)
}

/// Fails unless the bucket has all that its branches and its log lead to, apart from listed files, and all that
/// its branches have at their tips.
fn is_complete_but_for_listed(files: &MemFiles, place: &Place) -> Outcome {
    let (root, _) = newest(files)?;
    let there = content(files, &root)?;
    let id = |value: &Vec<u8>| ObjectId::from_bytes(value[..].try_into().expect("an id"));
    let tips: Vec<ObjectId> = root.view.values().flatten().map(id).collect();
    let changes = root.log.iter().flat_map(|entry| &entry.operation.changes);
    let logged = changes.flat_map(|change| change.old.iter().chain(&change.new));
    let all: Vec<ObjectId> = logged.map(id).chain(tips.iter().copied()).collect();
    let listed = listed(files)?;
    let of_tips = Filter {
        depth: 1,
        ..Filter::default()
    };
    let of_all = Filter {
        dropped: listed,
        ..Filter::default()
    };
    for (tips, filter) in [(tips, of_tips), (all, of_all)] {
        let reach = Reach::filtered(tips, [], Detail::All, filter);
        let mut reach = reach.skipping_chunks();
        while let Some(found) = reach.next(place.repo.store())? {
            assert!(there.has(&found.id), "{:?} {} is gone", found.ty, found.id);
        }
    }
    Ok(())
}

fn sizes(files: &MemFiles) -> Outcome<u64> {
    let (root, _) = newest(files)?;
    Ok(root.rows.iter().map(|row| row.len).sum())
}

#[test]
fn an_expiry_frees_what_its_preview_says_and_all_else_stays() -> Outcome {
    let (files, place, tips) = filled(12)?;
    let before = sizes(&files)?;
    let foretold = run_expiry(&files, &place, true)?;
    assert_eq!(listed(&files)?.len(), 0, "a preview changes nothing");
    let done = run_expiry(&files, &place, false)?;
    assert!(done.all_deleted, "{done:?}");
    let freed = |report: &FreeReport| {
        report.bytes + report.joined.bytes - report.joined.new_bytes.min(report.joined.bytes)
    };
    let (said, did) = (freed(&foretold), freed(&done));
    assert!(did > 11 * NIGHTLY as u64, "{did}");
    assert!(said.abs_diff(did) < did / 20, "{said} and {did}");
    assert!(before - sizes(&files)? > 11 * NIGHTLY as u64);
    let (root, _) = newest(&files)?;
    assert_eq!(root.encode()?[8], 3);
    let expired: Outcome<BTreeSet<_>> = tips[..11]
        .iter()
        .map(|tip| id_at(&place, tip, "nightly/app"))
        .collect();
    assert_eq!(listed(&files)?, expired?);
    is_complete_but_for_listed(&files, &place)?;
    let there = content(&files, &root)?;
    assert!(tips.iter().all(|tip| there.has(tip)), "commits stay");
    let again = run_expiry(&files, &place, false)?;
    assert_eq!((again.packs, again.joined.packs), (0, 0));
    assert_eq!(newest(&files)?.0, root);
    Ok(())
}

#[test]
fn a_push_of_an_old_commit_brings_its_expired_files_again() -> Outcome {
    let (files, place, tips) = filled(4)?;
    run_expiry(&files, &place, false)?;
    let old = chunk_of(&place, &tips[1])?;
    let (root, _) = newest(&files)?;
    assert!(!content(&files, &root)?.has(&old));
    place
        .push(&files, newest(&files)?, "release", &tips[1])?
        .ok_or("moved")?;
    let (root, _) = newest(&files)?;
    assert!(content(&files, &root)?.has(&old));
    assert_eq!(listed(&files)?.len(), 2);
    is_complete_but_for_listed(&files, &place)?;
    // It is a tip now, so the next expiry leaves it alone.
    run_expiry(&files, &place, false)?;
    assert_eq!(listed(&files)?.len(), 2);
    is_complete_but_for_listed(&files, &place)?;
    for (branch, tip) in [("a", &tips[0]), ("b", &tips[2])] {
        place.push(&files, newest(&files)?, branch, tip)?;
    }
    let (root, _) = newest(&files)?;
    assert_eq!((root.expired.len(), root.encode()?[8]), (0, 1));
    is_complete_but_for_listed(&files, &place)
}

#[test]
fn a_push_without_an_expired_file_that_it_needs_fails() -> Outcome {
    let (files, place, tips) = filled(3)?;
    run_expiry(&files, &place, false)?;
    // The device gives it up, too.
    let (rules, job) = (place.repo.keep_rules()?, Job::default());
    let found = place.repo.expirable(&rules, &what(), &job)?;
    let request = OperationRequest {
        time: stamp().time,
        who: "test".to_owned(),
        command: "expire".to_owned(),
    };
    let freeing = place.repo.begin_to_free()?;
    freeing.expire(&found, &[], (&rules, &what()), request, &mut || true, &job)?;
    drop(freeing);
    let before = newest(&files)?;
    let failed = place.push(&files, before.clone(), "release", &tips[0]);
    match failed {
        Err(PushError::Lacking(objects)) => {
            let is_content = |ty: &ObjectType| *ty == ObjectType::Chunk;
            assert!(objects.iter().all(|(ty, _)| is_content(ty)), "{objects:?}");
        }
        other => return Err(format!("{other:?}").into()),
    }
    assert_eq!(newest(&files)?.0, before.0);
    // The newest commit needs nothing of the kind.
    place
        .push(&files, before, "same", &tips[2])?
        .ok_or("moved")?;
    Ok(())
}

#[test]
fn what_a_push_needs_meanwhile_does_not_expire() -> Outcome {
    let (files, place, tips) = filled(3)?;
    let (with, options) = (access(&files, &place), options());
    let push = || {
        place.push(&files, newest(&files)?, "release", &tips[0])?;
        Ok(())
    };
    let mut rules = ByRules {
        meanwhile: Some(Box::new(push)),
        ..ByRules::of(&place)
    };
    expire(&with, newest(&files).ok(), &options, &mut rules)?;
    assert_eq!(rules.choices, 2, "another root, another choice");
    let expired = id_at(&place, &tips[1], "nightly/app")?;
    assert_eq!(listed(&files)?, [expired].into());
    is_complete_but_for_listed(&files, &place)
}

#[test]
fn an_expiry_whose_answers_are_lost_happens_once() -> Outcome {
    for faults in [
        &[Fault::Lost][..],
        &[Fault::AnswerLost],
        &[Fault::Lost, Fault::AnswerLost],
        &[Fault::AnswerLost, Fault::Lost],
    ] {
        let (files, place, _) = filled(4)?;
        let before = newest(&files)?.0.last.0;
        files.fail(faults);
        let done = run_expiry(&files, &place, false)?;
        assert!(done.all_deleted, "{faults:?}: {done:?}");
        assert_eq!(newest(&files)?.0.last.0, before + 1, "{faults:?}");
        assert_eq!(listed(&files)?.len(), 3, "{faults:?}");
        is_complete_but_for_listed(&files, &place)?;
    }
    Ok(())
}

#[test]
fn an_expiry_that_is_cut_anywhere_loses_nothing_and_goes_on() -> Outcome {
    let mut ended = false;
    for requests in 0..200 {
        let (files, place, _) = filled(3)?;
        files.cut_after(Some(requests));
        ended = run_expiry(&files, &place, false).is_ok();
        files.cut_after(None);
        is_complete_but_for_listed(&files, &place)?;
        if ended {
            break;
        }
        run_expiry(&files, &place, false)?;
        assert_eq!(listed(&files)?.len(), 2, "cut after {requests}");
        is_complete_but_for_listed(&files, &place)?;
    }
    assert!(ended, "it takes more requests than expected");
    Ok(())
}

#[test]
fn an_undo_that_needs_expired_files_is_refused() -> Outcome {
    let (files, place, tips) = filled(3)?;
    run_expiry(&files, &place, false)?;
    let before = newest(&files)?;
    let undone = undo(
        &access(&files, &place),
        Some(before.clone()),
        &Which::Last,
        stamp(),
    );
    match undone {
        Err(UndoError::Refused(NotUndone::Expired { files: 1, .. })) => {}
        other => return Err(format!("{other:?}").into()),
    }
    assert_eq!(newest(&files)?.0, before.0);
    // A push brings what the undo would need.
    place
        .push(&files, before, "old", &tips[1])?
        .ok_or("moved")?;
    undo(&access(&files, &place), None, &Which::Last, stamp())?;
    is_complete_but_for_listed(&files, &place)
}

#[test]
fn a_file_that_shares_chunks_with_an_expired_one_stays_whole() -> Outcome {
    let (files, root) = bucket()?;
    let place = Place::new()?;
    let rules = b"/nightly/** keep=none\n".to_vec();
    let first = place.commit(&[("nightly/app", nightly(1)), (".dmvattributes", rules)])?;
    place.push(&files, root, "main", &first)?.ok_or("moved")?;
    let half = nightly(1)[NIGHTLY / 2..].to_vec();
    let second = place.commit(&[("nightly/app", nightly(2)), ("kept", half)])?;
    place
        .push(&files, newest(&files)?, "main", &second)?
        .ok_or("moved")?;
    run_expiry(&files, &place, false)?;
    assert_eq!(listed(&files)?.len(), 1);
    is_complete_but_for_listed(&files, &place)?;
    // Now the first half is gone, and a new file needs it.
    let third = place.commit(&[("nightly/app", nightly(1)), ("also", nightly(1))])?;
    place
        .push(&files, newest(&files)?, "main", &third)?
        .ok_or("moved")?;
    is_complete_but_for_listed(&files, &place)?;
    let joined = [&nightly(1)[..], &noise(77, 9000)].concat();
    run_expiry(&files, &place, false)?;
    let fourth = place.commit(&[("nightly/app", noise(78, 10)), ("also", joined)])?;
    place
        .push(&files, newest(&files)?, "main", &fourth)?
        .ok_or("moved")?;
    run_expiry(&files, &place, false)?;
    is_complete_but_for_listed(&files, &place)
}
