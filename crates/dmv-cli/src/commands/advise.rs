//! `dmv advise`

use super::du::tell_incomplete;
use crate::context::Context;
use crate::failure::{EXIT_OK, Failure};
use crate::format::json::PathValue;
use crate::format::text::{bytes, count, quoted};
use dmv_core::object::name::escape;
use dmv_core::repo::PathUse;
use serde::Serialize;
use std::io::Write;

/// Show which files take more space over all history than they need, and what to do about it
///
/// A file that is saved compressed as a whole changes everywhere with each edit, so its versions share
/// nothing. Saved without compression, they share what was not edited, and dmv compresses it.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv advise")]
pub struct Args {}

/// A history smaller than this is not worth a thought.
const WORTH: u64 = 16 << 20;
/// Versions that share at most this share little, in percent.
const LITTLE: u64 = 25;

#[derive(Serialize)]
struct Record {
    #[serde(flatten)]
    path: PathValue,
    versions: u64,
    stored_bytes: u64,
    shared_percent: u64,
    compressed: Option<&'static str>,
    advice: String,
}

/// Runs the command.
pub fn run(context: &Context, _: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let watch = context.watch("adding up versions");
    let found = repo.history_use(&[], &context.job)?;
    drop(watch);
    tell_incomplete(context, &found);
    let mut told = 0;
    for used in &found.paths {
        let Some(shared) = used.shared_percent() else {
            continue;
        };
        if used.stored_bytes < WORTH || shared > LITTLE {
            continue;
        }
        told += 1;
        let advice = advice(used);
        if context.globals.json {
            context.ui.json(&Record {
                path: PathValue::new(used.path.as_bytes()),
                versions: used.versions,
                stored_bytes: used.stored_bytes,
                shared_percent: shared,
                compressed: used.compressed,
                advice,
            })?;
            continue;
        }
        let how = match used.compressed {
            Some(name) => format!("is saved compressed ({name}); its"),
            None => "changes as a whole; its".to_owned(),
        };
        writeln!(
            context.ui.out(),
            "{} {how} {} share {shared} % and take {}\n  {advice}",
            escape(used.path.as_bytes()),
            count(used.versions, "version", "versions"),
            bytes(used.stored_bytes),
        )?;
    }
    if told == 0 && !context.globals.json {
        writeln!(
            context.ui.out(),
            "no advice: no file's versions take more than {} while they share less than {LITTLE} %",
            bytes(WORTH),
        )?;
    }
    Ok(EXIT_OK)
}

/// Returns what can be done about a file whose versions share little.
fn advice(used: &PathUse) -> String {
    let path = String::from_utf8_lossy(used.path.as_bytes()).into_owned();
    let is = |ending: &str| path.to_ascii_lowercase().ends_with(ending);
    match used.compressed {
        Some(_) if is(".blend") => {
            "in Blender, turn off 'Compress' when you save the file".to_owned()
        }
        Some(_) if is(".svgz") => "save it as .svg".to_owned(),
        Some(_) if is(".xcf.gz") || is(".xcf.xz") || is(".xcf.bz2") || is(".xcfgz") => {
            "in GIMP, save it as .xcf".to_owned()
        }
        Some("gzip" | "zstd" | "xz" | "bzip2" | "7z") => {
            "save it without compression: dmv compresses what it stores".to_owned()
        }
        _ => format!(
            "versions that a remote keeps need no space here: dmv log -- {0}, then dmv drop REV:{0}",
            quoted(&path)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dmv_core::object::name::RepoPath;

    #[test]
    fn advice_fits_the_program_that_saves_the_file() -> Result<(), Box<dyn std::error::Error>> {
        let of = |path: &str, compressed| -> Result<String, Box<dyn std::error::Error>> {
            Ok(advice(&PathUse {
                path: RepoPath::parse(path.as_bytes())?,
                versions: 2,
                bytes: 2,
                newest_bytes: 1,
                unique_bytes: 2,
                stored_bytes: 2,
                compressed,
            }))
        };
        assert!(of("a/Scene.BLEND", Some("zstd"))?.contains("Blender"));
        assert!(of("a.xcf.gz", Some("gzip"))?.contains("GIMP"));
        assert!(of("a.tar.gz", Some("gzip"))?.contains("without compression"));
        let drop = of("a b.mov", None)?;
        assert!(drop.ends_with("dmv drop REV:'a b.mov'"), "{drop}");
        Ok(())
    }
}
