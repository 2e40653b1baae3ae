//! Runs the user's hooks: programs that hear what happens in a repository, and may refuse it.
//!
//! Nothing in a repository names a program or says how it runs. A hook starts in the user's home directory, with few
//! variables of the environment, and gets what it needs to know as JSON on its standard input.

use crate::config::hook::{Event, Hook, Run};
use crate::context::Context;
use crate::failure::{EXIT_INTERRUPTED, EXIT_REFUSED, Failure};
use crate::format::json::{Json, object, path, paths, texts};
use crate::format::text::clean;
use dmv_core::hash::ObjectId;
use dmv_core::object::name::RepoPath;
use dmv_core::platform::{in_own_group, is_program, stop_group};
use dmv_core::repo::{PathChange, RefChange, Repo, Whose};
use dmv_core::threads;
use dmv_net::ops::{ComingPush, RefTip, Remote};
use dmv_net::session::NetError;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The version of what hooks get. It changes only if a hook must change.
const VERSION: u32 = 1;
/// Set for a hook. A dmv that a hook runs runs no hooks.
const IN_HOOK: &str = "DMV_HOOK";
/// The variables that a hook gets from the user's environment.
const KEPT: [&str; 9] = [
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
];
/// So many bytes of what a hook prints are kept: the last ones.
const KEPT_BYTES: usize = 16 << 10;
/// So many lines are shown.
const SHOWN_LINES: usize = 20;
/// So many characters of the last line are in a message.
const MAX_SAID: usize = 300;
/// So many changes are listed for a hook.
const MAX_CHANGES: usize = 10_000;
/// How often a running hook is looked at.
const LOOK: Duration = Duration::from_millis(10);
/// How long the rest of what a hook printed is waited for, if it has left a process behind that holds its output.
const REST: Duration = Duration::from_millis(500);

/// How a hook has ended.
pub enum HookEnd {
    /// It was well.
    Fine,
    /// It says no, with this exit code. What it has printed says why.
    Refused(String),
    /// It has not come to its end, for this reason.
    Failed(String),
}

/// A hook that has run.
pub struct HookResult {
    /// How it has ended.
    pub end: HookEnd,
    /// The last lines that it has printed.
    pub lines: Vec<String>,
}

/// Returns whether a hook has started this program.
pub fn is_in_hook() -> bool {
    std::env::var_os(IN_HOOK).is_some()
}

/// Returns the user's hooks of an event for a repository.
pub fn of_event(context: &Context, repo: &Repo, event: Event) -> Result<Vec<Hook>, Failure> {
    let is_off = context.globals.no_hooks || is_in_hook();
    if is_off || repo.whose() == Whose::Foreign {
        return Ok(Vec::new());
    }
    let mut hooks = context.config()?.hooks()?;
    hooks.retain(|hook| hook.event == event && hook.is_for(repo.id()));
    Ok(hooks)
}

/// Runs the hooks of an event. One of a coming event may refuse it. `facts` are asked for if there is a hook.
pub fn ask(
    context: &Context,
    repo: &Repo,
    event: Event,
    facts: impl FnOnce() -> Result<Json, Failure>,
) -> Result<(), Failure> {
    let hooks = of_event(context, repo, event)?;
    if hooks.is_empty() {
        return Ok(());
    }
    run(context, repo, &hooks, facts()?)
}

/// The changes of a worktree that are committed, for a hook.
pub fn changes_value(changes: &[PathChange]) -> Json {
    let value = |change: &PathChange| {
        let at = path(&change.path);
        object! { ..at, change: change.kind.word() }
    };
    Json::List(changes.iter().take(MAX_CHANGES).map(value).collect())
}

/// Runs the hooks after a commit.
pub fn after_commit(context: &Context, repo: &Repo, branch: Option<&str>, commit: ObjectId) {
    tell(context, repo, Event::PostCommit, || {
        object! { branch: branch, commit: commit }
    });
}

/// Runs the hooks after a claim.
pub fn after_claim(context: &Context, repo: &Repo, claimed: &[RepoPath]) {
    tell(
        context,
        repo,
        Event::Claim,
        || object! { paths: paths(claimed) },
    );
}

/// Runs the hooks before a push.
pub fn before_push(context: &Context, push: &ComingPush<'_>) -> Result<(), NetError> {
    let asked = ask(context, push.repo, Event::PrePush, || {
        let tip = |tip: &RefTip| object! { name: tip.key, commit: tip.commit };
        Ok(object! {
            remote: push.remote.name,
            address: push.remote.url.to_string(),
            refs: Json::List(push.refs.iter().map(tip).collect()),
            delete: texts(push.delete.iter().cloned()),
        })
    });
    asked.map_err(|failure| NetError::Caller(Box::new(failure)))
}

