//! `verify --heal`: what is damaged or lost comes back from remotes and files, in one run.

use crate::place::several::{commit, several, tip};
use crate::place::{Outcome, Place};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

/// `film` with directories in directories, a file of several chunks and two commits; `copy` is a bare
/// clone of it.
fn place() -> Outcome<Place> {
    let place = several()?;
    let large: Vec<u8> = (0..400_000u32).flat_map(u32::to_le_bytes).collect();
    place.write("film/deep/deeper/large", large)?;
    place.ok(&["-C", "film", "commit", "-m", "second"])?;
    place.write("film/deep/deeper/small", "as in the third")?;
    place.ok(&["-C", "film", "commit", "-m", "third"])?;
    place.ok(&["clone", "--copy", "film", "copy", "--bare"])?;
    Ok(place)
}

/// The packs of objects of a bare repository.
fn packs(place: &Place, repo: &str) -> Outcome<Vec<PathBuf>> {
    let dir = place.work().join(repo);
    let format = fs::read_to_string(dir.join("format"))?;
    let id = format.lines().find_map(|line| line.strip_prefix("id "));
    let log = format!("{}.pack", id.ok_or("it has an id")?);
    let mut packs = Vec::new();
    for entry in fs::read_dir(dir.join("packs"))? {
        let entry = entry?;
        if entry.file_name() != log.as_str() {
            packs.push(entry.path());
        }
    }
    Ok(packs)
}

/// Runs `verify --heal` and returns its exit code and document.
fn heal(place: &Place, repo: &str) -> Outcome<(Option<i32>, Value)> {
    let output = place.run(&["-C", repo, "verify", "--heal", "--json"])?;
    let document = serde_json::from_slice(&output.stdout)?;
    Ok((output.status.code(), document))
}

/// How many of the objects listed are of a type.
fn of_type(list: &Value, ty: &str) -> usize {
    let items = list.as_array().map_or(&[][..], Vec::as_slice);
    items.iter().filter(|item| item["type"] == ty).count()
}

fn is_like_film(place: &Place, repo: &str) -> Outcome {
    let _ = fs::remove_dir_all(place.work().join("out"));
    place.ok(&[
        "-C",
        repo,
        "export",
        "main",
        "--to",
        place.work().join("out").to_str().ok_or("a name")?,
    ])?;
    for file in ["deep/deeper/large", "deep/deeper/small", "shots/7"] {
        let (ours, theirs) = (format!("out/{file}"), format!("film/{file}"));
        let (ours, theirs) = (place.work().join(ours), place.work().join(theirs));
        assert_eq!(fs::read(ours)?, fs::read(theirs)?, "{file}");
    }
    Ok(())
}

/// Within each frame, and in none of the indexes at the end.
fn damage_all_frames(place: &Place, repo: &str) -> Outcome {
    for pack in packs(place, repo)? {
        let mut bytes = fs::read(&pack)?;
        let index = bytes.windows(5).position(|w| w == b"DMVr\x02");
        let frames = index.ok_or("an index")?;
        (120..frames).step_by(60).for_each(|at| bytes[at] ^= 0x10);
        fs::write(&pack, bytes)?;
    }
    Ok(())
}

#[test]
fn the_worktree_and_remotes_give_what_they_have_and_the_rest_is_named() -> Outcome {
    // What directories of the worktree need comes back though they cannot be read.
    let place = place()?;
    place.ok(&["clone", "--copy", "film", "work"])?;
    // In a segment of its own: the commit and the root directory are not among the damage.
    place.write("work/top", "of work")?;
    place.ok(&["-C", "work", "commit", "-m", "fourth"])?;
    fs::remove_file(place.work().join("work/deep/deeper/large"))?;
    place.write("work/deep/untracked", "mine")?;
    damage_all_frames(&place, "work/.dmv")?;
    place.fails(7, &["-C", "work", "verify"])?;
    let (exit, healed) = heal(&place, "work")?;
    assert_eq!(exit, Some(0), "{healed}");
    for (from, least) in [("worktree", 1), ("peer", 3)] {
        let items = healed["healed"].as_array().ok_or("a list")?;
        let found = items.iter().filter(|item| item["from"] == from).count();
        assert!(found >= least, "{found} from {from}: {healed}");
    }
    is_like_film(&place, "work")?;
    place.ok(&["-C", "work", "verify", "--full"])?;

    // What nobody has is named with what needs it.
    place.ok(&["clone", "--copy", "film", "other"])?;
    commit(&place, "other", "own")?;
    fs::remove_file(place.work().join("other/own"))?;
    let own = tip(&place, "other", "main")?;
    let theirs = tip(&place, "film", "main")?;
    for pack in packs(&place, "other/.dmv")? {
        fs::write(&pack, &fs::read(&pack)?[..64])?;
    }
    place.ok(&["-C", "other", "recover"])?;
    let (exit, left) = heal(&place, "other")?;
    assert_eq!(exit, Some(7), "{left}");
    let missing = left["missing"].as_array().ok_or("a list")?;
    assert_eq!(missing.len(), 1, "{left}");
    assert_eq!(missing[0]["id"], own.as_str());
    let refs = missing[0]["refs"].to_string();
    assert!(refs.contains("branch/main"), "{refs}");
    // What the remote's branch names is whole, all of it.
    place.ok(&["-C", "other", "cat", &format!("{theirs}:deep/deeper/small")])?;
    assert!(of_type(&left["healed"], "chunk") > 20, "{left}");
    let said = place.run(&["-C", "other", "verify", "--heal"])?;
    let said = String::from_utf8(said.stdout)?;
    assert!(said.contains("needed by branch/main"), "{said}");
    Ok(())
}

