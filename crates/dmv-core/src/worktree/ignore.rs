//! The ignore rules: which untracked files the user does not want to see.
//!
//! Rules have the syntax of git's ignore files. They come from `.dmvignore` files, on request also
//! from `.gitignore` files, and from one file of the user for all worktrees. A deeper file wins
//! over those above it, `.dmvignore` wins over `.gitignore` in the same directory, and a later line
//! over an earlier one. The module does not know which entries are in the base commit; callers ask
//! it about the others only. A worktree without rules costs one test per entry.

use crate::fsutil::{SafeDir, os_str};
use crate::limits::MAX_IGNORE_BYTES;
use crate::path::DiskPath;
use crate::platform::bytes_of;
use ::ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

/// The file name of DMV's ignore files.
pub(crate) const DMVIGNORE: &[u8] = b".dmvignore";
/// The file name of git's ignore files.
pub(crate) const GITIGNORE: &[u8] = b".gitignore";

/// A part of an ignore file that has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoreWarning {
    /// The ignore file.
    pub path: DiskPath,
    /// The number of the line, from 1; `None` for the complete file.
    pub line: Option<usize>,
    /// What is wrong.
    pub why: String,
}

impl fmt::Display for IgnoreWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.why)
    }
}

/// The rules that apply in one directory.
#[derive(Clone, Debug, Default)]
pub struct IgnoreRules {
    git: bool,
    innermost: Option<Arc<Level>>,
}

#[derive(Debug)]
struct Level {
    matcher: Gitignore,
    /// Length of the path of the directory that the rules are relative to.
    prefix_len: usize,
    above: Option<Arc<Level>>,
}

impl IgnoreRules {
    /// Returns the rules above a worktree's root: those of the user's file, if one is named and
    /// exists.
    ///
    /// With `git`, `.gitignore` files count, too.
    pub fn new(global: Option<&Path>, git: bool) -> (IgnoreRules, Vec<IgnoreWarning>) {
        let mut rules = IgnoreRules {
            git,
            innermost: None,
        };
        let mut warnings = Vec::new();
        if let Some(path) = global {
            let name = bytes_of(path);
            let mut builder = Builder::new(&mut warnings);
            match File::open(path) {
                Ok(file) => builder.add(name, Ok(file)),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => builder.add(name, Err(e)),
            }
            if let Some(matcher) = builder.build() {
                rules = rules.below(matcher, 0);
            }
        }
        (rules, warnings)
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

    /// Returns the rules for the directory `dir`, whose path from the root is `path`.
    ///
    /// `files` are its ignore files. A file that cannot be used gives a warning.
    pub fn enter(
        &self,
        dir: &SafeDir,
        path: &[u8],
        files: &[&[u8]],
        warnings: &mut Vec<IgnoreWarning>,
    ) -> IgnoreRules {
        let mut builder = Builder::new(warnings);
        for name in [GITIGNORE, DMVIGNORE] {
            if files.contains(&name) && self.is_ignore_file(name) {
                let opened = dir.open_file_read(name).map(|(file, _)| file);
                builder.add(&super::join(path, name), opened.map_err(|e| e.source));
            }
        }
        match builder.build() {
            Some(matcher) if path.is_empty() => self.below(matcher, 0),
            Some(matcher) => self.below(matcher, path.len() + 1),
            None => self.clone(),
        }
    }

    fn below(&self, matcher: Gitignore, prefix_len: usize) -> IgnoreRules {
        let above = self.innermost.clone();
        IgnoreRules {
            git: self.git,
            innermost: Some(Arc::new(Level {
                matcher,
                prefix_len,
                above,
            })),
        }
    }

    /// Returns whether the rules ignore the entry at `path` from the root. It must be in the
    /// directory of these rules.
    ///
    /// The content of an ignored directory is ignored, too; the caller must apply that.
    pub fn ignores(&self, path: &[u8], is_dir: bool) -> bool {
        let mut next = self.innermost.as_ref();
        while let Some(level) = next {
            let relative = Path::new(os_str(&path[level.prefix_len..]));
            let found = level.matcher.matched(relative, is_dir);
            if !found.is_none() {
                return found.is_ignore();
            }
            next = level.above.as_ref();
        }
        false
    }
}

struct Builder<'a> {
    builder: GitignoreBuilder,
    warnings: &'a mut Vec<IgnoreWarning>,
    last_path: Vec<u8>,
}

