//! What a commit keeps of a file besides its content, where somebody asks for it: the time of its last change,
//! and extended attributes.
//!
//! Settings ask for it, and the lines of attribute files. A line with `times` keeps the times of the files that
//! its pattern names, and one with `-times` does not. A line with `xattrs=NAMES` keeps the extended attributes
//! whose names match, and one with `-xattrs` none. For each of the two, the last such line of the deepest file
//! counts. The files are those of the worktree. The base has those that the subset leaves out. The module reads
//! no content, and writes no file.

use super::attributes::{DMVATTRIBUTES, Patterns, attribute_lines};
use super::ignore::why_unusable;
use super::scan::BaseEntries;
use super::snapshot::Problem;
use super::{join, split_path};
use crate::fsutil::{FileStat, FileTime, SafeDir};
use crate::glob::Glob;
use crate::limits::{MAX_IGNORE_BYTES, MAX_XATTR_NAME_BYTES, MAX_XATTRS_BYTES};
use crate::object::tree::{ModifiedTime, TreeEntry, XATTR_PREFIX, Xattrs};
use crate::platform::{UserAttributes, set_attribute, user_attributes};
use crate::subset::{Extent, Subset};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

/// The attributes of files whose times are kept, and of those whose times are not.
const TIMES: [&str; 2] = ["times", "-times"];
/// The attribute of files of which no extended attributes are kept.
const NO_XATTRS: &str = "-xattrs";
/// The attribute that says which are kept.
const XATTRS: &str = "xattrs";

/// What a commit keeps of a file besides its content.
#[derive(Clone, Debug, Default)]
pub struct Properties {
    /// Whether it keeps the time of the last change.
    pub times: bool,
    /// The extended attributes that it keeps.
    pub xattrs: XattrNames,
}

/// Patterns of the names of extended attributes. None of them names what is not a user's.
#[derive(Clone, Debug, Default)]
pub struct XattrNames(Option<Arc<[Glob]>>);

impl XattrNames {
    /// Parses patterns such as `user.*`, with commas between them. Fails with the reason, as a clause.
    pub fn parse(list: &str) -> Result<XattrNames, String> {
        let parse = |pattern: &str| {
            if !pattern.starts_with(XATTR_PREFIX) {
                let why = "only attributes whose names begin with 'user.' can be kept";
                return Err(why.to_owned());
            }
            if pattern.len() > XATTR_PREFIX.len() + MAX_XATTR_NAME_BYTES {
                return Err("the pattern is too long".to_owned());
            }
            Glob::parse(pattern.as_bytes()).map_err(|e| e.to_string())
        };
        let patterns = list.split(',').map(str::trim).filter(|p| !p.is_empty());
        let patterns = patterns.map(parse).collect::<Result<Vec<Glob>, _>>()?;
        Ok(XattrNames((!patterns.is_empty()).then(|| patterns.into())))
    }

    /// Returns whether no name matches.
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Returns whether a name, given without `user.`, matches.
    fn has(&self, name: &str) -> bool {
        let name = [XATTR_PREFIX, name].concat();
        let patterns = self.0.as_deref().unwrap_or_default();
        patterns.iter().any(|glob| glob.matches(name.as_bytes()))
    }

    /// Returns those extended attributes of an open file that match.
    pub(crate) fn read(&self, file: &File) -> io::Result<FoundXattrs> {
        if self.is_none() {
            return Ok(FoundXattrs::Unknown);
        }
        let wanted = |name: &[u8]| {
            str::from_utf8(name).is_ok_and(|name| Xattrs::can_name(name) && self.has(name))
        };
        let Some(UserAttributes { all, is_too_large }) =
            user_attributes(file, &wanted, MAX_XATTRS_BYTES)?
        else {
            return Ok(FoundXattrs::Unknown);
        };
        let text = |(name, value)| Some((String::from_utf8(name).ok()?, value));
        let all: Option<Vec<_>> = all.into_iter().map(text).collect();
        let set = all.filter(|_| !is_too_large);
        let set = set.and_then(|all| Xattrs::new(all).ok());
        Ok(set.map_or(FoundXattrs::TooLarge, FoundXattrs::Known))
    }

    /// Returns the attributes that a commit keeps of a file: those that were found, and of those that `old` has
    /// and DMV was not asked about, all. Without anything found, the old ones stay.
    pub(crate) fn updated(&self, old: &Xattrs, found: &FoundXattrs) -> Xattrs {
        let FoundXattrs::Known(found) = found else {
            return old.clone();
        };
        let others = old.only(|name| !self.has(name));
        // What the user has now is more important than what DMV was not asked about.
        found.and(&others).unwrap_or_else(|_| found.clone())
    }
}

