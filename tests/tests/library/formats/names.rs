//! Every line of docs/format/vectors/nasty_names.tsv gets the verdict written there.

use super::nasty::{lines, parse, unescape};
use dmv_core::object::name::{check_name, escape, fold_key, portability};

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
