//! The methods of `Repo` that call `peers`.

use crate::hash::ObjectId;
use crate::reach::Filter;
use crate::refs::Timestamp;
use crate::repo::{
    Expiry, HalfClone, Keeper, LackOf, Location, OfferedRefs, OperationRequest, OwnBranches, Peer,
    PeerKey, RefChange, RefUpdate, Refusal, Repo, RepoError, RepoSlice, SharedPacks, StoredHistory,
    base, peers,
};
use crate::store::{IncomingObjects, RepositoryId};
use crate::subset::Subset;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

impl Repo {
    /// Returns the repositories that have written the packs of this one, if a repository in the
    /// directory `dir` could share them: it is on the same file system, and this repository is this
    /// user's, complete and not known to be damaged.
    pub fn owners_to_share(&self, dir: &Path) -> Result<Option<Vec<RepositoryId>>, RepoError> {
        peers::share::owners_to_share(&self.handle, dir)
    }

    /// Uses the files of the packs of `from`, without copying them. No ref names their objects yet.
    ///
    /// Returns `None` if this repository has packs already or was not
    /// [created](Repo::init_sharing) to share those of `from`. Returns `None` as well, and makes this
    /// a repository that shares nothing, if others may write to the files or if the system refuses.
    pub fn share_packs(
        &self,
        from: &Repo,
        now: Timestamp,
    ) -> Result<Option<SharedPacks>, RepoError> {
        peers::share::share_packs(&self.handle, &from.handle, now)
    }

    /// Returns the packs of other repositories that this one shares, if it does.
    pub fn shared_packs(&self) -> Option<SharedPacks> {
        peers::share::shared_packs(&self.handle)
    }

    /// Returns whether this repository was made to share packs of others.
    pub fn may_share_packs(&self) -> bool {
        !self.handle.store.owners().shared().is_empty()
    }

    /// Returns the refs that peers see.
    pub fn offered(&self) -> Result<OfferedRefs, RepoError> {
        peers::exchange::offered(&self.handle)
    }

