//! Merges of random histories of texts, compared with Git: both give the same tree, or both have
//! conflicts.

// A test prints its seed and what it could not try.
#![allow(clippy::print_stdout)]

use dmv_core::hash::ObjectId;
use dmv_core::merge::{Edits, edit_tree, merge_commits, read_text, write_blob};
use dmv_core::object::commit::{Commit, Person};
use dmv_core::object::conflict::Term;
use dmv_core::object::mem::MemObjects;
use dmv_core::object::name::{RepoPath, SafeName};
use dmv_core::object::tree::{Kind, TreeEntry, TreeIter, put_empty_tree};
use dmv_core::object::{ObjectRead, ObjectType};
use dmv_tests::rng::{Rng, number, seed};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::AtomicBool;

pub(super) type Any<T> = Result<T, Box<dyn Error>>;

/// The number of histories in the ordinary run. `DMV_MERGE_ROUNDS` sets another number, and `DMV_SEED` the
/// seed of the first history.
const ROUNDS: u64 = 80;

/// The histories whose merges differ from Git's. docs/decisions/merging.md describes each ("Lines are compared by
/// code of our own").
const EXPLAINED: [u64; 7] = [252, 1946, 2186, 3080, 3475, 4489, 4862];

/// Paths in conflict.
type Paths = BTreeSet<String>;

/// The lines and the executable bit of each file, by path.
pub(super) type Files = BTreeMap<String, (Vec<String>, bool)>;

pub(super) struct Made {
    pub(super) files: Files,
    parents: Vec<usize>,
    id: ObjectId,
}

pub(super) struct History {
    mem: MemObjects,
    pub(super) commits: Vec<Made>,
    rng: Rng,
}

