//! Content: ranges of files, and archives.

use crate::changes::clash;
use crate::served::{Client, Film};
use dmv_random::noise;
use std::io::{Cursor, Read};

fn range(client: &Client<'_>, target: &str, range: &str) -> (u16, Vec<u8>, Option<String>) {
    let reply = client.get_with(target, &format!("Range: {range}\r\n"));
    let span = reply.header("content-range").map(str::to_owned);
    (reply.status, reply.body, span)
}

#[test]
fn any_range_of_a_file_is_its_bytes() {
    let film = Film::new();
    let content = noise(1, 3_000_000);
    film.write("clip.mp4", &content);
    film.commit("clip");
    let served = film.serve();
    let client = served.enter();
    let whole = client.get("/raw/@/clip.mp4");
    assert_eq!((whole.status, whole.body.len()), (200, content.len()));
    assert!(whole.body == content);
    assert_eq!(whole.header("accept-ranges"), Some("bytes"));
    assert_eq!(whole.header("content-length"), Some("3000000"));
    assert_eq!(whole.header("content-type"), Some("video/mp4"));
    let mut seed = 7_u64;
    for n in 0..200 {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let from = (seed >> 33) as usize % content.len();
        let to = (from + (seed >> 11) as usize % 700_000).min(content.len() - 1);
        let (status, body, span) = range(&client, "/raw/@/clip.mp4", &format!("bytes={from}-{to}"));
        assert_eq!(status, 206, "{n}");
        assert!(body == content[from..=to], "{n}: {from}-{to}");
        assert_eq!(span, Some(format!("bytes {from}-{to}/3000000")));
    }
    let (status, body, _) = range(&client, "/raw/@/clip.mp4", "bytes=-5");
    assert_eq!((status, &body[..]), (206, &content[content.len() - 5..]));
    let (status, _, span) = range(&client, "/raw/@/clip.mp4", "bytes=3000000-");
    assert_eq!((status, span.as_deref()), (416, Some("bytes */3000000")));
    // Several ranges are a way to ask for a file many times over: it is sent once.
    let bomb = format!("bytes={}", vec!["0-"; 1000].join(","));
    let (status, body, _) = range(&client, "/raw/@/clip.mp4", &bomb);
    assert_eq!((status, body.len()), (200, content.len()));
    let head = served.send(&client.head("HEAD", "/raw/@/clip.mp4"));
    assert_eq!(
        (head.status, head.header("content-length"), head.body.len()),
        (200, Some("3000000"), 0)
    );
}

#[test]
fn a_tag_is_the_id_of_the_content() {
    let film = Film::new();
    film.write("a.txt", "one");
    let first = film.commit("one");
    film.write("a.txt", "two");
    film.commit("two");
    let served = film.serve();
    let client = served.enter();
    let now = client.get("/raw/@/a.txt");
    let tag = now.header("etag").expect("a tag").to_owned();
    let id = client.json("/file/@/a.txt")["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    assert_eq!(tag, format!("\"{id}\""));
    assert_eq!(now.header("cache-control"), Some("private, no-cache"));
    let fixed = client.get(&format!("/raw/{first}/a.txt"));
    assert!(
        fixed
            .header("cache-control")
            .is_some_and(|c| c.contains("immutable"))
    );
    assert_ne!(fixed.header("etag"), Some(&tag[..]));
    let known = client.get_with("/raw/@/a.txt", &format!("If-None-Match: {tag}\r\n"));
    assert_eq!((known.status, known.body.len()), (304, 0));
    let same = client.get_with(
        "/raw/@/a.txt",
        &format!("Range: bytes=1-\r\nIf-Range: {tag}\r\n"),
    );
    assert_eq!((same.status, &same.body[..]), (206, &b"wo"[..]));
    let other = client.get_with("/raw/@/a.txt", "Range: bytes=1-\r\nIf-Range: \"x\"\r\n");
    assert_eq!((other.status, &other.body[..]), (200, &b"two"[..]));
}

#[test]
fn a_directory_is_an_archive_of_its_files() {
    let film = Film::new();
    let big = noise(1, 1_500_000);
    film.write("shots/a.exr", &big);
    film.write("shots/deep/b.txt", "b");
    film.write("shots/gr\u{fc}n.txt", "");
    film.write("other.txt", "not in it");
    std::os::unix::fs::symlink("a.exr", film.root().join("shots/link")).expect("a symlink");
    film.commit("all");
    let served = film.serve();
    let client = served.enter();
    let reply = client.get("/zip/@/shots");
    assert_eq!(
        (reply.status, reply.header("content-type")),
        (200, Some("application/zip"))
    );
    let name = reply.header("content-disposition").expect("a name");
    assert!(name.starts_with("attachment; filename*=UTF-8''shots-") && name.ends_with(".zip"));
    let mut archive = zip::ZipArchive::new(Cursor::new(reply.body)).expect("an archive");
    let mut names: Vec<String> = archive
        .file_names()
        .map(|name| name.expect("a name").into_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["a.exr", "deep/b.txt", "gr\u{fc}n.txt", "link"]);
    let mut read = Vec::new();
    archive
        .by_name("a.exr")
        .expect("a file")
        .read_to_end(&mut read)
        .expect("its bytes");
    assert!(read == big);
    assert_eq!(client.get("/zip/@/other.txt").status, 400);
    assert_eq!(client.get("/zip/@").status, 200);
}

#[test]
fn who_stops_reading_an_archive_stops_only_that() {
    let film = Film::new();
    film.write("big.bin", noise(1, 20_000_000));
    film.commit("big");
    let served = film.serve();
    let client = served.enter();
    for _ in 0..6 {
        use std::io::Write;
        let mut stream = served.connect();
        let head = client.head("GET", "/zip/@") + "\r\n";
        stream.write_all(head.as_bytes()).expect("it is sent");
        let mut start = [0; 512];
        stream.read_exact(&mut start).expect("a beginning");
        drop(stream);
        // The thread that wrote it notices and makes room.
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert_eq!(client.get("/zip/@").status, 200);
    assert!(client.page("/").contains("film"));
}

#[test]
fn an_archive_has_all_versions_of_a_conflict() {
    let film = clash();
    let served = film.serve();
    let reply = served.enter().get("/zip/@/");
    let archive = zip::ZipArchive::new(Cursor::new(reply.body)).expect("an archive");
    let names = archive.file_names().map(|name| name.expect("a name"));
    let mut names: Vec<String> = names.map(|name| name.into_owned()).collect();
    names.sort();
    assert_eq!(
        names,
        ["s4.base.png", "s4.ours.png", "s4.png", "s4.theirs.png"]
    );
}
