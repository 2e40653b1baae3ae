//! Clones that share the packs of their source.

// A test that is left out says why.
#![allow(clippy::print_stdout)]

use crate::place::files::exists;
use crate::place::{Outcome, Place, has_strace};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

/// A directory with the repository `from`: some large and small files in two commits.
fn place() -> Outcome<Place> {
    let place = Place::new()?;
    place.ok(&["init", "from"])?;
    for n in 0..5_u32 {
        let noise: Vec<u8> = (0..40_000_u32)
            .map(|i| (i.wrapping_mul(2_654_435_761 + 2 * n) >> 13) as u8)
            .collect();
        place.write(format!("from/large{n}"), noise)?;
        place.write(format!("from/small{n}"), n.to_string())?;
        commit(&place, "from", &n.to_string())?;
    }
    Ok(place)
}

fn commit(place: &Place, repo: &str, message: &str) -> Outcome {
    place.ok(&["-C", repo, "commit", "-m", message])?;
    Ok(())
}

fn is_sound(place: &Place, repo: &str) -> Outcome {
    let report = place.json(&["-C", repo, "verify", "--full", "--json"])?;
    assert_eq!(report["ok"], true, "{repo}: {report}");
    Ok(())
}

/// The number of names of each pack in `dmv`, by its inode.
fn packs(place: &Place, dmv: &str) -> Outcome<BTreeMap<u64, u64>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(place.work().join(dmv).join("packs"))? {
        let meta = entry?.metadata()?;
        found.insert(meta.ino(), meta.nlink());
    }
    Ok(found)
}

/// How many pack files two repositories both use. File systems with reflinks have none.
fn common(place: &Place, a: &str, b: &str) -> Outcome<usize> {
    let (a, b) = (packs(place, a)?, packs(place, b)?);
    Ok(a.keys().filter(|ino| b.contains_key(ino)).count())
}

fn log(place: &Place, repo: &str) -> Outcome<usize> {
    Ok(place.records(&["-C", repo, "log", "--json"])?.len())
}

#[test]
fn a_clone_shares_packs_and_each_side_goes_on_by_itself() -> Outcome {
    let place = place()?;
    let cloned = place.json(&["clone", "from", "to", "--json"])?;
    assert!(cloned["shared"].as_u64() > Some(20_000), "{cloned}");
    assert!(cloned["bytes_received"].as_u64() < Some(10_000), "{cloned}");
    assert_eq!(cloned["files"], 10);
    let again = common(&place, "from/.dmv", "to/.dmv")?;
    assert!(again == 2 || again == 0, "{again}");
    // Both append, and neither touches what the other one has.
    for n in 0..3 {
        for repo in ["from", "to"] {
            place.write(
                format!("{repo}/{repo}{n}"),
                format!("{repo} {n}").repeat(500),
            )?;
            commit(&place, repo, "more")?;
        }
    }
    for repo in ["from", "to"] {
        is_sound(&place, repo)?;
        assert_eq!(log(&place, repo)?, 8);
    }
    place.ok(&["-C", "to", "pull", "-m", "both"])?;
    place.ok(&["-C", "to", "push"])?;
    place.ok(&["-C", "from", "checkout", "main", "--force"])?;
    assert!(exists(&place, "from/to2"));
    // A clone of the clone uses packs of both.
    place.ok(&["clone", "--bare", "to", "third"])?;
    let format = fs::read_to_string(place.work().join("third/format"))?;
    assert_eq!(format.matches("packs-of ").count(), 2, "{format}");
    is_sound(&place, "third")?;
    // What one frees or loses is nothing to the others.
    place.ok(&["-C", "to", "rm", "large0"])?;
    commit(&place, "to", "without")?;
    place.ok(&["-C", "to", "gc", "--grace", "0"])?;
    is_sound(&place, "to")?;
    is_sound(&place, "from")?;
    fs::remove_dir_all(place.work().join("from"))?;
    is_sound(&place, "to")?;
    is_sound(&place, "third")?;
    Ok(())
}

