//! What forms change, and that they are the operations of the commands.

use crate::served::{Client, Film, ada, request};
use dmv_core::Job;
use dmv_core::hash::encode_hex;
use dmv_core::repo::{
    AddOptions, CheckoutOptions, CheckoutTarget, CommitOptions, Head, MergeOptions, Repo, StashAt,
    StashOptions, UndoOptions, UndoWhat,
};
use dmv_core::worktree::select::Paths;
use serde_json::json;

#[test]
fn a_commit_is_undone_and_redone() {
    let film = Film::new();
    film.write("a.txt", "1");
    film.commit("first");
    film.write("a.txt", "2");
    let served = film.serve();
    let client = served.enter();
    let page = client.change(
        "/commit",
        &[("message", "warmer\r\n\r\nand softer"), ("back", "/")],
    );
    assert!(
        page.contains("Committed ") && page.contains("1 file changed"),
        "{page}"
    );
    let commits = client.json("/log");
    assert_eq!(commits["commits"][0]["message"], "warmer\n\nand softer");
    assert_eq!(commits["commits"][0]["author"], "Ada <ada@example.org>");
    assert!(client.page("/worktree").contains("dmv web: commit"));
    let page = client.undo();
    assert!(page.contains("Undone: dmv web: commit"), "{page}");
    assert_eq!(client.json("/")["status"]["changes"][0]["path"], "a.txt");
    assert_eq!(
        std::fs::read(film.root().join("a.txt")).expect("a file"),
        b"2"
    );
    let page = client.change("/redo", &[]);
    assert!(page.contains("Redone"), "{page}");
    assert_eq!(
        client.json("/log")["commits"][0]["message"],
        "warmer\n\nand softer"
    );
    assert!(
        client
            .change("/commit", &[("message", "again")])
            .contains("Nothing to commit")
    );
    assert!(
        client
            .change("/commit", &[("message", " \r\n")])
            .contains("needs a message")
    );
}

#[test]
fn an_old_version_comes_back_and_can_go_again() {
    let film = Film::new();
    film.write("a b.txt", "old");
    let old = film.commit("old").to_string();
    film.write("a b.txt", "new");
    film.commit("new");
    let served = film.serve();
    let client = served.enter();
    let fields = [
        ("revision", &old[..]),
        ("path", "a b.txt"),
        ("back", "/file/@/a%20b.txt"),
    ];
    let page = client.change("/restore", &fields);
    assert!(page.contains("Restored a b.txt"), "{page}");
    assert_eq!(
        std::fs::read(film.root().join("a b.txt")).expect("a file"),
        b"old"
    );
    client.undo();
    assert_eq!(
        std::fs::read(film.root().join("a b.txt")).expect("a file"),
        b"new"
    );
    for path in ["../a b.txt", "/etc/passwd", "none.txt", ""] {
        let fields = [("revision", &old[..]), ("path", path)];
        let page = client.change("/restore", &fields);
        assert!(
            path.is_empty() || page.contains("note bad"),
            "{path}: {page}"
        );
    }
}

#[cfg(unix)]
#[test]
fn a_restore_that_is_refused_does_not_say_restored() {
    let film = Film::new();
    film.write("a.txt", "old");
    let old = film.commit("old").to_string();
    let path = film.root().join("a.txt");
    std::fs::remove_file(&path).expect("removed");
    // What stands in the way is no file, which a restore keeps.
    let _socket = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    let served = film.serve();
    let client = served.enter();
    let page = client.change("/restore", &[("revision", &old), ("path", "a.txt")]);
    assert!(
        page.contains("a.txt was not restored from") && page.contains("note bad"),
        "{page}"
    );
    assert!(!page.contains("Restored a.txt"), "{page}");
}

