//! Signatures by ssh keys, which `ssh-keygen` makes and checks: it knows agents and keys in hardware.
//!
//! The program, the key and the file of allowed signers come from the user's own settings, never from a
//! repository. `ssh-keygen` reads what it signs from a pipe, and a signature from a file that only the user
//! can read.

use crate::config::Config;
use crate::failure::Failure;
use crate::format::text::clean;
use crate::terminal::Hush;
use data_encoding::BASE64;
use dmv_core::object::signature::{DOMAIN, Signature};
use dmv_core::platform::by_shell;
use dmv_core::repo::{CommitSigner, SignatureCheck, SignatureState, SshChecker, SshQuestion};
use jiff::Timestamp;
use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};
use tempfile::NamedTempFile;

const BEGIN: &str = "-----BEGIN SSH SIGNATURE-----";
const END: &str = "-----END SSH SIGNATURE-----";
/// Characters of a line between them.
const LINE: usize = 70;
/// Most signers that one key may have in the file of allowed signers.
const MAX_PRINCIPALS: usize = 16;

/// Signs with the key of the setting `sign.key`, if it names one: the file of a private key, that of a
/// public key whose private half an agent has, or such a public key itself.
pub fn signer(config: &Config) -> Result<Option<CommitSigner>, Failure> {
    let Some(path) = config.path("sign.key")? else {
        return Ok(None);
    };
    let program = program(config)?;
    let literal = path.to_str().filter(|text| is_public_key(text));
    let literal = literal.map(str::to_owned);
    Ok(Some(Box::new(move |statement| {
        let file = match &literal {
            None => None,
            Some(text) => Some(written(format!("{text}\n").as_bytes())?),
        };
        let key = file.as_ref().map_or(path.as_path(), |file| file.path());
        let args = ["-Y", "sign", "-q", "-n", DOMAIN, "-f"].map(OsStr::new);
        let args = [&args[..], &[key.as_os_str()]].concat();
        let output = run(&program, &args, statement)?;
        if !output.status.success() {
            return Err(last_words(&program, &output));
        }
        let blob = without_armour(&output.stdout);
        let blob = blob.ok_or_else(|| format!("{program} printed no signature"))?;
        Ok(Signature::Ssh(blob))
    })))
}

/// Checks signatures against the file of the setting `sign.allowed-signers`. Without it, no ssh key is known.
pub fn checker(config: &Config) -> Result<SshChecker, Failure> {
    let program = program(config)?;
    let allowed = config.path("sign.allowed-signers")?;
    Ok(Box::new(move |question| {
        let search = Search {
            program: &program,
            signature: written(with_armour(question.signature).as_bytes())?,
            question,
        };
        if let Some(allowed) = &allowed
            && let Some(found) = search.among(allowed)?
        {
            return Ok(found);
        }
        search.by_anyone()
    }))
}

fn program(config: &Config) -> Result<String, Failure> {
    let program = config.value("ssh.keygen")?;
    Ok(program.expect("it has a built-in value"))
}

/// Whether a setting is the public key itself, as a line of a file of public keys.
fn is_public_key(text: &str) -> bool {
    let kinds = ["ssh-", "ecdsa-", "sk-"];
    text.contains(' ') && kinds.iter().any(|kind| text.starts_with(kind))
}

/// A signature whose signer is looked for.
struct Search<'a> {
    program: &'a str,
    /// The file with the signature.
    signature: NamedTempFile,
    question: &'a SshQuestion<'a>,
}

impl Search<'_> {
    /// Returns a good signature by one of the allowed signers, if it is one.
    fn among(&self, allowed: &Path) -> Result<Option<SignatureCheck>, String> {
        if let Err(e) = std::fs::metadata(allowed) {
            return Err(format!("{}: {e}", allowed.display()));
        }
        let time = time_option(self.question.seconds);
        let output = self.ask(
            "find-principals",
            &[OsStr::new("-f"), allowed.as_os_str(), OsStr::new(&time)],
        )?;
        let names = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            return Ok(None);
        }
        for name in names.lines().take(MAX_PRINCIPALS) {
            let args = [
                OsStr::new("-f"),
                allowed.as_os_str(),
                OsStr::new(&time),
                OsStr::new("-I"),
                OsStr::new(name),
            ];
            let output = self.ask("verify", &args)?;
            if output.status.success() {
                return Ok(Some(SignatureCheck {
                    state: SignatureState::Good,
                    key: fingerprint(&output.stdout),
                    name: Some(name.to_owned()),
                }));
            }
        }
        Ok(None)
    }

    /// Says whether the signature is of this commit, by whatever key.
    fn by_anyone(&self) -> Result<SignatureCheck, String> {
        let output = self.ask("check-novalidate", &[])?;
        if !output.status.success() {
            return Ok(SignatureCheck::nameless(SignatureState::Bad));
        }
        Ok(SignatureCheck {
            state: SignatureState::UnknownKey,
            key: fingerprint(&output.stdout),
            name: None,
        })
    }

    fn ask(&self, what: &str, args: &[&OsStr]) -> Result<Output, String> {
        let first = ["-Y", what, "-n", DOMAIN, "-s"].map(OsStr::new);
        let args = [&first[..], &[self.signature.path().as_os_str()], args].concat();
        run(self.program, &args, self.question.statement)
    }
}

