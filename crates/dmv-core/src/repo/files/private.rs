//! Files and directories that only their owner may read: a small file beside the stat cache.
//!
//! A commit keeps no permissions except the executable bit. If a switch removes a private file and a later
//! switch writes it again, others must still be unable to read it. So DMV notes the path before it removes
//! the file (docs/format/layout.md, "Private paths").

use crate::fsutil::{FileKind, FileStat, SafeDir};
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

/// The paths of a worktree that were private when DMV last saw them.
#[derive(Clone, Debug, Default)]
pub struct Private {
    paths: Arc<BTreeSet<Vec<u8>>>,
    changed: bool,
    /// Whether new files are private by default. Then nothing has to be noted.
    by_default: Option<bool>,
}

impl Private {
    /// Returns the paths.
    pub fn paths(&self) -> Arc<BTreeSet<Vec<u8>>> {
        self.paths.clone()
    }

    /// Notes whether the entry at `path` is private. May create a temporary file in `own`.
    pub fn note(&mut self, own: &SafeDir, path: &[u8], stat: &FileStat) {
        if stat.kind == FileKind::Symlink || stat.is_private() == self.paths.contains(path) {
            return;
        }
        if !stat.is_private() {
            Arc::make_mut(&mut self.paths).remove(path);
            self.changed = true;
        } else if !*self.by_default.get_or_insert_with(|| own.makes_private()) {
            Arc::make_mut(&mut self.paths).insert(path.to_vec());
            self.changed = true;
        }
    }

    /// Notes which of the entries at `paths` are private.
    pub fn note_all<'p>(
        &mut self,
        tree: &OpenWorktree,
        paths: impl Iterator<Item = &'p Vec<u8>>,
    ) -> Result<(), RepoError> {
        for path in paths {
            if let Some(stat) = stat_at(tree, path)? {
                self.note(&tree.own, path, &stat);
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
