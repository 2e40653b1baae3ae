//! What a command is about to overwrite: whether it is kept for an undo, and what is said of it.

use crate::context::Context;
use crate::failure::Failure;
use crate::format::json::{Json, object};
use crate::format::text::{bytes, count};
use crate::on_demand::supplied;
use crate::ui::{ask, can_ask};
use dmv_core::repo::{FilesError, Keep, OverwrittenFiles, Repo, RepoError, WorktreeSettings};

/// What a command has overwritten, in JSON; `None` if nothing.
pub fn overwritten_value(overwritten: &OverwrittenFiles) -> Option<Json> {
    (overwritten.files > 0).then(|| object! { overwritten.{files, bytes, kept} })
}

/// What a command would overwrite, and the most that is kept.
#[derive(Clone, Copy)]
pub struct TooMuch {
    bytes: u64,
    limit: u64,
}

/// Returns how much a command would have overwritten that failed because of it.
pub fn too_much<T>(done: &Result<T, RepoError>) -> Option<TooMuch> {
    match done {
        Err(RepoError::Files(FilesError::TooMuchToKeep { bytes, limit, .. })) => Some(TooMuch {
            bytes: *bytes,
            limit: *limit,
        }),
        _ => None,
    }
}

/// Runs `work`, as [`supplied`] does. Where it would overwrite more than is kept, it asks.
pub fn keep_or_ask<T>(
    context: &Context,
    repo: &Repo,
    doing: &'static str,
    mut work: impl FnMut(&WorktreeSettings) -> Result<T, RepoError>,
) -> Result<T, Failure> {
    ask_if_too_much(context, |settings, much| {
        supplied(context, repo, doing, || {
            let done = work(settings);
            *much = too_much(&done);
            done
        })
    })
}

/// Runs `work`, which says whether it would overwrite too much. Then it asks, and runs it again.
pub fn ask_if_too_much<T>(
    context: &Context,
    mut work: impl FnMut(&WorktreeSettings, &mut Option<TooMuch>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut settings = context.settings()?;
    loop {
        let mut much = None;
        let done = work(&settings, &mut much);
        let Some(TooMuch { bytes: size, limit }) = much else {
            return done;
        };
        let (size, limit_text) = (bytes(size), bytes(limit));
        let question = format!(
            "This would overwrite {size} of uncommitted changes. dmv keeps at most {limit_text} for \
             undo (undo.keep-max-size), so you could not undo it. Overwrite them?"
        );
        if !can_ask() || !ask(&question) {
            return done.map_err(|failure| {
                failure.hint(
                    "dmv config set undo.keep-max-size SIZE, to keep them; \
                     or add -y, to overwrite them for good",
                )
            });
        }
        settings.keep = Keep::UpToOrNothing(limit);
    }
}

/// Says what was overwritten.
pub fn tell_overwritten(context: &Context, overwritten: &OverwrittenFiles) {
    if overwritten.files == 0 {
        return;
    }
    let files = count(overwritten.files, "file", "files");
    let size = bytes(overwritten.bytes);
    if overwritten.kept {
        context.ui.note(format_args!(
            "overwrote uncommitted changes in {files} ({size}); to restore them: dmv undo"
        ))
    } else {
        context.ui.warn(format_args!(
            "overwrote uncommitted changes in {files} ({size}); they were too large to keep for undo"
        ))
    }
}
