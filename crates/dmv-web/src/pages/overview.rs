//! The first page: the worktree with forms to commit and undo, branches, remotes, space.

use super::layout::{self, Part};
use super::parts::{commit_line, commit_value, path_value, secret, time};
use super::places::link_id;
use crate::address::{compare_link, link};
use crate::answer::Answer;
use crate::program::Stop;
use crate::site::Ask;
use crate::words::{SHORT_ID, bytes, clean, count, day, number, shown};
use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::commit::Commit;
use dmv_core::refs::Operation;
use dmv_core::repo::{Head, PathChange, RefInfo, RefKind, StatusOptions, StatusReport, StoreStats};
use dmv_core::worktree::select::Paths;
use maud::{Markup, html};
use serde_json::{Value, json};
use std::ops::ControlFlow;

/// Changed files that are listed.
const MAX_CHANGES: usize = 200;
/// Branches that are listed.
const MAX_BRANCHES: usize = 60;
/// Operations that are looked at for the last contact with a remote.
const MAX_OPERATIONS: usize = 400;

/// Shows the overview.
pub fn show(ask: &Ask<'_>) -> Result<Answer, Stop> {
    let overview = Overview::read(ask)?;
    let title = "Overview";
    Ok(layout::answer(
        ask,
        Part::Overview,
        title,
        || overview.values(),
        || overview.page(ask),
    ))
}

struct Overview {
    head: Head,
    status: Option<StatusReport>,
    newest: Option<(ObjectId, Commit)>,
    branches: Vec<(RefInfo, Option<Commit>)>,
    tags: usize,
    remotes: Vec<RemoteSeen>,
    stats: StoreStats,
    /// The command that an undo would take back.
    last: Option<Operation>,
}

/// A remote, as last seen.
struct RemoteSeen {
    name: String,
    url: String,
    branches: Vec<Standing>,
    /// When it was last heard of, in seconds since 1970.
    since: Option<i64>,
}

/// How a branch here stands to the same branch there.
struct Standing {
    name: String,
    id: ObjectId,
    /// Commits that only this repository has, and that only the remote had.
    apart: Option<(usize, usize)>,
}

impl Overview {
    fn read(ask: &Ask<'_>) -> Result<Overview, Stop> {
        let repo = &*ask.repo;
        let commit_of = |id: Option<ObjectId>| id.and_then(|id| repo.read_commit(&id).ok());
        let branches = repo.list_refs(RefKind::Branch)?.into_iter();
        let branches: Vec<_> = branches
            .map(|info| (info.clone(), commit_of(info.commit)))
            .collect();
        let status = match repo.worktree_root() {
            Some(_) => {
                let options = StatusOptions {
                    select: &Paths::default(),
                    settings: ask.site.program.settings().map_err(Stop::Told)?,
                };
                Some(repo.status(&options, &Job::default())?)
            }
            None => None,
        };
        let (last, contacts) = operations(ask)?;
        let newest = repo.head_commit()?;
        Ok(Overview {
            head: repo.head()?,
            status,
            newest: newest.and_then(|id| Some((id, repo.read_commit(&id).ok()?))),
            remotes: remotes(ask, &branches, &contacts)?,
            branches,
            tags: repo.list_refs(RefKind::Tag)?.len(),
            stats: repo.store_stats()?,
            last,
        })
    }

    fn values(&self) -> Value {
        let branches = self.branches.iter().map(|(info, commit)| {
            let commit = info.commit.zip(commit.as_ref());
            json!({
                "name": info.name,
                "current": info.current,
                "commit": commit.map(|(id, commit)| commit_value(&id, commit)),
            })
        });
        let remotes = self.remotes.iter().map(|remote| {
            let branches = remote.branches.iter().map(|b| {
                json!({
                    "name": b.name, "commit": b.id.to_string(),
                    "ahead": b.apart.map(|a| a.0), "behind": b.apart.map(|a| a.1),
                })
            });
            let branches: Vec<Value> = branches.collect();
            json!({
                "name": remote.name, "url": remote.url, "branches": branches,
                "as_of": remote.since,
            })
        });
        let (branches, remotes): (Vec<Value>, Vec<Value>) = (branches.collect(), remotes.collect());
        json!({
            "branch": self.head.branch(),
            "commit": self.newest.as_ref().map(|(id, _)| id.to_string()),
            "status": self.status.as_ref().map(status_value),
            "branches": branches,
            "tags": self.tags,
            "remotes": remotes,
            "space": {
                "disk_bytes": self.stats.disk_bytes,
                "disk_files": self.stats.disk_files,
                "head_bytes": self.stats.head_bytes,
                "head_files": self.stats.head_files,
                "commits": self.stats.commits,
            },
            "undo": self.last.as_ref().map(|op| op.command.clone()),
        })
    }

