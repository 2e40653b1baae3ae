//! `dmv cat`

use crate::path_arguments::{PlaceIn, place_or_path};
use crate::prelude::*;
use dmv_core::merge::entry_of;
use dmv_core::object::tree::{Kind, TreeEntry};
use dmv_core::repo::{Location, LookError, blob_of};
use std::ops::Range;

/// Print a file from a commit
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv cat notes.txt\n  dmv cat @~1:notes.txt\n  \
                  dmv cat v1.0:media/clip.mov --range 0-4096 > head\n  \
                  dmv cat @:shots/s4.exr --side theirs > theirs.exr"
)]
pub struct Args {
    /// The file: a path in @, or a commit and the path from its root
    #[arg(value_name = "[REV:]PATH", add = candidates::place_or_path())]
    place: OsString,
    /// Print only the bytes from A up to, but not including, B; without B, up to the end
    #[arg(long, value_name = "A-B", value_parser = range)]
    range: Option<Range<u64>>,
    /// Print this version of a conflict: ours, theirs or base (side2, base2, ... if it has more)
    #[arg(long, value_name = "NAME")]
    side: Option<String>,
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
    let place = place_or_path(context, &repo, Some(&args.place), true)?;
    let wrong = |what| {
        RepoError::Look(LookError::WrongKind {
            path: place.path.clone(),
            what,
        })
    };
    let entry = match &place.located {
        Location::Root { .. } => return Err(wrong("a directory").into()),
        Location::Entry(entry) => entry,
    };
    let entry = &match (entry.kind, &args.side) {
        (Kind::Conflict, Some(side)) => version(&repo, &place.path, entry, side)?,
        (Kind::Conflict, None) => return Err(which_side(&place, entry, &repo)?),
        (_, Some(_)) => return Err(wrong("not a conflict").into()),
        (_, None) => entry.clone(),
    };
    match entry.kind {
        Kind::Directory => return Err(wrong("a directory").into()),
        Kind::Conflict => unreachable!("a version of a conflict is none"),
        Kind::Symlink => {
            let target = supplied(context, &repo, "reading", || repo.link_target(entry))?;
            let len = target.len() as u64;
            let range = args.range.clone().unwrap_or(0..len);
            let (from, to) = (range.start.min(len), range.end.min(len));
            context
                .ui
                .out()
                .write_all(&target[from as usize..to as usize])?;
        }
        Kind::File | Kind::Executable => {
            let blob = blob_of(entry);
            let range = args.range.clone().unwrap_or(0..blob.size);
            let range = range.start..range.end.min(blob.size);
            supplied(context, &repo, "reading", || {
                repo.check_range_here(&place.path, blob, range.clone())
            })?;
            repo.cat(blob, Some(range), &mut context.ui.out())?;
        }
    }
    Ok(EXIT_OK)
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
