//! Where the user's own files are.

use crate::failure::{EXIT_OTHER, Failure};
use dmv_core::platform::HOME_VARIABLES;
use dmv_core::repo::DMV_DIR;
use std::path::{Path, PathBuf};

/// The user's file.
pub fn user_file() -> Option<PathBuf> {
    Some(user_dir()?.join("config.toml"))
}

/// The worktree that the user's file lies in, by its path or by where links lead. Commits from elsewhere may change it.
pub(super) fn worktree_of_user_file() -> Option<PathBuf> {
    let file = user_file()?;
    let real = file.canonicalize().ok();
    let mut files = [Some(file), real].into_iter().flatten();
    files.find_map(|file| {
        let mut above = file.ancestors().skip(1);
        let is_root = |dir: &&Path| dir.join(DMV_DIR).symlink_metadata().is_ok();
        above.find(is_root).map(Path::to_owned)
    })
}

/// The user's home as the environment names it. Without `HOME` there is none: what the system has for
/// the account belongs to another user, where a service or a script runs without it.
pub(super) fn home() -> Option<PathBuf> {
    HOME_VARIABLES.iter().find_map(|name| absolute(name))
}

/// The directory that a variable names. A relative one would be another directory for each command,
/// perhaps in a worktree, so it counts as unset.
fn absolute(name: &str) -> Option<PathBuf> {
    let dir = std::env::var_os(name).map(PathBuf::from);
    dir.filter(|dir| dir.is_absolute())
}

/// The failure where the user's files are needed, and no variable says where they are.
pub fn no_home(what: &str) -> Failure {
    let is_relative = |name: &&&str| std::env::var_os(name).is_some_and(|dir| !dir.is_empty());
    let why = match ["XDG_CONFIG_HOME", "HOME"].iter().find(is_relative) {
        Some(name) => format!("{name} is not an absolute path"),
        None => "neither HOME nor XDG_CONFIG_HOME is set".to_owned(),
    };
    let failure = Failure::new("no-home", EXIT_OTHER, format!("{what}: {why}"));
    failure.hint("export XDG_CONFIG_HOME=DIR, where DIR begins with a slash")
}

/// Where the user's files are: below `$XDG_CONFIG_HOME`, or `~/.config`.
pub fn user_dir() -> Option<PathBuf> {
    let base = absolute("XDG_CONFIG_HOME").or_else(|| home().map(|home| home.join(".config")))?;
    Some(base.join("dmv"))
}
