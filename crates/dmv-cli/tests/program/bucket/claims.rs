//! Claims at a real object store.

use super::gateway::Gateway;
use super::misbehaving::{Reply, Web};
use super::{KEY, SECRET, place};
use crate::place::{Outcome, Place};
use std::fs;
use std::process::Stdio;

const BUCKET: &str = "s3://film/x";

fn person(name: &str, gateway: &Gateway) -> Outcome<Place> {
    let mut person = Place::new()?;
    person.env.push(("AWS_ACCESS_KEY_ID", KEY.into()));
    person.env.push(("AWS_SECRET_ACCESS_KEY", SECRET.into()));
    person.env.push(("DMV_USER_NAME", name.into()));
    person.ok(&["clone", BUCKET, ".", "--endpoint", &gateway.endpoint])?;
    Ok(person)
}

#[test]
fn people_without_a_server_claim_at_a_bucket() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let first = place()?;
    gateway.add(&first, "studio", BUCKET)?;
    for name in ["rock", "tree", "sea"] {
        first.write(name, name)?;
    }
    first.commit("first")?;
    first.ok(&["push", "studio"])?;
    let (ada, bob) = (person("Ada", &gateway)?, person("Bob", &gateway)?);

    // The first claim of a device tests the store.
    assert_eq!(ada.ok(&["claim", "rock"])?, "held at origin: rock\n");
    let before = gateway.logged()?;
    assert_eq!(ada.ok(&["claim", "sea"])?, "held at origin: sea\n");
    let logged = gateway.logged()?.since(&before);
    assert_eq!((logged.get, logged.put, logged.list), (1, 1, 0));
    let said = bob.fails(5, &["claim", "rock"])?;
    assert!(said.contains("'rock' is claimed by Ada ("), "{said}");
    let before = gateway.logged()?;
    bob.ok(&["claims", "--refresh"])?;
    let logged = gateway.logged()?.since(&before);
    assert_eq!((logged.get, logged.put, logged.list), (1, 0, 0));

    // Several at once: one gets the path.
    let claim = |person: &Place| {
        let mut command = person.command(&["claim", "tree"]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()
    };
    let racing = [claim(&ada)?, claim(&bob)?];
    let mut exits = Vec::new();
    for mut one in racing {
        exits.push(one.wait()?.code());
    }
    exits.sort();
    assert_eq!(exits, [Some(0), Some(5)]);

    bob.write("rock", "another rock")?;
    bob.commit("rock")?;
    ada.ok(&["config", "set", "--at", "origin", "claims.enforce", "true"])?;
    let said = bob.fails(5, &["push"])?;
    assert!(said.contains("'rock' is claimed by Ada ("), "{said}");
    let synced = bob.run(&["sync"])?;
    assert_eq!(synced.status.code(), Some(3), "it is left");
    bob.ok(&["claim", "rock", "--take", "-m", "deadline"])?;
    bob.ok(&["push"])?;
    let told = ada.run(&["fetch"])?;
    let told = String::from_utf8(told.stderr)?;
    assert!(told.contains(") has taken over 'rock'"), "{told}");
    ada.ok(&["release", "--all"])?;
    assert_eq!(bob.ok(&["claim", "sea"])?, "held at origin: sea\n");
    Ok(())
}

