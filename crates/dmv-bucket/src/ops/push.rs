//! A push to a bucket: no program answers there, so this side judges the refs itself, and then replaces
//! the root if no other device has.

use super::caller::BucketCaller;
use super::claims::read_claims;
use crate::files::{FileFailure, Files};
use crate::format::{ROOT, Root, View};
use crate::machines::{Answer, Request, Stamp, Tag};
use crate::store::{Counters, Settings, Store};
use crate::work::access::BucketAccess;
use crate::work::cache::Cache;
use crate::work::client::BucketClient;
use crate::work::push::{self, PushError};
use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::refs::Change;
use dmv_core::repo::{
    OfferedRefs, OperationRequest, Purge, RefChange, RefHolder, RefUpdate, Refusal, Repo,
    RepoError, judge_update,
};
use dmv_core::store::{RepositoryId, random_bytes};
use dmv_core::threads::start_in;
use dmv_net::ops::{BucketClaims, BucketForecast, PushOpening, PushTarget, SessionError, Step};
use dmv_net::session::{NetError, Summary};
use dmv_net::transport::{BucketAddress, Purpose, Url};
use dmv_net::trouble::{RootLoss, Trouble};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Why the first push to a place needs more rights than others.
const MAY_LIST: &str =
    "the first push to a place has to list it, to see whether a repository was lost there";

/// A bucket that is open for a push.
pub(super) struct OpenBucket<'a> {
    repo: &'a Repo,
    caller: &'a dyn BucketCaller,
    job: &'a Job,
    address: BucketAddress,
    files: Store,
    cache: Cache,
    counters: Arc<Counters>,
    /// The bytes that were counted before this push.
    before: (u64, u64),
    root: (Root, Tag),
    view: View,
    /// Whether there is no root yet, and a push would make the first one.
    is_new: bool,
    /// What was purged in the repository.
    purged: BTreeMap<ObjectId, Arc<Purge>>,
    /// What the bucket has.
    offered: OfferedRefs,
    /// The claims there, if they were read.
    claims: Option<Result<BucketClaims, NetError>>,
    summary: Summary,
}

