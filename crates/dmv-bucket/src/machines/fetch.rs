//! A fetch: reads the root, and what its commits need.

use super::commit::Fault;
use super::rules::{Rule, holds};
use super::{Answer, Request, Step, Tag};
use crate::format::{Name, Root};

/// What the caller has to do for a fetch: read everything that it wants of this root.
#[derive(Clone, Debug)]
pub struct Read {
    /// The root.
    pub root: Root,
}

/// How a fetch ended.
#[derive(Clone, Debug)]
pub enum FetchEnd {
    /// The root has not changed since it was last seen.
    Nothing,
    /// Everything was read that this root names.
    Complete(Box<(Root, Tag)>),
    /// This file is lost: the newest root needs it.
    Lost(Name),
}

/// A fetch.
#[derive(Clone, Debug)]
pub struct Fetch {
    known: Option<(Root, Tag)>,
    missing: Option<Name>,
}

type Next = Step<Box<Read>, FetchEnd>;

impl Fetch {
    /// Returns a fetch. `known` is the root of the last complete fetch.
    pub fn new(known: Option<(Root, Tag)>) -> Fetch {
        Fetch {
            known,
            missing: None,
        }
    }

    /// Returns the first request.
    pub fn start(&self) -> Request {
        Request::GetRoot {
            unless: self.known.as_ref().map(|(_, tag)| tag.clone()),
            lost: 0,
        }
    }

    /// Takes the answer to the last request.
    pub fn answer(&mut self, answer: Answer) -> Next {
        let is_new = match (answer, &self.known) {
            (Answer::Root(root, tag), known) => {
                let known = known.as_ref().map(|(root, _)| root);
                if known.is_some_and(|known| !root.can_follow(known)) {
                    return Step::Failed(Fault::Forked);
                }
                let is_new = known.is_none_or(|known| known.write != root.write);
                self.known = Some((*root, tag));
                is_new
            }
            (Answer::Unchanged, Some(_)) => false,
            (Answer::NoRoot, None) => return Step::Failed(Fault::NoRoot),
            (Answer::NoRoot, Some(_)) => return Step::Failed(Fault::RootGone),
            _ => return Step::Failed(Fault::Unreachable),
        };
        match (&self.known, self.missing.take()) {
            (Some((root, _)), _) if is_new => {
                let root = root.clone();
                Step::Work(Box::new(Read { root }))
            }
            (_, Some(name)) => Step::Done(FetchEnd::Lost(name)),
            _ => Step::Done(FetchEnd::Nothing),
        }
    }

    /// Takes the end of the reading: complete, or a file that the root names is missing.
    pub fn read(&mut self, result: Result<(), Name>) -> Next {
        match (result, self.known.clone()) {
            (Ok(()), Some(known)) => Step::Done(FetchEnd::Complete(Box::new(known))),
            (Err(name), _) if !holds(Rule::ReadAgain) => Step::Done(FetchEnd::Lost(name)),
            // gc may have freed the file since. Then there is a newer root.
            (Err(name), _) => {
                self.missing = Some(name);
                Step::Ask(self.start())
            }
            (Ok(()), None) => Step::Failed(Fault::Unreachable),
        }
    }
}
