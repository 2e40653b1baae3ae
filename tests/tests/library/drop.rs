//! Drops: only dropped content is freed, and two repositories that drop never rely on each other.

use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::ObjectType;
use dmv_core::object::list::{Blob, BlobChunks};
use dmv_core::object::name::RepoPath;
use dmv_core::object::root::Root;
use dmv_core::refs::testing;
use dmv_core::repo::{
    BusyError, LackOf, Repo, RepoError, Selection, UpkeepError, VerifyDepth, discover,
};
use dmv_core::store::{LogPack, PackRow};
use dmv_core::subset::Subset;
use dmv_core::vfs::{OpenMode, OsVfs};
use dmv_net::session::NetError;
use dmv_net::wire::Code;
use dmv_tests::countvfs::CountVfs;
use dmv_tests::drops::{contents, drop_all, droppable, dropped, everything, keeps_all_but};
use dmv_tests::garbage::{forget_operations, set_keys};
use dmv_tests::peers::{Done, Place, connect, fetch, update};
use dmv_tests::rng::{Rng, number};
use dmv_tests::scratch::{commit, files_of};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Commits like another process.
fn commit_in(place: &Place, message: &str) -> Done {
    commit(&place.again()?, message)?;
    Ok(())
}

/// Commits into packs of its own.
fn commit_apart(place: &Place, message: &str) -> Done {
    let others = place.again()?;
    let _locks = testing::writer(others.store())?;
    commit_in(place, message)
}

/// Makes a repository with one commit of random files.
fn with_files(seed: u64, files: usize, bytes: usize) -> Done<Place> {
    let place = Place::new()?;
    let mut rng = Rng::new(seed);
    for n in 0..files {
        place.write(&format!("d{}/f{n}", n % 5), &rng.bytes(bytes))?;
    }
    commit_in(&place, "first")?;
    Ok(place)
}

/// Makes a repository with several commits, in several packs, of files that share blocks.
fn shared_blocks(seed: u64) -> Done<Place> {
    let mut rng = Rng::new(seed);
    let blocks: Vec<Vec<u8>> = (0..6).map(|_| rng.bytes(300_000)).collect();
    let place = Place::new()?;
    for n in 0..4 {
        for file in 0..3 {
            let content: Vec<&[u8]> = (0..rng.below(4))
                .map(|_| &blocks[rng.below(6) as usize][..])
                .collect();
            let name = format!("d{}/f{file}", rng.below(3));
            place.write(&name, &content.concat())?;
        }
        match rng.below(2) {
            0 => commit_in(&place, &format!("{n}"))?,
            _ => commit_apart(&place, &format!("{n}"))?,
        }
    }
    Ok(place)
}

#[test]
fn what_is_dropped_goes_and_nothing_else_and_comes_back_from_a_peer() -> Done {
    let mut freed_any = false;
    for seed in 1..=number("DMV_DROPS", 5) {
        let place = shared_blocks(seed)?;
        let contents = contents(&place.repo)?;
        let server = Place::new()?;
        fetch(&server, &place)?;
        for pattern in ["d0", "d1", "**"] {
            let freed = drop_all(&place.again()?, pattern)?;
            freed_any |= freed.freed_bytes > 0;
            let now = place.again()?;
            keeps_all_but(&now, &contents, &dropped(&now)?)
                .map_err(|e| format!("seed {seed}, {pattern}: {e}"))?;
        }
        let (job, repo) = (Job::default(), place.again()?);
        let mut session = connect(&repo, &server, &job)?;
        let roots = contents.values().map(|(blob, _)| Root::Blob(*blob));
        assert_eq!(session.pick(roots.collect())?, []);
        session.finish(Vec::new());
        keeps_all_but(&repo, &contents, &BTreeSet::new())?;
        let root = RepoPath::root();
        let wanted = Selection {
            path: &root,
            located: &everything(&repo)?,
            subset: &Subset::everything(),
        };
        assert_eq!(repo.lacking(wanted, LackOf::Content)?, []);
        repo.no_longer_dropped(wanted)?;
        assert!(
            dropped(&repo)?.is_empty() && !repo.is_partial(),
            "seed {seed}"
        );
        place.is_sound()?;
    }
    assert!(freed_any, "no seed has shown that packs go");
    Ok(())
}

