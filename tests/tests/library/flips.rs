//! Flips every single bit of a repository's files. Each flip must be noticed or do no harm, and no
//! wrong byte may come out.
//!
//! Long run: `DMV_COUNT=200000 cargo test -p dmv-tests --test library -- flips:: --ignored --nocapture`.

// A run prints how many flips it tried.
#![allow(clippy::print_stdout)]

use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::repo::{RefKind, Repo, StatusOptions, VerifyDepth};
use dmv_core::worktree::select::Paths;
use dmv_tests::crashlab::Outcome;
use dmv_tests::rng::{Rng, number, seed};
use dmv_tests::scratch::{Files, commit, fast_dir, files_in, files_of, request};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A repository, all its files, and what it must contain.
struct Subject {
    _dir: TempDir,
    root: PathBuf,
    good: BTreeMap<PathBuf, Vec<u8>>,
    commits: Vec<(ObjectId, Files)>,
    view: Vec<(String, Vec<u8>)>,
    changes: String,
}

/// The effect of a flip.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Effect {
    /// The repository cannot be opened, or `verify` reports the damage.
    Noticed,
    /// Every answer is the same as before.
    Harmless,
}

impl Subject {
    /// Makes a repository with enough commits that tables are merged, and with an uncommitted
    /// change.
    fn new() -> Outcome<Subject> {
        let dir = fast_dir()?;
        let root = dir.path().join("w");
        std::fs::create_dir_all(root.join("dir"))?;
        let repo = Repo::init(&root, "main", false, request("init"))?;
        let (mut rng, mut commits) = (Rng::new(17), Vec::new());
        std::fs::write(root.join("bytes"), rng.bytes(400))?;
        std::os::unix::fs::symlink("dir/text", root.join("link"))?;
        for n in 0..5 {
            std::fs::write(root.join("dir/text"), rng.text(300))?;
            std::fs::write(root.join(format!("dir/{n}")), rng.bytes(60))?;
            let done = commit(&repo, &format!("number {n}"))?;
            commits.push((done.commit.ok_or("nothing committed")?, files_in(&root)?));
        }
        repo.create_ref(RefKind::Tag, "first", commits[0].0, request("tag"))?;
        std::fs::write(root.join("dir/0"), rng.bytes(60))?;
        let changes = status(&repo)?;
        let view = repo.refs().with_prefix("")?;
        drop(repo);
        let mut good = BTreeMap::new();
        collect(&root.join(".dmv"), &mut good)?;
        assert!(good.keys().any(|path| path.ends_with("stat")));
        assert!(good.keys().any(|path| is_in(path, "index")));
        Ok(Subject {
            _dir: dir,
            root,
            good,
            commits,
            view,
            changes,
        })
    }

    /// Flips one bit, runs all checks, and restores the files that have changed.
    fn flip(&self, path: &Path, bit: usize) -> Outcome<Effect> {
        let mut bad = self.good[path].clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(path, &bad)?;
        let effect = self.ask(path);
        self.put_back()?;
        let effect = effect?;
        // Every byte of a pack matters.
        if is_in(path, "packs") && effect == Effect::Harmless {
            return Err("nobody notices".into());
        }
        Ok(effect)
    }

    fn ask(&self, path: &Path) -> Outcome<Effect> {
        let Ok(repo) = Repo::open(&self.root) else {
            return Ok(Effect::Noticed);
        };
        let view = repo.refs().with_prefix("");
        let mut wrong = if view.is_ok_and(|view| view == self.view) {
            None
        } else {
            Some("the view differs".to_owned())
        };
        for (id, files) in &self.commits {
            match files_of(&repo, id) {
                Ok(found) if found == *files => {}
                Ok(_) => return Err("wrong bytes come out".into()),
                Err(e) => wrong = Some(e.to_string()),
            }
        }
        if path.ends_with("stat") {
            let changes = status(&repo)?;
            return if changes == self.changes {
                Ok(Effect::Harmless)
            } else {
                Err(format!("status says {changes}").into())
            };
        }
        let report = repo.verify(VerifyDepth::Full, &Job::default());
        match (report, wrong) {
            // `verify` also reports damage that costs nothing because another copy is intact.
            (Ok(report), None) if report.is_ok() && report.made_good.is_empty() => {
                Ok(Effect::Harmless)
            }
            (Ok(_), None) => Ok(Effect::Noticed),
            (Ok(report), Some(wrong)) if report.is_ok() => {
                Err(format!("verify says that all is well, but {wrong}").into())
            }
            _ => Ok(Effect::Noticed),
        }
    }

