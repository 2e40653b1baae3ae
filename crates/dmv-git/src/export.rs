//! Giving history to a Git repository.
//!
//! An imported commit goes back byte for byte, so that Git gives it the id that it had. What was made
//! here becomes new commits, which say from which commit of DMV they come. Git checks and stores all
//! objects itself, and moves a branch only forward.

pub mod lfs;
mod trees;

use crate::choice::BranchChoice;
use crate::commit::{self, GitOrigin};
use crate::error::GitError;
use crate::id::{Algorithm, GitId, GitType};
use crate::map::{Became, IdMap, KnownObject};
use crate::pack::PackWriter;
use crate::source::{GitSource, feed};
use crate::tag;
use dmv_core::ObjectId;
use dmv_core::history::{is_ancestor, load_commit};
use dmv_core::job::{Bound, Job};
use dmv_core::limits::MAX_TAG_DEPTH;
use dmv_core::object::commit::Commit;
use dmv_core::object::{ObjectError, ObjectType};
use dmv_core::reach::{Detail, Reach};
use dmv_core::repo::Repo;
use lfs::{LfsChoice, LfsStore};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io::Write;
use std::path::PathBuf;
use trees::{LfsExport, Sink, TreeCounts, TreeExport};

/// What to export.
#[derive(Clone, Debug, Default)]
pub struct ExportOptions {
    /// Only branches that match one of these patterns, and no tags; all, if there is none.
    pub branches: Vec<String>,
    /// Whether a branch of the target moves even if it loses commits.
    pub force: bool,
    /// How files become pointers of Git LFS: those that came as pointers, and in commits that DMV made those that
    /// attribute files or this choice give to Git LFS. Without it, none does.
    pub lfs: Option<LfsChoice>,
    /// The directory for the content of pointers, if it is not `lfs` of the target.
    pub lfs_dir: Option<PathBuf>,
}

/// A branch or tag of the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedRef {
    /// The full name.
    pub name: String,
    /// The object that it named before.
    pub old: Option<GitId>,
    /// The object that it names now.
    pub new: GitId,
    /// Why it stayed, if it did.
    pub refused: Option<String>,
}

/// What an export did.
#[derive(Clone, Debug, Default)]
pub struct ExportReport {
    /// Commits that the target did not have.
    pub commits: u64,
    /// The branches and tags that changed or should have.
    pub refs: Vec<ExportedRef>,
    /// Imported commits that got another id, because something was left out when they came, or content went in place
    /// of pointers of Git LFS.
    pub changed: Vec<GitId>,
    /// Whether the first of these comes after a commit that DMV made. The id of such a commit follows from the options
    /// of the export.
    pub changed_after_own: bool,
    /// What trees could not give to Git as it is.
    pub trees: TreeCounts,
    /// Commits with open conflicts, which were written as files with markers.
    pub conflicts: u64,
}

/// Exports the branches and tags of a repository.
///
/// # Errors
///
/// Fails with [`ObjectError::Missing`] if this repository lacks content, and with
/// [`GitError::Algorithm`] if an imported commit has ids of another algorithm than the target.
pub fn export(
    repo: &Repo,
    target: &GitSource,
    options: &ExportOptions,
    job: &Job,
) -> Result<ExportReport, GitError> {
    write(repo, target, options, job).map_err(|e| e.unless_cancelled(job))
}

fn write(
    repo: &Repo,
    target: &GitSource,
    options: &ExportOptions,
    job: &Job,
) -> Result<ExportReport, GitError> {
    let map = IdMap::open(repo.dmv_dir())?;
    map.index_by_dmv()?;
    let lfs_dir = match &options.lfs_dir {
        Some(dir) => dir.clone(),
        None => target.git_dir()?.join("lfs"),
    };
    let lfs = options.lfs.clone().map(|choice| LfsExport {
        choice,
        store: LfsStore::new(&lfs_dir),
    });
    let mut export = Export {
        repo,
        target,
        map,
        job,
        commits: HashMap::new(),
        trees: TreeExport::new(repo.objects(), lfs),
        pack: PackWriter::new(target)?,
        report: ExportReport::default(),
    };
    let wanted = wanted(repo, options)?;
    let present = export.present()?;
    export.history(&wanted, &present)?;
    export.name(wanted, options)?;
    export.report.trees = export.trees.counts();
    Ok(export.report)
}

