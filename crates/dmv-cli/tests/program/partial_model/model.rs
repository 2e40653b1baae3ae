//! What the repositories should hold.

use std::collections::{BTreeMap, BTreeSet};

/// Contents by their paths; a content is known by its number.
pub type Tree = BTreeMap<String, usize>;

#[derive(Clone)]
pub struct Commit {
    pub tree: Tree,
    pub parents: Vec<String>,
    /// It holds conflicts: its tree is not known.
    pub conflicted: bool,
}

/// Which paths a worktree has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// Of a path that no pattern names.
    pub rest: bool,
    /// Files and directories, in or out; the last that names a path decides.
    pub named: Vec<(String, bool)>,
}

impl Paths {
    pub fn all() -> Paths {
        let named = Vec::new();
        Paths { rest: true, named }
    }

    pub fn of(names: &[String]) -> Paths {
        let named = names.iter().map(|name| (name.clone(), true)).collect();
        Paths { rest: false, named }
    }

    pub fn has(&self, path: &str) -> bool {
        let names = |name: &str| {
            path.strip_prefix(name)
                .is_some_and(|p| p.is_empty() || p.starts_with('/'))
        };
        let last = self.named.iter().rev().find(|(name, _)| names(name));
        last.map_or(self.rest, |(_, is_in)| *is_in)
    }
}

/// One repository and its worktree.
#[derive(Clone)]
pub struct Repo {
    pub dir: &'static str,
    /// A branch, or the id of a commit.
    pub head: String,
    pub branches: BTreeMap<String, String>,
    pub paths: Paths,
    /// What is on disk and differs from the commit; `None`: deleted.
    pub edits: BTreeMap<String, Option<usize>>,
    /// Edits that were put aside, the newest last.
    pub stashes: Vec<Stash>,
}

/// Edits that were put aside.
#[derive(Clone)]
pub struct Stash {
    /// The commit that they were made on.
    pub from: String,
    pub edits: BTreeMap<String, Option<usize>>,
}

impl Repo {
    /// The commit that the worktree is on.
    pub fn tip(&self) -> &str {
        self.branches.get(&self.head).unwrap_or(&self.head)
    }

    pub fn is_on_branch(&self) -> bool {
        self.branches.contains_key(&self.head)
    }
}

#[derive(Default)]
pub struct Model {
    pub commits: BTreeMap<String, Commit>,
    pub repos: Vec<Repo>,
}

/// What a merge makes.
pub enum Merged {
    /// Theirs is known already.
    Nothing,
    Forward,
    Clean(Tree),
    /// The tree with ours and with theirs at the paths in conflict, and those.
    Conflicts([Tree; 2], BTreeSet<String>),
    /// Several merge bases, or conflicts in what is merged.
    Unknown,
}

impl Model {
    pub fn tree(&self, id: &str) -> &Tree {
        &self.commits[id].tree
    }

    pub fn ancestors(&self, id: &str) -> BTreeSet<String> {
        let mut seen = BTreeSet::new();
        let mut stack = vec![id.to_owned()];
        while let Some(id) = stack.pop() {
            if seen.insert(id.clone()) {
                stack.extend(self.commits[&id].parents.iter().cloned());
            }
        }
        seen
    }

    /// The common ancestors that no other one descends from.
    fn bases(&self, a: &str, b: &str) -> Vec<String> {
        let common: BTreeSet<String> = &self.ancestors(a) & &self.ancestors(b);
        let is_best = |id: &&String| {
            let mut others = common.iter().filter(|other| other != id);
            !others.any(|other| self.ancestors(other).contains(*id))
        };
        common.iter().filter(is_best).cloned().collect()
    }

    /// A three-way merge of whole files.
    pub fn merge(&self, ours: &str, theirs: &str) -> Merged {
        let bases = self.bases(ours, theirs);
        let [base] = bases.as_slice() else {
            return Merged::Unknown;
        };
        if base == theirs {
            return Merged::Nothing;
        }
        if base == ours {
            return Merged::Forward;
        }
        let conflicted = |id: &str| self.commits[id].conflicted;
        if conflicted(base) || conflicted(ours) || conflicted(theirs) {
            return Merged::Unknown;
        }
        Model::merge_trees(self.tree(base), self.tree(ours), self.tree(theirs))
    }

    /// The trees of a commit's parent and of the commit, if it is no merge and both are known.
    pub fn change_of(&self, id: &str) -> Option<(Tree, Tree)> {
        let commit = &self.commits[id];
        let base = match &commit.parents[..] {
            [] => Tree::new(),
            [parent] if !self.commits[parent].conflicted => self.tree(parent).clone(),
            _ => return None,
        };
        (!commit.conflicted).then(|| (base, commit.tree.clone()))
    }

    /// Merges whole files: all is clean, or in conflict.
    pub fn merge_trees(base: &Tree, ours: &Tree, theirs: &Tree) -> Merged {
        let (mut trees, mut conflicts) = ([Tree::new(), Tree::new()], BTreeSet::new());
        let paths: BTreeSet<&String> = base
            .keys()
            .chain(ours.keys())
            .chain(theirs.keys())
            .collect();
        for path in paths {
            let (b, o, t) = (base.get(path), ours.get(path), theirs.get(path));
            let results = match () {
                () if o == t || t == b => [o, o],
                () if o == b => [t, t],
                () => {
                    conflicts.insert(path.clone());
                    [o, t]
                }
            };
            for (tree, result) in trees.iter_mut().zip(results) {
                tree.extend(result.map(|n| (path.clone(), *n)));
            }
        }
        if conflicts.is_empty() {
            Merged::Clean(std::mem::take(&mut trees[0]))
        } else {
            Merged::Conflicts(trees, conflicts)
        }
    }
}

/// The bytes of a content: nothing that any other has in it, some of several chunks.
pub fn content(n: usize) -> Vec<u8> {
    let len = match n % 6 {
        0 => 150_000 + n,
        _ => 60 + n,
    };
    let mut state = n as u64;
    let mut out = (n as u64).to_le_bytes().to_vec();
    while out.len() < len {
        state = next(state);
        out.extend(mixed(state).to_le_bytes());
    }
    out.truncate(len);
    out
}

/// Which content these bytes are.
pub fn number_of(bytes: &[u8]) -> Option<usize> {
    let n = u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?) as usize;
    (n < 1 << 20 && content(n) == bytes).then_some(n)
}

/// splitmix64 (Steele, Lea, Flood 2014).
pub fn next(state: u64) -> u64 {
    state.wrapping_add(0x9E37_79B9_7F4A_7C15)
}

pub fn mixed(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
