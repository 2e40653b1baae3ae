//! Signed commits: which commands sign what they make, and what they leave unsigned.

use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::signature::Signature;
use dmv_core::repo::{
    CommitOptions, FastForward, MergeOptions, PickFrom, PickOptions, Repo, RepoError, ResetFiles,
    StashOptions, Who,
};
use dmv_core::worktree::select::Paths;
use dmv_net::identity::DeviceKey;
use dmv_tests::peers::{Done, Place};
use dmv_tests::scratch::request;

fn who() -> Who {
    Who {
        name: "Test".into(),
        email: String::new(),
    }
}

fn merging(message: &str) -> MergeOptions {
    MergeOptions {
        message: message.to_owned(),
        committer: who(),
        settings: Default::default(),
        request: request(message),
    }
}

fn stashing() -> StashOptions {
    StashOptions {
        committer: who(),
        settings: Default::default(),
        request: request("stash"),
    }
}

/// Opens the repository as a user does who signs commits.
fn signing(place: &Place, key: &DeviceKey) -> Done<Repo> {
    let (repo, key) = (place.again()?, key.clone());
    repo.sign_commits_by(Box::new(move |statement| Ok(key.sign_commit(statement))));
    Ok(repo)
}

fn is_signed(repo: &Repo, id: &ObjectId, key: &DeviceKey) -> Done<bool> {
    let commit = repo.read_commit(id)?;
    let Some(signature) = commit.signature.as_deref().and_then(Signature::decode) else {
        return Ok(false);
    };
    assert_eq!(signature.key(), key.public().as_bytes());
    assert!(signature.is_by_device(&commit.statement()?));
    Ok(true)
}

#[test]
fn every_commit_that_a_user_makes_is_signed() -> Done {
    let (place, key) = (Place::with_files(1, 3, 10)?, DeviceKey::generate());
    let unsigned = place.tip()?;
    let repo = signing(&place, &key)?;
    let job = Job::default();
    let commit = |message: &str, amend| -> Done<ObjectId> {
        let options = CommitOptions {
            message: Some(message.to_owned()),
            author: None,
            date: None,
            committer: who(),
            select: &Paths::default(),
            amend,
            allow_empty: true,
            allow_markers: false,
            refuse_large: None,
            settings: Default::default(),
            request: request(message),
        };
        Ok(repo.commit(options, &job)?.commit.ok_or("no commit")?)
    };
    assert!(!is_signed(&repo, &unsigned, &key)?);
    place.write("one", b"1")?;
    let one = commit("one", false)?;
    let amended = commit("one again", true)?;
    for id in [one, amended] {
        assert!(is_signed(&repo, &id, &key)?);
    }

    let back = |to: ObjectId| {
        repo.reset(
            to,
            ResetFiles::Match,
            &request("reset"),
            &Default::default(),
            &job,
        )
    };
    back(unsigned)?;
    place.write("two", b"2")?;
    let two = commit("two", false)?;
    let merged = repo.merge(amended, FastForward::Auto, &merging("merge"), &job)?;
    let reverted = repo.revert(two, None, &merging("revert"), &job)?;
    back(two)?;
    let picked = repo.cherry_pick(
        &[PickFrom::One(amended)],
        PickOptions::default(),
        &merging("pick"),
        &job,
    )?;
    back(two)?;
    let rebased = repo.rebase(amended, amended, &merging("rebase"), &job)?;
    for report in [merged, reverted, picked.merge, rebased.merge] {
        assert!(is_signed(&repo, &report.commit, &key)?);
    }
    // A stash is no commit of a history, and is thrown away.
    place.write("three", b"3")?;
    repo.stash_push(&Paths::default(), None, &stashing(), &job)?;
    let [stash] = &repo.stashes()?[..] else {
        return Err("one stash".into());
    };
    assert!(!is_signed(&repo, &stash.commit, &key)?);
    Ok(())
}

#[test]
fn a_commit_that_cannot_be_signed_is_not_made() -> Done {
    let place = Place::with_files(1, 1, 10)?;
    let (repo, before) = (place.again()?, place.tip()?);
    repo.sign_commits_by(Box::new(|_| Err("no key".to_owned())));
    place.write("one", b"1")?;
    let failed = dmv_tests::scratch::commit(&repo, "one");
    assert!(matches!(failed, Err(RepoError::Unsigned(why)) if why == "no key"));
    assert_eq!(place.tip()?, before);
    Ok(())
}
