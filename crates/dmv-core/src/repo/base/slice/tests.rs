use super::*;
use crate::refs::Timestamp;
use crate::repo::{OperationRequest, PlaceError, Repo};
use proptest::prelude::*;

fn request() -> OperationRequest {
    OperationRequest {
        time: Timestamp {
            seconds: 0,
            nanos: 0,
            tz_minutes: 0,
        },
        who: "test".to_owned(),
        command: "test".to_owned(),
    }
}

fn id(n: u8) -> ObjectId {
    ObjectId::from_bytes([n; 32])
}

fn subset(patterns: &[&str]) -> Subset {
    Subset::new(patterns.iter().map(|p| p.as_bytes())).expect("sound patterns")
}

fn repo() -> (tempfile::TempDir, Repo) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let repo = Repo::init(dir.path(), "main", false, request()).expect("a new repository");
    (dir, repo)
}

fn any_slice() -> impl Strategy<Value = RepoSlice> {
    let pattern = prop::sample::select(vec![
        "a", "b/c/", "*.png", "!a/x", "!**", "**", "\\#a", " b ", "a\\ ", "[!a]*", "\\!c", "/*x",
    ]);
    let ids = || prop::collection::btree_set(any::<u8>().prop_map(id), 0..4);
    let expiry = (
        any::<i64>(),
        prop::sample::select(vec!["last:5", "none"]),
        prop::sample::select(vec!["*.mov", "a b ", "é"]),
    );
    let expiry = expiry.prop_map(|(at, rule, pattern)| {
        Arc::new(Expiry {
            at,
            rule: rule.to_owned(),
            pattern: pattern.to_owned(),
        })
    });
    (
        prop::collection::vec(pattern, 0..4),
        any::<bool>(),
        ids(),
        ids(),
        prop::collection::btree_map(any::<u8>().prop_map(id), expiry, 0..4),
        prop::collection::vec(any::<u8>(), 0..4),
    )
        .prop_map(
            |(patterns, metadata_only, boundary, dropped, mut expired, purged)| {
                let purged = purged_in(&purged);
                expired.retain(|id, _| !dropped.contains(id) && !purged.contains_key(id));
                let dropped: BTreeSet<_> = dropped
                    .into_iter()
                    .filter(|id| !purged.contains_key(id))
                    .collect();
                let pieces = purged.iter().map(|(id, why)| (*id, why.clone())).collect();
                RepoSlice {
                    subset: subset(&patterns),
                    metadata_only,
                    boundary,
                    dropped,
                    expired,
                    purged,
                    pieces,
                    told: BTreeMap::new(),
                }
            },
        )
}

fn purged_in(ids: &[u8]) -> BTreeMap<ObjectId, Arc<Purge>> {
    let why = |n: u8| Purge {
        at: i64::from(n % 2),
        by: "ada".to_owned(),
        reason: "a leaked key".to_owned(),
    };
    ids.iter().map(|n| (id(*n), Arc::new(why(*n)))).collect()
}

