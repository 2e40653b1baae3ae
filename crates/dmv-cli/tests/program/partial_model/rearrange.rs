//! The verbs that move files, put changes aside and make history anew.

use super::model::{Commit, Merged, Model, Stash, Tree};
use super::story::{FULL, Story, write};
use crate::place::Outcome;
use std::collections::BTreeMap;
use std::fs;

/// A line of commits that a rebase makes again, oldest first, with the trees that come out.
struct Line {
    trees: Vec<(String, Tree)>,
    /// Whether the last commit stays as it is.
    same: bool,
}

impl Story {
    /// One of these verbs.
    pub fn rearrange(&mut self, r: usize) -> Outcome {
        match self.below(8) {
            0 => self.move_file(r),
            1 => self.remove_file(r),
            2 => self.stash(r),
            3 => self.unstash(r),
            4 => self.reset(r),
            5 => self.cherry_pick(r),
            6 => self.rebase(r),
            _ => self.bisect(r),
        }
    }

    /// A file that is on disk.
    fn some_file(&mut self, r: usize) -> Option<(String, usize)> {
        let files = self.files(r);
        let n = self.below(files.len().max(1));
        files.into_iter().nth(n)
    }

    /// What is at a path on disk from now on.
    fn note_edit(&mut self, r: usize, path: &str, now: Option<usize>) {
        let repo = &self.model.repos[r];
        let committed = self.model.commits.get(repo.tip());
        let committed = committed.and_then(|commit| commit.tree.get(path).copied());
        let edits = &mut self.model.repos[r].edits;
        if now == committed {
            edits.remove(path);
        } else {
            edits.insert(path.to_owned(), now);
        }
    }

    /// Moves a file and writes it anew, so that nothing takes the new one for the old one.
    fn move_file(&mut self, r: usize) -> Outcome {
        let (Some((from, _)), to) = (self.some_file(r), self.some_path()) else {
            return Ok(());
        };
        let repo = &self.model.repos[r];
        if !repo.paths.has(&to) || self.files(r).contains_key(&to) {
            return Ok(());
        }
        let dir = repo.dir;
        let above = self.place.work().join(dir).join(&to);
        fs::create_dir_all(above.parent().ok_or("no parent")?)?;
        self.meet(r, &["mv", &from, &to])?.is(&[0])?;
        self.note_edit(r, &from, None);
        self.newest += 1;
        write(&self.place, dir, &to, self.newest)?;
        self.note_edit(r, &to, Some(self.newest));
        Ok(())
    }

    fn remove_file(&mut self, r: usize) -> Outcome {
        let Some((path, _)) = self.some_file(r) else {
            return Ok(());
        };
        let tip = self.model.repos[r].tip().to_owned();
        let done = self.meet(r, &["rm", "--force", &path])?;
        if !self.model.tree(&tip).contains_key(&path) {
            return done.is(&[20]);
        }
        done.is(&[0])?;
        self.note_edit(r, &path, None);
        Ok(())
    }

    fn stash(&mut self, r: usize) -> Outcome {
        self.meet(r, &["stash"])?.is(&[0])?;
        let repo = &mut self.model.repos[r];
        let edits = std::mem::take(&mut repo.edits);
        if !edits.is_empty() {
            let from = repo.tip().to_owned();
            repo.stashes.push(Stash { from, edits });
        }
        Ok(())
    }

    /// Applies, pops or drops the newest stash; nothing that would collide.
    fn unstash(&mut self, r: usize) -> Outcome {
        let repo = self.model.repos[r].clone();
        let Some(stash) = repo.stashes.last() else {
            return self.meet(r, &["stash", "pop"])?.is(&[20]);
        };
        let verb = ["pop", "pop", "apply", "drop"][self.below(4)];
        if verb == "drop" {
            self.meet(r, &["stash", "drop"])?.is(&[0])?;
            self.model.repos[r].stashes.pop();
            return Ok(());
        }
        let (from, disk) = (self.model.tree(&stash.from), self.files(r));
        let fits = |(path, new): (&String, &Option<usize>)| {
            let now = disk.get(path).copied();
            repo.paths.has(path) && (now == *new || now == from.get(path).copied())
        };
        if !stash.edits.iter().all(fits) {
            return Ok(());
        }
        self.meet(r, &["stash", verb])?.is(&[0])?;
        for (path, new) in &stash.edits {
            self.note_edit(r, path, *new);
        }
        if verb == "pop" {
            self.model.repos[r].stashes.pop();
        }
        Ok(())
    }

