//! `compare`: times DMV and other tools on the same data, and prints Markdown tables.
//!
//! How to run each experiment, and what the numbers mean: `benches/README.md`.

// The tables are this program's product, and it has no terminal interface to go through.
#![allow(clippy::print_stdout, clippy::print_stderr)]

#[cfg(target_os = "linux")]
mod compare;

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<std::process::ExitCode> {
    compare::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("error: the comparison measures through /proc, which only Linux has");
    std::process::exit(20);
}