impl Builder<'_> {
    fn new(warnings: &mut Vec<IgnoreWarning>) -> Builder<'_> {
        Builder {
            // With this root the matcher accepts paths as they are.
            builder: GitignoreBuilder::new("."),
            warnings,
            last_path: Vec::new(),
        }
    }

    fn add(&mut self, path: &[u8], file: io::Result<File>) {
        self.last_path = path.to_vec();
        let mut text = Vec::new();
        let read = file.and_then(|f| f.take(MAX_IGNORE_BYTES + 1).read_to_end(&mut text));
        match read {
            Err(e) => return self.warn(None, format!("not used: {e}")),
            Ok(n) if n as u64 > MAX_IGNORE_BYTES => {
                return self.warn(
                    None,
                    format!("not used: larger than {MAX_IGNORE_BYTES} bytes"),
                );
            }
            Ok(_) => {}
        }
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text);
        for (i, line) in text.split(|b| *b == b'\n').enumerate() {
            let Ok(line) = std::str::from_utf8(line) else {
                self.warn(Some(i + 1), "not UTF-8".into());
                continue;
            };
            if let Err(e) = self.builder.add_line(None, line) {
                self.warn(Some(i + 1), e.to_string());
            }
        }
    }

    fn warn(&mut self, line: Option<usize>, why: String) {
        self.warnings.push(IgnoreWarning {
            path: self.last_path.clone().into(),
            line,
            why,
        });
    }

    fn build(mut self) -> Option<Gitignore> {
        match self.builder.build() {
            Ok(matcher) => (!matcher.is_empty()).then_some(matcher),
            Err(e) => {
                self.warn(None, format!("not used: {e}"));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Result<T = (), E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

    #[test]
    fn deeper_files_and_later_lines_win() -> Result {
        let temp = tempfile::tempdir()?;
        std::fs::create_dir(temp.path().join("sub"))?;
        std::fs::write(temp.path().join("global"), "*.g\n")?;
        std::fs::write(temp.path().join(".gitignore"), "*.tmp\n*.o\n")?;
        std::fs::write(temp.path().join(".dmvignore"), "!keep.tmp\n/top\nbuild/\n")?;
        std::fs::write(temp.path().join("sub/.dmvignore"), "!*.o\n/own\n")?;
        let dir = SafeDir::open_root(temp.path())?;
        let mut warnings = Vec::new();
        let (above, none) = IgnoreRules::new(Some(&temp.path().join("global")), true);
        let root = above.enter(&dir, b"", &[DMVIGNORE, GITIGNORE], &mut warnings);
        let sub = root.enter(&dir.open_dir(b"sub")?, b"sub", &[DMVIGNORE], &mut warnings);
        for (path, is_dir, want) in [
            ("a.tmp", false, true),
            ("keep.tmp", false, false),
            ("top", false, true),
            ("build", true, true),
            ("build", false, false),
            ("x.g", false, true),
        ] {
            assert_eq!(root.ignores(path.as_bytes(), is_dir), want, "{path}");
        }
        for (path, want) in [
            ("sub/a.tmp", true),
            ("sub/a.o", false),
            ("sub/top", false),
            ("sub/own", true),
            ("sub/x.g", true),
        ] {
            assert_eq!(sub.ignores(path.as_bytes(), false), want, "{path}");
        }
        assert!(none.is_empty() && warnings.is_empty());
        Ok(())
    }

    #[test]
    fn bad_lines_are_warnings_and_the_others_hold() -> Result {
        let temp = tempfile::tempdir()?;
        let text = b"a{b\n\xff\n\n# comment\n*.tmp\r\n";
        std::fs::write(temp.path().join(".dmvignore"), text)?;
        let dir = SafeDir::open_root(temp.path())?;
        let mut warnings = Vec::new();
        let rules = IgnoreRules::default().enter(&dir, b"", &[DMVIGNORE], &mut warnings);
        assert!(rules.ignores(b"x.tmp", false));
        let lines: Vec<_> = warnings.iter().map(|w| w.line).collect();
        assert_eq!(lines, [Some(1), Some(2)]);
        assert_eq!(warnings[1].to_string(), ".dmvignore:2: not UTF-8");
        Ok(())
    }

    #[test]
    fn an_ignore_file_that_is_a_link_or_too_big_is_not_used() -> Result {
        let temp = tempfile::tempdir()?;
        std::fs::write(temp.path().join("real"), "*\n")?;
        std::os::unix::fs::symlink("real", temp.path().join(".dmvignore"))?;
        let dir = SafeDir::open_root(temp.path())?;
        let mut warnings = Vec::new();
        let rules = IgnoreRules::default().enter(&dir, b"", &[DMVIGNORE], &mut warnings);
        assert!(rules.is_empty() && warnings.len() == 1);
        std::fs::remove_file(temp.path().join(".dmvignore"))?;
        let big = vec![b'\n'; MAX_IGNORE_BYTES as usize + 1];
        std::fs::write(temp.path().join(".dmvignore"), big)?;
        let rules = IgnoreRules::default().enter(&dir, b"", &[DMVIGNORE], &mut warnings);
        assert!(rules.is_empty() && warnings.len() == 2);
        let (rules, none) = IgnoreRules::new(Some(&temp.path().join("absent")), false);
        assert!(rules.is_empty() && none.is_empty());
        Ok(())
    }
}
