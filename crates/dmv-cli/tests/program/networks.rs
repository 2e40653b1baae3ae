//! Bad networks and full disks: a clear word, the right exit code, and the same command goes on.

use crate::place::several::{commit, several, tip};
use crate::place::{Outcome, Place};
use dmv_random::noise;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// `film` with a file of this many bytes.
fn with_large(len: usize) -> Outcome<Place> {
    let place = several()?;
    place.write("film/large", noise(9, len))?;
    place.ok(&["-C", "film", "commit", "-m", "large"])?;
    Ok(place)
}

/// Lets ssh be this script.
fn ssh(place: &mut Place, script: &str) -> Outcome {
    let path = place.home().join("ssh");
    fs::write(&path, format!("#!/bin/sh\n{script}\n"))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

fn set(place: &mut Place, name: &'static str, value: &str) {
    place.env.retain(|(known, _)| *known != name);
    place.env.push((name, value.into()));
}

fn skipped(why: &str) -> Outcome {
    dmv_random::skip(why);
    Ok(())
}

#[test]
fn a_host_that_cannot_be_reached_is_named_with_what_to_try() -> Outcome {
    let mut place = several()?;
    for (says, exit, code) in [
        (
            "ssh: connect to host nas port 22: Connection refused",
            13,
            "unreachable",
        ),
        (
            "ssh: connect to host nas port 22: No route to host",
            13,
            "unreachable",
        ),
        (
            "ssh: Could not resolve hostname nas: Name or service not known",
            13,
            "unreachable",
        ),
        ("Connection closed by UNKNOWN port 65535", 13, "unreachable"),
        ("Host key verification failed.", 12, "not-let-in"),
        (
            "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @",
            12,
            "not-let-in",
        ),
        (
            "ada@nas: Permission denied (publickey,password).",
            12,
            "not-let-in",
        ),
    ] {
        ssh(&mut place, &format!("echo '{says}' >&2; exit 255"))?;
        let said = place.fails(exit, &["clone", "ssh://ada@nas:2222/x", "x", "--json"])?;
        let error: serde_json::Value = serde_json::from_str(&said)?;
        assert_eq!(error["code"], code, "{said}");
        let message = error["message"].as_str().ok_or("no message")?;
        assert!(
            message.contains(says) && message.contains("ssh://ada@nas:2222/x"),
            "{said}"
        );
        assert_eq!(error["hint"], "ssh -p 2222 ada@nas dmv help", "{said}");
        assert!(!place.work().join("x").exists());
    }
    // What it says of a changed key is a page; what is worth knowing is a few lines of it.
    let page = "@@@@@@\n@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\n@@@@@@\n\
                IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!\nSHA256:abc.\n\
                Offending key in known_hosts:1\nHost key verification failed.";
    ssh(&mut place, &format!("echo '{page}' >&2; exit 255"))?;
    let said = place.fails(12, &["clone", "ssh://nas/x", "x"])?;
    assert!(
        said.contains("SHA256:abc.; Offending key in known_hosts:1"),
        "{said}"
    );
    assert!(!said.contains("NASTY") && !said.contains("@@"), "{said}");
    assert!(!said.contains("does not know this host"), "{said}");
    ssh(
        &mut place,
        "echo Host key verification failed. >&2; exit 255",
    )?;
    let said = place.fails(12, &["clone", "ssh://nas/x", "x"])?;
    assert!(said.contains("does not know this host yet"), "{said}");
    // A login that prints something.
    ssh(&mut place, "echo Welcome!")?;
    let said = place.fails(13, &["clone", "ssh://nas/x", "x"])?;
    assert!(said.contains("prints 'Welcome!'"), "{said}");
    assert!(said.contains("hint: ssh nas dmv help"), "{said}");
    // There is no ssh here at all.
    set(&mut place, "DMV_SSH_COMMAND", "no-such-program");
    let said = place.fails(13, &["clone", "ssh://nas/x", "x"])?;
    assert!(said.contains("cannot run no-such-program"), "{said}");
    assert!(
        said.contains("hint: dmv config set --user ssh.command"),
        "{said}"
    );
    Ok(())
}

/// The real program, where it is installed: nobody listens at that port, and nobody can be asked.
#[test]
fn the_real_ssh_is_understood() -> Outcome {
    let mut place = several()?;
    set(&mut place, "DMV_SSH_COMMAND", "ssh -o ConnectTimeout=5");
    if Command::new("ssh").arg("-V").output().is_err() {
        return skipped("no ssh here");
    }
    let said = place.fails(13, &["clone", "ssh://127.0.0.1:1/x", "x"])?;
    assert!(said.contains("refused"), "{said}");
    Ok(())
}

#[test]
fn a_line_that_breaks_is_taken_up_where_it_broke() -> Outcome {
    let mut place = with_large(12 << 20)?;
    let url = format!("ssh://nas{}", place.work().join("film").display());
    let through =
        |pipe: &str| format!("while [ \"$1\" != -- ]; do shift; done\nsh -c \"$3\" | {pipe}");
    ssh(&mut place, &through("dd bs=65536 count=100 2>&-"))?;
    let said = place.fails(13, &["clone", &url, "two"])?;
    assert!(said.contains("the connection was lost"), "{said}");
    assert!(
        said.contains("run the same command again to continue"),
        "{said}"
    );
    ssh(&mut place, &through("cat"))?;
    let done = place.json(&["clone", &url, "two", "--json"])?;
    let again = done["bytes_received"].as_u64().ok_or("no number")?;
    assert!(again < 11 << 20, "{again} bytes came again");
    place.ok(&["-C", "two", "verify", "--full"])?;
    // A push that is cut moves nothing, and goes on as well.
    place.write("two/more", noise(10, 6 << 20))?;
    place.ok(&["-C", "two", "commit", "-m", "more"])?;
    let before = tip(&place, "film", "main")?;
    let script = "while [ \"$1\" != -- ]; do shift; done\ndd bs=65536 count=50 2>&- | sh -c \"$3\"";
    ssh(&mut place, script)?;
    place.fails(13, &["-C", "two", "push"])?;
    assert_eq!(tip(&place, "film", "main")?, before);
    place.ok(&["-C", "film", "verify", "--full"])?;
    ssh(&mut place, &through("cat"))?;
    let done = place.json(&["-C", "two", "push", "--json"])?;
    let again = done["bytes_sent"].as_u64().ok_or("no number")?;
    assert!(again < 11 << 19, "{again} bytes went again");
    assert_eq!(tip(&place, "film", "main")?, tip(&place, "two", "main")?);
    Ok(())
}

#[test]
fn two_that_fetch_into_one_repository_at_once_both_succeed() -> Outcome {
    let place = several()?;
    place.ok(&["clone", "film", "two"])?;
    for round in 0..3 {
        place.write("film/large", noise(20 + round, 4 << 20))?;
        commit(&place, "film", &format!("f{round}"))?;
        let fetching: Vec<_> = (0..3)
            .map(|_| {
                place
                    .command(&["-C", "two", "fetch"])
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .spawn()
            })
            .collect::<Result<_, _>>()?;
        for one in fetching {
            let output = one.wait_with_output()?;
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "{said}");
        }
        assert_eq!(
            tip(&place, "two", "origin/main")?,
            tip(&place, "film", "main")?
        );
    }
    place.ok(&["-C", "two", "verify", "--full"])?;
    Ok(())
}

