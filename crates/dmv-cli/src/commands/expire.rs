//! `dmv expire`

#[cfg(feature = "store")]
mod bucket;

use crate::config::size_option;
use crate::context::now;
use crate::copies::{PeerAnswers, ask, end};
use crate::lock_wait::free;
use crate::peers::{Call, remotes};
use crate::prelude::*;
use crate::print::freed_space::{check_freed, freed_value, print_freed};
use crate::print::keep_rules::{rules, tell_detached, tell_idle_rules};
use crate::subset_options::of;
use dmv_core::object::ObjectType;
use dmv_core::repo::{
    Expirable, ExpireOptions, ExpireReport, FreedSpace, FreeingLock, KeepRules, RuleProblem,
};
use dmv_core::subset::Subset;
use dmv_net::ops::Peer;
use std::collections::BTreeMap;

/// Most lines that a message about unclear rules names.
const NAMED_PLACES: usize = 5;

/// Free the content of old versions that no keep rule keeps
///
/// The rules stand in .dmvattributes files of the commit you are on, and among the local rules ('dmv keep').
/// Commits, file names and sizes stay, and so do the ids. What branches, tags, worktrees, stashes and open
/// conflicts have always stays.
///
/// dmv first asks the remotes. If no remote confirms that it keeps a copy of a version, dmv gives up
/// nothing. 'dmv get' fetches expired content from a remote that kept it; 'dmv undo' does not.
///
/// --at REMOTE gives up versions in a bucket instead. The rules of its own branch main decide, not the local
/// ones. A copy has to be here, or at another remote. This cannot be undone; a push of a commit that needs
/// such a version brings it again.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv expire --dry-run\n  dmv expire\n  dmv expire /renders --max-free 200GB\n  \
                  dmv expire --at studio --dry-run\n\n\
                  Exit code 5: a version may be the last copy, or a rule is unclear; nothing was given up."
)]
pub struct Args {
    /// Only these paths: files or directories from the root, or wildcards; ! excludes
    #[arg(value_name = "PATTERN", add = candidates::pattern())]
    patterns: Vec<OsString>,
    /// Only list what would be given up
    #[arg(long)]
    dry_run: bool,
    /// Give up at most SIZE of versions, the oldest first
    #[arg(long, value_name = "SIZE", value_parser = size_option)]
    max_free: Option<u64>,
    /// Give up versions although this may be the only copy. Asks no remote
    #[arg(long)]
    last_copy: bool,
    /// Give up versions in the bucket of this remote instead, by the rules of its main branch
    #[cfg(feature = "store")]
    #[arg(long, value_name = "REMOTE", add = candidates::remote())]
    at: Option<String>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    #[cfg(feature = "store")]
    if let Some(remote) = &args.at {
        return bucket::run(context, args, remote);
    }
    let repo = context.repo()?;
    let rules = clear_rules(context, &repo)?;
    let options = options(args)?;
    if args.dry_run {
        let watch = context.watch("looking for old versions");
        let found = repo.expirable(&rules, &options, &context.job)?;
        drop(watch);
        tell_idle_rules(context, &rules, &found.idle);
        tell_unused(context, args, &found);
        tell_detached(context, &repo, &rules)?;
        return finish(context, args, &rules, &found, None, Vec::new());
    }
    let freeing = free(context, &repo)?;
    let watch = context.watch("looking for old versions");
    let found = repo.expirable(&rules, &options, &context.job)?;
    drop(watch);
    tell_idle_rules(context, &rules, &found.idle);
    tell_unused(context, args, &found);
    tell_detached(context, &repo, &rules)?;
    let run = ExpireRun {
        context,
        found: &found,
        rules: &rules,
        options: &options,
    };
    let (done, peers) = if args.last_copy {
        let done = run.give_up(&freeing, &found.earlier, &mut || true)?;
        (done, Vec::new())
    } else {
        run.give_up_kept(&repo, &freeing)?
    };
    finish(context, args, &rules, &found, Some(done), peers)
}

/// What the arguments ask for.
fn options(args: &Args) -> Result<ExpireOptions, Failure> {
    Ok(ExpireOptions {
        paths: if args.patterns.is_empty() {
            Subset::everything()
        } else {
            of(&args.patterns)?
        },
        max_bytes: args.max_free,
        now: now().seconds,
    })
}

/// The rules, unless one of them is unclear.
fn clear_rules(context: &Context, repo: &Repo) -> Result<KeepRules, Failure> {
    let rules = rules(context, repo)?;
    let hint = "correct these lines, commit, and run the same command again";
    match unclear(&rules) {
        None => Ok(rules),
        Some(failure) => Err(failure.hint(hint)),
    }
}

