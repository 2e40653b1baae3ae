//! Writes the tables and plots of the experiments about growth into a page, from the results alone.
//!
//! The page has a part between [`BEGIN`] and [`END`] that belongs to this module; the rest is
//! written by hand and stays. Plots lie in `plots/` beside the page.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::peers::{self, PEERS};
use crate::plot::{self, Axis, Curve, Plot, Unit};
use crate::results::{Cell, Results, Row, Status, Tool};
use crate::scaling::{Experiment, Point};
use crate::size;

/// The line before what is written.
pub const BEGIN: &str = "<!-- What follows, to the end mark, is written by benches/report. -->";
/// The line after it.
pub const END: &str = "<!-- End mark of benches/report. -->";

/// Amounts with rows in the tables, beside the largest.
const IN_TABLE_FILE: [u64; 7] = [1, 1 << 10, 1 << 20, 64 << 20, 1 << 30, 8 << 30, 32 << 30];
const IN_TABLE_FILES: [u64; 6] = [1, 100, 1000, 10_000, 100_000, 1_000_000];
/// The tool that ratios are formed to.
const YARDSTICK: &str = "cp";
/// The largest multiple of the content that is drawn: what a repository takes for a few bytes would
/// leave no height to tell 1 from 2. Tables show all.
const MOST_DRAWN_RATIO: f64 = 20.0;
/// The longest reason of a failure that is told.
const REASON_CHARS: usize = 160;

/// Something that is drawn over the amounts.
struct Figure {
    /// Part of its file's name.
    name: &'static str,
    experiment: Experiment,
    title: &'static str,
    unit: Unit,
    axis: &'static str,
    /// The steps that it needs.
    steps: &'static [&'static str],
    /// Its value, from the rows of these steps in one run.
    value: fn(&[&Row]) -> Option<f64>,
}

const FILE: Experiment = Experiment::File;
const FILES: Experiment = Experiment::Files;

/// Every plot, in the order of the page.
const FIGURES: [Figure; 11] = [
    seconds(FILE, "first", "First commit of one file", &["first"]),
    seconds(
        FILE,
        "changed",
        "Commit after a 1,024th of the file changed",
        &["changed"],
    ),
    seconds(FILE, "checkout", "Checkout of the file", &["checkout"]),
    space(
        FILE,
        "Repository after both commits (up to 20 times the file)",
    ),
    memory(FILE, "Peak memory of both commits of one file"),
    seconds(FILES, "first", "First commit of files of 1 KiB", &["first"]),
    seconds(FILES, "status", "Status, nothing changed", &["status"]),
    seconds(
        FILES,
        "changed",
        "Commit after every sixteenth file changed",
        &["changed"],
    ),
    seconds(FILES, "checkout", "Checkout of the files", &["checkout"]),
    space(
        FILES,
        "Repository after both commits (up to 20 times the files)",
    ),
    memory(FILES, "Peak memory of both commits of many files"),
];

const fn seconds(
    experiment: Experiment,
    name: &'static str,
    title: &'static str,
    steps: &'static [&'static str],
) -> Figure {
    Figure {
        name,
        experiment,
        title,
        unit: Unit::Seconds,
        axis: "seconds until durable",
        steps,
        value: |rows| Some(rows[0].seconds),
    }
}

const fn space(experiment: Experiment, title: &'static str) -> Figure {
    Figure {
        name: "space",
        experiment,
        title,
        unit: Unit::Ratio,
        axis: "disk space / content",
        steps: &["changed"],
        value: |rows| {
            let ratio = rows[0].disk_bytes as f64 / rows[0].point.bytes() as f64;
            Some(ratio).filter(|ratio| *ratio <= MOST_DRAWN_RATIO)
        },
    }
}

const fn memory(experiment: Experiment, title: &'static str) -> Figure {
    Figure {
        name: "memory",
        experiment,
        title,
        unit: Unit::Bytes,
        axis: "peak memory",
        steps: &["first", "changed"],
        // A process that ended before the first sample has no peak.
        value: |rows| {
            let most = rows.iter().map(|row| row.peak_bytes).max();
            most.filter(|bytes| *bytes > 0).map(|bytes| bytes as f64)
        },
    }
}

