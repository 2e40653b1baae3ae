//! Buckets: with a real object store where one is installed, and with one that answers badly.

mod answers;
mod bad_stores;
#[cfg(feature = "quic")]
mod claim_story;
mod claims;
mod cut;
mod expire;
mod fetch;
pub mod gateway;
mod lost;
mod misbehaving;
mod moto;
mod proxy;
mod purge;
mod push;
mod refusals;

use crate::place::{Outcome, Place};
use gateway::Gateway;
use misbehaving::{Reply, Web};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// The keys of the tests.
const KEY: &str = "AKIATESTKEY";
const SECRET: &str = "a5ecretThatNobodyMayRead";

/// A repository, and the keys in its environment.
fn place() -> Outcome<Place> {
    let mut place = Place::with_repository()?;
    place.env.push(("AWS_ACCESS_KEY_ID", KEY.into()));
    place.env.push(("AWS_SECRET_ACCESS_KEY", SECRET.into()));
    Ok(place)
}

/// Writes into the settings of a repository what `dmv remote add` writes for a store that it finds good.
fn note_remote(place: &Place, name: &str, bucket: &str, endpoint: &str) -> Outcome {
    let file = place.work().join(".dmv/config.toml");
    let mut config = fs::read_to_string(&file).unwrap_or_default();
    config += &format!(
        "\n[remote.{name}]\nurl = \"{bucket}\"\nendpoint = \"{endpoint}\"\n\
         tested = \"{bucket} {endpoint} 2026-11-01\"\n"
    );
    Ok(fs::write(file, config)?)
}

/// Adds the bucket of a bad server, which has to fail; returns what is said.
fn add(place: &Place, web: &Web, exit: i32) -> Outcome<String> {
    let endpoint = web.endpoint();
    let args = ["remote", "add", "studio", "s3://film/x", "--endpoint"];
    place.fails(exit, &[&args[..], &[&endpoint]].concat())
}

