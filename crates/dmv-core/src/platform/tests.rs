use super::*;
use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::ops::RangeInclusive;
use tempfile::TempDir;

pub type Done = Result<(), Box<dyn std::error::Error>>;

/// How many names a file without a name may have while it is open.
pub const NAMES_OF_UNNAMED: RangeInclusive<usize> = 0..=if cfg!(windows) { 1 } else { 0 };

pub fn root() -> Result<(TempDir, Dir), Box<dyn std::error::Error>> {
    let temp = tempfile::tempdir()?;
    let dir = Dir::open(temp.path())?;
    Ok((temp, dir))
}

pub fn why<T>(result: Result<T, SystemError>) -> Option<Cause> {
    result.err().map(SystemError::cause)
}

#[test]
fn errors_of_the_system_have_their_causes() -> Done {
    let (temp, dir) = root()?;
    dir.create_file(b"file", false)?;
    dir.create_dir(b"dir", false)?;
    let long = [b'n'; 300];
    assert_eq!(why(dir.stat_of(b"none")), Some(Cause::Absent));
    assert_eq!(why(dir.open_dir(b"file/x")), Some(Cause::NotDirectory));
    let too_long = why(dir.create_file(&long, false));
    assert_eq!(too_long, Some(Cause::NameTooLong));
    assert_eq!(why(dir.create_file(b"file", false)), Some(Cause::Exists));
    assert_eq!(why(dir.create_dir(b"dir", false)), Some(Cause::Exists));
    let unnamed = why(dir.exchange(b"dir", b"none"));
    assert!(matches!(unnamed, Some(Cause::Absent | Cause::Unsupported)));
    assert_eq!(why(dir.remove_dir(b"file")), Some(Cause::NotDirectory));
    assert_eq!(why(dir.remove_file(b"none")), Some(Cause::Absent));

    let error = File::open(temp.path().join("none")).expect_err("it is absent");
    assert_eq!(cause_of(&error), Cause::Absent);
    assert_eq!(cause_of(&io::Error::other("x")), Cause::Other);
    assert_eq!(
        cause_of(&io::ErrorKind::NotFound.into()),
        Cause::Other,
        "not the system's"
    );
    Ok(())
}

#[test]
fn errors_keep_their_numbers() {
    for (error, cause, kind) in [
        (
            SystemError::INVALID,
            Cause::Unsupported,
            io::ErrorKind::InvalidInput,
        ),
        (
            SystemError::NAME_TOO_LONG,
            Cause::NameTooLong,
            io::ErrorKind::InvalidFilename,
        ),
    ] {
        assert_eq!(error.cause(), cause);
        let general = io::Error::from(error);
        assert_eq!(general.kind(), kind);
        assert_eq!(general.raw_os_error(), Some(error.code()));
        assert_eq!(cause_of(&general), cause);
        assert_eq!(SystemError::from_code(error.code()), error);
    }
    assert_eq!(SystemError::TOO_BIG.cause(), Cause::Other);
}

#[test]
fn names_are_listed_each_time_and_errors_end_the_listing() -> Done {
    let (_temp, dir) = root()?;
    dir.create_dir(b"d", false)?;
    for name in ["a", "b", "\u{fc}\u{1f600}"] {
        dir.create_file(name.as_bytes(), false)?;
    }
    for _ in 0..2 {
        let mut names = Vec::new();
        dir.each_entry(|name, kind, _| {
            names.push((name.to_vec(), kind));
            Ok(())
        })?;
        names.sort_by(|a, b| a.0.cmp(&b.0));
        let found: Vec<&[u8]> = names.iter().map(|(name, _)| &name[..]).collect();
        assert_eq!(found, [&b"a"[..], b"b", b"d", "\u{fc}\u{1f600}".as_bytes()]);
        let kind = names[2].1;
        assert!(matches!(kind, FileKind::Dir | FileKind::Unknown));
    }
    let mut calls = 0;
    let ended = dir.each_entry(|_, _, _| {
        calls += 1;
        Err(SystemError::TOO_BIG)
    });
    assert_eq!((ended, calls), (Err(SystemError::TOO_BIG), 1));
    Ok(())
}

