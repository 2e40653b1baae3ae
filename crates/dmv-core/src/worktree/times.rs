//! Of which files a commit keeps the time of the last change: by a setting, and by the lines of attribute files.
//!
//! A line with `times` keeps the times of the files that its pattern names, and one with `-times` does not. The
//! last such line of the deepest file counts. The files are those of the worktree. The base has those that the
//! subset leaves out. The module reads no content and sets no time.

use super::attributes::{DMVATTRIBUTES, Patterns, attribute_lines};
use super::join;
use super::scan::{BaseEntries, DirScan};
use super::snapshot::Problem;
use crate::fsutil::{FileTime, SafeDir};
use crate::limits::MAX_IGNORE_BYTES;
use crate::object::tree::{ModifiedTime, TreeEntry};
use crate::subset::{Extent, Subset};
use std::collections::BTreeMap;
use std::io::Read;

/// The attribute of files whose times are kept, and of those whose times are not.
pub(crate) const TIMES: [&str; 2] = ["times", "-times"];

/// Of which files the times are kept.
#[derive(Debug, Default)]
pub(super) struct TimeRules {
    /// What the setting says.
    by_default: bool,
    /// The lines of each directory that has such a file.
    levels: BTreeMap<Vec<u8>, Level>,
}

/// The lines about times of one attribute file.
#[derive(Debug)]
struct Level {
    patterns: Patterns,
    /// For each pattern, whether times are kept.
    keeps: Vec<bool>,
}

impl TimeRules {
    pub(super) fn new(by_default: bool) -> TimeRules {
        TimeRules {
            by_default,
            levels: BTreeMap::new(),
        }
    }

    /// Reads the attribute file of a directory that a scan has found. Directories come after those above them.
    pub(super) fn enter(
        &mut self,
        scan: &DirScan,
        root: &SafeDir,
        (known, subset): (&dyn BaseEntries, &Subset),
    ) -> Option<Problem> {
        let path = join(&scan.path, DMVATTRIBUTES);
        let text = if scan.has_attributes {
            read(root, &scan.path).map(Some)
        } else if subset.extent(&scan.path) == Extent::Part {
            known.file(&path, MAX_IGNORE_BYTES)
        } else {
            return None;
        };
        let added = text.and_then(|text| match text {
            Some(text) => self.add(&scan.path, &text),
            None => Ok(()),
        });
        let why = added.err()?;
        Some(Problem::new(
            path,
            format!("what it says about times has no effect: {why}"),
        ))
    }

    /// Adds the lines of the file in the directory `dir`. Lines that cannot be used are for `keep` to tell.
    fn add(&mut self, dir: &[u8], text: &[u8]) -> Result<(), String> {
        let (lines, _) = attribute_lines(text);
        let says = |words: &[String]| {
            let mut times = words.iter().filter(|word| TIMES.contains(&&word[..]));
            times.next_back().map(|word| word == TIMES[0])
        };
        let lines = lines.iter();
        let lines: Vec<(&str, bool)> = lines
            .filter_map(|line| Some((&line.pattern[..], says(&line.words)?)))
            .collect();
        if lines.is_empty() {
            return Ok(());
        }
        let patterns = Patterns::new(lines.iter().map(|(pattern, _)| *pattern))?;
        let keeps = lines.into_iter().map(|(_, keeps)| keeps).collect();
        self.levels.insert(dir.to_vec(), Level { patterns, keeps });
        Ok(())
    }

    /// Returns whether a commit keeps the time of the file `name` in the directory `dir`.
    pub(super) fn keep(&self, dir: &[u8], name: &[u8]) -> bool {
        if self.levels.is_empty() {
            return self.by_default;
        }
        let path = join(dir, name);
        let ends = path.iter().enumerate().filter(|(_, b)| **b == b'/');
        let dirs = ends.map(|(end, _)| end).rev().map(Some).chain([None]);
        for end in dirs {
            let (above, rest) = match end {
                Some(end) => (&path[..end], &path[end + 1..]),
                None => (&b""[..], &path[..]),
            };
            let level = self.levels.get(above);
            if let Some((level, at)) = level.and_then(|l| Some((l, l.patterns.last(rest)?))) {
                return level.keeps[at];
            }
        }
        self.by_default
    }
}

fn read(root: &SafeDir, dir: &[u8]) -> Result<Vec<u8>, String> {
    let opened = root.open_dir(dir);
    let opened = opened.and_then(|dir| dir.open_file_read(DMVATTRIBUTES));
    let (file, _) = opened.map_err(|e| e.source.to_string())?;
    let mut text = Vec::new();
    let read = file.take(MAX_IGNORE_BYTES + 1).read_to_end(&mut text);
    match read {
        Ok(read) if read as u64 > MAX_IGNORE_BYTES => {
            Err(format!("it is larger than {MAX_IGNORE_BYTES} bytes"))
        }
        Ok(_) => Ok(text),
        Err(e) => Err(e.to_string()),
    }
}

/// Returns an entry with the time of a file.
pub(super) fn with_time(entry: TreeEntry, time: FileTime) -> TreeEntry {
    let FileTime { seconds, nanos } = time;
    entry.with_modified(Some(ModifiedTime { seconds, nanos }))
}

/// Returns the time that an entry has, for its file.
pub fn time_of(entry: &TreeEntry) -> Option<FileTime> {
    let ModifiedTime { seconds, nanos } = entry.modified()?;
    Some(FileTime { seconds, nanos })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_the_deepest_file_decides() -> Result<(), String> {
        for by_default in [false, true] {
            let mut rules = TimeRules::new(by_default);
            assert_eq!(rules.keep(b"a", b"x.psd"), by_default);
            rules.add(b"", b"*.psd times\nold -times keep=none\n*.txt keep=all\n")?;
            rules.add(b"a/b", b"*.psd -times\nkept.psd times -times times\n")?;
            rules.add(b"bad", b"\xff times\n")?;
            for (dir, name, keeps) in [
                ("", "x.psd", true),
                ("a", "x.psd", true),
                ("a/b", "x.psd", false),
                ("a/b/c", "kept.psd", true),
                ("old/b", "x.psd", false),
                ("a", "x.txt", by_default),
                ("bad", "x", by_default),
            ] {
                let found = rules.keep(dir.as_bytes(), name.as_bytes());
                assert_eq!(found, keeps, "{dir}/{name}");
            }
        }
        Ok(())
    }
}
