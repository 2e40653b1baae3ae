//! Clones some paths of a repository, and prints how far it is.
//!
//! `cargo run --release -p dmv-net --example clone_subset -- SOURCE DIR PATTERN...`: `SOURCE` is a
//! path or an ssh address. After an interruption, the same command continues.

#![allow(clippy::print_stdout)]

use dmv_core::subset::Subset;
use dmv_core::{Job, OperationRequest};
use dmv_net::ops::{CloneError, CloneOptions, CloneReport, Network, clone};
use dmv_net::transport::Url;
use std::error::Error;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let [source, dir, patterns @ ..] = &args[..] else {
        return Err("usage: clone_subset SOURCE DIR PATTERN...".into());
    };
    let source = Url::parse(source)?.absolute(&std::env::current_dir()?);
    let request = OperationRequest::new("example", "clone_subset", SystemTime::now());
    let mut options = CloneOptions::new(source, dir, request.clone());
    options.subset = Subset::new(patterns.iter().map(|pattern| pattern.as_bytes()))?;
    let done = with_progress(&options, &Network::new(request))?;

    let traffic = done.summary.traffic;
    let (objects, bytes) = (traffic.objects_received, traffic.bytes_received);
    println!("received {objects} objects, {bytes} bytes");
    if let Some(written) = done.written {
        println!("wrote {} files, {} bytes", written.files, written.bytes);
        for idle in &written.idle_patterns {
            println!("nothing matches {}", idle.pattern.escape_ascii());
        }
    }
    Ok(())
}

/// Clones on a thread, and prints the counters of its job twice a second.
fn with_progress(options: &CloneOptions, network: &Network) -> Result<CloneReport, CloneError> {
    let job = Job::default();
    std::thread::scope(|scope| {
        let cloning = scope.spawn(|| clone(options, network, &job));
        while !cloning.is_finished() {
            std::thread::sleep(Duration::from_millis(500));
            let of = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
            let progress = &job.progress;
            println!(
                "{} objects, {} of {} bytes",
                of(&progress.objects),
                of(&progress.bytes),
                of(&progress.total_bytes)
            );
        }
        cloning.join().expect("a clone does not panic")
    })
}
