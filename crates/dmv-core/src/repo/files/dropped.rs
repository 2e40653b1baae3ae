//! Content that was given up with `drop` or `expire` and is stored again.
//!
//! Commits and transfers use this module to remove such content from the list of what was given up.
//! `drop` uses [`each_file`].

use crate::diff::{self, is_wanted};
use crate::hash::ObjectId;
use crate::object::ObjectError;
use crate::object::list::Blob;
use crate::object::name::RepoPath;
use crate::object::root::{Root, has_blob};
use crate::object::tree::{Kind, TreeEntry};
use crate::repo::base::error::{BusyError, RepoError};
use crate::repo::base::repo::Repo;
use crate::repo::look::entries;
use crate::repo::look::entries::{Location, Selection, blob_of};
use crate::subset::Subset;
use std::collections::BTreeSet;

/// Receives a file's content.
type VisitBlob<'v> = dyn FnMut(Blob) -> Result<(), RepoError> + 'v;

impl Repo {
    /// Removes the files in `wanted` whose content is stored from the list of dropped files: their
    /// content is to stay.
    pub fn no_longer_dropped(&self, wanted: Selection<'_>) -> Result<(), RepoError> {
        take_off_dropped(self, &mut |visit| {
            each_file(self, wanted, &mut |_, blob| visit(blob))
        })
    }

    /// Removes the files below `roots` from the list of dropped files, after a command has fetched
    /// their content.
    pub fn have_come(&self, roots: &[Root]) -> Result<(), RepoError> {
        take_off_dropped(self, &mut |visit| {
            for root in roots {
                match *root {
                    Root::Blob(blob) => visit(blob)?,
                    Root::Directory { tree, bytes, files } => {
                        let wanted = Selection {
                            path: &RepoPath::root(),
                            located: &Location::Root { tree, bytes, files },
                            subset: &Subset::everything(),
                        };
                        each_file(self, wanted, &mut |_, blob| visit(blob))?;
                    }
                    // A piece of a file.
                    Root::Object(..) => {}
                }
            }
            Ok(())
        })
    }
}

/// Like [`no_longer_dropped`], for content that a commit has stored again.
pub fn committed_again(repo: &Repo, old: Option<ObjectId>, new: ObjectId) -> Result<(), RepoError> {
    take_off_dropped(repo, &mut |visit| {
        for change in diff::changes(repo.objects(), old, Some(new))? {
            if let Some(entry) = change.new.filter(is_file) {
                visit(blob_of(&entry))?;
            }
        }
        Ok(())
    })
}

/// Removes all content that `each` visits and that is stored from the list of what was given up.
fn take_off_dropped(
    repo: &Repo,
    each: &mut dyn FnMut(&mut VisitBlob<'_>) -> Result<(), RepoError>,
) -> Result<(), RepoError> {
    let mut back = BTreeSet::new();
    let given_up = repo.slice()?.given_up();
    if given_up.is_empty() {
        return Ok(());
    }
    let _kept = match repo.keep_all() {
        // Another command is freeing space, perhaps of these files. The list stays as it is: at
        // worst, a later drop frees the content again if other repositories have it.
        Err(RepoError::Busy(BusyError::Freeing(_))) => return Ok(()),
        kept => kept?,
    };
    each(&mut |blob| {
        if given_up.contains(&blob.id) && has_blob(repo, blob)? {
            back.insert(blob.id);
        }
        Ok(())
    })?;
    if !back.is_empty() {
        repo.change_slice(|slice| slice.take_back(&back))?;
    }
    Ok(())
}

/// Visits the wanted files. Skips files below absent directories.
pub fn each_file(
    repo: &Repo,
    wanted: Selection<'_>,
    visit: &mut dyn FnMut(&RepoPath, Blob) -> Result<(), RepoError>,
) -> Result<(), RepoError> {
    let mut dirs = Vec::new();
    match wanted.located {
        Location::Root { tree, .. } => dirs.push((wanted.path.clone(), *tree)),
        Location::Entry(entry) if entry.kind == Kind::Directory => {
            dirs.push((wanted.path.clone(), entry.id));
        }
        Location::Entry(entry) if is_file(entry) => {
            return if is_wanted(wanted.subset, wanted.path, entry) {
                visit(wanted.path, blob_of(entry))
            } else {
                Ok(())
            };
        }
        Location::Entry(_) => {}
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

/// Returns whether an entry has content that can be given up. Empty files free no space, and
/// symlinks are needed to write a commit's files.
fn is_file(entry: &TreeEntry) -> bool {
    matches!(entry.kind, Kind::File | Kind::Executable) && entry.size > 0
}
