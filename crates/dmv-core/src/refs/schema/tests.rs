use super::*;
use crate::refs::Refs;
use crate::store::{PackId, PackKind, SegmentRow};
use std::error::Error;

/// A database as dmv wrote it before version 2. These lines never change.
const VERSION_1: &str = "
PRAGMA journal_mode = WAL;
PRAGMA application_id = 1145919090;
PRAGMA user_version = 1;
CREATE TABLE meta(key TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE view(key TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE ops(seq INTEGER PRIMARY KEY, record BLOB NOT NULL) STRICT;
CREATE TABLE packs(id BLOB PRIMARY KEY, kind INTEGER NOT NULL, len INTEGER NOT NULL,
  poisoned INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE segments(pack BLOB NOT NULL, end INTEGER NOT NULL, start INTEGER NOT NULL,
  kind INTEGER NOT NULL, entries INTEGER NOT NULL, merged BLOB,
  PRIMARY KEY(pack, end)) STRICT, WITHOUT ROWID;
CREATE INDEX unmerged ON segments(merged) WHERE merged IS NULL;
CREATE TABLE indexes(id BLOB PRIMARY KEY, entries INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO meta VALUES('log', x'4000000000000000');
INSERT INTO view VALUES('tag/old', x'01');
INSERT INTO packs VALUES(x'11111111111111111111111111111111', 1, 192, 1);
INSERT INTO segments VALUES(x'11111111111111111111111111111111', 128, 64, 1, 3,
  x'22222222222222222222222222222222');
INSERT INTO segments VALUES(x'11111111111111111111111111111111', 192, 128, 1, 5, NULL);
INSERT INTO indexes VALUES(x'22222222222222222222222222222222', 3);
";

fn segment(pack: u8, start: u64, end: u64, entries: u32) -> SegmentRow {
    SegmentRow {
        pack: PackId::from_bytes([pack; 16]),
        kind: PackKind::Data,
        start,
        end,
        entries,
    }
}

/// Returns the statements that made the tables.
fn statements(refs: &Refs) -> Result<Vec<String>, rusqlite::Error> {
    let conn = refs.conn();
    let mut query =
        conn.prepare("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name")?;
    query.query_map([], |row| row.get(0))?.collect()
}

#[test]
fn the_first_change_upgrades_a_database_of_version_1() -> Result<(), Box<dyn Error>> {
    let temp = tempfile::tempdir()?;
    let path = temp.path().join("refs.db");
    Connection::open(&path)?.execute_batch(VERSION_1)?;
    let is_as_it_was = |refs: &Refs| -> Result<(), Box<dyn Error>> {
        assert_eq!(version(&refs.conn())?, 1);
        assert_eq!(refs.get("tag/old")?, Some(vec![1]));
        let catalogue = refs.catalogue()?;
        assert_eq!(catalogue.segments, [segment(0x11, 128, 192, 5)]);
        assert_eq!(refs.merged_segments()?, [segment(0x11, 64, 128, 3)]);
        assert!(catalogue.packs[0].poisoned);
        assert_eq!(refs.rows()?.segments.len(), 2);
        assert_eq!(refs.leaving()?, []);
        assert_eq!(refs.log_position()?.log_end, Some(64));
        Ok(())
    };
    is_as_it_was(&Refs::open_to_read(&path)?)?;
    let (refs, other) = (Refs::open(&path)?, Refs::open(&path)?);
    let freed = refs.freed()?;
    is_as_it_was(&refs)?;
    // A change that is refused is no change of the version either.
    let gone = PackId::from_bytes([9; 16]);
    refs.add_segments(&[segment(3, 64, 100, 1)], &[gone], None)
        .expect_err("it relies on a pack that is not here");
    is_as_it_was(&refs)?;
    refs.add_segments(&[segment(3, 64, 100, 1)], &[], Some(1000))?;
    // A process that had it open before goes on.
    other.add_segments(&[segment(3, 100, 200, 1)], &[], None)?;
    for refs in [refs, other, Refs::open_to_read(&path)?] {
        assert_eq!(version(&refs.conn())?, USER_VERSION);
        assert_eq!(refs.get("tag/old")?, Some(vec![1]));
        assert_eq!(refs.freed()?, freed);
        assert_eq!(refs.rows()?.segments.len(), 4);
        let times: Vec<Option<i64>> = refs
            .conn()
            .prepare("SELECT at FROM segments ORDER BY pack, end")?
            .query_map([], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        assert_eq!(times, [Some(1000), None, None, None]);
        assert_eq!(refs.integrity()?, [""; 0]);
        let fresh = tempfile::tempdir()?;
        let fresh = Refs::create(&fresh.path().join("refs.db"))?;
        assert_eq!(statements(&refs)?, statements(&fresh)?);
    }
    Ok(())
}

#[test]
fn a_database_of_a_later_version_is_refused_also_while_it_is_open() -> Result<(), Box<dyn Error>> {
    let temp = tempfile::tempdir()?;
    let path = temp.path().join("refs.db");
    let refs = Refs::create(&path)?;
    Connection::open(&path)?.pragma_update(None, "user_version", USER_VERSION + 1)?;
    let refused = [
        refs.add_segments(&[segment(3, 64, 100, 1)], &[], None)
            .err(),
        Refs::open(&path).err(),
        Refs::open_to_read(&path).err(),
    ];
    for refused in refused {
        assert!(
            matches!(refused, Some(RefsError::TooNew(v)) if v == USER_VERSION + 1),
            "{refused:?}"
        );
    }
    assert_eq!(refs.rows()?.segments, []);
    Ok(())
}

#[test]
fn a_log_that_a_killed_command_left_is_read() -> Result<(), Box<dyn std::error::Error>> {
    let temp = tempfile::tempdir()?;
    let (live, left) = (temp.path().join("live.db"), temp.path().join("left.db"));
    let conn = create(&live)?;
    conn.execute("INSERT INTO view VALUES ('key', x'01')", [])?;
    // The state after a kill: the log was not written back, and its index is lost.
    std::fs::copy(&live, &left)?;
    std::fs::copy(live.with_extension("db-wal"), left.with_extension("db-wal"))?;
    assert!(std::fs::metadata(left.with_extension("db-wal"))?.len() > 0);
    let before = std::fs::read(&left)?;
    let read = open_reading(&left)?;
    let value: Vec<u8> = read.query_row("SELECT value FROM view", [], |row| row.get(0))?;
    assert_eq!(value, [1]);
    drop(read);
    assert_eq!(std::fs::read(&left)?, before);
    assert!(!left.with_extension("db-shm").exists());
    Ok(())
}
