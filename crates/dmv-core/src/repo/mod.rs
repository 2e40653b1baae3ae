//! A repository: the store, the refs and a worktree, and what a user does with them.
//!
//! [`Repo`] is the facade. What it does lies in rooms, and each room uses only the rooms before it:
//!
//! `base` → `look` → `conflict` → `files` → `verbs`, and `base` → `look` → `peers`; `upkeep` uses `files`, too.
//!
//! The rooms hold free functions that take an open repository (`base::handle::Handle`), so that a call
//! shows as an import. Each function returns values, prints nothing, and leaves the repository intact
//! whatever happens. `base::transaction` is the only way to change anything that counts.
//!
//! The rooms are private modules, so `pub` in them reaches `repo` and no further. What leaves it is listed
//! below.

mod base;
mod conflict;
mod facade;
mod files;
mod look;
mod peers;
mod upkeep;
mod verbs;

pub use crate::refs::{FETCH_HEAD, HEAD};
pub use base::branch::{RefInfo, RefKind};
pub use base::budget::disk_size;
pub use base::change::{ChangeKind, PathChange};
pub use base::error::{
    AbsentError, BranchError, BusyError, ConflictError, FilesError, LookError, PathRefusal,
    PlaceError, RepoError, RevisionError, UndoError, UpkeepError, VerbError, WorktreeError,
};
pub use base::handle::{DateReader, GitIdQuery, GitIdReader};
pub use base::head::Head;
pub use base::keeping::KeepingLock;
pub use base::layout::{
    CONFIG_FILE, DMV_DIR, RepositoryLocation, Trust, Whose, discover, discover_lost,
    discover_lost_trusting, discover_trusting,
};
pub use base::moved::{BranchPosition, Mover, moved_clause};
pub use base::notes::{FilesBeside, Note, PathNotes};
pub use base::publish::OperationRequest;
pub use base::slice::{BadSlice, Expiry, Purge, PurgesElsewhere, RepoSlice};
pub use base::stamp::Stamp;
pub use base::steps::{Step, Steps};
pub use base::vacancy::{Vacancy, dmv_dir_in, is_inside, refuse_inside};
pub use base::window::UndoWindow;
pub use base::worktree::{Keep, WorktreeSettings};
pub use conflict::at::ConflictAt;
pub use conflict::choice::Choice;
pub use conflict::settle::{MarkersLeft, UnsettledConflict, UnsettledReason};
pub use files::blame::{Blame, BlamedLines};
pub use files::checkout::{CheckoutOptions, CheckoutReport, CheckoutTarget};
pub use files::commit::{CommitOptions, CommitReport, CommitSize, FileRemarks};
pub use files::diff::{WorktreeChange, WorktreeDiff, WorktreeSide, chunks_of};
pub use files::emptied::{EmptiedPattern, IdlePattern};
pub use files::export::ExportReport;
pub use files::intake::pattern::{PatternFault, SeriesPattern};
pub use files::intake::series::SeriesOptions;
pub use files::intake::{IntakeOptions, IntakeReport, IntakeVersion};
pub use files::large::LargeFile;
pub use files::moving::{EntryMove, MoveOptions, MoveReport};
pub use files::path_state::PathState;
pub use files::remove::{RemoveOptions, RemoveReport};
pub use files::rename::{Rename, Renames};
pub use files::saved::OverwrittenFiles;
pub use files::status::{StatusOptions, StatusReport, UntrackedFile};
pub use files::unfinished::UnfinishedSwitches;
pub use files::untrack::{IgnoreOffer, UntrackOptions, UntrackReport};
pub use files::who::Who;
pub use files::worktrees::{AddOptions, AddReport, WorktreeInfo, WorktreeState};
pub use look::entries::{ListingLine, Location, Selection, blob_of};
pub use look::history_use::{CompressedFile, HistoryUse, PathUse, compressed_as};
pub use look::lack::LackOf;
pub use look::revision::{is_previous, split_path};
pub use look::stats::{DiskUse, StoreStats};
pub use peers::allow::{Access, MAX_PEER_NAME_BYTES, NotAKey, Peer, PeerKey};
pub use peers::exchange::{Mirror, OfferedRefs, OwnBranches, RefChange, RefUpdate, Refusal};
pub use peers::half::HalfClone;
pub use peers::keep::Keeper;
pub use peers::ref_rules::{RefHolder, judge_update};
pub use peers::share::SharedPacks;
pub use peers::wanted::StoredHistory;
pub use upkeep::drop::{Droppable, FreedSpace, FreeingLock};
pub use upkeep::expire::{
    ElsewhereView, Expirable, ExpireOptions, ExpireReport, ExpiredFile, ExpiredPath,
};
pub use upkeep::expire_log::UndoReach;
pub use upkeep::forget_log::ForgetReport;
pub use upkeep::gc::{GcOptions, GcReport};
pub use upkeep::heal::{HealJob, HealedFrom, HealedObject};
pub use upkeep::purge::{KnownPurge, PurgeReport, PurgeWhat, Purgeable, ToPurge, roots_of};
pub use upkeep::recover::{RecoverReport, recover, recover_on};
pub use upkeep::repack::{RepackOptions, RepackReport};
pub use upkeep::rules::{KeepRule, KeepRules, NotARule, RuleLine, RuleProblem, RuleSource};
pub use upkeep::verify::known::KnownDamage;
pub use upkeep::verify::{AffectedPath, DamagedObject, LostPack, VerifyDepth, VerifyReport};
pub use verbs::bisect::{BisectNext, BisectReport, Bisection, Verdict};
pub use verbs::merge::{FastForward, MergeOptions, MergeReport};
pub use verbs::pick::{PickFrom, PickOptions, PickReport};
pub use verbs::replaced::ResetReport;
pub use verbs::replay::ReplayedCommit;
pub use verbs::reset::{ResetFiles, ResetToReport};
pub use verbs::resolve::ResolveReport;
pub use verbs::stash::{StashApplyReport, StashAt, StashInfo, StashOptions, StashPushReport};
pub use verbs::undo::{UndoOptions, UndoReport, UndoWhat};

