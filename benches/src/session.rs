//! One tool taken through one data set: commits, edits, checkouts.
//!
//! Only the tool's own commands are timed. Everything else (copying the input, editing it,
//! sizing the repository, comparing a checkout with its source) happens between the steps.

mod scaling;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use crate::measure::{Conditions, Measurement};
use crate::peers::{BranchCommands, Peer, Places, Words};
use crate::runner::{CommandLine, Step, run_apart};
use crate::scaling::Point;
use crate::tables::Record;
use crate::trash::Trash;
use crate::usage::{Usage, usage};
use crate::{edit, files};

/// What can be measured on a data set that is edited. The first commit always is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Op {
    /// Commit of everything into an empty repository.
    First,
    /// List changes, twice: right after the first commit, and once more.
    Status,
    /// Commit with nothing changed.
    Nochange,
    /// Write the commit to a new directory.
    Checkout,
    /// Commit after overwriting 1 KiB in one file among many.
    OneChanged,
    /// Commit after overwriting 1 KiB in the middle of the largest file.
    Overwrite,
    /// Commit after inserting 1 KiB near the start of the largest file.
    Insert,
    /// Commit after appending 1 % to the largest file.
    Append,
}

/// A data set, ready on disk.
pub struct DataSet {
    /// Its name in the tables.
    pub name: String,
    /// What is done with it.
    pub kind: Kind,
    /// Length of its largest file.
    pub largest_file: u64,
}

/// The experiments.
pub enum Kind {
    /// Commit, edit, commit; checkout.
    Edited {
        /// The tree to start from.
        master: PathBuf,
        /// The file of the single-file edits, relative to it.
        target: PathBuf,
        /// Another file, for [`Op::OneChanged`]; `None` for a tree of one file.
        other: Option<PathBuf>,
    },
    /// Create many small files and commit, check out, delete them and commit.
    Micro {
        /// The tree of small files.
        master: PathBuf,
    },
    /// Branches that differ in a few files: switch between them, merge them.
    Branches {
        /// The tree that they start from.
        master: PathBuf,
    },
    /// Commit each in turn on the same path, then check out the last.
    Versions(Vec<PathBuf>),
    /// One point of an experiment about growth.
    Scaling(Point),
}

/// What a session tells while it runs.
pub enum Event {
    /// A step was measured; it may have failed.
    Measured(Box<Record>),
    /// A step was left out.
    Skipped {
        /// The operation.
        op: &'static str,
        /// Why.
        why: String,
    },
    /// Something the user should know.
    Note(String),
}

/// What all sessions share.
pub struct Bench<'a> {
    /// Around each step.
    pub conditions: Conditions,
    /// Takes what is done with.
    pub trash: Trash,
    /// Our own program.
    pub dmv: PathBuf,
    /// Seconds allowed for a step.
    pub limit_s: f64,
    /// What to measure on edited data sets.
    pub ops: Vec<Op>,
    /// Called as things happen.
    pub emit: &'a mut dyn FnMut(Event) -> Result<()>,
    /// Checkouts that were not what was committed.
    pub wrong_checkouts: Vec<String>,
}

impl Bench<'_> {
    /// Runs `peer` once over `set`. A failing command is recorded and ends the session;
    /// `verify` compares checkouts with their source.
    pub fn session(
        &mut self,
        peer: &'static Peer,
        version: &str,
        set: &DataSet,
        rep: u32,
        verify: bool,
    ) -> Result<()> {
        if self.trash.make_room()? {
            let note = "emptied the trash for space; creating files may be slow for a while";
            (self.emit)(Event::Note(note.to_owned()))?;
        }
        let root = self.conditions.base.join(format!("{}-{rep}", peer.name));
        for dir in ["home", "tmp", "work"] {
            let path = root.join(dir);
            fs::create_dir_all(&path).with_context(|| format!("create {}", path.display()))?;
        }
        let places = Places {
            work: root.join("work"),
            repository: root.join("repository"),
            destination: root.join("out"),
            commit: 0,
            branch: "",
            dmv: self.dmv.clone(),
        };
        let mut session = Session {
            repository: places.fill(peer.repository)?.into(),
            env: environment(peer, &places, &root)?,
            bench: self,
            peer,
            version,
            set,
            rep,
            verify,
            root: root.clone(),
            places,
            size: None,
            checkouts: 0,
            failed: false,
        };
        let result = session.run();
        self.trash.discard(&root)?;
        result
    }
}