#[test]
fn damaged_trees_come_back_with_the_damaged_content_below_them() -> Outcome {
    let place = place()?;
    damage_all_frames(&place, "copy")?;
    place.fails(7, &["-C", "copy", "verify"])?;
    let (exit, healed) = heal(&place, "copy")?;
    assert_eq!(exit, Some(0), "{healed}");
    assert!(of_type(&healed["healed"], "tree") >= 6, "{healed}");
    assert!(of_type(&healed["healed"], "chunk") > 5, "{healed}");
    let items = healed["healed"].as_array().ok_or("a list")?;
    let list = items.iter().find(|item| item["type"] == "list");
    let list = list.ok_or("a list was damaged")?;
    assert_eq!(list["paths"][0], "deep/deeper/large");
    assert_eq!(list["commits"][0], tip(&place, "film", "main")?.as_str());
    is_like_film(&place, "copy")
}

#[test]
fn what_is_lost_comes_back_with_what_lies_below_it() -> Outcome {
    let place = place()?;
    // Nobody is asked where that is not wanted.
    for pack in packs(&place, "copy")? {
        fs::write(&pack, &fs::read(&pack)?[..64])?;
    }
    place.ok(&["-C", "copy", "recover"])?;
    let said = place.fails(7, &["-C", "copy", "--offline", "verify", "--heal"])?;
    assert!(said.contains("offline: origin was not asked"), "{said}");

    // A remote that does not answer is named and passed over.
    fs::rename(place.work().join("film"), place.work().join("away"))?;
    let said = place.fails(7, &["-C", "copy", "verify", "--heal"])?;
    assert!(said.contains("origin was skipped"), "{said}");
    place.ok(&["-C", "copy", "remote", "add", "there", "../away"])?;
    place.ok(&["-C", "copy", "verify", "--heal"])?;

    fs::rename(place.work().join("away"), place.work().join("film"))?;
    place.ok(&["-C", "copy", "remote", "remove", "there"])?;
    // What lies below lost commits and trees is healed in the same run.
    // Nothing is left but refs, and nothing is known of what is lost.
    for pack in packs(&place, "copy")? {
        fs::write(&pack, &fs::read(&pack)?[..64])?;
    }
    place.ok(&["-C", "copy", "recover"])?;
    let said = place.fails(7, &["-C", "copy", "verify"])?;
    assert!(said.contains("hint: dmv verify --heal"), "{said}");
    let (exit, healed) = heal(&place, "copy")?;
    assert_eq!(exit, Some(0), "{healed}");
    let list = &healed["healed"];
    assert_eq!(of_type(list, "commit"), 3, "{list}");
    assert!(
        of_type(list, "tree") >= 6 && of_type(list, "list") >= 1,
        "{list}"
    );
    assert!(of_type(list, "chunk") > 20, "{list}");
    let items = list.as_array().ok_or("a list")?;
    assert!(
        items
            .iter()
            .all(|item| item["from"] == "peer" && item["peer"] == "origin")
    );
    is_like_film(&place, "copy")?;
    let again = place.json(&["-C", "copy", "verify", "--heal", "--json"])?;
    assert_eq!(again["healed"], Value::Array(Vec::new()));

    // A lost pack is told once. Its objects come back into other packs, and it stays listed until a recovery.
    place.ok(&["-C", "film", "remote", "add", "copy", "../copy"])?;
    let mut packs = Vec::new();
    for entry in fs::read_dir(place.work().join("film/.dmv/packs"))? {
        let entry = entry?;
        packs.push((entry.metadata()?.len(), entry.path()));
    }
    let (_, largest) = packs.iter().max().ok_or("there are packs")?;
    fs::remove_file(largest)?;
    let verify = |args: &[&str]| -> Outcome<(Option<i32>, String, String)> {
        let output = place.run(&[&["-C", "film", "verify"], args].concat())?;
        let (out, err) = (
            String::from_utf8(output.stdout)?,
            String::from_utf8(output.stderr)?,
        );
        Ok((output.status.code(), out, err))
    };
    let (exit, out, err) = verify(&[])?;
    assert_eq!(exit, Some(7), "{out}");
    assert_eq!(out.matches("damaged: pack ").count(), 1, "{out}");
    assert!(err.contains("hint: dmv verify --heal"), "{err}");
    let (exit, out, _) = verify(&["--heal"])?;
    assert_eq!(exit, Some(0), "{out}");
    assert_eq!(out.matches("healed: the missing pack ").count(), 1, "{out}");
    place.ok(&["-C", "film", "recover"])?;
    assert_eq!(verify(&[])?.0, Some(0));
    Ok(())
}

