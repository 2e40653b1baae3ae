//! Making the worktree equal to a commit, without losing what is not committed.
//!
//! | task | files |
//! |---|---|
//! | what is asked for, what differs | [`target`], [`span`] |
//! | deciding | [`check`]: would anything be lost? [`left`]: what did interrupted switches leave? [`seen`]: what was there when that was decided? |
//! | carrying out | [`switch`], with [`way`] (removes what stands in the place of something else), [`moves`] (files that the target has elsewhere), [`dirs`] |
//! | afterwards | [`written`] notes what was written, [`remember`] puts it into the stat cache |
//! | further commands | [`restore`]: single files; [`empty`]: all files; [`coming`]: a checkout beside a transfer |

pub(in crate::repo) mod check;
pub(in crate::repo) mod coming;
pub(in crate::repo) mod dirs;
pub(in crate::repo) mod empty;
pub(in crate::repo) mod left;
pub(in crate::repo) mod moves;
pub(in crate::repo) mod remember;
pub(in crate::repo) mod restore;
pub(in crate::repo) mod seen;
pub(in crate::repo) mod span;
pub(in crate::repo) mod switch;
pub(in crate::repo) mod target;
pub(in crate::repo) mod way;
pub(in crate::repo) mod written;

use self::switch::Switch;
use crate::fsutil::SafeDir;
use crate::hash::ObjectId;
use crate::history::is_ancestor;
use crate::job::{Job, Moment};
use crate::object::ObjectError;
use crate::object::name::RepoPath;
use crate::refs::{Change, Effect};
use crate::repo::base::branch::RefKind;
use crate::repo::base::error::RepoError;
use crate::repo::base::handle::Handle;
use crate::repo::base::head::Head;
use crate::repo::base::keys::{base_key, head_key, saving_key, subset_key};
use crate::repo::base::publish::{Asked, change};
use crate::repo::base::worktree::{WorktreeLock, WorktreeSettings};
use crate::repo::base::{branch, publish, worktree};
use crate::repo::conflict::form;
use crate::repo::files::checkout::target::{SwitchTo, Switched};
use crate::repo::files::emptied::EmptiedPattern;
use crate::repo::files::open_worktree::Tree;
use crate::repo::files::saved::{Overwritten, saved_changes, saving_change, take};
use crate::repo::files::unfinished::Target;
use crate::repo::files::{emptied, open_worktree, unfinished, unwritten};
use crate::repo::look::entries::{Located, Wanted};
use crate::repo::look::lack;
use crate::repo::look::lack::LackOf;
use crate::subset::Subset;
use crate::worktree::snapshot::Problem;

/// What to switch to.
#[derive(Clone, Debug)]
pub enum CheckoutTarget {
    /// A branch; commits will move it.
    Branch(String),
    /// A branch that is made by the same operation, at a commit.
    NewBranch(String, ObjectId),
    /// A commit, with no branch.
    Commit(ObjectId),
}

/// How to switch.
pub struct CheckoutOptions {
    /// The paths that the worktree has from then on; `None`: as before.
    pub subset: Option<Subset>,
    /// Discard uncommitted changes to tracked files.
    pub force: bool,
    /// How files are taken in.
    pub settings: WorktreeSettings,
    /// For the operation log.
    pub asked: Asked,
}

impl CheckoutOptions {
    /// A switch that keeps the subset and refuses to overwrite uncommitted changes.
    pub fn new(asked: Asked) -> CheckoutOptions {
        CheckoutOptions {
            subset: None,
            force: false,
            settings: WorktreeSettings::default(),
            asked,
        }
    }
}

