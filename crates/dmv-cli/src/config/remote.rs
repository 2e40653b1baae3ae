//! Settings of one remote: `remote.NAME.endpoint`.

use super::{Key, Kind, REMOTES, Scope, key};
use dmv_core::refs::check_ref_name;
use std::borrow::Cow;

/// What may be set for one remote, a bucket: `remote.NAME.endpoint`.
const OF_REMOTE: [(&str, Kind, &str); 4] = [
    ("endpoint", Kind::Endpoint, "where the store of a bucket is"),
    ("region", Kind::Text, "the region of a bucket"),
    ("profile", Kind::Text, "the AWS profile whose keys to use"),
    (
        "path-style",
        Kind::Bool,
        "whether the bucket stands in the path",
    ),
];

/// The setting of a remote, if `name` is one.
pub(super) fn remote_key(name: &str) -> Option<Key> {
    let (remote, setting) = of_remote(name)?;
    let found = OF_REMOTE.iter().find(|(known, ..)| *known == setting)?;
    let is_name = check_ref_name(remote).is_ok() && !remote.contains('/');
    is_name.then(|| Key {
        name: Cow::Owned(name.to_owned()),
        ..key("", found.1, Scope::Repository, None, found.2)
    })
}

/// The remote and the setting of `remote.NAME.SETTING`. A name may have dots.
pub fn of_remote(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix(REMOTES)?
        .strip_prefix('.')?
        .rsplit_once('.')
}
