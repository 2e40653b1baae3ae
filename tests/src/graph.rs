//! Histories of any shape, made without a worktree: the same commits for DMV and for Git.

use crate::peers::Done;
use dmv_core::hash::ObjectId;
use dmv_core::merge::{Edits, edit_tree, write_blob};
use dmv_core::object::commit::{Commit, Person};
use dmv_core::object::mem::MemObjects;
use dmv_core::object::name::{RepoPath, SafeName};
use dmv_core::object::tree::{Kind, TreeEntry, put_empty_tree};
use dmv_core::object::{ObjectError, ObjectRead, ObjectType, ObjectWrite};
use dmv_core::refs::testing;
use dmv_core::repo::Repo;
use dmv_core::store::{CheckedObject, IncomingObjects};
use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

/// The content of files, by path.
pub type Texts = BTreeMap<String, String>;

/// A commit of a history.
pub struct Made {
    /// Its id for DMV.
    pub id: ObjectId,
    /// Its parents, as positions in the history.
    pub parents: Vec<usize>,
    /// Its files.
    pub files: Texts,
    generation: u64,
}

/// A history, parents before children.
#[derive(Default)]
pub struct Graph {
    objects: Recorder,
    /// The commits.
    pub commits: Vec<Made>,
}

/// Objects in memory, and a list of all of them.
#[derive(Default)]
struct Recorder {
    mem: MemObjects,
    made: Vec<(ObjectType, Vec<u8>)>,
}

impl ObjectRead for Recorder {
    fn read(&self, ty: ObjectType, id: &ObjectId) -> Result<Option<Arc<[u8]>>, ObjectError> {
        self.mem.read(ty, id)
    }
}

impl ObjectWrite for Recorder {
    fn put(&mut self, ty: ObjectType, bytes: &[u8]) -> Result<ObjectId, ObjectError> {
        self.made.push((ty, bytes.to_vec()));
        self.mem.put(ty, bytes)
    }
}

impl Graph {
    /// Adds a commit and returns its position.
    pub fn commit(&mut self, files: Texts, parents: &[usize]) -> Done<usize> {
        let mut edits = Edits::new();
        for (path, text) in &files {
            let blob = write_blob(text.as_bytes(), &mut self.objects)?;
            let entry = TreeEntry {
                name: SafeName::new(b"x").map_err(|e| e.why())?,
                kind: Kind::File,
                is_list: blob.is_list,
                id: blob.id,
                size: blob.size,
                files: 0,
                attrs: None,
            };
            let path = RepoPath::parse(path.as_bytes()).map_err(|e| e.why())?;
            edits.insert(path, Some(entry));
        }
        let root = put_empty_tree(&mut self.objects)?;
        let mut writer = Recorder::default();
        let tree = edit_tree(&self.objects.mem, &mut writer, root, &edits)?;
        for (ty, bytes) in writer.made {
            self.objects.put(ty, &bytes)?;
        }
        let at = self.commits.len();
        let person = Person {
            name: "t".into(),
            email: "t".into(),
            seconds: 1_000_000 + at as i64,
            nanos: 0,
            tz_minutes: 0,
        };
        let generations = parents.iter().map(|n| self.commits[*n].generation);
        let generation = 1 + generations.max().unwrap_or(0);
        let commit = Commit {
            tree: tree.id,
            tree_bytes: tree.bytes,
            tree_files: tree.files,
            parents: parents.iter().map(|n| self.commits[*n].id).collect(),
            generation,
            author: person.clone(),
            committer: person,
            message: format!("c{at}"),
            extras: Vec::new(),
            signature: None,
        };
        let id = self.objects.put(ObjectType::Commit, &commit.encode()?)?;
        self.commits.push(Made {
            id,
            parents: parents.to_vec(),
            files,
            generation,
        });
        Ok(at)
    }

    /// Stores all commits in a repository. No ref names them.
    pub fn store(&self, repo: &Repo) -> Done {
        let mut incoming = IncomingObjects::new(testing::mover(repo.store(), HashSet::new())?);
        for (ty, bytes) in &self.objects.made {
            incoming.add_object(&CheckedObject::new(*ty, bytes.clone())?)?;
        }
        let sealed = incoming.finish()?;
        testing::add_segments(repo.refs(), &sealed.segments, &sealed.relied)?;
        drop(sealed);
        testing::load(repo.store(), repo.refs().catalogue()?)?;
        Ok(())
    }

    /// Returns the position of a commit of DMV.
    pub fn position(&self, id: &ObjectId) -> Option<usize> {
        self.commits.iter().position(|made| made.id == *id)
    }

    /// Passes all commits to a bare repository of Git, as branches `cN`. Returns their ids there.
    pub fn tell(&self, git_dir: &Path) -> Done<Vec<String>> {
        let mut stream = Vec::new();
        for (n, commit) in self.commits.iter().enumerate() {
            writeln!(stream, "commit refs/heads/c{n}\nmark :{}", n + 1)?;
            writeln!(stream, "committer t <t> {} +0000\ndata 0", 1_000_000 + n)?;
            for (at, parent) in commit.parents.iter().enumerate() {
                let word = if at == 0 { "from" } else { "merge" };
                writeln!(stream, "{word} :{}", parent + 1)?;
            }
            writeln!(stream, "deleteall")?;
            for (path, text) in &commit.files {
                writeln!(
                    stream,
                    "M 100644 inline {path}\ndata {}\n{text}",
                    text.len()
                )?;
            }
        }
        let mut child = git_command(git_dir, &["fast-import", "--quiet", "--force"])
            .stdin(Stdio::piped())
            .spawn()?;
        child.stdin.take().ok_or("stdin")?.write_all(&stream)?;
        assert!(child.wait()?.success());
        let mut ids = Vec::new();
        for n in 0..self.commits.len() {
            ids.push(format!("refs/heads/c{n}"));
        }
        let args: Vec<&str> = ["rev-parse"]
            .into_iter()
            .chain(ids.iter().map(String::as_str))
            .collect();
        let told = git(git_dir, &args)?;
        Ok(String::from_utf8(told.stdout)?
            .lines()
            .map(str::to_owned)
            .collect())
    }
}

/// Returns Git on this repository, without the settings of the user.
pub fn git_command(git_dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.arg("--git-dir").arg(git_dir).args(args);
    command
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs Git on this repository.
pub fn git(git_dir: &Path, args: &[&str]) -> Done<Output> {
    Ok(git_command(git_dir, args).output()?)
}

/// Makes a bare repository of Git. Returns `false` if Git is not installed.
pub fn git_init(git_dir: &Path) -> bool {
    let made = git(git_dir, &["init", "--bare", "--quiet"]);
    made.is_ok_and(|made| made.status.success())
}