/// Two branches that changed the same picture, merged.
pub fn clash() -> Film {
    let film = Film::new();
    film.write("s4.png", b"\x89PNG base");
    let base = film.commit("base");
    film.write("s4.png", b"\x89PNG ours");
    film.commit("ours");
    let options = CheckoutOptions::new(request("checkout"));
    let side = CheckoutTarget::NewBranch("side".to_owned(), base);
    film.repo
        .checkout(side, &options, &Job::default())
        .expect("a checkout");
    film.write("s4.png", b"\x89PNG theirs");
    let side = film.commit("theirs");
    let main = CheckoutTarget::Branch("main".to_owned());
    film.repo
        .checkout(main, &options, &Job::default())
        .expect("a checkout");
    let merge = MergeOptions {
        message: "joined".to_owned(),
        committer: ada(),
        settings: Default::default(),
        request: request("merge"),
    };
    film.repo
        .merge(side, Default::default(), &merge, &Job::default())
        .expect("a merge");
    film
}

#[test]
fn the_sides_of_a_conflict_that_no_commit_has_are_compared() {
    let film = Film::new();
    let options = StashOptions {
        committer: ada(),
        settings: Default::default(),
        request: request("stash"),
    };
    film.write("notes.txt", "one\n");
    film.commit("first");
    film.write("notes.txt", "put aside\n");
    film.repo
        .stash_push(&Paths::all(), None, &options, &Job::default())
        .expect("a stash");
    film.write("notes.txt", "committed\n");
    film.commit("second");
    film.repo
        .stash_apply(StashAt::Number(0), false, &options, &Job::default())
        .expect("applied");
    let served = film.serve();
    let client = served.enter();
    let page = client.page("/conflicts");
    let link = "/compare?a=%3Anotes.txt&amp;b=%3Anotes.txt&amp;a-side=ours&amp;b-side=theirs";
    assert!(page.contains(link), "{page}");
    let link = link.replace("&amp;", "&");
    let page = client.page(&link);
    for words in [
        "one side of the conflict",
        "the other side of the conflict",
        "put aside",
        "committed",
    ] {
        assert!(page.contains(words), "{words} in {page}");
    }
    let values = client.json(&link);
    assert_eq!(values["a"]["commit"], json!(null));
    assert_eq!(
        (&values["a"]["size"], &values["b"]["size"]),
        (&json!(10), &json!(10))
    );
    assert_eq!(client.get(&link.replace("theirs", "nobody")).status, 404);
}

#[test]
fn a_conflict_shows_its_versions_and_buttons_settle_it() {
    let film = clash();
    let served = film.serve();
    let client = served.enter();
    let values = client.json("/conflicts");
    assert_eq!(values["conflicts"][0]["path"], "s4.png");
    let page = client.page("/conflicts");
    for word in [
        "Use this version",
        "Keep both",
        "Compare",
        "Go back to this",
        "Before both changes",
        "Both sides have changed the file.",
        "Ada, ",
        "\u{201c}ours\u{201d} on main",
        "\u{201c}theirs\u{201d} on side",
    ] {
        assert!(page.contains(word), "{word} in {page}");
    }
    for word in ["Ours", "Theirs", "missing"] {
        assert!(!page.contains(word), "{word} in {page}");
    }
    let commit = values["commit"].as_str().expect("a commit");
    for side in ["ours", "theirs", "base"] {
        let raw = client.get(&format!("/raw/{commit}/s4.png?side={side}"));
        assert_eq!(raw.body, [b"\x89PNG ", side.as_bytes()].concat());
    }
    assert_eq!(
        client.get(&format!("/raw/{commit}/s4.png?side=x")).status,
        404
    );
    assert!([404, 500].contains(&client.get(&format!("/raw/{commit}/s4.png")).status));
    assert!(client.page("/worktree").contains("in conflict"));
    let page = client.change(
        "/resolve",
        &[
            ("path", "s4.png"),
            ("choice", "theirs"),
            ("back", "/conflicts"),
        ],
    );
    assert!(
        page.contains("Resolved s4.png: theirs") && page.contains("A commit records"),
        "{page}"
    );
    assert_eq!(
        std::fs::read(film.root().join("s4.png")).expect("a file"),
        b"\x89PNG theirs"
    );
    let values = client.json("/conflicts");
    assert_eq!(
        (
            &values["conflicts"],
            values["settled"].as_array().map(Vec::len)
        ),
        (&json!([]), Some(1))
    );
    // It stays on the page, and can be chosen again, until it is committed.
    let page = client.page("/conflicts");
    assert!(page.contains("All conflicts are settled") && page.contains("Choose again"));
    let page = client.change(
        "/choose-again",
        &[("path", "s4.png"), ("back", "/conflicts")],
    );
    assert!(page.contains("s4.png is in conflict again") && page.contains("Use this version"));
    assert_eq!(client.json("/conflicts")["conflicts"][0]["path"], "s4.png");
    let ours = [
        ("path", "s4.png"),
        ("choice", "ours"),
        ("back", "/conflicts"),
    ];
    client.change("/resolve", &ours);
    client.undo();
    client.undo();
    assert_eq!(client.json("/conflicts")["conflicts"], json!([]));
    client.change("/commit", &[("message", "settled")]);
    assert_eq!(client.get("/raw/@/s4.png").body, b"\x89PNG theirs");
    assert!(!client.page("/conflicts").contains("Choose again"));
    client.undo();
    client.undo();
    assert_eq!(client.json("/conflicts")["conflicts"][0]["path"], "s4.png");
    let wrong = client.change("/resolve", &[("path", "s4.png"), ("choice", "mine")]);
    assert!(wrong.contains("choose ours, theirs"));
}

