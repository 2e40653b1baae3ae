//! Who works on what, as a repository knows it: the lists of claims, which of them hold here, and what remotes
//! have told. docs/format/claims.md specifies the values of the view.
//!
//! Every repository arbitrates: of claims that exclude each other, the one that arrived first holds here. That
//! is worth something where several people meet, at a disk, an account or a server.

use super::claim_progress::ClaimProgress;
use super::exchange::retrying;
use crate::claims::{
    Claim, ClaimBook, ClaimList, ClaimRef, DEVICE_BYTES, HeldClaims, PLACE_BYTES, PathIndex,
    PushRules, SignedList, Writer, WrittenEnding, settle, settle_some,
};
use crate::hash::ObjectId;
use crate::object::codec::{DecodeError, Decoder};
use crate::object::name::RepoPath;
use crate::object::tree::lookup_path;
use crate::object::{ObjectError, ObjectRead};
use crate::refs::{Change, Effect, RefsError};
use crate::repo::base::error::{PlaceError, RepoError};
use crate::repo::base::keys::{
    CLAIM_LISTS, CLAIMS_AT, CLAIMS_ENFORCED, CLAIMS_HELD, claim_list_key, claims_at_prefix,
};
use crate::repo::base::publish::{OperationRequest, change, set};
use crate::repo::base::repo::Repo;
use crate::repo::base::transaction::Transaction;
use std::collections::{BTreeMap, BTreeSet, HashSet};

const VERSION: u8 = 1;
/// The version of what a remote has told that wants signed commits.
const VERSION_WITH_SIGNATURES: u8 = 2;
const ENFORCED: &[u8] = b"true";
/// Bytes of a part of a value.
const PART_BYTES: usize = 96 << 10;

/// What a remote has told of claims.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimsThere {
    /// The id of its repository.
    pub place: [u8; PLACE_BYTES],
    /// The claims that hold there.
    pub held: HeldClaims,
    /// What it demands of pushes.
    pub rules: PushRules,
}

impl ClaimsThere {
    fn encode(&self) -> Vec<u8> {
        let version = if self.rules.needs_signatures {
            VERSION_WITH_SIGNATURES
        } else {
            VERSION
        };
        let head = [version, self.rules.bits()];
        [&head[..], &self.place, &self.held.encode()].concat()
    }

    fn decode(bytes: &[u8]) -> Result<ClaimsThere, DecodeError> {
        let mut input = Decoder::new(bytes);
        let version = input.version(VERSION..=VERSION_WITH_SIGNATURES)?;
        let rules = PushRules::from_bits(input.u8()?);
        let fits = |rules: &PushRules| rules.needs_signatures == (version != VERSION);
        let rules = rules
            .filter(fits)
            .ok_or_else(|| input.error("unknown flags"))?;
        let place = input.take(PLACE_BYTES)?.try_into().expect("it was taken");
        let held = HeldClaims::decode(input.take(input.remaining())?)?;
        Ok(ClaimsThere { place, held, rules })
    }

    /// Returns a short form of these claims and a book, to compare with what the remote says.
    pub fn digest(&self, book: &ClaimBook) -> [u8; 16] {
        let mut rest = self.held.encode();
        rest.push(u8::from(self.rules.keeps_to_claims));
        book.digest(&rest)
    }
}

/// What a connection has brought about claims.
#[derive(Clone, Debug)]
pub struct ToldClaims {
    /// The remote, if it has a name.
    pub remote: Option<String>,
    /// The lists that it has.
    pub lists: Vec<SignedList>,
    /// What holds there.
    pub there: ClaimsThere,
}

/// A claim, with what is known of it here.
#[derive(Clone, Debug)]
pub struct ClaimInfo {
    /// The claim.
    pub claim: Claim,
    /// Whose it is.
    pub writer: Writer,
    /// The name of the user who claims.
    pub by: String,
    /// Whether it is one of this device.
    pub is_own: bool,
    /// Whether this device has made it in this repository.
    pub is_here: bool,
    /// The remotes where it holds.
    pub held_at: Vec<String>,
    /// Whether it has come from elsewhere and holds in this repository.
    pub held_here: bool,
    /// Who is before it, if somebody is.
    pub behind: Option<ClaimHolder>,
    /// How far its work has come, where that was [asked](Repo::follow_claims) and is known.
    pub progress: Option<ClaimProgress>,
}

