//! The progress of what lasts, as somebody at a terminal sees it.

use crate::place::several::tip;
use crate::place::terminal::has_script;
use crate::place::{Outcome, Place};
use dmv_random::Rng;

/// An ssh that stays on this machine, and passes on so many bytes ten times a second in each direction.
const SLOW: &str = r#"
while [ "$1" != "--" ]; do shift; done
slowly() {
  while dd bs=BYTES count=1 of="$HOME/$1" 2>/dev/null && [ -s "$HOME/$1" ]; do
    cat "$HOME/$1"; sleep 0.1
  done
}
slowly up | sh -c "$3" | slowly down
"#;

/// A repository with some MiB that cannot be compressed, and an ssh.
fn place(bytes: usize) -> Outcome<Place> {
    let mut place = Place::new()?;
    let ssh = place.script("ssh", &SLOW.replace("BYTES", &bytes.to_string()))?;
    place.env = vec![
        ("PATH", std::env::var_os("PATH").unwrap_or_default()),
        ("DMV_SSH_COMMAND", ssh.into()),
        ("DMV_SSH_REMOTE", env!("CARGO_BIN_EXE_dmv").into()),
    ];
    place.ok(&["init", "film"])?;
    let mut rng = Rng::new(7);
    for n in 0..40 {
        let noise: Vec<u8> = (0..100_000).map(|_| rng.below(256) as u8).collect();
        place.write(format!("film/{n}"), noise)?;
    }
    place.ok(&["-C", "film", "commit", "-m", "film"])?;
    Ok(place)
}

/// The lines that were drawn one after the other, without what moves the cursor.
fn drawn(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut in_escape = false;
    for c in text.chars() {
        match c {
            '\x1b' => in_escape = true,
            c if in_escape => in_escape = !c.is_ascii_alphabetic(),
            '\r' | '\n' => lines.push(String::new()),
            c => lines.last_mut().expect("there is one").push(c),
        }
    }
    lines
}

/// Returns whether some line shows all of these at once, where a terminal of 80 columns shows it.
fn has_line(lines: &[String], words: &[&str]) -> bool {
    let fits = |line: &String| {
        let shown: String = line.chars().take(80).collect();
        words.iter().all(|word| shown.contains(word))
    };
    lines.iter().any(fits)
}

fn shows(text: &str, words: &[&str]) {
    let lines = drawn(text);
    assert!(has_line(&lines, words), "{words:?}: {lines:#?}");
}

/// How often a push is tried whose total was not drawn in time.
const TRIES: u8 = 10;

#[test]
fn transfers_show_a_total_and_the_time_that_is_left() -> Outcome {
    if !has_script() {
        return Ok(());
    }
    let place = place(100_000)?;
    let url = format!("ssh://nas{}", place.work().join("film").display());
    let seen = place.at_terminal(24, &[], &["clone", &url, "two"])?;
    assert_eq!(seen.exit, Some(0), "{}", seen.text);
    shows(
        &seen.text,
        &["transferring ", " MiB of ≤ 3.8 MiB, ", " s left"],
    );
    // The cursor line is empty when the command has ended.
    assert!(drawn(&seen.text).last().is_some_and(String::is_empty));
    // What a queue has taken counts as sent, and this is less than one holds. So no time is foretold,
    // and on a busy machine nothing may be left to send when the first line is drawn.
    let words = ["transferring ", " of ≤ 3.8 MiB, ", " objects"];
    for turn in 0x55..0x55 + TRIES {
        for n in 0..40 {
            let content = std::fs::read(place.work().join(format!("film/{n}")))?;
            let turned: Vec<u8> = content.iter().map(|byte| byte ^ turn).collect();
            place.write(format!("two/{n}"), turned)?;
        }
        place.ok(&["-C", "two", "commit", "-m", "turned"])?;
        let seen = place.at_terminal(24, &[], &["-C", "two", "push"])?;
        assert_eq!(seen.exit, Some(0), "{}", seen.text);
        if has_line(&drawn(&seen.text), &words) {
            break;
        }
        assert!(
            turn + 1 < 0x55 + TRIES,
            "{words:?}: {:#?}",
            drawn(&seen.text)
        );
    }
    assert_eq!(tip(&place, "two", "main")?, tip(&place, "film", "main")?);
    // Nobody watches: nothing is drawn.
    let done = place.run(&["-C", "two", "fetch"])?;
    assert!(!String::from_utf8(done.stderr)?.contains("transferring"));
    Ok(())
}