#[test]
fn a_pack_goes_at_once_when_only_dropped_files_need_it() -> Done {
    let place = with_files(1, 3, 50_000)?;
    let raw = Rng::new(5).bytes(3 << 20);
    place.write("raw/a", &raw)?;
    commit_apart(&place, "raw")?;
    let before = place.again()?.store().packs().len();
    let freed = drop_all(&place.again()?, "raw")?;
    assert!(freed.freed_bytes > 3 << 20, "{freed:?}");
    assert_eq!((freed.waiting_bytes, freed.shared_bytes), (0, 0));
    let now = place.again()?;
    assert_eq!(now.store().packs().len(), before - 1);
    assert_eq!(std::fs::read(place.dir.path().join("raw/a"))?, raw);
    // A process that had the repository open notices the drop, too.
    let blob = droppable(&place.repo, "**")?;
    assert_eq!((blob.files.len(), blob.absent), (3, 1));
    // A file that is committed again is stored again.
    place.write("raw/b", &raw)?;
    commit_in(&place, "again")?;
    keeps_all_but(
        &place.again()?,
        &contents(&place.again()?)?,
        &BTreeSet::new(),
    )?;
    Ok(())
}

#[test]
fn what_others_need_of_a_pack_is_moved_and_counted() -> Done {
    let place = Place::new()?;
    let mut rng = Rng::new(8);
    let (one, two) = (rng.bytes(1 << 20), rng.bytes(1 << 20));
    place.write("a", &[&one[..], &two].concat())?;
    place.write("b", &two)?;
    // Small files that share frames. Every other one is dropped below.
    for n in 0..40 {
        place.write(&format!("small/{n}"), &rng.bytes(2_000))?;
    }
    commit_in(&place, "all")?;
    let contents = contents(&place.again()?)?;
    let freed = drop_all(&place.again()?, "a")?;
    assert_eq!(freed.waiting_bytes, 0);
    assert!(freed.shared_bytes > 700_000, "{freed:?}");
    let sum = freed.freed_bytes + freed.shared_bytes;
    assert!(sum.abs_diff(2 << 20) < 10_000, "{freed:?}");
    keeps_all_but(&place.again()?, &contents, &dropped(&place.again()?)?)?;
    // The shared part goes with the second file. In each frame the needed part stays.
    assert_eq!(droppable(&place.again()?, "b")?.earlier.len(), 1);
    for pattern in ["b", "small/?[02468]"] {
        let freed = drop_all(&place.again()?, pattern)?;
        assert!(freed.freed_bytes > 0, "{pattern}: {freed:?}");
        let now = place.again()?;
        keeps_all_but(&now, &contents, &dropped(&now)?)?;
        place.is_sound()?;
    }
    let packs = place.again()?.store().packs();
    // 25 small files stay.
    assert!(packs.iter().map(|pack| pack.len).sum::<u64>() < 70_000);
    Ok(())
}

#[test]
fn what_stays_is_moved_out_of_packs_that_are_mostly_given_up() -> Done {
    let place = Place::new()?;
    let mut rng = Rng::new(9);
    // A commit of its own: which files share a frame depends on who is ready first, and in a frame with a
    // text that compresses, bytes that do not would count for less.
    place.write("text", "again and again ".repeat(9000).as_bytes())?;
    commit_in(&place, "text")?;
    place.write("large", &rng.bytes(3 << 20))?;
    for n in 0..40 {
        place.write(&format!("small/{n}"), &rng.bytes(1000 * n))?;
    }
    commit_in(&place, "one")?;
    let contents = contents(&place.again()?)?;
    let packs = || -> Done<u64> {
        let packs = place.again()?.refs().catalogue()?.packs;
        Ok(packs.iter().map(|pack| pack.len).sum())
    };
    let before = packs()?;
    let freed = drop_all(&place.again()?, "large")?;
    assert!(freed.freed_bytes > (3 << 20) - 10_000, "{freed:?}");
    assert_eq!((freed.waiting_bytes, &freed.why_not_freed), (0, &None));
    assert_eq!(packs()?, before - freed.freed_bytes);
    let now = place.again()?;
    keeps_all_but(&now, &contents, &dropped(&now)?)?;
    drop(now);
    place.is_sound()?;
    // No object is moved out of a pack whose content is mostly needed.
    let freed = drop_all(&place.again()?, "small/39")?;
    assert_eq!((freed.freed_bytes, freed.waiting_bytes), (0, 39_000));
    Ok(())
}

