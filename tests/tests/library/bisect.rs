//! Searches for the first bad commit in random histories, compared with Git.

// A test prints its seed and what it could not try.
#![allow(clippy::print_stdout)]

use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::repo::{BisectNext, CheckoutOptions, RefKind, Verdict};
use dmv_tests::graph::{Graph, Texts, git, git_init};
use dmv_tests::peers::{Done, Place};
use dmv_tests::rng::Rng;
use dmv_tests::scratch::{fast_dir, request};
use std::collections::HashSet;
use std::path::Path;

/// The number of histories in the ordinary run. `DMV_BISECT_ROUNDS` sets another number, and
/// `DMV_SEED` a single seed.
const ROUNDS: u64 = 10;

/// A history with one commit that introduces a fault, which all its descendants have.
struct Faulty {
    graph: Graph,
    bad: HashSet<usize>,
    first_bad: usize,
    skipped: HashSet<usize>,
}

fn random(seed: u64) -> Done<Faulty> {
    let mut rng = Rng::new(seed);
    let mut below = |n: usize| rng.below(n as u64) as usize;
    let mut graph = Graph::default();
    let commits = 2 + below(60);
    let width = 1 + below(5);
    let mut ancestors: Vec<HashSet<usize>> = Vec::new();
    for n in 0..commits {
        let mut parents: Vec<usize> = Vec::new();
        if n > 0 {
            parents.push(n - 1 - below(width).min(n - 1));
            let other = n - 1 - below(width).min(n - 1);
            if below(3) == 0 && !parents.contains(&other) {
                parents.push(other);
            }
        }
        let files = Texts::from([("n".to_owned(), format!("{n}\n"))]);
        graph.commit(files, &parents)?;
        let mut own: HashSet<usize> = parents.iter().flat_map(|n| ancestors[*n].clone()).collect();
        own.insert(n);
        ancestors.push(own);
    }
    // The first bad commit is one that the last commit descends from, and not the root.
    let last = commits - 1;
    let mut choices: Vec<usize> = ancestors[last].iter().copied().filter(|n| *n > 0).collect();
    choices.sort_unstable();
    let first_bad = choices[below(choices.len())];
    let bad = (0..commits)
        .filter(|n| ancestors[*n].contains(&first_bad))
        .collect();
    let skipped = match seed % 4 {
        0 => (0..commits).filter(|_| below(6) == 0).collect(),
        _ => HashSet::new(),
    };
    Ok(Faulty {
        graph,
        bad,
        first_bad,
        skipped,
    })
}

/// What a search came to: the first bad commit, or the commits of which one is it; and the number
/// of tests.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    first_bad: Vec<usize>,
    tests: usize,
}

impl Faulty {
    fn by_dmv(&self) -> Done<Outcome> {
        let place = Place::new()?;
        self.graph.store(&place.repo)?;
        let id = |n: usize| self.graph.commits[n].id;
        place.repo.create_ref(
            RefKind::Branch,
            "main",
            id(self.graph.commits.len() - 1),
            request("branch"),
        )?;
        let options = CheckoutOptions::new(request("bisect"));
        let job = Job::default();
        let (repo, bad) = (&place.repo, id(self.graph.commits.len() - 1));
        let mut report = repo.bisect_start(Some(bad), &[id(0)], &options, &job)?;
        let mut tests = 0;
        loop {
            let position = |id: &ObjectId| self.graph.position(id).ok_or("a commit");
            let commit = match &report.next {
                BisectNext::Test { commit, .. } => *commit,
                BisectNext::Found(id) => {
                    let first_bad = vec![position(id)?];
                    return Ok(Outcome { first_bad, tests });
                }
                BisectNext::OnlySkipped(ids) => {
                    let mut first_bad = ids.iter().map(position).collect::<Result<Vec<_>, _>>()?;
                    first_bad.sort_unstable();
                    return Ok(Outcome { first_bad, tests });
                }
                BisectNext::Waiting => return Err("nothing to wait for".into()),
            };
            tests += 1;
            let n = position(&commit)?;
            // What is tested is what lies in the worktree.
            let file = std::fs::read_to_string(place.dir.path().join("n"))?;
            assert_eq!(file, format!("{n}\n"));
            let verdict = match (self.skipped.contains(&n), self.bad.contains(&n)) {
                (true, _) => Verdict::Skip,
                (_, true) => Verdict::Bad,
                _ => Verdict::Good,
            };
            report = repo.bisect_note(verdict, &[commit], &options, &job)?;
        }
    }

