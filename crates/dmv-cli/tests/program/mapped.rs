//! Writes through a memory map to a page that is dirty already, which change no time by themselves.

#![allow(clippy::print_stdout)]

use crate::place::{Outcome, Place};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Maps the file that it is given, writes to it at once, and then one byte for each line, an offset,
/// that it is told. With `--tells` it says whether the file system can tell of such writes at all.
const WRITER: &str = r#"
import mmap, os, sys, time
path = sys.argv[1]
fd = os.open(path, os.O_RDWR)
m = mmap.mmap(fd, 0)
m[0] = 0x31
if len(sys.argv) > 2:
    os.fdatasync(fd)
    before = os.stat(path).st_mtime_ns
    time.sleep(0.05)
    m[1] = 0x32
    print("yes" if os.stat(path).st_mtime_ns != before else "no", flush=True)
    sys.exit()
print("ready", flush=True)
for line in sys.stdin:
    m[int(line)] = 0x33
    print("written", flush=True)
"#;

/// A process that keeps a file of the worktree mapped.
struct Writer(Child, BufReader<std::process::ChildStdout>);

impl Writer {
    fn start(place: &Place, path: &str, tells: &[&str]) -> Outcome<Writer> {
        let mut child = Command::new("python3")
            .args(["-c", WRITER])
            .arg(place.work().join(path))
            .args(tells)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let out = child.stdout.take().ok_or("no output")?;
        Ok(Writer(child, BufReader::new(out)))
    }

    fn answer(&mut self) -> Outcome<String> {
        let mut line = String::new();
        self.1.read_line(&mut line)?;
        Ok(line.trim().to_owned())
    }

    fn write_at(&mut self, offset: usize) -> Outcome {
        // Past the time in which two changes look like one.
        std::thread::sleep(Duration::from_millis(60));
        let stdin = self.0.stdin.as_mut().ok_or("no input")?;
        writeln!(stdin, "{offset}")?;
        assert_eq!(self.answer()?, "written");
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A writer of the file `f`, which is committed on two branches; `None` where none can be had.
fn writer(place: &Place) -> Outcome<Option<Writer>> {
    if Command::new("python3").arg("-V").output().is_err() {
        dmv_random::skip("python3 is not installed");
        return Ok(None);
    }
    place.write("f", vec![b'a'; 100_000])?;
    if Writer::start(place, "f", &["--tells"])?.answer()? != "yes" {
        dmv_random::skip("this file system never tells of a second write through a memory map");
        return Ok(None);
    }
    place.commit("one")?;
    place.ok(&["branch", "one"])?;
    place.write("f", vec![b'b'; 100_000])?;
    let mut writer = Writer::start(place, "f", &[])?;
    assert_eq!(writer.answer()?, "ready");
    std::thread::sleep(Duration::from_millis(60));
    Ok(Some(writer))
}

#[test]
fn a_write_through_a_map_that_was_open_during_a_commit_counts_as_changed() -> Outcome {
    let place = Place::with_repository()?;
    let Some(mut writer) = writer(&place)? else {
        return Ok(());
    };
    place.commit("two")?;
    place.ok(&["status", "--exit-code"])?;
    for offset in [0, 10, 50_000, 50_001, 11] {
        writer.write_at(offset)?;
        place.fails(1, &["status", "--exit-code"])?;
        let said = place.fails(5, &["checkout", "one"])?;
        assert!(said.contains("would lose"), "{said}");
        let bytes = fs::read(place.work().join("f"))?;
        assert_eq!(bytes[offset], b'3');
        std::thread::sleep(Duration::from_millis(60));
        place.commit("more")?;
        place.ok(&["status", "--exit-code"])?;
    }
    Ok(())
}

#[test]
fn a_write_through_a_map_after_a_status_counts_as_changed() -> Outcome {
    let place = Place::with_repository()?;
    let Some(mut writer) = writer(&place)? else {
        return Ok(());
    };
    // Commits it without a stat cache, so that status compares and remembers.
    place.commit("two")?;
    fs::remove_file(place.work().join(".dmv/worktrees/main/stat"))?;
    place.ok(&["status", "--exit-code"])?;
    writer.write_at(10)?;
    place.fails(1, &["status", "--exit-code"])?;
    place.fails(5, &["checkout", "one"])?;
    Ok(())
}
