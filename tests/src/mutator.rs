//! A user who works in a worktree while a command changes it.
//!
//! Each write of the mutator is a unique **token**, and the mutator never removes or overwrites a
//! token. So at the end each token must be in the worktree or in a commit, whatever the command did
//! meanwhile.

use crate::rng::Rng;
use crate::scratch::{Item, files_in, files_of};
use dmv_core::hash::ObjectId;
use dmv_core::repo::Repo;
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The length of a token in bytes.
const TOKEN_BYTES: usize = 12;

/// A kind of change to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Opens the file and writes at its end.
    Append,
    /// Overwrites the first bytes of the file. Its size stays the same.
    InPlace,
    /// Writes another file and renames it over this one.
    Replace,
    /// Writes into the file and moves it elsewhere.
    Move,
    /// Removes the file, unless it has a token.
    Remove,
    /// Creates the file if it does not exist.
    Create,
    /// Removes the file and makes a directory in its place, with a file in it.
    Directory,
    /// Moves the file's directory elsewhere.
    MoveDirectory,
}

/// All kinds of changes.
pub const CHANGES: [Change; 8] = [
    Change::Append,
    Change::InPlace,
    Change::Replace,
    Change::Move,
    Change::Remove,
    Change::Create,
    Change::Directory,
    Change::MoveDirectory,
];

/// A user at work in the worktree at `root`.
pub struct Mutator {
    root: PathBuf,
    name: u32,
    count: u32,
    /// All tokens that were written.
    pub tokens: BTreeSet<Vec<u8>>,
}

impl Mutator {
    /// Makes a mutator. The `number` must be unique among the mutators of a worktree.
    pub fn new(root: &Path, number: u32) -> Mutator {
        Mutator {
            root: root.to_owned(),
            name: number,
            count: 0,
            tokens: BTreeSet::new(),
        }
    }

    fn token(&mut self) -> Vec<u8> {
        self.count += 1;
        let token = format!("<{:03}:{:06}>", self.name % 1000, self.count).into_bytes();
        debug_assert_eq!(token.len(), TOKEN_BYTES);
        token
    }

    fn note(&mut self, token: Vec<u8>, done: io::Result<()>) -> bool {
        let is_done = done.is_ok();
        if is_done {
            self.tokens.insert(token);
        }
        is_done
    }

    /// Makes a change at `path`, if the current entry allows it. Returns whether it did.
    pub fn change(&mut self, path: &str, change: Change) -> bool {
        let (token, at) = (self.token(), self.root.join(path));
        let done = match change {
            Change::Append => append(&at, &token),
            Change::InPlace => in_place(&at, &token),
            Change::Replace => replace(&at, &token),
            Change::Move => {
                let to = self
                    .root
                    .join(format!("moved-{}-{}", self.name, self.count));
                append(&at, &token).and_then(|()| move_to(&at, &to))
            }
            Change::Remove => return is_without_token(&at) && fs::remove_file(&at).is_ok(),
            Change::Create => create(&at, &token),
            Change::Directory => {
                if is_without_token(&at) {
                    directory(&at, &token)
                } else {
                    Err(io::ErrorKind::AlreadyExists.into())
                }
            }
            Change::MoveDirectory => {
                let to = self
                    .root
                    .join(format!("moved-{}-{}", self.name, self.count));
                match at.parent().filter(|dir| *dir != self.root) {
                    Some(dir) => append(&at, &token).and_then(|()| move_to(dir, &to)),
                    None => Err(io::ErrorKind::InvalidInput.into()),
                }
            }
        };
        // The token may be written even if the next step failed.
        let may_be_there = matches!(change, Change::Move | Change::MoveDirectory);
        let is_there = done.is_ok() || (may_be_there && holds(&at, &token));
        self.note(token, if is_there { Ok(()) } else { done })
    }

    /// Makes a random change at one of `paths`. Returns whether it did.
    pub fn random(&mut self, rng: &mut Rng, paths: &[String]) -> bool {
        let path = &paths[rng.below(paths.len() as u64) as usize];
        // Users mostly write.
        let change = match rng.below(20) {
            0..=6 => Change::Append,
            7..=10 => Change::InPlace,
            11..=14 => Change::Replace,
            15 => Change::Move,
            16..=17 => Change::Remove,
            18 => Change::Create,
            _ => {
                if rng.one_in(20) {
                    Change::MoveDirectory
                } else {
                    Change::Directory
                }
            }
        };
        self.change(path, change)
    }

    /// Returns the tokens that are neither in the worktree nor in one of `commits`.
    pub fn lost(
        &self,
        repo: &Repo,
        commits: &[ObjectId],
    ) -> Result<Vec<Vec<u8>>, Box<dyn std::error::Error>> {
        let mut left = self.tokens.clone();
        let mut take = |item: &Item| {
            if let Item::File(bytes, _) = item {
                for token in tokens_in(bytes) {
                    left.remove(token);
                }
            }
        };
        files_in(&self.root)?.values().for_each(&mut take);
        for commit in commits {
            files_of(repo, commit)?.values().for_each(&mut take);
        }
        Ok(left.into_iter().collect())
    }
}

/// Returns the parts of `bytes` that look like a token.
pub fn tokens_in(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_token = |window: &&[u8]| {
        let digits = |part: &[u8]| part.iter().all(u8::is_ascii_digit);
        window[0] == b'<'
            && window[4] == b':'
            && window[TOKEN_BYTES - 1] == b'>'
            && digits(&window[1..4])
            && digits(&window[5..TOKEN_BYTES - 1])
    };
    bytes.windows(TOKEN_BYTES).filter(is_token)
}

fn holds(path: &Path, token: &[u8]) -> bool {
    fs::read(path).is_ok_and(|bytes| tokens_in(&bytes).any(|found| found == token))
}

fn is_without_token(path: &Path) -> bool {
    let meta = fs::symlink_metadata(path);
    match meta {
        Ok(meta) if meta.is_symlink() => true,
        Ok(meta) if meta.is_file() => {
            fs::read(path).is_ok_and(|bytes| tokens_in(&bytes).next().is_none())
        }
        _ => false,
    }
}

fn is_file(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_file() {
        Ok(())
    } else {
        Err(io::ErrorKind::InvalidInput.into())
    }
}

fn append(path: &Path, token: &[u8]) -> io::Result<()> {
    is_file(path)?;
    OpenOptions::new().append(true).open(path)?.write_all(token)
}

fn in_place(path: &Path, token: &[u8]) -> io::Result<()> {
    is_file(path)?;
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut there = [0; TOKEN_BYTES];
    file.read_exact_at(&mut there, 0)?;
    match there[0] {
        // There is a token already, or the rest of one.
        b'<' => Err(io::ErrorKind::AlreadyExists.into()),
        _ => file.write_all_at(token, 0),
    }
}

fn replace(path: &Path, token: &[u8]) -> io::Result<()> {
    is_file(path)?;
    let bytes = fs::read(path)?;
    let name = String::from_utf8_lossy(token);
    let beside = path.with_file_name(format!("new{}", name.replace([':', '<', '>'], "-")));
    fs::write(&beside, [&bytes, token].concat())?;
    fs::rename(&beside, path)
}

fn move_to(from: &Path, to: &Path) -> io::Result<()> {
    match fs::symlink_metadata(to) {
        Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => fs::rename(from, to),
    }
}

fn create(path: &Path, token: &[u8]) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    file?.write_all(token)
}

fn directory(path: &Path, token: &[u8]) -> io::Result<()> {
    fs::remove_file(path)?;
    fs::create_dir(path)?;
    fs::write(path.join("in"), token)
}
