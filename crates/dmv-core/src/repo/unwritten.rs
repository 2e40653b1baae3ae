//! Paths that a switch could not make as its target has them: a small file beside the stat cache.
//!
//! What is there is of the commit before, and nobody has put it there since. So it is no edit: a
//! commit does not take it, `status` tells it by itself, and the next switch takes it on from there
//! (docs/format/layout.md, "Paths that were not written").

use super::conflict::last_name;
use super::status::{SameError, same_as};
use super::worktree::Tree;
use super::{Repo, RepoError};
use crate::diff::is_wanted;
use crate::fsutil::{FileKind, FileStat};
use crate::hash::{ObjectId, decode_hex, encode_hex};
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry};
use crate::repo::saved::stat_at;
use crate::vfs::{OsVfs, read_small, write_durably};
use crate::worktree::known::entry_at;
use std::collections::BTreeSet;
use std::path::PathBuf;

const UNWRITTEN_FILE: &str = "unwritten";
const FIRST_LINE: &str = "dmv-unwritten 1";
/// Bytes of a file that is believed, and that is written: what a status tells path by path.
const MAX_BYTES: usize = 256 << 20;

/// What was found at a path that could not be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Have {
    /// Nothing.
    Nothing,
    /// What the commit before has there.
    Former(TreeEntry),
}

/// A path that is not as its commit has it because that could not be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unwritten {
    pub path: RepoPath,
    /// What should be there.
    pub want: Option<TreeEntry>,
    pub have: Have,
}

impl Unwritten {
    /// What is found at `path`, where `want` should be and `former` was before; `None`: it is as it
    /// should be, or somebody has changed it, or a directory, which what is in it tells.
    pub fn find(
        repo: &Repo,
        tree: &Tree,
        path: RepoPath,
        (want, former): (Option<TreeEntry>, Option<TreeEntry>),
    ) -> Result<Option<Unwritten>, RepoError> {
        let stat = stat_at(tree, path.as_bytes())?;
        let have = match stat {
            _ if is_as((repo, tree), &path, want.as_ref(), stat)? == Some(true) => return Ok(None),
            None => Have::Nothing,
            Some(stat) if stat.kind == FileKind::Dir => return Ok(None),
            Some(stat) => match former {
                // One that cannot be read is what it was.
                Some(entry)
                    if is_as((repo, tree), &path, Some(&entry), Some(stat))? != Some(false) =>
                {
                    Have::Former(entry)
                }
                // The user's: an edit.
                _ => return Ok(None),
            },
        };
        Ok(Some(Unwritten { path, want, have }))
    }

    /// Whether the path is still as it was found, and `base` still has what should be there.
    pub fn holds(
        &self,
        repo: &Repo,
        tree: &Tree,
        base: Option<&TreeEntry>,
    ) -> Result<bool, RepoError> {
        let as_wanted = match (base, &self.want) {
            (Some(base), Some(want)) => same_blob(base, want),
            (base, want) => base.is_none() && want.is_none(),
        };
        if !as_wanted {
            return Ok(false);
        }
        let stat = stat_at(tree, self.path.as_bytes())?;
        match &self.have {
            Have::Nothing => Ok(stat.is_none()),
            Have::Former(entry) => {
                Ok(is_as((repo, tree), &self.path, Some(entry), stat)? != Some(false))
            }
        }
    }

    fn line(&self) -> String {
        let want = self.want.as_ref().map_or("-".to_owned(), entry_text);
        let have = match &self.have {
            Have::Nothing => "-".to_owned(),
            Have::Former(entry) => entry_text(entry),
        };
        let path = encode_hex(self.path.as_bytes());
        format!("{want} {have} {path}\n")
    }

    fn parse(line: &str) -> Option<Unwritten> {
        let mut words = line.split(' ');
        let (want, have, path) = (words.next()?, words.next()?, words.next()?);
        let path = RepoPath::parse(&decode_hex(path)?).ok()?;
        let want = match want {
            "-" => None,
            text => Some(parse_entry(&path, text)?),
        };
        let have = match have {
            "-" => Have::Nothing,
            text => Have::Former(parse_entry(&path, text)?),
        };
        let found = Unwritten { path, want, have };
        (found.line().trim_end() == line).then_some(found)
    }
}

/// Kind, whether it is a list, size and id.
fn entry_text(entry: &TreeEntry) -> String {
    let (kind, is_list) = (entry.kind as u8, u8::from(entry.is_list));
    format!("{kind}.{is_list}.{}.{}", entry.size, entry.id)
}

fn parse_entry(path: &RepoPath, text: &str) -> Option<TreeEntry> {
    let mut parts = text.split('.');
    let kind = Kind::from_number(parts.next()?.parse().ok()?)?;
    let is_list = parts.next()? == "1";
    let size = parts.next()?.parse().ok()?;
    Some(TreeEntry {
        name: last_name(path),
        kind,
        is_list,
        id: ObjectId::from_hex(parts.next()?)?,
        size,
        files: 0,
        attrs: None,
    })
}

