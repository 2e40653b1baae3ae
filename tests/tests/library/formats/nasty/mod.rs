//! Reads docs/format/vectors/nasty_names.tsv.

const TABLE: &str = include_str!("../../../../../docs/format/vectors/nasty_names.tsv");

/// `(line's id, name column, verdict, class)`.
pub fn lines() -> impl Iterator<Item = [&'static str; 4]> {
    TABLE.lines().skip(1).map(|line| {
        let fields: Vec<&str> = line.split('\t').collect();
        [fields[0], fields[1], fields[2], fields[3]]
    })
}

/// Bytes of a Python bytes literal, with an optional `*count`.
pub fn parse(literal: &str) -> Vec<u8> {
    let quote = literal.as_bytes()[1] as char;
    let (body, count) = match literal.rsplit_once(quote) {
        Some((body, "")) => (&body[2..], 1),
        Some((body, times)) => (&body[2..], times[1..].parse().expect("a count")),
        None => panic!("no literal: {literal}"),
    };
    unescape(body).repeat(count)
}

/// The bytes that a Python literal stands for, without its quotes.
pub fn unescape(body: &str) -> Vec<u8> {
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