/// A file system of its own, of so many MiB; gone with the test.
struct Disk(PathBuf);

impl Disk {
    /// `None`: this machine does not let us.
    fn new(at: &Path, mib: u32) -> Outcome<Option<Disk>> {
        fs::create_dir_all(at)?;
        let disk = Disk(at.to_owned());
        Ok(disk.mount(&format!("size={mib}m")).then_some(disk))
    }

    fn mount(&self, options: &str) -> bool {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "dmv-test"]);
        let output = mount.arg(&self.0).output();
        output.is_ok_and(|output| output.status.success())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).output();
    }
}

/// By the system, for a pack, or by SQLite, for the database: whatever has no room first.
fn tells_of_a_full_disk(said: &str) -> bool {
    said.contains("No space left") || said.contains("disk is full")
}

#[test]
fn a_full_disk_is_said_and_the_same_command_goes_on_when_there_is_room() -> Outcome {
    let place = with_large(12 << 20)?;
    let Some(disk) = Disk::new(&place.work().join("disk"), 8)? else {
        return skipped("no file system can be mounted here");
    };
    let clone = ["clone", "film", "disk/two"];
    let said = place.fails(20, &clone)?;
    assert!(tells_of_a_full_disk(&said), "{said}");
    // It stays full: the second try fails in the same way, and harms nothing.
    place.fails(20, &clone)?;
    assert!(disk.mount("remount,size=64m"));
    let done = place.json(&[&clone[..], &["--json"]].concat())?;
    let again = done["bytes_received"].as_u64().ok_or("no number")?;
    assert!(again < 12 << 20, "{again} bytes came again");
    place.ok(&["-C", "disk/two", "verify", "--full"])?;

    // Full at the other end: nothing moves there, and it says so.
    place.write("film/more", noise(11, 6 << 20))?;
    place.ok(&["-C", "film", "commit", "-m", "more"])?;
    place.ok(&["-C", "film", "branch", "more"])?;
    assert!(disk.mount("remount,size=28m"));
    place.ok(&["-C", "film", "remote", "add", "disk", "../disk/two"])?;
    let push = ["-C", "film", "push", "disk", "more"];
    let said = place.fails(20, &push)?;
    assert!(tells_of_a_full_disk(&said), "{said}");
    place.ok(&["-C", "disk/two", "verify"])?;
    place.fails(20, &["-C", "disk/two", "log", "more"])?;
    assert!(disk.mount("remount,size=64m"));
    place.ok(&push)?;
    assert_eq!(
        tip(&place, "disk/two", "more")?,
        tip(&place, "film", "more")?
    );
    place.ok(&["-C", "disk/two", "verify", "--full"])?;
    Ok(())
}

