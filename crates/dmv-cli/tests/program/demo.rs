//! `dmv demo`, and the picture of it in the README.

use crate::place::{Outcome, Place};
use std::fs;
use std::io::Read;

/// The picture, from the directory of this crate.
const PICTURE: &str = "../../docs/demo.svg";
/// A larger picture would slow down the README.
const MAX_PICTURE_BYTES: usize = 60 << 10;

#[test]
fn the_tour_runs_and_leaves_nothing() -> Outcome {
    let place = Place::new()?;
    let temp = place.home();
    let output = place.command(&["demo"]).env("TMPDIR", &temp).output()?;
    let text = String::from_utf8(output.stdout)?;
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("$ dmv verify\nno damage found"), "{text}");
    for step in [
        "merge night",
        "resolve media/still.png --both",
        "undo",
        "checkout main --subset sound",
        "clone",
        "pull disk",
    ] {
        assert!(text.contains(&format!("$ dmv {step}")), "{step}");
    }
    assert_eq!(fs::read_dir(temp)?.count(), 0);
    Ok(())
}

/// Fails if the program prints other words than `docs/make-demo-svg` recorded. Run that script then.
#[test]
fn the_picture_shows_what_the_demo_prints() -> Outcome {
    let picture = fs::read_to_string(PICTURE)?;
    assert!(picture.len() <= MAX_PICTURE_BYTES, "{}", picture.len());
    let mut place = Place::new()?;
    place.env = vec![
        ("DMV_USER_NAME", "Ada".into()),
        ("DMV_USER_EMAIL", "ada@example.org".into()),
        ("TMPDIR", place.home().into()),
    ];
    // Output and notes in one pipe, in the order of a terminal.
    let (mut printed, pipe) = std::io::pipe()?;
    let mut command = place.command(&["demo"]);
    command.stdout(pipe.try_clone()?).stderr(pipe);
    let mut running = command.spawn()?;
    drop(command);
    let mut text = String::new();
    printed.read_to_string(&mut text)?;
    assert!(running.wait()?.success(), "{text}");
    let (shown, printed) = (words(&text_of(&picture)), words(&text));
    assert!(printed.len() > 500, "{text}");
    for (n, word) in printed.iter().enumerate() {
        let near = &printed[n.saturating_sub(10)..=n];
        assert_eq!(shown.get(n), Some(word), "docs/make-demo-svg; {near:?}");
    }
    assert_eq!(shown.len(), printed.len());
    Ok(())
}

/// The text of the lines of a picture.
fn text_of(picture: &str) -> String {
    let mut out = String::new();
    for line in picture.lines().filter(|line| line.starts_with("<text ")) {
        for part in line.split('<') {
            out += part.split_once('>').map_or("", |(_, text)| text);
        }
        out.push('\n');
    }
    let out = out.replace("&lt;", "<").replace("&gt;", ">");
    out.replace("&amp;", "&")
}

/// The words of a text without what differs from run to run: directories, times, ids and sizes.
fn words(text: &str) -> Vec<String> {
    const UNITS: [&str; 4] = ["B", "KiB", "MiB", "GiB"];
    let mut out: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        if UNITS.contains(&bare)
            && let Some(number) = out.last_mut()
        {
            *number = "[NUMBER]".to_owned();
        }
        out.push(neutral(word));
    }
    out
}

fn neutral(word: &str) -> String {
    let is_time = |c: char| c.is_ascii_digit() || "-+:".contains(c);
    if word.contains("/dmv-demo") {
        return "[DIRECTORY]".to_owned();
    }
    if word.len() >= 6 && word.chars().all(is_time) && word.contains(['-', ':']) {
        return "[TIME]".to_owned();
    }
    let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let is_id = bare.len() == 12 && bare.chars().all(|c| c.is_ascii_hexdigit());
    if is_id {
        word.replace(bare, "[ID]")
    } else {
        word.to_owned()
    }
}

#[test]
fn pictures_are_read_and_what_differs_is_left_out() {
    let drawn = "<text y=\"1\" class=\"p\">at 0123456789ab <tspan class=\"b\">a &lt;b&gt;</tspan></text>\n<g>\n";
    assert_eq!(text_of(drawn), "at 0123456789ab a <b>\n");
    let words =
        words("[main 0123456789ab] 2026-11-22 13:41:04 +00:00 in 8.1 MiB, /tmp/dmv-demo-x/y 4");
    let expected = [
        "[main", "[ID]]", "[TIME]", "[TIME]", "[TIME]", "in", "[NUMBER]", "MiB,",
    ];
    assert_eq!(words[..8], expected);
    assert_eq!(words[8..], ["[DIRECTORY]", "4"]);
}
