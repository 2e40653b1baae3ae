//! Clone: make a repository that copies another one, or a part of it.
//!
//! A clone may be cut off at any moment. So a new repository first records durably what it is asked
//! for (docs/format/clone.md), and then holds it as its slice, before anything is transferred. The
//! same clone into the same directory continues. A clone that fails before it has received anything
//! removes what it made.

use super::buckets::Buckets;
use super::caller::{Caller, ClaimsNews, Step};
use super::dial::session;
use super::error::{CloneError, OpsError};
use super::lean::checkout_lean;
use super::refs::{tip_at, tips};
use super::remote::{Remote, Remotes};
use super::session_error::SessionError;
use crate::session::{Client, History, NetError, Summary};
use crate::transport::{Purpose, Reach, Url, open_at};
use dmv_core::escape::{Argument, escape};
use dmv_core::hash::ObjectId;
use dmv_core::hint;
use dmv_core::job::Job;
use dmv_core::object::name::RepoPath;
use dmv_core::repo::{
    BranchError, CheckoutOptions, CheckoutReport, CheckoutTarget, HalfClone, Head, LookError,
    OfferedRefs, OperationRequest, OwnBranches, Repo, RepoError, RepoSlice, SharedPacks, Vacancy,
    WorktreeSettings, dmv_dir_in, is_inside, refuse_inside,
};
use dmv_core::subset::Subset;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// The name of the remote that a clone records its source as.
const ORIGIN: &str = "origin";
/// The branch that a clone is on until it knows the branches of its source.
const FIRST_BRANCH: &str = "main";
/// Digits of a commit's id in a failure.
const SHORT_ID: usize = 12;

/// What to clone.
#[derive(Clone, Debug)]
pub struct CloneOptions {
    /// The repository to copy. A path is absolute, so that the clone finds it from any directory.
    pub source: Url,
    /// The new directory.
    pub dir: PathBuf,
    /// The branch or tag to check out. `None`: the branch that the source is on.
    pub branch: Option<String>,
    /// Whether `dir` itself becomes the repository, with all branches and without a worktree.
    pub bare: bool,
    /// The paths to store and to check out.
    pub subset: Subset,
    /// Whether to store no file content and to write no files.
    pub metadata_only: bool,
    /// Whether files are written although packs keep no content of them.
    pub lean: bool,
    /// How far back.
    pub history: History,
    /// Whether to copy everything, also where the packs of the source could be shared.
    pub copy: bool,
    /// How files are compared and written.
    pub settings: WorktreeSettings,
    /// The command that continues an interrupted checkout of a branch or commit. DMV records it in
    /// the worktree.
    pub go_on: fn(&Head) -> String,
    /// For the operation log.
    pub request: OperationRequest,
}

impl CloneOptions {
    /// Returns the options of a complete clone with a worktree.
    pub fn new(source: Url, dir: impl Into<PathBuf>, request: OperationRequest) -> CloneOptions {
        CloneOptions {
            source,
            dir: dir.into(),
            branch: None,
            bare: false,
            subset: Subset::everything(),
            metadata_only: false,
            lean: false,
            history: History::New,
            copy: false,
            settings: WorktreeSettings::default(),
            go_on: checkout_command,
            request,
        }
    }

    /// Returns whether the clone may use the packs of the source as they are.
    fn may_share(&self) -> bool {
        let is_full = self.subset.is_everything() && !self.stores_no_content();
        is_full && self.history == History::New && !self.copy
    }

    fn stores_no_content(&self) -> bool {
        self.metadata_only || self.lean
    }

    /// Returns what the repository is to store.
    fn slice(&self) -> RepoSlice {
        RepoSlice {
            subset: self.subset.clone(),
            metadata_only: self.stores_no_content(),
            ..RepoSlice::default()
        }
    }

    /// Returns the record of what the clone is asked for.
    fn half(&self) -> HalfClone {
        HalfClone {
            source: self.source.to_string(),
            branch: self.branch.clone(),
            bare: self.bare,
            metadata_only: self.stores_no_content(),
            depth: match self.history {
                History::Depth(depth) => Some(depth),
                _ => None,
            },
            since: match self.history {
                History::Since(time) => Some(time),
                _ => None,
            },
            subset: self.subset.clone(),
        }
    }

