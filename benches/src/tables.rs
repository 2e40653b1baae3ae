//! Records of measurements, and the tables made of them.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::results::median;
use crate::usage::Usage;

/// The tool that ratios are formed to; where it has no part, the first that has.
const YARDSTICK: &str = "cp";

/// One measured step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Data set.
    pub dataset: String,
    /// Row of the table.
    pub tool: String,
    /// What the tool says of its version.
    pub version: String,
    /// Operation.
    pub op: String,
    /// Repetition, from 0.
    pub rep: u32,
    /// Whether it succeeded; if not, times mean nothing.
    pub ok: bool,
    /// Seconds until the result is safe on disk: `wall_s`, and `sync_s` if it is charged.
    pub durable_s: f64,
    /// Seconds until the commands ended.
    pub wall_s: f64,
    /// Seconds that flushing the file system took afterwards.
    pub sync_s: f64,
    /// False for commits of tools that flush by themselves.
    pub sync_charged: bool,
    /// CPU seconds in user mode.
    pub user_s: f64,
    /// CPU seconds in the kernel.
    pub system_s: f64,
    /// Peak resident memory of the process tree, in MiB.
    pub peak_mib: f64,
    /// Most threads seen at once.
    pub threads: u64,
    /// The repository after a commit.
    pub repository: Option<Usage>,
    /// By how much it grew on disk since the commit before.
    pub growth_disk_bytes: Option<i64>,
    /// By how much the lengths of its files grew.
    pub growth_apparent_bytes: Option<i64>,
    /// Load average of the machine just before.
    pub load: f64,
    /// Free memory just before, in MiB.
    pub free_mib: u64,
    /// If the trash had to be emptied during the run: how long ago.
    pub seconds_since_mass_delete: Option<f64>,
    /// Why it failed.
    pub error: Option<String>,
}

/// Both tables of `dataset` in Markdown: times, then resources.
pub fn tables(records: &[Record], dataset: &str) -> String {
    let here = Selection(records.iter().filter(|r| r.dataset == dataset).collect());
    let (tools, ops) = (here.distinct(|r| &r.tool), here.ops());
    let Some(first) = ops.first() else {
        return String::new();
    };
    let mut out = format!("### {dataset}\n\n");
    let yardstick = here.yardstick();
    let _ = write!(
        out,
        "Seconds until durable: median (least–most), ratio to {yardstick}.\n\n"
    );
    row(&mut out, "tool", ops.iter().map(|op| op.to_string()));
    rule(&mut out, ops.len());
    for tool in &tools {
        row(
            &mut out,
            tool,
            ops.iter().map(|op| here.time_cell(tool, op)),
        );
    }

    let grown: Vec<&str> = ops.iter().copied().filter(|op| here.grows(op)).collect();
    let _ = write!(
        out,
        "\nResources; repository after `{first}`; growth on disk per commit.\n\n"
    );
    let mut heads: Vec<String> = [format!("CPU s {first}")].into();
    heads.extend(
        ops.contains(&"checkout")
            .then(|| "CPU s checkout".to_owned()),
    );
    heads.push(format!("peak MiB {first}"));
    heads.extend(["peak MiB any", "MiB on disk", "MiB apparent", "inodes"].map(str::to_owned));
    heads.extend(grown.iter().map(|op| format!("KiB {op}")));
    let columns = heads.len();
    row(&mut out, "tool", heads.into_iter());
    rule(&mut out, columns);
    for tool in &tools {
        let size = |of: fn(&Usage) -> f64| here.cell(tool, first, |r| Some(of(&r.repository?)));
        let mut cells = vec![here.cell(tool, first, |r| Some(r.user_s + r.system_s))];
        if ops.contains(&"checkout") {
            cells.push(here.cell(tool, "checkout", |r| Some(r.user_s + r.system_s)));
        }
        // A process that ended before the first sample has no peak.
        cells.push(here.cell(tool, first, |r| Some(r.peak_mib).filter(|mib| *mib > 0.0)));
        cells.push(here.largest_peak(tool));
        cells.push(size(|u| u.disk_bytes as f64 / f64::from(1 << 20)));
        cells.push(size(|u| u.apparent_bytes as f64 / f64::from(1 << 20)));
        cells.push(here.middle(tool, first, |r| Some(r.repository?.inodes as f64), count));
        for op in &grown {
            let growth = |r: &Record| Some(r.growth_disk_bytes? as f64 / 1024.0);
            cells.push(here.middle(tool, op, growth, count));
        }
        row(&mut out, tool, cells.into_iter());
    }
    out
}

