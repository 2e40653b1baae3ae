//! How a commit is shown at the top of its entry: id, names, author, time and message.

use crate::context::now;
use crate::date;
use crate::failure::Failure;
use crate::format::text;
use crate::format::text::{SHORT_ID, clean};
use crate::ui::Ui;
use anstyle::{AnsiColor, Style};
use dmv_core::hash::ObjectId;
use dmv_core::object::commit::Commit;
use dmv_core::repo::{Head, RefKind, Repo};
use std::collections::HashMap;

/// A commit's id, author, time and message, in lines. `signature` is what is said of its signature, if
/// anything.
pub fn header(
    ui: &Ui,
    id: &ObjectId,
    commit: &Commit,
    names: Option<&Vec<String>>,
    signature: Option<&str>,
) -> String {
    let mut out = title(ui, "commit ", id, names) + "\n";
    if commit.parents.len() > 1 {
        let parents: Vec<String> = commit.parents.iter().map(|p| p.short(SHORT_ID)).collect();
        out += &format!("Merge:  {}\n", parents.join(" "));
    }
    let author = &commit.author;
    out += &format!("Author: {}\n", text::person(author));
    let when = text::time(author.seconds, author.tz_minutes);
    let ago = if ui.is_terminal() {
        format!(" ({})", date::ago(author.seconds, now().seconds))
    } else {
        String::new()
    };
    out += &format!("Date:   {when}{ago}\n");
    if let Some(signature) = signature {
        out += &format!("Signed: {signature}\n");
    }
    out.push('\n');
    for line in text::lines(&commit.message).lines() {
        out += &format!("    {line}\n");
    }
    out
}

/// A commit's id, names and the first line of its message.
pub fn line(ui: &Ui, id: &ObjectId, commit: &Commit, names: Option<&Vec<String>>) -> String {
    let subject = commit.message.lines().next().unwrap_or_default();
    format!("{} {}\n", title(ui, "", id, names), clean(subject))
}

/// What the worktree is on: `on branch main, 3f2a90c1b7d4`.
pub fn on(ui: &Ui, head: &Head, commit: Option<ObjectId>) -> String {
    let id = commit.map(|id| id.short(SHORT_ID));
    let id = id.unwrap_or_else(|| "no commits yet".to_owned());
    match head {
        Head::Branch(name) => format!("on branch {}, {id}", ui.branch(name)),
        Head::Commit(_) => format!("on commit {id}, on no branch"),
    }
}

/// A commit's id and names.
fn title(ui: &Ui, word: &str, id: &ObjectId, names: Option<&Vec<String>>) -> String {
    let shown = if ui.verbose() {
        id.to_string()
    } else {
        id.short(SHORT_ID)
    };
    let yellow = Style::new().fg_color(Some(AnsiColor::Yellow.into()));
    let mut out = ui.paint(yellow, format_args!("{word}{shown}"));
    if let Some(names) = names {
        let names: Vec<String> = names.iter().map(|name| painted(ui, name)).collect();
        out += &format!(" ({})", names.join(", "));
    }
    out
}

/// A name of a commit as it is shown: branches are green, tags yellow.
fn painted(ui: &Ui, name: &str) -> String {
    if let Some(tag) = name.strip_prefix("tag ") {
        return format!("tag {}", ui.tag(tag));
    }
    match name.strip_prefix("@ = ") {
        Some(branch) => format!("@ = {}", ui.branch(branch)),
        None => ui.branch(name),
    }
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
                out.entry(repo.tagged_by(id)?)
                    .or_default()
                    .push(format!("{mark}{}", info.name));
            }
        }
    }
    Ok(out)
}
