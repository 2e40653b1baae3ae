//! Commits for WebDAV clients: what they see, what they may not do, and a real client.

use crate::served::{Film, Reply, Served};
use data_encoding::BASE64;
use dmv_core::repo::RefKind;
use dmv_web::{DavLogin, Options};
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

fn serve(film: &Film) -> Served {
    let options = Options {
        dav: true,
        ..Options::default()
    };
    Served::start(film.root(), options, Vec::new())
}

/// A head with the name and the password.
fn head(served: &Served, method: &str, target: &str) -> String {
    let DavLogin { user, password, .. } = served.dav.as_ref().expect("a login");
    let given = BASE64.encode(format!("{user}:{password}").as_bytes());
    let host = served.host();
    format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Basic {given}\r\n")
}

fn ask(served: &Served, method: &str, target: &str) -> Reply {
    served.send(&head(served, method, target))
}

fn list(served: &Served, target: &str) -> String {
    let reply = served.send(&format!("{}Depth: 1\r\n", head(served, "PROPFIND", target)));
    assert_eq!(reply.status, 207, "{target}: {}", reply.text());
    reply.text()
}

/// The addresses of a listing, in its order.
fn addresses(listing: &str) -> Vec<&str> {
    let parts = listing.split("<D:href>").skip(1);
    parts
        .filter_map(|part| part.split("</D:href>").next())
        .collect()
}

fn film() -> Film {
    let film = Film::new();
    film.write("a.txt", "hello\n");
    film.write("shots/b <&>.exr", [7; 1000]);
    std::os::unix::fs::symlink("a.txt", film.root().join("link")).expect("a symlink");
    film.commit("first");
    film
}

#[test]
fn a_commit_is_a_directory() {
    let film = film();
    let id = film.commit_id();
    film.repo
        .create_ref(RefKind::Tag, "v1", id, crate::served::request("tag"))
        .expect("a tag");
    film.repo
        .create_ref(
            RefKind::Branch,
            "art/sky",
            id,
            crate::served::request("branch"),
        )
        .expect("a branch");
    let served = serve(&film);
    assert_eq!(
        addresses(&list(&served, "/dav/")),
        ["/dav/", "/dav/main/", "/dav/v1/"]
    );
    // A symlink has no form here.
    let root = list(&served, "/dav/main");
    assert_eq!(
        addresses(&root),
        ["/dav/main/", "/dav/main/a.txt", "/dav/main/shots/"]
    );
    assert!(
        root.contains("<D:getcontentlength>6</D:getcontentlength>"),
        "{root}"
    );
    assert!(root.contains("GMT</D:getlastmodified>"), "{root}");
    let shots = list(&served, "/dav/art%2Fsky/shots/");
    assert_eq!(
        addresses(&shots),
        [
            "/dav/art%2Fsky/shots/",
            "/dav/art%2Fsky/shots/b%20%3C%26%3E.exr"
        ]
    );
    assert!(shots.contains("<D:displayname>b &lt;&amp;&gt;.exr</D:displayname>"));
    // One entry alone.
    let alone = format!(
        "{}Depth: 0\r\n",
        head(&served, "PROPFIND", "/dav/main/shots")
    );
    assert_eq!(addresses(&served.send(&alone).text()), ["/dav/main/shots/"]);
    // Content, whole and in parts.
    let whole = ask(&served, "GET", &format!("/dav/{id}/a.txt"));
    assert_eq!((whole.status, whole.text()), (200, "hello\n".to_owned()));
    assert_eq!(whole.header("accept-ranges"), Some("bytes"));
    let part = format!(
        "{}Range: bytes=1-3\r\n",
        head(&served, "GET", "/dav/main/a.txt")
    );
    let part = served.send(&part);
    assert_eq!((part.status, part.text()), (206, "ell".to_owned()));
    let sizes = ask(&served, "HEAD", "/dav/main/shots/b%20%3C%26%3E.exr");
    assert_eq!(sizes.header("content-length"), Some("1000"));
    let options = ask(&served, "OPTIONS", "/dav/main/");
    assert_eq!((options.status, options.header("dav")), (200, Some("1")));
}

