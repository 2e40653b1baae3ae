//! The ignore rules: which untracked files the user does not want to see.
//!
//! Rules have the syntax of git's ignore files. They come from `.dmvignore` files, on request also
//! from `.gitignore` files, and from one file of the user for all worktrees. A deeper file wins
//! over those above it, `.dmvignore` wins over `.gitignore` in the same directory, and a later line
//! over an earlier one. A file whose rules are unknown may cover anything, so the answer for
//! what is below it is [`Verdict::Unknown`]. The module does not know which entries are in the base
//! commit; callers ask it about the others only. A worktree without rules costs one test per entry.

use super::join;
use super::scan::BaseEntries;
use crate::fsutil::{FileKind, SafeDir};
use crate::glob::list::{Pattern, PatternList, lines};
use crate::limits::MAX_IGNORE_BYTES;
use crate::path::DiskPath;
use crate::platform::bytes_of;
use crate::subset::Subset;
use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

/// The file name of DMV's ignore files.
pub(crate) const DMVIGNORE: &[u8] = b".dmvignore";
/// The file name of git's ignore files.
pub(crate) const GITIGNORE: &[u8] = b".gitignore";

/// What is wrong with an ignore file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoreFault {
    /// The ignore file.
    pub path: DiskPath,
    /// The number of the line that has no effect, from 1. `None` if nobody can tell what the
    /// file's rules are.
    pub line: Option<usize>,
    /// What is wrong.
    pub why: String,
    /// Whether the file is outside of the worktree's subset, so that it is not on disk.
    pub is_outside: bool,
}

impl fmt::Display for IgnoreFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line} has no effect: ")?;
        }
        f.write_str(&self.why)
    }
}

/// Whether the rules cover an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No rule covers it.
    Wanted,
    /// The rules cover it.
    Ignored,
    /// Unknown, because an ignore file cannot be used.
    Unknown,
}

/// The rules that apply in one directory.
#[derive(Clone, Debug, Default)]
pub struct IgnoreRules {
    git: bool,
    innermost: Option<Arc<Level>>,
    /// What is wrong with the user's file.
    faults: Arc<[IgnoreFault]>,
    /// Ignore files that are not on disk as their commit has them.
    unwritten: Arc<BTreeSet<Vec<u8>>>,
}

#[derive(Debug)]
struct Level {
    /// `None` if they are unknown.
    patterns: Option<PatternList>,
    /// Length of the path of the directory that the rules are relative to.
    prefix_len: usize,
    above: Option<Arc<Level>>,
}

/// What an ignore file holds.
enum Text {
    Rules(Vec<u8>),
    /// Why its rules are unknown.
    Unusable(String),
}

impl IgnoreRules {
    /// Returns the rules above a worktree's root: those of the user's file, if one is named and
    /// exists.
    ///
    /// With `git`, `.gitignore` files count, too.
    pub fn new(global: Option<&Path>, git: bool) -> IgnoreRules {
        let rules = IgnoreRules {
            git,
            ..IgnoreRules::default()
        };
        let Some(path) = global else {
            return rules;
        };
        let text = match std::fs::metadata(path) {
            Ok(stat) if stat.is_file() => read(File::open(path)),
            Ok(_) => Text::Unusable(NOT_A_FILE.to_owned()),
            // A link that leads nowhere names rules that nobody can tell.
            Err(e) if e.kind() == io::ErrorKind::NotFound && !path.is_symlink() => return rules,
            Err(e) => Text::Unusable(e.to_string()),
        };
        let file = IgnoreFile {
            path: bytes_of(path).to_vec(),
            prefix_len: 0,
            text,
            is_outside: false,
        };
        let mut faults = Vec::new();
        let rules = rules.below(file, &mut faults);
        IgnoreRules {
            faults: faults.into(),
            ..rules
        }
    }

    /// Returns these rules where some files of the commit could not be written: what their rules are, the
    /// worktree does not say.
    pub fn without(self, unwritten: BTreeSet<Vec<u8>>) -> IgnoreRules {
        IgnoreRules {
            unwritten: unwritten.into(),
            ..self
        }
    }

