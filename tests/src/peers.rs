//! Repositories that exchange objects within a test, and the connections between them.

use crate::rng::Rng;
use crate::scratch::{commit, fast_dir, request};
use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::repo::{OfferedRefs, RefUpdate, Repo, VerifyDepth};
use dmv_net::session::{Client, Link, NetError, serve};
use dmv_net::wire::Access;
use std::error::Error;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use tempfile::TempDir;

/// The result of a test with peers.
pub type Done<T = ()> = Result<T, Box<dyn Error>>;

/// A repository in a directory of its own.
pub struct Place {
    /// The worktree. It is removed with the test.
    pub dir: TempDir,
    /// The repository.
    pub repo: Repo,
}

impl Place {
    /// Makes a repository without a commit.
    pub fn new() -> Done<Place> {
        let dir = fast_dir()?;
        let repo = Repo::init(dir.path(), "main", false, request("init"))?;
        Ok(Place { dir, repo })
    }

    /// Makes a repository with one commit of `files` random files in five directories, each with
    /// `bytes` bytes.
    pub fn with_files(seed: u64, files: usize, bytes: usize) -> Done<Place> {
        let place = Place::new()?;
        let mut rng = Rng::new(seed);
        for n in 0..files {
            place.write(&format!("d{}/f{n}", n % 5), &rng.bytes(bytes))?;
        }
        place.commit("first")?;
        Ok(place)
    }

    /// Writes a file and creates the directories above it.
    pub fn write(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let path = self.dir.path().join(name);
        std::fs::create_dir_all(path.parent().expect("files are in directories"))?;
        std::fs::write(path, content)
    }

    /// Commits everything.
    pub fn commit(&self, message: &str) -> Done<ObjectId> {
        let made = commit(&self.repo, message)?.commit;
        Ok(made.ok_or("nothing to commit")?)
    }

    /// Returns the commit of the branch `main`.
    pub fn tip(&self) -> Done<ObjectId> {
        Ok(self.repo.resolve("main")?)
    }

    /// Opens the repository once more, like another process.
    pub fn again(&self) -> Done<Repo> {
        Ok(Repo::open(self.dir.path())?)
    }

    /// Fails unless a full `verify` finds no problem.
    pub fn is_sound(&self) -> Done {
        let report = self.again()?.verify(VerifyDepth::Full, &Job::default())?;
        assert!(report.is_ok(), "{report:?}");
        Ok(())
    }

    /// Returns how many objects the repository's tables name.
    pub fn objects(&self) -> Done<u64> {
        Ok(self.again()?.store().table_stats().1)
    }
}

/// Answers one client over `link` on a thread. The thread returns how the session ended.
pub fn serving(
    place: &Place,
    link: Link,
    access: Access,
) -> Done<JoinHandle<Result<(), NetError>>> {
    let repo = place.again()?;
    Ok(std::thread::spawn(move || {
        let request = request("push from a peer");
        serve(&repo, link, access, &request, &Job::default()).map(|_| ())
    }))
}

/// Connects `client` to `server` within this process.
pub fn connect<'r>(client: &'r Repo, server: &Place, job: &'r Job) -> Done<Client<'r>> {
    let (ours, theirs) = Link::pair();
    serving(server, theirs, Access::Write)?;
    Ok(Client::connect(client, ours, job)?)
}

/// Returns the offered commits.
pub fn tips(offered: &OfferedRefs) -> Vec<ObjectId> {
    offered.refs.iter().map(|(_, id)| *id).collect()
}

/// Fetches everything and records it as the remote `origin`. Returns the number of round trips.
pub fn fetch(client: &Place, server: &Place) -> Done<u64> {
    let job = Job::default();
    let mut session = connect(&client.repo, server, &job)?;
    session.fetch(&tips(&session.offered))?;
    let offered = session.offered.clone();
    let request = request("fetch");
    let give = || {
        client
            .repo
            .note_remote("origin", &offered, &Default::default(), &request)
    };
    session.name(give)?;
    Ok(session.finish(Vec::new()).traffic.round_trips)
}

/// Records what the remote `origin` offers.
pub fn note(repo: &Repo, offered: &OfferedRefs) -> Done {
    repo.note_remote("origin", offered, &Default::default(), &request("fetch"))?;
    Ok(())
}

/// Returns an update of `main`.
pub fn update(old: Option<ObjectId>, new: ObjectId, force: bool) -> RefUpdate {
    RefUpdate {
        key: "branch/main".into(),
        old,
        new: Some(new),
        force,
    }
}

/// A reader that passes on some bytes and then ends.
pub struct Cut<R> {
    /// The source.
    pub inner: R,
    /// The number of bytes that still pass.
    pub left: u64,
    /// Counts the bytes that have passed.
    pub passed: Arc<AtomicU64>,
}

impl<R: Read> Read for Cut<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = (buf.len() as u64).min(self.left) as usize;
        let n = self.inner.read(&mut buf[..len])?;
        self.left -= n as u64;
        self.passed.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}
