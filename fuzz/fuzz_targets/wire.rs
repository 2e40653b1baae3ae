//! Frames and messages decode or are refused, within the limits of their fields.
#![no_main]

use dmv_core::hash::ObjectId;
use dmv_core::store::CheckedRecord;
use dmv_net::wire::{FRAME_HEAD_BYTES, Frame, MAX_FRAME_BYTES, Message, SliceSummary, objects};
use libfuzzer_sys::fuzz_target;

/// The most bytes of all bases of a frame (docs/format/pack.md).
const MAX_BASE_BYTES: usize = 8 << 20;

fuzz_target!(|data: &[u8]| {
    if let Some(head) = data.first_chunk::<FRAME_HEAD_BYTES>()
        && let Ok(len) = Frame::body_len(head)
    {
        assert!((1..MAX_FRAME_BYTES).contains(&len));
        assert!(Frame::from_parts(head, vec![0; len.min(64)]).is_ok());
    }
    if let Some(held) = SliceSummary::decode(data) {
        assert_eq!(SliceSummary::decode(&held.encode()), Some(held));
    }
    if let Ok(message) = Message::decode(data) {
        if let Message::Hello(hello) = &message {
            let _ = (hello.held(), hello.patience_millis());
        }
        let Frame::Message(bytes) = message.frame() else {
            panic!("a message is sent as one");
        };
        assert_eq!(Message::decode(&bytes), Ok(message));
    }
    let (mut bases, mut read) = (0, 0);
    let mut base = |_: &ObjectId, out: &mut Vec<u8>| {
        (bases, read) = (bases + 1, read + data.len());
        out.extend(data);
        Ok::<bool, ()>(bases % 16 != 0)
    };
    let _ = CheckedRecord::with_bases(data.to_vec(), &mut base);
    assert!(bases <= 64 && read <= MAX_BASE_BYTES + data.len());
    let bytes: usize = objects(data).flatten().map(|(_, bytes)| bytes.len()).sum();
    assert!(bytes <= data.len());
});
