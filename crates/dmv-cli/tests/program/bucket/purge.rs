//! Removing a file for good from a real object store, and from those who use it.

use super::gateway::Gateway;
use super::push::clone;
use super::{KEY, SECRET, place};
use crate::place::{Outcome, Place};
use dmv_random::noise;
use std::fs;
use std::path::Path;

const LEN: usize = 600_000;

/// Returns whether any file below a directory has a part of a content.
fn has_bytes(dir: &Path, content: &[u8]) -> Outcome<bool> {
    let parts: Vec<&[u8]> = content.windows(40).step_by(499).collect();
    let number = |bytes: &[u8]| usize::from(bytes[0]) << 8 | usize::from(bytes[1]);
    let mut starts = vec![false; 1 << 16];
    parts.iter().for_each(|part| starts[number(part)] = true);
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            if has_bytes(&path, content)? {
                return Ok(true);
            }
            continue;
        }
        let bytes = fs::read(path)?;
        let is_part = |window: &[u8]| starts[number(window)] && parts.contains(&window);
        if bytes.windows(40).any(is_part) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn secret_is_in(gateway: &Gateway) -> Outcome<bool> {
    let dir = gateway.path("film");
    Ok(has_bytes(&dir, &noise(1, LEN))? || has_bytes(&dir, &noise(2, LEN))?)
}

/// A repository with two versions of a key, in a bucket.
fn pushed(gateway: &Gateway) -> Outcome<Place> {
    let ada = place()?;
    gateway.add(&ada, "studio", "s3://film/x")?;
    ada.write("key", noise(1, LEN))?;
    ada.write("notes", "notes")?;
    ada.commit("one")?;
    ada.ok(&["push", "studio"])?;
    ada.write("key", noise(2, LEN))?;
    ada.write("large", noise(3, LEN))?;
    ada.commit("two")?;
    ada.ok(&["push", "studio"])?;
    Ok(ada)
}

/// A clone whose newest commit names purged content: that file is not written.
fn clone_without_key(gateway: &Gateway) -> Outcome<Place> {
    let mut place = Place::new()?;
    place.env.push(("AWS_ACCESS_KEY_ID", KEY.into()));
    place.env.push(("AWS_SECRET_ACCESS_KEY", SECRET.into()));
    let args = ["clone", "s3://film/x", ".", "--endpoint", &gateway.endpoint];
    let said = place.fails(3, &args)?;
    assert!(said.contains("its content was purged"), "{said}");
    Ok(place)
}

const PURGE: [&str; 6] = ["purge", "key", "--reason", "a leaked key", "--at", "studio"];

#[test]
fn a_purge_reaches_a_bucket_and_all_who_use_it() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let ada = pushed(&gateway)?;
    let bob = clone(&gateway, "s3://film/x")?;
    let away = clone(&gateway, "s3://film/x")?;
    assert!(secret_is_in(&gateway)?);
    let said = ada.fails(20, &["purge", "key", "--reason", "x", "--at", "nowhere"])?;
    assert!(said.contains("nowhere"), "{said}");
    assert!(has_bytes(&ada.work().join(".dmv/packs"), &noise(1, LEN))?);

    let done = ada.run(&PURGE)?;
    let (out, err) = (
        String::from_utf8(done.stdout)?,
        String::from_utf8(done.stderr)?,
    );
    assert_eq!(done.status.code(), Some(0), "{out}{err}");
    assert!(out.contains("studio: purged\n"), "{out}");
    assert!(
        err.contains("at a bucket, dmv cannot purge older versions"),
        "{err}"
    );
    assert!(!secret_is_in(&gateway)?);
    let status = ada.json(&["purge", "--status", "--json"])?;
    assert_eq!(status["peers"][0]["outcome"], "done", "{status}");
    let report = ada.json(&["verify", "--at", "studio", "--full", "--json"])?;
    assert_eq!(report["ok"], true, "{report}");
    assert_eq!(report["purged"][0]["reason"], "a leaked key", "{report}");
    assert_eq!(report["purged"][0]["files"], 2, "{report}");
    assert_eq!(report["purged_chunks_stored"], 0, "{report}");
    let again = ada.json(&["purge", "--at", "studio", "--json"])?;
    assert_eq!(again["peers"][0]["outcome"], "done", "{again}");
    assert_eq!(again["peers"][0]["files"], 0, "{again}");

    // Bob is told, and decides.
    let said = String::from_utf8(bob.run(&["fetch"])?.stderr)?;
    assert!(said.contains("dmv purge "), "{said}");
    assert!(has_bytes(&bob.work().join(".dmv/packs"), &noise(1, LEN))?);
    bob.ok(&["mv", "key", "key of bob"])?;
    bob.commit("moved")?;
    let said = bob.fails(5, &["push"])?;
    assert!(said.contains("a leaked key"), "{said}");
    assert!(!secret_is_in(&gateway)?);
    bob.ok(&["purge", "key", "--reason", "a leaked key"])?;
    assert!(!has_bytes(&bob.work().join(".dmv/packs"), &noise(1, LEN))?);
    bob.ok(&["push"])?;
    assert!(!secret_is_in(&gateway)?);

    // Who was away still has it, and may push what does not bring it back.
    away.ok(&["checkout", "-b", "away"])?;
    away.write("diary", "written on the road")?;
    away.commit("away")?;
    away.ok(&["push", "origin", "away"])?;
    away.write("copy", noise(1, LEN))?;
    away.commit("a copy")?;
    let said = away.fails(5, &["push", "origin", "away"])?;
    assert!(said.contains("a leaked key"), "{said}");
    let part = [&noise(1, LEN)[..LEN / 2], &noise(9, 50_000)].concat();
    away.write("copy", part)?;
    away.ok(&["commit", "--amend", "-m", "a part"])?;
    let said = away.fails(5, &["push", "origin", "away"])?;
    assert!(said.contains("a leaked key"), "{said}");
    assert!(!secret_is_in(&gateway)?);

    // A new clone is sound, and says what is absent and why.
    let new = clone_without_key(&gateway)?;
    assert_eq!(fs::read(new.work().join("large"))?, noise(3, LEN));
    let report = new.json(&["verify", "--full", "--json"])?;
    assert_eq!(report["ok"], true, "{report}");
    let listed = new.ok(&["ls", "-l"])?;
    assert!(listed.contains("a leaked key"), "{listed}");
    let before = gateway.logged()?;
    new.ok(&["fetch"])?;
    let asked = gateway.logged()?.since(&before);
    assert_eq!((asked.get, asked.put, asked.list), (1, 0, 0));
    // The rest works as before.
    new.write("notes", "more")?;
    new.commit("more")?;
    new.ok(&["push"])?;
    let report = new.json(&["verify", "--at", "origin", "--full", "--json"])?;
    assert_eq!(report["ok"], true, "{report}");
    assert!(!secret_is_in(&gateway)?);
    Ok(())
}

