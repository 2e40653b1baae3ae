//! Purges: nothing of the content stays in a pack, nobody stores it again, and nothing else is lost.

use crate::deltas::repacked;
use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::limits::MAX_SLICE_TOLD;
use dmv_core::object::name::RepoPath;
use dmv_core::object::tree::lookup_path;
use dmv_core::object::{ObjectType, ObjectWrite};
use dmv_core::refs::testing;
use dmv_core::repo::{
    BusyError, KnownPurge, Purge, PurgeReport, PurgeWhat, Repo, RepoError, ToPurge, VerifyDepth,
    roots_of,
};
use dmv_core::store::{CheckedObject, IncomingObjects, MetaWriter};
use dmv_net::session::{Client, Link, PurgeAnswer};
use dmv_net::wire::{Access, Extension, MAX_IDS, MAX_PURGED, Message, PurgeOutcome, PurgedFiles};
use dmv_tests::drops::{Contents, contents, drop_all, keeps_all_but};
use dmv_tests::evil::{frames, is_protocol, meets, offering};
use dmv_tests::lab::Lab;
use dmv_tests::packs::{data_packs, merge, store_again};
use dmv_tests::peers::{Done, Place, serving};
use dmv_tests::rng::Rng;
use dmv_tests::scratch::{commit, request};
use dmv_tests::simfs::{Fault, Op, Survival};
use std::collections::{BTreeSet, HashSet};
use std::path::Path;

/// The secret: some chunks, which nothing compresses.
const SECRET: usize = 600_000;

/// How many bytes in a row are searched for, and how far apart.
const PROBE: usize = 48;
const STEP: usize = 997;

fn secret() -> Vec<u8> {
    Rng::new(77).bytes(SECRET)
}

/// A repository in which `secret` has had two contents, and shares a part with `joined`.
fn place() -> Done<Place> {
    let place = Place::new()?;
    let secret = secret();
    place.write("secret", &secret)?;
    place.write("stays", &Rng::new(1).bytes(200_000))?;
    place.commit("one")?;
    let shared = &secret[SECRET / 2..];
    place.write("joined", &[shared, &Rng::new(2).bytes(100_000)].concat())?;
    place.write("secret", &[&secret[..], b"more"].concat())?;
    place.commit("two")?;
    place.write("beside", &Rng::new(3).bytes(50_000))?;
    place.commit("three")?;
    Ok(place)
}

fn purge(repo: &Repo, path: &str) -> Result<PurgeReport, RepoError> {
    let what = PurgeWhat::Path(Repo::parse_path(path.as_bytes())?);
    let found = repo.purgeable(&what, &Job::default())?;
    let new = ToPurge {
        files: [(
            why("a leaked key"),
            roots_of(found.files.values().map(|(_, blob)| blob)),
        )]
        .into(),
        request: request("purge"),
    };
    repo.begin_to_free()?.purge(Some(new), &Job::default())
}

fn why(reason: &str) -> Purge {
    Purge {
        at: 1_795_000_000,
        by: "ada".into(),
        reason: reason.into(),
    }
}

/// Removes what an earlier purge had to leave.
fn go_on(repo: &Repo) -> Result<PurgeReport, RepoError> {
    repo.begin_to_free()?.purge(None, &Job::default())
}

/// Returns the part of the secret that `joined` does not have.
fn only_secret() -> Vec<u8> {
    secret()[..SECRET / 2].to_vec()
}

/// Returns whether bytes contain any of many small parts of `what`.
fn has_part(bytes: &[u8], what: &[u8]) -> bool {
    let parts = (0..what.len() - PROBE).step_by(STEP);
    let parts: Vec<&[u8]> = parts.map(|at| &what[at..at + PROBE]).collect();
    has_any(bytes, &parts)
}

fn has_any(bytes: &[u8], parts: &[&[u8]]) -> bool {
    let number = |bytes: &[u8]| usize::from(bytes[0]) << 8 | usize::from(bytes[1]);
    let mut starts = vec![false; 1 << 16];
    for part in parts {
        starts[number(part)] = true;
    }
    let is_part = |window: &[u8]| starts[number(window)] && parts.contains(&window);
    bytes.windows(PROBE).any(is_part)
}

