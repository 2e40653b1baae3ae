//! Bit rot: flipped bits, lost ends, swapped blocks, missing files.
//!
//! Long run: `cargo test -p dmv-tests --release --test library -- damage:: --ignored`.

use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::list::Blob;
use dmv_core::object::name::RepoPath;
use dmv_core::object::tree::{Kind, TreeEntry};
use dmv_core::object::{ObjectError, ObjectType, ObjectWrite};
use dmv_core::refs::testing;
use dmv_core::refs::{Change, Effect};
use dmv_core::repo::{
    HealedFrom, PlaceError, RefKind, Repo, RepoError, StatusOptions, VerifyDepth, VerifyReport,
    discover, discover_lost, recover,
};
use dmv_core::store::MetaWriter;
use dmv_core::worktree::select::Paths;
use dmv_tests::countvfs::CountVfs;
use dmv_tests::crashlab::Outcome;
use dmv_tests::rng::Rng;
use dmv_tests::scratch::{Files, Item, commit, fast_dir, files_in, files_of, request};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// A repository on disk, and what must be in it.
struct Subject {
    _dir: TempDir,
    root: PathBuf,
    commits: Vec<(ObjectId, Files)>,
}

impl Subject {
    /// Makes a repository with `commits` commits and a large file of `large` random bytes.
    fn new(commits: u64, large: usize) -> Outcome<Subject> {
        let dir = fast_dir()?;
        let root = dir.path().join("w");
        std::fs::create_dir_all(root.join("dir"))?;
        drop(Repo::init(&root, "main", false, request("init"))?);
        let mut subject = Subject {
            _dir: dir,
            root,
            commits: Vec::new(),
        };
        let (root, mut rng) = (subject.root.clone(), Rng::new(11));
        std::fs::write(root.join("large"), rng.bytes(large))?;
        std::os::unix::fs::symlink("dir/text", root.join("link"))?;
        for n in 0..commits {
            std::fs::write(root.join("dir/text"), rng.text(700))?;
            std::fs::write(root.join(format!("dir/{n}")), rng.bytes(100))?;
            let repo = subject.open()?;
            let done = commit(&repo, &format!("number {n}"))?;
            let id = done.commit.ok_or("nothing was committed")?;
            subject.commits.push((id, files_in(&root)?));
        }
        let (first, _) = subject.commits[0];
        let repo = subject.open()?;
        repo.create_ref(RefKind::Tag, "first", first, request("tag"))?;
        Ok(subject)
    }

    fn open(&self) -> Result<Repo, RepoError> {
        Repo::open(&self.root)
    }

    fn dmv(&self) -> PathBuf {
        self.root.join(".dmv")
    }

