//! The object store: packs of frames, found through sorted tables, verified on every read.
//!
//! The store knows packs, segments and objects. A [`Catalogue`] tells it which of them are in use;
//! `refs.db` stores the catalogue, and it can be rebuilt from the packs. The store knows nothing of
//! refs, paths in trees or commits. Invariant: bytes that do not hash to the requested id never
//! leave it. `refs`, `worktree`, `repo` and the sessions of `dmv-net` use it.
//!
//! The modules stand on floors, lowest first. A module uses modules of lower floors only; a test checks that.
//! [`Store`] is the middle: below it are its parts, above it what is done with them.

// Ids and tools.
mod bit_set;
mod random_id;
mod shared;

// Fixed parts of files, errors, caches.
mod cache;
mod error;
mod layout;
mod owners;

// Values: frames, entries of tables, rows of the catalogue.
mod bad_places;
mod block_sharing;
mod catalogue;
mod frame;
mod id_search;
mod index_entry;
mod overflow;

// Records, segments, tables.
mod checked_record;
mod segment;
mod table;

// Files that are read and written without a catalogue.
mod arrivals;
mod filter;
mod finished_job;
mod open_pack;
mod scan;
mod sealed_pack;
mod store_files;

// The parts of a store.
mod bases_in_pack;
mod frame_map;
mod index;
mod log_pack;
mod pack_reader;

// The store, and what reads packs without one.
#[doc(hidden)]
pub mod fuzzing;
mod pack_store;
mod recover;

// Looking up, reading and checking.
mod bases;
mod batch_lookup;
mod frame_collector;
mod marker;
mod object_marks;
mod read;
mod table_merge;
mod verify;

// Writing.
mod write;

mod frame_writer;
mod refused_chunks;

mod incoming_objects;

// Storing again what is stored.
mod move_out;
mod repack;

pub use bad_places::BadPlaces;
pub(crate) use bad_places::DAMAGED_FILE;
pub use block_sharing::{SHARED_FROM_BYTES, SharingMode, SharingRules};
pub(crate) use catalogue::NoSource;
pub use catalogue::{Catalogue, CatalogueSource, IndexRow, PackRow, SegmentRow};
pub use checked_record::{CheckedObject, CheckedRecord, ReadBase, ReceivedRecord};
pub use error::StoreError;
pub use finished_job::FinishedJob;
pub use frame::{EncodedFrame, FRAME_TARGET_BYTES, FrameBuilder, FrameEncoder, FrameObject};
pub use frame_collector::{FrameCollector, GivenBases, OutgoingItem};
pub use frame_map::{FrameMap, PackUse};
pub(crate) use frame_writer::Framer;
pub use frame_writer::MetaWriter;
pub use incoming_objects::IncomingObjects;
pub use index_entry::{Entry, Place};
pub use layout::{PACK_HEADER_BYTES, PackKind};
pub use log_pack::LogPack;
pub use marker::{Lack, MarkEnd, Marker};
pub use object_marks::{Mark, Marks};
pub(crate) use owners::MAX_SHARED_OWNERS;
pub use owners::Owners;
pub use pack_store::Store;
pub use random_id::{IndexId, PackId, RepositoryId, random_block, random_bytes};
pub use read::BytesFrom;
pub(crate) use recover::{add_closed_segments, recover_store, repository_of};
pub(crate) use repack::{RepackRefusal, RepackResult};
pub use sealed_pack::{FrameAt, SealedHeader, SealedKind, SealedWriter, operation_at_end};
pub use segment::SegmentTail;
pub use table_merge::{MERGE_TABLES, UnregisteredIndex};
pub(crate) use verify::verify_pack;
pub use verify::{Damage, PackReport};
pub use write::StoreWriter;

pub(crate) use crate::memory::MAX_LOOK_UPS;
