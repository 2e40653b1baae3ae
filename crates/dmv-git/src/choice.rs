//! Which branches and tags go over.

use crate::error::GitError;
use dmv_core::glob::Glob;

/// A choice of branches by patterns. Without patterns, all branches and tags are wanted.
pub struct BranchChoice<'p>(Vec<(&'p str, Glob)>);

impl<'p> BranchChoice<'p> {
    /// Reads patterns. Fails with [`GitError::Pattern`].
    pub fn parse(patterns: &'p [String]) -> Result<BranchChoice<'p>, GitError> {
        let parse = |pattern: &'p String| {
            let glob = Glob::parse(pattern.as_bytes()).map_err(|fault| GitError::Pattern {
                pattern: pattern.clone(),
                fault,
            });
            Ok((&pattern[..], glob?))
        };
        let globs: Result<_, GitError> = patterns.iter().map(parse).collect();
        Ok(BranchChoice(globs?))
    }

    /// Returns whether a branch or tag is wanted, by its key (`branch/NAME` or `tag/NAME`).
    pub fn wants(&self, key: &str) -> bool {
        self.0.is_empty()
            || key
                .strip_prefix("branch/")
                .is_some_and(|name| self.has(name))
    }

    fn has(&self, branch: &str) -> bool {
        self.0
            .iter()
            .any(|(_, glob)| glob.matches(branch.as_bytes()))
    }

    /// Fails with [`GitError::NoBranch`] if a pattern matches none of the branches that there are.
    pub fn check<'b>(&self, branches: impl Iterator<Item = &'b str>) -> Result<(), GitError> {
        let there: Vec<&str> = branches.collect();
        let is_unknown = |glob: &Glob| !there.iter().any(|name| glob.matches(name.as_bytes()));
        match self.0.iter().find(|(_, glob)| is_unknown(glob)) {
            None => Ok(()),
            Some((pattern, _)) => Err(GitError::NoBranch {
                pattern: (*pattern).to_owned(),
                there: there.into_iter().map(str::to_owned).collect(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_that_matches_no_branch_is_named() {
        let patterns = ["m*".to_owned(), "x".to_owned()];
        let choice = BranchChoice::parse(&patterns).expect("patterns");
        assert!(choice.wants("branch/main") && !choice.wants("branch/side"));
        assert!(!choice.wants("tag/main"));
        assert!(choice.check(["main", "x"].into_iter()).is_ok());
        let refused = choice.check(["main", "side"].into_iter());
        let Err(GitError::NoBranch { pattern, there }) = refused else {
            panic!("it is refused");
        };
        assert_eq!((&pattern[..], there.len()), ("x", 2));
        let all = BranchChoice::parse(&[]).expect("none");
        assert!(all.wants("tag/v1") && all.check(std::iter::empty()).is_ok());
    }
}
