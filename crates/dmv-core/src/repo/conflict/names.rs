//! The names of the files that show a conflict.
//!
//! A version beside a conflict has its label before the extension, so that programs still know what
//! the file is: `rock.theirs.png`. Earlier builds put the label at the end, `rock.png.theirs`
//! (docs/format/layout.md, "Files beside a conflict").

use crate::hash::ObjectId;
use crate::limits::MAX_NAME_BYTES;
use crate::object::name::{RepoPath, SafeName, fold_key};
use crate::object::tree::{TreeIter, lookup_path};
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use crate::worktree::base::dir_tree;
use crate::worktree::join;
use std::collections::{BTreeSet, HashSet};

/// The longest extension, with its dot. What is longer is no extension, but a name with a dot in it.
const MAX_EXTENSION_BYTES: usize = 32;

/// The names in use beside the conflicts of one commit.
pub struct NamesBeside<'a> {
    repo: &'a Repo,
    /// The commit's tree, without forms.
    tree: &'a ObjectId,
    /// Names that choices use.
    taken: BTreeSet<RepoPath>,
    /// The names in the directories above the last conflict.
    dirs: Vec<NamesIn>,
}

/// The names in a directory.
struct NamesIn {
    dir: RepoPath,
    /// All names, as a file system without case sees them: those in the tree, and those given here.
    folded: HashSet<Vec<u8>>,
    /// Whether all names of the tree are known. A part of the directory may be absent.
    is_complete: bool,
    /// The names that earlier builds gave.
    former: HashSet<RepoPath>,
}

impl<'a> NamesBeside<'a> {
    /// Begins with names that choices use.
    pub fn new(repo: &'a Repo, tree: &'a ObjectId, taken: BTreeSet<RepoPath>) -> NamesBeside<'a> {
        NamesBeside {
            repo,
            tree,
            taken,
            dirs: Vec::new(),
        }
    }

    /// Returns a free name for a version of the conflict at `path`. It differs from all others also
    /// where the case of letters does not count. The conflicts must come in path order.
    pub fn free(&mut self, path: &RepoPath, label: &str) -> Result<RepoPath, RepoError> {
        for n in 1u32.. {
            let beside = beside(path, &ending(label, n))?;
            let folded = fold_key(beside.file_name().unwrap_or_default());
            if self.taken.contains(&beside) || self.names_beside(path).folded.contains(&folded) {
                continue;
            }
            if self.is_absent(path, &beside)? {
                self.names_beside(path).folded.insert(folded);
                return Ok(beside);
            }
        }
        unreachable!("a directory has fewer names than numbers")
    }

    /// Returns the name that earlier builds gave to a version.
    pub fn former(&mut self, path: &RepoPath, label: &str) -> Result<RepoPath, RepoError> {
        for n in 1u32.. {
            let beside = at_the_end(path, &ending(label, n))?;
            if self.taken.contains(&beside) || self.names_beside(path).former.contains(&beside) {
                continue;
            }
            if self.is_absent(path, &beside)? {
                self.names_beside(path).former.insert(beside.clone());
                return Ok(beside);
            }
        }
        unreachable!("a directory has fewer names than numbers")
    }

    /// Returns whether the tree has nothing at `beside`, a path in the directory of the conflict at
    /// `path`. Looks into the tree only if its names do not tell.
    fn is_absent(&mut self, path: &RepoPath, beside: &RepoPath) -> Result<bool, RepoError> {
        let names = self.names_beside(path);
        let folded = fold_key(beside.file_name().unwrap_or_default());
        if names.is_complete && !names.folded.contains(&folded) {
            return Ok(true);
        }
        Ok(lookup_path(self.repo, self.tree, beside)?.is_none())
    }

    /// Returns the names in the directory of the conflict at `path`. Forgets those of directories
    /// that are not above it: no further conflict lies there.
    fn names_beside(&mut self, path: &RepoPath) -> &mut NamesIn {
        let dir = path.parent().unwrap_or_default();
        self.dirs.retain(|names| dir.starts_with(&names.dir));
        if self.dirs.last().is_none_or(|last| last.dir != dir) {
            let (folded, is_complete) = self.folded_in(dir.as_bytes());
            self.dirs.push(NamesIn {
                dir,
                folded,
                is_complete,
                former: HashSet::new(),
            });
        }
        self.dirs.last_mut().expect("one was just added")
    }

    /// Returns the folded names in a directory, and whether these are all. A part that cannot be read
    /// is left out: two equal names are then found when the files are written.
    fn folded_in(&self, dir: &[u8]) -> (HashSet<Vec<u8>>, bool) {
        let mut folded = HashSet::new();
        let Ok(Some(tree)) = dir_tree(self.repo.objects(), self.tree, dir) else {
            return (folded, false);
        };
        for entry in TreeIter::new(self.repo.objects(), tree) {
            let Ok(entry) = entry else {
                return (folded, false);
            };
            folded.insert(fold_key(entry.name.as_bytes()));
        }
        (folded, true)
    }
}

