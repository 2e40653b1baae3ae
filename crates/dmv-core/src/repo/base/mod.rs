//! The base of all rooms of `repo`: the open repository, its layout, the view and the commit point.
//!
//! This room knows commits only by their ids, and no files of a worktree. Every other room uses it.

pub(in crate::repo) mod arrived;
pub(in crate::repo) mod branch;
pub(in crate::repo) mod budget;
pub(in crate::repo) mod change;
pub(in crate::repo) mod error;
pub(in crate::repo) mod handle;
pub(in crate::repo) mod head;
pub(in crate::repo) mod init;
pub(in crate::repo) mod keeping;
pub(in crate::repo) mod keys;
pub(in crate::repo) mod layout;
pub(in crate::repo) mod leaving;
pub(in crate::repo) mod leftovers;
pub(in crate::repo) mod level;
pub(in crate::repo) mod lock;
pub(in crate::repo) mod made;
pub(in crate::repo) mod moved;
pub(in crate::repo) mod named;
pub(in crate::repo) mod note;
pub(in crate::repo) mod notes;
pub(in crate::repo) mod objects;
pub(in crate::repo) mod open;
pub(in crate::repo) mod path;
pub(in crate::repo) mod publish;
pub(in crate::repo) mod record;
pub(in crate::repo) mod refused;
pub(in crate::repo) mod relying;
pub(in crate::repo) mod reserve;
pub(in crate::repo) mod slice;
pub(in crate::repo) mod spill;
pub(in crate::repo) mod stamp;
pub(in crate::repo) mod steps;
pub(in crate::repo) mod transaction;
pub(in crate::repo) mod vacancy;
pub(in crate::repo) mod whole;
pub(in crate::repo) mod window;
pub(in crate::repo) mod worktree;
