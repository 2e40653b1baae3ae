//! Pages of a repository for a browser on the same machine: its history, files and conflicts.
//!
//! [`Server::bind`] listens on the loopback address, [`Server::address`] is what the user opens, and
//! [`Server::run`] serves until it is stopped. The pages call the same verbs of the library as the
//! commands, and the [`Program`] that serves them gives its settings and its words, so commands and
//! pages never disagree. The crate prints nothing and knows no options of a command line.
//!
//! A request passes through `server` (bounds, and who may ask: `guard`), `routes` and one of
//! `pages`, with what they share in `site`; `raw`, `preview` and `archive` send content, `dav` commits to file managers. Content is hostile: names are
//! escaped, bytes are sent under a policy that lets them do nothing, and a path is only looked up in
//! a tree.

mod address;
mod answer;
mod archive;
mod assets;
mod body;
mod changes;
mod dav;
mod doing;
mod getting;
mod graph;
mod guard;
mod guests;
mod kinds;
mod looking;
mod ondisk;
mod pages;
mod preview;
mod program;
mod range;
mod raw;
mod routes;
mod rows;
mod sequence;
mod server;
mod site;
mod stopped;
mod words;

pub use dav::DavLogin;
pub use program::{ClaimReport, ClaimWish, Program, ShownFailure, SignatureWords};
pub use server::Server;
pub use site::Options;
