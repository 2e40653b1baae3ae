//! The standard streams of this process.

use super::system;
use std::fs::File;
use std::io;

/// Standard input and output, taken away from everything else in the process.
pub struct TakenStreams {
    /// What was standard input.
    pub input: File,
    /// What was standard output.
    pub output: File,
}

/// Takes the standard streams `input` and `output`, for messages that nothing may disturb. After that, standard input is empty, and what is
/// written to standard output goes to `error`, which is standard error; also for programs that are started.
///
/// # Errors
///
/// Those of the system's calls.
pub fn take_streams(
    input: impl system::AsHandle,
    output: impl system::AsHandle,
    error: impl system::AsHandle,
) -> io::Result<TakenStreams> {
    let [input, output] = system::take_streams(&input, &output, &error)?;
    Ok(TakenStreams { input, output })
}
