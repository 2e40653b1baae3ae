//! A repository goes to a place that has none yet: `clone --bare DIR ADDRESS` and `push --create`.

use crate::place::several::{commit, several, tip};
use crate::place::{Outcome, Place};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// The ssh address of a directory of this place.
fn at(place: &Place, dir: &str) -> String {
    format!("ssh://nas{}", place.work().join(dir).display())
}

/// `film` with a branch and a tag, and a directory `srv` at the other end.
fn with_nas() -> Outcome<Place> {
    let place = several()?;
    place.ok(&["-C", "film", "branch", "regrade"])?;
    place.ok(&["-C", "film", "tag", "v1"])?;
    commit(&place, "film", "more")?;
    fs::create_dir(place.work().join("srv"))?;
    Ok(place)
}

#[test]
fn a_bare_clone_to_an_address_makes_the_repository_on_the_branch_of_its_source_or_completes_it()
-> Outcome {
    let place = with_nas()?;
    // A bare clone to an address makes the repository and the remote.
    let url = at(&place, "srv/film.dmv");
    // From elsewhere, as a person would who has just made the project.
    let made = place.json(&["clone", "--bare", "film", &url, "--json"])?;
    assert_eq!(made["created"], true, "{made}");
    assert_eq!(
        (&made["branch"], &made["remote"]),
        (&"main".into(), &"origin".into())
    );
    assert_eq!(made["refs"].as_array().map(Vec::len), Some(3), "{made}");
    place.ok(&["-C", "srv/film.dmv", "verify"])?;
    for name in ["main", "regrade", "v1"] {
        assert_eq!(
            tip(&place, "srv/film.dmv", name)?,
            tip(&place, "film", name)?
        );
    }
    let remotes = place.ok(&["-C", "film", "remote"])?;
    assert_eq!(remotes, format!("origin  {url}\n"));
    // From then on it is a remote like any other, also for others.
    commit(&place, "film", "again")?;
    place.ok(&["-C", "film", "push"])?;
    place.ok(&["clone", &url, "second"])?;
    assert_eq!(tip(&place, "second", "main")?, tip(&place, "film", "main")?);

    // The new repository is on the branch of its source.
    place.ok(&["-C", "film", "checkout", "regrade"])?;
    place.ok(&["clone", "--bare", "film", &at(&place, "srv/a.dmv")])?;
    place.ok(&["clone", &at(&place, "srv/a.dmv"), "a"])?;
    let status = place.json(&["-C", "a", "status", "--json"])?;
    assert_eq!(status["branch"], "regrade");
    place.ok(&[
        "-C",
        "film",
        "push",
        &at(&place, "srv/b.dmv"),
        "main",
        "--create",
    ])?;
    place.ok(&["clone", &at(&place, "srv/b.dmv"), "b"])?;
    let status = place.json(&["-C", "b", "status", "--json"])?;
    assert_eq!(status["branch"], "main");

    // What was cut off while it was created goes on.
    // Created and not filled: the connection broke before the branches moved.
    place.ok(&["init", "--bare", "srv/created.dmv"])?;
    place.ok(&["clone", "--bare", "film", &at(&place, "srv/created.dmv")])?;
    // Not even created.
    fs::create_dir_all(place.work().join("srv/begun.dmv/packs"))?;
    place.ok(&["clone", "--bare", "film", &at(&place, "srv/begun.dmv")])?;
    for dir in ["srv/created.dmv", "srv/begun.dmv"] {
        place.ok(&["-C", dir, "verify"])?;
        assert_eq!(tip(&place, dir, "main")?, tip(&place, "film", "main")?);
    }
    Ok(())
}

