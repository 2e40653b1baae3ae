//! What an undo would take back: the last change, what comes back with it, and the button. It stands apart from the
//! form that commits.

use super::parts::secret;
use crate::program::{ShownFailure, Stop};
use crate::site::Ask;
use crate::words::{clean, count, moment, number, shown, subject};
use dmv_core::diff::diff_trees;
use dmv_core::hash::{ObjectId, encode_hex};
use dmv_core::object::ObjectError;
use dmv_core::object::name::RepoPath;
use dmv_core::object::tree::TreeEntry;
use dmv_core::refs::{Change, Effect, Operation};
use dmv_core::repo::{Repo, RepoError, Step, Steps};
use maud::{Markup, html};
use serde_json::{Value, json};
use std::ops::ControlFlow;

/// Files that are named.
const MAX_NAMED: usize = 3;
/// Differences that are counted.
const MAX_COUNTED: usize = 10_000;

/// What an undo would take back.
pub struct LastChange {
    what: LastOperation,
}

enum LastOperation {
    /// There is nothing to undo.
    None,
    /// This operation, and what comes back.
    This(Box<Operation>, Vec<String>),
    /// The last one cannot be undone, in words.
    Refused(ShownFailure),
}

impl LastChange {
    /// Finds the operation that `dmv undo` would undo.
    pub fn read(ask: &Ask<'_>) -> Result<LastChange, Stop> {
        let repo = &*ask.repo;
        if repo.worktree_root().is_none() {
            let what = LastOperation::None;
            return Ok(LastChange { what });
        }
        let what = match repo.next_to_undo() {
            Ok(None) => LastOperation::None,
            Ok(Some(op)) => {
                let back = comes_back(repo, &op);
                LastOperation::This(Box::new(op), back)
            }
            Err(e @ RepoError::Undo(_)) => LastOperation::Refused(ask.site.program.explain(e)),
            Err(e) => return Err(e.into()),
        };
        Ok(LastChange { what })
    }

    /// Its values.
    pub fn values(&self) -> Value {
        match &self.what {
            LastOperation::This(op, back) => json!({
                "operation": encode_hex(&op.id),
                "command": op.command,
                "comes_back": back,
            }),
            LastOperation::None | LastOperation::Refused(_) => Value::Null,
        }
    }

    /// The card; nothing if there is nothing to undo.
    pub fn card(&self, ask: &Ask<'_>) -> Markup {
        let body = match &self.what {
            LastOperation::None => return html! {},
            LastOperation::Refused(told) => html! { p.quiet { (clean(&told.message)) } },
            LastOperation::This(op, back) => html! {
                p { code { (clean(&op.command)) } " " span.quiet { (moment(op.time.seconds, op.time.tz_minutes)) } }
                @for line in back { p.quiet { (clean(line)) } }
                @if !ask.site.read_only {
                    form.undo method="post" action="/undo" {
                        (secret(ask.site, "/"))
                        input type="hidden" name="operation" value=(encode_hex(&op.id));
                        button type="submit" { "Undo" }
                    }
                }
            },
        };
        html! {
            section.card.wide.last aria-labelledby="last" {
                h2 #last { "Undo the last change" }
                (body)
            }
        }
    }
}

/// What comes back if an operation is undone, in sentences.
fn comes_back(repo: &Repo, op: &Operation) -> Vec<String> {
    let mut out = Vec::new();
    let keys = || op.changes.iter();
    let of_worktree = |part: &str| {
        let is_one = |change: &&Change| {
            change.key.starts_with("worktree/") && change.key.ends_with(&format!("/{part}"))
        };
        keys().find(is_one)
    };
    let base = of_worktree("base").map(|change| [id_of(&change.old), id_of(&change.new)]);
    let is_kept = op.effect() == Effect::Kept;
    if let (true, Some([old, Some(new)])) = (is_kept, base) {
        let files = files_between(repo, old, Some(new));
        let (subject, verbs) = (
            subject_of(repo, new),
            if files == Some(1) {
                "stays as it is and counts"
            } else {
                "stay as they are and count"
            },
        );
        let files = said(files);
        out.push(format!(
            "The commit “{subject}” goes. Its {files} {verbs} as changed again."
        ));
    } else {
        out.extend(keys().filter_map(|change| branch_goes_back(repo, change)));
    }
    if let (false, Some([Some(old), new])) = (is_kept, base) {
        let files = files_between(repo, new, Some(old));
        let verb = if files == Some(1) {
            "changes"
        } else {
            "change"
        };
        let (subject, files) = (subject_of(repo, old), said(files));
        out.push(format!(
            "Your files become as in “{subject}” again: {files} {verb}."
        ));
    }
    if let Ok(Some(steps)) = repo.steps_of(op) {
        out.extend(overwritten(&steps));
    }
    if repo.changes_choices(op).unwrap_or(false) {
        out.push("The conflict is open again.".to_owned());
    }
    out
}

