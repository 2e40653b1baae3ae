//! A repository: the store, the refs and a worktree, and what a user does with them.
//!
//! Each verb has its file; each returns values, prints nothing, and leaves the repository whole
//! whatever happens. [`Repo::publish`] is the only way to change anything that counts.

mod branch;
mod checkout;
mod choices;
mod commit;
mod conflict;
mod diff;
mod drop;
mod emptied;
mod error;
mod exchange;
mod export;
mod files;
mod forks;
mod half;
mod heal;
mod keep;
mod lack;
mod layout;
mod level;
pub(crate) mod look;
mod merge;
mod moved;
mod named;
mod peers;
mod private;
mod recover;
mod rename;
mod replaced;
mod resolve;
mod revision;
mod saved;
mod settle;
mod slice;
mod stamp;
mod stats;
mod status;
mod undo;
mod unfinished;
mod unwritten;
mod verify;
mod worktree;
mod worktrees;

pub use branch::{RefInfo, RefKind};
pub use checkout::{CheckoutOptions, CheckoutReport, CheckoutTarget};
pub use commit::{CommitOptions, CommitReport, Who};
pub use conflict::ConflictAt;
pub use diff::{WorktreeChange, WorktreeSide, chunks_of};
pub use drop::{Droppable, Freed, Freeing};
pub use emptied::EmptiedPattern;
pub use error::{RepoError, RevisionError};
pub use exchange::{Offered, OwnBranches, RefMoved, RefUpdate, Refusal};
pub use export::ExportReport;
pub use half::HalfClone;
pub use heal::{Healed, HealedFrom, Healing};
pub use keep::{Keeper, Kept};
pub use lack::LackOf;
pub use layout::{
    CONFIG_FILE, DMV_DIR, Place, Trust, Whose, discover, discover_lost, discover_lost_trusting,
    discover_trusting,
};
pub use look::{Listed, Located, PathState, Wanted, blob_of};
pub use merge::{FastForward, MergeOptions, MergeReport};
pub use moved::{BranchMoved, Mover, moved_clause};
pub use peers::{Access, MAX_PEER_NAME_BYTES, NotAKey, Peer, PeerKey};
pub use recover::{RecoverReport, recover, recover_on};
pub use rename::{Rename, Renames};
pub use replaced::ResetReport;
pub use resolve::{Choice, ResolveReport};
pub use revision::split_path;
pub use saved::Overwritten;
pub use settle::MarkersLeft;
pub use slice::{BadSlice, RepoSlice};
pub use stamp::Stamp;
pub use stats::{DiskUse, StoreStats};
pub use status::{ChangeKind, PathChange, StatusOptions, StatusReport};
pub use undo::{UndoOptions, UndoReport, UndoWhat};
pub use unfinished::Unfinished;
pub use verify::{Damaged, VerifyDepth, VerifyReport};
pub use worktree::{Head, Keep, WorktreeSettings};
pub use worktrees::{AddOptions, AddReport, WorktreeInfo, WorktreeState};

use crate::hash::ObjectId;
use crate::object::ObjectRead;
use crate::object::mem::MemObjects;
use crate::refs::{Change, Effect, Made, NewOperation, Operation, Refs, RefsError, Timestamp};
use crate::store::{FileId, LogPack, Sealed, Store, StoreError};
use crate::vfs::{Open, OsVfs, ReadingVfs, Vfs};
use layout::Format;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Who asks for an operation, when, and with which words: what the operation log shows.
#[derive(Clone, Debug)]
pub struct Asked {
    /// When.
    pub time: Timestamp,
    /// Who.
    pub who: String,
    /// The command line.
    pub command: String,
}

impl Asked {
    /// `who` asks for `command` at `time`.
    pub fn new(
        who: impl Into<String>,
        command: impl Into<String>,
        time: impl Into<Timestamp>,
    ) -> Asked {
        Asked {
            time: time.into(),
            who: who.into(),
            command: command.into(),
        }
    }
}

