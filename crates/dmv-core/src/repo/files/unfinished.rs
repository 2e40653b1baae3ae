//! The worktree's switches that were cut off: a small file beside the stat cache.
//!
//! The file is durable before a switch touches the first file, and it is removed when the view has
//! moved. While it exists, files may be as its target trees have them, and not as the base has them
//! (docs/format/layout.md, "A switch under way").

use crate::hash::ObjectId;
use crate::limits::MAX_SUBSET_BYTES;
use crate::path::PathContext;
use crate::repo::base::error::RepoError;
use crate::repo::base::note::read_note;
use crate::repo::base::repo::Repo;
use crate::repo::base::worktree;
use crate::repo::files::open_worktree::OpenWorktree;
use crate::repo::files::steps;
use crate::subset::Subset;
use crate::vfs::{OsVfs, write_durably};
use std::path::{Path, PathBuf};

const SWITCH_FILE: &str = "switch";

const FIRST_LINE: &[u8] = b"dmv-switch 2";

/// The most targets kept. After more interrupted switches in a row, the oldest are forgotten: the
/// files that they left then count as the user's.
const MAX_TARGETS: usize = 16;

/// The longest file that is read, in bytes. This is a generous limit.
const MAX_BYTES: usize = (MAX_TARGETS + 1) * (2 * MAX_SUBSET_BYTES);

/// The most characters kept of the command.
const MAX_COMMAND: usize = 1000;

/// What a switch makes the files equal to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The tree.
    pub tree: ObjectId,
    /// The subset of the tree.
    pub subset: Subset,
}

impl Target {
    /// Returns what the removal of a worktree makes the files equal to: nothing of the tree `base`.
    pub fn without_files(base: ObjectId) -> Target {
        Target {
            tree: base,
            subset: Subset::nothing(),
        }
    }
}

/// Switches that were cut off and not continued.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnfinishedSwitches {
    /// Their targets, the latest last. Empty in a report if a command was cut off that changes uncommitted
    /// files, such as `stash pop`. An undo takes that back.
    pub targets: Vec<Target>,
    /// The command that continues the latest one.
    pub command: String,
    /// Whether an undo takes the latest one back: it had announced what it was about to do to uncommitted files.
    pub is_undoable: bool,
}

impl UnfinishedSwitches {
    /// Returns whether the latest one made the files equal to those of a commit.
    pub fn is_switch(&self) -> bool {
        !self.targets.is_empty() && !self.is_removal()
    }

    /// Returns whether the latest one removed all files.
    pub fn is_removal(&self) -> bool {
        let last = self.targets.last();
        last.is_some_and(|last| last.subset == Subset::nothing())
    }

    fn text(&self) -> Vec<u8> {
        let mut out = [FIRST_LINE, b"\ncommand ", self.command.as_bytes(), b"\n"].concat();
        for Target { tree, subset } in &self.targets {
            out.extend_from_slice(format!("tree {tree}\n").as_bytes());
            for pattern in subset.text().split(|b| *b == b'\n') {
                // A subset that includes everything has no patterns.
                if !subset.is_everything() {
                    out.extend([b"only ", pattern, b"\n"].concat());
                }
            }
        }
        out
    }

    fn parse(text: &[u8]) -> Option<UnfinishedSwitches> {
        let text = text.strip_suffix(b"\n")?;
        let mut lines = text.split(|b| *b == b'\n');
        if lines.next()? != FIRST_LINE {
            return None;
        }
        let command = lines.next()?.strip_prefix(b"command ")?;
        let command = String::from_utf8_lossy(command).into_owned();
        let mut found: Vec<(ObjectId, Vec<&[u8]>)> = Vec::new();
        for line in lines {
            if let Some(pattern) = line.strip_prefix(b"only ") {
                found.last_mut()?.1.push(pattern);
                continue;
            }
            let tree = std::str::from_utf8(line.strip_prefix(b"tree ")?).ok()?;
            found.push((ObjectId::from_hex(tree)?, Vec::new()));
        }
        let target = |(tree, patterns): (ObjectId, Vec<&[u8]>)| {
            let subset = Subset::parse(&patterns.join(&b'\n')).ok()?;
            Some(Target { tree, subset })
        };
        let targets = found.into_iter().map(target).collect::<Option<Vec<_>>>()?;
        let is_undoable = false;
        (!targets.is_empty()).then_some(UnfinishedSwitches {
            targets,
            command,
            is_undoable,
        })
    }
}

fn switch_file(repo: &Repo) -> Result<PathBuf, RepoError> {
    Ok(worktree::own_dir(repo)?.join(SWITCH_FILE))
}

