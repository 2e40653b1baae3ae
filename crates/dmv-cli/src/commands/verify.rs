//! `dmv verify`

#[cfg(feature = "store")]
mod bucket;
mod heal;

use crate::context::CommandUse;
use crate::damage;
use crate::damage::{affected_values, lost_pack_values};
use crate::format::fold::print_some;
use crate::partial_repository::GivenUpCounts;
use crate::prelude::*;
use dmv_core::repo::{DamagedObject, HealedFrom, HealedObject, VerifyDepth, VerifyReport};
use std::collections::{BTreeMap, BTreeSet};

/// Check that all data is present and undamaged
///
/// Reads every byte of the packs and compares it with its id. dmv notes damaged objects, so that the next
/// commit with the same content stores it again. Without --heal it changes nothing else.
///
/// --at REMOTE checks a bucket instead: its files, and whether everything is there that its branches need.
/// It reads the metadata, and with --full or --sample also content.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv verify\n  dmv verify --quick --json\n  dmv verify --heal\n  dmv verify --at studio --sample 1"
)]
pub struct Args {
    /// Check only that all objects exist, and report damage that is known; do not read file content
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Check the databases, too
    #[arg(long)]
    full: bool,
    /// Repair damaged and missing objects from the files of the worktree and from the remotes
    #[arg(long, conflicts_with = "quick")]
    heal: bool,
    /// Check the bucket of this remote instead
    #[cfg(feature = "store")]
    #[arg(long, value_name = "REMOTE", conflicts_with = "heal", add = crate::candidates::remote())]
    at: Option<String>,
    /// In a bucket, read about this percentage of the content
    #[cfg(feature = "store")]
    #[arg(
        long, value_name = "PERCENT", value_parser = percent, requires = "at",
        conflicts_with_all = ["quick", "full"]
    )]
    sample: Option<f64>,
    /// In a bucket, only report how much would be read
    #[cfg(feature = "store")]
    #[arg(long, requires = "at")]
    dry_run: bool,
}

impl Args {
    /// How the command uses the repository: repairs change it.
    pub fn command_use(&self) -> CommandUse {
        if self.heal {
            CommandUse::Changes
        } else {
            CommandUse::Reads
        }
    }
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    #[cfg(feature = "store")]
    if let Some(remote) = &args.at {
        return bucket::run(context, args, remote);
    }
    let repo = context.repo_as_it_is()?;
    let depth = match (args.quick, args.full) {
        (true, _) => VerifyDepth::Quick,
        (_, true) => VerifyDepth::Full,
        _ => VerifyDepth::Normal,
    };
    let heal::Outcome {
        report,
        healed,
        has_peers,
    } = if args.heal {
        heal::heal(context, &repo, depth)?
    } else {
        let _watch = context.watch("verifying");
        heal::Outcome {
            report: repo.verify(depth, &context.job)?,
            healed: Vec::new(),
            has_peers: true,
        }
    };
    let slice = repo.slice().unwrap_or_default();
    let given_up = GivenUpCounts::of(&slice);
    if context.ui.is_json() {
        context.ui.json(&object! {
            ok: report.is_ok(),
            report.{objects, bytes},
            healed: Json::List(healed.iter().map(healed_value).collect()),
            damaged: Json::List(report.damaged.iter().map(value).collect()),
            missing: Json::List(report.missing.iter().map(value).collect()),
            lost_packs: lost_pack_values(&report.lost_packs),
            report.{lost_bytes},
            affected: affected_values(&report),
            report.{absent},
            expired: given_up.expired_values(),
            purged: given_up.purged_values(),
            report.{files, made_good},
        })?;
    } else {
        print(context, &report, &healed, &given_up)?;
        hint(context, &report, args.heal, has_peers);
    }
    Ok(if report.is_ok() { EXIT_OK } else { EXIT_DAMAGE })
}

#[cfg(feature = "store")]
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse::<f64>();
    match number {
        Ok(number) if number > 0.0 && number <= 100.0 => Ok(number),
        _ => Err("a number of more than 0 and at most 100".to_owned()),
    }
}

