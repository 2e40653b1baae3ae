//! The standard streams.

use rustix::stdio;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;

/// Returns the first two, and puts an empty file and the third in their places.
pub fn take_streams(
    input: &impl AsFd,
    output: &impl AsFd,
    error: &impl AsFd,
) -> io::Result<[File; 2]> {
    let [input, output] = [input.as_fd(), output.as_fd()].map(|fd| fd.try_clone_to_owned());
    let taken = [File::from(input?), File::from(output?)];
    stdio::dup2_stdin(File::open("/dev/null")?)?;
    stdio::dup2_stdout(error)?;
    Ok(taken)
}
