//! `dmv release`

use crate::peers::remotes;
use crate::prelude::*;
use crate::print::claims_told::tell_remotes;
use std::collections::BTreeSet;

/// End claims that you have made in this repository
///
/// The remotes that hold them are told at once if they can be reached, or else by the next fetch, push, pull
/// or sync.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv release scenes/rock.psd\n  dmv release --all")]
pub struct Args {
    /// The claimed files and directories, or directories above them
    #[arg(value_name = "PATH", required_unless_present = "all", add = candidates::path())]
    paths: Vec<OsString>,
    /// Release all of your claims in this repository
    #[arg(long, conflicts_with = "paths")]
    all: bool,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let paths = context.repo_paths(&repo, &args.paths)?;
    let table = repo.claims()?;
    let own = table.claims().iter().filter(|info| info.is_here);
    let held_at: BTreeSet<&String> = own.flat_map(|info| &info.held_at).collect();
    let released = repo.release(&paths, &context.request()?)?;
    for at in &released {
        context.ui.show(
            || object! { ..path(at), state: "released" },
            |out| Ok(writeln!(out, "released: {}", escape(at))?),
        )?;
    }
    if released.is_empty() {
        context.ui.note("you have no claims in this repository");
    } else if !context.is_offline()? {
        let told = remotes(context)?.into_iter();
        tell_remotes(
            context,
            &repo,
            told.filter(|remote| held_at.contains(&remote.name)),
        );
    }
    Ok(EXIT_OK)
}
