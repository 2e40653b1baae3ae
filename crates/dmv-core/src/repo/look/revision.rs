//! Revisions: the ways to name a commit.

use crate::hash::ObjectId;
use crate::history::load_commit;
use crate::limits::MAX_TAG_DEPTH;
use crate::object::{ObjectRead, ObjectType};
use crate::refs::{FETCH_HEAD, HEAD};
use crate::repo::base::error::{LookError, RepoError, RevisionError};
use crate::repo::base::head::Head;
use crate::repo::base::keys::base_key;
use crate::repo::base::repo::{GitIdQuery, Repo};
use crate::repo::base::worktree;
use crate::repo::look::dated::{DatedName, end_of_date, former};
use std::collections::BTreeSet;

/// The fewest hex digits that can name an object.
const MIN_PREFIX: usize = 4;

/// How the id of a commit in Git begins as a revision.
const GIT_ID: &str = "git:";

/// The most meanings that a message lists besides the first.
const MAX_SHOWN: usize = 8;

/// Splits `REV:PATH`. An empty revision means `@`. Without a colon, there is no path.
pub fn split_path(text: &[u8]) -> (String, Option<&[u8]>) {
    // A date has colons, too, and so has an id of Git.
    let skipped = end_of_date(text).max(end_of_git_id(text));
    match text[skipped..].iter().position(|b| *b == b':') {
        Some(at) => {
            let at = skipped + at;
            let revision = String::from_utf8_lossy(&text[..at]).into_owned();
            let revision = if revision.is_empty() {
                "@".to_owned()
            } else {
                revision
            };
            (revision, Some(&text[at + 1..]))
        }
        None => (String::from_utf8_lossy(text).into_owned(), None),
    }
}

/// Returns where the id ends in a text that begins with an id of Git, such as `git:ab12`; 0 without any.
fn end_of_git_id(text: &[u8]) -> usize {
    let Some(rest) = text.strip_prefix(GIT_ID.as_bytes()) else {
        return 0;
    };
    let digits = rest.iter().take_while(|b| b.is_ascii_hexdigit()).count();
    let is_id = digits >= MIN_PREFIX && matches!(rest.get(digits), None | Some(b':' | b'~' | b'^'));
    if is_id { GIT_ID.len() + digits } else { 0 }
}

/// Splits a revision into the name that it begins with and the steps that follow: `main~2` into `main`
/// and `~2`.
fn split_steps(text: &str) -> (&str, &str) {
    let skipped = end_of_date(text.as_bytes());
    let steps = text[skipped..].find(['~', '^']);
    text.split_at(steps.map_or(text.len(), |at| skipped + at))
}

/// Returns the commit to which the steps of a revision lead from `start`: any number of `~n` and `^n`.
/// `text` is the whole revision, for errors.
fn walk_steps(
    objects: &dyn ObjectRead,
    start: ObjectId,
    steps: &str,
    text: &str,
) -> Result<ObjectId, RepoError> {
    let mut id = start;
    let mut steps = steps.chars().peekable();
    while let Some(kind) = steps.next() {
        let mut digits = String::new();
        while let Some(digit) = steps.next_if(|c| c.is_ascii_digit()) {
            digits.push(digit);
        }
        let n = match digits.as_str() {
            "" => 1,
            digits => digits
                .parse::<u64>()
                .map_err(|_| RevisionError::Syntax(text.to_owned()))?,
        };
        if kind != '~' && kind != '^' {
            return Err(RevisionError::Syntax(text.to_owned()).into());
        }
        let beyond = || RevisionError::Beyond(text.to_owned());
        if kind == '~' {
            for _ in 0..n {
                id = *load_commit(objects, &id)?
                    .parents
                    .first()
                    .ok_or_else(beyond)?;
            }
        } else if n > 0 {
            let parents = load_commit(objects, &id)?.parents;
            id = *parents.get(n as usize - 1).ok_or_else(beyond)?;
        }
    }
    Ok(id)
}

