//! Devices by name. The names are the user's own: what a device calls itself is a suggestion, and never
//! takes the name of another device. They stand in the user's file, as `device.NAME`.

#[cfg(feature = "quic")]
use crate::config::device::MAX_NAME_LEN;
use crate::config::device::{MIN_DIGITS, SECTION, is_name};
use crate::config::{Scope, edit, user_file};
use crate::context::Context;
use crate::failure::{EXIT_OTHER, EXIT_REFUSED, Failure};
use crate::format::json::{Json, ToJson, object};
use crate::format::text::clean;
use dmv_core::repo::{Peer, PeerKey, Repo};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use toml_edit::{Item, Table, value};

/// How an address of a device begins.
const SCHEME: &str = "dmv://";
/// What a device is called that gives no usable name.
#[cfg(feature = "quic")]
const NAMELESS: &str = "device";

/// A device that has a name, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// The name; perhaps empty.
    pub name: String,
    /// The key.
    pub key: PeerKey,
}

/// The devices that the user has named.
pub fn book(context: &Context) -> Result<Vec<Device>, Failure> {
    let named = context.config()?.devices().into_iter();
    Ok(named.map(|(name, key)| Device { name, key }).collect())
}

/// What the user calls a device.
pub fn name_of<'b>(book: &'b [Device], key: &PeerKey) -> Option<&'b str> {
    let found = book.iter().find(|device| device.key == *key);
    found.map(|device| &device.name[..])
}

/// The key of the device that a text names: a key, a name of the user's, or the first digits of a key that
/// the user or the repository knows. Names in the repository do not count: another user may have written
/// them.
pub fn find(context: &Context, text: &str) -> Result<PeerKey, Failure> {
    if let Ok(key) = text.parse() {
        return Ok(key);
    }
    let mut known = book(context)?;
    if let Ok(repo) = context.repo_as_it_is() {
        let nameless = |key| Device {
            name: String::new(),
            key,
        };
        known.extend(repo.peers()?.into_iter().map(|peer| nameless(peer.key)));
        known.extend(keys_of_remotes(context)?.into_iter().map(nameless));
    }
    pick(text, &known)
}

/// The device of a repository's list that a text names.
pub fn find_peer(context: &Context, repo: &Repo, text: &str) -> Result<Peer, Failure> {
    let peers = repo.peers()?;
    let mut known: Vec<Device> = peers.iter().cloned().map(of_peer).collect();
    let is_listed = |device: &Device| peers.iter().any(|peer| peer.key == device.key);
    known.splice(0..0, book(context)?.into_iter().filter(is_listed));
    let key = pick(text, &known)?;
    let found = peers.into_iter().find(|peer| peer.key == key);
    found.ok_or_else(|| unknown(text))
}

fn of_peer(peer: Peer) -> Device {
    Device {
        name: peer.name,
        key: peer.key,
    }
}

/// The keys in the addresses of remotes.
fn keys_of_remotes(context: &Context) -> Result<Vec<PeerKey>, Failure> {
    let remotes = context.config()?.remotes().into_iter();
    let key = |(_, url): (String, String)| {
        let key = url.strip_prefix(SCHEME)?.split(['@', '/']).next()?;
        key.parse().ok()
    };
    Ok(remotes.filter_map(key).collect())
}

/// The key that a text names among devices of which the first ones go first. Two that fit are both told.
fn pick(text: &str, known: &[Device]) -> Result<PeerKey, Failure> {
    let digits = text.to_ascii_lowercase();
    let is_start = digits.len() >= MIN_DIGITS && digits.bytes().all(|b| b.is_ascii_hexdigit());
    let by_name = |device: &&Device| !text.is_empty() && device.name == text;
    let by_key = |device: &&Device| is_start && device.key.to_string().starts_with(&digits);
    let mut found: BTreeMap<PeerKey, &str> = BTreeMap::new();
    let named: Vec<&Device> = known.iter().filter(by_name).collect();
    let fitting = if named.is_empty() {
        known.iter().filter(by_key).collect()
    } else {
        named
    };
    for device in fitting {
        let name = found.entry(device.key).or_default();
        if name.is_empty() {
            *name = &device.name;
        }
    }
    match found.len() {
        1 => Ok(*found.keys().next().expect("there is one")),
        0 => Err(unknown(text)),
        _ => {
            let message = format!("'{}' means more than one device", clean(text));
            let mut failure = Failure::new("ambiguous-peer", EXIT_OTHER, message);
            let line = |(key, name): (&PeerKey, &&str)| match *name {
                "" => key.to_string(),
                name => format!("{key}  {}", clean(name)),
            };
            failure.details = found.iter().map(line).collect();
            Err(failure.hint(
                "write more digits of the key; or dmv trust KEY --name NAME, for a name of its own",
            ))
        }
    }
}

