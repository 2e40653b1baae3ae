//! What a switch is asked for, and what it did.

use crate::repo::base::publish::Asked;
use crate::repo::base::worktree::WorktreeSettings;
use crate::repo::conflict::form::Form;
use crate::repo::files::emptied::EmptiedPattern;
use crate::repo::files::saved::{Overwritten, Return};
use crate::subset::Subset;
use crate::worktree::snapshot::Problem;

/// What to make a worktree's files equal to.
pub(in crate::repo) struct SwitchTo<'a> {
    /// What is being done, for the message that refuses it.
    pub what: &'static str,
    /// Who asks for it. The command goes on with it when it is cut off.
    pub asked: &'a Asked,
    /// The tree, in the form that files have.
    pub form: Form,
    /// The paths of it that the worktree will have.
    pub subset: &'a Subset,
    /// Discard uncommitted changes to tracked files.
    pub force: bool,
    /// Leave files of the user's in place that have come into the subset: they count as edits.
    pub adopts: bool,
    /// Whether the target does not go on from the base: conflicts that are settled and not committed
    /// would be open again for who comes back.
    pub leaves: bool,
    /// What was overwritten and comes back.
    pub brings: Option<&'a Return>,
    /// How files are taken in.
    pub settings: &'a WorktreeSettings,
}

/// What [`Repo::switch_files`] did: as in [`CheckoutReport`].
#[derive(Debug, Default)]
pub(in crate::repo) struct Switched {
    pub files: u64,
    pub bytes: u64,
    pub removed: u64,
    pub refused: Vec<Problem>,
    pub emptied: Vec<EmptiedPattern>,
    pub adopted: Vec<Vec<u8>>,
    pub overwritten: Overwritten,
}
