//! docs/format/vectors: what other implementations and later versions are held against.
//!
//! The files are compared with what this code makes; with `DMV_WRITE_VECTORS` set they are written
//! instead. A difference without a new format version is a mistake in the code.

use dmv_core::chunker::{CHUNKER, Cutter};
use dmv_core::hash::{ObjectId, chunk_id, decode_hex, encode_hex};
use dmv_core::object::commit::{Commit, Person};
use dmv_core::object::conflict::{Conflict, Term};
use dmv_core::object::list::{Blob, BlobChunks, ListBuilder, ListEntry, ListNode};
use dmv_core::object::mem::MemObjects;
use dmv_core::object::name::{RepoPath, SafeName};
use dmv_core::object::signature::{DOMAIN, Signature};
use dmv_core::object::tree::{Child, Kind, Node, Totals, TreeEntry, Xattrs};
use dmv_core::object::{ObjectType, ObjectWrite};
use dmv_core::refs::{Change, Effect, Operation, Origin, Timestamp};
use dmv_core::repo::{Expiry, Note, PathNotes, Purge, PurgesElsewhere, RepoSlice, Step, Steps};
use dmv_core::subset::Subset;
use dmv_net::identity::DeviceKey;
use std::error::Error;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

pub type Outcome = Result<(), Box<dyn Error>>;
/// A vector's name and encoding.
type Vector = (&'static str, Vec<u8>);

/// Compares `text` with a vector file, or writes it.
pub fn hold_against(file: &str, text: &str) -> Outcome {
    let vectors = "../docs/format/vectors";
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join(vectors)
        .join(file);
    if std::env::var_os("DMV_WRITE_VECTORS").is_some() {
        std::fs::write(path, text)?;
        return Ok(());
    }
    let want = std::fs::read_to_string(path)?;
    for (want, found) in want.lines().zip(text.lines()) {
        assert_eq!(found, want, "{file}");
    }
    assert_eq!(text.lines().count(), want.lines().count(), "{file}");
    Ok(())
}

/// Content by its description in the vector files: `byte:xx`, `random:seed`.
fn content(what: &str, len: usize) -> Vec<u8> {
    let (kind, value) = what.split_once(':').expect("kind:value");
    if kind == "byte" {
        return vec![u8::from_str_radix(value, 16).expect("a byte in hex"); len];
    }
    assert_eq!(kind, "random");
    let mut state: u64 = value.parse().expect("a seed");
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        out.extend_from_slice(&(z ^ (z >> 31)).to_le_bytes());
    }
    out.truncate(len);
    out
}

fn lengths(mut data: &[u8]) -> Vec<usize> {
    let cutter = Cutter::new();
    let mut lengths = Vec::new();
    while !data.is_empty() {
        let n = cutter.cut(data);
        lengths.push(n);
        data = &data[n..];
    }
    lengths
}

const CONTENT_HELP: &str = "\
# byte:xx is one byte over and over. random:seed is the output of splitmix64 with that seed as its
# first state, each number as eight bytes, little-endian, cut to the length.
";

#[test]
fn files_are_cut_where_the_vectors_say() -> Outcome {
    let mut text = format!("# {CHUNKER}\n# content, length, lengths of the chunks\n{CONTENT_HELP}");
    for (what, len) in [
        ("byte:00", 0),
        ("byte:00", 1),
        ("byte:00", 16_384),
        ("byte:00", 16_385),
        ("byte:00", 65_537),
        ("byte:00", 262_144),
        ("byte:00", 262_145),
        ("byte:00", 1_000_003),
        ("byte:ff", 1_000_003),
        ("random:0", 16_384),
        ("random:0", 16_385),
        ("random:0", 65_536),
        ("random:1", 100_001),
        ("random:2", 262_145),
        ("random:3", 1_000_003),
        ("random:4", 4_194_304),
    ] {
        let lengths = lengths(&content(what, len));
        let lengths: Vec<String> = lengths.iter().map(usize::to_string).collect();
        let line = format!("{what} {len} {}", lengths.join(" "));
        text.push_str(line.trim_end());
        text.push('\n');
    }
    hold_against("chunks.txt", &text)
}

