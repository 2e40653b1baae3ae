//! Who has what: this repository and each remote as it was last seen, by branches and by files. Nothing
//! here asks a remote, and the page says what is not known.

use super::layout::{self, Part};
use super::parts::path_value;
use super::places::{CommitPath, link_id};
use super::remotes::{LastSeenRemote, remotes, standing};
use crate::address::link;
use crate::answer::Answer;
use crate::program::Stop;
use crate::site::Ask;
use crate::words::{bytes, clean, count, shown};
use dmv_core::diff::diff_trees;
use dmv_core::hash::ObjectId;
use dmv_core::object::ObjectError;
use dmv_core::object::commit::Commit;
use dmv_core::object::name::RepoPath;
use dmv_core::object::tree::{Kind, TreeEntry};
use dmv_core::repo::{Location, RefInfo, RefKind, Repo};
use maud::{Markup, html};
use serde_json::{Value, json};
use std::ops::ControlFlow;

/// Files that are named for each remote.
const MAX_FILES: usize = 40;
/// Differences that are looked at for each remote.
const MAX_LOOKED_AT: usize = 20_000;

/// Shows who has what.
pub fn show(ask: &Ask<'_>) -> Result<Answer, Stop> {
    let copies = Copies::read(ask)?;
    Ok(layout::answer(
        ask,
        Part::Copies,
        "Copies",
        || copies.values(),
        || copies.page(),
    ))
}

struct Copies {
    newest: Option<(ObjectId, Commit)>,
    /// What is left out here, in words.
    partial: Option<String>,
    remotes: Vec<(LastSeenRemote, Option<OnlyHere>)>,
}

/// Files of the newest commit whose content no branch of a remote had at the same path.
#[derive(Default)]
struct OnlyHere {
    /// The first of them, with their bytes; a conflict has none.
    files: Vec<(RepoPath, Option<u64>)>,
    count: u64,
    bytes: u64,
    /// Whether there may be more.
    is_cut: bool,
}

impl Copies {
    fn read(ask: &Ask<'_>) -> Result<Copies, Stop> {
        let repo = &*ask.repo;
        let newest = match repo.head_commit()? {
            Some(id) => Some((id, repo.read_commit(&id)?)),
            None => None,
        };
        let mut seen = Vec::new();
        for remote in remotes(ask, &branches(repo)?)? {
            let only_here = match &newest {
                Some((_, commit)) if !remote.branches.is_empty() => {
                    only_here(repo, commit, &remote)?
                }
                _ => None,
            };
            seen.push((remote, only_here));
        }
        Ok(Copies {
            newest,
            partial: ask.site.program.partial(repo),
            remotes: seen,
        })
    }

    fn values(&self) -> Value {
        let remotes = self.remotes.iter().map(|(remote, only_here)| {
            let mut out = remote.values();
            out["only_here"] = json!(only_here.as_ref().map(|only| {
                let files = only.files.iter().map(|(path, size)| {
                    let mut out = path_value(path.as_bytes());
                    out.insert("size".to_owned(), json!(size));
                    Value::Object(out)
                });
                let files: Vec<Value> = files.collect();
                json!({
                    "files": only.count, "bytes": only.bytes,
                    "complete": !only.is_cut, "first": files,
                })
            }));
            out
        });
        let remotes: Vec<Value> = remotes.collect();
        json!({
            "commit": self.newest.as_ref().map(|(id, _)| id.to_string()),
            "partial": self.partial,
            "remotes": remotes,
        })
    }

    fn page(&self) -> Markup {
        html! {
            h1 { "Copies" }
            p.incommit { "Who has the files of the newest commit, as far as this repository knows." }
            div.copies {
                section.card aria-labelledby="here" {
                    h2 #here { "This repository" }
                    @match (&self.newest, &self.partial) {
                        (None, _) => { p.empty { "There are no commits yet." } }
                        (Some((_, commit)), None) => {
                            p { span.tag.ok { "complete" } }
                            p { (count(commit.tree_files, "file", "files")) ", " (bytes(commit.tree_bytes)) ", with their history." }
                        }
                        (Some(_), Some(words)) => {
                            p { span.tag.modified { "partial" } }
                            p { (clean(words)) }
                            p.quiet { "The page of each file and directory says whether its content is here." }
                        }
                    }
                }
                @for (n, (remote, only_here)) in self.remotes.iter().enumerate() {
                    (self.remote(n, remote, only_here.as_ref()))
                }
            }
            @if self.remotes.is_empty() {
                p.empty { "There is no copy elsewhere that dmv knows. To add one: " code { "dmv remote add NAME URL" } }
            } @else {
                (unknown())
            }
        }
    }

