//! JPEG at an eighth of its size, for thumbnails: of each block of 8 x 8 pixels only the mean. The file has it as a
//! number of its own, so the rest of a block is passed over bit by bit, and no pixel of the large picture is computed.
//! Colours often have blocks of 16 x 16 pixels; three more numbers tell the means of their quarters.
//!
//! This knows the variant that cameras write: baseline, Huffman codes, 8 bits, grey or Y'CbCr, all components in one
//! scan. Every other file, and every damaged one, gets no answer here; the general decoder then shows it, or says why
//! not.
#![expect(clippy::big_endian_bytes, reason = "the format has such numbers")]

use crate::paint::Size;

/// A picture of means, with a pixel for each block of the original.
pub struct Eighth {
    /// The size of the original.
    pub original: Size,
    /// The number of blocks. One at the right or lower edge that is less than half full is left out.
    pub size: Size,
    /// The means: RGB, row by row.
    pub rgb: Vec<u8>,
}

/// Reads a whole file. `blocks` is the most blocks that may be decoded.
pub fn read(file: &[u8], blocks: u64) -> Option<Eighth> {
    let mut head = Head::default();
    let mut rest = file.strip_prefix(b"\xff\xd8")?;
    loop {
        let (mark, after) = marker(rest)?;
        let len = usize::from(u16::from_be_bytes(*after.first_chunk()?));
        let segment = after.get(2..len)?;
        rest = &after[len..];
        match mark {
            0xdb => head.quantizers(segment)?,
            0xc4 => head.codes(segment)?,
            0xc0 | 0xc1 => head.frame(segment, blocks)?,
            0xdd => head.restart = usize::from(u16::from_be_bytes(*segment.first_chunk()?)),
            0xda => {
                head.scan(segment)?;
                return head.decode(rest);
            }
            // Adobe's mark says with 0 that three components are RGB.
            0xee => head.is_rgb = segment.starts_with(b"Adobe") && segment.get(11) != Some(&1),
            0xe0..=0xef | 0xfe => {}
            // Progressive and arithmetic files, and what nobody writes before a scan.
            _ => return None,
        }
    }
}

/// Splits a marker from what follows it. Any number of 0xff may stand before.
fn marker(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let mut rest = bytes.strip_prefix(b"\xff")?;
    while let Some(more) = rest.strip_prefix(b"\xff") {
        rest = more;
    }
    rest.split_first().map(|(mark, rest)| (*mark, rest))
}

/// What stands before the scan.
#[derive(Default)]
struct Head {
    /// Of each quantization table the steps of the mean and of the slowest waves: across, down, and both.
    steps: [Option<[u16; 4]>; 4],
    means: [Option<Codes>; 4],
    others: [Option<Codes>; 4],
    size: (u32, u32),
    components: Vec<Component>,
    is_rgb: bool,
    /// Units between two restart markers; 0 if there are none.
    restart: usize,
}

struct Component {
    id: u8,
    /// Blocks of one unit, from left to right and from top to bottom.
    across: usize,
    down: usize,
    table: usize,
    mean_codes: usize,
    other_codes: usize,
}

impl Head {
    fn quantizers(&mut self, mut segment: &[u8]) -> Option<()> {
        while let Some((kind, rest)) = segment.split_first() {
            let (steps, after) = match kind >> 4 {
                0 => {
                    let (table, after) = rest.split_first_chunk::<64>()?;
                    ([0, 1, 2, 4].map(|at| u16::from(table[at])), after)
                }
                1 => {
                    let (table, after) = rest.split_first_chunk::<128>()?;
                    let pairs = table.as_chunks::<2>().0;
                    ([0, 1, 2, 4].map(|at| u16::from_be_bytes(pairs[at])), after)
                }
                _ => return None,
            };
            *self.steps.get_mut(usize::from(kind & 15))? = Some(steps);
            segment = after;
        }
        Some(())
    }

