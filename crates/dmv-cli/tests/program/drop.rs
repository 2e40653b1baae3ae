//! Freeing the space of files that others hold, as a user does it.

use crate::place::several::several;
use crate::place::{Outcome, Place};
use serde_json::Value;
use std::fs;

/// `film` with a directory of large files in packs of its own, and `nas`, which has everything.
fn place() -> Outcome<Place> {
    let place = several()?;
    // Whoever holds the locks of all packs makes a commit begin new ones.
    let _locks = lock_packs(&place, "film")?;
    for name in ["raw/a.mov", "raw/b.mov"] {
        let large: Vec<u8> = (0..400_000u32)
            .flat_map(|n| {
                (n.wrapping_mul(name.len() as u32 + u32::from(name.as_bytes()[4]))).to_le_bytes()
            })
            .collect();
        place.write(format!("film/{name}"), large)?;
    }
    place.ok(&["-C", "film", "commit", "-m", "raw"])?;
    place.ok(&["clone", "--copy", "--bare", "film", "nas"])?;
    place.ok(&["-C", "film", "remote", "add", "nas", "../nas"])?;
    Ok(place)
}

fn packs(place: &Place, repo: &str) -> Outcome<Vec<std::path::PathBuf>> {
    let entries = fs::read_dir(place.work().join(repo).join(".dmv/packs"))?;
    Ok(entries
        .map(|e| e.map(|e| e.path()))
        .collect::<Result<_, _>>()?)
}