#[test]
fn the_same_copy_again_changes_nothing_and_a_push_to_nothing_names_the_option_that_creates()
-> Outcome {
    let place = with_nas()?;
    // The same copy again changes nothing and another repository is left alone.
    let url = at(&place, "srv/film.dmv");
    let args = ["clone", "--bare", "film", &url];
    place.ok(&args)?;
    let again = place.ok(&args)?;
    assert!(again.contains("is already a copy"), "{again}");
    commit(&place, "film", "new")?;
    let said = place.fails(5, &args)?;
    assert!(said.contains("already a repository at ssh://nas"), "{said}");
    assert!(said.contains("hint: dmv sync ssh://nas"), "{said}");
    // A remote of that name stays, and so does a branch that looks like one of its branches.
    let other = at(&place, "srv/other.dmv");
    let made = place.json(&["clone", "--bare", "film", &other, "--json"])?;
    assert_eq!(made["remote"], Value::Null);
    assert_eq!(
        place.ok(&["-C", "film", "remote"])?,
        format!("origin  {url}\n")
    );
    place.ok(&["-C", "film", "remote", "remove", "origin"])?;
    place.ok(&["-C", "film", "branch", "origin/x"])?;
    let third = at(&place, "srv/third.dmv");
    let made = place.json(&["clone", "--bare", "film", &third, "--json"])?;
    assert_eq!(made["remote"], Value::Null);
    assert_eq!(place.ok(&["-C", "film", "remote"])?, "");

    // A push to nothing says so and names the option that creates.
    let url = at(&place, "srv/nas.dmv");
    place.ok(&["-C", "film", "remote", "add", "nas", &url])?;
    for command in ["push", "sync"] {
        let said = place.fails(10, &["-C", "film", command, "nas"])?;
        assert!(said.contains("no repository at /"), "{said}");
        assert!(said.contains("hint: dmv push nas --create"), "{said}");
        assert!(!place.work().join("srv/nas.dmv").exists());
    }
    let said = place.fails(10, &["-C", "film", "fetch", "nas"])?;
    assert!(
        said.contains("hint: dmv remote, ") && !said.contains("--create"),
        "{said}"
    );
    let made = place.json(&["-C", "film", "push", "nas", "--create", "--json"])?;
    assert_eq!(made["created"], true);
    assert_eq!(
        tip(&place, "srv/nas.dmv", "main")?,
        tip(&place, "film", "main")?
    );
    // In a script it stands there each time.
    commit(&place, "film", "next")?;
    let made = place.json(&["-C", "film", "push", "nas", "--create", "--json"])?;
    assert_eq!(made["created"], false);
    Ok(())
}

#[test]
fn a_new_repository_goes_to_a_free_place_and_replaces_nothing() -> Outcome {
    let place = with_nas()?;
    // A copy to an address is complete bare and of this machine.
    let url = &at(&place, "srv/film.dmv")[..];
    for (args, words) in [
        (&["film", url][..], "has no worktree"),
        (&["--bare", "film", url, "--depth", "1"], "all history"),
        (&["--bare", "film", url, "--meta-only"], "all content"),
        (&["--bare", "film", url, "--subset", "shots"], "all content"),
        (&["--bare", "film", url, "--branch", "main"], "all branches"),
        (&["--bare", "ssh://nas/a", url], "not on this machine"),
        (&["film", "nas:/srv/film.dmv"], "looks like an ssh address"),
        (&["--bare", "film", "ssh://-x/film"], "host name"),
    ] {
        let said = place.fails(2, &[&["clone"], args].concat())?;
        assert!(said.contains(words), "{args:?}: {said}");
    }
    assert_eq!(fs::read_dir(place.work().join("srv"))?.count(), 0);
    // A directory may have any name, and an address of this machine is a directory.
    fs::create_dir(place.work().join("a:"))?;
    place.ok(&["clone", "film", "a:/b"])?;
    let file = format!("file://{}", place.work().join("c").display());
    place.ok(&["clone", "film", &file])?;
    place.ok(&["-C", "c", "verify"])?;

    // No directory of this machine is called like an address.
    for args in [
        &["init", "--bare", "ssh://nas/srv/x.dmv"][..],
        &["demo", "s3://bucket/x"],
        &["-C", "film", "worktree", "add", "ssh://nas/srv/x"],
        &["-C", "film", "export", "@", "--to", "dmv://x/y"],
    ] {
        let said = place.fails(2, args)?;
        assert!(
            said.contains("is an address, not a directory"),
            "{args:?}: {said}"
        );
    }
    assert!(!place.work().join("ssh:").exists() && !place.work().join("film/dmv:").exists());

    // A disk that is not there is to be connected and nothing is created in its place.
    let disk = place.work().join("media/disk/film.dmv");
    place.ok(&[
        "-C",
        "film",
        "remote",
        "add",
        "disk",
        &disk.display().to_string(),
    ])?;
    for command in [&["push", "disk"][..], &["sync", "disk"], &["fetch", "disk"]] {
        let said = place.fails(10, &[&["-C", "film"], command].concat())?;
        assert!(
            said.contains("again when it is connected; or dmv remote"),
            "{said}"
        );
        assert!(!said.contains("--create"), "{said}");
    }
    let said = place.fails(10, &["-C", "film", "push", "disk", "--create"])?;
    assert!(
        said.contains("there is no directory ") && said.contains("media/disk"),
        "{said}"
    );
    assert!(!place.work().join("media").exists());
    fs::create_dir_all(place.work().join("media/disk"))?;
    let said = place.fails(10, &["-C", "film", "push", "disk"])?;
    assert!(said.contains("dmv push disk --create"), "{said}");
    place.ok(&["-C", "film", "push", "disk", "--create"])?;
    place.ok(&["-C", &disk.display().to_string(), "verify"])?;

    // Other files are never mixed with a new repository.
    place.write("srv/photos/a.jpg", "a photo")?;
    place.write("srv/file", "a file")?;
    for dir in [
        "srv/photos",
        "srv/none/film.dmv",
        "srv/file",
        "srv/file/film.dmv",
    ] {
        for url in [
            at(&place, dir),
            place.work().join(dir).display().to_string(),
        ] {
            let said = place.fails(10, &["-C", "film", "push", &url, "--create"])?;
            let why = [
                "is not empty, and has no repository",
                "there is no directory ",
            ];
            assert!(why.iter().any(|why| said.contains(why)), "{url}: {said}");
            assert!(!said.contains("--create"), "{said}");
        }
    }
    assert_eq!(fs::read_dir(place.work().join("srv/photos"))?.count(), 1);
    assert_eq!(fs::read(place.work().join("srv/file"))?, b"a file");
    // Among a repository's own files there is no other one.
    let inside = at(&place, "film/.dmv/packs/x");
    let said = place.fails(20, &["-C", "film", "push", &inside, "--create"])?;
    assert!(said.contains("inside the repository directory"), "{said}");
    assert!(!place.work().join("film/.dmv/packs/x").exists());
    Ok(())
}

