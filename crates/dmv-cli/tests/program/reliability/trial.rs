//! One command, disturbed in some way, and what must hold after it.

use super::cases::{Again, CASES, Case};
use super::state::State;
use super::world::World;
use crate::place::Outcome;
use dmv_random::Rng;
use rustix::process::{Pid, kill_process_group, test_kill_process_group};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Nothing in these repositories takes longer, not even under strace on a busy machine.
const HANG: Duration = Duration::from_secs(120);

/// Exit codes that a command may end with.
const EXITS: [i32; 14] = [0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14, 20];

/// Files that the user has not committed.
const OWN: [&str; 4] = ["dir/h", "own.txt", "own.bin", "noise.log"];

/// Exit codes before and after.
type Codes = (Option<i32>, Option<i32>);

/// Done but for what it lists: a commit of other files, for one.
const INCOMPLETE: i32 = 3;

/// Damage was found.
const DAMAGE: i32 = 7;

/// Characters of a failure that are printed.
const MAX_SHOWN: usize = 1500;

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    /// None: killed.
    pub code: Option<i32>,
    pub said: String,
    pub took: Duration,
}

/// A case, and what it does where nobody disturbs it.
pub struct Known {
    pub case: &'static Case,
    pub before: State,
    pub after: State,
    pub took: Duration,
    /// What it prints.
    pub printed: Vec<u8>,
    /// Repositories by what `verify --full` says of them before and after.
    verified: BTreeMap<String, Codes>,
}

/// What happened to the command.
pub enum Fate {
    /// It was killed, or the machine was.
    Cut,
    /// It ended by itself, although a system call failed.
    Ended(Ended),
    /// It was done, and said so, before the machine died.
    Done,
}

/// Stands for what a command could not say because its output failed.
pub const UNSAID: &str = "error: '?'";

impl Known {
    /// Runs a case undisturbed.
    pub fn learn(world: &World, case: &'static Case) -> Outcome<Known> {
        world.reset(case.parts)?;
        let before = state_of(world, case)?;
        let mut verified = verify_all(world, &before)?;
        let ended = run(world, world.dmv(&case.words()), None)?;
        if ended.code != Some(case.exit) {
            return Err(format!("{}: {ended:?}", case.args).into());
        }
        let printed = fs::read(world.beside("printed"))?;
        let after = state_of(world, case)?;
        for (repo, (_, code)) in verify_all(world, &after)? {
            verified.entry(repo).or_insert((None, None)).1 = code;
        }
        let known = Known {
            case,
            before,
            after,
            took: ended.took,
            printed,
            verified,
        };
        if !case.overwrites() {
            known.keeps_own_files()?;
        }
        Ok(known)
    }

    /// What the user has not committed is the same after the command as before.
    fn keeps_own_files(&self) -> Outcome {
        for name in OWN {
            for path in ["film", "part"].map(|dir| Path::new(dir).join(name)) {
                let (old, new) = (self.before.files.get(&path), self.after.files.get(&path));
                if old != new && self.case.parts.contains(&"film") {
                    return Err(format!("{}: {} changes", self.case.args, path.display()).into());
                }
            }
        }
        Ok(())
    }

    /// All that must hold after the command was disturbed.
    pub fn check(&self, world: &World, fate: &Fate, rng: &mut Rng) -> Outcome {
        if let Fate::Ended(ended) = fate {
            self.check_end(ended)?;
        }
        let middle = state_of(world, self.case)?;
        let (code, said) = match fate {
            Fate::Ended(ended) => (ended.code, &ended.said[..]),
            Fate::Done => (Some(self.case.exit), ""),
            Fate::Cut => (None, ""),
        };
        let differs = middle.differs(&self.after);
        // Where the exit code says something else, of conflicts or of output that failed, words say
        // what could not be written.
        let is_listed = |path: &str| {
            let name = path.rsplit('/').next().unwrap_or(path);
            let is_it = |line: &str| line.starts_with("warning: ") && line.contains(name);
            code != Some(0) && said.lines().any(is_it)
        };
        let path_of = |differs: &String| differs.split(' ').next().unwrap_or_default().to_owned();
        let is_listed = differs.as_ref().is_some_and(|e| is_listed(&path_of(e)));
        let was_told = code == Some(INCOMPLETE) || said == UNSAID || is_listed;
        if code == Some(self.case.exit) && !was_told {
            if let Some(e) = &differs {
                return Err(format!("it said that it was done: {e}; it said: {said}").into());
            }
        } else if !was_told {
            middle.between(&self.before, &self.after)?;
        }
        self.verify(world, &middle, false)?;
        if matches!(fate, Fate::Cut) && rng.below(2) == 0 {
            self.go_back(world)?;
        }
        if self.case.again == Again::Same || differs.is_some() {
            self.go_on(world, was_told)?;
        }
        let last = state_of(world, self.case)?;
        self.verify(world, &last, true)?;
        if self.case.overwrites() {
            self.comes_back(world)?;
        }
        self.read_back(world, rng)?;
        self.work_goes_on(world)
    }

