//! Annotated tags: commits that say which commit has a name, who says so, and why. They can be signed.

use crate::hash::ObjectId;
use crate::object::commit::Commit;
use crate::refs::Effect;
use crate::repo::base::branch::{RefKind, new_ref};
use crate::repo::base::error::RepoError;
use crate::repo::base::publish::OperationRequest;
use crate::repo::base::repo::Repo;
use crate::repo::base::transaction::Transaction;
use crate::repo::files::who::Who;

/// What to tag.
#[derive(Clone, Debug)]
pub struct TagOptions {
    /// The tag's name.
    pub name: String,
    /// The commit.
    pub target: ObjectId,
    /// The message; may be empty.
    pub message: String,
    /// Who tags.
    pub tagger: Who,
    /// What the operation log records about the request.
    pub request: OperationRequest,
}

impl Repo {
    /// Creates an annotated tag: a commit whose only parent is the tagged one. Signs it if the user signs commits.
    ///
    /// Fails with [`BranchError::RefExists`](crate::repo::BranchError::RefExists) if the name is taken.
    pub fn annotate_tag(&self, options: &TagOptions) -> Result<ObjectId, RepoError> {
        let mut change = new_ref(self, RefKind::Tag, &options.name, options.target)?;
        let tagged = self.read_commit(&options.target)?;
        let tagger = options.tagger.at(options.request.time);
        let mut tag = Commit {
            tree: tagged.tree,
            tree_bytes: tagged.tree_bytes,
            tree_files: tagged.tree_files,
            parents: vec![options.target],
            generation: tagged.generation + 1,
            author: tagger.clone(),
            committer: tagger,
            message: options.message.clone(),
            extras: vec![Commit::tag_extra(&options.name)],
            signature: None,
        };
        let mut tx = Transaction::begin(self, &options.request);
        let id = tx.put_own_commit(&mut tag)?;
        change.new = Some(id.as_bytes().to_vec());
        tx.with([change]).publish(Effect::Kept)?;
        Ok(id)
    }

    /// Returns the annotated tag of this name; `None` if there is none, or if the tag names its commit itself.
    pub fn annotated_tag(&self, name: &str) -> Result<Option<AnnotatedTag>, RepoError> {
        let Some(id) = self.ref_at(&format!("tag/{name}"))? else {
            return Ok(None);
        };
        let commit = self.read_commit(&id)?;
        Ok(commit
            .tagged()
            .map(|tagged| AnnotatedTag { id, commit, tagged }))
    }
}

/// An annotated tag.
#[derive(Clone, Debug)]
pub struct AnnotatedTag {
    /// The id of the commit that stands for the tag.
    pub id: ObjectId,
    /// That commit.
    pub commit: Commit,
    /// The commit that it tags.
    pub tagged: ObjectId,
}
