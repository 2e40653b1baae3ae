//! `dmv lean`

use crate::copies::{ask, end};
use crate::lean_setting::set_lean;
use crate::lock_wait::free;
use crate::peers::{Call, remotes};
use crate::prelude::*;
use crate::print::freed_space::{check_freed, freed_value, print_freed};
use dmv_core::object::list::Blob;
use dmv_core::repo::{FreedSpace, WorktreeError};
use dmv_net::ops::Peer;

/// Keep no second copy of files that lie in the worktree
///
/// Usually a file takes its space twice: in the worktree, and as content in the repository. In a lean
/// repository, content of unchanged files is in the worktree only, once a remote has confirmed that it keeps
/// it. dmv reads it there, and checks every byte.
///
/// Without a subcommand, this is 'dmv lean status'.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv clone --lean ssh://nas/srv/film.dmv\n  dmv lean on\n  dmv lean"
)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(clap::Subcommand)]
enum Command {
    On(OnArgs),
    Off(OffArgs),
    Status(StatusArgs),
}

/// Free the second copy of unchanged files that a remote keeps
///
/// dmv asks the remotes, as 'dmv drop' does. Run it again after a push or a checkout: what commands have
/// stored meanwhile stays in the repository until then.
///
/// Before a command replaces or removes such a file, it stores the committed content again. So it needs no
/// remote. If you edit or delete the file yourself, only the remote has the former content.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv lean on\n\nExit code 5: no remote keeps any of the files, so nothing was freed."
)]
struct OnArgs {}

/// Store the content of all unchanged files in the repository again
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv lean off")]
struct OffArgs {}

/// Show how much content only the worktree has
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv lean status --json")]
struct StatusArgs {}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    if repo.worktree_root().is_none() {
        return Err(RepoError::from(WorktreeError::NoWorktree).into());
    }
    match &args.command {
        Some(Command::On(_)) => turn_on(context, &repo),
        Some(Command::Off(_)) => turn_off(context, &repo),
        Some(Command::Status(_)) | None => status(context, &repo),
    }
}

fn turn_on(context: &Context, repo: &Repo) -> Result<u8, Failure> {
    let freeing = free(context, repo)?;
    let watch = context.watch("scanning");
    let droppable = freeing.in_worktree()?;
    drop(watch);
    let (mut freed, mut keepers, mut kept) = (FreedSpace::default(), Vec::new(), Vec::new());
    if droppable.files.is_empty() {
        set_lean(repo, true)?;
    } else {
        let watch = context.watch("asking remotes");
        let call = Call::new(context);
        let mut peers = Peer::all(remotes(context)?, repo, &call, &context.job);
        let files = droppable.files.iter().map(|(path, blob)| (path, *blob));
        let answers = ask(
            context,
            repo,
            &mut peers,
            1,
            files.clone(),
            &droppable.earlier,
        )?;
        drop(watch);
        kept = answers.kept_files(&droppable.files);
        if kept.is_empty()
            && let Some(failure) = answers.refusal("freed", files)
        {
            end(peers);
            return Err(failure);
        }
        set_lean(repo, true)?;
        let earlier = answers.kept_of(&droppable.earlier);
        let mut still = || answers.still(&mut peers);
        let watch = context.watch("freeing space");
        let done = freeing.drop_files(&kept, &earlier, &mut still, &context.job);
        freed = done.map_err(|e| answers.failure(e.into()))?;
        drop(watch);
        end(peers);
        keepers = answers.keepers;
    }
    let left = droppable.files.len() - kept.len();
    let size: u64 = kept.iter().map(|blob: &Blob| blob.size).sum();
    context.ui.report(
        || {
            object! {
                lean: true,
                files: kept.len(),
                bytes: size,
                left: left,
                ..freed_value(&freed),
                peers: keepers,
            }
        },
        |out| {
            if kept.is_empty() {
                writeln!(out, "lean: nothing to free")?;
                return Ok(());
            }
            let files = count(kept.len() as u64, "file", "files");
            let keepers = clean(&keepers.join(", "));
            let size = bytes(size);
            writeln!(
                out,
                "lean: {files} ({size}) only in the worktree now, kept by {keepers}"
            )?;
            print_freed(out, &freed)
        },
    )?;
    if left > 0 {
        let files = count(left as u64, "file stays", "files stay");
        context.ui.note(format_args!(
            "note: {files} in the repository, too: no remote keeps them; dmv push, then dmv lean on"
        ));
    }
    check_freed(context, &freed)?;
    Ok(EXIT_OK)
}

fn turn_off(context: &Context, repo: &Repo) -> Result<u8, Failure> {
    repo.be_lean();
    let watch = context.watch("storing");
    let stored_bytes = repo.store_lean_files(&context.job)?;
    drop(watch);
    set_lean(repo, false)?;
    context.ui.report(
        || object! { lean: false, stored_bytes: stored_bytes },
        |out| {
            let size = bytes(stored_bytes);
            Ok(writeln!(
                out,
                "not lean any more: {size} stored in the repository"
            )?)
        },
    )?;
    Ok(EXIT_OK)
}

fn status(context: &Context, repo: &Repo) -> Result<u8, Failure> {
    let found = repo.lean_use()?;
    let is_lean = repo.is_lean();
    context.ui.report(
        || object! { lean: is_lean, found.{lean_files, lean_bytes, stored_files, stored_bytes} },
        |out| {
            if !is_lean {
                writeln!(
                    out,
                    "not lean: content of the files is in the repository, too; dmv lean on"
                )?;
                return Ok(());
            }
            let files = count(found.lean_files, "unchanged file", "unchanged files");
            writeln!(
                out,
                "lean: {files} ({}) only in the worktree",
                bytes(found.lean_bytes)
            )?;
            if found.stored_files > 0 {
                let files = count(found.stored_files, "file", "files");
                let size = bytes(found.stored_bytes);
                writeln!(out, "in the repository, too: {files} ({size}); dmv lean on")?;
            }
            Ok(())
        },
    )?;
    Ok(EXIT_OK)
}