/// What a checkout or restore did.
#[derive(Debug)]
pub struct CheckoutReport {
    /// What the worktree is on now.
    pub head: Head,
    /// The commit whose files were written.
    pub commit: ObjectId,
    /// Files and symlinks written.
    pub files: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Files and symlinks removed.
    pub removed: u64,
    /// Paths that could not be made as the commit has them, and why.
    pub refused: Vec<Problem>,
    /// The paths of the commit that the worktree has now.
    pub subset: Subset,
    /// New patterns of the subset that name nothing in the commit.
    pub idle_patterns: Vec<Vec<u8>>,
    /// Former ones that named something before.
    pub emptied: Vec<EmptiedPattern>,
    /// Files of the user's that were there already and stay: they count as edits.
    pub adopted: Vec<Vec<u8>>,
    /// Uncommitted work that was overwritten.
    pub overwritten: Overwritten,
}

/// Switches the worktree to a branch or commit.
pub(in crate::repo) fn checkout(
    repo: &Handle,
    target: CheckoutTarget,
    options: &CheckoutOptions,
    job: &Job,
) -> Result<CheckoutReport, RepoError> {
    let lock = worktree::lock_worktree(repo)?;
    let (now, mut new) = (worktree::head(repo)?, None);
    let (head, commit) = match target {
        CheckoutTarget::Branch(name) => {
            let id = worktree::ref_id(repo, &format!("branch/{name}"))?;
            let missing = || RepoError::NoRef {
                kind: "branch",
                name: name.clone(),
            };
            let id = id.ok_or_else(missing)?;
            (Head::Branch(name), id)
        }
        CheckoutTarget::NewBranch(name, id) => {
            new = Some(branch::new_ref(repo, RefKind::Branch, &name, id)?);
            (Head::Branch(name), id)
        }
        CheckoutTarget::Commit(id) => (Head::Commit(id), id),
    };
    if let Some(name) = head.branch().filter(|_| head != now) {
        branch::refuse_taken(repo, name)?;
    }
    let command = &options.asked.command;
    checkout_locked(repo, &lock, (head, commit), command, options, job, || {
        Ok(new)
    })
}

/// Makes the files those of `commit`. When `is_there` has succeeded, with what else is to be
/// changed, the worktree is on `head`. Cut off, `command` goes on with it.
pub(in crate::repo) fn checkout_locked(
    repo: &Handle,
    _lock: &WorktreeLock,
    (head, commit): (Head, ObjectId),
    command: &str,
    options: &CheckoutOptions,
    job: &Job,
    is_there: impl FnOnce() -> Result<Option<Change>, RepoError>,
) -> Result<CheckoutReport, RepoError> {
    let tree = open_worktree::open(repo, &options.settings)?;
    let subset = options.subset.as_ref().unwrap_or(&tree.subset);
    let form = form::form_at(repo, &commit)?;
    let root = form.tree;
    let go_on = Asked {
        command: command.to_owned(),
        ..options.asked.clone()
    };
    let to = SwitchTo {
        what: "this checkout",
        asked: &go_on,
        leaves: leaves(repo, &tree, &commit)?,
        form,
        subset,
        force: options.force,
        adopts: false,
        brings: None,
        settings: &options.settings,
    };
    let done = switch_files(repo, &tree, &to, job, |saved| {
        let more = is_there()?;
        let base = commit.as_bytes().to_vec();
        let changes = vec![
            change(&repo.refs, head_key(&tree.name), Some(head.value()))?,
            change(&repo.refs, base_key(&tree.name), Some(base))?,
            change(&repo.refs, subset_key(&tree.name), subset_value(subset))?,
        ];
        let changes = changes.into_iter().chain(more);
        let changes = changes.filter(|c| c.old != c.new).chain(saved);
        let changes: Vec<_> = changes.collect();
        if !changes.is_empty() {
            publish::publish(repo, options.asked.clone(), None, changes, Effect::Written)?;
        }
        Ok(())
    })?;
    let idle_patterns = match &options.subset {
        // All of them are new to a worktree without files.
        Some(subset) if tree.base.is_none() => {
            idle_patterns(repo, root, &Subset::everything(), subset)?
        }
        Some(subset) => idle_patterns(repo, root, &tree.subset, subset)?,
        None => Vec::new(),
    };
    Ok(CheckoutReport {
        head,
        commit,
        files: done.files,
        bytes: done.bytes,
        removed: done.removed,
        refused: done.refused,
        subset: subset.clone(),
        idle_patterns,
        emptied: done.emptied,
        adopted: done.adopted,
        overwritten: done.overwritten,
    })
}

