//! A lost root: docs/format/bucket.md, "Recovery".
//!
//! [`look`] says whether the root is lost, [`survey`] finds out by a listing what is left, and [`restore`]
//! writes a new root. Which one is the choice of a person; [`machines`](crate::machines) makes the states.

mod packs;
mod refusal;

pub use refusal::{Flaw, NotRestored, words_of};

use super::attempt_note::AttemptNote;
use super::cache::Cache;
use super::client::BucketClient;
use super::drive::unanswered;
use super::parallel::parallel;
use super::push::PushError;
use crate::files::{FileFailure, Files};
use crate::format::{Entry, MAX_PAGE_BYTES, Name, Page, PageKind, ROOT, Root, Row, join_listed};
use crate::machines::{Answer, Attempt, LogPage, RebuiltRoot, Remains, Request, Tag};
use dmv_core::job::Job;
use dmv_core::refs::Operation;
use dmv_core::repo::{Expiry, Purge};
use dmv_core::store::RepositoryId;
use dmv_net::trouble::{RootLoss, Trouble};
use packs::{FoundFile, PackReader};
use std::collections::{BTreeMap, BTreeSet};

/// Files that are looked into at the same time.
const AT_ONCE: usize = 8;
/// The most bytes of operations of packs that are kept. More only malice needs.
const MAX_OPERATION_BYTES: usize = 64 << 20;
/// The most pages of the log that end with the same operation: each is of a writer that has lost a race.
const MAX_NEWEST_PAGES: usize = 4;

/// What is at the place of the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootState {
    /// An intact root.
    Intact(Box<Root>),
    /// Nothing.
    Gone,
    /// A file that does not decode, in this state.
    Damaged {
        /// Why not.
        why: String,
        /// The state; `None`: the file is too large for a root and its state is unknown.
        tag: Option<Tag>,
    },
}

/// Looks at the root. Fails if it is from a newer version.
pub fn look(files: &dyn Files, job: &Job) -> Result<RootState, PushError> {
    let client = BucketClient::new(files, job);
    match client.repeat(|files| files.read_whole(ROOT, None)) {
        Ok((bytes, tag)) => match Root::decode(&bytes) {
            Ok(root) => Ok(RootState::Intact(Box::new(root))),
            Err(e) if e.is_too_new() => Err(Trouble::TooNew.into()),
            Err(e) => Ok(RootState::Damaged {
                why: e.what.to_owned(),
                tag: Some(tag),
            }),
        },
        Err(FileFailure::Missing) => Ok(RootState::Gone),
        Err(FileFailure::Length) => Ok(RootState::Damaged {
            why: "file is too large".to_owned(),
            tag: None,
        }),
        Err(e) => Err(e.into()),
    }
}

/// Finds out what is left of each repository at the place. Changes nothing there.
pub fn survey(files: &dyn Files, cache: &Cache, job: &Job) -> Result<Vec<Remains>, PushError> {
    let mut client = BucketClient::new(files, job);
    let folders = client.repeat(|files| files.list_folders())?;
    let repositories = folders
        .iter()
        .filter_map(|name| RepositoryId::from_hex(name));
    let mut all = Vec::new();
    for repository in repositories {
        client.know(repository);
        let mut survey = Survey::begin(&client, repository, job)?;
        survey.know(&mut client, cache.root().map(|(root, _)| root));
        survey.look_into_files(&client)?;
        all.push(survey.remains);
    }
    Ok(all)
}

struct Survey<'j> {
    remains: Remains,
    job: &'j Job,
    operation_bytes: usize,
    /// The pages of purges that the known root names.
    purge_pages: Vec<Name>,
}

