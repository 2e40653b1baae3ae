//! Frames with bases: how `repack` makes them, and that no command loses what they or their bases
//! store.

use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::ObjectType::Chunk;
use dmv_core::repo::{
    GcOptions, GcReport, RepackOptions, RepackReport, Repo, ResetFiles, VerifyDepth, discover_lost,
    recover,
};
use dmv_core::store::PackId;
use dmv_core::store::fuzzing::objects_of_pack;
use dmv_tests::drops::{contents, drop_all, dropped, keeps_all_but};
use dmv_tests::garbage::{based_in, forget_operations, named, raw_objects, walk};
use dmv_tests::lab::Lab;
use dmv_tests::packs::{damage_copy, data_packs, merge, store_again};
use dmv_tests::peers::{Done, Place, fetch};
use dmv_tests::rng::{Rng, number, seed};
use dmv_tests::scratch::{commit, request};
use dmv_tests::simfs::Survival;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// Bytes of a version: several chunks.
pub(crate) const LEN: usize = 400_000;

pub(crate) fn repack(repo: &Repo) -> Done<RepackReport> {
    let options = RepackOptions {
        now: request("repack").time,
        until: None,
        dry_run: false,
    };
    Ok(repo.repack(&options, &Job::default())?)
}

pub(crate) fn gc(repo: &Repo) -> Done<GcReport> {
    let options = GcOptions {
        grace: Duration::ZERO,
        now: request("gc").time,
        until: None,
        thorough: true,
        dry_run: false,
    };
    Ok(repo.gc(&options, &Job::default())?)
}

/// Returns `bytes` with one byte changed here and there: few chunks stay the same.
pub(crate) fn next_version(bytes: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < out.len() {
        out[at] ^= 0x55;
        at += 500 + rng.below(3_000) as usize;
    }
    let middle = out.len() / 3;
    out.splice(middle..middle, rng.bytes(700));
    out
}

/// Commits versions of a file, each under a name of its own and in place of the former one. Other
/// files come and go. Returns the versions.
fn versions(place: &Place, number: usize, seed: u64) -> Done<Vec<Vec<u8>>> {
    let mut rng = Rng::new(seed);
    let mut all = vec![rng.bytes(LEN)];
    while all.len() < number {
        all.push(next_version(&all[all.len() - 1], &mut rng));
    }
    for (n, bytes) in all.iter().enumerate() {
        let _ = std::fs::remove_dir_all(place.dir.path().join("lib"));
        place.write(&format!("lib/v{n}/engine.so.{n}"), bytes)?;
        place.write(&format!("notes{n}"), &rng.bytes(9_000))?;
        commit(&place.again()?, "a version")?;
    }
    Ok(all)
}

/// Returns a repository with versions after a repack, and the versions.
pub(crate) fn repacked(number: usize, seed: u64) -> Done<(Place, Vec<Vec<u8>>)> {
    let place = Place::new()?;
    let all = versions(&place, number, seed)?;
    let report = repack(&place.again()?)?;
    assert!(report.finished && report.why_not.is_empty(), "{report:?}");
    assert!(!frames_with_bases(&place.again()?)?.is_empty());
    Ok((place, all))
}

/// A frame with bases: its pack, offset, and the ids of its bases.
type Based = (PackId, usize, Vec<ObjectId>);

/// Finds the frames with bases in the files of the data packs that are in use.
fn frames_with_bases(repo: &Repo) -> Done<Vec<Based>> {
    let mut out = Vec::new();
    for pack in data_packs(repo)? {
        let bytes = std::fs::read(repo.store().pack_path(pack))?;
        out.extend(
            based_in(&bytes)?
                .into_iter()
                .map(|(at, ids)| (pack, at, ids)),
        );
    }
    Ok(out)
}