#[test]
fn a_pack_of_which_little_is_given_up_is_not_rewritten() -> Done {
    let place = Place::new()?;
    let mut rng = Rng::new(9);
    for (name, len) in [("little", 300_000), ("much", 3_000_000)] {
        place.write(name, &rng.bytes(len))?;
    }
    commit_in(&place, "both")?;
    let freed = drop_all(&place.again()?, "little")?;
    assert_eq!((freed.freed_bytes, freed.waiting_bytes), (0, 300_000));
    // Dropping the other file frees the pack, together with the content that waited in it.
    let freed = drop_all(&place.again()?, "much")?;
    assert!(freed.freed_bytes > 3_300_000, "{freed:?}");
    Ok(())
}

#[test]
fn a_pack_that_is_damaged_where_it_is_needed_stays_as_it_is() -> Done {
    let place = Place::new()?;
    let mut rng = Rng::new(10);
    for (name, len) in [("a", 500_000), ("b", 900_000)] {
        place.write(name, &rng.bytes(len))?;
    }
    commit_in(&place, "both")?;
    // The middle of the pack has `b`, which is needed. The damage there is not known yet.
    damage(&place.again()?)?;
    let freed = drop_all(&place.again()?, "a")?;
    assert_eq!((freed.freed_bytes, freed.waiting_bytes), (0, 500_000));
    assert!(freed.why_not_freed.is_some());
    let report = place
        .again()?
        .verify(VerifyDepth::Normal, &Job::default())?;
    assert_eq!(
        (report.damaged.len(), report.missing.len()),
        (1, 0),
        "{report:?}"
    );
    Ok(())
}

#[test]
fn a_pack_that_somebody_writes_to_stays() -> Done {
    let place = with_files(3, 2, 300_000)?;
    let other = place.again()?;
    let writer = testing::writer(other.store())?;
    let freed = drop_all(&place.again()?, "**")?;
    assert_eq!((freed.freed_bytes, freed.waiting_bytes), (0, 600_000));
    let why = freed.why_not_freed.ok_or("it waits, and tells why")?;
    assert!(why.starts_with("another command is writing to "), "{why}");
    drop(writer);
    assert!(drop_all(&place.again()?, "**")?.freed_bytes > 600_000);
    Ok(())
}

#[test]
fn who_has_taken_in_a_push_and_is_still_there_keeps_no_pack_from_others() -> Done {
    let (ours, theirs) = (with_files(3, 2, 300_000)?, Place::new()?);
    let job = Job::default();
    let mut session = connect(&ours.repo, &theirs, &job)?;
    session.push(&[update(None, ours.tip()?, false)])?;
    let packs = theirs.again()?.store().packs();
    // The session continues with the same packs. The content that it has already received can be
    // dropped.
    ours.write("more", &Rng::new(4).bytes(300_000))?;
    let (old, new) = (ours.tip()?, ours.commit("more")?);
    session.push(&[update(Some(old), new, false)])?;
    let ids = |packs: &[PackRow]| packs.iter().map(|row| row.id).collect::<Vec<_>>();
    assert_eq!(ids(&packs), ids(&theirs.again()?.store().packs()));
    assert!(drop_all(&theirs.again()?, "**")?.freed_bytes > 900_000);
    assert!(session.unkept(&asked_for(&ours)?)?.len() > 2, "it is gone");
    session.finish(Vec::new());
    Ok(())
}

