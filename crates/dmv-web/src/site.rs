//! What all requests share: the open repository, the secrets, notes, and what is kept from one page to
//! the next.

use crate::address::{Target, pairs};
use crate::doing::{CurrentChange, Lane, Note};
use crate::getting::CurrentTransfer;
use crate::guard::Secrets;
use crate::looking::WorktreeLooks;
use crate::program::{Program, ShownFailure, Stop};
use crate::sequence::Row;
use crate::words::shown;
use dmv_core::hash::ObjectId;
use dmv_core::repo::{LookError, PlaceError, Repo, RepoError, SharedRepo, Vacancy};
use dmv_core::store::RepositoryId;
use dmv_preview::Maker;
use hyper::StatusCode;
use hyper::http::request::Parts;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Notes about changes that are kept for the page that follows.
const MAX_NOTES: usize = 32;
/// Directories whose rows are kept for the next page of them.
const MAX_LISTINGS: usize = 4;
/// Entries of these directories together, unless one alone has more.
const MAX_LISTED: usize = 200_000;
/// How long a change may take to end when the server stops.
const LAST_CHANGE: Duration = Duration::from_secs(5);
/// Archives that are made at a time: each has a thread of its own.
const MAX_ARCHIVES: usize = 3;
/// The exit code of a command without a repository.
const NO_REPOSITORY: u8 = 10;
/// The exit code of any other failure.
const OTHER: u8 = 20;

/// How to serve.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The port; 0 takes a free one.
    pub port: u16,
    /// Whether nothing may be changed.
    pub read_only: bool,
    /// Whether programs for WebDAV may read commits.
    pub dav: bool,
}

/// What all requests share.
pub struct Site {
    /// The secrets of this run.
    pub secrets: Secrets,
    /// Whether nothing may be changed.
    pub read_only: bool,
    /// Whether commits are served to programs for WebDAV, too.
    pub dav: bool,
    /// The program.
    pub program: Box<dyn Program>,
    /// Makes previews, if this program can.
    pub previews: Option<Maker>,
    doing: Arc<CurrentChange>,
    transfers: Arc<CurrentChange>,
    /// Content on its way from a remote.
    pub getting: CurrentTransfer,
    /// Looks at the worktree.
    pub looking: WorktreeLooks,
    open: SharedRepo,
    first: OnceLock<First>,
    notes: Mutex<VecDeque<(u64, Note)>>,
    listings: Mutex<VecDeque<(ObjectId, Arc<Vec<Row>>)>>,
    archives: AtomicUsize,
}

/// The repository that was there first. Forms were made for it, so the pages show no other one, which may have come in
/// its place or lie around it.
struct First {
    id: RepositoryId,
    /// Its worktree, or a bare repository itself.
    at: PathBuf,
}

/// A form that was sent.
#[derive(Clone)]
pub struct Post {
    pairs: Vec<(String, Vec<u8>)>,
}

impl Post {
    /// Reads a form. `None` if it is not text, or has a NUL in it.
    pub fn parse(bytes: &[u8]) -> Option<Post> {
        let pairs = pairs(std::str::from_utf8(bytes).ok()?);
        let has_nul = pairs.iter().any(|(_, value)| value.contains(&0));
        (!has_nul).then_some(Post { pairs })
    }

    /// A field.
    pub fn value(&self, name: &str) -> Option<&[u8]> {
        let found = self.pairs.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| &value[..])
    }

    /// All fields of this name.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let found = self.pairs.iter().filter(move |(key, _)| key == name);
        found.map(|(_, value)| &value[..])
    }

    /// A field that is text.
    pub fn text(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.value(name)?).ok()
    }
}

/// One request of somebody who may ask.
pub struct Ask<'a> {
    /// What all requests share.
    pub site: &'a Arc<Site>,
    /// The repository.
    pub repo: Arc<Repo>,
    /// What is asked for.
    pub target: &'a Target,
    /// The headers.
    pub head: &'a Parts,
}

