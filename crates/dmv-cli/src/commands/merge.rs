//! `dmv merge`

use crate::message::given;
use crate::prelude::*;
use crate::print::merge::{merge_word, print_merge};
use dmv_core::repo::{FastForward, is_previous};

/// Merge another branch into the current branch
///
/// A merge always completes. If dmv cannot combine the changes to a file, it commits a conflict that
/// keeps every version. 'dmv conflicts' lists the conflicts. 'dmv resolve' resolves them, now or later,
/// in this clone or in another one.
///
/// Uncommitted changes stay if the merge does not touch those files. If it would overwrite them, dmv
/// refuses and changes nothing.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv merge regrade\n  dmv merge regrade -m \"use the new grade\"\n\n\
                  Exit code 4: the merge is complete, and it has conflicts."
)]
pub struct Args {
    /// The branch or commit to merge
    #[arg(value_name = "REV", add = candidates::revision())]
    revision: String,
    /// The message of the merge commit
    #[arg(short, long, value_name = "MSG")]
    message: Option<String>,
    /// Create a merge commit even if a fast-forward is possible
    #[arg(long, conflicts_with = "ff_only")]
    no_ff: bool,
    /// Refuse unless a fast-forward is possible
    #[arg(long)]
    ff_only: bool,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let theirs = repo.resolve(&args.revision)?;
    let fast_forward = match (args.no_ff, args.ff_only) {
        (true, _) => FastForward::Never,
        (_, true) => FastForward::Only,
        _ => FastForward::Auto,
    };
    let message = match &args.message {
        Some(message) => given(message)?,
        None => default_message(&repo, &args.revision, &theirs)?,
    };
    let options = context.merge_options(message)?;
    let report = supplied(context, &repo, "merging", || {
        repo.merge(theirs, fast_forward, &options, &context.job)
    })?;
    print_merge(context, &report, merge_word(&report))
}

fn default_message(repo: &Repo, revision: &str, id: &ObjectId) -> Result<String, RepoError> {
    let previous = if is_previous(revision) {
        repo.previous_head(revision)?.branch().map(str::to_owned)
    } else {
        None
    };
    let revision = previous.as_deref().unwrap_or(revision);
    let what = if let Some(name) = repo.named_branch(revision)? {
        format!("branch '{name}'")
    } else if revision.len() <= 64 && !id.to_string().starts_with(revision) {
        format!("'{revision}'")
    } else {
        format!("commit {}", id.short(SHORT_ID))
    };
    let into = match repo.head()? {
        Head::Branch(name) => format!(" into {name}"),
        Head::Commit(_) => String::new(),
    };
    Ok(format!("Merge {what}{into}"))
}