#[test]
fn a_commit_that_comes_in_between_keeps_what_it_needs() -> Done {
    let place = Place::new()?;
    let old = Rng::new(4).bytes(2 << 20);
    place.write("old", &old)?;
    commit_in(&place, "old")?;
    let found = droppable(&place.again()?, "**")?;
    let repo = place.again()?;
    let freeing = repo.begin_to_free()?;
    let mut times = 0;
    let mut still = || {
        times += 1;
        if times == 1 {
            // The new file has most of its chunks in common with the old one.
            let new = [&old[..], b"more"].concat();
            place
                .write("new", &new)
                .and_then(|()| std::fs::remove_file(place.dir.path().join("old")))
                .expect("it can be written");
            commit_in(&place, "new").expect("it can be committed");
        }
        true
    };
    let blobs: Vec<Blob> = found.files.iter().map(|(_, blob)| *blob).collect();
    let freed = freeing.drop_files(&blobs, &[], &mut still, &Job::default())?;
    assert_eq!(times, 2);
    assert!(freed.shared_bytes > 1 << 20, "{freed:?}");
    let now = place.again()?;
    let new = droppable(&now, "**");
    assert!(matches!(
        new.as_ref().map_err(|e| e.downcast_ref::<RepoError>()),
        Err(Some(RepoError::Busy(BusyError::Freeing(_))))
    ));
    drop(freeing);
    assert_eq!(droppable(&now, "new")?.files.len(), 1);
    Ok(())
}

/// Commits a file that shares most of its chunks with `old`, into packs of its own, and removes the
/// file with the old content.
fn commit_a_relative(place: &Place, old: &[u8]) -> Done {
    place.write("new", &[old, b"more"].concat())?;
    std::fs::remove_file(place.dir.path().join("old"))?;
    commit_apart(place, "new")
}

#[test]
fn a_commit_that_comes_in_before_the_plan_keeps_what_it_needs() -> Done {
    let place = Arc::new(Place::new()?);
    let old = Rng::new(5).bytes(2 << 20);
    place.write("old", &old)?;
    commit_in(&place, "old")?;
    let found = droppable(&place.again()?, "**")?;
    let blobs: Vec<Blob> = found.files.iter().map(|(_, blob)| *blob).collect();
    let disk = CountVfs::default();
    let at = discover(place.dir.path())?;
    let repo = Repo::open_place_on(at, Arc::new(disk.clone()))?;
    let freeing = repo.begin_to_free()?;
    let (theirs, content) = (place.clone(), old.clone());
    let came = Arc::new(AtomicBool::new(false));
    let done = came.clone();
    disk.before_next_read(move || {
        commit_a_relative(&theirs, &content).expect("it can be committed");
        done.store(true, Ordering::Relaxed);
    });
    let freed = freeing.drop_files(&blobs, &[], &mut || true, &Job::default())?;
    assert!(came.load(Ordering::Relaxed), "the drop read nothing");
    assert!(freed.shared_bytes > 1 << 20, "{freed:?}");
    drop(freeing);
    let now = place.again()?;
    assert!(now.verify(VerifyDepth::Normal, &Job::default())?.is_ok());
    assert_eq!(droppable(&now, "new")?.files.len(), 1);
    Ok(())
}

#[test]
fn what_only_the_log_has_yet_stops_a_drop_until_the_database_has_it() -> Done {
    let place = with_files(7, 2, 400_000)?;
    let repo = place.again()?;
    let found = droppable(&repo, "**")?;
    let blobs: Vec<Blob> = found.files.iter().map(|(_, blob)| *blob).collect();
    // As if a command had been killed between its record in the log and its commit.
    let store = repo.store();
    let log = LogPack::open(&OsVfs, store.packs_dir(), repo.id(), OpenMode::Append)?;
    let known = repo.refs().operations(1)?.remove(0);
    testing::append(&log, &known.encode())?;
    let freeing = repo.begin_to_free()?;
    let mut request = 0;
    let mut still = || {
        request += 1;
        true
    };
    let freed = freeing.drop_files(&blobs, &[], &mut still, &Job::default())?;
    assert!(freed.freed_bytes > 0, "{freed:?}");
    assert_eq!(request, 2, "it planned once without that operation");
    Ok(())
}

