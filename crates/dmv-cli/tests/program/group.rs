//! A repository that the members of a group share, whatever their umasks are, and files that a user
//! may not read.

// A test that is left out says why.
#![allow(clippy::print_stdout)]

use crate::place::{Outcome, Place};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The group, and two users with groups of their own who belong to it.
const GROUP: u32 = 54_400;
const USERS: [u32; 2] = [54_401, 54_402];

/// Whether everything is tried, with `DMV_GROUPS=1`, or a part of it.
fn tries_all() -> bool {
    dmv_random::number("DMV_GROUPS", 0) != 0
}

/// Runs a command with all its output, which has to end with one of `codes`.
fn expect(mut command: Command, codes: &[i32]) -> Outcome<(i32, String)> {
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let code = output.status.code().ok_or("it was killed")?;
    if codes.contains(&code) {
        Ok((code, said))
    } else {
        Err(format!("{command:?} ends with {code}: {said}").into())
    }
}

/// The program as one of the users runs it in `dir`.
fn by(place: &Place, user: u32, umask: &str, dir: &Path, args: &[&str]) -> Command {
    let home = place.dir.path().join(format!("home{user}"));
    let mut command = Command::new("setpriv");
    command
        .arg(format!("--reuid={user}"))
        .arg(format!("--regid={user}"))
        .arg(format!("--groups={GROUP}"))
        .args(["sh", "-c", "umask \"$0\" && exec \"$@\"", umask])
        .arg(env!("CARGO_BIN_EXE_dmv"))
        .args(args)
        .current_dir(dir)
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .env("HOME", &home)
        .env("XDG_CONFIG_HOME", home.join("config"))
        .env("USER", format!("user{user}"))
        .env("NO_COLOR", "1");
    command
}

/// A place where both users have a home and a directory. `None` where this cannot be tested.
fn of_two_users() -> Outcome<Option<Place>> {
    let has_setpriv = Command::new("setpriv").arg("--version").output();
    if !rustix::process::geteuid().is_root() || has_setpriv.is_err() {
        dmv_random::skip("only root can run a program as other users, with setpriv");
        return Ok(None);
    }
    let place = Place::new()?;
    for dir in [place.dir.path().to_owned(), place.work()] {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755))?;
    }
    for user in USERS {
        for dir in [
            place.dir.path().join(format!("home{user}")),
            own(&place, user),
        ] {
            fs::create_dir(&dir)?;
            chown(&dir, Some(user), Some(user))?;
        }
        let trust = ["config", "set", "--user", "safe.repositories", "*"];
        expect(by(&place, user, "022", &own(&place, user), &trust), &[0])?;
    }
    Ok(Some(place))
}

/// The directory of a user's own clones.
fn own(place: &Place, user: u32) -> PathBuf {
    place.work().join(format!("own{user}"))
}

/// Checks that the group may use everything below `dir` as the guide promises.
fn is_shared(dir: &Path, after: &str) -> Outcome {
    let mut left = vec![dir.to_owned()];
    while let Some(path) = left.pop() {
        let stat = fs::symlink_metadata(&path)?;
        let wanted = if stat.is_dir() { 0o2070 } else { 0o060 };
        if stat.mode() & wanted != wanted || stat.gid() != GROUP {
            let (mode, gid) = (stat.mode(), stat.gid());
            return Err(format!("{after}: {} has {mode:o}, {gid}", path.display()).into());
        }
        if stat.is_dir() {
            for entry in fs::read_dir(&path)? {
                left.push(entry?.path());
            }
        }
    }
    Ok(())
}

/// Makes a repository shared, as the guide says.
fn share(dir: &Path) -> Outcome {
    let all = format!(
        "chgrp -R {GROUP} \"$0\" && chmod -R g+rwX \"$0\" && find \"$0\" -type d -exec chmod g+s {{}} +"
    );
    let done = Command::new("sh").args(["-c", &all]).arg(dir).status()?;
    assert!(done.success());
    Ok(())
}

