//! Buckets whose file `root` is lost.

use super::gateway::Gateway;
use super::push::clone;
use super::{KEY, SECRET, place};
use crate::place::{Outcome, Place};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

const BUCKET: &str = "s3://film/x";

/// A device that has pushed three times.
fn pushed(gateway: &Gateway) -> Outcome<Place> {
    let ada = place()?;
    gateway.add(&ada, "studio", BUCKET)?;
    for n in 0..3 {
        ada.write("reel", format!("take {n}"))?;
        ada.commit(&format!("take {n}"))?;
        ada.ok(&["push", "studio"])?;
    }
    Ok(ada)
}

fn root(gateway: &Gateway) -> PathBuf {
    gateway.path("film").join("x/root")
}

/// What `recover` says as JSON, whatever its exit code is.
fn looked(place: &Place, exit: i32) -> Outcome<Value> {
    let done = place.run(&["recover", "--at", "studio", "--json"])?;
    assert_eq!(done.status.code(), Some(exit));
    Ok(serde_json::from_slice(&done.stdout)?)
}

#[test]
fn a_lost_root_is_restored_by_a_person_who_chooses_a_state() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let ada = pushed(&gateway)?;
    let bob = clone(&gateway, BUCKET)?;
    ada.write("reel", "take 4")?;
    let fourth = ada.commit("take 4")?;
    ada.ok(&["push", "studio"])?;
    let intact = looked(&ada, 0)?;
    assert_eq!(intact["root"], "intact");
    let said = ada.fails(5, &["recover", "--at", "studio", "--use", "0123"])?;
    assert!(said.contains("the root is intact"), "{said}");
    fs::remove_file(root(&gateway))?;
    // Bob has seen the root before the last push. The packs tell of the push.
    let bob_looks = ["recover", "--at", "origin"];
    let done = bob.run(&bob_looks)?;
    let said = String::from_utf8(done.stdout)?;
    assert_eq!(done.status.code(), Some(7));
    assert!(
        said.contains("the root of origin is gone; 4 files of "),
        "{said}"
    );
    assert!(
        said.contains("from the root that this device saw last"),
        "{said}"
    );
    assert!(said.contains("includes 1 operation from packs"), "{said}");
    let hints = String::from_utf8(done.stderr)?;
    assert!(hints.contains("keeps versions of its files"), "{hints}");
    // So does a device that has never seen it.
    let eve = place()?;
    gateway.add(&eve, "studio", BUCKET)?;
    let found = looked(&eve, 7)?;
    assert_eq!(found["root"], "gone");
    let state = &found["states"][0];
    assert_eq!(state["from"], "packs");
    assert_eq!(state["refs"][0]["name"], "branch/main");
    assert_eq!(state["refs"][0]["commit"], fourth.as_str());
    assert_eq!(state["flaw"], Value::Null);
    assert_eq!(state["newest"]["command"], "dmv push studio");
    let id = state["id"].as_str().ok_or("an id")?;
    assert!(!root(&gateway).exists(), "it has only looked");
    eve.fails(20, &["recover", "--at", "studio", "--use", "zzzz"])?;
    let said = eve.ok(&["recover", "--at", "studio", "--use", id])?;
    assert!(
        said.contains(&format!("restored state {id} at studio")),
        "{said}"
    );
    // All devices go on.
    ada.ok(&["verify", "--at", "studio"])?;
    ada.write("reel", "take 5")?;
    ada.commit("take 5")?;
    ada.ok(&["push", "studio"])?;
    bob.ok(&["pull"])?;
    assert_eq!(fs::read(bob.work().join("reel"))?, b"take 5");
    let log = ada.ok(&["op", "log", "--at", "studio"])?;
    assert!(log.contains("dmv recover --at studio --use"), "{log}");
    ada.ok(&["gc", "--at", "studio"])?;
    clone(&gateway, BUCKET)?;
    Ok(())
}