impl<'a> OpenBucket<'a> {
    /// Opens the bucket at an address, and reads its root, and beside that its claims if they are wanted. An empty
    /// place gets a first root, unless this is a dry run.
    pub fn open(
        repo: &'a Repo,
        address: &BucketAddress,
        opening: PushOpening,
        caller: &'a dyn BucketCaller,
        job: &'a Job,
    ) -> Result<OpenBucket<'a>, Box<SessionError>> {
        let url = Url::Bucket(address.clone());
        refuse_mirror(address).map_err(|e| SessionError::unanswered(&url, e))?;
        caller.began(Step::Transfer);
        let opened = caller.store(address).and_then(|settings| {
            let files = Store::open(address, &settings)?;
            Ok((files, settings.counters))
        });
        let (files, counters) = opened.map_err(|e| SessionError::unanswered(&url, e))?;
        let cache = Cache::open(Some(repo.dmv_dir()), &address.to_string());
        let purged = match repo.slice() {
            Ok(slice) => slice.purged,
            Err(e) => return Err(SessionError::unanswered(&url, e.into())),
        };
        let counted = counters.now();
        caller.began(Step::Dial(&url));
        let test = || {
            caller.test_store(address, true).map_err(|e| match e {
                NetError::Caller(e) => PushError::Caller(e),
                e => PushError::Caller(Box::new(e)),
            })
        };
        let (found, claims) = std::thread::scope(|scope| {
            let read = || read_claims(&files, address, job);
            let asked = opening.reads_claims.then(|| start_in(scope, read));
            let found = read_root(&files, &cache, opening.dry_run, &test, job);
            // Without a thread, the push asks later.
            let asked = asked.and_then(Result::ok).map(|asked| asked.join());
            (found, asked.and_then(Result::ok))
        });
        caller.began(Step::Dialled);
        let (root, view, is_new) =
            found.map_err(|e| SessionError::unanswered(&url, net_error(address, e)))?;
        Ok(OpenBucket {
            offered: OfferedRefs {
                head: None,
                refs: refs_of(&view),
            },
            repo,
            caller,
            job,
            address: address.clone(),
            files,
            cache,
            counters,
            before: (counted.sent, counted.received),
            root,
            view,
            is_new,
            purged,
            claims,
            summary: Summary::default(),
        })
    }

    fn failed(&self, source: NetError) -> Box<SessionError> {
        Box::new(SessionError {
            url: Url::Bucket(self.address.clone()),
            answered: true,
            held: None,
            source,
        })
    }

    fn pusher(&self) -> BucketAccess<'_> {
        BucketAccess {
            purged: self.purged.clone(),
            ..BucketAccess::new(&self.files, self.repo.store(), self.job, self.cache.dir())
        }
    }

    /// Returns what becomes of each update, and the changes that are to be made.
    fn judge_all(&self, updates: &[RefUpdate]) -> Result<(Vec<RefChange>, Vec<Change>), NetError> {
        let mut moved = Vec::with_capacity(updates.len());
        let mut changes = Vec::new();
        for update in updates {
            let refs = BucketRefs(&self.view);
            let refused = judge_update(&refs, self.repo.objects(), update, updates)?;
            let now = self.view.get(&update.key);
            let wanted = update.new.map(|id| id.as_bytes().to_vec());
            if refused.is_none() && now != wanted.as_ref() {
                changes.push(Change {
                    key: update.key.clone(),
                    old: now.cloned(),
                    new: wanted,
                });
            }
            moved.push(RefChange {
                key: update.key.clone(),
                old: now.and_then(|value| id_of(value)),
                new: update.new,
                refused,
            });
        }
        Ok((moved, changes))
    }

    fn push_all(
        &mut self,
        updates: &[RefUpdate],
        request: &OperationRequest,
    ) -> Result<Vec<RefChange>, NetError> {
        let (mut moved, mut changes) = self.judge_all(updates)?;
        if changes.is_empty() {
            return Ok(moved);
        }
        self.caller.test_store(&self.address, false)?;
        changes.sort_by(|a, b| a.key.cmp(&b.key));
        let stamp = stamp(request);
        let pusher = self.pusher();
        // Nothing that is uploaded may be freed here meanwhile.
        let kept = self.repo.keep_all()?;
        let base = &self.root.0;
        let rows = base.rows.len() + base.meta_pages.len() + base.data_pages.len();
        // An empty bucket has nothing that this device lacks.
        let has_all = rows == 0 || self.cache.fetched() == base.generation;
        let base = base.generation;
        let done = push::push(&pusher, self.root.clone(), changes.clone(), &stamp);
        drop(kept);
        let done = done.map_err(|e| net_error(&self.address, e))?;
        let made = done.as_ref().map_or(&[][..], |done| &done.changes);
        for change in &changes {
            if made.iter().any(|made| made.key == change.key) {
                match &change.new {
                    Some(value) => drop(self.view.insert(change.key.clone(), value.clone())),
                    None => drop(self.view.remove(&change.key)),
                }
            } else if let Some(stayed) = moved.iter_mut().find(|moved| moved.key == change.key) {
                stayed.refused = Some(Refusal::Moved);
            }
        }
        if let Some(done) = done {
            let (root, tag) = *done.root;
            self.summary.traffic.objects_sent += done.objects;
            self.cache.keep_root(&root, &tag);
            if has_all && root.generation == base + 1 {
                // This device has everything that the new root adds.
                self.cache.note_fetched(root.generation);
            }
            self.root = (root, tag);
        }
        Ok(moved)
    }
}

