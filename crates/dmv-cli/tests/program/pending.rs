//! Conflicts that no commit has yet, from every command that leaves one: they are listed, shown and
//! settled as any other, and no commit takes half of one.

use crate::place::files::{changes, exists, paths, read};
use crate::place::{Outcome, Place};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// What a version has at the path of a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Nothing,
    File(&'static str),
    Link(&'static str),
    Directory(&'static [(&'static str, &'static str)]),
}

use Version::{Directory, File, Link, Nothing};

impl Version {
    fn put(self, place: &Place, path: &str) -> Outcome {
        let at = place.work().join(path);
        match fs::symlink_metadata(&at) {
            Ok(stat) if stat.is_dir() => fs::remove_dir_all(&at)?,
            Ok(_) => fs::remove_file(&at)?,
            Err(_) => {}
        }
        match self {
            Nothing => {}
            File(text) => place.write(path, text)?,
            Link(target) => {
                fs::create_dir_all(at.parent().ok_or("it is below")?)?;
                symlink(target, &at)?;
            }
            Directory(files) => {
                for (name, text) in files {
                    place.write(format!("{path}/{name}"), text)?;
                }
            }
        }
        Ok(())
    }

    /// The files that it consists of, with their content.
    fn files(self, path: &str) -> BTreeMap<String, String> {
        let all = match self {
            Nothing => Vec::new(),
            File(text) => vec![(path.to_owned(), text.to_owned())],
            Link(target) => vec![(path.to_owned(), format!("-> {target}"))],
            Directory(files) => files
                .iter()
                .map(|(name, text)| (format!("{path}/{name}"), (*text).to_owned()))
                .collect(),
        };
        all.into_iter().collect()
    }
}

/// Three versions of one path that cannot be combined.
#[derive(Clone, Copy, Debug)]
struct Shape {
    path: &'static str,
    base: Version,
    ours: Version,
    theirs: Version,
}

const SHAPES: &[Shape] = &[
    Shape {
        path: "n",
        base: Nothing,
        ours: Directory(&[("z", "mine"), ("deep/y", "mine")]),
        theirs: File("new"),
    },
    Shape {
        path: "dir/n",
        base: Nothing,
        ours: File("mine"),
        theirs: Directory(&[("z", "new")]),
    },
    Shape {
        path: "dir/text.txt",
        base: File("1\n2\n3\n"),
        ours: File("1\nzwei\n3\n"),
        theirs: File("1\ntwo\n3\n"),
    },
    Shape {
        path: "image.ours.bin",
        base: File("\0base"),
        ours: File("\0ours"),
        theirs: File("\0theirs"),
    },
    Shape {
        path: "deep/er/link",
        base: Nothing,
        ours: Link("ours"),
        theirs: Link("theirs"),
    },
    Shape {
        path: "kind",
        base: Nothing,
        ours: File("a file"),
        theirs: Link("a link"),
    },
    Shape {
        path: "gone.bin",
        base: File("\0base"),
        ours: Nothing,
        theirs: File("\0theirs"),
    },
    Shape {
        path: "kept.bin",
        base: File("\0base"),
        ours: File("\0ours"),
        theirs: Nothing,
    },
];

/// Where a conflict comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// `stash pop` into uncommitted edits.
    Pop,
    /// `stash apply` on another commit.
    Apply,
    /// `reset` behind the merge that has the conflict.
    Reset,
    /// The same, on another branch that carries the files.
    Carried,
}

const ALL: [From; 4] = [From::Pop, From::Apply, From::Reset, From::Carried];

/// A worktree that shows the conflict, and a file with an edit that belongs to nothing.
fn place(shape: &Shape, from: From) -> Outcome<Place> {
    let place = Place::with_repository()?;
    let Shape {
        path,
        base,
        ours,
        theirs,
    } = *shape;
    place.write("other", "base")?;
    base.put(&place, path)?;
    place.commit("base")?;
    match from {
        From::Pop | From::Apply => {
            theirs.put(&place, path)?;
            place.ok(&["stash"])?;
            ours.put(&place, path)?;
            if from == From::Apply {
                place.commit("ours")?;
            }
            let verb = if from == From::Pop { "pop" } else { "apply" };
            place.fails(4, &["stash", verb])?;
        }
        From::Reset | From::Carried => {
            place.ok(&["checkout", "-b", "side"])?;
            theirs.put(&place, path)?;
            place.commit("theirs")?;
            place.ok(&["checkout", "main"])?;
            ours.put(&place, path)?;
            place.commit("ours")?;
            place.fails(4, &["merge", "side"])?;
            place.ok(&["reset", "@~1"])?;
            if from == From::Carried {
                place.ok(&["checkout", "-b", "elsewhere"])?;
            }
        }
    }
    place.write("other", "edited")?;
    Ok(place)
}

/// The files on disk below the top, or those of the last commit.
fn on_disk(place: &Place) -> Outcome<BTreeMap<String, String>> {
    fn walk(dir: &Path, at: &str, out: &mut BTreeMap<String, String>) -> Outcome {
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let name = format!("{at}{}", entry.file_name().to_string_lossy());
            let kind = entry.file_type()?;
            if name == ".dmv" {
                continue;
            } else if kind.is_dir() {
                walk(&entry.path(), &format!("{name}/"), out)?;
            } else if kind.is_symlink() {
                let target = fs::read_link(entry.path())?;
                out.insert(name, format!("-> {}", target.display()));
            } else {
                out.insert(
                    name,
                    String::from_utf8_lossy(&fs::read(entry.path())?).into(),
                );
            }
        }
        Ok(())
    }
    let mut out = BTreeMap::new();
    walk(&place.work(), "", &mut out)?;
    Ok(out)
}

