//! `dmv show`

use crate::format::json;
use crate::headline::{header, names};
use crate::mirror::tell_behind;
use crate::prelude::*;
use crate::print::changes::{CommitAt, Detail, changes};
use dmv_core::repo::split_path;
use dmv_core::worktree::select::Paths;

/// Show a commit: its message and its changes
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv show\n  dmv show v1.0 --stat")]
pub struct Args {
    /// The commit to show
    #[arg(value_name = "REV", default_value = "@", add = candidates::revision())]
    revision: String,
    /// Show one line per file
    #[arg(long)]
    stat: bool,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    if let (revision, Some(path)) = split_path(args.revision.as_bytes()) {
        let failure = Failure::usage("show needs a commit, not a path in a commit");
        return Err(failure.hint(hint!("dmv cat {}", Argument::place(&revision, path))));
    }
    let repo = context.repo()?;
    let id = repo.resolve(&args.revision)?;
    tell_behind(context, &repo, &args.revision);
    let commit = repo.read_commit(&id)?;
    if !context.ui.is_json() {
        let text = header(&context.ui, &id, &commit, names(&repo)?.get(&id), None);
        writeln!(context.ui.out(), "{text}")?;
    }
    let detail = if args.stat {
        Detail::Stat
    } else {
        Detail::Full
    };
    let shown = CommitAt {
        id: &id,
        commit: &commit,
    };
    let changes = changes(context, &repo, shown, &Paths::default(), detail)?;
    if context.ui.is_json() {
        let mut document = json::commit(&id, &commit);
        document.add("changes", changes);
        context.ui.json(&document)?;
    }
    Ok(EXIT_OK)
}
