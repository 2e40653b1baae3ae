//! Checking a repository: every byte of the packs, every object that history names.

use super::choices::Record;
mod history;

use super::{Repo, RepoError};
use crate::hash::ObjectId;
use crate::job::Job;
use crate::object::list::BlobChunks;
use crate::object::name::RepoPath;
use crate::object::tree::Kind;
use crate::object::{ObjectError, ObjectType};
use crate::repo::look::blob_of;
use crate::store::{FileId, PackReport, StoreError, verify_pack};
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

/// Most paths reported for one damaged object.
const MAX_PATHS: usize = 8;

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
        if depth == VerifyDepth::Full {
            self.verify_databases(&mut report)?;
        }
        self.verify_history(&mut report, job)?;
        for list in [&mut report.damaged, &mut report.missing] {
            list.sort_by_key(|d| d.id);
            list.dedup_by_key(|d| d.id);
        }
        self.name_paths(&mut report, job)?;
        Ok(report)
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

    fn verify_databases(&self, report: &mut VerifyReport) -> Result<(), RepoError> {
        let lines = self.refs.integrity()?;
        report
            .files
            .extend(lines.into_iter().map(|line| format!("refs.db: {line}")));
        let packs = self.store.packs_dir();
        let log = crate::store::LogPack::open(&*self.vfs, packs, self.id, crate::vfs::Open::Read)?;
        if !log.is_header_intact()? {
            report
                .files
                .push("the operation log's header is damaged".into());
        }
        let logged: HashSet<Vec<u8>> = log.operations()?.into_iter().collect();
        let lost = self
            .refs
            .operations(usize::MAX)?
            .iter()
            .filter(|op| !logged.contains(&op.encode()))
            .count();
        if lost > 0 {
            report
                .files
                .push(format!("the operation log lacks {lost} operations"));
        }
        Ok(())
    }

    /// Finds paths that use what is damaged or missing. Only done when something is.
    fn name_paths(&self, report: &mut VerifyReport, job: &Job) -> Result<(), RepoError> {
        let wanted: HashSet<ObjectId> = report
            .damaged
            .iter()
            .chain(&report.missing)
            .map(|d| d.id)
            .collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let mut paths: HashMap<ObjectId, Vec<Vec<u8>>> = HashMap::new();
        let mut trees: HashSet<ObjectId> = HashSet::new();
        for (key, value) in self.refs.with_prefix("")? {
            if let Some(Record { to, .. }) = names_choices(&key, &value) {
                self.paths_in(to, &wanted, &mut paths);
            }
            let (true, Ok(bytes)) = (names_commit(&key), <[u8; 32]>::try_from(value)) else {
                continue;
            };
            let start = ObjectId::from_bytes(bytes);
            let mut commits = vec![start];
            let mut seen = HashSet::new();
            while let Some(id) = commits.pop() {
                if !seen.insert(id) {
                    continue;
                }
                let Ok(commit) = self.read_commit(&id) else {
                    continue;
                };
                commits.extend(&commit.parents);
                if job.is_cancelled() {
                    return Err(RepoError::Cancelled);
                }
                if trees.insert(commit.tree) {
                    self.paths_in(commit.tree, &wanted, &mut paths);
                }
            }
        }
        for damaged in report.damaged.iter_mut().chain(&mut report.missing) {
            damaged.paths = paths.remove(&damaged.id).unwrap_or_default();
        }
        Ok(())
    }

    fn paths_in(
        &self,
        tree: ObjectId,
        wanted: &HashSet<ObjectId>,
        paths: &mut HashMap<ObjectId, Vec<Vec<u8>>>,
    ) {
        let mut note = |id: ObjectId, path: &RepoPath| {
            let list = paths.entry(id).or_default();
            let path = path.as_bytes().to_vec();
            if list.len() < MAX_PATHS && !list.contains(&path) {
                list.push(path);
            }
        };
        // What cannot be read ends the walk there: it is in the report by its own id.
        let mut dirs = vec![(RepoPath::root(), tree)];
        while let Some((at, tree)) = dirs.pop() {
            if wanted.contains(&tree) {
                note(tree, &at);
            }
            let _ = self.list(&at, tree, false, &mut |listed| {
                let (path, entry) = (&listed.path, &listed.entry);
                if wanted.contains(&entry.id) {
                    note(entry.id, path);
                }
                if entry.kind == Kind::Directory {
                    dirs.push((path.clone(), entry.id));
                } else if entry.is_list {
                    for chunk in BlobChunks::new(self.objects(), blob_of(entry)) {
                        match chunk {
                            Ok((_, id, _)) if wanted.contains(&id) => note(id, path),
                            Ok(_) => {}
                            Err(
                                ObjectError::Damaged { id, .. } | ObjectError::Missing { id, .. },
                            ) => {
                                note(id, path);
                            }
                            Err(_) => {}
                        }
                    }
                }
                Ok(ControlFlow::Continue(()))
            });
        }
    }
}

/// Whether a key of the view has the id of a commit as its value.
pub(super) fn names_commit(key: &str) -> bool {
    let is_ref = ["branch/", "tag/", "remote/"]
        .iter()
        .any(|prefix| key.starts_with(prefix));
    is_ref || key.starts_with("worktree/") && key.ends_with("/base")
}

/// The trees that a key of the view names if it holds a worktree's choices.
pub(super) fn names_choices(key: &str, value: &[u8]) -> Option<Record> {
    let is_record = key.starts_with("worktree/") && key.ends_with("/settled");
    is_record.then(|| Record::parse(value))?
}

fn unnamed((id, ty): (ObjectId, ObjectType)) -> Damaged {
    let paths = Vec::new();
    Damaged { id, ty, paths }
}
