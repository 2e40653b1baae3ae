//! A lost root of a bucket: what is left, and a new root.

use super::caller::{BucketCaller, source_of};
use super::error::AtBucketError;
use super::push::{at_bucket, id_of, net_error, stamp};
use crate::format::{Name, Root, Row};
pub use crate::machines::Origin;
use crate::machines::{Candidate, RebuiltRoot, Remains};
use crate::peer::{BucketSource, MayBeAbsent, RowsReport, verify_rows};
use crate::work::attempt_note::AttemptNote;
use crate::work::cache::Cache;
use crate::work::client::BucketClient;
pub use crate::work::recover::{Flaw, NotRestored, words_of};
use crate::work::recover::{RootState, has_operation, look, restore, survey};
use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::refs::Operation;
use dmv_core::repo::{OperationRequest, Repo};
use dmv_core::store::random_bytes;
use dmv_net::ops::{Remote, Step};
use dmv_net::session::NetError;
use dmv_net::transport::Purpose;
use dmv_net::trouble::Trouble;
use std::collections::BTreeSet;

/// What to recover at a remote.
#[derive(Clone, Debug)]
pub struct RecoverAtOptions {
    /// The remote. It has to be a bucket.
    pub remote: Remote,
    /// The state to restore, by the first digits of its id. `None`: only look.
    pub chosen: Option<String>,
    /// For the operation log of the bucket.
    pub request: OperationRequest,
}

/// A state that can be restored, or the reason why it cannot.
#[derive(Clone, Debug)]
pub struct LostState {
    /// By which a person chooses it.
    pub id: String,
    /// The repository.
    pub repository: String,
    /// What it begins with.
    pub origin: Origin,
    /// The sequence number of its newest operation.
    pub operations: u64,
    /// Its newest operation, if that is known.
    pub newest: Option<Operation>,
    /// How many operations were added from packs.
    pub added: u64,
    /// How many of these may never have been completed.
    pub unsure: u64,
    /// How many operations are missing in between: nothing is known of them.
    pub unknown: u64,
    /// Operations of packs that do not fit.
    pub left_out: Vec<Operation>,
    /// The branches and tags, with their keys in the view.
    pub refs: Vec<(String, ObjectId)>,
    /// Files that it names and that are missing or have another length. Only known of a root that was seen.
    pub missing_files: u64,
    /// Objects that it leads to and that no pack has.
    pub missing: u64,
    /// Why it cannot be restored.
    pub flaw: Option<Flaw>,
}

/// What is left where a root is lost.
#[derive(Clone, Debug, Default)]
pub struct RecoverAtReport {
    /// How the root was lost; `None`: it is intact.
    pub lost: Option<LostKind>,
    /// The states that can be told, the newest first.
    pub states: Vec<LostState>,
    /// The number of packs and pages, and their bytes.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that are damaged or unknown, and why.
    pub bad: Vec<(String, &'static str)>,
    /// The state that was restored.
    pub restored: Option<LostState>,
}

/// How a root was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LostKind {
    /// It is gone.
    Gone,
    /// It does not decode, for this reason.
    Damaged(String),
}

/// Finds out which states a lost root of a bucket may have had, and restores one if the options say so.
/// Otherwise it changes nothing there. `repo` may have noted the root that it saw last.
pub fn recover_at(
    repo: Option<&Repo>,
    options: &RecoverAtOptions,
    caller: &dyn BucketCaller,
    job: &Job,
) -> Result<RecoverAtReport, AtBucketError<NotRestored>> {
    let purpose = match options.chosen {
        Some(_) => Purpose::Write,
        None => Purpose::Read,
    };
    let url = &options.remote.url;
    let done = at_bucket(url, purpose, "dmv recover", caller, |address, settings| {
        caller.began(Step::Work);
        if address.scheme.is_web() {
            let trouble = Trouble::Unsupported("a web server lists no files".to_owned());
            let place = address.to_string();
            return Err(NetError::Bucket { place, trouble });
        }
        if repo.is_some() && options.chosen.is_some() {
            caller.test_store(address, false)?;
        }
        let source = source_of(address, &settings)?;
        let cache = Cache::open(repo.map(Repo::dmv_dir), &address.to_string());
        Rescue {
            source: &source,
            cache: &cache,
            options,
            job,
        }
        .run()
    });
    done?.map_err(AtBucketError::Refused)
}

/// Recovers at one bucket.
struct Rescue<'a> {
    source: &'a BucketSource,
    cache: &'a Cache,
    options: &'a RecoverAtOptions,
    job: &'a Job,
}

/// A state with what a root needs.
struct Draft<'r> {
    state: LostState,
    remains: &'r Remains,
    candidate: Candidate,
    rows: Vec<Row>,
    /// Files that had expired and are there.
    back: BTreeSet<ObjectId>,
    with_log: bool,
}

