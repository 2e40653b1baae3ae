//! Where the versions of a conflict come from: the commits that made them, so that a page can say names and times.

use crate::words::{minute, shown};
use dmv_core::hash::ObjectId;
use dmv_core::history::paths::PathLog;
use dmv_core::object::commit::Commit;
use dmv_core::object::name::RepoPath;
use dmv_core::repo::{ConflictAt, Location, RefKind, Repo, RepoError};

/// Commits that are looked at for the merge that made a conflict.
const MAX_CARRIED: usize = 1_000;
/// Commits that are looked at for the last change of a version.
const MAX_VISITED: usize = 5_000;

/// The commits that made the versions of a conflict, as far as they are known.
#[derive(Default)]
pub struct Origins(Vec<(&'static str, Origin)>);

/// The commit that made a version.
pub struct Origin {
    /// The commit.
    pub commit: Commit,
    /// The branch that brought it into the merge.
    pub branch: Option<String>,
}

impl Origin {
    /// Who made the version, and when.
    pub fn who(&self) -> String {
        let author = &self.commit.author;
        format!("{}, {}", shown(author.name.as_bytes()), minute(author))
    }
}

impl Origins {
    /// Looks for the origins of a conflict that `commit` has. It may have carried it on from an older merge.
    pub fn of(repo: &Repo, commit: ObjectId, at: &ConflictAt) -> Origins {
        // The page is of use without them, too.
        Origins::look(repo, commit, at).unwrap_or_default()
    }

    /// The origin of the version with this label.
    pub fn find(&self, label: &str) -> Option<&Origin> {
        let found = self.0.iter().find(|(known, _)| *known == label);
        found.map(|(_, origin)| origin)
    }

    fn look(repo: &Repo, commit: ObjectId, at: &ConflictAt) -> Result<Origins, RepoError> {
        let mut out = Origins::default();
        // The merge of a merge has more sides than labels that a commit answers to.
        let is_plain = at.conflict.sides.len() == 2 && at.conflict.bases.len() <= 1;
        let Some((merge, is_newest)) = merge_of(repo, commit, at)?.filter(|_| is_plain) else {
            return Ok(out);
        };
        let tips = repo.merged_by(&merge)?;
        let current = repo
            .head()?
            .branch()
            .map(str::to_owned)
            .filter(|_| is_newest);
        for (label, tip) in ["ours", "theirs", "base"].into_iter().zip(tips) {
            let branch = match (label, &current) {
                ("base", _) => None,
                ("ours", Some(current)) => Some(current.clone()),
                _ => branch_at(repo, tip)?,
            };
            let commit = last_change(repo, tip, &at.path)?;
            out.0.push((label, Origin { commit, branch }));
        }
        Ok(out)
    }
}

/// The merge whose parents do not have the conflict, and whether it is `commit` itself.
fn merge_of(
    repo: &Repo,
    commit: ObjectId,
    at: &ConflictAt,
) -> Result<Option<(Commit, bool)>, RepoError> {
    let mut id = commit;
    for _ in 0..MAX_CARRIED {
        let now = repo.read_commit(&id)?;
        let mut before = None;
        for parent in &now.parents {
            let there = repo.locate("", &repo.read_commit(parent)?, &at.path);
            if matches!(there, Ok(Location::Entry(entry)) if entry.id == at.id) {
                before = Some(*parent);
                break;
            }
        }
        match before {
            Some(parent) => id = parent,
            None if now.parents.len() == 2 => return Ok(Some((now, id == commit))),
            None => return Ok(None),
        }
    }
    Ok(None)
}

/// The newest commit that has changed a path; the tip itself if that is not found, as when the file was moved.
fn last_change(repo: &Repo, tip: ObjectId, path: &RepoPath) -> Result<Commit, RepoError> {
    let paths = [path.clone()];
    let changed = repo.changed_paths(&paths);
    let mut log = PathLog::new(repo.objects(), &changed, &[tip], &paths)?;
    for _ in 0..MAX_VISITED {
        match log.advance::<RepoError>(None)? {
            Some(visited) if visited.shown => return Ok(visited.commit),
            Some(_) => {}
            None => break,
        }
    }
    repo.read_commit(&tip)
}

/// A branch that is at a commit, here or at a remote.
fn branch_at(repo: &Repo, id: ObjectId) -> Result<Option<String>, RepoError> {
    let here = repo.list_refs(RefKind::Branch)?;
    if let Some(info) = here.into_iter().find(|info| info.commit == Some(id)) {
        return Ok(Some(info.name));
    }
    for (key, _) in repo.refs().with_prefix("remote/")? {
        if repo.ref_at(&key)? == Some(id) {
            return Ok(key.strip_prefix("remote/").map(str::to_owned));
        }
    }
    Ok(None)
}
