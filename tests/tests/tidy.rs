//! Rules of this repository that no compiler checks. ARCHITECTURE.md and CONTRIBUTING.md explain
//! them.
//!
//! Each rule is a function from text to complaints. One test runs it on the source tree, and
//! another on snippets. Rules for code ignore comments and strings.

#[path = "tidy/circles.rs"]
mod circles;
#[path = "tidy/code.rs"]
mod code;
#[path = "tidy/crates.rs"]
mod crates;
#[path = "tidy/floors.rs"]
mod floors;
#[path = "tidy/groups.rs"]
mod groups;
#[path = "tidy/hints.rs"]
mod hints;
#[path = "tidy/methods.rs"]
mod methods;
#[path = "tidy/mutations.rs"]
mod mutations;
#[path = "tidy/names.rs"]
mod names;
#[path = "tidy/opening.rs"]
mod opening;
#[path = "tidy/pages.rs"]
mod pages;
#[path = "tidy/shapes.rs"]
mod shapes;
#[path = "tidy/snippets.rs"]
mod snippets;
#[path = "tidy/source.rs"]
mod source;
#[path = "tidy/starting.rs"]
mod starting;
#[path = "tidy/system.rs"]
mod system;

use code::{code_of, dependencies, lines_with, module_of, paths_in, rooms_named, without_tests};
use crates::CRATES;
use floors::{Room, drawing, rooms, unused};
use hints::{commands, open_command_lines};
use methods::{methods_of, uses_within_repo};
use mutations::{mutations, names_in, tiers};
use names::participles;
use opening::{OPENS, lines_that_open};
use pages::{anchors, links, long_lines, named_files, named_tests, resolve};
use shapes::{MAX_FIELDS, MAX_TUPLES, tuple_parameters, wide_structs};
use source::{root, tree};
use starting::{STARTS, lines_that_start};
use std::collections::{BTreeMap, BTreeSet};
use system::{SYSTEM, UNSAFE, lines_of_one_system};

/// The page with the tables of rooms.
const ROOMS_PAGE: &str = "ARCHITECTURE.md";
/// The crates that have rooms.
const CRATES_OF_ROOMS: [&str; 3] = ["dmv-core", "dmv-net", "dmv-bucket"];
/// The crates in which no modules use each other in a circle.
const CRATES_WITHOUT_CIRCLES: [&str; 6] = [
    "dmv-git",
    "dmv-net",
    "dmv-bucket",
    "dmv-preview",
    "dmv-web",
    "dmv-cli",
];

/// Known violations of the tables: file, room, reason. A test fails if one of them no longer exists.
const ROOM_EXCEPTIONS: [(&str, &str, &str); 0] = [];

/// The room that hides the operating system.
const PLATFORM: &str = "crates/dmv-core/src/platform/";

/// Files longer than [`MAX_LINES`], with the reason.
const LONG: [(&str, &str); 0] = [];
const MAX_LINES: usize = 800;

/// How many characters a line of a page may have, outside of tables and code.
const MAX_WIDTH: usize = 120;

/// Returns whether a file is for tests or measurements only.
fn is_test_file(path: &str) -> bool {
    let test_dirs = ["tests", "micro", "examples", "fuzz"];
    path.split('/').any(|part| test_dirs.contains(&part)) || path.ends_with("/tests.rs")
}

fn in_list(path: &str, list: &[&str]) -> bool {
    let fits = |place: &str| path == place || (place.ends_with('/') && path.starts_with(place));
    list.iter().any(|place| fits(place))
}

fn pass(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

// ---- The rules. Each takes a path and a text, and returns complaints.

/// Returns what a file uses: the room that it belongs to, and each place with a room or crate.
fn uses<'a>(file: &'a str, code: &str) -> Option<(&'a str, Vec<(usize, String)>)> {
    let own = *module_of(file).first()?;
    let mut used = rooms_named(file, code);
    let other = paths_in(code).into_iter().filter_map(|named| {
        let name = named.parts[0].replace('_', "-");
        CRATES_OF_ROOMS
            .contains(&&*name)
            .then_some((named.line, name))
    });
    used.extend(other);
    used.retain(|(_, room)| room != own);
    Some((own, used))
}

