//! How far the work of claims has come, as branches show it here: committed, or landed. Nothing is stored, and no
//! remote is asked. docs/format/claims.md, "Retained and landed", has the rule.

use super::claimed_paths::{TreePair, tree_of};
use super::claims::ClaimInfo;
use crate::hash::ObjectId;
use crate::history::load_commit;
use crate::object::{ObjectRead, ObjectType};
use crate::reach::{Detail, Reach};
use crate::repo::base::branch::BranchPlace;
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use crate::repo::base::worktree;
use crate::repo::look::newer::QUICK_COMMITS;
use std::collections::BTreeMap;

/// The branch on which work lands, unless a setting names another one.
const LANDING_BRANCH: &str = "main";

/// How far the work of a claim has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimProgress {
    /// This commit changes the path, and the landing branch does not have it yet.
    Retained(ObjectId),
    /// The landing branch has it.
    Landed(LandedCommit),
}

/// A commit that has landed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LandedCommit {
    /// The newest commit of the claimer that changes the path.
    pub commit: ObjectId,
    /// The branch that has it.
    pub on: BranchPlace,
}

impl Repo {
    /// Notes in claims how far their work has come. `landing` names the branch on which it lands; without one, it is
    /// `main`, or the branch of the claim where there is no `main`.
    ///
    /// What cannot be told stays as it is: claims are notes, and stop no command.
    pub fn follow_claims<'c>(
        &self,
        claims: impl Iterator<Item = &'c mut ClaimInfo>,
        landing: Option<&str>,
    ) -> Result<(), RepoError> {
        let mut groups: BTreeMap<WorkStart, Vec<&mut ClaimInfo>> = BTreeMap::new();
        for info in claims.filter(|info| info.behind.is_none()) {
            let Some(base) = info.claim.base else {
                continue;
            };
            let branch = info.claim.branch.clone();
            groups
                .entry(WorkStart { base, branch })
                .or_default()
                .push(info);
        }
        let tips = Tips::of(self, landing, !groups.is_empty())?;
        // One budget for all: a page and a status show this beside other things.
        let mut left = QUICK_COMMITS;
        for (start, claims) in groups {
            let mut walk = ProgressWalk {
                objects: self.objects(),
                base: start.base,
                claims,
                left: &mut left,
            };
            // A damaged or absent object tells nothing.
            let _ = walk.follow(&tips, &start.branch);
        }
        Ok(())
    }
}

/// Where the work of some claims began.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct WorkStart {
    base: ObjectId,
    branch: String,
}

/// A branch and its commit.
#[derive(Clone)]
struct Tip {
    place: BranchPlace,
    commit: ObjectId,
}

/// The branches that are known here.
struct Tips {
    all: Vec<Tip>,
    /// The name of the branch on which work lands; `None` for that of the claim.
    landing: Option<String>,
}

impl Tips {
    fn of(repo: &Repo, landing: Option<&str>, is_needed: bool) -> Result<Tips, RepoError> {
        let mut all = Vec::new();
        for prefix in ["remote/", "branch/"].into_iter().filter(|_| is_needed) {
            for (key, _) in repo.refs.with_prefix(prefix)? {
                let name = &key[prefix.len()..];
                let place = match name.split_once('/').filter(|_| prefix == "remote/") {
                    Some((remote, branch)) => BranchPlace {
                        remote: Some(remote.to_owned()),
                        branch: branch.to_owned(),
                    },
                    None => BranchPlace {
                        remote: None,
                        branch: name.to_owned(),
                    },
                };
                let commit = worktree::ref_id(repo, &key)?;
                all.extend(commit.map(|commit| Tip { place, commit }));
            }
        }
        let is_there = |name: &&str| all.iter().any(|tip: &Tip| tip.place.branch == **name);
        let landing = landing.or(Some(LANDING_BRANCH).filter(is_there));
        Ok(Tips {
            landing: landing.map(str::to_owned),
            all,
        })
    }

    fn named<'t>(&'t self, branch: &'t str) -> impl Iterator<Item = &'t Tip> {
        let all = self.all.iter();
        all.filter(move |tip| tip.place.branch == branch)
    }

    /// Returns where work on a branch lands: at remotes, or without any here.
    fn landing<'t>(&'t self, branch: &'t str) -> Vec<&'t Tip> {
        let name = self.landing.as_deref().unwrap_or(branch);
        let at_remotes: Vec<&Tip> = self
            .named(name)
            .filter(|tip| tip.place.remote.is_some())
            .collect();
        if at_remotes.is_empty() {
            return self.named(name).collect();
        }
        at_remotes
    }
}

/// Follows the claims whose work began at one commit on one branch.
struct ProgressWalk<'a, 'c> {
    objects: &'a dyn ObjectRead,
    base: ObjectId,
    claims: Vec<&'c mut ClaimInfo>,
    /// How many commits may still be looked at.
    left: &'a mut usize,
}

