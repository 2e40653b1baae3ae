//! Damaged and hostile files: none may hang, use more memory than allowed, or hurt the next one.
//!
//! `DMV_PREVIEW_FLIPS` is the number of damaged variants of each file, `DMV_SEED` a seed to repeat.
//! `DMV_PREVIEW_ONLY` names the files to damage by parts of their names, with commas between them; without it, all are.

#![allow(clippy::print_stdout)]

use dmv_preview::{Kind, Limits, Maker, PreviewKind, Reason, Source, WorkerCommand, in_process};
use dmv_random::{Rng, number};
use std::io::{BufRead, BufReader, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn files() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files");
    let entries = std::fs::read_dir(dir).expect("the files");
    let paths = entries.map(|entry| entry.expect("the files").path());
    let is_file = |path: &PathBuf| {
        let ending = path
            .extension()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        !["rgba", "sh", "py"].contains(&ending.as_str())
    };
    let mut out: Vec<_> = paths.filter(is_file).collect();
    out.sort();
    out
}

fn name(path: &Path) -> String {
    path.file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned()
}

/// Returns the files to damage: all, or those that `DMV_PREVIEW_ONLY` names.
fn chosen() -> Vec<PathBuf> {
    let only = std::env::var("DMV_PREVIEW_ONLY").unwrap_or_default();
    let chosen = choose(files(), &only);
    assert!(!chosen.is_empty(), "DMV_PREVIEW_ONLY={only} names no file");
    chosen
}

/// Returns the files whose names have one of these parts; all if there are no parts.
fn choose(mut files: Vec<PathBuf>, parts: &str) -> Vec<PathBuf> {
    let parts: Vec<&str> = parts.split(',').filter(|part| !part.is_empty()).collect();
    files.retain(|path| parts.is_empty() || parts.iter().any(|part| name(path).contains(part)));
    files
}

#[test]
fn files_are_chosen_by_parts_of_their_names() {
    let all = files();
    let names = |parts| -> Vec<String> {
        let chosen = choose(all.clone(), parts);
        chosen.iter().map(|path| name(path)).collect()
    };
    assert_eq!(names("").len(), all.len());
    assert_eq!(names("quick.,.flac"), ["plain.flac", "quick.qoi"]);
    assert!(names("none of them").is_empty());
}

/// Returns a damaged variant: some bytes changed, or the end cut off.
fn harm(bytes: &[u8], seed: u64, case: u64) -> (Vec<u8>, PreviewKind) {
    let mut random = Rng::new(seed ^ case.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let wanted = match random.below(4) {
        0 => PreviewKind::Pixels { max_edge: 300 },
        1 => PreviewKind::Large,
        2 => PreviewKind::Waveform {
            from: random.word() % 900,
            to: u64::MAX,
            buckets: 64,
        },
        _ => PreviewKind::Thumbnail,
    };
    let mut bytes = bytes.to_vec();
    // One case of eleven is cut off: 1,000 truncations for 10,000 flips.
    if case.is_multiple_of(11) {
        bytes.truncate(random.below(bytes.len() as u64) as usize);
        return (bytes, wanted);
    }
    // The beginning decides most.
    let start = bytes.len().min(match random.below(2) {
        0 => 200,
        _ => bytes.len(),
    });
    for _ in 0..=random.below(3) {
        let at = random.below(start as u64) as usize;
        bytes[at] = match random.below(6) {
            0 => 0,
            1 => 0xff,
            2 => 0x7f,
            3 => bytes[at].wrapping_add(1),
            4 => bytes[at] ^ (1 << random.below(8)),
            _ => random.word() as u8,
        };
    }
    (bytes, wanted)
}

const LIMITS: Limits = Limits {
    workers: 2,
    memory: 512 << 20,
    cpu_seconds: 5,
    wall: Duration::from_secs(10),
    pixels: 4_000_000,
    decoded_bytes: 64 << 20,
    read_bytes: 64 << 20,
    output_bytes: 16 << 20,
};

/// Returns the processor time of this thread, which other work on the machine does not lengthen. Elsewhere than on Linux
/// it is the time of day.
fn processor_time() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = told.split(' ').next().and_then(|count| count.parse().ok());
    match nanos {
        Some(nanos) => Duration::from_nanos(nanos),
        None => std::time::SystemTime::UNIX_EPOCH
            .elapsed()
            .expect("a clock"),
    }
}