fn check_rooms(file: &str, code: &str, allowed: &[Room]) -> Vec<(String, String)> {
    let Some((own, used)) = uses(file, code) else {
        return Vec::new();
    };
    let Some(room) = allowed.iter().find(|room| room.name == own) else {
        let text = format!("{file}: '{own}' is no room; add it to the table in {ROOMS_PAGE}");
        return vec![(own.to_string(), text)];
    };
    used.into_iter()
        .filter(|(_, used)| !room.may.contains(used))
        .map(|(line, used)| {
            let text = format!("{file}:{line}: '{own}' may not use '{used}' ({ROOMS_PAGE})");
            (used, text)
        })
        .collect()
}

/// Complains about what only one operating system has outside of the platform room and of `known`,
/// and about each of `known` that has nothing of the kind.
fn check_systems(code: &[(&str, String)], known: &[(&str, &str)]) -> Vec<String> {
    let why = format!("only one system has this; call a function of {PLATFORM}");
    check_places(code, known, lines_of_one_system, &why, "SYSTEM")
}

/// Complains about files that are opened in other ways than by the platform room, outside of `known`,
/// and about each of `known` that opens none.
fn check_opening(code: &[(&str, String)], known: &[(&str, &str)]) -> Vec<String> {
    let why = "this opens whatever is there: platform::open_own, or open_named for a user's file";
    check_places(code, known, lines_that_open, why, "OPENS")
}

/// Complains about the lines that `find` finds outside of the platform room and of `known`, and about
/// each of `known`, a list of the name `list`, where it finds none.
fn check_places(
    code: &[(&str, String)],
    known: &[(&str, &str)],
    find: fn(&str) -> Vec<usize>,
    why: &str,
    list: &str,
) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut excused = BTreeSet::new();
    for (file, code) in code {
        let place = known.iter().find(|(place, _)| in_list(file, &[place]));
        for line in find(code) {
            match place {
                Some((place, _)) => drop(excused.insert(*place)),
                None if file.starts_with(PLATFORM) => {}
                None => complaints.push(format!("{file}:{line}: {why}")),
            }
        }
    }
    for (place, _) in known {
        if !excused.contains(place) {
            complaints.push(format!(
                "{place} has nothing of the kind: take it off {list}"
            ));
        }
    }
    complaints
}

fn check_crates(file: &str, code: &str) -> Vec<String> {
    let mut out = Vec::new();
    for named in paths_in(code) {
        let Some((name, places)) = CRATES.iter().find(|(name, _)| *name == named.parts[0]) else {
            continue;
        };
        if !in_list(file, places) {
            let line = named.line;
            out.push(format!(
                "{file}:{line}: '{name}' is used outside of {places:?}"
            ));
        }
    }
    out
}

fn check_words(file: &str, code: &str, words: &[&str], why: &str) -> Vec<String> {
    let mut out = Vec::new();
    for word in words {
        for line in lines_with(code, word) {
            out.push(format!("{file}:{line}: {word} {why}"));
        }
    }
    out
}

fn check_spaces(file: &str, text: &str) -> Vec<String> {
    let mut out = Vec::new();
    for (n, line) in text.split('\n').enumerate() {
        if line.ends_with([' ', '\t', '\r']) {
            out.push(format!("{file}:{}: trailing whitespace", n + 1));
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        out.push(format!("{file}: the last line has no end"));
    }
    out
}

fn check_links(file: &str, page: &str, files: &BTreeMap<String, String>) -> Vec<String> {
    let mut out = Vec::new();
    for (line, target) in links(page) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
        let path = match path {
            "" => file.to_owned(),
            path => resolve(file, path),
        };
        if !files.contains_key(&path) && !root().join(&path).exists() {
            out.push(format!("{file}:{line}: link to {target}: no such file"));
        } else if !anchor.is_empty()
            && files
                .get(&path)
                .is_some_and(|page| !anchors(page).contains(anchor))
        {
            out.push(format!("{file}:{line}: link to {target}: no such heading"));
        }
    }
    out
}

// ---- The rules on the source tree.

/// Returns the Rust files with their code. With `tests`, this includes code for tests.
fn rust(files: &BTreeMap<String, String>, tests: bool) -> Vec<(&str, String)> {
    let mut out = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| path.ends_with(".rs")) {
        if tests {
            out.push((path.as_str(), code_of(text)));
        } else if !is_test_file(path) {
            out.push((path.as_str(), without_tests(&code_of(text))));
        }
    }
    out
}

/// Returns the rooms of a crate by the table in the page.
fn rooms_of(files: &BTreeMap<String, String>, krate: &str) -> Vec<Room> {
    rooms(&files[ROOMS_PAGE], krate).unwrap_or_else(|complaints| {
        panic!("\n{ROOMS_PAGE}:{}\n", complaints.join("\n{ROOMS_PAGE}:"))
    })
}

