//! Says what commits would save if they stored changed chunks as differences from their predecessors, and what
//! that would cost.
//!
//! `neighbours REPO OLD NEW`: OLD and NEW are two versions of a directory, and the repository REPO contains OLD.
//! Among the chunks of a changed file, those that lie between two equal neighbours in both versions are
//! the obvious bases of those that lie there now. No search finds them. Begin and end of a file count as equal
//! neighbours. `dmv commit` does not do this; docs/decisions/differences.md says why.
//!
//! All seconds are those of CPU time of one thread.

// It is a program; its output is for people.
#![allow(clippy::print_stdout)]

use dmv_core::chunker::{Cutter, MAX_CUT_BYTES};
use dmv_core::hash::ObjectId;
use dmv_core::object::ObjectType;
use dmv_core::repo::Repo;
use dmv_core::store::{FRAME_TARGET_BYTES, FrameEncoder, FrameObject};
use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use zstd::zstd_safe::{CCtx, CParameter, get_error_name};

/// The format's limits for a frame with bases (docs/format/pack.md).
const MOST_BASES: usize = 64;
const MOST_BASE_BYTES: usize = 8 << 20;
/// What a frame with bases has to save, as for `repack`.
const SAVED_PART: usize = 8;
const SAVED_BYTES: usize = 512;
/// The window of a frame with bases, as for `repack`.
const WINDOW_LOG: u32 = 23;
const LEVELS: [i32; 4] = [-3, 1, 3, 9];

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// A chunk of a file: its id, and its place in the file's bytes.
#[derive(Clone, Copy)]
struct Piece {
    id: ObjectId,
    from: usize,
    len: usize,
}

/// New chunks that lie together, with the chunks that lay there before.
struct Gap {
    new: Vec<u8>,
    objects: Vec<FrameObject>,
    bases: Vec<ObjectId>,
    base_bytes: usize,
}

/// Bytes and seconds of a way to store chunks.
#[derive(Clone, Copy, Default)]
struct Figure {
    bytes: usize,
    seconds: f64,
}

struct Bench {
    repo: Repo,
    encoder: FrameEncoder,
    /// Chunks that need not be stored.
    known: HashSet<ObjectId>,
    files: usize,
    new_chunks: usize,
    new_bytes: usize,
    /// Those of them that have bases.
    based_chunks: usize,
    based_bytes: usize,
    plain: Figure,
    reading: Figure,
    /// With bases where these save enough, by level.
    with_bases: [Figure; LEVELS.len()],
}

fn main() -> Outcome {
    let mut args = std::env::args_os().skip(1).map(PathBuf::from);
    let mut next = || args.next().ok_or("usage: neighbours REPO OLD NEW");
    let (repo, old, new) = (next()?, next()?, next()?);
    let mut bench = Bench {
        repo: Repo::open(&repo)?,
        encoder: FrameEncoder::default(),
        known: HashSet::new(),
        files: 0,
        new_chunks: 0,
        new_bytes: 0,
        based_chunks: 0,
        based_bytes: 0,
        plain: Figure::default(),
        reading: Figure::default(),
        with_bases: [Figure::default(); LEVELS.len()],
    };
    let cutter = Cutter::new();
    let (old_paths, new_paths) = (paths(&old)?, paths(&new)?);
    for path in &old_paths {
        let pieces = pieces(&cutter, &fs::read(old.join(path))?);
        bench.known.extend(pieces.iter().map(|piece| piece.id));
    }
    let old_paths: HashSet<&PathBuf> = old_paths.iter().collect();
    let (mut frame, mut plain) = (Vec::new(), Vec::new());
    for path in &new_paths {
        let bytes = fs::read(new.join(path))?;
        let after = pieces(&cutter, &bytes);
        let before = if old_paths.contains(path) {
            pieces(&cutter, &fs::read(old.join(path))?)
        } else {
            Vec::new()
        };
        let is_changed = after.iter().any(|piece| !bench.known.contains(&piece.id));
        bench.files += usize::from(is_changed);
        for gap in bench.gaps(&bytes, &before, &after) {
            if gap.bases.is_empty() {
                plain.push(gap);
            } else {
                frame.push(gap);
            }
            bench.write(&mut plain, false)?;
            bench.write(&mut frame, false)?;
        }
    }
    bench.write(&mut plain, true)?;
    bench.write(&mut frame, true)?;
    bench.tell();
    Ok(())
}

