//! What the pages need from the program that serves them: its settings, its remotes, and its words
//! for failures. So a page says what the command says.

use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::name::RepoPath;
use dmv_core::repo::{
    ClaimInfo, ClaimTable, MergeOptions, OperationRequest, Repo, RepoError, RepositoryLocation,
    SignatureState, Who, Whose, WorktreeSettings,
};
use dmv_net::ops::{Caller, Integrate, OpsError, PullOptions, PullReport, PushReport, Remote};
use serde_json::{Value, json};
use std::sync::Arc;

/// The program that serves the pages.
pub trait Program: Send + Sync + 'static {
    /// Finds the repository that the pages show, and whose it is. Called for each request, so that a
    /// repository that has gone is told.
    fn find(&self) -> Result<(RepositoryLocation, Whose), ShownFailure>;

    /// Refuses a repository that commands refuse, such as a clone that is not finished. Tells it what commands
    /// tell it: how commits are signed, for example.
    fn check(&self, repo: &Repo) -> Result<(), ShownFailure>;

    /// Returns how files of the worktree are read.
    fn settings(&self) -> Result<WorktreeSettings, ShownFailure>;

    /// Returns the user.
    fn who(&self) -> Result<Who, ShownFailure>;

    /// Returns what the operation log records about a change that `command` would make.
    fn request(&self, command: &str) -> Result<OperationRequest, ShownFailure>;

    /// Called before a commit. The user's hooks may refuse it.
    fn before_commit(&self, repo: &Repo, message: &str) -> Result<(), ShownFailure>;

    /// Called after a commit, for the user's hooks.
    fn after_commit(&self, repo: &Repo, branch: Option<&str>, id: ObjectId);

    /// Returns what `verify-commit` says of a commit.
    fn signature(&self, repo: &Repo, id: &ObjectId) -> Result<SignatureWords, ShownFailure>;

    /// Returns what `tag --verify` says of a tag.
    fn tag_signature(&self, repo: &Repo, name: &str) -> Result<SignatureWords, ShownFailure>;

    /// Returns who has claimed what, and how far their work has come.
    fn claims(&self, repo: &Repo) -> Result<ClaimTable, ShownFailure>;

    /// Returns who has claimed a path, in the words of `ls -l`.
    fn claim_words(&self, info: &ClaimInfo) -> String;

    /// Claims a path as `claim` does: where a remote arbitrates, or else here.
    fn claim(&self, repo: &Repo, wish: &ClaimWish) -> Result<ClaimReport, ShownFailure>;

    /// Ends the user's own claims on a path and below it, as `release` does.
    fn release(&self, repo: &Repo, path: &RepoPath) -> Result<ClaimReport, ShownFailure>;

    /// Returns a caller that reaches the user's remotes.
    fn caller(&self) -> Box<dyn Caller>;

    /// Returns the names and addresses of the remotes.
    fn remotes(&self) -> Result<Vec<(String, String)>, ShownFailure>;

    /// Returns what a partial repository leaves out, in the words of `status`; `None` for a complete one.
    fn partial(&self, repo: &Repo) -> Option<String>;

    /// Returns the words for a failure of the library.
    fn explain(&self, e: RepoError) -> ShownFailure;

    /// Returns the words for a failure of a command with remotes.
    fn explain_ops(&self, e: OpsError) -> ShownFailure;

    /// Returns the words for a failure of a command with this remote.
    fn explain_remote(&self, remote: &Remote, e: OpsError) -> ShownFailure;

    /// Returns how a pull brings the fetched commits into the branch.
    fn integrate(&self) -> Result<Integrate, ShownFailure>;

    /// Returns the words for what a remote has refused of a push. `None`: nothing.
    fn refused_push(
        &self,
        repo: &Repo,
        remote: &Remote,
        report: &PushReport,
    ) -> Option<ShownFailure>;

    /// Returns why a pull has changed no branch. `None`: it has, or there was nothing to do.
    fn refused_pull(
        &self,
        repo: &Repo,
        options: &PullOptions,
        report: &PullReport,
    ) -> Option<ShownFailure>;
}

/// What a form asks to claim.
#[derive(Debug)]
pub struct ClaimWish {
    /// The file or directory.
    pub path: RepoPath,
    /// Why, in one line; may be empty.
    pub reason: String,
    /// Whether to take over what another device has.
    pub takes: bool,
    /// The job of the form, which a button stops.
    pub job: Arc<Job>,
}

/// What became of a claim or a release, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimReport {
    /// What was done.
    pub text: String,
    /// Remotes that do not know it yet, and why.
    pub more: Vec<String>,
}

/// What is known of the signature of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignatureWords {
    /// What it is worth.
    pub state: SignatureState,
    /// The same in words, with the signer.
    pub told: String,
}

/// A failure as the user reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownFailure {
    /// A word for programs.
    pub code: String,
    /// The exit code that the command would have.
    pub exit: u8,
    /// What failed.
    pub message: String,
    /// A command to run.
    pub hint: Option<String>,
}

impl ShownFailure {
    /// The failure as JSON.
    pub fn values(&self) -> Value {
        json!({
            "type": "error", "code": self.code, "exit": self.exit,
            "message": self.message, "hint": self.hint,
        })
    }
}

/// Why a page or a change stops.
#[derive(Debug)]
pub enum Stop {
    /// The library has failed.
    Repo(RepoError),
    /// A command with remotes has failed.
    Ops(OpsError),
    /// It is told already.
    Told(ShownFailure),
    /// There is no file at this path of the worktree.
    NoFile(RepoPath),
    /// There is no such page.
    NoPage,
    /// The request makes no sense.
    Bad(&'static str),
}

impl<E: Into<RepoError>> From<E> for Stop {
    fn from(e: E) -> Stop {
        Stop::Repo(e.into())
    }
}

/// Merge options for a commit that follows a branch that was moved.
pub fn merge_options(program: &dyn Program, message: String) -> Result<MergeOptions, ShownFailure> {
    Ok(MergeOptions {
        message,
        committer: program.who()?,
        settings: program.settings()?,
        request: program.request("commit")?,
    })
}