/// `DMV_WRITE_CORPUS=1` writes this seed of the fuzz target `pack_read` again.
#[test]
fn the_fuzz_corpus_has_a_pack_with_frames_that_have_bases() -> Done {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/pack_read");
    let seed = corpus.join("bases");
    if std::env::var_os("DMV_WRITE_CORPUS").is_some() {
        std::fs::write(&seed, small_pack_with_bases()?)?;
    }
    let bytes = std::fs::read(&seed)?;
    assert!(bytes.len() < 32 << 10, "a small seed: {}", bytes.len());
    let based = based_in(&bytes)?;
    let known = objects_of_pack(&bytes);
    let (first, _) = based.first().ok_or("it has frames with bases")?;
    let before = objects_of_pack(&bytes[..*first]);
    assert!(known.len() > before.len(), "their objects can be read");
    for base in based.iter().flat_map(|(_, bases)| bases) {
        assert!(before.contains(base), "a base comes first");
    }
    Ok(())
}

/// Returns a small pack with versions of a text, which is compressed.
fn small_pack_with_bases() -> Done<Vec<u8>> {
    let (place, mut rng) = (Place::new()?, Rng::new(9));
    let words: Vec<Vec<u8>> = (0..60).map(|_| rng.bytes(5)).collect();
    let text = std::iter::repeat_with(|| words[rng.below(60) as usize].clone());
    let mut text = text.take(6_000).collect::<Vec<_>>().concat();
    let mut rng = Rng::new(10);
    for _ in 0..3 {
        place.write("text", &text)?;
        place.commit("a version")?;
        text = next_version(&text, &mut rng);
    }
    repack(&place.again()?)?;
    let repo = place.again()?;
    let (pack, ..) = frames_with_bases(&repo)?
        .pop()
        .ok_or("it has differences")?;
    Ok(std::fs::read(repo.store().pack_path(pack))?)
}

/// Every base lies in the pack of its frame, before it and in a frame without bases.
pub(crate) fn bases_come_first(repo: &Repo) -> Done<usize> {
    let based = frames_with_bases(repo)?;
    for (pack, at, bases) in &based {
        assert!(pack.may_have_bases(), "{pack}");
        let mut before = BTreeSet::new();
        for segment in repo.refs().segments_of(*pack)? {
            repo.store()
                .files()
                .each_of_segment(&segment, &mut |id, place| {
                    let is_based = based
                        .iter()
                        .any(|(p, a, _)| p == pack && *a as u64 == place.offset);
                    if !is_based && place.offset < *at as u64 {
                        before.insert(*id);
                    }
                    Ok(())
                })?;
        }
        assert!(
            bases.iter().all(|base| before.contains(base)),
            "{pack} {at}"
        );
    }
    Ok(based.len())
}

/// Returns everything that the repository needs. Fails if something of it cannot be read.
pub(crate) fn live(repo: &Repo) -> Done<BTreeSet<ObjectId>> {
    let live = walk(repo, &named(repo)?)?;
    let lost: Vec<&ObjectId> = live.iter().filter(|id| !is_readable(repo, id)).collect();
    if lost.is_empty() {
        Ok(live)
    } else {
        Err(format!("lost: {lost:?}").into())
    }
}

pub(crate) fn is_readable(repo: &Repo, id: &ObjectId) -> bool {
    // Reading an object of another type as a chunk finds none, and that is no error.
    let read = repo.store().read_into(Chunk, id, &mut Vec::new());
    read.is_ok() && repo.store().has(id).unwrap_or(false)
}

pub(crate) fn data_len(repo: &Repo) -> Done<u64> {
    let rows = repo.refs().catalogue()?.packs.into_iter();
    let data = data_packs(repo)?;
    Ok(rows
        .filter(|row| data.contains(&row.id))
        .map(|row| row.len)
        .sum())
}

