use crate::platform::tests::{Done, root, why};
use crate::platform::*;
use std::fs::File;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

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
fn links_are_told_from_what_they_lead_to() -> Done {
    let (_temp, dir) = root()?;
    dir.create_file(b"file", false)?;
    dir.create_dir(b"dir", false)?;
    dir.create_symlink(b"dir", b"link")?;
    assert_eq!(why(dir.open_dir(b"link/x")), Some(Cause::Symlink));
    assert_eq!(why(dir.open_file(b"link")), Some(Cause::Symlink));
    assert_eq!(why(dir.remove_dir(b"link")), Some(Cause::NotDirectory));
    assert_eq!(dir.read_link(b"link")?, b"dir");
    let mut kinds = Vec::new();
    dir.each_entry(|name, kind, _| {
        kinds.push((name.to_vec(), kind));
        Ok(())
    })?;
    let link = kinds.iter().find(|(name, _)| name == b"link");
    let kind = link.map(|(_, kind)| *kind);
    assert!(matches!(kind, Some(FileKind::Symlink | FileKind::Unknown)));
    Ok(())
}

#[test]
fn permissions_are_set_as_told() -> Done {
    let (temp, dir) = root()?;
    let file = dir.create_file(b"f", false)?;
    set_permissions(&file, 0o4640)?;
    assert_eq!(stat_of(&file)?.mode, 0o640);
    let made = open_own(&temp.path().join("made"), OwnAccess::CreateNew)?;
    assert_eq!(stat_of(&made)?.mode & !0o644, 0);
    let mut how = std::fs::OpenOptions::new();
    closed_to_others(how.write(true).create_new(true));
    assert_eq!(
        stat_of(&how.open(temp.path().join("closed"))?)?.mode & 0o077,
        0
    );
    dir.create_dir(b"private", true)?;
    assert_eq!(dir.stat_of(b"private")?.mode & 0o077, 0);
    dir.create_file(b"x", true)?;
    assert!(dir.stat_of(b"x")?.exec);
    Ok(())
}

#[test]
fn a_link_counts_and_not_what_it_leads_to() -> Done {
    let (temp, _dir) = root()?;
    symlink("none", temp.path().join("link"))?;
    assert!(is_own(&temp.path().join("link"))?, "the link counts");
    assert!(!may_write(&temp.path().join("link")));
    Ok(())
}

#[test]
fn names_are_any_bytes() -> Done {
    let (_temp, dir) = root()?;
    let bytes = b"a\xff";
    assert_eq!(bytes_of(name_of(bytes)), bytes);
    assert_eq!(string_of(bytes.to_vec()), name_of(bytes));
    assert_eq!(&*argument_bytes(name_of(b"a\\b")), b"a\\b");
    dir.create_file(b"\xff", false)?;
    dir.each_entry(|name, _, _| {
        assert_eq!(name, b"\xff");
        Ok(())
    })?;
    Ok(())
}