    fn checkout(&self) -> CheckoutOptions {
        CheckoutOptions {
            subset: if self.metadata_only {
                Some(Subset::nothing())
            } else {
                (!self.subset.is_everything()).then(|| self.subset.clone())
            },
            settings: self.settings.clone(),
            ..CheckoutOptions::new(self.request.clone())
        }
    }
}

fn checkout_command(head: &Head) -> String {
    let to = match head {
        Head::Branch(name) => Argument::value(name),
        Head::Commit(id) => Argument::value(id.short(SHORT_ID)),
    };
    hint!("dmv checkout {}", to).to_string()
}

/// What a clone did.
pub struct CloneReport {
    /// The new repository.
    pub repo: Repo,
    /// The packs of the source that the clone uses as they are, if it does.
    pub shared: Option<SharedPacks>,
    /// What was transferred besides, and the refs that the clone has.
    pub summary: Summary,
    /// The branch or commit that it is on. `None`: the source has no commits.
    pub head: Option<Head>,
    /// What was written; `None` without a worktree or without commits.
    pub written: Option<CheckoutReport>,
}

/// Clones a repository, or continues a clone that was interrupted.
///
/// The program that calls this keeps the address of the source. One that records it in the new
/// repository uses the three steps of this function: [`CloneDir::look`], [`CloneDir::begin`] and
/// [`NewClone::run`].
pub fn clone(
    options: &CloneOptions,
    caller: &dyn Caller,
    job: &Job,
) -> Result<CloneReport, CloneError> {
    let dir = CloneDir::look(options)?;
    let half = match dir.found() {
        Some(repo) => repo.half_clone()?,
        None => None,
    };
    let source = match half {
        None => KnownSource::Nothing,
        Some(half) if half.source == options.source.to_string() => KnownSource::ThisSource,
        Some(_) => KnownSource::Another,
    };
    dir.begin(options, source)?.run(options, caller, job)
}

/// A directory that a clone may be made in.
pub struct CloneDir {
    dmv: PathBuf,
    state: DirState,
    /// The source, if its packs may be shared.
    source: Option<Repo>,
}

enum DirState {
    /// There is no such directory.
    Missing,
    /// It is empty, or it has what a clone leaves that is cut off at once.
    Free,
    /// It has a repository, perhaps an unfinished clone.
    Found(Box<Repo>),
}

impl CloneDir {
    /// Looks at the source and the directory. Changes nothing.
    ///
    /// Fails if the source is a path without a repository, if the directory has other files, or if
    /// it lies inside of a repository's own files.
    pub fn look(options: &CloneOptions) -> Result<CloneDir, CloneError> {
        let source = match &options.source {
            Url::Path(path) => {
                Some(open_at(path, Purpose::Read).map_err(|e| CloneError::Source(e.into()))?)
            }
            _ => None,
        };
        refuse_inside(&options.dir)?;
        refuse_inside_source(&options.source, &options.dir)?;
        let dir = options.dir.clone();
        let state = match Vacancy::of(&dir, options.bare) {
            Vacancy::Missing => DirState::Missing,
            Vacancy::Free => DirState::Free,
            Vacancy::Repository => DirState::Found(Box::new(open_at(&dir, Purpose::Read)?)),
            Vacancy::Taken => return Err(CloneError::NotEmpty(dir)),
        };
        Ok(CloneDir {
            dmv: dmv_dir_in(&dir, options.bare),
            state,
            source: source.filter(|_| options.may_share()),
        })
    }

    /// Returns the repository in the directory, if there is one.
    pub fn found(&self) -> Option<&Repo> {
        match &self.state {
            DirState::Found(repo) => Some(repo),
            _ => None,
        }
    }

