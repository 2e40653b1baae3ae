//! `dmv drop`

use crate::copies::{ask, end};
use crate::cost::print_with_cost;
use crate::covering_paths::{command, cover};
use crate::lock_wait::free;
use crate::path_arguments::{ChosenPaths, chosen};
use crate::peers::{Call, remotes};
use crate::prelude::*;
use crate::print::freed_space::{check_freed, freed_value, print_freed};
use dmv_core::object::list::Blob;
use dmv_core::repo::{Droppable, FreedSpace};
use dmv_net::ops::Peer;

/// Free local space: remove content that a remote also has
///
/// dmv first asks the remotes. It removes content only after a remote has confirmed that it keeps a
/// complete copy. If no remote confirms this, dmv removes nothing. To want more copies than one elsewhere,
/// set drop.copies.
///
/// History and the files in the worktree stay. 'dmv get', or any command that needs the content, fetches
/// it again; 'dmv undo' does not. To remove files from the worktree, use 'dmv subset remove'.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv drop media/raw\n  dmv drop '*.mov'\n  dmv drop @~5:media/clip.mov\n\n\
                  Exit code 5: this may be the last copy of a file, or fewer remotes than drop.copies have it;\n  \
                  nothing was dropped."
)]
pub struct Args {
    /// Files, directories or wildcard patterns, in the commit REV (default: @)
    #[arg(value_name = "[REV:]PATH", required = true, add = candidates::place_or_path())]
    paths: Vec<OsString>,
    /// Free everything at once: copy what stays out of every pack that also has other files
    #[arg(long)]
    thorough: bool,
}

/// What was asked for.
struct DropRequest<'a> {
    repo: &'a Repo,
    args: &'a Args,
    chosen: &'a [ChosenPaths],
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let copies = context.config()?.count("drop.copies")?;
    let chosen = chosen(context, &repo, &args.paths)?;
    let request = DropRequest {
        repo: &repo,
        args,
        chosen: &chosen,
    };
    let mut freeing = free(context, &repo)?;
    if args.thorough {
        freeing.be_thorough();
    }
    let watch = context.watch("scanning");
    let wanted: Vec<_> = chosen.iter().map(|chosen| chosen.wanted()).collect();
    let droppable = freeing.droppable(&wanted)?;
    drop(watch);
    if droppable.files.is_empty() {
        return finish(
            context,
            &request,
            &droppable,
            FreedSpace::default(),
            Vec::new(),
        );
    }
    let watch = context.watch("asking remotes");
    let call = Call::new(context);
    let mut peers = Peer::all(remotes(context)?, &repo, &call, &context.job);
    let files = droppable.files.iter().map(|(path, blob)| (path, *blob));
    let answers = ask(
        context,
        &repo,
        &mut peers,
        copies,
        files.clone(),
        &droppable.earlier,
    )?;
    drop(watch);
    if let Some(failure) = answers.refusal("dropped", files) {
        end(peers);
        return Err(failure);
    }
    let earlier = answers.kept_of(&droppable.earlier);
    let blobs: Vec<Blob> = droppable.files.iter().map(|(_, blob)| *blob).collect();
    let mut still = || answers.still(&mut peers);
    let watch = context.watch("freeing space");
    let freed = freeing.drop_files(&blobs, &earlier, &mut still, &context.job);
    let freed = freed.map_err(|e| answers.failure(e.into()))?;
    drop(watch);
    end(peers);
    finish(context, &request, &droppable, freed, answers.keepers)
}

