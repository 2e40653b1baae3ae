//! What a receiver gets without a request: the new commits or metadata, or everything.
//!
//! Packs are read forward, from the first byte that is wanted. What a receiver lacks afterwards it
//! requests, so nothing here has to be complete.

use super::hands::{NotRead, Stop};
use super::stock::{SMALL_BYTES, Stock};
use crate::bucket::files::Failed;
use crate::bucket::format::Row;
use crate::bucket::ranges::{Range, Terms, plan};
use crate::bucket::read::Cuts;
use crate::session::NetError;
use crate::session::link::Link;
use crate::wire::{Frame, Message, Unasked, Want};
use dmv_core::object::ObjectType;
use dmv_core::store::{CheckedRecord, PACK_HEADER_BYTES};

/// The most bytes of one read of a whole pack.
const READ_BYTES: u64 = 16 << 20;

/// Which objects are sent unasked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
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

impl Stock {
    /// Sends what the receiver of `want` wants without a request.
    pub fn stream(&mut self, want: &Want, link: &mut Link) -> Result<(), NetError> {
        let filter = &want.filter;
        // Only the receiver knows where its history ends.
        if want.tips.is_empty() || filter.depth > 0 || filter.since.is_some() {
            return Ok(());
        }
        let is_all = filter.subsets.is_empty();
        let sent = match want.unasked {
            Unasked::All if is_all && !filter.metadata_only => Sent::Everything,
            Unasked::All | Unasked::Metadata if is_all => Sent::Metadata,
            _ => Sent::Commits,
        };
        let since = match want.unasked {
            Unasked::All => 0,
            // Without a note of what the receiver has, what it lacks is not known.
            Unasked::Metadata if self.cache.fetched() == 0 => return Ok(()),
            Unasked::Metadata | Unasked::Commits => self.cache.fetched(),
        };
        let rows = self.meta.iter().filter(|row| row.generation > since);
        let mut parts: Vec<Part> = rows.map(|row| part(row, sent)).collect();
        if sent == Sent::Everything {
            let data = self.data()?.into_iter().map(|row| Part {
                row,
                from: PACK_HEADER_BYTES,
                to: row.tail,
            });
            parts.extend(data);
            let bytes = parts.iter().map(|part| part.to - part.from).sum();
            if link.says_totals {
                link.say(&Message::Total(bytes))?;
            }
        }
        self.send_parts(parts, sent, link)
    }

    fn send_parts(
        &mut self,
        parts: Vec<Part>,
        sent: Sent,
        link: &mut Link,
    ) -> Result<(), NetError> {
        let parts: Vec<Part> = parts
            .into_iter()
            .filter(|part| part.from < part.to)
            .collect();
        let terms = Terms {
            gap: 0,
            most: READ_BYTES,
        };
        let mut reads = Vec::new();
        for part in &parts {
            let range = Range {
                file: part.row.name,
                offset: part.from,
                len: part.to - part.from,
            };
            reads.extend(plan(vec![range], terms));
        }
        let (repository, mut parts) = (self.repository(), parts.into_iter());
        let mut open: Option<Open> = None;
        let mut hands = self.take_hands();
        let done = hands.read(repository, &reads, &mut |read, bytes| {
            let is_next = open.as_ref().is_none_or(|open| open.part.to <= read.offset)
                || open
                    .as_ref()
                    .is_some_and(|open| open.part.row.name != read.file);
            if is_next {
                open = parts.next().map(Open::new);
            }
            let Some(open) = &mut open else {
                return Ok(());
            };
            let bytes = match bytes {
                Ok(bytes) => bytes,
                // What is needed of it is requested, and then the root is read again.
                Err(Failed::Missing | Failed::Length) => {
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

/// A part that is being read.
struct Open {
    part: Part,
    cuts: Cuts,
    /// The chunks before the metadata, until something else follows them.
    chunks: Option<Cuts>,
    /// The bytes after the last frame.
    tail: Vec<u8>,
    is_broken: bool,
}

impl Open {
    fn new(part: Part) -> Open {
        Open {
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
        sent: Sent,
        stock: &mut Stock,
        link: &mut Link,
    ) -> Result<(), NetError> {
        let row = self.part.row;
        let end = offset + bytes.len() as u64;
        let within = |at: u64| (at.clamp(offset, end) - offset) as usize;
        // The frames that are sent: those of metadata, or all in a pack that has only chunks.
        let from = match row.kind.has_metadata() {
            true => row.metadata,
            false => PACK_HEADER_BYTES,
        };
        let frames = &bytes[within(from)..within(row.tail.min(self.part.to))];
        self.tail.extend_from_slice(match row.kind.has_metadata() {
            true => &bytes[within(row.tail)..],
            false => &[],
        });
        if self.is_broken {
            return Ok(());
        }
        if sent == Sent::Everything && from > PACK_HEADER_BYTES {
            let before = &bytes[within(PACK_HEADER_BYTES)..within(from)];
            if let Some(chunks) = &mut self.chunks
                && send_records(chunks, before, sent, link)?.is_err()
            {
                // The index of the chunks. If it was damage, they are requested.
                self.chunks = None;
            }
        }
        if let Err(why) = send_records(&mut self.cuts, frames, sent, link)? {
            stock.note_damage(&row.name, why);
            self.is_broken = true;
        }
        Ok(())
    }
}

/// Sends the records that are complete with the next bytes. Returns what is wrong if no more can
/// follow, or with one of them.
fn send_records(
    cuts: &mut Cuts,
    bytes: &[u8],
    sent: Sent,
    link: &mut Link,
) -> Result<Result<(), &'static str>, NetError> {
    let mut damage = None;
    let ended = cuts.take(
        bytes,
        &mut |record| match CheckedRecord::new(record.to_vec()) {
            Ok(record) if fits(&record, sent) => {
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
fn fits(record: &CheckedRecord, sent: Sent) -> bool {
    record.objects().iter().all(|object| match sent {
        Sent::Everything => true,
        Sent::Metadata => object.ty != ObjectType::Chunk,
        Sent::Commits => object.ty == ObjectType::Commit,
    })
}

/// Returns what to read of a pack with metadata. A small one is read as a whole: what is requested
/// next of it is there then.
fn part(row: &Row, sent: Sent) -> Part {
    let (mut from, mut to) = match sent {
        Sent::Commits => (row.metadata, row.commits_end),
        Sent::Metadata => (row.metadata, row.len),
        Sent::Everything => (PACK_HEADER_BYTES, row.len),
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
