//! Random trees that are edited and committed repeatedly, compared with a model in memory.
//!
//! Long run: `cargo test -p dmv-tests --release --test library -- model:: --ignored`.

use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::name::RepoPath;
use dmv_core::repo::{Repo, Selection, StatusOptions, StatusReport, VerifyDepth};
use dmv_core::store::MERGE_TABLES;
use dmv_core::subset::Subset;
use dmv_core::worktree::select::Paths;
use dmv_tests::crashlab::Outcome;
use dmv_tests::rng::Rng;
use dmv_tests::scratch::{Files, Item, commit, fast_dir, files_in, files_of, request};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{File, FileTimes, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Names that sort next to each other, have unusual bytes, or differ only in case.
const NAMES: [&[u8]; 8] = [
    b"a",
    b"a-b",
    b"a.b",
    b"A",
    b"b",
    b"\xc3\xa4",
    b"\xff x",
    b"long name.txt",
];

/// The model of a worktree, with its non-empty directories.
#[derive(Clone, Default)]
struct Model {
    /// The directories that were made. `b""` is the root.
    dirs: Vec<Vec<u8>>,
    /// The files and symlinks.
    files: Files,
}

impl Model {
    /// Returns the listing: files and empty directories.
    fn listing(&self) -> Files {
        let mut out = self.files.clone();
        for dir in self.dirs.iter().filter(|dir| !dir.is_empty()) {
            let below =
                |path: &Vec<u8>| path.len() > dir.len() && path.starts_with(&with_slash(dir));
            if !self.files.keys().any(below) && !self.dirs.iter().any(below) {
                out.insert(dir.clone(), Item::EmptyDir);
            }
        }
        out
    }

    fn is_free(&self, path: &Vec<u8>) -> bool {
        !self.files.contains_key(path) && !self.dirs.contains(path)
    }
}

fn with_slash(dir: &[u8]) -> Vec<u8> {
    [dir, b"/"].concat()
}

fn pick<'a, T>(rng: &mut Rng, list: &'a [T]) -> Option<&'a T> {
    let n = list.len() as u64;
    (n > 0).then(|| &list[rng.below(n.max(1)) as usize])
}

/// A worktree on disk and its model.
struct Subject {
    root: PathBuf,
    model: Model,
    rng: Rng,
}

impl Subject {
    fn disk(&self, path: &[u8]) -> PathBuf {
        self.root.join(OsStr::from_bytes(path))
    }

    fn free_path(&mut self) -> Option<Vec<u8>> {
        let dir = pick(&mut self.rng, &self.model.dirs)?.clone();
        let name = pick(&mut self.rng, &NAMES)?;
        let path = dmv_core::worktree::join(&dir, name);
        self.model.is_free(&path).then_some(path)
    }

    fn some_file(&mut self) -> Option<Vec<u8>> {
        let files = self.model.files.iter();
        let paths: Vec<&Vec<u8>> = files
            .filter(|(_, i)| matches!(i, Item::File(..)))
            .map(|(p, _)| p)
            .collect();
        pick(&mut self.rng, &paths).map(|p| (*p).clone())
    }

    fn content(&mut self) -> Vec<u8> {
        // Empty, small, around the smallest chunk, several chunks.
        let size = [0, 1, 300, 16_383, 16_384, 16_385, 150_000][self.rng.below(7) as usize];
        if self.rng.one_in(2) {
            self.rng.text(size)
        } else {
            self.rng.bytes(size)
        }
    }

    fn write(&mut self, path: &[u8], bytes: Vec<u8>, executable: bool) -> Outcome {
        let disk = self.disk(path);
        std::fs::write(&disk, &bytes)?;
        let mode = if executable { 0o755 } else { 0o644 };
        std::fs::set_permissions(&disk, Permissions::from_mode(mode))?;
        self.model
            .files
            .insert(path.to_vec(), Item::File(bytes, executable));
        Ok(())
    }