fn finish(
    context: &Context,
    request: &DropRequest<'_>,
    droppable: &Droppable,
    freed: FreedSpace,
    peers: Vec<String>,
) -> Result<u8, Failure> {
    let in_worktree = droppable.files.iter();
    let in_worktree = in_worktree.filter(|(path, blob)| request.repo.is_checked_out(path, blob));
    let in_worktree: Vec<&[u8]> = in_worktree.map(|(path, _)| path.as_bytes()).collect();
    let amounts = Amounts {
        files: droppable.files.len() as u64,
        bytes: droppable.files.iter().map(|(_, blob)| blob.size).sum(),
        stored_bytes: droppable.stored_bytes,
        freed,
        peers,
    };
    if context.ui.is_json() {
        let document = object! {
            amounts.{files, bytes, stored_bytes},
            ..freed_value(&amounts.freed),
            in_worktree: in_worktree.len(),
            amounts.{peers},
            why_not_freed: amounts.freed.why_not_freed,
        };
        print_with_cost(context, document)?;
    }
    context
        .ui
        .text(|out| print(context, out, request, &in_worktree, &amounts))?;
    if amounts.freed.no_room || !context.ui.is_json() {
        check_freed(context, &amounts.freed)?;
    }
    Ok(EXIT_OK)
}

/// What was dropped.
struct Amounts {
    files: u64,
    bytes: u64,
    /// What the content took in packs.
    stored_bytes: u64,
    freed: FreedSpace,
    /// The remotes that keep it.
    peers: Vec<String>,
}

/// Prints what was dropped, how much of it is free now, which files stay in the worktree, and how to go on.
fn print(
    context: &Context,
    out: &mut impl Write,
    request: &DropRequest<'_>,
    in_worktree: &[&[u8]],
    amounts: &Amounts,
) -> Result<(), Failure> {
    if amounts.files == 0 {
        writeln!(out, "nothing to drop: this content is already absent")?;
        return Ok(());
    }
    let files = count(amounts.files, "file", "files");
    let keepers = clean(&amounts.peers.join(", "));
    let (total, stored) = (bytes(amounts.bytes), bytes(amounts.stored_bytes));
    let stored = if stored == total {
        String::new()
    } else {
        format!(", which took {stored} here")
    };
    writeln!(out, "{files} dropped ({total}{stored}), kept by {keepers}")?;
    print_freed(out, &amounts.freed)?;
    if amounts.freed.waiting_bytes > 0 && !request.args.thorough {
        context.ui.note(match thorough(&request.args.paths) {
            Some(again) => hint!(
                "hint: to free it now, which copies what stays in these packs: {}",
                again
            ),
            None => "hint: to free it now, which copies what stays in these packs: add --thorough"
                .into(),
        });
    }
    if in_worktree.is_empty() {
        return Ok(());
    }
    let stay = count(in_worktree.len() as u64, "file stays", "files stay");
    let them = if in_worktree.len() == 1 { "it" } else { "them" };
    let remove = remove_there(request, in_worktree);
    context.ui.note(format_args!(
        "note: {stay} in the worktree; to remove {them} there: {remove}"
    ));
    Ok(())
}

/// The command that removes files from the worktree: a directory stands for its files. If that names too
/// much, what was asked for stands for all.
fn remove_there(request: &DropRequest<'_>, paths: &[&[u8]]) -> Hint {
    let repo = request.repo;
    let commit = repo.head_commit().ok().flatten();
    let commit = commit.and_then(|id| repo.read_commit(&id).ok());
    let covered = commit.map(|commit| cover(repo, commit.tree, paths));
    let verb = "dmv subset remove";
    let remove = covered.and_then(|paths| command(verb, &paths, |path| Argument::pattern(path)));
    let patterns = request.chosen.iter();
    let patterns = patterns
        .flat_map(|chosen| chosen.subset().patterns())
        .collect();
    remove
        .or_else(|| command(verb, &patterns, |p| Argument::given_pattern(p)))
        .unwrap_or_else(|| hint!("dmv subset remove PATTERN"))
}

/// The same command with --thorough, unless it names too much.
fn thorough(paths: &[OsString]) -> Option<Hint> {
    let paths = paths.iter().map(|path| path.as_encoded_bytes()).collect();
    command("dmv drop --thorough", &paths, |p| Argument::given_path(p))
}
