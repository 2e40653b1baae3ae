//! Pushes that lack content: what is absent here is fetched from another remote, and then pushed.

use super::caller::Caller;
use super::error::OpsError;
use super::remote::Remote;
use super::supply::Suppliers;
use crate::session::NetError;
use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::ObjectType;
use dmv_core::object::name::RepoPath;
use dmv_core::object::root::{Lack, Root};
use dmv_core::reach::{Detail, Filter, Reach};
use dmv_core::repo::{OfferedRefs, RefUpdate, Repo, RepoError};
use std::collections::HashSet;

/// The most objects that are fetched before a push is tried again.
const MOST: usize = 1 << 20;

/// What a push sends, as far as it has got.
#[derive(Debug, Default)]
pub struct PushGoal {
    /// The commits that refs of the remote are to have.
    tips: Vec<ObjectId>,
    /// Those that they have.
    there: Vec<ObjectId>,
}

impl PushGoal {
    /// Notes what a push will send to a remote that offers these refs.
    pub fn note<'u>(
        &mut self,
        updates: impl IntoIterator<Item = &'u RefUpdate>,
        offered: &OfferedRefs,
    ) {
        self.tips = updates
            .into_iter()
            .filter_map(|update| update.new)
            .collect();
        self.there = offered.refs.iter().map(|(_, id)| *id).collect();
    }
}

/// Runs `push`. If it lacks content that another remote has, fetches this and runs it again.
///
/// Fails with [`OpsError::Absent`] if no remote has it.
pub fn with_content<T>(
    repo: &Repo,
    to: &Remote,
    caller: &dyn Caller,
    job: &Job,
    mut push: impl FnMut(&mut PushGoal) -> Result<T, OpsError>,
) -> Result<T, OpsError> {
    let mut goal = PushGoal::default();
    let mut suppliers: Option<Suppliers<'_>> = None;
    loop {
        let failed = match push(&mut goal) {
            Err(failed) if lacks_content(&failed) => failed,
            done => {
                // The push says what matters of remotes that did not answer.
                suppliers.map(Suppliers::finish);
                return done;
            }
        };
        let mut lacks = absent(repo, &goal, job)?;
        if lacks.is_empty() {
            // What a bucket has given up is not below what it lacks.
            lacks = told(&failed);
        }
        if lacks.is_empty() {
            // What the remote asks for is not what it was told of.
            return Err(failed);
        }
        let mut asked = match suppliers.take() {
            Some(asked) => asked,
            None => Suppliers::new(repo, caller, job)?.without(to),
        };
        let count = lacks.len();
        let left = asked.fetch(lacks)?;
        if left.len() == count {
            return Err(not_supplied(repo, asked, left, failed, job));
        }
        suppliers = Some(asked);
        job.begin_part();
    }
}

/// Whether a push has failed because content is absent here. Commits are fetched by `fetch`.
fn lacks_content(e: &OpsError) -> bool {
    let OpsError::Session(e) = e else {
        return false;
    };
    match &e.source {
        NetError::Lacking(objects) => objects.iter().all(|(ty, _)| *ty != ObjectType::Commit),
        _ => false,
    }
}

/// Returns what a failed push has named as absent.
fn told(e: &OpsError) -> Vec<Lack> {
    let OpsError::Session(e) = e else {
        return Vec::new();
    };
    let NetError::Lacking(objects) = &e.source else {
        return Vec::new();
    };
    let objects = objects.iter().map(|(ty, id)| lack(*ty, *id));
    objects.collect()
}

fn lack(ty: ObjectType, id: ObjectId) -> Lack {
    Lack {
        path: RepoPath::root(),
        root: Root::Object(ty, id),
    }
}

/// Returns what of a push is absent here.
fn absent(repo: &Repo, goal: &PushGoal, job: &Job) -> Result<Vec<Lack>, RepoError> {
    let filter = Filter {
        dropped: repo.slice()?.purged.keys().copied().collect(),
        ..Filter::default()
    };
    let (tips, there) = (goal.tips.iter().copied(), goal.there.iter().copied());
    let mut reach = Reach::filtered(tips, there, Detail::All, filter);
    let refused = repo.store().refused();
    let (mut lacks, mut seen) = (Vec::new(), HashSet::new());
    while let Some(found) = reach.next(repo.store())? {
        job.check()?;
        let is_here = found.here || refused.contains(&found.id);
        if !is_here && seen.insert(found.id) {
            lacks.push(lack(found.ty, found.id));
        }
        if lacks.len() >= MOST {
            break;
        }
    }
    Ok(lacks)
}

/// Returns the failure where no remote has given anything.
fn not_supplied(
    repo: &Repo,
    asked: Suppliers<'_>,
    mut left: Vec<Lack>,
    failed: OpsError,
    job: &Job,
) -> OpsError {
    if let Some(first) = left.first_mut() {
        // A path is a courtesy: without one, the object is named.
        let ids = HashSet::from([first.root.id()]);
        let uses = repo.uses_of(&ids, job).unwrap_or_default();
        if let Some((path, _)) = uses.into_iter().next() {
            first.path = path;
        }
    }
    let absent = asked.absent(left);
    if absent.peers.is_empty() {
        failed
    } else {
        OpsError::Absent(Box::new(absent))
    }
}
