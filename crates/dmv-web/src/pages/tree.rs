//! A directory of a commit: `/tree/REV/DIR`, as a list or a grid. Frames of an image sequence are one
//! row.

use super::claims::{self, WorkMark, WorkMarks};
use super::layout::{self, Part};
use super::parts::{commit_line, crumbs, path_value, root_of, secret, signature, size_of, thumb};
use super::places::{CommitPath, place};
use crate::address::{encoded, link, log_link};
use crate::answer::{Answer, redirect};
use crate::program::Stop;
use crate::sequence::{Row, Sequence, rows};
use crate::site::Ask;
use crate::words::{bytes, count, number, shown};
use dmv_core::object::name::RepoPath;
use dmv_core::object::tree::{Kind, TreeEntry, TreeIter};
use dmv_core::repo::{Location, RepoError};
use dmv_core::worktree::select::ChildrenOf;
use maud::{Markup, html};
use serde_json::{Value, json};
use std::sync::Arc;

/// Rows of a page.
const PAGE: usize = 100;
/// Entries of a directory that are read. The rest of a greater one is left out, and the page says so.
const MAX_ENTRIES: usize = 400_000;
/// Frames that a row of a sequence unfolds to.
const MAX_UNFOLDED: usize = 48;
/// Gaps of a sequence that are named.
const MAX_GAPS: usize = 6;

/// Shows a directory.
pub fn show(ask: &Ask<'_>) -> Result<Answer, Stop> {
    let place = place(ask, 2)?;
    let Some(tree) = place.located.tree() else {
        return Ok(redirect(&link(
            "file",
            &place.link(),
            place.path.as_bytes(),
        )));
    };
    let all = ask.site.listing(tree, || {
        let mut entries = Vec::new();
        for entry in TreeIter::new(ask.repo.objects(), tree).take(MAX_ENTRIES) {
            entries.push(entry.map_err(RepoError::from)?);
        }
        Ok(rows(entries))
    })?;
    let chosen = ask.target.value("sequence");
    let list = Listing::of(ask, place, all, chosen)?;
    let title = match list.place.path.file_name() {
        Some(name) => shown(name),
        None => "Files".to_owned(),
    };
    Ok(layout::answer(
        ask,
        Part::Files,
        &title,
        || list.values(ask),
        || list.page(ask),
    ))
}

struct Listing {
    place: CommitPath,
    rows: Vec<Row>,
    /// How many rows there are on all pages.
    total: usize,
    /// The page, from 0.
    page: usize,
    is_grid: bool,
    /// The pattern of the sequence whose frames are listed.
    sequence: Option<Vec<u8>>,
    totals: (u64, u64),
    is_cut: bool,
    /// Who works on listed files, and where they have newer versions.
    marks: WorkMarks,
}

impl Listing {
    fn of(
        ask: &Ask<'_>,
        place: CommitPath,
        all: Arc<Vec<Row>>,
        chosen: Option<&[u8]>,
    ) -> Result<Listing, Stop> {
        let page = ask
            .target
            .text("page")
            .and_then(|n| n.parse().ok())
            .unwrap_or(0_usize);
        let from = page.saturating_mul(PAGE);
        let read: usize = all.iter().map(Row::entries).sum();
        let (rows, total) = match chosen {
            None => (
                all.iter().skip(from).take(PAGE).cloned().collect(),
                all.len(),
            ),
            Some(pattern) => {
                let found = all.iter().find_map(|row| match row {
                    Row::Sequence(s) if s.pattern() == pattern => Some(s),
                    _ => None,
                });
                let frames = &found.ok_or(Stop::NoPage)?.frames;
                let shown = frames.iter().skip(from).take(PAGE);
                (
                    shown.map(|(_, entry)| Row::Entry(entry.clone())).collect(),
                    frames.len(),
                )
            }
        };
        let totals = match &place.located {
            Location::Root { bytes, files, .. } => (*bytes, *files),
            Location::Entry(entry) => (entry.size, entry.file_count()),
        };
        let own = ask.repo.own_commit().ok().flatten();
        let own = own.filter(|own| *own == place.id);
        Ok(Listing {
            marks: WorkMarks::read(ask, own, &ChildrenOf(place.path.as_bytes())),
            place,
            rows,
            total,
            page,
            is_grid: ask.target.text("view") == Some("grid"),
            sequence: chosen.map(<[u8]>::to_vec),
            totals,
            is_cut: read >= MAX_ENTRIES,
        })
    }