#[test]
fn a_store_that_refuses_is_explained_and_no_remote_is_added() -> Outcome {
    let mut place = place()?;
    place.env.push(("DMV_NET_PATIENCE", "1".into()));
    // A store that refuses is explained.
    let error = |status: &'static str, code: &str| {
        let body = format!("<Error><Code>{code}</Code><Message>so it is</Message></Error>");
        Reply::new(status, &body)
    };
    let region = error("301 Moved", "PermanentRedirect").with("x-amz-bucket-region: eu-west-1");
    let clock =
        error("403 Forbidden", "RequestTimeTooSkewed").with("date: Mon, 23 Nov 2020 06:00:00 GMT");
    let page = Reply::new("200 OK", "<html>log in</html>").with("content-type: text/html");
    let none = Reply::new("404 Not Found", "<html>no</html>").with("content-type: text/html");
    let cases = [
        (error("404 Not Found", "NoSuchBucket"), 10, "no such bucket"),
        (
            error("404 Not Found", "XAdminUserNotFound"),
            12,
            "does not accept",
        ),
        (none, 13, "a web page came"),
        (
            error("403 Forbidden", "InvalidAccessKeyId"),
            12,
            "does not accept",
        ),
        (
            error("403 Forbidden", "SignatureDoesNotMatch"),
            12,
            "does not accept",
        ),
        (error("400 Bad Request", "ExpiredToken"), 12, "have expired"),
        (
            clock,
            12,
            "ahead of the store's\nhint: set this device's clock",
        ),
        (
            region,
            20,
            "in region eu-west-1\nhint: dmv config set remote.NAME.region eu-west-1",
        ),
        (page, 13, "a web page came"),
        (
            error("403 Forbidden", "QuotaExceeded"),
            20,
            "is full: so it is",
        ),
        (Reply::new("507 Insufficient Storage", ""), 20, "is full"),
        (
            error("501 Not Implemented", "NotImplemented"),
            5,
            "no conditional writes",
        ),
        (error("503 Slow Down", "SlowDown"), 11, "too many requests"),
        (
            error("500 Oops", "InternalError"),
            20,
            "so it is (InternalError)",
        ),
        (Reply::new("500 Oops", "no xml"), 20, "status 500"),
        (Reply::cut(), 13, "connection was lost"),
    ];
    // Some are asked again after a wait: all wait at the same time.
    std::thread::scope(|scope| {
        for (reply, exit, says) in cases {
            let place = &place;
            scope.spawn(move || {
                let web = Web::start(move |_| reply.clone()).expect("a port is free");
                let said = add(place, &web, exit).expect("the program runs");
                assert!(said.contains(says), "{says}: {said}");
                assert!(said.contains("s3://film/x"), "{said}");
            });
        }
    });
    assert_eq!(place.ok(&["remote"])?, "", "no remote was added");

    // A store that ignores conditions is refused.
    let web = Web::start(|_| Reply::new("200 OK", "").with("etag: \"1\""))?;
    let said = add(&place, &web, 5)?;
    assert!(said.contains("cannot write to this store safely"), "{said}");
    assert!(said.contains("create it only if there is none"), "{said}");
    assert!(said.contains("hint: "), "{said}");

    // A file in cold storage is named as such.
    let written = std::sync::atomic::AtomicBool::new(false);
    let web = Web::start(move |request| {
        let again = written.load(std::sync::atomic::Ordering::SeqCst);
        match request {
            request if request.starts_with("PUT") && again => {
                Reply::new("412 Precondition Failed", "")
            }
            request if request.starts_with("PUT") => {
                written.store(true, std::sync::atomic::Ordering::SeqCst);
                Reply::new("200 OK", "").with("etag: \"1\"")
            }
            _ => Reply::new(
                "403 Forbidden",
                "<Error><Code>InvalidObjectState</Code></Error>",
            ),
        }
    })?;
    let said = add(&place, &web, 6)?;
    assert!(said.contains("cold storage"), "{said}");

    // Nobody there is said at once.
    let web = Web::start(|_| Reply::cut())?;
    let endpoint = web.endpoint();
    drop(web);
    let start = std::time::Instant::now();
    let args = [
        "remote",
        "add",
        "studio",
        "s3://film/x",
        "--endpoint",
        &endpoint,
    ];
    let said = place.fails(13, &args)?;
    assert!(said.contains("cannot reach the store"), "{said}");
    assert!(
        start.elapsed().as_secs() < 5,
        "it must not try again and again"
    );

    // Who may only read can still add a bucket.
    let denied = "<Error><Code>AccessDenied</Code><Message>no</Message></Error>";
    let web = Web::start(|_| Reply::new("403 Forbidden", denied))?;
    let endpoint = web.endpoint();
    let args = [
        "remote",
        "add",
        "studio",
        "s3://film/x",
        "--endpoint",
        &endpoint,
    ];
    let done = place.run(&args)?;
    let said = String::from_utf8(done.stderr)?;
    assert_eq!(done.status.code(), Some(0), "{said}");
    assert!(said.contains("you may not write to this bucket"), "{said}");
    assert_eq!(place.ok(&["remote"])?, "studio  s3://film/x\n");
    let said = place.fails(12, &["remote", "check", "studio"])?;
    assert!(said.contains("was not tested"), "{said}");
    Ok(())
}

#[test]
fn what_is_wrong_with_credentials_and_endpoints_is_said_without_a_request() -> Outcome {
    let mut place = Place::with_repository()?;
    let bucket = "s3://film/x";
    let said = place.fails(12, &["remote", "add", "studio", bucket])?;
    assert!(
        said.contains("no credentials were found\nhint: set AWS_ACCESS_KEY_ID"),
        "{said}"
    );
    place.env.push(("AWS_PROFILE", "studio".into()));
    let said = place.fails(12, &["remote", "add", "studio", bucket])?;
    assert!(said.contains("there is no AWS profile 'studio'"), "{said}");
    fs::create_dir(place.home().join(".aws"))?;
    let config = "[profile studio]\ncredential_process = /bin/sh -c \"echo sorry >&2; exit 1\"\n";
    fs::write(place.home().join(".aws/config"), config)?;
    let web = Web::start(|_| Reply::cut())?;
    let said = add(&place, &web, 12)?;
    assert!(
        said.contains("AWS profile 'studio': /bin/sh failed: sorry"),
        "{said}"
    );
    assert_eq!(web.requests(), 0);
    let args = [
        "remote",
        "add",
        "studio",
        bucket,
        "--endpoint",
        "https://key:pw@host",
    ];
    let said = place.fails(2, &args)?;
    assert!(said.contains("credentials do not belong there"), "{said}");
    let said = place.fails(2, &["remote", "add", "studio", "s3://key:secret@film/x"])?;
    assert!(
        said.contains("credentials do not belong in an address"),
        "{said}"
    );
    place
        .env
        .push(("AWS_CA_BUNDLE", "/no/such/file.pem".into()));
    let said = add(&place, &web, 20)?;
    assert!(said.contains("/no/such/file.pem"), "{said}");
    Ok(())
}

