//! What each page shows, as HTML and as JSON.

use crate::served::{Film, Served, ada, request};
use dmv_core::Job;
use dmv_core::object::signature::Signature;
use dmv_core::repo::{CheckoutOptions, CheckoutTarget, CommitOptions, RefKind, Repo, ResetFiles};
use dmv_web::Options;
use serde_json::json;

fn words(value: &serde_json::Value, key: &str) -> Vec<String> {
    let list = value.as_array().expect("a list").iter();
    list.map(|v| v[key].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn an_empty_repository_says_what_to_do() {
    let film = Film::new();
    let served = film.serve();
    let client = served.enter();
    assert!(
        client
            .page("/worktree")
            .contains("There are no files and no commits yet")
    );
    assert!(client.page("/log").contains("There are no commits yet"));
    assert!(client.page("/conflicts").contains("There are no conflicts"));
    assert_eq!(client.get("/tree/@").status, 404);
    assert_eq!(client.json("/")["commit"], json!(null));
}

#[test]
fn the_overview_tells_branch_changes_and_space() {
    let film = Film::new();
    film.write("a.txt", "1");
    film.write("b.txt", "1");
    let id = film.commit("first cut");
    film.write("a.txt", "22");
    film.write("new.txt", "3");
    std::fs::remove_file(film.root().join("b.txt")).expect("a file");
    let served = film.serve();
    let client = served.enter();
    let values = client.json("/");
    assert_eq!(
        (&values["branch"], &values["commit"]),
        (&json!("main"), &json!(id.to_string()))
    );
    let changes = &values["status"]["changes"];
    assert_eq!(words(changes, "path"), ["a.txt", "b.txt", "new.txt"]);
    assert_eq!(words(changes, "change"), ["modified", "deleted", "added"]);
    assert_eq!(values["space"]["head_files"], json!(2));
    let page = client.page("/") + &client.page("/worktree");
    assert!(
        page.contains("first cut")
            && page.contains("new.txt")
            && page.contains("action=\"/commit\"")
    );
}

#[test]
fn a_long_history_has_pages_that_join() {
    let film = Film::new();
    let mut ids = Vec::new();
    for n in 0..95 {
        film.write("a.txt", format!("{n}"));
        if n % 10 == 0 {
            film.write("b.txt", format!("{n}"));
        }
        ids.push(film.commit(&format!("take {n}")).to_string());
    }
    ids.reverse();
    let served = film.serve();
    let client = served.enter();
    let mut found = Vec::new();
    let mut next = Some("/log".to_owned());
    let mut pages = 0;
    while let Some(target) = next {
        let values = client.json(&target);
        found.extend(words(&values["commits"], "id"));
        next = values["next"].as_str().map(str::to_owned);
        pages += 1;
    }
    assert_eq!((found, pages), (ids, 3));
    let of_b = client.json("/log/b.txt");
    let messages = words(&of_b["commits"], "message");
    let want: Vec<String> = (0..10).rev().map(|n| format!("take {}", n * 10)).collect();
    assert_eq!(messages, want);
    let page = client.page("/log");
    assert!(page.contains("Older commits"));
    // What a browser loads for it, pictures aside.
    let mut weight = page.len();
    for part in page
        .split('"')
        .filter(|part| {
            ["/style-", "/script-", "/icon-"]
                .iter()
                .any(|asset| part.starts_with(asset))
        })
        .collect::<std::collections::HashSet<_>>()
    {
        let asset = client.get_with(part, "Accept-Encoding: gzip, br\r\n");
        assert_eq!(asset.header("content-encoding"), Some("gzip"));
        assert!(
            client.get(part).body.len() >= asset.body.len()
                && client.get(part).header("content-encoding").is_none()
        );
        weight += asset.body.len();
    }
    assert!(weight <= 60 << 10, "{weight}");
}

#[test]
fn a_moved_file_keeps_its_history() {
    let film = Film::new();
    let content = "line\n".repeat(2000);
    film.write("old.txt", &content);
    film.commit("made");
    std::fs::rename(film.root().join("old.txt"), film.root().join("new.txt")).expect("it moves");
    film.commit("moved");
    film.write("new.txt", content + "more\n");
    film.commit("changed");
    let served = film.serve();
    let client = served.enter();
    let messages = words(&client.json("/log/new.txt")["commits"], "message");
    assert_eq!(messages, ["changed", "moved", "made"]);
    let versions = &client.json("/file/@/new.txt")["versions"];
    assert_eq!(words(versions, "path"), ["new.txt", "new.txt", "old.txt"]);
}

#[test]
fn a_merge_is_drawn_and_both_sides_are_listed() {
    let film = Film::new();
    film.write("a.txt", "1");
    let base = film.commit("base");
    film.write("b.txt", "1");
    film.commit("ours");
    let target = CheckoutTarget::NewBranch("side".to_owned(), base);
    let options = CheckoutOptions::new(request("checkout"));
    film.repo
        .checkout(target, &options, &Job::default())
        .expect("a checkout");
    film.write("c.txt", "1");
    let side = film.commit("theirs");
    film.repo
        .checkout(
            CheckoutTarget::Branch("main".to_owned()),
            &options,
            &Job::default(),
        )
        .expect("a checkout");
    let merge = dmv_core::repo::MergeOptions {
        message: "joined".to_owned(),
        committer: crate::served::ada(),
        settings: Default::default(),
        request: request("merge"),
    };
    film.repo
        .merge(side, Default::default(), &merge, &Job::default())
        .expect("a merge");
    let served = film.serve();
    let client = served.enter();
    let values = client.json("/log");
    let mut messages = words(&values["commits"], "message");
    assert_eq!(
        (
            &messages.remove(0)[..],
            &messages.pop().expect("a base")[..]
        ),
        ("joined", "base")
    );
    messages.sort();
    assert_eq!(messages, ["ours", "theirs"]);
    let page = client.page("/log");
    assert!(page.contains("<svg") && page.contains("class=\"l1\"") && page.contains(">merge<"));
    let branches = &client.json("/")["branches"];
    assert_eq!(words(branches, "name"), ["main", "side"]);
}

#[test]
fn a_tree_groups_frames_and_has_pages() {
    let film = Film::new();
    for n in (1001..=1240).filter(|n| ![1003, 1004, 1100].contains(n)) {
        film.write(format!("shot/s4.{n}.exr"), format!("{n}"));
    }
    for n in 0..130 {
        film.write(format!("notes/n{n:03}.txt"), "x");
    }
    film.commit("all");
    let served = film.serve();
    let client = served.enter();
    let shot = client.json("/tree/@/shot");
    let rows = shot["entries"].as_array().expect("rows");
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0]["path"], "s4.####.exr");
    assert_eq!(
        (&rows[0]["frames"], &rows[0]["missing"]),
        (&json!(237), &json!(3))
    );
    assert_eq!(rows[0]["gaps"], json!([[1003, 1004], [1100, 1100]]));
    let page = client.page("/tree/@/shot");
    assert!(
        page.contains("3 missing (1003\u{2013}1004, 1100)"),
        "{page}"
    );
    let frames = client.json("/tree/@/shot?sequence=s4.%23%23%23%23.exr&page=2");
    assert_eq!(frames["rows"], json!(237));
    assert_eq!(frames["entries"].as_array().map(Vec::len), Some(37));
    let first = client.json("/tree/@/notes");
    assert_eq!((&first["rows"], &first["pages"]), (&json!(130), &json!(2)));
    let second = client.json("/tree/@/notes?page=1");
    assert_eq!(
        words(&second["entries"], "path")
            .first()
            .map(String::as_str),
        Some("notes/n100.txt")
    );
    assert!(
        client
            .page("/tree/@/notes?view=grid")
            .contains("class=\"grid\"")
    );
    assert!(client.page("/tree/@/notes?page=99").contains("empty"));
    assert_eq!(client.get("/tree/@/shot?sequence=x").status, 404);
    assert_eq!(client.get("/tree/@/notes/n000.txt").status, 303);
}

