//! The commit loop: replaces the root by its successor, or finds out that it already has.
//!
//! The replacement of the root is the commit point of a bucket. A store may carry it out and then
//! lose the answer, so every answer but a clear success means: read the root, and look in its log.

use super::draft::{Draft, Lack, Limits, Next, Pages, Stamp, next_root, visit_log};
use super::rules::{Rule, holds};
use super::{Answer, Fresh, Request, Tag};
use crate::format::{Entry, PageRef, Root};
use std::ops::ControlFlow;

/// Why a machine gave up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// There is no root: no repository, or no right to see it.
    NoRoot,
    /// The store did not answer, or it has refused. The operation was not published, and will not be.
    Unreachable,
    /// An attempt to publish the operation has no answer: it may have been published, and may still be.
    /// Its id tells.
    Unknown,
    /// There is no root where one was seen before.
    RootGone,
    /// The store has lost a root that it had acknowledged, or has returned an older one.
    Forked,
    /// The root names a page that does not exist.
    Lost,
    /// A page contradicts the root, or the next root would be too large. The text says which.
    Bad(&'static str),
}

/// Attempts to publish an operation that have no answer yet. A device that notes them can ask later what became of
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The smallest sequence number that an attempt gave to the operation.
    pub seq: u64,
    /// The write id of the root that the last one replaces. While that root is in place, the attempt may
    /// still be carried out; afterwards its condition never holds again.
    pub over: [u8; 16],
}

/// What the loop does next.
pub(super) enum Turn {
    Ask(Request),
    /// The root is read, and the operation is not in it: the owner may [`Commit::publish`].
    Ready,
    /// The operation is part of the newest root.
    Landed(Box<Entry>),
    Fault(Fault),
}

#[derive(Clone, Debug)]
enum CommitStep {
    Root,
    Pages(Vec<PageRef>),
    NewPages(Box<Next>),
    /// The new root, and the root that an earlier attempt without an answer replaces.
    NewRoot(Box<Next>, Option<[u8; 16]>),
}

/// The loop. Its owner decides what to publish.
#[derive(Clone, Debug)]
pub(super) struct Commit {
    stamp: Stamp,
    limits: Limits,
    known: Option<(Root, Tag)>,
    /// Whether the root was read by this loop.
    read: bool,
    pub pages: Pages,
    open: CommitStep,
    /// The smallest sequence number that an attempt gave to the operation.
    tried: Option<u64>,
    /// The write id of the root that an attempt without an answer replaces.
    unanswered: Option<[u8; 16]>,
    /// Whether the store has said that it does not replace the root for this writer.
    is_refused: bool,
    lost: u32,
    /// The root that named a page which does not exist.
    gone: Option<[u8; 16]>,
}

impl Commit {
    pub fn new(stamp: Stamp, limits: Limits, known: Option<(Root, Tag)>) -> Commit {
        Commit {
            stamp,
            limits,
            known,
            read: false,
            pages: Pages::new(),
            open: CommitStep::Root,
            tried: None,
            unanswered: None,
            is_refused: false,
            lost: 0,
            gone: None,
        }
    }

    /// Goes on with an operation that an earlier run has tried to publish.
    pub fn resume(&mut self, attempt: Attempt) {
        self.tried = Some(attempt.seq);
        self.unanswered = Some(attempt.over);
    }

    /// Returns the attempts that have no answer: as long as there are any, it is unknown whether the
    /// operation is published.
    pub fn unanswered(&self) -> Option<Attempt> {
        let (seq, over) = (self.tried?, self.unanswered?);
        Some(Attempt { seq, over })
    }

    pub fn start(&mut self) -> Request {
        self.open = CommitStep::Root;
        Request::GetRoot {
            unless: self.known.as_ref().map(|(_, tag)| tag.clone()),
            lost: self.lost,
        }
    }

    /// Returns the newest root that is known.
    pub fn root(&self) -> Option<&Root> {
        self.known.as_ref().map(|(root, _)| root)
    }

    /// Returns whether the root was read by this loop, and not only earlier.
    pub fn is_read(&self) -> bool {
        self.read
    }

    /// Returns the newest root that is known, with its tag.
    pub fn known(self) -> Option<(Root, Tag)> {
        self.known
    }

    /// Asks for what `lack` says.
    pub fn lacks(&mut self, lack: Lack) -> Turn {
        match lack {
            Lack::Pages(pages) => {
                self.open = CommitStep::Pages(pages.clone());
                Turn::Ask(Request::GetPages(pages))
            }
            Lack::Bad(what) => Turn::Fault(Fault::Bad(what)),
        }
    }

    /// Reads the root again, because a file that it names is gone.
    pub fn missed(&mut self) -> Turn {
        let write = self.root().map(|root| root.write);
        if self.gone == write {
            return Turn::Fault(Fault::Lost);
        }
        self.gone = write;
        Turn::Ask(self.start())
    }

