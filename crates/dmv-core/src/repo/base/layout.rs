//! The layout of `.dmv`, and the `format` file (docs/format/layout.md).

use crate::chunker::CHUNKER;
use crate::fsutil::{os_str, temp_name};
use crate::path::{PathContext, PathError};
use crate::platform::{self, OddKind, bytes_of, name_of};
use crate::repo::base::error::{PlaceError, RepoError};
use crate::store::{Owners, RepositoryId};
use crate::vfs::{OsVfs, read_small, write_durably, write_durably_by};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The name of the repository's directory in a worktree.
pub const DMV_DIR: &str = ".dmv";

/// The name of the repository's own settings file. The code that reads configuration uses it.
pub const CONFIG_FILE: &str = "config.toml";

pub const FORMAT_FILE: &str = "format";
/// The name of the database.
pub const REFS_FILE: &str = "refs.db";
const PACKS_DIR: &str = "packs";
const WORKTREES_DIR: &str = "worktrees";
const BUCKETS_DIR: &str = "buckets";
/// The directories in a repository's directory.
const PARTS: [&str; 4] = [PACKS_DIR, "index", WORKTREES_DIR, BUCKETS_DIR];
/// The directories in the one of a bucket.
const BUCKET_PARTS: [&str; 2] = ["known", "push"];
/// The name of the file whose space gc gets on a full disk.
pub const RESERVE_FILE: &str = "reserve";
/// The name of the file that marks an unfinished clone (docs/format/clone.md).
pub const CLONE_FILE: &str = "clone";

/// Returns whether a clone into the repository's directory `dmv` has begun and not ended.
pub fn is_begun(dmv: &Path) -> bool {
    !is_absent(&dmv.join(CLONE_FILE))
}

/// Returns whether no entry is at `path`. An entry of any kind counts, so that the function that opens it says what
/// it is.
pub fn is_absent(path: &Path) -> bool {
    platform::stat_at_unfollowed(path).is_err_and(|e| e.kind() == ErrorKind::NotFound)
}

/// How the `format` file begins, before the version.
const FORMAT_LINE: &str = "dmv-repository ";
/// The version of a repository that shares packs. All others have version 1.
const SHARING: u32 = 2;

/// The greatest accepted size of a `format` file or worktree pointer file, in bytes. Real files are
/// far smaller.
const SMALL_FILE_BYTES: usize = 64 << 10;

/// The content of the `format` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// The repository's id, and the repositories that it shares packs with.
    pub owners: Owners,
}

impl Format {
    fn text(&self) -> String {
        let shared = self.owners.shared();
        let version = if shared.is_empty() { 1 } else { SHARING };
        let own = self.owners.own();
        let mut text = format!("{FORMAT_LINE}{version}\nid {own}\nchunker {CHUNKER}\n");
        for id in shared {
            text.push_str(&format!("packs-of {id}\n"));
        }
        text
    }

    /// Writes the file of a new repository. It is written last: a directory without it is not a
    /// repository.
    pub fn write(&self, dmv: &Path) -> Result<(), RepoError> {
        let path = dmv.join(FORMAT_FILE);
        write_durably(&OsVfs, &path, self.text().as_bytes())
            .context("write", &path)
            .map_err(RepoError::Io)
    }

    /// Reads and checks the file.
    pub fn read(dmv: &Path) -> Result<Format, RepoError> {
        let path = dmv.join(FORMAT_FILE);
        let bytes = read_small(&OsVfs, &path, SMALL_FILE_BYTES)
            .context("read", &path)
            .map_err(RepoError::Io)?;
        let text = String::from_utf8_lossy(&bytes);
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default();
        let too_new = |found: &str| {
            RepoError::Place(PlaceError::TooNew {
                path: path.clone(),
                found: found.into(),
            })
        };
        let version = first
            .strip_prefix(FORMAT_LINE)
            .and_then(|v| v.parse::<u32>().ok());
        let damaged = |why: &str| {
            RepoError::Place(PlaceError::Damaged {
                path: path.clone(),
                why: why.to_owned(),
            })
        };
        match version {
            Some(1..=SHARING) => {}
            Some(_) => return Err(too_new(first)),
            None => return Err(damaged("it does not begin with 'dmv-repository'")),
        }
        let id = lines
            .next()
            .and_then(|l| l.strip_prefix("id "))
            .and_then(RepositoryId::from_hex);
        let Some(id) = id else {
            return Err(damaged("it contains no repository id"));
        };
        let chunker = lines.next().unwrap_or_default();
        let shared =
            lines.map_while(|line| RepositoryId::from_hex(line.strip_prefix("packs-of ")?));
        let Some(owners) = Owners::sharing(id, shared) else {
            return Err(damaged("it shares packs with too many repositories"));
        };
        let format = Format { owners };
        if text != format.text() {
            return Err(too_new(chunker));
        }
        Ok(format)
    }
}

