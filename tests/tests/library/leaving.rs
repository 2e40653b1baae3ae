//! Packs that are out of use and whose files are still there: what a killed command leaves between
//! its transaction and the removal of the files.

use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::ObjectType;
use dmv_core::refs::testing;
use dmv_core::refs::{CondemnResult, SeenOperation};
use dmv_core::repo::{Repo, VerifyDepth, discover, recover};
use dmv_core::store::{IndexId, LogPack, PackId, PackRow, SegmentRow};
use dmv_core::vfs::{OpenMode, OsVfs};
use dmv_tests::packs::{condemn, data_packs, merge, small_files, store_again};
use dmv_tests::peers::{Done, Place};
use dmv_tests::rng::Rng;
use std::fs::File;
use std::path::Path;

fn log_of(repo: &Repo, how: OpenMode) -> Done<LogPack> {
    let dir = repo.store().packs_dir();
    Ok(LogPack::open(&OsVfs, dir, repo.id(), how)?)
}

fn try_to_condemn(
    repo: &Repo,
    packs: &[PackRow],
    seen: SeenOperation,
    dissolved: &[IndexId],
) -> Done<CondemnResult> {
    let lock = repo.refs().lock_database()?;
    let log = log_of(repo, OpenMode::Read)?;
    Ok(testing::condemn(
        repo.refs(),
        &lock,
        &log,
        packs,
        seen,
        dissolved,
    )?)
}

fn only_data_pack(repo: &Repo) -> Done<PackRow> {
    let id = data_packs(repo)?.pop_first().ok_or("a pack")?;
    Ok(repo.refs().pack(id)?.ok_or("it is listed")?)
}

/// Keeps packs that leave from being removed, as a recovery does.
fn nobody_frees(place: &Place) -> Done<File> {
    let file = File::create(place.repo.dmv_dir().join("freeing"))?;
    file.try_lock_shared()?;
    Ok(file)
}

fn names(dir: &Path) -> Done<Vec<String>> {
    let names = std::fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().into_string()));
    let names: Result<Vec<_>, std::io::Error> = names.collect();
    Ok(names?.into_iter().flatten().collect())
}

#[test]
fn a_pack_is_condemned_only_as_it_was_seen() -> Done {
    let place = Place::with_files(1, 3, 20_000)?;
    let repo = place.again()?;
    let (pack, seen) = (only_data_pack(&repo)?, repo.refs().seen()?);
    let (before, freed) = (repo.refs().rows()?, repo.refs().freed()?);
    let other = |id| SeenOperation { id, ..seen };
    let grown = PackRow {
        len: pack.len + 1,
        ..pack
    };
    let unknown = PackRow {
        id: PackId::random(),
        ..pack
    };
    for (packs, seen, why_not) in [
        (vec![pack], other([7; 16]), CondemnResult::Newer),
        (
            vec![pack],
            SeenOperation { seq: 0, ..seen },
            CondemnResult::Newer,
        ),
        (vec![pack], SeenOperation::default(), CondemnResult::Newer),
        (vec![grown], seen, CondemnResult::Grown),
        (vec![pack, unknown], seen, CondemnResult::Grown),
    ] {
        assert_eq!(try_to_condemn(&repo, &packs, seen, &[])?, why_not);
    }
    place.write("more", b"more")?;
    place.commit("more")?;
    assert_eq!(
        try_to_condemn(&repo, &[pack], seen, &[])?,
        CondemnResult::Newer,
        "an operation came"
    );
    let (seen, pack) = (repo.refs().seen()?, only_data_pack(&repo)?);
    // A command was killed between its record and its commit.
    let log = log_of(&repo, OpenMode::Append)?;
    let len = log.len()?;
    testing::append(&log, &repo.refs().operations(1)?.remove(0).encode())?;
    assert_eq!(
        try_to_condemn(&repo, &[pack], seen, &[])?,
        CondemnResult::Behind
    );
    assert_eq!(repo.refs().rows()?.packs.len(), before.packs.len());
    assert_eq!(repo.refs().freed()?, freed);
    assert_eq!(repo.refs().leaving()?, []);
    testing::take_back(&log, len)?;
    assert_eq!(
        try_to_condemn(&repo, &[pack], seen, &[])?,
        CondemnResult::Done(vec![])
    );
    assert_ne!(repo.refs().freed()?, freed);
    assert_eq!(repo.refs().leaving()?, [pack.id]);
    assert_eq!(repo.refs().pack(pack.id)?, None);
    assert_eq!(repo.refs().segments_of(pack.id)?, Vec::<SegmentRow>::new());
    // Whoever relies on it is refused.
    testing::add_segments(repo.refs(), &[], &[pack.id]).expect_err("it has gone");
    Ok(())
}