impl ProgressWalk<'_, '_> {
    fn follow(&mut self, tips: &Tips, branch: &str) -> Result<(), RepoError> {
        if !self.objects.holds(ObjectType::Commit, &self.base)? {
            return Ok(());
        }
        let landing = tips.landing(branch);
        for tip in &landing {
            for (n, commit) in self.brought(tip.commit, &[])? {
                let on = tip.place.clone();
                let landed = ClaimProgress::Landed(LandedCommit { commit, on });
                self.claims[n].progress.get_or_insert(landed);
            }
        }
        let landed: Vec<ObjectId> = landing.iter().map(|tip| tip.commit).collect();
        let mut is_retained = vec![false; self.claims.len()];
        for tip in tips.named(branch) {
            for (n, commit) in self.brought(tip.commit, &landed)? {
                if !std::mem::replace(&mut is_retained[n], true) {
                    self.claims[n].progress = Some(match self.same_at(&landing, tip, n)? {
                        Some(on) => ClaimProgress::Landed(LandedCommit { commit, on }),
                        None => ClaimProgress::Retained(commit),
                    });
                }
            }
        }
        Ok(())
    }

    /// Returns the newest commit for each claim that changes its path: one of the claimer, in the history of `tip` and
    /// not in that of the claim's base or of `hidden`. A path that `tip` has as the base does was not changed.
    fn brought(
        &mut self,
        tip: ObjectId,
        hidden: &[ObjectId],
    ) -> Result<BTreeMap<usize, ObjectId>, RepoError> {
        let mut open = self.differing(tip)?;
        let mut found = BTreeMap::new();
        let hidden = hidden.iter().copied().chain([self.base]);
        let mut walk = Reach::new([tip], hidden, Detail::Commits);
        while !open.is_empty() && *self.left > 0 {
            let Some(next) = walk.next(self.objects)? else {
                break;
            };
            *self.left -= 1;
            if next.here {
                for n in self.changed_by(&next.id, &open)? {
                    open.retain(|known| *known != n);
                    found.insert(n, next.id);
                }
            }
        }
        Ok(found)
    }

    /// Returns the claims on whose paths a commit has something else than the base.
    fn differing(&self, tip: ObjectId) -> Result<Vec<usize>, RepoError> {
        let trees = (
            tree_of(self.objects, &self.base)?,
            tree_of(self.objects, &tip)?,
        );
        let (Some(before), Some(after)) = trees else {
            return Ok(Vec::new());
        };
        let mut pair = TreePair::new(self.objects, before, after);
        let mut out = Vec::new();
        for n in 0..self.claims.len() {
            if self.differs(&mut pair, n)? {
                out.push(n);
            }
        }
        Ok(out)
    }

    /// Returns which of some claims a commit is about: its author is the claimer, and no parent has the path as it.
    fn changed_by(&self, id: &ObjectId, claims: &[usize]) -> Result<Vec<usize>, RepoError> {
        let commit = load_commit(self.objects, id)?;
        let is_theirs = |n: &&usize| self.claims[**n].by == commit.author.name;
        let mut left: Vec<usize> = claims.iter().filter(is_theirs).copied().collect();
        if left.is_empty() || commit.parents.is_empty() {
            return Ok(Vec::new());
        }
        for parent in &commit.parents {
            let Some(before) = tree_of(self.objects, parent)? else {
                return Ok(Vec::new());
            };
            let mut pair = TreePair::new(self.objects, before, commit.tree);
            let mut kept = Vec::new();
            for n in left {
                if self.differs(&mut pair, n)? {
                    kept.push(n);
                }
            }
            left = kept;
        }
        Ok(left)
    }

    fn differs(&self, pair: &mut TreePair<'_>, n: usize) -> Result<bool, RepoError> {
        let found = pair.at(self.claims[n].claim.path.components())?;
        Ok(found.is_known() && !found.is_same())
    }

    /// Returns a landing branch that has the path of a claim as `tip` has it: somebody has brought the work there in
    /// another commit.
    fn same_at(
        &self,
        landing: &[&Tip],
        tip: &Tip,
        n: usize,
    ) -> Result<Option<BranchPlace>, RepoError> {
        for there in landing {
            let trees = (
                tree_of(self.objects, &there.commit)?,
                tree_of(self.objects, &tip.commit)?,
            );
            if let (Some(theirs), Some(own)) = trees {
                let mut pair = TreePair::new(self.objects, theirs, own);
                let found = pair.at(self.claims[n].claim.path.components())?;
                if found.is_known() && found.is_same() {
                    return Ok(Some(there.place.clone()));
                }
            }
        }
        Ok(None)
    }
}
