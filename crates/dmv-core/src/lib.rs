//! DMV's library: content-addressed versioning for data of any size.
//!
//! Each module is a *room* on one of six floors and uses lower floors only. `ARCHITECTURE.md` has
//! the complete rules. The floors, bottom-up:
//!
//! - [`hash`], [`limits`], [`memory`], [`escape`], [`glob`] and [`job`] know nothing of DMV's objects;
//!   [`platform`] hides the operating system, [`threads`] starts threads, and [`path`] names what a
//!   file operation failed on.
//! - [`object`] defines the bytes and ids of objects. [`fsutil`], [`locks`] and [`vfs`] reach files.
//! - [`chunker`], [`store`] and [`refs`] store them; [`subset`] selects paths; [`claims`] says who works on
//!   which.
//! - [`history`], [`diff`], [`merge`] and [`reach`] read them through [`object::ObjectRead`].
//! - [`worktree`] compares them with files.
//! - [`repo`] joins the rooms: it has one method for each command.
//!
//! The library prints nothing, reads no environment variable and opens no socket. The caller gives
//! it the times of commits and operations.
//!
//! # Example
//!
//! This program makes a repository and a commit, and reads five bytes of a file in it. [`Repo`] has
//! a method for each command. A method that may take long gets a [`Job`], which counts progress
//! and can cancel it. More programs: `crates/dmv-core/examples`.
//!
//! ```
//! use dmv_core::{CommitOptions, Job, OperationRequest, Repo, RepoPath, Who};
//! use std::time::SystemTime;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let scratch = tempfile::tempdir()?;
//! # let dir = scratch.path();
//! // Who runs which command, and when. The operation log shows it.
//! let request = |command: &str| OperationRequest::new("ada", command, SystemTime::now());
//!
//! let repo = Repo::init(dir, "main", false, request("init"))?;
//! std::fs::write(dir.join("take.txt"), "a first take")?;
//!
//! let ada = Who::new("Ada", "ada@example.org");
//! let report =
//!     repo.commit(CommitOptions::new("First take", ada, request("commit")), &Job::default())?;
//! assert_eq!(report.files, 1);
//!
//! let mut bytes = Vec::new();
//! repo.read_file("main", &RepoPath::parse(b"take.txt")?, Some(2..7), &mut bytes)?;
//! assert_eq!(bytes, b"first");
//! # Ok(())
//! # }
//! ```

pub mod chunker;
pub mod claims;
pub mod diff;
pub mod escape;
pub mod fsutil;
pub mod glob;
pub mod hash;
pub mod history;
pub mod job;
pub mod limits;
pub mod locks;
pub mod memory;
pub mod merge;
pub mod object;
pub mod path;
pub mod platform;
pub mod reach;
pub mod refs;
pub mod repo;
pub mod store;
pub mod subset;
pub mod threads;
pub mod vfs;
pub mod worktree;

pub use hash::ObjectId;
pub use job::Job;
pub use object::name::RepoPath;
pub use refs::Timestamp;
pub use repo::{
    CheckoutOptions, CheckoutTarget, CommitOptions, CommitReport, MergeOptions, MergeReport,
    OperationRequest, Repo, RepoError, Who,
};
pub use subset::Subset;
