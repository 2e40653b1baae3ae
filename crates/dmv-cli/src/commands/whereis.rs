//! `dmv whereis`

use crate::context::{CommandUse, now};
use crate::copies::is_itself;
use crate::partial_repository::held_paths;
use crate::path_arguments::chosen;
use crate::peers::{Call, remote, remotes, tell_skipped};
use crate::prelude::*;
use crate::print::whereis::{Copies, FileCopy, Holder, Knowledge};
use dmv_core::object::ObjectType;
use dmv_core::object::list::Blob;
use dmv_core::object::root::Root;
use dmv_core::repo::{LackOf, Location, Selection};
use dmv_net::ops::{Peer, Remote};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Show which repositories have the content of files
///
/// Lists who has each file: this repository, and its remotes. Each counts as one copy. For a remote, dmv goes
/// by the branches that it had at the last fetch, push or sync, and says when that was. It uses no network.
///
/// --ask asks the remotes now. Then a remote has a file only if it confirms that it has every byte of it and
/// keeps it. Files without any bytes are left out.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv whereis\n  dmv whereis --min 2\n  dmv whereis --ask scenes '*.mov'\n\n\
                  Exit code 1: with --min and --exit-code, some files have too few copies.\n\
                  Exit code 3: a remote did not answer."
)]
pub struct Args {
    /// Files, directories or wildcard patterns, in the commit REV (default: all files of @)
    #[arg(value_name = "[REV:]PATH", add = candidates::place_or_path())]
    paths: Vec<OsString>,
    /// Look only at this remote; may be given several times
    #[arg(long, value_name = "NAME", add = candidates::remote())]
    remote: Vec<String>,
    /// Ask the remotes now
    #[arg(long)]
    ask: bool,
    /// List only files of which fewer than N copies are known
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    min: Option<u32>,
    /// Exit with 1 if --min lists a file
    #[arg(long, requires = "min")]
    exit_code: bool,
}

impl Args {
    /// How the command uses the terminal.
    pub fn command_use(&self) -> CommandUse {
        CommandUse::of_look(self.exit_code)
    }
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let chosen_remotes = chosen_remotes(context, args)?;
    let files = files(context, &repo, args)?;
    let mut wanted = BTreeMap::new();
    wanted.extend(files.iter().map(|file| (file.blob.id, file.blob.ty())));
    let watch = context.watch("looking");
    let mut holders = Vec::new();
    let contacts = repo.last_contacts()?;
    for remote in &chosen_remotes {
        let found = repo.content_at(&remote.name, wanted.clone(), &context.job)?;
        holders.push(Holder {
            name: remote.name.clone(),
            place: remote.url.to_string(),
            as_of: contacts.get(&remote.name).copied(),
            knowledge: Knowledge::Branches(found),
        });
    }
    drop(watch);
    let mut is_complete = true;
    if args.ask {
        is_complete = ask(context, &repo, chosen_remotes, &wanted, &mut holders)?;
    }
    let copies = Copies {
        files,
        holders,
        min: args.min,
    };
    let is_any_listed = copies.print(context)?;
    Ok(match (is_complete, is_any_listed) {
        (false, _) => EXIT_INCOMPLETE,
        (true, true) if args.exit_code => EXIT_DIFFERS,
        _ => EXIT_OK,
    })
}

fn chosen_remotes(context: &Context, args: &Args) -> Result<Vec<Remote>, Failure> {
    if args.remote.is_empty() {
        return remotes(context);
    }
    let mut chosen: Vec<Remote> = Vec::new();
    for name in &args.remote {
        let remote = remote(context, Some(name))?;
        if remote.once && !args.ask {
            let message = format!("nothing is known of {} before it is asked", clean(name));
            let again = hint!("dmv whereis --ask --remote {}", Argument::value(name));
            return Err(Failure::usage(message).hint(again));
        }
        if chosen.iter().all(|known| known.name != remote.name) {
            chosen.push(remote);
        }
    }
    Ok(chosen)
}

/// The files that are meant, in path order.
fn files(context: &Context, repo: &Repo, args: &Args) -> Result<Vec<FileCopy>, Failure> {
    let mut found: Vec<(RepoPath, Blob)> = Vec::new();
    let mut list = |wanted: Selection<'_>| {
        supplied(context, repo, "reading", || {
            repo.check_names_here(wanted, true)
        })?;
        repo.each_content(wanted, &mut |path, blob| found.push((path.clone(), blob)))?;
        Ok::<(), Failure>(())
    };
    if !args.paths.is_empty() {
        for chosen in chosen(context, repo, &args.paths)? {
            list(chosen.wanted())?;
        }
    } else if let Some(own) = repo.own_commit()? {
        let commit = repo.read_commit(&own)?;
        // A listing of everything fetches nothing that is missing.
        let held = held_paths(context, repo, &commit, LackOf::Names)?;
        list(Selection {
            path: &RepoPath::root(),
            located: &Location::Root {
                tree: commit.tree,
                bytes: commit.tree_bytes,
                files: commit.tree_files,
            },
            subset: &held,
        })?;
    }
    found.sort_by(|(a, x), (b, y)| (a.as_bytes(), x.id).cmp(&(b.as_bytes(), y.id)));
    found.dedup_by(|(a, x), (b, y)| a == b && x.id == y.id);
    let is_partial = repo.is_partial();
    // What was given up may wait for its space to be freed. Files of a lean worktree stand in for it.
    let given_up = if repo.is_lean() {
        BTreeSet::new()
    } else {
        repo.slice()?.given_up()
    };
    let file = |(path, blob): (RepoPath, Blob)| {
        let is_kept = !is_partial || repo.has_root(Root::Blob(blob))?;
        let is_here = is_kept && !given_up.contains(&blob.id);
        Ok(FileCopy {
            path,
            blob,
            is_here,
        })
    };
    found.into_iter().map(file).collect()
}

/// Asks the remotes, each in one exchange, and puts what they say in place of what was known. Returns whether all
/// have answered.
fn ask(
    context: &Context,
    repo: &Repo,
    remotes: Vec<Remote>,
    wanted: &BTreeMap<ObjectId, ObjectType>,
    holders: &mut Vec<Holder>,
) -> Result<bool, Failure> {
    let question: Vec<(ObjectType, ObjectId)> = wanted.iter().map(|(id, ty)| (*ty, *id)).collect();
    let watch = context.watch("asking remotes");
    let call = Call::new(context);
    let mut peers = Peer::all(remotes, repo, &call, &context.job);
    let mut answers = HashMap::new();
    for peer in &mut peers {
        let name = peer.remote.name.clone();
        if is_itself(repo, &peer.remote.url) {
            let text = format_args!("note: {} is this repository itself", clean(&name));
            context.ui.note(text);
            holders.retain(|holder| holder.name != name);
            continue;
        }
        let answer = peer.ask(|client| Ok((client.repository(), client.unkept(&question)?)));
        context.job.check()?;
        if let Some((repository, unkept)) = answer {
            let unkept: HashSet<ObjectId> = unkept.into_iter().map(|(_, id)| id).collect();
            answers.insert(name, (repository, unkept));
        }
    }
    drop(watch);
    let asked_at = now().seconds;
    for holder in holders {
        if let Some((repository, unkept)) = answers.remove(&holder.name) {
            holder.place = dmv_core::hash::encode_hex(&repository);
            holder.as_of = Some(asked_at);
            holder.knowledge = Knowledge::Answer(unkept);
        }
    }
    let silent: Vec<_> = peers.into_iter().filter_map(Peer::finish).collect();
    let is_complete = silent.is_empty();
    tell_skipped(context, silent);
    Ok(is_complete)
}
