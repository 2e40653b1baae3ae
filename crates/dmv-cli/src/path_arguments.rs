//! Paths and patterns that name files of commits: `PATH`, `*.mov`, `REV:PATH`.

use crate::context::Context;
use crate::failure::Failure;
use crate::mirror::tell_behind;
use crate::on_demand::supplied;
use dmv_core::escape::{Argument, pattern as pattern_of};
use dmv_core::hash::ObjectId;
use dmv_core::hint;
use dmv_core::object::commit::Commit;
use dmv_core::object::name::{RepoPath, escape};
use dmv_core::object::tree::{TreeEntry, TreeIter, lookup_path};
use dmv_core::platform::{argument_bytes, bytes_of, name_of};
use dmv_core::repo::{Location, LookError, Repo, RepoError, RevisionError, Selection, split_path};
use dmv_core::subset::{PathSet, Subset};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// What `REV:PATH` names.
pub struct PlaceIn {
    /// The revision, as given.
    pub revision: String,
    /// The commit.
    pub commit: Commit,
    /// The path from its root.
    pub path: RepoPath,
    /// What is there.
    pub located: Location,
}

impl PlaceIn {
    /// The paths of it that are in a subset, or in several.
    pub fn wanted<'a>(&'a self, subset: &'a dyn PathSet) -> Selection<'a> {
        Selection {
            path: &self.path,
            located: &self.located,
            subset,
        }
    }
}

/// What `REV:PATH` names. Without a colon it is the root of `REV`.
pub fn place(context: &Context, repo: &Repo, arg: &OsStr) -> Result<PlaceIn, Failure> {
    let given = argument_bytes(arg);
    let (revision, path) = split_path(&given);
    let path = match path {
        Some(path) => path_in(context, repo, path)?,
        None => RepoPath::root(),
    };
    at(context, repo, revision, path)
}

/// The same, where an argument without a colon may also be a path of `@`: one from where the user
/// stands. Without an argument it is that directory.
///
/// A revision goes first, because scripts name branches and do not know which files there are.
/// `is_path`: an argument without a colon is a path in any case.
pub fn place_or_path(
    context: &Context,
    repo: &Repo,
    arg: Option<&OsStr>,
    is_path: bool,
) -> Result<PlaceIn, Failure> {
    let arg = arg.unwrap_or(OsStr::new("."));
    let here = || context.path(repo, arg);
    let given = argument_bytes(arg);
    let has_revision = given.contains(&b':');
    if looks_like_path(&given) || arg.is_empty() || is_path && !has_revision {
        return at(context, repo, "@".to_owned(), here()?);
    }
    if has_revision {
        return place(context, repo, arg);
    }
    let text = String::from_utf8_lossy(&given).into_owned();
    match repo.resolve(&text) {
        Ok(_) => {
            let found = at(context, repo, text, RepoPath::root())?;
            warn_of_path(context, repo, arg);
            Ok(found)
        }
        // Where it is neither, it was probably meant to be a path: a revision has no such name.
        Err(RepoError::Revision(e)) => match here().map(|path| exists(repo, &path).then_some(path))
        {
            Ok(Some(path)) => at(context, repo, "@".to_owned(), path),
            _ => Err(neither(arg, e)),
        },
        Err(e) => Err(e.into()),
    }
}

/// The places that several arguments name, all of which may be paths.
pub struct PlaceReader<'c> {
    context: &'c Context,
    repo: &'c Repo,
    before: Option<PlaceIn>,
    near: NearEntries,
}

/// Entries of a directory of a commit, one after the other. Programs ask for many files of the same directory.
#[derive(Default)]
struct NearEntries {
    root: Option<ObjectId>,
    dir: RepoPath,
    entries: BTreeMap<Vec<u8>, TreeEntry>,
}

impl PlaceReader<'_> {
    /// A reader that has not read a place yet.
    pub fn new<'c>(context: &'c Context, repo: &'c Repo) -> PlaceReader<'c> {
        PlaceReader {
            context,
            repo,
            before: None,
            near: NearEntries::default(),
        }
    }

    /// Reads the next place. Does not look again for the revision of the one before.
    pub fn next(&mut self, arg: &OsStr) -> Result<&PlaceIn, Failure> {
        let given = argument_bytes(arg);
        let (revision, path) = split_path(&given);
        let before = self.before.take();
        let before = before.filter(|before| before.revision == revision);
        let (Some(before), Some(path)) = (before, path) else {
            let found = place_or_path(self.context, self.repo, Some(arg), true)?;
            return Ok(self.before.insert(found));
        };
        let path = path_in(self.context, self.repo, path)?;
        if path.parent() == before.path.parent() {
            self.near.read(self.repo, &before.commit, &path);
        }
        let located = match self.near.get(&before.commit, &path) {
            Some(entry) => Location::Entry(entry.clone()),
            None => supplied(self.context, self.repo, "reading", || {
                self.repo.locate(&revision, &before.commit, &path)
            })?,
        };
        Ok(self.before.insert(PlaceIn {
            path,
            located,
            ..before
        }))
    }
}