#[test]
fn whatever_a_key_of_the_view_names_is_needed() -> Done {
    type Value = fn(ObjectId) -> Vec<u8>;
    let raw: Value = |id| id.as_bytes().to_vec();
    let text: Value = |id| id.to_string().into_bytes();
    let good: Value = |id| format!("start branch/main\ngood {id}\n").into_bytes();
    let start: Value = |id| format!("start {id}\n").into_bytes();
    let cases = [
        ("branch/x", raw, true),
        ("stash/000000000003", raw, true),
        ("worktree/main/head", text, true),
        ("worktree/main/previous", text, true),
        ("worktree/two/previous", text, true),
        ("worktree/main/bisect", good, true),
        ("worktree/main/bisect", start, true),
        ("worktree/main/notes", raw, true),
        ("worktree/main/steps", raw, true),
        ("worktree/main/begun", raw, true),
        ("shelf/of a later version", raw, true),
        ("worktree/main/later", text, true),
        ("worktree/main/path", raw, false),
        ("peer/x", raw, false),
    ];
    for (key, value, names) in cases {
        let place = Place::new()?;
        let old = Rng::new(11).bytes(2 << 20);
        place.write("old", &old)?;
        let first = place.commit("old")?;
        commit_a_relative(&place, &old)?;
        let (repo, second) = (place.again()?, place.tip()?);
        let main = Some(first.as_bytes().to_vec());
        let changes = [
            ("branch/main", main.clone()),
            ("worktree/main/base", main),
            (key, Some(value(second))),
        ];
        set_keys(&repo, &changes)?;
        forget_operations(&repo)?;
        drop(repo);
        let freed = drop_all(&place.again()?, "**")?;
        assert_eq!(freed.shared_bytes > 1 << 20, names, "{key}: {freed:?}");
        assert_eq!(files_of(&place.again()?, &second).is_ok(), names, "{key}");
    }
    Ok(())
}

#[test]
fn what_undo_can_reach_is_needed_and_nothing_older() -> Done {
    for forgets in [false, true] {
        let place = Place::new()?;
        let old = Rng::new(12).bytes(2 << 20);
        place.write("old", &old)?;
        let first = place.commit("old")?;
        commit_a_relative(&place, &old)?;
        let (repo, second) = (place.again()?, place.tip()?);
        let main = Some(first.as_bytes().to_vec());
        let changes = [("branch/main", main.clone()), ("worktree/main/base", main)];
        set_keys(&repo, &changes)?;
        if forgets {
            forget_operations(&repo)?;
        }
        drop(repo);
        let freed = drop_all(&place.again()?, "**")?;
        assert_eq!(freed.shared_bytes > 1 << 20, !forgets, "{freed:?}");
        assert_eq!(files_of(&place.again()?, &second).is_ok(), !forgets);
    }
    Ok(())
}

#[test]
fn who_keeps_everything_first_looks_at_what_is_there() -> Done {
    let place = with_files(8, 1, 400_000)?;
    let (fetching, keeping) = (place.again()?, place.again()?);
    let found = droppable(&place.again()?, "**")?;
    let blob = found.files[0].1;
    let chunk = BlobChunks::new(keeping.objects(), blob).next();
    let chunk = chunk.ok_or("it has chunks")??.1;
    assert!(keeping.store().pack_of(&chunk)?.is_some());
    assert!(drop_all(&place.again()?, "**")?.freed_bytes > 0);
    // Fetched content that a drop has freed since must not go off the list of dropped content.
    fetching.have_come(&[Root::Blob(blob)])?;
    assert_eq!(dropped(&place.again()?)?, BTreeSet::from([blob.id]));
    let _kept = keeping.keep_all()?;
    assert_eq!(keeping.store().pack_of(&chunk)?, None);
    Ok(())
}