impl Repo {
    /// Returns the commit that the revision `text` names.
    ///
    /// A revision begins with a branch, tag, remote branch, id, id prefix, `@` or `HEAD` (the
    /// worktree's head), a full name such as `refs/heads/main`, `-` or `@{-1}` (the head before the last
    /// checkout), `FETCH_HEAD` (what was last fetched from an address). A name can have a date:
    /// `main@{2 days ago}`; without a name, it is the current branch. `git:` and an id or its beginning name
    /// a commit by its id in Git. An annotated tag stands for its commit. Any number of `~n` and `^n` can
    /// follow.
    pub fn resolve(&self, text: &str) -> Result<ObjectId, RepoError> {
        let (name, steps) = split_steps(text);
        let start = self.tagged_by(resolve_name(self, name)?)?;
        walk_steps(self.objects(), start, steps, text)
    }

    /// Returns the commit that an annotated tag stands for, as far as history is stored in this repository; `id`
    /// itself if it is another commit.
    pub fn tagged_by(&self, id: ObjectId) -> Result<ObjectId, RepoError> {
        let mut found = id;
        for _ in 0..MAX_TAG_DEPTH {
            let tagged = match load_commit(self.objects(), &found) {
                Ok(commit) => commit.tagged(),
                // Whoever needs the commit says what is wrong with it.
                Err(_) => None,
            };
            match tagged {
                Some(tagged) if self.store.holds(ObjectType::Commit, &tagged)? => found = tagged,
                _ => break,
            }
        }
        Ok(found)
    }
}

/// Returns whether `name` names the head before the last checkout.
pub fn is_previous(name: &str) -> bool {
    name == "-" || name == "@{-1}"
}

impl Repo {
    /// Returns the head that the worktree had before the last checkout. Fails if there was none;
    /// the error has `name` for it.
    pub fn previous_head(&self, name: &str) -> Result<Head, RepoError> {
        let head = worktree::previous(self)?;
        head.ok_or_else(|| RevisionError::NoPrevious(name.to_owned()).into())
    }
}

fn resolve_previous(repo: &Repo, name: &str) -> Result<ObjectId, RepoError> {
    match repo.previous_head(name)? {
        Head::Commit(id) => Ok(id),
        Head::Branch(branch) => {
            let found = worktree::ref_id(repo, &format!("branch/{branch}"))?;
            let name = name.to_owned();
            found.ok_or_else(|| RevisionError::PreviousGone { name, branch }.into())
        }
    }
}

/// Returns the error for a name that names nothing here. It names the remotes that have such a
/// branch.
fn unknown(repo: &Repo, name: &str) -> Result<RevisionError, RepoError> {
    let mut remotes = Vec::new();
    for (key, _) in repo.refs.with_prefix("remote/")? {
        let remote = key.strip_prefix("remote/").unwrap_or_default();
        if remote
            .split_once('/')
            .is_some_and(|(_, branch)| branch == name)
        {
            remotes.push(remote.to_owned());
        }
    }
    let name = name.to_owned();
    Ok(if remotes.is_empty() {
        RevisionError::Unknown(name)
    } else {
        RevisionError::OnlyRemote { name, remotes }
    })
}

/// Returns the commit that was last fetched from an address: that of the branch with the name of the
/// current one, or of the only branch.
fn fetched_last(repo: &Repo) -> Result<Option<ObjectId>, RepoError> {
    let prefix = format!("remote/{FETCH_HEAD}/");
    if let Some(branch) = repo.head()?.branch()
        && let Some(id) = worktree::ref_id(repo, &format!("{prefix}{branch}"))?
    {
        return Ok(Some(id));
    }
    match &repo.refs.with_prefix(&prefix)?[..] {
        [(key, _)] => worktree::ref_id(repo, key),
        _ => Ok(None),
    }
}

