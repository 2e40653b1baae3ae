//! What was purged: both sides tell each other, and a client requests that a server purges as well.

use super::NetError;
use super::client::Client;
use super::link::Link;
use crate::wire::{
    Access, MAX_IDS, MAX_PURGED, MAX_TEXT_BYTES, Message, PurgeOutcome, PurgeSums, PurgedFiles,
    to_wire,
};
use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::ObjectType;
use dmv_core::reach::{Detail, Filter, Reach};
use dmv_core::repo::{
    BusyError, KnownPurge, OperationRequest, Purge, PurgeReport, PurgesElsewhere, Repo, RepoError,
    ToPurge,
};
use std::collections::{BTreeMap, BTreeSet};

/// A server's answer to a request to purge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeAnswer {
    /// What became of it.
    pub outcome: PurgeOutcome,
    /// How much is purged there by it, and what stays.
    pub sums: PurgeSums,
    /// The server's words.
    pub why: String,
}

/// Purges that a peer tells, in bounds.
#[derive(Default)]
struct ReceivedPurges {
    purges: BTreeMap<Purge, KnownPurge>,
    files: usize,
}

impl ReceivedPurges {
    fn add(&mut self, found: PurgedFiles, last: bool) -> Result<(), NetError> {
        let why = Purge {
            at: found.at,
            by: found.by,
            reason: found.reason,
        };
        if found.files.is_empty() {
            return if last {
                Ok(())
            } else {
                Err(NetError::Protocol("a purge of nothing"))
            };
        }
        if !why.is_storable() {
            return Err(NetError::Protocol("a purge for no reason"));
        }
        self.files += found.files.len();
        if self.files > MAX_PURGED {
            return Err(NetError::Protocol("too much purged content"));
        }
        let known = self.purges.entry(why.clone()).or_insert(KnownPurge {
            why,
            files: BTreeSet::new(),
            pieces: 0,
            stored: 0,
        });
        known
            .files
            .extend(found.files.into_iter().map(ObjectId::from_bytes));
        known.stored = known.stored.max(found.stored);
        Ok(())
    }
}

/// Sends purges in messages that `message` makes.
pub fn say_purges(
    link: &mut Link,
    purges: &[KnownPurge],
    message: fn(PurgedFiles, bool) -> Message,
) -> Result<(), NetError> {
    for purge in purges {
        let files: Vec<ObjectId> = purge.files.iter().copied().collect();
        for files in files.chunks(MAX_IDS) {
            let found = PurgedFiles {
                at: purge.why.at,
                by: purge.why.by.clone(),
                reason: purge.why.reason.clone(),
                files: to_wire(files),
                stored: purge.stored,
            };
            link.say(&message(found, false))?;
        }
    }
    link.say(&message(PurgedFiles::default(), true))
}

