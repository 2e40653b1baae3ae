//! `dmv serve`

use crate::context::Context;
use crate::error::{EXIT_OK, Failure};
use dmv_net::session::{Link, refuse, serve};
use dmv_net::transport::open_at;
use dmv_net::wire::Access;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

/// Answer another repository over standard input and output
///
/// This is the other side of an ssh:// address: ssh starts it. In a line of authorized_keys it can
/// be forced, so that a key reaches one repository and nothing else:
///
///   command="dmv serve --stdio --read-only /srv/film.dmv",restrict ssh-ed25519 AAAA...
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv serve --stdio /srv/film.dmv")]
pub struct Args {
    /// Speak the protocol on standard input and output
    #[arg(long, required = true)]
    stdio: bool,
    /// Give, and take nothing
    #[arg(long)]
    read_only: bool,
    /// The repository
    #[arg(value_name = "PATH")]
    path: PathBuf,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    // Without the buffers of the standard streams, which look for line ends.
    let raw = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().map(File::from);
    let input = raw(std::io::stdin().as_fd())?;
    let link = Link::over(input, raw(std::io::stdout().as_fd())?);
    let asked = context.asked()?;
    let repo = match open_at(&args.path) {
        Ok(repo) => repo,
        Err(e) => {
            // The client shows it; it may run on another machine.
            return Err(refuse(link, e.into()).into());
        }
    };
    let access = match args.read_only || repo.refs().is_read_only() {
        true => Access::Read,
        false => Access::Write,
    };
    serve(&repo, link, access, &asked, &context.job)?;
    Ok(EXIT_OK)
}
