//! `dmv verify-commit`

use crate::prelude::*;
use crate::print::tags;
use crate::signers::{known_signers, told};
use dmv_core::history::paths::PathLog;
use dmv_core::repo::SignatureState;

/// Check who has signed commits and tags
///
/// A signature is good if it is of this commit, by a key that you know: your own, or that of a device in
/// 'dmv peers' or with a name of yours. Without good signatures of all commits, the exit code is 1. The name of an
/// annotated tag means the tag, and NAME~0 its commit.
#[derive(clap::Args)]
#[command(
    name = "verify-commit",
    after_help = "Example:\n  dmv verify-commit @\n  dmv verify-commit main~3..main"
)]
pub struct Args {
    /// The commits; A..B means those that B has and A does not have
    #[arg(value_name = "REV|A..B", required = true, add = candidates::revision())]
    revisions: Vec<String>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let known_signers = known_signers(context)?;
    let checker = repo.signature_checker(&known_signers)?;
    let mut all_good = true;
    for revision in &args.revisions {
        if repo.annotated_tag(revision)?.is_some() {
            let tag = tags::checked(&repo, &checker, revision)?;
            all_good &= tag.check.state == SignatureState::Good;
            tags::print(context, &tag)?;
            continue;
        }
        for id in commits(context, &repo, revision)? {
            let check = checker.check(&id, &repo.read_commit(&id)?)?;
            all_good &= check.state == SignatureState::Good;
            context.ui.show(
                || object! { commit: id, signature: check.state.word(), check.{key, name} },
                |out| Ok(writeln!(out, "{}  {}", id.short(SHORT_ID), told(&check))?),
            )?;
        }
    }
    Ok(if all_good { EXIT_OK } else { EXIT_DIFFERS })
}

/// The commits that a text names: one, or those of a range, newest first.
fn commits(context: &Context, repo: &Repo, text: &str) -> Result<Vec<ObjectId>, Failure> {
    let Some((old, new)) = context.range(repo, "verify-commit", text)? else {
        return Ok(vec![repo.resolve(text)?]);
    };
    let changed = repo.changed_paths(&[]);
    let mut log = PathLog::new(repo.objects(), &changed, &[new], &[])?;
    log.hide(repo.end_of_range(old, new)?);
    let mut ids = Vec::new();
    while let Some(visited) = log.advance::<RepoError>(None)? {
        ids.push(visited.id);
    }
    Ok(ids)
}