impl Client<'_> {
    /// Returns what was purged in the server's repository. Asks once. Returns nothing if the server
    /// does not know purges.
    pub fn purges_there(&mut self) -> Result<&[KnownPurge], NetError> {
        if self.purged.begin_to_ask() {
            self.link.say(&Message::AskPurged)?;
            self.link.traffic.round_trips += 1;
            let mut told = ReceivedPurges::default();
            loop {
                let Message::Purged(found, last) = self.link.hear(self.job)? else {
                    return Err(NetError::Protocol("purged content was expected"));
                };
                told.add(found, last)?;
                if last {
                    break;
                }
            }
            self.purged.answered(told.purges.into_values().collect());
        }
        Ok(self.purges())
    }

    /// Returns what was purged in the server's repository, as far as this side has asked.
    pub(super) fn purges(&self) -> &[KnownPurge] {
        self.purged.known().map_or(&[], Vec::as_slice)
    }

    /// Returns whether content of the server was purged and this side has not asked which.
    pub fn has_unasked_purges(&self) -> bool {
        self.purged.is_unasked()
    }

    /// Returns why the server does not have some of these files: those that it has purged.
    pub fn purges_of(
        &mut self,
        files: impl Iterator<Item = ObjectId>,
    ) -> Result<BTreeMap<ObjectId, PurgesElsewhere>, NetError> {
        self.purges_there()?;
        let of = |id: ObjectId| {
            let purge = self.purges().iter().find(|p| p.files.contains(&id))?;
            let there = PurgesElsewhere {
                purge: purge.why.clone(),
                place: self.place.clone(),
            };
            Some((id, there))
        };
        Ok(files.filter_map(of).collect())
    }

    /// Returns whether the server knows purges.
    pub fn knows_purges(&self) -> bool {
        self.purged.is_supported()
    }

    /// Requests that the server purges this content, too. Returns `None` if it does not know purges.
    pub fn request_purge(
        &mut self,
        purges: &[KnownPurge],
    ) -> Result<Option<PurgeAnswer>, NetError> {
        if !self.knows_purges() {
            return Ok(None);
        }
        say_purges(&mut self.link, purges, Message::Purge)?;
        self.link.traffic.round_trips += 1;
        match self.link.hear(self.job)? {
            Message::PurgeDone(outcome, sums, why) => Ok(Some(PurgeAnswer { outcome, sums, why })),
            _ => Err(NetError::Protocol("an answer to a purge was expected")),
        }
    }

    /// Notes why content is absent that a fetch has left out. `left_out` is that content; `None` before the
    /// fetch into an empty repository.
    pub(super) fn note_purges(
        &mut self,
        left_out: Option<&BTreeSet<ObjectId>>,
    ) -> Result<(), NetError> {
        if !self.purges().is_empty() {
            let noted = self.repo.note_told(self.purges(), &self.place, left_out)?;
            self.purged.noted += noted;
        }
        Ok(())
    }

    /// Returns the server's purges whose content is stored here, each with only these files.
    pub fn unpurged(&self) -> Result<Vec<KnownPurge>, NetError> {
        let known = self.repo.slice()?.purged;
        let mut out = Vec::new();
        for purge in self.purges() {
            let mut files = BTreeSet::new();
            for id in purge.files.iter().filter(|id| !known.contains_key(id)) {
                if is_stored(self.repo, id)? {
                    files.insert(*id);
                }
            }
            if !files.is_empty() {
                out.push(KnownPurge {
                    files,
                    ..purge.clone()
                });
            }
        }
        Ok(out)
    }

    /// Fails if commits that a push would send need content that the server has purged and that is
    /// stored here.
    pub(super) fn check_push(&mut self, tips: &[ObjectId]) -> Result<(), NetError> {
        self.purges_there()?;
        let unpurged = self.unpurged()?;
        if unpurged.is_empty() || tips.is_empty() {
            return Ok(());
        }
        let objects = self.repo.objects();
        let mut there = Vec::new();
        for (_, id) in &self.offered.refs {
            if objects.holds(ObjectType::Commit, id)? {
                there.push(*id);
            }
        }
        let filter = Filter {
            dropped: unpurged
                .iter()
                .flat_map(|purge| &purge.files)
                .copied()
                .collect(),
            shallow: self.repo.slice()?.boundary,
            ..Filter::default()
        };
        let mut reach = Reach::filtered(tips.iter().copied(), there, Detail::All, filter);
        while reach.next(objects)?.is_some() {
            self.job.check()?;
        }
        let left_out = reach.left_out();
        let needs = |purge: &&KnownPurge| purge.files.iter().any(|id| left_out.contains_key(id));
        match unpurged.iter().find(needs) {
            None => Ok(()),
            Some(purge) => Err(NetError::Purged {
                files: left_out.len() as u64,
                purge: Box::new(purge.why.clone()),
            }),
        }
    }
}

