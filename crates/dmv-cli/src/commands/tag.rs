//! `dmv tag`

use crate::prelude::*;
use crate::print::refs;
use dmv_core::repo::RefKind;

/// List, create or delete tags
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv tag\n  dmv tag v1.0\n  dmv tag -d v1.0")]
pub struct Args {
    /// Create the tag NAME
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The commit to tag (default: @)
    #[arg(value_name = "REV", requires = "name", add = candidates::revision())]
    revision: Option<String>,
    /// Delete the tag NAME
    #[arg(short, long, value_name = "NAME", conflicts_with = "name", add = candidates::tag())]
    delete: Option<String>,
    /// List only tags whose names match PATTERN
    #[arg(short, long, value_name = "PATTERN", num_args = 0..=1, default_missing_value = "**", hide = true, conflicts_with_all = ["name", "delete"])]
    list: Option<String>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let kind = RefKind::Tag;
    match (&args.delete, &args.name) {
        (Some(name), _) => refs::delete(context, &repo, kind, name)?,
        (None, Some(name)) => refs::create(context, &repo, kind, name, args.revision.as_deref())?,
        (None, None) => {
            let tags = repo.list_refs(kind)?;
            refs::list(
                context,
                &repo,
                tags,
                args.list.as_deref(),
                AnsiColor::Yellow,
            )?
        }
    }
    Ok(EXIT_OK)
}
