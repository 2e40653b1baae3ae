//! What a switch of the worktree did, and how to have the files that it could not write.

use crate::prelude::*;
use dmv_core::repo::{CheckoutReport, Location, RepoSlice};
use dmv_core::worktree::snapshot::Problem;
use std::path::Path;
use std::sync::Arc;

/// What helps if a restore would overwrite the user's work.
const AGAIN: &str = "dmv undo, then the same command again";

/// Prints what a checkout or restore did. `switched`: it may have changed the commit. Returns the exit code.
pub fn print_checkout(
    context: &Context,
    report: &CheckoutReport,
    switched: bool,
) -> Result<u8, Failure> {
    let ui = &context.ui;
    let idle = report.idle_patterns.iter();
    let document = || {
        object! {
            report.{files, bytes, removed},
            branch: report.head.branch(),
            commit: report.commit,
            subset: patterns(&report.subset),
            idle_patterns: texts(idle.map(|idle| shown(&idle.pattern))),
            emptied_patterns: emptied_values(&report.emptied),
            kept: paths(&report.adopted),
            problems: report.refused,
            overwritten?: overwritten_value(&report.overwritten),
        }
    };
    ui.report(document, |out| {
        if switched {
            writeln!(out, "{}", on(ui, &report.head, Some(report.commit)))?;
        }
        let written = written(report.files, report.bytes, report.removed);
        Ok(writeln!(out, "{written}")?)
    })?;
    tell_overwritten(context, &report.overwritten);
    tell_idle(context, &report.idle_patterns);
    tell_refused(context, None, &report.refused);
    tell_adopted(context, &report.adopted);
    tell_emptied(context, &report.emptied, &report.subset);
    Ok(exit_for(&report.refused))
}

/// Names the files that could not be written in the worktree (the one at `dir`, if that is another), and how
/// to have them.
pub fn tell_refused(context: &Context, dir: Option<&Path>, refused: &[Problem]) {
    match dir {
        Some(_) => {
            context.ui.warn_of("not written: ", refused);
            hint_restore(context, dir, refused.iter().map(|one| one.path.as_bytes()));
        }
        None => tell_and_hint(context, refused, AGAIN),
    }
}

/// Names the files that could not be written. The hint is a restore only if it overwrites nothing of the user,
/// otherwise `again`.
pub fn tell_and_hint(context: &Context, refused: &[Problem], again: &'static str) {
    context.ui.warn_of("not written: ", refused);
    if refused.is_empty() {
        return;
    }
    // The hint may be less exact than it could be, but it has to come.
    let former = unwritten(context).unwrap_or_default();
    let paths = refused.iter().map(|problem| problem.path.as_bytes());
    let mut former = paths
        .filter(|path| former.iter().any(|known| known == path))
        .peekable();
    match former.peek() {
        Some(_) => hint_restore(context, None, former),
        None => context
            .ui
            .note(hint!("hint: when that is mended: {}", again)),
    }
}

/// Returns the paths that still have what a former commit had there, and no work of the user.
fn unwritten(context: &Context) -> Result<Vec<Vec<u8>>, Failure> {
    Ok(context.repo()?.unwritten(&context.settings()?)?)
}

/// Names the command that writes the first path that could not be written.
pub fn hint_restore<'p>(
    context: &Context,
    dir: Option<&Path>,
    paths: impl Iterator<Item = &'p [u8]>,
) {
    let repo = match dir {
        Some(dir) => Repo::open(dir).ok().map(Arc::new),
        None => context.repo().ok(),
    };
    if let Some(way) = way_to_restore(repo.as_deref(), dir, paths) {
        context.ui.note(hint!("hint: {}", way));
    }
}

/// Returns the command that writes the first of some paths. No command writes what was purged.
pub fn way_to_restore<'p>(
    repo: Option<&Repo>,
    dir: Option<&Path>,
    mut paths: impl Iterator<Item = &'p [u8]>,
) -> Option<Hint> {
    let slice = repo.and_then(|repo| repo.slice().ok());
    let is_purged = |path: &[u8]| match (repo, &slice) {
        (Some(repo), Some(slice)) => is_purged(repo, slice, path).unwrap_or(false),
        _ => false,
    };
    let path = paths.find(|path| !is_purged(path))?;
    Some(match dir {
        Some(dir) => hint!(
            "when that is mended: dmv -C {} restore {}",
            Argument::on_disk(dir),
            Argument::path(path, true)
        ),
        None => hint!("when that is mended: dmv restore {}", path_argument(path)),
    })
}

/// Whether the content that the worktree's commit has at `path` was purged, here or at a remote.
fn is_purged(repo: &Repo, slice: &RepoSlice, path: &[u8]) -> Result<bool, RepoError> {
    let Some(head) = repo.head_commit()? else {
        return Ok(false);
    };
    let commit = repo.read_commit(&head)?;
    Ok(match repo.locate("@", &commit, &Repo::parse_path(path)?)? {
        Location::Entry(entry) => slice.purge_of(&entry.id).is_some(),
        Location::Root { .. } => false,
    })
}
