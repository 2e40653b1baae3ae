//! A remote that may be asked several times within one command. Its connection stays open between
//! the questions.

use super::caller::Caller;
use super::dial::dial;
use super::remote::Remote;
use crate::session::{Client, NetError, PeerSlice};
use crate::transport::{Connection, Purpose, Url};
use dmv_core::job::Job;
use dmv_core::repo::Repo;

/// A remote, and the connection to it.
pub struct Peer<'a> {
    /// The remote.
    pub remote: Remote,
    repo: &'a Repo,
    caller: &'a dyn Caller,
    job: &'a Job,
    state: State<'a>,
}

enum State<'a> {
    /// No question was asked yet.
    Unasked,
    /// The peer answers. The client is dropped first: the helper that keeps the connection up waits
    /// for that.
    Open(Box<(Client<'a>, Connection)>),
    /// The peer does not answer.
    Gone(NoAnswer),
}

/// Why a peer does not answer.
#[derive(Debug)]
pub enum NoAnswer {
    /// There was no connection.
    Unreached(NetError),
    /// The connection ended before the answer.
    Cut(NetError),
}

impl NoAnswer {
    /// Returns the failure.
    pub fn error(&self) -> &NetError {
        match self {
            NoAnswer::Unreached(e) | NoAnswer::Cut(e) => e,
        }
    }
}

/// A remote that was not asked, or not to the end, because it did not answer.
#[derive(Debug)]
pub struct SilentPeer {
    /// The remote's name.
    pub name: String,
    /// Why it did not answer.
    pub why: NoAnswer,
}

impl<'a> Peer<'a> {
    /// Returns the remote as a peer that was not asked yet.
    pub fn new(remote: Remote, repo: &'a Repo, caller: &'a dyn Caller, job: &'a Job) -> Peer<'a> {
        Peer {
            remote,
            repo,
            caller,
            job,
            state: State::Unasked,
        }
    }

    /// Returns the remotes as peers, those first that cost least to ask.
    pub fn all(
        mut remotes: Vec<Remote>,
        repo: &'a Repo,
        caller: &'a dyn Caller,
        job: &'a Job,
    ) -> Vec<Peer<'a>> {
        remotes.sort_by_key(|remote| match &remote.url {
            Url::Path(_) => 0,
            #[cfg(feature = "quic")]
            Url::Quic(_) => 1,
            Url::Ssh(_) => 2,
            // Its requests cost money.
            Url::Bucket(_) => 3,
        });
        let peer = |remote| Peer::new(remote, repo, caller, job);
        remotes.into_iter().map(peer).collect()
    }

    /// Runs `question` on the connection to this peer, which stays open. Connects first if
    /// necessary.
    ///
    /// Returns `None` if the peer does not answer. It is not asked again, and
    /// [`no_answer`](Self::no_answer) says why.
    pub fn ask<T>(
        &mut self,
        question: impl FnOnce(&mut Client<'a>) -> Result<T, NetError>,
    ) -> Option<T> {
        if let State::Unasked = self.state {
            self.state = match dial(
                self.repo,
                &self.remote.url,
                Purpose::Read,
                self.caller,
                self.job,
            ) {
                Ok((connection, client)) => State::Open(Box::new((client, connection))),
                Err(e) => State::Gone(NoAnswer::Unreached(e)),
            };
        }
        let State::Open(open) = &mut self.state else {
            return None;
        };
        match question(&mut open.0) {
            Ok(answer) => Some(answer),
            Err(e) => {
                self.end(e);
                None
            }
        }
    }

    /// Ends the connection after the failure `e`.
    fn end(&mut self, e: NetError) {
        if let State::Open(open) = std::mem::replace(&mut self.state, State::Unasked) {
            let (client, connection) = *open;
            let why = connection.explain(e);
            drop(client);
            self.state = State::Gone(NoAnswer::Cut(why));
        }
    }

    /// Returns why this peer does not answer; `None` if it answers or was not asked.
    pub fn no_answer(&self) -> Option<&NoAnswer> {
        match &self.state {
            State::Gone(why) => Some(why),
            _ => None,
        }
    }

    /// Returns what the peer stores, if it is connected and has said so.
    pub fn held(&self) -> Option<&PeerSlice> {
        match &self.state {
            State::Open(open) => open.0.held.as_ref(),
            _ => None,
        }
    }

    /// Forgets that the peer failed, for another question.
    pub fn try_again(&mut self) {
        if let State::Gone(_) = self.state {
            self.state = State::Unasked;
        }
    }

    /// Ends the connection. Returns the peer if it did not answer.
    pub fn finish(self) -> Option<SilentPeer> {
        match self.state {
            State::Unasked => None,
            State::Open(open) => {
                let (client, _connection) = *open;
                client.finish(Vec::new());
                None
            }
            State::Gone(why) => Some(SilentPeer {
                name: self.remote.name,
                why,
            }),
        }
    }
}