/// Holds the locks of all packs, as a command does that writes to them.
fn lock_packs(place: &Place, repo: &str) -> Outcome<Vec<fs::File>> {
    let mut locks = Vec::new();
    for path in packs(place, repo)? {
        let file = fs::File::options().append(true).open(path)?;
        // Programs that other tests of this process start have its files until they run: a lock
        // that was just dropped may be theirs for a moment.
        let mut tries = 0;
        while file.try_lock().is_err() && tries < 200 {
            tries += 1;
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        if tries == 200 {
            return Err("a pack stays locked".into());
        }
        locks.push(file);
    }
    Ok(locks)
}

fn stored(place: &Place, repo: &str) -> Outcome<u64> {
    let mut bytes = 0;
    for path in packs(place, repo)? {
        bytes += fs::metadata(path)?.len();
    }
    Ok(bytes)
}

fn absent(place: &Place, repo: &str) -> Outcome<u64> {
    let report = place.json(&["-C", repo, "verify", "--full", "--json"])?;
    assert_eq!(report["ok"], true, "{report}");
    Ok(report["absent"].as_u64().ok_or("it counts")?)
}

#[test]
fn dropped_files_free_space_come_back_and_are_fetched_where_they_are_needed() -> Outcome {
    let place = place()?;
    // Dropped files free space and come back.
    let before = stored(&place, "film")?;
    let done = place.json(&["-C", "film", "drop", "raw", "--json"])?;
    assert_eq!(done["files"], 2);
    assert_eq!(done["bytes"], 3_200_000);
    assert_eq!(done["peers"], serde_json::json!(["nas"]));
    assert_eq!(done["in_worktree"], 2);
    assert_eq!(done["why_not_freed"], Value::Null);
    let freed = done["freed_bytes"].as_u64().ok_or("freed")?;
    assert!(
        freed > 0 && stored(&place, "film")? == before - freed,
        "{done}"
    );
    assert!(absent(&place, "film")? > 2);
    assert_eq!(
        place.json(&["-C", "film", "status", "--json"])?["clean"],
        true
    );
    assert_eq!(
        place.ok(&["-C", "film", "drop", "raw"])?,
        "nothing to drop: this content is already absent\n"
    );

    // Away from the peer other files are as good as ever, and these are named.
    fs::rename(place.work().join("nas"), place.work().join("away"))?;
    place.ok(&["-C", "film", "checkout", "@~1"])?;
    let said = place.fails(6, &["-C", "film", "checkout", "main"])?;
    assert!(said.contains("'raw/a.mov', 'raw/b.mov'"), "{said}");
    fs::rename(place.work().join("away"), place.work().join("nas"))?;
    let got = place.json(&["-C", "film", "get", "main:raw", "--json"])?;
    assert_eq!(
        (&got["files"], &got["bytes"]),
        (&2.into(), &3_200_000.into())
    );
    assert_eq!(absent(&place, "film")?, 0);
    assert!(!place.work().join("film/.dmv/slice").exists());
    place.ok(&["-C", "film", "--offline", "checkout", "main"])?;
    place.ok(&["-C", "film", "recover"])?;
    assert_eq!(absent(&place, "film")?, 0);

    // A file that was shown whole is not dropped any more.
    place.ok(&["-C", "film", "drop", "raw/a.mov"])?;
    let dropped = || -> Outcome<serde_json::Value> {
        let status = place.json(&["-C", "film", "status", "--json"])?;
        Ok(status["partial"]["dropped"].clone())
    };
    let cat = |args: &[&str]| {
        let args = [&["-C", "film", "cat", "main:raw/a.mov"], args].concat();
        place.run(&args)
    };
    assert!(cat(&["--range", "0-10"])?.status.success());
    assert_eq!(dropped()?, 1);
    assert!(cat(&[])?.status.success());
    assert!(dropped()?.is_null());

    // A push of content that was dropped fetches it or names the file.
    place.ok(&["-C", "film", "drop", "raw/a.mov"])?;
    place.ok(&["init", "--bare", "disk"])?;
    let push = ["-C", "film", "push", "../disk", "main"];
    let said = place.fails(6, &[&["--offline"], &push[..]].concat())?;
    assert!(
        said.contains("'raw/a.mov' is absent") && said.contains("nas was not asked"),
        "{said}"
    );
    assert!(said.contains("hint: dmv get "), "{said}");
    // Otherwise the push fetches it first.
    place.ok(&push)?;
    place.ok(&["-C", "disk", "verify"])?;

    // Of a directory that is not here nothing is dropped.
    place.ok(&["clone", "nas", "part", "--subset", "raw"])?;
    assert_eq!(
        place.ok(&["-C", "part", "drop", "shots"])?,
        "nothing to drop: this content is already absent\n"
    );
    let done = place.json(&["-C", "part", "drop", "@:raw", "@:shots", "--json"])?;
    assert_eq!(done["files"], 2);
    // Nor is it looked for among what was dropped and has to come again.
    fs::rename(place.work().join("nas"), place.work().join("away"))?;
    let said = place.fails(6, &["-C", "part", "get", "shots", "raw"])?;
    assert!(said.contains("origin may have it"), "{said}");

    fs::rename(place.work().join("away"), place.work().join("nas"))?;
    // A drop of an older version does not say that the file stays in the worktree.
    place.write("film/raw/a.mov", "another version")?;
    place.ok(&["-C", "film", "commit", "-m", "other"])?;
    place.ok(&["-C", "film", "push", "nas"])?;
    let done = place.json(&["-C", "film", "drop", "@~1:raw/a.mov", "--json"])?;
    assert_eq!(
        (&done["files"], &done["in_worktree"]),
        (&1.into(), &0.into())
    );
    let done = place.json(&["-C", "film", "drop", "@:raw/b.mov", "--json"])?;
    assert_eq!(
        (&done["files"], &done["in_worktree"]),
        (&1.into(), &1.into())
    );
    Ok(())
}

#[test]
fn packs_in_use_damaged_copies_and_absent_peers_are_told() -> Outcome {
    let place = place()?;
    // A pack that cannot be freed now is told with the reason.
    let locks = lock_packs(&place, "film")?;
    let done = place.json(&["-C", "film", "drop", "raw/a.mov", "--json"])?;
    assert_eq!(done["freed_bytes"], 0, "{done}");
    assert!(done["waiting_bytes"].as_u64() > Some(0), "{done}");
    let why = done["why_not_freed"].as_str().ok_or("a reason")?;
    assert!(why.starts_with("another command is writing to "), "{why}");
    let output = place.run(&["-C", "film", "drop", "raw/b.mov"])?;
    let said = String::from_utf8(output.stderr)?;
    assert!(
        said.contains("warning: some packs could not be freed: another command is writing to "),
        "{said}"
    );
    // The next one frees what waits.
    drop(locks);
    let before = stored(&place, "film")?;
    place.ok(&["-C", "film", "drop", "shots/1"])?;
    assert!(stored(&place, "film")? + 100_000 < before);

    place.ok(&["-C", "film", "get", "raw", "shots"])?;
    // A damaged copy and an absent peer do not count.
    for path in fs::read_dir(place.work().join("nas/packs"))? {
        let path = path?.path();
        let mut bytes = fs::read(&path)?;
        if bytes.len() > 1 << 20 {
            let middle = bytes.len() / 2;
            bytes[middle..middle + 200_000].fill(7);
            fs::write(&path, bytes)?;
        }
    }
    place.fails(7, &["-C", "nas", "verify"])?;
    let said = place.fails(5, &["-C", "film", "drop", "raw"])?;
    assert!(said.contains("nas does not keep a copy"), "{said}");
    fs::remove_dir_all(place.work().join("nas"))?;
    let said = place.fails(5, &["-C", "film", "drop", "raw"])?;
    assert!(
        said.contains("nas did not answer (no repository at"),
        "{said}"
    );
    place.ok(&["-C", "film", "remote", "remove", "nas"])?;
    let said = place.fails(5, &["-C", "film", "drop", "raw"])?;
    assert!(said.contains("no remote is configured"), "{said}");
    assert_eq!(absent(&place, "film")?, 0);
    Ok(())
}

#[test]
fn what_could_be_the_last_copy_is_not_dropped() -> Outcome {
    let place = place()?;
    place.write("film/raw/c.mov", "not pushed yet")?;
    place.ok(&["-C", "film", "commit", "-m", "new"])?;
    let said = place.fails(5, &["-C", "film", "drop", "raw"])?;
    assert!(
        said.contains(
            "nothing was dropped: this may be the last copy of 'raw/c.mov'; nas does not keep a copy"
        ),
        "{said}"
    );
    let error: Value =
        serde_json::from_str(&place.fails(5, &["-C", "film", "drop", "raw", "--json"])?)?;
    assert_eq!(error["code"], "last-copy");
    assert_eq!(error["paths"], serde_json::json!([{"path": "raw/c.mov"}]));

    // A clone of the files is no copy of them if it gave them up, and this repository is none.
    place.ok(&["-C", "film", "remote", "add", "self", "../film"])?;
    let url = format!("ssh://here{}", place.work().join("film").display());
    place.ok(&["-C", "film", "remote", "add", "also-self", &url])?;
    let said = place.fails(5, &["-C", "film", "drop", "raw/c.mov"])?;
    assert!(said.contains("self is this repository itself"), "{said}");
    assert!(
        said.contains("also-self did not answer (the remote reports: another command is freeing"),
        "{said}"
    );
    place.ok(&["-C", "film", "push", "nas"])?;
    place.ok(&["clone", "nas", "lap"])?;
    place.ok(&["-C", "lap", "drop", "raw/c.mov"])?;
    place.ok(&["-C", "nas", "remote", "remove", "origin"])?;
    place.ok(&["-C", "nas", "remote", "add", "lap", "../lap"])?;
    let said = place.fails(5, &["-C", "nas", "drop", "raw"])?;
    assert!(
        said.contains("last copy of 'raw/c.mov'; lap does not keep a copy"),
        "{said}"
    );
    place.ok(&["-C", "nas", "drop", "raw/a.mov"])?;
    assert_eq!(absent(&place, "film")?, 0);
    Ok(())
}

#[test]
fn what_came_back_is_not_dropped_any_more_also_over_ssh() -> Outcome {
    let place = place()?;
    // A drop goes over ssh and works without a worktree.
    let url = format!("ssh://here{}", place.work().join("film").display());
    place.ok(&["-C", "nas", "remote", "add", "film", &url])?;
    let done = place.json(&["-C", "nas", "drop", "*.mov", "--json"])?;
    assert_eq!(
        (&done["files"], &done["in_worktree"]),
        (&2.into(), &0.into())
    );
    assert!(absent(&place, "nas")? > 0);
    place.ok(&["-C", "nas", "get", "raw/a.mov"])?;
    place.ok(&["-C", "nas", "get", "@:raw"])?;
    assert_eq!(absent(&place, "nas")?, 0);

    // What a command has brought back or stored again is not dropped any more.
    let slice = place.work().join("film/.dmv/slice");
    place.ok(&["-C", "film", "drop", "raw"])?;
    // A directory that comes as a whole, and a file.
    place.ok(&["-C", "film", "checkout", "@~1"])?;
    assert!(slice.exists());
    place.ok(&["-C", "film", "checkout", "main"])?;
    assert!(!slice.exists());
    place.ok(&["-C", "film", "drop", "raw/a.mov", "shots/1"])?;
    let cat = |args: &[&str]| -> Outcome {
        let args = [&["-C", "film", "--offline", "cat", "main:raw/a.mov"], args].concat();
        assert_eq!(place.run(&args)?.status.code(), Some(0));
        Ok(())
    };
    let range = ["-C", "film", "cat", "main:raw/a.mov", "--range", "0-10"];
    assert_eq!(place.run(&range)?.stdout.len(), 10);
    cat(&["--range", "0-10"])?;
    place.fails(5, &["-C", "nas", "drop", "raw/a.mov"])?;
    fs::remove_file(place.work().join("film/raw/a.mov"))?;
    place.ok(&["-C", "film", "restore", "raw/a.mov"])?;
    // It is held for others, and another drop does not free it.
    place.ok(&["-C", "nas", "drop", "raw/a.mov"])?;
    place.ok(&["-C", "nas", "get", "main:raw/a.mov"])?;
    place.ok(&["-C", "film", "drop", "raw/b.mov", "shots/2"])?;
    cat(&[])?;
    // The same content again, under another name.
    let (from, to) = ("film/raw/b.mov", "film/raw/again.mov");
    fs::copy(place.work().join(from), place.work().join(to))?;
    place.ok(&["-C", "film", "commit", "-m", "again"])?;
    place.ok(&["-C", "film", "get", "shots"])?;
    assert!(!slice.exists());
    Ok(())
}

#[test]
fn symlinks_stay_and_a_drop_may_want_copies_at_several_remotes() -> Outcome {
    // A symlink with the bytes of a dropped file stays.
    let place = place()?;
    place.write("film/raw/target", "some/target/of/a/link")?;
    std::os::unix::fs::symlink("some/target/of/a/link", place.work().join("film/raw/link"))?;
    place.ok(&["-C", "film", "commit", "-m", "link"])?;
    place.ok(&["-C", "film", "push", "nas", "main"])?;
    place.ok(&["-C", "film", "drop", "raw/target"])?;
    fs::remove_file(place.work().join("film/raw/link"))?;
    place.ok(&["-C", "film", "--offline", "restore", "raw/link"])?;
    // A fetch brings it, too, although the file is not wanted.
    place.ok(&["clone", "--copy", "nas", "third"])?;
    fs::remove_file(place.work().join("third/raw/link"))?;
    fs::write(place.work().join("third/raw/target"), "changed")?;
    place.ok(&["-C", "third", "commit", "-m", "without"])?;
    std::os::unix::fs::symlink("some/target/of/a/link", place.work().join("third/again"))?;
    place.ok(&["-C", "third", "commit", "-m", "again"])?;
    place.ok(&["-C", "third", "push"])?;
    place.ok(&["-C", "film", "pull", "nas"])?;
    place.ok(&["-C", "film", "verify"])?;

    // A drop may want copies at several remotes.
    place.ok(&["-C", "film", "config", "set", "drop.copies", "2"])?;
    let drop = ["-C", "film", "drop", "raw"];
    let said = place.fails(5, &drop)?;
    assert!(
        said.contains("nothing was dropped: drop.copies wants 2 remotes with a copy; only nas keeps 'raw/a.mov'")
            && said.contains("hint: dmv remote add NAME URL"),
        "{said}"
    );
    // The same repository by another name is no further copy.
    place.ok(&["-C", "film", "remote", "add", "again", "../nas/."])?;
    let said = place.fails(5, &drop)?;
    assert!(said.contains("is the same repository as"), "{said}");
    place.ok(&["-C", "film", "remote", "remove", "again"])?;

    place.ok(&["init", "--bare", "disk"])?;
    place.ok(&["-C", "film", "remote", "add", "disk", "../disk"])?;
    let said = place.fails(5, &drop)?;
    assert!(
        said.contains("disk does not keep a copy") && said.contains("hint: dmv push disk"),
        "{said}"
    );
    place.ok(&["-C", "film", "push", "disk"])?;
    let done = place.json(&["-C", "film", "drop", "raw", "--json"])?;
    assert_eq!(
        (&done["files"], &done["peers"]),
        (&3.into(), &serde_json::json!(["disk", "nas"]))
    );
    let said = place.fails(20, &["-C", "film", "config", "set", "drop.copies", "0"])?;
    assert!(said.contains("a whole number, at least 1"), "{said}");
    Ok(())
}
