//! The haves of a receiver: which of its commits it names, so that few messages find the common
//! history. See docs/protocol.md, "Negotiation". [`Receiver`](super::Receiver) uses this.

use crate::wire::MAX_IDS;
use dmv_core::hash::ObjectId;
use dmv_core::history::load_commit;
use dmv_core::object::{ObjectError, ObjectRead, ObjectType};
use std::collections::BTreeSet;

/// The depth of the first round, in commits along a line of history. Each further round goes 16
/// times as deep.
const FIRST_STEPS: u64 = 1024;
/// How many lines of history are followed. The tips of all lines are named.
const MAX_LINES: usize = 64;

/// A line of first parents that is followed.
struct Line {
    /// The next commit, and its `distance` from the tip.
    next: ObjectId,
    distance: u64,
    /// The next distance at which a commit is named.
    named: u64,
}

/// The commits to name, round by round: first the tips, then ancestors at distances that grow by
/// half each time.
pub struct Haves {
    tips: Vec<ObjectId>,
    lines: Vec<Line>,
    steps: u64,
    /// Commits whose parents are not complete, even if they are stored.
    shallow: BTreeSet<ObjectId>,
}

impl Haves {
    /// Makes the haves from the `complete` commits and their ancestors, down to the `shallow`
    /// commits.
    pub fn new(complete: &[ObjectId], shallow: &BTreeSet<ObjectId>) -> Haves {
        let line = |tip: &ObjectId| Line {
            next: *tip,
            distance: 0,
            named: 1,
        };
        Haves {
            tips: complete.to_vec(),
            lines: complete.iter().take(MAX_LINES).map(line).collect(),
            steps: FIRST_STEPS,
            shallow: shallow.clone(),
        }
    }

    /// Returns the commits of the next round, and whether it is the last round. Fails if a commit
    /// cannot be read.
    pub fn round(
        &mut self,
        objects: &dyn ObjectRead,
    ) -> Result<(Vec<ObjectId>, bool), ObjectError> {
        let mut out: Vec<ObjectId> = Vec::new();
        let room = MAX_IDS - MAX_LINES * 32;
        out.extend(self.tips.drain(..self.tips.len().min(room)));
        let mut going = Vec::new();
        for mut line in self.lines.drain(..) {
            let mut over = false;
            while line.distance < self.steps && out.len() < MAX_IDS {
                if !objects.holds(ObjectType::Commit, &line.next)? {
                    over = true;
                    break;
                }
                if line.distance == line.named {
                    out.push(line.next);
                    line.named += (line.named / 2).max(1);
                }
                let is_last = self.shallow.contains(&line.next);
                match load_commit(objects, &line.next)?.parents.first() {
                    Some(parent) if !is_last => line.next = *parent,
                    _ => {
                        // The first commit of all is named, too: histories have at least this one
                        // in common.
                        if line.distance > 0 {
                            out.push(line.next);
                        }
                        over = true;
                        break;
                    }
                }
                line.distance += 1;
            }
            if !over {
                going.push(line);
            }
        }
        self.lines = going;
        self.steps = self.steps.saturating_mul(16);
        out.truncate(MAX_IDS);
        Ok((out, self.lines.is_empty() && self.tips.is_empty()))
    }
}
