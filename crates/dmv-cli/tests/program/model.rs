//! Random edits, commits, branches, switches, merges, subsets and undos in two worktrees, against a
//! model in memory. A failure prints its seed.

#![allow(clippy::print_stdout)]

use crate::place::{Outcome, Place};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Files by their paths. No content comes twice, and its length tells which it is.
type Tree = BTreeMap<String, usize>;

#[derive(Clone)]
struct Commit {
    tree: Tree,
    parents: Vec<String>,
}

#[derive(Clone)]
struct Work {
    dir: &'static str,
    branch: String,
    /// Directories; none: everything.
    subset: Vec<String>,
    /// What is on disk and differs from the commit; `None`: deleted.
    edits: BTreeMap<String, Option<usize>>,
}

#[derive(Clone)]
struct Model {
    commits: BTreeMap<String, Commit>,
    branches: BTreeMap<String, String>,
    works: Vec<Work>,
}

struct Story {
    place: Place,
    model: Model,
    state: u64,
    /// Length of the newest content.
    newest: usize,
    merges: usize,
    conflicts: usize,
}

impl Model {
    fn tip(&self, w: usize) -> &Commit {
        &self.commits[&self.branches[&self.works[w].branch]]
    }

    fn ancestors(&self, id: &str) -> BTreeSet<String> {
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

    /// A three-way merge of whole files, and the paths in conflict.
    fn merged(&self, base: &Tree, ours: &Tree, theirs: &Tree) -> (Tree, BTreeSet<String>) {
        let (mut tree, mut conflicts) = (Tree::new(), BTreeSet::new());
        let paths: BTreeSet<&String> = base
            .keys()
            .chain(ours.keys())
            .chain(theirs.keys())
            .collect();
        for path in paths {
            let (b, o, t) = (base.get(path), ours.get(path), theirs.get(path));
            let result = match () {
                () if o == t || t == b => o,
                () if o == b => t,
                () => {
                    conflicts.insert(path.clone());
                    None
                }
            };
            tree.extend(result.map(|n| (path.clone(), *n)));
        }
        (tree, conflicts)
    }
}

impl Work {
    fn has(&self, path: &str) -> bool {
        let dir = path.split('/').next().unwrap_or_default();
        self.subset.is_empty() || self.subset.iter().any(|have| have == dir)
    }
}

impl Story {
    fn new(seed: u64) -> Outcome<Story> {
        let place = Place::new()?;
        place.ok(&["init", "one"])?;
        let work = |dir, branch: &str| Work {
            dir,
            branch: branch.to_owned(),
            subset: Vec::new(),
            edits: BTreeMap::new(),
        };
        let model = Model {
            commits: BTreeMap::new(),
            branches: BTreeMap::new(),
            works: vec![work("one", "main"), work("two", "b0")],
        };
        let mut story = Story {
            place,
            model,
            state: seed,
            newest: 0,
            merges: 0,
            conflicts: 0,
        };
        story.edit(0)?;
        story.edit(0)?;
        story.commit(0)?;
        story.place.ok(&["-C", "one", "branch", "b0"])?;
        story
            .place
            .ok(&["-C", "one", "worktree", "add", "../two", "b0"])?;
        let first = story.model.branches["main"].clone();
        story.model.branches.insert("b0".into(), first);
        Ok(story)
    }

    /// splitmix64 (Steele, Lea, Flood 2014).
    fn below(&mut self, n: usize) -> usize {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % n as u64) as usize
    }

    fn in_work(&self, w: usize, args: &[&str]) -> Vec<String> {
        let dir = ["-C", self.model.works[w].dir];
        dir.iter().chain(args).map(|s| (*s).to_owned()).collect()
    }

    fn edit(&mut self, w: usize) -> Outcome {
        let path = format!("d{}/f{}", self.below(3), self.below(3));
        if !self.model.works[w].has(&path) {
            return Ok(());
        }
        let committed = match self.model.branches.get(&self.model.works[w].branch) {
            Some(id) => self.model.commits[id].tree.get(&path).copied(),
            None => None,
        };
        let now = match self.model.works[w].edits.get(&path) {
            Some(edit) => *edit,
            None => committed,
        };
        let file = self.place.work().join(self.model.works[w].dir).join(&path);
        let edits = &mut self.model.works[w].edits;
        if now.is_some() && self.state.is_multiple_of(3) {
            fs::remove_file(file)?;
            match committed {
                Some(_) => edits.insert(path, None),
                None => edits.remove(&path),
            };
            return Ok(());
        }
        self.newest += 1;
        fs::create_dir_all(file.parent().ok_or("a parent")?)?;
        fs::write(file, vec![0; self.newest])?;
        edits.insert(path, Some(self.newest));
        Ok(())
    }

