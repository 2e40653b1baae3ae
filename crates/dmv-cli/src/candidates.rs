//! What a shell offers for the word that the user is typing: branches, paths, settings.
//!
//! Nothing here writes, locks, prints or asks a remote. Where something fails, the shell offers nothing.

use crate::config::{self, KEYS, Kind};
use crate::context::{from_root_of, load_config};
use crate::ownership::find;
use crate::suggestions;
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use dmv_core::object::commit::Commit;
use dmv_core::object::name::RepoPath;
use dmv_core::object::tree::{Kind as EntryKind, lookup_path};
use dmv_core::repo::{DMV_DIR, RefKind, Repo, Whose, split_path};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::ops::ControlFlow;
use std::path::{Component, Path, PathBuf};

/// The variable with which the script of a shell asks.
pub const VARIABLE: &str = "DMV_COMPLETE";
/// The program, as scripts call it.
pub const PROGRAM: &str = "dmv";
/// How many candidates are offered for one word.
const MOST: usize = 200;

/// Answers the script of a shell and ends the process, if a script has started it.
pub fn answer_shell(program: fn() -> clap::Command) {
    if std::env::var_os(VARIABLE).is_none() {
        return;
    }
    // A message would stand in the middle of what the user types.
    std::panic::set_hook(Box::new(|_| {}));
    enter_directory();
    CompleteEnv::with_factory(program)
        .var(VARIABLE)
        .bin(PROGRAM)
        .completer(PROGRAM)
        .complete();
}

/// Goes to the directory of `-C DIR`, unless that is the word that is being typed.
fn enter_directory() {
    let typed = std::env::args_os().skip_while(|arg| arg != "--");
    let mut words: Vec<OsString> = typed.collect();
    words.pop();
    if let Some(at) = words.iter().position(|word| word == "-C")
        && let Some(dir) = words.get(at + 1)
    {
        // If that fails, the command will say so.
        let _ = std::env::set_current_dir(dir);
    }
}

/// Branches of this repository.
pub fn branch() -> ArgValueCompleter {
    of(|_| refs(RefKind::Branch))
}

/// Tags.
pub fn tag() -> ArgValueCompleter {
    of(|_| refs(RefKind::Tag))
}

/// Branches of this repository, and tags.
pub fn branch_or_tag() -> ArgValueCompleter {
    of(|_| Some(both(refs(RefKind::Branch), refs(RefKind::Tag))))
}

/// Branches, also those of remotes, and tags; after `A..` as well.
pub fn revision() -> ArgValueCompleter {
    of(revisions)
}

/// Paths of the worktree and its commit.
pub fn path() -> ArgValueCompleter {
    of(paths)
}

/// Paths from the root, for patterns.
pub fn pattern() -> ArgValueCompleter {
    of(|text| in_commit(&open()?, Names::default(), "@", text))
}

/// Revisions and paths.
pub fn revision_or_path() -> ArgValueCompleter {
    of(|text| Some(both(revisions(text), paths(text))))
}

/// Revisions and `REV:PATH`.
pub fn place() -> ArgValueCompleter {
    of(places)
}

/// Revisions, `REV:PATH` and paths.
pub fn place_or_path() -> ArgValueCompleter {
    of(|text| Some(both(places(text), paths(text))))
}

/// Remotes.
pub fn remote() -> ArgValueCompleter {
    of(|_| {
        let remotes = load_config(false).ok()?.remotes().into_iter();
        let offered = |(name, url): (String, String)| Candidate::with_help(name, url);
        Some(remotes.map(offered).collect())
    })
}

/// Names of settings.
pub fn setting() -> ArgValueCompleter {
    of(|_| Some(settings()))
}

/// Values of the setting whose name has been typed.
pub fn setting_value() -> ArgValueCompleter {
    of(|_| {
        let words: Vec<OsString> = std::env::args_os().collect();
        let key = words.iter().rev().find_map(|word| {
            let name = word.to_str().filter(|name| name.contains('.'))?;
            config::find(name).ok()
        })?;
        match key.kind {
            Kind::Bool => Some(Candidate::all(["false", "true"])),
            Kind::Color => Some(Candidate::all(["auto", "always", "never"])),
            Kind::Sharing => Some(Candidate::all(["auto", "off", "require"])),
            Kind::Branch => refs(RefKind::Branch),
            _ => None,
        }
    })
}

/// Numbers of stashes, with their messages.
pub fn stash() -> ArgValueCompleter {
    of(|_| {
        let stashes = open()?.stashes().ok()?.into_iter().enumerate();
        let offered = stashes.map(|(at, info)| Candidate::with_help(at.to_string(), info.message));
        Some(offered.collect())
    })
}

