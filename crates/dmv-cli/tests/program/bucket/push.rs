//! Pushes to a real object store.

use super::gateway::{Gateway, Logged};
use super::{KEY, SECRET, place};
use crate::place::{Outcome, Place};
use dmv_core::repo::HalfClone;
use dmv_core::subset::Subset;
use serde_json::Value;
use std::fs;
use std::time::{Duration, SystemTime};

/// The keys of the tests, for a place that is there already.
fn with_keys(mut place: Place) -> Place {
    place.env.push(("AWS_ACCESS_KEY_ID", KEY.into()));
    place.env.push(("AWS_SECRET_ACCESS_KEY", SECRET.into()));
    place
}

fn ten_files(place: &Place, what: &str) -> Outcome {
    for n in 0..10 {
        place.write(format!("d{}/f{n}", n % 3), format!("{what} {n}"))?;
    }
    Ok(())
}

fn counted(done: &Value) -> Logged {
    let class = |class: &str| done["requests"][class].as_u64().unwrap_or(99);
    Logged {
        get: class("get"),
        put: class("put"),
        list: class("list"),
        delete: class("delete"),
    }
}

#[test]
fn a_commit_of_ten_small_files_takes_four_requests() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let place = place()?;
    gateway.add(&place, "studio", "s3://film/x")?;
    ten_files(&place, "first")?;
    place.commit("first")?;
    let before = gateway.logged()?;
    let done = place.json(&["push", "studio", "--json"])?;
    // The root and the claims are not there, nor any folder, the first root, the pack, and the root.
    let logged = gateway.logged()?.since(&before);
    assert_eq!((logged.get, logged.put, logged.list), (2, 3, 1));
    assert_eq!(counted(&done), logged);
    assert_eq!(done["refs"][0]["name"], "main");
    assert_eq!(done["refs"][0]["refused"], Value::Null);
    assert!(done["objects_sent"].as_u64() > Some(10), "{done}");
    assert_eq!(gateway.files("film")?, 2);
    ten_files(&place, "second")?;
    place.commit("second")?;
    let before = gateway.logged()?;
    let done = place.json(&["push", "studio", "--json"])?;
    // The root and the claims at the same time, the pack, and the root.
    let logged = gateway.logged()?.since(&before);
    assert_eq!((logged.get, logged.put, logged.list), (2, 2, 0));
    assert_eq!(counted(&done), logged);
    let said = place.ok(&["push", "studio"])?;
    assert!(said.contains("already up to date with studio"), "{said}");
    let said = place.ok(&["push", "studio", "main", "-v"])?;
    assert!(said.contains("1 request, "), "{said}");
    place.ok(&["branch", "side"])?;
    let said = place.ok(&["push", "studio", "side"])?;
    assert!(said.contains("side  new on the remote"), "{said}");
    assert!(
        said.contains("3 requests, ") && said.contains("about $0."),
        "{said}"
    );
    assert_eq!(gateway.files("film")?, 3, "no pack for a known commit");
    Ok(())
}

/// The number of all requests.
fn requests(done: &Value) -> u64 {
    let logged = counted(done);
    logged.get + logged.put + logged.list + logged.delete
}