impl Properties {
    /// Reads what is kept of an open file with this stat; `None` if nothing is.
    pub(super) fn read(
        &self,
        file: &File,
        stat: &FileStat,
    ) -> io::Result<Option<Box<KeptProperties>>> {
        if !self.times && self.xattrs.is_none() {
            return Ok(None);
        }
        Ok(Some(Box::new(KeptProperties {
            modified: self.times.then_some(stat.mtime),
            names: self.xattrs.clone(),
            xattrs: self.xattrs.read(file)?,
        })))
    }
}

/// What a commit keeps of a file that was read, besides its content.
#[derive(Clone, Debug)]
pub(crate) struct KeptProperties {
    modified: Option<FileTime>,
    /// The extended attributes that were asked for.
    names: XattrNames,
    /// Those of them that it has.
    xattrs: FoundXattrs,
}

impl KeptProperties {
    /// Returns whether somebody has asked for extended attributes.
    pub(super) fn is_asked_for(&self) -> bool {
        !self.names.is_none()
    }

    /// Returns whether it has more extended attributes than a commit keeps.
    pub(super) fn has_too_large(&self) -> bool {
        self.xattrs == FoundXattrs::TooLarge
    }
}

/// Returns a new entry with what the commit keeps of its file. `old` is the entry that it replaces: what nobody
/// asked for stays as it is there.
pub(crate) fn with_properties(
    entry: TreeEntry,
    kept: Option<&KeptProperties>,
    old: Option<&TreeEntry>,
) -> TreeEntry {
    let was = old.map(TreeEntry::xattrs).unwrap_or_default();
    let xattrs = kept.map_or_else(
        || was.clone(),
        |kept| kept.names.updated(&was, &kept.xattrs),
    );
    let entry = if entry.kind.is_blob() {
        entry.with_xattrs(&xattrs)
    } else {
        entry
    };
    let Some(FileTime { seconds, nanos }) = kept.and_then(|kept| kept.modified) else {
        return entry;
    };
    entry.with_modified(Some(ModifiedTime { seconds, nanos }))
}

/// The extended attributes of a file on disk that DMV was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FoundXattrs {
    /// DMV was asked for none, or the file system has none.
    #[default]
    Unknown,
    /// They are more than a commit keeps of one file.
    TooLarge,
    /// These.
    Known(Xattrs),
}

/// Gives extended attributes to a new file, as far as the file system takes them: the content is more important.
/// Returns whether it took all.
pub(super) fn set_xattrs(file: &File, all: &Xattrs) -> bool {
    let set = all
        .iter()
        .map(|(name, value)| set_attribute(file, name, value));
    set.filter(Result::is_err).count() == 0
}

/// Where the attribute files of a worktree are.
pub struct AttributeFiles<'a> {
    /// The worktree. Without one, all of them are entries.
    pub root: Option<&'a SafeDir>,
    /// The base commit's entries.
    pub known: &'a dyn BaseEntries,
    /// The worktree's subset.
    pub subset: &'a Subset,
}

/// The settings, and the attribute files that were read last.
#[derive(Debug, Default)]
pub struct PropertyRules {
    default: Properties,
    open: Mutex<Levels>,
}

/// The attribute files of one directory and of those above it.
#[derive(Debug, Default)]
struct Levels {
    /// Each directory with what its file says, from the root down.
    dirs: Vec<(Vec<u8>, Option<Level>)>,
    /// The files that cannot be used, and why.
    faults: BTreeMap<Vec<u8>, String>,
}

/// The lines of one attribute file.
#[derive(Debug)]
struct Level {
    times: Lines<bool>,
    xattrs: Lines<XattrNames>,
}

/// The lines about one property: patterns, and what each says.
#[derive(Debug)]
struct Lines<T> {
    patterns: Patterns,
    says: Vec<T>,
}

impl<T> Lines<T> {
    fn new(lines: Vec<(&str, T)>) -> Result<Lines<T>, String> {
        let patterns = Patterns::new(lines.iter().map(|(pattern, _)| *pattern))?;
        let says = lines.into_iter().map(|(_, says)| says).collect();
        Ok(Lines { patterns, says })
    }

    fn last(&self, path: &[u8]) -> Option<&T> {
        self.patterns.last(path).map(|at| &self.says[at])
    }
}

impl PropertyRules {
    /// Returns the rules of a worktree. `default` counts where no attribute file says anything.
    pub fn new(default: Properties) -> PropertyRules {
        PropertyRules {
            default,
            open: Mutex::default(),
        }
    }

