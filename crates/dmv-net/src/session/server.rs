//! The server's side of a session: the repository that accepted the connection.
//!
//! [`serve`] answers one client. The program and the transports call it, once per connection. Which
//! clients are admitted is decided before it is called.

use super::claims::{ClaimsClient, ReceivedClaims, answer_claims, device_in, digest_of};
use super::client::{TRIES, hello};
use super::held::held_by;
use super::link::{Link, Traffic};
use super::purges::{PartialPurgeRequest, PurgeAnswer, answer_purge, say_purged};
use super::{NetError, transfer};
use crate::sync::Goal;
use crate::wire::{
    Access, Code, ExpiredFiles, Extension, MAX_IDS, MAX_KEEPS, MAX_REFS, MAX_REFS_IN_MESSAGE,
    MAX_TEXT_BYTES, Message, Outcome, ReadOnly, Refs, Update, from_wire_objects, to_wire,
    to_wire_objects,
};
use dmv_core::claims::DEVICE_BYTES;
use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::ObjectType;
use dmv_core::repo::{
    Expiry, OfferedRefs, OperationRequest, RefChange, RefUpdate, Refusal, Repo, RepoError,
};
use std::collections::{BTreeMap, BTreeSet};

/// What a client may do.
#[derive(Clone, Copy, Debug)]
pub struct Grant {
    access: Access,
    /// Why it may only read, for the Hello.
    read_only: Option<ReadOnly>,
    /// The device, if the transport knows it.
    device: Option<[u8; DEVICE_BYTES]>,
}

impl Grant {
    /// Grants fetches and pushes. Grants fetches only if there is a `limit` or `repo` cannot be
    /// written.
    pub fn of(repo: &Repo, limit: Option<ReadOnly>) -> Grant {
        let unwritable = repo.refs().is_read_only().then_some(ReadOnly::Repository);
        let read_only = unwritable.or(limit);
        let access = match read_only {
            Some(_) => Access::Read,
            None => Access::Write,
        };
        Grant {
            access,
            read_only,
            device: None,
        }
    }

    /// Says which device the client is. Without it, the client says so itself.
    pub fn to_device(self, device: [u8; DEVICE_BYTES]) -> Grant {
        let device = Some(device);
        Grant { device, ..self }
    }
}

impl From<Access> for Grant {
    fn from(access: Access) -> Grant {
        Grant {
            access,
            read_only: None,
            device: None,
        }
    }
}

/// What a served session did.
#[derive(Debug, Default)]
pub struct SessionReport {
    /// The refs that the client moved, and those that were refused.
    pub moved: Vec<RefChange>,
    /// How many files the client had purged.
    pub purged: u64,
    /// What went over the connection.
    pub traffic: Traffic,
}

/// Answers one client until it ends the session.
///
/// `request` goes into the operation log. If the client breaks the protocol, the server sends it
/// Failed and closes the connection.
pub fn serve(
    repo: &Repo,
    mut link: Link,
    grant: impl Into<Grant>,
    request: &OperationRequest,
    job: &Job,
) -> Result<SessionReport, NetError> {
    let mut served = SessionReport::default();
    let done = answer(repo, &mut link, grant.into(), request, job, &mut served);
    if let Err(e) = &done
        && let Some(code) = e.code()
    {
        link.say_last(&Message::Failed(code, clipped(&told(repo, e))));
    }
    served.traffic = link.traffic;
    link.close();
    done.map(|()| served)
}

/// Tells a client why it is not served, and closes the connection. Returns the reason.
pub fn refuse(mut link: Link, why: NetError) -> NetError {
    let code = why.code().unwrap_or(Code::Failed);
    link.say_last(&Message::Failed(code, clipped(&why.words_for_peer())));
    link.close();
    why
}

