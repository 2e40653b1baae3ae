//! The failure of a session with a peer.

use crate::session::{NetError, PeerSlice};
use crate::transport::Url;

/// A session with a peer failed, or there was none.
#[derive(Debug, thiserror::Error)]
#[error("{source}")]
pub struct SessionError {
    /// The peer's address.
    pub url: Url,
    /// Whether the peer has answered.
    pub answered: bool,
    /// What the peer stores, if it has said so.
    pub held: Option<PeerSlice>,
    /// The failure.
    pub source: NetError,
}

impl SessionError {
    /// Returns the failure of a session with a peer that has not answered.
    pub fn unanswered(url: &Url, source: NetError) -> Box<SessionError> {
        Box::new(SessionError {
            url: url.clone(),
            answered: false,
            held: None,
            source,
        })
    }
}