    fn remote(&self, n: usize, remote: &LastSeenRemote, only_here: Option<&OnlyHere>) -> Markup {
        let title = format!("remote-{n}");
        let id = self.newest.as_ref().map(|(id, _)| link_id(id));
        html! {
            section.card aria-labelledby=(title) {
                h2 id=(title) { (clean(&remote.name)) }
                p.quiet { (clean(&remote.url)) }
                p.quiet { (remote.as_of()) }
                @for b in &remote.branches { (standing(b)) }
                @match only_here {
                    None => { p.empty { "Which files it has is not known." } }
                    Some(only) if only.count == 0 => {
                        p { span.tag.ok { "all files" } " of the newest commit were there." }
                    }
                    Some(only) => {
                        p {
                            strong {
                                @if only.is_cut { "More than " }
                                (count(only.count, "file", "files"))
                            }
                            " of the newest commit" @if only.bytes > 0 { " (" (bytes(only.bytes)) ")" } " had not been pushed there:"
                        }
                        ul.plain {
                            @for (path, size) in &only.files {
                                li {
                                    @if let Some(id) = &id { a href=(link("file", id, path.as_bytes())) { (shown(path.as_bytes())) } }
                                    " " span.quiet { @match size { Some(size) => { (bytes(*size)) } None => { "in conflict" } } }
                                }
                            }
                            @if only.count > only.files.len() as u64 { li.quiet { "and others" } }
                        }
                    }
                }
            }
        }
    }
}

/// What nobody here can know.
fn unknown() -> Markup {
    html! {
        section.card aria-labelledby="unknown" {
            h2 #unknown { "Not known here" }
            ul.plain {
                li { "What has changed at a remote since the day that is named. " code { "dmv fetch NAME" } " asks it again." }
                li { "Whether a remote is partial. It has the names of all files of its commits; it may have dropped the content of some." }
                li { "Copies that nobody has added as a remote, such as clones that others have made." }
            }
            p { "Before " code { "dmv drop" } " frees anything here, it asks a remote whether it has the content." }
        }
    }
}

/// The branches here, for comparing.
fn branches(repo: &Repo) -> Result<Vec<(RefInfo, Option<Commit>)>, Stop> {
    let all = repo.list_refs(RefKind::Branch)?.into_iter();
    Ok(all.map(|info| (info, None)).collect())
}

/// The files that differ from the nearest branch of a remote. `None` if its trees are not stored here.
fn only_here(
    repo: &Repo,
    ours: &Commit,
    remote: &LastSeenRemote,
) -> Result<Option<OnlyHere>, Stop> {
    let mut best: Option<OnlyHere> = None;
    for branch in &remote.branches {
        let Ok(theirs) = repo.read_commit(&branch.id) else {
            continue;
        };
        let found = match against(repo, theirs.tree, ours.tree) {
            Ok(found) => found,
            Err(ObjectError::Missing { .. }) => continue,
            Err(e) => return Err(e.into()),
        };
        if best.as_ref().is_none_or(|best| found.count < best.count) {
            best = Some(found);
        }
    }
    Ok(best)
}

fn against(repo: &Repo, theirs: ObjectId, ours: ObjectId) -> Result<OnlyHere, ObjectError> {
    let (mut found, mut looked_at) = (OnlyHere::default(), 0);
    let mut keep = |path: &RepoPath, _old: Option<&TreeEntry>, new: Option<&TreeEntry>| {
        looked_at += 1;
        if looked_at > MAX_LOOKED_AT {
            found.is_cut = true;
            return Ok::<_, ObjectError>(ControlFlow::Break(()));
        }
        if let Some(new) = new.filter(|new| new.kind != Kind::Directory) {
            found.count += 1;
            found.bytes += new.size;
            if found.files.len() < MAX_FILES {
                let size = (new.kind != Kind::Conflict).then_some(new.size);
                found.files.push((path.clone(), size));
            }
        }
        Ok(ControlFlow::Continue(()))
    };
    let _ = diff_trees(repo.objects(), Some(theirs), Some(ours), &mut keep)?;
    Ok(found)
}

/// Where the content of one file is, as far as this repository knows.
pub fn of_file(ask: &Ask<'_>, place: &CommitPath, is_here: bool) -> Markup {
    let seen = remotes(ask, &[]).unwrap_or_default();
    let Some(entry) = place.entry() else {
        return html! {};
    };
    let has = |remote: &LastSeenRemote| {
        let had = remote.branches.iter().find(|branch| {
            let commit = ask.repo.read_commit(&branch.id);
            let there = commit.and_then(|commit| ask.repo.locate("", &commit, &place.path));
            matches!(there, Ok(Location::Entry(there)) if there.id == entry.id)
        });
        had.map(|branch| branch.name.clone())
    };
    html! {
        dt { "Copies" }
        dd {
            @if is_here { "here" } @else { "not here, or not all of it" }
            @for remote in &seen {
                br;
                @match has(remote) {
                    Some(branch) => { (clean(&remote.name)) ": in its branch " (clean(&branch)) ", " (remote.as_of()) }
                    None => { (clean(&remote.name)) ": not in the newest commits of its branches, " (remote.as_of()) }
                }
            }
            @if !seen.is_empty() { br; a href="/copies" { "Who has what" } }
        }
    }
}
