//! One story: repositories, how commands are run in them, and what must hold after each.

use super::model::{Commit, Model, Paths, Repo, Tree, content, mixed, next, number_of};
use crate::place::{Outcome, Place};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The repository that holds everything, and others.
pub const FULL: usize = 0;
const DIRS: [&str; 3] = ["full", "part", "other"];

/// Exit codes of a command that found nobody to ask.
const ABSENT: i32 = 6;
const UNREACHABLE: [i32; 2] = [10, 13];

pub struct Story {
    pub place: Place,
    pub model: Model,
    state: u64,
    /// The newest content.
    pub newest: usize,
    /// Branches that were made.
    pub branches: usize,
    /// Commands that ended for lack of something, and came through later.
    pub lacked: usize,
    pub merged: usize,
}

/// How a command ended.
pub struct Done {
    pub code: i32,
    pub out: Vec<u8>,
    pub said: String,
}

impl Story {
    pub fn new(seed: u64) -> Outcome<Story> {
        let place = Place::new()?;
        place.ok(&["init", "full"])?;
        let mut story = Story {
            place,
            model: Model::default(),
            state: seed,
            newest: 0,
            branches: 0,
            lacked: 0,
            merged: 0,
        };
        story.model.repos.push(Repo {
            dir: DIRS[FULL],
            head: "main".into(),
            branches: BTreeMap::new(),
            paths: Paths::all(),
            edits: BTreeMap::new(),
            stashes: Vec::new(),
        });
        for _ in 0..story.below(4) + 1 {
            for _ in 0..6 {
                story.edit(FULL)?;
            }
            story.commit(FULL)?;
        }
        for name in ["b1", "b2"] {
            story.new_branch(FULL, name)?;
            story.edit(FULL)?;
            story.commit(FULL)?;
        }
        for r in 1..DIRS.len() {
            story.clone_part(r)?;
        }
        for (dir, name, at) in [("part", "other", "../other"), ("other", "part", "../part")] {
            story.place.ok(&["-C", dir, "remote", "add", name, at])?;
        }
        Ok(story)
    }

    /// Another clone of the whole: of some paths, some history, without content, or whole.
    fn clone_part(&mut self, r: usize) -> Outcome {
        let full = self.model.repos[FULL].clone();
        let mut args: Vec<String> = ["clone", "full", DIRS[r]].map(str::to_owned).to_vec();
        let mut paths = Paths::all();
        if self.below(3) > 0 {
            let mut names = self.some_paths();
            // A clone of nothing that is there is refused.
            let files = self.model.tree(full.tip()).keys();
            let dir = files.filter_map(|file| file.split('/').next()).next();
            names.extend(dir.map(str::to_owned));
            args.push("--subset".into());
            args.extend(names.iter().cloned());
            paths = Paths::of(&names);
        }
        if self.below(3) == 0 {
            args.push("--meta-only".into());
            paths = Paths::of(&[]);
        }
        if self.below(2) == 0 {
            args.extend(["--depth".into(), (self.below(3) + 1).to_string()]);
        }
        let done = self.run(&args)?;
        done.is(&[0])?;
        let head = full.head;
        let branches = BTreeMap::from([(head.clone(), full.branches[&head].clone())]);
        self.model.repos.push(Repo {
            dir: DIRS[r],
            head,
            branches,
            paths,
            edits: BTreeMap::new(),
            stashes: Vec::new(),
        });
        self.check(r)
    }

    pub fn below(&mut self, n: usize) -> usize {
        self.state = next(self.state);
        (mixed(self.state) % n as u64) as usize
    }

    pub fn some_path(&mut self) -> String {
        match self.below(8) {
            0 => format!("f{}", self.below(2)),
            1 => format!("d1/s/f{}", self.below(2)),
            _ => format!("d{}/f{}", self.below(4), self.below(3)),
        }
    }

    /// Names of directories and files.
    pub fn some_paths(&mut self) -> Vec<String> {
        let one = |story: &mut Story| match story.below(4) {
            0 => story.some_path(),
            1 => "d1/s".to_owned(),
            _ => format!("d{}", story.below(4)),
        };
        (0..=self.below(2)).map(|_| one(self)).collect()
    }

    pub fn args(&self, r: usize, args: &[&str]) -> Vec<String> {
        let dir = ["-C", self.model.repos[r].dir];
        dir.iter().chain(args).map(|s| (*s).to_owned()).collect()
    }

    /// Runs a command. None may find damage, or break.
    pub fn run(&self, args: &[String]) -> Outcome<Done> {
        let output = self.place.run(args)?;
        let code = output.status.code().unwrap_or(-1);
        let said = String::from_utf8(output.stderr)?;
        println!(
            "dmv {} => {code} {}",
            args.join(" "),
            said.trim_end().replace('\n', " / ")
        );
        if [-1, 2, 7, 11, 12, 14, 101].contains(&code) {
            return Err(format!("{args:?} ended with {code}: {said}").into());
        }
        let out = output.stdout;
        Ok(Done { code, out, said })
    }

