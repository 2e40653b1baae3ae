//! The raw results of the experiments about growth: one text file, from which tables and plots are
//! drawn, and from which an interrupted run goes on.
//!
//! The file has tab-separated columns ([`COLUMNS`]) and one row for each step of each tool, amount
//! and run. Lines that start with `#` come first: the machine, and each tool's version. All rows of
//! a file are of one machine and of one version of each tool, so they can be compared. A session's
//! rows are written together; a session that lacks one is dropped when the file is opened again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::scaling::{Experiment, Point};

/// The first line. A file with another one is of another version of this program.
const TITLE: &str = "# results of benches/report, version 1";

/// Stands for no reason.
const NO_REASON: &str = "-";

/// The columns of a row.
pub const COLUMNS: [&str; 17] = [
    "date",
    "experiment",
    "amount",
    "tool",
    "run",
    "step",
    "status",
    "seconds",
    "command_s",
    "sync_s",
    "cpu_s",
    "peak_bytes",
    "disk_bytes",
    "length_bytes",
    "inodes",
    "load",
    "reason",
];

/// What became of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It succeeded.
    Ok,
    /// A command failed, or a checkout was not what had been committed.
    Failed,
    /// It took longer than allowed, and was stopped.
    TimedOut,
    /// The disk had no room for it.
    NoRoom,
    /// It was not tried, because a step before it failed or because it cannot succeed.
    NotTried,
    /// The tool has no such command.
    NoCommand,
}

/// Each status and its name in the file.
const STATUSES: [(Status, &str); 6] = [
    (Status::Ok, "ok"),
    (Status::Failed, "failed"),
    (Status::TimedOut, "timed-out"),
    (Status::NoRoom, "no-room"),
    (Status::NotTried, "not-tried"),
    (Status::NoCommand, "no-command"),
];

impl Status {
    fn name(self) -> &'static str {
        let named = STATUSES.iter().find(|(status, _)| *status == self);
        named.map_or("", |(_, name)| name)
    }

    fn named(name: &str) -> Option<Status> {
        let named = STATUSES.iter().find(|(_, known)| *known == name);
        named.map(|(status, _)| *status)
    }
}

/// What the rows of one session have in common: experiment, amount, tool, run.
type Session = (&'static str, u64, String, u32);

/// One measured step. Numbers of a step that did not succeed mean nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Day of the measurement, in UTC.
    pub date: String,
    /// Experiment and amount.
    pub point: Point,
    /// The tool.
    pub tool: String,
    /// Repetition, from 0.
    pub run: u32,
    /// The step, one of [`Experiment::steps`].
    pub step: String,
    /// What became of it.
    pub status: Status,
    /// Seconds until the result is safe on disk.
    pub seconds: f64,
    /// Seconds until the commands ended.
    pub command_s: f64,
    /// Seconds that flushing the file system took afterwards.
    pub sync_s: f64,
    /// CPU seconds, in user mode and in the kernel.
    pub cpu_s: f64,
    /// Peak resident memory; 0 where the process was too short to be seen.
    pub peak_bytes: u64,
    /// Disk blocks of the repository after a commit.
    pub disk_bytes: u64,
    /// Lengths of its files.
    pub length_bytes: u64,
    /// Its files and directories.
    pub inodes: u64,
    /// Load average of the machine just before.
    pub load: f64,
    /// Why it did not succeed.
    pub reason: String,
}

impl Row {
    /// A row without numbers: `step` did not succeed for `reason`.
    pub fn without(
        point: Point,
        tool: &str,
        run: u32,
        step: &str,
        status: Status,
        reason: &str,
    ) -> Row {
        Row {
            date: String::new(),
            point,
            tool: tool.to_owned(),
            run,
            step: step.to_owned(),
            status,
            seconds: 0.0,
            command_s: 0.0,
            sync_s: 0.0,
            cpu_s: 0.0,
            peak_bytes: 0,
            disk_bytes: 0,
            length_bytes: 0,
            inodes: 0,
            load: 0.0,
            reason: reason.to_owned(),
        }
    }

    fn session(&self) -> Session {
        let Point { experiment, amount } = self.point;
        (experiment.name(), amount, self.tool.clone(), self.run)
    }