/// The records of one data set.
struct Selection<'a>(Vec<&'a Record>);

impl<'a> Selection<'a> {
    fn distinct(&self, of: fn(&Record) -> &String) -> Vec<&'a str> {
        let mut found: Vec<&str> = Vec::new();
        for record in &self.0 {
            let name = of(record).as_str();
            if !found.contains(&name) {
                found.push(name);
            }
        }
        found
    }

    /// The operations in the order they ran; making the repository is not one. A tool may lack
    /// some, so the tool with the most of them gives the order.
    fn ops(&self) -> Vec<&'a str> {
        let of_tool = |tool: &&str| {
            let own = self.0.iter().copied().filter(|r| r.tool == *tool).collect();
            Selection(own).distinct(|r| &r.op)
        };
        let tools = self.distinct(|r| &r.tool);
        let mut ops = tools
            .iter()
            .map(of_tool)
            .max_by_key(Vec::len)
            .unwrap_or_default();
        for op in self.distinct(|r| &r.op) {
            if !ops.contains(&op) {
                ops.push(op);
            }
        }
        ops.retain(|op| *op != "init");
        ops
    }

    fn of(&self, tool: &str, op: &str) -> impl Iterator<Item = &'a Record> {
        self.0
            .iter()
            .copied()
            .filter(move |r| r.tool == tool && r.op == op)
    }

    fn yardstick(&self) -> &'a str {
        let tools = self.distinct(|r| &r.tool);
        let found = tools.iter().find(|tool| **tool == YARDSTICK);
        found.or(tools.first()).copied().unwrap_or(YARDSTICK)
    }

    fn grows(&self, op: &str) -> bool {
        self.0
            .iter()
            .any(|r| r.op == op && r.growth_disk_bytes.is_some())
    }

    /// The successful values in order; a failure anywhere leaves none.
    fn values(&self, tool: &str, op: &str, of: impl Fn(&Record) -> Option<f64>) -> Vec<f64> {
        if self.of(tool, op).any(|r| !r.ok) {
            return Vec::new();
        }
        let mut values: Vec<f64> = self.of(tool, op).filter_map(of).collect();
        values.sort_by(f64::total_cmp);
        values
    }

    fn time_cell(&self, tool: &str, op: &str) -> String {
        if self.of(tool, op).any(|r| !r.ok) {
            return "failed".to_owned();
        }
        let times = self.values(tool, op, |r| Some(r.durable_s));
        let Some(middle) = median(&times) else {
            return "–".to_owned();
        };
        let mut cell = number(middle);
        if let [least, .., most] = times[..] {
            let _ = write!(cell, " ({}–{})", number(least), number(most));
        }
        let unit = self.values(self.yardstick(), op, |r| Some(r.durable_s));
        if let Some(unit) = median(&unit) {
            let _ = write!(cell, " {:.2}×", middle / unit);
        }
        cell
    }

    fn cell(&self, tool: &str, op: &str, of: impl Fn(&Record) -> Option<f64>) -> String {
        self.middle(tool, op, of, number)
    }

    fn middle(
        &self,
        tool: &str,
        op: &str,
        of: impl Fn(&Record) -> Option<f64>,
        show: fn(f64) -> String,
    ) -> String {
        median(&self.values(tool, op, of)).map_or("–".to_owned(), show)
    }

    fn largest_peak(&self, tool: &str) -> String {
        let own = self.0.iter().filter(|r| r.tool == tool && r.ok);
        let most = own.map(|r| r.peak_mib).fold(0.0, f64::max);
        if most > 0.0 {
            number(most)
        } else {
            "–".to_owned()
        }
    }
}