#[test]
fn versions_become_differences_and_read_back() -> Done {
    let place = Place::new()?;
    let all = versions(&place, 4, 1)?;
    let kept = contents(&place.again()?)?;
    let (before, raw) = (data_len(&place.again()?)?, raw_objects(&place.again()?)?);
    assert!(before > 4 * LEN as u64);
    let report = repack(&place.again()?)?;
    assert!(report.finished && report.why_not.is_empty(), "{report:?}");
    let repo = place.again()?;
    let after = data_len(&repo)?;
    assert!(after < 2 * LEN as u64, "{before} bytes became {after}");
    assert!(bases_come_first(&repo)? > 0);
    assert_eq!(raw_objects(&repo)?, raw);
    keeps_all_but(&repo, &kept, &BTreeSet::new())?;
    live(&repo)?;
    place.is_sound()?;
    // Nothing is left to do, and later versions join them.
    let again = repack(&repo)?;
    assert_eq!(
        (again.copied_bytes, again.before_bytes),
        (0, report.after_bytes)
    );
    let mut rng = Rng::new(9);
    let mut last = all[3].clone();
    for n in 0..6 {
        last = next_version(&last, &mut rng);
        place.write("lib/later", &last)?;
        commit(&place.again()?, "later")?;
        if n % 2 == 1 {
            repack(&place.again()?)?;
            bases_come_first(&place.again()?)?;
        }
    }
    let repo = place.again()?;
    assert!(data_len(&repo)? < 5 * LEN as u64, "{}", data_len(&repo)?);
    keeps_all_but(&repo, &contents(&repo)?, &BTreeSet::new())?;
    keeps_all_but(&repo, &kept, &BTreeSet::new())?;
    drop(repo);
    place.is_sound()
}

#[test]
fn many_versions_of_short_texts_take_little_more_than_their_lines() -> Done {
    const LINE: usize = 50;
    let (place, mut rng) = (Place::new()?, Rng::new(3));
    let mut texts: Vec<Vec<u8>> = (0..3).map(|_| rng.bytes(120 * LINE)).collect();
    for n in 0..40 {
        for (file, text) in texts.iter_mut().enumerate() {
            let line = n * 11 % 120 * LINE;
            text[line..line + LINE].copy_from_slice(&rng.bytes(LINE));
            place.write(&format!("text{file}"), text)?;
        }
        commit(&place.again()?, "a line in each")?;
    }
    let kept = contents(&place.again()?)?;
    let report = repack(&place.again()?)?;
    assert!(report.finished && report.why_not.is_empty(), "{report:?}");
    let repo = place.again()?;
    let after = data_len(&repo)?;
    // The newest ones are complete. The other 117 differ by a line each, and their places in the index take
    // as much.
    let complete = 3 * 120 * LINE as u64;
    assert!(after < complete + 120 * 4 * LINE as u64, "{after}");
    assert!(bases_come_first(&repo)? > 0);
    keeps_all_but(&repo, &kept, &BTreeSet::new())?;
    drop(repo);
    place.is_sound()
}

#[test]
fn content_that_resembles_nothing_gets_no_base() -> Done {
    let place = Place::new()?;
    let mut rng = Rng::new(2);
    for n in 0..5 {
        place.write(&format!("f{n}"), &rng.bytes(LEN))?;
        commit(&place.again()?, "noise")?;
    }
    let before = data_len(&place.again()?)?;
    repack(&place.again()?)?;
    let repo = place.again()?;
    assert_eq!(frames_with_bases(&repo)?, []);
    assert!(data_len(&repo)? <= before);
    Ok(())
}

