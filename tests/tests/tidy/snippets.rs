//! The rules on made-up snippets: each finds what it is for, and nothing else.

use super::*;

#[test]
fn a_room_on_a_higher_floor_is_a_complaint() {
    let room = |name: &str, may: &[&str]| Room {
        line: 1,
        name: name.to_owned(),
        may: may.iter().map(|used| (*used).to_owned()).collect(),
    };
    let rooms = [
        room("low", &[]),
        room("mid", &["low"]),
        room("high", &["mid", "dmv-core"]),
    ];
    let check = |file: &str, code: &str| check_rooms(&format!("x/src/{file}"), code, &rooms);
    assert_eq!(
        check("mid/a.rs", "use crate::low::x; use crate::mid::y;").len(),
        0
    );
    assert_eq!(check("mid/a.rs", "use super::b;").len(), 0);
    assert_eq!(check("mid/a.rs", "use crate::high::x;").len(), 1);
    assert_eq!(
        check("mid/a.rs", "use crate::{low::x, high::{y, z}};").len(),
        2
    );
    assert_eq!(check("mid/a.rs", "fn f() { crate::high::x() }").len(), 1);
    assert_eq!(check("low.rs", "use super::mid;").len(), 1);
    assert_eq!(check("mid/mod.rs", "use super::high;").len(), 1);
    assert_eq!(check("mid/a.rs", "use super::super::high;").len(), 1);
    assert_eq!(check("new.rs", "").len(), 1);
    assert_eq!(check("high.rs", "use dmv_core::{a, b};").len(), 0);
    assert_eq!(check("low.rs", "use dmv_core::{a, b};").len(), 2);
    assert_eq!(check("lib.rs", "pub mod low;").len(), 0);
}

#[test]
fn what_a_room_of_repo_uses_of_repo_is_found() {
    let rooms: Vec<Room> = ["base", "files"]
        .map(|name| Room {
            line: 1,
            name: name.to_owned(),
            may: BTreeSet::new(),
        })
        .into();
    let uses = |file: &str, code: &str| -> Vec<String> {
        let file = format!("crates/dmv-core/src/repo/{file}");
        let method = ("checkout".to_owned(), "files".to_owned());
        let found = uses_within_repo(&file, code, &rooms, &BTreeMap::from([method]));
        found.into_iter().map(|(_, room)| room).collect()
    };
    assert_eq!(uses("base/a.rs", "use crate::repo::files::x;"), ["files"]);
    assert_eq!(uses("base/a.rs", "use super::super::files::x;"), ["files"]);
    assert_eq!(
        uses("base/a.rs", "use super::b; use crate::diff::x;").len(),
        0
    );
    assert_eq!(
        uses("files/a.rs", "use crate::repo::{Repo, base::x};"),
        ["root", "base"]
    );
    assert_eq!(
        uses("files/a/b.rs", "super::super::super::Repo::open()"),
        ["root"]
    );
    assert_eq!(uses("base/a.rs", "self.repo\n    .checkout(x)"), ["files"]);
    assert_eq!(uses("base/a.rs", "repo.checkout; x.checkout(y)").len(), 0);
    let code = "
impl Repo {
    fn f(&self) { self.checkout() }
}
";
    assert_eq!(uses("base/a.rs", code), ["files"]);
}

#[test]
fn a_file_that_is_opened_without_a_look_is_a_complaint() {
    let code = |text: &str| text.to_owned();
    let files = [
        (
            "crates/dmv-core/src/platform/own.rs",
            code("OpenOptions::new();"),
        ),
        (
            "crates/dmv-core/src/repo/a.rs",
            code("let a;\nstd::fs::read(path)?;"),
        ),
        (
            "crates/dmv-core/src/repo/b.rs",
            code("open_own(path, OwnAccess::Read)?;"),
        ),
        ("crates/dmv-core/src/vfs.rs", code("File::open(path)?;")),
    ];
    let found = check_opening(&files, &[("crates/dmv-core/src/vfs.rs", "")]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("crates/dmv-core/src/repo/a.rs:2:"),
        "{found:?}"
    );
    assert_eq!(
        check_opening(&files[2..], &[("crates/dmv-core/src/repo/b.rs", "")]).len(),
        2
    );
}

#[test]
fn what_one_system_has_is_a_complaint_outside_of_the_platform_room() {
    let code = "use std::os::unix::ffi::OsStrExt;\nuse std::ffi::OsStr;\nrustix::fs::open();";
    assert_eq!(lines_of_one_system(code), [1, 3]);
    assert_eq!(lines_of_one_system("use std::{fs, os::fd::AsFd};"), [1]);
    assert!(lines_of_one_system("use std::fs; os::f(); my_rustix::f();").is_empty());
    let files = [
        ("crates/dmv-core/src/platform/unix/a.rs", code.to_owned()),
        ("crates/dmv-core/src/vfs.rs", code.to_owned()),
        ("crates/dmv-core/src/repo/a.rs", code.to_owned()),
        ("crates/dmv-core/src/repo/b.rs", String::new()),
    ];
    let repo = ("crates/dmv-core/src/repo/", "");
    assert_eq!(check_systems(&files, &[]).len(), 4);
    assert_eq!(check_systems(&files, &[repo]).len(), 2);
    assert_eq!(
        check_systems(&files, &[repo, ("crates/dmv-core/src/vfs.rs", "")]).len(),
        0
    );
    let stale = check_systems(&files[3..], &[repo]);
    assert_eq!(stale.len(), 1, "{stale:?}");
}

