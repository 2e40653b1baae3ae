use super::*;
use crate::limits::MAX_NAME_BYTES;
use proptest::prelude::*;

type Result<T = (), E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

fn subset(patterns: &[&str]) -> Subset {
    Subset::new(patterns.iter().map(|p| p.as_bytes())).expect("the test's patterns are sound")
}

fn texts(subset: &Subset) -> Vec<String> {
    let texts = subset.patterns().map(String::from_utf8_lossy);
    texts.map(std::borrow::Cow::into_owned).collect()
}

#[test]
fn a_name_is_that_entry_at_the_root_with_all_under_it() {
    let s = subset(&["a", "b/c", "d/"]);
    for (path, is_dir, want) in [
        ("a", false, true),
        ("a", true, true),
        ("a/x/y", false, true),
        ("ab", false, false),
        ("x/a", false, false),
        ("b", true, false),
        ("b/c", false, true),
        ("b/d", false, false),
        ("d", false, false),
        ("d", true, true),
        ("d/x", false, true),
    ] {
        assert_eq!(s.includes(path.as_bytes(), is_dir), want, "{path}");
    }
    for (dir, want) in [
        ("", Extent::Part),
        ("a", Extent::All),
        ("a/x", Extent::All),
        ("b", Extent::Part),
        ("b/c", Extent::All),
        ("b/d", Extent::None),
        ("c", Extent::None),
    ] {
        assert_eq!(s.extent(dir.as_bytes()), want, "{dir}");
    }
    assert_eq!(
        s.names_in(b"").map(|names| names.concat()),
        Some(b"abd".to_vec())
    );
    assert_eq!(s.names_in(b"b"), Some(vec![b"c".to_vec()]));
    assert_eq!(s.names_in(b"a"), None);
}

#[test]
fn wildcards_are_those_of_ignore_files() {
    for (pattern, inside, outside) in [
        (
            "*.png",
            &["x.png", "a/b.png", "a.png/x"][..],
            &["png", "x.png2"][..],
        ),
        ("/*.png", &["x.png", "x.png/y"], &["a/x.png"]),
        (
            "a/*/c",
            &["a/b/c", "a/b/c/d"],
            &["a/c", "a/b/d/c", "x/a/b/c"],
        ),
        ("**/raw", &["raw", "a/raw", "a/b/raw/x"], &["a/raws"]),
        ("a/**", &["a/x", "a/x/y"], &["b"]),
        ("a/**/z", &["a/z", "a/b/z", "a/b/c/z/x"], &["az", "a/zz"]),
        ("s[0-9]?", &["s1x", "q/s2y"], &["s1", "sax"]),
        ("x{1,2}*", &["x{1,2}y"], &["x1y"]),
        ("\\*", &["*", "*/x"], &["a"]),
        (".", &["a", "a/b"], &[]),
    ] {
        let s = subset(&[pattern]);
        for path in inside {
            assert!(s.includes(path.as_bytes(), false), "{pattern}: {path}");
        }
        for path in outside {
            assert!(!s.includes(path.as_bytes(), false), "{pattern}: {path}");
        }
    }
    assert!(!subset(&["a/**"]).includes(b"a", true));
    assert_eq!(subset(&["*.png"]).names_in(b""), None);
    assert_eq!(subset(&["a/*/c"]).names_in(b""), Some(vec![b"a".to_vec()]));
    assert_eq!(subset(&["a/*/c"]).names_in(b"a"), None);
    assert_eq!(
        subset(&["a/*/c"]).names_in(b"a/x"),
        Some(vec![b"c".to_vec()])
    );
}

#[test]
fn the_last_pattern_that_names_a_path_decides() {
    let s = subset(&["a", "!a/raw", "a/raw/keep", "!*.tmp"]);
    for (path, want) in [
        ("a/x", true),
        ("a/raw", false),
        ("a/raw/x", false),
        ("a/raw/keep", true),
        ("a/raw/keep/x.tmp", false),
        ("a/x.tmp", false),
        ("b", false),
    ] {
        assert_eq!(s.includes(path.as_bytes(), false), want, "{path}");
    }
    assert_eq!(s.extent(b"a"), Extent::Part);
    assert_eq!(s.extent(b"b"), Extent::None);
    assert_eq!(subset(&["a", "!a/raw"]).extent(b"a/x"), Extent::All);
    let without = subset(&["!a"]);
    assert!(without.includes(b"b", false) && !without.includes(b"a/x", false));
    assert!(Subset::everything().includes(b"x", false));
    assert_eq!(Subset::nothing().extent(b""), Extent::None);
    assert_eq!(Subset::nothing().extent(b"a"), Extent::None);
    assert!(!Subset::nothing().includes(b"x/y", true));
}