impl PushTarget for OpenBucket<'_> {
    fn offered(&self) -> &OfferedRefs {
        &self.offered
    }

    fn take_claims(&mut self) -> Option<Result<BucketClaims, NetError>> {
        self.claims.take()
    }

    fn is_unused(&self) -> bool {
        self.root.0.previous == [0; 16]
    }

    fn push(
        &mut self,
        updates: &[RefUpdate],
        request: &OperationRequest,
    ) -> Result<Vec<RefChange>, Box<SessionError>> {
        let pushed = self.push_all(updates, request);
        pushed.map_err(|source| self.failed(source))
    }

    fn landed_unanswered(&self) -> Result<Vec<RefChange>, Box<SessionError>> {
        let mut client = BucketClient::new(&self.files, self.job);
        client.know(self.root.0.repository);
        let landed = push::landed_unanswered(&self.pusher(), &mut client, &self.root.0);
        match landed {
            Ok(changes) => Ok(changes.iter().map(moved).collect()),
            Err(e) => Err(self.failed(net_error(&self.address, e))),
        }
    }

    fn foresee(&self, updates: &[RefUpdate]) -> Result<BucketForecast, Box<SessionError>> {
        let failed = |source| self.failed(source);
        let (moved, changes) = self.judge_all(updates).map_err(failed)?;
        if changes.is_empty() {
            let forecast = BucketForecast::default();
            return Ok(BucketForecast { moved, ..forecast });
        }
        let pusher = self.pusher();
        let foreseen = push::foresee(&pusher, &self.root.0, self.view.clone(), changes);
        let foreseen = foreseen.map_err(|e| failed(net_error(&self.address, e)))?;
        let test = self.caller.cost_of_test(&self.address, self.is_new);
        let test = test.map_err(failed)?;
        Ok(BucketForecast {
            moved,
            foreseen,
            // The root, and at first one without anything.
            writes: push::writes_of(&foreseen) + 1 + u64::from(self.is_new) + test.writes,
            reads: test.reads,
        })
    }

    fn finish(mut self: Box<Self>) -> Summary {
        let counted = self.counters.now();
        let (sent, received) = self.before;
        self.summary.traffic.bytes_sent = counted.sent - sent;
        self.summary.traffic.bytes_received = counted.received - received;
        self.summary.traffic.round_trips = 1;
        self.summary
    }
}

/// Runs `work` on the bucket at an address, with what a connection needs. Another remote has this
/// `command` of its own.
pub(super) fn at_bucket<'u, T>(
    url: &'u Url,
    purpose: Purpose,
    command: &str,
    caller: &dyn BucketCaller,
    work: impl FnOnce(&'u BucketAddress, Settings) -> Result<T, NetError>,
) -> Result<T, Box<SessionError>> {
    let Url::Bucket(address) = url else {
        let place = url.to_string();
        let trouble = Trouble::Settings(format!("it is not a bucket: run {command} there"));
        return Err(SessionError::unanswered(
            url,
            NetError::Bucket { place, trouble },
        ));
    };
    if purpose == Purpose::Write {
        refuse_mirror(address).map_err(|e| SessionError::unanswered(url, e))?;
    }
    caller.began(Step::Dial(url));
    let settings = caller.store(address);
    caller.began(Step::Dialled);
    settings
        .and_then(|settings| work(address, settings))
        .map_err(|e| SessionError::unanswered(url, e))
}

/// Fails if the address is that of a web server: nothing can be changed there.
fn refuse_mirror(address: &BucketAddress) -> Result<(), NetError> {
    if address.scheme.is_web() {
        Err(net_error(address, Trouble::Mirror.into()))
    } else {
        Ok(())
    }
}

/// Returns the stamp of a new operation.
pub(super) fn stamp(request: &OperationRequest) -> Stamp {
    Stamp {
        id: random_bytes(),
        time: request.time,
        who: request.who.clone(),
        command: request.command.clone(),
        undoes: 0,
    }
}

/// Returns the failure of work at a bucket.
pub(super) fn net_error(address: &dyn std::fmt::Display, e: PushError) -> NetError {
    let trouble = match e {
        PushError::Trouble(trouble) => trouble,
        PushError::Lacking(objects) => return NetError::Lacking(objects),
        PushError::Purged { files, why } => return NetError::Purged { files, purge: why },
        PushError::Object(e) => return NetError::Repo(e.into()),
        PushError::Store(e) => return NetError::Repo(e.into()),
        PushError::Repo(e) => return NetError::Repo(e),
        PushError::Caller(e) => return NetError::Caller(e),
        PushError::Cancelled => return NetError::Cancelled,
    };
    NetError::Bucket {
        place: address.to_string(),
        trouble,
    }
}

/// Returns a change of a bucket as that of a ref.
pub(super) fn moved(change: &Change) -> RefChange {
    let id = |value: &Option<Vec<u8>>| value.as_deref().and_then(id_of);
    RefChange {
        key: change.key.clone(),
        old: id(&change.old),
        new: id(&change.new),
        refused: None,
    }
}

pub(super) fn id_of(value: &[u8]) -> Option<ObjectId> {
    Some(ObjectId::from_bytes(value.try_into().ok()?))
}

fn refs_of(view: &View) -> Vec<(String, ObjectId)> {
    let refs = view.iter();
    refs.filter_map(|(key, value)| Some((key.clone(), id_of(value)?)))
        .collect()
}

