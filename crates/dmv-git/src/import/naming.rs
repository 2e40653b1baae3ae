//! What an import names: the branches of the source as those of a remote, new branches and tags.

use super::{ImportOptions, WantedRefs};
use crate::choice::BranchChoice;
use crate::error::GitError;
use crate::id::GitId;
use dmv_core::ObjectId;
use dmv_core::history::is_ancestor;
use dmv_core::repo::{
    ArrivalReport, Head, OfferedRefs, OperationRequest, OwnBranches, RefChange, Repo, RepoError,
};

/// What is new of the branches and tags of a source.
#[derive(Debug, Default)]
pub struct RefNews {
    /// Branches and tags that are new or moved.
    pub refs: Vec<RefChange>,
    /// Branches of the source that moved, but not forward.
    pub rewritten: Vec<RewrittenBranch>,
    /// Tags that name something else in the source. They stay.
    pub moved_tags: Vec<String>,
    /// The keys of recorded branches that the source no longer has.
    pub gone: Vec<String>,
    /// Whether these are forgotten.
    pub pruned: bool,
}

impl RefNews {
    /// Returns whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.refs.is_empty() && self.moved_tags.is_empty() && self.gone.is_empty()
    }
}

/// A recorded branch whose new commit does not come after the old one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RewrittenBranch {
    /// Its key: `remote/REMOTE/NAME`.
    pub key: String,
    /// The commit that it named before.
    pub old: ObjectId,
    /// A branch or tag here that leads to this commit: `branch/NAME` or `tag/NAME`. Without one, only the operation
    /// log does.
    pub kept_by: Option<String>,
}

/// What the wanted refs become here.
pub struct NamePlan<'o> {
    remote: &'o str,
    offered: OfferedRefs,
    ours: OwnBranches,
    news: RefNews,
}

impl<'o> NamePlan<'o> {
    /// Plans the names. `id_of` returns the commit for a wanted ref.
    pub fn new(
        repo: &Repo,
        options: &'o ImportOptions,
        wanted: &WantedRefs,
        head: Option<&str>,
        mut id_of: impl FnMut(&str, &GitId) -> Result<ObjectId, GitError>,
    ) -> Result<NamePlan<'o>, GitError> {
        let (mut offered, mut ours) = (OfferedRefs::default(), OwnBranches::default());
        let mut news = RefNews {
            pruned: options.prune,
            ..RefNews::default()
        };
        let is_first = repo.head_commit()?.is_none();
        let is_known = |branch: &str| -> Result<bool, RepoError> {
            let recorded = repo.ref_at(&format!("remote/{}/{branch}", options.remote))?;
            Ok(recorded.is_some())
        };
        for (key, git) in &wanted.refs {
            let id = id_of(key, git)?;
            let here = repo.ref_at(key)?;
            match key.split_once('/') {
                // One that came before and is not here was deleted here.
                Some(("branch", branch)) if here.is_none() && (is_first || !is_known(branch)?) => {
                    ours.make.push((branch.to_owned(), id));
                }
                Some(("tag", tag)) if here.is_some_and(|here| here != id) => {
                    news.moved_tags.push(tag.to_owned());
                }
                _ => {}
            }
            offered.refs.push((key.clone(), id));
        }
        let is_taken = |head: &&str| wanted.refs.contains_key(&format!("branch/{head}"));
        offered.head = head.filter(is_taken).map(str::to_owned);
        let choice = BranchChoice::parse(&options.branches)?;
        let mut gone = repo.gone_from(&options.remote, &offered)?;
        gone.retain(|name| {
            !wanted.branches.contains(name) && choice.wants(&format!("branch/{name}"))
        });
        let key_of = |name: &String| format!("remote/{}/{name}", options.remote);
        news.gone = gone.iter().map(key_of).collect();
        if options.prune {
            ours.forget = gone;
        }
        Ok(NamePlan {
            remote: &options.remote,
            offered,
            ours,
            news,
        })
    }

    /// Returns what [`publish`](Self::publish) would do. `is_forward` says whether a recorded branch, by its name in
    /// the source, would move forward from a commit.
    pub fn foresee(
        mut self,
        repo: &Repo,
        mut is_forward: impl FnMut(&str, &ObjectId) -> Result<bool, GitError>,
    ) -> Result<RefNews, GitError> {
        let refs = repo.foresee_remote(self.remote, &self.offered, &self.ours)?;
        let prefix = format!("remote/{}/", self.remote);
        let named = repo.offered()?;
        for change in &refs {
            if let Some(branch) = change.key.strip_prefix(&prefix)
                && let Some(old) = change.old
                && !is_forward(branch, &old)?
            {
                self.news
                    .rewritten
                    .push(rewritten(repo, &named, change, old)?);
            }
        }
        self.news.refs = refs;
        Ok(self.news)
    }

    /// Names the commits, of which there are `commits` new ones, and writes the files of a first branch, in one
    /// operation. Returns why files were not written.
    pub fn publish(
        mut self,
        repo: &Repo,
        options: &ImportOptions,
        commits: u64,
        request: &OperationRequest,
        job: &dmv_core::job::Job,
    ) -> Result<(RefNews, Option<RepoError>), GitError> {
        self.ours.imported = Some(commits);
        let arrival = self.arrive(repo, options, request, job)?;
        let named = repo.offered()?;
        for change in &arrival.refs {
            if change.key.starts_with("remote/")
                && let (Some(old), Some(new)) = (change.old, change.new)
                && !is_ancestor(repo.objects(), &old, &new)?
            {
                self.news
                    .rewritten
                    .push(rewritten(repo, &named, change, old)?);
            }
        }
        self.news.refs = arrival.refs;
        Ok((self.news, arrival.written.and_then(Result::err)))
    }

    fn arrive(
        &mut self,
        repo: &Repo,
        options: &ImportOptions,
        request: &OperationRequest,
        job: &dmv_core::job::Job,
    ) -> Result<ArrivalReport, RepoError> {
        let (offered, ours) = (&self.offered, &mut self.ours);
        // A repository without any commit goes to the branch that the source is on.
        if repo.head_commit()?.is_none()
            && let Some(branch) = &offered.head
        {
            let has_worktree = repo.worktree_root().is_some();
            if let Some(how) = options.check_out.as_ref().filter(|_| has_worktree) {
                return repo.note_remote_and_check_out(
                    self.remote,
                    offered,
                    ours,
                    branch,
                    how,
                    job,
                );
            }
            ours.head = Some(Head::Branch(branch.clone()));
        }
        let refs = repo.note_remote(self.remote, offered, ours, request)?;
        let written = None;
        Ok(ArrivalReport { refs, written })
    }
}

/// Finds a branch or tag among `named` that has the commits of a rewritten branch.
fn rewritten(
    repo: &Repo,
    named: &OfferedRefs,
    change: &RefChange,
    old: ObjectId,
) -> Result<RewrittenBranch, GitError> {
    let mut kept_by = None;
    for (key, tip) in &named.refs {
        if is_ancestor(repo.objects(), &old, tip)? {
            kept_by = Some(key.clone());
            break;
        }
    }
    Ok(RewrittenBranch {
        key: change.key.clone(),
        old,
        kept_by,
    })
}
