//! Histories of buckets in memory that real pushes have filled.

use super::*;
use crate::bucket::format::{ROOT, Root, Row};
use crate::bucket::mem::MemFiles;
use crate::depot::write::tests::{Outcome, Place, bucket, newest, ten_files};
use dmv_core::history::changed::ChangedPaths;
use dmv_core::history::paths::PathLog;
use dmv_core::repo::{RepoError, RepoSlice};
use std::collections::BTreeSet;

/// A repository, its bucket, and its commits with the newest first.
struct Pushed {
    ada: Place,
    files: Arc<MemFiles>,
    commits: Vec<ObjectId>,
}

impl Pushed {
    /// Pushes commits, one with each push.
    fn new(commits: usize) -> Outcome<Pushed> {
        let (files, _) = bucket()?;
        let mut pushed = Pushed {
            ada: Place::new()?,
            files: Arc::new(files),
            commits: Vec::new(),
        };
        pushed.ada.commit(&ten_files(1))?;
        for _ in 0..commits {
            let id = pushed.ada.commit(&[])?;
            pushed.commits.insert(0, id);
            pushed.push()?;
        }
        let first = pushed.ada.repo.resolve(&format!("@~{commits}"))?;
        pushed.commits.push(first);
        Ok(pushed)
    }

    fn push(&self) -> Outcome {
        let root = newest(&self.files)?;
        self.ada
            .push(&self.files, root, "main", &self.commits[0])?
            .ok_or("it has moved")?;
        self.files.counts();
        Ok(())
    }

    fn open<'r>(&self, here: Option<&'r dyn ObjectRead>) -> Result<BucketHistory<'r>, NetError> {
        let shelf = Shelf {
            place: "s3://studio/film".to_owned(),
            files: self.files.clone(),
            copies: None,
            is_read_only: false,
            may_be_empty: false,
        };
        BucketHistory::open(shelf, here)
    }

    fn root(&self) -> Outcome<Root> {
        Ok(newest(&self.files)?.0)
    }

    /// Puts a changed root in place of the last one.
    fn set_root(&self, change: impl FnOnce(&mut Root)) -> Outcome {
        let mut root = self.root()?;
        root.generation += 1;
        (root.previous, root.write) = (root.write, [root.generation as u8; 16]);
        change(&mut root);
        self.files.set(ROOT, root.encode()?);
        Ok(())
    }

    /// The row of the pack with commit number `n`, counted from the newest.
    fn row(&self, n: usize) -> Outcome<Row> {
        let root = self.root()?;
        let mut rows = root.rows.clone();
        rows.sort_by_key(|row| std::cmp::Reverse(row.generation));
        Ok(rows[n])
    }

    fn path(&self, row: &Row) -> Outcome<String> {
        Ok(row.name.path(self.root()?.repository))
    }
}

/// The first commits of a history, at most `most`, and what ended it early.
fn listed(
    history: &BucketHistory<'_>,
    start: ObjectId,
    most: usize,
) -> (Vec<ObjectId>, Option<Trouble>) {
    let changed = ChangedPaths::default();
    let mut found = Vec::new();
    let mut walk = || -> Result<(), RepoError> {
        let mut log = PathLog::new(history, &changed, &[start], &[])?;
        while found.len() < most
            && let Some(visited) = log.advance::<RepoError>(None)?
        {
            found.push(visited.id);
        }
        Ok(())
    };
    let trouble = match walk() {
        Ok(()) => None,
        Err(RepoError::Object(e)) => match history.explain(e) {
            Ok(NetError::Bucket { trouble, place }) => {
                assert_eq!(place, "s3://studio/film");
                Some(trouble)
            }
            e => panic!("{e:?}"),
        },
        Err(e) => panic!("{e:?}"),
    };
    (found, trouble)
}

#[test]
fn all_commits_come_from_one_range_of_each_pack() -> Outcome {
    let pushed = Pushed::new(30)?;
    let history = pushed.open(None)?;
    assert_eq!(
        history.refs(),
        [("branch/main".to_owned(), pushed.commits[0])]
    );
    let (found, trouble) = listed(&history, pushed.commits[0], usize::MAX);
    assert_eq!((found, trouble), (pushed.commits.clone(), None));
    let counts = pushed.files.counts();
    assert_eq!((counts.get, counts.list, counts.put), (31, 0, 0));
    // Only commits.
    let tree = ObjectType::Tree;
    let commit = dmv_core::history::load_commit(&history, &pushed.commits[0])?;
    assert_eq!(history.read(tree, &commit.tree)?, None);
    Ok(())
}

#[test]
fn the_newest_commits_are_read_first() -> Outcome {
    let pushed = Pushed::new(30)?;
    let history = pushed.open(None)?;
    let (found, _) = listed(&history, pushed.commits[0], 1);
    assert_eq!(found, pushed.commits[..1]);
    assert_eq!(pushed.files.counts().get, 1 + FIRST_READS);
    let (found, _) = listed(&history, pushed.commits[0], 10);
    assert_eq!(found, pushed.commits[..10]);
    assert_eq!(pushed.files.counts().get, 2 * FIRST_READS);
    Ok(())
}

