//! Which chunks of made-up versions become bases of which.

use super::*;
use dmv_random::noise;

/// Returns `bytes` with one byte in `every` changed.
fn changed(bytes: &[u8], every: usize) -> Vec<u8> {
    let flip = |(n, byte): (usize, &u8)| byte ^ u8::from(n % every == every / 2);
    bytes.iter().enumerate().map(flip).collect()
}

const LEN: usize = 60_000;

/// A place that no `repack` has looked at.
fn new(number: u32) -> Origin {
    let is_settled = false;
    Origin { number, is_settled }
}

fn add_file(pieces: &mut Pieces, file: &[u8], number: u32) {
    add_from(pieces, file, new(number));
}

fn add_from(pieces: &mut Pieces, file: &[u8], origin: Origin) {
    for frame in file.chunks(16 * LEN) {
        for chunk in frame.chunks(LEN) {
            pieces.add(chunk, origin);
        }
        pieces.end_frame(frame.len() as u32);
    }
}

#[test]
fn what_was_compared_before_is_the_base_of_what_is_new() {
    let old = noise(1, 40 * LEN);
    let mut pieces = Pieces::default();
    let settled = Origin {
        number: 0,
        is_settled: true,
    };
    add_from(&mut pieces, &old, settled);
    // Of these two, one would be the base of all.
    add_file(&mut pieces, &changed(&old, 50), 1);
    add_file(&mut pieces, &changed(&old, 70), 2);
    let stretches = pieces.stretches();
    let bases = stretches.iter().flat_map(|stretch| &stretch.bases);
    assert!(bases.copied().all(|base| base < 40), "{stretches:?}");
    let chunks = stretches.iter().flat_map(|stretch| &stretch.chunks);
    assert_eq!(chunks.count(), 80);
}

#[test]
fn the_newer_of_two_versions_is_the_base_of_the_older() {
    let new = noise(1, 40 * LEN);
    let mut pieces = Pieces::default();
    add_file(&mut pieces, &changed(&new, 50), 0);
    add_file(&mut pieces, &noise(2, 5 * LEN), 1);
    add_file(&mut pieces, &new, 2);
    let stretches = pieces.stretches();
    let chunks: Vec<u32> = stretches.iter().flat_map(|s| s.chunks.clone()).collect();
    assert_eq!(chunks, (0..40).collect::<Vec<u32>>());
    for stretch in &stretches {
        for chunk in &stretch.chunks {
            assert!(
                stretch.bases.contains(&(chunk + 45)),
                "{chunk}: {stretch:?}"
            );
        }
        let bytes = stretch.bases.len() * LEN;
        assert!(stretch.bases.len() <= MOST_BASES && bytes as u64 <= BASE_BYTES);
    }
}

#[test]
fn of_three_versions_the_one_that_both_others_resemble_is_the_base() {
    let first = noise(3, 30 * LEN);
    let second = changed(&first, 200);
    // Half of it is new.
    let mut third = changed(&second, 190);
    third[15 * LEN..].copy_from_slice(&noise(4, 15 * LEN));
    let mut pieces = Pieces::default();
    for (origin, file) in [&first, &second, &third].into_iter().enumerate() {
        add_file(&mut pieces, file, origin as u32);
    }
    let stretches = pieces.stretches();
    let mut bases = stretches.iter().flat_map(|s| &s.bases);
    assert!(bases.all(|base| (30..60).contains(base)), "{stretches:?}");
    let chunks: usize = stretches.iter().map(|s| s.chunks.len()).sum();
    assert_eq!(chunks, 45);
}

