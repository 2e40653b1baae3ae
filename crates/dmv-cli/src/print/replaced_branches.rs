//! Branches of a remote that were replaced by others.

use crate::prelude::*;

/// Whether `theirs` is known to lack what the remote's branch had and `ours` has. What is not here
/// cannot be told; then the pull says it.
pub fn is_replaced(
    repo: &Repo,
    remote: &str,
    branch: &str,
    ours: ObjectId,
    theirs: ObjectId,
) -> bool {
    let found = repo.replaced_commit(remote, branch, (ours, theirs));
    found.is_ok_and(|commit| commit.is_some())
}

/// What to run where a remote's branch was replaced.
pub fn way_past_replaced(remote: &str, branch: &str) -> Hint {
    let name = Argument::value(format!("{remote}/{branch}"));
    hint!(
        "dmv pull --reset, to use {} as it is; or dmv merge {}, to keep both",
        name,
        name
    )
}
