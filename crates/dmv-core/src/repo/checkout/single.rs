//! Single files that are put and taken away as a whole switch does it.

use super::seen::Expected;
use super::switch::{Switch, checkout_error};
use crate::fsutil::FileKind;
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry};
use crate::repo::RepoError;
use crate::repo::settle::stat_of;
use crate::repo::status::same_as;
use crate::worktree::checkout::{Content, NewFile, Plan, Removal, materialize};
use std::error::Error;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Bytes of a file that are copied at a time.
const COPY_BYTES: usize = 1 << 20;

impl Switch<'_> {
    /// Lets what is at `path` be overwritten by `entry` if it is the same already.
    pub(in crate::repo) fn allow_same(&mut self, path: &RepoPath, entry: &TreeEntry) {
        let (root, path) = (&self.tree.root, path.as_bytes());
        if entry.kind == Kind::Directory || self.seen.contains_key(path) {
            return;
        }
        if let Some(stat) = stat_of(root, path)
            && matches!(same_as(self.repo, root, path, entry, &stat), Ok(true))
        {
            self.note_found(path, &stat);
        }
    }

    /// Removes what is at `path`, unless it is a directory or has changed.
    pub(in crate::repo) fn remove_file(&mut self, path: &RepoPath) -> Result<(), RepoError> {
        let path = path.as_bytes();
        match stat_of(&self.tree.root, path) {
            Some(stat) if stat.kind != FileKind::Dir => {}
            _ => return Ok(()),
        }
        let mut plan = Plan::default();
        match self.expected(path, None)? {
            Expected::This(expected) => plan.remove.push(Removal {
                path: path.to_vec(),
                expected,
            }),
            Expected::Nothing | Expected::Other => self.refuse_changed(path.to_vec()),
        }
        self.run(plan)
    }

    /// Puts a copy of `file` at `path`.
    pub(in crate::repo) fn copy_in(
        &mut self,
        path: &RepoPath,
        file: &Path,
        exec: bool,
    ) -> Result<(), RepoError> {
        let replaces = match self.expected(path.as_bytes(), None)? {
            Expected::Nothing => None,
            Expected::This(print) => Some(print),
            Expected::Other => {
                self.refuse_changed(path.as_bytes().to_vec());
                return Ok(());
            }
        };
        let mut plan = Plan::default();
        plan.files.push(NewFile {
            path: path.as_bytes().to_vec(),
            exec,
            blob: file.to_owned(),
            replaces,
        });
        let cancel = self.job.cancel_flag();
        let root = &self.tree.root;
        let report = materialize(root, &plan, &FromFile, 1, cancel, self.asides());
        let report = report.map_err(checkout_error)?;
        self.take_report(&plan, report)
    }
}

/// Files elsewhere on this machine as content.
struct FromFile;

impl Content<PathBuf> for FromFile {
    fn write_blob(
        &self,
        from: &PathBuf,
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let io = |source| RepoError::Io {
            action: "read",
            path: from.clone(),
            source,
        };
        let mut file = std::fs::File::open(from).map_err(io)?;
        let mut buf = Vec::new();
        loop {
            buf.clear();
            let read = Read::by_ref(&mut file).take(COPY_BYTES as u64);
            let read = { read }.read_to_end(&mut buf).map_err(io)?;
            if read == 0 {
                return Ok(());
            }
            sink(&buf)?;
        }
    }
}
