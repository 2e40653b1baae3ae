//! Four weeks of work, as their people would do it: an artist, somebody with two laptops, a NAS and a disk
//! that is not always there, an administrator of a NAS, and a pipeline that is killed at random and tries
//! again.
//!
//! Each step checks the exit code and what is said, and each day the files.

// A failed week shows what led to it.
#![allow(clippy::print_stdout)]

use crate::place::several::tip;
use crate::place::terminal::has_script;
use crate::place::{Outcome, Place};
use dmv_random::Rng;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::Duration;

/// Runs a command in `dir`. It has to end with `exit` and to say `words`, on either stream.
fn step(place: &Place, dir: &str, args: &[&str], exit: i32, words: &str) -> Outcome<String> {
    println!("{dir}$ dmv {}", args.join(" "));
    let done = place.run(&[&["-C", dir][..], args].concat())?;
    let said = [done.stdout, done.stderr].concat();
    let said = String::from_utf8(said)?;
    println!("{said}");
    assert_eq!(done.status.code(), Some(exit), "{dir}: {args:?}: {said}");
    assert!(said.contains(words), "{dir}: {args:?}: '{words}': {said}");
    Ok(said)
}

/// The files below a directory, without the repository.
fn files(place: &Place, dir: &str) -> Outcome<BTreeMap<String, String>> {
    let root = place.work().join(dir);
    let mut found = BTreeMap::new();
    let mut dirs = vec![root.clone()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            if path.file_name().is_some_and(|name| name == ".dmv") {
                continue;
            }
            if path.is_dir() {
                dirs.push(path);
                continue;
            }
            let name = path.strip_prefix(&root)?.to_string_lossy().into_owned();
            let content = fs::read(&path)?;
            found.insert(name, String::from_utf8_lossy(&content).into_owned());
        }
    }
    Ok(found)
}

/// The files of a directory are these, and nothing else.
fn has(place: &Place, dir: &str, want: &[(&str, &str)]) -> Outcome {
    let want = want.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned()));
    let want: BTreeMap<String, String> = want.collect();
    assert_eq!(files(place, dir)?, want, "files of {dir}");
    Ok(())
}

