//! What a trial leaves: all files, and what every repository names. And whether that may be.

use crate::place::Outcome;
use dmv_core::hash::ObjectId;
use dmv_core::repo::Repo;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A file or symlink; directories are not compared.
#[derive(Clone, PartialEq, Eq)]
pub enum Item {
    File(Vec<u8>, bool),
    Symlink(Vec<u8>),
}

/// A value of a repository's view.
#[derive(Clone, PartialEq, Eq)]
pub struct Value {
    raw: Vec<u8>,
    /// The same without what differs from run to run: a commit by its tree and message.
    meaning: String,
}

/// Everything that a command can change, but for what is stored.
#[derive(Clone, Default)]
pub struct State {
    pub files: BTreeMap<PathBuf, Item>,
    /// By repository: its view, or why it cannot be read.
    pub repos: BTreeMap<PathBuf, Result<BTreeMap<String, Value>, String>>,
}

impl State {
    /// Reads the state of everything in a directory.
    pub fn of(now: &Path) -> Outcome<State> {
        let mut state = State::default();
        state.collect(now, Path::new(""))?;
        Ok(state)
    }

    /// Takes out what worktrees note of their last command's steps.
    pub fn forget_steps(&mut self) {
        for view in self.repos.values_mut().flatten() {
            view.retain(|key, _| !key.ends_with("/steps") && !key.ends_with("/begun"));
        }
    }

    fn collect(&mut self, now: &Path, at: &Path) -> Outcome {
        let dir = now.join(at);
        let is_bare = dir.join("packs").is_dir() || is_begun_clone(&dir);
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            let name = entry.file_name();
            let path = at.join(&name);
            let kind = entry.file_type()?;
            if kind.is_dir() && name == ".dmv" {
                self.repository(now, at);
                self.settings(now, &path)?;
            } else if kind.is_dir() && !is_bare {
                self.collect(now, &path)?;
            } else if !is_bare {
                self.file(now, path)?;
            }
        }
        if is_bare {
            self.repository(now, at);
            self.settings(now, at)?;
        }
        Ok(())
    }

    /// Of a repository's own files, those that nothing else can be compared by.
    fn settings(&mut self, now: &Path, dmv: &Path) -> Outcome {
        let config = dmv.join("config.toml");
        if now.join(&config).exists() {
            self.file(now, config)
        } else {
            Ok(())
        }
    }

    fn file(&mut self, now: &Path, path: PathBuf) -> Outcome {
        let full = now.join(&path);
        let meta = fs::symlink_metadata(&full)?;
        let item = if meta.is_symlink() {
            Item::Symlink(fs::read_link(&full)?.as_os_str().as_bytes().to_vec())
        } else {
            Item::File(fs::read(&full)?, meta.permissions().mode() & 0o100 != 0)
        };
        self.files.insert(path, item);
        Ok(())
    }

    fn repository(&mut self, now: &Path, at: &Path) {
        let view = view(&now.join(at)).map_err(|e| e.to_string());
        self.repos.insert(at.to_owned(), view);
    }

    /// What differs from a state that must have been reached, if anything.
    pub fn differs(&self, wanted: &State) -> Option<String> {
        self.differs_in_files(wanted)
            .or_else(|| self.differs_in_views(wanted))
    }

    /// The same for files alone.
    pub fn differs_in_files(&self, wanted: &State) -> Option<String> {
        let files: BTreeSet<&PathBuf> = self.files.keys().chain(wanted.files.keys()).collect();
        for path in files.into_iter().filter(|path| !is_temporary(path)) {
            if self.files.get(path) != wanted.files.get(path) {
                let (is, should) = (shown(self.files.get(path)), shown(wanted.files.get(path)));
                return Some(format!("{} is {is}, not {should}", path.display()));
            }
        }
        None
    }

    fn differs_in_views(&self, wanted: &State) -> Option<String> {
        let repos: BTreeSet<&PathBuf> = self.repos.keys().chain(wanted.repos.keys()).collect();
        for repo in repos {
            let (is, should) = (meanings(self, repo), meanings(wanted, repo));
            if is != should {
                let (is, should) = (is.unwrap_or_default(), should.unwrap_or_default());
                let keys: BTreeSet<_> = is.keys().chain(should.keys()).copied().collect();
                let differ = keys
                    .into_iter()
                    .filter(|key| is.get(key) != should.get(key));
                let differ = differ.map(|key| (key, is.get(key), should.get(key)));
                let differ: Vec<_> = differ.collect();
                return Some(format!(
                    "{} (key, is, should be): {differ:?}",
                    repo.display()
                ));
            }
        }
        None
    }

    /// Whether a command that was cut off may leave this: of each thing, as before or as after.
    pub fn between(&self, before: &State, after: &State) -> Result<(), String> {
        self.files_between(before, after)?;
        self.views_between(before, after)
    }

    /// The same for files alone.
    pub fn files_between(&self, before: &State, after: &State) -> Result<(), String> {
        let files = before.files.keys().chain(after.files.keys());
        let files: BTreeSet<&PathBuf> = files.chain(self.files.keys()).collect();
        for path in files.into_iter().filter(|path| !is_temporary(path)) {
            let (old, new) = (before.files.get(path), after.files.get(path));
            let is = self.files.get(path);
            if is != old && is != new && !(old.is_none() && begins(is, new, path)) {
                let (is, old, new) = (shown(is), shown(old), shown(new));
                return Err(format!("{}: {is}, neither {old} nor {new}", path.display()));
            }
        }
        Ok(())
    }

    fn views_between(&self, before: &State, after: &State) -> Result<(), String> {
        for (repo, old) in &before.repos {
            let new = after.repos.get(repo);
            match (old, self.repos.get(repo), new) {
                (Ok(old), Some(Ok(is)), Some(Ok(new))) => {
                    may_be(is, old, new).map_err(|e| format!("{}: {e}", repo.display()))?
                }
                (Err(_), ..) | (.., None) => {}
                (Ok(_), Some(Err(e)), _) => return Err(format!("{}: {e}", repo.display())),
                (Ok(_), None, Some(_)) => return Err(format!("{} is gone", repo.display())),
                (Ok(_), Some(Ok(_)), Some(Err(_))) => {}
            }
        }
        Ok(())
    }
}