    /// Makes a random change. Some do nothing.
    fn edit(&mut self) -> Outcome {
        match self.rng.below(12) {
            0..=2 => {
                if let Some(path) = self.free_path() {
                    let (bytes, executable) = (self.content(), self.rng.one_in(4));
                    self.write(&path, bytes, executable)?;
                }
            }
            3 => {
                if let (Some(path), true) = (self.free_path(), self.model.dirs.len() < 12) {
                    std::fs::create_dir(self.disk(&path))?;
                    self.model.dirs.push(path);
                }
            }
            4 => {
                if let Some(path) = self.free_path() {
                    let target = pick(&mut self.rng, &NAMES).map_or(b"x".to_vec(), |n| n.to_vec());
                    std::os::unix::fs::symlink(OsStr::from_bytes(&target), self.disk(&path))?;
                    self.model.files.insert(path, Item::Symlink(target));
                }
            }
            5..=7 => {
                if let Some(path) = self.some_file() {
                    self.change(&path)?;
                }
            }
            8 => {
                let paths: Vec<_> = self.model.files.keys().cloned().collect();
                if let Some(path) = pick(&mut self.rng, &paths) {
                    std::fs::remove_file(self.disk(path))?;
                    self.model.files.remove(path);
                }
            }
            9 => self.rename()?,
            10 => self.swap_kind()?,
            _ => {
                if let Some(path) = self.some_file() {
                    let when = SystemTime::now() - Duration::from_secs(self.rng.below(100_000));
                    set_mtime(&self.disk(&path), when)?;
                }
            }
        }
        Ok(())
    }

    /// Changes a file: other bytes, more bytes, one byte, or the executable bit.
    fn change(&mut self, path: &[u8]) -> Outcome {
        let Some(Item::File(mut bytes, mut executable)) = self.model.files.get(path).cloned()
        else {
            return Ok(());
        };
        match self.rng.below(4) {
            0 => bytes = self.content(),
            1 => bytes.extend(self.rng.text(100)),
            2 if !bytes.is_empty() => {
                let at = self.rng.below(bytes.len() as u64) as usize;
                bytes[at] ^= 0xff;
            }
            _ => executable = !executable,
        }
        self.write(path, bytes, executable)
    }

    /// Renames a file, or a directory with everything in it.
    fn rename(&mut self) -> Outcome {
        let mut all: Vec<_> = self.model.files.keys().cloned().collect();
        all.extend(self.model.dirs.iter().filter(|d| !d.is_empty()).cloned());
        let (Some(from), Some(to)) = (pick(&mut self.rng, &all).cloned(), self.free_path()) else {
            return Ok(());
        };
        if to.starts_with(&with_slash(&from)) {
            return Ok(());
        }
        std::fs::rename(self.disk(&from), self.disk(&to))?;
        let moved = |path: &Vec<u8>| match path.strip_prefix(&from[..]) {
            Some(rest) if rest.is_empty() || rest[0] == b'/' => [&to, rest].concat(),
            _ => path.clone(),
        };
        self.model.dirs = self.model.dirs.iter().map(moved).collect();
        let files = std::mem::take(&mut self.model.files);
        self.model.files = files.iter().map(|(p, i)| (moved(p), i.clone())).collect();
        Ok(())
    }

    /// Turns a file into a directory, or a directory with everything in it into a file.
    fn swap_kind(&mut self) -> Outcome {
        if let (Some(path), true) = (self.some_file(), self.rng.one_in(2)) {
            std::fs::remove_file(self.disk(&path))?;
            std::fs::create_dir(self.disk(&path))?;
            self.model.files.remove(&path);
            self.model.dirs.push(path);
            return Ok(());
        }
        let dirs: Vec<_> = self
            .model
            .dirs
            .iter()
            .filter(|d| !d.is_empty())
            .cloned()
            .collect();
        let Some(path) = pick(&mut self.rng, &dirs) else {
            return Ok(());
        };
        std::fs::remove_dir_all(self.disk(path))?;
        let inside = with_slash(path);
        self.model
            .dirs
            .retain(|dir| dir != path && !dir.starts_with(&inside));
        self.model
            .files
            .retain(|file, _| !file.starts_with(&inside));
        self.write(path, b"was a directory".to_vec(), false)
    }
}