/// An open repository.
pub struct Repo {
    dmv: PathBuf,
    id: FileId,
    vfs: Arc<dyn Vfs>,
    store: Store,
    /// Objects that are made to be looked at and not stored: how conflicts appear in files.
    made: MemObjects,
    refs: Arc<Refs>,
    log: Mutex<Option<LogPack>>,
    worktree: Option<(PathBuf, String)>,
    /// What the worktree will be on, while it is being made and the view does not know it.
    coming: Option<Head>,
    /// Another user's repository is only read.
    whose: Whose,
    /// Operations that the database had lost and that were taken from the log pack when it was opened.
    caught_up: usize,
}

impl Repo {
    /// Makes a repository in `dir` (which is made where it is missing), on a branch without commits.
    ///
    /// `bare`: `dir` itself becomes the store, without a worktree. A failed attempt leaves nothing
    /// that counts as a repository.
    pub fn init(dir: &Path, branch: &str, bare: bool, asked: Asked) -> Result<Repo, RepoError> {
        crate::refs::check_ref_name(branch)?;
        let dir = std::path::absolute(dir).map_err(|source| RepoError::Io {
            action: "find",
            path: dir.to_owned(),
            source,
        })?;
        let dmv = if bare { dir.clone() } else { dir.join(DMV_DIR) };
        if dmv.join("format").exists() {
            return Err(RepoError::Exists(dmv));
        }
        if layout::holds_packs(&dmv) {
            // No interrupted attempt: these are somebody's commits.
            return Err(RepoError::NoFormat(dmv));
        }
        let io = |action, path: &Path| {
            let path = path.to_owned();
            move |source| RepoError::Io {
                action,
                path,
                source,
            }
        };
        let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
        let packs = dmv.join("packs");
        let worktrees = dmv.join("worktrees");
        let own = match bare {
            true => worktrees,
            false => worktrees.join(layout::MAIN),
        };
        for part in [&packs, &dmv.join("index"), &own] {
            vfs.create_dir_all(part).map_err(io("create", part))?;
        }
        let db = dmv.join(REFS_FILE);
        // What an interrupted attempt left holds nothing: `format` is written last.
        let files = [
            db.clone(),
            db.with_extension("db-wal"),
            db.with_extension("db-shm"),
            db.with_extension("db-journal"),
        ];
        // Its log pack, too: two of them would look like somebody's commits.
        for left in files.into_iter().chain(layout::packs_in(&dmv)) {
            let _ = std::fs::remove_file(left);
        }
        let id = FileId::random();
        LogPack::create(&*vfs, &packs, id)?;
        let refs = Refs::create(&db)?;
        vfs.sync_dir(&dmv).map_err(io("sync", &dmv))?;
        let worktree = (!bare).then(|| (dir.clone(), layout::MAIN.to_owned()));
        let repo = Repo::assemble(dmv, id, vfs, refs, worktree)?;
        let head = worktree::head_key(layout::MAIN);
        let mut changes = vec![set(head, format!("branch/{branch}").into_bytes())];
        if !bare {
            use std::os::unix::ffi::OsStrExt;
            let path = dir.as_os_str().as_bytes().to_vec();
            changes.push(set(worktree::path_key(layout::MAIN), path));
        }
        repo.publish(asked, None, changes, Effect::Kept)?;
        Format { id }.write(&repo.dmv)?;
        repo.vfs.sync_dir(&dir).map_err(io("sync", &dir))?;
        Ok(repo)
    }

    /// Opens the repository that `start` is in.
    pub fn open(start: &Path) -> Result<Repo, RepoError> {
        Repo::open_place(discover(start)?)
    }

    /// Opens a repository that was found.
    pub fn open_place(place: Place) -> Result<Repo, RepoError> {
        let repo = Repo::open_place_on(place, Arc::new(OsVfs))?;
        repo.check_place()?;
        Ok(repo)
    }

    /// Opens a repository of this owner: into another user's nothing is written, not even a lock.
    pub fn open_as(place: Place, whose: Whose) -> Result<Repo, RepoError> {
        match whose {
            Whose::Own => Repo::open_place(place),
            Whose::Foreign => {
                layout::check_parts(&place.dmv)?;
                let format = Format::read(&place.dmv)?;
                let refs = Refs::open_to_read(&place.dmv.join(REFS_FILE))?;
                let vfs = Arc::new(ReadingVfs);
                let mut repo = Repo::assemble(place.dmv, format.id, vfs, refs, place.worktree)?;
                repo.whose = whose;
                repo.check_place()?;
                Ok(repo)
            }
        }
    }

