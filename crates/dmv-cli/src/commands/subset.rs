//! `dmv subset`, and the options that name a subset.

use super::checkout::finish;
use crate::context::{Context, quoted};
use crate::error::{EXIT_OK, Failure};
use crate::supply::supplied;
use dmv_core::hash::ObjectId;
use dmv_core::object::name::{RepoPath, escape};
use dmv_core::repo::{EmptiedPattern, Located, Repo, RepoError, blob_of, split_path};
use dmv_core::subset::{Subset, Union};
use serde::Serialize;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Choose which paths are in the worktree
///
/// Files outside of the subset stay unchanged in every commit. Without a command, prints the patterns.
///
/// A pattern is a path from the root of the repository and includes all files below it. Wildcards work as
/// in ignore files, and a leading ! excludes paths. The last pattern that matches a path decides.
///
/// dmv writes the files that enter the subset and removes those that leave it. Untracked files stay. If
/// a file that leaves has uncommitted changes, dmv refuses and changes nothing.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv subset\n  dmv subset add media/scene5\n  \
                  dmv subset remove media/scene5/raw\n  dmv subset set 'titles/*.png' notes.txt\n  \
                  dmv subset clear"
)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Print the patterns, one per line (the default)
    Show,
    /// Add these paths to the subset
    Add {
        /// Paths or patterns
        #[arg(value_name = "PATTERN", required = true)]
        patterns: Vec<OsString>,
    },
    /// Remove these paths from the subset
    Remove {
        /// Paths or patterns
        #[arg(value_name = "PATTERN", required = true)]
        patterns: Vec<OsString>,
    },
    /// Limit the worktree to these paths
    Set {
        /// Paths or patterns
        #[arg(value_name = "PATTERN", required_unless_present = "subset_file")]
        patterns: Vec<OsString>,
        /// Read the patterns from FILE, or from REV:PATH
        #[arg(long, value_name = "FILE", conflicts_with = "patterns")]
        subset_file: Option<OsString>,
    },
    /// Remove the limit: write all files
    Clear,
}

/// The options that name a subset.
#[derive(clap::Args)]
#[group(id = "limit", multiple = false)]
pub struct LimitArgs {
    /// Use only these paths: files or directories from the root, or wildcards; ! excludes
    #[arg(long, value_name = "PATTERN", num_args = 1..)]
    subset: Vec<OsString>,
    /// Read the patterns from FILE, or from REV:PATH: one per line, # starts a comment
    #[arg(long, value_name = "FILE")]
    subset_file: Option<OsString>,
}

impl LimitArgs {
    /// The subset that is asked for, if one is.
    pub fn read(&self, context: &Context, repo: &Repo) -> Result<Option<Subset>, Failure> {
        match &self.subset_file {
            Some(file) => read_file(context, repo, file).map(Some),
            None if self.subset.is_empty() => Ok(None),
            None => of(&self.subset).map(Some),
        }
    }
}

impl LimitArgs {
    /// As [`read`](Self::read), `default` where none is; says which patterns name nothing in `tree`.
    pub fn read_for(
        &self,
        context: &Context,
        repo: &Repo,
        tree: ObjectId,
        default: Union,
    ) -> Result<Union, Failure> {
        let subset = match self.read(context, repo)? {
            Some(subset) => subset,
            None => return Ok(default),
        };
        tell_idle(
            context,
            &repo.idle_patterns(tree, &Subset::everything(), &subset)?,
        );
        Ok(Union::of([subset]))
    }

    /// Whether a subset is asked for.
    pub fn is_given(&self) -> bool {
        !self.subset.is_empty() || self.subset_file.is_some()
    }
}

/// Says which patterns name nothing.
pub fn tell_idle(context: &Context, patterns: &[Vec<u8>]) {
    for pattern in patterns {
        let pattern = shown(pattern);
        let text = format_args!("nothing in the commit matches '{pattern}'");
        context.ui.warn(text);
    }
}

/// Says which files were there already when the subset came to have their paths.
pub fn tell_adopted(context: &Context, adopted: &[Vec<u8>]) {
    let ui = &context.ui;
    for path in adopted {
        let path = escape(path);
        ui.warn(format_args!(
            "{path}: your file stays, and counts as an edit of what the commit has"
        ));
    }
    if let Some(first) = adopted.first() {
        let path = quoted(&String::from_utf8_lossy(first));
        ui.note(format_args!(
            "hint: dmv diff {path}; for the version of the commit: dmv restore {path}"
        ));
    }
}

/// Says which patterns of a worktree's subset have lost all that they named, and what to do.
pub fn tell_emptied(context: &Context, emptied: &[EmptiedPattern], subset: &Subset) {
    let ui = &context.ui;
    for EmptiedPattern { pattern, moved_to } in emptied {
        let pattern = shown(pattern);
        let Some(place) = moved_to else {
            ui.warn(format_args!(
                "nothing in this commit matches '{pattern}' of the worktree's subset any more"
            ));
            ui.note(format_args!("hint: dmv ls, then dmv subset set PATTERN"));
            continue;
        };
        ui.warn(format_args!(
            "nothing in this commit matches '{pattern}' of the worktree's subset any more; it is now at {place}"
        ));
        let verb = match subset.patterns().count() {
            1 => "set",
            _ => "add",
        };
        let place = quoted(&place.to_string());
        ui.note(format_args!("hint: dmv subset {verb} {place}"));
    }
}