fn unknown(text: &str) -> Failure {
    let message = format!("no device is called '{}'", clean(text));
    Failure::new("no-peer", EXIT_OTHER, message).hint("dmv peers, or dmv peers --lan")
}

/// An address as the user wrote it, made ready to be parsed.
pub struct DeviceAddress {
    /// The address, with the key of a device in place of its name.
    pub text: OsString,
    /// What a clone of it is called, if it says so.
    pub label: Option<String>,
}

/// Puts the key of a device in place of its name: `dmv://desktop`, `dmv://desktop/film`,
/// `dmv://8f4c02d7@192.0.2.1:4711`. A device serves one repository, so what stands behind the slash is only
/// the name of a clone. Any other text stays as it is.
pub fn expand(context: &Context, text: &OsStr) -> Result<DeviceAddress, Failure> {
    let same = || DeviceAddress {
        text: text.to_owned(),
        label: None,
    };
    let Some(rest) = text.to_str().and_then(|text| text.strip_prefix(SCHEME)) else {
        return Ok(same());
    };
    let (place, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (who, at) = place.split_once('@').unwrap_or((place, ""));
    let is_plain = |name: &str| !["", ".", ".."].contains(&name) && !name.contains('/');
    let path = path.strip_suffix('/').unwrap_or(path);
    if who.is_empty() || !path.is_empty() && !is_plain(path) {
        return Ok(same());
    }
    let key = find(context, who)?;
    let is_own_name = is_name(who).then(|| who.to_owned());
    let label = if path.is_empty() {
        is_own_name
    } else {
        Some(path.to_owned())
    };
    let at = if at.is_empty() {
        String::new()
    } else {
        format!("@{at}")
    };
    Ok(DeviceAddress {
        text: format!("{SCHEME}{key}{at}").into(),
        label,
    })
}

/// Fails if the user may not give this name to this device.
pub fn check_free(book: &[Device], name: &str, key: &PeerKey) -> Result<(), Failure> {
    if !is_name(name) {
        let message = format!("'{}' cannot be the name of a device", clean(name));
        return Err(Failure::new("bad-name", EXIT_OTHER, message)
            .hint("a name has letters, digits, - and _, and is no beginning of a key"));
    }
    match book
        .iter()
        .find(|device| device.name == name && device.key != *key)
    {
        None => Ok(()),
        Some(other) => {
            let message = format!(
                "{name} is the name of another device ({})",
                other.key.short()
            );
            Err(Failure::new("name-taken", EXIT_REFUSED, message)
                .hint("dmv trust KEY --name NAME, with a name that is free"))
        }
    }
}

/// The name that a device gets which calls itself `claimed`: the one that it has, or a free one that is
/// like it.
#[cfg(feature = "quic")]
pub fn suggest(book: &[Device], key: &PeerKey, claimed: &str) -> String {
    if let Some(name) = name_of(book, key) {
        return name.to_owned();
    }
    let is_fit = |c: &char| c.is_ascii_alphanumeric() || "-_".contains(*c);
    let plain: String = claimed
        .chars()
        .filter(is_fit)
        .take(MAX_NAME_LEN - 4)
        .collect();
    let plain = plain.trim_start_matches(['-', '_']);
    let plain = if is_name(plain) { plain } else { NAMELESS };
    let is_free = |name: &String| book.iter().all(|device| device.name != *name);
    let numbered = (2_u32..).map(|n| format!("{plain}-{n}"));
    let mut names = std::iter::once(plain.to_owned()).chain(numbered);
    names.find(is_free).expect("there is no end of numbers")
}

/// Writes a name into the user's file. The device's former name goes.
pub fn record(name: &str, key: &PeerKey) -> Result<(), Failure> {
    let Some(file) = user_file() else {
        return Err(crate::config::no_home(
            "cannot store the name of the device",
        ));
    };
    if let Some(dir) = file.parent() {
        std::fs::create_dir_all(dir).map_err(|e| Failure::file("create", dir, &e))?;
    }
    edit(&file, Scope::User, |document| {
        let table = document
            .entry(SECTION)
            .or_insert_with(|| Item::Table(Table::new()));
        let Some(table) = table.as_table_like_mut() else {
            return;
        };
        let key = key.to_string();
        let is_former = |(known, item): (&str, &Item)| {
            (known != name && item.as_str() == Some(&key)).then(|| known.to_owned())
        };
        let former: Vec<String> = table.iter().filter_map(is_former).collect();
        for known in former {
            table.remove(&known);
        }
        table.insert(name, value(key));
    })
}

/// A peer, as commands print it.
pub struct PeerValue {
    /// Its key.
    pub key: String,
    /// What the user calls it.
    pub name: String,
    /// What it calls itself, if the user has no name for it.
    pub claims: String,
    /// Where it is, if that is known.
    pub address: Option<String>,
    /// `read`, `write`, or nothing.
    pub access: Option<&'static str>,
}

impl PeerValue {
    /// A peer on the allow-list.
    pub fn new(peer: &Peer, address: Option<String>) -> PeerValue {
        PeerValue {
            key: peer.key.to_string(),
            name: peer.name.clone(),
            claims: String::new(),
            address,
            access: Some(peer.access.word()),
        }
    }
}

impl ToJson for PeerValue {
    fn to_json(&self) -> Json {
        let claims = Some(&self.claims).filter(|claims| !claims.is_empty());
        object! { self.{key, name}, claims?: claims, self.{address, access} }
    }
}

/// A peer for people: its name and the beginning of its key.
pub fn called(peer: &Peer) -> String {
    let short = peer.key.short();
    match peer.name.as_str() {
        "" => short,
        name => format!("{} ({short})", clean(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(name: &str, byte: u8) -> Device {
        let (name, key) = (name.to_owned(), PeerKey::from_bytes([byte; 32]));
        Device { name, key }
    }

    #[test]
    fn names_go_before_digits_and_two_that_fit_are_both_told() {
        let known = [
            device("desk", 0xa1),
            device("vm", 0xb2),
            device("vm", 0xb3),
            device("", 0xa2),
        ];
        let key = |byte| PeerKey::from_bytes([byte; 32]);
        assert_eq!(pick("desk", &known).ok(), Some(key(0xa1)));
        assert_eq!(pick("a2a2a2a2", &known).ok(), Some(key(0xa2)));
        assert_eq!(pick("B2B2B2B2", &known).ok(), Some(key(0xb2)));
        for text in ["", "a2a2a2a", "none", "Desk", "c1c1c1c1"] {
            assert!(
                pick(text, &known).is_err_and(|e| e.code == "no-peer"),
                "{text}"
            );
        }
        let both = pick("vm", &known).map_err(|e| (e.code, e.details.len()));
        assert_eq!(both, Err(("ambiguous-peer", 2)));
        // The same device twice is one.
        assert!(pick("desk", &[device("desk", 1), device("desk", 1)]).is_ok());
    }

    #[cfg(feature = "quic")]
    #[test]
    fn a_claimed_name_is_cleaned_and_never_that_of_another_device() {
        let book = [device("vm", 1), device("vm-2", 2)];
        let key = |byte| PeerKey::from_bytes([byte; 32]);
        for (claimed, byte, name) in [
            ("vm", 3, "vm-3"),
            ("vm", 1, "vm"),
            ("anything", 2, "vm-2"),
            ("lap top\u{1b}[2J", 3, "laptop2J"),
            ("../../etc", 3, "etc"),
            ("deadbeefdeadbeef", 3, "device"),
            ("", 3, "device"),
            ("\u{540d}", 3, "device"),
        ] {
            assert_eq!(suggest(&book, &key(byte), claimed), name, "{claimed}");
        }
        let long = suggest(&book, &key(3), &"x".repeat(500));
        assert!(is_name(&long), "{long}");
        assert!(check_free(&book, "vm", &key(3)).is_err_and(|e| e.exit == EXIT_REFUSED));
        assert!(check_free(&book, "vm", &key(1)).is_ok());
    }
}
