use super::*;
use crate::hash::chunk_id;
use std::convert::Infallible;

type Listed = (String, Vec<u8>);

/// Files in memory, and how often each was read.
struct Held<'a> {
    lists: [&'a [Listed]; 2],
    reads: usize,
    most_pieces: usize,
}

impl Contents for Held<'_> {
    type Error = Infallible;

    fn sketch(
        &mut self,
        side: Side,
        n: usize,
        sketcher: Sketcher,
    ) -> Result<Option<Sketch>, Infallible> {
        self.reads += 1;
        let sketch = sketcher.of_content(&self.lists[side as usize][n].1);
        self.most_pieces = self.most_pieces.max(sketch.pieces().len());
        Ok(Some(sketch))
    }

    fn go_on(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

fn listed(path: &str, content: &[u8]) -> Listed {
    (path.to_owned(), content.to_vec())
}

fn candidate((path, content): &Listed) -> Candidate<'_> {
    Candidate {
        path: path.as_bytes(),
        size: content.len() as u64,
        id: Some(chunk_id(content)),
        is_blob: true,
        equal_only: false,
        read_bytes: content.len() as u64,
    }
}

fn held<'a>(gone: &'a [Listed], new: &'a [Listed]) -> (Pairs, Held<'a>) {
    let a: Vec<_> = gone.iter().map(candidate).collect();
    let b: Vec<_> = new.iter().map(candidate).collect();
    let mut contents = Held {
        lists: [gone, new],
        reads: 0,
        most_pieces: 0,
    };
    let Ok(found) = pair(&a, &b, &mut contents);
    (found, contents)
}

fn pairs(gone: &[Listed], new: &[Listed]) -> Vec<(usize, usize, u8)> {
    let (found, _) = held(gone, new);
    let pairs = found.list.iter();
    pairs.map(|p| (p.from, p.to, p.percent)).collect()
}

const LINES: &[u8] = b"one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n";

#[test]
fn equal_content_is_paired_by_name_first() {
    let gone = [listed("a/x", LINES), listed("a/y", LINES)];
    let new = [listed("b/y", LINES), listed("b/z", LINES)];
    assert_eq!(pairs(&gone, &new), [(1, 0, 100), (0, 1, 100)]);
    assert_eq!(pairs(&[listed("a", b"")], &[listed("b", b"")]), []);
}

#[test]
fn what_shares_half_is_paired_the_most_alike_first() {
    let edited = [LINES, b"nine\n"].concat();
    let more = [&edited[..], b"ten\neleven\n"].concat();
    let gone = [listed("a", LINES)];
    let found = pairs(&gone, &[listed("b", &more), listed("c", &edited)]);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].0, found[0].1), (0, 1));
    assert!((80..99).contains(&found[0].2), "{found:?}");
    let other = b"something else of the same length, really\n";
    assert_eq!(pairs(&gone, &[listed("b", other)]), []);
}

/// Returns `count` files of `lines` lines. One line in four differs between the sides.
fn rewritten(count: usize, lines: usize, side: usize) -> Vec<Listed> {
    let content = |file: usize| -> Vec<u8> {
        let line = |n: usize| match n % 4 {
            1 => format!("line {n} of file {file} on side {side}\n"),
            2 => "}\n".to_owned(),
            _ => format!("line {n} of file {file}\n"),
        };
        (0..lines).map(line).collect::<String>().into_bytes()
    };
    // The other side has them in a different order and under different names.
    let name = |file: usize| format!("side{side}/{:06}", (file * (1 + 6 * side)) % count);
    let mut files: Vec<Listed> = (0..count).map(|n| (name(n), content(n))).collect();
    if side == 1 {
        files.reverse();
    }
    files
}

