//! History: `/log` and `/log/PATH`, with a graph beside it, a page at a time.

use super::layout::{self, Part};
use super::log_changes::{ChangedFile, ChangesAsked, CommitChanges};
use super::parts::{commit_value, crumbs, entry_link, path_value, tag_signature, thumb, time};
use super::places::{link_id, place_at};
use crate::address::{Place, compare_link, encoded, link, log_link};
use crate::answer::Answer;
use crate::graph::{Graph, GraphRow, MOST_COLUMNS};
use crate::program::Stop;
use crate::site::Ask;
use crate::words::{clean, number, shown, subject};
use dmv_core::hash::ObjectId;
use dmv_core::history::paths::{FindFormerPath, PathLog};
use dmv_core::object::commit::Commit;
use dmv_core::object::name::RepoPath;
use dmv_core::object::tree::{Kind, TreeEntry};
use dmv_core::repo::{Head, RefKind, Repo, RepoError};
use maud::{Markup, html};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::HashMap;

/// Commits of a page.
const PAGE: usize = 40;
/// Commits that a page looks at. If fewer of them changed the path, the page ends early and goes on.
const MAX_VISITED: usize = 20_000;
/// Lines that go on to the next page; more would make an address too long.
const MAX_TIPS: usize = 60;

/// Shows a history.
pub fn show(ask: &Ask<'_>) -> Result<Answer, Stop> {
    let history = History::read(ask)?;
    let title = match history.path.file_name() {
        Some(name) => format!("History of {}", shown(name)),
        None => "History".to_owned(),
    };
    Ok(layout::answer(
        ask,
        Part::Log,
        &title,
        || history.values(),
        || history.page(ask),
    ))
}

struct Entry {
    id: ObjectId,
    commit: Commit,
    row: GraphRow,
    changes: CommitChanges,
}

struct History {
    path: RepoPath,
    /// Whether the path is a file of the first commit.
    entry: Option<TreeEntry>,
    start: Option<ObjectId>,
    entries: Vec<Entry>,
    /// The commits that the next page begins with, and the path there.
    next: Option<String>,
    /// Whether commits were passed over without a result, so that the page ends early.
    is_early: bool,
    /// Whether older commits are not stored here.
    is_cut: bool,
    names: HashMap<ObjectId, Vec<CommitName>>,
    width: usize,
}

impl History {
    fn read(ask: &Ask<'_>) -> Result<History, Stop> {
        let path = Repo::parse_path(&ask.target.path_from(1))?;
        let tips = tips(ask)?;
        let start = tips.first().copied();
        let mut history = History {
            entry: None,
            start,
            entries: Vec::new(),
            next: None,
            is_early: false,
            is_cut: false,
            names: names(&ask.repo)?,
            width: 1,
            path,
        };
        if let Some(start) = start {
            let place = place_at(&ask.repo, &start.to_string(), history.path.as_bytes());
            history.entry = place.ok().and_then(|place| place.entry().cloned());
            history.walk(ask, &tips)?;
        }
        Ok(history)
    }

    fn walk(&mut self, ask: &Ask<'_>, tips: &[ObjectId]) -> Result<(), Stop> {
        let repo = &*ask.repo;
        let paths: Vec<RepoPath> = if self.path.is_root() {
            Vec::new()
        } else {
            vec![self.path.clone()]
        };
        let changed = repo.changed_paths(&paths);
        let mut log = PathLog::new(repo.objects(), &changed, tips, &paths)?;
        // The first page begins with a commit that no line leads to.
        let mut graph = if ask.target.value("from").is_some() {
            Graph::going_on(tips)
        } else {
            Graph::default()
        };
        let last_path = RefCell::new(self.path.clone());
        let job = dmv_core::Job::default();
        let is_file = self
            .entry
            .as_ref()
            .is_some_and(|entry| entry.kind != Kind::Directory);
        let mut moved = |parent: &ObjectId, child: &ObjectId, path: &RepoPath| {
            let before = repo.path_before(parent, child, path, &job)?;
            if let Some(before) = &before {
                *last_path.borrow_mut() = before.clone();
            }
            Ok::<_, RepoError>(before)
        };
        let (mut visited_count, mut compared) = (0, 0);
        while self.entries.len() < PAGE && visited_count < MAX_VISITED {
            let follow: Option<&mut FindFormerPath<'_, RepoError>> =
                if is_file { Some(&mut moved) } else { None };
            let Some(visited) = log.advance(follow)? else {
                break;
            };
            visited_count += 1;
            if !visited.shown {
                graph.pass(&visited.id, &visited.followed);
                continue;
            }
            let row = graph.add(&visited.id, &visited.followed);
            self.width = self.width.max(row.width);
            let asked = ChangesAsked {
                commit: &visited.commit,
                path: &self.path,
            };
            let changes = CommitChanges::of(repo, &asked, &mut compared)?;
            self.entries.push(Entry {
                id: visited.id,
                commit: visited.commit,
                row,
                changes,
            });
        }
        let open = graph.open();
        self.is_cut = !log.boundary().is_empty();
        let open: Vec<ObjectId> = open
            .into_iter()
            .filter(|id| !log.boundary().contains(id))
            .collect();
        self.is_early = !open.is_empty() && self.entries.len() < PAGE;
        self.next = (!open.is_empty()).then(|| {
            let ids: Vec<String> = open.iter().take(MAX_TIPS).map(link_id).collect();
            format!(
                "{}?from={}",
                log_link(last_path.borrow().as_bytes()),
                encoded(ids.join(",").as_bytes())
            )
        });
        Ok(())
    }

