//! The methods of `Repo` that call `upkeep`.

use crate::hash::ObjectId;
use crate::job::Job;
use crate::object::ObjectType;
use crate::object::name::RepoPath;
use crate::repo::look::entries::Selection;
use crate::repo::{
    ElsewhereView, Expirable, ExpireOptions, ForgetReport, FreeingLock, GcOptions, GcReport,
    HealJob, KeepRule, KeepRules, KnownDamage, KnownPurge, OperationRequest, PurgeWhat, Purgeable,
    RepackOptions, RepackReport, Repo, RepoError, UndoReach, VerifyDepth, VerifyReport, base,
    upkeep,
};
use std::collections::{BTreeMap, BTreeSet, HashSet};

impl Repo {
    /// Starts to free space.
    ///
    /// Fails with [`BusyError::Freeing`](crate::repo::BusyError::Freeing) if another command is freeing
    /// space, or if a peer relies on objects of this repository.
    pub fn begin_to_free(&self) -> Result<FreeingLock<'_>, RepoError> {
        upkeep::drop::begin_to_free(&self.handle)
    }

    /// Puts the operations before the first one that is not older than `since` (in seconds since
    /// 1970) out of the reach of undo. This cannot be undone.
    pub fn expire_operations(
        &self,
        since: i64,
        request: OperationRequest,
    ) -> Result<UndoReach, RepoError> {
        upkeep::expire_log::expire_operations(&self.handle, since, request)
    }

    /// Puts one operation out of the reach of undo, with those that need the same commits, if no branch,
    /// tag or worktree needs these. `id` is its id or the first digits. This cannot be undone.
    ///
    /// Fails with [`UndoError::NoOperation`](crate::repo::UndoError::NoOperation).
    pub fn forget_operation(
        &self,
        id: &str,
        request: OperationRequest,
    ) -> Result<ForgetReport, RepoError> {
        upkeep::forget_log::forget_operation(&self.handle, id, request)
    }

    /// Returns the commits that only undo can bring back: those that [`forget_operation`](Self::forget_operation)
    /// gives up, if an operation names them.
    pub fn commits_for_undo(&self) -> Result<HashSet<ObjectId>, RepoError> {
        upkeep::forget_log::commits_for_undo(&self.handle)
    }

    /// Returns the most bytes that the repository is to take on disk, if there is a limit.
    pub fn budget(&self) -> Result<Option<u64>, RepoError> {
        base::budget::budget(&self.handle)
    }

    /// Removes what commands wrote that were refused or killed before they could publish it. Returns
    /// the bytes.
    pub fn remove_leftovers(&self) -> Result<u64, RepoError> {
        base::leftovers::remove(&self.handle)
    }

    /// Sets or removes the limit on the repository's size. Returns the former one.
    pub fn set_budget(
        &self,
        bytes: Option<u64>,
        request: OperationRequest,
    ) -> Result<Option<u64>, RepoError> {
        upkeep::budget::set_budget(&self.handle, bytes, request)
    }

    /// Returns the keep rules: the local ones, and those in the `.dmvattributes` files of the commit
    /// that the worktree is on.
    ///
    /// Fails with [`AbsentError::Lacking`](crate::repo::AbsentError::Lacking) if such a file is not
    /// stored here.
    pub fn keep_rules(&self) -> Result<KeepRules, RepoError> {
        upkeep::rules::keep_rules(&self.handle)
    }

    /// Returns the numbers of the rules that decide about no file of the commit that the worktree is
    /// on.
    pub fn idle_rules(&self, rules: &KeepRules) -> Result<Vec<usize>, RepoError> {
        upkeep::rules::idle_rules(&self.handle, rules)
    }

    /// Gives a pattern a local keep rule, as the last one. Returns the rule that the pattern had.
    pub fn set_keep_rule(
        &self,
        pattern: &str,
        rule: KeepRule,
        request: OperationRequest,
    ) -> Result<Option<KeepRule>, RepoError> {
        upkeep::rules::set_rule(&self.handle, pattern, rule, request)
    }

    /// Removes the local keep rule of a pattern. Returns it, or `None` if there is none.
    pub fn remove_keep_rule(
        &self,
        pattern: &str,
        request: OperationRequest,
    ) -> Result<Option<KeepRule>, RepoError> {
        upkeep::rules::remove_rule(&self.handle, pattern, request)
    }

    /// Returns the versions of files that the keep rules give up. Changes nothing.
    pub fn expirable(
        &self,
        rules: &KeepRules,
        options: &ExpireOptions,
        job: &Job,
    ) -> Result<Expirable, RepoError> {
        upkeep::expire::expirable(&self.handle, rules, options, job)
    }

    /// Returns the versions of files that the keep rules give up at a bucket. Changes nothing.
    pub fn expirable_elsewhere(
        &self,
        rules: &KeepRules,
        there: &ElsewhereView,
        options: &ExpireOptions,
        job: &Job,
    ) -> Result<Expirable, RepoError> {
        upkeep::expire::expirable_elsewhere(&self.handle, rules, there, options, job)
    }

    /// Returns the keep rules in the files of a commit, without local ones.
    pub fn keep_rules_of(&self, commit: &ObjectId) -> Result<KeepRules, RepoError> {
        upkeep::rules::keep_rules_of(&self.handle, commit)
    }

    /// Returns what the content of files takes in packs, as far as it is stored. Each chunk counts once.
    pub fn stored_under(&self, wanted: Selection<'_>) -> Result<u64, RepoError> {
        upkeep::drop::stored_under(&self.handle, wanted)
    }

    /// Finds what a purge of a path or content would purge. Changes nothing.
    pub fn purgeable(&self, what: &PurgeWhat, job: &Job) -> Result<Purgeable, RepoError> {
        upkeep::purge::purgeable(&self.handle, what, job)
    }

    /// Returns the purges that were carried out here, the oldest first.
    pub fn purges(&self) -> Result<Vec<KnownPurge>, RepoError> {
        upkeep::purge::purges(&self.handle)
    }

    /// Notes why content in `left_out` is absent here: the remote `place` has purged it. `None` stands for
    /// what a fetch into an empty repository may leave out. Returns how many files were noted.
    pub fn note_told(
        &self,
        purges: &[KnownPurge],
        place: &str,
        left_out: Option<&BTreeSet<ObjectId>>,
    ) -> Result<u64, RepoError> {
        upkeep::purge::note_told(&self.handle, purges, place, left_out)
    }

    /// Forgets what remotes told of content that is not in `needed`. Returns how much is left.
    pub fn keep_told(&self, needed: &BTreeSet<ObjectId>) -> Result<u64, RepoError> {
        upkeep::purge::keep_told(&self.handle, needed)
    }

    /// Returns whether any chunk below the root of a file's content is stored.
    pub fn has_content(&self, root: &ObjectId) -> Result<bool, RepoError> {
        upkeep::purge::has_content(&self.handle, root)
    }

    /// Returns contents with the types of their roots, as [`ToPurge`](crate::repo::ToPurge) has them.
    pub fn content_types(
        &self,
        roots: &BTreeSet<ObjectId>,
    ) -> Result<BTreeMap<ObjectId, ObjectType>, RepoError> {
        upkeep::purge::types_of(&self.handle, roots.iter())
    }

    /// Lets purged content be stored again. Returns how many of these files had been purged.
    pub fn lift_purge(
        &self,
        files: &BTreeSet<ObjectId>,
        request: OperationRequest,
    ) -> Result<u64, RepoError> {
        upkeep::purge::lift(&self.handle, files, request)
    }

    /// Frees what no ref, no worktree and no operation that undo can reach needs.
    ///
    /// Other commands may run meanwhile. Fails with
    /// [`BusyError::Freeing`](crate::repo::BusyError::Freeing) if another command is freeing space, and
    /// with [`UpkeepError::NothingFreed`](crate::repo::UpkeepError::NothingFreed) if something that is
    /// needed is damaged or missing.
    pub fn gc(&self, options: &GcOptions, job: &Job) -> Result<GcReport, RepoError> {
        upkeep::gc::gc(&self.handle, options, job)
    }

    /// Joins small packs, and the frames of many small commits.
    ///
    /// Other commands may run meanwhile. Fails with
    /// [`BusyError::Freeing`](crate::repo::BusyError::Freeing) if another command is freeing space.
    pub fn repack(&self, options: &RepackOptions, job: &Job) -> Result<RepackReport, RepoError> {
        upkeep::repack::repack(&self.handle, options, job)
    }

    /// Notes which paths commits changed, for `log -- PATH` and `blame`, as `repack` does. Does nothing if another
    /// command frees space.
    pub fn note_changed_paths(&self, job: &Job) -> Result<(), RepoError> {
        upkeep::changed::note(&self.handle, job)
    }

    /// Returns whether [`repack`](Self::repack) would pay, by what the catalogue counts.
    pub fn repack_pays(&self) -> Result<bool, RepoError> {
        upkeep::repack::repack_pays(&self.handle)
    }

    /// Returns whether a program should say after a commit that [`repack`](Self::repack) would pay: once in a
    /// number of operations.
    pub fn repack_pays_now(&self) -> Result<bool, RepoError> {
        upkeep::repack::repack_pays_now(&self.handle)
    }

    /// Checks the repository and starts to heal the damage that it finds.
    pub fn begin_to_heal(&self, depth: VerifyDepth, job: &Job) -> Result<HealJob<'_>, RepoError> {
        upkeep::heal::begin_to_heal(&self.handle, depth, job)
    }

    /// Returns some of the files that have one of `objects`, each with a commit that has it.
    ///
    /// Searches up to a thousand commits, so it may find none.
    pub fn uses_of(
        &self,
        objects: &HashSet<ObjectId>,
        job: &Job,
    ) -> Result<Vec<(RepoPath, ObjectId)>, RepoError> {
        upkeep::verify::uses::uses_of(&self.handle, objects, job)
    }

    /// Returns what is known to be damaged without a check.
    pub fn known_damage(&self) -> KnownDamage {
        upkeep::verify::known::known_damage(&self.handle)
    }

    /// Checks the repository and returns what is wrong.
    ///
    /// Changes only the lists of damaged places and objects, so that these objects are stored again when
    /// they are received. A file that cannot be read for lack of permission is an error and not damage.
    pub fn verify(&self, depth: VerifyDepth, job: &Job) -> Result<VerifyReport, RepoError> {
        upkeep::verify::verify(&self.handle, depth, job)
    }
}
