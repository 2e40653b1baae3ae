//! `rm --cached`: stops tracking files, which stay on disk.
//!
//! The worktree notes the files (see `untracked`). On request the same operation adds lines to the
//! ignore file in the worktree's root, so that a later commit does not include the files again.

use crate::fsutil::FileKind;
use crate::job::Job;
use crate::limits::MAX_IGNORE_BYTES;
use crate::merge::write_blob;
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry};
use crate::path::PathError;
use crate::refs::Effect;
use crate::repo::base::error::{LookError, PathRefusal, RepoError};
use crate::repo::base::publish::OperationRequest;
use crate::repo::base::repo::Repo;
use crate::repo::base::steps::Steps;
use crate::repo::base::transaction::Transaction;
use crate::repo::base::worktree;
use crate::repo::base::worktree::WorktreeSettings;
use crate::repo::conflict::names::last_name;
use crate::repo::files::checkout::restore::keep_for;
use crate::repo::files::checkout::switch::Switch;
use crate::repo::files::ignored::{line_for, verdict, verdict_with};
use crate::repo::files::named::{NamedFiles, named, refuse_in_conflict, refused};
use crate::repo::files::open_worktree::OpenWorktree;
use crate::repo::files::saved::{Overwrite, Overwrites, set_steps, stat_at};
use crate::repo::files::{notes, open_worktree, untracked};
use crate::worktree::ignore::{DMVIGNORE, Verdict};
use crate::worktree::snapshot::Problem;
use std::io::Read;

/// What to stop tracking, and how.
pub struct UntrackOptions {
    /// The files and directories, relative to the worktree's root.
    pub paths: Vec<RepoPath>,
    /// Whether directories may be named.
    pub recursive: bool,
    /// Lines to add to the ignore file in the worktree's root.
    pub ignore: Vec<String>,
    /// How files are read into the store.
    pub settings: WorktreeSettings,
    /// What the operation log records about the request.
    pub request: OperationRequest,
}

/// What was done.
#[derive(Debug)]
pub struct UntrackReport {
    /// The files that the next commit leaves out, in path order.
    pub untracked: Vec<RepoPath>,
    /// Set if the ignore file could not be written: why.
    pub refused: Vec<Problem>,
}

/// Names the action in messages that refuse it.
const WHAT: &str = "this rm --cached";

/// Which lines in the root's ignore file keep files out of later commits.
#[derive(Debug, Default)]
pub struct IgnoreOffer {
    /// The lines for paths that no ignore rule covers yet.
    pub lines: Vec<String>,
    /// Paths that no line there would cover: deeper rules include them again, or an ignore file
    /// cannot be used.
    pub uncovered: Vec<RepoPath>,
}

impl Repo {
    /// Returns the lines of the root's ignore file for those of `paths` that no ignore rule covers yet.
    pub fn ignore_offer(
        &self,
        settings: &WorktreeSettings,
        paths: &[RepoPath],
    ) -> Result<IgnoreOffer, RepoError> {
        let tree = open_worktree::open(self, settings)?;
        let mut offer = IgnoreOffer::default();
        // The file would not be in this worktree's commits.
        if !tree.subset.includes(DMVIGNORE, false) {
            return Ok(offer);
        }
        let root = root_rules(&tree).unwrap_or_default();
        for path in paths {
            if path.is_root() {
                continue;
            }
            let stat = stat_at(&tree, path.as_bytes())?;
            let is_dir = stat.is_some_and(|stat| stat.kind == FileKind::Dir);
            if verdict(self, &tree, path, is_dir)? == Verdict::Ignored {
                continue;
            }
            let line = line_for(path, is_dir);
            let text = with_lines(root.text.clone(), std::slice::from_ref(&line));
            if verdict_with(self, &tree, path, is_dir, Some(&text))? == Verdict::Ignored {
                offer.lines.push(line);
            } else {
                offer.uncovered.push(path.clone());
            }
        }
        Ok(offer)
    }

