//! What `Repo` offers of `peers`.

use crate::hash::ObjectId;
use crate::reach::Filter;
use crate::repo::{
    Asked, HalfClone, Keeper, LackOf, Located, Offered, OwnBranches, Peer, PeerKey, RefMoved,
    RefUpdate, Refusal, Repo, RepoError, RepoSlice, peers,
};
use crate::store::Incoming;
use crate::subset::Subset;
use std::collections::BTreeSet;

impl Repo {
    /// The refs that peers see.
    pub fn offered(&self) -> Result<Offered, RepoError> {
        peers::exchange::offered(&self.handle)
    }

    /// Begins to take in objects. What a job that was cut off left in the packs is taken into use
    /// first, so that it need not come again.
    pub fn incoming(&self) -> Result<Incoming<'_>, RepoError> {
        peers::exchange::incoming(&self.handle)
    }

    /// Makes what came in visible to this repository's commands, though nothing names it yet.
    pub fn keep_incoming(&self, incoming: Incoming<'_>) -> Result<(), RepoError> {
        peers::exchange::keep_incoming(&self.handle, incoming)
    }

    /// Notes what a remote's branches name, takes over tags that are new, and makes branches of
    /// our own, in one operation. All commits named must be complete here.
    ///
    /// Returns the refs that changed.
    pub fn note_remote(
        &self,
        remote: &str,
        offered: &Offered,
        ours: &OwnBranches,
        asked: &Asked,
    ) -> Result<Vec<RefMoved>, RepoError> {
        peers::exchange::note_remote(&self.handle, remote, offered, ours, asked)
    }

    /// Branches that a remote had when they were last noted, and has no more.
    pub fn gone_from(&self, remote: &str, offered: &Offered) -> Result<Vec<String>, RepoError> {
        peers::exchange::gone_from(&self.handle, remote, offered)
    }

    /// Forgets what a remote's branches named.
    pub fn forget_remote(&self, remote: &str, asked: &Asked) -> Result<(), RepoError> {
        peers::exchange::forget_remote(&self.handle, remote, asked)
    }

    /// The commit that a branch, tag or remote branch names, by its key in the view.
    pub fn ref_at(&self, key: &str) -> Result<Option<ObjectId>, RepoError> {
        peers::exchange::ref_at(&self.handle, key)
    }

    /// Moves refs as a peer asks, those that may be moved, in one operation.
    pub fn accept_push(
        &self,
        updates: &[RefUpdate],
        asked: &Asked,
    ) -> Result<Vec<RefMoved>, RepoError> {
        peers::exchange::accept_push(&self.handle, updates, asked)
    }

    /// Whether an update has to be refused, as one of `all`. A commit that is not here yet cannot be
    /// judged fully.
    pub fn judge(
        &self,
        update: &RefUpdate,
        all: &[RefUpdate],
    ) -> Result<Option<Refusal>, RepoError> {
        peers::exchange::judge(&self.handle, update, all)
    }

    /// What a clone that is not finished was asked for; `None`: this is no half-made clone.
    pub fn half_clone(&self) -> Result<Option<HalfClone>, RepoError> {
        peers::half::half_clone(&self.handle)
    }

    /// Forgets that a clone was begun: the view names what came.
    pub fn end_clone(&self) {
        peers::half::end_clone(&self.handle)
    }

    /// The allow-list, by key.
    pub fn peers(&self) -> Result<Vec<Peer>, RepoError> {
        peers::allow::peers(&self.handle)
    }

    /// What is known about one key; `None`: it may do nothing.
    pub fn peer(&self, key: &PeerKey) -> Result<Option<Peer>, RepoError> {
        peers::allow::peer(&self.handle, key)
    }

    /// Lets `peer` in, or changes its name or access. Returns whether that changed anything.
    pub fn trust(&self, peer: &Peer, asked: Asked) -> Result<bool, RepoError> {
        peers::allow::trust(&self.handle, peer, asked)
    }

    /// Takes a peer off the allow-list; `None`: it was not on it.
    pub fn untrust(&self, key: &PeerKey, asked: Asked) -> Result<Option<Peer>, RepoError> {
        peers::allow::untrust(&self.handle, key, asked)
    }

    /// What a transfer into this repository has to bring: what its slice calls for, and the paths
    /// that its worktrees have. Behind a boundary, only what is not older than the boundary is.
    pub fn wanted(&self) -> Result<Filter, RepoError> {
        peers::wanted::wanted(&self.handle)
    }

    /// The subsets of the worktrees that have files of which, as far as `of` looks, everything is here
    /// in the commit with this `root`. What they have beyond the slice is held of new commits, and of
    /// old ones only if it was asked for.
    pub fn checked_out_here(&self, root: &Located, of: LackOf) -> Result<Vec<Subset>, RepoError> {
        peers::wanted::checked_out_here(&self.handle, root, of)
    }

    /// Notes where a transfer ended history, and which commits of the boundary it went beyond.
    pub fn note_boundary(
        &self,
        ends: &BTreeSet<ObjectId>,
        passed: &BTreeSet<ObjectId>,
    ) -> Result<(), RepoError> {
        peers::wanted::note_boundary(&self.handle, ends, passed)
    }

    /// The commits of the boundary at which the history of `tips` ends. The boundary may have others,
    /// of branches that are gone: they stay, since an undo brings a branch back and not what is behind
    /// it. Of a long history, which would have to be walked, and of one that cannot be read, the whole
    /// boundary.
    pub fn ends_of_history(&self, slice: &RepoSlice, tips: Vec<ObjectId>) -> BTreeSet<ObjectId> {
        peers::wanted::ends_of_history(&self.handle, slice, tips)
    }

    /// Keeps everything from now on, and answers a peer that wants to give up its copies.
    ///
    /// # Errors
    ///
    /// [`RepoError::Freeing`] if space is being freed here.
    pub fn keeper(&self) -> Result<Keeper<'_>, RepoError> {
        Keeper::new(&self.handle)
    }
}
