//! Random commands as processes, against the model of all of them (`dmv_tests::verbs`).
//!
//! `DMV_VERBS=5000 cargo test -p dmv-cli --test program -- model::` runs many: `DMV_VERBS` is the number of
//! commands, `DMV_SEED` the seed of the first story.

// A test prints what it has done.
#![allow(clippy::print_stdout)]

use crate::place::{Outcome, Place};
use dmv_tests::verbs::{Driver, Ending, Side, Verb, run_stories};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// Runs the commands as processes.
struct Program(Place);

impl Driver for Program {
    fn connect(&self, dir: &Path, hub: &Path) -> Outcome {
        let dir = dir.as_os_str();
        let args = [
            OsStr::new("-C"),
            dir,
            "remote".as_ref(),
            "add".as_ref(),
            "origin".as_ref(),
            hub.as_ref(),
        ];
        self.0.ok(&args)?;
        Ok(())
    }

    fn run(&self, dir: &Path, verb: &Verb, offline: bool) -> Outcome<Ending> {
        let mut args: Vec<OsString> = vec!["-C".into(), dir.into()];
        args.extend(offline.then(|| "--offline".into()));
        args.extend(line(verb));
        let output = self.0.run(&args)?;
        let said = String::from_utf8(output.stderr)?;
        let code = output.status.code().unwrap_or(-1);
        // What the parser of the command line refuses is a fault of this file.
        if code == 2 && said.contains("Usage:") {
            return Err(format!("{args:?}: {said}").into());
        }
        Ok(Ending::new(code, said))
    }
}

/// Words, as arguments.
fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

/// Paths from the root of the worktree, as arguments.
fn paths<'p>(paths: impl IntoIterator<Item = &'p Vec<u8>>) -> Vec<OsString> {
    let shown = |path: &Vec<u8>| match path.as_slice() {
        [] => ".".into(),
        path => OsString::from_vec(path.to_vec()),
    };
    [OsString::from("--")]
        .into_iter()
        .chain(paths.into_iter().map(shown))
        .collect()
}

fn with(list: &[&str], flag: bool, option: &str) -> Vec<OsString> {
    let mut list = words(list);
    list.extend(flag.then(|| option.into()));
    list
}

