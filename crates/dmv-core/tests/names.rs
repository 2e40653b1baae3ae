//! Every line of docs/format/vectors/nasty_names.tsv gets the verdict written there.

use dmv_core::object::name::{check_name, escape, fold_key, portability};

const TABLE: &str = include_str!("../../../docs/format/vectors/nasty_names.tsv");

/// `(line's id, name column, verdict, class)`.
fn lines() -> impl Iterator<Item = [&'static str; 4]> {
    TABLE.lines().skip(1).map(|line| {
        let fields: Vec<&str> = line.split('\t').collect();
        [fields[0], fields[1], fields[2], fields[3]]
    })
}

/// Bytes of a Python bytes literal, with an optional `*count`.
fn parse(literal: &str) -> Vec<u8> {
    let quote = literal.as_bytes()[1] as char;
    let (body, count) = match literal.rsplit_once(quote) {
        Some((body, "")) => (&body[2..], 1),
        Some((body, times)) => (&body[2..], times[1..].parse().expect("a count")),
        None => panic!("no literal: {literal}"),
    };
    unescape(body).repeat(count)
}

fn unescape(body: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = body.bytes();
    while let Some(byte) = rest.next() {
        out.push(match byte {
            b'\\' => match rest.next().expect("an escape") {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'x' => {
                    let mut digit = || {
                        let digit = rest.next().expect("a digit") as char;
                        digit.to_digit(16).expect("a hex digit") as u8
                    };
                    digit() << 4 | digit()
                }
                same => same,
            },
            byte => byte,
        });
    }
    out
}

#[test]
fn single_names_get_the_verdict_of_the_table() {
    let mut seen = 0;
    for [id, literal, verdict, class] in lines() {
        if class == "pair" || class == "tree" {
            continue;
        }
        let name = parse(literal);
        let shown = escape(&name);
        match verdict {
            "REJECT" => assert!(check_name(&name).is_err(), "{id} {shown}"),
            "NOPORT" => {
                assert_eq!(check_name(&name), Ok(()), "{id} {shown}");
                assert!(portability(&name).is_err(), "{id} {shown}");
            }
            "ROUNDTRIP" => {
                assert_eq!(check_name(&name), Ok(()), "{id} {shown}");
                let plain = std::str::from_utf8(&name)
                    .is_ok_and(|text| !text.chars().any(char::is_control));
                assert_eq!(portability(&name).is_ok(), plain, "{id} {shown}");
            }
            other => panic!("{id}: verdict {other}"),
        }
        seen += 1;
    }
    assert_eq!(seen, 131);
}

#[test]
fn names_that_meet_on_some_file_system_share_a_key() {
    let mut seen = 0;
    // N142, a long name and its generated short form, cannot be told from the two names alone.
    for [id, pair, _, _] in lines().filter(|l| l[2] == "COLLIDE" && l[0] != "N142") {
        let body = pair.strip_prefix("b'").and_then(|p| p.strip_suffix('\''));
        let (a, b) = body.and_then(|p| p.split_once("=>")).expect("a pair");
        let b = b.split(" (").next().expect("a name");
        let (a, b) = (unescape(a), unescape(b));
        assert_ne!(a, b, "{id}");
        assert_eq!(fold_key(&a), fold_key(&b), "{id}");
        seen += 1;
    }
    assert_eq!(seen, 11);
}