    fn page(&self, ask: &Ask<'_>) -> Markup {
        html! {
            h1 { (layout::name_of(ask)) }
            @if let Some((id, commit)) = &self.newest {
                p.incommit { "Newest: " a href=(link("tree", &link_id(id), b"")) { (commit_line(id, commit)) } }
            }
            div.cards {
                @if let Some(status) = &self.status { (self.worktree(ask, status)) }
                (self.branch_card())
                (self.remote_card())
                (self.space_card())
            }
        }
    }

    fn worktree(&self, ask: &Ask<'_>, status: &StatusReport) -> Markup {
        let open = status.conflicts.len() as u64;
        let changes = status.changes.len() as u64;
        html! {
            section.card.wide aria-labelledby="work" {
                h2 #work { "Your files" }
                @if let Some(cut) = &status.unfinished {
                    p.note.bad { "A checkout was interrupted. To continue: " code { (clean(&cut.command)) } }
                }
                @if status.moved.is_some() {
                    p.note { "Another command moved this branch; your files come from an older commit." }
                }
                @if open > 0 {
                    p.note.bad {
                        (count(open, "file is", "files are")) " in conflict. "
                        a href="/conflicts" { "Resolve" }
                    }
                }
                @if changes == 0 && open == 0 {
                    p.empty { "Nothing has changed since the newest commit." }
                } @else if changes > 0 {
                    p { (count(changes, "file has", "files have")) " changed since the newest commit." }
                    (self.change_list(status))
                }
                @if !ask.site.read_only { (self.forms(ask, changes > 0)) }
            }
        }
    }

    fn change_list(&self, status: &StatusReport) -> Markup {
        let id = status.commit.map(|id| link_id(&id));
        let more = status.changes.len().saturating_sub(MAX_CHANGES) as u64;
        html! {
            ul.changes {
                @for change in status.changes.iter().take(MAX_CHANGES) {
                    li {
                        span.tag.(change.kind.word()) { (change.kind.word()) }
                        @match (&id, change.kind) {
                            (Some(id), kind) if kind != dmv_core::repo::ChangeKind::Added => {
                                a href=(link("file", id, &change.path)) { (shown(&change.path)) }
                            }
                            _ => { span { (shown(&change.path)) } }
                        }
                    }
                }
                @if more > 0 { li.quiet { "and " (number(more)) " more" } }
            }
        }
    }

    fn forms(&self, ask: &Ask<'_>, has_changes: bool) -> Markup {
        html! {
            @if has_changes {
                form.commit method="post" action="/commit" {
                    (secret(ask.site, "/"))
                    label for="message" { "What did you change?" }
                    textarea #message name="message" rows="2" required maxlength="20000" {}
                    button.primary type="submit" { "Commit" }
                }
            }
            @if let Some(op) = &self.last {
                form.undo method="post" action="/undo" {
                    (secret(ask.site, "/"))
                    button type="submit" { "Undo" }
                    span.quiet { " the last change: " code { (clean(&op.command)) } }
                }
            }
        }
    }

    fn branch_card(&self) -> Markup {
        let more = self.branches.len().saturating_sub(MAX_BRANCHES) as u64;
        html! {
            section.card aria-labelledby="branches" {
                h2 #branches { "Branches" }
                ul.rows {
                    @for (info, commit) in self.branches.iter().take(MAX_BRANCHES) {
                        li {
                            @match (&info.commit, commit) {
                                (Some(id), Some(commit)) => {
                                    a.name href={ "/log?rev=" (link_id(id)) } { (clean(&info.name)) }
                                    @if info.current { span.tag { "you are here" } }
                                    p.quiet { (time(&commit.committer)) " by " (shown(commit.author.name.as_bytes())) }
                                }
                                _ => { span.name { (clean(&info.name)) } p.quiet { "no commits yet" } }
                            }
                        }
                    }
                    @if more > 0 { li.quiet { "and " (number(more)) " more" } }
                }
                @if self.tags > 0 { p.quiet { (count(self.tags as u64, "tag", "tags")) } }
            }
        }
    }

