//! Every file of a repository, replaced by something else: no command waits for it, follows it, or
//! writes elsewhere.

// A test that is left out says why.
#![allow(clippy::print_stdout)]

use crate::place::{Outcome, Place};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Far more seconds than any of the commands needs.
const SOON: &str = "60";
/// The length that a file claims without having the bytes.
const HUGE: u64 = 1 << 40;
/// Exit codes for what the commands may find here: done, incomplete, refused, absent, damaged, no
/// repository, permission, other.
const CODES: [i32; 8] = [0, 3, 5, 6, 7, 10, 12, 20];

/// What stands where a file or directory should be.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    Pipe,
    Socket,
    LinkOutside,
    LinkNowhere,
    Directory,
    Device,
    Huge,
}

const SHAPES: [Shape; 7] = [
    Shape::Pipe,
    Shape::Socket,
    Shape::LinkOutside,
    Shape::LinkNowhere,
    Shape::Directory,
    Shape::Device,
    Shape::Huge,
];

/// Commands that work in the repository as it was. The first is always run, the others in turn.
const COMMANDS: [&[&str]; 10] = [
    &["status"],
    &["commit", "-m", "more"],
    &["gc", "--grace", "0"],
    &["recover"],
    &["clone", ".", "../copy", "--subset", "kept"],
    &["log", "--", "kept/a"],
    &["verify"],
    &["undo"],
    &["drop", "kept/b0"],
    &["worktree", "list"],
];

/// Names that may be in a repository and that a usual one lacks.
const RARE: [&str; 19] = [
    "refs.db-wal",
    "refs.db-shm",
    "refs.db-journal",
    "refs.fits",
    "slice",
    "slice.lock",
    "keeping",
    "reaching",
    "freeing",
    "damaged",
    "lost",
    "clone",
    "config.toml",
    "changed-paths",
    "recovering.db",
    "refs.former.db",
    "worktrees/main/switch",
    "worktrees/main/unwritten",
    "worktrees/main/private",
];

/// A worktree with two branches, a linked worktree and the files that a slice, a repack and a recovery
/// leave; `kept/a` is edited.
fn furnished() -> Outcome<Place> {
    let place = Place::new()?;
    place.ok(&["init", "from"])?;
    for n in 0..3 {
        place.write("from/kept/a", format!("a {n}").repeat(1000))?;
        place.write(format!("from/kept/b{n}"), format!("b {n}"))?;
        place.write("from/other/c", format!("c {n}"))?;
        place.ok(&["-C", "from", "commit", "-m", &n.to_string()])?;
    }
    place.ok(&["clone", "from", "repo", "--subset", "kept"])?;
    for args in [
        &["branch", "side", "@~1"][..],
        &["repack"],
        &["recover"],
        &["worktree", "add", "../linked", "--detach"],
        &["gc", "--grace", "0"],
        &["config", "set", "undo.keep-max-size", "1000000"],
    ] {
        place.ok(&[&["-C", "repo"], args].concat())?;
    }
    place.write("repo/kept/a", "edited")?;
    Ok(place)
}

/// The paths of all files and directories below `dir`.
fn below(dir: &Path) -> Outcome<Vec<String>> {
    let mut found = Vec::new();
    let mut left = vec![dir.to_owned()];
    while let Some(path) = left.pop() {
        for entry in fs::read_dir(&path)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                left.push(entry.path());
            }
            found.push(entry.path().strip_prefix(dir)?.display().to_string());
        }
    }
    found.sort();
    Ok(found)
}

