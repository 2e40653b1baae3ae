//! The people of a commit: its author and committer.

use crate::object::commit::Person;
use crate::refs::Timestamp;

/// A person's name and address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// The person's name.
    pub name: String,
    /// The person's e-mail address. May be empty.
    pub email: String,
}

impl Who {
    /// Returns a person with this name and e-mail address.
    pub fn new(name: impl Into<String>, email: impl Into<String>) -> Who {
        Who {
            name: name.into(),
            email: email.into(),
        }
    }

    pub(crate) fn at(&self, time: Timestamp) -> Person {
        Person {
            name: self.name.clone(),
            email: self.email.clone(),
            seconds: time.seconds,
            nanos: time.nanos,
            tz_minutes: time.tz_minutes,
        }
    }
}
