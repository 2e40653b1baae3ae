//! What each command should do, as far as single paths decide it. Where more is at work, such as merges
//! of texts and moves of files, only the laws of every command are checked.

use super::plain::{
    Path, above, clash, clashes, files_only, is_ignored, is_under, is_version_of_conflict, merged,
    paths_of, shown, switched, take_along,
};
use super::site::{KnownCommit, Site, WorkState, World};
use super::verb::Verb;
use crate::scratch::{Files, Item};
use dmv_core::hash::ObjectId;
use dmv_core::subset::Extent;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// What a command should have done.
#[derive(Debug)]
pub enum Expectation {
    /// Only the laws are known.
    Unknown,
    /// It refuses.
    Refused(&'static str),
    /// It succeeds.
    Done(Outcome),
}

/// The result of a command that succeeds.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The files of the worktree.
    pub disk: Option<Files>,
    /// The files of the commit that the worktree is on.
    pub tree: Option<Files>,
    /// The commit that the worktree is on.
    pub commit: Option<ObjectId>,
    /// The conflicts that there must be, and the paths at which there may be one.
    pub conflicts: BTreeSet<Path>,
    /// The paths at which nothing is certain.
    pub unclear: BTreeSet<Path>,
    /// Whether it may say that it has left something out: files outside the subset.
    pub may_be_incomplete: bool,
}

/// Changes that were put aside: the files of their commit, and theirs.
#[derive(Clone, Debug)]
pub struct Aside {
    from: Files,
    to: Files,
    /// The directories that were empty, which are versions, too, where another commit has a file.
    empty_dirs: Files,
}

/// What a prediction starts from.
pub struct Before<'a> {
    /// All commits.
    pub world: &'a World,
    /// The repository.
    pub site: &'a Site,
    /// The worktree in which the command runs.
    pub work: &'a WorkState,
    /// The stashes of all sites.
    pub stashes: &'a BTreeMap<ObjectId, Aside>,
    /// What the hub's branches are.
    pub hub: &'a Site,
    base: Rc<KnownCommit>,
    disk: Files,
}

