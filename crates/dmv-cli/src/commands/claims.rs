//! `dmv claims`

use crate::context::now;
use crate::date::ago;
use crate::ownership::path_argument;
use crate::peers::remotes;
use crate::prelude::*;
use crate::print::claims::{ClaimLine, follow};
use crate::print::claims_told::{print_untold, tell_remotes};
use dmv_core::repo::ClaimInfo;
use dmv_core::worktree::select::is_under;

/// List who has claimed which files and directories
///
/// A claim is held where a remote has arbitrated it, or only noted. It is retained once a commit of the user
/// who claims changes the path, and landed once the main branch has that commit, as far as it is known here.
/// It is taken if somebody else has taken the path over. A claim that has landed lasts until its release.
///
/// dmv lists what it has heard: every fetch, push, pull and sync brings news, and --refresh asks all remotes
/// now.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv claims\n  dmv claims --mine\n  dmv claims --refresh shots/010"
)]
pub struct Args {
    /// List only claims on these files and directories, above or below them
    #[arg(value_name = "PATH", add = candidates::path())]
    paths: Vec<OsString>,
    /// List only those of this device
    #[arg(long)]
    mine: bool,
    /// Ask all remotes first
    #[arg(long)]
    refresh: bool,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let paths = context.paths(&repo, &args.paths)?;
    if args.refresh {
        let untold = tell_remotes(context, &repo, remotes(context)?.into_iter());
        print_untold(context, &untold);
    }
    let mut table = repo.claims()?;
    follow(context, &repo, table.claims_mut())?;
    let is_meant = |info: &&ClaimInfo| {
        let at = info.claim.path.as_bytes();
        let overlaps =
            |path: &RepoPath| is_under(at, path.as_bytes()) || is_under(path.as_bytes(), at);
        (info.is_own || !args.mine) && (paths.is_empty() || paths.iter().any(overlaps))
    };
    let contacts = repo.last_contacts()?;
    let claims = table.claims().iter().filter(is_meant);
    let lines: Vec<ClaimLine<'_>> = claims.map(|info| ClaimLine::new(info, &contacts)).collect();
    if context.ui.is_json() {
        for line in &lines {
            context.ui.json(&line.to_json())?;
        }
        return Ok(EXIT_OK);
    }
    let mut out = context.ui.out();
    let states: Vec<String> = lines.iter().map(ClaimLine::state).collect();
    let width = states.iter().map(|state| state.chars().count()).max();
    let width = width.unwrap_or(0);
    for (line, state) in lines.iter().zip(&states) {
        writeln!(out, "  {state:<width$}  {}", line.text())?;
    }
    if lines.is_empty() && !context.ui.quiet() {
        writeln!(out, "no claims")?;
    }
    tell_landed(context, &lines);
    for (remote, when) in contacts {
        let is_named = |line: &ClaimLine<'_>| line.info.held_at.contains(&remote);
        if lines.iter().any(is_named) {
            let (remote, when) = (clean(&remote), ago(when, now().seconds));
            writeln!(out, "as of the last news from {remote}, {when}")?;
        }
    }
    Ok(EXIT_OK)
}

/// Says that own work has landed, so that others need not wait for it.
fn tell_landed(context: &Context, lines: &[ClaimLine<'_>]) {
    let is_mine = |info: &&ClaimInfo| info.is_here && info.word() == "landed";
    let infos = lines.iter().map(|line| line.info);
    let landed: Vec<&ClaimInfo> = infos.filter(is_mine).collect();
    if let Some(first) = landed.first() {
        let number = count(
            landed.len() as u64,
            "of your claims has",
            "of your claims have",
        );
        let release = hint!("dmv release {}", path_argument(first.claim.path.as_bytes()));
        context
            .ui
            .note(format_args!("note: {number} landed: {release}"));
    }
}
