//! A commit with a conflict that its list does not name, as earlier builds could make it.

use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::ObjectType;
use dmv_core::object::ObjectWrite;
use dmv_core::object::name::RepoPath;
use dmv_core::object::tree::{Kind, lookup_path};
use dmv_core::refs::testing;
use dmv_core::refs::{Change, Effect};
use dmv_core::repo::{
    CheckoutOptions, CheckoutTarget, FastForward, MergeOptions, Repo, StatusOptions, Who,
};
use dmv_core::store::MetaWriter;
use dmv_core::worktree::select::Paths;
use dmv_tests::peers::{Done, Place};
use dmv_tests::scratch::{commit, request};

fn check_out(repo: &Repo, target: CheckoutTarget) -> Done<Vec<Vec<u8>>> {
    let options = CheckoutOptions::new(request("checkout"));
    let report = repo.checkout(target, &options, &Job::default())?;
    let paths = report.refused.into_iter().map(|one| one.path.into_bytes());
    Ok(paths.collect())
}

/// Merges a conflict at `f`. Returns a branch, `odd`, with the same tree and without the list.
fn with_unlisted() -> Done<Place> {
    let place = Place::new()?;
    place.write("f", b"base")?;
    place.write("kept", b"kept")?;
    let base = place.commit("base")?;
    let repo = place.again()?;
    place.write("f", b"ours")?;
    place.commit("ours")?;
    check_out(&repo, CheckoutTarget::NewBranch("side".into(), base))?;
    place.write("f", b"theirs")?;
    let theirs = place.commit("theirs")?;
    check_out(&repo, CheckoutTarget::Branch("main".into()))?;
    let merging = MergeOptions::new("merged", Who::new("Test", ""), request("merge"));
    let merged = repo.merge(theirs, FastForward::Never, &merging, &Job::default())?;
    assert_eq!(merged.conflicts.len(), 1);
    let mut odd = repo.read_commit(&merged.commit)?;
    odd.extras.clear();
    let writer = testing::writer(repo.store())?;
    let mut meta = MetaWriter::new(&writer);
    let id = meta.put(ObjectType::Commit, &odd.encode()?)?;
    meta.flush()?;
    drop(meta);
    let change = Change {
        key: "branch/odd".into(),
        old: None,
        new: Some(id.as_bytes().to_vec()),
    };
    let sealed = writer.finish()?;
    repo.publish(request("odd"), Some(sealed), vec![change], Effect::Kept)?;
    check_out(&repo, CheckoutTarget::Commit(base))?;
    Ok(place)
}

fn conflict_at_f(repo: &Repo, commit: &ObjectId) -> Done<ObjectId> {
    let tree = repo.read_commit(commit)?.tree;
    let entry = lookup_path(
        repo.objects(),
        &tree,
        &RepoPath::parse(b"f").map_err(|e| e.why())?,
    )?;
    let entry = entry.ok_or("f is gone")?;
    assert_eq!(entry.kind, Kind::Conflict);
    Ok(entry.id)
}

#[test]
fn a_conflict_that_no_list_names_is_not_written_and_never_deleted() -> Done {
    let place = with_unlisted()?;
    let repo = place.again()?;
    assert_eq!(
        check_out(&repo, CheckoutTarget::Branch("odd".into()))?,
        [b"f"]
    );
    let before = conflict_at_f(&repo, &place.tip()?)?;
    let options = StatusOptions {
        select: &Paths::default(),
        settings: Default::default(),
    };
    let status = repo.status(&options, &Job::default())?;
    assert!(status.changes.is_empty(), "{:?}", status.changes);
    assert_eq!(status.unwritten, [Repo::parse_path(b"f")?]);
    place.write("new", b"new")?;
    commit(&repo, "something else")?;
    assert_eq!(conflict_at_f(&repo, &place.tip()?)?, before);
    Ok(())
}