    fn codes(&mut self, mut segment: &[u8]) -> Option<()> {
        while let Some((kind, rest)) = segment.split_first() {
            let (counts, rest) = rest.split_first_chunk::<16>()?;
            let len = counts.iter().map(|count| usize::from(*count)).sum();
            let (symbols, rest) = rest.split_at_checked(len)?;
            let tables = match kind >> 4 {
                0 => &mut self.means,
                1 => &mut self.others,
                _ => return None,
            };
            let place = tables.get_mut(usize::from(kind & 15))?;
            *place = Some(Codes::new(counts, symbols)?);
            segment = rest;
        }
        Some(())
    }

    fn frame(&mut self, segment: &[u8], blocks: u64) -> Option<()> {
        let [8, h1, h0, w1, w0, count, rest @ ..] = segment else {
            return None;
        };
        let size = [[*w1, *w0], [*h1, *h0]].map(|n| u32::from(u16::from_be_bytes(n)));
        let (triples, []) = rest.as_chunks::<3>() else {
            return None;
        };
        let is_twice = !self.components.is_empty();
        if is_twice || !matches!(count, 1 | 3) || triples.len() != usize::from(*count) {
            return None;
        }
        for [id, sampling, table] in triples {
            let (across, down) = (usize::from(sampling >> 4), usize::from(sampling & 15));
            if !matches!((across, down), (1 | 2, 1 | 2)) {
                return None;
            }
            self.components.push(Component {
                id: *id,
                across,
                down,
                table: usize::from(*table),
                mean_codes: 0,
                other_codes: 0,
            });
        }
        match &mut self.components[..] {
            // A single component comes block by block.
            [grey] => (grey.across, grey.down) = (1, 1),
            // The brightness must be there for each block, and no colour finer than it.
            [first, rest @ ..] => {
                let fits =
                    |part: &Component| part.across <= first.across && part.down <= first.down;
                // Files without a mark of their own have such ids if they are RGB.
                self.is_rgb |= first.id == b'R';
                if !rest.iter().all(fits) {
                    return None;
                }
            }
            [] => return None,
        }
        self.size = (size[0], size[1]);
        let all = u64::from(size[0].div_ceil(8)) * u64::from(size[1].div_ceil(8));
        (all > 0 && all <= blocks).then_some(())
    }

    fn scan(&mut self, segment: &[u8]) -> Option<()> {
        let (count, rest) = segment.split_first()?;
        let (pairs, end) = rest.as_chunks::<2>();
        let (pairs, spectral) = pairs.split_at_checked(usize::from(*count))?;
        let is_whole = spectral == [[0, 63]] && end == [0];
        let is_rgb = self.is_rgb && self.components.len() == 3;
        if !is_whole || is_rgb || pairs.len() != self.components.len() {
            return None;
        }
        for (component, [id, tables]) in self.components.iter_mut().zip(pairs) {
            if component.id != *id {
                return None;
            }
            component.mean_codes = usize::from(tables >> 4);
            component.other_codes = usize::from(tables & 15);
        }
        Some(())
    }

    fn decode(&self, scan: &[u8]) -> Option<Eighth> {
        let first = self.components.first()?;
        let units = (
            self.size.0.div_ceil(8 * first.across as u32) as usize,
            self.size.1.div_ceil(8 * first.down as u32) as usize,
        );
        let most = (first.across, first.down);
        let width = units.0 * most.0;
        let mut parts = Vec::new();
        for component in &self.components {
            parts.push(Part {
                across: component.across,
                down: component.down,
                split: (most.0 / component.across, most.1 / component.down),
                means: self.means.get(component.mean_codes)?.as_ref()?,
                others: self.others.get(component.other_codes)?.as_ref()?,
                steps: (*self.steps.get(component.table)?)?.map(i64::from),
                before: 0,
                width,
                plane: vec![0; width * units.1 * most.1],
            });
        }
        let mut bits = Bits::new(scan);
        let mut until_restart = self.restart;
        for y in 0..units.1 {
            for x in 0..units.0 {
                if self.restart > 0 && until_restart == 0 {
                    bits.restart()?;
                    parts.iter_mut().for_each(|part| part.before = 0);
                    until_restart = self.restart;
                }
                until_restart = until_restart.wrapping_sub(1);
                for part in &mut parts {
                    for row in 0..part.down {
                        for column in 0..part.across {
                            part.block(&mut bits, (x * part.across + column, y * part.down + row))?;
                        }
                    }
                }
            }
            bits.has_all_come().then_some(())?;
        }
        Some(self.colours(&parts))
    }