use crate::object::ObjectRead;
use crate::refs::Refs;
use crate::store::{RepositoryId, Store};
use crate::vfs::{OsVfs, Vfs};
use base::handle::Handle;
use std::path::Path;
use std::sync::Arc;

/// An open repository.
///
/// Each method calls one function of a room. The methods here open the repository and show its
/// parts; `repo/facade` has the others, by room.
pub struct Repo {
    handle: Handle,
}

impl Repo {
    /// Creates a repository in `dir`, on a branch without commits. Creates `dir` if it is missing.
    ///
    /// With `bare`, `dir` itself becomes the store, without a worktree. A failed attempt leaves nothing
    /// that counts as a repository. Fails with [`PlaceError::Exists`]
    /// if there is one.
    pub fn init(
        dir: &Path,
        branch: &str,
        bare: bool,
        request: OperationRequest,
    ) -> Result<Repo, RepoError> {
        Repo::init_sharing(dir, branch, bare, &[], request)
    }

    /// Creates a repository that may [share](Repo::share_packs) packs of the repositories
    /// `shared`.
    pub fn init_sharing(
        dir: &Path,
        branch: &str,
        bare: bool,
        shared: &[RepositoryId],
        request: OperationRequest,
    ) -> Result<Repo, RepoError> {
        let handle = base::init::init(dir, branch, bare, shared, request)?;
        Ok(Repo { handle })
    }

    /// Opens the repository that contains the directory `start`.
    pub fn open(start: &Path) -> Result<Repo, RepoError> {
        Repo::open_place(discover(start)?)
    }

    /// Opens the repository at a place that [`discover`] returned.
    pub fn open_place(place: RepositoryLocation) -> Result<Repo, RepoError> {
        Repo::open_as(place, Whose::Own)
    }

    /// Opens a repository that belongs to this user or to another one. DMV writes nothing into
    /// another user's repository, not even a lock.
    pub fn open_as(place: RepositoryLocation, whose: Whose) -> Result<Repo, RepoError> {
        let handle = match whose {
            Whose::Own => base::open::open(place, Arc::new(OsVfs))?,
            Whose::Foreign => base::open::open_to_read(place)?,
        };
        files::worktrees::check_place(&handle)?;
        Ok(Repo { handle })
    }

    /// Opens a repository and reaches its packs and indexes through `vfs`. For tests and tools that
    /// simulate a disk.
    pub fn open_place_on(place: RepositoryLocation, vfs: Arc<dyn Vfs>) -> Result<Repo, RepoError> {
        let handle = base::open::open(place, vfs)?;
        Ok(Repo { handle })
    }

    /// Returns whether the repository belongs to this user.
    pub fn whose(&self) -> Whose {
        self.handle.whose
    }

    /// Returns the number of operations that opening took over from the log pack, because the
    /// database lacked them: an older database was put back, or a command was killed at its
    /// last moment.
    pub fn caught_up(&self) -> usize {
        self.handle.caught_up
    }

    /// Returns the directory of the repository: `.dmv`, or the bare repository itself.
    pub fn dmv_dir(&self) -> &Path {
        self.handle.dmv_dir()
    }

    /// Returns the id of the repository.
    pub fn id(&self) -> RepositoryId {
        self.handle.id
    }

    /// Returns the store of objects, to read from. Only the commands write to it.
    pub fn store(&self) -> &Store {
        &self.handle.store
    }

    /// Returns a reader of all objects: the stored ones, and those that exist only to show
    /// conflicts.
    pub fn objects(&self) -> &dyn ObjectRead {
        self.handle.objects()
    }

    /// Returns the view and the operation log, to read from. Each change of them passes the commit
    /// point, in a command.
    pub fn refs(&self) -> &Refs {
        &self.handle.refs
    }

    /// Opens a repository, and returns a stamp of its state at that time. The stamp is `None` if
    /// the state cannot be told.
    pub fn open_stamped(place: RepositoryLocation) -> Result<(Repo, Option<Stamp>), RepoError> {
        // A change during the opening must show in a later comparison.
        let files = base::stamp::Files::of(&place.dmv);
        let repo = Repo::open_place(place)?;
        let stamp = files.and_then(|files| base::stamp::stamp_with(&repo.handle, files));
        Ok((repo, stamp))
    }
}
