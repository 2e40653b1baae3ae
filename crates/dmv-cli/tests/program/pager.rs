//! Long output at a terminal goes to a pager, and nothing else does.

use crate::place::terminal::has_script;
use crate::place::{Outcome, Place};
use std::fs;

/// Keeps what it gets.
const PAGER: &str = r#"cat > "$HOME/paged"; echo "[$LESS]" >> "$HOME/paged"; echo seen; exit 7"#;

/// A repository with a long log, and a pager.
fn with_pager() -> Outcome<(Place, String)> {
    let place = Place::with_repository()?;
    for n in 0..12 {
        place.write("notes.txt", format!("{n}\n"))?;
        place.commit(&format!("commit {n}"))?;
    }
    let pager = place.script("pager", PAGER)?;
    Ok((place, pager))
}

fn paged(place: &Place) -> Option<String> {
    let path = place.home().join("paged");
    let text = fs::read_to_string(&path).ok();
    let _ = fs::remove_file(path);
    text
}

#[test]
fn long_output_at_a_terminal_goes_to_the_pager_and_nothing_else_does() -> Outcome {
    // Long output at a terminal goes to the pager.
    if !has_script() {
        return Ok(());
    }
    let (place, pager) = with_pager()?;
    let env = [
        ("DMV_PAGER", &pager[..]),
        ("PAGER", "false"),
        ("NO_COLOR", ""),
    ];
    let seen = place.at_terminal(10, &env, &["log", "--oneline"])?;
    // The pager's exit code is its own affair.
    assert_eq!((seen.exit, &seen.text[..]), (Some(0), "seen\n"));
    let text = paged(&place).ok_or("no pager")?;
    assert!(text.contains("\u{1b}["), "colours survive: {text}");
    assert!(
        text.contains("commit 11") && text.contains("commit 0\n"),
        "{text}"
    );
    assert!(text.ends_with("[FRX]\n"), "{text}");
    // The user's own settings of less stay.
    let env = [("PAGER", &pager[..]), ("LESS", "-S")];
    place.at_terminal(10, &env, &["log"])?;
    assert!(paged(&place).is_some_and(|text| text.ends_with("[-S]\n")));
    // Help is output, too.
    let seen = place.at_terminal(10, &[("PAGER", &pager)], &["help"])?;
    assert_eq!((seen.exit, &seen.text[..]), (Some(0), "seen\n"));
    assert!(paged(&place).is_some_and(|text| text.contains("Start:\n")));

    // Exit codes are those of the program.
    place.write("notes.txt", "x\n".repeat(100))?;
    // The exit code is the answer, so nothing may get in its way.
    let env = [("PAGER", &pager[..])];
    let seen = place.at_terminal(10, &env, &["diff", "--exit-code"])?;
    assert_eq!((seen.exit, paged(&place).is_none()), (Some(1), true));
    // A failure is printed after the pager has ended.
    let seen = place.at_terminal(10, &env, &["log", "nope"])?;
    assert_eq!(seen.exit, Some(20), "{}", seen.text);

    // A pager that ends early ends the command quietly.
    // Far more than a pipe takes.
    place.write("notes.txt", "a line of text\n".repeat(100_000))?;
    let seen = place.at_terminal(10, &[("PAGER", "head -n 2; true")], &["diff"])?;
    assert_eq!(seen.exit, Some(0), "{}", seen.text);
    assert_eq!(seen.text.lines().count(), 2, "{}", seen.text);

    // A pager that cannot be run is named.
    let seen = place.at_terminal(10, &[("DMV_PAGER", "no-such-pager -R")], &["log"])?;
    let why = "the pager 'no-such-pager -R' cannot be run (exit code 127); without it: --no-pager";
    assert!(seen.text.contains(why), "{}", seen.text);
    // The output is not lost.
    assert_eq!(seen.exit, Some(0));
    for n in 0..12 {
        assert!(
            seen.text.contains(&format!("commit {n}\n")),
            "{}",
            seen.text
        );
    }
    // Nor is one that no pipe holds.
    place.write("notes.txt", "a line of text\n".repeat(200_000))?;
    for pager in [
        "no-such-pager -R",
        "cat >&2 && no-such-pager",
        "sleep 0.1; /",
    ] {
        let seen = place.at_terminal(10, &[("DMV_PAGER", pager)], &["diff"])?;
        let lines = seen
            .text
            .lines()
            .filter(|line| line.contains("a line of text"));
        assert_eq!((lines.count(), seen.exit), (200_000, Some(0)), "{pager}");
    }

    // Ctrl c leaves the terminal to the pager.
    place.write("notes.txt", "a line of text\n".repeat(100_000))?;
    // Like less, it does not end by the signal, which both get; and then it reads on.
    let reads_on = "trap '' INT; head -n 1 > /dev/null; kill -INT $PPID; sleep 0.3; echo still here; cat > /dev/null";
    let seen = place.at_terminal(10, &[("PAGER", reads_on)], &["diff"])?;
    assert!(seen.text.starts_with("still here\n"), "{}", seen.text);
    assert!(
        matches!(seen.exit, Some(0 | 130)),
        "{:?}: {}",
        seen.exit,
        seen.text
    );

    // What is short or for a program does not.
    let env = [("DMV_PAGER", &pager[..])];
    for (lines, args) in [
        (20, &["log", "--oneline"][..]),
        (10, &["log", "--oneline", "--no-pager"]),
        (10, &["--no-pager", "help"]),
        (10, &["log", "--json"]),
        (10, &["cat", "@:notes.txt"]),
    ] {
        let seen = place.at_terminal(lines, &env, args)?;
        assert_eq!(seen.exit, Some(0), "{args:?}: {}", seen.text);
        assert!(
            !seen.text.contains("seen\n") && paged(&place).is_none(),
            "{args:?}"
        );
    }
    for pager in ["", "cat"] {
        let seen = place.at_terminal(10, &[("DMV_PAGER", pager), ("PAGER", "false")], &["log"])?;
        assert!(seen.text.contains("commit 11") && seen.text.contains("commit 0\n"));
    }
    // No terminal, no pager.
    let mut place = place;
    place.env = vec![("DMV_PAGER", pager.into())];
    let text = place.ok(&["log"])?;
    assert!(text.contains("commit 0\n") && paged(&place).is_none());
    Ok(())
}
