//! `dmv keep`

use crate::prelude::*;
use crate::print::keep_rules::{rules, tell_detached, tell_idle_rules};
use dmv_core::repo::{KeepRule, RuleLine, RuleSource};

/// Choose which old versions of files stay when 'dmv expire' frees space
///
/// Without a command, lists the rules. Rules stand in files named .dmvattributes, which are committed
/// like any file, and among the local rules of this repository. This command changes the local ones.
/// A local rule wins over .dmvattributes, and the last rule that matches wins over those before it.
///
/// The newest version on each branch always stays, as does what tags, worktrees and stashes have.
#[derive(clap::Args)]
#[command(
    after_help = "Rules:\n  last:N  keep the newest N versions on each branch; a worktree\n          that is on no branch counts as one\n  \
                  days:N  keep what a branch had in the last N days\n  \
                  tagged  keep only what tags have\n  \
                  all     keep all versions; this is the default\n  \
                  none    keep no old versions\n\n\
                  Example:\n  dmv keep\n  dmv keep set '/renders/**' last:5\n  dmv keep set '*.mov' days:90\n  \
                  dmv keep remove '*.mov'\n\n\
                  A file .dmvattributes with the same rules:\n  /renders/** keep=last:5\n  *.mov keep=days:90"
)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(clap::Subcommand)]
enum Action {
    /// List all rules (the default)
    List,
    /// Set the local rule of a pattern, after all others
    Set {
        /// The files: a pattern as in .dmvignore, from the root of the repository
        #[arg(value_name = "PATTERN", add = candidates::pattern())]
        pattern: String,
        /// last:N, days:N, tagged, all or none
        #[arg(value_name = "RULE")]
        rule: KeepRule,
    },
    /// Remove the local rule of a pattern
    Remove {
        /// The pattern, as 'dmv keep' lists it
        #[arg(value_name = "PATTERN", add = candidates::pattern())]
        pattern: String,
    },
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    match args.action.as_ref().unwrap_or(&Action::List) {
        Action::List => list(context, &repo)?,
        Action::Set { pattern, rule } => set(context, &repo, pattern, *rule)?,
        Action::Remove { pattern } => remove(context, &repo, pattern)?,
    }
    Ok(EXIT_OK)
}

fn list(context: &Context, repo: &Repo) -> Result<(), Failure> {
    let rules = rules(context, repo)?;
    let idle = supplied(context, repo, "reading", || repo.idle_rules(&rules))?;
    for (number, line) in rules.lines.iter().enumerate() {
        print(context, line, !idle.contains(&number))?;
    }
    if context.ui.is_json() {
        return Ok(());
    }
    if rules.lines.is_empty() {
        writeln!(context.ui.out(), "no rules: all versions stay")?;
        context.ui.note("hint: dmv keep set '/renders/**' last:5");
    }
    tell_idle_rules(context, &rules, &idle);
    tell_detached(context, repo, &rules)
}

fn print(context: &Context, line: &RuleLine, used: bool) -> Result<(), Failure> {
    let (from, number) = match &line.source {
        RuleSource::Local => ("local".to_owned(), None),
        RuleSource::File(path, number) => {
            (String::from_utf8_lossy(path).into_owned(), Some(*number))
        }
    };
    let document = || {
        object! {
            line.{pattern},
            rule: line.rule.to_string(),
            from: from,
            line: number,
            used: used,
        }
    };
    context.ui.show(document, |out| {
        let (rule, pattern) = (line.rule.to_string(), clean(&line.pattern));
        writeln!(out, "{rule:<10} {pattern}  ({})", line.source)?;
        Ok(())
    })
}

fn set(context: &Context, repo: &Repo, pattern: &str, rule: KeepRule) -> Result<(), Failure> {
    let old = repo.set_keep_rule(pattern, rule, context.request()?)?;
    tell(context, pattern, old, Some(rule))?;
    // What is wrong with the files is no news here: 'dmv keep' says it.
    let rules = supplied(context, repo, "reading rules", || repo.keep_rules())?;
    // It is the last one.
    let number = rules.lines.len() - 1;
    let idle = supplied(context, repo, "reading", || repo.idle_rules(&rules))?;
    if idle.contains(&number) {
        context
            .ui
            .warn(format_args!("no file in @ matches '{}'", clean(pattern)));
    }
    Ok(())
}

fn remove(context: &Context, repo: &Repo, pattern: &str) -> Result<(), Failure> {
    let old = repo.remove_keep_rule(pattern, context.request()?)?;
    if old.is_none() {
        let message = format!("there is no local rule for '{}'", clean(pattern));
        return Err(Failure::new("no-such-rule", EXIT_OTHER, message).hint("dmv keep"));
    }
    tell(context, pattern, old, None)
}

fn tell(
    context: &Context,
    pattern: &str,
    old: Option<KeepRule>,
    new: Option<KeepRule>,
) -> Result<(), Failure> {
    let text = |rule: Option<KeepRule>| rule.map(|rule| rule.to_string());
    let document = || object! { pattern: pattern, old: text(old), new: text(new) };
    context.ui.report(document, |out| {
        let pattern = clean(pattern);
        match (old, new) {
            (Some(old), Some(new)) if old != new => {
                writeln!(out, "{pattern}: {new} (was {old})")?;
            }
            (_, Some(new)) => writeln!(out, "{pattern}: {new}")?,
            (Some(old), None) => writeln!(out, "removed: {old} {pattern}")?,
            (None, None) => {}
        }
        if new.is_some() {
            context
                .ui
                .note("nothing was freed yet; to see what would be: dmv expire --dry-run");
        }
        Ok(())
    })
}