    /// Makes the repository, or continues with the one that an interrupted clone has left.
    /// `source`: the source of the repository that was [found](Self::found).
    pub fn begin(
        self,
        options: &CloneOptions,
        source: KnownSource,
    ) -> Result<NewClone, CloneError> {
        let (dmv, from) = (self.dmv, self.source);
        let init = || init(&dmv, options, from.as_ref());
        let (repo, made) = match self.state {
            DirState::Found(repo) => {
                check_continues(&repo, options, source)?;
                if repo.complete_commits()?.is_empty() {
                    options.half().begin(&dmv)?;
                }
                (*repo, None)
            }
            DirState::Missing => (init()?, Some(options.dir.clone())),
            DirState::Free => (init()?, Some(dmv.clone())),
        };
        let slice = options.slice();
        repo.change_slice(|now| {
            (now.subset, now.metadata_only) = (slice.subset, slice.metadata_only);
        })?;
        Ok(NewClone { repo, made, from })
    }
}

/// What the program has recorded as the source of a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownSource {
    /// No source. The repository may have been cut off before its source was recorded.
    Nothing,
    /// The source that is to be cloned.
    ThisSource,
    /// Other remotes.
    Another,
}

/// Makes the repository of a clone. First records what the clone is asked for.
fn init(dmv: &Path, options: &CloneOptions, from: Option<&Repo>) -> Result<Repo, RepoError> {
    options.half().begin(dmv)?;
    let (dir, request) = (&options.dir, options.request.clone());
    let owners = from.map(|from| from.owners_to_share(dir)).transpose()?;
    let owners = owners.flatten().unwrap_or_default();
    Repo::init_sharing(dir, FIRST_BRANCH, options.bare, &owners, request)
}

/// Fails unless `repo` is an unfinished clone of the same source and slice, or a bare one. Fails as well
/// if it may share packs and everything is to be copied.
fn check_continues(
    repo: &Repo,
    options: &CloneOptions,
    source: KnownSource,
) -> Result<(), CloneError> {
    let is_half = options.bare || repo.base_commit()?.is_none();
    let is_same = match source {
        KnownSource::ThisSource => true,
        // Cut off before its source was recorded, it has no objects at all.
        KnownSource::Nothing => repo.store().is_empty(),
        KnownSource::Another => false,
    };
    if !is_same || !is_half {
        return Err(CloneError::IsRepository(options.dir.clone()));
    }
    let now = repo.slice()?;
    let is_other = now.subset != options.subset || now.metadata_only != options.stores_no_content();
    if is_other && !repo.complete_commits()?.is_empty() {
        return Err(CloneError::OtherSlice(options.dir.clone()));
    }
    if options.copy && repo.may_share_packs() {
        return Err(CloneError::Shares(options.dir.clone()));
    }
    Ok(())
}

/// Refuses a clone into the repository that it is a clone of.
fn refuse_inside_source(source: &Url, dir: &Path) -> Result<(), CloneError> {
    match source {
        Url::Path(path) if is_inside(dir, path) => Err(CloneError::InsideSource {
            dir: dir.to_owned(),
            source_dir: path.clone(),
        }),
        _ => Ok(()),
    }
}

/// A clone whose repository is made, and that has received nothing in this run.
pub struct NewClone {
    repo: Repo,
    /// The directory that this run has made, to be removed if the clone comes to nothing.
    made: Option<PathBuf>,
    /// The source, if its packs may be shared.
    from: Option<Repo>,
}

impl NewClone {
    /// Returns the new repository.
    pub fn repo(&self) -> &Repo {
        &self.repo
    }

    /// Receives the commits, and writes the files while their content arrives.
    ///
    /// If this fails before anything was received, it removes what this clone has made.
    pub fn run(
        self,
        options: &CloneOptions,
        caller: &dyn Caller,
        job: &Job,
    ) -> Result<CloneReport, CloneError> {
        let (repo, url) = (&self.repo, &options.source);
        let done = session(repo, url, Purpose::Read, caller, job, |client| {
            receive(repo, self.from.as_ref(), options, client, caller, job)
        });
        match done {
            Ok(mut received) => {
                if let (Some(head), true) = (&received.head, options.lean) {
                    let written = write_lean(repo, head, options, caller, job);
                    received.written = Some(written.map_err(|e| CloneError::Files(Box::new(e)))?);
                }
                Ok(CloneReport {
                    repo: self.repo,
                    shared: received.shared,
                    summary: received.summary,
                    head: received.head,
                    written: received.written,
                })
            }
            Err(e) => {
                self.give_up(&e);
                Err(e.into())
            }
        }
    }

