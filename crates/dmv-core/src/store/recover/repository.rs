//! Whose packs lie in a directory, by their headers.

use super::content::header_of;
use crate::path::PathContext;
use crate::store::error::StoreError;
use crate::store::layout::{PACK_HEADER_BYTES, PackKind};
use crate::store::owners::Owners;
use crate::store::random_id::{PackId, RepositoryId};
use crate::store::scan::{ScannedPart, scan};
use crate::vfs::{OpenMode, Vfs, VfsFile};
use std::collections::HashSet;
use std::path::Path;

/// Returns the repository that the packs in a directory belong to, and those that it shares packs with, by
/// their headers; `None` if they do not show it.
///
/// The log pack is of this one. Without it, packs without other names show the repository, since no other one
/// uses them. If they do not, it gets a new id: with the id of another repository, it would write
/// to that one's packs.
pub(crate) fn repository_of(vfs: &dyn Vfs, packs_dir: &Path) -> Result<Option<Owners>, StoreError> {
    let (mut found, mut logged, mut unshared) = (HashSet::new(), HashSet::new(), HashSet::new());
    for name in vfs.list(packs_dir).context("list", packs_dir)? {
        let Some(id) = name.strip_suffix(".pack").and_then(PackId::from_hex) else {
            continue;
        };
        let path = packs_dir.join(name);
        let file = vfs.open(&path, OpenMode::Read).context("open", &path)?;
        match header_of(&*file, &path)? {
            Ok(header) => {
                found.insert(header.repo);
                if header.kind == PackKind::Log {
                    logged.insert(header.repo);
                } else if !file.has_other_names().context("inspect", &path)? {
                    unshared.insert(header.repo);
                }
            }
            Err(_) if has_operations(&*file, &path)? => {
                logged.insert(id.of_log());
            }
            Err(_) => {}
        }
    }
    if found.is_empty() && logged.is_empty() || logged.len() > 1 {
        return Ok(None);
    }
    let only = |ids: &HashSet<RepositoryId>| match ids.len() {
        1 => ids.iter().next().copied(),
        _ => None,
    };
    let own = only(&logged).or_else(|| only(&unshared));
    let own = own.unwrap_or_else(RepositoryId::random);
    Ok(Owners::sharing(own, found))
}

/// Returns whether a file holds operations, as only a log pack does.
fn has_operations(file: &dyn VfsFile, path: &Path) -> Result<bool, StoreError> {
    let len = file.len().context("measure", path)?;
    let mut found = false;
    scan(file, path, PACK_HEADER_BYTES, len, &mut |_, item| {
        found |= matches!(item, ScannedPart::Operation(_));
        Ok(())
    })?;
    Ok(found)
}