/// Returns the ending of the `n`-th name of a version, counted from 1.
fn ending(label: &str, n: u32) -> String {
    match n {
        1 => format!(".{label}"),
        n => format!(".{label}.{n}"),
    }
}

/// Returns the path with `ending` before the extension of its last name. Cuts the name if it would
/// be too long.
fn beside(path: &RepoPath, ending: &str) -> Result<RepoPath, RepoError> {
    let (stem, extension) = split_extension(path.file_name().unwrap_or_default());
    let rest = [ending.as_bytes(), extension].concat();
    named_beside(path, stem, &rest)
}

/// Returns the path with `ending` after its last name. Cuts the name if it would be too long.
fn at_the_end(path: &RepoPath, ending: &str) -> Result<RepoPath, RepoError> {
    named_beside(
        path,
        path.file_name().unwrap_or_default(),
        ending.as_bytes(),
    )
}

fn named_beside(path: &RepoPath, stem: &[u8], rest: &[u8]) -> Result<RepoPath, RepoError> {
    let mut len = stem.len().min(MAX_NAME_BYTES.saturating_sub(rest.len()));
    // Do not cut inside a character.
    while len > 0 && stem.get(len).is_some_and(|b| b & 0xc0 == 0x80) {
        len -= 1;
    }
    let dir = path.parent().unwrap_or_default();
    let name = [&stem[..len], rest].concat();
    Repo::parse_path(&join(dir.as_bytes(), &name))
}

/// Splits a name before its extension. A name that only begins with a dot has none, and the two of
/// `.tar.gz` stay together.
fn split_extension(name: &[u8]) -> (&[u8], &[u8]) {
    let Some(dot) = name.iter().rposition(|b| *b == b'.').filter(|dot| *dot > 0) else {
        return (name, b"");
    };
    let extension = &name[dot..];
    let is_one = (2..=MAX_EXTENSION_BYTES).contains(&extension.len()) && !extension.contains(&b' ');
    if !is_one {
        return (name, b"");
    }
    let stem = &name[..dot];
    let tar = stem.len().saturating_sub(b".tar".len());
    if tar > 0 && stem[tar..].eq_ignore_ascii_case(b".tar") {
        name.split_at(tar)
    } else {
        name.split_at(dot)
    }
}

/// Returns the last name of a path that is not the root.
pub fn last_name(path: &RepoPath) -> SafeName {
    let name = path.file_name().unwrap_or_default();
    SafeName::new(name).expect("a path consists of valid names")
}

/// Splits the last name of `path` into its stem and its extension, with the dot. The name of a
/// further version that a choice keeps has its label between the two.
pub fn stem_and_ending(path: &RepoPath) -> (&[u8], &[u8]) {
    let name = path.file_name().unwrap_or_default();
    let dot = name.iter().rposition(|b| *b == b'.').filter(|dot| *dot > 0);
    name.split_at(dot.unwrap_or(name.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_label_stands_before_the_extension() -> Result<(), Box<dyn std::error::Error>> {
        for (name, wanted) in [
            ("rock.png", "rock.theirs.png"),
            ("d/e.f/rock.png", "d/e.f/rock.theirs.png"),
            ("d.e/README", "d.e/README.theirs"),
            (".bashrc", ".bashrc.theirs"),
            (".config.json", ".config.theirs.json"),
            ("a.tar.gz", "a.theirs.tar.gz"),
            ("a.TAR.zst", "a.theirs.TAR.zst"),
            (".tar.gz", ".tar.theirs.gz"),
            ("a.b.gz", "a.b.theirs.gz"),
            ("a.", "a..theirs"),
            ("v1. the last cut", "v1. the last cut.theirs"),
            ("film.été", "film.theirs.été"),
        ] {
            let path = beside(&RepoPath::parse(name.as_bytes())?, &ending("theirs", 1))?;
            assert_eq!(path, RepoPath::parse(wanted.as_bytes())?, "{name}");
        }
        let path = RepoPath::parse(b"rock.png")?;
        assert_eq!(
            beside(&path, &ending("base", 2))?,
            RepoPath::parse(b"rock.base.2.png")?
        );
        Ok(())
    }

    #[test]
    fn a_long_name_is_cut_and_keeps_its_extension() -> Result<(), Box<dyn std::error::Error>> {
        for len in MAX_NAME_BYTES - 12..=MAX_NAME_BYTES {
            for c in ["x", "é", "字"] {
                let stem = c.repeat((len - 4) / c.len());
                let path = RepoPath::parse(format!("{stem}.png").as_bytes())?;
                let made = beside(&path, &ending("theirs", 12))?;
                let name = made.file_name().ok_or("no name")?;
                assert!(name.len() <= MAX_NAME_BYTES && name.ends_with(b".theirs.12.png"));
                assert!(std::str::from_utf8(name).is_ok(), "{len} {c}");
            }
        }
        // A long part after the last dot is no extension.
        let name = format!("a.{}", "x".repeat(250));
        let made = beside(&RepoPath::parse(name.as_bytes())?, &ending("theirs", 1))?;
        assert!(made.as_bytes().ends_with(b"x.theirs"));
        Ok(())
    }
}
