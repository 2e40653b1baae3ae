//! What earlier systems found out about many small files, as counts: round trips, writes to the
//! connection, compressions, objects sent. docs/lineage.md tells the stories.

use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::ObjectType;
use dmv_core::repo::{CommitOptions, RefKind, Who};
use dmv_core::store::{CheckedRecord, FrameEncoder, FrameObject};
use dmv_core::worktree::select::Paths;
use dmv_net::session::{Client, Link, Traffic};
use dmv_net::wire::{Access, FRAME_HEAD_BYTES, Frame, LINE};
use dmv_tests::evil::{record, zeros};
use dmv_tests::peers::{Done, Place, connect, fetch, serving, update};
use dmv_tests::rng::Rng;
use dmv_tests::scratch::{files_of, request};
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

/// A connection that remembers each write to it.
struct Tally<W> {
    inner: W,
    writes: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl<W: Write> Write for Tally<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.inner.write(bytes)?;
        let mut writes = self.writes.lock().expect("no writer panics");
        writes.push(bytes[..n].to_vec());
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Fetches `tip` over pipes. Returns what the client counted, and the writes of client and server.
fn fetch_counted(ours: &Place, theirs: &Place, tip: ObjectId) -> Done<(Traffic, [Writes; 2])> {
    let ((down, to_us), (up, to_them)) = (io::pipe()?, io::pipe()?);
    let (client_wrote, server_wrote) = (Writes::default(), Writes::default());
    let tallied = |inner, writes: &Writes| Tally {
        inner,
        writes: writes.clone(),
    };
    let to_us = tallied(to_us, &server_wrote);
    let server = serving(theirs, Link::over(up, to_us)?, Access::Read)?;
    let to_them = tallied(to_them, &client_wrote);
    let job = Job::default();
    let mut session = Client::connect(&ours.repo, Link::over(down, to_them)?, &job)?;
    session.fetch(&[tip])?;
    let traffic = session.finish(Vec::new()).traffic;
    server.join().map_err(|_| "the server panicked")??;
    Ok((traffic, [client_wrote, server_wrote]))
}

type Writes = Arc<Mutex<Vec<Vec<u8>>>>;

/// Returns the number of frames in these writes. Fails if a frame does not begin with a write, or
/// if a frame that fits into one write is spread over several.
fn frames_of(writes: &Writes) -> Done<usize> {
    const ONE_WRITE_BYTES: usize = 64 << 10;
    let writes = writes.lock().map_err(|_| "a writer panicked")?;
    let (line, mut rest) = writes.split_first().ok_or("nothing was written")?;
    assert_eq!(line, LINE.as_bytes(), "the first line is one write");
    let mut frames = 0;
    while let Some((first, more)) = rest.split_first() {
        let head = first.first_chunk::<FRAME_HEAD_BYTES>();
        let len = FRAME_HEAD_BYTES + Frame::body_len(head.ok_or("a head in two writes")?)?;
        assert!(
            first.len() == len || first.len() >= ONE_WRITE_BYTES,
            "{} of {len} bytes in the first write of a frame",
            first.len()
        );
        (rest, frames) = (more, frames + 1);
        let mut written = first.len();
        while written < len {
            let (next, more) = rest.split_first().ok_or("a frame without its end")?;
            (rest, written) = (more, written + next.len());
        }
        assert_eq!(written, len, "a frame ends with its last write");
    }
    Ok(frames)
}

/// SnapshotCM checked out 3,400 files in 270 s: each file waited 200 ms in TCP. Here all of them
/// arrive within the round trips of a clone, in as few writes as there are frames of a MiB.
#[test]
fn thousands_of_small_files_take_two_round_trips_and_few_writes() -> Done {
    const FILES: usize = 3400;
    let (theirs, ours) = (Place::with_files(11, FILES, 1024)?, Place::new()?);
    let tip = theirs.tip()?;
    let (traffic, [client_wrote, server_wrote]) = fetch_counted(&ours, &theirs, tip)?;
    assert_eq!(files_of(&ours.repo, &tip)?.len(), FILES);
    assert!(traffic.objects_received > FILES as u64, "{traffic:?}");
    assert!(traffic.round_trips <= 2, "{traffic:?}");
    let writes = |of: &Writes| of.lock().map_or(usize::MAX, |writes| writes.len());
    let (up, down) = (writes(&client_wrote), writes(&server_wrote));
    assert!(up <= 10 && down <= 40, "{up} writes up, {down} down");
    Ok(())
}

/// Suneido sent a header and then the data: five messages a second. Here no message waits for the
/// acknowledgement of its own first part.
#[test]
fn a_message_is_one_write() -> Done {
    let (theirs, ours) = (Place::with_files(12, 300, 2000)?, Place::new()?);
    let (_, [client_wrote, server_wrote]) = fetch_counted(&ours, &theirs, theirs.tip()?)?;
    assert!(frames_of(&client_wrote)? >= 3, "Hello, Want, Bye");
    assert!(frames_of(&server_wrote)? >= 4, "Hello, Refs, objects, End");
    Ok(())
}

/// SnapshotCM's server spent eight times the processor time while it compressed anew for each
/// checkout. A frame that no encoder of ours makes passes two servers unchanged, so neither of them
/// compressed it.
#[test]
fn a_server_sends_compressed_frames_as_they_are() -> Done {
    let content = vec![0; 128 << 10];
    let id = ObjectType::Chunk.id_of(&content);
    let len = content.len() as u32;
    let (theirs, between, ours) = (Place::new()?, Place::new()?, Place::new()?);
    let by_hand = zeros(1, len);
    let Frame::Record(bytes) = record(1, &[(ObjectType::Chunk, len)], len, &by_hand) else {
        return Err("a record was expected".into());
    };
    let mut incoming = theirs.repo.incoming()?;
    incoming.add_record(CheckedRecord::new(bytes.clone())?)?;
    theirs.repo.keep_incoming(incoming)?;
    theirs.write("zeros", &content)?;
    theirs.commit("zeros")?;

    let object = FrameObject {
        id,
        ty: ObjectType::Chunk,
        len,
    };
    let mut encoder = FrameEncoder::default();
    let ours_would_be = encoder.encode(&content, std::slice::from_ref(&object))?;
    assert_ne!(ours_would_be.payload, by_hand);

    fetch(&between, &theirs)?;
    let tip = between.repo.resolve("origin/main")?;
    let request = request("branch");
    between
        .repo
        .create_ref(RefKind::Branch, "copy", tip, request)?;
    fetch(&ours, &between)?;
    for place in [&theirs, &between, &ours] {
        assert_eq!(stored(place, &bytes)?, 1);
        place.is_sound()?;
    }
    Ok(())
}

/// Returns how often the packs of a repository contain these bytes.
fn stored(place: &Place, bytes: &[u8]) -> Done<usize> {
    let mut found = 0;
    for pack in place.again()?.store().packs() {
        let pack = std::fs::read(place.repo.store().pack_path(pack.id))?;
        found += pack.windows(bytes.len()).filter(|at| *at == bytes).count();
    }
    Ok(found)
}

/// Coda's log drops what was created and deleted before it was sent. History is no such log: what a
/// commit names is sent. What an amended commit no longer names is not.
#[test]
fn files_that_are_deleted_before_the_push_are_not_sent() -> Done {
    const FILES: usize = 1000;
    let (server, ours) = (Place::new()?, Place::with_files(13, 10, 100)?);
    let job = Job::default();
    let first = ours.tip()?;
    let mut session = connect(&ours.repo, &server, &job)?;
    assert_eq!(
        session.push(&[update(None, first, false)])?[0].refused,
        None
    );
    session.finish(Vec::new());

    for n in 0..FILES {
        ours.write(&format!("new/f{n}"), format!("{n}").as_bytes())?;
    }
    ours.commit("created")?;
    std::fs::remove_dir_all(ours.dir.path().join("new"))?;
    let options = CommitOptions {
        message: Some("created and deleted".to_owned()),
        author: None,
        date: None,
        committer: Who {
            name: "Test".into(),
            email: String::new(),
        },
        select: &Paths::default(),
        amend: true,
        allow_empty: true,
        allow_markers: false,
        refuse_large: None,
        settings: Default::default(),
        request: request("commit --amend"),
    };
    let second = ours.repo.commit(options, &job)?.commit.ok_or("no commit")?;
    let mut session = connect(&ours.repo, &server, &job)?;
    let moved = session.push(&[update(Some(first), second, false)])?;
    assert_eq!(moved[0].refused, None);
    let traffic = session.finish(moved).traffic;
    assert_eq!(traffic.objects_sent, 1, "the commit: {traffic:?}");
    assert!(traffic.bytes_sent < 1000, "{traffic:?}");
    server.is_sound()
}

/// Git stores a file for each object until it packs them, and Mercurial one for each tracked file.
/// Here the number of files does not depend on the number of files committed.
#[test]
fn a_repository_has_as_many_files_for_thousands_as_for_ten() -> Done {
    let (few, many) = (
        Place::with_files(14, 10, 100)?,
        Place::with_files(15, 3400, 100)?,
    );
    let (few, many) = (inodes(&few)?, inodes(&many)?);
    assert!(many <= few + 1, "{few} for ten, {many} for 3,400");
    Ok(())
}

fn inodes(place: &Place) -> Done<usize> {
    let (mut found, mut dirs) = (0, vec![place.dir.path().join(".dmv")]);
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            found += 1;
            if entry.file_type()?.is_dir() {
                dirs.push(entry.path());
            }
        }
    }
    Ok(found)
}

/// The chunker of 2017 cut constant and periodic bytes after each byte: 200,000 zeros became
/// 167,233 chunks.
#[test]
fn constant_and_periodic_bytes_make_few_chunks() -> Done {
    const BYTES: usize = 4 << 20;
    for period in [1, 2, 3, 64] {
        let place = Place::new()?;
        let pattern = Rng::new(period as u64).bytes(period);
        let content: Vec<u8> = pattern.iter().copied().cycle().take(BYTES).collect();
        place.write("file", &content)?;
        place.commit("periodic")?;
        // Chunks of the greatest length, one for each position in the pattern where one can begin;
        // a list, a tree, a commit.
        let objects = place.objects()?;
        assert!(objects <= 3 + 16, "period {period}: {objects}");
    }
    Ok(())
}
