//! Pushes of real repositories to a bucket in memory. What is in the bucket is read back with the
//! pack format's own functions.

use super::*;
use crate::files::memory::{Counts, Fault, MemFiles};
use crate::files::{FileFailure, Files};
use crate::format::{Name, Places, ROOT, RowKind};
use crate::work::access::BucketAccess;
use dmv_core::refs::Timestamp;
use dmv_core::repo::{CommitOptions, OperationRequest, Repo, Who};
use dmv_core::store::{RepositoryId, SealedHeader, SealedKind};
use dmv_core::worktree::select::Paths;
use dmv_net::trouble::Trouble;
use std::collections::HashMap;
use std::error::Error;
use tempfile::TempDir;

pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;

pub struct Place {
    pub dir: TempDir,
    pub repo: Repo,
    pub notes: TempDir,
    pub job: Job,
}

fn request() -> OperationRequest {
    let time = Timestamp {
        seconds: 1_700_000_000,
        nanos: 0,
        tz_minutes: 0,
    };
    OperationRequest {
        time,
        who: "test".to_owned(),
        command: "test".to_owned(),
    }
}

impl Place {
    pub fn new() -> Outcome<Place> {
        let dir = tempfile::tempdir()?;
        let repo = Repo::init(dir.path(), "main", false, request())?;
        Ok(Place {
            dir,
            repo,
            notes: tempfile::tempdir()?,
            job: Job::default(),
        })
    }

    pub fn commit(&self, files: &[(&str, Vec<u8>)]) -> Outcome<ObjectId> {
        for (name, bytes) in files {
            let path = self.dir.path().join(name);
            std::fs::create_dir_all(path.parent().ok_or("a parent")?)?;
            std::fs::write(path, bytes)?;
        }
        let options = CommitOptions {
            message: Some("test".to_owned()),
            author: None,
            date: None,
            committer: Who {
                name: "Test".into(),
                email: String::new(),
            },
            select: &Paths::default(),
            amend: false,
            allow_empty: true,
            allow_markers: false,
            refuse_large: None,
            settings: Default::default(),
            request: request(),
        };
        let done = self.repo.commit(options, &Job::default())?;
        Ok(done.commit.ok_or("no commit")?)
    }

    pub fn push(
        &self,
        files: &MemFiles,
        root: (Root, Tag),
        branch: &str,
        to: &ObjectId,
    ) -> Result<Option<PushResult>, PushError> {
        let with = BucketAccess {
            purged: self.repo.slice()?.purged,
            ..BucketAccess::new(files, self.repo.store(), &self.job, Some(self.notes.path()))
        };
        let key = format!("branch/{branch}");
        let change = Change {
            old: root.0.view.get(&key).cloned().flatten(),
            key,
            new: Some(to.as_bytes().to_vec()),
        };
        push(&with, root, vec![change], &stamp())
    }
}

pub fn stamp() -> Stamp {
    let OperationRequest { time, who, command } = request();
    Stamp {
        id: random_bytes(),
        time,
        who,
        command,
        undoes: 0,
    }
}

/// Returns a bucket with its first root.
pub fn bucket() -> Outcome<(MemFiles, (Root, Tag))> {
    let files = MemFiles::default();
    let root = Root::first(RepositoryId::from_bytes([5; 16]), [6; 16]);
    let tag = files
        .write_if(ROOT, root.encode()?, None)
        .map_err(|_| "it is empty")?;
    files.counts();
    Ok((files, (root, tag)))
}

/// The bytes of `len` random bytes.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut x = seed | 1;
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        out.extend_from_slice(&x.to_le_bytes());
    }
    out.truncate(len);
    out
}

/// What is in a bucket: each object's bytes, and for each node the objects in the frames that its
/// places name.
#[derive(Default)]
pub struct Content {
    objects: HashMap<ObjectId, (ObjectType, Vec<u8>)>,
    below: HashMap<ObjectId, HashSet<ObjectId>>,
}

impl Content {
    /// Returns whether an object is stored.
    pub fn has(&self, id: &ObjectId) -> bool {
        self.objects.contains_key(id)
    }
}