#[test]
fn who_makes_a_repository_in_a_bucket_tests_the_store_fully() -> Outcome {
    // A push to an address.
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let mut ada = place()?;
    let endpoint = gateway.endpoint.clone();
    ada.env.push(("AWS_ENDPOINT_URL", endpoint.into()));
    ada.write("f", "one")?;
    ada.commit("one")?;
    let push = ["push", "s3://film/y", "--json"];
    let foretold = ada.json(&[&push[..], &["--dry-run"]].concat())?;
    assert!(requests(&foretold) >= 343, "{foretold}");
    let done = ada.json(&push)?;
    assert!((200..=350).contains(&requests(&done)), "{done}");
    ada.write("f", "two")?;
    ada.commit("two")?;
    assert_eq!(requests(&ada.json(&push)?), 4);

    // A bare clone to an empty prefix makes the repository there.
    let place = place()?;
    ten_files(&place, "first")?;
    place.commit("first")?;
    place.ok(&["tag", "v1"])?;
    let endpoint = gateway.endpoint.clone();
    let args = [
        "clone",
        "--bare",
        ".",
        "s3://film/copy",
        "--endpoint",
        &endpoint,
    ];
    let foreseen = place.json(&[&args[..], &["--dry-run", "--json"]].concat())?;
    assert_eq!(foreseen["dry_run"], true, "{foreseen}");
    let made = place.json(&[&args[..], &["--json"]].concat())?;
    assert_eq!(
        (&made["created"], &made["remote"]),
        (&true.into(), &"origin".into())
    );
    // The endpoint is noted beside the address.
    ten_files(&place, "second")?;
    place.commit("second")?;
    place.fails(5, &args)?;
    place.ok(&["push"])?;
    place.ok(&["verify", "--at", "origin"])?;
    let made = place.json(&["push", "--create", "--json"])?;
    assert_eq!(made["created"], false);
    Ok(())
}

#[test]
fn a_half_made_clone_is_continued_with_its_endpoint() -> Outcome {
    let endpoint = "http://127.0.0.1:7070";
    let half = HalfClone {
        source: "s3://film/x".to_owned(),
        branch: None,
        bare: false,
        metadata_only: false,
        depth: None,
        since: None,
        subset: Subset::everything(),
    };
    let place = place()?;
    half.begin(&place.work().join(".dmv"))?;
    let config = format!(
        "[remote.origin]\nurl = \"s3://film/x\"\nendpoint = \"{endpoint}\"\npath-style = true\n"
    );
    fs::write(place.work().join(".dmv/config.toml"), config)?;
    let said = place.fails(5, &["fetch"])?;
    let options = format!(" --endpoint {endpoint} --path-style");
    assert!(said.contains("hint: dmv clone s3://film/x "), "{said}");
    assert!(said.contains(&options), "{said}");
    // Cut off before it had made a repository.
    let early = Place::new()?;
    half.begin(&early.work().join(".dmv"))?;
    let said = early.fails(10, &["status"])?;
    assert!(said.contains("hint: dmv clone s3://film/x "), "{said}");
    Ok(())
}

#[test]
fn a_dry_run_foretells_the_push_and_writes_nothing() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let place = place()?;
    gateway.add(&place, "studio", "s3://film/x")?;
    let number = |done: &Value, key: &str| done[key].as_u64().unwrap_or_default();
    // To an empty place, to one that has something, and more than one request takes.
    let large: Vec<u8> = (0..8_000_000_u32)
        .flat_map(|n| {
            n.wrapping_mul(0x9e37_79b9)
                .rotate_left(n % 32)
                .to_le_bytes()
        })
        .collect();
    for (what, large) in [("first", None), ("second", None), ("third", Some(&large))] {
        ten_files(&place, what)?;
        if let Some(large) = large {
            place.write("large", large)?;
        }
        place.commit(what)?;
        let files = gateway.files("film")?;
        let before = gateway.logged()?;
        let foretold = place.json(&["push", "studio", "--dry-run", "--json"])?;
        let logged = gateway.logged()?.since(&before);
        assert_eq!((logged.get, logged.put, logged.delete), (2, 0, 0));
        assert_eq!(gateway.files("film")?, files);
        assert_eq!(foretold["refs"][0]["name"], "main");
        let done = place.json(&["push", "studio", "--json"])?;
        assert_eq!(number(&foretold, "objects"), number(&done, "objects_sent"));
        assert_eq!(counted(&foretold), counted(&done), "{foretold} {done}");
        let (bytes, sent) = (number(&foretold, "bytes"), number(&done, "bytes_sent"));
        assert!(bytes.abs_diff(sent) < 4096 + sent / 50, "{bytes} of {sent}");
        let dollars = |of: &Value| of["cost_usd"].as_f64().unwrap_or_default();
        assert!(dollars(&foretold) > 0.0);
    }
    let said = place.ok(&["push", "studio", "--dry-run"])?;
    assert!(said.contains("already up to date with studio"), "{said}");
    ten_files(&place, "fourth")?;
    place.commit("fourth")?;
    let said = place.ok(&["push", "studio", "--dry-run"])?;
    assert!(
        said.contains("nothing was sent: a push would send about ")
            && said.contains("it would take about 4 requests, "),
        "{said}"
    );
    // What a push refuses, its dry run refuses.
    let other = self::place()?;
    gateway.add(&other, "studio", "s3://film/x")?;
    other.write("file", "other")?;
    other.commit("other")?;
    let said = other.fails(5, &["push", "studio", "--dry-run"])?;
    assert!(
        said.contains("has commits that yours does not have"),
        "{said}"
    );
    Ok(())
}

