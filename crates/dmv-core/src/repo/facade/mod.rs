//! The methods of [`Repo`](crate::repo::Repo), by room. Each is a call of one function of that room.
//!
//! Nothing but calls stands here. The rooms do not use it.

mod base;
mod conflict;
mod files;
mod look;
mod peers;
mod upkeep;
mod verbs;
