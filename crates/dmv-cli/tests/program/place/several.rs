//! Several repositories of one user, and an ssh that stays on this machine.

use super::{Outcome, Place};
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// Runs what it is asked to run on the same machine, after printing what a host might.
pub const SSH: &str = r#"#!/bin/sh
while [ "$1" != "--" ]; do shift; done
case "$2" in
  unknown) echo "ssh: Could not resolve hostname unknown" >&2; exit 255 ;;
  strange) echo "Host key verification failed." >&2; exit 255 ;;
  chatty) echo "Welcome!" ;;
  mute) exit 1 ;;
esac
exec sh -c "$3"
"#;

/// An empty place in which the program calls this script as ssh.
pub fn speaking_ssh(script: &str) -> Outcome<Place> {
    let mut place = Place::new()?;
    speak_ssh(&mut place, script)?;
    Ok(place)
}

/// Has the program call this script as ssh.
pub fn speak_ssh(place: &mut Place, script: &str) -> Outcome {
    let ssh = place.home().join("ssh");
    fs::write(&ssh, script)?;
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755))?;
    place.env.extend([
        ("PATH", std::env::var_os("PATH").unwrap_or_default()),
        ("DMV_SSH_COMMAND", ssh.into()),
        ("DMV_SSH_REMOTE", env!("CARGO_BIN_EXE_dmv").into()),
    ]);
    Ok(())
}

/// Several repositories in one directory, with an ssh that goes nowhere else. `film` has a commit.
pub fn several() -> Outcome<Place> {
    let place = speaking_ssh(SSH)?;
    place.ok(&["init", "film"])?;
    for n in 0..20 {
        place.write(format!("film/shots/{n}"), format!("shot {n}").repeat(100))?;
    }
    place.ok(&["-C", "film", "commit", "-m", "first"])?;
    Ok(place)
}

pub fn tip(place: &Place, repo: &str, revision: &str) -> Outcome<String> {
    let record = place.json(&["-C", repo, "log", "-n", "1", "--json", revision])?;
    Ok(record["id"].as_str().ok_or("it has an id")?.to_owned())
}

/// Commits a file whose content is its name.
pub fn commit(place: &Place, repo: &str, file: &str) -> Outcome {
    place.write(format!("{repo}/{file}"), file)?;
    place.ok(&["-C", repo, "commit", "-m", file])?;
    Ok(())
}
