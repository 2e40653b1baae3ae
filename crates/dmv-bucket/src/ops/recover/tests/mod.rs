//! Buckets in memory that have lost their root, after real pushes.

mod expired;
mod late;

use super::*;
use crate::files::Files;
use crate::files::memory::MemFiles;
use crate::format::{Page, Root};
use crate::machines::{Limits, Tag};
use crate::work::access::BucketAccess;
use crate::work::gc::{FreeOptions, Joins, free};
use crate::work::push::tests::{
    Outcome, Place, bucket, content, is_stored, newest, noise, stamp, ten_files,
};
use dmv_core::object::ObjectType;
use dmv_core::refs::Timestamp;
use dmv_net::transport::Url;
use std::sync::Arc;

const ROOT: &str = "root";

/// A bucket that several pushes have filled.
struct World {
    files: Arc<MemFiles>,
    ada: Place,
    tips: Vec<ObjectId>,
}

impl World {
    /// A bucket with so many pushes to `main`.
    fn new(pushes: usize) -> Outcome<World> {
        let (files, _) = bucket()?;
        let mut world = World {
            files: Arc::new(files),
            ada: Place::new()?,
            tips: Vec::new(),
        };
        world.push(&ten_files(7))?;
        for n in 1..pushes {
            world.push(&[("a", noise(2 * n as u64 + 901, 300))])?;
        }
        Ok(world)
    }

    fn push(&mut self, with: &[(&str, Vec<u8>)]) -> Outcome {
        let tip = self.ada.commit(with)?;
        let root = newest(&self.files)?;
        self.ada
            .push(&self.files, root, "main", &tip)?
            .ok_or("moved")?;
        self.tips.push(tip);
        Ok(())
    }

    fn tip(&self) -> Outcome<ObjectId> {
        Ok(*self.tips.last().ok_or("no push")?)
    }

    fn root(&self) -> Outcome<(Root, Tag)> {
        newest(&self.files)
    }

    /// A new push of the device to the bucket as it is, with what it remembers.
    fn push_on(&mut self, known: (Root, Tag)) -> Outcome {
        let next = self.ada.commit(&[("next", noise(5000, 700))])?;
        self.ada
            .push(&self.files, known, "main", &next)?
            .ok_or("moved")?;
        is_stored(&content(&self.files, &self.root()?.0)?, &next)
    }

    /// Recovers as a device that has noted `known`.
    fn recover(
        &self,
        known: Option<&(Root, Tag)>,
        chosen: Option<&str>,
    ) -> Outcome<Result<RecoverAtReport, NotRestored>> {
        let notes = tempfile::tempdir()?;
        let cache = Cache::at(Some(notes.path()));
        if let Some((root, tag)) = known {
            cache.keep_root(root, tag);
        }
        let source = BucketSource {
            place: "s3://film/x".to_owned(),
            files: self.files.clone(),
            copies: None,
            is_read_only: false,
            may_be_empty: false,
        };
        let options = RecoverAtOptions {
            remote: Remote::once("s3://film/x", Url::parse("s3://film/x".as_ref())?),
            chosen: chosen.map(str::to_owned),
            request: OperationRequest {
                time: Timestamp {
                    seconds: 1_700_000_000,
                    nanos: 0,
                    tz_minutes: 0,
                },
                who: "ada".to_owned(),
                command: "dmv recover".to_owned(),
            },
        };
        let rescue = Rescue {
            source: &source,
            cache: &cache,
            options: &options,
            job: &Job::default(),
        };
        let done = rescue.run()?;
        if let (Ok(done), true) = (&done, chosen.is_some()) {
            assert!(done.restored.is_some());
            let noted = cache.root().ok_or("the new root is noted")?;
            assert_eq!(noted, self.root()?);
        }
        Ok(done)
    }

    fn look(&self, known: Option<&(Root, Tag)>) -> Outcome<RecoverAtReport> {
        let before = self.files.names();
        let report = self.recover(known, None)??;
        assert_eq!(self.files.names(), before, "it only looks");
        Ok(report)
    }
}

