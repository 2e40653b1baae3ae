//! `expire`: gives up the content of old versions by the keep rules.
//!
//! Commits, trees and lists stay. The slice notes for each file's content when it expired and by which
//! rule. Space is freed as `drop` does it. What the view names stays whatever a rule says: the files
//! of branches, tags, worktrees, stashes, open conflicts and choices. Older content is given up
//! although undo may need it; then it has to be fetched.

use crate::diff::{DiffVisitor, diff_trees};
use crate::hash::ObjectId;
use crate::job::Job;
use crate::limits::{MAX_KEEP_LINE_BYTES, MAX_SLICE_DROPPED};
use crate::object::list::Blob;
use crate::object::name::RepoPath;
use crate::object::root::has_blob;
use crate::object::tree::{Kind, TreeEntry};
use crate::object::{ObjectError, ObjectRead, ObjectType};
use crate::reach::{Detail, Reach};
use crate::refs::{Effect, Operation};
use crate::repo::base::error::{RepoError, UpkeepError};
use crate::repo::base::keys::LOG_EXPIRED;
use crate::repo::base::publish::OperationRequest;
use crate::repo::base::repo::Repo;
use crate::repo::base::slice::{Expiry, RepoSlice};
use crate::repo::base::transaction::Transaction;
use crate::repo::base::worktree;
use crate::repo::look::entries::blob_of;
use crate::repo::look::stored::{has_chunks, is_complete, stored_bytes, stored_type};
use crate::repo::upkeep::drop::{FreedSpace, FreeingLock, TRIES};
use crate::repo::upkeep::roots;
use crate::repo::upkeep::rules::{KeepRule, KeepRules};
use crate::repo::upkeep::versions::{ChangedPath, Step, kept};
use crate::subset::{Extent, Subset};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

/// What to give up.
#[derive(Clone, Debug)]
pub struct ExpireOptions {
    /// The paths. Content that other paths have as well stays.
    pub paths: Subset,
    /// The most bytes of versions to give up, the oldest first.
    pub max_bytes: Option<u64>,
    /// The present time, in seconds since 1970.
    pub now: i64,
}

/// The versions that the keep rules give up.
#[derive(Debug, Default)]
pub struct Expirable {
    /// By path, in order.
    pub paths: Vec<ExpiredPath>,
    /// Their content. Each content once.
    pub files: Vec<ExpiredFile>,
    /// What their content takes in packs. Each chunk counts once.
    pub stored_bytes: u64,
    /// Content that expired earlier and is still stored, or stored again, completely or in part.
    pub earlier: Vec<(ObjectType, ObjectId)>,
    /// Content that had expired, is stored, and is to stay now.
    back: BTreeSet<ObjectId>,
    /// The rules that decide about no path in history.
    pub idle: Vec<usize>,
    /// Bytes of versions that a limit leaves for a later time.
    pub left_bytes: u64,
    /// The number of the last operation that was considered.
    seq: u64,
}

/// A path with versions that are given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiredPath {
    /// The path.
    pub path: RepoPath,
    /// The number of versions.
    pub versions: u64,
    /// Their bytes. Content of several paths counts for the first one.
    pub bytes: u64,
    /// The number of the rule.
    pub rule: usize,
}

/// A content that is given up.
#[derive(Clone, Debug)]
pub struct ExpiredFile {
    /// A path that had it.
    pub path: RepoPath,
    /// The content.
    pub blob: Blob,
    /// The rule, and the time.
    pub why: Arc<Expiry>,
}

/// What an expiry did.
#[derive(Debug)]
pub struct ExpireReport {
    /// How much space was freed.
    pub freed: FreedSpace,
    /// The operation that records it; `None` if only space of what expired earlier was freed.
    pub operation: Option<Operation>,
}