/// A repository found on disk, and its worktree if the search began in one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryLocation {
    /// The repository's directory.
    pub dmv: PathBuf,
    /// The worktree's root and its name in the repository, if there is a worktree.
    pub worktree: Option<(PathBuf, String)>,
}

/// Returns whether `dir` itself holds a repository's files.
fn is_store(dir: &Path) -> bool {
    !is_absent(&dir.join(FORMAT_FILE)) && dir.join(PACKS_DIR).is_dir()
}

/// Returns whether `dir` holds packs with committed data. A single log pack does not count: an
/// interrupted attempt to create a repository leaves one.
pub fn holds_packs(dir: &Path) -> bool {
    packs_in(dir).count() > 1
}

/// Returns the pack files under `dir`.
pub fn packs_in(dir: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(dir.join(PACKS_DIR));
    let paths = entries.into_iter().flatten().flatten().map(|e| e.path());
    paths.filter(|path| path.extension().is_some_and(|e| e == "pack"))
}

/// Finds the repository at or above `start` for a repair. Like [`discover`], but also finds a
/// repository that lost its `format` file.
pub fn discover_lost(start: &Path) -> Result<RepositoryLocation, RepoError> {
    discover_lost_trusting(start, &Trust::NONE)
}

/// Finds a repository as [`discover_lost`] does, including other users' repositories that `trust`
/// allows.
pub fn discover_lost_trusting(
    start: &Path,
    trust: &Trust<'_>,
) -> Result<RepositoryLocation, RepoError> {
    match discover_trusting(start, trust) {
        Err(RepoError::Place(PlaceError::NoFormat(dmv))) => {
            trust.check(&dmv, false)?;
            let root = dmv.parent().map(Path::to_owned);
            let worktree = root.map(|root| (root, MAIN.to_owned()));
            Ok(RepositoryLocation { dmv, worktree })
        }
        found => found.map(|(place, _)| place),
    }
}

/// The owner of a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The user, or an owner whom the user trusts equally.
    Own,
    /// Another user. The repository is read-only, and its settings are ignored.
    Foreign,
}

/// The rule for opening other users' repositories.
#[derive(Clone, Copy)]
pub struct Trust<'a> {
    /// Whether the user has named the directory. This is consent to read a repository in exactly
    /// that directory.
    pub named: bool,
    /// Returns whether the user trusts this repository directory like their own.
    pub is_safe: &'a dyn Fn(&Path) -> bool,
}

impl Trust<'_> {
    /// Allows only the user's own repositories.
    pub const NONE: Trust<'static> = Trust {
        named: false,
        is_safe: &|_| false,
    };

    /// Returns who owns the repository directory or worktree file at `path`. Fails with
    /// [`PlaceError::ForeignOwner`] for another user's, unless the user trusts it, or has named the
    /// directory and it is `here`.
    fn check(&self, path: &Path, here: bool) -> Result<Whose, RepoError> {
        match owner(path)? {
            Whose::Own => Ok(Whose::Own),
            Whose::Foreign if (self.is_safe)(path) => Ok(Whose::Own),
            Whose::Foreign if self.named && here => Ok(Whose::Foreign),
            Whose::Foreign => Err(PlaceError::ForeignOwner(path.to_owned()).into()),
        }
    }
}

/// Finds the repository that `start` is in: a `.dmv` directory in `start` or above it, or a bare
/// repository.
///
/// Fails with [`PlaceError::ForeignOwner`] if the repository belongs to another user, who may have
/// placed it above the directory on purpose.
pub fn discover(start: &Path) -> Result<RepositoryLocation, RepoError> {
    discover_trusting(start, &Trust::NONE).map(|(place, _)| place)
}