/// The failure if a rule is unclear.
fn unclear(rules: &KeepRules) -> Option<Failure> {
    let fatal = rules.problems.iter().filter(|problem| problem.is_fatal);
    let mut places: Vec<String> = fatal.map(RuleProblem::place).collect();
    let n = count(places.len() as u64, "rule is", "rules are");
    places.dedup();
    if places.is_empty() {
        return None;
    }
    let more = places.len().saturating_sub(NAMED_PLACES);
    places.truncate(NAMED_PLACES);
    if more > 0 {
        places.push(count(more as u64, "other line", "other lines"));
    }
    let places = places.join(", ");
    let message = format!("nothing has expired: {n} unclear ({places})");
    Some(Failure::new("unclear-rule", EXIT_REFUSED, message))
}

/// Says which patterns were given in vain.
fn tell_unused(context: &Context, args: &Args, found: &Expirable) {
    // An exclusion names nothing that could be given up.
    let names = |pattern: &&OsString| !pattern.as_encoded_bytes().starts_with(b"!");
    for pattern in args.patterns.iter().filter(names) {
        let Ok(only) = of(std::slice::from_ref(pattern)) else {
            continue;
        };
        let mut names = found.paths.iter().map(|path| path.path.as_bytes());
        if !names.any(|name| only.includes(name, false)) {
            let pattern = clean(&pattern.to_string_lossy());
            context.ui.warn(format_args!(
                "no version of a file that matches '{pattern}' is given up"
            ));
        }
    }
}

/// What is given up, for the library.
struct ExpireRun<'a> {
    context: &'a Context,
    found: &'a Expirable,
    rules: &'a KeepRules,
    options: &'a ExpireOptions,
}

impl ExpireRun<'_> {
    /// Gives up the versions, and what was given up `earlier`, as long as `still` returns true.
    fn give_up(
        &self,
        freeing: &FreeingLock<'_>,
        earlier: &[(ObjectType, ObjectId)],
        still: &mut dyn FnMut() -> bool,
    ) -> Result<ExpireReport, Failure> {
        if self.found.files.is_empty() && earlier.is_empty() {
            return Ok(ExpireReport {
                freed: FreedSpace::default(),
                operation: None,
            });
        }
        let request = self.context.request()?;
        let _watch = self.context.watch("freeing space");
        let rules = (self.rules, self.options);
        let job = &self.context.job;
        Ok(freeing.expire(self.found, earlier, rules, request, still, job)?)
    }

    /// Asks the remotes and gives up what they keep. Returns their names, too.
    fn give_up_kept(
        &self,
        repo: &Repo,
        freeing: &FreeingLock<'_>,
    ) -> Result<(ExpireReport, Vec<String>), Failure> {
        let (context, found) = (self.context, self.found);
        if found.files.is_empty() && found.earlier.is_empty() {
            return Ok((self.give_up(freeing, &[], &mut || true)?, Vec::new()));
        }
        let watch = context.watch("asking remotes");
        let call = Call::new(context);
        let mut peers = Peer::all(remotes(context)?, repo, &call, &context.job);
        let files = found.files.iter().map(|file| (&file.path, file.blob));
        let answers: PeerAnswers =
            ask(context, repo, &mut peers, 1, files.clone(), &found.earlier)?;
        drop(watch);
        if let Some(failure) = answers.refusal("given up", files) {
            end(peers);
            return Err(failure);
        }
        let earlier = answers.kept_of(&found.earlier);
        let done = self.give_up(freeing, &earlier, &mut || answers.still(&mut peers));
        end(peers);
        let done = done.map_err(|e| answers.failure(e))?;
        Ok((done, answers.keepers))
    }
}

fn finish(
    context: &Context,
    args: &Args,
    rules: &KeepRules,
    found: &Expirable,
    done: Option<ExpireReport>,
    peers: Vec<String>,
) -> Result<u8, Failure> {
    let freed = done.map(|done| done.freed).unwrap_or_default();
    let sum = Sum {
        paths: found.paths.len() as u64,
        versions: found.paths.iter().map(|path| path.versions).sum(),
        bytes: found.paths.iter().map(|path| path.bytes).sum(),
        stored_bytes: found.stored_bytes,
        left_bytes: found.left_bytes,
        freed,
        peers,
    };
    if context.ui.is_json() {
        for one in &found.paths {
            context.ui.json(&object! {
                ..path(&one.path),
                one.{versions, bytes},
                rule: rules.lines[one.rule].rule.to_string(),
            })?;
        }
        context.ui.json_sum(&object! {
            "type": "summary",
            sum.{paths, versions, bytes, stored_bytes, left_bytes},
            ..freed_value(&sum.freed),
            sum.{peers},
            why_not_freed: sum.freed.why_not_freed,
        })?;
    }
    context
        .ui
        .text(|out| print(context, out, args, rules, found, &sum))?;
    check_freed(context, &sum.freed)?;
    Ok(EXIT_OK)
}

