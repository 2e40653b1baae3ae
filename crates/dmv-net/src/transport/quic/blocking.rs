//! Calls for threads without an async runtime: look around, pair, serve. Each call makes its own
//! runtime. The program uses these.

use super::lan::Announcements;
use super::relay::RELAY_TIME;
use super::repository::{Answers, Readers};
use super::{
    Confirm, FoundPeer, LanService, Node, NodeOptions, PairError, PairEvent, PairOptions,
    PairedDevice, QuicError, SESSION, ServeEvent, ServeOptions, ServeReport, lan, pair, serve,
};
use crate::identity::DeviceKey;
use crate::session::NetError;
use dmv_core::job::Job;
use dmv_core::repo::{Repo, RepositoryLocation};
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Runtime;

/// Long enough to receive two announcements of every peer.
const LOOK_TIME: Duration = Duration::from_millis(2500);
/// How long sessions get to end after serving stops.
const STOP_TIME: Duration = Duration::from_secs(2);
/// How often a waiting job checks whether it was cancelled.
const CANCEL_CHECK: Duration = Duration::from_millis(50);

/// Finds peers that serve a repository on the local network. Takes about 2.5 s, unless the job is
/// cancelled.
pub fn look_around(job: &Job) -> Result<Vec<FoundPeer>, QuicError> {
    let looking = lan::look_around(LanService::Repository, LOOK_TIME);
    run(async {
        tokio::select! {
            found = looking => found,
            () = cancelled(job) => Ok(Vec::new()),
        }
    })?
}

/// Waits for another device with the same code, or looks for it, and exchanges keys. Nothing is
/// stored.
pub fn pair_with(
    key: &DeviceKey,
    options: PairOptions,
    confirm: Confirm,
    event: impl Fn(PairEvent),
    job: &Job,
) -> Result<PairedDevice, PairError> {
    run(pair::pair(key, options, confirm, event, cancelled(job)))?
}

/// Serves the repository at `place` until the job is cancelled. Returns how many sessions there
/// were.
pub fn serve_repository(
    key: &DeviceKey,
    place: &RepositoryLocation,
    options: ServeOptions,
    job: &Job,
) -> Result<ServeReport, NetError> {
    let runtime = runtime()?;
    let node_options = NodeOptions {
        listen: Some(options.listen.clone()),
        relays: options.relays.clone(),
    };
    let limits = options.limits.clone();
    let answers = Arc::new(Answers {
        list: Mutex::new(Repo::open_place(place.clone())?),
        place: place.clone(),
        readers: Readers::default(),
        options,
    });
    let served = runtime.block_on(async {
        let node = Node::bind(key, &[SESSION], &node_options).await?;
        tokio::select! {
            () = node.meet_relay(RELAY_TIME) => {}
            () = cancelled(job) => {}
        }
        let event = &answers.options.event;
        let tell_relay = |state| {
            let named = node.named_relays().into_iter();
            named.for_each(|url| event(ServeEvent::Relay { url, state }));
        };
        let state = node.relay_state();
        event(ServeEvent::Ready(node.own_addresses()));
        tell_relay(state);
        let label = &answers.options.label;
        let announcements = if answers.options.lan {
            Some(Announcements::open(
                LanService::Repository,
                &node,
                Some(label),
            )?)
        } else {
            None
        };
        let follow = async {
            match announcements {
                Some(mut announcements) => announcements.follow(&node).await,
                None => std::future::pending().await,
            }
        };
        let serving = serve(&node, answers.clone(), limits, cancelled(job));
        let served = tokio::select! {
            served = serving => served,
            () = follow => ServeReport::default(),
            () = node.follow_relay(state, tell_relay) => ServeReport::default(),
        };
        node.close().await;
        Ok::<_, QuicError>(served)
    });
    // Sessions have received the request to stop. What they have written so far is complete.
    runtime.shutdown_timeout(STOP_TIME);
    Ok(served?)
}

/// Makes a runtime for one call.
pub(super) fn runtime() -> Result<Runtime, QuicError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("dmv-net")
        .enable_all()
        .build()
        .map_err(|e| QuicError::Local(e.to_string()))
}

fn run<T>(work: impl Future<Output = T>) -> Result<T, QuicError> {
    let runtime = runtime()?;
    let done = runtime.block_on(work);
    // A thread may still wait for a person to confirm.
    runtime.shutdown_background();
    Ok(done)
}

/// Ends when the job is cancelled.
pub(super) async fn cancelled(job: &Job) {
    while !job.is_cancelled() {
        tokio::time::sleep(CANCEL_CHECK).await;
    }
}
