//! One timed step under repeatable conditions.
//!
//! Before it: free memory is touched and freed (the first touch of free memory can be several
//! times slower, above all in virtual machines), what the step will read is read, and the file
//! system is flushed. After it: the file system is flushed again, timed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};

use crate::files::read_through;
use crate::runner::{Outcome, Step, run_apart};

/// The conditions every step is measured under.
pub struct Conditions {
    /// A directory on the file system that all steps use; flushed around each.
    pub base: PathBuf,
    /// Bytes of memory to touch and free before each step.
    pub prime_bytes: usize,
    /// Whether what a step reads is read before it. Pointless for data that the page cache cannot
    /// hold: it would only push itself out again.
    pub warm: bool,
}

/// A step's outcome with what surrounds it.
pub struct Measurement {
    /// What the runner saw.
    pub outcome: Outcome,
    /// Seconds that flushing the file system took right after the step.
    pub sync_s: f64,
    /// The machine's load average over one minute, before the step.
    pub load: f64,
    /// Free memory before the step, in MiB, not counting the page cache.
    pub free_mib: u64,
}

impl Conditions {
    /// Measures `step`, with everything below `inputs` in the page cache.
    pub fn measure(&self, step: &Step, inputs: &[&Path]) -> Result<Measurement> {
        let base = File::open(&self.base).context("scratch directory")?;
        let sync = || rustix::fs::syncfs(&base).context("flush the file system");
        prime(self.prime_bytes);
        for input in inputs.iter().filter(|path| self.warm && path.exists()) {
            read_through(input)?;
        }
        sync()?;
        let (load, free_mib) = (load_average(), free_memory_mib());
        let outcome = run_apart(step)?;
        let start = Instant::now();
        sync()?;
        Ok(Measurement {
            outcome,
            sync_s: start.elapsed().as_secs_f64(),
            load,
            free_mib,
        })
    }
}

/// Touches `bytes` of memory and gives them back.
fn prime(bytes: usize) {
    // Written, not `calloc`ed: a zero page would be shared and nothing touched.
    std::hint::black_box(vec![1_u8; bytes]);
}

fn load_average() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = text.split(' ').next();
    first.and_then(|n| n.parse().ok()).unwrap_or(f64::NAN)
}

fn free_memory_mib() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("MemFree:"));
    let kib = line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}
