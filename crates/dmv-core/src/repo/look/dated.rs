//! Revisions with a date: what a branch, tag or worktree was at some time, by the operation log.

use crate::hash::ObjectId;
use crate::refs::{Operation, Timestamp};
use crate::repo::base::error::{RepoError, RevisionError};
use crate::repo::base::repo::Repo;
use crate::repo::base::worktree;

/// The number of operations read at a time.
const PAGE: usize = 256;

/// The former state that a revision names: `main@{2 days ago}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatedName<'t> {
    /// What has had it; empty for the current branch.
    pub name: &'t str,
    /// The text between the braces: a date, or a number of changes.
    pub when: &'t str,
}

impl<'t> DatedName<'t> {
    /// Returns the parts of a revision without steps, if it has a date.
    pub fn parse(text: &'t str) -> Option<DatedName<'t>> {
        let (name, when) = text.strip_suffix('}')?.split_once("@{")?;
        Some(DatedName { name, when })
    }
}

/// Returns where the braces of a date end in a text that begins with a revision; 0 without any. What
/// follows a revision is looked for after this.
pub fn end_of_date(text: &[u8]) -> usize {
    let begin = text.windows(2).position(|two| two == b"@{");
    // A revision ends at its colon.
    let begin = begin.filter(|at| !text[..*at].contains(&b':'));
    let end = begin.and_then(|at| {
        text[at..]
            .iter()
            .position(|b| *b == b'}')
            .map(|n| at + n + 1)
    });
    end.unwrap_or(0)
}

/// A former state.
enum Moment {
    /// At the end of this second since 1970.
    Second(i64),
    /// Before this number of the newest changes.
    Changes(u64),
}

/// Returns the commit that `key` of the view named. `text` is the whole revision, and `name` what the
/// key stands for, both for errors.
pub fn former(repo: &Repo, key: &str, text: &str, name: &str) -> Result<ObjectId, RepoError> {
    let dated = DatedName::parse(text).ok_or_else(|| RevisionError::Syntax(text.to_owned()))?;
    let moment = moment(repo, dated, text)?;
    let mut value = repo.refs.get(key)?;
    let (mut changes, mut before, mut oldest) = (0, None, None::<Operation>);
    loop {
        let page = repo.refs.operations_before(before, PAGE)?;
        let Some(last) = page.last() else {
            return Err(RevisionError::BeforeLog {
                text: text.to_owned(),
                first: oldest.map_or_else(|| "now".to_owned(), |oldest| minute(&oldest.time)),
            }
            .into());
        };
        before = Some(last.seq);
        for operation in page {
            let is_there = match moment {
                Moment::Second(second) => operation.time.seconds <= second,
                Moment::Changes(number) => changes == number,
            };
            if is_there {
                let value = value.ok_or_else(|| RevisionError::NotYet {
                    text: text.to_owned(),
                    name: name.to_owned(),
                })?;
                return worktree::id_value(repo, key, &value);
            }
            if let Some(change) = operation.changes.iter().find(|change| change.key == key) {
                value.clone_from(&change.old);
                changes += 1;
            }
            oldest = Some(operation);
        }
    }
}

fn moment(repo: &Repo, dated: DatedName<'_>, text: &str) -> Result<Moment, RepoError> {
    if let Ok(number) = dated.when.parse() {
        return Ok(Moment::Changes(number));
    }
    let reader = repo.caller.dates.get();
    let reader = reader.ok_or_else(|| RevisionError::Syntax(text.to_owned()))?;
    let read = reader(dated.when).map_err(|why| RevisionError::BadDate {
        text: text.to_owned(),
        why,
    });
    Ok(Moment::Second(read?))
}

/// A time up to its minute, in its time zone.
fn minute(time: &Timestamp) -> String {
    let local = time.seconds.saturating_add(60 * i64::from(time.tz_minutes));
    let minutes = local.rem_euclid(86_400) / 60;
    format!("{} {:02}:{:02}", time.date(), minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_stands_in_braces_after_a_name() {
        for (text, parts) in [
            ("@{2 days ago}", Some(("", "2 days ago"))),
            ("main@{2026-11-20}", Some(("main", "2026-11-20"))),
            ("HEAD@{1}", Some(("HEAD", "1"))),
            ("@@{today}", Some(("@", "today"))),
            ("main", None),
            ("main@{x", None),
            ("main{x}", None),
        ] {
            let found = DatedName::parse(text).map(|dated| (dated.name, dated.when));
            assert_eq!(found, parts, "{text}");
        }
    }

    #[test]
    fn what_follows_a_date_begins_after_its_braces() {
        for (text, end) in [
            ("@{2026-11-20 15:04}:a", 19),
            ("main@{today}~2", 12),
            ("main:a@{b}", 0),
            ("main@{today", 0),
            ("", 0),
        ] {
            assert_eq!(end_of_date(text.as_bytes()), end, "{text}");
        }
    }

    #[test]
    fn a_minute_is_that_of_the_time_zone() {
        let time = |seconds, tz_minutes| Timestamp {
            seconds,
            nanos: 0,
            tz_minutes,
        };
        assert_eq!(minute(&time(0, 0)), "1970-01-01 00:00");
        assert_eq!(minute(&time(0, -90)), "1969-12-31 22:30");
        assert_eq!(minute(&time(86_399, 60)), "1970-01-02 00:59");
    }
}
