//! New directories: each is told in one line, as Git does, instead of all its files.

use dmv_core::object::name::RepoPath;
use dmv_core::object::tree::lookup_path;
use dmv_core::repo::{ChangeKind, PathChange, Repo, RepoError};
use dmv_core::worktree::select::{Paths, is_under};
use std::collections::HashMap;

/// A line of a status: one change, or all new files of a new directory.
pub enum Line<'a> {
    /// A single change.
    Change(&'a PathChange),
    /// A directory that the commit does not have, and the number of new paths below it.
    Directory(&'a [u8], u64),
}

/// Returns the lines for some changes, which are in path order. `is_alone`: the change gets a line
/// of its own in any case.
///
/// A directory that reaches beyond what was asked for (`select`) is not named.
pub fn lines<'a>(
    repo: &Repo,
    changes: &'a [PathChange],
    select: &Paths,
    is_alone: &dyn Fn(&PathChange) -> bool,
) -> Result<Vec<Line<'a>>, RepoError> {
    let base = match repo.base_commit()? {
        Some(id) => Some(repo.read_commit(&id)?.tree),
        None => None,
    };
    let mut known: HashMap<&[u8], bool> = HashMap::new();
    let mut is_new = |dir: &'a [u8]| -> bool {
        *known.entry(dir).or_insert_with(|| {
            let path = Repo::parse_path(dir).unwrap_or_else(|_| RepoPath::root());
            // Where nothing is known about a directory, its files are listed.
            base.is_none_or(|tree| matches!(lookup_path(repo.objects(), &tree, &path), Ok(None)))
        })
    };
    let mut out: Vec<Line<'a>> = Vec::new();
    // Changes that get lines of their own may lie between the files of a directory.
    let mut last: Option<(usize, &[u8])> = None;
    for change in changes {
        if change.kind != ChangeKind::Added || is_alone(change) {
            out.push(Line::Change(change));
            continue;
        }
        let path = change.path.as_bytes();
        if let Some((at, dir)) = last
            && is_under(path, dir)
            && let Line::Directory(_, files) = &mut out[at]
        {
            *files += 1;
            continue;
        }
        let ends = path.iter().enumerate().filter(|(_, b)| **b == b'/');
        let mut above = ends.map(|(at, _)| &path[..at]);
        match above.find(|dir| is_new(dir) && select.includes(dir)) {
            Some(dir) => {
                last = Some((out.len(), dir));
                out.push(Line::Directory(dir, 1));
            }
            None => out.push(Line::Change(change)),
        }
    }
    Ok(out)
}
