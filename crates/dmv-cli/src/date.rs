//! Dates as users write them.

use crate::format::text::count;
use jiff::civil::{Date, DateTime};
use jiff::tz::Offset;
use jiff::{Span, Timestamp, Zoned};

/// What can be written, for help texts and messages.
pub const FORMS: &str = "2026-11-21, '2026-11-21 15:04', 2026-11-21T15:04:05+01:00, today, \
                         yesterday or '2 weeks ago'";

/// The first second of a date, since 1970: where it begins to count.
pub fn since(text: &str) -> Result<i64, String> {
    parse(text, &Zoned::now()).map(|(first, _)| first)
}

/// The last second of a date, since 1970: a day counts as a whole.
pub fn until(text: &str) -> Result<i64, String> {
    parse(text, &Zoned::now()).map(|(_, last)| last)
}

/// A length of time: a number with a unit, or 0.
pub fn span(text: &str) -> Result<std::time::Duration, String> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "s" => Some(1),
        "m" => Some(60),
        "h" => Some(60 * 60),
        "d" => Some(24 * 60 * 60),
        "w" => Some(7 * 24 * 60 * 60),
        "" if digits == "0" => Some(1),
        _ => None,
    };
    let seconds = digits.parse::<u64>().ok().zip(unit);
    let seconds = seconds.and_then(|(number, unit)| number.checked_mul(unit));
    // Times that no calendar can count back are refused as well.
    let seconds = seconds.filter(|seconds| *seconds <= u64::from(u32::MAX));
    seconds
        .map(std::time::Duration::from_secs)
        .ok_or_else(|| "write a time as 30s, 10m, 36h, 14d, 8w or 0".to_owned())
}

/// A length of time in its largest unit that leaves a whole number, such as `14 days`.
pub fn length(time: std::time::Duration) -> String {
    const UNITS: [(u64, &str, &str); 3] = [
        (24 * 60 * 60, "day", "days"),
        (60 * 60, "hour", "hours"),
        (60, "minute", "minutes"),
    ];
    let seconds = time.as_secs();
    let mut units = UNITS.into_iter();
    match units.find(|(unit, ..)| seconds >= *unit && seconds.is_multiple_of(*unit)) {
        Some((unit, one, many)) => count(seconds / unit, one, many),
        None => count(seconds, "second", "seconds"),
    }
}

/// How long before `now` a moment was, in the largest unit that fits, as people say it.
pub fn ago(then: i64, now: i64) -> String {
    const UNITS: [(i64, &str, &str); 6] = [
        (365 * 24 * 60 * 60, "year", "years"),
        (30 * 24 * 60 * 60, "month", "months"),
        (7 * 24 * 60 * 60, "week", "weeks"),
        (24 * 60 * 60, "day", "days"),
        (60 * 60, "hour", "hours"),
        (60, "minute", "minutes"),
    ];
    let seconds = now.saturating_sub(then);
    if seconds < 0 {
        return "in the future".to_owned();
    }
    match UNITS.into_iter().find(|(unit, ..)| seconds >= *unit) {
        Some((unit, one, many)) => format!("{} ago", count((seconds / unit) as u64, one, many)),
        None => "just now".to_owned(),
    }
}

/// The moment that a date names. Of a day, it is the present time of day.
pub fn moment(text: &str) -> Result<dmv_core::refs::Timestamp, String> {
    moment_from(text, &Zoned::now())
}

fn moment_from(text: &str, now: &Zoned) -> Result<dmv_core::refs::Timestamp, String> {
    let text = text.trim();
    let bad = || format!("write a date as {FORMS}");
    let zoned = |seconds: i64, offset: Option<Offset>| {
        let time = Timestamp::from_second(seconds).map_err(|_| bad())?;
        let local = || now.time_zone().to_offset(time);
        Ok(dmv_core::refs::Timestamp {
            seconds,
            nanos: 0,
            tz_minutes: i16::try_from(offset.unwrap_or_else(local).seconds() / 60).unwrap_or(0),
        })
    };
    // As Git writes it: seconds since 1970, and perhaps an offset.
    let (digits, rest) = text.split_once(' ').unwrap_or((text, ""));
    if let Ok(seconds) = digits.strip_prefix('@').unwrap_or("x").parse() {
        let offset = jiff::fmt::strtime::parse("%z", rest);
        return zoned(seconds, offset.ok().and_then(|parsed| parsed.offset()));
    }
    if let Ok(time) = jiff::fmt::rfc2822::parse(text) {
        return zoned(time.timestamp().as_second(), Some(time.offset()));
    }
    let (first, last) = parse(text, now)?;
    if first != last {
        let day = Timestamp::from_second(first).map_err(|_| bad())?;
        let day = day.to_zoned(now.time_zone().clone());
        let then = day.with().time(now.time()).build().map_err(|_| bad())?;
        return zoned(then.timestamp().as_second(), None);
    }
    let pieces = jiff::fmt::temporal::Pieces::parse(text).ok();
    let offset = pieces.and_then(|pieces| pieces.to_numeric_offset());
    zoned(first, offset)
}