impl Repo {
    /// Returns the versions of files that the keep rules give up. Changes nothing.
    pub fn expirable(
        &self,
        rules: &KeepRules,
        options: &ExpireOptions,
        job: &Job,
    ) -> Result<Expirable, RepoError> {
        // What is published after this is not considered.
        let seq = self.refs.seen()?.seq;
        self.store.refresh()?;
        let slice = self.slice()?;
        let mut history = History::new(self, rules, &slice, job);
        history.stay_in_view()?;
        let lines = history.walk(self.complete_commits()?, &branches(self)?)?;
        let kept = kept(&history.rules, &history.steps, &lines, options.now);
        let given_up = history.given_up(&kept, options);
        let mut out = Expirable {
            idle: history.idle(),
            seq,
            ..Expirable::default()
        };
        sort_out(self, &history, given_up, options, &slice, &mut out)?;
        out.stored_bytes = stored_bytes(self, out.files.iter().map(|file| file.blob))?;
        Ok(out)
    }
}

/// A bucket or another place whose files this repository chooses, by its commits.
#[derive(Clone, Debug, Default)]
pub struct ElsewhereView {
    /// The commits of its branches.
    pub branches: BTreeSet<ObjectId>,
    /// The commits of its tags.
    pub tags: BTreeSet<ObjectId>,
    /// The files that it may lack: they have expired or were purged.
    pub absent: BTreeSet<ObjectId>,
}

impl Repo {
    /// Returns the versions that the rules give up elsewhere, with the reason of each content. What branches and tags
    /// have there stays. All history and all directories have to be here; versions in commits that are absent
    /// are not considered.
    pub fn expirable_elsewhere(
        &self,
        rules: &KeepRules,
        there: &ElsewhereView,
        options: &ExpireOptions,
        job: &Job,
    ) -> Result<Expirable, RepoError> {
        self.store.refresh()?;
        let slice = self.slice()?;
        let mut history = History::new(self, rules, &slice, job);
        for tip in there.branches.union(&there.tags) {
            let tree = self.read_commit(tip)?.tree;
            history.stay(ObjectType::Tree, tree)?;
        }
        let tips = there.branches.union(&there.tags).copied().collect();
        let lines = history.walk(tips, &there.branches)?;
        let kept = kept(&history.rules, &history.steps, &lines, options.now);
        let mut given_up = history.given_up(&kept, options);
        let is_absent = |file: &GivenUp| {
            let id = &history.contents[file.content as usize].blob.id;
            !file.is_asked_for || there.absent.contains(id)
        };
        given_up.retain(|file| !is_absent(file));
        let mut out = Expirable {
            idle: history.idle(),
            ..Expirable::default()
        };
        let mut choice = Choice {
            history: &history,
            now: options.now,
            room: options.max_bytes.unwrap_or(u64::MAX),
            places: MAX_SLICE_DROPPED.saturating_sub(there.absent.len()),
            by_path: BTreeMap::new(),
            why: HashMap::new(),
        };
        for file in given_up {
            choice.take(file.content, &file.paths, &mut out);
        }
        choice.finish(&mut out);
        Ok(out)
    }
}

/// Follows the pattern where other rules gave a content up, too: for other paths with the same content.
const AND_OTHERS: &str = " and others";

/// A content that all of its paths give up.
struct GivenUp {
    /// Its number.
    content: u32,
    /// The paths, by number.
    paths: Vec<u32>,
    /// Whether all of them were asked for.
    is_asked_for: bool,
}

/// Sorts what is given up into what expires now and what had expired before.
fn sort_out(
    repo: &Repo,
    history: &History<'_>,
    given_up: Vec<GivenUp>,
    options: &ExpireOptions,
    slice: &RepoSlice,
    out: &mut Expirable,
) -> Result<(), RepoError> {
    let mut choice = Choice {
        history,
        now: options.now,
        room: options.max_bytes.unwrap_or(u64::MAX),
        places: MAX_SLICE_DROPPED - slice.expired.len(),
        by_path: BTreeMap::new(),
        why: HashMap::new(),
    };
    let mut known = HashSet::new();
    for file in given_up {
        let blob = history.contents[file.content as usize].blob;
        if slice.expired.contains_key(&blob.id) {
            known.insert(blob.id);
            continue;
        }
        if !file.is_asked_for || slice.is_given_up(&blob.id) || !has_blob(repo, blob)? {
            continue;
        }
        choice.take(file.content, &file.paths, out);
    }
    choice.finish(out);
    for id in slice.expired.keys() {
        let Some(ty) = stored_type(repo, id)? else {
            continue;
        };
        // If only a part of it is here, other files need that part.
        if !known.contains(id) && is_complete(repo, ty, *id)? {
            out.back.insert(*id);
        } else if known.contains(id) && has_chunks(repo, ty, *id)? {
            out.earlier.push((ty, *id));
        }
    }
    Ok(())
}

