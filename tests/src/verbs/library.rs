//! The commands as calls of the library, in one process.

use super::plain::Path as TreePath;
use super::story::{Driver, Ending};
use super::verb::{Side, Verb};
use crate::peers::Done;
use crate::scratch::request;
use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::name::RepoPath;
use dmv_core::repo::{
    AddOptions, BusyError, CheckoutOptions, CheckoutTarget, Choice, CommitOptions, ExpireOptions,
    FastForward, GcOptions, Head, KeepRule, LookError, MergeOptions, MergeReport, MoveOptions,
    PickFrom, PickOptions, Purge, PurgeWhat, RefKind, RemoveOptions, RepackOptions, Repo,
    RepoError, ResetFiles, Selection, StashAt, StashOptions, ToPurge, UndoOptions, UndoWhat,
    UntrackOptions, Verdict, VerifyDepth, Who, discover, recover, roots_of,
};
use dmv_core::subset::Subset;
use dmv_core::worktree::select::Paths;
use dmv_core::worktree::snapshot::Problem;
use dmv_net::ops::{
    FetchOptions, Integrate, Network, OpsError, PullOptions, PullOutcome, PushOptions, RefTip,
    Remote, SyncOptions, fetch, pull, push, supplied, sync,
};
use dmv_net::session::NetError;
use dmv_net::transport::Url;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Runs the commands in this process.
pub struct Library {
    hub: PathBuf,
    /// The lean repositories.
    lean: RefCell<BTreeSet<PathBuf>>,
}

const DONE: i32 = 0;
const INCOMPLETE: i32 = 3;
const CONFLICTS: i32 = 4;
const REFUSED: i32 = 5;
const ABSENT: i32 = 6;
const DAMAGED: i32 = 7;
const BUSY: i32 = 11;

impl Driver for Library {
    fn connect(&self, _: &Path, _: &Path) -> Done {
        Ok(())
    }

    fn run(&self, dir: &Path, verb: &Verb, offline: bool) -> Done<Ending> {
        if *verb == Verb::Recover {
            return self.recover(dir);
        }
        let repo = Repo::open(dir)?;
        if self.lean.borrow().contains(repo.dmv_dir()) {
            repo.be_lean();
        }
        let done = match verb {
            Verb::Fetch | Verb::Pull | Verb::PullReset | Verb::Push { .. } | Verb::Sync => {
                self.exchange(&repo, verb)
            }
            Verb::Drop { .. } | Verb::Expire => self.give_up(&repo, verb)?,
            Verb::Lean { on } => self.lean(&repo, *on)?,
            _ => {
                let mut caller = Network::new(request("story"));
                if !offline {
                    caller = caller.with(self.remote());
                }
                let supplied = supplied(&repo, &caller, &Job::default(), || run(&repo, verb));
                supplied.and_then(|report| Ok(report.done?))
            }
        };
        Ok(match done {
            Ok(ending) => ending,
            Err(e) => Ending::new(code_of(&e), format!("{e:?}")),
        })
    }
}

/// Returns the exit code of a failure, as far as the laws need it.
fn code_of(e: &OpsError) -> i32 {
    match e {
        OpsError::Absent(_) | OpsError::Repo(RepoError::Absent(_)) => ABSENT,
        OpsError::Repo(RepoError::Busy(BusyError::PurgedMeanwhile)) => REFUSED,
        OpsError::Repo(RepoError::Busy(_)) => BUSY,
        OpsError::Repo(RepoError::Object(_) | RepoError::Store(_) | RepoError::Place(_)) => DAMAGED,
        OpsError::Session(e) if matches!(e.source, NetError::Lacking(_)) => ABSENT,
        OpsError::Session(_) | OpsError::Net(_) => DAMAGED,
        _ => REFUSED,
    }
}

fn merging(command: &str) -> MergeOptions {
    let name = "Test".into();
    let email = String::new();
    MergeOptions::new(command, Who { name, email }, request(command))
}

fn stashing() -> StashOptions {
    StashOptions {
        committer: merging("stash").committer,
        settings: Default::default(),
        request: request("stash"),
    }
}

fn switching(force: bool) -> CheckoutOptions {
    let mut options = CheckoutOptions::new(request("checkout"));
    options.force = force;
    options
}

fn repo_paths(paths: &[TreePath]) -> Result<Vec<RepoPath>, RepoError> {
    paths.iter().map(|path| Repo::parse_path(path)).collect()
}