fn packs_have(dir: &Path, what: &[u8]) -> Done<bool> {
    for entry in std::fs::read_dir(dir.join(".dmv/packs"))? {
        if has_part(&std::fs::read(entry?.path())?, what) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn blob_at(repo: &Repo, revision: &str, path: &str) -> Done<ObjectId> {
    let commit = repo.read_commit(&repo.resolve(revision)?)?;
    let path: RepoPath = Repo::parse_path(path.as_bytes())?;
    Ok(lookup_path(repo.objects(), &commit.tree, &path)?
        .ok_or("it is there")?
        .id)
}

/// Returns the first chunk of a large file.
fn first_chunk(repo: &Repo, list: &ObjectId) -> Done<ObjectId> {
    let bytes = repo
        .objects()
        .read(ObjectType::List, list)?
        .ok_or("it is a large file")?;
    let links = ObjectType::List
        .links(&bytes)
        .map_err(|e| format!("{e:?}"))?;
    Ok(links.first().ok_or("it has chunks")?.1)
}

fn is_sound(repo: &Repo) -> Done {
    let report = repo.verify(VerifyDepth::Full, &Job::default())?;
    assert!(report.is_ok(), "{report:?}");
    Ok(())
}

#[test]
fn nothing_of_a_purged_file_stays_in_a_pack_and_all_else_does() -> Done {
    let place = place()?;
    let before = contents(&place.repo)?;
    assert!(packs_have(place.dir.path(), &only_secret())?);
    let ids = BTreeSet::from([
        blob_at(&place.repo, "main", "secret")?,
        blob_at(&place.repo, "main~2", "secret")?,
    ]);
    let done = purge(&place.repo, "secret")?;
    assert_eq!(done.files, 2);
    assert_eq!(done.left, Vec::<String>::new());
    assert!(
        done.shared_bytes >= 50_000 && done.bytes >= 200_000,
        "{done:?}"
    );
    assert!(!packs_have(place.dir.path(), &only_secret())?);
    keeps_all_but(&place.again()?, &before, &ids)?;
    place.is_sound()?;
    // Another content of the same path is no secret.
    place.write("secret", b"harmless")?;
    commit(&place.again()?, "four")?;
    place.is_sound()
}

#[test]
fn what_was_purged_is_not_committed_again_until_it_is_allowed() -> Done {
    let place = place()?;
    purge(&place.repo, "secret")?;
    place.write("again", &secret())?;
    place.write("new", b"new")?;
    let repo = place.again()?;
    let report = commit(&repo, "again")?;
    let problems: Vec<_> = report
        .problems
        .iter()
        .map(|problem| problem.path.as_bytes())
        .collect();
    assert_eq!(problems, [b"again"], "an unchanged file is no problem");
    assert!(report.commit.is_some());
    assert!(!packs_have(place.dir.path(), &only_secret())?);
    let ids = repo.slice()?.purged.into_keys().collect();
    assert_eq!(repo.lift_purge(&ids, request("purge"))?, 2);
    assert_eq!(repo.slice()?.dropped, ids);
    assert_eq!(repo.purges()?, []);
    let report = commit(&place.again()?, "again")?;
    assert!(report.problems.is_empty() && report.commit.is_some());
    assert!(packs_have(place.dir.path(), &only_secret())?);
    place.is_sound()
}

/// A writer that began before the purge does not know of it. What it has stored is not published.
#[test]
fn a_command_that_began_before_the_purge_brings_nothing_back() -> Done {
    let place = place()?;
    let other = place.again()?;
    let id = blob_at(&place.repo, "main", "secret")?;
    // The writer gets no pack that is there, so that the purge can remove it.
    let holder = place.again()?;
    let held = testing::writer(holder.store())?;
    let chunk = first_chunk(&other, &id)?;
    let bytes = other
        .objects()
        .read(ObjectType::Chunk, &chunk)?
        .ok_or("it is here")?;
    let writer = testing::writer(other.store())?;
    drop(held);
    assert_eq!(purge(&place.repo, "secret")?.left, Vec::<String>::new());
    assert!(!packs_have(place.dir.path(), &only_secret())?);
    // Now the writer stores the chunk, which it does not find any more.
    other.store().refresh()?;
    let mut meta = MetaWriter::new(&writer);
    meta.put(ObjectType::Chunk, &bytes)?;
    meta.flush()?;
    drop(meta);
    let refused = other.keep_incoming(IncomingObjects::new(writer));
    assert!(
        matches!(refused, Err(RepoError::Busy(BusyError::PurgedMeanwhile))),
        "{refused:?}"
    );
    assert!(
        packs_have(place.dir.path(), &only_secret())?,
        "the torn tail has it"
    );
    let done = go_on(&place.again()?)?;
    assert_eq!(done.left, Vec::<String>::new());
    assert!(!packs_have(place.dir.path(), &only_secret())?);
    place.is_sound()
}

/// A pack whose lock is held by another command cannot go. The purge says so, and a later one ends it.
#[test]
fn a_pack_that_another_command_writes_to_is_named_and_cleaned_later() -> Done {
    let place = place()?;
    let other = place.again()?;
    let writer = testing::writer(other.store())?;
    let done = purge(&place.repo, "secret")?;
    assert!(!done.left.is_empty());
    assert!(packs_have(place.dir.path(), &only_secret())?);
    assert!(place.repo.purges()?[0].stored > 0);
    drop(writer);
    let done = go_on(&place.again()?)?;
    assert_eq!(done.left, Vec::<String>::new());
    assert_eq!(place.repo.purges()?[0].stored, 0);
    assert!(!packs_have(place.dir.path(), &only_secret())?);
    place.is_sound()
}

/// The torn tail of a killed command, its abandoned pack, and copies that a merged index hides.
#[test]
fn bytes_that_no_table_names_go_as_well() -> Done {
    let place = place()?;
    let id = blob_at(&place.repo, "main", "secret")?;
    let chunk = first_chunk(&place.repo, &id)?;
    let before = contents(&place.repo)?;
    for _ in 0..3 {
        store_again(&place, &[vec![chunk]])?;
    }
    merge(&place.again()?)?;
    let pack = data_packs(&place.repo)?.pop_first().ok_or("a pack")?;
    let path = place.repo.store().pack_path(pack);
    let mut torn = std::fs::read(&path)?;
    torn.extend_from_slice(&secret()[..5_000]);
    std::fs::write(&path, torn)?;
    // The file of a killed command that had only begun.
    let abandoned = path.with_file_name(format!("{}.pack", "5".repeat(31) + "0"));
    let header = std::fs::read(&path)?[..20].to_vec();
    std::fs::write(&abandoned, header)?;
    let ids: BTreeSet<ObjectId> = [id, blob_at(&place.repo, "main~2", "secret")?].into();
    let done = purge(&place.again()?, "secret")?;
    assert_eq!(done.left, Vec::<String>::new());
    assert!(!packs_have(place.dir.path(), &only_secret())?);
    assert!(!abandoned.exists());
    keeps_all_but(&place.again()?, &before, &ids)?;
    place.is_sound()
}

fn crash_in_purge(
    mut lab: Lab,
    at: u64,
    before: &Contents,
    ids: &BTreeSet<ObjectId>,
) -> Done<bool> {
    lab.sim.crash_at(at);
    let done = lab.open().map(|repo| purge(&repo, "secret"));
    let crashed = lab.sim.has_crashed();
    if !crashed {
        done??;
    }
    let survivals = [Survival::Nothing, Survival::Everything, Survival::Some];
    for (seed, survival) in survivals.into_iter().enumerate() {
        lab.crash(survival, seed as u64 + at);
        let repo = lab.open()?;
        keeps_all_but(&repo, before, ids)
            .map_err(|e| format!("operation {at}, {survival:?}: {e}"))?;
        let done = if repo.slice()?.purged.is_empty() {
            purge(&repo, "secret")?
        } else {
            go_on(&repo)?
        };
        assert_eq!(
            done.left,
            Vec::<String>::new(),
            "operation {at}, {survival:?}"
        );
        is_clean(&lab).map_err(|e| format!("operation {at}, {survival:?}: {e}"))?;
        keeps_all_but(&repo, before, ids)?;
        is_sound(&repo)?;
    }
    Ok(crashed)
}

#[test]
fn a_crash_at_any_point_of_a_purge_loses_nothing_else_and_the_next_one_ends_it() -> Done {
    let mut crashes = 0;
    for at in 1.. {
        let place = place()?;
        let before = contents(&place.repo)?;
        let ids = BTreeSet::from([
            blob_at(&place.repo, "main", "secret")?,
            blob_at(&place.repo, "main~2", "secret")?,
        ]);
        if !crash_in_purge(Lab::over(place)?, at, &before, &ids)? {
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

/// A frame may be stored as the difference to purged content, or purged content as a difference.
#[test]
fn a_base_that_was_purged_goes_and_what_needed_it_stays() -> Done {
    for n in [0, 2] {
        let (place, all) = repacked(3, 40 + n as u64)?;
        let before = contents(&place.again()?)?;
        let others = all.iter().enumerate().filter(|(other, _)| *other != n);
        let others: HashSet<&[u8]> = others.flat_map(|(_, bytes)| bytes.windows(PROBE)).collect();
        let mut parts: Vec<&[u8]> = all[n].windows(PROBE).step_by(3).collect();
        parts.retain(|part| !others.contains(part));
        assert!(parts.len() > 30, "{}", parts.len());
        let repo = place.again()?;
        let done = purge(&repo, &format!("lib/v{n}"))?;
        assert_eq!(done.left, Vec::<String>::new(), "{n}");
        assert!(done.files == 1 && done.bytes > 0, "{done:?}");
        for entry in std::fs::read_dir(place.dir.path().join(".dmv/packs"))? {
            assert!(!has_any(&std::fs::read(entry?.path())?, &parts), "{n}");
        }
        let ids = repo.slice()?.purged.into_keys().collect();
        keeps_all_but(&place.again()?, &before, &ids)?;
        place.is_sound()?;
    }
    Ok(())
}

#[test]
fn a_disk_that_is_full_or_fails_loses_nothing_and_the_next_purge_ends_it() -> Done {
    const FULL: i32 = 28;
    const BROKEN: i32 = 5;
    for op in [Op::Write, Op::Sync, Op::SyncDir, Op::Remove, Op::Create] {
        for forever in [true, false] {
            for after in 0..4 {
                let place = place()?;
                let before = contents(&place.repo)?;
                let ids = BTreeSet::from([
                    blob_at(&place.repo, "main", "secret")?,
                    blob_at(&place.repo, "main~2", "secret")?,
                ]);
                let lab = Lab::over(place)?;
                let errno = if op == Op::Write { FULL } else { BROKEN };
                lab.sim.fail(Fault {
                    op,
                    after,
                    forever,
                    errno,
                });
                // Whether it fails, or says what is left, or had luck.
                let _ = purge(&lab.open()?, "secret");
                lab.sim.clear_faults();
                let repo = lab.open()?;
                keeps_all_but(&repo, &before, &ids)?;
                let done = if repo.slice()?.purged.is_empty() {
                    purge(&repo, "secret")?
                } else {
                    go_on(&repo)?
                };
                assert_eq!(done.left, Vec::<String>::new(), "{op:?} {after} {forever}");
                is_clean(&lab).map_err(|e| format!("{op:?} {after} {forever}: {e}"))?;
                keeps_all_but(&repo, &before, &ids)?;
                is_sound(&repo)?;
            }
        }
    }
    Ok(())
}

/// Fails if a pack on a simulated disk has a part of the secret.
fn is_clean(lab: &Lab) -> Done {
    let is_pack = |path: &Path| path.extension().is_some_and(|ext| ext == "pack");
    for (path, bytes) in lab.sim.seen() {
        if is_pack(&path) && has_part(&bytes, &only_secret()) {
            return Err(format!("{} has a part of the secret", path.display()).into());
        }
    }
    Ok(())
}

/// A metadata-only repository, or one that has dropped the content, notes what must not come.
#[test]
fn content_that_is_absent_is_refused_as_well() -> Done {
    let place = place()?;
    drop_all(&place.again()?, "secret")?;
    let repo = place.again()?;
    assert_eq!(repo.slice()?.dropped.len(), 1);
    let done = purge(&repo, "secret")?;
    assert_eq!(done.files, 2);
    assert!(repo.slice()?.dropped.is_empty());
    place.write("again", &[&secret()[..], b"more"].concat())?;
    let report = commit(&place.again()?, "again")?;
    assert_eq!(report.problems.len(), 1, "{report:?}");
    assert!(!packs_have(place.dir.path(), &only_secret())?);
    place.is_sound()
}

#[test]
fn a_reason_that_no_line_can_hold_changes_nothing() -> Done {
    let place = place()?;
    for reason in ["", "two\nlines", "a\tb", &"x".repeat(2000)] {
        let new = ToPurge {
            files: [(
                why(reason),
                [(blob_at(&place.repo, "main", "secret")?, ObjectType::List)].into(),
            )]
            .into(),
            request: request("purge"),
        };
        let done = place
            .repo
            .begin_to_free()?
            .purge(Some(new), &Job::default());
        assert!(matches!(done, Err(RepoError::Text(_))), "{reason}");
        assert!(place.repo.slice()?.is_everything());
    }
    Ok(())
}

/// A content that was purged before keeps its reason, also for chunks that are refused only now.
#[test]
fn another_reason_for_the_same_file_removes_what_the_first_had_to_leave() -> Done {
    let place = Place::new()?;
    let secret = secret();
    place.write("secret", &secret)?;
    place.commit("one")?;
    place.write(
        "joined",
        &[&secret[..], &Rng::new(2).bytes(100_000)].concat(),
    )?;
    place.commit("two")?;
    let id = blob_at(&place.repo, "main", "secret")?;
    let under = |reason: &str| -> Done<PurgeReport> {
        let new = ToPurge {
            files: [(why(reason), [(id, ObjectType::List)].into())].into(),
            request: request("purge"),
        };
        let repo = place.again()?;
        Ok(repo.begin_to_free()?.purge(Some(new), &Job::default())?)
    };
    assert!(under("first")?.shared_bytes > 0);
    let joined = blob_at(&place.repo, "main", "joined")?;
    let new = ToPurge {
        files: [(
            why("second"),
            [(id, ObjectType::List), (joined, ObjectType::List)].into(),
        )]
        .into(),
        request: request("purge"),
    };
    let done = place
        .again()?
        .begin_to_free()?
        .purge(Some(new), &Job::default())?;
    assert_eq!((done.files, done.shared_bytes), (1, 0), "{done:?}");
    let slice = place.again()?.slice()?;
    assert_eq!(slice.purged[&id].reason, "first");
    assert!(!packs_have(place.dir.path(), &secret)?);
    place.is_sound()
}

/// What a remote tells explains, and does nothing else.
#[test]
fn what_a_remote_tells_of_purges_refuses_and_removes_nothing() -> Done {
    let place = place()?;
    let stored = blob_at(&place.repo, "main", "secret")?;
    let (absent, unasked) = (ObjectId::from_bytes([8; 32]), ObjectId::from_bytes([9; 32]));
    let told = [KnownPurge {
        why: why("theirs"),
        files: [stored, absent, unasked].into(),
        pieces: 0,
        stored: 0,
    }];
    let noted = place
        .repo
        .note_told(&told, "nas", Some(&[stored, absent].into()))?;
    assert_eq!(noted, 1);
    let slice = place.repo.slice()?;
    assert_eq!(slice.told.keys().collect::<Vec<_>>(), [&absent]);
    assert_eq!(slice.told[&absent].place, "nas");
    assert!(slice.purged.is_empty() && slice.pieces.is_empty());
    assert!(place.again()?.purges()?.is_empty());
    let before = contents(&place.again()?)?;
    let done = go_on(&place.again()?)?;
    assert_eq!((done.files, done.freed_bytes), (0, 0), "{done:?}");
    keeps_all_but(&place.again()?, &before, &BTreeSet::new())?;
    // Somebody has brought it.
    place
        .repo
        .change_slice(|slice| slice.take_back(&[absent].into()))?;
    assert!(place.repo.slice()?.is_everything());
    Ok(())
}

#[test]
fn what_remotes_tell_has_bounds() -> Done {
    let place = place()?;
    let id = |n: u64| {
        let mut bytes = [1; 32];
        bytes[..8].copy_from_slice(&n.to_le_bytes());
        ObjectId::from_bytes(bytes)
    };
    let files: BTreeSet<ObjectId> = (0..MAX_SLICE_TOLD as u64 + 3).map(id).collect();
    let told = |files: &BTreeSet<ObjectId>, reason: &str| KnownPurge {
        why: why(reason),
        files: files.clone(),
        pieces: 0,
        stored: 0,
    };
    // Before a first fetch it is not known what is needed.
    place.repo.note_told(&[told(&files, "many")], "nas", None)?;
    assert_eq!(place.repo.slice()?.told.len(), MAX_SLICE_TOLD);
    assert!(place.repo.slice()?.dropped.is_empty());
    assert_eq!(place.repo.keep_told(&[id(1)].into())?, 1);
    place
        .repo
        .note_told(&[told(&files, "many")], "nas", Some(&files))?;
    let slice = place.repo.slice()?;
    assert_eq!((slice.told.len(), slice.dropped.len()), (MAX_SLICE_TOLD, 3));
    Ok(())
}

fn hello(has_purged: bool) -> Vec<Message> {
    let mut messages = offering(ObjectId::from_bytes([7; 32]));
    messages.pop();
    if let Message::Hello(hello) = &mut messages[0] {
        hello.extensions.push(Extension::purges(has_purged));
    }
    messages
}

fn purged(files: usize, reason: &str) -> PurgedFiles {
    PurgedFiles {
        at: 1,
        by: "eve".into(),
        reason: reason.into(),
        files: (0..files).map(|n| [n as u8; 32]).collect(),
        stored: 0,
    }
}

#[test]
fn a_server_that_tells_nonsense_about_purges_is_left() -> Done {
    for (found, last) in [
        (purged(0, "none"), false),
        (purged(1, ""), false),
        (purged(1, "two\nlines"), true),
        (purged(1, &"x".repeat(1024)), true),
    ] {
        let mut says = hello(true);
        says.push(Message::Purged(found, last));
        meets(&frames(&says), is_protocol)?;
    }
    let too_many = (0..=MAX_PURGED / MAX_IDS).map(|_| Message::Purged(purged(MAX_IDS, "x"), false));
    let says: Vec<Message> = hello(true).into_iter().chain(too_many).collect();
    meets(&frames(&says), is_protocol)?;
    // A client that was not told of purges does not ask.
    let mut says = hello(false);
    says.push(Message::Purged(purged(1, "x"), true));
    meets(&frames(&says), is_protocol)
}

fn request_purges(
    server: &Place,
    access: Access,
    purges: &[KnownPurge],
) -> Done<Option<PurgeAnswer>> {
    let client = Place::new()?;
    let (ours, theirs) = Link::pair();
    let serving = serving(server, theirs, access)?;
    let job = Job::default();
    let mut session = Client::connect(&client.repo, ours, &job)?;
    let answer = session.request_purge(purges)?;
    session.finish(Vec::new());
    serving.join().map_err(|_| "the server panicked")??;
    Ok(answer)
}

#[test]
fn a_server_purges_for_clients_that_may_write_and_for_no_others() -> Done {
    let place = place()?;
    let ids = [
        blob_at(&place.repo, "main", "secret")?,
        blob_at(&place.repo, "main~2", "secret")?,
    ];
    let wanted = [KnownPurge {
        why: why("theirs"),
        files: ids.into(),
        pieces: 0,
        stored: 0,
    }];
    let answer = request_purges(&place, Access::Read, &wanted)?.ok_or("it knows purges")?;
    assert_eq!(
        (answer.outcome, answer.sums.files),
        (PurgeOutcome::Refused, 0)
    );
    assert!(place.repo.slice()?.is_everything());
    assert!(packs_have(place.dir.path(), &only_secret())?);

    // Somebody relies on the server's objects.
    let kept = place.repo.keep_all()?;
    let answer = request_purges(&place, Access::Write, &wanted)?.ok_or("it knows purges")?;
    assert_eq!(answer.outcome, PurgeOutcome::Busy);
    assert!(place.repo.slice()?.is_everything());
    drop(kept);

    let answer = request_purges(&place, Access::Write, &wanted)?.ok_or("it knows purges")?;
    assert_eq!((answer.outcome, answer.sums.files), (PurgeOutcome::Done, 2));
    assert!(answer.sums.shared_bytes > 0, "`joined` has a part");
    assert!(!packs_have(place.dir.path(), &only_secret())?);
    // The server has its own clock, and knows who has connected.
    let known = place.again()?.purges()?;
    assert_ne!(known[0].why.at, wanted[0].why.at);
    assert!(known[0].why.by.starts_with("ada, through "), "{known:?}");
    place.is_sound()
}

/// An old or hostile client pushes without asking what was purged.
#[test]
fn a_server_stores_nothing_that_it_has_purged_whoever_sends_it() -> Done {
    let place = place()?;
    let id = blob_at(&place.repo, "main", "secret")?;
    let chunk = first_chunk(&place.repo, &id)?;
    let bytes = place
        .repo
        .objects()
        .read(ObjectType::Chunk, &chunk)?
        .ok_or("it is here")?;
    purge(&place.repo, "secret")?;
    let repo = place.again()?;
    let mut incoming = repo.incoming()?;
    let object = CheckedObject::new(ObjectType::Chunk, bytes.to_vec())?;
    assert!(!incoming.add_object(&object)?);
    let harmless = CheckedObject::new(ObjectType::Chunk, b"harmless".to_vec())?;
    assert!(incoming.add_object(&harmless)?);
    repo.keep_incoming(incoming)?;
    assert!(!repo.objects().holds(ObjectType::Chunk, &chunk)?);
    assert!(!packs_have(place.dir.path(), &only_secret())?);
    Ok(())
}