/// The content that is given up, up to a limit.
struct Choice<'h> {
    history: &'h History<'h>,
    now: i64,
    /// How many bytes may still be given up, and how many contents.
    room: u64,
    places: usize,
    by_path: BTreeMap<u32, ExpiredPath>,
    why: HashMap<(usize, bool), Arc<Expiry>>,
}

impl Choice<'_> {
    /// Gives up a content that these paths have, or leaves it for a later time.
    fn take(&mut self, content: u32, paths: &[u32], out: &mut Expirable) {
        let history = self.history;
        let blob = history.contents[content as usize].blob;
        if blob.size > self.room || self.places == 0 {
            out.left_bytes += blob.size;
            return;
        }
        (self.room, self.places) = (self.room - blob.size, self.places - 1);
        for (nth, path) in paths.iter().enumerate() {
            let known = &history.paths[*path as usize];
            let at = self.by_path.entry(*path).or_insert_with(|| ExpiredPath {
                path: known.path.clone(),
                versions: 0,
                bytes: 0,
                rule: known.line,
            });
            at.versions += 1;
            at.bytes += if nth == 0 { blob.size } else { 0 };
        }
        let first = &history.paths[paths[0] as usize];
        // One path's rule alone would be wrong for the others.
        let mut lines = paths.iter().map(|path| history.paths[*path as usize].line);
        let is_of_several = lines.any(|line| line != first.line);
        let expiry = self.why.entry((first.line, is_of_several));
        let expiry = expiry.or_insert_with(|| {
            let line = &history.keep.lines[first.line];
            let others = if is_of_several { AND_OTHERS } else { "" };
            Arc::new(Expiry {
                at: self.now,
                rule: line.rule.to_string(),
                pattern: format!("{}{others}", clipped(&line.pattern)),
            })
        });
        out.files.push(ExpiredFile {
            path: first.path.clone(),
            blob,
            why: expiry.clone(),
        });
    }

    /// Sorts what was given up by path.
    fn finish(self, out: &mut Expirable) {
        out.paths = self.by_path.into_values().collect();
        out.paths.sort_by(|a, b| a.path.cmp(&b.path));
        out.files.sort_by(|a, b| a.path.cmp(&b.path));
    }
}

/// Returns a pattern that a line of the slice can hold.
fn clipped(pattern: &str) -> String {
    let end = pattern.floor_char_boundary(MAX_KEEP_LINE_BYTES / 2);
    pattern[..end].to_owned()
}

