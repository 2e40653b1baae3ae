//! Which chunks resemble each other: pure arithmetic on samples of their content.
//!
//! A window of sixteen bytes is a *sample* if its hash ends in zeros. Content decides this, not position, so
//! two chunks that share a part of their windows share about this part of their samples. One shared
//! sample says little. But a stretch of chunks that continues another one shares many with the same
//! few neighbours, whatever the files are called.

mod versions;

use crate::limits::MAX_FRAME_BYTES;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use versions::Sketch;

/// One window in two to the power of this is a sample.
const SAMPLE_BITS: u32 = 11;
/// A chunk with fewer bytes is a short file, or the end of one. It has few samples.
const SMALL_BYTES: usize = 16 << 10;
/// Most samples of one chunk.
const MOST_SAMPLES: usize = 128;
/// A sample that more chunks have says nothing about their resemblance.
const COMMON: usize = 12;
/// Bytes of chunks that are encoded together.
const STRETCH_BYTES: u64 = 1 << 20;
/// Most bytes of the bases of a stretch. More make the frames slower to read and hardly smaller.
const BASE_BYTES: u64 = 5 << 19;
/// Most bases of a stretch.
const MOST_BASES: usize = crate::limits::MAX_BASE_OBJECTS;
/// One sample in this many must be known for a chunk to resemble others.
const LIKE: usize = 10;
/// Decoded bytes of a frame for which one sample pays. To use chunks of a frame of 1 MiB as bases, a stretch
/// must share eight samples with them: some 16 KiB, before compression.
const BYTES_PER_SAMPLE: u32 = 128 << 10;
/// Samples that pay for any frame from which one of the last stretches has bases: a reader still has it.
const NEAR_SAMPLES: usize = 2;
/// Number of stretches whose frames are near.
const NEAR_STRETCHES: usize = 8;
/// A chunk of which at least this share is known, in tenths, needs no mates: chunks like it find the same
/// bases.
const WELL_KNOWN_TENTHS: usize = 8;
/// A mate shares this part of its samples more with a chunk of the stretch than with all that may be
/// bases.
const MATE_PART: usize = 4;
/// Bytes of chunks that are compared with the others as one when the order is decided.
const BLOCK_BYTES: u64 = 32 << 20;

const GEAR: [u64; 256] = gear();

const fn gear() -> [u64; 256] {
    let mut table = [0; 256];
    let mut n = 0;
    let mut seed = 0x0123_4567_89ab_cdef_u64;
    while n < 256 {
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = seed;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        table[n] = x ^ (x >> 31);
        n += 1;
    }
    table
}

/// Chunks in the order in which they are stored, with their samples.
#[derive(Default)]
pub(super) struct Pieces {
    samples: Vec<u32>,
    /// The end of each chunk's samples.
    ends: Vec<u32>,
    sketches: Vec<Sketch>,
    /// The length in bytes of each chunk.
    lens: Vec<u32>,
    /// Where each chunk comes from.
    origins: Vec<Origin>,
    /// The number of each chunk's frame.
    frames: Vec<u32>,
    /// Decoded bytes of each frame.
    frame_lens: Vec<u32>,
    /// Chunks that must not get a base.
    pinned: Vec<bool>,
}

/// Where a chunk comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Origin {
    /// Chunks with different numbers come from different places in time.
    pub number: u32,
    /// Whether it was compared with others before, by an earlier `repack`.
    pub is_settled: bool,
}

/// A stretch of chunks to be encoded together, with their mates after them, and the chunks whose bytes
/// help to do so. All by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub chunks: Vec<u32>,
    pub bases: Vec<u32>,
}

impl Pieces {
    /// Ends a frame of some decoded bytes: the chunks that were added since the one before. Chunks that
    /// get no base stay together like that, more or less.
    pub fn end_frame(&mut self, len: u32) {
        self.frame_lens.push(len);
    }