/// A version that resembles its base only in part is encoded anew once a later version comes. Otherwise the
/// later one would store the same part again: nothing that has a base can be one.
#[test]
fn a_version_like_one_that_resembles_its_base_in_part_takes_little_whenever_repack_runs() -> Done {
    const STEP: usize = 60_000;
    for seed in 30..33 {
        let place = Place::new()?;
        let mut rng = Rng::new(seed);
        let first = rng.bytes(30 * STEP);
        let mut second = first.clone();
        for piece in second.chunks_mut(STEP) {
            let new = STEP / 4 + rng.below(STEP as u64 / 4) as usize;
            piece[..new].copy_from_slice(&rng.bytes(new));
        }
        let mut third = second.clone();
        third.iter_mut().step_by(9_000).for_each(|byte| *byte ^= 1);
        let mut lens = Vec::new();
        for (n, version) in [&first, &second, &third].into_iter().enumerate() {
            place.write("lib/engine", version)?;
            commit(&place.again()?, &format!("version {n}"))?;
            let report = repack(&place.again()?)?;
            assert!(report.finished && report.why_not.is_empty(), "{report:?}");
            bases_come_first(&place.again()?)?;
            lens.push(data_len(&place.again()?)?);
        }
        let second_takes = lens[1] - lens[0];
        // The second is encoded anew beside the third and may then take less than it did.
        let third_takes = lens[2].saturating_sub(lens[1]);
        let is_in_part = (first.len() as u64 / 5)..(first.len() as u64 * 3 / 5);
        assert!(is_in_part.contains(&second_takes), "seed {seed}: {lens:?}");
        assert!(third_takes < second_takes / 6, "seed {seed}: {lens:?}");
        live(&place.again()?)?;
        place.is_sound()?;
    }
    Ok(())
}

/// Frames of bases are small, so that a reader decodes little that it does not need.
#[test]
fn chunks_that_become_bases_lie_in_small_frames() -> Done {
    let place = Place::new()?;
    let mut rng = Rng::new(40);
    // Compressible, so that a frame is decoded to read a chunk of it.
    let bytes = rng.bytes(3 << 20);
    let first: Vec<u8> = bytes.iter().map(|byte| byte & 0x3f).collect();
    let second = next_version(&first, &mut rng);
    for version in [&first, &second] {
        place.write("lib/engine", version)?;
        commit(&place.again()?, "a version")?;
    }
    repack(&place.again()?)?;
    let repo = place.again()?;
    let based = frames_with_bases(&repo)?;
    let bases: BTreeSet<ObjectId> = based.iter().flat_map(|(_, _, ids)| ids).copied().collect();
    let of_all = bases.len();
    let mut lens = std::collections::BTreeMap::new();
    for pack in data_packs(&repo)? {
        for segment in repo.refs().segments_of(pack)? {
            let mut frames = Vec::new();
            repo.store()
                .files()
                .each_of_segment(&segment, &mut |id, place| {
                    frames.extend(bases.contains(id).then_some(place.offset));
                    Ok(())
                })?;
            let file = std::fs::read(repo.store().pack_path(pack))?;
            for at in frames {
                let header = &file[at as usize..][..32];
                let raw_len = u32::from_le_bytes(header[8..12].try_into()?);
                lens.insert((pack, at), raw_len);
            }
        }
    }
    assert!(of_all > 10 && lens.len() > 5, "{of_all} {lens:?}");
    assert!(lens.values().all(|len| *len <= 384 << 10), "{lens:?}");
    drop(repo);
    live(&place.again()?)?;
    place.is_sound()
}

/// Damages the copy of a base in its pack, so that its own hash shows it. Returns the base with
/// its bytes.
fn damage_a_base(place: &Place) -> Done<(ObjectId, Vec<u8>)> {
    let repo = place.again()?;
    for (pack, _, bases) in frames_with_bases(&repo)? {
        for base in bases {
            let mut bytes = Vec::new();
            assert!(repo.store().read_into(Chunk, &base, &mut bytes)?);
            if damage_copy(&repo, pack, &bytes)? {
                return Ok((base, bytes));
            }
        }
    }
    Err("every base is compressed".into())
}

