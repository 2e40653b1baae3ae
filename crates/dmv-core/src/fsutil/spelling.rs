//! Names as they are spelled.
//!
//! Some file systems find an entry under other spellings of its name, too: in upper or lower case, in another
//! Unicode form, or by a short name. A commit may have both spellings. In a directory that is
//! [`exact`](SafeDir::exact), an entry exists only under the name that the directory lists, so such names are never
//! mistaken for each other.

use super::{SafeDir, is_temp_name};
use crate::path::PathError;
use crate::platform::SystemError;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most names that are remembered. Forgotten ones are listed again.
const MAX_NAMES: usize = 256 << 10;

/// The names that directories have listed, by the path of the directory.
///
/// A name that is not remembered is looked up again, so names that other programs add are found.
#[derive(Debug, Default)]
pub(super) struct ListedNames(Mutex<HashMap<Vec<u8>, HashSet<Vec<u8>>>>);

impl ListedNames {
    fn lock(&self) -> MutexGuard<'_, HashMap<Vec<u8>, HashSet<Vec<u8>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn knows(&self, dir: &[u8], name: &[u8]) -> bool {
        self.lock()
            .get(dir)
            .is_some_and(|names| names.contains(name))
    }

    fn remember(&self, dir: &[u8], names: HashSet<Vec<u8>>) {
        let mut listed = self.lock();
        let many = listed.values().map(HashSet::len).sum::<usize>() + names.len();
        if many > MAX_NAMES {
            listed.clear();
        }
        listed.insert(dir.to_vec(), names);
    }
}

impl SafeDir {
    /// Returns this directory as one in which an entry exists only under its listed name. Directories that are
    /// opened from it are the same.
    pub fn exact(mut self) -> SafeDir {
        self.names = Some(Arc::default());
        self
    }

    /// Returns whether the directory is one.
    pub(crate) fn is_exact(&self) -> bool {
        self.names.is_some()
    }

    /// Returns another handle of the directory, in which an entry exists under each name that the file system takes
    /// for its own.
    pub(crate) fn any_spelling(&self) -> Result<SafeDir, PathError> {
        let mut dir = self.try_clone()?;
        dir.names = None;
        Ok(dir)
    }

    /// Fails like an operation on an absent entry if an entry that is there has another spelling.
    #[inline]
    pub(super) fn check_spelling(&self, op: &'static str, name: &[u8]) -> Result<(), PathError> {
        if self.has_spelling(name)? {
            Ok(())
        } else {
            Err(self.error(op, name, SystemError::ABSENT))
        }
    }

    /// Returns whether an entry that is there has this very name, or any name will do.
    #[inline]
    pub(super) fn has_spelling(&self, name: &[u8]) -> Result<bool, PathError> {
        match &self.names {
            Some(listed) => self.is_listed(listed, name),
            None => Ok(true),
        }
    }

    fn is_listed(&self, listed: &ListedNames, name: &[u8]) -> Result<bool, PathError> {
        if is_temp_name(name) || listed.knows(&self.path, name) {
            return Ok(true);
        }
        let listing = self.list(u64::MAX)?;
        let names: HashSet<_> = listing.iter().map(|(name, _)| name.to_vec()).collect();
        let is_there = names.contains(name);
        listed.remember(&self.path, names);
        Ok(is_there)
    }

    /// Checks each component of a path on which a directory was opened.
    pub(super) fn check_way(&self, rel: &[u8]) -> Result<(), PathError> {
        let Some(listed) = &self.names else {
            return Ok(());
        };
        let mut start = 0;
        for part in rel.split(|b| *b == b'/') {
            let above = rel[..start].strip_suffix(b"/").unwrap_or_default();
            let path = if above.is_empty() {
                self.path.clone()
            } else {
                self.path_of(above)
            };
            if !listed.knows(&path, part) {
                self.inside(above)?.check_spelling("open directory", part)?;
            }
            start += part.len() + 1;
        }
        Ok(())
    }

    /// Opens a directory on a way that is known to exist, however it is spelled.
    fn inside(&self, rel: &[u8]) -> Result<SafeDir, PathError> {
        let mut dir = self.any_spelling()?;
        if !rel.is_empty() {
            dir = dir.open_dir(rel)?;
        }
        dir.names.clone_from(&self.names);
        Ok(dir)
    }

    /// Notes an entry that was created under this name.
    pub(super) fn note_new(&self, name: &[u8]) {
        if let Some(listed) = &self.names
            && let Some(names) = listed.lock().get_mut(&self.path)
        {
            names.insert(name.to_vec());
        }
    }

    /// Notes that an entry has this name no longer.
    pub(super) fn note_gone(&self, name: &[u8]) {
        if let Some(listed) = &self.names
            && let Some(names) = listed.lock().get_mut(&self.path)
        {
            names.remove(name);
        }
    }

