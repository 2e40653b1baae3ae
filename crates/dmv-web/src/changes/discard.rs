//! Discarding: files as they are in the newest commit again. What a conflict was settled by goes the same way, so that
//! the conflict is open again.

use super::{ChangeJob, cut, lines};
use crate::doing::Note;
use crate::looking::WorktreeState;
use crate::program::{ShownFailure, Stop};
use crate::rows::{PickedRows, RowKey, pressed_row};
use crate::words::{count, shown};
use dmv_core::object::name::RepoPath;
use dmv_core::repo::{CheckoutReport, FilesError, RepoError, StatusOptions};

/// Discards what the pressed button stands for.
pub fn discard(it: &ChangeJob) -> Result<Note, Stop> {
    const WRONG: Stop = Stop::Bad("choose a file to discard");
    let row = pressed_row(&it.post).ok_or(WRONG)?;
    let paths = match &row {
        RowKey::File(path) => vec![path.clone()],
        RowKey::Moved { from, to } => vec![from.clone(), to.clone()],
        RowKey::Frames(_) => changed_frames(it, &row)?,
    };
    let report = restored(it, &paths, "discard")?;
    let what = match &paths[..] {
        [path] => shown(path),
        paths => count(paths.len() as u64, "file", "files"),
    };
    let done = report.files + report.removed;
    let text = match (report.files, report.removed) {
        _ if !report.refused.is_empty() && done == 0 => format!("{what}: not discarded"),
        (0, 0) => format!("{what}: there was nothing to discard"),
        (0, _) => format!("Removed {what}, which no commit has"),
        (_, 0) => format!("Discarded the changes of {what}: as in the newest commit again"),
        _ => format!(
            "Discarded the changes of {what}: as in the newest commit again, and new files are removed"
        ),
    };
    Ok(told(text, &report, "Not discarded"))
}

/// Opens a settled conflict again.
pub fn choose_again(it: &ChangeJob) -> Result<Note, Stop> {
    let path = it.path()?;
    let report = restored(it, std::slice::from_ref(&path), "restore")?;
    let text = format!("{path} is in conflict again: choose a version");
    Ok(told(text, &report, "Not restored"))
}

fn restored(it: &ChangeJob, paths: &[RepoPath], command: &str) -> Result<CheckoutReport, Stop> {
    let settings = it.program().settings().map_err(Stop::Told)?;
    let request = it.program().request(command).map_err(Stop::Told)?;
    let done = it.supplied(|| {
        it.repo()
            .discard(paths, &settings, request.clone(), &it.job)
    });
    match done {
        Err(Stop::Repo(e @ RepoError::Files(FilesError::TooMuchToKeep { .. }))) => {
            let told = it.program().explain(e);
            let hint = "commit these files first, or remove them yourself";
            Err(Stop::Told(ShownFailure {
                hint: Some(hint.to_owned()),
                ..told
            }))
        }
        done => done,
    }
}

fn told(text: String, report: &CheckoutReport, refused: &str) -> Note {
    let mut more = lines(refused, &report.refused);
    let overwritten = &report.overwritten;
    if overwritten.files > 0 {
        more.push(if overwritten.kept {
            "Undo brings back what you had.".to_owned()
        } else {
            "What you had was too large to keep.".to_owned()
        });
    }
    cut(Note {
        failed: !report.refused.is_empty(),
        text,
        more,
    })
}

/// The frames of a row that have changed, as they are now.
fn changed_frames(it: &ChangeJob, row: &RowKey) -> Result<Vec<RepoPath>, Stop> {
    let options = StatusOptions {
        select: &PickedRows::These(vec![row.clone()]),
        settings: it.program().settings().map_err(Stop::Told)?,
    };
    let state = WorktreeState::find(it.repo(), &options, &it.job)?;
    let paths = state.status.changes.into_iter().map(|change| change.path);
    Ok(paths.filter(|path| row.has(path.as_bytes())).collect())
}