    fn line(&self) -> String {
        let cells = [
            self.date.clone(),
            self.point.experiment.name().to_owned(),
            self.point.amount.to_string(),
            self.tool.clone(),
            self.run.to_string(),
            self.step.clone(),
            self.status.name().to_owned(),
            format!("{:.4}", self.seconds),
            format!("{:.4}", self.command_s),
            format!("{:.4}", self.sync_s),
            format!("{:.2}", self.cpu_s),
            self.peak_bytes.to_string(),
            self.disk_bytes.to_string(),
            self.length_bytes.to_string(),
            self.inodes.to_string(),
            format!("{:.2}", self.load),
            // No line of the source tree ends in a tab.
            if self.reason.is_empty() {
                NO_REASON.to_owned()
            } else {
                one_line(&self.reason)
            },
        ];
        cells.join("\t")
    }

    fn parse(line: &str) -> Result<Row> {
        let cells: Vec<&str> = line.split('\t').collect();
        if cells.len() != COLUMNS.len() {
            bail!(
                "{} columns instead of {}: {line}",
                cells.len(),
                COLUMNS.len()
            );
        }
        let float = |n: usize| cells[n].parse::<f64>().context(COLUMNS[n]);
        let whole = |n: usize| cells[n].parse::<u64>().context(COLUMNS[n]);
        Ok(Row {
            date: cells[0].to_owned(),
            point: Point {
                experiment: Experiment::named(cells[1]).context(COLUMNS[1])?,
                amount: whole(2)?,
            },
            tool: cells[3].to_owned(),
            run: cells[4].parse().context(COLUMNS[4])?,
            step: cells[5].to_owned(),
            status: Status::named(cells[6]).context(COLUMNS[6])?,
            seconds: float(7)?,
            command_s: float(8)?,
            sync_s: float(9)?,
            cpu_s: float(10)?,
            peak_bytes: whole(11)?,
            disk_bytes: whole(12)?,
            length_bytes: whole(13)?,
            inodes: whole(14)?,
            load: float(15)?,
            reason: match cells[16] {
                NO_REASON => String::new(),
                reason => reason.to_owned(),
            },
        })
    }
}

/// `text` without line ends, tabs and repeated spaces.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A tool that a run asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tool {
    /// Its version, with what identifies the build.
    Version(String),
    /// It is not installed, and what was missing.
    Missing(String),
}

/// What all rows of a file share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Processor, memory, file system, kernel.
    pub machine: String,
    /// How the run was limited.
    pub settings: String,
    /// The tools that were asked for, in the order of the tables.
    pub tools: Vec<(String, Tool)>,
}

impl Header {
    fn text(&self) -> String {
        let mut out = format!(
            "{TITLE}\n# machine\t{}\n# settings\t{}\n",
            self.machine, self.settings
        );
        for (name, tool) in &self.tools {
            let (kind, what) = match tool {
                Tool::Version(version) => ("tool", version),
                Tool::Missing(why) => ("missing", why),
            };
            out.push_str(&format!("# {kind}\t{name}\t{}\n", one_line(what)));
        }
        out.push_str(&COLUMNS.join("\t"));
        out.push('\n');
        out
    }

    fn take(&mut self, line: &str) -> Result<()> {
        let cells: Vec<&str> = line.split('\t').collect();
        match cells[..] {
            ["# machine", machine] => self.machine = machine.to_owned(),
            ["# settings", settings] => self.settings = settings.to_owned(),
            ["# tool", name, version] => {
                let tool = Tool::Version(version.to_owned());
                self.tools.push((name.to_owned(), tool));
            }
            ["# missing", name, why] => {
                let tool = Tool::Missing(why.to_owned());
                self.tools.push((name.to_owned(), tool));
            }
            _ => bail!("unknown line: {line}"),
        }
        Ok(())
    }

    /// What is known of the tool called `name`.
    pub fn tool(&self, name: &str) -> Option<&Tool> {
        let known = self.tools.iter().find(|(known, _)| known == name);
        known.map(|(_, tool)| tool)
    }

