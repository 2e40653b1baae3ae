//! Content that a command lacks and that no remote has given, with what each remote said.

use super::peer::NoAnswer;
use crate::session::PeerSlice;
use dmv_core::object::root::Lack;

/// Content that a command lacks and that no remote has given.
#[derive(Debug)]
pub struct Absent {
    /// What is lacking.
    pub lacks: Vec<Lack>,
    /// Whether no remote was to be asked.
    pub offline: bool,
    /// The remotes, those first that cost least to ask.
    pub peers: Vec<AskedPeer>,
}

/// A remote that was asked for content.
#[derive(Debug)]
pub struct AskedPeer {
    /// The remote's name.
    pub name: String,
    /// What it said.
    pub said: Said,
    /// Whether this repository has fetched from it or pushed to it before.
    pub is_known: bool,
}

/// What a remote said.
#[derive(Debug)]
pub enum Said {
    /// It does not have the content. With what it stores, if it has said so.
    HasNot(Option<Box<PeerSlice>>),
    /// It did not answer, for this reason.
    Nothing(NoAnswer),
}

impl std::fmt::Display for Absent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} objects are absent", self.lacks.len())?;
        if self.offline {
            write!(f, "; offline: no remote was asked")?;
        }
        for peer in self.peers.iter().filter(|_| !self.offline) {
            match &peer.said {
                Said::HasNot(_) => write!(f, "; {} does not have them", peer.name)?,
                Said::Nothing(why) => {
                    write!(f, "; {} did not answer ({})", peer.name, why.error())?;
                }
            }
        }
        Ok(())
    }
}
