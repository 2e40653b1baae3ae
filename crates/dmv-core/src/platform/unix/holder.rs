//! Holders of locks, from `/proc/locks`.

use super::file::stat_at;
use crate::platform::{Holder, Inode};
use std::path::Path;

pub fn holder_of(files: &[&Path]) -> Option<Holder> {
    let known = std::fs::read_to_string("/proc/locks").ok()?;
    let inodes: Vec<Inode> = files
        .iter()
        .filter_map(|file| stat_at(file).ok())
        .map(|stat| stat.inode())
        .collect();
    let mut found: Vec<(bool, bool, u32)> = known
        .lines()
        .filter_map(LockLine::parse)
        .filter(|held| inodes.iter().any(|inode| held.is_on(inode)))
        .map(|held| (held.pid == std::process::id(), !held.is_write, held.pid))
        .collect();
    found.sort_unstable();
    let (_, _, pid) = *found.first()?;
    let is_stopped = is_stopped(pid);
    Some(Holder { pid, is_stopped })
}

/// One line of `/proc/locks`.
struct LockLine {
    is_write: bool,
    pid: u32,
    dev: (u64, u64),
    ino: u64,
}

impl LockLine {
    /// Parses a line like `1: FLOCK  ADVISORY  WRITE 3568 fd:00:2531452 0 EOF`. Lines of waiting
    /// processes have an arrow and give `None`.
    fn parse(line: &str) -> Option<LockLine> {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (kind, _, access) = (words.next()?, words.next()?, words.next()?);
        if kind == "->" {
            return None;
        }
        let pid = words.next()?.parse().ok()?;
        let mut place = words.next()?.split(':');
        let mut hex = || u64::from_str_radix(place.next()?, 16).ok();
        let dev = (hex()?, hex()?);
        let ino = place.next()?.parse().ok()?;
        let is_write = access == "WRITE";
        Some(LockLine {
            is_write,
            pid,
            dev,
            ino,
        })
    }

    fn is_on(&self, inode: &Inode) -> bool {
        let dev = inode.dev;
        let major = ((dev >> 8) & 0xfff) | ((dev >> 32) & !0xfff);
        let minor = (dev & 0xff) | ((dev >> 12) & 0xffff_ff00);
        self.ino == inode.ino && self.dev == (major, minor)
    }
}

fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The process name in front is in parentheses and may contain anything.
    let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start());
    state.is_some_and(|state| state.starts_with(['T', 't']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_list_is_understood() {
        let line = "2: POSIX  ADVISORY  WRITE 3568 fd:01:2531452 120 120";
        let held = LockLine::parse(line).expect("a line");
        let inode = |dev| Inode {
            dev,
            ino: 2_531_452,
        };
        assert!(held.is_write && held.pid == 3568 && held.is_on(&inode(0xfd01)));
        assert!(!held.is_on(&inode(0xfd02)));
        assert!(LockLine::parse("2: -> FLOCK  ADVISORY  WRITE 9 fd:01:5 0 EOF").is_none());
        assert!(LockLine::parse("").is_none());
    }
}