/// The sum over all lines. Scripts read the records on standard output, so it goes to standard error.
struct Sum {
    paths: u64,
    versions: u64,
    bytes: u64,
    /// What the versions take in packs, or took.
    stored_bytes: u64,
    left_bytes: u64,
    freed: FreedSpace,
    /// The remotes that keep them.
    peers: Vec<String>,
}

fn print(
    context: &Context,
    out: &mut impl Write,
    args: &Args,
    rules: &KeepRules,
    found: &Expirable,
    sum: &Sum,
) -> Result<(), Failure> {
    if args.dry_run {
        for path in &found.paths {
            let (versions, size) = (path.versions, bytes(path.bytes));
            let (rule, name) = (rules.lines[path.rule].rule, escape(path.path.as_bytes()));
            writeln!(out, "{versions:>8}  {size:>10}  {rule:<9}  {name}")?;
        }
    } else {
        print_by_rule(out, rules, found)?;
    }
    match sum.versions {
        0 if rules.lines.is_empty() => {
            writeln!(out, "nothing to expire: there are no keep rules")?;
            context.ui.note("hint: dmv keep set '/renders/**' last:5");
            return Ok(());
        }
        0 => print_nothing(out, sum)?,
        _ => print_all(out, args.dry_run, sum)?,
    }
    if sum.left_bytes > 0 {
        writeln!(out, "left for another time: {}", bytes(sum.left_bytes))?;
    }
    if args.dry_run || sum.versions == 0 && sum.freed.freed_bytes == 0 {
        return Ok(());
    }
    print_space(out, sum)
}

/// Says why nothing expires.
fn print_nothing(out: &mut impl Write, sum: &Sum) -> Result<(), std::io::Error> {
    let why = match sum.left_bytes {
        0 => "the rules keep all versions that are stored",
        _ => "every version is larger than --max-free",
    };
    writeln!(out, "nothing to expire: {why}")
}

/// Prints the versions that expire, all together.
fn print_all(out: &mut impl Write, dry_run: bool, sum: &Sum) -> Result<(), std::io::Error> {
    let all = format!(
        "{} of {} ({})",
        count(sum.versions, "version", "versions"),
        count(sum.paths, "file", "files"),
        bytes(sum.bytes)
    );
    if dry_run {
        let stored = bytes(sum.stored_bytes);
        writeln!(out, "{all} would expire")?;
        return writeln!(
            out,
            "this frees at most {stored}, which the versions take in packs"
        );
    }
    if sum.peers.is_empty() {
        return writeln!(out, "{all} expired; no remote was asked for a copy");
    }
    let keepers = clean(&sum.peers.join(", "));
    writeln!(out, "{all} expired, kept by {keepers}")
}

/// Prints how much space is free now, and why the rest is not.
fn print_space(out: &mut impl Write, sum: &Sum) -> Result<(), Failure> {
    let freed = &sum.freed;
    print_freed(out, freed)?;
    let accounted =
        freed.freed_bytes + freed.waiting_bytes + freed.shared_bytes + freed.linked_bytes;
    let rest = sum.bytes.saturating_sub(accounted);
    // Heads of frames and indexes make a little difference, too.
    if rest > sum.bytes / 8 {
        let rest = bytes(rest);
        writeln!(
            out,
            "not freed: {rest}, which took no space: compressed, or stored as differences"
        )?;
    }
    Ok(())
}

/// Prints how much each rule gives up.
fn print_by_rule(
    out: &mut impl Write,
    rules: &KeepRules,
    found: &Expirable,
) -> Result<(), std::io::Error> {
    let mut by_rule: BTreeMap<usize, (u64, u64, u64)> = BTreeMap::new();
    for path in &found.paths {
        let (files, versions, size) = by_rule.entry(path.rule).or_default();
        *files += 1;
        *versions += path.versions;
        *size += path.bytes;
    }
    let widths = by_rule.keys().map(|number| rules.lines[*number].rule);
    let width = widths.map(|rule| rule.to_string().len()).max().unwrap_or(0);
    for (number, (files, versions, size)) in by_rule {
        let line = &rules.lines[number];
        writeln!(
            out,
            "{:<width$}  {}: {} of {}, {}",
            line.rule.to_string(),
            clean(&line.pattern),
            count(versions, "version", "versions"),
            count(files, "file", "files"),
            bytes(size)
        )?;
    }
    Ok(())
}