#[test]
fn many_files_that_were_moved_and_rewritten_are_found_each_read_once() {
    let count = 3001;
    let (gone, new) = (rewritten(count, 12, 0), rewritten(count, 12, 1));
    let (found, contents) = held(&gone, &new);
    assert!(!found.is_limited);
    assert_eq!(contents.reads, 2 * count);
    let right = found.list.iter().filter(|p| p.to == count - 1 - p.from);
    assert_eq!(right.count(), count);
}

#[test]
fn long_files_are_found_by_a_sample_of_their_pieces() {
    let count = 150;
    let (gone, new) = (rewritten(count, 9000, 0), rewritten(count, 9000, 1));
    let (found, contents) = held(&gone, &new);
    assert!(contents.most_pieces <= MAX_RENAME_PIECES / (2 * count));
    assert_eq!(found.list.len(), count);
    for pair in found.list {
        assert_eq!(pair.to, count - 1 - pair.from);
        assert!((55..85).contains(&pair.percent), "{pair:?}");
    }
}

#[test]
fn files_that_consist_of_common_lines_are_paired_with_near_ones() {
    let count = 1000;
    let side = |side: usize| -> Vec<Listed> {
        let content = |n: usize| format!("{}{n} {side}\n", "the same in all files\n".repeat(4));
        let file = |n: usize| (format!("side{side}/{n}"), content(n).into_bytes());
        (0..count).map(file).collect()
    };
    let (found, _) = held(&side(0), &side(1));
    assert_eq!(found.list.len(), count);
    let right = found.list.iter().filter(|p| p.to == p.from).count();
    assert_eq!(right, count, "the name decides between equal shares");
}

#[test]
fn many_copies_of_one_file_are_paired_by_name_and_then_in_order() {
    let copies = |side: &str, from: usize| -> Vec<Listed> {
        let file = |n: usize| listed(&format!("{side}/{n}"), LINES);
        (from..from + 20_000).map(file).collect()
    };
    let (gone, new) = (copies("a", 0), copies("b", 10_000));
    let (found, contents) = held(&gone, &new);
    assert_eq!((found.list.len(), contents.reads), (20_000, 0));
    assert!(found.list[..10_000].iter().all(|p| p.from == p.to + 10_000));
}

#[test]
fn what_may_not_be_read_is_not_and_that_is_said() {
    let size = MAX_MERGE_TEXT_BYTES;
    let count = (MAX_RENAME_BYTES / size) as usize;
    let files: Vec<Listed> = (0..count).map(|n| listed(&format!("f{n}"), b"x")).collect();
    let of_size = |file| Candidate {
        size,
        read_bytes: size,
        id: None,
        ..candidate(file)
    };
    let list: Vec<_> = files.iter().map(of_size).collect();
    let mut contents = Held {
        lists: [&files, &files],
        reads: 0,
        most_pieces: 0,
    };
    let Ok(found) = pair(&list, &list, &mut contents);
    assert!(found.is_limited);
    assert_eq!(contents.reads, count);
}

#[test]
fn a_sketch_counts_what_occurs_often_and_tells_equal_content() {
    let sketch = |content: &[u8], most| Sketcher::new(most).of_content(content);
    let text: Vec<u8> = (0..5000)
        .flat_map(|n| format!("{}\n", n % 900).into_bytes())
        .collect();
    let size = text.len() as u64;
    for most in [16, 100, 10_000] {
        let (a, b) = (sketch(&text, most), sketch(&text, most));
        assert_eq!(a.share(&b, [size, size]), 1_000_000);
        let none = sketch(&vec![b'x'; text.len()], most);
        assert_eq!(a.share(&none, [size, size]), 0);
    }
    let half = &text[..text.len() / 2];
    let sizes = [size, half.len() as u64];
    let exact = sketch(&text, 10_000).share(&sketch(half, 10_000), sizes);
    assert!((495_000..=500_100).contains(&exact), "{exact}");
    let about = sketch(&text, 300).share(&sketch(half, 300), sizes);
    assert!((400_000..600_000).contains(&about), "{about}");
}
