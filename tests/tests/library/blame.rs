//! The origin of lines in random histories, compared with Git.

// A test prints its seed and what it could not try.
#![allow(clippy::print_stdout)]

use dmv_core::job::Job;
use dmv_core::object::name::RepoPath;
use dmv_tests::graph::{Graph, Texts, git, git_init};
use dmv_tests::peers::{Done, Place};
use dmv_tests::rng::Rng;
use dmv_tests::scratch::fast_dir;
use std::collections::BTreeMap;
use std::path::Path;

/// The number of histories in the ordinary run. `DMV_BLAME_ROUNDS` sets another number, and
/// `DMV_SEED` a single seed.
const ROUNDS: u64 = 30;

/// The origin of a line: the commit, the path and the line number there.
type Origin = (usize, String, usize);

/// A history of one text, whose lines have places in an order that never changes. So two versions
/// share exactly the lines that both have, and no two comparisons of them can differ.
struct Lines {
    rng: Rng,
    graph: Graph,
    /// The lines of each commit, by their places, and the path of the file.
    versions: Vec<(BTreeMap<u64, String>, String)>,
    made: u64,
    /// How many different lines there are; 0: each line is the only one of its kind.
    words: u64,
}

impl Lines {
    fn below(&mut self, n: usize) -> usize {
        self.rng.below(n as u64) as usize
    }

    fn new_line(&mut self) -> String {
        self.made += 1;
        match self.words {
            0 => format!("line {}\n", self.made),
            words => format!("word {}\n", self.rng.below(words)),
        }
    }

    fn edit(&mut self, lines: &mut BTreeMap<u64, String>) {
        for _ in 0..1 + self.below(4) {
            let what = self.below(4);
            if what == 0 && lines.len() > 3 {
                let at = self.below(lines.len());
                let key = *lines.keys().nth(at).expect("it is below the length");
                lines.remove(&key);
            } else if what == 1 && !lines.is_empty() {
                let (at, line) = (self.below(lines.len()), self.new_line());
                if let Some(old) = lines.values_mut().nth(at) {
                    *old = line;
                }
            } else {
                let (place, line) = (self.rng.word(), self.new_line());
                lines.insert(place, line);
            }
        }
    }

    fn commit(&mut self, version: (BTreeMap<u64, String>, String), parents: &[usize]) -> Done {
        let text: String = version.0.values().map(String::as_str).collect();
        // The other file keeps commits apart that leave the text as it is.
        let other = format!("{}\n", self.versions.len());
        let files = Texts::from([(version.1.clone(), text), ("other".to_owned(), other)]);
        self.graph.commit(files, parents)?;
        self.versions.push(version);
        Ok(())
    }

    /// Makes the lines of a merge: what both sides have, and most of what only one of them has.
    fn merged(&mut self, ours: usize, theirs: usize) -> BTreeMap<u64, String> {
        let (ours, theirs) = (
            self.versions[ours].0.clone(),
            self.versions[theirs].0.clone(),
        );
        let mut out = BTreeMap::new();
        for (place, line) in ours.iter().chain(&theirs) {
            let is_shared = ours.get(place) == theirs.get(place);
            if is_shared || !self.rng.one_in(5) {
                // A line that both sides replaced is ours or theirs.
                out.entry(*place).or_insert_with(|| line.clone());
            }
        }
        if self.rng.one_in(3) {
            self.edit(&mut out);
        }
        out
    }

    fn random(seed: u64, with_merges: bool, words: u64) -> Done<Lines> {
        let mut h = Lines {
            rng: Rng::new(seed),
            graph: Graph::default(),
            versions: Vec::new(),
            made: 0,
            words,
        };
        let mut first = BTreeMap::new();
        for _ in 0..20 {
            let (place, line) = (h.rng.word(), h.new_line());
            first.insert(place, line);
        }
        h.commit((first, "d/text".to_owned()), &[])?;
        for n in 1..30 {
            let back = 1 + h.below(if with_merges { 4 } else { 1 });
            let parent = n - back.min(n);
            let (mut lines, mut path) = h.versions[parent].clone();
            let other = n - 1;
            if with_merges && other != parent && h.rng.one_in(2) {
                lines = h.merged(parent, other);
                h.commit((lines, path), &[parent, other])?;
                continue;
            }
            match h.below(12) {
                // A commit that does not touch the text.
                0 | 1 => {}
                2 => path = format!("d/text{n}"),
                3 => {
                    path = format!("e/text{n}");
                    let line = h.new_line();
                    let place = h.rng.word();
                    lines.insert(place, line);
                }
                _ => h.edit(&mut lines),
            }
            h.commit((lines, path), &[parent])?;
        }
        Ok(h)
    }