#[test]
fn a_clone_that_shares_packs_is_recovered_from_them() -> Outcome {
    let place = place()?;
    place.ok(&["clone", "from", "to"])?;
    place.write("to/new", "new")?;
    commit(&place, "to", "new")?;
    let dmv = place.work().join("to/.dmv");
    let before = packs(&place, "from/.dmv")?;
    let theirs = || -> Outcome<Vec<Vec<u8>>> {
        let mut all = Vec::new();
        for pack in fs::read_dir(place.work().join("from/.dmv/packs"))? {
            all.push(fs::read(pack?.path())?);
        }
        all.sort();
        Ok(all)
    };
    let untouched = theirs()?;
    for lost in [&["refs.db", "refs.db-wal", "refs.db-shm"][..], &["format"]] {
        for name in lost {
            let _ = fs::remove_file(dmv.join(name));
        }
        let report = place.json(&["-C", "to", "recover", "--json"])?;
        assert_eq!(report["foreign"], serde_json::json!([]), "{report}");
        is_sound(&place, "to")?;
        assert_eq!(log(&place, "to")?, 6);
        // Recovery writes into no pack of the source, and later commits do not either.
        place.write("to/new", format!("{lost:?}"))?;
        commit(&place, "to", "later")?;
        place.ok(&["-C", "to", "reset", "--hard", "@~1"])?;
        assert_eq!(theirs()?, untouched);
        assert_eq!(packs(&place, "from/.dmv")?, before);
    }
    is_sound(&place, "from")
}

/// The bytes of all packs of a repository, by name.
/// The bytes that packs of several repositories take on the disk: each file counts once.
fn on_disk(place: &Place, repos: &[&str]) -> Outcome<u64> {
    let mut files = BTreeMap::new();
    for repo in repos {
        for entry in fs::read_dir(place.work().join(repo).join(".dmv/packs"))? {
            let meta = entry?.metadata()?;
            files.insert(meta.ino(), meta.len());
        }
    }
    Ok(files.values().sum())
}

#[test]
fn what_another_repository_uses_as_well_does_not_count_as_freed() -> Outcome {
    let place = place()?;
    // Versions that expire, alone and beside what stays, and garbage.
    for n in 5..8_u32 {
        place.write("from/take", noise(n, 400_000))?;
        commit(&place, "from", "take")?;
    }
    place.ok(&["clone", "from", "copy"])?;
    place.ok(&["clone", "from", "other"])?;
    let both = ["from", "copy"];
    if common(&place, "from/.dmv", "copy/.dmv")? == 0 {
        println!("this file system has reflinks");
        return Ok(());
    }
    let before = on_disk(&place, &both)?;
    place.ok(&["-C", "copy", "keep", "set", "take", "last:1"])?;
    let text = place.ok(&["-C", "copy", "expire", "--last-copy"])?;
    assert!(text.contains("freed now: 0 B"), "{text}");
    let line = text
        .lines()
        .find(|line| line.starts_with("not freed yet: 7"));
    let is_told = line.is_some_and(|line| {
        line.ends_with(" KiB, in packs that another repository on this disk also uses")
    });
    assert!(is_told, "{text}");
    assert!(on_disk(&place, &both)? >= before);
    is_sound(&place, "copy")?;

    place.ok(&["-C", "other", "reset", "--hard", "@~3"])?;
    place.ok(&["-C", "other", "remote", "remove", "origin"])?;
    place.ok(&["-C", "other", "op", "expire", "--older", "0d"])?;
    let dry = place.json(&["-C", "other", "gc", "--grace", "0", "--dry-run", "--json"])?;
    let output = place.run(&["-C", "other", "gc", "--grace", "0"])?;
    let said = String::from_utf8(output.stderr)?;
    assert!(
        said.contains("until no other repository on this disk uses"),
        "{said}"
    );
    assert!(dry["linked_bytes"].as_u64() > Some(1_100_000), "{dry}");
    assert!(dry["freed_bytes"].as_u64() < Some(100_000), "{dry}");
    is_sound(&place, "other")?;
    is_sound(&place, "from")?;
    Ok(())
}

