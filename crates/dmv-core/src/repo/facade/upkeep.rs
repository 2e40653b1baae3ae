//! What `Repo` offers of `upkeep`.

use crate::job::Job;
use crate::repo::{Freeing, Healing, Repo, RepoError, VerifyDepth, VerifyReport, upkeep};

impl Repo {
    /// Begins to free space. [`RepoError::Freeing`]: somebody else does, or a peer counts on what is
    /// here.
    pub fn begin_to_free(&self) -> Result<Freeing<'_>, RepoError> {
        upkeep::drop::begin_to_free(&self.handle)
    }

    /// Checks the repository, and begins to heal what is wrong.
    pub fn begin_to_heal(&self, depth: VerifyDepth, job: &Job) -> Result<Healing<'_>, RepoError> {
        upkeep::heal::begin_to_heal(&self.handle, depth, job)
    }

    /// Checks the repository and says what is wrong.
    ///
    /// Changes nothing but the list of damaged places, from which objects are stored again when
    /// they turn up. A file that may not be read is a failure and no damage.
    pub fn verify(&self, depth: VerifyDepth, job: &Job) -> Result<VerifyReport, RepoError> {
        upkeep::verify::verify(&self.handle, depth, job)
    }
}
