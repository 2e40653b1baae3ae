//! Files that share their blocks with packs, on file systems that can: XFS and btrfs, in files. They take root.

use crate::deltas::{gc, repack};
use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::name::{RepoPath, SafeName};
use dmv_core::repo::{AddOptions, Head, Repo, VerifyDepth};
use dmv_core::store::{SharingMode, SharingRules};
use dmv_random::{number, seed};
use dmv_tests::peers::{Done, Place};
use dmv_tests::rng::Rng;
use dmv_tests::scratch::{Item, commit, files_of, request};
use rustix::fs::FallocateFlags;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

const FILE_SYSTEMS: [&str; 2] = ["xfs", "btrfs"];
const IMAGE_BYTES: u64 = 512 << 20;
const FILE_BYTES: usize = 24 << 20;
/// What a commit writes besides content: the database, the log, metadata, and blocks of the file system.
const BESIDE_BYTES: u64 = 3 << 20;

/// Changes one byte of a file through a memory map.
const MAPPED_WRITE: &str = "
import mmap, os, sys
with open(sys.argv[1], 'r+b') as f:
    mmap.mmap(f.fileno(), 0)[int(sys.argv[2])] = int(sys.argv[3])
";

/// A file system in a file.
struct Image {
    dir: TempDir,
    is_mounted: bool,
}

impl Image {
    /// Returns an empty one; `None` where this machine has none.
    fn new(kind: &str) -> Done<Option<Image>> {
        if !rustix::process::geteuid().is_root() {
            dmv_random::skip("mounting takes root");
            return Ok(None);
        }
        let (dir, is_mounted) = (TempDir::new()?, false);
        let mut image = Image { dir, is_mounted };
        File::create(image.file())?.set_len(IMAGE_BYTES)?;
        let made = run(&format!("mkfs.{kind}"), &["-q".as_ref(), &image.file()]);
        let mounted = made.and_then(|()| image.mount());
        if let Err(why) = mounted {
            dmv_random::skip(format!("{kind}: {why}"));
            return Ok(None);
        }
        Ok(Some(image))
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("image")
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("disk")
    }

    fn mount(&mut self) -> io::Result<()> {
        fs::create_dir_all(self.root())?;
        let options = ["-o".as_ref(), "loop".as_ref()];
        run(
            "mount",
            &[options[0], options[1], &self.file(), &self.root()],
        )?;
        self.is_mounted = true;
        Ok(())
    }

    fn unmount(&mut self) -> io::Result<()> {
        run("umount", &[&self.root()])?;
        self.is_mounted = false;
        Ok(())
    }

    /// Returns a repository on it.
    fn place(&self) -> Done<Place> {
        let dir = tempfile::tempdir_in(self.root())?;
        let repo = Repo::init(dir.path(), "main", false, request("init"))?;
        Ok(Place { dir, repo })
    }

    /// Returns the bytes in use once everything is on the disk.
    fn used(&self) -> Done<u64> {
        let root = File::open(self.root())?;
        rustix::fs::syncfs(&root)?;
        // Blocks of removed files are free a moment later.
        let mut before = u64::MAX;
        loop {
            let disk = rustix::fs::statvfs(self.root())?;
            let used = (disk.f_blocks - disk.f_bfree) * disk.f_frsize;
            if used == before {
                return Ok(used);
            }
            before = used;
            rustix::fs::syncfs(&root)?;
        }
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        if self.is_mounted {
            let _ = self.unmount();
        }
    }
}

fn run(program: &str, args: &[&Path]) -> io::Result<()> {
    let done = Command::new(program).args(args).output()?;
    if done.status.success() {
        return Ok(());
    }
    Err(io::Error::other(String::from_utf8_lossy(&done.stderr)))
}

fn add_worktree(repo: &Repo, dir: PathBuf, commit: ObjectId) -> Done<usize> {
    let options = AddOptions {
        dir,
        head: Head::Commit(commit),
        commit,
        subset: Default::default(),
        settings: Default::default(),
        request: request("worktree add"),
    };
    Ok(repo.add_worktree(&options, &Job::default())?.refused.len())
}