/// Writes the tables into `page` and the plots beside it. Makes the page if there is none; removes
/// plots for which there are no results.
pub fn write(results: &Results, page: &Path) -> Result<()> {
    let old = match fs::read_to_string(page) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            format!("# Benchmarks\n\n{BEGIN}\n{END}\n")
        }
        read => read.with_context(|| page.display().to_string())?,
    };
    let new = replace(&old, &text(results)?).with_context(|| page.display().to_string())?;
    let dir = page.with_file_name("plots");
    for (name, svg) in plots(results)? {
        let path = dir.join(name);
        match svg {
            Some(svg) => {
                fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
                fs::write(&path, svg).with_context(|| path.display().to_string())?;
            }
            None if path.exists() => {
                fs::remove_file(&path).with_context(|| path.display().to_string())?;
            }
            None => {}
        }
    }
    fs::write(page, new).with_context(|| page.display().to_string())
}

/// `page` with another generated part.
pub fn replace(page: &str, generated: &str) -> Result<String> {
    let parts = page.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    let Some((before, after)) = parts else {
        bail!("the page has no part for tables, between the lines '{BEGIN}' and '{END}'");
    };
    Ok(format!("{before}{BEGIN}\n\n{generated}\n{END}{after}"))
}

/// The names of all plots, with their text where there are results.
pub fn plots(results: &Results) -> Result<Vec<(String, Option<String>)>> {
    let draw = |figure: &Figure| {
        let svg = plot::svg(&plot_of(results, figure))?;
        Ok((file_name(figure), svg))
    };
    FIGURES.iter().map(draw).collect()
}

/// The generated part of the page.
pub fn text(results: &Results) -> Result<String> {
    if results.rows.is_empty() {
        return Ok(
            "No results of this experiment are recorded yet. `benches/report` makes them.\n".into(),
        );
    }
    let mut out = conditions(results);
    for experiment in Experiment::ALL {
        let points = results.points(experiment);
        let (Some(first), Some(last)) = (points.first(), points.last()) else {
            continue;
        };
        let what = match experiment {
            Experiment::File => "One file",
            Experiment::Files => "Many files",
        };
        let _ = write!(
            out,
            "\n### {what}, {} to {}\n\n",
            first.label(),
            last.label()
        );
        for figure in FIGURES.iter().filter(|f| f.experiment == experiment) {
            let plot = plot_of(results, figure);
            if plot::svg(&plot)?.is_some() {
                let _ = writeln!(out, "![{}](plots/{})\n", plot.title, file_name(figure));
            }
        }
        table(&mut out, results, experiment, &points);
        failures(&mut out, results, experiment);
    }
    Ok(out)
}

fn file_name(figure: &Figure) -> String {
    format!("{}-{}.svg", figure.experiment.name(), figure.name)
}

/// The measured tools in the order of the plots and tables: our own first, then that of the table
/// of tools.
fn tools(results: &Results) -> Vec<&str> {
    let mut names: Vec<&str> = results.rows.iter().map(|row| row.tool.as_str()).collect();
    let place = |name: &str| (name != "dmv", PEERS.iter().position(|p| p.name == name));
    names.sort_by_key(|name| place(name));
    names.dedup();
    names
}

fn conditions(results: &Results) -> String {
    let header = &results.header;
    let mut dates: Vec<&str> = results.rows.iter().map(|row| row.date.as_str()).collect();
    dates.sort_unstable();
    let (from, to) = (dates.first().copied(), dates.last().copied());
    let (from, to) = (from.unwrap_or_default(), to.unwrap_or_default());
    let when = if from == to {
        from.to_owned()
    } else {
        format!("{from} to {to}")
    };
    let mut out = format!(
        "Machine: {}. Date: {when}.\n{}\n\n",
        header.machine, header.settings
    );
    for name in tools(results) {
        let Some(Tool::Version(version)) = header.tool(name) else {
            continue;
        };
        let peer = peers::peer(name);
        let note = peer
            .map(|peer| format!("; {}", peer.note))
            .unwrap_or_default();
        let _ = writeln!(out, "- {name}: {version}{note}");
    }
    for (name, tool) in &header.tools {
        if let Tool::Missing(why) = tool {
            let _ = writeln!(out, "- {name}: not measured: {why}");
        }
    }
    out
}

