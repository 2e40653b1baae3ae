//! The contents and edits of the stories.

use super::plain::{TAG, above};
use crate::rng::Rng;
use crate::scratch::Files;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// Names of files and directories. Any of them may be both.
const NAMES: [&[u8]; 6] = [b"a", b"b", b"c", b"d", b"e f", b"\xc3\xa4"];

/// Contents of a story: no two files share a line, unless one was made from the other.
pub struct Writer {
    rng: Rng,
    newest: u64,
}

impl Writer {
    /// Makes a writer whose edits depend on the seed alone.
    pub fn new(seed: u64) -> Writer {
        let rng = Rng::new(seed);
        Writer {
            rng,
            newest: seed << 20,
        }
    }

    /// Returns a content of a new file: a text, or bytes that no merge by lines can join.
    fn fresh(&mut self) -> Vec<u8> {
        self.newest += 1;
        let tag = format!("{:08x}", self.newest as u32);
        match self.rng.below(12) {
            0 => Vec::new(),
            1..=6 => [tag.as_bytes(), b"\0", &self.rng.bytes(20)].concat(),
            7 => [tag.as_bytes(), b"\0", &self.rng.bytes(90_000)].concat(),
            _ => {
                let line = |n| format!("{tag} {n}\n");
                (0..3 + self.rng.below(9))
                    .map(line)
                    .collect::<String>()
                    .into_bytes()
            }
        }
    }

    /// Returns a later version of a content.
    fn later(&mut self, old: &[u8]) -> Vec<u8> {
        if old.len() < TAG {
            return self.fresh();
        }
        let mut new = old.to_vec();
        self.newest += 1;
        if old.contains(&0) {
            new.truncate(old.len().max(40) - 20);
            new.extend(self.newest.to_le_bytes());
            return new;
        }
        let lines = new.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec);
        let mut lines: Vec<Vec<u8>> = lines.collect();
        let at = self.rng.below(lines.len() as u64) as usize;
        let tag = String::from_utf8_lossy(&old[..TAG]).into_owned();
        lines[at] = format!("{tag} new {}\n", self.newest).into_bytes();
        lines.concat()
    }

    /// Returns a path of up to three names.
    pub fn path(&mut self) -> Vec<u8> {
        let mut path = Vec::new();
        for level in 0..3 {
            path.extend_from_slice(NAMES[self.rng.below(NAMES.len() as u64) as usize]);
            if level == 2 || self.rng.one_in(2) {
                break;
            }
            path.push(b'/');
        }
        if self.rng.one_in(12) {
            path.extend_from_slice(b".tmp");
        }
        path
    }

    /// Changes the files below `root`, which are `files`.
    pub fn edit(&mut self, root: &Path, files: &Files) -> io::Result<String> {
        let disk = |path: &[u8]| root.join(OsStr::from_bytes(path));
        let count = files.len() as u64;
        let mut some = files.keys().filter(|path| *path != b".dmvignore");
        let some = some.nth(self.rng.below(count.max(2) - 1) as usize).cloned();
        let new = self.path();
        let told = |what: &str, path: &[u8]| format!("{what} {}", path.escape_ascii());
        match (self.rng.below(14), some) {
            (0..=3, Some(old)) if disk(&old).is_file() && !disk(&old).is_symlink() => {
                let content = self.later(&fs::read(disk(&old))?);
                fs::write(disk(&old), content)?;
                Ok(told("change", &old))
            }
            (4, Some(old)) => {
                remove(&disk(&old))?;
                Ok(told("delete", &old))
            }
            (5, Some(old)) if disk(&old).is_file() && !disk(&old).is_symlink() => {
                let mode = if self.rng.one_in(2) { 0o755 } else { 0o644 };
                fs::set_permissions(disk(&old), Permissions::from_mode(mode))?;
                Ok(told("chmod", &old))
            }
            (6, _) => {
                make_way(root, &new)?;
                symlink(
                    OsStr::from_bytes(NAMES[self.rng.below(6) as usize]),
                    disk(&new),
                )?;
                Ok(told("symlink", &new))
            }
            (7, _) => {
                make_way(root, &new)?;
                fs::create_dir(disk(&new))?;
                Ok(told("mkdir", &new))
            }
            (8..=9, _) => self.permute(root),
            (10, Some(old)) if disk(&old).exists() => {
                // Out of the way first: the new place may lie below the old one.
                let aside = root.join(".aside");
                fs::rename(disk(&old), &aside)?;
                make_way(root, &new)?;
                fs::rename(&aside, disk(&new))?;
                Ok(format!("{} to {}", told("move", &old), new.escape_ascii()))
            }
            _ => {
                make_way(root, &new)?;
                fs::write(disk(&new), self.fresh())?;
                Ok(told("write", &new))
            }
        }
    }

    /// Gives the names of a directory to each other, in a circle: what was at one is at the next.
    fn permute(&mut self, root: &Path) -> io::Result<String> {
        let mut names = Vec::new();
        for entry in fs::read_dir(root)? {
            let entry = entry?.path();
            let is_ours = entry
                .file_name()
                .is_some_and(|name| !name.as_bytes().starts_with(b"."));
            names.extend(is_ours.then_some(entry));
        }
        names.sort();
        self.rng.shuffle(&mut names);
        names.truncate(2 + self.rng.below(3) as usize);
        let Some(first) = names.first() else {
            return Ok("nothing to permute".into());
        };
        let aside = root.join(".aside");
        fs::rename(first, &aside)?;
        for pair in names.windows(2) {
            fs::rename(&pair[1], &pair[0])?;
        }
        fs::rename(&aside, &names[names.len() - 1])?;
        let shown = |path: &PathBuf| {
            path.file_name()
                .map(|name| name.as_bytes().escape_ascii().to_string())
        };
        Ok(format!(
            "permute {:?}",
            names.iter().filter_map(shown).collect::<Vec<_>>()
        ))
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(stat) if stat.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    }
}

/// Removes what is at a path, makes the directories above it, and removes the files in their place.
fn make_way(root: &Path, path: &[u8]) -> io::Result<()> {
    for dir in above(path) {
        let dir = root.join(OsStr::from_bytes(dir));
        if !fs::symlink_metadata(&dir).is_ok_and(|stat| stat.is_dir()) {
            remove(&dir)?;
            fs::create_dir(&dir)?;
        }
    }
    remove(&root.join(OsStr::from_bytes(path)))
}