#[test]
fn two_tabs_and_a_command_agree() {
    let film = Film::new();
    film.write("a.txt", "1");
    film.commit("first");
    film.write("a.txt", "2");
    let served = film.serve();
    let client = served.enter();
    let token = client.token();
    // Both tabs commit at the same time: one makes the commit, and the other one is told.
    let texts: Vec<String> = std::thread::scope(|scope| {
        let tab = |name: &'static str| {
            let (client, token) = (&client, &token);
            scope.spawn(move || {
                let reply = client.post("/commit", &[("token", token), ("message", name)]);
                client.page(reply.header("location").expect("a page"))
            })
        };
        let tabs = [tab("one"), tab("two")];
        tabs.into_iter()
            .map(|tab| tab.join().expect("a tab"))
            .collect()
    });
    let made = texts
        .iter()
        .filter(|text| text.contains("Committed "))
        .count();
    let told = |text: &&String| {
        text.contains("Nothing to commit")
            || text.contains("under way")
            || text.contains("note bad")
    };
    assert_eq!(
        (made, texts.iter().filter(told).count()),
        (1, 1),
        "{texts:?}"
    );
    assert_eq!(
        client.json("/log")["commits"].as_array().map(Vec::len),
        Some(2)
    );
    // A command moves on behind the pages: the next change sees it.
    film.write("b.txt", "3");
    film.commit("by a command");
    film.write("b.txt", "4");
    client.change("/commit", &[("message", "by a page")]);
    let commits = client.json("/log");
    assert_eq!(commits["commits"][0]["message"], "by a page");
    assert_eq!(commits["commits"][1]["message"], "by a command");
}

/// What `dmv undo` would take back, and what the page says that its button takes back.
fn named(film: &Film, client: &Client<'_>) -> (Option<String>, Option<String>) {
    let next = film.repo.next_to_undo().expect("it can be read");
    let shown = client.json("/worktree")["undo"]["operation"].clone();
    let id = next.map(|op| encode_hex(&op.id));
    (id, shown.as_str().map(str::to_owned))
}

#[test]
fn the_undo_button_takes_back_what_the_command_would() {
    let film = Film::new();
    let served = film.serve();
    let client = served.enter();
    assert_eq!(
        named(&film, &client),
        (None, None),
        "what made the repository"
    );
    film.write("a.txt", "1");
    let first = film.commit("first");
    // An operation of another worktree is none of this one's.
    let beside = film.dir.path().join("beside");
    let options = AddOptions {
        dir: beside.clone(),
        head: Head::Branch("side".to_owned()),
        commit: first,
        subset: Default::default(),
        settings: Default::default(),
        request: request("worktree add"),
    };
    film.repo
        .add_worktree(&options, &Job::default())
        .expect("a worktree");
    let other = Repo::open(&beside).expect("it opens");
    std::fs::write(beside.join("other.txt"), "x").expect("a file");
    other
        .commit(
            CommitOptions::new("elsewhere", ada(), request("commit")),
            &Job::default(),
        )
        .expect("a commit");
    for content in ["2", "3", "4", "5"] {
        film.write("a.txt", content);
        film.commit(content);
    }
    let mut done = 0;
    for step in 0.. {
        let (command, button) = named(&film, &client);
        assert_eq!(command, button, "step {step}");
        let shown = button.expect("the worktree cannot be taken back, so something is left");
        // By turns the command and the button: each takes back what was named.
        if step % 2 == 0 {
            let options = UndoOptions {
                what: UndoWhat::Last,
                settings: Default::default(),
                request: request("undo"),
            };
            match film.repo.undo(&options, &Job::default()) {
                Ok(report) => assert_eq!(encode_hex(&report.undone.id), shown, "step {step}"),
                // The other worktree has moved on. The button is refused with the same words.
                Err(e) => {
                    let page = client.undo();
                    assert!(
                        page.contains("note bad") && page.contains("branch"),
                        "{e}: {page}"
                    );
                    break;
                }
            }
        } else {
            let page = client.undo();
            assert!(
                page.contains("Undone: ") && !page.contains("note bad"),
                "{page}"
            );
        }
        done += 1;
    }
    assert_eq!(done, 4, "all commits of this worktree");
}

