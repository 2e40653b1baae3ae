//! Trees of files: copy, mirror, read through, compare.
//!
//! Symbolic links are never followed. The repositories of version control tools
//! ([`REPOSITORY_NAMES`], at any depth) do not count as content.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, FileTimes, FileType, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Names that hold a repository, or point at one.
pub const REPOSITORY_NAMES: [&str; 3] = [".git", ".hg", ".dmv"];

const READ_BYTES: usize = 256 << 10;

/// Whether `name` holds a repository.
pub fn is_repository(name: &OsStr) -> bool {
    REPOSITORY_NAMES.iter().any(|n| name == *n)
}

/// What a copy took and what it left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyReport {
    /// Regular files.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Repositories, sockets, devices and pipes left out.
    pub left_out: u64,
}

/// Calls `visit` for `top` and everything below it, directories before their content, in the
/// order of the names. Repositories are visited too.
pub fn walk(top: &Path, visit: &mut dyn FnMut(&Path, &Metadata) -> Result<()>) -> Result<()> {
    let meta = fs::symlink_metadata(top).with_context(|| format!("stat {}", top.display()))?;
    visit(top, &meta)?;
    if meta.is_dir() {
        for name in names(top)?.into_keys() {
            walk(&top.join(name), visit)?;
        }
    }
    Ok(())
}

/// Copies a tree, with modification times and permissions, to `to`, which may exist as a directory.
pub fn copy_tree(from: &Path, to: &Path) -> Result<CopyReport> {
    let mut copied = CopyReport::default();
    copy_directory(from, to, &mut copied)?;
    Ok(copied)
}

fn copy_directory(from: &Path, to: &Path, copied: &mut CopyReport) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("create {}", to.display()))?;
    for (name, kind) in names(from)? {
        if is_repository(&name) {
            copied.left_out += 1;
            continue;
        }
        copy_entry(&from.join(&name), &to.join(&name), kind, copied)?;
    }
    Ok(())
}