/// Returns what a client is told about a failure. It names the repository: "here" is elsewhere for the
/// client, and errors of the database name no path.
fn told(repo: &Repo, e: &NetError) -> String {
    let (text, place) = (e.to_string(), repo.dmv_dir().display().to_string());
    match e {
        NetError::Repo(RepoError::Refs(_)) if !text.contains(&place) => {
            format!("{text} (in {place})")
        }
        NetError::Repo(RepoError::Untrusted(_)) => {
            format!(
                "{text}; 'dmv commit --amend --sign' signs the last commit, 'dmv tag --sign NAME' makes a signed tag, and 'dmv trust' there lists a key"
            )
        }
        _ => text,
    }
}

/// Shortens a text to the protocol's limit. Leaves out its middle, where a long path is: the reason
/// stands at the end.
fn clipped(text: &str) -> String {
    const MARK: &str = " … ";
    if text.len() <= MAX_TEXT_BYTES {
        return text.to_owned();
    }
    let side = (MAX_TEXT_BYTES - MARK.len()) / 2;
    let head = &text[..text.floor_char_boundary(side)];
    let tail = &text[text.ceil_char_boundary(text.len() - side)..];
    [head, MARK, tail].concat()
}

fn answer(
    repo: &Repo,
    link: &mut Link,
    grant: Grant,
    request: &OperationRequest,
    job: &Job,
    served: &mut SessionReport,
) -> Result<(), NetError> {
    let offered = repo.offered()?;
    let access = grant.access;
    let mut greeting = hello(repo, access, link);
    let held = held_by(repo).as_ref().map(Extension::holds);
    let read_only = grant.read_only.map(Extension::read_only);
    let expires = has_expired(repo).then(Extension::expires);
    let claims = Extension::claims(digest_of(repo));
    let extensions = held.into_iter().chain(read_only).chain(expires);
    let extensions = extensions.chain([claims]);
    greeting.extensions.extend(extensions);
    link.say(&Message::Hello(greeting))?;
    say_refs(link, &offered)?;
    let Message::Hello(client) = link.hear(job)? else {
        return Err(NetError::Protocol("a greeting was expected"));
    };
    link.greeted(&client);
    // Lives from the first Keep until the connection ends: until then nothing is freed.
    let mut keeper = None;
    let mut requested = PartialPurgeRequest::default();
    let mut told = ReceivedClaims::default();
    let by = Pusher {
        access,
        device: grant.device.or_else(|| device_in(client.claims())),
        knows_claims: client.claims().is_some(),
    };
    loop {
        match link.hear(job) {
            Ok(Message::Keep(files, last)) => {
                let keeper = match &mut keeper {
                    Some(keeper) => keeper,
                    none => none.insert(repo.keeper()?),
                };
                if keeper.waiting() + files.len() > MAX_KEEPS {
                    return Err(NetError::Protocol("too many files to keep"));
                }
                for (ty, id) in from_wire_objects(&files)? {
                    keeper.ask(ty, id);
                }
                if last {
                    say_unkept(link, &keeper.unkept(job)?)?;
                }
            }
            Ok(want @ Message::Want(_)) => {
                let tips = offered.refs.iter().map(|(_, id)| *id);
                transfer::send(repo, link, want, tips, job)?;
            }
            Ok(Message::AskExpired) => say_expired(link, &expired_here(repo)?)?,
            Ok(Message::AskPurged) => say_purged(repo, link)?,
            Ok(Message::Purge(found, last)) => {
                // A client that relies on copies here does not destroy some of them meanwhile.
                if keeper.is_some() {
                    return Err(NetError::Protocol("a purge after a question about copies"));
                }
                if let Some(purges) = requested.add(found, last)? {
                    let answer = answer_purge(repo, access, request, purges, job)?;
                    served.purged += answer.sums.files;
                    let PurgeAnswer { outcome, sums, why } = answer;
                    link.say(&Message::PurgeDone(outcome, sums, why))?;
                }
            }
            Ok(Message::TellClaims(lists, last)) => {
                told.add(&lists)?;
                if last {
                    let told = std::mem::take(&mut told);
                    let device = grant.device;
                    let by = ClaimsClient { access, device };
                    answer_claims(repo, link, by, told, request)?;
                }
            }
            Ok(Message::Push(updates)) => {
                let outcomes = push(repo, link, by, &updates, request, job, served)?;
                link.say(&Message::Pushed(outcomes))?;
            }
            Ok(Message::Bye) | Err(NetError::Closed) => return Ok(()),
            Ok(_) => return Err(NetError::Protocol("a message that does not belong here")),
            Err(e) => return Err(e),
        }
    }
}

