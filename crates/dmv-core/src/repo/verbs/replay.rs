//! Replay: makes the changes of commits again, on top of another commit.
//!
//! Cherry-pick and rebase use it. Each commit is merged with the one that was made before it. The
//! objects of the whole line belong to one job, so nothing of it is visible before the end.
//! Conflicts are part of the commits and take part in the next merge, so a replay never stops in
//! the middle.

use crate::hash::ObjectId;
use crate::history::load_commit;
use crate::job::Job;
use crate::merge::{MergeError, MergeResult, MovedEntry, Trees, merge_trees};
use crate::object::commit::{Commit, Person};
use crate::object::mem::{Both, MemObjects, Tee};
use crate::object::name::RepoPath;
use crate::object::root::Lack;
use crate::object::tree::empty_tree_id;
use crate::object::{ObjectError, ObjectType, ObjectWrite};
use crate::repo::base::error::{AbsentError, RepoError};
use crate::repo::base::repo::Repo;
use crate::repo::base::signing;
use crate::repo::base::transaction::Transaction;
use crate::repo::conflict::at::{conflict_paths, list_conflicts, paths_at};
use crate::repo::verbs::mainline::mainline_parent;
use crate::repo::verbs::merge::{after_moves, check_names_in};
use std::collections::BTreeSet;

/// New objects are kept in memory up to this number of bytes. Then they are made durable and read
/// from the store.
const PORTION_BYTES: u64 = 32 << 20;

/// A commit whose change is made again.
#[derive(Clone, Copy, Debug)]
pub struct Pick {
    /// The commit.
    pub commit: ObjectId,
    /// The parent that the change starts from. Without one, it starts from an empty tree.
    pub parent: Option<ObjectId>,
}

/// How commits are made again.
pub struct How {
    /// Who commits, and when.
    pub committer: Person,
    /// Whether a commit stays as it is if it already follows the last one.
    pub keeps: bool,
    /// Whether the message says which commit the change comes from.
    pub notes_origin: bool,
    /// Whether new names have to be portable.
    pub portable_names: bool,
}

/// A commit that was made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayedCommit {
    /// The commit with the change.
    pub from: ObjectId,
    /// The new commit. It is the same one if it could stay as it is.
    pub commit: ObjectId,
}

/// The line of commits that a replay has made.
pub struct Line {
    /// The last commit, with its value.
    pub tip: (ObjectId, Commit),
    /// The commits in their order.
    pub made: Vec<ReplayedCommit>,
    /// Commits that had nothing left to change.
    pub dropped: Vec<ObjectId>,
    pub moves: Vec<MovedEntry>,
    pub moves_skipped: bool,
    pub coarse: Vec<RepoPath>,
    pub content_bytes: u64,
}

/// Makes the changes of `picks` again, one after the other, on top of `onto`.
///
/// Adds the new commits to `tx`. Fails with [`AbsentError::Lacking`] if content is
/// absent that any of the merges needs.
pub fn replay(
    tx: &mut Transaction<'_>,
    onto: ObjectId,
    picks: &[Pick],
    how: &How,
    job: &Job,
) -> Result<Line, RepoError> {
    let repo = tx.repo();
    let commit = repo.read_commit(&onto)?;
    let mut replay = Replay {
        repo,
        tx,
        how,
        job,
        made: MemObjects::new(),
        conflicts: conflict_paths(repo, &commit)?.into_iter().collect(),
        lacks: Vec::new(),
        line: Line {
            tip: (onto, commit),
            made: Vec::new(),
            dropped: Vec::new(),
            moves: Vec::new(),
            moves_skipped: false,
            coarse: Vec::new(),
            content_bytes: 0,
        },
    };
    let mut rest = picks;
    while !rest.is_empty() {
        rest = replay.portion(rest)?;
    }
    let Replay { lacks, line, .. } = replay;
    if lacks.is_empty() {
        Ok(line)
    } else {
        Err(AbsentError::Lacking(without_repeats(lacks)).into())
    }
}

/// A replay under way.
struct Replay<'a, 'r> {
    repo: &'r Repo,
    tx: &'a mut Transaction<'r>,
    how: &'a How,
    job: &'a Job,
    /// Objects of this portion, which the store cannot read yet.
    made: MemObjects,
    /// The paths where the last commit has conflicts.
    conflicts: BTreeSet<RepoPath>,
    /// Absent content. Once there is any, the replay continues only to find all of it.
    lacks: Vec<Lack>,
    line: Line,
}