fn refs(tip: &ObjectId) -> Vec<(String, ObjectId)> {
    vec![("branch/main".to_owned(), *tip)]
}

#[test]
fn an_intact_root_is_left_alone_and_a_newer_one_is_told_from_a_lost_one() -> Outcome {
    let world = World::new(2)?;
    assert_eq!(world.look(None)?.lost, None);
    let refused = world.recover(None, Some("12345678"))?;
    assert_eq!(refused.err(), Some(NotRestored::Intact));
    let (root, _) = world.root()?;
    let mut bytes = root.encode()?;
    bytes[8] = 9;
    world.files.set(ROOT, bytes);
    for chosen in [None, Some("12345678")] {
        let failed = world.recover(None, chosen).err().ok_or("it is too new")?;
        assert!(failed.to_string().contains("newer version"), "{failed}");
    }
    Ok(())
}

#[test]
fn the_root_that_a_device_saw_last_comes_back_for_all_devices() -> Outcome {
    let mut world = World::new(3)?;
    let known = world.root()?;
    world.files.remove(ROOT);
    let report = world.look(Some(&known))?;
    assert_eq!(report.lost, Some(LostKind::Gone));
    let [state] = &report.states[..] else {
        return Err(format!("one state: {report:?}").into());
    };
    assert_eq!(state.origin, Origin::Known(known.0.generation));
    assert_eq!((state.operations, state.added, state.flaw), (3, 0, None));
    assert_eq!(state.refs, refs(&world.tip()?));
    let id = state.id.clone();
    let done = world.recover(Some(&known), Some(&id[..6]))??;
    assert_eq!(done.restored.map(|state| state.id), Some(id));
    let (root, _) = world.root()?;
    assert!(root.can_follow(&known.0));
    assert!(root.freed > 1 << 31 && root.generation > 1 << 31);
    assert_eq!(root.last.0, 4);
    let who: Vec<_> = root
        .log
        .iter()
        .map(|entry| &entry.operation.command[..])
        .collect();
    assert_eq!(who, ["test", "test", "test", "dmv recover"]);
    is_stored(&content(&world.files, &root)?, &world.tip()?)?;
    // Whoever knows only the old root goes on.
    world.push_on(known)
}

#[test]
fn without_any_note_the_packs_tell_the_state() -> Outcome {
    let mut world = World::new(4)?;
    let known = world.root()?;
    world.files.remove(ROOT);
    let report = world.look(None)?;
    let [state, ..] = &report.states[..] else {
        return Err("no state".into());
    };
    assert_eq!(state.origin, Origin::Packs);
    assert_eq!((state.operations, state.added, state.unsure), (4, 4, 1));
    assert_eq!((state.unknown, state.flaw), (0, None));
    assert_eq!(state.refs, refs(&world.tip()?));
    // The last push may not have been completed: the state without it is another one.
    let [_, older] = &report.states[..] else {
        return Err(format!("two states: {report:?}").into());
    };
    assert_eq!(older.refs, refs(&world.tips[2]));
    assert_eq!(older.left_out.len(), 1);
    world.recover(None, Some(&state.id))??;
    let (root, _) = world.root()?;
    let mut rows = known.0.rows.clone();
    let mut found = root.rows.clone();
    rows.iter_mut()
        .chain(&mut found)
        .for_each(|row| row.generation = 1);
    rows.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, rows, "each row is what it was");
    world.push_on(known)
}

#[test]
fn the_newest_page_of_the_log_and_the_packs_after_it_tell_the_state() -> Outcome {
    let mut world = World::new(70)?;
    let known = world.root()?;
    assert_eq!(known.0.log_pages.len(), 1);
    world.files.remove(ROOT);
    let report = world.look(None)?;
    let [state, ..] = &report.states[..] else {
        return Err("no state".into());
    };
    assert_eq!((state.origin, state.operations), (Origin::Page, 70));
    assert_eq!(
        (state.refs.clone(), state.flaw),
        (refs(&world.tip()?), None)
    );
    assert!(
        state
            .newest
            .as_ref()
            .is_some_and(|op| op.id == known.0.last.1)
    );
    world.recover(None, Some(&state.id))??;
    let (root, _) = world.root()?;
    assert_eq!((root.last.0, root.log.len()), (71, 64));
    world.push_on(known)
}

