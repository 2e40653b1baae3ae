//! `dmv serve`

use crate::prelude::*;
use dmv_core::fsutil::widen_pipe;
use dmv_core::platform::same_file;
use dmv_net::session::{Grant, Link, NetError, refuse, serve};
use dmv_net::transport::{Purpose, create_at, open_at};
use dmv_net::wire::ReadOnly;
use std::path::{Path, PathBuf};

#[cfg(feature = "quic")]
mod quic;
#[cfg(feature = "quic")]
mod upkeep;

/// Let other devices fetch from and push to this repository
///
/// Serves the repository of the current directory until you press Ctrl-C. Only the devices that
/// 'dmv peers' lists have access. Without --listen or --lan, only this machine can connect.
///
/// With --stdio it serves one connection of an ssh:// address; ssh starts it on the remote machine. To
/// limit an ssh key to one repository, use a line like this in authorized_keys:
///
///   command="dmv serve --stdio --read-only /srv/film.dmv",restrict ssh-ed25519 AAAA...
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv serve --lan\n  dmv serve --listen :4711 --read-only\n  \
                  dmv serve --stdio /srv/film.dmv"
)]
pub struct Args {
    /// Listen at IP:PORT, at IP, or at :PORT on all addresses of this machine
    #[cfg(feature = "quic")]
    #[arg(long, value_name = "ADDR")]
    listen: Option<dmv_net::transport::quic::ListenAddress>,
    /// Announce this device on the local network, and listen at all its addresses
    #[cfg(feature = "quic")]
    #[arg(long)]
    lan: bool,
    /// Allow fetch only; refuse every push
    #[arg(long)]
    read_only: bool,
    /// With --stdio: if there is nothing at PATH, create a bare repository there that is on BRANCH
    #[arg(
        long,
        value_name = "BRANCH",
        requires = "stdio",
        conflicts_with = "read_only"
    )]
    create: Option<String>,
    /// Serve one connection over standard input and output
    #[cfg_attr(feature = "quic", arg(long, requires = "path", conflicts_with_all = ["listen", "lan"]))]
    #[cfg_attr(not(feature = "quic"), arg(long, required = true, requires = "path"))]
    stdio: bool,
    /// The repository to serve, with --stdio
    #[arg(value_name = "PATH", requires = "stdio")]
    path: Option<PathBuf>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    match &args.path {
        Some(path) => stdio(context, path, args),
        None => by_key(context, args),
    }
}

#[cfg(feature = "quic")]
fn by_key(context: &Context, args: &Args) -> Result<u8, Failure> {
    quic::run(context, args.listen.clone(), args.lan, args.read_only)
}

#[cfg(not(feature = "quic"))]
fn by_key(_context: &Context, _args: &Args) -> Result<u8, Failure> {
    Err(Failure::usage("--stdio PATH is needed"))
}

fn stdio(context: &Context, path: &Path, args: &Args) -> Result<u8, Failure> {
    // Without the buffers of the standard streams, which look for line ends.
    let (input, output) = (same_file(std::io::stdin())?, same_file(std::io::stdout())?);
    widen_pipe(&input);
    widen_pipe(&output);
    let mut link = Link::over(input, output).map_err(NetError::from)?;
    link.be_patient(context.config()?.seconds("net.patience")?);
    let request = context.request()?;
    let purpose = if args.read_only {
        Purpose::Read
    } else {
        Purpose::Write
    };
    let opened = match &args.create {
        Some(branch) => create_at(path, branch, request.clone()),
        None => open_at(path, purpose),
    };
    let repo = match opened {
        Ok(repo) => repo,
        Err(e) => {
            // The client shows it; it may run on another machine.
            return Err(refuse(link, e.into()).into());
        }
    };
    let grant = Grant::of(&repo, args.read_only.then_some(ReadOnly::Server));
    serve(&repo, link, grant, &request, &context.job)?;
    Ok(EXIT_OK)
}
