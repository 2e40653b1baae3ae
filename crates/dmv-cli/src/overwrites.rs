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

/// Runs `work`, as [`supplied`] does. Where it would overwrite more than is kept, it asks.
pub fn keep_or_ask<T>(
    context: &Context,
    repo: &Repo,
    doing: &'static str,
    mut work: impl FnMut(&WorktreeSettings) -> Result<T, RepoError>,
) -> Result<T, Failure> {
    let mut settings = context.settings()?;
    loop {
        let mut too_much = None;
        let done = supplied(context, repo, doing, || {
            let done = work(&settings);
            if let Err(RepoError::Files(FilesError::TooMuchToKeep { bytes, limit, .. })) = &done {
                too_much = Some((*bytes, *limit));
            }
            done
        });
        let Some((size, limit)) = too_much else {
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
