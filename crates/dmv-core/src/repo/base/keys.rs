//! The keys of the view: how they are named, and which objects their values name
//! (docs/format/layout.md, "The view").

use crate::claims::Writer;
use crate::hash::{ObjectId, encode_hex};
use crate::repo::base::head::Head;

/// The prefix of the keys that name stashes.
pub const STASH: &str = "stash/";

/// Returns the key of the stash with this number.
pub fn stash_key(number: u64) -> String {
    format!("{STASH}{number:012}")
}

/// The key of the number of the oldest operation that undo can reach.
pub const LOG_FROM: &str = "log/from";

/// The prefix of the keys whose names end with the number of an operation that undo can no longer reach.
/// Their values are empty.
pub const LOG_FORGOTTEN: &str = "log/forgotten/";

/// Returns the key that says that undo can no longer reach the operation with this number.
pub fn forgotten_key(number: u64) -> String {
    format!("{LOG_FORGOTTEN}{number}")
}

/// The key of what the last `expire` has given up. No object is named: the content is gone.
pub const LOG_EXPIRED: &str = "log/expired";

/// The key of what the last `purge` has removed. No object is named.
pub const LOG_PURGED: &str = "log/purged";

/// The key of how much the last command overwrote that was too large to keep. No object is named.
pub const LOG_UNKEPT: &str = "log/unkept";

/// The key of how many commits the last import brought. No object is named.
pub const LOG_IMPORTED: &str = "log/imported";

/// The key of the local keep rules.
pub const KEEP_RULES: &str = "keep/rules";

/// The key of the limit on the repository's size.
pub const BUDGET: &str = "budget";

/// The key that says that pushes may bring only signed commits.
pub const PUSH_SIGNED: &str = "push/signed";

/// The prefix of the keys about claims. None of their values names an object that has to stay.
const CLAIMS: &str = "claims";

/// The prefix of the keys of lists of claims, before their writers.
pub const CLAIM_LISTS: &str = "claims/list/";

/// The prefix of the keys of the claims that hold in this repository, before the number of the part.
pub const CLAIMS_HELD: &str = "claims/held/";

/// The prefix of the keys of what remotes have told of claims, before their names and the number of the part.
pub const CLAIMS_AT: &str = "claims/at/";

/// Returns the prefix of the keys of what a remote has told of claims, before the number of the part.
pub fn claims_at_prefix(remote: &str) -> String {
    format!("{CLAIMS_AT}{remote}/")
}

/// The key that says that pushes keep to the claims of others.
pub const CLAIMS_ENFORCED: &str = "claims/enforced";

/// Returns the key of a writer's list of claims.
pub fn claim_list_key(writer: &Writer) -> String {
    let (device, place) = (encode_hex(&writer.device), encode_hex(&writer.place));
    format!("{CLAIM_LISTS}{device}/{place}")
}

/// Returns whether a key is about claims that somebody makes, and not about keeping to them.
pub fn is_about_claims(key: &str) -> bool {
    [CLAIM_LISTS, CLAIMS_HELD, CLAIMS_AT]
        .iter()
        .any(|prefix| key.starts_with(prefix))
}

/// Returns whether a key only records what others have claimed: a list that was not made in the repository
/// with this id, or what holds.
pub fn is_about_claims_of_others(key: &str, repository: &[u8]) -> bool {
    let own = format!("/{}", encode_hex(repository));
    let is_own_list = key.starts_with(CLAIM_LISTS) && key.ends_with(&own);
    is_about_claims(key) && !is_own_list
}

/// The keys outside of worktrees whose values are texts.
const TEXTS: [&str; 8] = [
    LOG_FROM,
    LOG_EXPIRED,
    LOG_PURGED,
    LOG_UNKEPT,
    LOG_IMPORTED,
    KEEP_RULES,
    BUDGET,
    PUSH_SIGNED,
];

/// An object that the value of a key names. Everything that it needs stays as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NamedObject {
    /// A commit.
    Commit(ObjectId),
    /// Perhaps an object of any type. This version does not know the key, but the value has the form
    /// of an id. If nothing with this id is stored, it was no id.
    Perhaps(ObjectId),
}

impl NamedObject {
    /// Returns the id.
    pub fn id(self) -> ObjectId {
        match self {
            NamedObject::Commit(id) | NamedObject::Perhaps(id) => id,
        }
    }

    /// Returns the id if it is that of a commit.
    pub fn commit(self) -> Option<ObjectId> {
        match self {
            NamedObject::Commit(id) => Some(id),
            NamedObject::Perhaps(_) => None,
        }
    }
}

/// Returns the objects that a value of the key `key` names.
///
/// Everything that asks what must stay uses this function: it is the only one that knows.
pub fn named_by(key: &str, value: &[u8]) -> Vec<NamedObject> {
    let (first, rest) = key.split_once('/').unwrap_or((key, ""));
    let of_worktree = rest.rsplit_once('/').map(|(_, part)| part);
    match (first, of_worktree) {
        ("branch" | "tag" | "remote" | "stash", _)
        | ("worktree", Some("base" | "notes" | "steps" | "begun")) => {
            let id = <[u8; 32]>::try_from(value).ok();
            Vec::from_iter(id.map(|id| NamedObject::Commit(ObjectId::from_bytes(id))))
        }
        ("worktree", Some("head" | "previous")) => Vec::from_iter(named_by_head(value)),
        ("worktree", Some("bisect")) => named_by_bisection(value),
        ("worktree", Some("path" | "subset")) | ("peer", _) => Vec::new(),
        (CLAIMS, _) => Vec::new(),
        _ if TEXTS.contains(&key) => Vec::new(),
        _ => perhaps_named(value),
    }
}

