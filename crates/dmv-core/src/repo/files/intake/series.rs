//! Numbered copies of files: the copies of each series become versions of one file.

use super::pattern::SeriesPattern;
use super::{Chain, IntakeOptions, IntakeReport, IntakeVersion, VersionKey};
use crate::fsutil::{FileKind, FileTime, SafeDir};
use crate::hash::ObjectId;
use crate::job::Job;
use crate::limits::{MAX_DIR_ENTRIES, MAX_PATH_DEPTH};
use crate::merge::{Edits, edit_tree};
use crate::object::name::{RepoPath, escape};
use crate::object::tree::{Kind, TreeEntry};
use crate::object::{ObjectError, ObjectType, ObjectWrite};
use crate::repo::base::error::RepoError;
use crate::repo::base::made::MadeObjects;
use crate::repo::base::repo::Repo;
use crate::store::{MetaWriter, StoreWriter};
use crate::worktree::ingest::{IngestResult, StoredFile, Task, TaskFile, with_ingest};
use crate::worktree::snapshot::Problem;
use crate::worktree::{join, refused_name, split_path};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Which files are copies.
pub struct SeriesOptions {
    /// The directory that the patterns start from.
    pub root: PathBuf,
    /// The first has the number. Copies that a later pattern matches come after those of earlier ones.
    pub patterns: Vec<SeriesPattern>,
    /// The pattern of the paths that the series get.
    pub target: SeriesPattern,
    /// Whether each version has the name of its copy, in place of the one before.
    pub keep_names: bool,
}

/// A file that is a version.
struct Copy {
    path: Vec<u8>,
    /// The path of its series.
    series: RepoPath,
    /// The number of the pattern, and the number in the name.
    order: (usize, u64),
    time: FileTime,
    bytes: u64,
}

impl Repo {
    /// Makes commits of numbered copies, one for each. No ref names them yet.
    ///
    /// Copies that the line of commits before `options.after` has are not read.
    pub fn take_series(
        &self,
        series: &SeriesOptions,
        options: &IntakeOptions,
        job: &Job,
    ) -> Result<IntakeReport, RepoError> {
        let mut chain = Chain::open(self, options)?;
        let mut report = IntakeReport::default();
        let root = SafeDir::open_root(&series.root)?;
        let copies = in_order(find(&root, series, &mut report, job)?);
        for copy in &copies {
            report.versions.push(IntakeVersion {
                source: copy.path.as_slice().into(),
                path: path_of(copy, series.keep_names)?,
                time: chain.date(copy.time),
                files: 1,
                bytes: copy.bytes,
                is_new: chain.trees_of(&copy.key(copy.time)).is_empty(),
            });
        }
        let new = report.versions.iter().filter(|version| version.is_new);
        report.commits = new.count() as u64;
        if report.commits > 0 && !options.dry_run {
            let writer = super::writer(self)?;
            let stored = read_in(&root, &copies, &report, &writer, job)?;
            let mut both = ReadableWriter {
                meta: MetaWriter::new(&writer),
                made: &self.made,
            };
            add_commits(
                &mut chain,
                &copies,
                stored,
                series.keep_names,
                &mut both,
                &mut report,
            )?;
            both.meta.flush()?;
            drop(both);
            super::keep(self, writer)?;
        }
        report.tip = chain.tip;
        Ok(report)
    }
}

impl Copy {
    fn key(&self, time: FileTime) -> VersionKey {
        VersionKey::new(&escape(&self.path).to_string(), time)
    }
}

/// Returns the path that a copy has in its commit.
fn path_of(copy: &Copy, keeps_name: bool) -> Result<RepoPath, RepoError> {
    if keeps_name {
        let path = RepoPath::parse(&copy.path);
        return path.map_err(|e| RepoError::Text(e.to_string()));
    }
    Ok(copy.series.clone())
}

