//! Paths and patterns that name files of commits: `PATH`, `*.mov`, `REV:PATH`.

use crate::context::Context;
use crate::failure::Failure;
use crate::supply::supplied;
use dmv_core::object::commit::Commit;
use dmv_core::object::name::RepoPath;
use dmv_core::object::tree::lookup_path;
use dmv_core::repo::{Located, Repo, RepoError, Wanted, split_path};
use dmv_core::subset::Subset;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Some paths of one commit.
pub struct Chosen {
    /// The commit's root.
    root: Located,
    /// The paths.
    subset: Subset,
}

impl Chosen {
    /// The same for the library.
    pub fn wanted(&self) -> Wanted<'_> {
        const ROOT: &RepoPath = &RepoPath::root();
        Wanted {
            path: ROOT,
            located: &self.root,
            subset: &self.subset,
        }
    }
}

/// What arguments name. A path counts from the current directory, and in `REV:PATH` from the root of
/// the commit; one that no file has may be a pattern with wildcards.
pub fn chosen(context: &Context, repo: &Repo, args: &[OsString]) -> Result<Vec<Chosen>, Failure> {
    let mut out: Vec<(String, Commit, Vec<Vec<u8>>)> = Vec::new();
    for arg in args {
        let (revision, path) = split(context, repo, arg)?;
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
        Ok(Chosen {
            root: Located::Root {
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
struct Given {
    text: Vec<u8>,
    path: Vec<u8>,
}

fn split(context: &Context, repo: &Repo, arg: &OsStr) -> Result<(String, Given), Failure> {
    let here = |text: &OsStr| -> Result<Given, Failure> {
        let path = match repo.worktree_root() {
            Some(_) => context.path(repo, text)?,
            None => Repo::parse_path(text.as_bytes())?.as_bytes().to_vec(),
        };
        let text = text.as_bytes().to_vec();
        Ok(Given { text, path })
    };
    if let (revision, Some(path)) = split_path(arg.as_bytes())
        && repo.resolve(&revision).is_ok()
    {
        let path = path.to_vec();
        let given = Given {
            text: path.clone(),
            path: Repo::parse_path(&path)?.as_bytes().to_vec(),
        };
        return Ok((revision, given));
    }
    Ok(("@".to_owned(), here(arg)?))
}

/// The pattern that names a path, or what has the form of one.
fn pattern(
    context: &Context,
    repo: &Repo,
    revision: &str,
    commit: &Commit,
    given: &Given,
) -> Result<Vec<u8>, Failure> {
    let path = Repo::parse_path(&given.path)?;
    if path.is_root() {
        return Ok(b"**".to_vec());
    }
    let found = supplied(context, repo, "looking for", || {
        Ok(lookup_path(repo.objects(), &commit.tree, &path)?)
    })?;
    let is_special = |b: &u8| b"*?[\\".contains(b);
    if found.is_some() {
        let mut escaped = vec![b'/'];
        for b in path.as_bytes() {
            escaped.extend(is_special(b).then_some(b'\\'));
            escaped.push(*b);
        }
        return Ok(escaped);
    }
    if !given.path.iter().any(is_special) {
        return Err(RepoError::NoSuchPath {
            revision: revision.to_owned(),
            path: given.path.clone(),
        }
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