/// Whether `commit` does not go on from the base of a worktree that shows conflicts.
fn leaves(repo: &Handle, tree: &Tree, commit: &ObjectId) -> Result<bool, RepoError> {
    let (Some(base), Some(form)) = (tree.base, &tree.form) else {
        return Ok(false);
    };
    if form.shown.is_empty() {
        return Ok(false);
    }
    match is_ancestor(repo.objects(), &base, commit) {
        Ok(goes_on) => Ok(!goes_on),
        // Behind the boundary of a shallow history.
        Err(ObjectError::Missing { .. }) => Ok(true),
        Err(e) => Err(e.into()),
    }
}

/// Gives the worktree another subset of the commit that its files are of.
pub(in crate::repo) fn set_subset(
    repo: &Handle,
    subset: Subset,
    settings: &WorktreeSettings,
    asked: Asked,
    job: &Job,
) -> Result<CheckoutReport, RepoError> {
    let _lock = worktree::lock_worktree(repo)?;
    let tree = open_worktree::open(repo, settings)?;
    let (Some(commit), Some(root)) = (tree.base, tree.base_tree) else {
        return Err(RepoError::NoCommit);
    };
    let new = change(&repo.refs, subset_key(&tree.name), subset_value(&subset))?;
    let publish = |saved: Vec<Change>| {
        let changes = std::iter::once(new).filter(|c| c.old != c.new);
        let changes: Vec<_> = changes.chain(saved).collect();
        if !changes.is_empty() {
            publish::publish(repo, asked.clone(), None, changes, Effect::Written)?;
        }
        Ok(())
    };
    let to = SwitchTo {
        what: "this change of the subset",
        asked: &asked,
        form: form::form_at(repo, &commit)?,
        subset: &subset,
        adopts: true,
        force: false,
        leaves: false,
        brings: None,
        settings,
    };
    let done = switch_files(repo, &tree, &to, job, publish)?;
    Ok(CheckoutReport {
        head: worktree::head(repo)?,
        commit,
        files: done.files,
        bytes: done.bytes,
        removed: done.removed,
        refused: done.refused,
        idle_patterns: idle_patterns(repo, root, &tree.subset, &subset)?,
        emptied: done.emptied,
        adopted: done.adopted,
        subset,
        overwritten: done.overwritten,
    })
}

/// The patterns that `new` has and `old` has not, and that name nothing in a tree. Of one that leads
/// to directories that are not here nobody can tell.
pub(in crate::repo) fn idle_patterns(
    repo: &Handle,
    root: ObjectId,
    old: &Subset,
    new: &Subset,
) -> Result<Vec<Vec<u8>>, RepoError> {
    let mut idle = Vec::new();
    for (alone, text) in new.each().iter().zip(new.patterns()) {
        let is_old = old.patterns().any(|old| old == text);
        if !is_old && !emptied::matches_in(repo, root, alone)? {
            idle.push(text.to_vec());
        }
    }
    Ok(idle)
}

