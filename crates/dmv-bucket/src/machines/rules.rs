//! The rules on which the safety of a bucket rests, by name. Each holds always; only the simulation
//! switches one off, to see that it is needed and that the simulation would notice.

/// A rule. docs/format/bucket.md, "Why nothing is lost", explains them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// After any answer but a clear success, the writer looks for its operation in the log.
    ReadBack,
    /// What a push relies on was found at the same count of freed files as the root it replaces.
    SameFreed,
    /// A file whose name was burnt is uploaded again under another name.
    Burnt,
    /// If the log no longer says which names were burnt, all names that are not yet listed are.
    ShortLog,
    /// gc deletes files only after a root that lets them go is in place.
    RootFirst,
    /// gc marks again if the root has changed since it marked.
    MarkAgain,
    /// Packs are let go in the same root that lists the pack with what is needed of them.
    JoinedAtOnce,
    /// What a push has prepared before something was purged does not count after it.
    SamePurged,
    /// What a push has prepared counts only with the same list of expired files.
    SameExpired,
    /// A reader that misses a file reads the root again before it reports a loss.
    ReadAgain,
}

/// Returns whether a rule holds.
#[cfg(not(test))]
pub(super) fn holds(_: Rule) -> bool {
    true
}

#[cfg(test)]
pub(super) use switch::{holds, with_off};

#[cfg(test)]
mod switch {
    use super::Rule;
    use std::cell::Cell;

    thread_local! {
        static OFF: Cell<Option<Rule>> = const { Cell::new(None) };
    }

    pub fn holds(rule: Rule) -> bool {
        OFF.get() != Some(rule)
    }

    /// Runs `f` on this thread with a rule switched off.
    pub fn with_off<T>(rule: Option<Rule>, f: impl FnOnce() -> T) -> T {
        let before = OFF.replace(rule);
        let out = f();
        OFF.set(before);
        out
    }
}