    /// Adds a chunk.
    pub fn add(&mut self, bytes: &[u8], origin: Origin) {
        let from = self.samples.len();
        let mut sketch = sample(bytes, &mut self.samples);
        self.samples[from..].sort_unstable();
        // A chunk of repeats has the same samples again and again.
        let mut end = from;
        for at in from..self.samples.len() {
            if end == from || self.samples[end - 1] != self.samples[at] {
                self.samples[end] = self.samples[at];
                end += 1;
            }
        }
        self.samples.truncate(end.min(from + MOST_SAMPLES));
        if bytes.len() >= SMALL_BYTES {
            self.samples[from..]
                .iter()
                .for_each(|hash| sketch.add(*hash));
        }
        self.sketches.push(sketch);
        self.ends.push(self.samples.len() as u32);
        self.lens.push(bytes.len() as u32);
        self.origins.push(origin);
        self.frames.push(self.frame_lens.len() as u32);
        self.pinned.push(false);
    }

    /// Decides for each chunk whether it must stay without a base.
    pub fn pin(&mut self, pinned: impl Iterator<Item = bool>) {
        self.pinned = pinned.collect();
    }

    /// Returns the number of chunks.
    pub fn len(&self) -> usize {
        self.lens.len()
    }

    /// Returns the number of samples.
    pub fn samples(&self) -> usize {
        self.samples.len()
    }

    fn of(&self, chunk: usize) -> &[u32] {
        let from = match chunk {
            0 => 0,
            _ => self.ends[chunk - 1],
        };
        &self.samples[from as usize..self.ends[chunk] as usize]
    }

    /// Returns stretches whose bases are chunks of no stretch.
    pub fn stretches(&self) -> Vec<Stretch> {
        let index = Index::new(self);
        let mut plan = Plan {
            pieces: self,
            index: &index,
            is_plain: self.pinned.clone(),
            has_base: vec![false; self.len()],
            near: VecDeque::new(),
            out: Vec::new(),
        };
        plan.add_versions();
        for block in self.blocks_by_rank(&index) {
            plan.add_block(block);
        }
        plan.out
    }

    /// Returns the chunks in blocks, in the order in which they become bases: first those that were compared
    /// before, then those that resemble most others, and among equals the newest. So what is new becomes the
    /// difference from what others may have already. Of three new versions of a file the one in the middle
    /// becomes the base of the others, and of two the newer one.
    fn blocks_by_rank(&self, index: &Index) -> Vec<Range<usize>> {
        let mut blocks: Vec<Range<usize>> = Vec::new();
        let mut bytes = 0;
        for chunk in 0..self.len() {
            let starts = chunk == 0 || self.origins[chunk] != self.origins[chunk - 1];
            if starts || bytes >= BLOCK_BYTES {
                blocks.push(chunk..chunk);
                bytes = 0;
            }
            bytes += u64::from(self.lens[chunk]);
            if let Some(block) = blocks.last_mut() {
                block.end = chunk + 1;
            }
        }
        let mut block_of = vec![0u32; self.len()];
        for (n, block) in blocks.iter().enumerate() {
            block_of[block.clone()].fill(n as u32);
        }
        let rank = |n: usize| {
            let (mut others, mut all) = (0, 1);
            for chunk in blocks[n].clone() {
                for sample in self.of(chunk) {
                    let with = index.with(*sample);
                    all += 1;
                    if with.len() <= COMMON {
                        let other = |at: &&(u32, u32)| block_of[at.1 as usize] != n as u32;
                        others += with.iter().filter(other).count();
                    }
                }
            }
            // Small differences are chance.
            others * 8 / all
        };
        let ranks: Vec<usize> = (0..blocks.len()).map(rank).collect();
        let mut order: Vec<usize> = (0..blocks.len()).collect();
        let is_new = |n: usize| !self.origins[blocks[n].start].is_settled;
        order.sort_by_key(|n| (is_new(*n), Reverse(ranks[*n]), Reverse(*n)));
        order.into_iter().map(|n| blocks[n].clone()).collect()
    }
}

/// The chunks with each sample.
struct Index(Vec<(u32, u32)>);

impl Index {
    fn new(pieces: &Pieces) -> Index {
        let mut all = Vec::with_capacity(pieces.samples.len());
        for chunk in 0..pieces.len() {
            all.extend(
                pieces
                    .of(chunk)
                    .iter()
                    .map(|sample| (*sample, chunk as u32)),
            );
        }
        all.sort_unstable();
        Index(all)
    }