#[test]
fn commits_that_are_here_are_not_read_there() -> Outcome {
    let pushed = Pushed::new(6)?;
    let history = pushed.open(Some(pushed.ada.repo.objects()))?;
    let (found, trouble) = listed(&history, pushed.commits[0], usize::MAX);
    assert_eq!((found, trouble), (pushed.commits.clone(), None));
    assert_eq!(pushed.files.counts().get, 1, "the root");
    // Whoever names a commit there means one that is there.
    let here = pushed.ada.commit(&[])?;
    assert_eq!(history.with_prefix(&here.to_string())?, []);
    Ok(())
}

#[test]
fn a_commit_is_found_by_the_start_of_its_id() -> Outcome {
    let pushed = Pushed::new(3)?;
    let history = pushed.open(None)?;
    for id in &pushed.commits {
        assert_eq!(history.with_prefix(&id.to_string())?, [*id]);
        assert_eq!(history.with_prefix(&id.to_string()[..16])?, [*id]);
    }
    assert_eq!(history.with_prefix("")?.len(), 4);
    Ok(())
}

#[test]
fn what_is_dropped_from_memory_is_read_again() -> Outcome {
    let pushed = Pushed::new(10)?;
    let history = pushed.open(None)?;
    history.reader().most_held = 1;
    for _ in 0..2 {
        let (found, trouble) = listed(&history, pushed.commits[0], usize::MAX);
        assert_eq!((found, trouble), (pushed.commits.clone(), None));
    }
    assert_eq!(history.reader().held.len(), 1);
    assert!(pushed.files.counts().get > 12);
    // A pack that has another commit since.
    let (newest, other) = (pushed.row(0)?, pushed.row(1)?);
    let path = pushed.path(&newest)?;
    let good = pushed.files.content(&path).ok_or("a pack")?;
    let mut bytes = pushed
        .files
        .content(&pushed.path(&other)?)
        .ok_or("a pack")?;
    bytes.resize(good.len(), 0);
    pushed.files.set(&path, bytes);
    let (found, trouble) = listed(&history, pushed.commits[0], 1);
    assert_eq!(found, []);
    assert!(matches!(trouble, Some(Trouble::Damaged(_))), "{trouble:?}");
    // One whose bytes have changed since.
    pushed.files.set(&path, vec![0; good.len()]);
    let (found, trouble) = listed(&history, pushed.commits[0], 1);
    assert_eq!(found, []);
    assert!(matches!(trouble, Some(Trouble::Damaged(why)) if why.starts_with(&path)));
    Ok(())
}

#[test]
fn damage_is_met_only_by_whoever_needs_the_commit() -> Outcome {
    let pushed = Pushed::new(10)?;
    let row = pushed.row(5)?;
    let path = pushed.path(&row)?;
    let good = pushed.files.content(&path).ok_or("a pack")?;
    for at in [row.metadata, row.metadata + 40, row.commits_end - 1] {
        let mut bytes = good.clone();
        bytes[at as usize] ^= 0x10;
        pushed.files.set(&path, bytes);
        let history = pushed.open(None)?;
        let (found, trouble) = listed(&history, pushed.commits[0], 4);
        assert_eq!((&found[..], trouble), (&pushed.commits[..4], None), "{at}");
        let (found, trouble) = listed(&history, pushed.commits[0], usize::MAX);
        assert_eq!(found, pushed.commits[..4], "{at}: {trouble:?}");
        let says = |why: &str| why.starts_with(&path);
        assert!(
            matches!(&trouble, Some(Trouble::Damaged(why)) if says(why)),
            "{at}: {trouble:?}"
        );
    }
    // A pack that ends too soon, and one that is lost.
    pushed
        .files
        .set(&path, good[..row.metadata as usize + 10].to_vec());
    let (_, trouble) = listed(&pushed.open(None)?, pushed.commits[0], usize::MAX);
    assert!(matches!(trouble, Some(Trouble::Damaged(_))), "{trouble:?}");
    pushed.files.remove(&path);
    let (_, trouble) = listed(&pushed.open(None)?, pushed.commits[0], usize::MAX);
    assert_eq!(trouble, Some(Trouble::Lost(path)));
    Ok(())
}

