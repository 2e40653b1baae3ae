//! Telling claims at a bucket: docs/format/bucket.md, "Claims".
//!
//! The machine reads the file of claims, adds its lists, and replaces the file on the condition that it is
//! still as it was read. Lists are never taken back, only replaced by later ones, so it may do this again at
//! any time: whether an earlier attempt has landed shows in the file.

#[cfg(test)]
mod tests;

use super::Tag;
use crate::format::ClaimsFile;
use dmv_core::claims::{HeldClaims, RuleChange, SignedList};

/// How often it tries. Each time, another writer was faster, or there was no answer.
const TRIES: u32 = 32;

/// The rules that make it safe. The tests switch them off one by one.
#[derive(Clone, Copy, Debug)]
pub struct ClaimRules {
    /// A file is replaced only in the state that was read.
    pub is_conditional: bool,
    /// After an unclear answer, the file is read again.
    pub looks_again: bool,
    /// What holds goes on to hold.
    pub keeps_held: bool,
    /// The lists of others stay.
    pub keeps_others: bool,
}

impl Default for ClaimRules {
    fn default() -> ClaimRules {
        ClaimRules {
            is_conditional: true,
            looks_again: true,
            keeps_held: true,
            keeps_others: true,
        }
    }
}

/// What the machine asks of the store.
#[derive(Debug)]
pub enum ClaimsRequest {
    /// The file of claims. `lost` says how often an attempt to replace it failed: whoever has lost a race
    /// waits longer.
    Get {
        /// The number of attempts.
        lost: u32,
    },
    /// Replaces the file, if it is in this state; without one, if there is none.
    Put {
        /// The new file.
        file: Box<ClaimsFile>,
        /// The state.
        over: Option<Tag>,
    },
}

/// What the store answers.
#[derive(Debug)]
pub enum ClaimsAnswer {
    /// The file and its state.
    File(Box<ClaimsFile>, Tag),
    /// There is no such file.
    Nothing,
    /// The file was replaced, and is now in this state.
    Replaced(Tag),
    /// The condition does not hold.
    Lost,
    /// Nobody knows whether the request was carried out, or will be.
    Unclear,
    /// The store refuses, and would again.
    Refused,
}

/// How it ends.
#[derive(Debug, PartialEq, Eq)]
pub enum ClaimsEnd {
    /// The file has the lists.
    Told(Box<ClaimsFile>),
    /// The store takes no such file; this is what it has.
    NotTold(Box<ClaimsFile>),
    /// There is no room for some of the lists; this is what the store has now.
    NoRoom(Box<ClaimsFile>),
    /// Nobody knows. The file could not be read.
    Unknown,
}

/// What comes next.
pub enum ClaimsStep {
    /// A request.
    Ask(ClaimsRequest),
    /// The end.
    End(ClaimsEnd),
}

/// Tells claims.
pub struct ClaimsMachine {
    lists: Vec<SignedList>,
    /// A rule for pushes that is to change.
    change: Option<RuleChange>,
    rules: ClaimRules,
    attempts: u32,
    /// Whether an attempt may still land.
    is_unclear: bool,
    /// The file that was read, and the one that was to replace it.
    read: ClaimsFile,
    planned: ClaimsFile,
}

impl ClaimsMachine {
    /// Begins to tell these lists.
    pub fn new(lists: Vec<SignedList>, change: Option<RuleChange>) -> ClaimsMachine {
        ClaimsMachine {
            lists,
            change,
            rules: ClaimRules::default(),
            attempts: 0,
            is_unclear: false,
            read: ClaimsFile::default(),
            planned: ClaimsFile::default(),
        }
    }

    #[cfg(test)]
    fn by(mut self, rules: ClaimRules) -> ClaimsMachine {
        self.rules = rules;
        self
    }

    /// Returns the first request.
    pub fn begin(&self) -> ClaimsRequest {
        ClaimsRequest::Get { lost: 0 }
    }

    /// Goes on from a file that is known.
    pub fn begin_from(&mut self, file: ClaimsFile, tag: Option<Tag>) -> ClaimsStep {
        self.plan(file, tag)
    }

    /// Takes the answer to the last request.
    pub fn answer(&mut self, answer: ClaimsAnswer) -> ClaimsStep {
        match answer {
            ClaimsAnswer::File(file, tag) => self.plan(*file, Some(tag)),
            ClaimsAnswer::Nothing => self.plan(ClaimsFile::default(), None),
            ClaimsAnswer::Replaced(_) => {
                let file = std::mem::take(&mut self.planned);
                self.told(file)
            }
            ClaimsAnswer::Unclear if !self.rules.looks_again => self.not_told(),
            ClaimsAnswer::Lost | ClaimsAnswer::Unclear if self.attempts < TRIES => {
                self.is_unclear |= matches!(answer, ClaimsAnswer::Unclear);
                // What was read before is no answer to a look that fails now.
                self.planned = ClaimsFile::default();
                self.attempts += 1;
                let lost = self.attempts;
                ClaimsStep::Ask(ClaimsRequest::Get { lost })
            }
            ClaimsAnswer::Refused if self.planned.generation > 0 && !self.is_unclear => {
                self.not_told()
            }
            _ => ClaimsStep::End(ClaimsEnd::Unknown),
        }
    }

    /// Ends with what the store has now: with all lists, or as far as there was room.
    fn told(&self, file: ClaimsFile) -> ClaimsStep {
        // A list that claims nothing may have made room for others.
        let has = |list: &SignedList| file.book.has(list) || list.list().is_empty();
        let has_all = self.lists.iter().all(has);
        let file = Box::new(file);
        ClaimsStep::End(if has_all {
            ClaimsEnd::Told(file)
        } else {
            ClaimsEnd::NoRoom(file)
        })
    }

    fn not_told(&mut self) -> ClaimsStep {
        let file = std::mem::take(&mut self.read);
        ClaimsStep::End(ClaimsEnd::NotTold(Box::new(file)))
    }

    /// Plans the next file from the one that was read.
    fn plan(&mut self, read: ClaimsFile, tag: Option<Tag>) -> ClaimsStep {
        let nothing = HeldClaims::default();
        let before = if self.rules.keeps_held {
            &read.held
        } else {
            &nothing
        };
        let mut next = if self.rules.keeps_others {
            read.with(&self.lists, before)
        } else {
            ClaimsFile::default().with(&self.lists, before)
        };
        next.generation = read.generation;
        // Nobody could read a larger file. Whoever changes a setting needs no room.
        if !next.fits() {
            next = read.clone();
        }
        if let Some(change) = self.change {
            next.rules = read.rules.with(change);
        }
        if next == read {
            return self.told(read);
        }
        next.generation += 1;
        (self.read, self.planned) = (read, next.clone());
        let over = tag.filter(|_| self.rules.is_conditional);
        let file = Box::new(next);
        ClaimsStep::Ask(ClaimsRequest::Put { file, over })
    }
}