#[test]
fn an_undo_that_something_came_before_is_refused() {
    let film = Film::new();
    film.write("a.txt", "1");
    film.commit("first");
    let served = film.serve();
    let client = served.enter();
    let (_, shown) = named(&film, &client);
    let shown = shown.expect("a commit to undo");
    film.write("a.txt", "2");
    let second = film.commit("by a command");
    let page = client.change("/undo", &[("operation", &shown)]);
    assert!(
        page.contains("note bad")
            && page.contains("Not undone: ")
            && page.contains("the last operation is now another one"),
        "{page}"
    );
    assert_eq!(
        film.repo.head_commit().expect("a head"),
        Some(second),
        "nothing was undone"
    );
    // The page that says so has a button for what is last now, which works.
    client.undo();
    let page = client.change("/undo", &[("operation", &shown)]);
    assert!(page.contains("Undone: commit"), "{page}");
    let page = client.change("/undo", &[("operation", &shown)]);
    assert!(page.contains("nothing is left to undo"), "{page}");
    for wrong in ["", "00", "zz", &"0".repeat(31), &"0".repeat(64)] {
        let page = client.change("/undo", &[("operation", wrong)]);
        assert!(
            page.contains("an undo names the operation"),
            "{wrong}: {page}"
        );
    }
    assert!(
        client
            .change("/undo", &[])
            .contains("an undo names the operation")
    );
}

