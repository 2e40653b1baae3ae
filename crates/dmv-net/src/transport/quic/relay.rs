//! The user's own relays: whether they answer, and the messages if they do not.
//!
//! A relay passes packets between two devices that both keep a connection to it. It sees their keys
//! and how much data they exchange. It cannot read the data, because the devices encrypt it end to
//! end.

use super::{Node, QuicError};
use iroh::dns::DnsResolver;
use iroh::endpoint::RelayStatus;
use iroh::{RelayConfig, RelayMap, RelayMode, RelayUrl, Watcher};
use std::time::Duration;

/// How long to wait for a relay before going on without it.
pub(super) const RELAY_TIME: Duration = Duration::from_secs(5);

/// Parses the URLs that the user has set. Fails if one is malformed.
pub(super) fn parse(urls: &[String]) -> Result<Vec<RelayUrl>, QuicError> {
    let parse = |url: &String| {
        let bad = |why: &str| QuicError::Local(format!("'{url}' is not a valid relay URL: {why}"));
        // iroh uses TLS for every scheme except http, whatever the scheme is.
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return Err(bad("it must start with http:// or https://"));
        }
        url.parse::<RelayUrl>().map_err(|e| bad(&e.to_string()))
    };
    urls.iter().map(parse).collect()
}

/// Returns iroh's setting for these relays.
pub(super) fn mode(relays: &[RelayUrl]) -> RelayMode {
    if relays.is_empty() {
        return RelayMode::Disabled;
    }
    let config = |url: &RelayUrl| {
        let mut config = RelayConfig::from(url.clone());
        if url.scheme() == "http" {
            // A relay without a certificate cannot report our address over QUIC. iroh would try for
            // three seconds before it used the relay.
            config.quic = None;
        }
        config
    };
    RelayMode::Custom(relays.iter().map(config).collect::<RelayMap>())
}

/// Makes a resolver for the names of relays that uses the system's settings only. iroh's own
/// resolver asks public name servers if the system's do not answer.
pub(super) fn resolver() -> DnsResolver {
    DnsResolver::builder()
        .with_system_defaults()
        .disable_fallback()
        .build()
}

/// The state of the connection to the relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayState {
    /// The relay keeps a connection to us: peers can reach us through it.
    Reached,
    /// The relay answers but does not accept our key.
    Denied,
    /// The relay does not answer, or not like a relay, or it cannot prove its name.
    Silent,
}

impl RelayState {
    fn of(relays: &[RelayStatus]) -> RelayState {
        if relays.iter().any(RelayStatus::is_connected) {
            RelayState::Reached
        } else if relays.iter().any(|r| r.auth_denied_reason().is_some()) {
            RelayState::Denied
        } else {
            RelayState::Silent
        }
    }
}

impl Node {
    /// Returns the current state of the connection to the relay.
    pub(super) fn relay_state(&self) -> RelayState {
        RelayState::of(&self.endpoint.home_relay_status().get())
    }

    /// Returns the relays' URLs as text; `None` if the user has set none.
    pub(super) fn named_relays(&self) -> Option<String> {
        let all: Vec<&str> = self.relays.iter().map(|url| url.as_str()).collect();
        (!all.is_empty()).then(|| all.join(" and "))
    }

    /// Waits until a relay has answered or `time` is up. Returns at once if the user has set none.
    pub(super) async fn meet_relay(&self, time: Duration) {
        if self.relays.is_empty() {
            return;
        }
        let mut states = self.endpoint.home_relay_status();
        let answered = async {
            let mut now = states.get();
            while RelayState::of(&now) == RelayState::Silent {
                let Ok(next) = states.updated().await else {
                    return;
                };
                now = next;
            }
        };
        // `follow_relay` reports an answer that comes later.
        let _ = tokio::time::timeout(time, answered).await;
    }

    /// Calls `tell` with each state that differs from the one before; the first is `known`. Never
    /// returns.
    pub(super) async fn follow_relay(&self, mut known: RelayState, tell: impl Fn(RelayState)) {
        let mut states = self.endpoint.home_relay_status();
        let mut now = states.get();
        loop {
            let state = RelayState::of(&now);
            // A device that was denied tries again. Most of the time it is between two answers.
            let tries_again = (known, state) == (RelayState::Denied, RelayState::Silent);
            if state != known && !tries_again {
                known = state;
                tell(state);
            }
            now = match states.updated().await {
                Ok(states) => states,
                Err(_) => return std::future::pending().await,
            };
        }
    }

    /// Returns the error for a peer that has not answered in time, directly or through a relay.
    pub(super) fn without_answer(&self, peer: String) -> QuicError {
        let why = "no reply in time";
        let Some(urls) = self.named_relays() else {
            let why = why.to_owned();
            return QuicError::Unreachable { peer, why };
        };
        let state = self.relay_state();
        let why = match state {
            RelayState::Reached => format!("{why}, directly or through the relay {urls}"),
            RelayState::Denied => format!("{why}; the relay {urls} denies access to this device"),
            RelayState::Silent => format!("{why}; the relay {urls} does not answer either"),
        };
        let met = state == RelayState::Reached;
        QuicError::NotAtRelay { peer, why, met }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_web_addresses_are_relays() {
        let parsed = |url: &str| parse(&[url.to_owned()]);
        for url in [
            "http://10.0.0.1:3340",
            "http://[fd00::1]:3340",
            "https://relay.example.org/",
        ] {
            assert_eq!(parsed(url).expect("a relay").len(), 1, "{url}");
        }
        for url in ["", "relay.example.org", "ftp://x", "http://", "http://a:b/"] {
            let said = parsed(url).expect_err("no relay").to_string();
            assert!(
                said.contains(&format!("'{url}' is not a valid relay URL")),
                "{said}"
            );
        }
        assert_eq!(parse(&[]).expect("none").len(), 0);
    }

    #[test]
    fn without_a_relay_none_is_used() {
        assert!(matches!(mode(&[]), RelayMode::Disabled));
        let urls = ["http://a:1", "https://b"].map(str::to_owned);
        let RelayMode::Custom(map) = mode(&parse(&urls).expect("relays")) else {
            panic!("the relays of the user's choice alone");
        };
        assert_eq!(map.len(), 2);
    }
}