/// Puts something of this shape in the place of `path`. What was there goes to `outside`. Returns
/// whether that is possible.
fn put(shape: Shape, path: &Path, outside: &Path) -> Outcome<bool> {
    let target = outside.join("target");
    let was_dir = path.is_dir();
    if path.exists() {
        fs::rename(path, &target)?;
    } else {
        fs::write(&target, "")?;
    }
    fs::create_dir_all(path.parent().ok_or("it has one")?)?;
    let mode = rustix::fs::Mode::from_raw_mode(0o666);
    let make = |kind, dev| rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, dev);
    match shape {
        Shape::Pipe => make(rustix::fs::FileType::Fifo, 0)?,
        Shape::Socket => make(rustix::fs::FileType::Socket, 0)?,
        Shape::LinkOutside => symlink(&target, path)?,
        Shape::LinkNowhere => symlink(outside.join("none"), path)?,
        Shape::Directory if was_dir => fs::write(path, "a file")?,
        Shape::Directory => fs::create_dir(path)?,
        // `/dev/zero`, which has no end. Only root may make it.
        Shape::Device => {
            let zero = rustix::fs::makedev(1, 5);
            return Ok(make(rustix::fs::FileType::CharacterDevice, zero).is_ok());
        }
        Shape::Huge if was_dir => return Ok(false),
        Shape::Huge => {
            fs::copy(&target, path)?;
            fs::File::options().write(true).open(path)?.set_len(HUGE)?;
        }
    }
    Ok(true)
}

/// What is outside: each path with its content.
fn content(outside: &Path) -> Outcome<Vec<(String, Option<Vec<u8>>)>> {
    let all = below(outside)?.into_iter();
    Ok(all
        .map(|path| (path.clone(), fs::read(outside.join(path)).ok()))
        .collect())
}

/// Runs the program in `dir`. It has to end soon.
fn run(place: &Place, dir: &Path, args: &[&str]) -> Outcome<Output> {
    Ok(soon(place, dir, args).output()?)
}

/// The command that ends the program when it takes too long.
fn soon(place: &Place, dir: &Path, args: &[&str]) -> Command {
    let own = place.command(args);
    let mut command = Command::new("timeout");
    command
        .args(["--signal=KILL", SOON])
        .arg(own.get_program())
        .args(own.get_args())
        .current_dir(dir)
        .env_clear()
        .envs(
            own.get_envs()
                .filter_map(|(key, value)| Some((key, value?))),
        )
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .stdin(Stdio::null());
    command
}

/// Runs a command in `dir`, and checks how it ends. `odd` is the name that a failure has to tell.
fn ends_well(place: &Place, dir: &str, args: &[&str], odd: &str) -> Outcome<Option<i32>> {
    let output = run(place, &place.work().join(dir), args)?;
    let said = String::from_utf8(output.stderr)?;
    let code = output.status.code();
    let is_known = code.is_some_and(|code| CODES.contains(&code));
    // The copy has no linked worktree at its old place, so the last operation cannot be undone.
    let is_refused = args == ["undo"] && code == Some(5);
    if !is_known || code != Some(0) && !is_refused && !said.contains(odd) {
        return Err(format!("{args:?} ends with {code:?}: {said}").into());
    }
    Ok(code)
}

