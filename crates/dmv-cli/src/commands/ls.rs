//! `dmv ls`

use crate::context::Context;
use crate::failure::{EXIT_OK, Failure};
use crate::format::json::PathValue;
use crate::format::text::{SHORT_ID, bytes, kind_word};
use crate::limit::LimitArgs;
use crate::partial::held_paths;
use crate::places::place_or_path;
use crate::supply::supplied;
use anstyle::{AnsiColor, Style};
use dmv_core::object::name::{RepoPath, escape};
use dmv_core::object::tree::{Kind, TreeEntry};
use dmv_core::repo::{LackOf, Listed, Located};
use dmv_core::subset::Union;
use serde::Serialize;
use std::ffi::OsString;
use std::io::Write;
use std::ops::ControlFlow;

/// List the files of a commit
///
/// Prints paths from the root of the repository.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv ls -l media\n  dmv ls -l @~1:media\n  \
                  dmv ls -r v1.0\n  dmv ls -r --subset '*.edl'")]
pub struct Args {
    /// The commit, a directory or file in it, or a path in @ (default: where you are)
    #[arg(value_name = "REV[:PATH]|PATH")]
    place: Option<OsString>,
    /// Show kind, id and size of each entry
    #[arg(short)]
    long: bool,
    /// List all files in subdirectories
    #[arg(short)]
    recursive: bool,
    #[command(flatten)]
    limit: LimitArgs,
}

#[derive(Serialize)]
struct Record {
    #[serde(flatten)]
    path: PathValue,
    kind: &'static str,
    size: u64,
    id: String,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let place = place_or_path(context, &repo, args.place.as_deref(), false)?;
    let Some(tree) = place.located.tree() else {
        if let Located::Entry(entry) = &place.located {
            show(context, args.long, &place.path, entry)?;
        }
        return Ok(EXIT_OK);
    };
    if args.limit.is_given() && !args.recursive {
        return Err(Failure::usage("--subset needs -r").hint("dmv ls -r --subset PATTERN"));
    }
    // Asked for all, what is not here is not brought.
    let is_all = place.path.is_root() && args.recursive && !args.limit.is_given();
    let held = if is_all {
        held_paths(context, &repo, &place.commit, LackOf::Names)?
    } else {
        Union::default()
    };
    let subset = args
        .limit
        .read_for(context, &repo, place.commit.tree, held)?;
    supplied(context, &repo, "reading", || {
        repo.check_names_here(place.wanted(&subset), args.recursive)
    })?;
    let mut failed = None;
    let mut visit = |listed: Listed| {
        Ok(
            match show(context, args.long, &listed.path, &listed.entry) {
                Ok(()) => ControlFlow::Continue(()),
                Err(e) => {
                    failed = Some(e);
                    ControlFlow::Break(())
                }
            },
        )
    };
    if subset.is_everything() {
        repo.list(&place.path, tree, args.recursive, &mut visit)?
    } else {
        repo.list_subset(&place.path, tree, &subset, &mut visit)?
    }
    match failed {
        Some(failure) => Err(failure),
        None => Ok(EXIT_OK),
    }
}

fn show(context: &Context, long: bool, path: &RepoPath, entry: &TreeEntry) -> Result<(), Failure> {
    let ui = &context.ui;
    if context.globals.json {
        return ui.json(&Record {
            path: PathValue::new(path.as_bytes()),
            kind: kind_word(entry.kind),
            size: entry.size,
            id: entry.id.to_string(),
        });
    }
    let name = match entry.kind {
        Kind::Directory => {
            let blue = Style::new().fg_color(Some(AnsiColor::Blue.into()));
            ui.paint(blue, format_args!("{}/", escape(path.as_bytes())))
        }
        _ => escape(path.as_bytes()).to_string(),
    };
    let mut out = ui.out();
    if long {
        let (kind, id) = (kind_word(entry.kind), entry.id.short(SHORT_ID));
        writeln!(out, "{kind:<10} {id} {:>10}  {name}", bytes(entry.size))?;
    } else {
        writeln!(out, "{name}")?;
    }
    Ok(())
}
