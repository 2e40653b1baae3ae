//! The command line of `compare`: makes the data sets, runs the sessions, prints the tables.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use clap::Parser;
use dmv_benches::corpus::{self, Content, SEED, TreeShape};
use dmv_benches::files;
use dmv_benches::measure::Conditions;
use dmv_benches::peers::{self, Installation, PEERS, Peer};
use dmv_benches::runner;
use dmv_benches::session::{Bench, DataSet, Event, Kind, Op};
use dmv_benches::size;
use dmv_benches::tables::{self, Record};
use dmv_benches::trash::Trash;

/// Times DMV and other tools on the same data.
///
/// Several data sets may be named; each gets its tables. Example:
/// compare --file 1M,1G --tree 100x1000x1K --tools cp,git,borg,dmv --json results.jsonl
#[derive(Parser)]
struct Cli {
    /// One random file of each size.
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',')]
    file: Vec<Size>,
    /// One file of text-like words of each size.
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',')]
    text: Vec<Size>,
    /// One file of zeros of each size.
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',')]
    zeros: Vec<Size>,
    /// Directories x files in each x size of each file.
    #[arg(long, value_name = "DIRSxFILESxSIZE,…", value_delimiter = ',')]
    tree: Vec<Tree>,
    /// A directory; it is copied first.
    #[arg(long, value_name = "PATH")]
    dir: Vec<PathBuf>,
    /// Versions of a directory, committed in turn.
    #[arg(long, value_name = "DIR1,DIR2,…", value_delimiter = ',')]
    versions: Vec<PathBuf>,
    /// Create files and commit, check out, delete and commit.
    #[arg(long, value_name = "FILESxSIZE,…", value_delimiter = ',')]
    micro: Vec<Micro>,
    /// Branches of a tree: switch between two that differ in 10 files, merge two of 1,000 each.
    #[arg(long, value_name = "DIRSxFILESxSIZE,…", value_delimiter = ',')]
    branches: Vec<Tree>,
    /// The tools to run, in this order; all by default.
    #[arg(long, value_name = "TOOL,…", value_delimiter = ',')]
    tools: Vec<String>,
    /// What to measure, in this order; all by default. The first commit always is.
    #[arg(long, value_enum, value_name = "OP,…", value_delimiter = ',')]
    ops: Vec<Op>,
    /// Times each tool runs through each data set.
    #[arg(long, default_value_t = 3)]
    reps: u32,
    /// Append a JSON record per measurement to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where to put scratch data; its file system is what is measured. Default: here.
    #[arg(long, value_name = "DIR")]
    base: Option<PathBuf>,
    /// Seconds after which a step is given up.
    #[arg(long, default_value_t = 600.0, value_name = "SECONDS")]
    limit: f64,
    /// GiB of memory to touch and free before each step.
    #[arg(long, default_value_t = 2.0, value_name = "GIB")]
    prime_gib: f64,
    /// GiB to leave free on disk: below it, finished trees are deleted during the run.
    #[arg(long, default_value_t = 16, value_name = "GIB")]
    keep_free_gib: u64,
    /// The dmv program. Default: beside this program, else in PATH.
    #[arg(long, value_name = "PROGRAM")]
    dmv: Option<PathBuf>,
}

/// Runs the program; exit code 1: a session broke off, or a checkout was not what
/// had been committed.
pub fn main() -> Result<ExitCode> {
    if std::env::args().nth(1).as_deref() == Some(runner::FLAG) {
        runner::serve()?;
        return Ok(ExitCode::SUCCESS);
    }
    let cli = Cli::parse();
    let plans = plans(&cli);
    if plans.is_empty() {
        bail!(
            "no data set: give --file, --text, --zeros, --tree, --dir, --versions, --micro or --branches"
        );
    }
    let dmv = match &cli.dmv {
        Some(path) => path
            .canonicalize()
            .with_context(|| path.display().to_string())?,
        None => peers::default_dmv(),
    };
    let tools = find_tools(&cli.tools, &dmv)?;

    let parent = cli.base.clone().unwrap_or_else(|| PathBuf::from("."));
    let base = parent.join(format!("compare-scratch-{}", std::process::id()));
    fs::create_dir_all(&base).with_context(|| format!("create {}", base.display()))?;
    let base = base.canonicalize()?;
    eprintln!("scratch: {}", base.display());
    let result = run(&cli, plans, &tools, dmv, &base);
    eprintln!("cleaning up");
    fs::remove_dir_all(&base).with_context(|| format!("remove {}", base.display()))?;
    let troubles = result?;
    if troubles.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("error: {}", troubles.join("; "));
    Ok(ExitCode::FAILURE)
}

