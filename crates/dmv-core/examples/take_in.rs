//! Commits a directory and prints how much of it was stored already.
//!
//! `cargo run --release -p dmv-core --example take_in -- DIR`: makes a repository in `DIR` if there
//! is none. Run it again after a change, and compare the figures.

#![allow(clippy::print_stdout)]

use dmv_core::repo::PlaceError;
use dmv_core::{CommitOptions, Job, OperationRequest, Repo, RepoError, Who};
use std::error::Error;
use std::path::Path;
use std::time::SystemTime;

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args_os().nth(1).ok_or("usage: take_in DIR")?;
    let repo = open_or_init(Path::new(&dir))?;
    let options = CommitOptions::new("Taken in", Who::new("Example", ""), request("take_in"));
    let report = repo.commit(options, &Job::default())?;
    match report.commit {
        Some(id) => println!("commit {id}"),
        None => println!("nothing changed"),
    }
    let size = &report.size;
    println!(
        "{} files, {} bytes; {} bytes were new, and take {} bytes",
        size.tree_files, size.bytes, size.new_bytes, size.stored_bytes
    );
    for problem in &report.problems {
        println!("left out: {}: {}", problem.path, problem.why);
    }
    Ok(())
}

fn open_or_init(dir: &Path) -> Result<Repo, RepoError> {
    match Repo::open(dir) {
        Err(RepoError::Place(PlaceError::NotFound(_))) => {
            Repo::init(dir, "main", false, request("init"))
        }
        other => other,
    }
}

fn request(command: &str) -> OperationRequest {
    OperationRequest::new("example", command, SystemTime::now())
}