#[test]
fn an_artists_week() -> Outcome {
    let place = Place::new()?;
    // Monday: the project begins, with the habits of Git.
    step(&place, ".", &["init", "film"], 0, "")?;
    place.write("film/rock.png", "rock 1")?;
    place.write("film/tree.png", "tree 1")?;
    place.write("film/notes.txt", "one\ntwo\nthree\n")?;
    place.write("film/cache/a.tmp", "made by a program")?;
    step(&place, "film", &["add", "rock.png"], 2, "no staging area")?;
    step(&place, "film", &["commit"], 2, "-m")?;
    place.write("film/.dmvignore", "cache/\n")?;
    step(&place, "film", &["status", "-s"], 0, "rock.png")?;
    step(&place, "film", &["commit", "-m", "first"], 0, "first")?;
    step(&place, "film", &["status"], 0, "nothing changed")?;
    step(&place, "film", &["ls"], 0, "tree.png")?;
    // Tuesday: an experiment on a branch, a mistake, and the way back.
    step(&place, "film", &["checkout", "-b", "wet"], 0, "wet")?;
    place.write("film/rock.png", "rock wet")?;
    step(&place, "film", &["commit", "-m", "wet rock"], 0, "wet rock")?;
    place.write("film/tree.png", "tree of two hours")?;
    step(&place, "film", &["restore", "tree.png"], 0, "")?;
    step(&place, "film", &["undo"], 0, "")?;
    assert_eq!(files(&place, "film")?["tree.png"], "tree of two hours");
    step(&place, "film", &["commit", "-m", "better tree"], 0, "")?;
    // Wednesday: others want the old rock.
    step(&place, "film", &["checkout", "-"], 0, "main")?;
    step(
        &place,
        "film",
        &["diff", "--name-only", "main", "wet"],
        0,
        "rock.png",
    )?;
    place.write("film/rock.png", "rock dry")?;
    place.write("film/notes.txt", "one\ntwo\nthree\nfour\n")?;
    step(&place, "film", &["checkout", "wet"], 5, "would lose")?;
    step(&place, "film", &["commit", "-m", "dry rock"], 0, "")?;
    step(&place, "film", &["merge", "wet"], 4, "rock.png")?;
    step(&place, "film", &["conflicts"], 0, "rock.png")?;
    step(&place, "film", &["resolve", "rock.png", "--theirs"], 0, "")?;
    step(
        &place,
        "film",
        &["commit", "-m", "wet rock after all"],
        0,
        "",
    )?;
    has(
        &place,
        "film",
        &[
            (".dmvignore", "cache/\n"),
            ("cache/a.tmp", "made by a program"),
            ("notes.txt", "one\ntwo\nthree\nfour\n"),
            ("rock.png", "rock wet"),
            ("tree.png", "tree of two hours"),
        ],
    )?;
    // Thursday: names change, and a second place to work.
    step(
        &place,
        "film",
        &["worktree", "add", "../old", "HEAD~2"],
        0,
        "",
    )?;
    has(
        &place,
        "old",
        &[
            (".dmvignore", "cache/\n"),
            ("notes.txt", "one\ntwo\nthree\nfour\n"),
            ("rock.png", "rock dry"),
            ("tree.png", "tree 1"),
        ],
    )?;
    step(&place, "film", &["worktree", "remove", "../old"], 0, "")?;
    fs::create_dir(place.work().join("film/set"))?;
    step(&place, "film", &["mv", "tree.png", "set"], 0, "")?;
    step(&place, "film", &["status"], 0, "set/tree.png")?;
    step(&place, "film", &["commit", "-m", "a set"], 0, "")?;
    step(&place, "film", &["log", "-1"], 0, "a set")?;
    step(&place, "film", &["blame", "notes.txt"], 0, "four")?;
    // Somebody calls: the half-done work waits while a mistake goes.
    place.write("film/notes.txt", "one\ntwo\nthree\nfour\nhalf a th")?;
    step(&place, "film", &["stash", "-m", "a thought"], 0, "")?;
    place.write("film/password.txt", "secret")?;
    step(&place, "film", &["commit", "-m", "oops"], 0, "")?;
    step(&place, "film", &["reset", "HEAD~1"], 0, "")?;
    assert_eq!(files(&place, "film")?["password.txt"], "secret");
    step(&place, "film", &["status", "-s"], 0, "?? password.txt")?;
    fs::remove_file(place.work().join("film/password.txt"))?;
    step(&place, "film", &["stash", "list"], 0, "a thought")?;
    step(&place, "film", &["stash", "pop"], 0, "")?;
    assert!(files(&place, "film")?["notes.txt"].ends_with("half a th"));
    step(&place, "film", &["reset", "--hard"], 0, "")?;
    step(&place, "film", &["undo"], 0, "")?;
    assert!(files(&place, "film")?["notes.txt"].ends_with("half a th"));
    step(&place, "film", &["restore", "notes.txt"], 0, "")?;
    // One commit of another branch is wanted here, and the branch itself on top of everything.
    step(&place, "film", &["checkout", "-b", "snow", "main~1"], 0, "")?;
    place.write("film/snow.txt", "flakes")?;
    step(&place, "film", &["commit", "-m", "snow"], 0, "")?;
    step(&place, "film", &["checkout", "main"], 0, "")?;
    step(&place, "film", &["cherry-pick", "snow"], 0, "")?;
    step(&place, "film", &["rm", "snow.txt"], 0, "")?;
    step(&place, "film", &["commit", "-m", "no snow"], 0, "")?;
    step(&place, "film", &["checkout", "snow"], 0, "")?;
    place.write("film/ice.txt", "ice")?;
    step(&place, "film", &["commit", "-m", "ice"], 0, "")?;
    step(&place, "film", &["rebase", "main"], 0, "")?;
    assert!(files(&place, "film")?.contains_key("set/tree.png"));
    assert!(files(&place, "film")?.contains_key("ice.txt"));
    step(&place, "film", &["checkout", "main"], 0, "")?;
    // Which commit has made the rock wet?
    step(
        &place,
        "film",
        &["bisect", "start", "main", "main~5"],
        0,
        "test this commit",
    )?;
    let dry = ["bisect", "run", "grep", "-q", "dry", "rock.png"];
    step(&place, "film", &dry, 0, "is the first bad commit")?;
    step(&place, "film", &["bisect", "end"], 0, "on branch main")?;
    step(&place, "film", &["op", "log", "-n", "3"], 0, "bisect end")?;
    // Friday: delivery.
    step(&place, "film", &["tag", "v1"], 0, "")?;
    step(&place, "film", &["export", "v1", "--to", "../out"], 0, "")?;
    has(
        &place,
        "out",
        &[
            (".dmvignore", "cache/\n"),
            ("notes.txt", "one\ntwo\nthree\nfour\n"),
            ("rock.png", "rock wet"),
            ("set/tree.png", "tree of two hours"),
        ],
    )?;
    // A test render slips into a commit. What undo alone keeps of it goes, and nothing else.
    step(
        &place,
        "film",
        &["config", "set", "commit.large", "1MiB"],
        0,
        "",
    )?;
    place.write("film/render.mov", noise(2_000_000))?;
    step(&place, "film", &["commit", "-m", "render"], 0, "")?;
    step(&place, "film", &["undo"], 0, "")?;
    let said = step(&place, "film", &["gc"], 0, "render.mov (1.9 MiB)")?;
    let hint = said.rsplit_once("dmv op forget ").ok_or("a hint")?.1;
    step(
        &place,
        "film",
        &["op", "forget", hint.trim()],
        0,
        "gc --grace 0",
    )?;
    step(&place, "film", &["gc", "--grace", "0"], 0, "freed 1.9 MiB")?;
    step(&place, "film", &["redo"], 5, "dmv op forget")?;
    if has_script() {
        let commit = ["-C", "film", "commit", "-m", "render"];
        let asked = "render.mov (1.9 MiB) is new, and large beside the rest. Commit it? [y/N]";
        let seen = place.typing_at_terminal("n\n", 24, &[], &commit)?;
        assert_eq!(seen.exit, Some(5), "{}", seen.text);
        assert!(seen.text.contains(asked), "{}", seen.text);
        let seen = place.typing_at_terminal("y\n", 24, &[], &commit)?;
        assert_eq!(seen.exit, Some(0), "{}", seen.text);
        // It is asked about once.
        place.write("film/render.mov", noise(2_000_001))?;
        let seen = place.at_terminal(24, &[], &commit)?;
        assert_eq!(seen.exit, Some(0), "{}", seen.text);
    }
    step(&place, "film", &["verify"], 0, "")?;
    Ok(())
}