fn committed(place: &Place) -> Outcome<Vec<String>> {
    let all = place.records(&["ls", "-r", "@", "--json"])?;
    let files = all.iter().filter(|one| one["kind"] != "directory");
    Ok(files
        .filter_map(|one| Some(one["path"].as_str()?.to_owned()))
        .collect())
}

/// The paths of the conflicts, as each command that lists them says.
fn listed(place: &Place) -> Outcome<Vec<String>> {
    let all = place.records(&["conflicts", "--json"])?;
    let listed: Vec<String> = all
        .iter()
        .filter_map(|one| Some(one["path"].as_str()?.to_owned()))
        .collect();
    let status = place.json(&["status", "--json"])?;
    assert_eq!(paths(&status["conflicts"]), listed);
    let short = place.ok(&["status", "--short"])?;
    for path in &listed {
        assert!(short.contains(&format!("UU {path}")), "{short}");
        let diff = place.ok(&["diff"])?;
        assert!(diff.contains("unresolved: "), "{diff}");
        assert_eq!(status["clean"], false);
    }
    Ok(listed)
}

#[test]
fn each_is_listed_and_no_commit_takes_a_part_of_it() -> Outcome {
    for (shape, from) in SHAPES
        .iter()
        .flat_map(|shape| ALL.map(|from| (shape, from)))
    {
        let place = place(shape, from)?;
        let told = format!("{shape:?} {from:?}");
        assert_eq!(listed(&place)?, [shape.path], "{told}");
        let told_changes: Vec<String> =
            changes(&place)?.into_iter().map(|(path, _)| path).collect();
        assert_eq!(told_changes, ["other"], "{told}");
        let (files, before) = (on_disk(&place)?, committed(&place)?);
        place.fails(4, &["commit", "-m", "the rest"])?;
        assert_eq!(committed(&place)?, before, "{told}");
        assert_eq!(place.ok(&["cat", "@:other"])?, "edited");
        assert_eq!(on_disk(&place)?, files, "{told}");
        assert_eq!(listed(&place)?, [shape.path], "{told}");
        place.fails(4, &["commit", "-m", "again"])?;
        place.ok(&["undo"])?;
        assert_eq!(listed(&place)?, [shape.path], "{told}");
        place.ok(&["verify", "--full"])?;
    }
    Ok(())
}

