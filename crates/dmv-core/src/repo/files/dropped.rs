//! Content that was given up with `drop` and is here again.

use crate::diff::{self, is_wanted};
use crate::hash::ObjectId;
use crate::object::ObjectError;
use crate::object::list::Blob;
use crate::object::name::RepoPath;
use crate::object::root::{Root, has_blob};
use crate::object::tree::{Kind, TreeEntry};
use crate::repo::base::error::RepoError;
use crate::repo::base::handle::Handle;
use crate::repo::base::slice;
use crate::repo::look::entries;
use crate::repo::look::entries::{Located, Wanted, blob_of};
use crate::subset::Subset;
use std::collections::BTreeSet;

/// Takes a file's content.
type VisitBlob<'v> = dyn FnMut(Blob) -> Result<(), RepoError> + 'v;

/// Takes files off the list of those given up whose content is here: it is to stay.
pub(in crate::repo) fn no_longer_dropped(
    repo: &Handle,
    wanted: Wanted<'_>,
) -> Result<(), RepoError> {
    take_off_dropped(repo, &mut |visit| {
        each_file(repo, wanted, &mut |_, blob| visit(blob))
    })
}

/// The same for what has come because a command needed it.
pub(in crate::repo) fn have_come(repo: &Handle, roots: &[Root]) -> Result<(), RepoError> {
    take_off_dropped(repo, &mut |visit| {
        for root in roots {
            match *root {
                Root::Blob(blob) => visit(blob)?,
                Root::Directory { tree, bytes, files } => {
                    let wanted = Wanted {
                        path: &RepoPath::root(),
                        located: &Located::Root { tree, bytes, files },
                        subset: &Subset::everything(),
                    };
                    each_file(repo, wanted, &mut |_, blob| visit(blob))?;
                }
                // A piece of a file.
                Root::Object(..) => {}
            }
        }
        Ok(())
    })
}

/// The same for what a commit has stored again.
pub(in crate::repo) fn committed_again(
    repo: &Handle,
    old: Option<ObjectId>,
    new: ObjectId,
) -> Result<(), RepoError> {
    take_off_dropped(repo, &mut |visit| {
        for change in diff::changes(repo.objects(), old, Some(new))? {
            if let Some(entry) = change.new.filter(is_file) {
                visit(blob_of(&entry))?;
            }
        }
        Ok(())
    })
}

/// Takes off the list of what is given up all that `each` visits and that is here.
fn take_off_dropped(
    repo: &Handle,
    each: &mut dyn FnMut(&mut VisitBlob<'_>) -> Result<(), RepoError>,
) -> Result<(), RepoError> {
    let mut back = BTreeSet::new();
    let dropped = slice::slice(repo)?.dropped;
    if dropped.is_empty() {
        return Ok(());
    }
    each(&mut |blob| {
        if dropped.contains(&blob.id) && has_blob(repo, blob)? {
            back.insert(blob.id);
        }
        Ok(())
    })?;
    if !back.is_empty() {
        slice::change_slice(repo, |slice| slice.dropped.retain(|id| !back.contains(id)))?;
    }
    Ok(())
}

/// Visits the files that are wanted, as far as their directories are here.
pub(in crate::repo) fn each_file(
    repo: &Handle,
    wanted: Wanted<'_>,
    visit: &mut dyn FnMut(&RepoPath, Blob) -> Result<(), RepoError>,
) -> Result<(), RepoError> {
    let mut dirs = Vec::new();
    match wanted.located {
        Located::Root { tree, .. } => dirs.push((wanted.path.clone(), *tree)),
        Located::Entry(entry) if entry.kind == Kind::Directory => {
            dirs.push((wanted.path.clone(), entry.id));
        }
        Located::Entry(entry) if is_file(entry) => {
            return match is_wanted(wanted.subset, wanted.path, entry) {
                true => visit(wanted.path, blob_of(entry)),
                false => Ok(()),
            };
        }
        Located::Entry(_) => {}
    }
    while let Some((dir, tree)) = dirs.pop() {
        let entries = match diff::entries_in(repo.objects(), &tree, wanted.subset, &dir) {
            Err(ObjectError::Missing { .. }) => continue,
            entries => entries?,
        };
        let from = dirs.len();
        for entry in entries {
            let path = entries::path_in(repo, &dir, tree, &entry)?;
            if entry.kind == Kind::Directory {
                dirs.push((path, entry.id));
            } else if is_file(&entry) {
                visit(&path, blob_of(&entry))?;
            }
        }
        dirs[from..].reverse();
    }
    Ok(())
}

/// Whether an entry has content that can be given up: what has no bytes frees none, and a symlink is
/// needed to make the files of a commit.
fn is_file(entry: &TreeEntry) -> bool {
    matches!(entry.kind, Kind::File | Kind::Executable) && entry.size > 0
}
