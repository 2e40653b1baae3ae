//! Healing: stores damaged and missing objects again, from the worktree's files and from peers.
//!
//! It uses `verify` to find what is wrong. `dmv-net` fetches what the worktree does not have.

use crate::fsutil::{fs_now, machine_now};
use crate::hash::ObjectId;
use crate::job::Job;
use crate::object::{ObjectError, ObjectRead, ObjectType};
use crate::repo::base::error::{AbsentError, BusyError, RepoError};
use crate::repo::base::repo::Repo;
use crate::repo::base::worktree::WorktreeSettings;
use crate::repo::base::{leaving, objects, publish, worktree};
use crate::repo::files::open_worktree;
use crate::repo::upkeep::verify;
use crate::repo::upkeep::verify::history::Walk;
use crate::repo::upkeep::verify::{DamagedObject, VerifyDepth, VerifyReport, known, unnamed, uses};
use crate::store::StoreError;
use crate::worktree::base::TreeBase;
use crate::worktree::cacheupdate::CacheUpdate;
use crate::worktree::properties::PropertyRules;
use crate::worktree::scan::BaseEntries;
use crate::worktree::select::Paths;
use crate::worktree::snapshot::{SnapshotInput, snapshot};
use crate::worktree::statcache::Section;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// An object that is intact again.
#[derive(Clone, Debug)]
pub struct HealedObject {
    /// The object, and what needs it.
    pub object: DamagedObject,
    /// Where intact bytes were found.
    pub from: HealedFrom,
}

/// Where the intact bytes of a damaged object were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HealedFrom {
    /// In another place of this repository.
    Copy,
    /// In the files of the worktree.
    Worktree,
    /// At this peer.
    Peer(String),
}

/// A job that stores damaged and missing objects again, step by step. The objects below an
/// unreadable object are unknown until that object is intact again.
pub struct HealJob<'r> {
    repo: &'r Repo,
    depth: VerifyDepth,
    /// The report of the first check, as long as nothing has been stored.
    report: VerifyReport,
    walk: Walk,
    /// The objects that are not intact yet.
    wanted: BTreeMap<ObjectId, ObjectType>,
    /// The objects that were looked for in the worktree's files.
    sought: HashSet<ObjectId>,
    /// Whether the files could not be read because another command was at work on them.
    are_files_busy: bool,
    healed: Vec<HealedObject>,
}

impl Repo {
    /// Checks the repository and starts to heal the damage that it finds.
    pub fn begin_to_heal<'r>(
        &'r self,
        depth: VerifyDepth,
        job: &Job,
    ) -> Result<HealJob<'r>, RepoError> {
        renew_indexes(self, &[])?;
        let (mut report, mut walk) = verify::check(self, depth, job)?;
        if mend_bases(self, &report)? {
            (report, walk) = verify::check(self, depth, job)?;
        }
        let copies: Vec<ObjectId> = report.copies.iter().map(|object| object.id).collect();
        renew_indexes(self, &copies)?;
        // Objects that tables still locate in a damaged place can be read, but they are not healed.
        let renewed = report.copies.iter().filter(|object| {
            let place = self.store.has_outside(&object.id, &HashSet::new());
            place.unwrap_or(false)
        });
        let copies = renewed.map(|object| HealedObject {
            object: object.clone(),
            from: HealedFrom::Copy,
        });
        let mut healing = HealJob {
            repo: self,
            depth,
            walk,
            wanted: BTreeMap::new(),
            sought: HashSet::new(),
            are_files_busy: false,
            healed: copies.collect(),
            report,
        };
        let found = healing.report.damaged.iter().chain(&healing.report.missing);
        let wanted = found.map(|object| (object.id, object.ty));
        // Intact bytes that do not decode cannot be replaced: every copy has the same bytes.
        healing.wanted = wanted
            .filter(|(id, ty)| !objects::is_whole(self, *ty, id))
            .collect();
        Ok(healing)
    }
}

