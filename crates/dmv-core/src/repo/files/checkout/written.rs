//! Fingerprints of the files that a checkout has written, until the stat cache stores them.
//!
//! The cache needs them in the order of directories, after all files are durable. There may be
//! millions, so a temporary file without a name holds what would take much memory.

use crate::fsutil::{Fingerprint, SafeDir};
use crate::hash::check;
use crate::limits::MAX_NAME_BYTES;
use crate::object::codec::{DecodeError, Decoder, put_bytes};
use crate::repo::base::spill::SpilledBytes;
use crate::worktree::statcache::Section;
use std::io;

/// The bytes that are kept in memory.
const KEPT_BYTES: usize = 1 << 20;

/// The written files as a list of runs. A run is some files of one directory.
#[derive(Debug, Default)]
pub struct WrittenFiles {
    files: usize,
    runs: Vec<Run>,
    bytes: SpilledBytes,
    /// Whether the temporary file could not be written. Then the notes are lost, and no others are
    /// made.
    is_lost: bool,
}

/// The position of a run. Directories with the same check are told apart when the run is read.
#[derive(Clone, Copy, Debug)]
struct Run {
    dir_check: u64,
    offset: u64,
    len: u32,
}

impl Run {
    fn check_of(dir: &[u8]) -> u64 {
        u64::from_le_bytes(check(&[dir]))
    }
}

/// Receives the directory, name and fingerprint of a file.
type Visit<'v> = dyn FnMut(&[u8], &[u8], Fingerprint) + 'v;

impl WrittenFiles {
    /// Returns the number of noted files.
    pub fn files(&self) -> usize {
        self.files
    }

    /// Notes files of one directory. May create a temporary file in `own`.
    ///
    /// A failure only costs time: files without a fingerprint are compared by content.
    pub fn note<'f>(
        &mut self,
        own: &SafeDir,
        dir: &[u8],
        files: impl Iterator<Item = (&'f [u8], Fingerprint)>,
    ) {
        let mut noted = Vec::new();
        put_bytes(&mut noted, dir);
        for (name, print) in files {
            put_bytes(&mut noted, name);
            noted.extend_from_slice(&print.0.to_le_bytes());
            self.files += 1;
        }
        // A plan has far too few files to reach this limit.
        let len = u32::try_from(noted.len()).unwrap_or(0);
        if !self.is_lost && len > 0 {
            self.runs.push(Run {
                dir_check: Run::check_of(dir),
                offset: self.bytes.append(&noted),
                len,
            });
        }
        if self.bytes.kept_bytes() >= KEPT_BYTES && self.bytes.spill(own).is_err() {
            *self = WrittenFiles {
                files: self.files,
                is_lost: true,
                ..WrittenFiles::default()
            };
        }
    }

    /// Sorts the runs, so that those of one directory are together.
    pub fn sort(&mut self) {
        // The sort is stable: for a file that was written twice, the last fingerprint counts.
        self.runs.sort_by_key(|run| run.dir_check);
    }

    /// Gives the written entries of the directory `dir` their fingerprints. Returns whether there
    /// were any. Needs [`sort`](Self::sort) first.
    pub fn apply(&self, dir: &[u8], section: &mut Section) -> Result<bool, WrittenError> {
        let mut any = false;
        let of = Run::check_of(dir);
        let from = self.runs.partition_point(|run| run.dir_check < of);
        for run in self.runs[from..].iter().take_while(|r| r.dir_check == of) {
            self.read(*run, &mut |found, name, print| {
                if let (true, Some(index)) = (found == dir, section.position(name)) {
                    section.set_fingerprint(index, print);
                    any = true;
                }
            })?;
        }
        Ok(any)
    }

    /// Visits all files.
    pub fn each(&self, visit: &mut Visit<'_>) -> Result<(), WrittenError> {
        self.runs.iter().try_for_each(|run| self.read(*run, visit))
    }

    fn read(&self, run: Run, visit: &mut Visit<'_>) -> Result<(), WrittenError> {
        let bytes = self.bytes.read(run.offset, run.len as usize)?;
        let mut input = Decoder::new(&bytes);
        let dir = input.bytes(u32::MAX as usize, "a path")?;
        while input.remaining() > 0 {
            let name = input.bytes(MAX_NAME_BYTES, "a name")?;
            visit(dir, name, Fingerprint(input.u64()?));
        }
        Ok(())
    }
}

/// Why the written files cannot be listed.
#[derive(Debug, thiserror::Error)]
pub enum WrittenError {
    /// The temporary file cannot be read.
    #[error("cannot read a temporary file: {0}")]
    Io(#[from] io::Error),
    /// The temporary file holds something else.
    #[error("a temporary file is damaged: {0}")]
    Damaged(#[from] DecodeError),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::tree::Kind;
    use crate::platform::tests::NAMES_OF_UNNAMED;

    type Outcome = Result<(), Box<dyn std::error::Error>>;

    fn name(n: usize) -> Vec<u8> {
        format!("{n:07}").into_bytes()
    }

    #[test]
    fn what_is_noted_in_runs_is_found_by_directory_from_memory_and_from_the_file() -> Outcome {
        let temp = tempfile::tempdir()?;
        let own = SafeDir::open_root(temp.path())?;
        let mut written = WrittenFiles::default();
        let dirs: [&[u8]; 3] = [b"", b"a", b"a/b"];
        for from in (0..300_000).step_by(1000) {
            let prints: Vec<_> = (from..from + 1000)
                .map(|n| (name(n), Fingerprint(n as u64)))
                .collect();
            let rows = prints.iter().map(|(name, print)| (&name[..], *print));
            written.note(&own, dirs[from / 1000 % 3], rows);
        }
        let again = [(&b"0000000"[..], Fingerprint(9))];
        written.note(&own, b"", again.into_iter());
        assert!((1..KEPT_BYTES).contains(&written.bytes.kept_bytes()));
        assert_eq!(written.files(), 300_001);
        assert!(NAMES_OF_UNNAMED.contains(&std::fs::read_dir(temp.path())?.count()));
        written.sort();
        for (at, dir) in dirs.iter().enumerate() {
            let mut section = Section::default();
            let mut want = Section::default();
            for n in 0..300_000 {
                section.push(&name(n), Kind::File, Fingerprint::SUSPECT);
                let print = match (n, n / 1000 % 3 == at) {
                    (0, true) => Fingerprint(9),
                    (n, true) => Fingerprint(n as u64),
                    (_, false) => Fingerprint::SUSPECT,
                };
                want.push(&name(n), Kind::File, print);
            }
            written.apply(dir, &mut section)?;
            assert!(section == want, "of {dir:?}");
        }
        Ok(())
    }

    #[test]
    fn where_no_file_can_be_made_all_is_forgotten_but_the_number() -> Outcome {
        let temp = tempfile::tempdir()?;
        let own = SafeDir::open_root(temp.path())?;
        std::fs::remove_dir(temp.path())?;
        let mut written = WrittenFiles::default();
        let long = vec![b'n'; 250];
        for _ in 0..2 {
            let files = (0..20_000).map(|_| (&long[..], Fingerprint(1)));
            written.note(&own, b"d", files);
        }
        assert_eq!((written.files(), written.bytes.kept_bytes()), (40_000, 0));
        let mut seen = 0;
        written.each(&mut |_, _, _| seen += 1)?;
        assert_eq!(seen, 0);
        Ok(())
    }
}
