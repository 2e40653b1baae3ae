//! The library and the parts together: one module for each subject.

mod arrivals;
mod bisect;
mod blame;
mod copies;
mod crash;
mod damage;
mod drop;
mod drop_packs;
mod flips;
mod hostile;
mod hostile_objects;
mod level;
mod lineage;
mod marker;
mod merge;
mod model;
mod mutator;
mod naming;
mod nothing_lost;
mod ops;
mod peers;
mod quic;
mod replay;
mod statcache;
mod subset;
mod undo;