/// Finds a repository as [`discover`] does, including other users' repositories that `trust`
/// allows.
pub fn discover_trusting(
    start: &Path,
    trust: &Trust<'_>,
) -> Result<(RepositoryLocation, Whose), RepoError> {
    let start = std::path::absolute(start)
        .context("find", start)
        .map_err(RepoError::Io)?;
    for dir in start.ancestors() {
        let here = dir == start;
        let dmv = dir.join(DMV_DIR);
        // Do not follow a symlink: the content of a worktree must not choose its repository.
        let found = std::fs::symlink_metadata(&dmv);
        let format = dmv.join(FORMAT_FILE);
        let is_there = || match platform::stat_at_unfollowed(&format) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            found => found
                .map(|_| true)
                .context("inspect", &format)
                .map_err(RepoError::Io),
        };
        if found.as_ref().is_ok_and(|m| m.is_dir()) && is_there()? {
            let whose = trust.check(&dmv, here)?;
            let worktree = Some((dir.to_owned(), MAIN.to_owned()));
            return Ok((RepositoryLocation { dmv, worktree }, whose));
        }
        if found.as_ref().is_ok_and(|m| m.is_dir()) && holds_packs(&dmv) {
            return Err(PlaceError::NoFormat(dmv).into());
        }
        if found.is_ok_and(|m| m.is_file()) {
            return pointed(dir, &dmv, trust, here);
        }
        if is_store(dir) {
            let whose = trust.check(dir, here)?;
            // Inside `.dmv` of a worktree, the store is usable and the worktree is not.
            let (dmv, worktree) = (dir.to_owned(), None);
            return Ok((RepositoryLocation { dmv, worktree }, whose));
        }
    }
    Err(PlaceError::NotFound(start).into())
}

/// The name of the worktree that contains its repository.
pub const MAIN: &str = "main";

/// The `.dmv` file of a linked worktree. Its two lines name the repository and the worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// The repository's directory.
    pub repository: PathBuf,
    /// The worktree's name in the repository.
    pub worktree: String,
}

impl Pointer {
    /// Reads a `.dmv` file. Fails if it belongs to another user.
    pub fn read(file: &Path) -> Result<Pointer, RepoError> {
        Trust::NONE.check(file, false)?;
        Pointer::read_any(file)
    }

    /// Reads a `.dmv` file without checking its owner.
    fn read_any(file: &Path) -> Result<Pointer, RepoError> {
        let bytes = read_small(&OsVfs, file, SMALL_FILE_BYTES)
            .context("read", file)
            .map_err(RepoError::Io)?;
        Pointer::parse(&bytes).ok_or_else(|| {
            RepoError::Place(PlaceError::Damaged {
                path: file.to_owned(),
                why: "it does not name a repository and a worktree".to_owned(),
            })
        })
    }

    fn parse(bytes: &[u8]) -> Option<Pointer> {
        let rest = bytes.strip_prefix(b"repository ")?;
        let end = rest.iter().position(|b| *b == b'\n')?;
        let (path, rest) = rest.split_at(end);
        let name = rest.strip_prefix(b"\nworktree ")?.strip_suffix(b"\n")?;
        let name = std::str::from_utf8(name).ok()?;
        // The name becomes part of a path.
        let one_part = crate::refs::check_ref_name(name).is_ok() && !name.contains('/');
        // The main worktree contains the repository and has no such file. If another directory
        // could claim to be it, that directory's files would be committed as the main worktree's.
        let is_further = name != MAIN;
        let repository = PathBuf::from(name_of(path));
        (one_part && is_further && repository.is_absolute()).then(|| Pointer {
            repository,
            worktree: name.to_owned(),
        })
    }

    /// Writes the file atomically.
    pub fn write(&self, file: &Path) -> Result<(), RepoError> {
        let path = bytes_of(&self.repository);
        let name = self.worktree.as_bytes();
        let bytes = [b"repository ", path, b"\nworktree ", name, b"\n"].concat();
        if Pointer::parse(&bytes).as_ref() != Some(self) {
            return Err(RepoError::Text(format!(
                "a worktree cannot belong to a repository at {}: its path has a line break",
                self.repository.display()
            )));
        }
        // The temporary file lies among the user's files. An interruption leaves it with a name
        // that no commit includes.
        let temp = file.with_file_name(os_str(&temp_name()));
        write_durably_by(&OsVfs, file, &temp, &bytes)
            .context("write", file)
            .map_err(RepoError::Io)
    }
}

fn pointed(
    root: &Path,
    file: &Path,
    trust: &Trust<'_>,
    here: bool,
) -> Result<(RepositoryLocation, Whose), RepoError> {
    let whose = trust.check(file, here)?;
    let pointer = Pointer::read_any(file)?;
    let dmv = pointer.repository;
    if !is_store(&dmv) {
        return Err(PlaceError::LostRepository {
            worktree: root.to_owned(),
            at: dmv,
        }
        .into());
    }
    // Another user's file must not make the user's own repository writable from there.
    let whose = match trust.check(&dmv, here)? {
        Whose::Own => whose,
        Whose::Foreign => Whose::Foreign,
    };
    let worktree = Some((root.to_owned(), pointer.worktree));
    Ok((RepositoryLocation { dmv, worktree }, whose))
}

