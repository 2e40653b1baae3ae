//! From one root to the next: pure functions of a root, its pages and what is to change.

use super::Fresh;
use crate::format::{
    Entry, Expirations, ListedContent, MAX_ENTRIES, MAX_LISTED_PAGES, MAX_ROWS, Name, Page,
    PageRef, Purges, Reason, ReasonList, Root, Row, RowKind, View, join_listed,
};
use dmv_core::hash::ObjectId;
use dmv_core::refs::{Change, Effect, Operation, Origin, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// A page of purged or expired content below this length is written anew when more is added.
const SMALL_LIST: u32 = 256 << 10;
/// The most ids on such a page.
const MAX_IDS_ON_PAGE: usize = 400_000;
const ANOTHER_KIND: &str = "a page has another kind than the root says";

/// The pages that a machine has read, by name. Pages never change.
pub(super) type Pages = BTreeMap<Name, Page>;

/// Who writes an operation. All attempts to publish it have the same id: by this id the writer
/// knows it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The id of the operation: random.
    pub id: [u8; 16],
    /// Its time.
    pub time: Timestamp,
    /// The user.
    pub who: String,
    /// The command line.
    pub command: String,
    /// The sequence number of the operation that it undoes; 0 if none.
    pub undoes: u64,
}

/// How much of each kind a root holds before it goes to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Log entries.
    pub entries: usize,
    /// Rows.
    pub rows: usize,
    /// Bytes of keys and values of the view, and likewise of operations.
    pub bytes: usize,
    /// The newest operations that gc never forgets: writers look for their own among them.
    pub kept: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            entries: MAX_ENTRIES,
            // One less than fit: then they seldom go to a page together with the log.
            rows: MAX_ROWS - 1,
            bytes: 64 << 10,
            kept: 256,
        }
    }
}

/// Why something cannot be said yet about a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Lack {
    /// These pages have to be read first.
    Pages(Vec<PageRef>),
    /// A page is not what the root calls it, or the next root has no encoding.
    Bad(&'static str),
}

/// What the next root changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Draft {
    pub changes: Vec<Change>,
    /// Rows to add; their generation is set here.
    pub rows: Vec<Row>,
    /// Rows to add that have their generation.
    pub joined: Vec<Row>,
    /// Rows to take out.
    pub dead: BTreeSet<Name>,
    /// Files that may be deleted from then on, sorted.
    pub left: Vec<Name>,
    /// The log may begin at this sequence number.
    pub forget: u64,
    /// What is purged besides.
    pub purges: Purges,
    /// Files that expire besides.
    pub expired: Expirations,
    /// Files that had expired and are there again.
    pub back: BTreeSet<ObjectId>,
    /// How many purged chunks the files still have, if that is known anew.
    pub unpurged: Option<u64>,
}

/// Pages to store, with their names and bytes.
pub(super) type NewPages = Vec<(Name, Vec<u8>)>;

/// Returns the root after `root`.
pub(super) fn next_root(
    root: &Root,
    pages: &Pages,
    stamp: &Stamp,
    draft: Draft,
    limits: Limits,
    fresh: Fresh,
) -> Result<Next, Lack> {
    let mut next = root.clone();
    next.generation += 1;
    (next.previous, next.write) = (root.write, fresh());
    next.freed += u64::from(!draft.left.is_empty());
    let mut new = Writer {
        pages: Vec::new(),
        fresh,
    };
    forget(&mut next, draft.forget);
    let entry = entry(root, stamp, &draft);
    let view = || {
        let mut view = full_view(root, pages)?;
        change(&mut view, &draft.changes);
        Ok(view)
    };
    add_entry(&mut next, &entry, view, limits, &mut new)?;
    change_view(&mut next, &draft.changes, view, limits, &mut new)?;
    change_rows(&mut next, pages, &draft, limits, &mut new)?;
    add_purges(&mut next, pages, draft.purges, &mut new)?;
    change_expired(&mut next, pages, draft.expired, &draft.back, &mut new)?;
    if let Some(unpurged) = draft.unpurged.filter(|_| next.purges.count > 0) {
        next.purges.unpurged = unpurged;
    }
    Ok(Next {
        root: next,
        entry,
        pages: new.pages,
    })
}

