//! A bucket as the other side of a session: no program answers there, so a thread of this process reads the
//! files and answers in the protocol's words.
//!
//! The receiver is the same as for any peer: it decides what it wants, and stores only what it has
//! asked for. Here every object is decoded and hashed before it is passed on.
//!
//! - `catalog`: what is known of the bucket.
//! - `answers`: answers to requests by id.
//! - `unasked`: what is sent without a request.
//! - `verify`: whether everything is there and intact.
//! - `copies`: whether the bucket has the content of files.
//! - `range_reader`, `range_cache`: reads, and what of them is kept in memory.
//!
//! The room knows [`Files`] and no store, and the receiver only through its [`Link`].

mod answers;
mod catalog;
mod copies;
mod may_be_absent;
mod range_cache;
mod range_reader;
mod unasked;
mod verify;

use crate::files::Files;
use crate::format::Expirations;
use crate::work::cache::Cache;
use answers::{Clues, WantedObjects};
use catalog::Catalog;
use dmv_core::chunker::CHUNKER;
use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::ObjectType;
use dmv_core::repo::{KnownPurge, OfferedRefs, RepoSlice};
use dmv_core::store::CheckedRecord;
use dmv_net::session::{AGENT, Link, NetError, say_expired, say_purges, say_refs, say_unkept};
use dmv_net::trouble::Trouble;
use dmv_net::wire::{
    Access, Extension, Frame, Hello, MAX_KEEPS, MAX_NEEDS, Message, OBJECTS_TARGET_BYTES, ReadOnly,
    SliceSummary, WireObject, from_wire_objects, put_object, to_wire_objects,
};
pub use may_be_absent::MayBeAbsent;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
pub use unasked::{CloneForecast, foresee_clone, foresee_content};
pub use verify::{
    BucketDepth, BucketProblem, BucketReport, MissingIds, RowsReport, verify_bucket, verify_rows,
};

/// A bucket to be opened.
pub struct BucketSource {
    /// Its address, for messages.
    pub place: String,
    /// Its files.
    pub files: Arc<dyn Files>,
    /// The directory with the reader's own files, for copies of what was read. `None`: none are kept.
    pub copies: Option<PathBuf>,
    /// Whether it takes no files from anybody, as it is a web server.
    pub is_read_only: bool,
    /// Whether a bucket without a repository counts as an empty repository: something is to be
    /// pushed there.
    pub may_be_empty: bool,
}

impl BucketSource {
    /// Reads the root and what it consists of. Fails if there is no root.
    fn open(self) -> Result<Catalog, NetError> {
        let BucketSource {
            place,
            files,
            copies,
            ..
        } = self;
        let cache = Cache::open(copies.as_deref(), &place);
        let catalog = Catalog::open(&place, files, cache)?;
        let trouble = Trouble::NoRoot;
        catalog.ok_or(NetError::Bucket { place, trouble })
    }
}

/// Answers a client until it ends the session. The client gets the failure of the store if there is
/// one.
pub fn serve_bucket(source: BucketSource, mut link: Link) {
    match answer(source, &mut link) {
        Ok(()) => link.close(),
        Err(e) => link.fail(e),
    }
}

fn answer(source: BucketSource, link: &mut Link) -> Result<(), NetError> {
    let BucketSource {
        place,
        files,
        copies,
        is_read_only,
        may_be_empty,
    } = source;
    let cache = Cache::open(copies.as_deref(), &place);
    let mut catalog = Catalog::open(&place, files, cache)?;
    if catalog.is_none() && !may_be_empty {
        let trouble = Trouble::NoRoot;
        return Err(NetError::Bucket { place, trouble });
    }
    greet(catalog.as_mut(), is_read_only, link)?;
    let job = Job::default();
    let Message::Hello(client) = link.hear(&job)? else {
        return Err(NetError::Protocol("a greeting was expected"));
    };
    link.greeted(&client);
    let mut kept = Vec::new();
    let told = catalog.as_ref().map(|catalog| catalog.view.clone());
    let told = told.unwrap_or_default();
    loop {
        match (link.hear(&job), &mut catalog) {
            (Ok(Message::Want(want)), Some(catalog)) => {
                link.say(&Message::Common(Vec::new(), true))?;
                catalog.stream(&want, link)?;
                link.say(&Message::End)?;
                let is_all = !want.tips.is_empty();
                let answered = answer_needs(catalog, link, &job);
                catalog.hints.write();
                answered?;
                if is_all {
                    catalog.cache.note_fetched(catalog.root.generation);
                    catalog.tidy_cache();
                }
            }
            (Ok(Message::Keep(files, last)), Some(catalog)) => {
                kept.extend(from_wire_objects(&files)?);
                if kept.len() > MAX_KEEPS {
                    return Err(NetError::Protocol("too many files to keep"));
                }
                if last {
                    let unkept = catalog.unkept(std::mem::take(&mut kept), &told)?;
                    say_unkept(link, &unkept)?;
                }
            }
            (Ok(Message::AskPurged), Some(catalog)) => {
                let purges = known_purges(catalog)?;
                say_purges(link, &purges, Message::Purged)?;
            }
            (Ok(Message::AskExpired), Some(catalog)) => {
                say_expired(link, &known_expirations(catalog)?)?;
            }
            (Ok(Message::Bye) | Err(NetError::Closed), _) => return Ok(()),
            (Ok(_), _) => return Err(NetError::Protocol("a message that does not belong here")),
            (Err(e), _) => return Err(e),
        }
    }
}

