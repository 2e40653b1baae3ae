//! Signing the commits that the user makes, by whatever signer the caller has given.

use crate::object::commit::Commit;
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;

/// Signs a new commit, if the user wants that. A signature that it has goes: it is of another commit.
pub fn sign(repo: &Repo, commit: &mut Commit) -> Result<(), RepoError> {
    commit.signature = None;
    let Some(signer) = repo.caller.signer.get() else {
        return Ok(());
    };
    let statement = commit.statement();
    let statement = statement.map_err(|e| RepoError::Text(e.to_string()))?;
    let signature = signer(&statement).map_err(RepoError::Unsigned)?;
    commit.signature = Some(signature.encode());
    Ok(())
}
