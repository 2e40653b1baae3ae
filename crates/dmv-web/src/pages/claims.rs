//! Who works on what: marks in lists, and a section with the forms to claim, release and take over.

use super::parts::{path_field, secret};
use crate::address::link;
use crate::program::ShownFailure;
use crate::site::Ask;
use crate::words::{clean, shown};
use dmv_core::claims::MAX_REASON_BYTES;
use dmv_core::object::name::RepoPath;
use dmv_core::repo::{ClaimInfo, ClaimTable, NewerOptions, QUICK_COMMITS};
use dmv_core::subset::Subset;
use dmv_core::worktree::scan::Select;
use dmv_core::{hash::ObjectId, job::Job};
use maud::{Markup, html};
use std::collections::HashMap;

/// Claims below a directory that are named.
const MAX_BELOW: usize = 10;

/// What lists mark: who has claimed paths, and where they have newer versions.
#[derive(Default)]
pub struct WorkMarks {
    claims: ClaimTable,
    /// Where files have a newer version, in words.
    newer: HashMap<RepoPath, String>,
}

/// What a list says of a path.
#[derive(Default)]
pub struct WorkMark {
    /// Who has claimed it: a few words, and all of them.
    pub claimed: Option<ClaimedWords>,
    /// Where it has a newer version.
    pub newer: Option<String>,
}

/// Who has claimed a path.
pub struct ClaimedWords {
    /// `claimed by Ada`.
    pub short: String,
    /// The same with the device, the time and the reason.
    pub full: String,
    is_own: bool,
}

impl WorkMarks {
    /// Returns the marks of the paths that `select` has. Newer versions are those of `own`, the user's commit.
    /// Everything is newer than an old commit, so without it nothing is said of them. A failure stops nobody who only
    /// looks.
    pub fn read(ask: &Ask<'_>, own: Option<ObjectId>, select: &dyn Select) -> WorkMarks {
        WorkMarks {
            claims: ask.site.program.claims(&ask.repo).unwrap_or_default(),
            newer: own.map_or_else(HashMap::new, |own| newer(ask, own, select)),
        }
    }

    /// Returns what is said of a path.
    pub fn of(&self, ask: &Ask<'_>, path: &RepoPath) -> WorkMark {
        let words = |info: &ClaimInfo| ClaimedWords {
            short: if info.is_own {
                "claimed by you".to_owned()
            } else {
                format!("claimed by {}", clean(&info.by))
            },
            full: ask.site.program.claim_words(info),
            is_own: info.is_own,
        };
        WorkMark {
            claimed: self.claims.of_path(path).map(words),
            newer: self.newer.get(path).cloned(),
        }
    }

    /// Returns what is said of several paths that stand in one row: the first mark of each sort.
    pub fn of_all<'p>(&self, ask: &Ask<'_>, paths: impl Iterator<Item = &'p RepoPath>) -> WorkMark {
        let mut all = WorkMark::default();
        for path in paths {
            let one = self.of(ask, path);
            all.claimed = all.claimed.or(one.claimed);
            all.newer = all.newer.or(one.newer);
            if all.claimed.is_some() && all.newer.is_some() {
                break;
            }
        }
        all
    }
}

impl WorkMark {
    /// The marks, for a row or a tile.
    pub fn tags(&self) -> Markup {
        html! {
            @if let Some(newer) = &self.newer { " " span.tag.modified { (newer) } }
            @if let Some(claimed) = &self.claimed {
                " " span.tag.modified[!claimed.is_own] title=(claimed.full) { (claimed.short) }
            }
        }
    }
}

