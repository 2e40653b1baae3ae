//! A story: random edits and commands at two sites, and the laws that hold after each command.

use super::content::Writer;
use super::expect::{Aside, Before, Expectation, Outcome};
use super::plain::{
    Difference, Path as TreePath, RULES, above, differences, files_only, is_version_of_conflict,
    shown,
};
use super::site::{Site, WorkState, World};
use super::verb::{Chooser, Verb};
use crate::peers::Done;
use crate::rng::Rng;
use crate::scratch::{Files, Item, commit, fast_dir, files_in, request};
use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::repo::{ChangeKind, Repo, StatusOptions, VerifyDepth};
use dmv_core::worktree::select::Paths;
use dmv_net::ops::{CloneOptions, Network, PushOptions, RefTip, Remote, clone, push};
use dmv_net::transport::Url;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Returns where a copy of a story that fails is kept, as it was before the last command, if a person asks
/// for one.
pub fn kept_copy() -> Option<OsString> {
    std::env::var_os("DMV_KEEP")
}

/// How a command ended.
#[derive(Clone, Debug)]
pub struct Ending {
    /// Its exit code.
    pub code: i32,
    /// What it said.
    pub said: String,
}

impl Ending {
    /// Makes a result.
    pub fn new(code: i32, said: impl Into<String>) -> Ending {
        let said = said.into();
        Ending { code, said }
    }

    /// Returns whether the command has done what it was asked for, perhaps with conflicts or not all of it.
    pub fn is_done(&self) -> bool {
        matches!(self.code, 0 | 3 | 4)
    }

    /// Returns whether the command may have left out files whose content was purged. With conflicts, the
    /// exit code does not tell.
    fn lacks_purged(&self) -> bool {
        self.code == 3 || self.said.contains("its content was purged")
    }
}

/// What runs the commands: the library, or the program.
pub trait Driver {
    /// Makes the repository in `hub` the remote `origin` of the one in `dir`.
    fn connect(&self, dir: &Path, hub: &Path) -> Done;

    /// Runs a command in the worktree in `dir`.
    fn run(&self, dir: &Path, verb: &Verb, offline: bool) -> Done<Ending>;
}

/// What stories did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Commands, with undos and redos.
    pub commands: u64,
    /// Commands whose result was foretold.
    pub foretold: u64,
    /// Commands that were refused.
    pub refused: u64,
    /// Commands that lacked content.
    pub absent: u64,
    /// Merges and picks with conflicts.
    pub conflicts: u64,
    /// Commands that were undone and repeated.
    pub undone: u64,
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} commands, {} foretold, {} refused, {} lacked content, {} had conflicts, {} undone and repeated",
            self.commands, self.foretold, self.refused, self.absent, self.conflicts, self.undone
        )
    }
}

impl Counts {
    /// Adds the counts of another story.
    pub fn add(&mut self, other: &Counts) {
        self.commands += other.commands;
        self.foretold += other.foretold;
        self.refused += other.refused;
        self.absent += other.absent;
        self.conflicts += other.conflicts;
        self.undone += other.undone;
    }
}

/// The sites of a story and what is known of them.
pub struct Story<'d> {
    dir: TempDir,
    driver: &'d dyn Driver,
    rng: Rng,
    writer: Writer,
    world: World,
    sites: Vec<Site>,
    hub: Site,
    stashes: BTreeMap<ObjectId, Aside>,
    /// Content was purged, so that files and commits may lack it.
    is_purged: bool,
    told: Vec<String>,
    /// What was done.
    pub counts: Counts,
}

