//! Extended attributes of open files: those that users and their programs give to files, and no others.

use super::system;
use std::fs::File;
use std::io;

/// The extended attributes of a file that were asked for.
#[derive(Debug, Default)]
pub(crate) struct UserAttributes {
    /// Names, as users know them without a namespace, and values. No name comes twice.
    pub all: Vec<(Vec<u8>, Vec<u8>)>,
    /// Whether there are more bytes than were asked for. Then some are not in `all`.
    pub is_too_large: bool,
}

/// Returns whether a file has extended attributes that a user or a program gave it.
pub(crate) fn has_attributes(file: &File) -> bool {
    system::has_attributes(file)
}

/// Returns the attributes of a file whose names are `wanted`, up to `most` bytes. `None` if the file system
/// has no such attributes.
pub(crate) fn user_attributes(
    file: &File,
    wanted: &dyn Fn(&[u8]) -> bool,
    most: usize,
) -> io::Result<Option<UserAttributes>> {
    system::user_attributes(file, wanted, most)
}

/// Gives an attribute to a file.
pub(crate) fn set_attribute(file: &File, name: &str, value: &[u8]) -> io::Result<()> {
    system::set_attribute(file, name, value)
}