#[test]
fn a_file_shows_what_it_is() {
    let film = Film::new();
    film.write("a.txt", "a <b> & c\n");
    film.write("p.png", b"\x89PNG\r\n\x1a\nxxxx");
    film.write("s.wav", b"RIFFxxxx");
    film.write("f.mp4", b"xxxxftyp");
    film.write("x.exr", b"v/1\x01");
    film.write("x.bin", b"\0\x01\x02");
    film.write("empty.txt", "");
    std::os::unix::fs::symlink("a.txt", film.root().join("l")).expect("a symlink");
    film.commit("all");
    let served = film.serve();
    let client = served.enter();
    let cases = [
        ("a.txt", "a &lt;b&gt; &amp; c"),
        ("p.png", "<img class=\"view\""),
        ("s.wav", "<audio"),
        ("f.mp4", "<video"),
        ("x.exr", "Browsers do not show pictures of this format"),
        ("x.bin", "not a text, and its format cannot be shown"),
        ("empty.txt", "This file is empty"),
        ("l", "A symlink to"),
    ];
    for (name, want) in cases {
        let page = client.page(&format!("/file/@/{name}"));
        assert!(page.contains(want), "{name}: {page}");
    }
    assert_eq!(client.get("/file/@/none.txt").status, 404);
    assert_eq!(client.get("/file/none/a.txt").status, 404);
    assert_eq!(client.get("/nowhere").status, 404);
}

