//! Clones that share the packs of their source.

// A test that is left out says why.
#![allow(clippy::print_stdout)]

use crate::place::files::exists;
use crate::place::{Outcome, Place, has_strace};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;

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

#[test]
fn what_cannot_be_shared_or_shall_not_be_is_copied() -> Outcome {
    let place = place()?;
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

/// Some of its packs are there then, and nothing lists them.
#[test]
fn a_clone_that_was_killed_while_it_shared_packs_continues() -> Outcome {
    if !has_strace() {
        writeln!(std::io::stderr(), "skipped: strace is not installed")?;
        return Ok(());
    }
    let place = place()?;
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