#[test]
fn a_restore_on_a_full_disk_names_the_disk() -> Outcome {
    let place = Place::new()?;
    let Some(disk) = Disk::new(&place.work().join("disk"), 4)? else {
        return skipped("no file system can be mounted here");
    };
    place.ok(&["init", "disk/w"])?;
    for n in 0..8 {
        place.write(format!("disk/w/d/{n}"), noise(n, 60_000))?;
    }
    place.write("disk/w/s", "s")?;
    place.ok(&["-C", "disk/w", "commit", "-m", "one"])?;
    let (fill, mut refused) = (place.work().join("disk/fill"), 0);
    for room in [0, 4, 60, 150, 280, 400] {
        fs::remove_dir_all(place.work().join("disk/w/d"))?;
        place.write("disk/w/s", "edited")?;
        // Some room is left, and the rest is taken.
        let spare = place.work().join("disk/spare");
        fs::write(&spare, vec![1; room << 10])?;
        let mut file = fs::File::create(&fill)?;
        while file.write_all(&[1; 4096]).is_ok() {}
        drop(file);
        fs::remove_file(spare)?;
        for paths in [".", "d/7", "."] {
            let done = place.run(&["-C", "disk/w", "restore", paths])?;
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            if done.status.code() != Some(0) {
                refused += 1;
                assert_eq!(done.status.code(), Some(20), "{room} KiB: {said}");
                assert!(tells_of_a_full_disk(&said), "{room} KiB: {said}");
            }
        }
        fs::remove_file(&fill)?;
        place.ok(&["-C", "disk/w", "restore", "."])?;
        let status = place.json(&["-C", "disk/w", "status", "--json"])?;
        assert_eq!(status["changes"], serde_json::json!([]), "{room} KiB");
    }
    assert!(refused > 5, "{refused} were refused");
    drop(disk);
    Ok(())
}

/// A repository of which one pack is garbage, and another half of it: 27 MB and 4 MB.
fn with_garbage(place: &Place, at: &str) -> Outcome {
    let dmv = |args: &[&str]| place.ok(&[&["-C", at], args].concat());
    place.ok(&["init", at])?;
    place.write(format!("{at}/stays"), noise(1, 3 << 20))?;
    dmv(&["commit", "-m", "stays"])?;
    place.write(format!("{at}/goes"), noise(2, 4 << 20))?;
    dmv(&["commit", "-m", "mixed"])?;
    // While its pack is in use, further content goes to a new one.
    let mut held = Vec::new();
    for pack in fs::read_dir(place.work().join(at).join(".dmv/packs"))? {
        let file = fs::File::options().append(true).open(pack?.path())?;
        if file.metadata()?.len() > 1 << 20 {
            file.lock()?;
            held.push(file);
        }
    }
    for n in 3..6 {
        place.write(format!("{at}/goes"), noise(n, 9 << 20))?;
        dmv(&["commit", "-m", "goes"])?;
    }
    drop(held);
    dmv(&["checkout", "-b", "short", "@~4"])?;
    dmv(&["branch", "-d", "main"])?;
    dmv(&["op", "expire", "--older", "0d", "-y"])?;
    Ok(())
}

/// A pack goes only after the database has named it, which takes some space.
#[test]
fn gc_on_a_disk_without_a_byte_left_frees_everything() -> Outcome {
    let place = Place::new()?;
    with_garbage(&place, "r")?;
    for room in [0, 4, 16, 64, 256] {
        let Some(disk) = Disk::new(&place.work().join("disk"), 64)? else {
            return skipped("no file system can be mounted here");
        };
        let mut copy = place.command_of("cp", &["-a", "r", "disk/r"]);
        assert!(copy.status()?.success());
        let spare = place.work().join("disk/spare");
        fs::write(&spare, vec![1; room << 10])?;
        let mut file = fs::File::create(place.work().join("disk/fill"))?;
        while file.write_all(&[1; 4096]).is_ok() {}
        drop(file);
        fs::remove_file(spare)?;
        let done = place.json(&["-C", "disk/r", "gc", "--grace", "0", "--json"])?;
        let freed = done["freed_bytes"].as_u64();
        assert!(freed > Some(30_000_000), "{room} KiB: {done}");
        place.ok(&["-C", "disk/r", "verify", "--full"])?;
        drop(disk);
    }
    Ok(())
}
