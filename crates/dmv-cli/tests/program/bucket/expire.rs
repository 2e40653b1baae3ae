//! Letting old versions expire in a real object store.

use super::gateway::Gateway;
use super::push::clone;
use super::{KEY, SECRET, place};
use crate::place::{Outcome, Place};
use dmv_random::noise;
use serde_json::Value;
use std::fs;
use std::path::Path;

const LEN: usize = 150_000;
const VERSIONS: u64 = 12;

/// Returns the bytes of all files below a directory.
fn bytes_in(dir: &Path) -> Outcome<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        sum += if path.is_dir() {
            bytes_in(&path)?
        } else {
            fs::metadata(&path)?.len()
        };
    }
    Ok(sum)
}

fn render(n: u64) -> Vec<u8> {
    noise(100 + n, LEN)
}

/// A repository with versions of a render in a bucket. The last two are to stay.
fn pushed(gateway: &Gateway) -> Outcome<Place> {
    let ada = place()?;
    gateway.add(&ada, "studio", "s3://film/x")?;
    ada.write("notes", "notes")?;
    ada.commit("notes")?;
    ada.ok(&["push", "studio"])?;
    for n in 0..VERSIONS {
        ada.write("renders/a.exr", render(n))?;
        ada.commit(&format!("night {n}"))?;
        ada.ok(&["push", "studio"])?;
    }
    Ok(ada)
}

fn commit_rule(place: &Place, remote: &str, rule: &str) -> Outcome {
    place.write(".dmvattributes", format!("/renders/** keep={rule}\n"))?;
    place.commit(rule)?;
    place.ok(&["push", remote])?;
    Ok(())
}

/// Returns the sum of a command's records, which goes to standard error.
fn summary(place: &Place, args: &[&str]) -> Outcome<Value> {
    let said = String::from_utf8(place.run(args)?.stderr)?;
    let sum = said.lines().find(|line| line.contains("\"summary\""));
    Ok(serde_json::from_str(sum.ok_or(said.clone())?)?)
}

/// Returns how many contents a bucket says that have expired.
fn expired_at(place: &Place, remote: &str) -> Outcome<u64> {
    let report = place.json(&["verify", "--at", remote, "--full", "--json"])?;
    assert_eq!(report["ok"], true, "{report}");
    let reasons = report["expired"].as_array().ok_or("a list")?;
    Ok(reasons
        .iter()
        .filter_map(|reason| reason["files"].as_u64())
        .sum())
}

#[test]
fn old_versions_in_a_bucket_expire_by_its_rules_and_come_back_with_a_push() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let ada = pushed(&gateway)?;
    let bob = clone(&gateway, "s3://film/x")?;
    let said = ada.ok(&["expire", "--at", "studio"])?;
    assert!(said.contains("main at studio has no keep rules"), "{said}");
    // Local rules are those of this repository, not of the bucket.
    ada.ok(&["keep", "set", "/renders/**", "none"])?;
    let said = ada.ok(&["expire", "--at", "studio"])?;
    assert!(said.contains("has no keep rules"), "{said}");
    ada.ok(&["keep", "remove", "/renders/**"])?;
    commit_rule(&ada, "studio", "last:2")?;

    let before = bytes_in(&gateway.path("film"))?;
    let said = ada.ok(&["expire", "--at", "studio", "--dry-run"])?;
    assert!(
        said.contains("10 versions of 1 file (1.4 MiB) would expire at studio"),
        "{said}"
    );
    assert!(said.contains("10 packs would be rewritten"), "{said}");
    let sum = summary(&ada, &["expire", "--at", "studio", "--dry-run", "--json"])?;
    let foretold = sum["freed_bytes"].as_u64().ok_or("a number")?;
    assert_eq!(bytes_in(&gateway.path("film"))?, before);
    let said = ada.ok(&["expire", "--at", "studio"])?;
    assert!(
        said.contains("10 versions of 1 file (1.4 MiB) expired at studio\nfreed 1."),
        "{said}"
    );
    let freed = before - bytes_in(&gateway.path("film"))?;
    assert!(freed > 9 * LEN as u64, "{freed}");
    assert!(
        freed.abs_diff(foretold) < freed / 20,
        "{freed}, not {foretold}"
    );
    assert_eq!(expired_at(&ada, "studio")?, 10);
    let said = ada.ok(&["op", "log", "--at", "studio", "-n", "1"])?;
    assert!(said.contains("dmv expire --at studio"), "{said}");
    let said = ada.ok(&["expire", "--at", "studio"])?;
    assert!(said.contains("nothing to expire"), "{said}");
    let sum = summary(&ada, &["expire", "--at", "studio", "--json"])?;
    assert_eq!(sum["packs_rewritten"], 0, "{sum}");
    let newest = ada.records(&["op", "log", "--at", "studio", "--json"])?;
    let id = newest[0]["id"].as_str().ok_or("an id")?;
    let said = ada.fails(5, &["undo", "--at", "studio", id])?;
    assert!(said.contains("does not come back by undo"), "{said}");

    // A new clone is sound, and says what is absent and why.
    let new = clone(&gateway, "s3://film/x")?;
    let report = new.json(&["verify", "--full", "--json"])?;
    assert_eq!(report["ok"], true, "{report}");
    let listed = new.ok(&["ls", "-l", "@~5:renders"])?;
    assert!(listed.contains("by keep=last:2 (/renders/**)"), "{listed}");

    // Who has it pushes an old commit again.
    bob.ok(&["branch", "kept", "@~3"])?;
    bob.ok(&["push", "origin", "kept"])?;
    assert_eq!(expired_at(&ada, "studio")?, 9);
    let again = clone(&gateway, "s3://film/x")?;
    again.ok(&["checkout", "kept"])?;
    assert_eq!(
        fs::read(again.work().join("renders/a.exr"))?,
        render(VERSIONS - 4)
    );
    // Who lacks it cannot make an old commit a branch there.
    new.ok(&["branch", "old", "@~6"])?;
    new.fails(6, &["push", "origin", "old"])?;
    assert_eq!(expired_at(&ada, "studio")?, 9);
    Ok(())
}

#[test]
fn the_last_copy_in_a_bucket_expires_only_if_that_is_said() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let ada = pushed(&gateway)?;
    commit_rule(&ada, "studio", "last:4")?;
    let mut eve = Place::new()?;
    eve.env.push(("AWS_ACCESS_KEY_ID", KEY.into()));
    eve.env.push(("AWS_SECRET_ACCESS_KEY", SECRET.into()));
    let endpoint = ["--endpoint", &gateway.endpoint];
    eve.ok(&[&["clone", "--meta-only", "s3://film/x", "."][..], &endpoint].concat())?;
    let said = eve.fails(5, &["expire", "--at", "origin"])?;
    assert!(
        said.contains("the last copy of 'renders/a.exr'; this repository does not have it"),
        "{said}"
    );
    assert!(
        said.contains("dmv expire --at origin --last-copy"),
        "{said}"
    );
    assert_eq!(expired_at(&ada, "studio")?, 0);
    // Another remote keeps a copy.
    let nas = ada.work().to_string_lossy().into_owned();
    eve.ok(&["remote", "add", "nas", &nas])?;
    let done = eve.records(&["expire", "--at", "origin", "--max-free", "300kB", "--json"])?;
    assert_eq!(done[0]["versions"], 2, "{done:?}");
    eve.ok(&["remote", "remove", "nas"])?;
    eve.ok(&["expire", "--at", "origin", "--last-copy"])?;
    assert_eq!(expired_at(&ada, "studio")?, 8);
    Ok(())
}
