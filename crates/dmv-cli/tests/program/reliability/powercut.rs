//! Power cuts on a real ext4, or XFS with `DMV_FS=xfs`: it forgets, from one moment to the next, what was not made durable.
//!
//! The ioctl `EXT4_IOC_SHUTDOWN` stops a file system without writing its journal. What it leaves on
//! the loop device is what a disk has after a power cut. It needs root, and a few lines of Python,
//! since no safe Rust makes that call.

use super::trial::{Book, Fate, Known, Tally, fresh_seed};
use super::world::World;
use crate::place::Outcome;
use dmv_random::{Rng, number, seed};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Stops the file system below a directory whenever a line comes.
const STOPPER: &str = "
import fcntl, os, struct, sys
for line in sys.stdin:
    d = os.open(sys.argv[1], os.O_RDONLY)
    fcntl.ioctl(d, 0x8004587d, struct.pack('I', 2))
    os.close(d)
    print('cut', flush=True)
";

/// An ext4 or XFS in a file, mounted.
struct Disk {
    dir: TempDir,
    device: String,
    stopper: Option<(Child, ChildStdin, BufReader<ChildStdout>)>,
}

impl Disk {
    /// None, and why, where this machine cannot do it.
    fn new() -> Result<Disk, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("it takes root".into());
        }
        let dir = TempDir::new().map_err(|e| e.to_string())?;
        let image = dir.path().join("image");
        let made = File::create(&image).and_then(|file| file.set_len(512 << 20));
        made.map_err(|e| e.to_string())?;
        let image = image.to_string_lossy().into_owned();
        // The same ioctl stops XFS.
        match std::env::var("DMV_FS").as_deref() {
            Ok("xfs") => say("mkfs.xfs", &["-q", &image])?,
            _ => say("mkfs.ext4", &["-q", "-F", &image])?,
        };
        let device = say("losetup", &["--find", "--show", &image])?;
        let mut disk = Disk {
            dir,
            device: device.trim().to_owned(),
            stopper: None,
        };
        fs::create_dir(disk.mount()).map_err(|e| e.to_string())?;
        disk.plug_in()?;
        disk.stopper = Some(disk.start()?);
        Ok(disk)
    }

    fn mount(&self) -> PathBuf {
        self.dir.path().join("disk")
    }

    fn plug_in(&self) -> Result<(), String> {
        say("mount", &[&self.device, &self.mount().to_string_lossy()]).map(|_| ())
    }

    fn start(&self) -> Result<(Child, ChildStdin, BufReader<ChildStdout>), String> {
        let mut command = Command::new("python3");
        let command = command.args(["-c", STOPPER]).arg(self.mount());
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|e| format!("python3: {e}"))?;
        let input = child.stdin.take().ok_or("no input")?;
        let output = child.stdout.take().ok_or("no output")?;
        Ok((child, input, BufReader::new(output)))
    }

    /// Everything that is not on the disk yet is lost.
    fn cut(&mut self) -> Outcome {
        let (_, input, output) = self.stopper.as_mut().ok_or("nobody cuts")?;
        input.write_all(b"\n")?;
        let mut line = String::new();
        output.read_line(&mut line)?;
        match line.trim() {
            "cut" => Ok(()),
            _ => Err("this file system cannot be stopped".into()),
        }
    }

    fn restart(&self) -> Outcome {
        // As long as a mount namespace of another program has the stopped file system, Linux mounts it as it was.
        for _ in 0..20 {
            say("umount", &[&self.mount().to_string_lossy()])?;
            self.plug_in()?;
            if sync(&self.mount()).is_ok() {
                return Ok(());
            }
        }
        Err("the file system stays stopped".into())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Some((mut child, input, _)) = self.stopper.take() {
            drop(input);
            let _ = child.wait();
        }
        let _ = say("umount", &[&self.mount().to_string_lossy()]);
        let _ = say("losetup", &["--detach", &self.device]);
    }
}

fn say(program: &str, args: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(args).output();
    let output = output.map_err(|e| format!("{program}: {e}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!(
            "{program}: {}",
            String::from_utf8_lossy(&output.stderr)
        ))
    }
}

fn cut_power(count: u64, seed: u64) -> Outcome {
    let mut disk = match Disk::new() {
        Ok(disk) => disk,
        Err(why) => {
            dmv_random::skip(format_args!("no file system can be stopped here: {why}"));
            return Ok(());
        }
    };
    let (world, mut book) = (World::on(&disk.mount().join("now"))?, Book::new());
    let (mut tally, mut done) = (Tally::new("powercuts", seed), 0);
    for n in 0..count {
        let mut rng = Rng::new(seed.wrapping_add(n));
        let one = book.get(&world, rng.below(book.len()))?;
        // Exported files are the caller's to make durable, as those of `cp` are.
        if one.case.args.contains(" export ") {
            continue;
        }
        let part = rng.below(1300);
        let result = cut_one(&world, &mut disk, one, part, &mut rng);
        done += u64::from(matches!(result, Ok(Fate::Done)));
        let what = || {
            format!(
                "DMV_SEED={} DMV_COUNT=1: {} at {part}",
                seed.wrapping_add(n),
                one.case.args
            )
        };
        tally.count(what, result.map(|_| ()));
    }
    tally.finish(&format!("power cuts ({done} after the command was done)"))
}

/// Cuts the power when a part, in thousandths, of the command's time is over; returns whether it
/// was done by then.
fn cut_one(world: &World, disk: &mut Disk, one: &Known, part: u64, rng: &mut Rng) -> Outcome<Fate> {
    world.reset(one.case.parts)?;
    sync(&disk.mount())?;
    let mut command = world.dmv(&one.case.words());
    command
        .stdout(File::create(world.beside("printed"))?)
        .stderr(File::create(world.beside("heard"))?)
        .process_group(0);
    let mut child = command.spawn()?;
    std::thread::sleep(one.took.mul_f64(part as f64 / 1000.0));
    let ended = child.try_wait()?;
    disk.cut()?;
    let group = Pid::from_child(&child);
    let _ = kill_process_group(group, Signal::KILL);
    child.wait()?;
    while rustix::process::test_kill_process_group(group).is_ok() {
        std::thread::sleep(Duration::from_millis(1));
    }
    disk.restart()?;
    let fate = match ended.and_then(|status| status.code()) {
        Some(code) if code == one.case.exit => Fate::Done,
        Some(code) => return Err(format!("undisturbed, it ends with {code}").into()),
        None => Fate::Cut,
    };
    one.check(world, &fate, rng)?;
    Ok(fate)
}

fn sync(dir: &Path) -> Outcome {
    Ok(rustix::fs::syncfs(File::open(dir)?)?)
}

/// A few in the ordinary run.
#[test]
fn power_cuts_lose_nothing_that_was_acknowledged() -> Outcome {
    cut_power(number("DMV_COUNT", 2), seed(1))
}

/// `DMV_COUNT` of them, 1,000 otherwise.
#[test]
#[ignore = "ten minutes"]
fn many_power_cuts_lose_nothing_that_was_acknowledged() -> Outcome {
    cut_power(number("DMV_COUNT", 1000), fresh_seed())
}
