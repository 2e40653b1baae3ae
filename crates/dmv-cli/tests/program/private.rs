//! Permissions: what commits keep of them, and what a worktree keeps.

#![allow(clippy::print_stdout)]

use crate::place::{Outcome, Place};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

fn mode(place: &Place, path: &str) -> Outcome<u32> {
    let meta = fs::symlink_metadata(place.work().join(path))?;
    Ok(meta.permissions().mode() & 0o7777)
}

fn chmod(place: &Place, path: &str, mode: u32) -> Outcome {
    let path = place.work().join(path);
    Ok(fs::set_permissions(path, Permissions::from_mode(mode))?)
}

/// The umask of the tests lets others read. Where it does not, all files are private anyway.
fn others_may_read(place: &Place) -> Outcome<bool> {
    place.write("probe", "x")?;
    let may = mode(place, "probe")? & 0o077 != 0;
    fs::remove_file(place.work().join("probe"))?;
    if !may {
        dmv_random::skip("the umask makes every file private");
    }
    Ok(may)
}

fn said(place: &Place, args: &[&str]) -> Outcome<String> {
    let output = place.run(args)?;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    Ok(String::from_utf8(output.stderr)?)
}

#[test]
fn private_files_are_private_after_a_switch_in_a_clone_and_in_an_archive() -> Outcome {
    let place = Place::with_repository()?;
    if !others_may_read(&place)? {
        return Ok(());
    }
    place.write("open", "1")?;
    place.commit("one")?;
    place.ok(&["branch", "before"])?;
    for path in ["key", "tool", "vault/list", "later"] {
        place.write(path, "secret")?;
    }
    chmod(&place, "key", 0o600)?;
    chmod(&place, "tool", 0o700)?;
    chmod(&place, "vault", 0o700)?;
    place.commit("keys")?;
    place.ok(&["checkout", "before"])?;
    assert!(!place.work().join("vault").exists());
    place.ok(&["checkout", "main"])?;
    let modes = ["key", "tool", "vault"].map(|path| mode(&place, path).ok());
    assert_eq!(modes, [0o600, 0o700, 0o700].map(Some));
    assert_eq!(mode(&place, "open")?, mode(&place, "vault/list")?);
    place.ok(&["status", "--exit-code"])?;
    // The permissions alone are a change.
    chmod(&place, "later", 0o600)?;
    let told = place.ok(&["diff"])?;
    assert!(
        told.contains("private: only its owner may read it"),
        "{told}"
    );
    assert_eq!(place.run(&["checkout", "before"])?.status.code(), Some(5));
    place.commit("later")?;
    let listed = place.ok(&["ls", "-l", "later"])?;
    assert!(listed.starts_with("private "), "{listed}");
    // Removed by hand and restored; undone and redone; stashed and popped.
    fs::remove_file(place.work().join("key"))?;
    place.ok(&["restore", "key"])?;
    assert_eq!(mode(&place, "key")?, 0o600);
    place.ok(&["undo"])?;
    place.ok(&["redo"])?;
    assert_eq!(mode(&place, "key")?, 0o600);
    place.write("key", "edited")?;
    place.ok(&["stash"])?;
    place.ok(&["stash", "pop"])?;
    assert_eq!(mode(&place, "key")?, 0o600);
    place.ok(&["restore", "key"])?;
    // What was opened again is open in the next commit.
    chmod(&place, "tool", 0o755)?;
    place.write("dated", "1")?;
    let time = std::time::UNIX_EPOCH + std::time::Duration::new(86_400, 123_456_789);
    let dated = fs::File::options()
        .write(true)
        .open(place.work().join("dated"))?;
    dated.set_modified(time)?;
    place.ok(&["config", "set", "files.times", "true"])?;
    place.commit("open")?;
    let listed = place.json(&["ls", "--json", "dated"])?;
    assert_eq!(listed["mtime"], "1970-01-02T00:00:00.123456789+00:00");
    let copy = place.dir.path().join("copy");
    let copy = copy.to_str().ok_or("a path")?;
    place.ok(&["clone", ".", copy])?;
    for (path, mode) in [("key", 0o600), ("later", 0o600), ("tool", 0o755)] {
        let meta = fs::metadata(Path::new(copy).join(path))?;
        assert_eq!(meta.mode() & 0o777, mode, "{path}");
    }
    assert_eq!(
        fs::metadata(Path::new(copy).join("dated"))?.modified()?,
        time
    );
    let archive = place.run(&["export", "@", "--tar", "-"])?;
    let mut archive = tar::Archive::new(&archive.stdout[..]);
    let mut found = 0;
    for entry in archive.entries()? {
        let mut entry = entry?;
        found += 1;
        let is_dated = &*entry.path()? == Path::new("dated");
        let told = entry.pax_extensions()?.into_iter().flatten().flatten();
        let told: Vec<String> = told
            .filter_map(|one| Some(one.value().ok()?.to_owned()))
            .collect();
        assert_eq!(told.contains(&"86400.123456789".to_owned()), is_dated);
        let expected = match &*entry.path()?.to_string_lossy() {
            "key" | "later" => 0o600,
            "tool" => 0o755,
            "open" | "vault/list" => 0o644,
            _ => continue,
        };
        assert_eq!(entry.header().mode()?, expected, "{:?}", entry.path());
    }
    assert!(found > 5, "{found}");
    // Where every new file is private, permissions say nothing: what the commit says stays.
    let other = place.dir.path().join("other");
    let other = other.to_str().ok_or("a path")?;
    secretive(&place, &["clone", ".", other])?;
    for path in ["open", "key"] {
        let path = Path::new(other).join(path);
        assert_eq!(fs::metadata(&path)?.mode() & 0o777, 0o600);
        fs::write(path, "edited")?;
    }
    secretive(&place, &["-C", other, "commit", "-m", "edited"])?;
    secretive(&place, &["-C", other, "status", "--exit-code"])?;
    for (path, word) in [("open", "file "), ("key", "private ")] {
        let listed = place.ok(&["-C", other, "ls", "-l", path])?;
        assert!(listed.starts_with(word), "{listed}");
    }
    Ok(())
}

