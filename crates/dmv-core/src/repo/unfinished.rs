//! Which switches of the worktree were cut off: a small file beside the stat cache.
//!
//! It is durable before a switch touches the first file and goes when the view has moved. As long
//! as it is there, files may be as its trees have them instead of the base
//! (docs/format/layout.md, "A switch under way").

use super::{Repo, RepoError};
use crate::hash::ObjectId;
use crate::vfs::{OsVfs, read_small, write_durably};
use std::fmt::Write;
use std::path::PathBuf;

const SWITCH_FILE: &str = "switch";
const FIRST_LINE: &str = "dmv-switch 1";
/// Trees kept. Of more switches in a row that were cut off, the oldest are forgotten: what they
/// left counts as the user's.
const MAX_TREES: usize = 16;
/// Bytes of a file that is believed, generously.
const MAX_BYTES: usize = 64 << 10;
/// Characters kept of the command.
const MAX_COMMAND: usize = 1000;

/// Switches that were cut off and not gone on with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unfinished {
    /// The trees they were on their way to, the last one last; never empty in a report.
    pub trees: Vec<ObjectId>,
    /// The command that would go on with the last one.
    pub command: String,
}

impl Unfinished {
    fn text(&self) -> String {
        let mut out = format!("{FIRST_LINE}\ncommand {}\n", self.command);
        for tree in &self.trees {
            let _ = writeln!(out, "tree {tree}");
        }
        out
    }

    fn parse(text: &str) -> Option<Unfinished> {
        let mut lines = text.lines();
        if lines.next()? != FIRST_LINE {
            return None;
        }
        let command = lines.next()?.strip_prefix("command ")?.to_owned();
        let tree = |line: &str| ObjectId::from_hex(line.strip_prefix("tree ")?);
        let trees = lines.map(tree).collect::<Option<Vec<_>>>()?;
        (!trees.is_empty()).then_some(Unfinished { trees, command })
    }
}

impl Repo {
    fn switch_file(&self) -> Result<PathBuf, RepoError> {
        Ok(self.own_dir()?.join(SWITCH_FILE))
    }

    /// What was cut off in this worktree, whose files come from `base_tree`.
    ///
    /// A file that makes no sense tells nothing: what it would have vouched for counts as the user's.
    pub(super) fn unfinished(
        &self,
        base_tree: Option<ObjectId>,
    ) -> Result<Option<Unfinished>, RepoError> {
        let Ok(bytes) = read_small(&OsVfs, &self.switch_file()?, MAX_BYTES) else {
            return Ok(None);
        };
        let found = Unfinished::parse(&String::from_utf8_lossy(&bytes));
        // The last one has arrived; only the file was not removed any more.
        Ok(found.filter(|found| found.trees.last() != base_tree.as_ref()))
    }

    /// Notes durably that files are about to become as `target` has them.
    pub(super) fn begin_switch(
        &self,
        before: Option<&Unfinished>,
        target: ObjectId,
        command: &str,
    ) -> Result<(), RepoError> {
        let mut noted = before.cloned().unwrap_or_default();
        noted.trees.retain(|tree| *tree != target);
        noted.trees.push(target);
        let surplus = noted.trees.len().saturating_sub(MAX_TREES);
        noted.trees.drain(..surplus);
        noted.command = command
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .take(MAX_COMMAND)
            .collect();
        let path = self.switch_file()?;
        write_durably(&OsVfs, &path, noted.text().as_bytes()).map_err(|source| RepoError::Io {
            action: "write",
            path,
            source,
        })
    }

    /// Forgets what was cut off: the files are as the view says.
    pub(super) fn end_switch(&self) {
        if let Ok(path) = self.switch_file() {
            // If it stays, the base tree tells that it is out of date.
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_reads_back_and_anything_else_is_none() {
        let noted = Unfinished {
            trees: vec![ObjectId::from_bytes([1; 32]), ObjectId::from_bytes([2; 32])],
            command: "dmv checkout 'a b'".to_owned(),
        };
        let text = noted.text();
        assert_eq!(Unfinished::parse(&text), Some(noted));
        for broken in [
            "",
            "dmv-switch 2\ncommand x\n",
            "dmv-switch 1\ncommand x\n",
            &text.replace("tree 01", "tree 1"),
            &text.replace("command", "tree"),
        ] {
            assert_eq!(Unfinished::parse(broken), None, "{broken}");
        }
    }
}