fn restore(repo: &Repo, from: Option<ObjectId>, name: &str) -> Done {
    let mut path = RepoPath::root();
    for name in name.split('/') {
        path.push(&SafeName::new(name.as_bytes())?)?;
    }
    let (settings, job) = (Default::default(), Job::default());
    repo.restore(from, &[path], &settings, request("restore"), &job)?;
    Ok(())
}

fn content(repo: &Repo, commit: &ObjectId, name: &str) -> Done<Option<Vec<u8>>> {
    match files_of(repo, commit)?.remove(name.as_bytes()) {
        Some(Item::File(bytes, _)) => Ok(Some(bytes)),
        _ => Ok(None),
    }
}

#[test]
fn packs_worktrees_and_checkouts_have_one_copy_on_the_disk() -> Done {
    for kind in FILE_SYSTEMS {
        let Some(image) = Image::new(kind)? else {
            continue;
        };
        let (place, bytes) = (image.place()?, Rng::new(1).bytes(FILE_BYTES));
        place.write("new/one", &bytes)?;
        let before = image.used()?;
        let first = place.commit("one")?;
        let less_than = |since: u64, bytes: u64, what: &str| -> Done<u64> {
            let now = image.used()?;
            assert!(now < since + bytes, "{kind}: {what}: {} more", now - since);
            Ok(now)
        };
        let part = FILE_BYTES as u64 / 100;
        let before = less_than(before, part + BESIDE_BYTES, "a commit")?;
        let shared = place.repo.shared_bytes(&Job::default())?;
        let shared = shared.ok_or("the file system tells")?;
        let almost_all = FILE_BYTES as u64 - part..=FILE_BYTES as u64;
        assert!(almost_all.contains(&shared), "{kind}: {shared}");
        let second_tree = image.root().join("two");
        assert_eq!(add_worktree(&place.repo, second_tree.clone(), first)?, 0);
        let before = less_than(before, part + BESIDE_BYTES, "a worktree")?;
        assert!(fs::read(second_tree.join("new/one"))? == bytes);

        fs::remove_file(place.dir.path().join("new/one"))?;
        restore(&place.repo, None, "new/one")?;
        assert!(fs::read(place.dir.path().join("new/one"))? == bytes);
        let before = less_than(before, part + BESIDE_BYTES, "a restored file")?;

        // What is moved to other packs is shared as before.
        let more = Rng::new(2).bytes(FILE_BYTES / 2);
        place.write("two", &more)?;
        let before = less_than(before, more.len() as u64 + BESIDE_BYTES, "a new file")?;
        let second = place.commit("two")?;
        assert!(repack(&place.again()?)?.finished);
        gc(&place.again()?)?;
        less_than(before, 2 * part + BESIDE_BYTES, "a repack")?;
        place.is_sound()?;
        assert!(content(&place.again()?, &second, "two")? == Some(more));
        assert!(content(&place.again()?, &second, "new/one")? == Some(bytes));
    }
    Ok(())
}

fn rules(mode: SharingMode) -> SharingRules {
    SharingRules {
        mode,
        ..SharingRules::default()
    }
}

#[test]
fn sharing_can_be_switched_off_and_required() -> Done {
    let Some(image) = Image::new("xfs")? else {
        return Ok(());
    };
    let (place, bytes) = (image.place()?, Rng::new(1).bytes(FILE_BYTES));
    place.repo.store().share_blocks(rules(SharingMode::Off));
    place.write("one", &bytes)?;
    let before = image.used()?;
    let first = place.commit("one")?;
    assert!(image.used()? > before + FILE_BYTES as u64);
    assert_eq!(place.repo.shared_bytes(&Job::default())?, Some(0));

    let repo = place.again()?;
    repo.store().share_blocks(rules(SharingMode::Require));
    place.write("two", &Rng::new(2).bytes(FILE_BYTES))?;
    assert!(commit(&repo, "two")?.commit.is_some());
    // Elsewhere it is refused.
    let elsewhere = TempDir::new()?;
    let refused = add_worktree(&repo, elsewhere.path().join("two"), first);
    let why = refused.expect_err("another disk").to_string();
    assert!(why.contains("worktree.share"), "{why}");

    let other = Place::new()?;
    other.repo.store().share_blocks(rules(SharingMode::Require));
    other.write("one", &bytes)?;
    other.write("small", b"small")?;
    let report = commit(&other.repo, "all")?;
    let why = format!("{report:?}");
    assert!(why.contains("worktree.share"), "{why}");
    Ok(())
}