impl FreeingLock<'_> {
    /// Gives up what `found` has, notes it in the operation log, and frees the space. Of what expired
    /// earlier, only `earlier` is freed. `still` asks once more whether the peers that keep copies are
    /// there.
    ///
    /// What other commands name meanwhile stays.
    pub fn expire(
        &self,
        found: &Expirable,
        earlier: &[(ObjectType, ObjectId)],
        (rules, options): (&KeepRules, &ExpireOptions),
        request: OperationRequest,
        still: &mut dyn FnMut() -> bool,
        job: &Job,
    ) -> Result<ExpireReport, RepoError> {
        let mut roots: BTreeMap<ObjectId, ObjectType> =
            earlier.iter().map(|(ty, id)| (*id, *ty)).collect();
        roots.extend(
            found
                .files
                .iter()
                .map(|file| (file.blob.id, file.blob.ty())),
        );
        if !still() {
            return Err(UpkeepError::Unconfirmed.into());
        }
        // A crash behind this leaves an operation that has given up nothing yet. Run again, the command
        // does the same.
        let operation = if found.files.is_empty() {
            None
        } else {
            Some(self.record(found, request)?)
        };
        self.note(found)?;
        // The last operation that the choice of files considers.
        let own = operation.iter().map(|done| done.seq);
        let mut seq = found.seq + own.filter(|seq| *seq == found.seq + 1).count() as u64;
        let mut freed = FreedSpace::default();
        for _ in 0..TRIES {
            let mut seen = self.repo.refs().seen()?;
            if seen.seq != seq {
                let again = self.repo.expirable(rules, options, job)?;
                let given_up: HashSet<ObjectId> = again.earlier.iter().map(|(_, id)| *id).collect();
                roots.retain(|id, _| given_up.contains(id));
                self.note(&Expirable {
                    back: again.back,
                    ..Expirable::default()
                })?;
                seq = again.seq;
                seen = self.repo.refs().seen()?;
            }
            if seen.seq != seq {
                continue;
            }
            // The plan knows the objects of all operations up to the one that was seen.
            self.repo.store().refresh()?;
            // A pack with a damaged index would seem to hold nothing that is needed.
            self.repo.store().check_tables()?;
            let mut plan = self.plan(&roots, job)?;
            if !still() {
                return Err(UpkeepError::Unconfirmed.into());
            }
            freed.why_not_freed = plan.why_not.take();
            if self.carry_out(&mut plan, seen, &mut freed, job)? {
                freed.waiting_bytes = plan.chunks.values().sum();
                freed.shared_bytes = plan.shared_bytes;
                return Ok(ExpireReport { freed, operation });
            }
        }
        // The files are noted as expired. A later run frees the space.
        freed.waiting_bytes = self.bytes_of(&roots)?;
        freed.why_not_freed = Some("other commands keep changing the repository".into());
        Ok(ExpireReport { freed, operation })
    }

    /// Notes durably what has expired, and what stays after all.
    fn note(&self, found: &Expirable) -> Result<(), RepoError> {
        if found.files.is_empty() && found.back.is_empty() {
            return Ok(());
        }
        self.repo.change_slice(|slice| {
            slice.take_back(&found.back);
            let expired = found.files.iter();
            let expired = expired.map(|file| (file.blob.id, file.why.clone()));
            slice.expired.extend(expired);
        })?;
        Ok(())
    }

    fn record(&self, found: &Expirable, request: OperationRequest) -> Result<Operation, RepoError> {
        let versions: u64 = found.paths.iter().map(|path| path.versions).sum();
        let bytes: u64 = found.files.iter().map(|file| file.blob.size).sum();
        let mut tx = Transaction::begin(self.repo, &request);
        tx.record(LOG_EXPIRED, format!("{versions} {bytes}"))?;
        tx.publish(Effect::Kept)
    }
}

/// A content of files.
struct Content {
    blob: Blob,
    /// The oldest commit that brought it: its time, and how far it is from the newest commits.
    since: (i64, Reverse<usize>),
}

/// A path that a rule gives versions of up.
struct Path {
    path: RepoPath,
    /// The number of the rule.
    line: usize,
}

/// What expiry has to know of all history.
struct History<'a> {
    repo: &'a Repo,
    keep: &'a KeepRules,
    slice: &'a RepoSlice,
    job: &'a Job,
    /// The paths whose rule may give something up, and their numbers.
    paths: Vec<Path>,
    path_numbers: HashMap<RepoPath, Option<u32>>,
    rules: Vec<KeepRule>,
    contents: Vec<Content>,
    content_numbers: HashMap<ObjectId, u32>,
    steps: Vec<Step>,
    /// The contents that each path had.
    versions: HashSet<(u32, u32)>,
    /// Content that stays whatever rules say, by the first bytes of its id. If two ids begin with the
    /// same bytes, both stay.
    stays: HashSet<u64>,
    /// Trees and conflicts below which everything stays.
    seen: HashSet<ObjectId>,
    /// The rules that decide about a path.
    used: HashSet<usize>,
}

fn first_bytes(id: &ObjectId) -> u64 {
    let (first, _) = id.as_bytes().split_at(8);
    u64::from_le_bytes(first.try_into().unwrap_or_default())
}

/// Returns the commits of local and remote branches and of worktrees.
fn branches(repo: &Repo) -> Result<BTreeSet<ObjectId>, RepoError> {
    let mut out = BTreeSet::new();
    for (key, _) in repo.refs.with_prefix("")? {
        let of_branch = key.starts_with("branch/") || key.starts_with("remote/");
        if of_branch || key.starts_with("worktree/") && key.ends_with("/base") {
            out.extend(worktree::ref_id(repo, &key)?);
        }
    }
    Ok(out)
}

