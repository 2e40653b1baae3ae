//! `dmv du`

use crate::context::Context;
use crate::failure::{EXIT_OK, Failure};
use crate::format::json::PathValue;
use crate::format::text::{bytes, count};
use crate::limit::LimitArgs;
use crate::partial::held_paths;
use crate::places::place_or_path;
use dmv_core::object::name::escape;
use dmv_core::repo::LackOf;
use dmv_core::subset::Union;
use serde::Serialize;
use std::ffi::OsString;
use std::io::Write;

/// Show the size of a directory or file: in total, without duplicates, and as stored
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv du\n  dmv du media\n  dmv du v1.0:media\n  dmv du --subset media/scene4 '*.edl'"
)]
pub struct Args {
    /// The commit, a directory or file in it, or a path in @ (default: where you are)
    #[arg(value_name = "REV[:PATH]|PATH")]
    place: Option<OsString>,
    #[command(flatten)]
    limit: LimitArgs,
}

#[derive(Serialize)]
struct Document {
    #[serde(flatten)]
    path: PathValue,
    bytes: u64,
    unique_bytes: u64,
    stored_bytes: u64,
    files: u64,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let place = place_or_path(context, &repo, args.place.as_deref(), false)?;
    let held = if args.limit.is_given() {
        Union::default()
    } else {
        held_paths(context, &repo, &place.commit, LackOf::Lists)?
    };
    let subset = args
        .limit
        .read_for(context, &repo, place.commit.tree, held)?;
    let watch = context.watch("adding up sizes");
    let sum = repo.disk_use(place.wanted(&subset), &context.job)?;
    drop(watch);
    if context.globals.json {
        context.ui.json(&Document {
            path: PathValue::new(place.path.as_bytes()),
            bytes: sum.bytes,
            unique_bytes: sum.unique_bytes,
            stored_bytes: sum.stored_bytes,
            files: sum.files,
        })?;
        return Ok(EXIT_OK);
    }
    let path = if place.path.is_root() {
        ".".to_owned()
    } else {
        escape(place.path.as_bytes()).to_string()
    };
    writeln!(
        context.ui.out(),
        "{path}: {} in {}; {} without duplicates, about {} stored",
        bytes(sum.bytes),
        count(sum.files, "file", "files"),
        bytes(sum.unique_bytes),
        bytes(sum.stored_bytes),
    )?;
    Ok(EXIT_OK)
}
