//! `dmv log`

mod print;

use crate::format::text::raw_person;
use crate::mirror::tell_behind;
use crate::prelude::*;
use crate::print::changes::Detail;
use crate::revisions;
use crate::revisions::RevisionsAndPaths;
use crate::signers;
use dmv_core::history::paths::{FindFormerPath, PathLog};
use dmv_core::object::commit::Commit;
use dmv_core::repo::PathState;
use print::Printer;
use std::cell::RefCell;

/// List commits, newest first
///
/// A..B lists the commits that B has and A does not have. With PATH, lists only commits that changed
/// these paths. If a merge took one side unchanged, dmv follows only that side. A word that is a revision
/// is no path: 'dmv log -- PATH' names a path that has the name of a branch.
///
/// Dates compare with the time of the commit. Examples: 2026-11-21, '2026-11-21 15:04',
/// 2026-11-21T15:04:05+01:00, today, yesterday, '2 weeks ago'.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv log -5\n  dmv log --graph --oneline\n  \
                  dmv log main --stat media/scene4\n  dmv log main..regrade\n  \
                  dmv log --since '2 weeks ago' --author ada\n  dmv log --follow media/film.mov")]
pub struct Args {
    /// Start at this commit (default: @)
    #[arg(value_name = "REV|A..B|PATH", allow_negative_numbers = true, add = candidates::revision_or_path())]
    words: Vec<OsString>,
    /// List at most N commits; -5 means the same as -n 5
    #[arg(short = 'n', long = "max-count", value_name = "N")]
    max_count: Option<u64>,
    /// Draw the commits as a graph
    #[arg(long)]
    graph: bool,
    /// Follow one file across renames
    #[arg(long)]
    follow: bool,
    /// List only commits with TEXT in the author's name or email address
    #[arg(long, value_name = "TEXT")]
    author: Option<String>,
    /// List only commits with TEXT in the message
    #[arg(long, value_name = "TEXT")]
    grep: Option<String>,
    /// List only commits made at DATE or later
    #[arg(long, value_name = "DATE", alias = "after", value_parser = crate::date::since)]
    since: Option<i64>,
    /// List only commits made at DATE or earlier; a day counts up to its end
    #[arg(long, value_name = "DATE", alias = "before", value_parser = crate::date::until)]
    until: Option<i64>,
    /// Leave out merge commits
    #[arg(long)]
    no_merges: bool,
    /// Show one line per commit
    #[arg(long, conflicts_with_all = ["stat", "patch"])]
    oneline: bool,
    /// Show the files that each commit changed, except for merges
    #[arg(long, conflicts_with_all = ["graph", "patch"])]
    stat: bool,
    /// Show the changes of each commit as a diff, except for merges
    #[arg(short, long, conflicts_with = "graph")]
    patch: bool,
    /// Show who has signed each commit
    #[arg(long)]
    signatures: bool,
    /// Show the ids that commits have in Git
    #[cfg(feature = "git")]
    #[arg(long)]
    git: bool,
    /// List only commits that changed these files or directories
    #[arg(last = true, value_name = "PATH", add = candidates::path())]
    paths: Vec<OsString>,
}

impl Args {
    /// The words that are no limit, such as -5.
    fn words(&self) -> Vec<&OsString> {
        let words = self.words.iter();
        words.filter(|word| limit_of(word).is_none()).collect()
    }

    /// The most commits to list.
    fn limit(&self) -> Option<u64> {
        let last = self
            .words
            .iter()
            .filter_map(|word| limit_of(word))
            .next_back();
        self.max_count.or(last)
    }

    /// The most commits to list of a walk that begins at `start`.
    fn left(&self, start: ObjectId, hidden: &[ObjectId]) -> u64 {
        if hidden.contains(&start) {
            0
        } else {
            self.limit().unwrap_or(u64::MAX)
        }
    }

    fn wants(&self, commit: &Commit) -> bool {
        let made = commit.committer.seconds;
        let contains = |text: &Option<String>, whole: &str| {
            text.as_ref()
                .is_none_or(|text| whole.contains(text.as_str()))
        };
        self.since.is_none_or(|since| made >= since)
            && self.until.is_none_or(|until| made <= until)
            && !(self.no_merges && commit.parents.len() > 1)
            && contains(&self.author, &raw_person(&commit.author))
            && contains(&self.grep, &commit.message)
    }

    fn detail(&self) -> Option<Detail> {
        match (self.stat, self.patch) {
            (true, _) => Some(Detail::Stat),
            (_, true) => Some(Detail::Full),
            _ => None,
        }
    }
}