#[test]
fn many_packs_go_to_pages_of_rows() -> Outcome {
    let world = World::new(2)?;
    let known = world.root()?;
    let row = *known.0.rows.first().ok_or("a row")?;
    let path = |name: &Name| name.path(known.0.repository);
    // Copies of a pack under other names would have another header, so the rows are told by a page.
    let copy = |n: u16| {
        let mut name = [9; 16];
        name[..2].copy_from_slice(&n.to_le_bytes());
        Row {
            name: Name(name),
            ..row
        }
    };
    let mut rows: Vec<Row> = (0..300).map(copy).collect();
    rows.sort_unstable();
    let bytes = world.files.content(&path(&row.name)).ok_or("a pack")?;
    for row in &rows {
        world.files.set(&path(&row.name), bytes.clone());
    }
    let (_, page) = Page::MetaRows(rows).encode(Name([8; 16]))?;
    world.files.set(&path(&Name([8; 16])), page);
    world.files.remove(ROOT);
    let report = world.look(Some(&known))?;
    let [state, ..] = &report.states[..] else {
        return Err("no state".into());
    };
    world.recover(Some(&known), Some(&state.id))??;
    let (root, _) = world.root()?;
    assert_eq!((root.rows.len(), root.meta_pages.len()), (0, 1));
    assert_eq!(root.meta_pages[0].items, 302);
    // The helper of other tests reads no pages.
    let next = world.ada.commit(&[("next", noise(5000, 700))])?;
    let done = world.ada.push(&world.files, known, "main", &next)?;
    done.ok_or("moved")?;
    Ok(())
}

#[test]
fn names_that_were_let_go_are_not_listed_again() -> Outcome {
    let world = World::new(9)?;
    let gone = world.join()?;
    assert!(!gone.is_empty());
    let known = world.root()?;
    // The deletion of the old packs has not come through, or somebody has restored them.
    for (path, bytes) in &gone {
        world.files.set(path, bytes.clone());
    }
    world.files.remove(ROOT);
    let report = world.look(Some(&known))?;
    let state = report.states.first().ok_or("a state")?;
    assert_eq!(state.flaw, None);
    world.recover(Some(&known), Some(&state.id))??;
    let (root, _) = world.root()?;
    let named: Vec<String> = root
        .rows
        .iter()
        .map(|row| row.name.path(root.repository))
        .collect();
    assert!(
        gone.iter().all(|(path, _)| !named.contains(path)),
        "they are burnt"
    );
    is_stored(&content(&world.files, &root)?, &world.tip()?)
}

#[test]
fn files_that_a_lost_operation_let_go_may_go_late() -> Outcome {
    let world = World::new(9)?;
    let known = world.root()?;
    let gone = world.join()?;
    // The collector is slow: it deletes after the recovery. Nobody knows what it has let go.
    for (path, bytes) in &gone {
        world.files.set(path, bytes.clone());
    }
    world.files.remove(ROOT);
    let report = world.look(Some(&known))?;
    let state = report.states.first().ok_or("a state")?;
    assert_eq!(state.flaw, None);
    world.recover(Some(&known), Some(&state.id))??;
    let (mut root, _) = world.root()?;
    for (path, _) in &gone {
        world.files.remove(path);
    }
    let is_there = |row: &Row| {
        world
            .files
            .content(&row.name.path(root.repository))
            .is_some()
    };
    let rows: Vec<Row> = root
        .rows
        .iter()
        .filter(|row| is_there(row))
        .copied()
        .collect();
    assert!(rows.len() < root.rows.len());
    root.rows = rows;
    is_stored(&content(&world.files, &root)?, &world.tip()?)
}

