//! A job that fails after its objects were read leaves nothing that counts as stored.

use crate::object::{ObjectType, ObjectWrite};
use crate::refs::{Change, Effect, RefsError, Timestamp};
use crate::repo::{DMV_DIR, OperationRequest, Repo, RepoError, RepositoryLocation};
use crate::store::{FinishedJob, MetaWriter};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn request() -> OperationRequest {
    let time = Timestamp {
        seconds: 0,
        nanos: 0,
        tz_minutes: 0,
    };
    let (who, command) = ("test".to_owned(), "test".to_owned());
    OperationRequest { time, who, command }
}

fn repository() -> Outcome<(tempfile::TempDir, Repo)> {
    let dir = tempfile::tempdir()?;
    let repo = Repo::init(dir.path(), "main", false, request())?;
    Ok((dir, repo))
}

/// Opens the repository again, as another process would.
fn afresh(dir: &tempfile::TempDir) -> Outcome<Repo> {
    Ok(Repo::open_place(RepositoryLocation {
        dmv: dir.path().join(DMV_DIR),
        worktree: None,
    })?)
}

fn store(repo: &Repo, bytes: &[u8]) -> Outcome<FinishedJob> {
    let writer = repo.store().writer()?;
    let mut meta = MetaWriter::new(&writer);
    meta.put(ObjectType::List, bytes)?;
    meta.flush()?;
    drop(meta);
    Ok(writer.finish()?)
}

fn branch(bytes: &[u8]) -> Change {
    Change {
        key: "branch/main".to_owned(),
        old: None,
        new: Some(ObjectType::List.id_of(bytes).as_bytes().to_vec()),
    }
}

#[test]
fn a_preview_is_read_until_its_job_ends_and_stored_again_by_the_next_job() -> Outcome {
    let (dir, repo) = repository()?;
    let (bytes, id) = (b"list", ObjectType::List.id_of(b"list"));
    let failed = store(&repo, bytes)?;
    repo.store().preview(&failed);
    assert!(repo.store().has(&id)?, "the job reads its own");
    drop(failed);
    assert!(!repo.store().has(&id)?, "nothing is left of a failed job");

    let again = store(&repo, bytes)?;
    assert_eq!(again.segments.len(), 1, "stored again");
    repo.publish(request(), Some(again), vec![branch(bytes)], Effect::Kept)?;
    assert!(repo.store().has(&id)?);
    assert!(afresh(&dir)?.store().has(&id)?, "and others find it");
    Ok(())
}

#[test]
fn a_job_in_two_parts_stores_nothing_twice() -> Outcome {
    let (_dir, repo) = repository()?;
    let first = store(&repo, b"list")?;
    repo.store().preview(&first);
    let writer = repo.store().writer_after(&first)?;
    assert!(!writer.claim(&ObjectType::List.id_of(b"list"))?);
    let both = first.join(writer.finish()?);
    assert_eq!(both.segments.len(), 1);
    repo.publish(request(), Some(both), vec![branch(b"list")], Effect::Kept)?;
    Ok(())
}

#[test]
fn nothing_is_named_that_no_listed_segment_has() -> Outcome {
    let (dir, repo) = repository()?;
    let is_refused = |done: Result<_, RepoError>| matches!(done, Err(RepoError::Refs(RefsError::NotStored { key, .. })) if key == "branch/main");
    // Stored nowhere; and then stored only by a job that is not published together with the name.
    let nowhere = repo.publish(request(), None, vec![branch(b"none")], Effect::Kept);
    assert!(is_refused(nowhere.map(drop)));
    let other = store(&repo, b"list")?;
    repo.store().preview(&other);
    let unpublished = repo.publish(request(), None, vec![branch(b"list")], Effect::Kept);
    assert!(is_refused(unpublished.map(drop)));
    // The store treats it as published by mistake. The database itself does not list the segment.
    repo.store().adopt(&other);
    let mistaken = repo.publish(request(), None, vec![branch(b"list")], Effect::Kept);
    assert!(is_refused(mistaken.map(drop)));
    assert_eq!(repo.refs().get("branch/main")?, None);
    assert_eq!(afresh(&dir)?.refs().last_operation()?, 1);
    Ok(())
}