fn noise(seed: u32, len: usize) -> Vec<u8> {
    let mut state = u64::from(seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let word = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    std::iter::repeat_with(word).take(len).collect()
}

fn bytes_of_packs(place: &Place, dmv: &str) -> Outcome<BTreeMap<String, Vec<u8>>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(place.work().join(dmv).join("packs"))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        found.insert(name, fs::read(entry.path())?);
    }
    Ok(found)
}

fn format_of(place: &Place, dmv: &str) -> Outcome<String> {
    Ok(fs::read_to_string(place.work().join(dmv).join("format"))?)
}

/// The id of a repository, which is also the name of its log pack.
fn id_of(place: &Place, dmv: &str) -> Outcome<String> {
    let format = format_of(place, dmv)?;
    let id = format.lines().find_map(|line| line.strip_prefix("id "));
    Ok(id.ok_or("a format names an id")?.to_owned())
}

#[test]
fn recovery_does_not_publish_what_the_source_threw_away() -> Outcome {
    let place = place()?;
    place.write("from/secret", "a password")?;
    place.ok(&["-C", "from", "stash"])?;
    place.write("from/wrong", "wrong")?;
    commit(&place, "from", "wrong")?;
    place.ok(&["-C", "from", "commit", "--amend", "-m", "right"])?;
    place.ok(&["clone", "from", "to"])?;
    place.write("to/own", "own")?;
    commit(&place, "to", "own")?;
    let dmv = place.work().join("to/.dmv");
    let lose_database = || {
        for name in ["refs.db", "refs.db-wal", "refs.db-shm"] {
            let _ = fs::remove_file(dmv.join(name));
        }
    };
    lose_database();
    let report = place.json(&["-C", "to", "recover", "--json"])?;
    assert_eq!(report["found"], serde_json::json!([]), "{report}");
    assert_eq!(log(&place, "to")?, 7);
    // A commit of its own is found, as in any repository.
    let path = dmv.join(format!("packs/{}.pack", id_of(&place, "to/.dmv")?));
    let before = fs::read(&path)?;
    place.write("to/own", "more")?;
    commit(&place, "to", "lost")?;
    fs::write(&path, before)?;
    lose_database();
    let report = place.json(&["-C", "to", "recover", "--json"])?;
    let found = report["found"].as_array().ok_or("a list")?;
    assert_eq!(found.len(), 1, "{report}");
    // If nothing shows any more what the clone has named, all that is here gets a name.
    lose_database();
    fs::remove_file(&path)?;
    let report = place.json(&["-C", "to", "recover", "--json"])?;
    let found = report["found"].as_array().ok_or("a list")?;
    assert!(found.len() >= 3, "{report}");
    Ok(())
}

#[test]
fn a_clone_without_format_and_log_does_not_become_its_source() -> Outcome {
    let place = place()?;
    let source = id_of(&place, "from/.dmv")?;
    for (name, is_damaged) in [("lost", false), ("damaged", true)] {
        place.ok(&["clone", "from", name])?;
        let dmv = format!("{name}/.dmv");
        let own = id_of(&place, &dmv)?;
        let before = bytes_of_packs(&place, "from/.dmv")?;
        let log_pack = place.work().join(format!("{dmv}/packs/{own}.pack"));
        if is_damaged {
            let mut bytes = fs::read(&log_pack)?;
            bytes[..8].fill(b'X');
            fs::write(&log_pack, bytes)?;
        } else {
            fs::remove_file(&log_pack)?;
        }
        fs::remove_file(place.work().join(format!("{dmv}/format")))?;
        place.ok(&["-C", name, "recover"])?;
        let now = id_of(&place, &dmv)?;
        assert_ne!(now, source);
        // The name of the log pack shows the id, too.
        assert_eq!(now == own, is_damaged);
        assert_eq!(log(&place, name)?, 5);
        place.write(format!("{name}/new"), "new")?;
        commit(&place, name, "new")?;
        assert_eq!(bytes_of_packs(&place, "from/.dmv")?, before);
        place.ok(&["-C", name, "verify", "--full"])?;
        is_sound(&place, "from")?;
    }
    Ok(())
}