#[test]
fn a_damaged_root_is_replaced_only_in_the_state_that_was_seen() -> Outcome {
    let mut world = World::new(2)?;
    let known = world.root()?;
    let good = known.0.encode()?;
    for bad in [
        &good[..good.len() - 1],
        &[],
        b"DMVROOT\n\x01",
        &vec![0; 2 << 20],
    ] {
        world.files.set(ROOT, bad.to_vec());
        let report = world.look(Some(&known))?;
        assert!(
            matches!(report.lost, Some(LostKind::Damaged(_))),
            "{report:?}"
        );
        let state = report.states.first().ok_or("a state")?;
        world.recover(Some(&known), Some(&state.id))??;
        assert_eq!(world.root()?.0.repository, known.0.repository);
    }
    // Somebody else was faster.
    let damaged = RootState::Damaged {
        why: "so".to_owned(),
        tag: Some(known.1.clone()),
    };
    let new = RebuiltRoot {
        root: Root::first(known.0.repository, [9; 16]),
        pages: Vec::new(),
    };
    for lost in [RootState::Gone, damaged] {
        let failed = restore(
            &*world.files,
            &lost,
            &new,
            &mut AttemptNote::none(),
            &Job::default(),
        );
        assert!(failed.is_err_and(|e| e.to_string().contains("again")));
    }
    let now = world.root()?;
    world.push_on(now)
}

#[test]
fn a_root_whose_answer_was_lost_is_found() -> Outcome {
    let world = World::new(2)?;
    let known = world.root()?;
    world.files.remove(ROOT);
    let report = world.look(Some(&known))?;
    let state = report.states.first().ok_or("a state")?;
    world.files.fail(&[crate::files::memory::Fault::AnswerLost]);
    world.recover(Some(&known), Some(&state.id))??;
    Ok(())
}

#[test]
fn what_lacks_a_pack_is_shown_and_refused() -> Outcome {
    let world = World::new(3)?;
    let known = world.root()?;
    let rows = &known.0.rows;
    let first = rows.first().ok_or("a pack")?.name.path(known.0.repository);
    let good = world.files.content(&first).ok_or("a pack")?;
    world.files.remove(ROOT);
    for bad in [None, Some(good.len() - 1), Some(70), Some(3)] {
        match bad {
            None => world.files.remove(&first),
            // Damage of a byte in the middle.
            Some(70) => {
                let mut bytes = good.clone();
                bytes[300] ^= 1;
                world.files.set(&first, bytes);
            }
            Some(len) => world.files.set(&first, good[..len].to_vec()),
        }
        for note in [Some(&known), None] {
            let report = world.look(note)?;
            let state = report.states.first().ok_or("a state")?;
            assert_eq!(state.flaw, Some(Flaw::Incomplete), "{bad:?}");
            assert!(state.missing > 0);
            assert_eq!(report.bad.len(), usize::from(bad.is_some()), "{report:?}");
            let id = state.id.clone();
            let refused = world.recover(note, Some(&id))?;
            assert!(
                matches!(refused, Err(NotRestored::Flawed { .. })),
                "{refused:?}"
            );
            assert!(world.files.content(ROOT).is_none());
        }
    }
    for id in ["", "00000000", "no id"] {
        let refused = world.recover(None, Some(id))?;
        let none = |e: &NotRestored| {
            matches!(
                e,
                NotRestored::NoState {
                    ambiguous: false,
                    ..
                }
            )
        };
        assert!(refused.err().is_some_and(|e| none(&e)));
    }
    Ok(())
}