    fn by_git(&self, dir: &Path) -> Done<Outcome> {
        let git_dir = dir.join(".git");
        let ids = self.graph.tell(&git_dir)?;
        let work = |args: &[&str]| -> Done<String> {
            let dir = dir.to_str().ok_or("a path")?;
            let told = git(&git_dir, &[&["--work-tree", dir, "-C", dir], args].concat())?;
            Ok(String::from_utf8(told.stdout)?)
        };
        let last = ids.len() - 1;
        work(&["checkout", "--quiet", &ids[last]])?;
        let mut told = work(&["bisect", "start", &ids[last], &ids[0]])?;
        let mut tests = 0;
        loop {
            let named = |line: &str| {
                let word = line.split(' ').next().unwrap_or_default();
                ids.iter().position(|id| id == word)
            };
            if let Some(line) = told
                .lines()
                .find(|line| line.contains("is the first bad commit"))
            {
                let first_bad = vec![named(line).ok_or("a commit")?];
                return Ok(Outcome { first_bad, tests });
            }
            if told.contains("only 'skip'ped commits left") {
                let mut first_bad: Vec<usize> = told.lines().filter_map(named).collect();
                first_bad.sort_unstable();
                first_bad.dedup();
                return Ok(Outcome { first_bad, tests });
            }
            tests += 1;
            let head = work(&["rev-parse", "HEAD"])?;
            let n = ids
                .iter()
                .position(|id| *id == head.trim())
                .ok_or("a commit")?;
            let word = match (self.skipped.contains(&n), self.bad.contains(&n)) {
                (true, _) => "skip",
                (_, true) => "bad",
                _ => "good",
            };
            told = work(&["bisect", word])?;
            assert!(tests < 200, "Git does not end: {told}");
        }
    }
}

#[test]
fn the_first_bad_commit_is_the_one_that_git_finds_in_about_as_many_tests() -> Done {
    let env = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let seeds = match env("DMV_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..env("DMV_BISECT_ROUNDS").unwrap_or(ROUNDS),
    };
    let dir = fast_dir()?;
    let (mut mine, mut gits) = (0, 0);
    for seed in seeds {
        println!("DMV_SEED={seed}");
        let work = dir.path().join(format!("git{seed}"));
        std::fs::create_dir(&work)?;
        if !git_init(&work.join(".git")) {
            dmv_random::skip("git is not installed");
            return Ok(());
        }
        git(&work.join(".git"), &["config", "core.bare", "false"])?;
        let faulty = random(seed)?;
        let (found, told) = (faulty.by_dmv()?, faulty.by_git(&work)?);
        if faulty.skipped.is_empty() {
            assert_eq!(found.first_bad, [faulty.first_bad], "DMV_SEED={seed}");
            assert_eq!(found.first_bad, told.first_bad, "DMV_SEED={seed}");
            assert!(
                found.tests <= told.tests + 1,
                "DMV_SEED={seed}: {found:?} {told:?}"
            );
            mine += found.tests;
            gits += told.tests;
        } else {
            // Around skipped commits, the way depends on what is tested instead of them.
            assert!(
                found.first_bad.contains(&faulty.first_bad),
                "DMV_SEED={seed}: {found:?}"
            );
            let open = |n: &&usize| !faulty.skipped.contains(*n);
            let all =
                found.first_bad.len() == 1 || found.first_bad.iter().filter(open).count() <= 1;
            assert!(all, "DMV_SEED={seed}: {found:?}");
        }
    }
    println!("{mine} tests, Git {gits}");
    Ok(())
}
