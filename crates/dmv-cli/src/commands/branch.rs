//! `dmv branch`

use crate::candidates;
use crate::context::Context;
use crate::failure::{EXIT_OK, Failure};
use crate::format::text::{SHORT_ID, clean};
use anstyle::{AnsiColor, Style};
use dmv_core::hash::ObjectId;
use dmv_core::repo::{RefInfo, RefKind, Repo, RepoError};
use dmv_core::subset::Subset;
use serde::Serialize;
use std::io::Write;

/// List, create, rename or delete branches
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv branch\n  dmv branch regrade @~3\n  dmv branch -d regrade\n  \
                  dmv branch -m draft final\n  dmv branch -a"
)]
pub struct Args {
    /// Create the branch NAME
    #[arg(value_name = "NAME", conflicts_with_all = ["list", "all", "remotes"])]
    name: Option<String>,
    /// List remote branches, too
    #[arg(short, long)]
    all: bool,
    /// List only remote branches
    #[arg(short, long)]
    remotes: bool,
    /// List only branches whose names match PATTERN
    #[arg(short, long, value_name = "PATTERN", num_args = 0..=1, default_missing_value = "**", hide = true)]
    list: Option<String>,
    /// Start the branch at this commit (default: @)
    #[arg(value_name = "REV", requires = "name", add = candidates::revision())]
    revision: Option<String>,
    /// Delete the branch NAME; its commits stay, and 'dmv undo' restores it
    #[arg(short, long, value_name = "NAME", conflicts_with_all = ["name", "rename"], add = candidates::branch())]
    delete: Option<String>,
    /// Rename the branch OLD to NEW
    #[arg(
        short = 'm',
        long = "move",
        num_args = 2,
        value_names = ["OLD", "NEW"],
        conflicts_with = "name",
        add = candidates::branch()
    )]
    rename: Option<Vec<String>>,
}

#[derive(Serialize)]
struct Record<'a> {
    name: &'a str,
    commit: Option<String>,
    current: bool,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let kind = RefKind::Branch;
    if let Some([old, new]) = args.rename.as_deref() {
        repo.rename_branch(old, new, context.request()?)?;
        let all = repo.list_refs(kind)?;
        let info = all.iter().find(|info| info.name == *new);
        if let (true, Some(info)) = (context.globals.json, info) {
            record(context, info)?;
        }
        say(context, &format!("renamed branch {old} to {new}"))?;
    } else if let Some(name) = &args.delete {
        delete(context, &repo, kind, name)?;
    } else if let Some(name) = &args.name {
        create(context, &repo, kind, name, args.revision.as_deref())?;
    } else {
        let pattern = args.list.as_deref();
        if !args.remotes {
            list(
                context,
                &repo,
                repo.list_refs(kind)?,
                pattern,
                AnsiColor::Green,
            )?;
        }
        if args.all || args.remotes {
            list(
                context,
                &repo,
                remote_branches(&repo)?,
                pattern,
                AnsiColor::Red,
            )?;
        }
    }
    Ok(EXIT_OK)
}

/// The branches of remotes, as they were when they were last fetched.
fn remote_branches(repo: &Repo) -> Result<Vec<RefInfo>, Failure> {
    let keys = repo
        .refs()
        .with_prefix("remote/")
        .map_err(RepoError::from)?;
    let names = keys
        .iter()
        .filter_map(|(key, _)| key.strip_prefix("remote/"));
    let info = |name: &str| {
        Ok(RefInfo {
            name: name.to_owned(),
            commit: repo.ref_at(&format!("remote/{name}"))?,
            current: false,
        })
    };
    names.map(info).collect()
}

/// Lists branches or tags in a colour, those whose names match a pattern if there is one.
pub fn list(
    context: &Context,
    repo: &Repo,
    mut infos: Vec<RefInfo>,
    pattern: Option<&str>,
    shade: AnsiColor,
) -> Result<(), Failure> {
    if let Some(pattern) = pattern {
        let wanted = Subset::new([pattern.as_bytes()]);
        let wanted = wanted.map_err(|e| Failure::usage(e.to_string()))?;
        infos.retain(|info| wanted.includes(info.name.as_bytes(), false));
    }
    if context.globals.json {
        return infos.iter().try_for_each(|info| record(context, info));
    }
    let width = infos.iter().map(|info| info.name.chars().count()).max();
    let width = width.unwrap_or(0).min(40);
    for info in &infos {
        let (id, subject) = match &info.commit {
            Some(id) => (id.short(SHORT_ID), subject(repo, id)),
            None => ("no commits yet".to_owned(), String::new()),
        };
        let name = format!("{:<width$}", clean(&info.name));
        let style = Style::new().fg_color(Some(shade.into()));
        let (mark, style) = if info.current {
            ("*", style.bold())
        } else {
            (" ", style)
        };
        let name = context.ui.paint(style, name);
        let line = format!("{mark} {name}  {id}  {subject}");
        writeln!(context.ui.out(), "{}", line.trim_end())?;
    }
    Ok(())
}

/// The first line of a commit's message; nothing when it is not here to be read.
fn subject(repo: &Repo, id: &ObjectId) -> String {
    let commit = repo.read_commit(id);
    let message = commit.map(|commit| commit.message).unwrap_or_default();
    clean(message.lines().next().unwrap_or_default())
}

/// Makes a branch or tag.
pub fn create(
    context: &Context,
    repo: &Repo,
    kind: RefKind,
    name: &str,
    revision: Option<&str>,
) -> Result<(), Failure> {
    let target = repo.resolve(revision.unwrap_or("@"))?;
    repo.create_ref(kind, name, target, context.request()?)?;
    done(context, name, target)?;
    let (word, id) = (kind.word(), target.short(SHORT_ID));
    say(context, &format!("created {word} {name} at {id}"))
}

/// Deletes a branch or tag.
pub fn delete(context: &Context, repo: &Repo, kind: RefKind, name: &str) -> Result<(), Failure> {
    let target = repo.delete_ref(kind, name, context.request()?)?;
    done(context, name, target)?;
    let (word, id) = (kind.word(), target.short(SHORT_ID));
    say(
        context,
        &format!("deleted {word} {name}, which was at {id}; to restore it: dmv undo"),
    )
}

fn done(context: &Context, name: &str, target: ObjectId) -> Result<(), Failure> {
    let info = RefInfo {
        name: name.to_owned(),
        commit: Some(target),
        current: false,
    };
    if context.globals.json {
        record(context, &info)
    } else {
        Ok(())
    }
}

fn record(context: &Context, info: &RefInfo) -> Result<(), Failure> {
    context.ui.json(&Record {
        name: &info.name,
        commit: info.commit.map(|id| id.to_string()),
        current: info.current,
    })
}

fn say(context: &Context, text: &str) -> Result<(), Failure> {
    if !context.globals.json && !context.ui.quiet() {
        writeln!(context.ui.out(), "{}", clean(text))?;
    }
    Ok(())
}