/// The file that is edited. A checkout makes its directory.
const EDITED: &str = "new/file";

/// A file that is edited, and what it had in each commit.
struct Edited {
    place: Place,
    rng: Rng,
    commits: Vec<(ObjectId, blake3::Hash)>,
}

impl Edited {
    fn path(&self) -> PathBuf {
        self.place.dir.path().join(EDITED)
    }

    /// Changes the file in one of the ways of programs.
    fn edit(&mut self) -> Done {
        let path = self.path();
        let file = OpenOptions::new().read(true).write(true).open(&path)?;
        let len = file.metadata()?.len();
        let at = self.rng.below(len);
        let bytes = self.rng.below(200_000) as usize + 1;
        match self.rng.below(8) {
            0 | 1 => file.write_all_at(&self.rng.bytes(bytes), at)?,
            2 => file.set_len(len - self.rng.below(5_000))?,
            3 => file.write_all_at(&self.rng.bytes(bytes), len)?,
            4 => {
                let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                rustix::fs::fallocate(&file, how, at, bytes as u64)?;
            }
            5 => {
                let value = (self.rng.below(256)).to_string();
                let mut python = Command::new("python3");
                let python = python.args(["-c", MAPPED_WRITE]).arg(&path);
                python.args([at.to_string(), value]).status()?;
            }
            6 => {
                let copy = path.with_extension("copy");
                run("cp", &["--reflink=auto".as_ref(), &path, &copy])?;
                let copied = OpenOptions::new().write(true).open(&copy)?;
                copied.write_all_at(&self.rng.bytes(bytes), at)?;
                fs::rename(&copy, &path)?;
            }
            _ => {
                let nth = self.rng.below(self.commits.len().max(1) as u64) as usize;
                if let Some((id, _)) = self.commits.get(nth) {
                    restore(&self.place.again()?, Some(*id), EDITED)?;
                }
            }
        }
        Ok(())
    }

    fn commit(&mut self) -> Done {
        let expected = blake3::hash(&fs::read(self.path())?);
        let id = self.place.commit("an edit")?;
        self.commits.push((id, expected));
        Ok(())
    }

    fn check(&self) -> Done {
        self.place.is_sound()?;
        let repo = self.place.again()?;
        for (id, expected) in &self.commits {
            let found = content(&repo, id, EDITED)?.ok_or("it was committed")?;
            assert_eq!(blake3::hash(&found), *expected, "{id}");
        }
        let Some((id, expected)) = self.commits.last() else {
            return Ok(());
        };
        let beside = self.place.dir.path().parent().ok_or("a directory")?;
        let temp = TempDir::new_in(beside)?;
        let tree = temp.path().join("tree");
        assert_eq!(add_worktree(&repo, tree.clone(), *id)?, 0);
        let written = fs::read(tree.join(EDITED))?;
        assert_eq!(blake3::hash(&written), *expected, "a worktree of {id}");
        Ok(())
    }
}