#[test]
fn some_files_are_committed_and_others_discarded() {
    let film = Film::new();
    for (name, content) in [
        ("a.txt", "1"),
        ("b.txt", "1"),
        ("old.txt", "a file that moves"),
    ] {
        film.write(name, content);
    }
    film.commit("first");
    for (name, content) in [("a.txt", "2"), ("b.txt", "2"), ("new/pic,1:2.txt", "new")] {
        film.write(name, content);
    }
    for n in 1..=5 {
        film.write(format!("s/shot.100{n}.exr"), format!("frame {n}"));
    }
    std::fs::rename(film.root().join("old.txt"), film.root().join("moved.txt")).expect("moved");
    let served = film.serve();
    let client = served.enter();
    let page = client.page("/worktree");
    let shown = field(&page, "shown");
    // a, b, moved, new, and the frames as one row.
    assert_eq!(shown.split(',').count(), 5, "{shown}");
    assert!(page.contains("9 files have changed"), "{page}");
    assert!(
        page.contains("s/shot.####.exr 1001\u{2013}1005") && page.contains("5 files"),
        "{page}"
    );
    assert!(
        page.contains("old.txt \u{2192} moved.txt") && page.contains(">renamed<"),
        "{page}"
    );
    assert!(
        page.contains("href=\"/file/%3A/new/pic%2C1%3A2.txt\""),
        "{page}"
    );
    assert!(
        client
            .page("/file/%3A/new/pic%2C1%3A2.txt")
            .contains("your file, as it is now")
    );
    let changed = || {
        let values = client.json("/worktree")["status"]["changes"].clone();
        let paths = values.as_array().expect("a list").iter();
        let paths = paths.map(|change| change["path"].as_str().expect("a path").to_owned());
        paths.collect::<Vec<_>>()
    };
    let page = client.change("/commit", &[("message", "none"), ("shown", &shown)]);
    assert!(page.contains("no file is checked"), "{page}");
    let two = [
        ("message", "two rows"),
        ("shown", &shown),
        ("n", "0"),
        ("n", "4"),
    ];
    let page = client.change("/commit", &two);
    assert!(page.contains("6 files changed"), "{page}");
    assert_eq!(changed(), ["b.txt", "moved.txt", "new/pic,1:2.txt"]);
    client.undo();
    // A row, a new file, a moved one and frames are discarded, and come back by undo.
    let before = changed();
    for (row, said, left) in [
        (
            "1",
            "Discarded the changes of b.txt: as in the newest commit again",
            8,
        ),
        ("3", "Removed new/pic,1:2.txt, which no commit has", 8),
        ("2", "Discarded the changes of 2 files", 8),
        ("4", "Removed 5 files, which no commit has", 4),
    ] {
        let page = client.change("/discard", &[("shown", &shown), ("row", row)]);
        assert!(page.contains(said), "{said} in {page}");
        assert!(page.contains("Undo brings back what you had."), "{page}");
        assert_eq!(changed().len(), left, "{row}");
        let page = client.page("/");
        assert!(page.contains("comes back: "), "{page}");
        client.undo();
        assert_eq!(changed(), before, "{row}");
    }
    assert!(!film.root().join("old.txt").exists());
    for wrong in [
        &[("row", "0")][..],
        &[("shown", &shown), ("row", "9")],
        &[("shown", "../x"), ("row", "0")],
        &[("shown", ".dmv/format"), ("row", "0")],
    ] {
        let page = client.change("/discard", wrong);
        assert!(
            page.contains("choose a file to discard"),
            "{wrong:?}: {page}"
        );
    }
    // What the page did not list is committed with the rest of it.
    let rest = [
        ("message", "rest"),
        ("shown", "b.txt"),
        ("has_rest", "yes"),
        ("rest", "yes"),
    ];
    client.change("/commit", &rest);
    assert_eq!(changed(), ["b.txt"]);
}

/// The value of a hidden field of the first form that has it.
fn field(page: &str, name: &str) -> String {
    let mark = format!("name=\"{name}\" value=\"");
    let at = page.find(&mark).expect("a field") + mark.len();
    page[at..].split('"').next().expect("a value").to_owned()
}

#[test]
fn an_undo_says_what_comes_back() {
    let film = Film::new();
    film.write("a.txt", "1");
    film.write("b.txt", "1");
    film.commit("first");
    film.write("a.txt", "2");
    film.write("b.txt", "2");
    let second = film.commit("warmer");
    let served = film.serve();
    let client = served.enter();
    let said = || client.json("/worktree")["undo"]["comes_back"].clone();
    assert_eq!(
        said(),
        json!([
            "The commit \u{201c}warmer\u{201d} goes. Its 2 files stay as they are and count as changed again."
        ])
    );
    let options = CheckoutOptions::new(request("checkout"));
    let first = film.repo.read_commit(&second).expect("a commit").parents[0];
    let side = CheckoutTarget::NewBranch("side".to_owned(), first);
    let done = film.repo.checkout(side, &options, &Job::default());
    done.expect("a checkout");
    assert_eq!(
        said(),
        json!([
            "The branch side goes.",
            "Your files become as in \u{201c}warmer\u{201d} again: 2 files change."
        ])
    );
    let page = client.page("/");
    let (files, last) = (page.find("Your files<"), page.find("Undo the last change"));
    assert!(files < last, "it stands apart: {page}");
}

#[test]
fn the_newest_version_is_not_restored() {
    let film = Film::new();
    film.write("a.txt", "1");
    let first = film.commit("first");
    film.write("a.txt", "2");
    film.commit("second");
    let served = film.serve();
    let client = served.enter();
    let newest = client.page("/file/@/a.txt");
    assert!(
        newest.contains("This is the newest version") && !newest.contains("action=\"/restore\"")
    );
    let old = client.page(&format!("/file/{first}/a.txt"));
    assert!(old.contains("action=\"/restore\"") && !old.contains("This is the newest version"));
}
