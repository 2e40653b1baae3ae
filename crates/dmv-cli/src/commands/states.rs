//! `dmv states`

use crate::format::json;
use crate::partial_repository::lacks;
use crate::prelude::*;
use crate::print::newer;
use crate::print::worktree_state::look;
use dmv_core::object::commit::Commit;
use dmv_core::object::tree::TreeEntry;
use dmv_core::repo::{Location, LookError, PathState, StatusReport};
use dmv_core::subset::Subset;
use dmv_core::worktree::select::Paths;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Show the state of single files
///
/// For editors and file managers. Prints a line for each path that you give, in the same order. The state is
/// unchanged, added, modified, deleted, type, conflict, unwritten, ignored, outside (of the subset) or unknown.
/// With --json, also says whether the content is absent, and lists the newer versions that other branches have.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv states media/rock.psd media/tree.psd")]
pub struct Args {
    /// The files
    #[arg(value_name = "PATH", required = true, add = candidates::path())]
    paths: Vec<OsString>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let paths = context.repo_paths(&repo, &args.paths)?;
    let listed: BTreeSet<Vec<u8>> = paths.iter().map(|path| path.as_bytes().to_vec()).collect();
    let select = Paths::new(listed.iter().cloned().collect());
    let (report, _) = look(context, &repo, &select)?;
    let commit = repo.base_commit()?.map(|id| repo.read_commit(&id));
    let known = KnownStates {
        context,
        repo: &repo,
        words: words(&report),
        subset: &report.subset,
        commit: commit.transpose()?,
    };
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
    for path in &paths {
        let entry = known.entry(path)?;
        let state = known.word(path, entry.as_ref())?;
        context.ui.show(
            || {
                let at = json::path(path);
                let entry = entry.as_ref().filter(|_| repo.is_partial());
                let absent = entry.is_some_and(|entry| lacks(&repo, entry));
                object! { ..at, state: state, absent: absent, newer: newer.get(path).map_or(&[][..], Vec::as_slice) }
            },
            |out| Ok(writeln!(out, "{state:<9}  {}", escape(path.as_bytes()))?),
        )?;
    }
    Ok(EXIT_OK)
}

/// The words for the paths that differ from the commit.
fn words(report: &StatusReport) -> HashMap<&[u8], &'static str> {
    let changes = report
        .changes
        .iter()
        .map(|change| (change.path.as_bytes(), change.kind.word()));
    let mut words: HashMap<&[u8], &'static str> = changes.collect();
    words.extend(report.outside.iter().map(|path| (&path[..], OUTSIDE)));
    words.extend(
        report
            .unwritten
            .iter()
            .map(|path| (path.as_bytes(), "unwritten")),
    );
    words.extend(
        report
            .conflicts
            .iter()
            .map(|path| (path.as_bytes(), "conflict")),
    );
    words
}

const OUTSIDE: &str = "outside";

/// What tells the states of the paths.
struct KnownStates<'s> {
    context: &'s Context,
    repo: &'s Repo,
    words: HashMap<&'s [u8], &'static str>,
    subset: &'s Subset,
    /// The commit that the files come from.
    commit: Option<Commit>,
}

impl KnownStates<'_> {
    /// What the commit has at a path.
    fn entry(&self, path: &RepoPath) -> Result<Option<TreeEntry>, Failure> {
        let Some(commit) = &self.commit else {
            return Ok(None);
        };
        match self.repo.locate("", commit, path) {
            Ok(Location::Entry(entry)) => Ok(Some(entry)),
            Ok(Location::Root { .. }) | Err(RepoError::Look(LookError::NoSuchPath { .. })) => {
                Ok(None)
            }
            Err(e) => Err(e.into()),
        }
    }

    fn word(&self, path: &RepoPath, entry: Option<&TreeEntry>) -> Result<&'static str, Failure> {
        if let Some(word) = self.words.get(path.as_bytes()) {
            return Ok(word);
        }
        if entry.is_some() && self.subset.includes(path.as_bytes(), false) {
            return Ok("unchanged");
        }
        let settings = self.context.settings()?;
        if !self
            .repo
            .left_out(std::slice::from_ref(path), &settings)?
            .is_empty()
        {
            return Ok("ignored");
        }
        Ok(match self.repo.path_state(path)? {
            PathState::Outside { .. } => OUTSIDE,
            // A directory, of which files may have changed.
            PathState::Known => "unchanged",
            PathState::Unknown => "unknown",
        })
    }
}