/// Flips a bit where `content` lies in a pack.
fn damage(place: &Place, repo: &str, content: &[u8]) -> Outcome {
    for pack in packs(place, repo)? {
        let mut bytes = fs::read(&pack)?;
        let at = bytes.windows(content.len()).position(|w| w == content);
        if let Some(at) = at {
            bytes[at] ^= 0x10;
            fs::write(&pack, bytes)?;
        }
    }
    Ok(())
}

/// Content that is not compressed.
fn random(seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    };
    (0..20_000).map(|_| next()).collect()
}

/// More sessions end at damage than may in a row.
#[test]
fn a_remote_with_much_damage_gives_all_that_is_whole() -> Outcome {
    let place = place()?;
    let files: Vec<Vec<u8>> = (1..=80).map(random).collect();
    for (number, content) in files.iter().enumerate() {
        place.write(format!("film/random{number}"), content)?;
    }
    place.ok(&["-C", "film", "commit", "-m", "random"])?;
    place.ok(&["-C", "copy", "fetch"])?;
    for content in files.iter().step_by(2) {
        damage(&place, "film/.dmv", &content[..5000])?;
    }
    for pack in packs(&place, "copy")? {
        fs::write(&pack, &fs::read(&pack)?[..64])?;
    }
    place.ok(&["-C", "copy", "recover"])?;
    let (exit, left) = heal(&place, "copy")?;
    assert_eq!(exit, Some(7), "{left}");
    assert_eq!(left["missing"].as_array().map(Vec::len), Some(40), "{left}");
    Ok(())
}

/// Each of two remotes has one damaged file, and neither stops what the other has.
#[test]
fn remotes_that_are_damaged_themselves_help_as_far_as_they_can() -> Outcome {
    let place = place()?;
    let mut files = Vec::new();
    for seed in 1..=2u64 {
        let content = random(seed);
        place.write(format!("film/random{seed}"), &content)?;
        files.push(content);
    }
    place.ok(&["-C", "film", "commit", "-m", "random"])?;
    place.ok(&["-C", "copy", "fetch"])?;
    place.ok(&["clone", "--copy", "film", "second", "--bare"])?;
    damage(&place, "film/.dmv", &files[0][..5000])?;
    damage(&place, "second", &files[1][..5000])?;
    for pack in packs(&place, "copy")? {
        fs::write(&pack, &fs::read(&pack)?[..64])?;
    }
    place.ok(&["-C", "copy", "recover"])?;
    let (exit, left) = heal(&place, "copy")?;
    assert_eq!(exit, Some(7), "{left}");
    assert_eq!(left["missing"].as_array().map(Vec::len), Some(1), "{left}");
    assert_eq!(left["missing"][0]["paths"][0], "random1", "{left}");
    assert!(of_type(&left["healed"], "chunk") > 20, "{left}");
    let said = place.fails(7, &["-C", "copy", "verify", "--heal"])?;
    assert!(
        said.contains("origin is damaged, too; to check it: dmv -C"),
        "{said}"
    );
    place.ok(&["-C", "copy", "remote", "add", "second", "../second"])?;
    let (exit, healed) = heal(&place, "copy")?;
    assert_eq!(exit, Some(0), "{healed}");
    Ok(())
}