#[test]
fn a_long_directory_comes_in_parts_and_in_order() {
    let film = Film::new();
    let names: Vec<String> = (0..1203).map(|n| format!("d/f{n:04}")).collect();
    names.iter().for_each(|name| film.write(name, name));
    film.write("empty/x/y", "");
    film.commit("many");
    let served = serve(&film);
    let listing = list(&served, "/dav/main/d");
    let expected: Vec<String> = names
        .iter()
        .map(|name| format!("/dav/main/{name}"))
        .collect();
    assert_eq!(addresses(&listing)[1..], expected);
    assert!(listing.ends_with("</D:multistatus>\n"));
    // A client that goes away in the middle harms nobody.
    let mut stream = served.connect();
    let asked = format!(
        "{}Depth: 1\r\n\r\n",
        head(&served, "PROPFIND", "/dav/main/d")
    );
    stream.write_all(asked.as_bytes()).expect("it is sent");
    stream.read_exact(&mut [0; 100]).expect("a begin");
    drop(stream);
    assert_eq!(addresses(&list(&served, "/dav/main/empty/")).len(), 2);
}

#[test]
fn nobody_reads_without_the_password_and_nobody_writes() {
    let film = film();
    let served = serve(&film);
    let host = served.host();
    let browser = served.enter();
    for (method, target) in [
        ("GET", "/dav/main/a.txt"),
        ("PROPFIND", "/dav/"),
        ("OPTIONS", "/dav/"),
        ("PUT", "/dav/main/x"),
    ] {
        let plain = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n");
        let wrong = format!("{plain}Authorization: Basic ZG12OmRtdg==\r\n");
        let cookie = format!("{plain}Cookie: {}\r\n", browser.cookie);
        for head in [plain, wrong, cookie] {
            let reply = served.send(&head);
            assert_eq!(reply.status, 401, "{head}");
            assert!(
                reply
                    .header("www-authenticate")
                    .is_some_and(|way| way.starts_with("Basic"))
            );
            assert!(!reply.text().contains("hello"));
        }
        // Another site, and another name of this server.
        let elsewhere = head(&served, method, target);
        let reply = served.send(&format!("{elsewhere}Sec-Fetch-Site: cross-site\r\n"));
        assert_eq!(reply.status, 403, "{method}");
        let rebound = elsewhere.replace(&host, "evil.example");
        assert_eq!(served.send(&rebound).status, 421, "{method}");
    }
    // The password opens no page.
    assert_eq!(ask(&served, "GET", "/").status, 403);
    assert_eq!(ask(&served, "GET", "/raw/main/a.txt").status, 403);
    for method in [
        "PUT",
        "DELETE",
        "MKCOL",
        "PROPPATCH",
        "LOCK",
        "UNLOCK",
        "POST",
        "MOVE",
        "COPY",
    ] {
        let reply = ask(&served, method, "/dav/main/a.txt");
        assert_eq!(reply.status, 405, "{method}");
        assert_eq!(reply.header("allow"), Some("OPTIONS, GET, HEAD, PROPFIND"));
    }
    assert_eq!(
        std::fs::read(film.root().join("a.txt")).expect("a file"),
        b"hello\n"
    );
    // Without the option there is no such address.
    let plain = film.serve();
    assert!(plain.dav.is_none());
    let reply = plain.send(&plain.enter().head("PROPFIND", "/dav/main/"));
    assert_eq!(reply.status, 405);
    let other = film.serve();
    assert_eq!(other.enter().get("/dav/main/a.txt").status, 404);
}

