//! The recipes of the guide for histories of other systems, each run with the tool if it is installed.

#![cfg(feature = "git")]

use crate::place::files::read;
use crate::place::{Outcome, Place};
use std::path::Path;
use std::process::Command;

const PAGE: &str = include_str!("../../../../docs/guide/from-git.md");

/// Returns the command lines below a heading of the page.
fn recipe(heading: &str) -> Outcome<&'static str> {
    let (_, section) = PAGE
        .split_once(&format!("\n### {heading}\n"))
        .ok_or("no such heading")?;
    let (_, lines) = section.split_once("```sh\n").ok_or("no recipe")?;
    Ok(lines.split_once("```").ok_or("no end")?.0)
}

/// Runs pieces of shell in a new place, in which `/srv/` is a directory of its own. Returns the place, or
/// `None` if a tool is missing.
fn run(tools: &[&str], pieces: &[&str]) -> Outcome<Option<Place>> {
    let place = Place::new()?;
    let root = place.dir.path().display().to_string();
    let dmv = Path::new(env!("CARGO_BIN_EXE_dmv"));
    let dmv = dmv.parent().ok_or("a directory")?.to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([dmv].into_iter().chain(std::env::split_paths(&path)))?;
    let shell = |text: &str| {
        let mut shell = Command::new("bash");
        shell.args(["-e", "-o", "pipefail", "-c", text]);
        shell.current_dir(place.work()).env("HOME", place.home());
        shell
            .env("PATH", &path)
            .env("USER", "ada")
            .env("LOGNAME", "ada");
        shell
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("HGUSER", "Ada <ada@example.org>");
        shell.output()
    };
    for tool in tools {
        if !shell(tool)?.status.success() {
            dmv_random::skip(format_args!("'{tool}' does not work here"));
            return Ok(None);
        }
    }
    std::fs::create_dir(place.dir.path().join("srv"))?;
    for piece in pieces {
        let text = piece.replace("/srv/", &format!("{root}/srv/"));
        let output = shell(&text)?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{text}: {said}");
    }
    Ok(Some(place))
}

#[test]
fn a_history_of_subversion_comes_in() -> Outcome {
    let setup = "
        mkdir -p /srv/svn && svnadmin create /srv/svn/film
        svn -q co file:///srv/svn/film wc && cd wc
        mkdir trunk branches tags && echo one > trunk/a && svn -q add *
        svn -q ci -m first && svn -q up
        svn -q cp trunk branches/side && echo two > branches/side/a && svn -q ci -m second";
    let tools = [
        "svn --version -q",
        "svnadmin --version -q",
        "git svn --version",
    ];
    let Some(place) = run(&tools, &[setup, recipe("Subversion")?])? else {
        return Ok(());
    };
    assert_eq!(read(&place, "film/a")?, "one\n");
    assert_eq!(place.ok(&["-C", "film", "cat", "side:a"])?, "two\n");
    let log = place.records(&["-C", "film", "log", "--json", "side"])?;
    assert!(
        log.len() >= 2
            && log[0]["message"]
                .as_str()
                .is_some_and(|m| m.starts_with("second"))
    );
    Ok(())
}

#[test]
fn a_history_of_mercurial_comes_in() -> Outcome {
    let setup = "
        hg init ~/film-hg && cd ~/film-hg
        echo one > a && hg -q add a && hg -q ci -m first
        echo two > a && hg -q ci -m second";
    let tools = [
        "hg --version -q",
        "hg --config extensions.hggit= help gexport",
    ];
    let Some(place) = run(&tools, &[setup, recipe("Mercurial")?])? else {
        return Ok(());
    };
    assert_eq!(place.ok(&["-C", "film", "cat", "main:a"])?, "two\n");
    let log = place.records(&["-C", "film", "log", "--json", "main"])?;
    assert_eq!((log.len(), &log[1]["message"]), (2, &"first".into()));
    Ok(())
}

#[test]
fn a_history_of_cvs_comes_in() -> Outcome {
    let setup = "
        mkdir -p /srv/cvs source && cvs -d /srv/cvs init
        echo one > source/a && cd source && cvs -Q -d /srv/cvs import -m first film v r && cd ..
        cvs -Q -d /srv/cvs co -d wc film && cd wc && echo two >> a && cvs -Q ci -m second";
    let Some(place) = run(&["cvs -v", "cvs-fast-export -V"], &[setup, recipe("CVS")?])? else {
        return Ok(());
    };
    assert_eq!(read(&place, "film/a")?, "one\ntwo\n");
    assert_eq!(place.records(&["-C", "film", "log", "--json"])?.len(), 2);
    Ok(())
}

#[test]
fn a_history_of_fossil_comes_in() -> Outcome {
    let setup = "
        fossil init -A ada /srv/film.fossil && mkdir wc && cd wc
        fossil open /srv/film.fossil && echo one > a && fossil add a
        fossil commit -m first --no-warnings --user-override ada";
    let Some(place) = run(&["fossil version"], &[setup, recipe("Fossil")?])? else {
        return Ok(());
    };
    assert_eq!(read(&place, "film/a")?, "one\n");
    Ok(())
}
