//! `states` and `watch` see the same.

use crate::place::{Outcome, Place};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

#[test]
fn a_watch_tells_the_states_that_files_have() -> Outcome {
    let place = Place::with_repository()?;
    for path in ["type", "dir/a", "file", "gone", "same", "left"] {
        place.write(path, "1")?;
    }
    place.commit("first")?;
    let mut watch = place
        .command(&["watch", "--json"])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut events = BufReader::new(watch.stdout.take().ok_or("no output")?).lines();
    let mut next = || -> Outcome<Value> {
        let line = events.next().ok_or("the watch has ended")??;
        Ok(serde_json::from_str(&line)?)
    };
    assert_eq!(next()?["event"], "begin");
    // In the place of a file a symlink or a directory, in the place of a directory a file.
    fs::remove_file(place.work().join("type"))?;
    std::os::unix::fs::symlink("same", place.work().join("type"))?;
    fs::remove_file(place.work().join("file"))?;
    place.write("file/b", "2")?;
    fs::remove_dir_all(place.work().join("dir"))?;
    place.write("dir", "2")?;
    fs::remove_file(place.work().join("gone"))?;
    place.write("new", "2")?;
    // Told last, and made last: then everything is told.
    place.write("zz-last", "2")?;
    let mut told: BTreeMap<String, String> = BTreeMap::new();
    while !told.contains_key("zz-last") {
        let event = next()?;
        assert_eq!(event["event"], "file", "{event}");
        let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        told.insert(text("path"), text("state"));
    }
    // A claim, and its end.
    place.ok(&["claim", "same"])?;
    let claimed = next()?;
    let fields = ["event", "path", "state"].map(|name| claimed[name].clone());
    assert_eq!(fields, ["claim", "same", "noted"], "{claimed}");
    place.ok(&["release", "same"])?;
    assert_eq!(next()?["state"], "released");
    watch.kill()?;
    watch.wait()?;
    let paths: Vec<&str> = told.keys().map(String::as_str).collect();
    let states = place.records(&[&["states", "--json"], &paths[..]].concat())?;
    for state in states {
        let path = state["path"].as_str().unwrap_or_default();
        assert_eq!(
            state["state"].as_str(),
            told.get(path).map(String::as_str),
            "{path}"
        );
    }
    assert_eq!(told["type"], "type");
    Ok(())
}

#[test]
fn a_bare_repository_has_no_files_to_watch() -> Outcome {
    let place = Place::new()?;
    place.ok(&["init", "--bare"])?;
    let states = place.fails(20, &["states", "a"])?;
    assert_eq!(place.fails(20, &["watch", "a"])?, states);
    Ok(())
}

#[test]
fn many_paths_in_any_order_get_their_states() -> Outcome {
    let place = Place::with_repository()?;
    for n in 0..300 {
        place.write(format!("d{}/e/f{n}", n % 7), n.to_string())?;
    }
    place.commit("first")?;
    place.write("d3/e/f3", "changed")?;
    fs::remove_file(place.work().join("d4/e/f4"))?;
    let mut paths: Vec<String> = (0..300).map(|n| format!("d{}/e/f{n}", n % 7)).collect();
    paths.extend(["d3/e/f3", "d3", "d9/none", "top"].map(str::to_owned));
    let args: Vec<&str> = ["states", "--json"]
        .into_iter()
        .chain(paths.iter().map(String::as_str))
        .collect();
    let states = place.records(&args)?;
    assert_eq!(states.len(), paths.len());
    for (state, path) in states.iter().zip(&paths) {
        assert_eq!(state["path"], **path);
        let expected = match &path[..] {
            "d3/e/f3" => "modified",
            "d4/e/f4" => "deleted",
            "d9/none" | "top" => "unknown",
            _ => "unchanged",
        };
        assert_eq!(state["state"], expected, "{path}");
    }
    Ok(())
}
