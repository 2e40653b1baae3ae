//! Files that are gone from the worktree, although no commit has deleted them: what brings them back.

use crate::context::Context;
use crate::covering_paths::{command, cover};
use crate::failure::Failure;
use crate::format::text::count;
use crate::ownership::path_argument;
use dmv_core::escape::Hint;
use dmv_core::object::name::RepoPath;
use dmv_core::repo::{ChangeKind, Repo, StatusOptions};
use dmv_core::worktree::select::Paths;
use std::collections::HashSet;

/// Files of the worktree's commit that were deleted and not committed.
pub struct DeletedFiles {
    files: u64,
    restore: Option<Hint>,
}

impl DeletedFiles {
    /// Returns those of a worktree; `None` if there are none, or if it cannot be looked at.
    pub fn find(context: &Context, repo: &Repo) -> Option<DeletedFiles> {
        repo.worktree_root()?;
        let options = StatusOptions {
            select: &Paths::default(),
            settings: context.settings().ok()?,
        };
        let report = repo.status(&options, &context.job).ok()?;
        let renames = repo.renames(&report.changes, &context.job).ok()?;
        let moved: HashSet<&RepoPath> = renames.list.iter().map(|moved| &moved.from).collect();
        let deleted = report
            .changes
            .iter()
            .filter(|change| change.kind == ChangeKind::Deleted && !moved.contains(&change.path));
        let deleted: Vec<&[u8]> = deleted.map(|change| change.path.as_bytes()).collect();
        let commit = repo.read_commit(&report.commit?).ok()?;
        let restore = command(
            "dmv restore",
            &cover(repo, commit.tree, &deleted),
            path_argument,
        );
        (!deleted.is_empty()).then_some(DeletedFiles {
            files: deleted.len() as u64,
            restore,
        })
    }

    /// Returns whether none of the files of `before` has come back.
    pub fn is_as_many(&self, before: &DeletedFiles) -> bool {
        self.files >= before.files
    }

    /// Says so, with the command that restores them.
    pub fn tell(&self, context: &Context) {
        context.ui.note(format_args!("note: {}", self.words()));
        if let Some(restore) = &self.restore {
            context.ui.note(format_args!("hint: {restore}"));
        }
    }

    /// Says that they are no change of a command that was undone.
    pub fn tell_after_undo(&self, context: &Context) {
        let words = self.words();
        context.ui.note(format_args!(
            "note: undo reverses commands of dmv; before it, {words}"
        ));
        if let Some(restore) = &self.restore {
            context.ui.note(format_args!(
                "hint: to restore them: dmv redo, then {restore}"
            ));
        }
    }

    /// Explains a failed undo by them: most likely they were to come back.
    pub fn explain(&self, mut failure: Failure) -> Failure {
        let mut details = failure.details.to_vec();
        details.push(format!("undo reverses commands of dmv; {}", self.words()));
        failure.details = details.into();
        let hints: Vec<Hint> = self
            .restore
            .clone()
            .into_iter()
            .chain(failure.hint.take())
            .collect();
        if hints.is_empty() {
            return failure;
        }
        failure.hint(Hint::join(hints, "; or "))
    }

    fn words(&self) -> String {
        let files = count(self.files, "file was", "files were");
        format!("{files} deleted and not committed")
    }
}