impl<'a> Before<'a> {
    /// Takes the state before a command.
    pub fn new(
        world: &'a World,
        (site, hub): (&'a Site, &'a Site),
        work: &'a WorkState,
        stashes: &'a BTreeMap<ObjectId, Aside>,
    ) -> Before<'a> {
        let base = work
            .base
            .and_then(|id| world.known(&id))
            .unwrap_or_default();
        let disk = files_only(&work.disk);
        Before {
            world,
            site,
            work,
            stashes,
            hub,
            base,
            disk,
        }
    }

    /// Returns whether single paths decide what a command does with the files: there are no conflicts, no
    /// notes about files, and no file is in the place of a directory of the commit.
    pub fn is_plain(&self) -> bool {
        let has_clash = clash(&self.base.files, &self.work.disk);
        !self.work.has_notes && self.base.conflicts.is_empty() && !has_clash
    }

    fn base_files(&self) -> Files {
        files_only(&self.base.files)
    }

    /// Returns the files and empty directories of a commit without conflicts.
    fn all(&self, id: ObjectId) -> Option<Rc<KnownCommit>> {
        self.world
            .known(&id)
            .filter(|known| known.conflicts.is_empty())
    }

    /// Returns the files of a commit without conflicts, none of which is in the place of a directory on disk.
    fn files(&self, id: ObjectId) -> Option<Files> {
        let known = self.all(id)?;
        (!clash(&known.files, &self.work.disk)).then(|| files_only(&known.files))
    }

    fn is_at(paths: &[Path], path: &[u8]) -> bool {
        paths.is_empty() || paths.iter().any(|dir| is_under(path, dir))
    }

    /// Returns what the next commit has.
    fn next_tree(&self, paths: &[Path]) -> Files {
        let mut out = self.base_files();
        let (base, disk) = (self.base_files(), &self.disk);
        for path in paths_of(&[&base, disk]) {
            let is_new = !base.contains_key(path);
            if !self.work.has(path) || !Self::is_at(paths, path) || is_new && is_ignored(disk, path)
            {
                continue;
            }
            match disk.get(path) {
                Some(item) => out.insert(path.clone(), item.clone()),
                None => out.remove(path),
            };
        }
        out
    }

    /// Returns what a stash would put aside.
    pub fn aside(&self, paths: &[Path]) -> Aside {
        let mut empty_dirs = Files::new();
        for (path, item) in &self.work.disk {
            // A directory in which everything is ignored counts as an empty one.
            if is_ignored(&self.work.disk, path) {
                empty_dirs.extend(above(path).map(|dir| (dir.to_vec(), Item::EmptyDir)));
            } else if *item == Item::EmptyDir {
                empty_dirs.insert(path.clone(), Item::EmptyDir);
            }
        }
        let (from, to) = (self.base_files(), self.next_tree(paths));
        // A stash of some paths leaves a directory empty that is gone on disk.
        let went = from.keys().filter(|path| !to.contains_key(*path));
        empty_dirs.extend(
            went.flat_map(|path| above(path))
                .map(|dir| (dir.to_vec(), Item::EmptyDir)),
        );
        Aside {
            from,
            to,
            empty_dirs,
        }
    }

    /// Returns the expected result of a command.
    pub fn expect(&self, verb: &Verb) -> Expectation {
        if !self.is_plain() {
            return Expectation::Unknown;
        }
        let found = match verb {
            Verb::Commit { paths, amend } => self.commit(paths, *amend),
            Verb::Checkout {
                branch,
                force: false,
            } => self.checkout_branch(branch),
            Verb::Detach {
                commit,
                force: false,
            } => self.switch(*commit),
            Verb::Detach {
                commit,
                force: true,
            } => self.forced(*commit),
            Verb::SwitchNew { branch, at } if self.site.branch(branch).is_none() => {
                self.switch(*at)
            }
            Verb::Merge { commit, forward } => self.merge(*commit, *forward),
            Verb::Revert { commit } => self.change(*commit, true),
            Verb::CherryPick { commit } => self.change(*commit, false),
            Verb::Reset { to, hard } => self.reset(*to, *hard),
            Verb::Stash { paths } => self.stash(paths),
            Verb::Unstash { number, .. } => self.unstash(*number),
            Verb::Restore { from: None, paths } => self.restore(paths),
            Verb::Move {
                from,
                to,
                force: false,
            } => self.moved(from, to),
            Verb::Remove { path, force: true } => self.removed(path),
            Verb::SetSubset { .. } | Verb::AddSubset { .. } | Verb::RemoveSubset { .. } => None,
            Verb::Pull => self.pull(),
            verb if verb.is_upkeep() => self.stays(),
            Verb::Branch { .. }
            | Verb::DeleteBranch { .. }
            | Verb::RenameBranch { .. }
            | Verb::Tag { .. }
            | Verb::DeleteTag { .. }
            | Verb::DropStash { .. }
            | Verb::Untrack { .. }
            | Verb::AddWorktree { .. }
            | Verb::RemoveWorktree { .. }
            | Verb::Fetch
            | Verb::Push { .. } => self.stays(),
            Verb::Sync => self.synced(),
            _ => None,
        };
        found.unwrap_or(Expectation::Unknown)
    }

    /// Files and commit stay, whether the command succeeds or not.
    fn stays(&self) -> Option<Expectation> {
        let disk = Some(self.disk.clone());
        let tree = (!self.base_files().is_empty()).then(|| self.base_files());
        Some(Expectation::Done(Outcome {
            disk,
            tree,
            ..Outcome::default()
        }))
    }

    /// Files and commit stay. A branch that has diverged is left to the user.
    fn synced(&self) -> Option<Expectation> {
        let Expectation::Done(outcome) = self.stays()? else {
            return None;
        };
        Some(Expectation::Done(Outcome {
            may_be_incomplete: true,
            ..outcome
        }))
    }

    fn commit(&self, paths: &[Path], amend: bool) -> Option<Expectation> {
        let tree = self.next_tree(paths);
        let is_known = |path: &Path| {
            let mut all = self.disk.keys().chain(self.base.files.keys());
            path.is_empty() || all.any(|have| is_under(have, path)) && !self.is_ignored(path)
        };
        if !paths.iter().all(is_known) || amend && self.work.tip.is_none() {
            return None;
        }
        if tree == self.base_files() && self.work.disk != self.base.files {
            // Empty directories are the change, or there is none.
            return None;
        }
        let disk = Some(self.disk.clone());
        let is_outside = |path: &Path| !self.work.has(path) && Self::is_at(paths, path);
        Some(Expectation::Done(Outcome {
            disk,
            tree: Some(tree),
            may_be_incomplete: self.disk.keys().any(is_outside),
            ..Outcome::default()
        }))
    }

    /// Returns whether only ignored files can be at a path.
    fn is_ignored(&self, path: &[u8]) -> bool {
        let is_tracked = |have: &Path| is_under(have, path);
        is_ignored(&self.disk, path) && !self.base.files.keys().any(is_tracked)
    }

    fn checkout_branch(&self, branch: &str) -> Option<Expectation> {
        let tip = self.site.branch(branch)?;
        let elsewhere = self
            .site
            .works
            .values()
            .any(|work| work.dir != self.work.dir && work.head.branch() == Some(branch));
        if elsewhere && self.work.head.branch() != Some(branch) {
            return Some(Expectation::Refused("another worktree is on the branch"));
        }
        self.switch(tip)
    }

    fn switch(&self, to: ObjectId) -> Option<Expectation> {
        self.written(&self.files(to)?, Some(to))
    }

    /// The worktree gets these files, if no uncommitted change is in the way.
    fn written(&self, tree: &Files, commit: Option<ObjectId>) -> Option<Expectation> {
        let base = self.base_files();
        if clash(tree, &self.work.disk) {
            return None;
        }
        let has = |path: &[u8]| self.work.has(path);
        match switched(&base, tree, &self.disk, &has) {
            Ok(disk) if clashes(&disk) => None,
            Ok(disk) => Some(Expectation::Done(Outcome {
                disk: Some(disk),
                tree: Some(tree.clone()),
                commit,
                ..Outcome::default()
            })),
            // A file that was deleted and that the other commit changed: writing it loses nothing.
            Err(paths) if paths.iter().all(|path| !self.disk.contains_key(path)) => None,
            Err(_) => Some(Expectation::Refused("uncommitted changes are in the way")),
        }
    }

    /// The files become equal to a commit; those stay that neither it nor the former commit has.
    fn forced(&self, to: ObjectId) -> Option<Expectation> {
        let (base, tree) = (self.base_files(), self.files(to)?);
        let mut disk = Files::new();
        for path in paths_of(&[&base, &tree, &self.disk]) {
            let of_tree = tree.get(path).filter(|_| self.work.has(path));
            let stays =
                !self.work.has(path) || !base.contains_key(path) && !tree.contains_key(path);
            let result = if stays { self.disk.get(path) } else { of_tree };
            disk.extend(result.map(|item| (path.clone(), item.clone())));
        }
        if clashes(&disk) {
            return None;
        }
        Some(Expectation::Done(Outcome {
            disk: Some(disk),
            tree: Some(tree),
            commit: Some(to),
            ..Outcome::default()
        }))
    }

    fn reset(&self, to: ObjectId, hard: bool) -> Option<Expectation> {
        if hard {
            return self.forced(to);
        }
        let tree = Some(self.files(to)?);
        let disk = Some(self.disk.clone());
        Some(Expectation::Done(Outcome {
            disk,
            tree,
            commit: Some(to),
            ..Outcome::default()
        }))
    }

    fn merge(&self, theirs: ObjectId, forward: bool) -> Option<Expectation> {
        let ours = self.work.tip?;
        let base = self.world.base(ours, theirs)?;
        if base == theirs {
            return self.written(&self.base_files(), Some(ours));
        }
        if base == ours && forward {
            return self.switch(theirs);
        }
        let (base, theirs) = (self.all(base)?, self.all(theirs)?);
        self.combined(&base, &theirs)
    }

    /// The change of a commit is made again here, or taken back.
    fn change(&self, id: ObjectId, back: bool) -> Option<Expectation> {
        let known = self.world.known(&id)?;
        let parent = match known.parents[..] {
            [] if back => return None,
            [] => Rc::default(),
            [parent] => self.all(parent)?,
            _ => return None,
        };
        self.work.tip?;
        let (from, to) = if back {
            (self.all(id)?, parent)
        } else {
            (parent, self.all(id)?)
        };
        self.combined(&from, &to)
    }

    /// The changes from one commit to another become a commit here, and the files follow.
    fn combined(&self, from: &KnownCommit, to: &KnownCommit) -> Option<Expectation> {
        // Empty directories come, too.
        if clash(&to.files, &self.work.disk) {
            return None;
        }
        let merged = merged(&from.files, &self.base.files, &to.files)?;
        let mut unclear = merged.unclear;
        unclear.extend(merged.conflicts.iter().cloned());
        // Nothing else may be edited where the result is not known.
        let base = self.base_files();
        if unclear
            .iter()
            .any(|path| self.disk.get(path) != base.get(path) || !self.work.has(path))
        {
            return None;
        }
        let mut tree = merged.files;
        for path in &unclear {
            tree.extend(base.get(path).map(|item| (path.clone(), item.clone())));
        }
        match self.written(&tree, None)? {
            Expectation::Done(mut outcome) => {
                outcome.conflicts = merged.conflicts;
                outcome.unclear = unclear;
                Some(Expectation::Done(outcome))
            }
            other => Some(other),
        }
    }

    fn pull(&self) -> Option<Expectation> {
        let theirs = self.hub.branch(self.work.head.branch()?)?;
        // A remote that has rewritten its branch is refused.
        let known = format!("remote/origin/{}", self.work.head.branch()?);
        let known = self.site.view.get(&known)?;
        let known = ObjectId::from_bytes(known[..].try_into().ok()?);
        self.world
            .ancestors(theirs)
            .contains(&known)
            .then_some(())?;
        self.merge(theirs, true)
    }

    fn stash(&self, paths: &[Path]) -> Option<Expectation> {
        self.work.tip?;
        if paths.iter().any(|path| self.is_ignored(path)) {
            return None;
        }
        let aside = self.aside(paths);
        let mut disk = self.disk.clone();
        for path in paths_of(&[&aside.from, &aside.to]) {
            let (from, to) = (aside.from.get(path), aside.to.get(path));
            if from != to {
                match from {
                    Some(item) => disk.insert(path.clone(), item.clone()),
                    None => disk.remove(path),
                };
            }
        }
        if clashes(&disk) {
            return None;
        }
        let tree = Some(self.base_files());
        Some(Expectation::Done(Outcome {
            disk: Some(disk),
            tree,
            ..Outcome::default()
        }))
    }

    fn unstash(&self, number: usize) -> Option<Expectation> {
        let aside = self.stashes.get(self.site.stashes().get(number)?)?;
        let both = [&self.work.disk, &self.base.files];
        let has_clash = |files: &Files| both.iter().any(|other| clash(files, other));
        if has_clash(&aside.to) || has_clash(&aside.empty_dirs) {
            return None;
        }
        if take_along(&aside.from, &aside.to, &self.disk) {
            return None;
        }
        let mut disk = self.disk.clone();
        for path in paths_of(&[&aside.from, &aside.to]) {
            let (from, to, now) = (
                aside.from.get(path),
                aside.to.get(path),
                self.disk.get(path),
            );
            if from == to || now == to {
                continue;
            }
            if now != from || !self.work.has(path) || self.base.files.get(path) != from {
                return None;
            }
            match to {
                Some(item) => disk.insert(path.clone(), item.clone()),
                None => disk.remove(path),
            };
        }
        if clashes(&disk) {
            return None;
        }
        let tree = Some(self.base_files());
        Some(Expectation::Done(Outcome {
            disk: Some(disk),
            tree,
            ..Outcome::default()
        }))
    }

    fn restore(&self, paths: &[Path]) -> Option<Expectation> {
        let base = self.base_files();
        if !paths.iter().all(|path| {
            base.keys()
                .any(|have| is_under(have, path) && self.work.has(have))
        }) {
            return None;
        }
        let mut disk = self.disk.clone();
        for (path, item) in &base {
            if Self::is_at(paths, path) && self.work.has(path) {
                disk.insert(path.clone(), item.clone());
            }
        }
        let tree = Some(base);
        Some(Expectation::Done(Outcome {
            disk: Some(disk),
            tree,
            ..Outcome::default()
        }))
    }

    fn moved(&self, from: &Path, to: &Path) -> Option<Expectation> {
        let base = self.base_files();
        let is_in_way = |path: &Path| is_under(path, to) || is_under(to, path);
        let all: Vec<&Path> = self
            .work
            .disk
            .keys()
            .chain(self.base.files.keys())
            .collect();
        let has_dir = |dir: &[u8]| {
            self.work
                .disk
                .keys()
                .any(|path| is_under(path, dir) && path != dir)
        };
        if !above(to).all(|dir| has_dir(dir) || self.work.disk.get(dir) == Some(&Item::EmptyDir)) {
            return None;
        }
        let moves: Vec<&Path> = self
            .disk
            .keys()
            .filter(|path| is_under(path, from))
            .collect();
        let is_odd = |path: &&Path| {
            !base.contains_key(*path)
                || is_ignored(&self.disk, to)
                || !self.work.has(path)
                || !self.work.has(to)
        };
        if from.is_empty() || is_under(to, from) || all.iter().any(|path| is_in_way(path)) {
            return None;
        }
        if moves.is_empty() || moves.iter().any(is_odd) || !self.work.has(to) {
            return None;
        }
        // A directory cannot move to a place that the subset has only a part of.
        if !self.disk.contains_key(from) && self.work.subset.extent(to) != Extent::All {
            return None;
        }
        let mut disk = self.disk.clone();
        for path in moves {
            let item = disk.remove(path)?;
            disk.insert([&to[..], &path[from.len()..]].concat(), item);
        }
        if disk.keys().any(|path| !self.work.has(path)) {
            return None;
        }
        let tree = Some(base);
        Some(Expectation::Done(Outcome {
            disk: Some(disk),
            tree,
            ..Outcome::default()
        }))
    }

    fn removed(&self, path: &Path) -> Option<Expectation> {
        let base = self.base_files();
        let is_here = |have: &&Path| is_under(have, path);
        if path.is_empty()
            || !base
                .keys()
                .any(|have| is_here(&have) && self.work.has(have))
        {
            return None;
        }
        let mut disk = self.disk.clone();
        disk.retain(|have, _| {
            !(is_under(have, path) && base.contains_key(have) && self.work.has(have))
        });
        let tree = Some(base);
        Some(Expectation::Done(Outcome {
            disk: Some(disk),
            tree,
            ..Outcome::default()
        }))
    }
}

impl Outcome {
    /// Returns what is not as expected among files.
    pub fn wrong(&self, want: &Files, found: &Files) -> Vec<String> {
        shown(want, found, &|path| {
            !self.unclear.contains(path)
                && (self.unclear.is_empty() || !is_version_of_conflict(path))
        })
    }
}
