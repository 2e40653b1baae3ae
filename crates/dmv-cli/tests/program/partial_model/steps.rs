//! The commands of a story.

use super::model::{Commit, Merged, Paths, Repo};
use super::story::{Done, FULL, Story, files_in, write};
use crate::place::Outcome;
use std::fs;

impl Story {
    /// One command somewhere; what moved something may be taken back at once, and done again.
    pub fn step(&mut self) -> Outcome {
        let r = self.below(3);
        if self.below(3) == 0 {
            self.edit(r)?;
        }
        let before = self.model.repos[r].clone();
        let last = self.last_operation(r)?.0;
        match self.below(21) {
            0..=2 => self.commit(r)?,
            3 => {
                self.branches += 1;
                let name = format!("n{}", self.branches);
                self.new_branch(r, &name)?;
            }
            4 | 5 => self.checkout(r)?,
            6 => self.subset(r)?,
            7 | 8 => self.merge(r)?,
            9 | 10 => self.pull(r)?,
            11 => self.push(r)?,
            12 => self.fetch(r)?,
            13 => self.drop_some(r)?,
            14 => self.get(r)?,
            15 => self.restore(r)?,
            16..=19 => self.rearrange(r)?,
            _ => self.look(r)?,
        }
        self.check(r)?;
        if self.below(4) == 0 {
            self.take_back(r, before, &last)?;
        }
        if self.below(6) == 0 {
            self.verify(r)?;
        }
        Ok(())
    }

    fn take_back(&mut self, r: usize, before: Repo, last: &str) -> Outcome {
        let (id, command) = self.last_operation(r)?;
        let is_one = self
            .place
            .records(&self.args(r, &["op", "log", "-n", "2", "--json"]))?;
        let is_one = is_one.get(1).is_some_and(|op| op["id"] == last);
        let known = ["commit", "checkout", "merge", "pull", "restore", "subset"];
        // A file that was moved is written anew at once, so its way back is not the model's.
        let exact = [
            " restore ",
            " rm ",
            " reset ",
            " cherry-pick ",
            " rebase ",
            " stash",
        ];
        let is = |words: &[&str]| words.iter().any(|word| command.contains(word));
        // Undo passes over what is only known of remotes.
        let now = &self.model.repos[r];
        let is_same = (&before.head, &before.branches, &before.paths, &before.edits)
            == (&now.head, &now.branches, &now.paths, &now.edits);
        if is_same {
            return Ok(());
        }
        // What an edit has in common with where it was taken to is no edit any more.
        let stays = command.contains("commit") || before.edits == self.model.repos[r].edits;
        let is_undone = stays || is(&exact);
        if id == last || !is_one || !is_undone || !is(&known) && !is(&exact) {
            return Ok(());
        }
        let after = std::mem::replace(&mut self.model.repos[r], before);
        let now = self.model.repos[r].clone();
        // The command itself may have to bring what was here before.
        self.model.repos[r] = after.clone();
        self.meet(r, &["undo"])?.is(&[0])?;
        self.model.repos[r] = now;
        self.check(r)?;
        if self.below(2) == 0 {
            let now = std::mem::replace(&mut self.model.repos[r], after.clone());
            self.model.repos[r] = now;
            self.meet(r, &["redo"])?.is(&[0])?;
            self.model.repos[r] = after;
            self.check(r)?;
        }
        Ok(())
    }

    pub fn edit(&mut self, r: usize) -> Outcome {
        let path = self.some_path();
        let repo = &self.model.repos[r];
        if !repo.paths.has(&path) {
            return Ok(());
        }
        let committed = self.model.commits.get(repo.tip());
        let committed = committed.and_then(|commit| commit.tree.get(&path).copied());
        let now = repo.edits.get(&path).copied().unwrap_or(committed);
        let dir = repo.dir;
        let edit = if now.is_some() && self.below(3) == 0 {
            fs::remove_file(self.place.work().join(dir).join(&path))?;
            None
        } else {
            self.newest += 1;
            write(&self.place, dir, &path, self.newest)?;
            Some(self.newest)
        };
        println!("edit {dir}/{path} {edit:?}");
        let edits = &mut self.model.repos[r].edits;
        if edit == committed {
            edits.remove(&path)
        } else {
            edits.insert(path, edit)
        };
        Ok(())
    }