    /// Returns what commits keep of the file `name` in the directory `dir`. Reads the attribute files there and
    /// above, unless the last call has read them.
    pub fn of(&self, files: &AttributeFiles<'_>, dir: &[u8], name: &[u8]) -> Properties {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.enter(files, dir);
        let path = join(dir, name);
        let (mut times, mut xattrs) = (None, None);
        for (above, level) in open.dirs.iter().rev() {
            let Some(level) = level else { continue };
            let rest = &path[above.len() + usize::from(!above.is_empty())..];
            times = times.or_else(|| level.times.last(rest).copied());
            xattrs = xattrs.or_else(|| level.xattrs.last(rest).cloned());
        }
        Properties {
            times: times.unwrap_or(self.default.times),
            xattrs: xattrs.unwrap_or_else(|| self.default.xattrs.clone()),
        }
    }

    /// Returns the attribute files that could not be used.
    pub(super) fn faults(&self) -> Vec<Problem> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let faults = open.faults.iter();
        let problem = |(path, why): (&Vec<u8>, &String)| {
            let why =
                format!("what it says about times and extended attributes has no effect: {why}");
            Problem::new(path.clone(), why)
        };
        faults.map(problem).collect()
    }
}

impl Levels {
    fn enter(&mut self, files: &AttributeFiles<'_>, dir: &[u8]) {
        let is_above = |above: &[u8]| {
            let rest = dir.strip_prefix(above);
            above.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
        };
        while self.dirs.last().is_some_and(|(at, _)| !is_above(at)) {
            self.dirs.pop();
        }
        let mut missing = Vec::new();
        let mut at = Some(dir);
        while let Some(next) = at
            && self.dirs.last().is_none_or(|(open, _)| open != next)
        {
            missing.push(next);
            at = match next {
                b"" => None,
                next => Some(split_path(next).map_or(&b""[..], |(above, _)| above)),
            };
        }
        for dir in missing.into_iter().rev() {
            let level = read(files, dir).and_then(|text| match text {
                Some(text) => level(&text),
                None => Ok(None),
            });
            let level = level.unwrap_or_else(|why| {
                self.faults.insert(join(dir, DMVATTRIBUTES), why);
                None
            });
            self.dirs.push((dir.to_vec(), level));
        }
    }
}

/// Parses an attribute file. Lines that cannot be used are for `dmv keep` to tell.
fn level(text: &[u8]) -> Result<Option<Level>, String> {
    if text.contains(&0) {
        return Err("it is no UTF-8 text".to_owned());
    }
    let (lines, _) = attribute_lines(text);
    let (mut times, mut xattrs) = (Vec::new(), Vec::new());
    for line in &lines {
        for word in &line.words {
            match says(word) {
                Some(Says::Times(keeps)) => times.push((&line.pattern[..], keeps)),
                Some(Says::Xattrs(names)) => xattrs.push((&line.pattern[..], names?)),
                None => {}
            }
        }
    }
    if times.is_empty() && xattrs.is_empty() {
        return Ok(None);
    }
    let (times, xattrs) = (Lines::new(times)?, Lines::new(xattrs)?);
    Ok(Some(Level { times, xattrs }))
}

/// What a word of an attribute file says.
enum Says {
    Times(bool),
    Xattrs(Result<XattrNames, String>),
}

fn says(word: &str) -> Option<Says> {
    match word {
        _ if word == TIMES[0] => Some(Says::Times(true)),
        _ if word == TIMES[1] => Some(Says::Times(false)),
        NO_XATTRS => Some(Says::Xattrs(Ok(XattrNames::default()))),
        _ => {
            let (key, names) = word.split_once('=')?;
            (key == XATTRS).then(|| Says::Xattrs(XattrNames::parse(names)))
        }
    }
}

/// Returns whether a word of an attribute file is about the properties of files.
pub(crate) fn is_about_properties(word: &str) -> bool {
    says(word).is_some()
}

/// Returns the attribute file of a directory, if it has one.
fn read(files: &AttributeFiles<'_>, dir: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let entry = || {
        files
            .known
            .file(&join(dir, DMVATTRIBUTES), MAX_IGNORE_BYTES)
    };
    let Some(root) = files.root else {
        return entry();
    };
    let opened = root.open_dir(dir);
    let opened = opened.and_then(|dir| dir.open_file_read(DMVATTRIBUTES));
    let file = match opened {
        Ok((file, _)) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return match files.subset.extent(dir) {
                Extent::Part => entry(),
                _ => Ok(None),
            };
        }
        Err(e) => {
            let stat = root.open_dir(dir).and_then(|dir| dir.stat(DMVATTRIBUTES));
            let why = stat.ok().and_then(|stat| why_unusable(stat.kind));
            return Err(why.map_or_else(|| e.why(), str::to_owned));
        }
    };
    let mut text = Vec::new();
    let read = file.take(MAX_IGNORE_BYTES + 1).read_to_end(&mut text);
    match read {
        Ok(read) if read as u64 > MAX_IGNORE_BYTES => {
            Err(format!("it is larger than {MAX_IGNORE_BYTES} bytes"))
        }
        Ok(_) => Ok(Some(text)),
        Err(e) => Err(e.to_string()),
    }
}

