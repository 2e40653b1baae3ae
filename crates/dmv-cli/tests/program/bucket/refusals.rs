//! What every command says of a store that refuses.

use super::misbehaving::{Reply, Web};
use super::{note_remote, place};
use crate::place::{Outcome, Place};
use std::fs;

const BUCKET: &str = "s3://film/x";
const COMMANDS: [&[&str]; 10] = [
    &["fetch", "studio"],
    &["push", "studio"],
    &["push", "studio", "--dry-run"],
    &["pull", "studio"],
    &["sync", "studio"],
    &["op", "log", "--at", "studio"],
    &["undo", "--at", "studio"],
    &["verify", "--at", "studio"],
    &["gc", "--at", "studio"],
    &["repack", "--at", "studio"],
];

/// A repository with a commit, and a remote whose store was good when it was tested.
fn with_remote(web: &Web) -> Outcome<Place> {
    let place = place()?;
    place.write("file", "text")?;
    place.commit("first")?;
    note_remote(&place, "studio", BUCKET, &web.endpoint())?;
    Ok(place)
}

fn error(status: &'static str, code: &str) -> Reply {
    let body = format!("<Error><Code>{code}</Code><Message>so it is</Message></Error>");
    Reply::new(status, &body)
}

#[test]
fn every_command_says_why_a_store_refuses_and_changes_nothing() -> Outcome {
    let region = error("301 Moved", "PermanentRedirect").with("x-amz-bucket-region: eu-west-1");
    let clock =
        error("403 Forbidden", "RequestTimeTooSkewed").with("date: Mon, 23 Nov 2020 06:00:00 GMT");
    let cases = [
        (error("404 Not Found", "NoSuchBucket"), 10, "no such bucket"),
        (
            error("403 Forbidden", "AccessDenied"),
            12,
            "the store denies access",
        ),
        (
            error("403 Forbidden", "InvalidAccessKeyId"),
            12,
            "does not accept",
        ),
        (
            error("404 Not Found", "XAdminUserNotFound"),
            12,
            "does not accept",
        ),
        (error("400 Bad Request", "ExpiredToken"), 12, "have expired"),
        (clock, 12, "ahead of the store's\nhint: set"),
        (region, 20, "in region eu-west-1\nhint: "),
        (
            error("403 Forbidden", "InvalidObjectState"),
            6,
            "cold storage",
        ),
        (error("403 Forbidden", "QuotaExceeded"), 20, "is full"),
    ];
    for (n, (reply, exit, says)) in cases.into_iter().enumerate() {
        let web = Web::start(move |_| reply.clone())?;
        let place = with_remote(&web)?;
        let before = place.ok(&["op", "log"])?;
        let endpoint = web.endpoint();
        let clone = ["clone", BUCKET, "copy", "--endpoint", &endpoint];
        // Each reply to every third command, so that each command gets three kinds of reply.
        for command in COMMANDS
            .into_iter()
            .chain([&clone[..]])
            .skip(n % 3)
            .step_by(3)
        {
            let asked = web.requests();
            let said = place.fails(exit, command)?;
            assert!(said.contains(says), "{command:?}: {said}");
            assert!(said.contains("hint: "), "{command:?}: {said}");
            assert!(said.contains(BUCKET), "{command:?}: {said}");
            let asked = web.requests() - asked;
            // A store may deny what does not exist, so a first push tries to make a repository.
            assert!(asked <= 3, "{command:?} asks {asked} times for {says}");
        }
        assert_eq!(place.ok(&["op", "log"])?, before, "{says}");
        assert!(!place.work().join("copy/.dmv").exists(), "{says}");
    }
    Ok(())
}

#[test]
fn a_page_in_place_of_a_file_is_called_a_page() -> Outcome {
    let page = Reply::new("200 OK", "<html>log in</html>").with("content-type: text/html");
    let none = Reply::new("404 Not Found", "<html>no</html>").with("content-type: text/html");
    let plain = Reply::new("404 Not Found", "404 page not found\n");
    // A page may be gone soon, so each command asks again for a while: all wait at the same time.
    std::thread::scope(|scope| {
        for (page, command) in [
            (page, COMMANDS[0]),
            (none, COMMANDS[1]),
            (plain, COMMANDS[5]),
        ] {
            scope.spawn(move || {
                let web = Web::start(move |_| page.clone()).expect("a port is free");
                let mut place = with_remote(&web).expect("a repository is made");
                place.env.push(("DMV_NET_PATIENCE", "1".into()));
                let said = place.fails(13, command).expect("the program runs");
                assert!(said.contains("a web page came"), "{command:?}: {said}");
                assert!(said.contains("hint: log in to the network"), "{said}");
            });
        }
    });
    Ok(())
}

#[test]
fn a_mirror_refuses_all_writing_at_once() -> Outcome {
    let web = Web::start(|_| Reply::new("404 Not Found", "no such page"))?;
    let place = place()?;
    place.write("file", "text")?;
    place.commit("first")?;
    let address = format!("{}/film", web.endpoint());
    let said = place.fails(10, &["remote", "add", "m", &address])?;
    assert!(said.contains("there is no repository"), "{said}");
    let file = place.work().join(".dmv/config.toml");
    let config = fs::read_to_string(&file).unwrap_or_default();
    fs::write(file, format!("{config}\n[remote.m]\nurl = \"{address}\"\n"))?;
    let asked = web.requests();
    for command in [
        &["push", "m"][..],
        &["push", "m", "--dry-run"],
        &["push", &address],
        &["undo", "--at", "m"],
        &["redo", "--at", "m"],
        &["gc", "--at", "m"],
        &["repack", "--at", "m", "--dry-run"],
        &["remote", "check", "m"],
    ] {
        let said = place.fails(12, command)?;
        assert!(said.contains("read-only mirror"), "{command:?}: {said}");
        assert_eq!(web.requests(), asked, "{command:?}");
    }
    Ok(())
}