#[test]
fn services_that_hand_out_keys_are_named_when_they_do_not() -> Outcome {
    let add = ["remote", "add", "s", "s3://film/x", "--endpoint"];
    let page = Web::start(|_| Reply::new("200 OK", "<html>\nlog in</html>"))?;
    let closed = Web::start(|_| Reply::cut())?.endpoint();
    for (vars, exit, says) in [
        (
            vec![("AWS_CONTAINER_CREDENTIALS_FULL_URI", page.endpoint())],
            12,
            "hands out no credentials",
        ),
        (
            vec![("AWS_EC2_METADATA_SERVICE_ENDPOINT", page.endpoint())],
            12,
            "hands out no credentials",
        ),
        (
            vec![("AWS_CONTAINER_CREDENTIALS_FULL_URI", closed.clone())],
            13,
            "does not answer",
        ),
        (
            vec![
                ("AWS_WEB_IDENTITY_TOKEN_FILE", "/no/such/token".to_owned()),
                ("AWS_ROLE_ARN", "arn:aws:iam::1:role/x".to_owned()),
                ("AWS_ENDPOINT_URL_STS", closed.clone()),
            ],
            12,
            "/no/such/token",
        ),
    ] {
        let mut place = Place::with_repository()?;
        for (name, value) in &vars {
            place.env.push((name, value.into()));
        }
        let said = place.fails(exit, &[&add[..], &[&page.endpoint()]].concat())?;
        assert!(said.contains(says), "{vars:?}: {said}");
        assert!(said.contains("hint: "), "{said}");
    }
    let place = Place::with_repository()?;
    let said = place.fails(12, &["remote", "add", "s", "az://film/x"])?;
    assert!(said.contains("AZURE_STORAGE_ACCOUNT_NAME"), "{said}");
    Ok(())
}

#[test]
fn a_secret_in_an_address_is_refused_and_never_shown() -> Outcome {
    let place = place()?;
    let with_key = format!("https://{KEY}:{SECRET}@host.example/x");
    let in_query = format!("s3://film/x?AWSSecret={SECRET}");
    let endpoint = format!("http://{KEY}:{SECRET}@host.example");
    let refused = |args: &[&str], exit| -> Outcome {
        for json in [&[][..], &["--json"], &["--verbose"]] {
            let done = place.run(&[args, json].concat())?;
            let said = String::from_utf8([done.stdout, done.stderr].concat())?;
            assert_eq!(done.status.code(), Some(exit), "{args:?}: {said}");
            assert!(!said.contains(KEY) && !said.contains(SECRET), "{said}");
        }
        Ok(())
    };
    for address in [&with_key[..], &in_query] {
        for command in ["fetch", "push", "pull", "sync", "clone"] {
            refused(&[command, address], 2)?;
        }
        refused(&["remote", "add", "s", address], 2)?;
        refused(&["op", "log", "--at", address], 2)?;
    }
    let file = place.work().join(".dmv/config.toml");
    let old = fs::read_to_string(&file).unwrap_or_default();
    fs::write(&file, format!("{old}\n[remote.s]\nurl = \"s3://film/x\"\n"))?;
    refused(&["config", "set", "remote.s.endpoint", &endpoint], 20)?;
    has_no_secret(&place.work().join(".dmv"))?;
    // What an earlier version, or another program, has written there.
    let settings = format!("url = \"s3://film/x\"\nendpoint = \"{endpoint}\"");
    fs::write(&file, format!("{old}\n[remote.s]\n{settings}\n"))?;
    for command in [
        &["fetch", "s"][..],
        &["push", "s"],
        &["config", "get", "remote.s.endpoint"],
    ] {
        refused(command, 20)?;
    }
    fs::write(&file, format!("{old}\n[remote.s]\nurl = \"{with_key}\"\n"))?;
    refused(&["remote"], 0)?;
    refused(&["remote", "show"], 2)?;
    refused(&["fetch", "s"], 2)
}