/// Lets this script be the program at the other end.
fn remote_program(place: &mut Place, script: &str) -> Outcome {
    let path = place.home().join("remote-dmv");
    fs::write(&path, format!("#!/bin/sh\n{script}\n"))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    place.env.retain(|(name, _)| *name != "DMV_SSH_REMOTE");
    place.env.push(("DMV_SSH_REMOTE", path.into()));
    Ok(())
}

#[test]
fn an_older_dmv_and_a_login_without_one_are_told_with_what_to_run() -> Outcome {
    let mut place = with_nas()?;
    // An older dmv is asked only where there is nothing and says what to run there.
    place.ok(&["init", "--bare", "srv/there.dmv"])?;
    let dmv = env!("CARGO_BIN_EXE_dmv");
    let refuse = "case \"$*\" in *--create*) echo \"error: unexpected argument '--create' found\" >&2; exit 2;; esac";
    remote_program(&mut place, &format!("{refuse}\nexec {dmv} \"$@\""))?;
    let there = at(&place, "srv/there.dmv");
    place.ok(&["-C", "film", "push", &there, "--create"])?;
    let missing = at(&place, "srv/missing.dmv");
    let said = place.fails(14, &["-C", "film", "push", &missing, "--create"])?;
    assert!(said.contains("is too old to create a repository"), "{said}");
    assert!(said.contains("hint: ssh nas 'dmv init --bare /"), "{said}");
    // A key that may reach one repository creates none, whatever the client asks for.
    let one = place.work().join("srv/missing.dmv").display().to_string();
    remote_program(&mut place, &format!("exec {dmv} serve --stdio {one}"))?;
    place.fails(10, &["-C", "film", "push", &missing, "--create"])?;
    assert!(!place.work().join("srv/missing.dmv").exists());

    // A login that does not find dmv names the setting for its path.
    let url = at(&place, "film");
    for (script, program) in [
        ("", "no-such-dmv"),
        ("", "/opt/dmv/bin/dmv"),
        (
            "echo 'fish: Unbekannter Befehl: dmv' >&2; exit 127",
            "remote-dmv",
        ),
        ("exit 127", "remote-dmv"),
    ] {
        if script.is_empty() {
            place.env.retain(|(name, _)| *name != "DMV_SSH_REMOTE");
            place.env.push(("DMV_SSH_REMOTE", program.into()));
        } else {
            remote_program(&mut place, script)?;
        }
        for args in [&["clone", &url, "x"][..], &["-C", "film", "push", &url]] {
            let said = place.fails(13, args)?;
            assert!(said.contains("does not find the program '"), "{said}");
            assert!(said.contains(program), "{said}");
            assert!(
                said.contains("hint: dmv config set --user ssh.remote "),
                "{said}"
            );
        }
    }
    Ok(())
}