/// Runs the program with a umask that withholds every new file from others.
fn secretive(place: &Place, args: &[&str]) -> Outcome<String> {
    let script = "umask 077; exec \"$0\" \"$@\"";
    let program = env!("CARGO_BIN_EXE_dmv");
    let mut command = place.command_of("/bin/sh", &[&["-c", script, program], args].concat());
    let output = command.output()?;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    Ok(String::from_utf8(output.stdout)?)
}

#[test]
fn a_file_that_is_replaced_keeps_its_permissions() -> Outcome {
    let place = Place::with_repository()?;
    place.write("f", "one")?;
    place.write("run", "one")?;
    place.commit("one")?;
    place.ok(&["branch", "one"])?;
    place.write("f", "two")?;
    place.write("run", "two")?;
    chmod(&place, "run", 0o755)?;
    place.commit("two")?;
    chmod(&place, "f", 0o640)?;
    chmod(&place, "run", 0o750)?;
    place.ok(&["checkout", "one"])?;
    assert_eq!((mode(&place, "f")?, mode(&place, "run")?), (0o640, 0o640));
    place.ok(&["checkout", "main"])?;
    assert_eq!((mode(&place, "f")?, mode(&place, "run")?), (0o640, 0o750));
    Ok(())
}

#[test]
fn a_commit_says_what_it_does_not_keep() -> Outcome {
    let place = Place::with_repository()?;
    place.write("f", "one")?;
    fs::hard_link(place.work().join("f"), place.work().join("g"))?;
    place.write("s", "one")?;
    chmod(&place, "s", 0o4755)?;
    // Younger files are read again by the next commit.
    std::thread::sleep(std::time::Duration::from_millis(60));
    let text = said(&place, &["commit", "-m", "one"])?;
    assert!(text.contains("hard links of 2 files (f)"), "{text}");
    assert!(
        text.contains("setuid, setgid or sticky bits of 1 file (s)"),
        "{text}"
    );
    place.write("other", "one")?;
    let text = said(&place, &["commit", "-m", "two"])?;
    assert!(!text.contains("does not keep"), "{text}");
    // Nor when such a file has changed.
    place.write("f", "two")?;
    let text = said(&place, &["commit", "-m", "three"])?;
    assert!(!text.contains("does not keep"), "{text}");
    fs::hard_link(place.work().join("f"), place.work().join("h"))?;
    let text = said(&place, &["commit", "-m", "four"])?;
    assert!(text.contains("hard links of 1 file (h)"), "{text}");
    Ok(())
}

