//! Getting absent content from the remotes, as `dmv get` does, on a thread of its own.

use crate::program::ShownFailure;
use crate::site::Site;
use crate::words::{bytes, count, shown};
use dmv_core::job::Job;
use dmv_core::object::name::RepoPath;
use dmv_core::object::root::{Lack, Root};
use dmv_core::repo::{LackOf, Location, Repo, RepoError, Selection};
use dmv_core::subset::Subset;
use dmv_core::threads;
use dmv_net::ops::{OpsError, Suppliers};
use std::sync::Arc;

/// Starts to get the content at a place. Returns what is told at once.
pub fn start(
    site: &Arc<Site>,
    repo: Arc<Repo>,
    path: RepoPath,
    located: Location,
) -> Result<String, ShownFailure> {
    let all = Subset::everything();
    let wanted = Selection {
        path: &path,
        located: &located,
        subset: &all,
    };
    let lacks = repo
        .lacking(wanted, LackOf::Content)
        .map_err(|e| site.program.explain(e))?;
    if lacks.is_empty() {
        return Ok("all of this content is already here".to_owned());
    }
    let job = Arc::new(Job::default());
    let size = size_of(&lacks);
    if !site.getting.begin(path.as_bytes(), size, job.clone()) {
        return Err(ShownFailure {
            code: "busy".to_owned(),
            exit: 11,
            message: "other content is on its way; try again when it is here".to_owned(),
            hint: None,
        });
    }
    let text = format!("getting {} ({})", shown(path.as_bytes()), bytes(size));
    let for_thread = site.clone();
    let started = threads::start(move || {
        let site = for_thread;
        let got = get(&site, &repo, &path, &located, &job);
        site.forget();
        site.getting.end(got);
    });
    match started {
        Ok(_) => Ok(text),
        Err(e) => {
            let told = site.program.explain(RepoError::from(e));
            site.getting.end(Err(told.clone()));
            Err(told)
        }
    }
}

/// What `dmv get` does.
fn get(
    site: &Site,
    repo: &Repo,
    path: &RepoPath,
    located: &Location,
    job: &Arc<Job>,
) -> Result<String, ShownFailure> {
    let words = |e: RepoError| site.program.explain(e);
    let caller = site.program.caller();
    let of_net = |e| site.program.explain_ops(OpsError::Net(e));
    let mut suppliers = Suppliers::new(repo, &*caller, job).map_err(of_net)?;
    let all = Subset::everything();
    let wanted = Selection {
        path,
        located,
        subset: &all,
    };
    let (mut files, mut size) = (0, 0);
    loop {
        let lacks = repo.lacking(wanted, LackOf::Content).map_err(words)?;
        if lacks.is_empty() {
            break;
        }
        let fetched = suppliers.fetch(lacks.clone());
        let left = fetched.map_err(|e| site.program.explain_ops(e))?;
        if !left.is_empty() {
            let absent = OpsError::Absent(Box::new(suppliers.absent(left)));
            return Err(site.program.explain_ops(absent));
        }
        files += lacks.iter().map(files_of).sum::<u64>();
        size += size_of(&lacks);
    }
    repo.no_longer_dropped(wanted).map_err(words)?;
    suppliers.finish();
    Ok(format!(
        "{} fetched ({})",
        count(files, "file", "files"),
        bytes(size)
    ))
}

fn files_of(lack: &Lack) -> u64 {
    match lack.root {
        Root::Blob(_) => 1,
        Root::Directory { files, .. } => files,
        Root::Object(..) => 0,
    }
}

fn size_of(lacks: &[Lack]) -> u64 {
    let size = |lack: &Lack| match lack.root {
        Root::Blob(blob) => blob.size,
        Root::Directory { bytes, .. } => bytes,
        Root::Object(..) => 0,
    };
    lacks.iter().map(size).sum()
}