#[test]
fn a_listed_stat_is_that_of_the_file() -> Done {
    let (temp, dir) = root()?;
    dir.create_dir(b"d", false)?;
    for (name, text) in [("a", ""), ("b", "text"), ("c", "of another time")] {
        std::fs::write(temp.path().join(name), text)?;
    }
    let (file, mtime) = (
        dir.create_growing(b"e", false)?,
        (1_000_000_000, 123_456_700),
    );
    write_all_at(&file, b"content", 0)?;
    let (seconds, nanos) = mtime;
    set_modified(&file, FileTime { seconds, nanos })?;
    assert_eq!(dir.stat_open(&file)?, stat_of(&file)?);
    assert_eq!(dir.stat_of(b"e")?, stat_of(&file)?);
    drop(file);
    dir.rename(b"e", b"f")?;
    let mut listed = 0;
    dir.each_entry(|name, _, stat| {
        let Some(stat) = stat else {
            return Ok(());
        };
        listed += 1;
        assert_eq!(stat, dir.stat_of(name)?, "{name:?}");
        Ok(())
    })?;
    assert_eq!(listed, if LISTS_STATS { 4 } else { 0 });
    Ok(())
}

#[test]
fn a_file_grows_at_its_end_only() -> Done {
    let (temp, dir) = root()?;
    let mut file = dir.create_growing(b"f", false)?;
    file.write_all(b"one")?;
    std::fs::write(temp.path().join("f"), "other")?;
    file.write_all(b"two")?;
    assert_eq!(std::fs::read(temp.path().join("f"))?, b"othertwo");
    assert_eq!(why(dir.create_growing(b"f", false)), Some(Cause::Exists));
    dir.sync_file(b"f")?;
    dir.sync_settled()?;
    assert_eq!(
        std::fs::read_dir(temp.path())?.count(),
        1,
        "nothing is left"
    );
    Ok(())
}

#[test]
fn a_directory_stays_the_same_when_it_is_moved() -> Done {
    let (temp, dir) = root()?;
    dir.create_dir(b"a", true)?;
    let inner = dir.open_dir(b"a")?;
    dir.rename(b"a", b"b")?;
    inner.create_file(b"f", true)?;
    assert!(temp.path().join("b/f").exists());
    let again = inner.reopen()?;
    assert_eq!(again.stat()?.inode(), inner.stat()?.inode());
    again.sync_file(b"f")?;
    match again.sync_filesystem() {
        Ok(()) => {}
        Err(e) => assert_eq!(e.cause(), Cause::Unsupported),
    }
    again.remove_file(b"f")?;
    // As long as it is open, Windows may show the name of a directory that is going.
    drop((inner, again));
    dir.remove_dir(b"b")?;
    assert_eq!(why(dir.stat_of(b"b")), Some(Cause::Absent));
    Ok(())
}

#[test]
fn no_rename_loses_a_file() -> Done {
    let (temp, dir) = root()?;
    let path = |name| temp.path().join(name);
    std::fs::write(path("a"), "a")?;
    std::fs::write(path("b"), "b")?;
    // Some file systems have neither call. Then both names stay.
    let refused = why(dir.rename_new(b"a", &dir, b"b"));
    assert!(matches!(refused, Some(Cause::Exists | Cause::Unsupported)));
    assert_eq!(std::fs::read(path("b"))?, b"b");
    match dir.exchange(b"a", b"b") {
        Ok(()) => assert_eq!(std::fs::read(path("a"))?, b"b"),
        Err(e) => assert_eq!(e.cause(), Cause::Unsupported),
    }
    assert_eq!(why(dir.hard_link(b"a", b"b")), Some(Cause::Exists));
    dir.hard_link(b"a", b"c")?;
    assert_eq!(stat_at(&path("a"))?.inode(), stat_at(&path("c"))?.inode());
    Ok(())
}