#[test]
fn refs_move_by_the_rules_of_other_remotes() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let (ada, bob) = (place()?, place()?);
    for (place, what) in [(&ada, "ada"), (&bob, "bob")] {
        gateway.add(place, "studio", "s3://film/x")?;
        place.write("file", what)?;
        place.commit(what)?;
    }
    ada.ok(&["push", "studio"])?;
    let said = bob.fails(5, &["push", "studio"])?;
    assert!(
        said.contains("has commits that yours does not have"),
        "{said}"
    );
    bob.ok(&["branch", "bob"])?;
    bob.ok(&["tag", "v1"])?;
    bob.ok(&["push", "studio", "bob", "v1"])?;
    ada.ok(&["tag", "v1"])?;
    bob.fails(5, &["push", "studio", "--delete", "main"])?;
    bob.ok(&["push", "studio", "--force"])?;
    bob.ok(&["push", "studio", "--delete", "bob"])?;
    let said = bob.fails(20, &["push", "studio", "--delete", "bob"])?;
    assert!(said.contains("no branch or tag 'bob'"), "{said}");
    bob.write("file", "bob again")?;
    bob.commit("again")?;
    bob.ok(&["tag", "-d", "v1"])?;
    bob.ok(&["tag", "v1"])?;
    bob.fails(5, &["push", "studio", "v1"])?;
    // The bucket was somebody's who pushed by force: her next push is refused.
    ada.write("file", "ada again")?;
    ada.commit("again")?;
    ada.fails(5, &["push", "studio"])?;
    Ok(())
}

#[test]
fn a_partial_repository_pushes_only_what_it_has() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let whole = place()?;
    ten_files(&whole, "first")?;
    whole.commit("first")?;
    let partial = Place::new()?;
    let source = whole.work();
    let target = partial.work();
    let mut command = whole.command(&["clone"]);
    command.arg(source).arg(target).args(["--subset", "d1"]);
    let done = command.output()?;
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let partial = with_keys(partial);
    gateway.add(&partial, "studio", "s3://film/x")?;
    let said = partial.fails(6, &["--offline", "push", "studio", "main"])?;
    assert!(
        said.contains("is absent") && said.contains("hint: "),
        "{said}"
    );
    // Once the bucket has the rest, the new part is enough.
    gateway.add(&whole, "studio", "s3://film/x")?;
    whole.ok(&["push", "studio"])?;
    partial.write("d1/f1", "changed")?;
    partial.commit("changed")?;
    partial.ok(&["push", "studio", "main"])?;
    // Elsewhere, the rest is fetched from a remote that has it, and then pushed.
    gateway.add(&partial, "other", "s3://film/other")?;
    partial.ok(&["push", "other", "main"])?;
    let copy = clone(&gateway, "s3://film/other")?;
    assert!(copy.work().join("d2/f2").exists());
    copy.ok(&["verify", "--full"])?;
    Ok(())
}

