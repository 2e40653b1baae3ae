//! The methods of `Repo`: which room has each, and which code calls them.

use super::code::{module_of, paths_in, tokens};
use super::floors::Room;
use std::collections::BTreeMap;

const BLOCK: &str = "\nimpl Repo {\n";

/// Returns the names of the methods of `Repo` that some code has.
pub fn methods_of(code: &str) -> Vec<String> {
    let blocks = code.split(BLOCK).skip(1);
    let lines = blocks.flat_map(|block| block.lines().take_while(|line| *line != "}"));
    let names = lines.filter_map(|line| {
        let line = line.trim_start_matches("    ");
        let head = line
            .strip_prefix("pub fn ")
            .or(line.strip_prefix("pub(crate) fn "))?;
        head.split(['(', '<']).next()
    });
    names.map(str::to_owned).collect()
}

/// Returns the rooms of the methods that some code calls, with lines. `methods` has the room of each.
///
/// These calls count: of a variable or field `repo`, of `self` among the methods of `Repo`, of the type.
fn calls_of(code: &str, methods: &BTreeMap<String, String>) -> Vec<(usize, String)> {
    let mut blocks = code.split(BLOCK).map(str::to_owned);
    let mut text = blocks.next().unwrap_or_default();
    for block in blocks {
        let end = block.find("\n}").unwrap_or(block.len());
        text += BLOCK;
        text += &block[..end].replace("self", "repo");
        text += &block[end..];
    }
    let mut out = Vec::new();
    for four in tokens(&text).windows(4) {
        let words = [four[0].1, four[1].1, four[3].1];
        if let ["repo", ".", "("] | ["Repo", "::", "("] = words {
            let room = methods.get(four[2].1);
            out.extend(room.map(|room| (four[2].0, room.clone())));
        }
    }
    out
}

/// Returns what a file of `repo` uses of `repo`, with lines: the rooms; or the root, which is everything
/// that is named in no room. `methods` has the room of each method of `Repo`.
pub fn uses_within_repo(
    file: &str,
    code: &str,
    rooms: &[Room],
    methods: &BTreeMap<String, String>,
) -> Vec<(usize, String)> {
    let depth = module_of(file).len();
    let mut out = calls_of(code, methods);
    for named in paths_in(code) {
        let supers = named.parts.iter().take_while(|p| *p == "super").count();
        let part = match named.parts[0].as_str() {
            "crate" if named.parts.get(1).is_some_and(|room| room == "repo") => named.parts.get(2),
            // `repo` itself is the first name of the module.
            "super" if supers + 1 == depth => named.parts.get(supers),
            _ => None,
        };
        if let Some(part) = part {
            let is_room = rooms.iter().any(|room| room.name == *part);
            let part = if is_room { part } else { "root" };
            out.push((named.line, part.to_owned()));
        }
    }
    out
}
