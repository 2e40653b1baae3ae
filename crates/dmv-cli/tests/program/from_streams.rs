//! `dmv import --stream` and `dmv export --stream`. Git reads and writes the streams; `from_git` has what happens then.

#![cfg(feature = "git")]

use crate::from_git::{git, refs, source};
use crate::place::files::{exists, read};
use crate::place::{Outcome, Place};
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

/// A commit of one file, as exporters write it.
fn commit(branch: &str, date: &str, commands: &str) -> String {
    format!(
        "commit refs/heads/{branch}\nmark :9\ncommitter Ada <ada@example.org> {date}\ndata 1\nx\n{commands}\n"
    )
}

#[test]
fn a_stream_gives_the_same_ids_as_the_repository() -> Outcome {
    let Some(place) = source()? else {
        return Ok(());
    };
    let dir = place.work();
    let stream = git(
        &place,
        "source",
        &["fast-export", "--all", "--signed-tags=verbatim"],
    )?;
    fs::write(dir.join("film.fi"), stream + "\n")?;
    place.ok(&["init", "film"])?;
    let command = ["-C", "film", "import", "--stream", "../film.fi"];
    let plan = place.ok(&[&command[..], &["--dry-run"]].concat())?;
    let start = "4 commits to take, for 3 branches and tags, with 3 versions of files, ";
    assert!(plan.starts_with(start), "{plan}");
    let said = place.ok(&command)?;
    assert!(
        said.starts_with("4 commits taken from ../film.fi"),
        "{said}"
    );
    assert_eq!(read(&place, "film/d/b.txt")?, "two\n");
    assert_eq!(place.ok(&command)?, "nothing new in ../film.fi\n");
    place.ok(&["-C", "film", "export", "--git", "../back.git"])?;
    assert_eq!(refs(&place, "back.git")?, refs(&place, "source")?);
    // And out again, through pipes on both sides.
    let program = env!("CARGO_BIN_EXE_dmv");
    place.ok(&["init", "second"])?;
    let line =
        format!("{program} -C film export --stream - | {program} -C second import --stream -");
    let status = Command::new("sh")
        .current_dir(&dir)
        .env("HOME", place.home())
        .args(["-c", &line])
        .output()?
        .status;
    assert!(status.success());
    let tip = |repo: &str| place.json(&["-C", repo, "show", "--json", "main"]);
    assert_eq!(tip("film")?["id"], tip("second")?["id"]);
    let said = place.ok(&["-C", "film", "export", "--stream", "../out.fi"])?;
    assert!(
        said.starts_with("4 commits exported to ../out.fi"),
        "{said}"
    );
    assert!(fs::read_to_string(dir.join("out.fi"))?.ends_with("done\n"));
    place.ok(&[
        "-C",
        "film",
        "export",
        "--stream",
        "../side.fi",
        "--branches",
        "s*",
    ])?;
    let side = fs::read_to_string(dir.join("side.fi"))?;
    assert!(
        side.contains("refs/heads/side") && !side.contains("refs/heads/main"),
        "{side}"
    );
    // A link is written into, not replaced; a directory cannot be.
    symlink("out.fi", dir.join("link"))?;
    fs::write(
        dir.join("out.fi"),
        "longer than the stream is at its end".repeat(99),
    )?;
    place.ok(&["-C", "film", "export", "--stream", "../link"])?;
    assert!(fs::symlink_metadata(dir.join("link"))?.is_symlink());
    assert!(fs::read_to_string(dir.join("out.fi"))?.ends_with("done\n"));
    fs::create_dir(dir.join("taken"))?;
    let said = place.fails(20, &["-C", "film", "export", "--stream", "../taken"])?;
    assert!(said.contains("cannot write ../taken"), "{said}");
    assert!(dir.join("taken").is_dir());
    Ok(())
}

