//! The newest list of each writer.

use super::{
    Claim, ClaimEnding, ClaimList, DEVICE_BYTES, MAX_BOOK_BYTES, MAX_CLAIMS, MAX_LISTS,
    MAX_LISTS_OF_DEVICE, MAX_TIME_AHEAD, PLACE_BYTES, SignedList, Writer,
};
use crate::hash::{ID_BYTES, chunk_id};
use std::collections::BTreeMap;

/// The newest list of each writer that is known.
///
/// Books merge list by list: the greater number wins, and of two lists with one number the one with the
/// greater bytes. So the order in which lists arrive does not matter, and everybody gets the same book.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimBook {
    lists: BTreeMap<Writer, SignedList>,
    size: BookSize,
}

/// What the limits of a book are about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct BookSize {
    /// Claims, and what has ended claims.
    claims: usize,
    bytes: usize,
}

impl BookSize {
    fn of(list: &SignedList) -> BookSize {
        BookSize {
            claims: list.list().claims.len() + list.list().endings.len(),
            bytes: list.as_bytes().len(),
        }
    }

    fn with(self, other: &BookSize) -> BookSize {
        BookSize {
            claims: self.claims + other.claims,
            bytes: self.bytes + other.bytes,
        }
    }

    fn without(self, other: &BookSize) -> BookSize {
        BookSize {
            claims: self.claims - other.claims,
            bytes: self.bytes - other.bytes,
        }
    }
}

/// What has ended claims, by the bytes of their paths.
#[derive(Default)]
pub struct Endings<'b> {
    at: BTreeMap<&'b [u8], Vec<WrittenEnding<'b>>>,
}

/// What has ended a claim, and the list that says so.
#[derive(Clone, Copy)]
pub struct WrittenEnding<'b> {
    /// The list.
    pub list: &'b ClaimList,
    /// What it says.
    pub ending: &'b ClaimEnding,
}

impl Endings<'_> {
    /// Returns what has ended a claim of this writer.
    pub fn of(&self, writer: &Writer, claim: &Claim) -> Option<&WrittenEnding<'_>> {
        let of_path = self.at.get(claim.path.as_bytes())?;
        let mut others = of_path.iter().filter(|other| other.list.writer != *writer);
        others.find(|other| other.ending.is_of(writer, claim))
    }
}

/// Why a book takes no further list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BookError {
    /// There would be too many claims.
    #[error("a repository has at most {MAX_CLAIMS} claims")]
    Claims,
    /// There would be too many lists, or they would be too long.
    #[error("a repository has no room for further claims")]
    Lists,
    /// There would be too many lists of one device.
    #[error(
        "this device has claimed in {MAX_LISTS_OF_DEVICE} other clones, the most that a repository knows"
    )]
    Clones,
}

impl ClaimBook {
    /// Takes a list, unless it is known or replaced already. Returns whether it is news.
    pub fn join(&mut self, list: SignedList) -> Result<bool, BookError> {
        let writer = list.list().writer;
        let known = self.lists.get(&writer);
        if self.has(&list) {
            return Ok(false);
        }
        let is_new = known.is_none();
        let spare = match is_new.then(|| self.full_of(&writer.device)).flatten() {
            Some(full) => Some(self.spare(full, &writer.device).ok_or(full)?),
            None => None,
        };
        if spare.is_some_and(|spare| list.list().is_empty() && order(&list) < order(spare)) {
            return Ok(false);
        }
        let goes = known.or(spare);
        let gone = goes.map_or(BookSize::default(), BookSize::of);
        let spare = spare.map(|spare| spare.list().writer);
        let size = self.size.without(&gone).with(&BookSize::of(&list));
        if size.claims > MAX_CLAIMS {
            return Err(BookError::Claims);
        }
        if size.bytes > MAX_BOOK_BYTES {
            return Err(BookError::Lists);
        }
        self.size = size;
        if let Some(spare) = spare {
            self.lists.remove(&spare);
        }
        self.lists.insert(writer, list);
        Ok(true)
    }

    /// Returns the book with further lists, as far as it has room for them. Leaves out a list with a logical time far
    /// beyond all others, which nobody could take over any more. A list that is left out stays with its writer.
    pub fn with_room_for(&self, lists: impl IntoIterator<Item = SignedList>) -> ClaimBook {
        let mut book = self.clone();
        let mut last = book.last_time();
        let mut lists: Vec<SignedList> = lists.into_iter().collect();
        // The order in which they come says nothing of their times.
        lists.sort_by_key(|list| times(list.list()).max());
        for list in lists {
            let newest = times(list.list()).max().unwrap_or(0);
            if newest <= last.saturating_add(MAX_TIME_AHEAD) && book.join(list) == Ok(true) {
                last = last.max(newest);
            }
        }
        book
    }