impl Rescue<'_> {
    fn failed(&self, e: crate::work::push::PushError) -> NetError {
        net_error(&self.source.place, e)
    }

    fn run(&self) -> Result<Result<RecoverAtReport, NotRestored>, NetError> {
        let files = &*self.source.files;
        let lost = look(files, self.job).map_err(|e| self.failed(e))?;
        let kind = match &lost {
            RootState::Intact(root) => return self.intact(root),
            RootState::Gone => LostKind::Gone,
            RootState::Damaged { why, .. } => LostKind::Damaged(why.clone()),
        };
        let found = survey(files, self.cache, self.job).map_err(|e| self.failed(e))?;
        if found.is_empty() && kind == LostKind::Gone {
            return Err(self.failed(Trouble::NoRoot.into()));
        }
        let mut report = RecoverAtReport {
            lost: Some(kind),
            ..RecoverAtReport::default()
        };
        let mut drafts = Vec::new();
        for remains in &found {
            drafts.extend(self.drafts(remains, &mut report)?);
        }
        if let Some(id) = &self.options.chosen {
            let chosen = match choose(&drafts, id) {
                Ok(chosen) => chosen,
                Err(why) => return Ok(Err(why)),
            };
            if matches!(lost, RootState::Damaged { tag: None, .. }) {
                return Ok(Err(NotRestored::TooLarge));
            }
            self.write(&lost, chosen, id)?;
            report.restored = Some(chosen.state.clone());
        }
        report.states = drafts.into_iter().map(|draft| draft.state).collect();
        Ok(Ok(report))
    }

    /// Returns what to report if there is an intact root: an earlier run may have restored it.
    fn intact(&self, root: &Root) -> Result<Result<RecoverAtReport, NotRestored>, NetError> {
        let Some(chosen) = &self.options.chosen else {
            return Ok(Ok(RecoverAtReport::default()));
        };
        let mut note = self.note(chosen);
        let earlier = note.noted().map(|noted| noted.id);
        note.forget();
        if !earlier.is_some_and(|id| has_operation(root, &id)) {
            return Ok(Err(NotRestored::Intact));
        }
        let mut client = BucketClient::new(&*self.source.files, self.job);
        client.know(root.repository);
        let view = client.view(root);
        let view = view.ok_or_else(|| self.failed(client.failure().into()))?;
        let refs = view.iter().map(|(key, value)| (key, id_of(value)));
        let state = LostState {
            id: chosen.clone(),
            repository: root.repository.to_string(),
            origin: Origin::Packs,
            operations: root.last.0,
            newest: root.log.last().map(|entry| entry.operation.clone()),
            added: 0,
            unsure: 0,
            unknown: 0,
            left_out: Vec::new(),
            refs: refs
                .filter_map(|(key, id)| Some((key.clone(), id?)))
                .collect(),
            missing_files: 0,
            missing: 0,
            flaw: None,
        };
        Ok(Ok(RecoverAtReport {
            lost: Some(LostKind::Gone),
            restored: Some(state),
            ..RecoverAtReport::default()
        }))
    }

    /// The note of an earlier run that was to restore the same state.
    fn note(&self, chosen: &str) -> AttemptNote {
        let aim = format!("recover {}", chosen.to_ascii_lowercase());
        AttemptNote::open(self.cache.dir(), aim.into_bytes())
    }

    /// Returns the states of a repository, after a check of its packs.
    fn drafts<'r>(
        &self,
        remains: &'r Remains,
        report: &mut RecoverAtReport,
    ) -> Result<Vec<Draft<'r>>, NetError> {
        let path = |name: &Name| name.path(remains.repository);
        report.files += remains.files.len() as u64;
        report.bytes += remains.files.values().sum::<u64>();
        let candidates = remains.candidates();
        let rows: Vec<Row> = remains.rows.values().copied().collect();
        let mut tips: Vec<Vec<ObjectId>> = candidates.iter().map(view_tips).collect();
        tips.extend(
            candidates
                .iter()
                .map(|c| [view_tips(c), log_tips(c)].concat()),
        );
        let checked = verify_rows(
            self.source,
            remains.repository,
            &rows,
            &tips,
            &MayBeAbsent {
                purges: remains.purges.clone(),
                expired: remains.expired.clone(),
            },
            self.job,
        )?;
        let unreadable = remains.unreadable.iter().chain(&checked.bad);
        report
            .bad
            .extend(unreadable.map(|(name, why)| (path(name), *why)));
        let good = rows
            .into_iter()
            .filter(|row| !checked.bad.contains_key(&row.name));
        let good: Vec<Row> = good.collect();
        let count = candidates.len();
        let drafts = candidates
            .into_iter()
            .enumerate()
            .map(|(n, candidate)| Draft {
                state: state_of(remains, &candidate, &checked, n),
                remains,
                rows: good.clone(),
                back: checked.complete.clone(),
                with_log: checked.missing[count + n] == checked.missing[n],
                candidate,
            });
        Ok(drafts.collect())
    }

    fn write(&self, lost: &RootState, draft: &Draft<'_>, chosen: &str) -> Result<(), NetError> {
        let mut note = self.note(chosen);
        let mut stamp = stamp(&self.options.request);
        stamp.id = note.noted().map_or(stamp.id, |earlier| earlier.id);
        let made = draft.remains.root_of(
            &draft.candidate,
            draft.rows.clone(),
            draft.with_log,
            &draft.back,
            &stamp,
            &mut random_bytes,
        );
        let RebuiltRoot { root, pages } = made.map_err(|why| {
            let trouble = Trouble::Other(format!("the new root would be invalid: {why}"));
            self.failed(trouble.into())
        })?;
        let new = RebuiltRoot { root, pages };
        let restored = restore(&*self.source.files, lost, &new, &mut note, self.job);
        let (root, tag) = restored.map_err(|e| self.failed(e))?;
        self.cache.keep_root(&root, &tag);
        Ok(())
    }
}

