//! Freeing the space of what nothing needs, as a user does it.

use crate::place::{Outcome, Place};
use dmv_random::noise;
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A repository with a branch that was deleted, an amended commit, and a commit that was reset.
fn place() -> Outcome<Place> {
    let place = Place::with_repository()?;
    place.write("stays", noise(1, 60_000))?;
    place.commit("one")?;
    place.ok(&["checkout", "-b", "side"])?;
    place.write("side", noise(2, 200_000))?;
    place.commit("side")?;
    place.ok(&["checkout", "main"])?;
    place.ok(&["branch", "-d", "side"])?;
    place.write("amended", noise(3, 200_000))?;
    place.commit("typo")?;
    place.write("amended", noise(4, 200_000))?;
    place.ok(&["commit", "--amend", "-m", "better"])?;
    place.write("reset", noise(5, 200_000))?;
    place.commit("reset")?;
    place.ok(&["reset", "--hard", "@~1"])?;
    Ok(place)
}

fn stored(place: &Place) -> Outcome<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(place.work().join(".dmv/packs"))? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}

#[test]
fn what_undo_cannot_reach_goes_and_what_an_operation_keeps_is_named() -> Outcome {
    let place = place()?;
    // The hint to forget an operation stands only where that gives something up.
    let gc = || -> Outcome<String> { Ok(String::from_utf8(place.run(&["gc"])?.stderr)?) };
    // A worktree is on a commit that no branch has any more.
    place.ok(&["checkout", "-b", "render"])?;
    place.write("render", noise(9, 2_000_000))?;
    place.commit("render")?;
    place.ok(&["checkout", "main"])?;
    place.ok(&["worktree", "add", "--detach", "../tree", "render"])?;
    place.ok(&["branch", "-d", "render"])?;
    let said = gc()?;
    assert!(said.contains("are kept for undo only"), "{said}");
    assert!(said.contains("dmv op expire --older 90d"), "{said}");
    assert!(!said.contains("op forget"), "{said}");
    place.ok(&["worktree", "remove", "../tree"])?;
    let said = gc()?;
    let (_, id) = said.rsplit_once("dmv op forget ").ok_or(said.clone())?;
    let told = place.ok(&["op", "forget", id.trim()])?;
    assert!(!told.is_empty());
    let said = String::from_utf8(place.run(&["gc", "--grace", "0"])?.stderr)?;
    assert!(!said.contains("op forget"), "{said}");

    // What undo cannot reach any more goes, and nothing else.
    place.ok(&["op", "expire", "--older", "0d"])?;
    let before = stored(&place)?;
    let dry = place.json(&["gc", "--grace", "0", "--dry-run", "--json"])?;
    assert_eq!(stored(&place)?, before);
    let stats = place.json(&["stats", "--json"])?;
    assert_eq!(stats["garbage_bytes"], 0, "all of it is young: {stats}");
    assert!(
        stats["young_garbage_bytes"].as_u64() > Some(550_000),
        "{stats}"
    );
    let told = place.ok(&["stats"])?;
    assert!(told.contains("stored within 14 days"), "{told}");
    for (grace, length) in [("14d", "14 days"), ("36h", "36 hours"), ("1d", "1 day")] {
        let output = place.run(&["gc", "--dry-run", "--grace", grace])?;
        assert_eq!(output.stdout, b"nothing can be freed now\n");
        let said = String::from_utf8(output.stderr)?;
        let told = format!("were stored within the last {length} and stay until they are older");
        assert!(said.contains(&told), "{said}");
    }
    let done = place.json(&["gc", "--grace", "0", "--json"])?;
    assert!(done["freed_bytes"].as_u64() > Some(550_000), "{dry} {done}");
    assert_eq!(dry["freed_objects"], done["freed_objects"], "{dry} {done}");
    let left = stored(&place)?;
    assert!(left < before - 550_000, "{left} of {before}");
    // What the branch has is complete.
    place.ok(&["verify", "--full"])?;
    assert_eq!(fs::read(place.work().join("amended"))?, noise(4, 200_000));
    fs::remove_file(place.work().join("amended"))?;
    place.ok(&["restore", "amended"])?;
    assert_eq!(fs::read(place.work().join("amended"))?, noise(4, 200_000));
    let again = place.json(&["gc", "--grace", "0", "--json"])?;
    assert_eq!(again["freed_objects"], 0, "{again}");
    let stats = place.json(&["stats", "--json"])?;
    assert_eq!(stats["young_garbage_bytes"], 0, "{stats}");
    assert!(!place.ok(&["stats"])?.contains("garbage"));
    Ok(())
}

