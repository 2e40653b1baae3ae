//! What a command needs from the program that calls it.

use crate::session::NetError;
#[cfg(feature = "store")]
use crate::transport::store::{BucketAddress, canary::TestCost};
use crate::transport::{Purpose, Reach, Url};
use dmv_core::repo::{FETCH_HEAD, OperationRequest};
use std::time::Duration;

/// A remote of a repository, or an address that stands for one in a single command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Its name. Without one, its address as the user wrote it.
    pub name: String,
    /// Its address.
    pub url: Url,
    /// Whether it is an address that no remote has. Then a fetch records its branches as
    /// [`FETCH_HEAD`], and a push records nothing.
    pub once: bool,
}

impl Remote {
    /// Returns the remote `name` at `url`.
    pub fn new(name: impl Into<String>, url: Url) -> Remote {
        let name = name.into();
        Remote {
            name,
            url,
            once: false,
        }
    }

    /// Returns the address `url`, which the user wrote as `text`, for a single command.
    pub fn once(text: impl Into<String>, url: Url) -> Remote {
        Remote {
            once: true,
            ..Remote::new(text, url)
        }
    }

    /// Returns the name under which a fetch records the remote's branches.
    pub fn recorded(&self) -> &str {
        if self.once { FETCH_HEAD } else { &self.name }
    }
}

/// The remotes that may have content which a command lacks.
#[derive(Clone, Debug, Default)]
pub struct Remotes {
    /// The remotes, in any order.
    pub list: Vec<Remote>,
    /// Whether none of them is to be asked.
    pub offline: bool,
}

/// The program that calls a command. It says how to reach peers, and it may show what the
/// command does. [`Network`] is a caller with fixed settings that shows nothing.
pub trait Caller {
    /// Returns what a connection to `url` needs. A command asks for it before each connection.
    ///
    /// If the program's own settings are unusable, this fails with [`NetError::Caller`].
    fn reach(&self, url: &Url, purpose: Purpose) -> Result<Reach, NetError>;

    /// Returns the remotes that a command may ask for content that this repository lacks.
    fn remotes(&self) -> Result<Remotes, NetError>;

    /// Called before a command replaces the root of a bucket, or makes the first one (`is_first`). May test
    /// the store, and fail. The default does nothing.
    #[cfg(feature = "store")]
    fn test_store(&self, address: &BucketAddress, is_first: bool) -> Result<(), NetError> {
        let _ = (address, is_first);
        Ok(())
    }

    /// Returns what that test would cost.
    #[cfg(feature = "store")]
    fn cost_of_test(&self, address: &BucketAddress, is_first: bool) -> Result<TestCost, NetError> {
        let _ = (address, is_first);
        Ok(TestCost::default())
    }

    /// Called when the command begins a step. The default does nothing.
    fn began(&self, step: Step<'_>) {
        let _ = step;
    }
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

/// A [`Caller`] with fixed settings that shows nothing.
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