/// Stores chunks once more on which damaged ones are based, if other packs have them only as differences.
/// Returns whether there were any.
fn mend_bases(repo: &Repo, report: &VerifyReport) -> Result<bool, RepoError> {
    let chunks = report.damaged.iter();
    let chunks = chunks.filter(|object| object.ty == ObjectType::Chunk);
    let chunks: Vec<ObjectId> = chunks.map(|object| object.id).collect();
    if chunks.is_empty() {
        return Ok(false);
    }
    let sealed = publish::noting_failed_sync(repo, repo.store.mend_bases(&chunks))?;
    let any = !sealed.segments.is_empty();
    publish::keep(repo, sealed)?;
    Ok(any)
}

/// Retires merged index files that are damaged, or that hide intact copies of damaged objects. The
/// next merged indexes name these copies. An index stays if some of its segments cannot be found
/// without it: readers would lose the intact objects that it names, and they find hidden copies in
/// any case.
fn renew_indexes(repo: &Repo, copies: &[ObjectId]) -> Result<(), RepoError> {
    let mut poor = Vec::new();
    for index in repo.store.poor_indexes(copies) {
        let segments = repo.refs.segments_merged_in(index)?;
        let files = repo.store.files();
        if segments
            .iter()
            .all(|row| files.checked_table_of(row).is_ok())
        {
            poor.push(index);
        }
    }
    if poor.is_empty() {
        return Ok(());
    }
    repo.refs.forget_indexes(&poor)?;
    repo.store.load(repo.refs.catalogue()?)?;
    repo.store.remove_indexes(&poor);
    publish::merge_tables(repo);
    Ok(())
}

impl HealJob<'_> {
    /// Returns the known objects that are not intact yet.
    pub fn wanted(&self) -> impl Iterator<Item = (ObjectType, ObjectId)> {
        self.wanted.iter().map(|(id, ty)| (*ty, *id))
    }

    /// Returns the repository's objects without the damaged ones, for a transfer that fetches
    /// these.
    pub fn objects(&self) -> impl ObjectRead {
        Sound(self.repo)
    }

    /// Stores wanted objects again from the worktree's files. Returns whether any were stored.
    ///
    /// Every file is read, as for a first commit, but only wanted objects are stored. The damaged
    /// bytes stay in their packs and are not read any more.
    pub fn from_worktree(
        &mut self,
        settings: &WorktreeSettings,
        job: &Job,
    ) -> Result<bool, RepoError> {
        let is_new = self.wanted.keys().any(|id| !self.sought.contains(id));
        if !is_new || self.repo.worktree_root().is_none() {
            return Ok(false);
        }
        let wanted: HashSet<ObjectId> = self.wanted.keys().copied().collect();
        job.begin_part();
        let read = store_again(self.repo, wanted.clone(), settings, job);
        self.are_files_busy = matches!(read, Err(RepoError::Busy(BusyError::Worktree(_))));
        match read {
            Ok(true) => self.sought.extend(wanted),
            // Peers may still have the objects.
            Ok(false) | Err(RepoError::Busy(BusyError::Worktree(_))) => {}
            Err(e) => return Err(e),
        }
        self.look_again(&HealedFrom::Worktree, job)
    }

    /// Returns whether the worktree's files were left out because another command was at work on
    /// them.
    pub fn are_files_busy(&self) -> bool {
        self.are_files_busy
    }

    /// Notes the objects that came from `peer`. Returns whether there were any.
    pub fn came_from(&mut self, peer: &str, job: &Job) -> Result<bool, RepoError> {
        self.look_again(&HealedFrom::Peer(peer.to_owned()), job)
    }

    /// Looks which objects are intact by now, and continues the walk below them.
    fn look_again(&mut self, from: &HealedFrom, job: &Job) -> Result<bool, RepoError> {
        let is_whole = |id: &ObjectId, ty: &mut ObjectType| objects::is_whole(self.repo, *ty, id);
        let whole: Vec<_> = self.wanted.extract_if(.., is_whole).collect();
        self.walk
            .is_intact_now(&whole.iter().map(|(id, _)| *id).collect());
        self.walk.run(self.repo, job)?;
        let below = self.walk.missing.iter();
        self.wanted.extend(below.map(|(id, ty)| (*id, *ty)));
        let any = !whole.is_empty();
        self.healed
            .extend(whole.into_iter().map(|object| HealedObject {
                object: unnamed(object),
                from: from.clone(),
            }));
        Ok(any)
    }

    /// Checks once more if anything was stored. Returns the remaining damage and the healed
    /// objects.
    pub fn finish(mut self, job: &Job) -> Result<(VerifyReport, Vec<HealedObject>), RepoError> {
        let is_stored = |healed: &HealedObject| healed.from != HealedFrom::Copy;
        if self.healed.iter().any(is_stored) {
            job.begin_part();
            (self.report, _) = verify::check(self.repo, self.depth, job)?;
        }
        let report = &mut self.report;
        let (froms, mut healed): (Vec<_>, Vec<_>) = self
            .healed
            .into_iter()
            .map(|healed| (healed.from, healed.object))
            .unzip();
        uses::name_uses(self.repo, report, &mut healed, job)?;
        known::remember(self.repo, report);
        let is_healed = report.damaged.is_empty() && report.missing.is_empty();
        // What is needed of them is stored elsewhere by now. If another command comes between, the next
        // check says so again.
        if is_healed && !report.lost_packs.is_empty() && leaving::forget_lost(self.repo)? {
            report.forgotten_packs = std::mem::take(&mut report.lost_packs);
        }
        let healed = healed.into_iter().zip(froms);
        let healed = healed.map(|(object, from)| HealedObject { object, from });
        Ok((self.report, healed.collect()))
    }
}

