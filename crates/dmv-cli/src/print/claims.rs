//! Claims, as `claim`, `claims`, `status` and `commit` show them.

use crate::claim_news::{named, who};
use crate::context::now;
use crate::date::ago;
use crate::prelude::*;
use dmv_core::hash::encode_hex;
use dmv_core::repo::{ClaimInfo, ClaimProgress, ClaimTable, Precedence};
use std::collections::{BTreeMap, BTreeSet};

/// How many warnings a command prints at most.
const WARNED: usize = 5;

/// A claim with what a line says of it.
pub struct ClaimLine<'c> {
    /// The claim.
    pub info: &'c ClaimInfo,
    /// When the remote that arbitrated it was last heard of, in seconds since 1970.
    known: Option<i64>,
}

impl<'c> ClaimLine<'c> {
    /// Returns the line of a claim. `contacts` says when each remote was last heard of.
    pub fn new(info: &'c ClaimInfo, contacts: &BTreeMap<String, i64>) -> ClaimLine<'c> {
        let known = info.held_at.first().and_then(|at| contacts.get(at));
        let known = known.copied();
        ClaimLine { info, known }
    }

    /// `held at origin`, `landed on origin/main`.
    pub fn state(&self) -> String {
        let info = self.info;
        let at = info.held_at.first().filter(|_| info.behind.is_none());
        match (&info.progress, at) {
            (Some(ClaimProgress::Landed(landed)), _) => {
                format!("{} on {}", info.word(), clean(&landed.on.to_string()))
            }
            (_, Some(at)) => format!("{} at {}", info.word(), clean(at)),
            (_, None) => info.word().to_owned(),
        }
    }

    /// The path, and who has claimed it since when: `shots/a.psd  by Ada on main, 2 hours ago: grading`.
    pub fn text(&self) -> String {
        let info = self.info;
        let mut text = format!("{}  {}", escape(&info.claim.path), self.whose());
        if let Some(holder) = &info.behind {
            let has = match holder.how {
                Precedence::Ended => "has ended it",
                Precedence::Took | Precedence::First => "has it",
            };
            text.push_str(&format!("; {} {has}", who(holder)));
        }
        text
    }

    /// `by Ada on main, 2 hours ago: grading`.
    fn whose(&self) -> String {
        let info = self.info;
        let mut text = if info.is_own {
            "by you".to_owned()
        } else {
            format!("by {}", named(&info.by, &info.writer.device))
        };
        if !info.claim.branch.is_empty() {
            text.push_str(&format!(" on {}", clean(&info.claim.branch)));
        }
        text.push_str(&format!(", {}", ago(info.claim.since, now().seconds)));
        if !info.claim.reason.is_empty() {
            text.push_str(&format!(": {}", clean(&info.claim.reason)));
        }
        text
    }
}

impl ToJson for ClaimLine<'_> {
    fn to_json(&self) -> Json {
        let info = self.info;
        object! {
            ..path(&info.claim.path),
            info.{by},
            device: encode_hex(&info.writer.device),
            branch: (!info.claim.branch.is_empty()).then_some(&info.claim.branch),
            since: rfc3339(info.claim.since, 0, 0),
            state: info.word(),
            at: info.held_at.first(),
            known: self.known.map(|seconds| rfc3339(seconds, 0, 0)),
            mine: info.is_own,
            reason: info.claim.reason,
            commit?: commit_of(info),
            landed?: landed_on(info),
            behind?: info.behind.as_ref().map(|holder| object! {
                holder.{by}, device: encode_hex(&holder.device),
                taken: holder.how == Precedence::Took,
            }),
        }
    }
}

/// The commit that brings the work of a claim, if one is known.
fn commit_of(info: &ClaimInfo) -> Option<String> {
    let commit = match info.progress.as_ref()? {
        ClaimProgress::Retained(commit) => commit,
        ClaimProgress::Landed(landed) => &landed.commit,
    };
    Some(commit.to_string())
}

/// Where the work of a claim has landed.
fn landed_on(info: &ClaimInfo) -> Option<String> {
    match info.progress.as_ref()? {
        ClaimProgress::Retained(_) => None,
        ClaimProgress::Landed(landed) => Some(landed.on.to_string()),
    }
}

/// How far the work has come, after who has claimed what: `; landed on origin/main`.
fn progress(info: &ClaimInfo) -> String {
    match &info.progress {
        None => String::new(),
        Some(ClaimProgress::Retained(commit)) => {
            format!("; committed in {}, not landed yet", commit.short(SHORT_ID))
        }
        Some(ClaimProgress::Landed(landed)) => {
            format!("; landed on {}", clean(&landed.on.to_string()))
        }
    }
}

