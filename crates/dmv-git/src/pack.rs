//! Writing objects into a Git repository, in packs that `git index-pack` checks and takes over.
//!
//! Source: Git's documentation, gitformat-pack. The packs have no deltas; `git gc` makes them.

use crate::error::GitError;
use crate::id::{Algorithm, GitId, GitType, Hasher};
use crate::source::{GitSource, feed};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};

/// Bytes of a pack after which it is passed to Git.
const FULL_BYTES: u64 = 512 << 20;
/// Fast: `git gc` compresses once more.
const LEVEL: Compression = Compression::new(1);

/// A pack that is being written, in a temporary file.
pub struct PackWriter<'s> {
    target: &'s GitSource,
    file: BufWriter<File>,
    count: u32,
    bytes: u64,
}

/// An object whose bytes are still to come.
pub struct OpenObject<'p> {
    encoder: ZlibEncoder<&'p mut BufWriter<File>>,
    hasher: Hasher,
    left: u64,
}

impl<'s> PackWriter<'s> {
    /// Begins a pack for `target`.
    pub fn new(target: &'s GitSource) -> Result<PackWriter<'s>, GitError> {
        let file = BufWriter::with_capacity(1 << 20, tempfile::tempfile().map_err(GitError::Read)?);
        let mut pack = PackWriter {
            target,
            file,
            count: 0,
            bytes: 0,
        };
        pack.begin().map_err(GitError::Read)?;
        Ok(pack)
    }

    /// Writes the header, without the count.
    fn begin(&mut self) -> io::Result<()> {
        self.file.write_all(b"PACK\0\0\0\x02\0\0\0\0")
    }

    /// Returns the algorithm of the target's ids.
    pub fn algorithm(&self) -> Algorithm {
        self.target.algorithm()
    }

    /// Adds an object.
    pub fn add(&mut self, ty: GitType, bytes: &[u8]) -> Result<GitId, GitError> {
        let mut object = self.begin_object(ty, bytes.len() as u64)?;
        object.write(bytes)?;
        object.end()
    }

    /// Begins an object of `size` bytes.
    pub fn begin_object(&mut self, ty: GitType, size: u64) -> Result<OpenObject<'_>, GitError> {
        // The type and the lowest four bits of the size, then seven bits at a time.
        let mut byte = ty.pack_number() << 4 | (size & 0xf) as u8;
        let mut rest = size >> 4;
        let mut header = Vec::new();
        while rest > 0 {
            header.push(byte | 0x80);
            byte = (rest & 0x7f) as u8;
            rest >>= 7;
        }
        header.push(byte);
        self.file.write_all(&header).map_err(GitError::Read)?;
        self.count += 1;
        self.bytes += size;
        let hasher = Hasher::of_object(self.algorithm(), ty, size);
        Ok(OpenObject {
            encoder: ZlibEncoder::new(&mut self.file, LEVEL),
            hasher,
            left: size,
        })
    }

    /// Returns whether the pack has so much that Git should take it.
    pub fn is_full(&self) -> bool {
        self.bytes >= FULL_BYTES || self.count >= 1 << 20
    }

    /// Passes the objects to Git, and begins the next pack.
    pub fn pass_on(&mut self) -> Result<(), GitError> {
        if self.count == 0 {
            return Ok(());
        }
        self.file.flush().map_err(GitError::Read)?;
        // In the order of networks, as all numbers of Git's formats.
        let mut count = self.count.to_le_bytes();
        count.reverse();
        let file = self.file.get_mut();
        file.seek(SeekFrom::Start(8)).map_err(GitError::Read)?;
        file.write_all(&count).map_err(GitError::Read)?;
        file.rewind().map_err(GitError::Read)?;
        index_pack(self.target, file)?;
        file.set_len(0).map_err(GitError::Read)?;
        file.rewind().map_err(GitError::Read)?;
        (self.count, self.bytes) = (0, 0);
        self.begin().map_err(GitError::Read)
    }
}

impl OpenObject<'_> {
    /// Adds bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), GitError> {
        self.hasher.update(bytes);
        self.left = self.left.saturating_sub(bytes.len() as u64);
        self.encoder.write_all(bytes).map_err(GitError::Read)
    }

    /// Ends the object. All its bytes must have come.
    pub fn end(self) -> Result<GitId, GitError> {
        if self.left > 0 {
            let short = io::Error::new(io::ErrorKind::UnexpectedEof, "an object is too short");
            return Err(GitError::Read(short));
        }
        self.encoder.finish().map_err(GitError::Read)?;
        Ok(self.hasher.finish())
    }
}

/// Lets Git check a pack without its checksum, and take it over.
fn index_pack(target: &GitSource, pack: &mut File) -> Result<(), GitError> {
    let mut git = target.git();
    git.args(["index-pack", "--stdin"]);
    let mut hasher = Hasher::new(target.algorithm());
    let mut reader = BufReader::with_capacity(1 << 20, pack);
    let mut buffer = vec![0; 1 << 20];
    let fed = feed(&mut git, "index-pack", |input| {
        loop {
            let read = reader.read(&mut buffer)?;
            if read == 0 {
                return input.write_all(hasher.finish().as_bytes());
            }
            hasher.update(&buffer[..read]);
            input.write_all(&buffer[..read])?;
        }
    });
    Ok(fed?)
}
