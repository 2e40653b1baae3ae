//! `dmv claim`

use crate::claim_request::{
    after_claim, claim_paths, claim_value, claimed_words, later, own_claims,
};
use crate::prelude::*;
use dmv_core::repo::ClaimOptions;

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

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let options = ClaimOptions {
        paths: context.paths(&repo, &args.paths)?,
        reason: args.message.clone(),
        takes: args.take,
        request: context.request()?,
    };
    let at = args.at.as_deref();
    let failure = claim_paths(context, &repo, &options, at, args.anyway)?;
    for info in own_claims(&repo, &options.paths)? {
        let path = &info.claim.path;
        context.ui.show(
            || claim_value(path, info.word(), &info),
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
