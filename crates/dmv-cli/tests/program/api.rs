//! `dmv api` as another program talks to it: the exchanges of docs/api-exchanges.txt.

use crate::place::{Outcome, Place};
use snapbox::assert_data_eq;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

const EXCHANGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/api-exchanges.txt");

#[test]
fn the_exchanges_of_the_page_are_those_of_the_program() -> Outcome {
    let place = Place::new()?;
    place.ok(&["init", "r"])?;
    place.write("r/a.txt", "hello\n")?;
    let mut api = place
        .command(&["-C", "r", "api"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut requests = api.stdin.take().ok_or("no input")?;
    let mut answers = BufReader::new(api.stdout.take().ok_or("no output")?);
    let expected = fs::read_to_string(EXCHANGES)?;
    let mut seen = String::new();
    for line in expected.lines() {
        if let Some(request) = line.strip_prefix("> ") {
            writeln!(requests, "{request}")?;
            seen += line;
        } else if line.starts_with("< ") {
            let mut answer = String::new();
            answers.read_line(&mut answer)?;
            seen += &format!("< {}", answer.trim_end());
        } else {
            seen += line;
        }
        seen.push('\n');
    }
    assert_data_eq!(seen, expected);
    drop(requests);
    assert!(api.wait()?.success());
    Ok(())
}