    fn colours(&self, parts: &[Part<'_>]) -> Eighth {
        // At least one block, and one that is half full counts.
        let size = [self.size.0, self.size.1].map(|n| ((n + 4) / 8).max(1));
        let (width, height) = (size[0] as usize, size[1] as usize);
        let mut rgb = Vec::with_capacity(width * height * 3);
        for y in 0..height {
            let rows = parts
                .iter()
                .map(|part| &part.plane[y * part.width..][..width]);
            match &rows.collect::<Vec<_>>()[..] {
                [luma, blue, red] => {
                    for ((luma, blue), red) in luma.iter().zip(*blue).zip(*red) {
                        rgb.extend(rgb_of(*luma, *blue, *red));
                    }
                }
                [luma, ..] => rgb.extend(luma.iter().flat_map(|luma| [*luma; 3])),
                [] => {}
            }
        }
        Eighth {
            original: self.size.into(),
            size: Size {
                width: size[0],
                height: size[1],
            },
            rgb,
        }
    }
}

/// Returns a colour of JFIF as RGB.
fn rgb_of(luma: u8, blue: u8, red: u8) -> [u8; 3] {
    let (y, b, r) = (
        i32::from(luma) << 16,
        i32::from(blue) - 128,
        i32::from(red) - 128,
    );
    // 1.402, 0.344136, 0.714136 and 1.772 in units of 1/65536
    let all = [y + 91_881 * r, y - 22_554 * b - 46_802 * r, y + 116_130 * b];
    all.map(|value| ((value + (1 << 15)) >> 16).clamp(0, 255) as u8)
}

/// A component while it is decoded.
struct Part<'a> {
    across: usize,
    down: usize,
    /// How many blocks of the brightness one block of this component covers, across and down: the mean of each is
    /// wanted.
    split: (usize, usize),
    means: &'a Codes,
    others: &'a Codes,
    steps: [i64; 4],
    /// The mean of the block before, in steps.
    before: i32,
    /// Means of a row of the plane.
    width: usize,
    plane: Vec<u8>,
}