#[test]
fn damage_of_a_base_loses_what_verify_names_and_healing_mends_it() -> Done {
    let (place, _) = repacked(3, 3)?;
    let all = live(&place.again()?)?;
    let (base, bytes) = damage_a_base(&place)?;
    let repo = place.again()?;
    let lost: BTreeSet<ObjectId> = all
        .iter()
        .filter(|id| !is_readable(&repo, id))
        .copied()
        .collect();
    assert!(lost.contains(&base) && lost.len() > 1 && lost.len() < all.len());
    let report = repo.verify(VerifyDepth::Full, &Job::default())?;
    let named: BTreeSet<ObjectId> = report.damaged.iter().map(|object| object.id).collect();
    assert_eq!(named, lost);
    drop(repo);
    // A copy of the base alone makes everything readable again.
    let repo = place.again()?;
    let mut incoming = repo.incoming()?;
    incoming.add_object(&dmv_core::store::CheckedObject::new(Chunk, bytes)?)?;
    repo.keep_incoming(incoming)?;
    drop(repo);
    assert_eq!(live(&place.again()?)?, all);
    let report = place.again()?.verify(VerifyDepth::Full, &Job::default())?;
    assert_eq!(
        (report.damaged.len(), report.missing.len()),
        (0, 0),
        "{report:?}"
    );
    // The frames that depend on the copy stay readable whatever is freed.
    gc(&place.again()?)?;
    repack(&place.again()?)?;
    gc(&place.again()?)?;
    assert_eq!(live(&place.again()?)?, all);
    Ok(())
}

#[test]
fn the_healed_copy_of_a_base_stays_one_when_its_pack_is_repacked() -> Done {
    for seed in 20..23 {
        let (place, versions) = repacked(3, seed)?;
        let all = live(&place.again()?)?;
        let (_, bytes) = damage_a_base(&place)?;
        place.again()?.verify(VerifyDepth::Full, &Job::default())?;
        let repo = place.again()?;
        let mut incoming = repo.incoming()?;
        incoming.add_object(&dmv_core::store::CheckedObject::new(Chunk, bytes)?)?;
        repo.keep_incoming(incoming)?;
        drop(repo);
        assert_eq!(live(&place.again()?)?, all);
        // What follows resembles the copy. Whatever becomes a difference, the copy does not.
        let mut rng = Rng::new(seed);
        for version in &versions {
            for n in 0..2 {
                place.write("lib/next", &next_version(version, &mut rng))?;
                commit(&place.again()?, &format!("more {n}"))?;
            }
        }
        let before = data_packs(&place.again()?)?;
        repack(&place.again()?)?;
        assert_ne!(data_packs(&place.again()?)?, before, "seed {seed}");
        live(&place.again()?)?;
        gc(&place.again()?)?;
        repack(&place.again()?)?;
        live(&place.again()?)?;
        let report = place.again()?.verify(VerifyDepth::Full, &Job::default())?;
        assert!(report.damaged.is_empty(), "seed {seed}: {report:?}");
    }
    Ok(())
}

#[test]
fn a_pack_that_was_rewritten_gets_no_more_commits_and_later_ones_get_bases() -> Done {
    let (place, all) = repacked(3, 24)?;
    forget_all_but(&place, "main~1")?;
    gc(&place.again()?)?;
    let repo = place.again()?;
    let packs = repo.refs().catalogue()?.packs;
    let rewritten: Vec<_> = packs
        .iter()
        .filter(|row| row.id.may_have_bases())
        .copied()
        .collect();
    assert!(!rewritten.is_empty());
    assert!(rewritten.iter().all(|row| row.poisoned), "{rewritten:?}");
    drop(repo);
    let based = frames_with_bases(&place.again()?)?.len();
    let mut rng = Rng::new(24);
    let mut bytes = all[1].clone();
    for n in 0..4 {
        bytes = next_version(&bytes, &mut rng);
        place.write("lib/next", &bytes)?;
        commit(&place.again()?, &format!("more {n}"))?;
    }
    for row in &rewritten {
        assert_eq!(place.again()?.refs().pack(row.id)?, Some(*row));
    }
    repack(&place.again()?)?;
    assert!(frames_with_bases(&place.again()?)?.len() > based);
    live(&place.again()?)?;
    place.is_sound()
}