impl<'a> History<'a> {
    fn new(repo: &'a Repo, keep: &'a KeepRules, slice: &'a RepoSlice, job: &'a Job) -> History<'a> {
        History {
            repo,
            keep,
            slice,
            job,
            paths: Vec::new(),
            path_numbers: HashMap::new(),
            rules: Vec::new(),
            contents: Vec::new(),
            content_numbers: HashMap::new(),
            steps: Vec::new(),
            versions: HashSet::new(),
            stays: HashSet::new(),
            seen: HashSet::new(),
            used: HashSet::new(),
        }
    }

    /// Notes that everything stays that the view and interrupted commands name, without history.
    fn stay_in_view(&mut self) -> Result<(), RepoError> {
        let mut named = roots::of_courtesy(self.repo)?;
        roots::of_view(self.repo, &mut |root| {
            named.insert(root);
        })?;
        for root in named {
            match root.object(&self.repo.store)? {
                Some((ObjectType::Commit, id)) => {
                    let tree = self.repo.read_commit(&id)?.tree;
                    self.stay(ObjectType::Tree, tree)?;
                }
                Some((ty, id)) => self.stay(ty, id)?,
                None => {}
            }
        }
        Ok(())
    }

    /// Notes that all content below an object stays. Skips what is absent.
    fn stay(&mut self, ty: ObjectType, id: ObjectId) -> Result<(), RepoError> {
        let mut stack = vec![(ty, id)];
        while let Some((ty, id)) = stack.pop() {
            self.job.check()?;
            if !matches!(ty, ObjectType::Tree | ObjectType::Conflict) {
                self.stays.insert(first_bytes(&id));
            } else if self.seen.insert(id)
                && let Some(bytes) = self.repo.read(ty, &id)?
            {
                let links = ty.links(&bytes);
                stack.extend(links.map_err(|e| ObjectError::undecodable(ty, &id, e))?);
            }
        }
        Ok(())
    }

    /// Notes the changes of all commits that `commits` lead to. Returns the places of those in `lines`.
    fn walk(
        &mut self,
        commits: Vec<ObjectId>,
        lines: &BTreeSet<ObjectId>,
    ) -> Result<Vec<usize>, RepoError> {
        let mut places = HashMap::new();
        let mut trees = Vec::new();
        let mut reach = Reach::new(commits, [], Detail::Commits);
        while let Some(found) = reach.next(self.repo.objects())? {
            self.job.check()?;
            if found.here {
                let commit = self.repo.read_commit(&found.id)?;
                places.insert(found.id, trees.len());
                let parent = commit.parents.first().copied();
                trees.push((commit.tree, parent, commit.committer.seconds));
            }
        }
        for (tree, parent, time) in &trees {
            let parent = parent.and_then(|id| places.get(&id).copied());
            let old = parent.map(|at| trees[at].0);
            let step = self.step(*time, parent, old, *tree)?;
            self.steps.push(step);
        }
        let tips = lines.iter().filter_map(|id| places.get(id).copied());
        Ok(tips.collect::<BTreeSet<usize>>().into_iter().collect())
    }

    /// Notes how a commit differs from its first parent.
    fn step(
        &mut self,
        time: i64,
        parent: Option<usize>,
        old: Option<ObjectId>,
        new: ObjectId,
    ) -> Result<Step, RepoError> {
        self.job.check()?;
        let step = Step {
            time,
            parent,
            changes: Vec::new(),
        };
        let repo = self.repo;
        let mut visitor = Visitor {
            history: self,
            step,
        };
        let _ = diff_trees(repo.objects(), old, Some(new), &mut visitor)?;
        Ok(visitor.step)
    }

    /// Notes that a path has an entry since a commit. Returns the numbers of the path and the content
    /// if its rule may give it up.
    fn note(
        &mut self,
        path: &RepoPath,
        entry: &TreeEntry,
        since: (i64, Reverse<usize>),
    ) -> Result<Option<(u32, u32)>, RepoError> {
        match entry.kind {
            Kind::Directory => return Ok(None),
            Kind::Conflict => {
                self.stay(ObjectType::Conflict, entry.id)?;
                return Ok(None);
            }
            Kind::File | Kind::Executable if entry.size > 0 => {}
            // Symlinks are needed to write the files of a commit.
            _ => {
                self.stays.insert(first_bytes(&entry.id));
                return Ok(None);
            }
        }
        let Some(path) = self.path_number(path) else {
            self.stays.insert(first_bytes(&entry.id));
            return Ok(None);
        };
        let count = self.contents.len() as u32;
        let content = *self.content_numbers.entry(entry.id).or_insert(count);
        if content == count {
            let blob = blob_of(entry);
            self.contents.push(Content { blob, since });
        }
        let known = &mut self.contents[content as usize];
        known.since = known.since.min(since);
        self.versions.insert((path, content));
        Ok(Some((path, content)))
    }

    /// Returns the number of a path, unless all of its versions stay.
    fn path_number(&mut self, path: &RepoPath) -> Option<u32> {
        if let Some(number) = self.path_numbers.get(path) {
            return *number;
        }
        let line = self.keep.decides(path.as_bytes());
        self.used.extend(line);
        let rule = line.map(|line| (line, self.keep.lines[line].rule));
        let number = match rule {
            Some((line, rule)) if rule != KeepRule::All => {
                let path = path.clone();
                self.paths.push(Path { path, line });
                self.rules.push(rule);
                Some(self.paths.len() as u32 - 1)
            }
            _ => None,
        };
        self.path_numbers.insert(path.clone(), number);
        number
    }

    /// Returns the rules that decide about no path.
    fn idle(&self) -> Vec<usize> {
        let all = 0..self.keep.lines.len();
        all.filter(|line| !self.used.contains(line)).collect()
    }

    /// Returns the contents that all of their paths give up, the oldest first.
    fn given_up(&self, kept: &HashSet<(u32, u32)>, options: &ExpireOptions) -> Vec<GivenUp> {
        let mut by_content: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let (mut stays, mut others) = (HashSet::new(), HashSet::new());
        for (path, content) in &self.versions {
            let name = self.paths[*path as usize].path.as_bytes();
            if kept.contains(&(*path, *content)) {
                stays.insert(*content);
            }
            if !options.paths.includes(name, false) {
                others.insert(*content);
            }
            by_content.entry(*content).or_default().push(*path);
        }
        let is_given_up = |content: u32| {
            let id = &self.contents[content as usize].blob.id;
            !stays.contains(&content) && !self.stays.contains(&first_bytes(id))
        };
        let mut out: Vec<GivenUp> = by_content
            .into_iter()
            .filter(|(content, _)| is_given_up(*content))
            .map(|(content, mut paths)| {
                paths.sort_by(|a, b| {
                    self.paths[*a as usize]
                        .path
                        .cmp(&self.paths[*b as usize].path)
                });
                GivenUp {
                    content,
                    paths,
                    is_asked_for: !others.contains(&content),
                }
            })
            .collect();
        out.sort_by_key(|file| {
            let content = &self.contents[file.content as usize];
            (content.since, content.blob.id)
        });
        out
    }
}