impl<'d> Story<'d> {
    /// Makes two clones of a hub, with some commits. `driver` gets the directory of the hub.
    pub fn new(seed: u64, dir: TempDir, driver: &'d dyn Driver) -> Done<Story<'d>> {
        let root = dir.path();
        let (hub, near) = (root.join("hub"), root.join("near"));
        drop(Repo::init(&hub, "main", true, request("init"))?);
        let repo = Repo::init(&near, "main", false, request("init"))?;
        fs::write(near.join(RULES.0), RULES.1)?;
        fs::write(near.join("a"), "first\n")?;
        let first = commit(&repo, "first")?.commit.ok_or("no commit")?;
        let remote = Remote::new("origin", Url::Path(hub.clone()));
        let options =
            PushOptions::new(remote, vec![RefTip::branch("main", first)], request("push"));
        push(
            &repo,
            &options,
            &Network::new(request("push")),
            &Job::default(),
        )?;
        let options = CloneOptions::new(Url::Path(hub.clone()), root.join("far"), request("clone"));
        drop(clone(
            &options,
            &Network::new(request("clone")),
            &Job::default(),
        )?);
        let site = |name: &str| {
            let further = ["1", "2"].map(|n| root.join(format!("{name}{n}")));
            Site::new(root.join(name), further.into())
        };
        let mut story = Story {
            sites: vec![site("near"), site("far")],
            hub: Site::new(hub, Vec::new()),
            driver,
            rng: Rng::new(seed),
            writer: Writer::new(seed),
            world: World::default(),
            stashes: BTreeMap::new(),
            is_purged: false,
            told: Vec::new(),
            counts: Counts::default(),
            dir,
        };
        for site in &story.sites {
            driver.connect(&site.main, &story.hub.main)?;
        }
        story.look()?;
        Ok(story)
    }

    /// Makes the directory of a story.
    pub fn dir() -> Done<TempDir> {
        Ok(fast_dir()?)
    }

    fn look(&mut self) -> Done {
        for site in &mut self.sites {
            site.look(&mut self.world)?;
        }
        self.look_at_hub()
    }

    fn look_at_hub(&mut self) -> Done {
        let repo = Repo::open(&self.hub.main)?;
        self.hub.view = repo.refs().with_prefix("branch/")?.into_iter().collect();
        Ok(())
    }

    /// Returns the steps so far.
    pub fn told(&self) -> String {
        let root = self.dir.path().display().to_string();
        self.told.join("\n").replace(&root, "")
    }

    /// Runs commands until there were this many.
    pub fn run(&mut self, commands: u64) -> Done {
        let mut steps = 0;
        while self.counts.commands < commands {
            self.step()?;
            steps += 1;
            if steps % 16 == 0 {
                self.verify(VerifyDepth::Quick)?;
            }
        }
        self.verify(VerifyDepth::Full)
    }

    fn verify(&self, depth: VerifyDepth) -> Done {
        for dir in self
            .sites
            .iter()
            .map(|site| &site.main)
            .chain([&self.hub.main])
        {
            let report = Repo::open(dir)?.verify(depth, &Job::default())?;
            if !report.is_ok() {
                return Err(format!("verify in {}: {report:?}", dir.display()).into());
            }
        }
        Ok(())
    }

    fn step(&mut self) -> Done {
        let n = self.rng.below(self.sites.len() as u64) as usize;
        let dirs: Vec<PathBuf> = self.sites[n].works.keys().cloned().collect();
        let dir = dirs[self.rng.below(dirs.len() as u64) as usize].clone();
        if self.rng.one_in(4) {
            self.begin_anew(n, &dir)?;
        }
        for _ in 0..self.rng.below(4) {
            let told = self.writer.edit(&dir, &files_in(&dir)?)?;
            self.told.push(format!("  edit {}: {told}", dir.display()));
        }
        if let Some(copy) = kept_copy() {
            self.keep_copy(Path::new(&copy))?;
        }
        self.sites[n].look(&mut self.world)?;
        self.status_is_true(n, &dir)?;
        let verb = {
            let (site, world) = (&self.sites[n], &self.world);
            let work = site.works.get(&dir).ok_or("no worktree")?;
            Chooser {
                rng: &mut self.rng,
                site,
                work,
                world,
            }
            .verb()
        };
        let Some(verb) = verb else { return Ok(()) };
        let offline = self.rng.one_in(6);
        self.play(n, &dir, &verb, offline)
    }

    /// Gives a worktree the files of a commit without conflicts and no others, if it has reached a state in
    /// which little can be foretold.
    fn begin_anew(&mut self, n: usize, dir: &Path) -> Done {
        let site = &self.sites[n];
        let before = Before::new(
            &self.world,
            (site, &self.hub),
            &site.works[dir],
            &self.stashes,
        );
        let is_plain = before.is_plain();
        let mut tips = site.tips();
        tips.retain(|id| {
            let known = self.world.known(id);
            known.is_some_and(|known| known.conflicts.is_empty() && !known.files.is_empty())
        });
        if is_plain || tips.is_empty() {
            return Ok(());
        }
        let commit = tips[self.rng.below(tips.len() as u64) as usize];
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            if path.ends_with(".dmv") {
                continue;
            }
            if fs::symlink_metadata(&path)?.is_dir() {
                fs::remove_dir_all(path)?;
            } else {
                fs::remove_file(path)?;
            }
        }
        self.told.push(format!("  empty {}", dir.display()));
        self.sites[n].look(&mut self.world)?;
        let force = true;
        self.play(n, dir, &Verb::Detach { commit, force }, false)
    }

