//! The root that takes the place of a lost one.

use super::super::draft::{NewPages, Pages, Stamp, Writer, add_purges, change_expired, intended};
use super::super::{Fresh, Limits};
use super::{Candidate, Remains};
use crate::format::{Entry, Page, Root, Row, View};
use crate::machines::draft::Lack;
use dmv_core::hash::ObjectId;
use std::collections::BTreeSet;

/// How much greater the counts of a new root are than those that were ever seen: so a device that has seen the
/// lost root, or has prepared something for it, takes the new one for later.
const JUMP: u64 = 1 << 32;
/// The most rows on a page.
const ROWS_ON_PAGE: usize = 1 << 16;

/// A root in place of a lost one, and the pages that have to be stored before it.
#[derive(Clone, Debug)]
pub struct RebuiltRoot {
    /// The root.
    pub root: Root,
    /// The names and bytes of its pages.
    pub pages: NewPages,
}

impl Remains {
    /// Returns a root with a state and the packs in `rows`. With `with_log`, it has the newest operations that
    /// are known; otherwise the recovery alone. Files in `back` do not count as expired.
    ///
    /// Fails with the reason if there can be no such root.
    pub fn root_of(
        &self,
        state: &Candidate,
        rows: Vec<Row>,
        with_log: bool,
        back: &BTreeSet<ObjectId>,
        stamp: &Stamp,
        fresh: Fresh,
    ) -> Result<RebuiltRoot, &'static str> {
        let limits = Limits::default();
        let counted = rows.iter().map(|row| row.generation);
        let known = self.known.iter().map(|(root, _)| root.generation);
        let seen = counted.chain(known).max().unwrap_or(0);
        let generation = seen.max(self.greatest_seq()) + JUMP;
        let mut root = Root::first(self.repository, fresh());
        (root.generation, root.freed) = (generation, generation);
        root.previous = match &self.known {
            Some((known, _)) => known.write,
            None => fresh(),
        };
        let mut new = Writer {
            pages: Vec::new(),
            fresh,
        };
        self.put_log(&mut root, state, with_log, stamp, limits);
        put_view(&mut root, &state.view, limits, &mut new).map_err(why)?;
        put_rows(&mut root, rows, limits, &mut new).map_err(why)?;
        if !self.purges.is_empty() {
            add_purges(&mut root, &Pages::new(), self.purges.clone(), &mut new).map_err(why)?;
            root.purges.count = generation;
            let ids = self.purges.values();
            // Whether packs still have purged chunks is not known. A purge finds out.
            let all: usize = ids
                .map(|buried| buried.files.len() + buried.pieces.len())
                .sum();
            root.purges.unpurged = all as u64;
        }
        let mut expired = self.expired.clone();
        for files in expired.values_mut() {
            files.retain(|id| !back.contains(id));
        }
        expired.retain(|_, files| !files.is_empty());
        let nothing = BTreeSet::new();
        change_expired(&mut root, &Pages::new(), expired, &nothing, &mut new).map_err(why)?;
        let pages = new.pages;
        Ok(RebuiltRoot { root, pages })
    }

    fn put_log(
        &self,
        root: &mut Root,
        state: &Candidate,
        with_log: bool,
        stamp: &Stamp,
        limits: Limits,
    ) {
        // Pages of the log that the state does not have must not be taken for newer ones later.
        let last_on_pages = self.last_on_pages();
        root.last = (state.last.0.max(last_on_pages), state.last.1);
        let operation = intended(root, stamp, &[]);
        if with_log && last_on_pages <= state.last.0 {
            let size = |entry: &Entry| entry.operation.encode().len() + 16 * entry.left.len();
            let mut left = limits.bytes;
            let fits = |entry: &&Entry| {
                let rest = left.checked_sub(size(entry));
                left = rest.unwrap_or(0);
                rest.is_some()
            };
            let newest = state.log.iter().rev().take(limits.entries - 1);
            root.log = newest.take_while(fits).cloned().collect();
            root.log.reverse();
        }
        root.last = (operation.seq, operation.id);
        let left = Vec::new();
        root.log.push(Entry { operation, left });
    }
}

fn why(lack: Lack) -> &'static str {
    match lack {
        Lack::Bad(why) => why,
        Lack::Pages(_) => "a page is missing",
    }
}

fn put_view(root: &mut Root, view: &View, limits: Limits, new: &mut Writer) -> Result<(), Lack> {
    let size: usize = view
        .iter()
        .map(|(key, value)| key.len() + value.len())
        .sum();
    if size > limits.bytes {
        root.view_page = Some(new.put(&Page::View(view.clone()))?)
    } else {
        let values = view.iter();
        root.view = values
            .map(|(key, value)| (key.clone(), Some(value.clone())))
            .collect();
    }
    Ok(())
}

fn put_rows(
    root: &mut Root,
    mut rows: Vec<Row>,
    limits: Limits,
    new: &mut Writer,
) -> Result<(), Lack> {
    for row in rows.iter_mut().filter(|row| row.generation == 0) {
        row.generation = root.generation;
    }
    rows.sort_unstable();
    if rows.len() <= limits.rows {
        root.rows = rows;
        return Ok(());
    }
    let (meta, data): (Vec<Row>, Vec<Row>) =
        rows.into_iter().partition(|row| row.kind.has_metadata());
    for part in meta.chunks(ROWS_ON_PAGE) {
        root.meta_pages
            .push(new.put(&Page::MetaRows(part.to_vec()))?);
    }
    for part in data.chunks(ROWS_ON_PAGE) {
        root.data_pages
            .push(new.put(&Page::DataRows(part.to_vec()))?);
    }
    Ok(())
}