/// Finds out how far the work of claims has come.
pub fn follow<'c>(
    context: &Context,
    repo: &Repo,
    claims: impl Iterator<Item = &'c mut ClaimInfo>,
) -> Result<(), Failure> {
    let landing = context.config()?.value("claims.land")?;
    Ok(repo.follow_claims(claims, landing.as_deref())?)
}

/// Returns the claims on some paths, with how far their work has come. Where nobody has claimed anything, this costs
/// nothing.
pub fn followed<'p>(
    context: &Context,
    repo: &Repo,
    paths: impl Iterator<Item = &'p RepoPath>,
) -> Result<ClaimTable, Failure> {
    let mut table = repo.claims_on(paths)?;
    follow(context, repo, table.claims_mut())?;
    Ok(table)
}

/// `'shots/a.psd' is claimed by Ada (8f4c02d7a1b2) on main, 2 hours ago: grading`.
pub fn told(path: &RepoPath, info: &ClaimInfo) -> String {
    let whose = ClaimLine::new(info, &BTreeMap::new()).whose() + &progress(info);
    if info.claim.path == *path {
        return format!("'{}' is claimed {whose}", escape(path));
    }
    let claimed = escape(&info.claim.path);
    format!(
        "'{}' lies with '{claimed}', which is claimed {whose}",
        escape(path)
    )
}

/// A path that somebody else has claimed.
pub struct ClaimedPath {
    /// The path.
    pub path: RepoPath,
    /// The claim, on the path itself or above it.
    pub info: ClaimInfo,
}

/// `claimed by Ada (8f4c02d7a1b2) on main, 2 hours ago`.
pub fn mark(info: &ClaimInfo) -> String {
    let whose = ClaimLine::new(info, &BTreeMap::new()).whose();
    format!("claimed {whose}{}", progress(info))
}

/// Who has claimed a path, in JSON.
pub fn value(info: &ClaimInfo) -> Json {
    object! {
        info.{by},
        device: encode_hex(&info.writer.device),
        since: rfc3339(info.claim.since, 0, 0),
        state: info.word(),
        at: info.held_at.first(),
        mine: info.is_own,
        landed?: landed_on(info),
    }
}

/// The same with the path.
pub fn value_of_path(at: &RepoPath, info: &ClaimInfo) -> Json {
    let mut all = path(at);
    all.extend(value(info));
    all
}

/// Returns the claims of others on some paths. Without paths, and where nobody has claimed anything, this
/// costs nothing.
pub fn of_others<'p>(
    context: &Context,
    repo: &Repo,
    paths: impl Iterator<Item = &'p RepoPath>,
) -> Result<Vec<ClaimedPath>, Failure> {
    let mut paths = paths.peekable();
    if paths.peek().is_none() {
        return Ok(Vec::new());
    }
    let paths: Vec<&RepoPath> = paths.collect();
    let table = followed(context, repo, paths.iter().copied())?;
    let found = paths.into_iter().filter_map(|path| {
        let info = table.others_on(path).next()?.clone();
        let path = path.clone();
        Some(ClaimedPath { path, info })
    });
    Ok(found.collect())
}

/// Warns of claims of others on paths that a command has changed.
pub fn warn(context: &Context, found: &[ClaimedPath]) {
    for claimed in found.iter().take(WARNED) {
        context.ui.warn(told(&claimed.path, &claimed.info));
    }
    if let Some(more) = found.len().checked_sub(WARNED).filter(|more| *more > 0) {
        let more = count(more as u64, "more path", "more paths");
        let text = format_args!("others have claimed {more}: dmv claims");
        context.ui.warn(text);
    }
}

/// After a claim or a release: lets the user write to the claimed files that are read-only until then, and closes the
/// others again.
pub fn guard_files(context: &Context, repo: &Repo, paths: &[RepoPath]) -> Result<(), Failure> {
    match repo.guard_files(paths, &context.settings()?, &context.job) {
        Ok(edited) => {
            for path in edited.iter().take(WARNED) {
                context.ui.note(format_args!(
                    "note: '{}' has changes, so it does not become read-only",
                    escape(path)
                ));
            }
        }
        // The claims are made or released.
        Err(e) => context.ui.warn(format_args!(
            "the permissions of the files stay as they are: {e}"
        )),
    }
    Ok(())
}

/// The paths that this repository's user has claimed here.
pub fn own_paths(repo: &Repo) -> Result<BTreeSet<RepoPath>, Failure> {
    let table = repo.claims()?;
    let own = table.claims().iter().filter(|info| info.is_here);
    Ok(own.map(|info| info.claim.path.clone()).collect())
}