impl History {
    pub(super) fn new(seed: u64) -> History {
        History {
            mem: MemObjects::new(),
            commits: Vec::new(),
            rng: Rng::new(seed),
        }
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.rng.word() % n as u64) as usize
    }

    fn line(&mut self) -> String {
        // A few different lines make ambiguous diffs, many make clear ones.
        match self.below(3) {
            0 => format!("{}\n", ["{", "}", "", "x"][self.below(4)]),
            _ => format!("line {}\n", self.below(500)),
        }
    }

    fn text(&mut self) -> Vec<String> {
        let len = 5 + self.below(25);
        (0..len).map(|_| self.line()).collect()
    }

    pub(super) fn first(&mut self) -> Any<usize> {
        let mut files = Files::new();
        for n in 0..3 + self.below(4) {
            let dir = ["", "d/", "d/e/"][self.below(3)];
            let text = self.text();
            files.insert(format!("{dir}f{n}"), (text, false));
        }
        self.commit(files, vec![])
    }

    pub(super) fn edited(&mut self, from: usize) -> Any<usize> {
        let mut files = self.commits[from].files.clone();
        for _ in 0..1 + self.below(3) {
            self.edit(&mut files);
        }
        self.commit(files, vec![from])
    }

    fn edit(&mut self, files: &mut Files) {
        let names: Vec<String> = files.keys().cloned().collect();
        let Some(name) = names.get(self.below(names.len().max(1))).cloned() else {
            return;
        };
        match self.below(12) {
            0 => drop(files.remove(&name)),
            1 => {
                let text = self.text();
                let number = self.below(4);
                files.insert(format!("new{number}"), (text, false));
            }
            2 => {
                if let Some(file) = files.remove(&name) {
                    let number = self.below(1000);
                    files.insert(format!("d/moved{number}"), file);
                }
            }
            3 => {
                if let Some(file) = files.get_mut(&name) {
                    file.1 = !file.1;
                }
            }
            _ => {
                let line = self.line();
                let (at, what) = (self.below(1000), self.below(4));
                let Some((text, _)) = files.get_mut(&name) else {
                    return;
                };
                let at = at % (text.len() + 1);
                match what {
                    0 => text.insert(at, line),
                    1 if at < text.len() => drop(text.remove(at)),
                    _ if at < text.len() => text[at] = line,
                    _ => text.push(line),
                }
            }
        }
    }

    pub(super) fn commit(&mut self, files: Files, parents: Vec<usize>) -> Any<usize> {
        let mem = &mut &self.mem;
        let mut edits = Edits::new();
        for (path, (lines, exec)) in &files {
            let blob = write_blob(lines.concat().as_bytes(), mem)?;
            let entry = TreeEntry {
                name: SafeName::new(b"x").map_err(|e| e.why())?,
                kind: if *exec { Kind::Executable } else { Kind::File },
                is_list: blob.is_list,
                id: blob.id,
                size: blob.size,
                files: 0,
                attrs: None,
            };
            edits.insert(
                RepoPath::parse(path.as_bytes()).map_err(|e| e.why())?,
                Some(entry),
            );
        }
        let root = put_empty_tree(mem)?;
        let tree = edit_tree(&self.mem, mem, root, &edits)?;
        let person = Person {
            name: "t".into(),
            email: String::new(),
            seconds: self.commits.len() as i64,
            nanos: 0,
            tz_minutes: 0,
        };
        let mut generation = 1;
        for parent in &parents {
            let bytes = self
                .mem
                .require(ObjectType::Commit, &self.commits[*parent].id)?;
            generation = generation.max(1 + Commit::decode(&bytes)?.generation);
        }
        let commit = Commit {
            tree: tree.id,
            tree_bytes: tree.bytes,
            tree_files: tree.files,
            parents: parents.iter().map(|n| self.commits[*n].id).collect(),
            generation,
            author: person.clone(),
            committer: person,
            message: String::new(),
            extras: Vec::new(),
            signature: None,
        };
        let id = self.mem.insert(ObjectType::Commit, &commit.encode()?);
        self.commits.push(Made { files, parents, id });
        Ok(self.commits.len() - 1)
    }

    /// Returns the merged files, or the paths in conflict.
    fn merged(&self, ours: usize, theirs: usize) -> Any<Result<Files, Paths>> {
        let (ours, theirs) = (&self.commits[ours].id, &self.commits[theirs].id);
        let never = AtomicBool::new(false);
        let merged = merge_commits(&self.mem, &mut &self.mem, ours, theirs, &never)?;
        let (mut files, mut conflicts) = (Files::new(), Paths::new());
        let mut dirs = vec![(String::new(), merged.tree.id)];
        while let Some((dir, tree)) = dirs.pop() {
            for entry in TreeIter::new(&self.mem, tree) {
                let entry = entry?;
                let path = format!("{dir}{}", String::from_utf8_lossy(entry.name.as_bytes()));
                match entry.kind {
                    Kind::Directory => dirs.push((path + "/", entry.id)),
                    Kind::Conflict => drop(conflicts.insert(path)),
                    _ => {
                        let term = Term::of_entry(&entry).ok_or("no conflict")?;
                        let text = read_text(&self.mem, &term)?.ok_or("a text")?;
                        let text = String::from_utf8(text)?;
                        let exec = entry.kind == Kind::Executable;
                        files.insert(path, (vec![text], exec));
                    }
                }
            }
        }
        Ok(if conflicts.is_empty() {
            Ok(files)
        } else {
            Err(conflicts)
        })
    }

    /// Returns whether only one of two commits has a file at a path: the other may have it elsewhere.
    fn is_moved(&self, path: &str, ours: usize, theirs: usize) -> bool {
        let has = |n: usize| self.commits[n].files.contains_key(path);
        has(ours) != has(theirs)
    }

    /// Makes a merge commit like a user who takes our side in case of conflict.
    fn merge(&mut self, ours: usize, theirs: usize) -> Any<usize> {
        let files = match self.merged(ours, theirs)? {
            Ok(files) => files
                .into_iter()
                .map(|(path, (text, exec))| {
                    let lines = text
                        .concat()
                        .split_inclusive('\n')
                        .map(str::to_owned)
                        .collect();
                    (path, (lines, exec))
                })
                .collect(),
            Err(_) => self.commits[ours].files.clone(),
        };
        self.commit(files, vec![ours, theirs])
    }

    /// Passes all commits to Git as `refs/heads/cN`.
    pub(super) fn tell(&self, git: &Path) -> Any<()> {
        let mut stream = Vec::new();
        for (n, commit) in self.commits.iter().enumerate() {
            writeln!(stream, "commit refs/heads/c{n}\nmark :{}", n + 1)?;
            writeln!(stream, "committer t <t> {} +0000\ndata 0", 1000 + n)?;
            for (at, parent) in commit.parents.iter().enumerate() {
                let word = if at == 0 { "from" } else { "merge" };
                writeln!(stream, "{word} :{}", parent + 1)?;
            }
            writeln!(stream, "deleteall")?;
            for (path, (lines, exec)) in &commit.files {
                let text = lines.concat();
                let mode = if *exec { 755 } else { 644 };
                writeln!(
                    stream,
                    "M 100{mode} inline {path}\ndata {}\n{text}",
                    text.len()
                )?;
            }
        }
        let mut child = command(git, &["fast-import", "--quiet", "--force"])
            .stdin(Stdio::piped())
            .spawn()?;
        child.stdin.take().ok_or("stdin")?.write_all(&stream)?;
        assert!(child.wait()?.success());
        Ok(())
    }
}