#[test]
fn rooms_use_lower_floors_only() {
    let files = tree();
    let code = rust(&files, false);
    let mut complaints = Vec::new();
    let mut excused = BTreeSet::new();
    for krate in CRATES_OF_ROOMS {
        let rooms = rooms_of(&files, krate);
        let inside = format!("crates/{krate}/src/");
        let mut used = BTreeSet::new();
        for (file, code) in code.iter().filter(|(file, _)| file.starts_with(&inside)) {
            for (room, complaint) in check_rooms(file, code, &rooms) {
                let known = |(f, r, _): &&(&str, &str, &str)| f == file && *r == room;
                match ROOM_EXCEPTIONS.iter().find(known) {
                    Some((f, r, _)) => drop(excused.insert((*f, *r))),
                    None => complaints.push(complaint),
                }
            }
            if let Some((own, places)) = uses(file, code) {
                used.extend(places.into_iter().map(|(_, room)| (own.to_owned(), room)));
            }
        }
        let stale = unused(&rooms, &used).into_iter();
        complaints.extend(stale.map(|text| format!("{ROOMS_PAGE}:{text}")));
    }
    for (file, room, _) in ROOM_EXCEPTIONS {
        if !excused.contains(&(file, room)) {
            complaints.push(format!(
                "{file} no longer uses '{room}': take it off ROOM_EXCEPTIONS"
            ));
        }
    }
    pass(complaints);
}

#[test]
fn the_rooms_of_repo_use_the_rooms_before_them_and_not_the_root() {
    let files = tree();
    let rooms = rooms_of(&files, "dmv-core/src/repo");
    let (mut complaints, mut used) = (Vec::new(), BTreeSet::new());
    let code = rust(&files, false).into_iter();
    let inner = code.filter_map(|(file, code)| {
        let inner = file.strip_prefix("crates/dmv-core/src/repo/")?;
        let own = inner.split_once('/').map_or("root", |(own, _)| own);
        Some((file, own, code))
    });
    let code: Vec<(&str, &str, String)> = inner.collect();
    let mut methods = BTreeMap::new();
    for (_, own, code) in &code {
        methods.extend(
            methods_of(code)
                .into_iter()
                .map(|name| (name, (*own).to_owned())),
        );
    }
    for (file, own, code) in code.into_iter().filter(|(_, own, _)| *own != "root") {
        let Some(room) = rooms.iter().find(|room| room.name == own) else {
            complaints.push(format!(
                "{file}: '{own}' has no row in the table of {ROOMS_PAGE}"
            ));
            continue;
        };
        for (line, other) in uses_within_repo(file, &code, &rooms, &methods) {
            if other != own && !room.may.contains(&other) {
                complaints.push(format!("{file}:{line}: '{own}' may not use '{other}'"));
            }
            used.insert((own.to_owned(), other));
        }
    }
    let stale = unused(&rooms, &used).into_iter();
    complaints.extend(stale.map(|text| format!("{ROOMS_PAGE}:{text}")));
    pass(complaints);
}

#[test]
fn tables_drawing_and_crates_have_the_same_rooms() {
    let files = tree();
    let mut complaints = Vec::new();
    for krate in CRATES_OF_ROOMS {
        let rooms = rooms_of(&files, krate);
        let file = format!("crates/{krate}/src/lib.rs");
        let (lib, code) = (&files[&file], code_of(&files[&file]));
        let declared: BTreeSet<&str> = code
            .lines()
            .filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'))
            .collect();
        for room in &rooms {
            let (line, name) = (room.line, &*room.name);
            if !declared.contains(name) {
                complaints.push(format!("{ROOMS_PAGE}:{line}: {file} has no room '{name}'"));
            }
        }
        for name in declared {
            if !rooms.iter().any(|room| room.name == name) {
                complaints.push(format!(
                    "{file}: '{name}' has no row in the table of {ROOMS_PAGE}"
                ));
            }
            let mut page = lib.lines().filter(|line| line.starts_with("//!"));
            if !page.any(|line| line.contains(&format!("`{name}`"))) {
                complaints.push(format!("{file}: its first lines do not name '{name}'"));
            }
        }
        let drawn = drawing(&files[ROOMS_PAGE], krate, &rooms).check(&rooms);
        complaints.extend(drawn.iter().map(|text| format!("{ROOMS_PAGE}: {text}")));
    }
    pass(complaints);
}

