//! Serving over QUIC: the process that waits for peers, and what it says meanwhile.

use crate::commands::serve::upkeep::Upkeep;
use crate::config::user_dir;
use crate::context::now;
use crate::device::device_key;
use crate::devices::called;
use crate::failure::EXIT_BUSY;
use crate::ownership::find_own;
use crate::peers::relays;
use crate::prelude::*;
use dmv_core::platform::{OwnAccess, host_name, open_own, try_lock};
use dmv_core::repo::{OperationRequest, Peer, PeerKey, RepackReport, RepositoryLocation};
use dmv_core::threads;
use dmv_net::session::{NetError, Traffic};
use dmv_net::transport::quic::blocking::serve_repository;
use dmv_net::transport::quic::{Limits, ListenAddress, RelayState, ServeEvent, ServeOptions};
use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Unknown keys that are reported. More are turned away in silence.
const MAX_REPORTED: usize = 100;

/// What the threads beside this one report.
enum Heard {
    Served(ServeEvent),
    Repacked(Result<RepackReport, RepoError>),
    /// Nobody is served any more.
    Ended,
}

/// Serves until the job is cancelled.
pub fn run(
    context: &Context,
    listen: Option<ListenAddress>,
    lan: bool,
    read_only: bool,
) -> Result<u8, Failure> {
    let place = find_own()?;
    let key = device_key()?;
    let _announcing = if lan { Some(announce_alone()?) } else { None };
    let (say, hear) = channel();
    let (repacked, ended) = (say.clone(), say.clone());
    let options = options(context, listen, lan, read_only, say)?;
    let upkeep = upkeep(context, &place, repacked)?;
    let _interruptible = context.interruptible();
    let job = context.job.clone();
    let own = key.public();
    let serving = threads::start(move || {
        let served = serve_repository(&key, &place, options, &job);
        let _ = ended.send(Heard::Ended);
        served
    });
    let serving = serving.map_err(NetError::from)?;
    tell_all(context, &own, hear, upkeep.as_ref())?;
    drop(upkeep);
    let served = serving
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    tell_end(context, served.sessions, served.turned_away)
}

/// Returns how to serve. What happens meanwhile goes to `say`.
fn options(
    context: &Context,
    listen: Option<ListenAddress>,
    lan: bool,
    read_only: bool,
    say: Sender<Heard>,
) -> Result<ServeOptions, Failure> {
    Ok(ServeOptions {
        listen: listen.unwrap_or_else(|| {
            if lan {
                ListenAddress::everywhere(0)
            } else {
                ListenAddress::loopback()
            }
        }),
        lan,
        label: host_name(),
        relays: relays(context)?,
        read_only,
        limits: Limits {
            idle_time: context.config()?.seconds("net.patience")?,
            ..Limits::default()
        },
        request: Box::new(|peer| OperationRequest {
            time: now(),
            who: format!("{} <{}>", peer.name, peer.key),
            command: format!("push from {}", called(peer)),
        }),
        event: Box::new(move |event| {
            // Nobody listens when serving has failed.
            let _ = say.send(Heard::Served(event));
        }),
    })
}

/// Starts repacking after pushes, if the settings ask for it.
fn upkeep(
    context: &Context,
    place: &RepositoryLocation,
    repacked: Sender<Heard>,
) -> Result<Option<Upkeep>, Failure> {
    let Some(quiet) = context.config()?.seconds_if_set("serve.repack-after")? else {
        return Ok(None);
    };
    let tell = move |done| {
        let _ = repacked.send(Heard::Repacked(done));
    };
    let upkeep = Upkeep::start(place.clone(), quiet, tell);
    Ok(Some(upkeep.map_err(NetError::from)?))
}

/// Says what happens, until serving ends.
fn tell_all(
    context: &Context,
    own: &PeerKey,
    hear: Receiver<Heard>,
    upkeep: Option<&Upkeep>,
) -> Result<(), Failure> {
    let mut reported = BTreeSet::new();
    for heard in hear {
        let event = match heard {
            Heard::Served(event) => event,
            Heard::Repacked(done) => {
                tell_repacked(context, done)?;
                continue;
            }
            Heard::Ended => break,
        };
        if let (Some(upkeep), ServeEvent::Session(_, Ok(served))) = (upkeep, &event)
            && served.traffic.objects_received > 0
        {
            upkeep.wake();
        }
        if context.ui.is_json() && !is_told(&event, &reported) {
            tell(context, own, &event)?;
        }
        report(context, event, &mut reported)?;
    }
    Ok(())
}

/// Says how many peers were served and turned away.
fn tell_end(context: &Context, sessions: u64, turned_away: u64) -> Result<u8, Failure> {
    if context.ui.is_json() {
        let document = object! { event: "stopped", sessions: sessions, turned_away: turned_away };
        context.ui.json(&document)?;
    }
    context.ui.note(format_args!(
        "stopped; {sessions} sessions, {turned_away} refused connections"
    ));
    Ok(EXIT_OK)
}

/// Says what repacking between pushes has done.
fn tell_repacked(context: &Context, done: Result<RepackReport, RepoError>) -> Result<(), Failure> {
    let done = match done {
        Ok(done) => done,
        Err(e) => {
            context.ui.warn(format_args!("repacking failed: {e}"));
            return Ok(());
        }
    };
    let (before, after) = (done.before_bytes, done.after_bytes);
    if context.ui.is_json() {
        let document = object! {
            after_bytes: after,
            before_bytes: before,
            event: "repacked",
            done.{packs_after, packs_before},
        };
        context.ui.json(&document)?;
        return context.ui.finish();
    }
    let (packs, now) = (
        count(done.packs_before, "pack", "packs"),
        count(done.packs_after, "pack", "packs"),
    );
    context.ui.note(format_args!(
        "repacked: {packs} of {} are now {now} of {}",
        bytes(before),
        bytes(after)
    ));
    Ok(())
}