fn resolve_name(repo: &Repo, name: &str) -> Result<ObjectId, RepoError> {
    if name == "@" || name == HEAD {
        return repo
            .head_commit()?
            .ok_or(RepoError::Look(LookError::NoCommit));
    }
    if is_previous(name) {
        return resolve_previous(repo, name);
    }
    if name.len() > GIT_ID.len() && end_of_git_id(name.as_bytes()) == name.len() {
        return one_of(repo, name, commits_in_git(repo, name)?);
    }
    if let Some(dated) = DatedName::parse(name) {
        let (key, what) = dated_key(repo, dated)?;
        return former(repo, &key, name, &what);
    }
    if let Some(full) = FullName::parse(name) {
        let found = worktree::ref_id(repo, &full.key())?;
        return Ok(found.ok_or_else(|| RevisionError::Unknown(name.to_owned()))?);
    }
    let mut commits = commits_with_prefix(repo, name)?;
    if let Some((full, id)) = named_ref(repo, name)? {
        commits.retain(|other| *other != id);
        let mut others: Vec<String> = commits.iter().map(ObjectId::to_string).collect();
        if full.kind != FullKind::Remote {
            let remote = FullName::new(FullKind::Remote, name);
            let is_there = worktree::ref_id(repo, &remote.key())?.is_some();
            others.extend(is_there.then(|| remote.text()));
            let has_fetched = name == FETCH_HEAD && fetched_last(repo)?.is_some();
            others.extend(has_fetched.then(|| format!("refs/remotes/{FETCH_HEAD}/BRANCH")));
        }
        return match &others[..] {
            [] => Ok(id),
            _ => Err(several(name, full, others).into()),
        };
    }
    if name == FETCH_HEAD
        && let Some(id) = fetched_last(repo)?
    {
        return Ok(id);
    }
    one_of(repo, name, commits)
}

/// Returns the only one of the commits that a name can mean.
fn one_of(repo: &Repo, name: &str, mut commits: Vec<ObjectId>) -> Result<ObjectId, RepoError> {
    match commits.as_slice() {
        [] => Err(unknown(repo, name)?.into()),
        [one] => Ok(*one),
        _ => {
            commits.truncate(MAX_SHOWN);
            let prefix = name.to_owned();
            Err(RevisionError::Ambiguous {
                prefix,
                candidates: commits,
            }
            .into())
        }
    }
}

/// Returns the commits whose id in Git begins as `git:ab12` says.
fn commits_in_git(repo: &Repo, name: &str) -> Result<Vec<ObjectId>, RepoError> {
    let Some(reader) = repo.caller.git_ids.get() else {
        return Ok(Vec::new());
    };
    let mut tips = BTreeSet::new();
    for prefix in ["branch/", "tag/", "remote/"] {
        for (key, _) in repo.refs.with_prefix(prefix)? {
            tips.extend(worktree::ref_id(repo, &key)?);
        }
    }
    tips.extend(repo.head_commit()?);
    let hex = name[GIT_ID.len()..].to_ascii_lowercase();
    Ok(reader(&GitIdQuery {
        objects: repo.objects(),
        dmv_dir: repo.dmv_dir(),
        tips: tips.into_iter().collect(),
        hex: &hex,
    })?)
}

/// Returns the key of the view that a revision with a date is about, and what it stands for. A name
/// without a commit now may be that of a branch that was deleted.
fn dated_key(repo: &Repo, dated: DatedName<'_>) -> Result<(String, String), RepoError> {
    let head = repo.head()?;
    let full = match (dated.name, head) {
        ("", Head::Branch(branch)) => FullName::new(FullKind::Branch, &branch),
        ("" | "@" | HEAD, head) => {
            return Ok(match (worktree::worktree_name(repo), head) {
                (Ok(worktree), _) => (base_key(worktree), "this worktree".to_owned()),
                (Err(_), Head::Branch(branch)) => (format!("branch/{branch}"), branch),
                (Err(e), Head::Commit(_)) => return Err(e),
            });
        }
        (name, _) => match FullName::parse(name) {
            Some(full) => full,
            None => named_ref(repo, name)?
                .map_or_else(|| FullName::new(FullKind::Branch, name), |(full, _)| full),
        },
    };
    Ok((full.key(), full.name))
}

