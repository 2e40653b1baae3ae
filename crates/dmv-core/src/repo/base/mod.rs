//! The base of all rooms of `repo`: the open repository, its layout, the view and the commit point.
//!
//! This room knows commits only by their ids, and no files of a worktree except those of [`lean`]. Every other
//! room uses it.

pub mod arrived;
pub mod branch;
pub mod budget;
pub mod change;
pub mod error;
pub mod head;
pub mod init;
pub mod keeping;
pub mod keys;
pub mod layout;
pub mod lean;
pub mod leaving;
pub mod leftovers;
pub mod level;
pub mod lock;
pub mod made;
pub mod moved;
pub mod named;
pub mod note;
pub mod notes;
pub mod objects;
pub mod open;
pub mod path;
pub mod publish;
pub mod record;
pub mod refused;
pub mod relying;
pub mod remembered;
pub mod repo;
pub mod reserve;
pub mod signing;
pub mod slice;
pub mod spill;
pub mod stamp;
pub mod steps;
pub mod transaction;
pub mod vacancy;
pub mod whole;
pub mod window;
pub mod worktree;