fn greet(
    mut catalog: Option<&mut Catalog>,
    is_read_only: bool,
    link: &mut Link,
) -> Result<(), NetError> {
    let mut extensions = vec![
        Extension::keeps(),
        Extension::hears_totals(),
        Extension::deletes(),
    ];
    if is_read_only {
        extensions.push(Extension::read_only(ReadOnly::Repository));
    }
    let has_purged = catalog
        .as_ref()
        .is_some_and(|catalog| catalog.root.purges.count > 0);
    extensions.push(Extension::purges(has_purged));
    let has_expired = catalog
        .as_ref()
        .is_some_and(|catalog| !catalog.root.expired.is_empty());
    extensions.extend(has_expired.then(Extension::expires));
    let slice = catalog.as_deref_mut().map(held_in).transpose()?;
    let catalog = catalog.as_deref();
    extensions.extend(slice.as_ref().map(Extension::holds));
    let access = if is_read_only {
        Access::Read
    } else {
        Access::Write
    };
    link.say(&Message::Hello(Hello {
        agent: AGENT.to_owned(),
        repository: catalog.map_or([0; 16], |catalog| *catalog.repository().as_bytes()),
        chunker: CHUNKER.to_owned(),
        access,
        extensions,
    }))?;
    let refs = catalog.map(refs_of).transpose()?.unwrap_or_default();
    let has = |name: &&str| refs.iter().any(|(key, _)| *key == format!("branch/{name}"));
    // A bucket is on no branch.
    let head = ["main", "master"].into_iter().find(has).map(str::to_owned);
    say_refs(link, &OfferedRefs { head, refs })
}

/// Returns what was purged from the bucket, by reason.
fn known_purges(catalog: &mut Catalog) -> Result<Vec<KnownPurge>, NetError> {
    let unpurged = catalog.root.purges.unpurged;
    let known = catalog
        .purges()?
        .into_iter()
        .map(|(why, buried)| KnownPurge {
            why,
            pieces: buried.pieces.len() as u64,
            files: buried.files,
            stored: unpurged,
        });
    Ok(known.filter(|purge| !purge.files.is_empty()).collect())
}

/// Returns what has expired in the bucket, by reason, without what was purged.
fn known_expirations(catalog: &mut Catalog) -> Result<Expirations, NetError> {
    let mut expired = catalog.expired()?;
    for buried in catalog.purges()?.values() {
        for files in expired.values_mut() {
            files.retain(|id| !buried.files.contains(id));
        }
    }
    Ok(expired)
}

/// Returns the slice in the root of a bucket, if the bucket does not store everything.
fn slice_of(catalog: &Catalog) -> Result<Option<RepoSlice>, NetError> {
    let slice = &catalog.root.slice;
    if slice.is_empty() {
        return Ok(None);
    }
    let decoded = RepoSlice::decode(slice).map_err(|_| {
        catalog.failed(Trouble::Damaged(
            "root: its slice does not decode".to_owned(),
        ))
    })?;
    Ok(Some(decoded))
}

/// Returns what the bucket stores, by the slice, the purges and the expired files in its root.
fn held_in(catalog: &mut Catalog) -> Result<SliceSummary, NetError> {
    let purges = catalog.purges()?;
    let purged = purges.values().map(|buried| buried.files.len());
    let expired = known_expirations(catalog)?;
    let absent: usize = purged.chain(expired.values().map(BTreeSet::len)).sum();
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let Some(slice) = slice_of(catalog)? else {
        return Ok(SliceSummary {
            dropped: count(absent),
            ..SliceSummary::default()
        });
    };
    Ok(SliceSummary {
        subset: slice.subset.patterns().map(<[u8]>::to_vec).collect(),
        metadata_only: slice.metadata_only,
        boundary: count(slice.boundary.len()),
        dropped: count(slice.given_up().len() + absent),
    })
}

