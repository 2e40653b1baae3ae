//! What a receiver gets without a request: the new commits or metadata, or everything.
//!
//! Packs are read forward, from the first byte that is wanted. What a receiver lacks afterwards it
//! requests, so nothing here has to be complete.

use super::BucketSource;
use super::catalog::{Catalog, SMALL_BYTES};
use super::range_reader::{NotRead, Stop};
use crate::files::FileFailure;
use crate::format::{Name, Row};
use crate::frames::Cuts;
use crate::ranges::{Range, Terms, plan};
use dmv_core::object::ObjectType;
use dmv_core::store::{CheckedRecord, PACK_HEADER_BYTES};
use dmv_net::session::{Link, NetError};
use dmv_net::sync::Clue;
use dmv_net::wire::{Frame, Message, UnaskedObjects, Want};
use std::collections::{BTreeSet, HashSet};

/// The most bytes of one read of a whole pack.
const READ_BYTES: u64 = 16 << 20;

/// Which objects are sent unasked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnaskedPart {
    Commits,
    Metadata,
    Everything,
}

/// A part of a pack that is read forward.
struct Part {
    row: Row,
    from: u64,
    to: u64,
}

impl Catalog {
    /// Sends what the receiver of `want` wants without a request.
    pub fn stream(&mut self, want: &Want, link: &mut Link) -> Result<(), NetError> {
        let filter = &want.filter;
        // Only the receiver knows where its history ends.
        if want.tips.is_empty() || filter.depth > 0 || filter.since.is_some() {
            return Ok(());
        }
        let is_all = filter.subsets.is_empty();
        let sent = match want.unasked {
            UnaskedObjects::All if is_all && !filter.metadata_only => UnaskedPart::Everything,
            UnaskedObjects::All | UnaskedObjects::Metadata if is_all => UnaskedPart::Metadata,
            _ => UnaskedPart::Commits,
        };
        let since = match want.unasked {
            UnaskedObjects::All => 0,
            // Without a note of what the receiver has, what it lacks is not known.
            UnaskedObjects::Metadata if self.cache.fetched() == 0 => return Ok(()),
            UnaskedObjects::Metadata | UnaskedObjects::Commits => self.cache.fetched(),
        };
        let parts = self.parts(sent, since)?;
        if sent == UnaskedPart::Everything && link.says_totals {
            let bytes = parts.iter().map(|part| part.to - part.from).sum();
            link.say(&Message::Total(bytes))?;
        }
        self.send_parts(parts, sent, link)
    }

    /// Returns what is to be read of the packs that roots after the generation `since` listed, apart from
    /// those that the receiver has uploaded itself.
    fn parts(&mut self, sent: UnaskedPart, since: u64) -> Result<Vec<Part>, NetError> {
        let own: HashSet<Name> = match since {
            0 => HashSet::new(),
            _ => self.cache.own().into_iter().collect(),
        };
        let rows = self.meta.iter();
        let rows = rows.filter(|row| row.generation > since && !own.contains(&row.name));
        let mut parts: Vec<Part> = rows.map(|row| part(row, sent)).collect();
        if sent == UnaskedPart::Everything {
            let data = self.data()?.into_iter().map(|row| Part {
                row,
                from: PACK_HEADER_BYTES,
                to: row.tail,
            });
            parts.extend(data);
        }
        Ok(parts)
    }