/// The whole environment of a tool: nothing of the user's own settings, everything it writes on
/// the file system under test.
fn environment(peer: &Peer, places: &Places, root: &Path) -> Result<Vec<(String, String)>> {
    let inside = |name: &str| -> Result<String> {
        let path = root.join(name).into_os_string().into_string();
        path.ok().context("a scratch path that is not UTF-8")
    };
    let mut all = vec![
        ("PATH".to_owned(), env::var("PATH").unwrap_or_default()),
        ("LC_ALL".to_owned(), "C.UTF-8".to_owned()),
        ("HOME".to_owned(), inside("home")?),
        ("TMPDIR".to_owned(), inside("tmp")?),
    ];
    for (name, value) in peer.env {
        all.push(((*name).to_owned(), places.fill(value)?));
    }
    Ok(all)
}

struct Session<'a, 'b> {
    bench: &'a mut Bench<'b>,
    peer: &'static Peer,
    version: &'a str,
    set: &'a DataSet,
    rep: u32,
    verify: bool,
    root: PathBuf,
    places: Places,
    repository: PathBuf,
    env: Vec<(String, String)>,
    /// The repository after the commit before.
    size: Option<Usage>,
    checkouts: u32,
    /// A step failed: the ones after it would measure something else.
    failed: bool,
}

impl Session<'_, '_> {
    fn run(&mut self) -> Result<()> {
        match &self.set.kind {
            Kind::Edited {
                master,
                target,
                other,
            } => self.edited(master, target, other.as_deref()),
            Kind::Micro { master } => self.micro(master),
            Kind::Branches { master } => self.branches(master),
            Kind::Versions(versions) => self.versions(versions),
            Kind::Scaling(point) => self.scaling(*point),
        }
    }

    fn edited(&mut self, master: &Path, target: &Path, other: Option<&Path>) -> Result<()> {
        let work = self.places.work.clone();
        files::copy_tree(master, &work)?;
        self.init()?;
        self.commit("first", &[])?;
        let target = work.join(target);
        // Edits of different repetitions are the same: the seed is the operation alone.
        for op in self.bench.ops.clone() {
            match op {
                Op::First => {}
                Op::Status => {
                    self.status("status-1st")?;
                    self.status("status")?;
                }
                Op::Nochange => self.commit("nochange", &[])?,
                Op::Checkout => self.checkout()?,
                Op::OneChanged => {
                    if let Some(other) = other {
                        edit::overwrite_middle(&work.join(other), 1)?;
                        self.commit("one-changed", &[])?;
                    }
                }
                Op::Overwrite => {
                    edit::overwrite_middle(&target, 2)?;
                    self.commit("overwrite", &[])?;
                }
                Op::Insert => {
                    edit::insert_near_start(&target, 3)?;
                    self.commit("insert", &[])?;
                }
                Op::Append => {
                    edit::append_one_percent(&target, 4)?;
                    self.commit("append", &[])?;
                }
            }
        }
        self.verify_last()
    }

    fn micro(&mut self, master: &Path) -> Result<()> {
        // One file stays: some tools refuse an empty tree.
        fs::write(self.places.work.join("stays"), "x")?;
        self.init()?;
        let words = |command: &[&str], from: &Path, to: &Path| -> Result<CommandLine> {
            let text = |path: &Path| path.to_str().map(str::to_owned);
            let mut argv: Vec<String> = command.iter().map(|w| w.to_string()).collect();
            argv.extend([text(from).context("UTF-8")?, text(to).context("UTF-8")?]);
            Ok(CommandLine {
                argv,
                also_ok: None,
            })
        };
        let many = self.places.work.join("many");
        self.commit("create+commit", &[words(&["cp", "-a"], master, &many)?])?;
        self.checkout()?;
        // Out of the tree by one rename: deleting for real would measure the file system, and
        // slow down the file creations of the next tool.
        let aside = self.root.join("deleted");
        self.commit("delete+commit", &[words(&["mv"], &many, &aside)?])?;
        self.verify_last()
    }

