//! The library and the parts together: one module for each subject.

// The fuzz targets import the fuzzer's crate. Here this program takes its place: `fuzz_replay` has
// the macro that they use.
extern crate self as libfuzzer_sys;

mod arrivals;
mod bisect;
mod blame;
mod bucket;
mod copies;
mod crash;
mod damage;
mod dated;
mod deltas;
mod deltas_sent;
mod discarding;
mod drop;
mod drop_packs;
mod expire;
mod flips;
mod formats;
mod freed;
mod fuzz_replay;
mod gc;
mod gc_model;
mod git_ids;
mod hostile;
mod hostile_objects;
mod ignoring;
mod intake;
mod leaving;
mod level;
mod lineage;
mod marker;
mod merge;
mod model;
mod mutator;
mod naming;
mod newer;
mod nothing_lost;
mod ops;
mod peers;
mod permuted;
mod protocol;
mod purge;
mod quic;
mod recovering;
mod repack;
mod replay;
mod sharing;
mod space;
mod statcache;
mod stories;
mod subset;
mod symlinks;
mod undo;
mod unlisted;
mod verbs;