#[test]
fn each_choice_settles_each_and_can_be_made_again() -> Outcome {
    for (shape, from) in SHAPES
        .iter()
        .flat_map(|shape| ALL.map(|from| (shape, from)))
    {
        let place = place(shape, from)?;
        let shown = on_disk(&place)?;
        let with = place.home().join("with");
        fs::write(&with, "by hand")?;
        let with = with.to_str().ok_or("a path")?;
        let choices = [
            (vec!["--ours"], shape.ours),
            (vec!["--theirs"], shape.theirs),
            (vec!["--base"], shape.base),
            (vec!["--with", with], File("by hand")),
        ];
        for (choice, version) in &choices {
            let told = format!("{shape:?} {from:?} {choice:?}");
            place.ok(&[&["resolve", shape.path], &choice[..]].concat())?;
            let mut wanted = version.files(shape.path);
            wanted.insert("other".to_owned(), "edited".to_owned());
            assert_eq!(on_disk(&place)?, wanted, "{told}");
            assert_eq!(listed(&place)?, [] as [&str; 0], "{told}");
        }
        for _ in &choices {
            place.ok(&["undo"])?;
        }
        assert_eq!(on_disk(&place)?, shown, "{shape:?} {from:?}");
        assert_eq!(listed(&place)?, [shape.path]);
        place.ok(&["resolve", "--all", "--theirs"])?;
        place.ok(&["commit", "-m", "theirs"])?;
        let mut wanted: Vec<String> = shape.theirs.files(shape.path).into_keys().collect();
        wanted.push("other".to_owned());
        wanted.sort();
        assert_eq!(committed(&place)?, wanted, "{shape:?} {from:?}");
        assert_eq!(changes(&place)?, []);
        assert_eq!(listed(&place)?, [] as [&str; 0]);
        place.ok(&["undo"])?;
        place.ok(&["undo"])?;
        assert_eq!(listed(&place)?, [shape.path]);
        place.ok(&["resolve", shape.path, "--both"])?;
        assert_eq!(listed(&place)?, [] as [&str; 0]);
        place.ok(&["commit", "-m", "both"])?;
        let sides = [shape.ours, shape.theirs]
            .iter()
            .filter(|side| **side != Nothing)
            .count();
        let roots: std::collections::BTreeSet<String> = committed(&place)?
            .iter()
            .map(|path| match path.strip_prefix(shape.path) {
                Some(rest) if rest.starts_with('/') => shape.path.to_owned(),
                _ => path.strip_suffix("/z").unwrap_or(path).to_owned(),
            })
            .collect();
        assert_eq!(roots.len(), 1 + sides, "{shape:?} {from:?} {roots:?}");
        place.ok(&["verify", "--full"])?;
    }
    Ok(())
}

#[test]
fn several_are_settled_one_by_one_and_by_hand() -> Outcome {
    let place = Place::with_repository()?;
    for shape in SHAPES {
        shape.base.put(&place, shape.path)?;
    }
    place.write("other", "base")?;
    place.commit("base")?;
    for shape in SHAPES {
        shape.theirs.put(&place, shape.path)?;
    }
    place.ok(&["stash"])?;
    for shape in SHAPES {
        shape.ours.put(&place, shape.path)?;
    }
    place.fails(4, &["stash", "pop"])?;
    assert_eq!(listed(&place)?.len(), SHAPES.len());
    place.ok(&["resolve", "dir", "--theirs"])?;
    place.write("n", "my own")?;
    assert_eq!(listed(&place)?.len(), SHAPES.len() - 3);
    place.fails(4, &["commit", "-m", "three of them"])?;
    assert_eq!(listed(&place)?.len(), SHAPES.len() - 3);
    assert_eq!(read(&place, "n")?, "my own");
    assert!(!exists(&place, "n.ours") && !exists(&place, "n.theirs"));
    let names = committed(&place)?;
    for path in ["n", "dir/n/z", "dir/text.txt"] {
        assert!(names.contains(&path.to_owned()), "{names:?}");
    }
    assert!(
        !names.iter().any(|name| name.contains(".theirs")),
        "{names:?}"
    );
    place.ok(&["resolve", "--all", "--ours"])?;
    place.ok(&["commit", "-m", "the others"])?;
    assert_eq!(listed(&place)?, [] as [&str; 0]);
    assert_eq!(changes(&place)?, []);
    place.ok(&["verify", "--full"])?;
    Ok(())
}

#[test]
fn a_switch_carries_one_and_overwrites_none_of_its_files() -> Outcome {
    let shape = SHAPES
        .iter()
        .find(|shape| shape.path == "image.ours.bin")
        .ok_or("it is there")?;
    let place = Place::with_repository()?;
    place.write("other", "base")?;
    shape.base.put(&place, shape.path)?;
    place.commit("base")?;
    place.ok(&["branch", "same"])?;
    place.ok(&["checkout", "-b", "changed"])?;
    place.write(shape.path, b"\0changed")?;
    place.commit("changed")?;
    place.ok(&["checkout", "main"])?;
    shape.theirs.put(&place, shape.path)?;
    place.ok(&["stash"])?;
    shape.ours.put(&place, shape.path)?;
    place.commit("ours")?;
    place.fails(4, &["stash", "apply"])?;
    let files = on_disk(&place)?;
    // Its file is as in the commit, but nobody has chosen it.
    for command in [
        &["checkout", "changed"][..],
        &["merge", "changed"],
        &["checkout", "same"],
    ] {
        let output = place.run(command)?;
        assert!(matches!(output.status.code(), Some(4 | 5)), "{command:?}");
        if command[0] == "merge" {
            continue;
        }
        assert_eq!(on_disk(&place)?, files, "{command:?}");
        assert_eq!(listed(&place)?, [shape.path], "{command:?}");
    }
    place.ok(&["checkout", "-b", "new"])?;
    assert_eq!(listed(&place)?, [shape.path]);
    // A second stash with the same file waits until the conflict is settled.
    let said = place.fails(5, &["stash", "apply"])?;
    assert!(said.contains(shape.path), "{said}");
    assert_eq!(on_disk(&place)?, files);
    place.ok(&["resolve", shape.path, "--theirs"])?;
    place.ok(&["commit", "-m", "theirs"])?;
    assert_eq!(changes(&place)?, []);
    Ok(())
}