    fn reset(&mut self, r: usize) -> Outcome {
        let (name, id) = self.some_branch(r)?;
        if self.model.commits[&id].conflicted {
            return Ok(());
        }
        let (old, new) = (
            self.model.tree(self.model.repos[r].tip()).clone(),
            self.model.tree(&id).clone(),
        );
        let disk = self.files(r);
        if self.below(2) == 0 {
            self.meet(r, &["reset", &name])?.is(&[0])?;
            self.goes_to(r, &id);
            self.model.repos[r].edits.clear();
            // The files stay; what differs from the commit is an edit.
            let paths = self.model.repos[r].paths.clone();
            let all = disk.keys().chain(new.keys()).cloned();
            let mut all: Vec<String> = all.filter(|path| paths.has(path)).collect();
            all.dedup();
            for path in all {
                self.note_edit(r, &path, disk.get(&path).copied());
            }
            return Ok(());
        }
        let done = self.meet(r, &["reset", "--hard", &name])?;
        if done.code == 5 {
            assert!(!self.model.repos[r].edits.is_empty(), "{}", done.said);
            return Ok(());
        }
        done.is(&[0])?;
        // Only files that neither commit has stay.
        let mut edits = self.on_disk(r);
        edits.retain(|path, now| {
            now.is_some() && !old.contains_key(path) && !new.contains_key(path)
        });
        self.goes_to(r, &id);
        self.model.repos[r].edits = edits;
        Ok(())
    }

    fn cherry_pick(&mut self, r: usize) -> Outcome {
        let (name, id) = self.some_branch(r)?;
        let ours = self.model.repos[r].tip().to_owned();
        let Some((base, theirs)) = self.model.change_of(&id) else {
            return Ok(());
        };
        if self.model.commits[&ours].conflicted {
            return Ok(());
        }
        let merged = Model::merge_trees(&base, self.model.tree(&ours), &theirs);
        let done = self.meet(r, &["cherry-pick", &name, "--json"])?;
        if done.code == 5 {
            assert!(!self.model.repos[r].edits.is_empty(), "{}", done.said);
            return Ok(());
        }
        let document = done.json()?;
        let made = document["commit"].as_str().ok_or("a commit")?.to_owned();
        match merged {
            Merged::Clean(tree) if tree == *self.model.tree(&ours) => {
                done.is(&[0])?;
                assert_eq!(made, ours, "a pick without a change: {document}");
            }
            Merged::Clean(tree) => {
                done.is(&[0])?;
                self.moved(r, &made, tree, vec![ours]);
            }
            Merged::Conflicts(trees, _) => {
                done.is(&[4])?;
                let commit = Commit {
                    tree: trees[0].clone(),
                    parents: vec![ours],
                    conflicted: true,
                };
                self.settle(r, &made, commit, trees)?;
            }
            _ => return Err("the merge of trees is known".into()),
        }
        Ok(())
    }

    /// Also as a part of `pull`.
    fn rebase(&mut self, r: usize) -> Outcome {
        let head = self.model.repos[r].head.clone();
        let theirs = self.model.repos[FULL].branches.get(&head).cloned();
        let pulls = r != FULL && self.model.repos[r].is_on_branch() && self.below(2) == 0;
        match (pulls, theirs) {
            (true, Some(theirs)) => {
                let args = ["pull", "--rebase", "--json"];
                self.rebase_onto(r, &theirs, &args, |document| document["rebase"].clone())
            }
            (true, None) => Ok(()),
            (false, _) => {
                let (name, theirs) = self.some_branch(r)?;
                let args = ["rebase", &name, "--json"];
                self.rebase_onto(r, &theirs, &args, serde_json::Value::clone)
            }
        }
    }