    /// Returns the path of the entry that the file system takes for the one at `path`. If only a directory above it is
    /// there, returns that one's. `None` if nothing is there, or if it has this very name, or if the directory is
    /// not [`exact`](Self::exact).
    pub(crate) fn namesake(&self, path: &[u8]) -> Option<Vec<u8>> {
        self.names.as_ref()?;
        let (mut dir, mut found, mut is_other) = (self.any_spelling().ok()?, Vec::new(), false);
        for part in path.split(|b| *b == b'/') {
            if !found.is_empty() {
                dir = dir.open_dir(found.rsplit(|b| *b == b'/').next()?).ok()?;
                found.push(b'/');
            }
            let listing = dir.list(u64::MAX).ok()?;
            let mut names = listing.iter().map(|(name, _)| name);
            if names.any(|name| name == part) {
                found.extend_from_slice(part);
                continue;
            }
            let Ok(stat) = dir.try_stat(part) else {
                // Nothing is there in the directory that is taken for another.
                found.pop();
                break;
            };
            let mut names = listing.iter().map(|(name, _)| name);
            found.extend_from_slice(names.find(|name| dir.is_same_file(name, &stat))?);
            is_other = true;
        }
        is_other.then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Outcome = Result<(), Box<dyn std::error::Error>>;

    // These hold on every file system. One that takes names for each other tries the most.

    #[test]
    fn an_entry_exists_under_its_listed_name_only() -> Outcome {
        let temp = tempfile::tempdir()?;
        let dir = SafeDir::open_root(temp.path())?.exact();
        dir.create_dir(b"Dir", false)?;
        dir.create_new(b"Dir2", false)?;
        let inner = dir.open_dir(b"Dir")?;
        inner.create_dir(b"Deep", false)?;
        inner.create_new(b"File", false)?;
        assert!(inner.stat_opt(b"File")?.is_some());
        assert!(inner.stat_opt(b"file")?.is_none());
        assert!(inner.open_file_read(b"FILE").is_err_and(|e| e.is_absent()));
        assert!(inner.unlink(b"file").is_err_and(|e| e.is_absent()));
        assert!(dir.open_dir(b"Dir/Deep")?.is_exact());
        for other in [&b"dir"[..], b"dir/Deep", b"Dir/deep", b"Dir/Deep/x"] {
            assert!(dir.open_dir(other).is_err_and(|e| e.is_absent()));
        }
        assert!(dir.remove_dir(b"dir").is_err_and(|e| e.is_absent()));
        assert!(inner.stat_opt(b"File")?.is_some(), "nothing has gone");
        Ok(())
    }

    #[test]
    fn names_that_come_and_go_are_noticed() -> Outcome {
        let temp = tempfile::tempdir()?;
        let dir = SafeDir::open_root(temp.path())?.exact();
        let is_there = |name: &[u8]| Ok::<_, PathError>(dir.stat_opt(name)?.is_some());
        dir.create_new(b"A", false)?;
        assert!(is_there(b"A")? && !is_there(b"a")?);
        dir.rename_noreplace(b"A", b"b")?;
        assert!(is_there(b"b")? && !is_there(b"A")? && !is_there(b"B")?);
        // Another program.
        std::fs::write(temp.path().join("c"), "")?;
        std::fs::remove_file(temp.path().join("b"))?;
        assert!(is_there(b"c")? && !is_there(b"b")? && !is_there(b"C")?);
        dir.unlink(b"c")?;
        dir.create_dir(b"C", false)?;
        assert!(is_there(b"C")? && !is_there(b"c")?);
        Ok(())
    }

    #[test]
    fn a_name_that_changes_only_its_case_is_noticed() -> Outcome {
        let temp = tempfile::tempdir()?;
        let dir = SafeDir::open_root(temp.path())?.exact();
        dir.create_new(b"a", false)?;
        assert!(dir.stat_opt(b"a")?.is_some());
        dir.rename(b"a", b"A")?;
        assert!(dir.stat_opt(b"A")?.is_some());
        assert!(dir.stat_opt(b"a")?.is_none());
        Ok(())
    }

    #[test]
    fn a_namesake_is_what_the_file_system_takes_for_a_path() -> Outcome {
        let temp = tempfile::tempdir()?;
        let dir = SafeDir::open_root(temp.path())?.exact();
        dir.create_dir(b"Src", false)?;
        dir.open_dir(b"Src")?.create_new(b"A", false)?;
        let meets = temp.path().join("SRC").exists();
        let expected = |name: &[u8]| meets.then(|| name.to_vec());
        assert_eq!(dir.namesake(b"src"), expected(b"Src"));
        assert_eq!(dir.namesake(b"src/a"), expected(b"Src/A"));
        assert_eq!(dir.namesake(b"src/other"), expected(b"Src"));
        assert_eq!(dir.namesake(b"Src/A"), None);
        assert_eq!(dir.namesake(b"other"), None);
        assert_eq!(dir.any_spelling()?.namesake(b"src"), None);
        Ok(())
    }
}
