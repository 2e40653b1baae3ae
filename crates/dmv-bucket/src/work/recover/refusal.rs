//! Why a root is not restored.

/// Why a state cannot be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Objects are missing.
    Incomplete,
    /// So many operations came after it that gc may have let go what it needs.
    Old,
    /// Something was purged, and what is not known any more.
    LostPurges,
    /// Files need chunks that were purged.
    Contested,
    /// A value of its view is no id.
    BadView,
}

/// Why nothing was restored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRestored {
    /// The root is intact.
    #[error("the root is intact; there is nothing to restore")]
    Intact,
    /// No state has this id, or several have it.
    #[error("{} '{id}'", if *ambiguous { "several states start with" } else { "there is no state" })]
    NoState {
        /// The id or its first digits, as given.
        id: String,
        /// Whether several match.
        ambiguous: bool,
    },
    /// The state has a flaw.
    #[error("state {id} cannot be restored: {}", words_of(*flaw, *missing))]
    Flawed {
        /// Its id.
        id: String,
        /// The flaw.
        flaw: Flaw,
        /// The objects that are missing.
        missing: u64,
    },
    /// The file is too large to be a root, so it cannot be replaced on a condition.
    #[error("the file 'root' is too large to be one; move it away with the tools of the store")]
    TooLarge,
}

/// Says why a state cannot be restored.
pub fn words_of(flaw: Flaw, missing: u64) -> String {
    match flaw {
        Flaw::Incomplete if missing == 1 => "1 object is missing that it needs".to_owned(),
        Flaw::Incomplete => format!("{missing} objects are missing that it needs"),
        Flaw::Old => "so much has happened since that what it needs may have been freed".to_owned(),
        Flaw::LostPurges => {
            "content was purged in this bucket, and a file that says which is lost or damaged"
                .to_owned()
        }
        Flaw::Contested => "files need content that was purged".to_owned(),
        Flaw::BadView => "a branch or tag of it is damaged".to_owned(),
    }
}