    /// Runs a command and checks what it did; perhaps undoes and repeats it.
    fn play(&mut self, n: usize, dir: &Path, verb: &Verb, offline: bool) -> Done {
        let work = self.sites[n].works[dir].clone();
        let (expected, aside) = {
            let before = Before::new(
                &self.world,
                (&self.sites[n], &self.hub),
                &work,
                &self.stashes,
            );
            let aside = match verb {
                Verb::Stash { paths } if before.is_plain() => Some(before.aside(paths)),
                _ => None,
            };
            (before.expect(verb), aside)
        };
        let before = self.snapshot(n);
        let done = self.play_on(n, dir, (verb, offline), &expected, &before);
        self.note_stash(n, &before, aside);
        done.map_err(|e| {
            let base = work
                .base
                .and_then(|id| self.world.known(&id))
                .unwrap_or_default();
            let commit = shown(&base.files, &Files::new(), &|_| true);
            let files = shown(&work.disk, &Files::new(), &|_| true);
            format!(
                "before, the commit had\n  {}\nand the files were\n  {}\n{e}",
                commit.join("\n  "),
                files.join("\n  ")
            )
            .into()
        })
    }

    /// Copies the story's directory.
    fn keep_copy(&self, copy: &Path) -> Done {
        if copy.exists() {
            fs::remove_dir_all(copy)?;
        }
        let from = self.dir.path();
        let copied = Command::new("cp").arg("-a").args([from, copy]).status()?;
        copied.success().then_some(()).ok_or("cannot copy")?;
        Ok(())
    }

    fn play_on(
        &mut self,
        n: usize,
        dir: &Path,
        (verb, offline): (&Verb, bool),
        expected: &Expectation,
        before: &Snapshot,
    ) -> Done {
        let ended = self.command(n, dir, verb, offline)?;
        self.compare(n, dir, verb, (&ended, expected), before)?;
        self.is_purged |= matches!(verb, Verb::Purge { .. }) && ended.is_done();
        let site = &self.sites[n];
        let is_new = site.operation != before.operation;
        // The directory in which the next command would run may be gone.
        if ended.is_done()
            && is_new
            && verb.can_be_undone()
            && site.works.contains_key(dir)
            && self.rng.one_in(2)
        {
            self.back_and_forth(n, dir, verb, before)?;
        }
        if self.sites[n].works.contains_key(dir) {
            self.status_is_true(n, dir)?;
        }
        Ok(())
    }

