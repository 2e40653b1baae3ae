//! A repository: the store, the refs and a worktree, and what a user does with them.
//!
//! What a [`Repo`] can do lies in rooms, and each room uses only the rooms before it:
//!
//! `base` → `look` → `conflict` → `files` → `verbs`, and `base` → `look` → `peers`; `upkeep` uses `files`, too.
//!
//! Each room has methods of [`Repo`] for what it does. A method returns values, prints nothing, and leaves
//! the repository intact whatever happens. `base::transaction` is the only way to change anything that
//! counts.
//!
//! The rooms are private modules, so `pub` in them reaches `repo` and no further. What leaves it is listed
//! below.

mod base;
mod conflict;
mod files;
mod look;
mod peers;
mod shared;
mod upkeep;
mod verbs;

pub use crate::refs::{FETCH_HEAD, HEAD};
pub use base::branch::{BranchPlace, RefInfo, RefKind};
pub use base::budget::disk_size;
pub use base::change::{ChangeKind, PathChange};
pub use base::error::{
    AbsentError, BranchError, BusyError, ClaimError, ConflictError, FilesError, LaterChange,
    LookError, PathRefusal, PlaceError, RepoError, RevisionError, UndoError, UntrustedCommit,
    UpkeepError, VerbError, WorktreeError,
};
pub use base::head::Head;
pub use base::keeping::KeepingLock;
pub use base::layout::{
    CONFIG_FILE, DMV_DIR, RepositoryLocation, Trust, Whose, discover, discover_lost,
    discover_lost_trusting, discover_trusting,
};
pub use base::moved::{BranchPosition, Mover, moved_clause};
pub use base::notes::{FilesBeside, Note, PathNotes};
pub use base::publish::OperationRequest;
pub use base::repo::{Claimant, CommitSigner, DateReader, GitIdQuery, GitIdReader, Repo};
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
pub use files::checkout::portions::Portions;
pub use files::checkout::{CheckoutOptions, CheckoutReport, CheckoutTarget};
pub use files::commit::{CommitOptions, CommitReport, CommitSize, FileRemarks};
pub use files::diff::{DiskFile, WorktreeChange, WorktreeDiff, WorktreeSide, chunks_of};
pub use files::emptied::{EmptiedPattern, IdlePattern};
pub use files::export::ExportReport;
pub use files::intake::pattern::{PatternFault, SeriesPattern};
pub use files::intake::series::SeriesOptions;
pub use files::intake::{IntakeOptions, IntakeReport, IntakeVersion};
pub use files::large::LargeFile;
pub use files::lean::LeanUse;
pub use files::moving::{EntryMove, MoveOptions, MoveReport};
pub use files::path_state::PathState;
pub use files::remove::{RemoveOptions, RemoveReport};
pub use files::rename::{Rename, Renames};
pub use files::saved::OverwrittenFiles;
pub use files::states::FileState;
pub use files::status::{StatusOptions, StatusReport, UntrackedFile};
pub use files::unfinished::UnfinishedSwitches;
pub use files::untrack::{IgnoreOffer, UntrackOptions, UntrackReport};
pub use files::who::Who;
pub use files::worktrees::{AddOptions, AddReport, WorktreeInfo, WorktreeState};
pub use look::copies::{CopyState, RemoteContent};
pub use look::entries::{ListingLine, Location, Selection, blob_of};
pub use look::history_use::{CompressedFile, HistoryUse, PathUse, compressed_as};
pub use look::lack::LackOf;
pub use look::newer::{NewerOptions, NewerReport, NewerVersion, QUICK_COMMITS};
pub use look::revision::{is_previous, split_path};
pub use look::stats::{DiskUse, StoreStats};
pub use peers::allow::{Access, MAX_PEER_NAME_BYTES, NotAKey, Peer, PeerKey};
pub use peers::claim_progress::{ClaimProgress, LandedCommit};
pub use peers::claimed_paths::PushedInto;
pub use peers::claims::{
    ClaimHolder, ClaimInfo, ClaimTable, ClaimsThere, DisplacedClaim, Precedence, ToldClaims,
};
pub use peers::exchange::{Mirror, OfferedRefs, OwnBranches, RefChange, RefUpdate, Refusal};
pub use peers::half::HalfClone;
pub use peers::keep::Keeper;
pub use peers::ref_rules::{RefHolder, judge_update};
pub use peers::share::SharedPacks;
pub use peers::signatures::{
    KnownSigners, SignatureCheck, SignatureChecker, SignatureState, SshChecker, SshQuestion,
};
pub use peers::wanted::StoredHistory;
pub use shared::SharedRepo;
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
pub use verbs::arrival::ArrivalReport;
pub use verbs::bisect::{BisectNext, BisectReport, Bisection, Verdict};
pub use verbs::claim::{ClaimOptions, ClaimOutcome, EndOptions, RefusedClaim};
pub use verbs::merge::{FastForward, MergeOptions, MergeReport};
pub use verbs::onto::{FileFacts, OntoFiles, OntoOptions, OntoReport};
pub use verbs::pick::{PickFrom, PickOptions, PickReport};
pub use verbs::replaced::ResetReport;
pub use verbs::replay::ReplayedCommit;
pub use verbs::reset::{ResetFiles, ResetToReport};
pub use verbs::resolve::ResolveReport;
pub use verbs::stash::{StashApplyReport, StashAt, StashInfo, StashOptions, StashPushReport};
pub use verbs::tag::{AnnotatedTag, TagOptions};
pub use verbs::undo::{UndoOptions, UndoReport, UndoWhat};

use crate::vfs::OsVfs;
use std::path::Path;
use std::sync::Arc;

impl Repo {
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
        let repo = match whose {
            Whose::Own => Repo::open_place_on(place, Arc::new(OsVfs))?,
            Whose::Foreign => base::open::open_to_read(place)?,
        };
        files::worktrees::check_place(&repo)?;
        Ok(repo)
    }

    /// Opens a repository, and returns a stamp of its state at that time. The stamp is `None` if
    /// the state cannot be told.
    pub fn open_stamped(place: RepositoryLocation) -> Result<(Repo, Option<Stamp>), RepoError> {
        // A change during the opening must show in a later comparison.
        let files = base::stamp::Files::of(&place.dmv);
        let repo = Repo::open_place(place)?;
        let stamp = files.and_then(|files| base::stamp::stamp_with(&repo, files));
        Ok((repo, stamp))
    }
}
