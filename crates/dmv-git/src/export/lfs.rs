//! Which files of commits that DMV made go out as pointers of Git LFS, and where their content goes.
//!
//! The attribute files of a commit decide, and then the user's choice. Source: Git's documentation, gitattributes.

use crate::import::lfs::{ContentHash, MAX_POINTER_BYTES, Pointer};
use dmv_core::ObjectId;
use dmv_core::object::tree::{Kind, TreeEntry};
use dmv_core::platform::sync_dir;
use dmv_core::worktree::attributes::{Patterns, attribute_lines, check_pattern};
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use tempfile::NamedTempFile;

/// The name of Git's attribute files.
pub const ATTRIBUTES: &[u8] = b".gitattributes";
/// A longer attribute file is not read. Git's own limit is greater.
pub const MAX_ATTRIBUTES_BYTES: u64 = 1 << 20;
/// What Git LFS writes behind a pattern.
const FOR_LFS: &str = " filter=lfs diff=lfs merge=lfs -text\n";
/// The beginning of a line that gives several attributes a name.
const MACRO: &str = "[attr]";

/// Which files become pointers, beside those for which attribute files say so.
#[derive(Clone, Debug, Default)]
pub struct LfsChoice {
    patterns: Vec<String>,
    matcher: Option<Rc<Patterns>>,
    /// Files of more bytes become pointers, too.
    larger_than: Option<u64>,
}

impl LfsChoice {
    /// Returns a choice of the files that match one of `patterns`, as attribute files have them, or that have more
    /// bytes than `larger_than`. Fails with the pattern that can match nothing, and why.
    pub fn new(
        patterns: Vec<String>,
        larger_than: Option<u64>,
    ) -> Result<LfsChoice, (String, String)> {
        for pattern in &patterns {
            check_pattern(pattern)
                .and(check_for_git(pattern))
                .map_err(|why| (pattern.clone(), why))?;
        }
        let matcher = Patterns::new(patterns.iter().map(String::as_str));
        let matcher = matcher.map_err(|why| (patterns.join(","), why))?;
        Ok(LfsChoice {
            matcher: (!patterns.is_empty()).then(|| Rc::new(matcher)),
            patterns,
            larger_than,
        })
    }

    /// Returns whether only attribute files decide.
    pub fn is_empty(&self) -> bool {
        self.matcher.is_none() && self.larger_than.is_none()
    }

    /// Returns the line that an attribute file needs for the file at `path`; `None` if the file is not chosen.
    fn line_for(&self, path: &[u8], size: u64) -> Option<AttributesLine> {
        let matching = |matcher: &Rc<Patterns>| matcher.last_of_file(path);
        if let Some(at) = self.matcher.as_ref().and_then(matching) {
            return Some(AttributesLine::of_pattern(&self.patterns[at]));
        }
        let is_large = self.larger_than.is_some_and(|most| size > most);
        is_large.then(|| AttributesLine::of_path(path))
    }
}

/// Fails with the reason if a pattern is none in an attribute file of Git.
fn check_for_git(pattern: &str) -> Result<(), String> {
    let why = if pattern.ends_with('/') {
        "attribute files have no patterns for directories; for all files in it: DIRECTORY/**"
    } else if pattern.starts_with('"') || pattern.starts_with(MACRO) {
        "an attribute file means something else by this"
    } else if pattern.contains(|c: char| c.is_ascii_whitespace()) && pattern.contains(['\\', '[']) {
        "an attribute file has no blank beside '\\' or '['; '?' stands for a blank"
    } else {
        return Ok(());
    };
    Err(why.to_owned())
}

/// A line of an attribute file that gives files to Git LFS.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttributesLine(Vec<u8>);

impl AttributesLine {
    fn of_pattern(pattern: &str) -> AttributesLine {
        AttributesLine::new(pattern.as_bytes(), b"")
    }

    fn of_path(path: &[u8]) -> AttributesLine {
        AttributesLine::new(&[b"/", path].concat(), b"*?[]\\")
    }

    /// A blank would end the pattern.
    fn new(pattern: &[u8], escaped: &[u8]) -> AttributesLine {
        let mut line = Vec::new();
        for byte in pattern {
            if byte.is_ascii_whitespace() {
                line.extend(b"[[:space:]]");
                continue;
            }
            if escaped.contains(byte) {
                line.push(b'\\');
            }
            line.push(*byte);
        }
        line.extend(FOR_LFS.as_bytes());
        AttributesLine(line)
    }
}