#[test]
fn versions_are_compared_by_what_they_are() {
    let film = Film::new();
    film.write("a.txt", "one\ntwo\nthree\n");
    film.write("p.png", b"\x89PNG\r\n\x1a\n1");
    film.write("s.wav", b"RIFF1");
    film.write("x.bin", vec![0; 400_000]);
    film.write("gone.txt", "x");
    let old = film.commit("old").to_string();
    film.write("a.txt", "one\n2\nthree\n");
    film.write("p.png", b"\x89PNG\r\n\x1a\n22");
    film.write("s.wav", b"RIFF2");
    let mut other = vec![0; 400_000];
    other[5] = 1;
    film.write("x.bin", other);
    std::fs::remove_file(film.root().join("gone.txt")).expect("a file");
    film.commit("new");
    let served = film.serve();
    let client = served.enter();
    let of = |name: &str| format!("/compare?a={old}%3A{name}&b=%40%3A{name}");
    assert_eq!(
        client.json(&of("a.txt"))["diff"],
        json!([" one", "-two", "+2", " three"])
    );
    assert!(
        client
            .page(&of("a.txt"))
            .contains("1 line added, 1 removed")
    );
    let pictures = client.page(&of("p.png"));
    assert!(pictures.contains("data-compare") && pictures.contains("Onion skin"));
    assert!(client.page(&of("s.wav")).contains("data-players"));
    let bytes = client.json(&of("x.bin"));
    assert!(bytes["shared_bytes"].as_u64() > Some(0) && bytes["new_bytes"].as_u64() > Some(0));
    let trees = client.json(&of(""));
    assert_eq!(
        words(&trees["changes"], "path"),
        ["a.txt", "gone.txt", "p.png", "s.wav", "x.bin"]
    );
    assert_eq!(words(&trees["changes"], "change")[1], "deleted");
    assert_eq!(
        client.json("/compare?a=@%3Aa.txt&b=@%3Aa.txt")["same"],
        json!(true)
    );
    for wrong in [
        "/compare",
        "/compare?a=@:a.txt",
        "/compare?a=x&b=y",
        "/compare?a=@:a.txt&b=none:a.txt",
    ] {
        assert!([400, 404].contains(&client.get(wrong).status), "{wrong}");
    }
    // Commands that a page names can be typed.
    for (wrong, words) in [
        ("gone.txt", "your worktree has no file 'gone.txt'"),
        ("", "this names no file of your worktree"),
    ] {
        let told = client.json(&format!("/compare?a=@~1:{wrong}&b=:{wrong}"));
        assert_eq!(
            (&told["message"], &told["hint"]),
            (&json!(words), &json!("dmv status"))
        );
    }
}

