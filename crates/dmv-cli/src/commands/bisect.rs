//! `dmv bisect`

use super::checkout::tell_refused;
use crate::candidates;
use crate::context::Context;
use crate::failure::{EXIT_INCOMPLETE, EXIT_OK, EXIT_OTHER, Failure};
use crate::format::json::{ProblemValue, problems};
use crate::format::text::{SHORT_ID, clean, count};
use crate::keeping::{OverwrittenValue, tell_overwritten};
use crate::supply::supplied;
use dmv_core::escape::Argument;
use dmv_core::escape::Hint;
use dmv_core::hash::ObjectId;
use dmv_core::hint;
use dmv_core::repo::{
    BisectNext, BisectReport, Bisection, CheckoutOptions, CheckoutReport, Head, Repo, RepoError,
    VerbError, Verdict,
};
use serde::Serialize;
use std::ffi::OsString;
use std::io::Write;
use std::process::Command;

/// The exit code of a test that cannot be made for a commit; as in Git.
const CANNOT_TEST: i32 = 125;
/// The first exit code that stops a run; as in Git.
const STOPS: i32 = 128;

/// Find the commit that introduced a fault, by testing commits between a bad and a good one
///
/// dmv checks out a commit that halves the remaining ones. Test it, and say 'dmv bisect good' or 'dmv bisect
/// bad'; or let 'dmv bisect run' do both. Each step is one operation: 'dmv undo' takes it back. 'dmv
/// bisect end' returns to where you were.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv bisect start main v1.0\n  dmv bisect good\n  dmv bisect bad\n  \
                  dmv bisect run ./test.sh\n  dmv bisect end"
)]
pub struct Args {
    #[command(subcommand)]
    step: Step,
}

