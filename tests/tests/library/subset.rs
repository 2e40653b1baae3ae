//! Worktrees with a subset of a repository: the same work gives the same commits as in a full
//! worktree, and costs as much as the subset requires.

// A test prints its seed and counts.
#![allow(clippy::print_stdout)]

use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::name::RepoPath;
use dmv_core::object::tree::lookup_path;
use dmv_core::repo::{
    CheckoutOptions, CheckoutTarget, Choice, FastForward, MergeOptions, PickFrom, PickOptions,
    Repo, RepoError, Selection, StatusOptions, Who, discover,
};
use dmv_core::subset::Subset;
use dmv_core::worktree::select::Paths;
use dmv_tests::countvfs::CountVfs;
use dmv_tests::crashlab::Outcome;
use dmv_tests::rng::Rng;
use dmv_tests::scratch::{Files, Item, commit, fast_dir, files_in, files_of, request};
use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn subset(patterns: &[&str]) -> Subset {
    Subset::new(patterns.iter().map(|p| p.as_bytes())).expect("the test's patterns are sound")
}

fn set(repo: &Repo, subset: Subset) -> Result<u64, RepoError> {
    let (settings, request) = (Default::default(), request("subset"));
    let done = repo.set_subset(subset, &settings, request, &Job::default())?;
    assert!(done.refused.is_empty(), "{:?}", done.refused);
    Ok(done.files)
}

fn switch(repo: &Repo, to: ObjectId) -> Result<u64, RepoError> {
    let options = CheckoutOptions {
        subset: None,
        force: false,
        settings: Default::default(),
        request: request("checkout"),
    };
    let done = repo.checkout(CheckoutTarget::Commit(to), &options, &Job::default())?;
    assert!(done.refused.is_empty(), "{:?}", done.refused);
    Ok(done.files)
}

/// Returns the paths that status reports: changed ones, and those outside the subset.
fn status(repo: &Repo) -> Result<(Vec<String>, Vec<String>), RepoError> {
    let options = StatusOptions {
        select: &Paths::default(),
        settings: Default::default(),
    };
    let report = repo.status(&options, &Job::default())?;
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    let text = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    let changes = report
        .changes
        .iter()
        .map(|change| text(change.path.as_bytes()));
    Ok((
        changes.collect(),
        report.outside.iter().map(|path| text(path)).collect(),
    ))
}

fn write(root: &Path, path: &str, text: &str) -> Outcome {
    let file = root.join(path);
    fs::create_dir_all(file.parent().ok_or("no parent")?)?;
    fs::write(file, text)?;
    Ok(())
}

// ---- Equal commits.

const NAMES: [&str; 5] = ["a", "b", "ab", "c.x", "d.y"];
const PATTERNS: [&str; 12] = [
    "a", "b", "ab", "a/b", "a/a/", "b/c.x", "*.x", "!*.y", "!a/b", "!ab", "**/b", "*",
];

/// A full worktree, and a worktree of the same commits with a subset.
struct Twins {
    seed: u64,
    rng: Rng,
    whole: (PathBuf, Repo),
    part: (PathBuf, Repo),
    commits: Vec<ObjectId>,
    /// The numbers of merges, reverts and cherry-picks that changed something.
    joined: [u32; 3],
    /// The number of settled conflicts.
    settled: u32,
}

impl Twins {
    fn both(&self) -> [&Path; 2] {
        [&self.whole.0, &self.part.0]
    }

    fn some(&mut self, n: usize) -> usize {
        self.rng.below(n as u64) as usize
    }

    fn some_subset(&mut self) -> Subset {
        let n = self.some(4);
        let patterns: Vec<&str> = (0..n)
            .map(|_| PATTERNS[self.some(PATTERNS.len())])
            .collect();
        subset(&patterns)
    }

    fn some_path(&mut self) -> String {
        let depth = 1 + self.some(3);
        let names: Vec<&str> = (0..depth).map(|_| NAMES[self.some(NAMES.len())]).collect();
        names.join("/")
    }

