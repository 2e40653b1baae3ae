//! The files of docs/format/bucket.md, byte by byte; and what their decoders refuse.
//!
//! If `DMV_WRITE_VECTORS` is set, the test writes the file instead of comparing it. A difference
//! without a new version is a mistake in the code.

use crate::formats::claims::one_list;
use dmv_bucket::format::{
    ClaimsFile, Entry, Expirations, FramePlace, Name, Node, Page, PageRef, Places, PurgedContent,
    Purges, Root, RootPurges, Row, RowKind, View,
};
use dmv_core::claims::{HeldClaims, PushRules};
use dmv_core::hash::{ObjectId, check, decode_hex, encode_hex};
use dmv_core::object::codec::DecodeError;
use dmv_core::refs::{Change, Effect, Operation, Origin, Timestamp};
use dmv_core::repo::{Expiry, Purge};
use dmv_core::store::RepositoryId;
use std::error::Error;
use std::fmt::Write;

const FILE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../docs/format/vectors/bucket.txt"
);

fn name(byte: u8) -> Name {
    Name([byte; 16])
}

fn row(byte: u8, kind: RowKind, generation: u64) -> Row {
    let metadata = match kind {
        RowKind::Data => 900,
        RowKind::Meta => 64,
        RowKind::Joint => 500,
    };
    Row {
        generation,
        name: name(byte),
        kind,
        metadata,
        commits_end: metadata.max(600),
        tail: 900,
        len: 4 << 30,
    }
}

fn entry(seq: u64, left: Vec<Name>) -> Entry {
    let id = |seq: u64| if seq == 0 { [0; 16] } else { [seq as u8; 16] };
    let operation = Operation {
        seq,
        id: id(seq),
        previous: id(seq - 1),
        time: Timestamp {
            seconds: -86_400,
            nanos: 999_999_999,
            tz_minutes: -90,
        },
        who: "Ada <ada@example.org>".into(),
        command: "dmv push".into(),
        undoes: 0,
        origin: Some(Origin {
            worktree: String::new(),
            effect: Effect::Kept,
        }),
        changes: vec![Change {
            key: "branch/main".into(),
            old: None,
            new: Some(vec![9; 32]),
        }],
    };
    Entry { operation, left }
}

fn view() -> View {
    let keys = ["branch/main", "tag/v1"];
    keys.map(|key| (key.to_owned(), vec![9; 32])).into()
}

fn page_ref(byte: u8, items: u32) -> PageRef {
    PageRef {
        name: name(byte),
        len: 1000,
        items,
    }
}

fn full_root() -> Root {
    Root {
        generation: 300,
        previous: [3; 16],
        freed: 1,
        slice: b"dmv-slice 1\n".to_vec(),
        view_page: Some(page_ref(0x20, 2)),
        view: [
            ("branch/main".to_owned(), Some(vec![8; 32])),
            ("tag/v1".to_owned(), None),
        ]
        .into(),
        last: (66, [66; 16]),
        log_pages: vec![page_ref(0x21, 32), page_ref(0x22, 32)],
        log: vec![entry(65, vec![name(0x30), name(0x31)]), entry(66, vec![])],
        meta_pages: vec![page_ref(0x23, 100)],
        data_pages: vec![page_ref(0x24, 90)],
        rows: vec![
            row(0x11, RowKind::Joint, 298),
            row(0x10, RowKind::Data, 300),
            row(0x12, RowKind::Meta, 300),
        ],
        ..Root::first(RepositoryId::from_bytes([1; 16]), [2; 16])
    }
}

/// The full root after a purge, which has made two pages.
fn purged_root() -> Root {
    Root {
        purges: RootPurges {
            count: 3,
            unpurged: 200,
            pages: vec![page_ref(0x25, 1), page_ref(0x26, 2)],
        },
        ..full_root()
    }
}

/// The full root after files have expired.
fn expired_root() -> Root {
    Root {
        expired: vec![page_ref(0x27, 2)],
        ..full_root()
    }
}

