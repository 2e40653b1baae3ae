//! An object store in memory, which counts its reads.
//!
//! It is for tests, and for trees that are built only to be examined. A shared reference
//! (`&MemObjects`) can write, too.

use super::{ObjectError, ObjectRead, ObjectType, ObjectWrite};
use crate::hash::ObjectId;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Objects = HashMap<(ObjectType, ObjectId), Arc<[u8]>>;

/// An object store in memory.
#[derive(Debug, Default)]
pub struct MemObjects {
    objects: Mutex<Objects>,
    /// The number of objects, so that many threads can see at no cost that there are none.
    len: AtomicUsize,
    /// The bytes of all objects that were ever added.
    bytes: AtomicU64,
    reads: AtomicU64,
}

impl MemObjects {
    /// Returns an empty store.
    pub fn new() -> MemObjects {
        MemObjects::default()
    }

    /// Returns how many reads there were since the last reset, of present and absent objects.
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Counts reads from zero again.
    pub fn reset_reads(&self) {
        self.reads.store(0, Ordering::Relaxed);
    }

    /// Returns the number of objects. Takes no lock.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// Returns whether there are no objects. Takes no lock.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of bytes that were added.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the type and id of every object.
    pub fn ids(&self) -> Vec<(ObjectType, ObjectId)> {
        let mut ids: Vec<_> = self.lock().keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// Removes one object. Returns whether it was present.
    pub fn remove(&self, ty: ObjectType, id: &ObjectId) -> bool {
        let mut objects = self.lock();
        let was_present = objects.remove(&(ty, *id)).is_some();
        self.len.store(objects.len(), Ordering::Release);
        was_present
    }

    /// Stores `bytes` as an object of type `ty`, through a shared reference.
    pub fn insert(&self, ty: ObjectType, bytes: &[u8]) -> ObjectId {
        let id = ty.id_of(bytes);
        let mut objects = self.lock();
        objects.entry((ty, id)).or_insert_with(|| {
            self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            bytes.into()
        });
        self.len.store(objects.len(), Ordering::Release);
        id
    }

    fn lock(&self) -> MutexGuard<'_, Objects> {
        // Each change of the map is one call, so a panic elsewhere cannot leave it half made.
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ObjectRead for MemObjects {
    fn read(&self, ty: ObjectType, id: &ObjectId) -> Result<Option<Arc<[u8]>>, ObjectError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        Ok(self.lock().get(&(ty, *id)).cloned())
    }
}

impl ObjectWrite for MemObjects {
    fn put(&mut self, ty: ObjectType, bytes: &[u8]) -> Result<ObjectId, ObjectError> {
        Ok(self.insert(ty, bytes))
    }
}

impl ObjectWrite for &MemObjects {
    fn put(&mut self, ty: ObjectType, bytes: &[u8]) -> Result<ObjectId, ObjectError> {
        Ok(self.insert(ty, bytes))
    }
}

/// Reads the objects that were just made, and all others from another reader.
pub struct Both<'a> {
    /// The objects in memory.
    pub made: &'a MemObjects,
    /// The reader of all others.
    pub reader: &'a dyn ObjectRead,
}

impl ObjectRead for Both<'_> {
    fn read(&self, ty: ObjectType, id: &ObjectId) -> Result<Option<Arc<[u8]>>, ObjectError> {
        match self.made.read(ty, id)? {
            Some(bytes) => Ok(Some(bytes)),
            None => self.reader.read(ty, id),
        }
    }

    fn holds(&self, ty: ObjectType, id: &ObjectId) -> Result<bool, ObjectError> {
        Ok(self.made.holds(ty, id)? || self.reader.holds(ty, id)?)
    }
}

/// Keeps objects in memory so that they can be read at once. The writer gets them, too.
pub(crate) struct Tee<'a> {
    /// The objects in memory.
    pub made: &'a MemObjects,
    /// The writer that stores them.
    pub writer: &'a mut dyn ObjectWrite,
}

impl ObjectWrite for Tee<'_> {
    fn put(&mut self, ty: ObjectType, bytes: &[u8]) -> Result<ObjectId, ObjectError> {
        self.made.insert(ty, bytes);
        self.writer.put(ty, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_objects_are_counted() {
        let mem = MemObjects::new();
        let id = mem.insert(ObjectType::Chunk, b"x");
        assert_eq!(mem.insert(ObjectType::Chunk, b"x"), id);
        assert!(!mem.is_empty());
        assert_eq!(mem.len(), 1);
        let found = mem.read(ObjectType::Chunk, &id).expect("memory answers");
        assert_eq!(found.as_deref(), Some(&b"x"[..]));
        assert!(matches!(
            mem.require(ObjectType::Tree, &id),
            Err(ObjectError::Missing { .. })
        ));
        assert_eq!(mem.reads(), 2);
        assert!(mem.remove(ObjectType::Chunk, &id) && mem.is_empty());
    }
}