/// Makes the files of a worktree, whose lock is held, equal to a tree; then `publish` has to
/// make that its base, together with the changes that it is given: they say what was
/// overwritten. Refuses as [`checkout`](Repo::checkout) does.
///
/// Cut off before the end, the worktree has a note of it, with the command that goes on.
pub(in crate::repo) fn switch_files(
    repo: &Handle,
    tree: &Tree,
    to: &SwitchTo<'_>,
    job: &Job,
    publish: impl FnOnce(Vec<Change>) -> Result<(), RepoError>,
) -> Result<Switched, RepoError> {
    let mut switch = Switch::new(repo, tree, &to.form, to.subset, job);
    switch.brings = to.brings;
    switch.find_dirty(to.settings)?;
    job.reached(Moment::Scanned);
    match switch.find_what_is_needed(to) {
        // Not one directory at a time, but all of them.
        Err(e @ RepoError::Absent { .. }) => {
            let root = Located::Root {
                tree: to.form.tree,
                bytes: 0,
                files: 0,
            };
            let wanted = Wanted {
                path: &RepoPath::root(),
                located: &root,
                subset: to.subset,
            };
            let lacks = lack::lacking(repo, wanted, LackOf::Trees)?;
            return Err(match lacks.is_empty() {
                true => e,
                false => RepoError::Lacking(lacks),
            });
        }
        found => found?,
    }
    if is_case_blind(&tree.own) {
        switch.check_collisions()?;
    }
    job.reached(Moment::Checked);
    let target = Target {
        tree: to.form.tree,
        subset: to.subset.clone(),
    };
    let (saved, overwritten) = keep_overwritten(repo, tree, &mut switch, to, job)?;
    // Where the target is the base, what is noted of others stays until all is done.
    if tree.base_tree != Some(target.tree) || tree.subset != target.subset {
        unfinished::begin_switch(repo, switch.unfinished.as_ref(), target, &to.asked.command)?;
    }
    if let Err(e) = switch.carry_out(to.force) {
        // What was taken for coming has not come: all of it, not the first alone.
        if matches!(e, RepoError::Absent { .. }) {
            switch.check_content_here(to.force)?;
        }
        return Err(e);
    }
    switch.sync()?;
    switch.bring()?;
    // Until the view has moved the base does not have it, and the note tells nothing.
    unwritten::note_unwritten(repo, &switch.unwritten_now()?)?;
    publish(match saved {
        Some(id) => saved_changes(repo, &tree.name, id)?,
        None => Vec::new(),
    })?;
    unfinished::end_switch(repo);
    // A convenience for the next scan; without it files are compared by content.
    let _ = switch.remember();
    let emptied = match tree.base_tree {
        // Only where something went can a pattern have lost all that it named.
        Some(base) if switch.removed > 0 && *to.subset == tree.subset => {
            emptied::emptied(repo, base, to.form.tree, to.subset)
        }
        _ => Vec::new(),
    };
    Ok(Switched {
        emptied,
        adopted: switch.adopted.into_iter().collect(),
        files: switch.files,
        bytes: switch.bytes,
        removed: switch.removed,
        refused: switch.refused,
        overwritten,
    })
}

/// Takes what a switch will overwrite into the repository, and says so in the view: from then on
/// it can be brought back, also if the switch is cut off.
fn keep_overwritten(
    repo: &Handle,
    tree: &Tree,
    switch: &mut Switch<'_>,
    to: &SwitchTo<'_>,
    job: &Job,
) -> Result<(Option<ObjectId>, Overwritten), RepoError> {
    let paths = std::mem::take(&mut switch.overwrites);
    let earlier = match &switch.unfinished {
        Some(_) if to.force => worktree::ref_id(repo, &saving_key(&tree.name))?,
        _ => None,
    };
    if paths.is_empty() && earlier.is_none() {
        return Ok(Default::default());
    }
    let how = (to.what, to.settings.keep, to.asked);
    let taken = take(repo, tree, (&paths, earlier), how, job)?;
    for (path, overwrite) in paths {
        if overwrite.committed.is_some() {
            continue;
        }
        let seen = taken.seen.get(&path).copied();
        switch.seen.insert(path, seen);
    }
    let Some((id, sealed)) = taken.kept else {
        return Ok((None, taken.told));
    };
    let intent = vec![saving_change(repo, &tree.name, id)?];
    publish::publish(
        repo,
        to.asked.clone(),
        Some(sealed),
        intent,
        Effect::Written,
    )?;
    Ok((Some(id), taken.told))
}

/// What the view holds for a subset.
fn subset_value(subset: &Subset) -> Option<Vec<u8>> {
    (!subset.is_everything()).then(|| subset.text())
}

/// Whether the file system takes names that differ in case for one.
fn is_case_blind(own: &SafeDir) -> bool {
    // The lock file of the worktree is there, in lower case.
    own.stat_opt(b"LOCK").is_ok_and(|stat| stat.is_some())
}