impl Part<'_> {
    /// Decodes the next block, which is at this place among the blocks of its component.
    fn block(&mut self, bits: &mut Bits<'_>, (x, y): (usize, usize)) -> Option<()> {
        bits.fill();
        let len = bits.symbol(self.means)?;
        if len > 11 {
            return None;
        }
        self.before = self.before.wrapping_add(bits.number(len));
        let mean = i64::from(self.before) * self.steps[0];
        let is_split = self.split != (1, 1);
        let mut slopes = [0; 3];
        let at = if is_split {
            self.slopes(bits, &mut slopes)?
        } else {
            1
        };
        self.others_of_block(bits, at)?;
        let [across, down, both] = slopes.map(i64::from);
        let (across, down) = (across * self.steps[1], down * self.steps[2]);
        let both = both * self.steps[3];
        let start = y * self.split.1 * self.width + x * self.split.0;
        for row in 0..self.split.1 {
            for column in 0..self.split.0 {
                let sign = |at: usize, of: usize| match of {
                    1 => 0,
                    _ => 1 - 2 * at as i64,
                };
                let (h, v) = (sign(column, self.split.0), sign(row, self.split.1));
                // The transform gives eight times the mean. The slowest wave has the mean 0.641 in one half: in units of
                // 1/1024 the factors are sqrt(2) times that, and for both directions twice its square.
                let sum = mean * 1024 + (across * h + down * v) * 928 + both * h * v * 841;
                let value = ((sum + 4096) >> 13) + 128;
                self.plane[start + row * self.width + column] = value.clamp(0, 255) as u8;
            }
        }
        Some(())
    }

    /// Reads the numbers of the slowest waves: across, down, and both. Returns the place in the block that is next.
    fn slopes(&self, bits: &mut Bits<'_>, slopes: &mut [i32; 3]) -> Option<u32> {
        let mut at = 1;
        while at < 5 {
            bits.fill();
            let symbol = bits.symbol(self.others)?;
            let (zeros, len) = (symbol >> 4, symbol & 15);
            match (zeros, len) {
                (15, 0) => at += 16,
                (_, 0) => return Some(END),
                _ => {
                    at += zeros;
                    let number = bits.number(len);
                    match at {
                        1 => slopes[0] = number,
                        2 => slopes[1] = number,
                        4 => slopes[2] = number,
                        _ => {}
                    }
                    at += 1;
                }
            }
        }
        Some(at)
    }

    /// Passes over the numbers of a block from a place on.
    fn others_of_block(&self, bits: &mut Bits<'_>, mut at: u32) -> Option<()> {
        while at < 64 {
            bits.fill();
            let step = self.others.quick[bits.peek(QUICK) as usize];
            if step == 0 {
                // A long code: its upper half counts zeros, its lower half is the length of a number.
                let symbol = bits.symbol(self.others)?;
                let (zeros, len) = (symbol >> 4, symbol & 15);
                bits.skip(len);
                at += match (zeros, len) {
                    (15, 0) => 16,
                    (_, 0) => END,
                    (zeros, _) => zeros + 1,
                };
            } else {
                bits.skip(u32::from(step & 31));
                at += u32::from(step >> 5);
            }
        }
        // A number behind the last of a block: damage.
        (at == 64 || at >= END).then_some(())
    }
}

/// Bits that are looked up at once.
const QUICK: u32 = 10;
/// Further than any place in a block: the block ends here.
const END: u32 = 1024;

/// A table of Huffman codes.
struct Codes {
    /// For each first [`QUICK`] bits the code that they begin with; 0 if it is longer. The lower 5 bits are the length of
    /// the code and of the number after it together, those above say how many places of the block they stand for.
    quick: Vec<u16>,
    /// For each length of codes: the first code that is longer, filled up to 16 bits, and what to add to a code for
    /// the place of its symbol.
    longer: [(u32, i32); 17],
    symbols: Vec<u8>,
}

impl Codes {
    fn new(counts: &[u8; 16], symbols: &[u8]) -> Option<Self> {
        let mut out = Self {
            quick: vec![0; 1 << QUICK],
            longer: [(0, 0); 17],
            symbols: symbols.to_vec(),
        };
        let (mut code, mut place) = (0u32, 0usize);
        for (len, count) in (1u32..).zip(counts) {
            out.longer[len as usize].1 = place as i32 - code as i32;
            for symbol in symbols.get(place..place + usize::from(*count))? {
                if len <= QUICK {
                    let from = (code << (QUICK - len)) as usize;
                    let all = out.quick.get_mut(from..from + (1 << (QUICK - len)))?;
                    all.fill(step(*symbol, len));
                }
                code += 1;
            }
            place += usize::from(*count);
            if code > 1 << len {
                return None;
            }
            out.longer[len as usize].0 = code << (16 - len);
            code <<= 1;
        }
        Some(out)
    }
}

/// Returns the entry of the quick table.
fn step(symbol: u8, len: u32) -> u16 {
    let (bits, places) = match (u32::from(symbol >> 4), u32::from(symbol & 15)) {
        (15, 0) => (len, 16),
        (_, 0) => (len, END),
        (zeros, number) => (len + number, zeros + 1),
    };
    (bits | places << 5) as u16
}