/// The root that follows.
#[derive(Clone, Debug)]
pub(super) struct Next {
    pub root: Root,
    /// Its newest operation.
    pub entry: Entry,
    /// The pages that have to be stored before it.
    pub pages: NewPages,
}

/// Gives names to new pages.
pub(super) struct Writer<'a> {
    pub pages: NewPages,
    pub fresh: Fresh<'a>,
}

impl Writer<'_> {
    /// Returns whether it has made a page with this name.
    fn has(&self, name: &Name) -> bool {
        self.pages.iter().any(|(known, _)| known == name)
    }

    /// Encodes a page under a new name.
    pub fn put(&mut self, page: &Page) -> Result<PageRef, Lack> {
        let name = Name((self.fresh)());
        let (page, bytes) = page.encode(name).map_err(|e| Lack::Bad(e.what))?;
        self.pages.push((name, bytes));
        Ok(page)
    }
}

/// Returns the sequence number from which on the log is kept, if it may begin at `forget`: pages go
/// as a whole.
pub(super) fn kept_from(root: &Root, forget: u64) -> u64 {
    let mut first = root.last.0 + 1 - root.log.len() as u64;
    if forget >= first {
        return forget.min(root.last.0 + 1);
    }
    for page in root.log_pages.iter().rev() {
        if first <= forget {
            break;
        }
        first = first.saturating_sub(u64::from(page.items));
    }
    first
}

fn forget(next: &mut Root, before: u64) {
    let from = kept_from(next, before);
    let mut first = next.last.0 + 1 - next.log.len() as u64;
    next.log.retain(|entry| entry.operation.seq >= from);
    let mut kept = Vec::new();
    for page in next.log_pages.drain(..).rev() {
        if first <= from {
            break;
        }
        first = first.saturating_sub(u64::from(page.items));
        kept.push(page);
    }
    kept.reverse();
    next.log_pages = kept;
}

/// Returns the operation that makes these changes over a root.
pub fn intended(root: &Root, stamp: &Stamp, changes: &[Change]) -> Operation {
    let mut changes = changes.to_vec();
    changes.sort_by(|a, b| a.key.cmp(&b.key));
    Operation {
        seq: root.last.0 + 1,
        id: stamp.id,
        previous: root.last.1,
        time: stamp.time,
        who: stamp.who.clone(),
        command: stamp.command.clone(),
        undoes: stamp.undoes,
        origin: Some(Origin {
            worktree: String::new(),
            effect: Effect::Kept,
        }),
        changes,
    }
}

fn entry(root: &Root, stamp: &Stamp, draft: &Draft) -> Entry {
    Entry {
        operation: intended(root, stamp, &draft.changes),
        left: draft.left.clone(),
    }
}

fn add_entry(
    next: &mut Root,
    entry: &Entry,
    view: impl Fn() -> Result<View, Lack>,
    limits: Limits,
    new: &mut Writer,
) -> Result<(), Lack> {
    next.last = (entry.operation.seq, entry.operation.id);
    let size = |entry: &Entry| entry.operation.encode().len() + 16 * entry.left.len();
    let bytes: usize = next.log.iter().chain([entry]).map(size).sum();
    if next.log.len() >= limits.entries || bytes > limits.bytes {
        let mut full = std::mem::take(&mut next.log);
        if size(entry) > limits.bytes {
            full.push(entry.clone());
        } else {
            next.log.push(entry.clone());
        }
        if !full.is_empty() {
            next.log_pages.push(new.put(&Page::Log(full, view()?))?);
        }
    } else {
        next.log.push(entry.clone());
    }
    Ok(())
}

pub(super) fn change(view: &mut View, changes: &[Change]) {
    for Change { key, new, .. } in changes {
        match new {
            Some(value) => drop(view.insert(key.clone(), value.clone())),
            None => drop(view.remove(key)),
        }
    }
}

fn change_view(
    next: &mut Root,
    changes: &[Change],
    view: impl Fn() -> Result<View, Lack>,
    limits: Limits,
    new: &mut Writer,
) -> Result<(), Lack> {
    for Change { key, new, .. } in changes {
        match new {
            None if next.view_page.is_none() => drop(next.view.remove(key)),
            new => drop(next.view.insert(key.clone(), new.clone())),
        }
    }
    let size =
        |(key, value): (&String, &Option<Vec<u8>>)| key.len() + value.as_ref().map_or(0, Vec::len);
    if next.view.iter().map(size).sum::<usize>() > limits.bytes {
        next.view_page = Some(new.put(&Page::View(view()?))?);
        next.view.clear();
    }
    Ok(())
}

