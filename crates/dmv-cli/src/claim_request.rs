//! Claims that are made and released, at a remote where one is in reach. Commands and pages use it.

use crate::hooks;
use crate::on_demand::remote_failure;
use crate::ownership::path_argument;
use crate::peers::{Call, remote, remotes};
use crate::prelude::*;
use crate::print::claims::{follow, guard_files, told};
use crate::print::claims_told::tell_remotes;
use crate::print::newer::{self, NewerLine};
use dmv_core::hash::encode_hex;
use dmv_core::repo::{
    ClaimInfo, ClaimOptions, ClaimOutcome, NewerReport, PlaceError, RefusedClaim, RepoError,
};
use dmv_core::worktree::select::Paths;
use dmv_net::ops;
use dmv_net::ops::{OpsError, Remote, SessionError};
use dmv_net::session::NetError;
use std::collections::BTreeSet;

/// The word of a failure for programs: the remote's dmv does not know claims.
const TOO_OLD: &str = "no-claims";

/// Claims paths where a remote arbitrates, or else here. Returns why no remote has arbitrated, if one was asked.
pub fn claim_paths(
    context: &Context,
    repo: &Repo,
    options: &ClaimOptions,
    at: Option<&str>,
    anyway: bool,
) -> Result<Option<Failure>, Failure> {
    if !anyway {
        refuse_newer(context, repo, &options.paths)?;
    }
    let asked = ask(context, at, repo, options)?;
    let outcome = match asked.outcome {
        Some(outcome) => outcome,
        None => repo.claim(options)?,
    };
    if let ClaimOutcome::Refused(mut refused) = outcome {
        let holders = refused.iter_mut().map(|refused| &mut refused.holder);
        follow(context, repo, holders)?;
        return Err(refuse_claimed(context, &refused)?);
    }
    Ok(asked.failure)
}

/// What follows a claim: its files become writable, and hooks hear of it.
pub fn after_claim(context: &Context, repo: &Repo, paths: &[RepoPath]) -> Result<(), Failure> {
    guard_files(context, repo, paths)?;
    hooks::after_claim(context, repo, paths);
    Ok(())
}

/// Returns the claims of this repository on exactly these paths.
pub fn own_claims(repo: &Repo, paths: &[RepoPath]) -> Result<Vec<ClaimInfo>, Failure> {
    let table = repo.claims_on(paths.iter())?;
    let found = paths.iter().filter_map(|at| {
        let mut claims = table.claims().iter();
        claims.find(|info| info.is_here && info.claim.path == *at)
    });
    Ok(found.cloned().collect())
}

/// `held at origin: shots/a.psd`.
pub fn claimed_words(info: &ClaimInfo) -> String {
    let path = escape(&info.claim.path);
    match info.held_at.first() {
        Some(remote) => format!("held at {}: {path}", clean(remote)),
        None => format!("noted, not yet known to others: {path}"),
    }
}

/// Why a claim is only noted, and what becomes of it.
pub fn later(failure: &Failure) -> String {
    let later = match failure.code {
        TOO_OLD => "your claim stays here",
        _ => "the next connection tells your claim",
    };
    format!("{}; {later}", failure.message)
}

/// What a remote has made of the claim.
#[derive(Default)]
struct Arbitration {
    /// `None` if it was not asked.
    outcome: Option<ClaimOutcome>,
    /// Why it has not arbitrated.
    failure: Option<Failure>,
}

/// Asks the remote that arbitrates, if there is one.
fn ask(
    context: &Context,
    at: Option<&str>,
    repo: &Repo,
    options: &ClaimOptions,
) -> Result<Arbitration, Failure> {
    let is_alone = context.config()?.default_remote().is_none() || context.is_offline()?;
    if at.is_none() && is_alone {
        return Ok(Arbitration::default());
    }
    let remote = remote(context, at)?;
    if remote.once {
        // What holds there is remembered under the name.
        let failure = Failure::usage("--at needs the name of a remote, not an address");
        return Err(failure.hint("dmv remote add NAME URL"));
    }
    let call = Call::new(context);
    let done = ops::claim(repo, &remote, options, &call, &context.job);
    drop(call);
    let failed = |outcome, failure| {
        let failure = Some(failure);
        Ok(Arbitration { outcome, failure })
    };
    match done {
        Ok(report) if report.is_known => {
            let untold = report
                .untold
                .map(|e| SessionError::unanswered(&remote.url, e));
            let failure = untold.map(|e| remote_failure(context, &remote, OpsError::Session(e)));
            Ok(Arbitration {
                outcome: Some(report.outcome),
                failure,
            })
        }
        Ok(report) => failed(Some(report.outcome), too_old(&remote)),
        Err(e) => match e.source {
            // The disk or the NAS is away.
            NetError::Repo(RepoError::Place(PlaceError::NotFound(_))) => {
                failed(None, remote_failure(context, &remote, OpsError::Session(e)))
            }
            NetError::Cancelled | NetError::Repo(_) => {
                Err(remote_failure(context, &remote, OpsError::Session(e)))
            }
            _ => failed(None, remote_failure(context, &remote, OpsError::Session(e))),
        },
    }
}

