//! A store that answers some requests of a command, and then refuses all others: whatever the reason and
//! the moment, the command says the reason, nothing is lost, and the same command then goes on.

use super::gc::{FreeOptions, Joins, free};
use super::push::PushError;
use super::push::tests::{
    Outcome, Place, bucket, content, is_complete, newest, noise, stamp, ten_files,
};
use super::undo::{UndoError, Which, undo};
use crate::files::memory::MemFiles;
use crate::format::{Name, Root};
use crate::machines::{Limits, Tag};
use crate::work::access::BucketAccess;
use dmv_core::hash::ObjectId;
use dmv_net::trouble::Trouble;

/// More requests than any command here makes.
const MOST: usize = 100;

/// Reasons that stay.
fn reasons() -> [Trouble; 8] {
    let word = || "a word".to_owned();
    [
        Trouble::NoBucket,
        Trouble::Keys(word()),
        Trouble::Expired,
        Trouble::Denied(word()),
        Trouble::Clock(Some(1200)),
        Trouble::Region(None),
        Trouble::Cold,
        Trouble::Full(word()),
    ]
}

/// A command at a bucket, and the root that it knows.
type Work<'w> = &'w dyn Fn(&MemFiles, (Root, Tag)) -> Result<(), PushError>;

/// Runs `work` on a new bucket for each number of requests that are answered, until it succeeds. After
/// each failure it must succeed without trouble.
fn refuse_each(
    trouble: &Trouble,
    set_up: &dyn Fn() -> Outcome<(MemFiles, ObjectId)>,
    work: Work<'_>,
) -> Outcome {
    for requests in 0..MOST {
        let (files, tip) = set_up()?;
        let known = newest(&files)?;
        files.refuse_after(requests, trouble.clone());
        let done = work(&files, known);
        files.cut_after(None);
        // Whatever happened, what was there is there.
        is_complete(&content(&files, &newest(&files)?.0)?, &tip)?;
        let at = |e: &dyn std::fmt::Debug| format!("{trouble:?} after {requests} requests: {e:?}");
        match done {
            Ok(()) => return Ok(()),
            Err(PushError::Trouble(said)) if said == *trouble => {}
            Err(e) => return Err(at(&e).into()),
        }
        work(&files, newest(&files)?).map_err(|e| at(&e))?;
        is_complete(&content(&files, &newest(&files)?.0)?, &tip)?;
    }
    Err("it never ends".into())
}

/// A bucket with some small pushes, and what an interrupted one has left. Also the newest commit there.
fn pushed(ada: &Place, tips: &[ObjectId]) -> Outcome<(MemFiles, ObjectId)> {
    let (files, root) = bucket()?;
    let mut known = root;
    for tip in tips {
        let done = ada.push(&files, known, "main", tip)?.ok_or("moved")?;
        known = *done.root;
    }
    let stray = Name([99; 16]).path(known.0.repository);
    files.set(&stray, noise(5, 1000));
    let last = tips.last().ok_or("no commit")?;
    Ok((files, *last))
}

fn commits(ada: &Place, count: u8) -> Outcome<Vec<ObjectId>> {
    let mut tips = vec![ada.commit(&ten_files(1))?];
    for n in 1..count {
        tips.push(ada.commit(&[("d1/more", vec![n; 3000])])?);
    }
    Ok(tips)
}

#[test]
fn a_push_that_is_refused_at_any_request_says_why_and_goes_on() -> Outcome {
    let ada = Place::new()?;
    let tips = commits(&ada, 2)?;
    let next = ada.commit(&[("d1/next", noise(3, 3000))])?;
    for trouble in reasons() {
        refuse_each(&trouble, &|| pushed(&ada, &tips), &|files, root| {
            ada.push(files, root, "main", &next).map(|_| ())
        })?;
    }
    Ok(())
}

#[test]
fn a_large_push_into_a_store_that_gets_full_goes_on_when_it_has_room() -> Outcome {
    let ada = Place::new()?;
    let tips = commits(&ada, 1)?;
    let next = ada.commit(&[("large", noise(3, 20 << 16))])?;
    let full = Trouble::Full("a quota".to_owned());
    refuse_each(&full, &|| pushed(&ada, &tips), &|files, root| {
        ada.push(files, root, "main", &next).map(|_| ())
    })
}

#[test]
fn gc_and_joins_that_are_refused_at_any_request_say_why_and_go_on() -> Outcome {
    let ada = Place::new()?;
    let tips = commits(&ada, 6)?;
    for (trouble, joins) in reasons()
        .into_iter()
        .zip([Joins::Small, Joins::None].into_iter().cycle())
    {
        refuse_each(&trouble, &|| pushed(&ada, &tips), &|files, _| {
            let with = BucketAccess::new(files, ada.repo.store(), &ada.job, None);
            let options = FreeOptions {
                stamp: stamp(),
                forget_before: Some(i64::MAX),
                young_from: i64::MAX,
                joins,
                dry_run: false,
                purge: None,
                limits: Limits {
                    kept: 1,
                    ..Limits::default()
                },
            };
            let done = free(&with, None, &options)?;
            if done.all_deleted {
                Ok(())
            } else {
                Err(PushError::Trouble(trouble.clone()))
            }
        })?;
    }
    Ok(())
}

#[test]
fn an_undo_that_is_refused_at_any_request_says_why_and_goes_on() -> Outcome {
    let ada = Place::new()?;
    let tips = commits(&ada, 3)?;
    for trouble in reasons() {
        refuse_each(
            &trouble,
            // What is taken back leads to what stays.
            &|| Ok((pushed(&ada, &tips)?.0, tips[1])),
            &|files, _| {
                let with = BucketAccess::new(files, ada.repo.store(), &ada.job, None);
                match undo(&with, None, &Which::Last, stamp()) {
                    Ok(_) => Ok(()),
                    Err(UndoError::Failed(e)) => Err(e),
                    Err(UndoError::Refused(e)) => Err(Trouble::Other(e.to_string()).into()),
                }
            },
        )?;
    }
    Ok(())
}