#[test]
fn bytes_are_read_and_written_where_they_belong() -> Done {
    let (_temp, dir) = root()?;
    let file = dir.create_file(b"f", false)?;
    write_all_at(&file, b"abcdef", 0)?;
    write_all_at(&file, b"X", 1)?;
    let (read, _) = dir.open_file(b"f")?;
    let mut buf = [0; 3];
    read_exact_at(&read, &mut buf, 1)?;
    assert_eq!(&buf, b"Xcd");
    assert_eq!(read_at(&read, &mut buf, 5)?, 1);
    assert_eq!(read_at(&read, &mut buf, 6)?, 0);
    let short = read_exact_at(&read, &mut buf, 4).expect_err("it ends before");
    assert_eq!(short.kind(), io::ErrorKind::UnexpectedEof);
    // The handle's position is the beginning, but it only appends now.
    let mut file = append_only(file)?;
    file.write_all(b"!")?;
    // Reading at a place may move the position of a handle.
    let (read, _) = dir.open_file(b"f")?;
    let mut all = String::new();
    (&read).read_to_string(&mut all)?;
    assert_eq!(all, "aXcdef!");
    // Both are hints; neither may change the content or, the last one aside, the position.
    start_writeback(&read, 0, 7);
    write_mapped_pages_back(&read, 7);
    assert_eq!((&read).read(&mut buf)?, 0);
    if wait_for_write(&read) {
        assert_eq!((&read).read(&mut buf)?, 3);
    }
    Ok(())
}

#[test]
fn a_file_that_was_opened_for_reading_is_synced_too() -> Done {
    let temp = tempfile::tempdir()?;
    let path = temp.path().join("f");
    std::fs::write(&path, "x")?;
    sync(&open_own(&path, OwnAccess::Read)?)?;
    settle(&open_own(&path, OwnAccess::Write)?)?;
    Ok(())
}

#[test]
fn times_are_set_as_told() -> Done {
    let (_temp, dir) = root()?;
    let file = dir.create_file(b"f", false)?;
    let before = file.metadata()?;
    let mtime = FileTime {
        seconds: 1_000_000_000,
        nanos: 123_456_789,
    };
    set_modified(&file, mtime)?;
    let after = file.metadata()?;
    let found = stat_of(&file)?.mtime;
    assert_eq!(found.seconds, mtime.seconds);
    let rounded = mtime.nanos / TIME_STEP_NANOS * TIME_STEP_NANOS;
    assert_eq!(found.nanos, rounded);
    assert_eq!(before.accessed()?, after.accessed()?);
    Ok(())
}

#[test]
fn names_are_the_same_bytes_on_both_sides() {
    let bytes = b"a/\xc3\xbc";
    assert_eq!(bytes_of(name_of(bytes)), bytes);
    assert_eq!(string_of(bytes.to_vec()), name_of(bytes));
    assert_eq!(bytes_of("ü"), "ü".as_bytes());
    assert_eq!(&*argument_bytes("a/ü"), "a/ü".as_bytes());
}

#[test]
fn a_whole_path_is_one_that_people_write() -> Done {
    let temp = tempfile::tempdir()?;
    std::fs::create_dir_all(temp.path().join("a/b"))?;
    let whole = whole_path(&temp.path().join("a/b/../b"))?;
    assert!(whole.is_absolute() && whole.ends_with("a/b"));
    assert!(!bytes_of(&whole).starts_with(b"\\\\?"), "{whole:?}");
    assert_eq!(
        std::fs::canonicalize(&whole)?,
        std::fs::canonicalize(temp.path().join("a/b"))?
    );
    assert!(whole_path(&temp.path().join("no")).is_err());
    Ok(())
}

