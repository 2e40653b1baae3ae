//! `dmv demo`

use crate::peers::refuse_address;
use crate::prelude::*;
use crate::progress::Watch;
use anstyle::Style;
use std::fs;
use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Run a short tour: real commands on a small media project
///
/// dmv prints each command before it runs it. Without DIR it removes the project at the end.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv demo\n  dmv demo /tmp/tour && cd /tmp/tour")]
pub struct Args {
    /// Create the project here and keep it
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Bytes of the clip that the tour edits.
const CLIP_BYTES: usize = 8 << 20;
/// Bytes of the still, about.
const STILL_BYTES: usize = 40_000;
/// Where the edit happens, and how much is put in.
const EDIT_AT: u64 = 3_000_000;
const EDIT_BYTES: usize = 2_000;

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let temp = match args.dir {
        Some(_) => None,
        None => {
            let made = tempfile::Builder::new().prefix("dmv-demo-").tempdir();
            let here = std::env::temp_dir();
            Some(made.map_err(|e| Failure::file("create a directory in", &here, &e))?)
        }
    };
    let dir = match (&args.dir, &temp) {
        (Some(dir), _) => dir.clone(),
        (None, Some(temp)) => temp.path().to_owned(),
        (None, None) => return Err(Failure::usage("a directory is needed")),
    };
    refuse_address(&dir)?;
    prepare(&dir)?;
    // The commands run elsewhere.
    let dir = fs::canonicalize(&dir).map_err(|e| Failure::file("find", &dir, &e))?;
    let tour = Tour {
        context,
        program: std::env::current_exe()
            .map_err(|e| Failure::file("find", Path::new("this program"), &e))?,
        dir,
    };
    // Ctrl-C ends the command that runs; then the project is still to be removed.
    let watch = Watch::patient(context.job.clone());
    let exit = tour.take();
    drop(watch);
    if let Some(temp) = temp {
        // What is left in a temporary directory is tidied up by the system.
        let _ = temp.close();
    }
    exit
}

/// Makes the directory, which may be there if it is empty.
fn prepare(dir: &Path) -> Result<(), Failure> {
    fs::create_dir_all(dir).map_err(|e| Failure::file("create", dir, &e))?;
    let mut entries = fs::read_dir(dir).map_err(|e| Failure::file("list", dir, &e))?;
    match entries.next() {
        None => Ok(()),
        Some(_) => {
            let message = format!("{} is not empty", dir.display());
            Err(Failure::new("not-empty", EXIT_OTHER, message))
        }
    }
}

struct Tour<'a> {
    context: &'a Context,
    program: PathBuf,
    dir: PathBuf,
}

