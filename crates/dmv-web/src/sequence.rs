//! Image sequences: frames such as `shot.1001.exr` in a directory, shown as one row.

use crate::kinds::sort_of;
use dmv_core::object::tree::{Kind, TreeEntry};
use std::collections::HashMap;

/// Fewer frames than this stay rows of their own.
const FEWEST_FRAMES: usize = 3;
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
    /// The bytes of all frames.
    pub fn bytes(&self) -> u64 {
        self.frames.iter().map(|(_, entry)| entry.size).sum()
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

/// The number in a name of a frame: where its digits begin and end.
fn split(name: &[u8], images: &mut Images) -> Option<(usize, usize)> {
    let dot = name.iter().rposition(|b| *b == b'.')?;
    let digits = name[..dot].iter().rev().take_while(|b| b.is_ascii_digit());
    let digits = digits.count();
    if digits == 0 || digits > MOST_DIGITS || !images.has(name, dot) {
        return None;
    }
    let start = dot - digits;
    // `shot2.png` is one picture of its own; a number after a mark, or a long one, counts frames.
    let is_marked = start > 0 && matches!(name[start - 1], b'.' | b'_' | b'-');
    (is_marked || digits >= 4 || start == 0).then_some((start, dot))
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
    start: usize,
    end: usize,
    n: u64,
}

/// Finds the frames of groups that are large enough, and how many groups there are.
fn frames(entries: &[TreeEntry]) -> (Vec<Option<Frame>>, usize) {
    let mut images = Images::default();
    let mut groups: HashMap<(&[u8], &[u8]), usize> = HashMap::new();
    let mut counts: Vec<usize> = Vec::new();
    let mut frame = |entry| -> Option<Frame> {
        let name = is_file(entry).then(|| entry.name.as_bytes())?;
        let (start, end) = split(name, &mut images)?;
        let new = groups.len();
        let group = *groups.entry((&name[..start], &name[end..])).or_insert(new);
        counts.resize(groups.len(), 0);
        counts[group] += 1;
        // The digits were counted, so they are a number of at most nine of them.
        let digits = name[start..end].iter();
        let n = digits.fold(0, |n, d| n * 10 + u64::from(d - b'0'));
        Some(Frame {
            group,
            start,
            end,
            n,
        })
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
        let digits = frame.end - frame.start;
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
                    stem: name[..frame.start].to_vec(),
                    tail: name[frame.end..].to_vec(),
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

fn is_file(entry: &TreeEntry) -> bool {
    matches!(entry.kind, Kind::File | Kind::Executable)
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
        assert_eq!(told(&["s.1.exr", "s.2.exr"]), ["s.1.exr", "s.2.exr"]);
    }

    #[test]
    fn frames_without_leading_zeros_are_in_order_of_their_numbers() {
        let want = ["s_# 9-11 -0 []".replace("#", "#.png")];
        assert_eq!(told(&["s_10.png", "s_11.png", "s_9.png"]), want);
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