    fn command(&mut self, n: usize, dir: &Path, verb: &Verb, offline: bool) -> Done<Ending> {
        let ended = self.driver.run(dir, verb, offline)?;
        self.counts.commands += 1;
        self.counts.refused += u64::from(!ended.is_done());
        self.counts.absent += u64::from(ended.code == 6);
        self.counts.conflicts += u64::from(ended.code == 4);
        let offline = if offline { " (offline)" } else { "" };
        self.told.push(format!(
            "{}: {verb:?}{offline} => {} {}",
            dir.display(),
            ended.code,
            ended.said
        ));
        if [-1, 7, 11, 101].contains(&ended.code) {
            return Err(format!("{verb:?} ended with {}: {}", ended.code, ended.said).into());
        }
        self.sites[n]
            .look(&mut self.world)
            .map_err(|e| format!("after {verb:?}: {e}"))?;
        if matches!(verb, Verb::Push { .. } | Verb::Sync) {
            self.look_at_hub()?;
        }
        Ok(ended)
    }

    fn snapshot(&self, n: usize) -> Snapshot {
        let site = &self.sites[n];
        let view = site.restored_view().into_iter();
        Snapshot {
            view: view
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
            disks: site.disks(),
            operation: site.operation,
        }
    }

    /// Notes what a new stash holds.
    fn note_stash(&mut self, n: usize, before: &Snapshot, aside: Option<Aside>) {
        let newest = self.sites[n].stashes().first().copied();
        let newest = newest.filter(|id| !before.view.values().any(|value| value == id.as_bytes()));
        if let (Some(aside), Some(newest)) = (aside, newest) {
            self.stashes.entry(newest).or_insert(aside);
        }
    }

    /// What every command must keep, and what this one should have done.
    fn compare(
        &mut self,
        n: usize,
        dir: &Path,
        verb: &Verb,
        (ended, expected): (&Ending, &Expectation),
        before: &Snapshot,
    ) -> Done {
        let after = self.snapshot(n);
        if !ended.is_done() {
            // A pull or a sync that fails has fetched before.
            let mut before = before.clone();
            if matches!(verb, Verb::Pull | Verb::PullReset | Verb::Sync) {
                let tags = after.view.iter().filter(|(key, _)| key.starts_with("tag/"));
                before
                    .view
                    .extend(tags.map(|(key, value)| (key.clone(), value.clone())));
            }
            before
                .is_same(&after)
                .map_err(|e| format!("{verb:?} failed, and {e}"))?;
        }
        for (other, files) in before.disks.iter().filter(|(other, _)| *other != dir) {
            let is_meant = matches!(verb, Verb::RemoveWorktree { dir, .. } | Verb::AddWorktree { dir, .. } if dir == other)
                || matches!(verb, Verb::Undo | Verb::Redo);
            if !is_meant && after.disks.get(other) != Some(files) {
                return Err(format!("{verb:?} changed the files in {}", other.display()).into());
            }
        }
        match expected {
            Expectation::Unknown => Ok(()),
            Expectation::Refused(why) if ended.is_done() => {
                Err(format!("{verb:?} was done, but {why}").into())
            }
            Expectation::Refused(_) => {
                self.counts.foretold += 1;
                Ok(())
            }
            Expectation::Done(_)
                if !ended.is_done() && (self.is_purged || ended.code == 6 || may_fail(verb)) =>
            {
                Ok(())
            }
            // Files whose content was purged are not written.
            Expectation::Done(_) if self.is_purged && ended.lacks_purged() => Ok(()),
            Expectation::Done(_) if !ended.is_done() => {
                Err(format!("{verb:?} was refused: {}", ended.said).into())
            }
            Expectation::Done(outcome) => {
                self.counts.foretold += 1;
                let found = self.as_expected(&self.sites[n].works[dir], ended, outcome);
                found.map_err(|e| format!("{verb:?}: {e}").into())
            }
        }
    }

