//! Addresses of repositories, and the connections to them.
//!
//! [`Url`] parses an address. [`connect`] turns it into a [`Link`] over a path, ssh or QUIC. This room may use
//! `identity`, `session` and `wire`. It carries bytes and knows nothing of objects. The program calls it.

mod bucket;
mod path;
#[cfg(feature = "quic")]
pub mod quic;
mod ssh;
mod url;
mod words;

pub use bucket::{BucketAddress, Scheme, check_host};
pub use path::{Purpose, create_at, open_at};
pub use ssh::SshTarget;
pub use url::{Url, without_secret};
pub use words::words;

use crate::session::{Link, NetError, PATIENCE};
use dmv_core::repo::OperationRequest;
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
    /// This device's key and relays, for peers that are dialled by key.
    #[cfg(feature = "quic")]
    pub device: Option<quic::Device>,
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
            #[cfg(feature = "quic")]
            device: None,
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
    /// Returns a connection that needs no helper, with what its other end is called.
    pub fn over(place: String, link: Link) -> Connection {
        Connection {
            place,
            link: Some(link),
            helper: None,
        }
    }

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

/// Connects to the repository at `url`. Fails if it cannot be reached or refuses the connection, and for a
/// bucket, where no program answers.
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
        Url::Bucket(_) => return Err(no_buckets(url)),
    };
    Ok(Connection {
        place: url.to_string(),
        link: Some(link),
        helper,
    })
}

/// Returns the failure for the address of a bucket in a program that has no buckets.
pub fn no_buckets(url: &Url) -> NetError {
    NetError::BadUrl {
        url: url.to_string(),
        why: "this dmv was built without buckets",
    }
}
