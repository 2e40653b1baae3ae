//! Claiming a path, taking it over and releasing it by a form.

use super::{ChangeJob, cut};
use crate::doing::Note;
use crate::program::{ClaimReport, ClaimWish, Stop};

/// Claims a path. With the field `take`, what another device has is taken over.
pub fn claim(it: &ChangeJob) -> Result<Note, Stop> {
    let wish = ClaimWish {
        path: it.path()?,
        reason: it.post.text("reason").unwrap_or_default().trim().to_owned(),
        takes: it.post.text("take") == Some("yes"),
        job: it.job.clone(),
    };
    let claimed = it.program().claim(it.repo(), &wish);
    Ok(noted(claimed.map_err(Stop::Told)?))
}

/// Ends the user's claims on a path.
pub fn release(it: &ChangeJob) -> Result<Note, Stop> {
    let released = it.program().release(it.repo(), &it.path()?);
    Ok(noted(released.map_err(Stop::Told)?))
}

fn noted(report: ClaimReport) -> Note {
    cut(Note {
        failed: false,
        text: capital(&report.text),
        more: report.more,
    })
}

/// The text as the beginning of a sentence.
fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + chars.as_str()
}
