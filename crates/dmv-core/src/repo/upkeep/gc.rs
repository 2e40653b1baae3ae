//! `gc`: frees what no ref, worktree or operation that undo can reach needs.
//!
//! gc marks once, and then follows the operation log: until undo is shortened, a later operation only
//! adds to what is needed. Packs are taken out of use one by one, each in a transaction that fails if
//! there is an operation that gc has not followed. Commands that run beside gc check in their own
//! transactions that what they rely on is still there. So no lock keeps them waiting, and gc may be
//! interrupted at any moment: each pack is either as before or gone with everything that stays copied.
//!
//! Ages decide only what is polite: objects that arrived lately may belong to an interrupted fetch.

mod carry;
mod choose;
mod mark;

use crate::job::{Bound, Job, Moment};
use crate::refs::{RefsError, Timestamp};
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use crate::repo::base::{keeping, layout, leaving, leftovers, publish, reserve};
use crate::repo::upkeep::gc::carry::{Carry, Run};
use crate::repo::upkeep::gc::choose::{Candidate, choose};
use crate::repo::upkeep::gc::mark::{MarkRun, mark};
use crate::store::{PackId, PackUse};
use crate::vfs::OpenMode;
use std::time::{Duration, Instant, UNIX_EPOCH};

/// How often gc marks anew, because packs that are worth it have grown meanwhile.
const ROUNDS: usize = 3;

/// What `Repo::gc` may do.
#[derive(Clone, Copy, Debug)]
pub struct GcOptions {
    /// Objects that arrived within this time stay.
    pub grace: Duration,
    /// The present time.
    pub now: Timestamp,
    /// When to stop. What is freed until then stays freed.
    pub until: Option<Instant>,
    /// Whether to rewrite every pack with garbage, whatever it costs.
    pub thorough: bool,
    /// Whether only to count.
    pub dry_run: bool,
}

impl GcOptions {
    /// Frees what is worth its cost and older than `grace`.
    pub fn new(grace: Duration, now: Timestamp) -> GcOptions {
        GcOptions {
            grace,
            now,
            until: None,
            thorough: false,
            dry_run: false,
        }
    }

    /// Returns options that count what can go and free nothing.
    pub fn dry_run(grace: Duration, now: Timestamp) -> GcOptions {
        GcOptions {
            dry_run: true,
            ..GcOptions::new(grace, now)
        }
    }
}

/// What gc did, or what it would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GcReport {
    /// The bytes by which the packs got smaller. A dry run estimates them. Files that have another name
    /// do not count.
    pub freed_bytes: u64,
    /// The number of stored objects that went. Copies count.
    pub freed_objects: u64,
    /// The bytes of all packs afterwards.
    pub kept_bytes: u64,
    /// The number of packs that went, because nothing in them was needed.
    pub packs_removed: u64,
    /// The number of packs that went after what was needed in them was copied.
    pub packs_rewritten: u64,
    /// The bytes of these copies.
    pub copied_bytes: u64,
    /// The bytes of objects that nothing needs and that are too young to go.
    pub young_bytes: u64,
    /// The bytes of objects that only undo needs.
    pub undo_bytes: u64,
    /// The bytes of garbage in packs that are not worth rewriting.
    pub waiting_bytes: u64,
    /// The bytes of garbage in packs whose files have another name, mostly in another repository. They take
    /// space until no process uses these files.
    pub linked_bytes: u64,
    /// The number of objects that undo needs and that are missing or damaged.
    pub undo_lacks: u64,
    /// Whether everything was done that the options allow. If not, the time was over or other commands
    /// changed the repository too quickly, and a later run continues.
    pub finished: bool,
    /// Why packs stayed although they were worth it.
    pub why_not: Vec<String>,
    /// Why the disk had no room for a copy of what stays of a pack, if it had none. What needs no copy is
    /// freed.
    pub no_room: Option<String>,
    /// The bytes of garbage in packs that stayed because of that.
    pub no_room_bytes: u64,
}