/// Tests a store before the first root is made there.
type TestStore<'t> = &'t dyn Fn() -> Result<(), PushError>;

/// Reads the root and its view. If there is no root, makes the first one, and says so; one that is
/// only `foreseen` is not stored.
fn read_root(
    files: &dyn Files,
    cache: &Cache,
    foreseen: bool,
    test: TestStore<'_>,
    job: &Job,
) -> Result<((Root, Tag), View, bool), PushError> {
    let mut client = BucketClient::new(files, job);
    let known = cache.root();
    let request = Request::GetRoot {
        unless: known.as_ref().map(|(_, tag)| tag.clone()),
        lost: 0,
    };
    let root = match (client.answer(&request), known) {
        (Answer::Root(root, tag), known) => {
            if known.is_some_and(|(known, _)| !root.can_follow(&known)) {
                return Err(Trouble::Forked.into());
            }
            (*root, tag)
        }
        (Answer::Unchanged, Some(known)) => {
            client.know(known.0.repository);
            known
        }
        (Answer::NoRoot, Some(_)) => return Err(Trouble::LostRoot(RootLoss::Gone).into()),
        (Answer::NoRoot, None) => match (found_now(&mut client)?, foreseen) {
            (Some(root), _) => root,
            (None, false) => first_root(files, &mut client, test)?,
            (None, true) => {
                let (etag, version) = (None, None);
                let root = Root::first(RepositoryId::random(), random_bytes());
                return Ok(((root, Tag { etag, version }), View::new(), true));
            }
        },
        // Some stores deny access to a file that is not there, to those who may not list. They cannot find
        // out either whether a root was lost, so they do not make the first one.
        _ => return Err(client.failure().into()),
    };
    let view = client.view(&root.0).ok_or_else(|| client.failure())?;
    cache.keep_root(&root.0, &root.1);
    Ok((root, view, false))
}

/// Fails if a place without a root has files of a repository, whose root is lost then: a new root beside
/// them would hide them. Returns the root if another device has made it in this moment.
fn found_now(client: &mut BucketClient<'_>) -> Result<Option<(Root, Tag)>, PushError> {
    let folders = client.repeat(|files| files.list_folders());
    let folders = folders.map_err(|e| match e {
        FileFailure::Trouble(Trouble::Denied(why)) => {
            Trouble::Denied(format!("{MAY_LIST} ({why})")).into()
        }
        e => PushError::from(e),
    })?;
    if !folders
        .iter()
        .any(|folder| RepositoryId::from_hex(folder).is_some())
    {
        return Ok(None);
    }
    let request = Request::GetRoot {
        unless: None,
        lost: 0,
    };
    match client.answer(&request) {
        Answer::Root(root, tag) => Ok(Some((*root, tag))),
        Answer::NoRoot => Err(Trouble::LostRoot(RootLoss::Orphans).into()),
        _ => Err(client.failure().into()),
    }
}

/// Makes the first root of an empty place, unless another device does.
fn first_root(
    files: &dyn Files,
    client: &mut BucketClient<'_>,
    test: TestStore<'_>,
) -> Result<(Root, Tag), PushError> {
    test()?;
    let root = Root::first(RepositoryId::random(), random_bytes());
    let bytes = root.encode().map_err(|e| Trouble::Other(e.to_string()))?;
    let denied = match files.write_if(ROOT, bytes, None) {
        Ok(tag) => {
            client.know(root.repository);
            return Ok((root, tag));
        }
        Err(FileFailure::Trouble(trouble)) => Some(trouble),
        // Another device was faster.
        Err(_) => None,
    };
    let request = Request::GetRoot {
        unless: None,
        lost: 0,
    };
    match (client.answer(&request), denied) {
        (Answer::Root(root, tag), _) => Ok((*root, tag)),
        (_, Some(trouble)) => Err(trouble.into()),
        _ => Err(client.failure().into()),
    }
}

/// The refs of a bucket. It is on no branch.
struct BucketRefs<'v>(&'v View);

impl RefHolder for BucketRefs<'_> {
    fn commit_of(&self, key: &str) -> Result<Option<ObjectId>, RepoError> {
        Ok(self.0.get(key).and_then(|value| id_of(value)))
    }

    fn refs(&self) -> Result<Vec<(String, ObjectId)>, RepoError> {
        Ok(refs_of(self.0))
    }
}
