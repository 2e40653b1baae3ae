//! `dmv budget`

use crate::budget::{used_bytes, ways};
use crate::config::size_option;
use crate::context::Context;
use crate::failure::{EXIT_OK, Failure};
use crate::format::text::bytes;
use dmv_core::escape::Hint;
use serde::Serialize;
use std::io::Write;

/// Limit the size of the repository on this disk
///
/// Without SIZE, prints the limit and the present size. A command that would store more than there is room
/// for is refused: 'commit', 'stash', 'merge', 'fetch', 'get', a push from elsewhere and others. It leaves
/// nothing behind, and names the commands that free most. Nothing is ever freed by itself.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv budget 500GB\n  dmv budget\n  dmv budget none\n\n\
                  Commands that would exceed the limit exit with code 5."
)]
pub struct Args {
    /// The most bytes, such as 500GB or 1.5TiB; none removes the limit
    #[arg(value_name = "SIZE|none", value_parser = limit)]
    size: Option<Limit>,
}

/// A limit, or that there is none.
#[derive(Clone, Copy)]
struct Limit(Option<u64>);

fn limit(text: &str) -> Result<Limit, String> {
    match text {
        "none" => Ok(Limit(None)),
        text => size_option(text).map(|size| Limit(Some(size))),
    }
}

#[derive(Serialize)]
struct Document {
    limit_bytes: Option<u64>,
    used_bytes: u64,
    over: bool,
    /// If it is over the limit: the commands that free most.
    ways: Vec<Way>,
}

#[derive(Serialize)]
struct Way {
    bytes: u64,
    command: String,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    if let Some(Limit(size)) = args.size {
        repo.set_budget(size, context.request()?)?;
    }
    let (limit, used) = (repo.budget()?, used_bytes(&repo)?);
    let over = limit.is_some_and(|limit| used >= limit);
    let ways = if over {
        ways(context, &repo)
    } else {
        Vec::new()
    };
    if context.globals.json {
        let way = |(bytes, command): (u64, Hint)| Way {
            bytes,
            command: command.to_string(),
        };
        context.ui.json(&Document {
            limit_bytes: limit,
            used_bytes: used,
            over,
            ways: ways.into_iter().map(way).collect(),
        })?;
        return Ok(EXIT_OK);
    }
    if context.ui.quiet() {
        return Ok(EXIT_OK);
    }
    let mut out = context.ui.out();
    match limit {
        None => writeln!(out, "no limit; the repository takes {}", bytes(used))?,
        Some(limit) => {
            let part = part(used, limit);
            let (used, limit) = (bytes(used), bytes(limit));
            writeln!(out, "{used} of {limit} used ({part})")?;
        }
    }
    if over {
        if ways.is_empty() {
            let text = "the limit is reached, and no command of dmv frees space: dmv budget SIZE";
            writeln!(out, "{text}")?;
            return Ok(EXIT_OK);
        }
        writeln!(out, "the limit is reached; these commands free most:")?;
        for (freed, command) in ways {
            writeln!(out, "  {:>10}  {command}", bytes(freed))?;
        }
    }
    Ok(EXIT_OK)
}

/// How much of the limit is used, in percent or as a multiple.
fn part(used: u64, limit: u64) -> String {
    let percent = u128::from(used) * 100 / u128::from(limit.max(1));
    match percent {
        0..1000 => format!("{percent} %"),
        _ => format!("{} times the limit", percent / 100),
    }
}
