//! Carries out the requests of the machines: docs/format/bucket.md, "Writing".
//!
//! A [`BucketClient`] translates between the machines of [`machines`](crate::machines), which know no store, and
//! [`Files`], which knows no roots. It repeats what may be repeated, because a machine takes an
//! unclear answer for the end, and it remembers why the store refused.

use super::cache::Cache;
use super::parallel::parallel;
use crate::files::{FileFailure, Files};
use crate::format::{
    Entry, Expirations, Name, Page, PageRef, Purges, ROOT, Reason, ReasonList, Root, View,
    join_listed,
};
use crate::machines::{Answer, Request};
use dmv_core::job::{Cancelled, Job};
use dmv_core::repo::{Expiry, Purge};
use dmv_core::store::{RepositoryId, random_bytes};
use dmv_net::trouble::{RootLoss, Trouble};
use std::time::Duration;

/// How often a request is made that may be repeated.
const TRIES: u32 = 5;
/// The same where each of them is repeated below.
const FEW_TRIES: u32 = 2;
/// The wait after the first failure. It doubles after each.
const FIRST_WAIT: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 100 });
/// A writer that has lost a race waits a random part of this, and of twice this after the next.
const RACE_WAIT: Duration = Duration::from_millis(25);
/// The longest such wait.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// Pages that are read at the same time.
const PAGES_AT_ONCE: usize = 8;

/// Carries out requests, one at a time.
pub struct BucketClient<'f> {
    files: &'f dyn Files,
    job: &'f Job,
    repository: Option<RepositoryId>,
    trouble: Option<Trouble>,
}

