//! `dmv add`

use crate::failure::EXIT_USAGE;
use crate::on_demand::some_of;
use crate::prelude::*;
use dmv_core::repo::StatusOptions;
use dmv_core::worktree::select::Paths;

/// Show what a commit would take: there is no staging area
///
/// 'dmv commit' takes all changes, or those under the paths that you name. So there is nothing to add.
/// This command only says what the commit would take. It changes nothing, and exits with 2.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv commit -m \"new titles\" titles/ notes.txt")]
pub struct Args {
    /// What Git would have added
    #[arg(
        value_name = "PATH",
        allow_hyphen_values = true,
        trailing_var_arg = true,
        add = candidates::path()
    )]
    args: Vec<OsString>,
}

/// Runs the command, which never succeeds.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    // Options of Git are passed over: whatever they ask for, the answer is the same.
    let is_option = |arg: &&OsString| arg.to_string_lossy().starts_with('-');
    let paths: Vec<&OsString> = args.args.iter().filter(|arg| !is_option(arg)).collect();
    // The whole directory needs no mention.
    let named = paths.iter().filter(|path| **path != ".");
    let named = named.map(|path| hint!(" {}", Argument::on_disk(path)));
    let commit = hint!("dmv commit -m MESSAGE{}", Hint::join(named, ""));
    let (taken, is_all_known) = match taken(context, &paths) {
        Ok(taken) => taken,
        Err(e) if e.exit == EXIT_NO_REPOSITORY => {
            let begin = e.hint.unwrap_or_else(|| "dmv init".into());
            let message = format!("{}; and there is no staging area to add to", e.message);
            let failure = Failure::new("no-staging-area", EXIT_USAGE, message);
            return Err(failure.hint(hint!("{}, then {}", begin, commit)));
        }
        // With paths that mean nothing, one thing at least can be said.
        Err(_) => return Err(failure("'dmv commit' takes all changes").hint(commit)),
    };
    Err(match (&taken[..], is_all_known) {
        ([], true) if paths.iter().any(|path| *path != ".") => {
            failure("'dmv commit' would take nothing there: it is unchanged, ignored or missing")
                .hint("dmv status")
        }
        ([], true) => failure("'dmv commit' would take nothing, because nothing has changed")
            .hint("dmv status"),
        ([], false) => {
            failure("'dmv commit' would take nothing; it would leave out what dmv cannot tell")
                .hint("dmv status")
        }
        (taken, _) => {
            let taken = format!("'dmv commit' would take {}", some_of(taken));
            failure(&taken).hint(commit)
        }
    })
}

/// The changes that a commit would take, and whether they are all that there may be.
fn taken(context: &Context, paths: &[&OsString]) -> Result<(Vec<Vec<u8>>, bool), Failure> {
    let repo = context.repo()?;
    let paths: Result<Vec<_>, Failure> =
        paths.iter().map(|path| context.path(&repo, path)).collect();
    let select = Paths::new(paths?);
    let options = StatusOptions {
        select: &select,
        settings: context.settings()?,
    };
    let watch = context.watch("scanning");
    let report = repo.status(&options, &context.job)?;
    drop(watch);
    let changes = report.changes.into_iter();
    let taken = changes.map(|change| change.path.into_bytes());
    Ok((taken.collect(), report.problems.is_empty()))
}

fn failure(what: &str) -> Failure {
    let message = format!("there is no staging area: {what}");
    Failure::new("no-staging-area", EXIT_USAGE, message)
}