#[test]
fn a_file_of_the_user_that_has_the_name_of_a_version_stays_the_users() -> Outcome {
    let place = Place::with_repository()?;
    place.write("b.bin", b"\0base")?;
    place.commit("base")?;
    place.write("b.bin", b"\0theirs")?;
    place.ok(&["stash"])?;
    place.write("b.bin", b"\0ours")?;
    place.write("b.theirs.bin", "my notes")?;
    place.fails(4, &["stash", "pop"])?;
    assert_eq!(listed(&place)?, ["b.bin"]);
    place.fails(4, &["commit", "-m", "my notes"])?;
    assert_eq!(committed(&place)?, ["b.bin", "b.theirs.bin"]);
    assert_eq!(place.ok(&["cat", "@:b.theirs.bin"])?, "my notes");
    assert_eq!(listed(&place)?, ["b.bin"]);
    place.ok(&["resolve", "b.bin", "--theirs"])?;
    place.ok(&["commit", "-m", "theirs"])?;
    assert_eq!(read(&place, "b.theirs.bin")?, "my notes");
    assert_eq!(place.ok(&["cat", "@:b.bin"])?, "\0theirs");
    assert_eq!(changes(&place)?, []);
    Ok(())
}

#[test]
fn no_switch_answers_one_and_force_gives_it_up() -> Outcome {
    let place = Place::with_repository()?;
    place.write("other", "base")?;
    place.commit("base")?;
    place.ok(&["checkout", "-b", "has-n"])?;
    place.write("n", "of the branch")?;
    place.commit("n")?;
    place.ok(&["checkout", "main"])?;
    place.write("n", "new")?;
    place.ok(&["stash"])?;
    place.write("n/z", "mine")?;
    place.fails(4, &["stash", "pop"])?;
    let files = on_disk(&place)?;
    for command in [["checkout", "has-n"], ["merge", "has-n"]] {
        let said = place.fails(5, &command)?;
        assert!(said.contains("n"), "{said}");
        assert_eq!(on_disk(&place)?, files);
        assert_eq!(listed(&place)?, ["n"]);
    }
    place.ok(&["checkout", "--force", "has-n"])?;
    assert_eq!(listed(&place)?, [] as [&str; 0]);
    assert_eq!(read(&place, "n")?, "of the branch");
    assert_eq!(read(&place, "n.ours/z")?, "mine");
    let names: Vec<String> = changes(&place)?.into_iter().map(|(path, _)| path).collect();
    assert_eq!(names, ["n.ours/z", "n.theirs"]);
    place.ok(&["undo"])?;
    assert_eq!(listed(&place)?, ["n"]);
    assert_eq!(on_disk(&place)?, files);
    Ok(())
}

#[test]
fn one_that_was_put_aside_comes_back_as_one() -> Outcome {
    for shape in SHAPES {
        let place = place(shape, From::Apply)?;
        let shown = on_disk(&place)?;
        place.ok(&["stash"])?;
        assert_eq!(listed(&place)?, [] as [&str; 0], "{shape:?}");
        place.write("between", "between")?;
        place.ok(&["commit", "-m", "between"])?;
        place.ok(&["stash", "pop"])?;
        assert_eq!(listed(&place)?, [shape.path], "{shape:?}");
        let mut wanted = shown;
        wanted.insert("between".to_owned(), "between".to_owned());
        assert_eq!(on_disk(&place)?, wanted, "{shape:?}");
        place.fails(4, &["commit", "-m", "the rest"])?;
        assert_eq!(listed(&place)?, [shape.path], "{shape:?}");
    }
    Ok(())
}
