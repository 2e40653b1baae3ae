//! A workload of several commits on a disk that crashes, and checks of what a crash leaves.
//!
//! Packs and index files lie in a [`SimVfs`]. `refs.db` lies in a real directory: the tests assume
//! that SQLite is durable. The next start finds the file as it is at the crash.

use crate::rng::Rng;
use crate::scratch::{Files, Item, commit, fast_dir, files_in, files_of, request};
use crate::simfs::{Lie, SimVfs, Survival};
use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::commit::Commit;
use dmv_core::object::name::SafeName;
use dmv_core::object::tree::{Kind, TreeBuilder, TreeEntry};
use dmv_core::object::{ObjectType, ObjectWrite};
use dmv_core::refs::testing;
use dmv_core::refs::{Change, Effect};
use dmv_core::repo::{RefKind, Repo, RepositoryLocation, VerifyDepth, recover_on};
use dmv_core::store::{FrameBuilder, FrameEncoder, MetaWriter, PackKind};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// The result of a check. An error is a broken promise.
pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// The files whose syncs do nothing. This tests the checks themselves.
#[derive(Clone, Default)]
pub struct Lies {
    /// The lies while commits are made.
    pub work: Option<Lie>,
    /// The lies while a repository is recovered.
    pub recovery: Option<Lie>,
}

/// What the workload knows to have happened. All of it must be there after a crash.
#[derive(Clone, Default)]
pub struct World {
    /// The files of every commit that may be found, by the commit's message.
    files: BTreeMap<String, Files>,
    /// The message of the commit that each ref names.
    refs: BTreeMap<String, String>,
    /// The change that was being made. It may have happened or not.
    pending: Option<(String, String)>,
}

impl World {
    fn begin(&mut self, key: &str, message: &str, files: Files) {
        self.files.insert(message.to_owned(), files);
        self.pending = Some((key.to_owned(), message.to_owned()));
    }

    fn done(&mut self) {
        self.refs.extend(self.pending.take());
    }
}

/// A worktree, a repository whose packs are on a simulated disk, and what must be in it.
pub struct Lab {
    dir: TempDir,
    /// The simulated disk.
    pub sim: SimVfs,
    /// What must be in the repository.
    pub world: World,
    forks: u32,
}

const MAIN: &str = "branch/main";

impl Lab {
    /// Makes a new repository. Its creation is durable.
    pub fn new() -> Outcome<Lab> {
        let dir = fast_dir()?;
        let root = dir.path().join("w");
        std::fs::create_dir(&root)?;
        let repo = Repo::init(&root, "main", false, request("init"))?;
        let sim = SimVfs::new(repo.dmv_dir());
        sim.import(&repo.dmv_dir().join("packs"))?;
        std::fs::write(root.join("fixed"), Rng::new(1).text(5000))?;
        Ok(Lab {
            dir,
            sim,
            world: World::default(),
            forks: 0,
        })
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("w")
    }

    /// Returns the place of the repository.
    pub fn place(&self) -> RepositoryLocation {
        self.place_of(&self.root().join(".dmv"))
    }

    fn place_of(&self, dmv: &Path) -> RepositoryLocation {
        RepositoryLocation {
            dmv: dmv.to_owned(),
            worktree: Some((self.root(), "main".into())),
        }
    }

    /// Opens the repository, as each command does.
    pub fn open(&self) -> Outcome<Repo> {
        Ok(Repo::open_place_on(
            self.place(),
            Arc::new(self.sim.clone()),
        )?)
    }

    /// Changes the worktree: some text, random bytes in several chunks, and a file that every other
    /// change removes. Returns its files.
    pub fn edit(&self, n: u64) -> Outcome<Files> {
        let (root, mut rng) = (self.root(), Rng::new(n));
        std::fs::create_dir_all(root.join("dir"))?;
        std::fs::write(root.join("dir/text"), rng.text(2000 + n as usize))?;
        std::fs::write(root.join("bytes"), rng.bytes(20_000 * (1 + n as usize % 3)))?;
        let now_and_then = root.join("sometimes");
        if n.is_multiple_of(2) {
            std::fs::write(now_and_then, b"")?;
        } else if now_and_then.exists() {
            std::fs::remove_file(now_and_then)?;
        }
        Ok(files_in(&root)?)
    }

