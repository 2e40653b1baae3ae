//! Two machines on a cable: network namespaces, found by multicast DNS, paired, synced both ways.

use crate::place::running::Running;
use crate::place::{Outcome, Place};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A machine: a namespace with one address, and a home of its own.
struct Machine {
    space: String,
    place: Place,
}

impl Machine {
    /// The program, there, in a directory of its own.
    fn command(&self, dir: &str, args: &[&str]) -> Command {
        let dmv = self.place.command(args);
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.space])
            .arg(dmv.get_program())
            .args(dmv.get_args())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .current_dir(self.place.work().join(dir))
            .stdin(Stdio::null());
        for (name, value) in dmv.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        command
    }

    fn run(&self, dir: &str, args: &[&str]) -> Outcome<Output> {
        Ok(self.command(dir, args).output()?)
    }

    fn ok(&self, dir: &str, args: &[&str]) -> Outcome<String> {
        let output = self.run(dir, args)?;
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {errors}");
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Starts a program that runs on, and waits for its first line.
    fn start(&self, dir: &str, args: &[&str]) -> Outcome<Running> {
        Running::start(&mut self.command(dir, args))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = ip(&["netns", "del", &self.space]);
    }
}

fn ip(args: &[&str]) -> Option<()> {
    let output = Command::new("ip").args(args).output().ok()?;
    output.status.success().then_some(())
}

/// Two machines joined by a cable; no router, no other route. `None`: this machine does not let us.
fn cable() -> Outcome<Option<(Machine, Machine)>> {
    let machine = |end: &str| -> Outcome<Option<Machine>> {
        let space = format!("dmv-{}-{end}", std::process::id());
        if ip(&["netns", "add", &space]).is_none() {
            return Ok(None);
        }
        let place = Place::new()?;
        Ok(Some(Machine { space, place }))
    };
    let (Some(a), Some(b)) = (machine("a")?, machine("b")?) else {
        return Ok(None);
    };
    let n = std::process::id() % 100_000;
    let (end_a, end_b) = (format!("dmva{n}"), format!("dmvb{n}"));
    let (sa, sb) = (a.space.as_str(), b.space.as_str());
    let steps: [&[&str]; 7] = [
        &[
            "link", "add", &end_a, "netns", sa, "type", "veth", "peer", "name", &end_b, "netns", sb,
        ],
        &["-n", sa, "addr", "add", "10.99.0.1/24", "dev", &end_a],
        &["-n", sb, "addr", "add", "10.99.0.2/24", "dev", &end_b],
        &["-n", sa, "link", "set", "lo", "up"],
        &["-n", sb, "link", "set", "lo", "up"],
        &["-n", sa, "link", "set", &end_a, "up"],
        &["-n", sb, "link", "set", &end_b, "up"],
    ];
    let done = steps.iter().all(|step| ip(step).is_some());
    Ok(done.then_some((a, b)))
}

fn write(machine: &Machine, path: &str, text: &str) -> Outcome {
    Ok(std::fs::write(machine.place.work().join(path), text)?)
}

fn read(machine: &Machine, path: impl AsRef<Path>) -> Outcome<String> {
    Ok(std::fs::read_to_string(machine.place.work().join(path))?)
}

#[test]
fn two_laptops_on_a_cable_find_each_other_pair_and_sync() -> Outcome {
    let Some((desk, lap)) = cable()? else {
        dmv_random::skip("no network namespaces here (root and iproute2 are needed)");
        return Ok(());
    };
    desk.ok("", &["init", "film"])?;
    write(&desk, "film/a", "one\n")?;
    desk.ok("film", &["commit", "-m", "first"])?;

    let pairing = desk.start("film", &["pair", "--write", "--json"])?;
    let code = pairing.ready["code"].as_str().ok_or("no code")?;
    lap.ok("", &["pair", code])?;
    assert_eq!(pairing.rest()?.0, Some(0));

    let serving = desk.start("film", &["serve", "--lan", "--json"])?;
    let key = serving.ready["key"].as_str().ok_or("no key")?;
    assert_eq!(desk.ok("", &["id"])?.trim(), key);
    let at = serving.address()?;
    assert!(at.contains("@10.99.0.1:"), "{at}");
    let around = lap.ok("", &["peers", "--lan", "--json"])?;
    assert!(around.contains(&at), "{around}");

    lap.ok("", &["clone", &format!("dmv://{key}"), "film"])?;
    assert_eq!(read(&lap, "film/a")?, "one\n");
    write(&lap, "film/b", "two\n")?;
    lap.ok("film", &["commit", "-m", "second"])?;
    write(&desk, "film/c", "three\n")?;
    desk.ok("film", &["commit", "-m", "third"])?;

    // Both have worked: the first exchange brings, the second, after a merge, gives.
    lap.run("film", &["sync"])?;
    lap.ok("film", &["merge", "origin/main"])?;
    lap.ok("film", &["sync"])?;
    desk.ok("film", &["checkout", "main"])?;
    for machine in [&desk, &lap] {
        for (path, text) in [("a", "one\n"), ("b", "two\n"), ("c", "three\n")] {
            assert_eq!(read(machine, format!("film/{path}"))?, text);
        }
        machine.ok("film", &["verify"])?;
    }
    Ok(())
}
