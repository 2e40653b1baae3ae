//! Creating a repository.

use crate::path::{PathContext, PathError};
use crate::platform::bytes_of;
use crate::refs::{Effect, Refs, check_new_ref_name};
use crate::repo::base::error::{PlaceError, RepoError};
use crate::repo::base::layout::{DMV_DIR, Format, REFS_FILE};
use crate::repo::base::publish::{OperationRequest, set};
use crate::repo::base::repo::Repo;
use crate::repo::base::transaction::Transaction;
use crate::repo::base::vacancy::refuse_inside;
use crate::repo::base::{keys, layout, open};
use crate::store::{LogPack, Owners, RepositoryId};
use crate::vfs::{OsVfs, Vfs};
use std::path::Path;
use std::sync::Arc;

impl Repo {
    /// Creates a repository in `dir`, on a branch without commits. Creates `dir` if it is missing.
    ///
    /// With `bare`, `dir` itself becomes the store, without a worktree. A failed attempt leaves nothing
    /// that counts as a repository. Fails with [`PlaceError::Exists`]
    /// if there is one.
    pub fn init(
        dir: &Path,
        branch: &str,
        bare: bool,
        request: OperationRequest,
    ) -> Result<Repo, RepoError> {
        Repo::init_sharing(dir, branch, bare, &[], request)
    }

    /// Creates a repository that may [share](Repo::share_packs) packs of the repositories
    /// `shared`.
    pub fn init_sharing(
        dir: &Path,
        branch: &str,
        bare: bool,
        shared: &[RepositoryId],
        request: OperationRequest,
    ) -> Result<Repo, RepoError> {
        check_new_ref_name(branch)?;
        let dir = std::path::absolute(dir)
            .context("find", dir)
            .map_err(RepoError::Io)?;
        refuse_inside(&dir)?;
        let dmv = if bare { dir.clone() } else { dir.join(DMV_DIR) };
        if dmv.join("format").exists() {
            return Err(PlaceError::Exists(dmv).into());
        }
        if layout::holds_packs(&dmv) {
            // An interrupted attempt leaves no such packs: they hold somebody's commits.
            return Err(PlaceError::NoFormat(dmv).into());
        }
        let io = |action, path: &Path| {
            let path = path.to_owned();
            move |source| RepoError::Io(PathError::new(action, path, source))
        };
        let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
        let packs = dmv.join("packs");
        let worktrees = dmv.join("worktrees");
        let own = if bare {
            worktrees
        } else {
            worktrees.join(layout::MAIN)
        };
        // Only what is in it is shared as it is: its own permissions come from the umask.
        std::fs::create_dir_all(&dmv).map_err(io("create", &dmv))?;
        layout::check_parts(&dmv)?;
        for part in [&packs, &dmv.join("index"), &own] {
            vfs.create_dir_all(part).map_err(io("create", part))?;
        }
        let db = dmv.join(REFS_FILE);
        // An interrupted attempt leaves nothing of value, because `format` is written last.
        let files = [
            db.clone(),
            db.with_extension("db-wal"),
            db.with_extension("db-shm"),
            db.with_extension("db-journal"),
        ];
        // Remove its log pack, too: with a second pack, the directory would seem to hold somebody's
        // commits.
        for left in files.into_iter().chain(layout::packs_in(&dmv)) {
            let _ = std::fs::remove_file(left);
        }
        let id = RepositoryId::random();
        let owners = Owners::sharing(id, shared.iter().copied());
        let owners = owners.unwrap_or(Owners::alone(id));
        LogPack::create(&*vfs, &packs, id)?;
        let refs = Refs::create(&db)?;
        vfs.sync_dir(&dmv).map_err(io("sync", &dmv))?;
        let worktree = (!bare).then(|| (dir.clone(), layout::MAIN.to_owned()));
        let repo = open::assemble(dmv, owners.clone(), vfs, refs, worktree)?;
        let head = keys::head_key(layout::MAIN);
        let mut changes = vec![set(head, format!("branch/{branch}").into_bytes())];
        if !bare {
            let path = bytes_of(&dir).to_vec();
            changes.push(set(keys::path_key(layout::MAIN), path));
        }
        let tx = Transaction::begin(&repo, &request).with(changes);
        tx.publish(Effect::Kept)?;
        Format { owners }.write(&repo.dmv)?;
        repo.vfs.sync_dir(&dir).map_err(io("sync", &dir))?;
        Ok(repo)
    }
}