#[test]
fn only_the_platform_room_knows_the_operating_system() {
    let files = tree();
    let mut code = rust(&files, false);
    code.retain(|(file, _)| file.starts_with("crates/"));
    pass(check_systems(&code, &SYSTEM));
}

#[test]
fn files_of_a_repository_are_opened_in_one_way() {
    let files = tree();
    let mut code = rust(&files, false);
    code.retain(|(file, _)| file.starts_with("crates/") && !file.contains("/examples/"));
    pass(check_opening(&code, &OPENS));
}

#[test]
fn no_command_uses_another_one() {
    let files = tree();
    let code = rust(&files, false);
    let own: Vec<(&str, &str)> = code
        .iter()
        .filter(|(file, _)| file.starts_with("crates/dmv-cli/src/"))
        .map(|(file, code)| (*file, code.as_str()))
        .collect();
    let command = |module: &str| {
        let name = module.strip_prefix("commands::")?.split("::").next()?;
        Some(name.to_owned())
    };
    let mut complaints = Vec::new();
    for (module, uses) in circles::arrows(&own) {
        let Some(user) = command(&module).or(module.starts_with("print").then(String::new)) else {
            continue;
        };
        for used in uses
            .iter()
            .filter(|used| command(used).is_some_and(|used| used != user))
        {
            complaints.push(format!(
                "{module} uses {used}: what commands share is in 'print' or below"
            ));
        }
    }
    pass(complaints);
}

#[test]
fn no_modules_use_each_other_in_a_circle() {
    let files = tree();
    let code = rust(&files, false);
    for name in CRATES_WITHOUT_CIRCLES {
        let own = |(file, _): &&(&str, String)| file.starts_with(&format!("crates/{name}/src/"));
        let own: Vec<(&str, &str)> = code
            .iter()
            .filter(own)
            .map(|(file, code)| (*file, code.as_str()))
            .collect();
        assert!(own.len() > 10, "{name} has few files");
        let found = circles::circle(&circles::arrows(&own));
        assert_eq!(found, None, "a circle in {name}");
    }
}

#[test]
fn the_modules_of_the_store_stand_on_floors() {
    const ROOT: &str = "crates/dmv-core/src/store/mod.rs";
    let files = tree();
    let code = rust(&files, false);
    let own = code
        .iter()
        .filter(|(file, _)| file.starts_with("crates/dmv-core/src/store/"));
    let own: Vec<(&str, &str)> = own.map(|(file, code)| (*file, code.as_str())).collect();
    let groups = groups::groups(&files[ROOT]);
    assert!(groups.len() > 20, "{groups:?}");
    pass(groups::upward("store", &circles::arrows(&own), &groups));
}

#[test]
fn each_outside_crate_has_its_room() {
    let files = tree();
    let mut complaints = Vec::new();
    for (file, code) in rust(&files, false) {
        if file.starts_with("crates/") {
            complaints.extend(check_crates(file, &code));
        }
    }
    for (file, text) in &files {
        if !file.starts_with("crates/") || !file.ends_with("Cargo.toml") {
            continue;
        }
        for name in dependencies(text) {
            if !CRATES.iter().any(|(known, _)| *known == name) {
                complaints.push(format!(
                    "{file}: '{name}' has no room; add it to CRATES and ARCHITECTURE.md"
                ));
            }
        }
    }
    pass(complaints);
}

#[test]
fn nothing_is_left_half_done() {
    let files = tree();
    let words = ["dbg!", "todo!", "unimplemented!"];
    let check = |(file, code): &(&str, String)| check_words(file, code, &words, "is left");
    pass(rust(&files, true).iter().flat_map(check).collect());
}

#[test]
fn types_are_named_by_nouns() {
    let files = tree();
    let mut complaints = Vec::new();
    for (file, code) in rust(&files, false) {
        for (line, name) in participles(&code) {
            complaints.push(format!("{file}:{line}: the type {name} needs a noun"));
        }
    }
    pass(complaints);
}