    fn with(&self, sample: u32) -> &[(u32, u32)] {
        let from = self.0.partition_point(|at| at.0 < sample);
        let len = self.0[from..]
            .iter()
            .take_while(|at| at.0 == sample)
            .count();
        &self.0[from..from + len]
    }
}

struct Plan<'p> {
    pieces: &'p Pieces,
    index: &'p Index,
    /// Chunks that may be bases.
    is_plain: Vec<bool>,
    /// Chunks that are in a stretch.
    has_base: Vec<bool>,
    /// The frames of the last stretches' bases.
    near: VecDeque<HashSet<u32>>,
    out: Vec<Stretch>,
}

/// A chunk of a window, and for each of its samples the chunks that have it and may be bases.
struct SampledChunk {
    chunk: u32,
    bases: Vec<Vec<u32>>,
}

/// A chunk that gets bases.
struct Like {
    chunk: u32,
    /// How many samples each possible base shares with it.
    votes: HashMap<u32, u32>,
    /// Whether the bases explain most of its samples.
    is_well_known: bool,
    /// Chunks that resemble it more than any base.
    mates: Vec<u32>,
}

impl Plan<'_> {
    /// Decides about the versions of texts, of which samples tell too little.
    fn add_versions(&mut self) {
        let is_sketched = |chunk: &u32| {
            let chunk = *chunk as usize;
            let samples = self.pieces.of(chunk).len();
            (self.pieces.lens[chunk] as usize) < SMALL_BYTES
                || self.telling(chunk).count() * 2 < samples
        };
        let chunks = 0..self.pieces.len() as u32;
        let mut order: Vec<u32> = chunks.filter(is_sketched).collect();
        let is_new = |chunk: u32| {
            let chunk = chunk as usize;
            !self.pieces.pinned[chunk] && !self.pieces.origins[chunk].is_settled
        };
        order.sort_unstable_by_key(|chunk| (is_new(*chunk), Reverse(*chunk)));
        let found = versions::stretches(self.pieces, &order);
        for stretch in &found {
            for chunk in &stretch.chunks {
                self.has_base[*chunk as usize] = true;
            }
            for base in &stretch.bases {
                self.is_plain[*base as usize] = true;
            }
        }
        self.out = found;
    }

    fn add_block(&mut self, block: Range<usize>) {
        let mut from = block.start;
        while from < block.end {
            let mut bytes = 0;
            let mut to = from;
            while to < block.end
                && (to == from || bytes + u64::from(self.pieces.lens[to]) <= STRETCH_BYTES)
            {
                bytes += u64::from(self.pieces.lens[to]);
                to += 1;
            }
            self.add_window(from..to);
            from = to;
        }
    }

    /// Decides about a few neighbouring chunks.
    fn add_window(&mut self, window: Range<usize>) {
        let open = window.clone().filter(|chunk| self.is_open(*chunk));
        let sampled: Vec<SampledChunk> = open.map(|chunk| self.sampled(chunk)).collect();
        let frames = self.frames(&sampled);
        let likes: Vec<Like> = sampled
            .iter()
            .filter_map(|sampled| self.like(sampled, &frames))
            .collect();
        self.near.push_back(frames);
        if self.near.len() > NEAR_STRETCHES {
            self.near.pop_front();
        }
        for like in &likes {
            self.has_base[like.chunk as usize] = true;
        }
        for chunk in window {
            self.is_plain[chunk] |= !self.has_base[chunk];
        }
        let mut stretch: Vec<Like> = Vec::new();
        let mut bytes = 0;
        for like in likes {
            let like = self.with_mates(like);
            let all = std::iter::once(&like.chunk).chain(&like.mates);
            let len: usize = all.map(|chunk| self.len(*chunk)).sum();
            if bytes + len > MAX_FRAME_BYTES {
                self.add_stretch(std::mem::take(&mut stretch));
                bytes = 0;
            }
            bytes += len;
            stretch.push(like);
        }
        self.add_stretch(stretch);
    }

    /// Returns whether nothing is decided about a chunk yet.
    fn is_open(&self, chunk: usize) -> bool {
        !self.is_plain[chunk] && !self.has_base[chunk]
    }

    fn len(&self, chunk: u32) -> usize {
        self.pieces.lens[chunk as usize] as usize
    }

    /// Returns for each sample of a chunk that is not common the chunks that have it.
    fn telling(&self, chunk: usize) -> impl Iterator<Item = &[(u32, u32)]> {
        let samples = self.pieces.of(chunk).iter();
        let with = samples.map(|sample| self.index.with(*sample));
        with.filter(|with| with.len() <= COMMON)
    }

    fn sampled(&self, chunk: usize) -> SampledChunk {
        let plain = |with: &[(u32, u32)]| -> Vec<u32> {
            let others = with.iter().map(|(_, other)| *other);
            others.filter(|n| self.is_plain[*n as usize]).collect()
        };
        SampledChunk {
            chunk: chunk as u32,
            bases: self.telling(chunk).map(plain).collect(),
        }
    }

    /// Returns the frames that explain most samples of a window: first the one that explains most, then
    /// those that explain most of the rest. Resemblance to frames that explain few is left out. It saves
    /// little, and to read the stretch, each of the frames has to be decoded.
    fn frames(&self, window: &[SampledChunk]) -> HashSet<u32> {
        let frame_of = |chunk: &u32| self.pieces.frames[*chunk as usize];
        // For each sample that nothing explains yet, the frames that have it.
        let mut open: Vec<Vec<u32>> = Vec::new();
        for bases in window.iter().flat_map(|sampled| &sampled.bases) {
            let mut frames: Vec<u32> = bases.iter().map(frame_of).collect();
            frames.sort_unstable();
            frames.dedup();
            open.push(frames);
        }
        let mut taken = HashSet::new();
        loop {
            let mut explained: HashMap<u32, usize> = HashMap::new();
            for frame in open.iter().flatten() {
                *explained.entry(*frame).or_default() += 1;
            }
            let pays = |(frame, samples): &(u32, usize)| *samples >= self.least_samples(*frame);
            let best = explained.into_iter().filter(pays);
            let best = best.max_by_key(|(frame, samples)| (*samples, Reverse(*frame)));
            let Some((best, _)) = best else {
                return taken;
            };
            taken.insert(best);
            open.retain(|frames| !frames.contains(&best));
        }
    }

    /// Returns how many samples a frame must explain so that its chunks become bases.
    fn least_samples(&self, frame: u32) -> usize {
        let lens = &self.pieces.frame_lens;
        let len = lens.get(frame as usize).copied().unwrap_or(0);
        let far = len.div_ceil(BYTES_PER_SAMPLE).max(1) as usize;
        if self.near.iter().any(|near| near.contains(&frame)) {
            far.min(NEAR_SAMPLES)
        } else {
            far
        }
    }

    /// Returns what a chunk shares with the chunks of some frames; `None` if that is too little.
    fn like(&self, sampled: &SampledChunk, frames: &HashSet<u32>) -> Option<Like> {
        let mut votes: HashMap<u32, u32> = HashMap::new();
        let mut known = 0;
        for bases in &sampled.bases {
            let is_taken = |n: &&u32| frames.contains(&self.pieces.frames[**n as usize]);
            let mut is_known = false;
            for base in bases.iter().filter(is_taken) {
                *votes.entry(*base).or_default() += 1;
                is_known = true;
            }
            known += usize::from(is_known);
        }
        let is_like = known > 0 && known * LIKE >= sampled.bases.len();
        is_like.then_some(Like {
            chunk: sampled.chunk,
            votes,
            is_well_known: known * 10 > sampled.bases.len() * WELL_KNOWN_TENTHS,
            mates: Vec::new(),
        })
    }

    /// Adds the mates of a chunk that resembles its bases only in part: other versions of it, as a rule. In
    /// the same frame they take nearly no space, while none of them may be the base of another.
    fn with_mates(&mut self, mut like: Like) -> Like {
        if like.is_well_known {
            return like;
        }
        let origin = self.pieces.origins[like.chunk as usize];
        let mut shared: HashMap<u32, usize> = HashMap::new();
        for (_, other) in self.telling(like.chunk as usize).flatten() {
            let of = self.pieces.origins[*other as usize];
            let is_other = of.number != origin.number && of.is_settled == origin.is_settled;
            if is_other && self.is_open(*other as usize) {
                *shared.entry(*other).or_default() += 1;
            }
        }
        let mut shared: Vec<(u32, usize)> = shared.into_iter().collect();
        shared.sort_unstable_by_key(|(mate, samples)| (Reverse(*samples), *mate));
        let mut bytes = self.len(like.chunk);
        for (mate, samples) in shared {
            let of = self.sampled(mate as usize).bases;
            let known = of.iter().filter(|bases| !bases.is_empty()).count();
            let is_mate = samples > known + of.len() / MATE_PART;
            if is_mate && bytes + self.len(mate) <= MAX_FRAME_BYTES {
                bytes += self.len(mate);
                self.has_base[mate as usize] = true;
                like.mates.push(mate);
            }
        }
        like
    }

    /// Adds a stretch with all mates of its chunks.
    fn add_stretch(&mut self, likes: Vec<Like>) {
        let mut votes: HashMap<u32, u32> = HashMap::new();
        for (base, n) in likes.iter().flat_map(|like| &like.votes) {
            *votes.entry(*base).or_default() += n;
        }
        let bases = self.bases(&votes, &likes);
        let mut chunks: Vec<u32> = likes.iter().map(|like| like.chunk).collect();
        let mut mates: Vec<u32> = likes.into_iter().flat_map(|like| like.mates).collect();
        mates.sort_unstable();
        chunks.extend(mates);
        if !bases.is_empty() {
            self.out.push(Stretch { chunks, bases });
            return;
        }
        // The first chunk may be larger than all bases.
        for chunk in chunks {
            self.has_base[chunk as usize] = false;
            self.is_plain[chunk as usize] = true;
        }
    }

    /// Returns for each chunk of a stretch the one that it resembles most, and the neighbours of all
    /// these, in the order in which they are stored. `votes` count for the stretch as a whole.
    fn bases(&self, votes: &HashMap<u32, u32>, likes: &[Like]) -> Vec<u32> {
        let best = |like: &Like| {
            let ranked = like.votes.iter().map(|(other, n)| {
                let of_all = votes.get(other).copied().unwrap_or(0);
                (n + of_all, std::cmp::Reverse(*other))
            });
            ranked.max().map(|(_, other)| other.0)
        };
        let mut taken: Vec<u32> = Vec::new();
        let mut bytes = 0;
        let mut take = |chunk: u32, taken: &mut Vec<u32>| {
            let len = u64::from(self.pieces.lens[chunk as usize]);
            let fits = taken.len() < MOST_BASES && bytes + len <= BASE_BYTES;
            if fits && !taken.contains(&chunk) {
                bytes += len;
                taken.push(chunk);
            }
        };
        for chunk in likes.iter().filter_map(best) {
            take(chunk, &mut taken);
        }
        // What moved by a chunk or two lies beside them.
        for chunk in taken.clone() {
            for beside in [chunk.checked_sub(1), chunk.checked_add(1)] {
                let is_usable = |n: &u32| self.is_plain.get(*n as usize) == Some(&true);
                if let Some(beside) = beside.filter(is_usable)
                    && self.pieces.origins[beside as usize] == self.pieces.origins[chunk as usize]
                {
                    take(beside, &mut taken);
                }
            }
        }
        taken.sort_unstable();
        taken
    }
}

/// Appends the samples of a chunk: at least one, unless it is shorter than a window. Returns the sketch of a small
/// chunk.
fn sample(bytes: &[u8], out: &mut Vec<u32>) -> Sketch {
    const WINDOW: usize = 16;
    let (mut hash, mut sketch, begun) = (0u64, Sketch::EMPTY, out.len());
    for (n, byte) in bytes.iter().enumerate() {
        hash = (hash << 4).wrapping_add(GEAR[usize::from(*byte)]);
        if n + 1 < WINDOW {
            continue;
        }
        if hash >> (64 - SAMPLE_BITS) == 0 {
            let value = mixed(hash);
            if out.len() == begun || out[out.len() - 1] != value {
                out.push(value);
            }
        }
        if bytes.len() < SMALL_BYTES {
            sketch.add(mixed(hash));
        }
    }
    if out.len() == begun {
        out.extend(sketch.least());
    }
    sketch
}

fn mixed(hash: u64) -> u32 {
    (hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

#[cfg(test)]
mod tests;