#[test]
fn what_exporters_write_is_taken() -> Outcome {
    if source()?.is_none() {
        return Ok(());
    }
    let place = Place::with_repository()?;
    let stream = [
        "feature done\n# a comment\nblob\nmark :1\noriginal-oid 7\ndata <<END\none\nEND\n"
            .to_owned(),
        // A time zone that no clock has, a quoted path, and content in the commit itself.
        commit(
            "trunk",
            "1000000000 +051800",
            "M 100644 :1 \"a \\303\\244\"\nM 755 inline run\ndata 2\n#!\n",
        ),
        "progress half of it\ncheckpoint\n".to_owned(),
        commit(
            "trunk",
            "1000000001 -0000",
            "R run d/run\nC \"a \\303\\244\" copy\nM 120000 inline link\ndata 4\ncopy",
        ),
        "reset refs/heads/side\nfrom :9\n\n".to_owned(),
        commit("side", "1000000002 +0000", "deleteall\nM 100644 :1 only"),
        "tag v1\nfrom refs/heads/trunk\ntagger Ada <a@b> 1000000003 +0100\ndata 5\nfirst\n"
            .to_owned(),
        // Notes are on no branch.
        commit(
            "x",
            "1000000004 +0000",
            "N inline refs/heads/trunk\ndata 1\nn",
        )
        .replace("refs/heads/x", "refs/notes/commits"),
        "cat-blob :1\ndone\n".to_owned(),
    ];
    fs::write(place.work().join("s.fi"), stream.concat())?;
    let said = place.ok(&["import", "--stream", "s.fi"])?;
    assert!(said.starts_with("3 commits taken from s.fi"), "{said}");
    assert_eq!(read(&place, "a ä")?, "one\n");
    assert_eq!(read(&place, "link")?, "one\n");
    assert!(exists(&place, "d/run") && !exists(&place, "run"));
    assert_eq!(place.ok(&["ls", "side"])?, "only\n");
    assert_eq!(place.ok(&["ls", "v1"])?.lines().count(), 4);
    Ok(())
}

#[test]
fn a_stream_that_is_damaged_or_hostile_is_refused_whole() -> Outcome {
    if source()?.is_none() {
        return Ok(());
    }
    let place = Place::with_repository()?;
    let good = commit("main", "1000000000 +0000", "M 100644 inline a\ndata 1\na");
    let trap = place.work().join("trap");
    for (text, why) in [
        ("rubbish\n".to_owned(), "Unsupported command: rubbish"),
        (format!("feature done\n{good}"), "stream ends early"),
        (
            format!("{good}blob\ndata 99999999999\nshort"),
            "EOF in data",
        ),
        (
            format!("feature export-marks={}\n{good}", trap.display()),
            "forbidden",
        ),
        (
            format!(
                "feature relative-marks\nfeature import-marks={}\n{good}",
                trap.display()
            ),
            "forbidden",
        ),
        (
            commit("main", "1000000000 +0000", "M 100644 :7 a"),
            "mark :7 not declared",
        ),
        (
            commit("main", "when it rained +0000", ""),
            "Invalid raw date",
        ),
    ] {
        fs::write(place.work().join("s.fi"), &text)?;
        let said = place.fails(7, &["import", "--stream", "s.fi"])?;
        assert!(said.contains(why), "{why}: {said}");
        assert!(said.contains("nothing was taken"), "{said}");
        assert!(!trap.exists());
    }
    assert_eq!(place.ok(&["log"])?, "");
    // What a tree of DMV cannot have is left out and said.
    let hidden = commit(
        "main",
        "1000000000 +0000",
        "M 100644 inline .git/config\ndata 1\na\nM 100644 inline ../trap\ndata 1\na\nM 100644 inline b\ndata 1\nb",
    );
    fs::write(place.work().join("s.fi"), hidden)?;
    let done = place.run(&["import", "--stream", "s.fi"])?;
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(
        done.status.code() == Some(3)
            && said.contains("left out .git:")
            && said.contains("left out ..:"),
        "{said}"
    );
    assert_eq!(place.ok(&["ls", "-r"])?, "b\n");
    assert!(!trap.exists());
    Ok(())
}