fn expirations() -> Expirations {
    let why = |at, rule: &str| Expiry {
        at,
        rule: rule.to_owned(),
        pattern: "/renders/**".to_owned(),
    };
    let ids = |bytes: &[u8]| {
        let ids = bytes.iter().map(|byte| ObjectId::from_bytes([*byte; 32]));
        ids.collect()
    };
    [
        (why(1_795_000_000, "last:5"), ids(&[0x71, 0x72])),
        (why(1_795_100_000, "days:90"), ids(&[0x73])),
    ]
    .into()
}

fn purges() -> Purges {
    let why = |at, reason: &str| Purge {
        at,
        by: "Ada <ada@example.org>".to_owned(),
        reason: reason.to_owned(),
    };
    let ids = |bytes: &[u8]| {
        let ids = bytes.iter().map(|byte| ObjectId::from_bytes([*byte; 32]));
        ids.collect()
    };
    let buried = |files: &[u8], pieces: &[u8]| PurgedContent {
        files: ids(files),
        pieces: ids(pieces),
    };
    [
        (why(-1, "an old photo"), buried(&[0x51], &[])),
        (
            why(1_795_000_000, "leaked key"),
            buried(&[0x52, 0x53], &[0x53, 0x61, 0x62]),
        ),
        (why(1_795_000_000, "leaked password"), buried(&[], &[0x63])),
    ]
    .into()
}

fn places() -> Places {
    let frame = |pack, offset, len| FramePlace { pack, offset, len };
    Places {
        packs: vec![name(0x10), name(0x11)],
        nodes: vec![
            Node {
                ordinal: 0,
                frames: vec![
                    frame(0, 64, 1 << 20),
                    frame(0, (1 << 20) + 64, 5),
                    frame(1, 70, 9),
                ],
            },
            Node {
                ordinal: 7,
                frames: vec![frame(1, 1 << 39, 4 << 20)],
            },
        ],
    }
}

type Decode = fn(&[u8]) -> Result<Vec<u8>, DecodeError>;

fn of_root(bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
    Root::decode(bytes).map(|root| root.encode().expect("it was decoded"))
}

fn of_page(bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
    Page::decode(bytes).map(|page| page.encode(name(1)).expect("it was decoded").1)
}

fn of_places(bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
    Places::decode(bytes).map(|places| places.encode().expect("it was decoded"))
}

fn of_claims(bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
    ClaimsFile::decode(bytes).map(|file| file.encode())
}

/// A file of claims with one list, and one of a later version.
fn claims() -> Result<ClaimsFile, Box<dyn Error>> {
    let first = ClaimsFile {
        generation: 300,
        rules: PushRules {
            keeps_to_claims: true,
            needs_signatures: false,
        },
        later: vec![vec![2, 7]],
        ..ClaimsFile::default()
    };
    Ok(first.with(&[one_list()?], &HeldClaims::default()))
}

