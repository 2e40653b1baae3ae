//! Whether the ignore rules cover a single path, and the line that makes them cover it.

use crate::fsutil::FileKind;
use crate::object::ObjectError;
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeIter, lookup_path};
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use crate::repo::base::worktree::WorktreeSettings;
use crate::repo::conflict::settle::stat_of;
use crate::repo::files::open_worktree;
use crate::repo::files::open_worktree::OpenWorktree;
use crate::repo::look::entries::path_in;
use crate::repo::look::lack;
use crate::subset::Extent;
use crate::worktree::ignore::{RuleFiles, Verdict};
use crate::worktree::join;

/// Returns whether the ignore rules cover `path`, or a directory above it.
pub fn verdict(
    repo: &Repo,
    tree: &OpenWorktree,
    path: &RepoPath,
    is_dir: bool,
) -> Result<Verdict, RepoError> {
    verdict_with(repo, tree, path, is_dir, None)
}

/// Like [`verdict`], as if the ignore file in the worktree's root had the text `root`.
pub fn verdict_with(
    repo: &Repo,
    tree: &OpenWorktree,
    path: &RepoPath,
    is_dir: bool,
    root: Option<&[u8]>,
) -> Result<Verdict, RepoError> {
    let known = tree.known(repo);
    let mut rules = tree.ignore.clone();
    let mut dir = Some(tree.root.try_clone()?);
    let mut at = Vec::new();
    let mut names = path.as_bytes().split(|b| *b == b'/').peekable();
    while let Some(name) = names.next() {
        let is_listed = |name: &[u8]| dir.as_ref().is_some_and(|dir| dir.stat(name).is_ok());
        let files = RuleFiles {
            dir: dir.as_ref(),
            is_listed: &is_listed,
            known: &*known,
            subset: &tree.subset,
            instead: root.filter(|_| at.is_empty()),
        };
        rules = rules.enter(&at, &files, &mut Vec::new());
        at = join(&at, name);
        let is_last = names.peek().is_none();
        let verdict = rules.verdict(&at, is_dir || !is_last);
        if is_last || verdict == Verdict::Ignored {
            return Ok(verdict);
        }
        // A missing directory has no rules of its own on disk.
        dir = dir.and_then(|dir| dir.open_dir(name).ok());
    }
    Ok(Verdict::Wanted)
}

impl Repo {
    /// Returns which of these paths the ignore rules leave out: those that they cover and the
    /// worktree's commit does not have.
    pub fn left_out<'p>(
        &self,
        paths: &'p [RepoPath],
        settings: &WorktreeSettings,
    ) -> Result<Vec<&'p RepoPath>, RepoError> {
        let mut out = Vec::new();
        if paths.iter().all(RepoPath::is_root) {
            return Ok(out);
        }
        let tree = open_worktree::open_as_far(self, settings)?;
        let base = tree.base.map(|id| self.read_commit(&id)).transpose()?;
        for path in paths.iter().filter(|path| !path.is_root()) {
            let is_tracked = match &base {
                Some(commit) => match lookup_path(self.objects(), &commit.tree, path) {
                    Ok(found) => found.is_some(),
                    // What is in an absent directory is unknown.
                    Err(ObjectError::Missing { .. }) => true,
                    Err(e) => return Err(e.into()),
                },
                None => false,
            };
            if !is_tracked {
                let stat = stat_of(&tree.root, path.as_bytes())?;
                let is_dir = stat.is_some_and(|stat| stat.kind == FileKind::Dir);
                if verdict(self, &tree, path, is_dir)? == Verdict::Ignored {
                    out.push(path);
                }
            }
        }
        Ok(out)
    }

    /// Fails with [`AbsentError::Lacking`](crate::repo::AbsentError::Lacking) if the rules of an ignore
    /// file outside of the worktree's subset hold in it, and its content is absent.
    pub fn check_rules_here(&self, settings: &WorktreeSettings) -> Result<(), RepoError> {
        if !self.is_partial() {
            return Ok(());
        }
        let tree = open_worktree::open(self, settings)?;
        let mut dirs = Vec::from_iter(tree.base_tree.map(|root| (RepoPath::root(), root)));
        let mut found = Vec::new();
        while let Some((dir, id)) = dirs.pop() {
            for entry in TreeIter::new(self.objects(), id) {
                let entry = entry?;
                let path = path_in(self, &dir, id, &entry)?;
                let bytes = path.as_bytes();
                if entry.kind == Kind::Directory {
                    // All of a directory, or nothing of it, has its ignore files as well.
                    if tree.subset.extent(bytes) == Extent::Part {
                        dirs.push((path, entry.id));
                    }
                } else if tree.ignore.is_ignore_file(entry.name.as_bytes())
                    && !tree.subset.includes(bytes, false)
                {
                    found.push((path, entry));
                }
            }
        }
        let found = found.iter().map(|(path, entry)| (path.as_bytes(), entry));
        lack::check_entries_here(self, found)
    }
}

/// Returns the line of an ignore file in the root that covers this path.
///
/// It covers no other path, with one exception: an ignore file is text, so a wildcard stands for a
/// line feed, a carriage return, and a byte that is not UTF-8.
pub fn line_for(path: &RepoPath, is_dir: bool) -> String {
    let mut line = "/".to_owned();
    for part in path.as_bytes().utf8_chunks() {
        for c in part.valid().chars() {
            match c {
                '\n' | '\r' => line.push_str("[[:cntrl:]]"),
                '*' | '?' | '[' | '\\' => line.extend(['\\', c]),
                c => line.push(c),
            }
        }
        line.extend(part.invalid().iter().map(|_| '?'));
    }
    if is_dir {
        line.push('/');
    } else if line.ends_with(' ') {
        // A space at the end would be cut off.
        line.insert(line.len() - 1, '\\');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::glob::list::{Pattern, PatternList, lines};

    #[test]
    fn the_line_for_a_path_covers_it_and_no_other() -> Result<(), Box<dyn std::error::Error>> {
        let names = [
            "a", "a b ", "x*", "[ab]", "!a", "#a", "a\\b", "{a,b}", "é?", " a", "a\t", "a\\ ", "]",
            "**", "a  ", "-a",
        ];
        for name in names {
            let line = line_for(&RepoPath::parse(name.as_bytes())?, false) + "\n";
            let found: Vec<&[u8]> = lines(line.as_bytes()).map(|(_, line)| line).collect();
            assert_eq!(found.len(), 1, "{line:?}");
            let rules = PatternList::new(vec![Pattern::parse(found[0])?]);
            for other in names {
                let is_covered = rules.last(other.as_bytes(), false).is_some();
                assert_eq!(is_covered, other == name, "{line:?} and {other:?}");
            }
            assert_eq!(rules.last(format!("d/{name}").as_bytes(), false), None);
        }
        for name in ["a\nb", "\n", "a\r"] {
            let line = line_for(&RepoPath::parse(name.as_bytes())?, false);
            let rules = PatternList::new(vec![Pattern::parse(line.as_bytes())?]);
            assert_eq!(rules.last(name.as_bytes(), false), Some(0), "{line}");
            assert_eq!(rules.last(b"a", false), None, "{line}");
        }
        let latin = line_for(&RepoPath::parse(b"caf\xe9.txt")?, false);
        assert_eq!(latin, "/caf?.txt");
        assert_eq!(line_for(&RepoPath::parse(b"d/e ")?, true), "/d/e /");
        Ok(())
    }
}
