//! Small changes of a root that free nothing else: what gc could do, without its walk.

use super::access::BucketAccess;
use super::attempt_note::AttemptNote;
use super::drive::Drive;
use super::error::PushError;
use crate::machines::{Collect, CollectEnd, Limits, Mark, MarkResult, Stamp, Step};
use dmv_core::store::random_bytes;

/// Publishes what `marked` says of the newest root. It is called again if another device has replaced that
/// root.
pub fn amend(
    with: &BucketAccess<'_>,
    stamp: &Stamp,
    marked: &mut dyn FnMut(&Mark) -> MarkResult,
) -> Result<CollectEnd, PushError> {
    let stamp = Stamp {
        id: random_bytes(),
        ..stamp.clone()
    };
    let drive = Drive {
        operation: stamp.id,
        // Run again, gc does what is left.
        note: &mut AttemptNote::none(),
    };
    let mut machine = Collect::new(stamp, 0, None, Limits::default());
    let first = Step::Ask(machine.start());
    let mut client = with.client();
    drive.run(&mut client, &mut machine, first, &mut |_, machine, mark| {
        Ok(machine.marked(Some(marked(&mark)), &mut random_bytes))
    })
}