    /// Returns the files in a directory of the repository.
    fn files(&self, dir: &str) -> Outcome<Vec<PathBuf>> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(self.dmv().join(dir))? {
            files.push(entry?.path());
        }
        files.sort();
        Ok(files)
    }

    /// Returns the packs without the log pack, and the log pack.
    fn packs(&self) -> Outcome<(Vec<PathBuf>, PathBuf)> {
        let log = self.dmv().join(format!("packs/{}.pack", self.open()?.id()));
        let mut packs = self.files("packs")?;
        packs.retain(|path| *path != log);
        Ok((packs, log))
    }

    /// Reads every file of every commit. A file may be unreadable, but the content of a readable
    /// file must be right.
    ///
    /// Returns the number of readable files.
    fn read_all(&self, repo: &Repo) -> Outcome<usize> {
        let mut good = 0;
        for (id, files) in &self.commits {
            let Ok(commit) = repo.read_commit(id) else {
                continue;
            };
            let mut entries: Vec<(Vec<u8>, TreeEntry)> = Vec::new();
            let _ = repo.list(&RepoPath::root(), commit.tree, true, &mut |listed| {
                entries.push((listed.path.as_bytes().to_vec(), listed.entry));
                Ok(ControlFlow::Continue(()))
            });
            for (path, entry) in entries {
                let found = match entry.kind {
                    Kind::Symlink => match repo.link_target(&entry) {
                        Ok(target) => Item::Symlink(target),
                        Err(_) => continue,
                    },
                    Kind::Directory | Kind::Conflict => continue,
                    kind => {
                        let mut bytes = Vec::new();
                        let (id, is_list, size) = (entry.id, entry.is_list, entry.size);
                        match repo.cat(Blob { id, is_list, size }, None, &mut bytes) {
                            Ok(_) => Item::File(bytes, kind == Kind::Executable),
                            Err(_) => continue,
                        }
                    }
                };
                let path_text = String::from_utf8_lossy(&path);
                if files.get(&path) != Some(&found) {
                    return Err(format!("wrong bytes come out of '{path_text}'").into());
                }
                good += 1;
            }
        }
        Ok(good)
    }

    /// Reads everything and verifies. Returns the report of verify.
    fn examine(&self, depth: VerifyDepth) -> Outcome<Result<VerifyReport, String>> {
        let repo = match self.open() {
            Ok(repo) => repo,
            Err(e) => return Ok(Err(e.to_string())),
        };
        self.read_all(&repo)?;
        let report = repo.verify(depth, &Job::default());
        Ok(report.map_err(|e| e.to_string()))
    }

    /// Replaces a file by damaged bytes, examines the repository, and restores the file.
    fn with_damage(
        &self,
        path: &Path,
        bytes: &[u8],
        depth: VerifyDepth,
    ) -> Outcome<Result<VerifyReport, String>> {
        let good = std::fs::read(path)?;
        std::fs::write(path, bytes)?;
        let result = self.examine(depth);
        std::fs::write(path, good)?;
        result
    }

    /// Checks that verify notices the damage and names the file.
    fn must_notice(&self, path: &Path, bytes: &[u8], depth: VerifyDepth, what: &str) -> Outcome {
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or("?");
        let what = format!("{what} of {name}");
        match self.with_damage(path, bytes, depth) {
            Err(e) => Err(format!("{what}: {e}").into()),
            Ok(Ok(report)) if report.is_ok() => Err(format!("{what}: nobody notices").into()),
            Ok(Ok(report)) => {
                let named = report
                    .files
                    .iter()
                    .any(|f| f.contains(name) || f.contains("log"));
                let objects = !report.damaged.is_empty() || !report.missing.is_empty();
                (named || objects)
                    .then_some(())
                    .ok_or_else(|| format!("{what}: not named in {report:?}").into())
            }
            Ok(Err(e)) => Err(format!("{what}: verify gives up: {e}").into()),
        }
    }

    /// Flips a bit of the byte at each of `places`, one at a time.
    fn flip(
        &self,
        path: &Path,
        places: impl Iterator<Item = usize>,
        depth: VerifyDepth,
    ) -> Outcome {
        let good = std::fs::read(path)?;
        for at in places {
            let mut bad = good.clone();
            bad[at] ^= 1 << (at % 8);
            self.must_notice(path, &bad, depth, &format!("flip at {at}"))?;
        }
        Ok(())
    }
}

fn size(path: &Path) -> Outcome<usize> {
    Ok(std::fs::read(path)?.len())
}

/// Every third byte; the harness `flips` tries all.
#[test]
fn flipped_bytes_of_every_pack_are_noticed_and_never_read() -> Outcome {
    let subject = Subject::new(2, 500)?;
    let (packs, log) = subject.packs()?;
    for pack in &packs {
        subject.flip(pack, (0..size(pack)?).step_by(3), VerifyDepth::Normal)?;
    }
    subject.flip(&log, (0..size(&log)?).step_by(3), VerifyDepth::Full)
}

#[test]
fn flipped_bytes_of_a_file_of_several_chunks_are_noticed() -> Outcome {
    flip_large(3 << 20, 60)
}

/// The same with more bits. The top of this file shows how to run it.
#[test]
#[ignore = "minutes"]
fn many_flipped_bytes_of_a_large_file_are_noticed() -> Outcome {
    flip_large(20 << 20, 3000)
}