    /// Returns why there is no room for one more list of a device, if there is none.
    fn full_of(&self, device: &[u8; DEVICE_BYTES]) -> Option<BookError> {
        if self.lists_of(device).count() >= MAX_LISTS_OF_DEVICE {
            return Some(BookError::Clones);
        }
        (self.lists.len() >= MAX_LISTS).then_some(BookError::Lists)
    }

    /// Returns the list that makes room for another one: of those of the device, or of all, the one with the least
    /// number that claims nothing any more. There may be none.
    fn spare(&self, full: BookError, device: &[u8; DEVICE_BYTES]) -> Option<&SignedList> {
        let endings = self.endings();
        let is_spare = |list: &&SignedList| {
            let ClaimList { writer, claims, .. } = list.list();
            let mut claims = claims.iter();
            list.list().endings.is_empty()
                && claims.all(|claim| endings.of(writer, claim).is_some())
        };
        let is_meant =
            |list: &&SignedList| full != BookError::Clones || list.list().writer.device == *device;
        let spare = self.lists.values().filter(is_meant).filter(is_spare);
        spare.min_by_key(|list| order(list))
    }

    fn lists_of(&self, device: &[u8; DEVICE_BYTES]) -> impl Iterator<Item = &SignedList> {
        let at = |place| Writer {
            device: *device,
            place,
        };
        let all = at([0; PLACE_BYTES])..=at([u8::MAX; PLACE_BYTES]);
        self.lists.range(all).map(|(_, list)| list)
    }

    /// Returns whether the book has a list, or one of the same writer that replaces it.
    pub fn has(&self, list: &SignedList) -> bool {
        let known = self.lists.get(&list.list().writer);
        known.is_some_and(|known| rank(known) >= rank(list))
    }

    /// Returns the list of a writer.
    pub fn get(&self, writer: &Writer) -> Option<&SignedList> {
        self.lists.get(writer)
    }

    /// Returns all lists, in order of their writers.
    pub fn lists(&self) -> impl ExactSizeIterator<Item = &SignedList> {
        self.lists.values()
    }

    /// Returns all claims with their writers.
    pub fn claims(&self) -> impl Iterator<Item = (Writer, &Claim)> {
        let of_list = |list: &'_ SignedList| list.list().writer;
        self.lists
            .values()
            .flat_map(move |list| list.list().claims.iter().map(move |c| (of_list(list), c)))
    }

    /// Returns what has ended claims.
    pub fn endings(&self) -> Endings<'_> {
        let mut all = Endings::default();
        for list in self.lists.values().map(SignedList::list) {
            for ending in &list.endings {
                let of_path = all.at.entry(ending.path.as_bytes()).or_default();
                of_path.push(WrittenEnding { list, ending });
            }
        }
        all
    }

    /// Returns the claims that nobody has ended, with their writers.
    pub fn live_claims(&self) -> impl Iterator<Item = (Writer, &Claim)> {
        let endings = self.endings();
        self.claims()
            .filter(move |(writer, claim)| endings.of(writer, claim).is_none())
    }

    /// Returns whether nobody has ever claimed anything.
    pub fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// Returns the greatest logical time in the book; 0 if there is no claim.
    pub fn last_time(&self) -> u64 {
        let lists = self.lists.values();
        let times = lists.flat_map(|list| times(list.list()));
        times.max().unwrap_or(0)
    }

    /// Returns the list that the device of this writer would make next, with the claims of its last one. Its number is
    /// greater than those of all lists of the device, also if the book has forgotten the last one.
    pub fn next_list(&self, writer: Writer) -> ClaimList {
        let last = self.lists.get(&writer).map(|list| list.list().clone());
        let mut next = last.unwrap_or_else(|| ClaimList::before_the_first(writer));
        let numbers = self.lists_of(&writer.device).map(|list| list.list().number);
        next.number = numbers.max().unwrap_or(0).saturating_add(1);
        next
    }

    /// Returns a short form of the book and what follows it, to compare: 16 bytes.
    pub fn digest(&self, rest: &[u8]) -> [u8; 16] {
        let mut all = Vec::new();
        for list in self.lists.values() {
            all.extend_from_slice(chunk_id(list.as_bytes()).as_bytes());
        }
        all.extend_from_slice(rest);
        let hash: [u8; ID_BYTES] = *chunk_id(&all).as_bytes();
        *hash.first_chunk().expect("a hash is longer")
    }
}

/// Returns the logical times in a list.
fn times(list: &ClaimList) -> impl Iterator<Item = u64> {
    let claims = list.claims.iter().map(|claim| claim.time);
    claims.chain(list.endings.iter().map(|ending| ending.time))
}

/// The order in which lists that claim nothing make room for others.
fn order(list: &SignedList) -> (u64, Writer) {
    (list.list().number, list.list().writer)
}

fn rank(list: &SignedList) -> (u64, &[u8]) {
    (list.list().number, list.as_bytes())
}