#[test]
fn no_base_is_in_a_stretch_and_pinned_chunks_are_in_none() {
    let file = noise(5, 20 * LEN);
    let mut pieces = Pieces::default();
    for n in 0..6 {
        add_file(&mut pieces, &changed(&file, 100 + n), n as u32 / 2);
    }
    pieces.pin((0..120).map(|n| n / 20 == 1 && n % 2 == 0));
    let stretches = pieces.stretches();
    let mut is_based = vec![false; pieces.len()];
    for chunk in stretches.iter().flat_map(|s| &s.chunks) {
        assert!(!std::mem::replace(&mut is_based[*chunk as usize], true));
        assert!(!pieces.pinned[*chunk as usize]);
    }
    for base in stretches.iter().flat_map(|s| &s.bases) {
        assert!(!is_based[*base as usize]);
    }
    assert!(is_based.iter().filter(|b| **b).count() >= 80);
}

#[test]
fn versions_that_resemble_a_base_only_in_part_share_a_stretch() {
    let base = noise(6, 16 * LEN);
    let half = |file: &[u8]| {
        let mut out = file.to_vec();
        for (n, chunk) in out.chunks_mut(LEN).enumerate() {
            chunk[..LEN / 2].copy_from_slice(&noise(200 + n as u64, LEN / 2));
        }
        out
    };
    let old = half(&base);
    let mut pieces = Pieces::default();
    add_file(&mut pieces, &base, 0);
    add_file(&mut pieces, &old, 1);
    add_file(&mut pieces, &changed(&old, 9_000), 2);
    pieces.pin((0..48).map(|n| n < 16));
    let stretches = pieces.stretches();
    for chunk in 16..32u32 {
        let of = stretches.iter().find(|s| s.chunks.contains(&chunk));
        let of = of.unwrap_or_else(|| panic!("{chunk} has no base: {stretches:?}"));
        assert!(of.chunks.contains(&(chunk + 16)), "{chunk}: {of:?}");
        let bytes = of.chunks.len() * LEN;
        assert!(bytes <= MAX_FRAME_BYTES);
    }
    let all: usize = stretches.iter().map(|s| s.chunks.len()).sum();
    assert_eq!(all, 32, "none twice");
}

#[test]
fn a_frame_that_explains_little_has_no_bases() {
    let far = noise(7, 20 * LEN);
    let bases_for = |shared: usize| {
        let mut file = noise(8, 8 * LEN);
        file[LEN..LEN + shared].copy_from_slice(&far[9 * LEN..9 * LEN + shared]);
        let mut pieces = Pieces::default();
        add_file(&mut pieces, &far, 0);
        add_file(&mut pieces, &file, 1);
        pieces.pin((0..28).map(|n| n < 20));
        pieces.stretches()
    };
    assert_eq!(bases_for(12 << 10), []);
    let found = bases_for(40 << 10);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].chunks, [21]);
    assert!(found[0].bases.contains(&9));
}

#[test]
fn noise_zeros_and_short_chunks_have_no_base() {
    let mut pieces = Pieces::default();
    assert_eq!(pieces.stretches(), []);
    for n in 0..50 {
        pieces.add(&noise(100 + n, 30_000), new(n as u32));
        pieces.add(&[0; 30_000], new(n as u32));
        pieces.add(&[n as u8; 9], new(n as u32));
        pieces.add(b"", new(n as u32));
    }
    assert_eq!(pieces.stretches(), []);
    assert!(pieces.samples() < 50 * (MOST_SAMPLES + 2));
}

#[test]
fn small_texts_find_their_former_versions() {
    let text = b"a short text that says something of its own: ".to_vec();
    let mut pieces = Pieces::default();
    for n in 0..40u8 {
        let mut own = text.clone();
        own.extend_from_slice(&noise(u64::from(n), 300));
        pieces.add(&own, new(0));
    }
    for n in 0..40u8 {
        let mut own = text.clone();
        own.extend_from_slice(&noise(u64::from(n), 300));
        own.extend_from_slice(b"one line more");
        pieces.add(&own, new(1));
    }
    let stretches = pieces.stretches();
    let based: usize = stretches.iter().map(|s| s.chunks.len()).sum();
    assert!(based >= 30, "{based}");
}