    /// Makes one commit of the worktree on the main branch.
    pub fn commit(&mut self, n: u64) -> Outcome {
        let files = self.edit(n)?;
        let message = format!("main {n}");
        self.world.begin(MAIN, &message, files);
        commit(&self.open()?, &message)?;
        self.world.done();
        Ok(())
    }

    /// Commits with a repository that is open already. Returns the number of bytes stored. `files`
    /// are the files of the worktree.
    pub fn retry(&mut self, repo: &Repo, message: &str, files: Files) -> Outcome<u64> {
        self.world.begin(MAIN, message, files);
        let done = commit(repo, message)?;
        self.world.done();
        Ok(done.size.stored_bytes)
    }

    /// Starts again in the same place after a crash.
    pub fn restart(&mut self, survival: Survival, seed: u64) {
        let dmv = self.root().join(".dmv");
        self.sim = self.sim.crash(&dmv, survival, &mut Rng::new(seed));
    }

    /// Makes a commit on another branch, in a job that began before a commit of the worktree.
    pub fn interleave(&mut self, n: u64) -> Outcome {
        let repo = self.open()?;
        let writer = testing::writer(repo.store())?;
        let bytes = Rng::new(n).bytes(9_000);
        let id = ObjectType::Chunk.id_of(&bytes);
        let mut frame = FrameBuilder::default();
        if writer.claim(&id)? {
            frame.push(id, ObjectType::Chunk, &bytes);
        }
        let (mut encoder, size) = (FrameEncoder::default(), bytes.len() as u64);
        writer.append(PackKind::Data, &mut encoder, &frame.raw, &frame.objects)?;
        self.commit(n)?;
        let mut meta = MetaWriter::new(&writer);
        let mut tree = TreeBuilder::new();
        let entry = TreeEntry {
            name: SafeName::new(b"side").map_err(|e| e.why())?,
            kind: Kind::File,
            is_list: false,
            id,
            size,
            files: 0,
            attrs: None,
        };
        tree.push(&entry, &mut meta)?;
        let tree = tree.finish(&mut meta)?;
        let tip = repo.refs().get(MAIN)?.ok_or("there is no main branch")?;
        let tip = ObjectId::from_bytes(<[u8; 32]>::try_from(tip).map_err(|_| "no id")?);
        // Another process made that commit. So it is read with another open repository.
        let other = self.open()?;
        let message = format!("side {n}");
        let side = Commit {
            tree: tree.id,
            tree_bytes: tree.bytes,
            tree_files: tree.files,
            parents: Vec::new(),
            generation: 1,
            message: message.clone(),
            ..other.read_commit(&tip)?
        };
        let side = meta.put(ObjectType::Commit, &side.encode()?)?;
        meta.flush()?;
        drop(meta);
        let files = Files::from([(b"side".to_vec(), Item::File(bytes, false))]);
        self.world.begin("branch/side", &message, files);
        let key = "branch/side".to_owned();
        let (old, new) = (repo.refs().get(&key)?, Some(side.as_bytes().to_vec()));
        let sealed = writer.finish()?;
        repo.publish(
            request("side"),
            Some(sealed),
            vec![Change { key, old, new }],
            Effect::Kept,
        )?;
        self.world.done();
        Ok(())
    }

    /// Creates a tag at the main branch, which is a change without objects.
    pub fn tag(&mut self, name: &str) -> Outcome {
        let repo = self.open()?;
        let tip = repo.head_commit()?.ok_or("nothing to tag")?;
        let message = self.world.refs[MAIN].clone();
        self.world.pending = Some((format!("tag/{name}"), message));
        repo.create_ref(RefKind::Tag, name, tip, request("tag"))?;
        self.world.done();
        Ok(())
    }

    /// Runs the complete workload: enough commits that tables are merged, and merged again.
    pub fn work(&mut self) -> Outcome {
        self.commit(1)?;
        self.interleave(2)?;
        self.tag("one")?;
        for n in 3..=5 {
            self.commit(n)?;
        }
        self.interleave(6)?;
        self.commit(7)?;
        self.commit(8)
    }

    /// Makes a directory for what a crash leaves, optionally with a copy of the database in `from`.
    fn fork(&mut self, from: &Path, with_db: bool) -> Outcome<PathBuf> {
        self.forks += 1;
        let dmv = self.dir.path().join(format!("fork{}", self.forks));
        std::fs::create_dir(&dmv)?;
        for name in ["format", "refs.db", "refs.db-wal"] {
            let source = from.join(name);
            if source.exists() && (with_db || name == "format") {
                std::fs::copy(source, dmv.join(name))?;
            }
        }
        Ok(dmv)
    }