#[test]
fn edits_of_a_shared_file_change_nothing_that_was_committed() -> Done {
    let (edits, seed) = (number("DMV_SHARED_EDITS", 40), seed(1));
    for kind in FILE_SYSTEMS {
        let Some(image) = Image::new(kind)? else {
            continue;
        };
        let (place, mut rng) = (image.place()?, Rng::new(seed));
        place.write(EDITED, &rng.bytes(5 << 20))?;
        let commits = Vec::new();
        let mut edited = Edited {
            place,
            rng,
            commits,
        };
        edited.commit()?;
        for n in 1..=edits {
            edited.edit()?;
            if edited.rng.one_in(3) {
                edited.commit()?;
            }
            if n % 50 == 0 {
                edited.check()?;
                // The image is small.
                let last = edited.commits.len() - 1;
                let kept = edited.commits.split_off(last);
                edited.commits = kept;
                let len = fs::metadata(edited.path())?.len();
                if len < (4 << 20) || image.used()? > IMAGE_BYTES / 2 {
                    edited.place = image.place()?;
                    edited.place.write(EDITED, &edited.rng.bytes(5 << 20))?;
                    edited.commits.clear();
                    edited.commit()?;
                }
            }
        }
        edited.check()?;
    }
    Ok(())
}

#[test]
fn a_file_that_changes_during_its_commit_leaves_a_sound_repository() -> Done {
    for kind in FILE_SYSTEMS {
        let Some(image) = Image::new(kind)? else {
            continue;
        };
        let place = image.place()?;
        place.write("file", &Rng::new(1).bytes(FILE_BYTES))?;
        let stop = AtomicBool::new(false);
        let path = place.dir.path().join("file");
        let file = OpenOptions::new().write(true).open(path)?;
        std::thread::scope(|scope| {
            let (stop, file) = (&stop, &file);
            let writer = scope.spawn(move || -> io::Result<()> {
                let mut rng = Rng::new(2);
                while !stop.load(Ordering::Relaxed) {
                    let at = rng.below(FILE_BYTES as u64 - 8192);
                    file.write_all_at(&rng.bytes(8192), at)?;
                }
                Ok(())
            });
            let committed = (0..4).try_for_each(|n| -> Done {
                commit(&place.repo, &format!("commit {n}"))?;
                Ok(())
            });
            stop.store(true, Ordering::Relaxed);
            writer.join().expect("the writer does not panic")?;
            committed
        })?;
        place.is_sound()?;
    }
    Ok(())
}

#[test]
fn damage_of_a_shared_block_is_noticed() -> Done {
    const MARK: &[u8] = b"these bytes stand on the disk once";
    let Some(mut image) = Image::new("xfs")? else {
        return Ok(());
    };
    let mut bytes = Rng::new(1).bytes(8 << 20);
    bytes[3_000_000..3_000_000 + MARK.len()].copy_from_slice(MARK);
    let root = image.root().join("repository");
    let repo = Repo::init(&root, "main", false, request("init"))?;
    fs::write(root.join("file"), &bytes)?;
    let made = commit(&repo, "file")?.commit.ok_or("a commit")?;
    assert_eq!(add_worktree(&repo, image.root().join("two"), made)?, 0);
    drop(repo);
    image.unmount()?;

    let mark = std::str::from_utf8(MARK)?;
    let mut grep = Command::new("grep");
    let found = grep.args(["-obaF", mark]).arg(image.file()).output()?;
    let found = String::from_utf8(found.stdout)?;
    let [place] = found.lines().collect::<Vec<_>>()[..] else {
        return Err(format!("the bytes do not stand there once: {found}").into());
    };
    let (place, _) = place.split_once(':').ok_or("an offset")?;
    let disk = OpenOptions::new().write(true).open(image.file())?;
    disk.write_all_at(b"THESE", place.parse()?)?;
    disk.sync_all()?;
    drop(disk);
    image.mount()?;

    for tree in ["repository", "two"] {
        let read = fs::read(image.root().join(tree).join("file"))?;
        assert!(read[3_000_000..].starts_with(b"THESE"), "{tree}");
    }
    let is_refused = |repo: &Repo, name: &str| {
        let refused = add_worktree(repo, image.root().join(name), made);
        let is_there = image.root().join(name).join("file").exists();
        !is_there && refused.map_or(true, |n| n == 1)
    };
    let (full, sample) = (Repo::open(&root)?, sampling(&root)?);
    assert!(is_refused(&full, "three"));
    // The block is one of four, and one of 32 is read.
    let mut unread = (0..20).filter(|n| !is_refused(&sample, &format!("sample {n}")));
    assert!(unread.next().is_some());

    let report = full.verify(VerifyDepth::Full, &Job::default())?;
    assert_eq!(report.damaged.len(), 1, "{report:?}");
    let warned = sampling(&root)?;
    for n in 0..20 {
        assert!(is_refused(&warned, &format!("warned {n}")));
    }
    Ok(())
}