impl Repo {
    /// Frees what no ref, no worktree and no operation that undo can reach needs.
    ///
    /// Other commands may run meanwhile. Fails with
    /// [`BusyError::Freeing`](crate::repo::BusyError::Freeing) if another command is freeing space, and
    /// with [`UpkeepError::NothingFreed`](crate::repo::UpkeepError::NothingFreed) if something that is
    /// needed is damaged or missing.
    pub fn gc(&self, options: &GcOptions, job: &Job) -> Result<GcReport, RepoError> {
        check(self, options)?;
        if options.dry_run {
            return foretell(self, options, job);
        }
        let right = keeping::free_alone(self)?;
        reserve::give(self);
        leaving::sweep_leftovers(self, &right)?;
        mark::catch_up(self)?;
        let mut report = GcReport {
            freed_bytes: leftovers::remove_unlisted(self, &|id| is_young(self, id, options))?,
            ..GcReport::default()
        };
        let mut held = Vec::new();
        for round in 0..ROUNDS {
            let Some(marking) = mark(self, options, &mut report, job)? else {
                break;
            };
            job.reached(Moment::Marked);
            let plan = choose(&candidates(self, &marking)?, options.thorough);
            report.waiting_bytes = plan.waiting_bytes;
            let copied: u64 = plan.rewrite.iter().map(|p| p.usage.staying_bytes()).sum();
            job.begin_part();
            job.progress.foresee(copied, Bound::AtMost);
            let mut run = Run::new(self, (options, &right), marking, held, job);
            let done = run.free(&plan);
            let Carry { grown, stopped } = run.end(&mut report);
            done?;
            if stopped || grown.is_empty() || round + 1 == ROUNDS {
                report.finished = !stopped && grown.is_empty();
                break;
            }
            // While their locks are held, these packs cannot grow again.
            held = carry::lock_all(self, &grown, &mut report)?;
        }
        publish::merge_tables(self);
        reserve::keep(self);
        // What killed commands wrote counts, too. What other commands write at this moment does not.
        report.young_bytes += leftovers::unlisted_bytes(self, &|id| is_young(self, id, options))?;
        report.kept_bytes = packs_len(self)?;
        Ok(report)
    }
}

fn check(repo: &Repo, options: &GcOptions) -> Result<(), RepoError> {
    if !options.dry_run {
        repo.check_own()?;
        if repo.refs.is_read_only() {
            return Err(RefsError::ReadOnly(repo.refs.path().to_owned()).into());
        }
    }
    // The view does not name what such a clone has received.
    if layout::is_begun(repo.dmv_dir()) && repo.complete_commits()?.is_empty() {
        let why = "this clone is incomplete, so nothing shows which objects it needs";
        return Err(RepoError::Text(why.to_owned()));
    }
    Ok(())
}

fn packs_len(repo: &Repo) -> Result<u64, RepoError> {
    let packs = repo.refs.catalogue()?.packs;
    Ok(packs.iter().map(|pack| pack.len).sum())
}

/// Returns the mapped packs with the lengths of their files.
fn candidates(repo: &Repo, marking: &MarkRun<'_>) -> Result<Vec<Candidate>, RepoError> {
    let candidate = |usage: PackUse| {
        let path = repo.store.pack_path(usage.row.id);
        let len = repo
            .vfs
            .open(&path, OpenMode::Read)
            .and_then(|file| file.len());
        Candidate {
            usage,
            // A pack whose file cannot be opened is left to `verify`.
            file_bytes: len.unwrap_or(usage.row.len).max(usage.row.len),
            is_linked: leaving::is_linked(repo, usage.row.id),
        }
    };
    Ok(marking.marker.uses().into_iter().map(candidate).collect())
}

/// Marks, and counts what would go.
fn foretell(repo: &Repo, options: &GcOptions, job: &Job) -> Result<GcReport, RepoError> {
    let mut report = GcReport::default();
    let young = leftovers::unlisted_bytes(repo, &|id| is_young(repo, id, options))?;
    let old = leftovers::unlisted_bytes(repo, &|id| !is_young(repo, id, options))?;
    let Some(marking) = mark(repo, options, &mut report, job)? else {
        (report.young_bytes, report.freed_bytes) = (young, old);
        return Ok(report);
    };
    report.young_bytes += young;
    let plan = choose(&candidates(repo, &marking)?, options.thorough);
    for pack in plan.remove.iter().chain(&plan.rewrite) {
        if pack.is_linked {
            report.linked_bytes += pack.garbage_bytes()
        } else {
            report.freed_bytes += pack.garbage_bytes()
        }
        report.freed_objects += pack.usage.others;
    }
    report.packs_removed = plan.remove.len() as u64;
    report.packs_rewritten = plan.rewrite.len() as u64;
    report.copied_bytes = plan.rewrite.iter().map(|p| p.usage.staying_bytes()).sum();
    report.waiting_bytes = plan.waiting_bytes;
    let gone = report.freed_bytes + report.linked_bytes;
    report.kept_bytes = packs_len(repo)?.saturating_sub(gone);
    let copies = plan.rewrite.iter().filter(|pack| pack.is_linked);
    let copied: u64 = copies.map(|pack| pack.usage.staying_bytes()).sum();
    report.freed_bytes = report.freed_bytes.saturating_sub(copied) + old;
    report.finished = true;
    Ok(report)
}

/// Returns whether a file was written to within the time of grace. An unknown time counts as now.
fn is_young(repo: &Repo, id: PackId, options: &GcOptions) -> bool {
    let modified = std::fs::metadata(repo.store.pack_path(id)).and_then(|m| m.modified());
    let at = modified
        .ok()
        .and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let now = u64::try_from(options.now.seconds).unwrap_or(0);
    let oldest = now.saturating_sub(options.grace.as_secs());
    !options.grace.is_zero() && at.is_none_or(|at| at.as_secs() > oldest)
}
