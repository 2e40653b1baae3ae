//! What the commands that free space or undo at a bucket share.

use crate::on_demand::remote_failure;
use crate::prelude::*;
use crate::traffic::name;
use dmv_bucket::ops::FreeReport;
use dmv_core::repo::RefChange;
use dmv_net::ops::{OpsError, Remote};
use dmv_net::session::NetError;

/// The failure of gc or repack at a remote.
pub fn free_failure(context: &Context, remote: &Remote, e: OpsError) -> Failure {
    let lacks = match &e {
        OpsError::Session(e) => matches!(e.source, NetError::Lacking(_)),
        _ => false,
    };
    if !lacks {
        return remote_failure(context, remote, e);
    }
    let message = format!(
        "freeing space at {} needs the history and the directories of all its branches, and some are absent here",
        clean(&remote.name)
    );
    let hint = hint!(
        "dmv fetch {}, in a repository that stores all history",
        Argument::value(&remote.name)
    );
    Failure::new("absent", EXIT_ABSENT, message).hint(hint)
}

/// Says that something was fetched first.
pub fn tell_fetched(context: &Context, remote: &str, freed: &FreeReport) {
    if freed.fetched > 0 {
        let objects = count(freed.fetched, "object", "objects");
        context.ui.note(format_args!(
            "fetched {objects} from {} first, which this repository lacked",
            clean(remote)
        ));
    }
}

/// `main  3f5a0c1d -> 77aa01bc`.
pub fn ref_line(moved: &RefChange) -> String {
    let short = |id: dmv_core::hash::ObjectId| id.short(SHORT_ID);
    let name = clean(name(moved)).to_string();
    match (moved.old.map(short), moved.new.map(short)) {
        (Some(old), Some(new)) => format!("{name}  {old} -> {new}"),
        (None, Some(new)) => format!("{name}  new, at {new}"),
        (Some(old), None) => format!("{name}  deleted, was at {old}"),
        (None, None) => name,
    }
}
