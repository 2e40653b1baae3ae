//! Signed commits, as a user sees them: by the key of the device, and by ssh keys.

use crate::place::{Outcome, Place};
use serde_json::{Value, json};
use std::error::Error;
use std::process::{Child, Command, Stdio};

/// An agent with one key, until it is dropped.
struct Agent {
    child: Child,
    socket: std::path::PathBuf,
}

impl Agent {
    fn with_key(place: &Place, key: &str) -> Result<Agent, Box<dyn Error>> {
        let socket = place.home().join("agent");
        let child = Command::new("ssh-agent")
            .args(["-D", "-a"])
            .arg(&socket)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let agent = Agent { child, socket };
        let add = || {
            let mut add = Command::new("ssh-add");
            add.args(["-q", key]).env("SSH_AUTH_SOCK", &agent.socket);
            add.current_dir(place.work()).stderr(Stdio::null()).status()
        };
        // The agent listens soon after it has begun.
        while !add()?.success() {
            std::thread::yield_now();
        }
        Ok(agent)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn words(records: &[Value]) -> Vec<&Value> {
    records.iter().map(|record| &record["signature"]).collect()
}

#[test]
fn commits_are_signed_and_checked_by_device_and_ssh_keys() -> Outcome {
    let place = Place::with_repository()?;
    place.write("a", "1")?;
    place.ok(&["commit", "-m", "unsigned"])?;
    place.write("a", "2")?;
    place.ok(&["commit", "--sign", "-m", "by the device"])?;
    let said = place.ok(&["verify-commit", "@"])?;
    let key = place.ok(&["id"])?;
    let signer = format!("good signature by this device ({})\n", &key[..12]);
    assert!(said.ends_with(&signer), "{said}");
    let command = ["verify-commit", "--json", "@", "@~1"];
    let both = place.run(&command)?;
    assert_eq!(both.status.code(), Some(1));
    let both: Vec<Value> = both
        .stdout
        .split(|b| *b == b'\n')
        .filter(|line| !line.is_empty())
        .map(serde_json::from_slice)
        .collect::<Result<_, _>>()?;
    assert_eq!(words(&both), ["good", "none"]);
    assert_eq!(
        (&both[0]["key"], &both[1]["key"]),
        (&json!(key.trim()), &json!(null))
    );

    let made = Command::new("ssh-keygen")
        .args([
            "-q", "-t", "ed25519", "-N", "", "-C", "ada@x", "-f", "../id",
        ])
        .current_dir(place.work())
        .status();
    if !made.is_ok_and(|status| status.success()) {
        dmv_random::skip("no ssh-keygen");
        return Ok(());
    }
    let home = place.work().join("..");
    let public = std::fs::read_to_string(home.join("id.pub"))?;
    let id = home.join("id").to_string_lossy().into_owned();
    let set = |name: &str, value: &str| place.ok(&["config", "set", "--user", name, value]);
    set("sign.key", &id)?;
    place.ok(&["config", "set", "sign.commits", "true"])?;
    place.write("a", "3")?;
    place.ok(&["commit", "-m", "by a key in a file"])?;
    assert_eq!(place.run(&["verify-commit", "@"])?.status.code(), Some(1));
    assert_eq!(
        words(&place.records(&["log", "--signatures", "--json"])?),
        ["unknown-key", "good", "none"]
    );
    let allowed = home.join("allowed");
    std::fs::write(&allowed, format!("ada@x {public}"))?;
    set("sign.allowed-signers", &allowed.to_string_lossy())?;
    let said = place.ok(&["verify-commit", "@"])?;
    assert!(said.contains("good signature by ada@x (SHA256:"), "{said}");

    // The private key is with an agent, and the setting is the public one.
    let agent = Agent::with_key(&place, &id)?;
    std::fs::remove_file(home.join("id"))?;
    set("sign.key", public.trim())?;
    place.write("a", "4")?;
    let commit = ["commit", "-m", "by an agent"];
    let done = place
        .command(&commit)
        .env("SSH_AUTH_SOCK", &agent.socket)
        .output()?;
    assert!(done.status.success(), "{done:?}");
    place.ok(&["verify-commit", "@"])?;
    // Without the agent, nothing is committed.
    drop(agent);
    place.write("a", "5")?;
    place.fails(20, &commit)?;
    let log = place.ok(&["log", "--signatures", "--oneline"])?;
    let first = log.lines().next().unwrap_or_default();
    assert!(
        first.contains("by an agent  [good signature by ada@x (SHA256:"),
        "{log}"
    );
    // A commit that is made again needs its signer.
    let again = ["commit", "--amend", "--no-edit"];
    let done = place
        .command(&again)
        .env("DMV_SIGN_COMMITS", "false")
        .output()?;
    let said = String::from_utf8(done.stderr)?;
    assert!(
        said.contains(" was signed; the commit made from it is not signed by that key"),
        "{said}"
    );
    place.ok(&["undo"])?;
    // A line that was not valid yet when the commit was made.
    std::fs::write(&allowed, format!("ada@x valid-after=\"20990101\" {public}"))?;
    let later = place.run(&["verify-commit", "@", "--json"])?;
    assert_eq!(
        serde_json::from_slice::<Value>(&later.stdout)?["signature"],
        "unknown-key"
    );

    // A repository names no key and no program.
    let file = place.work().join(".dmv/config.toml");
    let text = std::fs::read_to_string(&file)?;
    let text = text.replace(
        "[sign]",
        "[ssh]\nkeygen = \"touch ran\"\n\n[sign]\nkey = \"/nowhere\"",
    );
    std::fs::write(&file, text)?;
    let said = place.run(&["verify-commit", "@"])?;
    let said = String::from_utf8(said.stderr)?;
    assert!(
        said.contains("sets sign.key") && said.contains("sets ssh.keygen"),
        "{said}"
    );
    assert!(!place.work().join("ran").exists());
    Ok(())
}

#[test]
fn a_signed_tag_says_who_has_given_the_name() -> Outcome {
    let place = Place::with_repository()?;
    place.write("a", "1")?;
    place.commit("first")?;
    place.ok(&["tag", "plain"])?;
    place.ok(&["tag", "noted", "-m", "a note"])?;
    let said = place.ok(&["tag", "v1.0", "--sign", "-m", "as delivered"])?;
    assert!(said.starts_with("created tag v1.0 at "), "{said}");
    assert!(place.ok(&["tag"])?.contains("as delivered"));
    let head = place.json(&["show", "--json"])?["id"].clone();
    let key = place.ok(&["id"])?;
    let good = format!("v1.0  good signature by this device ({})\n", &key[..12]);
    for command in [["tag", "--verify", "v1.0"], ["verify-commit", "--", "v1.0"]] {
        assert_eq!(place.ok(&command)?, good, "{command:?}");
    }
    let found = place.records(&["tag", "--verify", "v1.0", "--json"])?;
    assert_eq!(
        json!([found[0]["tag"], found[0]["signature"]]),
        json!(["v1.0", "good"])
    );
    assert_eq!(found[0]["commit"], head, "the tagged commit");
    // The commit itself is not signed, and a tag without a signature neither.
    for args in [
        ["verify-commit", "v1.0~0"],
        ["tag", "--verify=plain"],
        ["tag", "--verify=noted"],
    ] {
        let done = place.run(&args)?;
        assert_eq!(done.status.code(), Some(1), "{args:?}");
        assert!(
            String::from_utf8(done.stdout)?.contains("not signed"),
            "{args:?}"
        );
    }
    place.fails(20, &["tag", "--verify", "none"])?;
    let log = place.ok(&["log", "--signatures"])?;
    assert!(
        log.contains("not signed; tag v1.0: good signature by this device"),
        "{log}"
    );
    // It is good at the others', too, as soon as they know the key, and only under its name.
    let bob = Place::new()?;
    bob.ok(&["clone", &place.work().display().to_string(), "film"])?;
    fn at<'a>(args: &[&'a str]) -> Vec<&'a str> {
        [&["-C", "film"], args].concat()
    }
    let done = bob.run(&at(&["tag", "--verify", "v1.0"]))?;
    assert!(String::from_utf8(done.stdout)?.contains("signed by an unknown key"));
    bob.ok(&at(&["trust", key.trim(), "--name", "ada"]))?;
    let said = bob.ok(&at(&["tag", "--verify", "v1.0"]))?;
    assert!(said.starts_with("v1.0  good signature by ada ("), "{said}");
    Ok(())
}