    /// What must hold where something is damaged: what is said to be done is done, and what is
    /// not done harms nothing.
    pub fn check_answer(&self, world: &World, ended: &Ended) -> Outcome {
        self.check_end(ended)?;
        let state = state_of(world, self.case)?;
        if ended.code == Some(self.case.exit) && self.case.exit != INCOMPLETE {
            let differs = state.differs_in_files(&self.after);
            return differs.map_or(Ok(()), |e| {
                Err(format!("it said that it was done: {e}").into())
            });
        }
        Ok(state.files_between(&self.before, &self.after)?)
    }

    /// What was overwritten on request is there again after `undo`: one for each time that the
    /// command ran.
    fn comes_back(&self, world: &World) -> Outcome {
        let mut differs = None;
        let words = self.case.words();
        let [at, dir, ..] = words[..] else {
            return Err("it runs in no worktree".into());
        };
        for _ in 0..2 {
            let (code, _, said) = world.run(&[at, dir, "undo"])?;
            if code != Some(0) {
                return Err(format!("undo ends with {code:?}: {said}; before: {differs:?}").into());
            }
            differs = State::of(&world.now())?.differs_in_files(&self.before);
            if differs.is_none() {
                return Ok(());
            }
        }
        Err(format!("undo does not bring everything back: {differs:?}").into())
    }

    /// How a command may end whose system calls fail.
    fn check_end(&self, ended: &Ended) -> Outcome {
        let said = &ended.said;
        // The program did not come to its start.
        let no_start = ended.code == Some(127) && said.contains("shared librar");
        if said.contains("panicked at") {
            return Err(format!("it panics: {said}").into());
        }
        if !ended.code.is_some_and(|code| EXITS.contains(&code)) && !no_start {
            return Err(format!("it ends with {:?}: {said}", ended.code).into());
        }
        // What is damaged is its answer, not a failure of the command.
        let ok = [Some(0), Some(DAMAGE), Some(self.case.exit)].contains(&ended.code);
        if !ok && !no_start && !names_something(said) {
            return Err(format!("the message names nothing: {said}").into());
        }
        Ok(())
    }

    /// Where `status` names a way back, the files of that worktree are then as before.
    fn go_back(&self, world: &World) -> Outcome {
        for dir in fs::read_dir(world.now())? {
            let dir = dir?;
            let name = dir.file_name().into_string().unwrap_or_default();
            if !dir.path().join(".dmv").exists() {
                continue;
            }
            let (_, text, _) = world.run(&["-C", &name, "status", "--json"])?;
            let status: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
            let Some(way) = status["unfinished"]["go_back"].as_str() else {
                continue;
            };
            let words = way.split(' ').skip(1);
            let args: Vec<&str> = ["-C", &name].into_iter().chain(words).collect();
            let (code, _, said) = world.run(&args)?;
            let of_it = |state: &State| {
                let mut state = state.clone();
                state.files.retain(|path, _| path.starts_with(&name));
                state
            };
            let state = of_it(&State::of(&world.now())?);
            match (code, state.differs_in_files(&of_it(&self.before))) {
                (Some(0), None) => {}
                (code, differs) => {
                    let differs = differs.unwrap_or_default();
                    return Err(format!("{name}: {way}: {code:?} ({said}): {differs}").into());
                }
            }
        }
        Ok(())
    }

    /// The same command once more arrives where it would have arrived. Not where it has listed
    /// what it left out: then it is done, and the rest is the user's.
    fn go_on(&self, world: &World, was_told: bool) -> Outcome {
        let again = run(world, world.dmv(&self.case.words()), None)?;
        let state = state_of(world, self.case)?;
        let said = &again.said;
        let differs = match self.case.again {
            Again::Rest => state.differs_in_files(&self.after),
            Again::Same | Again::More => state.differs(&self.after),
        };
        match (again.code, differs) {
            (Some(code), differs) if EXITS.contains(&code) && (was_told || differs.is_none()) => {
                Ok(())
            }
            (code, differs) => {
                let differs = differs.unwrap_or_default();
                Err(format!("run again, it ends with {code:?} ({said}): {differs}").into())
            }
        }
    }

