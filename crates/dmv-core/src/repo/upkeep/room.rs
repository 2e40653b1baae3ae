//! Whether a failure means that the disk has no room.

use crate::repo::base::error::RepoError;
use std::error::Error;
use std::io;

/// Returns whether there was no room for a file. Then what needs no copy can still be freed.
pub(super) fn is_no_room(e: &RepoError) -> bool {
    if let RepoError::Refs(e) = e
        && e.is_disk_full()
    {
        return true;
    }
    let mut next: Option<&(dyn Error + 'static)> = Some(e);
    while let Some(e) = next {
        if let Some(e) = e.downcast_ref::<io::Error>() {
            use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
            return matches!(e.kind(), StorageFull | QuotaExceeded | FileTooLarge);
        }
        next = e.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::PathError;
    use crate::store::StoreError;
    use std::path::Path;

    #[test]
    fn a_full_disk_is_recognised_below_other_errors() {
        let of = |kind: io::ErrorKind| {
            let e = PathError::new("write", Path::new("a.pack"), kind);
            is_no_room(&StoreError::Io(e).into())
        };
        assert!(of(io::ErrorKind::StorageFull) && of(io::ErrorKind::QuotaExceeded));
        assert!(!of(io::ErrorKind::PermissionDenied));
        assert!(!is_no_room(&RepoError::Cancelled));
    }
}