/// What a branch or tag names.
struct WantedRef {
    /// The commit.
    commit: ObjectId,
    /// The annotated tags that lead to it: each tags the next one, and the last one the commit.
    tags: Vec<Commit>,
}

/// Returns the wanted branches and tags, by their keys.
fn wanted(repo: &Repo, options: &ExportOptions) -> Result<BTreeMap<String, WantedRef>, GitError> {
    let choice = BranchChoice::parse(&options.branches)?;
    let mut wanted = BTreeMap::new();
    let refs = repo.offered()?.refs;
    choice.check(
        refs.iter()
            .filter_map(|(key, _)| key.strip_prefix("branch/")),
    )?;
    for (key, id) in refs {
        if choice.wants(&key) {
            let (mut commit, mut tags) = (id, Vec::new());
            while key.starts_with("tag/") && tags.len() < MAX_TAG_DEPTH {
                let tag = load_commit(repo.objects(), &commit)?;
                let Some(tagged) = tag.tagged() else {
                    break;
                };
                tags.push(tag);
                commit = tagged;
            }
            wanted.insert(key, WantedRef { commit, tags });
        }
    }
    Ok(wanted)
}

struct Export<'e> {
    repo: &'e Repo,
    target: &'e GitSource,
    map: IdMap,
    job: &'e Job,
    /// The commits that were exported, or that the target had.
    commits: HashMap<ObjectId, GitId>,
    trees: TreeExport<'e>,
    pack: PackWriter<'e>,
    report: ExportReport,
}

