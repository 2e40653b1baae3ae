//! An object decodes or is refused; what decodes has these bytes and no others.
#![no_main]

use dmv_core::object::commit::Commit;
use dmv_core::object::conflict::Conflict;
use dmv_core::object::list::ListNode;
use dmv_core::object::signature::Signature;
use dmv_core::object::tree::{ModifiedTime, Node, TreeEntry, Xattrs};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(node) = ListNode::decode(data) {
        assert_eq!(node.encode(), data);
    }
    if let Ok(node) = Node::decode(data) {
        assert_eq!(node.encode().expect("what decodes can be encoded"), data);
        if let Node::Leaf(entries) = node {
            entries.into_iter().for_each(turn_attributes);
        }
    }
    if let Ok(conflict) = Conflict::decode(data) {
        assert_eq!(
            conflict.encode().expect("what decodes can be encoded"),
            data
        );
    }
    if let Ok(commit) = Commit::decode(data) {
        assert_eq!(commit.encode().expect("what decodes can be encoded"), data);
        let statement = commit.statement().expect("what decodes can be signed");
        let bytes = commit.signature.unwrap_or_default();
        if let Some(signature) = Signature::decode(&bytes) {
            assert_eq!(signature.encode(), bytes);
            assert!(signature.key().len() <= bytes.len());
            signature.is_by_device(&statement);
        }
    }
});

/// Whatever other attributes an entry has, those of private files, times and extended attributes can be set and
/// taken away again.
fn turn_attributes(entry: TreeEntry) {
    let time = entry.modified();
    let mut other = time.unwrap_or(ModifiedTime {
        seconds: 0,
        nanos: 0,
    });
    other.nanos = (other.nanos + 1) % 1_000_000_000;
    let is_file = entry.kind.is_blob();
    let changed = entry.clone().with_modified(Some(other));
    changed.check().expect("the attributes are valid");
    assert_eq!(changed.modified(), Some(other).filter(|_| is_file));
    assert_eq!(changed.is_private(), entry.is_private());
    let without = changed.with_modified(None);
    without.check().expect("the attributes are valid");
    assert_eq!(without.modified(), None);

    let (had, some) = (
        entry.xattrs(),
        Xattrs::new([("a".to_owned(), vec![7; 500])]),
    );
    let some = some.expect("it fits");
    let changed = entry.clone().with_xattrs(&some);
    changed.check().expect("the attributes are valid");
    assert_eq!(changed.is_private(), entry.is_private());
    assert_eq!(changed.modified(), entry.modified());
    assert!(!is_file || changed.xattrs() == some);
    let back = changed.with_xattrs(&had);
    back.check().expect("the attributes are valid");
    assert_eq!(back.xattrs(), had);

    let private = entry.is_private();
    let turned = entry.with_privacy(!private);
    turned.check().expect("the attributes are valid");
    assert_eq!(turned.is_private(), !private && turned.kind.is_blob());
    let back = turned.with_privacy(private);
    back.check().expect("the attributes are valid");
    assert_eq!(back.is_private(), private);
}