fn build(data: &[u8], objects: &mut MemObjects) -> Result<Blob, Box<dyn Error>> {
    let mut builder = ListBuilder::new();
    let mut at = 0;
    for len in lengths(data) {
        let id = objects.put(ObjectType::Chunk, &data[at..at + len])?;
        builder.push(id, len as u64, objects)?;
        at += len;
    }
    Ok(builder.finish(objects)?)
}

#[test]
fn blobs_have_the_ids_of_the_vectors() -> Outcome {
    let mut text = format!("# content, length, type and id of the blob\n{CONTENT_HELP}");
    for (what, len) in [
        ("byte:00", 0),
        ("byte:00", 1),
        ("byte:00", 262_144),
        ("byte:00", 262_145),
        ("byte:00", 20_000_000),
        ("random:5", 1_000),
        ("random:5", 200_000),
        ("random:5", 1_000_000),
        ("random:6", 20_000_000),
        ("random:7", 100_000_000),
    ] {
        let data = content(what, len);
        let mut objects = MemObjects::new();
        let blob = build(&data, &mut objects)?;
        text.push_str(&format!("{what} {len} {} {}\n", blob.ty().word(), blob.id));

        let mut at = 0;
        for chunk in BlobChunks::new(&objects, blob) {
            let (offset, id, len) = chunk?;
            assert_eq!(offset as usize, at);
            assert_eq!(id, chunk_id(&data[at..at + len as usize]));
            at += len as usize;
        }
        assert_eq!((at, blob.size), (data.len(), data.len() as u64));
    }
    hold_against("blobs.txt", &text)
}

fn id(seed: u8) -> ObjectId {
    chunk_id(&[seed])
}

fn name(text: &str) -> SafeName {
    SafeName::new(text.as_bytes()).expect("a valid name")
}

fn list(level: u8, lens: &[u64]) -> Vec<u8> {
    let entry = |(seed, len): (usize, &u64)| ListEntry {
        id: id(seed as u8),
        len: *len,
    };
    let entries = lens.iter().enumerate().map(entry).collect();
    ListNode { level, entries }.encode()
}

fn entry(text: &str, kind: Kind, size: u64) -> TreeEntry {
    TreeEntry {
        name: name(text),
        kind,
        is_list: false,
        id: id(kind as u8),
        size,
        files: 0,
        attrs: None,
    }
}

fn trees() -> Result<Vec<Vector>, Box<dyn Error>> {
    let one = Node::Leaf(vec![entry("a", Kind::File, 3)]);
    let kinds = Node::Leaf(vec![
        entry("Makefile", Kind::File, 0),
        entry("conflict", Kind::Conflict, 0),
        TreeEntry {
            files: 300,
            ..entry("dir", Kind::Directory, 1 << 40)
        },
        entry("link", Kind::Symlink, 7),
        TreeEntry {
            is_list: true,
            // Tag 1, twelve bytes: 1,700,000,000 seconds, 999,999,999 nanoseconds.
            attrs: decode_hex("010c00f1536500000000ffc99a3b").map(Vec::into_boxed_slice),
            ..entry("run.sh", Kind::Executable, 1_000_000)
        },
        entry("\u{e9}", Kind::File, 1),
    ]);
    let child = |last, seed, entries| Child {
        last: name(last),
        id: id(seed),
        totals: Totals {
            entries,
            bytes: 1 << 33,
            files: entries + 5,
        },
    };
    let private = Node::Leaf(vec![
        entry("id", Kind::Executable, 2).with_privacy(true),
        TreeEntry {
            // Tag 3 of Git, and tag 4: private.
            attrs: decode_hex("030701313030363634").map(Vec::into_boxed_slice),
            ..entry("key", Kind::File, 3)
        }
        .with_privacy(true),
    ]);
    let xattrs = [("mood", "ok"), ("xdg.tags", "red,shot 7")];
    let xattrs = Xattrs::new(xattrs.map(|(name, value)| (name.to_owned(), value.into())))?;
    let tagged = entry("a.mov", Kind::File, 3).with_privacy(true);
    let tagged = Node::Leaf(vec![tagged.with_xattrs(&xattrs)]);
    let inner = Node::Inner {
        level: 1,
        children: vec![child("img_0159", 1, 160), child("zebra", 2, 1)],
    };
    Ok(vec![
        ("tree-empty", Node::Leaf(Vec::new()).encode()?),
        ("tree-one-file", one.encode()?),
        ("tree-every-kind", kinds.encode()?),
        ("tree-inner", inner.encode()?),
        ("tree-private-files", private.encode()?),
        ("tree-extended-attributes", tagged.encode()?),
    ])
}