/// Returns the branch, else the tag, else the remote branch that has a name.
fn named_ref(repo: &Repo, name: &str) -> Result<Option<(FullName, ObjectId)>, RepoError> {
    for kind in FullKind::ALL {
        let full = FullName::new(kind, name);
        if let Some(id) = worktree::ref_id(repo, &full.key())? {
            return Ok(Some((full, id)));
        }
    }
    Ok(None)
}

/// Returns the error for a name that means a ref and `others`.
fn several(name: &str, full: FullName, others: Vec<String>) -> RevisionError {
    let mut meanings = vec![full.text()];
    meanings.extend(others.into_iter().take(MAX_SHOWN));
    RevisionError::Several {
        name: name.to_owned(),
        meanings,
    }
}

/// Returns the commits whose ids begin with `prefix`, sorted; none if it cannot be a prefix.
fn commits_with_prefix(repo: &Repo, prefix: &str) -> Result<Vec<ObjectId>, RepoError> {
    let hex = prefix.to_ascii_lowercase();
    if hex.len() < MIN_PREFIX || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Ok(Vec::new());
    }
    let found = repo.store.current().with_prefix(&hex, 1000)?;
    let commits = found.iter().filter(|(_, ty)| *ty == ObjectType::Commit);
    let mut commits: Vec<ObjectId> = commits.map(|(id, _)| *id).collect();
    commits.sort();
    Ok(commits)
}

impl Repo {
    /// Returns the local branch that the revision `text` names, also one without commits. Fails like
    /// [`resolve`](Self::resolve) if it means something else as well.
    pub fn named_branch(&self, text: &str) -> Result<Option<String>, RepoError> {
        let full = FullName::parse(text);
        let name = match &full {
            None => text,
            Some(full) if full.kind == FullKind::Branch => &full.name,
            Some(_) => return Ok(None),
        };
        let key = FullName::new(FullKind::Branch, name).key();
        if worktree::ref_id(self, &key)?.is_some() {
            // A name that means several things is an error.
            resolve_name(self, text)?;
            return Ok(Some(name.to_owned()));
        }
        let is_current = self.head()?.branch() == Some(name);
        Ok(is_current.then(|| name.to_owned()))
    }
}

/// What a full name names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FullKind {
    Branch,
    Tag,
    Remote,
}

impl FullKind {
    /// All kinds, in the order in which a short name is looked for.
    const ALL: [FullKind; 3] = [FullKind::Branch, FullKind::Tag, FullKind::Remote];

    /// Returns how full names begin, as in Git, and how the keys of the view do.
    fn prefixes(self) -> (&'static str, &'static str) {
        match self {
            FullKind::Branch => ("refs/heads/", "branch/"),
            FullKind::Tag => ("refs/tags/", "tag/"),
            FullKind::Remote => ("refs/remotes/", "remote/"),
        }
    }
}

/// The name of a ref with its kind: `refs/heads/main`, `refs/tags/v1`, `refs/remotes/origin/main`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FullName {
    kind: FullKind,
    name: String,
}

impl FullName {
    fn new(kind: FullKind, name: &str) -> FullName {
        let name = name.to_owned();
        FullName { kind, name }
    }

    fn parse(text: &str) -> Option<FullName> {
        FullKind::ALL.into_iter().find_map(|kind| {
            let name = text.strip_prefix(kind.prefixes().0)?;
            Some(FullName::new(kind, name))
        })
    }

    fn text(&self) -> String {
        format!("{}{}", self.kind.prefixes().0, self.name)
    }

    fn key(&self) -> String {
        format!("{}{}", self.kind.prefixes().1, self.name)
    }
}
