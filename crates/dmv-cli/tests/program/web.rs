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

/// Sends a form of a page, and returns the page that it leads to.
fn form(port: u16, cookie: &str, verb: &str, fields: &str) -> Outcome<String> {
    let page = ask(port, "/copies", cookie)?;
    let token = page.split("name=\"token\" value=\"").nth(1);
    let token = token
        .and_then(|rest| rest.split('"').next())
        .ok_or("no token")?;
    let body = format!("token={token}&{fields}");
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    write!(
        stream,
        "POST /{verb} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n{cookie}\
         Origin: http://127.0.0.1:{port}\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let to = answer.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("location")
            .then(|| value.to_owned())
    });
    ask(port, &to.ok_or(answer)?, cookie)
}

#[test]
fn pages_say_who_works_on_what_and_claim_release_and_take_over() -> Outcome {
    let disk = Place::with_repository()?;
    disk.write("shots/rock.psd", "rock")?;
    disk.write("shots/tree.psd", "tree")?;
    disk.commit("first")?;
    let at = disk.work().display().to_string();
    let [ada, bob] = ["A<b>da", "Bob"].map(|name| -> Outcome<Place> {
        let mut place = Place::new()?;
        place.env.push(("DMV_USER_NAME", name.into()));
        place.ok(&["clone", &at, "film"])?;
        Ok(place)
    });
    let (ada, bob) = (ada?, bob?);
    ada.ok(&["-C", "film", "claim", "shots/rock.psd", "-m", "textures"])?;
    bob.ok(&["-C", "film", "fetch"])?;
    let (running, port, cookie) = started(&bob, &["-C", "film"])?;

    // A mark on the row and the tile, and a section on the page of the file. A name is escaped.
    for page in ["/tree/@/shots", "/tree/@/shots?view=grid"] {
        let page = ask(port, page, &cookie)?;
        assert!(page.contains(">claimed by A&lt;b&gt;da</span>"), "{page}");
        assert!(
            page.contains("on main, just now: textures\">claimed by"),
            "{page}"
        );
        assert_eq!(page.matches(">claimed by").count(), 1, "{page}");
        assert!(page.contains("Claimed by A&lt;b&gt;da") || page.contains("shots/rock.psd</a>"));
    }
    let page = ask(port, "/file/@/shots/rock.psd", &cookie)?;
    assert!(
        page.contains("Claimed by A&lt;b&gt;da (") && page.contains(">Take over</button>"),
        "{page}"
    );
    let page = ask(port, "/file/@/shots/tree.psd", &cookie)?;
    assert!(page.contains(">Claim</button>"), "{page}");

    // Claiming, as the command does it: at the remote.
    let back = "back=/file/@/shots/tree.psd";
    let page = form(
        port,
        &cookie,
        "claim",
        &format!("path=shots/tree.psd&reason=leaves&{back}"),
    )?;
    assert!(page.contains("Held at origin: shots/tree.psd"), "{page}");
    assert!(
        page.contains("Claimed by you on main, just now: leaves.")
            && page.contains(">Release</button>"),
        "{page}"
    );
    let page = form(
        port,
        &cookie,
        "claim",
        &format!("path=shots/rock.psd&{back}"),
    )?;
    assert!(
        page.contains("Not claimed: ") && page.contains("is claimed by A&lt;b&gt;da"),
        "{page}"
    );
    let page = form(
        port,
        &cookie,
        "claim",
        "path=shots/rock.psd&take=yes&reason=deadline&back=/",
    )?;
    assert!(page.contains("Held at origin: shots/rock.psd"), "{page}");
    let told = ada.run(&["-C", "film", "fetch"])?;
    let told = String::from_utf8(told.stderr)?;
    assert!(
        told.contains("has taken over 'shots/rock.psd'") && told.contains(": deadline"),
        "{told}"
    );
    let page = form(
        port,
        &cookie,
        "release",
        &format!("path=shots/tree.psd&{back}"),
    )?;
    assert!(page.contains("Released: shots/tree.psd"), "{page}");
    ada.ok(&["-C", "film", "claim", "shots/tree.psd"])?;

    // A changed file that somebody else has claimed is marked where it is committed.
    bob.ok(&["-C", "film", "fetch"])?;
    bob.write("film/shots/tree.psd", "bob's tree")?;
    let page = ask(port, "/worktree", &cookie)?;
    assert!(page.contains(">claimed by A&lt;b&gt;da</span>"), "{page}");

    // Without a token, and at the root, nothing is claimed.
    let page = form(port, &cookie, "claim", "path=&back=/")?;
    assert!(page.contains("Not claimed: "), "{page}");
    let before = bob.records(&["-C", "film", "claims", "--json"])?.len();
    let bare = ask(port, "/claim?path=shots/tree.psd&take=yes", &cookie)?;
    assert!(bare.starts_with("HTTP/1.1 404"), "{bare}");
    assert_eq!(
        bob.records(&["-C", "film", "claims", "--json"])?.len(),
        before
    );
    running.stop()?;

    let (running, port, cookie) = started(&bob, &["-C", "film", "--read-only"])?;
    let page = ask(port, "/file/@/shots/tree.psd", &cookie)?;
    assert!(
        page.contains("Claimed by A&lt;b&gt;da (") && !page.contains("Take over"),
        "{page}"
    );
    running.stop()?;
    Ok(())
}
