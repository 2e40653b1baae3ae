//! The limit on the repository's size: what a command says that it refuses.

use crate::context::{Context, now};
use crate::failure::{EXIT_REFUSED, Failure, OVER_BUDGET};
use crate::format::text::bytes;
use crate::ownership::path_argument;
use crate::peers::remotes;
use dmv_core::escape::Hint;
use dmv_core::hint;
use dmv_core::job::Job;
use dmv_core::object::name::RepoPath;
use dmv_core::object::tree::TreeIter;
use dmv_core::repo::{ExpireOptions, GcOptions, Location, Repo, RepoError, Selection, disk_size};
use dmv_core::subset::Subset;
use std::time::Duration;

/// What `dmv gc` spares.
pub const GRACE: Duration = Duration::from_secs(14 * 24 * 60 * 60);
/// How many ways to free space are named.
const NAMED: usize = 3;

/// The failure of a command: one that the budget refuses names the ways to free most. What the command
/// wrote goes.
pub fn explained(context: &Context, failure: Failure) -> Failure {
    if failure.code != OVER_BUDGET {
        return failure;
    }
    let found = || -> Result<Failure, Failure> {
        let repo = context.repo_as_it_is()?;
        repo.remove_leftovers()?;
        let limit = repo.budget()?.unwrap_or(0);
        Ok(over(context, &repo, limit, used_bytes(&repo)?))
    };
    found().unwrap_or(failure)
}

/// The bytes that a repository takes.
pub fn used_bytes(repo: &Repo) -> Result<u64, Failure> {
    Ok(disk_size(repo.dmv_dir())?.1)
}

/// The refusal, with the ways to free most.
fn over(context: &Context, repo: &Repo, limit: u64, used: u64) -> Failure {
    let is_full = used >= limit;
    let (used, limit) = (bytes(used), bytes(limit));
    let message = if is_full {
        format!("the repository takes {used}, and its budget is {limit}")
    } else {
        format!("the repository takes {used}, its budget is {limit}, and this needs more")
    };
    let ways = ways(context, repo);
    let line = |(freed, command): &(u64, Hint)| format!("{:>10}  {command}", bytes(*freed));
    let details = ways.iter().map(line).collect();
    let hint = ways.into_iter().next().map(|(_, command)| command);
    let hint =
        hint.unwrap_or_else(|| "dmv config set repository.budget SIZE, with a greater size".into());
    let mut failure = Failure::new(OVER_BUDGET, EXIT_REFUSED, message).hint(hint);
    failure.details = details;
    failure
}

/// The commands that free most, with the bytes that they free at most.
pub fn ways(context: &Context, repo: &Repo) -> Vec<(u64, Hint)> {
    // The job of the command may have been stopped.
    let job = Job::default();
    let mut ways = Vec::new();
    let options = GcOptions::dry_run(GRACE, now());
    if let Ok(report) = repo.gc(&options, &job) {
        ways.push((report.freed_bytes, "dmv gc".into()));
        if report.young_bytes > report.freed_bytes {
            let all = report.freed_bytes + report.young_bytes;
            ways.push((all, "dmv gc --grace 0".into()));
        }
    }
    let options = ExpireOptions {
        paths: Subset::everything(),
        max_bytes: None,
        now: now().seconds,
    };
    let expirable = || repo.expirable(&repo.keep_rules()?, &options, &job);
    if let Ok(found) = expirable() {
        ways.push((found.stored_bytes, "dmv expire".into()));
    }
    if remotes(context).is_ok_and(|remotes| !remotes.is_empty()) {
        ways.extend(droppable(repo).unwrap_or_default());
    }
    ways.retain(|(size, _)| *size > 0);
    ways.sort_by_key(|(size, _)| std::cmp::Reverse(*size));
    ways.truncate(NAMED);
    ways
}

/// What the entries of the root directory take in packs, for `drop`.
fn droppable(repo: &Repo) -> Result<Vec<(u64, Hint)>, RepoError> {
    let mut out = Vec::new();
    let Some(commit) = repo.head_commit()? else {
        return Ok(out);
    };
    let tree = repo.read_commit(&commit)?.tree;
    for entry in TreeIter::new(repo.objects(), tree) {
        let entry = entry?;
        let Ok(path) = RepoPath::root().join(&entry.name) else {
            continue;
        };
        let size = repo.stored_under(Selection {
            path: &path,
            located: &Location::Entry(entry),
            subset: &Subset::everything(),
        })?;
        out.push((size, hint!("dmv drop {}", path_argument(path.as_bytes()))));
    }
    Ok(out)
}
