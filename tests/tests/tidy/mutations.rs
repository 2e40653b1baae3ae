//! The tables of tests that run beside the ordinary suite: `tests/mutants.txt` and `tests/tier.sh`. What they name
//! exists: a filter that fits no test runs nothing, and passes.

use std::collections::{BTreeMap, BTreeSet};

/// Returns the names of functions and modules of the code.
pub fn names_in(files: &BTreeMap<String, String>) -> BTreeSet<&str> {
    let code = files.iter().filter(|(file, _)| file.ends_with(".rs"));
    let lines = code.flat_map(|(_, text)| text.lines().map(str::trim_start));
    let name = |line: &'_ str| {
        let rest = ["fn ", "mod ", "pub mod "]
            .iter()
            .find_map(|word| line.strip_prefix(word));
        rest.map_or(0..0, |rest| {
            let begin = line.len() - rest.len();
            begin..begin + rest.find(['(', '<', ';', ' ']).unwrap_or(rest.len())
        })
    };
    lines.map(|line| &line[name(line)]).collect()
}

/// Returns whether a filter of tests fits one: its modules exist, and its last part is in a name.
fn fits(filter: &str, names: &BTreeSet<&str>) -> bool {
    let (modules, last) = filter.rsplit_once("::").unwrap_or(("", filter));
    let mut modules = modules.split("::").filter(|name| !name.is_empty());
    modules.all(|module| names.contains(module)) && names.iter().any(|name| name.contains(last))
}

/// Complains of mutations whose text or test does not exist.
pub fn mutations(
    table: &str,
    files: &BTreeMap<String, String>,
    names: &BTreeSet<&str>,
) -> Vec<String> {
    let mut complaints = Vec::new();
    for block in table.split("\n@ ").skip(1) {
        let lines: Vec<&str> = block.lines().collect();
        let [name, file, text, _, test, ..] = &lines[..] else {
            complaints.push(format!("tests/mutants.txt: {block} is not complete"));
            continue;
        };
        if !files.get(*file).is_some_and(|code| code.contains(text)) {
            complaints.push(format!("tests/mutants.txt: {name}: {file} lacks its text"));
        }
        let mut words = test.split(' ').filter(|word| !word.contains('='));
        if words.nth(2).is_some_and(|filter| !fits(filter, names)) {
            complaints.push(format!("tests/mutants.txt: {name}: no test is '{test}'"));
        }
    }
    complaints
}

/// Complains of rows of a tier whose test does not exist.
pub fn tiers(script: &str, names: &BTreeSet<&str>) -> Vec<String> {
    let rows = script
        .lines()
        .map(|line| line.split('|').collect::<Vec<_>>());
    rows.filter(|row| row.len() == 9 && !row[4].is_empty() && !row[0].starts_with('#'))
        .filter(|row| !fits(row[4], names))
        .map(|row| format!("tests/tier.sh: {}: no test is '{}'", row[0], row[4]))
        .collect()
}

#[test]
fn what_names_no_test_is_found() {
    let code = "mod gc;\nfn a_crash_in_any_step() {}\n".to_owned();
    let files = BTreeMap::from([("a.rs".to_owned(), code)]);
    let names = names_in(&files);
    for (filter, wanted) in [
        ("gc::a_crash_in", true),
        ("gc::", true),
        ("a_crash", true),
        ("gc::no_crash", false),
        ("purge::a_crash_in", false),
    ] {
        assert_eq!(fits(filter, &names), wanted, "{filter}");
    }
    let row = |text: &str, test: &str| format!("#\n\n@ name\na.rs\n{text}\nelse\n{test}\n");
    let found = |row: String| mutations(&row, &files, &names).len();
    assert_eq!(found(row("mod gc;", "N=1 p library gc::a_crash")), 0);
    assert_eq!(found(row("mod gc;", "p lib")), 0);
    assert_eq!(found(row("mod purge;", "p library gc::no_crash")), 2);
    assert_eq!(found("#\n\n@ name\na.rs\n".to_owned()), 1);
    let tier = |test: &str| tiers(&format!("a|b|c|d|{test}|V|1|2|what"), &names).len();
    assert_eq!((tier("gc::a_crash"), tier("gc::no_crash")), (0, 1));
}
