//! New entries whose names the file system takes for those of others.

use super::Refusal;
use crate::fsutil::SafeDir;
use crate::worktree::split_path;
use std::collections::BTreeSet;

/// Returns the reason why the entry at `path` was not made, as exact as it can be.
pub(super) fn why_refused(root: &SafeDir, path: &[u8], why: Refusal) -> Refusal {
    let may_meet = match &why {
        Refusal::Occupied => true,
        Refusal::Path(e) => e.is_absent(),
        _ => false,
    };
    let other = if may_meet { root.namesake(path) } else { None };
    other.map_or(why, Refusal::Meets)
}

/// Gives the name of a new directory to one that the file system takes for it, if that was to go. `None` if there is
/// none.
pub(super) fn respell(root: &SafeDir, path: &[u8], stayed: &BTreeSet<Vec<u8>>) -> Option<bool> {
    if stayed.is_empty() {
        return None;
    }
    let (dir, name) = split_path(path)?;
    let other = root.namesake(path).filter(|other| stayed.contains(other))?;
    let (other_dir, other_name) = split_path(&other)?;
    if other_dir != dir {
        return None;
    }
    root.open_dir(dir).ok()?.rename(other_name, name).ok()?;
    Some(false)
}