    /// Runs a command in a repository, perhaps when nobody can be asked. If it ends for that reason,
    /// nothing has happened, and the same command arrives when the others are here again.
    pub fn meet(&mut self, r: usize, args: &[&str]) -> Outcome<Done> {
        let args = self.args(r, args);
        let others: Vec<usize> = (0..DIRS.len()).filter(|other| *other != r).collect();
        let mut done = match self.below(4) {
            0 => {
                let before = self.last_operation(r)?;
                self.hide(&others, true)?;
                let done = self.run(&args)?;
                let is_absent = done.code == ABSENT || UNREACHABLE.contains(&done.code);
                if is_absent {
                    self.check(r)?;
                    assert_eq!(
                        before,
                        self.last_operation(r)?,
                        "{args:?} has done something"
                    );
                }
                self.hide(&others, false)?;
                if !is_absent {
                    return Ok(done);
                }
                self.lacked += 1;
                self.run(&args)?
            }
            1 => {
                let mut offline = args.clone();
                offline.push("--offline".into());
                let before = self.last_operation(r)?;
                let done = self.run(&offline)?;
                if done.code == ABSENT {
                    self.check(r)?;
                    // What a pull has fetched is noted before the merge.
                    let is_same = before == self.last_operation(r)? || args[2] == "pull";
                    assert!(is_same, "{args:?} has done something");
                    self.lacked += 1;
                    self.run(&args)?
                } else {
                    return Ok(done);
                }
            }
            _ => self.run(&args)?,
        };
        if done.code == ABSENT && done.said.contains("--all-history") {
            // History is not brought unasked; then it goes.
            self.check(r)?;
            self.run(&self.args(r, &["fetch", "--all-history"]))?
                .is(&[0])?;
            done = self.run(&args)?;
        }
        if done.code == ABSENT {
            return Err(format!("{args:?}, where everybody is here: {}", done.said).into());
        }
        Ok(done)
    }

    fn hide(&self, repos: &[usize], hidden: bool) -> Outcome {
        for r in repos {
            let here = self.place.work().join(DIRS[*r]);
            let away = self.place.work().join(format!("{}.away", DIRS[*r]));
            if hidden {
                fs::rename(here, away)?
            } else {
                fs::rename(away, here)?
            }
        }
        Ok(())
    }

    pub fn last_operation(&self, r: usize) -> Outcome<(String, String)> {
        let all = self
            .place
            .records(&self.args(r, &["op", "log", "-n", "1", "--json"]))?;
        let newest = all.first().ok_or("no operation")?;
        let field = |name: &str| newest[name].as_str().unwrap_or_default().to_owned();
        Ok((field("id"), field("command")))
    }

    /// The id that a branch of a remote has, as far as this repository knows.
    pub fn known(&self, r: usize, revision: &str) -> Outcome<Option<String>> {
        let args = self.args(r, &["log", "-n", "1", "--json", revision]);
        let done = self.run(&args)?;
        if done.code != 0 {
            return Ok(None);
        }
        let record: serde_json::Value = serde_json::from_slice(&done.out)?;
        Ok(record["id"].as_str().map(str::to_owned))
    }

    /// Notes a new commit that the worktree is on.
    pub fn moved(&mut self, r: usize, id: &str, tree: Tree, parents: Vec<String>) {
        let conflicted = false;
        let commit = Commit {
            tree,
            parents,
            conflicted,
        };
        self.model.commits.entry(id.to_owned()).or_insert(commit);
        self.goes_to(r, id);
    }

    /// The branch that a worktree is on, or that worktree alone, goes to a commit; edits stay.
    pub fn goes_to(&mut self, r: usize, id: &str) {
        let before = self.on_disk(r);
        let repo = &mut self.model.repos[r];
        if repo.is_on_branch() || !self.model.commits.contains_key(&repo.head) {
            repo.branches.insert(repo.head.clone(), id.to_owned());
        } else {
            repo.head = id.to_owned();
        }
        self.keep_edits(r, before);
    }

    /// Edits as contents by path.
    pub fn on_disk(&self, r: usize) -> BTreeMap<String, Option<usize>> {
        self.model.repos[r].edits.clone()
    }

    /// What was edited is now told against the commit that the worktree is on.
    pub fn keep_edits(&mut self, r: usize, edits: BTreeMap<String, Option<usize>>) {
        let tip = self.model.repos[r].tip().to_owned();
        let tree = self.model.tree(&tip).clone();
        let differs = |path: &String, edit: &Option<usize>| tree.get(path).copied() != *edit;
        let edits = edits.into_iter().filter(|(path, edit)| differs(path, edit));
        self.model.repos[r].edits = edits.collect();
    }

