//! Code, exit code and hint of each error of a repository.

use crate::damage::HEAL;
use crate::failure::{
    EXIT_ABSENT, EXIT_BUSY, EXIT_CONFLICTS, EXIT_DAMAGE, EXIT_INTERRUPTED, EXIT_NO_REPOSITORY,
    EXIT_OTHER, EXIT_PERMISSION, EXIT_REFUSED, EXIT_TOO_NEW, EXIT_USAGE, OVER_BUDGET, WOULD_LOSE,
};
use crate::ownership::{find_own, on_disk_argument, path_argument, way_to_read, way_to_trust};
use crate::unfinished_clone::begun_in;
use dmv_core::claims::BookError;
use dmv_core::escape::Argument;
use dmv_core::escape::Hint;
use dmv_core::hint;
use dmv_core::object::name::RepoPath;
use dmv_core::object::{ObjectError, ObjectType};
use dmv_core::path::PathError;
use dmv_core::platform::{OddKind, check_access, has_room};
use dmv_core::refs::RefsError;
use dmv_core::repo::{
    AbsentError, BranchError, BusyError, ClaimError, ConflictError, DMV_DIR, FilesError, LookError,
    PathRefusal, PlaceError, RepoError, RevisionError, UndoError, UpkeepError, VerbError,
    WorktreeError,
};
use dmv_core::store::StoreError;
use std::io;
use std::path::Path;

/// Hints that several failures share.
const NEWER: &str = "install a newer version of dmv";
const LATER: &str = "run the same command again when the other one has ended";
/// The hint where a commit is not signed. A device key is on the allow-list of a repository, or not.
const SIGN: &str = "dmv commit --amend --sign for the last commit, dmv tag -d NAME and dmv tag --sign NAME for a tag; \
                    or name the device that has signed: dmv trust KEY --name NAME";
const AGAIN: &str = "run the same command again";
/// The hint where a transfer was cut off.
pub const CONTINUE: &str = "run the same command again to continue";
const MOUNT: &str = "mount the file system for writing, then run the same command again";
const FULL: &str = "free some disk space, then run the same command again";