/// Not even by the repository that has written it: the other one may have its id, as a copy of the whole
/// directory has.
#[test]
fn nothing_is_appended_to_a_pack_with_other_names() -> Outcome {
    let place = place()?;
    let dmv = place.work().join("from/.dmv");
    let backup = place.work().join("backup/packs");
    fs::create_dir_all(&backup)?;
    let own = format!("{}.pack", id_of(&place, "from/.dmv")?);
    for entry in fs::read_dir(dmv.join("packs"))? {
        let entry = entry?;
        if entry.file_name() != *own {
            fs::hard_link(entry.path(), backup.join(entry.file_name()))?;
        }
    }
    let before = bytes_of_packs(&place, "backup")?;
    place.write("from/new", "new")?;
    commit(&place, "from", "new")?;
    fs::remove_file(dmv.join("refs.db"))?;
    place.ok(&["-C", "from", "recover"])?;
    assert_eq!(bytes_of_packs(&place, "backup")?, before);
    is_sound(&place, "from")?;
    // With its only name, a pack is continued as before.
    fs::remove_dir_all(&backup)?;
    let count = || -> Outcome<usize> { Ok(bytes_of_packs(&place, "from/.dmv")?.len()) };
    let packs = count()?;
    place.write("from/new", "newer")?;
    commit(&place, "from", "newer")?;
    assert_eq!(count()?, packs);
    is_sound(&place, "from")
}

/// An index that got lost is not appended there either: its objects are stored once more.
#[test]
fn a_pack_with_other_names_is_recovered_beside_it() -> Outcome {
    let place = place()?;
    place.ok(&["clone", "from", "to"])?;
    let dmv = place.work().join("from/.dmv");
    let own = format!("{}.pack", id_of(&place, "from/.dmv")?);
    for (name, mut bytes) in bytes_of_packs(&place, "from/.dmv")? {
        if name != own {
            // The trailer of the last segment.
            let end = bytes.len();
            bytes[end - 8..].fill(0);
            fs::write(dmv.join("packs").join(name), bytes)?;
        }
    }
    fs::remove_file(dmv.join("refs.db"))?;
    let before = bytes_of_packs(&place, "from/.dmv")?;
    place.ok(&["-C", "from", "recover"])?;
    let after = bytes_of_packs(&place, "from/.dmv")?;
    for (name, bytes) in before.iter().filter(|(name, _)| **name != own) {
        assert_eq!(after.get(name), Some(bytes));
    }
    place.ok(&["-C", "from", "export", "main", "--to", "out"])?;
    assert_eq!(log(&place, "from")?, 5);
    Ok(())
}

#[test]
fn recovery_mends_the_header_of_a_shared_pack_in_a_copy() -> Outcome {
    let place = place()?;
    place.ok(&["clone", "from", "to"])?;
    let own = format!("{}.pack", id_of(&place, "from/.dmv")?);
    let damage = || -> Outcome {
        for (name, mut bytes) in bytes_of_packs(&place, "from/.dmv")? {
            if name != own {
                bytes[..32].fill(0);
                fs::write(place.work().join("from/.dmv/packs").join(name), bytes)?;
            }
        }
        Ok(())
    };
    damage()?;
    let damaged = bytes_of_packs(&place, "from/.dmv")?;
    if common(&place, "from/.dmv", "to/.dmv")? == 0 {
        dmv_random::skip("the file system has reflinks");
        return Ok(());
    }
    place.fails(7, &["-C", "to", "verify"])?;
    place.ok(&["-C", "to", "recover"])?;
    is_sound(&place, "to")?;
    assert_eq!(bytes_of_packs(&place, "from/.dmv")?, damaged);
    assert_eq!(common(&place, "from/.dmv", "to/.dmv")?, 0);
    for name in ["to", "from"] {
        place.ok(&["-C", name, "recover"])?;
        place.write(format!("{name}/new"), "new")?;
        commit(&place, name, "new")?;
        is_sound(&place, name)?;
        assert_eq!(log(&place, name)?, 6);
    }
    Ok(())
}

