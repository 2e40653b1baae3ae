//! The base commit's entries in each directory, for a scan: from the stat cache or from the tree.
//!
//! `TreeBase` takes them from the tree, and from an older cache what is still valid. So a
//! missing or damaged cache only costs time.

use super::join;
use super::scan::BaseEntries;
use super::statcache::{Section, StatCache, SubsetCheck, subset_check};
use crate::diff::{each_entry_in, entries_in};
use crate::fsutil::Fingerprint;
use crate::hash::ObjectId;
use crate::object::list::{Blob, read_blob};
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry, lookup_path};
use crate::object::{ObjectError, ObjectRead};
use crate::subset::{Extent, Subset};
use std::collections::HashMap;

/// A boxed error, as [`BaseEntries`] returns it.
type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// The base commit's entries, for a stat cache that is missing, damaged, or of another tree.
///
/// What an older cache says about entries that are equal in both trees is still valid. So if only a
/// ref moved, no file is read again.
pub(crate) struct TreeBase<'a> {
    reader: &'a dyn ObjectRead,
    base: Option<ObjectId>,
    older: Option<&'a StatCache>,
    subset: &'a Subset,
    subset_check: SubsetCheck,
}

impl<'a> TreeBase<'a> {
    /// Returns the entries of the tree `base` in `subset`, with the fingerprints that `older` has
    /// for them.
    pub fn new(
        reader: &'a dyn ObjectRead,
        base: Option<ObjectId>,
        older: Option<&'a StatCache>,
        subset: &'a Subset,
    ) -> TreeBase<'a> {
        TreeBase {
            reader,
            base,
            older,
            subset,
            subset_check: subset_check(subset),
        }
    }

    /// Returns the directory in the older cache's tree. That tree need not be stored: it may show
    /// conflicts of a commit that is no longer the base. Nor need it be complete: a cache only
    /// saves time.
    fn older_tree(&self, older: &StatCache, dir: &[u8]) -> Option<ObjectId> {
        dir_tree(self.reader, &older.base_tree(), dir)
            .ok()
            .flatten()
    }

    /// Returns what the older cache says about the directory's entries, with the entries that it
    /// refers to.
    fn older_section(&self, dir: &[u8]) -> HashMap<Vec<u8>, KnownEqual> {
        let mut out = HashMap::new();
        let Some(older) = self.older else {
            return out;
        };
        let Ok(Some(section)) = older.section(dir) else {
            return out;
        };
        let Some(before) = self.older_tree(older, dir) else {
            return out;
        };
        let prints: HashMap<&[u8], Fingerprint> =
            section.iter().map(|e| (e.name, e.fingerprint)).collect();
        let Ok(path) = RepoPath::parse(dir) else {
            return out;
        };
        let Ok(before) = entries_in(self.reader, &before, self.subset, &path) else {
            return out;
        };
        for entry in before {
            if let Some(print) = prints.get(entry.name.as_bytes()) {
                let (name, fingerprint) = (entry.name.as_bytes().to_vec(), *print);
                out.insert(name, KnownEqual { entry, fingerprint });
            }
        }
        out
    }
}

/// An entry, and the fingerprint of the file that was equal to it.
struct KnownEqual {
    entry: TreeEntry,
    fingerprint: Fingerprint,
}

impl BaseEntries for TreeBase<'_> {
    fn section(&self, dir: &[u8]) -> Result<Option<Section>, AnyError> {
        let Some(base) = self.base else {
            return Ok(None);
        };
        // The root is always there, if only for the paths around the subset.
        if !dir.is_empty() && self.subset.extent(dir) == Extent::None {
            return Ok(None);
        }
        let Some(tree) = dir_tree(self.reader, &base, dir)? else {
            return Ok(None);
        };
        // The usual case: the directory is equal in both trees.
        if let Some(cache) = self.older
            && cache.subset() == self.subset_check
            && self.older_tree(cache, dir) == Some(tree)
            && let Ok(Some(section)) = cache.section(dir)
        {
            return Ok(Some(section));
        }
        let older = self.older_section(dir);
        let mut section = Section::default();
        let path = RepoPath::parse(dir)?;
        each_entry_in(self.reader, &tree, self.subset, &path, &mut |entry| {
            let name = entry.name.as_bytes();
            let equal = older
                .get(name)
                .filter(|known| known.entry.same_content(&entry));
            let fingerprint = equal.map_or(Fingerprint::SUSPECT, |known| known.fingerprint);
            section.push(name, entry.kind, fingerprint);
        })?;
        Ok(Some(section))
    }

    fn close(&self) {
        if let Some(older) = self.older {
            older.close();
        }
    }

    fn file(&self, path: &[u8], most: u64) -> Result<Option<Vec<u8>>, String> {
        let entry = self.base.map(|base| entry_at(self.reader, &base, path));
        let entry = entry.transpose().map_err(|e| e.to_string())?.flatten();
        let Some(entry) = entry else {
            return Ok(None);
        };
        let (Kind::File | Kind::Executable) = entry.kind else {
            return Err("it is not a regular file in the commit".to_owned());
        };
        if entry.size > most {
            return Err(format!("it is larger than {most} bytes"));
        }
        let blob = Blob {
            id: entry.id,
            is_list: entry.is_list,
            size: entry.size,
        };
        let content = read_blob(self.reader, blob, most).map_err(|e| e.to_string())?;
        let content = content.ok_or("its content is not stored in this repository")?;
        Ok(Some(content))
    }
}

/// Returns the tree of the directory `dir` below `root`; `None` if there is no such directory.
pub(crate) fn dir_tree(
    reader: &dyn ObjectRead,
    root: &ObjectId,
    dir: &[u8],
) -> Result<Option<ObjectId>, ObjectError> {
    if dir.is_empty() {
        return Ok(Some(*root));
    }
    let entry = entry_at(reader, root, dir)?;
    Ok(entry.filter(|e| e.kind == Kind::Directory).map(|e| e.id))
}

/// Returns the entry at `path` below `root`.
pub(crate) fn entry_at(
    reader: &dyn ObjectRead,
    root: &ObjectId,
    path: &[u8],
) -> Result<Option<TreeEntry>, ObjectError> {
    match RepoPath::parse(path) {
        Ok(path) => lookup_path(reader, root, &path),
        // A path that no tree can have is in no tree.
        Err(_) => Ok(None),
    }
}

/// Returns whether the tree `base` has this content at `path`.
pub fn has_content(
    reader: &dyn ObjectRead,
    base: Option<ObjectId>,
    path: &[u8],
    content: &ObjectId,
) -> Result<bool, ObjectError> {
    let Some(base) = base else {
        return Ok(false);
    };
    let entry = entry_at(reader, &base, path)?;
    Ok(entry.is_some_and(|entry| entry.id == *content))
}

/// Receives a directory and its entries.
type VisitDir<'v> = dyn FnMut(&[u8], Section) -> Result<(), AnyError> + 'v;

/// Visits all directories of `known` below `dir`, starting with `dir` itself.
pub(crate) fn each_base_dir(
    known: &dyn BaseEntries,
    dir: &[u8],
    visit: &mut VisitDir<'_>,
) -> Result<(), AnyError> {
    let mut next = vec![dir.to_vec()];
    while let Some(dir) = next.pop() {
        let Some(section) = known.section(&dir)? else {
            continue;
        };
        let dirs = section.iter().filter(|e| e.kind == Kind::Directory);
        next.extend(dirs.map(|e| join(&dir, e.name)));
        visit(&dir, section)?;
    }
    Ok(())
}
