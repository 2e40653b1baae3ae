//! `dmv init`

use crate::config::DEFAULT_BRANCH;
use crate::peers::refuse_address;
use crate::prelude::*;
use std::path::PathBuf;

/// Create an empty repository
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv init film\n  dmv init --bare /srv/film.dmv")]
pub struct Args {
    /// The directory; dmv creates it if it does not exist
    #[arg(default_value = ".", value_name = "DIR")]
    dir: PathBuf,
    /// The name of the first branch [default: the setting init.branch, or main]
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
    /// Create no worktree: DIR itself becomes the repository
    #[arg(long)]
    bare: bool,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    refuse_address(&args.dir)?;
    let branch = match &args.branch {
        Some(branch) => branch.clone(),
        None => context
            .config()?
            .value("init.branch")?
            .unwrap_or_else(|| DEFAULT_BRANCH.to_owned()),
    };
    let repo = Repo::init(&args.dir, &branch, args.bare, context.request()?)?;
    // Of a clone that was cut off before it had made anything.
    repo.end_clone();
    let path = repo.dmv_dir();
    context.ui.report(
        || object! { bare: args.bare, branch: branch, id: repo.id().to_string(), path: path },
        |out| {
            let text = format!("new repository at {}, on branch {branch}", path.display());
            Ok(writeln!(out, "{}", clean(&text))?)
        },
    )?;
    Ok(EXIT_OK)
}
