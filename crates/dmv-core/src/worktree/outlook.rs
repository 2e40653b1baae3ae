//! A look ahead: how many files and bytes a snapshot is going to read.
//!
//! A snapshot reads files while the scan still finds others, so it does not know how much is left. A
//! second scan, which reads no content, is far ahead of it. It costs system calls, so it runs only if
//! somebody watches, and only once the work takes long.

use super::entry_stats::EntryStats;
use super::scan::{ScanOptions, State, scan};
use super::snapshot::{SnapshotError, SnapshotInput};
use crate::fsutil::{FileKind, SafeDir};
use crate::job::{Bound, Job};
use crate::threads::start_in;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// How long work takes before a look ahead is worth its cost.
const WORTH: Duration = Duration::from_millis(200);

/// Runs `work`, and meanwhile finds out how much it has to do, if the job wants totals.
pub fn while_looking<T>(input: &SnapshotInput<'_>, job: &Job, work: impl FnOnce() -> T) -> T {
    if !job.wants_totals() {
        return work();
    }
    let stop = AtomicBool::new(false);
    let (working, is_over) = channel::<()>();
    std::thread::scope(|scope| {
        // Without a further thread, the total stays unknown.
        let stopped = &stop;
        let _ = start_in(scope, move || {
            if is_over.recv_timeout(WORTH) == Err(RecvTimeoutError::Timeout) {
                // An error shows in the work itself.
                let _ = look(input.root, &input.scan, job, stopped);
            }
        });
        let done = work();
        stop.store(true, Ordering::Relaxed);
        drop(working);
        done
    })
}

/// Sets the totals of the job's progress. While the scan runs, they may still grow.
fn look(
    root: &SafeDir,
    options: &ScanOptions<'_>,
    job: &Job,
    stop: &AtomicBool,
) -> Result<(), SnapshotError> {
    let options = ScanOptions {
        list_ignored: false,
        threads: 1,
        cancel: stop,
        ..*options
    };
    let (mut files, mut bytes) = (0, 0);
    scan(root, &options, |dir| -> Result<(), SnapshotError> {
        let mut stats = EntryStats::new(root, &dir.path);
        for (name, state) in dir.entries() {
            let size = match state {
                State::Suspect { stat, .. } => Some(size_of(stat.kind, stat.size)),
                State::New { kind } | State::TypeChanged { now: kind, .. } => match kind {
                    // A file that is gone is no work.
                    FileKind::File => stats.of(name)?.map(|stat| size_of(stat.kind, stat.size)),
                    FileKind::Symlink => Some(0),
                    _ => None,
                },
                _ => None,
            };
            if let Some(size) = size {
                (files, bytes) = (files + 1, bytes + size);
            }
        }
        job.progress.expect(files, bytes, Bound::AtLeast);
        Ok(())
    })?;
    job.progress.expect(files, bytes, Bound::Exact);
    Ok(())
}

/// The bytes that progress counts for a file.
fn size_of(kind: FileKind, size: u64) -> u64 {
    if kind == FileKind::File { size } else { 0 }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::subset::Subset;
    use crate::worktree::ignore::IgnoreRules;
    use crate::worktree::scan::EmptyBase;
    use crate::worktree::select::Paths;

    #[test]
    fn the_totals_are_those_of_the_files_that_a_snapshot_reads()
    -> Result<(), Box<dyn std::error::Error>> {
        let temp = tempfile::tempdir()?;
        let put = |path: &str, len: usize| std::fs::write(temp.path().join(path), vec![b'x'; len]);
        std::fs::create_dir_all(temp.path().join("a/b"))?;
        std::fs::create_dir_all(temp.path().join("out"))?;
        put("a/b/large", 70_000)?;
        put("a/small", 5)?;
        put("a/empty", 0)?;
        put("out/side", 1000)?;
        put(".dmvignore", 3)?;
        put("xxx", 1000)?;
        std::os::unix::fs::symlink("nowhere", temp.path().join("link"))?;
        let (go_on, job) = (AtomicBool::new(false), Job::default());
        let (ignore, subset) = (IgnoreRules::default(), Subset::everything());
        let select = Paths::new(vec![b"a".to_vec(), b"link".to_vec(), b"xxx".to_vec()]);
        let options = ScanOptions {
            known: &EmptyBase,
            ignore: &ignore,
            select: &select,
            subset: &subset,
            list_ignored: false,
            one_file_system: false,
            threads: 0,
            cancel: &go_on,
        };
        look(&SafeDir::open_root(temp.path())?, &options, &job, &go_on)?;
        let progress = &job.progress;
        // The ignored file `xxx` is not read.
        assert_eq!(progress.total_files.load(Ordering::Relaxed), 4);
        assert_eq!(progress.total_bytes.load(Ordering::Relaxed), 70_005);
        assert_eq!(progress.total_bound(), Bound::Exact);
        Ok(())
    }
}
