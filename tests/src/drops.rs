//! Dropping in tests: what a repository holds, and what is to be left of it.

use crate::peers::Done;
use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::list::Blob;
use dmv_core::object::name::RepoPath;
use dmv_core::object::tree::Kind;
use dmv_core::repo::{Droppable, Freed, Located, Repo, RepoError, Wanted, blob_of};
use dmv_core::subset::Subset;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// Files of all commits with their content, by the root of it.
pub type Contents = BTreeMap<ObjectId, (Blob, Vec<u8>)>;

/// What `main` and its ancestors hold.
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

/// Everything but `dropped` is here and as it was.
pub fn keeps_all_but(repo: &Repo, contents: &Contents, dropped: &BTreeSet<ObjectId>) -> Done {
    for (id, (blob, content)) in contents {
        let mut bytes = Vec::new();
        match repo.cat(*blob, None, &mut bytes) {
            Ok(_) => assert_eq!(&bytes, content),
            Err(RepoError::Absent { .. }) if dropped.contains(id) => {}
            Err(e) => return Err(format!("{id}: {e}").into()),
        }
    }
    Ok(())
}

/// The tree of the newest commit.
pub fn everything(repo: &Repo) -> Done<Located> {
    let commit = repo.read_commit(&repo.resolve("main")?)?;
    Ok(Located::Root {
        tree: commit.tree,
        bytes: commit.tree_bytes,
        files: commit.tree_files,
    })
}

/// What can be dropped of the newest commit.
pub fn droppable(repo: &Repo, pattern: &str) -> Done<Droppable> {
    let root = RepoPath::root();
    let wanted = Wanted {
        path: &root,
        located: &everything(repo)?,
        subset: &Subset::new([pattern.as_bytes()])?,
    };
    Ok(repo.begin_to_free()?.droppable(&[wanted])?)
}

/// Drops files of the newest commit as if a peer had confirmed everything.
pub fn drop_all(repo: &Repo, pattern: &str) -> Done<Freed> {
    let found = droppable(repo, pattern)?;
    let blobs: Vec<Blob> = found.files.iter().map(|(_, blob)| *blob).collect();
    let freeing = repo.begin_to_free()?;
    Ok(freeing.drop_files(&blobs, &found.earlier, &mut || true, &Job::default())?)
}

/// Drops files as if a peer had confirmed everything, and what was dropped earlier.
pub fn drop_blobs(repo: &Repo, blobs: &[Blob]) -> Done<Freed> {
    let freeing = repo.begin_to_free()?;
    let earlier = freeing.droppable(&[])?.earlier;
    Ok(freeing.drop_files(blobs, &earlier, &mut || true, &Job::default())?)
}

/// What is noted as given up.
pub fn dropped(repo: &Repo) -> Done<BTreeSet<ObjectId>> {
    Ok(repo.slice()?.dropped)
}
