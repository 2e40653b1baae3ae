use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

type Result<T = (), E = Box<dyn std::error::Error>> = std::result::Result<T, E>;
const REPO: RepositoryId = RepositoryId::from_bytes([7; 16]);

fn base() -> ObjectId {
    ObjectId::from_bytes([9; 32])
}

fn section(names: &[&str]) -> Section {
    let mut section = Section::default();
    for (i, name) in names.iter().enumerate() {
        section.push(name.as_bytes(), Kind::File, Fingerprint(i as u64));
    }
    section
}

fn write(dir: &SafeDir) -> Result<Vec<(&'static str, Section)>> {
    let mut root = section(&["a", "ab", "b"]);
    root.push(b"sub", Kind::Directory, Fingerprint::SUSPECT);
    root.set_dir_fingerprint(Fingerprint(77));
    let sections = vec![
        ("sub/x", section(&["1", "2"])),
        ("sub", section(&["x"])),
        ("", root),
        ("sub-x", section(&[])),
    ];
    let mut writer = StatCacheWriter::create(dir, &REPO)?;
    for (path, section) in &sections {
        writer.section(path.as_bytes(), section)?;
    }
    writer.finish(b"stat", &base(), [3; 8])?;
    Ok(sections)
}

#[test]
fn sections_come_back_whatever_order_they_were_added_in() -> Result {
    let temp = tempfile::tempdir()?;
    let dir = SafeDir::open_root(temp.path())?;
    let sections = write(&dir)?;
    let cache = StatCache::open(&dir, b"stat", &REPO).expect("opens");
    assert_eq!((cache.base_tree(), cache.subset()), (base(), [3; 8]));
    for (path, section) in &sections {
        assert_eq!(cache.section(path.as_bytes())?.as_ref(), Some(section));
    }
    assert_eq!(cache.section(b"su")?, None);
    assert!(StatCache::open(&dir, b"stat", &RepositoryId::from_bytes([8; 16])).is_none());
    assert!(StatCache::open(&dir, b"other", &REPO).is_none());
    assert_eq!(dir.list(10)?.len(), 1);
    Ok(())
}

#[test]
fn a_closed_cache_knows_nothing_and_can_be_replaced_on_every_system() -> Result {
    let temp = tempfile::tempdir()?;
    let dir = SafeDir::open_root(temp.path())?;
    write(&dir)?;
    let old = StatCache::open(&dir, b"stat", &REPO).expect("opens");
    old.close();
    assert!(matches!(old.section(b""), Err(StatCacheError::Closed)));
    let sections = write(&dir)?;
    let new = StatCache::open(&dir, b"stat", &REPO).expect("opens");
    assert_eq!(new.section(b"sub")?.as_ref(), Some(&sections[1].1));
    Ok(())
}

#[test]
fn a_copied_section_is_the_same() -> Result {
    let temp = tempfile::tempdir()?;
    let dir = SafeDir::open_root(temp.path())?;
    write(&dir)?;
    let old = StatCache::open(&dir, b"stat", &REPO).expect("opens");
    let mut writer = StatCacheWriter::create(&dir, &REPO)?;
    assert!(writer.copy_section(&old, b"")?);
    assert!(!writer.copy_section(&old, b"none")?);
    writer.finish(b"copy", &base(), [3; 8])?;
    let new = StatCache::open(&dir, b"copy", &REPO).expect("opens");
    assert_eq!(new.section(b"")?, old.section(b"")?);
    assert_eq!(new.section(b"sub")?, None);
    Ok(())
}

#[test]
fn a_writer_given_up_leaves_nothing() -> Result {
    let temp = tempfile::tempdir()?;
    let dir = SafeDir::open_root(temp.path())?;
    let mut writer = StatCacheWriter::create(&dir, &REPO)?;
    writer.section(b"", &section(&["a"]))?;
    drop(writer);
    let mut twice = StatCacheWriter::create(&dir, &REPO)?;
    twice.section(b"", &section(&["a"]))?;
    twice.section(b"", &section(&["b"]))?;
    assert!(twice.finish(b"stat", &base(), [3; 8]).is_err());
    assert!(dir.list(10)?.is_empty());
    Ok(())
}