/// Not a test by itself: decodes damaged variants in this process, which has the memory of a worker. Before each it
/// says its number, and after a panic where it was.
#[test]
#[ignore = "another test runs it in processes of its own"]
fn batch() {
    let Ok(path) = std::env::var("DMV_PREVIEW_BATCH") else {
        return;
    };
    use rustix::process::{Resource, Rlimit, setrlimit};
    let memory = Rlimit {
        current: Some(LIMITS.memory),
        maximum: Some(LIMITS.memory),
    };
    setrlimit(Resource::As, memory).expect("a limit");
    std::panic::set_hook(Box::new(|panic| {
        let place = panic
            .location()
            .map(ToString::to_string)
            .unwrap_or_default();
        println!("\npanic {place}");
    }));
    let bytes = std::fs::read(&path).expect("the file");
    let seed = number("DMV_SEED", 0);
    let name = name(Path::new(&path));
    for case in number("FIRST", 0)..number("LAST", 0) {
        let mut out = std::io::stdout();
        writeln!(out, "\ncase {case}").expect("the parent reads");
        let (harmed, wanted) = harm(&bytes, seed, case);
        let start = processor_time();
        let _ = catch_unwind(AssertUnwindSafe(|| {
            in_process(&name, &harmed, wanted, LIMITS)
        }));
        if processor_time().saturating_sub(start) > Duration::from_secs(LIMITS.cpu_seconds) {
            println!("\nslow {case}");
        }
    }
    println!("\nend");
}

/// Runs batches until all variants of a file were decoded. Returns how many died, and the places of panics.
fn harm_all(path: &Path, seed: u64, count: u64) -> (u64, Vec<String>) {
    let (mut first, mut died, mut panics) = (0, 0, Vec::new());
    while first < count {
        let program = std::env::current_exe().expect("the test program");
        let mut child = Command::new(program)
            .args(["--exact", "hostile::batch", "--ignored", "--nocapture"])
            .env("DMV_PREVIEW_BATCH", path)
            .env("DMV_SEED", seed.to_string())
            .env("FIRST", first.to_string())
            .env("LAST", count.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the test program runs");
        let mut ended = false;
        for line in BufReader::new(child.stdout.take().expect("a pipe")).lines() {
            let line = line.expect("words");
            match line.split_once(' ') {
                Some(("case", case)) => first = case.parse::<u64>().expect("a number") + 1,
                Some(("panic", place)) => panics.push(place.to_owned()),
                Some(("slow", case)) => panic!("{path:?}: case {case} of seed {seed} is slow"),
                _ => ended |= line == "end",
            }
        }
        child.wait().expect("it ends");
        died += u64::from(!ended);
        if ended {
            break;
        }
    }
    (died, panics)
}

#[test]
fn damaged_files_neither_hang_nor_use_up_the_memory() {
    let seed = number("DMV_SEED", 1);
    let count = number("DMV_PREVIEW_FLIPS", 60);
    let todo = chosen();
    println!(
        "seed {seed}, {count} variants of each of {} files",
        todo.len()
    );
    let todo = std::sync::Mutex::new(todo);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(path) = todo.lock().expect("no panic").pop() else {
                        break;
                    };
                    let start = Instant::now();
                    let (died, mut panics) = harm_all(&path, seed, count);
                    let total = panics.len();
                    panics.sort();
                    panics.dedup();
                    let time = start.elapsed().as_secs_f32();
                    println!(
                        "{}: {time:.1} s, {died} died, {total} panics {panics:?}",
                        name(&path)
                    );
                    // Outside crates may panic: the process that decodes ends, and nothing else. Our code may not.
                    let ours: Vec<_> = panics.iter().filter(|p| !p.starts_with('/')).collect();
                    assert!(ours.is_empty(), "{path:?}: {ours:?}");
                    assert!(died <= count / 20 + 4, "{path:?}: {died} of {count} died");
                }
            });
        }
    });
}