fn subset(patterns: &[TreePath]) -> Result<Subset, RepoError> {
    if patterns.is_empty() {
        return Ok(Subset::everything());
    }
    // The ignore rules are files of the worktree, too.
    let all = patterns
        .iter()
        .map(Vec::as_slice)
        .chain([&b".dmvignore"[..]]);
    Subset::new(all).map_err(|e| RepoError::Text(e.to_string()))
}

/// A command that did everything.
fn done() -> Ending {
    ended(&[], false)
}

/// Returns how a command ended that could not do everything at some paths, and whether it left conflicts.
fn ended(refused: &[Problem], has_conflicts: bool) -> Ending {
    let code = match (refused, has_conflicts) {
        (_, true) => CONFLICTS,
        ([], false) => DONE,
        (_, false) => INCOMPLETE,
    };
    let said = |problem: &Problem| format!("{}: {}", problem.path, problem.why);
    let said: Vec<String> = refused.iter().map(said).collect();
    Ending::new(code, said.join(", "))
}

/// A command that the driver refuses.
fn refused() -> Ending {
    Ending::new(REFUSED, "")
}

fn of_merge(report: &MergeReport) -> Ending {
    ended(&report.refused, !report.conflicts.is_empty())
}

fn run(repo: &Repo, verb: &Verb) -> Result<Ending, RepoError> {
    match verb {
        Verb::Commit { .. }
        | Verb::Checkout { .. }
        | Verb::Detach { .. }
        | Verb::SwitchNew { .. }
        | Verb::Restore { .. }
        | Verb::Move { .. }
        | Verb::Remove { .. }
        | Verb::Untrack { .. }
        | Verb::SetSubset { .. }
        | Verb::AddSubset { .. }
        | Verb::RemoveSubset { .. } => files(repo, verb),
        Verb::Branch { .. }
        | Verb::DeleteBranch { .. }
        | Verb::RenameBranch { .. }
        | Verb::Tag { .. }
        | Verb::DeleteTag { .. } => refs(repo, verb),
        Verb::BisectStart { .. } | Verb::BisectNote { .. } | Verb::BisectSkip | Verb::BisectEnd => {
            bisect(repo, verb)
        }
        _ if verb.is_upkeep() => upkeep(repo, verb),
        _ => history(repo, verb),
    }
}

fn files(repo: &Repo, verb: &Verb) -> Result<Ending, RepoError> {
    let (job, settings) = (Job::default(), Default::default());
    let refused = match verb {
        Verb::Commit { paths, amend } => {
            let options = CommitOptions {
                message: Some("story".into()),
                author: None,
                date: None,
                committer: merging("commit").committer,
                select: &Paths::new(paths.clone()),
                amend: *amend,
                allow_empty: false,
                allow_markers: false,
                refuse_large: None,
                settings,
                request: request("commit"),
            };
            repo.commit(options, &job)?.problems
        }
        Verb::Checkout { branch, force } => {
            let target = CheckoutTarget::Branch(branch.clone());
            repo.checkout(target, &switching(*force), &job)?.refused
        }
        Verb::Detach { commit, force } => {
            let target = CheckoutTarget::Commit(*commit);
            repo.checkout(target, &switching(*force), &job)?.refused
        }
        Verb::SwitchNew { branch, at } => {
            let target = CheckoutTarget::NewBranch(branch.clone(), *at);
            repo.checkout(target, &switching(false), &job)?.refused
        }
        Verb::Restore { from, paths } => {
            let paths = repo_paths(paths)?;
            let request = request("restore");
            repo.restore(*from, &paths, &settings, request, &job)?
                .refused
        }
        Verb::Move { from, to, force } => {
            let options = MoveOptions {
                sources: repo_paths(std::slice::from_ref(from))?,
                to: Repo::parse_path(to)?,
                into: false,
                force: *force,
                settings,
                request: request("mv"),
            };
            repo.move_files(&options, &job)?.refused
        }
        Verb::Remove { path, force } => {
            let options = RemoveOptions {
                paths: repo_paths(std::slice::from_ref(path))?,
                recursive: true,
                force: *force,
                settings,
                request: request("rm"),
            };
            repo.remove(&options, &job)?.refused
        }
        Verb::Untrack { path } => {
            let options = UntrackOptions {
                paths: repo_paths(std::slice::from_ref(path))?,
                recursive: true,
                ignore: Vec::new(),
                settings,
                request: request("rm --cached"),
            };
            repo.untrack(&options, &job)?.refused
        }
        Verb::SetSubset { paths } => {
            let subset = subset(paths)?;
            repo.set_subset(subset, &settings, request("subset set"), &job)?
                .refused
        }
        Verb::AddSubset { path } | Verb::RemoveSubset { path } => {
            let now = repo.subset()?;
            let new = match verb {
                Verb::AddSubset { .. } => now.with(path),
                _ => now.without(path),
            };
            let new = new.map_err(|e| RepoError::Text(e.to_string()))?;
            repo.set_subset(new, &settings, request("subset"), &job)?
                .refused
        }
        _ => unreachable!("the caller sorts"),
    };
    Ok(ended(&refused, false))
}