/// Who has a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimHolder {
    /// The name of the user.
    pub by: String,
    /// The key of the device.
    pub device: [u8; DEVICE_BYTES],
    /// The reason.
    pub reason: String,
    /// What it did.
    pub how: Precedence,
}

/// Why a claim does not have its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Precedence {
    /// Another one was first.
    First,
    /// Another one took the path over.
    Took,
    /// Somebody has ended the claim.
    Ended,
}

impl ClaimInfo {
    fn is_arbitrated(&self) -> bool {
        self.held_here || !self.held_at.is_empty()
    }

    /// Returns the word for the claim's state.
    pub fn word(&self) -> &'static str {
        match &self.behind {
            Some(holder) => match holder.how {
                Precedence::First => "noted",
                Precedence::Took => "taken",
                Precedence::Ended => "ended",
            },
            None => match &self.progress {
                Some(ClaimProgress::Retained(_)) => "retained",
                Some(ClaimProgress::Landed(_)) => "landed",
                None if self.is_arbitrated() => "held",
                None => "noted",
            },
        }
    }
}

/// All claims that a repository knows, in order of their paths and times.
#[derive(Debug, Default)]
pub struct ClaimTable {
    claims: Vec<ClaimInfo>,
    /// Those of other devices that have their paths.
    others: PathIndex<usize>,
}

impl ClaimTable {
    /// Returns the claims.
    pub fn claims(&self) -> &[ClaimInfo] {
        &self.claims
    }

    /// Returns the claims, to [note](Repo::follow_claims) how far their work has come.
    pub fn claims_mut(&mut self) -> impl Iterator<Item = &mut ClaimInfo> {
        self.claims.iter_mut()
    }

    /// Returns the claims of other devices that have this path, one above it or one below it.
    pub fn others_on(&self, path: &RepoPath) -> impl Iterator<Item = &ClaimInfo> + use<'_> {
        self.others.overlapping(path).map(|n| &self.claims[*n])
    }

    /// Returns the claim that has all of this path: that of another device, or else one of this one.
    pub fn of_path(&self, path: &RepoPath) -> Option<&ClaimInfo> {
        let is_own = |info: &&ClaimInfo| {
            info.is_own && info.behind.is_none() && path.starts_with(&info.claim.path)
        };
        let own = || self.claims.iter().find(is_own);
        self.of_another(path).or_else(own)
    }

    /// Returns the claim of another device that has all of this path: it is on the path or above it.
    pub fn of_another(&self, path: &RepoPath) -> Option<&ClaimInfo> {
        if self.claims.is_empty() {
            // As it is most often.
            return None;
        }
        self.others_on(path)
            .find(|info| path.starts_with(&info.claim.path))
    }
}

/// An own claim that somebody else is before now.
#[derive(Clone, Debug)]
pub struct DisplacedClaim {
    /// Its path.
    pub path: RepoPath,
    /// Who has it.
    pub holder: ClaimHolder,
}

impl Repo {
    /// Returns the lists of claims that are known here. Leaves out those that are damaged or of a later version: they
    /// are notes, and stop no command. The next copy of such a list that somebody tells takes its place.
    pub fn claim_book(&self) -> Result<ClaimBook, RepoError> {
        let lists = self.refs.with_prefix(CLAIM_LISTS)?.into_iter();
        let lists = lists.filter_map(|(_, value)| SignedList::decode_checked(&value).ok());
        let mut book = ClaimBook::default();
        for list in lists {
            // It was within the limits when it was taken.
            let _ = book.join(list);
        }
        Ok(book)
    }

    /// Fails if the list of a writer is stored and cannot be read: whoever made its next one would number it anew.
    pub fn check_readable(&self, writer: &Writer) -> Result<(), RepoError> {
        let key = claim_list_key(writer);
        match self.refs.get(&key)? {
            Some(value) => stored_list(self, &key, &value).map(drop),
            None => Ok(()),
        }
    }

