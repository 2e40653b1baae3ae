//! How `dmv log` shows commits.

use super::Args;
use crate::compare::FileDiff;
use crate::format::json;
use crate::graph::Graph;
use crate::headline::{header, line, names};
use crate::prelude::*;
use crate::print::changes::{CommitAt, Detail, changes};
use crate::print::tags::checked;
use crate::signers::told;
use dmv_core::history::paths::VisitedCommit;
use dmv_core::repo::{SignatureCheck, SignatureChecker, SignatureState};
use dmv_core::worktree::select::Paths;
#[cfg(feature = "git")]
use dmv_git::revision::GitNames;
use std::collections::HashMap;

/// Prints commits one after the other.
pub(super) struct Printer<'a> {
    context: &'a Context,
    /// The names that commits have.
    names: HashMap<ObjectId, Vec<String>>,
    graph: Option<Graph>,
    oneline: bool,
    repo: &'a Repo,
    /// What to show of each commit's changes.
    detail: Option<Detail>,
    /// Checks the signatures, if they are shown.
    pub signatures: Option<SignatureChecker<'a>>,
    /// The ids that commits have in Git, if they are shown.
    #[cfg(feature = "git")]
    git: Option<GitNames>,
    /// How many commits were printed.
    pub printed: u64,
}

impl<'a> Printer<'a> {
    /// Returns a printer for the options of a command.
    pub fn new(context: &'a Context, args: &Args, repo: &'a Repo) -> Result<Printer<'a>, Failure> {
        let json = context.ui.is_json();
        Ok(Printer {
            context,
            names: if json { HashMap::new() } else { names(repo)? },
            graph: (args.graph && !json).then(Graph::default),
            oneline: args.oneline,
            repo,
            detail: args.detail(),
            signatures: None,
            #[cfg(feature = "git")]
            git: args.git.then(|| GitNames::open(repo.dmv_dir())),
            printed: 0,
        })
    }

    /// Prints a commit.
    pub fn print(&mut self, visited: &VisitedCommit, paths: &[RepoPath]) -> Result<(), Failure> {
        let (id, commit) = (&visited.id, &visited.commit);
        let ui = &self.context.ui;
        self.printed += 1;
        let checker = self.signatures.as_ref();
        let signature = checker
            .map(|checker| checker.check(id, commit))
            .transpose()?;
        if ui.is_json() {
            let mut value = json::commit(id, commit);
            if let Some(SignatureCheck { state, key, name }) = signature {
                value.add("signature", state.word());
                value.add("key", key);
                value.add("name", name);
            }
            if let Some(git) = self.git_id(visited) {
                value.add("git", git);
            }
            if let Some(detail) = self.detail {
                value.add("changes", self.changes(visited, paths, detail)?);
            }
            return ui.json(&value);
        }
        let mut names = self.names.get(id).cloned().unwrap_or_default();
        if let Some(git) = self.git_id(visited) {
            let shown = if ui.verbose() { git.len() } else { SHORT_ID };
            names.push(format!("git:{}", &git[..shown]));
        }
        let names = Some(&names).filter(|names| !names.is_empty());
        let signature = signature.as_ref().map(told);
        let signature = self.with_tags(signature, names)?;
        let text = match (self.oneline, &signature) {
            (true, None) => line(ui, id, commit, names),
            (true, Some(told)) => {
                let line = line(ui, id, commit, names);
                format!("{}  [{told}]\n", line.trim_end())
            }
            (false, told) => header(ui, id, commit, names, told.as_deref()),
        };
        if self.graph.is_some() {
            return self.draw(visited, &text);
        }
        if self.printed > 1 && !self.oneline {
            writeln!(ui.out())?;
        }
        ui.out().write_all(text.as_bytes())?;
        if let Some(detail) = self.detail
            && commit.parents.len() < 2
        {
            writeln!(ui.out())?;
            self.changes(visited, paths, detail)?;
        }
        Ok(())
    }

    /// Adds who has signed the tags of a commit to what is said of its own signature.
    fn with_tags(
        &self,
        signature: Option<String>,
        names: Option<&Vec<String>>,
    ) -> Result<Option<String>, Failure> {
        let (Some(mut told), Some(checker)) = (signature, &self.signatures) else {
            return Ok(None);
        };
        let tags = names.into_iter().flatten();
        for name in tags.filter_map(|name| name.strip_prefix("tag ")) {
            let tag = checked(self.repo, checker, name)?;
            if tag.check.state != SignatureState::None {
                told += &format!("; tag {}: {}", clean(name), tag.words());
            }
        }
        Ok(Some(told))
    }

    /// The id that a commit has in Git, if it is shown.
    fn git_id(&self, visited: &VisitedCommit) -> Option<String> {
        #[cfg(feature = "git")]
        if let Some(git) = &self.git {
            return git
                .of(&visited.id, &visited.commit)
                .map(|id| id.to_string());
        }
        let _ = visited;
        None
    }

    fn changes(
        &self,
        visited: &VisitedCommit,
        paths: &[RepoPath],
        detail: Detail,
    ) -> Result<Vec<FileDiff>, Failure> {
        if visited.commit.parents.len() > 1 {
            return Ok(Vec::new());
        }
        let shown = CommitAt {
            id: &visited.id,
            commit: &visited.commit,
        };
        changes(self.context, self.repo, shown, &Paths::new(paths), detail)
    }

    /// Prints a commit beside its place in the graph.
    fn draw(&mut self, visited: &VisitedCommit, text: &str) -> Result<(), Failure> {
        let (ui, Some(graph)) = (&self.context.ui, &mut self.graph) else {
            return Ok(());
        };
        let rows = graph.add(&visited.id, &visited.followed);
        let mut sides = vec![rows.node];
        sides.extend(rows.links);
        let width = |side: &String| side.chars().count();
        let widest = sides.iter().chain([&rows.rest]).map(width).max();
        let widest = widest.unwrap_or(0) + 1;
        let mut lines = text.lines();
        let mut sides = sides.into_iter();
        // A line of its own between commits of several lines.
        let mut more = true;
        while more {
            let (side, line) = (sides.next(), lines.next());
            more = side.is_some() || line.is_some();
            if !more && self.oneline {
                break;
            }
            let (side, line) = (side.unwrap_or(rows.rest.clone()), line.unwrap_or_default());
            let row = format!("{side:<widest$}{line}");
            writeln!(ui.out(), "{}", row.trim_end())?;
        }
        Ok(())
    }

    /// Goes on to the parents of a commit that is not printed.
    pub fn pass(&mut self, visited: &VisitedCommit) -> Result<(), Failure> {
        if let Some(graph) = &mut self.graph {
            for row in graph.pass(&visited.id, &visited.followed) {
                writeln!(self.context.ui.out(), "{row}")?;
            }
        }
        Ok(())
    }
}
