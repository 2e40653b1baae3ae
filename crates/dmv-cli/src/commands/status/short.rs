//! The short form of a status: one line for each path, with Git's letters.

use super::Overview;
use crate::prelude::*;
use crate::print::folded_directories::Line;
use crate::print::worktree_state::origin;
use dmv_core::repo::ChangeKind;

/// Prints the lines; the branch goes first if it is wanted.
pub fn print(
    context: &Context,
    found: &Overview,
    lines: &[Line<'_>],
    with_branch: bool,
) -> Result<(), Failure> {
    let (ui, report) = (&context.ui, &found.report);
    let mut out = ui.out();
    if with_branch {
        writeln!(out, "## {}", branch(found))?;
    }
    let letters = |shade: AnsiColor, letters: &str| ui.paint(color(shade), letters);
    for path in &report.conflicts {
        writeln!(out, "{} {}", letters(AnsiColor::Red, "UU"), escape(path))?;
    }
    for line in lines {
        let change = match line {
            // Only new ones are folded in this form.
            Line::Directory(folded) => {
                let dir = escape(folded.dir);
                writeln!(out, "{} {dir}/", letters(AnsiColor::Green, "??"))?;
                continue;
            }
            Line::Change(change) => change,
        };
        let path = escape(&change.path);
        if let Some(renamed) = origin(&found.renames, change) {
            let from = escape(&renamed.from);
            writeln!(out, "{} {from} -> {path}", letters(AnsiColor::Cyan, " R"))?;
            continue;
        }
        let code = match change.kind {
            ChangeKind::Added => letters(AnsiColor::Green, "??"),
            ChangeKind::Modified => letters(AnsiColor::Yellow, " M"),
            ChangeKind::Deleted => letters(AnsiColor::Red, " D"),
            ChangeKind::Type => letters(AnsiColor::Magenta, " T"),
        };
        writeln!(out, "{code} {path}")?;
    }
    for at in &report.untracking {
        writeln!(
            out,
            "{} {}",
            letters(AnsiColor::Red, "D "),
            escape(&at.path)
        )?;
    }
    let unwritten = report.unwritten.iter().map(|path| ("!W", path.as_bytes()));
    let outside = report.outside.iter().map(|path| ("!O", &path[..]));
    for (code, path) in unwritten.chain(outside) {
        writeln!(out, "{} {}", letters(AnsiColor::Red, code), escape(path))?;
    }
    Ok(())
}

/// The branch, and how it stands to its remote one.
fn branch(found: &Overview) -> String {
    let mut text = match (&found.report.head, found.report.commit) {
        (Head::Branch(name), Some(_)) => name.clone(),
        (Head::Branch(name), None) => format!("No commits yet on {name}"),
        (Head::Commit(_), _) => "HEAD (no branch)".to_owned(),
    };
    if let Some(upstream) = &found.upstream {
        text.push_str(&format!("...{}", upstream.name));
        let parts = [("ahead", upstream.ahead), ("behind", upstream.behind)];
        let parts = parts.iter().filter(|(_, n)| *n > 0);
        let parts: Vec<String> = parts.map(|(word, n)| format!("{word} {n}")).collect();
        if !parts.is_empty() {
            text.push_str(&format!(" [{}]", parts.join(", ")));
        }
    }
    text
}