#[test]
fn a_crate_outside_of_its_room_is_a_complaint() {
    let check = |file: &str, code: &str| check_crates(&format!("crates/dmv-core/src/{file}"), code);
    assert_eq!(check("hash.rs", "use blake3::Hasher;").len(), 0);
    assert_eq!(check("store/read.rs", "use blake3::Hasher;").len(), 1);
    assert_eq!(
        check("store/read.rs", "fn f() { ::blake3::hash(b) }").len(),
        1
    );
    assert_eq!(
        check("worktree/scan.rs", "use super::fastcdc::Rules;").len(),
        0
    );
    assert_eq!(check("worktree/scan.rs", "use fastcdc::Walk;").len(), 1);
    assert_eq!(check("repo/base/publish.rs", "use tokio;").len(), 1);
    assert_eq!(
        check("refs/schema.rs", "use rusqlite::Connection;").len(),
        0
    );
}

#[test]
fn spaces_at_the_end_of_a_line_are_a_complaint() {
    assert!(check_spaces("f", "a\n\nb\n").is_empty());
    assert_eq!(check_spaces("f", "a \nb\t\nc\r\nd").len(), 4);
}

#[test]
fn links_and_headings_are_read_as_a_web_site_reads_them() {
    let page = "# A b: c!\n[x](y.md#z) `[no](no.md)`\n```\n[no](no.md)\n# no\n```\n## D `e`\n";
    assert_eq!(links(page), [(2, "y.md#z".to_owned())]);
    let found: Vec<String> = anchors(page).into_iter().collect();
    assert_eq!(found, ["a-b-c", "d-e"]);
    assert_eq!(resolve("docs/a/b.md", "../c.md"), "docs/c.md");
    assert_eq!(resolve("a.md", "./b/c.md"), "b/c.md");
    let files = BTreeMap::from([("a.md".to_owned(), "# One\n".to_owned())]);
    assert!(check_links("a.md", "[x](#one) [y](https://z)", &files).is_empty());
    assert_eq!(
        check_links("a.md", "[x](#two) [y](none.md)", &files).len(),
        2
    );
}

#[test]
fn a_long_line_of_text_is_a_complaint() {
    let page = "12345\n123456\n| 123456 |\n```\n123456\n```\n- 3456\n\u{e9}\u{e9}345\n";
    assert_eq!(long_lines(page, 5), [(2, 6), (7, 6)]);
}

#[test]
fn a_type_that_a_participle_names_is_a_complaint() {
    let code = "pub struct Freed {\n}\nenum Found<'a> { X }\ntype Kept = u8;\npub(in crate::x) trait Named: Send {}";
    let names: Vec<String> = participles(code)
        .into_iter()
        .map(|(_, name)| name)
        .collect();
    assert_eq!(names, ["Freed", "Found", "Kept", "Named"]);
    let nouns =
        "struct FreedSpace;\nstruct Listing;\nstruct Speedometer;\nfn freed(made: Vec<u8>) {}";
    assert_eq!(participles(nouns), []);
}

#[test]
fn wide_structs_and_tuple_parameters_are_found() {
    let wide = |fields: usize| {
        let fields: Vec<String> = (0..fields)
            .map(|n| format!("f{n}: Map<u8, (u8, u8)>"))
            .collect();
        format!("pub struct Wide<'a> {{ {} }}", fields.join(", "))
    };
    assert_eq!(wide_structs(&wide(MAX_FIELDS)).len(), 0);
    assert_eq!(
        wide_structs(&wide(MAX_FIELDS + 1)),
        [(1, "Wide".to_owned(), MAX_FIELDS + 1)]
    );
    assert_eq!(wide_structs("struct A; struct B(u8, u8);").len(), 0);
    let found = |code: &str| {
        tuple_parameters(code)
            .iter()
            .map(|(_, apart)| *apart)
            .collect::<Vec<_>>()
    };
    assert_eq!(found("fn f(&self, a: (u8, u16), b: u8) {}"), [false]);
    assert_eq!(
        found("fn f<T: Fn(u8) -> u8>(a: T, b: &(u8, T)) -> u8 {}"),
        [false]
    );
    assert_eq!(found("fn f((a, b): (u8, u16)) {}"), [true]);
    assert_eq!(
        found("fn f(a: Vec<(u8, u8)>, b: impl Fn((u8, u8)), c: ()) -> (u8, u8) {}"),
        []
    );
}
