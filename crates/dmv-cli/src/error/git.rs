//! The failures of imports from Git and exports to Git.

use crate::error::repo::sort_io;
use crate::failure::{
    EXIT_ABSENT, EXIT_DAMAGE, EXIT_NO_REPOSITORY, EXIT_OTHER, EXIT_USAGE, Failure,
};
use crate::format::text::clean;
use dmv_core::escape::Argument;
use dmv_core::hint;
use dmv_core::path::PathError;
use dmv_core::repo::RepoError;
use dmv_git::GitError;
use dmv_git::map::{MapError, MapFault};
use dmv_git::source::SourceError;
use std::io::ErrorKind;

/// Git's commands that read objects, and fail if these are damaged.
const READING: [&str; 4] = ["cat-file", "fast-export", "index-pack", "rev-list"];
/// What to do after most failures.
const AGAIN: &str = "the same command again: it goes on with what is stored";
/// Branches that a message names.
const MOST_NAMES: usize = 20;

impl From<GitError> for Failure {
    fn from(e: GitError) -> Failure {
        match e {
            GitError::Source(e) => e.into(),
            GitError::Repo(e) => e.into(),
            GitError::Store(e) => RepoError::from(e).into(),
            GitError::Object(e) => e.into(),
            GitError::Cancelled => RepoError::Cancelled.into(),
            GitError::Pattern { .. } => Failure::new("usage", EXIT_USAGE, e.to_string()),
            GitError::NoBranch { ref there, .. } => {
                let mut names = there
                    .iter()
                    .take(MOST_NAMES)
                    .map(|name| clean(name))
                    .collect::<Vec<_>>();
                if there.len() > MOST_NAMES {
                    names.push("...".to_owned());
                }
                let there = match &names[..] {
                    [] => "there is none".to_owned(),
                    names => format!("there are {}", names.join(", ")),
                };
                Failure::new("no-branch", EXIT_OTHER, format!("{e}; {there}"))
            }
            GitError::Damaged { .. } | GitError::Bad(_) => {
                let failure = Failure::new("git-damaged", EXIT_DAMAGE, e.to_string());
                failure.hint("git fsck --full, in the Git repository")
            }
            GitError::Algorithm { .. } => {
                let failure = Failure::new("git-format", EXIT_OTHER, e.to_string());
                failure.hint("dmv export --git DIR, with a new DIR")
            }
            GitError::Map(e) => e.into(),
            GitError::Read(ref source) => {
                let (code, exit, hint) = sort_io(source);
                let failure = Failure::new(code, exit, e.to_string());
                failure.hint(hint.unwrap_or_else(|| AGAIN.into()))
            }
            GitError::Stale | GitError::Thread(_) => {
                Failure::new("git", EXIT_OTHER, e.to_string()).hint(AGAIN)
            }
        }
    }
}

impl From<MapError> for Failure {
    fn from(e: MapError) -> Failure {
        let (message, is_damage) = (e.to_string(), e.is_damage());
        match e.error {
            MapFault::File(source) => RepoError::Io(PathError::new("open", e.path, source)).into(),
            MapFault::Database(_) if is_damage => {
                let path = e.path.as_os_str().as_encoded_bytes();
                let (from, to) = (
                    Argument::value(path),
                    Argument::value([path, b".odd"].concat()),
                );
                let failure = Failure::new("git-map", EXIT_DAMAGE, message);
                failure.hint(hint!(
                    "mv {} {}, to put it aside; the next import makes it again",
                    from,
                    to
                ))
            }
            MapFault::Database(_) => Failure::new("git", EXIT_OTHER, message).hint(AGAIN),
        }
    }
}

impl From<SourceError> for Failure {
    fn from(e: SourceError) -> Failure {
        let message = e.to_string();
        match e {
            SourceError::NoGit(_) => Failure::new("no-git", EXIT_OTHER, message)
                .hint("install Git, which reads and writes its repositories"),
            SourceError::NoLfs => Failure::new("no-git-lfs", EXIT_OTHER, message)
                .hint("install Git LFS, or take the content that is there with --lfs here"),
            SourceError::NoRepository { .. } => {
                Failure::new("no-git-repository", EXIT_NO_REPOSITORY, message)
            }
            SourceError::Shallow { path } => {
                let path = Argument::on_disk(&path);
                let hint = hint!(
                    "git -C {} fetch --unshallow, then the same command again",
                    path
                );
                Failure::new("git-shallow", EXIT_ABSENT, message).hint(hint)
            }
            SourceError::Missing { path, .. } => {
                let path = Argument::on_disk(&path);
                let hint = hint!(
                    "git -C {} fetch --refetch, then the same command again",
                    path
                );
                Failure::new("git-incomplete", EXIT_ABSENT, message).hint(hint)
            }
            SourceError::Stream { .. } => Failure::new("git-stream", EXIT_DAMAGE, message)
                .hint("write the stream again; nothing was taken from it"),
            SourceError::Pipe(e) if e.kind() == ErrorKind::Interrupted => {
                RepoError::Cancelled.into()
            }
            SourceError::Failed { command, .. } if !READING.contains(&&command[..]) => {
                Failure::new("git", EXIT_OTHER, message)
            }
            SourceError::Failed { .. } | SourceError::Answer(_) | SourceError::Pipe(_) => {
                Failure::new("git", EXIT_OTHER, message)
                    .hint("git fsck --full, in the Git repository")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::EXIT_PERMISSION;

    #[test]
    fn a_map_that_may_not_be_read_is_no_damage() {
        let error = MapFault::File(ErrorKind::PermissionDenied.into());
        let path = "/film/.dmv/git.db".into();
        let failure = Failure::from(GitError::Map(MapError { path, error }));
        assert_eq!(failure.exit, EXIT_PERMISSION);
        assert!(failure.message.contains("git.db"), "{}", failure.message);
        let failure = Failure::from(GitError::Read(ErrorKind::PermissionDenied.into()));
        assert_eq!(failure.exit, EXIT_PERMISSION);
    }
}