/// The bits of a scan, without the zeros that stand behind each 0xff.
struct Bits<'a> {
    rest: &'a [u8],
    /// The next bits, from the highest one on.
    next: u64,
    /// How many of them there are.
    count: u32,
    /// How many of these were made up after the end.
    made_up: u32,
}

impl<'a> Bits<'a> {
    fn new(rest: &'a [u8]) -> Self {
        Self {
            rest,
            next: 0,
            count: 0,
            made_up: 0,
        }
    }

    /// Makes sure that there are at least 32 bits.
    #[inline]
    fn fill(&mut self) {
        if self.count >= 32 {
            return;
        }
        if let Some((four, rest)) = self.rest.split_first_chunk::<4>() {
            let four = u32::from_be_bytes(*four);
            // Whether any byte is 0xff.
            let full = (!four).wrapping_sub(0x0101_0101) & four & 0x8080_8080;
            if full == 0 {
                self.next |= u64::from(four) << (32 - self.count);
                self.count += 32;
                self.rest = rest;
                return;
            }
        }
        self.fill_slowly();
    }

    #[cold]
    fn fill_slowly(&mut self) {
        while self.count <= 56 {
            let byte = match self.rest {
                [0xff, 0, rest @ ..] => {
                    self.rest = rest;
                    0xff
                }
                // A marker, or the end.
                [0xff, ..] | [] => {
                    self.made_up += 8;
                    0
                }
                [byte, rest @ ..] => {
                    self.rest = rest;
                    *byte
                }
            };
            self.next |= u64::from(byte) << (56 - self.count);
            self.count += 8;
        }
    }

    #[inline]
    fn peek(&self, len: u32) -> u64 {
        self.next >> (64 - len)
    }

    #[inline]
    fn skip(&mut self, len: u32) {
        self.next <<= len;
        self.count -= len;
    }

    /// Returns the next symbol. At most 16 bits are taken.
    #[inline]
    fn symbol(&mut self, codes: &Codes) -> Option<u32> {
        let bits = self.peek(16) as u32;
        // No code of this length or a shorter one begins so.
        let len = (1..=16).find(|len| bits < codes.longer[*len as usize].0)?;
        let (_, add) = codes.longer[len as usize];
        let place = (bits >> (16 - len)) as i32 + add;
        self.skip(len);
        codes
            .symbols
            .get(place as usize)
            .map(|symbol| u32::from(*symbol))
    }

    /// Returns a number of `len` bits: those that begin with 0 are negative.
    #[inline]
    fn number(&mut self, len: u32) -> i32 {
        if len == 0 {
            return 0;
        }
        let bits = self.peek(len) as i32;
        self.skip(len);
        match bits >> (len - 1) {
            0 => bits - (1 << len) + 1,
            _ => bits,
        }
    }

    /// Passes over a restart marker.
    fn restart(&mut self) -> Option<()> {
        self.has_all_come().then_some(())?;
        // Bits of whole bytes that were read ahead cannot be: the reader stops at markers.
        ((self.count - self.made_up) < 8).then_some(())?;
        let (mark, rest) = marker(self.rest)?;
        if !matches!(mark, 0xd0..=0xd7) {
            return None;
        }
        *self = Self::new(rest);
        Some(())
    }

