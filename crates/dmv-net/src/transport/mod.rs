//! Addresses of repositories, and the connections to them.
//!
//! [`Url`] parses an address. [`connect`] turns it into a [`Link`] over a path, ssh or QUIC; `store`
//! reads and writes the files of buckets, which no program serves. This
//! room may use `bucket`, `identity`, `session` and `wire`. It carries bytes and knows nothing of objects.
//! The program calls it.

mod path;
#[cfg(feature = "quic")]
pub mod quic;
mod ssh;
#[cfg(feature = "store")]
pub mod store;
mod url;
mod words;

pub use path::{Purpose, create_at, open_at};
pub use ssh::SshTarget;
pub use url::{Url, without_secret};
pub use words::words;

use crate::session::{Link, NetError, PATIENCE};
#[cfg(feature = "store")]
use crate::session::{Shelf, serve_shelf};
use dmv_core::repo::OperationRequest;
#[cfg(feature = "store")]
use dmv_core::threads;
use std::path::PathBuf;
#[cfg(feature = "store")]
use std::sync::Arc;
use std::time::Duration;

/// What a transport needs in addition to the address.
#[derive(Clone, Debug)]
pub struct Reach {
    /// The author of a push, for the operation log of the other repository. Only paths use it.
    pub request: OperationRequest,
    /// Whether the command writes to the other repository.
    pub purpose: Purpose,
    /// If there is nothing at the address: the branch of the bare repository to create there. A device
    /// that is dialled by key serves what is there, and the first push to a bucket creates anyway.
    pub create: Option<String>,
    /// The program that makes ssh connections, and its first arguments.
    pub ssh: Vec<String>,
    /// The program to run at the other end of an ssh connection.
    pub remote_program: String,
    /// How long to wait for a peer that sends almost nothing.
    pub patience: Duration,
    /// Where copies of what was read of a bucket are kept: the directory with the repository's own
    /// files.
    pub copies: Option<PathBuf>,
    /// This device's key and relays, for peers that are dialled by key.
    #[cfg(feature = "quic")]
    pub device: Option<quic::Device>,
    /// The settings of an object store.
    #[cfg(feature = "store")]
    pub store: store::Settings,
}

impl Reach {
    /// Returns the default settings of a connection for reading, without a device key.
    pub fn new(request: OperationRequest) -> Reach {
        Reach {
            request,
            purpose: Purpose::Read,
            create: None,
            ssh: vec!["ssh".to_owned()],
            remote_program: "dmv".to_owned(),
            patience: PATIENCE,
            copies: None,
            #[cfg(feature = "quic")]
            device: None,
            #[cfg(feature = "store")]
            store: store::Settings::new(PATIENCE),
        }
    }
}

/// A connection, and the helper that keeps it up.
pub struct Connection {
    place: String,
    link: Option<Link>,
    helper: Option<Helper>,
}

enum Helper {
    Ssh(ssh::Helper),
    #[cfg(feature = "quic")]
    Quic(quic::Helper),
}

impl Connection {
    /// Returns the connection for a session. Fails the second time.
    pub fn take_link(&mut self) -> Result<Link, NetError> {
        self.link.take().ok_or(NetError::Closed)
    }

    /// Replaces a failure of the connection by its cause, if the helper program or the QUIC
    /// connection knows it. Otherwise the address says which connection it was.
    pub fn explain(self, e: NetError) -> NetError {
        let e = match self.helper {
            Some(Helper::Ssh(helper)) => helper.explain(e),
            #[cfg(feature = "quic")]
            Some(Helper::Quic(helper)) => helper.explain(e),
            None => e,
        };
        match e {
            NetError::Closed => NetError::Lost(self.place),
            e => e,
        }
    }
}

/// Connects to the repository at `url`. Fails if it cannot be reached or refuses the connection.
pub fn connect(url: &Url, reach: &Reach) -> Result<Connection, NetError> {
    let (link, helper) = match url {
        Url::Path(path) => (path::connect(path, reach)?, None),
        Url::Ssh(target) => {
            let (link, helper) = ssh::connect(target, reach)?;
            (link, Some(Helper::Ssh(helper)))
        }
        #[cfg(feature = "quic")]
        Url::Quic(address) => {
            let device = reach.device.as_ref().ok_or_else(|| NetError::Unreachable {
                place: address.to_string(),
                why: "this device has no key".to_owned(),
            })?;
            let (link, helper) = quic::connect(address, device)?;
            (link, Some(Helper::Quic(helper)))
        }
        #[cfg(feature = "store")]
        Url::Bucket(address) => (connect_bucket(address, reach)?, None),
    };
    Ok(Connection {
        place: url.to_string(),
        link: Some(link),
        helper,
    })
}

/// Returns a bucket to be read. Sends nothing yet.
#[cfg(feature = "store")]
pub fn shelf(address: &store::BucketAddress, reach: &Reach) -> Result<Shelf, NetError> {
    let files = store::Store::open(address, &reach.store)?;
    Ok(Shelf {
        copies: reach.copies.clone(),
        place: address.to_string(),
        files: Arc::new(files),
        is_read_only: address.scheme.is_web(),
        may_be_empty: reach.purpose == Purpose::Write,
    })
}

/// Opens a bucket. No program answers there, so a thread of this process reads its files and answers.
#[cfg(feature = "store")]
fn connect_bucket(address: &store::BucketAddress, reach: &Reach) -> Result<Link, NetError> {
    let shelf = shelf(address, reach)?;
    let (ours, theirs) = Link::pair_with_clues();
    threads::start(move || serve_shelf(shelf, theirs))?;
    Ok(ours)
}
