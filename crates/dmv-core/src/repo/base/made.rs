//! Objects that exist only while a command runs, to show conflicts as files. They are never stored.
//!
//! A merge may make as many conflicts as there are files, each with a text of up to some megabytes.
//! So only the last objects are in memory. Earlier ones are in a temporary file without a name.

use crate::fsutil::SafeDir;
use crate::hash::ObjectId;
use crate::object::{ObjectError, ObjectRead, ObjectType, ObjectWrite};
use crate::repo::base::spill::SpilledBytes;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The bytes of objects that are kept in memory.
const KEPT_BYTES: usize = 2 << 20;

/// Objects that are not stored.
#[derive(Debug)]
pub struct MadeObjects {
    /// The directory of the temporary file. Without one, all objects are kept in memory.
    dir: Option<PathBuf>,
    made: Mutex<ObjectTable>,
    /// Whether there are any, so that many threads can see at no cost that there are none.
    any: AtomicBool,
}

#[derive(Debug, Default)]
struct ObjectTable {
    places: HashMap<(ObjectType, ObjectId), (u64, u32)>,
    bytes: SpilledBytes,
    /// Whether the temporary file cannot be written.
    is_stuck: bool,
}

impl MadeObjects {
    /// Returns an empty collection, which may create a temporary file in `dir`.
    pub fn new(dir: Option<PathBuf>) -> MadeObjects {
        MadeObjects {
            dir,
            made: Mutex::default(),
            any: AtomicBool::new(false),
        }
    }

    /// Returns whether there are no objects. Takes no lock.
    pub fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Acquire)
    }

    fn insert(&self, ty: ObjectType, bytes: &[u8]) -> Result<ObjectId, ObjectError> {
        let id = ty.id_of(bytes);
        let len = u32::try_from(bytes.len()).map_err(|e| ObjectError::Store(Box::new(e)))?;
        let mut made = self.lock();
        if made.places.contains_key(&(ty, id)) {
            return Ok(id);
        }
        let offset = made.bytes.append(bytes);
        made.places.insert((ty, id), (offset, len));
        if made.bytes.kept_bytes() >= KEPT_BYTES && !made.is_stuck {
            made.is_stuck = !self.spill(&mut made);
        }
        self.any.store(true, Ordering::Release);
        Ok(id)
    }

    /// Moves the bytes to the file. Returns whether this was possible: if not, they stay in memory.
    fn spill(&self, made: &mut ObjectTable) -> bool {
        let dir = self.dir.as_deref().map(SafeDir::open_root);
        dir.is_some_and(|dir| dir.is_ok_and(|dir| made.bytes.spill(&dir).is_ok()))
    }

    fn lock(&self) -> MutexGuard<'_, ObjectTable> {
        // An object is listed after its bytes are there, so a panic leaves nothing half made.
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ObjectRead for MadeObjects {
    fn read(&self, ty: ObjectType, id: &ObjectId) -> Result<Option<Arc<[u8]>>, ObjectError> {
        let made = self.lock();
        let Some((offset, len)) = made.places.get(&(ty, *id)) else {
            return Ok(None);
        };
        let bytes = made.bytes.read(*offset, *len as usize);
        let bytes = bytes.map_err(|e| ObjectError::Store(Box::new(e)))?;
        if ty.id_of(&bytes) != *id {
            let why = "a temporary file does not have its bytes any more".to_owned();
            return Err(ObjectError::Damaged { id: *id, ty, why });
        }
        Ok(Some(bytes.into()))
    }

    fn holds(&self, ty: ObjectType, id: &ObjectId) -> Result<bool, ObjectError> {
        Ok(self.lock().places.contains_key(&(ty, *id)))
    }
}

impl ObjectWrite for &MadeObjects {
    fn put(&mut self, ty: ObjectType, bytes: &[u8]) -> Result<ObjectId, ObjectError> {
        self.insert(ty, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::tests::NAMES_OF_UNNAMED;

    type Outcome = Result<(), Box<dyn std::error::Error>>;

    /// Inserts more than memory keeps, and reads all of it.
    fn fill_and_read(made: &MadeObjects) -> Outcome {
        let object = |n: usize| vec![n as u8; (1 << 20) + n];
        let mut ids = Vec::new();
        for n in 0..3 * (KEPT_BYTES >> 20) {
            ids.push((&mut &*made).put(ObjectType::Chunk, &object(n))?);
        }
        for (n, id) in ids.iter().enumerate() {
            assert!(made.holds(ObjectType::Chunk, id)?);
            let found = made.read(ObjectType::Chunk, id)?;
            assert_eq!(found.as_deref(), Some(&object(n)[..]), "{n}");
        }
        assert!(made.read(ObjectType::Tree, &ids[0])?.is_none());
        Ok(())
    }

    #[test]
    fn objects_come_back_from_memory_and_from_the_file() -> Outcome {
        let temp = tempfile::tempdir()?;
        let made = MadeObjects::new(Some(temp.path().to_owned()));
        assert!(made.is_empty());
        fill_and_read(&made)?;
        assert!(!made.is_empty() && made.lock().bytes.kept_bytes() < KEPT_BYTES);
        assert!(NAMES_OF_UNNAMED.contains(&std::fs::read_dir(temp.path())?.count()));
        Ok(())
    }

    #[test]
    fn objects_stay_in_memory_where_no_file_can_be_created() -> Outcome {
        for dir in [None, Some(PathBuf::from("absent/absent"))] {
            let made = MadeObjects::new(dir);
            fill_and_read(&made)?;
            assert!(made.lock().bytes.kept_bytes() > 2 * KEPT_BYTES);
        }
        Ok(())
    }
}