/// Returns the switches that were cut off in this worktree. Its files come from the tree `base` and
/// are in `subset`.
///
/// Ignores a malformed file: the files that the switches left then count as the user's.
pub fn unfinished(
    repo: &Repo,
    base: Option<ObjectId>,
    subset: &Subset,
) -> Result<Option<UnfinishedSwitches>, RepoError> {
    let bytes = read_note(&switch_file(repo)?, MAX_BYTES)?;
    // The last switch has finished; only its file was not removed.
    let has_arrived = |found: &UnfinishedSwitches| {
        let last = found.targets.last();
        last.is_some_and(|last| Some(last.tree) == base && last.subset == *subset)
    };
    Ok(UnfinishedSwitches::parse(&bytes).filter(|found| !has_arrived(found)))
}

/// Returns what was cut off in this worktree: switches, or else a command that had announced what it was
/// about to do to uncommitted files.
pub fn cut_off(repo: &Repo, tree: &OpenWorktree) -> Result<Option<UnfinishedSwitches>, RepoError> {
    let announced = steps::announced(repo, &tree.name)?;
    if let Some(mut switches) = unfinished(repo, tree.base_tree, &tree.subset)? {
        switches.is_undoable = announced.is_some();
        return Ok(Some(switches));
    }
    Ok(announced.map(|operation| UnfinishedSwitches {
        targets: Vec::new(),
        command: typed(&operation.command),
        is_undoable: true,
    }))
}

/// Returns the trees that the file in a worktree's own directory notes.
pub fn noted_trees(own_dir: &Path) -> Result<Vec<ObjectId>, RepoError> {
    let bytes = read_note(&own_dir.join(SWITCH_FILE), MAX_BYTES)?;
    let noted = UnfinishedSwitches::parse(&bytes).unwrap_or_default();
    let targets = noted.targets.into_iter();
    Ok(targets.map(|target| target.tree).collect())
}

/// Notes durably that the files are about to become those of `target`.
pub fn begin_switch(
    repo: &Repo,
    before: Option<&UnfinishedSwitches>,
    target: Target,
    command: &str,
) -> Result<(), RepoError> {
    let mut noted = before.cloned().unwrap_or_default();
    noted.targets.retain(|other| *other != target);
    noted.targets.push(target);
    let surplus = noted.targets.len().saturating_sub(MAX_TARGETS);
    noted.targets.drain(..surplus);
    noted.command = typed(command)
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MAX_COMMAND)
        .collect();
    let path = switch_file(repo)?;
    write_durably(&OsVfs, &path, &noted.text())
        .context("write", &path)
        .map_err(RepoError::Io)
}

/// Returns the command that a user can type. The log names a button of a page as `dmv web: undo`, and `dmv undo` does
/// the same.
fn typed(command: &str) -> String {
    command.replacen("dmv web: ", "dmv ", 1)
}

/// Removes the note about interrupted switches, since the files are as the view says.
pub fn end_switch(repo: &Repo) {
    if let Ok(path) = switch_file(repo) {
        // If the file stays, the base tree and the subset show that it is outdated.
        let _ = std::fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_reads_back_and_anything_else_is_none() -> Result<(), Box<dyn std::error::Error>> {
        let target = |n: u8, patterns: &[&[u8]]| {
            Ok::<_, crate::subset::SubsetError>(Target {
                tree: ObjectId::from_bytes([n; 32]),
                subset: Subset::new(patterns.iter().copied())?,
            })
        };
        let mut noted = UnfinishedSwitches {
            targets: vec![
                target(1, &[b"**"])?,
                target(2, &[b"a b", b"\xff", b"!*.x"])?,
                target(3, &[b"!**"])?,
            ],
            command: "dmv checkout 'a b'".to_owned(),
            is_undoable: false,
        };
        noted.targets[2].subset = Subset::nothing();
        let text = noted.text();
        assert_eq!(UnfinishedSwitches::parse(&text), Some(noted));
        let shown = String::from_utf8_lossy(&text).into_owned();
        for broken in [
            "",
            "dmv-switch 1\ncommand x\n",
            "dmv-switch 2\ncommand x\n",
            &shown.replace("tree 01", "tree 1"),
            &shown.replace("command", "tree"),
            &shown.replace("command dmv checkout 'a b'\n", ""),
            &shown.replace("only a b", "only ../b"),
            shown.trim_end(),
        ] {
            assert_eq!(
                UnfinishedSwitches::parse(broken.as_bytes()),
                None,
                "{broken}"
            );
        }
        Ok(())
    }
}
