//! Whether the ignore rules cover a single path, and the line that makes them cover it.

use crate::object::name::RepoPath;
use crate::repo::base::error::RepoError;
use crate::repo::base::handle::Handle;
use crate::repo::base::worktree::WorktreeSettings;
use crate::repo::files::open_worktree;
use crate::repo::files::open_worktree::OpenWorktree;
use crate::worktree::ignore::{DMVIGNORE, GITIGNORE};
use crate::worktree::join;

/// Returns whether the ignore rules cover `path`, or a directory above it.
pub(in crate::repo) fn is_ignored(
    tree: &OpenWorktree,
    path: &RepoPath,
    is_dir: bool,
) -> Result<bool, RepoError> {
    let mut rules = tree.ignore.clone();
    let mut dir = Some(tree.root.try_clone()?);
    let mut at = Vec::new();
    let mut names = path.as_bytes().split(|b| *b == b'/').peekable();
    while let Some(name) = names.next() {
        if let Some(dir) = &dir {
            let is_there = |name: &&[u8]| rules.is_ignore_file(name) && dir.stat(name).is_ok();
            let files: Vec<&[u8]> = [GITIGNORE, DMVIGNORE]
                .into_iter()
                .filter(is_there)
                .collect();
            rules = rules.enter(dir, &at, &files, &mut Vec::new());
        }
        at = join(&at, name);
        let is_last = names.peek().is_none();
        if rules.ignores(&at, is_dir || !is_last) {
            return Ok(true);
        }
        // A directory that is missing has no rules.
        dir = dir.and_then(|dir| dir.open_dir(name).ok());
    }
    Ok(false)
}

/// Returns whether the ignore rules of the worktree cover the file at `path`.
pub(in crate::repo) fn covers(
    repo: &Handle,
    path: &RepoPath,
    settings: &WorktreeSettings,
) -> Result<bool, RepoError> {
    is_ignored(&open_worktree::open(repo, settings)?, path, false)
}

/// Returns the line of an ignore file in the root that covers exactly this path. `None` if no line
/// can: an ignore file is text.
pub(in crate::repo) fn line_for(path: &RepoPath, is_dir: bool) -> Option<String> {
    let text = std::str::from_utf8(path.as_bytes()).ok()?;
    if text.contains(['\n', '\r']) {
        return None;
    }
    let mut line = "/".to_owned();
    let last = text.len() - 1;
    for (at, c) in text.char_indices() {
        // A space at the end would be cut off.
        if matches!(c, '*' | '?' | '[' | ']' | '\\' | '{' | '}') || c == ' ' && at == last {
            line.push('\\');
        }
        line.push(c);
    }
    if is_dir {
        line.push('/');
    }
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fsutil::SafeDir;
    use crate::worktree::ignore::IgnoreRules;

    #[test]
    fn the_line_for_a_path_covers_it_and_no_other() -> Result<(), Box<dyn std::error::Error>> {
        let names = ["a", "a b ", "x*", "[ab]", "!a", "#a", "a\\b", "{a,b}", "é?"];
        for name in names {
            let temp = tempfile::tempdir()?;
            let path = RepoPath::parse(name.as_bytes())?;
            let line = line_for(&path, false).ok_or("no line")?;
            std::fs::write(temp.path().join(".dmvignore"), format!("{line}\n"))?;
            let root = SafeDir::open_root(temp.path())?;
            let mut warnings = Vec::new();
            let rules = IgnoreRules::default().enter(&root, b"", &[DMVIGNORE], &mut warnings);
            assert!(warnings.is_empty(), "{line}: {warnings:?}");
            for other in names {
                let is_covered = rules.ignores(other.as_bytes(), false);
                assert_eq!(is_covered, other == name, "{line} and {other}");
            }
            assert!(!rules.ignores(format!("d/{name}").as_bytes(), false));
        }
        assert_eq!(line_for(&RepoPath::parse(b"a\nb")?, false), None);
        assert_eq!(line_for(&RepoPath::parse(b"\xff")?, false), None);
        assert_eq!(
            line_for(&RepoPath::parse(b"d/e")?, true).as_deref(),
            Some("/d/e/")
        );
        Ok(())
    }
}
