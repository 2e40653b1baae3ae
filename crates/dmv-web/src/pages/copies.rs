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
use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::commit::Commit;
use dmv_core::object::list::Blob;
use dmv_core::object::name::RepoPath;
use dmv_core::repo::{CopyState, Location, RefInfo, RefKind, Repo, Selection};
use dmv_core::subset::Subset;
use maud::{Markup, html};
use serde_json::{Value, json};

/// Files that are named for each remote.
const MAX_FILES: usize = 40;

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
    /// The first of them, with their bytes.
    files: Vec<(RepoPath, u64)>,
    count: u64,
    bytes: u64,
    /// Files of which it is not known.
    unknown: u64,
}

impl Copies {
    fn read(ask: &Ask<'_>) -> Result<Copies, Stop> {
        let repo = &*ask.repo;
        let newest = match repo.head_commit()? {
            Some(id) => Some((id, repo.read_commit(&id)?)),
            None => None,
        };
        let files = match &newest {
            // What is absent here keeps nobody from seeing the rest of the page.
            Some((_, commit)) => files_of(repo, commit).ok(),
            None => None,
        };
        let mut seen = Vec::new();
        for remote in remotes(ask, &branches(repo)?)? {
            let only_here = match &files {
                Some(files) => only_here(repo, files, &remote.name)?,
                None => None,
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
                    "complete": only.unknown == 0, "unknown": only.unknown, "first": files,
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
                @if only_here.is_some_and(|only| only.count == 0 && only.unknown == 0) {
                    p.there {
                        @if remote.has_all_commits() { "\u{2713} Everything is on " (clean(&remote.name)) }
                        @else { "\u{2713} All files are on " (clean(&remote.name)) }
                    }
                }
                (branch_lines(ask, remote, "/copies"))
                @match only_here {
                    None => { p.empty { "Which files it has is not known." } }
                    Some(only) if only.count == 0 && only.unknown == 0 => {
                        p.quiet { "It has the content of all files of the newest commit." }
                    }
                    Some(only) => {
                        @if only.count > 0 {
                            p {
                                strong { (count(only.count, "file", "files")) }
                                " of the newest commit (" (bytes(only.bytes)) ")" @if only.count == 1 { " is only here:" } @else { " are only here:" }
                            }
                        }
                        @if only.unknown > 0 {
                            p.quiet { "It is not known of " (count(only.unknown, "file", "files")) " of the newest commit." }
                        }
                        ul.plain {
                            @for (path, size) in &only.files {
                                li {
                                    @if let Some(id) = &id { a href=(link("file", id, path.as_bytes())) { (shown(path.as_bytes())) } }
                                    " " span.quiet { (bytes(*size)) }
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

/// The files of the newest commit whose content a remote lacks, as `dmv whereis` tells. `None` if nothing is known of
/// it.
fn only_here(
    repo: &Repo,
    files: &[(RepoPath, Blob)],
    remote: &str,
) -> Result<Option<OnlyHere>, Stop> {
    let wanted = files.iter().map(|(_, blob)| (blob.id, blob.ty())).collect();
    let there = repo.content_at(remote, wanted, &Job::default())?;
    let mut only = OnlyHere::default();
    for (path, blob) in files {
        match there.state(&blob.id) {
            CopyState::Has => {}
            CopyState::Unknown => only.unknown += 1,
            CopyState::Lacks => {
                only.count += 1;
                only.bytes += blob.size;
                if only.files.len() < MAX_FILES {
                    only.files.push((path.clone(), blob.size));
                }
            }
        }
    }
    Ok((only.unknown < files.len() as u64 || files.is_empty()).then_some(only))
}

/// The files of a commit, as `dmv whereis` lists them.
fn files_of(repo: &Repo, commit: &Commit) -> Result<Vec<(RepoPath, Blob)>, Stop> {
    let (root, all) = (RepoPath::root(), Subset::everything());
    let located = Location::Root {
        tree: commit.tree,
        bytes: commit.tree_bytes,
        files: commit.tree_files,
    };
    let wanted = Selection {
        path: &root,
        located: &located,
        subset: &all,
    };
    let mut files = Vec::new();
    repo.each_content(wanted, &mut |path, blob| files.push((path.clone(), blob)))?;
    Ok(files)
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
