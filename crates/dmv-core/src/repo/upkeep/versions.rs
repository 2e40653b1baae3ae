//! Which versions of paths the keep rules keep: a pure decision over the changes of commits.
//!
//! A version of a path is a content that it has had. Paths and contents are numbers here; `expire`
//! knows what they stand for.

use crate::repo::upkeep::rules::KeepRule;
use std::collections::{HashMap, HashSet};

const SECONDS_PER_DAY: i64 = 24 * 60 * 60;

/// A commit.
#[derive(Clone, Debug, Default)]
pub(super) struct Step {
    /// Its time, in seconds since 1970.
    pub time: i64,
    /// The place of its first parent among the commits, if that is stored.
    pub parent: Option<usize>,
    /// How it differs from its first parent.
    pub changes: Vec<ChangedPath>,
}

/// A path that a commit changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChangedPath {
    pub path: u32,
    /// The content before, if it was a file.
    pub old: Option<u32>,
    /// The content since then, if it is a file.
    pub new: Option<u32>,
}

/// Returns the versions that stay: pairs of a path and a content.
///
/// `rules` has a rule for each path, and `lines` the places of the commits that branches name. A branch
/// consists of the first parents of its commit. So a merge adds no versions, except its own.
pub(super) fn kept(
    rules: &[KeepRule],
    steps: &[Step],
    lines: &[usize],
    now: i64,
) -> HashSet<(u32, u32)> {
    let mut kept = HashSet::new();
    for line in lines {
        keep_newest(rules, steps, *line, &mut kept);
    }
    keep_since(rules, steps, lines, now, &mut kept);
    kept
}

/// Keeps the newest versions on one branch of the paths with the rule `last`.
fn keep_newest(rules: &[KeepRule], steps: &[Step], line: usize, kept: &mut HashSet<(u32, u32)>) {
    let mut newest: HashMap<u32, Vec<u32>> = HashMap::new();
    each_step(steps, line, |step| {
        for ChangedPath { path, new, .. } in &step.changes {
            let (Some(new), KeepRule::Last(number)) = (*new, rules[*path as usize]) else {
                continue;
            };
            let versions = newest.entry(*path).or_default();
            if versions.len() < number as usize && !versions.contains(&new) {
                versions.push(new);
                kept.insert((*path, new));
            }
        }
    });
}

/// Keeps what commits had within some days, of the paths with the rule `days`: what they changed, what
/// was there before, and what has not changed since.
fn keep_since(
    rules: &[KeepRule],
    steps: &[Step],
    lines: &[usize],
    now: i64,
    kept: &mut HashSet<(u32, u32)>,
) {
    let since = |path: u32| match rules[path as usize] {
        KeepRule::Days(days) => Some(now.saturating_sub(i64::from(days) * SECONDS_PER_DAY)),
        _ => None,
    };
    for step in steps {
        for ChangedPath { path, old, new } in &step.changes {
            if since(*path).is_some_and(|since| step.time >= since) {
                let both = [*old, *new].into_iter().flatten();
                kept.extend(both.map(|content| (*path, content)));
            }
        }
    }
    // A branch that was merged and deleted ends at a commit that is nobody's first parent.
    let parents: HashSet<usize> = steps.iter().filter_map(|step| step.parent).collect();
    let merged = (0..steps.len()).filter(|at| !parents.contains(at));
    let lines: HashSet<usize> = lines.iter().copied().collect();
    let ends: HashSet<usize> = merged.chain(lines.iter().copied()).collect();
    for end in ends {
        let is_line = lines.contains(&end);
        let mut seen = HashSet::new();
        each_step(steps, end, |step| {
            for ChangedPath { path, new, .. } in &step.changes {
                let Some(since) = since(*path) else {
                    continue;
                };
                if seen.insert(*path) && (is_line || steps[end].time >= since) {
                    kept.extend(new.map(|content| (*path, content)));
                }
            }
        });
    }
}