/// Runs the hooks after a fetch, if it has moved anything.
pub fn after_fetch(context: &Context, repo: &Repo, remote: &Remote, moved: &[RefChange]) {
    let moved = moved.iter().filter(|moved| moved.refused.is_none());
    let refs = moved.map(|moved| object! { name: moved.key, old: moved.old, new: moved.new });
    let refs: Vec<Json> = refs.collect();
    if !refs.is_empty() {
        tell(context, repo, Event::PostFetch, || {
            object! { remote: remote.name, refs: Json::List(refs) }
        });
    }
}

/// Runs the hooks of an event that has happened. A failure is a warning.
pub fn tell(context: &Context, repo: &Repo, event: Event, facts: impl FnOnce() -> Json) {
    let done = ask(context, repo, event, || Ok(facts()));
    if let Err(failure) = done {
        context.ui.warn(failure.message);
    }
}

/// Runs hooks in their order, with these facts. The first one that fails ends it.
fn run(context: &Context, repo: &Repo, hooks: &[Hook], facts: Json) -> Result<(), Failure> {
    let _watch = context.interruptible();
    for hook in hooks {
        let done = run_one(context, repo, hook, facts.clone())?;
        let mut lines = done.lines;
        let (word, why) = match done.end {
            HookEnd::Fine => continue,
            HookEnd::Refused(why) => ("refuses", lines.pop().unwrap_or(why)),
            HookEnd::Failed(why) => ("failed", why),
        };
        return Err(failed(hook, word, &why, lines));
    }
    Ok(())
}

fn failed(hook: &Hook, word: &str, why: &str, lines: Vec<String>) -> Failure {
    let (event, text) = (hook.event.word(), clean(&hook.run.text()));
    let said: String = why.chars().take(MAX_SAID).collect();
    let message = match hook.event {
        Event::PreCommit => {
            format!("the {event} hook '{text}' {word}: {said}; nothing was committed")
        }
        Event::PrePush => format!("the {event} hook '{text}' {word}: {said}; nothing was sent"),
        _ => format!("the {event} hook '{text}' failed: {said}"),
    };
    let mut failure = Failure::new("hook", EXIT_REFUSED, message);
    failure.details = lines.into();
    failure.hint("dmv help guide/hooks")
}

/// Runs one hook.
pub fn run_one(
    context: &Context,
    repo: &Repo,
    hook: &Hook,
    facts: Json,
) -> Result<HookResult, Failure> {
    let root = repo.worktree_root();
    let mut input = object! {
        version: VERSION,
        event: hook.event.word(),
        repository: repo.id().to_string(),
        root: root,
    };
    input.extend(facts);
    let mut input = serde_json::to_vec(&input).unwrap_or_default();
    input.push(b'\n');
    let not_run = |why: String| HookResult {
        end: HookEnd::Failed(why),
        lines: Vec::new(),
    };
    let mut own: Vec<PathBuf> = repo.worktrees()?.into_iter().map(|one| one.path).collect();
    own.extend(root.into_iter().chain([repo.dmv_dir()]).map(Path::to_owned));
    own = own
        .iter()
        .filter_map(|dir| dir.canonicalize().ok())
        .collect();
    let path = search_path(&own);
    let command = match command(&hook.run, &own, &path) {
        Ok(command) => command,
        Err(why) => return Ok(not_run(why)),
    };
    let started = start(command, hook.event, input, &path);
    let mut started = match started {
        Ok(started) => started,
        Err(e) => return Ok(not_run(format!("it cannot be run: {e}"))),
    };
    let end = match wait(&mut started.child, hook.timeout, context) {
        Some(status) if status.success() => HookEnd::Fine,
        Some(status) if status.code().is_some() => HookEnd::Refused(status.to_string()),
        Some(status) => HookEnd::Failed(status.to_string()),
        None if context.job.is_cancelled() => {
            let message = format!("interrupted during the {} hook", hook.event.word());
            return Err(Failure::new("interrupted", EXIT_INTERRUPTED, message));
        }
        None => HookEnd::Failed(format!(
            "it was stopped after {} seconds",
            hook.timeout.as_secs()
        )),
    };
    Ok(HookResult {
        end,
        lines: started.printed.lines(),
    })
}

