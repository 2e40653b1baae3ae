//! Requests of other programs: lines of JSON, answered in the shapes of `--json`. [docs/api.md] specifies them.
//!
//! A request names a command, and runs as that command would. So this room knows no command.
//!
//! [docs/api.md]: ../../../../../docs/api.md

pub mod message;
pub mod parameters;
pub mod request;
pub mod session;
mod work;