#[test]
fn purged_content_may_be_absent_and_makes_the_file_too_new_for_earlier_versions() {
    let slice = RepoSlice {
        purged: purged_in(&[4, 2]),
        pieces: purged_in(&[8, 6]),
        ..RepoSlice::default()
    };
    let text = String::from_utf8(slice.encode()).expect("it is text");
    let lines = format!(
        "purged {}\npurged {}\npiece {}\npiece {}\n",
        id(2),
        id(4),
        id(6),
        id(8)
    );
    let want = format!("dmv-slice 3\npurge 0 ada\ta leaked key\n{lines}check ");
    assert!(text.starts_with(&want), "{text}");
    assert!(slice.may_lack(ObjectType::Chunk, b"any", Some(&id(2))));
    assert!(!slice.may_lack(ObjectType::Chunk, b"any", Some(&id(6))));
    assert_eq!(slice.given_up(), [id(2), id(4)].into());
    let sealed = |text: &str| {
        let check = encode_hex(&check(&[text.as_bytes()]));
        format!("{text}check {check}\n").into_bytes()
    };
    let (one, head) = (format!("purged {}\n", id(1)), "dmv-slice 3\npurge 1 a\tb\n");
    for bad in [
        "dmv-slice 3\n".to_owned(),
        format!("dmv-slice 3\n{one}"),
        format!("dmv-slice 2\npurge 1 a\tb\n{one}"),
        format!("{head}piece {}\n", id(1)),
        format!("{head}piece {}\n{one}", id(2)),
        format!("{head}{one}{one}"),
        format!("dmv-slice 3\npurge 1 a\t\n{one}"),
        format!("dmv-slice 3\npurge 1 \tb\n{one}"),
        format!("dmv-slice 3\npurge 1 a b\n{one}"),
        format!("dmv-slice 3\npurge 1 a\tb\tc\n{one}"),
        format!("dmv-slice 3\npurge x a\tb\n{one}"),
        format!("dmv-slice 3\npurge 1 a\t{}\n{one}", "x".repeat(2000)),
        format!("dmv-slice 3\ndropped {}\npurge 1 a\tb\n{one}", id(1)),
    ] {
        let read = RepoSlice::decode(&sealed(&bad));
        assert!(matches!(read, Err(BadSlice::Damaged(_))), "{bad}: {read:?}");
    }
    assert!(RepoSlice::decode(&sealed(&format!("{head}{one}"))).is_ok());
}

#[test]
fn what_was_purged_stays_purged() -> Result<(), RepoError> {
    let (_dir, repo) = repo();
    repo.change_slice(|slice| *slice = expired(&[1, 2], "*.mov"))?;
    repo.change_slice(|slice| {
        slice.dropped.extend([id(3)]);
        slice.purged = purged_in(&[1, 3]);
        slice.pieces = purged_in(&[5]);
    })?;
    repo.change_slice(|slice| slice.take_back(&[id(1), id(3)].into()))?;
    let slice = repo.slice()?;
    assert_eq!(slice.purged, purged_in(&[1, 3]));
    assert_eq!(slice.expired.keys().collect::<Vec<_>>(), [&id(2)]);
    assert!(slice.dropped.is_empty());
    // Without its files, a purge has no pieces.
    repo.change_slice(|slice| slice.purged.clear())?;
    assert!(repo.slice()?.pieces.is_empty());
    Ok(())
}

fn expired(ids: &[u8], pattern: &str) -> RepoSlice {
    let why = Arc::new(Expiry {
        at: 1_795_000_000,
        rule: "last:5".to_owned(),
        pattern: pattern.to_owned(),
    });
    RepoSlice {
        expired: ids.iter().map(|n| (id(*n), why.clone())).collect(),
        ..RepoSlice::default()
    }
}