#[test]
fn a_check_that_began_before_packs_were_replaced_finds_no_damage() -> Done {
    for depth in [VerifyDepth::Quick, VerifyDepth::Normal, VerifyDepth::Full] {
        let place = Place::new()?;
        versions(&place, 3, 25)?;
        let early = place.again()?;
        repack(&place.again()?)?;
        let report = early.verify(depth, &Job::default())?;
        assert!(report.is_ok(), "{depth:?}: {report:?}");
        assert!(early.store().bad_places().is_empty());
    }
    Ok(())
}

#[test]
fn a_base_with_copies_elsewhere_is_found_whatever_merged_indexes_name() -> Done {
    let (place, _) = repacked(3, 4)?;
    let all = live(&place.again()?)?;
    let repo = place.again()?;
    let based = frames_with_bases(&repo)?;
    let bases: Vec<ObjectId> = based.into_iter().flat_map(|(_, _, bases)| bases).collect();
    drop(repo);
    for _ in 0..9 {
        store_again(&place, &[bases[..2].to_vec(), bases[2..4].to_vec()])?;
    }
    merge(&place.again()?)?;
    assert_eq!(live(&place.again()?)?, all);
    place.is_sound()?;
    damage_a_base(&place)?;
    assert_eq!(live(&place.again()?)?, all);
    repack(&place.again()?)?;
    assert_eq!(live(&place.again()?)?, all);
    Ok(())
}

/// Forgets all commits but the one `back` commits ago, and what undo needs.
fn forget_all_but(place: &Place, name: &str) -> Done {
    let repo = place.again()?;
    let id = repo.resolve(name)?;
    let tree = repo.read_commit(&id)?.tree;
    drop(repo);
    let repo = place.again()?;
    let (settings, job) = (Default::default(), Job::default());
    repo.reset(id, ResetFiles::Match, &request("reset"), &settings, &job)?;
    forget_operations(&repo)?;
    assert_eq!(repo.read_commit(&repo.resolve("main")?)?.tree, tree);
    Ok(())
}

#[test]
fn gc_keeps_the_bases_of_what_stays_and_frees_everything_else() -> Done {
    let (place, all) = repacked(3, 5)?;
    let before = data_len(&place.again()?)?;
    // The newest version goes. What older ones need of it stays.
    forget_all_but(&place, "main~1")?;
    let report = gc(&place.again()?)?;
    assert!(report.finished && report.why_not.is_empty(), "{report:?}");
    live(&place.again()?)?;
    place.is_sound()?;
    bases_come_first(&place.again()?)?;
    assert!(data_len(&place.again()?)? <= before);
    let again = gc(&place.again()?)?;
    assert_eq!(
        (again.freed_objects, again.packs_rewritten),
        (0, 0),
        "{again:?}"
    );
    // Only the first version stays.
    forget_all_but(&place, "main~1")?;
    for _ in 0..2 {
        gc(&place.again()?)?;
        live(&place.again()?)?;
        bases_come_first(&place.again()?)?;
    }
    let repo = place.again()?;
    let kept = contents(&repo)?;
    assert!(kept.values().any(|(_, bytes)| *bytes == all[0]));
    assert!(
        data_len(&repo)? < 5 * LEN as u64 / 2,
        "{}",
        data_len(&repo)?
    );
    drop(repo);
    place.is_sound()
}

