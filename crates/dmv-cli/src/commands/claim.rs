//! `dmv claim`

use crate::hooks;
use crate::on_demand::remote_failure;
use crate::ownership::path_argument;
use crate::peers::{Call, remote};
use crate::prelude::*;
use crate::print::claims::{follow, guard_files, told};
use crate::print::newer::{self, NewerLine};
use dmv_core::hash::encode_hex;
use dmv_core::repo::{
    ClaimInfo, ClaimOptions, ClaimOutcome, NewerReport, PlaceError, RefusedClaim, RepoError,
};
use dmv_core::worktree::select::Paths;
use dmv_net::ops;
use dmv_net::ops::{OpsError, Remote, SessionError};
use dmv_net::session::NetError;

/// Say that you work on files or directories, so that others do not
///
/// A claim says your name, your branch and why. You and others can still commit. 'dmv claims' lists all
/// claims, and 'dmv release' ends yours.
///
/// A claim is held once a remote has arbitrated it: of several people, one gets it there. dmv asks --at
/// REMOTE, or else origin or the only remote. A path, a disk and ssh need no server. Offline, a claim is
/// noted: others hear of it at the next fetch, push, pull or sync of yours.
///
/// dmv refuses if another device has the path, or if another branch has a newer version of it. A claim never
/// expires. With --take you take one over, and the other user is told.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv claim scenes/rock.psd -m 'new textures'\n  dmv claim --at nas shots/010\n  \
                  dmv claim --take scenes/rock.psd -m 'Grace is on holiday'"
)]
pub struct Args {
    /// The files and directories; a directory includes everything below it
    #[arg(value_name = "PATH", required = true, add = candidates::path())]
    paths: Vec<OsString>,
    /// Why, in one line of at most 200 bytes
    #[arg(
        short,
        long,
        value_name = "WHY",
        default_value = "",
        hide_default_value = true
    )]
    message: String,
    /// The remote that arbitrates [default: origin, or the only remote]
    #[arg(long, value_name = "REMOTE", add = candidates::remote())]
    at: Option<String>,
    /// Take over what others have claimed; they are told
    #[arg(long)]
    take: bool,
    /// Claim also what is newer on another branch
    #[arg(long)]
    anyway: bool,
}

/// The word of a failure for programs: the remote's dmv does not know claims.
const TOO_OLD: &str = "no-claims";

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let options = ClaimOptions {
        paths: context.repo_paths(&repo, &args.paths)?,
        reason: args.message.clone(),
        takes: args.take,
        request: context.request()?,
    };
    let at = args.at.as_deref();
    let failure = claim_paths(context, &repo, &options, at, args.anyway)?;
    for info in own_claims(&repo, &options.paths)? {
        let path = &info.claim.path;
        context.ui.show(
            || value(path, info.word(), &info),
            |out| Ok(writeln!(out, "{}", claimed_words(&info))?),
        )?;
    }
    after_claim(context, &repo, &options.paths)?;
    match failure {
        Some(failure) if at.is_some() => Err(failure),
        Some(failure) => {
            context.ui.note(format_args!("note: {}", later(&failure)));
            Ok(EXIT_OK)
        }
        None => Ok(EXIT_OK),
    }
}

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
    let selected = paths.iter().cloned().map(RepoPath::into_bytes);
    let select = Paths::new(selected.collect());
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
            context.ui.json(&value(path, "other", holder))?;
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

fn value(at: &RepoPath, state: &str, info: &ClaimInfo) -> Json {
    object! {
        ..path(at),
        state: state,
        at: info.held_at.first(),
        info.{by},
        device: encode_hex(&info.writer.device),
        since: rfc3339(info.claim.since, 0, 0),
    }
}
