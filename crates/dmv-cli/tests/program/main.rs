//! The program, run as a user runs it: one module for each subject.

mod absent;
mod addresses;
mod again;
mod alias;
mod ambiguous;
mod api;
mod at_a_glance;
mod beside;
mod bisect;
mod blame;
#[cfg(feature = "store")]
mod bucket;
mod budget;
mod by_hand;
#[cfg(feature = "quic")]
mod by_key;
mod calls;
#[cfg(all(feature = "quic", feature = "store"))]
mod claim_races;
#[cfg(feature = "quic")]
mod claim_rules;
#[cfg(feature = "quic")]
mod claims;
mod cli;
mod completion;
mod cut_clones;
mod demo;
mod devices;
mod documents;
mod drop;
mod editor;
mod expire;
mod foreign;
mod freeing;
mod from_git;
mod from_others;
mod from_streams;
mod gc;
mod get;
mod group;
mod growth;
mod habits;
mod hardship;
mod heal;
mod hints;
mod history;
mod hooks;
mod hostile;
mod ignoring;
mod interrupt;
mod kinds;
#[cfg(feature = "quic")]
mod lan;
mod lean;
mod leftover;
mod lfs;
mod loss;
mod lost_pack;
mod mapped;
mod merge;
mod messages;
mod mirror;
mod model;
mod moved;
mod mv;
mod naming;
mod networks;
mod new_place;
mod newer;
mod odd_files;
mod onto;
mod output;
mod overwritten;
mod pager;
mod partial;
mod partial_model;
mod paths;
mod peers;
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
mod signing;
mod stash;
mod states;
mod subset;
#[cfg(feature = "quic")]
mod trust;
mod undo;
mod unwritten;
mod watched;
mod way_on;
mod web;
mod weeks;
mod whereis;
#[cfg(feature = "quic")]
mod words;
mod worktree;
