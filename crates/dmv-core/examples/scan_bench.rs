//! Times a scan of many unchanged files beside `git status` on the same files.
//!
//! `cargo run --release -p dmv-core --example scan_bench [DIRS FILES [PARENT]]`: DIRS directories
//! of FILES files of 1 KiB, below PARENT (default: the temporary directory). Prints milliseconds,
//! medians of five warm runs.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use dmv_core::fsutil::{FileKind, Fingerprint, SafeDir};
use dmv_core::hash::ObjectId;
use dmv_core::object::tree::Kind;
use dmv_core::store::RepositoryId;
use dmv_core::subset::Subset;
use dmv_core::worktree::ignore::IgnoreRules;
use dmv_core::worktree::join;
use dmv_core::worktree::scan::{
    BaseEntries, EmptyBase, Everything, ScanError, ScanOptions, State, scan,
};
use dmv_core::worktree::statcache::{Section, StatCache, StatCacheWriter};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

const RUNS: usize = 5;
const REPO: RepositoryId = RepositoryId::from_bytes([1; 16]);

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, default| args.get(i).map_or(default, |a| a.parse().unwrap());
    let (dirs, files) = (number(0, 100), number(1, 1000));
    let parent = args.get(2).map_or_else(std::env::temp_dir, PathBuf::from);
    let base = parent.join(format!("dmv-scan-bench-{}", std::process::id()));
    let tree = base.join("tree");
    std::fs::create_dir_all(&tree).unwrap();
    for d in 0..dirs {
        let dir = tree.join(format!("d{d:04}"));
        std::fs::create_dir(&dir).unwrap();
        for f in 0..files {
            let n = d * files + f;
            let mut content = vec![b'x'; 1024];
            content[..8].copy_from_slice(&(n as u64).to_le_bytes());
            std::fs::write(dir.join(format!("f{n:06}.bin")), content).unwrap();
        }
    }
    let cache_dir = SafeDir::open_root(&base).unwrap();
    let root = SafeDir::open_root(&tree).unwrap();
    write_cache(&root, &cache_dir);
    let size = std::fs::metadata(base.join("stat")).unwrap().len();
    println!("{} files, stat cache {size} bytes", dirs * files);
    let open = || StatCache::open(&cache_dir, b"stat", &REPO).unwrap();
    for threads in [0, 1, 2, 4] {
        report(&format!("scan, threads {threads}"), || {
            assert_eq!(run(&root, &open(), threads), dirs * files);
        });
    }
    report("scan, nothing known", || {
        run(&root, &EmptyBase, 0);
    });
    report("list only, one thread", || {
        for d in 0..dirs {
            let dir = root.open_dir(format!("d{d:04}").as_bytes()).unwrap();
            assert_eq!(dir.list(1 << 24).unwrap().len(), files);
        }
    });
    for threads in [1, 2] {
        report(&format!("stat only, threads {threads}"), || {
            std::thread::scope(|scope| {
                for t in 0..threads {
                    let root = &root;
                    scope.spawn(move || stat_all(root, (t..dirs).step_by(threads), files));
                }
            });
        });
    }
    report("read sections", || {
        let cache = open();
        for d in 0..dirs {
            cache.section(format!("d{d:04}").as_bytes()).unwrap();
        }
    });
    report("write cache", || write_cache(&root, &cache_dir));
    git(&tree, &["init", "-q"]);
    git(&tree, &["add", "."]);
    let commit = [
        "-c",
        "user.name=x",
        "-c",
        "user.email=x@x",
        "commit",
        "-qm",
        "x",
    ];
    git(&tree, &commit);
    std::thread::sleep(Duration::from_secs(2));
    git(&tree, &["status"]);
    report("git status", || git(&tree, &["status"]));
    std::fs::remove_dir_all(&base).unwrap();
}

fn stat_all(root: &SafeDir, dirs: impl Iterator<Item = usize>, files: usize) {
    for d in dirs {
        let dir = root.open_dir(format!("d{d:04}").as_bytes()).unwrap();
        for f in d * files..(d + 1) * files {
            dir.stat(format!("f{f:06}.bin").as_bytes()).unwrap();
        }
    }
}

fn write_cache(root: &SafeDir, cache_dir: &SafeDir) {
    let base = ObjectId::from_bytes([2; 32]);
    let mut writer = StatCacheWriter::create(cache_dir, &REPO).unwrap();
    let rules = IgnoreRules::default();
    let cancel = AtomicBool::new(false);
    let options = options(&EmptyBase, &rules, &cancel, 0);
    scan::<ScanError>(root, &options, |result| {
        let dir = root.open_dir(&result.path).unwrap();
        let mut section = Section::default();
        for (name, state) in result.entries() {
            match state {
                State::New {
                    kind: FileKind::File,
                } => {
                    let fingerprint = dir.stat(name).unwrap().fingerprint();
                    section.push(name, Kind::File, fingerprint);
                }
                State::Dir { .. } => section.push(name, Kind::Directory, Fingerprint::SUSPECT),
                _ => {}
            }
        }
        // All names are in the section, so the directory as it is now holds just them.
        section.set_dir_fingerprint(dir.stat_self().unwrap().fingerprint());
        writer.section(&result.path, &section).unwrap();
        Ok(())
    })
    .unwrap();
    writer.finish(b"stat", &base, [0; 8]).unwrap();
}

/// Scans; returns the number of clean files and checks that there are no others.
fn run(root: &SafeDir, known: &dyn BaseEntries, threads: usize) -> usize {
    let rules = IgnoreRules::default();
    let cancel = AtomicBool::new(false);
    let mut clean = 0;
    scan::<ScanError>(root, &options(known, &rules, &cancel, threads), |result| {
        clean += result.clean;
        for (name, state) in result.entries() {
            if let State::Suspect { .. } | State::Gone { .. } = state {
                panic!("{:?}", join(&result.path, name));
            }
        }
        Ok(())
    })
    .unwrap();
    clean
}

fn options<'a>(
    known: &'a dyn BaseEntries,
    ignore: &'a IgnoreRules,
    cancel: &'a AtomicBool,
    threads: usize,
) -> ScanOptions<'a> {
    static ALL: LazyLock<Subset> = LazyLock::new(Subset::everything);
    ScanOptions {
        known,
        ignore,
        select: &Everything,
        subset: &ALL,
        list_ignored: false,
        one_file_system: false,
        threads,
        cancel,
    }
}

fn git(tree: &Path, args: &[&str]) {
    let mut git = Command::new("git");
    let git = git
        .args(["-c", "gc.auto=0"])
        .current_dir(tree)
        .args(args)
        .stdout(Stdio::null());
    assert!(git.status().unwrap().success());
}

fn report(what: &str, mut f: impl FnMut()) {
    f();
    let mut times: Vec<Duration> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            f();
            start.elapsed()
        })
        .collect();
    times.sort();
    println!("{what:<24} {:8.1}", times[RUNS / 2].as_secs_f64() * 1e3);
}