fn conflicts() -> Result<Vec<Vector>, Box<dyn Error>> {
    let file = |seed| Term {
        kind: Kind::File,
        is_list: false,
        is_private: false,
        id: id(seed),
        size: 3,
        files: 0,
    };
    let directory = Term {
        kind: Kind::Directory,
        files: 2,
        ..file(9)
    };
    let list = Term {
        kind: Kind::Executable,
        is_list: true,
        size: 1 << 33,
        ..file(8)
    };
    let changed = Conflict {
        bases: vec![Some(file(1))],
        sides: vec![Some(file(2)), Some(file(3))],
    };
    let private = |term: Term| Term {
        is_private: true,
        ..term
    };
    let became_private = Conflict {
        bases: vec![Some(list)],
        sides: vec![Some(private(list)), Some(private(file(2)))],
    };
    let every_term = Conflict {
        bases: vec![None, Some(file(1))],
        sides: vec![Some(directory), Some(list), None],
    };
    Ok(vec![
        ("conflict-changed-twice", changed.encode()?),
        ("conflict-every-term", every_term.encode()?),
        ("conflict-private-versions", became_private.encode()?),
    ])
}

fn commits() -> Result<Vec<Vector>, Box<dyn Error>> {
    let person = Person {
        name: "Ada".to_owned(),
        email: "ada@example.org".to_owned(),
        seconds: 1_700_000_000,
        nanos: 0,
        tz_minutes: 60,
    };
    let first = Commit {
        tree: ObjectType::Tree.id_of(&Node::Leaf(Vec::new()).encode()?),
        tree_bytes: 0,
        tree_files: 0,
        parents: Vec::new(),
        generation: 1,
        author: person.clone(),
        committer: person.clone(),
        message: "first\n".to_owned(),
        extras: Vec::new(),
        signature: None,
    };
    let merge = Commit {
        tree_bytes: 1 << 40,
        tree_files: 1_000_000,
        parents: vec![id(2), id(1)],
        generation: 18,
        committer: Person {
            name: String::new(),
            email: String::new(),
            seconds: -1,
            nanos: 999_999_999,
            tz_minutes: -1439,
        },
        message: "zusammengef\u{fc}hrt".to_owned(),
        extras: vec![
            (b"change".to_vec(), b"\x00\xff".to_vec()),
            (b"origin".to_vec(), Vec::new()),
        ],
        signature: Some(b"signed".to_vec()),
        ..first.clone()
    };
    Ok(vec![
        ("commit-first", first.encode()?),
        ("commit-merge-signed", merge.encode()?),
    ])
}

/// Decodes and encodes again.
fn again(ty: ObjectType, bytes: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    Ok(match ty {
        ObjectType::Chunk => bytes.to_vec(),
        ObjectType::List => ListNode::decode(bytes)?.encode(),
        ObjectType::Tree => Node::decode(bytes)?.encode()?,
        ObjectType::Conflict => Conflict::decode(bytes)?.encode()?,
        ObjectType::Commit => Commit::decode(bytes)?.encode()?,
    })
}

