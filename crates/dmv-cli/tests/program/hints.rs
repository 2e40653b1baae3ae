//! Command lines that the program prints can be pasted, whatever the names in them are. `place::hints`
//! looks at each one that any test makes it print.

use crate::place::hints::{PrintedCommand, pasted};
use crate::place::{Outcome, Place};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::Output;

/// Names that a shell, a pattern, a revision or an option would take for something else.
const NAMES: [&[u8]; 20] = [
    b"s*",
    b"take[02]",
    b"take[01]",
    b"a:b",
    b"-x",
    b"--help",
    b"it's",
    b"a b",
    b"\xff",
    b"a\nb",
    b"#x",
    b"!x",
    b"$(x)",
    b"~",
    "\u{1f600}".as_bytes(),
    b"..a",
    b"main",
    b"@",
    b"a\\b",
    b"a?{b,c}",
];

/// Every eighth of the names. The eight parts together have each of them.
fn names(first: usize) -> impl Iterator<Item = &'static [u8]> {
    NAMES.into_iter().skip(first).step_by(8)
}

/// A name as an argument: a path and nothing else.
fn typed(name: &[u8]) -> OsString {
    OsString::from_vec([b"./", name].concat())
}

fn args<'a>(words: &[&'a str], last: &'a OsStr) -> Vec<&'a OsStr> {
    words
        .iter()
        .map(|word| OsStr::new(*word))
        .chain([last])
        .collect()
}

/// The command in what a run has printed that begins like this.
fn printed(output: &Output, begin: &str) -> Outcome<String> {
    let text = String::from_utf8(output.stderr.clone())?;
    let mut all = text.lines().flat_map(PrintedCommand::all_in);
    let found = all.find(|command| command.text.starts_with(begin));
    Ok(found
        .ok_or_else(|| format!("no '{begin}' in: {text}"))?
        .text)
}

/// Pastes a command, which has to succeed.
fn paste(place: &Place, text: &str) -> Outcome<String> {
    let done = pasted(place.dir.path(), &place.work(), text)?;
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(0), "{text}: {said}");
    Ok(said)
}

fn write(place: &Place, path: &[u8], content: &str) -> Outcome {
    place.write(OsStr::from_bytes(path), content)
}

fn is_there(place: &Place, path: &[u8]) -> bool {
    fs::symlink_metadata(place.work().join(OsStr::from_bytes(path))).is_ok()
}

/// A repository with a file of this name, a directory of it with a file, and neighbours that a pattern
/// would match.
fn with_name(name: &[u8]) -> Outcome<Place> {
    let place = Place::with_repository()?;
    write(&place, name, "one\n")?;
    write(&place, &[b"d/", name, b"/x"].concat(), "one\n")?;
    for neighbour in ["s1", "take0", "take2", "axb", "d/s1/x", "d/take0/x"] {
        place.write(neighbour, "other\n")?;
    }
    place.commit("base")?;
    Ok(place)
}

#[test]
fn hints_about_files_name_that_path_and_no_other() -> Outcome {
    a_commit_outside_of_the_subset_adds_that_path()?;
    rm_names_the_path()?;
    a_conflict_names_the_path()?;
    a_path_in_place_of_a_revision_is_one()?;
    below_the_root_it_is_the_same_path()?;
    the_operation_log_is_pasted()
}

#[test]
fn hints_about_absent_content_name_that_path_and_no_other() -> Outcome {
    a_drop_removes_that_path_and_no_other()?;
    absent_content_is_fetched()
}

fn a_commit_outside_of_the_subset_adds_that_path() -> Outcome {
    for name in names(0) {
        let place = with_name(name)?;
        place.ok(&["subset", "set", "axb"])?;
        write(&place, name, "new\n")?;
        let done = place.run(&["commit", "-m", "outside"])?;
        assert_eq!(done.status.code(), Some(3), "{done:?}");
        let said = paste(&place, &printed(&done, "dmv subset add ")?)?;
        assert!(!said.contains("matches"), "{said}");
        assert!(!is_there(&place, b"s1") && !is_there(&place, b"take2"));
        place.ok(&["commit", "-m", "inside"])?;
    }
    Ok(())
}