impl Tour<'_> {
    fn take(&self) -> Result<u8, Failure> {
        self.say("A small film project: notes, a cue sheet, a still and a clip of 8 MiB.")?;
        self.dmv(&["init", "--branch", "main"])?;
        self.write("notes.txt", b"Scene 1: harbour, dawn\n")?;
        self.write("sound/cues.csv", b"time,cue\n00:00:04,gulls\n")?;
        self.write("media/clip.mov", &noise(CLIP_BYTES))?;
        self.write("media/still.png", &noise(STILL_BYTES))?;
        self.dmv(&["status", "--all"])?;
        self.dmv(&["commit", "-m", "first cut"])?;

        self.say("Insert two kilobytes into the middle of the clip, and add a line to the notes.")?;
        self.insert("media/clip.mov", EDIT_AT, &noise(EDIT_BYTES))?;
        self.write(
            "notes.txt",
            b"Scene 1: harbour, dawn\nScene 2: market, noon\n",
        )?;
        self.dmv(&["diff"])?;
        self.say("dmv stores only the new data, not the complete clip again.")?;
        self.dmv(&["commit", "-m", "gulls come in later"])?;
        self.dmv(&["tag", "rough-cut"])?;

        self.say("A branch for another version: each branch has its own files.")?;
        self.dmv(&["branch", "night"])?;
        self.dmv(&["checkout", "night"])?;
        self.write("notes.txt", b"Scene 1: harbour, night\n")?;
        self.write("media/still.png", &noise(STILL_BYTES + 2))?;
        self.dmv(&["commit", "-m", "what if it were night"])?;
        self.dmv(&["checkout", "main"])?;
        self.dmv(&["log", "night"])?;
        self.dmv(&["branch"])?;

        self.say("You can look into any commit without a checkout.")?;
        self.dmv(&["ls", "-lr", "night"])?;
        self.dmv(&["cat", "night:notes.txt"])?;
        self.dmv(&["diff", "main", "night", "--stat"])?;

        self.merge()?;
        self.subset()?;

        self.say("Delete a file by accident, and restore it.")?;
        fs::remove_file(self.dir.join("sound/cues.csv"))
            .map_err(|e| Failure::file("remove", &self.dir.join("sound/cues.csv"), &e))?;
        self.dmv(&["status"])?;
        self.dmv(&["restore", "sound"])?;
        self.dmv(&["status"])?;

        self.say("The size of the newest commit, and of the complete history.")?;
        self.dmv(&["du"])?;
        self.dmv(&["stats"])?;
        self.say("dmv checks every byte against its id.")?;
        self.dmv(&["verify"])?;
        self.peers()?;
        self.say(
            "You have seen commits that store only new data, history, branches, a merge with a \
             conflict, undo, a subset, restored files, a check of the repository, and a second \
             repository.",
        )?;
        Ok(0)
    }

    /// Two versions of a still, and an answer that is taken back and given again.
    fn merge(&self) -> Result<(), Failure> {
        self.say(
            "Both branches change the same still: the merge keeps both versions as a conflict.",
        )?;
        self.write("media/still.png", &noise(STILL_BYTES + 1))?;
        self.dmv(&["commit", "-m", "the still, warmer"])?;
        self.dmv_ending(&["merge", "night"], EXIT_CONFLICTS)?;
        self.dmv(&["conflicts"])?;
        self.say("Look at each version, then choose one of them, or both.")?;
        self.dmv(&["show"])?;
        self.dmv(&["resolve", "media/still.png", "--both"])?;
        self.dmv(&["status"])?;
        self.dmv(&["commit", "-m", "night, and both grades of the still"])?;
        self.dmv(&["log", "--graph", "--oneline"])?;

        self.say("You can undo any of this, and redo it.")?;
        self.dmv(&["undo"])?;
        self.dmv(&["redo"])?;
        self.dmv(&["op", "log", "-n", "4"])
    }

    /// A part of the project, and a commit from it.
    fn subset(&self) -> Result<(), Failure> {
        self.say("The sound department needs only a part: dmv removes the other files from the worktree.")?;
        self.dmv(&["checkout", "main", "--subset", "sound", "*.txt"])?;
        self.dmv(&["status"])?;
        self.write(
            "sound/cues.csv",
            b"time,cue\n00:00:04,gulls\n00:00:09,bell\n",
        )?;
        self.say("A commit from the subset keeps all other files unchanged.")?;
        self.dmv(&["commit", "-m", "a bell"])?;
        self.dmv(&["ls", "-r"])?;
        self.dmv(&["checkout", "--all"])
    }

    /// A second repository, which goes when the tour ends.
    fn peers(&self) -> Result<(), Failure> {
        let made = tempfile::Builder::new().prefix("dmv-demo-peer-").tempdir();
        let here = std::env::temp_dir();
        let disk = made.map_err(|e| Failure::file("create a directory in", &here, &e))?;
        let peer = Tour {
            context: self.context,
            program: self.program.clone(),
            dir: disk.path().join("film"),
        };
        let (there, here) = (peer.dir.to_string_lossy(), self.dir.to_string_lossy());
        self.say("A second repository: on a disk, on another machine, or in a directory as here.")?;
        self.dmv(&["clone", &here, &there])?;
        self.say("Insert one kilobyte into the clip there. The pull transfers only the new data.")?;
        peer.insert("media/clip.mov", EDIT_AT, &noise(EDIT_BYTES / 2))?;
        peer.dmv(&["commit", "-m", "gulls once more"])?;
        self.dmv(&["remote", "add", "disk", &there])?;
        self.dmv(&["pull", "disk"])?;
        self.dmv(&["log", "-n", "2"])
    }

    fn say(&self, text: &str) -> Result<(), Failure> {
        let bold = Style::new().bold();
        let line = self
            .context
            .ui
            .paint(bold, format_args!("\n# {}", text.trim()));
        writeln!(self.context.ui.out(), "{line}")?;
        Ok(())
    }

    /// Prints a command and runs it; its output goes where ours goes.
    fn dmv(&self, args: &[&str]) -> Result<(), Failure> {
        self.dmv_ending(args, EXIT_OK)
    }

    /// A command that ends with the exit code `expected`.
    fn dmv_ending(&self, args: &[&str], expected: u8) -> Result<(), Failure> {
        let words = args.iter().map(|arg| hint!(" {}", Argument::value(arg)));
        let words = Hint::join(words, "");
        writeln!(self.context.ui.out(), "\n$ dmv{words}")?;
        self.context.ui.finish()?;
        // By environment, not by option: the operation log shows commands as they were given.
        let (on, off) = if self.context.ui.colored() {
            ("CLICOLOR_FORCE", "NO_COLOR")
        } else {
            ("NO_COLOR", "CLICOLOR_FORCE")
        };
        let status = Command::new(&self.program)
            .env(on, "1")
            .env_remove(off)
            .args(args)
            .current_dir(&self.dir)
            .status()
            .map_err(|e| Failure::file("run", &self.program, &e))?;
        self.context.job.check()?;
        if status.code() == Some(expected.into()) {
            return Ok(());
        }
        let message = format!("'dmv{words}' failed: {status}");
        Err(Failure::new("demo-failed", EXIT_OTHER, message))
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<(), Failure> {
        let path = self.dir.join(name);
        let parent = path.parent().unwrap_or(&self.dir);
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&path, content))
            .map_err(|e| Failure::file("write", &path, &e))
    }

    fn insert(&self, name: &str, at: u64, content: &[u8]) -> Result<(), Failure> {
        let path = self.dir.join(name);
        let edit = || {
            let mut file = OpenOptions::new().read(true).write(true).open(&path)?;
            let mut rest = Vec::new();
            file.seek(SeekFrom::Start(at))?;
            file.read_to_end(&mut rest)?;
            file.seek(SeekFrom::Start(at))?;
            file.write_all(content)?;
            file.write_all(&rest)
        };
        edit().map_err(|e| Failure::file("edit", &path, &e))
    }
}

/// Bytes that do not compress, the same in every tour: xorshift64.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ len as u64;
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(len);
    out
}