#[test]
fn objects_have_the_bytes_and_ids_of_the_vectors() -> Outcome {
    let mut objects: Vec<(ObjectType, &str, Vec<u8>)> = vec![
        (ObjectType::Chunk, "chunk-empty", Vec::new()),
        (ObjectType::Chunk, "chunk-abc", b"abc".to_vec()),
        (ObjectType::List, "list-two-chunks", list(0, &[262_144, 1])),
        (
            ObjectType::List,
            "list-lengths",
            list(0, &[1, 127, 128, 16_384, 1 << 20]),
        ),
        (
            ObjectType::List,
            "list-of-lists",
            list(1, &[1 << 24, 16_383]),
        ),
        (
            ObjectType::List,
            "list-longest",
            list(12, &[(1 << 62) - 1, 1 << 62]),
        ),
    ];
    let of_type = |ty| move |(name, bytes)| (ty, name, bytes);
    objects.extend(trees()?.into_iter().map(of_type(ObjectType::Tree)));
    objects.extend(conflicts()?.into_iter().map(of_type(ObjectType::Conflict)));
    objects.extend(commits()?.into_iter().map(of_type(ObjectType::Commit)));

    let mut text = String::from("# name, type, id, encoding\n");
    for (ty, name, bytes) in objects {
        assert_eq!(again(ty, &bytes)?, bytes, "{name}");
        let line = format!(
            "{name} {} {} {}",
            ty.word(),
            ty.id_of(&bytes),
            encode_hex(&bytes)
        );
        text.push_str(line.trim_end());
        text.push('\n');
    }
    hold_against("objects.txt", &text)
}

/// A commit with this signature.
fn signed(signature: Vec<u8>) -> Result<Vec<u8>, Box<dyn Error>> {
    let (_, first) = commits()?.swap_remove(0);
    let mut commit = Commit::decode(&first)?;
    commit.signature = Some(signature);
    Ok(commit.encode()?)
}

/// Returns the key whose secret half is 32 bytes 0x07.
pub fn key_of_the_pages() -> Result<DeviceKey, Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("device-key");
    std::fs::write(&path, format!("dmv-device-key 1\n{}\n", "07".repeat(32)))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    Ok(DeviceKey::load(&path)?.ok_or("no key")?)
}

/// The first vector of a commit, with good and bad signatures by that key.
fn signatures() -> Result<Vec<Vector>, Box<dyn Error>> {
    let key = key_of_the_pages()?;
    let first = Commit::decode(&commits()?[0].1)?;
    let merge = Commit::decode(&commits()?[1].1)?;
    let good = key.sign_commit(&first.statement()?).encode();
    let without_domain = &first.statement()?[DOMAIN.len() + 1..];
    let mut changed = good.clone();
    changed[96] ^= 1;
    Ok(vec![
        ("device", signed(good.clone())?),
        ("device-changed", signed(changed)?),
        ("device-cut-off", signed(good[..96].to_vec())?),
        ("device-and-more", signed([&good[..], &[0]].concat())?),
        (
            "device-of-another-commit",
            signed(key.sign_commit(&merge.statement()?).encode())?,
        ),
        (
            "device-without-domain",
            signed(key.sign_commit(without_domain).encode())?,
        ),
        ("of-no-known-kind", signed(vec![9; 97])?),
        ("longest", signed(vec![1; 16 << 10])?),
    ])
}

#[test]
fn signatures_are_good_and_bad_as_the_vectors_say() -> Outcome {
    let mut text = String::from("# name, state, the signer's key or -, the commit\n");
    for (name, bytes) in signatures()? {
        let commit = Commit::decode(&bytes)?;
        let signature = commit.signature.as_deref().and_then(Signature::decode);
        let statement = commit.statement()?;
        let is_good = signature
            .as_ref()
            .is_some_and(|signature| signature.is_by_device(&statement));
        let state = if is_good { "good" } else { "bad" };
        let key = signature.map_or("-".to_owned(), |signature| encode_hex(signature.key()));
        text.push_str(&format!("{name} {state} {key} {}\n", encode_hex(&bytes)));
    }
    hold_against("signatures.txt", &text)
}

