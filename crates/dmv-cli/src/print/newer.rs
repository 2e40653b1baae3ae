//! Versions of files that another branch has, as `newer`, `status` and `commit` show them.

use crate::context::now;
use crate::date::ago;
use crate::prelude::*;
use dmv_core::diff::diff_trees;
use dmv_core::object::commit::Person;
use dmv_core::object::tree::TreeEntry;
use dmv_core::repo::{BranchPlace, NewerOptions, NewerReport, NewerVersion, QUICK_COMMITS};
use dmv_core::subset::Subset;
use dmv_core::worktree::scan::Select;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// How many files of a commit are looked up.
const MAX_PATHS: usize = 1_000;

/// How many warnings a command prints at most.
const WARNED: usize = 5;

/// A version with its author.
pub struct NewerLine<'v> {
    /// The version.
    pub version: &'v NewerVersion,
    /// The author of its commit.
    pub author: Person,
}

impl NewerLine<'_> {
    /// `rock.psd  on origin/main, by Grace, 2 hours ago`.
    pub fn text(&self) -> String {
        let (at, on) = (&self.version.path, self.version.on.to_string());
        let (who, when) = self.who_and_when();
        format!("{}  on {}, by {who}, {when}", escape(at), clean(&on))
    }

    /// `newer on origin/main, by Grace, 2 hours ago`.
    pub fn mark(&self) -> String {
        let on = self.version.on.to_string();
        let (who, when) = self.who_and_when();
        format!("newer on {}, by {who}, {when}", clean(&on))
    }

    fn who_and_when(&self) -> (String, String) {
        let when = ago(self.author.seconds, now().seconds);
        (clean(&self.author.name), when)
    }
}

impl ToJson for NewerLine<'_> {
    fn to_json(&self) -> Json {
        let (version, author) = (self.version, &self.author);
        object! {
            ..path(&version.path),
            change: version.kind.word(),
            branch: version.on.branch,
            remote: version.on.remote,
            version.{commit},
            author: author.name,
            time: rfc3339(author.seconds, author.nanos, author.tz_minutes),
        }
    }
}

/// Reads the authors of some versions.
pub fn lines<'v>(repo: &Repo, versions: &'v [NewerVersion]) -> Result<Vec<NewerLine<'v>>, Failure> {
    let line = |version: &'v NewerVersion| {
        let author = repo.read_commit(&version.commit)?.author;
        Ok(NewerLine { version, author })
    };
    versions.iter().map(line).collect()
}

/// Says when each remote that is named was last heard of.
pub fn contacts(repo: &Repo, lines: &[NewerLine<'_>]) -> Result<Vec<String>, Failure> {
    let remotes = lines
        .iter()
        .filter_map(|line| line.version.on.remote.as_deref());
    let remotes: BTreeSet<&str> = remotes.collect();
    if remotes.is_empty() {
        return Ok(Vec::new());
    }
    let contacts = repo.last_contacts()?;
    let told = |remote: &str| {
        let when = contacts.get(remote)?;
        let when = ago(*when, now().seconds);
        Some(format!(
            "as of the last news from {}, {when}",
            clean(remote)
        ))
    };
    Ok(remotes.into_iter().filter_map(told).collect())
}

/// Returns the branch that has all of the versions, if there is just one and it can be merged: status says what to
/// do where one's own branch was moved.
pub fn only_place(lines: &[NewerLine<'_>], head: &Head) -> Option<String> {
    let places: BTreeSet<_> = lines.iter().map(|line| &line.version.on).collect();
    let is_own =
        |place: &BranchPlace| place.remote.is_none() && Some(&place.branch[..]) == head.branch();
    match Vec::from_iter(places)[..] {
        [place] if !is_own(place) => Some(place.to_string()),
        _ => None,
    }
}

/// Returns the newer versions of these paths, as far as a quick look tells. What cannot be read here is left out.
pub fn of_paths(
    context: &Context,
    repo: &Repo,
    own: ObjectId,
    listed: BTreeSet<&[u8]>,
) -> NewerReport {
    if listed.is_empty() {
        return NewerReport::default();
    }
    of_selected(context, repo, own, &ListedPaths(listed))
}

/// The same for selected paths.
pub fn of_selected(
    context: &Context,
    repo: &Repo,
    own: ObjectId,
    select: &dyn Select,
) -> NewerReport {
    let options = NewerOptions {
        own,
        select,
        subset: &Subset::everything(),
        max_commits: QUICK_COMMITS,
    };
    repo.newer(&options, &context.job).unwrap_or_default()
}

/// Returns the newer versions of files that a commit changed.
pub fn of_commit(
    context: &Context,
    repo: &Repo,
    id: ObjectId,
    changed: &[RepoPath],
) -> NewerReport {
    let listed = changed.iter().map(RepoPath::as_bytes);
    of_paths(context, repo, id, listed.collect())
}

/// Returns files that a commit changed, up to a bound. What cannot be read here is left out.
pub fn changed_by(repo: &Repo, id: ObjectId) -> Vec<RepoPath> {
    let mut listed = Vec::new();
    let mut list = |path: &RepoPath, _: Option<&TreeEntry>, _: Option<&TreeEntry>| {
        listed.push(path.clone());
        Ok::<_, RepoError>(match listed.len() {
            MAX_PATHS.. => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
    };
    let mut changed = || {
        let commit = repo.read_commit(&id)?;
        let parent = commit
            .parents
            .first()
            .map(|parent| repo.read_commit(parent));
        let parent = parent.transpose()?.map(|parent| parent.tree);
        diff_trees(repo.objects(), parent, Some(commit.tree), &mut list)
    };
    match changed() {
        Ok(_) => listed,
        Err(_) => Vec::new(),
    }
}

/// Warns of newer versions.
pub fn warn(context: &Context, repo: &Repo, versions: &[NewerVersion]) -> Result<(), Failure> {
    let (shown, more) = versions.split_at(versions.len().min(WARNED));
    for line in lines(repo, shown)? {
        let on = clean(&line.version.on.to_string());
        let (who, when) = line.who_and_when();
        context.ui.warn(format_args!(
            "{on} has a newer version of {}, by {who}, {when}",
            escape(&line.version.path)
        ));
    }
    if !more.is_empty() {
        let more = count(more.len() as u64, "more file", "more files");
        context.ui.warn(format_args!(
            "there are newer versions of {more}: dmv newer"
        ));
    }
    Ok(())
}

/// Exactly these paths.
struct ListedPaths<'p>(BTreeSet<&'p [u8]>);

impl Select for ListedPaths<'_> {
    fn enters(&self, dir: &[u8]) -> bool {
        let below = [dir, b"/"].concat();
        self.0
            .range(&below[..]..)
            .next()
            .is_some_and(|path| path.starts_with(&below))
    }

    fn takes(&self, dir: &[u8], name: &[u8]) -> bool {
        match dir {
            b"" => self.0.contains(name),
            _ => self.0.contains(&[dir, b"/", name].concat()[..]),
        }
    }

    fn takes_all(&self, _: &[u8]) -> bool {
        false
    }
}