fn maker(limits: Limits) -> Maker {
    let command = WorkerCommand {
        program: env!("CARGO_BIN_EXE_dmv-preview-worker").into(),
        args: Vec::new(),
    };
    Maker::new(command, limits, None)
}

fn make(maker: &Maker, name: &str, bytes: &Vec<u8>, wanted: PreviewKind) -> Result<(), Reason> {
    let source = Source {
        id: "1",
        name,
        len: bytes.len() as u64,
        bytes,
    };
    maker.make(&source, wanted).map(|_| ())
}

#[test]
fn processes_survive_damaged_files_one_after_the_other() {
    let maker = maker(LIMITS);
    let seed = number("DMV_SEED", 2);
    let good = std::fs::read(&files()[0]).expect("a file");
    for path in chosen() {
        let bytes = std::fs::read(&path).expect("the file");
        let name = name(&path);
        make(&maker, &name, &bytes, PreviewKind::Thumbnail)
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        for case in 0..number("DMV_PREVIEW_FLIPS", 60) / 55 {
            let (harmed, wanted) = harm(&bytes, seed, case);
            let start = Instant::now();
            let _ = make(&maker, &name, &harmed, wanted);
            let time = start.elapsed();
            assert!(
                time < LIMITS.wall + Duration::from_secs(1),
                "{name}: {case} took {time:?}"
            );
        }
    }
    make(&maker, &name(&files()[0]), &good, PreviewKind::Thumbnail).expect("the next file");
}

fn file(name: &str) -> Vec<u8> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files");
    std::fs::read(dir.join(name)).expect(name)
}

/// A file with other bytes at some places.
fn with(name: &str, changes: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = file(name);
    for (at, new) in changes {
        bytes[*at..at + new.len()].copy_from_slice(new);
    }
    bytes
}

/// A zip archive with one entry whose list says that it has `len` bytes.
fn zip(name: &str, content: &[u8], len: u32, method: u8) -> Vec<u8> {
    let mut fields = vec![20, 0, 0, 0, method, 0];
    fields.extend([0; 8]);
    for number in [content.len() as u32, len] {
        fields.extend(number.to_le_bytes());
    }
    fields.extend((name.len() as u16).to_le_bytes());
    fields.extend([0; 2]);
    let mut out = b"PK\x03\x04".to_vec();
    out.extend(&fields);
    out.extend(name.bytes());
    out.extend(content);
    let list = out.len() as u32;
    out.extend(b"PK\x01\x02\x14\0");
    out.extend(&fields);
    out.extend([0; 14]);
    out.extend(name.bytes());
    let len = out.len() as u32 - list;
    out.extend(b"PK\x05\x06\0\0\0\0\x01\0\x01\0");
    out.extend(len.to_le_bytes());
    out.extend(list.to_le_bytes());
    out.extend([0; 2]);
    out
}

/// Zeros, compressed a thousandfold.
fn zeros(len: usize, gzip: bool) -> Vec<u8> {
    let part = vec![0; 1 << 20];
    let level = flate2::Compression::best();
    let parts = (0..len >> 20).map(|_| part.as_slice());
    if gzip {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), level);
        parts.for_each(|part| out.write_all(part).expect("memory"));
        out.finish().expect("memory")
    } else {
        let mut out = flate2::write::DeflateEncoder::new(Vec::new(), level);
        parts.for_each(|part| out.write_all(part).expect("memory"));
        out.finish().expect("memory")
    }
}

/// A GIF whose frame comes a hundred thousand times.
fn endless_gif() -> Vec<u8> {
    let gif = file("moving.gif");
    let frame = gif
        .windows(4)
        .rposition(|w| w == b"\x21\xf9\x04\x0a".as_slice() || w[..3] == *b"\x21\xf9\x04");
    let frame = gif[frame.expect("a frame")..gif.len() - 1].to_vec();
    let mut out = gif[..gif.len() - 1].to_vec();
    for _ in 0..100_000 {
        out.extend(&frame);
    }
    out
}

