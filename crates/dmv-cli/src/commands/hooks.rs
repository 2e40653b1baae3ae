//! `dmv hooks`

use crate::config::hook::{Event, Hook, Run};
use crate::hooks::{HookEnd, is_in_hook, run_one};
use crate::prelude::*;

/// Show and try the programs that run before and after commands
///
/// Hooks are in your own settings file, and nowhere else: no repository can name a program. Each is for the
/// repositories that it lists by their ids ('dmv id --repository'), or for all. A hook gets JSON on its standard
/// input. 'dmv help guide/hooks' shows how to write one.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv hooks\n  dmv hooks test pre-commit")]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(clap::Subcommand)]
enum Action {
    /// List your hooks, in the order in which they run (the default)
    List,
    /// Run the hooks of an event for this repository, with an example
    Test {
        /// pre-commit, post-commit, pre-push, post-fetch or claim
        #[arg(value_name = "EVENT", value_enum, hide_possible_values = true)]
        event: Event,
    },
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo_as_it_is();
    match args.action.as_ref().unwrap_or(&Action::List) {
        Action::List => list(context, repo.ok().as_deref()),
        Action::Test { event } => {
            let repo = repo?;
            test(context, &repo, *event)
        }
    }
}

fn list(context: &Context, repo: Option<&Repo>) -> Result<u8, Failure> {
    let hooks = context.config()?.hooks()?;
    for hook in &hooks {
        let here = repo.is_some_and(|repo| hook.is_for(repo.id()));
        context.ui.show(
            || {
                let (run, shell) = match &hook.run {
                    Run::Program(program, arguments) => {
                        (Some(texts([program].into_iter().chain(arguments))), None)
                    }
                    Run::Shell(line) => (None, Some(line)),
                };
                let repositories = hook.repositories.as_ref().map(texts);
                object! {
                    event: hook.event.word(), run?: run, shell?: shell, repositories: repositories,
                    timeout: hook.timeout.as_secs(), here: here,
                }
            },
            |out| {
                let (event, run) = (hook.event.word(), clean(&hook.run.text()));
                let here = if here {
                    ""
                } else {
                    "  (not for this repository)"
                };
                Ok(writeln!(out, "{event:<11}  {run}{here}")?)
            },
        )?;
    }
    if hooks.is_empty() && !context.ui.is_json() {
        writeln!(context.ui.out(), "no hooks")?;
        context.ui.note("hint: dmv help guide/hooks");
    }
    Ok(EXIT_OK)
}

fn test(context: &Context, repo: &Repo, event: Event) -> Result<u8, Failure> {
    if is_in_hook() {
        let message = "this runs in a hook, and hooks run no hooks";
        return Err(Failure::new("no-hook", EXIT_OTHER, message));
    }
    let mut hooks = context.config()?.hooks()?;
    hooks.retain(|hook| hook.event == event && hook.is_for(repo.id()));
    if hooks.is_empty() {
        let message = format!("you have no {} hook for this repository", event.word());
        return Err(Failure::new("no-hook", EXIT_OTHER, message).hint("dmv hooks"));
    }
    let mut exit = EXIT_OK;
    for hook in &hooks {
        if !is_fine(context, repo, hook)? {
            exit = EXIT_REFUSED;
        }
    }
    Ok(exit)
}

/// Runs a hook and prints what has become of it.
fn is_fine(context: &Context, repo: &Repo, hook: &Hook) -> Result<bool, Failure> {
    let _watch = context.interruptible();
    let done = run_one(context, repo, hook, example(hook.event))?;
    let why = match &done.end {
        HookEnd::Fine => None,
        HookEnd::Refused(why) | HookEnd::Failed(why) => Some(why),
    };
    context.ui.show(
        || {
            object! {
                event: hook.event.word(), hook: hook.run.text(), ok: why.is_none(), why: why,
                lines: texts(&done.lines),
            }
        },
        |out| {
            let end = why.map_or("ok", String::as_str);
            writeln!(out, "{}: {}", clean(&hook.run.text()), clean(end))?;
            for line in &done.lines {
                writeln!(out, "  {line}")?;
            }
            Ok(())
        },
    )?;
    Ok(why.is_none())
}

/// News of an event, with nothing in it.
fn example(event: Event) -> Json {
    let none = || Json::List(Vec::new());
    let mut facts = object! { test: true };
    facts.extend(match event {
        Event::PreCommit => {
            object! { branch: "main", message: "a test", amend: false, changes: none() }
        }
        Event::PostCommit => object! { branch: "main", commit: "0".repeat(64) },
        Event::PrePush => {
            object! { remote: "origin", address: "/srv/film", refs: none(), delete: none() }
        }
        Event::PostFetch => object! { remote: "origin", refs: none() },
        Event::Claim => object! { paths: none() },
    });
    facts
}
