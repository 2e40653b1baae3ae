//! `dmv bisect`

use crate::prelude::*;
use crate::print::checkout::{print_checkout, tell_refused};
use dmv_core::repo::{
    BisectNext, BisectReport, Bisection, CheckoutOptions, CheckoutReport, VerbError, Verdict,
};
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
            });
            let report = report.map_err(|failure| match failure.code {
                // There are no results to see yet.
                "good-after-bad" => failure.hint("dmv bisect start BAD GOOD"),
                _ => failure,
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
        if is_done || !context.ui.is_json() {
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
    if context.ui.is_json() {
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
    let refused = report
        .checkout
        .as_ref()
        .map_or(&[][..], |done| &done.refused);
    context
        .ui
        .report(|| document(report), |out| print(out, repo, report))?;
    if let Some(done) = &report.checkout {
        tell_overwritten(context, &done.overwritten);
    }
    tell_refused(context, None, refused);
    if report.is_cut_off && !matches!(report.next, BisectNext::Test { .. }) {
        let text = "note: older commits are absent from this repository, and one of them may be the first bad one; to fetch them: dmv fetch --all-history";
        context.ui.note(text);
    }
    Ok(exit_for(refused))
}

fn print(out: &mut impl Write, repo: &Repo, report: &BisectReport) -> Result<(), Failure> {
    let one = |id: &ObjectId| format!("{} {}", id.short(SHORT_ID), subject_of(repo, id));
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

/// Returns the first line of a commit's message.
fn subject_of(repo: &Repo, id: &ObjectId) -> String {
    let commit = repo.read_commit(id);
    commit.map_or(String::new(), |commit| clean(subject(&commit.message)))
}

fn document(report: &BisectReport) -> Json {
    let (mut commit, mut left, mut steps, mut first_bad) = (None, None, None, None);
    let mut candidates = &[][..];
    let state = match &report.next {
        BisectNext::Waiting => "waiting",
        BisectNext::Test {
            commit: at,
            left: n,
            steps: most,
            ..
        } => {
            (commit, left, steps) = (Some(at), Some(n), Some(most));
            "testing"
        }
        BisectNext::Found(id) => {
            first_bad = Some(id);
            "found"
        }
        BisectNext::OnlySkipped(ids) => {
            candidates = ids;
            "skipped"
        }
    };
    let done = report.checkout.as_ref();
    object! {
        state: state,
        ..results(&report.state),
        commit?: commit,
        left?: left,
        steps?: steps,
        first_bad?: first_bad,
        candidates?: (!candidates.is_empty()).then_some(candidates),
        cut_off: report.is_cut_off,
        problems: done.map_or(&[][..], |done| &done.refused),
        overwritten?: done.and_then(|done| overwritten_value(&done.overwritten)),
    }
}

/// The results so far, in JSON.
fn results(state: &Bisection) -> Json {
    object! { start: start(state), state.{bad, good, skipped} }
}

/// The branch or commit on which a search began.
fn start(state: &Bisection) -> String {
    match &state.start {
        Head::Branch(name) => name.clone(),
        Head::Commit(id) => id.to_string(),
    }
}

/// Shows the results so far.
fn log(context: &Context, repo: &Repo) -> Result<u8, Failure> {
    let state = repo.bisection()?;
    let state = state.ok_or(RepoError::from(VerbError::NotBisecting))?;
    context.ui.show(
        || results(&state),
        |out| {
            writeln!(out, "started on {}", clean(&start(&state)))?;
            let bad = state.bad.iter().map(|id| ("bad ", id));
            let good = state.good.iter().map(|id| ("good", id));
            let skipped = state.skipped.iter().map(|id| ("skip", id));
            for (word, id) in bad.chain(good).chain(skipped) {
                let (id, subject) = (id.short(SHORT_ID), subject_of(repo, id));
                writeln!(out, "{word}  {id} {subject}")?;
            }
            Ok(())
        },
    )?;
    Ok(EXIT_OK)
}

/// Ends the search.
fn end(context: &Context, repo: &Repo) -> Result<u8, Failure> {
    let options = options(context)?;
    let done: CheckoutReport = supplied(context, repo, "checking out", || {
        repo.bisect_end(&options, &context.job)
    })?;
    if context.ui.is_json() {
        let document = object! {
            branch: done.head.branch(),
            done.{commit, files, bytes, removed},
            problems: done.refused,
        };
        context.ui.json(&document)?;
        tell_refused(context, None, &done.refused);
        return Ok(exit_for(&done.refused));
    }
    print_checkout(context, &done, true)
}
