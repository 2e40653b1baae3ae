//! A line about this machine, for the head of results.
//!
//! It names what matters to the figures, and nothing that identifies the machine: no host name, no
//! path.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

/// Processor, memory, the file system of `base`, and kernel. The same on every call.
pub fn describe(base: &Path) -> Result<String> {
    let cores = thread::available_parallelism().context("number of cores")?;
    let cpu = field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown processor".into());
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    // Behind the first dash comes what the machine's owner or distributor says.
    let kernel = kernel.trim().split('-').next().unwrap_or_default();
    Ok(format!(
        "{cores} cores of {cpu}, {} GiB of memory, {}, Linux {kernel}",
        memory_bytes().div_ceil(1 << 30),
        file_system(base)?
    ))
}

/// The machine's memory.
pub fn memory_bytes() -> u64 {
    let text = field("/proc/meminfo", "MemTotal").unwrap_or_default();
    let kib = text.trim_end_matches(" kB").parse::<u64>();
    kib.unwrap_or(0) * 1024
}

/// The last commit that changed the program's own sources, with a mark if they have changed since.
/// `None` outside a Git repository, or without Git.
pub fn source_commit() -> Option<String> {
    let paths = ["crates", "Cargo.toml", "Cargo.lock"];
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .args(arguments)
            .arg("--")
            .args(paths)
            .output();
        let output = output.ok().filter(|o| o.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["log", "-1", "--format=%h"]).filter(|commit| !commit.is_empty())?;
    let changed = !git(&["status", "--porcelain"])?.is_empty();
    Some(commit + if changed { " and later changes" } else { "" })
}

/// Today in UTC, as `2026-11-22`.
pub fn today() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    date(now.map_or(0, |since| since.as_secs() / 86_400))
}

/// The date `days` after 1970-01-01: the civil calendar from day numbers, as in Howard Hinnant's
/// `civil_from_days`.
fn date(days: u64) -> String {
    let z = days + 719_468;
    let (era, day) = (z / 146_097, z % 146_097);
    let year_of_era = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Years begin in March here, so that a leap day is the last.
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    let year = era * 400 + year_of_era + later;
    format!("{year:04}-{month:02}-{day:02}")
}

fn field(path: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(key))?;
    let (_, value) = line.split_once(':')?;
    Some(value.trim().to_owned())
}

/// The kind of the file system that `path` is on, such as `ext4`.
fn file_system(path: &Path) -> Result<String> {
    let path = path.canonicalize().context("scratch directory")?;
    let mounts = fs::read_to_string("/proc/self/mounts").context("/proc/self/mounts")?;
    let kinds = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?, words.next()?))
    });
    // The longest mount point wins, and of equal ones the last, which hides the others.
    let best = kinds
        .filter(|(top, _)| path.starts_with(top))
        .max_by_key(|(top, _)| top.len());
    Ok(best
        .map_or("unknown file system", |(_, kind)| kind)
        .to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        for (days, text) in [
            (0, "1970-01-01"),
            (58, "1970-02-28"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (20_779, "2026-11-22"),
            (20_818, "2026-12-31"),
            (47_540, "2100-02-28"),
            (47_541, "2100-03-01"),
        ] {
            assert_eq!(date(days), text);
        }
    }

    #[test]
    fn the_machine_is_described() -> Result<()> {
        let text = describe(Path::new("/"))?;
        assert!(
            text.contains(" cores of ") && text.contains("Linux "),
            "{text}"
        );
        assert!(!text.contains("0 GiB of memory,"), "{text}");
        assert_eq!(text, describe(Path::new("/"))?);
        Ok(())
    }
}
