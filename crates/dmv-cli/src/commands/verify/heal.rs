//! `dmv verify --heal`: what is damaged or missing is stored again, from the worktree and from peers.

use crate::error::verify_there;
use crate::peers::{Call, remotes, tell_skipped};
use crate::prelude::*;
use dmv_core::object::ObjectType;
use dmv_core::repo::{HealJob, HealedObject, VerifyDepth, VerifyReport};
use dmv_net::ops::Peer;
use dmv_net::session::NetError;
use dmv_net::wire::Code;
use std::collections::HashSet;

/// Sessions with one peer in a row that may end at what is damaged there, before one that does not:
/// enough to find the next whole object among as many as a message names, unless little else is left.
const MAX_TRIES: u32 = 64;

/// What came of it.
pub struct Outcome {
    /// What is wrong now.
    pub report: VerifyReport,
    /// What is whole again.
    pub healed: Vec<HealedObject>,
    /// Whether there is a peer to ask.
    pub has_peers: bool,
}

/// Checks and heals, and goes on below what is healed until nothing more can be.
pub fn heal(context: &Context, repo: &Repo, depth: VerifyDepth) -> Result<Outcome, Failure> {
    let watch = context.watch("verifying");
    let mut healing = repo.begin_to_heal(depth, &context.job)?;
    let settings = context.settings()?;
    let call = Call::new(context);
    let mut asking = HealSources::new(context, repo, &call)?;
    drop(watch);
    // What is above tells what is below: only then is content asked for, since files may have it.
    loop {
        let watch = context.watch("reading files");
        let from_files = healing.from_worktree(&settings, &context.job)?;
        drop(watch);
        let from_peers = asking.ask(&mut healing, |ty| ty != ObjectType::Chunk)?;
        if !from_files && !from_peers {
            break;
        }
    }
    asking.ask(&mut healing, |_| true)?;
    let has_peers = !asking.peers.is_empty();
    asking.finish(&healing);
    let watch = context.watch("verifying");
    let (report, healed) = healing.finish(&context.job)?;
    drop(watch);
    Ok(Outcome {
        report,
        healed,
        has_peers,
    })
}

/// The remotes, and what each was asked for.
struct HealSources<'a> {
    context: &'a Context,
    offline: bool,
    peers: Vec<AskedRemote<'a>>,
}

/// A remote, what it was asked for, and whether some of that was damaged there.
struct AskedRemote<'a> {
    peer: Peer<'a>,
    ids: HashSet<ObjectId>,
    is_damaged: bool,
}

impl<'a> HealSources<'a> {
    fn new(
        context: &'a Context,
        repo: &'a Repo,
        call: &'a Call<'a>,
    ) -> Result<HealSources<'a>, Failure> {
        let peers = Peer::all(remotes(context)?, repo, call, &context.job);
        Ok(HealSources {
            context,
            offline: context.is_offline()?,
            peers: peers.into_iter().map(AskedRemote::new).collect(),
        })
    }

    /// Brings what is wanted, of some types, as long as a peer has any of it; whether anything came.
    fn ask(
        &mut self,
        healing: &mut HealJob<'_>,
        which: impl Fn(ObjectType) -> bool,
    ) -> Result<bool, Failure> {
        let (mut any, mut came) = (false, true);
        while std::mem::take(&mut came) {
            for asked in &mut self.peers {
                let wanted = healing.wanted();
                let new = |(ty, id): &(ObjectType, ObjectId)| which(*ty) && asked.ids.insert(*id);
                let wanted: Vec<_> = wanted.filter(new).collect();
                if wanted.is_empty() || self.offline {
                    continue;
                }
                let watch = self.context.watch("fetching");
                self.context.job.begin_part();
                asked.bring(self.context, wanted, healing);
                drop(watch);
                self.context.job.check()?;
                came |= healing.came_from(&asked.peer.remote.name, &self.context.job)?;
            }
            any |= came;
        }
        Ok(any)
    }

    fn finish(self, healing: &HealJob<'_>) {
        let ui = &self.context.ui;
        if healing.are_files_busy() {
            let text = "the files of the worktree were not read: another command is changing them";
            ui.note(format_args!("note: {text}"));
        }
        for AskedRemote {
            peer,
            ids,
            is_damaged,
        } in self.peers
        {
            let name = &peer.remote.name;
            if self.offline && !ids.is_empty() {
                ui.note(format_args!("note: offline: {name} was not asked"));
            }
            if is_damaged {
                let there = verify_there(&peer.remote.url);
                ui.note(format_args!(
                    "note: {name} is damaged, too; to check it: {there}"
                ));
            }
            let is_unasked = |(_, id): &(ObjectType, ObjectId)| !ids.contains(id);
            let unasked = healing.wanted().filter(is_unasked).count();
            if unasked > 0 {
                ui.note(format_args!(
                    "note: {name} was not asked for {unasked} of the objects"
                ));
            }
            tell_skipped(self.context, peer.finish());
        }
    }
}

impl<'a> AskedRemote<'a> {
    fn new(peer: Peer<'a>) -> AskedRemote<'a> {
        AskedRemote {
            peer,
            ids: HashSet::new(),
            is_damaged: false,
        }
    }

    /// Brings what a peer has of `wanted`. Who fails is passed over; what came before that counts. What
    /// there were no tries for counts as not asked for.
    fn bring(
        &mut self,
        context: &Context,
        wanted: Vec<(ObjectType, ObjectId)>,
        healing: &HealJob<'_>,
    ) {
        let (mut left, mut tries) = (vec![wanted], MAX_TRIES);
        while let Some(mut wanted) = left.pop() {
            let mut is_damaged = false;
            let _ = self.peer.ask(|client| {
                let brought = client.bring_again(wanted.clone(), &healing.objects());
                brought.inspect_err(|e| is_damaged = matches!(e, NetError::Peer(Code::Damaged, _)))
            });
            if !is_damaged || context.job.is_cancelled() {
                tries = MAX_TRIES;
                continue;
            }
            self.is_damaged = true;
            // What is damaged there ends the session. What is not is in one of the halves.
            tries -= 1;
            if wanted.len() > 1 {
                let half = wanted.split_off(wanted.len() / 2);
                left.extend([half, wanted]);
            }
            self.peer.try_again();
            if tries == 0 {
                for (_, id) in left.drain(..).flatten() {
                    self.ids.remove(&id);
                }
            }
        }
    }
}
