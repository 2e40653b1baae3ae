//! The rows in which a page shows changed files, and which of them a form means.
//!
//! A form sends the rows that its page has shown, and the numbers of the checked ones. So a file that changed after the
//! page was sent is never taken for one that the user has seen and left out.

use crate::address::encoded;
use crate::sequence::frame_number;
use crate::site::Post;
use dmv_core::object::name::RepoPath;
use dmv_core::repo::{ChangeKind, PathChange, Rename};
use dmv_core::worktree::scan::Select;
use dmv_core::worktree::select::is_under;
use percent_encoding::percent_decode_str;
use std::collections::{HashMap, HashSet};

/// Fewer frames than this stay rows of their own.
const FEWEST_FRAMES: usize = 3;
/// What a form may take for the rows that its page has shown; the server reads a little more.
const MAX_FORM_BYTES: usize = 80 << 10;
/// What a byte takes that a form encodes twice.
const ENCODED_BYTES: usize = 5;

/// A row: one file, a file that was moved, or frames of a sequence.
pub struct ChangeRow<'a> {
    /// What it stands for.
    pub key: RowKey,
    /// The changes that it stands for; the former path of a moved file is not among them.
    pub changes: Vec<&'a PathChange>,
    /// Where a moved file was.
    pub rename: Option<&'a Rename>,
}

/// What a row stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowKey {
    /// The file at this path.
    File(RepoPath),
    /// A file that was moved.
    Moved {
        /// Its former path.
        from: RepoPath,
        /// Its new path.
        to: RepoPath,
    },
    /// The files whose paths differ in a number only.
    Frames(FramesOf),
}

/// What the paths of frames have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FramesOf {
    /// What stands before the number, with the directory.
    pub stem: Vec<u8>,
    /// What stands after it.
    pub tail: Vec<u8>,
}

impl FramesOf {
    /// What the path of a frame has in common with other frames, and its number.
    fn of(path: &[u8]) -> Option<(FramesOf, u64)> {
        let start = path.iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1);
        let (digits, number) = frame_number(&path[start..])?;
        let frames = FramesOf {
            stem: path[..start + digits.start].to_vec(),
            tail: path[start + digits.end..].to_vec(),
        };
        Some((frames, number))
    }

    /// Whether a path is one of a frame.
    fn has(&self, path: &[u8]) -> bool {
        // Most paths begin with something else.
        path.starts_with(&self.stem) && Self::of(path).is_some_and(|(of, _)| of == *self)
    }

    fn dir(&self) -> &[u8] {
        let end = self.stem.iter().rposition(|b| *b == b'/');
        &self.stem[..end.unwrap_or(0)]
    }
}

impl RowKey {
    /// Whether it stands for the file at a path.
    pub fn has(&self, path: &[u8]) -> bool {
        match self {
            RowKey::File(own) => own.as_bytes() == path,
            RowKey::Moved { from, to } => [from, to].iter().any(|own| own.as_bytes() == path),
            RowKey::Frames(frames) => frames.has(path),
        }
    }

    /// Whether something that it stands for may lie below a directory.
    fn reaches_into(&self, dir: &[u8]) -> bool {
        match self {
            RowKey::File(own) => is_under(own.as_bytes(), dir),
            RowKey::Moved { from, to } => {
                [from, to].iter().any(|own| is_under(own.as_bytes(), dir))
            }
            RowKey::Frames(frames) => is_under(frames.dir(), dir),
        }
    }

    /// The row as a form carries it. No path contains the marks between the parts, since they are encoded there.
    fn text(&self) -> String {
        match self {
            RowKey::File(path) => encoded(path.as_bytes()),
            RowKey::Moved { from, to } => {
                format!("{}:{}", encoded(from.as_bytes()), encoded(to.as_bytes()))
            }
            RowKey::Frames(frames) => {
                format!("*{}:{}", encoded(&frames.stem), encoded(&frames.tail))
            }
        }
    }