    fn values(&self) -> Value {
        let commits: Vec<Value> = self
            .entries
            .iter()
            .map(|entry| {
                let mut value = commit_value(&entry.id, &entry.commit);
                let changes = &entry.changes;
                let file = |file: &ChangedFile| {
                    let mut out = path_value(file.path.as_bytes());
                    if let Some(from) = &file.from {
                        let from = String::from_utf8_lossy(from.as_bytes());
                        out.insert("from".to_owned(), json!(from));
                    }
                    Value::Object(out)
                };
                value["files_changed"] = changes.files.iter().map(file).collect();
                value["more_files"] = json!(changes.more() > 0);
                value["changed"] = json!(changes.count);
                value["conflicts"] = json!(changes.conflict_count());
                let names = self.names.get(&entry.id);
                let text = |name: &CommitName| name.text.clone();
                let names: Option<Vec<String>> =
                    names.map(|names| names.iter().map(text).collect());
                value["names"] = json!(names);
                value
            })
            .collect();
        json!({
            "path": path_value(self.path.as_bytes()),
            "commits": commits,
            "next": self.next,
            "complete": self.next.is_none() && !self.is_cut,
        })
    }

    fn page(&self, ask: &Ask<'_>) -> Markup {
        let path = self.path.as_bytes();
        html! {
            @if !self.path.is_root() { (crumbs("@", path, true)) }
            div.bar {
                h1 {
                    "History"
                    @if let Some(name) = self.path.file_name() { " of " (shown(name)) }
                }
                @if let (Some(entry), Some(start)) = (&self.entry, &self.start) {
                    div.tools {
                        a.button href=(entry_link(start, path, entry.kind)) {
                            @if entry.kind == Kind::Directory { "Files" } @else { "Newest version" }
                        }
                    }
                }
            }
            @if self.entries.is_empty() {
                p.empty {
                    @if self.start.is_none() { "There are no commits yet. The first commit starts the history." }
                    @else if self.is_early { "None of the commits looked at so far changed this path." }
                    @else { "No commit changed this path." }
                }
            } @else {
                ol.log { @for entry in &self.entries { (self.item(ask, entry)) } }
            }
            @if self.is_cut && self.next.is_none() {
                p.quiet { "Older commits are absent from this repository. To fetch them: " code { "dmv fetch --all-history" } }
            }
            @if let Some(next) = &self.next {
                nav.pager aria-label="Pages" {
                    a.button href=(next) rel="next" { "Older commits" }
                }
            }
        }
    }

    fn item(&self, ask: &Ask<'_>, entry: &Entry) -> Markup {
        let id = link_id(&entry.id);
        let to = match entry.commit.parents.first() {
            Some(parent) => compare_link(Place(&link_id(parent), b""), Place(&id, b"")),
            None => link("tree", &id, b""),
        };
        html! {
            li {
                (drawn(&entry.row, self.width))
                article {
                    h2 { a href=(to) { (subject(&entry.commit.message)) } }
                    @if let Some(names) = self.names.get(&entry.id) {
                        span.names { @for name in names {
                            span.tag { (clean(&name.text)) }
                            @if let Some(tag) = &name.annotated { (tag_signature(ask, tag)) }
                        } }
                    }
                    p.meta {
                        span { (shown(entry.commit.author.name.as_bytes())) }
                        (time(&entry.commit.author))
                        code { (entry.id.short(8)) }
                        @if entry.commit.parents.len() > 1 { span.tag { "merge" } }
                        a href=(link("tree", &id, self.dir())) { "files" }
                    }
                    (changed(ask, entry, &id, &to))
                }
            }
        }
    }

    /// The directory that is shown for a commit.
    fn dir(&self) -> &[u8] {
        match &self.entry {
            Some(entry) if entry.kind == Kind::Directory => self.path.as_bytes(),
            _ => b"",
        }
    }
}

