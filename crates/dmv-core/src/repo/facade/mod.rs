//! The methods of [`Repo`](crate::repo::Repo), by room. Each method calls one function of that
//! room.
//!
//! This module contains only such calls. The rooms do not use it.

mod base;
mod conflict;
mod files;
mod look;
mod peers;
mod upkeep;
mod verbs;