    fn rebase_onto(
        &mut self,
        r: usize,
        theirs: &str,
        args: &[&str],
        report: fn(&serde_json::Value) -> serde_json::Value,
    ) -> Outcome {
        let ours = self.model.repos[r].tip().to_owned();
        let Some(line) = self.line(&ours, theirs) else {
            return Ok(());
        };
        let done = self.meet(r, args)?;
        if done.code == 5 {
            assert!(!self.model.repos[r].edits.is_empty(), "{}", done.said);
            return Ok(());
        }
        done.is(&[0])?;
        let document = report(&done.json()?);
        let tip = document["commit"].as_str().ok_or("a commit")?.to_owned();
        if line.same {
            assert_eq!(tip, ours, "{document}");
            return Ok(());
        }
        let made = document["commits"].as_array().ok_or("commits")?;
        let pairs = made.iter().map(|one| {
            let field = |name: &str| one[name].as_str().unwrap_or_default().to_owned();
            (field("from"), field("commit"))
        });
        let made: BTreeMap<String, String> = pairs.collect();
        let mut parent = theirs.to_owned();
        for (from, tree) in line.trees {
            let id = made
                .get(&from)
                .ok_or_else(|| format!("{from}: {document}"))?;
            let commit = Commit {
                tree,
                parents: vec![parent],
                conflicted: false,
            };
            self.model.commits.entry(id.clone()).or_insert(commit);
            parent = id.clone();
        }
        assert_eq!(tip, parent, "{document}");
        self.goes_to(r, &tip);
        Ok(())
    }

    /// What a rebase makes, if that is known: no merges, and no conflicts on the way.
    fn line(&self, ours: &str, theirs: &str) -> Option<Line> {
        let known = self.model.ancestors(theirs);
        if self.model.commits[theirs].conflicted {
            return None;
        }
        let (mut at, mut commits) = (ours.to_owned(), Vec::new());
        while !known.contains(&at) {
            let commit = &self.model.commits[&at];
            let [parent] = &commit.parents[..] else {
                return None;
            };
            commits.push(at.clone());
            at = parent.clone();
        }
        let mut now = self.model.tree(theirs).clone();
        let (mut trees, same) = (Vec::new(), at == theirs);
        for id in commits.into_iter().rev() {
            let (base, change) = self.model.change_of(&id)?;
            let Merged::Clean(tree) = Model::merge_trees(&base, &now, &change) else {
                return None;
            };
            if tree != now || same {
                trees.push((id, tree.clone()));
            }
            now = tree;
        }
        Some(Line { trees, same })
    }

    /// A search with a few steps, and its end.
    fn bisect(&mut self, r: usize) -> Outcome {
        let (name, bad) = self.some_branch(r)?;
        let before = self.model.repos[r].clone();
        let all = self.model.ancestors(&bad);
        let is_known = all.iter().all(|id| !self.model.commits[id].conflicted);
        let good = all.iter().nth(self.below(all.len())).cloned();
        let good = good.filter(|good| *good != bad && is_known && before.edits.is_empty());
        let Some(good) = good else {
            return Ok(());
        };
        let mut done = self.meet(r, &["bisect", "start", &name, &good, "--json"])?;
        for _ in 0..3 {
            done.is(&[0])?;
            let document = done.json()?;
            if document["state"] != "testing" {
                break;
            }
            let commit = document["commit"].as_str().ok_or("a commit")?;
            self.model.repos[r].head = commit.to_owned();
            self.check(r)?;
            let word = ["good", "bad", "skip"][self.below(3)];
            done = self.meet(r, &["bisect", word, "--json"])?;
        }
        self.meet(r, &["bisect", "end"])?.is(&[0])?;
        self.model.repos[r] = before;
        Ok(())
    }
}