fn noise(len: usize) -> Vec<u8> {
    Rng::new(len as u64).bytes(len)
}

#[test]
fn a_week_with_two_laptops_a_nas_and_a_disk() -> Outcome {
    let place = crate::place::several::several()?;
    let nas = format!("ssh://nas{}", place.work().join("nas").display());
    // Monday: the NAS gets everything, the second laptop clones from it.
    step(&place, "film", &["remote", "add", "nas", &nas], 0, "")?;
    step(
        &place,
        "film",
        &["push", "nas"],
        10,
        "dmv push nas --create",
    )?;
    step(&place, "film", &["push", "nas", "--create"], 0, "created")?;
    step(&place, "film", &["sync", "nas"], 0, "")?;
    step(&place, ".", &["clone", &nas, "second"], 0, "")?;
    assert_eq!(files(&place, "second")?, files(&place, "film")?);
    // Tuesday: both work.
    place.write("film/shots/0", "from the first laptop")?;
    step(&place, "film", &["commit", "-m", "first laptop"], 0, "")?;
    step(&place, "film", &["push", "nas"], 0, "main")?;
    place.write("second/shots/1", "from the second laptop")?;
    step(&place, "second", &["commit", "-m", "second laptop"], 0, "")?;
    step(&place, "second", &["push"], 5, "pull")?;
    step(&place, "second", &["pull"], 0, "")?;
    step(&place, "second", &["push"], 0, "main")?;
    step(&place, "film", &["pull", "nas"], 0, "")?;
    assert_eq!(files(&place, "second")?, files(&place, "film")?);
    // Wednesday: the disk is not there, then it is.
    let disk = place.work().join("disk/film.dmv");
    let disk = disk.display().to_string();
    step(&place, "film", &["remote", "add", "disk", &disk], 0, "")?;
    step(
        &place,
        "film",
        &["push", "disk"],
        10,
        "when it is connected",
    )?;
    place.write("film/shots/2", "on the road")?;
    step(&place, "film", &["commit", "-m", "road"], 0, "")?;
    fs::create_dir(place.work().join("disk"))?;
    step(
        &place,
        "film",
        &["status"],
        0,
        "nothing was sent to disk yet",
    )?;
    step(&place, "film", &["push", "disk", "--create"], 0, "created")?;
    step(&place, "film", &["sync", "disk"], 0, "")?;
    fs::rename(place.work().join("disk"), place.work().join("drawer"))?;
    step(&place, "film", &["fetch", "disk"], 10, "no repository")?;
    // Thursday: the other laptop takes the disk out of the drawer.
    let drawer = place.work().join("drawer/film.dmv");
    let drawer = drawer.display().to_string();
    step(&place, "second", &["pull", &drawer], 0, "")?;
    assert_eq!(files(&place, "second")?, files(&place, "film")?);
    // Friday: both change one file; nothing is lost, and everybody ends with the same.
    place.write("film/shots/3", "ours")?;
    step(&place, "film", &["commit", "-m", "ours"], 0, "")?;
    step(&place, "film", &["push", "nas"], 0, "")?;
    step(
        &place,
        "film",
        &["status"],
        0,
        "1 commit not at disk: dmv sync disk",
    )?;
    place.write("second/shots/3", "theirs")?;
    step(&place, "second", &["commit", "-m", "theirs"], 0, "")?;
    step(&place, "second", &["pull"], 4, "shots/3")?;
    step(&place, "second", &["resolve", "shots/3", "--ours"], 0, "")?;
    step(&place, "second", &["commit", "-m", "settled"], 0, "")?;
    step(&place, "second", &["push"], 0, "")?;
    step(&place, "film", &["pull", "nas"], 0, "")?;
    assert_eq!(files(&place, "film")?["shots/3"], "theirs");
    assert_eq!(files(&place, "second")?, files(&place, "film")?);
    assert_eq!(tip(&place, "second", "main")?, tip(&place, "film", "main")?);
    // Saturday: one of them keeps a straight line of commits, and nothing new is said to be so.
    place.write("film/shots/4", "straight")?;
    step(&place, "film", &["commit", "-m", "straight"], 0, "")?;
    place.write("second/shots/5", "line")?;
    step(&place, "second", &["commit", "-m", "line"], 0, "")?;
    step(&place, "second", &["push"], 0, "")?;
    step(
        &place,
        "film",
        &["pull", "--ff-only", "nas"],
        5,
        "fast-forward",
    )?;
    step(
        &place,
        "film",
        &["pull", "--rebase", "nas"],
        0,
        "rebased 1 commit",
    )?;
    step(&place, "film", &["push", "nas"], 0, "")?;
    step(
        &place,
        "film",
        &["push", "nas"],
        0,
        "already up to date with nas",
    )?;
    step(&place, "second", &["pull"], 0, "")?;
    step(&place, "second", &["fetch"], 0, "nothing new from origin")?;
    step(
        &place,
        "film",
        &["push"],
        20,
        "dmv push disk, or dmv push nas",
    )?;
    assert_eq!(tip(&place, "second", "main")?, tip(&place, "film", "main")?);
    // Edits where somebody else pushes to: they stay, and the way on is named.
    let film = place.work().join("film").display().to_string();
    place.write("film/shots/4", "half done")?;
    place.write("second/shots/6", "pushed")?;
    step(&place, "second", &["commit", "-m", "pushed"], 0, "")?;
    step(&place, "second", &["push", &film], 0, "")?;
    step(&place, "film", &["status"], 0, "moved the branch from")?;
    step(
        &place,
        "film",
        &["commit", "-m", "half"],
        0,
        "merged with the new commits",
    )?;
    assert_eq!(files(&place, "film")?["shots/4"], "half done");
    assert_eq!(files(&place, "film")?["shots/6"], "pushed");
    for dir in ["film", "second", "nas"] {
        step(&place, dir, &["verify"], 0, "")?;
    }
    Ok(())
}