#[test]
fn what_this_user_has_made_is_its_own() -> Done {
    let (temp, _dir) = root()?;
    sync_dir(temp.path())?;
    assert!(is_own(temp.path())? && may_write(temp.path()));
    let path = temp.path().join("f");
    std::fs::write(&path, "x")?;
    assert!(is_own(&path)? && is_of_this_user(&File::open(&path)?)?);
    assert!(may_read(&path) && may_write(&path) && check_access(&path).is_ok());
    assert!(!may_read(&temp.path().join("none")));
    assert!(has_room(temp.path(), 1)? && !has_room(temp.path(), u64::MAX)?);
    assert!(free_bytes(&path)? > 0);
    let absent = is_own(&temp.path().join("none")).expect_err("it is absent");
    assert_eq!(cause_of(&absent), Cause::Absent);
    assert!(!is_read_only_disk(temp.path()));
    Ok(())
}

#[test]
fn bytes_are_written_to_their_place_alone_whether_blocks_are_shared_or_not() -> Done {
    const LEN: usize = 40_000;
    let temp = tempfile::tempdir()?;
    let path = |name: &str| temp.path().join(name);
    let mut rng = dmv_random::Rng::new(dmv_random::seed(1));
    for _ in 0..200 {
        let (old, new) = (rng.bytes(LEN), rng.bytes(LEN));
        std::fs::write(path("from"), &new)?;
        std::fs::write(path("to"), &old)?;
        let from = File::open(path("from"))?;
        let to = std::fs::OpenOptions::new().write(true).open(path("to"))?;
        let near_a_block = |rng: &mut dmv_random::Rng| {
            let block = rng.below(LEN as u64 / BLOCK_BYTES) * BLOCK_BYTES;
            (block + rng.below(5)).saturating_sub(2) as usize
        };
        let at = near_a_block(&mut rng);
        let len = near_a_block(&mut rng).clamp(1, LEN - at);
        let shift = rng.below(4) * BLOCK_BYTES + rng.below(2);
        let origin = Origin {
            file: &from,
            at: at as u64,
        };
        let data = &new[at..at + len];
        write_shared(&to, data, at as u64 + shift, origin)?;
        let mut expected = old;
        let end = at + shift as usize + len;
        expected.resize(LEN.max(end), 0);
        expected[at + shift as usize..end].copy_from_slice(data);
        let found = std::fs::read(path("to"))?;
        assert!(found == expected, "{at} {len} {shift}");

        to.set_len(0)?;
        let place = at as u64 + shift;
        if share_range(&to, len as u64, place, origin).is_ok() {
            let found = std::fs::read(path("to"))?;
            assert!(
                found[place as usize..] == new[at..at + len],
                "{at} {len} {shift}"
            );
        }
    }
    Ok(())
}

#[test]
fn a_file_with_two_names_shares_all_of_its_bytes() -> Done {
    let temp = tempfile::tempdir()?;
    let path = |name: &str| temp.path().join(name);
    std::fs::write(path("one"), [7; 10_000])?;
    let file = File::open(path("one"))?;
    if let Ok(shared) = shared_bytes(&file) {
        assert_eq!(shared, 0);
    }
    std::fs::hard_link(path("one"), path("two"))?;
    assert_eq!(shared_bytes(&file)?, 10_000);
    Ok(())
}

#[test]
fn a_lock_keeps_others_from_the_lock_alone() -> Done {
    let temp = tempfile::tempdir()?;
    let path = temp.path().join("f");
    std::fs::write(&path, "content")?;
    let open = || open_own(&path, OwnAccess::Write);
    let (first, second) = (open()?, open()?);
    try_lock(&first)?;
    assert!(matches!(try_lock(&second), Err(TryLockError::WouldBlock)));
    assert!(try_lock_shared(&second).is_err());
    // Content is read and written all the same, also by whoever has not got the lock.
    write_all_at(&second, b"C", 0)?;
    assert_eq!(std::fs::read(&path)?, b"Content");
    unlock(&first)?;
    try_lock_shared(&second)?;
    try_lock_shared(&first)?;
    assert!(try_lock(&open()?).is_err());
    drop((first, second));
    let third = try_lock_at(open()?, &path)?;
    assert!(third.is_some());
    drop(third);
    let moved = temp.path().join("moved");
    let old = open()?;
    rename(&path, &moved)?;
    std::fs::write(&path, "another")?;
    assert!(try_lock_at(old, &path)?.is_none(), "it is another file");
    Ok(())
}