fn flip_large(bytes: usize, flips: u64) -> Outcome {
    let subject = Subject::new(2, bytes)?;
    let mut rng = Rng::new(21);
    for pack in subject.packs()?.0 {
        let len = size(&pack)? as u64;
        let places: Vec<usize> = (0..flips).map(|_| rng.below(len) as usize).collect();
        subject.flip(&pack, places.into_iter(), VerifyDepth::Normal)?;
    }
    Ok(())
}

#[test]
fn files_that_the_damage_does_not_touch_can_be_read() -> Outcome {
    let subject = Subject::new(2, 1 << 20)?;
    let all = subject.read_all(&subject.open()?)?;
    let data = subject
        .packs()?
        .0
        .into_iter()
        .max_by_key(|p| size(p).unwrap_or(0))
        .ok_or("no pack")?;
    let mut bad = std::fs::read(&data)?;
    // The header of the pack, which belongs to no object.
    bad[20] ^= 1;
    std::fs::write(&data, &bad)?;
    assert_eq!(subject.read_all(&subject.open()?)?, all);
    // The large file, which both commits have.
    bad[500_000] ^= 1;
    std::fs::write(&data, &bad)?;
    assert_eq!(subject.read_all(&subject.open()?)?, all - 2);
    let report = subject
        .open()?
        .verify(VerifyDepth::Normal, &Job::default())?;
    assert_eq!(report.damaged.len(), 1);
    assert_eq!(report.damaged[0].paths, [Repo::parse_path(b"large")?]);
    Ok(())
}

#[test]
fn the_bytes_of_another_object_are_noticed() -> Outcome {
    let (dir, mut rng) = (fast_dir()?, Rng::new(12));
    drop(Repo::init(dir.path(), "main", false, request("init"))?);
    let (one, two) = (rng.bytes(5000), rng.bytes(5000));
    for (name, content) in [("one", &one), ("two", &two)] {
        std::fs::write(dir.path().join(name), content)?;
    }
    commit(&Repo::open(dir.path())?, "both")?;
    let repo = Repo::open(dir.path())?;
    let packs = repo.store().packs();
    let largest = packs.iter().max_by_key(|pack| pack.len).ok_or("packs")?;
    let path = repo.store().pack_path(largest.id);
    let mut bytes = std::fs::read(&path)?;
    let at = bytes.windows(5000).position(|w| w == two).ok_or("two")?;
    bytes[at..at + 5000].copy_from_slice(&one);
    std::fs::write(&path, bytes)?;
    let report = Repo::open(dir.path())?.verify(VerifyDepth::Normal, &Job::default())?;
    let paths: Vec<_> = report.damaged.iter().map(|d| d.paths.clone()).collect();
    assert_eq!(paths, [[Repo::parse_path(b"two")?]]);
    Ok(())
}

#[test]
fn lost_ends_and_swapped_blocks_of_packs_are_noticed() -> Outcome {
    let subject = Subject::new(3, 40_000)?;
    let mut rng = Rng::new(5);
    let (packs, log) = subject.packs()?;
    for pack in packs.iter().chain([&log]) {
        let good = std::fs::read(pack)?;
        let len = good.len();
        let random = (0..25).map(|_| rng.below(len as u64) as usize);
        let cuts: Vec<usize> = [0, 1, 63, 64, 65, len - 33, len - 32, len - 1]
            .into_iter()
            .chain(random)
            .collect();
        for cut in cuts {
            let what = format!("cut at {cut}");
            subject.must_notice(pack, &good[..cut], VerifyDepth::Full, &what)?;
        }
        let blocks = len as u64 / 512;
        for _ in 0..25.min(blocks * (blocks - 1)) {
            let (a, b) = (rng.below(blocks) as usize, rng.below(blocks) as usize);
            let mut bad = good.clone();
            bad[a * 512..][..512].copy_from_slice(&good[b * 512..][..512]);
            bad[b * 512..][..512].copy_from_slice(&good[a * 512..][..512]);
            if bad != good {
                let what = format!("swap of blocks {a} and {b}");
                subject.must_notice(pack, &bad, VerifyDepth::Full, &what)?;
            }
        }
    }
    Ok(())
}