    fn as_expected(&self, work: &WorkState, ended: &Ending, outcome: &Outcome) -> Done {
        if let Some(want) = &outcome.disk {
            let wrong = outcome.wrong(want, &files_only(&work.disk));
            if !wrong.is_empty() {
                return Err(format!("on disk is {}", wrong.join("; ")).into());
            }
        }
        let known = work.base.and_then(|id| self.world.known(&id));
        if let (Some(want), Some(known)) = (&outcome.tree, &known) {
            let wrong = outcome.wrong(want, &files_only(&known.files));
            if !wrong.is_empty() {
                return Err(format!("in the commit is {}", wrong.join("; ")).into());
            }
            let missing = outcome.conflicts.difference(&known.conflicts);
            let more = known.conflicts.difference(&outcome.unclear);
            let wrong = missing
                .chain(more)
                .map(|path| path.escape_ascii().to_string());
            let wrong: Vec<String> = wrong.collect();
            if !wrong.is_empty() {
                return Err(format!("conflicts are not as expected: {}", wrong.join(", ")).into());
            }
            let code = if known.conflicts.is_empty() { 0 } else { 4 };
            let is_incomplete = ended.code == 3 && outcome.may_be_incomplete;
            if ended.code != code && !is_incomplete {
                return Err(format!("exit code {}, not {code}", ended.code).into());
            }
        }
        match outcome.commit {
            Some(want) if work.base != Some(want) => {
                Err(format!("the worktree is not on {want}").into())
            }
            _ => Ok(()),
        }
    }

    /// `undo` brings back exactly what was, and `redo` repeats the command.
    fn back_and_forth(&mut self, n: usize, dir: &Path, verb: &Verb, before: &Snapshot) -> Done {
        let after = self.snapshot(n);
        let undone = self.command(n, dir, &Verb::Undo, false)?;
        if !undone.is_done() {
            after.is_same(&self.snapshot(n))?;
            if self.is_purged {
                return Ok(());
            }
            return Err(format!("undo of {verb:?} was refused: {}", undone.said).into());
        }
        // A file whose content was purged does not come back.
        if self.is_purged && undone.lacks_purged() {
            return Ok(());
        }
        let mut want = before.clone();
        if matches!(verb, Verb::Commit { .. }) || matches!(verb, Verb::Reset { hard: false, .. }) {
            // The files stay.
            want.disks = after.disks.clone();
        }
        let back = self.snapshot(n);
        want.is_same(&back)
            .map_err(|e| format!("after undo of {verb:?}, {e}"))?;
        self.counts.undone += 1;
        let redone = self.command(n, dir, &Verb::Redo, false)?;
        if !redone.is_done() && self.is_purged {
            return Ok(());
        }
        if !redone.is_done() {
            return Err(format!("redo of {verb:?} was refused: {}", redone.said).into());
        }
        after
            .is_same(&self.snapshot(n))
            .map_err(|e| format!("after redo of {verb:?}, {e}"))?;
        if self.rng.one_in(2) {
            self.command(n, dir, &Verb::Undo, false)?;
            want.is_same(&self.snapshot(n))
                .map_err(|e| format!("after the second undo of {verb:?}, {e}"))?;
        }
        Ok(())
    }