/// The first and last second of a date, seen from `now` and in its time zone.
fn parse(text: &str, now: &Zoned) -> Result<(i64, i64), String> {
    let text = text.trim();
    let bad = || format!("write a date as {FORMS}");
    let point = |time: Timestamp| (time.as_second(), time.as_second());
    let day = |day: Date| {
        let start = |day: Date| day.to_zoned(now.time_zone().clone());
        let (first, next) = (start(day), day.tomorrow().and_then(start));
        let (first, next) = (first.map_err(|_| bad())?, next.map_err(|_| bad())?);
        Ok((
            first.timestamp().as_second(),
            next.timestamp().as_second() - 1,
        ))
    };
    match text {
        "now" => return Ok(point(now.timestamp())),
        "today" => return day(now.date()),
        "yesterday" => return day(now.date().yesterday().map_err(|_| bad())?),
        _ => {}
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(point(time));
    }
    if text.contains(':')
        && let Ok(time) = text.parse::<DateTime>()
    {
        let time = time.to_zoned(now.time_zone().clone());
        return Ok(point(time.map_err(|_| bad())?.timestamp()));
    }
    if let Ok(date) = text.parse::<Date>() {
        return day(date);
    }
    // With or without "ago": of what is to come there are no commits.
    let span: Span = text.parse().map_err(|_| bad())?;
    let then = now.checked_sub(span.abs()).map_err(|_| bad())?;
    Ok(point(then.timestamp()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_have_a_unit() {
        for (text, seconds) in [
            ("0", 0),
            ("0d", 0),
            ("30s", 30),
            (" 10m ", 600),
            ("36h", 36 * 3600),
            ("14d", 14 * 24 * 3600),
            ("2w", 14 * 24 * 3600),
        ] {
            let span = span(text).map(|span| span.as_secs());
            assert_eq!(span, Ok(seconds), "{text}");
        }
        for text in [
            "",
            "7",
            "d",
            "1.5h",
            "-1d",
            "1 d",
            "1dd",
            "1D",
            "9999999999999d",
        ] {
            assert!(span(text).is_err(), "{text}");
        }
    }

    #[test]
    fn how_long_ago_is_told_in_the_largest_unit() {
        let day = 24 * 60 * 60;
        for (seconds, text) in [
            (-1, "in the future"),
            (0, "just now"),
            (59, "just now"),
            (60, "1 minute ago"),
            (3599, "59 minutes ago"),
            (3600, "1 hour ago"),
            (day - 1, "23 hours ago"),
            (6 * day, "6 days ago"),
            (7 * day, "1 week ago"),
            (30 * day, "1 month ago"),
            (364 * day, "12 months ago"),
            (800 * day, "2 years ago"),
        ] {
            assert_eq!(
                ago(1_000_000_000 - seconds, 1_000_000_000),
                text,
                "{seconds}"
            );
        }
        assert_eq!(ago(i64::MIN, i64::MAX), "292471208677 years ago");
    }

    #[test]
    fn dates_are_read_as_people_write_them() -> Result<(), jiff::Error> {
        let now: Zoned = "2026-11-21T15:00:00+01:00[+01:00]".parse()?;
        let noon = "2026-11-21T12:00:00+01:00"
            .parse::<Timestamp>()?
            .as_second();
        let hour = 3600;
        for (text, range) in [
            ("now", (noon + 3 * hour, noon + 3 * hour)),
            ("today", (noon - 12 * hour, noon + 12 * hour - 1)),
            ("2026-11-21", (noon - 12 * hour, noon + 12 * hour - 1)),
            ("yesterday", (noon - 36 * hour, noon - 12 * hour - 1)),
            ("2026-11-21T11:00:00Z", (noon, noon)),
            ("2026-11-21 12:00", (noon, noon)),
            (" 2026-11-21T12:00:30 ", (noon + 30, noon + 30)),
            ("3 hours ago", (noon, noon)),
            ("3h", (noon, noon)),
            ("1 day 3 hours", (noon - 24 * hour, noon - 24 * hour)),
            ("2 weeks ago", (noon - 333 * hour, noon - 333 * hour)),
        ] {
            assert_eq!(parse(text, &now), Ok(range), "{text}");
        }
        for text in [
            "",
            "2026",
            "last week",
            "2026-13-01",
            "12:00",
            "999999 years",
        ] {
            assert!(parse(text, &now).is_err(), "{text}");
        }
        Ok(())
    }

    #[test]
    fn the_moment_of_a_commit_keeps_its_time_zone() -> Result<(), jiff::Error> {
        let now: Zoned = "2026-11-21T15:00:00+01:00[+01:00]".parse()?;
        let noon = 1_795_258_800;
        for (text, seconds, tz_minutes) in [
            ("2026-11-21T12:00:00+01:00", noon, 60),
            ("2026-11-21T06:00:00-05:00", noon, -300),
            ("2026-11-21T11:00:00Z", noon, 0),
            ("2026-11-21 12:00", noon, 60),
            ("2026-11-20", noon - 21 * 3600, 60),
            ("3 hours ago", noon, 60),
            ("@1795258800", noon, 60),
            ("@1795258800 -0500", noon, -300),
            ("Sat, 21 Nov 2026 12:00:00 +0100", noon, 60),
        ] {
            let found = moment_from(text, &now).map(|t| (t.seconds, t.tz_minutes));
            assert_eq!(found, Ok((seconds, tz_minutes)), "{text}");
        }
        for text in ["", "@", "@x", "soon"] {
            assert!(moment_from(text, &now).is_err(), "{text}");
        }
        Ok(())
    }
}
