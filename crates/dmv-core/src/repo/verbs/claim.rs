//! Claiming paths and releasing them. Each is an operation, so an undo takes it back.

use crate::claims::{
    Claim, ClaimBook, ClaimEnding, ClaimList, DEVICE_BYTES, MAX_BY_BYTES, MAX_TIME, SignedList,
    Writer,
};
use crate::object::name::RepoPath;
use crate::refs::{Change, Effect, Operation};
use crate::repo::base::error::{ClaimError, RepoError};
use crate::repo::base::keys::claim_list_key;
use crate::repo::base::publish::OperationRequest;
use crate::repo::base::repo::{Claimant, Repo};
use crate::repo::base::transaction::Transaction;
use crate::repo::peers::claims::{ClaimInfo, claim_changes, stored_list, version_at};
use crate::repo::peers::exchange::retrying;
use std::collections::BTreeSet;

/// What to claim.
pub struct ClaimOptions {
    /// The files and directories. They need not exist.
    pub paths: Vec<RepoPath>,
    /// Why, in one line; may be empty.
    pub reason: String,
    /// Whether to take over what others have.
    pub takes: bool,
    /// Who claims, when and with which command.
    pub request: OperationRequest,
}

/// What became of a request to claim.
#[derive(Debug)]
pub enum ClaimOutcome {
    /// All paths are claimed here. Those that were claimed before are included.
    Claimed,
    /// Others have some of the paths, or parts of them. Nothing was claimed.
    Refused(Vec<RefusedClaim>),
}

/// A path that another device has.
#[derive(Debug)]
pub struct RefusedClaim {
    /// The path that was to be claimed.
    pub path: RepoPath,
    /// The claim in the way.
    pub holder: ClaimInfo,
}

impl Repo {
    /// Notes that the user works on some paths. All of them are claimed, or none.
    pub fn claim(&self, options: &ClaimOptions) -> Result<ClaimOutcome, RepoError> {
        if options.paths.iter().any(RepoPath::is_root) {
            return Err(ClaimError::Root.into());
        }
        let claimant = claimant(self)?;
        retrying(self, || {
            let refused = self.claims_in_the_way(&options.paths)?;
            if !refused.is_empty() && !options.takes {
                return Ok(ClaimOutcome::Refused(refused));
            }
            let taken = refused.iter().map(|refused| &refused.path);
            let taken: Vec<&RepoPath> = taken.collect();
            let changes = own_changes(self, claimant, |list, time| {
                for path in &options.paths {
                    let is_news = |known: &Claim| {
                        taken.contains(&path)
                            || !options.reason.is_empty() && known.reason != options.reason
                    };
                    if list.at(path).is_none_or(is_news) {
                        let takes = taken.contains(&path);
                        list.put(new_claim(self, options, path, takes, time)?);
                    }
                }
                Ok(())
            })?;
            Transaction::begin(self, &options.request)
                .with(changes)
                .publish_changes(Effect::Kept)?;
            Ok(ClaimOutcome::Claimed)
        })
    }

    /// Returns the claims of other devices that have some of these paths, one for each path.
    pub fn claims_in_the_way(&self, paths: &[RepoPath]) -> Result<Vec<RefusedClaim>, RepoError> {
        let table = self.claims_on(paths.iter())?;
        let mut found = Vec::new();
        for path in paths {
            found.extend(table.others_on(path).next().map(|holder| RefusedClaim {
                path: path.clone(),
                holder: holder.clone(),
            }));
        }
        Ok(found)
    }

    /// Releases claims of this device that were made here: those on these paths, or all without any.
    /// Returns the paths that were released.
    pub fn release(
        &self,
        paths: &[RepoPath],
        request: &OperationRequest,
    ) -> Result<Vec<RepoPath>, RepoError> {
        let claimant = claimant(self)?;
        let own = writer(self, claimant.device().map_err(ClaimError::Unsigned)?);
        retrying(self, || {
            // Also those that others have ended, which the next list no longer has.
            let book = self.claim_book()?;
            let known = book.get(&own).map(|list| &list.list().claims[..]);
            let known = known.unwrap_or_default();
            for path in paths {
                if !known.iter().any(|claim| claim.path.starts_with(path)) {
                    return Err(ClaimError::None(path.as_bytes().to_vec()).into());
                }
            }
            let goes = |claim: &Claim| {
                paths.is_empty() || paths.iter().any(|path| claim.path.starts_with(path))
            };
            let gone = known.iter().filter(|claim| goes(claim));
            let released: Vec<RepoPath> = gone.map(|claim| claim.path.clone()).collect();
            let changes = own_changes(self, claimant, |list, _| {
                list.claims.retain(|claim| !goes(claim));
                Ok(())
            })?;
            Transaction::begin(self, request)
                .with(changes)
                .publish_changes(Effect::Kept)?;
            Ok(released)
        })
    }
}

/// Which claims of a device to end.
pub struct EndOptions {
    /// The device: another one, or this one in clones elsewhere.
    pub device: [u8; DEVICE_BYTES],
    /// The files and directories; empty for all.
    pub paths: Vec<RepoPath>,
    /// Why, in one line; may be empty.
    pub reason: String,
    /// Who ends them, when and with which command.
    pub request: OperationRequest,
}