/// Fails with [`OddKind`] if a directory of the repository is something else. In a copied or
/// unpacked repository, a symlink could redirect writes to any place.
///
/// Files need no such check: [`open_own`](platform::open_own) makes it for each.
pub fn check_parts(dmv: &Path) -> Result<(), RepoError> {
    let mut left = PARTS.map(|part| (dmv.join(part), part)).to_vec();
    while let Some((path, part)) = left.pop() {
        let kind = match platform::stat_at_unfollowed(&path) {
            Err(e) if e.kind() == ErrorKind::NotFound => continue,
            found => found.context("inspect", &path).map_err(RepoError::Io)?.kind,
        };
        if let Some(why) = OddKind::of_dir(kind) {
            return Err(RepoError::Io(PathError::new("use", path, why)));
        }
        match part {
            WORKTREES_DIR => left.extend(entries_in(&path)?.map(|path| (path, ""))),
            BUCKETS_DIR => {
                for path in entries_in(&path)? {
                    left.extend(BUCKET_PARTS.map(|part| (path.join(part), "")));
                    left.push((path, ""));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn entries_in(dir: &Path) -> Result<impl Iterator<Item = PathBuf>, RepoError> {
    let entries = std::fs::read_dir(dir)
        .context("list", dir)
        .map_err(RepoError::Io)?;
    Ok(entries.flatten().map(|entry| entry.path()))
}

/// Returns who owns a file or directory. For root, everything counts as its own.
fn owner(path: &Path) -> Result<Whose, RepoError> {
    let is_own = platform::is_own(path)
        .context("inspect", path)
        .map_err(RepoError::Io)?;
    Ok(if is_own { Whose::Own } else { Whose::Foreign })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MAX_SHARED_OWNERS;

    #[test]
    fn a_format_names_the_repositories_that_it_shares_packs_with()
    -> Result<(), Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        let [own, first, second] = [5, 1, 9].map(|n| RepositoryId::from_bytes([n; 16]));
        let of = |shared: &[RepositoryId]| Owners::sharing(own, shared.iter().copied());
        for shared in [vec![], vec![second], vec![second, first, second, own]] {
            let owners = of(&shared).ok_or("they are few")?;
            let format = Format { owners };
            format.write(dir.path())?;
            assert_eq!(Format::read(dir.path())?, format);
            let has: Vec<bool> = [own, first, second].map(|id| format.owners.has(id)).into();
            let expected = [true, shared.contains(&first), shared.contains(&second)];
            assert_eq!(has, expected);
        }
        let file = dir.path().join(FORMAT_FILE);
        let good = std::fs::read_to_string(&file)?;
        assert!(good.starts_with("dmv-repository 2\nid 0505"), "{good}");
        let line = |n: u8| format!("packs-of {}\n", RepositoryId::from_bytes([n; 16]));
        let many: String = (10..=10 + MAX_SHARED_OWNERS as u8).map(line).collect();
        let bad = [
            good.replace("repository 2", "repository 1"),
            good.replace("repository 2", "repository 3"),
            good.replace("packs-of 01", "packs-of 0x"),
            format!("{good}{}", line(9)),
            format!("{good}{}", line(2)),
            format!("{good}more\n"),
            format!("{good}{many}"),
            good.trim_end().to_owned(),
        ];
        for text in bad {
            std::fs::write(&file, &text)?;
            assert!(Format::read(dir.path()).is_err(), "{text}");
        }
        Ok(())
    }

    #[test]
    #[cfg_attr(windows, ignore = "its paths are those of Unix")]
    fn a_pointer_names_an_absolute_path_and_one_name_and_nothing_else() {
        let good = b"repository /a/b \xff\nworktree side\n";
        let pointer = Pointer::parse(good).expect("it is well-formed");
        assert_eq!(bytes_of(&pointer.repository), b"/a/b \xff");
        assert_eq!(pointer.worktree, "side");
        let bad: [&[u8]; 9] = [
            b"repository /a\nworktree main\n",
            b"",
            b"repository /a\n",
            b"repository a\nworktree side\n",
            b"repository /a\nworktree side",
            b"repository /a\nworktree ..\n",
            b"repository /a\nworktree a/b\n",
            b"repository /a\nworktree side\nmore\n",
            b"worktree side\nrepository /a\n",
        ];
        for bytes in bad {
            assert_eq!(Pointer::parse(bytes), None, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn a_pointer_that_cannot_be_written_leaves_nothing() -> Result<(), Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        let file = dir.path().join(".dmv");
        // A directory cannot be replaced by a file, as after a cut just before the rename.
        std::fs::create_dir(&file)?;
        let pointer = Pointer {
            repository: "/a".into(),
            worktree: "side".into(),
        };
        assert!(pointer.write(&file).is_err());
        for entry in std::fs::read_dir(dir.path())? {
            assert_eq!(entry?.file_name(), ".dmv");
        }
        Ok(())
    }
}
