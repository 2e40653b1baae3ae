//! Verify: checks every byte of the packs and every object that history names.
//!
//! `heal` uses [`check`] and continues its walk.

pub mod databases;
pub mod history;
pub mod known;
pub mod uses;

use crate::hash::ObjectId;
use crate::job::Job;
use crate::object::ObjectType;
use crate::object::name::RepoPath;
use crate::refs::Refs;
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use crate::repo::upkeep::verify::history::Walk;
use crate::store::{PackId, PackReport, PackRow, StoreError, verify_pack};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::Ordering;

/// How often a check looks again because another command has replaced packs meanwhile.
const LOOKS: usize = 5;

/// How thorough a check is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VerifyDepth {
    /// Checks index tables, and that every object that history names is stored. Does not read file
    /// content.
    Quick,
    /// Like `Quick`, and reads every byte of every pack.
    Normal,
    /// Like `Normal`, and checks the databases.
    Full,
}

/// A damaged or missing object, and what needs it.
#[derive(Clone, Debug)]
pub struct DamagedObject {
    /// The object.
    pub id: ObjectId,
    /// Its type.
    pub ty: ObjectType,
    /// Some of the paths that need it in some commit.
    pub paths: Vec<RepoPath>,
    /// The commits in which these paths were found. For a commit: its direct descendants.
    pub commits: Vec<ObjectId>,
    /// For a commit: the keys of the view that name it.
    pub refs: Vec<String>,
}

/// A pack of the catalogue whose file is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostPack {
    /// The pack.
    pub id: PackId,
    /// The length that its file had.
    pub bytes: u64,
    /// The number of objects in it. Other packs may have copies.
    pub objects: u64,
}

impl LostPack {
    /// Describes a pack as the catalogue does.
    pub(crate) fn of(refs: &Refs, row: &PackRow) -> LostPack {
        let segments = refs.segments_of(row.id).unwrap_or_default();
        LostPack {
            id: row.id,
            bytes: row.len,
            objects: segments.iter().map(|row| u64::from(row.entries)).sum(),
        }
    }
}

/// A path whose content is damaged or missing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AffectedPath {
    /// The path of a file; that of a directory if its listing is damaged or missing.
    pub path: RepoPath,
    /// A commit that has this content at the path, if a commit has it.
    pub commit: Option<ObjectId>,
}

/// What a check found.
#[derive(Debug, Default)]
pub struct VerifyReport {
    /// The number of intact objects.
    pub objects: u64,
    /// The bytes of packs read.
    pub bytes: u64,
    /// Objects whose stored bytes are wrong.
    pub damaged: Vec<DamagedObject>,
    /// Objects that history names and that are not stored.
    pub missing: Vec<DamagedObject>,
    /// Objects with a damaged copy and an intact one. Readers get the intact copy.
    pub copies: Vec<DamagedObject>,
    /// Packs whose files are gone. What they had and what is needed counts as missing.
    pub lost_packs: Vec<LostPack>,
    /// Lost packs that healing has taken out of use, because nothing needs them any more.
    pub forgotten_packs: Vec<LostPack>,
    /// Bytes of the damaged and missing content, as far as it is known.
    pub lost_bytes: u64,
    /// All paths that damaged and missing objects affect.
    pub affected: Vec<AffectedPath>,
    /// Damaged files of the repository, as sentences.
    pub files: Vec<String>,
    /// Damaged places in packs whose objects are intact elsewhere, as sentences.
    pub made_good: Vec<String>,
    /// The number of objects that are absent by choice, as far as stored objects name them. A chunk
    /// counts once for each list or directory that names it.
    pub absent: u64,
}

impl VerifyReport {
    /// Returns whether nothing is wrong. A lost pack is no damage if everything in it that is needed is
    /// stored elsewhere.
    pub fn is_ok(&self) -> bool {
        self.damaged.is_empty() && self.missing.is_empty() && self.files.is_empty()
    }
}

impl Repo {
    /// Checks the repository and returns what is wrong.
    ///
    /// Changes only the lists of damaged places and objects, so that these objects are stored again when
    /// they are received. A file that cannot be read for lack of permission is an error and not damage.
    pub fn verify(&self, depth: VerifyDepth, job: &Job) -> Result<VerifyReport, RepoError> {
        let (mut report, _) = check(self, depth, job)?;
        uses::name_uses(self, &mut report, &mut Vec::new(), job)?;
        known::remember(self, &report);
        Ok(report)
    }
}

