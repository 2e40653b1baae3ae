//! Which branches and tags go over.

use crate::error::GitError;
use dmv_core::glob::Glob;

/// A choice of branches by patterns. Without patterns, all branches and tags are wanted.
pub struct BranchChoice(Vec<Glob>);

impl BranchChoice {
    /// Reads patterns. Fails with [`GitError::Pattern`].
    pub fn parse(patterns: &[String]) -> Result<BranchChoice, GitError> {
        let parse = |pattern: &String| {
            Glob::parse(pattern.as_bytes()).map_err(|fault| GitError::Pattern {
                pattern: pattern.clone(),
                fault,
            })
        };
        Ok(BranchChoice(
            patterns.iter().map(parse).collect::<Result<_, _>>()?,
        ))
    }

    /// Returns whether a branch or tag is wanted, by its key (`branch/NAME` or `tag/NAME`).
    pub fn wants(&self, key: &str) -> bool {
        let branch = key.strip_prefix("branch/").map(str::as_bytes);
        let is_chosen = |name| self.0.iter().any(|glob| glob.matches(name));
        self.0.is_empty() || branch.is_some_and(is_chosen)
    }
}