/// Returns the text of an attribute file with some more lines.
pub fn with_lines(mut text: Vec<u8>, lines: &BTreeSet<AttributesLine>) -> Vec<u8> {
    if text.last().is_some_and(|last| *last != b'\n') {
        text.push(b'\n');
    }
    for line in lines {
        text.extend(&line.0);
    }
    text
}

/// Returns whether `text` is `own` with lines at its end that an export may have added.
pub fn is_with_lines(text: &[u8], own: &[u8]) -> bool {
    let Some(more) = text.strip_prefix(own) else {
        return false;
    };
    let more = if own.is_empty() || own.ends_with(b"\n") {
        more
    } else {
        more.strip_prefix(b"\n").unwrap_or(more)
    };
    let mut lines = more.split_inclusive(|b| *b == b'\n');
    lines.all(|line| line.ends_with(FOR_LFS.as_bytes()))
}

/// What the attribute file of one directory says about Git LFS.
struct Level {
    patterns: Patterns,
    /// For each pattern, whether its files are pointers.
    says: Vec<bool>,
}

impl Level {
    /// Reads an attribute file; `None` if it says nothing about filters.
    fn parse(text: &[u8]) -> Option<Level> {
        let (lines, _) = attribute_lines(text);
        let mut named: Vec<(&str, bool)> = Vec::new();
        let (mut patterns, mut says) = (Vec::new(), Vec::new());
        for line in &lines {
            let says_of = |word: &String| says_of(word, &named);
            let Some(is_lfs) = line.words.iter().filter_map(says_of).next_back() else {
                continue;
            };
            if let Some(name) = line.pattern.strip_prefix(MACRO) {
                named.push((name, is_lfs));
            } else {
                patterns.push(&line.pattern[..]);
                says.push(is_lfs);
            }
        }
        let is_empty = patterns.is_empty();
        let patterns = Patterns::new(patterns).ok().filter(|_| !is_empty)?;
        Some(Level { patterns, says })
    }
}

/// Returns whether a word gives files to Git LFS, or takes them away from it.
fn says_of(word: &str, named: &[(&str, bool)]) -> Option<bool> {
    let (key, value) = word.split_once('=').unwrap_or((word, ""));
    match key {
        "filter" => Some(value == "lfs"),
        "-filter" | "!filter" => Some(false),
        _ => {
            let found = named.iter().rev().find(|(name, _)| *name == word);
            found.map(|(_, says)| *says)
        }
    }
}

/// The attribute files of a directory and of those above it.
#[derive(Clone)]
pub struct Rules {
    /// Equal numbers mean equal files at equal places.
    pub number: u64,
    choice: LfsChoice,
    /// The directories with a file that says something, from the root down.
    levels: Vec<(Vec<u8>, Rc<Level>)>,
}

/// Whether a file becomes a pointer.
#[derive(Debug, PartialEq, Eq)]
pub enum Fate {
    /// It stays as it is.
    Content,
    /// It becomes one. The line that the attribute file of the root needs for it, if none says so yet.
    Pointer(Option<AttributesLine>),
}

impl Rules {
    /// Returns whether nothing above says anything, so that a directory is the same at each place.
    pub fn is_empty(&self) -> bool {
        self.levels.is_empty() && self.choice.is_empty()
    }

    /// Returns what becomes of a file.
    pub fn fate(&self, path: &[u8], entry: &TreeEntry) -> Fate {
        let is_file = matches!(entry.kind, Kind::File | Kind::Executable);
        if !is_file || entry.size == 0 || entry.name.as_bytes() == ATTRIBUTES {
            return Fate::Content;
        }
        for (dir, level) in self.levels.iter().rev() {
            let rest = &path[dir.len() + usize::from(!dir.is_empty())..];
            if let Some(at) = level.patterns.last_of_file(rest) {
                return if level.says[at] {
                    Fate::Pointer(None)
                } else {
                    Fate::Content
                };
            }
        }
        match self.choice.line_for(path, entry.size) {
            Some(line) => Fate::Pointer(Some(line)),
            None => Fate::Content,
        }
    }
}

