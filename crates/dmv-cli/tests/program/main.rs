//! The program, run as a user runs it: one module for each subject.

mod absent;
mod addresses;
mod again;
mod alias;
mod ambiguous;
mod beside;
mod beside_conflicts;
mod bisect;
mod blame;
#[cfg(feature = "store")]
mod bucket;
mod budget;
#[cfg(feature = "quic")]
mod by_key;
mod calls;
mod cli;
mod cut_clones;
mod demo;
mod documents;
mod drop;
mod editor;
mod expire;
mod foreign;
mod freeing;
mod gc;
mod get;
mod group;
mod growth;
mod hardship;
mod heal;
mod hints;
mod history;
mod hostile;
mod ignoring;
mod interrupt;
#[cfg(feature = "quic")]
mod lan;
mod left_alone;
mod leftover;
mod loss;
mod mapped;
mod merge;
mod messages;
mod model;
mod moved;
mod mv;
mod naming;
mod networks;
mod odd_files;
mod output;
mod overwritten;
mod pager;
mod partial;
mod partial_model;
mod paths;
mod peers;
mod pending;
mod place;
mod portable;
mod private;
mod pull;
mod purge;
mod refusals;
mod reliability;
mod renamed;
mod repack;
mod replay;
mod reset;
mod resolve;
mod rm;
mod settle;

mod sharing;
mod short;
mod stash;
mod subset;
#[cfg(feature = "quic")]
mod trust;
mod undo;
mod unwritten;
mod watched;
mod web;
mod weeks;
#[cfg(feature = "quic")]
mod words;
mod worktree;
