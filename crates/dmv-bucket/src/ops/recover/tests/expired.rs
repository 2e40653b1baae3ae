//! A lost root of a bucket in which files have expired.

use super::*;
use crate::format::{Expirations, View};
use crate::work::gc::{Expirer, expire};
use crate::work::push::PushError;
use dmv_core::repo::Expiry;
use std::collections::BTreeSet;

/// Lets one file expire.
struct OneFile(ObjectId);

impl OneFile {
    fn listed(&self) -> Expirations {
        let why = Expiry {
            at: 1_700_000_000,
            rule: "last:1".to_owned(),
            pattern: "a".to_owned(),
        };
        [(why, [self.0].into())].into()
    }
}

impl Expirer for OneFile {
    fn choose(
        &mut self,
        _: &View,
        _: &BTreeSet<ObjectId>,
    ) -> Result<Option<Expirations>, PushError> {
        Ok(Some(self.listed()))
    }

    fn confirm(&mut self) -> Result<(), PushError> {
        Ok(())
    }
}

/// The only chunk of a file whose bytes nothing else has.
fn file(seed: u64) -> (Vec<u8>, ObjectId) {
    let bytes = noise(seed, 50_000);
    let id = ObjectType::Chunk.id_of(&bytes);
    (bytes, id)
}

#[test]
fn what_has_expired_is_no_loss_after_a_recovery_and_what_is_there_has_come_back() -> Outcome {
    let mut world = World::new(1)?;
    let ((first, gone), (second, stays)) = (file(7001), file(7003));
    world.push(&[("a", first)])?;
    world.push(&[("a", second)])?;
    let options = FreeOptions {
        stamp: stamp(),
        forget_before: None,
        young_from: i64::MAX,
        joins: Joins::Wasted,
        purge: None,
        dry_run: false,
        limits: Limits::default(),
    };
    let known = world.root()?;
    let with = BucketAccess::new(&*world.files, world.ada.repo.store(), &world.ada.job, None);
    expire(&with, Some(known), &options, &mut OneFile(gone))?;
    // A page of an expiry that has never landed, about a file that is at a tip.
    let (root, _) = world.root()?;
    assert!(!content(&world.files, &root)?.has(&gone));
    let (page, bytes) = Page::Expired(OneFile(stays).listed()).encode(Name([8; 16]))?;
    world.files.set(&page.name.path(root.repository), bytes);
    world.files.remove(ROOT);
    let report = world.look(None)?;
    let state = report.states.first().ok_or("a state")?;
    assert_eq!(state.flaw, None);
    world.recover(None, Some(&state.id))??;
    let (root, _) = world.root()?;
    let [page] = root.expired[..] else {
        return Err(format!("{:?}", root.expired).into());
    };
    let bytes = world.files.content(&page.name.path(root.repository));
    let page = Page::decode(&bytes.ok_or("a page")?)?;
    assert_eq!(page, Page::Expired(OneFile(gone).listed()));
    Ok(())
}
