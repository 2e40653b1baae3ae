//! How a conflict is told where a commit has one: its kind, its versions, and where they come from.

use crate::context::Context;
use crate::failure::Failure;
use crate::format::text::{SHORT_ID, bytes};
use dmv_core::hash::ObjectId;
use dmv_core::object::name::RepoPath;
use dmv_core::object::tree::TreeEntry;
use dmv_core::repo::Repo;
use serde::Serialize;
use std::io::Write;

/// A conflict, as `diff` and `show` tell it.
#[derive(Serialize)]
pub struct ConflictTold {
    kind: &'static str,
    versions: Vec<Version>,
}

#[derive(Serialize)]
struct Version {
    name: String,
    /// None: this side has nothing there.
    kind: Option<&'static str>,
    size: Option<u64>,
    id: Option<String>,
    /// The commit that has it there, if it is known.
    commit: Option<String>,
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
            versions.push(Version {
                name,
                kind: term.map(|term| term.kind.word()),
                size: term.map(|term| term.size),
                id: term.map(|term| term.id.to_string()),
                commit: commit.map(|id| id.to_string()),
            });
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
            let Some((kind, size)) = version.kind.zip(version.size) else {
                writeln!(out, "  {:<7} nothing", version.name)?;
                continue;
            };
            let origin = match &version.commit {
                Some(id) => format!(", as in {}", &id[..SHORT_ID]),
                None => String::new(),
            };
            writeln!(out, "  {:<7} {kind}, {}{origin}", version.name, bytes(size))?;
        }
        Ok(())
    }
}