    fn path(&self) -> &[u8] {
        self.place.path.as_bytes()
    }

    fn child(&self, entry: &TreeEntry) -> Vec<u8> {
        let path = self.place.path.join(&entry.name);
        path.map(|path: RepoPath| path.as_bytes().to_vec())
            .unwrap_or_default()
    }

    /// What is marked of an entry.
    fn mark_of(&self, ask: &Ask<'_>, entry: &TreeEntry) -> WorkMark {
        let path = self.place.path.join(&entry.name);
        path.map_or_else(|_| WorkMark::default(), |path| self.marks.of(ask, &path))
    }

    /// What is marked of the frames of a sequence.
    fn mark_of_frames(&self, ask: &Ask<'_>, s: &Sequence) -> WorkMark {
        let frames = s.frames.iter().map(|(_, entry)| &entry.name);
        let paths: Vec<RepoPath> = frames
            .filter_map(|name| self.place.path.join(name).ok())
            .collect();
        self.marks.of_all(ask, paths.iter())
    }

    fn values(&self, ask: &Ask<'_>) -> Value {
        let value = |row: &Row| match row {
            Row::Entry(entry) => {
                let mut out = path_value(&self.child(entry));
                out.insert("kind".to_owned(), json!(entry.kind.word()));
                out.insert("size".to_owned(), json!(entry.size));
                out.insert("id".to_owned(), json!(entry.id.to_string()));
                let mark = self.mark_of(ask, entry);
                if let Some(newer) = mark.newer {
                    out.insert("newer".to_owned(), json!(newer));
                }
                if let Some(claimed) = mark.claimed {
                    out.insert("claimed".to_owned(), json!(claimed.full));
                }
                Value::Object(out)
            }
            Row::Sequence(s) => {
                let (first, last) = s.span();
                let mut out = path_value(&s.pattern());
                out.insert("kind".to_owned(), json!("sequence"));
                out.insert("size".to_owned(), json!(s.bytes()));
                out.insert("frames".to_owned(), json!(s.frames.len()));
                out.insert("first".to_owned(), json!(first));
                out.insert("last".to_owned(), json!(last));
                out.insert("missing".to_owned(), json!(s.missing()));
                out.insert("gaps".to_owned(), json!(s.gaps(usize::MAX)));
                Value::Object(out)
            }
        };
        let rows: Vec<Value> = self.rows.iter().map(value).collect();
        json!({
            "commit": self.place.id.to_string(),
            "dir": path_value(self.path()),
            "bytes": self.totals.0,
            "files": self.totals.1,
            "entries": rows,
            "rows": self.total,
            "page": self.page,
            "pages": self.pages(),
            "complete": !self.is_cut,
        })
    }

    fn pages(&self) -> usize {
        self.total.div_ceil(PAGE).max(1)
    }

    /// The address of this list with some other choices.
    fn address(&self, page: usize, is_grid: bool) -> String {
        let mut query = Vec::new();
        if let Some(pattern) = &self.sequence {
            query.push(format!("sequence={}", encoded(pattern)));
        }
        if is_grid {
            query.push("view=grid".to_owned());
        }
        if page > 0 {
            query.push(format!("page={page}"));
        }
        let to = link("tree", &self.place.link(), self.path());
        if query.is_empty() {
            to
        } else {
            format!("{to}?{}", query.join("&"))
        }
    }