    /// Makes one change within the subset, the same in both worktrees. Some paths allow none.
    fn edit(&mut self, subset: &Subset) -> Outcome {
        let path = self.some_path();
        if !subset.includes(path.as_bytes(), false) || !subset.includes(path.as_bytes(), true) {
            return Ok(());
        }
        let on_disk = self.whole.0.join(&path);
        let kind = fs::symlink_metadata(&on_disk).map(|m| m.is_dir()).ok();
        if kind == Some(true) {
            if subset.extent(path.as_bytes()) == dmv_core::subset::Extent::All {
                for root in self.both() {
                    fs::remove_dir_all(root.join(&path))?;
                }
                return self.tidy(&path, subset);
            }
            return Ok(());
        }
        if kind == Some(false) && self.rng.one_in(2) {
            for root in self.both() {
                fs::remove_file(root.join(&path))?;
            }
            return self.tidy(&path, subset);
        }
        let mut above = path.match_indices('/').map(|(at, _)| &path[..at]);
        if above.any(|dir| self.whole.0.join(dir).is_file()) {
            return Ok(());
        }
        let text = self.rng.word().to_string();
        for root in self.both() {
            write(root, &path, &text)?;
        }
        Ok(())
    }

    /// Sometimes removes directories that a removal has emptied. It always does so if a new empty
    /// directory would be a change outside the subset.
    fn tidy(&mut self, path: &str, subset: &Subset) -> Outcome {
        let mut path = path;
        while let Some((dir, _)) = path.rsplit_once('/') {
            let is_empty = |root: &Path| -> Result<bool, std::io::Error> {
                Ok(fs::read_dir(root.join(dir))?.next().is_none())
            };
            let may_stay = subset.includes(dir.as_bytes(), true) || self.is_committed(dir)?;
            if !is_empty(&self.part.0)? || self.rng.one_in(2) && may_stay {
                return Ok(());
            }
            if is_empty(&self.whole.0)? {
                fs::remove_dir(self.whole.0.join(dir))?;
            }
            fs::remove_dir(self.part.0.join(dir))?;
            path = dir;
        }
        Ok(())
    }

    /// Returns whether the commit that both are on has an entry at `path`.
    fn is_committed(&self, path: &str) -> Outcome<bool> {
        let Some(commit) = self.whole.1.head_commit()? else {
            return Ok(false);
        };
        let tree = self.whole.1.read_commit(&commit)?.tree;
        let path = RepoPath::parse(path.as_bytes())?;
        Ok(lookup_path(self.whole.1.objects(), &tree, &path)?.is_some())
    }

    /// Checks that both are clean, and that the one with a subset has exactly that part of the last
    /// commit.
    fn check(&self, at: ObjectId, subset: &Subset) -> Outcome {
        assert_eq!(
            status(&self.whole.1)?,
            (vec![], vec![]),
            "DMV_SEED={}",
            self.seed
        );
        let no_dirs = |files: Files| -> Files {
            let files = files.into_iter();
            files.filter(|(_, item)| *item != Item::EmptyDir).collect()
        };
        let mut want = no_dirs(files_of(&self.part.1, &at)?);
        want.retain(|path, _| subset.includes(path, false));
        let have = files_in(&self.part.0)?;
        let empty: BTreeSet<String> = have
            .iter()
            .filter(|(_, item)| **item == Item::EmptyDir)
            .map(|(path, _)| String::from_utf8_lossy(path).into_owned())
            .collect();
        assert_eq!(no_dirs(have), want, "{subset:?}, DMV_SEED={}", self.seed);
        let (changes, outside) = status(&self.part.1)?;
        assert_eq!(changes, Vec::<String>::new(), "{subset:?}");
        // An empty directory that edits have left belongs to the user.
        for path in outside {
            let is_left = |dir: &String| dir == &path || dir.starts_with(&format!("{path}/"));
            assert!(empty.iter().any(is_left), "{path} {empty:?}");
        }
        Ok(())
    }
}

impl Twins {
    fn options() -> MergeOptions {
        MergeOptions {
            message: "joined".into(),
            committer: Who {
                name: "Test".into(),
                email: String::new(),
            },
            settings: Default::default(),
            request: request("merge"),
        }
    }