#[test]
fn what_a_store_refuses_in_a_push_is_said() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let mut place = place()?;
    gateway.add(&place, "studio", "s3://film/x")?;
    place.write("file", "content")?;
    place.commit("first")?;
    place.ok(&["push", "studio"])?;
    place.write("file", "more")?;
    place.commit("second")?;
    // Somebody has taken the root away.
    let root = gateway.path("film").join("x/root");
    let away = gateway.path("film").join("away");
    fs::rename(&root, &away)?;
    let said = place.fails(7, &["push", "studio"])?;
    assert!(said.contains("the file 'root' is gone"), "{said}");
    fs::rename(&away, &root)?;
    // Somebody has damaged it. The store says that it is as before, so no copy may be left here.
    fs::remove_dir_all(place.work().join(".dmv/buckets"))?;
    let good = fs::read(&root)?;
    for (at, exit, what) in [
        (20, 7, "the file 'root' is damaged"),
        (8, 14, "newer version of dmv"),
    ] {
        let mut bad = good.clone();
        bad[at] ^= 7;
        fs::write(&root, &bad)?;
        let said = place.fails(exit, &["push", "studio"])?;
        assert!(said.contains(what), "{said}");
    }
    place
        .env
        .retain(|(name, _)| *name != "AWS_SECRET_ACCESS_KEY");
    place.env.push(("AWS_SECRET_ACCESS_KEY", "wrong".into()));
    place.fails(12, &["push", "studio"])?;
    Ok(())
}

#[test]
fn the_log_at_a_bucket_says_who_did_what_and_undo_takes_it_back() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let ada = place()?;
    gateway.add(&ada, "studio", "s3://film/x")?;
    let said = ada.fails(10, &["op", "log", "--at", "studio"])?;
    assert!(said.contains("no repository in the bucket"), "{said}");
    ada.write("file", "first")?;
    let first = ada.commit("first")?;
    ada.ok(&["push", "studio"])?;
    let bob = clone(&gateway, "s3://film/x")?;
    bob.write("file", "of bob")?;
    bob.commit("of bob")?;
    bob.ok(&["push"])?;
    let before = gateway.logged()?;
    let said = ada.ok(&["op", "log", "--at", "studio"])?;
    let logged = gateway.logged()?.since(&before);
    assert_eq!((logged.get, logged.put, logged.list), (1, 0, 0));
    let lines: Vec<&str> = said.lines().collect();
    assert!(
        lines[0].ends_with("dmv push") && lines[2].ends_with("dmv push studio"),
        "{said}"
    );
    assert!(
        lines[1].contains("main  ") && lines[1].contains(" -> "),
        "{said}"
    );
    assert!(lines[3].contains("main  new, at "), "{said}");
    let one = ada.ok(&["op", "log", "--at", "studio", "-n", "1"])?;
    assert!(one.lines().count() == 2 && said.starts_with(&one), "{one}");
    // Ada takes Bob's push back; her own branch stays.
    let before = gateway.logged()?;
    let done = ada.json(&["undo", "--at", "studio", "--json"])?;
    let logged = gateway.logged()?.since(&before);
    assert_eq!(
        (logged.get, logged.put, logged.list, logged.delete),
        (1, 1, 0, 0)
    );
    assert_eq!(done["command"], "dmv push");
    assert_eq!(done["refs"][0]["to"].as_str(), Some(&first[..]));
    let records = ada.records(&["op", "log", "--at", "studio", "--json"])?;
    let undone: Vec<_> = records.iter().map(|r| r["undone"].as_bool()).collect();
    assert_eq!(undone, [Some(false), Some(true), Some(false)]);
    assert!(
        records[0]["command"]
            .as_str()
            .is_some_and(|c| c.contains("undo --at studio"))
    );
    let eve = clone(&gateway, "s3://film/x")?;
    assert_eq!(fs::read(eve.work().join("file"))?, b"first");
    // Bob takes the undo back. Nothing of his push had gone.
    let said = bob.ok(&["redo", "--at", "origin"])?;
    assert!(
        said.contains("redone at origin") && said.contains("to reverse it: dmv undo --at origin"),
        "{said}"
    );
    eve.ok(&["pull"])?;
    assert_eq!(fs::read(eve.work().join("file"))?, b"of bob");
    eve.fails(20, &["redo", "--at", "origin"])?;
    // What has changed since is named.
    let oldest = records[2]["id"].as_str().ok_or("an id")?;
    let said = ada.fails(5, &["undo", "--at", "studio", oldest])?;
    assert!(
        said.contains("main has changed since (operation "),
        "{said}"
    );
    assert!(said.contains("hint: dmv undo --at studio "), "{said}");
    ada.fails(20, &["undo", "--at", "studio", "0123456789ab"])?;
    ada.ok(&["undo", "--at", "studio"])?;
    ada.ok(&["undo", "--at", "studio"])?;
    let said = ada.fails(20, &["undo", "--at", "studio"])?;
    assert!(said.contains("there is nothing to undo"), "{said}");
    let other = Place::with_repository()?;
    let path = other.work().to_string_lossy().into_owned();
    ada.ok(&["remote", "add", "disk", &path])?;
    let said = ada.fails(20, &["undo", "--at", "disk"])?;
    assert!(
        said.contains("it is not a bucket: run dmv undo there"),
        "{said}"
    );
    Ok(())
}

