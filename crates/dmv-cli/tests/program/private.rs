//! Files that only their owner may read stay so in a worktree, although no commit says it.

#![allow(clippy::print_stdout)]

use crate::place::{Outcome, Place};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

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
fn a_private_file_comes_back_private_after_a_switch() -> Outcome {
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
    let text = said(&place, &["commit", "-m", "keys"])?;
    let expected = "private permissions of 2 files (key)";
    assert_eq!(text.matches(expected).count(), 1, "{text}");
    // After the commit, and noticed only when it goes.
    chmod(&place, "later", 0o600)?;
    place.ok(&["checkout", "before"])?;
    assert!(!place.work().join("vault").exists());
    place.ok(&["checkout", "main"])?;
    assert_eq!(
        (mode(&place, "key")?, mode(&place, "later")?),
        (0o600, 0o600)
    );
    assert_eq!(
        (mode(&place, "tool")?, mode(&place, "vault")?),
        (0o700, 0o700)
    );
    assert_eq!(mode(&place, "open")?, mode(&place, "vault/list")?);
    place.ok(&["status", "--exit-code"])?;
    // Removed by hand and restored; undone and redone.
    fs::remove_file(place.work().join("key"))?;
    place.ok(&["restore", "key"])?;
    assert_eq!(mode(&place, "key")?, 0o600);
    place.ok(&["undo"])?;
    place.ok(&["redo"])?;
    assert_eq!(mode(&place, "key")?, 0o600);
    // What was opened again stays open.
    chmod(&place, "key", 0o644)?;
    place.ok(&["checkout", "before"])?;
    place.ok(&["checkout", "main"])?;
    assert_eq!(mode(&place, "key")?, 0o644);
    Ok(())
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