#[test]
fn a_group_shares_a_repository_under_every_umask() -> Outcome {
    let Some(place) = of_two_users()? else {
        return Ok(());
    };
    let place = &place;
    // What each member does in the shared repository itself.
    let upkeep: [&[&str]; 13] = [
        &["verify", "--full"],
        &["gc", "--grace", "0"],
        &["repack"],
        &["tag", "TAG"],
        &["keep", "set", "take", "last:1"],
        &["expire", "--last-copy"],
        &["purge", "secret", "--reason", "why"],
        &["config", "set", "undo.keep-max-size", "1000"],
        &["recover"],
        &["worktree", "add", "WORKTREE", "--detach"],
        &["undo"],
        &["log"],
        &["stats"],
    ];
    let umasks = [
        ["027", "077"],
        ["077", "022"],
        ["000", "000"],
        ["022", "022"],
        ["077", "077"],
    ];
    let tried = if tries_all() { umasks.len() } else { 2 };
    for umasks in umasks.into_iter().take(tried) {
        let name = umasks.join("-");
        let shared = place.work().join(format!("shared{name}.dmv"));
        fs::create_dir(&shared)?;
        chown(&shared, Some(USERS[0]), Some(USERS[0]))?;
        let init = ["init", "--bare", "."];
        expect(by(place, USERS[0], umasks[0], &shared, &init), &[0])?;
        share(&shared)?;
        let url = shared.display().to_string();
        let clone = |n: usize| own(place, USERS[n]).join(&name);
        let run = |n: usize, dir: &Path, args: &[&str]| -> Outcome {
            expect(by(place, USERS[n], umasks[n], dir, args), &[0])?;
            is_shared(&shared, &format!("umasks {name}, {args:?}"))
        };
        for n in [0, 1] {
            run(n, &own(place, USERS[n]), &["clone", &url, &name])?;
        }
        for round in 0..3 {
            for n in [0, 1] {
                if n + round > 0 {
                    run(n, &clone(n), &["pull", "--ff-only"])?;
                }
                for file in ["take", "secret"] {
                    let text = format!("{file} {round} of {n}").repeat(3000);
                    fs::write(clone(n).join(format!("{file}{n}")), &text)?;
                    fs::write(clone(n).join(file), &text)?;
                }
                run(n, &clone(n), &["commit", "-m", "more"])?;
                run(n, &clone(n), &["push"])?;
            }
        }
        for args in upkeep {
            for n in [0, 1] {
                let worktree = own(place, USERS[n]).join(format!("tree{name}"));
                let worktree = worktree.display().to_string();
                let tag = format!("tag{n}");
                let put = |arg: &&'static str| match *arg {
                    "TAG" => tag.clone(),
                    "WORKTREE" => worktree.clone(),
                    arg => arg.to_owned(),
                };
                let args: Vec<String> = args.iter().map(put).collect();
                let args: Vec<&str> = args.iter().map(String::as_str).collect();
                // The second member may find nothing left to do.
                let command = by(place, USERS[n], umasks[n], &shared, &args);
                let (code, said) = expect(command, &[0, 2, 3, 5, 6, 12, 20])?;
                let is_denied = said.to_lowercase().contains("permission");
                // Purged files are not written into the new worktree.
                let is_done = n == 1 || [0, 3].contains(&code);
                // The last worktree that was added lies where the other member alone may look.
                let is_elsewhere = args == ["undo"] && [5, 12].contains(&code);
                let is_right = is_elsewhere || code != 12 && is_done && !is_denied;
                assert!(is_right, "{args:?}: {code} {said}");
                is_shared(&shared, &format!("umasks {name}, {args:?}"))?;
            }
        }
        for n in [0, 1] {
            let other = format!("{name}again");
            // Purged files are not written.
            let again = ["clone", &url, &other];
            expect(
                by(place, USERS[n], umasks[n], &own(place, USERS[n]), &again),
                &[0, 3],
            )?;
            run(n, &own(place, USERS[n]).join(other), &["verify", "--full"])?;
        }
    }
    Ok(())
}

