//! Branches and tags: their list, and what `branch` and `tag` do to one.

use crate::prelude::*;
use dmv_core::repo::{RefInfo, RefKind};
use dmv_core::subset::Subset;

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
    if context.ui.is_json() {
        return infos
            .iter()
            .try_for_each(|info| print_listed(context, repo, info));
    }
    let width = infos.iter().map(|info| info.name.chars().count()).max();
    let width = width.unwrap_or(0).min(40);
    for info in &infos {
        let (id, subject) = match &info.commit {
            // The subject is the one of an annotated tag, not of its commit.
            Some(id) => (repo.tagged_by(*id)?.short(SHORT_ID), subject_of(repo, id)),
            None => ("no commits yet".to_owned(), String::new()),
        };
        let name = format!("{:<width$}", clean(&info.name));
        let style = color(shade);
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

/// Returns the first line of a commit's message; nothing if it cannot be read.
fn subject_of(repo: &Repo, id: &ObjectId) -> String {
    let commit = repo.read_commit(id);
    let message = commit.map(|commit| commit.message).unwrap_or_default();
    clean(subject(&message))
}

/// Prints a branch or tag in JSON, an annotated tag with its message.
fn print_listed(context: &Context, repo: &Repo, info: &RefInfo) -> Result<(), Failure> {
    let (mut commit, mut message) = (info.commit, None);
    if let Some(id) = info.commit {
        commit = Some(repo.tagged_by(id)?);
        message = (commit != info.commit)
            .then(|| repo.read_commit(&id))
            .transpose()?;
    }
    let message = message.map(|tag| tag.message);
    context.ui.report(
        || object! { info.{name}, commit: commit, info.{current}, message?: message },
        |_| Ok(()),
    )
}

/// Creates a branch or tag.
pub fn create(
    context: &Context,
    repo: &Repo,
    kind: RefKind,
    name: &str,
    revision: Option<&str>,
) -> Result<(), Failure> {
    let target = repo.resolve(revision.unwrap_or("@"))?;
    repo.create_ref(kind, name, target, context.request()?)?;
    print_created(context, kind, name, target)
}

/// Says that a branch or tag was created.
pub fn print_created(
    context: &Context,
    kind: RefKind,
    name: &str,
    target: ObjectId,
) -> Result<(), Failure> {
    let (word, id) = (kind.word(), target.short(SHORT_ID));
    let done = format!("created {word} {name} at {id}");
    print_ref(context, &at(name, target), &done)
}

/// Deletes a branch or tag.
pub fn delete(context: &Context, repo: &Repo, kind: RefKind, name: &str) -> Result<(), Failure> {
    let target = repo.delete_ref(kind, name, context.request()?)?;
    let (word, id) = (kind.word(), target.short(SHORT_ID));
    let done = format!("deleted {word} {name}, which was at {id}; to restore it: dmv undo");
    print_ref(context, &at(name, target), &done)
}

fn at(name: &str, target: ObjectId) -> RefInfo {
    RefInfo {
        name: name.to_owned(),
        commit: Some(target),
        current: false,
    }
}

/// Prints a branch or tag in JSON, or what was done to it as text.
pub fn print_ref(context: &Context, info: &RefInfo, done: &str) -> Result<(), Failure> {
    context.ui.report(
        || object! { info.{name, commit, current} },
        |out| Ok(writeln!(out, "{}", clean(done))?),
    )
}