fn plot_of(results: &Results, figure: &Figure) -> Plot {
    let points = results.points(figure.experiment);
    let curve = |name: &str| {
        let cell = |point: &Point| results.cell(*point, name, figure.steps, figure.value);
        let value = |point: &Point| Some((point.amount as f64, cell(point).middle()?));
        let failed = |point: &&Point| {
            matches!(
                cell(point),
                Cell::Without(Status::Failed | Status::TimedOut, _)
            )
        };
        Curve {
            name: name.to_owned(),
            points: points
                .iter()
                .filter_map(value)
                .filter(|p| p.1 > 0.0)
                .collect(),
            failures: points
                .iter()
                .filter(failed)
                .map(|p| p.amount as f64)
                .collect(),
        }
    };
    let mut curves: Vec<Curve> = tools(results).into_iter().map(curve).collect();
    curves.retain(|curve| !curve.points.is_empty() || !curve.failures.is_empty());
    let (name, unit) = match figure.experiment {
        Experiment::File => ("length of the file", Unit::Bytes),
        Experiment::Files => ("number of files", Unit::Count),
    };
    Plot {
        title: figure.title.to_owned(),
        x: Axis {
            name: name.to_owned(),
            unit,
        },
        y: Axis {
            name: figure.axis.to_owned(),
            unit: figure.unit,
        },
        curves,
    }
}

fn table(out: &mut String, results: &Results, experiment: Experiment, points: &[Point]) {
    let of = |name: &str| {
        FIGURES
            .iter()
            .find(|f| f.experiment == experiment && f.name == name)
    };
    let times = experiment.steps().iter().filter_map(|step| of(step));
    let times: Vec<&Figure> = times.collect();
    let mut heads: Vec<&str> = match experiment {
        Experiment::File => vec!["file", "tool", "first commit", "after a change", "checkout"],
        Experiment::Files => vec![
            "files",
            "tool",
            "first commit",
            "status",
            "after a change",
            "checkout",
        ],
    };
    heads.extend(["repository", "grown by the change", "peak memory"]);
    let _ = writeln!(
        out,
        "Seconds until durable: median (least–most), and the ratio to {YARDSTICK}. The repository's disk \
         space after both\ncommits, also as a multiple of the content; by how much the second commit made \
         it grow; peak memory of both commits.\n"
    );
    let _ = writeln!(out, "| {} |", heads.join(" | "));
    let _ = writeln!(out, "|---|---|{}", "---:|".repeat(heads.len() - 2));
    let wanted: &[u64] = match experiment {
        Experiment::File => &IN_TABLE_FILE,
        Experiment::Files => &IN_TABLE_FILES,
    };
    let last = points.last().map(|point| point.amount);
    let shown = |point: &&Point| wanted.contains(&point.amount) || Some(point.amount) == last;
    for point in points.iter().filter(shown) {
        for tool in tools(results) {
            let mut cells = vec![point.label(), tool.to_owned()];
            for figure in &times {
                let cell = |tool| results.cell(*point, tool, figure.steps, figure.value);
                cells.push(time_cell(&cell(tool), &cell(YARDSTICK)));
            }
            cells.push(plain_cell(
                &results.cell(*point, tool, &["changed"], |rows| {
                    Some(rows[0].disk_bytes as f64)
                }),
                |bytes| {
                    let ratio = size::three_digits(bytes / point.bytes() as f64);
                    format!("{} ({ratio}×)", size::bytes(bytes))
                },
            ));
            cells.push(plain_cell(
                &results.cell(*point, tool, &["first", "changed"], |rows| {
                    Some(rows[1].disk_bytes as f64 - rows[0].disk_bytes as f64)
                }),
                growth,
            ));
            if let Some(figure) = of("memory") {
                let cell = results.cell(*point, tool, figure.steps, figure.value);
                cells.push(plain_cell(&cell, size::bytes));
            }
            let _ = writeln!(out, "| {} |", cells.join(" | "));
        }
    }
}