impl Repo {
    /// Ends claims of another device, or of clones that are gone. Whoever made them hears it, and can claim
    /// again. Returns the paths of the claims.
    pub fn end_claims(&self, options: &EndOptions) -> Result<Vec<RepoPath>, RepoError> {
        let claimant = claimant(self)?;
        let own = writer(self, claimant.device().map_err(ClaimError::Unsigned)?);
        retrying(self, || {
            let book = self.claim_book()?;
            let theirs = book
                .live_claims()
                .filter(|(writer, _)| writer.device == options.device && *writer != own);
            let ended: BTreeSet<RepoPath> = theirs.map(|(_, claim)| claim.path.clone()).collect();
            let mut ended: Vec<RepoPath> = ended.into_iter().collect();
            for path in &options.paths {
                if !ended.iter().any(|claimed| claimed.starts_with(path)) {
                    return Err(ClaimError::NoneOfDevice(path.as_bytes().to_vec()).into());
                }
            }
            let is_meant = |claimed: &RepoPath| {
                let mut paths = options.paths.iter();
                options.paths.is_empty() || paths.any(|path| claimed.starts_with(path))
            };
            ended.retain(is_meant);
            let changes = own_changes(self, claimant, |list, time| {
                for path in &ended {
                    list.end(ClaimEnding {
                        path: path.clone(),
                        device: options.device,
                        time,
                        since: options.request.time.seconds,
                        reason: options.reason.clone(),
                    });
                }
                Ok(())
            })?;
            Transaction::begin(self, &options.request)
                .with(changes)
                .publish_changes(Effect::Kept)?;
            Ok(ended)
        })
    }
}

/// Returns the changes that undo what an operation did to own claims. Each path is as it was before, with a
/// new list. Claims that were changed since stay as they are.
pub fn claims_back(repo: &Repo, operation: &Operation) -> Result<Vec<Change>, RepoError> {
    let Some(device) = repo.own_device() else {
        return Ok(Vec::new());
    };
    let key = claim_list_key(&writer(repo, device));
    let Some(change) = operation.changes.iter().find(|change| change.key == key) else {
        return Ok(Vec::new());
    };
    let decode = |value: &Option<Vec<u8>>| match value {
        Some(value) => stored_list(repo, &key, value),
        None => Ok(ClaimList::before_the_first(writer(repo, device))),
    };
    let (before, after) = (decode(&change.old)?, decode(&change.new)?);
    own_changes(repo, claimant(repo)?, |list, time| {
        for claim in &after.claims {
            if before.at(&claim.path).is_none() && list.at(&claim.path) == Some(claim) {
                list.claims.retain(|known| known.path != claim.path);
            }
        }
        for claim in before.claims {
            let now = list.at(&claim.path);
            if after.at(&claim.path) == now && now != Some(&claim) {
                let takes = false;
                list.put(Claim {
                    time,
                    takes,
                    ..claim
                });
            }
        }
        let is_new = |ending: &ClaimEnding| !before.endings.contains(ending);
        let made = after.endings.iter().filter(|ending| is_new(ending));
        let made: Vec<&ClaimEnding> = made.collect();
        list.endings.retain(|ending| !made.contains(&ending));
        for ending in before.endings {
            if !after.endings.contains(&ending) {
                list.end(ClaimEnding { time, ..ending });
            }
        }
        Ok(())
    })
}

fn claimant(repo: &Repo) -> Result<&dyn Claimant, RepoError> {
    let claimant = repo.caller.claimant.get().map(|claimant| &**claimant);
    claimant.ok_or_else(|| ClaimError::Unsigned("this program has no device key".to_owned()).into())
}

fn writer(repo: &Repo, device: [u8; DEVICE_BYTES]) -> Writer {
    let place = *repo.id.as_bytes();
    Writer { device, place }
}

/// Returns the changes of the view that `edit` makes to the own list. It gets the time of new claims.
fn own_changes(
    repo: &Repo,
    claimant: &dyn Claimant,
    edit: impl FnOnce(&mut ClaimList, u64) -> Result<(), RepoError>,
) -> Result<Vec<Change>, RepoError> {
    let device = claimant.device().map_err(ClaimError::Unsigned)?;
    let before = repo.claim_book()?;
    repo.check_readable(&writer(repo, device))?;
    let mut list = before.next_list(writer(repo, device));
    let former = list.clone();
    forget_ended(&mut list, &before);
    edit(&mut list, MAX_TIME.min(before.last_time() + 1))?;
    if list == former {
        return Ok(Vec::new());
    }
    list.by = claimant.name();
    list.by.retain(|c| !c.is_control());
    list.by.truncate(list.by.floor_char_boundary(MAX_BY_BYTES));
    let text = |e: crate::object::codec::EncodeError| ClaimError::Text(e.what);
    let statement = list.statement().map_err(text)?;
    let signature = claimant.sign(&statement).map_err(ClaimError::Unsigned)?;
    let signed = SignedList::new(list, &signature).map_err(text)?;
    let mut after = before.clone();
    after.join(signed).map_err(ClaimError::Full)?;
    claim_changes(repo, &before, &after)
}

/// Takes out of the own list the claims that others have ended, and the endings of claims that are gone.
fn forget_ended(list: &mut ClaimList, book: &ClaimBook) {
    let (endings, writer) = (book.endings(), list.writer);
    list.claims
        .retain(|claim| endings.of(&writer, claim).is_none());
    let is_there = |ending: &ClaimEnding| {
        let mut others = book.claims().filter(|(other, _)| *other != writer);
        others.any(|(other, claim)| ending.is_of(&other, claim))
    };
    list.endings.retain(is_there);
}

fn new_claim(
    repo: &Repo,
    options: &ClaimOptions,
    path: &RepoPath,
    takes: bool,
    time: u64,
) -> Result<Claim, RepoError> {
    let base = repo.own_commit()?;
    let version = match &base {
        Some(base) => version_at(repo.objects(), repo.read_commit(base)?.tree, path)?.flatten(),
        None => None,
    };
    Ok(Claim {
        path: path.clone(),
        branch: repo.head()?.branch().unwrap_or_default().to_owned(),
        base,
        version,
        takes,
        time,
        since: options.request.time.seconds,
        reason: options.reason.clone(),
    })
}
