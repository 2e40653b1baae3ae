//! Connections to a repository on a host that ssh reaches. `dmv serve --stdio` answers there.
//!
//! DMV runs the user's own ssh program with its settings, keys and jump hosts. It checks every part
//! of an address first. In several other programs, a host or user that begins with `-` could act as
//! an option to ssh.

use super::Reach;
use crate::session::{Link, NetError};
use dmv_core::fsutil::widen_pipe;
use dmv_core::threads;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The number of lines of ssh's error output that are kept to explain a failure.
const KEPT_LINES: usize = 20;
/// The option of `dmv serve --stdio` that creates a missing repository (docs/protocol.md).
const CREATE: &str = "--create";
/// How long ssh may take to end after the other end has closed the connection. Then it has said why.
const ENDING: Duration = Duration::from_secs(2);
/// What a POSIX shell ends with if it does not find a program.
const NOT_FOUND: i32 = 127;
/// The greatest length of a path at the other end, in bytes.
const MAX_PATH_BYTES: usize = 4096;

/// A checked address. Host, user, port and path cannot act as anything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshTarget {
    user: Option<String>,
    host: String,
    port: Option<u16>,
    path: String,
}

impl SshTarget {
    /// Parses the text after `ssh://`. Fails if a part is malformed; the text says which.
    pub(super) fn parse(text: &str) -> Result<SshTarget, &'static str> {
        let slash = text
            .find('/')
            .ok_or("it has no path; write ssh://HOST/PATH")?;
        let (place, path) = text.split_at(slash);
        if path.len() < 2 || path.len() > MAX_PATH_BYTES {
            return Err("its path is empty or too long");
        }
        if path.chars().any(char::is_control) {
            return Err("its path contains a control character");
        }
        let (user, place) = match place.rsplit_once('@') {
            Some((user, place)) => (Some(user_name(user)?), place),
            None => (None, place),
        };
        let (host, port) = match place.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest
                    .split_once(']')
                    .ok_or("its host has no closing bracket")?;
                let port = match port {
                    "" => None,
                    port => Some(port.strip_prefix(':').ok_or("its port is invalid")?),
                };
                let fits = |c: char| {
                    c.is_ascii_hexdigit() || ":.%".contains(c) || c.is_ascii_alphanumeric()
                };
                (host, port.filter(|_| host.chars().all(fits)))
            }
            None => match place.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (place, None),
            },
        };
        let word = |text: &str, more: &str| {
            !text.is_empty()
                && text.len() <= 255
                && !text.starts_with('-')
                && text
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || more.contains(c))
        };
        if !word(host, "-._:%") {
            return Err("its host name is invalid");
        }
        if user.as_ref().is_some_and(|user| !word(user, "-._@:+")) {
            return Err("its user name is invalid");
        }
        let digits = |port: &str| port.bytes().all(|b| b.is_ascii_digit());
        let port = match port {
            None => None,
            Some(port) if !digits(port) => return Err("its port is invalid"),
            Some(port) => match port.parse() {
                Ok(port) if port > 0 => Some(port),
                _ => return Err("its port is invalid"),
            },
        };
        Ok(SshTarget {
            user,
            host: host.to_owned(),
            port,
            path: path.to_owned(),
        })
    }

    /// Returns the path at the other end. `/~/x` becomes `x`, which is relative to the user's home
    /// there.
    pub fn path(&self) -> &str {
        self.path.strip_prefix("/~/").unwrap_or(&self.path)
    }

    /// Returns the arguments for ssh that follow the user's own.
    fn arguments(&self, remote_program: &str, create: Option<&str>) -> Vec<String> {
        let mut arguments = vec!["-T".to_owned()];
        if let Some(port) = self.port {
            arguments.extend(["-p".to_owned(), port.to_string()]);
        }
        arguments.push("--".to_owned());
        arguments.push(match &self.user {
            Some(user) => format!("{user}@{}", self.host),
            None => self.host.clone(),
        });
        // ssh passes this string to the shell at the other end.
        let (program, path) = (quoted(remote_program), quoted(self.path()));
        let create = create.map(|branch| format!(" {CREATE}={}", quoted(branch)));
        let create = create.unwrap_or_default();
        arguments.push(format!("{program} serve --stdio{create} -- {path}"));
        arguments
    }
}