    fn send_parts(
        &mut self,
        parts: Vec<Part>,
        sent: UnaskedPart,
        link: &mut Link,
    ) -> Result<(), NetError> {
        let parts: Vec<Part> = parts
            .into_iter()
            .filter(|part| part.from < part.to)
            .collect();
        let reads = reads_of(&parts);
        let (repository, mut parts) = (self.repository(), parts.into_iter());
        let mut open: Option<OpenPart> = None;
        let mut hands = self.take_hands();
        let done = hands.read(repository, &reads, &mut |read, bytes| {
            let is_next = open.as_ref().is_none_or(|open| open.part.to <= read.offset)
                || open
                    .as_ref()
                    .is_some_and(|open| open.part.row.name != read.file);
            if is_next {
                open = parts.next().map(OpenPart::new);
            }
            let Some(open) = &mut open else {
                return Ok(());
            };
            let bytes = match bytes {
                Ok(bytes) => bytes,
                // What is needed of it is requested, and then the root is read again.
                Err(FileFailure::Missing | FileFailure::Length) => {
                    open.is_broken = true;
                    return Ok(());
                }
                Err(why) => return Err(Stop::Read(NotRead { range: *read, why })),
            };
            if read.offset == 0 && read.len == open.part.row.len {
                self.held.add(*read, bytes.clone());
            }
            open.take(read.offset, bytes, sent, self, link)?;
            if open.part.to == read.offset + read.len && open.part.to == open.part.row.len {
                let (row, tail) = (open.part.row, std::mem::take(&mut open.tail));
                if !open.is_broken {
                    self.keep_table(&row, &tail, true);
                }
            }
            Ok(())
        });
        self.give_back_hands(hands);
        self.explain(done)
    }
}

/// Returns the reads of some parts.
fn reads_of(parts: &[Part]) -> Vec<Range> {
    let terms = Terms {
        gap: 0,
        most: READ_BYTES,
    };
    let range = |part: &Part| Range {
        file: part.row.name,
        offset: part.from,
        len: part.to - part.from,
    };
    let reads = parts.iter().flat_map(|part| plan(vec![range(part)], terms));
    reads.collect()
}

/// What a clone of a bucket would read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CloneForecast {
    /// The number of packs.
    pub packs: u64,
    /// The bytes to be received, besides those that telling this has taken.
    pub bytes: u64,
    /// The requests for them.
    pub reads: u64,
    /// The bytes that telling this has taken, and that a clone receives as well: directories.
    pub again: u64,
}

/// Returns what a complete clone of a bucket would read, or one of its metadata alone. Reads the root and
/// its pages.
pub fn foresee_clone(source: BucketSource, metadata_only: bool) -> Result<CloneForecast, NetError> {
    // It keeps nothing of what it reads.
    let source = BucketSource {
        copies: None,
        ..source
    };
    let mut catalog = source.open()?;
    let sent = if metadata_only {
        UnaskedPart::Metadata
    } else {
        UnaskedPart::Everything
    };
    let mut parts = catalog.parts(sent, 0)?;
    parts.retain(|part| part.from < part.to);
    Ok(CloneForecast {
        packs: parts.len() as u64,
        bytes: parts.iter().map(|part| part.to - part.from).sum(),
        reads: reads_of(&parts).len() as u64,
        again: 0,
    })
}

/// Returns what would be read for the content of files, of which the metadata is known.
pub fn foresee_content(source: BucketSource, clues: Vec<Clue>) -> Result<CloneForecast, NetError> {
    let mut catalog = source.open()?;
    let wanted = clues.iter().map(|clue| (clue.chunk, ObjectType::Chunk));
    let wanted = wanted.collect();
    let clues = clues.into_iter().map(|clue| (clue.chunk, clue)).collect();
    let (reads, unnamed) = catalog.foresee(&wanted, &clues)?;
    let packs: BTreeSet<Name> = reads.iter().map(|read| read.file).collect();
    Ok(CloneForecast {
        packs: packs.len() as u64,
        bytes: reads.iter().map(|read| read.len).sum::<u64>() + unnamed,
        reads: reads.len() as u64 + u64::from(unnamed > 0),
        again: 0,
    })
}

/// A part that is being read.
struct OpenPart {
    part: Part,
    cuts: Cuts,
    /// The chunks before the metadata, until something else follows them.
    chunks: Option<Cuts>,
    /// The bytes after the last frame.
    tail: Vec<u8>,
    is_broken: bool,
}

