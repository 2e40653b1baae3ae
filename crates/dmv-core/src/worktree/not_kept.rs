//! Properties of files that no commit keeps.

use crate::worktree::ingest::StoredFile;
use crate::worktree::properties::KeptProperties;

/// Files with properties that a commit does not keep: for each property, their number and the first.
/// Only files that are new to their path count, so that each is told once.
#[derive(Clone, Debug, Default)]
pub struct NotKept {
    /// A setuid, setgid or sticky bit.
    pub special_bits: (u64, Vec<u8>),
    /// More than one name.
    pub hard_links: (u64, Vec<u8>),
    /// Holes. The content is the same without them.
    pub holes: (u64, Vec<u8>),
    /// Extended attributes that nobody has asked for.
    pub attributes: (u64, Vec<u8>),
    /// Extended attributes that somebody has asked for, and that are too large. Files that are not new count, too.
    pub large_attributes: (u64, Vec<u8>),
}

impl NotKept {
    /// Notes the properties of a regular file that was read. `is_new` tells whether the base has no
    /// entry at its path.
    pub(in crate::worktree) fn note(
        &mut self,
        path: &[u8],
        file: &StoredFile,
        is_new: impl FnOnce() -> bool,
    ) {
        let kept = file.kept.as_deref();
        let not_asked_for = file.attributes && kept.is_none_or(|kept| !kept.is_asked_for());
        let too_large = kept.is_some_and(KeptProperties::has_too_large);
        // Whether a property was found, whether it counts for files that are not new, too, and the files.
        let found = [
            (file.stat.mode & 0o7000 != 0, false, &mut self.special_bits),
            (file.stat.nlink > 1, false, &mut self.hard_links),
            (file.stat.sparse, false, &mut self.holes),
            (not_asked_for, false, &mut self.attributes),
            (too_large, true, &mut self.large_attributes),
        ];
        let mut found = found.into_iter().filter(|(found, ..)| *found).peekable();
        if found.peek().is_none() {
            return;
        }
        let is_new = is_new();
        for (_, _, (count, first)) in found.filter(|(_, always, _)| *always || is_new) {
            if *count == 0 {
                *first = path.to_vec();
            }
            *count += 1;
        }
    }
}
