//! Many files named by few paths: a directory stands for its files where all of them are meant.

use dmv_core::escape::{Argument, Hint};
use dmv_core::hash::ObjectId;
use dmv_core::hint;
use dmv_core::object::tree::lookup_path;
use dmv_core::repo::Repo;
use std::collections::{BTreeSet, HashMap};

/// The most paths that a command line names.
const MAX_NAMED: usize = 8;

/// Returns the fewest files and directories of `tree` that stand for `paths`: the highest directories all
/// of whose files are among them, and the other files.
pub fn cover<'p>(repo: &Repo, tree: ObjectId, paths: &[&'p [u8]]) -> BTreeSet<&'p [u8]> {
    cover_by(paths, &mut |dir| {
        let path = Repo::parse_path(dir).ok()?;
        let entry = lookup_path(repo.objects(), &tree, &path).ok()??;
        Some(entry.files)
    })
}

/// The same, where `files_in` knows how many files a directory has.
fn cover_by<'p>(
    paths: &[&'p [u8]],
    files_in: &mut dyn FnMut(&[u8]) -> Option<u64>,
) -> BTreeSet<&'p [u8]> {
    let mut meant: HashMap<&[u8], u64> = HashMap::new();
    for path in paths {
        above(path).for_each(|dir| *meant.entry(dir).or_default() += 1);
    }
    let mut whole: HashMap<&[u8], bool> = HashMap::new();
    let mut is_whole = |dir: &'p [u8]| {
        let is_all = |files_in: &mut dyn FnMut(&[u8]) -> Option<u64>| {
            files_in(dir).is_some_and(|files| files == meant[dir])
        };
        *whole.entry(dir).or_insert_with(|| is_all(files_in))
    };
    let named = paths.iter().map(|path| {
        let dir = above(path).find(|dir| is_whole(dir));
        dir.unwrap_or(path)
    });
    named.collect()
}

/// The directories above a path, from the highest one, without the root.
pub fn above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    slashes.map(|(at, _)| &path[..at])
}

/// A command line that names these paths; `None` if they are too many for one. `of` makes the argument.
pub fn command(
    verb: &'static str,
    paths: &BTreeSet<&[u8]>,
    of: impl Fn(&[u8]) -> Argument,
) -> Option<Hint> {
    if paths.is_empty() || paths.len() > MAX_NAMED {
        return None;
    }
    let arguments = paths.iter().map(|path| hint!("{}", of(path)));
    Some(hint!("{} {}", verb, Hint::join(arguments, " ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covered(paths: &[&str]) -> Vec<String> {
        let paths: Vec<&[u8]> = paths.iter().map(|path| path.as_bytes()).collect();
        let cover = cover_by(&paths, &mut |dir| match dir {
            b"a" => Some(3),
            b"a/b" => Some(2),
            b"c" => Some(2),
            _ => None,
        });
        let text = |path: &&[u8]| String::from_utf8_lossy(path).into_owned();
        cover.iter().map(text).collect()
    }

    #[test]
    fn the_highest_directory_whose_files_are_all_meant_stands_for_them() {
        assert_eq!(covered(&["a/1", "a/b/2", "a/b/3", "top"]), ["a", "top"]);
        assert_eq!(covered(&["a/b/2", "a/b/3"]), ["a/b"]);
        assert_eq!(covered(&["a/1", "a/b/2", "c/x"]), ["a/1", "a/b/2", "c/x"]);
        assert!(covered(&[]).is_empty());
    }
}