#[test]
fn structs_are_narrow_and_parameters_are_no_tuples() {
    let (files, mut complaints, mut tuples) = (tree(), Vec::new(), (0, 0));
    let code = rust(&files, false).into_iter();
    for (file, code) in code.filter(|(file, _)| file.starts_with("crates/")) {
        for (line, name, fields) in wide_structs(&code) {
            complaints.push(format!(
                "{file}:{line}: {name} has {fields} fields, {MAX_FIELDS} are enough"
            ));
        }
        for (_, is_taken_apart) in tuple_parameters(&code) {
            tuples.0 += usize::from(!is_taken_apart);
            tuples.1 += usize::from(is_taken_apart);
        }
        if code.contains("pub(in crate::repo)") {
            complaints.push(format!(
                "{file}: the rooms of repo are private: write `pub`"
            ));
        }
    }
    if tuples.0 > MAX_TUPLES.0 || tuples.1 > MAX_TUPLES.1 {
        complaints.push(format!(
            "{tuples:?} parameters are tuples, not {MAX_TUPLES:?}"
        ));
    }
    pass(complaints);
}

#[test]
fn command_lines_that_are_printed_are_made_of_arguments() {
    let (files, mut complaints) = (tree(), Vec::new());
    let commands = commands(&files);
    for (file, text) in files.iter().filter(|(file, _)| file.ends_with(".rs")) {
        if !file.contains("/src/") || is_test_file(file) {
            continue;
        }
        for line in open_command_lines(text, &commands) {
            complaints.push(format!(
                "{file}:{line}: a command line with a raw value: use hint!"
            ));
        }
    }
    pass(complaints);
}

#[test]
fn there_is_no_unsafe_code() {
    let files = tree();
    let mut complaints = Vec::new();
    for (file, code) in rust(&files, true) {
        if !UNSAFE.contains(&file) {
            complaints.extend(check_words(file, &code, &["unsafe"], "is not allowed"));
        }
    }
    pass(complaints);
}

#[test]
fn nothing_is_unwrapped_without_a_reason() {
    let files = tree();
    let why = "says nothing: expect(\"why this cannot fail\")";
    let check = |(file, code): &(&str, String)| check_words(file, code, &[".unwrap()"], why);
    pass(rust(&files, false).iter().flat_map(check).collect());
}

#[test]
fn no_thread_starts_with_a_panic() {
    let files = tree();
    let words = ["thread::spawn(", "scope.spawn("];
    let why = "panics if the system has no thread left: dmv_core::threads";
    let is_product = |(file, _): &(&str, String)| file.starts_with("crates/");
    let check = |(file, code): (&str, String)| check_words(file, &code, &words, why);
    let all = rust(&files, false).into_iter().filter(is_product);
    pass(all.flat_map(check).collect());
}

#[test]
fn every_file_of_the_code_says_what_it_holds() {
    let says = |text: &str| text.starts_with("//! ");
    let files = tree();
    let code = files.iter().filter(|(file, _)| {
        file.starts_with("crates/") && file.ends_with(".rs") && !file.ends_with("/tests.rs")
    });
    let silent = code.filter(|(_, text)| !says(text));
    pass(
        silent
            .map(|(file, _)| format!("{file} does not begin with '//! ' and what it holds"))
            .collect(),
    );
}

#[test]
fn no_file_is_too_long() {
    let mut complaints = Vec::new();
    for (file, text) in tree().iter().filter(|(file, _)| file.ends_with(".rs")) {
        let (lines, known) = (
            text.lines().count(),
            LONG.iter().any(|(long, _)| long == file),
        );
        if lines > MAX_LINES && !known {
            complaints.push(format!("{file} has {lines} lines, {MAX_LINES} are enough"));
        } else if lines <= MAX_LINES && known {
            complaints.push(format!("{file} is short again: take it off LONG"));
        }
    }
    pass(complaints);
}

#[test]
fn the_library_prints_nothing_and_reads_no_environment() {
    let files = tree();
    let words = [
        "print!",
        "println!",
        "eprint!",
        "eprintln!",
        "std::env",
        "stdout",
        "stderr",
        "stdin",
    ];
    let mut complaints = Vec::new();
    for (file, code) in rust(&files, false) {
        if file.starts_with("crates/dmv-core/") {
            complaints.extend(check_words(
                file,
                &code,
                &words,
                "has no place in the library",
            ));
        }
    }
    pass(complaints);
}