/// Returns the paths of the regular files below `top`, sorted.
fn paths(top: &Path) -> Outcome<Vec<PathBuf>> {
    let (mut out, mut dirs) = (Vec::new(), vec![top.to_owned()]);
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() && entry.file_name() != ".dmv" {
                dirs.push(entry.path());
            } else if kind.is_file() {
                out.push(entry.path().strip_prefix(top)?.to_owned());
            }
        }
    }
    out.sort_unstable();
    Ok(out)
}

fn pieces(cutter: &Cutter, bytes: &[u8]) -> Vec<Piece> {
    let (mut out, mut from) = (Vec::new(), 0);
    while from < bytes.len() {
        let ahead = &bytes[from..bytes.len().min(from + MAX_CUT_BYTES + 1)];
        let len = cutter.cut(ahead);
        let id = ObjectType::Chunk.id_of(&ahead[..len]);
        out.push(Piece { id, from, len });
        from += len;
    }
    out
}

/// Returns the CPU time of this thread.
fn seconds() -> Outcome<f64> {
    let stat = fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanos: u64 = stat.split(' ').next().unwrap_or_default().parse()?;
    Ok(nanos as f64 / 1e9)
}

impl Bench {
    /// Returns the new chunks of a file, with their obvious bases.
    fn gaps(&mut self, bytes: &[u8], before: &[Piece], after: &[Piece]) -> Vec<Gap> {
        let mut at: HashMap<ObjectId, Vec<usize>> = HashMap::new();
        for (n, piece) in before.iter().enumerate() {
            at.entry(piece.id).or_default().push(n);
        }
        let (mut out, mut last, mut begin) = (Vec::new(), 0, 0);
        for n in 0..=after.len() {
            let same = match after.get(n) {
                None => Some(before.len()),
                Some(piece) => {
                    let all = at.get(&piece.id);
                    all.and_then(|all| all.iter().copied().find(|at| *at >= last))
                }
            };
            if let Some(same) = same {
                self.add_gap(bytes, &before[last..same], &after[begin..n], &mut out);
                (last, begin) = ((same + 1).min(before.len()), n + 1);
            }
        }
        out
    }

    fn add_gap(&mut self, bytes: &[u8], old: &[Piece], new: &[Piece], out: &mut Vec<Gap>) {
        let base_bytes: usize = old.iter().map(|piece| piece.len).sum();
        let len: usize = new.iter().map(|piece| piece.len).sum();
        let has_bases = !old.is_empty()
            && old.len() <= MOST_BASES
            && base_bytes <= MOST_BASE_BYTES
            && len <= FRAME_TARGET_BYTES;
        let mut gap = Gap::empty();
        for piece in new {
            if !self.known.insert(piece.id) {
                continue;
            }
            gap.new
                .extend_from_slice(&bytes[piece.from..piece.from + piece.len]);
            gap.objects.push(FrameObject {
                id: piece.id,
                ty: ObjectType::Chunk,
                len: piece.len as u32,
            });
            self.new_chunks += 1;
            self.new_bytes += piece.len;
            if has_bases {
                self.based_chunks += 1;
                self.based_bytes += piece.len;
            } else {
                out.push(std::mem::replace(&mut gap, Gap::empty()));
            }
        }
        if !gap.objects.is_empty() {
            gap.bases = old.iter().map(|piece| piece.id).collect();
            gap.base_bytes = base_bytes;
            out.push(gap);
        }
    }

    /// Stores gaps in frames: all of them if this is the `end`, otherwise only full frames.
    fn write(&mut self, gaps: &mut Vec<Gap>, end: bool) -> Outcome {
        loop {
            let (mut count, mut bytes, mut bases, mut base_bytes) = (0, 0, 0, 0);
            for gap in gaps.iter() {
                let fits = bytes + gap.new.len() <= FRAME_TARGET_BYTES
                    && bases + gap.bases.len() <= MOST_BASES
                    && base_bytes + gap.base_bytes <= MOST_BASE_BYTES;
                if count > 0 && !fits {
                    break;
                }
                count += 1;
                bytes += gap.new.len();
                bases += gap.bases.len();
                base_bytes += gap.base_bytes;
            }
            if count == 0 || count == gaps.len() && !end {
                return Ok(());
            }
            let frame: Vec<Gap> = gaps.drain(..count).collect();
            self.write_frame(&frame)?;
        }
    }

