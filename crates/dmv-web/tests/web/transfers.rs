//! Sending to a remote and getting from it by forms.

use crate::served::{Client, Film, Served, ada, clone_as, request};
use dmv_core::Job;
use dmv_core::hash::ObjectId;
use dmv_core::repo::{CommitOptions, Repo};
use dmv_web::Options;
use std::path::PathBuf;

/// A repository and a copy of it, which is its remote `nas`.
struct Pair {
    film: Film,
    nas: PathBuf,
}

impl Pair {
    fn new() -> Pair {
        let film = Film::new();
        film.write("a.txt", "1");
        film.write("b.txt", "1");
        film.commit("first");
        let nas = film.dir.path().join("nas");
        clone_as(&film.root(), &nas, false);
        Pair { film, nas }
    }

    fn serve(&self) -> Served {
        let url = self.nas.to_string_lossy().into_owned();
        let remotes = vec![("nas".to_owned(), url)];
        Served::start(self.film.root(), Options::default(), remotes)
    }

    /// Commits at the remote, on a branch that pushes may not move.
    fn there(&self, name: &str, content: &str) -> ObjectId {
        let repo = Repo::open(&self.nas).expect("the remote");
        std::fs::write(self.nas.join(name), content).expect("a file");
        let options = CommitOptions::new(format!("{name} there"), ada(), request("commit"));
        let report = repo.commit(options, &Job::default()).expect("a commit");
        report.commit.expect("something changed")
    }
}

fn send(client: &Client<'_>, verb: &str) -> String {
    client.change(verb, &[("remote", "nas"), ("branch", "main")])
}

#[test]
fn commits_are_sent_and_gotten_by_forms() {
    let pair = Pair::new();
    let served = pair.serve();
    let client = served.enter();
    let page = client.page("/");
    assert!(
        page.contains("not asked yet") && page.contains("not there yet"),
        "{page}"
    );
    let page = send(&client, "/fetch");
    assert!(
        page.contains("nas has news") && page.contains("nas/main: new, at"),
        "{page}"
    );
    assert!(
        page.contains(">the same<") && !page.contains("action=\"/push\""),
        "{page}"
    );
    assert!(send(&client, "/fetch").contains("Nothing new at nas"));
    // Somebody else commits there.
    pair.there("b.txt", "theirs");
    send(&client, "/fetch");
    let page = client.page("/");
    assert!(
        page.contains("1 to pull") && page.contains("action=\"/pull\""),
        "{page}"
    );
    let page = send(&client, "/pull");
    assert!(
        page.contains("Got 1 commit from nas") && page.contains("1 file written"),
        "{page}"
    );
    let got = std::fs::read(pair.film.root().join("b.txt")).expect("a file");
    assert_eq!(got, b"theirs");
    assert!(send(&client, "/pull").contains("Nothing new at nas"));
    // And we do.
    pair.film.write("a.txt", "ours");
    client.change("/commit", &[("message", "ours")]);
    let page = client.page("/copies");
    assert!(
        page.contains("1 to push") && page.contains("action=\"/push\""),
        "{page}"
    );
    let page = send(&client, "/push");
    assert!(
        page.contains("Sent 1 commit of main to nas") && page.contains(" sent"),
        "{page}"
    );
    assert!(send(&client, "/push").contains("nas already has all of main"));
    let page = client.page("/copies");
    assert!(page.contains("\u{2713} Everything is on nas"), "{page}");
    let there = Repo::open(&pair.nas).expect("the remote");
    let id = there.ref_at("branch/main").expect("it can be read");
    assert_eq!(id, pair.film.repo.head_commit().expect("a head"));
}

#[test]
fn both_sides_that_went_on_are_merged_by_get() {
    let pair = Pair::new();
    let served = pair.serve();
    let client = served.enter();
    pair.there("b.txt", "theirs");
    pair.film.write("b.txt", "ours");
    client.change("/commit", &[("message", "ours")]);
    // The remote knows more: a push is refused in the words of the program, and says what to do.
    let page = send(&client, "/push");
    assert!(
        page.contains("note bad") && page.contains("Not sent: nas refuses"),
        "{page}"
    );
    assert!(page.contains("To do: get its commits first"), "{page}");
    let page = send(&client, "/pull");
    assert!(
        page.contains("Got 1 commit from nas") && page.contains("1 conflict to settle"),
        "{page}"
    );
    let page = client.page("/conflicts");
    for word in [
        "\u{201c}ours\u{201d} on main",
        "\u{201c}b.txt there\u{201d} on nas/main",
    ] {
        assert!(page.contains(word), "{word} in {page}");
    }
    // The comparison of both sides.
    let at = page.find("href=\"/compare").expect("a comparison") + 6;
    let link = page[at..]
        .split('"')
        .next()
        .expect("an address")
        .replace("&amp;", "&");
    let page = client.page(&link);
    assert!(page.contains("one side of the conflict"), "{page}");
    assert!(page.contains("theirs") && page.contains("ours"), "{page}");
    let log = client.page("/log");
    assert!(log.contains("b.txt is in conflict"), "{log}");
    assert_eq!(client.json("/log")["commits"][0]["conflicts"], 1);
}

#[test]
fn a_remote_that_is_away_is_said_in_the_words_of_the_program() {
    let pair = Pair::new();
    let served = pair.serve();
    let client = served.enter();
    std::fs::rename(&pair.nas, pair.film.dir.path().join("away")).expect("moved");
    for (verb, said) in [
        ("/push", "Not sent: "),
        ("/fetch", "Not fetched: "),
        ("/pull", "Not fetched: "),
    ] {
        let page = send(&client, verb);
        assert!(page.contains("note bad") && page.contains(said), "{page}");
        assert!(
            page.contains("remote nas: ") && page.contains("To do: see whether it is connected"),
            "{page}"
        );
    }
    for fields in [
        [("remote", "/etc"), ("branch", "main")],
        [("remote", ""), ("branch", "main")],
        [("remote", "ssh://evil.example/x"), ("branch", "main")],
    ] {
        let page = client.change("/push", &fields);
        assert!(
            page.contains("there is no such remote"),
            "{fields:?}: {page}"
        );
    }
    let page = client.change("/push", &[("remote", "nas"), ("branch", "none")]);
    assert!(page.contains("there is no such branch"), "{page}");
}

#[test]
fn a_moved_file_is_there_under_its_old_name() {
    let pair = Pair::new();
    let served = pair.serve();
    let client = served.enter();
    send(&client, "/fetch");
    let root = pair.film.root();
    std::fs::create_dir(root.join("sub")).expect("a directory");
    std::fs::rename(root.join("a.txt"), root.join("sub/moved.txt")).expect("moved");
    std::fs::write(root.join("copy.txt"), "1").expect("a file");
    client.change("/commit", &[("message", "moved")]);
    let page = client.page("/copies");
    assert!(
        page.contains("\u{2713} All files are on nas") && page.contains("1 to push"),
        "{page}"
    );
    pair.film.write("new.txt", "only here");
    client.change("/commit", &[("message", "new")]);
    let values = client.json("/copies");
    let only = &values["remotes"][0]["only_here"];
    assert_eq!(
        (&only["files"], &only["first"][0]["path"]),
        (&1.into(), &"new.txt".into())
    );
    // History says where a file came from.
    let log = client.page("/log");
    assert!(log.contains("a.txt \u{2192} "), "{log}");
    assert_eq!(client.json("/log")["commits"][1]["changed"], 2);
}
