//! Files that get another name and stay as they are.

use super::{CheckoutError, PlacedEntry, split};
use crate::fsutil::{Fingerprint, SafeDir};
use std::sync::atomic::{AtomicBool, Ordering};

/// A file that goes to another path.
#[derive(Clone, Debug)]
pub struct Move {
    /// Where it is.
    pub from: Vec<u8>,
    /// Where it goes. The name must be free, and its directory there.
    pub to: Vec<u8>,
    /// What it must still be.
    pub expected: Fingerprint,
}

/// Moves files in the worktree at `root`. For each of `moves` what it is then; `None`: it was not
/// moved, or went back because somebody had changed it.
///
/// `replacing` is called when a file was looked at for the last time, before it is moved.
pub fn move_files(
    root: &SafeDir,
    moves: &[Move],
    cancel: &AtomicBool,
    replacing: &dyn Fn(),
) -> Result<Vec<Option<PlacedEntry>>, CheckoutError> {
    let mut out = Vec::with_capacity(moves.len());
    let (mut source, mut target) = (LastDirectory::default(), LastDirectory::default());
    for one in moves {
        if cancel.load(Ordering::Relaxed) {
            return Err(CheckoutError::Cancelled);
        }
        let placed = source.at(root, &one.from).and_then(|from| {
            let to = target.at(root, &one.to)?;
            move_file(from, to, one.expected, replacing)
        });
        out.push(placed);
    }
    Ok(out)
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

fn move_file(
    (source, name): At<'_>,
    (target, new): At<'_>,
    expected: Fingerprint,
    replacing: &dyn Fn(),
) -> Option<PlacedEntry> {
    let seen = source.stat_opt(name).ok()??;
    if seen.fingerprint() != expected {
        return None;
    }
    replacing();
    source.move_to(name, target, new).ok()?;
    let stat = target.stat_opt(new).ok()??;
    if stat.untouched() != seen.untouched() {
        // An edit goes back to where it was made. If that fails, it is a change at the new path.
        let _ = target.move_to(new, source, name);
        return None;
    }
    let touched = false;
    Some(PlacedEntry { stat, touched })
}
