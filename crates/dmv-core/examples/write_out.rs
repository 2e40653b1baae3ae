//! Writes some paths of a commit into a new directory, and prints progress.
//!
//! `cargo run --release -p dmv-core --example write_out -- REPOSITORY REVISION TO [PATTERN...]`

#![allow(clippy::print_stdout)]

use dmv_core::repo::Selection;
use dmv_core::{Job, Repo, RepoPath, Subset};
use std::error::Error;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [repository, revision, to, patterns @ ..] = args.as_slice() else {
        return Err("usage: write_out REPOSITORY REVISION TO [PATTERN...]".into());
    };
    let repo = Repo::open(Path::new(repository))?;
    let commit = repo.read_commit(&repo.resolve(revision)?)?;
    let root = RepoPath::root();
    let wanted = Selection {
        path: &root,
        located: &repo.locate(revision, &commit, &root)?,
        subset: &Subset::new(patterns.iter().map(|pattern| pattern.as_bytes()))?,
    };
    let job = Job::default();
    let report = std::thread::scope(|scope| {
        let export = scope.spawn(|| repo.export(wanted, Path::new(to), &job));
        while !export.is_finished() {
            std::thread::sleep(Duration::from_millis(200));
            let (files, bytes) = (&job.progress.files, &job.progress.bytes);
            let (files, bytes) = (files.load(Ordering::Relaxed), bytes.load(Ordering::Relaxed));
            println!("{files} files, {bytes} bytes");
        }
        export.join()
    });
    let report = report.map_err(|_| "the export panicked")??;
    println!("done: {} files, {} bytes", report.files, report.bytes);
    for problem in &report.refused {
        println!("not written: {}: {}", problem.path, problem.why);
    }
    Ok(())
}