fn read_frame(bytes: &[u8], at: u64, len: u32) -> Outcome<Vec<(ObjectType, ObjectId, Vec<u8>)>> {
    let record = bytes[at as usize..at as usize + len as usize].to_vec();
    let record = CheckedRecord::new(record)?;
    let mut out = Vec::new();
    for n in 0..record.objects().len() {
        let object = record.objects()[n];
        let bytes = record.bytes_of(n).ok_or("no object")?;
        out.push((object.ty, object.id, bytes.to_vec()));
    }
    Ok(out)
}

pub fn content(files: &MemFiles, root: &Root) -> Outcome<Content> {
    let mut content = Content::default();
    let file = |name: &Name| {
        files
            .content(&name.path(root.repository))
            .ok_or("a lost pack")
    };
    for row in &root.rows {
        let bytes = file(&row.name)?;
        assert_eq!(bytes.len() as u64, row.len);
        let header = SealedHeader::decode(&bytes)?;
        assert_eq!(*header.id.as_bytes(), row.name.0);
        assert_eq!(header.repo, root.repository);
        assert_eq!(header.kind as u8, row.kind as u8);
        let tail = SegmentTail::decode(&bytes[row.tail as usize..], row.tail)?;
        let mut tails = vec![(tail.clone(), row.tail)];
        if row.kind == RowKind::Joint {
            let trailer = &bytes[row.metadata as usize - 32..][..32];
            let at = u64::from_le_bytes(trailer[8..16].try_into()?);
            tails.push((SegmentTail::decode(&bytes[at as usize..], at)?, at));
        }
        for (tail, end) in &tails {
            for (id, at) in frames_of(tail, *end) {
                for (ty, found, bytes) in read_frame(&bytes, at.offset, at.len)? {
                    if found == id {
                        content.objects.insert(id, (ty, bytes));
                    }
                }
            }
        }
        let Some(places) = &tail.places else {
            continue;
        };
        let places = Places::decode(places)?;
        for node in &places.nodes {
            let id = tail.entries[node.ordinal as usize].id;
            let below = content.below.entry(id).or_default();
            for frame in &node.frames {
                let pack = &places.packs[frame.pack as usize];
                // Places may name packs that were joined since.
                if !root.rows.iter().any(|row| row.name == *pack) {
                    continue;
                }
                let bytes = file(pack)?;
                let objects = read_frame(&bytes, frame.offset, frame.len)?;
                below.extend(objects.into_iter().map(|(_, id, _)| id));
            }
        }
    }
    Ok(content)
}

/// Fails unless the bucket has everything below a commit, each chunk where its node's places say.
pub fn is_complete(content: &Content, commit: &ObjectId) -> Outcome {
    walk(content, commit, &|node, (ty, child)| {
        if ty != ObjectType::Chunk {
            return Ok(());
        }
        let below = content.below.get(node).ok_or("a node without places")?;
        assert!(below.contains(child), "{ty:?} is not where places say");
        Ok(())
    })
}

/// Fails unless the bucket has everything below a commit, wherever it lies.
pub fn is_stored(content: &Content, commit: &ObjectId) -> Outcome {
    walk(content, commit, &|_, _| Ok(()))
}

/// Looks at everything below a commit, and passes each node with each of its children but commits.
fn walk(
    content: &Content,
    commit: &ObjectId,
    each: &dyn Fn(&ObjectId, (ObjectType, &ObjectId)) -> Outcome,
) -> Outcome {
    let mut open = vec![*commit];
    while let Some(id) = open.pop() {
        let (ty, bytes) = content.objects.get(&id).ok_or("a missing object")?;
        assert_eq!(ty.id_of(bytes), id);
        for (child_ty, child) in ty.links(bytes)? {
            if child_ty != ObjectType::Commit {
                each(&id, (child_ty, &child))?;
            }
            open.push(child);
        }
    }
    Ok(())
}

pub fn newest(files: &MemFiles) -> Outcome<(Root, Tag)> {
    let (bytes, tag) = files.read_whole(ROOT, None).map_err(|_| "no root")?;
    files.counts();
    Ok((Root::decode(&bytes)?, tag))
}

