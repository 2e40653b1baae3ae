//! Paths that differ, without how: names, and names with Git's letters.

use super::{Side, change_word};
use crate::context::Context;
use crate::failure::Failure;
use crate::format::json;
use dmv_core::object::name::{RepoPath, escape};
use dmv_core::object::tree::Kind;
use dmv_core::repo::Rename;
use std::io::Write;

/// Prints one path that differs, with what happened to it if `with_status`. Reads no content.
pub fn print_name(
    context: &Context,
    path: &RepoPath,
    renamed: Option<&Rename>,
    sides: [Side<'_>; 2],
    with_status: bool,
) -> Result<(), Failure> {
    let [old, new] = &sides;
    let change = change_word(renamed, old, new);
    if context.ui.is_json() {
        return context
            .ui
            .json(&json::change(path.as_bytes(), change, renamed));
    }
    let mut out = context.ui.out();
    let shown = escape(path.as_bytes());
    match (with_status, renamed) {
        (false, _) => writeln!(out, "{shown}")?,
        (true, Some(renamed)) => {
            let (percent, from) = (renamed.percent, escape(&renamed.from));
            writeln!(out, "R{percent:03}\t{from}\t{shown}")?;
        }
        (true, None) => {
            let letter = match change {
                _ if new.kind() == Some(Kind::Conflict) => 'U',
                "added" => 'A',
                "deleted" => 'D',
                "type" => 'T',
                _ => 'M',
            };
            writeln!(out, "{letter}\t{shown}")?;
        }
    }
    Ok(())
}