    /// Crashes here and checks every promise.
    pub fn check_after_crash(&mut self, seed: u64, survival: Survival, lies: &Lies) -> Outcome {
        let result = self.check(seed, survival, lies);
        self.remove_forks();
        result
    }

    /// Crashes here and checks what is there at once, without a second crash and without recovery.
    pub fn look_after_crash(&mut self, seed: u64, survival: Survival) -> Outcome {
        let result = self.look(seed, survival);
        self.remove_forks();
        result
    }

    fn look(&mut self, seed: u64, survival: Survival) -> Outcome {
        let mut world = self.world.clone();
        world.files.insert("after".into(), files_in(&self.root())?);
        let dmv = self.fork(&self.root().join(".dmv"), true)?;
        let image = self.sim.crash(&dmv, survival, &mut Rng::new(seed));
        self.whole("after the crash", &dmv, &image, &world)
    }

    fn remove_forks(&mut self) {
        for n in 1..=self.forks {
            let _ = std::fs::remove_dir_all(self.dir.path().join(format!("fork{n}")));
        }
        self.forks = 0;
    }

    fn check(&mut self, seed: u64, survival: Survival, lies: &Lies) -> Outcome {
        let mut rng = Rng::new(seed);
        let origin = self.root().join(".dmv");
        let mut world = self.world.clone();
        world.files.insert("after".into(), files_in(&self.root())?);

        // With the database, the repository is intact at once, and work can go on.
        let dmv = self.fork(&origin, true)?;
        let image = self.sim.crash(&dmv, survival, &mut Rng::new(seed));
        image.lie(lies.work.clone());
        self.whole("after the crash", &dmv, &image, &world)?;
        let after = self.resume(&dmv, &image, &world)?;
        let (dmv, image) = self.crash_again(&dmv, &image, &mut rng)?;
        self.whole("after a second crash", &dmv, &image, &after)?;

        // The same without the database.
        let dmv2 = self.fork(&dmv, false)?;
        let image2 = image.crash(&dmv2, Survival::Nothing, &mut rng);
        self.recover_twice(&dmv2, &image2, &after, lies)?;

        // Without the database, in the state that the first crash left.
        let dmv = self.fork(&origin, false)?;
        let image = self.sim.crash(&dmv, survival, &mut Rng::new(seed));
        let operations = self.recover_twice(&dmv, &image, &world, lies)?;
        let (dmv, image) = self.crash_again(&dmv, &image, &mut rng)?;
        self.whole("after a crash behind recovery", &dmv, &image, &world)?;

        // The same, with a crash during recovery.
        let dmv = self.fork(&origin, false)?;
        let image = self.sim.crash(&dmv, survival, &mut Rng::new(seed));
        image.lie(lies.recovery.clone());
        image.crash_at(1 + rng.below(operations));
        let _ = recover_on(
            &self.place_of(&dmv),
            Arc::new(image.clone()),
            &Job::default(),
        );
        let dmv2 = self.fork(&dmv, false)?;
        let image2 = image.crash(&dmv2, Survival::Some, &mut rng);
        self.recover_twice(&dmv2, &image2, &world, lies)?;
        image2.lie(lies.work.clone());
        let after = self.resume(&dmv2, &image2, &world)?;
        let (dmv, image) = self.crash_again(&dmv2, &image2, &mut rng)?;
        self.whole(
            "after a crash behind recovery and commit",
            &dmv,
            &image,
            &after,
        )
    }

    /// Crashes again: loses everything that is not durable, but not the database.
    fn crash_again(
        &mut self,
        dmv: &Path,
        image: &SimVfs,
        rng: &mut Rng,
    ) -> Outcome<(PathBuf, SimVfs)> {
        let next = self.fork(dmv, true)?;
        let image = image.crash(&next, Survival::Nothing, rng);
        Ok((next, image))
    }

