//! `dmv log`

use crate::context::Context;
use crate::error::{EXIT_OK, Failure};
use crate::format::json::CommitValue;
use crate::format::text::{self, SHORT_ID, clean};
use crate::ui::Ui;
use anstyle::{AnsiColor, Style};
use dmv_core::hash::ObjectId;
use dmv_core::history::Ancestors;
use dmv_core::object::ObjectError;
use dmv_core::object::commit::Commit;
use dmv_core::object::name::RepoPath;
use dmv_core::object::tree::{TreeEntry, lookup_path};
use dmv_core::repo::{Head, RefKind, Repo, RepoError};
use std::collections::HashMap;
use std::ffi::OsString;
use std::io::Write;

/// Show history, newest first
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv log -n 5\n  dmv log main -- media/scene4")]
pub struct Args {
    /// Where to begin; what the worktree is on by default
    #[arg(value_name = "REV")]
    revision: Option<String>,
    /// At most so many commits
    #[arg(short = 'n', long = "max-count", value_name = "N")]
    max_count: Option<u64>,
    /// Only commits that changed these files or directories
    #[arg(last = true, value_name = "PATH")]
    paths: Vec<OsString>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let start = match &args.revision {
        Some(revision) => context.revision(&repo, "log", revision)?,
        None => match repo.head_commit()? {
            Some(id) => id,
            None => {
                context.ui.note("no commit yet");
                return Ok(EXIT_OK);
            }
        },
    };
    let mut paths = Vec::new();
    for path in context.paths(&repo, &args.paths)? {
        paths.push(Repo::parse_path(&path)?);
    }
    let names = match context.globals.json {
        true => HashMap::new(),
        false => names(&repo)?,
    };
    let mut left = args.max_count.unwrap_or(u64::MAX);
    let mut first = true;
    let mut walk = Ancestors::new(repo.objects(), [start]);
    while left > 0 {
        let Some(next) = walk.next() else {
            break;
        };
        let (id, commit) = next?;
        if !paths.is_empty() && !touches(&repo, &commit, &paths)? {
            continue;
        }
        left -= 1;
        if context.globals.json {
            context.ui.json(&CommitValue::new(&id, &commit))?;
            continue;
        }
        if !first {
            writeln!(context.ui.out())?;
        }
        first = false;
        header(&context.ui, &id, &commit, names.get(&id))?;
    }
    if !walk.boundary().is_empty() && left > 0 {
        let text = "note: older history is not in this repository";
        context.ui.note(text);
    }
    Ok(EXIT_OK)
}

/// Prints a commit's id, author, time and message.
pub fn header(
    ui: &Ui,
    id: &ObjectId,
    commit: &Commit,
    names: Option<&Vec<String>>,
) -> Result<(), Failure> {
    let shown = match ui.verbose() {
        true => id.to_string(),
        false => id.short(SHORT_ID),
    };
    let yellow = Style::new().fg_color(Some(AnsiColor::Yellow.into()));
    let mut first = ui.paint(yellow, format_args!("commit {shown}"));
    if let Some(names) = names {
        first = format!("{first} ({})", clean(&names.join(", ")));
    }
    let mut out = ui.out();
    writeln!(out, "{first}")?;
    if commit.parents.len() > 1 {
        let parents: Vec<String> = commit.parents.iter().map(|p| p.short(SHORT_ID)).collect();
        writeln!(out, "Merge:  {}", parents.join(" "))?;
    }
    let author = &commit.author;
    writeln!(out, "Author: {}", text::person(author))?;
    writeln!(
        out,
        "Date:   {}",
        text::time(author.seconds, author.tz_minutes)
    )?;
    writeln!(out)?;
    for line in text::lines(&commit.message).lines() {
        writeln!(out, "    {line}")?;
    }
    Ok(())
}

/// The names that commits have: branches, tags, and what the worktree is on.
pub fn names(repo: &Repo) -> Result<HashMap<ObjectId, Vec<String>>, Failure> {
    let mut out: HashMap<ObjectId, Vec<String>> = HashMap::new();
    if let Head::Commit(id) = repo.head()? {
        out.entry(id).or_default().push("@".to_owned());
    }
    for (kind, prefix) in [(RefKind::Branch, ""), (RefKind::Tag, "tag ")] {
        for info in repo.list_refs(kind)? {
            let mark = if info.current { "@ = " } else { prefix };
            if let Some(id) = info.commit {
                out.entry(id)
                    .or_default()
                    .push(format!("{mark}{}", info.name));
            }
        }
    }
    Ok(out)
}

/// Whether a commit has something at one of the paths that none of its parents has.
fn touches(repo: &Repo, commit: &Commit, paths: &[RepoPath]) -> Result<bool, Failure> {
    let parents = commit
        .parents
        .iter()
        .map(|id| match repo.read_commit(id) {
            Ok(parent) => Ok(Some(parent.tree)),
            // Where history ends, everything is as if it had always been there.
            Err(RepoError::Absent { .. }) => Ok(None),
            Err(e) => Err(Failure::from(e)),
        })
        .collect::<Result<Vec<_>, _>>()?;
    if parents.contains(&Some(commit.tree)) {
        return Ok(false);
    }
    let at = |tree: &ObjectId, path: &RepoPath| -> Result<Option<TreeEntry>, ObjectError> {
        lookup_path(repo.objects(), tree, path)
    };
    for path in paths {
        if path.is_root() {
            return Ok(true);
        }
        let here = at(&commit.tree, path)?;
        let mut differs = !parents.is_empty() || here.is_some();
        for parent in &parents {
            let same = match parent {
                Some(tree) => at(tree, path)? == here,
                None => true,
            };
            differs &= !same;
        }
        if differs {
            return Ok(true);
        }
    }
    Ok(false)
}
