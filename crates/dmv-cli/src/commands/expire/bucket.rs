//! `dmv expire --at REMOTE`: the rules of a bucket's own main branch decide, and a device carries them out.

use super::{Args, options, print_by_rule, tell_unused, unclear};
use crate::copies::{PeerAnswers, ask, end};
use crate::cost::{Cost, tell_cost};
use crate::peers::{Call, remote, remotes};
use crate::prelude::*;
use crate::print::bucket_space::{free_failure, tell_fetched};
use crate::print::keep_rules::tell_idle_rules;
use dmv_bucket::ops::{ExpireAtOptions, ExpireAtReport, ExpiryJudge, expire_at};
use dmv_core::repo::{Expirable, ExpiredFile};
use dmv_net::ops::{Peer, Remote};
use std::error::Error;
use std::time::Duration;

/// Files of unfinished pushes stay this long, as with gc.
const GRACE: Duration = Duration::from_secs(14 * 24 * 3600);

/// Runs the command for a remote.
pub fn run(context: &Context, args: &Args, name: &str) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let remote = remote(context, Some(name))?;
    let at = ExpireAtOptions {
        remote: remote.clone(),
        what: options(args)?,
        grace: GRACE,
        dry_run: args.dry_run,
        request: context.request()?,
    };
    let watch = context.watch("looking for old versions");
    let (call, asking) = (Call::new(context), Call::new(context));
    let mut others = remotes(context)?;
    others.retain(|other| other.url != remote.url);
    let mut judge = CopyJudge {
        context,
        repo: &repo,
        peers: Peer::all(others, &repo, &asking, &context.job),
        answers: None,
        last_copy: args.last_copy,
        name: remote.name.clone(),
    };
    let done = expire_at(&repo, &at, &mut judge, &call, &context.job);
    let CopyJudge { peers, answers, .. } = judge;
    end(peers);
    drop((call, watch));
    let done = done.map_err(|e| {
        let failure = free_failure(context, &remote, e);
        match &answers {
            Some(answers) => answers.failure(failure),
            None => failure,
        }
    })?;
    if let Some(failure) = refusal(context, &remote, &done) {
        return Err(failure);
    }
    tell_idle_rules(context, &done.rules, &done.found.idle);
    if !done.rules.lines.is_empty() {
        tell_unused(context, args, &done.found);
    }
    if context.ui.is_json() {
        document(context, args, &done)?;
    }
    context
        .ui
        .text(|out| print(context, out, args, &remote, &done))?;
    Ok(if done.freed.all_deleted || args.dry_run {
        EXIT_OK
    } else {
        EXIT_INCOMPLETE
    })
}

/// Asks for copies of what the bucket is to give up: this repository, and then the other remotes.
struct CopyJudge<'a> {
    context: &'a Context,
    repo: &'a Repo,
    peers: Vec<Peer<'a>>,
    answers: Option<PeerAnswers>,
    /// Whether no copy is needed.
    last_copy: bool,
    /// The remote that gives them up.
    name: String,
}

impl CopyJudge<'_> {
    fn ask(&mut self, found: &Expirable) -> Result<(), Failure> {
        // A file of the worktree may change at any moment, so it is no copy.
        let is_stored = |file: &ExpiredFile| self.repo.stores_blob(file.blob);
        let mut absent = Vec::new();
        for file in &found.files {
            if !is_stored(file)? {
                absent.push((&file.path, file.blob));
            }
        }
        let files = absent.into_iter();
        let mut answers = ask(
            self.context,
            self.repo,
            &mut self.peers,
            1,
            files.clone(),
            &[],
        )?;
        answers.add("this repository does not have it".to_owned());
        let refusal = answers.refusal("given up", files);
        self.answers = Some(answers);
        refusal.map_or(Ok(()), |failure| {
            Err(failure.hint(hint!(
                "dmv expire --at {} --last-copy, to give it up all the same",
                Argument::value(&self.name)
            )))
        })
    }
}

impl ExpiryJudge for CopyJudge<'_> {
    fn approve(&mut self, found: &Expirable) -> Result<(), Box<dyn Error + Send + Sync>> {
        if self.last_copy {
            return Ok(());
        }
        Ok(self.ask(found)?)
    }

    fn still(&mut self) -> bool {
        let Some(answers) = &self.answers else {
            return true;
        };
        answers.still(&mut self.peers)
    }
}

/// Why the rules of a bucket cannot be carried out.
fn refusal(context: &Context, remote: &Remote, done: &ExpireAtReport) -> Option<Failure> {
    if done.branch.is_none() {
        let name = clean(&remote.name);
        let message = format!(
            "the rules of {name} are those of its branch main or master, or of its only branch, and it has none of these"
        );
        return Some(Failure::new("no-rules", EXIT_OTHER, message));
    }
    for problem in &done.rules.problems {
        context.ui.warn(format_args!("{problem}"));
    }
    let hint = hint!(
        "correct these lines, commit, push to {}, and run the same command again",
        Argument::value(&remote.name)
    );
    unclear(&done.rules).map(|failure| failure.hint(hint))
}