#[test]
fn a_directory_is_locked_by_one_at_a_time() -> Done {
    let temp = tempfile::tempdir()?;
    let first = try_lock_dir(temp.path())?;
    assert!(first.is_some());
    assert!(try_lock_dir(temp.path())?.is_none());
    drop(first);
    assert!(try_lock_dir(temp.path())?.is_some());
    assert_eq!(
        std::fs::read_dir(temp.path())?.count(),
        0,
        "nothing is left"
    );
    Ok(())
}

#[test]
fn a_file_that_is_open_is_replaced_and_stays_what_it_was_for_its_reader() -> Done {
    let (temp, dir) = root()?;
    let path = |name: &str| temp.path().join(name);
    for by_path in [false, true] {
        std::fs::write(path("old"), "old")?;
        std::fs::write(path("new"), "new")?;
        let (mut reader, before) = dir.open_file(b"old")?;
        let renamed = if by_path {
            rename(&path("new"), &path("old"))
        } else {
            dir.rename(b"new", b"old").map_err(io::Error::from)
        };
        // Older systems cannot. Then both stay.
        if let Err(e) = renamed {
            assert_eq!(cause_of(&e), Cause::Denied);
            assert_eq!(std::fs::read(path("old"))?, b"old");
            assert_eq!(std::fs::read(path("new"))?, b"new");
            continue;
        }
        assert_eq!(std::fs::read(path("old"))?, b"new");
        assert_ne!(dir.stat_of(b"old")?.inode(), before.inode());
        let mut text = String::new();
        reader.read_to_string(&mut text)?;
        assert_eq!(text, "old");
    }
    Ok(())
}

#[test]
fn a_file_without_a_name_leaves_nothing() -> Done {
    let temp = tempfile::tempdir()?;
    let Ok(file) = unnamed_file(temp.path()) else {
        return Ok(());
    };
    write_all_at(&file, b"abc", 0)?;
    let mut read = [0; 3];
    read_exact_at(&file, &mut read, 0)?;
    assert_eq!(&read, b"abc");
    drop(file);
    assert_eq!(std::fs::read_dir(temp.path())?.count(), 0);
    Ok(())
}

#[test]
fn another_handle_is_of_the_same_file() -> Done {
    let temp = tempfile::tempdir()?;
    let file = open_own(&temp.path().join("f"), OwnAccess::CreateNew)?;
    let same = same_file(&file)?;
    assert_eq!(stat_of(&same)?.inode(), stat_of(&file)?.inode());
    assert_eq!(terminal_size(&file), None);
    widen_pipe(&file, 1 << 20);
    Ok(())
}

#[test]
fn a_shell_reads_the_text_and_not_the_arguments() -> Done {
    let temp = tempfile::tempdir()?;
    let path = temp.path().join("a & b");
    std::fs::write(&path, "in it")?;
    // A word that the shells of all systems know.
    let done = by_shell("echo one&& echo", &[path.as_os_str()]).output()?;
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let lines: Vec<&str> = text.lines().map(|line| line.trim_matches('"')).collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert_eq!(lines[0], "one");
    assert!(
        lines[1].trim_matches(['"', ' ']).ends_with("a & b"),
        "{text}"
    );
    Ok(())
}

#[test]
fn the_machine_has_a_name() {
    assert!(!host_name().is_empty());
}