/// Sends the refs that this side offers, in messages.
pub fn say_refs(link: &mut Link, offered: &OfferedRefs) -> Result<(), NetError> {
    let mut pages = offered.refs.chunks(MAX_REFS_IN_MESSAGE).peekable();
    let mut head = offered.head.clone();
    loop {
        let page = pages.next().unwrap_or_default();
        let refs = page.iter().map(|(key, id)| (key.clone(), *id.as_bytes()));
        let more = pages.peek().is_some();
        link.say(&Message::Refs(Refs {
            head: head.take(),
            refs: refs.collect(),
            more,
        }))?;
        if !more {
            return Ok(());
        }
    }
}

/// Sends the files that this side does not keep, in messages.
pub fn say_unkept(link: &mut Link, unkept: &[(ObjectType, ObjectId)]) -> Result<(), NetError> {
    let mut pages = unkept.chunks(MAX_IDS).peekable();
    loop {
        let page = to_wire_objects(pages.next().unwrap_or_default());
        let last = pages.peek().is_none();
        link.say(&Message::Unkept(page, last))?;
        if last {
            return Ok(());
        }
    }
}

/// Whether any content here has expired. An unreadable record of the slice stops the commands that need
/// it, but not a Hello.
fn has_expired(repo: &Repo) -> bool {
    repo.slice().is_ok_and(|slice| !slice.expired.is_empty())
}

fn expired_here(repo: &Repo) -> Result<ExpiredByReason, NetError> {
    let mut by_reason = ExpiredByReason::new();
    for (id, why) in repo.slice()?.expired {
        by_reason.entry(Expiry::clone(&why)).or_default().insert(id);
    }
    Ok(by_reason)
}

/// Files whose content has expired, by the rule and the time.
type ExpiredByReason = BTreeMap<Expiry, BTreeSet<ObjectId>>;

/// Answers a client that asks what has expired.
pub fn say_expired(link: &mut Link, by_reason: &ExpiredByReason) -> Result<(), NetError> {
    for (why, files) in by_reason {
        let files: Vec<ObjectId> = files.iter().copied().collect();
        for files in files.chunks(MAX_IDS) {
            let expired = ExpiredFiles {
                at: why.at,
                rule: why.rule.clone(),
                pattern: why.pattern.clone(),
                files: to_wire(files),
            };
            link.say(&Message::Expired(expired, false))?;
        }
    }
    link.say(&Message::Expired(ExpiredFiles::default(), true))
}

/// Who pushes.
#[derive(Clone, Copy)]
struct Pusher {
    access: Access,
    device: Option<[u8; DEVICE_BYTES]>,
    knows_claims: bool,
}

fn push(
    repo: &Repo,
    link: &mut Link,
    by: Pusher,
    updates: &[Update],
    request: &OperationRequest,
    job: &Job,
    served: &mut SessionReport,
) -> Result<Vec<Outcome>, NetError> {
    if by.access < Access::Write {
        return Ok(vec![Outcome::Refused; updates.len()]);
    }
    // The transfer relies on objects that are stored already. They must stay until refs name them.
    let mut kept = repo.keep_all()?;
    let Verdicts { tried, outcomes } = Verdicts::of(repo, updates)?;
    let mut tries = 1;
    let moved = loop {
        receive_for(repo, link, &tried, job)?;
        match repo.accept_push(&tried, by.device, request) {
            // Another process has freed objects that were here. What is found from now on counts.
            Err(e) if e.may_be_gone() && tries < TRIES => kept = repo.keep_all()?,
            moved => break moved?,
        }
        tries += 1;
    };
    drop(kept);
    let mut results = moved.iter().map(|moved| match outcome(moved.refused) {
        Outcome::Held if !by.knows_claims => Outcome::Refused,
        known => known,
    });
    let outcomes = outcomes
        .into_iter()
        .map(|known| known.or_else(|| results.next()).unwrap_or(Outcome::Refused))
        .collect();
    drop(results);
    served.moved.extend(moved);
    Ok(outcomes)
}