/// The name, bytes and decoder of each vector.
type Vectors = Vec<(&'static str, Vec<u8>, Decode)>;

fn vectors() -> Result<Vectors, Box<dyn Error>> {
    let root: Decode = of_root;
    let page: Decode = of_page;
    let meta = vec![row(0x12, RowKind::Meta, 1), row(0x13, RowKind::Joint, 1)];
    let data = vec![row(0x10, RowKind::Data, 1), row(0x10, RowKind::Data, 2)];
    let log = vec![entry(1, vec![]), entry(2, vec![name(0x30)])];
    let pages = [
        ("page-meta-rows", Page::MetaRows(meta)),
        ("page-data-rows", Page::DataRows(data)),
        ("page-log", Page::Log(log, view())),
        ("page-view", Page::View(view())),
        ("page-purges", Page::Purges(purges())),
        ("page-expired", Page::Expired(expirations())),
    ];
    let first = Root::first(RepositoryId::from_bytes([1; 16]), [2; 16]);
    let mut all = vec![
        ("root-first", first.encode()?, root),
        ("root-full", full_root().encode()?, root),
        ("root-purged", purged_root().encode()?, root),
        ("root-expired", expired_root().encode()?, root),
        (
            "root-purged-and-expired",
            Root {
                expired: expired_root().expired,
                ..purged_root()
            }
            .encode()?,
            root,
        ),
    ];
    for (label, value) in pages {
        let (named, bytes) = value.encode(name(0x40))?;
        assert_eq!(named.len as usize, bytes.len());
        assert_eq!(Page::decode(&bytes)?, value, "{label}");
        all.push((label, bytes, page));
    }
    all.push(("claims", claims()?.encode(), of_claims));
    all.push(("places-none", Places::default().encode()?, of_places));
    all.push(("places", places().encode()?, of_places));
    Ok(all)
}

#[test]
fn the_files_of_a_bucket_have_these_bytes() -> Result<(), Box<dyn Error>> {
    assert_eq!(Root::decode(&full_root().encode()?)?, full_root());
    assert_eq!(Root::decode(&purged_root().encode()?)?, purged_root());
    assert_eq!(Root::decode(&expired_root().encode()?)?, expired_root());
    assert_eq!(Places::decode(&places().encode()?)?, places());
    let mut text = "# name, file\n".to_owned();
    for (name, bytes, decode) in vectors()? {
        writeln!(text, "{name} {}", encode_hex(&bytes))?;
        assert_eq!(decode(&bytes)?, bytes, "{name}");
    }
    if std::env::var_os("DMV_WRITE_VECTORS").is_some() {
        std::fs::write(FILE, &text)?;
    }
    assert_eq!(std::fs::read_to_string(FILE)?, text);
    // The file is also there for other implementations.
    assert!(text.lines().skip(1).all(|line| {
        let hex = line.split(' ').nth(1).and_then(decode_hex);
        hex.is_some_and(|bytes| !bytes.is_empty())
    }));
    Ok(())
}

#[test]
fn every_cut_and_every_flipped_bit_is_refused_or_another_value() -> Result<(), Box<dyn Error>> {
    for (name, bytes, decode) in vectors()? {
        for cut in 0..bytes.len() {
            assert!(decode(&bytes[..cut]).is_err(), "{name} cut at {cut}");
        }
        assert!(
            decode(&[&bytes[..], &[0]].concat()).is_err(),
            "{name}, longer"
        );
        let has_check = !name.starts_with("places");
        for bit in 0..8 * bytes.len() {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            if has_check {
                assert!(decode(&changed).is_err(), "{name}: bit {bit}");
                // A sender can make the check valid.
                let end = changed.len() - 8;
                let valid = check(&[&changed[..end]]);
                changed[end..].copy_from_slice(&valid);
            }
            if let Ok(again) = decode(&changed) {
                assert_eq!(again, changed, "{name}: bit {bit}");
            }
        }
    }
    Ok(())
}

#[test]
fn later_versions_are_too_new_and_no_damage() -> Result<(), Box<dyn Error>> {
    for (name, mut bytes, decode) in vectors()? {
        let at = if name.starts_with("places") { 0 } else { 8 };
        bytes[at] = 4;
        assert!(decode(&bytes).is_err_and(|e| e.is_too_new()), "{name}");
        bytes[at] = 0;
        assert!(decode(&bytes).is_err_and(|e| !e.is_too_new()), "{name}");
    }
    Ok(())
}

/// A root that breaks one rule between its fields.
type BadRoot = (&'static str, fn(&mut Root));

#[test]
fn roots_that_nobody_could_read_are_not_written() {
    let bad: [BadRoot; 12] = [
        ("generation is zero", |root| root.generation = 0),
        ("wrong predecessor", |root| root.previous = [0; 16]),
        ("the log ends elsewhere", |root| root.last.0 += 1),
        ("removes a key of nothing", |root| root.view_page = None),
        ("row from a later root", |root| root.generation = 299),
        ("rows are not sorted", |root| root.rows.swap(0, 1)),
        ("operation does not follow the one before", |root| {
            root.log.swap(0, 1)
        }),
        ("names are not sorted", |root| root.log[0].left.swap(0, 1)),
        ("parts of a pack are out of order", |root| {
            root.rows[2].metadata = 65
        }),
        ("purged content of no operation", |root| {
            root.purges.unpurged = 1
        }),
        ("purged content of no operation", |root| {
            root.purges.pages = vec![page_ref(0x25, 1)]
        }),
        ("nothing is purged", |root| root.purges.count = 1),
    ];
    for (what, spoil) in bad {
        let mut root = full_root();
        spoil(&mut root);
        let found = root.encode().err().map(|e| e.what);
        assert_eq!(found, Some(what));
    }
    let mut large = full_root();
    large.slice = vec![b'x'; 2 << 20];
    assert!(large.encode().is_err());
    let mut long = full_root();
    long.view
        .insert("tag/v2".into(), Some(vec![0; (128 << 10) + 1]));
    assert_eq!(long.encode().map_err(|e| e.what), Err("value is too long"));
    let mut too_many = purged_root();
    too_many.purges.pages = vec![page_ref(0x25, 1); 17];
    assert!(too_many.encode().is_err());
    let mut too_many = expired_root();
    too_many.expired = vec![page_ref(0x25, 1); 17];
    assert!(too_many.encode().is_err());
    let keys = (0..65_537).map(|n| (format!("{n:06}"), Vec::new()));
    let many = Page::View(keys.collect());
    assert_eq!(
        many.encode(name(1)).map_err(|e| e.what),
        Err("too many keys")
    );
}

#[test]
fn a_root_has_the_least_version_that_says_what_it_says() -> Result<(), Box<dyn Error>> {
    assert_eq!(full_root().encode()?[8], 1);
    for (root, version) in [(purged_root(), 2), (expired_root(), 3)] {
        let bytes = root.encode()?;
        assert_eq!(bytes[8], version);
        // An earlier version has no room for it.
        for earlier in 1..version {
            let mut bytes = bytes.clone();
            bytes[8] = earlier;
            let end = bytes.len() - 8;
            let valid = check(&[&bytes[..end]]);
            bytes[end..].copy_from_slice(&valid);
            assert!(Root::decode(&bytes).is_err_and(|e| !e.is_too_new()));
        }
    }
    Ok(())
}

#[test]
fn purges_that_nobody_could_read_are_not_written() {
    let add = |purges: &mut Purges, reason: &str, buried: PurgedContent| {
        let why = Purge {
            at: 0,
            by: "ada".to_owned(),
            reason: reason.to_owned(),
        };
        purges.insert(why, buried);
    };
    let one = || PurgedContent {
        files: [ObjectId::from_bytes([1; 32])].into(),
        pieces: [].into(),
    };
    let mut nothing = purges();
    add(&mut nothing, "nothing", PurgedContent::default());
    let nothing = Page::Purges(nothing).encode(name(1));
    assert_eq!(
        nothing.err().map(|e| e.what),
        Some("a reason without content")
    );
    let mut lines = purges();
    add(&mut lines, "two\nlines", one());
    let lines = Page::Purges(lines).encode(name(1));
    assert_eq!(
        lines.err().map(|e| e.what),
        Some("content is absent for no reason")
    );
    let mut long = purges();
    add(&mut long, &"x".repeat(5000), one());
    let long = Page::Purges(long).encode(name(1));
    assert_eq!(long.err().map(|e| e.what), Some("text is too long"));
}

#[test]
fn a_root_follows_itself_and_its_descendants_alone() {
    let known = full_root();
    let next = |generation, write, previous| Root {
        generation,
        write,
        previous,
        ..full_root()
    };
    assert!(known.can_follow(&known));
    assert!(next(301, [5; 16], known.write).can_follow(&known));
    assert!(next(302, [6; 16], [5; 16]).can_follow(&known));
    assert!(!next(301, [5; 16], [4; 16]).can_follow(&known));
    assert!(!next(300, [5; 16], [3; 16]).can_follow(&known));
    assert!(!next(299, [5; 16], [3; 16]).can_follow(&known));
    let other = Root {
        repository: RepositoryId::from_bytes([9; 16]),
        ..next(301, [5; 16], known.write)
    };
    assert!(!other.can_follow(&known));
}
