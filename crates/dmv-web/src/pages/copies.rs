//! Who has what: this repository and each remote as it was last seen, by branches and by files. Nothing
//! here asks a remote, and the page says what is not known.

use super::layout::{self, Part};
use super::parts::path_value;
use super::places::{CommitPath, link_id};
use super::remotes::{LastSeenRemote, branch_lines, remotes};
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
use dmv_core::object::tree::{Kind, TreeEntry, TreeIter};
use dmv_core::repo::{Location, RefInfo, RefKind, Repo};
use maud::{Markup, html};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Files that are named for each remote.
const MAX_FILES: usize = 40;
/// Differences that are looked at for each remote.
const MAX_LOOKED_AT: usize = 20_000;
/// Entries of a remote's trees among which content is looked for that has another name there.
const MAX_LISTED: usize = 200_000;

/// Shows who has what.
pub fn show(ask: &Ask<'_>) -> Result<Answer, Stop> {
    let copies = Copies::read(ask)?;
    Ok(layout::answer(
        ask,
        Part::Copies,
        "Copies",
        || copies.values(),
        || copies.page(ask),
    ))
}

struct Copies {
    newest: Option<(ObjectId, Commit)>,
    /// What is left out here, in words.
    partial: Option<String>,
    remotes: Vec<(LastSeenRemote, Option<OnlyHere>)>,
}

/// Files of the newest commit whose content no branch of a remote had.
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

    fn page(&self, ask: &Ask<'_>) -> Markup {
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
                    (self.remote(ask, n, remote, only_here.as_ref()))
                }
            }
            @if self.remotes.is_empty() {
                p.empty { "There is no copy elsewhere that dmv knows. To add one: " code { "dmv remote add NAME URL" } }
            } @else {
                (unknown())
            }
        }
    }

    fn remote(
        &self,
        ask: &Ask<'_>,
        n: usize,
        remote: &LastSeenRemote,
        only_here: Option<&OnlyHere>,
    ) -> Markup {
        let title = format!("remote-{n}");
        let id = self.newest.as_ref().map(|(id, _)| link_id(id));
        html! {
            section.card aria-labelledby=(title) {
                h2 id=(title) { (clean(&remote.name)) }
                p.quiet { (clean(&remote.url)) }
                p.quiet { (remote.as_of()) }
                @if only_here.is_some_and(|only| only.count == 0) {
                    p.there {
                        @if remote.has_all_commits() { "\u{2713} Everything is on " (clean(&remote.name)) }
                        @else { "\u{2713} All files are on " (clean(&remote.name)) }
                    }
                }
                (branch_lines(ask, remote, "/copies"))
                @match only_here {
                    None => { p.empty { "Which files it has is not known." } }
                    Some(only) if only.count == 0 => {
                        p.quiet { "It has the content of all files of the newest commit." }
                    }
                    Some(only) => {
                        p {
                            strong {
                                @if only.is_cut { "More than " }
                                (count(only.count, "file", "files"))
                            }
                            " of the newest commit" @if only.bytes > 0 { " (" (bytes(only.bytes)) ")" } @if only.count == 1 && !only.is_cut { " is only here:" } @else { " are only here:" }
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
        details.card.unknown {
            summary { "What is not known here" }
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

/// The files whose content no branch of a remote has, at whatever path. `None` if its trees are not stored here.
fn only_here(
    repo: &Repo,
    ours: &Commit,
    remote: &LastSeenRemote,
) -> Result<Option<OnlyHere>, Stop> {
    let commits = remote.branches.iter();
    let trees = commits.filter_map(|branch| repo.read_commit(&branch.id).ok());
    let trees: Vec<ObjectId> = trees.map(|commit| commit.tree).collect();
    let mut best: Option<DifferingFiles> = None;
    for tree in &trees {
        let found = match against(repo, *tree, ours.tree) {
            Ok(found) => found,
            Err(ObjectError::Missing { .. }) => continue,
            Err(e) => return Err(e.into()),
        };
        let is_less = |best: &DifferingFiles| found.files.len() < best.files.len();
        if best.as_ref().is_none_or(is_less) {
            best = Some(found);
        }
    }
    let Some(mut best) = best else {
        return Ok(None);
    };
    let mut wanted: HashSet<ObjectId> = best.files.iter().map(|(_, entry)| entry.id).collect();
    strike(repo, trees, &mut wanted)?;
    best.files.retain(|(_, entry)| wanted.contains(&entry.id));
    Ok(Some(best.told()))
}

/// Files of a commit that another tree does not have at the same path.
#[derive(Default)]
struct DifferingFiles {
    files: Vec<(RepoPath, TreeEntry)>,
    /// Whether there may be more.
    is_cut: bool,
}

impl DifferingFiles {
    fn told(self) -> OnlyHere {
        let size = |entry: &TreeEntry| (entry.kind != Kind::Conflict).then_some(entry.size);
        let sizes = self.files.iter().filter_map(|(_, entry)| size(entry));
        OnlyHere {
            count: self.files.len() as u64,
            bytes: sizes.sum(),
            is_cut: self.is_cut,
            files: (self.files.into_iter().take(MAX_FILES))
                .map(|(path, entry)| (path, size(&entry)))
                .collect(),
        }
    }
}

fn against(repo: &Repo, theirs: ObjectId, ours: ObjectId) -> Result<DifferingFiles, ObjectError> {
    let (mut found, mut looked_at) = (DifferingFiles::default(), 0);
    let mut keep = |path: &RepoPath, _old: Option<&TreeEntry>, new: Option<&TreeEntry>| {
        looked_at += 1;
        if looked_at > MAX_LOOKED_AT {
            found.is_cut = true;
            return Ok::<_, ObjectError>(ControlFlow::Break(()));
        }
        if let Some(new) = new.filter(|new| new.kind != Kind::Directory) {
            found.files.push((path.clone(), new.clone()));
        }
        Ok(ControlFlow::Continue(()))
    };
    let _ = diff_trees(repo.objects(), Some(theirs), Some(ours), &mut keep)?;
    Ok(found)
}

/// Removes the ids of content that is somewhere in these trees: a file that was moved or copied is there under another
/// name. Directories that are not stored here count as without it, and so does what is beyond the limit.
fn strike(
    repo: &Repo,
    mut trees: Vec<ObjectId>,
    wanted: &mut HashSet<ObjectId>,
) -> Result<(), Stop> {
    let mut seen: HashSet<ObjectId> = trees.iter().copied().collect();
    let mut looked_at = 0;
    while let Some(tree) = trees.pop() {
        for entry in TreeIter::new(repo.objects(), tree) {
            let entry = match entry {
                Ok(entry) => entry,
                Err(ObjectError::Missing { .. }) => break,
                Err(e) => return Err(e.into()),
            };
            looked_at += 1;
            if wanted.is_empty() || looked_at > MAX_LISTED {
                return Ok(());
            }
            if entry.kind != Kind::Directory {
                wanted.remove(&entry.id);
            } else if seen.insert(entry.id) {
                trees.push(entry.id);
            }
        }
    }
    Ok(())
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
