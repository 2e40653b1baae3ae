//! Partial repositories: the options that make one, and how one is told of.

use crate::context::Context;
use crate::failure::Failure;
use crate::format::json::{Json, ToJson, object};
use crate::format::text::{clean, count, day, patterns, rfc3339};
use crate::unfinished_clone::part_options;
use dmv_core::escape::{Argument, Hint};
use dmv_core::hash::ObjectId;
use dmv_core::hint;
use dmv_core::object::commit::Commit;
use dmv_core::object::root::Root;
use dmv_core::object::tree::TreeEntry;
use dmv_core::platform::bytes_of;
use dmv_core::repo::{Expiry, LackOf, Location, Purge, Repo, RepoError, RepoSlice, StoredHistory};
use dmv_core::subset::{Subset, SubsetError, Union};
use dmv_net::ops::CloneOptions;
use dmv_net::session::{History, PeerSlice};
use dmv_net::transport::Url;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;

/// Patterns that are told in one line.
const PATTERNS_SHOWN: usize = 8;

/// The options of history, for commands that bring some.
#[derive(clap::Args)]
pub struct HistoryArgs {
    /// Fetch only the newest N commits of each branch and tag
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    depth: Option<u32>,
    /// Fetch only the commits since DATE, and the last commit before it; for example 2026-01-31,
    /// 2026-01-31T12:00:00Z or '2 weeks ago'
    #[arg(long, value_name = "DATE", conflicts_with = "depth", value_parser = crate::date::since)]
    since: Option<i64>,
}

impl HistoryArgs {
    /// What is asked for; new commits by default.
    pub fn read(&self) -> History {
        match (self.depth, self.since) {
            (Some(depth), _) => History::Depth(depth),
            (None, Some(since)) => History::Since(since),
            (None, None) => History::New,
        }
    }
}

/// The options of a clone that hold less than everything.
#[derive(clap::Args)]
pub struct SliceArgs {
    /// Store and check out only these paths: files or directories from the root, or wildcards; a
    /// leading ! excludes paths
    #[arg(long, value_name = "PATTERN", num_args = 1..)]
    subset: Vec<OsString>,
    /// Store no file content, and write no files
    #[arg(long)]
    meta_only: bool,
    #[command(flatten)]
    history: HistoryArgs,
}

impl SliceArgs {
    /// Whether it asks for everything.
    pub fn is_everything(&self) -> bool {
        self.subset.is_empty() && !self.meta_only && self.history.read() == History::New
    }

    /// Asks for that in a clone.
    pub fn apply(&self, options: &mut CloneOptions) -> Result<(), Failure> {
        let subset = Subset::new(self.subset.iter().map(bytes_of));
        let bad = |e: SubsetError| Failure::usage(e.to_string()).hint("dmv subset --help");
        options.subset = subset.map_err(bad)?;
        options.metadata_only = self.meta_only;
        options.history = self.history.read();
        Ok(())
    }
}

/// What a partial repository holds, in JSON; `None` for a full one.
pub fn slice_value<'a>(slice: impl Into<Holdings<'a>>) -> Option<Json> {
    let slice = slice.into();
    slice.is_a_part().then(|| {
        object! {
            subset: patterns(slice.subset),
            slice.{metadata_only, boundary, dropped},
            expired?: (slice.expired > 0).then_some(slice.expired),
        }
    })
}

/// What a repository holds, this one or another, as far as it is told of. Purged content does not count:
/// no repository is to have it, so one without it is complete.
pub struct Holdings<'a> {
    subset: &'a Subset,
    metadata_only: bool,
    boundary: usize,
    dropped: usize,
    expired: usize,
}

impl Holdings<'_> {
    fn is_a_part(&self) -> bool {
        let is_all = self.subset.is_everything() && !self.metadata_only;
        !is_all || self.boundary + self.dropped + self.expired > 0
    }
}

impl<'a> From<&'a RepoSlice> for Holdings<'a> {
    fn from(slice: &'a RepoSlice) -> Holdings<'a> {
        Holdings {
            subset: &slice.subset,
            metadata_only: slice.metadata_only,
            boundary: slice.boundary.len(),
            dropped: slice.dropped.len(),
            expired: slice.expired.len(),
        }
    }
}