/// Returns the time that an entry has, for its file.
pub fn time_of(entry: &TreeEntry) -> Option<FileTime> {
    let ModifiedTime { seconds, nanos } = entry.modified()?;
    Some(FileTime { seconds, nanos })
}

#[cfg(test)]
mod tests {
    use super::super::scan::EmptyBase;
    use super::*;
    use crate::fsutil::SafeDir;
    use std::fs;

    #[test]
    fn the_last_line_of_the_deepest_file_decides() -> Result<(), Box<dyn std::error::Error>> {
        let temp = tempfile::tempdir()?;
        for (dir, text) in [
            (
                "",
                &b"*.psd times xattrs=user.a\nold -times -xattrs\n*.txt keep=all\n"[..],
            ),
            (
                "a/b",
                b"*.psd -times\nkept.psd times -times times xattrs=user.b,user.c\n",
            ),
            ("bad", b"\xff times\n"),
            ("wrong", b"* xattrs=security.*\n"),
        ] {
            fs::create_dir_all(temp.path().join(dir))?;
            fs::write(temp.path().join(dir).join(".dmvattributes"), text)?;
        }
        fs::create_dir_all(temp.path().join("a/b/c"))?;
        let subset = Subset::everything();
        let root = SafeDir::open_root(temp.path())?;
        let files = AttributeFiles {
            root: Some(&root),
            known: &EmptyBase,
            subset: &subset,
        };
        for by_default in [false, true] {
            let default = Properties {
                times: by_default,
                xattrs: XattrNames::parse(if by_default { "user.*" } else { "" })?,
            };
            let rules = PropertyRules::new(default);
            let all = if by_default { "abcd" } else { "" };
            for (dir, name, keeps, named) in [
                ("", "x.psd", true, "a"),
                ("a", "x.psd", true, "a"),
                ("a/b", "x.psd", false, "a"),
                ("a/b/c", "kept.psd", true, "bc"),
                ("old/b", "x.psd", false, ""),
                ("a", "x.txt", by_default, all),
                ("bad", "x", by_default, all),
                ("wrong", "x", by_default, all),
                ("ab", "x.psd", true, "a"),
            ] {
                let found = rules.of(&files, dir.as_bytes(), name.as_bytes());
                assert_eq!(found.times, keeps, "{dir}/{name}");
                let names = ["a", "b", "c", "d"].into_iter();
                let names: String = names.filter(|name| found.xattrs.has(name)).collect();
                assert_eq!(names, named, "{dir}/{name}");
            }
            assert_eq!(rules.faults().len(), 1);
        }
        Ok(())
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_attribute_file_is_said() -> Result<(), Box<dyn std::error::Error>> {
        let temp = tempfile::tempdir()?;
        let at = |dir: &str| temp.path().join(dir).join(".dmvattributes");
        fs::create_dir_all(at("dir"))?;
        for dir in ["link", "wide", "text"] {
            fs::create_dir(temp.path().join(dir))?;
        }
        std::os::unix::fs::symlink("../text/.dmvattributes", at("link"))?;
        fs::write(at("wide"), b"\xff\xfe*\0 \0t\0")?;
        fs::write(at("text"), "* times\n")?;
        let root = SafeDir::open_root(temp.path())?;
        let files = AttributeFiles {
            root: Some(&root),
            known: &EmptyBase,
            subset: &Subset::everything(),
        };
        let rules = PropertyRules::new(Properties::default());
        for dir in ["dir", "link", "wide", "text"] {
            rules.of(&files, dir.as_bytes(), b"x");
        }
        let told: Vec<String> = rules.faults().into_iter().map(|fault| fault.why).collect();
        let ends = ["not a regular file", "does not follow", "no UTF-8 text"];
        assert_eq!(told.len(), ends.len(), "{told:?}");
        for (why, end) in told.iter().zip(ends) {
            assert!(why.ends_with(end), "{why}");
        }
        Ok(())
    }

    #[test]
    fn only_names_of_users_can_be_asked_for() -> Result<(), String> {
        for wrong in [
            "*",
            "security.*",
            "user",
            "user.a,trusted.b",
            "user.[",
            "us?r.x",
        ] {
            assert!(XattrNames::parse(wrong).is_err(), "{wrong}");
        }
        assert!(XattrNames::parse("user.x")?.has("x"));
        assert!(XattrNames::parse(" , ")?.is_none());
        Ok(())
    }
}
