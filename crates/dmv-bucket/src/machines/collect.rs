//! gc at a bucket: takes files that nothing needs out of the root, and then deletes them.

use super::commit::{Attempt, Commit, Fault, Turn};
use super::draft::{Draft, Limits, Stamp, all_rows, kept_from};
use super::rules::{Rule, holds};
use super::{Answer, Fresh, Machine, Request, Step, Tag};
use crate::format::{Expirations, MAX_LEFT, Name, Purges, Root, Row};
use std::collections::BTreeSet;

/// How often a deletion is asked for.
const DELETIONS: u32 = 3;

/// What the caller has to do for gc: mark everything that the view and the kept part of the log
/// lead to, and list the files of the repository.
#[derive(Clone, Debug)]
pub struct Mark {
    /// The root.
    pub root: Root,
    /// All its rows.
    pub rows: Vec<Row>,
    /// Operations before this sequence number do not count.
    pub kept_from: u64,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct MarkResult {
    /// Packs of the root in which nothing is needed.
    pub dead: BTreeSet<Name>,
    /// The names of files in the bucket that may be deleted if the root does not name them. The
    /// caller leaves out young files, as a courtesy to pushes that are under way.
    pub listed: BTreeSet<Name>,
    /// New packs, which the caller has uploaded: they have what is needed of other dead packs. The
    /// generation of each is the newest of those that it replaces.
    ///
    /// A pack that was uploaded for an earlier root counts if that has the same age, and if the pack also
    /// has what this root needs and nothing that is purged.
    pub joined: Vec<Row>,
    /// What is purged besides what the root says. Its pieces are chunks that nothing else of this root
    /// needs.
    pub purges: Purges,
    /// How many purged chunks the files of the bucket will have, if that is known.
    pub unpurged: Option<u64>,
    /// Files that expire besides those that the root lists. No branch or tag of this root has them at its tip.
    pub expired: Expirations,
}

/// How gc ended.
#[derive(Clone, Debug)]
pub enum CollectEnd {
    /// There was nothing to let go or to forget.
    Nothing,
    /// The root does not name these files any more.
    Freed {
        /// The files.
        left: Vec<Name>,
        /// Whether all of them are deleted. The next gc finds the others.
        all_deleted: bool,
    },
}

/// A run of gc.
#[derive(Clone, Debug)]
pub struct Collect {
    commit: Commit,
    forget: u64,
    limits: Limits,
    /// What was marked, and the write id of the root for which.
    marked: Option<([u8; 16], MarkResult)>,
    /// Files that are being deleted, and how often this was asked for.
    left: Option<(Vec<Name>, u32)>,
    /// How often something was purged at the root that it has tried to publish last.
    purged: Option<u64>,
}

type Next = Step<Box<Mark>, CollectEnd>;

impl Machine for Collect {
    type Work = Box<Mark>;
    type End = CollectEnd;

    fn answer(&mut self, answer: Answer, fresh: Fresh) -> Next {
        if let Some((left, asked)) = self.left.take() {
            return match answer {
                Answer::Done => freed(left, true),
                _ if asked >= DELETIONS => freed(left, false),
                _ => self.delete(left, asked),
            };
        }
        let turn = self.commit.answer(answer);
        self.turn(turn, fresh)
    }

    fn unanswered(&self) -> Option<Attempt> {
        self.commit.unanswered()
    }
}

impl Collect {
    /// Returns a run. Operations before the sequence number `forget` may leave the log, except the
    /// newest ones.
    pub fn new(stamp: Stamp, forget: u64, known: Option<(Root, Tag)>, limits: Limits) -> Collect {
        Collect {
            commit: Commit::new(stamp, limits, known),
            forget,
            limits,
            marked: None,
            left: None,
            purged: None,
        }
    }

    /// Returns how often something had been purged at the root that it has published. An attempt over an
    /// older root cannot have landed: the one after it would have failed.
    pub fn purged(&self) -> Option<u64> {
        self.purged
    }

    /// Returns the first request.
    pub fn start(&mut self) -> Request {
        self.commit.start()
    }

