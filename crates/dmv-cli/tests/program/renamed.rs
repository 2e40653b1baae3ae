//! A directory that gets another name: its files are neither written nor sent again.

use crate::place::{Outcome, Place};
use std::fs;
use std::os::unix::fs::MetadataExt;

const FILES: usize = 4;
const BYTES: usize = 300_000;

/// `film` with a directory that is called `a` on `main` and `b` on `two`, and a clone from before.
fn place() -> Outcome<Place> {
    let place = Place::new()?;
    place.ok(&["init", "film"])?;
    for n in 0..FILES {
        let noise = (0..BYTES as u64).map(|i| {
            let x = (i + 1 + ((n as u64) << 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            (x >> 40) as u8
        });
        let noise: Vec<u8> = noise.collect();
        place.write(format!("film/a/{n}"), noise)?;
    }
    place.ok(&["-C", "film", "commit", "-m", "one"])?;
    place.ok(&["clone", "film", "copy"])?;
    place.ok(&["-C", "film", "checkout", "-b", "two"])?;
    fs::rename(place.work().join("film/a"), place.work().join("film/b"))?;
    place.ok(&["-C", "film", "commit", "-m", "two"])?;
    Ok(place)
}

/// The inodes of the files in a directory, and their times of last change.
fn files(place: &Place, dir: &str) -> Outcome<Vec<(u64, i64)>> {
    let stat = |n: usize| fs::metadata(place.work().join(dir).join(n.to_string()));
    (0..FILES)
        .map(|n| Ok(stat(n).map(|stat| (stat.ino(), stat.mtime()))?))
        .collect()
}

#[test]
fn files_of_a_renamed_directory_are_moved() -> Outcome {
    let place = place()?;
    let before = files(&place, "film/b")?;
    let done = place.json(&["-C", "film", "checkout", "main", "--json"])?;
    assert_eq!(done["files"], FILES);
    assert_eq!(files(&place, "film/a")?, before);
    assert!(!place.work().join("film/b").exists());
    place.ok(&["-C", "film", "status", "--exit-code"])?;
    place.ok(&["-C", "film", "undo"])?;
    assert_eq!(files(&place, "film/b")?, before);
    // One that is an edit stays with it, and the switch is refused.
    place.write("film/b/1", "edited")?;
    place.fails(5, &["-C", "film", "checkout", "main"])?;
    assert_eq!(fs::read(place.work().join("film/b/1"))?, b"edited");
    place.ok(&["-C", "film", "restore", "b/1"])?;
    place.ok(&["-C", "film", "checkout", "main"])?;
    place.ok(&["-C", "film", "status", "--exit-code"])?;
    place.ok(&["-C", "film", "verify", "--full"])?;
    Ok(())
}

#[test]
fn of_a_rename_no_content_is_sent() -> Outcome {
    let place = place()?;
    let few = |document: &serde_json::Value, field: &str| -> Outcome {
        let bytes = document[field].as_u64().ok_or("a number")?;
        assert!(bytes < 30_000, "{document}");
        Ok(())
    };
    few(
        &place.json(&["-C", "copy", "fetch", "--json"])?,
        "bytes_received",
    )?;
    let before = files(&place, "copy/a")?;
    place.ok(&["-C", "copy", "merge", "origin/two"])?;
    assert_eq!(files(&place, "copy/b")?, before);
    fs::rename(place.work().join("copy/b"), place.work().join("copy/c"))?;
    place.ok(&["-C", "copy", "commit", "-m", "three"])?;
    few(
        &place.json(&["-C", "copy", "push", "--json"])?,
        "bytes_sent",
    )?;
    Ok(())
}
