//! `dmv cat`

use crate::config::size_option;
use crate::format::json;
use crate::partial_repository::lacks;
use crate::path_arguments::{PlaceIn, next_place};
use crate::prelude::*;
use dmv_core::merge::entry_of;
use dmv_core::object::tree::{Kind, TreeEntry, TreeIter};
use dmv_core::repo::{Location, LookError, blob_of};
use dmv_core::worktree::join;
use std::io;
use std::ops::Range;

/// How many entries of a directory are looked at for `--ahead`.
const MAX_AHEAD: usize = 4096;

/// Print files from commits
///
/// Prints several files one after the other, with nothing in between.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv cat notes.txt\n  dmv cat @~1:notes.txt\n  \
                  dmv cat v1.0:media/clip.mov --range 0-4096 > head\n  \
                  dmv cat @:shots/s4.exr --side theirs > theirs.exr"
)]
pub struct Args {
    /// The files: a path in @, or a commit and the path from its root
    #[arg(value_name = "[REV:]PATH", required = true, add = candidates::place_or_path())]
    place: Vec<OsString>,
    /// Print only the bytes from A up to, but not including, B; without B, up to the end
    #[arg(long, value_name = "A-B", value_parser = range)]
    range: Option<Range<u64>>,
    /// Print this version of a conflict: ours, theirs or base (side2, base2, ... if it has more)
    #[arg(long, value_name = "NAME")]
    side: Option<String>,
    /// Also print other files of the last one's directory that are here, as many as fit into SIZE; first those that
    /// follow it
    #[arg(long, value_name = "SIZE", value_parser = size_option, conflicts_with = "side")]
    ahead: Option<u64>,
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let wrong = || "write a range as two byte positions, such as 0-4096".to_owned();
    let (from, to) = text.split_once('-').ok_or_else(wrong)?;
    let number = |text: &str, absent| match text {
        "" => Ok(absent),
        text => text.parse::<u64>().map_err(|_| wrong()),
    };
    let range = number(from, 0)?..number(to, u64::MAX)?;
    if range.start > range.end {
        return Err(wrong());
    }
    Ok(range)
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let mut printed: Option<(PlaceIn, bool)> = None;
    for arg in &args.place {
        let place = next_place(
            context,
            &repo,
            printed.as_ref().map(|(place, _)| place),
            arg,
        )?;
        let entry = entry_at(&repo, &place, args.side.as_deref())?;
        let bytes = print(context, &repo, &place.path, &entry, args.range.clone())?;
        if args.place.len() > 1 || args.ahead.is_some() {
            tell(context, &place.path, bytes)?;
        }
        printed = Some((place, bytes == entry.size));
    }
    if let (Some(most), Some((place, true))) = (args.ahead, printed) {
        print_others(context, &repo, &place, most)?;
    }
    Ok(EXIT_OK)
}

/// Returns the file at a place, or what a conflict there has on one side.
fn entry_at(repo: &Repo, place: &PlaceIn, side: Option<&str>) -> Result<TreeEntry, Failure> {
    let wrong = |what| {
        let path = place.path.clone();
        Failure::from(RepoError::Look(LookError::WrongKind { path, what }))
    };
    let entry = match &place.located {
        Location::Root { .. } => return Err(wrong("a directory")),
        Location::Entry(entry) => entry,
    };
    let entry = match (entry.kind, side) {
        (Kind::Conflict, Some(side)) => version(repo, &place.path, entry, side)?,
        (Kind::Conflict, None) => return Err(which_side(place, entry, repo)?),
        (_, Some(_)) => return Err(wrong("not a conflict")),
        (_, None) => entry.clone(),
    };
    match entry.kind {
        Kind::Directory => Err(wrong("a directory")),
        _ => Ok(entry),
    }
}

/// Prints the bytes in `range` of a file, and returns how many these are.
fn print(
    context: &Context,
    repo: &Repo,
    path: &RepoPath,
    entry: &TreeEntry,
    range: Option<Range<u64>>,
) -> Result<u64, Failure> {
    let range = range.unwrap_or(0..entry.size);
    let range = range.start.min(entry.size)..range.end.min(entry.size);
    if entry.kind == Kind::Symlink {
        let target = supplied(context, repo, "reading", || repo.link_target(entry))?;
        let bytes = &target[range.start as usize..range.end as usize];
        context.ui.out().write_all(bytes)?;
        return Ok(bytes.len() as u64);
    }
    let blob = blob_of(entry);
    supplied(context, repo, "reading", || {
        repo.check_range_here(path, blob, range.clone())
    })?;
    match repo.cat(blob, Some(range), &mut StoppableOutput(context)) {
        Err(_) if context.job.is_cancelled() => Err(RepoError::Cancelled.into()),
        done => Ok(done?),
    }
}