/// Operations of both versions, with every kind of change.
fn operations() -> Vec<Vector> {
    let origin = |worktree: &str, effect| {
        let worktree = worktree.to_owned();
        Some(Origin { worktree, effect })
    };
    let change = |key: &str, old: Option<&[u8]>, new: Option<&[u8]>| Change {
        key: key.to_owned(),
        old: old.map(<[u8]>::to_vec),
        new: new.map(<[u8]>::to_vec),
    };
    let operation = |seq, origin, undoes, changes| {
        let operation = Operation {
            seq,
            id: [0x11; 16],
            previous: [0x22; 16],
            time: Timestamp {
                seconds: -86_400,
                nanos: 999_999_999,
                tz_minutes: -90,
            },
            who: "Ada <ada@example.org>".to_owned(),
            command: "dmv commit -m 'first state'".to_owned(),
            undoes,
            origin,
            changes,
        };
        operation.encode()
    };
    let commit = || {
        vec![
            change("branch/main", None, Some(&[1; 32])),
            change("worktree/main/base", Some(&[2; 32]), Some(&[1; 32])),
        ]
    };
    let deleted = vec![change("tag/v1", Some(&[3; 32]), None)];
    let head = vec![change("worktree/side/head", None, Some(b"branch/side"))];
    vec![
        ("version-1", operation(1, None, 0, commit())),
        (
            "kept",
            operation(2, origin("main", Effect::Kept), 0, commit()),
        ),
        (
            "written-undo",
            operation(300, origin("side", Effect::Written), 299, deleted),
        ),
        (
            "worktree",
            operation(3, origin("", Effect::Worktree), 0, head),
        ),
    ]
}

#[test]
fn operations_have_the_bytes_of_the_vectors() -> Outcome {
    let mut text = "# name, encoding\n".to_owned();
    for (name, bytes) in operations() {
        assert_eq!(Operation::decode(&bytes)?.encode(), bytes, "{name}");
        text += &format!("{name} {}\n", encode_hex(&bytes));
    }
    hold_against("operations.txt", &text)
}

/// Returns an entry at a path.
fn entry_at(path: &RepoPath, kind: Kind, seed: u8) -> TreeEntry {
    TreeEntry {
        name: SafeName::new(path.file_name().unwrap_or_default()).expect("a path has names"),
        kind,
        is_list: kind == Kind::Executable,
        id: id(seed),
        size: if kind == Kind::Conflict { 0 } else { 300 },
        files: 0,
        attrs: None,
    }
}

#[test]
fn records_of_a_worktree_have_the_bytes_of_the_vectors() -> Outcome {
    let path = |text: &str| RepoPath::parse(text.as_bytes()).expect("a path");
    let at = |text: &str, kind, seed| entry_at(&path(text), kind, seed);
    let beside = |text: &str, seed| (path(text), at(text, Kind::File, seed));
    let shot = "shots/07.exr";
    let conflict = at(shot, Kind::Conflict, 1);
    let untracked = TreeEntry {
        attrs: Some([5, 1, 7].into()),
        ..at("a b", Kind::Executable, 2)
    };
    let settled = Note::Choice {
        conflict: at("shots", Kind::Conflict, 1),
        entry: None,
        beside: vec![],
    };
    let notes = [
        ("none", PathNotes::default()),
        (
            "untracked",
            [(path("a b"), Note::Untracked(untracked))]
                .into_iter()
                .collect(),
        ),
        (
            "conflict-and-choice",
            [
                (path("shots"), settled),
                (
                    path(shot),
                    Note::Conflict {
                        conflict: conflict.clone(),
                        beside: vec![beside("shots/07.theirs.exr", 3)],
                    },
                ),
                (
                    path(shot),
                    Note::Choice {
                        conflict: conflict.clone(),
                        entry: Some(at(shot, Kind::Symlink, 4)),
                        beside: vec![beside("shots/07-theirs.exr", 5)],
                    },
                ),
            ]
            .into_iter()
            .collect(),
        ),
    ];
    let mut text = "# name, encoding\n".to_owned();
    for (name, notes) in notes {
        let bytes = notes.encode();
        assert_eq!(PathNotes::decode(&bytes)?, notes, "{name}");
        text += &format!("{name} {}\n", encode_hex(&bytes));
        for end in 0..bytes.len() {
            assert!(PathNotes::decode(&bytes[..end]).is_err(), "{name} {end}");
        }
        assert!(PathNotes::decode(&[&bytes[..], b"x"].concat()).is_err());
    }
    let entry = |kind, seed| Some(at("a/b", kind, seed));
    let overwrote = |before, after| Step::Overwrote { before, after };
    let steps: Steps = [
        (path("a"), Step::LeftGone(None)),
        (path("a/b"), overwrote(None, entry(Kind::File, 6))),
        (path("a/b"), Step::Moved(path("c/b"))),
        (path("a/b"), Step::LeftAlone),
        (path("a/b"), Step::LeftGone(Some(path("a")))),
    ]
    .into_iter()
    .collect();
    for (name, steps) in [("no-steps", Steps::default()), ("steps", steps)] {
        let bytes = steps.encode();
        assert_eq!(Steps::decode(&bytes)?, steps, "{name}");
        text += &format!("{name} {}\n", encode_hex(&bytes));
        for end in 0..bytes.len() {
            assert!(Steps::decode(&bytes[..end]).is_err(), "{name} {end}");
        }
    }
    hold_against("notes.txt", &text)
}

