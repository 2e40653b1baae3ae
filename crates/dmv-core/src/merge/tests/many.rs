//! Many merge bases, many moved files.

use super::*;
use crate::limits::MAX_BASE_DEPTH;

/// Merges two commits that have each merged the same `count` others. Returns how often an object
/// was read.
fn reads_of_crossing(count: usize) -> Result<u64, MergeError> {
    let lab = Lab::default();
    let one = |n: usize| files([("a", text("0")), ("b", text(&n.to_string()))]);
    let root = lab.commit(&one(0), &[])?;
    let mut tips = Vec::new();
    for n in 1..=count {
        tips.push(lab.commit(&one(n), &[root])?);
    }
    let merge_all = |order: Vec<(ObjectId, u64)>| -> Result<(ObjectId, u64), ObjectError> {
        let mut merged = order[0];
        for tip in &order[1..] {
            merged = lab.commit(&one(0), &[merged, *tip])?;
        }
        Ok(merged)
    };
    let ours = merge_all(tips.clone())?;
    tips.reverse();
    let theirs = merge_all(tips)?;
    lab.mem.reset_reads();
    let (mem, never) = (&lab.mem, &lab.never);
    merge_commits(mem, &mut &lab.mem, &ours.0, &theirs.0, never)?;
    Ok(mem.reads())
}

#[test]
fn many_merge_bases_take_reads_by_their_number_and_not_by_their_pairs() -> Outcome {
    let (few, many) = (reads_of_crossing(40)?, reads_of_crossing(160)?);
    assert!(many < 6 * few, "{few} reads, then {many}");
    Ok(())
}

#[test]
fn histories_that_crossed_often_are_merged() -> Outcome {
    let lab = Lab::default();
    let both = |a: &str, b: &str| files([("a", text(a)), ("b", text(b))]);
    let root = lab.commit(&both("0", "0"), &[])?;
    let mut left = lab.commit(&both("1", "0"), &[root])?;
    let mut right = lab.commit(&both("0", "1"), &[root])?;
    for n in 0..2 * MAX_BASE_DEPTH {
        let (a, b) = (n.to_string(), (n + 1).to_string());
        let next = lab.commit(&both(&a, &b), &[left, right])?;
        right = lab.commit(&both(&b, &a), &[right, left])?;
        left = next;
    }
    let (mem, never) = (&lab.mem, &lab.never);
    let merged = merge_commits(mem, &mut &lab.mem, &left.0, &right.0, never)?;
    assert!(!merged.conflicts.is_empty());
    Ok(())
}

/// Three states of `count` files. Ours has moved each file and changed one of its lines. Theirs has
/// changed another line of each file at its former path.
fn moved_and_changed(count: usize) -> [Files; 3] {
    let item = |n: usize, own: [&str; 2]| {
        let line = |m: usize| match m {
            2 => format!("{} {n}\n", own[0]),
            9 => format!("{} {n}\n", own[1]),
            _ => format!("line {m} of {n}\n"),
        };
        Text((0..12).map(line).collect())
    };
    let state = |dir: &str, own: [&str; 2]| -> Files {
        let file = |n: usize| (format!("{dir}{}/f{n}", n % 50), item(n, own));
        (0..count).map(file).collect()
    };
    [
        state("d", ["base", "base"]),
        state("moved", ["ours", "base"]),
        state("d", ["base", "theirs"]),
    ]
}

#[test]
fn more_moved_and_changed_files_than_pairs_can_be_compared_are_all_found() -> Outcome {
    let lab = Lab::default();
    let count = 600;
    let [base, ours, theirs] = moved_and_changed(count);
    let merged = lab.merge(&base, &ours, &theirs)?;
    assert!(!merged.moves_skipped);
    assert_eq!((merged.moves.len(), merged.conflicts.len()), (count, 0));
    let size = |files: &Files| -> u64 {
        let len = |item: &Item| match item {
            Text(content) => content.len() as u64,
            _ => 0,
        };
        files.values().map(len).sum()
    };
    // Once to find them, then three versions of each to merge.
    let [base, ours, theirs] = [&base, &ours, &theirs].map(size);
    let most = 2 * base + 2 * ours + theirs;
    assert!(
        merged.content_bytes <= most,
        "{} bytes",
        merged.content_bytes
    );
    Ok(())
}
