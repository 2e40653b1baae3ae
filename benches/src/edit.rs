//! The edits between commits: small changes of known size, seeded like the corpora.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::{Context, Result};

use crate::prng::Prng;

/// Bytes overwritten or inserted.
pub const EDIT_BYTES: u64 = 1024;

/// Overwrites [`EDIT_BYTES`] in the middle, in place (all of a smaller file).
pub fn overwrite_middle(path: &Path, seed: u64) -> Result<()> {
    let edit = || -> io::Result<()> {
        let mut file = OpenOptions::new().read(true).write(true).open(path)?;
        let len = file.metadata()?.len();
        let n = len.min(EDIT_BYTES);
        file.seek(SeekFrom::Start((len - n) / 2))?;
        file.write_all(&random(n, seed))
    };
    edit().with_context(|| format!("overwrite in {}", path.display()))
}

/// Inserts [`EDIT_BYTES`] 4 KiB from the start (in the middle of a file below 8 KiB). The file is
/// written anew and takes the old one's place, as an editor does it.
pub fn insert_near_start(path: &Path, seed: u64) -> Result<()> {
    let edit = || -> io::Result<()> {
        let temporary = path.with_added_extension("edit");
        let mut from = File::open(path)?;
        let meta = from.metadata()?;
        let mut to = File::create_new(&temporary)?;
        io::copy(&mut (&from).take((meta.len() / 2).min(4096)), &mut to)?;
        to.write_all(&random(EDIT_BYTES, seed))?;
        io::copy(&mut from, &mut to)?;
        to.set_permissions(meta.permissions())?;
        fs::rename(&temporary, path)
    };
    edit().with_context(|| format!("insert into {}", path.display()))
}

/// Overwrites a 1,024th of the file (at least a byte) a quarter from its start, in place.
pub fn overwrite_a_1024th(path: &Path, seed: u64) -> Result<()> {
    let edit = || -> io::Result<()> {
        let mut file = OpenOptions::new().read(true).write(true).open(path)?;
        let len = file.metadata()?.len();
        let at = SeekFrom::Start(len / 4);
        let mut old = [0];
        file.seek(at)?;
        file.read_exact(&mut old)?;
        let mut new = random((len / 1024).max(1), seed);
        // A single random byte could be the old one, and nothing would have changed.
        new[0] = !old[0];
        file.seek(at)?;
        file.write_all(&new)
    };
    edit().with_context(|| format!("overwrite in {}", path.display()))
}

/// Changes the byte at `offset`, in place.
pub fn change_byte(path: &Path, offset: u64) -> Result<()> {
    let edit = || -> io::Result<()> {
        let mut file = OpenOptions::new().read(true).write(true).open(path)?;
        let mut byte = [0];
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(&mut byte)?;
        file.seek(SeekFrom::Start(offset))?;
        file.write_all(&[!byte[0]])
    };
    edit().with_context(|| format!("change a byte of {}", path.display()))
}

/// Appends 1 % of the length (at least 10 bytes).
pub fn append_one_percent(path: &Path, seed: u64) -> Result<()> {
    let edit = || -> io::Result<()> {
        let mut file = OpenOptions::new().append(true).open(path)?;
        let n = (file.metadata()?.len() / 100).max(10);
        file.write_all(&random(n, seed))
    };
    edit().with_context(|| format!("append to {}", path.display()))
}

fn random(n: u64, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; n as usize];
    Prng::new(seed).fill(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_change_what_they_say() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("f");
        for len in [0, 1, 1023, 1024, 1025, 100_000] {
            let old = vec![b'x'; len];
            fs::write(&path, &old)?;
            overwrite_middle(&path, 1)?;
            let new = fs::read(&path)?;
            assert_eq!(new.len(), len);
            let changed = new.iter().filter(|b| **b != b'x').count();
            assert!(
                changed <= 1024 && changed * 100 >= len.min(1024) * 90,
                "{len}"
            );

            fs::write(&path, &old)?;
            insert_near_start(&path, 1)?;
            let new = fs::read(&path)?;
            assert_eq!(new.len(), len + 1024);
            let at = (len / 2).min(4096);
            assert!(new[..at] == old[..at] && new[at + 1024..] == old[at..]);

            fs::write(&path, &old)?;
            append_one_percent(&path, 1)?;
            let new = fs::read(&path)?;
            assert_eq!(new.len(), len + (len / 100).max(10));
            assert!(new[..len] == old);
        }
        Ok(())
    }

    #[test]
    fn edits_of_the_scaling_experiments_always_change_something() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("f");
        for len in [1, 2, 1024, 100_000] {
            for seed in 0..40 {
                let old = random(len, seed);
                fs::write(&path, &old)?;
                overwrite_a_1024th(&path, seed)?;
                let new = fs::read(&path)?;
                let (at, n) = ((len / 4) as usize, (len / 1024).max(1) as usize);
                assert!(new[at] != old[at] && new[..at] == old[..at]);
                assert_eq!(new[at + n..], old[at + n..], "{len}");
            }
        }
        fs::write(&path, [7; 1024])?;
        change_byte(&path, 256)?;
        let new = fs::read(&path)?;
        let changed: Vec<usize> = (0..1024).filter(|at| new[*at] != 7).collect();
        assert_eq!(changed, [256]);
        Ok(())
    }
}