    pub fn answer(&mut self, answer: Answer) -> Turn {
        let open = std::mem::replace(&mut self.open, CommitStep::Root);
        match (open, answer) {
            (CommitStep::Root, Answer::Root(root, tag)) => self.read(*root, tag),
            (CommitStep::Root, Answer::Unchanged) if self.known.is_some() => self.look(),
            (CommitStep::Root, Answer::NoRoot) => Turn::Fault(match self.known {
                Some(_) => Fault::RootGone,
                None => Fault::NoRoot,
            }),
            (CommitStep::Pages(wanted), Answer::Pages(pages)) if wanted.len() == pages.len() => {
                let names = wanted.iter().map(|page| page.name);
                self.pages.extend(names.zip(pages));
                self.look()
            }
            (CommitStep::Pages(_), Answer::Gone) => self.missed(),
            (CommitStep::NewPages(next), Answer::Done) => self.put_root(next),
            (CommitStep::NewRoot(next, _), Answer::Replaced(tag)) => {
                self.known = Some((next.root, tag));
                self.landed(next.entry)
            }
            (CommitStep::NewRoot(_, before), Answer::Refused) => {
                self.unanswered = before;
                self.is_refused = true;
                match before {
                    None => self.give_up(),
                    Some(_) => Turn::Ask(self.start()),
                }
            }
            (CommitStep::NewRoot(_, before), answer) => {
                self.lost += 1;
                if matches!(answer, Answer::NotSent) {
                    self.unanswered = before;
                }
                if !holds(Rule::ReadBack) {
                    (self.tried, self.unanswered) = (None, None);
                }
                Turn::Ask(self.start())
            }
            _ => self.give_up(),
        }
    }

    fn give_up(&self) -> Turn {
        Turn::Fault(match self.unanswered {
            Some(_) => Fault::Unknown,
            None => Fault::Unreachable,
        })
    }

    fn landed(&mut self, entry: Entry) -> Turn {
        self.unanswered = None;
        Turn::Landed(Box::new(entry))
    }

    fn read(&mut self, root: Root, tag: Tag) -> Turn {
        let known = self.known.as_ref().map(|(root, _)| root);
        if known.is_some_and(|known| !root.can_follow(known)) {
            return Turn::Fault(Fault::Forked);
        }
        self.known = Some((root, tag));
        self.look()
    }

    /// Looks for the operation in the log of the root.
    fn look(&mut self) -> Turn {
        self.read = true;
        let (Some((root, _)), Some(tried)) = (&self.known, self.tried) else {
            return Turn::Ready;
        };
        let mut found = None;
        let mut first = root.last.0 + 1;
        let ended = visit_log(root, &self.pages, |entry| {
            first = entry.operation.seq;
            if entry.operation.id == self.stamp.id {
                found = Some(entry.clone());
            }
            if found.is_some() || first <= tried {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        match (ended, found) {
            (Err(lack), _) => self.lacks(lack),
            (Ok(_), Some(entry)) => self.landed(entry),
            // The log does not go back to the first attempt.
            (Ok(false), None) if first > tried => Turn::Fault(Fault::Unknown),
            (Ok(_), None) => {
                // Over a later root, no earlier attempt can be carried out any more.
                self.unanswered = self.unanswered.filter(|over| *over == root.write);
                if self.is_refused {
                    self.give_up()
                } else {
                    Turn::Ready
                }
            }
        }
    }

    /// Publishes a draft on top of the newest root that is known.
    pub fn publish(&mut self, draft: Draft, fresh: Fresh) -> Turn {
        let Some((root, _)) = &self.known else {
            return Turn::Fault(Fault::NoRoot);
        };
        match next_root(root, &self.pages, &self.stamp, draft, self.limits, fresh) {
            Err(lack) => self.lacks(lack),
            Ok(next) => self.put_pages(next),
        }
    }

    fn put_pages(&mut self, mut next: Next) -> Turn {
        let pages = std::mem::take(&mut next.pages);
        if pages.is_empty() {
            return self.put_root(Box::new(next));
        }
        self.open = CommitStep::NewPages(Box::new(next));
        Turn::Ask(Request::PutPages(pages))
    }

    fn put_root(&mut self, next: Box<Next>) -> Turn {
        let bytes = match next.root.encode() {
            Ok(bytes) => bytes,
            Err(e) => return Turn::Fault(Fault::Bad(e.what)),
        };
        let over = self.known.as_ref().map(|(_, tag)| tag.clone());
        let seq = next.entry.operation.seq;
        self.tried = Some(self.tried.map_or(seq, |tried| tried.min(seq)));
        let before = self.unanswered;
        self.unanswered = self.root().map(|root| root.write);
        self.open = CommitStep::NewRoot(next, before);
        Turn::Ask(Request::PutRoot { bytes, over })
    }
}
