//! Old versions that rules give up: cut off anywhere, and on a full or failing disk.

use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::tree::lookup_path;
use dmv_core::repo::{ExpireOptions, ExpireReport, GcOptions, Repo, RepoError, VerifyDepth};
use dmv_core::subset::Subset;
use dmv_tests::drops::{Contents, contents, keeps_all_but};
use dmv_tests::lab::Lab;
use dmv_tests::peers::{Done, Place};
use dmv_tests::rng::Rng;
use dmv_tests::scratch::request;
use dmv_tests::simfs::{Fault, Op, Survival};
use std::collections::BTreeSet;
use std::time::Duration;

/// Bytes of a version that goes.
const LEN: usize = 150_000;
/// Versions, of which the last one stays.
const VERSIONS: u64 = 4;

/// A repository with versions of two files, of which one keeps only the newest version. Each pack has
/// something that stays.
fn place() -> Done<Place> {
    let place = Place::new()?;
    for n in 0..VERSIONS {
        place.write("take.raw", &Rng::new(n).bytes(LEN))?;
        place.write("stays", &Rng::new(50 + n).bytes(20_000))?;
        place.commit("take")?;
    }
    let rule = "last:1".parse()?;
    place
        .repo
        .set_keep_rule("take.raw", rule, request("keep"))?;
    Ok(place)
}

fn expire(repo: &Repo) -> Result<ExpireReport, RepoError> {
    let (rules, job) = (repo.keep_rules()?, Job::default());
    let options = ExpireOptions {
        paths: Subset::everything(),
        max_bytes: None,
        now: 1_900_000_000,
    };
    let freeing = repo.begin_to_free()?;
    let found = repo.expirable(&rules, &options, &job)?;
    let rules = (&rules, &options);
    let earlier = found.earlier.clone();
    freeing.expire(
        &found,
        &earlier,
        rules,
        request("expire"),
        &mut || true,
        &job,
    )
}

/// The contents that the rule gives up.
fn old_versions(repo: &Repo) -> Done<BTreeSet<ObjectId>> {
    let path = Repo::parse_path(b"take.raw")?;
    let mut ids = BTreeSet::new();
    for n in 1..VERSIONS {
        let commit = repo.read_commit(&repo.resolve(&format!("main~{n}"))?)?;
        let entry = lookup_path(repo.objects(), &commit.tree, &path)?;
        ids.insert(entry.ok_or("it is there")?.id);
    }
    Ok(ids)
}

/// Checks that nothing else is lost, and that the same command once more gives up what it has to.
fn ends_well(lab: &Lab, before: &Contents, ids: &BTreeSet<ObjectId>) -> Done {
    let repo = lab.open()?;
    keeps_all_but(&repo, before, ids)?;
    let done = expire(&repo)?;
    assert_eq!(done.freed.why_not_freed, None, "{done:?}");
    assert!(repo.slice()?.expired.keys().eq(ids.iter()));
    // A failed job may have left the file of its pack, too.
    let gc = GcOptions::new(Duration::ZERO, request("gc").time);
    repo.gc(&gc, &Job::default())?;
    keeps_all_but(&repo, before, ids)?;
    let seen = lab.sim.seen();
    let packs = seen
        .iter()
        .filter(|(path, _)| path.extension().is_some_and(|ext| ext == "pack"));
    let bytes: usize = packs.map(|(_, bytes)| bytes.len()).sum();
    // A copy that the disk had no room for may be a gap in the pack of the next one.
    if bytes >= 3 * LEN {
        let sizes: Vec<usize> = seen.values().map(Vec::len).collect();
        return Err(format!("{bytes} bytes are left: {sizes:?}, {done:?}").into());
    }
    let report = repo.verify(VerifyDepth::Full, &Job::default())?;
    assert!(report.is_ok(), "{report:?}");
    Ok(())
}

#[test]
fn a_crash_in_any_file_operation_of_expire_loses_nothing_else() -> Done {
    let mut crashes = 0;
    for at in 1.. {
        let place = place()?;
        let (before, ids) = (contents(&place.repo)?, old_versions(&place.repo)?);
        let mut lab = Lab::over(place)?;
        lab.sim.crash_at(at);
        let done = lab.open().map(|repo| expire(&repo));
        let has_crashed = lab.sim.has_crashed();
        if !has_crashed {
            done??;
        }
        let survivals = [Survival::Nothing, Survival::Everything, Survival::Some];
        for (seed, survival) in survivals.into_iter().enumerate() {
            lab.crash(survival, seed as u64 + at);
            keeps_all_but(&lab.open()?, &before, &ids)
                .map_err(|e| format!("operation {at}, {survival:?}: {e}"))?;
        }
        ends_well(&lab, &before, &ids).map_err(|e| format!("operation {at}: {e}"))?;
        if !has_crashed {
            break;
        }
        crashes += 1;
    }
    assert!(
        crashes >= 5,
        "packs are written, synced and removed: {crashes}"
    );
    Ok(())
}

#[test]
fn a_disk_that_is_full_or_fails_loses_nothing_and_the_next_expire_ends_it() -> Done {
    const FULL: i32 = 28;
    const BROKEN: i32 = 5;
    for op in [Op::Write, Op::Sync, Op::SyncDir, Op::Remove, Op::Create] {
        for forever in [true, false] {
            for after in 0..4 {
                let place = place()?;
                let (before, ids) = (contents(&place.repo)?, old_versions(&place.repo)?);
                let lab = Lab::over(place)?;
                let errno = if op == Op::Write { FULL } else { BROKEN };
                lab.sim.fail(Fault {
                    op,
                    after,
                    forever,
                    errno,
                });
                // Whether it fails, or says what is left, or had luck.
                let done = expire(&lab.open()?);
                if let (Ok(done), Op::Write, true, 1) = (&done, op, forever, after) {
                    assert!(done.freed.no_room, "{done:?}");
                }
                lab.sim.clear_faults();
                ends_well(&lab, &before, &ids)
                    .map_err(|e| format!("{op:?} {after} {forever}: {e}"))?;
            }
        }
    }
    Ok(())
}
