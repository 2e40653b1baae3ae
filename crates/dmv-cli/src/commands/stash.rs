//! `dmv stash`

use crate::format::json;
use crate::message::given;
use crate::on_demand::bring_rules;
use crate::prelude::*;
use crate::print::changes::{CommitAt, Detail, changes};
use crate::print::checkout::tell_refused;
use crate::print::merge::print_conflicts;
use crate::stash_name::{number, numbered};
use dmv_core::repo::{StashApplyReport, StashAt, StashInfo, StashOptions};
use dmv_core::worktree::select::Paths;

/// Put uncommitted changes aside, and bring them back later
///
/// Without a subcommand, this is 'dmv stash push': it takes all changes that a commit would take, also new
/// files, and the files become as in the last commit. 'dmv stash pop' brings the newest stash back.
///
/// Stashes belong to this repository. Only 'dmv push REMOTE stash' sends one: the remote gets it as a
/// branch stash/ID, and 'dmv stash apply origin/stash/ID' applies it elsewhere.
///
/// 'dmv undo' takes back each of these commands.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv stash\n  dmv stash push -m \"half a grade\" media/scene4\n  dmv stash list\n  dmv stash pop"
)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// What the stash is about
    #[arg(short, long, value_name = "MSG")]
    message: Option<String>,
}

#[derive(clap::Subcommand)]
enum Command {
    Push(PushArgs),
    List(ListArgs),
    Show(ShowArgs),
    Pop(PopArgs),
    Apply(ApplyArgs),
    Drop(DropArgs),
}

/// Put uncommitted changes aside
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv stash push -m \"half a grade\" media/scene4")]
struct PushArgs {
    /// What the stash is about
    #[arg(short, long, value_name = "MSG")]
    message: Option<String>,
    /// Put only the changes in these files and directories aside
    #[arg(value_name = "PATH", add = candidates::path())]
    paths: Vec<OsString>,
}

/// List the stashes, newest first
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv stash list")]
struct ListArgs {}

/// Show the changes of a stash
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv stash show\n  dmv stash show 1 --stat")]
struct ShowArgs {
    /// The stash: stash@{N} or N, where 0 is the newest, or the commit of one (default: 0)
    #[arg(value_name = "STASH", value_parser = named, default_value = "0", hide_default_value = true, add = candidates::stash())]
    stash: StashName,
    /// Show one line per file
    #[arg(long)]
    stat: bool,
}

/// Bring a stash back, and remove it
///
/// dmv merges the changes into the files as they are now. Uncommitted changes stay. If dmv cannot combine
/// both changes to a file, it writes all versions, and the stash stays (exit code 4).
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv stash pop\n  dmv stash pop 1")]
struct PopArgs {
    /// The stash: stash@{N} or N, where 0 is the newest (default: 0)
    #[arg(value_name = "STASH", value_parser = number, default_value = "0", hide_default_value = true, add = candidates::stash())]
    stash: usize,
}

/// Bring a stash back, and keep it
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv stash apply\n  dmv stash apply origin/stash/8be01d33a4c1")]
struct ApplyArgs {
    /// The stash: stash@{N} or N, where 0 is the newest, or the commit of one (default: 0)
    #[arg(value_name = "STASH", value_parser = named, default_value = "0", hide_default_value = true, add = candidates::stash())]
    stash: StashName,
}

/// Remove a stash; 'dmv undo' brings it back
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv stash drop 1")]
struct DropArgs {
    /// The stash: stash@{N} or N, where 0 is the newest (default: 0)
    #[arg(value_name = "STASH", value_parser = number, default_value = "0", hide_default_value = true, add = candidates::stash())]
    stash: usize,
}

/// A stash, as a user names it.
#[derive(Clone)]
enum StashName {
    Number(usize),
    /// A revision: a stash that another repository has sent.
    Revision(String),
}

impl StashName {
    fn at(&self, repo: &Repo) -> Result<StashAt, Failure> {
        Ok(match self {
            StashName::Number(n) => StashAt::Number(*n),
            StashName::Revision(revision) => StashAt::Commit(repo.resolve(revision)?),
        })
    }
}

/// Digits in the greatest number of a stash. A longer one is the beginning of an id.
const MAX_DIGITS: usize = 5;

fn named(text: &str) -> Result<StashName, String> {
    let is_number = text.len() <= MAX_DIGITS && text.bytes().all(|b| b.is_ascii_digit());
    if is_number || text.starts_with("stash@") {
        number(text).map(StashName::Number)
    } else {
        Ok(StashName::Revision(text.to_owned()))
    }
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    if args.command.is_some() && args.message.is_some() {
        return Err(Failure::usage("-m stands behind 'push'").hint("dmv stash push -m MESSAGE"));
    }
    let repo = context.repo()?;
    match &args.command {
        None => push(context, &repo, args.message.as_deref(), &[]),
        Some(Command::Push(args)) => push(context, &repo, args.message.as_deref(), &args.paths),
        Some(Command::List(_)) => list(context, &repo),
        Some(Command::Show(args)) => show(context, &repo, args),
        Some(Command::Pop(args)) => apply(context, &repo, &StashName::Number(args.stash), true),
        Some(Command::Apply(args)) => apply(context, &repo, &args.stash, false),
        Some(Command::Drop(args)) => {
            let stash = repo.stash_drop(args.stash, context.request()?)?;
            let document = || stash_value(&stash, None);
            context.ui.report(document, |out| {
                let message = clean(&stash.message);
                writeln!(out, "dropped stash@{{{}}}: {message}", args.stash)?;
                context.ui.note("to bring it back: dmv undo");
                Ok(())
            })?;
            Ok(EXIT_OK)
        }
    }
}