#[test]
fn expired_content_may_be_absent_and_makes_the_file_too_new_for_earlier_versions() {
    let slice = expired(&[2, 1], "/renders/**");
    let text = String::from_utf8(slice.encode()).expect("it is text");
    let want = format!(
        "dmv-slice 2\nexpiry 1795000000 last:5 /renders/**\nexpired {}\nexpired {}\ncheck ",
        id(1),
        id(2)
    );
    assert!(text.starts_with(&want), "{text}");
    assert!(slice.may_lack(ObjectType::Chunk, b"any", Some(&id(1))));
    assert!(!slice.may_lack(ObjectType::Chunk, b"any", Some(&id(3))));
    assert_eq!(slice.given_up(), [id(1), id(2)].into());
    let sealed = |text: &str| {
        let check = encode_hex(&check(&[text.as_bytes()]));
        format!("{text}check {check}\n").into_bytes()
    };
    let ids = format!("expired {}\n", id(1));
    for bad in [
        format!("dmv-slice 2\n{ids}"),
        "dmv-slice 2\n".to_owned(),
        format!("dmv-slice 1\nexpiry 1 last:5 *\n{ids}"),
        format!("dmv-slice 2\nexpiry x last:5 *\n{ids}"),
        format!("dmv-slice 2\nexpiry 1 last:5\n{ids}"),
        format!("dmv-slice 2\nexpiry 1 last:5 *\n{ids}{ids}"),
        format!("dmv-slice 2\nexpiry 1 last:5 *\n{ids}expiry 1 last:5 *\n"),
        format!("dmv-slice 2\ndropped {}\nexpiry 1 last:5 *\n{ids}", id(1)),
        format!("dmv-slice 2\nexpiry 1 last:5 {}\n{ids}", "x".repeat(2000)),
    ] {
        let read = RepoSlice::decode(&sealed(&bad));
        assert!(matches!(read, Err(BadSlice::Damaged(_))), "{bad}: {read:?}");
    }
    let good = format!("dmv-slice 2\nexpiry 1 last:5 *\n{ids}");
    assert!(RepoSlice::decode(&sealed(&good)).is_ok());
    let newer = RepoSlice::decode(&sealed("dmv-slice 4\n"));
    assert_eq!(newer, Err(BadSlice::TooNew));
}

#[test]
fn what_was_dropped_or_taken_back_has_not_expired() -> Result<(), RepoError> {
    let (_dir, repo) = repo();
    repo.change_slice(|slice| *slice = expired(&[1, 2, 3], "*.mov"))?;
    repo.change_slice(|slice| slice.dropped.extend([id(1)]))?;
    repo.change_slice(|slice| slice.take_back(&[id(2)].into()))?;
    let slice = repo.slice()?;
    assert_eq!(slice.dropped, [id(1)].into());
    assert_eq!(slice.expired.keys().collect::<Vec<_>>(), [&id(3)]);
    repo.change_slice(|slice| slice.take_back(&[id(1), id(3)].into()))?;
    assert!(!slice_file(&repo).exists());
    Ok(())
}

proptest! {
    #[test]
    fn a_slice_reads_back_and_no_byte_of_it_may_change(
        slice in any_slice(), at in any::<prop::sample::Index>(), bit in 0..8u32,
    ) {
        let bytes = slice.encode();
        prop_assert_eq!(RepoSlice::decode(&bytes), Ok(slice));
        let mut wrong = bytes.clone();
        wrong[at.index(bytes.len())] ^= 1 << bit;
        prop_assert!(RepoSlice::decode(&wrong).is_err());
        prop_assert!(RepoSlice::decode(&bytes[..at.index(bytes.len())]).is_err());
    }

    #[test]
    fn any_bytes_are_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(RepoSlice::decode(&bytes).is_err());
        let begun = [&b"dmv-slice 1\n"[..], &bytes].concat();
        prop_assert!(RepoSlice::decode(&begun).is_err());
    }
}

#[test]
fn what_may_be_absent_follows_the_table_of_the_format() {
    use ObjectType::{Chunk, Commit, Conflict, List, Tree};
    let slice = RepoSlice {
        subset: subset(&["a/b", "c/d.png"]),
        metadata_only: false,
        boundary: [id(1)].into(),
        dropped: [id(2)].into(),
        ..RepoSlice::default()
    };
    assert!(slice.may_lack_parents(&id(1)) && !slice.may_lack_parents(&id(2)));
    let asks: [(ObjectType, &str, bool); 15] = [
        (Commit, "x", false),
        (Tree, "", false),
        (Tree, "a", false),
        (Tree, "a/b/c", false),
        (Tree, "a/x", true),
        (Tree, "x", true),
        (Conflict, "a", false),
        (Conflict, "a/b/x", false),
        (Conflict, "a/x", true),
        (List, "a/b/x", false),
        (List, "a/x", true),
        (Chunk, "c/d.png", false),
        (Chunk, "c/e.png", true),
        (Chunk, "a/b", false),
        (Chunk, "a", true),
    ];
    for (ty, path, may) in asks {
        assert_eq!(
            slice.may_lack(ty, path.as_bytes(), Some(&id(9))),
            may,
            "{ty:?} {path}"
        );
    }
    assert!(slice.may_lack(Chunk, b"a/b/x", Some(&id(2))));
    assert!(slice.may_lack(List, b"a/b/x", Some(&id(2))));
    let bare = RepoSlice {
        metadata_only: true,
        ..slice
    };
    assert!(bare.may_lack(Chunk, b"a/b/x", Some(&id(9))));
    assert!(!bare.may_lack(List, b"a/b/x", Some(&id(9))));
    let full = RepoSlice::default();
    for ty in [Commit, Tree, Conflict, List, Chunk] {
        assert!(!full.may_lack(ty, b"any", Some(&id(2))));
    }
}

