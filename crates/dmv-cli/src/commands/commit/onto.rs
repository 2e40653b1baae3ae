//! `dmv commit --onto`: files from elsewhere become a commit on a branch.

use super::archive::{Item, not_stored, read_archive};
use crate::prelude::*;
use dmv_core::platform::{bytes_of, name_of, open_named, stat_of};
use dmv_core::repo::{FileFacts, OntoFiles, OntoOptions, OntoReport};
use std::collections::BTreeSet;
use std::io::{Read, stdin};
use std::path::{Path, PathBuf};

/// The options that say which files go to which branch.
#[derive(clap::Args)]
pub struct OntoArgs {
    /// Commit the files of --from-tar, --put and --remove to BRANCH, instead of those of the worktree
    #[arg(
        long,
        value_name = "BRANCH",
        conflicts_with_all = ["paths", "amend", "allow_markers"],
        add = candidates::branch()
    )]
    pub onto: Option<String>,
    /// With --onto, take the files of a tar archive; - means standard input
    #[arg(long, value_name = "FILE", requires = "onto")]
    from_tar: Option<PathBuf>,
    /// With --onto, put FILE at PATH, from the root; you can repeat it. PATH ends at the first = before the name of a file that exists
    #[arg(long, value_name = "PATH=FILE", requires = "onto")]
    put: Vec<OsString>,
    /// With --onto, remove the file or directory at PATH, from the root; you can repeat it
    #[arg(long, value_name = "PATH", requires = "onto")]
    remove: Vec<OsString>,
    /// With --onto, refuse if BRANCH has changed the same paths since REV
    #[arg(long, value_name = "REV", requires = "onto", add = candidates::revision())]
    pub base: Option<String>,
}

impl OntoArgs {
    /// Whether there is anything to commit.
    pub fn names_files(&self) -> bool {
        self.from_tar.is_some() || !self.put.is_empty() || !self.remove.is_empty()
    }
}

/// Collects the files and commits them.
pub fn commit(
    context: &Context,
    repo: &Repo,
    args: &OntoArgs,
    options: &OntoOptions,
) -> Result<OntoReport, Failure> {
    let _watch = context.watch("committing");
    let mut files = repo.files_for_branch(&options.request)?;
    files.see_branch(&options.branch)?;
    collect(context, &mut files, args)?;
    supplied(context, repo, "reading directories", || {
        files.commit(options, &context.job)
    })
}

fn collect(context: &Context, files: &mut OntoFiles<'_>, args: &OntoArgs) -> Result<(), Failure> {
    let removed = args.remove.iter().map(|path| parse(bytes_of(path)));
    let removed: BTreeSet<RepoPath> = removed.collect::<Result<_, _>>()?;
    match &args.from_tar {
        Some(file) if file.as_os_str() != "-" => {
            let opened = open_named(file).map_err(|e| Failure::file("open", file, &e))?;
            put_archive(context, files, &removed, opened)?;
        }
        Some(_) if context.is_request() => {
            let message = "standard input has requests: name a file for --from-tar";
            return Err(Failure::usage(message));
        }
        Some(_) => put_archive(context, files, &removed, stdin().lock())?,
        None => {}
    }
    for put in &args.put {
        put_file(context, files, &removed, put)?;
    }
    for path in removed {
        files.remove(path)?;
    }
    Ok(())
}

/// One of both would be lost.
fn check_kept(path: &RepoPath, removed: &BTreeSet<RepoPath>) -> Result<(), Failure> {
    if removed.contains(path) {
        let path = escape(path.as_bytes());
        let message = format!("'{path}' is both put and removed; nothing was committed");
        return Err(Failure::usage(message));
    }
    Ok(())
}

fn put_archive(
    context: &Context,
    files: &mut OntoFiles<'_>,
    removed: &BTreeSet<RepoPath>,
    archive: impl Read,
) -> Result<(), Failure> {
    read_archive(archive, &mut |path, item| {
        if !matches!(item, Item::Directory) {
            check_kept(&path, removed)?;
        }
        match item {
            Item::File { facts, content } => files
                .put(path, facts, content, &context.job)
                .map_err(not_stored)?,
            Item::Link(target) => files.put_link(path, &target)?,
            Item::Directory => files.put_directory(path),
        }
        Ok(())
    })
}

/// Puts the file of `PATH=FILE`.
fn put_file(
    context: &Context,
    files: &mut OntoFiles<'_>,
    removed: &BTreeSet<RepoPath>,
    put: &OsStr,
) -> Result<(), Failure> {
    let (path, file) = split(bytes_of(put))?;
    let path = parse(path)?;
    check_kept(&path, removed)?;
    let failed = |e| Failure::file("read", file, &e);
    let opened = open_named(file).map_err(failed)?;
    let stat = stat_of(&opened).map_err(failed)?;
    // Where permissions do not tell who may read it, the file is not private.
    let mode = match stat.privacy() {
        Some(_) => stat.mode,
        None => stat.mode | 0o044,
    };
    let facts = FileFacts {
        mode,
        modified: Some(stat.mtime),
    };
    files.put(path, facts, opened, &context.job)?;
    Ok(())
}

/// Splits `PATH=FILE` at the first `=` behind which there is a file, or else at the first one: both may have some.
fn split(put: &[u8]) -> Result<(&[u8], &Path), Failure> {
    let ways = || {
        let equals = put.iter().enumerate().filter(|(_, b)| **b == b'=');
        equals.map(|(at, _)| (&put[..at], Path::new(name_of(&put[at + 1..]))))
    };
    let found = ways().find(|(_, file)| std::fs::metadata(file).is_ok());
    found.or_else(|| ways().next()).ok_or_else(|| {
        let message = format!("'{}' is not of the form PATH=FILE", escape(put));
        Failure::usage(message)
    })
}

/// A path from the root of the repository.
fn parse(path: &[u8]) -> Result<RepoPath, Failure> {
    let from_root = path.strip_prefix(b":/").unwrap_or(path);
    if from_root.starts_with(b"/") {
        let message = format!("'{}' begins with a slash", escape(path));
        let hint = "name the path from the root of the repository, such as reports/today.csv";
        return Err(Failure::usage(message).hint(hint));
    }
    Ok(Repo::parse_path(from_root)?)
}
