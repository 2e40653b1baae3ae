//! A change of a repository that is being made: new objects and new values of the view.
//!
//! [`Transaction::publish`] is the commit point, the only way to change the refs of a repository. It makes
//! everything visible at once. A transaction that is dropped leaves only bytes that no reader looks at.

#[cfg(test)]
mod tests;

use crate::fsutil::SafeDir;
use crate::hash::ObjectId;
use crate::job::Job;
use crate::merge::{Edits, edit_tree};
use crate::object::commit::Commit;
use crate::object::tree::TreeSummary;
use crate::object::{ObjectError, ObjectRead, ObjectType, ObjectWrite};
use crate::refs::{
    Change, Effect, FreeCount, NewOperation, Operation, Origin, RefsError, Timestamp,
};
use crate::repo::base::error::RepoError;
use crate::repo::base::keys::named_by;
use crate::repo::base::publish;
use crate::repo::base::publish::{OperationRequest, change, merge_tables, noting_failed_sync};
use crate::repo::base::repo::Repo;
use crate::repo::base::{budget, leaving, level, named, refused, relying, reserve, signing, whole};
use crate::store::{FinishedJob, Framer, MetaWriter, StoreError, StoreWriter};
use crate::vfs::OpenMode;
use crate::worktree::ingest::{IngestError, IngestResult, Task, with_ingest};

/// A change of a repository that is being made, for one operation.
pub struct Transaction<'r> {
    repo: &'r Repo,
    request: OperationRequest,
    changes: Vec<Change>,
    /// The number of the operation that this one undoes, or 0.
    undoes: u64,
    proof: Proof,
    /// How many bytes it may write, if that is limited.
    room: Option<u64>,
    /// What is being written. Nothing reads it yet.
    open: Option<OpenJob<'r>>,
    /// What was written before. It is durable, and this process reads it.
    sealed: Option<FinishedJob>,
}

/// A writer with the frames that it has not written yet.
struct OpenJob<'r> {
    writer: StoreWriter<'r>,
    framer: Framer,
}

/// What shows that everything is complete that a transaction names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Nothing yet: the publication has to look.
    Missing,
    /// A transfer has looked, which has relied on what it found until now.
    Transfer,
    /// Nothing, and it need not be complete: this names what is left of a damaged history.
    Needless,
}

/// How often a publication looks again because others free objects meanwhile.
const ROUNDS: usize = 5;

impl Repo {
    /// Passes the commit point: makes the objects of `sealed` and the `changes` visible together,
    /// or neither of them.
    ///
    /// The old value of each change must equal the current value in the view. Each object that a
    /// new value names must be in `sealed` or in the segments that the database lists. `effect`
    /// records what was done to files, so that an undo can reverse it.
    pub fn publish(
        &self,
        request: OperationRequest,
        sealed: Option<FinishedJob>,
        changes: Vec<Change>,
        effect: Effect,
    ) -> Result<Operation, RepoError> {
        let tx = Transaction::of_job(self, &request, sealed);
        tx.with(changes).publish(effect)
    }
}

impl<'r> Transaction<'r> {
    /// Begins a transaction. The repository's budget does not limit it: it steps back, or changes only
    /// the view.
    pub fn begin(repo: &'r Repo, request: &OperationRequest) -> Transaction<'r> {
        Transaction {
            repo,
            request: request.clone(),
            changes: Vec::new(),
            undoes: 0,
            proof: Proof::Missing,
            room: None,
            open: None,
            sealed: None,
        }
    }

    /// Begins a transaction that adds content, within the repository's budget.
    pub fn within_budget(
        repo: &'r Repo,
        request: &OperationRequest,
    ) -> Result<Transaction<'r>, RepoError> {
        let room = budget::room(repo)?;
        Ok(Transaction {
            room,
            ..Transaction::begin(repo, request)
        })
    }