/// Commits until tables have been merged. Returns the index file.
fn with_index() -> Outcome<(Subject, PathBuf)> {
    let subject = Subject::new(5, 500)?;
    let mut files = subject.files("index")?;
    let index = files.pop().ok_or("nothing has been merged")?;
    Ok((subject, index))
}

#[test]
fn a_damaged_index_file_is_reported_or_done_without() -> Outcome {
    let (subject, index) = with_index()?;
    let good = std::fs::read(&index)?;
    let db = std::fs::read(subject.dmv().join("refs.db"))?;
    let all = subject.read_all(&subject.open()?)?;
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        let result = subject.with_damage(&index, &bad, VerifyDepth::Quick);
        let result = result.map_err(|e| format!("flip at {at}: {e}"))?;
        let report = result.map_err(|e| format!("flip at {at}: {e}"))?;
        if report.is_ok() {
            // The repository has healed itself: the index file is out of use.
            let read = subject.read_all(&subject.open()?)?;
            assert_eq!(read, all, "flip at {at}");
            std::fs::write(subject.dmv().join("refs.db"), &db)?;
            assert!(at < 200, "flip at {at} goes unnoticed");
        }
    }
    Ok(())
}

#[test]
fn healing_makes_a_damaged_index_file_anew() -> Outcome {
    let (subject, index) = with_index()?;
    let all = subject.read_all(&subject.open()?)?;
    // In an id of the last entry.
    flip_one(&index, size(&index)? - 8 - 20)?;
    let repo = subject.open()?;
    let job = Job::default();
    assert!(!repo.verify(VerifyDepth::Normal, &job)?.is_ok());
    let (report, _) = repo
        .begin_to_heal(VerifyDepth::Normal, &job)?
        .finish(&job)?;
    assert!(report.is_ok(), "{report:?}");
    let report = subject.open()?.verify(VerifyDepth::Full, &job)?;
    assert!(report.is_ok(), "{report:?}");
    assert_eq!(subject.read_all(&subject.open()?)?, all);
    Ok(())
}

#[test]
fn index_files_can_be_deleted() -> Outcome {
    let (subject, index) = with_index()?;
    let all = subject.read_all(&subject.open()?)?;
    std::fs::remove_file(index)?;
    let repo = subject.open()?;
    assert_eq!(subject.read_all(&repo)?, all);
    assert!(repo.verify(VerifyDepth::Full, &Job::default())?.is_ok());
    // The next commit merges the tables again.
    commit(&repo, "again")?;
    assert_eq!(subject.files("index")?.len(), 1);
    assert_eq!(subject.read_all(&subject.open()?)?, all);
    Ok(())
}

#[test]
fn damage_does_not_spread_into_a_new_index_file() -> Outcome {
    let subject = Subject::new(3, 500)?;
    let pack = subject.packs()?.0.remove(0);
    // In the last entry of the last segment's index: 32 bytes of trailer and 8 bytes of check
    // follow.
    let at = size(&pack)? - 32 - 8 - 20;
    let flip = || -> Outcome {
        let mut bytes = std::fs::read(&pack)?;
        bytes[at] ^= 1;
        Ok(std::fs::write(&pack, bytes)?)
    };
    flip()?;
    for n in 0..4 {
        // The commit may work or fail: this depends on which ids it looks up.
        let _ = commit(&subject.open()?, &format!("damaged {n}"));
    }
    assert!(
        subject.files("index")?.is_empty(),
        "a damaged table was merged"
    );
    flip()?;
    for n in 0..4 {
        commit(&subject.open()?, &format!("whole {n}"))?;
    }
    assert_eq!(subject.files("index")?.len(), 1);
    let report = subject.open()?.verify(VerifyDepth::Full, &Job::default())?;
    assert!(report.is_ok(), "{report:?}");
    Ok(())
}

