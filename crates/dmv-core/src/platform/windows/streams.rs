//! The standard streams.

use super::calls::set_streams;
use super::file::same_file;
use std::fs::File;
use std::io;
use std::os::windows::io::AsHandle;

/// Returns the first two, and puts an empty file and the third in their places.
pub fn take_streams(
    input: &impl AsHandle,
    output: &impl AsHandle,
    error: &impl AsHandle,
) -> io::Result<[File; 2]> {
    let taken = [same_file(input)?, same_file(output)?];
    set_streams(File::open("NUL")?, same_file(error)?)?;
    Ok(taken)
}