/// The newer versions of files, as far as a quick look tells.
fn newer(ask: &Ask<'_>, own: ObjectId, select: &dyn Select) -> HashMap<RepoPath, String> {
    let options = NewerOptions {
        own,
        select,
        subset: &Subset::everything(),
        max_commits: QUICK_COMMITS,
    };
    let report = ask.repo.newer(&options, &Job::default());
    let mut out = HashMap::new();
    for version in report.unwrap_or_default().versions {
        let author = ask.repo.read_commit(&version.commit);
        let by = author.map_or(String::new(), |commit| {
            format!(", by {}", shown(commit.author.name.as_bytes()))
        });
        let on = version.on.to_string();
        let text = format!("newer on {}{by}", shown(on.as_bytes()));
        out.entry(version.path).or_insert(text);
    }
    out
}

/// The section about one file or directory, with forms; they lead back to `back`. Nobody can claim the root.
pub fn section(ask: &Ask<'_>, path: &RepoPath, back: &str) -> Markup {
    if path.is_root() {
        return html! {};
    }
    let table = match ask.site.program.claims(&ask.repo) {
        Ok(table) => table,
        Err(ShownFailure { message, .. }) => {
            return html! { p.note.bad { "Who works on this cannot be read: " (message) } };
        }
    };
    let other = table.others_on(path).next();
    let own = table.of_path(path).filter(|info| info.is_own);
    let may_change = !ask.site.read_only;
    html! {
        section.claims aria-labelledby="claims" {
            h2 #claims { "Who works on this" }
            @match (other, own) {
                (Some(_), _) => { (others(ask, &table, path, back)) }
                (None, Some(own)) => {
                    p { (sentence(&ask.site.program.claim_words(own))) @if own.claim.path != *path { (with(&own.claim.path)) } "." }
                    @if !own.is_here { p.quiet { "You have claimed it in another clone, and can release it there." } }
                    @if may_change && own.is_here {
                        form method="post" action="/release" {
                            (secret(ask.site, back))
                            (path_field(own.claim.path.as_bytes()))
                            button type="submit" { "Release" @if own.claim.path != *path { " " (shown(&own.claim.path)) } }
                        }
                    }
                }
                (None, None) => {
                    p.quiet { "Nobody has claimed this, as far as this repository knows." }
                    @if may_change { (claim_form(ask, path, back, "Claim")) }
                }
            }
        }
    }
}

/// The claims of others on a path, above it or below it, with a form that takes the path over.
fn others(ask: &Ask<'_>, table: &ClaimTable, path: &RepoPath, back: &str) -> Markup {
    let all: Vec<&ClaimInfo> = table.others_on(path).take(MAX_BELOW + 1).collect();
    html! {
        ul.plain {
            @for info in all.iter().take(MAX_BELOW) {
                li {
                    @if info.claim.path == *path || path.starts_with(&info.claim.path) {
                        (sentence(&ask.site.program.claim_words(info)))
                        @if info.claim.path != *path { (with(&info.claim.path)) }
                    } @else {
                        a href=(link("file", "@", info.claim.path.as_bytes())) { (shown(&info.claim.path)) }
                        ": " (ask.site.program.claim_words(info))
                    }
                }
            }
            @if all.len() > MAX_BELOW { li.quiet { "and others" } }
        }
        @if !ask.site.read_only { (claim_form(ask, path, back, "Take over")) }
    }
}

fn claim_form(ask: &Ask<'_>, path: &RepoPath, back: &str, word: &str) -> Markup {
    html! {
        form method="post" action="/claim" {
            (secret(ask.site, back))
            (path_field(path.as_bytes()))
            @if word != "Claim" { input type="hidden" name="take" value="yes"; }
            label for="reason" { "Why (may be empty)" } " "
            input #reason type="text" name="reason" maxlength=(MAX_REASON_BYTES); " "
            button type="submit" { (word) }
        }
        @if word != "Claim" { p.quiet.small { "The other user is told." } }
    }
}

fn with(path: &RepoPath) -> String {
    format!(", with all of {}", shown(path))
}

/// The words as the beginning of a sentence.
fn sentence(words: &str) -> String {
    let mut chars = words.chars();
    let first = chars.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + chars.as_str()
}