/// The number in `-5`.
fn limit_of(word: &OsStr) -> Option<u64> {
    word.to_str()?.strip_prefix('-')?.parse().ok()
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let RevisionsAndPaths { revisions, paths } =
        revisions::sort(context, &repo, &args.words(), 1, &args.paths)?;
    if revisions.is_empty() {
        tell_behind(context, &repo, "@");
    }
    let Some((start, hidden)) = start(context, &repo, revisions.first())? else {
        context.ui.note("no commits yet");
        return Ok(EXIT_OK);
    };
    let paths = context.paths(&repo, &paths)?;
    if args.follow && paths.len() != 1 {
        return Err(Failure::usage("--follow needs exactly one file"));
    }
    // A file that is followed has several names.
    let followed = RefCell::new(paths.clone());
    let known_signers = if args.signatures {
        Some(signers::known_signers(context)?)
    } else {
        None
    };
    let mut printer = Printer::new(context, args, &repo)?;
    if let Some(known_signers) = &known_signers {
        printer.signatures = Some(repo.signature_checker(known_signers)?);
    }
    let changed = repo.changed_paths(&paths);
    let mut log = PathLog::new(repo.objects(), &changed, &[start], &paths)?;
    let mut moved = |parent: &ObjectId, child: &ObjectId, path: &RepoPath| {
        let before = repo.path_before(parent, child, path, &context.job)?;
        followed.borrow_mut().extend(before.clone());
        Ok(before)
    };
    let walk = Walk {
        log: &mut log,
        left: args.left(start, &hidden),
        hidden,
        followed: &followed,
        moved: if args.follow { Some(&mut moved) } else { None },
    };
    let left = list(args, walk, &mut printer)?;
    if !log.boundary().is_empty() && left > 0 {
        let text = "note: older commits are absent from this repository; to fetch them: dmv fetch --all-history";
        context.ui.note(text);
    }
    if printer.printed == 0 && !tell_unknown(context, &repo, start, &paths)? {
        context.ui.note("no matching commits");
    }
    Ok(EXIT_OK)
}

/// The commits to list.
struct Walk<'w, 'r> {
    log: &'w mut PathLog<'r>,
    /// Commits at which to stop.
    hidden: Vec<ObjectId>,
    /// The most commits to print.
    left: u64,
    /// The paths that are followed, under all names that they have had so far.
    followed: &'w RefCell<Vec<RepoPath>>,
    /// Finds the former path of a file.
    moved: Option<&'w mut FindFormerPath<'w, RepoError>>,
}

/// Prints the commits that are wanted. Returns how many more might have been printed.
fn list(args: &Args, walk: Walk<'_, '_>, printer: &mut Printer<'_>) -> Result<u64, Failure> {
    let (log, mut left, mut moved) = (walk.log, walk.left, walk.moved);
    log.hide(walk.hidden);
    while left > 0 {
        let moved: Option<&mut FindFormerPath<'_, RepoError>> = match &mut moved {
            Some(moved) => Some(&mut **moved),
            None => None,
        };
        let Some(visited) = log.advance(moved)? else {
            break;
        };
        if visited.shown && args.wants(&visited.commit) {
            left -= 1;
            printer.print(&visited, &walk.followed.borrow())?;
        } else {
            printer.pass(&visited)?;
        }
    }
    Ok(left)
}

/// Says which of these paths no commit has. Called where no commit was listed.
fn tell_unknown(
    context: &Context,
    repo: &Repo,
    start: ObjectId,
    paths: &[RepoPath],
) -> Result<bool, Failure> {
    let mut told = false;
    let changed = repo.changed_paths(paths);
    for path in paths {
        let one = std::slice::from_ref(path);
        let mut log = PathLog::new(repo.objects(), &changed, &[start], one)?;
        let mut is_known = repo.locate("", &repo.read_commit(&start)?, path).is_ok();
        while !is_known && let Some(visited) = log.advance::<RepoError>(None)? {
            is_known = visited.shown;
        }
        // Older commits may have it.
        if is_known || !log.boundary().is_empty() {
            continue;
        }
        told = true;
        let shown = escape(path.as_bytes());
        let here = repo.worktree_root().is_some() && repo.path_state(path)? == PathState::Known;
        context.ui.note(if here {
            format!("no commit has '{shown}': it is only in the worktree")
        } else {
            format!("no commit has '{shown}'")
        });
    }
    Ok(told)
}

/// The commit to begin with, and commits at which to stop.
fn start(
    context: &Context,
    repo: &Repo,
    revision: Option<&String>,
) -> Result<Option<(ObjectId, Vec<ObjectId>)>, Failure> {
    let Some(revision) = revision else {
        return Ok(repo.head_commit()?.map(|id| (id, Vec::new())));
    };
    let Some((old, new)) = context.range(repo, "log", revision)? else {
        let id = context.revision(repo, "log", revision)?;
        return Ok(Some((id, Vec::new())));
    };
    let hidden = repo.end_of_range(old, new)?;
    Ok(Some((new, hidden)))
}