fn change_rows(
    next: &mut Root,
    pages: &Pages,
    draft: &Draft,
    limits: Limits,
    new: &mut Writer,
) -> Result<(), Lack> {
    let (dead, mut rows) = (&draft.dead, draft.rows.clone());
    let (mut meta, mut data) = (
        std::mem::take(&mut next.meta_pages),
        std::mem::take(&mut next.data_pages),
    );
    if !dead.is_empty() {
        for list in [&mut meta, &mut data] {
            *list = without(list, pages, dead, new)?;
        }
        next.rows.retain(|row| !dead.contains(&row.name));
    }
    rows.iter_mut()
        .for_each(|row| row.generation = next.generation);
    rows.extend(&draft.joined);
    rows.sort_unstable();
    if next.rows.len() + rows.len() > limits.rows {
        let mut out = std::mem::take(&mut next.rows);
        if rows.len() > limits.rows {
            out.append(&mut rows);
        }
        let (of_meta, of_data): (Vec<Row>, Vec<Row>) =
            out.into_iter().partition(|row| row.kind.has_metadata());
        if !of_meta.is_empty() {
            meta.push(new.put(&Page::MetaRows(of_meta))?);
        }
        if !of_data.is_empty() {
            data.push(new.put(&Page::DataRows(of_data))?);
        }
    }
    next.rows.append(&mut rows);
    next.rows.sort_unstable();
    (next.meta_pages, next.data_pages) = (meta, data);
    Ok(())
}

/// Adds what is purged.
pub(super) fn add_purges(
    next: &mut Root,
    pages: &Pages,
    new: Purges,
    out: &mut Writer,
) -> Result<(), Lack> {
    next.purges.count += u64::from(!new.is_empty());
    add_listed(&mut next.purges.pages, pages, new, out)
}

/// Takes files off the list of those that have expired, and adds others.
pub(super) fn change_expired(
    next: &mut Root,
    pages: &Pages,
    new: Expirations,
    back: &BTreeSet<ObjectId>,
    out: &mut Writer,
) -> Result<(), Lack> {
    if !back.is_empty() {
        for at in std::mem::take(&mut next.expired) {
            let old: &Expirations = listed_on(&at, pages)?;
            let mut kept = old.clone();
            for files in kept.values_mut() {
                files.retain(|id| !back.contains(id));
            }
            kept.retain(|_, files| !files.is_empty());
            if kept == *old {
                next.expired.push(at);
            } else if !kept.is_empty() {
                next.expired.push(out.put(&Page::Expired(kept))?);
            }
        }
    }
    add_listed(&mut next.expired, pages, new, out)
}

/// Adds content to the pages of a list. A small last page is written anew.
fn add_listed<R: Reason>(
    list: &mut Vec<PageRef>,
    pages: &Pages,
    mut new: ReasonList<R>,
    out: &mut Writer,
) -> Result<(), Lack> {
    if new.is_empty() {
        return Ok(());
    }
    // A page of this very root is not among those that were read.
    let is_small = |last: &mut PageRef| last.len < SMALL_LIST && !out.has(&last.name);
    if let Some(last) = list.pop_if(is_small) {
        join_listed::<R>(&mut new, listed_on::<R>(&last, pages)?);
    }
    let (mut part, mut count) = (ReasonList::<R>::new(), 0);
    for (why, content) in new {
        let lists = content.lists().enumerate();
        for (list_number, id) in lists.flat_map(|(n, ids)| ids.iter().map(move |id| (n, *id))) {
            if count == MAX_IDS_ON_PAGE {
                list.push(out.put(&R::page(std::mem::take(&mut part)))?);
                count = 0;
            }
            let of_part = part.entry(why.clone()).or_default();
            of_part
                .lists_mut()
                .nth(list_number)
                .map(|ids| ids.insert(id));
            count += 1;
        }
    }
    list.push(out.put(&R::page(part))?);
    if list.len() > MAX_LISTED_PAGES {
        Err(Lack::Bad(
            "more content was given up than a bucket can note",
        ))
    } else {
        Ok(())
    }
}

