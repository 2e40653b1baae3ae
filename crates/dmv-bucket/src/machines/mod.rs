//! Push, gc and fetch at a bucket, as state machines: docs/format/bucket.md, "Writing".
//!
//! A machine has one request open at a time. Each call takes the answer and returns the next
//! [`Step`]: a request to the store, work for the caller, or the end. The caller that carries out the
//! requests may be killed or frozen between any two of them: what is safe follows from the order
//! of the requests, from conditions of the store, and from the `rules`, but never from a time.
//!
//! [`Remains`] are no machine: they tell which states a lost root may have had, as pure functions.
//!
//! The simulation in `tests` runs several machines against a store that loses, delays and repeats
//! requests and answers. It also runs them with each rule switched off, and must then find a hole.

mod claims;
mod collect;
mod commit;
mod draft;
mod fetch;
mod push;
mod rebuild;
mod rules;
#[cfg(test)]
mod tests;

pub use claims::{ClaimsAnswer, ClaimsEnd, ClaimsMachine, ClaimsRequest, ClaimsStep};
pub use collect::{Collect, CollectEnd, Mark, MarkResult};
pub use commit::{Attempt, Fault};
pub use draft::{Limits, Stamp, intended};
pub use fetch::{Fetch, FetchEnd, Read};
pub use push::{Preparation, Prepare, Push, PushEnd, UploadedPack};
pub use rebuild::{Candidate, LogPage, Origin, RebuiltRoot, Remains};

use super::format::{Name, Page, PageRef, Root};

/// Which state of the root a store means: what it said when it stored or returned it. Opaque.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tag {
    /// The entity tag.
    pub etag: Option<String>,
    /// The version, for stores that have conditions on versions.
    pub version: Option<String>,
}

/// What a machine asks of the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// Read the root, unless it is still in this state. `lost` counts the attempts to replace it
    /// that failed: the caller waits longer after each of them, for a random time.
    GetRoot {
        /// The state that the machine knows.
        unless: Option<Tag>,
        /// Failed attempts to replace the root.
        lost: u32,
    },
    /// Read and decode pages.
    GetPages(Vec<PageRef>),
    /// Store pages, each with one upload.
    PutPages(Vec<(Name, Vec<u8>)>),
    /// Replace the root if it still is in this state. `None`: only if there is none.
    PutRoot {
        /// The new root.
        bytes: Vec<u8>,
        /// The state that is replaced.
        over: Option<Tag>,
    },
    /// Delete files. Files that do not exist are deleted already.
    Delete(Vec<Name>),
}

/// The answer to a [`Request`].
#[derive(Clone, Debug)]
pub enum Answer {
    /// The root.
    Root(Box<Root>, Tag),
    /// The root is in the known state.
    Unchanged,
    /// There is no root.
    NoRoot,
    /// All pages, in the order of the request.
    Pages(Vec<Page>),
    /// One of the pages does not exist.
    Gone,
    /// The root was replaced: the store has said so without any doubt.
    Replaced(Tag),
    /// The pages are stored, or the files are deleted.
    Done,
    /// The store does not carry out this request, nor the same one again: it is denied, or the store is full.
    Refused,
    /// The request did not get to the store.
    NotSent,
    /// Anything else: a condition that does not hold, a failure, a cut, or an answer that is not understood.
    /// The request may have been carried out, and it may still be.
    Unclear,
}

/// What happens next: a request, work for the caller, or the end.
#[derive(Clone, Debug)]
pub enum Step<W, D> {
    /// Carry out a request, and call `answer`.
    Ask(Request),
    /// Do this, and call the machine's function for the result.
    Work(W),
    /// The machine has ended.
    Done(D),
    /// The machine has given up.
    Failed(Fault),
}

/// A machine that changes a bucket.
pub trait Machine {
    /// Work for the caller.
    type Work;
    /// How it ends.
    type End;

    /// Takes the answer to the last request.
    fn answer(&mut self, answer: Answer, fresh: Fresh) -> Step<Self::Work, Self::End>;

    /// Returns the attempts to publish its operation that have no answer: as long as there are any, it is
    /// unknown whether it is published.
    fn unanswered(&self) -> Option<Attempt>;
}

/// A source of random ids. A machine takes one for each page and for each attempt to replace the
/// root; none may come twice.
pub type Fresh<'a> = &'a mut dyn FnMut() -> [u8; 16];