#[test]
fn a_job_that_relies_on_a_pack_that_went_is_refused() -> Done {
    let place = with_files(6, 1, 400_000)?;
    let content = std::fs::read(place.dir.path().join("d0/f0"))?;
    let other = place.again()?;
    let chunk = {
        let found = droppable(&place.again()?, "**")?;
        let blob = found.files[0].1;
        BlobChunks::new(other.objects(), blob)
            .next()
            .ok_or("it has chunks")??
            .1
    };
    let pack = other.store().pack_of(&chunk)?.ok_or("it is here")?;
    assert!(drop_all(&place.again()?, "**")?.freed_bytes > 0);
    let refused = testing::add_segments(other.refs(), &[], &[pack]);
    assert!(matches!(refused, Err(dmv_core::refs::RefsError::PackGone(p)) if p == pack));
    // A reader that has the pack open can still read. A new one finds nothing.
    let mut bytes = Vec::new();
    let ty = ObjectType::Chunk;
    other.store().read_into(ty, &chunk, &mut bytes)?;
    assert!(!place.again()?.store().read_into(ty, &chunk, &mut bytes)?);
    place.write("d0/f1", &content)?;
    commit_in(&place, "stored again")?;
    Ok(())
}

#[test]
fn a_peer_that_is_gone_before_the_end_stops_it() -> Done {
    let place = with_files(6, 2, 40_000)?;
    let repo = place.again()?;
    let found = droppable(&repo, "**")?;
    let blobs: Vec<Blob> = found.files.iter().map(|(_, blob)| *blob).collect();
    let freeing = repo.begin_to_free()?;
    let stopped = freeing.drop_files(&blobs, &[], &mut || false, &Job::default());
    assert!(matches!(
        stopped,
        Err(RepoError::Upkeep(UpkeepError::Unconfirmed))
    ));
    assert!(!repo.is_partial());
    place.is_sound()
}

/// Returns the blobs of the newest commit, as a client asks for them.
fn asked_for(place: &Place) -> Done<Vec<(ObjectType, ObjectId)>> {
    let found = droppable(&place.again()?, "**")?;
    Ok(found.files.iter().map(|(_, b)| (b.ty(), b.id)).collect())
}

/// Returns how many of `files` a server does not keep.
fn unkept(client: &Place, server: &Place, files: &[(ObjectType, ObjectId)]) -> Done<usize> {
    let (job, repo) = (Job::default(), client.again()?);
    let mut session = connect(&repo, server, &job)?;
    let unkept = session.unkept(files)?.len();
    assert_eq!(session.unkept(&[])?, []);
    session.finish(Vec::new());
    Ok(unkept)
}

#[test]
fn a_peer_counts_only_if_it_holds_all_of_a_file_and_its_refs_lead_there() -> Done {
    // Each file is one chunk, and a frame holds at most 65 of them: damage of one leaves others.
    const FILES: usize = 200;
    let (ours, theirs) = (with_files(2, FILES, 16_000)?, Place::new()?);
    // Before any connection: a server of ours that has not ended yet would be in the way.
    let files = asked_for(&ours)?;
    assert_eq!(unkept(&ours, &theirs, &files)?, FILES, "it has nothing");
    // The server stores the bytes, but it would free them.
    {
        let (job, repo) = (Job::default(), theirs.again()?);
        let roots = contents(&ours.repo)?;
        let mut session = connect(&repo, &ours, &job)?;
        session.pick(roots.values().map(|(b, _)| Root::Blob(*b)).collect())?;
        session.finish(Vec::new());
    }
    assert_eq!(
        unkept(&ours, &theirs, &files)?,
        FILES,
        "nothing leads to them"
    );
    fetch(&theirs, &ours)?;
    assert_eq!(unkept(&ours, &theirs, &files)?, 0);
    // The server has recorded one of the files as dropped, although its bytes are still there.
    let first = files[0].1;
    theirs
        .repo
        .change_slice(|slice| slice.dropped.extend([first]))?;
    assert_eq!(unkept(&ours, &theirs, &files)?, 1);
    theirs.repo.change_slice(|slice| slice.dropped.clear())?;
    // `verify` has found damaged objects.
    damage(&theirs.again()?)?;
    let report = theirs
        .again()?
        .verify(VerifyDepth::Normal, &Job::default())?;
    assert!(!report.damaged.is_empty());
    let lost = unkept(&ours, &theirs, &files)?;
    assert!(lost > 0 && lost < FILES, "{lost}");
    // Missing content counts as absent even without `verify`.
    for pack in theirs.repo.store().packs() {
        let path = theirs.repo.store().pack_path(pack.id);
        std::fs::OpenOptions::new()
            .write(true)
            .open(path)?
            .set_len(100)?;
    }
    assert_eq!(unkept(&ours, &theirs, &files)?, FILES);
    Ok(())
}

