//! `dmv expire`

use crate::candidates;
use crate::commands::gc::no_room;
use crate::commands::keep::{rules, tell_detached, tell_idle};
use crate::config::size_option;
use crate::context::{Context, now};
use crate::copies::{PeerAnswers, ask, end};
use crate::failure::{EXIT_OK, EXIT_REFUSED, Failure};
use crate::format::json::PathValue;
use crate::format::text::{bytes, clean, count};
use crate::limit::of;
use crate::patience::free;
use crate::peers::{Call, remotes};
use dmv_core::object::name::escape;
use dmv_core::repo::{
    Expirable, ExpireOptions, ExpireReport, FreedSpace, FreeingLock, KeepRules, Repo, RuleProblem,
};
use dmv_core::subset::Subset;
use dmv_net::ops::Peer;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;

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
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv expire --dry-run\n  dmv expire\n  dmv expire /renders --max-free 200GB\n\n\
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
}

#[derive(Serialize)]
struct Record {
    #[serde(flatten)]
    path: PathValue,
    versions: u64,
    bytes: u64,
    rule: String,
}

/// The sum over all lines. Scripts read the records on standard output, so this goes to standard error.
#[derive(Serialize)]
struct Sum {
    #[serde(rename = "type")]
    ty: &'static str,
    paths: u64,
    versions: u64,
    bytes: u64,
    /// What the versions take in packs, or took.
    stored_bytes: u64,
    left_bytes: u64,
    freed_bytes: u64,
    waiting_bytes: u64,
    shared_bytes: u64,
    /// In files that another repository on this file system also has.
    linked_bytes: u64,
    peers: Vec<String>,
    why_not_freed: Option<String>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let rules = clear_rules(context, &repo)?;
    let options = ExpireOptions {
        paths: if args.patterns.is_empty() {
            Subset::everything()
        } else {
            of(&args.patterns)?
        },
        max_bytes: args.max_free,
        now: now().seconds,
    };
    if args.dry_run {
        let watch = context.watch("looking for old versions");
        let found = repo.expirable(&rules, &options, &context.job)?;
        drop(watch);
        tell_unused(context, args, &rules, &found);
        tell_detached(context, &repo, &rules)?;
        return finish(context, args, &rules, &found, None, Vec::new());
    }
    let freeing = free(context, &repo)?;
    let watch = context.watch("looking for old versions");
    let found = repo.expirable(&rules, &options, &context.job)?;
    drop(watch);
    tell_unused(context, args, &rules, &found);
    tell_detached(context, &repo, &rules)?;
    let (done, peers) = if args.last_copy {
        let given = ExpireRun {
            context,
            found: &found,
            rules: (&rules, &options),
        };
        (
            given.up(&freeing, &found.earlier, &mut || true)?,
            Vec::new(),
        )
    } else {
        give_up(context, &repo, &freeing, &found, (&rules, &options))?
    };
    finish(context, args, &rules, &found, Some(done), peers)
}

/// The rules, unless one of them is unclear.
fn clear_rules(context: &Context, repo: &Repo) -> Result<KeepRules, Failure> {
    let rules = rules(context, repo)?;
    let unclear = rules.problems.iter().filter(|problem| problem.is_fatal);
    match unclear.count() as u64 {
        0 => Ok(rules),
        n => {
            let fatal = rules.problems.iter().filter(|problem| problem.is_fatal);
            let mut places: Vec<String> = fatal.map(RuleProblem::place).collect();
            places.dedup();
            let n = count(n, "rule is", "rules are");
            let more = places.len().saturating_sub(NAMED_PLACES);
            places.truncate(NAMED_PLACES);
            if more > 0 {
                places.push(count(more as u64, "other line", "other lines"));
            }
            let places = places.join(", ");
            let message = format!("nothing has expired: {n} unclear ({places})");
            let hint = "correct these lines, commit, and run the same command again";
            Err(Failure::new("unclear-rule", EXIT_REFUSED, message).hint(hint))
        }
    }
}

/// Says which rules and patterns were given in vain.
fn tell_unused(context: &Context, args: &Args, rules: &KeepRules, found: &Expirable) {
    tell_idle(context, rules, &found.idle);
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
    rules: (&'a KeepRules, &'a ExpireOptions),
}

impl ExpireRun<'_> {
    fn up(
        &self,
        freeing: &FreeingLock<'_>,
        earlier: &[(dmv_core::object::ObjectType, dmv_core::hash::ObjectId)],
        still: &mut dyn FnMut() -> bool,
    ) -> Result<ExpireReport, Failure> {
        if self.found.files.is_empty() && earlier.is_empty() {
            return Ok(ExpireReport {
                freed: FreedSpace::default(),
                operation: None,
            });
        }
        let request = self.context.request()?;
        let watch = self.context.watch("freeing space");
        let job = &self.context.job;
        let done = freeing.expire(self.found, earlier, self.rules, request, still, job)?;
        drop(watch);
        Ok(done)
    }
}

