//! The records of a worktree that decode encode to the same bytes.
#![no_main]

use dmv_core::repo::{PathNotes, Steps};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(notes) = PathNotes::decode(data) {
        assert_eq!(notes.encode(), data);
    }
    if let Ok(steps) = Steps::decode(data) {
        assert_eq!(steps.encode(), data);
    }
});