#[test]
fn a_week_of_the_administrator_of_a_nas() -> Outcome {
    let place = crate::place::several::several()?;
    // Monday: the NAS and a second disk that follows it.
    step(
        &place,
        ".",
        &["clone", "--bare", "--copy", "film", "nas"],
        0,
        "",
    )?;
    step(&place, "film", &["remote", "add", "nas", "../nas"], 0, "")?;
    step(
        &place,
        ".",
        &["clone", "--mirror", "--copy", "nas", "mirror"],
        0,
        "",
    )?;
    place.write("film/shots/0", noise(300_000))?;
    step(&place, "film", &["commit", "-m", "graded"], 0, "")?;
    step(&place, "film", &["push", "nas"], 0, "")?;
    step(&place, "mirror", &["fetch"], 0, "")?;
    assert_eq!(tip(&place, "mirror", "main")?, tip(&place, "film", "main")?);
    // Tuesday: a pack of the NAS is gone. The mirror has all of it.
    let packs = fs::read_dir(place.work().join("nas/packs"))?.flatten();
    let largest = packs.max_by_key(|pack| pack.metadata().map_or(0, |pack| pack.len()));
    fs::remove_file(largest.ok_or("a pack")?.path())?;
    let said = step(&place, "nas", &["verify"], 7, "hint: dmv verify --heal")?;
    assert!(said.lines().count() < 20, "{said}");
    step(
        &place,
        "nas",
        &["remote", "add", "mirror", "../mirror"],
        0,
        "",
    )?;
    step(
        &place,
        "nas",
        &["verify", "--heal"],
        0,
        "stored again from mirror",
    )?;
    step(&place, "nas", &["verify"], 0, "no damage found")?;
    // Wednesday: a password goes, at home, on the NAS and on its mirror. Nothing is partial for that.
    place.write("film/secret.txt", "password")?;
    step(&place, "film", &["commit", "-m", "oops"], 0, "")?;
    step(&place, "film", &["push", "nas"], 0, "")?;
    step(&place, "mirror", &["fetch"], 0, "")?;
    fs::remove_file(place.work().join("film/secret.txt"))?;
    step(&place, "film", &["commit", "-m", "gone"], 0, "")?;
    step(&place, "film", &["push", "nas"], 0, "")?;
    let purge = [
        "-y",
        "purge",
        "--everywhere",
        "--reason",
        "leaked",
        "secret.txt",
    ];
    step(&place, "film", &purge, 0, "nas: purged")?;
    let said = step(&place, "mirror", &["fetch"], 0, "to purge it here: ")?;
    let hint = said.split_once("to purge it here: dmv ").ok_or("a hint")?.1;
    let purge = hint.lines().next().unwrap_or_default().split(' ');
    let purge: Vec<&str> = ["-y"].into_iter().chain(purge).collect();
    step(&place, "mirror", &purge, 0, "1 content purged")?;
    for dir in ["film", "nas", "mirror"] {
        step(&place, dir, &["verify"], 0, "1 version purged")?;
    }
    // Thursday: of what is made each night, the newest is enough.
    place.write("film/.dmvattributes", "*.raw keep=last:1\n")?;
    for night in 0..3 {
        place.write("film/take.raw", noise(100_000 + night))?;
        step(&place, "film", &["commit", "-m", "night"], 0, "")?;
    }
    step(&place, "film", &["push", "nas"], 0, "")?;
    step(
        &place,
        "nas",
        &["expire"],
        0,
        "2 versions of 1 file (195 KiB) expired, kept by origin",
    )?;
    step(&place, "nas", &["verify"], 0, "2 versions expired")?;
    // Friday: a laptop is stolen, and everything comes back.
    step(&place, ".", &["clone", "nas", "back"], 0, "")?;
    assert_eq!(files(&place, "back")?, files(&place, "film")?);
    Ok(())
}