#[test]
fn gc_at_a_bucket_frees_what_no_root_names() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let place = place()?;
    gateway.add(&place, "studio", "s3://film/x")?;
    place.write("file", "content")?;
    place.commit("first")?;
    place.ok(&["push", "studio"])?;
    let none = place.ok(&["gc", "--at", "studio", "--grace", "0"])?;
    assert!(none.contains("nothing to free at studio"), "{none}");
    let folder = fs::read_dir(gateway.path("film").join("x"))?
        .filter_map(Result::ok)
        .find(|entry| entry.path().is_dir())
        .ok_or("no folder")?;
    let stray = folder.path().join("09".repeat(16));
    fs::write(&stray, "left by a push")?;
    place.ok(&["gc", "--at", "studio"])?;
    assert!(stray.exists(), "it is young");
    let long_ago = SystemTime::now() - Duration::from_secs(30 * 24 * 3600);
    fs::File::options()
        .write(true)
        .open(&stray)?
        .set_modified(long_ago)?;
    let args = ["gc", "--at", "studio", "--json"];
    let foretold = place.json(&[&args[..], &["--dry-run"]].concat())?;
    assert_eq!(foretold["files_removed"], 1);
    assert!(stray.exists());
    let before = gateway.logged()?;
    let done = place.json(&args)?;
    assert_eq!(done["files_removed"], 1);
    assert_eq!(done["finished"], Value::Bool(true));
    assert_eq!(counted(&done), gateway.logged()?.since(&before));
    assert!(!stray.exists());
    place.write("file", "more")?;
    place.commit("second")?;
    place.ok(&["push", "studio"])?;
    let other = self::place()?;
    gateway.add(&other, "studio", "s3://film/x")?;
    let said = other.fails(6, &["gc", "--at", "studio"])?;
    assert!(said.contains("dmv fetch studio"), "{said}");
    let done = place.json(&[
        "gc",
        "--at",
        "studio",
        "--forget",
        "0",
        "--dry-run",
        "--json",
    ])?;
    assert_eq!(done["finished"], Value::Bool(true));
    let done = place.run(&["gc", "--at", "studio", "--forget", "0"])?;
    let said = String::from_utf8(done.stderr)?;
    assert!(said.contains("newest 256 operations stay"), "{said}");
    Ok(())
}