/// Finds the copies.
fn find(
    root: &SafeDir,
    series: &SeriesOptions,
    report: &mut IntakeReport,
    job: &Job,
) -> Result<Vec<Copy>, RepoError> {
    let mut copies: BTreeMap<Vec<u8>, Copy> = BTreeMap::new();
    for (number, pattern) in series.patterns.iter().enumerate() {
        let (place, depth) = pattern.place();
        let most = depth.unwrap_or(MAX_PATH_DEPTH);
        let mut dirs = vec![(place, 0)];
        while let Some((path, depth)) = dirs.pop() {
            job.check()?;
            let dir = root
                .open_dir(&path)
                .and_then(|dir| Ok((dir.list(MAX_DIR_ENTRIES)?, dir)));
            let (listing, dir) = match dir {
                Ok(opened) => opened,
                // Without the first directory, nothing can be found.
                Err(e) if depth == 0 => return Err(e.into()),
                Err(e) => {
                    report.problems.push(Problem::new(path, e.to_string()));
                    continue;
                }
            };
            for (name, kind) in listing.iter() {
                let whole = join(&path, name);
                if kind == FileKind::Dir {
                    if depth < most && refused_name(name).is_none() {
                        dirs.push((whole, depth + 1));
                    }
                } else if !copies.contains_key(&whole)
                    && let Some(found) = pattern.matches(&whole)
                {
                    let target = series.target.path(&found.parts);
                    match copy_of(&dir, name, target) {
                        Ok((series, time, bytes)) => {
                            let (path, order) = (whole.clone(), (number, found.number));
                            let copy = Copy {
                                path,
                                series,
                                order,
                                time,
                                bytes,
                            };
                            copies.insert(whole, copy);
                        }
                        Err(why) => report.problems.push(Problem::new(whole, why)),
                    }
                }
            }
        }
    }
    let copies: Vec<Copy> = copies.into_values().collect();
    refuse_nested(&copies)?;
    Ok(copies)
}

/// Returns the path of the series, and the time and size of the copy, or why it is none.
fn copy_of(
    dir: &SafeDir,
    name: &[u8],
    target: Vec<u8>,
) -> Result<(RepoPath, FileTime, u64), String> {
    let stat = dir.stat(name).map_err(|e| e.to_string())?;
    if stat.kind != FileKind::File {
        return Err("it is not a regular file".to_owned());
    }
    let series = RepoPath::parse(&target).map_err(|e| e.to_string())?;
    Ok((series, stat.mtime, stat.size))
}

/// Fails if a series has the path of a directory in which another one lies: no commit has both.
fn refuse_nested(copies: &[Copy]) -> Result<(), RepoError> {
    let all: BTreeSet<&RepoPath> = copies.iter().map(|copy| &copy.series).collect();
    for path in &all {
        let mut above = path.parent();
        while let Some(dir) = above.filter(|dir| !dir.is_root()) {
            if all.contains(&dir) {
                let why = format!("'{dir}' would be a file and a directory");
                return Err(RepoError::Text(why));
            }
            above = dir.parent();
        }
    }
    Ok(())
}

/// Sorts the copies of each series, and all series by the dates of what comes next in each.
fn in_order(copies: Vec<Copy>) -> Vec<Copy> {
    let mut series: BTreeMap<RepoPath, Vec<Copy>> = BTreeMap::new();
    for copy in copies {
        series.entry(copy.series.clone()).or_default().push(copy);
    }
    for copies in series.values_mut() {
        copies.sort_by(|a, b| (a.order, a.time, &a.path).cmp(&(b.order, b.time, &b.path)));
        copies.reverse();
    }
    let last_of = |copies: &Vec<Copy>| copies.last().map(|copy| copy.time);
    let mut next: BTreeSet<(Option<FileTime>, RepoPath)> = series
        .iter()
        .map(|(path, copies)| (last_of(copies), path.clone()))
        .collect();
    let mut out = Vec::new();
    while let Some((_, path)) = next.pop_first() {
        let copies = series.get_mut(&path).expect("each path has a series");
        out.extend(copies.pop());
        if !copies.is_empty() {
            next.insert((last_of(copies), path));
        }
    }
    out
}

