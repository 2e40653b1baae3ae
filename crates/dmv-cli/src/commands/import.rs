//! `dmv import`

mod copies;
#[cfg(feature = "git")]
mod git;
#[cfg(feature = "git")]
mod news;
#[cfg(feature = "git")]
mod source;

use crate::prelude::*;
use dmv_core::repo::CheckoutOptions;
#[cfg(feature = "git")]
use std::path::PathBuf;

/// Take a history from Git, or from copies that you kept
///
/// With --series, numbered copies of files become versions of one file: rock_v1.psd, rock_v2.psd and so on
/// become rock.psd, with one commit for each copy that has its date. In PATTERN, {N} stands for the number,
/// '*' for a part of a name and '**/' for any directories. Copies that a further PATTERN matches come last.
/// The copies stay where they are.
///
/// With --stream, dmv takes what tools write for 'git fast-import': hg-fast-export, svn-all-fast-export,
/// reposurgeon and others. Git reads the stream into a temporary directory first (TMPDIR).
#[derive(clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Example:\n  dmv import git ~/src/film.git film\n  \
                  dmv import dirs ../film-2024 ../film-2025 ../film\n  \
                  dmv import --series 'shots/*_v{N}.psd' 'shots/*_final.psd' --dry-run"
)]
pub struct Args {
    #[command(subcommand)]
    from: Option<From>,
    #[command(flatten)]
    series: copies::SeriesArgs,
    /// Take the history in a stream of 'git fast-import'; - means standard input
    #[cfg(feature = "git")]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["series", "keep_names"])]
    stream: Option<PathBuf>,
    /// Record the branches as NAME/BRANCH [default: series, or git for a stream]
    #[arg(long, value_name = "NAME", add = candidates::remote())]
    name: Option<String>,
    /// Only report what there is to take, and what becomes a version of what
    #[arg(long)]
    dry_run: bool,
}

impl Args {
    /// Returns whether an option stands before a subcommand that does not have it there. Clap's own setting for
    /// that also refuses the options of every command.
    fn has_own_options(&self) -> bool {
        #[cfg(feature = "git")]
        let has_stream = self.stream.is_some();
        #[cfg(not(feature = "git"))]
        let has_stream = false;
        has_stream || self.dry_run || self.name.is_some() || !self.series.series.is_empty()
    }
}

#[derive(clap::Subcommand)]
enum From {
    #[cfg(feature = "git")]
    Git(git::GitArgs),
    Dirs(copies::DirsArgs),
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    if args.from.is_some() && args.has_own_options() {
        let text = "options of 'git' and 'dirs' stand behind that word";
        return Err(Failure::usage(text).hint("dmv import --help"));
    }
    match &args.from {
        #[cfg(feature = "git")]
        Some(From::Git(args)) => git::run(context, args),
        Some(From::Dirs(args)) => copies::from_dirs(context, args),
        None => from_options(context, args),
    }
}

fn from_options(context: &Context, args: &Args) -> Result<u8, Failure> {
    #[cfg(feature = "git")]
    if let Some(stream) = &args.stream {
        let name = args.name.as_deref().unwrap_or("git");
        return git::from_stream(context, stream, name, args.dry_run);
    }
    if args.series.series.is_empty() {
        return Err(Failure::usage("nothing says what to import").hint("dmv import --help"));
    }
    let name = args.name.as_deref().unwrap_or("series");
    copies::from_series(context, &args.series, name, args.dry_run)
}

/// Returns how the files of a first history are written.
fn check_out(context: &Context) -> Result<CheckoutOptions, Failure> {
    let mut options = CheckoutOptions::new(context.request()?);
    options.settings = context.settings()?;
    Ok(options)
}

/// Says that the history is there, although files are in the way of those of `branch`.
fn not_written(mut failure: Failure, branch: Option<&str>) -> Failure {
    let Some(branch) = branch.filter(|_| failure.exit == EXIT_REFUSED) else {
        return failure;
    };
    let why = failure.message.trim_end_matches("; nothing was changed");
    failure.message = format!("the history is taken, but its files are not written: {why}");
    let branch = Argument::value(branch);
    failure.hint(hint!(
        "dmv checkout {}, once you have moved them away",
        branch
    ))
}