    /// Takes over the tools of an earlier run. Fails if what both measured could not be compared.
    fn go_on_from(&mut self, old: Header) -> Result<()> {
        if old.machine != self.machine {
            bail!(
                "these results are of another machine: {}; this one is: {}",
                old.machine,
                self.machine
            );
        }
        for (name, tool) in old.tools {
            let Some(now) = self.tools.iter_mut().find(|(known, _)| *known == name) else {
                self.tools.push((name, tool));
                continue;
            };
            match (&tool, &now.1) {
                (Tool::Version(old), Tool::Version(new)) if old != new => bail!(
                    "these results are of another build of {name}: {old}; this one is: {new}. \
                     To measure it again: --again {name}"
                ),
                // Its rows stay, with the version that they were made with.
                (Tool::Version(_), Tool::Missing(_)) => now.1 = tool,
                _ => {}
            }
        }
        Ok(())
    }
}

/// A file of results.
#[derive(Debug)]
pub struct Results {
    path: PathBuf,
    /// What all rows share.
    pub header: Header,
    /// The rows of complete sessions.
    pub rows: Vec<Row>,
}

impl Results {
    /// Reads `path`. A file that is not there has no rows.
    pub fn read(path: &Path) -> Result<Results> {
        let mut results = Results {
            path: path.to_owned(),
            header: Header::default(),
            rows: Vec::new(),
        };
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(results),
            Err(error) => return Err(error).context(path.display().to_string()),
        };
        results
            .take(&text)
            .with_context(|| path.display().to_string())?;
        Ok(results)
    }

    fn take(&mut self, text: &str) -> Result<()> {
        // A last line without an end was being written when the run was interrupted.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let mut lines = whole.lines();
        if lines.next() != Some(TITLE) {
            bail!("this is no file of results, or one of another version of this program");
        }
        for line in lines {
            if line.starts_with('#') {
                self.header.take(line)?;
            } else if line != COLUMNS.join("\t") {
                self.rows.push(Row::parse(line)?);
            }
        }
        let mut steps: BTreeMap<Session, usize> = BTreeMap::new();
        for row in &self.rows {
            *steps.entry(row.session()).or_default() += 1;
        }
        self.rows
            .retain(|row| steps[&row.session()] == row.point.experiment.steps().len());
        Ok(())
    }

    /// Opens `path` to add to it. Drops the rows that `again` picks, to have them measured anew.
    pub fn open(path: &Path, mut header: Header, again: impl Fn(&Row) -> bool) -> Result<Results> {
        let mut results = Results::read(path)?;
        let picked = results.rows.iter().filter(|row| again(row));
        let dropped: BTreeSet<Session> = picked.map(Row::session).collect();
        results.rows.retain(|row| !dropped.contains(&row.session()));
        // A tool without rows may have another version by now.
        let measured = |name: &str| results.rows.iter().any(|row| row.tool == name);
        let mut old = results.header.clone();
        old.tools.retain(|(name, _)| measured(name));
        if !results.rows.is_empty() {
            header.go_on_from(old)?;
        }
        results.header = header;
        results.write()?;
        Ok(results)
    }

    /// Writes the whole file anew.
    fn write(&self) -> Result<()> {
        let context = || format!("write {}", self.path.display());
        if let Some(dir) = self.path.parent() {
            fs::create_dir_all(dir).with_context(context)?;
        }
        let mut text = self.header.text();
        for row in &self.rows {
            text.push_str(&row.line());
            text.push('\n');
        }
        let temporary = self.path.with_added_extension("new");
        fs::write(&temporary, text).with_context(context)?;
        fs::rename(&temporary, &self.path).with_context(context)
    }

    /// Adds the rows of one session, on disk when this returns.
    pub fn append(&mut self, rows: Vec<Row>) -> Result<()> {
        let context = || format!("write {}", self.path.display());
        let text: String = rows.iter().map(|row| row.line() + "\n").collect();
        let mut file = OpenOptions::new()
            .append(true)
            .open(&self.path)
            .with_context(context)?;
        file.write_all(text.as_bytes()).with_context(context)?;
        file.sync_data().with_context(context)?;
        self.rows.extend(rows);
        Ok(())
    }

    /// The rows of one tool at one point.
    pub fn of<'a>(&'a self, point: Point, tool: &'a str) -> impl Iterator<Item = &'a Row> {
        self.rows
            .iter()
            .filter(move |row| row.point == point && row.tool == tool)
    }

    /// The points of `experiment` that any tool was measured at, smallest first.
    pub fn points(&self, experiment: Experiment) -> Vec<Point> {
        let here = |row: &&Row| row.point.experiment == experiment;
        let mut points: Vec<Point> = self.rows.iter().filter(here).map(|r| r.point).collect();
        points.sort_by_key(|point| point.amount);
        points.dedup();
        points
    }

    /// The median of a tool's runs, with the least and the most. `of` gets the rows of `steps` of
    /// one run, in that order. A run in which one of them did not succeed leaves no median.
    pub fn cell(
        &self,
        point: Point,
        tool: &str,
        steps: &[&str],
        of: impl Fn(&[&Row]) -> Option<f64>,
    ) -> Cell {
        let mut runs: BTreeMap<u32, Vec<&Row>> = BTreeMap::new();
        for row in self.of(point, tool) {
            runs.entry(row.run).or_default().push(row);
        }
        let mut values = Vec::new();
        for rows in runs.into_values() {
            let named = |step: &&str| rows.iter().copied().find(|row| row.step == *step);
            let Some(rows) = steps.iter().map(named).collect::<Option<Vec<&Row>>>() else {
                return Cell::Nothing;
            };
            if let Some(row) = rows.iter().find(|row| row.status != Status::Ok) {
                return Cell::Without(row.status, row.reason.clone());
            }
            values.extend(of(&rows));
        }
        values.sort_by(f64::total_cmp);
        match (median(&values), values.first(), values.last()) {
            (Some(middle), Some(least), Some(most)) => Cell::Measured {
                middle,
                least: *least,
                most: *most,
                runs: values.len(),
            },
            _ => Cell::Nothing,
        }
    }
}

