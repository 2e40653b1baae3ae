//! Commands between repositories, as a user runs them.

use serde_json::Value;
use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;

type Outcome = Result<(), Box<dyn Error>>;

/// A directory for several repositories, with a home and an ssh that goes nowhere else.
struct Place {
    dir: TempDir,
}

/// Runs what it is asked to run on the same machine, after printing what a host might.
const SSH: &str = r#"#!/bin/sh
while [ "$1" != "--" ]; do shift; done
case "$2" in
  unknown) echo "ssh: Could not resolve hostname unknown" >&2; exit 255 ;;
  strange) echo "Host key verification failed." >&2; exit 255 ;;
  chatty) echo "Welcome!" ;;
  mute) exit 127 ;;
esac
exec sh -c "$3"
"#;

impl Place {
    /// With a repository `film` of one commit.
    fn new() -> Result<Place, Box<dyn Error>> {
        let place = Place {
            dir: TempDir::new()?,
        };
        fs::create_dir_all(place.path("home"))?;
        fs::write(place.path("ssh"), SSH)?;
        fs::set_permissions(place.path("ssh"), fs::Permissions::from_mode(0o755))?;
        place.ok(&["init", "film"])?;
        for n in 0..20 {
            place.write(&format!("film/shots/{n}"), &format!("shot {n}").repeat(100))?;
        }
        place.ok(&["-C", "film", "commit", "-m", "first"])?;
        Ok(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, content: &str) -> Outcome {
        let path = self.path(name);
        fs::create_dir_all(path.parent().ok_or("files are in directories")?)?;
        Ok(fs::write(path, content)?)
    }

    fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dmv"));
        command
            .args(args)
            .current_dir(self.dir.path())
            .env_clear()
            .env("HOME", self.path("home"))
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("DMV_SSH_COMMAND", self.path("ssh"))
            .env("DMV_SSH_REMOTE", env!("CARGO_BIN_EXE_dmv"))
            .env("USER", "ada")
            .env("NO_COLOR", "1")
            .stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Result<Output, Box<dyn Error>> {
        Ok(self.command(args).output()?)
    }

    fn ok(&self, args: &[&str]) -> Result<String, Box<dyn Error>> {
        let output = self.run(args)?;
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {error}");
        Ok(String::from_utf8(output.stdout)?)
    }

    fn json(&self, args: &[&str]) -> Result<Value, Box<dyn Error>> {
        Ok(serde_json::from_str(&self.ok(args)?)?)
    }

    /// Runs something that fails and returns its exit code and message.
    fn fails(&self, args: &[&str]) -> Result<(i32, String), Box<dyn Error>> {
        let output = self.run(args)?;
        let code = output.status.code().ok_or("it was killed")?;
        assert_ne!(code, 0, "{args:?}");
        Ok((code, String::from_utf8_lossy(&output.stderr).into_owned()))
    }

    fn tip(&self, repo: &str, revision: &str) -> Result<String, Box<dyn Error>> {
        let record = self.json(&["-C", repo, "log", "-n", "1", "--json", revision])?;
        Ok(record["id"].as_str().ok_or("it has an id")?.to_owned())
    }

    fn commit(&self, repo: &str, file: &str) -> Outcome {
        self.write(&format!("{repo}/{file}"), file)?;
        self.ok(&["-C", repo, "commit", "-m", file])?;
        Ok(())
    }
}

#[test]
fn two_repositories_and_a_disk_between_them() -> Outcome {
    let place = Place::new()?;
    place.ok(&["-C", "film", "tag", "v1"])?;
    let cloned = place.json(&["clone", "--bare", "film", "disk.dmv", "--json"])?;
    assert_eq!(cloned["branch"], "main");
    assert_eq!(cloned["objects_received"], 23);
    let cloned = place.json(&["clone", "disk.dmv", "--json"])?;
    assert_eq!(
        (&cloned["path"], &cloned["files"]),
        (&"disk".into(), &20.into())
    );
    assert!(cloned["round_trips"].as_u64() <= Some(2), "{cloned}");
    assert_eq!(place.tip("disk", "v1")?, place.tip("film", "main")?);
    assert_eq!(
        place.tip("disk", "origin/main")?,
        place.tip("film", "main")?
    );
    assert_eq!(
        fs::read(place.path("disk/shots/7"))?,
        fs::read(place.path("film/shots/7"))?
    );

    place.ok(&["-C", "film", "remote", "add", "disk", "disk.dmv"])?;
    let listed = place.json(&["-C", "film", "remote", "--json"])?;
    assert_eq!(listed["name"], "disk");
    assert!(
        listed["url"]
            .as_str()
            .is_some_and(|url| url.ends_with("/film/disk.dmv"))
    );
    let (code, said) = place.fails(&["-C", "film", "fetch"])?;
    assert_eq!(code, 10, "{said}");
    place.ok(&["-C", "film", "remote", "remove", "disk"])?;
    place.ok(&["-C", "film", "remote", "add", "disk", "../disk.dmv"])?;

    place.commit("film", "one")?;
    let pushed = place.json(&["-C", "film", "push", "--json"])?;
    assert_eq!(pushed["refs"][0]["name"], "main");
    assert_eq!(pushed["refs"][0]["pushed"], true);
    assert_eq!(pushed["objects_sent"], 3);
    assert!(pushed["round_trips"].as_u64() <= Some(4), "{pushed}");
    let fetched = place.json(&["-C", "disk", "fetch", "--json"])?;
    assert_eq!(fetched["refs"][0]["name"], "origin/main");
    assert_eq!(fetched["objects_received"], 3);
    assert_eq!(
        place.tip("disk", "origin/main")?,
        place.tip("film", "main")?
    );

    // The branch of a worktree moves under it: it is told, and nothing is lost.
    place.ok(&["-C", "disk", "remote", "add", "film", "../film"])?;
    place.ok(&["-C", "disk", "checkout", "origin/main"])?;
    place.ok(&["-C", "disk", "branch", "work", "origin/main"])?;
    place.ok(&["-C", "disk", "checkout", "work"])?;
    place.commit("disk", "two")?;
    let synced = place.json(&["-C", "disk", "sync", "origin", "--json"])?;
    assert_eq!(synced["refs"].as_array().map(Vec::len), Some(2), "{synced}");
    assert_eq!(place.tip("disk.dmv", "work")?, place.tip("disk", "work")?);
    for repo in ["film", "disk", "disk.dmv"] {
        place.ok(&["-C", repo, "verify", "--full"])?;
    }
    Ok(())
}

#[test]
fn a_push_that_would_lose_commits_is_refused() -> Outcome {
    let place = Place::new()?;
    place.ok(&["clone", "film", "two"])?;
    place.commit("film", "theirs")?;
    place.commit("two", "ours")?;
    let (code, said) = place.fails(&["-C", "two", "push"])?;
    assert_eq!(code, 5);
    assert!(said.contains("commits that are not in yours"), "{said}");
    assert!(said.contains("hint: dmv pull origin"), "{said}");
    let theirs = place.tip("film", "main")?;
    let output = place.run(&["-C", "two", "sync"])?;
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(place.tip("film", "main")?, theirs);
    assert_eq!(place.tip("two", "origin/main")?, theirs);
    place.ok(&["-C", "two", "push", "--force"])?;
    assert_eq!(place.tip("film", "main")?, place.tip("two", "main")?);
    let (code, _) = place.fails(&["-C", "two", "push", "origin", "none"])?;
    assert_eq!(code, 20);
    Ok(())
}

#[test]
fn a_pull_brings_both_sides_together() -> Outcome {
    let place = Place::new()?;
    place.ok(&["clone", "film", "two"])?;
    place.commit("film", "theirs")?;
    let pulled = place.json(&["-C", "two", "pull", "--json"])?;
    assert_eq!(pulled["merge"]["fast_forward"], true, "{pulled}");
    assert!(place.path("two/theirs").exists());
    place.commit("film", "more")?;
    place.commit("two", "ours")?;
    place.ok(&["-C", "two", "fetch"])?;
    let status = place.json(&["-C", "two", "status", "--json"])?;
    let upstream = serde_json::json!({"name": "origin/main", "ahead": 1, "behind": 1});
    assert_eq!(status["upstream"], upstream);
    let said = place.ok(&["-C", "two", "status"])?;
    assert!(
        said.contains("1 commit ahead of origin/main and 1 behind"),
        "{said}"
    );
    let pulled = place.json(&["-C", "two", "pull", "--json"])?;
    assert_eq!(
        pulled["merge"]["conflicts"],
        serde_json::json!([]),
        "{pulled}"
    );
    assert!(place.path("two/more").exists() && place.path("two/ours").exists());
    place.ok(&["-C", "two", "push"])?;
    assert_eq!(place.tip("film", "main")?, place.tip("two", "main")?);

    place.ok(&["-C", "film", "checkout", "main"])?;
    place.write("film/shots/1", "theirs")?;
    place.ok(&["-C", "film", "commit", "-m", "theirs"])?;
    place.write("two/shots/1", "ours")?;
    place.ok(&["-C", "two", "commit", "-m", "ours"])?;
    let (code, said) = place.fails(&["-C", "two", "pull"])?;
    assert_eq!(code, 4, "{said}");
    // Conflicts are data: they can be sent, and are whole at the other end.
    place.ok(&["-C", "two", "push"])?;
    place.ok(&["-C", "film", "verify"])?;
    Ok(())
}

#[test]
fn ssh_reaches_another_host() -> Outcome {
    let place = Place::new()?;
    let url = format!("ssh://ada@host:2222{}", place.path("film").display());
    place.ok(&["clone", &url, "two"])?;
    place.ok(&["-C", "two", "verify"])?;
    place.commit("two", "one")?;
    let pushed = place.json(&["-C", "two", "push", "--json"])?;
    assert_eq!(pushed["refs"][0]["refused"], Value::Null);
    assert_eq!(place.tip("film", "main")?, place.tip("two", "main")?);
    let none = format!("ssh://host{}", place.path("none").display());
    for (url, code, word) in [
        ("ssh://unknown/x", 13, "Could not resolve"),
        ("ssh://strange/x", 12, "Host key verification failed"),
        ("ssh://mute/x", 13, "cut"),
        (&url.replace("ada@host:2222", "chatty"), 13, "Welcome!"),
        (&none, 10, "no repository"),
        ("ssh://-oProxyCommand=x/x", 2, "host"),
        ("ssh://-l@host/x", 2, "user"),
        ("http://host/x", 2, "addresses begin"),
    ] {
        let (found, said) = place.fails(&["clone", url, "three"])?;
        assert_eq!(found, code, "{url}: {said}");
        assert!(said.contains(word), "{url}: {said}");
        assert!(!place.path("three").exists(), "{url}");
    }
    Ok(())
}

#[test]
fn a_clone_that_was_killed_goes_on() -> Outcome {
    let place = Place::new()?;
    // Random enough not to shrink.
    let mut state = 1u32;
    let mut noise = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    let bytes: Vec<u8> = (0..24 << 20).map(|_| noise()).collect();
    fs::write(place.path("film/large"), &bytes)?;
    place.ok(&["-C", "film", "commit", "-m", "large"])?;
    let mut received = 0;
    for millis in [60, 90, 120, 180] {
        let mut child = place
            .command(&["clone", "film", "two"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        std::thread::sleep(Duration::from_millis(millis));
        let _ = child.kill();
        child.wait()?;
    }
    if !place.path("two/large").exists() {
        let cloned = place.json(&["clone", "film", "two", "--json"])?;
        received = cloned["bytes_received"].as_u64().unwrap_or(0);
    }
    assert!(received <= bytes.len() as u64 + (1 << 20), "{received}");
    assert_eq!(fs::read(place.path("two/large"))?, bytes);
    place.ok(&["-C", "two", "verify"])?;
    let (code, said) = place.fails(&["clone", "film", "two"])?;
    assert_eq!(code, 5, "{said}");
    place.write("full/x", "x")?;
    assert_eq!(place.fails(&["clone", "film", "full"])?.0, 5);
    Ok(())
}

#[test]
fn clones_begin_where_they_should() -> Outcome {
    let place = Place::new()?;
    place.ok(&["-C", "film", "branch", "regrade"])?;
    place.ok(&["-C", "film", "tag", "v1"])?;
    place.commit("film", "more")?;
    place.ok(&["clone", "--branch", "regrade", "film", "two"])?;
    assert_eq!(
        place.json(&["-C", "two", "status", "--json"])?["branch"],
        "regrade"
    );
    assert!(!place.path("two/more").exists());
    place.ok(&["clone", "--branch", "v1", "film", "three"])?;
    assert_eq!(
        place.json(&["-C", "three", "status", "--json"])?["branch"],
        Value::Null
    );
    let (code, said) = place.fails(&["clone", "--branch", "none", "film", "four"])?;
    assert_eq!(code, 20, "{said}");
    assert!(!place.path("four").exists());
    let (code, said) = place.fails(&["clone", "nothing"])?;
    assert_eq!(code, 10, "{said}");
    assert!(!place.path("nothing").exists());
    place.ok(&["init", "empty"])?;
    place.ok(&["clone", "empty", "five"])?;
    place.commit("five", "first")?;
    place.ok(&["-C", "five", "push"])?;
    assert_eq!(place.tip("empty", "main")?, place.tip("five", "main")?);
    let (code, said) = place.fails(&["-C", "empty", "fetch"])?;
    assert_eq!(code, 20, "{said}");
    assert!(said.contains("dmv remote add origin"), "{said}");
    Ok(())
}