/// Returns whether the root of a content is stored.
fn is_stored(repo: &Repo, id: &ObjectId) -> Result<bool, NetError> {
    let objects = repo.objects();
    // The lists of purged files stay. What matters are chunks.
    Ok(objects.holds(ObjectType::Chunk, id)?
        || objects.holds(ObjectType::List, id)? && repo.has_content(id)?)
}

/// Answers a client that asks what was purged.
pub(super) fn say_purged(repo: &Repo, link: &mut Link) -> Result<(), NetError> {
    say_purges(link, &repo.purges()?, Message::Purged)
}

/// A request to purge that has not arrived completely.
#[derive(Default)]
pub(super) struct PartialPurgeRequest(ReceivedPurges);

impl PartialPurgeRequest {
    /// Adds a part of the request. Returns the purges after the last one.
    pub fn add(
        &mut self,
        found: PurgedFiles,
        last: bool,
    ) -> Result<Option<Vec<KnownPurge>>, NetError> {
        self.0.add(found, last)?;
        Ok(last.then(|| std::mem::take(&mut self.0).purges.into_values().collect()))
    }
}

/// Purges what a client with this access requests. Returns the answer.
pub(super) fn answer_purge(
    repo: &Repo,
    access: Access,
    request: &OperationRequest,
    purges: Vec<KnownPurge>,
    job: &Job,
) -> Result<PurgeAnswer, NetError> {
    let refused = |outcome, why: &str| PurgeAnswer {
        outcome,
        sums: PurgeSums::default(),
        why: why.to_owned(),
    };
    if access < Access::Write {
        return Ok(refused(PurgeOutcome::Refused, "this client may only read"));
    }
    match carry_out(repo, purges, request, job) {
        Err(RepoError::Busy(BusyError::Freeing(_))) => {
            let why = "another command uses the repository; try again later";
            Ok(refused(PurgeOutcome::Busy, why))
        }
        Err(e) => Err(e.into()),
        Ok(done) => {
            let outcome = if done.left.is_empty() {
                PurgeOutcome::Done
            } else {
                PurgeOutcome::Incomplete
            };
            let mut why = done.left.join("; ");
            why.truncate(why.floor_char_boundary(MAX_TEXT_BYTES));
            let sums = PurgeSums {
                files: done.files,
                shared_bytes: done.shared_bytes,
                linked_packs: done.linked_packs,
            };
            Ok(PurgeAnswer { outcome, sums, why })
        }
    }
}

/// Purges what a client requests, in one walk. The time is this repository's, and the name of the user
/// of the connection stands beside the one that the client tells.
fn carry_out(
    repo: &Repo,
    purges: impl IntoIterator<Item = KnownPurge>,
    request: &OperationRequest,
    job: &Job,
) -> Result<PurgeReport, RepoError> {
    let mut files: BTreeMap<Purge, BTreeMap<ObjectId, ObjectType>> = BTreeMap::new();
    for purge in purges {
        let why = named(purge.why, request);
        let types = repo.content_types(&purge.files)?;
        files.entry(why).or_default().extend(types);
    }
    let request = OperationRequest {
        command: format!("purge from {}", request.who),
        ..request.clone()
    };
    repo.begin_to_free()?
        .purge(Some(ToPurge { files, request }), job)
}

/// Returns what the server notes for what a client claims.
fn named(why: Purge, request: &OperationRequest) -> Purge {
    let mut by = if why.by == request.who {
        why.by
    } else {
        format!("{}, through {}", why.by, request.who)
    };
    by.retain(|c| !c.is_control());
    let mut out = Purge {
        at: request.time.seconds,
        by,
        reason: why.reason,
    };
    // Together they have to fit in one line.
    if !out.is_storable() {
        let end = out.reason.floor_char_boundary(out.reason.len() / 2);
        out.reason.truncate(end.max(1));
        let end = out.by.floor_char_boundary(out.by.len().min(400));
        out.by.truncate(end);
    }
    out
}