/// Reads attribute files, each once.
#[derive(Default)]
pub struct RuleReader {
    files: HashMap<ObjectId, Option<Rc<Level>>>,
    /// The numbers of rules, by those above and the file.
    numbers: HashMap<(u64, ObjectId), u64>,
}

impl RuleReader {
    /// Returns the rules above a root. If the root cannot get lines (`may_add`), only attribute files decide.
    pub fn above_root(choice: &LfsChoice, may_add: bool) -> Rules {
        Rules {
            number: u64::from(may_add),
            choice: if may_add {
                choice.clone()
            } else {
                LfsChoice::default()
            },
            levels: Vec::new(),
        }
    }

    /// Returns the rules in the directory `dir`, whose attribute file is the blob `file`. `read` reads it.
    pub fn enter<E>(
        &mut self,
        above: &Rules,
        dir: &[u8],
        file: ObjectId,
        read: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Rules, E> {
        let level = match self.files.get(&file) {
            Some(level) => level.clone(),
            None => {
                let level = Level::parse(&read()?).map(Rc::new);
                self.files.insert(file, level.clone());
                level
            }
        };
        let mut rules = above.clone();
        if let Some(level) = level {
            // The first two numbers belong to roots without a file.
            let next = self.numbers.len() as u64 + 2;
            rules.number = *self.numbers.entry((above.number, file)).or_insert(next);
            rules.levels.push((dir.to_vec(), level));
        }
        Ok(rules)
    }
}

/// Where Git LFS keeps content: `objects` in a directory `lfs`.
pub struct LfsStore {
    dir: PathBuf,
}

/// Content that is being written.
pub struct NewContent {
    file: NamedTempFile,
    hash: ContentHash,
    size: u64,
}

impl NewContent {
    /// Adds bytes.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.size += bytes.len() as u64;
        self.file.write_all(bytes)
    }
}

impl LfsStore {
    /// Returns the store in the directory `dir`, which is Git's `lfs`.
    pub fn new(dir: &Path) -> LfsStore {
        LfsStore {
            dir: dir.to_owned(),
        }
    }

    fn dir_of(&self, sha256: &str) -> PathBuf {
        let objects = self.dir.join("objects");
        objects.join(&sha256[..2]).join(&sha256[2..4])
    }

    /// Returns whether the content of a pointer is there.
    pub fn has(&self, pointer: &Pointer) -> bool {
        let path = self.dir_of(&pointer.sha256).join(&pointer.sha256);
        fs::metadata(path).is_ok_and(|there| there.is_file() && there.len() == pointer.size)
    }

    /// Begins to write content.
    pub fn begin(&self) -> io::Result<NewContent> {
        make_dirs(&self.dir)?;
        // Others may read it as they may read other files of Git.
        let file =
            tempfile::Builder::new().make_in(&self.dir, |path| fs::File::create_new(path))?;
        Ok(NewContent {
            file,
            hash: ContentHash::default(),
            size: 0,
        })
    }

    /// Ends content, and returns its pointer. It is kept only if it fits `wanted`; otherwise returns `None`.
    pub fn end(
        &self,
        content: NewContent,
        wanted: Option<&Pointer>,
    ) -> io::Result<Option<Pointer>> {
        let pointer = Pointer {
            sha256: content.hash.finish(),
            size: content.size,
        };
        if wanted.is_some_and(|wanted| *wanted != pointer) {
            return Ok(None);
        }
        // The pointer in Git must not outlive it.
        content.file.as_file().sync_all()?;
        let dir = self.dir_of(&pointer.sha256);
        fs::create_dir_all(&dir)?;
        let kept = content.file.persist(dir.join(&pointer.sha256));
        kept.map_err(|e| e.error)?;
        dir.ancestors().take(4).try_for_each(sync_dir)?;
        Ok(Some(pointer))
    }
}

/// Returns whether a file of `size` bytes may be a pointer itself.
pub fn may_be_pointer(size: u64) -> bool {
    size <= MAX_POINTER_BYTES as u64
}

