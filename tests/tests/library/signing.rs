//! Signed commits: which commands sign what they make, and what they leave unsigned.

use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::signature::Signature;
use dmv_core::repo::{
    Access, CommitOptions, FastForward, KnownSigners, MergeOptions, OperationRequest, Peer,
    PickFrom, PickOptions, Repo, RepoError, ResetFiles, StashOptions, Who,
};
use dmv_core::worktree::select::Paths;
use dmv_net::identity::DeviceKey;
use dmv_tests::peers::{Done, Place};
use dmv_tests::rng::Rng;
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

/// Commits everything, some seconds after the time at which tests begin.
fn commit_at(repo: &Repo, seconds: i64, message: &str, amend: bool) -> Done<ObjectId> {
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
        request: later(seconds),
    };
    let made = repo.commit(options, &Job::default())?.commit;
    Ok(made.ok_or("no commit")?)
}

fn later(seconds: i64) -> OperationRequest {
    let mut request = request("later");
    request.time.seconds += seconds;
    request
}

fn peer(key: &DeviceKey, name: &str) -> Peer {
    Peer {
        key: key.public(),
        name: name.to_owned(),
        access: Access::Read,
    }
}

/// Returns what a check says of a commit: the word, and the name.
fn checked(
    repo: &Repo,
    known_signers: &KnownSigners,
    id: &ObjectId,
) -> Done<(&'static str, Option<String>)> {
    let checker = repo.signature_checker(known_signers)?;
    let check = checker.check(id, &repo.read_commit(id)?)?;
    Ok((check.state.word(), check.name))
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
    let commit = |message, amend| commit_at(&repo, 0, message, amend);
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
    let reverted_id = reverted.commit;
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
    // Who does not sign loses signatures, also one's own; a commit that stays as it is keeps its own.
    let unsigned = place.again()?;
    let from = [PickFrom::One(reverted_id)];
    let copied = unsigned.cherry_pick(&from, PickOptions::default(), &merging("pick"), &job)?;
    for (one, other, is_lost) in [
        (one, amended, false),
        (amended, amended, false),
        (reverted_id, copied.merge.commit, true),
        (copied.merge.commit, reverted_id, false),
    ] {
        assert_eq!(repo.loses_signature(&one, &other)?, is_lost);
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

#[test]
fn a_signature_is_good_if_its_key_is_known() -> Done {
    let (place, key) = (Place::with_files(1, 1, 10)?, DeviceKey::generate());
    let unsigned = place.tip()?;
    let repo = signing(&place, &key)?;
    let id = commit_at(&repo, 0, "signed", false)?;
    let stranger = KnownSigners::default();
    let says = |known_signers: &KnownSigners, id: &ObjectId| checked(&repo, known_signers, id);
    let good = |name: &str| ("good", Some(name.to_owned()));
    assert_eq!(says(&stranger, &unsigned)?, ("none", None));
    assert_eq!(says(&stranger, &id)?, ("unknown-key", None));
    let mut known_signers = KnownSigners {
        own: Some(key.public()),
        ..KnownSigners::default()
    };
    assert_eq!(says(&known_signers, &id)?, good("this device"));
    known_signers.own = None;
    known_signers.devices = vec![(key.public(), "desk".to_owned())];
    assert_eq!(says(&known_signers, &id)?, good("desk"));
    repo.trust(&peer(&key, "nas"), request("trust"))?;
    assert_eq!(says(&stranger, &id)?, good("nas"));
    // The user's own names go first.
    assert_eq!(says(&known_signers, &id)?, good("desk"));
    Ok(())
}

#[test]
fn who_was_trusted_when_a_commit_arrived_has_signed_it() -> Done {
    let (place, key) = (Place::with_files(1, 1, 10)?, DeviceKey::generate());
    let repo = signing(&place, &key)?;
    let before = commit_at(&repo, 0, "before it was trusted", false)?;
    repo.trust(&peer(&key, "nas"), later(10))?;
    let during = commit_at(&repo, 20, "while it was trusted", false)?;
    repo.untrust(&key.public(), later(30))?;
    let after = commit_at(&repo, 40, "after that", false)?;
    let named = KnownSigners {
        devices: vec![(key.public(), "desk".to_owned())],
        ..KnownSigners::default()
    };
    let name = Some("nas".to_owned());
    let stranger = KnownSigners::default();
    assert_eq!(checked(&repo, &stranger, &before)?, ("good", name.clone()));
    assert_eq!(checked(&repo, &stranger, &during)?, ("good", name.clone()));
    assert_eq!(checked(&repo, &stranger, &after)?, ("unknown-key", name));
    // A name is no trust where this was taken away.
    let name = Some("desk".to_owned());
    assert_eq!(
        checked(&repo, &named, &after)?,
        ("unknown-key", name.clone())
    );
    repo.trust(&peer(&key, "nas"), later(50))?;
    assert_eq!(checked(&repo, &named, &after)?, ("good", name));
    Ok(())
}

#[test]
fn a_hostile_signature_is_bad_or_unknown() -> Done {
    let (place, key) = (Place::with_files(1, 1, 10)?, DeviceKey::generate());
    let repo = signing(&place, &key)?;
    let id = commit_at(&repo, 0, "signed", false)?;
    let other = commit_at(&repo, 0, "another", false)?;
    let known_signers = KnownSigners {
        own: Some(key.public()),
        ..KnownSigners::default()
    };
    let checker = repo.signature_checker(&known_signers)?;
    let mut commit = repo.read_commit(&id)?;
    let mut says = |signature: Vec<u8>| -> Done<&'static str> {
        commit.signature = Some(signature);
        // What is stored and sent has the same bytes.
        commit = dmv_core::object::commit::Commit::decode(&commit.encode()?)?;
        Ok(checker.check(&id, &commit)?.state.word())
    };
    let good = repo.read_commit(&id)?.signature.ok_or("signed")?;
    assert_eq!(says(good.clone())?, "good");
    for len in 1..good.len() {
        assert_eq!(says(good[..len].to_vec())?, "bad", "{len}");
    }
    let foreign = repo.read_commit(&other)?.signature.ok_or("signed")?;
    assert_eq!(says(foreign)?, "bad");
    for kind in 0..=255_u8 {
        let noise = [&[kind][..], &Rng::new(kind.into()).bytes(96)].concat();
        assert_eq!(says(noise)?, "bad", "{kind}");
    }
    assert_eq!(says(Rng::new(1).bytes(16 << 10))?, "bad");
    let ssh = [&b"\x02SSHSIG"[..], &Rng::new(2).bytes((16 << 10) - 7)].concat();
    assert_eq!(says(ssh)?, "unknown-key");
    Ok(())
}