#[test]
fn concurrent_changes_lose_nothing() -> Result<(), RepoError> {
    let (dir, repo) = repo();
    assert!(repo.slice()?.is_everything());
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let dir = dir.path();
            scope.spawn(move || {
                let repo = Repo::open(dir).expect("it was made above");
                for n in 0..8 {
                    let dropped = id(thread * 8 + n);
                    repo.change_slice(|slice| slice.dropped.extend([dropped]))
                        .expect("each gets its turn");
                }
            });
        }
    });
    assert_eq!(repo.slice()?.dropped.len(), 32);
    repo.change_slice(|slice| *slice = RepoSlice::default())?;
    assert!(!slice_file(&repo).exists());
    Ok(())
}

#[test]
fn a_damaged_file_is_an_error_and_stays() -> Result<(), RepoError> {
    let (_dir, repo) = repo();
    repo.change_slice(|slice| slice.subset = subset(&["a"]))?;
    let whole = std::fs::read(slice_file(&repo)).expect("it was written");
    let broken = [&whole[..whole.len() - 4], b"000\n"].concat();
    std::fs::write(slice_file(&repo), &broken).expect("a file can be written");
    assert!(matches!(
        repo.slice(),
        Err(RepoError::Place(PlaceError::Damaged { .. }))
    ));
    let changed = repo.change_slice(|slice| slice.metadata_only = true);
    assert!(matches!(
        changed,
        Err(RepoError::Place(PlaceError::Damaged { .. }))
    ));
    assert_eq!(
        std::fs::read(slice_file(&repo)).expect("it is there"),
        broken
    );
    std::fs::write(slice_file(&repo), b"dmv-slice 4\nx").expect("a file can be written");
    assert!(matches!(
        repo.slice(),
        Err(RepoError::Place(PlaceError::TooNew { .. }))
    ));
    let large = vec![b'x'; MAX_BYTES + 1];
    std::fs::write(slice_file(&repo), large).expect("a file can be written");
    assert!(matches!(repo.slice(), Err(RepoError::Io(_))));
    Ok(())
}

#[test]
fn too_many_lines_are_refused_and_change_nothing() -> Result<(), RepoError> {
    let (_dir, repo) = repo();
    let many = |n: usize| -> BTreeSet<ObjectId> {
        (0..n as u64)
            .map(|n| ObjectType::Chunk.id_of(&n.to_le_bytes()))
            .collect()
    };
    repo.change_slice(|slice| slice.boundary = many(MAX_SLICE_BOUNDARY))?;
    assert_eq!(repo.slice()?.boundary.len(), MAX_SLICE_BOUNDARY);
    let more = repo.change_slice(|slice| slice.boundary = many(MAX_SLICE_BOUNDARY + 1));
    assert!(matches!(more, Err(RepoError::Text(_))), "{more:?}");
    assert_eq!(repo.slice()?.boundary.len(), MAX_SLICE_BOUNDARY);
    Ok(())
}