/// Directories of further worktrees.
pub fn worktree() -> ArgValueCompleter {
    of(|text| {
        let here = std::env::current_dir().ok()?;
        let repo = open()?;
        let main = repo.dmv_dir().parent();
        let found = repo.worktrees().ok()?.into_iter();
        let dirs = found.filter(|info| Some(&*info.path) != main).map(|info| {
            if text.starts_with('/') {
                info.path
            } else {
                relative(&here, &info.path)
            }
        });
        let texts = dirs.filter_map(|dir| dir.into_os_string().into_string().ok());
        Some(Candidate::all(texts))
    })
}

/// One word that is offered, with a few words about it where the shell shows them.
struct Candidate {
    value: String,
    help: Option<String>,
}

impl Candidate {
    fn with_help(value: String, help: impl Into<String>) -> Candidate {
        let help = Some(help.into());
        Candidate { value, help }
    }

    fn all<T: Into<String>>(values: impl IntoIterator<Item = T>) -> Vec<Candidate> {
        let plain = |value: T| Candidate {
            value: value.into(),
            help: None,
        };
        values.into_iter().map(plain).collect()
    }

    /// Whether a shell can show it: names of files may hold anything.
    fn is_plain(&self) -> bool {
        let texts = [Some(&self.value), self.help.as_ref()];
        let mut texts = texts.into_iter().flatten();
        !texts.any(|text| text.contains(char::is_control))
    }

    fn offered(self) -> CompletionCandidate {
        let help = self.help.map(Into::into);
        CompletionCandidate::new(self.value).help(help)
    }
}

/// Offers what `find` finds for a text, as far as it begins with this text.
fn of(find: fn(&str) -> Option<Vec<Candidate>>) -> ArgValueCompleter {
    ArgValueCompleter::new(move |current: &OsStr| {
        let text = current.to_str().unwrap_or_default();
        let found = find(text).unwrap_or_default().into_iter();
        // A path may have the name of a branch.
        let mut seen = BTreeSet::new();
        let fit = found.filter(|one| one.value.starts_with(text) && one.is_plain());
        let fit = fit.filter(|one| seen.insert(one.value.clone()));
        fit.take(MOST).map(Candidate::offered).collect::<Vec<_>>()
    })
}

/// The repository around the current directory. It is opened like another user's, so that nothing in it
/// is written or locked.
fn open() -> Option<Repo> {
    let (place, _) = find(false).ok()?;
    let repo = Repo::open_as(place, Whose::Foreign).ok()?;
    repo.read_dates_by(crate::date::until);
    #[cfg(feature = "git")]
    repo.read_git_ids_by(dmv_git::revision::commits_of);
    Some(repo)
}

fn refs(kind: RefKind) -> Option<Vec<Candidate>> {
    let refs = open()?.list_refs(kind).ok()?;
    Some(Candidate::all(refs.into_iter().map(|info| info.name)))
}

fn both(one: Option<Vec<Candidate>>, other: Option<Vec<Candidate>>) -> Vec<Candidate> {
    let found = one.into_iter().chain(other);
    found.flatten().collect()
}

fn revisions(text: &str) -> Option<Vec<Candidate>> {
    let (before, _) = text.split_at(text.rfind("..").map_or(0, |at| at + 2));
    let names = suggestions::names(&open()?).ok()?.into_iter();
    Some(Candidate::all(names.map(|name| format!("{before}{name}"))))
}

fn places(text: &str) -> Option<Vec<Candidate>> {
    let (revision, path) = split_path(text.as_bytes());
    let Some(path) = path else {
        return revisions(text);
    };
    let path = std::str::from_utf8(path).ok()?;
    let before = text.strip_suffix(path)?.to_owned();
    let found = in_commit(&open()?, Names::default(), &revision, path)?;
    let full = found.into_iter().map(|one| before.clone() + &one.value);
    Some(Candidate::all(full))
}

/// Paths from where the user stands, or from the root after `:/`. Without a worktree, all are from the root.
fn paths(text: &str) -> Option<Vec<Candidate>> {
    let repo = open()?;
    if let Some(path) = text.strip_prefix(":/") {
        let found = in_commit(&repo, Names::default(), "@", path)?.into_iter();
        return Some(Candidate::all(found.map(|one| format!(":/{}", one.value))));
    }
    let Some(root) = repo.worktree_root() else {
        return in_commit(&repo, Names::default(), "@", text);
    };
    let typed = TypedPath::new(text);
    let dir = std::env::current_dir().ok()?.join(typed.dir);
    let mut names = Names::default();
    names.add_files(&typed, &dir);
    // A directory outside of the worktree has nothing that commands would take.
    let from_root = from_root_of(root, &dir)?.into_os_string();
    names.add_tree(&repo, "@", &typed, from_root.to_str()?);
    Some(names.candidates(typed.dir))
}

