//! How long thumbnails take: `cargo run --release -p dmv-preview --example figures -- DIR`. It makes the previews of all
//! files of a directory with an empty cache and with a full one, and looks for the least memory that is enough.

#![allow(clippy::print_stdout)]

use dmv_preview::{Cache, Kind, Limits, Maker, PreviewKind, Source, WorkerCommand};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

fn main() {
    let dir = std::env::args().nth(1).expect("a directory");
    let entries = std::fs::read_dir(dir).expect("a directory");
    let mut paths: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    paths.sort();
    let files: Vec<(String, Vec<u8>)> = paths
        .iter()
        .map(|path| {
            let name = path
                .file_name()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            (name, std::fs::read(path).expect("a file"))
        })
        .collect();
    let mut program = std::env::current_exe().expect("this program");
    program.pop();
    program.pop();
    program.push("dmv-preview-worker");
    let command = WorkerCommand {
        program,
        args: Vec::new(),
    };
    for wanted in [PreviewKind::Thumbnail, PreviewKind::Large] {
        for round in 0..3 {
            let dir = tempfile::tempdir().expect("a directory");
            let cache = Cache::new(dir.path(), 512 << 20);
            let maker = Maker::new(command.clone(), Limits::default(), Some(cache));
            let cold = all(&maker, &files, wanted);
            let warm = all(&maker, &files, wanted);
            println!(
                "{wanted:?} {round}: {} files, cold {:.2} s, warm {:.3} s, {} bytes each",
                files.len(),
                cold.0,
                warm.0,
                cold.1 / files.len()
            );
        }
    }
    for mib in (16..768).step_by(16) {
        let limits = Limits {
            memory: mib << 20,
            ..Limits::default()
        };
        let maker = Maker::new(command.clone(), limits, None);
        let made = maker.make(&source(&files[0]), PreviewKind::Thumbnail);
        if made.is_ok_and(|_| true) {
            println!("{}: {mib} MiB of address space are enough", files[0].0);
            break;
        }
    }
    for file in &files {
        let maker = Maker::new(command.clone(), Limits::default(), None);
        let start = Instant::now();
        let made = maker.make(&source(file), PreviewKind::Thumbnail);
        if let Err(reason) = made
            .as_ref()
            .map_err(|reason| (reason.kind != Kind::Absent, reason))
        {
            println!("{}: {} {:?}", file.0, reason.1, start.elapsed());
        }
    }
}

fn source(file: &(String, Vec<u8>)) -> Source<'_> {
    Source {
        id: &file.0,
        name: &file.0,
        len: file.1.len() as u64,
        bytes: &file.1,
    }
}

/// Makes all previews on two threads. Returns the seconds and the bytes of all previews.
fn all(maker: &Maker, files: &[(String, Vec<u8>)], wanted: PreviewKind) -> (f64, usize) {
    let (next, bytes) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Ok(preview) = maker.make(&source(file), wanted) {
                        bytes.fetch_add(preview.bytes.len(), Ordering::Relaxed);
                    }
                }
            });
        }
    });
    (start.elapsed().as_secs_f64(), bytes.load(Ordering::Relaxed))
}
