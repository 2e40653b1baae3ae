//! Remotes as they were last seen: their branches beside those here, and when that was. Nothing here
//! asks a remote: buttons do.

use super::parts::secret;
use super::places::link_id;
use crate::address::{Place, compare_link};
use crate::program::Stop;
use crate::site::Ask;
use crate::words::{SHORT_ID, clean, day};
use dmv_core::hash::ObjectId;
use dmv_core::object::commit::Commit;
use dmv_core::repo::{Head, RefInfo};
use maud::{Markup, html};
use serde_json::{Value, json};

/// A remote, as last seen.
pub struct LastSeenRemote {
    /// Its name.
    pub name: String,
    /// Its address.
    pub url: String,
    /// Its branches.
    pub branches: Vec<BranchStanding>,
    /// The current branch, if it has commits and this remote is not known to have it.
    pub lacks: Option<String>,
    /// When it was last heard of, in seconds since 1970.
    since: Option<i64>,
}

/// How a branch here stands to the same branch there.
pub struct BranchStanding {
    /// The branch.
    pub name: String,
    /// Its commit there.
    pub id: ObjectId,
    /// Commits that only this repository has, and that only the remote had. `None` if there is no such
    /// branch here, or history between them is not stored.
    pub apart: Option<(usize, usize)>,
}

impl LastSeenRemote {
    /// When it was last heard of, in words.
    pub fn as_of(&self) -> String {
        match self.since {
            Some(since) => format!("as of {}", day(since)),
            None => "not asked yet".to_owned(),
        }
    }

    /// Whether it had all commits of the branches that are here and there, and of the current branch.
    pub fn has_all_commits(&self) -> bool {
        let is_ahead = |b: &BranchStanding| b.apart.is_some_and(|(ahead, _)| ahead > 0);
        self.lacks.is_none() && !self.branches.iter().any(is_ahead)
    }

    /// Its values.
    pub fn values(&self) -> Value {
        let branches = self.branches.iter().map(|b| {
            json!({
                "name": b.name, "commit": b.id.to_string(),
                "ahead": b.apart.map(|a| a.0), "behind": b.apart.map(|a| a.1),
            })
        });
        let branches: Vec<Value> = branches.collect();
        json!({
            "name": self.name, "url": self.url, "branches": branches,
            "as_of": self.since,
        })
    }
}

/// The branches of a remote, with buttons that send commits there and get commits from there; they lead back to `back`.
pub fn branch_lines(ask: &Ask<'_>, remote: &LastSeenRemote, back: &str) -> Markup {
    let head = ask.repo.head().ok();
    let current = head.as_ref().and_then(Head::branch);
    let may_change = !ask.site.read_only;
    let may_get = may_change && ask.repo.worktree_root().is_some();
    let button = |verb: &str, branch: &str, text: &str| {
        html! {
            form method="post" action={ "/" (verb) } {
                (secret(ask.site, back))
                input type="hidden" name="remote" value=(remote.name);
                input type="hidden" name="branch" value=(branch);
                button.slim type="submit" aria-label={ (text) " " (clean(branch)) ": " (clean(&remote.name)) } { (text) }
            }
        }
    };
    html! {
        @for b in &remote.branches {
            @let (ahead, behind) = b.apart.unwrap_or_default();
            div.branch {
                (standing(b))
                @if may_get && behind > 0 && current == Some(&b.name) { (button("pull", &b.name, "Get")) }
                @else if may_change && ahead > 0 && behind == 0 { (button("push", &b.name, "Send")) }
            }
        }
        @if let Some(branch) = &remote.lacks {
            div.branch {
                p { span { (clean(branch)) } " " span.tag { "not there yet" } }
                @if may_change { (button("push", branch, "Send")) }
            }
        }
        @if may_change {
            form.news method="post" action="/fetch" {
                (secret(ask.site, back))
                input type="hidden" name="remote" value=(remote.name);
                button.slim type="submit" aria-label={ "Look for news at " (clean(&remote.name)) } { "Look for news" }
            }
        }
    }
}

/// A branch of a remote in a line.
fn standing(b: &BranchStanding) -> Markup {
    html! {
        p {
            span { (clean(&b.name)) } " "
            @match b.apart {
                Some((0, 0)) => { span.tag.ok { "the same" } }
                Some((ahead, 0)) => { span.tag.modified { (ahead) " to push" } }
                Some((0, behind)) => { span.tag.modified { (behind) " to pull" } }
                Some((ahead, behind)) => { span.tag.modified { (ahead) " to push, " (behind) " to pull" } }
                None => { span.quiet { "at " (b.id.short(SHORT_ID)) } }
            }
            @if let Some((_, behind)) = b.apart && behind > 0 {
                " " a href=(compare_link(Place("@", b""), Place(&link_id(&b.id), b""))) { "what is new" }
            }
        }
    }
}

/// All remotes, beside the branches here.
pub fn remotes(
    ask: &Ask<'_>,
    branches: &[(RefInfo, Option<Commit>)],
) -> Result<Vec<LastSeenRemote>, Stop> {
    let known = ask.site.program.remotes().map_err(Stop::Told)?;
    if known.is_empty() {
        return Ok(Vec::new());
    }
    let contacts = ask.repo.last_contacts()?;
    let mut out = Vec::new();
    for (name, url) in known {
        let prefix = format!("remote/{name}/");
        let mut seen = Vec::new();
        for (key, _) in ask
            .repo
            .refs()
            .with_prefix(&prefix)
            .map_err(dmv_core::RepoError::from)?
        {
            let Some(id) = ask.repo.ref_at(&key)? else {
                continue;
            };
            let branch = key[prefix.len()..].to_owned();
            let ours = branches.iter().find(|(info, _)| info.name == branch);
            let apart = match ours.and_then(|(info, _)| info.commit) {
                Some(ours) if ours == id => Some((0, 0)),
                Some(ours) => ask.repo.distance(ours, id).ok(),
                None => None,
            };
            seen.push(BranchStanding {
                name: branch,
                id,
                apart,
            });
        }
        let since = contacts.get(&name).copied();
        let is_there = |name: &str| {
            seen.iter()
                .any(|branch: &BranchStanding| branch.name == name)
        };
        let current = branches.iter().map(|(info, _)| info);
        let mut current = current.filter(|info| info.current && info.commit.is_some());
        let lacks = current.find(|info| !is_there(&info.name));
        out.push(LastSeenRemote {
            lacks: lacks.map(|info| info.name.clone()),
            since,
            name,
            url,
            branches: seen,
        });
    }
    Ok(out)
}