/// Returns the commit in the value of a head that is on no branch.
fn named_by_head(value: &[u8]) -> Option<NamedObject> {
    match Head::parse(value) {
        Some(Head::Commit(id)) => Some(NamedObject::Commit(id)),
        _ => None,
    }
}

/// Returns the commits in a record of a bisection. Its lines are a word and a commit, and the first
/// one may have a branch.
fn named_by_bisection(value: &[u8]) -> Vec<NamedObject> {
    let named = |line: &[u8]| {
        let at = line.iter().position(|b| *b == b' ')?;
        named_by_head(&line[at + 1..])
    };
    value.split(|b| *b == b'\n').filter_map(named).collect()
}

/// Returns what a value looks like whose key is unknown: one or two ids, or an id as text. A later
/// version may have written it.
fn perhaps_named(value: &[u8]) -> Vec<NamedObject> {
    if let Some(NamedObject::Commit(id)) = named_by_head(value) {
        return vec![NamedObject::Perhaps(id)];
    }
    let (ids, rest) = value.as_chunks::<32>();
    match (ids.len(), rest) {
        (1 | 2, []) => {
            let ids = ids.iter().map(|id| ObjectId::from_bytes(*id));
            ids.map(NamedObject::Perhaps).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the worktree that a key is about.
pub fn worktree_of(key: &str) -> Option<&str> {
    let (name, _) = key.strip_prefix("worktree/")?.split_once('/')?;
    Some(name)
}

pub fn head_key(name: &str) -> String {
    format!("worktree/{name}/head")
}

pub fn base_key(name: &str) -> String {
    format!("worktree/{name}/base")
}

pub fn path_key(name: &str) -> String {
    format!("worktree/{name}/path")
}

pub fn subset_key(name: &str) -> String {
    format!("worktree/{name}/subset")
}

/// Returns the key of the head that the worktree had before the last checkout.
pub fn previous_key(name: &str) -> String {
    format!("worktree/{name}/previous")
}

/// Returns the key of the worktree's search for a first bad commit.
pub fn bisect_key(name: &str) -> String {
    format!("worktree/{name}/bisect")
}

/// The last parts of keys of worktrees that earlier builds had.
pub const FORMER: [&str; 8] = [
    "conflicts",
    "marked",
    "moved",
    "saved",
    "saving",
    "settled",
    "stays",
    "untracked",
];

/// Returns the key of the worktree's notes of paths (see `notes`).
pub fn notes_key(name: &str) -> String {
    format!("worktree/{name}/notes")
}

/// Returns the key of the steps of the last command (see `steps`).
pub fn steps_key(name: &str) -> String {
    format!("worktree/{name}/steps")
}

/// Returns the key of the steps of a command that has not finished.
pub fn begun_key(name: &str) -> String {
    format!("worktree/{name}/begun")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> ObjectId {
        ObjectId::from_bytes([n; 32])
    }

    #[test]
    fn each_key_names_what_the_format_says() {
        let (raw, hex) = (vec![1; 32], id(1).to_string().into_bytes());
        let commit = vec![NamedObject::Commit(id(1))];
        for key in [
            "branch/main",
            "branch/a/head",
            "tag/v1",
            "remote/origin/x/path",
            "stash/000000000007",
            "worktree/main/base",
            "worktree/main/notes",
            "worktree/main/steps",
            "worktree/main/begun",
        ] {
            assert_eq!(named_by(key, &raw), commit, "{key}");
            assert_eq!(named_by(key, b"short"), [], "{key}");
        }
        for key in ["worktree/main/head", "worktree/two/previous"] {
            assert_eq!(named_by(key, &hex), commit, "{key}");
            assert_eq!(named_by(key, b"branch/main"), [], "{key}");
        }
        for key in [
            "worktree/main/path",
            "worktree/main/subset",
            "log/from",
            "log/expired",
            "log/purged",
            "log/unkept",
            "keep/rules",
            "budget",
            "push/signed",
            "claims/held/000",
            "claims/at/origin/000",
        ] {
            assert_eq!(named_by(key, &raw), [], "{key}");
            assert_eq!(named_by(key, &hex), [], "{key}");
        }
        assert_eq!(named_by(&format!("peer/{}", id(1)), &hex), []);
    }

    #[test]
    fn a_bisection_names_its_commits_and_the_head_before_it() {
        let key = bisect_key("main");
        let lines = format!("start {}\nbad {}\nskip {}\nrelated\n", id(1), id(2), id(3));
        let named = [1, 2, 3].map(|n| NamedObject::Commit(id(n)));
        assert_eq!(named_by(&key, lines.as_bytes()), named);
        let lines = format!("start branch/a b\ngood {}\n", id(4));
        assert_eq!(
            named_by(&key, lines.as_bytes()),
            [NamedObject::Commit(id(4))]
        );
        assert_eq!(named_by(&key, b"start"), []);
    }

    #[test]
    fn a_value_of_an_unknown_key_may_be_an_id() {
        for key in ["shelf/1", "worktree/main/later", "worktree/main", "x", ""] {
            let two = [[1; 32], [2; 32]].concat();
            let perhaps = |n| NamedObject::Perhaps(id(n));
            assert_eq!(named_by(key, &two[..32]), [perhaps(1)], "{key}");
            assert_eq!(named_by(key, &two), [perhaps(1), perhaps(2)], "{key}");
            let hex = id(3).to_string();
            assert_eq!(named_by(key, hex.as_bytes()), [perhaps(3)], "{key}");
            for other in [&two[..31], &two[..63], &[0; 96], b"", b"text"] {
                assert_eq!(named_by(key, other), [], "{key}");
            }
        }
    }
}