#[test]
fn the_sync_engine_touches_nothing_outside() {
    let files = tree();
    let words = [
        "std::fs",
        "std::net",
        "std::time",
        "std::thread",
        "std::env",
        "std::process",
    ];
    let mut complaints = Vec::new();
    for (file, code) in rust(&files, false) {
        let pure = [
            "dmv-bucket/src/files",
            "dmv-bucket/src/format/",
            "dmv-bucket/src/frames/",
            "dmv-bucket/src/machines/",
            "dmv-bucket/src/ranges.rs",
            "dmv-net/src/sync/",
            "dmv-net/src/trouble.rs",
            "dmv-net/src/wire",
        ];
        if pure.iter().any(|part| file.contains(part)) {
            complaints.extend(check_words(
                file,
                &code,
                &words,
                "has no place in the engine",
            ));
        }
    }
    pass(complaints);
}

#[test]
fn only_known_files_start_programs() {
    let files = tree();
    let mut code = rust(&files, false);
    code.retain(|(file, _)| file.starts_with("crates/"));
    let why = "here, nobody has looked at who names the program";
    pass(check_places(
        &code,
        &STARTS,
        lines_that_start,
        why,
        "STARTS",
    ));
}

#[test]
fn pages_and_files_that_are_named_exist() {
    let files = tree();
    let mut complaints = Vec::new();
    for (file, text) in &files {
        let tops: &[&str] = match file.rsplit('.').next() {
            Some("rs") if !file.starts_with("tests/tests/tidy") => &["docs/"],
            Some("md") => &[
                "docs/",
                "crates/",
                "benches/",
                "fuzz/",
                "tests/",
                "packaging/",
            ],
            _ => continue,
        };
        // The change log mentions files that were removed later.
        if file == "CHANGELOG.md" {
            continue;
        }
        for (line, path) in named_files(text, tops) {
            if !root().join(&path).exists() {
                complaints.push(format!("{file}:{line}: {path} does not exist"));
            }
        }
    }
    pass(complaints);
}

#[test]
fn tests_that_pages_name_exist() {
    let files = tree();
    let code = files.iter().filter(|(file, _)| file.ends_with(".rs"));
    let tests: BTreeSet<&str> = code
        .flat_map(|(_, text)| text.lines())
        .filter_map(|line| line.trim_start().strip_prefix("fn "))
        .filter_map(|rest| rest.split(['(', '<']).next())
        .collect();
    let mut complaints = Vec::new();
    // The change log may mention tests that were renamed later.
    let is_page = |file: &str| file.ends_with(".md") && file != "CHANGELOG.md";
    for (file, page) in files.iter().filter(|(file, _)| is_page(file)) {
        for (line, name) in named_tests(page) {
            if !tests.contains(name.as_str()) {
                complaints.push(format!("{file}:{line}: there is no function '{name}'"));
            }
        }
    }
    pass(complaints);
}

#[test]
fn mutations_and_tiers_name_what_exists() {
    let files = tree();
    let names = names_in(&files);
    let mut complaints = mutations(&files["tests/mutants.txt"], &files, &names);
    complaints.extend(tiers(&files["tests/tier.sh"], &names));
    pass(complaints);
}

#[test]
fn links_between_pages_lead_somewhere() {
    let files = tree();
    let pages = files.iter().filter(|(file, _)| file.ends_with(".md"));
    pass(
        pages
            .flat_map(|(file, page)| check_links(file, page, &files))
            .collect(),
    );
}

#[test]
fn pages_are_wrapped() {
    let files = tree();
    let mut complaints = Vec::new();
    for (file, page) in files.iter().filter(|(file, _)| file.ends_with(".md")) {
        for (line, len) in long_lines(page, MAX_WIDTH) {
            complaints.push(format!(
                "{file}:{line}: {len} characters, {MAX_WIDTH} are enough"
            ));
        }
    }
    pass(complaints);
}

#[test]
fn nothing_is_published_by_accident() {
    let files = tree();
    let workspace = &files["Cargo.toml"];
    assert!(workspace.contains("\npublish = false\n"));
    let members = workspace
        .lines()
        .find_map(|line| line.strip_prefix("members = "))
        .expect("the members stand on one line");
    let members: Vec<&str> = members.split('"').skip(1).step_by(2).collect();
    assert!(members.len() >= 5, "{members:?}");
    for member in members {
        let manifest = &files[&format!("{member}/Cargo.toml")];
        let closed = ["publish.workspace = true", "publish = false"];
        let is_closed = manifest.lines().any(|line| closed.contains(&line));
        assert!(is_closed, "{member} could be published");
    }
}

#[test]
fn no_line_ends_in_spaces() {
    let files = tree();
    pass(
        files
            .iter()
            .flat_map(|(file, text)| check_spaces(file, text))
            .collect(),
    );
}