/// Flips a bit in the middle of the largest pack.
fn damage(repo: &Repo) -> Done {
    let packs = repo.store().packs();
    let largest = packs.iter().max_by_key(|pack| pack.len).ok_or("packs")?;
    let path = repo.store().pack_path(largest.id);
    let mut bytes = std::fs::read(&path)?;
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    Ok(std::fs::write(&path, bytes)?)
}

#[test]
fn whoever_drops_keeps_nothing_for_others_and_whom_others_count_on_drops_nothing() -> Done {
    let (one, two) = (with_files(2, 4, 20_000)?, Place::new()?);
    fetch(&two, &one)?;
    let (job, repo) = (Job::default(), one.again()?);
    {
        // The first repository drops, and has not asked yet. The second must not rely on it.
        let _freeing = repo.begin_to_free()?;
        let other = two.again()?;
        let mut session = connect(&other, &one, &job)?;
        let busy = session.unkept(&[]);
        assert!(
            matches!(busy, Err(NetError::Peer(Code::Busy, _))),
            "{busy:?}"
        );
        assert!(matches!(
            repo.begin_to_free(),
            Err(RepoError::Busy(BusyError::Freeing(_)))
        ));
    }
    {
        // The second repository has said that it keeps everything. So it does not drop.
        let mut session = connect(&repo, &two, &job)?;
        assert_eq!(session.unkept(&asked_for(&one)?)?, []);
        let other = two.again()?;
        assert!(matches!(
            other.begin_to_free(),
            Err(RepoError::Busy(BusyError::Freeing(_)))
        ));
        // Other clients may also rely on it, and it can still commit.
        let mut second = connect(&repo, &two, &job)?;
        assert_eq!(second.unkept(&[])?, []);
        two.write("more", b"more")?;
        second.finish(Vec::new());
        session.finish(Vec::new());
    }
    // The server notices the end of a session on a thread of its own.
    let other = two.again()?;
    let free = (0..200).any(|_| {
        std::thread::yield_now();
        let done = other.begin_to_free().is_ok();
        done || {
            std::thread::sleep(std::time::Duration::from_millis(10));
            false
        }
    });
    assert!(free);
    Ok(())
}

#[test]
fn nothing_is_freed_under_a_transfer() -> Done {
    let (one, two) = (with_files(2, 4, 20_000)?, Place::new()?);
    let (job, repo) = (Job::default(), two.again()?);
    let mut session = connect(&repo, &one, &job)?;
    let tips: Vec<ObjectId> = session.offered.refs.iter().map(|(_, id)| *id).collect();
    session.fetch(&tips)?;
    assert!(matches!(
        two.again()?.begin_to_free(),
        Err(RepoError::Busy(BusyError::Freeing(_)))
    ));
    session.finish(Vec::new());
    let freeing = repo.begin_to_free()?;
    let mut session = connect(&repo, &one, &job)?;
    let refused = session.fetch(&tips);
    assert!(matches!(
        refused,
        Err(NetError::Repo(RepoError::Busy(BusyError::Freeing(_))))
    ));
    let mut session = connect(&one.repo, &two, &job)?;
    let refused = session.push(&[update(None, one.tip()?, false)]);
    assert!(matches!(refused, Err(NetError::Peer(Code::Busy, _))));
    drop(freeing);
    Ok(())
}

#[test]
fn a_pack_whose_file_is_gone_is_not_relied_on_though_it_is_still_open() -> Done {
    let place = with_files(70, 3, 2000)?;
    let (repo, tip) = (place.again()?, place.tip()?);
    let store = repo.store();
    assert!(store.read_into(ObjectType::Commit, &tip, &mut Vec::new())?);
    assert!(store.has_undamaged(&tip)?);
    let pack = store.pack_of(&tip)?.ok_or("it is stored")?;
    std::fs::rename(store.pack_path(pack), place.dir.path().join("away"))?;
    assert!(!store.has_undamaged(&tip)?);
    Ok(())
}
