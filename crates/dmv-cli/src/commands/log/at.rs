//! `dmv log --at REMOTE`: the history of a bucket, of which only commits are read.

use super::print::Printer;
use super::{Args, Walk, list};
use crate::bucket;
use crate::context::Context;
use crate::failure::{EXIT_NO_REPOSITORY, EXIT_OK, EXIT_OTHER, Failure};
use crate::peers::{Call, is_address, remote};
use crate::supply::remote_failure;
use dmv_core::escape::Argument;
use dmv_core::escape::Hint;
use dmv_core::hash::ObjectId;
use dmv_core::hint;
use dmv_core::history::changed::ChangedPaths;
use dmv_core::history::paths::PathLog;
use dmv_core::object::ObjectError;
use dmv_core::object::name::escape;
use dmv_core::repo::{
    HEAD, MIN_PREFIX, Repo, RepoError, RevisionError, end_of_range, split_steps, walk_steps,
};
use dmv_net::ops::{HistoryAt, Remote, history_at};
use std::cell::RefCell;
use std::collections::HashMap;

/// The most branches that a hint names.
const MOST_NAMED: usize = 5;

/// Runs the command for a remote.
pub(super) fn log(context: &Context, args: &Args, at: &str) -> Result<u8, Failure> {
    let repo = match context.repo_as_it_is() {
        Ok(repo) => Some(repo),
        Err(e) if e.exit == EXIT_NO_REPOSITORY && is_address(at) => None,
        Err(e) => return Err(e),
    };
    let remote = remote(context, Some(at))?;
    check(args, &remote)?;
    let call = Call::new(context);
    let opened = history_at(repo.as_ref(), &remote, &call);
    drop(call);
    let there = There {
        context,
        history: opened.map_err(|e| remote_failure(context, &remote, e))?,
        remote: &remote,
        current: repo.as_ref().map(current_branch).transpose()?.flatten(),
    };
    if there.history.refs().is_empty() {
        context.ui.note("no commits yet");
        return Ok(EXIT_OK);
    }
    let done = there.list(args);
    if done.is_ok() {
        bucket::tell_cost(context);
    }
    done
}

/// Fails for what needs more than the commits of a bucket.
fn check(args: &Args, remote: &Remote) -> Result<(), Failure> {
    let name = Argument::value(&remote.name);
    let fetch_first = |rest: &'static str| {
        if remote.once {
            hint!("dmv clone --meta-only {}; then dmv log{} there", name, rest)
        } else {
            hint!("dmv fetch {}; then dmv log {}/BRANCH{}", name, name, rest)
        }
    };
    if !remote.url.is_bucket() {
        let message = format!("log --at lists the history of a bucket, and {name} is none");
        return Err(Failure::usage(message).hint(fetch_first("")));
    }
    let needs = [
        (args.follow, " --follow -- PATH"),
        (!args.paths.is_empty(), " -- PATH"),
        (args.stat, " --stat"),
        (args.patch, " --patch"),
    ];
    match needs.into_iter().find(|(is_given, _)| *is_given) {
        None => Ok(()),
        Some((_, option)) => {
            let word = option.trim_start();
            let message =
                format!("log --at reads only the commits of a bucket; {word} needs directories");
            Err(Failure::usage(message).hint(fetch_first(option)))
        }
    }
}

/// The revision that the walk begins at. Only commits are read, so no word can be a path.
fn revision(args: &Args) -> Result<Option<&str>, Failure> {
    match args.words()[..] {
        [] => Ok(None),
        [one] => match one.to_str() {
            Some(one) => Ok(Some(one)),
            None => Err(Failure::usage("a revision is UTF-8")),
        },
        [_, second, ..] => {
            let second = escape(second.as_encoded_bytes());
            let message = format!("log starts at one commit; '{second}' is another word");
            Err(Failure::usage(message).hint("dmv log --at REMOTE REV"))
        }
    }
}

/// The branch that the worktree is on.
fn current_branch(repo: &Repo) -> Result<Option<String>, Failure> {
    Ok(repo.head()?.branch().map(str::to_owned))
}

/// A history that is listed from afar.
struct There<'a> {
    context: &'a Context,
    remote: &'a Remote,
    history: HistoryAt<'a>,
    /// The branch that the worktree here is on.
    current: Option<String>,
}

