//! Stats of the entries of one directory that a scan does not look at: new files.

use super::scan::State;
use crate::fsutil::{FileKind, FileStat, SafeDir};
use crate::path::PathError;

/// Looks at entries of a directory. It is opened once the first is wanted.
pub(crate) struct EntryStats<'a> {
    root: &'a SafeDir,
    path: &'a [u8],
    open: Option<SafeDir>,
}

impl<'a> EntryStats<'a> {
    /// Returns the stats of the directory at `path`.
    pub fn new(root: &'a SafeDir, path: &'a [u8]) -> EntryStats<'a> {
        EntryStats {
            root,
            path,
            open: None,
        }
    }

    /// Returns the stat of an entry, or `None` if it is gone.
    pub fn of(&mut self, name: &[u8]) -> Result<Option<FileStat>, PathError> {
        let open = match &self.open {
            Some(open) => open,
            None => self
                .open
                .insert(self.root.any_spelling()?.open_dir(self.path)?),
        };
        open.stat_opt(name)
    }

    /// Returns whether an entry is a new file of more than `bytes`.
    pub fn is_new_above(
        &mut self,
        bytes: u64,
        name: &[u8],
        state: State<'_>,
    ) -> Result<bool, PathError> {
        let kind = FileKind::File;
        Ok(state == State::New { kind } && self.of(name)?.is_some_and(|stat| stat.size > bytes))
    }
}