    /// The files that a worktree should have.
    pub fn files(&self, r: usize) -> Tree {
        let repo = &self.model.repos[r];
        let mut want = match self.model.commits.get(repo.tip()) {
            Some(commit) => commit.tree.clone(),
            None => Tree::new(),
        };
        want.retain(|path, _| repo.paths.has(path));
        for (path, edit) in &repo.edits {
            match edit {
                Some(n) => want.insert(path.clone(), *n),
                None => want.remove(path),
            };
        }
        want
    }

    /// Branches, files on disk and what `status` says are those of the model.
    pub fn check(&self, r: usize) -> Outcome {
        let repo = &self.model.repos[r];
        let hidden = self.place.work().join(repo.dir);
        let mut branches = BTreeMap::new();
        for record in self.place.records(&self.args(r, &["branch", "--json"]))? {
            let field = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
            branches.insert(field("name"), field("commit"));
        }
        assert_eq!(branches, repo.branches, "branches of {}", repo.dir);
        assert_eq!(files_in(&hidden)?, self.files(r), "files of {}", repo.dir);
        let status = self.place.json(&self.args(r, &["status", "--json"]))?;
        assert_eq!(status["commit"], repo.tip(), "{status}");
        let listed = status["changes"].as_array().ok_or("changes")?;
        // Directories that became empty or full are told as well.
        let is_file = |c: &&serde_json::Value| c["path"].as_str().is_some_and(is_file);
        assert_eq!(
            listed.iter().filter(is_file).count(),
            repo.edits.len(),
            "{status}: {:?}",
            repo.edits
        );
        Ok(())
    }

    /// `verify` finds that a repository holds what it is to hold.
    pub fn verify(&self, r: usize) -> Outcome {
        let report = self
            .place
            .json(&self.args(r, &["verify", "--full", "--json"]))?;
        assert_eq!(report["ok"], true, "{report}");
        assert_eq!(report["missing"], serde_json::json!([]), "{report}");
        Ok(())
    }

    /// Everything acknowledged is sent to the whole repository and read back there.
    pub fn end(&mut self) -> Outcome {
        for r in 0..DIRS.len() {
            self.verify(r)?;
        }
        for (r, dir) in DIRS.iter().enumerate().skip(1) {
            let branches = self.model.repos[r].branches.clone();
            for (name, id) in branches {
                let end = format!("end-{dir}-{name}");
                self.run(&self.args(r, &["branch", &end, &id]))?.is(&[0])?;
                self.run(&self.args(r, &["push", "origin", &end]))?
                    .is(&[0])?;
            }
        }
        self.verify(FULL)?;
        for r in 0..DIRS.len() {
            for id in self.model.repos[r].branches.values() {
                for id in self.model.ancestors(id) {
                    if !self.model.commits[&id].conflicted {
                        self.read_back(&id)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// A commit's files, byte for byte, from the whole repository.
    fn read_back(&self, id: &str) -> Outcome {
        let dir = self.place.work().join("read");
        self.place
            .ok(&self.args(FULL, &["export", id, "--to", "../read"]))?;
        assert_eq!(&files_in(&dir)?, self.model.tree(id), "files of {id}");
        fs::remove_dir_all(dir)?;
        Ok(())
    }
}

impl Done {
    pub fn is(&self, codes: &[i32]) -> Outcome {
        if codes.contains(&self.code) {
            Ok(())
        } else {
            Err(format!("{} is none of {codes:?}: {}", self.code, self.said).into())
        }
    }

    pub fn json(&self) -> Outcome<serde_json::Value> {
        Ok(serde_json::from_slice(&self.out)?)
    }
}

fn is_file(path: &str) -> bool {
    path.rsplit('/')
        .next()
        .is_some_and(|name| name.starts_with('f'))
}

/// The contents of all files below a directory, but for the repository.
pub fn files_in(dir: &Path) -> Outcome<Tree> {
    let mut out = Tree::new();
    let mut stack = vec![(dir.to_owned(), String::new())];
    while let Some((dir, at)) = stack.pop() {
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let name = entry.file_name().into_string().map_err(|_| "a name")?;
            if name == ".dmv" {
                continue;
            }
            let path = format!("{at}{name}");
            if entry.file_type()?.is_dir() {
                stack.push((entry.path(), format!("{path}/")));
                continue;
            }
            let bytes = fs::read(entry.path())?;
            let n = number_of(&bytes)
                .ok_or_else(|| format!("{path} holds {} bytes of none", bytes.len()))?;
            out.insert(path, n);
        }
    }
    Ok(out)
}

/// Writes a content.
pub fn write(place: &Place, dir: &str, path: &str, n: usize) -> Outcome {
    place.write(format!("{dir}/{path}"), content(n))
}
