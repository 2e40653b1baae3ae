//! A repository that answers peers: the allow-list decides who may connect, a session answers.
//!
//! This implements [`Service`] for [`serve`](super::serve()). `blocking` runs it.

use super::pump::{Sink, Source};
use super::{Limits, ListenAddress, PeerAddress, RelayState, Service, TimedStream};
use crate::session::{self, Grant, Link, NetError, SessionReport};
use crate::wire::ReadOnly;
use dmv_core::job::Job;
use dmv_core::repo::{
    Access, OperationRequest, Peer, PeerKey, PlaceError, Repo, RepoError, RepositoryLocation,
    Stamp, Vacancy,
};
use iroh::endpoint::{RecvStream, SendStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::runtime::Handle;

/// How to serve a repository.
pub struct ServeOptions {
    /// Where to listen.
    pub listen: ListenAddress,
    /// Whether to announce the repository on the local network.
    pub lan: bool,
    /// The label in the announcement.
    pub label: String,
    /// The relays that the user has set, as URLs.
    pub relays: Vec<String>,
    /// Whether to refuse all pushes.
    pub read_only: bool,
    /// The limits on connections.
    pub limits: Limits,
    /// Makes the entry for the operation log from the peer that pushes.
    pub request: Box<dyn Fn(&Peer) -> OperationRequest + Send + Sync>,
    /// Receives the events.
    pub event: Box<dyn Fn(ServeEvent) + Send + Sync>,
}

/// An event while a repository is served.
#[derive(Debug)]
pub enum ServeEvent {
    /// Peers can connect to these addresses.
    Ready(Vec<PeerAddress>),
    /// The state of the connection to the relay has changed.
    Relay {
        /// The relay's URL.
        url: String,
        /// The new state. It says whether peers can connect through the relay.
        state: RelayState,
    },
    /// A peer with an unknown key was refused.
    TurnedAway(PeerKey),
    /// A session with a peer begins.
    Came(Peer),
    /// A session has ended, with this result.
    Session(Peer, Result<SessionReport, NetError>),
}

/// A served repository.
pub(super) struct Answers {
    pub(super) place: RepositoryLocation,
    /// The repository opened once more, to read the allow-list only.
    pub(super) list: Mutex<Repo>,
    /// The repository for sessions that only read. A session that may write opens its own.
    pub(super) readers: Readers,
    pub(super) options: ServeOptions,
}

impl Answers {
    fn find(&self, key: &PeerKey) -> Option<Peer> {
        let list = self
            .list
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        // If the allow-list cannot be read, no peer may connect.
        list.peer(key).ok().flatten()
    }

    fn session(&self, peer: &Peer, access: Access, link: Link, job: &Job) -> SessionEnd {
        let opened = if Vacancy::of(&self.place.dmv, true) != Vacancy::Repository {
            Err(PlaceError::NotFound(self.place.dmv.clone()).into())
        } else if access == Access::Read {
            self.readers.open(&self.place)
        } else {
            Repo::open_place(self.place.clone()).map(Arc::new)
        };
        let repo = match opened {
            Ok(repo) => repo,
            Err(e) => return Err(session::refuse(link, e.into())),
        };
        let limit = match access {
            _ if self.options.read_only => Some(ReadOnly::Server),
            Access::Read => Some(ReadOnly::Client),
            Access::Write => None,
        };
        let request = (self.options.request)(peer);
        let grant = Grant::of(&repo, limit).to_device(*peer.key.as_bytes());
        session::serve(&repo, link, grant, &request, job)
    }
}

/// The repository, opened once for all sessions that only read, as long as nothing changes in it.
/// What one session has read, the others find in memory.
#[derive(Default)]
pub(super) struct Readers(Mutex<Option<(Stamp, Weak<Repo>)>>);

impl Readers {
    fn open(&self, place: &RepositoryLocation) -> Result<Arc<Repo>, RepoError> {
        if let Some(repo) = self.unchanged() {
            return Ok(repo);
        }
        // Opening takes long if the database is busy. Sessions that begin meanwhile also open it.
        let (repo, stamp) = Repo::open_stamped(place.clone())?;
        let repo = Arc::new(repo);
        *self.lock() = stamp.map(|stamp| (stamp, Arc::downgrade(&repo)));
        Ok(repo)
    }

    fn unchanged(&self) -> Option<Arc<Repo>> {
        let last = self.lock();
        let (stamp, repo) = last.as_ref()?;
        let repo = repo.upgrade()?;
        (repo.stamp().as_ref() == Some(stamp)).then_some(repo)
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Stamp, Weak<Repo>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type SessionEnd = Result<SessionReport, NetError>;

impl Service for Answers {
    fn access(&self, key: &PeerKey) -> Option<Access> {
        let access = self.find(key)?.access;
        Some(if self.options.read_only {
            Access::Read
        } else {
            access
        })
    }

    fn turned_away(&self, key: &PeerKey) {
        (self.options.event)(ServeEvent::TurnedAway(*key));
    }

    async fn answer(
        self: Arc<Self>,
        key: PeerKey,
        access: Access,
        incoming: TimedStream<RecvStream>,
        outgoing: TimedStream<SendStream>,
    ) {
        let handle = Handle::current();
        let job = Arc::new(Job::default());
        // This is dropped when the peer's connection was closed.
        let _cancel = CancelOnDrop(job.clone());
        let answered = tokio::task::spawn_blocking(move || {
            let Some(peer) = self.find(&key) else {
                return;
            };
            (self.options.event)(ServeEvent::Came(peer.clone()));
            let (source, _) = Source::new(incoming, &handle);
            let ended = match Link::through(source, Sink::new(outgoing, &handle)) {
                Ok(mut link) => {
                    link.be_patient(self.options.limits.idle_time);
                    self.session(&peer, access, link, &job)
                }
                Err(e) => Err(e.into()),
            };
            (self.options.event)(ServeEvent::Session(peer, ended));
        });
        // If the thread panics, only this session ends. The thread has reported the panic.
        let _ = answered.await;
    }
}

struct CancelOnDrop(Arc<Job>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dmv_core::refs::Timestamp;
    use dmv_core::repo::discover;

    fn request() -> OperationRequest {
        OperationRequest {
            time: Timestamp {
                seconds: 0,
                nanos: 0,
                tz_minutes: 0,
            },
            who: "test".to_owned(),
            command: "test".to_owned(),
        }
    }

    #[test]
    fn readers_share_a_repository_until_somebody_changes_it() {
        let dir = tempfile::tempdir().expect("a directory");
        Repo::init(dir.path(), "main", true, request()).expect("a repository");
        let place = discover(dir.path()).expect("it is there");
        let readers = Readers::default();
        let open = || readers.open(&place).expect("it opens");
        let first = open();
        assert!(Arc::ptr_eq(&first, &open()));
        let key = PeerKey::from_bytes([7; 32]);
        let other = Repo::open(dir.path()).expect("it opens");
        let peer = Peer {
            key,
            name: String::new(),
            access: Access::Read,
        };
        assert!(other.trust(&peer, request()).expect("a change"));
        let second = open();
        assert!(!Arc::ptr_eq(&first, &second));
        assert!(Arc::ptr_eq(&second, &open()));
        std::fs::write(place.dmv.join("damaged"), "dmv-damaged 1\n").expect("a file");
        let third = open();
        assert!(!Arc::ptr_eq(&second, &third));
        let db = place.dmv.join("refs.db");
        std::fs::copy(&db, place.dmv.join("other")).expect("a copy");
        std::fs::rename(place.dmv.join("other"), &db).expect("it takes its place");
        assert!(!Arc::ptr_eq(&third, &open()));
        let gone = Arc::downgrade(&third);
        drop(third);
        assert!(gone.upgrade().is_none(), "nobody needs it any more");
    }
}