#[test]
fn no_job_takes_a_pack_that_leaves_into_use() -> Done {
    let mut place = Place::with_files(2, 3, 20_000)?;
    let dmv = place.repo.dmv_dir().to_owned();
    let pack = only_data_pack(&place.repo)?.id;
    let path = place.repo.store().pack_path(pack);
    let bytes = std::fs::read(&path)?;
    condemn(&place.repo, pack)?;
    let nobody_frees = nobody_frees(&place)?;
    // A writer that looks for a pack to continue.
    place.repo = place.again()?;
    place.write("new", &Rng::new(3).bytes(30_000))?;
    place.commit("new")?;
    let is_out_of_use = |repo: &Repo| -> Done {
        assert!(!data_packs(repo)?.contains(&pack));
        assert_eq!(repo.refs().leaving()?, [pack]);
        assert_eq!(std::fs::read(&path)?, bytes);
        Ok(())
    };
    is_out_of_use(&place.again()?)?;
    // A recovery, in the database as it is, and in one that replaces it.
    recover(&discover(place.dir.path())?, &Job::default())?;
    is_out_of_use(&place.again()?)?;
    // A database that catches up with the log.
    let older = std::fs::read(dmv.join("refs.db"))?;
    place.repo = place.again()?;
    place.write("newer", &Rng::new(4).bytes(30_000))?;
    place.commit("newer")?;
    place.repo = Place::new()?.repo;
    assert_eq!(
        std::fs::metadata(dmv.join("refs.db-wal")).map_or(0, |m| m.len()),
        0
    );
    std::fs::write(dmv.join("refs.db"), older)?;
    place.repo = Repo::open(place.dir.path())?;
    assert_eq!(place.repo.caught_up(), 1);
    is_out_of_use(&place.repo)?;
    // Once it may, the next command removes the file.
    drop(nobody_frees);
    place.write("last", b"last")?;
    place.commit("last")?;
    assert_eq!(place.repo.refs().leaving()?, []);
    assert!(!names(&dmv.join("packs"))?.contains(&format!("{pack}.pack")));
    Ok(())
}

#[test]
fn a_session_reads_on_and_then_lets_go_of_a_pack_that_left() -> Done {
    let place = Place::new()?;
    let ids = small_files(&place, &["x", "y"], &mut Rng::new(5))?;
    let session = place.again()?;
    let read = |repo: &Repo, id: &ObjectId| -> Done<bool> {
        let mut bytes = Vec::new();
        Ok(repo.store().read_into(ObjectType::Chunk, id, &mut bytes)?)
    };
    assert!(read(&session, &ids[0])?);
    let old = only_data_pack(&session)?.id;
    let held = || -> Done<usize> {
        let mut held = 0;
        for entry in std::fs::read_dir("/proc/self/fd")? {
            let to = std::fs::read_link(entry?.path()).unwrap_or_default();
            held += usize::from(to.to_string_lossy().contains(&old.to_string()));
        }
        Ok(held)
    };
    let new = store_again(&place, std::slice::from_ref(&ids))?;
    let other = place.again()?;
    condemn(&other, old)?;
    std::fs::remove_file(other.store().pack_path(old))?;
    drop(other);
    // By the tables that it has.
    for id in &ids {
        assert!(read(&session, id)?);
    }
    assert!(held()? > 0);
    assert!(session.store().refresh()?);
    for id in &ids {
        assert!(read(&session, id)?);
        assert_eq!(session.store().pack_of(id)?, Some(new));
    }
    // `place` itself opened none of it.
    assert_eq!(held()?, 0);
    Ok(())
}