/// Takes every tool through every data set; returns what went wrong, if anything.
fn run(
    cli: &Cli,
    plans: Vec<Plan>,
    tools: &[(&'static Peer, String)],
    dmv: PathBuf,
    base: &Path,
) -> Result<Vec<String>> {
    let mut json = cli.json.as_deref().map(open_to_append).transpose()?;
    let mut records: Vec<Record> = Vec::new();
    let mut emit = |event: Event| -> Result<()> {
        let record = match event {
            Event::Note(text) => {
                eprintln!("{text}");
                return Ok(());
            }
            Event::Skipped { op, why } => {
                eprintln!("skipped: {op}: {why}");
                return Ok(());
            }
            Event::Measured(record) => *record,
        };
        let Record { tool, op, rep, .. } = &record;
        match &record.error {
            None => eprintln!("{tool:>13}  {op:<14} #{rep}  {:.3} s", record.durable_s),
            Some(error) => eprintln!("FAILED: {tool} {op} #{rep}: {error}"),
        }
        if let Some(file) = &mut json {
            let mut line = serde_json::to_vec(&record)?;
            line.push(b'\n');
            file.write_all(&line).context("write the JSON file")?;
        }
        records.push(record);
        Ok(())
    };
    let mut bench = Bench {
        conditions: Conditions {
            base: base.to_owned(),
            prime_bytes: (cli.prime_gib * f64::from(1 << 30)) as usize,
            warm: true,
        },
        trash: Trash::new(base.join("trash"), cli.keep_free_gib << 30)?,
        dmv,
        limit_s: cli.limit,
        ops: if cli.ops.is_empty() {
            all_ops()
        } else {
            cli.ops.clone()
        },
        emit: &mut emit,
        wrong_checkouts: Vec::new(),
    };
    let mut names = Vec::new();
    let mut troubles = Vec::new();
    for (number, plan) in plans.into_iter().enumerate() {
        let master = base.join(format!("input-{number}"));
        let set = plan.prepare(&master)?;
        eprintln!("\n{}", set.name);
        for rep in 0..cli.reps {
            for (peer, version) in tools {
                if peer
                    .largest_file
                    .is_some_and(|most| set.largest_file > most)
                {
                    eprintln!("skipped: {} holds a file of that size in memory", peer.name);
                    continue;
                }
                // One tool's trouble must not cost the measurements of the others.
                if let Err(error) = bench.session(peer, version, &set, rep, rep == 0) {
                    let trouble = format!("{} on {}: {error:#}", peer.name, set.name);
                    eprintln!("FAILED: {trouble}");
                    troubles.push(trouble);
                }
            }
        }
        bench.trash.discard(&master)?;
        names.push(set.name);
    }
    troubles.extend(bench.wrong_checkouts);
    print_notes(tools);
    for name in names {
        println!("{}", tables::tables(&records, &name));
    }
    Ok(troubles)
}

fn all_ops() -> Vec<Op> {
    use clap::ValueEnum;
    Op::value_variants().to_vec()
}

fn open_to_append(path: &Path) -> Result<File> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.with_context(|| format!("open {}", path.display()))
}

/// The tools asked for that can run here, with their versions; says aloud what is skipped.
fn find_tools(names: &[String], dmv: &Path) -> Result<Vec<(&'static Peer, String)>> {
    let mut wanted: Vec<&'static Peer> = Vec::new();
    for name in names {
        let known = || PEERS.iter().map(|p| p.name).collect::<Vec<_>>().join(", ");
        wanted.push(peers::peer(name).with_context(|| format!("no tool {name}: {}", known()))?);
    }
    if names.is_empty() {
        wanted = PEERS.iter().collect();
    }
    let mut found = Vec::new();
    for peer in wanted {
        match peers::find(peer, dmv) {
            Installation::Version(version) => found.push((peer, version)),
            Installation::Missing(why) => eprintln!("skipped: {}: {why}", peer.name),
        }
    }
    if found.is_empty() {
        bail!("none of the tools is installed");
    }
    Ok(found)
}

fn print_notes(tools: &[(&'static Peer, String)]) {
    for (peer, version) in tools {
        let own = if peer.durable_commits {
            "; its commits flush by themselves"
        } else {
            ""
        };
        println!("- {}: {version}; {}{own}", peer.name, peer.note);
    }
    println!();
}

/// A data set yet to be made.
enum Plan {
    File(Content, Size),
    Tree(Tree),
    Dir(PathBuf),
    Versions(Vec<PathBuf>),
    Micro(Micro),
    Branches(Tree),
}

fn plans(cli: &Cli) -> Vec<Plan> {
    let file = |content| move |size: &Size| Plan::File(content, size.clone());
    let mut plans: Vec<Plan> = cli.file.iter().map(file(Content::Random)).collect();
    plans.extend(cli.text.iter().map(file(Content::Text)));
    plans.extend(cli.zeros.iter().map(file(Content::Zeros)));
    plans.extend(cli.tree.iter().cloned().map(Plan::Tree));
    plans.extend(cli.dir.iter().cloned().map(Plan::Dir));
    if !cli.versions.is_empty() {
        plans.push(Plan::Versions(cli.versions.clone()));
    }
    plans.extend(cli.micro.iter().cloned().map(Plan::Micro));
    plans.extend(cli.branches.iter().cloned().map(Plan::Branches));
    plans
}

impl Plan {
    /// Makes the data set at `master`.
    fn prepare(self, master: &Path) -> Result<DataSet> {
        match self {
            Plan::File(content, size) => {
                fs::create_dir(master)?;
                corpus::write_file(&master.join("file.bin"), content, size.bytes, SEED)?;
                let what = match content {
                    Content::Random => "file",
                    Content::Text => "text",
                    Content::Zeros => "zeros",
                };
                Ok(DataSet {
                    name: format!("{what} {}", size.text),
                    kind: Kind::Edited {
                        master: master.to_owned(),
                        target: "file.bin".into(),
                        other: None,
                    },
                    largest_file: size.bytes,
                })
            }
            Plan::Tree(Tree { text, shape }) => {
                corpus::write_tree(master, shape, Content::Random, SEED)?;
                let middle = |files| corpus::tree_path(shape.dirs / 2, files).into();
                Ok(DataSet {
                    name: format!("tree {text}"),
                    kind: Kind::Edited {
                        master: master.to_owned(),
                        target: middle(shape.files / 2),
                        other: Some(middle(0)),
                    },
                    largest_file: shape.bytes,
                })
            }
            Plan::Branches(Tree { text, shape }) => {
                corpus::write_tree(master, shape, Content::Text, SEED)?;
                Ok(DataSet {
                    name: format!("branches {text}"),
                    kind: Kind::Branches {
                        master: master.to_owned(),
                    },
                    largest_file: shape.bytes,
                })
            }
            Plan::Dir(path) => {
                let copied = files::copy_tree(&path, master)?;
                eprintln!(
                    "{}: {} files, {} MiB, {} entries left out",
                    path.display(),
                    copied.files,
                    copied.bytes >> 20,
                    copied.left_out
                );
                let target = files::largest_file(master)?;
                Ok(DataSet {
                    name: format!("dir {}", base_name(&path)),
                    largest_file: fs::metadata(master.join(&target))?.len(),
                    kind: Kind::Edited {
                        master: master.to_owned(),
                        other: files::middle_file(master, &target)?,
                        target,
                    },
                })
            }
            Plan::Versions(paths) => {
                let largest = |path: &PathBuf| -> Result<u64> {
                    Ok(fs::metadata(path.join(files::largest_file(path)?))?.len())
                };
                let sizes: Vec<u64> = paths.iter().map(largest).collect::<Result<_>>()?;
                let names: Vec<String> = paths.iter().map(|p| base_name(p)).collect();
                Ok(DataSet {
                    name: format!("versions {}", names.join(", ")),
                    largest_file: sizes.into_iter().max().unwrap_or(0),
                    kind: Kind::Versions(paths),
                })
            }
            Plan::Micro(Micro { text, files, bytes }) => {
                let shape = TreeShape {
                    dirs: 1,
                    files,
                    bytes,
                };
                corpus::write_tree(master, shape, Content::Random, SEED)?;
                Ok(DataSet {
                    name: format!("micro {text}"),
                    largest_file: bytes,
                    kind: Kind::Micro {
                        master: master.to_owned(),
                    },
                })
            }
        }
    }
}

/// The last part of a path: tables are published, full paths are not.
fn base_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

/// A size such as `64K` or `1G`, in powers of 1024.
#[derive(Clone)]
struct Size {
    text: String,
    bytes: u64,
}

impl FromStr for Size {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Size> {
        Ok(Size {
            text: text.to_owned(),
            bytes: size::parse_bytes(text)?,
        })
    }
}

/// Directories x files x size.
#[derive(Clone)]
struct Tree {
    text: String,
    shape: TreeShape,
}

impl FromStr for Tree {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Tree> {
        let [dirs, files, bytes] = text.split('x').collect::<Vec<_>>()[..] else {
            bail!("expected DIRSxFILESxSIZE");
        };
        let shape = TreeShape {
            dirs: positive(dirs)?,
            files: positive(files)?,
            bytes: bytes.parse::<Size>()?.bytes,
        };
        Ok(Tree {
            text: text.to_owned(),
            shape,
        })
    }
}

/// Files x size.
#[derive(Clone)]
struct Micro {
    text: String,
    files: u32,
    bytes: u64,
}

impl FromStr for Micro {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Micro> {
        let (files, bytes) = text.split_once('x').context("expected FILESxSIZE")?;
        Ok(Micro {
            text: text.to_owned(),
            files: positive(files)?,
            bytes: bytes.parse::<Size>()?.bytes,
        })
    }
}

fn positive(digits: &str) -> Result<u32> {
    match digits.parse().context("expected a number")? {
        0 => bail!("expected at least 1"),
        n => Ok(n),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn shapes_are_checked() -> Result<()> {
        let shape = "100x1000x1K".parse::<Tree>()?.shape;
        assert_eq!((shape.dirs, shape.files, shape.bytes), (100, 1000, 1024));
        assert!("1x2".parse::<Tree>().is_err() && "0x1x1K".parse::<Tree>().is_err());
        assert_eq!("5x1K".parse::<Micro>()?.files, 5);
        Ok(())
    }
}
