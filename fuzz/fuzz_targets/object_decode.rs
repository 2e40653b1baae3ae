//! An object decodes or is refused; what decodes has these bytes and no others.
#![no_main]

use dmv_core::object::commit::Commit;
use dmv_core::object::conflict::Conflict;
use dmv_core::object::list::ListNode;
use dmv_core::object::tree::Node;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(node) = ListNode::decode(data) {
        assert_eq!(node.encode(), data);
    }
    if let Ok(node) = Node::decode(data) {
        assert_eq!(node.encode().expect("what decodes can be encoded"), data);
    }
    if let Ok(conflict) = Conflict::decode(data) {
        assert_eq!(
            conflict.encode().expect("what decodes can be encoded"),
            data
        );
    }
    if let Ok(commit) = Commit::decode(data) {
        assert_eq!(commit.encode().expect("what decodes can be encoded"), data);
    }
});
