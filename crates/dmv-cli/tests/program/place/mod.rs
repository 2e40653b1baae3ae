//! Where a test of the program runs it, and how.

pub mod files;
pub mod hints;
pub mod mount;
pub mod running;
pub mod several;
pub mod terminal;

use serde_json::Value;
use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// The least free memory for which the directories of tests are in memory.
const ROOM: u64 = 2 << 30;

/// Makes a temporary directory, in memory if there is room. A commit waits for the disk several times, which takes ten
/// times as long as all of its work.
pub fn temp_dir() -> io::Result<TempDir> {
    let memory = Path::new("/dev/shm");
    let has_room = rustix::fs::statvfs(memory).is_ok_and(|fs| fs.f_bavail * fs.f_frsize >= ROOM);
    if has_room {
        TempDir::new_in(memory)
    } else {
        TempDir::new()
    }
}

/// A directory with a worktree and a home of its own.
pub struct Place {
    /// Removed with the test.
    pub dir: TempDir,
    /// What the program finds in its environment besides its home.
    pub env: Vec<(&'static str, OsString)>,
}

impl Place {
    /// A directory for a worktree, empty.
    pub fn new() -> Result<Place, Box<dyn Error>> {
        let place = Place {
            dir: temp_dir()?,
            env: Vec::new(),
        };
        fs::create_dir_all(place.work())?;
        fs::create_dir_all(place.home())?;
        Ok(place)
    }

    /// A new repository in it.
    pub fn with_repository() -> Result<Place, Box<dyn Error>> {
        let place = Place::new()?;
        place.ok(&["init"])?;
        Ok(place)
    }

    /// The worktree.
    pub fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// The home of whoever runs the program.
    pub fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    /// The program in the worktree, with no environment but this home and [`Place::env`].
    pub fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        self.command_of(env!("CARGO_BIN_EXE_dmv"), args)
    }

    /// The program under strace with these options.
    pub fn traced(&self, options: &[&str], args: &[&str]) -> Command {
        let program = [env!("CARGO_BIN_EXE_dmv")];
        let mut command = self.command_of("strace", &[options, &program, args].concat());
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command
    }

    /// Another program in the same place.
    pub fn command_of<S: AsRef<OsStr>>(&self, program: &str, args: &[S]) -> Command {
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(self.work())
            .env_clear()
            .env("HOME", self.home())
            .env("XDG_CONFIG_HOME", self.home().join("config"))
            .env("USER", "ada")
            .env("DMV_USER_NAME", "ada")
            .env("NO_COLOR", "1")
            .envs(self.env.iter().cloned())
            .stdin(Stdio::null());
        command
    }

    /// Runs it. What it tells the user to run is looked at, too: [`hints`].
    pub fn run<S: AsRef<OsStr>>(&self, args: &[S]) -> Result<Output, Box<dyn Error>> {
        let output = self.command(args).output()?;
        hints::check(self, args, &output)?;
        check_objects(args, &output);
        Ok(output)
    }

    /// Runs a command that has to succeed, and returns what it printed.
    pub fn ok<S: AsRef<OsStr>>(&self, args: &[S]) -> Result<String, Box<dyn Error>> {
        let output = self.run(args)?;
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{:?}: {errors}", shown(args));
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Runs a command that has to end with `exit`, and returns what it said on the side.
    pub fn fails<S: AsRef<OsStr>>(&self, exit: i32, args: &[S]) -> Result<String, Box<dyn Error>> {
        let output = self.run(args)?;
        let errors = String::from_utf8(output.stderr)?;
        let code = output.status.code();
        assert_eq!(code, Some(exit), "{:?}: {errors}", shown(args));
        Ok(errors)
    }

    /// Runs a command that has to succeed, and reads the one document it prints.
    pub fn json<S: AsRef<OsStr>>(&self, args: &[S]) -> Result<Value, Box<dyn Error>> {
        Ok(serde_json::from_str(&self.ok(args)?)?)
    }

    /// The same for JSON Lines.
    pub fn records<S: AsRef<OsStr>>(&self, args: &[S]) -> Result<Vec<Value>, Box<dyn Error>> {
        let text = self.ok(args)?;
        Ok(text
            .lines()
            .map(serde_json::from_str)
            .collect::<Result<_, _>>()?)
    }

    /// Writes a file of the worktree, and the directories above it.
    pub fn write(&self, path: impl AsRef<OsStr>, content: impl AsRef<[u8]>) -> Outcome {
        let path = self.work().join(path.as_ref());
        fs::create_dir_all(path.parent().ok_or("no parent")?)?;
        Ok(fs::write(path, content)?)
    }

    /// Commits everything and returns the id.
    pub fn commit(&self, message: &str) -> Result<String, Box<dyn Error>> {
        let done = self.json(&["commit", "-m", message, "--json"])?;
        Ok(done["commit"]
            .as_str()
            .ok_or("nothing to commit")?
            .to_owned())
    }
}

fn shown<S: AsRef<OsStr>>(args: &[S]) -> Vec<&OsStr> {
    args.iter().map(AsRef::as_ref).collect()
}

/// With `--json`, whatever is said on the side is an object on a line of its own.
fn check_objects<S: AsRef<OsStr>>(args: &[S], output: &Output) {
    let mut options = args
        .iter()
        .map(AsRef::as_ref)
        .take_while(|arg| *arg != "--");
    if !options.any(|arg| arg == "--json") {
        return;
    }
    for line in String::from_utf8_lossy(&output.stderr).lines() {
        let is_object = serde_json::from_str(line).is_ok_and(|value: Value| value.is_object());
        assert!(
            is_object,
            "{:?}: a line that is no object: {line}",
            shown(args)
        );
    }
}

/// Whether strace can be used here.
pub fn has_strace() -> bool {
    let found = Command::new("strace").arg("-V").output();
    found.is_ok_and(|output| output.status.success())
}
