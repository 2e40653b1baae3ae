//! Requests and names that want more than they may have.

use crate::served::{Film, Served};
use dmv_web::Options;
use std::io::{Read, Write};

/// The addresses of all forms that change something or talk to a remote.
const FORMS: [&str; 11] = [
    "/commit",
    "/discard",
    "/choose-again",
    "/undo",
    "/redo",
    "/resolve",
    "/restore",
    "/get",
    "/push",
    "/fetch",
    "/pull",
];

fn film() -> Film {
    let film = Film::new();
    film.write("a.txt", "hello\n");
    film.commit("first");
    film
}

#[test]
fn a_page_elsewhere_that_leads_here_gets_nothing() {
    let film = film();
    let served = film.serve();
    let client = served.enter();
    let port = served.port;
    let hosts = [
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        format!("127.0.0.1.evil.example:{port}"),
        "127.0.0.1".to_owned(),
        format!("127.0.0.1:{}", port ^ 1),
        format!("[::1]:{port}"),
        format!("0.0.0.0:{port}"),
        String::new(),
    ];
    for host in hosts {
        for (method, target) in [
            ("GET", "/"),
            ("GET", "/raw/@/a.txt"),
            ("HEAD", "/"),
            ("POST", "/undo"),
            ("GET", &served.entry()[..]),
            ("OPTIONS", "*"),
        ] {
            let head = format!(
                "{method} {target} HTTP/1.1\r\nHost: {host}\r\nCookie: {}\r\n",
                client.cookie
            );
            let reply = served.send(&head);
            assert_eq!(reply.status, 421, "{method} {target} {host}");
            assert!(!reply.text().contains("hello"));
        }
    }
    // Without any name, with two, and with one in the target.
    for head in [
        "GET / HTTP/1.1\r\n".to_owned(),
        "GET / HTTP/1.0\r\n".to_owned(),
        format!(
            "GET / HTTP/1.1\r\nHost: {}\r\nHost: evil.example\r\n",
            served.host()
        ),
    ] {
        let reply = served.send(&format!("{head}Cookie: {}\r\n", client.cookie));
        assert!(
            [400, 421].contains(&reply.status),
            "{head}: {}",
            reply.status
        );
    }
    let ours = served.host();
    for (target, host) in [
        ("evil.example", "evil.example"),
        ("evil.example", &ours),
        (&ours, "evil.example"),
    ] {
        let absolute = format!(
            "GET http://{target}/ HTTP/1.1\r\nHost: {host}\r\nCookie: {}\r\n",
            client.cookie
        );
        assert_eq!(served.send(&absolute).status, 421, "{target} {host}");
    }
}

#[test]
fn without_the_cookie_nothing_is_told() {
    let film = film();
    let served = film.serve();
    let host = served.host();
    let targets = [
        "/",
        "/log",
        "/tree/@",
        "/file/@/a.txt",
        "/raw/@/a.txt",
        "/zip/@",
        "/conflicts",
        "/?json",
        "/getting",
        "/in/0000",
        "/in/",
    ];
    let cookies = ["", "Cookie: dmv=1\r\n", "Cookie: dmv-1=\r\n"];
    for target in targets {
        for cookie in cookies {
            let reply = served.send(&format!(
                "GET {target} HTTP/1.1\r\nHost: {host}\r\n{cookie}"
            ));
            assert_eq!(reply.status, 403, "{target}");
            let text = reply.text();
            assert!(
                !text.contains("film") && !text.contains("a.txt") && !text.contains("hello"),
                "{text}"
            );
        }
    }
    assert_eq!(
        served
            .send(&format!("POST /undo HTTP/1.1\r\nHost: {host}\r\n"))
            .status,
        403
    );
}