    fn commit(&mut self, w: usize) -> Outcome {
        let args = self.in_work(w, &["commit", "-m", "more", "--json"]);
        let done = self.place.json(&args)?;
        let work = self.model.works[w].clone();
        let parent = self.model.branches.get(&work.branch).cloned();
        let mut tree = match &parent {
            Some(id) => self.model.commits[id].tree.clone(),
            None => Tree::new(),
        };
        for (path, edit) in work.edits {
            match edit {
                Some(n) => tree.insert(path, n),
                None => tree.remove(&path),
            };
        }
        self.model.works[w].edits.clear();
        match done["commit"].as_str() {
            Some(id) => self.moved(w, id, tree, parent.into_iter().collect()),
            None => Ok(()),
        }
    }

    /// Notes a new commit on a worktree's branch, and holds its files against the model.
    fn moved(&mut self, w: usize, id: &str, tree: Tree, parents: Vec<String>) -> Outcome {
        let mut listed = Tree::new();
        for record in self
            .place
            .records(&self.in_work(w, &["ls", "-r", id, "--json"]))?
        {
            if record["kind"] == "file" {
                let path = record["path"].as_str().ok_or("a path")?.to_owned();
                listed.insert(path, record["size"].as_u64().ok_or("a size")? as usize);
            }
        }
        assert_eq!(listed, tree);
        let commit = Commit { tree, parents };
        self.model.commits.insert(id.to_owned(), commit);
        let branch = self.model.works[w].branch.clone();
        self.model.branches.insert(branch, id.to_owned());
        Ok(())
    }

    fn new_branch(&mut self, w: usize) -> Outcome {
        let name = format!("b{}", self.model.branches.len());
        if self.model.branches.contains_key(&name) {
            return Ok(());
        }
        self.place
            .ok(&self.in_work(w, &["checkout", "-b", &name]))?;
        let tip = self.model.branches[&self.model.works[w].branch].clone();
        self.model.branches.insert(name.clone(), tip);
        self.model.works[w].branch = name;
        Ok(())
    }

    fn checkout(&mut self, w: usize) -> Outcome {
        let n = self.below(self.model.branches.len());
        let name = self.model.branches.keys().nth(n).ok_or("a branch")?.clone();
        let args = self.in_work(w, &["checkout", &name]);
        if self.model.works[1 - w].branch == name {
            self.place.fails(5, &args)?;
            return Ok(());
        }
        self.place.ok(&args)?;
        self.model.works[w].branch = name;
        Ok(())
    }

    fn subset(&mut self, w: usize) -> Outcome {
        let mut dirs: Vec<String> = (0..3).map(|n| format!("d{n}")).collect();
        let (gone, all) = (self.below(3), self.below(3) == 0);
        dirs.remove(gone);
        let mut args = self.in_work(w, &["subset"]);
        if all {
            dirs.clear();
            args.push("clear".into());
        } else {
            args.push("set".into());
            args.extend(dirs.iter().cloned());
        }
        self.place.ok(&args)?;
        self.model.works[w].subset = dirs;
        Ok(())
    }

    fn merge(&mut self, w: usize) -> Outcome {
        let n = self.below(self.model.branches.len());
        let (name, theirs) = self.model.branches.iter().nth(n).ok_or("a branch")?;
        let (name, theirs) = (name.clone(), theirs.clone());
        let ours = self.model.branches[&self.model.works[w].branch].clone();
        let bases = self.model.bases(&ours, &theirs);
        let [base] = bases.as_slice() else {
            return Ok(());
        };
        let args = self.in_work(w, &["merge", &name, "--json"]);
        let tree = |id: &str| self.model.commits[id].tree.clone();
        let (tree, conflicts) = self.model.merged(&tree(base), &tree(&ours), &tree(&theirs));
        if !conflicts.is_empty() {
            let done = self.place.run(&args)?;
            assert_eq!(done.status.code(), Some(4));
            let document: Value = serde_json::from_slice(&done.stdout)?;
            let named = document["conflicts"].as_array().ok_or("conflicts")?;
            let path = |c: &Value| c["path"].as_str().map(str::to_owned);
            assert_eq!(
                named.iter().filter_map(path).collect::<BTreeSet<_>>(),
                conflicts
            );
            self.conflicts += 1;
            // The model knows no conflicts: as before.
            self.place.ok(&self.in_work(w, &["undo"]))?;
            return Ok(());
        }
        let done = self.place.json(&args)?;
        let id = done["commit"].as_str().ok_or("a commit")?.to_owned();
        if *base == theirs {
            assert_eq!(id, ours);
        } else if *base == ours {
            assert_eq!(id, theirs);
            let branch = self.model.works[w].branch.clone();
            self.model.branches.insert(branch, id);
        } else {
            self.merges += 1;
            self.moved(w, &id, tree, vec![ours, theirs])?;
        }
        Ok(())
    }