    pub fn commit(&mut self, r: usize) -> Outcome {
        let repo = self.model.repos[r].clone();
        let mut args = vec!["commit", "-m", "more", "--json"];
        let mut taken = repo.edits.clone();
        if let (Some(path), 0) = (repo.edits.keys().next(), self.below(4)) {
            args.push(path);
            taken.retain(|edited, _| edited == path);
        }
        let done = self.run_anywhere(r, &args)?;
        done.is(&[0])?;
        let commit = done.json()?["commit"].as_str().map(str::to_owned);
        let Some(id) = commit else {
            assert!(taken.is_empty(), "nothing was committed: {taken:?}");
            return Ok(());
        };
        let parent = self.model.commits.get(repo.tip());
        let mut tree = parent.map(|commit| commit.tree.clone()).unwrap_or_default();
        let parents = parent.map(|_| repo.tip().to_owned());
        for (path, edit) in &taken {
            match edit {
                Some(n) => tree.insert(path.clone(), *n),
                None => tree.remove(path),
            };
        }
        self.moved(r, &id, tree, parents.into_iter().collect());
        Ok(())
    }

    /// The first commits come before there are others.
    fn run_anywhere(&mut self, r: usize, args: &[&str]) -> Outcome<Done> {
        match self.model.repos.len() {
            3 => self.meet(r, args),
            _ => self.run(&self.args(r, args)),
        }
    }

    pub fn new_branch(&mut self, r: usize, name: &str) -> Outcome {
        self.run_anywhere(r, &["checkout", "-b", name])?.is(&[0])?;
        let repo = &mut self.model.repos[r];
        let tip = repo.tip().to_owned();
        repo.branches.insert(name.to_owned(), tip);
        repo.head = name.to_owned();
        Ok(())
    }

    /// A branch of this repository, or one of the whole.
    pub fn some_branch(&mut self, r: usize) -> Outcome<(String, String)> {
        let own = self.below(3) > 0;
        let repo = &self.model.repos[if own { r } else { FULL }];
        let count = repo.branches.len();
        let n = self.below(count);
        let repo = &self.model.repos[if own { r } else { FULL }];
        let (name, id) = repo.branches.iter().nth(n).ok_or("a branch")?;
        if own || r == FULL {
            return Ok((name.clone(), id.clone()));
        }
        let name = format!("origin/{name}");
        match self.known(r, &name)? {
            Some(id) => Ok((name, id)),
            None => {
                let repo = &self.model.repos[r];
                Ok((repo.head.clone(), repo.tip().to_owned()))
            }
        }
    }

    fn checkout(&mut self, r: usize) -> Outcome {
        let (name, id) = self.some_branch(r)?;
        if self.model.commits[&id].conflicted {
            return Ok(());
        }
        // By its name a branch that only the remote has is made here.
        let short = name.strip_prefix("origin/").unwrap_or(&name).to_owned();
        let own = self.model.repos[r].branches.get(&short).cloned();
        let typed = if own.is_some() && name != short {
            name.clone()
        } else {
            short.clone()
        };
        let done = self.meet(r, &["checkout", &typed])?;
        if done.code == 5 {
            assert!(!self.model.repos[r].edits.is_empty(), "{}", done.said);
            return Ok(());
        }
        done.is(&[0])?;
        let edits = self.on_disk(r);
        // A worktree that is on no branch has a commit's id as its head.
        let is_branch = typed == short && !self.model.commits.contains_key(&short);
        let repo = &mut self.model.repos[r];
        repo.head = if is_branch {
            repo.branches.entry(short.clone()).or_insert(id);
            short
        } else {
            id
        };
        self.keep_edits(r, edits);
        Ok(())
    }

    fn subset(&mut self, r: usize) -> Outcome {
        if !self.model.repos[r].edits.is_empty() {
            return Ok(());
        }
        let names = self.some_paths();
        let verb = ["set", "add", "add", "remove", "clear"][self.below(5)];
        let mut args = vec!["subset", verb];
        if verb != "clear" {
            args.extend(names.iter().map(String::as_str));
        }
        self.meet(r, &args)?.is(&[0])?;
        let paths = &mut self.model.repos[r].paths;
        match verb {
            "clear" => *paths = Paths::all(),
            "set" => *paths = Paths::of(&names),
            _ => paths
                .named
                .extend(names.into_iter().map(|name| (name, verb == "add"))),
        }
        Ok(())
    }