/// Bytes that may be fewer than none: a tool can pack what it had before.
fn growth(bytes: f64) -> String {
    let sign = if bytes < 0.0 { "-" } else { "" };
    sign.to_owned() + &size::bytes(bytes.abs())
}

fn time_cell(cell: &Cell, yardstick: &Cell) -> String {
    let Cell::Measured {
        middle,
        least,
        most,
        runs,
    } = cell
    else {
        return without(cell).to_owned();
    };
    let mut text = size::three_digits(*middle);
    if *runs > 1 {
        let [least, most] = [least, most].map(|n| size::three_digits(*n));
        let _ = write!(text, " ({least}–{most})");
    }
    if let Some(unit) = yardstick.middle().filter(|unit| *unit > 0.0) {
        let ratio = middle / unit;
        let ratio = if ratio < 10.0 {
            format!("{ratio:.2}")
        } else {
            size::three_digits(ratio)
        };
        let _ = write!(text, " {ratio}×");
    }
    text
}

/// Why there is no value stands beside it, in the cells of the times.
fn plain_cell(cell: &Cell, show: impl Fn(f64) -> String) -> String {
    cell.middle().map_or("–".to_owned(), show)
}

fn without(cell: &Cell) -> &'static str {
    match cell {
        Cell::Without(Status::Failed, _) => "failed",
        Cell::Without(Status::TimedOut, _) => "time limit",
        Cell::Without(Status::NoRoom, _) => "no room",
        Cell::Without(Status::NotTried, _) => "not tried",
        _ => "–",
    }
}

/// What did not succeed: for each tool and reason the smallest amount.
fn failures(out: &mut String, results: &Results, experiment: Experiment) {
    let mut told = Vec::new();
    let mut lines = String::new();
    for tool in tools(results) {
        for point in results.points(experiment) {
            for row in results.of(point, tool) {
                let kind = (tool, row.status, row.step.clone());
                let quiet = matches!(row.status, Status::Ok | Status::NoCommand);
                let follows = row.status == Status::NotTried && row.step != "first";
                if quiet || follows || told.contains(&kind) {
                    continue;
                }
                told.push(kind);
                let how = match row.status {
                    Status::TimedOut => "was stopped at the time limit",
                    Status::NoRoom => "had no room on the disk",
                    Status::NotTried => "was not tried",
                    _ => "failed",
                };
                let reason: String = row.reason.chars().take(REASON_CHARS).collect();
                let _ = writeln!(
                    lines,
                    "- {tool}, {}: step `{}` {how}: {}",
                    point.label(),
                    row.step,
                    plain(&reason)
                );
            }
        }
    }
    if !lines.is_empty() {
        let _ = write!(out, "\nWhat did not succeed:\n\n{lines}");
    }
}

