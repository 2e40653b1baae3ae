//! What is not done, or not quite, is said, and the exit code tells.

#![allow(clippy::print_stdout)]

use crate::place::several::{commit, several};
use crate::place::{Outcome, Place};
use std::fs;
use std::io::Read;
use std::process::Stdio;

fn exists(place: &Place, path: &str) -> bool {
    place.work().join(path).exists()
}

#[test]
fn what_names_nothing_or_goes_among_the_files_of_a_repository_is_refused() -> Outcome {
    let place = several()?;
    // A subset that names nothing is refused and one that names something warns.
    let export = |patterns: &[&str]| {
        let before = ["-C", "film", "export", "main", "--to", "../out", "--subset"];
        [&before[..], patterns].concat().join("\n")
    };
    let args = |joined: &str| joined.split('\n').map(str::to_owned).collect::<Vec<_>>();
    let said = place.fails(20, &args(&export(&["none", "*.mov"])))?;
    assert!(
        said.contains("no file in main matches the subset"),
        "{said}"
    );
    assert!(said.contains("hint: dmv ls -r main"), "{said}");
    assert!(!exists(&place, "out"));
    place.fails(
        20,
        &[
            "-C",
            "film",
            "export",
            "main:shots",
            "--tar",
            "../t",
            "--subset",
            "x",
        ],
    )?;
    assert!(!exists(&place, "t"));
    let done = place.run(&args(&export(&["none", "shots/1"])))?;
    assert_eq!(done.status.code(), Some(0));
    let said = String::from_utf8(done.stderr)?;
    assert!(
        said.contains("nothing in the commit matches 'none'"),
        "{said}"
    );
    assert_eq!(fs::read_dir(place.work().join("out/shots"))?.count(), 1);

    let said = place.fails(20, &["clone", "film", "part", "--subset", "none", "*.mov"])?;
    assert!(
        said.contains("nothing in main matches 'none', '*.mov'"),
        "{said}"
    );
    assert!(said.contains("hint: ") && !exists(&place, "part"), "{said}");
    place.fails(20, &["clone", "--bare", "film", "part", "--subset", "none"])?;
    assert!(!exists(&place, "part"));
    // One that was cut off before stays, and can be gone on with.
    fs::create_dir(place.work().join("part"))?;
    place.fails(20, &["clone", "film", "part", "--subset", "none"])?;
    let done = place.run(&["clone", "film", "part", "--subset", "none", "shots/1"])?;
    assert_eq!(done.status.code(), Some(0));
    let said = String::from_utf8(done.stderr)?;
    assert!(
        said.contains("nothing in the commit matches 'none'"),
        "{said}"
    );
    assert!(exists(&place, "part/shots/1"));
    place.ok(&["-C", "part", "verify", "--full"])?;

    fs::remove_dir_all(place.work().join("out"))?;
    // Nothing is written among the files of a repository.
    place.ok(&["clone", "--bare", "film", "nas"])?;
    let before = fs::read_dir(place.work().join("nas"))?.count();
    for to in ["out", "packs/out", "../nas/out", "../film/../nas/out"] {
        let said = place.fails(5, &["-C", "nas", "export", "main", "--to", to])?;
        assert!(
            said.contains("is inside the repository directory"),
            "{said}"
        );
        place.fails(5, &["-C", "nas", "export", "main", "--tar", to])?;
        if cfg!(feature = "git") {
            place.fails(5, &["-C", "nas", "export", "--git", to])?;
            place.fails(5, &["-C", "nas", "export", "--stream", to])?;
        }
    }
    place.fails(5, &["-C", "film", "export", "main", "--to", ".dmv/out"])?;
    for dir in ["nas/x", "nas/packs/x", "film/.dmv/x"] {
        let said = place.fails(5, &["clone", "film", dir])?;
        assert!(said.contains("is inside"), "{said}");
    }
    for dir in ["nas/x", "nas/packs/x", "film/.dmv/packs/x", "film/.dmv/x"] {
        let mut commands = vec![vec!["init", dir], vec!["init", "--bare", dir]];
        for repo in ["film", "nas"] {
            commands.push(vec!["-C", repo, "worktree", "add", dir, "main"]);
            commands.push(vec!["-C", repo, "export", "main", "--to", dir]);
        }
        for mut command in commands {
            let up = format!("../{dir}");
            if command[0] == "-C" {
                let at = command.iter().position(|arg| *arg == dir).ok_or("a path")?;
                command[at] = &up;
            }
            let said = place.fails(5, &command)?;
            assert!(
                said.contains("is inside the repository directory"),
                "{said}"
            );
            assert!(!exists(&place, dir), "{command:?}");
        }
    }
    place.fails(5, &["clone", "nas", "nas/x"])?;
    let said = place.fails(5, &["clone", "film", "film/x"])?;
    assert!(said.contains("the repository that you clone"), "{said}");
    assert!(!exists(&place, "film/x"));
    assert_eq!(fs::read_dir(place.work().join("nas"))?.count(), before);
    place.ok(&["-C", "nas", "export", "main", "--to", "../out"])?;
    assert!(exists(&place, "out/shots/1"));
    place.ok(&["-C", "film", "export", "main", "--to", "here"])?;

    // Without a home nothing is written into one.
    let without = |args: &[&str]| -> Outcome<(Option<i32>, String)> {
        let mut command = place.command(args);
        let done = command
            .env_remove("HOME")
            .env_remove("XDG_CONFIG_HOME")
            .output()?;
        Ok((done.status.code(), String::from_utf8(done.stderr)?))
    };
    let (code, said) = without(&["id"])?;
    assert_eq!(code, Some(20), "{said}");
    assert!(said.contains("hint: export XDG_CONFIG_HOME=DIR"), "{said}");
    let (code, said) = without(&["-C", "film", "status"])?;
    assert_eq!(code, Some(0), "{said}");

    // A port that is taken is named.
    let taken = std::net::UdpSocket::bind("127.0.0.1:0")?;
    let at = taken.local_addr()?.to_string();
    let said = place.fails(20, &["-C", "film", "serve", "--listen", &at])?;
    assert!(said.contains(&format!("cannot listen on {at}")), "{said}");
    assert!(said.contains("hint: dmv serve --listen"), "{said}");

    // An archive that nobody reads to its end is no success.
    place.write("film/large", vec![7; 4_000_000])?;
    place.ok(&["-C", "film", "commit", "-m", "large"])?;
    let mut command = place.command(&["-C", "film", "export", "@", "--tar", "-"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut out = child.stdout.take().ok_or("a pipe")?;
    out.read_exact(&mut [0; 1000])?;
    drop(out);
    let done = child.wait_with_output()?;
    assert_eq!(done.status.code(), Some(141));
    assert_eq!(String::from_utf8(done.stderr)?, "", "and quietly");
    Ok(())
}

#[test]
fn a_repository_that_cannot_be_written_to_is_left_alone_by_the_message() -> Outcome {
    use std::os::unix::fs::PermissionsExt;
    if rustix::process::geteuid().is_root() {
        dmv_random::skip("root may write everywhere");
        return Ok(());
    }
    let place = several()?;
    let dmv = place.work().join("film/.dmv");
    fs::set_permissions(&dmv, fs::Permissions::from_mode(0o555))?;
    fs::set_permissions(dmv.join("refs.db"), fs::Permissions::from_mode(0o444))?;
    place.write("film/new", "new")?;
    let said = place.fails(12, &["-C", "film", "commit", "-m", "x"]);
    fs::set_permissions(&dmv, fs::Permissions::from_mode(0o755))?;
    assert!(said?.contains("ermission"));
    Ok(())
}

#[test]
fn settings_that_are_changed_at_the_same_time_are_all_there() -> Outcome {
    const COMMANDS: usize = 12;
    let place = Place::with_repository()?;
    let started: Vec<_> = (0..COMMANDS)
        .map(|n| {
            let args = ["remote", "add", &format!("r{n}"), &format!("../other{n}")];
            place.command(&args).spawn()
        })
        .collect::<Result<_, _>>()?;
    for mut command in started {
        assert!(command.wait()?.success());
    }
    let listed = place.ok(&["remote"])?;
    for n in 0..COMMANDS {
        assert!(
            listed.contains(&format!("r{n}\t")) || listed.contains(&format!("r{n} ")),
            "{listed}"
        );
    }
    Ok(())
}

#[test]
fn an_ignored_file_in_a_directory_that_becomes_a_file_refuses_the_switch() -> Outcome {
    let place = Place::with_repository()?;
    place.write("d/f", "1")?;
    place.write(".dmvignore", "*.ign\n")?;
    place.commit("directory")?;
    place.ok(&["branch", "other"])?;
    place.ok(&["checkout", "other"])?;
    fs::remove_dir_all(place.work().join("d"))?;
    place.write("d", "file")?;
    place.commit("file")?;
    place.ok(&["checkout", "main"])?;
    place.write("d/x.ign", "kept nowhere else")?;
    for command in [&["checkout", "other"][..], &["merge", "other"]] {
        let said = place.fails(5, command)?;
        assert!(said.contains("d/x.ign"), "{said}");
        assert_eq!(fs::read_to_string(place.work().join("d/f"))?, "1");
        let status = place.json(&["status", "--json"])?;
        assert_eq!(status["clean"], true, "{status}");
    }
    fs::remove_file(place.work().join("d/x.ign"))?;
    place.write("d/x", "mine")?;
    let said = place.fails(5, &["checkout", "other"])?;
    assert!(said.contains("uncommitted changes in d/x;"), "{said}");
    fs::remove_file(place.work().join("d/x"))?;
    place.ok(&["checkout", "other"])?;
    assert_eq!(fs::read_to_string(place.work().join("d"))?, "file");
    Ok(())
}

#[test]
fn a_replaced_branch_and_absent_remotes_are_named_with_what_helps() -> Outcome {
    let place = several()?;
    // Where the remotes branch was replaced a push and a sync name what helps.
    commit(&place, "film", "one")?;
    place.ok(&["clone", "film", "copy"])?;
    place.ok(&["-C", "film", "undo"])?;
    commit(&place, "film", "another")?;
    commit(&place, "copy", "mine")?;
    place.ok(&["-C", "copy", "fetch"])?;
    let helps = "dmv pull --reset, to use origin/main as it is; or dmv merge origin/main";
    let said = place.fails(5, &["-C", "copy", "push"])?;
    assert!(said.contains(&format!("hint: {helps}")), "{said}");
    let said = place.fails(3, &["-C", "copy", "sync"])?;
    assert!(said.contains(helps), "{said}");

    // A sync goes on after a remote that is not there and names it.
    for name in ["one", "two", "three"] {
        place.ok(&["clone", "--bare", "film", name])?;
        place.ok(&["-C", "film", "remote", "add", name, &format!("../{name}")])?;
    }
    commit(&place, "film", "more")?;
    fs::rename(place.work().join("one"), place.work().join("unplugged"))?;
    let done = place.run(&["-C", "film", "sync"])?;
    let said = String::from_utf8(done.stderr)?;
    assert_eq!(done.status.code(), Some(3), "{said}");
    assert!(
        said.contains("not synced with one: no repository at"),
        "{said}"
    );
    for name in ["two", "three"] {
        place.ok(&["-C", name, "cat", "main:more"])?;
    }
    // Damage at one of them is no reason to leave the others out, and is told.
    fs::write(place.work().join("two/format"), "garbage")?;
    commit(&place, "film", "again")?;
    let said = place.fails(3, &["-C", "film", "sync"])?;
    assert!(said.contains("not synced with two: "), "{said}");
    place.ok(&["-C", "three", "cat", "main:again"])?;
    for name in ["two", "three"] {
        fs::remove_dir_all(place.work().join(name))?;
    }
    let said = place.fails(13, &["-C", "film", "sync"])?;
    assert!(
        said.contains("could not sync with any of the remotes: one, three, two"),
        "{said}"
    );
    // One alone is told as any other command tells it.
    place.fails(10, &["-C", "film", "sync", "one"])?;
    Ok(())
}

/// Neither a commit nor a stash would take it out of the way.
#[test]
fn an_ignored_file_in_the_way_is_named_with_what_helps() -> Outcome {
    let place = Place::with_repository()?;
    place.write("d/a", "a")?;
    place.ok(&["commit", "-m", "one"])?;
    place.write("d/n", "new")?;
    place.ok(&["stash"])?;
    place.write(".dmvignore", "n\n")?;
    place.ok(&["commit", "-m", "ignored"])?;
    place.write("d/n", "mine")?;
    let said = place.fails(5, &["stash", "pop"])?;
    assert!(
        said.contains("would lose uncommitted changes in d/n"),
        "{said}"
    );
    assert!(
        said.contains("hint: d/n is ignored; to move it out of the way: mv d/n d/n.mine"),
        "{said}"
    );
    // From elsewhere, the command names the whole path.
    let said = place.fails(5, &["-C", "d", "stash", "pop"])?;
    let path = place.work().join("d/n");
    assert!(
        said.contains(&format!("mv {0} {0}.mine", path.display())),
        "{said}"
    );
    fs::rename(&path, place.work().join("d/n.mine"))?;
    place.ok(&["stash", "pop"])?;
    assert_eq!(fs::read_to_string(path)?, "new");
    // What is not ignored can be committed.
    place.write("d/a", "edited")?;
    place.ok(&["commit", "-m", "edited"])?;
    place.write("d/a", "mine")?;
    let said = place.fails(5, &["checkout", "@~1"])?;
    assert!(
        said.contains("dmv commit -m MESSAGE or dmv stash"),
        "{said}"
    );
    Ok(())
}