impl<'a> From<&'a PeerSlice> for Holdings<'a> {
    fn from(slice: &'a PeerSlice) -> Holdings<'a> {
        Holdings {
            subset: &slice.subset,
            metadata_only: slice.metadata_only,
            boundary: slice.boundary as usize,
            dropped: slice.dropped as usize,
            // Another repository counts all of them together.
            expired: 0,
        }
    }
}

/// The options of a clone that asks for no more than another repository holds, as they are typed.
pub fn options_for(slice: &PeerSlice) -> Hint {
    let depth = (slice.boundary > 0).then(|| hint!(" --depth 1"));
    Hint::join(
        depth
            .into_iter()
            .chain([part_options(&slice.subset, slice.metadata_only)]),
        "",
    )
}

/// The options that ask for no more history than `history`, as they are typed; `None` if it has no
/// limit.
fn limit_words(history: History) -> Option<Hint> {
    match history {
        History::Depth(depth) => Some(hint!("--depth {}", u64::from(depth))),
        History::Since(since) => Some(hint!("--since {}", Argument::value(rfc3339(since, 0, 0)))),
        History::New | History::All => None,
    }
}

/// Says that the history of `tips` is longer than a fetch with this limit would have brought, because
/// a fetch removes no commits; and how to get less of it.
pub fn tell_longer(
    context: &Context,
    repo: &Repo,
    (history, tips): (History, Vec<ObjectId>),
    url: &Url,
) {
    let slice = told_slice(context, repo);
    let Some(limit) = limit_words(history) else {
        return;
    };
    let stays = match repo.stored_history(&slice, tips) {
        Some(StoredHistory {
            commits,
            depth,
            oldest_inner,
        }) => {
            let is_longer = match history {
                History::Depth(most) => depth > most,
                History::Since(since) => oldest_inner.is_some_and(|oldest| oldest < since),
                History::New | History::All => false,
            };
            if !is_longer {
                return;
            }
            format!("history stays at {}", count(commits, "commit", "commits"))
        }
        None => "history stays as long as it is".to_owned(),
    };
    let less = hint!(
        "dmv clone {} DIR {}{}",
        Argument::on_disk(url.to_string()),
        limit,
        part_options(&slice.subset, slice.metadata_only)
    );
    context.ui.note(format_args!(
        "note: {stays}: --depth and --since remove no commits; to have less, make a new clone: {less}"
    ));
}

/// The repository's slice for a command that only tells of it: of its boundary what the history of
/// some branch, tag or worktree ends at. Damage is said and no failure.
pub fn told_slice(context: &Context, repo: &Repo) -> RepoSlice {
    let told = || -> Result<RepoSlice, RepoError> {
        let mut slice = repo.slice()?;
        if !slice.boundary.is_empty() {
            slice.boundary = repo.ends_of_history(&slice, repo.complete_commits()?);
        }
        Ok(slice)
    };
    told().unwrap_or_else(|e| {
        context.ui.warn(format_args!("{e}"));
        RepoSlice::default()
    })
}

/// The paths that a listing of all of `commit` is limited to in a partial repository, which is said:
/// those of its slice, and those of its worktrees of which nothing that `of` tells is lacking.
pub fn held_paths(
    context: &Context,
    repo: &Repo,
    commit: &Commit,
    of: LackOf,
) -> Result<Union, Failure> {
    let slice = told_slice(context, repo).subset;
    if slice.is_everything() {
        return Ok(Union::default());
    }
    let root = Location::Root {
        tree: commit.tree,
        bytes: commit.tree_bytes,
        files: commit.tree_files,
    };
    let worktrees = repo.checked_out_here(&root, of)?;
    let held = Union::of([slice].into_iter().chain(worktrees));
    if !held.is_everything() {
        let parts: Vec<String> = held.parts().iter().map(brief).collect();
        let parts = parts.join("; and in a worktree ");
        let text = format_args!("note: only the paths that this repository stores: {parts}");
        context.ui.note(text);
    }
    Ok(held)
}

