//! Work that takes long: files with a hole of 256 GiB stand for it. Pages answer at once, say how far it is, and it can be
//! stopped.

use crate::served::{Film, Served};
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

/// Nobody can read so much in the time of a test.
const HUGE: u64 = 256 << 30;

/// Makes a file as large as that. It takes no space.
pub fn enlarge(path: &Path) {
    let file = File::options()
        .append(true)
        .create(true)
        .open(path)
        .expect("a file");
    file.set_len(HUGE).expect("a file system with holes");
}

/// Bytes that this process has read so far.
#[cfg(target_os = "linux")]
fn bytes_read() -> u64 {
    let told = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = told.lines().find_map(|line| line.strip_prefix("rchar: "));
    line.and_then(|count| count.parse().ok()).unwrap_or(0)
}

#[cfg(target_os = "linux")]
#[test]
fn pages_do_not_read_huge_files() {
    let film = Film::new();
    for name in ["a.txt", "p.jpg", "s.wav", "t.tga", "d.bin"] {
        film.write(name, format!("the beginning of {name}"));
    }
    film.commit("first");
    for name in ["a.txt", "p.jpg", "s.wav", "t.tga", "d.bin", "new.bin"] {
        enlarge(&film.root().join(name));
    }
    let cache = tempfile::tempdir().expect("a directory");
    let served = Served::with_previews(film.root(), cache.path());
    let client = served.enter();
    let before = bytes_read();
    for page in ["/", "/worktree", "/worktree?part", "/tree/@", "/copies"] {
        assert_eq!(client.get(page).status, 200, "{page}");
    }
    let names = ["a.txt", "p.jpg", "s.wav", "t.tga", "d.bin"];
    for name in names {
        let page = client.page(&format!("/compare?a=@:{name}&b=:{name}"));
        let is_text = name.ends_with(".txt") || name.ends_with(".bin");
        assert_eq!(page.contains("too large to be read"), is_text, "{page}");
        assert_eq!(client.get(&format!("/preview/:/{name}")).status, 200);
        assert_eq!(client.get(&format!("/preview/:/{name}?json")).status, 200);
        let part = client.get_with(
            &format!("/raw/:/{name}"),
            "Range: bytes=99999999-100000007\r\n",
        );
        assert_eq!((part.status, &part.body[..]), (206, &[0; 9][..]));
    }
    let page = client.page("/compare?a=@:a.txt&b=:a.txt");
    assert!(page.contains("dmv diff -- a.txt"), "{page}");
    // Other tests read in this process, too, but not so much.
    let read = bytes_read() - before;
    assert!(read < HUGE / 16, "{read} bytes were read");
}

#[test]
fn a_long_change_goes_on_behind_its_page_until_it_is_stopped() {
    let film = Film::new();
    film.write("a.txt", "1");
    let first = film.commit("first").to_string();
    enlarge(&film.root().join("huge.bin"));
    let served = film.serve();
    let client = served.enter();
    let token = client.token();
    let fields = [("token", &token[..]), ("message", "huge"), ("back", "/log")];
    let reply = client.post("/commit", &fields);
    assert_eq!(
        (reply.status, reply.header("location")),
        (303, Some("/doing"))
    );
    let page = client.page("/doing");
    assert!(page.contains("Committing your files"), "{page}");
    assert!(page.contains("action=\"/stop\""), "{page}");
    assert!(page.contains("If you stop, nothing is committed"), "{page}");
    // Other pages can be read, and say so; another change has to wait.
    let log = client.page("/log");
    assert!(log.contains("A change is under way"), "{log}");
    let page = client.change("/commit", &[("message", "another")]);
    assert!(
        page.contains("another change from these pages is under way"),
        "{page}"
    );
    let reply = client.post("/redo?json", &[("token", &token)]);
    assert_eq!(reply.status, 503, "{}", reply.text());
    let bytes = || client.json("/doing")["bytes"].as_u64().expect("a number");
    let before = bytes();
    let begun = Instant::now();
    while bytes() == before && begun.elapsed() < Duration::from_secs(30) {
        std::thread::yield_now();
    }
    assert!(bytes() > before, "the number grows");
    // Only a form stops it.
    assert_eq!(client.get("/stop").status, 404);
    assert_eq!(client.post("/stop", &[]).status, 403);
    assert_eq!(client.json("/doing")["state"], "under way");
    let reply = client.post("/stop", &[("token", &token)]);
    assert_eq!(
        (reply.status, reply.header("location")),
        (303, Some("/doing"))
    );
    let begun = Instant::now();
    while client.json("/doing")["state"] == "under way" && begun.elapsed() < Duration::from_secs(60)
    {
        std::thread::yield_now();
    }
    let values = client.json("/doing");
    assert_eq!(values["state"], "stopped", "{values}");
    // What was stopped, what is safe, and what to do next.
    const STOPPED: &str =
        "You stopped the commit. Nothing was committed, and your files are as they were.";
    const NEXT: &str = "press Commit on the overview to begin again";
    assert_eq!(values["text"], STOPPED);
    assert_eq!(values["hint"], NEXT);
    assert_eq!(values["stopping"], false);
    assert!(values["bytes"].as_u64().expect("a number") < HUGE);
    // It leads to the page that its form has named.
    let reply = client.get("/doing");
    assert_eq!(reply.status, 303);
    let back = reply.header("location").expect("a page").to_owned();
    assert!(back.starts_with("/log?note="), "{back}");
    let page = client.page(&back);
    assert!(
        page.contains(STOPPED) && page.contains(&format!("To do: {NEXT}")),
        "{page}"
    );
    assert!(
        !page.contains("note bad") && !page.contains("A change is under way"),
        "{page}"
    );
    assert_eq!(
        client.json("/log")["commits"][0]["id"],
        first,
        "nothing was committed"
    );
    // The next change can begin.
    std::fs::remove_file(film.root().join("huge.bin")).expect("removed");
    film.write("a.txt", "2");
    assert!(
        client
            .change("/commit", &[("message", "small")])
            .contains("Committed")
    );
}

#[test]
fn a_server_that_stops_takes_a_long_change_back() {
    let film = Film::new();
    film.write("a.txt", "1");
    let first = film.commit("first");
    enlarge(&film.root().join("huge.bin"));
    let served = film.serve();
    {
        let client = served.enter();
        let token = client.token();
        let reply = client.post("/commit?json", &[("token", &token), ("message", "huge")]);
        assert_eq!(reply.status, 202, "{}", reply.text());
        let values: serde_json::Value = serde_json::from_str(&reply.text()).expect("JSON");
        assert_eq!(
            (&values["state"], &values["verb"]),
            (&"under way".into(), &"commit".into())
        );
    }
    drop(served);
    assert_eq!(film.repo.head_commit().expect("a head"), Some(first));
    std::fs::remove_file(film.root().join("huge.bin")).expect("removed");
    film.write("a.txt", "2");
    film.commit("the lock is free");
}
