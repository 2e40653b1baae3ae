//! The stages of a switch: what is asked for, what is known, what is decided and what is done.

use crate::fsutil::{FileKind, FileStat, FileTime, Fingerprint};
use crate::hash::ObjectId;
use crate::job::Job;
use crate::repo::base::change::ChangeKind;
use crate::repo::base::repo::Repo;
use crate::repo::conflict::form::Form;
use crate::repo::files::checkout::portions::Portions;
use crate::repo::files::checkout::purged;
use crate::repo::files::checkout::span::LeftPaths;
use crate::repo::files::checkout::stays::LeftAlone;
use crate::repo::files::checkout::written::WrittenFiles;
use crate::repo::files::guarded::Guard;
use crate::repo::files::open_worktree::OpenWorktree;
use crate::repo::files::private::Private;
use crate::repo::files::saved::{Overwrites, Return, SavedFiles};
use crate::repo::files::seen::ScanAnswers;
use crate::repo::files::unfinished::UnfinishedSwitches;
use crate::repo::files::untracked::UntrackNotes;
use crate::subset::Subset;
use crate::worktree::checkout::ReplacedEntries;
use crate::worktree::snapshot::Problem;
use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

/// What a switch is to do.
pub struct SwitchRequest<'a> {
    pub repo: &'a Repo,
    pub tree: &'a OpenWorktree,
    pub target: ObjectId,
    /// How the target shows conflicts.
    pub form: &'a Form,
    /// The subset of the target that the worktree will have.
    pub subset: &'a Subset,
    /// The files that an undo brings back. It decides about their paths.
    pub brings: Option<&'a Return>,
    /// Where absent content comes from, if the switch is to bring it.
    pub portions: Option<&'a dyn Portions>,
    pub job: &'a Job,
}

/// What is known of the worktree before anything is decided.
pub struct WorktreeFindings<'a> {
    /// Tracked paths that differ from the base, and untracked paths.
    pub dirty: BTreeMap<Vec<u8>, ChangeKind>,
    /// Conflicts of the base that are settled.
    pub settled: Vec<(Vec<u8>, ObjectId)>,
    /// The scan's answers for files that equal the base.
    pub scanned: Option<ScanAnswers<'a>>,
    /// When the scan began, by the clock of the file system.
    pub started: Option<FileTime>,
    /// Switches that were cut off, and the paths that they have left.
    pub unfinished: Option<UnfinishedSwitches>,
    pub left: Rc<LeftPaths>,
    /// Contents that were purged.
    pub purged: BTreeSet<ObjectId>,
    /// Whether directories stay empty in which the user has removed something: the answers so far.
    pub stay_empty: RefCell<BTreeMap<Vec<u8>, bool>>,
    /// Which files are written read-only, read when first needed.
    pub guard: OnceCell<Guard>,
}

impl WorktreeFindings<'_> {
    /// Returns what is known before the worktree is looked at.
    pub fn new(repo: &Repo) -> Self {
        WorktreeFindings {
            dirty: BTreeMap::new(),
            settled: Vec::new(),
            scanned: None,
            started: None,
            unfinished: None,
            left: Rc::default(),
            purged: purged::purged(repo),
            stay_empty: RefCell::default(),
            guard: OnceCell::new(),
        }
    }
}

/// What a switch does about the user's files.
#[derive(Default)]
pub struct SwitchDecision {
    /// Sides of conflicts that are not shown because a file of the user has the name.
    pub unshown: BTreeSet<Vec<u8>>,
    /// Files of the user that stay although the new subset has these paths.
    pub adopted: BTreeSet<Vec<u8>>,
    /// Paths that the switch leaves alone although the base and the target differ there.
    pub left_alone: LeftAlone,
    /// The paths that `force` overwrites: see [`saved`](crate::repo::files::saved).
    pub overwrites: Overwrites,
    /// Files of the target that its next commit leaves out, so the switch does not bring them.
    pub given_up: UntrackNotes,
    /// The versions beside conflicts that a forced switch ends.
    pub ended: Vec<Vec<u8>>,
    /// Entries in the place of a new entry of another kind. They are removed first.
    pub in_the_way: BTreeSet<Vec<u8>>,
    /// What was at other paths at the time of the decision to overwrite them. `None` means nothing.
    pub seen: BTreeMap<Vec<u8>, Option<Fingerprint>>,
}

impl SwitchDecision {
    /// Notes the present entry at a path that differs from the base and may be overwritten.
    ///
    /// Ignores directories: they are only removed when they are empty.
    pub fn note_found(&mut self, path: &[u8], stat: &FileStat) {
        if stat.kind != FileKind::Dir {
            let print = Some(stat.fingerprint());
            self.seen.insert(path.to_vec(), print);
        }
    }

    /// Notes that files may be overwritten only as they were when they were stored.
    pub fn note_seen(&mut self, saved: &SavedFiles, overwrites: Overwrites) {
        for (path, overwrite) in overwrites {
            // For a committed file, the scan's fingerprint counts, not a later one.
            if overwrite.committed.is_none() {
                let seen = saved.seen.get(&path).copied();
                self.seen.insert(path, seen);
            }
        }
    }
}

/// What a switch has done so far.
pub struct SwitchProgress<'a> {
    pub written: WrittenFiles,
    /// The private paths, read from the disk when first needed.
    pub private: Option<Private>,
    /// Files that were replaced or removed, until they are removed for good.
    pub asides: ReplacedEntries<'a>,
    /// Directories planned since plans were last carried out.
    pub made_dirs: BTreeSet<Vec<u8>>,
    /// Paths that got a moved file.
    pub moved: BTreeSet<Vec<u8>>,
    pub files: u64,
    pub bytes: u64,
    pub removed: u64,
    pub refused: Vec<Problem>,
    /// Directories that were to go and stay, because the user is in them.
    pub in_use: BTreeSet<Vec<u8>>,
    /// Directories that were to go and have files of the user, if the file system may take them for others.
    pub stayed: Arc<BTreeSet<Vec<u8>>>,
    /// Whether what is written now are versions of the user, which no commit has.
    pub brings_edits: bool,
}

impl<'a> SwitchProgress<'a> {
    /// Returns the progress before the first file.
    pub fn new(tree: &'a OpenWorktree) -> SwitchProgress<'a> {
        SwitchProgress {
            written: WrittenFiles::default(),
            private: None,
            asides: ReplacedEntries::new(&tree.root),
            made_dirs: BTreeSet::new(),
            moved: BTreeSet::new(),
            files: 0,
            bytes: 0,
            removed: 0,
            refused: Vec::new(),
            in_use: BTreeSet::new(),
            stayed: Arc::default(),
            brings_edits: false,
        }
    }
}