/// The option that judges keys by a time. Their lines may say from when until when they are valid.
fn time_option(seconds: i64) -> String {
    let time = Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH);
    format!("-Overify-time={}", time.strftime("%Y%m%d%H%M%SZ"))
}

/// The fingerprint in what `ssh-keygen` says of a right signature: its last word.
fn fingerprint(said: &[u8]) -> Option<String> {
    let said = std::str::from_utf8(said).ok()?;
    let last = said.lines().next()?.split(' ').next_back()?;
    last.starts_with("SHA256:").then(|| last.to_owned())
}

/// Runs the program. It may ask for a password, or for a touch, on the terminal.
fn run(program: &str, args: &[&OsStr], input: &[u8]) -> Result<Output, String> {
    let _hush = Hush::start();
    let failed = |e: std::io::Error| format!("{program}: {e}");
    let mut child = by_shell(program, args)
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    if let Some(mut pipe) = child.stdin.take() {
        // A program that reads nothing says why it fails.
        let _ = pipe.write_all(input);
    }
    let output = child.wait_with_output().map_err(failed)?;
    match output.status.code() {
        Some(127) => Err(format!("{program} was not found")),
        Some(_) => Ok(output),
        None => Err(format!("{program} was killed")),
    }
}

/// What a program said last when it failed.
fn last_words(program: &str, output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rfind(|line| !line.trim().is_empty());
    format!("{program}: {}", clean(last.unwrap_or("it failed")))
}

/// A file with these bytes that only the user can read, until it is dropped.
fn written(bytes: &[u8]) -> Result<NamedTempFile, String> {
    let file = tempfile::Builder::new().prefix("dmv-").tempfile();
    let file = file.and_then(|mut file| file.write_all(bytes).map(|()| file));
    file.map_err(|e| format!("{}: {e}", std::env::temp_dir().display()))
}

/// A signature as `ssh-keygen` writes and reads it.
fn with_armour(blob: &[u8]) -> String {
    let text = BASE64.encode(blob);
    let mut out = format!("{BEGIN}\n");
    for line in text.as_bytes().chunks(LINE) {
        out += std::str::from_utf8(line).expect("base 64 is ASCII");
        out.push('\n');
    }
    out + END + "\n"
}

fn without_armour(text: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let text = text.strip_prefix(BEGIN)?.strip_suffix(END)?;
    let text: String = text.split_ascii_whitespace().collect();
    BASE64.decode(text.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn armour_is_put_on_and_taken_off() {
        for len in [0, 1, 51, 52, 53, 200, 16 << 10] {
            let blob: Vec<u8> = (0..len).map(|n: usize| n as u8).collect();
            let text = with_armour(&blob);
            assert!(text.lines().all(|line| line.len() <= LINE), "{text}");
            assert_eq!(without_armour(text.as_bytes()), Some(blob));
        }
        for text in [
            "",
            BEGIN,
            "-----BEGIN SSH SIGNATURE-----\n?\n-----END SSH SIGNATURE-----",
        ] {
            assert_eq!(without_armour(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn what_ssh_keygen_says_names_the_key() {
        let said = b"Good \"dmv-commit-1\" signature for ada@x with ED25519 key SHA256:C9r2/OI\n";
        assert_eq!(fingerprint(said).as_deref(), Some("SHA256:C9r2/OI"));
        for said in [&b""[..], b"Good", b"\xff", b"Good SHA256: no"] {
            assert_eq!(fingerprint(said), None);
        }
    }

    #[test]
    fn a_time_is_told_in_utc() {
        assert_eq!(time_option(1_700_000_000), "-Overify-time=20231114221320Z");
        assert_eq!(time_option(i64::MAX), "-Overify-time=19700101000000Z");
    }

    #[test]
    fn a_public_key_is_told_from_a_path() {
        assert!(is_public_key("ssh-ed25519 AAAA ada@x"));
        assert!(is_public_key("sk-ssh-ed25519@openssh.com AAAA"));
        for path in ["~/.ssh/id_ed25519", "ssh-key", "/home/ada x/.ssh/id.pub"] {
            assert!(!is_public_key(path), "{path}");
        }
    }
}