fn state_of(remains: &Remains, candidate: &Candidate, checked: &RowsReport, n: usize) -> LostState {
    let missing = checked.missing[n];
    let ids = candidate.view.values().map(|value| id_of(value));
    let flaw = match () {
        () if ids.clone().any(|id| id.is_none()) => Some(Flaw::BadView),
        () if remains.has_lost_purges => Some(Flaw::LostPurges),
        () if missing > 0 => Some(Flaw::Incomplete),
        () if checked.contested[n] > 0 => Some(Flaw::Contested),
        () if candidate.is_old => Some(Flaw::Old),
        () => None,
    };
    let refs = candidate.view.keys().zip(ids);
    LostState {
        id: candidate.id(remains.repository),
        repository: remains.repository.to_string(),
        origin: candidate.origin,
        operations: candidate.last.0,
        newest: candidate.newest().cloned(),
        added: candidate.added,
        unsure: candidate.unsure,
        unknown: candidate.unknown,
        left_out: candidate.left_out.clone(),
        refs: refs
            .filter_map(|(key, id)| Some((key.clone(), id?)))
            .collect(),
        missing_files: match candidate.origin {
            Origin::Known(_) => missing_files(remains),
            Origin::Page | Origin::Packs => 0,
        },
        missing,
        flaw,
    }
}

/// Returns how many of the files are missing, or have another length, that the known root names itself.
fn missing_files(remains: &Remains) -> u64 {
    let Some((root, _)) = &remains.known else {
        return 0;
    };
    let pages = root.pages().map(|page| (page.name, u64::from(page.len)));
    let rows = root.rows.iter().map(|row| (row.name, row.len));
    let is_there = |(name, len): &(Name, u64)| remains.files.get(name) == Some(len);
    pages.chain(rows).filter(|file| !is_there(file)).count() as u64
}

fn view_tips(candidate: &Candidate) -> Vec<ObjectId> {
    candidate
        .view
        .values()
        .filter_map(|value| id_of(value))
        .collect()
}

fn log_tips(candidate: &Candidate) -> Vec<ObjectId> {
    let changes = candidate
        .log
        .iter()
        .flat_map(|entry| &entry.operation.changes);
    let values = changes.flat_map(|change| change.old.iter().chain(&change.new));
    let tips: BTreeSet<ObjectId> = values.filter_map(|value| id_of(value)).collect();
    tips.into_iter().collect()
}

/// Returns the state whose id begins with these digits, if it can be restored.
fn choose<'d, 'r>(drafts: &'d [Draft<'r>], id: &str) -> Result<&'d Draft<'r>, NotRestored> {
    let digits = id.to_ascii_lowercase();
    let mut fit = drafts
        .iter()
        .filter(|draft| draft.state.id.starts_with(&digits));
    let (first, second) = (fit.next().filter(|_| !id.is_empty()), fit.next());
    let none = |ambiguous| NotRestored::NoState {
        id: id.to_owned(),
        ambiguous,
    };
    let chosen = match (first, second) {
        (None, _) => return Err(none(false)),
        (Some(_), Some(_)) => return Err(none(true)),
        (Some(chosen), None) => chosen,
    };
    match chosen.state.flaw {
        None => Ok(chosen),
        Some(flaw) => Err(NotRestored::Flawed {
            id: chosen.state.id.clone(),
            flaw,
            missing: chosen.state.missing,
        }),
    }
}

#[cfg(test)]
mod tests;
