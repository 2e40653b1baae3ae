//! The messages of docs/protocol.md, byte by byte.
//!
//! If `DMV_WRITE_VECTORS` is set, the test writes the file instead of comparing it. A difference
//! without a new protocol version is a mistake in the code.

use dmv_net::wire::{
    Access, ClaimsEnd, Code, ExpiredFiles, Extension, Filter, Frame, Hello, Message, Outcome,
    PurgeOutcome, PurgeSums, PurgedFiles, ReadOnly, Refs, SliceSummary, UnaskedObjects, Update,
    Want,
};
use std::error::Error;
use std::fmt::Write;

const FILE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../docs/format/vectors/messages.txt"
);

fn id(byte: u8) -> [u8; 32] {
    [byte; 32]
}

/// Returns one message of each type, with extreme values of the fields.
fn messages() -> Vec<(&'static str, Message)> {
    let purged = PurgedFiles {
        at: 1_795_000_000,
        by: "Ada <ada@example.org>".into(),
        reason: "court order".into(),
        files: vec![id(5)],
        stored: 7,
    };
    let sums = PurgeSums {
        files: 2,
        shared_bytes: 300_000,
        linked_packs: 1,
    };
    let hello = |access, extensions| {
        Message::Hello(Hello {
            agent: "dmv 0.1.0".into(),
            repository: [1; 16],
            chunker: "fastcdc-v2020 16384 65536 262144 1 0".into(),
            access,
            extensions,
        })
    };
    let extension = Extension {
        tag: 300,
        value: vec![1, 2, 3],
    };
    let want = |filter, unasked| {
        Message::Want(Want {
            tips: vec![id(1), id(2)],
            filter,
            unasked,
            haves: vec![id(3)],
            last: true,
            shallow: vec![id(8)],
        })
    };
    let filter = Filter {
        subsets: vec![
            vec![b"film/".to_vec(), b"!film/raw".to_vec()],
            vec![b"*.txt".to_vec()],
        ],
        depth: 1000,
        since: Some(-1),
        metadata_only: true,
    };
    let update = Update {
        key: "branch/main".into(),
        old: Some(id(1)),
        new: Some(id(2)),
        force: false,
    };
    let outcomes = [
        Outcome::Done,
        Outcome::Moved,
        Outcome::NotForward,
        Outcome::BadName,
        Outcome::Refused,
    ];
    let held = vec![
        Extension::keeps(),
        Extension::works(300_000),
        Extension::hears_totals(),
        Extension::deletes(),
        Extension::holds(&SliceSummary {
            subset: vec![b"film/".to_vec(), b"!film/raw".to_vec()],
            metadata_only: true,
            boundary: 300,
            dropped: 2,
        }),
    ];
    let read_only = vec![Extension::read_only(ReadOnly::Server)];
    let in_use = vec![Outcome::InUse];
    vec![
        ("hello", hello(Access::Write, Vec::new())),
        ("hello-extended", hello(Access::Read, vec![extension])),
        (
            "refs",
            Message::Refs(Refs {
                head: Some("main".into()),
                refs: vec![("branch/main".into(), id(1)), ("tag/v1".into(), id(2))],
                more: false,
            }),
        ),
        (
            "refs-none",
            Message::Refs(Refs {
                head: None,
                refs: Vec::new(),
                more: true,
            }),
        ),
        ("want", want(Filter::default(), UnaskedObjects::All)),
        ("want-filtered", want(filter, UnaskedObjects::Metadata)),
        ("have", Message::Have(vec![id(4)], false)),
        ("common", Message::Common(vec![id(4)], true)),
        ("end", Message::End),
        ("need", Message::Need(vec![(1, id(5)), (3, id(6))])),
        ("absent", Message::Absent(vec![(2, id(7))])),
        ("need-end", Message::NeedEnd),
        ("complete", Message::Complete),
        (
            "push",
            Message::Push(vec![
                update.clone(),
                Update {
                    old: None,
                    new: None,
                    force: true,
                    ..update
                },
            ]),
        ),
        ("pushed", Message::Pushed(outcomes.to_vec())),
        ("bye", Message::Bye),
        ("failed", Message::Failed(Code::Busy, "later".into())),
        (
            "failed-absent",
            Message::Failed(Code::Absent, "gone".into()),
        ),
        ("keep", Message::Keep(vec![(1, id(5)), (2, id(6))], true)),
        ("unkept", Message::Unkept(vec![(2, id(6))], false)),
        ("unkept-none", Message::Unkept(Vec::new(), true)),
        ("working", Message::Working),
        ("total", Message::Total(1 << 40)),
        ("pushed-in-use", Message::Pushed(in_use)),
        ("hello-held", hello(Access::Read, held)),
        ("hello-read-only", hello(Access::Read, read_only)),
        (
            "hello-expires",
            hello(Access::Read, vec![Extension::expires()]),
        ),
        ("ask-expired", Message::AskExpired),
        (
            "expired",
            Message::Expired(
                ExpiredFiles {
                    at: 1_795_000_000,
                    rule: "last:5".into(),
                    pattern: "/renders/**".into(),
                    files: vec![id(5), id(6)],
                },
                false,
            ),
        ),
        (
            "expired-last",
            Message::Expired(ExpiredFiles::default(), true),
        ),
        (
            "hello-purges",
            hello(Access::Read, vec![Extension::purges(true)]),
        ),
        ("ask-purged", Message::AskPurged),
        ("purged", Message::Purged(purged.clone(), false)),
        ("purged-last", Message::Purged(PurgedFiles::default(), true)),
        ("purge", Message::Purge(purged, true)),
        (
            "purge-done",
            Message::PurgeDone(PurgeOutcome::Done, sums, String::new()),
        ),
        (
            "purge-busy",
            Message::PurgeDone(PurgeOutcome::Busy, PurgeSums::default(), "later".into()),
        ),
        (
            "hello-bases",
            hello(Access::Read, vec![Extension::bases(true)]),
        ),
        ("need-plain", Message::NeedPlain(vec![(1, id(6))])),
        (
            "hello-claims",
            hello(Access::Read, vec![Extension::claims(vec![7; 16])]),
        ),
        ("tell-claims", Message::TellClaims(vec![vec![1, 2]], true)),
        ("claims", Message::Claims(vec![vec![1, 2]], None)),
        (
            "claims-end",
            Message::Claims(
                Vec::new(),
                Some(ClaimsEnd {
                    held: vec![1, 0],
                    enforced: true,
                }),
            ),
        ),
        ("pushed-held", Message::Pushed(vec![Outcome::Held])),
    ]
}