impl<'j> Survey<'j> {
    /// Lists the files of a repository.
    fn begin(
        client: &BucketClient<'_>,
        repository: RepositoryId,
        job: &'j Job,
    ) -> Result<Survey<'j>, PushError> {
        let folder = repository.to_string();
        let listed = client.repeat(|files| files.list_all(&folder))?;
        let named = listed.into_iter().filter_map(|file| {
            let (of, name) = file.name.rsplit_once('/')?;
            Some((Name::from_hex(name).filter(|_| of == folder)?, file.len))
        });
        Ok(Survey {
            remains: Remains {
                repository,
                files: named.collect(),
                known: None,
                pages: Vec::new(),
                rows: BTreeMap::new(),
                operations: Vec::new(),
                burnt: BTreeSet::new(),
                purges: BTreeMap::new(),
                expired: BTreeMap::new(),
                has_lost_purges: false,
                unreadable: BTreeMap::new(),
            },
            job,
            operation_bytes: 0,
            purge_pages: Vec::new(),
        })
    }

    /// Takes the root that this device saw last, if it is of this repository.
    fn know(&mut self, client: &mut BucketClient<'_>, root: Option<Root>) {
        let Some(root) = root.filter(|root| root.repository == self.remains.repository) else {
            return;
        };
        self.take_log(&root.log);
        self.take_rows(&root.rows);
        self.purge_pages = root.purges.pages.iter().map(|page| page.name).collect();
        // Without its view, it is no state.
        if let Some(view) = client.view(&root) {
            self.remains.known = Some((root, view));
        }
    }

    /// Looks into all files: pages first, because they tell of packs.
    fn look_into_files(&mut self, client: &BucketClient<'_>) -> Result<(), PushError> {
        let reader = PackReader {
            client,
            repository: self.remains.repository,
        };
        let files: Vec<(Name, u64)> = self.remains.files.clone().into_iter().collect();
        let known = self.remains.rows.clone();
        let unknown = files.iter().filter(|(name, _)| !known.contains_key(name));
        let unknown: Vec<(Name, u64)> = unknown.copied().collect();
        let heads = at_once(self.job, &unknown, |(name, len)| reader.head(name, *len))?;
        let mut packs = Vec::new();
        for ((name, len), head) in unknown.into_iter().zip(heads) {
            match head {
                FoundFile::Page => self.take_page(client, name, len)?,
                FoundFile::Pack => packs.push((name, len)),
                FoundFile::Gone => drop(self.remains.files.remove(&name)),
                FoundFile::Unknown(why) => drop(self.remains.unreadable.insert(name, why)),
            }
        }
        let (there, bad) = (&self.remains.files, &self.remains.unreadable);
        let is_lost = |name: &Name| !there.contains_key(name) || bad.contains_key(name);
        self.remains.has_lost_purges |= self.purge_pages.iter().any(is_lost);
        let burnt = self.remains.burnt.clone();
        self.remains.rows.retain(|name, _| !burnt.contains(name));
        packs.retain(|(name, _)| !burnt.contains(name));
        packs.retain(|(name, _)| !self.remains.rows.contains_key(name));
        let rows = at_once(self.job, &packs, |(name, len)| reader.row(name, *len))?;
        for ((name, _), row) in packs.into_iter().zip(rows) {
            match row {
                Ok(row) => drop(self.remains.rows.insert(name, row)),
                Err(why) => drop(self.remains.unreadable.insert(name, why)),
            }
        }
        self.take_operations(&reader)
    }

    fn take_page(
        &mut self,
        client: &BucketClient<'_>,
        name: Name,
        len: u64,
    ) -> Result<(), PushError> {
        if len > MAX_PAGE_BYTES as u64 {
            self.remains.unreadable.insert(name, "page is too large");
            return Ok(());
        }
        let path = name.path(self.remains.repository);
        let bytes = match client.repeat(|files| files.read_whole(&path, None)) {
            Ok((bytes, _)) => bytes,
            Err(FileFailure::Missing) => return Ok(()),
            Err(e) => return Err(e.into()),
        };
        match Page::decode(&bytes) {
            Ok(Page::Log(entries, view)) => self.take_log_page(LogPage { entries, view }),
            Ok(Page::MetaRows(rows) | Page::DataRows(rows)) => self.take_rows(&rows),
            Ok(Page::View(_)) => {}
            Ok(Page::Purges(purges)) => {
                join_listed::<Purge>(&mut self.remains.purges, &purges);
            }
            Ok(Page::Expired(expired)) => {
                join_listed::<Expiry>(&mut self.remains.expired, &expired);
            }
            Err(e) if e.is_too_new() => return Err(Trouble::TooNew.into()),
            Err(e) => {
                // Magic and version come before the kind. A damaged page may have been one of purges.
                let kind = bytes.get(9).copied().unwrap_or_default();
                self.remains.has_lost_purges |= kind == PageKind::Purges as u8;
                self.remains.unreadable.insert(name, e.what);
            }
        }
        Ok(())
    }

    fn take_log(&mut self, log: &[Entry]) {
        let left = log.iter().flat_map(|entry| &entry.left);
        self.remains.burnt.extend(left);
    }

    /// Keeps the page if no other ends with a newer operation.
    fn take_log_page(&mut self, page: LogPage) {
        self.take_log(&page.entries);
        let pages = &mut self.remains.pages;
        let newest = pages.iter().map(LogPage::last).max().unwrap_or(0);
        if page.last() > newest {
            pages.clear();
        }
        if page.last() >= newest && pages.len() < MAX_NEWEST_PAGES {
            pages.push(page);
        }
    }

    /// Takes rows of packs that are there with this length.
    fn take_rows(&mut self, rows: &[Row]) {
        for row in rows {
            if self.remains.files.get(&row.name) == Some(&row.len) {
                self.remains.rows.insert(row.name, *row);
            }
        }
    }

    /// Reads the operations of joint packs.
    fn take_operations(&mut self, reader: &PackReader<'_>) -> Result<(), PushError> {
        let rows: Vec<Row> = self.remains.rows.values().copied().collect();
        let mut found: BTreeMap<[u8; 16], Operation> = BTreeMap::new();
        // In portions, because malice could make many large ones.
        for some in rows.chunks(AT_ONCE * 8) {
            for operation in at_once(self.job, some, |row| reader.operation(row))? {
                let Some((operation, len)) = operation else {
                    continue;
                };
                self.operation_bytes += len;
                if self.operation_bytes <= MAX_OPERATION_BYTES {
                    found.insert(operation.id, operation);
                }
            }
        }
        self.remains.operations = found.into_values().collect();
        Ok(())
    }
}