    /// `status` says how the files differ from the commit, and does not need content.
    fn status_is_true(&mut self, n: usize, dir: &Path) -> Done {
        let work = &self.sites[n].works[dir];
        let known = work
            .base
            .and_then(|id| self.world.known(&id))
            .unwrap_or_default();
        let repo = Repo::open(dir)?;
        let options = StatusOptions {
            select: &Paths::default(),
            settings: Default::default(),
        };
        let report = repo
            .status(&options, &Job::default())
            .map_err(|e| format!("status failed: {e:?}"))?;
        let (base, disk) = (files_only(&known.files), files_only(&work.disk));
        let both: Files = base.clone().into_iter().chain(disk.clone()).collect();
        let is_sure = |path: &[u8]| {
            let near = |list: &[dmv_core::object::name::RepoPath]| {
                list.iter().any(|p| p.as_bytes() == path)
            };
            let untracked = report
                .untracking
                .iter()
                .any(|file| file.path.as_bytes() == path);
            let dir = [path, b"/"].concat();
            let clash = both.keys().any(|p| p.starts_with(&dir))
                || above(path).any(|p| both.contains_key(p));
            // Also a conflict that no commit has, open or settled.
            let of_base = known.conflicts.iter().map(Vec::as_slice);
            let told = report.pending.iter().chain(&report.settled);
            let told: Vec<&[u8]> = of_base.chain(told.map(|path| path.as_bytes())).collect();
            let has_conflicts = !told.is_empty();
            let in_conflict = told
                .iter()
                .any(|p| super::plain::is_under(path, p) || super::plain::is_under(p, path));
            !(clash
                || untracked
                || in_conflict
                || near(&report.marked)
                || near(&report.unwritten)
                || is_version_of_conflict(path) && has_conflicts)
        };
        let has = |path: &[u8]| work.has(path);
        let mut want = differences(&base, &disk, &has);
        // A directory is listed if it became empty or full, also one with nothing but ignored files.
        let is_dir = |path: &[u8]| {
            let is_dir = |files: &Files| {
                let below = [path, b"/"].concat();
                files.get(path) == Some(&Item::EmptyDir)
                    || files.keys().any(|p| p.starts_with(&below))
            };
            is_dir(&known.files) || is_dir(&work.disk)
        };
        want.retain(|path, _| is_sure(path) && !is_dir(path));
        let mut found = BTreeMap::new();
        for change in &report.changes {
            let path = change.path.as_bytes();
            if is_sure(path) && !is_dir(path) {
                found.insert(path.to_vec(), word(change.kind));
            }
        }
        if want != found {
            let shown = |map: &BTreeMap<TreePath, Difference>| {
                let lines = map
                    .iter()
                    .map(|(path, how)| format!("{how:?} {}", path.escape_ascii()));
                lines.collect::<Vec<_>>().join(", ")
            };
            return Err(format!(
                "status in {} says [{}], not [{}]",
                dir.display(),
                shown(&found),
                shown(&want)
            )
            .into());
        }
        Ok(())
    }
}

fn word(kind: ChangeKind) -> Difference {
    match kind {
        ChangeKind::Added => Difference::Added,
        ChangeKind::Modified => Difference::Modified,
        ChangeKind::Deleted => Difference::Deleted,
        ChangeKind::Type => Difference::Type,
    }
}

/// Returns whether a command may be refused for reasons that the model does not know: a name that is
/// there already, nothing to do, work that is in no commit.
fn may_fail(verb: &Verb) -> bool {
    verb.is_upkeep()
        || matches!(
            verb,
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
                | Verb::Push { .. }
                | Verb::Sync
        )
}

/// What a command that fails leaves as it was, and what `undo` brings back.
#[derive(Clone)]
struct Snapshot {
    view: BTreeMap<String, Vec<u8>>,
    disks: BTreeMap<PathBuf, Files>,
    operation: u64,
}

impl Snapshot {
    fn is_same(&self, other: &Snapshot) -> Result<(), String> {
        for (what, one, two) in [("is gone", self, other), ("is new", other, self)] {
            if let Some(key) = one.view.keys().find(|key| !two.view.contains_key(*key)) {
                return Err(format!("{key} {what}"));
            }
            if let Some(dir) = one.disks.keys().find(|dir| !two.disks.contains_key(*dir)) {
                return Err(format!("the worktree {} {what}", dir.display()));
            }
        }
        if let Some((key, _)) = self
            .view
            .iter()
            .find(|(key, value)| other.view.get(*key) != Some(*value))
        {
            return Err(format!("{key} has changed"));
        }
        for (dir, files) in &self.disks {
            let now = &other.disks[dir];
            let changed = shown(files, now, &|_| true);
            if !changed.is_empty() {
                return Err(format!("in {} is {}", dir.display(), changed.join("; ")));
            }
        }
        Ok(())
    }
}
