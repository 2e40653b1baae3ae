//! The connection to a peer, and a session over it.

use super::caller::{Caller, Step, buckets_of};
use super::claim_exchange;
use super::session_error::SessionError;
use crate::session::{Client, NetError};
use crate::transport::{Connection, Purpose, Reach, Url, connect};
use crate::wire::Code;
use dmv_core::job::Job;
use dmv_core::repo::Repo;
use std::time::{Duration, Instant};

/// How long to try again to reach a peer that serves too many others.
const BUSY_TIME: Duration = Duration::from_secs(600);
/// How often a waiting command checks whether its job was cancelled.
const LOOK: Duration = Duration::from_millis(50);

/// Connects to `url` and exchanges greetings. Waits for a turn if the peer serves too many others.
pub fn dial<'r>(
    repo: &'r Repo,
    url: &Url,
    purpose: Purpose,
    caller: &dyn Caller,
    job: &'r Job,
) -> Result<(Connection, Client<'r>), NetError> {
    let end = Instant::now() + BUSY_TIME;
    let mut has_told = false;
    loop {
        match dial_once(repo, url, caller.reach(url, purpose)?, caller, job) {
            Err(e) if is_crowded(url, &e) && Instant::now() < end => {
                if !has_told {
                    caller.began(Step::Wait(&e, BUSY_TIME));
                    has_told = true;
                }
            }
            done => return done,
        }
        pause(job)?;
    }
}

/// Waits before the next try. The time differs between processes, so that those which wait do not
/// all come back at one moment.
fn pause(job: &Job) -> Result<(), NetError> {
    let until = Instant::now() + LOOK * (2 + std::process::id() % 8);
    while Instant::now() < until {
        job.check()?;
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Returns whether a peer at another device refuses because it serves too many others.
fn is_crowded(url: &Url, e: &NetError) -> bool {
    match url {
        #[cfg(feature = "quic")]
        Url::Quic(_) => matches!(e, NetError::Peer(Code::Busy, _)),
        _ => {
            let _ = (e, Code::Busy);
            false
        }
    }
}

fn dial_once<'r>(
    repo: &'r Repo,
    url: &Url,
    reach: Reach,
    caller: &dyn Caller,
    job: &'r Job,
) -> Result<(Connection, Client<'r>), NetError> {
    caller.began(Step::Dial(url));
    let greeted = greet(repo, url, &reach, caller, job);
    caller.began(Step::Dialled);
    let (connection, mut client) = greeted?;
    client.keeps_by_refs = url.is_bucket();
    if client.has_unasked_purges() {
        let remotes = caller.remotes()?.list;
        let remote = remotes.into_iter().find(|remote| remote.url == *url);
        client.name_place(&remote.map_or(url.to_string(), |remote| remote.name));
    }
    Ok((connection, client))
}

fn greet<'r>(
    repo: &'r Repo,
    url: &Url,
    reach: &Reach,
    caller: &dyn Caller,
    job: &'r Job,
) -> Result<(Connection, Client<'r>), NetError> {
    let mut connection = match url {
        Url::Bucket(address) => {
            let buckets = buckets_of(caller, url)?;
            let link = buckets.connect(address, reach.purpose, repo.dmv_dir())?;
            Connection::over(url.to_string(), link)
        }
        _ => connect(url, reach)?,
    };
    let greeted = connection.take_link().and_then(|mut link| {
        link.be_patient(reach.patience);
        Client::connect(repo, link, job)
    });
    match greeted {
        Ok(client) => Ok((connection, client)),
        Err(e) => Err(connection.explain(e)),
    }
}

/// Creates a repository that is on `branch` where nothing was found, and connects to it. Returns whether
/// it is new.
///
/// A second connection: a dmv that cannot create repositories can always be asked for one that is there.
fn create_and_dial<'r>(
    repo: &'r Repo,
    url: &Url,
    branch: &str,
    caller: &dyn Caller,
    job: &'r Job,
) -> Result<(Connection, Client<'r>, bool), NetError> {
    let mut reach = caller.reach(url, Purpose::Write)?;
    reach.create = Some(branch.to_owned());
    let (connection, client) = dial_once(repo, url, reach, caller, job)?;
    Ok((connection, client, true))
}

/// Runs `work` on a connection to `url`, which ends afterwards.
pub fn session<T>(
    repo: &Repo,
    url: &Url,
    purpose: Purpose,
    caller: &dyn Caller,
    job: &Job,
    work: impl FnOnce(Client<'_>) -> Result<T, NetError>,
) -> Result<T, Box<SessionError>> {
    let work = |client: Client<'_>, _| work(client);
    session_creating(repo, url, purpose, None, caller, job, work)
}

/// Runs `work` in a session, as [`session`]. If there is nothing at the address and `create` names a
/// branch, it first creates a bare repository there that is on this branch, and tells `work` so.
pub(super) fn session_creating<T>(
    repo: &Repo,
    url: &Url,
    purpose: Purpose,
    create: Option<&str>,
    caller: &dyn Caller,
    job: &Job,
    work: impl FnOnce(Client<'_>, bool) -> Result<T, NetError>,
) -> Result<T, Box<SessionError>> {
    caller.began(Step::Transfer);
    let failed = |source, answered, held| {
        Box::new(SessionError {
            url: url.clone(),
            answered,
            held,
            source,
        })
    };
    let dialled = dial(repo, url, purpose, caller, job);
    let dialled = match (dialled, create) {
        (Err(e), Some(branch)) if e.finds_nothing() => {
            create_and_dial(repo, url, branch, caller, job)
        }
        (dialled, _) => dialled.map(|(connection, client)| (connection, client, false)),
    };
    let (connection, mut client, is_new) = dialled.map_err(|e| failed(e, false, None))?;
    let held = client.held.clone();
    let told = claim_exchange::exchange(repo, url, purpose, caller, &mut client, job);
    told.and_then(|()| work(client, is_new))
        .map_err(|e| failed(connection.explain(e), true, held))
}