/// Makes a repository with one commit of 300 kB that do not compress. Returns its data pack.
fn with_data_pack() -> Outcome<(Subject, PathBuf)> {
    let subject = Subject::new(1, 300_000)?;
    let (packs, _) = subject.packs()?;
    let largest = packs.into_iter().max_by_key(|pack| size(pack).unwrap_or(0));
    Ok((subject, largest.ok_or("there is a data pack")?))
}

fn flip_one(pack: &Path, at: usize) -> Outcome {
    let mut bytes = std::fs::read(pack)?;
    bytes[at] ^= 0x10;
    Ok(std::fs::write(pack, bytes)?)
}

/// Heals from the worktree's files. Returns the number of objects.
fn healed_by_files(repo: &Repo) -> Outcome<usize> {
    let job = Job::default();
    let mut healing = repo.begin_to_heal(VerifyDepth::Normal, &job)?;
    healing.from_worktree(&Default::default(), &job)?;
    let (_, healed) = healing.finish(&job)?;
    let stored = healed
        .iter()
        .filter(|healed| healed.from == HealedFrom::Worktree);
    Ok(stored.count())
}

/// The disk cannot read one sector. Only the objects there are damaged, not the rest of the pack.
#[test]
fn a_place_that_cannot_be_read_is_damaged_alone() -> Outcome {
    let subject = Subject::new(1, 3 << 20)?;
    let (packs, _) = subject.packs()?;
    let largest = packs
        .into_iter()
        .max_by_key(|pack| size(pack).unwrap_or(0))
        .ok_or("there is a data pack")?;
    let job = Job::default();
    let all = subject.open()?.verify(VerifyDepth::Normal, &job)?.objects;
    let half = size(&largest)? as u64 / 2;
    let disk = CountVfs::unreadable_at((largest, half..half + 512));
    let repo = Repo::open_place_on(discover(&subject.root)?, Arc::new(disk))?;
    let report = repo.verify(VerifyDepth::Normal, &job)?;
    let lost = report.damaged.len() as u64;
    assert!(lost > 0 && report.objects == all - lost, "{report:?}");
    assert_eq!(report.files.len(), 1, "{report:?}");
    assert!(report.files[0].contains("cannot be read"), "{report:?}");
    Ok(())
}

/// Another command has locked the files. Healing from peers is still possible.
#[test]
fn healing_goes_on_without_files_that_another_command_has_locked() -> Outcome {
    let (subject, pack) = with_data_pack()?;
    flip_one(&pack, 5000)?;
    let (job, repo) = (Job::default(), subject.open()?);
    let mut healing = repo.begin_to_heal(VerifyDepth::Normal, &job)?;
    let lock = std::fs::File::open(subject.dmv().join("worktrees/main/lock"))?;
    lock.lock()?;
    assert!(!healing.from_worktree(&Default::default(), &job)?);
    assert!(healing.are_files_busy());
    drop(lock);
    assert!(healing.from_worktree(&Default::default(), &job)?);
    assert!(!healing.are_files_busy());
    Ok(())
}

#[test]
fn damaged_content_that_the_worktree_has_is_stored_again() -> Outcome {
    let (subject, pack) = with_data_pack()?;
    let all = subject.read_all(&subject.open()?)?;
    let mut rng = Rng::new(5);
    // Flips bits in headers and payloads of frames, first in the original frames and then in those
    // that were stored again.
    for round in 0..6 {
        let at = match round {
            0 => 70,
            5 => size(&pack)? - 100_000,
            _ => rng.below(299_000) as usize + 100,
        };
        flip_one(&pack, at)?;
        let repo = subject.open()?;
        let report = repo.verify(VerifyDepth::Normal, &Job::default())?;
        if report.damaged.is_empty() {
            // This frame was damaged before.
            continue;
        }
        let healed = healed_by_files(&repo)?;
        assert_eq!(healed, report.damaged.len(), "flip at {at}");
        let after = repo.verify(VerifyDepth::Full, &Job::default())?;
        assert!(after.is_ok(), "flip at {at}: {after:?}");
        assert!(!after.made_good.is_empty() && !after.copies.is_empty());
        assert_eq!(subject.read_all(&subject.open()?)?, all);
    }
    // When tables are merged, they must keep the intact copies, even if the record of damaged
    // places is lost.
    for n in 0..9 {
        commit(&subject.open()?, &format!("more {n}"))?;
    }
    assert!(!subject.files("index")?.is_empty());
    let report = subject.open()?.verify(VerifyDepth::Full, &Job::default())?;
    assert!(report.is_ok(), "{report:?}");
    std::fs::remove_file(subject.dmv().join("damaged"))?;
    assert_eq!(subject.read_all(&subject.open()?)?, all);
    Ok(())
}