    /// Removes what was made for nothing. Received objects stay, for the next try.
    fn give_up(self, e: &SessionError) {
        // Objects for a subset that names nothing are of no use for another subset.
        let names_nothing = matches!(
            e.source,
            NetError::Repo(RepoError::Look(LookError::NothingMatches { .. }))
        );
        let is_useless = names_nothing || self.repo.store().is_empty();
        if let (Some(made), true) = (self.made, is_useless) {
            drop(self.repo);
            // If this fails, a repository without commits remains, which does no harm.
            let _ = std::fs::remove_dir_all(made);
        }
    }
}

/// Writes the files of a lean clone, whose history is here.
fn write_lean(
    repo: &Repo,
    head: &Head,
    options: &CloneOptions,
    caller: &dyn Caller,
    job: &Job,
) -> Result<CheckoutReport, OpsError> {
    repo.be_lean();
    let target = match head {
        Head::Commit(id) => CheckoutTarget::Commit(*id),
        Head::Branch(name) => CheckoutTarget::Branch(name.clone()),
    };
    let how = CheckoutOptions {
        subset: Some(Subset::everything()),
        ..options.checkout()
    };
    let go_on = (options.go_on)(head);
    let caller = FromSource {
        caller,
        source: Remote::new(ORIGIN, options.source.clone()),
    };
    let done = checkout_lean(repo, &target, &go_on, &how, &caller, job)?;
    Ok(done.done?)
}

/// The program that calls, in a repository that it has no settings of: content comes from the source alone.
struct FromSource<'a> {
    caller: &'a dyn Caller,
    source: Remote,
}

impl Caller for FromSource<'_> {
    fn reach(&self, url: &Url, purpose: Purpose) -> Result<Reach, NetError> {
        self.caller.reach(url, purpose)
    }

    fn remotes(&self) -> Result<Remotes, NetError> {
        Ok(Remotes {
            offline: false,
            list: vec![self.source.clone()],
        })
    }

    fn buckets(&self) -> Option<Box<dyn Buckets + '_>> {
        self.caller.buckets()
    }

    fn heard_of_claims(&self, news: ClaimsNews<'_>) {
        self.caller.heard_of_claims(news);
    }

    fn began(&self, step: Step<'_>) {
        self.caller.began(step);
    }
}

/// What a session has received.
struct Outcome {
    shared: Option<SharedPacks>,
    summary: Summary,
    head: Option<Head>,
    written: Option<CheckoutReport>,
}

fn receive(
    repo: &Repo,
    from: Option<&Repo>,
    options: &CloneOptions,
    client: Client<'_>,
    caller: &dyn Caller,
    job: &Job,
) -> Result<Outcome, NetError> {
    let start = Start::of(&client.offered, options.branch.as_deref())?;
    let head = start.as_ref().map(|start| start.head.clone());
    if let Some(name) = head.as_ref().and_then(Head::branch) {
        repo.check_new_branch(name, ORIGIN)?;
    }
    let shared = from.map(|from| repo.share_packs(from, options.request.time));
    // An interrupted clone may have done so already.
    let shared = shared
        .transpose()?
        .flatten()
        .or_else(|| repo.shared_packs());
    let (summary, written) = match &start {
        Some(start) if !options.bare && !options.lean => {
            let target = (start.head.clone(), start.commit);
            let go_on = (options.go_on)(&start.head);
            let bring = || {
                let received = receive_history(repo, options, client, Some(start));
                // What is left is to write files.
                caller.began(Step::Work);
                received
            };
            let (summary, report) =
                repo.checkout_while(target, &go_on, &options.checkout(), job, bring)?;
            (summary, Some(report))
        }
        start => {
            let summary = receive_history(repo, options, client, start.as_ref())?;
            (summary, None)
        }
    };
    let written_head = written.as_ref().map(|written| written.head.clone());
    Ok(Outcome {
        shared,
        summary,
        head: written_head.or(head),
        written,
    })
}