/// How often the pipeline tries each of its commands before it gives up.
const TRIES: usize = 40;

/// Runs a command as a pipeline on a bad machine does: it is killed at a random moment and tried
/// again, until it ends by itself. Returns the kills.
fn patiently(
    place: &Place,
    rng: &mut Rng,
    dir: &str,
    args: &[&str],
    longest: &mut Duration,
) -> Outcome<usize> {
    for tries in 0..TRIES {
        let begun = std::time::Instant::now();
        let mut command = place.command(&[&["-C", dir][..], args].concat());
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        // The last tries are left in peace.
        if tries < TRIES / 2 {
            let micros = longest.as_micros().max(2_000) as u64;
            std::thread::sleep(Duration::from_micros(rng.below(micros)));
            if child.try_wait()?.is_none() {
                child.kill()?;
            }
        }
        let done = child.wait_with_output()?;
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        match done.status.code() {
            Some(0) => {
                *longest = (*longest).max(begun.elapsed());
                return Ok(tries);
            }
            // Killed.
            None => {}
            // It was complete when it was killed at its very end.
            Some(5) if args[0] == "clone" && said.contains("already a clone") => {
                return Ok(tries);
            }
            Some(20) if args[0] == "export" && said.contains("directory not empty") => {
                return Ok(tries);
            }
            code => panic!("{dir}: {args:?} ends with {code:?}: {said}"),
        }
    }
    Err(format!("{dir}: {args:?} was tried {TRIES} times").into())
}