/// Like [`verify`], but does not find what the damage affects. Also returns the walk over history,
/// which can continue once something is healed.
pub fn check(
    repo: &Repo,
    depth: VerifyDepth,
    job: &Job,
) -> Result<(VerifyReport, Walk), RepoError> {
    repo.store.files().check_readable(&repo.store.packs())?;
    let mut report = VerifyReport {
        files: damaged_tables(repo)?,
        lost_packs: lost_packs(repo),
        ..Default::default()
    };
    if depth >= VerifyDepth::Normal {
        verify_packs(repo, &mut report, job)?;
    } else {
        report.objects = repo.store.table_stats().1;
        report.damaged = known::still_damaged(repo);
    }
    databases::check_log(repo, &mut report.files)?;
    databases::check_heads(repo, &mut report.files)?;
    if depth == VerifyDepth::Full {
        databases::check(repo, &mut report.files)?;
    }
    let bad = report.damaged.iter().map(|damaged| damaged.id).collect();
    let is_blind = !report.files.is_empty() || !report.lost_packs.is_empty();
    let mut walk = Walk::new(repo, bad, is_blind)?;
    walk.run(repo, job)?;
    let named = |found: &BTreeMap<ObjectId, ObjectType>| {
        let found = found.iter().map(|(id, ty)| unnamed((*id, *ty)));
        found.collect::<Vec<DamagedObject>>()
    };
    report.damaged.extend(named(&walk.damaged));
    report.missing = named(&walk.missing);
    report.absent = walk.absent();
    // A file that cannot be read is met by its tables and by its frames.
    let mut known = HashSet::new();
    report.files.retain(|file| known.insert(file.clone()));
    report.damaged.sort_by_key(|d| d.id);
    report.damaged.dedup_by_key(|d| d.id);
    Ok((report, walk))
}

/// Returns the packs whose files are gone.
pub fn lost_packs(repo: &Repo) -> Vec<LostPack> {
    let lost = repo.store.current().lost.clone();
    lost.iter()
        .map(|row| LostPack::of(&repo.refs, row))
        .collect()
}

/// Returns the packs of the catalogue that have a file.
fn packs_there(repo: &Repo) -> Vec<PackRow> {
    let lost = repo.store.current().lost.clone();
    let mut packs = repo.store.packs();
    packs.retain(|row| !lost.contains(row));
    packs
}

/// Returns the faults of the tables in use.
fn damaged_tables(repo: &Repo) -> Result<Vec<String>, RepoError> {
    let mut found = repo.store.current().damaged_tables();
    for _ in 0..LOOKS {
        // Another command may have replaced packs and tables since the catalogue was read.
        if found.is_empty() || !repo.store.refresh()? {
            break;
        }
        found = repo.store.current().damaged_tables();
    }
    Ok(found)
}

fn verify_packs(repo: &Repo, report: &mut VerifyReport, job: &Job) -> Result<(), RepoError> {
    let mut reports: HashMap<PackId, PackReport> = HashMap::new();
    let mut failed: BTreeMap<PackId, String> = BTreeMap::new();
    let mut read_to: HashMap<PackId, u64> = HashMap::new();
    let (mut looks, mut before) = (0, 0);
    loop {
        let mut packs = packs_there(repo);
        packs.retain(|row| !reports.contains_key(&row.id));
        let total = before + packs.iter().map(|p| p.len).sum::<u64>();
        job.progress.total_bytes.store(total, Ordering::Relaxed);
        for row in &packs {
            let pack = verify_pack(&repo.store, row, &mut |bytes| {
                job.progress.bytes.store(before + bytes, Ordering::Relaxed);
                !job.is_cancelled()
            });
            let pack = match pack {
                Ok(pack) => pack,
                Err(e @ (StoreError::Io(_) | StoreError::DamagedFile { .. })) => {
                    failed.insert(row.id, e.to_string());
                    PackReport::default()
                }
                Err(e) => return Err(e.into()),
            };
            before += row.len;
            read_to.insert(row.id, row.len);
            reports.insert(row.id, pack);
        }
        looks += 1;
        // Another command may have replaced packs meanwhile.
        if !failed.is_empty() {
            repo.store.refresh()?;
        }
        // What a newer catalogue lists, and no report is about, is read, too.
        let listed = packs_there(repo);
        let listed: HashMap<PackId, u64> = listed.iter().map(|row| (row.id, row.len)).collect();
        reports.retain(|pack, _| listed.get(pack) == read_to.get(pack));
        if looks == LOOKS || reports.len() == listed.len() {
            break;
        }
    }
    failed.retain(|pack, _| reports.contains_key(pack));
    report.files.extend(failed.into_values());
    report.objects += reports.values().map(|pack| pack.objects).sum::<u64>();
    report.bytes += reports.values().map(|pack| pack.bytes).sum::<u64>();
    let damage = repo.store.damage(&reports)?;
    let packs = repo.store.packs();
    for row in packs.iter().filter(|row| reports.contains_key(&row.id)) {
        let path = repo.store.pack_path(row.id);
        for (from, to, why) in &reports[&row.id].damage {
            let place = format!("{} at {from}: {why}", path.display());
            if damage.is_made_good(row.id, *from, *to) {
                report.made_good.push(place)
            } else {
                report.files.push(place)
            }
        }
    }
    report.damaged.extend(damage.lost.into_iter().map(unnamed));
    report.copies.extend(damage.copies.into_iter().map(unnamed));
    // On a read-only disk this fails, and the next check finds the damage again.
    let _ = repo.store.remember_bad(damage.bad);
    Ok(())
}

pub fn unnamed((id, ty): (ObjectId, ObjectType)) -> DamagedObject {
    DamagedObject {
        id,
        ty,
        paths: Vec::new(),
        commits: Vec::new(),
        refs: Vec::new(),
    }
}