/// Every file below a directory contains no secret.
fn has_no_secret(dir: &Path) -> Outcome {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            has_no_secret(&path)?;
        } else {
            let bytes = fs::read(&path)?;
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.contains(SECRET), "{}", path.display());
            assert!(!text.contains(KEY), "{}", path.display());
        }
    }
    Ok(())
}

#[test]
fn the_settings_of_a_bucket_are_kept_its_requests_counted_and_its_keys_hidden() -> Outcome {
    let place = place()?;
    // No key gets into messages or files.
    // What a store says of a wrong signature has the key, and what it has signed.
    let body = format!(
        "<Error><Code>SignatureDoesNotMatch</Code><Message>no</Message><AWSAccessKeyId>{KEY}\
         </AWSAccessKeyId><StringToSign>{SECRET}</StringToSign></Error>"
    );
    let web = Web::start(move |_| Reply::new("403 Forbidden", &body))?;
    for json in [&[][..], &["--json"], &["--verbose"]] {
        let endpoint = web.endpoint();
        let args = [
            "remote",
            "add",
            "studio",
            "s3://film/x",
            "--endpoint",
            &endpoint,
        ];
        let done = place.run(&[&args[..], json].concat())?;
        let said = [done.stdout, done.stderr].concat();
        let said = String::from_utf8(said)?;
        assert!(!said.contains(KEY) && !said.contains(SECRET), "{said}");
    }
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return has_no_secret(&place.work().join(".dmv"));
    };
    gateway.test_and_add(&place, "studio", "s3://film/x")?;
    place.ok(&["op", "log"])?;
    has_no_secret(&place.work().join(".dmv"))?;
    place.ok(&["remote", "remove", "studio"])?;

    // The settings of a bucket are kept and changed.
    gateway.test_and_add(&place, "studio.a", "s3://film/x")?;
    let get = |key: &str| place.ok(&["config", "get", key]);
    assert_eq!(get("remote.studio.a.endpoint")?.trim(), gateway.endpoint);
    place.ok(&["config", "set", "remote.studio.a.region", "eu-west-1"])?;
    assert_eq!(get("remote.studio.a.region")?.trim(), "eu-west-1");
    place.ok(&["config", "unset", "remote.studio.a.region"])?;
    place.fails(1, &["config", "get", "remote.studio.a.region"])?;
    let said = place.fails(20, &["config", "set", "remote.other.region", "x"])?;
    assert!(said.contains("there is no remote 'other'"), "{said}");
    assert_eq!(place.ok(&["remote"])?, "studio.a  s3://film/x\n");
    let again = [
        "remote",
        "add",
        "b",
        "s3://film/x",
        "--endpoint",
        "https://example.org",
    ];
    let said = place.fails(20, &again)?;
    assert!(
        said.contains("'studio.a' already has the address"),
        "{said}"
    );
    place.ok(&["remote", "remove", "studio.a"])?;
    assert_eq!(place.ok(&["remote"])?, "");

    // What is counted is what the store has logged.
    gateway.test_and_add(&place, "studio", "s3://film/x")?;
    let before = gateway.logged()?;
    let done: Value = place.json(&["remote", "check", "studio", "--json"])?;
    let logged = gateway.logged()?.since(&before);
    let counted = |class: &str| done["requests"][class].as_u64();
    assert_eq!(counted("get"), Some(logged.get));
    assert_eq!(counted("put"), Some(logged.put));
    assert_eq!(counted("list"), Some(0));
    assert_eq!(logged.list, 0);
    assert_eq!(counted("delete"), Some(logged.delete));
    assert_eq!(counted("retried"), Some(0));
    assert!(logged.put > 100, "it races");
    assert!(
        done["cost_usd"]
            .as_f64()
            .is_some_and(|usd| usd > 0.0 && usd < 0.01)
    );
    assert_eq!(done["ok"], Value::Bool(true));
    assert_eq!(gateway.files("film")?, 0, "nothing of the test stays");
    place.ok(&["config", "set", "bucket.price-write", "5000"])?;
    let dear = place.json(&["remote", "check", "studio", "--json"])?;
    assert!(
        dear["cost_usd"].as_f64().is_some_and(|usd| usd > 100.0),
        "{dear}"
    );
    Ok(())
}
