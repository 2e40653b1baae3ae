//! Files that get another name and stay as they are.
//!
//! All of them leave their places ([`leave`]) before the first one takes its new one ([`arrive`]).
//! In between they have temporary names in the root, and the caller removes and makes directories.
//! So no order of the moves has to be found: names may be exchanged in circles, and a file may move
//! into a directory that has its former name.

use super::{CheckoutError, PlacedEntry, ReplacedEntries, split};
use crate::fsutil::{FileStat, Fingerprint, SafeDir};
use std::sync::atomic::{AtomicBool, Ordering};

/// A file that goes to another path.
#[derive(Clone, Debug)]
pub struct Move {
    /// Where it is.
    pub from: Vec<u8>,
    /// Where it goes.
    pub to: Vec<u8>,
    /// What it must still be.
    pub expected: Fingerprint,
}

/// A file that has left its place.
pub(crate) struct MovingFile {
    /// Where it was.
    pub from: Vec<u8>,
    /// Where it goes. The name must be free, and its directory there.
    pub to: Vec<u8>,
    /// Its name in the root.
    pub(super) temp: Vec<u8>,
    was: FileStat,
}

/// Files of which some are on their way, and the others still in their places.
#[derive(Default)]
pub(crate) struct Departure {
    pub moving: Vec<MovingFile>,
    /// Those that have changed since the scan, or that cannot be moved in one step.
    pub stay: Vec<Move>,
}

/// Takes files out of their places in the worktree at `root`.
///
/// `replacing` is called when a file was looked at for the last time, before it is moved. If the run
/// is cancelled, the files on their way are removed like others, by `asides`.
pub(crate) fn leave(
    root: &SafeDir,
    moves: Vec<Move>,
    cancel: &AtomicBool,
    replacing: &dyn Fn(),
    asides: &ReplacedEntries<'_>,
) -> Result<Departure, CheckoutError> {
    let mut out = Departure::default();
    let mut source = LastDirectory::default();
    for one in moves {
        if cancel.load(Ordering::Relaxed) {
            give_up(out.moving, asides);
            return Err(CheckoutError::Cancelled);
        }
        let left = source
            .at(root, &one.from)
            .and_then(|(dir, name)| take_out((dir, name), root, &one, replacing, asides));
        match left {
            Some((temp, was)) => out.moving.push(MovingFile {
                from: one.from,
                to: one.to,
                temp,
                was,
            }),
            None => out.stay.push(one),
        }
    }
    Ok(out)
}

/// Moves a file to the root. `None` if it is in its place again, or still.
fn take_out(
    (dir, name): At<'_>,
    root: &SafeDir,
    one: &Move,
    replacing: &dyn Fn(),
    asides: &ReplacedEntries<'_>,
) -> Option<(Vec<u8>, FileStat)> {
    let was = dir.stat_opt(name).ok()??;
    if was.fingerprint() != one.expected {
        return None;
    }
    replacing();
    let temp = dir.move_aside(name, root).ok()??;
    let now = root.stat_opt(&temp).ok().flatten();
    if now.is_some_and(|now| now.untouched() != was.untouched()) {
        // An edit goes back to where it was made. If another file is there already, both stay.
        let _ = asides.bring_back(root, &temp, &one.from);
        return None;
    }
    Some((temp, was))
}

/// Puts files in their new places. Returns for each what it is then, or `None` if its name is not
/// free: then it is removed like others, by `asides`.
pub(crate) fn arrive(
    root: &SafeDir,
    moving: Vec<MovingFile>,
    cancel: &AtomicBool,
    asides: &ReplacedEntries<'_>,
) -> Result<Vec<Option<PlacedEntry>>, CheckoutError> {
    let mut out = Vec::with_capacity(moving.len());
    let mut target = LastDirectory::default();
    let mut rest = moving.into_iter();
    while let Some(file) = rest.next() {
        if cancel.load(Ordering::Relaxed) {
            give_up(std::iter::once(file).chain(rest), asides);
            return Err(CheckoutError::Cancelled);
        }
        let placed = target
            .at(root, &file.to)
            .and_then(|(dir, name)| put_in(&file, root, (dir, name)));
        if placed.is_none() {
            give_up([file], asides);
        }
        out.push(placed);
    }
    Ok(out)
}

fn put_in(file: &MovingFile, root: &SafeDir, (dir, name): At<'_>) -> Option<PlacedEntry> {
    root.move_to(&file.temp, dir, name).ok()?;
    // A program that had the file open may have written to it on its way.
    let now = dir.stat_opt(name).ok().flatten();
    let touched = now.is_none_or(|now| now.untouched() != file.was.untouched());
    let stat = now.unwrap_or(file.was);
    Some(PlacedEntry {
        stat,
        touched,
        lacks_xattrs: false,
    })
}

/// Lets `asides` remove files that do not arrive. Those that have changed since return to
/// their former places.
fn give_up(files: impl IntoIterator<Item = MovingFile>, asides: &ReplacedEntries<'_>) {
    for file in files {
        asides.take_removed(&file.from, file.temp, &file.was);
    }
}

/// A name in an open directory.
type At<'a> = (&'a SafeDir, &'a [u8]);

/// The directory that was opened last.
#[derive(Default)]
struct LastDirectory(Option<(Vec<u8>, SafeDir)>);

impl LastDirectory {
    fn at<'a>(&'a mut self, root: &SafeDir, path: &'a [u8]) -> Option<At<'a>> {
        let (dir, name) = split(path).ok()?;
        if self.0.as_ref().is_none_or(|(open, _)| open != dir) {
            self.0 = Some((dir.to_vec(), root.open_dir(dir).ok()?));
        }
        self.0.as_ref().map(|(_, dir)| (dir, name))
    }
}