    fn parse(text: &str) -> Option<RowKey> {
        let bytes = |text: &str| percent_decode_str(text).collect::<Vec<u8>>();
        let path = |text: &str| {
            let path = RepoPath::parse(&bytes(text)).ok();
            path.filter(|path| !path.is_root())
        };
        let parts = |text: &str| {
            text.split_once(':')
                .map(|(a, b)| (a.to_owned(), b.to_owned()))
        };
        if let Some(frames) = text.strip_prefix('*') {
            let (stem, tail) = parts(frames)?;
            let (stem, tail) = (bytes(&stem), bytes(&tail));
            return Some(RowKey::Frames(FramesOf { stem, tail }));
        }
        Some(match parts(text) {
            Some((from, to)) => RowKey::Moved {
                from: path(&from)?,
                to: path(&to)?,
            },
            None => RowKey::File(path(text)?),
        })
    }
}

/// The rows of a page.
pub struct ChangeRows<'a> {
    /// The rows that are shown.
    pub shown: Vec<ChangeRow<'a>>,
    /// How many changed files have no row.
    pub rest: usize,
    /// How many files have changed; a moved one counts once.
    pub files: usize,
}

impl<'a> ChangeRows<'a> {
    /// Makes at most `most` rows, in path order. A sequence stands where its first frame does.
    pub fn of(changes: &'a [PathChange], renames: &'a [Rename], most: usize) -> ChangeRows<'a> {
        let files = each_file(changes, renames);
        let frames_of = |row: &ChangeRow<'_>| match (&row.key, &row.changes[..]) {
            (RowKey::File(path), _) => FramesOf::of(path.as_bytes()).map(|(frames, _)| frames),
            _ => None,
        };
        let mut sizes: HashMap<FramesOf, usize> = HashMap::new();
        for file in &files {
            if let Some(frames) = frames_of(file) {
                *sizes.entry(frames).or_default() += 1;
            }
        }
        let mut out = ChangeRows {
            shown: Vec::new(),
            rest: 0,
            files: files.len(),
        };
        // Where the rows of sequences are; those that no longer fit have no place.
        let mut places: HashMap<FramesOf, Option<usize>> = HashMap::new();
        let mut bytes = 0;
        for mut file in files {
            let frames = frames_of(&file).filter(|frames| sizes[frames] >= FEWEST_FRAMES);
            if let Some(place) = frames.as_ref().and_then(|frames| places.get(frames)) {
                match place {
                    Some(at) => out.shown[*at].changes.append(&mut file.changes),
                    None => out.rest += 1,
                }
                continue;
            }
            if let Some(frames) = &frames {
                file.key = RowKey::Frames(frames.clone());
            }
            bytes += cost(&file.key.text());
            let is_shown = out.shown.len() < most && bytes <= MAX_FORM_BYTES;
            if let Some(frames) = frames {
                places.insert(frames, is_shown.then_some(out.shown.len()));
            }
            if is_shown {
                out.shown.push(file);
            } else {
                out.rest += 1;
            }
        }
        out
    }

    /// The rows as the hidden field of a form has them.
    pub fn field(&self) -> String {
        let texts: Vec<String> = self.shown.iter().map(|row| row.key.text()).collect();
        texts.join(",")
    }
}

/// A row for each changed file. The former path of a moved file has none, as in `dmv status`.
pub fn each_file<'a>(changes: &'a [PathChange], renames: &'a [Rename]) -> Vec<ChangeRow<'a>> {
    let from: HashSet<&RepoPath> = renames.iter().map(|rename| &rename.from).collect();
    let to: HashMap<&RepoPath, &Rename> = renames.iter().map(|r| (&r.to, r)).collect();
    let is_told =
        |change: &&PathChange| change.kind != ChangeKind::Deleted || !from.contains(&change.path);
    let row = |change: &'a PathChange| {
        let rename = to.get(&change.path).copied();
        let rename = rename.filter(|_| change.kind == ChangeKind::Added);
        let key = match rename {
            Some(rename) => RowKey::Moved {
                from: rename.from.clone(),
                to: rename.to.clone(),
            },
            None => RowKey::File(change.path.clone()),
        };
        ChangeRow {
            key,
            changes: vec![change],
            rename,
        }
    };
    changes.iter().filter(is_told).map(row).collect()
}

/// What the text of a row takes in a form.
fn cost(text: &str) -> usize {
    let one = |b: u8| match b {
        b'%' | b':' | b'*' => ENCODED_BYTES - 2,
        _ => 1,
    };
    text.bytes().map(one).sum::<usize>() + ENCODED_BYTES
}

