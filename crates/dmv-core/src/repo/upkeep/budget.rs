//! The limit on the repository's size. It is a value of the view; the program checks it before and
//! while a command stores something.

use crate::refs::Effect;
use crate::repo::base::error::{PlaceError, RepoError};
use crate::repo::base::handle::Handle;
use crate::repo::base::keys::BUDGET;
use crate::repo::base::publish::{OperationRequest, change, publish};

/// Returns the most bytes that the repository is to take on disk, if there is a limit.
pub(in crate::repo) fn budget(repo: &Handle) -> Result<Option<u64>, RepoError> {
    let Some(value) = repo.refs.get(BUDGET)? else {
        return Ok(None);
    };
    let text = std::str::from_utf8(&value).ok();
    let bytes = text.and_then(|text| text.parse().ok());
    let bytes = bytes.ok_or_else(|| {
        RepoError::Place(PlaceError::Damaged {
            path: repo.refs.path().to_owned(),
            why: format!("{BUDGET} is invalid"),
        })
    })?;
    Ok(Some(bytes))
}

/// Sets or removes the limit. Returns the former one.
pub(in crate::repo) fn set_budget(
    repo: &Handle,
    bytes: Option<u64>,
    request: OperationRequest,
) -> Result<Option<u64>, RepoError> {
    let old = budget(repo)?;
    if old != bytes {
        let value = bytes.map(|bytes| bytes.to_string().into_bytes());
        let changes = vec![change(&repo.refs, BUDGET.to_owned(), value)?];
        publish(repo, request, None, changes, Effect::Kept)?;
    }
    Ok(old)
}
