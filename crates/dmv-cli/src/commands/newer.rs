//! `dmv newer`

use crate::context::{CommandUse, no_such_path};
use crate::prelude::*;
use crate::print::newer::{self, NewerLine};
use dmv_core::repo::{NewerOptions, PathState};
use dmv_core::worktree::select::{Paths, is_under};

/// List files that have a newer version on another branch
///
/// A file counts if another branch, or a remote's branch as last fetched, has changed it since the last commit
/// that you both have, and your commit does not have this change. dmv compares ids: it reads no content and
/// uses no network. Run 'dmv fetch' first to hear what is new.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv newer\n  dmv newer scenes/rock.psd\n  dmv newer --exit-code scenes"
)]
pub struct Args {
    /// List only these files and directories
    #[arg(value_name = "PATH", add = candidates::path())]
    paths: Vec<OsString>,
    /// Exit with 1 if there is a newer version
    #[arg(long)]
    exit_code: bool,
}

impl Args {
    /// How the command uses the terminal.
    pub fn command_use(&self) -> CommandUse {
        CommandUse::of_look(self.exit_code)
    }
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let paths = context.paths(&repo, &args.paths)?;
    let Some(own) = repo.own_commit()? else {
        return Ok(EXIT_OK);
    };
    let select = Paths::new(&paths);
    let subset = repo.subset()?;
    let options = NewerOptions {
        own,
        select: &select,
        subset: &subset,
        max_commits: usize::MAX,
    };
    let report = repo.newer(&options, &context.job)?;
    for path in &paths {
        let is_below = |at: &RepoPath| is_under(at.as_bytes(), path.as_bytes());
        let is_found = report
            .versions
            .iter()
            .any(|version| is_below(&version.path));
        if !is_found && matches!(repo.path_state(path)?, PathState::Unknown) {
            return Err(no_such_path(path.as_bytes()));
        }
    }
    let lines = newer::lines(&repo, &report.versions)?;
    if context.ui.is_json() {
        for line in &lines {
            context.ui.json(&line.to_json())?;
        }
    } else {
        print(context, &repo, &lines)?;
    }
    for place in &report.unknown {
        context.ui.warn(format_args!(
            "too little history is here to compare your commit with {}",
            clean(&place.to_string())
        ));
    }
    Ok(match (report.unknown.is_empty(), lines.is_empty()) {
        (false, _) => EXIT_INCOMPLETE,
        (true, false) if args.exit_code => EXIT_DIFFERS,
        _ => EXIT_OK,
    })
}

fn print(context: &Context, repo: &Repo, lines: &[NewerLine<'_>]) -> Result<(), Failure> {
    let mut out = context.ui.out();
    for line in lines {
        let word = line.version.kind.word();
        writeln!(out, "  {word:<8}  {}", line.text())?;
    }
    if lines.is_empty() {
        if !context.ui.quiet() {
            writeln!(out, "no newer versions")?;
        }
        return Ok(());
    }
    for contact in newer::contacts(repo, lines)? {
        writeln!(out, "{contact}")?;
    }
    if let Some(place) = newer::only_place(lines, &repo.head()?) {
        writeln!(
            out,
            "to combine them with yours: {}",
            hint!("dmv merge {}", Argument::value(&place))
        )?;
    }
    Ok(())
}
