//! `report`: measures the experiments about growth and writes the page of benchmarks.
//!
//! `benches/report` builds it and runs it; `benches/README.md` says how.

// What it measures is told on stderr; it has no terminal interface to go through.
#![allow(clippy::print_stderr)]

#[cfg(target_os = "linux")]
#[path = "report/run.rs"]
mod run;

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<std::process::ExitCode> {
    run::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("error: the comparison measures through /proc, which only Linux has");
    std::process::exit(20);
}