/// Asks the remotes and gives up what they keep. Returns their names, too.
fn give_up(
    context: &Context,
    repo: &Repo,
    freeing: &FreeingLock<'_>,
    found: &Expirable,
    rules: (&KeepRules, &ExpireOptions),
) -> Result<(ExpireReport, Vec<String>), Failure> {
    let given = ExpireRun {
        context,
        found,
        rules,
    };
    if found.files.is_empty() && found.earlier.is_empty() {
        return Ok((given.up(freeing, &[], &mut || true)?, Vec::new()));
    }
    let watch = context.watch("asking remotes");
    let call = Call::new(context);
    let mut peers = Peer::all(remotes(context)?, repo, &call, &context.job);
    let files = found.files.iter().map(|file| (&file.path, file.blob));
    let answers: PeerAnswers = ask(context, repo, &mut peers, files.clone(), &found.earlier)?;
    drop(watch);
    if let Some(failure) = answers.refusal("given up", files) {
        end(peers);
        return Err(failure);
    }
    let earlier = answers.kept_of(&found.earlier);
    let done = given.up(freeing, &earlier, &mut || answers.still(&mut peers));
    end(peers);
    let done = done.map_err(|e| answers.failure(e))?;
    Ok((done, answers.keepers))
}

fn finish(
    context: &Context,
    args: &Args,
    rules: &KeepRules,
    found: &Expirable,
    done: Option<ExpireReport>,
    peers: Vec<String>,
) -> Result<u8, Failure> {
    let freed = done.map(|done| done.freed);
    let has_no_room = freed.as_ref().is_some_and(|freed| freed.no_room);
    let sum = sum(found, freed.as_ref(), peers);
    if context.globals.json {
        for path in &found.paths {
            context.ui.json(&Record {
                path: PathValue::new(path.path.as_bytes()),
                versions: path.versions,
                bytes: path.bytes,
                rule: rules.lines[path.rule].rule.to_string(),
            })?;
        }
        context.ui.json_sum(&sum)?;
    } else if !context.ui.quiet() {
        print(context, args, rules, found, &sum)?;
    }
    match &sum.why_not_freed {
        Some(why) if has_no_room => return Err(no_room("some packs could not be freed", why)),
        Some(why) => {
            let text = format_args!("some packs could not be freed: {}", clean(why));
            context.ui.warn(text);
        }
        None => {}
    }
    Ok(EXIT_OK)
}

fn sum(found: &Expirable, freed: Option<&FreedSpace>, peers: Vec<String>) -> Sum {
    let none = FreedSpace::default();
    let freed = freed.unwrap_or(&none);
    Sum {
        ty: "summary",
        stored_bytes: found.stored_bytes,
        paths: found.paths.len() as u64,
        versions: found.paths.iter().map(|path| path.versions).sum(),
        bytes: found.paths.iter().map(|path| path.bytes).sum(),
        left_bytes: found.left_bytes,
        freed_bytes: freed.freed_bytes,
        waiting_bytes: freed.waiting_bytes,
        shared_bytes: freed.shared_bytes,
        linked_bytes: freed.linked_bytes,
        peers,
        why_not_freed: freed.why_not_freed.clone(),
    }
}

fn print(
    context: &Context,
    args: &Args,
    rules: &KeepRules,
    found: &Expirable,
    sum: &Sum,
) -> Result<(), Failure> {
    let mut out = context.ui.out();
    if args.dry_run {
        for path in &found.paths {
            let (versions, size) = (path.versions, bytes(path.bytes));
            let (rule, name) = (rules.lines[path.rule].rule, escape(path.path.as_bytes()));
            writeln!(out, "{versions:>8}  {size:>10}  {rule:<9}  {name}")?;
        }
    } else {
        print_by_rule(&mut *out, rules, found)?;
    }
    match sum.versions {
        0 if rules.lines.is_empty() => {
            writeln!(out, "nothing to expire: there are no keep rules")?;
            drop(out);
            context.ui.note("hint: dmv keep set '/renders/**' last:5");
            return Ok(());
        }
        0 => print_nothing(&mut *out, sum)?,
        _ => print_all(&mut *out, args.dry_run, sum)?,
    }
    if sum.left_bytes > 0 {
        writeln!(out, "left for another time: {}", bytes(sum.left_bytes))?;
    }
    if args.dry_run || sum.versions == 0 && sum.freed_bytes == 0 {
        return Ok(());
    }
    print_space(&mut *out, sum)?;
    Ok(())
}

/// Says why nothing expires.
fn print_nothing(out: &mut dyn Write, sum: &Sum) -> Result<(), std::io::Error> {
    let why = match sum.left_bytes {
        0 => "the rules keep all versions that are stored",
        _ => "every version is larger than --max-free",
    };
    writeln!(out, "nothing to expire: {why}")
}

/// Prints the versions that expire, all together.
fn print_all(out: &mut dyn Write, dry_run: bool, sum: &Sum) -> Result<(), std::io::Error> {
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
fn print_space(out: &mut dyn Write, sum: &Sum) -> Result<(), std::io::Error> {
    writeln!(out, "freed now: {}", bytes(sum.freed_bytes))?;
    if sum.waiting_bytes > 0 {
        let waiting = bytes(sum.waiting_bytes);
        writeln!(
            out,
            "not freed yet: {waiting}, in packs that also contain other files"
        )?;
    }
    if sum.linked_bytes > 0 {
        let linked = bytes(sum.linked_bytes);
        writeln!(
            out,
            "not freed yet: {linked}, in packs that another repository on this disk also uses"
        )?;
    }
    if sum.shared_bytes > 0 {
        let shared = bytes(sum.shared_bytes);
        writeln!(
            out,
            "not freed: {shared}, which other files or versions also use"
        )?;
    }
    let accounted = sum.freed_bytes + sum.waiting_bytes + sum.shared_bytes + sum.linked_bytes;
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
    out: &mut dyn Write,
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