    /// Returns which claims hold here, and whether pushes keep to them.
    pub fn claims_here(&self) -> Result<ClaimsThere, RepoError> {
        let held = match joined_parts(self, CLAIMS_HELD)?.map(|value| HeldClaims::decode(&value)) {
            Some(Ok(held)) => held,
            // What held is lost, and the order of the claims says what holds.
            Some(Err(_)) => settle(&self.claim_book()?, &HeldClaims::default()),
            None => HeldClaims::default(),
        };
        Ok(ClaimsThere {
            place: *self.id.as_bytes(),
            held,
            rules: PushRules {
                keeps_to_claims: self.refs.get(CLAIMS_ENFORCED)?.as_deref() == Some(ENFORCED),
                needs_signatures: self.requires_signatures()?,
            },
        })
    }

    /// Returns what a remote has told; nothing if it was never asked, or if that cannot be read: it tells it again.
    pub fn claims_at(&self, remote: &str) -> Result<ClaimsThere, RepoError> {
        let told = joined_parts(self, &claims_at_prefix(remote))?;
        let told = told.and_then(|value| ClaimsThere::decode(&value).ok());
        Ok(told.unwrap_or_default())
    }

    /// Sets whether pushes to this repository keep to the claims of other devices.
    pub fn enforce_claims(
        &self,
        enforced: bool,
        request: &OperationRequest,
    ) -> Result<(), RepoError> {
        let mut tx = Transaction::begin(self, request);
        let value = enforced.then(|| ENFORCED.to_vec());
        tx.set(CLAIMS_ENFORCED.to_owned(), value)?;
        tx.publish_changes(Effect::Kept)
    }

    /// Takes lists of claims that a client has sent. Claims that there is no room for are left out.
    pub fn take_claims(
        &self,
        lists: &[SignedList],
        request: &OperationRequest,
    ) -> Result<(), RepoError> {
        retrying(self, || {
            let before = self.claim_book()?;
            let after = before.with_room_for(lists.iter().cloned());
            let changes = claim_changes(self, &before, &after)?;
            Transaction::begin(self, request)
                .with(changes)
                .publish_changes(Effect::Kept)
        })
    }

    /// Notes what a remote has told of claims. Returns the own claims that somebody else is before now.
    pub fn note_claims(
        &self,
        told: &ToldClaims,
        request: &OperationRequest,
    ) -> Result<Vec<DisplacedClaim>, RepoError> {
        let known = displaced(self)?;
        retrying(self, || {
            let before = self.claim_book()?;
            let after = before.with_room_for(told.lists.iter().cloned());
            let mut tx = Transaction::begin(self, request);
            tx.change(claim_changes(self, &before, &after)?);
            if let Some(remote) = &told.remote
                && self.claims_at(remote)? != told.there
            {
                let key = claims_at_prefix(remote);
                tx.change(part_changes(self, &key, &told.there.encode())?);
            }
            tx.publish_changes(Effect::Kept)
        })?;
        let mut now = displaced(self)?;
        now.retain(|claim, _| !known.contains_key(claim));
        let new = now.into_iter().map(|(claim, holder)| DisplacedClaim {
            path: claim.path,
            holder,
        });
        Ok(new.collect())
    }

    /// Returns all claims that are known here.
    pub fn claims(&self) -> Result<ClaimTable, RepoError> {
        table(self, &self.claim_book()?, |_| true)
    }

    /// Returns the claims on some paths, above them and below them, and those that decide about these.
    pub fn claims_on<'p>(
        &self,
        paths: impl Iterator<Item = &'p RepoPath>,
    ) -> Result<ClaimTable, RepoError> {
        let book = self
            .remembered
            .claims
            .get(&self.refs, || self.claim_book())?;
        let claimed: HashSet<&[u8]> = book.claims().map(|(_, at)| at.path.as_bytes()).collect();
        if claimed.is_empty() {
            return Ok(ClaimTable::default());
        }
        // Claims exclude each other only below a common one.
        let roots: HashSet<&[u8]> = paths
            .map(|path| {
                let mut above = ends(path).filter(|above| claimed.contains(above));
                above.next().unwrap_or(path.as_bytes())
            })
            .collect();
        table(self, &book, |path| {
            ends(path).any(|above| roots.contains(above))
        })
    }
}