impl NearEntries {
    /// Entries that are read at once.
    const MANY: usize = 256;

    fn get(&self, commit: &Commit, path: &RepoPath) -> Option<&TreeEntry> {
        let is_here = self.root == Some(commit.tree) && path.parent().as_ref() == Some(&self.dir);
        self.entries.get(path.file_name().filter(|_| is_here)?)
    }

    /// Reads the entry at a path and those that follow it, unless it is known. What cannot be read is left out.
    fn read(&mut self, repo: &Repo, commit: &Commit, path: &RepoPath) {
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
            return;
        };
        if self.get(commit, path).is_some() {
            return;
        }
        let tree = repo.locate("", commit, &dir).ok();
        let Some(tree) = tree.and_then(|found| found.tree()) else {
            return;
        };
        let following = TreeIter::starting_at(repo.objects(), tree, name);
        let following = following.take(NearEntries::MANY).map_while(Result::ok);
        self.entries = following
            .map(|entry| (entry.name.as_bytes().to_vec(), entry))
            .collect();
        (self.root, self.dir) = (Some(commit.tree), dir);
    }
}

/// The path in a revision, from where the user stands: for commands that accept `REV -- PATH`.
pub fn path_at(
    context: &Context,
    repo: &Repo,
    revision: &OsStr,
    path: &OsStr,
) -> Result<PlaceIn, Failure> {
    let path = context.path(repo, path)?;
    let revision = revision.to_string_lossy().into_owned();
    at(context, repo, revision, path)
}

/// The failure for an argument that names neither a revision nor a path.
pub fn neither(arg: &OsStr, e: RevisionError) -> Failure {
    let is_unknown = matches!(e, RevisionError::Unknown(_));
    let mut failure = Failure::from(RepoError::Revision(e));
    if is_unknown {
        let arg = escape(bytes_of(arg));
        failure.message = format!("there is no branch, tag, commit or path '{arg}' here");
    }
    failure
}

/// Says how to name the path where a revision has the same name.
pub fn warn_of_path(context: &Context, repo: &Repo, arg: &OsStr) {
    let path = context.path(repo, arg).ok();
    if path.is_some_and(|path| !path.is_root() && exists(repo, &path)) {
        let arg = Argument::value([b"./", bytes_of(arg)].concat());
        context.ui.note(hint!(
            "note: this is also the name of a path; for the path: dmv {} {}",
            Argument::value(&context.command),
            arg
        ));
    }
}

/// Whether the commit that the worktree is on has something at `path`, as far as that is known
/// here. An absent directory counts: fetching it will tell.
pub fn exists(repo: &Repo, path: &RepoPath) -> bool {
    let head = repo.head_commit().ok().flatten();
    let commit = head.and_then(|id| repo.read_commit(&id).ok());
    commit.is_some_and(|commit| {
        !matches!(
            repo.locate("@", &commit, path),
            Err(RepoError::Look(LookError::NoSuchPath { .. }))
        )
    })
}

/// Whether an argument can only be meant as a path from where the user stands.
pub fn looks_like_path(arg: &[u8]) -> bool {
    let is_dot = |rest: &[u8]| rest.is_empty() || rest.starts_with(b"/");
    let dot = arg.strip_prefix(b"..").or(arg.strip_prefix(b"."));
    dot.is_some_and(is_dot) || arg.starts_with(b"/")
}

fn at(
    context: &Context,
    repo: &Repo,
    revision: String,
    path: RepoPath,
) -> Result<PlaceIn, Failure> {
    context.revisions.borrow_mut().push(revision.clone());
    tell_behind(context, repo, &revision);
    let (commit, located) = supplied(context, repo, "reading", || {
        let commit = repo.read_commit(&repo.resolve(&revision)?)?;
        let located = repo.locate(&revision, &commit, &path)?;
        Ok((commit, located))
    })?;
    Ok(PlaceIn {
        revision,
        commit,
        path,
        located,
    })
}

