//! Whether a repository can be created in a directory, judged by its content.

use crate::repo::base::error::{PlaceError, RepoError};
use crate::repo::base::layout::{self, DMV_DIR, FORMAT_FILE};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The content of a directory in which a repository is to be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vacancy {
    /// The directory does not exist.
    Missing,
    /// The directory is empty, or has only the remains of an interrupted init or clone.
    Free,
    /// A repository.
    Repository,
    /// Other files.
    Taken,
}

impl Vacancy {
    /// Inspects `dir`. If `bare`, the directory itself is to become the repository.
    pub fn of(dir: &Path, bare: bool) -> Vacancy {
        if dmv_dir_in(dir, bare).join(FORMAT_FILE).exists() {
            Vacancy::Repository
        } else if !dir.exists() {
            Vacancy::Missing
        } else if holds_only_what_init_makes(dir, bare) {
            Vacancy::Free
        } else {
            Vacancy::Taken
        }
    }
}

/// Returns the path that the repository's directory has if a repository is created in `dir`.
pub fn dmv_dir_in(dir: &Path, bare: bool) -> PathBuf {
    if bare {
        dir.to_owned()
    } else {
        dir.join(DMV_DIR)
    }
}

/// Returns whether a directory is empty or has only the remains of an interrupted init or clone.
fn holds_only_what_init_makes(dir: &Path, bare: bool) -> bool {
    let parts: &[&str] = if bare {
        &[
            "packs",
            "index",
            "worktrees",
            "refs.db",
            "refs.db-wal",
            "refs.db-shm",
            "refs.db-journal",
            "refs.lock",
            "refs.fits",
            "slice",
            "slice.lock",
            "clone",
        ]
    } else {
        &[DMV_DIR]
    };
    let is_part = |name: &OsStr| {
        // `format` is written last, under a temporary name first.
        let is_format = bare && name.as_encoded_bytes().starts_with(b"format.tmp");
        is_format || parts.iter().any(|part| name == *part)
    };
    std::fs::read_dir(dir)
        .is_ok_and(|mut entries| entries.all(|entry| entry.is_ok_and(|e| is_part(&e.file_name()))))
}

/// Returns whether `path`, which need not exist, lies at or below the directory `dir`. Follows
/// symlinks.
pub fn is_inside(path: &Path, dir: &Path) -> bool {
    let (Ok(path), Ok(dir)) = (std::path::absolute(path), std::fs::canonicalize(dir)) else {
        return false;
    };
    // Only the existing part of the path can be resolved.
    let there = path
        .ancestors()
        .find_map(|above| std::fs::canonicalize(above).ok());
    there.is_some_and(|there| there.starts_with(dir))
}

/// Fails with [`PlaceError::InsideRepository`] if `dir`, which need not exist, lies among a
/// repository's own files. The repository of `dir` itself does not count.
pub fn refuse_inside(dir: &Path) -> Result<(), RepoError> {
    let above = dir.parent().filter(|above| *above != Path::new(""));
    match layout::discover(above.unwrap_or(Path::new("."))) {
        Ok(place) if is_inside(dir, &place.dmv) => Err(PlaceError::InsideRepository {
            dir: dir.to_owned(),
            dmv: place.dmv,
        }
        .into()),
        // Whoever works there next learns why a repository cannot be opened.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::{HalfClone, OperationRequest, Repo};

    #[test]
    fn what_a_cut_leaves_is_free_and_any_other_file_takes_the_place()
    -> Result<(), Box<dyn std::error::Error>> {
        let temp = tempfile::tempdir()?;
        for bare in [false, true] {
            let dir = temp.path().join(format!("bare-{bare}"));
            assert_eq!(Vacancy::of(&dir, bare), Vacancy::Missing);
            std::fs::create_dir(&dir)?;
            assert_eq!(Vacancy::of(&dir, bare), Vacancy::Free);
            HalfClone::default().begin(&dmv_dir_in(&dir, bare))?;
            assert_eq!(Vacancy::of(&dir, bare), Vacancy::Free);
            let request = OperationRequest::new("a", "b", std::time::SystemTime::now());
            let repo = Repo::init(&dir, "main", bare, request)?;
            repo.change_slice(|slice| slice.metadata_only = true)?;
            drop(repo);
            assert_eq!(Vacancy::of(&dir, bare), Vacancy::Repository);
            // As after a cut just before the end: only the last file is missing.
            let format = dmv_dir_in(&dir, bare).join(FORMAT_FILE);
            std::fs::rename(&format, format.with_extension("tmp"))?;
            assert_eq!(Vacancy::of(&dir, bare), Vacancy::Free);
            std::fs::write(dir.join("notes.txt"), "mine")?;
            assert_eq!(Vacancy::of(&dir, bare), Vacancy::Taken);
        }
        Ok(())
    }
}