fn refs(repo: &Repo, verb: &Verb) -> Result<Ending, RepoError> {
    match verb {
        Verb::Branch { name, at } => {
            repo.create_ref(RefKind::Branch, name, *at, request("branch"))?
        }
        Verb::DeleteBranch { name } => {
            repo.delete_ref(RefKind::Branch, name, request("branch -d"))?;
        }
        Verb::RenameBranch { from, to } => repo.rename_branch(from, to, request("branch -m"))?,
        Verb::Tag { name, at } => repo.create_ref(RefKind::Tag, name, *at, request("tag"))?,
        Verb::DeleteTag { name } => {
            repo.delete_ref(RefKind::Tag, name, request("tag -d"))?;
        }
        _ => unreachable!("the caller sorts"),
    }
    Ok(done())
}

fn bisect(repo: &Repo, verb: &Verb) -> Result<Ending, RepoError> {
    let (job, options) = (Job::default(), switching(false));
    let report = match verb {
        Verb::BisectStart { bad, good } => {
            repo.bisect_start(Some(*bad), &[*good], &options, &job)?
        }
        Verb::BisectNote { good: true } => repo.bisect_note(Verdict::Good, &[], &options, &job)?,
        Verb::BisectNote { .. } => repo.bisect_note(Verdict::Bad, &[], &options, &job)?,
        Verb::BisectSkip => repo.bisect_note(Verdict::Skip, &[], &options, &job)?,
        _ => {
            let report = repo.bisect_end(&options, &job)?;
            return Ok(ended(&report.refused, false));
        }
    };
    let refused = report.checkout.map(|done| done.refused);
    Ok(ended(&refused.unwrap_or_default(), false))
}

fn history(repo: &Repo, verb: &Verb) -> Result<Ending, RepoError> {
    let (job, settings) = (Job::default(), Default::default());
    Ok(match verb {
        Verb::Merge { commit, forward } => {
            let forward = if *forward {
                FastForward::Auto
            } else {
                FastForward::Never
            };
            of_merge(&repo.merge(*commit, forward, &merging("merge"), &job)?)
        }
        Verb::Revert { commit } => {
            of_merge(&repo.revert(*commit, None, &merging("revert"), &job)?)
        }
        Verb::CherryPick { commit } => {
            let from = [PickFrom::One(*commit)];
            let options = merging("cherry-pick");
            of_merge(
                &repo
                    .cherry_pick(&from, PickOptions::default(), &options, &job)?
                    .merge,
            )
        }
        Verb::Rebase { onto } => {
            of_merge(&repo.rebase(*onto, *onto, &merging("rebase"), &job)?.merge)
        }
        Verb::Reset { to, hard } => {
            let files = if *hard {
                ResetFiles::Match
            } else {
                ResetFiles::Keep
            };
            of_merge(
                &repo
                    .reset(*to, files, &request("reset"), &settings, &job)?
                    .merge,
            )
        }
        Verb::Stash { paths } => {
            let report = repo.stash_push(&Paths::new(paths.clone()), None, &stashing(), &job)?;
            ended(&report.problems, false)
        }
        Verb::Unstash { number, pop } => {
            let report = repo.stash_apply(StashAt::Number(*number), *pop, &stashing(), &job)?;
            ended(&report.refused, !report.conflicts.is_empty())
        }
        Verb::DropStash { number } => {
            repo.stash_drop(*number, request("stash drop"))?;
            done()
        }
        Verb::Resolve { path, side } => {
            let choice = match side {
                Side::Ours => Choice::Ours,
                Side::Theirs => Choice::Theirs,
                Side::Base => Choice::Base,
                Side::Both => Choice::Both,
            };
            let paths = [Repo::parse_path(path)?];
            let report =
                repo.resolve_conflicts(&paths, &choice, &settings, request("resolve"), &job)?;
            ended(&report.refused, !report.open.is_empty())
        }
        Verb::AddWorktree { dir, at } => {
            let (head, commit) = match at {
                Ok(branch) => (Head::Branch(branch.clone()), branch_tip(repo, branch)?),
                Err(id) => (Head::Commit(*id), *id),
            };
            let options = AddOptions {
                dir: dir.clone(),
                head,
                commit,
                subset: Default::default(),
                settings,
                request: request("worktree add"),
            };
            ended(&repo.add_worktree(&options, &job)?.refused, false)
        }
        Verb::RemoveWorktree { dir, force } => {
            repo.remove_worktree(dir, *force, &settings, request("worktree remove"), &job)?;
            done()
        }
        Verb::Undo | Verb::Redo => {
            let what = if *verb == Verb::Undo {
                UndoWhat::Last
            } else {
                UndoWhat::LastUndo
            };
            let options = UndoOptions {
                what,
                settings,
                request: request("undo"),
            };
            ended(&repo.undo(&options, &job)?.refused, false)
        }
        _ => unreachable!("the caller sorts"),
    })
}