/// Whether a stranger was reported before, or too many were: a stranger may come often.
fn is_told(event: &ServeEvent, reported: &BTreeSet<PeerKey>) -> bool {
    match event {
        ServeEvent::TurnedAway(key) => reported.contains(key) || reported.len() >= MAX_REPORTED,
        _ => false,
    }
}

/// An event as one line for programs.
fn tell(context: &Context, own: &PeerKey, event: &ServeEvent) -> Result<(), Failure> {
    let of = |peer: &Peer, event: &str| {
        object! { event: event, key: peer.key.to_string(), peer.{name} }
    };
    let line = match event {
        ServeEvent::Ready(addresses) => {
            object! { addresses: texts(addresses), key: own.to_string() }
        }
        ServeEvent::Relay { url, state } => {
            let state = match state {
                RelayState::Reached => "reached",
                RelayState::Denied => "denied",
                RelayState::Silent => "silent",
            };
            object! { event: "relay", state: state, url: url.to_string() }
        }
        ServeEvent::TurnedAway(key) => object! { event: "turned-away", key: key.to_string() },
        ServeEvent::Came(peer) => of(peer, "connected"),
        ServeEvent::Session(peer, Ok(served)) => {
            let traffic = &served.traffic;
            let moved = served.moved.iter().filter(|moved| moved.refused.is_none());
            let refs =
                moved.map(|moved| object! { name: moved.key, new: moved.new, old: moved.old });
            object! {
                ..of(peer, "done"),
                traffic.{objects_sent, objects_received, bytes_sent, bytes_received},
                refs: Json::List(refs.collect()),
                served.{purged},
            }
            .sorted()
        }
        ServeEvent::Session(peer, Err(e)) => {
            object! { ..of(peer, "failed"), message: e.to_string() }.sorted()
        }
    };
    context.ui.json(&line)?;
    // A script waits for it.
    context.ui.finish()
}

fn report(
    context: &Context,
    event: ServeEvent,
    reported: &mut BTreeSet<PeerKey>,
) -> Result<(), Failure> {
    match event {
        ServeEvent::Ready(addresses) => {
            if !context.ui.is_json() {
                for address in &addresses {
                    writeln!(context.ui.out(), "{address}")?;
                }
                context.ui.note("serving; Ctrl-C stops it");
                context.ui.finish()?;
            }
        }
        ServeEvent::Relay { url, state } => context.ui.note(match state {
            RelayState::Reached => format!("devices can connect through the relay {url}"),
            RelayState::Denied => format!("the relay {url} denies access to this device"),
            RelayState::Silent => {
                format!("the relay {url} does not answer; dmv keeps trying")
            }
        }),
        ServeEvent::Came(peer) => {
            if context.ui.verbose() {
                context.ui.note(format_args!("{} connected", called(&peer)));
            }
        }
        ServeEvent::TurnedAway(key) => {
            if reported.len() < MAX_REPORTED && reported.insert(key) {
                context.ui.note(hint!(
                    "refused an unknown device; to give it access: dmv trust {}",
                    Argument::value(key.to_string())
                ));
            }
        }
        ServeEvent::Session(peer, Ok(served)) => {
            let (peer, moved, traffic) = (called(&peer), served.moved, served.traffic);
            let purged = served.purged;
            for moved in moved.iter().filter(|moved| moved.refused.is_none()) {
                let key = &moved.key;
                context.ui.note(match moved.new {
                    Some(new) => format!("{peer} moved {key} to {}", new.short(12)),
                    None => format!("{peer} deleted {key}"),
                });
            }
            if purged > 0 {
                let files = count(purged, "content", "contents");
                context.ui.note(format_args!("{peer} had {files} purged"));
            }
            match exchanged(&traffic) {
                Some(what) => context.ui.note(format_args!("{peer} {what}")),
                None if context.ui.verbose() && moved.is_empty() => {
                    context
                        .ui
                        .note(format_args!("{peer} fetched and pushed nothing"));
                }
                None => {}
            }
        }
        ServeEvent::Session(peer, Err(e)) => {
            context
                .ui
                .note(format_args!("session with {}: {e}", called(&peer)));
        }
    }
    Ok(())
}

/// What a peer took and gave, in words; `None`: nothing.
fn exchanged(traffic: &Traffic) -> Option<String> {
    let said = |word, n, size| {
        let objects = count(n, "object", "objects");
        (n > 0).then(|| format!("{word} {objects} ({})", bytes(size)))
    };
    let fetched = said("fetched", traffic.objects_sent, traffic.bytes_sent);
    let pushed = said("pushed", traffic.objects_received, traffic.bytes_received);
    let all: Vec<String> = fetched.into_iter().chain(pushed).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// Two processes that announce one key would be taken for one another: a device that looks for the key
/// could reach the wrong repository.
fn announce_alone() -> Result<File, Failure> {
    let path = user_dir()
        .expect("the device key is in it")
        .join("announcing");
    let file = open_own(&path, OwnAccess::Create);
    let file = file.map_err(|e| Failure::file("create", &path, &e))?;
    match try_lock(&file) {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let message = "another 'dmv serve --lan' already announces this device";
            Err(Failure::new("busy", EXIT_BUSY, message).hint("dmv serve --listen :4712"))
        }
        Err(TryLockError::Error(e)) => Err(Failure::file("lock", &path, &e)),
    }
}
