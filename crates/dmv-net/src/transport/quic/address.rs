//! Addresses of peers, and of sockets to listen on, as text. The program parses them here.

use dmv_core::repo::PeerKey;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

const SCHEME: &str = "dmv://";
/// The greatest length of a place, in bytes: a host name (RFC 1035), a colon and a port.
const MAX_PLACE_BYTES: usize = 253 + 6;

/// The address of a peer: `dmv://KEY` or `dmv://KEY@HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerAddress {
    /// The peer's key.
    pub key: PeerKey,
    /// The peer's `HOST:PORT`. `None`: it is looked up on the local network.
    pub place: Option<String>,
}

/// An error: text that is not an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{}' is not an address: {why}", text.escape_debug())]
pub struct NotAnAddress {
    /// The text.
    pub text: String,
    /// What is wrong with it.
    pub why: &'static str,
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.key)?;
        match &self.place {
            Some(place) => write!(f, "@{place}"),
            None => Ok(()),
        }
    }
}

impl FromStr for PeerAddress {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<PeerAddress, NotAnAddress> {
        let fail = |why| {
            let text = text.to_owned();
            Err(NotAnAddress { text, why })
        };
        let Some(rest) = text.strip_prefix(SCHEME) else {
            return fail("it does not start with dmv://");
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (key, place) = match rest.split_once('@') {
            Some((key, place)) => (key, Some(place)),
            None => (rest, None),
        };
        let Ok(key) = key.parse() else {
            return fail("dmv:// must be followed by a key of 64 hex digits");
        };
        if let Some(place) = place
            && let Err(why) = check_place(place)
        {
            return fail(why);
        }
        let place = place.map(str::to_owned);
        Ok(PeerAddress { key, place })
    }
}

/// Checks that `place` is a valid `HOST:PORT`. The error says what is wrong.
fn check_place(place: &str) -> Result<(), &'static str> {
    if let Ok(socket) = place.parse::<SocketAddr>() {
        return match socket.port() {
            0 => Err("port 0 is not valid"),
            _ => Ok(()),
        };
    }
    if place.len() > MAX_PLACE_BYTES {
        return Err("the host's name is too long");
    }
    let Some((host, port)) = place.rsplit_once(':') else {
        return Err("the @ must be followed by HOST:PORT");
    };
    if port.parse::<u16>().unwrap_or(0) == 0 {
        return Err("the colon must be followed by a port from 1 to 65535");
    }
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'.' || b == b'-';
    if host.is_empty() || host.starts_with('-') || !host.bytes().all(plain) {
        return Err("the host must be a name, an IPv4 address, or an IPv6 address in brackets");
    }
    Ok(())
}

/// Where to listen: `IP`, `IP:PORT`, or `:PORT` for every address of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenAddress(pub Vec<SocketAddr>);

impl ListenAddress {
    /// Listens on this machine only, at a port that the system chooses.
    pub fn loopback() -> ListenAddress {
        ListenAddress(vec![(Ipv4Addr::LOCALHOST, 0).into()])
    }

    /// Listens on every address of this machine. With port 0 the system chooses the port.
    pub fn everywhere(port: u16) -> ListenAddress {
        ListenAddress(vec![
            (Ipv4Addr::UNSPECIFIED, port).into(),
            (Ipv6Addr::UNSPECIFIED, port).into(),
        ])
    }
}

impl FromStr for ListenAddress {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<ListenAddress, NotAnAddress> {
        if let Some(Ok(port)) = text.strip_prefix(':').map(str::parse) {
            return Ok(ListenAddress::everywhere(port));
        }
        let ip = || text.parse::<IpAddr>().map(|ip| (ip, 0).into());
        let one = text.parse::<SocketAddr>().or_else(|_| ip());
        one.map(|at| ListenAddress(vec![at]))
            .map_err(|_| NotAnAddress {
                text: text.to_owned(),
                why: "write IP:PORT, IP or :PORT",
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_back_from_its_text() {
        let key = "ab".repeat(32);
        let places = [
            "192.168.1.5:4711",
            "[fe80::1]:4711",
            "nas.local:1",
            "nas:65535",
        ];
        let mut good: Vec<String> = places.iter().map(|p| format!("dmv://{key}@{p}")).collect();
        good.push(format!("dmv://{key}"));
        for text in good {
            let address: PeerAddress = text.parse().expect(&text);
            assert_eq!(address.to_string(), text);
            assert_eq!(format!("{text}/").parse(), Ok(address));
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let key = "ab".repeat(32);
        let long = format!("{}:1", "a".repeat(300));
        let places = [
            "",
            ":1",
            "host",
            "host:",
            "host:0",
            "1.2.3.4:0",
            "host:65536",
            "-o:1",
            "a b:1",
            "a/b:1",
            "::1:1x",
            "[::1]",
            "\u{1b}:1",
            &long,
        ];
        let mut bad: Vec<String> = places.iter().map(|p| format!("dmv://{key}@{p}")).collect();
        bad.extend(["dmv://".into(), "dmv://x".into(), key.clone()]);
        bad.push(format!("ssh://{key}"));
        bad.push(format!("dmv://{key}/repository"));
        for text in bad {
            assert!(text.parse::<PeerAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn where_to_listen_is_an_address_with_or_without_port() {
        let listen = |text: &str| text.parse::<ListenAddress>().map(|l| l.0).ok();
        let at = |text: &str| text.parse::<SocketAddr>().expect(text);
        assert_eq!(listen("10.0.0.1:5"), Some(vec![at("10.0.0.1:5")]));
        assert_eq!(listen("10.0.0.1"), Some(vec![at("10.0.0.1:0")]));
        assert_eq!(listen("::1"), Some(vec![at("[::1]:0")]));
        assert_eq!(listen("[::1]:5"), Some(vec![at("[::1]:5")]));
        assert_eq!(listen(":5"), Some(vec![at("0.0.0.0:5"), at("[::]:5")]));
        for bad in ["", "host:5", "5", ":x", ":70000", "1.2.3:4"] {
            assert_eq!(listen(bad), None, "{bad}");
        }
    }
}