fn sampling(root: &Path) -> Done<Repo> {
    let repo = Repo::open(root)?;
    let rules = SharingRules {
        samples: true,
        ..SharingRules::default()
    };
    repo.store().share_blocks(rules);
    Ok(repo)
}

#[test]
fn a_checked_sample_gives_the_same_files_and_shares_the_same_blocks() -> Done {
    for kind in FILE_SYSTEMS {
        let Some(image) = Image::new(kind)? else {
            continue;
        };
        let (place, mut rng) = (image.place()?, Rng::new(1));
        let mut bytes = rng.bytes(FILE_BYTES);
        // A part that compresses lies elsewhere in the packs.
        bytes[9_000_000..10_000_000].fill(7);
        place.write("new/one", &bytes)?;
        let small = rng.bytes(5 << 20);
        place.write("two", &small)?;
        let commit = place.commit("both")?;
        let (repo, before) = (sampling(place.dir.path())?, image.used()?);
        let tree = image.root().join("tree");
        assert_eq!(add_worktree(&repo, tree.clone(), commit)?, 0);
        let more = image.used()? - before;
        assert!(more < 2 * BESIDE_BYTES, "{kind}: {more}");
        assert!(fs::read(tree.join("new/one"))? == bytes, "{kind}");
        assert!(fs::read(tree.join("two"))? == small, "{kind}");
    }
    Ok(())
}

/// Opens the largest pack for writing.
fn largest_pack(place: &Place) -> Done<File> {
    let packs = fs::read_dir(place.dir.path().join(".dmv/packs"))?;
    let packs: Vec<_> = packs.map(|e| Ok(e?.path())).collect::<io::Result<_>>()?;
    let len = |path: &PathBuf| fs::metadata(path).map_or(0, |stat| stat.len());
    let pack = packs.iter().max_by_key(|path| len(path)).ok_or("a pack")?;
    Ok(OpenOptions::new().write(true).open(pack)?)
}

#[test]
fn where_no_blocks_are_shared_all_is_read() -> Done {
    let Some(image) = Image::new("ext4")? else {
        return Ok(());
    };
    let place = image.place()?;
    place.write("one", &Rng::new(1).bytes(8 << 20))?;
    let made = place.commit("one")?;
    let pack = largest_pack(&place)?;
    pack.write_all_at(b"damage", 5_000_000)?;
    for n in 0..20 {
        let dir = image.root().join(n.to_string());
        let refused = add_worktree(&sampling(place.dir.path())?, dir.clone(), made);
        assert!(refused.is_err() || refused.is_ok_and(|n| n == 1));
        assert!(!dir.join("one").exists());
    }
    Ok(())
}

#[test]
fn content_that_a_pack_has_lost_is_damage_though_only_a_sample_is_read() -> Done {
    let Some(image) = Image::new("xfs")? else {
        return Ok(());
    };
    let place = image.place()?;
    place.write("one", &Rng::new(1).bytes(16 << 20))?;
    let made = place.commit("one")?;
    let repo = sampling(place.dir.path())?;
    // The repository is open, and its catalogue is loaded.
    largest_pack(&place)?.set_len(9 << 20)?;
    for n in 0..5 {
        let refused = add_worktree(&repo, image.root().join(n.to_string()), made);
        assert!(refused.is_err(), "{refused:?}");
        assert!(!image.root().join(n.to_string()).join("one").exists());
    }
    Ok(())
}
