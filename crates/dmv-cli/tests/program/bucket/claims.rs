//! Claims at a real object store.

use super::gateway::Gateway;
use super::{KEY, SECRET, place};
use crate::place::{Outcome, Place};
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
