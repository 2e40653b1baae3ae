//! What is said once to a user who has never set a name: which one commits record, and how to change it.

use crate::context::Context;
use crate::failure::Failure;
use dmv_core::hash::ObjectId;
use dmv_core::refs::Change;
use dmv_core::repo::Repo;
use std::ops::ControlFlow;

/// How many operations are looked at for an earlier commit of the user.
const LOOKED_AT: usize = 1000;

/// Says how to set `user.name`, if it is not set and the newest operation is the user's first commit
/// here.
pub fn tell_unset(context: &Context, repo: &Repo) -> Result<(), Failure> {
    if context.globals.json || context.ui.quiet() || context.has_name()? {
        return Ok(());
    }
    let who = context.who()?;
    let recorded = format!("{} <{}>", who.name, who.email);
    let (mut commits, mut seen) = (0, 0);
    repo.each_operation(&mut |operation, _| {
        seen += 1;
        let is_mine = |change: &Change| {
            // A worktree's base moves with each commit.
            let id = change
                .new
                .as_deref()
                .filter(|_| change.key.ends_with("/base"));
            let id = id.and_then(|id| <[u8; 32]>::try_from(id).ok());
            let commit = id.and_then(|id| repo.read_commit(&ObjectId::from_bytes(id)).ok());
            commit.is_some_and(|made| {
                made.committer.name == who.name && made.committer.email == who.email
            })
        };
        let is_commit = operation.who == recorded && operation.changes.iter().any(is_mine);
        commits += usize::from(is_commit);
        Ok(if commits > 1 || seen >= LOOKED_AT {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    })?;
    if commits > 1 {
        return Ok(());
    }
    let ui = &context.ui;
    ui.note(format_args!(
        "note: recorded as {recorded}, because you have not set a name; to set it:"
    ));
    ui.note("  dmv config set --user user.name \"YOUR NAME\"");
    ui.note("  dmv config set --user user.email ADDRESS");
    ui.note("  dmv commit --amend --reset-author --no-edit   (in this commit, too)");
    Ok(())
}