fn set_mtime(path: &Path, when: SystemTime) -> Outcome {
    File::options()
        .write(true)
        .open(path)?
        .set_times(FileTimes::new().set_modified(when))?;
    Ok(())
}

fn status(repo: &Repo) -> Outcome<StatusReport> {
    let options = StatusOptions {
        select: &Paths::default(),
        settings: Default::default(),
    };
    Ok(repo.status(&options, &Job::default())?)
}

/// Makes many edits and commits. After each commit, repository, disk and model must agree.
fn story(seed: u64, commits: u64) -> Outcome {
    let dir = fast_dir()?;
    let root = dir.path().join("w");
    std::fs::create_dir(&root)?;
    drop(Repo::init(&root, "main", false, request("init"))?);
    let mut subject = Subject {
        root: root.clone(),
        model: Model {
            dirs: vec![Vec::new()],
            files: Files::new(),
        },
        rng: Rng::new(seed),
    };
    for n in 0..commits {
        for _ in 0..subject.rng.below(15) {
            subject.edit()?;
        }
        let want = subject.model.listing();
        assert_eq!(files_in(&root)?, want, "the model is wrong");
        let repo = Repo::open(&root)?;
        let done = commit(&repo, &format!("commit {n}"))?;
        assert!(
            done.problems.is_empty() && done.warnings.is_empty(),
            "{done:?}"
        );
        let id = done.commit.ok_or("nothing was committed")?;
        compare(&files_of(&repo, &id)?, &want)?;
        // Read by a newly opened repository, like the next command.
        let repo = Repo::open(&root)?;
        assert_eq!(status(&repo)?.changes, [], "after commit {n}");
        assert_eq!(status(&repo)?.changes, [], "after commit {n}, remembered");
        let read = repo.read_commit(&id)?;
        if n % 4 == 3 || n + 1 == commits {
            let at = repo.locate("it", &read, &RepoPath::root())?;
            let out = dir.path().join(format!("out{n}"));
            let wanted = Selection {
                path: &RepoPath::root(),
                located: &at,
                subset: &Subset::everything(),
            };
            let report = repo.export(wanted, &out, &Job::default())?;
            assert!(report.refused.is_empty());
            compare(&files_in(&out)?, &want)?;
            // The same files committed at once in another repository give the same tree.
            drop(Repo::init(&out, "main", false, request("init"))?);
            let fresh = Repo::open(&out)?;
            let other = commit(&fresh, "all at once")?
                .commit
                .ok_or("nothing committed")?;
            assert_eq!(
                fresh.read_commit(&other)?.tree,
                read.tree,
                "the tree has a memory"
            );
            std::fs::remove_dir_all(&out)?;
        }
    }
    Ok(())
}

fn compare(found: &Files, want: &Files) -> Outcome {
    for path in found.keys().chain(want.keys()) {
        if found.get(path) != want.get(path) {
            let path = String::from_utf8_lossy(path);
            return Err(format!("'{path}' is not what it should be").into());
        }
    }
    Ok(())
}

fn stories(seeds: std::ops::Range<u64>, commits: u64) -> Outcome {
    for seed in seeds {
        let told = std::panic::catch_unwind(|| story(seed, commits).map_err(|e| e.to_string()));
        match told {
            Ok(Ok(())) => {}
            Ok(Err(e)) => return Err(format!("seed {seed}: {e}").into()),
            Err(_) => return Err(format!("seed {seed} panics").into()),
        }
    }
    Ok(())
}

#[test]
fn commits_of_random_edits_are_what_the_model_says() -> Outcome {
    stories(0..14, 12)
}

