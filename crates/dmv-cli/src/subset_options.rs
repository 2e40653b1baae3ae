//! The options that limit a command to a subset of paths, and what is said about such a subset.

use crate::candidates;
use crate::context::Context;
use crate::error::way_to_name;
use crate::failure::Failure;
use crate::format::json::{Json, object};
use crate::format::text::shown;
use crate::ownership::path_argument;
use crate::path_arguments::place;
use dmv_core::escape::Argument;
use dmv_core::hash::ObjectId;
use dmv_core::hint;
use dmv_core::object::name::{RepoPath, escape};
use dmv_core::platform::bytes_of;
use dmv_core::repo::{
    EmptiedPattern, IdlePattern, Location, LookError, Repo, RepoError, blob_of, split_path,
};
use dmv_core::subset::{Subset, Union};
use std::ffi::OsString;
use std::io::Read;
use std::path::Path;

/// The options that name a subset.
#[derive(clap::Args)]
#[group(id = "limit", multiple = false)]
pub struct LimitArgs {
    /// Use only these paths: files or directories from the root, or wildcards; ! excludes
    #[arg(long, value_name = "PATTERN", num_args = 1.., add = candidates::pattern())]
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
pub fn tell_idle(context: &Context, idle: &[IdlePattern]) {
    for IdlePattern { pattern, namesake } in idle {
        let pattern = shown(pattern);
        let text = format_args!("nothing in the commit matches '{pattern}'");
        context.ui.warn(text);
        if let Some(path) = namesake {
            context.ui.note(hint!("hint: {}", way_to_name(path)));
        }
    }
}

/// Says which files were there already when the subset came to have their paths.
pub fn tell_adopted(context: &Context, adopted: &[RepoPath]) {
    let ui = &context.ui;
    for path in adopted {
        let path = escape(path);
        ui.warn(format_args!(
            "{path}: your file stays, and counts as an edit of what the commit has"
        ));
    }
    if let Some(first) = adopted.first() {
        let path = path_argument(first.as_bytes());
        ui.note(hint!(
            "hint: dmv diff -- {}; for the version of the commit: dmv restore {}",
            path,
            path
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
            ui.note("hint: dmv ls, then dmv subset set PATTERN");
            continue;
        };
        ui.warn(format_args!(
            "nothing in this commit matches '{pattern}' of the worktree's subset any more; it is now at {place}"
        ));
        let verb = match subset.patterns().count() {
            1 => "set",
            _ => "add",
        };
        let place = Argument::pattern(place.as_bytes());
        ui.note(hint!("hint: dmv subset {} {}", verb, place));
    }
}

/// Patterns that have lost all that they named, in JSON.
pub fn emptied_values(emptied: &[EmptiedPattern]) -> Json {
    let value = |emptied: &EmptiedPattern| {
        let moved_to = emptied.moved_to.as_ref();
        object! { pattern: shown(&emptied.pattern), moved_to: moved_to.map(RepoPath::to_string) }
    };
    Json::List(emptied.iter().map(value).collect())
}

/// The subset that some arguments name.
pub fn of(patterns: &[OsString]) -> Result<Subset, Failure> {
    Subset::new(patterns.iter().map(bytes_of)).map_err(bad)
}

/// The patterns in a file on disk, or in the file that `REV:PATH` names.
pub fn read_file(context: &Context, repo: &Repo, arg: &OsString) -> Result<Subset, Failure> {
    let mut text = Vec::new();
    let path = Path::new(arg);
    let limit = dmv_core::limits::MAX_SUBSET_BYTES as u64 * 2 + 1;
    if path.exists() || split_path(bytes_of(arg)).1.is_none() {
        let file = std::fs::File::open(path);
        file.and_then(|file| file.take(limit).read_to_end(&mut text))
            .map_err(|e| Failure::file("read", path, &e))?;
    } else {
        let place = place(context, repo, arg)?;
        match &place.located {
            Location::Entry(entry) if entry.kind.is_blob() => {
                repo.cat(blob_of(entry), Some(0..limit), &mut text)?;
            }
            _ => {
                let path = place.path.clone();
                let what = "not a file";
                return Err(RepoError::Look(LookError::WrongKind { path, what }).into());
            }
        }
    }
    Subset::parse(&text).map_err(bad)
}

/// The failure for patterns that make no subset.
pub fn bad(e: dmv_core::subset::SubsetError) -> Failure {
    Failure::usage(e.to_string()).hint("dmv subset --help")
}