/// Does `work` on all items, several at once. Returns the results in their order.
fn at_once<T: Sync, R: Send>(
    job: &Job,
    items: &[T],
    work: impl Fn(&T) -> Result<R, FileFailure> + Sync,
) -> Result<Vec<R>, PushError> {
    parallel(AT_ONCE, items, |item| {
        job.check()?;
        Ok(work(item)?)
    })
}

/// Writes a root in place of a lost one, whose state is `lost`. Returns the root that is there then. Fails if
/// another one has come back meanwhile.
///
/// `note` has the aim of the command. If it knows an earlier attempt, the new root has the same operation.
pub fn restore(
    files: &dyn Files,
    lost: &RootState,
    new: &RebuiltRoot,
    note: &mut AttemptNote,
    job: &Job,
) -> Result<(Root, Tag), PushError> {
    let over = match lost {
        RootState::Gone => None,
        RootState::Damaged { tag: Some(tag), .. } => Some(tag.clone()),
        RootState::Damaged { why, tag: None } => {
            return Err(Trouble::LostRoot(RootLoss::Damaged(why.clone())).into());
        }
        RootState::Intact(_) => return Err(Trouble::Busy.into()),
    };
    let mut client = BucketClient::new(files, job);
    client.know(new.root.repository);
    if !new.pages.is_empty() {
        let Answer::Done = client.answer(&Request::PutPages(new.pages.clone())) else {
            return Err(client.failure().into());
        };
    }
    let bytes = new.root.encode();
    let bytes = bytes.map_err(|e| Trouble::Other(e.what.to_owned()))?;
    let (seq, operation) = new.root.last;
    let was_tried = note.noted().is_some();
    // There is no root that it replaces, whose write id would show that the attempt is over.
    let over_none = [0; 16];
    note.keep(
        operation,
        Some(Attempt {
            seq,
            over: over_none,
        }),
    );
    match client.answer(&Request::PutRoot { bytes, over }) {
        Answer::Replaced(tag) => {
            note.forget();
            return Ok((new.root.clone(), tag));
        }
        Answer::Refused | Answer::NotSent if !was_tried => {
            note.forget();
            return Err(client.failure().into());
        }
        _ => {}
    }
    let again = Request::GetRoot {
        unless: None,
        lost: 0,
    };
    match client.answer(&again) {
        Answer::Root(root, tag) => {
            note.forget();
            if has_operation(&root, &operation) {
                Ok((*root, tag))
            } else {
                // Another device has restored it, or pushed since.
                Err(Trouble::Busy.into())
            }
        }
        _ => Err(unanswered(&operation).into()),
    }
}

/// Returns whether the newest entries of a log have an operation.
pub fn has_operation(root: &Root, id: &[u8; 16]) -> bool {
    root.log.iter().any(|entry| entry.operation.id == *id)
}
