//! `dmv du --advise`: which files take more space over all history than they need, and what to do about it.

use super::tell_incomplete;
use crate::prelude::*;
use dmv_core::repo::PathUse;

/// A history smaller than this is not worth a thought.
const WORTH: u64 = 16 << 20;
/// An advice that saves less is none.
const WORTH_SAVING: u64 = 1 << 20;
/// Versions that share at most this share little, in percent.
const LITTLE: u64 = 25;

/// Prints the advice.
pub fn run(context: &Context, repo: &Repo) -> Result<u8, Failure> {
    let watch = context.watch("adding up versions");
    let found = repo.history_use(&[], &context.job)?;
    drop(watch);
    tell_incomplete(context, &found);
    let mut told = 0;
    for used in &found.paths {
        let Some(shared) = used.shared_percent() else {
            continue;
        };
        let saves = used.earlier_stored_bytes;
        if used.stored_bytes < WORTH || saves < WORTH_SAVING || shared > LITTLE {
            continue;
        }
        told += 1;
        let remedy = Remedy::of(used);
        let document = || {
            object! {
                ..path(&used.path),
                used.{versions, stored_bytes},
                shared_percent: shared,
                used.{compressed},
                advice: remedy.advice,
                saves_bytes: saves,
            }
        };
        context.ui.show(document, |out| {
            let how = match used.compressed {
                Some(name) => format!("is saved compressed ({name}); its"),
                None => "changes as a whole; its".to_owned(),
            };
            let (path, size) = (escape(&used.path), bytes(used.stored_bytes));
            let versions = count(used.versions, "version", "versions");
            writeln!(
                out,
                "{path} {how} {versions} share {shared} % and take {size}"
            )?;
            writeln!(out, "  {}\n  {}", remedy.advice, remedy.saving(used))?;
            Ok(())
        })?;
    }
    if told == 0 && !context.ui.is_json() {
        writeln!(
            context.ui.out(),
            "no advice: no file's versions take more than {} while they share less than {LITTLE} %",
            bytes(WORTH),
        )?;
    }
    Ok(EXIT_OK)
}

/// What can be done about a file whose versions share little.
struct Remedy {
    /// What to do.
    advice: String,
    /// Whether it frees what is stored. If not, it saves space of versions to come.
    frees: bool,
}

impl Remedy {
    fn of(used: &PathUse) -> Remedy {
        let saving = |advice: &str| Remedy {
            advice: advice.to_owned(),
            frees: false,
        };
        let path = String::from_utf8_lossy(used.path.as_bytes()).into_owned();
        let is = |ending: &str| path.to_ascii_lowercase().ends_with(ending);
        match used.compressed {
            Some(_) if is(".blend") => {
                saving("in Blender, turn off 'Compress' when you save the file")
            }
            Some(_) if is(".svgz") => saving("save it as .svg"),
            Some(_) if is(".xcf.gz") || is(".xcf.xz") || is(".xcf.bz2") || is(".xcfgz") => {
                saving("in GIMP, save it as .xcf")
            }
            Some("gzip" | "zstd" | "xz" | "bzip2" | "7z") => {
                saving("save it without compression: dmv compresses what it stores")
            }
            _ => Remedy {
                advice: hint!(
                    "versions that a remote keeps need no space here: dmv log -- {}, then dmv drop {}",
                    path_argument(used.path.as_bytes()),
                    Argument::place("REV", used.path.as_bytes())
                )
                .to_string(),
                frees: true,
            },
        }
    }

    /// Returns what it can save, as a line.
    fn saving(&self, used: &PathUse) -> String {
        let size = bytes(used.earlier_stored_bytes);
        if self.frees {
            format!("this frees up to {size}")
        } else {
            format!("as many versions saved like this take up to {size} less")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dmv_core::object::name::RepoPath;

    #[test]
    fn advice_fits_the_program_that_saves_the_file() -> Result<(), Box<dyn std::error::Error>> {
        let of = |path: &str, compressed| -> Result<String, Box<dyn std::error::Error>> {
            Ok(Remedy::of(&PathUse {
                path: RepoPath::parse(path.as_bytes())?,
                versions: 2,
                bytes: 2,
                newest_bytes: 1,
                unique_bytes: 2,
                stored_bytes: 2,
                earlier_stored_bytes: 1,
                given_up: 0,
                compressed,
            })
            .advice)
        };
        assert!(of("a/Scene.BLEND", Some("zstd"))?.contains("Blender"));
        assert!(of("a.xcf.gz", Some("gzip"))?.contains("GIMP"));
        assert!(of("a.tar.gz", Some("gzip"))?.contains("without compression"));
        let drop = of("a b.mov", None)?;
        assert!(drop.ends_with("dmv drop 'REV:a b.mov'"), "{drop}");
        Ok(())
    }
}
