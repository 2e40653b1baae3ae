//! Telling remotes what is claimed, and what is said if they do not hear it.

use crate::peers::Call;
use crate::prelude::*;
use dmv_net::ops;
use dmv_net::ops::{Remote, TellOutcome};

/// Tells remotes what is claimed here. Those that cannot be reached hear it by the next connection.
pub fn tell_remotes(context: &Context, repo: &Repo, remotes: impl Iterator<Item = Remote>) {
    for remote in remotes {
        let call = Call::new(context);
        let done = ops::exchange_claims(repo, &remote, &call, &context.job);
        drop(call);
        let name = clean(&remote.name);
        match done {
            Ok(TellOutcome::Told) => {}
            Ok(TellOutcome::NotStored) => context.ui.note(format_args!(
                "note: {name} could not store what you have claimed and released; the next connection tells it"
            )),
            Ok(TellOutcome::Unknown) => context
                .ui
                .note(format_args!("note: {name} does not know claims")),
            Ok(TellOutcome::Untold(why)) => context.ui.note(format_args!(
                "note: {name} has not taken your claims: {}; the next connection tells them",
                Failure::from(why).message
            )),
            Err(e) => context.ui.note(format_args!(
                "note: {name} was not asked: {}; the next connection tells it",
                Failure::from(e.source).message
            )),
        }
    }
}