    /// One step; what moved something may be taken back at once.
    fn step(&mut self) -> Outcome {
        let (w, what) = (self.below(2), self.below(9));
        if what < 3 {
            self.edit(w)?;
            return self.check();
        }
        let before = self.model.clone();
        let last = self.last_operation()?;
        match what {
            _ if !self.model.works[w].edits.is_empty() => self.commit(w)?,
            3 => self.new_branch(w)?,
            4 => self.checkout(w)?,
            5 => self.subset(w)?,
            _ => self.merge(w)?,
        }
        self.check()?;
        let is_new = self.last_operation()? != last;
        let newest = self.newest_command()?;
        if is_new && !newest.contains("undo") && self.below(3) == 0 {
            self.place.ok(&self.in_work(w, &["undo"]))?;
            let commits = std::mem::take(&mut self.model.commits);
            self.model = before;
            self.model.commits = commits;
            self.check()?;
        }
        Ok(())
    }

    fn newest(&self, field: &str) -> Outcome<String> {
        let all = self.place.records(&["-C", "one", "op", "log", "--json"])?;
        let newest = all.first().ok_or("no operation")?;
        Ok(newest[field].as_str().unwrap_or_default().to_owned())
    }

    fn last_operation(&self) -> Outcome<String> {
        self.newest("id")
    }

    fn newest_command(&self) -> Outcome<String> {
        self.newest("command")
    }

    /// Branches, files on disk and what `status` says are those of the model.
    fn check(&self) -> Outcome {
        let mut branches = BTreeMap::new();
        for record in self.place.records(&["-C", "one", "branch", "--json"])? {
            let field = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
            branches.insert(field("name"), field("commit"));
        }
        assert_eq!(branches, self.model.branches);
        for (w, work) in self.model.works.iter().enumerate() {
            let mut want = self.model.tip(w).tree.clone();
            want.retain(|path, _| work.has(path));
            let mut changes = 0;
            for (path, edit) in &work.edits {
                changes += 1;
                match edit {
                    Some(n) => want.insert(path.clone(), *n),
                    None => want.remove(path),
                };
            }
            let mut found = Tree::new();
            for dir in (0..3).map(|n| format!("d{n}")) {
                let Ok(entries) = fs::read_dir(self.place.work().join(work.dir).join(&dir)) else {
                    continue;
                };
                for entry in entries {
                    let entry = entry?;
                    let name = entry.file_name().into_string().map_err(|_| "a name")?;
                    found.insert(format!("{dir}/{name}"), entry.metadata()?.len() as usize);
                }
            }
            assert_eq!(found, want, "in {}", work.dir);
            let status = self.place.json(&self.in_work(w, &["status", "--json"]))?;
            let listed = status["changes"].as_array().ok_or("changes")?;
            // Directories that became empty or full are told as well.
            let is_file = |c: &&Value| c["path"].as_str().is_some_and(|p| p.contains("/f"));
            let renamed = listed.iter().filter(|c| c["change"] == "renamed").count();
            assert_eq!(listed.iter().filter(is_file).count() + renamed, changes);
        }
        Ok(())
    }
}

#[test]
fn two_worktrees_do_what_the_model_says() -> Outcome {
    let (mut merges, mut conflicts) = (0, 0);
    for seed in 1..=4 {
        let told = |e| format!("seed {seed}: {e}");
        let mut story = Story::new(seed).map_err(told)?;
        println!("seed {seed}");
        for _ in 0..70 {
            story.step().map_err(told)?;
        }
        story.place.ok(&["-C", "one", "verify"])?;
        merges += story.merges;
        conflicts += story.conflicts;
    }
    assert!(
        merges > 3 && conflicts > 0,
        "{merges} merges, {conflicts} conflicts"
    );
    Ok(())
}