fn may_be(
    is: &BTreeMap<String, Value>,
    old: &BTreeMap<String, Value>,
    new: &BTreeMap<String, Value>,
) -> Result<(), String> {
    let keys: BTreeSet<&String> = is.keys().chain(old.keys()).chain(new.keys()).collect();
    // What a remote has is noted at any time, and what a command is about to overwrite while it works.
    let counts = |key: &&String| !key.starts_with("remote/") && !key.ends_with("/begun");
    for key in keys.into_iter().filter(counts) {
        let (is, old, new) = (is.get(key), old.get(key), new.get(key));
        if is != old && is.map(|v| &v.meaning) != new.map(|v| &v.meaning) {
            let text = |v: Option<&Value>| v.map_or("absent".into(), |v| v.meaning.clone());
            let (is, old, new) = (text(is), text(old), text(new));
            return Err(format!("{key} is {is}, neither {old} nor {new}"));
        }
    }
    Ok(())
}

/// A file in a directory that a checkout makes is written under its own name; the next checkout
/// takes it from there. An export may leave no such thing.
fn begins(is: Option<&Item>, new: Option<&Item>, path: &Path) -> bool {
    match (is, new) {
        (Some(Item::File(is, _)), Some(Item::File(new, _))) => {
            !path.starts_with("out") && new.starts_with(is)
        }
        _ => false,
    }
}

/// Whether a clone noted here what it is going to do, before it made anything else of a bare
/// repository.
fn is_begun_clone(dir: &Path) -> bool {
    fs::read(dir.join("clone")).is_ok_and(|bytes| bytes.starts_with(b"dmv-clone "))
}

/// What a kill may leave: files that no commit takes, and an export that did not end.
fn is_temporary(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let is_partial = |part: &std::ffi::OsStr| {
        let part = part.as_bytes();
        part.starts_with(b"out.") && part.ends_with(b".partial")
    };
    name.starts_with(b".dmv-tmp-") || path.iter().any(is_partial)
}

fn shown(item: Option<&Item>) -> String {
    match item {
        None => "absent".into(),
        Some(Item::File(bytes, x)) => {
            let begin = String::from_utf8_lossy(&bytes[..bytes.len().min(24)]).into_owned();
            format!(
                "{} bytes {begin:?}{}",
                bytes.len(),
                if *x { " (x)" } else { "" }
            )
        }
        Some(Item::Symlink(to)) => format!("a link to {:?}", String::from_utf8_lossy(to)),
    }
}

fn meanings<'a>(state: &'a State, repo: &Path) -> Result<BTreeMap<&'a str, &'a str>, String> {
    let view = state.repos.get(repo).ok_or("no repository")?;
    let view = view.as_ref().map_err(Clone::clone)?;
    let pairs = view.iter().map(|(key, value)| (&**key, &*value.meaning));
    Ok(pairs.collect())
}

fn view(dir: &Path) -> Outcome<BTreeMap<String, Value>> {
    let repo = Repo::open(dir)?;
    let mut view = BTreeMap::new();
    // Records of claims have times and signatures, which differ from run to run. What others have heard of them
    // is no promise: a note says who has not.
    let claims = repo.claims()?;
    for info in claims.claims().iter().filter(|info| info.is_here) {
        let value = Value {
            raw: Vec::new(),
            meaning: "claimed".to_owned(),
        };
        view.insert(format!("claim of {}", info.claim.path), value);
    }
    for (key, raw) in repo.refs().with_prefix("")? {
        if key.starts_with("claims/") {
            continue;
        }
        let meaning = meaning(&repo, &raw);
        view.insert(key, Value { raw, meaning });
    }
    Ok(view)
}

fn meaning(repo: &Repo, raw: &[u8]) -> String {
    let commit = <[u8; 32]>::try_from(raw).ok().map(ObjectId::from_bytes);
    match commit.map(|id| repo.read_commit(&id)) {
        Some(Ok(commit)) => format!("{} {:?}", commit.tree, commit.message),
        Some(Err(e)) => format!("a commit that cannot be read: {e}"),
        None => String::from_utf8_lossy(raw).into_owned(),
    }
}