    /// Returns whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.innermost.is_none()
    }

    /// Returns whether an entry of this name is an ignore file, to be passed to
    /// [`enter`](Self::enter).
    pub(crate) fn is_ignore_file(&self, name: &[u8]) -> bool {
        name == DMVIGNORE || (self.git && name == GITIGNORE)
    }

    /// Returns what is wrong with the user's file.
    pub(crate) fn faults(&self) -> &[IgnoreFault] {
        &self.faults
    }

    /// Returns these rules with those of the files in a directory whose path from the root is
    /// `path`. What is wrong with them is added to `faults`.
    pub(crate) fn enter(
        &self,
        path: &[u8],
        files: &RuleFiles<'_>,
        faults: &mut Vec<IgnoreFault>,
    ) -> IgnoreRules {
        let mut rules = self.clone();
        for name in [GITIGNORE, DMVIGNORE] {
            if !self.is_ignore_file(name) {
                continue;
            }
            let at = join(path, name);
            let text = if self.unwritten.contains(&at) {
                Some(Text::Unusable(NOT_WRITTEN.to_owned()))
            } else {
                files.text(path, name)
            };
            if let Some(text) = text {
                let file = IgnoreFile {
                    path: at,
                    prefix_len: if path.is_empty() { 0 } else { path.len() + 1 },
                    text,
                    is_outside: !files.is_on_disk(name),
                };
                rules = rules.below(file, faults);
            }
        }
        rules
    }

    fn below(&self, file: IgnoreFile, faults: &mut Vec<IgnoreFault>) -> IgnoreRules {
        let mut fault = |line, why| {
            faults.push(IgnoreFault {
                path: file.path.clone().into(),
                line,
                why,
                is_outside: file.is_outside,
            });
        };
        let patterns = match file.text {
            Text::Unusable(why) => {
                fault(None, why);
                None
            }
            Text::Rules(text) => {
                let mut patterns = Vec::new();
                for (number, line) in lines(&text) {
                    match Pattern::parse(line) {
                        Ok(pattern) => patterns.push(pattern),
                        Err(e) => fault(Some(number), e.to_string()),
                    }
                }
                if patterns.is_empty() {
                    return self.clone();
                }
                Some(PatternList::new(patterns))
            }
        };
        let level = Level {
            patterns,
            prefix_len: file.prefix_len,
            above: self.innermost.clone(),
        };
        IgnoreRules {
            innermost: Some(Arc::new(level)),
            ..self.clone()
        }
    }

    /// Returns whether the rules cover the entry at `path` from the root. It must be in the
    /// directory of these rules.
    ///
    /// The content of an ignored directory is ignored, too; the caller must apply that.
    pub fn verdict(&self, path: &[u8], is_dir: bool) -> Verdict {
        let mut next = self.innermost.as_ref();
        let mut decided = None;
        while let Some(level) = next {
            let Some(patterns) = &level.patterns else {
                // A rule there may cover the entry or a directory above it.
                return Verdict::Unknown;
            };
            if decided.is_none() {
                let found = patterns.last(&path[level.prefix_len..], is_dir);
                decided = found.map(|number| patterns.get(number).is_negated);
            }
            if decided == Some(false) {
                return Verdict::Ignored;
            }
            next = level.above.as_ref();
        }
        Verdict::Wanted
    }
}

/// An ignore file.
struct IgnoreFile {
    path: Vec<u8>,
    /// Length of the path of the directory that its rules are relative to.
    prefix_len: usize,
    text: Text,
    is_outside: bool,
}

/// Where the ignore files of one directory are.
pub(crate) struct RuleFiles<'a> {
    /// The directory; `None` if it is missing.
    pub dir: Option<&'a SafeDir>,
    /// Whether the directory has an entry of a name.
    pub is_listed: &'a dyn Fn(&[u8]) -> bool,
    /// What the base commit has.
    pub known: &'a dyn BaseEntries,
    /// The subset of the worktree. Files of the commit outside of it are not on disk, but their
    /// rules apply.
    pub subset: &'a Subset,
    /// A text in place of what `.dmvignore` has.
    pub instead: Option<&'a [u8]>,
}

impl RuleFiles<'_> {
    fn is_on_disk(&self, name: &[u8]) -> bool {
        self.dir.is_some() && (self.is_listed)(name)
    }

    /// Returns the text of the ignore file `name` of the directory at `path`, if there is one.
    fn text(&self, path: &[u8], name: &[u8]) -> Option<Text> {
        match self.dir {
            _ if name == DMVIGNORE && self.instead.is_some() => {
                self.instead.map(|text| usable(text.to_vec()))
            }
            Some(dir) if (self.is_listed)(name) => Some(read_in(dir, name)),
            _ => {
                let path = join(path, name);
                if self.subset.is_everything() || self.subset.includes(&path, false) {
                    return None;
                }
                match self.known.file(&path, MAX_IGNORE_BYTES) {
                    Ok(text) => text.map(usable),
                    Err(why) => Some(Text::Unusable(why)),
                }
            }
        }
    }
}

/// Why a file of the commit cannot be used that is not on disk.
const NOT_WRITTEN: &str = "it could not be written";

/// Why an entry of another kind cannot be used.
const NOT_A_FILE: &str = "it is not a regular file";

/// Returns why an entry of this kind is no file with rules; `None` for a regular file.
pub fn why_unusable(kind: FileKind) -> Option<&'static str> {
    match kind {
        FileKind::File => None,
        FileKind::Symlink => Some("it is a symlink, which dmv does not follow"),
        _ => Some(NOT_A_FILE),
    }
}

/// Reads the ignore file `name` in `dir`.
fn read_in(dir: &SafeDir, name: &[u8]) -> Text {
    let stat = match dir.stat(name) {
        Ok(stat) => stat,
        Err(e) => return Text::Unusable(e.why()),
    };
    if let Some(why) = why_unusable(stat.kind) {
        return Text::Unusable(why.to_owned());
    }
    let opened = dir.open_file_read(name).map(|(file, _)| file);
    read(opened.map_err(|e| e.source))
}

/// Reads an open ignore file.
fn read(file: io::Result<File>) -> Text {
    let mut text = Vec::new();
    match file.and_then(|file| file.take(MAX_IGNORE_BYTES + 1).read_to_end(&mut text)) {
        Err(e) => Text::Unusable(e.to_string()),
        Ok(_) => usable(text),
    }
}

/// Returns the rules in a text, unless it is too long or not lines of text.
fn usable(text: Vec<u8>) -> Text {
    let why = if text.len() as u64 > MAX_IGNORE_BYTES {
        format!("it is larger than {} MiB", MAX_IGNORE_BYTES >> 20)
    } else if [&b"\xff\xfe"[..], b"\xfe\xff"]
        .iter()
        .any(|mark| text.starts_with(mark))
    {
        "it is UTF-16; an ignore file is UTF-8".to_owned()
    } else if text.contains(&0) {
        "it has NUL bytes, so it is not a text of single bytes or UTF-8".to_owned()
    } else if !text.contains(&b'\n') && text[..text.len().saturating_sub(1)].contains(&b'\r') {
        "its lines end in carriage returns alone".to_owned()
    } else {
        return Text::Rules(text);
    };
    Text::Unusable(why)
}

mod report;
#[cfg(test)]
mod tests;

pub(crate) use report::RuleReport;
