//! DMV's library: content-addressed versioning for data of any size.
//!
//! The floors, bottom-up: [`hash`], [`limits`], [`memory`], [`escape`], [`job`], [`locks`], [`fsutil`] and [`vfs`] know
//! nothing of DMV's objects; [`object`] gives them bytes and ids; [`chunker`], [`store`] and [`refs`] keep
//! them; [`subset`] says which paths are wanted; [`history`], [`diff`], [`merge`] and [`reach`] read
//! them through [`object::ObjectRead`]; [`worktree`] compares them with files; [`repo`] puts all of
//! it together. A module uses lower floors only.
//!
//! Nothing here prints, reads the environment or opens a socket.

pub mod chunker;
pub mod diff;
pub mod escape;
pub mod fsutil;
pub mod hash;
pub mod history;
pub mod job;
pub mod limits;
pub mod locks;
pub mod memory;
pub mod merge;
pub mod object;
pub mod reach;
pub mod refs;
pub mod repo;
pub mod store;
pub mod subset;
pub mod vfs;
pub mod worktree;