/// A JPEG whose scans come again and again, of a picture that claims to be large.
fn endless_jpeg() -> Vec<u8> {
    let jpeg = file("progressive.jpg");
    let mark = |bytes: &[u8], mark: u8| bytes.windows(2).position(|w| w == [0xff, mark]);
    let frame = mark(&jpeg, 0xc2).expect("a frame");
    let scan = mark(&jpeg, 0xda).expect("a scan");
    let mut out = jpeg[..scan].to_vec();
    out[frame + 5..frame + 9].copy_from_slice(&[0x20, 0, 0x20, 0]);
    let scans = &jpeg[scan..jpeg.len() - 2];
    for _ in 0..500 {
        out.extend(scans);
    }
    out.extend([0xff, 0xd9]);
    out
}

/// A table of TIFF whose entries name it again, and a chain of tables.
fn looped_tiff() -> Vec<u8> {
    let mut out = b"II*\0\x08\0\0\0".to_vec();
    for n in 0..5000u32 {
        let next = 8 + (n + 1) % 5000 * 30;
        out.extend([2, 0, 0x4a, 1, 4, 0, 1, 0, 0, 0]);
        out.extend(next.to_le_bytes());
        out.extend([0x69, 0x87, 4, 0, 1, 0, 0, 0, 8, 0, 0, 0]);
        out.extend(next.to_le_bytes());
    }
    out
}

#[test]
fn bombs_are_refused_or_stopped() {
    let limits = Limits {
        cpu_seconds: 1,
        ..Limits::default()
    };
    let maker = maker(limits);
    let bomb = zip("mergedimage.png", &zeros(300 << 20, false), 200 << 20, 8);
    let nested = zip("mergedimage.png", &bomb, 200 << 20, 0);
    let (huge, large) = ([0x7f, 0xff, 0xff, 0xff], [0x60, 0xea, 0, 0]);
    let mut window = file("none.exr");
    let at = window
        .windows(10)
        .position(|w| w == b"dataWindow")
        .expect("a window");
    window[at + 10 + 1 + 6 + 4 + 8..][..8].copy_from_slice(&[0x40, 0x0d, 3, 0].repeat(2));
    let mut blend = b"BLENDER-v306TEST".to_vec();
    blend.extend([0xff; 100]);
    for (name, bytes, kind) in [
        ("a.kra", bomb, Some(Kind::Damaged)),
        ("a.kra", nested, Some(Kind::Damaged)),
        (
            "a.kra",
            zip("mergedimage.png", b"", u32::MAX, 8),
            Some(Kind::TooLarge),
        ),
        ("a.blend", zeros(2 << 30, true), Some(Kind::Damaged)),
        ("a.blend", blend, Some(Kind::Absent)),
        ("a.gif", endless_gif(), None),
        ("a.jpg", endless_jpeg(), Some(Kind::TooSlow)),
        ("a.dng", looped_tiff(), Some(Kind::Absent)),
        (
            "a.psb",
            with("large.psb", &[(14, &huge), (18, &huge)]),
            Some(Kind::TooLarge),
        ),
        (
            "a.psd",
            with("plain.psd", &[(14, &[0, 0, 0x75, 0x30])]),
            Some(Kind::Damaged),
        ),
        (
            "a.bmp",
            with("plain.bmp", &[(18, &large), (22, &large)]),
            Some(Kind::TooLarge),
        ),
        (
            "a.tga",
            with("packed.tga", &[(12, &[0xff; 4])]),
            Some(Kind::TooLarge),
        ),
        (
            "a.qoi",
            with("quick.qoi", &[(4, &huge), (8, &huge)]),
            Some(Kind::Damaged),
        ),
        ("a.exr", window, Some(Kind::TooLarge)),
        (
            "a.wav",
            with("plain.wav", &[(22, &[0xff; 2])]),
            Some(Kind::Crash),
        ),
    ] {
        let start = Instant::now();
        let made = make(&maker, name, &bytes, PreviewKind::Thumbnail);
        let time = start.elapsed();
        println!("{name}: {time:.1?} {made:?}");
        // A fast machine decodes this one in less than its second.
        if !(kind == Some(Kind::TooSlow) && made.is_ok()) {
            assert_eq!(made.err().map(|e| e.kind), kind, "{name}");
        }
        assert!(time < Duration::from_secs(8), "{name}: {time:?}");
    }
    make(&maker, "a.png", &file("base.png"), PreviewKind::Thumbnail).expect("the next file");
}
