//! The first page: the worktree with forms to commit and undo, branches, remotes, space.

use super::layout::{self, Part};
use super::parts::{commit_line, commit_value, time};
use super::places::link_id;
use super::remotes::{LastSeenRemote, branch_lines, remotes};
use super::undo::LastChange;
use super::worktree::Files;
use crate::address::link;
use crate::answer::Answer;
use crate::program::Stop;
use crate::site::Ask;
use crate::words::{bytes, clean, count, number, shown};
use dmv_core::hash::ObjectId;
use dmv_core::object::commit::Commit;
use dmv_core::repo::{Head, RefInfo, RefKind, StoreStats};
use maud::{Markup, html};
use serde_json::{Value, json};

/// Branches that are listed.
const MAX_BRANCHES: usize = 60;

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
    files: Files,
    last: LastChange,
    newest: Option<(ObjectId, Commit)>,
    branches: Vec<(RefInfo, Option<Commit>)>,
    tags: usize,
    remotes: Vec<LastSeenRemote>,
    stats: StoreStats,
}

impl Overview {
    fn read(ask: &Ask<'_>) -> Result<Overview, Stop> {
        // It looks while the rest is read.
        let files = Files::begin(ask)?;
        let repo = &*ask.repo;
        let commit_of = |id: Option<ObjectId>| id.and_then(|id| repo.read_commit(&id).ok());
        let branches = repo.list_refs(RefKind::Branch)?.into_iter();
        let branches: Vec<_> = branches
            .map(|info| (info.clone(), commit_of(info.commit)))
            .collect();
        let newest = repo.head_commit()?;
        Ok(Overview {
            head: repo.head()?,
            newest: newest.and_then(|id| Some((id, repo.read_commit(&id).ok()?))),
            remotes: remotes(ask, &branches)?,
            branches,
            tags: repo.list_refs(RefKind::Tag)?.len(),
            stats: repo.store_stats()?,
            last: LastChange::read(ask)?,
            files: files.finish(ask)?,
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
        let branches: Vec<Value> = branches.collect();
        let remotes: Vec<Value> = self.remotes.iter().map(LastSeenRemote::values).collect();
        json!({
            "branch": self.head.branch(),
            "commit": self.newest.as_ref().map(|(id, _)| id.to_string()),
            "status": self.files.values(),
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
            "undo": self.last.values(),
        })
    }

    fn page(&self, ask: &Ask<'_>) -> Markup {
        html! {
            h1 { (layout::name_of(ask)) }
            @if let Some((id, commit)) = &self.newest {
                p.incommit { "Newest: " a href=(link("tree", &link_id(id), b"")) { (commit_line(id, commit)) } }
            }
            div.cards {
                (self.files.section(ask))
                (self.last.card(ask))
                (self.branch_card())
                (self.remote_card(ask))
                (self.space_card())
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

    fn remote_card(&self, ask: &Ask<'_>) -> Markup {
        html! {
            section.card aria-labelledby="remotes" {
                h2 #remotes { "Remotes" }
                @if self.remotes.is_empty() {
                    p.empty { "There is no copy elsewhere that dmv knows. To add one: " code { "dmv remote add NAME URL" } }
                }
                @if !self.remotes.is_empty() {
                    p { a href="/copies" { "Who has what" } }
                }
                ul.rows {
                    @for remote in &self.remotes {
                        li {
                            strong { (clean(&remote.name)) }
                            p.quiet { (clean(&remote.url)) }
                            p.quiet { (remote.as_of()) }
                            (branch_lines(ask, remote, "/"))
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
