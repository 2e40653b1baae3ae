//! What a merge did, also as a part of other commands: its conflicts, and the exit code.

use crate::prelude::*;
use crate::print::checkout::tell_refused;
use dmv_core::repo::{ConflictAt, MergeReport};

/// Prints what a merge or revert did. `done`: what it came to, in a word. Returns the exit code.
pub fn print_merge(context: &Context, report: &MergeReport, done: &str) -> Result<u8, Failure> {
    if context.ui.is_json() {
        context.ui.json(&merge_value(report))?;
    }
    tell_merge(context, report, done)
}

/// The word for what a merge came to.
pub fn merge_word(report: &MergeReport) -> &'static str {
    match (report.up_to_date, report.fast_forward) {
        (true, _) => "already up to date",
        (_, true) => "fast-forward",
        _ => "merged",
    }
}

/// What a merge did, in JSON.
pub fn merge_value(report: &MergeReport) -> Json {
    let renames = report.moves.iter();
    let renames =
        renames.map(|moved| object! { from: text_of(&moved.from), to: text_of(&moved.to) });
    object! {
        report.{commit, fast_forward, up_to_date, conflicts},
        conflicts_elsewhere: texts(report.unseen.iter().map(text_of)),
        renames: Json::List(renames.collect()),
        report.{files, bytes, removed},
        problems: report.refused,
        emptied_patterns: emptied_values(&report.emptied),
    }
}

/// Prints as text what a merge or revert did. Returns the exit code.
pub fn tell_merge(context: &Context, report: &MergeReport, done: &str) -> Result<u8, Failure> {
    let ui = &context.ui;
    ui.text(|out| {
        let on = match &report.head {
            Head::Branch(name) => clean(name),
            Head::Commit(_) => "no branch".to_owned(),
        };
        writeln!(out, "{done}: {on} is at {}", report.commit.short(SHORT_ID))?;
        for moved in &report.moves {
            writeln!(out, "  followed the rename {} -> {}", moved.from, moved.to)?;
        }
        if !report.up_to_date && report.files + report.removed > 0 {
            let written = written(report.files, report.bytes, report.removed);
            writeln!(out, "{written}")?;
        }
        print_conflicts(context, out, &report.conflicts)?;
        for path in &report.unseen {
            let path = escape(path);
            writeln!(
                out,
                "  {:<14}  {path} (absent from this repository)",
                "conflict"
            )?;
        }
        Ok(())
    })?;
    if report.moves_skipped {
        ui.warn("too many files were added or changed to find all renames; a file that one side renamed and the other changed may be a delete/modify conflict");
    }
    warn_of_coarse(context, &report.coarse);
    tell_refused(context, None, &report.refused);
    if !report.emptied.is_empty() {
        tell_emptied(context, &report.emptied, &context.repo()?.subset()?);
    }
    if let Some(first) = report.conflicts.first() {
        let path = path_argument(first.path.as_bytes());
        ui.note("hint: dmv conflicts");
        ui.note(hint!(
            "hint: dmv resolve {} --ours|--theirs|--base|--both|--with FILE",
            path
        ));
    }
    Ok(if report.conflicts.is_empty() && report.unseen.is_empty() {
        exit_for(&report.refused)
    } else {
        EXIT_CONFLICTS
    })
}

/// Warns about texts that had too many changes to merge them line by line.
fn warn_of_coarse(context: &Context, coarse: &[RepoPath]) {
    let Some(first) = coarse.first() else {
        return;
    };
    let more = match coarse.len() as u64 - 1 {
        0 => String::new(),
        n => format!(" (and {} more)", count(n, "file", "files")),
    };
    context.ui.warn(format_args!(
        "{first} has too many changes to merge it line by line{more}; the conflict keeps all versions"
    ));
}

/// Prints one line for each conflict, and their number.
pub fn print_conflicts(
    context: &Context,
    out: &mut impl Write,
    conflicts: &[ConflictAt],
) -> Result<(), Failure> {
    for at in conflicts {
        let word = format!("{:<14}", at.kind().word());
        let word = context.ui.paint(color(AnsiColor::Red), word);
        writeln!(out, "  {word}  {}", at.path)?;
    }
    if !conflicts.is_empty() {
        let n = count(conflicts.len() as u64, "conflict", "conflicts");
        writeln!(out, "{n}")?;
    }
    Ok(())
}