impl Export<'_> {
    /// Returns the commits here whose history the target has.
    fn present(&mut self) -> Result<Vec<ObjectId>, GitError> {
        let mut present = Vec::new();
        for found in self.target.commits_of_refs()? {
            let Some(KnownObject {
                id,
                became: Became::Commit { .. },
            }) = self.map.get(&found)?
            else {
                continue;
            };
            if self.repo.objects().holds(ObjectType::Commit, &id)? {
                self.commits.insert(id, found);
                present.push(id);
            }
        }
        Ok(present)
    }

    /// Exports the commits that lead to `wanted` and not to `present`, parents first.
    fn history(
        &mut self,
        wanted: &BTreeMap<String, WantedRef>,
        present: &[ObjectId],
    ) -> Result<(), GitError> {
        let objects = self.repo.objects();
        let tips: HashSet<ObjectId> = wanted.values().map(|wanted| wanted.commit).collect();
        let mut reach = Reach::new(tips, present.iter().copied(), Detail::Commits);
        let mut order = Vec::new();
        while let Some(reached) = reach.next(objects)? {
            if !reached.here {
                let (id, ty) = (reached.id, reached.ty);
                return Err(ObjectError::Missing { id, ty }.into());
            }
            order.push(reached.id);
        }
        self.job
            .progress
            .expect(order.len() as u64, 0, Bound::Exact);
        if !order.is_empty() {
            let trees = present.iter().map(|id| Ok(load_commit(objects, id)?.tree));
            let trees = trees.collect::<Result<_, ObjectError>>()?;
            self.trees.has(trees, &self.map, self.target)?;
        }
        for id in order.into_iter().rev() {
            self.commit(id)?;
            self.job.check()?;
            if self.pack.is_full() {
                self.pass_on()?;
            }
        }
        self.pass_on()
    }

    /// Lets Git take the objects that are written, and notes which commits they are.
    fn pass_on(&mut self) -> Result<(), GitError> {
        self.pack.pass_on()?;
        Ok(self.map.save(&[])?)
    }

    fn commit(&mut self, id: ObjectId) -> Result<(), GitError> {
        let commit = load_commit(self.repo.objects(), &id)?;
        if let Some(tagged) = commit.tagged() {
            // Somebody has gone on from a tag itself.
            self.commits.insert(id, self.git_of(&tagged)?);
            return Ok(());
        }
        if !commit::fits(&commit, self.target.algorithm()) {
            return Err(GitError::Algorithm {
                target: self.target.algorithm(),
            });
        }
        let readable = self.repo.readable_tree(&commit, |_| true)?;
        self.report.conflicts += u64::from(readable != commit.tree);
        let origin = GitOrigin::of(&commit);
        let mut sink = Sink {
            map: &mut self.map,
            pack: &mut self.pack,
        };
        let tree = self.trees.root(readable, origin.is_none(), &mut sink)?;
        let mut parents = Vec::with_capacity(commit.parents.len());
        for parent in &commit.parents {
            parents.push(self.git_of(parent)?);
        }
        let bytes = commit::to_git(&commit, id, tree, &parents);
        let git = self.pack.add(GitType::Commit, &bytes)?;
        if let Some(origin) = origin.filter(|origin| origin.id != git) {
            if self.report.changed.is_empty() {
                self.report.changed_after_own = self.is_after_own(&commit)?;
            }
            self.report.changed.push(origin.id);
        }
        if self.map.get(&git)?.is_none() {
            let generation = commit.generation;
            let became = Became::Commit { generation };
            self.map.add(git, KnownObject { id, became });
        }
        self.commits.insert(id, git);
        self.report.commits += 1;
        Job::add(&self.job.progress.files, 1);
        Ok(())
    }

    fn is_after_own(&self, commit: &Commit) -> Result<bool, GitError> {
        for parent in &commit.parents {
            if GitOrigin::of(&load_commit(self.repo.objects(), parent)?).is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the id in Git of a commit that the target has.
    fn git_of(&self, id: &ObjectId) -> Result<GitId, GitError> {
        if let Some(git) = self.commits.get(id) {
            return Ok(*git);
        }
        // It is behind a commit that the target has. Another target may have it under another id.
        let known = self.map.all_git_of(id)?;
        let there = self.target.commits_among(&known)?;
        there.first().copied().ok_or(GitError::Stale)
    }

    /// Moves the branches and tags of the target.
    fn name(
        &mut self,
        wanted: BTreeMap<String, WantedRef>,
        options: &ExportOptions,
    ) -> Result<(), GitError> {
        let there: HashMap<String, GitId> = self
            .target
            .refs()?
            .into_iter()
            .map(|found| (found.name, found.id))
            .collect();
        let checked_out = self.target.checked_out_branches()?;
        let mut taken: BTreeSet<String> = there.keys().cloned().collect();
        let mut moves = Vec::new();
        for (key, WantedRef { commit: id, tags }) in wanted {
            let (mut git, mut ty) = (self.git_of(&id)?, GitType::Commit);
            let name = match key.split_once('/') {
                Some(("branch", name)) => format!("refs/heads/{name}"),
                Some((_, name)) => format!("refs/tags/{name}"),
                None => continue,
            };
            for tag in tags.iter().rev() {
                let Some(bytes) = tag::to_git(tag, git, ty) else {
                    break;
                };
                (git, ty) = (self.pack.add(GitType::Tag, &bytes)?, GitType::Tag);
            }
            let old = there.get(&name).copied();
            if old == Some(git) {
                continue;
            }
            let refused = match in_the_way(&taken, &name) {
                Some(other) => Some(format!("{other} is in the way there")),
                None => self.refusal(&name, old, &id, &checked_out, options.force)?,
            };
            if refused.is_none() {
                taken.insert(name.clone());
            }
            moves.push(ExportedRef {
                name,
                old,
                new: git,
                refused,
            });
        }
        self.pass_on()?;
        let accepted = || moves.iter().filter(|change| change.refused.is_none());
        update_refs(self.target, accepted())?;
        // A worktree stays on its branch: Git would take its files for those of another one.
        if there.is_empty() && checked_out.is_empty() {
            let own = self.repo.offered()?.head;
            let own = own.map(|head| format!("refs/heads/{head}"));
            let names = || accepted().map(|moved| &moved.name);
            let mut branches = names().filter(|name| name.starts_with("refs/heads/"));
            let head = own.filter(|own| names().any(|name| name == own));
            if let Some(head) = head.as_ref().or_else(|| branches.next()) {
                self.target.answer(&["symbolic-ref", "HEAD", head])?;
            }
        }
        self.report.refs = moves;
        Ok(())
    }

    /// Returns why a ref of the target must stay.
    fn refusal(
        &mut self,
        name: &str,
        old: Option<GitId>,
        new: &ObjectId,
        checked_out: &HashSet<String>,
        force: bool,
    ) -> Result<Option<String>, GitError> {
        if checked_out.contains(name) {
            let way = match old {
                Some(_) => "git checkout --detach",
                None => "git symbolic-ref HEAD refs/heads/none",
            };
            let why = format!("it is checked out there; in that directory: {way}");
            return Ok(Some(why));
        }
        let Some(old) = old else {
            return Ok(None);
        };
        if force {
            return Ok(None);
        }
        if name.starts_with("refs/tags/") {
            return Ok(Some("the tag is another one there".to_owned()));
        }
        let Some(known) = self.map.get(&old)? else {
            let why = "it has commits there that are not here; first: dmv import git";
            return Ok(Some(why.to_owned()));
        };
        let is_forward = is_ancestor(self.repo.objects(), &known.id, new)?;
        let why = "it has commits there that the branch here does not have";
        Ok((!is_forward).then(|| why.to_owned()))
    }
}

/// Returns the ref that cannot be there beside a ref `name`: Git stores refs as files, so one cannot also be the
/// directory of others.
fn in_the_way<'t>(taken: &'t BTreeSet<String>, name: &str) -> Option<&'t String> {
    let above = name.match_indices('/').map(|(at, _)| &name[..at]);
    let below = format!("{name}/");
    let first_below = taken.range(below.clone()..).next();
    let first_below = first_below.filter(|other| other.starts_with(&below));
    above
        .filter_map(|above| taken.get(above))
        .next()
        .or(first_below)
}

