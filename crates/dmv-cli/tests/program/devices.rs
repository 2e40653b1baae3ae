//! Devices by name: given, paired, told apart, and usable wherever an address is.

use crate::place::running::Running;
use crate::place::{Outcome, Place};
use std::fs;

fn key(place: &Place) -> Outcome<String> {
    Ok(place.ok(&["id"])?.trim().to_owned())
}

/// The address with another word in place of the key.
fn with(at: &str, who: &str, after: &str) -> Outcome<String> {
    let (_, socket) = at.split_once('@').ok_or("no socket")?;
    Ok(format!("dmv://{who}@{socket}{after}"))
}

#[test]
fn a_name_or_a_few_digits_stand_for_the_key_wherever_an_address_is() -> Outcome {
    let (desk, lap) = (Place::with_repository()?, Place::new()?);
    desk.write("a", "one\n")?;
    desk.commit("first")?;
    desk.ok(&["trust", &key(&lap)?, "--name", "lap", "--write"])?;
    let server = Running::serve(&desk, &[])?;
    let at = server.address()?;
    let desk_key = key(&desk)?;
    let said = lap.fails(20, &["clone", &with(&at, "desktop", "/film")?])?;
    assert!(said.contains("no device is called 'desktop'"), "{said}");
    lap.ok(&["config", "set", "--user", "device.desktop", &desk_key])?;
    // The name of the clone is what stands behind the device, or else the device's.
    lap.ok(&["clone", &with(&at, "desktop", "/film")?])?;
    lap.ok(&["clone", &with(&at, "desktop", "")?])?;
    assert!(lap.work().join("film/a").exists() && lap.work().join("desktop/a").exists());
    let remotes = lap.ok(&["-C", "film", "remote"])?;
    assert_eq!(remotes, format!("origin  {at}\n"), "the key is recorded");
    fs::write(lap.work().join("film/b"), "two\n")?;
    lap.ok(&["-C", "film", "commit", "-m", "second"])?;
    lap.ok(&["-C", "film", "push", &with(&at, "desktop", "")?])?;
    let short = with(&at, &desk_key[..8], "")?;
    for command in ["fetch", "pull", "sync"] {
        lap.ok(&["-C", "desktop", command, &short])?;
    }
    assert!(lap.work().join("desktop/b").exists());
    lap.ok(&[
        "-C",
        "film",
        "remote",
        "add",
        "desk",
        &with(&at, "desktop", "/film")?,
    ])?;
    lap.ok(&["-C", "film", "remote", "show", "desk"])?;
    // Too few digits, and a place that is no address.
    lap.fails(
        20,
        &["-C", "film", "fetch", &with(&at, &desk_key[..7], "")?],
    )?;
    lap.fails(2, &["clone", "dmv://desktop/a/b"])?;
    lap.fails(2, &["clone", "dmv://desktop@nowhere", "x"])?;
    server.stop()?;
    Ok(())
}

#[test]
fn a_name_belongs_to_one_device_and_two_of_one_name_are_told_apart() -> Outcome {
    let place = Place::with_repository()?;
    let (a, b) = ("a1".repeat(32), "a1a1a1a1".to_owned() + &"b2".repeat(28));
    place.ok(&["trust", &a, "--name", "vm"])?;
    let said = place.fails(5, &["trust", &b, "--name", "vm"])?;
    assert!(
        said.contains("vm is the name of another device (a1a1a1a1a1a1)"),
        "{said}"
    );
    assert_eq!(
        place.records(&["peers", "--json"])?.len(),
        1,
        "nothing was changed"
    );
    place.ok(&["trust", &b, "--name", "vm-2"])?;
    // Eight digits that two keys begin with are no name for either.
    let said = place.fails(20, &["untrust", "a1a1a1a1"])?;
    assert!(said.contains("means more than one device"), "{said}");
    assert!(
        said.contains(&format!("  {a}  vm\n")) && said.contains(&b),
        "{said}"
    );
    place.ok(&["trust", "vm-2", "--write"])?;
    assert_eq!(place.records(&["peers", "--json"])?[1]["access"], "write");
    // A new name takes the place of the old one, and is free for nobody else.
    place.ok(&["trust", "vm", "--name", "old"])?;
    place.fails(2, &["trust", "vm"])?;
    place.ok(&["untrust", "a1a1a1a1b2"])?;
    place.ok(&["untrust", "old"])?;
    assert!(place.records(&["peers", "--json"])?.is_empty());
    for name in ["deadbeef00", "a b", "../x", "-x", ""] {
        place.fails(20, &["trust", &a, &format!("--name={name}")])?;
    }
    // A repository names no device.
    fs::write(
        place.work().join(".dmv/config.toml"),
        format!("[device]\nevil = \"{a}\"\n"),
    )?;
    let said = place.fails(20, &["fetch", "dmv://evil"])?;
    assert!(said.contains("no device is called 'evil'"), "{said}");
    Ok(())
}

#[test]
fn paired_devices_have_names_and_a_claimed_one_never_replaces_another() -> Outcome {
    let (desk, lap) = (Place::with_repository()?, Place::with_repository()?);
    let host = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    let plain: String = host.chars().filter(char::is_ascii_alphanumeric).collect();
    // Another device has the name of this host already.
    let other = "c3".repeat(32);
    lap.ok(&[
        "config",
        "set",
        "--user",
        &format!("device.{plain}"),
        &other,
    ])
    .ok();
    lap.ok(&["config", "set", "--user", "device.studio", &"d4".repeat(32)])?;
    let listen = ["pair", "--write", "--json", "--listen", "127.0.0.1"];
    let pairing = Running::start(&mut desk.command(&listen))?;
    let (code, at) = (pairing.ready["code"].clone(), pairing.address()?);
    let code = code.as_str().ok_or("no code")?;
    lap.ok(&["pair", code, "--peer", &at])?;
    assert_eq!(pairing.rest()?.0, Some(0));
    let desk_key = key(&desk)?;
    let name = lap.records(&["peers", "--json"])?[0]["name"].clone();
    let name = name.as_str().ok_or("no name")?;
    assert!(name != plain && !name.is_empty(), "{name}");
    let set = lap.json(&["config", "get", &format!("device.{name}"), "--json"])?;
    assert_eq!(set["value"], desk_key);
    // Again: it keeps its name. With a name: that one, unless another device has it.
    for (args, wanted) in [
        (&[][..], name),
        (&["--name", "desktop"], "desktop"),
        (&[], "desktop"),
    ] {
        let pairing = Running::start(&mut desk.command(&listen))?;
        let (code, at) = (pairing.ready["code"].clone(), pairing.address()?);
        let code = code.as_str().ok_or("no code")?;
        lap.ok(&[&["pair", code, "--peer", &at], args].concat())?;
        assert_eq!(pairing.rest()?.0, Some(0));
        assert_eq!(lap.records(&["peers", "--json"])?[0]["name"], wanted);
    }
    Ok(())
}
