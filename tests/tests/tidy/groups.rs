//! The floors of a room: groups of its modules, lowest first.

use super::circles::Arrows;
use std::collections::BTreeMap;

/// Returns the number of the group in which a room's root declares each module. Blank lines are between
/// groups.
pub fn groups(root: &str) -> BTreeMap<String, usize> {
    let mut out = BTreeMap::new();
    for (group, part) in root.split("\n\n").enumerate() {
        let lines = part.lines().map(|line| line.trim_start_matches("pub "));
        let names = lines.filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
        out.extend(names.map(|name| (name.to_owned(), group)));
    }
    out
}

/// Returns which modules of `room` use a module of their own group or of a later one, or one by way of the
/// room's root.
pub fn upward(room: &str, arrows: &Arrows, groups: &BTreeMap<String, usize>) -> Vec<String> {
    let top = |module: &str| {
        let inner = module.strip_prefix(room)?.trim_start_matches("::");
        Some(inner.split("::").next()?.to_owned())
    };
    let mut out = Vec::new();
    for (module, uses) in arrows {
        let Some(own) = top(module).filter(|own| !own.is_empty()) else {
            continue;
        };
        for used in uses.iter().filter_map(|used| top(used)) {
            if used != own && groups.get(&used) >= groups.get(&own) {
                out.push(format!("{module} uses {used}"));
            } else if used.is_empty() {
                out.push(format!("{module} uses the root of {room}"));
            }
        }
    }
    out
}

#[test]
fn a_module_uses_modules_of_earlier_groups_alone() {
    let root = "//! x\n\nmod a;\npub mod b;\n\n// Above.\nmod c;\n\nuse a::X;";
    let groups = groups(root);
    let known: Vec<(&str, usize)> = groups.iter().map(|(k, n)| (k.as_str(), *n)).collect();
    assert_eq!(known, [("a", 1), ("b", 1), ("c", 2)]);
    let files = [
        ("x/src/s/mod.rs", "mod a;"),
        ("x/src/s/a.rs", "use super::b::Y; use super::X;"),
        ("x/src/s/b.rs", "fn f() {}"),
        ("x/src/s/c.rs", "use super::a::X; use crate::s::b::Y;"),
        ("x/src/s/c/d.rs", "use super::X; use crate::s::c::Z;"),
    ];
    let found = upward("s", &super::circles::arrows(&files), &groups);
    assert_eq!(found, ["s::a uses the root of s", "s::a uses b"]);
}