/// Returns what a page lists.
fn listed_on<'a, R: Reason>(of: &PageRef, pages: &'a Pages) -> Result<&'a ReasonList<R>, Lack> {
    R::listed_on(page(of, pages)?).ok_or(Lack::Bad(ANOTHER_KIND))
}

/// Returns the pages of rows without some packs: pages that have one of them are written anew.
fn without(
    list: &[PageRef],
    pages: &Pages,
    dead: &BTreeSet<Name>,
    new: &mut Writer,
) -> Result<Vec<PageRef>, Lack> {
    let mut out = Vec::new();
    for page in list {
        let rows = rows_of(page, pages)?;
        let mut kept = rows.to_vec();
        kept.retain(|row| !dead.contains(&row.name));
        match kept.first().map(|row| row.kind) {
            _ if kept.len() == rows.len() => out.push(*page),
            None => {}
            Some(RowKind::Data) => out.push(new.put(&Page::DataRows(kept))?),
            Some(_) => out.push(new.put(&Page::MetaRows(kept))?),
        }
    }
    Ok(out)
}

fn page<'a>(page: &PageRef, pages: &'a Pages) -> Result<&'a Page, Lack> {
    match pages.get(&page.name) {
        Some(found) if found.items() == page.items as usize => Ok(found),
        Some(_) => Err(Lack::Bad("a page has another length than the root says")),
        None => Err(Lack::Pages(vec![*page])),
    }
}

fn rows_of<'a>(of: &PageRef, pages: &'a Pages) -> Result<&'a [Row], Lack> {
    match page(of, pages)? {
        Page::MetaRows(rows) | Page::DataRows(rows) => Ok(rows),
        _ => Err(Lack::Bad(ANOTHER_KIND)),
    }
}

/// Returns all rows of a root.
pub(super) fn all_rows(root: &Root, pages: &Pages) -> Result<Vec<Row>, Lack> {
    let lists = || root.meta_pages.iter().chain(&root.data_pages);
    let lacking = lists().filter(|page| !pages.contains_key(&page.name));
    let lacking: Vec<PageRef> = lacking.copied().collect();
    if !lacking.is_empty() {
        return Err(Lack::Pages(lacking));
    }
    let mut rows = Vec::new();
    for page in lists() {
        rows.extend_from_slice(rows_of(page, pages)?);
    }
    rows.extend_from_slice(&root.rows);
    Ok(rows)
}

fn view_base<'a>(root: &Root, pages: &'a Pages) -> Result<Option<&'a View>, Lack> {
    let Some(of) = &root.view_page else {
        return Ok(None);
    };
    match page(of, pages)? {
        Page::View(view) => Ok(Some(view)),
        _ => Err(Lack::Bad(ANOTHER_KIND)),
    }
}

/// Returns the complete view of a root.
pub(super) fn full_view(root: &Root, pages: &Pages) -> Result<View, Lack> {
    let mut view = view_base(root, pages)?.cloned().unwrap_or_default();
    for (key, value) in &root.view {
        match value {
            Some(value) => drop(view.insert(key.clone(), value.clone())),
            None => drop(view.remove(key)),
        }
    }
    Ok(view)
}

/// Returns the value of a key in the view of a root.
pub(super) fn value(root: &Root, pages: &Pages, key: &str) -> Result<Option<Vec<u8>>, Lack> {
    match root.view.get(key) {
        Some(value) => Ok(value.clone()),
        None => Ok(view_base(root, pages)?.and_then(|view| view.get(key).cloned())),
    }
}

/// Visits the log from its newest entry on, until `visit` breaks. Returns whether it did; otherwise
/// the log has ended.
pub(super) fn visit_log(
    root: &Root,
    pages: &Pages,
    mut visit: impl FnMut(&Entry) -> ControlFlow<()>,
) -> Result<bool, Lack> {
    for entry in root.log.iter().rev() {
        if visit(entry).is_break() {
            return Ok(true);
        }
    }
    for of in root.log_pages.iter().rev() {
        let Page::Log(entries, _) = page(of, pages)? else {
            return Err(Lack::Bad(ANOTHER_KIND));
        };
        for entry in entries.iter().rev() {
            if visit(entry).is_break() {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
