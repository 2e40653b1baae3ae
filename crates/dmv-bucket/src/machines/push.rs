//! A push: uploads what the root's commits lack, and publishes refs.

use super::commit::{Attempt, Commit, Fault, Turn};
use super::draft::{Draft, Lack, Limits, Stamp, full_view, value, visit_log};
use super::rules::{Rule, holds};
use super::{Answer, Fresh, Machine, Step, Tag};
use crate::format::{Age, Name, PageRef, Purges, Root, Row, View};
use dmv_core::hash::ObjectId;
use dmv_core::refs::Change;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// A pack that this push has uploaded, and that no root lists yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UploadedPack {
    /// Its row. The generation does not count yet.
    pub row: Row,
    /// The age of the root that was read before its upload began.
    pub age: Age,
}

/// What the caller has to do for a push: find out what the new commits need that this root's
/// commits do not have, and upload it.
///
/// It relies on a list or tree only if a commit in this root's view or log leads to it: then
/// everything below it is there, too, apart from files that have expired. It uploads those of them that
/// the new tips have. It may rely on single chunks in any pack of this root. Each pack has a new name,
/// which its upload keeps if it has to be repeated.
#[derive(Clone, Debug)]
pub struct Prepare {
    /// The root.
    pub root: Root,
    /// Its complete view.
    pub view: View,
    /// The changes of refs that can still be made.
    pub changes: Vec<Change>,
    /// Packs that are uploaded already. Their objects need not be sent again, but the walk goes on
    /// below them: what they relied on may have been freed since.
    pub sent: Vec<UploadedPack>,
}

/// What the caller has done for a [`Prepare`].
#[derive(Clone, Debug, Default)]
pub struct Preparation {
    /// The packs that it has uploaded.
    pub rows: Vec<Row>,
    /// Content that the new commits need, that was purged on this device, and that is not uploaded.
    /// The bucket notes why it is absent.
    pub purges: Purges,
    /// Files that had expired and are in the uploaded packs: those that the new tips have.
    pub back: BTreeSet<ObjectId>,
}

/// The root for which everything is prepared, as far as it matters.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PreparedState {
    age: Age,
    expired: Vec<PageRef>,
    changes: Vec<Change>,
}

/// How a push ended.
#[derive(Clone, Debug)]
pub enum PushEnd {
    /// It is published.
    Landed {
        /// The root that has it, or a later one, and its tag.
        root: Box<(Root, Tag)>,
        /// The changes that were made. Keys that are not among them had moved.
        changes: Vec<Change>,
    },
    /// All keys have moved, or one of a [whole](Push::whole) push: nothing was changed.
    Moved,
}

/// A push.
#[derive(Clone, Debug)]
pub struct Push {
    commit: Commit,
    changes: Vec<Change>,
    sent: Vec<UploadedPack>,
    /// What was asked for last, and whether it is prepared.
    prepared: Option<(PreparedState, bool)>,
    /// What the bucket is told of content.
    done: Preparation,
    /// Uploaded packs that do not count any more because something was purged since.
    tainted: BTreeSet<Name>,
    /// Whether it makes all changes or none.
    is_whole: bool,
}

type Next = Step<Box<Prepare>, PushEnd>;

impl Machine for Push {
    type Work = Box<Prepare>;
    type End = PushEnd;

    fn answer(&mut self, answer: Answer, fresh: Fresh) -> Next {
        let turn = self.commit.answer(answer);
        self.turn(turn, fresh)
    }

    fn unanswered(&self) -> Option<Attempt> {
        self.commit.unanswered()
    }
}

impl Push {
    /// Returns a push. `known` is the root as it was last seen; `sent` are packs of an earlier run
    /// that was cut off.
    pub fn new(
        stamp: Stamp,
        changes: Vec<Change>,
        known: Option<(Root, Tag)>,
        sent: Vec<UploadedPack>,
        limits: Limits,
    ) -> Push {
        Push {
            commit: Commit::new(stamp, limits, known),
            changes,
            sent,
            prepared: None,
            done: Preparation::default(),
            tainted: BTreeSet::new(),
            is_whole: false,
        }
    }

    /// Makes the push end with [`PushEnd::Moved`] if any key has moved. Otherwise it makes the other
    /// changes.
    pub fn whole(mut self) -> Push {
        self.is_whole = true;
        self
    }

    /// Makes it go on with an operation that an earlier run has tried to publish under the same id.
    pub fn resume(&mut self, attempt: Attempt) {
        self.commit.resume(attempt);
    }

    /// Returns the newest root that it knows.
    pub fn root(&self) -> Option<&Root> {
        self.commit.root()
    }

    /// Returns the packs that it has uploaded, for a note on the disk: after a kill, the next run
    /// need not upload them again.
    pub fn sent(&self) -> &[UploadedPack] {
        &self.sent
    }

    /// Returns uploaded packs that no root will list because something was purged since: they may have
    /// such content. The caller lets them go when the push has ended.
    pub fn tainted(&self) -> &BTreeSet<Name> {
        &self.tainted
    }

    /// Returns the first step. With a known root, this is no request: if that root is the newest
    /// one, it need not be read.
    pub fn start(&mut self, fresh: Fresh) -> Next {
        match self.commit.root() {
            Some(_) if self.commit.unanswered().is_none() => self.turn(Turn::Ready, fresh),
            _ => Step::Ask(self.commit.start()),
        }
    }