fn options(context: &Context) -> Result<StashOptions, Failure> {
    Ok(StashOptions {
        committer: context.who()?,
        settings: context.settings()?,
        request: context.request()?,
    })
}

fn push(
    context: &Context,
    repo: &Repo,
    message: Option<&str>,
    paths: &[OsString],
) -> Result<u8, Failure> {
    let message = message.map(given).transpose()?;
    let paths = context.paths(repo, paths)?;
    context.check_paths(repo, &paths)?;
    bring_rules(context, repo)?;
    let select = Paths::new(paths);
    let options = options(context)?;
    let done = supplied(context, repo, "stashing", || {
        repo.stash_push(&select, message.as_deref(), &options, &context.job)
    })?;
    let document = || {
        object! {
            done.{changed, files},
            problems: done.problems,
            done.{removed},
            stash: done.stash.as_ref().map(|stash| stash_value(stash, Some(0))),
        }
    };
    context.ui.report(document, |out| {
        let Some(stash) = &done.stash else {
            return Ok(writeln!(out, "no changes to stash")?);
        };
        let files = count(done.changed, "file", "files");
        writeln!(out, "stashed {}: {files} put aside", clean(&stash.message))?;
        context.ui.note("to bring it back: dmv stash pop");
        Ok(())
    })?;
    match &done.stash {
        Some(_) => tell_refused(context, None, &done.problems),
        // Nothing was done, so there is nothing to undo.
        None => context.ui.warn_of("not stashed: ", &done.problems),
    }
    Ok(exit_for(&done.problems))
}

/// A stash in JSON, with its present number.
fn stash_value(stash: &StashInfo, number: Option<usize>) -> Json {
    object! { stash.{commit, message}, number: number, time: rfc3339(stash.seconds, 0, 0) }
}

fn list(context: &Context, repo: &Repo) -> Result<u8, Failure> {
    for (n, stash) in repo.stashes()?.iter().enumerate() {
        context.ui.show(
            || stash_value(stash, Some(n)),
            |out| {
                Ok(writeln!(
                    out,
                    "stash@{{{n}}}: {}",
                    clean(subject(&stash.message))
                )?)
            },
        )?;
    }
    Ok(EXIT_OK)
}

fn show(context: &Context, repo: &Repo, args: &ShowArgs) -> Result<u8, Failure> {
    let id = match args.stash.at(repo)? {
        StashAt::Commit(id) => id,
        StashAt::Number(n) => numbered(repo, n)?.commit,
    };
    let commit = repo.read_commit(&id)?;
    let shown = CommitAt {
        id: &id,
        commit: &commit,
    };
    let detail = if args.stat {
        Detail::Stat
    } else {
        Detail::Full
    };
    let changes = changes(context, repo, shown, &Paths::default(), detail)?;
    if context.ui.is_json() {
        let mut document = json::commit(&id, &commit);
        document.add("changes", changes);
        context.ui.json(&document)?;
    }
    Ok(EXIT_OK)
}

fn apply(context: &Context, repo: &Repo, stash: &StashName, drops: bool) -> Result<u8, Failure> {
    let (options, at) = (options(context)?, stash.at(repo)?);
    let done = supplied(context, repo, "unstashing", || {
        repo.stash_apply(at, drops, &options, &context.job)
    })?;
    let number = match stash {
        StashName::Number(n) => Some(*n),
        StashName::Revision(_) => None,
    };
    context.ui.report(
        || applied_value(&done, number),
        |out| print_applied(context, out, &done),
    )?;
    tell_refused(context, None, &done.refused);
    if !done.outside.is_empty() {
        let n = done.outside.len() as u64;
        let (files, were) = (
            count(n, "change", "changes"),
            if n == 1 { "was" } else { "were" },
        );
        context.ui.warn(format_args!(
            "{files} outside this worktree's subset {were} not applied, such as {}",
            escape(&done.outside[0])
        ));
    }
    if let (true, false, Some(n)) = (drops, done.dropped, number) {
        context.ui.note(hint!(
            "the stash is kept; to remove it: dmv stash drop {}",
            n
        ));
    }
    Ok(
        match (
            done.conflicts.is_empty(),
            done.outside.len() + done.refused.len(),
        ) {
            (false, _) => EXIT_CONFLICTS,
            (true, 0) => EXIT_OK,
            (true, _) => EXIT_INCOMPLETE,
        },
    )
}

fn print_applied(
    context: &Context,
    out: &mut impl Write,
    done: &StashApplyReport,
) -> Result<(), Failure> {
    let word = if done.dropped { "popped" } else { "applied" };
    let id = done.stash.commit.short(SHORT_ID);
    writeln!(out, "{word} {id} {}", clean(&done.stash.message))?;
    for moved in &done.moves {
        writeln!(out, "  followed the rename {} -> {}", moved.from, moved.to)?;
    }
    writeln!(out, "{}", written(done.files, done.bytes, done.removed))?;
    print_conflicts(context, out, &done.conflicts)?;
    if !done.conflicts.is_empty() {
        context.ui.note(
            "hint: dmv resolve PATH --ours (or --theirs, --both, --base), or edit the files; \
             the versions that could not be combined are in them or beside them",
        );
    }
    Ok(())
}

fn applied_value(done: &StashApplyReport, number: Option<usize>) -> Json {
    let value = object! {
        done.{bytes, conflicts, dropped, files},
        outside: paths(&done.outside),
        problems: done.refused,
        done.{removed},
        stash: stash_value(&done.stash, number),
    };
    value.sorted()
}