impl There<'_> {
    fn list(&self, args: &Args) -> Result<u8, Failure> {
        let (start, hidden) = self.start(args)?;
        let mut printer = Printer::new(self.context, args, || Ok(self.names()))?;
        let changed = ChangedPaths::default();
        let log = PathLog::new(self.history.commits(), &changed, &[start], &[]);
        let mut log = log.map_err(|e| self.failed(e.into()))?;
        let walk = Walk {
            log: &mut log,
            left: args.left(start, &hidden),
            hidden,
            followed: &RefCell::default(),
            moved: None,
        };
        let left = list(args, walk, &mut printer, &|e| self.failed(e))?;
        let ui = &self.context.ui;
        if !log.boundary().is_empty() && left > 0 {
            ui.note("note: older commits are absent from this bucket");
        }
        if printer.printed == 0 {
            ui.note("no matching commits");
        }
        Ok(EXIT_OK)
    }

    /// The commit to begin with, and commits at which to stop.
    fn start(&self, args: &Args) -> Result<(ObjectId, Vec<ObjectId>), Failure> {
        let Some(revision) = revision(args)? else {
            return Ok((self.head()?, Vec::new()));
        };
        let Some((old, new)) = revision.split_once("..") else {
            return Ok((self.resolve(revision)?, Vec::new()));
        };
        let side = |text: &str| match text {
            "" => self.head(),
            text => self.resolve(text),
        };
        let (old, new) = (side(old)?, side(new)?);
        let hidden = end_of_range(self.history.commits(), old, new);
        Ok((new, hidden.map_err(|e| self.failed(e))?))
    }

    fn resolve(&self, text: &str) -> Result<ObjectId, Failure> {
        let (name, steps) = split_steps(text);
        let id = match name {
            "@" | HEAD => self.head()?,
            name => self.named(name)?,
        };
        let found = walk_steps(self.history.commits(), id, steps, text);
        found.map_err(|e| self.failed(e))
    }

    fn named(&self, name: &str) -> Result<ObjectId, Failure> {
        let of_kind = |kind: &str| self.tip(&format!("{kind}/{name}"));
        if let Some(id) = of_kind("branch").or_else(|| of_kind("tag")) {
            return Ok(id);
        }
        let hex = name.to_ascii_lowercase();
        let is_id = hex.len() >= MIN_PREFIX && hex.bytes().all(|b| b.is_ascii_hexdigit());
        let mut found = Vec::new();
        if is_id {
            found = self.history.with_prefix(&hex).map_err(|e| self.failed(e))?;
        }
        match found[..] {
            [one] => Ok(one),
            [] => {
                let message = format!(
                    "remote {}: there is no branch, tag or commit {}",
                    self.remote.name,
                    Argument::value(name)
                );
                let failure = Failure::new("unknown-revision", EXIT_OTHER, message);
                Err(match self.branch_hint() {
                    Some(hint) => failure.hint(hint),
                    None => failure,
                })
            }
            _ => {
                found.sort();
                found.truncate(8);
                let prefix = name.to_owned();
                let candidates = found;
                Err(RepoError::from(RevisionError::Ambiguous { prefix, candidates }).into())
            }
        }
    }

    /// The commit where a log begins if nobody says where: that of the branch with the name of the one
    /// here, or of the main branch, or of the only one.
    fn head(&self) -> Result<ObjectId, Failure> {
        let usual = ["main", "master"].into_iter();
        let mut names = self.current.as_deref().into_iter().chain(usual);
        if let Some(id) = names.find_map(|name| self.tip(&format!("branch/{name}"))) {
            return Ok(id);
        }
        if let [only] = self.branches()[..] {
            return self.named(only);
        }
        let message = format!("remote {} has no main branch", self.remote.name);
        let failure = Failure::usage(message);
        Err(match self.branch_hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        })
    }

    fn tip(&self, key: &str) -> Option<ObjectId> {
        let mut refs = self.history.refs().iter();
        refs.find(|(known, _)| known == key).map(|(_, id)| *id)
    }

    fn branches(&self) -> Vec<&str> {
        let refs = self.history.refs().iter();
        refs.filter_map(|(key, _)| key.strip_prefix("branch/"))
            .collect()
    }

    /// A command for some of the branches.
    fn branch_hint(&self) -> Option<Hint> {
        let at = Argument::value(&self.remote.name);
        let branches = self.branches().into_iter().take(MOST_NAMED);
        let commands: Vec<Hint> = branches
            .map(|branch| hint!("dmv log --at {} {}", at, Argument::value(branch)))
            .collect();
        (!commands.is_empty()).then(|| Hint::join(commands, ", or "))
    }

    fn names(&self) -> HashMap<ObjectId, Vec<String>> {
        let mut names: HashMap<ObjectId, Vec<String>> = HashMap::new();
        for (key, id) in self.history.refs() {
            let name = match key.split_once('/') {
                Some(("tag", name)) => format!("tag {name}"),
                Some((_, name)) => name.to_owned(),
                None => continue,
            };
            names.entry(*id).or_default().push(name);
        }
        names
    }

    fn failed(&self, e: RepoError) -> Failure {
        if let RepoError::Object(ObjectError::Missing { id, .. }) = e {
            let message = format!("remote {}: commit {id} is absent there", self.remote.name);
            return Failure::new("absent", EXIT_OTHER, message);
        }
        remote_failure(self.context, self.remote, self.history.explain(e))
    }
}