    /// Begins a transaction with the objects of a finished job.
    pub fn of_job(
        repo: &'r Repo,
        request: &OperationRequest,
        job: Option<FinishedJob>,
    ) -> Transaction<'r> {
        Transaction {
            sealed: job,
            ..Transaction::begin(repo, request)
        }
    }

    /// Returns this transaction as one that undoes the operation number `seq`.
    pub fn undoing(mut self, seq: u64) -> Transaction<'r> {
        self.undoes = seq;
        self
    }

    /// Returns this transaction with a proof that what it names is complete.
    pub fn proved(mut self, proof: Proof) -> Transaction<'r> {
        self.proof = proof;
        self
    }

    /// Returns this transaction with further changes of the view.
    pub fn with(mut self, changes: impl IntoIterator<Item = Change>) -> Transaction<'r> {
        self.change(changes);
        self
    }

    /// Returns the repository.
    pub fn repo(&self) -> &'r Repo {
        self.repo
    }

    /// Returns who makes the change, when and with which command.
    pub fn request(&self) -> &OperationRequest {
        &self.request
    }

    /// Adds changes of the view.
    pub fn change(&mut self, changes: impl IntoIterator<Item = Change>) {
        self.changes.extend(changes);
    }

    /// Gives a key of the view a new value, unless it has this value already.
    pub fn set(&mut self, key: String, new: Option<Vec<u8>>) -> Result<(), RepoError> {
        let change = change(&self.repo.refs, key, new)?;
        self.changes.extend(Some(change).filter(|c| c.old != c.new));
        Ok(())
    }

    /// Records what the operation does, as the value of a key, even if the last operation of this kind
    /// did just as much.
    pub fn record(&mut self, key: &str, value: impl Into<Vec<u8>>) -> Result<(), RepoError> {
        let value = Some(value.into());
        let change = change(&self.repo.refs, key.to_owned(), value)?;
        self.changes.push(change);
        Ok(())
    }

    /// Returns the objects of the repository and of this transaction. For this it makes durable what it
    /// has written since the last time.
    pub fn objects(&mut self) -> Result<&'r dyn ObjectRead, RepoError> {
        self.seal()?;
        Ok(self.repo.objects())
    }

    /// Returns how many bytes this transaction has appended to packs. Makes durable what it has written.
    pub fn stored_bytes(&mut self) -> Result<u64, RepoError> {
        self.seal()?;
        Ok(self.sealed.as_ref().map_or(0, |job| job.stored_bytes))
    }

    /// Publishes what it has written so far, without a name: what comes later may fail and be tried again. Returns how
    /// many bytes that takes in packs.
    pub fn keep(&mut self) -> Result<u64, RepoError> {
        self.seal()?;
        let Some(job) = self.sealed.take() else {
            return Ok(0);
        };
        refused::check_job(self.repo, &job)?;
        budget::check_job(self.repo, &job)?;
        let stored_bytes = job.stored_bytes;
        publish::keep(self.repo, job)?;
        Ok(stored_bytes)
    }

    /// Returns the writer, for a snapshot.
    pub fn writer(&mut self) -> Result<&StoreWriter<'r>, StoreError> {
        Ok(&self.open()?.writer)
    }

    /// Reads files below `root` into the store. `take` receives what has become of each.
    pub fn read_files(
        &mut self,
        root: &SafeDir,
        tasks: impl IntoIterator<Item = Task>,
        job: &Job,
        mut take: impl FnMut(IngestResult),
    ) -> Result<(), RepoError> {
        let writer = self.writer()?;
        let mut meta = MetaWriter::new(writer);
        with_ingest(root, writer, job, |ingest| -> Result<(), IngestError> {
            let mut done = |done: IngestResult, _: &mut dyn ObjectWrite| {
                take(done);
                Ok(())
            };
            for task in tasks {
                ingest.submit(task, &mut meta, &mut done)?;
            }
            ingest.finish(&mut meta, &mut done)
        })?;
        Ok(meta.flush()?)
    }

    /// Writes a tree with `edits` applied. `root` may be a tree of this transaction.
    pub fn edit_tree(&mut self, root: ObjectId, edits: &Edits) -> Result<TreeSummary, RepoError> {
        let objects = self.objects()?;
        Ok(edit_tree(objects, self, root, edits)?)
    }

    /// Writes a commit.
    pub fn put_commit(&mut self, commit: &Commit) -> Result<ObjectId, RepoError> {
        let bytes = commit.encode();
        let bytes = bytes.map_err(|e| RepoError::Text(e.to_string()))?;
        Ok(self.put(ObjectType::Commit, &bytes)?)
    }

    /// Writes a commit that the user makes, signed if the user wants that.
    pub fn put_own_commit(&mut self, commit: &mut Commit) -> Result<ObjectId, RepoError> {
        signing::sign(self.repo, commit)?;
        self.put_commit(commit)
    }

    fn open(&mut self) -> Result<&mut OpenJob<'r>, StoreError> {
        let store = &self.repo.store;
        match &mut self.open {
            Some(open) => Ok(open),
            none => {
                let (writer, used) = match &self.sealed {
                    Some(before) => (store.writer_after(before)?, before.stored_bytes),
                    None => (store.writer()?, 0),
                };
                Ok(none.insert(OpenJob {
                    writer: writer.within(self.room.map(|room| room.saturating_sub(used))),
                    framer: Framer::default(),
                }))
            }
        }
    }

    /// Writes an object. Returns its id, and whether neither the repository nor this transaction had it.
    pub fn put_new(
        &mut self,
        ty: ObjectType,
        bytes: &[u8],
    ) -> Result<(ObjectId, bool), ObjectError> {
        let OpenJob { writer, framer } = self.open()?;
        framer.put(writer, ty, bytes)
    }

    /// Makes durable what was written, and lets this process read it.
    fn seal(&mut self) -> Result<(), RepoError> {
        let Some(mut open) = self.open.take() else {
            return Ok(());
        };
        open.framer.flush(&open.writer)?;
        let new = noting_failed_sync(self.repo, open.writer.finish())?;
        let all = match self.sealed.take() {
            Some(before) => before.join(new),
            None => new,
        };
        self.repo.store.preview(&all);
        self.sealed = Some(all);
        Ok(())
    }

    /// Returns whether there is a change of the view.
    pub fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Publishes as [`publish`](Self::publish) if there is a change of the view.
    pub fn publish_changes(self, effect: Effect) -> Result<(), RepoError> {
        if self.has_changes() {
            self.publish(effect)?;
        }
        Ok(())
    }

    /// Passes the commit point: makes the objects and the changes of the view visible together, or
    /// neither of them. Fails with `AbsentError::Incomplete` rather than name an incomplete commit.
    pub fn publish(mut self, effect: Effect) -> Result<Operation, RepoError> {
        let done = self.try_to_publish(effect)?;
        self.end();
        Ok(done)
    }

    /// Publishes as [`publish`](Self::publish). If that fails, the transaction is as before, so that what it has written
    /// can be [kept](Self::keep). If not, call [`end`](Self::end).
    pub fn try_to_publish(&mut self, effect: Effect) -> Result<Operation, RepoError> {
        self.seal()?;
        let (repo, proof) = (self.repo, self.proof);
        repo.check_own()?;
        if let Some(job) = &self.sealed {
            budget::check_job(repo, job)?;
        }
        // Before the first look at what is named.
        let mut since = if proof == Proof::Needless || !self.names_objects() {
            None
        } else {
            Some(relying::look_anew(repo)?)
        };
        if proof == Proof::Missing || proof == Proof::Transfer && !repo.relied.any() {
            whole::check_changes(repo, &self.changes, self.sealed.as_ref(), self.undoes)?;
        }
        let mut must_look = since.is_some_and(|now| !repo.relied.nothing_freed_until(now));
        for round in 0.. {
            if must_look {
                let is_transfer = proof == Proof::Transfer;
                let job = self.sealed.as_mut();
                since = Some(whole::look_again(
                    repo,
                    &self.changes,
                    job.as_deref(),
                    is_transfer,
                )?);
                job.into_iter().for_each(|job| job.relied.clear());
            }
            match self.pass(effect, since) {
                Err(e) if e.may_be_gone() && since.is_some() && round < ROUNDS => must_look = true,
                Err(e) => return Err(e),
                Ok(done) => {
                    if let Some(job) = &self.sealed {
                        repo.store.adopt(job);
                    }
                    return Ok(done);
                }
            }
        }
        unreachable!("the last round returns")
    }

    /// Does what is due after a publication.
    pub fn end(self) {
        let repo = self.repo;
        // This releases the locks on the packs. The database already records their new lengths.
        drop(self);
        merge_tables(repo);
        leaving::sweep_one(repo);
        reserve::keep(repo);
    }

    fn names_objects(&self) -> bool {
        self.changes.iter().any(|change| {
            let new = change.new.as_deref().unwrap_or_default();
            !named_by(&change.key, new).is_empty()
        })
    }

    /// Tries to pass the commit point once.
    fn pass(&self, effect: Effect, since: Option<FreeCount>) -> Result<Operation, RepoError> {
        let repo = self.repo;
        let worktree = repo.worktree.as_ref().map(|(_, name)| name.clone());
        let operation = NewOperation {
            time: self.request.time,
            who: self.request.who.clone(),
            command: self.request.command.clone(),
            undoes: self.undoes,
            origin: Origin {
                worktree: worktree.unwrap_or_default(),
                effect,
            },
            changes: self.changes.clone(),
            since,
        };
        let named = named::places_named(repo, &self.changes, self.sealed.as_ref())?;
        let (mut segments, mut relied) = (&[][..], &[][..]);
        if let Some(job) = &self.sealed {
            refused::check_job(repo, job)?;
            (segments, relied) = (&job.segments, &job.relied);
        }
        let mut held = repo
            .log
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if repo.refs.is_read_only() {
            return Err(RefsError::ReadOnly(repo.refs.path().to_owned()).into());
        }
        let log = match &mut *held {
            Some(log) => log,
            none => none.insert(level::open_log(&repo.store, OpenMode::Append)?),
        };
        let publish = |operation| repo.refs.publish(operation, segments, relied, &named, log);
        let done = match publish(operation.clone()) {
            Err(RefsError::OtherLog(_)) => {
                // Another command was killed after this one began. Its operation counts.
                let lock = repo.refs.lock_database()?;
                level::catch_up(&repo.store, &repo.refs, &lock)?;
                drop(lock);
                publish(operation)
            }
            done => done,
        };
        done.map_err(|e| {
            // Another file may have replaced the log by now. The next publication opens it again.
            *held = None;
            e.into()
        })
    }
}

/// Begins an operation of `dmv recover`, which names what is left of a damaged history.
pub fn recovering<'r>(repo: &'r Repo, time: Timestamp, who: &str) -> Transaction<'r> {
    let request = OperationRequest::new(who, "dmv recover", time);
    Transaction::begin(repo, &request).proved(Proof::Needless)
}

impl ObjectWrite for Transaction<'_> {
    fn put(&mut self, ty: ObjectType, bytes: &[u8]) -> Result<ObjectId, ObjectError> {
        Ok(self.put_new(ty, bytes)?.0)
    }
}