/// Returns the id of what a tree has at a path: `Some(None)` for nothing, `None` if it cannot be told.
pub fn version_at(
    objects: &dyn ObjectRead,
    tree: ObjectId,
    path: &RepoPath,
) -> Result<Option<Option<ObjectId>>, RepoError> {
    let entry = present(lookup_path(objects, &tree, path))?;
    Ok(entry.map(|entry| entry.map(|entry| entry.id)))
}

/// Turns what is absent into `None`.
pub fn present<T>(found: Result<T, ObjectError>) -> Result<Option<T>, RepoError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(ObjectError::Missing { .. }) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Returns the list in a value of this key.
pub fn stored_list(repo: &Repo, key: &str, value: &[u8]) -> Result<ClaimList, RepoError> {
    let list = SignedList::decode_checked(value);
    Ok(list.map_err(|e| damaged(repo, key, e))?.list().clone())
}

fn damaged(repo: &Repo, key: &str, why: impl std::fmt::Display) -> RepoError {
    RepoError::Place(PlaceError::Damaged {
        path: repo.refs.path().to_owned(),
        why: format!("{key} is invalid: {why}"),
    })
}

/// Returns a value that lies in parts; `None` if there is none.
fn joined_parts(repo: &Repo, prefix: &str) -> Result<Option<Vec<u8>>, RepoError> {
    let parts = repo.refs.with_prefix(prefix)?;
    let bytes = parts.iter().flat_map(|(_, part)| part).copied();
    Ok((!parts.is_empty()).then(|| bytes.collect()))
}

/// Returns the changes that make the parts of a value those of `value`.
fn part_changes(repo: &Repo, prefix: &str, value: &[u8]) -> Result<Vec<Change>, RepoError> {
    let mut new: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for (n, part) in value.chunks(PART_BYTES).enumerate() {
        new.insert(format!("{prefix}{n:03}"), part.to_vec());
    }
    let mut changes = Vec::new();
    for (key, old) in repo.refs.with_prefix(prefix)? {
        let new = new.remove(&key);
        if new.as_ref() != Some(&old) {
            let old = Some(old);
            changes.push(Change { key, old, new });
        }
    }
    changes.extend(new.into_iter().map(|(key, part)| set(key, part)));
    Ok(changes)
}

/// Returns the changes that forget what a remote has told of claims.
pub fn forget_claims_at(repo: &Repo, remote: &str) -> Result<Vec<Change>, RepoError> {
    part_changes(repo, &claims_at_prefix(remote), &[])
}

/// Returns the changes of the view from one book to the next, and what holds then. Fails with [`RefsError::Moved`] if
/// `before` is no longer the book.
pub fn claim_changes(
    repo: &Repo,
    before: &ClaimBook,
    after: &ClaimBook,
) -> Result<Vec<Change>, RepoError> {
    let mut changes = Vec::new();
    for list in after.lists() {
        let writer = list.list().writer;
        if before.get(&writer) != Some(list) {
            let value = Some(list.as_bytes().to_vec());
            changes.push(change(&repo.refs, claim_list_key(&writer), value)?);
        }
    }
    for list in before.lists() {
        let writer = list.list().writer;
        if after.get(&writer).is_none() {
            changes.push(change(&repo.refs, claim_list_key(&writer), None)?);
        }
    }
    if !changes.is_empty() {
        let held = settle(after, &repo.claims_here()?.held).encode();
        changes.extend(part_changes(repo, CLAIMS_HELD, &held)?);
        // The former values in the changes were read after `before`. Another command may have published between.
        if !is_stored(repo, before)? {
            let key = CLAIMS_HELD.to_owned();
            return Err(RefsError::Moved { key }.into());
        }
    }
    Ok(changes)
}