/// Receives all commits, and then records the refs. From then on the repository is a finished clone.
fn receive_history(
    repo: &Repo,
    options: &CloneOptions,
    mut client: Client<'_>,
    start: Option<&Start>,
) -> Result<Summary, NetError> {
    client.fetch_history(&tips(&client.offered), options.history)?;
    if let Some(start) = start {
        refuse_nothing(repo, &options.subset, start)?;
    }
    let ours = own_branches(&client.offered, start, options.bare);
    let offered = client.offered.clone();
    let refs = client.name(|| repo.note_remote(ORIGIN, &offered, &ours, &options.request))?;
    repo.end_clone();
    Ok(client.finish(refs))
}

/// The branch or commit that a clone begins with.
struct Start {
    head: Head,
    commit: ObjectId,
}

impl Start {
    /// Returns where to begin: at the branch or tag `name`, or at the branch that the source is on.
    /// `None`: the source has no commits.
    fn of(there: &OfferedRefs, name: Option<&str>) -> Result<Option<Start>, RepoError> {
        let branch = |name: &str| {
            let commit = tip_at(there, &format!("branch/{name}"))?;
            let head = Head::Branch(name.to_owned());
            Some(Start { head, commit })
        };
        let Some(name) = name else {
            let first = there
                .refs
                .iter()
                .find_map(|(key, _)| key.strip_prefix("branch/"));
            let usual = there.head.as_deref().and_then(branch);
            return Ok(usual.or_else(|| first.and_then(branch)));
        };
        let tag = || {
            let commit = tip_at(there, &format!("tag/{name}"))?;
            let head = Head::Commit(commit);
            Some(Start { head, commit })
        };
        match branch(name).or_else(tag) {
            Some(start) => Ok(Some(start)),
            None => Err(BranchError::NoRef {
                kind: "branch or tag",
                name: name.to_owned(),
            }
            .into()),
        }
    }
}

/// Refuses a subset that names nothing at all in the commit that the clone begins with.
fn refuse_nothing(repo: &Repo, subset: &Subset, start: &Start) -> Result<(), RepoError> {
    if subset.is_everything() {
        return Ok(());
    }
    let tree = repo.read_commit(&start.commit)?.tree;
    let mut found = false;
    repo.list_subset(&RepoPath::root(), tree, subset, &mut |_| {
        found = true;
        Ok(ControlFlow::Break(()))
    })?;
    if found {
        return Ok(());
    }
    let idle = repo.idle_patterns(tree, &Subset::everything(), subset)?;
    let patterns = idle
        .iter()
        .map(|idle| format!("'{}'", escape(&idle.pattern)));
    Err(LookError::NothingMatches {
        revision: match &start.head {
            Head::Branch(name) => name.clone(),
            Head::Commit(id) => id.short(SHORT_ID),
        },
        patterns: patterns.collect::<Vec<_>>().join(", "),
        namesake: idle.iter().find_map(|idle| idle.namesake.clone()),
    }
    .into())
}

/// Returns the branches that the clone has as its own: the first one, or all in a bare clone.
fn own_branches(there: &OfferedRefs, start: Option<&Start>, bare: bool) -> OwnBranches {
    let branches = there.refs.iter().filter_map(|(key, id)| {
        let name = key.strip_prefix("branch/")?;
        Some((name.to_owned(), *id))
    });
    let head = start.map(|start| start.head.clone());
    let first = head.as_ref().and_then(Head::branch);
    OwnBranches {
        make: branches
            .filter(|(name, _)| bare || Some(name.as_str()) == first)
            .collect(),
        head: head.clone(),
        ..OwnBranches::default()
    }
}
