use super::*;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use tempfile::TempDir;

type Done = Result<(), Box<dyn std::error::Error>>;

fn root() -> Result<(TempDir, Dir), Box<dyn std::error::Error>> {
    let temp = tempfile::tempdir()?;
    let dir = Dir::open(temp.path())?;
    Ok((temp, dir))
}

fn why<T>(result: Result<T, SystemError>) -> Option<Cause> {
    result.err().map(SystemError::cause)
}

#[test]
fn errors_of_the_system_have_their_causes() -> Done {
    let (temp, dir) = root()?;
    dir.create_file(b"file", false)?;
    dir.create_dir(b"dir", false)?;
    dir.create_symlink(b"dir", b"link")?;
    let long = [b'n'; 300];
    assert_eq!(why(dir.stat_of(b"none")), Some(Cause::Absent));
    assert_eq!(why(dir.open_dir(b"file/x")), Some(Cause::NotDirectory));
    assert_eq!(why(dir.open_dir(b"link/x")), Some(Cause::Symlink));
    assert_eq!(why(dir.open_file(b"link")), Some(Cause::Symlink));
    assert_eq!(why(dir.stat_of(&long)), Some(Cause::NameTooLong));
    assert_eq!(why(dir.create_file(b"file", false)), Some(Cause::Exists));
    assert_eq!(why(dir.create_dir(b"dir", false)), Some(Cause::Exists));
    assert_eq!(why(dir.exchange(b"dir", b"none")), Some(Cause::Absent));
    assert_eq!(why(dir.remove_dir(b"link")), Some(Cause::NotDirectory));

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
        (
            SystemError::TOO_BIG,
            Cause::Other,
            io::ErrorKind::ArgumentListTooLong,
        ),
    ] {
        assert_eq!(error.cause(), cause);
        let general = io::Error::from(error);
        assert_eq!(general.kind(), kind);
        assert_eq!(general.raw_os_error(), Some(error.code()));
        assert_eq!(cause_of(&general), cause);
        assert_eq!(SystemError::from_code(error.code()), error);
    }
}

#[test]
fn the_ways_to_a_stat_agree() -> Done {
    let (temp, dir) = root()?;
    let path = temp.path().join("f");
    std::fs::write(&path, "content")?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o4751))?;
    symlink("f", temp.path().join("link"))?;
    std::fs::hard_link(&path, temp.path().join("second"))?;
    let stat = dir.stat_of(b"f")?;
    assert_eq!((stat.kind, stat.exec), (FileKind::File, true));
    assert_eq!((stat.mode, stat.nlink, stat.size), (0o4751, 2, 7));
    assert_eq!(stat_at(&path)?, stat);
    assert_eq!(stat_at(&temp.path().join("link"))?, stat);
    assert_eq!(stat_of(&File::open(&path)?)?, stat);
    assert_eq!(dir.open_file(b"f")?.1, stat);
    let meta = std::fs::metadata(&path)?;
    assert_eq!((stat.dev, stat.ino), (meta.dev(), meta.ino()));
    assert_eq!(
        (stat.mtime.seconds, i64::from(stat.mtime.nanos)),
        (meta.mtime(), meta.mtime_nsec())
    );

    let link = dir.stat_of(b"link")?;
    assert_eq!(link.kind, FileKind::Symlink);
    assert_eq!(stat_at_unfollowed(&temp.path().join("link"))?, link);
    assert_ne!(link.inode(), stat.inode());
    let own = dir.stat()?;
    assert_eq!(own.kind, FileKind::Dir);
    assert_eq!(stat_at(temp.path())?, own);
    Ok(())
}

#[test]
fn names_are_listed_each_time_and_errors_end_the_listing() -> Done {
    let (_temp, dir) = root()?;
    for name in [&b"a"[..], b"b", b"\xff"] {
        dir.create_file(name, false)?;
    }
    dir.create_symlink(b"a", b"l")?;
    for _ in 0..2 {
        let mut names = Vec::new();
        dir.each_name(|name, kind| {
            names.push((name.to_vec(), kind));
            Ok(())
        })?;
        names.sort_by(|a, b| a.0.cmp(&b.0));
        let found: Vec<&[u8]> = names.iter().map(|(name, _)| &name[..]).collect();
        assert_eq!(found, [&b"a"[..], b"b", b"l", b"\xff"]);
        let kind = names[2].1;
        assert!(matches!(kind, FileKind::Symlink | FileKind::Unknown));
    }
    let mut calls = 0;
    let ended = dir.each_name(|_, _| {
        calls += 1;
        Err(SystemError::TOO_BIG)
    });
    assert_eq!((ended, calls), (Err(SystemError::TOO_BIG), 1));
    Ok(())
}