    /// Takes what was marked; `None` if a file was missing that the root names.
    pub fn marked(&mut self, marked: Option<MarkResult>, fresh: Fresh) -> Next {
        let Some((marked, root)) = marked.zip(self.commit.root()) else {
            let turn = self.commit.missed();
            return self.turn(turn, fresh);
        };
        self.marked = Some((root.write, marked));
        self.turn(Turn::Ready, fresh)
    }

    fn turn(&mut self, turn: Turn, fresh: Fresh) -> Next {
        match turn {
            Turn::Ask(request) => Step::Ask(request),
            Turn::Fault(fault) => Step::Failed(fault),
            Turn::Landed(entry) => {
                if entry.left.is_empty() {
                    freed(entry.left, true)
                } else {
                    self.delete(entry.left, 0)
                }
            }
            Turn::Ready => self.ready(fresh),
        }
    }

    fn ready(&mut self, fresh: Fresh) -> Next {
        let Some(root) = self.commit.root() else {
            return Step::Failed(Fault::Unreachable);
        };
        let rows = match all_rows(root, &self.commit.pages) {
            Ok(rows) => rows,
            Err(lack) => {
                let turn = self.commit.lacks(lack);
                return self.turn(turn, fresh);
            }
        };
        let newest = (root.last.0 + 1).saturating_sub(self.limits.kept);
        let forget = self.forget.min(newest);
        let kept_from = kept_from(root, forget);
        let marked = match &self.marked {
            Some((write, marked)) if *write == root.write || !holds(Rule::MarkAgain) => marked,
            _ => {
                return Step::Work(Box::new(Mark {
                    root: root.clone(),
                    rows,
                    kept_from,
                }));
            }
        };
        let draft = draft(root, &rows, marked, forget);
        let forgets = kept_from != self::kept_from(root, 0);
        let purges =
            !draft.purges.is_empty() || draft.unpurged.is_some_and(|n| n != root.purges.unpurged);
        if draft.left.is_empty() && draft.expired.is_empty() && !forgets && !purges {
            return Step::Done(CollectEnd::Nothing);
        }
        if !holds(Rule::RootFirst) && !draft.left.is_empty() {
            return self.delete(draft.left, 0);
        }
        self.purged = Some(root.purges.count + u64::from(!draft.purges.is_empty()));
        let turn = self.commit.publish(draft, fresh);
        self.turn(turn, fresh)
    }

    fn delete(&mut self, left: Vec<Name>, asked: u32) -> Next {
        self.left = Some((left.clone(), asked + 1));
        Step::Ask(Request::Delete(left))
    }
}

fn freed(left: Vec<Name>, all_deleted: bool) -> Next {
    Step::Done(CollectEnd::Freed { left, all_deleted })
}

/// Returns what the next root lets go: dead packs, and files that the root does not name.
fn draft(root: &Root, rows: &[Row], marked: &MarkResult, forget: u64) -> Draft {
    let packs: BTreeSet<Name> = rows.iter().map(|row| row.name).collect();
    let pages: BTreeSet<Name> = root.pages().map(|page| page.name).collect();
    let dead = marked.dead.intersection(&packs).copied();
    let dead: BTreeSet<Name> = dead.take(MAX_LEFT).collect();
    let joined = if holds(Rule::JoinedAtOnce) {
        marked.joined.clone()
    } else {
        Vec::new()
    };
    // One that was made for an earlier root is listed as a stray file.
    let is_new = |name: &Name| joined.iter().any(|row| row.name == *name);
    let orphans = marked.listed.iter().copied();
    let orphans =
        orphans.filter(|name| !packs.contains(name) && !pages.contains(name) && !is_new(name));
    let mut left: Vec<Name> = dead.iter().copied().collect();
    left.extend(orphans.take(MAX_LEFT - dead.len()));
    left.sort_unstable();
    Draft {
        dead,
        joined,
        left,
        forget,
        purges: marked.purges.clone(),
        unpurged: marked.unpurged,
        expired: marked.expired.clone(),
        ..Draft::default()
    }
}
