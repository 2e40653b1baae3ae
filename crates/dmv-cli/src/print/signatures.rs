//! Signatures that commits had, and that those made from them do not have.

use crate::prelude::*;

/// How many commits are named.
const NAMED: usize = 4;

/// Says whose signatures are gone. Only their signers can sign again.
pub fn tell_lost(context: &Context, commits: &[ObjectId]) {
    if commits.is_empty() {
        return;
    }
    let (named, more) = commits.split_at(commits.len().min(NAMED));
    let mut names: Vec<String> = named.iter().map(|id| id.short(SHORT_ID)).collect();
    if !more.is_empty() {
        names.push(format!("{} more", more.len()));
    }
    let names = names.join(", ");
    context.ui.note(match commits.len() {
        1 => format!("note: {names} was signed; the commit made from it is not signed by that key"),
        _ => format!("note: the commits made from these are not signed by their keys: {names}"),
    });
}