#[test]
fn messages_are_the_bytes_of_the_page() -> Result<(), Box<dyn Error>> {
    let mut text = "# Bodies of frames of kind 1: docs/protocol.md, \"Messages\".\n".to_owned();
    for (name, message) in messages() {
        let Frame::Message(bytes) = message.frame() else {
            return Err("a message travels in a frame of its own kind".into());
        };
        assert_eq!(Message::decode(&bytes), Ok(message));
        for cut in 0..bytes.len() {
            assert!(
                Message::decode(&bytes[..cut]).is_err(),
                "{name} cut at {cut}"
            );
        }
        assert!(Message::decode(&[&bytes[..], &[0]].concat()).is_err());
        writeln!(text, "{name} {}", dmv_core::hash::encode_hex(&bytes))?;
    }
    if std::env::var_os("DMV_WRITE_VECTORS").is_some() {
        std::fs::write(FILE, &text)?;
    }
    assert_eq!(std::fs::read_to_string(FILE)?, text);
    Ok(())
}

#[test]
fn counts_beyond_their_limits_are_refused() {
    let over = |message: Message| {
        let Frame::Message(bytes) = message.frame() else {
            return false;
        };
        Message::decode(&bytes).is_err()
    };
    let objects = |n| vec![(1, id(1)); n];
    assert!(!over(Message::Need(objects(4096))));
    assert!(over(Message::Need(objects(4097))));
    assert!(over(Message::Need(objects(0))));
    assert!(!over(Message::Keep(objects(4096), false)));
    assert!(over(Message::Keep(objects(4097), false)));
    assert!(over(Message::Unkept(objects(4097), false)));
    assert!(over(Message::Have(vec![id(0); 4097], true)));
    assert!(!over(Message::Failed(Code::Failed, "x".repeat(1024))));
    assert!(over(Message::Failed(Code::Failed, "x".repeat(1025))));
    assert!(over(Message::Pushed(vec![Outcome::Done; 1025])));
    let want = |subsets: Vec<Vec<Vec<u8>>>, shallow| {
        Message::Want(Want {
            tips: Vec::new(),
            filter: Filter {
                subsets,
                ..Filter::default()
            },
            unasked: UnaskedObjects::All,
            haves: Vec::new(),
            last: true,
            shallow: vec![id(0); shallow],
        })
    };
    assert!(!over(want(vec![vec![b"a".to_vec()]; 16], 4096)));
    assert!(over(want(vec![vec![b"a".to_vec()]; 17], 0)));
    assert!(over(want(Vec::new(), 4097)));
    let long = |n: usize| vec![vec![vec![b'a'; n - 1]]];
    assert!(!over(want(long(512 << 10), 0)));
    assert!(over(want(long((512 << 10) + 1), 0)));
    let held = |n: usize| SliceSummary {
        subset: vec![vec![b'a'; n - 1]],
        ..SliceSummary::default()
    };
    assert_eq!(
        SliceSummary::decode(&held(128 << 10).encode()),
        Some(held(128 << 10))
    );
    assert_eq!(SliceSummary::decode(&held((128 << 10) + 1).encode()), None);
    assert_eq!(
        SliceSummary::decode(&[&held(9).encode()[..], &[0]].concat()),
        None
    );
    assert_eq!(SliceSummary::decode(&[]), None);
    // A length beyond the end of the message allocates no memory.
    assert!(Message::decode(&[3, 0xff, 0xff, 0xff, 0xff, 0x0f]).is_err());
    assert!(Message::decode(&[77]).is_err());
    assert!(Message::decode(&[]).is_err());
}
