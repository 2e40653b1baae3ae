//! `dmv branch`

use crate::prelude::*;
use crate::print::refs;
use dmv_core::repo::{RefInfo, RefKind};

/// List, create, rename or delete branches
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv branch\n  dmv branch regrade @~3\n  dmv branch -d regrade\n  \
                  dmv branch -m draft final\n  dmv branch -a"
)]
pub struct Args {
    /// Create the branch NAME
    #[arg(value_name = "NAME", conflicts_with_all = ["list", "all", "remotes"])]
    name: Option<String>,
    /// List remote branches, too
    #[arg(short, long)]
    all: bool,
    /// List only remote branches
    #[arg(short, long)]
    remotes: bool,
    /// List only branches whose names match PATTERN
    #[arg(short, long, value_name = "PATTERN", num_args = 0..=1, default_missing_value = "**", hide = true)]
    list: Option<String>,
    /// Start the branch at this commit (default: @)
    #[arg(value_name = "REV", requires = "name", add = candidates::revision())]
    revision: Option<String>,
    /// Delete the branch NAME; its commits stay, and 'dmv undo' restores it
    #[arg(short, long, value_name = "NAME", conflicts_with_all = ["name", "rename"], add = candidates::branch())]
    delete: Option<String>,
    /// Rename the branch OLD to NEW
    #[arg(
        short = 'm',
        long = "move",
        num_args = 2,
        value_names = ["OLD", "NEW"],
        conflicts_with = "name",
        add = candidates::branch()
    )]
    rename: Option<Vec<String>>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let kind = RefKind::Branch;
    if let Some([old, new]) = args.rename.as_deref() {
        repo.rename_branch(old, new, context.request()?)?;
        let all = repo.list_refs(kind)?;
        if let Some(info) = all.iter().find(|info| info.name == *new) {
            refs::print_ref(context, info, &format!("renamed branch {old} to {new}"))?;
        }
    } else if let Some(name) = &args.delete {
        refs::delete(context, &repo, kind, name)?;
    } else if let Some(name) = &args.name {
        refs::create(context, &repo, kind, name, args.revision.as_deref())?;
    } else {
        let pattern = args.list.as_deref();
        if !args.remotes {
            refs::list(
                context,
                &repo,
                repo.list_refs(kind)?,
                pattern,
                AnsiColor::Green,
            )?;
        }
        if args.all || args.remotes {
            refs::list(
                context,
                &repo,
                remote_branches(&repo)?,
                pattern,
                AnsiColor::Red,
            )?;
        }
    }
    Ok(EXIT_OK)
}

/// The branches of remotes, as they were when they were last fetched.
fn remote_branches(repo: &Repo) -> Result<Vec<RefInfo>, Failure> {
    let keys = repo
        .refs()
        .with_prefix("remote/")
        .map_err(RepoError::from)?;
    let names = keys
        .iter()
        .filter_map(|(key, _)| key.strip_prefix("remote/"));
    let info = |name: &str| {
        Ok(RefInfo {
            name: name.to_owned(),
            commit: repo.ref_at(&format!("remote/{name}"))?,
            current: false,
        })
    };
    names.map(info).collect()
}
