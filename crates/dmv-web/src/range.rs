//! The `Range` and `If-Range` of a request: one range of bytes, or the whole file.

/// What part of a file a request gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it (200).
    Whole,
    /// Some bytes of it (206).
    Bytes(std::ops::Range<u64>),
    /// The range is beyond its end (416).
    Beyond,
}

/// The part of a file of `size` bytes that `header` asks for.
///
/// A header that is no single range of bytes counts as absent, as RFC 9110 allows: several ranges
/// would let a request ask for a file many times over.
pub fn part(header: Option<&str>, size: u64) -> Part {
    let Some(asked) = header.and_then(|text| text.trim().strip_prefix("bytes=")) else {
        return Part::Whole;
    };
    let Some((from, to)) = asked.trim().split_once('-') else {
        return Part::Whole;
    };
    let number = |text: &str| {
        if text.bytes().all(|b| b.is_ascii_digit()) && !text.is_empty() {
            Some(text.parse::<u64>().unwrap_or(u64::MAX))
        } else {
            None
        }
    };
    match (number(from.trim()), number(to.trim())) {
        (Some(from), None) if to.trim().is_empty() => within(from, size, size),
        (Some(from), Some(to)) if from <= to => within(from, to.saturating_add(1), size),
        (None, Some(0)) if from.trim().is_empty() => Part::Beyond,
        (None, Some(last)) if from.trim().is_empty() => {
            within(size.saturating_sub(last), size, size)
        }
        _ => Part::Whole,
    }
}

fn within(from: u64, to: u64, size: u64) -> Part {
    if from >= size {
        return Part::Beyond;
    }
    Part::Bytes(from..to.min(size))
}

/// Whether `If-Range` lets the range count: it is absent, or names this very file.
pub fn may_be_part(if_range: Option<&str>, tag: &str) -> bool {
    if_range.is_none_or(|text| text.trim() == tag)
}

/// Whether `If-None-Match` has the tag, so that nothing needs to be sent.
pub fn is_known(if_none_match: Option<&str>, tag: &str) -> bool {
    let same = |one: &str| one.trim().trim_start_matches("W/") == tag || one.trim() == "*";
    if_none_match.is_some_and(|list| list.split(',').any(same))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_is_served_and_a_bomb_is_not() {
        let cases = [
            (None, Part::Whole),
            (Some("bytes=0-0"), Part::Bytes(0..1)),
            (Some("bytes=2-"), Part::Bytes(2..10)),
            (Some("bytes=-3"), Part::Bytes(7..10)),
            (Some("bytes=-300"), Part::Bytes(0..10)),
            (Some("bytes=4-99999999999999999999999"), Part::Bytes(4..10)),
            (Some("bytes=10-"), Part::Beyond),
            (Some("bytes=99999999999999999999999-"), Part::Beyond),
            (Some("bytes=-0"), Part::Beyond),
            (Some("bytes=5-4"), Part::Whole),
            (Some("bytes=0-1,3-4"), Part::Whole),
            (Some("bytes=0-0,0-0,0-0,0-0"), Part::Whole),
            (Some("bytes=a-b"), Part::Whole),
            (Some("bytes=+1-2"), Part::Whole),
            (Some("lines=0-1"), Part::Whole),
            (Some("bytes="), Part::Whole),
            (Some("bytes=-"), Part::Whole),
        ];
        for (header, want) in cases {
            assert_eq!(part(header, 10), want, "{header:?}");
        }
        assert_eq!(part(Some("bytes=0-"), 0), Part::Beyond);
        assert_eq!(part(Some("bytes=-1"), 0), Part::Beyond);
    }

    #[test]
    fn an_older_file_is_sent_whole() {
        assert!(may_be_part(None, "\"a\""));
        assert!(may_be_part(Some("\"a\""), "\"a\""));
        assert!(!may_be_part(Some("\"b\""), "\"a\""));
        assert!(!may_be_part(Some("W/\"a\""), "\"a\""));
        assert!(is_known(Some("\"b\", W/\"a\""), "\"a\""));
        assert!(!is_known(Some("\"b\""), "\"a\"") && !is_known(None, "\"a\""));
    }
}