impl<'f> BucketClient<'f> {
    /// Returns a client of a bucket. It tries nothing again after the job was cancelled.
    pub fn new(files: &'f dyn Files, job: &'f Job) -> BucketClient<'f> {
        BucketClient {
            files,
            job,
            repository: None,
            trouble: None,
        }
    }

    /// Fails if the user has cancelled.
    pub fn check(&self) -> Result<(), Cancelled> {
        self.job.check()
    }

    /// Says which repository is in the bucket, if it is known before the root is read.
    pub fn know(&mut self, repository: RepositoryId) {
        self.repository = Some(repository);
    }

    /// Returns why the last request that failed did so.
    pub fn trouble(&self) -> Option<&Trouble> {
        self.trouble.as_ref()
    }

    /// Returns why the last request failed, or that the reason is unknown.
    pub fn failure(&self) -> Trouble {
        let unclear = || Trouble::Cut("no answer that helps".to_owned());
        self.trouble.clone().unwrap_or_else(unclear)
    }

    /// After a failed reading: succeeds if a file is lost that the root named, which a newer root may not
    /// name. Otherwise fails.
    pub fn lost_or_failed(&self) -> Result<(), Trouble> {
        match self.failure() {
            Trouble::Lost(_) => Ok(()),
            trouble => Err(trouble),
        }
    }

    /// Notes that a file is lost that the root names, for the question why a machine has failed.
    pub fn note_loss(&mut self, path: &str) {
        self.trouble = Some(Trouble::Lost(path.to_owned()));
    }

    /// Carries out a request.
    pub fn answer(&mut self, request: &Request) -> Answer {
        match request {
            Request::GetRoot { unless, lost } => {
                if *lost > 0 && !pause_after_lost_races(self.job, *lost) {
                    return Answer::Unclear;
                }
                match self.repeat(|files| files.read_whole(ROOT, unless.as_ref())) {
                    Ok((bytes, tag)) => match Root::decode(&bytes) {
                        Ok(root) => {
                            self.repository = Some(root.repository);
                            Answer::Root(Box::new(root), tag)
                        }
                        Err(e) if e.is_too_new() => self.unclear(Trouble::TooNew),
                        Err(e) => {
                            let why = RootLoss::Damaged(e.what.to_owned());
                            self.unclear(Trouble::LostRoot(why))
                        }
                    },
                    Err(FileFailure::Unchanged) => Answer::Unchanged,
                    Err(FileFailure::Missing) => Answer::NoRoot,
                    Err(e) => self.failed(e),
                }
            }
            Request::GetPages(pages) => self.read_pages(pages),
            Request::PutPages(pages) => {
                for (name, bytes) in pages {
                    let Some(path) = self.path(name) else {
                        return Answer::Unclear;
                    };
                    if let Err(e) = self.repeat(|files| files.write(&path, bytes.clone())) {
                        return self.failed(e);
                    }
                }
                Answer::Done
            }
            Request::PutRoot { bytes, over } => {
                match self.files.write_if(ROOT, bytes.clone(), over.as_ref()) {
                    Ok(tag) => Answer::Replaced(tag),
                    Err(FileFailure::Trouble(trouble)) => {
                        let answer = match &trouble {
                            Trouble::Unreachable(_) => Answer::NotSent,
                            trouble if stays(trouble) => Answer::Refused,
                            _ => Answer::Unclear,
                        };
                        self.trouble = Some(trouble);
                        answer
                    }
                    Err(e) => self.failed(e),
                }
            }
            Request::Delete(names) => {
                let paths: Option<Vec<String>> = names.iter().map(|name| self.path(name)).collect();
                let Some(paths) = paths else {
                    return Answer::Unclear;
                };
                match self.repeat(|files| files.delete_all(&paths)) {
                    Ok(()) => Answer::Done,
                    Err(e) => self.failed(e),
                }
            }
        }
    }

    /// Returns the complete view of a root. `None`: its page cannot be read, and
    /// [`trouble`](Self::trouble) may say why.
    pub fn view(&mut self, root: &Root) -> Option<View> {
        let mut view = View::new();
        if let Some(page) = &root.view_page {
            match self.pages(vec![*page])?.pop()? {
                Page::View(base) => view = base,
                _ => return None,
            }
        }
        for (key, value) in &root.view {
            match value {
                Some(value) => drop(view.insert(key.clone(), value.clone())),
                None => drop(view.remove(key)),
            }
        }
        Some(view)
    }

    /// Returns the log of a root from an operation on, the oldest first, and perhaps some that are
    /// older. `None`: one of its pages cannot be read.
    pub fn log(&mut self, root: &Root, from: u64) -> Option<Vec<Entry>> {
        let mut first = root.last.0 + 1 - root.log.len() as u64;
        let mut wanted = Vec::new();
        for page in root.log_pages.iter().rev() {
            if first <= from {
                break;
            }
            first = first.saturating_sub(u64::from(page.items));
            wanted.push(*page);
        }
        wanted.reverse();
        let mut log = self.log_pages(&wanted)?;
        log.extend(root.log.iter().cloned());
        Some(log)
    }

    /// Returns the entries of some pages of a log. `None`: one of them cannot be read.
    pub fn log_pages(&mut self, pages: &[PageRef]) -> Option<Vec<Entry>> {
        let mut log = Vec::new();
        for page in self.pages(pages.to_vec())? {
            match page {
                Page::Log(entries, _) => log.extend(entries),
                _ => return None,
            }
        }
        Some(log)
    }

    /// Returns what was purged by a root, from copies where there are any. `None`: one of its pages cannot be
    /// read.
    pub fn purges(&mut self, root: &Root, cache: &Cache) -> Option<Purges> {
        self.listed::<Purge>(&root.purges.pages, cache)
    }

    /// Returns what has expired by a root, likewise.
    pub fn expired(&mut self, root: &Root, cache: &Cache) -> Option<Expirations> {
        self.listed::<Expiry>(&root.expired, cache)
    }

    fn listed<R: Reason>(&mut self, pages: &[PageRef], cache: &Cache) -> Option<ReasonList<R>> {
        let mut all = ReasonList::<R>::new();
        for page in pages {
            let name = page.name.to_string();
            let copy = cache.file(&name);
            let copy = copy.filter(|bytes| bytes.len() == page.len as usize);
            let found = match copy.and_then(|bytes| Page::decode(&bytes).ok()) {
                Some(found) => found,
                None => {
                    let found = self.pages(vec![*page])?.pop()?;
                    if let Ok((_, bytes)) = found.encode(page.name) {
                        cache.keep_file(&name, &bytes);
                    }
                    found
                }
            };
            let Some(found) = R::listed_on(&found) else {
                self.trouble = Some(unreadable("a page of the root", "it is another page"));
                return None;
            };
            join_listed::<R>(&mut all, found);
        }
        Some(all)
    }

    fn pages(&mut self, pages: Vec<PageRef>) -> Option<Vec<Page>> {
        if pages.is_empty() {
            return Some(Vec::new());
        }
        match self.answer(&Request::GetPages(pages)) {
            Answer::Pages(pages) => Some(pages),
            Answer::Gone => {
                self.trouble = Some(Trouble::Lost("a page of the root".to_owned()));
                None
            }
            _ => None,
        }
    }

    fn path(&self, name: &Name) -> Option<String> {
        self.repository.map(|repository| name.path(repository))
    }

    fn read_pages(&mut self, pages: &[PageRef]) -> Answer {
        let read = |page: &PageRef| {
            let path = self.path(&page.name).ok_or(FileFailure::Missing)?;
            let (bytes, _) = self.repeat(|files| files.read_whole(&path, None))?;
            let decoded = if bytes.len() as u64 == u64::from(page.len) {
                Page::decode(&bytes).map_err(|e| e.what)
            } else {
                Err("it has another length than the root says")
            };
            decoded.map_err(|why| FileFailure::Trouble(unreadable("a page of the root", why)))
        };
        match parallel(PAGES_AT_ONCE, pages, read) {
            Ok(pages) => Answer::Pages(pages),
            Err(FileFailure::Missing) => Answer::Gone,
            Err(e) => self.failed(e),
        }
    }

    /// Makes a request that may be made again, until its answer is clear.
    pub fn repeat<T>(
        &self,
        mut ask: impl FnMut(&dyn Files) -> Result<T, FileFailure>,
    ) -> Result<T, FileFailure> {
        let mut pause = FIRST_WAIT;
        let tries = if self.files.repeats() {
            FEW_TRIES
        } else {
            TRIES
        };
        for _ in 1..tries {
            match ask(self.files) {
                Err(FileFailure::Trouble(trouble)) if !stays(&trouble) => {}
                done => return done,
            }
            if !wait(self.job, pause) {
                break;
            }
            pause *= 2;
        }
        ask(self.files)
    }

    fn failed(&mut self, failed: FileFailure) -> Answer {
        let trouble = match failed {
            FileFailure::Trouble(trouble) => trouble,
            FileFailure::Length => unreadable("a file", "it has another length than the root says"),
            // Another device has replaced the root: the next attempt shows it.
            FileFailure::Missing | FileFailure::Unchanged | FileFailure::Refused => {
                return Answer::Unclear;
            }
        };
        self.unclear(trouble)
    }

    fn unclear(&mut self, trouble: Trouble) -> Answer {
        self.trouble = Some(trouble);
        Answer::Unclear
    }
}