#[test]
fn a_commit_stores_what_a_check_has_found_damaged() -> Outcome {
    let (subject, pack) = with_data_pack()?;
    flip_one(&pack, 5000)?;
    let check = || subject.open()?.verify(VerifyDepth::Normal, &Job::default());
    assert!(!check()?.is_ok());
    let content = std::fs::read(subject.root.join("large"))?;
    std::fs::remove_file(subject.root.join("large"))?;
    std::fs::write(subject.root.join("large"), content)?;
    std::fs::write(subject.root.join("another"), "so that there is something")?;
    let done = commit(&subject.open()?, "again")?;
    assert!(done.size.stored_bytes > 100_000, "{done:?}");
    let report = check()?;
    assert!(report.is_ok(), "{report:?}");
    // The objects are intact again in their old place, so no damage is recorded.
    flip_one(&pack, 5000)?;
    check()?;
    assert!(!subject.dmv().join("damaged").exists());
    Ok(())
}

#[test]
fn what_the_worktree_does_not_have_stays_damaged() -> Outcome {
    let (subject, pack) = with_data_pack()?;
    std::fs::remove_file(subject.root.join("large"))?;
    flip_one(&pack, 5000)?;
    let repo = subject.open()?;
    let report = repo.verify(VerifyDepth::Normal, &Job::default())?;
    let before = size(&pack)?;
    assert_eq!((healed_by_files(&repo)?, size(&pack)?), (0, before));
    let after = repo.verify(VerifyDepth::Normal, &Job::default())?;
    assert_eq!(after.damaged.len(), report.damaged.len());
    Ok(())
}

#[test]
fn an_object_of_a_later_version_is_not_taken_for_damage() -> Outcome {
    let (subject, _) = with_data_pack()?;
    let repo = subject.open()?;
    let writer = testing::writer(repo.store())?;
    let mut meta = MetaWriter::new(&writer);
    let id = meta.put(ObjectType::Commit, &[ObjectType::Commit as u8, 2, 0, 0])?;
    meta.flush()?;
    let sealed = writer.finish()?;
    let change = Change {
        key: "branch/later".into(),
        old: None,
        new: Some(id.as_bytes().to_vec()),
    };
    repo.publish(request("later"), Some(sealed), vec![change], Effect::Kept)?;
    let is_newer = |e: RepoError| matches!(e, RepoError::Object(ObjectError::TooNew { .. }));
    assert!(repo.read_commit(&id).is_err_and(is_newer));
    let checked = subject.open()?.verify(VerifyDepth::Full, &Job::default());
    assert!(checked.is_err_and(is_newer));
    Ok(())
}

#[test]
fn every_ref_comes_back_from_the_packs_alone() -> Outcome {
    let subject = Subject::new(4, 40_000)?;
    let before = subject.open()?.refs().with_prefix("")?;
    for name in ["refs.db", "refs.db-wal", "refs.db-shm"] {
        let _ = std::fs::remove_file(subject.dmv().join(name));
    }
    assert!(matches!(
        subject.open(),
        Err(RepoError::Place(PlaceError::NoDatabase(_)))
    ));
    let report = recover(&discover(&subject.root)?, &Job::default())?;
    assert_eq!((report.refs, report.reindexed), (2, 0));
    let repo = subject.open()?;
    assert_eq!(repo.refs().with_prefix("")?, before);
    assert!(repo.verify(VerifyDepth::Full, &Job::default())?.is_ok());
    for (id, files) in &subject.commits {
        assert_eq!(files_of(&repo, id)?, *files);
    }
    Ok(())
}