fn in_commit(repo: &Repo, mut names: Names, revision: &str, path: &str) -> Option<Vec<Candidate>> {
    let typed = TypedPath::new(path);
    names.add_tree(repo, revision, &typed, typed.dir);
    Some(names.candidates(typed.dir))
}

/// A path that is being typed.
struct TypedPath<'a> {
    /// Up to the last slash, with it.
    dir: &'a str,
    /// How the name in it begins.
    start: &'a str,
}

impl TypedPath<'_> {
    fn new(text: &str) -> TypedPath<'_> {
        let (dir, start) = text.split_at(text.rfind('/').map_or(0, |at| at + 1));
        TypedPath { dir, start }
    }

    /// Whether a name continues what was typed. Hidden names are offered after a dot.
    fn fits(&self, name: &str) -> bool {
        let is_wanted = self.start.starts_with('.') || !name.starts_with('.');
        is_wanted && name.starts_with(self.start) && name != DMV_DIR
    }
}

/// Names in one directory, the first ones by order; whether each is a directory.
#[derive(Default)]
struct Names(BTreeMap<String, bool>);

impl Names {
    fn add(&mut self, name: &str, is_dir: bool) {
        self.0.insert(name.to_owned(), is_dir);
        if self.0.len() > MOST {
            self.0.pop_last();
        }
    }

    fn add_files(&mut self, typed: &TypedPath<'_>, dir: &Path) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            if let (Some(name), Ok(kind)) = (entry.file_name().to_str(), entry.file_type())
                && typed.fits(name)
            {
                self.add(name, kind.is_dir());
            }
        }
    }

    /// Adds what a commit has in the directory `dir`, as far as it can be read here.
    fn add_tree(&mut self, repo: &Repo, revision: &str, typed: &TypedPath<'_>, dir: &str) {
        let mut left = MOST;
        let read = || -> Option<(RepoPath, Commit)> {
            let path = Repo::parse_path(dir.trim_end_matches('/').as_bytes()).ok()?;
            let id = repo.resolve(revision).ok()?;
            Some((path, repo.read_commit(&id).ok()?))
        };
        let Some((path, commit)) = read() else {
            return;
        };
        let tree = if path.is_root() {
            Some(commit.tree)
        } else {
            let found = lookup_path(repo.objects(), &commit.tree, &path);
            let entry = found.ok().flatten();
            entry
                .filter(|entry| entry.kind == EntryKind::Directory)
                .map(|entry| entry.id)
        };
        let Some(tree) = tree else {
            return;
        };
        // What was listed before it failed is offered.
        let _ = repo.list(&path, tree, false, &mut |line| {
            if let Some(name) = std::str::from_utf8(line.entry.name.as_bytes()).ok()
                && typed.fits(name)
            {
                self.add(name, line.entry.kind == EntryKind::Directory);
                left -= 1;
            }
            Ok(if left == 0 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            })
        });
    }

    fn candidates(self, dir: &str) -> Vec<Candidate> {
        let end = |is_dir| if is_dir { "/" } else { "" };
        let full = |(name, is_dir)| format!("{dir}{name}{}", end(is_dir));
        Candidate::all(self.0.into_iter().map(full))
    }
}

fn settings() -> Vec<Candidate> {
    let known = KEYS.iter();
    let mut all: Vec<Candidate> = known
        .map(|key| Candidate::with_help(key.name.to_string(), key.about))
        .collect();
    if let Ok(config) = load_config(false) {
        let named = config.aliases().into_iter();
        all.extend(named.map(|key| Candidate::with_help(key.name.to_string(), key.about)));
        for (remote, _) in config.remotes() {
            let keys = config::keys_of_remote(&remote);
            all.extend(keys.map(|(name, about)| Candidate::with_help(name, about)));
        }
    }
    all
}

/// The way from one absolute directory to another.
fn relative(from: &Path, to: &Path) -> PathBuf {
    let pairs = from.components().zip(to.components());
    let shared = pairs.take_while(|(a, b)| a == b).count();
    let up = from.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(to.components().skip(shared)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_goes_up_to_what_is_shared() {
        for (from, to, way) in [
            ("/a/b", "/a/c", "../c"),
            ("/a/b", "/a/b/c", "c"),
            ("/a/b", "/x", "../../x"),
        ] {
            assert_eq!(relative(Path::new(from), Path::new(to)), Path::new(way));
        }
    }

    #[test]
    fn a_hidden_name_is_offered_after_a_dot() {
        assert!(!TypedPath::new("a/").fits(".x") && TypedPath::new("a/.").fits(".x"));
        assert!(TypedPath::new("a/b").fits("bc") && !TypedPath::new("a/b").fits("c"));
        assert!(!TypedPath::new(".").fits(DMV_DIR));
    }
}