#[test]
fn several_devices_fetch_first_test_the_store_once_and_name_what_comes_back() -> Outcome {
    // Gc and repack fetch first what somebody has pushed.
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let ada = place()?;
    gateway.add(&ada, "studio", "s3://film/x")?;
    ada.write("file", "content")?;
    ada.commit("first")?;
    ada.ok(&["push", "studio"])?;
    let bob = with_keys(Place::new()?);
    bob.ok(&["clone", "s3://film/x", ".", "--endpoint", &gateway.endpoint])?;
    for command in ["gc", "repack"] {
        bob.write("file", command)?;
        bob.commit(command)?;
        bob.ok(&["push"])?;
        let done = ada.run(&[command, "--at", "studio"])?;
        let said = String::from_utf8(done.stderr)?;
        assert_eq!(done.status.code(), Some(0), "{said}");
        assert!(said.contains("from studio first"), "{said}");
    }
    ada.ok(&["pull", "studio"])?;

    // A device that cloned tests the store briefly and once.
    ada.write("f", "one")?;
    ada.commit("one")?;
    ada.ok(&["push", "studio"])?;
    for command in ["push", "sync"] {
        let bob = with_keys(Place::new()?);
        bob.ok(&["clone", "s3://film/x", ".", "--endpoint", &gateway.endpoint])?;
        let idle = bob.json(&["push", "--json"])?;
        assert_eq!(requests(&idle), 1, "nothing to push, nothing to test");
        bob.write("f", command)?;
        bob.commit(command)?;
        let foretold = bob.json(&["push", "--dry-run", "--json"])?;
        assert_eq!(requests(&foretold), 4 + 5, "{foretold}");
        let done = bob.run(&[command, "origin", "--json"])?;
        let said = String::from_utf8(done.stderr)?;
        let told = "tested the store before the first change from here: 5 requests";
        assert!(said.contains(told), "{said}");
        let done: Value = serde_json::from_slice(&done.stdout)?;
        assert!((9..11).contains(&requests(&done)), "{done}");
        bob.write("f", "again")?;
        bob.commit("again")?;
        let done = bob.json(&["push", "--json"])?;
        assert_eq!(requests(&done), 4, "the verdict is kept");
        ada.ok(&["pull", "studio"])?;
    }

    // What comes back at a bucket is named.
    for text in ["one", "two"] {
        ada.write("file", text)?;
        ada.commit(text)?;
        ada.ok(&["push", "studio"])?;
    }
    ada.ok(&["undo", "--at", "studio"])?;
    ada.ok(&["fetch", "studio"])?;
    let said = ada.fails(5, &["pull", "studio"])?;
    assert!(
        said.contains("studio/main went back to an earlier commit"),
        "{said}"
    );
    let said = ada.ok(&["redo", "--at", "studio"])?;
    assert!(said.contains("redone at studio: dmv push studio"), "{said}");
    ada.ok(&["push", "studio", "main"])?;
    ada.ok(&["branch", "side"])?;
    ada.ok(&["push", "studio", "side"])?;
    let said = ada.ok(&["push", "studio", "--delete", "side"])?;
    assert!(
        said.contains("(to restore it, dmv undo --at studio)"),
        "{said}"
    );
    // A refused branch was not pushed.
    let bob = with_keys(Place::new()?);
    bob.ok(&["clone", "s3://film/x", ".", "--endpoint", &gateway.endpoint])?;
    for (place, remote) in [(&bob, "origin"), (&ada, "studio")] {
        place.write("file", remote)?;
        place.commit(remote)?;
        let done = place.run(&["push", remote, "--json"])?;
        let done: Value = serde_json::from_slice(&done.stdout)?;
        assert_eq!(done["refs"][0]["pushed"], remote == "origin", "{done}");
    }
    Ok(())
}

