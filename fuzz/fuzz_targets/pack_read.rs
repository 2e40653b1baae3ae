//! Packs, frames and index files made of any bytes are read or refused, and nothing panics.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    dmv_core::store::fuzzing::read_all(data);
});