/// The path in `REV:PATH`: from the root, or with `./` or `../` from where the user stands.
fn path_in(context: &Context, repo: &Repo, path: &[u8]) -> Result<RepoPath, Failure> {
    if looks_like_path(path) && !path.starts_with(b"/") {
        context.path(repo, name_of(path))
    } else {
        Ok(Repo::parse_path(path)?)
    }
}

/// Some paths of one commit.
pub struct ChosenPaths {
    /// The commit's root.
    root: Location,
    /// The paths.
    subset: Subset,
}

impl ChosenPaths {
    /// The paths, as patterns from the root.
    pub fn subset(&self) -> &Subset {
        &self.subset
    }

    /// The root directory of the commit.
    pub fn tree(&self) -> Option<ObjectId> {
        self.root.tree()
    }

    /// The same for the library.
    pub fn wanted(&self) -> Selection<'_> {
        const ROOT: &RepoPath = &RepoPath::root();
        Selection {
            path: ROOT,
            located: &self.root,
            subset: &self.subset,
        }
    }
}

/// What arguments name. A path counts from the current directory, and in `REV:PATH` from the root of
/// the commit unless it begins with `./` or `../`; one that no file has may be a pattern with wildcards.
pub fn chosen(
    context: &Context,
    repo: &Repo,
    args: &[OsString],
) -> Result<Vec<ChosenPaths>, Failure> {
    let mut out: Vec<(String, Commit, Vec<Vec<u8>>)> = Vec::new();
    for arg in args {
        let (revision, path) = split(context, repo, arg)?;
        context.revisions.borrow_mut().push(revision.clone());
        let at = match out.iter().position(|(known, ..)| *known == revision) {
            Some(at) => at,
            None => {
                let id = repo.resolve(&revision)?;
                out.push((revision.clone(), repo.read_commit(&id)?, Vec::new()));
                out.len() - 1
            }
        };
        let pattern = pattern(context, repo, &revision, &out[at].1, &path)?;
        out[at].2.push(pattern);
    }
    let chosen = |(_, commit, patterns): (String, Commit, Vec<Vec<u8>>)| {
        let subset = Subset::new(patterns.iter().map(|pattern| &pattern[..]));
        let subset = subset.map_err(|e| Failure::usage(e.to_string()))?;
        Ok(ChosenPaths {
            root: Location::Root {
                tree: commit.tree,
                bytes: commit.tree_bytes,
                files: commit.tree_files,
            },
            subset,
        })
    };
    out.into_iter().map(chosen).collect()
}

/// A path as it was given, and as one from the root.
struct GivenPath {
    text: Vec<u8>,
    path: RepoPath,
}

fn split(context: &Context, repo: &Repo, arg: &OsStr) -> Result<(String, GivenPath), Failure> {
    let here = |text: &OsStr| -> Result<GivenPath, Failure> {
        let path = context.path(repo, text)?;
        let text = argument_bytes(text).into_owned();
        Ok(GivenPath { text, path })
    };
    if let (revision, Some(path)) = split_path(&argument_bytes(arg))
        && repo.resolve(&revision).is_ok()
    {
        let text = path.to_vec();
        let path = path_in(context, repo, path)?;
        return Ok((revision, GivenPath { text, path }));
    }
    Ok(("@".to_owned(), here(arg)?))
}

/// The pattern that names a path, or what has the form of one.
fn pattern(
    context: &Context,
    repo: &Repo,
    revision: &str,
    commit: &Commit,
    given: &GivenPath,
) -> Result<Vec<u8>, Failure> {
    let path = &given.path;
    if path.is_root() {
        return Ok(b"**".to_vec());
    }
    let found = supplied(context, repo, "looking for", || {
        Ok(lookup_path(repo.objects(), &commit.tree, path)?)
    })?;
    let is_special = |b: &u8| b"*?[\\".contains(b);
    if found.is_some() {
        return Ok([b"/", &pattern_of(path.as_bytes())[..]].concat());
    }
    if !path.as_bytes().iter().any(is_special) {
        return Err(RepoError::Look(LookError::NoSuchPath {
            revision: revision.to_owned(),
            path: path.as_bytes().into(),
        })
        .into());
    }
    // A pattern without a slash means any depth, from where it was given.
    let dir = path.parent().unwrap_or_default();
    let name = path.file_name().unwrap_or_default();
    Ok(if given.text.contains(&b'/') {
        [b"/", path.as_bytes()].concat()
    } else if dir.is_root() {
        name.to_vec()
    } else {
        [b"/", dir.as_bytes(), b"/**/", name].concat()
    })
}