    /// Takes what was done for [`Prepare`]; `None` if a file was missing that the root names.
    pub fn prepared(&mut self, done: Option<Preparation>, fresh: Fresh) -> Next {
        let Some((mut done, root)) = done.zip(self.commit.root()) else {
            let turn = self.commit.missed();
            return self.turn(turn, fresh);
        };
        let age = root.age();
        if let Some((_, is_prepared)) = &mut self.prepared {
            *is_prepared = true;
        }
        let rows = std::mem::take(&mut done.rows);
        let new = rows.into_iter().map(|row| UploadedPack { row, age });
        self.sent.extend(new);
        self.done = done;
        self.turn(Turn::Ready, fresh)
    }

    fn turn(&mut self, turn: Turn, fresh: Fresh) -> Next {
        match turn {
            Turn::Ask(request) => Step::Ask(request),
            Turn::Fault(fault) => Step::Failed(fault),
            Turn::Landed(entry) => match self.commit.clone().known() {
                Some(known) => Step::Done(PushEnd::Landed {
                    root: Box::new(known),
                    changes: entry.operation.changes,
                }),
                None => Step::Failed(Fault::Unknown),
            },
            Turn::Ready => match self.decide() {
                // An older root does not tell.
                Ok(Decision::Moved) if !self.commit.is_read() => Step::Ask(self.commit.start()),
                Ok(Decision::Moved) => Step::Done(PushEnd::Moved),
                Ok(Decision::Prepare(prepare)) => Step::Work(prepare),
                Ok(Decision::Publish(draft)) => {
                    let turn = self.commit.publish(*draft, fresh);
                    // It is never ready: at this point it asks or fails.
                    self.turn(turn, fresh)
                }
                Err(lack) => match self.commit.lacks(lack) {
                    Turn::Ask(request) => Step::Ask(request),
                    Turn::Fault(fault) => Step::Failed(fault),
                    Turn::Ready | Turn::Landed(_) => Step::Failed(Fault::Unreachable),
                },
            },
        }
    }

    fn decide(&mut self) -> Result<Decision, Lack> {
        let Some(root) = self.commit.root() else {
            return Err(Lack::Bad("no root was read"));
        };
        let pages = &self.commit.pages;
        let mut changes = Vec::new();
        for change in &self.changes {
            if value(root, pages, &change.key)? == change.old {
                changes.push(change.clone());
            }
        }
        if changes.is_empty() || self.is_whole && changes.len() < self.changes.len() {
            return Ok(Decision::Moved);
        }
        let counts = |(prepared, is_prepared): &(PreparedState, bool)| {
            *is_prepared
                && (prepared.age.freed == root.freed || !holds(Rule::SameFreed))
                && (prepared.age.purged == root.purges.count || !holds(Rule::SamePurged))
                && (prepared.expired == root.expired || !holds(Rule::SameExpired))
                // A key that had moved may have moved back.
                && changes.iter().all(|change| prepared.changes.contains(change))
        };
        if self.prepared.as_ref().is_some_and(counts) {
            return Ok(Decision::Publish(Box::new(Draft {
                changes,
                rows: self.sent.iter().map(|sent| sent.row).collect(),
                purges: self.done.purges.clone(),
                back: self.done.back.clone(),
                ..Draft::default()
            })));
        }
        let view = full_view(root, pages)?;
        let (root, burnt) = (root.clone(), self.burnt(root)?);
        self.sent.retain(|sent| !burnt.contains(&sent.row.name));
        let now = root.age();
        let is_old = |sent: &UploadedPack| sent.age.purged != now.purged && holds(Rule::SamePurged);
        let old = self.sent.extract_if(.., |sent| is_old(sent));
        self.tainted.extend(old.map(|sent| sent.row.name));
        let state = PreparedState {
            age: now,
            expired: root.expired.clone(),
            changes: changes.clone(),
        };
        self.prepared = Some((state, false));
        Ok(Decision::Prepare(Box::new(Prepare {
            root,
            view,
            changes,
            sent: self.sent.clone(),
        })))
    }

    /// Returns the names of uploaded packs that were let go since their upload began.
    fn burnt(&self, root: &Root) -> Result<BTreeSet<Name>, Lack> {
        let mut own = self.sent.iter();
        let Some(since) = own.clone().map(|sent| sent.age.freed).min() else {
            return Ok(BTreeSet::new());
        };
        let names: BTreeSet<Name> = own.clone().map(|sent| sent.row.name).collect();
        if own.any(|sent| sent.age.freed > root.freed) {
            return Ok(names);
        }
        let mut burnt = BTreeSet::new();
        let mut freed = root.freed;
        let all_seen = freed == since
            || visit_log(root, &self.commit.pages, |entry| {
                burnt.extend(entry.left.iter().filter(|name| names.contains(name)));
                freed -= u64::from(!entry.left.is_empty() && freed > 0);
                if freed <= since {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })?;
        match (holds(Rule::Burnt), all_seen || !holds(Rule::ShortLog)) {
            (false, _) => Ok(BTreeSet::new()),
            (true, true) => Ok(burnt),
            (true, false) => Ok(names),
        }
    }
}

enum Decision {
    Moved,
    Prepare(Box<Prepare>),
    Publish(Box<Draft>),
}
