//! Carries a machine to its end: makes its requests, has its work done, and says why it failed.
//!
//! All changes of a bucket go this way, so all tell the same truth: an operation has happened, or it
//! has not and will not, or is unknown yet. [`AttemptNote`] lets the same command find out later.

use super::attempt_note::AttemptNote;
use super::client::BucketClient;
use super::error::PushError;
use crate::machines::{Fault, Machine, Request, Step};
use dmv_core::hash::encode_hex;
use dmv_core::store::random_bytes;
use dmv_net::trouble::{RootLoss, Trouble};

/// How often a machine tries to replace the root while others do the same.
const ATTEMPTS: u32 = 200;

/// What a machine is driven with.
pub struct Drive<'d> {
    /// The id of the operation that the machine publishes.
    pub operation: [u8; 16],
    /// Where its attempts are noted.
    pub note: &'d mut AttemptNote,
}

/// Does the work of a machine, and returns the machine's next step.
pub type Works<'w, M> = &'w mut dyn FnMut(
    &mut BucketClient<'_>,
    &mut M,
    <M as Machine>::Work,
) -> Result<NextStep<M>, PushError>;

/// The next step of a machine.
pub type NextStep<M> = Step<<M as Machine>::Work, <M as Machine>::End>;

impl Drive<'_> {
    /// Drives a machine from its first step on.
    pub fn run<M: Machine>(
        mut self,
        client: &mut BucketClient<'_>,
        machine: &mut M,
        first: NextStep<M>,
        works: Works<'_, M>,
    ) -> Result<M::End, PushError> {
        let done = self.steps(client, machine, first, works);
        if machine.unanswered().is_none() {
            self.note.forget();
        }
        done
    }

    fn steps<M: Machine>(
        &mut self,
        client: &mut BucketClient<'_>,
        machine: &mut M,
        first: NextStep<M>,
        works: Works<'_, M>,
    ) -> Result<M::End, PushError> {
        let (mut step, mut attempts) = (first, 0);
        loop {
            client.check()?;
            step = match step {
                Step::Ask(request) => {
                    if matches!(request, Request::PutRoot { .. }) {
                        attempts += 1;
                        if attempts > ATTEMPTS {
                            return Err(Trouble::Busy.into());
                        }
                        // A kill from here on is found by the same command, too.
                        self.note.keep(self.operation, machine.unanswered());
                    }
                    machine.answer(client.answer(&request), &mut random_bytes)
                }
                Step::Work(work) => works(client, machine, work)?,
                Step::Done(end) => return Ok(end),
                Step::Failed(fault) => {
                    client.check()?;
                    return Err(self.why(fault, client).into());
                }
            };
        }
    }

    /// Returns why a machine has given up.
    fn why(&self, fault: Fault, client: &BucketClient<'_>) -> Trouble {
        match (fault, client.trouble()) {
            (Fault::Unknown, _) => unanswered(&self.operation),
            (Fault::Unreachable, _) => client.failure(),
            (Fault::Lost, Some(lost @ Trouble::Lost(_))) => lost.clone(),
            (Fault::Lost, _) => Trouble::Lost("a page of the root".to_owned()),
            (Fault::NoRoot, _) => Trouble::NoRoot,
            (Fault::RootGone, _) => Trouble::LostRoot(RootLoss::Gone),
            (Fault::Forked, _) => Trouble::Forked,
            (Fault::Bad(why), _) => Trouble::Damaged(why.to_owned()),
        }
    }
}

/// Returns the trouble of an operation of which it is unknown whether it is published.
pub fn unanswered(operation: &[u8; 16]) -> Trouble {
    Trouble::Unanswered {
        operation: short(operation),
        undoes: None,
    }
}

/// The first digits of an operation's id.
pub fn short(id: &[u8; 16]) -> String {
    encode_hex(id)[..12].to_owned()
}
