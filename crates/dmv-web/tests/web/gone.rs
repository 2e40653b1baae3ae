//! A repository that goes away under its pages, and what is found in its place.

use crate::served::{Film, ada, request};
use dmv_core::Job;
use dmv_core::repo::{CommitOptions, Repo};

/// What every page and every form says while the repository is not there.
fn says(client: &crate::served::Client<'_>, token: &str, why: &str) {
    for page in ["/", "/log", "/tree/@", "/worktree?part", "/doing"] {
        let reply = client.get(page);
        assert_eq!(reply.status, 503, "{page}: {}", reply.text());
        let text = reply.text();
        assert!(text.contains(why) && text.contains("To do: "), "{text}");
    }
    let reply = client.post("/commit?json", &[("token", token), ("message", "lost")]);
    assert_eq!(reply.status, 503, "{}", reply.text());
    assert!(reply.text().contains(why), "{}", reply.text());
}

#[test]
fn a_form_never_changes_a_repository_around_its_own() {
    let film = Film::new();
    film.write("a.txt", "1");
    film.commit("first");
    film.write("a.txt", "2");
    let outer = Repo::init(film.dir.path(), "main", false, request("init")).expect("a repository");
    let served = film.serve();
    let client = served.enter();
    let token = client.token();
    let (dmv, away) = (film.root().join(".dmv"), film.dir.path().join("away"));
    std::fs::rename(&dmv, &away).expect("renamed");
    says(&client, &token, "is no longer at");
    assert_eq!(outer.head_commit().expect("a head"), None);
    std::fs::rename(&away, &dmv).expect("renamed");
    assert!(client.page("/log").contains("first"));
    let page = client.change("/commit", &[("message", "second")]);
    assert!(page.contains("Committed "), "{page}");
}

#[test]
fn another_repository_in_the_same_place_is_not_shown() {
    let film = Film::new();
    film.write("a.txt", "1");
    film.commit("first");
    let served = film.serve();
    let client = served.enter();
    let token = client.token();
    let away = film.dir.path().join("away");
    std::fs::rename(film.root(), &away).expect("renamed");
    let other = Repo::init(&film.root(), "main", false, request("init")).expect("a repository");
    std::fs::write(film.root().join("secret.txt"), "x").expect("a file");
    let options = CommitOptions::new("secret", ada(), request("commit"));
    let secret = other.commit(options, &Job::default()).expect("a commit");
    says(&client, &token, "another one is in its place");
    assert!(!client.get("/log").text().contains("secret"));
    assert_eq!(other.head_commit().expect("a head"), secret.commit);
    std::fs::remove_dir_all(film.root()).expect("removed");
    std::fs::rename(&away, film.root()).expect("renamed");
    assert!(client.page("/log").contains("first"));
}