    /// Whose the repository is.
    pub fn whose(&self) -> Whose {
        self.whose
    }

    /// Refuses to change another user's repository.
    fn check_own(&self) -> Result<(), RepoError> {
        match self.whose {
            Whose::Own => Ok(()),
            Whose::Foreign => Err(RepoError::ForeignOwner(self.dmv.clone())),
        }
    }

    /// Opens a repository whose packs and indexes lie in `vfs`.
    pub fn open_place_on(place: Place, vfs: Arc<dyn Vfs>) -> Result<Repo, RepoError> {
        layout::check_parts(&place.dmv)?;
        let format = Format::read(&place.dmv)?;
        let db = place.dmv.join(REFS_FILE);
        if !db.exists() {
            return Err(RepoError::NoDatabase(db));
        }
        let refs = Refs::open(&db)?;
        Repo::assemble(place.dmv, format.id, vfs, refs, place.worktree)
    }

    fn assemble(
        dmv: PathBuf,
        id: FileId,
        vfs: Arc<dyn Vfs>,
        refs: Refs,
        worktree: Option<(PathBuf, String)>,
    ) -> Result<Repo, RepoError> {
        let refs = Arc::new(refs);
        let store = Store::open(vfs.clone(), &dmv, id, refs.catalogue()?, refs.clone())?;
        let unusable = store.unusable_indexes();
        if !unusable.is_empty() {
            store.load(refs.catalogue_without(&unusable)?)?;
            // The next commit merges again. Until then every opening does this once more.
            let _ = refs.forget_indexes(&unusable);
        }
        check_not_mixed(&store, &refs)?;
        let caught_up = catch_up_if_free(&store, &refs);
        Ok(Repo {
            dmv,
            id,
            vfs,
            store,
            made: MemObjects::new(),
            refs,
            log: Mutex::new(None),
            worktree,
            coming: None,
            whose: Whose::Own,
            caught_up,
        })
    }

    /// Operations that the database had lost (an older one was put back, or a command was killed at
    /// the last moment) and that were taken from the log pack when it was opened.
    pub fn caught_up(&self) -> usize {
        self.caught_up
    }

    /// The repository's directory.
    pub fn dmv_dir(&self) -> &Path {
        &self.dmv
    }

    /// The repository's id.
    pub fn id(&self) -> FileId {
        self.id
    }

    /// The objects.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The objects, as the rooms below see them.
    pub fn objects(&self) -> &dyn ObjectRead {
        self
    }

    /// The view and the operation log.
    pub fn refs(&self) -> &Refs {
        &self.refs
    }

    /// The commit point: makes what `sealed` holds and `changes` visible together, or neither.
    ///
    /// Each change's old value must still be what the view holds, and each object that a new value
    /// names must be in `sealed` or in what the database lists. `effect` tells what was done to
    /// files, for an undo.
    pub fn publish(
        &self,
        asked: Asked,
        sealed: Option<Sealed>,
        changes: Vec<Change>,
        effect: Effect,
    ) -> Result<Operation, RepoError> {
        self.publish_undo(asked, sealed, changes, effect, 0)
    }

    /// [`publish`](Repo::publish) of an operation that takes back number `undoes`.
    fn publish_undo(
        &self,
        asked: Asked,
        sealed: Option<Sealed>,
        changes: Vec<Change>,
        effect: Effect,
        undoes: u64,
    ) -> Result<Operation, RepoError> {
        self.check_own()?;
        let named = self.places_named(&changes, sealed.as_ref())?;
        let (time, who, command) = (asked.time, asked.who, asked.command);
        let worktree = self.worktree.as_ref().map(|(_, name)| name.clone());
        let made = Made {
            worktree: worktree.unwrap_or_default(),
            effect,
        };
        let operation = NewOperation {
            time,
            who,
            command,
            undoes,
            made,
            changes,
        };
        let (segments, relied) = match &sealed {
            Some(sealed) => (sealed.segments.as_slice(), sealed.relied.as_slice()),
            None => (&[][..], &[][..]),
        };
        let mut held = self
            .log
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if self.refs.is_read_only() {
            return Err(RefsError::ReadOnly(self.refs.path().to_owned()).into());
        }
        let log = match &mut *held {
            Some(log) => log,
            none => none.insert(level::open_log(&self.store, Open::Append)?),
        };
        let publish = |operation| self.refs.publish(operation, segments, relied, &named, log);
        let done = match publish(operation.clone()) {
            Err(RefsError::OtherLog(_)) => {
                // Another command was killed since this one began. What it did counts.
                let turn = self.refs.turn()?;
                level::catch_up(&self.store, &self.refs, &turn)?;
                drop(turn);
                publish(operation)
            }
            done => done,
        };
        let done = match done {
            Ok(done) => done,
            Err(e) => {
                // Another file may have the log's place by now: the next publication opens it again.
                *held = None;
                return Err(e.into());
            }
        };
        if let Some(sealed) = &sealed {
            self.store.adopt(sealed);
        }
        // The locks on the packs end here, after the database knows their new lengths.
        drop(sealed);
        self.merge_tables();
        Ok(done)
    }

