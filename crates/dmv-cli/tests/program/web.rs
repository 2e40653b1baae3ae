//! `dmv web`: what it prints, whom it answers, and that it ends. The pages have tests of their own in
//! `crates/dmv-web/tests`.

use crate::place::running::Running;
use crate::place::several::several;
use crate::place::{Outcome, Place};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

/// Sends a request with more headers; returns the answer.
fn ask(port: u16, target: &str, headers: &str) -> Outcome<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    write!(
        stream,
        "GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n{headers}\r\n"
    )?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn started(place: &Place, args: &[&str]) -> Outcome<(Running, u16, String)> {
    let mut all = vec!["web", "--json"];
    all.extend(args);
    begun(&mut place.command(&all))
}

/// Starts the server, and enters.
fn begun(command: &mut Command) -> Outcome<(Running, u16, String)> {
    let running = Running::start(command)?;
    let port = u16::try_from(running.ready["port"].as_u64().ok_or("no port")?)?;
    let url = running.ready["url"].as_str().ok_or("no address")?;
    let entry = url.strip_prefix(&format!("http://127.0.0.1:{port}"));
    let entry = entry.ok_or("another address")?.to_owned();
    let welcome = ask(port, &entry, "")?;
    let cookie = welcome.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        (name.eq_ignore_ascii_case("set-cookie")).then(|| value.split(';').next().unwrap_or(value))
    });
    let cookie = format!("Cookie: {}\r\n", cookie.ok_or("no cookie")?);
    Ok((running, port, cookie))
}

#[test]
fn it_prints_an_address_serves_and_ends() -> Outcome {
    let place = Place::with_repository()?;
    place.write("a.txt", "hello")?;
    place.commit("first look")?;
    let (running, port, cookie) = started(&place, &[])?;
    assert!(ask(port, "/log", &cookie)?.contains("first look"));
    assert!(ask(port, "/raw/@/a.txt", &cookie)?.ends_with("hello"));
    assert!(ask(port, "/log", "")?.starts_with("HTTP/1.1 403"));
    let refused = ask(port, "/file/@/b.txt?json", &cookie)?;
    assert!(
        refused.starts_with("HTTP/1.1 404") && refused.contains("b.txt"),
        "{refused}"
    );
    // A command beside it is seen.
    place.write("a.txt", "again")?;
    place.commit("second look")?;
    assert!(ask(port, "/log", &cookie)?.contains("second look"));
    let (exit, said) = running.stop()?;
    assert_eq!(exit, Some(0), "{said}");
    Ok(())
}

/// What a command tells its repository, the pages tell it, too: that it is lean, for example.
#[test]
fn pages_of_a_lean_repository_show_what_only_files_have() -> Outcome {
    let place = several()?;
    place.write("film/a.txt", "hello")?;
    place.ok(&["-C", "film", "commit", "-m", "one"])?;
    place.ok(&["clone", "--copy", "--bare", "film", "nas"])?;
    place.ok(&["clone", "--lean", "nas", "lap"])?;
    std::fs::rename(place.work().join("nas"), place.work().join("away"))?;
    let mut command = place.command(&["-C", "lap", "web", "--json"]);
    let (running, port, cookie) = begun(&mut command)?;
    let shown = ask(port, "/raw/@/a.txt", &cookie)?;
    assert!(shown.ends_with("hello"), "{shown}");
    running.stop()?;
    Ok(())
}

#[test]
fn what_is_wrong_is_said_before_it_serves() -> Outcome {
    let place = Place::new()?;
    let said = place.fails(10, &["web"])?;
    assert!(said.contains("no dmv repository"), "{said}");
    let place = Place::with_repository()?;
    let (running, port, _) = started(&place, &[])?;
    let said = place.fails(20, &["web", "--port", &port.to_string()])?;
    assert!(said.contains("cannot listen at 127.0.0.1"), "{said}");
    running.stop()?;
    Ok(())
}

#[test]
fn read_only_pages_have_no_forms() -> Outcome {
    let place = Place::with_repository()?;
    place.write("a.txt", "hello")?;
    let (running, port, cookie) = started(&place, &["--read-only"])?;
    let page = ask(port, "/", &cookie)?;
    assert!(
        page.contains("read-only") && !page.contains("<form"),
        "{page}"
    );
    running.stop()?;
    Ok(())
}

/// A picture of two by two pixels, as BMP.
fn bitmap() -> Vec<u8> {
    let numbers = |list: &[u32]| -> Vec<u8> { list.iter().flat_map(|n| n.to_le_bytes()).collect() };
    let head = [b"BM".to_vec(), numbers(&[70, 0, 54])].concat();
    // 24 bits in one plane, not compressed.
    let info = numbers(&[40, 2, 2, 1 | 24 << 16, 0, 16, 2835, 2835, 0, 0]);
    let row = [0, 0, 255, 255, 0, 0, 0, 0];
    [head, info, row.to_vec(), row.to_vec()].concat()
}

#[test]
fn previews_are_made_in_a_process_of_their_own() -> Outcome {
    let place = Place::with_repository()?;
    place.write("a.bmp", bitmap())?;
    place.write("bad.exr", "no picture")?;
    place.commit("pictures")?;
    let (running, port, cookie) = started(&place, &[])?;
    let shown = ask(port, "/preview/@/a.bmp", &cookie)?;
    assert!(shown.starts_with("HTTP/1.1 200"), "{shown}");
    assert!(
        shown.contains("content-type: image/png") || shown.contains("content-type: image/jpeg")
    );
    assert!(shown.contains("content-security-policy: sandbox"));
    let facts = ask(port, "/preview/@/a.bmp?json", &cookie)?;
    assert!(
        facts.contains("\"width\":2") && facts.contains("\"reason\":null"),
        "{facts}"
    );
    let bad = ask(port, "/preview/@/bad.exr?size=large", &cookie)?;
    assert!(
        bad.contains("content-type: image/svg+xml") && bad.contains("EXR"),
        "{bad}"
    );
    // The reason is known from then on.
    let page = ask(port, "/file/@/bad.exr", &cookie)?;
    assert!(page.contains("No preview: "), "{page}");
    assert!(ask(port, "/preview/@/a.bmp", "")?.starts_with("HTTP/1.1 403"));
    running.stop()?;
    Ok(())
}

#[test]
fn a_worktree_that_is_removed_and_restored_is_said_and_found_again() -> Outcome {
    let place = Place::with_repository()?;
    place.write("a.txt", "hello")?;
    place.commit("first look")?;
    let (running, port, cookie) = started(&place, &[])?;
    let (work, kept) = (place.work(), place.dir.path().join("kept"));
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .args([&work, &kept])
        .status()?;
    assert!(copied.success());
    std::fs::remove_dir_all(&work)?;
    for page in ["/", "/log", "/raw/@/a.txt", "/doing"] {
        let said = ask(port, page, &cookie)?;
        assert!(said.starts_with("HTTP/1.1 503"), "{page}: {said}");
        assert!(said.contains("is no longer at"), "{page}: {said}");
        assert!(!said.contains("os error"), "{page}: {said}");
    }
    // A backup brings it back.
    std::fs::rename(&kept, &work)?;
    assert!(ask(port, "/log", &cookie)?.contains("first look"));
    assert!(ask(port, "/", &cookie)?.contains("Nothing has changed"));
    let (exit, said) = running.stop()?;
    assert_eq!(exit, Some(0), "{said}");
    Ok(())
}
