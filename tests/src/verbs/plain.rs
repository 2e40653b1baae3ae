//! What commands do to files, as pure functions over maps: no tree, no store, no cleverness.

use crate::scratch::{Files, Item};
use std::collections::{BTreeMap, BTreeSet};

/// How many bytes at the beginning of a content are the same in all versions of a file.
pub const TAG: usize = 8;

/// A path, as bytes.
pub type Path = Vec<u8>;

/// What a three-way merge of whole files makes.
#[derive(Debug)]
pub struct MergeResult {
    /// The files whose content is certain.
    pub files: Files,
    /// The paths that are in conflict for certain.
    pub conflicts: BTreeSet<Path>,
    /// Both sides changed a text here: a merge by lines decides.
    pub unclear: BTreeSet<Path>,
}

/// How a file differs from its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// It is new.
    Added,
    /// Its content or its executable bit differs.
    Modified,
    /// It is gone.
    Deleted,
    /// It was a file and is a symlink, or the reverse.
    Type,
}

/// Returns files without the empty directories.
pub fn files_only(files: &Files) -> Files {
    let is_file = |(_, item): &(&Path, &Item)| **item != Item::EmptyDir;
    let files = files.iter().filter(is_file);
    files
        .map(|(path, item)| (path.clone(), item.clone()))
        .collect()
}

/// Returns whether `path` is `dir` or below it.
pub fn is_under(path: &[u8], dir: &[u8]) -> bool {
    dir.is_empty()
        || path
            .strip_prefix(dir)
            .is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// Returns the directories above a path, without the root.
pub fn above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = path.iter().enumerate().filter(|(_, b)| **b == b'/');
    slashes.map(|(at, _)| &path[..at])
}

/// Returns whether a path is a file in `files` and also a directory of another.
pub fn clashes(files: &Files) -> bool {
    files
        .keys()
        .any(|path| above(path).any(|dir| files.contains_key(dir)))
}

/// Returns whether a file of one tree is in the place of a directory of the other.
pub fn clash(one: &Files, two: &Files) -> bool {
    let differ = |(path, item): (&Path, &Item)| {
        let is_dir = *item == Item::EmptyDir;
        two.get(path)
            .is_some_and(|other| (*other == Item::EmptyDir) != is_dir)
    };
    let both = files_only(one).into_iter().chain(files_only(two)).collect();
    let under = |(one, two): (&Files, &Files)| {
        let dirs = one.iter().filter(|(_, item)| **item == Item::EmptyDir);
        dirs.into_iter().any(|(dir, _)| {
            above(dir).any(|dir| two.get(dir).is_some_and(|item| *item != Item::EmptyDir))
        })
    };
    clashes(&both) || one.iter().any(differ) || under((one, two)) || under((two, one))
}

/// The file with the ignore rules of the stories, and its content.
pub const RULES: (&str, &str) = (".dmvignore", "*.tmp\n");

/// Returns whether the ignore rules on disk cover a path.
pub fn is_ignored(disk: &Files, path: &[u8]) -> bool {
    disk.contains_key(RULES.0.as_bytes())
        && path
            .split(|b| *b == b'/')
            .any(|name| name.ends_with(b".tmp"))
}

/// Returns the paths of several trees.
pub fn paths_of<'f>(trees: &[&'f Files]) -> BTreeSet<&'f Path> {
    trees.iter().flat_map(|tree| tree.keys()).collect()
}

/// Returns the files on disk after a change from `base` to `to`: uncommitted changes stay where the two
/// are equal. `Err` holds the paths at which a change would be lost.
pub fn switched(
    base: &Files,
    to: &Files,
    disk: &Files,
    has: &dyn Fn(&[u8]) -> bool,
) -> Result<Files, BTreeSet<Path>> {
    let (mut out, mut lost) = (Files::new(), BTreeSet::new());
    for path in paths_of(&[base, to, disk]) {
        let (b, t, d) = (base.get(path), to.get(path), disk.get(path));
        let result = match () {
            () if !has(path) => d,
            () if d == b || d == t => t,
            () if b == t => d,
            () => {
                lost.insert(path.clone());
                d
            }
        };
        out.extend(result.map(|item| (path.clone(), item.clone())));
    }
    if lost.is_empty() { Ok(out) } else { Err(lost) }
}

/// Returns how files on disk differ from a commit. Ignored files that the commit does not have are left
/// out.
pub fn differences(
    base: &Files,
    disk: &Files,
    has: &dyn Fn(&[u8]) -> bool,
) -> BTreeMap<Path, Difference> {
    let mut out = BTreeMap::new();
    for path in paths_of(&[base, disk]) {
        let how = match (base.get(path), disk.get(path)) {
            _ if !has(path) => continue,
            (old, new) if old == new => continue,
            (None, _) if is_ignored(disk, path) => continue,
            (None, _) => Difference::Added,
            (_, None) => Difference::Deleted,
            (Some(Item::File(..)), Some(Item::File(..)))
            | (Some(Item::Symlink(_)), Some(Item::Symlink(_))) => Difference::Modified,
            _ => Difference::Type,
        };
        out.insert(path.clone(), how);
    }
    out
}

