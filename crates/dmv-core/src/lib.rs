//! DMV's library: content-addressed versioning for data of any size.
//!
//! The floors, bottom-up: [`hash`], [`limits`] and [`vfs`] know nothing of DMV's objects;
//! [`object`] gives them bytes and ids; [`store`] and [`refs`] keep them.
//! A module uses lower floors only.
//!
//! Nothing here prints, reads the environment or opens a socket.

pub mod hash;
pub mod limits;
pub mod object;
pub mod refs;
pub mod store;
pub mod vfs;
