//! Previews of files: small pictures, the pixels of large ones, the peaks of sounds, and facts such as size and
//! camera.
//!
//! Files are hostile. A [`Maker`] decodes each file in a process of its own ([`worker`]), which has no files, no
//! network, and little memory and time (module `confine`). The process asks its parent for the bytes of the file, so a
//! file can lie anywhere and be larger than the memory. The parent believes nothing that the process says
//! (module `wire`). Results lie in a [`Cache`] that can be deleted at any time.
//!
//! This crate knows nothing of repositories: a [`Source`] has an opaque id.

mod cache;
mod confine;
mod decode;
#[cfg(target_os = "linux")]
mod film;
mod input;
mod maker;
mod paint;
mod preview;
mod wire;
mod worker;

pub use cache::Cache;
pub use maker::{Maker, WorkerCommand};
pub use preview::{Form, Kind, Limits, Preview, PreviewKind, ReadAt, Reason, Sound, Source};
pub use worker::{in_process, worker};