    fn page(&self, ask: &Ask<'_>) -> Markup {
        let revision = self.place.link();
        html! {
            (crumbs(&revision, self.path(), false))
            div.bar {
                h1 {
                    @match &self.sequence {
                        Some(pattern) => { (shown(pattern)) }
                        None => { (self.place.path.file_name().map_or("All files".to_owned(), shown)) }
                    }
                }
                p.quiet { (count(self.totals.1, "file", "files")) ", " (bytes(self.totals.0)) }
                div.tools {
                    (self.switch())
                    a.button href=(log_link(self.path())) { "History" }
                    a.button href=(link("zip", &revision, self.path())) { "Download as zip" }
                }
            }
            p.incommit { "In commit " (commit_line(&self.place.id, &self.place.commit)) (signature(ask, &self.place.id, &self.place.commit)) }
            @if self.is_cut {
                p.note { "Only the first " (number(MAX_ENTRIES as u64)) " entries are listed." }
            }
            @if ask.repo.is_partial() { (self.absent(ask)) }
            @if self.rows.is_empty() {
                p.empty { "This directory is empty." }
            } @else if self.is_grid {
                ul.grid { @for row in &self.rows { (self.tile(ask, row)) } }
            } @else {
                (self.table(ask))
            }
            (self.pager())
            (claims::section(ask, &self.place.path, &link("tree", &revision, self.path())))
        }
    }

    fn switch(&self) -> Markup {
        let item = |grid: bool, text: &str| {
            html! {
                a href=(self.address(self.page, grid))
                    aria-current=[(self.is_grid == grid).then_some("true")] { (text) }
            }
        };
        html! { span.switch role="group" aria-label="View" { (item(false, "List")) (item(true, "Grid")) } }
    }

    fn table(&self, ask: &Ask<'_>) -> Markup {
        html! {
            table.files.listing {
                thead { tr { th scope="col" { "Name" } th scope="col" { "Kind" } th.num scope="col" { "Size" } } }
                tbody { @for row in &self.rows { (self.line(ask, row)) } }
            }
        }
    }

    fn line(&self, ask: &Ask<'_>, row: &Row) -> Markup {
        match row {
            Row::Entry(entry) => html! {
                @let absent = absence(ask, entry);
                tr {
                    td { a.name href=(self.to(entry)) {
                        (thumb(ask, &self.place.link(), &self.child(entry), entry))
                        span { (shown(entry.name.as_bytes())) @if let Some(word) = absent { span.narrow { (word) } } }
                    } }
                    td.quiet { (about(entry)) @if let Some(word) = absent { " " span.tag { (word) } }
                        (self.mark_of(ask, entry).tags()) }
                    td.num { (size_of(entry)) }
                }
            },
            Row::Sequence(s) => html! {
                tr {
                    td {
                        details.frames {
                            summary.name {
                                span.stacked { (self.first_frame(ask, s)) }
                                span { (shown(&s.pattern())) span.narrow { (frames(s)) } }
                            }
                            (self.unfolded(ask, s))
                        }
                    }
                    td.quiet { (frames(s)) @if s.conflicts() > 0 { " " span.tag.deleted { (in_conflict(s)) } } (self.mark_of_frames(ask, s).tags()) }
                    td.num { (bytes(s.bytes())) }
                }
            },
        }
    }

    fn tile(&self, ask: &Ask<'_>, row: &Row) -> Markup {
        match row {
            Row::Entry(entry) => html! {
                li { a href=(self.to(entry)) {
                    (thumb(ask, &self.place.link(), &self.child(entry), entry))
                    span.label { (shown(entry.name.as_bytes())) }
                    span.quiet { (size_of(entry)) }
                    (self.mark_of(ask, entry).tags())
                } }
            },
            Row::Sequence(s) => html! {
                li { a href=(self.frames_of(s)) {
                    span.stacked { (self.first_frame(ask, s)) }
                    span.label { (shown(&s.pattern())) }
                    span.quiet { (frames(s)) @if s.conflicts() > 0 { ", " (in_conflict(s)) } }
                    (self.mark_of_frames(ask, s).tags())
                } }
            },
        }
    }

    /// The picture of a sequence: its first frame that is not in conflict.
    fn first_frame(&self, ask: &Ask<'_>, s: &Sequence) -> Markup {
        let frames = || s.frames.iter().map(|(_, entry)| entry);
        let mut whole = frames().filter(|entry| entry.kind != Kind::Conflict);
        let first = whole.next().or_else(|| frames().next());
        html! { @if let Some(first) = first { (thumb(ask, &self.place.link(), &self.child(first), first)) } }
    }