#[test]
fn whatever_stands_in_the_place_of_a_file_no_command_waits_or_writes_elsewhere() -> Outcome {
    let place = furnished()?;
    let repo = place.work().join("repo");
    let mut names = below(&repo.join(".dmv"))?;
    names.extend(RARE.map(str::to_owned));
    names.sort();
    names.dedup();
    assert!(names.len() > 30, "{names:?}");
    let all = std::env::var_os("DMV_ODD_FILES").is_some();
    let (mut wrong, mut turn) = (Vec::new(), 0);
    for (number, name) in names.iter().enumerate() {
        // Every second shape, and one command for each; with `DMV_ODD_FILES`, all.
        let (first, step) = if all { (0, 1) } else { (number % 2, 2) };
        for shape in SHAPES.into_iter().skip(first).step_by(step) {
            let chosen: Vec<&[&str]> = if all {
                COMMANDS.to_vec()
            } else {
                turn += 1;
                vec![COMMANDS[turn % COMMANDS.len()]]
            };
            for args in chosen {
                let copy = tempfile::tempdir_in(place.work())?;
                let (there, outside) = (copy.path().join("repo"), copy.path().join("outside"));
                let copied = Command::new("cp")
                    .arg("-a")
                    .arg(&repo)
                    .arg(&there)
                    .status()?;
                assert!(copied.success());
                fs::create_dir(&outside)?;
                if !put(shape, &there.join(".dmv").join(name), &outside)? {
                    continue;
                }
                let before = content(&outside)?;
                let odd = Path::new(name).file_name().ok_or("it has a name")?;
                let odd = odd.to_string_lossy();
                let dir = there.display().to_string();
                if let Err(e) = ends_well(&place, &dir, args, &odd) {
                    wrong.push(format!("{name} as {shape:?}: {e}"));
                }
                if content(&outside)? != before {
                    wrong.push(format!("{name} as {shape:?}: {args:?} writes outside"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), wrong.len());
    Ok(())
}

/// The map of the ids in Git, and what SQLite has beside it.
#[test]
#[cfg(feature = "git")]
fn the_map_of_an_import_is_as_careful() -> Outcome {
    let Some(place) = crate::from_git::source()? else {
        return Ok(());
    };
    place.ok(&["import", "git", "source", "repo"])?;
    let (repo, outside) = (place.work().join("repo"), place.work().join("outside"));
    for name in ["git.db", "git.db-journal", "git.db-wal"] {
        for shape in SHAPES {
            let path = repo.join(".dmv").join(name);
            let was = fs::read(&path).ok();
            fs::create_dir(&outside)?;
            if put(shape, &path, &outside)? {
                let before = content(&outside)?;
                for args in [
                    &["import", "git", "../source"][..],
                    &["export", "--git", "../target"],
                    &["log", "git:0123"],
                    &["status"],
                ] {
                    ends_well(&place, "repo", args, "")?;
                }
                assert_eq!(content(&outside)?, before, "{name} as {shape:?}");
            }
            let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
            if let Some(was) = was {
                fs::write(&path, was)?;
            }
            fs::remove_dir_all(&outside)?;
        }
    }
    // It is made again from Git.
    let map = repo.join(".dmv/git.db");
    fs::write(&map, "no database at all".repeat(1000))?;
    let said = place.fails(7, &["-C", "repo", "import", "git", "../source"])?;
    assert!(said.contains("hint: mv "), "{said}");
    fs::rename(&map, map.with_extension("odd"))?;
    place.ok(&["-C", "repo", "import", "git", "../source"])?;
    Ok(())
}

/// A bare repository and the `.dmv` file of a linked worktree.
#[test]
fn a_bare_repository_and_a_linked_worktree_are_as_careful() -> Outcome {
    let place = furnished()?;
    place.ok(&["clone", "--bare", "--copy", "from", "bare"])?;
    let outside = place.work().join("outside");
    for (dir, file) in [
        ("bare", "format"),
        ("bare", "refs.db"),
        ("bare", "packs"),
        ("linked", ".dmv"),
    ] {
        for shape in SHAPES {
            let path = place.work().join(dir).join(file);
            fs::create_dir(&outside)?;
            let was = place.work().join("was");
            let saved = Command::new("cp").arg("-a").arg(&path).arg(&was).status()?;
            assert!(saved.success());
            if put(shape, &path, &outside)? {
                let before = content(&outside)?;
                for args in [&["log"][..], &["verify"], &["branch", "new"]] {
                    ends_well(&place, dir, args, "")?;
                }
                assert_eq!(content(&outside)?, before, "{file} as {shape:?}");
            }
            let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
            fs::rename(&was, &path)?;
            fs::remove_dir_all(&outside)?;
        }
    }
    place.ok(&["-C", "bare", "verify"])?;
    place.ok(&["-C", "linked", "status"])?;
    Ok(())
}

/// Somebody who owns nothing of what root makes.
const OTHER: u32 = 54_321;

/// Another user's `.dmv` above the current directory, which nobody has asked for.
#[test]
fn another_users_directory_above_holds_no_command_up() -> Outcome {
    if !rustix::process::geteuid().is_root() {
        dmv_random::skip("only root can run a program as another user");
        return Ok(());
    }
    let place = Place::new()?;
    fs::set_permissions(place.dir.path(), fs::Permissions::from_mode(0o755))?;
    let inner = place.work().join("above/inner");
    let dmv = place.work().join("above/.dmv");
    fs::create_dir_all(&inner)?;
    std::os::unix::fs::chown(&inner, Some(OTHER), Some(OTHER))?;
    let commands: [&[&str]; 6] = [
        &["status"],
        &["log"],
        &["init", "new"],
        &["config", "get", "user.name"],
        &["clone", "nowhere"],
        &["help"],
    ];
    let all = std::env::var_os("DMV_ODD_FILES").is_some();
    let mut turn = 0;
    for file in ["format", "clone", "config.toml", "packs", "refs.db"] {
        for shape in SHAPES {
            for with_format in [false, true] {
                turn += 1;
                let _ = fs::remove_dir_all(&dmv);
                fs::create_dir_all(&dmv)?;
                if with_format && file != "format" {
                    fs::write(dmv.join("format"), "dmv-repository 1\n")?;
                    let _ = fs::create_dir(dmv.join("packs"));
                }
                let outside = place.work().join("outside");
                let _ = fs::remove_dir_all(&outside);
                fs::create_dir(&outside)?;
                if !put(shape, &dmv.join(file), &outside)? {
                    continue;
                }
                // Two of the commands in turn; with `DMV_ODD_FILES`, all.
                let (first, step) = if all { (0, 1) } else { (turn % 3, 3) };
                for args in commands.into_iter().skip(first).step_by(step) {
                    let mut command = soon(&place, &inner, args);
                    command.env("HOME", &inner).uid(OTHER).gid(OTHER);
                    let output = command.output()?;
                    let code = output.status.code();
                    let said = String::from_utf8(output.stderr)?;
                    let is_known = [Some(0), Some(1), Some(10), Some(12)].contains(&code);
                    assert!(is_known, "{file} as {shape:?}, {args:?}: {code:?} {said}");
                    assert!(!said.contains("dmv clone SRC"), "it reads {file}: {said}");
                }
                let _ = fs::remove_dir_all(inner.join("new"));
            }
        }
    }
    Ok(())
}

/// What the user's own directory of settings has.
#[test]
fn settings_and_keys_of_the_user_hold_no_command_up() -> Outcome {
    let place = furnished()?;
    let config = place.home().join("config/dmv");
    for file in ["config.toml", "device-key", "announcing"] {
        for shape in [Shape::Pipe, Shape::Socket, Shape::Directory, Shape::Device] {
            let _ = fs::remove_dir_all(&config);
            let outside: PathBuf = place.work().join("outside");
            let _ = fs::remove_dir_all(&outside);
            fs::create_dir_all(&config)?;
            fs::create_dir(&outside)?;
            if !put(shape, &config.join(file), &outside)? {
                continue;
            }
            for args in [
                &["status"][..],
                &["id"],
                &["config", "set", "--user", "a", "b"],
            ] {
                let output = run(&place, &place.work().join("repo"), args)?;
                let said = String::from_utf8(output.stderr)?;
                let code = output.status.code();
                let is_known = [Some(0), Some(2), Some(12), Some(20)].contains(&code);
                assert!(is_known, "{file} as {shape:?}, {args:?}: {code:?} {said}");
            }
        }
    }
    Ok(())
}

/// A listener keeps a socket alive that a command could connect to.
#[test]
fn a_socket_that_somebody_listens_at_is_no_file() -> Outcome {
    let place = furnished()?;
    let lock = place.work().join("repo/.dmv/worktrees/main/lock");
    fs::remove_file(&lock)?;
    let short = place.dir.path().join("s");
    let _listens = UnixListener::bind(&short)?;
    fs::rename(&short, &lock)?;
    let code = ends_well(&place, "repo", &["commit", "-m", "more"], "lock")?;
    assert_eq!(code, Some(7));
    Ok(())
}