/// A limit on the size of files is an error like a full disk.
#[test]
fn on_a_full_disk_gc_frees_what_needs_no_copy_and_fails() -> Outcome {
    let place = Place::with_repository()?;
    place.write("stays", noise(1, 3_000_000))?;
    place.write("goes", noise(2, 2_000_000))?;
    place.commit("both in one pack")?;
    fs::remove_file(place.work().join("goes"))?;
    place.ok(&["commit", "--amend", "-m", "one"])?;
    place.ok(&["op", "expire", "--older", "0d"])?;
    let before = stored(&place)?;
    let limited = |args: &[&str]| -> Outcome<String> {
        let command = place.command(args);
        let mut sh = Command::new("sh");
        sh.args(["-c", "ulimit -f 2000 && exec \"$0\" \"$@\""]);
        sh.arg(command.get_program()).args(args);
        sh.current_dir(place.work());
        sh.envs(
            command
                .get_envs()
                .filter_map(|(key, value)| Some((key, value?))),
        );
        let output = sh.output()?;
        let said = String::from_utf8(output.stderr)?;
        assert_eq!(output.status.code(), Some(20), "{said}");
        Ok(said + &String::from_utf8(output.stdout)?)
    };
    let said = limited(&["gc", "--grace", "0"])?;
    assert!(
        said.contains("error: the disk is full: 1.9 MiB could not be freed"),
        "{said}"
    );
    assert!(
        said.contains("everything that is needed is intact"),
        "{said}"
    );
    assert!(
        said.contains("hint: free some disk space, then run the same command"),
        "{said}"
    );
    assert!(stored(&place)? <= before, "no copy is left");
    let said = limited(&["gc", "--grace", "0", "--json"])?;
    assert!(said.contains("\"no_room_bytes\":2"), "{said}");
    assert!(said.contains("\"code\":\"disk-full\""), "{said}");

    place.ok(&["verify", "--full"])?;
    let done = place.json(&["gc", "--grace", "0", "--json"])?;
    assert!(done["freed_bytes"].as_u64() > Some(1_900_000), "{done}");
    assert_eq!(done["no_room_bytes"], 0, "{done}");
    assert!(stored(&place)? < 3_200_000);
    place.ok(&["verify", "--full"])?;
    Ok(())
}

#[test]
fn gc_waits_for_others_frees_nothing_where_something_is_damaged_and_keeps_parts() -> Outcome {
    let place = place()?;
    // Wrong times are named.
    for wrong in ["14", "d", "-1d", "1.5h", "99999999999d", "two weeks"] {
        let refused = place.fails(2, &["gc", &format!("--grace={wrong}")])?;
        assert!(refused.contains("write a time as"), "{refused}");
    }
    let late = place.fails(3, &["gc", "--max-time", "0"])?;
    assert!(late.contains("the time is over"), "{late}");

    // Partial repositories keep what they have.
    place.write("d/in", noise(6, 30_000))?;
    place.write("e/out", noise(7, 30_000))?;
    place.commit("directories")?;
    place.write("d/in", noise(8, 30_000))?;
    place.commit("changed")?;
    for (name, options) in [
        ("subset", &["--subset", "d"][..]),
        ("depth", &["--depth", "1"]),
        ("meta", &["--meta-only"]),
        ("both", &["--subset", "d", "--depth", "2"]),
        ("bare", &["--bare"]),
    ] {
        let dir = place.home().join(name);
        let dir = dir.to_str().ok_or("a path")?;
        let work = place.work();
        let from = work.to_str().ok_or("a path")?;
        place.ok(&[&["clone", from, dir], options].concat())?;
        let report = place.json(&["-C", dir, "gc", "--grace", "0", "--json"])?;
        assert_eq!(report["finished"], true, "{name}: {report}");
        assert_eq!(report["undo_lacks"], 0, "{name}: {report}");
        place.ok(&["-C", dir, "verify", "--full"])?;
        place.ok(&["-C", dir, "fetch"])?;
        place.ok(&["-C", dir, "log"])?;
        place.ok(&["-C", dir, "verify", "--full"])?;
    }

    // What frees space waits for another that does.
    // As other writers do. The commands would otherwise end with 11 at once.
    place.write("key", noise(6, 100_000))?;
    place.commit("key")?;
    for (lock, args) in [
        ("freeing", &["gc", "--grace", "0"][..]),
        ("freeing", &["repack"]),
        ("keeping", &["expire"]),
        ("keeping", &["op", "expire", "--older", "90d"]),
        ("keeping", &["purge", "key", "--reason", "leaked"]),
    ] {
        let lock = fs::File::options()
            .create(true)
            .append(true)
            .open(place.work().join(".dmv").join(lock))?;
        lock.try_lock()?;
        let mut command = place.command(args);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(150) {
            let ended = child.try_wait()?;
            assert_eq!(ended, None, "{args:?} does not wait");
            std::thread::sleep(Duration::from_millis(20));
        }
        drop(lock);
        assert!(child.wait()?.success(), "{args:?}");
    }

    // Damage frees nothing and says how to mend it.
    for entry in fs::read_dir(place.work().join(".dmv/packs"))? {
        let path = entry?.path();
        let bytes = fs::read(&path)?;
        // The meta pack: its frames have trees, and its index comes last.
        if bytes.get(10) == Some(&2) {
            let mut bytes = bytes;
            let at = bytes.windows(4).position(|window| window == b"DMVr");
            bytes[at.ok_or("a record")? + 60] ^= 1;
            fs::write(path, bytes)?;
        }
    }
    let before = stored(&place)?;
    let refused = place.fails(7, &["gc", "--grace", "0"])?;
    assert!(refused.contains("error: nothing was freed: "), "{refused}");
    assert!(refused.contains("hint: dmv verify --heal"), "{refused}");
    assert_eq!(stored(&place)?, before);
    Ok(())
}