#[test]
fn a_damaged_root_is_lost_a_newer_one_is_not_and_no_command_makes_a_new_one() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let ada = pushed(&gateway)?;
    let good = fs::read(root(&gateway))?;
    let mut bad = good.clone();
    bad[30] ^= 1;
    let mut newer = good;
    newer[8] = 9;
    fs::write(root(&gateway), &newer)?;
    for command in [&["--json"][..], &["--use", "0123"]] {
        let said = ada.fails(14, &[&["recover", "--at", "studio"], command].concat())?;
        assert!(said.contains("newer version of dmv"), "{said}");
    }
    fs::write(root(&gateway), &bad)?;
    let eve = place()?;
    gateway.add(&eve, "studio", BUCKET)?;
    eve.write("other", "of eve")?;
    eve.commit("of eve")?;
    let said = eve.fails(7, &["push", "studio"])?;
    assert!(said.contains("the file 'root' is damaged"), "{said}");
    let found = looked(&ada, 7)?;
    assert_eq!(found["root"], "damaged");
    let state = &found["states"][0];
    assert_eq!(
        (&state["from"], &state["operations"]),
        (&"root".into(), &3.into())
    );
    // A pack that the state needs is missing.
    let folder = fs::read_dir(gateway.path("film").join("x"))?
        .filter_map(Result::ok)
        .find(|entry| entry.path().is_dir())
        .ok_or("no folder")?;
    let pack = fs::read_dir(folder.path())?
        .next()
        .ok_or("no pack")??
        .path();
    let away = gateway.path("film").join("away");
    fs::rename(&pack, &away)?;
    let id = state["id"].as_str().ok_or("an id")?;
    let said = ada.fails(5, &["recover", "--at", "studio", "--use", id])?;
    assert!(said.contains("missing that it needs"), "{said}");
    let said = ada.run(&["recover", "--at", "studio"])?;
    let said = String::from_utf8(said.stdout)?;
    assert!(
        said.contains("1 file is missing that this root names"),
        "{said}"
    );
    assert_eq!(fs::read(root(&gateway))?, bad);
    fs::rename(&away, &pack)?;
    ada.ok(&["recover", "--at", "studio", "--use", id])?;
    ada.ok(&["verify", "--at", "studio"])?;

    // No command makes a new root in place of a lost one.
    let eve = place()?;
    gateway.add(&eve, "studio", BUCKET)?;
    eve.write("other", "of eve")?;
    eve.commit("of eve")?;
    let files = gateway.files("film")?;
    fs::remove_file(root(&gateway))?;
    ada.write("reel", "take 4")?;
    ada.commit("take 4")?;
    for command in [
        &["push", "studio"][..],
        &["push", "studio", "--dry-run"],
        &["fetch", "studio"],
        &["pull", "studio"],
        &["sync", "studio"],
        &["gc", "--at", "studio"],
        &["repack", "--at", "studio"],
        &["verify", "--at", "studio"],
        &["op", "log", "--at", "studio"],
        &["undo", "--at", "studio"],
    ] {
        let said = ada.fails(7, command)?;
        assert!(
            said.contains("the file 'root' is gone"),
            "{command:?}: {said}"
        );
        assert!(said.contains("dmv recover --at s3://film/x"), "{said}");
    }
    ada.ok(&["remote", "check", "studio"])?;
    for command in [&["push", "studio"][..], &["push", "studio", "--dry-run"]] {
        let said = eve.fails(7, command)?;
        assert!(
            said.contains("makes no new repository beside them"),
            "{said}"
        );
        assert!(said.contains("dmv recover --at s3://film/x"), "{said}");
    }
    let clone = ["clone", BUCKET, "x", "--endpoint", &gateway.endpoint];
    let said = eve.fails(10, &clone)?;
    assert!(
        said.contains("If there was one: dmv recover --at s3://film/x"),
        "{said}"
    );
    assert!(!root(&gateway).exists());
    assert_eq!(gateway.files("film")?, files - 1);
    Ok(())
}

#[test]
fn a_bucket_can_be_looked_into_from_anywhere() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    pushed(&gateway)?;
    let mut outside = Place::new()?;
    outside.env.push(("AWS_ACCESS_KEY_ID", KEY.into()));
    outside.env.push(("AWS_SECRET_ACCESS_KEY", SECRET.into()));
    outside
        .env
        .push(("AWS_ENDPOINT_URL", gateway.endpoint.clone().into()));
    let said = outside.ok(&["recover", "--at", BUCKET])?;
    assert!(said.contains("is intact"), "{said}");
    fs::remove_file(root(&gateway))?;
    let done = outside.run(&["recover", "--at", BUCKET])?;
    assert_eq!(done.status.code(), Some(7));
    let said = outside.fails(10, &["recover", "--at", "s3://film/y"])?;
    assert!(said.contains("no repository in the bucket"), "{said}");
    Ok(())
}
