//! A program that runs on while others use what it offers.

use super::{Outcome, Place};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

/// `dmv serve --json` or the like, running.
pub struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
    /// Its first line.
    pub ready: Value,
}

impl Running {
    /// Starts it and waits for its first line.
    pub fn start(command: &mut Command) -> Outcome<Running> {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().ok_or("no output")?);
        out.read_line(&mut line)?;
        let ready = serde_json::from_str(&line)?;
        Ok(Running { child, out, ready })
    }

    /// `dmv serve --json` with more arguments.
    pub fn serve(place: &Place, args: &[&str]) -> Outcome<Running> {
        let mut all = vec!["serve", "--json"];
        all.extend(args);
        Running::start(&mut place.command(&all))
    }

    /// The first of the addresses in the first line.
    pub fn address(&self) -> Outcome<String> {
        let at = self.ready["addresses"][0].as_str();
        Ok(at.ok_or("no address")?.to_owned())
    }

    /// Waits until it ends, and returns its exit code and what it printed since the first line.
    pub fn rest(mut self) -> Outcome<(Option<i32>, String)> {
        let mut text = String::new();
        self.out.read_to_string(&mut text)?;
        Ok((self.child.wait()?.code(), text))
    }

    /// Ends it as a service manager does, and returns its exit code and what it said on the side.
    pub fn stop(self) -> Outcome<(Option<i32>, String)> {
        let (exit, said, _) = self.stop_and_hear()?;
        Ok((exit, said))
    }

    /// The same, with the records that it printed since the first.
    pub fn stop_and_hear(mut self) -> Outcome<(Option<i32>, String, Vec<Value>)> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        let mut said = String::new();
        let mut err = self.child.stderr.take().ok_or("no output")?;
        err.read_to_string(&mut said)?;
        let mut text = String::new();
        self.out.read_to_string(&mut text)?;
        let records = text.lines().map(serde_json::from_str);
        Ok((
            self.child.wait()?.code(),
            said,
            records.collect::<Result<_, _>>()?,
        ))
    }
}

/// A test that fails leaves nothing running.
impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
