//! Newer versions on other branches, beside a plain model of random histories.

// A failing test prints its seed.
#![allow(clippy::print_stdout)]

use dmv_core::job::Job;
use dmv_core::repo::{BranchPlace, ChangeKind, NewerOptions};
use dmv_core::subset::Subset;
use dmv_core::worktree::select::Paths;
use dmv_tests::garbage::set_keys;
use dmv_tests::graph::{Graph, Texts};
use dmv_tests::peers::{Done, Place};
use dmv_tests::rng::{Rng, number, seed};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// The number of histories in the ordinary run. `DMV_NEWER_ROUNDS` sets another number, and `DMV_SEED` the first
/// seed.
const ROUNDS: u64 = 40;

/// Some names are those of files and of directories.
const PATHS: [&str; 6] = ["a", "d/b", "d/c", "d", "e/f/g", "h"];

struct World {
    graph: Graph,
    /// Each commit with its ancestors.
    above: Vec<HashSet<usize>>,
}

impl World {
    fn random(rng: &mut Rng) -> Done<World> {
        let (mut graph, mut above) = (Graph::default(), Vec::<HashSet<usize>>::new());
        let width = 1 + rng.below(6) as usize;
        for n in 0..2 + rng.below(25) as usize {
            let mut parents = BTreeSet::new();
            for _ in 0..1 + rng.below(5) / 3 {
                if n > 0 && rng.below(20) > 0 {
                    parents.insert(n - 1 - (rng.below(width as u64) as usize).min(n - 1));
                }
            }
            let parents: Vec<usize> = parents.into_iter().collect();
            let mut files = Texts::new();
            for parent in &parents {
                let theirs = graph.commits[*parent].files.clone();
                files.extend(theirs.into_iter().filter(|_| rng.below(4) > 0));
            }
            for _ in 0..rng.below(3) {
                let path = PATHS[rng.below(6) as usize].to_owned();
                files.insert(path, format!("{}", rng.below(3)));
            }
            // A file has nothing below it.
            if files.contains_key("d") {
                files.retain(|path, _| !path.starts_with("d/"));
            }
            graph.commit(files, &parents)?;
            let mut all: HashSet<usize> = parents.iter().flat_map(|p| above[*p].clone()).collect();
            all.insert(n);
            above.push(all);
        }
        Ok(World { graph, above })
    }

    fn file(&self, commit: usize, path: &str) -> Option<&String> {
        self.graph.commits[commit].files.get(path)
    }

    /// The best common ancestors.
    fn bases(&self, a: usize, b: usize) -> Vec<usize> {
        let common: Vec<usize> = self.above[a]
            .intersection(&self.above[b])
            .copied()
            .collect();
        let is_best = |c: &usize| !common.iter().any(|d| d != c && self.above[*d].contains(c));
        common.iter().copied().filter(is_best).collect()
    }

    /// What the branches have that `own` lacks: for each path and content, the tips.
    fn newer(&self, own: usize, tips: &[usize]) -> BTreeMap<(&str, Option<&String>), Vec<usize>> {
        let mut out = BTreeMap::<_, Vec<usize>>::new();
        let is_open = |tip: &usize| {
            let is_covered = |other: &usize| other != tip && self.above[*other].contains(tip);
            !self.above[own].contains(tip) && !tips.iter().any(is_covered)
        };
        for tip in tips.iter().copied().filter(is_open) {
            let bases = self.bases(own, tip);
            for path in PATHS {
                let theirs = self.file(tip, path);
                let known = bases.iter().chain([&own]);
                let is_new = known.into_iter().all(|at| self.file(*at, path) != theirs);
                if is_new && !bases.is_empty() {
                    out.entry((path, theirs)).or_default().push(tip);
                }
            }
        }
        out
    }
}

#[test]
fn what_other_branches_have_changed_is_newer() -> Done {
    let first = seed(0);
    for seed in first..first + number("DMV_NEWER_ROUNDS", ROUNDS) {
        println!("DMV_SEED={seed} DMV_NEWER_ROUNDS=1");
        let mut rng = Rng::new(seed);
        let world = World::random(&mut rng)?;
        let place = Place::new()?;
        world.graph.store(&place.repo)?;
        let commits = &world.graph.commits;
        let own = rng.below(commits.len() as u64) as usize;
        let mut tips = BTreeSet::new();
        for _ in 0..1 + rng.below(6) {
            tips.insert(rng.below(commits.len() as u64) as usize);
        }
        let tips: Vec<usize> = tips.into_iter().collect();
        let keys = tips.iter().map(|tip| match tip % 2 {
            0 => format!("branch/b{tip}"),
            _ => format!("remote/far/b{tip}"),
        });
        let keys: Vec<String> = keys.collect();
        let values = tips.iter().zip(&keys);
        let values =
            values.map(|(tip, key)| (&key[..], Some(commits[*tip].id.as_bytes().to_vec())));
        set_keys(&place.repo, &values.collect::<Vec<_>>())?;
        let repo = place.again()?;
        let options = NewerOptions {
            own: commits[own].id,
            select: &Paths::default(),
            subset: &Subset::everything(),
            max_commits: usize::MAX,
        };
        let report = repo.newer(&options, &Job::default())?;
        assert_eq!(report.unknown, []);
        let mut expected = world.newer(own, &tips);
        for version in &report.versions {
            let path = std::str::from_utf8(version.path.as_bytes())?;
            let brought = world
                .graph
                .position(&version.commit)
                .ok_or("no such commit")?;
            let content = world.file(brought, path);
            let on = expected.remove(&(path, content));
            let on = on.ok_or_else(|| format!("not newer, or twice: {version:?}"))?;
            let place = |tip: &usize| BranchPlace {
                remote: (tip % 2 == 1).then(|| "far".to_owned()),
                branch: format!("b{tip}"),
            };
            let tip = on.iter().find(|tip| place(tip) == version.on);
            let tip = tip.ok_or_else(|| format!("not on this branch: {version:?}"))?;
            assert!(world.above[*tip].contains(&brought) && !world.above[own].contains(&brought));
            let brings = |n: &usize| {
                let parents = &commits[*n].parents;
                let is_old = |parent: &usize| world.file(*parent, path) == content;
                let is_change = content.is_some() || !parents.is_empty();
                is_change && world.file(*n, path) == content && !parents.iter().any(is_old)
            };
            // A merge may have taken an old version from the own side. Then no commit brings it.
            let mut others = world.above[*tip].difference(&world.above[own]);
            assert!(brings(&brought) || brought == *tip && !others.any(brings));
            assert_eq!(version.kind == ChangeKind::Deleted, content.is_none());
        }
        assert!(expected.is_empty(), "not found: {expected:?}");
    }
    Ok(())
}