/// The same with many more edits. The top of this file shows how to run it.
#[test]
#[ignore = "minutes"]
fn commits_of_very_many_random_edits_are_what_the_model_says() -> Outcome {
    stories(1000..1400, 40)
}

/// A file is written again at once with the same size, and its old mtime is restored. The mtime
/// does not show the change, so DMV must read the file.
#[test]
fn a_change_that_leaves_size_and_mtime_as_they_were_is_noticed() -> Outcome {
    let dir = fast_dir()?;
    let root = dir.path().join("w");
    std::fs::create_dir(&root)?;
    drop(Repo::init(&root, "main", false, request("init"))?);
    let file = root.join("file");
    for n in 0..60u8 {
        std::fs::write(&file, [n; 100])?;
        let before = file.metadata()?.modified()?;
        let repo = Repo::open(&root)?;
        commit(&repo, "one")?;
        if n % 3 == 0 {
            // The stat cache now stores the file as equal, if it is old enough.
            assert_eq!(status(&repo)?.changes, []);
        }
        std::fs::write(&file, [n + 100; 100])?;
        if n % 2 == 0 {
            set_mtime(&file, before)?;
        }
        let repo = Repo::open(&root)?;
        assert_eq!(status(&repo)?.changes.len(), 1, "round {n}");
        let id = commit(&repo, "two")?.commit.ok_or("nothing committed")?;
        let want = Item::File(vec![n + 100; 100], false);
        assert_eq!(
            files_of(&repo, &id)?.get(b"file".as_slice()),
            Some(&want),
            "round {n}"
        );
    }
    Ok(())
}

/// However tables were merged, lookups and prefixes must give the same answers as one map of all
/// objects.
#[test]
fn tables_merged_many_times_answer_like_a_map() -> Outcome {
    let dir = fast_dir()?;
    let root = dir.path().join("w");
    std::fs::create_dir(&root)?;
    drop(Repo::init(&root, "main", false, request("init"))?);
    let mut map = BTreeMap::new();
    let mut rng = Rng::new(4);
    for n in 0..24 {
        for k in 0..20 {
            std::fs::write(root.join(format!("{k}")), rng.bytes(64))?;
        }
        let repo = Repo::open(&root)?;
        commit(&repo, &format!("{n}"))?;
        let repo = Repo::open(&root)?;
        repo.store().for_each_object(&mut |id, ty, pack| {
            map.insert(id, (ty, pack));
            Ok(())
        })?;
        if n % 8 != 7 {
            continue;
        }
        // Three sizes of tables, with fewer than `MERGE_TABLES` of each.
        let most = 3 * MERGE_TABLES;
        assert!(repo.store().table_stats().0 < most, "nothing is merged");
        assert_eq!(repo.store().table_stats().1, map.len() as u64);
        for (id, (ty, pack)) in &map {
            assert_eq!(repo.store().pack_of(id)?, Some(*pack));
            let hex = id.to_string();
            for digits in [4, 5, 8, 63, 64] {
                let prefix = &hex[..digits];
                let from = ObjectId::from_hex(&format!("{prefix:0<64}")).ok_or("no id")?;
                let fits = map
                    .range(from..)
                    .take_while(|(id, _)| id.to_string().starts_with(prefix));
                let want: Vec<_> = fits.map(|(id, (ty, _))| (*id, *ty)).collect();
                let mut found = repo.store().current().with_prefix(prefix, 1000)?;
                found.sort_unstable();
                assert_eq!(found, want, "{prefix}");
            }
            let mut other = *id.as_bytes();
            other[31] ^= 1;
            assert_eq!(repo.store().pack_of(&ObjectId::from_bytes(other))?, None);
            assert!(
                repo.store().current().with_prefix(&hex[..3], 9).is_ok(),
                "{ty:?}"
            );
        }
    }
    assert!(
        Repo::open(&root)?
            .verify(VerifyDepth::Full, &Job::default())?
            .is_ok()
    );
    Ok(())
}
