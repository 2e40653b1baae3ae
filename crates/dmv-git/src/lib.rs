//! The bridge to Git: histories come in, and go back with the same ids.
//!
//! Git itself reads and writes its repositories, in child processes; this crate knows the form of its
//! objects. It stores through `dmv_core`, and knows no peers. docs/format/git.md describes what a commit
//! and a tree keep of Git.

mod choice;
pub mod commit;
pub mod error;
pub mod export;
pub mod id;
pub mod import;
pub mod lfs_fetch;
pub mod map;
pub mod object;
pub mod pack;
pub mod revision;
pub mod source;
pub mod stream;
pub mod tag;

pub use error::GitError;
pub use export::{ExportOptions, ExportReport, ExportedRef, algorithm_for, export};
pub use id::GitId;
pub use import::{ImportOptions, ImportPlan, ImportReport, import, plan};
pub use source::GitSource;