    fn merge(&mut self, r: usize) -> Outcome {
        let (name, theirs) = self.some_branch(r)?;
        self.merge_with(r, &theirs, &["merge", &name, "--json"], |document| {
            document.clone()
        })
    }

    fn pull(&mut self, r: usize) -> Outcome {
        let repo = self.model.repos[r].clone();
        if r == FULL || !repo.is_on_branch() {
            return Ok(());
        }
        let Some(theirs) = self.model.repos[FULL].branches.get(&repo.head).cloned() else {
            self.meet(r, &["pull"])?.is(&[20])?;
            return Ok(());
        };
        self.merge_with(r, &theirs, &["pull", "--json"], |document| {
            document["merge"].clone()
        })
    }

    fn merge_with(
        &mut self,
        r: usize,
        theirs: &str,
        args: &[&str],
        report: fn(&serde_json::Value) -> serde_json::Value,
    ) -> Outcome {
        let ours = self.model.repos[r].tip().to_owned();
        let merged = self.model.merge(&ours, theirs);
        if matches!(merged, Merged::Unknown) {
            return Ok(());
        }
        let done = self.meet(r, args)?;
        if done.code == 5 {
            let replaced = done.said.contains("remote-replaced");
            assert!(
                replaced || !self.model.repos[r].edits.is_empty(),
                "{}",
                done.said
            );
            return Ok(());
        }
        let document = report(&done.json()?);
        let id = document["commit"].as_str().ok_or("a commit")?.to_owned();
        match merged {
            Merged::Nothing => {
                done.is(&[0])?;
                assert_eq!(id, ours);
            }
            Merged::Forward => {
                done.is(&[0])?;
                assert_eq!(id, theirs);
                self.goes_to(r, &id);
            }
            Merged::Clean(tree) => {
                done.is(&[0])?;
                self.merged += 1;
                self.moved(r, &id, tree, vec![ours, theirs.to_owned()]);
            }
            Merged::Conflicts(trees, conflicts) => {
                done.is(&[4])?;
                let named = document["conflicts"].as_array().ok_or("conflicts")?;
                let path = |c: &serde_json::Value| c["path"].as_str().map(str::to_owned);
                let named: std::collections::BTreeSet<String> =
                    named.iter().filter_map(path).collect();
                assert_eq!(named, conflicts);
                let parents = vec![ours, theirs.to_owned()];
                let commit = Commit {
                    tree: trees[0].clone(),
                    parents,
                    conflicted: true,
                };
                self.settle(r, &id, commit, trees)?;
            }
            Merged::Unknown => {}
        }
        Ok(())
    }

    /// Takes a merge with conflicts back, or settles them all alike.
    pub fn settle(
        &mut self,
        r: usize,
        id: &str,
        commit: Commit,
        trees: [super::model::Tree; 2],
    ) -> Outcome {
        if !self.model.repos[r].edits.is_empty() || self.below(2) == 0 {
            self.run(&self.args(r, &["undo"]))?.is(&[0])?;
            return Ok(());
        }
        self.model.commits.insert(id.to_owned(), commit);
        let side = self.below(2);
        let word = ["--ours", "--theirs"][side];
        self.run(&self.args(r, &["resolve", "--all", word]))?
            .is(&[0])?;
        let done = self.run(&self.args(r, &["commit", "-m", "settled", "--json"]))?;
        done.is(&[0])?;
        let new = done.json()?["commit"]
            .as_str()
            .ok_or("a commit")?
            .to_owned();
        self.moved(r, &new, trees[side].clone(), vec![id.to_owned()]);
        Ok(())
    }