    /// Stops tracking files: the next commit leaves them out, and they stay on disk.
    pub fn untrack(&self, options: &UntrackOptions, job: &Job) -> Result<UntrackReport, RepoError> {
        let _lock = worktree::lock_worktree(self)?;
        let tree = open_worktree::open(self, &options.settings)?;
        let form = tree.form.as_ref().ok_or(LookError::NoCommit)?;
        for path in &options.paths {
            refuse_in_conflict(self, &tree, path.as_bytes())?;
        }
        let NamedFiles { inside, outside } = named(self, &tree, &options.paths, options.recursive)?;
        let mut files = inside;
        files.extend(outside);
        files.retain(|_, entry| entry.kind != Kind::Directory);
        let mut switch = Switch::new(self, &tree, form, &tree.subset, job);
        let mut tx = Transaction::begin(self, &options.request);
        let mut writes = Vec::new();
        if !options.ignore.is_empty() {
            switch.find_dirty(&options.settings)?;
            let (path, entry) = rules_with(self, &tree, &options.ignore)?;
            let overwrite = Overwrite {
                committed: switch.clean_entry(&path)?,
                after: Some(entry.clone()),
            };
            let overwrites = Overwrites::from([(path.clone(), overwrite)]);
            let keep = options.settings.keep;
            let saved = keep_for(&mut tx, &mut switch, overwrites, WHAT, keep, job)?;
            set_steps(
                &mut tx,
                &tree.name,
                saved.steps.as_ref(),
                &saved.told,
                Steps::default(),
            )?;
            writes.push((path, entry));
        }
        let mut noted = tree.notes.clone();
        untracked::note_in(&mut noted, &files);
        notes::put(&mut tx, &tree, &noted)?;
        let effect = if writes.is_empty() {
            Effect::Kept
        } else {
            Effect::Written
        };
        tx.publish_changes(effect)?;
        switch.put_back(writes)?;
        switch.sync()?;
        Ok(UntrackReport {
            untracked: RepoPath::all_checked(files.into_keys()),
            refused: switch.progress.refused,
        })
    }
}

/// The ignore file in the worktree's root.
#[derive(Default)]
struct RootRules {
    text: Vec<u8>,
    is_executable: bool,
    is_private: bool,
}

/// Reads the ignore file in the worktree's root.
fn root_rules(tree: &OpenWorktree) -> Result<RootRules, RepoError> {
    match stat_at(tree, DMVIGNORE)? {
        None => Ok(RootRules::default()),
        Some(stat) if stat.kind == FileKind::File => {
            let mut text = Vec::new();
            let (file, _) = tree.root.open_file_read(DMVIGNORE)?;
            let read = file.take(MAX_IGNORE_BYTES + 1).read_to_end(&mut text);
            read.map_err(|e| PathError::new("read", DMVIGNORE, e))?;
            Ok(RootRules {
                text,
                is_executable: stat.exec,
                is_private: stat.privacy() == Some(true),
            })
        }
        Some(_) => {
            let path = RepoPath::from_checked(DMVIGNORE.to_vec());
            Err(refused(&path, PathRefusal::NotAFile))
        }
    }
}

/// Returns a text with further lines, which end as its others do.
fn with_lines(mut text: Vec<u8>, lines: &[String]) -> Vec<u8> {
    let end: &[u8] = if text.windows(2).any(|two| two == b"\r\n") {
        b"\r\n"
    } else {
        b"\n"
    };
    if text.last().is_some_and(|last| *last != b'\n') {
        text.extend_from_slice(end);
    }
    for line in lines {
        text.extend_from_slice(line.as_bytes());
        text.extend_from_slice(end);
    }
    text
}

/// Returns the root's ignore file with further lines. Its content is only in memory.
fn rules_with(
    repo: &Repo,
    tree: &OpenWorktree,
    lines: &[String],
) -> Result<(Vec<u8>, TreeEntry), RepoError> {
    let path = RepoPath::parse(DMVIGNORE).expect("the name of the ignore file is a path");
    let root = root_rules(tree)?;
    let blob = write_blob(&with_lines(root.text, lines), &mut &repo.made)?;
    let entry = TreeEntry {
        name: last_name(&path),
        kind: if root.is_executable {
            Kind::Executable
        } else {
            Kind::File
        },
        is_list: blob.is_list,
        id: blob.id,
        size: blob.size,
        files: 0,
        attrs: None,
    };
    Ok((DMVIGNORE.to_vec(), entry.with_privacy(root.is_private)))
}
