//! Aliases of commands, in the user's settings.

use crate::place::{Outcome, Place};
use std::fs;

fn with_aliases(aliases: &[(&str, &str)]) -> Outcome<Place> {
    let place = Place::with_repository()?;
    place.write("notes.txt", "one\n")?;
    place.commit("first")?;
    for (name, text) in aliases {
        place.ok(&[
            "config",
            "set",
            "--user",
            "--",
            &format!("alias.{name}"),
            text,
        ])?;
    }
    Ok(place)
}

#[test]
fn an_alias_stands_for_a_command_with_arguments_and_help_shows_it() -> Outcome {
    let place = with_aliases(&[
        ("co", "checkout"),
        ("new", "co -b"),
        ("say", "commit --allow-empty -m 'in  short' -m"),
        ("j", "-q --json"),
    ])?;
    place.ok(&["new", "side"])?;
    place.ok(&["-q", "say", "more"])?;
    let record = place.json(&["j", "log", "-n", "1"])?;
    assert_eq!(record["message"], "in  short\n\nmore");
    // The log of operations has the command that was meant.
    let operation = &place.records(&["op", "log", "--json"])?[0]["command"];
    assert_eq!(
        operation,
        "dmv -q commit --allow-empty -m 'in  short' -m more"
    );
    place.ok(&["-C", ".", "co", "main"])?;
    assert_eq!(place.json(&["status", "--json"])?["branch"], "main");
    let help = place.ok(&["help"])?;
    let listed = "\nYour aliases:\n  co           checkout\n  j            -q --json\n  new          co -b\n";
    assert!(help.contains(listed), "{help}");
    assert!(
        place
            .ok(&["config", "list"])?
            .contains("alias.new       co -b  (user)\n")
    );
    assert_eq!(place.ok(&["config", "get", "alias.co"])?, "checkout\n");
    place.ok(&["config", "unset", "--user", "alias.co"])?;
    let said = place.fails(2, &["new", "other"])?;
    assert!(said.contains("there is no command 'co'"), "{said}");

    // Help shows what an alias stands for.
    for (name, text) in [("alias.co", "checkout --force"), ("alias.cc", "co")] {
        place.ok(&["config", "set", "--user", name, text])?;
    }
    let done = place.run(&["help", "co"])?;
    assert_eq!(done.status.code(), Some(0));
    let said = String::from_utf8(done.stderr)?;
    assert!(
        said.contains("'co' is your alias for 'checkout --force'"),
        "{said}"
    );
    assert_eq!(
        String::from_utf8(done.stdout)?,
        place.ok(&["help", "checkout"])?
    );
    assert_eq!(place.ok(&["help", "cc"])?, place.ok(&["help", "checkout"])?);
    // One that is not valid, and one that has no effect, do not hide the others.
    let path = place.home().join("config/dmv/config.toml");
    fs::write(
        path,
        "[alias]\na1 = \"log -1\"\nbad = \"!ls\"\nn = 5\nstash = \"reset\"\nz = \"show\"\n",
    )?;
    let list = place.ok(&["help"])?;
    let (_, list) = list.split_once("Your aliases:").ok_or("no aliases")?;
    for line in [
        "a1           log -1",
        "bad          (is not valid)",
        "n            (is not valid)",
        "stash        (has no effect: dmv has a command 'stash')",
        "z            show",
    ] {
        assert!(list.contains(line), "{line}: {list}");
    }
    place.fails(2, &["help", "nothing"])?;
    Ok(())
}

#[test]
fn an_alias_replaces_no_command_leads_not_to_itself_and_is_the_users_alone() -> Outcome {
    let place = with_aliases(&[("a", "b"), ("b", "a -v"), ("c", "c")])?;
    // An alias replaces no command and leads not to itself.
    for name in ["a", "b", "c"] {
        let said = place.fails(2, &[name])?;
        assert!(
            said.contains(&format!("the alias '{name}' leads back to itself")),
            "{said}"
        );
    }
    let set = |name: &str, text: &str| place.fails(2, &["config", "set", "--user", name, text]);
    assert!(set("alias.log", "show")?.contains("an alias cannot replace it"));
    for (name, text) in [
        ("alias.x", "!ls"),
        ("alias.x", ""),
        ("alias.x", "log 'a"),
        ("alias.-x", "log"),
    ] {
        place.fails(20, &["config", "set", "--user", name, text])?;
    }
    // Nor if it was written by hand.
    let path = place.home().join("config/dmv/config.toml");
    fs::write(path, "[alias]\nlog = \"show\"\nx = \"!touch run\"\ny = 1\n")?;
    assert!(!place.ok(&["log", "--oneline"])?.contains("notes.txt"));
    for name in ["x", "y"] {
        let said = place.fails(20, &[name])?;
        assert!(
            said.contains(&format!("is not valid for alias.{name}")),
            "{said}"
        );
    }
    assert!(!place.work().join("run").exists());

    // A repository has no aliases.
    place.fails(2, &["config", "set", "alias.st", "status"])?;
    let file = place.work().join(".dmv/config.toml");
    fs::write(
        file,
        "[alias]\nst = \"config set --user ssh.command evil\"\n",
    )?;
    let said = place.fails(2, &["st"])?;
    assert!(said.contains("there is no command 'st'"), "{said}");
    let output = place.run(&["commit", "-m", "x"])?;
    let said = String::from_utf8(output.stderr)?;
    assert!(
        said.contains("sets alias.st; a repository cannot set it"),
        "{said}"
    );
    Ok(())
}