/// Reads the content of the new copies into the store. Returns it for each copy.
fn read_in(
    root: &SafeDir,
    copies: &[Copy],
    report: &IntakeReport,
    writer: &StoreWriter<'_>,
    job: &Job,
) -> Result<Vec<Option<Result<StoredFile, String>>>, RepoError> {
    let mut stored: Vec<_> = copies.iter().map(|_| None).collect();
    let mut meta = MetaWriter::new(writer);
    let on_done = &mut |done: IngestResult, _: &mut dyn ObjectWrite| {
        stored[done.dir] = Some(done.result.map_err(|e| e.to_string()));
        Ok(())
    };
    with_ingest(root, writer, job, |ingest| {
        for (number, copy) in copies.iter().enumerate() {
            if !report.versions[number].is_new {
                continue;
            }
            let (dir, name) = split_path(&copy.path).expect("a file has a name");
            let task = Task {
                dir: number,
                path: dir.into(),
                files: vec![TaskFile::of_content(name, FileKind::File)],
            };
            ingest.submit(task, &mut meta, on_done)?;
        }
        ingest.finish(&mut meta, on_done)
    })?;
    meta.flush()?;
    Ok(stored)
}

/// Adds a commit for each new copy.
fn add_commits(
    chain: &mut Chain<'_>,
    copies: &[Copy],
    stored: Vec<Option<Result<StoredFile, String>>>,
    keep_names: bool,
    writer: &mut ReadableWriter<'_, '_>,
    report: &mut IntakeReport,
) -> Result<(), RepoError> {
    // The path of the last version of each series.
    let mut last: BTreeMap<&RepoPath, RepoPath> = BTreeMap::new();
    for (number, (copy, stored)) in copies.iter().zip(stored).enumerate() {
        let path = report.versions[number].path.clone();
        match stored {
            None => {}
            Some(Err(why)) => {
                report
                    .problems
                    .push(Problem::new(copy.path.as_slice(), why));
                report.versions[number].is_new = false;
                report.commits -= 1;
                continue;
            }
            Some(Ok(file)) => {
                let mut edits = Edits::new();
                if let Some(before) = last.get(&copy.series).filter(|_| keep_names) {
                    edits.insert(before.clone(), None);
                }
                edits.insert(path.clone(), Some(entry_of(&path, &file)?));
                let root = chain.root(writer)?;
                let tree = edit_tree(chain.repo.objects(), writer, root, &edits)?;
                // It may have changed since it was listed.
                let (time, version) = (file.stat.mtime, &mut report.versions[number]);
                (version.time, version.bytes) = (chain.date(time), file.blob.size);
                chain.add(copy.key(time), &tree, writer)?;
            }
        }
        last.insert(&copy.series, path);
    }
    Ok(())
}

fn entry_of(path: &RepoPath, file: &StoredFile) -> Result<TreeEntry, RepoError> {
    let name = path.file_name().unwrap_or_default();
    let name = crate::object::name::SafeName::new(name);
    let name = name.map_err(|e| RepoError::Text(e.to_string()))?;
    let entry = TreeEntry {
        name,
        kind: if file.stat.exec {
            Kind::Executable
        } else {
            Kind::File
        },
        is_list: file.blob.is_list,
        id: file.blob.id,
        size: file.blob.size,
        files: 0,
        attrs: None,
    };
    Ok(entry.with_privacy(file.stat.privacy() == Some(true)))
}

/// Stores objects, and keeps trees readable: the next commit of a line edits the tree of this one.
struct ReadableWriter<'w, 's> {
    meta: MetaWriter<'s>,
    made: &'w MadeObjects,
}

impl ObjectWrite for ReadableWriter<'_, '_> {
    fn put(&mut self, ty: ObjectType, bytes: &[u8]) -> Result<ObjectId, ObjectError> {
        if ty == ObjectType::Tree {
            let mut made = self.made;
            made.put(ty, bytes)?;
        }
        self.meta.put(ty, bytes)
    }
}