#[test]
fn a_commit_that_no_pack_has_is_damage_unless_history_ends_there() -> Outcome {
    let pushed = Pushed::new(6)?;
    let row = pushed.row(5)?;
    // The oldest pack, which also has the first commit, is in no root.
    pushed.set_root(|root| root.rows.retain(|other| other.name != row.name))?;
    let (found, trouble) = listed(&pushed.open(None)?, pushed.commits[0], usize::MAX);
    assert_eq!(found, pushed.commits[..4]);
    let missing = pushed.commits[5].to_string();
    assert!(
        matches!(&trouble, Some(Trouble::Damaged(why)) if why.contains(&missing)),
        "{trouble:?}"
    );
    // The slice of the bucket says that older commits are absent.
    let slice = RepoSlice {
        boundary: BTreeSet::from([pushed.commits[4]]),
        ..RepoSlice::default()
    };
    pushed.set_root(|root| root.slice = slice.encode())?;
    let (found, trouble) = listed(&pushed.open(None)?, pushed.commits[0], usize::MAX);
    assert_eq!((&found[..], trouble), (&pushed.commits[..5], None));
    Ok(())
}

#[test]
fn the_numbers_of_a_row_are_not_believed() -> Outcome {
    let pushed = Pushed::new(3)?;
    let row = pushed.row(1)?;
    let set = |from: u64, to: u64| {
        pushed.set_root(|root| {
            for other in root.rows.iter_mut().filter(|other| other.name == row.name) {
                (other.metadata, other.commits_end) = (from, to);
            }
        })
    };
    // Directories and more lie behind the commits.
    set(row.metadata, row.tail)?;
    let (found, trouble) = listed(&pushed.open(None)?, pushed.commits[0], usize::MAX);
    assert_eq!((found, trouble), (pushed.commits.clone(), None));
    for (from, to) in [
        (row.metadata, row.metadata),
        (row.metadata, row.commits_end - 1),
        (row.metadata + 1, row.commits_end),
    ] {
        // A pack of metadata alone has to begin with it, so not every root is readable.
        if set(from, to).is_err() {
            continue;
        }
        let (found, trouble) = listed(&pushed.open(None)?, pushed.commits[0], usize::MAX);
        assert_eq!(found, [], "{from}..{to}");
        assert!(matches!(trouble, Some(Trouble::Damaged(_))), "{from}..{to}");
    }
    Ok(())
}

#[test]
fn commits_of_another_pack_do_not_take_the_place_of_others() -> Outcome {
    let pushed = Pushed::new(4)?;
    let (newer, older) = (pushed.row(0)?, pushed.row(1)?);
    let bytes = pushed
        .files
        .content(&pushed.path(&older)?)
        .ok_or("a pack")?;
    let length = newer.len as usize;
    let mut copy = bytes.clone();
    copy.resize(length, 0);
    pushed.files.set(&pushed.path(&newer)?, copy);
    let (found, trouble) = listed(&pushed.open(None)?, pushed.commits[0], usize::MAX);
    assert_eq!(found, []);
    assert!(matches!(trouble, Some(Trouble::Damaged(_))), "{trouble:?}");
    Ok(())
}

#[test]
fn a_pack_that_gc_has_joined_meanwhile_is_found_in_the_next_root() -> Outcome {
    let pushed = Pushed::new(12)?;
    let history = pushed.open(None)?;
    let (found, _) = listed(&history, pushed.commits[0], 1);
    assert_eq!(found, pushed.commits[..1]);
    // The oldest packs get other names.
    for n in 8..12 {
        let row = pushed.row(n)?;
        let old = pushed.path(&row)?;
        let name = Name([n as u8; 16]);
        let bytes = pushed.files.content(&old).ok_or("a pack")?;
        pushed.set_root(|root| {
            for other in root.rows.iter_mut().filter(|other| other.name == row.name) {
                other.name = name;
            }
            root.rows.sort_by_key(|row| (row.generation, row.name));
        })?;
        pushed
            .files
            .set(&name.path(pushed.root()?.repository), bytes);
        pushed.files.remove(&old);
    }
    let (found, trouble) = listed(&history, pushed.commits[0], usize::MAX);
    assert_eq!((found, trouble), (pushed.commits.clone(), None));
    Ok(())
}

#[test]
fn a_store_that_fails_ends_a_log_with_its_reason() -> Outcome {
    let pushed = Pushed::new(12)?;
    let history = pushed.open(None)?;
    pushed.files.cut_after(Some(2));
    let (_, trouble) = listed(&history, pushed.commits[0], usize::MAX);
    assert!(matches!(trouble, Some(Trouble::Cut(_))), "{trouble:?}");
    // Whoever tries again goes on.
    pushed.files.cut_after(None);
    let (found, trouble) = listed(&history, pushed.commits[0], usize::MAX);
    assert_eq!((found, trouble), (pushed.commits.clone(), None));
    pushed.files.cut_after(Some(0));
    assert!(pushed.open(None).is_err());
    pushed.files.remove(ROOT);
    pushed.files.cut_after(None);
    let opened = pushed.open(None).map(|_| ());
    assert!(
        matches!(
            opened,
            Err(NetError::Bucket {
                trouble: Trouble::NoRoot,
                ..
            })
        ),
        "{opened:?}"
    );
    Ok(())
}
