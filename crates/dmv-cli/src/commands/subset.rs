//! `dmv subset`

use crate::prelude::*;
use crate::print::checkout::print_checkout;
use crate::subset_options::{bad, of, read_file};
use dmv_core::platform::bytes_of;
use dmv_core::subset::Subset;

/// Choose which paths are in the worktree
///
/// Files outside of the subset stay unchanged in every commit. Without a command, prints the patterns.
///
/// A pattern is a path from the root of the repository and includes all files below it. Wildcards work as
/// in ignore files, and a leading ! excludes paths. The last pattern that matches a path decides.
///
/// dmv writes the files that enter the subset and removes those that leave it. Untracked files stay. If
/// a file that leaves has uncommitted changes, dmv refuses and changes nothing.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv subset\n  dmv subset add media/scene5\n  \
                  dmv subset remove media/scene5/raw\n  dmv subset set 'titles/*.png' notes.txt\n  \
                  dmv subset clear"
)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Print the patterns, one per line (the default)
    Show,
    /// Add these paths to the subset
    Add {
        /// Paths or patterns
        #[arg(value_name = "PATTERN", required = true, add = candidates::pattern())]
        patterns: Vec<OsString>,
    },
    /// Remove these paths from the subset
    Remove {
        /// Paths or patterns
        #[arg(value_name = "PATTERN", required = true, add = candidates::pattern())]
        patterns: Vec<OsString>,
    },
    /// Limit the worktree to these paths
    Set {
        /// Paths or patterns
        #[arg(value_name = "PATTERN", required_unless_present = "subset_file", add = candidates::pattern())]
        patterns: Vec<OsString>,
        /// Read the patterns from FILE, or from REV:PATH
        #[arg(long, value_name = "FILE", conflicts_with = "patterns")]
        subset_file: Option<OsString>,
    },
    /// Remove the limit: write all files
    Clear,
}

/// Says that a pattern changes nothing, and why.
fn tell_same(context: &Context, why: &str, pattern: &OsString) {
    let pattern = shown(bytes_of(pattern));
    context.ui.warn(format_args!("{why} '{pattern}'"));
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let mut subset = repo.subset()?;
    match args.action.as_ref().unwrap_or(&Action::Show) {
        Action::Show => return show(context, &subset),
        Action::Add { patterns } => {
            if subset.is_everything() {
                let text =
                    "the worktree already has all paths; to limit it: dmv subset set PATTERN";
                context.ui.note(format_args!("note: {text}"));
            }
            for pattern in patterns {
                let more = subset.with(bytes_of(pattern)).map_err(bad)?;
                if more == subset && !subset.is_everything() {
                    tell_same(context, "the subset already includes", pattern);
                }
                subset = more;
            }
        }
        Action::Remove { patterns } => {
            for pattern in patterns {
                let less = subset.without(bytes_of(pattern)).map_err(bad)?;
                if less == subset {
                    tell_same(context, "the subset does not include", pattern);
                }
                subset = less;
            }
        }
        Action::Set {
            patterns,
            subset_file,
        } => {
            subset = match subset_file {
                Some(file) => read_file(context, &repo, file)?,
                None => of(patterns)?,
            };
        }
        Action::Clear => subset = Subset::everything(),
    }
    let (settings, request) = (context.settings()?, context.request()?);
    let report = supplied(context, &repo, "checking out", || {
        repo.set_subset(subset.clone(), &settings, request.clone(), &context.job)
    })?;
    print_checkout(context, &report, false)
}

fn show(context: &Context, subset: &Subset) -> Result<u8, Failure> {
    let document = || object! { subset: patterns(subset) };
    context.ui.show(document, |out| {
        for pattern in subset.patterns() {
            writeln!(out, "{}", shown(pattern))?;
        }
        if subset.is_everything() {
            context.ui.note("the worktree has all paths");
        }
        Ok(())
    })?;
    Ok(EXIT_OK)
}