/// Returns whether the lists of a book are those that are stored, without decoding them again.
fn is_stored(repo: &Repo, book: &ClaimBook) -> Result<bool, RepoError> {
    let known: BTreeSet<&[u8]> = book.lists().map(SignedList::as_bytes).collect();
    let stored = repo.refs.with_prefix(CLAIM_LISTS)?;
    let values = stored.iter().map(|(_, value)| &value[..]);
    let (same, others): (Vec<_>, Vec<_>) = values.partition(|value| known.contains(value));
    // A book has none that cannot be read.
    let is_new = |value: &&[u8]| SignedList::decode_checked(value).is_ok();
    Ok(same.len() == known.len() && !others.iter().any(is_new))
}

/// Returns the own claims that somebody else is before.
fn displaced(repo: &Repo) -> Result<BTreeMap<ClaimRef, ClaimHolder>, RepoError> {
    let (book, device) = (repo.claim_book()?, repo.own_device());
    let own = book
        .claims()
        .filter(|(writer, _)| Some(writer.device) == device);
    let table = repo.claims_on(own.map(|(_, claim)| &claim.path))?;
    let own = table.claims.into_iter().filter(|info| info.is_own);
    let behind = own.filter_map(|info| {
        let (writer, path) = (info.writer, info.claim.path);
        Some((ClaimRef { writer, path }, info.behind?))
    });
    Ok(behind.collect())
}

/// Returns the path and all paths above it, from the top.
fn ends(path: &RepoPath) -> impl Iterator<Item = &[u8]> {
    let bytes = path.as_bytes();
    let is_end = |at: &usize| *at == bytes.len() || bytes[*at] == b'/';
    (1..=bytes.len()).filter(is_end).map(|end| &bytes[..end])
}

/// Returns the claims of a book on the paths that `is_meant` selects. A path that overlaps a selected one is selected,
/// too.
fn table(
    repo: &Repo,
    book: &ClaimBook,
    is_meant: impl Fn(&RepoPath) -> bool,
) -> Result<ClaimTable, RepoError> {
    if book.is_empty() {
        return Ok(ClaimTable::default());
    }
    let live = book
        .live_claims()
        .filter(|(_, claim)| is_meant(&claim.path));
    let known = KnownClaims {
        place: *repo.id.as_bytes(),
        own: repo.own_device(),
        first: settle_some(live, &HeldClaims::default()),
        here: repo.claims_here()?.held,
        there: held_at_remotes(repo)?,
        book,
    };
    Ok(known.table(is_meant))
}

/// Returns the claims that hold at each remote, as far as it was asked.
fn held_at_remotes(repo: &Repo) -> Result<BTreeMap<String, HeldClaims>, RepoError> {
    let mut there: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for (key, mut part) in repo.refs.with_prefix(CLAIMS_AT)? {
        if let Some((remote, _)) = key[CLAIMS_AT.len()..].rsplit_once('/') {
            there
                .entry(remote.to_owned())
                .or_default()
                .append(&mut part);
        }
    }
    let there = there.into_iter();
    let known =
        there.filter_map(|(remote, value)| Some((remote, ClaimsThere::decode(&value).ok()?.held)));
    Ok(known.collect())
}

fn ended_by(by: &WrittenEnding<'_>) -> ClaimHolder {
    ClaimHolder {
        by: by.list.by.clone(),
        device: by.list.writer.device,
        reason: by.ending.reason.clone(),
        how: Precedence::Ended,
    }
}

/// What came first here does not hold where a remote holds the claim of another device: that is where people meet.
fn yield_to_remotes(claims: &mut [ClaimInfo]) {
    let mut there = PathIndex::default();
    for info in claims.iter().filter(|info| !info.held_at.is_empty()) {
        there.add(&info.claim.path, info.writer.device);
    }
    for info in claims.iter_mut().filter(|info| info.held_at.is_empty()) {
        let mut others = there.overlapping(&info.claim.path);
        info.held_here &= others.all(|device| *device == info.writer.device);
    }
}

/// What a repository knows of claims.
struct KnownClaims<'b> {
    place: [u8; PLACE_BYTES],
    own: Option<[u8; DEVICE_BYTES]>,
    book: &'b ClaimBook,
    /// What would hold if nobody had arbitrated.
    first: HeldClaims,
    here: HeldClaims,
    there: BTreeMap<String, HeldClaims>,
}

