//! Keep rules, as `keep` and `expire` show them.

use crate::prelude::*;
use dmv_core::repo::{KeepRule, KeepRules, RuleLine};

/// The rules of a repository. Says what is wrong with them.
pub fn rules(context: &Context, repo: &Repo) -> Result<KeepRules, Failure> {
    let rules = supplied(context, repo, "reading rules", || repo.keep_rules())?;
    for problem in &rules.problems {
        context.ui.warn(format_args!("{problem}"));
    }
    Ok(rules)
}

/// Says that rules decide about no file.
pub fn tell_idle_rules(context: &Context, rules: &KeepRules, idle: &[usize]) {
    // A problem says which rules are replaced.
    let idle = idle.iter().filter(|number| !rules.is_replaced(**number));
    for line in idle.map(|number| &rules.lines[*number]) {
        let pattern = clean(&line.pattern);
        context.ui.warn(format_args!(
            "{}: '{pattern}' decides about no file: nothing matches, or other rules win",
            line.source
        ));
    }
}

/// Says which worktrees count as branches although they are on none.
pub fn tell_detached(context: &Context, repo: &Repo, rules: &KeepRules) -> Result<(), Failure> {
    let counts = |line: &RuleLine| matches!(line.rule, KeepRule::Last(_));
    if !rules.lines.iter().any(counts) {
        return Ok(());
    }
    for tree in repo.worktrees()? {
        if tree.head.branch().is_none() {
            context.ui.note(format_args!(
                "note: the worktree {} is on no branch, so last:N counts it as a branch of its own",
                clean(&tree.name)
            ));
        }
    }
    Ok(())
}