    fn put_back(&self) -> Outcome {
        let mut now = BTreeMap::new();
        collect(&self.root.join(".dmv"), &mut now)?;
        for path in now.keys().filter(|path| !self.good.contains_key(*path)) {
            std::fs::remove_file(path)?;
        }
        for (path, bytes) in &self.good {
            if now.get(path) != Some(bytes) {
                std::fs::write(path, bytes)?;
            }
        }
        Ok(())
    }
}

fn status(repo: &Repo) -> Outcome<String> {
    let options = StatusOptions {
        select: &Paths::default(),
        settings: Default::default(),
    };
    Ok(format!(
        "{:?}",
        repo.status(&options, &Job::default())?.changes
    ))
}

fn is_in(path: &Path, dir: &str) -> bool {
    path.parent().is_some_and(|parent| parent.ends_with(dir))
}

/// Collects files and their bytes. Empty files are locks and are left out.
fn collect(dir: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) -> Outcome {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), files)?;
        } else if entry.metadata()?.len() > 0 {
            files.insert(entry.path(), std::fs::read(entry.path())?);
        }
    }
    Ok(())
}

/// Flips `count` different bits in an order that depends on the seed, or all bits if there are
/// fewer.
fn flip_bits(which: fn(&Path) -> bool, from: usize, count: usize, seed: u64) -> Outcome {
    let subject = Subject::new()?;
    let mut bits: Vec<(&PathBuf, usize)> = Vec::new();
    // The names of packs are random, but their kinds and lengths are not.
    let mut good: Vec<_> = subject.good.iter().collect();
    good.sort_by_key(|(path, bytes)| (kind(path), bytes.get(10).copied(), bytes.len()));
    for (path, bytes) in good.into_iter().filter(|(path, _)| which(path)) {
        bits.extend((0..bytes.len() * 8).map(|bit| (path, bit)));
    }
    Rng::new(seed).shuffle(&mut bits);
    let mut counts: BTreeMap<(String, Effect), u64> = BTreeMap::new();
    let (mut tried, mut failed) = (0, Vec::new());
    for (n, (path, bit)) in bits.iter().enumerate().skip(from).take(count) {
        tried += 1;
        let name = path.strip_prefix(&subject.root)?.display();
        match subject.flip(path, *bit) {
            Ok(effect) => *counts.entry((kind(path), effect)).or_default() += 1,
            Err(e) => {
                let text = format!("DMV_SEED={seed} DMV_FROM={n}: bit {bit} of {name}: {e}");
                println!("FAILED {text}");
                failed.push(text);
            }
        }
    }
    for ((kind, effect), n) in &counts {
        let effect = match effect {
            Effect::Noticed => "noticed",
            Effect::Harmless => "without effect",
        };
        println!("{kind}: {n} {effect}");
    }
    let (all, failures) = (bits.len(), failed.len());
    println!("harness flips: {tried} flipped bits of {all}, {failures} failed, seed {seed}");
    match failed.first() {
        None => Ok(()),
        Some(first) => Err(format!("{failures} of {tried} failed; the first: {first}").into()),
    }
}

fn is_database(path: &Path) -> bool {
    path.ends_with("refs.db")
}

/// Returns a word for a file: its name, or its directory if the name is random.
fn kind(path: &Path) -> String {
    let part = if is_in(path, "packs") || is_in(path, "index") {
        path.parent().and_then(Path::file_name)
    } else {
        path.file_name()
    };
    part.unwrap_or_default().to_string_lossy().into_owned()
}

/// Some bits, in the ordinary run.
#[test]
fn a_flipped_bit_of_any_file_is_noticed_or_does_no_harm() -> Outcome {
    let seed = seed(1);
    flip_bits(|path| !is_database(path), 0, 400, seed)?;
    // Its bits are mostly free space.
    flip_bits(is_database, 0, 400, seed)
}

/// All bits, or `DMV_COUNT`, from number `DMV_FROM` on.
#[test]
#[ignore = "half an hour"]
fn every_flipped_bit_of_every_file_is_noticed_or_does_no_harm() -> Outcome {
    let count = number("DMV_COUNT", u64::from(u32::MAX)) as usize;
    let from = number("DMV_FROM", 0) as usize;
    // With `DMV_ONLY`, only files of this kind. The last lines of a run show the kinds.
    let which = |path: &Path| std::env::var("DMV_ONLY").map_or(true, |only| kind(path) == only);
    flip_bits(which, from, count, seed(1))
}