#[test]
fn of_a_frame_of_which_a_part_is_dropped_the_rest_keeps_its_bases() -> Done {
    let place = Place::new()?;
    let mut rng = Rng::new(6);
    let new = [rng.bytes(LEN), rng.bytes(LEN)];
    for (n, bytes) in new.iter().enumerate() {
        place.write(&format!("old{n}"), &next_version(bytes, &mut rng))?;
    }
    // What goes with the small difference makes it worth to rewrite the pack.
    place.write("large", &rng.bytes(2 * LEN))?;
    commit(&place.again()?, "old")?;
    for (n, bytes) in new.iter().enumerate() {
        place.write(&format!("new{n}"), bytes)?;
    }
    commit(&place.again()?, "new")?;
    repack(&place.again()?)?;
    assert!(bases_come_first(&place.again()?)? > 0);
    let kept = contents(&place.again()?)?;
    let (before, packs) = (data_len(&place.again()?)?, data_packs(&place.again()?)?);
    drop_all(&place.again()?, "/old0")?;
    // A base that is given up stays as long as a frame needs it.
    drop_all(&place.again()?, "/new1")?;
    drop_all(&place.again()?, "/large")?;
    let repo = place.again()?;
    assert_ne!(data_packs(&repo)?, packs, "the pack was rewritten");
    let rewritten = data_len(&repo)?;
    assert!(rewritten < before);
    assert!(bases_come_first(&repo)? > 0);
    keeps_all_but(&repo, &kept, &dropped(&repo)?)?;
    drop(repo);
    place.is_sound()?;
    drop_all(&place.again()?, "/old1")?;
    let repo = place.again()?;
    assert!(
        data_len(&repo)? < rewritten - LEN as u64 / 2,
        "{rewritten}: {}",
        data_len(&repo)?
    );
    keeps_all_but(&repo, &kept, &dropped(&repo)?)?;
    drop(repo);
    place.is_sound()
}

#[test]
fn drop_frees_what_nothing_needs_and_keeps_bases() -> Done {
    let (place, _) = repacked(3, 7)?;
    let kept = contents(&place.again()?)?;
    let before = data_len(&place.again()?)?;
    drop_all(&place.again()?, "/lib/**")?;
    let repo = place.again()?;
    let gone = dropped(&repo)?;
    assert_eq!(gone.len(), 1);
    keeps_all_but(&repo, &kept, &gone)?;
    assert!(data_len(&repo)? <= before);
    drop(repo);
    let report = place.again()?.verify(VerifyDepth::Full, &Job::default())?;
    assert!(report.is_ok(), "{report:?}");
    bases_come_first(&place.again()?)?;
    let _ = gc(&place.again()?)?;
    keeps_all_but(&place.again()?, &kept, &gone)
}

#[test]
fn the_packs_alone_are_enough_to_recover() -> Done {
    let (place, _) = repacked(4, 8)?;
    let all = live(&place.again()?)?;
    let kept = contents(&place.again()?)?;
    let dmv = place.dir.path().join(".dmv");
    for loses_index in [false, true] {
        let root = place.dir.path();
        if loses_index {
            // The last segment's index goes in each data pack: the frames with bases are listed
            // there.
            for pack in data_packs(&place.again()?)? {
                let path = place.again()?.store().pack_path(pack);
                let mut bytes = std::fs::read(&path)?;
                for at in 0..bytes.len() - 8 {
                    if bytes[at..].starts_with(b"DMVr") && bytes[at + 4] == 2 {
                        bytes[at + 40] ^= 1;
                    }
                }
                std::fs::write(&path, bytes)?;
            }
        }
        for name in ["refs.db", "refs.db-wal", "refs.db-shm"] {
            let _ = std::fs::remove_file(dmv.join(name));
        }
        let report = recover(&discover_lost(root)?, &Job::default())?;
        assert_eq!(report.reindexed > 0, loses_index);
        assert_eq!(live(&place.again()?)?, all);
        keeps_all_but(&place.again()?, &kept, &BTreeSet::new())?;
        let report = place.again()?.verify(VerifyDepth::Full, &Job::default())?;
        assert_eq!(
            (report.damaged.len(), report.missing.len()),
            (0, 0),
            "{report:?}"
        );
    }
    Ok(())
}