#[test]
fn a_commit_says_once_that_it_keeps_no_holes_and_no_attributes() -> Outcome {
    let place = Place::with_repository()?;
    place.write("full", "x".repeat(1 << 20))?;
    place.write("disk", "head")?;
    let disk = fs::File::options()
        .write(true)
        .open(place.work().join("disk"))?;
    disk.set_len(8 << 20)?;
    place.write("tagged/named", "one")?;
    let named = fs::File::open(place.work().join("tagged/named"))?;
    let flags = rustix::fs::XattrFlags::empty();
    let has_attributes = rustix::fs::fsetxattr(&named, "user.author", b"ada", flags).is_ok();
    let text = said(&place, &["commit", "-m", "one"])?;
    match disk.metadata()?.blocks() {
        0..16_000 => assert!(text.contains("holes of 1 file (disk)"), "{text}"),
        _ => dmv_random::skip("this file system makes no holes"),
    }
    if has_attributes {
        assert!(
            text.contains("extended attributes of 1 file (tagged/named)"),
            "{text}"
        )
    } else {
        dmv_random::skip("this file system has no extended attributes")
    }
    place.write("tagged/named", "two")?;
    disk.set_len(9 << 20)?;
    let text = said(&place, &["commit", "-m", "two"])?;
    assert!(!text.contains("does not keep"), "{text}");
    Ok(())
}

#[test]
fn extended_attributes_that_are_asked_for_are_told_listed_and_archived() -> Outcome {
    let place = Place::with_repository()?;
    place.write("shot", "one")?;
    place.commit("one")?;
    let flags = rustix::fs::XattrFlags::empty();
    let shot = fs::File::open(place.work().join("shot"))?;
    if rustix::fs::fsetxattr(&shot, "user.a=b", b"red", flags).is_err() {
        dmv_random::skip("this file system has no extended attributes");
        return Ok(());
    }
    let wrong = place.run(&["config", "set", "files.xattrs", "security.*"])?;
    assert!(!wrong.status.success());
    place.ok(&["config", "set", "files.xattrs", "user.a*,user.b"])?;
    let told = place.ok(&["diff"])?;
    assert!(
        told.contains("extended attributes differ: user.a=b"),
        "{told}"
    );
    place.commit("red")?;
    place.ok(&["status", "--exit-code"])?;
    let listed = place.json(&["ls", "--json", "shot"])?;
    assert_eq!(listed["xattrs"][0]["name"], "user.a=b");
    assert_eq!(listed["xattrs"][0]["value"], "red");
    let archive = place.run(&["export", "@", "--tar", "-"])?;
    let mut archive = tar::Archive::new(&archive.stdout[..]);
    let mut entry = archive.entries()?.next().ok_or("an entry")??;
    let told = entry.pax_extensions()?.into_iter().flatten().flatten();
    let told: Vec<(String, Vec<u8>)> = told
        .filter_map(|one| Some((one.key().ok()?.to_owned(), one.value_bytes().to_vec())))
        .collect();
    let expected = ("SCHILY.xattr.user.a%3Db".to_owned(), b"red".to_vec());
    assert_eq!(told, [expected]);
    Ok(())
}
