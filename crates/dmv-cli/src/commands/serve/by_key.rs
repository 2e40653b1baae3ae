//! Serving over QUIC: the process that waits for peers, and what it says meanwhile.

use crate::commands::id::device_key;
use crate::commands::trust::called;
use crate::config::user_dir;
use crate::context::{Context, now};
use crate::error::{EXIT_BUSY, EXIT_OK, Failure};
use crate::peers::relays;
use dmv_core::repo::{Asked, PeerKey, discover};
use dmv_net::transport::quic::blocking::serve_repository;
use dmv_net::transport::quic::{Limits, Listen, ServeEvent, ServeOptions};
use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::channel;

/// Unknown keys that are reported. More are turned away in silence.
const MAX_REPORTED: usize = 100;

/// Serves until the job is cancelled.
pub fn run(
    context: &Context,
    listen: Option<Listen>,
    lan: bool,
    read_only: bool,
) -> Result<u8, Failure> {
    let place = discover(Path::new("."))?;
    let key = device_key()?;
    let _announcing = match lan {
        true => Some(announce_alone()?),
        false => None,
    };
    let (say, hear) = channel();
    let options = ServeOptions {
        listen: listen.unwrap_or_else(|| match lan {
            true => Listen::everywhere(0),
            false => Listen::loopback(),
        }),
        lan,
        label: rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned(),
        relays: relays(context)?,
        read_only,
        limits: Limits {
            idle_time: context.config()?.seconds("net.patience")?,
            ..Limits::default()
        },
        asked: Box::new(|peer| Asked {
            time: now(),
            who: format!("{} <{}>", peer.name, peer.key),
            command: format!("push from {}", called(peer)),
        }),
        event: Box::new(move |event| {
            // Nobody listens when serving has failed.
            let _ = say.send(event);
        }),
    };
    let _interruptible = context.interruptible();
    let job = context.job.clone();
    let own = key.public();
    let serving = std::thread::spawn(move || serve_repository(&key, &place, options, &job));
    let mut reported = BTreeSet::new();
    for event in hear {
        report(context, &own, event, &mut reported)?;
    }
    let served = serving
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    context.ui.note(format_args!(
        "stopped; {} sessions were answered, {} connections turned away",
        served.sessions, served.turned_away
    ));
    Ok(EXIT_OK)
}

fn report(
    context: &Context,
    own: &PeerKey,
    event: ServeEvent,
    reported: &mut BTreeSet<PeerKey>,
) -> Result<(), Failure> {
    match event {
        ServeEvent::Ready(addresses) => {
            let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            if context.globals.json {
                let key = own.to_string();
                context
                    .ui
                    .json(&serde_json::json!({ "key": key, "addresses": addresses }))?;
            } else {
                for address in &addresses {
                    writeln!(context.ui.out(), "{address}")?;
                }
                context.ui.note("serving; Ctrl-C stops it");
            }
            context.ui.finish()?;
        }
        ServeEvent::TurnedAway(key) => {
            if reported.len() < MAX_REPORTED && reported.insert(key) {
                context.ui.note(format_args!(
                    "an unknown device was turned away; to let it in: dmv trust {key}"
                ));
            }
        }
        ServeEvent::Session(peer, Ok(moved)) => {
            let peer = called(&peer);
            for moved in moved.iter().filter(|moved| moved.refused.is_none()) {
                let (key, new) = (&moved.key, moved.new.short(12));
                context.ui.note(format_args!("{peer} moved {key} to {new}"));
            }
            if context.ui.verbose() && moved.is_empty() {
                context.ui.note(format_args!("{peer} was here"));
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

/// Two processes that announce one key would be taken for one another: whoever looks for the key
/// could reach the wrong repository.
fn announce_alone() -> Result<File, Failure> {
    let path = user_dir()
        .expect("the device key is in it")
        .join("announcing");
    let file = File::create(&path).map_err(|e| Failure::file("create", &path, &e))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let message = "another dmv serve --lan announces this device already";
            Err(Failure::new("busy", EXIT_BUSY, message).hint("dmv serve --listen :4712"))
        }
        Err(TryLockError::Error(e)) => Err(Failure::file("lock", &path, &e)),
    }
}
