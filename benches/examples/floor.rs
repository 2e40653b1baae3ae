//! Only makes files: what nothing that has to make them can be faster than.
//!
//! `floor TO DIRS FILES BYTES` makes the directory TO and in it DIRS x FILES files of BYTES bytes, with as
//! many threads as there are cores. Nothing is read, hashed or compared, and nothing is synced.

use anyhow::{Context, Result};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Bytes written at a time.
const WRITE_BYTES: usize = 1 << 20;

fn main() -> Result<()> {
    let mut args = std::env::args_os().skip(1);
    let to = PathBuf::from(args.next().context("TO is missing")?);
    let mut number = |what| -> Result<usize> {
        let arg = args.next().context(what)?;
        Ok(arg.to_str().context("a number is not text")?.parse()?)
    };
    let dirs = number("DIRS is missing")?;
    let files = number("FILES is missing")?;
    let bytes = number("BYTES is missing")?;
    fs::create_dir(&to)?;
    let next = AtomicUsize::new(0);
    let content = vec![1; bytes.min(WRITE_BYTES)];
    let work = || -> Result<()> {
        loop {
            let dir = next.fetch_add(1, Ordering::Relaxed);
            if dir >= dirs {
                return Ok(());
            }
            let dir = to.join(format!("d{dir}"));
            fs::create_dir(&dir)?;
            for file in 0..files {
                write(&dir.join(format!("f{file}")), bytes, &content)?;
            }
        }
    };
    let cores = thread::available_parallelism()?.get();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().expect("no thread panics"))
    })
}

fn write(path: &Path, bytes: usize, content: &[u8]) -> Result<()> {
    let mut file = File::create_new(path)?;
    let mut left = bytes;
    while left > 0 {
        let n = left.min(content.len());
        file.write_all(&content[..n])?;
        left -= n;
    }
    Ok(())
}
