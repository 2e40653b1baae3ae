//! Paths as a disk has them, and the error of a file operation on one.
//!
//! The module knows neither trees nor repositories. Every room that works with files uses it, so that
//! all their errors name the operation and the path in the same way.

use crate::escape::escape;
use crate::platform::{self, Cause, FileUser};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A path as a disk or a user gives it: any bytes, also ones that no commit can hold.
///
/// A path that a commit holds is a [`RepoPath`](crate::object::name::RepoPath).
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskPath(Vec<u8>);

impl DiskPath {
    /// Returns the bytes of the path.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the bytes of the path.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Takes several paths.
    pub fn all<P: Into<DiskPath>>(paths: impl IntoIterator<Item = P>) -> Vec<DiskPath> {
        paths.into_iter().map(Into::into).collect()
    }

    /// Returns the path for calls of the system.
    pub fn to_path_buf(&self) -> PathBuf {
        PathBuf::from(platform::name_of(&self.0))
    }
}

impl From<Vec<u8>> for DiskPath {
    fn from(path: Vec<u8>) -> DiskPath {
        DiskPath(path)
    }
}

impl From<&[u8]> for DiskPath {
    fn from(path: &[u8]) -> DiskPath {
        DiskPath(path.to_vec())
    }
}

impl From<&Vec<u8>> for DiskPath {
    fn from(path: &Vec<u8>) -> DiskPath {
        DiskPath(path.clone())
    }
}

impl From<&Path> for DiskPath {
    fn from(path: &Path) -> DiskPath {
        DiskPath(platform::bytes_of(path).to_vec())
    }
}

impl From<&PathBuf> for DiskPath {
    fn from(path: &PathBuf) -> DiskPath {
        DiskPath::from(path.as_path())
    }
}

impl From<PathBuf> for DiskPath {
    fn from(path: PathBuf) -> DiskPath {
        DiskPath::from(path.as_path())
    }
}

impl AsRef<[u8]> for DiskPath {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for DiskPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A backslash would be doubled, as in a name.
        escape(&platform::with_slashes(&self.0)).fmt(f)
    }
}

impl fmt::Debug for DiskPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// A failed file operation: what was attempted, on which path, and why it failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {op} {path}: {}", self.why())]
pub struct PathError {
    /// The path.
    pub path: DiskPath,
    /// The operation, as a verb: `open`, `rename`.
    pub op: &'static str,
    /// The system's error.
    pub source: io::Error,
    /// The other programs that have the file open, if that may be the reason.
    pub users: Vec<FileUser>,
}

/// How many programs an error names.
const MAX_USERS: usize = 3;

impl PathError {
    /// Returns an error for `path`.
    pub fn new(op: &'static str, path: impl Into<DiskPath>, source: impl Into<io::Error>) -> Self {
        let (path, source) = (path.into(), source.into());
        let users = Vec::new();
        PathError {
            path,
            op,
            source,
            users,
        }
    }

    /// Returns the reason alone: the system's error, and which programs have the file open.
    pub fn why(&self) -> String {
        let name = |user: &FileUser| {
            let name = user.name.as_deref().unwrap_or("a program");
            format!("{} (process {})", escape(name.as_bytes()), user.pid)
        };
        let mut users: Vec<String> = self.users.iter().take(MAX_USERS).map(name).collect();
        let have = if self.users.len() == 1 { "has" } else { "have" };
        if self.users.len() > MAX_USERS {
            users.push(format!("{} others", self.users.len() - MAX_USERS));
        }
        match &users[..] {
            [] => self.source.to_string(),
            users => format!("{}; {} {have} it open", self.source, users.join(", ")),
        }
    }

    /// Returns the kind of the system's error.
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }

    /// Returns whether a directory could not be opened because it does not exist or is something else.
    /// Other errors, such as a lack of permission, say nothing about its entries.
    pub fn is_absent(&self) -> bool {
        matches!(
            platform::cause_of(&self.source),
            Cause::Absent | Cause::NotDirectory | Cause::Symlink | Cause::NameTooLong
        )
    }
}

/// Adds the operation and the path to an error of the system.
pub trait PathContext<T> {
    /// Returns the error of the operation `op`, a verb, on `path`.
    fn context<P: ?Sized>(self, op: &'static str, path: &P) -> Result<T, PathError>
    where
        for<'a> &'a P: Into<DiskPath>;
}

impl<T, E: Into<io::Error>> PathContext<T> for Result<T, E> {
    fn context<P: ?Sized>(self, op: &'static str, path: &P) -> Result<T, PathError>
    where
        for<'a> &'a P: Into<DiskPath>,
    {
        self.map_err(|source| PathError::new(op, path, source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_operation_and_any_path() {
        let refused = || io::Result::<()>::Err(io::ErrorKind::PermissionDenied.into());
        let told = |e: Result<(), PathError>| e.expect_err("it failed").to_string();
        assert_eq!(
            told(refused().context("open", Path::new("a/b"))),
            "cannot open a/b: permission denied"
        );
        assert_eq!(
            told(refused().context("read", &b"\xff\x1b"[..])),
            "cannot read \\xff\\u{1b}: permission denied"
        );
    }

    #[test]
    fn a_path_is_shown_with_slashes() {
        let path = DiskPath::from(Path::new("a").join("b\u{1b}"));
        assert_eq!(path.to_string(), "a/b\\u{1b}");
    }

    #[test]
    fn an_error_names_the_programs_that_have_the_file_open() {
        let user = |pid, name: &str| FileUser {
            pid,
            name: Some(name.to_owned()),
        };
        let mut error = PathError::new("open", &b"a"[..], io::ErrorKind::ResourceBusy);
        let mut told = |users| {
            error.users = users;
            error.to_string()
        };
        assert_eq!(told(vec![]), "cannot open a: resource busy");
        assert_eq!(
            told(vec![user(7, "Editor\u{1b}.exe")]),
            "cannot open a: resource busy; Editor\\u{1b}.exe (process 7) has it open"
        );
        let unknown = FileUser { pid: 1, name: None };
        let many = (2..=5).map(|pid| user(pid, "x"));
        assert_eq!(
            told(std::iter::once(unknown).chain(many).collect()),
            "cannot open a: resource busy; a program (process 1), x (process 2), x (process 3), 2 others have it open"
        );
    }

    #[test]
    #[cfg_attr(windows, ignore = "names are text there")]
    fn a_path_keeps_its_bytes() {
        let path = DiskPath::from(&b"a\xff"[..]);
        assert_eq!(DiskPath::from(path.to_path_buf()), path);
        assert_eq!(path.into_bytes(), b"a\xff");
    }
}
