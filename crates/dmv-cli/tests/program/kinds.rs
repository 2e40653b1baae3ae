//! What replaces something of another kind is one change in every answer.

use crate::place::{Outcome, Place};
use serde_json::Value;
use std::fs;

/// An empty directory `d` that becomes a file, and a file `f` that becomes an empty directory.
fn replaced() -> Outcome<Place> {
    let place = Place::with_repository()?;
    fs::create_dir(place.work().join("d"))?;
    place.write("f", "text")?;
    place.commit("one")?;
    fs::remove_dir(place.work().join("d"))?;
    place.write("d", "text")?;
    fs::remove_file(place.work().join("f"))?;
    fs::create_dir(place.work().join("f"))?;
    Ok(place)
}

fn told<'v>(changes: impl IntoIterator<Item = &'v Value>) -> Vec<(&'v str, &'v str)> {
    let text = |value: &'v Value| value.as_str().unwrap_or_default();
    let all = changes.into_iter();
    all.map(|one| (text(&one["path"]), text(&one["change"])))
        .collect()
}

#[test]
fn an_empty_directory_and_a_file_are_one_change_in_every_answer() -> Outcome {
    let place = replaced()?;
    let wanted = [("d", "type"), ("f", "type")];
    let status = place.json(&["status", "--json"])?;
    assert_eq!(
        told(status["changes"].as_array().into_iter().flatten()),
        wanted
    );
    assert_eq!(place.ok(&["status", "-s"])?, " T d\n T f\n");
    assert_eq!(told(&place.records(&["diff", "--json"])?), wanted);
    assert_eq!(place.ok(&["diff", "--name-status"])?, "T\td\nT\tf\n");
    let text = place.ok(&["diff"])?;
    let stat = place.ok(&["diff", "--stat"])?;
    place.commit("two")?;
    assert_eq!(place.ok(&["diff", "@~1", "@"])?, text);
    assert_eq!(place.ok(&["diff", "--stat", "@~1", "@"])?, stat);
    assert_eq!(
        place.ok(&["diff", "--name-status", "@~1", "@"])?,
        "T\td\nT\tf\n"
    );
    assert_eq!(
        told(&place.records(&["diff", "--json", "@~1", "@"])?),
        wanted
    );
    let shown = place.json(&["show", "--json"])?;
    assert_eq!(
        told(shown["changes"].as_array().into_iter().flatten()),
        wanted
    );
    let log = place.ok(&["log", "--stat", "-n", "1"])?;
    assert_eq!(log.matches(" d |").count(), 1, "{log}");
    Ok(())
}