fn refs_of(catalog: &Catalog) -> Result<Vec<(String, ObjectId)>, NetError> {
    let is_ref = |key: &str| key.starts_with("branch/") || key.starts_with("tag/");
    let refs = catalog.view.iter().filter(|(key, _)| is_ref(key));
    let refs = refs.map(|(key, value)| {
        let id: [u8; 32] = value[..].try_into().map_err(|_| {
            let why = format!("root: the value of {} is not an id", key.escape_debug());
            catalog.failed(Trouble::Damaged(why))
        })?;
        Ok((key.clone(), ObjectId::from_bytes(id)))
    });
    refs.collect()
}

/// Answers requests until the receiver has everything.
fn answer_needs(catalog: &mut Catalog, link: &mut Link, job: &Job) -> Result<(), NetError> {
    let mut clues = Clues::new();
    let since = catalog.cache.fetched();
    loop {
        let mut needs = match link.hear(job)? {
            Message::Need(need) => vec![need],
            Message::Complete => return Ok(()),
            _ => return Err(NetError::Protocol("a message that does not belong here")),
        };
        // All that wait are answered together: their reads can be joined.
        while let Some(frame) = link.try_receive()? {
            match frame {
                Frame::Message(bytes) => match Message::decode(&bytes)? {
                    Message::Need(need) if needs.len() < MAX_NEEDS => needs.push(need),
                    _ => return Err(NetError::Protocol("a message that does not belong here")),
                },
                _ => return Err(NetError::Protocol("objects from the receiver")),
            }
        }
        clues.extend(link.take_clues().into_iter().map(|clue| (clue.chunk, clue)));
        give(catalog, link, &needs, &clues, since)?;
        for id in needs
            .iter()
            .flatten()
            .map(|(_, id)| ObjectId::from_bytes(*id))
        {
            clues.remove(&id);
        }
    }
}

fn give(
    catalog: &mut Catalog,
    link: &mut Link,
    needs: &[Vec<WireObject>],
    clues: &Clues,
    since: u64,
) -> Result<(), NetError> {
    let mut wanted = WantedObjects::new();
    for need in needs {
        wanted.extend(
            from_wire_objects(need)?
                .into_iter()
                .map(|(ty, id)| (id, ty)),
        );
    }
    let mut body = Vec::new();
    catalog.give(&mut wanted, clues, since, &mut |record, wanted| {
        pass_on(record, wanted, &mut body, link)
    })?;
    if !body.is_empty() {
        link.send(Frame::Objects(body))?;
    }
    if let (false, Some(given_up)) = (wanted.is_empty(), &catalog.given_up_since) {
        return Err(catalog.failed(given_up.clone()));
    }
    if let (false, Some(damage)) = (wanted.is_empty(), &catalog.damage) {
        return Err(catalog.failed(damage.clone()));
    }
    for need in needs {
        let absent: Vec<(ObjectType, ObjectId)> = from_wire_objects(need)?
            .into_iter()
            .filter(|(_, id)| wanted.contains_key(id))
            .collect();
        if !absent.is_empty() {
            link.say(&Message::Absent(to_wire_objects(&absent)))?;
        }
        link.say(&Message::NeedEnd)?;
    }
    Ok(())
}

/// Sends a record if all of it is wanted, or else those of its objects that are.
fn pass_on(
    record: CheckedRecord,
    wanted: &mut WantedObjects,
    body: &mut Vec<u8>,
    link: &mut Link,
) -> Result<(), NetError> {
    let is_wanted = |wanted: &WantedObjects, n: usize| {
        let object = record.objects()[n];
        wanted.get(&object.id) == Some(&object.ty)
    };
    let count = record.objects().len();
    let mut ids = std::collections::HashSet::new();
    let is_whole = (0..count).all(|n| is_wanted(wanted, n) && ids.insert(record.objects()[n].id));
    link.traffic.objects_sent += count as u64;
    if is_whole {
        for id in ids {
            wanted.remove(&id);
        }
        return link.send(Frame::Checked(record));
    }
    for n in 0..count {
        if !is_wanted(wanted, n) {
            continue;
        }
        let object = record.objects()[n];
        wanted.remove(&object.id);
        let bytes = record.bytes_of(n).unwrap_or_default();
        if !body.is_empty() && body.len() + bytes.len() > OBJECTS_TARGET_BYTES {
            link.send(Frame::Objects(std::mem::take(body)))?;
        }
        put_object(body, object.ty, bytes);
    }
    Ok(())
}