fn copy_entry(from: &Path, to: &Path, kind: FileType, copied: &mut CopyReport) -> Result<()> {
    let context = || format!("copy {} to {}", from.display(), to.display());
    if kind.is_dir() {
        copy_directory(from, to, copied)?;
    } else if kind.is_symlink() {
        let target = fs::read_link(from).with_context(context)?;
        std::os::unix::fs::symlink(target, to).with_context(context)?;
    } else if kind.is_file() {
        copied.bytes += copy_file(from, to).with_context(context)?;
        copied.files += 1;
    } else {
        copied.left_out += 1;
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path) -> io::Result<u64> {
    let bytes = fs::copy(from, to)?;
    let meta = fs::metadata(from)?;
    let times = FileTimes::new().set_modified(meta.modified()?);
    // Times need no write permission, only a descriptor.
    File::open(to)?.set_times(times)?;
    Ok(bytes)
}

/// Makes `to` like `from`, but leaves files that are equal already alone, with their times, as
/// `rsync` would; repositories in `to` stay. Whatever has to go is handed to `discard`.
pub fn mirror(
    from: &Path,
    to: &Path,
    discard: &mut dyn FnMut(&Path) -> Result<()>,
) -> Result<CopyReport> {
    let mut copied = CopyReport::default();
    mirror_directory(from, to, discard, &mut copied)?;
    Ok(copied)
}

fn mirror_directory(
    from: &Path,
    to: &Path,
    discard: &mut dyn FnMut(&Path) -> Result<()>,
    copied: &mut CopyReport,
) -> Result<()> {
    let wanted = names(from)?;
    let mut there = names(to)?;
    there.retain(|name, _| !is_repository(name));
    for (name, kind) in &there {
        if wanted.get(name).is_none_or(|w| w != kind) {
            discard(&to.join(name))?;
        }
    }
    for (name, kind) in wanted {
        if is_repository(&name) {
            copied.left_out += 1;
            continue;
        }
        let (source, target) = (from.join(&name), to.join(&name));
        if there.get(&name) != Some(&kind) {
            copy_entry(&source, &target, kind, copied)?;
        } else if kind.is_dir() {
            mirror_directory(&source, &target, discard, copied)?;
        } else if !same_content(&source, &target, kind)? {
            discard(&target)?;
            copy_entry(&source, &target, kind, copied)?;
        }
    }
    Ok(())
}

/// Reads everything below `top` once, so that it is in the page cache. Repositories below are left
/// out; `top` may be one.
pub fn read_through(top: &Path) -> Result<()> {
    fn read(path: &Path, kind: FileType, buffer: &mut [u8]) -> Result<()> {
        if kind.is_dir() {
            for (name, kind) in names(path)? {
                if !is_repository(&name) {
                    read(&path.join(&name), kind, buffer)?;
                }
            }
        } else if kind.is_file() {
            let context = || format!("read {}", path.display());
            let mut file = File::open(path).with_context(context)?;
            while file.read(buffer).with_context(context)? > 0 {}
        }
        Ok(())
    }
    let meta = fs::symlink_metadata(top).with_context(|| format!("stat {}", top.display()))?;
    let mut buffer = vec![0; READ_BYTES];
    read(top, meta.file_type(), &mut buffer)
}

/// Compares two trees: names, kinds, the executable bit, link targets, every byte. Returns a line
/// per difference, at most `limit`. Without `empty_directories` those may be missing in `got`, as
/// some tools do not keep them.
pub fn differences(
    want: &Path,
    got: &Path,
    empty_directories: bool,
    limit: usize,
) -> Result<Vec<String>> {
    let mut found = Vec::new();
    compare(want, got, empty_directories, limit, &mut found)?;
    Ok(found)
}

fn compare(
    want: &Path,
    got: &Path,
    empty_directories: bool,
    limit: usize,
    found: &mut Vec<String>,
) -> Result<()> {
    let mut wanted = names(want)?;
    let mut there = names(got)?;
    wanted.retain(|name, kind| {
        !is_repository(name) && (kind.is_dir() || kind.is_symlink() || kind.is_file())
    });
    there.retain(|name, _| !is_repository(name));
    for name in there.keys() {
        if !wanted.contains_key(name) && found.len() < limit {
            found.push(format!("not in the input: {}", got.join(name).display()));
        }
    }
    for (name, kind) in wanted {
        if found.len() >= limit {
            break;
        }
        let (source, target) = (want.join(&name), got.join(&name));
        match there.get(&name) {
            None if kind.is_dir() && !empty_directories && holds_no_file(&source)? => {}
            None => found.push(format!("missing: {}", target.display())),
            Some(k) if *k != kind => found.push(format!("other kind: {}", target.display())),
            Some(_) if kind.is_dir() => {
                compare(&source, &target, empty_directories, limit, found)?;
            }
            Some(_) if !same_content(&source, &target, kind)? => {
                found.push(format!("differs: {}", target.display()));
            }
            Some(_) if kind.is_file() && executable(&source)? != executable(&target)? => {
                found.push(format!("executable bit: {}", target.display()));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn holds_no_file(top: &Path) -> Result<bool> {
    for (name, kind) in names(top)? {
        if is_repository(&name) {
            continue;
        }
        if !kind.is_dir() || !holds_no_file(&top.join(name))? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn executable(path: &Path) -> Result<bool> {
    use std::os::unix::fs::PermissionsExt;
    let meta = fs::metadata(path).with_context(|| format!("stat {}", path.display()))?;
    Ok(meta.permissions().mode() & 0o100 != 0)
}

fn same_content(a: &Path, b: &Path, kind: FileType) -> Result<bool> {
    let context = || format!("compare {} with {}", a.display(), b.display());
    if kind.is_symlink() {
        let target = |path| fs::read_link(path).with_context(context);
        return Ok(target(a)? == target(b)?);
    }
    same_bytes(a, b).with_context(context)
}

fn same_bytes(a: &Path, b: &Path) -> io::Result<bool> {
    let (mut a, mut b) = (File::open(a)?, File::open(b)?);
    let mut left = a.metadata()?.len();
    if b.metadata()?.len() != left {
        return Ok(false);
    }
    let n = left.min(READ_BYTES as u64) as usize;
    let (mut x, mut y) = (vec![0; n], vec![0; n]);
    while left > 0 {
        let n = left.min(n as u64) as usize;
        a.read_exact(&mut x[..n])?;
        b.read_exact(&mut y[..n])?;
        if x[..n] != y[..n] {
            return Ok(false);
        }
        left -= n as u64;
    }
    Ok(true)
}

fn names(dir: &Path) -> Result<BTreeMap<OsString, FileType>> {
    let list = || -> io::Result<_> {
        fs::read_dir(dir)?
            .map(|entry| entry.and_then(|e| Ok((e.file_name(), e.file_type()?))))
            .collect()
    };
    list().with_context(|| format!("list {}", dir.display()))
}

/// The largest regular file below `top`, relative to it, the first by name among equals. Fails if
/// there is none.
pub fn largest_file(top: &Path) -> Result<PathBuf> {
    // The last of the largest wins, so the order is turned around.
    let best = regular_files(top)?
        .into_iter()
        .rev()
        .max_by_key(|(_, bytes)| *bytes);
    let (path, _) = best.with_context(|| format!("no file in {}", top.display()))?;
    Ok(path)
}

/// The middle regular file below `top` by name, other than `not`, with at least a byte; `None` if
/// there is no such file.
pub fn middle_file(top: &Path, not: &Path) -> Result<Option<PathBuf>> {
    let mut all = regular_files(top)?;
    all.retain(|(path, bytes)| path != not && *bytes > 0);
    let middle = all.len() / 2;
    Ok(all.into_iter().nth(middle).map(|(path, _)| path))
}

/// Regular files outside repositories, relative to `top`, with their lengths, ordered by name.
pub fn regular_files(top: &Path) -> Result<Vec<(PathBuf, u64)>> {
    let mut found = Vec::new();
    walk(top, &mut |path, meta| {
        let inside = path.strip_prefix(top).unwrap_or(path);
        if meta.is_file() && !inside.iter().any(is_repository) {
            found.push((inside.to_owned(), meta.len()));
        }
        Ok(())
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(top: &Path) -> Result<()> {
        fs::create_dir_all(top.join("a/.git"))?;
        fs::create_dir_all(top.join("empty/deeper"))?;
        fs::write(top.join("a/one"), "1")?;
        fs::write(top.join("two"), "two")?;
        std::os::unix::fs::symlink("two", top.join("link"))?;
        Ok(())
    }

    #[test]
    fn copy_is_equal_and_leaves_repositories_out() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        tree(&from)?;
        let copied = copy_tree(&from, &to)?;
        assert_eq!((copied.files, copied.bytes, copied.left_out), (2, 4, 1));
        assert!(!to.join("a/.git").exists());
        assert!(differences(&from, &to, true, 9)?.is_empty());
        assert_eq!(
            fs::metadata(from.join("two"))?.modified()?,
            fs::metadata(to.join("two"))?.modified()?
        );
        assert_eq!(largest_file(&from)?, Path::new("two"));
        assert_eq!(middle_file(&from, Path::new("two"))?, Some("a/one".into()));
        Ok(())
    }

    #[test]
    fn every_kind_of_difference_is_found() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        tree(&from)?;
        copy_tree(&from, &to)?;
        fs::write(to.join("a/one"), "2")?;
        fs::write(to.join("new"), "")?;
        fs::remove_file(to.join("two"))?;
        fs::remove_file(to.join("link"))?;
        fs::write(to.join("link"), "two")?;
        fs::remove_dir_all(to.join("empty"))?;
        let found = differences(&from, &to, true, 9)?;
        assert_eq!(found.len(), 5, "{found:?}");
        assert_eq!(differences(&from, &to, false, 9)?.len(), 4);
        assert_eq!(differences(&from, &to, true, 2)?.len(), 2);
        Ok(())
    }

    #[test]
    fn mirror_touches_only_what_differs() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        tree(&from)?;
        copy_tree(&from, &to)?;
        fs::create_dir(to.join(".dmv"))?;
        fs::write(from.join("a/one"), "other")?;
        fs::remove_dir_all(from.join("empty"))?;
        let mut gone = Vec::new();
        let copied = mirror(&from, &to, &mut |path| {
            gone.push(path.to_owned());
            if path.is_dir() {
                fs::remove_dir_all(path)?;
            } else {
                fs::remove_file(path)?;
            }
            Ok(())
        })?;
        assert_eq!(copied.files, 1);
        assert_eq!(gone, [to.join("empty"), to.join("a/one")]);
        assert!(to.join(".dmv").exists());
        assert!(differences(&from, &to, true, 9)?.is_empty());
        Ok(())
    }
}