/// The clone fails after it has shared packs: one of them is damaged, and nobody knew.
#[test]
fn a_clone_that_failed_or_was_killed_while_it_shared_packs_continues() -> Outcome {
    // The clone fails after it has shared packs: one of them is damaged, and nobody knew. It goes on as it began.
    let place = place()?;
    let dmv = place.work().join("from/.dmv");
    let own = format!("{}.pack", id_of(&place, "from/.dmv")?);
    let sound = bytes_of_packs(&place, "from/.dmv")?;
    for (name, bytes) in sound.iter().filter(|(name, _)| **name != own) {
        let mut bytes = bytes.clone();
        let middle = bytes.len() / 2;
        bytes[32..middle].fill(0x55);
        fs::write(dmv.join("packs").join(name), bytes)?;
    }
    let refused = place.fails(7, &["clone", "from", "to"])?;
    assert!(refused.contains("in a file of the source"), "{refused}");
    assert!(!refused.contains("not in the remote"), "{refused}");
    assert!(refused.contains("dmv -C to verify --heal"), "{refused}");
    assert!(exists(&place, "to/.dmv/clone"));
    for (name, bytes) in &sound {
        fs::write(dmv.join("packs").join(name), bytes)?;
    }
    let refused = place.fails(5, &["clone", "--copy", "from", "to"])?;
    assert!(refused.contains("begun without --copy"), "{refused}");
    let cloned = place.json(&["clone", "from", "to", "--json"])?;
    assert!(cloned["shared"].as_u64() > Some(20_000), "{cloned}");

    is_sound(&place, "to")?;
    // One that was killed continues, too. Some packs are there then, and nothing lists them.
    if !has_strace() {
        dmv_random::skip("strace is not installed");
        return Ok(());
    }
    for kill_at in 1..=3 {
        let name = format!("cut{kill_at}");
        let args = ["clone", "from", &name];
        let spec = format!("inject=link,linkat:signal=KILL:when={kill_at}");
        let options = ["-f", "-e", "trace=link,linkat", "-e", &spec];
        if !place.traced(&options, &args).output()?.status.success() {
            place.ok(&args)?;
        }
        is_sound(&place, &name)?;
        assert_eq!(log(&place, &name)?, 5);
        assert!(exists(&place, &format!("{name}/large4")));
    }
    Ok(())
}

