//! `log --at`: the history of a bucket, without fetching it.

use super::gateway::Gateway;
use super::{KEY, SECRET, place};
use crate::place::{Outcome, Place};
use std::fs;

const BUCKET: &str = "s3://film/x";

/// A place without a repository, for which an environment says where the store is.
fn outside(gateway: &Gateway) -> Outcome<Place> {
    let mut place = Place::new()?;
    place.env.push(("AWS_ACCESS_KEY_ID", KEY.into()));
    place.env.push(("AWS_SECRET_ACCESS_KEY", SECRET.into()));
    let endpoint = gateway.endpoint.clone();
    place.env.push(("AWS_ENDPOINT_URL", endpoint.into()));
    Ok(place)
}

/// A repository with a merge, of which each commit was pushed.
fn pushed(gateway: &Gateway) -> Outcome<Place> {
    let ada = place()?;
    gateway.add(&ada, "studio", BUCKET)?;
    for n in 0..3 {
        ada.write("d/file", format!("version {n}"))?;
        ada.commit(&format!("cut {n}"))?;
        ada.ok(&["push", "studio"])?;
    }
    ada.ok(&["branch", "grade", "@~"])?;
    ada.ok(&["checkout", "grade"])?;
    ada.write("d/colour", "warm")?;
    ada.commit("warmer")?;
    ada.ok(&["tag", "warm"])?;
    ada.ok(&["checkout", "main"])?;
    ada.ok(&["merge", "grade", "-m", "graded"])?;
    ada.ok(&["sync", "studio"])?;
    Ok(ada)
}

#[test]
fn a_log_from_afar_is_that_of_a_clone() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let ada = pushed(&gateway)?;
    let anybody = outside(&gateway)?;
    let full = ada.ok(&["log", "--json"])?;
    assert_eq!(full.lines().count(), 5, "{full}");
    let id = |n: usize| -> Outcome<String> {
        let line: serde_json::Value = serde_json::from_str(full.lines().nth(n).ok_or("short")?)?;
        Ok(line["id"].as_str().ok_or("no id")?.to_owned())
    };
    let prefix = id(2)?[..12].to_owned();
    for options in [
        &["--json"][..],
        &["--json", "main"],
        &["--json", "-n", "2"],
        &["--json", "-2", "grade"],
        &["--json", "main~2"],
        &["--json", "@^2"],
        &["--json", "grade..main"],
        &["--json", "main..grade"],
        &["--json", &prefix],
        &["--json", &id(1)?],
        &["--json", "--no-merges", "--grep", "cut"],
        &["--json", "--since", "yesterday", "--author", "nobody"],
    ] {
        let here = ada.ok(&[&["log"], options].concat())?;
        // Here, what is stored is not read there; elsewhere, everything is.
        let there = ada.ok(&[&["log", "--at", "studio"], options].concat())?;
        assert_eq!(there, here, "{options:?}");
        let afar = anybody.ok(&[&["log", "--at", BUCKET], options].concat())?;
        assert_eq!(afar, here, "{options:?}");
    }
    // The names are those of the bucket.
    let text = anybody.ok(&["log", "--at", BUCKET, "--oneline", "--graph"])?;
    let first = text.lines().next().unwrap_or_default();
    assert!(first.ends_with("(main) graded"), "{text}");
    assert_eq!(text.matches("○").count(), 5, "{text}");
    assert!(text.contains("(grade, tag warm) warmer"), "{text}");
    assert!(!anybody.work().join(".dmv").exists(), "nothing is kept");
    Ok(())
}

#[test]
fn a_log_from_afar_reads_commits_and_keeps_none() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let ada = pushed(&gateway)?;
    let bob = place()?;
    gateway.add(&bob, "studio", BUCKET)?;
    let before = gateway.logged()?;
    let told = bob.run(&["log", "--at", "studio", "--oneline"])?;
    assert_eq!(String::from_utf8(told.stdout)?.lines().count(), 5);
    let logged = gateway.logged()?.since(&before);
    assert_eq!((logged.list, logged.put, logged.delete), (0, 0, 0));
    // The root, and one pack for each push.
    assert_eq!(logged.get, 5);
    let said = String::from_utf8(told.stderr)?;
    assert!(said.contains("5 requests, "), "{said}");
    assert_eq!(bob.ok(&["log"])?, "");
    let packs = fs::read_dir(bob.work().join(".dmv/packs"))?.count();
    assert_eq!(
        packs,
        fs::read_dir(place()?.work().join(".dmv/packs"))?.count()
    );

    // Whoever has the commits reads the root.
    let before = gateway.logged()?;
    ada.ok(&["log", "--at", "studio"])?;
    assert_eq!(gateway.logged()?.since(&before).get, 1);
    Ok(())
}