    /// Recovers twice. Returns how many operations of the disk the first recovery needed.
    fn recover_twice(
        &mut self,
        dmv: &Path,
        image: &SimVfs,
        world: &World,
        lies: &Lies,
    ) -> Outcome<u64> {
        image.lie(lies.recovery.clone());
        let place = self.place_of(dmv);
        let first = recover_on(&place, Arc::new(image.clone()), &Job::default())
            .map_err(|e| format!("recovery fails: {e}"))?;
        let operations = image.operations();
        self.whole("after recovery", dmv, image, world)?;
        let refs = self.refs(dmv, image)?;
        let again = recover_on(&place, Arc::new(image.clone()), &Job::default())
            .map_err(|e| format!("second recovery: {e}"))?;
        if again.reindexed != 0 {
            return Err(format!("{} objects indexed again twice", again.reindexed).into());
        }
        if (first.refs, refs) != (again.refs, self.refs(dmv, image)?) {
            return Err("a second recovery gives other refs".into());
        }
        self.whole("after a second recovery", dmv, image, world)?;
        Ok(operations)
    }

    fn refs(&self, dmv: &Path, image: &SimVfs) -> Outcome<Vec<(String, Vec<u8>)>> {
        let repo = Repo::open_place_on(self.place_of(dmv), Arc::new(image.clone()))?;
        Ok(repo.refs().with_prefix("")?)
    }

    /// Commits the worktree without any other step before. Returns the world after that.
    fn resume(&self, dmv: &Path, image: &SimVfs, world: &World) -> Outcome<World> {
        let repo = Repo::open_place_on(self.place_of(dmv), Arc::new(image.clone()))?;
        let mut world = world.clone();
        for (key, message) in Vec::from_iter(world.pending.take()) {
            if repo.refs().get(&key)? != self.named(&repo, &world, &key)? {
                world.refs.insert(key, message);
            }
        }
        commit(&repo, "after").map_err(|e| format!("no commit after the crash: {e}"))?;
        world.refs.insert(MAIN.into(), "after".into());
        drop(repo);
        self.whole("after the next commit", dmv, image, &world)?;
        Ok(world)
    }

    /// Returns the value of a ref if the pending change has not happened.
    fn named(&self, repo: &Repo, world: &World, key: &str) -> Outcome<Option<Vec<u8>>> {
        let value = repo.refs().get(key)?;
        match (&value, world.refs.get(key)) {
            (Some(bytes), Some(message)) => {
                let id = ObjectId::from_bytes(<[u8; 32]>::try_from(&bytes[..])?);
                let same = repo.read_commit(&id)?.message == *message;
                Ok(same.then_some(bytes.clone()))
            }
            _ => Ok(None),
        }
    }

    /// Checks that everything acknowledged is there, byte for byte, and that the pending change has
    /// happened or not.
    fn whole(&self, when: &str, dmv: &Path, image: &SimVfs, world: &World) -> Outcome {
        self.is_whole(dmv, image, world)
            .map_err(|e| format!("{when}: {e}").into())
    }

    fn is_whole(&self, dmv: &Path, image: &SimVfs, world: &World) -> Outcome {
        let repo = Repo::open_place_on(self.place_of(dmv), Arc::new(image.clone()))?;
        check_refs(&repo, world)?;
        let report = repo.verify(VerifyDepth::Full, &Job::default())?;
        if !report.is_ok() {
            return Err(format!("verify: {report:?}").into());
        }
        Ok(())
    }

    /// Checks the repository without a crash.
    pub fn check_now(&self) -> Outcome {
        self.whole("now", &self.root().join(".dmv"), &self.sim, &self.world)
    }
}

fn check_refs(repo: &Repo, world: &World) -> Outcome {
    let keys = world.refs.keys().chain(world.pending.iter().map(|p| &p.0));
    for key in keys {
        let old = world.refs.get(key);
        let new = world.pending.as_ref().filter(|p| p.0 == *key).map(|p| &p.1);
        let Some(value) = repo.refs().get(key)? else {
            if old.is_some() {
                return Err(format!("{key} is gone").into());
            }
            continue;
        };
        let mut next = vec![ObjectId::from_bytes(<[u8; 32]>::try_from(&value[..])?)];
        let message = repo.read_commit(&next[0])?.message;
        if ![old, new].contains(&Some(&message)) {
            return Err(format!("{key} is at '{message}', not {old:?} or {new:?}").into());
        }
        while let Some(id) = next.pop() {
            let commit = repo.read_commit(&id)?;
            if world.files.get(&commit.message) != Some(&files_of(repo, &id)?) {
                return Err(format!("'{}' holds other files", commit.message).into());
            }
            next.extend(commit.parents);
        }
    }
    Ok(())
}