fn branch_tip(repo: &Repo, name: &str) -> Result<ObjectId, RepoError> {
    let tip = repo.ref_at(&format!("branch/{name}"))?;
    tip.ok_or(RepoError::Look(LookError::NoCommit))
}

fn upkeep(repo: &Repo, verb: &Verb) -> Result<Ending, RepoError> {
    let (job, now) = (Job::default(), request("upkeep").time);
    match verb {
        Verb::Gc => {
            let options = GcOptions {
                grace: Duration::ZERO,
                now,
                until: None,
                thorough: true,
                dry_run: false,
            };
            drop(repo.gc(&options, &job)?);
        }
        Verb::Repack => {
            let options = RepackOptions {
                now,
                until: None,
                dry_run: false,
            };
            drop(repo.repack(&options, &job)?);
        }
        Verb::ExpireOperations => {
            repo.expire_operations(now.seconds + 1, request("op expire"))?;
        }
        Verb::Verify => {
            let report = repo.verify(VerifyDepth::Full, &job)?;
            if !report.is_ok() {
                return Ok(Ending::new(DAMAGED, "damage"));
            }
        }
        Verb::Get { path } => {
            let base = repo
                .base_commit()?
                .ok_or(RepoError::Look(LookError::NoCommit))?;
            let commit = repo.read_commit(&base)?;
            let path = Repo::parse_path(path)?;
            let wanted = Selection {
                path: &path,
                located: &repo.locate("@", &commit, &path)?,
                subset: &Subset::everything(),
            };
            repo.no_longer_dropped(wanted)?;
            repo.check_here(wanted)?;
        }
        Verb::Keep { path, last } => {
            let pattern = format!("/{}", String::from_utf8_lossy(path));
            let rule: KeepRule = format!("last:{last}")
                .parse()
                .map_err(|_| RepoError::Text("a rule".into()))?;
            repo.set_keep_rule(&pattern, rule, request("keep"))?;
        }
        Verb::Purge { path } => {
            let found = repo.purgeable(&PurgeWhat::Path(Repo::parse_path(path)?), &job)?;
            let why = Purge {
                at: 1_795_000_000,
                by: "test".into(),
                reason: "a story".into(),
            };
            let roots = roots_of(found.files.values().map(|(_, blob)| blob));
            let new = ToPurge {
                files: [(why, roots)].into(),
                request: request("purge"),
            };
            repo.begin_to_free()?.purge(Some(new), &job)?;
        }
        _ => unreachable!("the caller sorts"),
    }
    Ok(done())
}

impl Library {
    /// Makes a driver for sites whose remote `origin` is the repository in `hub`.
    pub fn new(hub: PathBuf) -> Library {
        let lean = RefCell::default();
        Library { hub, lean }
    }

    fn remote(&self) -> Remote {
        Remote::new("origin", Url::Path(self.hub.clone()))
    }