#[test]
fn slices_have_the_bytes_of_the_vectors() -> Outcome {
    let id = |n| ObjectId::from_bytes([n; 32]);
    let patterns: [&[u8]; 4] = [b"shots/07", b"*.\xc3\xa9", b"!shots/07/raw/", b"a "];
    let subset = Subset::new(patterns)?;
    let by = |rule: &str| {
        let (at, rule, pattern) = (1_795_000_000, rule.to_owned(), "/renders/**".to_owned());
        std::sync::Arc::new(Expiry { at, rule, pattern })
    };
    let purge = |reason: &str| {
        let (at, by) = (1_795_000_000, "Ada <ada@example.org>".to_owned());
        let reason = format!("court order {reason}");
        std::sync::Arc::new(Purge { at, by, reason })
    };
    let told = |reason: &str, place: &str| {
        let (purge, place) = (Purge::clone(&purge(reason)), place.to_owned());
        std::sync::Arc::new(PurgesElsewhere { purge, place })
    };
    let slices = [
        ("everything", RepoSlice::default()),
        (
            "metadata",
            RepoSlice {
                metadata_only: true,
                ..RepoSlice::default()
            },
        ),
        (
            "nothing",
            RepoSlice {
                subset: Subset::nothing(),
                ..RepoSlice::default()
            },
        ),
        (
            "all-lines",
            RepoSlice {
                subset,
                metadata_only: true,
                boundary: [id(2), id(1)].into(),
                dropped: [id(0xff), id(0)].into(),
                ..RepoSlice::default()
            },
        ),
        (
            "expired",
            RepoSlice {
                dropped: [id(9)].into(),
                expired: [
                    (id(3), by("last:5")),
                    (id(1), by("none")),
                    (id(2), by("last:5")),
                ]
                .into(),
                ..RepoSlice::default()
            },
        ),
        (
            "purged",
            RepoSlice {
                dropped: [id(9)].into(),
                purged: [
                    (id(3), purge("b")),
                    (id(1), purge("a")),
                    (id(2), purge("b")),
                ]
                .into(),
                pieces: [(id(5), purge("b")), (id(4), purge("b"))].into(),
                ..RepoSlice::default()
            },
        ),
        (
            "told",
            RepoSlice {
                dropped: [id(9)].into(),
                told: [(id(3), told("b", "nas")), (id(1), told("a", "origin"))].into(),
                ..RepoSlice::default()
            },
        ),
    ];
    let mut text = "# name, file\n".to_owned();
    for (name, slice) in slices {
        let bytes = slice.encode();
        assert_eq!(RepoSlice::decode(&bytes), Ok(slice), "{name}");
        text += &format!("{name} {}\n", encode_hex(&bytes));
    }
    hold_against("slices.txt", &text)
}
