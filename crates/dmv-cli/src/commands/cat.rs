//! `dmv cat`

use crate::config::size_option;
use crate::format::json;
use crate::partial_repository::lacks;
use crate::path_arguments::{PlaceIn, PlaceReader};
use crate::prelude::*;
use dmv_core::merge::entry_of;
use dmv_core::object::ObjectError;
use dmv_core::object::tree::{Kind, TreeEntry, TreeIter};
use dmv_core::repo::{Location, LookError, blob_of};
use dmv_core::worktree::join;
use std::io;
use std::ops::Range;

/// How many entries of directories are looked at for `--ahead`.
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
    /// With --ahead: print what follows the last one in the order of `dmv ls -r`, also in other directories
    #[arg(long, requires = "ahead")]
    further: bool,
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
    let mut places = PlaceReader::new(context, &repo);
    for (n, arg) in args.place.iter().enumerate() {
        let place = places.next(arg)?;
        let entry = entry_at(&repo, place, args.side.as_deref())?;
        let bytes = print(context, &repo, &place.path, &entry, args.range.clone())?;
        if args.place.len() > 1 || args.ahead.is_some() {
            tell(context, &place.path, bytes)?;
        }
        let is_last = n + 1 == args.place.len();
        if let Some(most) = args.ahead
            && is_last
            && bytes == entry.size
        {
            print_ahead(context, &repo, place, most, args.further)?;
        }
    }
    Ok(EXIT_OK)
}

/// Prints files that follow one, or the others of its directory.
fn print_ahead(
    context: &Context,
    repo: &Repo,
    place: &PlaceIn,
    most: u64,
    further: bool,
) -> Result<(), Failure> {
    let mut printer = AheadPrinter {
        context,
        repo,
        is_partial: repo.is_partial(),
        most,
        left: most,
        looked_at: 0,
    };
    if further {
        printer.print_on(following(repo, place)?)
    } else {
        printer.print_directory(place)
    }
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
    supplied(context, repo, "reading", || {
        repo.check_range_here(path, blob_of(entry), range.clone())
    })?;
    write(context, repo, entry, range)
}

/// Prints bytes of a file that are here.
fn write(
    context: &Context,
    repo: &Repo,
    entry: &TreeEntry,
    range: Range<u64>,
) -> Result<u64, Failure> {
    match repo.cat(blob_of(entry), Some(range), &mut StoppableOutput(context)) {
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

/// The entries of a directory behind one of them.
struct Rest<'r> {
    dir: RepoPath,
    entries: TreeIter<'r>,
}

/// Returns what follows `name` in the directory `dir`.
fn rest<'r>(
    repo: &'r Repo,
    place: &PlaceIn,
    dir: RepoPath,
    name: &[u8],
) -> Result<Option<Rest<'r>>, Failure> {
    let located = repo.locate(&place.revision, &place.commit, &dir)?;
    let Some(tree) = located.tree() else {
        return Ok(None);
    };
    let mut entries = TreeIter::starting_at(repo.objects(), tree, name);
    entries.next().transpose().map_err(RepoError::from)?;
    Ok(Some(Rest { dir, entries }))
}

/// Returns what follows a file, in its directory and in each one above, from the root down.
fn following<'r>(repo: &'r Repo, after: &PlaceIn) -> Result<Vec<Rest<'r>>, Failure> {
    let mut out = Vec::new();
    let mut at = after.path.clone();
    while let (Some(dir), Some(name)) = (at.parent(), at.file_name()) {
        out.extend(rest(repo, after, dir.clone(), name)?);
        at = dir;
    }
    out.reverse();
    Ok(out)
}

/// Prints files that nobody has asked for yet, as far as they are here and fit.
struct AheadPrinter<'a> {
    context: &'a Context,
    repo: &'a Repo,
    is_partial: bool,
    most: u64,
    /// Bytes that still fit.
    left: u64,
    looked_at: usize,
}

impl<'a> AheadPrinter<'a> {
    /// Prints the other files of the directory of a file. They begin behind it.
    fn print_directory(&mut self, after: &PlaceIn) -> Result<(), Failure> {
        let (Some(dir), Some(name)) = (after.path.parent(), after.path.file_name()) else {
            return Ok(());
        };
        let Some(Rest { dir, entries }) = rest(self.repo, after, dir, name)? else {
            return Ok(());
        };
        for entry in entries {
            if !self.print(&dir, &entry.map_err(RepoError::from)?)? {
                return Ok(());
            }
        }
        let located = self.repo.locate(&after.revision, &after.commit, &dir)?;
        let before =
            (located.tree().into_iter()).flat_map(|tree| TreeIter::new(self.repo.objects(), tree));
        for entry in before {
            let entry = entry.map_err(RepoError::from)?;
            if entry.name.as_bytes() >= name || !self.print(&dir, &entry)? {
                break;
            }
        }
        Ok(())
    }

    /// Prints what follows, also in other directories.
    fn print_on(&mut self, mut rest: Vec<Rest<'a>>) -> Result<(), Failure> {
        while let Some(Rest { dir, entries }) = rest.last_mut() {
            let entry = match entries.next() {
                // Directories that are absent here have nothing to read.
                Some(Err(ObjectError::Missing { .. })) if self.is_partial => None,
                next => next.transpose().map_err(RepoError::from)?,
            };
            let Some(entry) = entry else {
                rest.pop();
                continue;
            };
            if !self.print(dir, &entry)? {
                return Ok(());
            }
            if entry.kind == Kind::Directory {
                let dir = below(dir, &entry)?;
                let entries = TreeIter::new(self.repo.objects(), entry.id);
                rest.push(Rest { dir, entries });
            }
        }
        Ok(())
    }

    /// Prints a file if it is here and fits. Returns whether to go on.
    fn print(&mut self, dir: &RepoPath, entry: &TreeEntry) -> Result<bool, Failure> {
        self.looked_at += 1;
        let is_file = matches!(entry.kind, Kind::File | Kind::Executable);
        if is_file && self.left < entry.size && entry.size <= self.most {
            // It would fit the next time. A larger one never does, so it is passed over.
            return Ok(false);
        }
        let is_here = || !(self.is_partial && lacks(self.repo, entry));
        if is_file && entry.size <= self.left && is_here() {
            let path = below(dir, entry)?;
            self.left -= write(self.context, self.repo, entry, 0..entry.size)?;
            tell(self.context, &path, entry.size)?;
        }
        Ok(self.left > 0 && self.looked_at < MAX_AHEAD)
    }
}

fn below(dir: &RepoPath, entry: &TreeEntry) -> Result<RepoPath, Failure> {
    Ok(Repo::parse_path(&join(
        dir.as_bytes(),
        entry.name.as_bytes(),
    ))?)
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