    /// The first frames of a sequence, which its row unfolds to. A browser loads their pictures only then.
    fn unfolded(&self, ask: &Ask<'_>, s: &Sequence) -> Markup {
        html! {
            ul.unfolded {
                @for (number, entry) in s.frames.iter().take(MAX_UNFOLDED) {
                    li { a href=(self.to(entry)) {
                        (thumb(ask, &self.place.link(), &self.child(entry), entry))
                        span { (number) }
                    } }
                }
            }
            p { a href=(self.frames_of(s)) { "All " (count(s.frames.len() as u64, "frame", "frames")) " as a list" } }
        }
    }

    fn to(&self, entry: &TreeEntry) -> String {
        let page = if entry.kind == Kind::Directory {
            "tree"
        } else {
            "file"
        };
        link(page, &self.place.link(), &self.child(entry))
    }

    fn frames_of(&self, s: &Sequence) -> String {
        let to = link("tree", &self.place.link(), self.path());
        let grid = if self.is_grid { "&view=grid" } else { "" };
        format!("{to}?sequence={}{grid}", encoded(&s.pattern()))
    }

    fn pager(&self) -> Markup {
        let pages = self.pages();
        if pages < 2 {
            return html! {};
        }
        let step = |page: Option<usize>, text: &str, rel: &str| match page {
            Some(page) => {
                html! { a.button href=(self.address(page, self.is_grid)) rel=(rel) { (text) } }
            }
            None => html! { span.button.off aria-disabled="true" { (text) } },
        };
        let before = self.page.checked_sub(1);
        let after = Some(self.page + 1).filter(|page| *page < pages);
        html! {
            nav.pager aria-label="Pages" {
                (step(before, "Previous", "prev"))
                span.quiet { "Page " (number(self.page as u64 + 1)) " of " (number(pages as u64)) }
                (step(after, "Next", "next"))
            }
        }
    }

    /// A button that gets what is absent below this directory.
    fn absent(&self, ask: &Ask<'_>) -> Markup {
        super::file::absent_part(ask, &self.place, &|back| secret(ask.site, back))
    }
}

/// That the content of an entry is not in this repository, in a word or two.
fn absence(ask: &Ask<'_>, entry: &TreeEntry) -> Option<&'static str> {
    let is_here = !ask.repo.is_partial()
        || !entry.kind.is_blob()
        || ask.repo.has_root(root_of(entry)).unwrap_or(false);
    if is_here {
        return None;
    }
    let slice = ask.repo.slice().unwrap_or_default();
    Some(match slice.purge_of(&entry.id) {
        Some(_) => "purged",
        None => "not here",
    })
}

/// The kind of an entry in a word or two.
fn about(entry: &TreeEntry) -> String {
    match entry.kind {
        Kind::Directory => count(entry.files, "file", "files"),
        Kind::File => {
            let (sort, _) = crate::kinds::sort_of(entry.name.as_bytes());
            sort.word().to_owned()
        }
        kind => kind.word().to_owned(),
    }
}

fn in_conflict(s: &Sequence) -> String {
    format!("{} in conflict", number(s.conflicts() as u64))
}

/// The frames of a sequence in words: `1001–1240, 3 missing (1003–1004, 1100)`.
fn frames(s: &Sequence) -> String {
    let (first, last) = s.span();
    let text = format!(
        "{} frames, {first}\u{2013}{last}",
        number(s.frames.len() as u64)
    );
    let missing = s.missing();
    if missing == 0 {
        return text;
    }
    let gap = |(a, b): (u64, u64)| {
        if a == b {
            a.to_string()
        } else {
            format!("{a}\u{2013}{b}")
        }
    };
    let all = s.gaps(MAX_GAPS + 1);
    let mut gaps: Vec<String> = all.iter().copied().take(MAX_GAPS).map(gap).collect();
    if all.len() > MAX_GAPS {
        gaps.push("\u{2026}".to_owned());
    }
    format!("{text}, {} missing ({})", number(missing), gaps.join(", "))
}
