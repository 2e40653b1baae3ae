//! Ways to reach another repository.

mod path;
#[cfg(feature = "quic")]
pub mod quic;
mod ssh;
mod url;

pub use path::{Purpose, open_at};
pub use ssh::SshTarget;
pub use url::Url;

use crate::session::{Link, NetError};
use dmv_core::repo::Asked;

/// What a transport needs to know besides the address.
#[derive(Clone, Debug)]
pub struct Reach {
    /// For the other repository's log of operations, where this process writes it.
    pub asked: Asked,
    /// Whether something is to be written there.
    pub purpose: Purpose,
    /// The program that makes ssh connections, with arguments that go before all others.
    pub ssh: Vec<String>,
    /// The program at the other end of an ssh connection.
    pub remote_program: String,
    /// This device, where peers are to be dialled by key.
    #[cfg(feature = "quic")]
    pub device: Option<quic::Device>,
}

/// A connection, and whatever keeps it up.
pub struct Connection {
    link: Option<Link>,
    helper: Option<Helper>,
}

enum Helper {
    Ssh(ssh::Helper),
    #[cfg(feature = "quic")]
    Quic(quic::Helper),
}

impl Connection {
    /// The connection, for a session; once.
    pub fn take_link(&mut self) -> Result<Link, NetError> {
        self.link.take().ok_or(NetError::Closed)
    }

    /// Explains a failure by what the helper program said, if one was used.
    pub fn explain(self, e: NetError) -> NetError {
        match self.helper {
            Some(Helper::Ssh(helper)) => helper.explain(e),
            #[cfg(feature = "quic")]
            Some(Helper::Quic(helper)) => helper.explain(e),
            None => e,
        }
    }
}

/// Connects to the repository at `url`.
pub fn connect(url: &Url, reach: &Reach) -> Result<Connection, NetError> {
    match url {
        Url::Path(path) => Ok(Connection {
            link: Some(path::connect(path, reach.asked.clone(), reach.purpose)?),
            helper: None,
        }),
        Url::Ssh(target) => {
            let (link, helper) = ssh::connect(target, reach)?;
            Ok(Connection {
                link: Some(link),
                helper: Some(Helper::Ssh(helper)),
            })
        }
        #[cfg(feature = "quic")]
        Url::Quic(address) => {
            let device = reach.device.as_ref().ok_or_else(|| NetError::Unreachable {
                place: address.to_string(),
                why: "this device has no key".to_owned(),
            })?;
            let (link, helper) = quic::connect(address, device)?;
            Ok(Connection {
                link: Some(link),
                helper: Some(Helper::Quic(helper)),
            })
        }
    }
}