#[test]
fn the_address_works_once_and_leaves_no_trace() {
    let film = film();
    let served = film.serve();
    let entry = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\n",
        served.entry(),
        served.host()
    );
    // A browser that looks ahead with HEAD does not use it up.
    assert_eq!(served.send(&entry.replace("GET", "HEAD")).status, 403);
    let reply = served.send(&entry);
    assert_eq!((reply.status, reply.header("location")), (303, Some("/")));
    assert_eq!(reply.header("referrer-policy"), Some("no-referrer"));
    let cookie = reply.header("set-cookie").expect("a cookie").to_owned();
    assert!(
        cookie.contains("HttpOnly")
            && cookie.contains("SameSite=Strict")
            && cookie.contains("Path=/")
    );
    assert!(!cookie.contains(served.entry().trim_start_matches("/in/")));
    let again = served.send(&entry);
    assert_eq!((again.status, again.header("set-cookie")), (403, None));
    let pair = cookie.split(';').next().expect("a pair");
    let known = served.send(&format!("{entry}Cookie: {pair}\r\n"));
    assert_eq!((known.status, known.header("set-cookie")), (303, None));
}

#[test]
fn a_change_needs_a_form_of_ours() {
    let film = film();
    film.write("b.txt", "new");
    let served = film.serve();
    let client = served.enter();
    let token = client.token();
    let fields = [("token", &token[..]), ("message", "stolen")];
    let ours = format!("Origin: http://{}\r\n", served.host());
    for origin in [
        "",
        "Origin: null\r\n",
        "Origin: http://evil.example\r\n",
        "Origin: https://127.0.0.1\r\n",
    ] {
        assert_eq!(
            client.post_as("/commit", &fields, origin).status,
            403,
            "{origin}"
        );
    }
    let localhost = format!("Origin: http://localhost:{}\r\n", served.port);
    assert_eq!(client.post_as("/commit", &fields, &localhost).status, 403);
    for wrong in ["", "0", &token[1..], &format!("{token}0")] {
        let fields = [("token", wrong), ("message", "stolen")];
        assert_eq!(client.post_as("/commit", &fields, &ours).status, 403);
    }
    let other_site = format!("{ours}Sec-Fetch-Site: same-site\r\n");
    assert_eq!(client.post_as("/commit", &fields, &other_site).status, 403);
    // Nothing is changed by looking.
    for target in FORMS {
        let with_fields = format!("{target}?message=stolen&remote=nas&branch=main");
        assert_eq!(client.get(&with_fields).status, 404, "{target}");
        let forged = client.post_as(target, &fields, "Origin: http://evil.example\r\n");
        assert_eq!(forged.status, 403, "{target}");
        let without_token = client.post(target, &fields[1..]);
        assert_eq!(without_token.status, 403, "{target}");
    }
    for method in ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"] {
        assert_eq!(
            served.send(&client.head(method, "/undo")).status,
            405,
            "{method}"
        );
    }
    assert_eq!(
        client.json("/log")["commits"].as_array().map(Vec::len),
        Some(1)
    );
    assert_eq!(client.post("/commit", &fields).status, 303);
    assert_eq!(
        client.json("/log")["commits"].as_array().map(Vec::len),
        Some(2)
    );
}

