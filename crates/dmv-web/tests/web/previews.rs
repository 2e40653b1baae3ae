//! Previews over real connections: made in a process of their own, kept by content, and told in words
//! where there is none.

use crate::served::{Film, Served};
use dmv_web::Options;
use serde_json::json;

/// A picture that no browser shows: a TGA of one colour.
fn tga(width: u16, height: u16, colour: u8) -> Vec<u8> {
    let mut out = vec![0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    out.extend(width.to_le_bytes());
    out.extend(height.to_le_bytes());
    out.extend([24, 0x20]);
    out.extend(std::iter::repeat_n(
        colour,
        usize::from(width) * usize::from(height) * 3,
    ));
    out
}

/// A picture with more light than a screen shows: 4 x 4 pixels of eight times white.
fn light() -> Vec<u8> {
    let mut out = b"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n-Y 4 +X 4\n".to_vec();
    out.extend([128, 128, 128, 132].repeat(16));
    out
}

fn film() -> Film {
    let film = Film::new();
    film.write("d/a.tga", tga(600, 300, 90));
    film.write("light.hdr", light());
    film.write("bad.tga", &tga(600, 300, 90)[..18]);
    film.write("photo.heic", b"\0\0\0\x18ftypheic\0\0\0\0mif1heic....");
    film.write("photo.cr3", b"\0\0\0\x18ftypcrx \0\0\0\x01crx isom....");
    film.write("note.txt", "text");
    film.commit("first");
    film
}

#[test]
fn a_preview_is_a_picture_that_may_do_nothing() {
    let film = film();
    let cache = tempfile::tempdir().expect("a directory");
    let served = Served::with_previews(film.root(), cache.path());
    let client = served.enter();
    let made = client.get("/preview/@/d/a.tga");
    assert_eq!(
        (made.status, made.header("content-type")),
        (200, Some("image/jpeg"))
    );
    assert!(made.body.starts_with(b"\xff\xd8\xff"));
    assert_eq!(made.header("x-content-type-options"), Some("nosniff"));
    assert!(
        made.header("content-security-policy")
            .expect("a policy")
            .starts_with("sandbox; default-src 'none'")
    );
    assert_eq!(made.header("cache-control"), Some("private, no-cache"));
    let tag = made.header("etag").expect("a tag").to_owned();
    let again = client.get_with("/preview/@/d/a.tga", &format!("If-None-Match: {tag}\r\n"));
    assert_eq!((again.status, again.body.len()), (304, 0));
    let large = client.get("/preview/@/d/a.tga?size=large");
    assert!(large.body.len() > made.body.len() && large.header("etag") != Some(&tag));
    let commit = client.json("/log")["commits"][0]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let fixed = client.get(&format!("/preview/{commit}/d/a.tga"));
    assert!(
        fixed
            .header("cache-control")
            .expect("a header")
            .contains("immutable")
    );
    assert_eq!(fixed.body, made.body);
    let facts = client.json("/preview/@/d/a.tga");
    assert_eq!(
        (&facts["width"], &facts["height"], &facts["reason"]),
        (&json!(600), &json!(300), &json!(null))
    );
    assert_eq!(facts["facts"][0], json!(["format", "TGA"]));
    // The rows of a directory show it, and so does its page.
    assert!(client.page("/tree/@/d").contains("/d/a.tga\""));
    assert!(client.page("/file/@/d/a.tga").contains("size=large"));
}

#[test]
fn what_has_no_preview_says_why() {
    let film = film();
    let cache = tempfile::tempdir().expect("a directory");
    let served = Served::with_previews(film.root(), cache.path());
    let client = served.enter();
    for (name, why) in [
        ("bad.tga", "the file is damaged"),
        ("photo.heic", "no decoder"),
        ("photo.cr3", "no maintained library in Rust reads CR3"),
    ] {
        let stand_in = client.get(&format!("/preview/@/{name}?size=large"));
        assert_eq!(
            (stand_in.status, stand_in.header("content-type")),
            (200, Some("image/svg+xml")),
            "{name}"
        );
        assert_eq!(
            stand_in.header("cache-control"),
            Some("no-store"),
            "it may be made later"
        );
        let reason = client.json(&format!("/preview/@/{name}"))["reason"].clone();
        assert!(
            reason.as_str().expect("a reason").contains(why),
            "{name}: {reason}"
        );
        // The decoder has said so once; now the page says it at once.
        let page = client.page(&format!("/file/@/{name}"));
        assert!(
            page.contains("No preview: ") && page.contains(why),
            "{name}: {page}"
        );
    }
    for nowhere in [
        "/preview/@/d",
        "/preview/@",
        "/preview/@/none.tga",
        "/preview/none/d/a.tga",
        "/preview/@/../d/a.tga",
    ] {
        assert!(
            [400, 404].contains(&client.get(nowhere).status),
            "{nowhere}"
        );
    }
}

#[test]
fn light_beyond_white_comes_back_with_exposure() {
    let film = film();
    let cache = tempfile::tempdir().expect("a directory");
    let served = Served::with_previews(film.root(), cache.path());
    let client = served.enter();
    let at = |stops: &str| client.get(&format!("/preview/@/light.hdr?size=large&stops={stops}"));
    let (plain, darker) = (at("0"), at("-5"));
    assert_eq!(
        plain.body,
        client.get("/preview/@/light.hdr?size=large").body
    );
    assert_eq!(
        (plain.header("content-type"), darker.header("content-type")),
        (Some("image/jpeg"), Some("image/jpeg"))
    );
    assert!(plain.body != darker.body && plain.header("etag") != darker.header("etag"));
    for (name, stops) in [("light.hdr", "17"), ("light.hdr", "-17"), ("d/a.tga", "1")] {
        let none = client.get(&format!("/preview/@/{name}?size=large&stops={stops}"));
        assert_eq!(
            none.header("content-type"),
            Some("image/svg+xml"),
            "{name} {stops}"
        );
    }
    let page = client.page("/compare?a=@%3Alight.hdr&b=@%3Alight.hdr");
    assert!(page.contains("the same content"));
}

#[test]
fn a_file_of_the_worktree_is_decoded_anew_each_time() {
    let film = film();
    let cache = tempfile::tempdir().expect("a directory");
    let served = Served::with_previews(film.root(), cache.path());
    let client = served.enter();
    let one = client.get("/preview/:/d/a.tga");
    assert_eq!(
        (one.header("content-type"), one.header("cache-control")),
        (Some("image/jpeg"), Some("no-store"))
    );
    assert_eq!(one.body, client.get("/preview/@/d/a.tga").body);
    film.write("d/a.tga", tga(600, 300, 200));
    let two = client.get("/preview/:/d/a.tga");
    assert!(two.body != one.body, "the file has changed");
    assert_eq!(
        client.get("/preview/@/d/a.tga").body,
        one.body,
        "the commit has not"
    );
    let page = client.page("/compare?a=@%3Ad/a.tga&b=%3Ad/a.tga");
    assert!(page.contains("/preview/%3A/d/a.tga?size=large"), "{page}");
    assert!(page.contains("data-channel=\"a\"") && page.contains("data-exposure"));
    assert_eq!(client.json("/preview/:/d/a.tga")["width"], json!(600));
}

#[test]
fn absent_content_is_not_fetched_for_a_preview() {
    let film = film();
    let clone = film.dir.path().join("part");
    crate::served::clone_metadata(&film.root(), &clone);
    let cache = tempfile::tempdir().expect("a directory");
    let served = Served::with_previews(clone, cache.path());
    let client = served.enter();
    let none = client.get("/preview/@/d/a.tga");
    assert_eq!(none.header("content-type"), Some("image/svg+xml"));
    assert_eq!(
        client.json("/preview/@/d/a.tga")["reason"],
        json!("its content is not here")
    );
}

#[test]
fn without_a_decoder_the_pages_work_and_say_so() {
    let film = film();
    let served = Served::start(film.root(), Options::default(), Vec::new());
    let client = served.enter();
    assert_eq!(
        client.json("/preview/@/d/a.tga")["reason"],
        json!("no previews are made here")
    );
    assert!(
        client
            .page("/file/@/d/a.tga")
            .contains("Browsers do not show pictures of this format")
    );
}