/// A repository's objects without those that a check has found damaged.
struct Sound<'r>(&'r Repo);

impl Sound<'_> {
    fn has(&self, id: &ObjectId) -> Result<bool, ObjectError> {
        Ok(self.0.store.has_outside(id, &HashSet::new())?)
    }
}

impl ObjectRead for Sound<'_> {
    fn read(&self, ty: ObjectType, id: &ObjectId) -> Result<Option<Arc<[u8]>>, ObjectError> {
        if self.has(id)? {
            self.0.store.read(ty, id)
        } else {
            Ok(None)
        }
    }

    fn holds(&self, ty: ObjectType, id: &ObjectId) -> Result<bool, ObjectError> {
        Ok(self.has(id)? && self.0.store.holds(ty, id)?)
    }
}

/// Stores the objects of `wanted` that the worktree's files contain. Returns whether the files
/// could be read.
fn store_again(
    repo: &Repo,
    wanted: HashSet<ObjectId>,
    settings: &WorktreeSettings,
    job: &Job,
) -> Result<bool, RepoError> {
    let _lock = worktree::lock_worktree(repo)?;
    let tree = match open_worktree::open(repo, settings) {
        Ok(tree) => tree,
        // The worktree's own commit is damaged or lost. No file can restore it.
        Err(
            RepoError::Object(_)
            | RepoError::Absent(AbsentError::Object { .. })
            | RepoError::Store(StoreError::LostPack { .. }),
        ) => return Ok(false),
        Err(e) => return Err(e),
    };
    let known = BaseWithoutFingerprints(TreeBase::new(
        repo.objects(),
        tree.base_tree,
        None,
        &tree.subset,
    ));
    let everything = Paths::default();
    let input = SnapshotInput {
        root: &tree.root,
        reader: repo.objects(),
        base: None,
        scan: tree.scan_options(&known, &everything, job),
        started: fs_now(&tree.own),
        portable: false,
        properties: &PropertyRules::default(),
        unwritten: &BTreeSet::new(),
        most_new: None,
    };
    let mut cache = CacheUpdate::new(&tree.own, repo.id, &tree.subset, &known);
    let writer = repo.store.mender(wanted)?;
    // Problems with unreadable files are not reported here.
    snapshot(&input, &writer, &mut cache, job)?;
    let sealed = publish::noting_failed_sync(repo, writer.finish())?;
    publish::keep_as_of(repo, sealed, machine_now().seconds)?;
    Ok(true)
}

/// The base's entries without any fingerprint, so that every file is read.
struct BaseWithoutFingerprints<'a>(TreeBase<'a>);

impl BaseEntries for BaseWithoutFingerprints<'_> {
    fn section(
        &self,
        dir: &[u8],
    ) -> Result<Option<Section>, Box<dyn std::error::Error + Send + Sync>> {
        // An unreadable directory may itself be wanted. Then none of its files is known, and all
        // are read.
        let known = self.0.section(dir).unwrap_or(None);
        Ok(Some(known.unwrap_or_default()))
    }
}