#[test]
fn a_log_from_afar_says_what_it_cannot_show() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let ada = place()?;
    gateway.add(&ada, "studio", BUCKET)?;
    ada.fails(10, &["log", "--at", "studio"])?;
    ada.write("d/file", "text")?;
    ada.commit("first")?;
    ada.ok(&["branch", "take-1"])?;
    ada.ok(&["branch", "take-2"])?;
    ada.ok(&["push", "studio", "take-1", "take-2"])?;
    for (options, hint) in [
        (&["--stat"][..], "log studio/BRANCH --stat"),
        (&["--patch"], "log studio/BRANCH --patch"),
        (&["--", "d/file"], "log studio/BRANCH -- PATH"),
        (&["--follow", "--", "d/file"], "--follow -- PATH"),
    ] {
        let said = ada.fails(2, &[&["log", "--at", "studio"], options].concat())?;
        assert!(said.contains("reads only the commits"), "{said}");
        assert!(said.contains("hint: dmv fetch studio; "), "{said}");
        assert!(said.contains(hint), "{said}");
    }
    // The branch here is main.
    let said = ada.fails(2, &["log", "--at", "studio"])?;
    assert!(said.contains("has no main branch"), "{said}");
    assert!(said.contains("dmv log --at studio take-1"), "{said}");
    let said = ada.fails(20, &["log", "--at", "studio", "nothing"])?;
    assert!(said.contains("no branch, tag or commit nothing"), "{said}");
    let said = ada.fails(20, &["log", "--at", "studio", "take-1~9"])?;
    assert!(said.contains("take-1~9"), "{said}");
    ada.ok(&["checkout", "take-2"])?;
    ada.ok(&["log", "--at", "studio"])?;

    let bob = Place::with_repository()?;
    let other = bob.work().display().to_string();
    ada.ok(&["remote", "add", "disk", &other])?;
    let said = ada.fails(2, &["log", "--at", "disk"])?;
    assert!(
        said.contains("disk is none\nhint: dmv fetch disk; "),
        "{said}"
    );
    let said = ada.fails(20, &["log", "--at", "nobody"])?;
    assert!(said.contains("there is no remote 'nobody'"), "{said}");
    // Outside of a repository, a name is no remote.
    let anybody = outside(&gateway)?;
    anybody.fails(10, &["log", "--at", "studio"])?;
    anybody.fails(10, &["log", "--at", "s3://film/other"])?;
    Ok(())
}

#[test]
fn a_log_from_afar_of_a_damaged_bucket_shows_what_it_can() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let ada = place()?;
    gateway.add(&ada, "studio", BUCKET)?;
    let mut packs: Vec<std::path::PathBuf> = Vec::new();
    for n in 0..5 {
        ada.write("file", format!("version {n}"))?;
        ada.commit(&format!("cut {n}"))?;
        ada.ok(&["push", "studio"])?;
        let folders = fs::read_dir(gateway.path("film").join("x"))?.filter_map(Result::ok);
        let files = folders.filter_map(|folder| fs::read_dir(folder.path()).ok());
        let files = files.flatten().filter_map(Result::ok);
        let new: Vec<_> = files
            .map(|file| file.path())
            .filter(|path| !packs.contains(path))
            .collect();
        packs.extend(new);
    }
    assert_eq!(packs.len(), 5);
    let anybody = outside(&gateway)?;
    let good = fs::read(&packs[1])?;
    fs::write(&packs[1], vec![0; good.len()])?;
    let listed = anybody.run(&["log", "--at", BUCKET, "--oneline"])?;
    assert_eq!(listed.status.code(), Some(7));
    let text = String::from_utf8(listed.stdout)?;
    assert!(text.contains("cut 3") && !text.contains("cut 1"), "{text}");
    let said = String::from_utf8(listed.stderr)?;
    assert!(said.contains("damaged: "), "{said}");
    anybody.ok(&["log", "--at", BUCKET, "-n", "1"])?;
    fs::remove_file(&packs[1])?;
    let said = anybody.fails(7, &["log", "--at", BUCKET])?;
    assert!(said.contains("a file is lost"), "{said}");
    fs::write(&packs[1], good)?;
    assert_eq!(
        anybody
            .ok(&["log", "--at", BUCKET, "--oneline"])?
            .lines()
            .count(),
        5
    );
    Ok(())
}