/// Moves refs, all or none.
fn update_refs<'m>(
    target: &GitSource,
    moves: impl Iterator<Item = &'m ExportedRef>,
) -> Result<(), GitError> {
    let mut text = Vec::new();
    let zero = "0".repeat(2 * target.algorithm().bytes());
    for change in moves {
        let (name, new) = (&change.name, change.new);
        let old = change.old.map_or(zero.clone(), |old| old.to_string());
        write!(text, "update {name}\0{new}\0{old}\0").map_err(GitError::Read)?;
    }
    if text.is_empty() {
        return Ok(());
    }
    let mut git = target.git();
    git.args(["update-ref", "--stdin", "-z", "-m", "dmv export"]);
    Ok(feed(&mut git, "update-ref", |input| {
        input.write_all(&text)
    })?)
}

/// Returns the algorithm that a new target must have: that of an imported commit, or Git's default.
pub fn algorithm_for(repo: &Repo) -> Result<Algorithm, GitError> {
    let objects = repo.objects();
    for (_, tip) in repo.offered()?.refs {
        let mut reach = Reach::new([tip], [], Detail::Commits);
        while let Some(reached) = reach.next(objects)? {
            if reached.here
                && let Some(origin) = GitOrigin::of(&load_commit(objects, &reached.id)?)
            {
                return Ok(origin.id.algorithm());
            }
        }
    }
    Ok(Algorithm::Sha1)
}