    fn write_frame(&mut self, gaps: &[Gap]) -> Outcome {
        let raw = gaps
            .iter()
            .map(|gap| &gap.new[..])
            .collect::<Vec<_>>()
            .concat();
        let objects: Vec<FrameObject> = gaps.iter().flat_map(|gap| gap.objects.clone()).collect();
        let begin = seconds()?;
        let frame = self.encoder.encode(&raw, &objects)?;
        let plain = Figure {
            bytes: frame.head.len() + frame.payload.len(),
            seconds: seconds()? - begin,
        };
        self.plain.add(plain);
        let (mut prefix, mut ids) = (Vec::new(), HashSet::new());
        let begin = seconds()?;
        for base in gaps.iter().flat_map(|gap| &gap.bases) {
            if ids.insert(*base) {
                let mut bytes = Vec::new();
                let is_there = self
                    .repo
                    .store()
                    .read_into(ObjectType::Chunk, base, &mut bytes)?;
                if !is_there {
                    return Err("REPO does not contain OLD".into());
                }
                prefix.append(&mut bytes);
            }
        }
        if ids.is_empty() {
            for figure in &mut self.with_bases {
                figure.add(plain);
            }
            return Ok(());
        }
        self.reading.add(Figure {
            bytes: prefix.len(),
            seconds: seconds()? - begin,
        });
        for (level, figure) in LEVELS.into_iter().zip(&mut self.with_bases) {
            let begin = seconds()?;
            let len = difference(level, &prefix, &raw)?;
            let mut with = Figure {
                bytes: frame_head(&objects, ids.len()) + len,
                seconds: seconds()? - begin,
            };
            // Where the difference is small, nobody needs to know how small the frame is without it.
            if with.bytes * 8 > raw.len() {
                with.seconds += plain.seconds;
                if with.bytes + SAVED_BYTES.max(plain.bytes / SAVED_PART) > plain.bytes {
                    with.bytes = plain.bytes;
                }
            }
            figure.add(with);
        }
        Ok(())
    }

    fn tell(&self) {
        println!("{} changed or new files", self.files);
        println!(
            "{} new chunks, {:.2} MB; with an obvious base {}, {:.2} MB",
            self.new_chunks,
            self.new_bytes as f64 / 1e6,
            self.based_chunks,
            self.based_bytes as f64 / 1e6
        );
        println!("| way | stored, MB | CPU seconds |");
        println!("|---|---:|---:|");
        let row = |way: &str, figure: Figure| {
            let mb = figure.bytes as f64 / 1e6;
            println!("| {way} | {mb:.3} | {:.3} |", figure.seconds);
        };
        row("as today", self.plain);
        row("reading the bases (decoded)", self.reading);
        for (level, figure) in LEVELS.into_iter().zip(self.with_bases) {
            row(
                &format!("with bases, level {level}, without reading"),
                figure,
            );
        }
    }
}

impl Gap {
    fn empty() -> Gap {
        Gap {
            new: Vec::new(),
            objects: Vec::new(),
            bases: Vec::new(),
            base_bytes: 0,
        }
    }
}

impl Figure {
    fn add(&mut self, other: Figure) {
        self.bytes += other.bytes;
        self.seconds += other.seconds;
    }
}

/// Returns the bytes of a frame's header, table and check with this many bases.
fn frame_head(objects: &[FrameObject], bases: usize) -> usize {
    32 + 8 + 1 + 32 * bases + 4 * objects.len()
}

/// Returns the length of `raw` as a difference from `prefix`.
fn difference(level: i32, prefix: &[u8], raw: &[u8]) -> Outcome<usize> {
    let failed = |code| get_error_name(code);
    let mut out = Vec::with_capacity(zstd::zstd_safe::compress_bound(raw.len()));
    let mut zstd = CCtx::try_create().ok_or("no zstd context")?;
    for parameter in [
        CParameter::CompressionLevel(level),
        CParameter::WindowLog(WINDOW_LOG),
    ] {
        zstd.set_parameter(parameter).map_err(failed)?;
    }
    zstd.ref_prefix(prefix).map_err(failed)?;
    Ok(zstd.compress2(&mut out, raw).map_err(failed)?)
}