/// What a tool's runs of a step gave.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// All of them succeeded.
    Measured {
        /// The median.
        middle: f64,
        /// The smallest value.
        least: f64,
        /// The largest.
        most: f64,
        /// Number of runs.
        runs: usize,
    },
    /// One of them did not succeed, and why.
    Without(Status, String),
    /// None was made, or none has this value.
    Nothing,
}

impl Cell {
    /// The median, if there is one.
    pub fn middle(&self) -> Option<f64> {
        match self {
            Cell::Measured { middle, .. } => Some(*middle),
            _ => None,
        }
    }
}

/// The middle of `sorted`, between the middle two if there are two.
pub fn median(sorted: &[f64]) -> Option<f64> {
    let n = sorted.len();
    let upper = sorted.get(n / 2)?;
    Some(if n % 2 == 1 {
        *upper
    } else {
        (sorted[n / 2 - 1] + upper) / 2.0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const POINT: Point = Point {
        experiment: Experiment::File,
        amount: 1024,
    };

    fn header(version: &str) -> Header {
        Header {
            machine: "2 cores".to_owned(),
            settings: "at most 9 s".to_owned(),
            tools: vec![
                ("git".to_owned(), Tool::Version(version.to_owned())),
                (
                    "hg".to_owned(),
                    Tool::Missing("hg not installed".to_owned()),
                ),
            ],
        }
    }

    fn session(run: u32, seconds: f64) -> Vec<Row> {
        let steps = POINT.experiment.steps().iter();
        let row = |step: &&str| Row {
            date: "2026-11-22".to_owned(),
            seconds,
            disk_bytes: if *step == "changed" { 5000 } else { 4096 },
            ..Row::without(POINT, "git", run, step, Status::Ok, "")
        };
        steps.map(row).collect()
    }

    #[test]
    fn rows_come_back_from_the_file() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("new/results.tsv");
        let mut results = Results::open(&path, header("1"), |_| false)?;
        results.append(session(0, 0.25))?;
        let mut failed = session(1, 0.5);
        failed[1].status = Status::Failed;
        failed[1].reason = "two\n\tlines".to_owned();
        results.append(failed)?;
        let text = fs::read_to_string(&path)?;
        assert!(text.lines().all(|line| line == line.trim_end()), "{text}");
        let back = Results::read(&path)?;
        assert_eq!(back.header, header("1"));
        assert_eq!(back.rows.len(), 6);
        assert_eq!(back.rows[..3], results.rows[..3]);
        assert_eq!(back.rows[4].reason, "two lines");
        assert_eq!(back.points(Experiment::File), [POINT]);
        assert!(back.points(Experiment::Files).is_empty());
        Ok(())
    }

    #[test]
    fn an_interrupted_session_is_dropped() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("results.tsv");
        let mut results = Results::open(&path, header("1"), |_| false)?;
        results.append(session(0, 0.25))?;
        results.append(session(1, 0.25))?;
        let text = fs::read_to_string(&path)?;
        let whole = text.len();
        // Cut anywhere in the second session: the first one is left, and the next row fits on.
        let second = text.match_indices('\n').nth_back(3).context("rows")?.0 + 1;
        for cut in [second, second + 1, second + 30, whole - 20, whole - 1] {
            fs::write(&path, &text[..cut])?;
            let mut results = Results::open(&path, header("1"), |_| false)?;
            assert_eq!(results.rows.len(), 3, "{cut}");
            results.append(session(1, 0.25))?;
            assert_eq!(fs::read_to_string(&path)?, text, "{cut}");
        }
        Ok(())
    }

    #[test]
    fn results_of_another_machine_or_build_are_refused() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("results.tsv");
        Results::open(&path, header("1"), |_| false)?.append(session(0, 0.25))?;
        let error = Results::open(&path, header("2"), |_| false).err();
        let text = error.context("two builds")?.to_string();
        assert!(text.contains("--again git"), "{text}");
        let elsewhere = Header {
            machine: "4 cores".to_owned(),
            ..header("1")
        };
        assert!(Results::open(&path, elsewhere, |_| false).is_err());
        assert_eq!(Results::read(&path)?.rows.len(), 3);
        // What is measured again may be of another build.
        let results = Results::open(&path, header("2"), |row| row.tool == "git")?;
        assert!(results.rows.is_empty());
        fs::write(&path, "something else\n")?;
        assert!(Results::read(&path).is_err());
        Ok(())
    }

    #[test]
    fn a_tool_keeps_its_rows_when_it_is_gone() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("results.tsv");
        Results::open(&path, header("1"), |_| false)?.append(session(0, 0.25))?;
        let mut later = header("1");
        later.tools[0].1 = Tool::Missing("git not installed".to_owned());
        let results = Results::open(&path, later, |_| false)?;
        assert_eq!(results.header.tool("git"), header("1").tool("git"));
        Ok(())
    }

    #[test]
    fn a_cell_is_the_median_or_why_there_is_none() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let mut results = Results::open(&dir.path().join("r"), header("1"), |_| false)?;
        for (run, seconds) in [(0, 4.0), (1, 1.0), (2, 2.0)] {
            results.append(session(run, seconds))?;
        }
        let seconds = |results: &Results, step| {
            results.cell(POINT, "git", &[step], |rows| Some(rows[0].seconds))
        };
        let wanted = Cell::Measured {
            middle: 2.0,
            least: 1.0,
            most: 4.0,
            runs: 3,
        };
        assert_eq!(seconds(&results, "first"), wanted);
        assert_eq!(seconds(&results, "status"), Cell::Nothing);
        let growth = results.cell(POINT, "git", &["first", "changed"], |rows| {
            Some(rows[1].disk_bytes as f64 - rows[0].disk_bytes as f64)
        });
        assert_eq!(growth.middle(), Some(904.0));
        let mut rows = session(3, 1.0);
        rows[2].status = Status::TimedOut;
        results.append(rows)?;
        assert_eq!(seconds(&results, "first").middle(), Some(1.5));
        let stopped = Cell::Without(Status::TimedOut, String::new());
        assert_eq!(seconds(&results, "checkout"), stopped);
        Ok(())
    }

    #[test]
    fn median_of_an_even_count_lies_between() {
        assert_eq!(median(&[1.0, 2.0, 4.0, 9.0]), Some(3.0));
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(median(&[]), None);
    }
}