impl Site {
    /// A site without an open repository.
    pub fn new(
        secrets: Secrets,
        options: Options,
        program: Box<dyn Program>,
        previews: Option<Maker>,
    ) -> Site {
        Site {
            secrets,
            read_only: options.read_only,
            dav: options.dav,
            program,
            previews,
            doing: Arc::default(),
            transfers: Arc::default(),
            getting: CurrentTransfer::default(),
            looking: WorktreeLooks::default(),
            open: SharedRepo::default(),
            first: OnceLock::new(),
            notes: Mutex::default(),
            listings: Mutex::default(),
            archives: AtomicUsize::new(0),
        }
    }

    /// Stops what runs in the background.
    pub fn stop(&self) {
        self.getting.cancel();
        self.looking.stop();
        let lanes = [&self.doing, &self.transfers];
        lanes.iter().for_each(|lane| lane.cancel());
        lanes.iter().for_each(|lane| lane.rest(LAST_CHANGE));
    }

    /// The change of a lane that is under way, or was its last one.
    pub fn lane(&self, lane: Lane) -> &Arc<CurrentChange> {
        match lane {
            Lane::Files => &self.doing,
            Lane::Transfers => &self.transfers,
        }
    }

    /// A failure in words, and its status.
    pub fn told(&self, stop: Stop) -> (StatusCode, ShownFailure) {
        let own = |code: &str, exit, message: &str| ShownFailure {
            code: code.to_owned(),
            exit,
            message: message.to_owned(),
            hint: None,
        };
        let told = match stop {
            Stop::NoPage => {
                return (
                    StatusCode::NOT_FOUND,
                    own("no-page", 2, "there is no such page"),
                );
            }
            Stop::NoFile(path) => {
                let path = shown(&path);
                let message = if path.is_empty() {
                    "this names no file of your worktree".to_owned()
                } else {
                    format!("your worktree has no file '{path}'")
                };
                let mut told = own("no-such-path", OTHER, &message);
                told.hint = Some("dmv status".to_owned());
                return (StatusCode::NOT_FOUND, told);
            }
            Stop::Bad(why) => return (StatusCode::BAD_REQUEST, own("usage", 2, why)),
            Stop::Repo(e) => {
                let is_name = matches!(
                    e,
                    RepoError::Look(LookError::NoSuchPath { .. })
                        | RepoError::Revision(_)
                        | RepoError::Look(LookError::BadPath { .. })
                        | RepoError::Look(LookError::NoCommit)
                        | RepoError::Look(LookError::WrongKind { .. })
                );
                let is_refusal = matches!(e, RepoError::Undo(_) | RepoError::Conflict(_));
                let told = self.program.explain(e);
                match told.exit {
                    _ if is_name => return (StatusCode::NOT_FOUND, told),
                    OTHER if is_refusal => return (StatusCode::CONFLICT, told),
                    _ => told,
                }
            }
            Stop::Ops(e) => self.program.explain_ops(e),
            Stop::Told(told) => told,
        };
        let status = match told.exit {
            2 => StatusCode::BAD_REQUEST,
            5 => StatusCode::CONFLICT,
            6 => StatusCode::NOT_FOUND,
            10 | 11 => StatusCode::SERVICE_UNAVAILABLE,
            12 => StatusCode::FORBIDDEN,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, told)
    }

    /// The repository as it is now: the one that was there first. It stays open as long as nobody else changes it.
    pub fn repo(&self) -> Result<Arc<Repo>, Stop> {
        let found =
            self.program
                .find()
                .and_then(|(place, whose)| match Vacancy::of(&place.dmv, true) {
                    Vacancy::Repository => Ok((place, whose)),
                    _ => Err(self
                        .program
                        .explain(RepoError::Place(PlaceError::NotFound(place.dmv)))),
                });
        let (place, whose) = match found {
            Ok(found) => found,
            Err(told) => {
                self.forget();
                return Err(Stop::Told(match self.first.get() {
                    Some(first) if told.exit == NO_REPOSITORY => first.has_gone(),
                    _ => told,
                }));
            }
        };
        let repo = self.open.get(place, whose)?;
        let first = self.first.get_or_init(|| First {
            id: repo.id(),
            at: repo.worktree_root().unwrap_or(repo.dmv_dir()).to_owned(),
        });
        if first.id != repo.id() {
            return Err(Stop::Told(first.is_another()));
        }
        self.program.check(&repo).map_err(Stop::Told)?;
        Ok(repo)
    }