    /// Merges an earlier commit, or reverts or picks one, in both worktrees. Then settles all conflicts in
    /// both, with and without files for them. Returns the commit that both are on.
    fn join(&mut self, at: ObjectId, subset: &Subset) -> Result<ObjectId, Box<dyn Error>> {
        let n = self.some(self.commits.len());
        let other = self.commits[n];
        let (job, options) = (Job::default(), Twins::options());
        let is_plain = self.whole.1.read_commit(&other)?.parents.len() < 2;
        let how = if is_plain { self.some(5).min(2) } else { 0 };
        let (from, pick) = ([PickFrom::One(other)], PickOptions::default());
        let join = |repo: &Repo| match how {
            0 => repo.merge(other, FastForward::Auto, &options, &job),
            1 => repo.revert(other, None, &options, &job),
            _ => {
                let done = repo.cherry_pick(&from, pick, &options, &job);
                done.map(|done| done.merge)
            }
        };
        let (whole, part) = (join(&self.whole.1)?, join(&self.part.1)?);
        let seed = self.seed;
        assert_eq!(whole.commit, part.commit, "{subset:?}, DMV_SEED={seed}");
        assert_eq!(whole.conflicts, part.conflicts, "DMV_SEED={seed}");
        self.joined[how] += u32::from(whole.commit != at);
        if whole.conflicts.is_empty() {
            return Ok(whole.commit);
        }
        let choices = [Choice::Ours, Choice::Theirs, Choice::Base, Choice::Both];
        for (n, conflict) in whole.conflicts.iter().enumerate() {
            let choice = &choices[self.some(choices.len())];
            let path = [conflict.path.clone()];
            for repo in [&self.whole.1, &self.part.1] {
                let (settings, request) = (Default::default(), request("resolve"));
                let done = repo.resolve_conflicts(&path, choice, &settings, request, &job)?;
                let left = whole.conflicts.len() - n - 1;
                assert_eq!(
                    done.open.len(),
                    left,
                    "{choice:?} of {conflict:?} at {:?}, DMV_SEED={seed}",
                    repo.worktree_root()
                );
            }
            self.settled += 1;
        }
        let (whole, part) = (commit(&self.whole.1, "x")?, commit(&self.part.1, "x")?);
        assert_eq!(whole.commit, part.commit, "{subset:?}, DMV_SEED={seed}");
        Ok(whole.commit.ok_or("no commit")?)
    }
}

#[test]
fn the_same_work_in_a_subset_and_in_the_whole_gives_the_same_commits() -> Outcome {
    let first = dmv_random::seed(0);
    let (mut joined, mut settled) = ([0, 0, 0], 0);
    for seed in first..first + dmv_random::number("DMV_SUBSET_STORIES", 10) {
        let (a, b) = (fast_dir()?, fast_dir()?);
        let make = |dir: &Path| Repo::init(dir, "main", false, request("init"));
        let mut twins = Twins {
            seed,
            rng: Rng::new(seed),
            whole: (a.path().to_owned(), make(a.path())?),
            part: (b.path().to_owned(), make(b.path())?),
            commits: Vec::new(),
            joined: [0, 0, 0],
            settled: 0,
        };
        let mut now = Subset::everything();
        for step in 0..14 {
            for _ in 0..if step == 0 { 25 } else { 5 } {
                twins.edit(&now)?;
            }
            let whole = commit(&twins.whole.1, "x")?;
            let part = commit(&twins.part.1, "x")?;
            assert_eq!(
                whole.commit, part.commit,
                "DMV_SEED={seed}, step {step}, {now:?}"
            );
            assert!(part.problems.is_empty() && whole.problems.is_empty());
            let mut at = whole.commit.ok_or("no commit")?;
            twins.commits.push(at);
            twins.check(at, &now)?;
            if twins.rng.one_in(3) {
                at = twins.commits[twins.rng.below(twins.commits.len() as u64) as usize];
                switch(&twins.whole.1, at)?;
                switch(&twins.part.1, at)?;
                twins.check(at, &now)?;
            }
            if twins.rng.one_in(2) {
                now = twins.some_subset();
                set(&twins.part.1, now.clone())?;
                twins.check(at, &now)?;
            }
            if twins.rng.one_in(2) {
                at = twins.join(at, &now)?;
                twins.commits.push(at);
                twins.check(at, &now)?;
            }
        }
        joined = [0, 1, 2].map(|n| joined[n] + twins.joined[n]);
        settled += twins.settled;
    }
    let [merges, reverts, picks] = joined;
    println!("{merges} merges, {reverts} reverts, {picks} picks, {settled} conflicts settled");
    Ok(())
}

