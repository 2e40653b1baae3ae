//! A repository whose packs and index files lie on a simulated disk, for crashes in commands that
//! replace packs.

use crate::peers::{Done, Place};
use crate::rng::Rng;
use crate::simfs::{SimVfs, Survival};
use dmv_core::repo::{Repo, RepositoryLocation as RepoPlace};
use std::sync::Arc;
use tempfile::TempDir;

/// The repository and its disk.
pub struct Lab {
    dir: TempDir,
    /// The disk.
    pub sim: SimVfs,
}

impl Lab {
    /// Moves the packs and index files of a repository to a simulated disk. Nobody else may have it
    /// open.
    pub fn over(place: Place) -> Done<Lab> {
        let Place { dir, repo } = place;
        let dmv = repo.dmv_dir().to_owned();
        drop(repo);
        let sim = SimVfs::new(&dmv);
        for part in ["packs", "index"] {
            sim.import(&dmv.join(part))?;
        }
        Ok(Lab { dir, sim })
    }

    /// Opens the repository.
    pub fn open(&self) -> Done<Repo> {
        let root = self.dir.path().to_owned();
        let place = RepoPlace {
            dmv: root.join(".dmv"),
            worktree: Some((root, "main".into())),
        };
        Ok(Repo::open_place_on(place, Arc::new(self.sim.clone()))?)
    }

    /// Continues with what a crash leaves of the disk.
    pub fn crash(&mut self, survival: Survival, seed: u64) {
        let dmv = self.dir.path().join(".dmv");
        self.sim = self.sim.crash(&dmv, survival, &mut Rng::new(seed));
    }

    /// Returns the number of pack files, with the log pack.
    pub fn pack_files(&self) -> usize {
        let files = self.sim.seen().into_keys();
        files
            .filter(|path| path.extension().is_some_and(|ext| ext == "pack"))
            .count()
    }
}