    /// Opens the repository again for the next request.
    pub fn forget(&self) {
        self.open.forget();
    }

    /// Keeps a note for the next page; returns its number.
    pub fn keep_note(&self, note: Note) -> u64 {
        let mut notes = lock(&self.notes);
        let number = notes.back().map_or(1, |(number, _)| number + 1);
        notes.push_back((number, note));
        while notes.len() > MAX_NOTES {
            notes.pop_front();
        }
        number
    }

    /// The note with a number.
    pub fn note(&self, number: u64) -> Option<Note> {
        let notes = lock(&self.notes);
        let found = notes.iter().find(|(known, _)| *known == number);
        found.map(|(_, note)| note.clone())
    }

    /// The rows of the directory `tree`, made by `make` unless they are known.
    pub fn listing(
        &self,
        tree: ObjectId,
        make: impl FnOnce() -> Result<Vec<Row>, Stop>,
    ) -> Result<Arc<Vec<Row>>, Stop> {
        let known = lock(&self.listings)
            .iter()
            .find(|(id, _)| *id == tree)
            .cloned();
        if let Some((_, rows)) = known {
            return Ok(rows);
        }
        let rows = Arc::new(make()?);
        let mut listings = lock(&self.listings);
        listings.push_back((tree, rows.clone()));
        let entries = |(_, rows): &(ObjectId, Arc<Vec<Row>>)| -> usize {
            rows.iter().map(Row::entries).sum()
        };
        let mut sum: usize = listings.iter().map(entries).sum();
        while listings.len() > MAX_LISTINGS || listings.len() > 1 && sum > MAX_LISTED {
            sum -= listings.pop_front().as_ref().map_or(0, entries);
        }
        Ok(rows)
    }

    /// Takes one of the places for archives, until what it returns is dropped.
    pub fn archive_place(self: &Arc<Site>) -> Result<ArchivePlace, Stop> {
        let before = self.archives.fetch_add(1, Ordering::SeqCst);
        let place = ArchivePlace(self.clone());
        if before < MAX_ARCHIVES {
            return Ok(place);
        }
        Err(Stop::Told(ShownFailure {
            code: "busy".to_owned(),
            exit: 11,
            message: "enough archives are being made; try again when one is finished".to_owned(),
            hint: None,
        }))
    }
}

/// A place among the archives that are being made.
pub struct ArchivePlace(Arc<Site>);

impl Drop for ArchivePlace {
    fn drop(&mut self) {
        self.0.archives.fetch_sub(1, Ordering::SeqCst);
    }
}

impl First {
    fn has_gone(&self) -> ShownFailure {
        let at = self.at.display();
        self.told(
            format!("the repository of these pages is no longer at {at}"),
            "put it back; or stop dmv web, and start it where the repository is",
        )
    }

    fn is_another(&self) -> ShownFailure {
        let at = self.at.display();
        self.told(
            format!(
                "the repository of these pages is no longer at {at}; another one is in its place"
            ),
            "stop dmv web and start it again, to see the other one",
        )
    }

    fn told(&self, message: String, hint: &str) -> ShownFailure {
        ShownFailure {
            code: "no-repository".to_owned(),
            exit: NO_REPOSITORY,
            message,
            hint: Some(hint.to_owned()),
        }
    }
}

impl Ask<'_> {
    /// The revision in the second segment, as text.
    pub fn revision(&self) -> Result<&str, Stop> {
        let text = self.target.segments.get(1).map(|s| std::str::from_utf8(s));
        text.and_then(Result::ok)
            .ok_or(Stop::Bad("a revision is text"))
    }

    /// A header that is text.
    pub fn header(&self, name: hyper::header::HeaderName) -> Option<&str> {
        self.head.headers.get(name)?.to_str().ok()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
