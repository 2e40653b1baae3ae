//! The same for threads that know nothing of tokio. Each call has a runtime of its own.

use super::lan::Ear;
use super::relay::RELAY_TIME;
use super::repository::{Answers, Readers};
use super::{
    Confirm, Found, LanService, Node, NodeOptions, PairError, PairEvent, PairOptions, Paired,
    QuicError, SESSION, ServeEvent, ServeOptions, Served, lan, pair, serve,
};
use crate::identity::DeviceKey;
use crate::session::NetError;
use dmv_core::job::Job;
use dmv_core::repo::{Place, Repo};
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Runtime;

/// Enough for two announcements of everybody.
const LOOK_TIME: Duration = Duration::from_millis(2500);
/// For sessions to end when serving ends.
const STOP_TIME: Duration = Duration::from_secs(2);
/// How often a job that waits looks whether it was cancelled.
const CANCEL_CHECK: Duration = Duration::from_millis(50);

/// Who serves a repository on the local network. Takes some seconds.
pub fn look_around(job: &Job) -> Result<Vec<Found>, QuicError> {
    let looking = lan::look_around(LanService::Repository, LOOK_TIME);
    run(async {
        tokio::select! {
            found = looking => found,
            () = cancelled(job) => Ok(Vec::new()),
        }
    })?
}

/// Waits for another device with the same code, or looks for it.
pub fn pair_with(
    key: &DeviceKey,
    options: PairOptions,
    confirm: Confirm,
    event: impl Fn(PairEvent),
    job: &Job,
) -> Result<Paired, PairError> {
    run(pair::pair(key, options, confirm, event, cancelled(job)))?
}

/// Serves the repository at `place` until the job is cancelled.
pub fn serve_repository(
    key: &DeviceKey,
    place: &Place,
    options: ServeOptions,
    job: &Job,
) -> Result<Served, NetError> {
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
        let ear = match answers.options.lan {
            true => Some(Ear::open(LanService::Repository, &node, Some(label))?),
            false => None,
        };
        let follow = async {
            match ear {
                Some(mut ear) => ear.follow(&node).await,
                None => std::future::pending().await,
            }
        };
        let serving = serve(&node, answers.clone(), limits, cancelled(job));
        let served = tokio::select! {
            served = serving => served,
            () = follow => Served::default(),
            () = node.follow_relay(state, tell_relay) => Served::default(),
        };
        node.close().await;
        Ok::<_, QuicError>(served)
    });
    // Sessions have been told; what they have written so far is whole.
    runtime.shutdown_timeout(STOP_TIME);
    Ok(served?)
}

/// A runtime for one call.
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
    // A thread may still wait for somebody at a keyboard.
    runtime.shutdown_background();
    Ok(done)
}

/// Is done when the job is cancelled.
pub(super) async fn cancelled(job: &Job) {
    while !job.is_cancelled() {
        tokio::time::sleep(CANCEL_CHECK).await;
    }
}