/// One of them, as JSON.
#[derive(Serialize)]
pub struct EmptiedValue {
    pattern: String,
    moved_to: Option<String>,
}

impl EmptiedValue {
    /// All of a report.
    pub fn list(emptied: &[EmptiedPattern]) -> Vec<EmptiedValue> {
        let value = |emptied: &EmptiedPattern| EmptiedValue {
            pattern: shown(&emptied.pattern),
            moved_to: emptied.moved_to.as_ref().map(RepoPath::to_string),
        };
        emptied.iter().map(value).collect()
    }
}

/// Says that a pattern changes nothing, and why.
fn tell_same(context: &Context, why: &str, pattern: &OsString) {
    let pattern = shown(pattern.as_bytes());
    context.ui.warn(format_args!("{why} '{pattern}'"));
}

#[derive(Serialize)]
struct Document {
    subset: Vec<String>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let mut subset = repo.subset()?;
    match args.action.as_ref().unwrap_or(&Action::Show) {
        Action::Show => return show(context, &subset),
        Action::Add { patterns } => {
            if subset.is_everything() {
                let text =
                    "the worktree already has all paths; to limit it: dmv subset set PATTERN";
                context.ui.note(format_args!("note: {text}"));
            }
            for pattern in patterns {
                let more = subset.with(pattern.as_bytes()).map_err(bad)?;
                if more == subset && !subset.is_everything() {
                    tell_same(context, "the subset already includes", pattern);
                }
                subset = more;
            }
        }
        Action::Remove { patterns } => {
            for pattern in patterns {
                let less = subset.without(pattern.as_bytes()).map_err(bad)?;
                if less == subset {
                    tell_same(context, "the subset does not include", pattern);
                }
                subset = less;
            }
        }
        Action::Set {
            patterns,
            subset_file,
        } => {
            subset = match subset_file {
                Some(file) => read_file(context, &repo, file)?,
                None => of(patterns)?,
            };
        }
        Action::Clear => subset = Subset::everything(),
    }
    let (settings, asked) = (context.settings()?, context.asked()?);
    let report = supplied(context, &repo, "checking out", || {
        repo.set_subset(subset.clone(), &settings, asked.clone(), &context.job)
    })?;
    finish(context, &report, false)
}

fn show(context: &Context, subset: &Subset) -> Result<u8, Failure> {
    let ui = &context.ui;
    if context.globals.json {
        ui.json(&Document {
            subset: patterns(subset),
        })?;
        return Ok(EXIT_OK);
    }
    for pattern in subset.patterns() {
        writeln!(ui.out(), "{}", shown(pattern))?;
    }
    if subset.is_everything() {
        ui.note(format_args!("the worktree has all paths"));
    }
    Ok(EXIT_OK)
}

/// The patterns of a subset, for JSON. None: all paths.
pub fn patterns(subset: &Subset) -> Vec<String> {
    subset.patterns().map(shown).collect()
}

/// A pattern as it is shown. It could be typed again unless it has invisible or broken characters.
pub fn shown(pattern: &[u8]) -> String {
    match std::str::from_utf8(pattern) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => escape(pattern).to_string(),
    }
}

fn of(patterns: &[OsString]) -> Result<Subset, Failure> {
    Subset::new(patterns.iter().map(|p| p.as_bytes())).map_err(bad)
}

/// The patterns in a file on disk, or in the file that `REV:PATH` names.
fn read_file(context: &Context, repo: &Repo, arg: &OsString) -> Result<Subset, Failure> {
    let mut text = Vec::new();
    let path = Path::new(arg);
    let limit = dmv_core::limits::MAX_SUBSET_BYTES as u64 * 2 + 1;
    if path.exists() || split_path(arg.as_bytes()).1.is_none() {
        let file = std::fs::File::open(path);
        file.and_then(|file| file.take(limit).read_to_end(&mut text))
            .map_err(|e| Failure::file("read", path, &e))?;
    } else {
        let place = context.place(repo, arg)?;
        match &place.located {
            Located::Entry(entry) if entry.kind.is_blob() => {
                repo.cat(blob_of(entry), Some(0..limit), &mut text)?;
            }
            _ => {
                let path = place.path.as_bytes().to_vec();
                let what = "not a file";
                return Err(RepoError::WrongKind { path, what }.into());
            }
        }
    }
    Subset::parse(&text).map_err(bad)
}

fn bad(e: dmv_core::subset::SubsetError) -> Failure {
    Failure::usage(e.to_string()).hint("dmv subset --help")
}
