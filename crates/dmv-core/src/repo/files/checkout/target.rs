//! The request for a switch and its result. `checkout` and its callers use these values.

use crate::object::name::RepoPath;
use crate::repo::base::notes::PathNotes;
use crate::repo::base::publish::OperationRequest;
use crate::repo::base::worktree::WorktreeSettings;
use crate::repo::conflict::form::Form;
use crate::repo::files::checkout::portions::Portions;
use crate::repo::files::emptied::EmptiedPattern;
use crate::repo::files::open_worktree::OpenWorktree;
use crate::repo::files::saved::{OverwrittenFiles, Return};
use crate::repo::files::steps::StoredSteps;
use crate::subset::Subset;
use crate::worktree::snapshot::Problem;

/// What to make a worktree's files equal to, and how.
pub struct SwitchTo<'a> {
    /// The name of the action in messages that refuse it.
    pub what: &'static str,
    /// Who asks for the switch. If it is cut off, this command continues it.
    pub request: &'a OperationRequest,
    /// The tree, in the form that files have.
    pub form: Form,
    /// The subset of the tree that the worktree will have.
    pub subset: &'a Subset,
    /// Whether to discard uncommitted changes to tracked files.
    pub force: bool,
    /// Whether files of the user stay if they come into the subset. They then count as edits.
    pub adopts: bool,
    /// Whether the target does not descend from the base. Then conflicts that are settled but not
    /// committed would be open again after a switch back.
    pub leaves: bool,
    /// What is noted of paths with this target, as far as the switch does not end it.
    pub notes: &'a PathNotes,
    /// Steps that the same operation takes beside the switch.
    pub steps: Option<&'a StoredSteps>,
    /// Overwritten files that come back.
    pub brings: Option<&'a Return>,
    /// Where absent content comes from, if the switch is to bring it.
    pub portions: Option<&'a dyn Portions>,
    /// How files are read into the store.
    pub settings: &'a WorktreeSettings,
}

impl<'a> SwitchTo<'a> {
    /// Returns a switch of `tree` that keeps the worktree's subset and what is noted of its paths, and discards no
    /// change.
    pub fn new(
        what: &'static str,
        request: &'a OperationRequest,
        form: Form,
        tree: &'a OpenWorktree,
        settings: &'a WorktreeSettings,
    ) -> Self {
        Self {
            what,
            request,
            form,
            subset: &tree.subset,
            force: false,
            adopts: false,
            leaves: false,
            notes: &tree.notes,
            steps: None,
            brings: None,
            portions: None,
            settings,
        }
    }
}

/// What [`switch_files`](super::switch_files) did. The fields are those of
/// [`CheckoutReport`](super::CheckoutReport).
#[derive(Debug, Default)]
pub struct SwitchResult {
    pub files: u64,
    pub bytes: u64,
    pub removed: u64,
    pub refused: Vec<Problem>,
    pub emptied: Vec<EmptiedPattern>,
    pub adopted: Vec<RepoPath>,
    pub overwritten: OverwrittenFiles,
}
