//! Rust source as text: its code, the parts that are for tests only, and the paths that it names.

/// Returns `source` with comments and the content of quotes replaced by spaces. Line numbers stay
/// the same.
pub fn code_of(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    let blank = |out: &mut Vec<u8>, from: usize, to: usize| {
        let space = |b: &u8| if *b == b'\n' { b'\n' } else { b' ' };
        out.extend(bytes[from..to].iter().map(space));
    };
    while at < bytes.len() {
        let rest = &bytes[at..];
        let word_before = at > 0 && is_word(bytes[at - 1]);
        if rest.starts_with(b"//") {
            let end = find(rest, b"\n").unwrap_or(rest.len());
            blank(&mut out, at, at + end);
            at += end;
        } else if rest.starts_with(b"/*") {
            let (mut depth, mut end) = (1, 2);
            while depth > 0 && end < rest.len() {
                if rest[end..].starts_with(b"/*") {
                    (depth, end) = (depth + 1, end + 2);
                } else if rest[end..].starts_with(b"*/") {
                    (depth, end) = (depth - 1, end + 2);
                } else {
                    end += 1;
                }
            }
            blank(&mut out, at, at + end);
            at += end;
        } else if let (false, Some((open, close))) = (word_before, raw_string(rest)) {
            let end = find(&rest[open..], &close).map_or(rest.len(), |n| open + n + close.len());
            blank(&mut out, at, at + end);
            at += end;
        } else if rest[0] == b'"' {
            let mut end = 1;
            while end < rest.len() && rest[end] != b'"' {
                end += if rest[end] == b'\\' { 2 } else { 1 };
            }
            let end = end.min(rest.len() - 1);
            out.push(b'"');
            blank(&mut out, at + 1, at + end);
            out.push(b'"');
            at += end + 1;
        } else if let Some(end) = char_literal(rest) {
            blank(&mut out, at, at + end);
            at += end;
        } else {
            out.push(rest[0]);
            at += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

/// Returns where the content of a raw string begins, and what ends it.
fn raw_string(text: &[u8]) -> Option<(usize, Vec<u8>)> {
    let prefix = [&b"r"[..], b"br", b"cr"]
        .into_iter()
        .find(|p| text.starts_with(p))?;
    let hashes = text[prefix.len()..]
        .iter()
        .take_while(|b| **b == b'#')
        .count();
    let open = prefix.len() + hashes + 1;
    (text.get(open - 1) == Some(&b'"')).then(|| {
        let close = [&b"\""[..], &b"#".repeat(hashes)].concat();
        (open, close)
    })
}

/// Returns the length of the character literal at the start of `text`; `None` for a lifetime.
fn char_literal(text: &[u8]) -> Option<usize> {
    if text[0] != b'\'' {
        return None;
    }
    if text.get(1) == Some(&b'\\') {
        return find(text.get(3..)?, b"'").map(|n| n + 4);
    }
    let text = String::from_utf8_lossy(&text[1..text.len().min(8)]).into_owned();
    let mut chars = text.chars();
    let len = chars.next()?.len_utf8();
    (chars.next() == Some('\'')).then_some(len + 2)
}

/// Returns `code` with test-only items replaced by spaces.
pub fn without_tests(code: &str) -> String {
    let mut out = code.as_bytes().to_vec();
    for mark in ["#[cfg(test)]", "#[cfg(all(test"] {
        let mut from = 0;
        while let Some(at) = code[from..].find(mark).map(|n| from + n) {
            let end = item_end(code.as_bytes(), at);
            for b in &mut out[at..end] {
                *b = if *b == b'\n' { b'\n' } else { b' ' };
            }
            from = end;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns the end of the item that begins at `at` with its attributes.
fn item_end(code: &[u8], at: usize) -> usize {
    let (mut round, mut curly) = (0, 0);
    for (n, b) in code.iter().enumerate().skip(at) {
        match b {
            b'(' | b'[' => round += 1,
            b')' | b']' => round -= 1,
            b'{' => curly += 1,
            b'}' => {
                curly -= 1;
                if curly <= 0 && round == 0 {
                    return n + 1;
                }
            }
            b';' if round == 0 && curly == 0 => return n + 1,
            _ => {}
        }
    }
    code.len()
}

pub fn line_at(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// Returns the lines of `code` with `what` as separate words.
pub fn lines_with(code: &str, what: &str) -> Vec<usize> {
    let bytes = code.as_bytes();
    let edge = |b: Option<&u8>, side: Option<u8>| {
        side.is_none_or(|s| !is_word(s)) || b.is_none_or(|b| !is_word(*b))
    };
    let (first, last) = (what.bytes().next(), what.bytes().next_back());
    code.match_indices(what)
        .filter(|(at, _)| {
            let before = at.checked_sub(1).and_then(|n| bytes.get(n));
            edge(before, first) && edge(bytes.get(at + what.len()), last)
        })
        .map(|(at, _)| line_at(code, at))
        .collect()
}

/// A path in code. The parts of `use a::{b, c::d}` are `a b` and `a c d`.
#[derive(Debug, PartialEq, Eq)]
pub struct Named {
    /// The line.
    pub line: usize,
    /// The parts.
    pub parts: Vec<String>,
}

/// Returns every path of at least two parts in `code`, and every single name in a `use`.
pub fn paths_in(code: &str) -> Vec<Named> {
    let tokens = tokens(code);
    let mut out = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let before = at.checked_sub(1).map(|n| tokens[n].1);
        let starts = is_name(tokens[at].1) && !matches!(before, Some("." | "$" | "'"));
        if !starts {
            at += 1;
            continue;
        }
        let is_use =
            before == Some("use") || (before == Some("::") && at >= 2 && tokens[at - 2].1 == "use");
        let mut found = Vec::new();
        at = path_at(&tokens, at, &[], &mut found);
        found.retain(|named| named.parts.len() > 1 || is_use);
        out.extend(found);
    }
    out
}

/// Reads the path at `at`, which follows `prefix`. Returns its end.
fn path_at(
    tokens: &[(usize, &str)],
    mut at: usize,
    prefix: &[String],
    out: &mut Vec<Named>,
) -> usize {
    let mut parts = prefix.to_vec();
    let line = tokens[at].0;
    while at < tokens.len() && is_name(tokens[at].1) {
        parts.push(tokens[at].1.to_owned());
        at += 1;
        if tokens.get(at).map(|t| t.1) != Some("::") {
            break;
        }
        at += 1;
        if tokens.get(at).map(|t| t.1) == Some("{") {
            at += 1;
            while at < tokens.len() && tokens[at].1 != "}" {
                if is_name(tokens[at].1) {
                    at = path_at(tokens, at, &parts, out)
                } else {
                    at += 1
                }
            }
            return at + 1;
        }
    }
    out.push(Named { line, parts });
    at
}

fn is_name(token: &str) -> bool {
    token
        .bytes()
        .next()
        .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
}

/// Returns words, `::` and single characters, with their lines.
pub fn tokens(code: &str) -> Vec<(usize, &str)> {
    let bytes = code.as_bytes();
    let (mut out, mut at, mut line) = (Vec::new(), 0, 1);
    while at < bytes.len() {
        let from = at;
        if is_word(bytes[at]) {
            while at < bytes.len() && is_word(bytes[at]) {
                at += 1;
            }
        } else if bytes[at..].starts_with(b"::") {
            at += 2;
        } else {
            at += 1;
            while !code.is_char_boundary(at) {
                at += 1;
            }
        }
        if !bytes[from].is_ascii_whitespace() {
            out.push((line, &code[from..at]));
        }
        line += usize::from(bytes[from] == b'\n');
    }
    out
}

/// Returns the module of a file under `src/`, as names from the crate's root.
pub fn module_of(file: &str) -> Vec<&str> {
    let inner = file.split_once("/src/").map_or(file, |(_, rest)| rest);
    let mut parts: Vec<&str> = inner.trim_end_matches(".rs").split('/').collect();
    if matches!(parts.last(), Some(&"mod" | &"lib" | &"main")) {
        parts.pop();
    }
    parts
}

/// Returns the rooms that a file names, with lines: in `crate::room`, and in a chain of `super`
/// that reaches the crate's root.
pub fn rooms_named(file: &str, code: &str) -> Vec<(usize, String)> {
    let depth = module_of(file).len();
    let mut out = Vec::new();
    for named in paths_in(code) {
        let supers = named.parts.iter().take_while(|p| *p == "super").count();
        let room = match named.parts[0].as_str() {
            "crate" => named.parts.get(1),
            "super" if supers >= depth => named.parts.get(supers),
            _ => None,
        };
        out.extend(room.map(|room| (named.line, room.clone())));
    }
    out
}

/// Returns the names of the crates that a manifest depends on outside of tests, as code names them.
pub fn dependencies(manifest: &str) -> Vec<String> {
    let mut inside = false;
    let mut out = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line == "[dependencies]" || line.ends_with(".dependencies]");
            inside &= line != "[workspace.dependencies]";
        } else if let (true, Some((name, _))) = (inside, line.split_once(['.', ' ', '='])) {
            out.extend((!name.is_empty() && is_name(name)).then(|| name.replace('-', "_")));
        }
    }
    out
}

#[test]
fn comments_and_strings_are_not_code() {
    let source = "a // todo!\nb /* x /* y */ dbg! */ c \"todo! \\\" \" d r#\"un\"safe\"# e";
    let code = code_of(source);
    assert!(!code.contains("todo") && !code.contains("dbg") && !code.contains("safe"));
    let words: Vec<&str> = code
        .split_whitespace()
        .filter(|w| !w.starts_with('"'))
        .collect();
    assert_eq!(words, ["a", "b", "c", "d", "e"]);
    assert_eq!(code.matches('\n').count(), source.matches('\n').count());
}

#[test]
fn quotes_in_characters_do_not_open_strings_and_lifetimes_are_no_characters() {
    assert_eq!(
        code_of("'\"' x '\\'' y b'\"' z").split_whitespace().count(),
        4
    );
    assert_eq!(
        code_of("fn f<'a>(x: &'a str) {}"),
        "fn f<'a>(x: &'a str) {}"
    );
    assert!(code_of("'ö' dbg!()").contains("dbg!"));
}

#[test]
fn test_items_are_left_out_and_what_follows_is_not() {
    let code = "a();\n#[cfg(test)]\nmod tests {\n  fn f(x: [u8; 2]) { b(); }\n}\nc();\n\
                #[cfg(test)]\nmod more;\nd();";
    let kept = without_tests(code);
    assert!(kept.contains("a()") && kept.contains("c()") && kept.contains("d()"));
    assert!(!kept.contains("b()") && !kept.contains("more"));
    assert_eq!(kept.matches('\n').count(), code.matches('\n').count());
}

#[test]
fn paths_are_found_in_groups_and_inline() {
    let code = "use a::{b, c::{d, e as f}};\nlet x = g::h(i.j::<K>());\nuse l;\nm();";
    let found: Vec<(usize, String)> = paths_in(code)
        .into_iter()
        .map(|named| (named.line, named.parts.join("::")))
        .collect();
    let want = [
        (1, "a::b"),
        (1, "a::c::d"),
        (1, "a::c::e"),
        (2, "g::h"),
        (3, "l"),
    ];
    for (line, path) in want {
        assert!(
            found.contains(&(line, path.to_owned())),
            "{path}: {found:?}"
        );
    }
    assert!(found.iter().all(|(_, path)| path != "m"));
}

#[test]
fn dependencies_are_read_from_a_manifest() {
    let manifest = "[package]\nname = \"x\"\n[dependencies]\na-b.workspace = true\nc = \"1\"\n\
                    # d = 1\n[dev-dependencies]\ne = \"1\"\n[target.'cfg(unix)'.dependencies]\nf = \"1\"\n";
    assert_eq!(dependencies(manifest), ["a_b", "c", "f"]);
}

#[test]
fn words_are_found_as_words_only() {
    assert_eq!(lines_with("a\nunsafe {", "unsafe"), [2]);
    assert!(lines_with("unsafe_code, not_unsafe", "unsafe").is_empty());
    assert_eq!(lines_with("x.unwrap();", ".unwrap()"), [1]);
    assert!(lines_with("x.unwrap_or(1)", ".unwrap()").is_empty());
    assert!(lines_with("eprintln!()", "println!").is_empty());
    assert!(lines_with("my_dbg!()", "dbg!").is_empty());
}