/// Notes the changes of one commit.
struct Visitor<'h, 'a> {
    history: &'h mut History<'a>,
    step: Step,
}

impl DiffVisitor for Visitor<'_, '_> {
    type Error = RepoError;

    fn enter(&mut self, dir: &RepoPath, _: [Option<ObjectId>; 2]) -> bool {
        // What lies outside of the slice is not stored.
        self.history.slice.subset.extent(dir.as_bytes()) != Extent::None
    }

    fn change(
        &mut self,
        path: &RepoPath,
        old: Option<&TreeEntry>,
        new: Option<&TreeEntry>,
    ) -> Result<ControlFlow<()>, RepoError> {
        self.history.job.check()?;
        let since = (self.step.time, Reverse(self.history.steps.len()));
        // The commit that brought the old content notes itself.
        let never = (i64::MAX, Reverse(0));
        let old = old.map(|old| self.history.note(path, old, never));
        let new = new.map(|new| self.history.note(path, new, since));
        let old = old.transpose()?.flatten();
        let new = new.transpose()?.flatten();
        if let Some((path, _)) = old.or(new) {
            let content = |found: Option<(u32, u32)>| found.map(|(_, content)| content);
            let (old, new) = (content(old), content(new));
            self.step.changes.push(ChangedPath { path, old, new });
        }
        Ok(ControlFlow::Continue(()))
    }
}