    fn versions(&mut self, versions: &[PathBuf]) -> Result<()> {
        self.init()?;
        for (n, version) in versions.iter().enumerate() {
            let trash = &mut self.bench.trash;
            files::mirror(version, &self.places.work, &mut |path| trash.discard(path))?;
            self.commit(&format!("v{}", n + 1), &[])?;
        }
        self.checkout()
    }

    /// Switches to a branch that differs in ten files and back, then merges two branches that
    /// changed a thousand files each, no file on both; of a smaller tree at most a tenth.
    fn branches(&mut self, master: &Path) -> Result<()> {
        let Some(branching) = &self.peer.branching else {
            let note = format!("skipped: {} has no branches", self.peer.name);
            return (self.bench.emit)(Event::Note(note));
        };
        let work = self.places.work.clone();
        files::copy_tree(master, &work)?;
        let all = files::regular_files(&work)?;
        let tenth = all.len().div_ceil(10);
        self.init()?;
        self.commit("first", &[])?;
        self.untimed(branching.start, "trunk")?;
        self.edited_branch(branching, "ten", &all, (tenth.min(10), 0))?;
        for (op, branch) in [("switch-back", "trunk"), ("switch", "ten")] {
            self.branch_step(op, branching.switch, branch)?;
        }
        for (first, branch) in [(1, "left"), (2, "right")] {
            self.untimed(branching.switch, "trunk")?;
            self.edited_branch(branching, branch, &all, (tenth.min(1000), first))?;
        }
        self.branch_step("merge", branching.merge, "left")?;
        self.verify_last()
    }

    /// A branch from here whose commit changes `count` files of `all`, evenly spread from number
    /// `first` on.
    fn edited_branch(
        &mut self,
        branching: &BranchCommands,
        name: &'static str,
        all: &[(PathBuf, u64)],
        (count, first): (usize, usize),
    ) -> Result<()> {
        self.untimed(branching.start, name)?;
        let spread = all.iter().skip(first).step_by(all.len() / count.max(1));
        for (path, _) in spread.take(count) {
            edit::append_one_percent(&self.places.work.join(path), first as u64)?;
        }
        self.places.commit += 1;
        self.untimed(self.peer.commit, name)
    }

    /// Times commands about a branch.
    fn branch_step(&mut self, op: &str, table: &[Words], branch: &'static str) -> Result<()> {
        self.places.branch = branch;
        let commands = self.places.commands(table, None)?;
        let work = self.places.work.clone();
        self.step(op, commands, &work, &[&work], true)
    }

    /// Runs commands about a branch, unless a step has failed.
    fn untimed(&mut self, table: &[Words], branch: &'static str) -> Result<()> {
        if self.failed {
            return Ok(());
        }
        self.places.branch = branch;
        let commands = self.places.commands(table, None)?;
        let step = self.prepare(commands, &self.places.work);
        match run_apart(&step)?.error {
            Some(error) => bail!("branch {branch}: {error}"),
            None => Ok(()),
        }
    }

    fn init(&mut self) -> Result<()> {
        let commands = self.places.commands(self.peer.init, None)?;
        let work = self.places.work.clone();
        self.step("init", commands, &work, &[], false)
    }

    /// Times a commit, with the commands `before` it.
    fn commit(&mut self, op: &str, before: &[CommandLine]) -> Result<()> {
        self.places.commit += 1;
        let mut commands = before.to_vec();
        let own = self
            .places
            .commands(self.peer.commit, self.peer.commit_also_ok)?;
        commands.extend(own);
        let work = self.places.work.clone();
        self.step(op, commands, &work, &[&work], true)
    }

    fn status(&mut self, op: &str) -> Result<()> {
        let Some(words) = self.peer.status else {
            return Ok(());
        };
        let commands = self.places.commands(&[words], None)?;
        let work = self.places.work.clone();
        self.step(op, commands, &work, &[&work], false)
    }

    fn checkout(&mut self) -> Result<()> {
        if self.failed {
            return Ok(());
        }
        let (commands, cwd) = self.prepare_checkout()?;
        let repository = self.repository.clone();
        self.step("checkout", commands, &cwd, &[&repository], false)?;
        if self.verify && !self.failed {
            self.compare()?;
        }
        self.clear_checkout()
    }

