//! Bisect: the search for the first bad commit by tests of commits between good and bad ones.
//!
//! The view records the search (docs/format/layout.md, "A bisection"), so each step is one
//! operation: it notes a result and checks out the next commit to test.

use crate::hash::ObjectId;
use crate::history::bisect::{Next, Suspects};
use crate::history::{is_ancestor, merge_bases};
use crate::job::Job;
use crate::refs::{Change, Effect};
use crate::repo::base::error::{LookError, PlaceError, RepoError, VerbError};
use crate::repo::base::head::Head;
use crate::repo::base::keys::bisect_key;
use crate::repo::base::publish::change;
use crate::repo::base::repo::Repo;
use crate::repo::base::transaction::Transaction;
use crate::repo::base::worktree::WorktreeLock;
use crate::repo::base::{branch, whole, worktree};
use crate::repo::files::checkout::{
    CheckoutCall, CheckoutOptions, CheckoutReport, checkout_locked,
};
use std::collections::HashSet;

/// The result of a test of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The commit does not have the fault.
    Good,
    /// The commit has the fault.
    Bad,
    /// The commit cannot be tested.
    Skip,
}

/// A search for the first bad commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bisection {
    /// The head before the search. The end of the search returns to it.
    pub start: Head,
    /// The bad commit.
    pub bad: Option<ObjectId>,
    /// The good commits, in the order of their tests.
    pub good: Vec<ObjectId>,
    /// The commits that cannot be tested.
    pub skipped: Vec<ObjectId>,
    /// Whether good commits that are no ancestors of the bad one were dealt with.
    is_related: bool,
}

/// What a step of a bisection came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BisectNext {
    /// The search needs a bad and a good commit to begin.
    Waiting,
    /// This commit is checked out, to be tested.
    Test {
        /// The commit.
        commit: ObjectId,
        /// How many commits are left if it is good.
        left: usize,
        /// About how many tests are left after this one, as Git estimates it.
        steps: u32,
        /// Whether it is a merge base of the bad commit and a good one beside its history.
        is_merge_base: bool,
    },
    /// This is the first bad commit.
    Found(ObjectId),
    /// One of these is the first bad commit. All others of them were skipped.
    OnlySkipped(Vec<ObjectId>),
}

/// A bisection after a step.
#[derive(Debug)]
pub struct BisectReport {
    /// The search, with all results so far.
    pub state: Bisection,
    /// What comes next.
    pub next: BisectNext,
    /// What the checkout of the next commit did.
    pub checkout: Option<CheckoutReport>,
    /// Whether history that is absent from this repository may have the first bad commit.
    pub is_cut_off: bool,
}

impl Bisection {
    fn new(start: Head) -> Bisection {
        Bisection {
            start,
            bad: None,
            good: Vec::new(),
            skipped: Vec::new(),
            is_related: false,
        }
    }

    fn note(&mut self, verdict: Verdict, commit: ObjectId) {
        let list = match verdict {
            Verdict::Bad => {
                self.bad = Some(commit);
                return;
            }
            Verdict::Good => &mut self.good,
            Verdict::Skip => &mut self.skipped,
        };
        if !list.contains(&commit) {
            list.push(commit);
        }
    }

    fn value(&self) -> Vec<u8> {
        let mut out = b"start ".to_vec();
        out.extend(self.start.value());
        out.push(b'\n');
        let bad = self.bad.iter().map(|id| ("bad", id));
        let good = self.good.iter().map(|id| ("good", id));
        let skipped = self.skipped.iter().map(|id| ("skip", id));
        for (word, id) in bad.chain(good).chain(skipped) {
            out.extend(format!("{word} {id}\n").bytes());
        }
        if self.is_related {
            out.extend(b"related\n");
        }
        out
    }

    /// Parses a value of the view. Returns `None` if it is not such a value.
    fn parse(value: &[u8]) -> Option<Bisection> {
        let text = std::str::from_utf8(value).ok()?;
        let mut lines = text.lines();
        let start = lines.next()?.strip_prefix("start ")?;
        let mut out = Bisection::new(Head::parse(start.as_bytes())?);
        for line in lines {
            if line == "related" {
                out.is_related = true;
                continue;
            }
            let (word, id) = line.split_once(' ')?;
            let verdict = match word {
                "bad" => Verdict::Bad,
                "good" => Verdict::Good,
                "skip" => Verdict::Skip,
                _ => return None,
            };
            out.note(verdict, ObjectId::from_hex(id)?);
        }
        Some(out)
    }
}