impl Replay<'_, '_> {
    /// Replays commits until their objects fill a portion, and stores these. Returns the commits
    /// that are left.
    fn portion<'p>(&mut self, picks: &'p [Pick]) -> Result<&'p [Pick], RepoError> {
        let mut rest = picks;
        while let Some((pick, behind)) = rest.split_first()
            && self.made.bytes() < PORTION_BYTES
        {
            self.job.check()?;
            self.step(*pick)?;
            rest = behind;
        }
        if self.made.is_empty() || !self.lacks.is_empty() {
            return Ok(rest);
        }
        self.tx.objects()?;
        self.made = MemObjects::new();
        Ok(rest)
    }

    /// Replays one commit.
    fn step(&mut self, pick: Pick) -> Result<(), RepoError> {
        let commit = self.repo.read_commit(&pick.commit)?;
        let tip = self.line.tip.0;
        if self.how.keeps && commit.parents == [tip] {
            self.conflicts = conflict_paths(self.repo, &commit)?.into_iter().collect();
            self.line.made.push(ReplayedCommit {
                from: pick.commit,
                commit: pick.commit,
            });
            self.line.tip = (pick.commit, commit);
            return Ok(());
        }
        let parent = pick.parent.map(|id| self.repo.read_commit(&id));
        let parent = parent.transpose()?;
        let before = parent.as_ref().map(|parent| parent.tree);
        let merged = self.merge(before, commit.tree)?;
        let changes = commit.tree != before.unwrap_or_else(empty_tree_id);
        if changes && merged.tree.id == self.line.tip.1.tree {
            self.line.dropped.push(pick.commit);
            return Ok(());
        }
        if self.how.portable_names {
            let both = Both {
                made: &self.made,
                reader: self.repo.objects(),
            };
            check_names_in(self.repo, &both, &[self.line.tip.1.tree], merged.tree.id)?;
        }
        let mut inherited = std::mem::take(&mut self.conflicts);
        for one in [Some(&commit), parent.as_ref()].into_iter().flatten() {
            inherited.extend(conflict_paths(self.repo, one)?);
        }
        self.conflicts = self.open_conflicts(&merged, inherited)?;
        self.put(pick.commit, commit, &merged)?;
        self.line.moves_skipped |= merged.moves_skipped;
        self.line.content_bytes += merged.content_bytes;
        let moves = merged.moves.into_iter();
        let new: Vec<MovedEntry> = moves.filter(|m| !self.line.moves.contains(m)).collect();
        self.line.moves.extend(new);
        let coarse = merged.coarse.into_iter();
        let new: Vec<RepoPath> = coarse.filter(|p| !self.line.coarse.contains(p)).collect();
        self.line.coarse.extend(new);
        Ok(())
    }

    /// Merges the change from `before` to `after` into the last commit.
    fn merge(
        &mut self,
        before: Option<ObjectId>,
        after: ObjectId,
    ) -> Result<MergeResult, RepoError> {
        let both = Both {
            made: &self.made,
            reader: self.repo.objects(),
        };
        let mut tee = Tee {
            made: &self.made,
            writer: &mut *self.tx,
        };
        let trees = Trees {
            base: before,
            ours: self.line.tip.1.tree,
            theirs: after,
        };
        match merge_trees(&both, &mut tee, trees, self.job.cancel_flag()) {
            Err(MergeError::Lacking { lacks, undecided }) => {
                self.lacks.extend(lacks);
                Ok(MergeResult::of_tree(undecided))
            }
            merged => Ok(merged?),
        }
    }

    /// Returns the paths where a merged tree has conflicts: those that the merge has made, and
    /// those of `inherited` that are still there.
    fn open_conflicts(
        &self,
        merged: &MergeResult,
        inherited: BTreeSet<RepoPath>,
    ) -> Result<BTreeSet<RepoPath>, RepoError> {
        let both = Both {
            made: &self.made,
            reader: self.repo.objects(),
        };
        let made = merged.conflicts.iter().map(|c| c.path.clone());
        let mut open: BTreeSet<RepoPath> = made.collect();
        for path in inherited {
            for path in after_moves(path, &merged.moves)? {
                match paths_at(&both, &merged.tree.id, &path) {
                    Ok(found) => open.extend(found),
                    // The conflict lies in a part that no merge touched, so it is unchanged.
                    Err(ObjectError::Missing { .. }) if self.repo.is_partial() => {
                        open.insert(path);
                    }
                    Err(e) => return Err(e.into()),
                }
            }
        }
        Ok(open)
    }

    /// Stores the new form of `commit`, whose id is `from`, and continues from it.
    fn put(
        &mut self,
        from: ObjectId,
        commit: Commit,
        merged: &MergeResult,
    ) -> Result<(), RepoError> {
        let (tip, before) = &self.line.tip;
        let open: Vec<RepoPath> = self.conflicts.iter().cloned().collect();
        let (mut extras, mut message) = (commit.lasting_extras(), commit.message);
        list_conflicts(&mut extras, &open);
        if self.how.notes_origin {
            message = with_origin(&message, &from);
        }
        let mut made = Commit {
            tree: merged.tree.id,
            tree_bytes: merged.tree.bytes,
            tree_files: merged.tree.files,
            parents: vec![*tip],
            generation: before.generation + 1,
            author: commit.author,
            committer: self.how.committer.clone(),
            message,
            extras,
            signature: None,
        };
        signing::sign(self.repo, &mut made)?;
        let bytes = made.encode().map_err(|e| RepoError::Text(e.to_string()))?;
        let mut tee = Tee {
            made: &self.made,
            writer: &mut *self.tx,
        };
        let id = tee.put(ObjectType::Commit, &bytes)?;
        self.line.made.push(ReplayedCommit { from, commit: id });
        self.line.tip = (id, made);
        Ok(())
    }
}

/// Returns a message with a last line that names the commit it comes from, as Git's `-x` does.
fn with_origin(message: &str, from: &ObjectId) -> String {
    let text = message.trim_end();
    let last = text.lines().next_back().unwrap_or_default();
    let gap = if last.starts_with("(cherry picked from commit ") {
        "\n"
    } else {
        "\n\n"
    };
    format!("{text}{gap}(cherry picked from commit {from})")
}

/// Returns absent content in path order, each object once.
fn without_repeats(mut lacks: Vec<Lack>) -> Vec<Lack> {
    let mut seen = BTreeSet::new();
    lacks.retain(|lack| seen.insert((lack.path.clone(), lack.root.id())));
    lacks.sort_by(|a, b| a.path.cmp(&b.path));
    lacks
}

/// Returns a commit's change relative to its parent. For a merge commit, `mainline` names the
/// parent, counted from 1.
pub fn pick_of(
    repo: &Repo,
    commit: ObjectId,
    mainline: Option<usize>,
    verb: &'static str,
) -> Result<Pick, RepoError> {
    let parents = load_commit(repo.objects(), &commit)?.parents;
    let parent = mainline_parent(commit, &parents, mainline, verb)?;
    Ok(Pick { commit, parent })
}
