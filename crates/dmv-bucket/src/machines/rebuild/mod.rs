//! States of a repository whose root is lost: docs/format/bucket.md, "Recovery".
//!
//! A state begins with the root that a device saw last, or with the view of the newest page of the log. Then
//! come operations that joint packs have. Nothing here decides which state is right: a person does.

mod root;

pub use root::RebuiltRoot;

use super::draft::change;
use crate::format::{Entry, Expirations, MAX_ENTRIES, Name, Purges, Root, Row, View};
use dmv_core::hash::{check, encode_hex};
use dmv_core::refs::{Change, Operation};
use dmv_core::store::RepositoryId;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// gc keeps what so many of the newest operations lead to.
const KEPT: u64 = 256;
/// The most operations that a root has since the newest page of its log.
const SINCE_PAGE: u64 = MAX_ENTRIES as u64;

/// What is left of a repository whose root is lost.
#[derive(Clone, Debug)]
pub struct Remains {
    /// The repository.
    pub repository: RepositoryId,
    /// The files that are there, with their lengths.
    pub files: BTreeMap<Name, u64>,
    /// The root that this device saw last, with its complete view.
    pub known: Option<(Root, View)>,
    /// The pages of the log that end with the newest operation: usually one.
    pub pages: Vec<LogPage>,
    /// The packs that are there with their length and were never let go, as far as that is known. A
    /// generation of 0 is not known.
    pub rows: BTreeMap<Name, Row>,
    /// The operations that joint packs have, as their makers intended them.
    pub operations: Vec<Operation>,
    /// Names that were let go.
    pub burnt: BTreeSet<Name>,
    /// What was purged.
    pub purges: Purges,
    /// What pages say that has expired. What is there all the same has come back.
    pub expired: Expirations,
    /// Whether something was purged that is not known any more.
    pub has_lost_purges: bool,
    /// Files that cannot be read, and why.
    pub unreadable: BTreeMap<Name, &'static str>,
}

/// A page of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPage {
    /// Its operations, the oldest first.
    pub entries: Vec<Entry>,
    /// The view of the root that was to name the page first.
    pub view: View,
}

impl LogPage {
    /// Returns the sequence number of its newest operation.
    pub fn last(&self) -> u64 {
        self.entries.last().map_or(0, |entry| entry.operation.seq)
    }
}

/// What a state begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The root of this generation, which this device saw last.
    Known(u64),
    /// The newest page of the log.
    Page,
    /// Nothing: there are only packs.
    Packs,
}

/// A state that a lost root may have had.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// What it begins with.
    pub origin: Origin,
    /// Its branches and tags.
    pub view: View,
    /// Its newest operations, as far as they are known, the oldest first.
    pub log: Vec<Entry>,
    /// Sequence number and id of the newest one.
    pub last: (u64, [u8; 16]),
    /// How many operations were added from packs.
    pub added: u64,
    /// How many of these may never have been completed.
    pub unsure: u64,
    /// How many operations are missing in between: nothing is known of them.
    pub unknown: u64,
    /// Operations of packs that do not fit.
    pub left_out: Vec<Operation>,
    /// Whether so many operations are missing that gc may have let go what it needs.
    pub is_old: bool,
}

impl Candidate {
    /// Returns the name by which a person chooses it.
    pub fn id(&self, repository: RepositoryId) -> String {
        let mut bytes = repository.as_bytes().to_vec();
        bytes.push(match self.origin {
            Origin::Known(_) => 0,
            Origin::Page => 1,
            Origin::Packs => 2,
        });
        bytes.extend_from_slice(&self.last.1);
        for (key, value) in &self.view {
            for part in [key.as_bytes(), value] {
                bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
                bytes.extend_from_slice(part);
            }
        }
        encode_hex(&check(&[&bytes])[..4])
    }

    /// Returns its newest operation, if that is known.
    pub fn newest(&self) -> Option<&Operation> {
        self.log.last().map(|entry| &entry.operation)
    }
}

/// Which operations of packs are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Additions {
    /// Those that others follow, and those that fit.
    All,
    /// Those that others follow: they have landed.
    Sure,
    None,
}

impl Remains {
    /// Returns the states that the root may have had, the newest first.
    pub fn candidates(&self) -> Vec<Candidate> {
        let followed = self.followed();
        let mut out: Vec<Candidate> = Vec::new();
        for base in self.bases() {
            for added in [Additions::All, Additions::Sure, Additions::None] {
                let new = self.extend(base.clone(), added, &followed);
                match out.iter_mut().find(|other| other.view == new.view) {
                    Some(other) if other.is_old && !new.is_old => *other = new,
                    Some(_) => {}
                    None if new.view.is_empty() && new.last.0 == 0 => {}
                    None => out.push(new),
                }
            }
        }
        out.sort_by_key(|found| (std::cmp::Reverse(found.last.0), found.unsure));
        out
    }