#[test]
fn every_flipped_or_missing_byte_is_noticed() -> Result {
    let temp = tempfile::tempdir()?;
    let dir = SafeDir::open_root(temp.path())?;
    let sections = write(&dir)?;
    let good = std::fs::read(temp.path().join("stat"))?;
    let unharmed = |bytes: &[u8]| -> Result<bool> {
        std::fs::write(temp.path().join("bad"), bytes)?;
        let Some(cache) = StatCache::open(&dir, b"bad", &REPO) else {
            return Ok(false);
        };
        let read = |path: &str| cache.section(path.as_bytes());
        Ok(sections
            .iter()
            .all(|(path, want)| read(path).is_ok_and(|got| got.as_ref() == Some(want))))
    };
    assert!(unharmed(&good)?);
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        assert!(!unharmed(&bad)?, "flipped byte {at}");
        assert!(!unharmed(&good[..at])?, "cut at {at}");
    }
    assert!(!unharmed(&[&good[..], b"\0"].concat())?);
    Ok(())
}

#[test]
fn numbered_names_take_sixteen_bytes() {
    let names: Vec<String> = (0..1000).map(|i| format!("f{i:06}.bin")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut bytes = Vec::new();
    section(&names).encode(&mut bytes);
    assert!(bytes.len() < 16_200, "{}", bytes.len());
}

#[test]
fn young_files_are_not_trusted() {
    let at = |seconds, nanos| FileTime { seconds, nanos };
    let mut stat = FileStat {
        kind: FileKind::File,
        exec: false,
        mode: 0o644,
        nlink: 1,
        size: 1,
        sparse: false,
        mtime: at(99, 1),
        ctime: at(99, 1),
        ino: 1,
        dev: 1,
    };
    let trusted = |stat: &FileStat| trusted_fingerprint(stat, at(100, 0)).0 != 0;
    assert!(trusted(&stat));
    stat.ctime = at(99, 980_000_000);
    assert!(!trusted(&stat));
    stat.ctime = at(99, 979_999_999);
    assert!(trusted(&stat));
    stat.mtime = at(200, 5);
    assert!(!trusted(&stat));
    (stat.mtime, stat.ctime) = (at(98, 0), at(98, 0));
    assert!(!trusted(&stat));
    (stat.mtime, stat.ctime) = (at(97, 0), at(97, 0));
    assert!(trusted(&stat));
    stat.nlink = 2;
    assert_eq!(trusted(&stat), !LISTS_STATS);
}

proptest! {
    #[test]
    fn any_section_round_trips(
        entries in prop::collection::btree_map(
            prop::collection::vec(1u8..4, 1..200),
            (1u8..=5, any::<u64>()),
            0..40,
        ),
    ) {
        let mut section = Section::default();
        for (name, (kind, fingerprint)) in &entries {
            let kind = Kind::from_number(*kind).expect("a kind");
            let fingerprint = if kind == Kind::Directory { 0 } else { *fingerprint };
            section.push(name, kind, Fingerprint(fingerprint));
        }
        let mut bytes = Vec::new();
        section.encode(&mut bytes);
        prop_assert_eq!(Section::decode(&bytes, section.len() as u32).ok(), Some(section));
    }

    #[test]
    fn bytes_that_decode_are_those_that_encode(
        bytes in prop::collection::vec(0u8..6, 0..60), count in 0u32..6,
    ) {
        if let Ok(section) = Section::decode(&bytes, count) {
            let mut again = Vec::new();
            section.encode(&mut again);
            prop_assert_eq!(again, bytes);
        }
    }

    #[test]
    fn updates_are_those_of_a_map(
        old in prop::collection::btree_map("[a-c]{1,3}", any::<u64>(), 0..12),
        changes in prop::collection::btree_map("[a-c]{1,3}", any::<Option<u64>>(), 0..12),
    ) {
        let make = |map: &BTreeMap<String, u64>| {
            let mut section = Section::default();
            for (name, fp) in map {
                section.push(name.as_bytes(), Kind::File, Fingerprint(*fp));
            }
            section
        };
        let mut want = old.clone();
        for (name, change) in &changes {
            match change {
                Some(fp) => want.insert(name.clone(), *fp),
                None => want.remove(name),
            };
        }
        let got = make(&old).updated(changes.iter().map(|(name, change)| {
            (name.as_bytes(), change.map(|fp| (Kind::File, Fingerprint(fp))))
        }));
        prop_assert_eq!(got, make(&want));
    }
}