fn a_drop_removes_that_path_and_no_other() -> Outcome {
    for name in names(1).chain([&b"-x"[..]]) {
        let place = with_name(name)?;
        place.ok(&["clone", "--copy", ".", "../backup"])?;
        place.ok(&["remote", "add", "backup", "../backup"])?;
        let typed = match name {
            [b'-', ..] => OsStr::from_bytes(name).to_owned(),
            _ => typed(name),
        };
        let done = place.run(&args(&["drop", "--"], &typed))?;
        assert_eq!(done.status.code(), Some(0), "{done:?}");
        paste(&place, &printed(&done, "dmv drop --thorough ")?)?;
        paste(&place, &printed(&done, "dmv subset remove ")?)?;
        assert!(!is_there(&place, name));
        for neighbour in ["s1", "take0", "take2", "axb"] {
            assert!(is_there(&place, neighbour.as_bytes()), "{neighbour}");
        }
    }
    Ok(())
}

/// Content that fills a pack of its own.
fn large() -> String {
    (0..60_000).map(|n| format!("{n}\n")).collect()
}

fn absent_content_is_fetched() -> Outcome {
    for name in names(2) {
        let place = with_name(name)?;
        // In a pack of its own, which a drop frees.
        write(&place, name, &large())?;
        place.commit("alone")?;
        place.ok(&["clone", "--copy", ".", "../backup"])?;
        place.ok(&["remote", "add", "backup", "../backup"])?;
        let typed = typed(name);
        place.ok(&args(&["drop"], &typed))?;
        fs::remove_file(place.work().join(OsStr::from_bytes(name)))?;
        let done = place.run(&args(&["--offline", "restore"], &typed))?;
        assert_eq!(done.status.code(), Some(6), "{done:?}");
        paste(&place, &printed(&done, "dmv get ")?)?;
        place.ok(&args(&["--offline", "restore"], &typed))?;
    }
    Ok(())
}

fn rm_names_the_path() -> Outcome {
    for name in names(3) {
        let place = with_name(name)?;
        let (typed, path) = (typed(name), place.work().join(OsStr::from_bytes(name)));
        fs::remove_file(&path)?;
        let done = place.run(
            &args(&["mv"], &typed)
                .into_iter()
                .chain([OsStr::new("there")])
                .collect::<Vec<_>>(),
        )?;
        paste(&place, &printed(&done, "dmv restore ")?)?;
        assert!(path.exists());
        place.ok(&args(&["rm"], &typed))?;
        place.commit("without")?;
        write(&place, name, "untracked\n")?;
        let done = place.run(&args(&["rm"], &typed))?;
        let text = String::from_utf8(done.stderr)?;
        let hint = text
            .split("hint: ")
            .nth(1)
            .and_then(|hint| hint.split(", to delete").next());
        let hint = hint.ok_or("no hint")?;
        pasted(place.dir.path(), &place.work(), hint)?;
        assert!(!path.exists(), "{hint}");
        assert!(place.work().join("s1").exists());
    }
    Ok(())
}

fn a_conflict_names_the_path() -> Outcome {
    for name in names(4) {
        let place = with_name(name)?;
        place.ok(&["branch", "side"])?;
        write(&place, name, "ours\n")?;
        place.commit("ours")?;
        place.ok(&["checkout", "side"])?;
        write(&place, name, "theirs\n")?;
        place.commit("theirs")?;
        let main = place.json(&["log", "-n", "1", "--json", "main"])?;
        let done = place.run(&["merge", main["id"].as_str().ok_or("no id")?])?;
        assert_eq!(done.status.code(), Some(4), "{done:?}");
        let resolve = printed(&done, "dmv resolve ")?;
        let cat = place.run(&args(&["cat", "--"], &typed(name)))?;
        let cat = printed(&cat, "dmv cat ")?;
        paste(&place, &cat)?;
        paste(&place, &resolve)?;
        paste(&place, "dmv commit -m resolved")?;
    }
    Ok(())
}

