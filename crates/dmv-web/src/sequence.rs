//! Image sequences: frames such as `shot.1001.exr` in a directory, shown as one row.

use crate::kinds::sort_of;
use dmv_core::object::tree::{Kind, TreeEntry};
use std::collections::HashMap;
use std::ops::Range;

/// Fewer frames than this stay rows of their own.
const FEWEST_FRAMES: usize = 3;
/// Frame numbers have at least this many digits.
const FEWEST_DIGITS: usize = 4;
/// Frame numbers have at most this many digits.
const MOST_DIGITS: usize = 9;

/// A row of a directory.
#[derive(Clone, Debug)]
pub enum Row {
    /// One entry.
    Entry(TreeEntry),
    /// Frames of one sequence.
    Sequence(Sequence),
}

impl Row {
    /// How many entries the row stands for.
    pub fn entries(&self) -> usize {
        match self {
            Row::Entry(_) => 1,
            Row::Sequence(s) => s.frames.len(),
        }
    }
}

/// Frames whose names differ in a number only.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// What stands before the number.
    pub stem: Vec<u8>,
    /// What stands after it.
    pub tail: Vec<u8>,
    /// The digits of the number; 0 if they vary.
    pub digits: usize,
    /// The frames, by number.
    pub frames: Vec<(u64, TreeEntry)>,
}

impl Sequence {
    /// The bytes of all frames. A frame in conflict has no size of its own.
    pub fn bytes(&self) -> u64 {
        let frames = self.frames.iter().map(|(_, entry)| entry);
        let files = frames.filter(|entry| entry.kind != Kind::Conflict);
        files.map(|entry| entry.size).sum()
    }

    /// How many frames are in conflict.
    pub fn conflicts(&self) -> usize {
        let is_one = |(_, entry): &&(u64, TreeEntry)| entry.kind == Kind::Conflict;
        self.frames.iter().filter(is_one).count()
    }

    /// The first and last frame.
    pub fn span(&self) -> (u64, u64) {
        let number = |frame: Option<&(u64, TreeEntry)>| frame.map_or(0, |(n, _)| *n);
        (number(self.frames.first()), number(self.frames.last()))
    }

    /// How many frames lack between the first and the last.
    pub fn missing(&self) -> u64 {
        let (first, last) = self.span();
        (last - first + 1).saturating_sub(self.frames.len() as u64)
    }

    /// The name with `#` for each digit: `shot.####.exr`.
    pub fn pattern(&self) -> Vec<u8> {
        let marks = "#".repeat(self.digits.max(1));
        [&self.stem[..], marks.as_bytes(), &self.tail].concat()
    }

    /// The runs of frames that lack, first and last, up to `most` of them.
    pub fn gaps(&self, most: usize) -> Vec<(u64, u64)> {
        let pairs = self.frames.windows(2);
        let gap = |pair: &[(u64, TreeEntry)]| match pair {
            [(a, _), (b, _)] if *b > *a + 1 => Some((*a + 1, *b - 1)),
            _ => None,
        };
        pairs.filter_map(gap).take(most).collect()
    }
}

/// The number in a name of a frame: where its digits begin and end. Shorter numbers mostly count pictures of their own,
/// such as `IMG_001.jpg` or `take 2.png`.
fn split(name: &[u8], images: &mut Images) -> Option<Range<usize>> {
    let dot = name.iter().rposition(|b| *b == b'.')?;
    let digits = name[..dot].iter().rev().take_while(|b| b.is_ascii_digit());
    let digits = digits.count();
    let is_one = (FEWEST_DIGITS..=MOST_DIGITS).contains(&digits) && images.has(name, dot);
    is_one.then_some(dot - digits..dot)
}

/// Where the number in the name of a frame is, and the number.
pub fn frame_number(name: &[u8]) -> Option<(Range<usize>, u64)> {
    let digits = split(name, &mut Images::default())?;
    let number = number(&name[digits.clone()]);
    Some((digits, number))
}

/// The number that some digits are; they are so few that it fits.
fn number(digits: &[u8]) -> u64 {
    let add = |n: u64, digit: &u8| n * 10 + u64::from(digit - b'0');
    digits.iter().fold(0, add)
}

/// Which endings are those of pictures. Neighbours mostly have the same ending, so the last answer is kept.
#[derive(Default)]
struct Images {
    ending: Vec<u8>,
    is_image: bool,
}

impl Images {
    fn has(&mut self, name: &[u8], dot: usize) -> bool {
        if self.ending != name[dot..] {
            self.ending = name[dot..].to_vec();
            self.is_image = sort_of(name).0.is_image();
        }
        self.is_image
    }
}

/// What a name says about a frame: its group, where its digits lie, and their number.
struct Frame {
    group: usize,
    digits: Range<usize>,
    n: u64,
}

/// Finds the frames of groups that are large enough, and how many groups there are.
fn frames(entries: &[TreeEntry]) -> (Vec<Option<Frame>>, usize) {
    let mut images = Images::default();
    let mut groups: HashMap<(&[u8], &[u8]), usize> = HashMap::new();
    let mut counts: Vec<usize> = Vec::new();
    let mut frame = |entry| -> Option<Frame> {
        let name = is_frame(entry).then(|| entry.name.as_bytes())?;
        let digits = split(name, &mut images)?;
        let new = groups.len();
        let around = (&name[..digits.start], &name[digits.end..]);
        let group = *groups.entry(around).or_insert(new);
        counts.resize(groups.len(), 0);
        counts[group] += 1;
        let n = number(&name[digits.clone()]);
        Some(Frame { group, digits, n })
    };
    let mut found: Vec<Option<Frame>> = Vec::with_capacity(entries.len());
    for entry in entries {
        found.push(frame(entry));
    }
    for place in &mut found {
        if place
            .as_ref()
            .is_some_and(|f| counts[f.group] < FEWEST_FRAMES)
        {
            *place = None;
        }
    }
    (found, counts.len())
}

