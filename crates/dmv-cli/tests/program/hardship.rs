//! The program cut off in the middle, and real directories brought back byte for byte.

// A test says aloud with which seed it ran, and what it could not try.
#![allow(clippy::print_stdout)]

use crate::place::mount::Mount;
use crate::place::{Place, temp_dir};
use dmv_random::Rng;
use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

type Outcome = Result<(), Box<dyn Error>>;

/// Bytes of the largest directory that is brought back.
const MAX_REAL_BYTES: u64 = 40 << 20;

fn dmv(dir: &Path, home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dmv"));
    command
        .arg("-C")
        .arg(dir)
        .env_clear()
        .env("HOME", home)
        .env("USER", "ada")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn run(dir: &Path, home: &Path, args: &[&str]) -> Result<Output, Box<dyn Error>> {
    let output = dmv(dir, home).args(args).output()?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.code() {
        Some(0) => Ok(output),
        code => Err(format!("dmv {args:?} ended with {code:?}: {errors}").into()),
    }
}

fn head(dir: &Path, home: &Path) -> Result<String, Box<dyn Error>> {
    let output = run(dir, home, &["log", "-n", "1", "--json"])?;
    let line = String::from_utf8(output.stdout)?;
    let record: serde_json::Value = serde_json::from_str(line.trim())?;
    Ok(record["id"]
        .as_str()
        .ok_or("a record has an id")?
        .to_owned())
}

/// Files of each kind of change between the two commits of the next test.
const SWITCHED: usize = 200;

/// A worktree with the branches `main` and `other`, which differ in every way that paths can.
fn two_branches(dir: &Path, home: &Path) -> Outcome {
    run(dir, home, &["init"])?;
    fs::create_dir_all(dir.join("sub"))?;
    for n in 0..SWITCHED {
        fs::write(dir.join(format!("changed{n}")), format!("main {n}"))?;
        fs::write(dir.join(format!("sub/gone{n}")), format!("main {n}"))?;
    }
    fs::write(dir.join("place"), "a file here, a directory there")?;
    fs::create_dir_all(dir.join("other-place"))?;
    fs::write(dir.join("other-place/x"), "a directory here, a file there")?;
    fs::write(dir.join("same"), "as committed")?;
    run(dir, home, &["commit", "-m", "main"])?;
    run(dir, home, &["branch", "other"])?;
    run(dir, home, &["checkout", "other"])?;
    fs::remove_dir_all(dir.join("sub"))?;
    fs::remove_file(dir.join("place"))?;
    fs::remove_dir_all(dir.join("other-place"))?;
    fs::create_dir_all(dir.join("place"))?;
    fs::create_dir_all(dir.join("new/empty"))?;
    fs::write(dir.join("place/x"), "there")?;
    fs::write(dir.join("other-place"), "there")?;
    for n in 0..SWITCHED {
        fs::write(dir.join(format!("changed{n}")), format!("other {n}"))?;
        fs::write(dir.join(format!("new/{n}")), format!("other {n}"))?;
    }
    run(dir, home, &["commit", "-m", "other"])?;
    run(dir, home, &["checkout", "main"])?;
    Ok(())
}

/// Rounds after which the tests below give up if no kill has hit the middle: a busy machine may let
/// the program end before this process sees that it has begun.
const PATIENCE: usize = 100;

/// `kill -9` in the middle of a checkout: the files are a mix, and both ways out of it end with just
/// the files of one commit and with the user's own.
#[test]
fn a_checkout_cut_off_can_go_on_and_go_back() -> Outcome {
    let (work, home) = (temp_dir()?, temp_dir()?);
    let (dir, home) = (work.path(), home.path());
    two_branches(dir, home)?;
    let own = |dir: &Path| -> Outcome {
        fs::write(dir.join("same"), "edited")?;
        fs::write(dir.join("own"), "untracked")?;
        Ok(())
    };
    let mut ends = BTreeMap::new();
    for branch in ["main", "other"] {
        run(dir, home, &["checkout", "--force", branch])?;
        own(dir)?;
        ends.insert(branch, contents(dir)?);
    }
    let mut mixes = 0;
    let mut rounds = 0;
    while rounds < 6 || (mixes == 0 && rounds < PATIENCE) {
        let round = rounds;
        rounds += 1;
        run(dir, home, &["checkout", "main"])?;
        assert!(contents(dir)? == ends["main"], "round {round}");
        let mut child = dmv(dir, home).args(["checkout", "other"]).spawn()?;
        // From the first removal to the last file written.
        let mark = ["sub/gone0", "other-place/x", "place"][round % 3];
        while dir.join(mark).is_file() && child.try_wait()?.is_none() {}
        std::thread::sleep(Duration::from_millis(round as u64 % 12));
        child.kill()?;
        child.wait()?;
        let status = run(dir, home, &["status", "--json"])?.stdout;
        let status: serde_json::Value = serde_json::from_slice(&status)?;
        if status["branch"] == "main" {
            mixes += usize::from(contents(dir)? != ends["main"]);
            let go_on = status["unfinished"]["go_on"].as_str();
            assert!(go_on.is_some_and(|c| c.ends_with(" checkout other")));
            assert_eq!(status["unfinished"]["go_back"], "dmv checkout main");
            let refused = dmv(dir, home).args(["commit", "-m", "a mix"]).output()?;
            assert_eq!(refused.status.code(), Some(5));
        }
        let branch = ["main", "other"][round / 3 % 2];
        run(dir, home, &["checkout", branch])?;
        assert!(contents(dir)? == ends[branch], "round {round}: {branch}");
        let status = run(dir, home, &["status", "--json"])?.stdout;
        let status: serde_json::Value = serde_json::from_slice(&status)?;
        assert_eq!(status["unfinished"], serde_json::Value::Null);
        assert_eq!(status["changes"].as_array().map(Vec::len), Some(2));
    }
    println!("{mixes} of {rounds} were cut off in the middle");
    assert!(mixes > 0, "no kill hit the middle of a checkout");
    Ok(())
}

/// What the user does to a file after the cut stays.
#[test]
fn an_edit_after_a_checkout_was_cut_off_stays() -> Outcome {
    let (work, home) = (temp_dir()?, temp_dir()?);
    let (dir, home) = (work.path(), home.path());
    two_branches(dir, home)?;
    let mut child = dmv(dir, home).args(["checkout", "other"]).spawn()?;
    while dir.join("place").is_file() && child.try_wait()?.is_none() {}
    child.kill()?;
    child.wait()?;
    fs::write(dir.join("changed7"), "edited")?;
    fs::create_dir_all(dir.join("new"))?;
    fs::write(dir.join("new/7"), "edited, too")?;
    let refused = dmv(dir, home).args(["checkout", "other"]).output()?;
    assert_eq!(refused.status.code(), Some(5), "edits are in the way");
    run(dir, home, &["checkout", "main"])?;
    assert_eq!(fs::read_to_string(dir.join("changed7"))?, "edited");
    assert_eq!(fs::read_to_string(dir.join("new/7"))?, "edited, too");
    let status = run(dir, home, &["status", "--json"])?.stdout;
    let status: serde_json::Value = serde_json::from_slice(&status)?;
    assert_eq!(
        status["changes"],
        serde_json::json!([
            {"path": "changed7", "change": "modified"},
            {"path": "new/7", "change": "added"},
        ])
    );
    Ok(())
}

/// A commit can be killed when it has made a pack and written nothing to it.
#[test]
fn a_pack_that_was_only_begun_is_taken_up() -> Outcome {
    let (work, home) = (temp_dir()?, temp_dir()?);
    let (dir, home) = (work.path(), home.path());
    run(dir, home, &["init"])?;
    let packs = dir.join(".dmv/packs");
    let before = fs::read_dir(&packs)?.count();
    for (n, bytes) in [&b""[..], b"DMVPACK"].into_iter().enumerate() {
        fs::write(packs.join(format!("{n:032x}.pack")), bytes)?;
    }
    fs::write(dir.join("a"), "a")?;
    run(dir, home, &["commit", "-m", "first"])?;
    // One for content, one for the rest.
    assert_eq!(fs::read_dir(&packs)?.count(), before + 2);
    run(dir, home, &["verify", "--full"])?;
    Ok(())
}

/// Parts of a repository that lead elsewhere are not followed, for reading or writing.
#[test]
fn a_part_of_a_repository_that_is_a_symlink_is_refused() -> Outcome {
    let (work, home) = (temp_dir()?, temp_dir()?);
    let (dir, home) = (work.path().join("w"), home.path());
    fs::create_dir(&dir)?;
    run(&dir, home, &["init"])?;
    fs::write(dir.join("a"), "a")?;
    run(&dir, home, &["commit", "-m", "first"])?;
    for part in ["packs", "index", "worktrees", "refs.db"] {
        let (own, other) = (dir.join(".dmv").join(part), work.path().join(part));
        fs::rename(&own, &other)?;
        std::os::unix::fs::symlink(&other, &own)?;
        for command in ["status", "recover"] {
            let refused = dmv(&dir, home).arg(command).output()?;
            let errors = String::from_utf8_lossy(&refused.stderr);
            assert_eq!(refused.status.code(), Some(7), "{command}: {errors}");
            assert!(errors.contains("symbolic link"), "{command}: {errors}");
        }
        fs::remove_file(&own)?;
        fs::rename(&other, &own)?;
    }
    run(&dir, home, &["status", "--exit-code"])?;
    Ok(())
}

/// A limit on the size of files is an error like a full disk.
#[test]
fn a_limit_on_the_size_of_files_loses_nothing() -> Outcome {
    let (work, home) = (temp_dir()?, temp_dir()?);
    let (dir, home) = (work.path(), home.path());
    run(dir, home, &["init"])?;
    fs::write(dir.join("small"), "small")?;
    run(dir, home, &["commit", "-m", "first"])?;
    let before = head(dir, home)?;
    fs::write(dir.join("large"), Rng::new(7).bytes(3 << 20))?;
    let limited = Command::new("sh")
        .args(["-c", "ulimit -f 1000 && exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_dmv"))
        .args(["commit", "-m", "too large"])
        .current_dir(dir)
        .env("HOME", home)
        .output()?;
    let errors = String::from_utf8_lossy(&limited.stderr);
    assert_eq!(limited.status.code(), Some(20), "{errors}");
    assert!(
        errors.contains(".pack") && errors.contains("hint: ulimit"),
        "{errors}"
    );
    assert_eq!(head(dir, home)?, before);
    run(dir, home, &["commit", "-m", "now"])?;
    run(dir, home, &["verify", "--full"])?;
    run(dir, home, &["status", "--exit-code"])?;
    Ok(())
}

#[test]
fn what_frees_space_says_that_the_disk_is_read_only() -> Outcome {
    let place = Place::new()?;
    let disk = place.work().join("disk");
    fs::create_dir(&disk)?;
    place.ok(&["init", "disk/film"])?;
    place.write("disk/film/.dmvattributes", "*.raw keep=last:1\n")?;
    for n in 0..3 {
        place.write("disk/film/take.raw", Rng::new(n).bytes(50_000))?;
        place.ok(&["-C", "disk/film", "commit", "-m", "take"])?;
    }
    place.ok(&["clone", "--copy", "disk/film", "copy"])?;
    place.ok(&["-C", "disk/film", "remote", "add", "copy", "../../copy"])?;
    let Some(_mounted) = Mount::read_only(&disk) else {
        return Ok(());
    };
    for args in [
        &["gc"][..],
        &["gc", "--grace", "0"],
        &["repack"],
        &["expire"],
        &["expire", "--last-copy"],
        &["drop", "take.raw"],
        &["purge", "take.raw", "--reason", "leaked"],
        &["op", "expire", "--older", "0d"],
        &["worktree", "add", "../../side"],
    ] {
        let said = place.fails(20, &[&["-C", "disk/film"][..], args].concat())?;
        let error = said.lines().find(|line| line.starts_with("error: "));
        let is_clear = error.is_some_and(|e| e.to_lowercase().contains("read-only"));
        assert!(is_clear, "{args:?}: {said}");
        assert!(said.contains("\nhint: "), "{args:?}: {said}");
    }
    for args in [
        &["gc", "--dry-run"][..],
        &["repack", "--dry-run"],
        &["expire", "--dry-run"],
        &["purge", "take.raw", "--dry-run"],
        &["purge", "--status"],
        &["stats"],
        &["du", "--advise"],
        &["du", "--history"],
    ] {
        place.ok(&[&["-C", "disk/film"][..], args].concat())?;
    }
    Ok(())
}

#[test]
fn a_clone_or_a_fetch_that_fills_the_disk_says_what_it_needs_and_goes_on_later() -> Outcome {
    let place = Place::new()?;
    place.ok(&["init", "film"])?;
    place.write("film/take.raw", Rng::new(1).bytes(100_000))?;
    place.ok(&["-C", "film", "commit", "-m", "small"])?;
    let disk = place.work().join("disk");
    fs::create_dir(&disk)?;
    let Some(_mounted) = Mount::small(&disk, 6 << 20) else {
        return Ok(());
    };
    place.ok(&["clone", "--copy", "film", "disk/film"])?;
    place.write("film/take.raw", Rng::new(2).bytes(9_000_000))?;
    place.ok(&["-C", "film", "commit", "-m", "large"])?;
    let says = |said: &str, needs: &str| {
        for words in [
            needs,
            " are free now; what has arrived stays\n",
            "hint: free some disk space",
        ] {
            assert!(said.contains(words), "'{words}': {said}");
        }
    };
    let said = place.fails(20, &["-C", "disk/film", "fetch"])?;
    says(&said, "this command needs up to 8.6 MiB in all");
    place.ok(&["-C", "disk/film", "verify"])?;
    fs::remove_dir_all(disk.join("film"))?;
    place.ok(&["clone", "--meta-only", "film", "disk/film"])?;
    let said = place.fails(20, &["-C", "disk/film", "get", "take.raw"])?;
    says(&said, "this command needs up to 8.6 MiB in all");
    fs::remove_dir_all(disk.join("film"))?;
    // The content, and the files.
    let said = place.fails(20, &["clone", "--copy", "film", "disk/film"])?;
    says(&said, "this command needs up to 17.");
    let grown = ["-o", "remount,size=40m"];
    let grown = Command::new("mount").args(grown).arg(&disk).status()?;
    assert!(grown.success());
    place.ok(&["clone", "--copy", "film", "disk/film"])?;
    place.ok(&["-C", "disk/film", "verify", "--full"])?;
    Ok(())
}

/// Paths, each with its kind and executable bit, and content or target.
type Contents = BTreeMap<Vec<u8>, (String, Vec<u8>)>;

/// What a directory holds.
fn contents(root: &Path) -> Result<Contents, Box<dyn Error>> {
    let mut out = BTreeMap::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir)? {
            let path = entry?.path();
            let meta = fs::symlink_metadata(&path)?;
            let relative = path.strip_prefix(root)?.as_os_str().as_bytes().to_vec();
            if relative == b".dmv" {
                continue;
            }
            let (kind, bytes) = if meta.is_symlink() {
                (
                    "symlink",
                    fs::read_link(&path)?.as_os_str().as_bytes().to_vec(),
                )
            } else if meta.is_dir() {
                dirs.push(path);
                ("directory", Vec::new())
            } else if meta.permissions().mode() & 0o100 != 0 {
                ("executable", fs::read(&path)?)
            } else {
                ("file", fs::read(&path)?)
            };
            out.insert(relative, (kind.to_owned(), bytes));
        }
    }
    Ok(out)
}