impl ChangeRow<'_> {
    /// The first and the last number of a sequence.
    pub fn span(&self) -> Option<(u64, u64)> {
        if !matches!(self.key, RowKey::Frames(_)) {
            return None;
        }
        let numbers = self.changes.iter();
        let numbers = numbers.filter_map(|change| FramesOf::of(change.path.as_bytes()));
        let numbers = numbers.map(|(_, number)| number);
        numbers.clone().min().zip(numbers.max())
    }
}

/// The rows that a form means.
#[derive(Debug, Default, PartialEq, Eq)]
pub enum PickedRows {
    /// Everything that has changed.
    #[default]
    All,
    /// What these rows stand for.
    These(Vec<RowKey>),
    /// Everything, but what these rows stand for.
    AllBut(Vec<RowKey>),
}

impl PickedRows {
    /// Reads the rows that a form has shown (`shown`), the checked ones (`n`), and whether what the page did not show is
    /// checked (`rest`, if `has_rest`). A form without rows means everything. `None`: the form makes no sense.
    pub fn of_form(post: &Post) -> Option<PickedRows> {
        let Some(shown) = shown_rows(post)? else {
            return Some(PickedRows::All);
        };
        let mut picked = HashSet::new();
        for number in post.values("n") {
            let number: usize = std::str::from_utf8(number).ok()?.parse().ok()?;
            picked.insert(Some(number).filter(|n| *n < shown.len())?);
        }
        let has_rest = post.value("has_rest").is_some();
        let takes_rest = post.value("rest").is_some();
        if picked.len() == shown.len() && (takes_rest || !has_rest) {
            return Some(PickedRows::All);
        }
        let rows = shown.into_iter().enumerate();
        let rows = rows.filter(|(n, _)| picked.contains(n) != takes_rest);
        let rows = rows.map(|(_, key)| key).collect();
        Some(if takes_rest {
            PickedRows::AllBut(rows)
        } else {
            PickedRows::These(rows)
        })
    }

    /// Whether nothing is picked.
    pub fn is_empty(&self) -> bool {
        matches!(self, PickedRows::These(rows) if rows.is_empty())
    }
}

impl Select for PickedRows {
    fn enters(&self, dir: &[u8]) -> bool {
        match self {
            PickedRows::All => true,
            PickedRows::AllBut(rows) => !rows.iter().any(|row| row.has(dir)),
            PickedRows::These(rows) => rows.iter().any(|row| row.reaches_into(dir)),
        }
    }

    fn takes(&self, dir: &[u8], name: &[u8]) -> bool {
        let path = if dir.is_empty() {
            name.to_vec()
        } else {
            [dir, b"/", name].concat()
        };
        match self {
            PickedRows::All => true,
            PickedRows::AllBut(rows) => !rows.iter().any(|row| row.has(&path)),
            PickedRows::These(rows) => {
                let takes = |row: &RowKey| row.has(&path) || row.reaches_into(&path);
                rows.iter().any(takes)
            }
        }
    }

    fn takes_all(&self, dir: &[u8]) -> bool {
        match self {
            PickedRows::All => true,
            PickedRows::AllBut(rows) => !rows.iter().any(|row| row.reaches_into(dir)),
            PickedRows::These(rows) => rows.iter().any(|row| row.has(dir)),
        }
    }
}

/// The rows that a form's page has shown. `Some(None)`: the form has none; `None`: they are unreadable.
fn shown_rows(post: &Post) -> Option<Option<Vec<RowKey>>> {
    match post.text("shown") {
        None => Some(None),
        Some("") => Some(Some(Vec::new())),
        Some(text) => {
            let rows: Option<Vec<_>> = text.split(',').map(RowKey::parse).collect();
            rows.map(Some)
        }
    }
}

