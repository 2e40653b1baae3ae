//! Content that a server lacks for a reason: it has expired there, or was purged. A client asks for the
//! reasons before it leaves such content out of a fetch.

/// What the server lacks for one reason.
pub struct Absence<T> {
    there: Knowledge<T>,
    /// How many files are absent in this repository now because they are absent there.
    pub noted: u64,
}

enum Knowledge<T> {
    /// The server does not know the question.
    Unsupported,
    /// The server has some, and was not asked yet.
    Unasked,
    Known(T),
}

impl<T: Default> Absence<T> {
    /// Returns the knowledge from a greeting: whether the server has such content. `None`: it does not know
    /// the question.
    pub fn greeted(has_some: Option<bool>) -> Absence<T> {
        let there = match has_some {
            None => Knowledge::Unsupported,
            Some(true) => Knowledge::Unasked,
            Some(false) => Knowledge::Known(T::default()),
        };
        Absence { there, noted: 0 }
    }

    /// Returns whether the server knows the question.
    pub fn is_supported(&self) -> bool {
        !matches!(self.there, Knowledge::Unsupported)
    }

    /// Returns whether the server has some, and was not asked yet.
    pub fn is_unasked(&self) -> bool {
        matches!(self.there, Knowledge::Unasked)
    }

    /// Returns whether the server is to be asked now. The next call returns `false`: if the answer fails, the
    /// session is over.
    pub fn begin_to_ask(&mut self) -> bool {
        let is_unasked = self.is_unasked();
        if is_unasked {
            self.there = Knowledge::Known(T::default());
        }
        is_unasked
    }

    /// Sets what the server has answered.
    pub fn answered(&mut self, there: T) {
        self.there = Knowledge::Known(there);
    }

    /// Returns what the server lacks; `None` if that is not known.
    pub fn known(&self) -> Option<&T> {
        match &self.there {
            Knowledge::Known(there) => Some(there),
            Knowledge::Unsupported | Knowledge::Unasked => None,
        }
    }
}