/// Returns the number that the first bytes of a content name: versions of one file share it. A shorter
/// content has no other versions.
fn lineage(item: &Item) -> Option<&[u8]> {
    match item {
        Item::File(bytes, _) if !bytes.is_empty() => Some(&bytes[..bytes.len().min(TAG)]),
        _ => None,
    }
}

/// Returns the files that one side may have moved: their former paths and their new ones.
fn moves(base: &Files, side: &Files) -> Vec<(Path, Path)> {
    let gone = base.iter().filter(|(path, _)| !side.contains_key(*path));
    let new: Vec<(&Path, &Item)> = side
        .iter()
        .filter(|(path, _)| !base.contains_key(*path))
        .collect();
    let mut out = Vec::new();
    for (from, old) in gone {
        for (to, item) in &new {
            if lineage(old).is_some() && lineage(old) == lineage(item) {
                out.push((from.clone(), (*to).clone()));
            }
        }
    }
    out
}

/// Returns whether a move of `side` may take changes of `other` along: those of the file, and new files
/// into a directory that was moved.
pub fn take_along(base: &Files, side: &Files, other: &Files) -> bool {
    let moves = moves(base, side);
    let is_touched = |path: &Path| other.get(path) != base.get(path);
    let has_new = || other.keys().any(|path| !base.contains_key(path));
    let mut ends = moves.iter().flat_map(|(from, to)| [from, to]);
    ends.any(is_touched) || !moves.is_empty() && has_new()
}

/// Merges whole files. Returns `None` where moves of files, or a file in the place of a directory, make
/// the result a matter of more than single paths.
pub fn merged(base: &Files, ours: &Files, theirs: &Files) -> Option<MergeResult> {
    if [(base, ours), (base, theirs), (ours, theirs)]
        .iter()
        .any(|(one, two)| clash(one, two))
    {
        return None;
    }
    let (base, ours, theirs) = (&files_only(base), &files_only(ours), &files_only(theirs));
    if take_along(base, ours, theirs) || take_along(base, theirs, ours) {
        return None;
    }
    let mut out = MergeResult {
        files: Files::new(),
        conflicts: BTreeSet::new(),
        unclear: BTreeSet::new(),
    };
    for path in paths_of(&[base, ours, theirs]) {
        let (b, o, t) = (base.get(path), ours.get(path), theirs.get(path));
        match merged_file(b, o, t) {
            FileResult::Clean(item) => out.files.extend(item.map(|item| (path.clone(), item))),
            FileResult::Conflict => drop(out.conflicts.insert(path.clone())),
            FileResult::Unclear => drop(out.unclear.insert(path.clone())),
        }
    }
    Some(out)
}

enum FileResult {
    Clean(Option<Item>),
    Conflict,
    Unclear,
}

fn merged_file(base: Option<&Item>, ours: Option<&Item>, theirs: Option<&Item>) -> FileResult {
    if ours == theirs || theirs == base {
        return FileResult::Clean(ours.cloned());
    }
    if ours == base {
        return FileResult::Clean(theirs.cloned());
    }
    let (Some(Item::File(o, _)), Some(Item::File(t, _))) = (ours, theirs) else {
        return FileResult::Conflict;
    };
    let is_text = |bytes: &[u8]| !bytes.contains(&0);
    match base {
        // Content and executable bit are merged each by itself.
        Some(Item::File(b, _)) if o == t || o == b || t == b => FileResult::Unclear,
        Some(Item::File(b, _)) if is_text(b) && is_text(o) && is_text(t) => FileResult::Unclear,
        None if o == t || is_text(o) && is_text(t) => FileResult::Unclear,
        _ => FileResult::Conflict,
    }
}

/// Returns what differs between two trees, for the message of a failure: what was wanted, and what there is.
pub fn shown(want: &Files, found: &Files, at: &dyn Fn(&Path) -> bool) -> Vec<String> {
    let item = |item: Option<&Item>| match item {
        None => "nothing".to_owned(),
        Some(Item::EmptyDir) => "an empty directory".to_owned(),
        Some(Item::Symlink(to)) => format!("a link to {}", to.escape_ascii()),
        Some(Item::File(bytes, exec)) => {
            let start = &bytes[..bytes.len().min(24)];
            let exec = if *exec { "+x " } else { "" };
            format!("{exec}'{}' of {}", start.escape_ascii(), bytes.len())
        }
    };
    let differs = |path: &&Path| at(path) && want.get(*path) != found.get(*path);
    let paths = paths_of(&[want, found]).into_iter().filter(differs);
    let line = |path: &Path| {
        let (want, found) = (item(want.get(path)), item(found.get(path)));
        format!("{}: {found}, not {want}", path.escape_ascii())
    };
    paths.map(line).collect()
}

/// Returns whether a name is one that a conflict's versions have on disk.
pub fn is_version_of_conflict(path: &[u8]) -> bool {
    const LABELS: [&[u8]; 4] = [b"ours", b"theirs", b"base", b"side"];
    LABELS
        .iter()
        .any(|label| path.windows(label.len()).any(|part| part == *label))
}
