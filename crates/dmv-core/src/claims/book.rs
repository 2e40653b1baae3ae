//! The newest list of each writer.

use super::{
    Claim, ClaimList, MAX_BOOK_BYTES, MAX_CLAIMS, MAX_LISTS, MAX_LISTS_OF_DEVICE, MAX_TIME_AHEAD,
    SignedList, Writer,
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
}

impl ClaimBook {
    /// Takes a list, unless it is known or replaced already. Returns whether it is news.
    pub fn join(&mut self, list: SignedList) -> Result<bool, BookError> {
        let writer = list.list().writer;
        let known = self.lists.get(&writer);
        if known.is_some_and(|known| rank(known) >= rank(&list)) {
            return Ok(false);
        }
        let before = self.lists.insert(writer, list);
        if let Err(e) = self.check() {
            match before {
                Some(before) => self.lists.insert(writer, before),
                None => self.lists.remove(&writer),
            };
            return Err(e);
        }
        Ok(true)
    }

    /// Returns the book with further lists, as far as it has room for them. Leaves out a list with a logical time far
    /// beyond all others, which nobody could take over any more. A list that is left out stays with its writer.
    pub fn with_room_for(&self, lists: impl IntoIterator<Item = SignedList>) -> ClaimBook {
        let mut book = self.clone();
        for list in lists {
            let latest = book.last_time().saturating_add(MAX_TIME_AHEAD);
            if list.list().claims.iter().all(|claim| claim.time <= latest) {
                let _ = book.join(list);
            }
        }
        book
    }

    fn check(&self) -> Result<(), BookError> {
        let claims: usize = self
            .lists
            .values()
            .map(|list| list.list().claims.len())
            .sum();
        let bytes: usize = self.lists.values().map(|list| list.as_bytes().len()).sum();
        if claims > MAX_CLAIMS {
            return Err(BookError::Claims);
        }
        let mut devices: BTreeMap<_, usize> = BTreeMap::new();
        for writer in self.lists.keys() {
            *devices.entry(writer.device).or_default() += 1;
        }
        if devices.values().any(|count| *count > MAX_LISTS_OF_DEVICE) {
            return Err(BookError::Lists);
        }
        if self.lists.len() > MAX_LISTS || bytes > MAX_BOOK_BYTES {
            return Err(BookError::Lists);
        }
        Ok(())
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

    /// Returns whether nobody has ever claimed anything.
    pub fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// Returns the greatest logical time in the book; 0 if there is no claim.
    pub fn last_time(&self) -> u64 {
        let claims = self.lists.values().flat_map(|list| &list.list().claims);
        claims.map(|claim| claim.time).max().unwrap_or(0)
    }

    /// Returns the list that the device of this writer would make next, with the claims of its last one.
    pub fn next_list(&self, writer: Writer) -> ClaimList {
        let last = self.lists.get(&writer).map(|list| list.list().clone());
        let mut next = last.unwrap_or_else(|| ClaimList::before_the_first(writer));
        next.number += 1;
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

fn rank(list: &SignedList) -> (u64, &[u8]) {
    (list.list().number, list.as_bytes())
}