/// Returns the command line of a command.
fn line(verb: &Verb) -> Vec<OsString> {
    match verb {
        Verb::Commit { paths: at, amend } => {
            let mut line = with(&["commit", "-m", "story"], *amend, "--amend");
            line.extend(paths(at));
            line
        }
        Verb::Checkout { branch, force } => with(&["checkout", branch], *force, "--force"),
        Verb::Detach { commit, force } => {
            with(&["checkout", &commit.to_string()], *force, "--force")
        }
        Verb::SwitchNew { branch, at } => words(&["checkout", "-b", branch, &at.to_string()]),
        Verb::Branch { name, at } => words(&["branch", name, &at.to_string()]),
        Verb::DeleteBranch { name } => words(&["branch", "-d", name]),
        Verb::RenameBranch { from, to } => words(&["branch", "-m", from, to]),
        Verb::Tag { name, at } => words(&["tag", name, &at.to_string()]),
        Verb::DeleteTag { name } => words(&["tag", "-d", name]),
        Verb::Merge { commit, forward } => {
            with(&["merge", &commit.to_string()], !forward, "--no-ff")
        }
        Verb::Revert { commit } => words(&["revert", &commit.to_string()]),
        Verb::CherryPick { commit } => words(&["cherry-pick", &commit.to_string()]),
        Verb::Rebase { onto } => words(&["rebase", &onto.to_string()]),
        Verb::Reset { to, hard } => with(&["reset", &to.to_string()], *hard, "--hard"),
        Verb::Stash { paths: at } => [words(&["stash", "push"]), paths(at)].concat(),
        Verb::Unstash { number, pop } => words(&[
            "stash",
            if *pop { "pop" } else { "apply" },
            &number.to_string(),
        ]),
        Verb::DropStash { number } => words(&["stash", "drop", &number.to_string()]),
        Verb::Restore { from, paths: at } => {
            let mut line = words(&["restore"]);
            line.extend(
                from.iter()
                    .flat_map(|id| words(&["--from", &id.to_string()])),
            );
            line.extend(paths(at));
            line
        }
        Verb::Move { from, to, force } => {
            [with(&["mv"], *force, "--force"), paths([from, to])].concat()
        }
        Verb::Remove { path, force } => {
            [with(&["rm", "-r"], *force, "--force"), paths([path])].concat()
        }
        Verb::Untrack { path } => [words(&["rm", "-r", "--cached"]), paths([path])].concat(),
        Verb::SetSubset { paths: at } if at.is_empty() => words(&["subset", "clear"]),
        Verb::SetSubset { paths: at } => {
            let rules = b".dmvignore".to_vec();
            [words(&["subset", "set"]), paths(at.iter().chain([&rules]))].concat()
        }
        Verb::AddSubset { path } => [words(&["subset", "add"]), paths([path])].concat(),
        Verb::RemoveSubset { path } => [words(&["subset", "remove"]), paths([path])].concat(),
        Verb::Resolve { path, side } => {
            let side = match side {
                Side::Ours => "--ours",
                Side::Theirs => "--theirs",
                Side::Base => "--base",
                Side::Both => "--both",
            };
            [words(&["resolve", side]), paths([path])].concat()
        }
        Verb::BisectStart { bad, good } => {
            words(&["bisect", "start", &bad.to_string(), &good.to_string()])
        }
        Verb::BisectNote { good } => words(&["bisect", if *good { "good" } else { "bad" }]),
        Verb::BisectSkip => words(&["bisect", "skip"]),
        Verb::BisectEnd => words(&["bisect", "end"]),
        Verb::AddWorktree { dir, at } => {
            let at = at.as_ref().map_or_else(ToString::to_string, Clone::clone);
            vec!["worktree".into(), "add".into(), dir.into(), at.into()]
        }
        Verb::RemoveWorktree { dir, force } => {
            let mut line = with(&["worktree", "remove"], *force, "--force");
            line.push(dir.into());
            line
        }
        Verb::Fetch => words(&["fetch"]),
        Verb::Pull => words(&["pull"]),
        Verb::PullReset => words(&["pull", "--reset"]),
        Verb::Push { branch, force } => with(&["push", "origin", branch], *force, "--force"),
        Verb::Sync => words(&["sync"]),
        Verb::Undo => words(&["undo"]),
        Verb::Redo => words(&["redo"]),
        Verb::Gc => words(&["gc", "--grace", "0"]),
        Verb::Repack => words(&["repack"]),
        Verb::ExpireOperations => words(&["op", "expire", "--older", "0h"]),
        Verb::Verify => words(&["verify", "--full"]),
        Verb::Recover => words(&["recover"]),
        Verb::Drop { path } => [words(&["drop"]), paths([path])].concat(),
        Verb::Get { path } => [words(&["get"]), paths([path])].concat(),
        Verb::Lean { on } => words(&["lean", if *on { "on" } else { "off" }]),
        Verb::Keep { path, last } => {
            let pattern = [b"/", &path[..]].concat();
            let mut line = words(&["keep", "set"]);
            line.push(OsStr::from_bytes(&pattern).to_owned());
            line.push(format!("last:{last}").into());
            line
        }
        Verb::Expire => words(&["expire"]),
        Verb::Purge { path } => [
            words(&["purge", "-y", "--reason", "a story"]),
            paths([path]),
        ]
        .concat(),
    }
}

#[test]
fn every_command_line_does_what_the_model_says() -> Outcome {
    let driver = |_: &Path| -> Outcome<Box<dyn Driver>> { Ok(Box::new(Program(Place::new()?))) };
    let counts = run_stories((6, 150), "DMV_VERBS", &driver)?;
    println!("harness verbs-program: {counts}");
    Ok(())
}