    /// Ends a job's writer; a pack whose sync failed takes no more.
    fn seal(&self, writer: crate::store::StoreWriter<'_>) -> Result<Sealed, RepoError> {
        self.noting_failed_sync(writer.finish())
    }

    fn noting_failed_sync(&self, sealed: Result<Sealed, StoreError>) -> Result<Sealed, RepoError> {
        sealed.map_err(|e| {
            if let StoreError::SyncFailed { path, .. } = &e {
                let id = path
                    .file_stem()
                    .and_then(|s| s.to_str())
                    .and_then(FileId::from_hex);
                // The report of the failed sync matters more than one that this cannot be noted.
                let _ = id.map(|id| self.refs.poison(id));
            }
            e.into()
        })
    }

    /// Joins piled-up index tables. A failure only leaves them piled up, for the next command.
    fn merge_tables(&self) {
        let Ok(catalogue) = self.refs.catalogue() else {
            return;
        };
        let Ok(Some(merged)) = self.store.merge_tables(&catalogue) else {
            return;
        };
        match self.refs.register_merged(&merged) {
            Ok(true) => {
                self.store.remove_indexes(&merged.indexes);
                // Its own is registered; nobody needs its lock any more.
                drop(merged);
                let catalogue = || self.refs.catalogue().ok();
                self.store
                    .remove_strays(|| catalogue().map(|now| now.indexes));
            }
            _ => self.store.remove_indexes(&[merged.id]),
        }
    }
}

/// Refuses a database beside the write-ahead log of another time: what one table names another lacks.
fn check_not_mixed(store: &Store, refs: &Refs) -> Result<(), RepoError> {
    if !refs.may_be_mixed() {
        return Ok(());
    }
    refs.check_tables()?;
    for (key, value) in refs.with_prefix("")? {
        if let (true, Ok(id)) = (verify::names_commit(&key), <[u8; 32]>::try_from(value)) {
            // Asked anew: another command may have published it since.
            if !store.has(&ObjectId::from_bytes(id))? && store.opened_all_tables() {
                return Err(RefsError::mixed().into());
            }
        }
    }
    refs.note_fit();
    Ok(())
}

/// Takes over what the database lost, as long as nobody else is changing it: whoever is has perhaps
/// written an operation and not committed it yet.
fn catch_up_if_free(store: &Store, refs: &Refs) -> usize {
    let is_level = || -> Result<bool, RepoError> {
        let log = level::open_log(store, Open::Read)?;
        Ok(refs.level()?.log_end == Some(log.len()?))
    };
    if refs.is_read_only() || refs.is_copy() || is_level().unwrap_or(true) {
        return 0;
    }
    // Where that fails, publishing fails in the same way and says why. Until then all can be read.
    let Ok(Some(turn)) = refs.try_turn() else {
        return 0;
    };
    let done = level::catch_up(store, refs, &turn).unwrap_or(0);
    if let Ok(catalogue) = refs.catalogue() {
        let _ = store.load(catalogue);
    }
    done
}

const REFS_FILE: &str = "refs.db";

/// A change that gives a key its first value.
fn set(key: String, new: Vec<u8>) -> Change {
    Change {
        key,
        old: None,
        new: Some(new),
    }
}

/// A change from what the view holds now.
fn change(refs: &Refs, key: String, new: Option<Vec<u8>>) -> Result<Change, RefsError> {
    let old = refs.get(&key)?;
    Ok(Change { key, old, new })
}