#[test]
fn files_of_any_content_cost_nothing_but_a_line() -> Outcome {
    let world = World::new(3)?;
    let (known, _) = world.root()?;
    let path = |n: u8| Name([n; 16]).path(known.repository);
    let pack = known.rows.first().ok_or("a pack")?;
    let pack = world
        .files
        .content(&pack.name.path(known.repository))
        .ok_or("a pack")?;
    let mut page = b"DMVPAGE\n\x01\x03".to_vec();
    page.resize(60, 7);
    let mut long = b"DMVPAGE\n\x01\x03".to_vec();
    long.resize((16 << 20) + 1, 0);
    for (n, bytes) in [
        (1, Vec::new()),
        (2, b"DMVPACK\n".to_vec()),
        (3, b"neither nor".to_vec()),
        (4, page),
        (5, long),
        // A pack under the name of another.
        (6, pack),
    ] {
        world.files.set(&path(n), bytes);
    }
    world
        .files
        .set(&format!("{}/not a name", known.repository), vec![0]);
    world.files.set("other/file", vec![0]);
    world.files.remove(ROOT);
    let report = world.look(None)?;
    assert_eq!(report.bad.len(), 6, "{:?}", report.bad);
    let state = report.states.first().ok_or("a state")?;
    assert_eq!(
        (state.flaw, state.refs.clone()),
        (None, refs(&world.tip()?))
    );
    // A page from a later version: this program cannot know what it means.
    world.files.set(&path(4), b"DMVPAGE\n\x07\x03".to_vec());
    let failed = world.recover(None, None).err().ok_or("too new")?;
    assert!(failed.to_string().contains("newer version"), "{failed}");
    Ok(())
}

#[test]
fn of_two_pushes_that_raced_each_state_has_one() -> Outcome {
    let mut world = World::new(1)?;
    let bob = Place::new()?;
    let root = world.root()?;
    // Bob pushes over the same root and loses, so he has uploaded a pack that no root names.
    let of_bob = bob.commit(&ten_files(55))?;
    world.push(&[("a", noise(66, 900))])?;
    let moved = bob.push(&world.files, root, "main", &of_bob)?;
    assert!(moved.is_none(), "it has moved");
    world.push(&[("a", noise(69, 900))])?;
    world.files.remove(ROOT);
    let report = world.look(None)?;
    let state = report.states.first().ok_or("a state")?;
    assert_eq!(state.refs, refs(&world.tip()?));
    assert_eq!(state.left_out.len(), 1, "that of Bob: {report:?}");
    assert_eq!(state.flaw, None);
    Ok(())
}

#[test]
fn what_was_purged_stays_purged() -> Outcome {
    let mut world = World::new(2)?;
    let (mut root, tag) = world.root()?;
    let why = dmv_core::repo::Purge {
        at: 1_700_000_000,
        by: "ada".to_owned(),
        reason: "leaked key".to_owned(),
    };
    let buried = crate::format::PurgedContent {
        files: [ObjectId::from_bytes([3; 32])].into(),
        pieces: [ObjectId::from_bytes([4; 32])].into(),
    };
    let name = Name([7; 16]);
    let path = name.path(root.repository);
    let (page, bytes) = Page::Purges([(why.clone(), buried.clone())].into()).encode(name)?;
    world.files.set(&path, bytes.clone());
    (root.purges.count, root.purges.pages) = (1, vec![page]);
    root.previous = root.write;
    (root.write, root.generation) = ([99; 16], root.generation + 1);
    let written = world.files.write_if(ROOT, root.encode()?, Some(&tag));
    written.map_err(|_| "the root has changed")?;
    world.push(&[("a", noise(66, 900))])?;
    let known = world.root()?;
    world.files.remove(ROOT);
    // A page of purges that is damaged may be one that matters, and one that is missing does.
    let bad = |at: usize| {
        let mut bad = bytes.clone();
        bad[at] ^= 1;
        Some(bad)
    };
    for lost in [None, bad(40), bad(9), bad(0)] {
        match lost {
            None => world.files.remove(&path),
            Some(bad) => world.files.set(&path, bad),
        }
        let report = world.look(Some(&known))?;
        let state = report.states.first().ok_or("a state")?;
        assert_eq!(state.flaw, Some(Flaw::LostPurges));
    }
    world.files.set(&path, bytes);
    for note in [None, Some(&known)] {
        world.files.remove(ROOT);
        let report = world.look(note)?;
        let state = report.states.first().ok_or("a state")?;
        assert_eq!(state.flaw, None);
        world.recover(note, Some(&state.id))??;
        let (root, _) = world.root()?;
        assert!(
            root.purges.count > 1 && root.purges.unpurged == 2,
            "a purge has to look again"
        );
        let file = root.purges.pages[0].name.path(root.repository);
        let page = Page::decode(&world.files.content(&file).ok_or("a page")?)?;
        assert_eq!(page, Page::Purges([(why.clone(), buried.clone())].into()));
    }
    Ok(())
}