/// `text` as code, so that nothing in it is taken for Markdown.
fn plain(text: &str) -> String {
    if text.is_empty() {
        return "no reason given".to_owned();
    }
    format!("`{}`", text.replace('`', "'"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Header;

    fn results(dir: &Path) -> Result<Results> {
        let version = |name: &str| (name.to_owned(), Tool::Version(format!("{name} 1.0")));
        let header = Header {
            machine: "2 cores".to_owned(),
            settings: "At most 9 s.".to_owned(),
            tools: vec![
                version("cp"),
                version("hg"),
                version("dmv"),
                ("bup".to_owned(), Tool::Missing("not installed".to_owned())),
            ],
        };
        let mut results = Results::open(&dir.join("results.tsv"), header, |_| false)?;
        for (tool, factor) in [("cp", 1.0), ("hg", 3.0), ("dmv", 2.0)] {
            for point in Experiment::File.points(16) {
                let steps = point.experiment.steps().iter().enumerate();
                let row = |(n, step): (usize, &&str)| Row {
                    date: "2026-11-22".to_owned(),
                    seconds: factor * (n + 1) as f64,
                    peak_bytes: 1 << 20,
                    disk_bytes: (n as u64 + 1) << 12,
                    ..Row::without(point, tool, 0, step, Status::Ok, "")
                };
                let mut rows: Vec<Row> = steps.map(row).collect();
                if tool == "hg" && point.amount == 16 {
                    rows[0].status = Status::Failed;
                    rows[0].reason = "abort: `no`".to_owned();
                    rows[1].status = Status::NotTried;
                    rows[2].status = Status::NotTried;
                }
                results.append(rows)?;
            }
        }
        Ok(results)
    }

    #[test]
    fn tables_show_every_tool_and_what_failed() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let text = text(&results(dir.path())?)?;
        for wanted in [
            "Machine: 2 cores. Date: 2026-11-22.\nAt most 9 s.",
            "- bup: not measured: not installed",
            "### One file, 1 B to 16 B",
            "| 1 B | dmv | 2 2.00× | 4 2.00× | 6 2.00× | 8 KiB (8192×) | 4 KiB | 1 MiB |",
            "| 16 B | hg | failed | not tried | not tried | – | – | – |",
            "- hg, 16 B: step `first` failed: `abort: 'no'`",
            "![First commit of one file](plots/file-first.svg)",
        ] {
            assert!(text.contains(wanted), "{wanted}\n{text}");
        }
        assert!(!text.contains("Many files"), "{text}");
        assert!(text.find("| 1 B | dmv") < text.find("| 1 B | cp"), "{text}");
        Ok(())
    }

    #[test]
    fn a_page_keeps_what_is_written_by_hand() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let page = dir.path().join("page.md");
        fs::write(&page, format!("before\n{BEGIN}\nold\n{END}\nafter\n"))?;
        let results = results(dir.path())?;
        write(&results, &page)?;
        let once = fs::read_to_string(&page)?;
        assert!(once.starts_with("before\n") && once.ends_with("\nafter\n"));
        assert!(once.contains("| 1 B | cp |") && !once.contains("old"));
        write(&results, &page)?;
        assert_eq!(fs::read_to_string(&page)?, once);
        // Every plot that the page links is there, and no other.
        let plots = fs::read_dir(dir.path().join("plots"))?;
        let mut names = Vec::new();
        for plot in plots {
            names.push(plot?.file_name().to_string_lossy().into_owned());
        }
        assert_eq!(names.len(), 4, "{names:?}");
        for name in names {
            assert!(once.contains(&format!("(plots/{name})")), "{name}");
        }
        fs::write(&page, "no part for tables")?;
        assert!(write(&results, &page).is_err());
        Ok(())
    }

    #[test]
    fn a_failure_is_in_the_plot() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let plots = plots(&results(dir.path())?)?;
        let first = plots.iter().find(|(name, _)| name == "file-first.svg");
        let svg = first
            .and_then(|(_, svg)| svg.as_deref())
            .unwrap_or_default();
        assert!(svg.contains("× fails at 16 B"), "{svg}");
        assert!(
            plots
                .iter()
                .any(|(name, svg)| name == "files-first.svg" && svg.is_none())
        );
        Ok(())
    }

    /// The page of this project and its plots are those that its results give.
    #[test]
    fn the_page_of_the_project_is_up_to_date() -> Result<()> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let results = Results::read(&root.join("benches/results/scaling.tsv"))?;
        let page = fs::read_to_string(root.join("docs/benchmarks.md"))?;
        let redraw = "run `benches/report --draw`";
        assert!(replace(&page, &text(&results)?)? == page, "{redraw}");
        for (name, svg) in plots(&results)? {
            let there = fs::read_to_string(root.join("docs").join("plots").join(&name)).ok();
            assert!(there == svg, "{name}: {redraw}");
        }
        Ok(())
    }
}
