//! Which remotes lack commits of this repository, as far as it knows: no remote is asked.

use crate::prelude::*;
use dmv_core::reach::{Detail, Reach};
use std::collections::BTreeMap;

/// What a remote lacks.
pub struct RemoteLack {
    /// Its name.
    pub name: String,
    /// The number of commits up to that of the worktree that none of the remote's branches had when it was
    /// last heard of. `None`: nothing was fetched from it or pushed to it yet.
    pub missing: Option<usize>,
}

/// What the remotes lack of a commit and those before it. Those that lack nothing are among them.
pub fn lacks(
    context: &Context,
    repo: &Repo,
    commit: Option<ObjectId>,
) -> Result<Vec<RemoteLack>, Failure> {
    let Some(commit) = commit else {
        return Ok(Vec::new());
    };
    let mut out = Vec::new();
    for (name, _) in context.config()?.remotes() {
        let missing = missing_at(repo, &name, commit)?;
        out.push(RemoteLack { name, missing });
    }
    Ok(out)
}

fn missing_at(repo: &Repo, remote: &str, commit: ObjectId) -> Result<Option<usize>, Failure> {
    let mut known = Vec::new();
    for (key, _) in repo
        .refs()
        .with_prefix(&format!("remote/{remote}/"))
        .map_err(RepoError::from)?
    {
        known.extend(repo.ref_at(&key)?);
    }
    if known.is_empty() {
        return Ok(None);
    }
    let (mut reach, mut missing) = (Reach::new([commit], known, Detail::Commits), 0);
    while reach
        .next(repo.objects())
        .map_err(RepoError::from)?
        .is_some()
    {
        missing += 1;
    }
    Ok(Some(missing))
}

/// Says which remotes lack commits; those with the same number together. `said`: the remote that has a
/// line of its own.
pub fn print(
    out: &mut impl Write,
    lacks: &[RemoteLack],
    said: Option<&str>,
) -> Result<(), Failure> {
    let mut by_count: BTreeMap<Option<usize>, Vec<&str>> = BTreeMap::new();
    for lack in lacks {
        let is_said = said == Some(&lack.name) && lack.missing.is_some();
        if lack.missing != Some(0) && !is_said {
            by_count.entry(lack.missing).or_default().push(&lack.name);
        }
    }
    for (missing, names) in by_count {
        let sync = hint!("dmv sync {}", Hint::names(&names, " "));
        let names = clean(&names.join(", "));
        match missing {
            Some(missing) => {
                let commits = count(missing as u64, "commit", "commits");
                writeln!(out, "{commits} not at {names}: {sync}")?;
            }
            None => writeln!(out, "nothing was sent to {names} yet: {sync}")?,
        }
    }
    Ok(())
}
