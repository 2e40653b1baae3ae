//! How a conflict is told where a commit has one: its kind, its versions, and where they come from.

use crate::context::Context;
use crate::failure::Failure;
use crate::format::json::{Json, ToJson, object};
use crate::format::text::{SHORT_ID, bytes};
use dmv_core::hash::ObjectId;
use dmv_core::object::conflict::Term;
use dmv_core::object::name::RepoPath;
use dmv_core::object::tree::TreeEntry;
use dmv_core::repo::Repo;
use std::io::Write;

/// A conflict, as `diff` and `show` print it.
pub struct ConflictTold {
    kind: &'static str,
    versions: Vec<Version>,
}

struct Version {
    name: String,
    /// `None`: this side has nothing there.
    term: Option<Term>,
    /// The commit that has it there, if it is known.
    commit: Option<ObjectId>,
}

impl ToJson for ConflictTold {
    fn to_json(&self) -> Json {
        let version = |version: &Version| {
            let term = version.term.as_ref();
            object! {
                version.{name},
                kind: term.map(|term| term.kind.word()),
                size: term.map(|term| term.size),
                id: term.map(|term| term.id),
                version.{commit},
            }
        };
        let versions = self.versions.iter().map(version);
        object! { self.{kind}, versions: Json::List(versions.collect()) }
    }
}

impl ConflictTold {
    /// Reads the conflict at `path`. Its versions are looked for in `commits`.
    pub fn read(
        repo: &Repo,
        path: &RepoPath,
        entry: &TreeEntry,
        commits: &[ObjectId],
    ) -> Result<ConflictTold, Failure> {
        let at = repo.conflict_of(path, entry)?;
        let mut versions = Vec::new();
        for (name, term) in at.versions() {
            let commit = match &term {
                Some(term) => repo.origin_of(path, term, commits)?,
                None => None,
            };
            versions.push(Version { name, term, commit });
        }
        Ok(ConflictTold {
            kind: at.kind().word(),
            versions,
        })
    }

    /// What kind of question it asks.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// Prints its kind and a line for each version.
    pub fn print(&self, context: &Context) -> Result<(), Failure> {
        let mut out = context.ui.out();
        writeln!(out, "unresolved: {}", self.kind)?;
        for version in &self.versions {
            let Some(term) = &version.term else {
                writeln!(out, "  {:<7} nothing", version.name)?;
                continue;
            };
            let origin = match &version.commit {
                Some(id) => format!(", as in {}", id.short(SHORT_ID)),
                None => String::new(),
            };
            let (kind, size) = (term.kind.word(), bytes(term.size));
            writeln!(out, "  {:<7} {kind}, {size}{origin}", version.name)?;
        }
        Ok(())
    }
}