#[test]
fn a_directory_stays_the_same_when_it_is_moved() -> Done {
    let (temp, dir) = root()?;
    dir.create_dir(b"a", true)?;
    assert_eq!(dir.stat_of(b"a")?.mode & 0o077, 0);
    let inner = dir.open_dir(b"a")?;
    dir.rename(b"a", b"b")?;
    inner.create_file(b"f", true)?;
    assert!(inner.stat_of(b"f")?.exec);
    assert!(temp.path().join("b/f").exists());
    let again = inner.reopen()?;
    assert_eq!(again.stat()?.inode(), inner.stat()?.inode());
    again.remove_file(b"f")?;
    dir.remove_dir(b"b")?;
    assert_eq!(why(inner.create_file(b"f", false)), Some(Cause::Absent));
    again.sync_filesystem()?;
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
fn a_file_is_opened_only_if_it_is_there_itself() -> Done {
    let (temp, dir) = root()?;
    let path = |name| temp.path().join(name);
    std::fs::write(path("f"), "x")?;
    symlink("f", path("link"))?;
    // Nobody writes to the pipe, so an open that waits would not return.
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, path("pipe"), mode)?;
    assert_eq!(why(dir.open_file(b"link")), Some(Cause::Symlink));
    assert_eq!(dir.open_file(b"f")?.1.size, 1);
    assert_eq!(dir.open_file(b"pipe")?.1.kind, FileKind::Fifo);
    Ok(())
}

#[test]
fn bytes_are_read_and_written_where_they_belong() -> Done {
    let (_temp, dir) = root()?;
    let mut file = dir.create_file(b"f", false)?;
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
    append_only(&file)?;
    file.write_all(b"!")?;
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
fn times_and_permissions_are_set_as_told() -> Done {
    let (temp, dir) = root()?;
    let file = dir.create_file(b"f", false)?;
    let before = file.metadata()?;
    let mtime = FileTime {
        seconds: 1_000_000_000,
        nanos: 123_456_789,
    };
    set_modified(&file, mtime)?;
    let after = file.metadata()?;
    assert_eq!(stat_of(&file)?.mtime.seconds, mtime.seconds);
    assert_eq!(before.accessed()?, after.accessed()?);
    set_permissions(&file, 0o4640)?;
    assert_eq!(stat_of(&file)?.mode, 0o640);
    let made = open_own(&temp.path().join("made"), OwnAccess::CreateNew)?;
    assert_eq!(stat_of(&made)?.mode & !0o644, 0);
    Ok(())
}

#[test]
fn names_are_the_same_bytes_on_both_sides() {
    let bytes = b"a\xff/\xc3\xbc";
    assert_eq!(bytes_of(name_of(bytes)), bytes);
    assert_eq!(string_of(bytes.to_vec()), name_of(bytes));
    assert_eq!(bytes_of("ü"), "ü".as_bytes());
}

#[test]
fn what_this_user_has_made_is_its_own() -> Done {
    let (temp, _dir) = root()?;
    sync_dir(temp.path())?;
    assert!(is_own(temp.path())? && may_write(temp.path()));
    symlink("none", temp.path().join("link"))?;
    assert!(is_own(&temp.path().join("link"))?, "the link counts");
    assert!(!may_write(&temp.path().join("link")));
    let absent = is_own(&temp.path().join("none")).expect_err("it is absent");
    assert_eq!(cause_of(&absent), Cause::Absent);
    assert!(!is_read_only_disk(temp.path()));
    Ok(())
}

#[test]
fn what_others_may_write_to_is_not_this_users_only() -> Done {
    let (temp, dir) = root()?;
    let path = temp.path().join("f");
    let file = dir.create_file(b"f", false)?;
    for (mode, is_private) in [
        (0o444, true),
        (0o644, true),
        (0o755, true),
        (0o664, false),
        (0o646, false),
    ] {
        set_permissions(&file, mode)?;
        assert_eq!(is_written_by_this_user_only(&path)?, is_private, "{mode:o}");
    }
    // The file of another user is not the administrator's own.
    set_permissions(&file, 0o644)?;
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&path, Some(65534), None)?;
        assert!(is_own(&path)? && !is_written_by_this_user_only(&path)?);
    }
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