fn document(context: &Context, args: &Args, done: &ExpireAtReport) -> Result<(), Failure> {
    for one in &done.found.paths {
        context.ui.json(&object! {
            ..path(&one.path),
            one.{versions, bytes},
            rule: done.rules.lines[one.rule].rule.to_string(),
        })?;
    }
    let sum = Sum::of(done);
    let mut document = object! {
        "type": "summary",
        done.{branch},
        paths: done.found.paths.len() as u64,
        sum.{versions, bytes, freed_bytes},
        left_bytes: done.found.left_bytes,
        packs_removed: done.freed.packs,
        packs_rewritten: done.freed.joined.packs,
        kept_bytes: sum.kept_bytes,
        finished: done.freed.all_deleted || args.dry_run,
        fetched_objects: done.freed.fetched,
    };
    if let Some(cost) = Cost::of(context)? {
        cost.add_to(&mut document);
    }
    context.ui.json_sum(&document.sorted())
}

/// The sums over all paths and packs.
struct Sum {
    versions: u64,
    bytes: u64,
    freed_bytes: u64,
    kept_bytes: u64,
}

impl Sum {
    fn of(done: &ExpireAtReport) -> Sum {
        let (paths, freed) = (&done.found.paths, &done.freed);
        let joined = &freed.joined;
        Sum {
            versions: paths.iter().map(|path| path.versions).sum(),
            bytes: paths.iter().map(|path| path.bytes).sum(),
            freed_bytes: freed.bytes + joined.bytes.saturating_sub(joined.new_bytes),
            kept_bytes: (freed.kept_bytes + joined.new_bytes).saturating_sub(joined.bytes),
        }
    }
}

fn print(
    context: &Context,
    out: &mut impl Write,
    args: &Args,
    remote: &Remote,
    done: &ExpireAtReport,
) -> Result<(), Failure> {
    let name = clean(&remote.name);
    let branch = clean(done.branch.as_deref().unwrap_or_default());
    if done.rules.lines.is_empty() {
        writeln!(
            out,
            "nothing to expire: the newest commit of {branch} at {name} has no keep rules"
        )?;
        context.ui.note(hint!(
            "hint: write '/renders/** keep=last:5' into .dmvattributes, commit it, and push it to {}",
            Argument::value(&remote.name)
        ));
        return Ok(());
    }
    tell_fetched(context, &remote.name, &done.freed);
    let (found, sum) = (&done.found, Sum::of(done));
    if args.dry_run {
        for path in &found.paths {
            let (versions, size) = (path.versions, bytes(path.bytes));
            let (rule, path) = (
                done.rules.lines[path.rule].rule,
                escape(path.path.as_bytes()),
            );
            writeln!(out, "{versions:>8}  {size:>10}  {rule:<9}  {path}")?;
        }
    } else {
        print_by_rule(out, &done.rules, found)?;
    }
    let all = format!(
        "{} of {} ({})",
        count(sum.versions, "version", "versions"),
        count(found.paths.len() as u64, "file", "files"),
        bytes(sum.bytes)
    );
    match (sum.versions, args.dry_run) {
        (0, _) if found.left_bytes > 0 => {
            writeln!(
                out,
                "nothing to expire: every version is larger than --max-free"
            )?;
        }
        (0, _) => writeln!(
            out,
            "nothing to expire: the rules of {branch} keep all versions at {name}"
        )?,
        (_, true) => writeln!(out, "{all} would expire at {name}")?,
        (_, false) => writeln!(out, "{all} expired at {name}")?,
    }
    if found.left_bytes > 0 {
        writeln!(out, "left for another time: {}", bytes(found.left_bytes))?;
    }
    print_space(out, args, &sum, done)?;
    if !done.freed.all_deleted && !args.dry_run {
        let note = "some files could not be deleted; the next 'dmv gc --at' deletes them";
        context.ui.note(note);
    }
    tell_cost(context);
    Ok(())
}

/// Prints how much space is free now, or would be, and why the rest is not.
fn print_space(
    out: &mut impl Write,
    args: &Args,
    sum: &Sum,
    done: &ExpireAtReport,
) -> Result<(), Failure> {
    let freed = &done.freed;
    let did = freed.packs + freed.strays + freed.joined.packs > 0;
    if did {
        let size = bytes(sum.freed_bytes);
        let packs = count(freed.packs, "pack", "packs");
        let rewritten = count(freed.joined.packs, "pack", "packs");
        let (will, would) = if args.dry_run {
            (format!("this frees about {size}"), "would be ")
        } else {
            (format!("freed {size}"), "")
        };
        writeln!(
            out,
            "{will}: {packs} {would}removed, {rewritten} {would}rewritten"
        )?;
        writeln!(out, "kept {}", bytes(sum.kept_bytes))?;
    }
    let rest = sum.bytes.saturating_sub(sum.freed_bytes);
    if rest > sum.bytes / 8 {
        writeln!(
            out,
            "not freed: {}, which is compressed, shared with other files, or in packs that are mostly needed",
            bytes(rest)
        )?;
    }
    Ok(())
}