/// Finds the program of a hook. One that lies in the repository is refused: a commit could change it.
fn command(run: &Run, own: &[PathBuf], path: &[PathBuf]) -> Result<Command, String> {
    let (program, arguments) = match run {
        Run::Program(program, arguments) => (program.clone(), arguments.clone()),
        Run::Shell(line) => ("/bin/sh".to_owned(), vec!["-c".to_owned(), line.clone()]),
    };
    let found = find(&program, path).ok_or("there is no such program")?;
    let real = found.canonicalize();
    let real = real.map_err(|e| format!("it cannot be used: {e}"))?;
    if lies_in(&real, own) {
        return Err("it lies in the repository, where commits change it".to_owned());
    }
    let mut command = Command::new(found);
    command.args(arguments);
    Ok(command)
}

fn find(program: &str, path: &[PathBuf]) -> Option<PathBuf> {
    if let Some(rest) = program.strip_prefix("~/") {
        return Some(home()?.join(rest)).filter(|path| path.is_file());
    }
    if program.starts_with('/') {
        return Some(PathBuf::from(program)).filter(|path| path.is_file());
    }
    let mut dirs = path.iter();
    dirs.find_map(|dir| Some(dir.join(program)).filter(|path| is_program(path)))
}

/// The directories of `PATH` outside of the repository, whose directories are `own`. A relative one may lead into it.
fn search_path(own: &[PathBuf]) -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_outside = |dir: &PathBuf| {
        let real = dir.canonicalize();
        dir.is_absolute() && real.is_ok_and(|real| !lies_in(&real, own))
    };
    std::env::split_paths(&path).filter(is_outside).collect()
}

fn lies_in(path: &Path, dirs: &[PathBuf]) -> bool {
    dirs.iter().any(|dir| path.starts_with(dir))
}

fn home() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    home.filter(|home| home.is_absolute() && home.is_dir())
}

/// A hook that runs.
struct RunningHook {
    child: Child,
    printed: HookOutput,
}

fn start(
    mut command: Command,
    event: Event,
    input: Vec<u8>,
    path: &[PathBuf],
) -> std::io::Result<RunningHook> {
    let (output, end) = std::io::pipe()?;
    let kept = KEPT.iter().filter_map(|name| {
        let value: OsString = std::env::var_os(name)?;
        Some((*name, value))
    });
    command
        .env_clear()
        .envs(kept)
        .env(IN_HOOK, event.word())
        // Many programs take settings and modules from the directory that they start in.
        .current_dir(home().unwrap_or_else(|| PathBuf::from("/")))
        .stdin(Stdio::piped())
        .stdout(end.try_clone()?)
        .stderr(end);
    if let Some(path) = std::env::join_paths(path)
        .ok()
        .filter(|path| !path.is_empty())
    {
        command.env("PATH", path);
    }
    in_own_group(&mut command);
    let mut child = command.spawn()?;
    // Its ends of the pipe stay open as long as this exists.
    drop(command);
    let printed = HookOutput::default();
    let keep = printed.clone();
    threads::start(move || keep.take(output))?;
    if let Some(mut stdin) = child.stdin.take() {
        // It need not read it.
        threads::start(move || drop(stdin.write_all(&input)))?;
    }
    Ok(RunningHook { child, printed })
}

/// Waits for a hook, and stops it with everything that it has started if that takes too long. `None`: it was stopped.
fn wait(child: &mut Child, most: Duration, context: &Context) -> Option<ExitStatus> {
    let begin = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if begin.elapsed() < most && !context.job.is_cancelled() => {
                std::thread::sleep(LOOK);
            }
            _ => {
                stop_group(child);
                // It ends now, whatever it does.
                let _ = child.wait();
                return None;
            }
        }
    }
}

/// The last bytes that a hook has printed.
#[derive(Clone, Default)]
struct HookOutput(Arc<Mutex<OutputTail>>);

#[derive(Default)]
struct OutputTail {
    last: VecDeque<u8>,
    is_all: bool,
}

impl HookOutput {
    fn take(&self, mut output: impl Read) {
        let mut piece = [0; 4096];
        while let Ok(read) = output.read(&mut piece) {
            let mut bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            bytes.is_all = read == 0;
            if read == 0 {
                return;
            }
            bytes.last.extend(&piece[..read]);
            let extra = bytes.last.len().saturating_sub(KEPT_BYTES);
            bytes.last.drain(..extra);
        }
    }

    fn lines(&self) -> Vec<String> {
        let begin = Instant::now();
        loop {
            let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if bytes.is_all || begin.elapsed() > REST {
                let all: Vec<u8> = bytes.last.iter().copied().collect();
                let text = String::from_utf8_lossy(&all);
                let lines = text.lines().map(|line| clean(line.trim_end()));
                let mut lines: Vec<String> = lines.filter(|line| !line.is_empty()).collect();
                let extra = lines.len().saturating_sub(SHOWN_LINES);
                lines.drain(..extra);
                return lines;
            }
            drop(bytes);
            std::thread::sleep(LOOK);
        }
    }
}