/// What a partial repository holds, in words; `None` of a full one.
pub fn words<'a>(slice: impl Into<Holdings<'a>>) -> Option<String> {
    let slice = slice.into();
    let mut parts = Vec::new();
    if !slice.subset.is_everything() {
        parts.push(format!("only {}", brief(slice.subset)));
    }
    if slice.metadata_only {
        parts.push("no file content".to_owned());
    }
    if slice.boundary > 0 {
        let n = slice.boundary as u64;
        let ends = count(n, "commit", "commits");
        parts.push(format!("history without the parents of {ends}"));
    }
    if slice.dropped > 0 {
        let n = slice.dropped as u64;
        parts.push(count(n, "file dropped", "files dropped"));
    }
    if slice.expired > 0 {
        let n = slice.expired as u64;
        parts.push(count(n, "version expired", "versions expired"));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Why and when content has expired, in words.
pub fn expiry_words(expiry: &Expiry) -> String {
    let (rule, pattern) = (clean(&expiry.rule), clean(&expiry.pattern));
    format!("expired {} by keep={rule} ({pattern})", day(expiry.at))
}

/// When and why content was purged, in words.
pub fn purge_words(purge: &Purge) -> String {
    format!("purged on {}: {}", day(purge.at), clean(&purge.reason))
}

impl ToJson for Purge {
    fn to_json(&self) -> Json {
        object! { time: rfc3339(self.at, 0, 0), self.{by, reason} }
    }
}

impl ToJson for Expiry {
    fn to_json(&self) -> Json {
        object! { time: rfc3339(self.at, 0, 0), self.{rule, pattern} }
    }
}

/// How many versions were given up, by the reason.
#[derive(Default)]
pub struct GivenUpCounts {
    expired: BTreeMap<Expiry, u64>,
    purged: BTreeMap<Purge, u64>,
}

impl GivenUpCounts {
    /// Counts what has expired, and what was purged here or at a remote.
    pub fn of(slice: &RepoSlice) -> GivenUpCounts {
        let mut counts = GivenUpCounts::default();
        for why in slice.expired.values() {
            *counts.expired.entry(Expiry::clone(why)).or_default() += 1;
        }
        let here = slice.purged.values().map(Arc::as_ref);
        for why in here.chain(slice.told.values().map(|told| &told.purge)) {
            *counts.purged.entry(why.clone()).or_default() += 1;
        }
        counts
    }

    /// One line for each reason, those that have expired first.
    pub fn lines(&self) -> Vec<String> {
        let versions = |n: &u64| count(*n, "version", "versions");
        let expired = self.expired.iter();
        let expired = expired.map(|(why, n)| format!("{} {}", versions(n), expiry_words(why)));
        let purged = self.purged.iter();
        let purged = purged.map(|(why, n)| format!("{} {}", versions(n), purge_words(why)));
        expired.chain(purged).collect()
    }

    /// Those that have expired, in JSON.
    pub fn expired_values(&self) -> Vec<Json> {
        values(&self.expired)
    }

    /// Those that were purged, in JSON.
    pub fn purged_values(&self) -> Vec<Json> {
        values(&self.purged)
    }
}

/// Reasons with the numbers of their versions, in JSON.
fn values<T: ToJson>(counts: &BTreeMap<T, u64>) -> Vec<Json> {
    let value = |(why, versions): (&T, &u64)| object! { ..why.to_json(), versions: versions };
    counts.iter().map(value).collect()
}

/// A few patterns of a subset, and how many more there are.
pub fn brief(subset: &Subset) -> String {
    let patterns = patterns(subset);
    let shown = patterns[..patterns.len().min(PATTERNS_SHOWN)].join(" ");
    match patterns.len().saturating_sub(PATTERNS_SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more (dmv subset)"),
    }
}

/// Returns whether content of a file is not stored here. Damage is for `verify` to tell.
pub fn lacks(repo: &Repo, entry: &TreeEntry) -> bool {
    entry.kind.is_blob() && !repo.has_root(Root::of(entry)).unwrap_or(true)
}