// ---- Equal cost.

const FILES_IN_DIR: usize = 10;

/// Makes a repository of `dirs` directories. Its worktree has none of them.
fn of_many(dir: &Path, dirs: usize) -> Outcome {
    let mut rng = Rng::new(7);
    let repo = Repo::init(dir, "main", false, request("init"))?;
    for n in 0..dirs {
        let at = dir.join(format!("d{n:05}"));
        fs::create_dir(&at)?;
        for file in 0..FILES_IN_DIR {
            fs::write(at.join(format!("f{file}")), rng.bytes(500))?;
        }
    }
    commit(&repo, "all")?;
    set(&repo, Subset::nothing())?;
    Ok(())
}

/// What a command read: bytes of packs and indexes, and the number of tree nodes, lists and
/// commits.
#[derive(Clone, Copy, Debug)]
struct Cost {
    bytes: u64,
    nodes: u64,
}

/// Returns the cost of four commands in one directory of a repository of `dirs` directories: a
/// checkout, a status, a commit and an export.
fn cost_in_one(dirs: usize) -> Result<[Cost; 4], Box<dyn std::error::Error>> {
    let temp = fast_dir()?;
    let dir = temp.path().join("repo");
    of_many(&dir, dirs)?;
    let vfs = CountVfs::default();
    let repo = || -> Result<Repo, RepoError> {
        let repo = Repo::open_place_on(discover(&dir)?, Arc::new(vfs.clone()))?;
        vfs.take();
        Ok(repo)
    };
    let cost = |repo: &Repo| Cost {
        bytes: vfs.take(),
        nodes: repo.store().metadata_requests(),
    };
    let one = format!("d{:05}", dirs / 2);
    let part = subset(&[&one]);
    let here = repo()?;
    assert_eq!(set(&here, part.clone())?, FILES_IN_DIR as u64);
    let checkout = cost(&here);
    fs::write(dir.join(&one).join("f3"), "edited")?;
    let here = repo()?;
    assert_eq!(status(&here)?, (vec![format!("{one}/f3")], vec![]));
    let look = cost(&here);
    let here = repo()?;
    assert_eq!(commit(&here, "edit")?.files, 1);
    let committed = cost(&here);
    let here = repo()?;
    let head = here.head_commit()?.ok_or("no commit")?;
    let (root, at) = (here.read_commit(&head)?, RepoPath::root());
    let located = here.locate("it", &root, &at)?;
    let wanted = Selection {
        path: &at,
        located: &located,
        subset: &part,
    };
    let done = here.export(wanted, &temp.path().join("out"), &Job::default())?;
    assert_eq!(done.files, FILES_IN_DIR as u64);
    Ok([checkout, look, committed, cost(&here)])
}

#[test]
fn what_a_subset_reads_does_not_grow_with_the_repository() -> Outcome {
    let (small, large) = (cost_in_one(400)?, cost_in_one(3200)?);
    for (small, large) in small.into_iter().zip(large) {
        // At most one more frame of metadata and one more of data: frames grow up to 1 MiB and no
        // further.
        assert!(large.bytes < small.bytes + (2 << 20), "{small:?} {large:?}");
        // Each file may be looked up through some nodes, once because it is too new to be trusted.
        // None of the thousands of other directories is read.
        let most = 5 * FILES_IN_DIR as u64 + 20;
        let nodes = small.nodes.max(large.nodes);
        assert!(nodes <= most, "{small:?} {large:?}");
    }
    Ok(())
}