impl KnownClaims<'_> {
    fn is_own_list(&self, list: &ClaimList) -> bool {
        self.own == Some(list.writer.device) && list.writer.place == self.place
    }

    /// Returns the claims. Those of other clones that were ended are left out.
    fn table(&self, is_meant: impl Fn(&RepoPath) -> bool) -> ClaimTable {
        let mut claims: Vec<ClaimInfo> = Vec::new();
        let endings = self.book.endings();
        for list in self.book.lists().map(SignedList::list) {
            for claim in list.claims.iter().filter(|claim| is_meant(&claim.path)) {
                let ended = endings.of(&list.writer, claim).map(ended_by);
                if ended.is_none() || self.is_own_list(list) {
                    claims.push(self.info(list, claim, ended));
                }
            }
        }
        claims.sort_by(|a, b| {
            let paths = a.claim.path.as_bytes().cmp(b.claim.path.as_bytes());
            paths.then((a.claim.time, a.writer).cmp(&(b.claim.time, b.writer)))
        });
        yield_to_remotes(&mut claims);
        let having = self.having(&claims);
        let mut others = PathIndex::default();
        let mut index = PathIndex::default();
        for n in &having {
            let info = &claims[*n];
            index.add(&info.claim.path, *n);
            if !info.is_own {
                others.add(&info.claim.path, *n);
            }
        }
        for n in (0..claims.len()).filter(|n| !having.contains(n)) {
            let mine = &claims[n];
            if mine.behind.is_some() {
                continue;
            }
            let has_taken =
                |other: &ClaimInfo| other.claim.takes && other.claim.time > mine.claim.time;
            let others = index.overlapping(&mine.claim.path).map(|n| &claims[*n]);
            let others = others.filter(|other| other.writer.device != mine.writer.device);
            let how = |other: &ClaimInfo| {
                if has_taken(other) {
                    Precedence::Took
                } else {
                    Precedence::First
                }
            };
            // Whoever has taken the path over says more than others who have a part of it.
            let holder = others
                .max_by_key(|other| how(other))
                .map(|other| ClaimHolder {
                    by: other.by.clone(),
                    device: other.writer.device,
                    reason: other.claim.reason.clone(),
                    how: how(other),
                });
            claims[n].behind = holder;
        }
        ClaimTable { claims, others }
    }

    fn info(&self, list: &ClaimList, claim: &Claim, ended: Option<ClaimHolder>) -> ClaimInfo {
        let writer = list.writer;
        let known = ClaimRef {
            writer,
            path: claim.path.clone(),
        };
        let is_own = self.own == Some(writer.device);
        let is_elsewhere = writer.place != self.place;
        let at = self.there.iter().filter(|(_, held)| held.has(&known));
        let at = at.filter(|_| ended.is_none());
        ClaimInfo {
            claim: claim.clone(),
            writer,
            by: list.by.clone(),
            is_own,
            is_here: is_own && !is_elsewhere,
            held_at: at.map(|(remote, _)| remote.clone()).collect(),
            held_here: ended.is_none() && is_elsewhere && self.here.has(&known),
            behind: ended,
            progress: None,
        }
    }

    /// Returns the claims that have their paths: those that a place has arbitrated, and of the others those
    /// that came first.
    fn having(&self, claims: &[ClaimInfo]) -> BTreeSet<usize> {
        let mut arbitrated = PathIndex::default();
        for (n, info) in claims.iter().enumerate() {
            if info.is_arbitrated() {
                arbitrated.add(&info.claim.path, n);
            }
        }
        let has = |(_, info): &(usize, &ClaimInfo)| {
            if info.behind.is_some() {
                return false;
            }
            let is_other = |n: &usize| claims[*n].writer.device != info.writer.device;
            let known = ClaimRef {
                writer: info.writer,
                path: info.claim.path.clone(),
            };
            info.is_arbitrated()
                || self.first.has(&known) && !arbitrated.overlapping(&info.claim.path).any(is_other)
        };
        let all = claims.iter().enumerate().filter(has);
        all.map(|(n, _)| n).collect()
    }
}
