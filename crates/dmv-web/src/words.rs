//! Values as people and programs read them. Names are escaped here for the eye, and by `maud` for
//! HTML.

use dmv_core::object::commit::Person;
use dmv_core::object::name::escape;
use jiff::Zoned;
use jiff::tz::Offset;

/// Digits of an id that are shown.
pub const SHORT_ID: usize = 12;

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

/// A number with a thin mark between thousands: `100,000`.
pub fn number(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 file`, `2,000 files`.
pub fn count(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", number(n), if n == 1 { one } else { many })
}

/// A name or path for the eye: no control or invisible characters.
pub fn shown<N: AsRef<[u8]> + ?Sized>(name: &N) -> String {
    escape(name).to_string()
}

/// Whether a character turns the direction of writing, so that a text can look like another one.
pub fn turns(c: char) -> bool {
    matches!(c, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A line of text for the eye.
pub fn clean(text: &str) -> String {
    escape(text.as_bytes()).to_string()
}

/// The first line of a message.
pub fn subject(message: &str) -> String {
    match message.lines().next().map(str::trim) {
        None | Some("") => "(no message)".to_owned(),
        Some(line) => clean(line),
    }
}

fn zoned(seconds: i64, nanos: u32, tz_minutes: i16) -> Option<Zoned> {
    let time = jiff::Timestamp::new(seconds, i32::try_from(nanos).ok()?).ok()?;
    let offset = Offset::from_seconds(i32::from(tz_minutes) * 60).ok()?;
    Some(time.to_zoned(offset.to_time_zone()))
}

/// A time for people: `2026-07-29 15:04`.
pub fn minute(person: &Person) -> String {
    moment(person.seconds, person.tz_minutes)
}

/// The same of a time in a zone so many minutes to the east.
pub fn moment(seconds: i64, tz_minutes: i16) -> String {
    match zoned(seconds, 0, tz_minutes) {
        Some(time) => time.strftime("%Y-%m-%d %H:%M").to_string(),
        None => format!("{seconds} s after 1970"),
    }
}

/// A day in UTC.
pub fn day(seconds: i64) -> String {
    match zoned(seconds, 0, 0) {
        Some(time) => time.strftime("%Y-%m-%d").to_string(),
        None => format!("{seconds} s after 1970"),
    }
}

/// A time as RFC 3339 has it.
pub fn rfc3339(person: &Person) -> String {
    match zoned(person.seconds, person.nanos, person.tz_minutes) {
        Some(time) => time.strftime("%Y-%m-%dT%H:%M:%S%.f%:z").to_string(),
        None => format!("@{}", person.seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_at_a_glance() {
        let shown = [0, 999, 1000, 100_000, 1_234_567].map(number);
        assert_eq!(shown, ["0", "999", "1,000", "100,000", "1,234,567"]);
        assert_eq!(count(1, "file", "files"), "1 file");
        assert_eq!(bytes(2_254_857_830), "2.1 GiB");
    }

    #[test]
    fn a_message_has_one_clean_line() {
        assert_eq!(subject("take 2\n\nlonger"), "take 2");
        assert_eq!(subject("\n"), "(no message)");
        assert!(!subject("a\u{202e}b").contains('\u{202e}'));
    }
}