pub fn ten_files(seed: u64) -> Vec<(&'static str, Vec<u8>)> {
    const NAMES: [&str; 10] = [
        "a", "b", "c", "d/a", "d/b", "d/c", "e/f/a", "e/f/b", "e/f/c", "e/f/d",
    ];
    let file = |(n, name): (u64, &'static str)| (name, noise(seed + 100 * n, 3000));
    (1..).zip(NAMES).map(file).collect()
}

#[test]
fn a_small_push_is_one_joint_pack_and_two_writes() -> Outcome {
    let (files, root) = bucket()?;
    let place = Place::new()?;
    let first = place.commit(&ten_files(7))?;
    let done = place.push(&files, root, "main", &first)?.ok_or("moved")?;
    let puts = |put| Counts {
        put,
        ..Counts::default()
    };
    assert_eq!(files.counts(), puts(2));
    let (root, _) = &*done.root;
    assert_eq!(root.rows.len(), 1);
    let row = &root.rows[0];
    assert_eq!(row.kind, RowKind::Joint);
    assert!(row.metadata < row.commits_end && row.commits_end < row.tail);
    let bytes = files.content(&row.name.path(root.repository)).ok_or("it")?;
    assert_eq!(SealedHeader::decode(&bytes)?.kind, SealedKind::Joint);
    is_complete(&content(&files, root)?, &first)?;
    // One file changes: the places of the others lead into the first pack.
    let second = place.commit(&[("e/f/b", noise(99, 5000))])?;
    let done = place.push(&files, *done.root, "main", &second)?;
    let done = done.ok_or("moved")?;
    assert_eq!(files.counts(), puts(2));
    let (root, _) = &*done.root;
    assert!(root.rows[1].len < 12_000, "{}", root.rows[1].len);
    is_complete(&content(&files, root)?, &second)?;
    // A branch at a known commit needs no pack.
    let done = place.push(&files, *done.root, "side", &first)?;
    assert_eq!(files.counts(), puts(1));
    let root = done.ok_or("moved")?.root;
    assert_eq!((root.0.rows.len(), root.0.last.0), (2, 3));
    assert_eq!(newest(&files)?.0, root.0);
    Ok(())
}

/// A push of many small files.
#[test]
fn small_files_and_directories_are_in_small_frames() -> Outcome {
    let (files, root) = bucket()?;
    let place = Place::new()?;
    let names: Vec<String> = (0..400).map(|n| format!("d{}/f{n}", n / 40)).collect();
    let all: Vec<(&str, Vec<u8>)> = (0..)
        .zip(&names)
        .map(|(n, name)| (&name[..], noise(2 * n + 1, 1100)))
        .collect();
    let tip = place.commit(&all)?;
    let done = place.push(&files, root, "main", &tip)?.ok_or("moved")?;
    let (root, _) = &*done.root;
    is_complete(&content(&files, root)?, &tip)?;
    let row = &root.rows[0];
    let bytes = files.content(&row.name.path(root.repository)).ok_or("it")?;
    let trailer = &bytes[row.metadata as usize - 32..][..32];
    let at = u64::from_le_bytes(trailer[8..16].try_into()?);
    let tail = SegmentTail::decode(&bytes[at as usize..], at)?;
    let frames: HashSet<u64> = frames_of(&tail, at).map(|(_, at)| at.offset).collect();
    let longest = frames_of(&tail, at).map(|(_, at)| at.len).max();
    assert!(longest < Some(270 << 10), "{longest:?}");
    assert!((2..30).contains(&frames.len()), "{}", frames.len());
    Ok(())
}

#[test]
fn what_was_renamed_is_not_uploaded_again() -> Outcome {
    let (files, root) = bucket()?;
    let place = Place::new()?;
    let first = place.commit(&[("a/film", noise(1, 5 << 16)), ("a/reel", noise(2, 2 << 16))])?;
    let done = place.push(&files, root, "main", &first)?.ok_or("moved")?;
    let at = |name: &str| place.dir.path().join(name);
    std::fs::rename(at("a"), at("b"))?;
    let second = place.commit(&[])?;
    let done = place
        .push(&files, *done.root, "main", &second)?
        .ok_or("moved")?;
    assert!(
        done.root.0.rows[1].len < 2000,
        "{}",
        done.root.0.rows[1].len
    );
    std::fs::rename(at("b/film"), at("b/movie"))?;
    let third = place.commit(&[("b/more", noise(3, 100))])?;
    let done = place
        .push(&files, *done.root, "main", &third)?
        .ok_or("moved")?;
    assert!(
        done.root.0.rows[2].len < 4000,
        "{}",
        done.root.0.rows[2].len
    );
    // Of a file that was renamed and edited, only the new part goes.
    std::fs::rename(at("b/movie"), at("cut"))?;
    let edited = [noise(1, 5 << 16), noise(9, 10_000)].concat();
    let fourth = place.commit(&[("cut", edited)])?;
    let done = place
        .push(&files, *done.root, "main", &fourth)?
        .ok_or("moved")?;
    assert!(
        done.root.0.rows[3].len < 240 << 10,
        "{}",
        done.root.0.rows[3].len
    );
    is_complete(&content(&files, &done.root.0)?, &fourth)?;
    Ok(())
}

#[test]
fn a_commit_without_new_content_is_a_meta_pack() -> Outcome {
    let (files, root) = bucket()?;
    let place = Place::new()?;
    let first = place.commit(&ten_files(7))?;
    let done = place.push(&files, root, "main", &first)?.ok_or("moved")?;
    let second = place.commit(&[("z/copy", noise(107, 3000))])?;
    let done = place.push(&files, *done.root, "main", &second)?;
    let root = done.ok_or("moved")?.root;
    let kinds: Vec<RowKind> = root.0.rows.iter().map(|row| row.kind).collect();
    // The walk does not know that another path has this content.
    assert_eq!(kinds, [RowKind::Joint, RowKind::Joint]);
    let third = place.commit(&[])?;
    let done = place.push(&files, *root, "main", &third)?;
    let root = done.ok_or("moved")?.root;
    assert_eq!(root.0.rows[2].kind, RowKind::Meta);
    is_complete(&content(&files, &root.0)?, &second)?;
    Ok(())
}

#[test]
fn lost_answers_publish_once_and_a_denial_ends_the_push() -> Outcome {
    let (files, root) = bucket()?;
    let place = Place::new()?;
    let first = place.commit(&ten_files(7))?;
    files.fail(&[Fault::AnswerLost]);
    let done = place.push(&files, root, "main", &first)?.ok_or("moved")?;
    assert_eq!((done.root.0.generation, done.root.0.last.0), (2, 1));
    let second = place.commit(&[("a", noise(3, 3000))])?;
    files.fail(&[Fault::Lost, Fault::Lost]);
    let done = place.push(&files, *done.root, "main", &second)?;
    let done = done.ok_or("moved")?;
    assert_eq!((done.root.0.generation, done.root.0.last.0), (3, 2));
    is_complete(&content(&files, &done.root.0)?, &second)?;
    let third = place.commit(&[("a", noise(4, 3000))])?;
    files.counts();
    files.fail(&[Fault::Denied; 50]);
    let failed = place.push(&files, *done.root, "main", &third);
    assert!(
        matches!(failed, Err(PushError::Trouble(Trouble::Denied(_)))),
        "{failed:?}"
    );
    assert!(files.counts().put <= 2, "it does not try again and again");
    Ok(())
}

#[test]
fn two_pushes_to_two_branches_land_and_one_branch_moves_once() -> Outcome {
    let (files, root) = bucket()?;
    let (ada, bob) = (Place::new()?, Place::new()?);
    let of_ada = ada.commit(&ten_files(7))?;
    let of_bob = bob.commit(&ten_files(8))?;
    ada.push(&files, root.clone(), "ada", &of_ada)?
        .ok_or("moved")?;
    files.counts();
    let done = bob.push(&files, root.clone(), "bob", &of_bob)?;
    // The pack, two attempts, and the root between them.
    let counts = files.counts();
    assert_eq!((counts.get, counts.put), (1, 3));
    let done = done.ok_or("moved")?;
    assert_eq!(done.root.0.view.len(), 2);
    let content = content(&files, &done.root.0)?;
    is_complete(&content, &of_ada)?;
    is_complete(&content, &of_bob)?;
    assert!(
        bob.push(&files, root, "ada", &of_bob)?.is_none(),
        "it has moved"
    );
    Ok(())
}

#[test]
fn what_is_neither_here_nor_there_is_named() -> Outcome {
    let (files, root) = bucket()?;
    let place = Place::new()?;
    place.commit(&ten_files(7))?;
    let nobody = ObjectType::Commit.id_of(b"nobody has it");
    match place.push(&files, root, "main", &nobody) {
        Err(PushError::Lacking(ids)) => assert_eq!(ids, [(ObjectType::Commit, nobody)]),
        other => return Err(format!("{other:?}").into()),
    }
    assert_eq!(files.counts().put, 0);
    Ok(())
}

#[test]
fn a_large_push_goes_on_after_a_cut() -> Outcome {
    const BYTES: usize = 80 << 16;
    let (files, root) = bucket()?;
    let place = Place::new()?;
    let file = noise(1, BYTES);
    let tip = place.commit(&[("large", file), ("small", b"small".to_vec())])?;
    // The upload begins, and two parts are stored.
    files.cut_after(Some(3));
    let cut = place.push(&files, root.clone(), "main", &tip);
    assert!(matches!(cut, Err(PushError::Trouble(_))), "{cut:?}");
    assert_eq!(files.names(), [ROOT]);
    files.cut_after(None);
    files.counts();
    let done = place.push(&files, root, "main", &tip)?.ok_or("moved")?;
    // Three of five parts, the end, the pack of metadata, and the root.
    let counts = files.counts();
    assert_eq!((counts.put, counts.get), (6, 0));
    let kinds: Vec<RowKind> = done.root.0.rows.iter().map(|row| row.kind).collect();
    assert!(kinds.contains(&RowKind::Data) && kinds.contains(&RowKind::Meta));
    is_complete(&content(&files, &done.root.0)?, &tip)?;
    let notes = std::fs::read_dir(place.notes.path().join("push"))?.count();
    assert_eq!(notes, 1, "only the empty note stays");
    Ok(())
}

#[test]
fn a_pack_whose_upload_was_ended_is_not_uploaded_again() -> Outcome {
    const BYTES: usize = 40 << 16;
    let (files, root) = bucket()?;
    let place = Place::new()?;
    let tip = place.commit(&[("large", noise(1, BYTES))])?;
    // Begin and three parts; the end, or the pack of metadata, does not get there.
    files.cut_after(Some(5));
    assert!(place.push(&files, root.clone(), "main", &tip).is_err());
    assert_eq!(files.names().len(), 2);
    files.cut_after(None);
    files.counts();
    let done = place.push(&files, root, "main", &tip)?.ok_or("moved")?;
    let counts = files.counts();
    assert!((2..=3).contains(&counts.put), "metadata, root, and the end");
    is_complete(&content(&files, &done.root.0)?, &tip)?;
    // The next push finds the old chunks by the tail that was noted.
    let next = place.commit(&[("other", noise(2, 1000))])?;
    let done = place.push(&files, *done.root, "main", &next)?;
    is_complete(&content(&files, &done.ok_or("moved")?.root.0)?, &next)?;
    Ok(())
}

#[test]
fn a_push_that_is_cut_twice_anywhere_loses_no_part() -> Outcome {
    const BYTES: usize = 22 << 16;
    let (ada, bob) = (Place::new()?, Place::new()?);
    let tips = [(&ada, 1), (&bob, 2)].map(|(place, seed)| {
        let tip = place.commit(&[("large", noise(seed, BYTES))]);
        tip.map(|tip| (place, tip)).map_err(|e| e.to_string())
    });
    let [of_ada, of_bob] = tips;
    let (of_ada, of_bob) = (of_ada?, of_bob?);
    // Begin, two parts, the end, and the pack of metadata.
    for (first, second) in (1..4).flat_map(|first| (1..5).map(move |second| (first, second))) {
        // What comes the second time need not be what came before.
        for (place, tip) in [of_ada, of_bob] {
            let (files, root) = bucket()?;
            let notes = tempfile::tempdir()?;
            let push = |place: &Place, tip: &ObjectId, left| {
                let with =
                    BucketAccess::new(&files, place.repo.store(), &place.job, Some(notes.path()));
                let change = Change {
                    key: "branch/main".to_owned(),
                    old: None,
                    new: Some(tip.as_bytes().to_vec()),
                };
                files.cut_after(left);
                push(&with, root.clone(), vec![change], &stamp())
            };
            let at = |e: &dyn std::fmt::Display| format!("{first}, {second}: {e}");
            assert!(push(of_ada.0, &of_ada.1, Some(first)).is_err());
            if push(place, &tip, Some(second)).is_err() {
                push(place, &tip, None)
                    .map_err(|e| at(&e))?
                    .ok_or("moved")?;
            }
            files.cut_after(None);
            let content = content(&files, &newest(&files)?.0)?;
            is_complete(&content, &tip).map_err(|e| at(&e))?;
        }
    }
    Ok(())
}

#[test]
fn an_upload_that_the_store_has_given_up_begins_again() -> Outcome {
    let (files, root) = bucket()?;
    let place = Place::new()?;
    let tip = place.commit(&[("large", noise(1, 40 << 16))])?;
    files.cut_after(Some(2));
    assert!(place.push(&files, root.clone(), "main", &tip).is_err());
    files.cut_after(None);
    files.forget_uploads();
    let failed = place.push(&files, root.clone(), "main", &tip);
    assert!(matches!(failed, Err(PushError::Trouble(Trouble::Cut(_)))));
    let done = place.push(&files, root, "main", &tip)?.ok_or("moved")?;
    is_complete(&content(&files, &done.root.0)?, &tip)?;
    assert_eq!(files.length("root"), files.length(ROOT));
    assert_eq!(files.length("nothing"), Err(FileFailure::Missing));
    Ok(())
}

#[test]
fn writers_at_the_same_time_all_land() -> Outcome {
    const WRITERS: usize = 6;
    const PUSHES: usize = 5;
    let (files, _) = bucket()?;
    // Some answers are lost, whoever they are for.
    let faults = [Fault::None, Fault::AnswerLost, Fault::None, Fault::Lost];
    files.fail(&faults.repeat(WRITERS * PUSHES));
    let write = |writer: usize| -> Result<ObjectId, String> {
        let place = Place::new().map_err(|e| e.to_string())?;
        let mut tip = None;
        for n in 0..PUSHES {
            let seed = (100 * writer + n) as u64;
            let commit = place.commit(&[("file", noise(seed, 2000))]);
            let commit = commit.map_err(|e| e.to_string())?;
            let root = newest(&files).map_err(|e| e.to_string())?;
            let done = place.push(&files, root, &format!("w{writer}"), &commit);
            done.map_err(|e| e.to_string())?
                .ok_or("its own branch has moved")?;
            tip = Some(commit);
        }
        tip.ok_or_else(|| "no push".to_owned())
    };
    let tips: Vec<Result<ObjectId, String>> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..WRITERS)
            .map(|writer| scope.spawn(move || write(writer)))
            .collect();
        let ends = all.into_iter().map(|one| one.join());
        ends.map(|end| end.unwrap_or_else(|_| Err("it panics".to_owned())))
            .collect()
    });
    let (root, _) = newest(&files)?;
    assert_eq!(root.last.0, (WRITERS * PUSHES) as u64, "each landed once");
    assert_eq!(root.rows.len(), WRITERS * PUSHES, "and brought one pack");
    let content = content(&files, &root)?;
    for tip in tips {
        is_complete(&content, &tip?)?;
    }
    Ok(())
}

#[test]
fn what_a_push_uploads_is_foreseen() -> Outcome {
    let part = upload::PART_BYTES;
    let large = |len: usize| vec![("large", noise(5, len))];
    let contents = [
        ten_files(1),
        Vec::new(),
        large(packs::JOINT_BYTES as usize / 2),
        large(part - 10_000),
        large(part + 10_000),
        large(3 * part + part / 2),
    ];
    for (n, content) in contents.into_iter().enumerate() {
        let (files, root) = bucket()?;
        let place = Place::new()?;
        let tip = place.commit(&content)?;
        let with = BucketAccess::new(&files, place.repo.store(), &place.job, None);
        let change = Change {
            key: "branch/main".to_owned(),
            old: None,
            new: Some(tip.as_bytes().to_vec()),
        };
        let foreseen = foresee(&with, &root.0, View::new(), vec![change])?;
        assert_eq!(files.counts(), Counts::default(), "it asks nothing");
        let done = place.push(&files, root, "main", &tip)?.ok_or("moved")?;
        assert_eq!(foreseen.objects(), done.objects, "{n}");
        let puts = files.counts().put as u64;
        assert_eq!(writes_of(&foreseen) + 1, puts, "{n}: {foreseen:?}");
    }
    Ok(())
}