    /// Every repository is whole: at once, and at the end as after an undisturbed run.
    fn verify(&self, world: &World, state: &State, is_end: bool) -> Outcome {
        for (repo, (code, said)) in verify_each(world, state)? {
            let may = self.verified.get(&repo).copied().unwrap_or_default();
            let fine = match is_end {
                true => code == may.1,
                // One that is being made need not be one yet, but nothing in it is damaged.
                false if may.0.is_none() => [Some(0), Some(10)].contains(&code),
                false => code == Some(0) || code == may.0 || code == may.1,
            };
            if !fine {
                let when = if is_end { "at the end" } else { "at once" };
                return Err(format!("verify {when} of {repo}: {code:?}: {said}").into());
            }
        }
        Ok(())
    }

    /// A commit, chosen at random, comes out byte for byte.
    fn read_back(&self, world: &World, rng: &mut Rng) -> Outcome {
        for repo in ["film", "lean"] {
            if self.case.parts.contains(&repo) {
                read_commit(world, repo, rng)?;
            }
        }
        Ok(())
    }

    /// The next command works, with no step before it.
    fn work_goes_on(&self, world: &World) -> Outcome {
        for (repo, is) in &self.after.repos {
            let has_files = world.now().join(repo).join(".dmv").exists();
            let Some(dir) = repo.to_str().filter(|_| is.is_ok() && has_files) else {
                continue;
            };
            if !world.now().join(dir).join(".dmv").is_dir() {
                continue;
            }
            // In a directory that every subset has.
            let path = world.now().join(repo).join("dir/one-more.txt");
            fs::create_dir_all(path.parent().ok_or("no parent")?)?;
            fs::write(path, "one more")?;
            let args = ["-C", dir, "commit", "-m", "one more", "dir/one-more.txt"];
            let (code, _, said) = world.run(&args)?;
            // A clone without files.
            if said.contains("outside of the worktree's subset") {
                continue;
            }
            if code != Some(0) {
                return Err(format!("{dir}: the next commit: {code:?} {said}").into());
            }
            let (code, text, said) = world.run(&["-C", dir, "cat", "@:dir/one-more.txt"])?;
            if (code, &*text) != (Some(0), "one more") {
                return Err(format!("{dir}: the next commit holds {text:?} {said}").into());
            }
        }
        Ok(())
    }
}

/// A commit of `film`, chosen at random, comes out of `repo` byte for byte.
fn read_commit(world: &World, repo: &str, rng: &mut Rng) -> Outcome {
    let (id, known) = world.commit(rng.word());
    let out = world.beside("read");
    if out.exists() {
        fs::remove_dir_all(&out)?;
    }
    let to = out.to_str().ok_or("a path of ours is text")?;
    let (code, _, said) = world.run(&["-C", repo, "export", id, "--to", to])?;
    if code != Some(0) {
        return Err(format!("commit {id} of {repo} cannot be read: {code:?} {said}").into());
    }
    match State::of(&out)?.differs_in_files(&State::of(&known)?) {
        None => Ok(()),
        Some(e) => Err(format!("commit {id} of {repo} reads back otherwise: {e}").into()),
    }
}

/// Reads the state of everything. How a command that overwrites files notes them depends on how often it ran:
/// undo tells whether they are there.
fn state_of(world: &World, case: &Case) -> Outcome<State> {
    let mut state = State::of(&world.now())?;
    if case.overwrites() {
        state.forget_steps();
    }
    Ok(state)
}

/// The cases, each with what it does undisturbed, learnt when it is first needed.
pub struct Book {
    cases: Vec<&'static Case>,
    known: BTreeMap<usize, Known>,
}

impl Book {
    /// All cases whose text contains what DMV_ONLY says.
    pub fn new() -> Book {
        let only = std::env::var("DMV_ONLY").unwrap_or_default();
        let cases = CASES.iter().filter(|case| case.args.contains(&only));
        Book {
            cases: cases.collect(),
            known: BTreeMap::new(),
        }
    }

    pub fn len(&self) -> u64 {
        self.cases.len() as u64
    }

    pub fn get(&mut self, world: &World, n: u64) -> Outcome<&Known> {
        let n = n as usize;
        if !self.known.contains_key(&n) {
            let case = self.cases[n];
            let known = Known::learn(world, case);
            let known = known.map_err(|e| format!("undisturbed: {}: {e}", case.args))?;
            self.known.insert(n, known);
        }
        Ok(&self.known[&n])
    }
}