/// Makes a directory and those above it, durably.
fn make_dirs(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    let above = dir.parent().filter(|above| !above.as_os_str().is_empty());
    let above = above.unwrap_or(Path::new("."));
    make_dirs(above)?;
    match fs::create_dir(dir) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(e),
        _ => sync_dir(above),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dmv_core::object::name::SafeName;
    use dmv_core::object::tree::TreeEntry;

    fn entry(name: &str, size: u64) -> TreeEntry {
        TreeEntry {
            name: SafeName::new(name.as_bytes()).expect("a name"),
            kind: Kind::File,
            is_list: false,
            id: ObjectId::from_bytes([1; 32]),
            size,
            files: 0,
            attrs: None,
        }
    }

    fn rules(choice: &LfsChoice, files: &[(&str, &str)]) -> Rules {
        let mut reader = RuleReader::default();
        let mut rules = RuleReader::above_root(choice, true);
        for (n, (dir, text)) in files.iter().enumerate() {
            let id = ObjectId::from_bytes([n as u8; 32]);
            let read = || Ok::<_, ()>(text.as_bytes().to_vec());
            rules = reader
                .enter(&rules, dir.as_bytes(), id, read)
                .expect("it is read");
        }
        rules
    }

    fn choice(patterns: &[&str], larger_than: Option<u64>) -> LfsChoice {
        let patterns = patterns.iter().map(|pattern| (*pattern).to_owned());
        LfsChoice::new(patterns.collect(), larger_than).expect("patterns")
    }

    fn line(text: &str) -> Option<AttributesLine> {
        Some(AttributesLine(format!("{text}{FOR_LFS}").into_bytes()))
    }

    #[test]
    fn attribute_files_decide_and_then_the_choice() {
        let files = [
            (
                "",
                "[attr]large filter=lfs -text\n*.mov filter=lfs\n*.exr large\n/a/*.psd -filter\n",
            ),
            ("a", "small.mov !filter\n*.wav filter=other\n"),
        ];
        let rules = rules(&choice(&["*.psd", "*.wav", "a b/*"], Some(10)), &files);
        let fate = |path: &str, size| {
            let name = path.rsplit('/').next().unwrap_or(path);
            rules.fate(path.as_bytes(), &entry(name, size))
        };
        assert_eq!(fate("a/x.mov", 1), Fate::Pointer(None));
        assert_eq!(fate("a/x.exr", 1), Fate::Pointer(None));
        for path in [
            "a/small.mov",
            "a/x.psd",
            "a/x.wav",
            "a/x",
            "a/.gitattributes",
        ] {
            assert_eq!(fate(path, 9), Fate::Content, "{path}");
        }
        assert_eq!(fate("a/x.mov", 0), Fate::Content);
        assert_eq!(fate("a/b/x.psd", 1), Fate::Pointer(line("*.psd")));
        assert_eq!(
            fate("a/c d[1]", 11),
            Fate::Pointer(line("/a/c[[:space:]]d\\[1\\]"))
        );
        assert_eq!(fate("a/c d[1]", 10), Fate::Content);
        let symlink = TreeEntry {
            kind: Kind::Symlink,
            ..entry("x.mov", 99)
        };
        assert_eq!(rules.fate(b"a/x.mov", &symlink), Fate::Content);
    }

    #[test]
    fn added_lines_say_what_was_chosen() {
        let added = line("/a/c[[:space:]]d\\[1\\]").into_iter().collect();
        let text = with_lines(b"* text=auto".to_vec(), &added);
        assert!(is_with_lines(&text, b"* text=auto"));
        assert!(is_with_lines(&text, &text));
        assert!(!is_with_lines(&text, b"* text"));
        let more = [&text[..], b"*.x binary\n"].concat();
        assert!(!is_with_lines(&more, b"* text=auto"));
        let text = String::from_utf8(text).expect("text");
        let rules = rules(&LfsChoice::default(), &[("", &text)]);
        assert_eq!(
            rules.fate(b"a/c d[1]", &entry("c d[1]", 1)),
            Fate::Pointer(None)
        );
        assert_eq!(rules.fate(b"a/c d1", &entry("c d1", 1)), Fate::Content);
    }

    #[test]
    fn a_pattern_that_can_match_nothing_is_named() {
        for pattern in ["[", "!a", "/", "a\\ b", "a[ x]b"] {
            let refused = LfsChoice::new(vec!["*.psd".to_owned(), pattern.to_owned()], None);
            assert_eq!(refused.expect_err("refused").0, pattern);
        }
    }
}