fn a_path_in_place_of_a_revision_is_one() -> Outcome {
    for name in names(5) {
        // Those that are text, and neither options nor revisions.
        let Ok(text) = std::str::from_utf8(name) else {
            continue;
        };
        if text.starts_with('-') || ["main", "@"].contains(&text) {
            continue;
        }
        let place = with_name(name)?;
        write(&place, name, "edited\n")?;
        let done = place.run(&["checkout", text])?;
        assert_eq!(done.status.code(), Some(20), "{done:?}");
        if text.contains([':', '~', '^']) {
            continue;
        }
        paste(&place, &printed(&done, "dmv restore ")?)?;
        assert_eq!(fs::read(place.work().join(text))?, b"one\n");
    }
    Ok(())
}

fn below_the_root_it_is_the_same_path() -> Outcome {
    for name in names(6) {
        let place = with_name(name)?;
        let path = [b"d/", name, b"/x"].concat();
        fs::remove_file(place.work().join(OsStr::from_bytes(&path)))?;
        let typed = OsString::from_vec([name, b"/x"].concat());
        let typed = if name.starts_with(b"-") {
            OsString::from_vec([b"./", typed.as_bytes()].concat())
        } else {
            typed
        };
        let dir = place.work().join("d");
        let mut mv = place.command(&[OsStr::new("mv"), &typed, OsStr::new("there")]);
        let done = mv.current_dir(&dir).output()?;
        let restore = printed(&done, "dmv restore ")?;
        let done = pasted(place.dir.path(), &dir, &restore)?;
        assert_eq!(done.status.code(), Some(0), "{restore}: {done:?}");
        assert!(is_there(&place, &path));
    }
    Ok(())
}

#[test]
fn a_clone_of_a_path_that_looks_like_a_pattern_says_how_to_name_it() -> Outcome {
    let place = Place::new()?;
    place.ok(&["init", "film"])?;
    place.write("film/take[01]/a.mov", "a")?;
    place.write("film/s/b.mov", "b")?;
    place.ok(&["-C", "film", "commit", "-m", "base"])?;
    let done = place.run(&["clone", "film", "part", "--subset", "take[01]"])?;
    assert_eq!(done.status.code(), Some(20), "{done:?}");
    let text = String::from_utf8(done.stderr.clone())?;
    assert!(
        text.contains("nothing in main matches 'take[01]'"),
        "{text}"
    );
    paste(&place, &printed(&done, "dmv clone ")?)?;
    assert!(place.work().join("part/take[01]/a.mov").exists());
    assert!(!place.work().join("part/s").exists());
    let said = place.run(&["-C", "film", "subset", "set", "take[01]", "s"])?;
    let said = String::from_utf8(said.stderr)?;
    assert!(said.contains("write the pattern 'take\\[01]'"), "{said}");
    Ok(())
}

fn the_operation_log_is_pasted() -> Outcome {
    for name in names(7) {
        let place = with_name(name)?;
        write(&place, name, "edited\n")?;
        let typed = typed(name);
        place.ok(&args(&["restore"], &typed))?;
        let log = place.records(&["op", "log", "-n", "1", "--json"])?;
        let command = log[0]["command"].as_str().ok_or("no command")?.to_owned();
        write(&place, name, "edited again\n")?;
        paste(&place, &command)?;
        assert_eq!(
            fs::read(place.work().join(OsStr::from_bytes(name)))?,
            b"one\n",
            "{command}"
        );
    }
    Ok(())
}

#[test]
fn commands_are_found_in_sentences() {
    let found = |text: &str| {
        let all = PrintedCommand::all_in(text);
        all.into_iter()
            .map(|command| command.text)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        found("hint: dmv get 'a b', then push again"),
        ["dmv get 'a b'"]
    );
    assert_eq!(
        found("hint: dmv commit -m MESSAGE or dmv stash, to keep them"),
        ["dmv commit -m MESSAGE", "dmv stash"]
    );
    assert_eq!(found("note: kept (dmv ls -l)"), ["dmv ls -l"]);
    assert_eq!(found("error: 'dmv push' has no argument '-x'"), [""; 0]);
    assert_eq!(found("note: dmv keeps at most 3 GiB"), [""; 0]);
    let words = |text: &str| PrintedCommand::all_in(text).remove(0).words;
    assert_eq!(
        words("dmv rm $'a\\xff\\n'"),
        ["rm".into(), OsString::from_vec(b"a\xff\n".into())]
    );
    assert_eq!(words("dmv rm 'it'\\''s'"), ["rm", "it's"]);
}
