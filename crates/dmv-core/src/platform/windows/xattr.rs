//! Extended attributes: files of Windows have streams instead, which DMV leaves alone.

use crate::platform::UserAttributes;
use std::fs::File;
use std::io;

pub fn has_attributes(_: &File) -> bool {
    false
}

pub fn user_attributes(
    _: &File,
    _: &dyn Fn(&[u8]) -> bool,
    _: usize,
) -> io::Result<Option<UserAttributes>> {
    Ok(None)
}

pub fn set_attribute(_: &File, _: &str, _: &[u8]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