/// Directories first, then files; the frames of a sequence are one row, where its first frame is.
pub fn rows(entries: Vec<TreeEntry>) -> Vec<Row> {
    let (frames, groups) = frames(&entries);
    let (mut dirs, mut files) = (Vec::new(), Vec::with_capacity(entries.len()));
    let mut places: Vec<Option<usize>> = vec![None; groups];
    for (entry, frame) in entries.into_iter().zip(frames) {
        let Some(frame) = frame else {
            let rows = match entry.kind {
                Kind::Directory => &mut dirs,
                _ => &mut files,
            };
            rows.push(Row::Entry(entry));
            continue;
        };
        let digits = frame.digits.len();
        match places[frame.group].and_then(|at| files.get_mut(at)) {
            Some(Row::Sequence(sequence)) => {
                if sequence.digits != digits {
                    sequence.digits = 0;
                }
                sequence.frames.push((frame.n, entry));
            }
            _ => {
                places[frame.group] = Some(files.len());
                let name = entry.name.as_bytes();
                files.push(Row::Sequence(Sequence {
                    stem: name[..frame.digits.start].to_vec(),
                    tail: name[frame.digits.end..].to_vec(),
                    digits,
                    frames: vec![(frame.n, entry)],
                }));
            }
        }
    }
    for row in &mut files {
        if let Row::Sequence(sequence) = row {
            sequence.frames.sort_by_key(|(n, _)| *n);
            sequence.frames.dedup_by_key(|(n, _)| *n);
        }
    }
    dirs.append(&mut files);
    dirs
}

/// Whether an entry may be a frame. A frame in conflict is one: it is not missing.
fn is_frame(entry: &TreeEntry) -> bool {
    matches!(entry.kind, Kind::File | Kind::Executable | Kind::Conflict)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dmv_core::hash::ObjectId;
    use dmv_core::object::name::SafeName;

    fn entry(name: &str, kind: Kind) -> TreeEntry {
        TreeEntry {
            name: SafeName::new(name.as_bytes()).expect("a name"),
            kind,
            is_list: false,
            id: ObjectId::from_bytes([1; 32]),
            size: 10,
            files: 0,
            attrs: None,
        }
    }

    fn told(names: &[&str]) -> Vec<String> {
        let entries = names.iter().map(|name| match name.strip_suffix('/') {
            Some(dir) => entry(dir, Kind::Directory),
            None => entry(name, Kind::File),
        });
        let told = rows(entries.collect()).into_iter().map(|row| match row {
            Row::Entry(entry) => entry.name.to_string(),
            Row::Sequence(s) => {
                let (first, last) = s.span();
                let pattern = String::from_utf8_lossy(&s.pattern()).into_owned();
                format!("{pattern} {first}-{last} -{} {:?}", s.missing(), s.gaps(9))
            }
        });
        told.collect()
    }

    #[test]
    fn frames_are_one_row_and_tell_what_lacks() {
        let names = ["a.txt", "s.1001.exr", "s.1002.exr", "s.1005.exr", "z/"];
        let want = ["z", "a.txt", "s.####.exr 1001-1005 -2 [(1003, 1004)]"];
        assert_eq!(told(&names), want);
    }

    #[test]
    fn pictures_of_their_own_stay_rows() {
        let names = [
            "img1.png",
            "img2.png",
            "img3.png",
            "note.1.txt",
            "note.2.txt",
            "note.3.txt",
        ];
        assert_eq!(told(&names), names);
        // Two frames are no sequence, and three digits number takes, versions and photographs.
        let two = ["s.0001.exr", "s.0002.exr"];
        assert_eq!(told(&two), two);
        for names in [
            ["s_10.png", "s_11.png", "s_9.png"],
            ["shot_001.png", "shot_002.png", "shot_003.png"],
            ["1.png", "2.png", "3.png"],
            ["a.v001.exr", "a.v002.exr", "a.v003.exr"],
        ] {
            assert_eq!(told(&names), names);
        }
    }

    #[test]
    fn frames_of_four_and_of_five_digits_are_in_order_of_their_numbers() {
        let names = ["s10000.png", "s10001.png", "s9999.png"];
        assert_eq!(told(&names), ["s#.png 9999-10001 -0 []"]);
    }

    #[test]
    fn a_frame_in_conflict_is_not_missing() {
        let mut entries: Vec<TreeEntry> = ["s.1001.exr", "s.1002.exr", "s.1003.exr"]
            .iter()
            .map(|name| entry(name, Kind::File))
            .collect();
        entries[1].kind = Kind::Conflict;
        let rows = rows(entries);
        let [Row::Sequence(s)] = &rows[..] else {
            panic!("{rows:?}");
        };
        assert_eq!((s.missing(), s.conflicts(), s.bytes()), (0, 1, 20));
    }

    #[test]
    fn two_sequences_side_by_side_stay_apart() {
        let names = [
            "a.0001.exr",
            "a.0001.jpg",
            "a.0002.exr",
            "a.0002.jpg",
            "a.0003.exr",
            "a.0003.jpg",
        ];
        let want = ["a.####.exr 1-3 -0 []", "a.####.jpg 1-3 -0 []"];
        assert_eq!(told(&names), want);
    }
}