    /// The origins that Git finds.
    fn by_git(&self, git_dir: &Path, ids: &[String], tip: usize) -> Done<Vec<Origin>> {
        let path = &self.versions[tip].1;
        let args = ["blame", "--line-porcelain", "--root", &ids[tip], "--", path];
        let told = git(git_dir, &args)?;
        assert!(
            told.status.success(),
            "{}",
            String::from_utf8_lossy(&told.stderr)
        );
        let (mut out, mut head) = (Vec::new(), None);
        for line in String::from_utf8(told.stdout)?.lines() {
            let mut words = line.split(' ');
            let first = words.next().unwrap_or_default();
            if first.len() == 40 && !line.starts_with('\t') {
                let commit = ids.iter().position(|id| id == first).ok_or("a commit")?;
                let at: usize = words.next().ok_or("a line number")?.parse()?;
                head = Some((commit, at));
            } else if first == "filename" {
                let (commit, at) = head.take().ok_or("a header")?;
                out.push((commit, words.next().ok_or("a path")?.to_owned(), at));
            }
        }
        Ok(out)
    }

    /// The origins that DMV finds.
    fn by_dmv(&self, place: &Place, tip: usize) -> Done<Vec<Origin>> {
        let path = RepoPath::parse(self.versions[tip].1.as_bytes()).map_err(|e| e.why())?;
        let id = self.graph.commits[tip].id;
        let found = place.repo.blame(id, &path, None, &Job::default())?;
        let mut out = Vec::new();
        for part in &found.lines {
            assert_eq!(
                part.line,
                out.len(),
                "lines come in order, and none is left out"
            );
            assert!(!part.is_boundary);
            let commit = self.graph.position(&part.commit).ok_or("a commit")?;
            for n in 0..part.len {
                out.push((commit, part.path.to_string(), part.at + n + 1));
            }
        }
        assert_eq!(out.len(), self.versions[tip].0.len());
        Ok(out)
    }

    fn line(&self, (commit, path, at): &Origin) -> Option<&str> {
        let text = self.graph.commits[*commit].files.get(path)?;
        text.lines().nth(at - 1)
    }
}

fn seeds(all: u64) -> std::ops::Range<u64> {
    let env = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    match env("DMV_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..env("DMV_BLAME_ROUNDS").unwrap_or(all),
    }
}

#[test]
fn lines_that_are_unique_come_from_the_commits_that_git_names() -> Done {
    let dir = fast_dir()?;
    let mut lines = 0;
    for seed in seeds(ROUNDS) {
        println!("DMV_SEED={seed}");
        let git_dir = dir.path().join(format!("git{seed}"));
        if !git_init(&git_dir) {
            dmv_random::skip("git is not installed");
            return Ok(());
        }
        let h = Lines::random(seed, seed % 3 != 0, 0)?;
        let place = Place::new()?;
        h.graph.store(&place.repo)?;
        let ids = h.graph.tell(&git_dir)?;
        let last = h.versions.len() - 1;
        for tip in [last, last / 2] {
            let found = h.by_dmv(&place, tip)?;
            assert_eq!(
                found,
                h.by_git(&git_dir, &ids, tip)?,
                "DMV_SEED={seed}, commit {tip}"
            );
            lines += found.len();
        }
    }
    println!("{lines} lines equal");
    Ok(())
}

/// Where a text has the same line several times, the algorithms of DMV and Git may take different
/// ones of them for the old one. Both answers are right if the commit has such a line there.
#[test]
fn lines_that_occur_again_come_from_a_commit_that_has_them_there() -> Done {
    let dir = fast_dir()?;
    let (mut equal, mut all) = (0, 0);
    for seed in seeds(ROUNDS / 2) {
        println!("DMV_SEED={seed}");
        let git_dir = dir.path().join(format!("git{seed}"));
        if !git_init(&git_dir) {
            dmv_random::skip("git is not installed");
            return Ok(());
        }
        let h = Lines::random(seed, seed % 3 != 0, 12)?;
        let place = Place::new()?;
        h.graph.store(&place.repo)?;
        let ids = h.graph.tell(&git_dir)?;
        let tip = h.versions.len() - 1;
        let (found, gits) = (h.by_dmv(&place, tip)?, h.by_git(&git_dir, &ids, tip)?);
        let texts: Vec<&str> = h.versions[tip]
            .0
            .values()
            .map(|line| line.trim_end())
            .collect();
        for ((mine, gits), text) in found.iter().zip(&gits).zip(texts) {
            assert_eq!(h.line(mine), Some(text), "DMV_SEED={seed}");
            all += 1;
            equal += usize::from(mine == gits);
        }
    }
    println!("{equal} of {all} lines as Git has them");
    assert!(equal * 10 >= all * 7, "{equal} of {all}");
    Ok(())
}