/// A code, an exit code and a hint.
pub type ErrorClass = (&'static str, u8, Option<Hint>);

/// With a command to run.
pub fn hinted(code: &'static str, exit: u8, command: &'static str) -> ErrorClass {
    (code, exit, Some(command.into()))
}

/// Code, exit code and hint of an error.
pub fn sort(e: &RepoError) -> ErrorClass {
    match e {
        RepoError::Place(e) => sort_place(e),
        RepoError::Busy(e) => sort_busy(e),
        RepoError::Branch(e) => sort_branch(e),
        RepoError::Revision(e) => sort_revision(e),
        RepoError::Look(e) => sort_look(e),
        RepoError::Absent(e) => sort_absent(e),
        RepoError::Conflict(e) => sort_conflict(e),
        RepoError::Files(e) => sort_files(e),
        RepoError::Worktree(e) => sort_worktree(e),
        RepoError::Undo(e) => sort_undo(e),
        RepoError::Verb(e) => sort_verb(e),
        RepoError::Upkeep(e) => sort_upkeep(e),
        RepoError::Claim(ClaimError::None(_)) => {
            hinted("no-claim", EXIT_OTHER, "dmv claims --mine")
        }
        RepoError::Claim(ClaimError::NoneOfDevice(_)) => {
            hinted("no-claim", EXIT_OTHER, "dmv claims")
        }
        RepoError::Claim(ClaimError::Full(BookError::Clones)) => hinted(
            "no-room",
            EXIT_OTHER,
            "claim in one of these clones, or end what they claim: dmv release --of DEVICE --all",
        ),
        RepoError::Claim(ClaimError::Full(_)) => hinted("no-room", EXIT_OTHER, "dmv claims"),
        RepoError::Claim(_) => ("cannot-claim", EXIT_OTHER, None),
        RepoError::Object(ObjectError::TooNew { .. }) => hinted("too-new", EXIT_TOO_NEW, NEWER),
        RepoError::Object(_) => damaged("dmv verify"),
        RepoError::Store(e) => sort_store(e),
        RepoError::Refs(e) => sort_refs(e),
        RepoError::Path(e) | RepoError::Io(e) => sort_file(e),
        RepoError::Thread(_) => hinted("no-thread", EXIT_OTHER, FEWER_PROCESSES),
        RepoError::OverBudget => over_budget(),
        RepoError::Cancelled => ("interrupted", EXIT_INTERRUPTED, None),
        RepoError::Untrusted(_) => hinted("unsigned", EXIT_PERMISSION, SIGN),
        RepoError::Unsigned(_) => hinted("cannot-sign", EXIT_OTHER, "dmv config list"),
        RepoError::Unchecked(_) => hinted("cannot-check", EXIT_OTHER, "dmv config list"),
        RepoError::Text(_) => ("bad-text", EXIT_OTHER, None),
    }
}

/// What helps if the system starts no further thread.
pub(super) const FEWER_PROCESSES: &str =
    "run the same command again when fewer processes run; 'ulimit -u' shows how many you may have";

fn sort_place(e: &PlaceError) -> ErrorClass {
    match e {
        PlaceError::NotFound(dir) => match begun_in(dir) {
            Some(clone) => ("no-repository", EXIT_NO_REPOSITORY, Some(clone)),
            None => hinted("no-repository", EXIT_NO_REPOSITORY, "dmv init"),
        },
        PlaceError::Exists(_) => hinted("exists", EXIT_OTHER, "dmv status"),
        PlaceError::Taken(_) | PlaceError::NoParent(_) => {
            ("no-repository", EXIT_NO_REPOSITORY, None)
        }
        PlaceError::InsideRepository { .. } => ("inside-repository", EXIT_REFUSED, None),
        PlaceError::ForeignOwner(dmv) => {
            let (read, trust) = (way_to_read(dmv), way_to_trust(dmv));
            let hint = hint!("to read it: {}; to trust it: {}", read, trust);
            ("foreign-owner", EXIT_PERMISSION, Some(hint))
        }
        PlaceError::TooNew { .. } => hinted("too-new", EXIT_TOO_NEW, NEWER),
        PlaceError::Damaged { path, .. } => match path.file_name() {
            // What `recover` makes anew; `verify` would fail in the same way.
            Some(name) if name == "format" || name == "refs.db" => damaged("dmv recover"),
            Some(name) if name == "slice" => damaged("dmv clone SOURCE DIR"),
            Some(name) if name == DMV_DIR => ("damaged", EXIT_DAMAGE, None),
            _ => damaged("dmv verify"),
        },
        PlaceError::NoFormat(_) => damaged("dmv recover"),
        PlaceError::NoPacks(_) => damaged("dmv clone SOURCE DIR"),
        PlaceError::NoDatabase(_) => damaged("dmv recover"),
        PlaceError::LostRepository { worktree, .. } => {
            let worktree = Argument::on_disk(worktree);
            let hint = hint!("dmv -C REPOSITORY worktree repair {}", worktree);
            ("lost-repository", EXIT_NO_REPOSITORY, Some(hint))
        }
    }
}

fn sort_busy(e: &BusyError) -> ErrorClass {
    match e {
        BusyError::Worktree(_)
        | BusyError::PurgedMeanwhile
        | BusyError::Freeing(_)
        | BusyError::Reaching(_) => hinted("busy", EXIT_BUSY, LATER),
    }
}

fn sort_branch(e: &BranchError) -> ErrorClass {
    match e {
        BranchError::RefName(_) => ("bad-name", EXIT_OTHER, None),
        BranchError::NameOfRemote { name, .. } => {
            let other = Argument::value(name.replace('/', "-"));
            let hint = hint!("use another name, such as {}", other);
            ("bad-name", EXIT_OTHER, Some(hint))
        }
        BranchError::RefExists { kind, .. } => {
            ("ref-exists", EXIT_OTHER, Some(hint!("dmv {}", *kind)))
        }
        BranchError::NoRef { kind, .. } => {
            // One that another repository was to have is not listed here.
            let is_ours = ["branch", "tag"].contains(kind);
            (
                "no-ref",
                EXIT_OTHER,
                is_ours.then(|| hint!("dmv {}", *kind)),
            )
        }
        BranchError::InUse { at, .. } if at.is_empty() => hinted(
            "in-use",
            EXIT_REFUSED,
            "dmv checkout BRANCH, to make another branch the default first",
        ),
        BranchError::InUse { at, .. } => {
            let at = Argument::on_disk(at);
            let hint = hint!(
                "dmv -C {} checkout BRANCH, to switch it to another branch first",
                at
            );
            ("in-use", EXIT_REFUSED, Some(hint))
        }
    }
}

fn sort_revision(e: &RevisionError) -> ErrorClass {
    match e {
        RevisionError::Unknown(_)
        | RevisionError::NoPrevious(_)
        | RevisionError::PreviousGone { .. } => {
            hinted("unknown-revision", EXIT_OTHER, "dmv branch")
        }
        RevisionError::OnlyRemote { name, remotes } => {
            let hint = match &remotes[..] {
                [one] => hint!(
                    "{}, or dmv checkout {}, to have the branch here",
                    Argument::value(one),
                    Argument::value(name)
                ),
                [first, ..] => hint!(
                    "dmv checkout -b {} {}",
                    Argument::value(name),
                    Argument::value(first)
                ),
                [] => "dmv branch".into(),
            };
            ("unknown-revision", EXIT_OTHER, Some(hint))
        }
        RevisionError::Ambiguous { candidates, .. } => {
            let hint = candidates
                .first()
                .map(|id| hint!("dmv show {}", Argument::value(id.to_string())));
            ("ambiguous-revision", EXIT_OTHER, hint)
        }
        RevisionError::Several { name, meanings } => {
            let kind = match meanings.first() {
                Some(first) if first.starts_with("refs/heads/") => "branch",
                _ => "tag",
            };
            let hint = match &meanings[..] {
                [_, other, ..] => hint!(
                    "use a full name, such as {}; or {}",
                    Argument::value(other),
                    way_to_rename(kind, name)
                ),
                _ => way_to_rename(kind, name),
            };
            ("ambiguous-revision", EXIT_OTHER, Some(hint))
        }
        RevisionError::Beyond(_) | RevisionError::Syntax(_) => {
            hinted("bad-revision", EXIT_OTHER, "dmv log")
        }
        RevisionError::BadDate { .. } => hinted("bad-revision", EXIT_OTHER, "dmv op log"),
        RevisionError::BeforeLog { text, .. } | RevisionError::NotYet { text, .. } => {
            let date = text.split_once("@{").map_or("", |(_, date)| date);
            let date = date.trim_end_matches('}');
            let hint = if date.parse::<u64>().is_ok() {
                "dmv op log".into()
            } else {
                hint!(
                    "dmv log -1 --until {}, for the newest commit that was made until then",
                    Argument::value(date)
                )
            };
            ("unknown-revision", EXIT_OTHER, Some(hint))
        }
    }
}

/// The commands that give a branch or tag another name.
pub fn way_to_rename(kind: &str, name: &str) -> Hint {
    let old = Argument::value(name);
    match kind {
        "branch" => hint!("dmv branch -m {} NEW, to rename the branch", old),
        _ => hint!(
            "dmv tag NEW {}, then dmv tag -d {}, to rename the tag",
            Argument::value(format!("refs/tags/{name}")),
            old
        ),
    }
}

fn sort_look(e: &LookError) -> ErrorClass {
    match e {
        LookError::NoSuchPath { revision, .. } => {
            let hint = hint!("dmv ls -r {}", Argument::value(revision));
            ("no-such-path", EXIT_OTHER, Some(hint))
        }
        LookError::NothingMatches { namesake, .. } => {
            let hint = namesake.as_ref().map(way_to_name);
            ("no-such-path", EXIT_OTHER, hint)
        }
        LookError::BadPath { .. } => ("bad-path", EXIT_OTHER, None),
        LookError::WrongKind { .. } => ("wrong-kind", EXIT_OTHER, None),
        LookError::NoCommit => hinted("no-commit", EXIT_OTHER, "dmv commit -m MESSAGE"),
        LookError::Moved {
            name,
            base,
            forward,
            ..
        } => {
            let name = Argument::value(name);
            let hint = match (base, forward) {
                (Some(base), false) => hint!(
                    "dmv checkout -b NAME {}, to keep your edits on a new branch; or dmv checkout {}, to update the files",
                    Argument::value(base.short(12)),
                    name
                ),
                _ => hint!(
                    "dmv commit -m MESSAGE, to keep your edits; or dmv checkout {}, to update the files",
                    name
                ),
            };
            ("branch-moved", EXIT_REFUSED, Some(hint))
        }
    }
}

/// How a pattern names a path that looks like a pattern itself.
pub fn way_to_name(path: &RepoPath) -> Hint {
    hint!(
        "for the path of this name, write the pattern {}",
        Argument::pattern(path.as_bytes())
    )
}

fn sort_absent(e: &AbsentError) -> ErrorClass {
    match e {
        AbsentError::Object {
            ty: ObjectType::Commit,
            ..
        } => hinted("absent", EXIT_ABSENT, "dmv fetch --all-history"),
        AbsentError::Object { .. } | AbsentError::Lacking(_) => {
            hinted("absent", EXIT_ABSENT, "dmv get PATH")
        }
        AbsentError::Purged { place: None, .. } => {
            hinted("purged", EXIT_ABSENT, "dmv purge --status")
        }
        // Nothing is purged here: content from another remote would be welcome.
        AbsentError::Purged { place: Some(_), .. } => hinted(
            "purged",
            EXIT_ABSENT,
            "dmv remote add NAME URL, if another repository still has it",
        ),
        AbsentError::Incomplete { .. } => hinted("incomplete", EXIT_ABSENT, "dmv fetch"),
    }
}

fn sort_conflict(e: &ConflictError) -> ErrorClass {
    match e {
        ConflictError::TooManySides { .. } => hinted("too-many-sides", EXIT_OTHER, "dmv conflicts"),
        ConflictError::NoConflict { .. } => hinted("no-conflict", EXIT_OTHER, "dmv conflicts"),
        ConflictError::Unresolved { .. } => hinted("unresolved", EXIT_REFUSED, "dmv conflicts"),
        ConflictError::PutAside { stash, .. } => {
            let hint = hint!("dmv stash pop {}", Argument::value(stash.to_string()));
            ("put-aside", EXIT_REFUSED, Some(hint))
        }
        ConflictError::NestedConflict { path, shown_at, .. } => {
            let to = on_disk_argument(path.as_bytes());
            let hint = shown_at.as_ref().map(|from| {
                let from = on_disk_argument(from.as_bytes());
                hint!(
                    "mv {} {}; then edit what is marked in it, and dmv commit",
                    from,
                    to
                )
            });
            ("nested-conflict", EXIT_CONFLICTS, hint)
        }
        ConflictError::EditedByHand { paths, .. } => {
            let path = path_argument(paths[0].as_bytes());
            let hint = hint!("dmv restore {}, then resolve it again", path);
            (WOULD_LOSE, EXIT_REFUSED, Some(hint))
        }
    }
}

fn sort_files(e: &FilesError) -> ErrorClass {
    match e {
        FilesError::WouldLose { .. } => hinted(
            WOULD_LOSE,
            EXIT_REFUSED,
            "dmv commit -m MESSAGE or dmv stash, to keep them",
        ),
        FilesError::TooMuchToKeep { .. } => hinted(
            "too-much-to-keep",
            EXIT_REFUSED,
            "dmv config set undo.keep-max-size SIZE",
        ),
        FilesError::NotKept { .. } => hinted(
            "not-kept",
            EXIT_REFUSED,
            "dmv status; or add -y, to overwrite it for good",
        ),
        FilesError::Large(_) => ("large-file", EXIT_REFUSED, None),
        FilesError::OutsideSubset(path) => {
            let hint = hint!("dmv subset add {}", Argument::pattern(path.as_bytes()));
            ("outside-subset", EXIT_OTHER, Some(hint))
        }
        FilesError::PathRefused { path, why } => sort_path(path.as_bytes(), *why),
    }
}

fn sort_worktree(e: &WorktreeError) -> ErrorClass {
    match e {
        WorktreeError::NoWorktree => ("no-worktree", EXIT_OTHER, way_to_worktree()),
        WorktreeError::NotFree { .. } => ("not-free", EXIT_REFUSED, None),
        WorktreeError::NoSuchWorktree(_) => {
            hinted("no-such-worktree", EXIT_OTHER, "dmv worktree list")
        }
        WorktreeError::OwnWorktree(_) => hinted("own-worktree", EXIT_REFUSED, "dmv worktree list"),
        WorktreeError::InUse { at, from } => {
            let (at, from) = (Argument::on_disk(at), Argument::on_disk(from));
            let hint = hint!("cd {}; then: dmv worktree remove {}", from, at);
            ("in-use", EXIT_REFUSED, Some(hint))
        }
        WorktreeError::WorktreeCopy { at, .. } => {
            let at = Argument::on_disk(at);
            let hint = hint!("dmv -C {} worktree add DIR", at);
            ("worktree-copy", EXIT_REFUSED, Some(hint))
        }
        WorktreeError::WouldLoseThere { at, .. } => {
            let at = Argument::on_disk(at);
            let hint = hint!(
                "dmv -C {} commit -m MESSAGE, to keep them; or dmv worktree remove --force {}",
                at,
                at
            );
            ("would-lose-worktree", EXIT_REFUSED, Some(hint))
        }
        WorktreeError::Unfinished { command } => {
            let command = Hint::recorded(command);
            let hint = hint!(
                "{}, to continue; or dmv status, to see how to go back",
                command
            );
            ("unfinished", EXIT_REFUSED, Some(hint))
        }
    }
}

fn sort_undo(e: &UndoError) -> ErrorClass {
    match e {
        UndoError::NoOperation { .. } => hinted("no-operation", EXIT_OTHER, "dmv op log"),
        UndoError::NothingToUndo => hinted("nothing-to-undo", EXIT_OTHER, "dmv op log"),
        UndoError::NothingToRedo => hinted("nothing-to-redo", EXIT_OTHER, "dmv op log"),
        UndoError::ChangedSince { by: Some(by), .. } => {
            let id = Argument::value(&by.operation);
            let hint = match &by.at {
                Some(at) => hint!("dmv -C {} undo {}", Argument::on_disk(at), id),
                None => hint!("dmv undo {}", id),
            };
            ("changed-since", EXIT_REFUSED, Some(hint))
        }
        UndoError::WorktreeUsed { path, .. } => {
            let hint = hint!("dmv worktree remove {}", Argument::on_disk(path));
            ("changed-since", EXIT_REFUSED, Some(hint))
        }
        UndoError::ChangedSince { by: None, .. } | UndoError::NotUndone { .. } => {
            hinted("not-undone", EXIT_REFUSED, "dmv op log")
        }
        UndoError::OwnWorktree { .. } => hinted(
            "not-undone",
            EXIT_REFUSED,
            "run it in another worktree: dmv worktree list",
        ),
        UndoError::WorktreeNotThere { path } => {
            let path = Argument::on_disk(path);
            let hint = hint!(
                "dmv worktree repair NEW_PLACE, if it was moved; to forget it: dmv worktree remove {}",
                path
            );
            ("not-undone", EXIT_REFUSED, Some(hint))
        }
        UndoError::UndoOfPurge { before, .. } => {
            let hint = before_it(before.as_ref()).unwrap_or_else(|| {
                "dmv purge --lift PATH, to let the content be stored again".into()
            });
            ("not-undone", EXIT_REFUSED, Some(hint))
        }
        UndoError::UndoOfUnkept { before, .. } => {
            ("not-undone", EXIT_REFUSED, before_it(before.as_ref()))
        }
        UndoError::Expired { .. } => hinted("expired", EXIT_REFUSED, "dmv op log"),
    }
}

/// The hint how to undo the operation before one that cannot be undone.
fn before_it(before: Option<&(String, String)>) -> Option<Hint> {
    let (id, command) = before?;
    Some(hint!(
        "dmv undo {}, to undo the operation before it: {}",
        Argument::value(id),
        Hint::recorded(command)
    ))
}

fn sort_verb(e: &VerbError) -> ErrorClass {
    match e {
        VerbError::NotFastForward { .. } => hinted(
            "not-fast-forward",
            EXIT_REFUSED,
            "the same command without --ff-only, to combine them in a merge commit",
        ),
        VerbError::Mainline { commit, verb, .. } => {
            let commit = Argument::value(commit.short(12));
            let hint = hint!("dmv {} {} --mainline 1", *verb, commit);
            ("mainline", EXIT_USAGE, Some(hint))
        }
        VerbError::CannotPut { .. } => ("path-in-the-way", EXIT_REFUSED, None),
        VerbError::ChangedOnBranch { branch, .. } => {
            let hint = hint!("dmv log {}", Argument::value(branch));
            ("changed-meanwhile", EXIT_REFUSED, Some(hint))
        }
        VerbError::NoStash { .. } => hinted("no-stash", EXIT_OTHER, "dmv stash list"),
        VerbError::NotBisecting => hinted("not-bisecting", EXIT_OTHER, "dmv bisect start BAD GOOD"),
        VerbError::GoodAfterBad { .. } => {
            let hint = "dmv bisect log, to see the results; dmv bisect start, to begin anew";
            hinted("good-after-bad", EXIT_OTHER, hint)
        }
    }
}

fn sort_upkeep(e: &UpkeepError) -> ErrorClass {
    match e {
        UpkeepError::Unconfirmed => hinted("unconfirmed", EXIT_REFUSED, AGAIN),
        UpkeepError::NothingFreed { .. } => damaged("dmv verify --heal"),
    }
}

/// Paths that `rm` or `mv` does not accept.
fn sort_path(path: &[u8], why: PathRefusal) -> ErrorClass {
    let pattern = Argument::pattern(path);
    let on_disk = on_disk_argument(path);
    let path = path_argument(path);
    let (code, exit, hint) = match why {
        PathRefusal::Nowhere => ("no-such-path", EXIT_OTHER, "dmv status".into()),
        PathRefusal::Missing => ("missing", EXIT_OTHER, hint!("dmv restore {}", path)),
        PathRefusal::Untracked => (
            "untracked",
            EXIT_OTHER,
            hint!(
                "rm {}, to delete it; 'dmv undo' would not restore it",
                on_disk
            ),
        ),
        PathRefusal::Ignored => (
            "ignored",
            EXIT_OTHER,
            "use the commands of the system: mv, rm".into(),
        ),
        PathRefusal::Directory => (
            "wrong-kind",
            EXIT_USAGE,
            hint!("the option -r includes everything tracked in {}", path),
        ),
        PathRefusal::NotAFile => return ("wrong-kind", EXIT_OTHER, None),
        PathRefusal::NoDirectory => ("no-directory", EXIT_OTHER, hint!("mkdir -p {}", on_disk)),
        PathRefusal::Conflict => (
            "conflict",
            EXIT_REFUSED,
            hint!("dmv resolve {} --ours, or --theirs", path),
        ),
        PathRefusal::Exists => (
            "exists",
            EXIT_REFUSED,
            "--force replaces a file; 'dmv undo' restores it".into(),
        ),
        PathRefusal::IntoItself | PathRefusal::Twice => return ("usage", EXIT_USAGE, None),
        PathRefusal::IgnoredTarget => (
            "ignored",
            EXIT_REFUSED,
            "--force, to move it all the same".into(),
        ),
        PathRefusal::NotPortable(_) => (
            "not-portable",
            EXIT_REFUSED,
            "take another name, or: dmv config set names.portable false".into(),
        ),
        PathRefusal::Collides => (
            "not-portable",
            EXIT_REFUSED,
            "rename one of them first: dmv mv OLD NEW, and commit".into(),
        ),
        PathRefusal::UnknownTarget => (
            "ignored",
            EXIT_REFUSED,
            "dmv status names the ignore file; --force, to move it all the same".into(),
        ),
        PathRefusal::Partial => (
            "outside-subset",
            EXIT_REFUSED,
            hint!("dmv subset add {}", pattern),
        ),
    };
    (code, exit, Some(hint))
}

/// The command that leads out of the `.dmv` directory of a worktree, if that is where we are.
fn way_to_worktree() -> Option<Hint> {
    let place = find_own().ok()?;
    let is_inside = place.dmv.file_name().is_some_and(|name| name == DMV_DIR);
    let root = place.dmv.parent().filter(|_| is_inside)?;
    Some(hint!("cd {}", Argument::on_disk(root)))
}

fn damaged(hint: &'static str) -> ErrorClass {
    hinted("damaged", EXIT_DAMAGE, hint)
}

fn over_budget() -> ErrorClass {
    hinted(OVER_BUDGET, EXIT_REFUSED, "dmv stats")
}

fn sort_store(e: &StoreError) -> ErrorClass {
    match e {
        StoreError::Io(e) | StoreError::SyncFailed { source: e, .. } => sort_file(e),
        StoreError::DamagedObject { .. } | StoreError::DamagedFile { .. } => damaged("dmv verify"),
        StoreError::DamagedTable { .. } => damaged("dmv recover"),
        StoreError::LostPack { .. } => damaged(HEAL),
        StoreError::Catalogue { .. } => ("refs", EXIT_OTHER, None),
        StoreError::TooNew { .. } => hinted("too-new", EXIT_TOO_NEW, NEWER),
        StoreError::Poisoned { .. } => hinted("poisoned", EXIT_OTHER, "dmv verify"),
        StoreError::Cancelled => ("interrupted", EXIT_INTERRUPTED, None),
        StoreError::OverBudget => over_budget(),
        StoreError::TooLarge { .. } => ("too-large", EXIT_OTHER, None),
        StoreError::NotShared { .. } => hinted(
            "not-shared",
            EXIT_REFUSED,
            "dmv config set worktree.share auto",
        ),
    }
}

fn sort_refs(e: &RefsError) -> ErrorClass {
    match e {
        RefsError::MayCount(e) => sort_refs(e),
        _ if e.is_busy() => hinted("busy", EXIT_BUSY, LATER),
        _ if e.is_damage() => damaged("dmv recover"),
        _ if e.is_refused() => sort_unwritable(),
        RefsError::TooNew(_) | RefsError::NewerOperation => hinted("too-new", EXIT_TOO_NEW, NEWER),
        RefsError::Moved { .. } | RefsError::PackGone(_) | RefsError::MayBeGone => {
            hinted("changed-meanwhile", EXIT_BUSY, AGAIN)
        }
        RefsError::Replaced(db) if !db.exists() => damaged("dmv recover"),
        RefsError::Replaced(_) => hinted("changed-meanwhile", EXIT_BUSY, AGAIN),
        RefsError::NotStored { .. } => damaged("dmv verify"),
        RefsError::TooLarge { .. } => ("too-large", EXIT_OTHER, None),
        RefsError::ReadOnly(_) => sort_unwritable(),
        RefsError::File(e) | RefsError::Lock(e) => sort_file(e),
        _ if e.is_disk_full() => hinted("disk-full", EXIT_OTHER, FULL),
        RefsError::Log(e) => sort_store(e),
        _ => ("refs", EXIT_OTHER, None),
    }
}

/// A database that cannot be written to, by what the system says about writing beside it.
fn sort_unwritable() -> ErrorClass {
    match why_unwritable() {
        Some(e) => sort_file(&e),
        None => ("refs", EXIT_OTHER, None),
    }
}

/// Why nothing can be written into the repository: SQLite does not tell. The system is asked, and
/// nothing is written to find out.
pub fn why_unwritable() -> Option<PathError> {
    let place = find_own().ok()?;
    let error = |path: &Path, e: io::Error| Some(PathError::new("write to", path, e));
    // On a file system that is mounted read-only it says so, whatever the permissions are.
    if let Err(e) = check_access(&place.dmv) {
        return error(&place.dmv, e);
    }
    for name in ["refs.db", "refs.db-wal", "refs.db-shm"] {
        let path = place.dmv.join(name);
        match check_access(&path) {
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return error(&path, e),
            _ => {}
        }
    }
    let is_full = !has_room(&place.dmv, ROOM_BYTES).ok()?;
    let full = || PathError::new("write to", &place.dmv, io::ErrorKind::StorageFull);
    is_full.then(full)
}

/// As much as SQLite needs to open a database for writing.
const ROOM_BYTES: u64 = 64 << 10;

/// A failed operation on a file.
fn sort_file(e: &PathError) -> ErrorClass {
    if OddKind::in_error(&e.source).is_none() {
        return sort_io(&e.source);
    }
    let path = e.path.as_bytes();
    let (from, to) = (
        Argument::value(path),
        Argument::value([path, b".odd"].concat()),
    );
    let hint = hint!("mv {} {}, to put it aside; then dmv verify", from, to);
    ("odd-file", EXIT_DAMAGE, Some(hint))
}

/// An error of the system.
pub fn sort_io(e: &io::Error) -> ErrorClass {
    match e.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            hinted("disk-full", EXIT_OTHER, FULL)
        }
        io::ErrorKind::FileTooLarge => hinted("file-limit", EXIT_OTHER, "ulimit -f unlimited"),
        io::ErrorKind::ReadOnlyFilesystem => hinted("read-only", EXIT_OTHER, MOUNT),
        io::ErrorKind::PermissionDenied => ("permission", EXIT_PERMISSION, None),
        _ => ("io", EXIT_OTHER, None),
    }
}
