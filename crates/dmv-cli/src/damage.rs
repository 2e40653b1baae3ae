//! What is damaged or lost, told in one way by `verify`, `recover` and `status`: what happened, how much,
//! which files, and what to run.

use crate::context::Context;
use crate::failure::Failure;
use crate::format::fold::print_some;
use crate::format::json::{Json, object, path};
use crate::format::text::{SHORT_ID, bytes, clean, count};
use dmv_core::object::ObjectType;
use dmv_core::object::name::{RepoPath, escape};
use dmv_core::repo::{AffectedPath, DamagedObject, KnownDamage, LostPack, VerifyReport};
use std::io;
use std::io::Write;

/// The command that repairs.
pub const HEAL: &str = "dmv verify --heal";

/// Packs whose files are gone, in JSON.
pub fn lost_pack_values(packs: &[LostPack]) -> Json {
    let value = |pack: &LostPack| object! { pack: pack.id.to_string(), pack.{bytes, objects} };
    Json::List(packs.iter().map(value).collect())
}

/// The paths that damage affects, in JSON.
pub fn affected_values(report: &VerifyReport) -> Json {
    let value = |affected: &AffectedPath| object! { ..path(&affected.path), affected.{commit} };
    Json::List(report.affected.iter().map(value).collect())
}

/// What is known to be damaged without a check, in JSON; `None` if nothing is.
pub fn known_value(known: &KnownDamage) -> Option<Json> {
    known.is_any().then(|| {
        object! { lost_packs: lost_pack_values(&known.lost_packs), known.{objects} }
    })
}

/// Prints what is known to be damaged without a check, and what to run.
pub fn print_known(out: &mut impl Write, known: &KnownDamage) -> io::Result<()> {
    for pack in &known.lost_packs {
        writeln!(out, "damaged: {}", lost_pack(pack))?;
    }
    if known.objects > 0 {
        let objects = count(known.objects, "object", "objects");
        writeln!(out, "damaged: a check found {objects} missing or damaged")?;
    }
    if known.is_any() {
        writeln!(out, "  to see what is affected: dmv verify --quick")?;
        writeln!(out, "  to repair: {HEAL}")?;
    }
    Ok(())
}

/// `pack 12… is missing (3.1 MiB, 160 objects)`.
pub fn lost_pack(pack: &LostPack) -> String {
    format!("pack {} is missing ({})", pack.id, size_of(pack))
}

/// `pack 12… (3.1 MiB, 160 objects)`.
pub fn former_pack(pack: &LostPack) -> String {
    format!("pack {} ({})", pack.id, size_of(pack))
}

fn size_of(pack: &LostPack) -> String {
    let objects = count(pack.objects, "object", "objects");
    format!("{}, {objects}", bytes(pack.bytes))
}

/// Prints the damage that a check found: what happened, how much, which files. Nothing if there is none.
pub fn print(context: &Context, report: &VerifyReport) -> Result<(), Failure> {
    if report.is_ok() {
        return Ok(());
    }
    let all = context.ui.verbose();
    let mut out = context.ui.out();
    for pack in &report.lost_packs {
        writeln!(out, "damaged: {}", lost_pack(pack))?;
    }
    if !report.files.is_empty() {
        let files = count(report.files.len() as u64, "place", "places");
        writeln!(out, "damaged: {files} in files of the repository")?;
        let files = report.files.iter().map(|file| clean(file));
        print_some(&mut out, files, all)?;
    }
    if all {
        print_objects(&mut out, "damaged", &report.damaged)?;
        print_objects(&mut out, "missing", &report.missing)?;
    }
    if !report.damaged.is_empty() || !report.missing.is_empty() {
        print_sum(&mut out, report)?;
        print_some(&mut out, report.affected.iter().map(affected_line), all)?;
        print_commits(&mut out, report, all)?;
    }
    if report.objects > 0 {
        let intact = count(report.objects, "object is", "objects are");
        writeln!(out, "{intact} intact")?;
    }
    Ok(())
}

/// `damaged: 160 objects are missing and 1 is damaged (3.1 MiB); 120 files need them`.
fn print_sum(out: &mut impl Write, report: &VerifyReport) -> io::Result<()> {
    let (missing, damaged) = (report.missing.len() as u64, report.damaged.len() as u64);
    let kinds = match (missing, damaged) {
        (0, n) => format!("{} damaged", count(n, "object is", "objects are")),
        (n, 0) => format!("{} missing", count(n, "object is", "objects are")),
        (n, 1) => format!(
            "{} missing and 1 is damaged",
            count(n, "object is", "objects are")
        ),
        (n, m) => format!(
            "{} missing and {m} are damaged",
            count(n, "object is", "objects are")
        ),
    };
    let size = match report.lost_bytes {
        0 => String::new(),
        n => format!(" ({} of content)", bytes(n)),
    };
    let needed = match report.affected.len() as u64 {
        0 => String::new(),
        1 => "; 1 path needs them:".to_owned(),
        n => format!("; {n} paths need them:"),
    };
    writeln!(out, "damaged: {kinds}{size}{needed}")
}

fn affected_line(affected: &AffectedPath) -> String {
    let path = shown_path(&affected.path);
    match &affected.commit {
        Some(commit) => format!("{path}  in {}", commit.short(SHORT_ID)),
        None => path,
    }
}

/// A path, as a line of a report names it.
pub fn shown_path(path: &RepoPath) -> String {
    if path.is_root() {
        "the root directory".to_owned()
    } else {
        escape(path).to_string()
    }
}

/// Prints commits that cannot be read, with what leads to them.
fn print_commits(out: &mut impl Write, report: &VerifyReport, all: bool) -> io::Result<()> {
    let found = report.damaged.iter().chain(&report.missing);
    let commits = found.filter(|object| object.ty == ObjectType::Commit);
    let lines: Vec<String> = commits.map(commit_line).collect();
    if !lines.is_empty() {
        writeln!(out, "commits that cannot be read:")?;
        print_some(out, lines.into_iter(), all)?;
    }
    Ok(())
}

fn commit_line(commit: &DamagedObject) -> String {
    let id = commit.id.short(SHORT_ID);
    let refs = commit.refs.iter().map(|key| clean(key));
    let children = commit.commits.iter().map(|id| id.short(SHORT_ID));
    let needed: Vec<String> = refs.chain(children).collect();
    if needed.is_empty() {
        id
    } else {
        format!("{id}, needed by {}", needed.join(", "))
    }
}

/// Prints objects one by one, with what needs each.
pub fn print_objects(
    out: &mut impl Write,
    what: &str,
    objects: &[DamagedObject],
) -> io::Result<()> {
    for object in objects {
        writeln!(out, "{what}: {} {}", object.ty.word(), object.id)?;
        print_uses(out, object)?;
    }
    Ok(())
}

/// Says what needs an object.
pub fn print_uses(out: &mut impl Write, object: &DamagedObject) -> io::Result<()> {
    for path in &object.paths {
        writeln!(out, "  needed by {}", shown_path(path))?;
    }
    for key in &object.refs {
        writeln!(out, "  needed by {}", clean(key))?;
    }
    let commits: Vec<String> = object.commits.iter().map(|id| id.short(SHORT_ID)).collect();
    if commits.is_empty() {
        Ok(())
    } else {
        writeln!(out, "  in the history of {}", commits.join(", "))
    }
}