/// About three digits.
fn number(x: f64) -> String {
    match x.abs() {
        0.0 => "0".to_owned(),
        a if a < 1.0 => format!("{x:.3}"),
        a if a < 10.0 => format!("{x:.2}"),
        a if a < 100.0 => format!("{x:.1}"),
        _ => format!("{x:.0}"),
    }
}

/// No digits after the point.
fn count(x: f64) -> String {
    format!("{x:.0}")
}

fn row(out: &mut String, head: &str, cells: impl Iterator<Item = String>) {
    let cells: Vec<String> = cells.collect();
    let _ = writeln!(out, "| {head} | {} |", cells.join(" | "));
}

fn rule(out: &mut String, columns: usize) {
    let _ = writeln!(out, "|---|{}", "---:|".repeat(columns));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(tool: &str, op: &str, rep: u32, durable_s: f64) -> Record {
        let repository = (op != "checkout").then_some(Usage {
            apparent_bytes: 1 << 20,
            disk_bytes: 2 << 20,
            files: 1,
            inodes: 3,
        });
        Record {
            dataset: "file 1M".to_owned(),
            tool: tool.to_owned(),
            version: String::new(),
            op: op.to_owned(),
            rep,
            ok: true,
            durable_s,
            wall_s: durable_s,
            sync_s: 0.0,
            sync_charged: true,
            user_s: 0.25,
            system_s: 0.25,
            peak_mib: 5.0,
            threads: 1,
            repository,
            growth_disk_bytes: (op == "overwrite").then_some(4096),
            growth_apparent_bytes: None,
            load: 0.0,
            free_mib: 0,
            seconds_since_mass_delete: None,
            error: None,
        }
    }

    #[test]
    fn tables_show_medians_and_ratios_to_cp() {
        let mut records = Vec::new();
        for (rep, s) in [(0, 1.0), (1, 3.0), (2, 2.0)] {
            records.push(record("cp", "first", rep, s));
            records.push(record("x", "init", rep, 99.0));
            records.push(record("x", "first", rep, 2.0 * s));
        }
        records.push(record("x", "overwrite", 0, 0.5));
        records.push(Record {
            ok: false,
            ..record("y", "first", 0, 1.0)
        });
        let text = tables(&records, "file 1M");
        assert!(
            text.contains("| cp | 2.00 (1.00–3.00) 1.00× | – |"),
            "{text}"
        );
        assert!(
            text.contains("| x | 4.00 (2.00–6.00) 2.00× | 0.500 |"),
            "{text}"
        );
        assert!(text.contains("| y | failed | – |"), "{text}");
        assert!(
            text.contains("| x | 0.500 | 5.00 | 5.00 | 2.00 | 1.00 | 3 | 4 |"),
            "{text}"
        );
        assert!(!text.contains("99"), "{text}");
        assert_eq!(tables(&records, "other"), "");
    }

    #[test]
    fn columns_come_in_the_order_of_the_fullest_tool() {
        let mut records = vec![
            record("cp", "first", 0, 1.0),
            record("cp", "checkout", 0, 1.0),
        ];
        for op in ["first", "status", "checkout"] {
            records.push(record("x", op, 0, 1.0));
        }
        let text = tables(&records, "file 1M");
        assert!(
            text.contains("| tool | first | status | checkout |"),
            "{text}"
        );
    }

    #[test]
    fn record_keeps_its_values_through_json() -> serde_json::Result<()> {
        let text = serde_json::to_string(&record("x", "first", 1, 0.125))?;
        let back: Record = serde_json::from_str(&text)?;
        assert_eq!((back.rep, back.durable_s), (1, 0.125));
        Ok(())
    }
}
