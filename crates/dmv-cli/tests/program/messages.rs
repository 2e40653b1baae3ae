//! Messages of commits and stashes, and the names of their authors.

use crate::place::{Outcome, Place};

fn subject(place: &Place) -> Outcome<String> {
    let log = place.records(&["log", "-n", "1", "--json"])?;
    Ok(log[0]["message"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn messages_names_and_tests_are_kept_as_given_and_an_empty_message_is_refused() -> Outcome {
    let place = Place::with_repository()?;
    // A message keeps no mark and no carriage return.
    place.write("f", "1")?;
    place.write("../said", "\u{feff}one\r\n\r\n\r\ntwo  \r\n# three\r\n\r\n")?;
    place.ok(&["commit", "-F", "../said"])?;
    assert_eq!(subject(&place)?, "one\n\ntwo\n# three");
    place.ok(&["commit", "--amend", "-m", "new\r\n\r\n"])?;
    assert_eq!(subject(&place)?, "new");

    // A blank name names nobody.
    for setting in ["user.name", "user.email"] {
        place.ok(&["config", "set", "--user", setting, "  "])?;
    }
    place.write("f", "b")?;
    place.commit("one")?;
    let log = place.records(&["log", "--json"])?;
    let author = log[0]["author"].to_string();
    assert!(
        !author.contains("\"  \"") && !author.contains("\" <") && !author.contains("< "),
        "{author}"
    );
    place.write("f", "2")?;
    for author in ["<a@b>", "  <a@b>", ""] {
        place.fails(2, &["commit", "-m", "two", "--author", author])?;
    }

    // An empty message is refused by every command.
    place.write("f", "1")?;
    place.commit("one")?;
    place.ok(&["checkout", "-b", "side"])?;
    place.write("g", "1")?;
    place.commit("side")?;
    place.ok(&["checkout", "main"])?;
    place.write("f", "2")?;
    place.write("../blank", "\u{feff}\r\n \t\r\n")?;
    for empty in ["", " ", "\n", "\r\n\t", "\u{feff}"] {
        for args in [
            &["commit", "-m", empty][..],
            &["commit", "-m", empty, "-m", empty],
            &["commit", "--amend", "-m", empty],
            &["commit", "-F", "../blank"],
            &["merge", "side", "--no-ff", "-m", empty],
            &["revert", "@", "--message", empty],
            &["stash", "-m", empty],
            &["stash", "push", "-m", empty],
            &["purge", "g", "--reason", empty],
            &["tag", "new", "-m", empty],
            &["tag", "new", "--sign", "-m", empty],
        ] {
            let said = place.run(args)?;
            assert_eq!(said.status.code(), Some(2), "{args:?}: {said:?}");
        }
    }
    assert_eq!(
        place.json(&["status", "--json"])?["changes"][0]["path"],
        "f"
    );

    // A test of a bisection is shown as it was given.
    for n in 0..4 {
        place.write("f", n.to_string())?;
        place.commit(&n.to_string())?;
    }
    place.ok(&["bisect", "start", "@", "@~3"])?;
    let output = place.run(&["bisect", "run", "sh", "-c", "true '-x y'"])?;
    let said = String::from_utf8(output.stderr)?;
    assert!(
        said.contains("running sh -c 'true '\\''-x y'\\'''"),
        "{said}"
    );
    Ok(())
}
