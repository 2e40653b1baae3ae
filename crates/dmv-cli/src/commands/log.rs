//! `dmv log`

use crate::context::Context;
use crate::error::{EXIT_OK, Failure};
use crate::format::json::CommitValue;
use crate::format::text::{self, SHORT_ID, clean, raw_person};
use crate::graph::Graph;
use crate::ui::Ui;
use anstyle::{AnsiColor, Style};
use dmv_core::hash::ObjectId;
use dmv_core::history::paths::{Moved, PathLog, Visited};
use dmv_core::object::commit::Commit;
use dmv_core::object::name::RepoPath;
use dmv_core::repo::{Head, RefKind, Repo, RepoError};
use std::collections::HashMap;
use std::ffi::OsString;
use std::io::Write;

/// Show history, newest first
///
/// With PATH only commits that changed something there: of a merge that took one side as it was,
/// only that side is looked at.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv log -n 5\n  dmv log --graph main\n  dmv log main -- media/scene4\n  \
                  dmv log --follow -- media/film.mov"
)]
pub struct Args {
    /// Where to begin; what the worktree is on by default
    #[arg(value_name = "REV")]
    revision: Option<String>,
    /// At most so many commits
    #[arg(short = 'n', long = "max-count", value_name = "N")]
    max_count: Option<u64>,
    /// Draw how the commits hang together
    #[arg(long)]
    graph: bool,
    /// Follow one file to where it was before it was moved
    #[arg(long, requires = "paths")]
    follow: bool,
    /// Only commits whose author's name or address contains TEXT
    #[arg(long, value_name = "TEXT")]
    author: Option<String>,
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
    if args.follow && paths.len() != 1 {
        return Err(Failure::usage("--follow takes one file"));
    }
    let mut printer = Printer {
        context,
        names: match context.globals.json {
            true => HashMap::new(),
            false => names(&repo)?,
        },
        graph: (args.graph && !context.globals.json).then(Graph::default),
        is_first: true,
    };
    let mut left = args.max_count.unwrap_or(u64::MAX);
    let mut log = PathLog::new(repo.objects(), &[start], &paths)?;
    let mut moved = |parent: &ObjectId, child: &ObjectId, path: &RepoPath| {
        repo.path_before(parent, child, path, &context.job)
    };
    while left > 0 {
        let moved: Option<&mut Moved<'_, RepoError>> = match args.follow {
            true => Some(&mut moved),
            false => None,
        };
        let Some(visited) = log.advance(moved)? else {
            break;
        };
        let by = |text: &String| raw_person(&visited.commit.author).contains(text);
        if visited.shown && args.author.as_ref().is_none_or(by) {
            left -= 1;
            printer.print(&visited)?;
        } else {
            printer.pass(&visited)?;
        }
    }
    if !log.boundary().is_empty() && left > 0 {
        let text = "note: older history is not in this repository";
        context.ui.note(text);
    }
    Ok(EXIT_OK)
}

/// Prints commits one after the other.
struct Printer<'a> {
    context: &'a Context,
    names: HashMap<ObjectId, Vec<String>>,
    graph: Option<Graph>,
    is_first: bool,
}

impl Printer<'_> {
    fn print(&mut self, visited: &Visited) -> Result<(), Failure> {
        let (id, commit) = (&visited.id, &visited.commit);
        let ui = &self.context.ui;
        if self.context.globals.json {
            return ui.json(&CommitValue::new(id, commit));
        }
        let text = header(ui, id, commit, self.names.get(id));
        let Some(graph) = &mut self.graph else {
            if !std::mem::take(&mut self.is_first) {
                writeln!(ui.out())?;
            }
            return Ok(ui.out().write_all(text.as_bytes())?);
        };
        let rows = graph.add(id, &visited.followed);
        let mut sides = vec![rows.node];
        sides.extend(rows.links);
        let width = |side: &String| side.chars().count();
        let widest = sides.iter().chain([&rows.rest]).map(width).max();
        let widest = widest.unwrap_or(0) + 1;
        let mut lines = text.lines();
        let mut sides = sides.into_iter();
        // A line of its own between commits.
        let mut more = true;
        while more {
            let (side, line) = (sides.next(), lines.next());
            more = side.is_some() || line.is_some();
            let (side, line) = (side.unwrap_or(rows.rest.clone()), line.unwrap_or_default());
            let row = format!("{side:<widest$}{line}");
            writeln!(ui.out(), "{}", row.trim_end())?;
        }
        Ok(())
    }

    /// Goes on to the parents of a commit that is not printed.
    fn pass(&mut self, visited: &Visited) -> Result<(), Failure> {
        if let Some(graph) = &mut self.graph {
            for row in graph.pass(&visited.id, &visited.followed) {
                writeln!(self.context.ui.out(), "{row}")?;
            }
        }
        Ok(())
    }
}

/// A commit's id, author, time and message, in lines.
pub fn header(ui: &Ui, id: &ObjectId, commit: &Commit, names: Option<&Vec<String>>) -> String {
    let shown = match ui.verbose() {
        true => id.to_string(),
        false => id.short(SHORT_ID),
    };
    let yellow = Style::new().fg_color(Some(AnsiColor::Yellow.into()));
    let mut out = ui.paint(yellow, format_args!("commit {shown}"));
    if let Some(names) = names {
        out += &format!(" ({})", clean(&names.join(", ")));
    }
    out.push('\n');
    if commit.parents.len() > 1 {
        let parents: Vec<String> = commit.parents.iter().map(|p| p.short(SHORT_ID)).collect();
        out += &format!("Merge:  {}\n", parents.join(" "));
    }
    let author = &commit.author;
    out += &format!("Author: {}\n", text::person(author));
    let when = text::time(author.seconds, author.tz_minutes);
    out += &format!("Date:   {when}\n\n");
    for line in text::lines(&commit.message).lines() {
        out += &format!("    {line}\n");
    }
    out
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