    fn remote_card(&self) -> Markup {
        html! {
            section.card aria-labelledby="remotes" {
                h2 #remotes { "Remotes" }
                @if self.remotes.is_empty() {
                    p.empty { "There is no copy elsewhere that dmv knows. To add one: " code { "dmv remote add NAME URL" } }
                }
                ul.rows {
                    @for remote in &self.remotes {
                        li {
                            strong { (clean(&remote.name)) }
                            p.quiet { (clean(&remote.url)) }
                            @match remote.since {
                                Some(since) => { p.quiet { "as of " (day(since)) } }
                                None => { p.quiet { "not asked yet" } }
                            }
                            @for b in &remote.branches { (standing(b)) }
                        }
                    }
                }
            }
        }
    }

    fn space_card(&self) -> Markup {
        html! {
            section.card aria-labelledby="space" {
                h2 #space { "Space" }
                dl.facts {
                    dt { "Newest commit" }
                    dd { (bytes(self.stats.head_bytes)) " in " (count(self.stats.head_files, "file", "files")) }
                    dt { "Repository on disk" } dd { (bytes(self.stats.disk_bytes)) }
                    dt { "Commits" } dd { (number(self.stats.commits)) }
                }
            }
        }
    }
}

fn standing(b: &Standing) -> Markup {
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

fn status_value(status: &StatusReport) -> Value {
    let change = |change: &PathChange| {
        let mut out = path_value(&change.path);
        out.insert("change".to_owned(), json!(change.kind.word()));
        Value::Object(out)
    };
    let changes: Vec<Value> = status.changes.iter().map(change).collect();
    let paths = |paths: &[Vec<u8>]| -> Vec<Value> {
        paths
            .iter()
            .map(|path| Value::Object(path_value(path)))
            .collect()
    };
    json!({
        "changes": changes,
        "conflicts": paths(&status.conflicts),
        "settled": paths(&status.settled),
        "moved": status.moved.is_some(),
        "unfinished": status.unfinished.is_some(),
    })
}

/// The name of a remote, and when it was last heard of, in seconds since 1970.
type Contact = (String, i64);

/// The operation that an undo takes back, and when each remote was last heard of.
fn operations(ask: &Ask<'_>) -> Result<(Option<Operation>, Vec<Contact>), Stop> {
    let (mut last, mut contacts, mut n) = (None, Vec::new(), 0);
    ask.repo.each_operation(&mut |op, is_undone| {
        n += 1;
        let only_remotes = op
            .changes
            .iter()
            .all(|change| change.key.starts_with("remote/"));
        if last.is_none() && !is_undone && op.undoes == 0 && !only_remotes {
            last = Some(op.clone());
        }
        for change in &op.changes {
            if let Some((name, _)) = change
                .key
                .strip_prefix("remote/")
                .and_then(|k| k.split_once('/'))
                && !contacts.iter().any(|(known, _): &Contact| known == name)
            {
                contacts.push((name.to_owned(), op.time.seconds));
            }
        }
        Ok(match n < MAX_OPERATIONS {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        })
    })?;
    Ok((last, contacts))
}

fn remotes(
    ask: &Ask<'_>,
    branches: &[(RefInfo, Option<Commit>)],
    contacts: &[Contact],
) -> Result<Vec<RemoteSeen>, Stop> {
    let mut out = Vec::new();
    for (name, url) in ask.site.program.remotes().map_err(Stop::Told)? {
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
            seen.push(Standing {
                name: branch,
                id,
                apart,
            });
        }
        let since = contacts
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, at)| *at);
        out.push(RemoteSeen {
            name,
            url,
            branches: seen,
            since,
        });
    }
    Ok(out)
}