#[test]
fn content_that_is_needed_and_purged_is_refused() -> Outcome {
    let world = World::new(1)?;
    let (root, _) = world.root()?;
    let chunk = ObjectType::Chunk.id_of(&noise(7 + 100, 3000));
    assert!(content(&world.files, &root)?.has(&chunk));
    let why = dmv_core::repo::Purge {
        at: 1_700_000_000,
        by: "ada".to_owned(),
        reason: "never published".to_owned(),
    };
    let buried = crate::format::PurgedContent {
        files: [ObjectId::from_bytes([3; 32])].into(),
        pieces: [chunk].into(),
    };
    let name = Name([7; 16]);
    let (_, bytes) = Page::Purges([(why, buried)].into()).encode(name)?;
    world.files.set(&name.path(root.repository), bytes);
    world.files.remove(ROOT);
    let report = world.look(None)?;
    let state = report.states.first().ok_or("a state")?;
    assert_eq!(state.flaw, Some(Flaw::Contested));
    Ok(())
}

#[test]
fn a_note_that_is_much_older_than_the_log_is_refused() -> Outcome {
    let world = World::new(2)?;
    let known = world.root()?;
    // A page of the log that ends long after the note.
    let mut entries = known.0.log.clone();
    let mut entry = entries.pop().ok_or("an operation")?;
    entry.operation.seq = 400;
    let mut view = world_view(&known.0);
    let tip = world.tip()?.as_bytes().to_vec();
    view.insert("branch/side".to_owned(), tip);
    let (_, bytes) = Page::Log(vec![entry], view).encode(Name([8; 16]))?;
    world
        .files
        .set(&Name([8; 16]).path(known.0.repository), bytes);
    world.files.remove(ROOT);
    let report = world.look(Some(&known))?;
    let old = report.states.iter().find(|s| s.flaw == Some(Flaw::Old));
    let fresh = report.states.iter().find(|s| s.flaw.is_none());
    assert_eq!(fresh.map(|state| state.operations), Some(400));
    let old = old.ok_or("the note")?;
    assert!(matches!(old.origin, Origin::Known(_)));
    let refused = world.recover(Some(&known), Some(&old.id))?;
    assert!(matches!(refused, Err(NotRestored::Flawed { .. })));
    Ok(())
}

fn world_view(root: &Root) -> crate::format::View {
    let view = root.view.iter();
    view.filter_map(|(key, value)| Some((key.clone(), value.clone()?)))
        .collect()
}

impl World {
    /// Joins all packs. Returns those that were deleted.
    fn join(&self) -> Outcome<Vec<(String, Vec<u8>)>> {
        let known = self.root()?;
        let paths = known
            .0
            .rows
            .iter()
            .map(|row| row.name.path(known.0.repository));
        let packs = paths.filter_map(|path| Some((path.clone(), self.files.content(&path)?)));
        let packs: Vec<(String, Vec<u8>)> = packs.collect();
        let with = BucketAccess::new(&*self.files, self.ada.repo.store(), &self.ada.job, None);
        let options = FreeOptions {
            stamp: stamp(),
            forget_before: None,
            young_from: i64::MAX,
            joins: Joins::Small,
            purge: None,
            dry_run: false,
            limits: Limits::default(),
        };
        free(&with, Some(known), &options)?;
        let there = self.files.names();
        let gone = packs.into_iter().filter(|(path, _)| !there.contains(path));
        Ok(gone.collect())
    }
}