    /// Starts to receive objects.
    ///
    /// First registers the objects that an interrupted job left in the packs, so that they need not
    /// be sent again.
    pub fn incoming(&self) -> Result<IncomingObjects<'_>, RepoError> {
        peers::exchange::incoming(&self.handle, false)
    }

    /// Starts to receive objects from a peer that may send frames with bases: new packs can have them.
    pub fn incoming_with_bases(&self) -> Result<IncomingObjects<'_>, RepoError> {
        peers::exchange::incoming(&self.handle, true)
    }

    /// Makes the received objects visible to this repository's commands. No ref names them yet.
    pub fn keep_incoming(&self, incoming: IncomingObjects<'_>) -> Result<(), RepoError> {
        peers::exchange::keep_incoming(&self.handle, incoming)
    }

    /// Removes what has arrived and has no name yet, after the budget turned out to be too small.
    pub fn give_back_arrivals(&self) -> Result<(), RepoError> {
        base::arrived::give_back(&self.handle)
    }

    /// Records the branches of a remote, adds its new tags and creates local branches, in one
    /// operation.
    ///
    /// All commits that it names must be complete in this repository. Returns the refs that
    /// changed.
    pub fn note_remote(
        &self,
        remote: &str,
        offered: &OfferedRefs,
        ours: &OwnBranches,
        request: &OperationRequest,
    ) -> Result<Vec<RefChange>, RepoError> {
        peers::exchange::note_remote(&self.handle, remote, offered, ours, request)
    }

    /// Returns the branches that are recorded for a remote and that the remote no longer has.
    pub fn gone_from(&self, remote: &str, offered: &OfferedRefs) -> Result<Vec<String>, RepoError> {
        peers::exchange::gone_from(&self.handle, remote, offered)
    }

    /// Forgets the recorded branches of a remote.
    pub fn forget_remote(&self, remote: &str, request: &OperationRequest) -> Result<(), RepoError> {
        peers::exchange::forget_remote(&self.handle, remote, request)
    }

    /// Returns the commit that a branch, tag or remote branch names. `key` is its key in the view.
    pub fn ref_at(&self, key: &str) -> Result<Option<ObjectId>, RepoError> {
        peers::exchange::ref_at(&self.handle, key)
    }

    /// Moves refs as a peer asks, in one operation. Leaves out those that must be refused.
    ///
    /// Returns one entry for each update, with the reason if it was refused.
    pub fn accept_push(
        &self,
        updates: &[RefUpdate],
        request: &OperationRequest,
    ) -> Result<Vec<RefChange>, RepoError> {
        peers::exchange::accept_push(&self.handle, updates, request)
    }

    /// Returns why an update, as one of `all`, must be refused, or `None` if it is acceptable.
    ///
    /// The check is incomplete while the new commit is not stored in this repository.
    pub fn judge(
        &self,
        update: &RefUpdate,
        all: &[RefUpdate],
    ) -> Result<Option<Refusal>, RepoError> {
        peers::exchange::judge(&self.handle, update, all)
    }

    /// Returns the arguments of an unfinished clone, or `None` if this repository is not one.
    pub fn half_clone(&self) -> Result<Option<HalfClone>, RepoError> {
        peers::half::half_clone(&self.handle)
    }

    /// Removes the note of an unfinished clone. From then on, the view names the received commits.
    pub fn end_clone(&self) {
        peers::half::end_clone(&self.handle)
    }

    /// Returns the allow-list, sorted by key.
    pub fn peers(&self) -> Result<Vec<Peer>, RepoError> {
        peers::allow::peers(&self.handle)
    }

    /// Returns the allow-list entry of a key, or `None` if the key has no access.
    pub fn peer(&self, key: &PeerKey) -> Result<Option<Peer>, RepoError> {
        peers::allow::peer(&self.handle, key)
    }

    /// Adds `peer` to the allow-list, or changes its name or access. Returns whether this changed
    /// anything.
    pub fn trust(&self, peer: &Peer, request: OperationRequest) -> Result<bool, RepoError> {
        peers::allow::trust(&self.handle, peer, request)
    }

    /// Removes a peer from the allow-list and returns its entry, or `None` if it was not on the
    /// list.
    pub fn untrust(
        &self,
        key: &PeerKey,
        request: OperationRequest,
    ) -> Result<Option<Peer>, RepoError> {
        peers::allow::untrust(&self.handle, key, request)
    }

    /// Returns the filter for transfers into this repository: the objects that its slice calls for,
    /// and the paths of its worktrees.
    ///
    /// If history has a boundary, the filter excludes commits that are older than the boundary.
    pub fn wanted(&self) -> Result<Filter, RepoError> {
        peers::wanted::wanted(&self.handle)
    }

    /// Returns the subsets of the worktrees that are complete in the commit with this `root`, as
    /// far as `of` looks.
    ///
    /// Only worktrees with files count. The paths that a worktree has beyond the slice are stored
    /// for new commits. For old commits, they are stored only if a command asked for them.
    pub fn checked_out_here(&self, root: &Location, of: LackOf) -> Result<Vec<Subset>, RepoError> {
        peers::wanted::checked_out_here(&self.handle, root, of)
    }

    /// Records that the content of these files is absent here because it has expired in another
    /// repository. Returns how many there are: content that is stored here has not expired.
    pub fn note_expired(
        &self,
        expired: &BTreeMap<ObjectId, Arc<Expiry>>,
    ) -> Result<u64, RepoError> {
        peers::wanted::note_expired(&self.handle, expired)
    }

    /// Records the commits at which a transfer ended history, and the commits of the boundary that
    /// it passed.
    pub fn note_boundary(
        &self,
        ends: &BTreeSet<ObjectId>,
        passed: &BTreeSet<ObjectId>,
    ) -> Result<(), RepoError> {
        peers::wanted::note_boundary(&self.handle, ends, passed)
    }

    /// Returns the commits of the boundary at which the history of `tips` ends.
    ///
    /// The boundary may have other commits, from branches that are gone. They stay: an undo brings
    /// a branch back, but not the history behind it. Returns the whole boundary if history is too
    /// long to walk or cannot be read.
    pub fn ends_of_history(&self, slice: &RepoSlice, tips: Vec<ObjectId>) -> BTreeSet<ObjectId> {
        peers::wanted::ends_of_history(&self.handle, slice, tips)
    }

    /// Measures the history of `tips` that is stored. Returns `None` if it is too long to walk or
    /// cannot be read.
    pub fn stored_history(&self, slice: &RepoSlice, tips: Vec<ObjectId>) -> Option<StoredHistory> {
        peers::wanted::stored_history(&self.handle, slice, tips)
    }

    /// Prevents everything from being freed from now on, and answers a peer that wants to drop its
    /// copies.
    ///
    /// # Errors
    ///
    /// Fails with [`BusyError::Freeing`](crate::repo::BusyError::Freeing) if a command is freeing space
    /// in this repository.
    pub fn keeper(&self) -> Result<Keeper<'_>, RepoError> {
        Keeper::new(&self.handle)
    }
}