fn value(damaged: &DamagedObject) -> Json {
    object! {
        damaged.{id},
        "type": damaged.ty.word(),
        paths: texts(damaged.paths.iter().map(text_of)),
        damaged.{commits, refs},
    }
}

fn healed_value(healed: &HealedObject) -> Json {
    let (from, peer) = match &healed.from {
        HealedFrom::Copy => ("copy", None),
        HealedFrom::Worktree => ("worktree", None),
        HealedFrom::Peer(name) => ("peer", Some(name)),
    };
    object! { ..value(&healed.object), from: from, peer: peer }
}

fn print(
    context: &Context,
    report: &VerifyReport,
    healed: &[HealedObject],
    given_up: &GivenUpCounts,
) -> Result<(), Failure> {
    print_healed(context, healed)?;
    let mut out = context.ui.out();
    for pack in &report.forgotten_packs {
        writeln!(
            out,
            "healed: the missing {}: nothing needs it any more",
            damage::former_pack(pack)
        )?;
    }
    damage::print(context, report)?;
    if !report.is_ok() || context.ui.quiet() {
        return Ok(());
    }
    let mut out = context.ui.out();
    let intact = count(report.objects, "object", "objects");
    let read = match report.bytes {
        0 => String::new(),
        n => format!(", {} read", bytes(n)),
    };
    writeln!(out, "no damage found: {intact}{read}")?;
    if report.absent > 0 {
        let absent = count(report.absent, "object is", "objects are");
        writeln!(out, "{absent} absent by choice")?;
    }
    for line in given_up.lines() {
        writeln!(out, "{line}")?;
    }
    if !report.made_good.is_empty() {
        let places = count(report.made_good.len() as u64, "place", "places");
        writeln!(
            out,
            "{places} in packs damaged, but every object there has an intact copy"
        )?;
    }
    for pack in &report.lost_packs {
        writeln!(
            out,
            "{}, but everything in it that is needed is stored elsewhere",
            damage::lost_pack(pack)
        )?;
    }
    Ok(())
}

/// Prints how much is intact again, and which files; with --verbose each object.
fn print_healed(context: &Context, healed: &[HealedObject]) -> Result<(), Failure> {
    let mut out = context.ui.out();
    let mut sources: BTreeMap<String, Vec<&DamagedObject>> = BTreeMap::new();
    for HealedObject { object, from } in healed {
        let how = match from {
            HealedFrom::Copy => "another copy is intact".to_owned(),
            HealedFrom::Worktree => "stored again from the worktree".to_owned(),
            HealedFrom::Peer(name) => format!("stored again from {}", clean(name)),
        };
        sources.entry(how).or_default().push(object);
    }
    let all = context.ui.verbose();
    for (how, objects) in sources {
        if all {
            for object in objects {
                writeln!(out, "healed: {} {}, {how}", object.ty.word(), object.id)?;
                damage::print_uses(&mut out, object)?;
            }
            continue;
        }
        let paths: BTreeSet<&RepoPath> = objects.iter().flat_map(|o| &o.paths).collect();
        let number = count(objects.len() as u64, "object", "objects");
        writeln!(out, "healed: {number}, {how}")?;
        print_some(&mut out, paths.into_iter().map(damage::shown_path), false)?;
    }
    Ok(())
}

/// Says which command may help.
fn hint(context: &Context, report: &VerifyReport, tried: bool, has_peers: bool) {
    let objects = report.damaged.len() + report.missing.len();
    let has_files = !report.files.is_empty();
    if objects > 0 && !tried {
        context.ui.note(if has_files {
            // What is healed lies in other packs, and those that are damaged stay listed.
            "hint: dmv verify --heal, then dmv recover"
        } else {
            "hint: dmv verify --heal"
        });
    } else if objects > 0 && !has_peers {
        context.ui.note("hint: dmv remote add NAME URL");
    } else if objects > 0 {
        context
            .ui
            .note("hint: copy good files from elsewhere into the worktree, then dmv verify --heal");
    } else if has_files {
        context.ui.note("hint: dmv recover");
    } else if !report.lost_packs.is_empty() {
        context.ui.note("hint: dmv verify --heal");
    }
}