fn too_old(remote: &Remote) -> Failure {
    let message = format!("{} does not know claims", clean(&remote.name));
    Failure::new(TOO_OLD, EXIT_OTHER, message).hint("a newer dmv there")
}

/// Fails if another branch has a newer version of a path.
fn refuse_newer(context: &Context, repo: &Repo, paths: &[RepoPath]) -> Result<(), Failure> {
    let Some(own) = repo.own_commit()? else {
        return Ok(());
    };
    let select = Paths::new(paths);
    let NewerReport { versions, .. } = newer::of_selected(context, repo, own, &select);
    let lines = newer::lines(repo, &versions)?;
    let Some(first) = lines.first() else {
        return Ok(());
    };
    if context.ui.is_json() {
        for line in &lines {
            context.ui.json(&newer_value(line))?;
        }
    }
    let more = match lines.len() {
        1 => String::new(),
        n => format!(", and {} more", n - 1),
    };
    let message = format!(
        "'{}' is {}{more}; nothing was claimed",
        escape(&first.version.path),
        first.mark()
    );
    let path = path_argument(first.version.path.as_bytes());
    let again = hint!(
        "dmv pull or dmv merge first, or: dmv claim --anyway {}",
        path
    );
    Err(Failure::new("newer", EXIT_REFUSED, message).hint(again))
}

fn newer_value(line: &NewerLine<'_>) -> Json {
    let author = &line.author;
    object! {
        ..path(&line.version.path),
        state: "newer",
        at: line.version.on.to_string(),
        by: author.name,
        since: rfc3339(author.seconds, author.nanos, author.tz_minutes),
    }
}

/// The failure where others have the paths.
fn refuse_claimed(context: &Context, refused: &[RefusedClaim]) -> Result<Failure, Failure> {
    if context.ui.is_json() {
        for RefusedClaim { path, holder } in refused {
            context.ui.json(&claim_value(path, "other", holder))?;
        }
    }
    let Some(RefusedClaim { path, holder }) = refused.first() else {
        return Err(Failure::new("claimed", EXIT_REFUSED, "nothing was claimed"));
    };
    let more = match refused.len() {
        1 => String::new(),
        n => format!("; and {} more", n - 1),
    };
    let message = format!("{}{more}; nothing was claimed", told(path, holder));
    let take = hint!("dmv claim --take {}", path_argument(path.as_bytes()));
    Ok(Failure::new("claimed", EXIT_REFUSED, message).hint(take))
}

/// A claim for programs.
pub fn claim_value(at: &RepoPath, state: &str, info: &ClaimInfo) -> Json {
    object! {
        ..path(at),
        state: state,
        at: info.held_at.first(),
        info.{by},
        device: encode_hex(&info.writer.device),
        since: rfc3339(info.claim.since, 0, 0),
    }
}

/// Releases own claims on paths, as a page does. Returns what to say of remotes that have not heard it.
#[cfg(feature = "web")]
pub fn release_paths(
    context: &Context,
    repo: &Repo,
    paths: &[RepoPath],
) -> Result<Vec<String>, Failure> {
    let table = repo.claims_on(paths.iter())?;
    let own = table.claims().iter().filter(|info| info.is_here);
    let held_at: BTreeSet<&String> = own.flat_map(|info| &info.held_at).collect();
    let released = repo.release(paths, &context.request()?)?;
    guard_files(context, repo, &released)?;
    tell_holders(context, repo, &held_at)
}

/// Tells the remotes where released claims were held.
pub fn tell_holders(
    context: &Context,
    repo: &Repo,
    held_at: &BTreeSet<&String>,
) -> Result<Vec<String>, Failure> {
    if context.is_offline()? {
        return Ok(Vec::new());
    }
    let told = remotes(context)?.into_iter();
    let told = told.filter(|remote| held_at.contains(&remote.name));
    Ok(tell_remotes(context, repo, told))
}