#[test]
fn hostile_requests_end_in_an_answer() {
    let film = film();
    film.write("x<!--&\"'.txt", "x");
    let odd = film.root().join(OsStr::from_bytes(b"\xff\x01\x1b[31m"));
    std::fs::write(odd, "odd").expect("a file");
    film.commit("odd names");
    let served = serve(&film);
    let listing = list(&served, "/dav/main/");
    assert!(
        !listing.contains(['\u{1b}', '\u{1}']) && !listing.contains("x<!--"),
        "{listing}"
    );
    let odd = addresses(&listing)
        .into_iter()
        .find(|at| at.contains("%FF"));
    assert_eq!(
        ask(&served, "GET", odd.expect("the odd name")).text(),
        "odd"
    );
    // Paths that lead elsewhere, the worktree itself, and what is no file.
    for target in [
        "/dav/main/../main/a.txt",
        "/dav/main/%2e%2e/a.txt",
        "/dav/main/shots/..%2Fa.txt",
        "/dav/main/.dmv/refs.db",
        "/dav/:/a.txt",
        "/dav/main/link",
        "/dav/main/link/x",
        "/dav/none/",
        "/dav/%2e%2e/%2e%2e/etc/passwd",
        "/dav//etc/passwd",
        "/dav/main/a.txt/x",
    ] {
        for method in ["GET", "PROPFIND"] {
            let reply = served.send(&format!("{}Depth: 1\r\n", head(&served, method, target)));
            assert_eq!(reply.status, 404, "{method} {target}: {}", reply.text());
        }
    }
    assert_eq!(ask(&served, "GET", "/dav/main/a%00").status, 400);
    assert_eq!(ask(&served, "GET", "/dav/main/shots/").status, 405);
    // Everything below is asked for by no depth, a huge one, and two.
    for depth in [
        "",
        "Depth: infinity\r\n",
        "Depth: 4294967297\r\n",
        "Depth: 1\r\nDepth: 0\r\n",
    ] {
        let reply = served.send(&format!(
            "{}{depth}",
            head(&served, "PROPFIND", "/dav/main/")
        ));
        assert_eq!(reply.status, 403, "{depth}");
        assert!(reply.text().contains("propfind-finite-depth"));
    }
    // What a client writes is not read as XML, and has a bound.
    let lol =
        "<?xml version=\"1.0\"?><!DOCTYPE a [<!ENTITY b \"ha\"><!ENTITY c \"&b;&b;\">]><a>&c;</a>";
    let with_body = |body: &str| {
        let length = body.len();
        let head = head(&served, "PROPFIND", "/dav/main/");
        let all = format!(
            "{head}Depth: 0\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        served.send_bytes(all.as_bytes()).status
    };
    assert_eq!(with_body(lol), 207);
    assert_eq!(with_body(&" ".repeat(64 << 10)), 207);
    assert_eq!(with_body(&" ".repeat((64 << 10) + 1)), 413);
    assert_eq!(addresses(&list(&served, "/dav/main/shots")).len(), 2);
}

/// The program, where it is installed.
fn rclone() -> Option<Command> {
    let home = std::env::var_os("HOME").unwrap_or_default();
    let places = [
        Path::new("rclone").to_owned(),
        Path::new(&home).join("go/bin/rclone"),
    ];
    places.iter().find_map(|program| {
        let ran = Command::new(program).arg("version").output();
        ran.is_ok_and(|ran| ran.status.success())
            .then(|| Command::new(program))
    })
}

#[test]
fn rclone_lists_and_copies_a_commit() {
    if rclone().is_none() {
        dmv_random::skip("rclone is not installed: no WebDAV client was tried");
        return;
    }
    let film = film();
    let content: Vec<u8> = dmv_random::Rng::new(3).bytes(3 << 20);
    film.write("shots/large.bin", &content);
    film.write("Gr\u{fc}n & 100% [x]/#1?.txt", "odd\n");
    film.commit("second");
    let served = serve(&film);
    let DavLogin {
        url,
        user,
        password,
    } = served.dav.as_ref().expect("a login");
    let run = |args: &[&str]| {
        let mut command = rclone().expect("it was there");
        let hidden = {
            let mut command = rclone().expect("it was there");
            let out = command
                .args(["obscure", password])
                .output()
                .expect("it runs");
            String::from_utf8(out.stdout).expect("text")
        };
        command
            .env("RCLONE_CONFIG", "/dev/null")
            .args(args)
            .args(["--webdav-url", &format!("{url}main"), "--webdav-user", user])
            .args(["--webdav-pass", hidden.trim()]);
        command.output().expect("rclone runs")
    };
    let listed = run(&["lsf", "-R", ":webdav:"]);
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let mut names: Vec<&str> = text.lines().collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "Gr\u{fc}n & 100% [x]/",
            "Gr\u{fc}n & 100% [x]/#1?.txt",
            "a.txt",
            "shots/",
            "shots/b <&>.exr",
            "shots/large.bin",
        ],
        "{}",
        String::from_utf8_lossy(&listed.stderr)
    );
    let to = film.dir.path().join("copy");
    let copied = run(&["copy", ":webdav:", &to.to_string_lossy()]);
    assert!(
        copied.status.success(),
        "{}",
        String::from_utf8_lossy(&copied.stderr)
    );
    for path in ["a.txt", "shots/large.bin", "Gr\u{fc}n & 100% [x]/#1?.txt"] {
        let (here, there) = (
            std::fs::read(to.join(path)),
            std::fs::read(film.root().join(path)),
        );
        assert!(here.expect("a copy") == there.expect("a file"), "{path}");
    }
    let part = run(&[
        "cat",
        "--offset",
        "1048570",
        "--count",
        "100",
        ":webdav:shots/large.bin",
    ]);
    assert!(part.stdout == content[1_048_570..1_048_670]);
    let written = run(&["touch", ":webdav:new.txt"]);
    assert!(!written.status.success());
}
