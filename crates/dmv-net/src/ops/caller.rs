//! What a command needs from the program that calls it.

use super::buckets::Buckets;
use super::refs::RefTip;
use super::remote::{Remote, Remotes};
use crate::session::NetError;
use crate::transport::{Purpose, Reach, Url, no_buckets};
use dmv_core::repo::{DisplacedClaim, KnownSigners, OperationRequest, RefChange, Repo};
use std::time::Duration;

/// The program that calls a command. It says how to reach peers, and it may show what the
/// command does. [`Network`] is a caller with fixed settings that shows nothing and has no buckets.
pub trait Caller {
    /// Returns what a connection to `url` needs. A command asks for it before each connection.
    ///
    /// If the program's own settings are unusable, this fails with [`NetError::Caller`].
    fn reach(&self, url: &Url, purpose: Purpose) -> Result<Reach, NetError>;

    /// Returns the remotes that a command may ask for content that this repository lacks.
    fn remotes(&self) -> Result<Remotes, NetError>;

    /// Returns the buckets that the program supports. The default is none.
    fn buckets(&self) -> Option<Box<dyn Buckets + '_>> {
        None
    }

    /// Returns whom the user knows as a signer of commits, for pushes to buckets that want signed ones. The default
    /// is nobody but the devices on the allow-list.
    fn known_signers(&self) -> Result<KnownSigners, NetError> {
        Ok(KnownSigners::default())
    }

    /// Called when a connection has brought something about claims that the user should know. The default
    /// does nothing.
    fn heard_of_claims(&self, news: ClaimsNews<'_>) {
        let _ = news;
    }

    /// Called before branches and tags are sent. A failure refuses the push. The default allows it.
    fn before_push(&self, push: &ComingPush<'_>) -> Result<(), NetError> {
        let _ = push;
        Ok(())
    }

    /// Called when a fetch has moved refs here. The default does nothing.
    fn fetched(&self, repo: &Repo, remote: &Remote, moved: &[RefChange]) {
        let _ = (repo, remote, moved);
    }

    /// Called when the command begins a step. The default does nothing.
    fn began(&self, step: Step<'_>) {
        let _ = step;
    }
}

/// A push that has not begun.
pub struct ComingPush<'a> {
    /// From where.
    pub repo: &'a Repo,
    /// To where.
    pub remote: &'a Remote,
    /// What is sent.
    pub refs: &'a [RefTip],
    /// The names that are deleted there.
    pub delete: &'a [String],
}

/// What a connection has brought about claims.
#[derive(Debug)]
pub enum ClaimsNews<'a> {
    /// Somebody else is before these own claims now.
    Displaced(&'a [DisplacedClaim]),
    /// The other side's dmv is too old, so the own claims stay here.
    Unknown,
    /// The claims of a bucket could not be read, so a push was checked against what was known of them.
    Unreadable(&'a NetError),
}

/// A step of a command.
#[derive(Debug)]
pub enum Step<'a> {
    /// It exchanges objects with a peer.
    Transfer,
    /// It calls the peer at this address. An ssh program may ask for a password on the terminal.
    Dial(&'a Url),
    /// The peer has answered, or it cannot be reached.
    Dialled,
    /// The peer serves too many others. The command tries again, for this time at most.
    Wait(&'a NetError, Duration),
    /// It fetches content that the work lacks.
    Supply,
    /// It works on this repository alone, for example on a merge.
    Work,
}

/// A [`Caller`] with fixed settings that shows nothing and has no buckets.
#[derive(Clone, Debug)]
pub struct Network {
    /// What each connection needs, apart from its purpose.
    pub reach: Reach,
    /// The remotes to ask for content that this repository lacks.
    pub remotes: Remotes,
}

impl Network {
    /// Returns a caller with the default settings and no remotes. `request` goes into the
    /// operation log of each repository that a push changes.
    pub fn new(request: OperationRequest) -> Network {
        Network {
            reach: Reach::new(request),
            remotes: Remotes::default(),
        }
    }

    /// Adds a remote to ask for content that this repository lacks.
    pub fn with(mut self, remote: Remote) -> Network {
        self.remotes.list.push(remote);
        self
    }
}

impl Caller for Network {
    fn reach(&self, _url: &Url, purpose: Purpose) -> Result<Reach, NetError> {
        let mut reach = self.reach.clone();
        reach.purpose = purpose;
        Ok(reach)
    }

    fn remotes(&self) -> Result<Remotes, NetError> {
        Ok(self.remotes.clone())
    }
}

/// Returns the buckets of the program. Fails if it has none.
pub(super) fn buckets_of<'c>(
    caller: &'c dyn Caller,
    url: &Url,
) -> Result<Box<dyn Buckets + 'c>, NetError> {
    caller.buckets().ok_or_else(|| no_buckets(url))
}