    /// Returns whether no bit was used that is not in the file.
    fn has_all_come(&self) -> bool {
        self.made_up <= self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::ImageFormat;

    fn file(name: &str) -> Vec<u8> {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/files/");
        std::fs::read(format!("{dir}{name}")).expect(name)
    }

    /// The mean of a block, from all its pixels.
    fn mean(picture: &image::RgbImage, at: (u32, u32)) -> [f64; 3] {
        let (width, height) = picture.dimensions();
        let (x, y) = (
            at.0 * 8..(at.0 * 8 + 8).min(width),
            at.1 * 8..(at.1 * 8 + 8).min(height),
        );
        let count = (x.len() * y.len()) as f64;
        let pixels = y.flat_map(|y| x.clone().map(move |x| (x, y)));
        let mut sum = [0.0; 3];
        for (x, y) in pixels {
            for (sum, part) in sum.iter_mut().zip(picture.get_pixel(x, y).0) {
                *sum += f64::from(part) / count;
            }
        }
        sum
    }

    #[test]
    fn each_pixel_is_the_mean_of_a_block() {
        for name in [
            "blocks-420.jpg",
            "blocks-422.jpg",
            "blocks-440.jpg",
            "blocks-444.jpg",
            "blocks-grey.jpg",
            "blocks-restart.jpg",
        ] {
            let bytes = file(name);
            let all = image::load_from_memory_with_format(&bytes, ImageFormat::Jpeg);
            let all = all.expect(name).to_rgb8();
            let means = read(&bytes, 1 << 20).expect(name);
            assert_eq!(means.original, all.dimensions().into(), "{name}");
            let Size { width, height } = means.size;
            assert_eq!((width, height), (16, 12), "{name}");
            assert_eq!(means.rgb.len(), (width * height * 3) as usize, "{name}");
            let (mut worst, mut sum) = (0.0f64, 0.0);
            for (at, got) in (0..).zip(means.rgb.as_chunks::<3>().0) {
                let want = mean(&all, (at % width, at / width));
                for (got, want) in got.iter().zip(want) {
                    let off = (f64::from(*got) - want).abs();
                    (worst, sum) = (worst.max(off), sum + off);
                }
            }
            let usual = sum / means.rgb.len() as f64;
            // The general decoder smooths colours of half the size over the edges of blocks.
            assert!(
                worst <= 6.0 && usual <= 1.0,
                "{name}: {worst} at worst, {usual} usually"
            );
        }
    }

    #[test]
    fn what_is_not_whole_or_unusual_gets_no_answer() {
        assert!(read(&file("progressive.jpg"), 1 << 20).is_none());
        assert!(read(&file("cmyk.jpg"), 1 << 20).is_none());
        assert!(read(b"", 9).is_none());
        for name in ["blocks-420.jpg", "blocks-restart.jpg"] {
            let bytes = file(name);
            assert!(read(&bytes, 16 * 12 - 1).is_none(), "{name}");
            // Everything but the mark at the end is needed.
            for len in 0..bytes.len() - 4 {
                assert!(
                    read(&bytes[..len], 1 << 20).is_none(),
                    "{name}, {len} bytes"
                );
            }
        }
    }

    /// `DMV_PREVIEW_FLIPS` is the number of damaged variants of each file.
    #[test]
    fn damage_neither_panics_nor_makes_a_picture_of_another_size() {
        let count = std::env::var("DMV_PREVIEW_FLIPS").ok();
        let count = count.map_or(600, |count| count.parse().expect("a number"));
        let mut state = 1u64;
        let mut below = |end: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % end as u64) as usize
        };
        for name in [
            "blocks-420.jpg",
            "blocks-grey.jpg",
            "blocks-restart.jpg",
            "turned.jpg",
        ] {
            let bytes = file(name);
            for case in 0..count {
                let mut harmed = bytes.clone();
                // The tables and sizes stand at the beginning.
                let end = if case % 2 == 0 {
                    bytes.len()
                } else {
                    700.min(bytes.len())
                };
                for _ in 0..=below(3) {
                    let at = below(end);
                    harmed[at] =
                        [0, 0xff, below(256) as u8, harmed[at] ^ (1 << below(8))][below(4)];
                }
                if let Some(means) = read(&harmed, 1 << 16) {
                    let Size { width, height } = means.size;
                    assert_eq!(
                        means.rgb.len() as u64,
                        u64::from(width) * u64::from(height) * 3,
                        "{name} {case}"
                    );
                }
            }
        }
    }
}
