//! Modules that use each other in a circle.

use super::code::{module_of, paths_in};
use std::collections::{BTreeMap, BTreeSet};

/// The modules of a crate, each with the modules that it names.
pub type Arrows = BTreeMap<String, BTreeSet<String>>;

/// Returns which modules of a crate name which others. `files`: the crate's files with their code.
///
/// A module that declares others may re-export them, so only paths that begin with `crate`, `self`
/// or `super` count.
pub fn arrows(files: &[(&str, &str)]) -> Arrows {
    let modules: BTreeSet<String> = files.iter().map(|(f, _)| module_of(f).join("::")).collect();
    let mut out = Arrows::new();
    for (file, code) in files {
        let own = module_of(file);
        let named = paths_in(code)
            .into_iter()
            .filter_map(|named| target(&own, &named.parts, &modules))
            .filter(|module| *module != own.join("::"));
        out.entry(own.join("::")).or_default().extend(named);
    }
    out
}

/// Returns the module that a path in the module `own` leads to.
fn target(own: &[&str], parts: &[String], modules: &BTreeSet<String>) -> Option<String> {
    let supers = parts.iter().take_while(|part| *part == "super").count();
    let mut path: Vec<&str> = match parts[0].as_str() {
        "crate" => Vec::new(),
        "self" => own.to_vec(),
        "super" => own[..own.len().checked_sub(supers)?].to_vec(),
        _ => return None,
    };
    path.extend(parts.iter().skip(supers.max(1)).map(String::as_str));
    while !path.is_empty() {
        let module = path.join("::");
        if modules.contains(&module) {
            return Some(module);
        }
        path.pop();
    }
    None
}

/// Returns one circle of modules, if there is one.
pub fn circle(arrows: &Arrows) -> Option<Vec<String>> {
    let mut left = arrows.clone();
    // Modules that use nothing, or only modules that were taken away, are in no circle.
    loop {
        let ends: Vec<String> = left
            .iter()
            .filter(|(_, uses)| uses.iter().all(|module| !left.contains_key(module)))
            .map(|(module, _)| module.clone())
            .collect();
        if ends.is_empty() {
            break;
        }
        left.retain(|module, _| !ends.contains(module));
    }
    // Each module that is left uses another one that is left.
    let mut path = vec![left.keys().next()?.clone()];
    loop {
        let uses = &left[path.last()?];
        let next = uses.iter().find(|module| left.contains_key(*module))?;
        if let Some(at) = path.iter().position(|module| module == next) {
            return Some(path.split_off(at));
        }
        path.push(next.clone());
    }
}

#[test]
fn a_circle_of_modules_is_found_and_a_chain_is_none() {
    let find = |files: &[(&str, &str)]| circle(&arrows(files));
    let chain = [
        ("x/src/a.rs", "use crate::b::c::D; use super::e;"),
        ("x/src/b/mod.rs", "pub use c::D; mod c;"),
        ("x/src/b/c.rs", "fn f() { crate::e::g() }"),
        ("x/src/e.rs", "use std::a;"),
    ];
    assert_eq!(find(&chain), None);
    let mut round = chain;
    round[3].1 = "use crate::{h, a::X};";
    let found = find(&round).expect("there is a circle");
    assert!(found.contains(&"a".to_owned()) && found.contains(&"e".to_owned()));
    let pair = [
        ("x/src/b/mod.rs", "use self::c::D;"),
        ("x/src/b/c.rs", "use super::E;"),
    ];
    assert_eq!(find(&pair).map(|found| found.len()), Some(2));
}
