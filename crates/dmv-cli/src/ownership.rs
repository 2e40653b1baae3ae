//! Finding the repository of a command, and whose it is: the user's own, one that the user trusts, or
//! another user's that is only read.

use crate::config::{self, safe_repositories};
use dmv_core::escape::Argument;
use dmv_core::escape::Hint;
use dmv_core::hint;
use dmv_core::repo::{DMV_DIR, RepoError, RepositoryLocation, Trust, Whose, discover_trusting};
use std::path::{Path, PathBuf};

/// The repository around the current directory. `named`: the user has named this directory.
pub fn find(named: bool) -> Result<(RepositoryLocation, Whose), RepoError> {
    discover_trusting(Path::new("."), &trust(named))
}

/// The same, unless it is another user's.
pub fn find_own() -> Result<RepositoryLocation, RepoError> {
    find(false).map(|(place, _)| place)
}

/// What the user trusts. `named`: also whatever is in the directory itself, to be read.
pub fn trust(named: bool) -> Trust<'static> {
    Trust {
        named,
        is_safe: &is_safe,
    }
}

/// Whether the user's settings name the repository directory or worktree file at `path`.
fn is_safe(path: &Path) -> bool {
    // Settings that cannot be read trust no user; where they are needed, that is reported.
    let Ok(listed) = safe_repositories() else {
        return false;
    };
    let Ok(real) = std::fs::canonicalize(root_of(path)) else {
        return false;
    };
    listed.iter().any(|entry| covers(entry, &real))
}

/// Whether an entry of the list covers a repository: it is that directory or, with `/*` at its end,
/// one above it.
fn covers(entry: &Path, real: &Path) -> bool {
    if entry == Path::new("*") {
        return true;
    }
    if !entry.is_absolute() {
        return false;
    }
    let is_below = entry.file_name().is_some_and(|name| name == "*");
    let dir = if is_below {
        entry.parent().unwrap_or(entry)
    } else {
        entry
    };
    let Ok(dir) = std::fs::canonicalize(dir) else {
        return false;
    };
    if is_below {
        real != dir && real.starts_with(&dir)
    } else {
        real == dir
    }
}

/// What a user calls a repository: the worktree's root, or a bare repository itself.
fn root_of(dmv: &Path) -> PathBuf {
    let is_inside = dmv.file_name().is_some_and(|name| name == DMV_DIR);
    let root = dmv.parent().filter(|_| is_inside).unwrap_or(dmv);
    root.to_owned()
}

/// A path from the worktree's root as an argument, for a user who stands here.
pub fn path_argument(path: &[u8]) -> Argument {
    Argument::path(path, root_elsewhere().is_none())
}

/// The same for a command of the system.
pub fn on_disk_argument(path: &[u8]) -> Argument {
    match root_elsewhere() {
        Some(root) => {
            let root = root.as_os_str().as_encoded_bytes();
            Argument::value([root, b"/", path].concat())
        }
        None => Argument::path(path, true),
    }
}

/// The worktree's root, unless it is the current directory.
fn root_elsewhere() -> Option<PathBuf> {
    let (root, _) = find(true).ok()?.0.worktree?;
    let root = std::fs::canonicalize(root).ok()?;
    let here = std::fs::canonicalize(".").ok()?;
    (root != here).then_some(root)
}

/// The command that reads another user's repository.
pub fn way_to_read(dmv: &Path) -> Hint {
    let root = root_of(dmv);
    hint!("dmv -C {} status", Argument::on_disk(&root))
}

/// The command that makes another user's repository count like an own one.
pub fn way_to_trust(dmv: &Path) -> Hint {
    let mut listed = safe_repositories().unwrap_or_default();
    listed.push(root_of(dmv));
    let list = Argument::value(config::joined(&listed));
    hint!("dmv config set --user safe.repositories {}", list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_covers_its_directory_or_with_a_star_all_below() -> std::io::Result<()> {
        let temp = tempfile::tempdir()?;
        let base = std::fs::canonicalize(temp.path())?;
        let (one, two) = (base.join("one"), base.join("one/two"));
        std::fs::create_dir_all(&two)?;
        std::os::unix::fs::symlink(&one, base.join("link"))?;
        for (entry, covers_one, covers_two) in [
            ("one", true, false),
            ("one/*", false, true),
            ("*", true, true),
            ("link", true, false),
            ("link/*", false, true),
            ("on", false, false),
            ("on*", false, false),
            ("none/*", false, false),
        ] {
            let entry = base.join(entry);
            assert_eq!(covers(&entry, &one), covers_one, "{}", entry.display());
            assert_eq!(covers(&entry, &two), covers_two, "{}", entry.display());
        }
        assert!(covers(Path::new("*"), &one));
        assert!(!covers(Path::new("one"), &one) && !covers(Path::new(""), &one));
        Ok(())
    }
}
