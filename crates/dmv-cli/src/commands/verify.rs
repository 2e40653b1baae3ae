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
/// Reads every byte of the packs and checks it against its id. Nothing is changed.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv verify\n  dmv verify --quick --json")]
pub struct Args {
    /// Only that everything that history needs is there; content is not read
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// The databases as well
    #[arg(long)]
    full: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    ok: bool,
    objects: u64,
    bytes: u64,
    damaged: Vec<DamagedValue>,
    missing: Vec<DamagedValue>,
    absent: u64,
    files: &'a [String],
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
    let report = repo.verify(depth, &context.job)?;
    drop(watch);
    if context.globals.json {
        context.ui.json(&Document {
            ok: report.is_ok(),
            objects: report.objects,
            bytes: report.bytes,
            damaged: report.damaged.iter().map(value).collect(),
            missing: report.missing.iter().map(value).collect(),
            absent: report.absent,
            files: &report.files,
        })?;
    } else {
        print(context, &report)?;
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

fn print(context: &Context, report: &VerifyReport) -> Result<(), Failure> {
    let mut out = context.ui.out();
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
    let objects = count(report.objects, "object", "objects");
    if report.is_ok() {
        if !context.ui.quiet() {
            let read = match report.bytes {
                0 => String::new(),
                n => format!(", {} read", bytes(n)),
            };
            writeln!(out, "all is well: {objects}{read}")?;
        }
        return Ok(());
    }
    writeln!(
        out,
        "{objects} whole, {} damaged, {} missing, {} damaged in files",
        report.damaged.len(),
        report.missing.len(),
        count(report.files.len() as u64, "place", "places"),
    )?;
    drop(out);
    if !report.files.is_empty() {
        context.ui.note("hint: dmv recover");
    }
    Ok(())
}
