//! `dmv verify`

use crate::context::Context;
use crate::error::{EXIT_DAMAGE, EXIT_OK, Failure};
use crate::format::text::{bytes, clean, count};
use dmv_core::object::name::escape;
use dmv_core::repo::{Damaged, VerifyDepth, VerifyReport};
use serde::Serialize;
use std::io::Write;

/// Check that everything is there and whole
///
/// Reads every byte of the packs and checks it against its id. Damaged places are remembered, so
/// that a commit of the same content stores it again; nothing else is changed without `--heal`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv verify\n  dmv verify --quick --json\n  dmv verify --heal")]
pub struct Args {
    /// Only that everything that history needs is there; content is not read
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// The databases as well
    #[arg(long)]
    full: bool,
    /// Store damaged and missing objects again from the files of the worktree
    #[arg(long, conflicts_with = "quick")]
    heal: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    ok: bool,
    objects: u64,
    bytes: u64,
    healed: Vec<HealedValue>,
    damaged: Vec<DamagedValue>,
    missing: Vec<DamagedValue>,
    absent: u64,
    files: &'a [String],
    made_good: &'a [String],
}

#[derive(Serialize)]
struct HealedValue {
    #[serde(flatten)]
    object: DamagedValue,
    from: &'static str,
}

#[derive(Serialize)]
struct DamagedValue {
    id: String,
    #[serde(rename = "type")]
    ty: &'static str,
    paths: Vec<String>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let depth = match (args.quick, args.full) {
        (true, _) => VerifyDepth::Quick,
        (_, true) => VerifyDepth::Full,
        _ => VerifyDepth::Normal,
    };
    let watch = context.watch("checking");
    let mut report = repo.verify(depth, &context.job)?;
    let mut healed: Vec<(Damaged, &'static str)> = Vec::new();
    if args.heal {
        let copies = report.copies.iter().cloned();
        healed.extend(copies.map(|object| (object, COPY)));
        let again = repo.heal(&report, &context.settings()?, &context.job)?;
        if !again.is_empty() {
            healed.extend(again.into_iter().map(|object| (object, WORKTREE)));
            report = repo.verify(depth, &context.job)?;
        }
    }
    drop(watch);
    if context.globals.json {
        context.ui.json(&Document {
            ok: report.is_ok(),
            objects: report.objects,
            bytes: report.bytes,
            healed: healed
                .iter()
                .map(|(object, from)| HealedValue {
                    object: value(object),
                    from,
                })
                .collect(),
            damaged: report.damaged.iter().map(value).collect(),
            missing: report.missing.iter().map(value).collect(),
            absent: report.absent,
            files: &report.files,
            made_good: &report.made_good,
        })?;
    } else {
        print(context, &report, &healed, args.heal)?;
    }
    Ok(if report.is_ok() { EXIT_OK } else { EXIT_DAMAGE })
}

fn value(damaged: &Damaged) -> DamagedValue {
    let text = |path: &Vec<u8>| String::from_utf8_lossy(path).into_owned();
    DamagedValue {
        id: damaged.id.to_string(),
        ty: damaged.ty.word(),
        paths: damaged.paths.iter().map(text).collect(),
    }
}

/// Where an object was healed from.
const COPY: &str = "copy";
const WORKTREE: &str = "worktree";

fn print(
    context: &Context,
    report: &VerifyReport,
    healed: &[(Damaged, &'static str)],
    tried: bool,
) -> Result<(), Failure> {
    let mut out = context.ui.out();
    for (item, from) in healed {
        let how = match *from {
            COPY => "another copy of it is whole",
            _ => "stored again from the worktree",
        };
        writeln!(out, "healed: {} {}, {how}", item.ty.word(), item.id)?;
        for path in &item.paths {
            writeln!(out, "  needed by {}", escape(path))?;
        }
    }
    for file in &report.files {
        writeln!(out, "damaged file: {}", clean(file))?;
    }
    let kinds = [("damaged", &report.damaged), ("missing", &report.missing)];
    for (what, items) in kinds {
        for item in items {
            writeln!(out, "{what}: {} {}", item.ty.word(), item.id)?;
            for path in &item.paths {
                writeln!(out, "  needed by {}", escape(path))?;
            }
        }
    }
    let whole = count(report.objects, "object", "objects");
    if report.is_ok() {
        if !context.ui.quiet() {
            let read = match report.bytes {
                0 => String::new(),
                n => format!(", {} read", bytes(n)),
            };
            writeln!(out, "all is well: {whole}{read}")?;
            if report.absent > 0 {
                let absent = count(report.absent, "object is", "objects are");
                writeln!(out, "{absent} named and absent by choice")?;
            }
            if !report.made_good.is_empty() {
                let places = count(report.made_good.len() as u64, "place", "places");
                writeln!(
                    out,
                    "{places} in packs damaged, with nothing that is not whole elsewhere"
                )?;
            }
        }
        return Ok(());
    }
    writeln!(
        out,
        "{whole} whole, {} damaged, {} missing, {} damaged in files",
        report.damaged.len(),
        report.missing.len(),
        count(report.files.len() as u64, "place", "places"),
    )?;
    drop(out);
    let objects = report.damaged.len() + report.missing.len();
    if objects > 0 && !tried {
        context.ui.note("hint: dmv verify --heal");
    } else if !report.files.is_empty() {
        context.ui.note("hint: dmv recover");
    }
    Ok(())
}