/// The output of a command, up to the moment when its job is stopped: a file may be of any length.
struct StoppableOutput<'c>(&'c Context);

impl Write for StoppableOutput<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.job.is_cancelled() {
            return Err(io::Error::other("stopped"));
        }
        self.0.ui.out().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.ui.out().flush()
    }
}

/// Tells a program which part of the output a file is.
fn tell(context: &Context, path: &RepoPath, bytes: u64) -> Result<(), Failure> {
    if context.is_request() {
        let at = json::path(path);
        context.ui.json(&object! { ..at, bytes: bytes })?;
    }
    Ok(())
}

/// Prints the other files of a directory, as far as they are here and fit into `most` bytes. They begin behind this one.
fn print_others(context: &Context, repo: &Repo, after: &PlaceIn, most: u64) -> Result<(), Failure> {
    let (Some(dir), Some(name)) = (after.path.parent(), after.path.file_name()) else {
        return Ok(());
    };
    let located = repo.locate(&after.revision, &after.commit, &dir)?;
    let Some(tree) = located.tree() else {
        return Ok(());
    };
    let mut left = most;
    let following = TreeIter::starting_at(repo.objects(), tree, name).skip(1);
    let is_before = |entry: &Result<TreeEntry, _>| {
        (entry.as_ref()).map_or(true, |entry| entry.name.as_bytes() < name)
    };
    let before = TreeIter::new(repo.objects(), tree).take_while(is_before);
    for entry in following.chain(before).take(MAX_AHEAD) {
        let entry = entry.map_err(RepoError::from)?;
        let is_file = matches!(entry.kind, Kind::File | Kind::Executable);
        if is_file && entry.size <= left && !(repo.is_partial() && lacks(repo, &entry)) {
            let path = Repo::parse_path(&join(dir.as_bytes(), entry.name.as_bytes()))?;
            left -= print(context, repo, &path, &entry, None)?;
            tell(context, &path, entry.size)?;
        }
    }
    Ok(())
}

/// What a conflict has on one side.
fn version(
    repo: &Repo,
    path: &RepoPath,
    entry: &TreeEntry,
    side: &str,
) -> Result<TreeEntry, Failure> {
    let mut versions = repo.conflict_of(path, entry)?.versions().into_iter();
    let found = versions.find(|(name, _)| name == side);
    match found {
        Some((_, Some(term))) => Ok(entry_of(&entry.name, &term, None)),
        Some((_, None)) => {
            let message = format!("the version '{side}' of the conflict at '{path}' has no file");
            Err(Failure::new("no-such-path", EXIT_OTHER, message).hint("dmv conflicts"))
        }
        None => {
            let message = format!("the conflict at '{path}' has no version '{side}'");
            Err(Failure::usage(message).hint("dmv conflicts"))
        }
    }
}

/// A conflict is several files: names one that is there.
fn which_side(place: &PlaceIn, entry: &TreeEntry, repo: &Repo) -> Result<Failure, Failure> {
    let path = place.path.clone();
    let what = "an unresolved conflict";
    let failure = Failure::from(RepoError::Look(LookError::WrongKind { path, what }));
    let versions = repo.conflict_of(&place.path, entry)?.versions();
    let there = versions.into_iter().find(|(_, term)| term.is_some());
    Ok(match there {
        Some((side, _)) => {
            let place = Argument::place(&place.revision, place.path.as_bytes());
            failure.hint(hint!("dmv cat {} --side {}", place, Argument::value(side)))
        }
        None => failure,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_half_open_and_may_lack_an_end() {
        assert_eq!(range("3-10"), Ok(3..10));
        assert_eq!(range("3-"), Ok(3..u64::MAX));
        assert_eq!(range("-10"), Ok(0..10));
        assert_eq!(range("5-5"), Ok(5..5));
        for wrong in ["", "5", "6-5", "a-b", "1-2-3", "-1-2"] {
            assert!(range(wrong).is_err(), "{wrong}");
        }
    }
}