/// Waits for a time. Returns `false` if the job was cancelled.
fn wait(job: &Job, time: Duration) -> bool {
    const LOOK: Duration = Duration::from_millis(20);
    let until = std::time::Instant::now() + time;
    loop {
        let left = until.saturating_duration_since(std::time::Instant::now());
        match job.is_cancelled() {
            true => return false,
            false if left.is_zero() => return true,
            false => std::thread::sleep(left.min(LOOK)),
        }
    }
}

/// Returns whether the same request would fail again.
pub fn stays(trouble: &Trouble) -> bool {
    !matches!(
        trouble,
        Trouble::Busy
            | Trouble::Unreachable(_)
            | Trouble::Cut(_)
            | Trouble::Page
            | Trouble::Other(_)
    )
}

fn unreadable(what: &str, why: &str) -> Trouble {
    Trouble::Damaged(format!("{what} cannot be read: {why}"))
}

/// Waits a random time after `lost` lost races. Returns `false` if the job is cancelled.
pub fn pause_after_lost_races(job: &Job, lost: u32) -> bool {
    wait(job, race_wait(lost))
}

/// A random time, longer after each lost race: otherwise those who lose together meet again.
fn race_wait(lost: u32) -> Duration {
    let most = (RACE_WAIT * 2_u32.pow(lost.min(10))).min(LONGEST_WAIT);
    let [a, b, ..] = random_bytes();
    most * u32::from(u16::from_le_bytes([a, b])) / u32::from(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::memory::{Fault, MemFiles};

    fn get() -> Request {
        Request::GetRoot {
            unless: None,
            lost: 0,
        }
    }

    #[test]
    fn a_root_is_read_created_once_and_replaced_in_its_state_only() {
        let (files, job) = (MemFiles::default(), Job::default());
        let mut client = BucketClient::new(&files, &job);
        assert!(matches!(client.answer(&get()), Answer::NoRoot));
        let root = Root::first(RepositoryId::from_bytes([7; 16]), [1; 16]);
        let bytes = root.encode().expect("it is small");
        let create = Request::PutRoot {
            bytes: bytes.clone(),
            over: None,
        };
        assert!(matches!(client.answer(&create), Answer::Replaced(_)));
        assert!(matches!(client.answer(&create), Answer::Unclear));
        assert!(client.trouble().is_none());
        let Answer::Root(found, tag) = client.answer(&get()) else {
            panic!("there is a root");
        };
        assert_eq!(*found, root);
        let again = Request::GetRoot {
            unless: Some(tag),
            lost: 3,
        };
        assert!(matches!(client.answer(&again), Answer::Unchanged));
        files.fail(&[Fault::Denied]);
        assert!(matches!(client.answer(&create), Answer::Refused));
        assert!(matches!(client.trouble(), Some(Trouble::Denied(_))));
    }

    #[test]
    fn a_cut_is_tried_again_and_then_reported() {
        let files = MemFiles::default();
        files.cut_after(Some(0));
        let job = Job::default();
        let mut client = BucketClient::new(&files, &job);
        assert!(matches!(client.answer(&get()), Answer::Unclear));
        assert_eq!(files.counts().get, TRIES as usize);
        assert!(matches!(client.trouble(), Some(Trouble::Cut(_))));
        job.cancel();
        let mut client = BucketClient::new(&files, &job);
        assert!(matches!(client.answer(&get()), Answer::Unclear));
        assert_eq!(files.counts().get, 2, "a cancelled job tries no more");
    }

    #[test]
    fn pages_are_read_back_and_a_missing_or_damaged_one_is_noticed() {
        let (files, job) = (MemFiles::default(), Job::default());
        let mut client = BucketClient::new(&files, &job);
        client.know(RepositoryId::from_bytes([7; 16]));
        let made: Vec<_> = (0..10_u8)
            .map(|n| {
                let name = Name([n; 16]);
                let view = [(format!("branch/{n}"), vec![n; 32])].into();
                let page = Page::View(view);
                let (at, bytes) = page.encode(name).expect("it is small");
                (at, name, bytes, page)
            })
            .collect();
        let put = made
            .iter()
            .map(|(_, name, bytes, _)| (*name, bytes.clone()));
        let put = Request::PutPages(put.collect());
        assert!(matches!(client.answer(&put), Answer::Done));
        let wanted = Request::GetPages(made.iter().map(|(at, ..)| *at).collect());
        let Answer::Pages(pages) = client.answer(&wanted) else {
            panic!("all are there");
        };
        assert!(pages.iter().eq(made.iter().map(|(.., page)| page)));
        let path = made[3].1.path(RepositoryId::from_bytes([7; 16]));
        let mut bytes = files.content(&path).expect("it is there");
        bytes[12] ^= 1;
        files.set(&path, bytes);
        assert!(matches!(client.answer(&wanted), Answer::Unclear));
        assert!(client.trouble().is_some());
        files.remove(&path);
        assert!(matches!(client.answer(&wanted), Answer::Gone));
    }
}
