//! The program at a terminal: a pseudo-terminal, which `script` of util-linux makes.

use super::{Outcome, Place};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

/// What somebody at a terminal has seen.
pub struct Seen {
    /// The exit code.
    pub exit: Option<i32>,
    /// All that was written to the terminal, with line ends as in a file.
    pub text: String,
}

/// Whether there is a `script` that passes on exit codes.
pub fn has_script() -> bool {
    let tried = Command::new("script")
        .args(["-qec", "exit 3", "/dev/null"])
        .output();
    tried.is_ok_and(|output| output.status.code() == Some(3))
}

impl Place {
    /// Runs the program at a terminal with this number of lines, and with more variables.
    pub fn at_terminal(&self, lines: u16, env: &[(&str, &str)], args: &[&str]) -> Outcome<Seen> {
        self.typing_at_terminal("", lines, env, args)
    }

    /// The same, while somebody types `typed`.
    pub fn typing_at_terminal(
        &self,
        typed: &str,
        lines: u16,
        env: &[(&str, &str)],
        args: &[&str],
    ) -> Outcome<Seen> {
        let words = [&[env!("CARGO_BIN_EXE_dmv")], args].concat();
        let quoted = |word: &&str| format!("'{}'", word.replace('\'', "'\\''"));
        let command: Vec<String> = words.iter().map(quoted).collect();
        let line = format!("stty rows {lines} cols 80; exec {}", command.join(" "));
        let mut script = self.command_of("script", &["-qec", &line, "/dev/null"]);
        let script = script
            .env("SHELL", "/bin/sh")
            .env("TERM", "xterm")
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .envs(env.iter().copied());
        let done = if typed.is_empty() {
            script.output()?
        } else {
            let script = script.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut running = script.spawn()?;
            let mut keys = running.stdin.take().ok_or("no input")?;
            keys.write_all(typed.as_bytes())?;
            drop(keys);
            running.wait_with_output()?
        };
        Ok(Seen {
            exit: done.status.code(),
            text: String::from_utf8(done.stdout)?.replace("\r\n", "\n"),
        })
    }

    /// Writes a shell script into the home, and returns its path.
    pub fn script(&self, name: &str, text: &str) -> Outcome<String> {
        let path = self.home().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n"))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(path.display().to_string())
    }
}