#[test]
fn small_packs_of_a_bucket_are_joined() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let ada = place()?;
    gateway.add(&ada, "studio", "s3://film/x")?;
    ten_files(&ada, "first")?;
    for n in 0..9 {
        ada.write("d1/more", format!("version {n}"))?;
        ada.commit(&format!("commit {n}"))?;
        ada.ok(&["push", "studio"])?;
        if n == 7 {
            let bob = clone(&gateway, "s3://film/x")?;
            bob.ok(&["verify", "--full"])?;
        }
    }
    let bob = clone(&gateway, "s3://film/x")?;
    let said = ada.ok(&["repack", "--at", "studio", "--dry-run"])?;
    assert!(
        said.contains("9 packs of studio (") && said.contains("would become about 1 pack"),
        "{said}"
    );
    assert_eq!(gateway.files("film")?, 10);
    let before = gateway.logged()?;
    let done = ada.json(&["repack", "--at", "studio", "--json"])?;
    assert_eq!(counted(&done), gateway.logged()?.since(&before));
    assert_eq!(done["packs_before"], 9);
    assert_eq!(done["packs_after"], 1);
    assert!(
        done["after_bytes"].as_u64() < done["before_bytes"].as_u64(),
        "{done}"
    );
    assert_eq!(gateway.files("film")?, 2);
    ada.ok(&["verify", "--at", "studio", "--full"])?;
    // Who has everything fetches nothing of it again.
    let before = gateway.logged()?;
    bob.ok(&["fetch"])?;
    assert_eq!(gateway.logged()?.since(&before).get, 1);
    bob.write("d1/more", "of bob")?;
    bob.commit("of bob")?;
    bob.ok(&["push"])?;
    ada.ok(&["pull", "studio"])?;
    let eve = clone(&gateway, "s3://film/x")?;
    assert_eq!(fs::read(eve.work().join("d1/more"))?, b"of bob");
    assert_eq!(fs::read(eve.work().join("d1/f1"))?, b"first 1");
    eve.ok(&["verify", "--full"])?;
    // Nothing that undo needs is lost.
    ada.ok(&["undo", "--at", "studio"])?;
    let said = ada.ok(&["repack", "--at", "studio"])?;
    assert!(
        said.contains("no packs of studio are worth joining"),
        "{said}"
    );
    Ok(())
}

/// Clones a bucket into a place of its own.
pub fn clone(gateway: &Gateway, bucket: &str) -> Outcome<Place> {
    let place = with_keys(Place::new()?);
    place.ok(&["clone", bucket, ".", "--endpoint", &gateway.endpoint])?;
    Ok(place)
}

#[test]
fn several_people_work_at_one_bucket() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let ada = place()?;
    gateway.add(&ada, "studio", "s3://film/x")?;
    ten_files(&ada, "first")?;
    // More than one chunk, and a directory of its own.
    let large: Vec<u8> = (0..600_000_u32).flat_map(u32::to_le_bytes).collect();
    ada.write("large/file", &large)?;
    ada.commit("first")?;
    ada.ok(&["push", "studio"])?;
    let bob = clone(&gateway, "s3://film/x")?;
    assert_eq!(fs::read(bob.work().join("large/file"))?, large);
    assert_eq!(fs::read(bob.work().join("d1/f1"))?, b"first 1");
    bob.ok(&["verify", "--full"])?;
    // Bob changes one file. His push knows where the others lie, or its readers look for them.
    bob.write("d1/f1", "of bob")?;
    bob.commit("of bob")?;
    bob.ok(&["push"])?;
    ada.write("d2/f2", "of ada")?;
    ada.commit("of ada")?;
    ada.fails(5, &["push", "studio"])?;
    ada.ok(&["pull", "studio"])?;
    ada.ok(&["push", "studio"])?;
    bob.ok(&["branch", "side"])?;
    let synced = bob.json(&["sync", "--json"])?;
    assert!(synced["bytes_sent"].as_u64() > Some(0), "{synced}");
    bob.ok(&["pull"])?;
    assert_eq!(fs::read(bob.work().join("d2/f2"))?, b"of ada");
    let eve = clone(&gateway, "s3://film/x")?;
    assert_eq!(fs::read(eve.work().join("d1/f1"))?, b"of bob");
    assert_eq!(fs::read(eve.work().join("d2/f2"))?, b"of ada");
    assert_eq!(fs::read(eve.work().join("large/file"))?, large);
    eve.ok(&["verify", "--full"])?;
    eve.ok(&["show", "origin/side"])?;
    let freed = eve.ok(&["gc", "--at", "origin", "--grace", "0"])?;
    assert!(freed.contains("nothing to free at origin"), "{freed}");
    Ok(())
}
