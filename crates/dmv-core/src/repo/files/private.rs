//! Directories that only their owner may use: a small file beside the stat cache.
//!
//! A commit says which files are private, and nothing of the kind about directories. If a switch removes a
//! private directory and a later switch makes it again, others must still be unable to use it. So DMV notes
//! the path before it removes the directory (docs/format/layout.md, "Private paths").

use crate::fsutil::{FileKind, FileStat};
use crate::hash::{decode_hex, encode_hex};
use crate::object::name::RepoPath;
use crate::path::PathContext;
use crate::repo::base::error::RepoError;
use crate::repo::base::note::read_note;
use crate::repo::base::repo::Repo;
use crate::repo::base::worktree;
use crate::repo::files::open_worktree::OpenWorktree;
use crate::repo::files::saved::stat_at;
use crate::vfs::{OsVfs, write_durably};
use std::collections::BTreeSet;
use std::sync::Arc;

const PRIVATE_FILE: &str = "private";

const FIRST_LINE: &str = "dmv-private 1";

/// The longest file that DMV reads or writes, in bytes.
const MAX_BYTES: usize = 64 << 20;

/// The directories of a worktree that were private when DMV last saw them. Commits of earlier versions say
/// nothing about files either, so the files that these versions noted stay noted.
#[derive(Clone, Debug, Default)]
pub struct Private {
    paths: Arc<BTreeSet<Vec<u8>>>,
    changed: bool,
}

impl Private {
    /// Returns the paths.
    pub fn paths(&self) -> Arc<BTreeSet<Vec<u8>>> {
        self.paths.clone()
    }

    /// Notes whether the entry at `path` is private.
    fn note(&mut self, path: &[u8], stat: &FileStat) {
        match (stat.privacy(), self.paths.contains(path)) {
            (Some(true), false) if stat.kind == FileKind::Dir => {
                Arc::make_mut(&mut self.paths).insert(path.to_vec());
            }
            (Some(false), true) => drop(Arc::make_mut(&mut self.paths).remove(path)),
            _ => return,
        }
        self.changed = true;
    }

    /// Notes which of the entries at `paths` are private.
    pub fn note_all<'p>(
        &mut self,
        tree: &OpenWorktree,
        paths: impl Iterator<Item = &'p Vec<u8>>,
    ) -> Result<(), RepoError> {
        for path in paths {
            if let Some(stat) = stat_at(tree, path)? {
                self.note(path, &stat);
            }
        }
        Ok(())
    }
}

/// Returns the private paths of this worktree. Ignores a malformed file.
pub fn private(repo: &Repo) -> Result<Private, RepoError> {
    let path = worktree::own_dir(repo)?.join(PRIVATE_FILE);
    let bytes = read_note(&path, MAX_BYTES)?;
    let parse = |text: &str| {
        let rest = text.strip_prefix(FIRST_LINE)?.strip_prefix('\n')?;
        let path = |line: &str| {
            Some(
                RepoPath::parse(&decode_hex(line)?)
                    .ok()?
                    .as_bytes()
                    .to_vec(),
            )
        };
        rest.lines().map(path).collect::<Option<BTreeSet<_>>>()
    };
    let paths = std::str::from_utf8(&bytes).ok().and_then(parse);
    Ok(Private {
        paths: Arc::new(paths.unwrap_or_default()),
        ..Private::default()
    })
}

/// Writes the paths durably if they have changed.
pub fn save_private(repo: &Repo, private: &mut Private) -> Result<(), RepoError> {
    if !private.changed {
        return Ok(());
    }
    let path = worktree::own_dir(repo)?.join(PRIVATE_FILE);
    let mut text = format!("{FIRST_LINE}\n");
    for path in private.paths.iter() {
        let line = encode_hex(path);
        if text.len() + line.len() >= MAX_BYTES {
            break;
        }
        text.push_str(&line);
        text.push('\n');
    }
    write_durably(&OsVfs, &path, text.as_bytes())
        .context("write", &path)
        .map_err(RepoError::Io)?;
    private.changed = false;
    Ok(())
}