fn id_of(value: &Option<Vec<u8>>) -> Option<ObjectId> {
    let bytes = value.as_deref()?.try_into().ok()?;
    Some(ObjectId::from_bytes(bytes))
}

fn subject_of(repo: &Repo, id: ObjectId) -> String {
    let commit = repo.read_commit(&id);
    commit.map_or_else(|_| id.short(8), |commit| subject(&commit.message))
}

fn branch_goes_back(repo: &Repo, change: &Change) -> Option<String> {
    let (kind, name) = change.key.split_once('/')?;
    let what = match kind {
        "branch" => "The branch",
        "tag" => "The tag",
        "stash" => "A stash",
        _ => return None,
    };
    let name = if kind == "stash" { "" } else { name };
    let named = format!("{what} {name}");
    let named = named.trim_end();
    match (id_of(&change.old), id_of(&change.new)) {
        (Some(old), Some(_)) => Some(format!("{named} goes back to “{}”.", subject_of(repo, old))),
        (Some(_), None) => Some(format!("{named} comes back.")),
        (None, Some(_)) => Some(format!("{named} goes.")),
        (None, None) => None,
    }
}

/// What a command has overwritten or removed, and what it has put there.
fn overwritten(steps: &Steps) -> Vec<String> {
    let mut found = DifferingPaths::default();
    for (path, step) in steps.iter() {
        match step {
            Step::Overwrote {
                before: Some(_), ..
            } => found.back.push(path.clone()),
            Step::Overwrote { before: None, .. } => found.gone.push(path.clone()),
            _ => {}
        }
    }
    let mut out = Vec::new();
    if !found.back.is_empty() {
        let what = if found.back.len() == 1 {
            "What was at this path comes back"
        } else {
            "What was at these paths comes back"
        };
        out.push(format!("{what}: {}.", some_of(&found.back)));
    }
    if !found.gone.is_empty() {
        out.push(format!("It removes again: {}.", some_of(&found.gone)));
    }
    out
}

fn some_of(paths: &[RepoPath]) -> String {
    let named: Vec<String> = paths.iter().take(MAX_NAMED).map(shown).collect();
    match paths.len() - named.len() {
        0 => named.join(", "),
        more => format!("{} and {} more", named.join(", "), number(more as u64)),
    }
}

/// The paths that differ between two trees: those that the second one has, and those that only the first one has.
#[derive(Default)]
struct DifferingPaths {
    back: Vec<RepoPath>,
    gone: Vec<RepoPath>,
}

impl DifferingPaths {
    fn len(&self) -> usize {
        self.back.len() + self.gone.len()
    }
}

/// Finds them, up to a limit. `None`: something of them is not stored here.
fn differing(repo: &Repo, old: Option<ObjectId>, new: Option<ObjectId>) -> Option<DifferingPaths> {
    let mut out = DifferingPaths::default();
    let mut note = |path: &RepoPath, _: Option<&TreeEntry>, new: Option<&TreeEntry>| {
        let list = if new.is_some() {
            &mut out.back
        } else {
            &mut out.gone
        };
        list.push(path.clone());
        Ok::<_, ObjectError>(if out.len() < MAX_COUNTED {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        })
    };
    let found = diff_trees(repo.objects(), old, new, &mut note);
    found.is_ok().then_some(out)
}

fn files_between(repo: &Repo, old: Option<ObjectId>, new: Option<ObjectId>) -> Option<usize> {
    let tree = |id: Option<ObjectId>| match id {
        Some(id) => repo.read_commit(&id).map(|commit| Some(commit.tree)),
        None => Ok(None),
    };
    let (old, new) = (tree(old).ok()?, tree(new).ok()?);
    differing(repo, old, new).map(|found| found.len())
}

fn said(files: Option<usize>) -> String {
    match files {
        Some(n) if n < MAX_COUNTED => count(n as u64, "file", "files"),
        Some(n) => format!("{} files or more", number(n as u64)),
        None => "files".to_owned(),
    }
}