/// The files that a commit has changed, or the conflicts that a merge has left.
fn changed(ask: &Ask<'_>, entry: &Entry, id: &str, to: &str) -> Markup {
    let changes = &entry.changes;
    html! {
        @if !changes.files.is_empty() {
            ul.changed {
                @for file in &changes.files {
                    li {
                        @match (&file.now, &file.from) {
                            (Some(now), from) => {
                                a href=(link("file", id, &file.path)) {
                                    (thumb(ask, id, file.path.as_bytes(), now))
                                    span {
                                        @if let Some(from) = from { span.quiet { (shown(from)) " \u{2192} " } }
                                        (shown(&file.path))
                                    }
                                }
                            }
                            (None, _) => { span.gone { (shown(&file.path)) " (deleted)" } }
                        }
                    }
                }
                @if changes.more() > 0 { li { a href=(to) { "+" (number(changes.more())) @if changes.is_cut { " or" } " more" } } }
            }
        }
        @if changes.conflict_count() != Some(0) {
            ul.changed {
                @for path in &changes.conflicts {
                    li {
                        a href=(link("file", id, path)) {
                            span.thumb.mark.clash aria-hidden="true" { "!" }
                            span { (shown(path)) " is in conflict" }
                        }
                    }
                }
                @match changes.more_conflicts {
                    Some(0) => {}
                    Some(more) => { li { span.quiet { "+" (number(more)) " more in conflict" } } }
                    None => { li { span.quiet { "many files are in conflict" } } }
                }
            }
        }
    }
}

/// The commits that the page begins with: those of the address, or what the worktree is on.
fn tips(ask: &Ask<'_>) -> Result<Vec<ObjectId>, Stop> {
    match ask.target.text("from") {
        Some(from) => {
            let ids = from.split(',').filter(|id| !id.is_empty()).take(MAX_TIPS);
            Ok(ids
                .map(|id| ask.repo.resolve(id))
                .collect::<Result<_, _>>()?)
        }
        None => match ask.target.text("rev") {
            Some(revision) => Ok(vec![ask.repo.resolve(revision)?]),
            None => Ok(ask.repo.head_commit()?.into_iter().collect()),
        },
    }
}

/// A name of a commit.
struct CommitName {
    text: String,
    /// The tag, if it is an annotated one, which may be signed.
    annotated: Option<String>,
}

/// The names that commits have: branches, tags, and what the worktree is on.
fn names(repo: &Repo) -> Result<HashMap<ObjectId, Vec<CommitName>>, Stop> {
    let mut out: HashMap<ObjectId, Vec<CommitName>> = HashMap::new();
    if let Head::Commit(id) = repo.head()? {
        out.entry(id).or_default().push(CommitName {
            text: "@".to_owned(),
            annotated: None,
        });
    }
    for (kind, prefix) in [(RefKind::Branch, ""), (RefKind::Tag, "tag ")] {
        for info in repo.list_refs(kind)? {
            if let Some(id) = info.commit {
                let commit = repo.tagged_by(id)?;
                let text = format!("{prefix}{}", info.name);
                let annotated = (commit != id).then_some(info.name);
                out.entry(commit)
                    .or_default()
                    .push(CommitName { text, annotated });
            }
        }
    }
    Ok(out)
}

/// The lines beside a commit. The upper part has the commit, the lower one grows with the text.
fn drawn(row: &GraphRow, width: usize) -> Markup {
    let shown = width.clamp(1, MOST_COLUMNS);
    let x = |column: usize| 10 + 16 * column.min(MOST_COLUMNS - 1);
    let w = x(shown - 1) + 10;
    let node = x(row.node);
    html! {
        div.lanes aria-hidden="true" {
            svg width=(w) height="44" viewBox={ "0 0 " (w) " 44" } {
                @for column in &row.passing {
                    path.(lane(*column)) d={ "M" (x(*column)) " 0V44" } {}
                }
                @if let Some(line) = upright(row) { path.(lane(row.node)) d={ "M" (node) (line) } {} }
                @for from in &row.joining {
                    path.(lane(*from))
                        d={ "M" (x(*from)) " 0C" (x(*from)) " 14 " (node) " 8 " (node) " 20" } {}
                }
                @for to in row.to_below.iter().filter(|to| **to != row.node) {
                    path.(lane((*to).max(row.node)))
                        d={ "M" (node) " 20C" (node) " 34 " (x(*to)) " 28 " (x(*to)) " 44" } {}
                }
                circle.(lane(row.node)) cx=(node) cy="20" r="5" {}
            }
            svg.rest width=(w) viewBox={ "0 0 " (w) " 10" } preserveAspectRatio="none" {
                @for column in below(row) {
                    path.(lane(column)) d={ "M" (x(column)) " 0V10" } {}
                }
            }
        }
    }
}

/// The straight line through a commit: from above, to below, or both.
fn upright(row: &GraphRow) -> Option<&'static str> {
    match (row.from_above, row.to_below.contains(&row.node)) {
        (true, true) => Some(" 0V44"),
        (true, false) => Some(" 0V20"),
        (false, true) => Some(" 20V44"),
        (false, false) => None,
    }
}

/// The columns with a line below a commit.
fn below(row: &GraphRow) -> Vec<usize> {
    let mut all = row.passing.clone();
    all.extend(&row.to_below);
    all.sort_unstable();
    all.dedup();
    all
}

fn lane(column: usize) -> &'static str {
    ["l0", "l1", "l2", "l3", "l4", "l5"][column % 6]
}
