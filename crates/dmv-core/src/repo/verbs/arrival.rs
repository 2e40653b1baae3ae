//! A first history that comes into a repository: its refs and the files of one branch, in one operation.

use crate::hash::ObjectId;
use crate::job::Job;
use crate::repo::base::error::RepoError;
use crate::repo::base::head::Head;
use crate::repo::base::repo::Repo;
use crate::repo::base::transaction::Proof;
use crate::repo::base::worktree;
use crate::repo::files::checkout::{
    CheckoutCall, CheckoutOptions, CheckoutReport, checkout_locked,
};
use crate::repo::peers::exchange::{OfferedRefs, OwnBranches, RefChange, remote_changes};

/// What came into a repository.
#[derive(Debug)]
pub struct ArrivalReport {
    /// The refs that changed.
    pub refs: Vec<RefChange>,
    /// What became of the files; `None` if the branch is not there. If this is an error, uncommitted files are in
    /// the way, and only the refs changed.
    pub written: Option<Result<CheckoutReport, RepoError>>,
}

impl Repo {
    /// Records the branches of a remote, as [`note_remote`](Self::note_remote) does, and switches the worktree to
    /// `branch`, one of those that come. It has no commit yet. One undo takes both back.
    pub fn note_remote_and_check_out(
        &self,
        remote: &str,
        offered: &OfferedRefs,
        ours: &OwnBranches,
        branch: &str,
        options: &CheckoutOptions,
        job: &Job,
    ) -> Result<ArrivalReport, RepoError> {
        let request = &options.request;
        let lock = worktree::lock_worktree(self)?;
        let coming = remote_changes(self, remote, offered, ours)?;
        let key = format!("branch/{branch}");
        let made = coming
            .refs
            .iter()
            .find(|change| change.key == key && change.refused.is_none());
        let commit: Option<ObjectId> = match made {
            Some(change) => change.new,
            None => self.ref_at(&key)?,
        };
        let written = match commit {
            None => None,
            Some(commit) => {
                let at = (Head::Branch(branch.to_owned()), commit);
                let call = CheckoutCall::new("this import", request);
                let changes = coming.changes;
                let written = checkout_locked(self, &lock, at, call, options, job, |tx| {
                    Ok(tx.with(changes).proved(Proof::Transfer))
                });
                match written {
                    Err(e @ RepoError::Files(_)) => Some(Err(e)),
                    written => {
                        let (refs, written) = (coming.refs, Some(Ok(written?)));
                        return Ok(ArrivalReport { refs, written });
                    }
                }
            }
        };
        let on = written.as_ref().map(|_| Head::Branch(branch.to_owned()));
        let ours = OwnBranches {
            head: on,
            ..ours.clone()
        };
        let refs = self.note_remote(remote, offered, &ours, request)?;
        Ok(ArrivalReport { refs, written })
    }
}