fn size_of(dir: &Path) -> Result<u64, Box<dyn Error>> {
    let mut sum = 0;
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let meta = entry.metadata()?;
            if meta.is_dir() {
                dirs.push(entry.path())
            } else {
                sum += meta.len()
            }
        }
    }
    Ok(sum)
}

/// Copies what a user may read: directories, files and symlinks.
fn copy(from: &Path, to: &Path) -> Outcome {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&source)?, &target)?;
        } else if kind.is_dir() {
            copy(&source, &target)?;
        } else if kind.is_file() {
            fs::copy(&source, &target)?;
        }
    }
    Ok(())
}

/// Directories that some Linux machine has, committed and exported.
#[test]
fn real_directories_come_back_byte_for_byte() -> Outcome {
    let candidates = [
        "/etc/ssl",
        "/usr/share/zoneinfo",
        "/usr/share/perl",
        "/usr/include/linux",
    ];
    let mut tried = 0;
    for source in candidates.map(PathBuf::from) {
        if !source.is_dir() || size_of(&source).map_or(true, |bytes| bytes > MAX_REAL_BYTES) {
            dmv_random::skip(format_args!(
                "{} is not there, or too large",
                source.display()
            ));
            continue;
        }
        let (work, home) = (temp_dir()?, temp_dir()?);
        let dir = work.path().join("work");
        if let Err(e) = copy(&source, &dir) {
            dmv_random::skip(format_args!("{} cannot be copied: {e}", source.display()));
            continue;
        }
        run(&dir, home.path(), &["init"])?;
        run(&dir, home.path(), &["commit", "-m", "all of it"])?;
        run(&dir, home.path(), &["export", "@", "--to", "../out"])?;
        let (had, got) = (contents(&dir)?, contents(&work.path().join("out"))?);
        assert_eq!(had.len(), got.len(), "{}", source.display());
        for (path, content) in &had {
            let name = String::from_utf8_lossy(path);
            assert!(
                got.get(path) == Some(content),
                "{}/{name} differs",
                source.display()
            );
        }
        let status = run(&dir, home.path(), &["status", "--exit-code"]);
        assert!(status.is_ok(), "{}: {:?}", source.display(), status.err());
        tried += 1;
    }
    println!("{tried} directories came back");
    Ok(())
}
