//! Ways to reach another repository.

mod path;
#[cfg(feature = "quic")]
pub mod quic;
mod ssh;
mod url;

pub use path::open_at;
pub use ssh::SshTarget;
pub use url::Url;

use crate::session::{Link, NetError};
use dmv_core::repo::Asked;

/// What a transport needs to know besides the address.
#[derive(Clone, Debug)]
pub struct Reach {
    /// For the other repository's log of operations, where this process writes it.
    pub asked: Asked,
    /// The program that makes ssh connections, with arguments that go before all others.
    pub ssh: Vec<String>,
    /// The program at the other end of an ssh connection.
    pub remote_program: String,
}

/// A connection, and whatever keeps it up.
pub struct Connection {
    /// The connection.
    pub link: Link,
    helper: Option<ssh::Helper>,
}

impl Connection {
    /// Explains a failure by what the helper program said, if one was used.
    pub fn explain(self, e: NetError) -> NetError {
        match self.helper {
            Some(helper) => helper.explain(e),
            None => e,
        }
    }
}

/// Connects to the repository at `url`.
pub fn connect(url: &Url, reach: &Reach) -> Result<Connection, NetError> {
    match url {
        Url::Path(path) => Ok(Connection {
            link: path::connect(path, reach.asked.clone())?,
            helper: None,
        }),
        Url::Ssh(target) => {
            let (link, helper) = ssh::connect(target, reach)?;
            Ok(Connection {
                link,
                helper: Some(helper),
            })
        }
    }
}
