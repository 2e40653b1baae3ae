//! Numbers of bytes, files and seconds as people write them.

use anyhow::{Context, Result};

/// The units of bytes, each 1,024 times the one before.
const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];

/// Reads a size such as `7`, `64K` or `1GiB`, in powers of 1,024.
pub fn parse_bytes(text: &str) -> Result<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" | "B" => 0,
        "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        "T" | "TiB" => 40,
        unit => anyhow::bail!("'{unit}' is no unit of size: use K, M or G, or KiB, MiB or GiB"),
    };
    let number: u64 = digits
        .parse()
        .context("a size is a whole number and K, M or G")?;
    number.checked_mul(1 << shift).context("size too large")
}

/// Writes a size with its unit: `1.5 MiB`.
pub fn bytes(n: f64) -> String {
    let mut n = n;
    let mut unit = 0;
    while n >= 1024.0 && unit + 1 < UNITS.len() {
        n /= 1024.0;
        unit += 1;
    }
    format!("{} {}", three_digits(n), UNITS[unit])
}

/// Writes a number of things with commas: `1,000,000`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Writes a number with at most three digits after which nothing is known, and no more zeros
/// than needed: `0.052`, `1.5`, `370`.
pub fn three_digits(x: f64) -> String {
    let text = match x.abs() {
        a if a < 1.0 => format!("{x:.3}"),
        a if a < 10.0 => format!("{x:.2}"),
        a if a < 100.0 => format!("{x:.1}"),
        _ => return format!("{x:.0}"),
    };
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text.is_empty() { "0" } else { text }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() -> Result<()> {
        for (text, wanted) in [
            ("0", 0),
            ("7", 7),
            ("7B", 7),
            ("2K", 2048),
            ("3M", 3 << 20),
            ("8G", 8 << 30),
            ("32GiB", 32 << 30),
            ("2T", 2 << 40),
        ] {
            assert_eq!(parse_bytes(text)?, wanted);
        }
        for bad in ["", "K", "1P", "-1", "1.5G", "99999999999G", "1 K", "1Gib"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
        Ok(())
    }

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(bytes(1.0), "1 B");
        assert_eq!(bytes(1536.0), "1.5 KiB");
        assert_eq!(bytes(f64::from(1 << 30) * 32.0), "32 GiB");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000_000), "1,000,000");
        for (x, text) in [
            (0.0, "0"),
            (0.0001, "0"),
            (0.0524, "0.052"),
            (1.0, "1"),
            (9.876, "9.88"),
            (370.4, "370"),
        ] {
            assert_eq!(three_digits(x), text);
        }
    }
}