#[test]
fn a_week_of_a_pipeline_that_is_killed_at_random() -> Outcome {
    let seed = dmv_random::seed(20_261_122);
    println!("DMV_SEED={seed}");
    let mut rng = Rng::new(seed);
    let place = crate::place::several::several()?;
    let job = place.work().join("jobs");
    fs::create_dir(&job)?;
    fs::set_permissions(&job, fs::Permissions::from_mode(0o755))?;
    let (mut kills, mut longest) = (0, Duration::from_millis(60));
    for day in 0..5 {
        let repo = format!("jobs/day{day}");
        let mut run = |dir: &str, args: &[&str]| -> Outcome {
            kills += patiently(&place, &mut rng, dir, args, &mut longest)?;
            Ok(())
        };
        // One directory of the project, the newest state only.
        run(
            ".",
            &[
                "clone", "film", &repo, "--subset", "shots/1*", "--depth", "1",
            ],
        )?;
        let mine = files(&place, &repo)?;
        assert!(!mine.is_empty());
        assert!(
            mine.keys().all(|path| path.starts_with("shots/1")),
            "{mine:?}"
        );
        for name in ["shots/1", "shots/10"] {
            place.write(format!("{repo}/{name}"), format!("{name} of day {day}"))?;
        }
        let message = format!("day {day}");
        run(&repo, &["commit", "-m", &message])?;
        run(&repo, &["push"])?;
        let (here, there) = (tip(&place, &repo, "main")?, tip(&place, "film", "main")?);
        assert_eq!(here, there, "what was pushed on day {day}");
        let out = format!("../out{day}");
        run(
            &repo,
            &["export", "@", "--to", &out, "--subset", "shots/1*"],
        )?;
        let exported = files(&place, &format!("jobs/out{day}"))?;
        assert!(exported == files(&place, &repo)?, "export of day {day}");
        step(&place, &repo, &["verify"], 0, "")?;
        // Nothing outside of the directory was touched.
        run("film", &["checkout", "main"])?;
        let whole = files(&place, "film")?;
        assert_eq!(whole.len(), 20);
        assert_eq!(whole["shots/10"], format!("shots/10 of day {day}"));
        assert_eq!(whole["shots/2"], "shot 2".repeat(100));
    }
    step(&place, "film", &["verify", "--full"], 0, "")?;
    let log = place.records(&["-C", "film", "log", "--json"])?;
    let days = log
        .iter()
        .filter(|c| c["message"].as_str().is_some_and(|m| m.starts_with("day")));
    assert_eq!(days.count(), 5, "each day is committed once");
    println!("{kills} kills");
    assert!(kills > 0, "nothing was ever killed");
    Ok(())
}