#[test]
fn a_push_to_a_bucket_keeps_to_claims_that_nobody_has_told_this_clone() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let first = place()?;
    gateway.add(&first, "studio", BUCKET)?;
    for name in ["rock", "tree"] {
        first.write(name, name)?;
    }
    first.commit("first")?;
    first.ok(&["push", "studio"])?;
    let ada = person("Ada", &gateway)?;
    let mut bob = person("Bob", &gateway)?;
    assert_eq!(bob.ok(&["claims"])?, "no claims\n");
    ada.ok(&["config", "set", "--at", "origin", "claims.enforce", "true"])?;
    ada.ok(&["claim", "rock"])?;
    // Nobody has told Bob, and the bucket has nothing else that is new.
    bob.write("rock", "bob's rock")?;
    bob.commit("rock")?;
    let said = bob.fails(5, &["push"])?;
    assert!(said.contains("'rock' is claimed by Ada ("), "{said}");
    // Neither does an address know what its name does.
    bob.env
        .push(("AWS_ENDPOINT_URL", gateway.endpoint.clone().into()));
    for at in ["origin", BUCKET] {
        let synced = bob.run(&["sync", at])?;
        let said = String::from_utf8(synced.stdout)?;
        assert_eq!(synced.status.code(), Some(3), "{at}: {said}");
        assert!(said.contains("'rock' is claimed by Ada ("), "{at}: {said}");
    }
    bob.fails(5, &["push", BUCKET])?;

    // The file cannot be read any more: what is known of it counts.
    let file = gateway.path("film").join("x/claims");
    let good = fs::read(&file)?;
    fs::write(&file, b"no claims")?;
    let said = bob.fails(5, &["push"])?;
    assert!(
        said.contains("warning: the claims there cannot be read"),
        "{said}"
    );
    assert!(said.contains("'rock' is claimed by Ada ("), "{said}");
    bob.ok(&["reset", "--hard", "origin/main"])?;
    bob.write("tree", "bob's tree")?;
    bob.commit("tree")?;
    let pushed = bob.run(&["push"])?;
    let said = String::from_utf8(pushed.stderr)?;
    assert_eq!(pushed.status.code(), Some(0), "{said}");
    assert!(
        said.contains("warning: the claims there cannot be read"),
        "{said}"
    );
    fs::write(&file, good)?;
    Ok(())
}

#[test]
fn a_bucket_that_takes_no_claims_is_told_with_the_reason() -> Outcome {
    let web = Web::start(|_| Reply::new("404 Not Found", "no such page"))?;
    let reader = place()?;
    reader.write("rock", "rock")?;
    reader.commit("first")?;
    let file = reader.work().join(".dmv/config.toml");
    let config = fs::read_to_string(&file).unwrap_or_default();
    let address = format!("{}/film", web.endpoint());
    fs::write(file, format!("{config}\n[remote.m]\nurl = \"{address}\"\n"))?;
    let done = reader.run(&["claim", "rock"])?;
    assert_eq!(done.status.code(), Some(0));
    let (out, said) = (
        String::from_utf8(done.stdout)?,
        String::from_utf8(done.stderr)?,
    );
    assert_eq!(out, "noted, not yet known to others: rock\n");
    assert!(said.contains("this is a read-only mirror"), "{said}");
    let said = reader.fails(12, &["claim", "--at", "m", "rock"])?;
    assert!(said.contains("this is a read-only mirror"), "{said}");
    let done = reader.run(&["claims", "--refresh"])?;
    let said = String::from_utf8(done.stderr)?;
    assert!(said.contains("m has not taken your claims: "), "{said}");
    Ok(())
}

#[test]
fn a_bucket_can_take_only_signed_commits() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let first = place()?;
    gateway.add(&first, "studio", BUCKET)?;
    first.write("rock", "rock")?;
    first.commit("first")?;
    // The rule holds from the first push on.
    first.ok(&[
        "config",
        "set",
        "--at",
        "studio",
        "push.require-signed",
        "true",
    ])?;
    first.fails(12, &["push", "studio"])?;
    first.ok(&["commit", "--amend", "--sign", "-m", "first"])?;
    first.ok(&["push", "studio"])?;
    let (ada, bob) = (person("Ada", &gateway)?, person("Bob", &gateway)?);
    bob.write("rock", "bob's rock")?;
    bob.commit("rock")?;
    let said = bob.fails(12, &["push"])?;
    assert!(said.contains(" is not signed, and only commits"), "{said}");
    bob.fails(12, &["sync"])?;
    bob.ok(&["commit", "--amend", "--sign", "-m", "rock"])?;
    bob.ok(&["push"])?;
    // Claims and signatures are told apart.
    ada.ok(&["config", "set", "--at", "origin", "claims.enforce", "true"])?;
    ada.ok(&[
        "config",
        "set",
        "--at",
        "origin",
        "push.require-signed",
        "false",
    ])?;
    ada.ok(&["claim", "--anyway", "rock"])?;
    bob.write("rock", "bob's next rock")?;
    bob.commit("rock")?;
    bob.fails(5, &["push"])?;
    ada.ok(&["release", "--all"])?;
    bob.ok(&["push"])?;
    Ok(())
}
