//! Settings of one remote: `remote.NAME.endpoint`.

use super::{Key, Kind, REMOTES, Scope, key};
use dmv_core::refs::check_ref_name;
use std::borrow::Cow;

/// What may be set for one remote: `remote.NAME.endpoint`, of a bucket.
const OF_REMOTE: [(&str, Kind, &str); 5] = [
    (
        MIRROR,
        Kind::Bool,
        "whether the branches of this bare repository follow the remote's: true or false",
    ),
    ("endpoint", Kind::Endpoint, "where the store of a bucket is"),
    ("region", Kind::Text, "the region of a bucket"),
    ("profile", Kind::Text, "the AWS profile whose keys to use"),
    (
        "path-style",
        Kind::Bool,
        "whether the bucket stands in the path",
    ),
];

/// The setting that makes a bare repository follow a remote.
pub const MIRROR: &str = "mirror";

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

/// The settings of the remote `name`, and what they are for.
pub fn keys_of_remote(name: &str) -> impl Iterator<Item = (String, &'static str)> {
    let full = move |setting| format!("{REMOTES}.{name}.{setting}");
    OF_REMOTE
        .iter()
        .map(move |(setting, _, about)| (full(setting), *about))
}

/// The remote and the setting of `remote.NAME.SETTING`. A name may have dots.
pub fn of_remote(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix(REMOTES)?
        .strip_prefix('.')?
        .rsplit_once('.')
}

/// Whether a value looks like the address of a server; who uses it parses it.
pub(super) fn is_web_address(value: &str) -> bool {
    let rest = value.strip_prefix("https://");
    let rest = rest.or_else(|| value.strip_prefix("http://"));
    let host = rest.and_then(|rest| rest.split(['/', ':']).next());
    // A password, or a key in the query, would be printed and sent about with the address.
    host.is_some_and(|host| !host.is_empty())
        && !value.contains(|c: char| c.is_whitespace() || "@?#".contains(c))
}