#[test]
fn a_repository_that_goes_away_is_told_and_found_again() {
    let film = Film::new();
    film.write("a.txt", "hello");
    film.commit("first");
    let served = film.serve();
    let client = served.enter();
    assert!(client.page("/log").contains("first"));
    let away = film.dir.path().join("away");
    std::fs::rename(film.root(), &away).expect("it moves");
    let gone = client.get("/log");
    assert_eq!(gone.status, 503);
    assert!(!gone.text().contains("first"));
    assert_eq!(client.json("/")["type"], "error");
    std::fs::rename(&away, film.root()).expect("it comes back");
    assert!(client.page("/log").contains("first"));
}

#[test]
fn what_a_command_does_meanwhile_shows_on_the_next_page() {
    let film = Film::new();
    film.write("a.txt", "1");
    film.commit("first");
    let served = film.serve();
    let (one, two) = (served.enter(), film);
    assert!(!one.page("/log").contains("second"));
    two.write("a.txt", "2");
    assert_eq!(
        one.json("/")["status"]["changes"].as_array().map(Vec::len),
        Some(1)
    );
    two.commit("second");
    assert!(one.page("/log").contains("second"));
    assert_eq!(one.json("/")["status"]["changes"], json!([]));
    assert_eq!(one.get("/raw/@/a.txt").body, b"2");
}

