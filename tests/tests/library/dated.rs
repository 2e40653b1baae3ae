//! Revisions with a date: what a branch was at some time, by the operation log.

use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::refs::Timestamp;
use dmv_core::repo::{
    CheckoutOptions, CheckoutTarget, CommitOptions, OperationRequest, RefKind, Repo, RepoError,
    RevisionError, Who,
};
use dmv_tests::crashlab::Outcome;
use dmv_tests::scratch::fast_dir;

/// A request at this second.
fn at(seconds: i64) -> OperationRequest {
    OperationRequest {
        time: Timestamp {
            seconds,
            nanos: 0,
            tz_minutes: 60,
        },
        who: "ada".into(),
        command: "test".into(),
    }
}

fn commit(repo: &Repo, seconds: i64) -> Result<ObjectId, RepoError> {
    let who = Who {
        name: "ada".into(),
        email: "ada@nas".into(),
    };
    let mut options = CommitOptions::new(seconds.to_string(), who, at(seconds));
    options.allow_empty = true;
    let report = repo.commit(options, &Job::default())?;
    Ok(report.commit.expect("empty commits are allowed"))
}

/// Seconds as they are; a day is too little for a test.
fn read(text: &str) -> Result<i64, String> {
    let seconds = text.strip_suffix(" s").and_then(|text| text.parse().ok());
    seconds.ok_or_else(|| "write a time as '5 s'".to_owned())
}

#[test]
fn a_branch_is_what_the_log_says_that_it_was() -> Outcome {
    let dir = fast_dir()?;
    let repo = Repo::init(dir.path(), "main", false, at(100))?;
    // Nobody reads dates here.
    let unread = repo.resolve("@{5 s}");
    assert!(
        matches!(unread, Err(RepoError::Revision(RevisionError::Syntax(_)))),
        "{unread:?}"
    );
    repo.read_dates_by(read);
    let first = commit(&repo, 200)?;
    let second = commit(&repo, 300)?;
    repo.create_ref(RefKind::Branch, "side", first, at(400))?;
    let options = CheckoutOptions::new(at(500));
    repo.checkout(
        CheckoutTarget::Branch("side".into()),
        &options,
        &Job::default(),
    )?;
    let third = commit(&repo, 600)?;
    repo.delete_ref(RefKind::Branch, "main", at(700))?;
    for (text, id) in [
        ("main@{200 s}", first),
        ("main@{299 s}", first),
        ("main@{300 s}", second),
        ("main@{699 s}", second),
        ("main@{699 s}~1", first),
        ("refs/heads/main@{650 s}", second),
        ("main@{1}", second),
        ("main@{2}", first),
        ("@{400 s}", first),
        ("@{9999 s}", third),
        ("side@{600 s}", third),
        // Where the worktree was, and not its branch of today.
        ("HEAD@{450 s}", second),
        ("HEAD@{500 s}", first),
        ("@@{600 s}", third),
    ] {
        assert_eq!(repo.resolve(text)?, id, "{text}");
    }
    let failed = |text: &str| match repo.resolve(text) {
        Err(RepoError::Revision(e)) => e.to_string(),
        other => panic!("{text}: {other:?}"),
    };
    for (text, why) in [
        ("main@{150 s}", "'main' had no commit at that time"),
        ("side@{399 s}", "'side' had no commit at that time"),
        ("main@{700 s}", "'main' had no commit at that time"),
        (
            "main@{99 s}",
            "the operation log goes back only to 1970-01-01 01:01",
        ),
        (
            "main@{9}",
            "the operation log goes back only to 1970-01-01 01:01",
        ),
        ("main@{soon}", "has no date: write a time as '5 s'"),
        ("never@{9999 s}", "'never' had no commit at that time"),
    ] {
        let said = failed(text);
        assert!(said.contains(why), "{text}: {said}");
    }
    Ok(())
}