#[test]
fn a_repository_can_take_only_signed_commits() -> Outcome {
    let disk = Place::with_repository()?;
    disk.write("a", "1")?;
    disk.commit("first, not signed")?;
    let ada = Place::new()?;
    ada.ok(&["clone", &disk.work().display().to_string(), "film"])?;
    let on = |args: &[&str]| -> Vec<String> {
        let all = ["-C", "film"].iter().chain(args);
        all.map(|arg| (*arg).to_owned()).collect()
    };
    disk.ok(&["config", "set", "push.require-signed", "true"])?;
    assert_eq!(
        disk.ok(&["config", "get", "push.require-signed"])?,
        "true\n"
    );
    ada.write("film/a", "2")?;
    ada.ok(&on(&["commit", "-m", "second"]))?;
    let said = ada.fails(12, &on(&["push"]))?;
    let id = ada.json(&on(&["show", "--json"]))?["id"].clone();
    let short = &id.as_str().ok_or("an id")?[..12];
    assert!(
        said.contains(&format!("commit {short} is not signed")),
        "{said}"
    );
    assert!(said.contains("nothing was pushed"), "{said}");
    // Neither does a tag bring it there.
    ada.ok(&on(&["tag", "sneak"]))?;
    ada.fails(12, &on(&["push", "origin", "sneak"]))?;
    ada.ok(&on(&["tag", "-d", "sneak"]))?;
    ada.ok(&on(&["commit", "--amend", "--sign", "-m", "second"]))?;
    let said = ada.fails(12, &on(&["push"]))?;
    assert!(
        said.contains("is signed by a key that is not known there"),
        "{said}"
    );
    let key = ada.ok(&["id"])?;
    disk.ok(&["trust", key.trim(), "--name", "ada", "--write"])?;
    ada.ok(&on(&["push"]))?;
    // A tag with a message has a commit of its own, which nobody would know by its id.
    ada.ok(&on(&["tag", "v1", "-m", "a note"]))?;
    let said = ada.fails(12, &on(&["push", "origin", "v1"]))?;
    assert!(said.contains("the tag 'v1' is not signed"), "{said}");
    assert!(said.contains("dmv tag --sign NAME"), "{said}");
    ada.ok(&on(&["tag", "-d", "v1"]))?;
    // A branch without new commits, and the first commit that was there before, need no signature.
    ada.ok(&on(&["branch", "old", "@~1"]))?;
    ada.ok(&on(&["push", "origin", "old"]))?;
    disk.ok(&["config", "set", "push.require-signed", "false"])?;
    ada.write("film/a", "3")?;
    ada.ok(&on(&["commit", "-m", "third"]))?;
    ada.ok(&on(&["push"]))?;
    Ok(())
}