#[test]
fn what_cannot_be_read_is_not_unchanged() -> Outcome {
    let Some(place) = of_two_users()? else {
        return Ok(());
    };
    let (user, dir) = (USERS[0], own(&place, USERS[0]));
    let run = |args: &[&str]| expect(by(&place, user, "022", &dir, args), &[0]);
    run(&["init", "."])?;
    fs::create_dir(dir.join("shut"))?;
    for file in ["open", "shut/a"] {
        fs::write(dir.join(file), file)?;
    }
    run(&["commit", "-m", "one"])?;
    fs::set_permissions(dir.join("shut"), fs::Permissions::from_mode(0o0))?;
    let args = ["states", "open", "shut", "shut/a", "shut/new"];
    let told = by(&place, user, "022", &dir, &args).output()?;
    let told = String::from_utf8(told.stdout)?;
    let states: Vec<&str> = told.lines().filter_map(|l| l.split(' ').next()).collect();
    let cannot = "unreadable";
    assert_eq!(states, ["unchanged", cannot, cannot, cannot], "{told}");
    Ok(())
}

/// Every file of a repository, one after another, is one that its user may not read, for some commands.
#[test]
fn a_file_that_may_not_be_read_is_no_damage() -> Outcome {
    let Some(place) = of_two_users()? else {
        return Ok(());
    };
    let (user, dir) = (USERS[0], own(&place, USERS[0]));
    let run = |dir: &Path, codes: &[i32], args: &[&str]| {
        expect(by(&place, user, "022", dir, args), codes)
    };
    run(&dir, &[0], &["init", "from"])?;
    for n in 0..3 {
        fs::write(dir.join("from/a"), format!("a {n}").repeat(1000))?;
        fs::write(dir.join(format!("from/b{n}")), format!("b {n}"))?;
        for file in ["a", &format!("b{n}")] {
            chown(dir.join("from").join(file), Some(user), Some(user))?;
        }
        run(&dir.join("from"), &[0], &["commit", "-m", "more"])?;
    }
    run(&dir, &[0], &["clone", "from", "repo", "--subset", "a"])?;
    let repo = dir.join("repo");
    fs::write(repo.join("a"), "edited")?;
    run(&repo, &[0], &["commit", "-m", "here"])?;
    fs::write(repo.join("a"), "edited again")?;
    run(&repo, &[0], &["repack"])?;
    run(&repo, &[0], &["gc", "--grace", "0"])?;
    run(
        &repo,
        &[0],
        &["config", "set", "undo.keep-max-size", "1000000"],
    )?;
    let commands: [&[&str]; 9] = [
        &["status"],
        &["commit", "-m", "more"],
        &["log", "--", "a"],
        &["verify", "--full"],
        &["undo"],
        &["gc", "--grace", "0"],
        &["clone", ".", "../copy", "--subset", "a"],
        &["recover"],
        &["export", "@", "--to", "../out"],
    ];
    let mut files = Vec::new();
    let mut left = vec![repo.join(".dmv")];
    while let Some(path) = left.pop() {
        for entry in fs::read_dir(&path)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                left.push(entry.path());
            }
            files.push(entry.path().strip_prefix(&repo)?.to_owned());
        }
    }
    files.push("a".into());
    assert!(files.len() > 15, "{files:?}");
    let mut wrong = Vec::new();
    let every = if tries_all() { 1 } else { 4 };
    for (n, file) in files.iter().enumerate() {
        for args in commands.into_iter().skip(n % every).step_by(every) {
            let copy = place.work().join("copy");
            let _ = fs::remove_dir_all(&copy);
            fs::create_dir(&copy)?;
            chown(&copy, Some(user), Some(user))?;
            let copied = Command::new("cp")
                .arg("-a")
                .args([&repo, &copy.join("repo")])
                .status()?;
            assert!(copied.success());
            let path = copy.join("repo").join(file);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o0))?;
            // A file of the worktree is one that a command could not read, among others.
            let is_own = file.starts_with(".dmv");
            let codes: &[i32] = if is_own { &[0, 12] } else { &[0, 3, 12] };
            match run(&copy.join("repo"), codes, args) {
                Err(e) => wrong.push(format!("{}: {e}", file.display())),
                Ok((12, said))
                    if !said.contains(&*file.file_name().ok_or("")?.to_string_lossy()) =>
                {
                    wrong.push(format!(
                        "{}: {args:?} does not name it: {said}",
                        file.display()
                    ));
                }
                Ok(_) => {}
            }
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), wrong.len());
    Ok(())
}