fn command(git: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.arg("--git-dir").arg(git).args(args);
    command
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn git(dir: &Path, args: &[&str]) -> Any<Output> {
    Ok(command(dir, args).output()?)
}

/// The result of Git's merge.
enum Judged {
    Clean(Files),
    /// Conflicts. If one side moved a file, and the other deleted it or moved it elsewhere, Git
    /// reports a conflict, and DMV keeps all versions (docs/guide/merging.md).
    Conflicts {
        paths: Paths,
        asks_about_moves: bool,
        /// Where files should perhaps go: Git asks whether a new file goes along with the files that were
        /// moved out of its directory one by one. DMV leaves it where it is (docs/guide/merging.md).
        proposed: Paths,
    },
}

fn judged(dir: &Path, ours: usize, theirs: usize) -> Any<Judged> {
    let (ours, theirs) = (format!("c{ours}"), format!("c{theirs}"));
    let made = git(
        dir,
        &[
            "merge-tree",
            "--write-tree",
            "--name-only",
            "--allow-unrelated-histories",
            &ours,
            &theirs,
        ],
    )?;
    match made.status.code() {
        Some(0) => {}
        Some(1) => {
            let told = String::from_utf8_lossy(&made.stdout).into_owned();
            let asks_about_moves = told.contains("CONFLICT (rename/");
            // The tree, the paths, an empty line, the messages.
            let paths = told.lines().skip(1).take_while(|line| !line.is_empty());
            let paths = paths.map(str::to_owned).collect();
            let asks = told
                .lines()
                .filter(|l| l.starts_with("CONFLICT (file location)"));
            let proposed =
                asks.filter_map(|line| line.rsplit_once(" moved to ")?.1.strip_suffix('.'));
            return Ok(Judged::Conflicts {
                paths,
                asks_about_moves,
                proposed: proposed.map(str::to_owned).collect(),
            });
        }
        _ => return Err(String::from_utf8_lossy(&made.stderr).into_owned().into()),
    }
    let tree = String::from_utf8(made.stdout)?;
    let listed = git(dir, &["ls-tree", "-r", tree.trim()])?.stdout;
    let mut files = Files::new();
    for line in String::from_utf8(listed)?.lines() {
        let (about, path) = line.split_once('\t').ok_or("ls-tree")?;
        let blob = about.rsplit(' ').next().ok_or("ls-tree")?;
        let text = String::from_utf8(git(dir, &["cat-file", "blob", blob])?.stdout)?;
        files.insert(path.to_owned(), (vec![text], about.starts_with("100755")));
    }
    Ok(Judged::Clean(files))
}

/// Makes a history. Returns it with the two commits to merge.
fn history(seed: u64) -> Any<(History, usize, usize)> {
    let mut h = History::new(seed);
    let root = h.first()?;
    let (mut a, mut b) = (h.edited(root)?, h.edited(root)?);
    let shape = h.below(4);
    for _ in 0..h.below(3) {
        (a, b) = (h.edited(a)?, h.edited(b)?);
    }
    match shape {
        // One side has merged the other before.
        0 => {
            let from = b;
            (a, b) = (h.merge(a, from)?, h.edited(b)?);
            a = h.edited(a)?;
        }
        // Both sides have merged each other: two merge bases.
        1 => {
            (a, b) = (h.merge(a, b)?, h.merge(b, a)?);
            (a, b) = (h.edited(a)?, h.edited(b)?);
        }
        // The two sides have no common commit.
        2 if seed.is_multiple_of(8) => {
            b = h.first()?;
            b = h.edited(b)?;
        }
        _ => {}
    }
    Ok((h, a, b))
}

#[test]
fn merges_are_those_that_git_makes() -> Any<()> {
    let version = Command::new("git").arg("--version").output();
    let can_merge_trees = version.is_ok_and(|v| {
        let text = String::from_utf8_lossy(&v.stdout).into_owned();
        let mut numbers = text
            .split(|c: char| !c.is_ascii_digit())
            .filter(|n| !n.is_empty());
        let mut number = || {
            numbers
                .next()
                .and_then(|n| n.parse::<u32>().ok())
                .unwrap_or(0)
        };
        (number(), number()) >= (2, 38)
    });
    if !can_merge_trees {
        dmv_random::skip("git 2.38 or later is not installed");
        return Ok(());
    }
    let dir = dmv_tests::scratch::fast_dir()?;
    let repo = dir.path().join("git");
    assert!(git(&repo, &["init", "--bare", "--quiet"])?.status.success());
    let (first, rounds) = (seed(0), number("DMV_MERGE_ROUNDS", ROUNDS));
    let (mut clean, mut conflicts, mut elsewhere) = (0, 0, 0);
    let (mut moves, mut places, mut explained) = (0, 0, 0);
    let mut wrong = Vec::new();
    for seed in first..first + rounds {
        let (h, ours, theirs) = history(seed)?;
        h.tell(&repo)?;
        match (h.merged(ours, theirs)?, judged(&repo, ours, theirs)?) {
            (Ok(mine), Judged::Clean(gits)) if mine == gits => clean += 1,
            (Err(mine), Judged::Conflicts { paths, .. }) if mine == paths => conflicts += 1,
            (
                _,
                Judged::Conflicts {
                    asks_about_moves: true,
                    ..
                },
            ) => moves += 1,
            (
                mine,
                Judged::Conflicts {
                    paths, proposed, ..
                },
            ) if !proposed.is_empty()
                && mine.as_ref().err().cloned().unwrap_or_default() == &paths - &proposed =>
            {
                places += 1;
            }
            _ if EXPLAINED.contains(&seed) => explained += 1,
            // Of a file that was moved, Git names one path and DMV another one.
            (Err(mine), Judged::Conflicts { paths, .. })
                if mine
                    .symmetric_difference(&paths)
                    .all(|path| h.is_moved(path, ours, theirs)) =>
            {
                elsewhere += 1;
            }
            (Err(mine), Judged::Conflicts { paths, .. }) => {
                wrong.push(format!(
                    "{seed}: conflicts at {mine:?}, for Git at {paths:?}"
                ));
            }
            (mine, _) => wrong.push(format!("{seed}: clean here: {}", mine.is_ok())),
        }
    }
    println!(
        "harness merges: {rounds} histories from seed {first}, {clean} clean, {conflicts} with the same conflicts, \
         {elsewhere} with a conflict at another path of a moved file, \
         {moves} where Git asks about moves, {places} where it asks about the place of a new file, \
         {explained} explained"
    );
    assert!(wrong.is_empty(), "DMV_SEED, what differs: {wrong:#?}");
    Ok(())
}