#[test]
fn absent_content_is_fetched_only_when_asked_for() {
    let film = Film::new();
    film.write("a.txt", "far away");
    film.write("b.txt", "also");
    film.commit("first");
    let clone = film.dir.path().join("part");
    crate::served::clone_metadata(&film.root(), &clone);
    let remotes = vec![("nas".to_owned(), film.root().to_string_lossy().into_owned())];
    let served = Served::start(clone, Options::default(), remotes);
    let client = served.enter();
    assert_eq!(client.json("/copies")["partial"], json!("no file content"));
    let page = client.page("/file/@/a.txt");
    assert!(
        page.contains("Not here: 8 B") && page.contains("nas") && page.contains("Get it"),
        "{page}"
    );
    assert_eq!(client.get("/raw/@/a.txt").status, 404);
    assert_eq!(client.get("/zip/@").status, 404);
    assert!(client.page("/tree/@").contains("not here"));
    assert!(
        client.page("/file/@/a.txt").contains("Not here"),
        "looking fetches nothing"
    );
    client.change(
        "/get",
        &[
            ("revision", "@"),
            ("path", "a.txt"),
            ("back", "/file/@/a.txt"),
        ],
    );
    for _ in 0..200 {
        if client.json("/getting")["state"] != "under way" {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(
        client.json("/getting")["state"],
        "done",
        "{}",
        client.json("/getting")
    );
    assert_eq!(client.get("/raw/@/a.txt").body, b"far away");
    assert_eq!(client.get("/raw/@/b.txt").status, 404);
}

#[test]
fn a_file_of_the_worktree_is_compared_with_a_commit() {
    let film = Film::new();
    film.write("a.txt", "one\ntwo\n");
    film.write("d/p.png", b"\x89PNG\r\n\x1a\n1");
    film.write("x.bin", vec![0; 400_000]);
    film.commit("first");
    film.write("a.txt", "one\n2\n");
    film.write("d/p.png", b"\x89PNG\r\n\x1a\nnow");
    let mut other = vec![0; 400_000];
    other[399_999] = 1;
    film.write("x.bin", &other);
    film.write("new.txt", "not added");
    let served = film.serve();
    let client = served.enter();
    let of = |name: &str| format!("/compare?a=%40%3A{name}&b=%3A{name}");
    let text = client.json(&of("a.txt"));
    assert_eq!(text["diff"], json!([" one", "-two", "+2"]));
    assert_eq!(
        (&text["b"]["commit"], &text["b"]["size"]),
        (&json!(null), &json!(6))
    );
    assert!(
        client
            .page(&of("a.txt"))
            .contains("your file, as it is now")
    );
    let turned = client.json("/compare?a=%3Aa.txt&b=%40%3Aa.txt");
    assert_eq!(turned["diff"], json!([" one", "-2", "+two"]));
    let pictures = client.page(&of("d/p.png"));
    assert!(
        pictures.contains("/raw/%3A/d/p.png") && pictures.contains("data-compare"),
        "{pictures}"
    );
    let bytes = client.json(&of("x.bin"));
    assert!(bytes["shared_bytes"].as_u64() > Some(0) && bytes["new_bytes"].as_u64() > Some(0));
    film.write("x.bin", vec![0; 400_000]);
    assert_eq!(client.json(&of("x.bin"))["same"], json!(true));
    // The overview and the page of the file lead there.
    assert!(client.page("/worktree").contains("%3Aa.txt"));
    assert!(
        client
            .page("/file/@/a.txt")
            .contains("Compare with your file")
    );
    std::fs::remove_file(film.root().join("a.txt")).expect("a file");
    assert!(
        !client
            .page("/file/@/a.txt")
            .contains("Compare with your file")
    );
    assert_eq!(client.get(&of("a.txt")).status, 404);
}

#[test]
fn a_file_of_the_worktree_is_sent_as_it_is_and_nothing_beside_it() {
    let film = Film::new();
    film.write("a.txt", "hello");
    film.write("d/b.txt", "below");
    film.commit("first");
    film.write("a.txt", "changed");
    let root = film.root();
    std::os::unix::fs::symlink("/etc/passwd", root.join("link")).expect("a link");
    std::os::unix::fs::symlink("/etc", root.join("dir")).expect("a link");
    let served = film.serve();
    let client = served.enter();
    let whole = client.get("/raw/:/a.txt");
    assert_eq!((whole.status, &whole.body[..]), (200, &b"changed"[..]));
    assert_eq!(whole.header("cache-control"), Some("no-store"));
    assert_eq!(whole.header("etag"), None);
    assert!(
        whole
            .header("content-security-policy")
            .expect("a policy")
            .contains("sandbox")
    );
    let part = client.get_with("/raw/:/a.txt", "Range: bytes=2-3\r\n");
    assert_eq!((part.status, &part.body[..]), (206, &b"an"[..]));
    assert_eq!(
        client
            .get_with("/raw/:/a.txt", "Range: bytes=7-\r\n")
            .status,
        416
    );
    let old = client.get_with("/raw/:/a.txt", "Range: bytes=2-3\r\nIf-Range: \"x\"\r\n");
    assert_eq!((old.status, &old.body[..]), (200, &b"changed"[..]));
    assert_eq!(client.get("/raw/%3A/d/b.txt").body, b"below");
    for target in [
        "link",
        "dir/passwd",
        "dir",
        "d",
        "",
        ".",
        "..",
        "../film/a.txt",
        "%2e%2e/film/a.txt",
        "..%2ffilm%2fa.txt",
        ".dmv/config.toml",
        ".dmv",
        "d/../a.txt",
        "/etc/passwd",
        "none",
        "d/none/x",
    ] {
        for page in ["raw", "preview", "file"] {
            let reply = client.get(&format!("/{page}/:/{target}"));
            assert!(
                reply.status >= 400,
                "{target}: {} {}",
                reply.status,
                reply.text()
            );
            assert!(
                !reply.text().contains("root:") && !reply.text().contains("changed"),
                "{target}"
            );
        }
        let reply = client.get(&format!("/compare?a=@%3Aa.txt&b=%3A{target}"));
        assert!(reply.status >= 400, "{target}: {}", reply.text());
    }
}

#[test]
fn copies_tell_what_a_remote_had_and_what_is_not_known() {
    let film = Film::new();
    film.write("a.txt", "first");
    film.write("b.txt", "first");
    film.commit("first");
    let clone = film.dir.path().join("part");
    crate::served::clone_as(&film.root(), &clone, false);
    let remotes = vec![(
        "origin".to_owned(),
        film.root().to_string_lossy().into_owned(),
    )];
    let served = Served::start(clone.clone(), Options::default(), remotes);
    let client = served.enter();
    let values = client.json("/copies");
    assert_eq!(values["partial"], json!(null));
    let origin = &values["remotes"][0];
    assert_eq!(
        (&origin["name"], &origin["only_here"]["files"]),
        (&json!("origin"), &json!(0))
    );
    assert_eq!(
        (
            &origin["branches"][0]["ahead"],
            &origin["branches"][0]["behind"]
        ),
        (&json!(0), &json!(0))
    );
    assert!(
        client
            .page("/file/@/a.txt")
            .contains("origin: in its branch main")
    );
    let part = Repo::open(&clone).expect("it opens");
    std::fs::write(clone.join("new.txt"), "only here").expect("a file");
    part.commit(
        CommitOptions::new("here", ada(), request("commit")),
        &Job::default(),
    )
    .expect("a commit");
    let values = client.json("/copies");
    let only = &values["remotes"][0]["only_here"];
    assert_eq!(
        (&only["files"], &only["first"][0]["path"]),
        (&json!(1), &json!("new.txt"))
    );
    let page = client.page("/copies");
    assert!(
        page.contains("new.txt")
            && page.contains("What is not known here")
            && page.contains("1 to push"),
        "{page}"
    );
    assert!(
        client
            .page("/file/@/new.txt")
            .contains("origin: not in the newest commits")
    );
    let alone = film.serve();
    assert!(
        alone
            .enter()
            .page("/copies")
            .contains("no copy elsewhere that dmv knows")
    );
}

#[test]
fn a_commit_says_who_signed_it_and_its_files_where_they_are_newer() {
    let film = Film::new();
    film.write("shots/1", "1");
    film.write("shots/2", "1");
    let first = film.commit("first cut");
    let served = film.serve();
    assert!(!served.enter().page("/tree/@").contains("signature"));

    film.repo.sign_commits_by(Box::new(|_| {
        let (key, bytes) = ([1; 32], [1; 64]);
        Ok(Signature::Device { key, bytes })
    }));
    let side = RefKind::Branch;
    film.write("shots/1", "2");
    let signed = film.commit("second cut");
    film.repo
        .create_ref(side, "side", signed, request("branch"))
        .expect("a branch");
    film.repo
        .reset(
            first,
            ResetFiles::Match,
            &request("reset"),
            &Default::default(),
            &Job::default(),
        )
        .expect("a reset");
    let served = film.serve();
    let client = served.enter();
    assert!(
        client
            .page(&format!("/tree/{signed}"))
            .contains("signature: bad")
    );
    for view in ["/tree/@/shots", "/tree/@/shots?view=grid"] {
        let page = client.page(view);
        assert_eq!(page.matches("newer on side, by Ada").count(), 1, "{page}");
    }
    assert!(!client.page("/tree/@").contains("newer on"));
    assert!(
        !client
            .page(&format!("/tree/{signed}/shots"))
            .contains("newer on")
    );
    let entries = &client.json("/tree/@/shots")["entries"];
    assert_eq!(entries[0]["newer"], "newer on side, by Ada");
    assert_eq!(entries[1].get("newer"), None);
}