    /// Returns the sequence number of the newest operation on pages of the log.
    fn last_on_pages(&self) -> u64 {
        self.pages.iter().map(LogPage::last).max().unwrap_or(0)
    }

    /// Returns the greatest sequence number that the lost root can have had.
    fn greatest_seq(&self) -> u64 {
        let known = self.known.iter().map(|(root, _)| root.last.0);
        let packs = self.operations.iter().map(|operation| operation.seq);
        let seen = known.chain(packs).max().unwrap_or(0);
        seen.max(self.last_on_pages().saturating_add(SINCE_PAGE))
    }

    /// Returns the ids of operations that others have found in a root, with their sequence numbers there.
    fn followed(&self) -> HashMap<[u8; 16], u64> {
        let on_pages = self.pages.iter().flat_map(|page| &page.entries);
        let on_pages = on_pages.map(|entry| &entry.operation);
        let all = self.operations.iter().chain(on_pages);
        let pairs = all.map(|operation| (operation.previous, operation.seq.saturating_sub(1)));
        let mut followed: HashMap<[u8; 16], u64> = pairs.collect();
        if let Some((root, _)) = &self.known {
            followed.insert(root.last.1, root.last.0);
        }
        followed
    }

    fn bases(&self) -> Vec<Candidate> {
        let base = |origin, view: &View, log: &[Entry], last: (u64, [u8; 16])| Candidate {
            origin,
            view: view.clone(),
            log: log.to_vec(),
            last,
            added: 0,
            unsure: 0,
            unknown: 0,
            left_out: Vec::new(),
            is_old: last.0.saturating_add(KEPT) < self.greatest_seq(),
        };
        let known = self.known.iter();
        let known = known.map(|(root, view)| {
            let origin = Origin::Known(root.generation);
            base(origin, view, &root.log, root.last)
        });
        let on_pages = self.pages.iter().filter_map(|page| {
            let last = &page.entries.last()?.operation;
            Some(base(
                Origin::Page,
                &page.view,
                &page.entries,
                (last.seq, last.id),
            ))
        });
        let mut bases: Vec<Candidate> = known.chain(on_pages).collect();
        if bases.is_empty() {
            bases.push(base(Origin::Packs, &View::new(), &[], (0, [0; 16])));
        }
        bases
    }

    /// Adds operations of packs to a state.
    fn extend(
        &self,
        mut state: Candidate,
        added: Additions,
        followed: &HashMap<[u8; 16], u64>,
    ) -> Candidate {
        if added == Additions::None {
            return state;
        }
        let from = state.last.0;
        let covered = from.saturating_sub(state.log.len() as u64);
        let in_log: HashSet<[u8; 16]> = state.log.iter().map(|entry| entry.operation.id).collect();
        let mut later: Vec<(u64, bool, &Operation)> = Vec::new();
        for operation in &self.operations {
            let landed = followed.get(&operation.id);
            let seq = landed.copied().unwrap_or(operation.seq);
            // A push that has lost a race lands later than it intended.
            let may_be_later = landed.is_none() && seq > covered;
            if (seq > from || may_be_later) && !in_log.contains(&operation.id) {
                later.push((seq, landed.is_none(), operation));
            }
        }
        later.sort_by_key(|(seq, is_unsure, op)| (*seq, *is_unsure, op.time.seconds, op.id));
        let mut newest = from;
        for (seq, is_unsure, operation) in later {
            if is_unsure && (added == Additions::Sure || !fits(&state.view, operation, seq > from))
            {
                state.left_out.push(operation.clone());
                continue;
            }
            newest = newest.max(seq);
            state.unsure += u64::from(is_unsure);
            add(&mut state, operation);
        }
        state.unknown = newest.saturating_sub(state.last.0);
        state
    }
}

/// Returns whether an operation can follow a view: its keys have the old values, or already the new ones,
/// which counts only where the operation `may_be_in`.
fn fits(view: &View, operation: &Operation, may_be_in: bool) -> bool {
    let is_old = |change: &Change| view.get(&change.key) == change.old.as_ref();
    let is_new = |change: &Change| view.get(&change.key) == change.new.as_ref();
    operation.changes.iter().all(is_old)
        || may_be_in
            && operation
                .changes
                .iter()
                .all(|change| is_old(change) || is_new(change))
}

/// Adds an operation to a state, with the number that it gets there.
fn add(state: &mut Candidate, operation: &Operation) {
    change(&mut state.view, &operation.changes);
    let operation = Operation {
        seq: state.last.0 + 1,
        previous: state.last.1,
        ..operation.clone()
    };
    state.last = (operation.seq, operation.id);
    state.added += 1;
    let left = Vec::new();
    state.log.push(Entry { operation, left });
}
