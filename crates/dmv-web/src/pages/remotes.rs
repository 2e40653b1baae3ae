//! Remotes as they were last seen: their branches beside those here, and when that was. Nothing here
//! asks a remote.

use super::places::link_id;
use crate::address::compare_link;
use crate::program::Stop;
use crate::site::Ask;
use crate::words::{SHORT_ID, clean, day};
use dmv_core::hash::ObjectId;
use dmv_core::object::commit::Commit;
use dmv_core::repo::RefInfo;
use maud::{Markup, html};
use serde_json::{Value, json};
use std::ops::ControlFlow;

/// Operations that are looked at for the last contact with a remote.
const MAX_OPERATIONS: usize = 400;

/// A remote, as last seen.
pub struct LastSeenRemote {
    /// Its name.
    pub name: String,
    /// Its address.
    pub url: String,
    /// Its branches.
    pub branches: Vec<BranchStanding>,
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

/// A branch of a remote in a line.
pub fn standing(b: &BranchStanding) -> Markup {
    html! {
        p {
            span { (clean(&b.name)) } " "
            @match b.apart {
                Some((0, 0)) => { span.tag.ok { "the same" } }
                Some((ahead, 0)) => { span.tag { (ahead) " to push" } }
                Some((0, behind)) => { span.tag { (behind) " to pull" } }
                Some((ahead, behind)) => { span.tag { (ahead) " to push, " (behind) " to pull" } }
                None => { span.quiet { "at " (b.id.short(SHORT_ID)) } }
            }
            @if let Some((_, behind)) = b.apart && behind > 0 {
                " " a href=(compare_link(("@", b""), (&link_id(&b.id), b""))) { "what is new" }
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
    let contacts = contacts(ask)?;
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
        let since = contacts.iter().find(|(known, _)| *known == name);
        out.push(LastSeenRemote {
            since: since.map(|(_, at)| *at),
            name,
            url,
            branches: seen,
        });
    }
    Ok(out)
}

/// The name of a remote, and when it was last heard of, in seconds since 1970.
type Contact = (String, i64);

/// When each remote was last heard of, as far as operations tell.
fn contacts(ask: &Ask<'_>) -> Result<Vec<Contact>, Stop> {
    let (mut contacts, mut n) = (Vec::new(), 0);
    ask.repo.each_operation(&mut |op, _| {
        n += 1;
        for change in &op.changes {
            let of_remote = change.key.strip_prefix("remote/");
            if let Some((name, _)) = of_remote.and_then(|key| key.split_once('/'))
                && !contacts.iter().any(|(known, _): &Contact| known == name)
            {
                contacts.push((name.to_owned(), op.time.seconds));
            }
        }
        Ok(if n < MAX_OPERATIONS {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        })
    })?;
    Ok(contacts)
}