/// The updates of a push, verdicts before anything is transferred.
#[derive(Default)]
struct Verdicts {
    /// The updates that are not refused. Only these need a transfer.
    tried: Vec<RefUpdate>,
    /// For each update of the push its outcome, if it is refused.
    outcomes: Vec<Option<Outcome>>,
}

impl Verdicts {
    fn of(repo: &Repo, updates: &[Update]) -> Result<Verdicts, NetError> {
        // With more refs than this, no client could fetch: its limit is the same.
        let mut room = MAX_REFS.saturating_sub(repo.offered()?.refs.len());
        let mut keys = BTreeSet::new();
        let mut verdicts = Verdicts::default();
        for update in updates {
            let update = RefUpdate {
                key: update.key.clone(),
                old: update.old.map(ObjectId::from_bytes),
                new: update.new.map(ObjectId::from_bytes),
                force: update.force,
            };
            if !keys.insert(update.key.clone()) {
                return Err(NetError::Protocol("a ref twice in one push"));
            }
            if update.old.is_none() && update.new.is_none() {
                verdicts.outcomes.push(Some(Outcome::Refused));
                continue;
            }
            let refusal = repo.judge(&update, std::slice::from_ref(&update))?;
            let mut refused = refusal.map(|why| outcome(Some(why)));
            if refused.is_none() && update.old.is_none() {
                match room.checked_sub(1) {
                    Some(left) => room = left,
                    None => refused = Some(Outcome::Refused),
                }
            }
            verdicts.outcomes.push(refused);
            if refused.is_none() {
                verdicts.tried.push(update);
            }
        }
        Ok(verdicts)
    }
}

/// Receives what the new commits of `updates` need.
fn receive_for(
    repo: &Repo,
    link: &mut Link,
    updates: &[RefUpdate],
    job: &Job,
) -> Result<(), NetError> {
    let complete = repo.complete_commits()?;
    let mut tips: Vec<ObjectId> = updates.iter().filter_map(|update| update.new).collect();
    tips.sort_unstable();
    tips.dedup();
    tips.retain(|tip| !complete.contains(tip));
    let filter = repo.wanted()?;
    for tips in tips.chunks(MAX_IDS) {
        let goal = Goal {
            tips: tips.to_vec(),
            complete: complete.clone(),
            empty: repo.store().is_empty(),
            filter: filter.clone(),
        };
        transfer::receive(repo, link, goal, job)?;
    }
    Ok(())
}

fn outcome(refused: Option<Refusal>) -> Outcome {
    match refused {
        None => Outcome::Done,
        Some(Refusal::Moved) => Outcome::Moved,
        Some(Refusal::NotForward) => Outcome::NotForward,
        Some(Refusal::BadName) => Outcome::BadName,
        Some(Refusal::InUse) => Outcome::InUse,
        Some(Refusal::Held) => Outcome::Held,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_text_both_ends_are_told() {
        for text in ["", "short", &"ä".repeat(MAX_TEXT_BYTES / 2)] {
            assert_eq!(clipped(text), text);
        }
        for path in ["a".repeat(1000), "ä".repeat(600), "名".repeat(5000)] {
            let told = clipped(&format!("cannot write to {path}: No space left on device"));
            assert!(told.len() <= MAX_TEXT_BYTES && told.len() > MAX_TEXT_BYTES - 12);
            assert!(told.starts_with("cannot write to ") && told.contains(" … "));
            assert!(told.ends_with(": No space left on device"), "{told}");
        }
    }
}
