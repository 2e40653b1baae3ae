//! Bytes that are appended and read back, and that may be too many for memory.
//!
//! The last bytes are in memory. Earlier ones are in a temporary file without a name. The module
//! does not know what the bytes mean: its callers check them.

use crate::fsutil::SafeDir;
use crate::path::PathError;
use crate::platform::{read_exact_at, write_all_at};
use std::fs::File;
use std::io;

/// A sequence of bytes.
#[derive(Debug, Default)]
pub struct SpilledBytes {
    /// The last bytes. Earlier ones are in `file`.
    kept: Vec<u8>,
    filed_bytes: u64,
    file: Option<Spill>,
}

/// A file without a name, opened twice.
#[derive(Debug)]
struct Spill {
    to: File,
    from: File,
}

impl SpilledBytes {
    /// Returns the number of bytes in memory.
    pub fn kept_bytes(&self) -> usize {
        self.kept.len()
    }

    /// Appends bytes, and returns their offset.
    pub fn append(&mut self, bytes: &[u8]) -> u64 {
        let offset = self.filed_bytes + self.kept.len() as u64;
        self.kept.extend_from_slice(bytes);
        offset
    }

    /// Moves the bytes in memory to a temporary file, which may have to be created in `dir`. If this
    /// fails, they stay in memory.
    pub fn spill(&mut self, dir: &SafeDir) -> Result<(), PathError> {
        let file = match self.file.take() {
            Some(file) => file,
            None => Spill::create(dir)?,
        };
        let written = write_all_at(&file.to, &self.kept, self.filed_bytes);
        self.file = Some(file);
        written.map_err(|e| PathError::new("write", dir.path_of(b"a temporary file"), e))?;
        self.filed_bytes += self.kept.len() as u64;
        self.kept.clear();
        Ok(())
    }

    /// Returns the `len` bytes at `offset`, which one call has appended.
    pub fn read(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        if let Some(at) = offset.checked_sub(self.filed_bytes) {
            let kept = self.kept.get(at as usize..at as usize + len);
            return Ok(kept.ok_or(io::ErrorKind::UnexpectedEof)?.to_vec());
        }
        let file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let mut bytes = vec![0; len];
        read_exact_at(&file.from, &mut bytes, offset)?;
        Ok(bytes)
    }
}

impl Spill {
    fn create(dir: &SafeDir) -> Result<Spill, PathError> {
        let (to, name) = dir.create_temp(false)?;
        let from = dir.open_file_read(&name);
        dir.unlink(&name)?;
        let (from, _) = from?;
        Ok(Spill { to, from })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::tests::NAMES_OF_UNNAMED;

    #[test]
    fn bytes_come_back_from_memory_and_from_the_file() -> Result<(), Box<dyn std::error::Error>> {
        let temp = tempfile::tempdir()?;
        let dir = SafeDir::open_root(temp.path())?;
        let mut bytes = SpilledBytes::default();
        let mut known = Vec::new();
        for n in 0..100u8 {
            let part = vec![n; usize::from(n)];
            known.push((bytes.append(&part), part));
            if n % 30 == 29 {
                bytes.spill(&dir)?;
                assert_eq!(bytes.kept_bytes(), 0);
            }
        }
        assert!(NAMES_OF_UNNAMED.contains(&std::fs::read_dir(temp.path())?.count()));
        for (offset, part) in known {
            assert_eq!(bytes.read(offset, part.len())?, part);
        }
        let end = bytes.append(b"end");
        assert!(bytes.read(end, 4).is_err());
        Ok(())
    }

    #[test]
    fn bytes_stay_in_memory_where_no_file_can_be_created() -> Result<(), Box<dyn std::error::Error>>
    {
        let temp = tempfile::tempdir()?;
        let dir = SafeDir::open_root(temp.path())?;
        std::fs::remove_dir(temp.path())?;
        let mut bytes = SpilledBytes::default();
        let offset = bytes.append(b"kept");
        assert!(bytes.spill(&dir).is_err());
        assert_eq!(bytes.read(offset, 4)?, b"kept");
        assert_eq!(bytes.append(b"x"), offset + 4);
        Ok(())
    }
}