#[test]
fn what_cannot_be_shared_is_copied_and_a_bare_clone_writes_no_files() -> Outcome {
    let place = place()?;
    // A bare clone has written no files.
    let said = place.ok(&["clone", "--bare", "from", "bare"])?;
    assert!(said.contains("cloned into bare\n"), "{said}");

    // Files that others may write to are copied.
    let packs = place.work().join("from/.dmv/packs");
    let mut all = Vec::new();
    for entry in fs::read_dir(&packs)? {
        let path = entry?.path();
        if path != packs.join(format!("{}.pack", id_of(&place, "from/.dmv")?)) {
            all.push(path);
        }
    }
    let one = all.first().ok_or("there are packs")?;
    let is_copied = |name: &str| -> Outcome {
        let cloned = place.json(&["clone", "from", name, "--json"])?;
        assert_eq!(cloned["shared"], 0, "{cloned}");
        let dmv = format!("{name}/.dmv");
        assert_eq!(common(&place, "from/.dmv", &dmv)?, 0);
        assert!(format_of(&place, &dmv)?.starts_with("dmv-repository 1\n"));
        is_sound(&place, name)
    };
    for mode in [0o664, 0o646] {
        fs::set_permissions(one, fs::Permissions::from_mode(mode))?;
        is_copied(&format!("mode{mode:o}"))?;
    }
    fs::set_permissions(one, fs::Permissions::from_mode(0o644))?;
    // The administrator could use everybody's files, and their owner could still change them.
    if std::os::unix::fs::chown(one, Some(65534), None).is_ok() {
        is_copied("owned")?;
        std::os::unix::fs::chown(one, Some(0), None)?;
    }
    assert_ne!(
        place.json(&["clone", "from", "again", "--json"])?["shared"],
        0
    );

    // What cannot be shared or shall not be is copied.
    let full = place.json(&["clone", "--copy", "from", "copy", "--json"])?;
    assert_eq!(full["shared"], 0);
    assert_eq!(common(&place, "from/.dmv", "copy/.dmv")?, 0);
    let format = fs::read_to_string(place.work().join("copy/.dmv/format"))?;
    assert!(format.starts_with("dmv-repository 1\n"), "{format}");
    // Not a part, and not from a part.
    let part = place.json(&["clone", "from", "part", "--subset", "small*", "--json"])?;
    assert_eq!(part["shared"], 0);
    let other = place.json(&["clone", "part", "other", "--subset", "small*", "--json"])?;
    assert_eq!(other["shared"], 0);
    // Not from a source that is known to be damaged: what is sound is copied, the rest is said.
    let packs = place.work().join("from/.dmv/packs");
    let mut largest: Vec<_> = fs::read_dir(packs)?.collect::<Result<_, _>>()?;
    largest.sort_by_key(|pack| pack.metadata().map_or(0, |meta| meta.len()));
    let path = largest.last().ok_or("there are packs")?.path();
    let mut content = fs::read(&path)?;
    content[1000] ^= 1;
    fs::write(&path, content)?;
    place.fails(7, &["-C", "from", "verify", "--full"])?;
    place.fails(7, &["clone", "from", "broken"])?;
    // An older dmv refuses what it cannot know.
    place.ok(&["clone", "copy", "shared"])?;
    let format = place.work().join("shared/.dmv/format");
    let text = fs::read_to_string(&format)?;
    assert!(text.starts_with("dmv-repository 2\n"), "{text}");
    fs::write(&format, text.replace("repository 2", "repository 3"))?;
    place.fails(14, &["-C", "shared", "status"])?;
    Ok(())
}

#[test]
fn remotes_that_are_away_or_were_replaced_are_named() -> Outcome {
    let place = place()?;
    // A sync names each of several remotes.
    for name in ["disk", "nas"] {
        place.ok(&["clone", "--bare", "from", name])?;
        let url = place.work().join(name);
        place.ok(&["-C", "from", "remote", "add", name, &url.to_string_lossy()])?;
    }
    place.write("from/new", "new")?;
    commit(&place, "from", "new")?;
    let said = place.ok(&["-C", "from", "sync"])?;
    assert!(
        said.contains(" on disk\n") && said.contains(" on nas\n"),
        "{said}"
    );
    // With the remotes away, no push helps.
    for name in ["disk", "nas"] {
        fs::remove_dir_all(place.work().join(name))?;
    }
    let said = place.fails(5, &["-C", "from", "drop", "large0"])?;
    assert!(
        said.contains("dmv push, when disk or nas is reachable"),
        "{said}"
    );

    // The status after a replaced remote branch hints what a pull would.
    place.ok(&["clone", "from", "to"])?;
    place.ok(&["-C", "from", "commit", "--amend", "-m", "other"])?;
    place.ok(&["-C", "to", "fetch"])?;
    place.fails(5, &["-C", "to", "pull"])?;
    let said = place.ok(&["-C", "to", "status"])?;
    assert!(said.contains("dmv pull --reset"), "{said}");
    Ok(())
}
