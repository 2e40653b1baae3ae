//! Scratch repositories, and actions that many tests need.

use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::list::Blob;
use dmv_core::object::name::RepoPath;
use dmv_core::object::tree::{Kind, TreeEntry};
use dmv_core::refs::Timestamp;
use dmv_core::repo::{CommitOptions, CommitReport, OperationRequest, Repo, RepoError, Who};
use dmv_core::worktree::select::Paths;
use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use tempfile::TempDir;

/// An entry of a tree, without the fields that only the store needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A file: its content, and whether it is executable.
    File(Vec<u8>, bool),
    /// A symlink: its target.
    Symlink(Vec<u8>),
    /// An empty directory.
    EmptyDir,
}

/// Files by path.
pub type Files = BTreeMap<Vec<u8>, Item>;

/// Makes a temporary directory, in memory if possible. Nothing in it outlives the test.
pub fn fast_dir() -> io::Result<TempDir> {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    }
}

/// Returns the author of a test's operations.
pub fn request(command: &str) -> OperationRequest {
    OperationRequest {
        time: Timestamp {
            seconds: 1_700_000_000,
            nanos: 0,
            tz_minutes: 0,
        },
        who: "test".into(),
        command: command.into(),
    }
}

/// Commits the complete worktree, even if nothing changed.
pub fn commit(repo: &Repo, message: &str) -> Result<CommitReport, RepoError> {
    let options = CommitOptions {
        message: Some(message.to_owned()),
        author: None,
        date: None,
        committer: Who {
            name: "Test".into(),
            email: String::new(),
        },
        select: &Paths::default(),
        amend: false,
        allow_empty: true,
        allow_markers: false,
        refuse_large: None,
        settings: Default::default(),
        request: request("commit"),
    };
    repo.commit(options, &Job::default())
}

/// Reads everything in a commit's tree with its content. Every read is verified.
pub fn files_of(repo: &Repo, commit: &ObjectId) -> Result<Files, RepoError> {
    let tree = repo.read_commit(commit)?.tree;
    let mut entries: Vec<(Vec<u8>, TreeEntry)> = Vec::new();
    repo.list(&RepoPath::root(), tree, true, &mut |listed| {
        entries.push((listed.path.as_bytes().to_vec(), listed.entry));
        Ok(ControlFlow::Continue(()))
    })?;
    let mut files = Files::new();
    for (path, entry) in entries {
        let item = match entry.kind {
            Kind::File | Kind::Executable => {
                let mut bytes = Vec::new();
                let (id, is_list, size) = (entry.id, entry.is_list, entry.size);
                repo.cat(Blob { id, is_list, size }, None, &mut bytes)?;
                Item::File(bytes, entry.kind == Kind::Executable)
            }
            Kind::Symlink => Item::Symlink(repo.link_target(&entry)?),
            Kind::Directory | Kind::Conflict => Item::EmptyDir,
        };
        files.insert(path, item);
    }
    Ok(files)
}

/// Reads everything in a directory on disk except `.dmv`.
pub fn files_in(dir: &Path) -> io::Result<Files> {
    let mut files = Files::new();
    collect(dir, b"", &mut files)?;
    files.remove(b"".as_slice());
    Ok(files)
}

fn collect(dir: &Path, at: &[u8], files: &mut Files) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::PermissionsExt;
    let mut empty = true;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == ".dmv" {
            continue;
        }
        empty = false;
        let path = dmv_core::worktree::join(at, name.as_bytes());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            collect(&entry.path(), &path, files)?;
        } else if kind.is_symlink() {
            let target = std::fs::read_link(entry.path())?;
            files.insert(path, Item::Symlink(target.as_os_str().as_bytes().to_vec()));
        } else {
            let executable = entry.metadata()?.permissions().mode() & 0o100 != 0;
            files.insert(path, Item::File(std::fs::read(entry.path())?, executable));
        }
    }
    if empty {
        files.insert(at.to_vec(), Item::EmptyDir);
    }
    Ok(())
}
