//! Three people claim a path at the same moment, at every kind of remote: exactly one holds it.
//!
//! The count is small here. More: `tests/tier.sh night --only claim-races`, or
//! `DMV_CLAIM_RACES=1000 cargo test -p dmv-cli --test program -- claim_races:: --nocapture`.

// A harness says aloud what it has done.
#![allow(clippy::print_stdout)]

use crate::bucket::gateway::Gateway;
use crate::place::running::Running;
use crate::place::several::{SSH, speak_ssh};
use crate::place::{Outcome, Place};
use dmv_random::number;
use serde_json::Value;
use std::process::{Child, Stdio};

const KEY: &str = "AKIATESTKEY";
const SECRET: &str = "a5ecretThatNobodyMayRead";
const BUCKET: &str = "s3://film/x";
const NAMES: [&str; 3] = ["Ada", "Bob", "Eve"];
/// A remote arbitrates at most 4,096 claims, and each of the three has lists of its own. They are released in time.
const RELEASE_AFTER: u64 = 100;

/// A repository with one file.
fn film() -> Outcome<Place> {
    let place = Place::with_repository()?;
    place.write("rock", "rock")?;
    place.commit("first")?;
    Ok(place)
}

fn person(name: &str) -> Outcome<Place> {
    let mut place = Place::new()?;
    place.env.push(("DMV_USER_NAME", name.into()));
    Ok(place)
}

/// Clones the remote for each of three people.
fn people(address: &str, with: &dyn Fn(&mut Place) -> Outcome) -> Outcome<Vec<Place>> {
    let each = NAMES.iter().map(|name| {
        let mut place = person(name)?;
        with(&mut place)?;
        place.ok(&["clone", address, "film"])?;
        Ok(place)
    });
    each.collect()
}

fn claim(place: &Place, path: &str) -> std::io::Result<Child> {
    let mut command = place.command(&["-C", "film", "claim", path]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

/// Lets all claim the same paths, one after the other. Returns how many races there were.
fn race(kind: &str, people: &[Place]) -> Outcome<u64> {
    let rounds = number("DMV_CLAIM_RACES", 2);
    for n in 0..rounds {
        let path = format!("shots/{n:04}");
        let racing = people.iter().map(|place| claim(place, &path));
        let racing = racing.collect::<Result<Vec<_>, _>>()?;
        let mut exits = Vec::new();
        for mut one in racing {
            exits.push(one.wait()?.code());
        }
        exits.sort();
        assert_eq!(exits, [Some(0), Some(5), Some(5)], "{kind}, race {n}");
        if n % RELEASE_AFTER == RELEASE_AFTER - 1 || n == rounds - 1 {
            check(kind, people, &path)?;
        }
    }
    Ok(rounds)
}

/// Everybody sees one holder of the path, and the same one. Then all is released.
fn check(kind: &str, people: &[Place], path: &str) -> Outcome {
    let mut holders = Vec::new();
    for place in people {
        place.ok(&["-C", "film", "claims", "--refresh"])?;
        let claims = place.records(&["-C", "film", "claims", "--json", path])?;
        assert_eq!(claims.len(), 1, "{kind}: {claims:?}");
        assert_eq!(claims[0]["state"], "held", "{kind}");
        holders.push(claims[0]["by"].clone());
    }
    holders.dedup();
    assert!(
        matches!(&holders[..], [Value::String(_)]),
        "{kind}: {holders:?}"
    );
    for place in people {
        place.ok(&["-C", "film", "release", "--all"])?;
    }
    Ok(())
}

fn tell(kind: &str, races: u64) {
    println!("harness claim races: {races} at {kind}, each with exactly one holder");
}

#[test]
fn at_a_path_one_of_three_holds() -> Outcome {
    let disk = film()?;
    let at = disk.work().display().to_string();
    tell("a path", race("path", &people(&at, &|_| Ok(()))?)?);
    Ok(())
}

#[test]
fn over_ssh_one_of_three_holds() -> Outcome {
    let disk = film()?;
    let at = format!("ssh://host{}", disk.work().display());
    let people = people(&at, &|place| speak_ssh(place, SSH))?;
    tell("ssh", race("ssh", &people)?);
    Ok(())
}

#[test]
fn at_a_server_one_of_three_holds() -> Outcome {
    let disk = film()?;
    let people = NAMES.iter().map(|name| person(name));
    let people = people.collect::<Outcome<Vec<Place>>>()?;
    for place in &people {
        let key = place.ok(&["id"])?;
        disk.ok(&["trust", key.trim(), "--write"])?;
    }
    let server = Running::serve(&disk, &[])?;
    for place in &people {
        place.ok(&["clone", &server.address()?, "film"])?;
    }
    tell("a server", race("serve", &people)?);
    Ok(())
}

#[test]
fn at_a_bucket_one_of_three_holds() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let keys = |place: &mut Place| {
        place.env.push(("AWS_ACCESS_KEY_ID", KEY.into()));
        place.env.push(("AWS_SECRET_ACCESS_KEY", SECRET.into()));
        place
            .env
            .push(("AWS_ENDPOINT_URL", gateway.endpoint.clone().into()));
        Ok(())
    };
    let mut first = film()?;
    keys(&mut first)?;
    first.ok(&["remote", "add", "studio", BUCKET])?;
    first.ok(&["push", "studio"])?;
    tell("a bucket", race("bucket", &people(BUCKET, &keys)?)?);
    Ok(())
}