/// A path, an object, a name between quotes, or at least one item that was left out.
fn names_something(said: &str) -> bool {
    if said.lines().any(|line| line.starts_with("warning: ")) {
        return true;
    }
    let error = said.lines().find_map(|line| line.strip_prefix("error: "));
    let Some(error) = error else {
        return false;
    };
    // "cannot sync text.txt: ..."
    let what = error.split(':').next().unwrap_or_default();
    if what.starts_with("cannot ") && what.split(' ').count() > 2 {
        return true;
    }
    let is_id = |word: &str| word.len() >= 8 && word.bytes().all(|b| b.is_ascii_hexdigit());
    let mut words = error.split(|c: char| !c.is_ascii_alphanumeric());
    error.contains(['/', '\''])
        || error.contains("refs.db")
        || error.contains("output")
        || [
            "uncommitted changes in ",
            " was not pushed to ",
            ".txt",
            " no longer answers",
        ]
        .iter()
        .any(|words| error.contains(words))
        || words.any(is_id)
}

fn verify_all(world: &World, state: &State) -> Outcome<BTreeMap<String, Codes>> {
    let each = verify_each(world, state)?;
    Ok(each
        .into_iter()
        .map(|(repo, (code, _))| (repo, (code, code)))
        .collect())
}

fn verify_each(world: &World, state: &State) -> Outcome<BTreeMap<String, (Option<i32>, String)>> {
    let mut out = BTreeMap::new();
    for repo in state.repos.keys() {
        let dir = repo.to_str().ok_or("a path of ours is text")?;
        let (code, printed, said) = world.run(&["-C", dir, "verify", "--full"])?;
        out.insert(dir.to_owned(), (code, printed + &said));
    }
    Ok(out)
}

/// Runs a command to its end, or kills it after a delay.
pub fn run(world: &World, mut command: Command, kill: Option<Duration>) -> Outcome<Ended> {
    let heard = world.beside("heard");
    command
        .stdout(File::create(world.beside("printed"))?)
        .stderr(File::create(&heard)?)
        .process_group(0);
    let started = Instant::now();
    let mut child = command.spawn()?;
    let status = match kill {
        Some(delay) => {
            std::thread::sleep(delay);
            child.kill()?;
            child.wait()?
        }
        None => wait(&mut child, started + HANG)?,
    };
    let took = started.elapsed();
    // What it started, a program on the other side of a pipe, ends by itself.
    wait_for_group(&child)?;
    Ok(Ended {
        code: status.code(),
        said: String::from_utf8_lossy(&fs::read(heard)?).into_owned(),
        took,
    })
}

fn wait(child: &mut Child, until: Instant) -> Outcome<std::process::ExitStatus> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() > until {
            let _ = kill_process_group(Pid::from_child(child), rustix::process::Signal::KILL);
            child.wait()?;
            return Err("it hangs".into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn wait_for_group(child: &Child) -> Outcome {
    let (group, until) = (Pid::from_child(child), Instant::now() + HANG);
    while test_kill_process_group(group).is_ok() {
        if Instant::now() > until {
            let _ = kill_process_group(group, rustix::process::Signal::KILL);
            return Err("what it has started stays".into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Where the random numbers of a run start, from the environment or the clock.
pub fn fresh_seed() -> u64 {
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    dmv_random::seed(clock.map_or(1, |t| t.as_nanos() as u64 >> 10))
}

/// Counts trials, keeps what failed, and says both at the end.
pub struct Tally {
    name: &'static str,
    seed: u64,
    trials: u64,
    failures: Vec<String>,
}

impl Tally {
    pub fn new(name: &'static str, seed: u64) -> Tally {
        Tally {
            name,
            seed,
            trials: 0,
            failures: Vec::new(),
        }
    }

    /// Counts a trial; prints what failed, with what repeats it.
    pub fn count(&mut self, what: impl FnOnce() -> String, done: Outcome) {
        self.trials += 1;
        if let Err(e) = done {
            let text = format!("{}: {e}", what()).replace('\n', " | ");
            println!(
                "FAILED {}",
                text.chars().take(MAX_SHOWN).collect::<String>()
            );
            self.failures.push(text);
        }
    }

    /// Prints the line that `tests/tier.sh` reads.
    pub fn finish(self, unit: &str) -> Outcome {
        let (name, trials, failed) = (self.name, self.trials, self.failures.len());
        println!(
            "harness {name}: {trials} {unit}, {failed} failed, seed {}",
            self.seed
        );
        match self.failures.first() {
            None => Ok(()),
            Some(first) => Err(format!("{failed} of {trials} failed; the first: {first}").into()),
        }
    }
}