    /// Checks out once more, untimed, to see that the last edits were not missed: a tool that
    /// trusts times and sizes of files could.
    fn verify_last(&mut self) -> Result<()> {
        if self.failed || !self.verify {
            return Ok(());
        }
        let (commands, cwd) = self.prepare_checkout()?;
        let outcome = run_apart(&self.prepare(commands, &cwd))?;
        if let Some(error) = outcome.error {
            bail!("checkout after the last edit: {error}");
        }
        self.compare()?;
        self.clear_checkout()
    }

    /// Chooses a new destination; returns the commands and their working directory.
    fn prepare_checkout(&mut self) -> Result<(Vec<CommandLine>, PathBuf)> {
        self.checkouts += 1;
        self.places.destination = self.root.join(format!("out{}", self.checkouts));
        let commands = self.places.commands(self.peer.checkout, None)?;
        if !self.peer.checkout_inside {
            return Ok((commands, self.places.work.clone()));
        }
        fs::create_dir(&self.places.destination)?;
        Ok((commands, self.places.destination.clone()))
    }

    fn clear_checkout(&mut self) -> Result<()> {
        self.bench.trash.discard(&self.places.destination)?;
        if let Some(words) = self.peer.after_checkout {
            let step = self.prepare(self.places.commands(&[words], None)?, &self.places.work);
            run_apart(&step)?;
        }
        Ok(())
    }

    fn compare(&mut self) -> Result<()> {
        let got = &self.places.destination;
        let keeps = self.peer.empty_directories;
        let found = files::differences(&self.places.work, got, keeps, 10)?;
        if !found.is_empty() {
            let what = format!("wrong checkout by {} on {}", self.peer.name, self.set.name);
            let list = found.join("\n  ");
            (self.bench.emit)(Event::Note(format!("FAILED: {what}:\n  {list}")))?;
            self.bench.wrong_checkouts.push(what);
        }
        Ok(())
    }

    fn prepare(&self, commands: Vec<CommandLine>, cwd: &Path) -> Step {
        Step {
            commands,
            cwd: cwd.to_owned(),
            env: self.env.clone(),
            log: self.root.join("log"),
            limit_s: self.bench.limit_s,
        }
    }

    /// Measures one step and records it. Does nothing once a step has failed.
    fn step(
        &mut self,
        op: &str,
        commands: Vec<CommandLine>,
        cwd: &Path,
        inputs: &[&Path],
        commits: bool,
    ) -> Result<()> {
        if self.failed {
            return Ok(());
        }
        let step = self.prepare(commands, cwd);
        let measured = self.bench.conditions.measure(&step, inputs)?;
        self.failed = !measured.outcome.ok;
        let before = self.size;
        if commits && !self.failed {
            self.size = Some(usage(&self.repository)?);
        }
        let record = self.record(op, measured, commits, before);
        (self.bench.emit)(Event::Measured(Box::new(record)))
    }

    fn record(&self, op: &str, m: Measurement, commits: bool, before: Option<Usage>) -> Record {
        let flushed = commits && self.peer.durable_commits;
        let after = self.size.filter(|_| commits);
        let growth = |of: fn(Usage) -> u64| {
            let (before, after) = (before?, after?);
            Some(of(after) as i64 - of(before) as i64)
        };
        Record {
            dataset: self.set.name.clone(),
            tool: self.peer.name.to_owned(),
            version: self.version.to_owned(),
            op: op.to_owned(),
            rep: self.rep,
            ok: m.outcome.ok,
            durable_s: m.outcome.wall_s + if flushed { 0.0 } else { m.sync_s },
            wall_s: m.outcome.wall_s,
            sync_s: m.sync_s,
            sync_charged: !flushed,
            user_s: m.outcome.user_s,
            system_s: m.outcome.system_s,
            peak_mib: m.outcome.peak_rss_bytes as f64 / f64::from(1 << 20),
            threads: m.outcome.threads,
            repository: after,
            growth_disk_bytes: growth(|u| u.disk_bytes),
            growth_apparent_bytes: growth(|u| u.apparent_bytes),
            load: m.load,
            free_mib: m.free_mib,
            seconds_since_mass_delete: self.bench.trash.seconds_since_emptied(),
            error: m.outcome.error,
        }
    }
}
