//! Telling remotes what is claimed, and what is said if they do not hear it.

use crate::peers::Call;
use crate::prelude::*;
use dmv_net::ops;
use dmv_net::ops::{Remote, TellOutcome};

/// Tells remotes what is claimed here. Those that cannot be reached hear it by the next connection.
///
/// Returns what to say of those that have not heard it.
pub fn tell_remotes(
    context: &Context,
    repo: &Repo,
    remotes: impl Iterator<Item = Remote>,
) -> Vec<String> {
    let mut notes = Vec::new();
    for remote in remotes {
        let call = Call::new(context);
        let done = ops::exchange_claims(repo, &remote, &call, &context.job);
        drop(call);
        let name = clean(&remote.name);
        notes.extend(match done {
            Ok(TellOutcome::Told) => None,
            Ok(TellOutcome::NotStored) => Some(format!(
                "{name} could not store what you have claimed and released; the next connection tells it"
            )),
            Ok(TellOutcome::Unknown) => Some(format!("{name} does not know claims")),
            Ok(TellOutcome::Untold(why)) => Some(format!(
                "{name} has not taken your claims: {}; the next connection tells them",
                Failure::from(why).message
            )),
            Err(e) => Some(format!(
                "{name} was not asked: {}; the next connection tells it",
                Failure::from(e.source).message
            )),
        });
    }
    notes
}

/// Prints what `tell_remotes` has returned.
pub fn print_untold(context: &Context, notes: &[String]) {
    for note in notes {
        context.ui.note(format_args!("note: {note}"));
    }
}
