//! An operation decodes or is refused; what decodes has these bytes and no others.
#![no_main]

use dmv_core::refs::{Operation, newest_chain};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(operation) = Operation::decode(data) else {
        return;
    };
    assert_eq!(operation.encode(), data);
    // An operation that names itself as its predecessor must not be followed for ever.
    let chain = newest_chain(vec![operation.clone(), operation]);
    assert!(chain.len() <= 2);
});
