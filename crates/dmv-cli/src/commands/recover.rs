//! `dmv recover`

#[cfg(feature = "store")]
mod at;

use crate::context::Context;
use crate::damage::{self, AffectedValue, HEAL, LostPackValue};
use crate::failure::{EXIT_OK, Failure};
use crate::format::text::{SHORT_ID, bytes, clean, count};
use crate::whose::trust;
use dmv_core::repo::{
    Head, RecoverReport, VerifyDepth, VerifyReport, discover_lost_trusting, recover,
};
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};

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

#[derive(Serialize)]
struct Document {
    /// Packs whose files are gone.
    lost_packs: Vec<LostPackValue>,
    /// The number of objects that history needs and that are missing, if it is known.
    missing: Option<usize>,
    /// The number of damaged objects that are known.
    damaged: Option<usize>,
    /// The paths that these objects affect.
    affected: Vec<AffectedValue>,
    refs: usize,
    operations: usize,
    packs: usize,
    objects: u64,
    reindexed: u64,
    garbage: Vec<Garbage>,
    foreign: Vec<String>,
    former: Option<String>,
    format: bool,
    /// Packs that another process is writing to.
    busy: Vec<String>,
    /// Operations that only the database had, now in the operation log.
    relogged: usize,
    /// Branches made for commits that would have been lost.
    kept: Vec<String>,
    /// Branches made for commits that only the packs still told of.
    found: Vec<String>,
    /// What worktrees are on, where that was not known any more.
    heads: Vec<HeadOf>,
}

#[derive(Serialize)]
struct HeadOf {
    worktree: String,
    head: String,
}

#[derive(Serialize)]
struct Garbage {
    file: String,
    offset: u64,
    bytes: u64,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    #[cfg(feature = "store")]
    if let Some(at) = &args.at {
        return at::run(context, at, args.chosen.as_deref());
    }
    #[cfg(not(feature = "store"))]
    let _ = args;
    let place = discover_lost_trusting(Path::new("."), &trust(false))?;
    let watch = context.watch("reading packs");
    let report = recover(&place, &context.job)?;
    drop(watch);
    let found = look_for_losses(context);
    if context.globals.json {
        context.ui.json(&document(report, found.as_ref()))?;
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

fn document(report: RecoverReport, found: Option<&VerifyReport>) -> Document {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let garbage = |(file, offset, bytes): &(PathBuf, u64, u64)| Garbage {
        file: text(file),
        offset: *offset,
        bytes: *bytes,
    };
    Document {
        lost_packs: LostPackValue::all(&report.lost_packs),
        missing: found.map(|found| found.missing.len()),
        damaged: found.map(|found| found.damaged.len()),
        affected: found.map(AffectedValue::all).unwrap_or_default(),
        refs: report.refs,
        operations: report.operations,
        packs: report.packs,
        objects: report.objects,
        reindexed: report.reindexed,
        garbage: report.garbage.iter().map(garbage).collect(),
        foreign: report.foreign.iter().map(|path| text(path)).collect(),
        former: report.former.as_deref().map(text),
        format: report.format,
        busy: report.busy.iter().map(|path| text(path)).collect(),
        relogged: report.relogged,
        kept: report.kept,
        found: report.found,
        heads: report
            .heads
            .into_iter()
            .map(|(worktree, head)| head_of(worktree, head))
            .collect(),
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
    print_refs(&mut *out, report)?;
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

fn head_of(worktree: String, head: Head) -> HeadOf {
    let head = match head {
        Head::Branch(name) => name,
        Head::Commit(id) => id.to_string(),
    };
    HeadOf { worktree, head }
}

fn words_of(head: &Head) -> String {
    match head {
        Head::Branch(name) => format!("branch {name}"),
        Head::Commit(id) => format!("commit {}", id.short(SHORT_ID)),
    }
}
