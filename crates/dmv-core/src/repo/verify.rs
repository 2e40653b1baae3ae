//! Checking a repository: every byte of the packs, every object that history names.

mod databases;
mod history;
mod uses;

use super::choices::Record;
use super::{Repo, RepoError};
use crate::hash::ObjectId;
use crate::job::Job;
use crate::object::ObjectType;
use crate::store::{FileId, PackReport, StoreError, verify_pack};
pub(super) use history::Walk;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;

/// How thorough a check is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VerifyDepth {
    /// Index tables, and everything that history names is stored; file content is not read.
    Quick,
    /// All of that, and every byte of every pack.
    Normal,
    /// All of that, and the databases.
    Full,
}

/// A damaged or lost object, and where it is used.
#[derive(Clone, Debug)]
pub struct Damaged {
    /// The object.
    pub id: ObjectId,
    /// Its type.
    pub ty: ObjectType,
    /// Paths in some commit that need it, a few of them.
    pub paths: Vec<Vec<u8>>,
    /// The commits where these were found; of a commit, those that descend from it at once.
    pub commits: Vec<ObjectId>,
    /// Of a commit: the keys of the view that name it.
    pub refs: Vec<String>,
}

/// What a check found.
#[derive(Debug, Default)]
pub struct VerifyReport {
    /// Objects that are whole.
    pub objects: u64,
    /// Bytes of packs read.
    pub bytes: u64,
    /// Objects whose stored bytes are wrong.
    pub damaged: Vec<Damaged>,
    /// Objects that history names and the store does not have.
    pub missing: Vec<Damaged>,
    /// Objects with a damaged copy and a whole one, which is what is read.
    pub copies: Vec<Damaged>,
    /// Files of the repository that are damaged, as sentences.
    pub files: Vec<String>,
    /// Damaged places in packs where nothing lies that is not whole elsewhere, as sentences.
    pub made_good: Vec<String>,
    /// Objects that are absent by choice, as far as what is here names them; a chunk counts once for
    /// each list or directory that names it.
    pub absent: u64,
}

impl VerifyReport {
    /// Whether nothing is wrong.
    pub fn is_ok(&self) -> bool {
        self.damaged.is_empty() && self.missing.is_empty() && self.files.is_empty()
    }
}

impl Repo {
    /// Checks the repository and says what is wrong.
    ///
    /// Changes nothing but the list of damaged places, from which objects are stored again when
    /// they turn up. A file that may not be read is a failure and no damage.
    pub fn verify(&self, depth: VerifyDepth, job: &Job) -> Result<VerifyReport, RepoError> {
        let (mut report, _) = self.check(depth, job)?;
        self.name_uses(&mut [&mut report.damaged, &mut report.missing], job)?;
        Ok(report)
    }

    /// The same without saying what is affected; with the walk over history, which can go on where
    /// something is healed.
    pub(super) fn check(
        &self,
        depth: VerifyDepth,
        job: &Job,
    ) -> Result<(VerifyReport, Walk), RepoError> {
        self.store.check_readable()?;
        let mut report = VerifyReport {
            files: self.store.damaged_tables(),
            ..Default::default()
        };
        if depth >= VerifyDepth::Normal {
            self.verify_packs(&mut report, job)?;
        } else {
            report.objects = self.store.table_stats().1;
        }
        databases::check_log(self, &mut report.files)?;
        databases::check_heads(self, &mut report.files)?;
        if depth == VerifyDepth::Full {
            databases::check(self, &mut report.files)?;
        }
        let bad = report.damaged.iter().map(|damaged| damaged.id).collect();
        let mut walk = Walk::new(self, bad, !report.files.is_empty())?;
        walk.run(self, job)?;
        let named = |found: &BTreeMap<ObjectId, ObjectType>| {
            let found = found.iter().map(|(id, ty)| unnamed((*id, *ty)));
            found.collect::<Vec<Damaged>>()
        };
        report.damaged.extend(named(&walk.damaged));
        report.missing = named(&walk.missing);
        report.absent = walk.absent();
        report.damaged.sort_by_key(|d| d.id);
        report.damaged.dedup_by_key(|d| d.id);
        Ok((report, walk))
    }

    fn verify_packs(&self, report: &mut VerifyReport, job: &Job) -> Result<(), RepoError> {
        let packs = self.store.packs();
        let total = packs.iter().map(|p| p.len).sum();
        job.progress.total_bytes.store(total, Ordering::Relaxed);
        let mut reports: HashMap<FileId, PackReport> = HashMap::new();
        let mut before = 0;
        for row in &packs {
            let pack = verify_pack(&self.store, row, &mut |bytes| {
                job.progress.bytes.store(before + bytes, Ordering::Relaxed);
                !job.is_cancelled()
            });
            let pack = match pack {
                Ok(pack) => pack,
                Err(e @ (StoreError::Io { .. } | StoreError::DamagedFile { .. })) => {
                    report.files.push(e.to_string());
                    PackReport::default()
                }
                Err(e) => return Err(e.into()),
            };
            before += row.len;
            report.objects += pack.objects;
            report.bytes += pack.bytes;
            reports.insert(row.id, pack);
        }
        let damage = self.store.damage(&reports)?;
        for row in &packs {
            let path = self.store.pack_path(row.id);
            for (from, to, why) in &reports[&row.id].damage {
                let place = format!("{} at {from}: {why}", path.display());
                match damage.is_made_good(row.id, *from, *to) {
                    true => report.made_good.push(place),
                    false => report.files.push(place),
                }
            }
        }
        report.damaged.extend(damage.lost.into_iter().map(unnamed));
        report.copies.extend(damage.copies.into_iter().map(unnamed));
        // On a read-only disk the next check finds them again.
        let _ = self.store.remember_bad(damage.bad);
        Ok(())
    }
}

/// Whether a key of the view has the id of a commit as its value.
pub(super) fn names_commit(key: &str) -> bool {
    let is_ref = ["branch/", "tag/", "remote/"]
        .iter()
        .any(|prefix| key.starts_with(prefix));
    let of_worktree = ["/base", "/saved", "/saving"]
        .iter()
        .any(|end| key.ends_with(end));
    is_ref || key.starts_with("worktree/") && of_worktree
}

/// The trees that a key of the view names if it holds a worktree's choices.
pub(super) fn names_choices(key: &str, value: &[u8]) -> Option<Record> {
    let is_record = key.starts_with("worktree/") && key.ends_with("/settled");
    is_record.then(|| Record::parse(value))?
}

pub(super) fn unnamed((id, ty): (ObjectId, ObjectType)) -> Damaged {
    Damaged {
        id,
        ty,
        paths: Vec::new(),
        commits: Vec::new(),
        refs: Vec::new(),
    }
}