impl OpenPart {
    fn new(part: Part) -> OpenPart {
        OpenPart {
            part,
            cuts: Cuts::default(),
            chunks: Some(Cuts::default()),
            tail: Vec::new(),
            is_broken: false,
        }
    }

    /// Takes the next bytes of the part, which stand at `offset`.
    fn take(
        &mut self,
        offset: u64,
        bytes: &[u8],
        sent: UnaskedPart,
        catalog: &mut Catalog,
        link: &mut Link,
    ) -> Result<(), NetError> {
        let row = self.part.row;
        let end = offset + bytes.len() as u64;
        let within = |at: u64| (at.clamp(offset, end) - offset) as usize;
        // The frames that are sent: those of metadata, or all in a pack that has only chunks.
        let from = if row.kind.has_metadata() {
            row.metadata
        } else {
            PACK_HEADER_BYTES
        };
        let frames = &bytes[within(from)..within(row.tail.min(self.part.to))];
        self.tail.extend_from_slice(if row.kind.has_metadata() {
            &bytes[within(row.tail)..]
        } else {
            &[]
        });
        if self.is_broken {
            return Ok(());
        }
        let hints = &mut catalog.hints;
        if sent == UnaskedPart::Everything && from > PACK_HEADER_BYTES {
            let before = &bytes[within(PACK_HEADER_BYTES)..within(from)];
            if let Some(chunks) = &mut self.chunks
                && send_records(chunks, before, sent, link, &mut |at, record| {
                    hints.add(row.name, PACK_HEADER_BYTES + at, record);
                })?
                .is_err()
            {
                // The index of the chunks. If it was damage, they are requested.
                self.chunks = None;
            }
        }
        let done = send_records(&mut self.cuts, frames, sent, link, &mut |at, record| {
            hints.add(row.name, from + at, record);
        })?;
        if let Err(why) = done {
            catalog.note_damage(&row.name, why);
            self.is_broken = true;
        }
        Ok(())
    }
}

/// Sends the records that are complete with the next bytes, and passes each that is sent to `note`, with
/// the number of bytes before it. Returns what is wrong if no more can follow, or with one of them.
fn send_records(
    cuts: &mut Cuts,
    bytes: &[u8],
    sent: UnaskedPart,
    link: &mut Link,
    note: &mut dyn FnMut(u64, &CheckedRecord),
) -> Result<Result<(), &'static str>, NetError> {
    let mut damage = None;
    let ended = cuts.take(
        bytes,
        &mut |at, record| match CheckedRecord::new(record.to_vec()) {
            Ok(record) if fits(&record, sent) => {
                note(at, &record);
                link.traffic.objects_sent += record.objects().len() as u64;
                link.send(Frame::Checked(record))
            }
            Ok(_) => Ok(()),
            Err(why) => {
                damage.get_or_insert(why);
                Ok(())
            }
        },
    )?;
    Ok(damage.map_or(ended, Err))
}

/// Returns whether a receiver takes all objects of a record.
fn fits(record: &CheckedRecord, sent: UnaskedPart) -> bool {
    record.objects().iter().all(|object| match sent {
        UnaskedPart::Everything => true,
        UnaskedPart::Metadata => object.ty != ObjectType::Chunk,
        UnaskedPart::Commits => object.ty == ObjectType::Commit,
    })
}

/// Returns what to read of a pack with metadata. A small one is read as a whole: what is requested
/// next of it is there then.
fn part(row: &Row, sent: UnaskedPart) -> Part {
    let (mut from, mut to) = match sent {
        UnaskedPart::Commits => (row.metadata, row.commits_end),
        UnaskedPart::Metadata => (row.metadata, row.len),
        UnaskedPart::Everything => (PACK_HEADER_BYTES, row.len),
    };
    if row.len <= SMALL_BYTES {
        (from, to) = (0, row.len);
    }
    Part {
        row: *row,
        from,
        to,
    }
}