impl Repo {
    /// Returns the search for a first bad commit in this worktree, if one is under way.
    pub fn bisection(&self) -> Result<Option<Bisection>, RepoError> {
        let Ok(name) = worktree::worktree_name(self) else {
            return Ok(None);
        };
        let key = bisect_key(name);
        let Some(value) = self.refs.get(&key)? else {
            return Ok(None);
        };
        let damaged = || {
            RepoError::Place(PlaceError::Damaged {
                path: self.refs.path().to_owned(),
                why: format!("{key} is invalid"),
            })
        };
        Bisection::parse(&value).map(Some).ok_or_else(damaged)
    }

    /// Begins a search for the first bad commit, or begins anew with other commits. With a bad and
    /// a good commit, checks out the first commit to test, like [`Repo::checkout`].
    pub fn bisect_start(
        &self,
        bad: Option<ObjectId>,
        good: &[ObjectId],
        options: &CheckoutOptions,
        job: &Job,
    ) -> Result<BisectReport, RepoError> {
        let lock = worktree::lock_worktree(self)?;
        let start = match self.bisection()? {
            Some(earlier) => earlier.start,
            None => self.head()?,
        };
        self.head_commit()?.ok_or(LookError::NoCommit)?;
        let named: Vec<ObjectId> = bad.iter().chain(good).copied().collect();
        whole::check_complete(self, &named)?;
        let mut state = Bisection::new(start);
        state.bad = bad;
        for id in good {
            state.note(Verdict::Good, *id);
        }
        go_on(self, &lock, state, options, job)
    }

    /// Notes the result of tests, and checks out the next commit to test.
    ///
    /// Fails with [`VerbError::GoodAfterBad`](crate::repo::VerbError::GoodAfterBad), and notes nothing,
    /// if the result contradicts others.
    pub fn bisect_note(
        &self,
        verdict: Verdict,
        commits: &[ObjectId],
        options: &CheckoutOptions,
        job: &Job,
    ) -> Result<BisectReport, RepoError> {
        let lock = worktree::lock_worktree(self)?;
        let mut state = self.bisection()?.ok_or(VerbError::NotBisecting)?;
        whole::check_complete(self, commits)?;
        for id in commits {
            state.note(verdict, *id);
        }
        go_on(self, &lock, state, options, job)
    }

    /// Returns what a search has come to, without a step.
    pub fn bisect_progress(&self) -> Result<BisectReport, RepoError> {
        let mut state = self.bisection()?.ok_or(VerbError::NotBisecting)?;
        let (next, is_cut_off) = next(self, &mut state)?;
        Ok(BisectReport {
            state,
            next,
            checkout: None,
            is_cut_off,
        })
    }

    /// Ends the search and returns to the head before it.
    pub fn bisect_end(
        &self,
        options: &CheckoutOptions,
        job: &Job,
    ) -> Result<CheckoutReport, RepoError> {
        let lock = worktree::lock_worktree(self)?;
        let state = self.bisection()?.ok_or(VerbError::NotBisecting)?;
        let (head, commit) = match state.start {
            Head::Commit(id) => (Head::Commit(id), id),
            Head::Branch(name) => {
                match worktree::ref_id(self, &format!("branch/{name}"))? {
                    Some(id) => {
                        if self.head()?.branch() != Some(&name) {
                            branch::refuse_taken(self, &name)?;
                        }
                        (Head::Branch(name), id)
                    }
                    // The branch is gone, so the worktree stays on the commit of the last test.
                    None => {
                        let id = self.head_commit()?.ok_or(LookError::NoCommit)?;
                        (self.head()?, id)
                    }
                }
            }
        };
        let change = recorded(self, None)?;
        let call = CheckoutCall::new("the end of this bisection", &options.request);
        checkout_locked(self, &lock, (head, commit), call, options, job, |tx| {
            Ok(with_state(tx, change))
        })
    }
}

/// Returns the change that records the state of a search.
fn recorded(repo: &Repo, state: Option<&Bisection>) -> Result<Change, RepoError> {
    let key = bisect_key(worktree::worktree_name(repo)?);
    Ok(change(&repo.refs, key, state.map(Bisection::value))?)
}

fn with_state<'r>(tx: Transaction<'r>, change: Change) -> Transaction<'r> {
    tx.with(Some(change).filter(|c| c.old != c.new))
}

