//! Claims: who works on which path. docs/format/claims.md specifies them.
//!
//! Each place where a device works has one signed [`ClaimList`], which only this device writes and which
//! replaces its former one as a whole. A [`ClaimBook`] has the newest list of each writer, so that two books
//! always merge. [`settle`] says which claims hold. Nothing here knows a repository, a clock or a key.

mod book;
mod codec;
mod held;
mod path_index;
#[cfg(test)]
mod tests;

pub use book::{BookError, ClaimBook, Endings, WrittenEnding};
pub use codec::{ClaimSignature, DOMAIN, SignedList};
pub use held::{ClaimRef, HeldClaims, settle, settle_some};
pub use path_index::PathIndex;

use crate::hash::ObjectId;
use crate::limits::MAX_SUBSET_BYTES;
use crate::object::name::RepoPath;

/// Bytes of the key of a device.
pub const DEVICE_BYTES: usize = 32;
/// Bytes of the id of a repository.
pub const PLACE_BYTES: usize = 16;
/// Bytes of the reason of a claim.
pub const MAX_REASON_BYTES: usize = 200;
/// Bytes of the name of who claims.
pub const MAX_BY_BYTES: usize = 255;
/// Claims of a repository, in all lists together, with what has ended claims.
pub const MAX_CLAIMS: usize = 4096;
/// Lists of a repository, with empty ones.
pub const MAX_LISTS: usize = 1024;
/// Lists of one device in a book: clones in which it has claimed something.
pub const MAX_LISTS_OF_DEVICE: usize = 64;
/// How far the logical time of a claim may be beyond all that are known.
pub const MAX_TIME_AHEAD: u64 = 1 << 40;
/// Bytes of one encoded list: the most that one value of the view holds.
pub const MAX_LIST_BYTES: usize = MAX_SUBSET_BYTES;
/// Bytes of all lists of a repository together.
pub const MAX_BOOK_BYTES: usize = 768 << 10;
/// Greatest logical time.
pub const MAX_TIME: u64 = 1 << 62;

/// What a place demands of pushes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PushRules {
    /// Whether pushes keep to the claims that hold there.
    pub keeps_to_claims: bool,
    /// Whether pushes bring only signed commits.
    pub needs_signatures: bool,
}

/// One of the rules for pushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushRule {
    /// Pushes keep to claims.
    Claims,
    /// Pushes bring only signed commits.
    Signatures,
}

/// A change of the rules for pushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleChange {
    /// The rule.
    pub rule: PushRule,
    /// Whether it is to apply.
    pub applies: bool,
}

impl PushRules {
    /// Returns the rules after a change.
    pub fn with(mut self, change: RuleChange) -> PushRules {
        match change.rule {
            PushRule::Claims => self.keeps_to_claims = change.applies,
            PushRule::Signatures => self.needs_signatures = change.applies,
        }
        self
    }

    /// Returns the bits of the rules: 1 for claims, 2 for signatures.
    pub fn bits(self) -> u8 {
        u8::from(self.keeps_to_claims) | u8::from(self.needs_signatures) << 1
    }

    /// Returns the rules with these bits; `None` if there is no such rule.
    pub fn from_bits(bits: u8) -> Option<PushRules> {
        (bits < 4).then_some(PushRules {
            keeps_to_claims: bits & 1 != 0,
            needs_signatures: bits & 2 != 0,
        })
    }
}

/// Who writes a list: a device, in one of its repositories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Writer {
    /// The public key of the device.
    pub device: [u8; DEVICE_BYTES],
    /// The id of the repository.
    pub place: [u8; PLACE_BYTES],
}

/// A claim: somebody works on a path and on everything below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The file or directory. Never the root.
    pub path: RepoPath,
    /// The branch that the work is for; empty for none.
    pub branch: String,
    /// The commit that the work began at, if there was one.
    pub base: Option<ObjectId>,
    /// What that commit has at the path: the content of a file, or the tree of a directory.
    pub version: Option<ObjectId>,
    /// Whether it takes over what others held when it was made.
    pub takes: bool,
    /// The logical time: greater than those of all claims that its writer knew. At least 1.
    pub time: u64,
    /// When it was made, in seconds since 1970, by the writer's clock. Only for people.
    pub since: i64,
    /// Why, in one line. May be empty.
    pub reason: String,
}

/// What ends a claim of somebody else, such as one of a device that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimEnding {
    /// The path of the claim, exactly.
    pub path: RepoPath,
    /// Whose claim it is: that of any other writer with this device.
    pub device: [u8; DEVICE_BYTES],
    /// The logical time. Only earlier claims end.
    pub time: u64,
    /// When, in seconds since 1970, by the writer's clock. Only for people.
    pub since: i64,
    /// Why, in one line. May be empty.
    pub reason: String,
}

impl ClaimEnding {
    /// Returns the order in a list.
    fn key(&self) -> (&[u8], &[u8; DEVICE_BYTES]) {
        (self.path.as_bytes(), &self.device)
    }

    /// Returns whether it is about a claim, if that is one of another writer.
    pub fn is_of(&self, writer: &Writer, claim: &Claim) -> bool {
        self.path == claim.path && self.device == writer.device && self.time > claim.time
    }
}

/// All claims of one writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimList {
    /// Whose they are.
    pub writer: Writer,
    /// Greater than the numbers of all earlier lists of this device. A list with a greater one replaces all of its
    /// writer before it.
    pub number: u64,
    /// The name of the user. Only for people.
    pub by: String,
    /// The claims, in strictly rising byte order of their paths.
    pub claims: Vec<Claim>,
    /// The claims of others that it has ended, in strictly rising order of their paths and devices.
    pub endings: Vec<ClaimEnding>,
}

impl ClaimList {
    /// Returns the list before the first one of a writer.
    pub fn before_the_first(writer: Writer) -> ClaimList {
        ClaimList {
            writer,
            number: 0,
            by: String::new(),
            claims: Vec::new(),
            endings: Vec::new(),
        }
    }

    /// Returns whether it neither claims nor ends anything.
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.endings.is_empty()
    }

    /// Returns the claim on exactly this path.
    pub fn at(&self, path: &RepoPath) -> Option<&Claim> {
        self.position(path).ok().map(|at| &self.claims[at])
    }

    /// Adds a claim, in place of one on the same path.
    pub fn put(&mut self, claim: Claim) {
        match self.position(&claim.path) {
            Ok(at) => self.claims[at] = claim,
            Err(at) => self.claims.insert(at, claim),
        }
    }

    /// Returns where the claim on a path stands, or where it would.
    fn position(&self, path: &RepoPath) -> Result<usize, usize> {
        let claims = &self.claims;
        claims.binary_search_by(|known| known.path.as_bytes().cmp(path.as_bytes()))
    }

    /// Adds an ending, in place of one of the same claim.
    pub fn end(&mut self, ending: ClaimEnding) {
        match self
            .endings
            .binary_search_by(|known| known.key().cmp(&ending.key()))
        {
            Ok(at) => self.endings[at] = ending,
            Err(at) => self.endings.insert(at, ending),
        }
    }
}
