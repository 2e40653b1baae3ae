//! Fetching content of Git LFS that a repository lacks, by `git lfs`.
//!
//! The settings of the repository can name programs. So `git lfs` runs in a scratch repository that shares
//! its objects and knows only the address of its remote. What it fetches goes to where Git LFS keeps it in
//! the repository itself.

use crate::source::{GitSource, SourceError, bare_git, output_of};
use std::ffi::OsStr;
use std::path::Path;

/// Fetches all content that the history of `source` has pointers for. Returns what `git lfs` says if it could
/// not fetch all.
///
/// `scratch` is a new directory.
///
/// # Errors
///
/// Fails with [`SourceError::NoLfs`] if Git LFS is not installed.
pub fn fetch_content(source: &GitSource, scratch: &Path) -> Result<Option<String>, SourceError> {
    let lfs = bare_git().args(["lfs", "version"]).output();
    if !lfs.map_err(SourceError::NoGit)?.status.success() {
        return Err(SourceError::NoLfs);
    }
    let Some(address) = address(source) else {
        let said = "the repository has no remote 'origin' with a usual address";
        return Ok(Some(said.to_owned()));
    };
    let storage = source.git_dir()?.join("lfs");
    let mut clone = bare_git();
    clone.args(["clone", "-q", "--mirror", "--shared", "--template=", "--"]);
    output_of(clone.arg(source.path()).arg(scratch), "clone")?;
    for (key, value) in [
        ("remote.origin.url", OsStr::new(&address)),
        ("lfs.storage", storage.as_os_str()),
    ] {
        let mut config = bare_git();
        config.arg("-C").arg(scratch).args(["config", key]);
        output_of(config.arg(value), "config")?;
    }
    // On a commit, Git LFS reads the file `.lfsconfig` of that commit. So the scratch repository is on none.
    for args in [
        ["symbolic-ref", "HEAD", "refs/dmv/none"],
        ["update-ref", "-d", "refs/dmv/none"],
    ] {
        let mut head = bare_git();
        output_of(head.arg("-C").arg(scratch).args(args), args[0])?;
    }
    let mut fetch = bare_git();
    fetch.arg("-C").arg(scratch);
    fetch.args(["lfs", "fetch", "--all", "origin"]);
    match output_of(&mut fetch, "lfs fetch") {
        Ok(_) => Ok(None),
        Err(SourceError::Failed { said, .. }) => Ok(Some(said)),
        Err(e) => Err(e),
    }
}

/// Returns the address of the remote that the repository was cloned from, unless it can name a program. A path
/// may start from the repository.
fn address(source: &GitSource) -> Option<String> {
    let answer = source.answer(&["config", "--get", "remote.origin.url"]);
    let url = answer.ok()?.trim_end_matches('\n').to_owned();
    // `ext::COMMAND` and its like name a program.
    if url.contains("::") {
        return None;
    }
    let path = source.path().join(&url);
    match path.canonicalize() {
        Ok(path) => Some(format!("file://{}", path.display())),
        Err(_) => Some(url),
    }
}