#[test]
fn a_repository_can_be_made_where_making_it_was_cut_off_again_and_again() -> Outcome {
    let dir = tempfile::tempdir()?;
    for _ in 0..3 {
        Repo::init(dir.path(), "main", false, request("init"))?;
        // `init` writes this file last.
        std::fs::remove_file(dir.path().join(".dmv/format"))?;
    }
    let repo = Repo::init(dir.path(), "main", false, request("init"))?;
    commit(&repo, "first")?;
    Ok(())
}

#[test]
fn a_lost_or_damaged_format_file_is_written_anew() -> Outcome {
    let subject = Subject::new(2, 5000)?;
    let file = subject.dmv().join("format");
    let good = std::fs::read(&file)?;
    for bad in [None, Some("nonsense"), Some("")] {
        std::fs::remove_file(&file)?;
        if let Some(bad) = bad {
            std::fs::write(&file, bad)?;
        }
        assert!(subject.open().is_err(), "{bad:?}");
        let again = Repo::init(&subject.root, "main", false, request("init"));
        assert!(again.is_err(), "{bad:?}");
        let report = recover(&discover_lost(&subject.root)?, &Job::default())?;
        assert!(report.format, "{bad:?}");
        assert_eq!(std::fs::read(&file)?, good);
        let repo = subject.open()?;
        assert!(repo.verify(VerifyDepth::Full, &Job::default())?.is_ok());
        assert_eq!(
            repo.head_commit()?,
            subject.commits.last().map(|(id, _)| *id)
        );
    }
    // Recovery does not overwrite the format file of a later version.
    std::fs::write(&file, "dmv-repository 3\nid x\n")?;
    let refused = recover(&discover_lost(&subject.root)?, &Job::default());
    assert!(matches!(
        refused,
        Err(RepoError::Place(PlaceError::TooNew { .. }))
    ));
    Ok(())
}

/// With a flipped bit anywhere in a pack, recovery restores every file that the flip spares. It
/// restores every ref, too, unless the flip is in a record of the log pack.
#[test]
fn a_damaged_pack_does_not_stop_recovery() -> Outcome {
    let subject = Subject::new(3, 500)?;
    let before = subject.open()?.refs().with_prefix("")?;
    let all = subject.read_all(&subject.open()?)?;
    let (packs, log) = subject.packs()?;
    let mut rng = Rng::new(8);
    for pack in packs.iter().chain([&log]) {
        let good = std::fs::read(pack)?;
        let header = [9, 10, 20, 40, 60];
        let random = (0..25).map(|_| rng.below(good.len() as u64) as usize);
        let places: Vec<usize> = header.into_iter().chain(random).collect();
        for at in places {
            let mut bad = good.clone();
            bad[at] ^= 1 << (at % 8);
            std::fs::write(pack, &bad)?;
            let report = recover(&discover(&subject.root)?, &Job::default());
            let when = format!("flip at {at} of {}", pack.display());
            report.map_err(|e| format!("{when}: {e}"))?;
            let repo = subject.open()?;
            let refs = repo.refs().with_prefix("")?;
            if pack != &log {
                assert_eq!(refs, before, "{when}");
            } else if at < 64 {
                assert_eq!((&refs, subject.read_all(&repo)?), (&before, all), "{when}");
            }
            subject
                .read_all(&repo)
                .map_err(|e| format!("{when}: {e}"))?;
            drop(repo);
            std::fs::write(pack, &good)?;
            recover(&discover(&subject.root)?, &Job::default())?;
        }
    }
    assert_eq!(subject.read_all(&subject.open()?)?, all);
    Ok(())
}

#[test]
fn a_status_without_stat_cache_reads_and_is_clean() -> Outcome {
    let subject = Subject::new(2, 5000)?;
    for cache in subject.files("worktrees/main")? {
        std::fs::remove_file(cache)?;
    }
    let options = StatusOptions {
        select: &Paths::default(),
        settings: Default::default(),
    };
    let status = subject.open()?.status(&options, &Job::default())?;
    assert_eq!(status.changes, []);
    Ok(())
}