/// Returns a text of lines of noise, and as many later versions of it as wanted: each has one other line.
fn texts(seed: u64, lines: usize, versions: usize) -> Vec<Vec<u8>> {
    const LINE: usize = 60;
    let mut text = noise(seed, lines * LINE);
    let mut all = vec![text.clone()];
    for n in 0..versions {
        let line = n * 7 % lines * LINE;
        text[line..line + LINE].copy_from_slice(&noise(seed + 1_000 + n as u64, LINE));
        all.push(text.clone());
    }
    all
}

/// Checks that a chunk is either the base of all others or in one stretch, and returns the stretches.
fn all_on(base: u32, pieces: &Pieces) -> Vec<Stretch> {
    let stretches = pieces.stretches();
    assert!(stretches.iter().all(|s| s.bases == [base]), "{stretches:?}");
    let mut chunks: Vec<u32> = stretches.iter().flat_map(|s| s.chunks.clone()).collect();
    chunks.sort_unstable();
    let others = (0..pieces.len() as u32).filter(|chunk| *chunk != base);
    assert_eq!(chunks, others.collect::<Vec<u32>>());
    stretches
}

#[test]
fn all_versions_of_a_text_become_differences_from_the_newest() {
    // More than have a sample in common that tells something, in chunks below and above the least cut.
    for (lines, versions, most) in [(100, 200, 256 << 10), (600, 40, 16 * 36_000)] {
        let mut pieces = Pieces::default();
        for (n, text) in texts(1, lines, versions).iter().enumerate() {
            pieces.add(text, new(n as u32));
        }
        let stretches = all_on(versions as u32, &pieces);
        let bytes = |s: &Stretch| s.chunks.len() * lines * 60;
        assert!(stretches.iter().all(|s| bytes(s) <= most));
        assert!(stretches.len() <= versions * lines * 60 / most + 1);
        // A version follows the one that was made after it.
        assert_eq!(stretches[0].chunks[0], versions as u32 - 1);
    }
}

#[test]
fn versions_that_are_stored_from_new_to_old_follow_the_newest_in_this_order() {
    let texts = texts(3, 100, 60);
    let mut pieces = Pieces::default();
    let (newest, older) = texts.split_last().expect("there are some");
    for text in older.iter().rev().chain([newest]) {
        pieces.add(text, new(0));
    }
    let stretches = all_on(60, &pieces);
    let chunks: Vec<u32> = stretches.into_iter().flat_map(|s| s.chunks).collect();
    assert_eq!(chunks, (0..60).collect::<Vec<u32>>());
}

#[test]
fn texts_of_their_own_are_no_versions_and_small_families_share_frames() {
    let mut pieces = Pieces::default();
    for version in 0..2 {
        for n in 0..40 {
            pieces.add(&texts(n * 10_000, 100, 1)[version], new(version as u32));
        }
    }
    for n in 0..40 {
        pieces.add(&noise(900 + n, 6_000), new(2));
    }
    let stretches = pieces.stretches();
    let chunks: Vec<u32> = stretches.iter().flat_map(|s| s.chunks.clone()).collect();
    assert_eq!(chunks, (0..40).collect::<Vec<u32>>());
    assert_eq!(stretches.len(), 3, "sixteen families each: {stretches:?}");
    for stretch in stretches {
        let bases: Vec<u32> = stretch.chunks.iter().map(|chunk| chunk + 40).collect();
        assert_eq!(stretch.bases, bases);
    }
}

#[test]
fn a_settled_version_is_the_base_of_new_ones_and_a_pinned_one_has_none() {
    let texts = texts(5, 100, 30);
    for is_pinned in [false, true] {
        let mut pieces = Pieces::default();
        for (n, text) in texts.iter().enumerate() {
            let is_settled = n == 10 && !is_pinned;
            let number = n as u32;
            pieces.add(text, Origin { number, is_settled });
        }
        pieces.pin((0..31).map(|n| n == 10 && is_pinned));
        all_on(10, &pieces);
    }
}