/// A crash in any file operation of a repack, or of the gc after it, leaves everything readable.
#[test]
fn a_crash_anywhere_loses_nothing() -> Done {
    for is_gc in [false, true] {
        let mut crashes = 0;
        for at in (1..).step_by(2) {
            let place = Place::new()?;
            versions(&place, 3, 10)?;
            if is_gc {
                repack(&place.again()?)?;
                forget_all_but(&place, "main~1")?;
            }
            let needed = live(&place.again()?)?;
            std::fs::create_dir_all(place.dir.path().join(".dmv/index"))?;
            let mut lab = Lab::over(place)?;
            lab.sim.crash_at(at);
            let done = if is_gc {
                gc(&lab.open()?).map(drop)
            } else {
                repack(&lab.open()?).map(drop)
            };
            let has_crashed = lab.sim.has_crashed();
            if !has_crashed {
                done?;
            }
            let kinds = [Survival::Nothing, Survival::Everything, Survival::Some];
            for (n, survival) in kinds.into_iter().enumerate() {
                lab.crash(survival, n as u64 + at);
                let now = live(&lab.open()?);
                let now = now.map_err(|e| format!("operation {at}, {survival:?}: {e}"))?;
                assert_eq!(now, needed, "operation {at}, {survival:?}");
            }
            let failed = |e| format!("after operation {at}: {e}");
            repack(&lab.open()?).map_err(failed)?;
            gc(&lab.open()?).map_err(failed)?;
            assert_eq!(live(&lab.open()?).map_err(failed)?, needed);
            let report = lab.open()?.verify(VerifyDepth::Full, &Job::default())?;
            assert!(report.is_ok(), "operation {at}: {report:?}");
            if !has_crashed {
                break;
            }
            crashes += 1;
        }
        assert!(crashes >= 4, "{crashes}");
    }
    Ok(())
}

/// Random commits, repacks, gcs, drops, fetches and resets: nothing that is needed is lost.
#[test]
fn nothing_is_lost_in_random_histories() -> Done {
    let (first, stories) = (seed(100), number("DMV_DELTA_STORIES", 4));
    for seed in first..first + stories {
        story(seed).map_err(|e| format!("DMV_SEED={seed}: {e}"))?;
    }
    Ok(())
}

fn story(seed: u64) -> Done {
    let mut rng = Rng::new(seed);
    let (place, other) = (Place::new()?, Place::new()?);
    let mut files: Vec<Vec<u8>> = (0..3).map(|_| rng.bytes(LEN / 2)).collect();
    let mut tips = Vec::new();
    for _ in 0..14 {
        match rng.below(8) {
            0..=2 => {
                let n = rng.below(files.len() as u64) as usize;
                files[n] = next_version(&files[n], &mut rng);
                let name = format!("d{}/f{}", rng.below(2), rng.below(4));
                place.write(&name, &files[n])?;
                tips.extend(commit(&place.again()?, "random")?.commit);
            }
            3 | 4 => drop(repack(&place.again()?)?),
            5 => drop(gc(&place.again()?)?),
            6 if tips.len() > 1 => {
                let to = tips[rng.below(tips.len() as u64) as usize];
                let (settings, job) = (Default::default(), Job::default());
                let repo = place.again()?;
                if repo.store().has(&to)? {
                    repo.reset(to, ResetFiles::Match, &request("reset"), &settings, &job)?;
                    forget_operations(&repo)?;
                }
            }
            _ if !tips.is_empty() => {
                fetch(&other, &place)?;
                repack(&other.again()?)?;
                bases_come_first(&other.again()?)?;
                live(&other.again()?)?;
            }
            _ => {}
        }
        live(&place.again()?)?;
        bases_come_first(&place.again()?)?;
    }
    other.is_sound()?;
    place.is_sound()
}
