//! Words about a change that somebody stops: before, what stopping would do; afterwards, what was stopped, what is
//! safe, and what to do next.

use crate::program::ShownFailure;

/// The exit code of a command that was interrupted.
pub const INTERRUPTED: u8 = 130;

/// What stopping the change `verb` does: a sentence beside its button.
pub fn before(verb: &str) -> &'static str {
    match verb {
        "commit" => "If you stop, nothing is committed, and your files stay as they are.",
        "undo" | "redo" => {
            "If you stop, some files may have changed already. Nothing is lost: you can finish it or go back."
        }
        "push" => "If you stop, the remote's branch stays as it is. Nothing is lost.",
        "fetch" => "If you stop, what has arrived stays, and the next try goes on from there.",
        "pull" => {
            "If you stop, what has arrived stays. If files were being written, you can finish it or go back."
        }
        "resolve" | "restore" | "discard" | "choose-again" => {
            "If you stop, each file has its former content or the new one, never a part of both."
        }
        _ => "If you stop, nothing is lost.",
    }
}

/// What somebody reads who stopped the change `verb`.
pub fn after(verb: &str) -> ShownFailure {
    let (message, hint) = match verb {
        "commit" => (
            "You stopped the commit. Nothing was committed, and your files are as they were.",
            "press Commit on the overview to begin again",
        ),
        "undo" => (
            "You stopped the undo. The change is not undone yet, but some files may already be as before it. Nothing is lost.",
            "press Undo on the overview to finish; the overview also says how to go back",
        ),
        "redo" => (
            "You stopped the redo. It is not redone yet, but some files may already have changed. Nothing is lost.",
            "run dmv redo to finish; the overview also says how to go back",
        ),
        "resolve" => (
            "You stopped resolving the conflict. Its file has its former content or the new one, never a part of both, and all versions are still stored.",
            "open Conflicts and choose again",
        ),
        "discard" => (
            "You stopped discarding. Each file has the content that you had or that of the newest commit, never a part of both.",
            "open the overview, which says what has changed",
        ),
        "choose-again" => (
            "You stopped opening the conflict again. Its file has the chosen content or the one with the conflict, never a part of both.",
            "open Conflicts and choose again",
        ),
        "push" => (
            "You stopped sending. The branch of the remote is as it was, and nothing is lost.",
            "press Send on the overview to go on",
        ),
        "fetch" => (
            "You stopped asking the remote. What has arrived stays, and nothing is lost.",
            "press Look for news on the overview to go on",
        ),
        "pull" => (
            "You stopped getting commits. What has arrived stays, and nothing is lost.",
            "press Get on the overview to go on; it also says whether files are from another commit",
        ),
        "restore" => (
            "You stopped restoring the file. It has its former content or the restored one, never a part of both.",
            "open the version and press Restore this version again",
        ),
        _ => (
            "You stopped the change. Nothing is lost.",
            "open the overview, which says what has changed",
        ),
    };
    ShownFailure {
        code: "interrupted".to_owned(),
        exit: INTERRUPTED,
        message: message.to_owned(),
        hint: Some(hint.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_says_what_was_stopped_what_is_safe_and_what_to_do() {
        let verbs = [
            "commit",
            "undo",
            "redo",
            "resolve",
            "restore",
            "get",
            "discard",
            "choose-again",
            "push",
            "fetch",
            "pull",
        ];
        for verb in verbs {
            let told = after(verb);
            let (first, rest) = told.message.split_once(". ").expect("two sentences");
            assert!(first.starts_with("You stopped "), "{verb}: {first}");
            assert!(rest.ends_with('.'), "{verb}: {rest}");
            let safe = ["lost", "as they were", "never a part of both"];
            assert!(
                safe.iter().any(|word| rest.contains(word)),
                "{verb}: {rest}"
            );
            assert!(told.hint.is_some_and(|hint| !hint.ends_with('.')), "{verb}");
            assert!(before(verb).starts_with("If you stop, "), "{verb}");
        }
    }
}
