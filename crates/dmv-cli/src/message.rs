//! The messages that users give for commits and stashes.

use crate::failure::Failure;
use dmv_core::object::commit::tidy_message;

/// The message that an option or a file gives, as a commit stores it. An empty one is refused.
pub fn given(text: &str) -> Result<String, Failure> {
    if text.contains('\0') {
        return Err(Failure::usage(
            "the message has a NUL byte; nothing was done",
        ));
    }
    tidy_message(text).ok_or_else(|| {
        let failure = Failure::usage("the message is empty; nothing was done");
        failure.hint("-m 'what was changed, and why'")
    })
}