    /// Sends the branch to the whole repository, which then goes there as well.
    fn push(&mut self, r: usize) -> Outcome {
        let (repo, full) = (self.model.repos[r].clone(), self.model.repos[FULL].clone());
        let is_there = full.head == repo.head;
        if r == FULL || !repo.is_on_branch() || is_there && !full.edits.is_empty() {
            return Ok(());
        }
        let done = self.meet(r, &["push", "origin"])?;
        let forward = match full.branches.get(&repo.head) {
            Some(theirs) => self.model.ancestors(repo.tip()).contains(theirs),
            None => true,
        };
        if !forward {
            return done.is(&[5]);
        }
        done.is(&[0])?;
        let full = &mut self.model.repos[FULL];
        full.branches
            .insert(repo.head.clone(), repo.tip().to_owned());
        if is_there {
            self.run(&self.args(FULL, &["checkout", &repo.head]))?
                .is(&[0])?;
        }
        self.check(FULL)
    }

    fn fetch(&mut self, r: usize) -> Outcome {
        if r == FULL {
            return Ok(());
        }
        let other = ["", "other", "part"][r];
        match self.below(5) {
            0 => self.meet(r, &["fetch", "--all-history"])?.is(&[0]),
            1 => {
                let depth = (self.below(4) + 1).to_string();
                self.meet(r, &["fetch", "--depth", &depth])?.is(&[0])
            }
            // It may hold too little.
            2 => self.run(&self.args(r, &["fetch", other]))?.is(&[0, 6]),
            _ => self.meet(r, &["fetch"])?.is(&[0]),
        }
    }

    /// A file or a directory, of this commit or another.
    fn some_place(&mut self, r: usize) -> Outcome<(String, Vec<String>)> {
        let (name, id) = self.some_branch(r)?;
        let path = match self.below(3) {
            0 => self.some_path(),
            _ => format!("d{}", self.below(4)),
        };
        let tree = self.model.tree(&id);
        let under = |have: &&String| **have == path || have.starts_with(&format!("{path}/"));
        let files = tree.keys().filter(under).cloned().collect();
        Ok((format!("{name}:{path}"), files))
    }

    fn drop_some(&mut self, r: usize) -> Outcome {
        let (place, files) = self.some_place(r)?;
        if r == FULL || files.is_empty() {
            return Ok(());
        }
        self.meet(r, &["drop", &place])?.is(&[0, 5])?;
        self.verify(r)
    }

    fn get(&mut self, r: usize) -> Outcome {
        let (place, files) = self.some_place(r)?;
        if !files.is_empty() {
            self.meet(r, &["get", &place])?.is(&[0])?;
        }
        Ok(())
    }

    fn restore(&mut self, r: usize) -> Outcome {
        let (place, files) = self.some_place(r)?;
        let (name, path) = place.split_once(':').ok_or("a place")?;
        let repo = &self.model.repos[r];
        let id = self.known(r, name)?.ok_or("a commit")?;
        if files.is_empty()
            || !files.iter().any(|file| repo.paths.has(file))
            || self.model.commits[&id].conflicted
        {
            return Ok(());
        }
        self.meet(r, &["restore", "--from", name, path])?.is(&[0])?;
        let tree = self.model.tree(&id).clone();
        let mut edits = self.on_disk(r);
        for file in files
            .iter()
            .filter(|file| self.model.repos[r].paths.has(file))
        {
            edits.insert(file.clone(), Some(tree[file]));
        }
        self.keep_edits(r, edits);
        Ok(())
    }

    /// Commands that only show something.
    fn look(&mut self, r: usize) -> Outcome {
        let (place, files) = self.some_place(r)?;
        let (name, id) = self.some_branch(r)?;
        match self.below(5) {
            0 => {
                self.meet(r, &["diff", "@", &name])?.is(&[0])?;
            }
            1 => {
                self.meet(r, &["ls", "-r", &name])?.is(&[0])?;
            }
            2 if !self.model.commits[&id].conflicted => {
                for (path, n) in self.model.tree(&id).clone().into_iter().take(2) {
                    let done = self.meet(r, &["cat", &format!("{name}:{path}")])?;
                    done.is(&[0])?;
                    assert!(done.out == super::model::content(n), "{path} of {id}");
                }
            }
            3 => {
                self.meet(r, &["log", "--stat", &name])?.is(&[0])?;
            }
            _ if !files.is_empty() => {
                let dir = self.place.work().join("out");
                let done = self.meet(r, &["export", &place, "--to", "../out"])?;
                done.is(&[0])?;
                if dir.is_dir() {
                    assert_eq!(files_in(&dir)?.len(), files.len(), "{place}");
                    fs::remove_dir_all(dir)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}
