//! `dmv states`

use crate::format::json;
use crate::joined_texts::{JoinedTexts, joined_texts};
use crate::partial_repository::lacks;
use crate::prelude::*;
use crate::print::{claims, newer};
use dmv_core::repo::{ClaimTable, Location, LookError};
use std::collections::{BTreeMap, BTreeSet};

/// Show the state of single files
///
/// For editors and file managers. Prints a line for each path that you give, in the same order. The state is
/// unchanged, added, modified, deleted, type, conflict, unwritten, ignored, outside (of the subset),
/// unreadable or unknown.
/// With --json, also says whether the content is absent, lists the newer versions that other branches have, and
/// says who has claimed the file.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv states media/rock.psd media/tree.psd")]
pub struct Args {
    /// The files
    #[arg(value_name = "PATH", required = true, value_parser = joined_texts(), add = candidates::path())]
    paths: Vec<JoinedTexts>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let paths = context.paths(&repo, args.paths.iter().flat_map(JoinedTexts::iter))?;
    let watch = context.watch("looking");
    let states = repo.states(&paths, &context.settings()?, &context.job)?;
    drop(watch);
    let listed = paths.iter().map(RepoPath::as_bytes).collect();
    let own = repo.own_commit()?;
    let found = own.map(|own| newer::of_paths(context, &repo, own, listed));
    let found = found.unwrap_or_default();
    let mut newer: BTreeMap<&RepoPath, Vec<Json>> = BTreeMap::new();
    for line in newer::lines(&repo, &found.versions)? {
        newer
            .entry(&line.version.path)
            .or_default()
            .push(line.to_json());
    }
    let absent = absent(&repo, &paths)?;
    let table = if context.ui.is_json() {
        claims::followed(context, &repo, paths.iter())?
    } else {
        ClaimTable::default()
    };
    for (path, state) in paths.iter().zip(states) {
        let state = state.word();
        context.ui.show(
            || {
                let at = json::path(path);
                let newer = newer.get(path).map_or(&[][..], Vec::as_slice);
                object! {
                    ..at,
                    state: state,
                    absent: absent.contains(path),
                    newer: newer,
                    claimed?: table.of_path(path).map(claims::value),
                }
            },
            |out| Ok(writeln!(out, "{state:<9}  {}", escape(path.as_bytes()))?),
        )?;
    }
    Ok(EXIT_OK)
}

/// Those of the paths whose content in the worktree's commit is not stored here.
fn absent<'p>(repo: &Repo, paths: &'p [RepoPath]) -> Result<BTreeSet<&'p RepoPath>, Failure> {
    let mut absent = BTreeSet::new();
    if !repo.is_partial() {
        return Ok(absent);
    }
    let Some(commit) = repo
        .base_commit()?
        .map(|id| repo.read_commit(&id))
        .transpose()?
    else {
        return Ok(absent);
    };
    for path in paths {
        match repo.locate("", &commit, path) {
            Ok(Location::Entry(entry)) if lacks(repo, &entry) => drop(absent.insert(path)),
            Ok(_) | Err(RepoError::Look(LookError::NoSuchPath { .. })) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(absent)
}
