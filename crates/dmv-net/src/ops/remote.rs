//! The remotes of a repository, as commands are given them.

use crate::transport::Url;
use dmv_core::repo::FETCH_HEAD;

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