#[test]
fn what_other_files_need_stays_in_the_bucket_and_is_counted() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let ada = pushed(&gateway)?;
    let joined = [&noise(2, LEN)[LEN / 2..], &noise(8, 80_000)].concat();
    ada.write("joined", &joined)?;
    ada.commit("joined")?;
    ada.ok(&["push", "studio"])?;
    // The packs are joined first: one has all.
    for n in 0..9 {
        ada.write("counter", noise(20 + n, 2000))?;
        ada.commit("count")?;
        ada.ok(&["push", "studio"])?;
    }
    let joins = ada.json(&["repack", "--at", "studio", "--json"])?;
    assert_eq!(joins["packs_after"], 1, "{joins}");
    let done = ada.json(&[&PURGE[..], &["--json"]].concat())?;
    let peer = &done["peers"][0];
    assert_eq!(peer["outcome"], "done", "{done}");
    let shared = peer["shared_bytes"].as_u64().unwrap_or_default() as usize;
    assert!(shared > 20_000 && shared < LEN / 2 + 70_000, "{shared}");
    assert!(!has_bytes(&gateway.path("film"), &noise(1, LEN))?);
    assert!(!has_bytes(
        &gateway.path("film"),
        &noise(2, LEN)[..LEN / 2 - 70_000]
    )?);
    let new = clone_without_key(&gateway)?;
    assert_eq!(fs::read(new.work().join("joined"))?, joined);
    assert_eq!(fs::read(new.work().join("large"))?, noise(3, LEN));
    let report = new.json(&["verify", "--full", "--json"])?;
    assert_eq!(report["ok"], true, "{report}");
    Ok(())
}

#[test]
fn a_purge_on_one_device_explains_what_its_push_lacks() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let ada = place()?;
    gateway.add(&ada, "studio", "s3://film/x")?;
    ada.write("key", noise(1, LEN))?;
    ada.write("notes", "notes")?;
    ada.commit("one")?;
    ada.ok(&["purge", "key", "--reason", "a leaked key"])?;
    ada.ok(&["push", "studio"])?;
    assert!(!secret_is_in(&gateway)?);
    let new = clone_without_key(&gateway)?;
    let listed = new.ok(&["ls", "-l"])?;
    assert!(listed.contains("a leaked key"), "{listed}");
    let report = new.json(&["verify", "--at", "origin", "--full", "--json"])?;
    assert_eq!(report["ok"], true, "{report}");
    Ok(())
}

#[test]
fn a_purge_at_a_bucket_needs_all_its_history() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let ada = pushed(&gateway)?;
    let bob = clone(&gateway, "s3://film/x")?;
    ada.write("notes", "later")?;
    ada.commit("later")?;
    ada.ok(&["push", "studio"])?;
    // Bob lacks the newest commit. His own copy goes, that of the bucket stays, and he is told so.
    let done = bob.run(&["purge", "key", "--reason", "a leaked key", "--at", "origin"])?;
    let out = String::from_utf8(done.stdout)?;
    assert!(
        out.contains("origin: refused (") && out.contains("fetch first"),
        "{out}"
    );
    assert_ne!(done.status.code(), Some(0));
    assert!(secret_is_in(&gateway)?);
    let status = bob.json(&["purge", "--status", "--json"])?;
    assert_eq!(status["peers"][0]["outcome"], "not-purged", "{status}");
    bob.ok(&["fetch"])?;
    bob.ok(&["purge", "--at", "origin"])?;
    assert!(!secret_is_in(&gateway)?);
    Ok(())
}

#[test]
fn gc_from_a_new_clone_works_after_a_push_by_force() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let ada = pushed(&gateway)?;
    ada.ok(&["reset", "--hard", "@~1"])?;
    ada.write("notes", "another way")?;
    ada.commit("another")?;
    ada.ok(&["push", "studio", "--force"])?;
    let new = clone(&gateway, "s3://film/x")?;
    // Its own gc frees what no branch leads to, so that only the bucket's log names it.
    new.ok(&["gc", "--grace", "0"])?;
    let said = new.ok(&["gc", "--at", "origin", "--grace", "0"])?;
    assert!(said.contains("nothing to free at origin"), "{said}");
    // Undo at the bucket still finds everything.
    new.ok(&["undo", "--at", "origin"])?;
    let other = clone(&gateway, "s3://film/x")?;
    assert_eq!(fs::read(other.work().join("large"))?, noise(3, LEN));
    Ok(())
}