#[test]
fn adding_and_removing_keep_the_list_short() -> Result {
    let s = subset(&["a", "b"]);
    assert_eq!(texts(&s.with(b"c/")?), ["a", "b", "c/"]);
    assert_eq!(texts(&s.with(b"a/x")?), ["a", "b"]);
    assert_eq!(texts(&s.without(b"a")?), ["b"]);
    assert_eq!(texts(&s.without(b"a/x")?), ["a", "b", "!a/x"]);
    assert_eq!(texts(&s.without(b"a/x")?.with(b"a")?), ["b", "a"]);
    assert_eq!(texts(&s.without(b"c")?), ["a", "b"]);
    assert_eq!(s.without(b"a")?.without(b"b")?, Subset::nothing());
    assert_eq!(texts(&Subset::nothing().with(b"a")?), ["a"]);
    assert_eq!(texts(&Subset::everything().without(b"a")?), ["!a"]);
    assert!(
        Subset::everything()
            .without(b"a")?
            .with(b"a")?
            .is_everything()
    );
    assert!(s.with(b".")?.is_everything() && Subset::everything().with(b"q")?.is_everything());
    assert_eq!(s.without(b"/")?, Subset::nothing());
    Ok(())
}

#[test]
fn lines_have_comments_and_lose_spaces_at_their_end() -> Result {
    let s = Subset::parse(b"\xef\xbb\xbf# what the render needs\r\n\r\na \r\n\\#b\n \\!c\\ \n!d")?;
    assert_eq!(texts(&s), ["a", "\\#b", "\\ !c\\ ", "!d"]);
    assert!(s.includes(b"#b", false) && s.includes(b" !c ", false));
    assert_eq!(Subset::parse(&s.text())?, s);
    let odd = Subset::new([&b"x \\\\ "[..], b"\xff", b"\\!*", b"r\r"])?;
    assert!(odd.includes(b"x \\ ", false) && odd.includes(b"\xff/y", false));
    assert_eq!(Subset::parse(&odd.text())?, odd);
    Ok(())
}

#[test]
fn patterns_that_name_nothing_or_too_much_are_refused() {
    let long = "x".repeat(MAX_NAME_BYTES + 1);
    let deep = "a/".repeat(MAX_PATH_BYTES / 2 + 1);
    let parts = format!("{}*", "a/".repeat(60));
    for bad in [
        "", "!", "../x", "a\nb", "a\0", "a[", "a\\", &long, &deep, &parts,
    ] {
        let made = Subset::new([bad.as_bytes()]);
        assert!(
            matches!(made, Err(SubsetError::Pattern { .. })),
            "{bad:.20}"
        );
    }
    let many = |n: usize, make: fn(usize) -> String| {
        let patterns: Vec<String> = (0..n).map(make).collect();
        Subset::new(patterns.iter().map(|p| p.as_bytes()))
    };
    let glob = |i| format!("{i}*");
    assert!(many(MAX_SUBSET_GLOBS, glob).is_ok());
    assert_eq!(
        many(MAX_SUBSET_GLOBS + 1, glob),
        Err(SubsetError::TooManyGlobs)
    );
    let seven = |i| format!("{i:07}");
    assert!(many(MAX_SUBSET_BYTES / 8, seven).is_ok());
    let too_long = many(MAX_SUBSET_BYTES / 8 + 1, seven);
    assert_eq!(too_long, Err(SubsetError::TooLong(MAX_SUBSET_BYTES + 8)));
}

// ---- Against a simple model.

/// Returns whether `parts` match all of `names`, in the most obvious way.
fn fits(parts: &[&str], names: &[&str]) -> bool {
    match (parts.split_first(), names.split_first()) {
        (None, _) => names.is_empty(),
        (Some((&"**", [])), _) => !names.is_empty(),
        (Some((&"**", rest)), _) => (0..=names.len()).any(|n| fits(rest, &names[n..])),
        (Some(_), None) => false,
        (Some((part, rest)), Some((name, names))) => {
            let fits_name = match *part {
                "*" => true,
                "a*" => name.starts_with('a'),
                "?" => name.len() == 1,
                part => part == *name,
            };
            fits_name && fits(rest, names)
        }
    }
}