/// Publishes the new state together with the checkout of the next commit.
fn go_on(
    repo: &Repo,
    lock: &WorktreeLock,
    mut state: Bisection,
    options: &CheckoutOptions,
    job: &Job,
) -> Result<BisectReport, RepoError> {
    let (next, is_cut_off) = next(repo, &mut state)?;
    let change = recorded(repo, Some(&state))?;
    let checkout = match &next {
        BisectNext::Test { commit, .. } => {
            let at = (Head::Commit(*commit), *commit);
            let call = CheckoutCall::new("this step of the bisection", &options.request);
            let more = |tx| Ok(with_state(tx, change));
            Some(checkout_locked(repo, lock, at, call, options, job, more)?)
        }
        _ if change.old == change.new => None,
        _ => {
            let tx = Transaction::begin(repo, &options.request).with([change]);
            tx.publish(Effect::Kept)?;
            None
        }
    };
    Ok(BisectReport {
        state,
        next,
        checkout,
        is_cut_off,
    })
}

/// Returns what comes next, and whether absent history may have the first bad commit.
fn next(repo: &Repo, state: &mut Bisection) -> Result<(BisectNext, bool), RepoError> {
    let (Some(bad), false) = (state.bad, state.good.is_empty()) else {
        return Ok((BisectNext::Waiting, false));
    };
    if !state.is_related {
        if let Some(commit) = untested_base(repo, state, &bad)? {
            let suspects = Suspects::find(repo.objects(), &bad, &state.good)?;
            let next = BisectNext::Test {
                commit,
                left: suspects.len(),
                steps: suspects.len().checked_ilog2().unwrap_or(0) + 1,
                is_merge_base: true,
            };
            return Ok((next, suspects.is_cut_off));
        }
        state.is_related = true;
    }
    let suspects = Suspects::find(repo.objects(), &bad, &state.good)?;
    let skipped: HashSet<ObjectId> = state.skipped.iter().copied().collect();
    let next = match suspects.next(&skipped) {
        Next::Contradiction => return Err(contradiction(repo, state, bad)),
        Next::Found(id) => BisectNext::Found(id),
        Next::OnlySkipped(ids) => BisectNext::OnlySkipped(ids),
        Next::Test {
            commit,
            left,
            steps,
        } => BisectNext::Test {
            commit,
            left,
            steps,
            is_merge_base: false,
        },
    };
    Ok((next, suspects.is_cut_off))
}

/// Returns a merge base that has to be tested first, as in Git: if a good commit is no ancestor of
/// the bad one, the fault may have been repaired there, and be older.
fn untested_base(
    repo: &Repo,
    state: &Bisection,
    bad: &ObjectId,
) -> Result<Option<ObjectId>, RepoError> {
    for good in &state.good {
        if is_ancestor(repo.objects(), good, bad)? {
            continue;
        }
        for base in merge_bases(repo.objects(), bad, good)? {
            if base == *bad {
                return Err(contradiction(repo, state, *bad));
            }
            if !state.good.contains(&base) && !state.skipped.contains(&base) {
                return Ok(Some(base));
            }
        }
    }
    Ok(None)
}

/// Returns the error for a good commit that descends from the bad one.
fn contradiction(repo: &Repo, state: &Bisection, bad: ObjectId) -> RepoError {
    let descends = |good: &&ObjectId| is_ancestor(repo.objects(), &bad, good).unwrap_or(false);
    let good = state.good.iter().find(descends).copied();
    RepoError::Verb(VerbError::GoodAfterBad {
        bad,
        good: good.unwrap_or(bad),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_as_it_was_written() {
        let id = |n: u8| ObjectId::from_bytes([n; 32]);
        let mut state = Bisection::new(Head::Branch("main".to_owned()));
        assert_eq!(Bisection::parse(&state.value()), Some(state.clone()));
        state.note(Verdict::Good, id(1));
        state.note(Verdict::Good, id(1));
        state.note(Verdict::Bad, id(2));
        state.note(Verdict::Bad, id(3));
        state.note(Verdict::Skip, id(4));
        state.is_related = true;
        assert_eq!((state.bad, state.good.len()), (Some(id(3)), 1));
        assert_eq!(Bisection::parse(&state.value()), Some(state));
        for wrong in [
            "",
            "start x",
            "start branch/main\nbad",
            "start branch/main\nworse 1",
        ] {
            assert_eq!(Bisection::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