/// Returns the user name of an address, in which `%` and two hexadecimal digits stand for a byte.
fn user_name(text: &str) -> Result<String, &'static str> {
    if text.contains(':') {
        return Err("its user name has a ':'; write it as %3A; a password cannot be part of it");
    }
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let byte = part
            .get(..2)
            .filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
        let byte = byte.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(byte.ok_or("its user name has a '%' without two hexadecimal digits")?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).map_err(|_| "its user name is invalid")
}

impl std::fmt::Display for SshTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ssh://")?;
        if let Some(user) = &self.user {
            // As it was accepted: a colon could begin a password.
            write!(f, "{}@", user.replace(':', "%3A"))?;
        }
        if self.host.contains(':') {
            write!(f, "[{}]", self.host)?
        } else {
            write!(f, "{}", self.host)?
        }
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        write!(f, "{}", self.path)
    }
}

/// Quotes `text` as one word for a POSIX shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The running ssh program.
pub(super) struct Helper {
    child: Child,
    place: String,
    remote_program: String,
    said: Receiver<String>,
    listening: Option<JoinHandle<()>>,
}

/// Starts ssh. Fails if the program cannot be run.
pub(super) fn connect(target: &SshTarget, reach: &Reach) -> Result<(Link, Helper), NetError> {
    let place = target.to_string();
    let unreachable = |why: String| NetError::Unreachable {
        place: place.clone(),
        why,
    };
    let (program, first) = reach
        .ssh
        .split_first()
        .ok_or_else(|| unreachable("no ssh program is configured".to_owned()))?;
    let mut child = Command::new(program)
        .args(first)
        .args(target.arguments(&reach.remote_program, reach.create.as_deref()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|source| NetError::NoProgram {
            place: place.clone(),
            program: program.clone(),
            source,
        })?;
    let pipes = (child.stdout.take(), child.stdin.take(), child.stderr.take());
    let (Some(stdout), Some(stdin), Some(stderr)) = pipes else {
        return Err(unreachable("it has no pipes".to_owned()));
    };
    let (say, said) = channel();
    let listen = move || {
        let mut lines = BufReader::new(stderr).split(b'\n');
        let mut kept = 0;
        while let Some(Ok(line)) = lines.next() {
            // Further lines are read and dropped, so that the program does not block.
            if kept < KEPT_LINES {
                kept += 1;
                let _ = say.send(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
        }
    };
    widen_pipe(&stdout);
    widen_pipe(&stdin);
    let started = threads::start(listen).and_then(|listening| {
        let link = Link::over(stdout, stdin)?;
        Ok((listening, link))
    });
    let (listening, link) = match started {
        Ok(started) => started,
        Err(e) => {
            let _ = child.kill();
            let _ = child.wait();
            return Err(e.into());
        }
    };
    let helper = Helper {
        child,
        place,
        remote_program: reach.remote_program.clone(),
        said,
        listening: Some(listening),
    };
    Ok((link, helper))
}

impl Helper {
    /// Returns the cause of a failure, if ssh or the shell at the other end printed it.
    pub(super) fn explain(mut self, e: NetError) -> NetError {
        match e {
            NetError::Closed => {}
            // The text in place of the protocol explains more than what was printed after it.
            NetError::NotDmv(text) => {
                let text = text.escape_debug();
                let why = format!("a login there must print nothing, but prints '{text}'");
                let place = self.place.clone();
                return NetError::Unreachable { place, why };
            }
            e => return e,
        }
        let code = self.end();
        if let Some(listening) = self.listening.take() {
            let _ = listening.join();
        }
        let lines: Vec<String> = self
            .said
            .try_iter()
            .filter(|line| says_much(line))
            .collect();
        let place = self.place.clone();
        if lacks_program(code, &lines) {
            let program = self.remote_program.clone();
            return NetError::NoDmv { place, program };
        }
        if lines.is_empty() {
            return e;
        }
        if lines.iter().any(|line| knows_not(line, CREATE)) {
            return NetError::CannotCreate { place };
        }
        let says = |words: &[&str]| lines.iter().any(|l| words.iter().any(|w| l.contains(w)));
        let mut why = lines.join("; ");
        if says(&[NOT_VERIFIED]) && !says(&[CHANGED, "has changed"]) {
            why.push_str(
                " (ssh does not know this host yet; connect to it once with ssh to accept its key)",
            );
        }
        if says(&[NOT_VERIFIED, CHANGED, "Permission denied"]) {
            NetError::NotLetIn { place, why }
        } else {
            NetError::Unreachable { place, why }
        }
    }
}

impl Helper {
    /// Waits until the program has ended, but not long, and then ends it. Returns its exit code, if it
    /// has ended by itself.
    fn end(&mut self) -> Option<i32> {
        let late = Instant::now() + ENDING;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return status.code(),
                Ok(None) if Instant::now() < late => std::thread::sleep(Duration::from_millis(5)),
                _ => break,
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        None
    }
}

/// Returns whether the shell at the other end did not find the program. Shells differ in words, and
/// agree in the exit code; the loader of programs uses it, too, if a library is missing.
fn lacks_program(code: Option<i32>, lines: &[String]) -> bool {
    code == Some(NOT_FOUND) && !lines.iter().any(|line| line.contains("shared librar"))
}

/// Returns whether a line says that the program there does not know this option.
fn knows_not(line: &str, option: &str) -> bool {
    line.contains("unexpected argument") && line.contains(option)
}

/// OpenSSH prints this if it does not accept the host's key.
const NOT_VERIFIED: &str = "Host key verification failed";
/// OpenSSH prints this before, if it knows another key of the host.
const CHANGED: &str = "HOST IDENTIFICATION HAS CHANGED";

/// Returns whether a line of ssh's output has useful text, and is neither a frame around other
/// lines nor a general warning. For a changed key, the useful lines say what changed, the new key,
/// and where the known key is stored.
fn says_much(line: &str) -> bool {
    const SERMON: [&str; 5] = [
        "IT IS POSSIBLE THAT",
        "Someone could be eavesdropping",
        "It is also possible",
        "Please contact your system",
        "The fingerprint for",
    ];
    let is_frame = line.chars().all(|c| c == '@' || c.is_whitespace());
    !is_frame && !SERMON.iter().any(|begin| line.starts_with(begin))
}

impl Drop for Helper {
    fn drop(&mut self) {
        // The session is over, in success or failure.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_may_have_an_at_sign() {
        for (text, user, shown) in [
            (
                "ada@corp.org@nas/x",
                "ada@corp.org",
                "ssh://ada@corp.org@nas/x",
            ),
            (
                "ada%40corp.org@nas:22/x",
                "ada@corp.org",
                "ssh://ada@corp.org@nas:22/x",
            ),
            ("a%3Ab+c@nas/x", "a:b+c", "ssh://a%3Ab+c@nas/x"),
        ] {
            let target = SshTarget::parse(text).expect("an address");
            assert_eq!(target.user.as_deref(), Some(user));
            assert!(
                target
                    .arguments("dmv", None)
                    .contains(&format!("{user}@nas"))
            );
            assert_eq!(target.to_string(), shown);
            assert_eq!(SshTarget::parse(&shown["ssh://".len()..]), Ok(target));
        }
        for text in [
            "a:b@nas/x",
            "@nas/x",
            "%2dx@nas/x",
            "a%4@nas/x",
            "a%zz@nas/x",
            "a%20b@nas/x",
            "a%0a@nas/x",
            "%ff@nas/x",
            "a%@nas/x",
            "a%é@nas/x",
        ] {
            assert!(SshTarget::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ssh_gets_a_checked_host_and_one_quoted_command() {
        let target = SshTarget::parse("ada@nas:2222/srv/it's; rm -rf").expect("an address");
        assert_eq!(
            target.arguments("dmv", None),
            [
                "-T",
                "-p",
                "2222",
                "--",
                "ada@nas",
                "'dmv' serve --stdio -- '/srv/it'\\''s; rm -rf'"
            ]
        );
        let home = SshTarget::parse("nas/~/film").expect("an address");
        assert_eq!(home.path(), "film");
        assert_eq!(
            home.arguments("dmv", Some("it's; x"))[3],
            "'dmv' serve --stdio --create='it'\\''s; x' -- 'film'"
        );
    }

    #[test]
    fn a_missing_program_is_known_by_the_exit_code() {
        let line = |text: &str| vec![text.to_owned()];
        for text in [
            "sh: 1: dmv: not found",
            "bash: Zeile 1: dmv: Kommando nicht gefunden",
            "",
        ] {
            assert!(lacks_program(Some(127), &line(text)), "{text}");
            assert!(!lacks_program(Some(255), &line(text)), "{text}");
            assert!(!lacks_program(None, &line(text)), "{text}");
        }
        let loader = "dmv: error while loading shared libraries: libm.so.6";
        assert!(!lacks_program(Some(127), &line(loader)));
    }
}