/// Returns whether a pattern without `!` names `path` or a directory above it.
fn names(pattern: &str, path: &str, is_dir: bool) -> bool {
    let body = pattern.trim_end_matches('/');
    let mut parts: Vec<&str> = body.trim_start_matches('/').split('/').collect();
    let is_glob = body.contains(['*', '?']);
    if is_glob && parts.len() == 1 && !body.starts_with('/') {
        parts.insert(0, "**");
    }
    let all: Vec<&str> = path.split('/').collect();
    (1..=all.len()).any(|n| {
        let dir = is_dir || n < all.len();
        (dir || !pattern.ends_with('/')) && fits(&parts, &all[..n])
    })
}

fn model(patterns: &[String], path: &str, is_dir: bool) -> bool {
    let mut inside = patterns.first().is_none_or(|p| p.starts_with('!'));
    for pattern in patterns {
        let body = pattern.trim_start_matches('!');
        if names(body, path, is_dir) {
            inside = !pattern.starts_with('!');
        }
    }
    inside
}

fn pattern() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec!["a", "b", "ab", "*", "a*", "?", "**"]);
    let parts = prop::collection::vec(part, 1..4);
    (prop::bool::ANY, prop::bool::ANY, parts, prop::bool::ANY).prop_map(
        |(excludes, anchored, mut parts, dir_only)| {
            parts.dedup_by(|a, b| *a == "**" && *b == "**");
            let only_all = parts == ["**"];
            format!(
                "{}{}{}{}",
                if excludes { "!" } else { "" },
                if anchored && !only_all { "/" } else { "" },
                parts.join("/"),
                if dir_only && !only_all { "/" } else { "" },
            )
        },
    )
}

/// Returns every path of at most three names.
fn paths() -> Vec<String> {
    let mut all = vec![String::new()];
    let mut last = all.clone();
    for _ in 0..3 {
        let below = |dir: &String| {
            let dir = dir.clone();
            ["a", "b", "ab", "c"].map(|name| {
                if dir.is_empty() {
                    name.to_owned()
                } else {
                    format!("{dir}/{name}")
                }
            })
        };
        last = last.iter().flat_map(below).collect();
        all.extend(last.clone());
    }
    all.remove(0);
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(dmv_random::cases(150)))]

    #[test]
    fn a_subset_is_what_its_patterns_say(patterns in prop::collection::vec(pattern(), 0..5)) {
        let s = Subset::new(patterns.iter().map(|p| p.as_bytes())).expect("sound");
        prop_assert_eq!(&Subset::parse(&s.text()).expect("sound"), &s);
        for path in paths() {
            for is_dir in [false, true] {
                let want = model(&patterns, &path, is_dir);
                prop_assert_eq!(s.includes(path.as_bytes(), is_dir), want, "{} {}", path, is_dir);
            }
        }
        for dir in paths().into_iter().chain([String::new()]) {
            let prefix = if dir.is_empty() { dir.clone() } else { format!("{dir}/") };
            let under: Vec<String> = paths().into_iter().filter(|p| p.starts_with(&prefix)).collect();
            let extent = s.extent(dir.as_bytes());
            let inside = |path: &String| s.includes(path.as_bytes(), false);
            match extent {
                Extent::All => prop_assert!(under.iter().all(inside), "{}", dir),
                Extent::None => prop_assert!(!under.iter().any(inside), "{}", dir),
                Extent::Part => {}
            }
            if let Some(told) = s.names_in(dir.as_bytes()) {
                for path in under.iter().filter(|path| inside(path)) {
                    let name = path[prefix.len()..].split('/').next().unwrap_or_default();
                    prop_assert!(told.contains(&name.as_bytes().to_vec()), "{} {}", dir, path);
                }
            }
        }
    }

    #[test]
    fn adding_and_removing_change_just_what_the_pattern_names(
        patterns in prop::collection::vec(pattern(), 0..4),
        changed in pattern(),
    ) {
        let changed = changed.trim_start_matches('!');
        let s = Subset::new(patterns.iter().map(|p| p.as_bytes())).expect("sound");
        let (with, without) = (s.with(changed.as_bytes()), s.without(changed.as_bytes()));
        let (with, without) = (with.expect("sound"), without.expect("sound"));
        for path in paths() {
            for is_dir in [false, true] {
                let (before, named) = (model(&patterns, &path, is_dir), names(changed, &path, is_dir));
                let path = path.as_bytes();
                prop_assert_eq!(with.includes(path, is_dir), before || named, "{:?}", with);
                prop_assert_eq!(without.includes(path, is_dir), before && !named, "{:?}", without);
            }
        }
    }
}