#[test]
fn a_form_is_small_text_of_one_kind() {
    let film = film();
    let served = film.serve();
    let client = served.enter();
    let send = |kind: &str, body: &[u8]| {
        let head = client.head("POST", "/commit");
        let origin = format!("http://{}", served.host());
        let head = format!(
            "{head}Origin: {origin}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        served.send_bytes(&[head.as_bytes(), body].concat()).status
    };
    const FORM: &str = "application/x-www-form-urlencoded";
    assert_eq!(send("text/plain", b"token=x"), 415);
    assert_eq!(send("multipart/form-data; boundary=x", b"x"), 415);
    assert_eq!(send("application/json", b"{}"), 415);
    assert_eq!(send(FORM, &vec![b'a'; 200 << 10]), 413);
    assert_eq!(send(FORM, b"token=%00"), 400);
    assert_eq!(send(FORM, b"\xff\xfe"), 400);
    assert_eq!(send(FORM, b""), 403);
}

#[test]
fn read_only_pages_change_nothing() {
    let film = film();
    film.write("b.txt", "new");
    let options = Options {
        read_only: true,
        ..Options::default()
    };
    let served = Served::start(film.root(), options, Vec::new());
    let client = served.enter();
    let page = client.page("/") + &client.page("/worktree") + &client.page("/conflicts");
    assert!(!page.contains("<form"), "{page}");
    for target in FORMS {
        assert_eq!(client.post(target, &[("message", "x")]).status, 403);
    }
    assert_eq!(
        client.json("/log")["commits"].as_array().map(Vec::len),
        Some(1)
    );
}

#[test]
fn a_path_leads_into_trees_and_nowhere_else() {
    let film = film();
    std::fs::write(film.dir.path().join("secret.txt"), "secret").expect("a file");
    film.write("not-committed.txt", "secret");
    let served = film.serve();
    let client = served.enter();
    let ways = [
        "..",
        "../secret.txt",
        "..%2fsecret.txt",
        "%2e%2e/secret.txt",
        "%2e%2e%2fsecret.txt",
        "..%5csecret.txt",
        "a.txt/../../secret.txt",
        "a.txt/",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        ".dmv/config.toml",
        ".dmv/refs.db",
        "not-committed.txt",
        "a.txt%00.png",
        "a.txt%2f",
        "....//secret.txt",
        "%c0%ae%c0%ae/secret.txt",
        "~",
        "C:%5cwindows",
    ];
    for way in ways {
        for page in ["raw", "file", "tree", "zip"] {
            let reply = client.get(&format!("/{page}/@/{way}"));
            let text = reply.text();
            assert!(
                !text.contains("secret") || text.contains("no such") || reply.status == 404,
                "{way}: {text}"
            );
            assert!(
                !text.contains("root:") && !text.contains("SQLite format"),
                "{way}"
            );
            // A doubled or final slash is the same name.
            if !way.ends_with('/') && way != "a.txt%2f" {
                assert!(
                    [303, 400, 404, 500].contains(&reply.status),
                    "{page} {way}: {}",
                    reply.status
                );
            }
        }
    }
    for revision in ["..", "@%00", "-", "%ff", "@%7b9%7d", "--help", "main:a.txt"] {
        let status = client.get(&format!("/raw/{revision}/a.txt")).status;
        assert!([400, 404].contains(&status), "{revision}: {status}");
    }
}

#[test]
fn names_are_text_and_never_markup() {
    use std::os::unix::ffi::OsStrExt;
    let film = Film::new();
    let names: [&[u8]; 6] = [
        b"\"><script>alert(1)</script>.txt",
        b"<img src=x onerror=alert(1)>.png",
        b"a&b;'c.txt",
        b"\xff\xfe\x80.txt",
        b"line\nbreak.txt",
        "gr\u{fc}n \u{202e}txt.exe".as_bytes(),
    ];
    for name in names {
        film.write(
            std::ffi::OsStr::from_bytes(name),
            b"<script>alert(2)</script>",
        );
    }
    film.commit("<script>alert(3)</script>\n\n\"'><b>");
    film.write(std::ffi::OsStr::from_bytes(names[0]), b"other");
    let served = film.serve();
    let client = served.enter();
    let mut pages = vec![
        client.page("/"),
        client.page("/worktree"),
        client.page("/copies"),
        client.page("/log"),
        client.page("/tree/@"),
        client.page("/tree/@?view=grid"),
    ];
    for name in names {
        let encoded: String = name.iter().map(|b| format!("%{b:02x}")).collect();
        for page in ["file", "log"] {
            let target = match page {
                "log" => format!("/log/{encoded}"),
                page => format!("/{page}/@/{encoded}"),
            };
            pages.push(client.page(&target));
        }
        let beside = client.get(&format!("/compare?a=@%3A{encoded}&b=%3A{encoded}"));
        pages.push(beside.text());
        let raw = client.get(&format!("/raw/@/{encoded}"));
        assert_eq!(
            (raw.status, &raw.body[..]),
            (200, &b"<script>alert(2)</script>"[..])
        );
        let missing = client.get(&format!("/file/@/{encoded}x"));
        pages.push(missing.text());
    }
    for page in pages {
        let clean = page.replace("<script src=\"/script-", "");
        assert!(!clean.contains("<script"), "{page}");
        assert!(
            !page.contains("<img src=x")
                && !page.contains("onerror=alert(1)>")
                && !page.contains("<b>")
        );
        assert!(!page.contains('\u{202e}') && !page.contains("style=\""));
    }
    let listed = client.json("/tree/@");
    let has_bytes = |e: &serde_json::Value| e["path_b64"].is_string();
    assert!(
        listed["entries"]
            .as_array()
            .expect("entries")
            .iter()
            .any(has_bytes)
    );
}

#[test]
fn content_may_do_nothing() {
    let film = Film::new();
    let files = [
        "a.svg", "a.html", "a.js", "a.pdf", "a.xml", "a.png", "a", "a.xhtml", "a.swf", "a.txt",
    ];
    for name in files {
        film.write(
            name,
            "<svg xmlns=\"http://www.w3.org/2000/svg\"><script>alert(1)</script></svg>",
        );
    }
    film.commit("all");
    let served = film.serve();
    let client = served.enter();
    for name in files {
        let reply = client.get(&format!("/raw/@/{name}"));
        let policy = reply.header("content-security-policy").expect("a policy");
        assert!(
            policy.starts_with("sandbox;") && policy.contains("default-src 'none'"),
            "{policy}"
        );
        assert!(!policy.contains("allow-scripts"));
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(
            reply.header("cross-origin-resource-policy"),
            Some("same-origin")
        );
        let kind = reply.header("content-type").expect("a type");
        assert!(
            !kind.contains("html") && !kind.contains("javascript") && !kind.contains("pdf"),
            "{name}: {kind}"
        );
        let is_shown = ["a.svg", "a.html", "a.js", "a.xml", "a.png", "a.txt"].contains(&name);
        let way = if is_shown { "inline" } else { "attachment" };
        assert!(
            reply
                .header("content-disposition")
                .is_some_and(|d| d.starts_with(way)),
            "{name}"
        );
        let download = client.get(&format!("/raw/@/{name}?download"));
        assert!(
            download
                .header("content-disposition")
                .is_some_and(|d| d.starts_with("attachment"))
        );
    }
}

#[test]
fn pages_load_nothing_from_elsewhere() {
    let film = film();
    let served = film.serve();
    let client = served.enter();
    for target in [
        "/",
        "/log",
        "/tree/@",
        "/file/@/a.txt",
        "/conflicts",
        "/nowhere",
    ] {
        let reply = client.get(target);
        let policy = reply.header("content-security-policy").expect("a policy");
        assert!(policy.contains("default-src 'none'") && policy.contains("script-src 'self'"));
        assert!(policy.contains("frame-ancestors 'none'") && policy.contains("form-action 'self'"));
        assert!(!policy.contains("unsafe") && !policy.contains('*') && !policy.contains("data:"));
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(reply.header("cache-control"), Some("no-store"));
        assert_ne!(reply.header("referrer-policy"), Some("no-referrer"));
        let text = reply.text();
        assert!(
            !text.contains("http:") && !text.contains("https:"),
            "{text}"
        );
        assert!(
            !text.contains(" onclick") && !text.contains("<style") && !text.contains("javascript:")
        );
    }
}

#[test]
fn heads_and_connections_are_bounded() {
    let film = film();
    let served = film.serve();
    let client = served.enter();
    let long = format!(
        "{}X-Long: {}\r\n",
        client.head("GET", "/"),
        "a".repeat(200 << 10)
    );
    let refused = |bytes: &str| {
        let mut stream = served.connect();
        let _ = stream.write_all(bytes.as_bytes());
        let _ = stream.write_all(b"Connection: close\r\n\r\n");
        let mut reply = Vec::new();
        let _ = stream.read_to_end(&mut reply);
        let text = String::from_utf8_lossy(&reply).into_owned();
        // It may have closed without a word: what matters is that it did not answer.
        !text.starts_with("HTTP/1.1 200")
    };
    assert!(refused(&long));
    let many: String = (0..1000).map(|n| format!("X-{n}: a\r\n")).collect();
    assert!(refused(&format!("{}{many}", client.head("GET", "/"))));
    assert_eq!(
        client
            .get(&format!("/tree/@/{}", "a".repeat(14 << 10)))
            .status,
        400
    );
    assert!(refused("\x16\x03\x01 no http at all\r\n"));
    // Clients that say nothing take no turn from one that asks.
    let silent: Vec<_> = (0..60).map(|_| served.connect()).collect();
    assert!(client.page("/").contains("film"));
    // More of them than there are places: the oldest ones go, and nobody waits for their time to be over.
    let begun = std::time::Instant::now();
    let more: Vec<_> = (0..120).map(|_| served.connect()).collect();
    assert!(client.page("/").contains("film"));
    let time = begun.elapsed();
    assert!(time < std::time::Duration::from_secs(20), "{time:?}");
    drop((silent, more));
}

#[test]
fn text_that_turns_the_direction_of_writing_is_said() {
    let film = Film::new();
    let turned = "if user != \"\u{202e}nimda\" {\n";
    film.write("plain.txt", "if user {\n");
    film.write("turned.txt", turned);
    film.write("\u{202e}gnp.txt", "plain");
    film.commit("texts");
    film.write("plain.txt", turned);
    let served = film.serve();
    let client = served.enter();
    const SAID: &str = "turn the direction of writing";
    for page in ["/file/@/turned.txt", "/compare?a=@:plain.txt&b=:plain.txt"] {
        assert!(client.page(page).contains(SAID), "{page}");
    }
    assert!(!client.page("/file/@/plain.txt").contains(SAID));
    // Names are never shown so.
    for page in ["/", "/tree/@", "/file/@/%E2%80%AEgnp.txt", "/log"] {
        assert!(!client.page(page).contains('\u{202e}'), "{page}");
    }
}

#[test]
fn a_refused_change_is_no_failure_of_the_server() {
    let film = Film::new();
    film.write("a.txt", "1");
    film.commit("first");
    let served = film.serve();
    let client = served.enter();
    let token = client.token();
    for (form, field) in [("/redo", ""), ("/resolve", "a.txt")] {
        let fields = [("token", &token[..]), ("path", field), ("choice", "ours")];
        let reply = client.post(&format!("{form}?json"), &fields);
        assert_eq!(reply.status, 409, "{form}: {}", reply.text());
    }
}

/// Readers that stop reading keep their connections, but not the places of others: also if they have the cookie.
#[test]
fn readers_that_rest_lock_nobody_out() {
    let film = Film::new();
    film.write("big.bin", dmv_random::noise(1, 12_000_000));
    film.commit("big");
    let served = film.serve();
    let client = served.enter();
    let mut resting = Vec::new();
    for target in ["/raw/@/big.bin", "/zip/@"].repeat(60) {
        let mut stream = served.connect();
        let head = client.head("GET", target) + "\r\n";
        stream.write_all(head.as_bytes()).expect("it is sent");
        let mut start = [0; 64];
        stream.read_exact(&mut start).expect("a beginning");
        resting.push(stream);
    }
    for _ in 0..3 {
        assert_eq!(client.get("/").status, 200);
    }
    let content = client.get("/raw/@/big.bin");
    assert_eq!((content.status, content.body.len()), (200, 12_000_000));
}

/// The same of forms that do not arrive, which are waited for much longer than a page may take.
#[test]
fn forms_that_do_not_arrive_lock_nobody_out() {
    let film = Film::new();
    let served = film.serve();
    let client = served.enter();
    let mut waiting = Vec::new();
    for _ in 0..120 {
        let mut stream = served.connect();
        let head = client.head("POST", "/commit");
        let kind = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\n";
        let sent = stream.write_all(format!("{head}{kind}token=").as_bytes());
        sent.expect("it is sent");
        waiting.push(stream);
    }
    let start = std::time::Instant::now();
    assert_eq!(client.get("/").status, 200);
    assert!(start.elapsed().as_secs() < 6, "{:?}", start.elapsed());
}