fn same_blob(a: &TreeEntry, b: &TreeEntry) -> bool {
    (a.kind, a.is_list, a.id) == (b.kind, b.is_list, b.id)
}

/// Whether a path has what an entry says, or nothing for none; `None`: the file cannot be read.
fn is_as(
    (repo, tree): (&Repo, &Tree),
    path: &RepoPath,
    entry: Option<&TreeEntry>,
    stat: Option<FileStat>,
) -> Result<Option<bool>, RepoError> {
    let (Some(entry), Some(stat)) = (entry, stat) else {
        return Ok(Some(entry.is_none() && stat.is_none()));
    };
    match same_as(repo, &tree.root, path.as_bytes(), entry, &stat) {
        Ok(same) => Ok(Some(same)),
        Err(SameError::Path(_)) => Ok(None),
        Err(SameError::Repo(e)) => Err(e),
    }
}

impl Repo {
    fn unwritten_file(&self) -> Result<PathBuf, RepoError> {
        Ok(self.own_dir()?.join(UNWRITTEN_FILE))
    }

    /// What was noted in this worktree. A file that makes no sense tells nothing.
    pub(super) fn noted_unwritten(&self) -> Result<Vec<Unwritten>, RepoError> {
        let Ok(bytes) = read_small(&OsVfs, &self.unwritten_file()?, MAX_BYTES) else {
            return Ok(Vec::new());
        };
        let parse = |text: &str| {
            let rest = text.strip_prefix(FIRST_LINE)?.strip_prefix('\n')?;
            rest.lines().map(Unwritten::parse).collect::<Option<_>>()
        };
        let text = std::str::from_utf8(&bytes).ok();
        Ok(text.and_then(parse).unwrap_or_default())
    }

    /// What of it still holds, by path.
    pub(super) fn unwritten(&self, tree: &Tree) -> Result<Vec<Unwritten>, RepoError> {
        let mut found = self.noted_unwritten()?;
        let mut error = None;
        found.retain(|at| {
            let holds = self.base_blob(tree, &at.path).and_then(|base| {
                // What is outside of the subset is nobody's business here.
                let wanted = tree.subset.includes(at.path.as_bytes(), false);
                Ok(wanted && at.holds(self, tree, base.as_ref())?)
            });
            holds.unwrap_or_else(|e| {
                error.get_or_insert(e);
                false
            })
        });
        error.map_or(Ok(found), Err)
    }

    /// The paths of that which still holds.
    pub(super) fn unwritten_paths(&self, tree: &Tree) -> Result<BTreeSet<Vec<u8>>, RepoError> {
        let found = self.unwritten(tree)?.into_iter();
        Ok(found.map(|at| at.path.as_bytes().to_vec()).collect())
    }

    fn base_blob(&self, tree: &Tree, path: &RepoPath) -> Result<Option<TreeEntry>, RepoError> {
        let Some(base) = tree.base_tree else {
            return Ok(None);
        };
        let found = entry_at(self.objects(), &base, path.as_bytes())?;
        Ok(found.filter(|entry| is_wanted(&tree.subset, path, entry)))
    }

    /// Notes durably what could not be written, in place of what was noted before.
    pub(super) fn note_unwritten(&self, list: &[Unwritten]) -> Result<(), RepoError> {
        let path = self.unwritten_file()?;
        if list.is_empty() {
            return match std::fs::remove_file(&path) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(failed(path)(e)),
                _ => Ok(()),
            };
        }
        let mut text = format!("{FIRST_LINE}\n");
        for at in list {
            let line = at.line();
            if text.len() + line.len() > MAX_BYTES {
                break;
            }
            text.push_str(&line);
        }
        write_durably(&OsVfs, &path, text.as_bytes()).map_err(failed(path))
    }
}

fn failed(path: PathBuf) -> impl FnOnce(std::io::Error) -> RepoError {
    move |source| RepoError::Io {
        action: "write",
        path,
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_reads_back_and_anything_else_is_none() -> Result<(), Box<dyn std::error::Error>> {
        let path = RepoPath::parse(b"d/a b\n\xff")?;
        let entry = |n: u8, kind: Kind| TreeEntry {
            name: last_name(&path),
            kind,
            is_list: n == 2,
            id: ObjectId::from_bytes([n; 32]),
            size: u64::from(n),
            files: 0,
            attrs: None,
        };
        for have in [Have::Nothing, Have::Former(entry(2, Kind::File))] {
            for want in [None, Some(entry(1, Kind::Executable))] {
                let (path, have) = (path.clone(), have.clone());
                let at = Unwritten { path, want, have };
                let line = at.line();
                let line = line.trim_end();
                assert_eq!(Unwritten::parse(line), Some(at));
                for broken in [
                    "",
                    &line[1..],
                    &line[..line.len() - 1],
                    &format!("{line} x"),
                ] {
                    assert_eq!(Unwritten::parse(broken), None, "{broken}");
                }
            }
        }
        Ok(())
    }
}
