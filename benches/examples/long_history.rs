//! Makes a repository with a long history, and the same for Git: for measuring `log`.
//!
//! `long_history DIR COMMITS | git fast-import` fills DIR with a new repository, and the Git
//! repository of the current directory. Each commit changes one of 1,000 files in 100 directories. Only
//! metadata is made: the files' content is in neither store of `dmv`.
//!
//! `long_history DIR COMMITS content` makes the content, too, so that the history can be pushed.
//!
//! `long_history DIR COMMITS single` makes each commit by itself, with the content of its file, as if a
//! user had made them one by one.

// It is a program; its output is a stream for another one.
#![allow(clippy::print_stdout)]

use dmv_core::hash::ObjectId;
use dmv_core::object::commit::{Commit, Person};
use dmv_core::object::name::SafeName;
use dmv_core::object::tree::{Kind, TreeBuilder, TreeEntry};
use dmv_core::object::{ObjectType, ObjectWrite};
use dmv_core::refs::testing;
use dmv_core::refs::{Change, Effect, Timestamp};
use dmv_core::repo::{OperationRequest, Repo};
use dmv_core::store::MetaWriter;
use std::error::Error;
use std::path::{Path, PathBuf};

const DIRS: usize = 100;
const FILES: usize = 10;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Outcome {
    let mut args = std::env::args_os().skip(1);
    let dir = PathBuf::from(args.next().ok_or("DIR is missing")?);
    let commits: u64 = args
        .next()
        .and_then(|n| n.into_string().ok())
        .ok_or("COMMITS is missing")?
        .parse()?;
    let repo = Repo::init(&dir, "main", false, request("init"))?;
    let how = args.next().unwrap_or_default();
    if how == "single" {
        drop(repo);
        return one_by_one(&dir, commits);
    }
    let with_content = how == "content";
    let writer = testing::writer(repo.store())?;
    let mut meta = MetaWriter::new(&writer);
    let mut state = vec![[0u64; FILES]; DIRS];
    let mut dirs = Vec::new();
    if with_content {
        meta.put(ObjectType::Chunk, b"0")?;
    }
    for files in &state {
        dirs.push(directory(&mut meta, files)?);
    }
    let mut parent: Option<ObjectId> = None;
    println!("reset refs/heads/main");
    for n in 1..=commits {
        // A fixed mixture, the same in every run.
        let at = (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) as usize;
        let (d, f) = (at % DIRS, at / DIRS % FILES);
        state[d][f] = n;
        if with_content {
            meta.put(ObjectType::Chunk, n.to_string().as_bytes())?;
        }
        dirs[d] = directory(&mut meta, &state[d])?;
        parent = Some(commit(&mut meta, &dirs, parent, n)?);
        tell(n, d, f);
    }
    meta.flush()?;
    drop(meta);
    let sealed = writer.finish()?;
    let new = parent.map(|id| id.as_bytes().to_vec());
    let change = |key: &str| Change {
        key: key.to_owned(),
        old: None,
        new: new.clone(),
    };
    let changes = vec![change("branch/main"), change("worktree/main/base")];
    repo.publish(request("history"), Some(sealed), changes, Effect::Kept)?;
    Ok(())
}

/// Prints a commit for `git fast-import`.
fn tell(n: u64, d: usize, f: usize) {
    println!("commit refs/heads/main\ncommitter A <a@b> {n} +0000\ndata 1\nx");
    println!("M 100644 inline d{d:02}/f{f}\ndata <<EOF\n{n}\nEOF\n");
}

/// Commits after which the repository is opened anew. A process keeps the index table of each of its
/// commits, and one that opens the repository reads merged tables.
const OPENED_FOR: u64 = 500;

/// Makes the same history with one publication for each commit.
fn one_by_one(dir: &Path, commits: u64) -> Outcome {
    let mut repo = Repo::open(dir)?;
    let mut state = vec![[0u64; FILES]; DIRS];
    let mut dirs = Vec::new();
    let mut parent: Option<ObjectId> = None;
    println!("reset refs/heads/main");
    for n in 1..=commits {
        let at = (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) as usize;
        let (d, f) = (at % DIRS, at / DIRS % FILES);
        if n % OPENED_FOR == 0 {
            repo = Repo::open(dir)?;
        }
        let writer = testing::writer(repo.store())?;
        let mut meta = MetaWriter::new(&writer);
        if dirs.is_empty() {
            meta.put(ObjectType::Chunk, b"0")?;
            for files in &state {
                dirs.push(directory(&mut meta, files)?);
            }
        }
        state[d][f] = n;
        meta.put(ObjectType::Chunk, n.to_string().as_bytes())?;
        dirs[d] = directory(&mut meta, &state[d])?;
        let made = commit(&mut meta, &dirs, parent, n)?;
        meta.flush()?;
        drop(meta);
        let sealed = writer.finish()?;
        let change = |key: &str| Change {
            key: key.to_owned(),
            old: parent.map(|id| id.as_bytes().to_vec()),
            new: Some(made.as_bytes().to_vec()),
        };
        let changes = vec![change("branch/main"), change("worktree/main/base")];
        repo.publish(request("commit"), Some(sealed), changes, Effect::Kept)?;
        parent = Some(made);
        tell(n, d, f);
    }
    Ok(())
}

fn request(command: &str) -> OperationRequest {
    OperationRequest {
        time: Timestamp {
            seconds: 0,
            nanos: 0,
            tz_minutes: 0,
        },
        who: String::new(),
        command: command.to_owned(),
    }
}

fn directory(meta: &mut dyn ObjectWrite, files: &[u64; FILES]) -> Outcome<(ObjectId, u64)> {
    let mut builder = TreeBuilder::new();
    for (f, n) in files.iter().enumerate() {
        let content = n.to_string();
        let entry = TreeEntry {
            name: SafeName::new(format!("f{f}").as_bytes())?,
            kind: Kind::File,
            is_list: false,
            id: ObjectType::Chunk.id_of(content.as_bytes()),
            size: content.len() as u64,
            files: 0,
            attrs: None,
        };
        builder.push(&entry, meta)?;
    }
    let made = builder.finish(meta)?;
    Ok((made.id, made.bytes))
}

fn commit(
    meta: &mut dyn ObjectWrite,
    dirs: &[(ObjectId, u64)],
    parent: Option<ObjectId>,
    n: u64,
) -> Outcome<ObjectId> {
    let mut builder = TreeBuilder::new();
    for (d, (id, bytes)) in dirs.iter().enumerate() {
        let entry = TreeEntry {
            name: SafeName::new(format!("d{d:02}").as_bytes())?,
            kind: Kind::Directory,
            is_list: false,
            id: *id,
            size: *bytes,
            files: FILES as u64,
            attrs: None,
        };
        builder.push(&entry, meta)?;
    }
    let tree = builder.finish(meta)?;
    let person = Person {
        name: "A".into(),
        email: "a@b".into(),
        seconds: n as i64,
        nanos: 0,
        tz_minutes: 0,
    };
    let commit = Commit {
        tree: tree.id,
        tree_bytes: tree.bytes,
        tree_files: tree.files,
        parents: parent.into_iter().collect(),
        generation: n,
        author: person.clone(),
        committer: person,
        message: "x".into(),
        extras: Vec::new(),
        signature: None,
    };
    Ok(meta.put(ObjectType::Commit, &commit.encode()?)?)
}