    fn exchange(&self, repo: &Repo, verb: &Verb) -> Result<Ending, OpsError> {
        let (job, remote) = (Job::default(), self.remote());
        let caller = Network::new(request("exchange")).with(remote.clone());
        match verb {
            Verb::Fetch => drop(fetch(
                repo,
                &FetchOptions::new(remote, request("fetch")),
                &caller,
                &job,
            )?),
            Verb::Sync => drop(sync(
                repo,
                &SyncOptions::new(remote, request("sync")),
                &caller,
                &job,
            )?),
            Verb::Push { branch, force } => {
                let tip = RefTip::branch(branch, branch_tip(repo, branch)?);
                let mut options = PushOptions::new(remote, vec![tip], request("push"));
                options.force = *force;
                let report = push(repo, &options, &caller, &job)?;
                if report.moved.iter().any(|moved| moved.refused.is_some()) {
                    return Ok(refused());
                }
            }
            _ => {
                let Head::Branch(branch) = repo.head()? else {
                    return Ok(refused());
                };
                let mut options = PullOptions::new(remote, branch, merging("pull"));
                if *verb == Verb::PullReset {
                    options.integrate = Integrate::Reset;
                }
                return Ok(match pull(repo, &options, &caller, &job)?.outcome? {
                    PullOutcome::Merged(report) => of_merge(&report),
                    PullOutcome::Rebased(report) => of_merge(&report.merge),
                    PullOutcome::Reset(report) => of_merge(&report.merge),
                    PullOutcome::NoBranch | PullOutcome::Refused => refused(),
                });
            }
        }
        Ok(done())
    }

    /// Gives up content that the hub has.
    fn give_up(&self, repo: &Repo, verb: &Verb) -> Done<Result<Ending, OpsError>> {
        let hub = Repo::open(&self.hub)?;
        let job = Job::default();
        let freeing = repo.begin_to_free()?;
        if let Verb::Drop { path } = verb {
            let Some(base) = repo.base_commit()? else {
                return Ok(Ok(refused()));
            };
            let (commit, path) = (repo.read_commit(&base)?, Repo::parse_path(path)?);
            let located = match repo.locate("@", &commit, &path) {
                Ok(located) => located,
                Err(e) => return Ok(Err(e.into())),
            };
            let wanted = Selection {
                path: &path,
                located: &located,
                subset: &Subset::everything(),
            };
            let found = freeing.droppable(&[wanted])?;
            let blobs = found.files.iter().map(|(_, blob)| *blob);
            let mut safe = Vec::new();
            for blob in blobs {
                if hub.has_content(&blob.id)? {
                    safe.push(blob);
                }
            }
            freeing.drop_files(&safe, &[], &mut || true, &job)?;
            return Ok(Ok(done()));
        }
        let rules = repo.keep_rules()?;
        let options = ExpireOptions {
            paths: Subset::everything(),
            max_bytes: None,
            now: 1_900_000_000,
        };
        let mut found = repo.expirable(&rules, &options, &job)?;
        let mut is_there = true;
        for file in &found.files {
            is_there &= hub.has_content(&file.blob.id)?;
        }
        if !is_there {
            return Ok(Ok(refused()));
        }
        let earlier = std::mem::take(&mut found.earlier);
        let rules = (&rules, &options);
        freeing.expire(
            &found,
            &earlier,
            rules,
            request("expire"),
            &mut || true,
            &job,
        )?;
        Ok(Ok(done()))
    }

    /// Frees the content of unchanged files that the hub has, or stores it again.
    fn lean(&self, repo: &Repo, on: bool) -> Done<Result<Ending, OpsError>> {
        let (job, dir) = (Job::default(), repo.dmv_dir().to_path_buf());
        if !on {
            repo.be_lean();
            repo.store_lean_files(&job)?;
            self.lean.borrow_mut().remove(&dir);
            return Ok(Ok(done()));
        }
        let (hub, freeing) = (Repo::open(&self.hub)?, repo.begin_to_free()?);
        let mut safe = Vec::new();
        for (_, blob) in freeing.in_worktree()?.files {
            if hub.has_content(&blob.id)? {
                safe.push(blob);
            }
        }
        self.lean.borrow_mut().insert(dir);
        repo.be_lean();
        freeing.drop_files(&safe, &[], &mut || true, &job)?;
        Ok(Ok(done()))
    }

    fn recover(&self, dir: &Path) -> Done<Ending> {
        let report = recover(&discover(dir)?, &Job::default());
        Ok(match report {
            Ok(_) => Ending::new(DONE, ""),
            Err(e) => Ending::new(DAMAGED, format!("{e:?}")),
        })
    }
}