/// Visits a commit and its first parents, newest first.
fn each_step(steps: &[Step], from: usize, mut visit: impl FnMut(&Step)) {
    let mut next = Some(from);
    while let Some(at) = next {
        visit(&steps[at]);
        next = steps[at].parent;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    const PATHS: u32 = 4;
    const NOW: i64 = 100 * SECONDS_PER_DAY;

    type Tree = BTreeMap<u32, u32>;

    /// A history as complete trees: the simple model.
    #[derive(Clone, Debug)]
    struct Model {
        rules: Vec<KeepRule>,
        trees: Vec<Tree>,
        parents: Vec<Option<usize>>,
        times: Vec<i64>,
        lines: Vec<usize>,
    }

    impl Model {
        fn steps(&self) -> Vec<Step> {
            let none = Tree::new();
            let step = |at: usize| {
                let old = self.parents[at].map_or(&none, |parent| &self.trees[parent]);
                let new = &self.trees[at];
                let changed = (0..PATHS).filter(|path| old.get(path) != new.get(path));
                let changes = changed.map(|path| ChangedPath {
                    path,
                    old: old.get(&path).copied(),
                    new: new.get(&path).copied(),
                });
                Step {
                    time: self.times[at],
                    parent: self.parents[at],
                    changes: changes.collect(),
                }
            };
            (0..self.trees.len()).map(step).collect()
        }

        fn chain(&self, from: usize) -> Vec<usize> {
            let mut out = vec![from];
            while let Some(parent) = self.parents[out[out.len() - 1]] {
                out.push(parent);
            }
            out
        }

        fn keeps(&self, path: u32) -> BTreeSet<u32> {
            let content = |at: usize| self.trees[at].get(&path).copied();
            match self.rules[path as usize] {
                KeepRule::Last(number) => {
                    let mut out = BTreeSet::new();
                    for line in &self.lines {
                        let mut versions = Vec::new();
                        for at in self.chain(*line) {
                            versions.extend(content(at).filter(|new| !versions.contains(new)));
                        }
                        out.extend(versions.into_iter().take(number as usize));
                    }
                    out
                }
                KeepRule::Days(days) => {
                    let since = NOW - i64::from(days) * SECONDS_PER_DAY;
                    let recent = |at: &usize| self.times[*at] >= since;
                    let recent: Vec<usize> = (0..self.trees.len()).filter(recent).collect();
                    let before = recent.iter().filter_map(|at| self.parents[*at]);
                    let all = recent.iter().copied().chain(before);
                    all.chain(self.lines.clone()).filter_map(content).collect()
                }
                _ => BTreeSet::new(),
            }
        }
    }

    fn any_rule() -> impl Strategy<Value = KeepRule> {
        prop_oneof![
            (1..4u32).prop_map(KeepRule::Last),
            (1..90u32).prop_map(KeepRule::Days),
            Just(KeepRule::Tagged),
            Just(KeepRule::None),
        ]
    }

    fn any_model() -> impl Strategy<Value = Model> {
        let edit = (0..PATHS, prop::option::weighted(0.8, 0..6u32));
        let commit = (
            prop::collection::vec(edit, 0..4),
            any::<prop::sample::Index>(),
            prop::bool::weighted(0.8),
            0..20 * SECONDS_PER_DAY,
        );
        (
            prop::collection::vec(any_rule(), PATHS as usize),
            prop::collection::vec(commit, 1..16),
            prop::collection::vec(any::<prop::sample::Index>(), 1..4),
        )
            .prop_map(|(rules, commits, lines)| {
                let mut model = Model {
                    rules,
                    trees: Vec::new(),
                    parents: Vec::new(),
                    times: Vec::new(),
                    lines: Vec::new(),
                };
                for (edits, parent, follows, later) in commits {
                    let count = model.trees.len();
                    let parent = match (count, follows) {
                        (0, _) => None,
                        (_, true) => Some(count - 1),
                        (_, false) => Some(parent.index(count)),
                    };
                    let mut tree = parent.map_or(Tree::new(), |at| model.trees[at].clone());
                    for (path, content) in edits {
                        match content {
                            Some(content) => drop(tree.insert(path, content)),
                            None => drop(tree.remove(&path)),
                        }
                    }
                    let before = parent.map_or(0, |at| model.times[at]);
                    model.times.push(before + later);
                    model.trees.push(tree);
                    model.parents.push(parent);
                }
                let count = model.trees.len();
                model.lines = lines.iter().map(|line| line.index(count)).collect();
                model
            })
    }

    proptest! {
        #[test]
        fn the_rules_keep_what_the_simple_model_keeps(model in any_model()) {
            let found = kept(&model.rules, &model.steps(), &model.lines, NOW);
            for path in 0..PATHS {
                let of_path = found.iter().filter(|(at, _)| *at == path);
                let of_path: BTreeSet<u32> = of_path.map(|(_, content)| *content).collect();
                prop_assert_eq!(of_path, model.keeps(path), "path {}", path);
            }
        }
    }

    #[test]
    fn a_content_that_comes_back_is_one_version() {
        let change = |old, new| ChangedPath { path: 0, old, new };
        let steps: Vec<Step> = [
            (None, vec![change(None, Some(1))]),
            (Some(0), vec![change(Some(1), Some(2))]),
            (Some(1), vec![change(Some(2), None)]),
            (Some(2), vec![change(None, Some(1))]),
            (Some(3), vec![change(Some(1), Some(3))]),
        ]
        .into_iter()
        .map(|(parent, changes)| Step {
            time: 0,
            parent,
            changes,
        })
        .collect();
        let of = |rule| kept(&[rule], &steps, &[4], NOW);
        assert_eq!(of(KeepRule::Last(2)), [(0, 3), (0, 1)].into());
        assert_eq!(of(KeepRule::Last(3)).len(), 3);
        assert_eq!(of(KeepRule::Days(5)), [(0, 3)].into());
        assert!(of(KeepRule::None).is_empty());
    }
}
