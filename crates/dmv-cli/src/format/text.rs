//! Values as people read them. Nothing here lets a name or a message command a terminal.

use dmv_core::object::commit::Person;
use dmv_core::object::name::escape;
use dmv_core::subset::Subset;
use jiff::Zoned;
use jiff::tz::Offset;

/// Digits of an id that are shown where the whole of it is too much.
pub const SHORT_ID: usize = 12;

/// A line of text with control and invisible characters escaped.
pub fn clean(text: &str) -> String {
    lines(text).replace('\n', "\\n")
}

/// Like [`clean`], but line breaks and tabs stay.
pub fn lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut buf = [0; 4];
    for c in text.chars() {
        match c {
            ' '..='~' | '\n' | '\t' => out.push(c),
            _ => out.push_str(&escape(c.encode_utf8(&mut buf).as_bytes()).to_string()),
        }
    }
    out
}

/// A number of bytes, in the largest unit that leaves a whole number.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let mut value = n as f64 / 1024.0;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = if value < 99.95 { 1 } else { 0 };
    format!("{value:.digits$} {}", UNITS[unit])
}

/// `1 file`, `2 files`.
pub fn count(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// `3 files written (1.2 MiB), 2 removed`.
pub fn written(files: u64, size: u64, removed: u64) -> String {
    let removed = match removed {
        0 => String::new(),
        n => format!(", {n} removed"),
    };
    let files = count(files, "file", "files");
    format!("{files} written ({}){removed}", bytes(size))
}

/// The first line of a commit's message.
pub fn subject(message: &str) -> &str {
    message.lines().next().unwrap_or_default()
}

/// Bytes as text. What is no text is replaced.
pub fn text_of<T: AsRef<[u8]> + ?Sized>(bytes: &T) -> String {
    String::from_utf8_lossy(bytes.as_ref()).into_owned()
}

/// `Name <address>`.
pub fn person(person: &Person) -> String {
    clean(&raw_person(person))
}

/// `Name <address>`, as it is.
pub fn raw_person(person: &Person) -> String {
    format!("{} <{}>", person.name, person.email)
}

/// A point in time, as its own clock had it.
fn zoned(seconds: i64, nanos: u32, tz_minutes: i16) -> Option<Zoned> {
    let time = jiff::Timestamp::new(seconds, i32::try_from(nanos).ok()?).ok()?;
    let offset = Offset::from_seconds(i32::from(tz_minutes) * 60).ok()?;
    Some(time.to_zoned(offset.to_time_zone()))
}

/// A time for people: `2026-07-29 15:04:05 +02:00`.
pub fn time(seconds: i64, tz_minutes: i16) -> String {
    match zoned(seconds, 0, tz_minutes) {
        Some(time) => time.strftime("%Y-%m-%d %H:%M:%S %:z").to_string(),
        None => format!("{seconds} s after 1970"),
    }
}

/// A day in UTC, such as 2026-11-20.
pub fn day(seconds: i64) -> String {
    match zoned(seconds, 0, 0) {
        Some(time) => time.strftime("%Y-%m-%d").to_string(),
        None => format!("{seconds} s after 1970"),
    }
}

/// A time as RFC 3339 has it.
pub fn rfc3339(seconds: i64, nanos: u32, tz_minutes: i16) -> String {
    match zoned(seconds, nanos, tz_minutes) {
        Some(time) => time.strftime("%Y-%m-%dT%H:%M:%S%.f%:z").to_string(),
        // Beyond the years that RFC 3339 can write.
        None => format!("@{seconds}"),
    }
}

/// The patterns of a subset, for JSON. None: all paths.
pub fn patterns(subset: &Subset) -> Vec<String> {
    subset.patterns().map(shown).collect()
}

/// A pattern as it is shown. It could be typed again unless it has invisible or broken characters.
pub fn shown(pattern: &[u8]) -> String {
    match std::str::from_utf8(pattern) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => escape(pattern).to_string(),
    }
}

/// Returns a time span in words: `3 min 05 s`.
pub fn duration(seconds: f64) -> String {
    let seconds = seconds.min(1e9) as u64;
    match seconds {
        0..60 => format!("{} s", seconds.max(1)),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits_or_so() {
        let told: Vec<String> = [
            0,
            1023,
            1024,
            1536,
            102_340,
            1_048_575,
            1 << 20,
            5 << 30,
            u64::MAX,
        ]
        .map(bytes)
        .into();
        assert_eq!(
            told,
            [
                "0 B", "1023 B", "1.0 KiB", "1.5 KiB", "99.9 KiB", "1.0 MiB", "1.0 MiB", "5.0 GiB",
                "16.0 EiB"
            ]
        );
    }

    #[test]
    fn times_are_told_in_their_own_zone() {
        assert_eq!(time(0, 90), "1970-01-01 01:30:00 +01:30");
        assert_eq!(rfc3339(1, 500_000_000, -60), "1969-12-31T23:00:01.5-01:00");
        assert_eq!(rfc3339(1, 0, 0), "1970-01-01T00:00:01+00:00");
        assert_eq!(rfc3339(i64::MAX, 0, 0), format!("@{}", i64::MAX));
    }

    #[test]
    fn text_cannot_command_a_terminal() {
        assert_eq!(
            clean("a\x1b[2J\u{202e}\nb\\ö"),
            "a\\u{1b}[2J\\u{202e}\\nb\\ö"
        );
        assert_eq!(lines("a\n\tb\r"), "a\n\tb\\r");
    }
}
