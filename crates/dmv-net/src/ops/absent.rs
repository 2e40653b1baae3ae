//! Content that a command lacks and that no remote has given, with the answer of each remote.

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
    pub peers: Vec<PeerAnswer>,
}

/// What one remote answered.
#[derive(Debug)]
pub struct PeerAnswer {
    /// The remote's name.
    pub name: String,
    /// Its answer.
    pub answer: Answer,
    /// Whether this repository has fetched from it or pushed to it before.
    pub is_known: bool,
}

/// An answer to a request for content.
#[derive(Debug)]
pub enum Answer {
    /// It does not have the content. With what it stores, if it has said so.
    Lacks(Option<Box<PeerSlice>>),
    /// It did not answer, for this reason.
    Missing(NoAnswer),
}

impl std::fmt::Display for Absent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} objects are absent", self.lacks.len())?;
        if self.offline {
            write!(f, "; offline: no remote was asked")?;
        }
        for peer in self.peers.iter().filter(|_| !self.offline) {
            match &peer.answer {
                Answer::Lacks(_) => write!(f, "; {} does not have them", peer.name)?,
                Answer::Missing(why) => {
                    write!(f, "; {} did not answer ({})", peer.name, why.error())?;
                }
            }
        }
        Ok(())
    }
}
