//! Fetch: receive the commits that a remote offers, and record its branches.

use super::caller::Caller;
use super::dial::session;
use super::error::OpsError;
use super::refs::{tip_at, tips};
use super::remote::Remote;
use crate::session::{Client, NetError};
use crate::session::{History, Summary};
use crate::transport::Purpose;
use dmv_core::job::Job;
use dmv_core::repo::{Head, Mirror, OfferedRefs, OperationRequest, OwnBranches, Repo};

/// What to fetch.
#[derive(Clone, Debug)]
pub struct FetchOptions {
    /// The remote.
    pub remote: Remote,
    /// How far back.
    pub history: History,
    /// Whether to forget branches that the remote has deleted.
    pub prune: bool,
    /// Whether the local branches and tags follow those of the remote. For bare repositories.
    pub mirror: Option<Mirror>,
    /// For the operation log.
    pub request: OperationRequest,
}

impl FetchOptions {
    /// Returns the options of a fetch of all new commits, which forgets nothing.
    pub fn new(remote: Remote, request: OperationRequest) -> FetchOptions {
        FetchOptions {
            remote,
            history: History::New,
            prune: false,
            mirror: None,
            request,
        }
    }
}

/// What a fetch did.
#[derive(Clone, Debug)]
pub struct FetchReport {
    /// What was transferred, and the refs that changed here.
    pub summary: Summary,
    /// The refs that the remote offers.
    pub offered: OfferedRefs,
    /// Branches that the remote has deleted. With `prune`, this repository has forgotten them.
    pub gone: Vec<String>,
}

/// Fetches from a remote. Local branches and files stay unchanged.
pub fn fetch(
    repo: &Repo,
    options: &FetchOptions,
    caller: &dyn Caller,
    job: &Job,
) -> Result<FetchReport, OpsError> {
    let remote = &options.remote;
    let report = session(
        repo,
        &remote.url,
        Purpose::Read,
        caller,
        job,
        |mut client| {
            client.fetch_history(&tips(&client.offered), options.history)?;
            let offered = client.offered.clone();
            let mut gone = repo.gone_from(remote.recorded(), &offered)?;
            let mut ours = OwnBranches::default();
            if options.prune || remote.once || options.mirror == Some(Mirror::MoveAndDelete) {
                ours.forget.clone_from(&gone);
            }
            if options.mirror.is_some() {
                (ours.mirror, ours.head) = (options.mirror, start_of(&offered));
            }
            if remote.once {
                // They were perhaps those of another address.
                gone.clear();
            }
            let recorded = remote.recorded();
            let note = || repo.note_remote(recorded, &offered, &ours, &options.request);
            let refs = client.name(note)?;
            Ok(FetchReport {
                summary: client.finish(refs),
                offered,
                gone,
            })
        },
    )?;
    caller.fetched(repo, remote, &report.summary.refs);
    Ok(report)
}

/// Returns the branch that clones of the remote start with.
fn start_of(offered: &OfferedRefs) -> Option<Head> {
    let name = offered.head.as_ref()?;
    tip_at(offered, &format!("branch/{name}"))?;
    Some(Head::Branch(name.clone()))
}

/// Fetches what a client offers, and records it as the remote's branches.
pub fn fetch_into(
    repo: &Repo,
    remote: &Remote,
    request: &OperationRequest,
    mut client: Client<'_>,
) -> Result<Summary, NetError> {
    client.fetch(&tips(&client.offered))?;
    let offered = client.offered.clone();
    let ours = OwnBranches::default();
    let note = || repo.note_remote(remote.recorded(), &offered, &ours, request);
    let refs = client.name(note)?;
    Ok(client.finish(refs))
}
