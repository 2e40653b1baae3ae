//! Drops for tests: what a repository stores, and what must remain after a drop.

use crate::peers::Done;
use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::list::Blob;
use dmv_core::object::name::RepoPath;
use dmv_core::object::tree::Kind;
use dmv_core::repo::{
    AbsentError, Droppable, FreedSpace, Location, Repo, RepoError, Selection, blob_of,
};
use dmv_core::subset::Subset;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// The files of all commits with their content, by the id of the content's root.
pub type Contents = BTreeMap<ObjectId, (Blob, Vec<u8>)>;

/// Returns the files of `main` and its ancestors.
pub fn contents(repo: &Repo) -> Done<Contents> {
    let mut out = Contents::new();
    let mut commits = vec![repo.resolve("main")?];
    while let Some(id) = commits.pop() {
        let commit = repo.read_commit(&id)?;
        commits.extend(&commit.parents);
        let mut blobs = Vec::new();
        repo.list(&RepoPath::root(), commit.tree, true, &mut |listed| {
            if listed.entry.kind == Kind::File {
                blobs.push(blob_of(&listed.entry));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        for blob in blobs {
            let mut bytes = Vec::new();
            repo.cat(blob, None, &mut bytes)?;
            out.insert(blob.id, (blob, bytes));
        }
    }
    Ok(out)
}

/// Checks that every file except the `dropped` ones can be read and is unchanged.
pub fn keeps_all_but(repo: &Repo, contents: &Contents, dropped: &BTreeSet<ObjectId>) -> Done {
    for (id, (blob, content)) in contents {
        let mut bytes = Vec::new();
        match repo.cat(*blob, None, &mut bytes) {
            Ok(_) => assert_eq!(&bytes, content),
            Err(RepoError::Absent(AbsentError::Object { .. })) if dropped.contains(id) => {}
            Err(e) => return Err(format!("{id}: {e}").into()),
        }
    }
    Ok(())
}

/// Returns the tree of the newest commit.
pub fn everything(repo: &Repo) -> Done<Location> {
    let commit = repo.read_commit(&repo.resolve("main")?)?;
    Ok(Location::Root {
        tree: commit.tree,
        bytes: commit.tree_bytes,
        files: commit.tree_files,
    })
}

/// Returns the files of the newest commit that `pattern` selects and that can be dropped.
pub fn droppable(repo: &Repo, pattern: &str) -> Done<Droppable> {
    let root = RepoPath::root();
    let wanted = Selection {
        path: &root,
        located: &everything(repo)?,
        subset: &Subset::new([pattern.as_bytes()])?,
    };
    Ok(repo.begin_to_free()?.droppable(&[wanted])?)
}

/// Drops files of the newest commit as if a peer had confirmed all of them.
pub fn drop_all(repo: &Repo, pattern: &str) -> Done<FreedSpace> {
    let found = droppable(repo, pattern)?;
    let blobs: Vec<Blob> = found.files.iter().map(|(_, blob)| *blob).collect();
    let freeing = repo.begin_to_free()?;
    Ok(freeing.drop_files(&blobs, &found.earlier, &mut || true, &Job::default())?)
}

/// Drops files, and what was dropped earlier and is still stored, as if a peer had confirmed all of
/// them.
pub fn drop_blobs(repo: &Repo, blobs: &[Blob]) -> Done<FreedSpace> {
    let freeing = repo.begin_to_free()?;
    let earlier = freeing.droppable(&[])?.earlier;
    Ok(freeing.drop_files(blobs, &earlier, &mut || true, &Job::default())?)
}

/// Returns the files that are recorded as dropped.
pub fn dropped(repo: &Repo) -> Done<BTreeSet<ObjectId>> {
    Ok(repo.slice()?.dropped)
}