#[derive(clap::Subcommand)]
enum Step {
    /// Begin: BAD has the fault, and each GOOD commit does not have it
    ///
    /// Without commits, say 'dmv bisect bad REV' and 'dmv bisect good REV' next.
    Start {
        /// A commit with the fault
        #[arg(value_name = "BAD", add = candidates::revision())]
        bad: Option<String>,
        /// Commits without the fault
        #[arg(value_name = "GOOD", add = candidates::revision())]
        good: Vec<String>,
    },
    /// Say that commits do not have the fault
    Good {
        /// The commits (default: @)
        #[arg(value_name = "REV", add = candidates::revision())]
        revisions: Vec<String>,
    },
    /// Say that a commit has the fault
    Bad {
        /// The commit (default: @)
        #[arg(value_name = "REV", add = candidates::revision())]
        revision: Option<String>,
    },
    /// Say that commits cannot be tested
    Skip {
        /// The commits (default: @)
        #[arg(value_name = "REV", add = candidates::revision())]
        revisions: Vec<String>,
    },
    /// Test commits with a command until the first bad one is found
    ///
    /// Exit code 0 of the command means good, 125 that the commit cannot be tested, any other up to 127 bad. A
    /// greater one, or a signal, stops the run; run it again to continue.
    Run {
        /// The command and its arguments
        #[arg(value_name = "CMD", required = true, num_args = 1.., trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
    /// Show the results so far
    Log,
    /// End the search and return to where you were before it
    #[command(alias = "reset")]
    End,
}

#[derive(Serialize)]
struct Document {
    /// `waiting`, `testing`, `found` or `skipped`.
    state: &'static str,
    start: String,
    bad: Option<String>,
    good: Vec<String>,
    skipped: Vec<String>,
    /// The commit to test.
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    left: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_bad: Option<String>,
    /// One of them is the first bad commit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    candidates: Vec<String>,
    /// Whether absent history may have the first bad commit.
    cut_off: bool,
    problems: Vec<ProblemValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    overwritten: Option<OverwrittenValue>,
}

/// The results so far, in JSON.
#[derive(Serialize)]
struct Results {
    start: String,
    bad: Option<String>,
    good: Vec<String>,
    skipped: Vec<String>,
}

/// What the end of a search did, in JSON.
#[derive(Serialize)]
struct BisectEnd {
    branch: Option<String>,
    commit: String,
    files: u64,
    bytes: u64,
    removed: u64,
    problems: Vec<ProblemValue>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    match &args.step {
        Step::Start { bad, good } => {
            let bad = bad.as_deref().map(|bad| repo.resolve(bad)).transpose()?;
            let good = resolved(&repo, good)?;
            let options = options(context)?;
            let report = supplied(context, &repo, "checking out", || {
                repo.bisect_start(bad, &good, &options, &context.job)
            })?;
            tell(context, &repo, &report)
        }
        Step::Good { revisions } => note(context, &repo, Verdict::Good, revisions),
        Step::Skip { revisions } => note(context, &repo, Verdict::Skip, revisions),
        Step::Bad { revision } => {
            let revisions: Vec<String> = revision.iter().cloned().collect();
            note(context, &repo, Verdict::Bad, &revisions)
        }
        Step::Run { command } => run_tests(context, &repo, command),
        Step::Log => log(context, &repo),
        Step::End => end(context, &repo),
    }
}

fn options(context: &Context) -> Result<CheckoutOptions, Failure> {
    Ok(CheckoutOptions {
        settings: context.settings()?,
        ..CheckoutOptions::new(context.request()?)
    })
}

fn resolved(repo: &Repo, revisions: &[String]) -> Result<Vec<ObjectId>, Failure> {
    let ids = revisions.iter().map(|revision| repo.resolve(revision));
    Ok(ids.collect::<Result<_, _>>()?)
}

/// Notes a result.
fn note(
    context: &Context,
    repo: &Repo,
    verdict: Verdict,
    revisions: &[String],
) -> Result<u8, Failure> {
    // Only the beginning needs both ends: 'bad' or 'good' may be the first word.
    let commits = match revisions {
        [] => vec![repo.resolve("@")?],
        revisions => resolved(repo, revisions)?,
    };
    let report = noted(context, repo, verdict, &commits)?;
    tell(context, repo, &report)
}

fn noted(
    context: &Context,
    repo: &Repo,
    verdict: Verdict,
    commits: &[ObjectId],
) -> Result<BisectReport, Failure> {
    let options = options(context)?;
    supplied(context, repo, "checking out", || {
        repo.bisect_note(verdict, commits, &options, &context.job)
    })
}

/// Tests commits until the first bad one is found.
fn run_tests(context: &Context, repo: &Repo, command: &[OsString]) -> Result<u8, Failure> {
    let state = repo.bisection()?;
    let state = state.ok_or(RepoError::from(VerbError::NotBisecting))?;
    if state.bad.is_none() || state.good.is_empty() {
        let message = "a run needs a bad and a good commit";
        return Err(Failure::usage(message).hint("dmv bisect bad REV, and dmv bisect good REV"));
    }
    let now = repo.bisect_progress()?;
    if !matches!(now.next, BisectNext::Test { .. }) {
        return tell(context, repo, &now);
    }
    loop {
        let commit = repo.resolve("@")?;
        let verdict = tested(context, command)?;
        let report = noted(context, repo, verdict, &[commit])?;
        let is_done = !matches!(report.next, BisectNext::Test { .. });
        // The tests in between speak for themselves.
        if is_done || !context.globals.json {
            let code = tell(context, repo, &report)?;
            context.ui.out().flush()?;
            if is_done || code != EXIT_OK {
                return Ok(code);
            }
        }
    }
}

/// Runs a test and returns its result.
fn tested(context: &Context, command: &[OsString]) -> Result<Verdict, Failure> {
    let (program, args) = command.split_first().expect("the option needs one");
    let shown = command
        .iter()
        .map(|arg| Argument::value(arg.as_encoded_bytes()));
    let shown = Hint::join(shown.map(|arg| hint!("{}", arg)), " ");
    context.ui.note(format_args!("running {shown}"));
    let mut command = Command::new(program);
    command.args(args);
    if context.globals.json {
        // The document is all of the output.
        command.stdout(std::io::stderr());
    }
    let stopped = |why: String| {
        let message = format!("the test '{shown}' {why}; nothing was noted");
        let hint = "run the same command again to continue; or dmv bisect end";
        Failure::new("test-stopped", EXIT_OTHER, message).hint(hint)
    };
    let status = command
        .status()
        .map_err(|e| stopped(format!("cannot be run: {e}")))?;
    match status.code() {
        Some(0) => Ok(Verdict::Good),
        Some(CANNOT_TEST) => Ok(Verdict::Skip),
        Some(code) if code < STOPS => Ok(Verdict::Bad),
        Some(code) => Err(stopped(format!("ended with exit code {code}"))),
        // The text names the signal.
        None => Err(stopped(format!("ended with {status}"))),
    }
}

/// Tells what a step came to.
fn tell(context: &Context, repo: &Repo, report: &BisectReport) -> Result<u8, Failure> {
    let empty = Vec::new();
    let refused = report
        .checkout
        .as_ref()
        .map_or(&empty, |done| &done.refused);
    if context.globals.json {
        context.ui.json(&document(report))?;
    } else if !context.ui.quiet() {
        print(context, repo, report)?;
    }
    if let Some(done) = &report.checkout {
        tell_overwritten(context, &done.overwritten);
    }
    tell_refused(context, None, refused);
    if report.is_cut_off && !matches!(report.next, BisectNext::Test { .. }) {
        let text = "note: older commits are absent from this repository, and one of them may be the first bad one; to fetch them: dmv fetch --all-history";
        context.ui.note(text);
    }
    Ok(if refused.is_empty() {
        EXIT_OK
    } else {
        EXIT_INCOMPLETE
    })
}

fn print(context: &Context, repo: &Repo, report: &BisectReport) -> Result<(), Failure> {
    let mut out = context.ui.out();
    let one = |id: &ObjectId| format!("{} {}", id.short(SHORT_ID), subject(repo, id));
    match &report.next {
        BisectNext::Waiting => {
            let missing = match (report.state.bad, report.state.good.is_empty()) {
                (None, true) => "a bad and a good commit: dmv bisect bad REV, dmv bisect good REV",
                (None, false) => "a bad commit: dmv bisect bad REV",
                _ => "a good commit: dmv bisect good REV",
            };
            writeln!(out, "the search needs {missing}")?;
        }
        BisectNext::Test {
            commit,
            left,
            steps,
            is_merge_base,
        } => {
            let steps = count(u64::from(*steps).max(1), "test", "tests");
            let commits = count(*left as u64, "commit", "commits");
            if *is_merge_base {
                let text = "a good commit is not an ancestor of the bad one: their merge base must be tested first";
                writeln!(out, "{text}")?;
            }
            writeln!(out, "{commits} left after this, about {steps}")?;
            writeln!(out, "test this commit: {}", one(commit))?;
        }
        BisectNext::Found(id) => {
            writeln!(out, "{} is the first bad commit", one(id))?;
            let show = hint!(
                "to see it: dmv show {}",
                Argument::value(id.short(SHORT_ID))
            );
            writeln!(out, "{show}")?;
            writeln!(out, "to return to where you were: dmv bisect end")?;
        }
        BisectNext::OnlySkipped(ids) => {
            writeln!(
                out,
                "only skipped commits are left; the first bad commit is one of:"
            )?;
            for id in ids {
                writeln!(out, "  {}", one(id))?;
            }
        }
    }
    Ok(())
}

/// The first line of a commit's message.
fn subject(repo: &Repo, id: &ObjectId) -> String {
    let commit = repo.read_commit(id).ok();
    let line = commit
        .as_ref()
        .and_then(|commit| commit.message.lines().next());
    clean(line.unwrap_or_default())
}

fn document(report: &BisectReport) -> Document {
    let results = results(&report.state);
    let mut out = Document {
        state: "waiting",
        start: results.start,
        bad: results.bad,
        good: results.good,
        skipped: results.skipped,
        commit: None,
        left: None,
        steps: None,
        first_bad: None,
        candidates: Vec::new(),
        cut_off: report.is_cut_off,
        problems: Vec::new(),
        overwritten: None,
    };
    if let Some(done) = &report.checkout {
        out.problems = problems(&done.refused);
        out.overwritten = OverwrittenValue::new(&done.overwritten);
    }
    match &report.next {
        BisectNext::Waiting => {}
        BisectNext::Test {
            commit,
            left,
            steps,
            ..
        } => {
            out.state = "testing";
            out.commit = Some(commit.to_string());
            (out.left, out.steps) = (Some(*left), Some(*steps));
        }
        BisectNext::Found(id) => {
            out.state = "found";
            out.first_bad = Some(id.to_string());
        }
        BisectNext::OnlySkipped(ids) => {
            out.state = "skipped";
            out.candidates = ids.iter().map(ObjectId::to_string).collect();
        }
    }
    out
}

fn results(state: &Bisection) -> Results {
    let all = |ids: &[ObjectId]| ids.iter().map(ObjectId::to_string).collect();
    Results {
        start: match &state.start {
            Head::Branch(name) => name.clone(),
            Head::Commit(id) => id.to_string(),
        },
        bad: state.bad.map(|id| id.to_string()),
        good: all(&state.good),
        skipped: all(&state.skipped),
    }
}

/// Shows the results so far.
fn log(context: &Context, repo: &Repo) -> Result<u8, Failure> {
    let state = repo.bisection()?;
    let state = state.ok_or(RepoError::from(VerbError::NotBisecting))?;
    let told = results(&state);
    if context.globals.json {
        context.ui.json(&told)?;
        return Ok(EXIT_OK);
    }
    let mut out = context.ui.out();
    writeln!(out, "started on {}", clean(&told.start))?;
    let bad = state.bad.iter().map(|id| ("bad ", id));
    let good = state.good.iter().map(|id| ("good", id));
    let skipped = state.skipped.iter().map(|id| ("skip", id));
    for (word, id) in bad.chain(good).chain(skipped) {
        writeln!(out, "{word}  {} {}", id.short(SHORT_ID), subject(repo, id))?;
    }
    Ok(EXIT_OK)
}

/// Ends the search.
fn end(context: &Context, repo: &Repo) -> Result<u8, Failure> {
    let options = options(context)?;
    let done: CheckoutReport = supplied(context, repo, "checking out", || {
        repo.bisect_end(&options, &context.job)
    })?;
    if context.globals.json {
        context.ui.json(&BisectEnd {
            branch: done.head.branch().map(str::to_owned),
            commit: done.commit.to_string(),
            files: done.files,
            bytes: done.bytes,
            removed: done.removed,
            problems: problems(&done.refused),
        })?;
        tell_refused(context, None, &done.refused);
        return Ok(if done.refused.is_empty() {
            EXIT_OK
        } else {
            EXIT_INCOMPLETE
        });
    }
    super::checkout::finish(context, &done, true)
}