/// The row whose button was pressed: its number among those that the page has shown.
pub fn pressed_row(post: &Post) -> Option<RowKey> {
    let number: usize = post.text("row")?.parse().ok()?;
    let rows = shown_rows(post)??;
    rows.into_iter().nth(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RepoPath {
        RepoPath::parse(text.as_bytes()).expect("a path")
    }

    fn changed(paths: &[&str]) -> Vec<PathChange> {
        let change = |p: &&str| PathChange {
            path: path(p),
            kind: ChangeKind::Added,
        };
        paths.iter().map(change).collect()
    }

    fn form(fields: &[(&str, &str)]) -> Post {
        let pairs = fields
            .iter()
            .map(|(key, value)| format!("{key}={}", encoded(value.as_bytes())));
        let text: Vec<String> = pairs.collect();
        Post::parse(text.join("&").as_bytes()).expect("a form")
    }

    #[test]
    fn frames_are_one_row_and_moved_files_too() {
        let names = [
            "a.txt",
            "s/x.1001.exr",
            "s/x.1002.exr",
            "s/x.1003.exr",
            "s/x.1003.jpg",
            "t/x.1001.exr",
        ];
        let changes = changed(&names);
        let rows = ChangeRows::of(&changes, &[], 99);
        let counts: Vec<usize> = rows.shown.iter().map(|row| row.changes.len()).collect();
        assert_eq!(counts, [1, 3, 1, 1]);
        assert_eq!(rows.shown[1].span(), Some((1001, 1003)));
        assert_eq!((rows.files, rows.rest), (6, 0));
        let cut = ChangeRows::of(&changes, &[], 1);
        assert_eq!((cut.shown.len(), cut.rest), (1, 5));
    }

    #[test]
    fn a_form_carries_any_name() {
        let names = ["a,b:c*d", "*x", "%2F", "\u{fc}/\u{1f600}+ &=.png", "a b"];
        let changes = changed(&names);
        let rows = ChangeRows::of(&changes, &[], 99);
        let sent = form(&[("shown", &rows.field()), ("n", "1"), ("row", "3")]);
        let want = PickedRows::These(vec![RowKey::File(path("*x"))]);
        assert_eq!(PickedRows::of_form(&sent), Some(want));
        assert_eq!(pressed_row(&sent), Some(RowKey::File(path(names[3]))));
    }

    #[test]
    fn a_form_means_what_is_checked() {
        let changes = changed(&["a", "b", "d/c.0001.exr", "d/c.0002.exr", "d/c.0003.exr"]);
        let rows = ChangeRows::of(&changes, &[], 99);
        let shown = rows.field();
        let all = [("shown", &shown[..]), ("n", "0"), ("n", "1"), ("n", "2")];
        let picked = |fields: &[(&str, &str)]| PickedRows::of_form(&form(fields));
        assert_eq!(picked(&all), Some(PickedRows::All));
        assert_eq!(picked(&[]), Some(PickedRows::All));
        let none = picked(&all[..1]).expect("a form");
        assert!(none.is_empty() && !none.enters(b"d") && !none.takes(b"", b"a"));
        let two = picked(&[all[0], all[3], all[1]]).expect("a form");
        assert!(two.takes(b"", b"a") && !two.takes(b"", b"b") && two.takes(b"", b"d"));
        assert!(two.enters(b"d") && two.takes(b"d", b"c.0002.exr") && !two.takes(b"d", b"x"));
        // What the page did not show is checked, and one row is not.
        let rest = [all[0], all[1], all[3], ("has_rest", "yes"), ("rest", "yes")];
        let rest = picked(&rest).expect("a form");
        assert!(rest.takes(b"", b"new") && rest.takes(b"", b"a") && !rest.takes(b"", b"b"));
        let shown_alone = picked(&[all[0], all[1], all[2], all[3], ("has_rest", "yes")]);
        assert!(!shown_alone.expect("a form").takes(b"", b"new"));
        for wrong in ["9", "-1", "x", ""] {
            assert_eq!(picked(&[all[0], ("n", wrong)]), None, "{wrong}");
        }
        for wrong in ["..", "a,,b", "../x", "a:", ".dmv/x"] {
            assert_eq!(picked(&[("shown", wrong), ("n", "0")]), None, "{wrong}");
        }
    }

    #[test]
    fn the_rows_of_a_page_fit_into_its_form() {
        let dir = "\u{5f71}".repeat(80);
        let names: Vec<String> = (0..200).map(|n| format!("{dir}/{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let changes = changed(&names);
        let rows = ChangeRows::of(&changes, &[], 200);
        assert!(rows.shown.len() < 200 && rows.rest + rows.shown.len() == 200);
        assert!(encoded(rows.field().as_bytes()).len() <= MAX_FORM_BYTES);
    }
}