/// Makes eight data packs with one chunk each, and a merged index over them. Returns chunks and
/// packs.
fn eight_merged(place: &Place, also: &[usize]) -> Done<(Vec<ObjectId>, Vec<PackId>)> {
    let names: Vec<String> = (0..8).map(|n| format!("f{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let ids = small_files(place, &names, &mut Rng::new(6))?;
    let first = only_data_pack(&place.again()?)?.id;
    let mut packs = Vec::new();
    for (n, id) in ids.iter().enumerate() {
        let mut batch = vec![*id];
        batch.extend(also.contains(&n).then_some(ids[0]));
        packs.push(store_again(place, &[batch])?);
    }
    let repo = place.again()?;
    dmv_tests::packs::take_away(&repo, first)?;
    assert!(merge(&repo)?);
    Ok((ids, packs))
}

#[test]
fn entries_of_a_merged_index_count_while_their_pack_is_in_use() -> Done {
    let place = Place::new()?;
    let (ids, packs) = eight_merged(&place, &[])?;
    let repo = place.again()?;
    let objects = repo.store().table_stats().1;
    let indexes = repo.refs().catalogue()?.indexes;
    let contents = repo.store();
    let mut bytes = Vec::new();
    assert!(contents.read_into(ObjectType::Chunk, &ids[3], &mut bytes)?);
    condemn(&repo, packs[3])?;
    std::fs::remove_file(repo.store().pack_path(packs[3]))?;
    let repo = place.again()?;
    let now = repo.refs().catalogue()?.indexes;
    assert_eq!(
        (now.len(), now[0].id),
        (1, indexes[0].id),
        "it stays in use"
    );
    assert_eq!(now[0].entries, indexes[0].entries - 1);
    assert_eq!(repo.store().table_stats().1, objects - 1);
    for (n, id) in ids.iter().enumerate() {
        assert_eq!(repo.store().pack_of(id)?, (n != 3).then_some(packs[n]));
        assert_eq!(repo.store().has(id)?, n != 3);
        assert_eq!(
            !repo
                .store()
                .current()
                .with_prefix(&id.to_string(), 2)?
                .is_empty(),
            n != 3
        );
    }
    let mut seen = 0;
    repo.store().for_each_object(&mut |id, _, pack| {
        assert!(pack != packs[3] && id != ids[3]);
        seen += 1;
        Ok(())
    })?;
    assert_eq!(seen, objects - 1);
    // The content is missing, and nothing else is wrong.
    let report = repo.verify(VerifyDepth::Full, &Job::default())?;
    assert_eq!(
        (report.missing.len(), report.damaged.len()),
        (1, 0),
        "{report:?}"
    );
    assert_eq!(report.objects, objects - 1);
    // Storing it again is no duplicate.
    let mut marks = repo.store().marks();
    assert_eq!(marks.mark(&ids[3])?, dmv_core::store::Mark::Absent);
    drop(repo);
    place.write("again", &bytes)?;
    dmv_tests::scratch::commit(&place.again()?, "again")?;
    let repo = place.again()?;
    assert!(repo.store().has(&ids[3])?);
    // The next merged index leaves dead entries out.
    for id in &ids[..7] {
        store_again(&place, &[vec![*id]])?;
    }
    let repo = place.again()?;
    while merge(&repo)? {}
    let report = repo.verify(VerifyDepth::Full, &Job::default())?;
    assert!(report.is_ok(), "{report:?}");
    Ok(())
}

#[test]
fn an_index_that_may_hide_the_other_copy_goes_with_the_pack() -> Done {
    let place = Place::new()?;
    // The last pack has a second copy of the first chunk.
    let (ids, packs) = eight_merged(&place, &[7])?;
    let repo = place.again()?;
    let named = repo.store().pack_of(&ids[0])?.ok_or("it is here")?;
    assert!(named == packs[0] || named == packs[7]);
    let row = repo.refs().pack(named)?.ok_or("it is listed")?;
    let (seen, freed) = (repo.refs().seen()?, repo.refs().freed()?);
    let CondemnResult::Hiding(indexes) = try_to_condemn(&repo, &[row], seen, &[])? else {
        panic!("it hides a copy");
    };
    assert_eq!(repo.refs().freed()?, freed);
    let done = try_to_condemn(&repo, &[row], seen, &indexes)?;
    assert_eq!(done, CondemnResult::Done(indexes));
    testing::load(repo.store(), repo.refs().catalogue()?)?;
    let other = packs[if named == packs[0] { 7 } else { 0 }];
    assert_eq!(repo.store().pack_of(&ids[0])?, Some(other));
    assert_eq!(repo.refs().catalogue()?.indexes.len(), 0);
    Ok(())
}
