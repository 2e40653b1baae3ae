//! `dmv recover`

#[cfg(feature = "store")]
mod bucket;

use crate::damage;
use crate::damage::{HEAL, affected_values, lost_pack_values};
use crate::ownership::trust;
use crate::prelude::*;
use dmv_core::repo::{RecoverReport, VerifyDepth, VerifyReport, discover_lost_trusting, recover};
use std::path::Path;

/// Rebuild damaged or lost databases from the packs
///
/// A copy of the former database is kept. Packs stay as they are. Other commands may run meanwhile.
///
/// --at REMOTE is for a bucket whose file 'root' is lost or damaged. It lists the files that are left there, and
/// shows which states of the branches and tags it finds in them. It changes nothing. With --use STATE, it writes
/// a new root with this state, if everything is there that this state needs.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv recover && dmv verify\n  dmv recover --at studio")]
pub struct Args {
    /// Show what is left of the bucket of this remote, whose root is lost
    #[cfg(feature = "store")]
    #[arg(long, value_name = "REMOTE", add = crate::candidates::remote())]
    at: Option<String>,
    /// Restore this state of the bucket
    #[cfg(feature = "store")]
    #[arg(long = "use", value_name = "STATE", requires = "at")]
    chosen: Option<String>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    #[cfg(feature = "store")]
    if let Some(at) = &args.at {
        return bucket::run(context, at, args.chosen.as_deref());
    }
    #[cfg(not(feature = "store"))]
    let _ = args;
    let place = discover_lost_trusting(Path::new("."), &trust(false))?;
    let watch = context.watch("reading packs");
    let report = recover(&place, &context.job)?;
    drop(watch);
    let found = look_for_losses(context);
    if context.ui.is_json() {
        context.ui.json(&document(&report, found.as_ref()))?;
    } else {
        print(context, &report)?;
        tell_losses(context, found.as_ref())?;
    }
    Ok(EXIT_OK)
}

/// Returns what the recovered history lacks, without reading content. `None` if it cannot be found out.
fn look_for_losses(context: &Context) -> Option<VerifyReport> {
    let repo = context.repo_as_it_is().ok()?;
    let _watch = context.watch("verifying");
    repo.verify(VerifyDepth::Quick, &context.job).ok()
}

/// Says what was not recovered, and what may bring it back.
fn tell_losses(context: &Context, found: Option<&VerifyReport>) -> Result<(), Failure> {
    match found {
        Some(found) if found.is_ok() => {}
        Some(found) => {
            damage::print(context, found)?;
            context.ui.note(format_args!("hint: {HEAL}"));
        }
        None => context.ui.note("hint: dmv verify"),
    }
    Ok(())
}

fn document(report: &RecoverReport, found: Option<&VerifyReport>) -> Json {
    let garbage = report.garbage.iter();
    let garbage = garbage.map(|(file, offset, bytes)| {
        object! { file: file.as_path(), offset: offset, bytes: bytes }
    });
    let heads = report.heads.iter().map(|(worktree, head)| {
        let head = match head {
            Head::Branch(name) => name.clone(),
            Head::Commit(id) => id.to_string(),
        };
        object! { worktree: worktree, head: head }
    });
    object! {
        lost_packs: lost_pack_values(&report.lost_packs),
        missing: found.map(|found| found.missing.len()),
        damaged: found.map(|found| found.damaged.len()),
        affected: found.map_or(Json::List(Vec::new()), affected_values),
        report.{refs, operations, packs, objects, reindexed},
        garbage: Json::List(garbage.collect()),
        foreign: texts(report.foreign.iter().map(|path| path.display())),
        former: report.former.as_deref(),
        report.{format},
        busy: texts(report.busy.iter().map(|path| path.display())),
        report.{relogged, kept, found},
        heads: Json::List(heads.collect()),
    }
}

fn print(context: &Context, report: &RecoverReport) -> Result<(), Failure> {
    let mut out = context.ui.out();
    writeln!(
        out,
        "rebuilt from {}: {}, {}, {}",
        count(report.packs as u64, "pack", "packs"),
        count(report.refs as u64, "branch or tag", "branches and tags"),
        count(report.operations as u64, "operation", "operations"),
        count(report.objects, "object", "objects"),
    )?;
    for pack in &report.lost_packs {
        writeln!(out, "not found: {}", damage::former_pack(pack))?;
    }
    let place = |path: &Path| clean(&path.to_string_lossy());
    for (file, offset, len) in &report.garbage {
        let (len, place) = (bytes(*len), place(file));
        writeln!(out, "unreadable: {len} in {place} at {offset}")?;
    }
    for file in &report.foreign {
        writeln!(out, "ignored, not a file of dmv: {}", place(file))?;
    }
    if report.relogged > 0 {
        let what = count(report.relogged as u64, "operation", "operations");
        writeln!(out, "operation log: {what} restored from the database")?;
    }
    print_refs(&mut out, report)?;
    for path in &report.busy {
        writeln!(
            out,
            "in use by another command: {}; dmv left its unfinished data there alone",
            place(path)
        )?;
    }
    if report.format {
        writeln!(out, "wrote the file 'format' again")?;
    }
    if let Some(former) = &report.former {
        let place = place(former);
        writeln!(out, "kept a copy of the old database as {place}")?;
    }
    Ok(())
}

/// The branches that were made, and the worktrees whose branch was lost.
fn print_refs(out: &mut impl Write, report: &RecoverReport) -> Result<(), Failure> {
    for name in &report.kept {
        let name = clean(name);
        writeln!(
            out,
            "created branch {name} for commits of a history that the newest one does not include"
        )?;
    }
    for name in &report.found {
        let name = clean(name);
        writeln!(
            out,
            "created branch {name} for commits that the operation log does not name"
        )?;
    }
    for (worktree, head) in &report.heads {
        let (worktree, head) = (clean(worktree), clean(&words_of(head)));
        writeln!(
            out,
            "the branch of worktree {worktree} was lost; the worktree is now on {head}"
        )?;
    }
    Ok(())
}

fn words_of(head: &Head) -> String {
    match head {
        Head::Branch(name) => format!("branch {name}"),
        Head::Commit(id) => format!("commit {}", id.short(SHORT_ID)),
    }
}
