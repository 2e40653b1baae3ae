//! What the files of a worktree and its history are like.

use super::{Outcome, Place};
use serde_json::Value;
use std::fs;

pub fn read(place: &Place, path: &str) -> Outcome<String> {
    Ok(fs::read_to_string(place.work().join(path))?)
}

/// Whether anything is there, also a symlink to nowhere.
pub fn exists(place: &Place, path: &str) -> bool {
    fs::symlink_metadata(place.work().join(path)).is_ok()
}

/// The paths that differ from the commit, with how.
pub fn changes(place: &Place) -> Outcome<Vec<(String, String)>> {
    let status = place.json(&["status", "--json"])?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = status["changes"].as_array().ok_or("no changes")?.iter();
    Ok(all
        .map(|change| (text(&change["path"]), text(&change["change"])))
        .collect())
}

/// The paths in a list of a document.
pub fn paths(value: &Value) -> Vec<String> {
    let all = value.as_array().into_iter().flatten();
    let path = |one: &Value| Some(one["path"].as_str()?.to_owned());
    all.filter_map(path).collect()
}

/// The messages of the history of `repo`, newest first.
pub fn subjects_of(place: &Place, repo: &str) -> Outcome<Vec<String>> {
    let log = place.records(&["-C", repo, "log", "--json"])?;
    let text = |record: &Value| record["message"].as_str().unwrap_or_default().to_owned();
    Ok(log.iter().map(text).collect())
}

/// Nine lines, some of them with other words.
pub fn lines(other: &[(usize, &str)]) -> String {
    let word = |n| other.iter().find(|(at, _)| *at == n).map(|(_, word)| *word);
    let line = |n| word(n).map_or_else(|| format!("line {n}\n"), |word| format!("{word}\n"));
    (1..10).map(line).collect()
}
