//! Properties of files that no commit keeps.

use crate::worktree::ingest::StoredFile;

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
    /// Extended attributes.
    pub attributes: (u64, Vec<u8>),
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
        let has = [
            (file.stat.mode & 0o7000 != 0, &mut self.special_bits),
            (file.stat.nlink > 1, &mut self.hard_links),
            (file.stat.sparse, &mut self.holes),
            (file.attributes, &mut self.attributes),
        ];
        if !has.iter().any(|(has, _)| *has) || !is_new() {
            return;
        }
        for (_, (count, first)) in has.into_iter().filter(|(has, _)| *has) {
            if *count == 0 {
                *first = path.to_vec();
            }
            *count += 1;
        }
    }
}
