//! The options of every command.

use crate::failure::FailureForm;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Options of every command.
#[derive(Args, Clone, Debug, Default)]
pub struct Globals {
    /// Run as if dmv had been started in DIR
    #[arg(short = 'C', global = true, value_name = "DIR", help_heading = GLOBAL)]
    pub directory: Option<PathBuf>,
    /// Print only results, warnings and errors
    #[arg(short, long, global = true, help_heading = GLOBAL)]
    pub quiet: bool,
    /// Print more details
    #[arg(short, long, global = true, overrides_with = "verbose", help_heading = GLOBAL)]
    pub verbose: bool,
    /// Print results as JSON, and lists as one record per line
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub json: bool,
    /// Use colours: auto (on a terminal, unless NO_COLOR is set), always or never
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "WHEN",
        help_heading = GLOBAL,
        hide_possible_values = true
    )]
    pub color: Option<Color>,
    /// Do not show long output in a pager
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub no_pager: bool,
    /// Do not fetch absent content from remotes
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub offline: bool,
    /// Do not run the hooks of your settings
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub no_hooks: bool,
    /// Answer yes to every question
    #[arg(short, long, global = true, help_heading = GLOBAL)]
    pub yes: bool,
    /// The directory that the program was started in, before `-C` counts.
    #[arg(skip)]
    pub started_in: Option<PathBuf>,
}

impl Globals {
    /// How a failure of the command is reported.
    pub fn failure_form(&self) -> FailureForm {
        match (self.json, self.verbose) {
            (true, _) => FailureForm::Json,
            (false, true) => FailureForm::LongText,
            (false, false) => FailureForm::Text,
        }
    }
}

const GLOBAL: &str = "Options for every command";

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}
