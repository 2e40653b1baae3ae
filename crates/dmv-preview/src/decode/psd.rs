//! Photoshop documents (PSD and PSB): the merged picture that Photoshop saves beside the layers, row by row, so that
//! a document of any size fits; or the JPEG thumbnail among its resources. Adobe's "Photoshop File Formats
//! Specification" describes the layout. Numbers are big-endian.
#![expect(clippy::big_endian_bytes, reason = "the format has such numbers")]

use super::picture::{light, narrow};
use super::{Ask, DecodedFile, damaged, picture};
use crate::input::{Input, Memory};
use crate::paint::check_size;
use crate::preview::{Kind, Reason};
use image::ImageFormat;

/// What stands in the head of a document.
struct Head {
    big: bool,
    channels: u16,
    width: u32,
    height: u32,
    depth: u16,
    mode: Mode,
    /// Red, green and blue of 256 colours, one after the other.
    palette: Vec<u8>,
    thumbnail: Option<(u64, u64)>,
    /// Whether the program that saved the document says that it left the merged picture out.
    unmerged: bool,
    /// Whether the channel after the colours is the transparency.
    clear: bool,
    /// Where the merged picture begins.
    pixels: u64,
}

/// How colours are given.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Bitmap,
    Grey,
    Indexed,
    Rgb,
    Cmyk,
    Multichannel,
    Lab,
}

impl Mode {
    fn of(number: u16) -> Option<Self> {
        Some(match number {
            0 => Self::Bitmap,
            // Duotone is shown as grey, as its specification says.
            1 | 8 => Self::Grey,
            2 => Self::Indexed,
            3 => Self::Rgb,
            4 => Self::Cmyk,
            7 => Self::Multichannel,
            9 => Self::Lab,
            _ => return None,
        })
    }

    fn channels(self) -> usize {
        match self {
            Self::Bitmap | Self::Grey | Self::Indexed | Self::Multichannel => 1,
            Self::Rgb | Self::Lab => 3,
            Self::Cmyk => 4,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Bitmap => "bitmap",
            Self::Grey => "grey",
            Self::Indexed => "indexed",
            Self::Rgb => "RGB",
            Self::Cmyk => "CMYK",
            Self::Multichannel => "multichannel",
            Self::Lab => "Lab",
        }
    }
}

/// A list of resources is at most this long, and a thumbnail.
const MAX_RESOURCES: u64 = 64 << 20;
const MAX_THUMBNAIL: u64 = 4 << 20;
/// About so many bytes of a channel are read at a time.
const BATCH: u64 = 128 << 10;

/// Reads a document.
pub fn read(input: &mut Input<'_>, ask: &Ask<'_>) -> Result<DecodedFile, Reason> {
    let head = head(input).ok_or_else(|| damaged("its head is cut off or wrong"))?;
    if head.mode == Mode::Multichannel {
        let words = "documents in the mode \"multichannel\" have inks instead of colours";
        return Err(Reason::new(Kind::Unknown, words));
    }
    let mut found = DecodedFile {
        original: Some((head.width, head.height)),
        ..DecodedFile::default()
    };
    found.fact(
        "format",
        if head.big {
            "Photoshop (PSB)"
        } else {
            "Photoshop"
        },
    );
    found.fact(
        "colour",
        format!("{}, {} bits", head.mode.name(), head.depth),
    );
    found.fact("channels", head.channels);
    if ask.edge.is_none() {
        return Ok(found);
    }
    let merged = if head.unmerged {
        Err(Reason::new(
            Kind::Absent,
            "this document was saved without its merged picture (Maximize Compatibility off)",
        ))
    } else {
        merged(input, &head, ask, &mut found)
    };
    let Err(why) = merged else {
        return Ok(found);
    };
    match thumbnail(input, &head, ask) {
        Some(picture) => {
            found.picture = Some(picture);
            found.fact(
                "shown",
                format!("the small picture in the file, because {}", why.words),
            );
            Ok(found)
        }
        None => Err(why),
    }
}

fn head(input: &mut Input<'_>) -> Option<Head> {
    let bytes = input.range(0, 26).ok()?;
    let big = match u16_at(&bytes, 4)? {
        1 => false,
        2 => true,
        _ => return None,
    };
    let mut head = Head {
        big,
        channels: u16_at(&bytes, 12)?,
        height: u32_at(&bytes, 14)?,
        width: u32_at(&bytes, 18)?,
        depth: u16_at(&bytes, 22)?,
        mode: Mode::of(u16_at(&bytes, 24)?)?,
        palette: Vec::new(),
        thumbnail: None,
        unmerged: false,
        clear: false,
        pixels: 0,
    };
    let len = length(input, 26, false)?;
    if head.mode == Mode::Indexed {
        head.palette = input.range(30, len.min(768)).ok()?;
    }
    let at = 30u64.checked_add(len)?;
    let len = length(input, at, false)?;
    resources(input, at + 4, len, &mut head);
    let at = at.checked_add(4)?.checked_add(len)?;
    let len = length(input, at, big)?;
    let size = if big { 8 } else { 4 };
    head.clear = is_clear(input, at + size, len, big).unwrap_or(false);
    head.pixels = at.checked_add(size)?.checked_add(len)?;
    Some(head)
}

/// Looks for the thumbnail and for the word about the merged picture.
fn resources(input: &mut Input<'_>, start: u64, len: u64, head: &mut Head) -> Option<()> {
    let end = start.checked_add(len.min(MAX_RESOURCES))?;
    let mut at = start;
    for _ in 0..1000 {
        if at >= end {
            break;
        }
        let bytes = input.range(at, 7).ok()?;
        if !bytes.starts_with(b"8BIM") {
            break;
        }
        let id = u16_at(&bytes, 4)?;
        // The name's length and the name, together even.
        let name = u64::from(bytes[6] | 1) + 1;
        let data = at + 6 + name;
        let len = length(input, data, false)?;
        match id {
            1036 => head.thumbnail = Some((data + 4, len)),
            1057 => {
                let says = input.range(data + 4, 5).ok()?;
                head.unmerged = says.get(4) == Some(&0);
            }
            _ => {}
        }
        at = data + 4 + len + len % 2;
    }
    Some(())
}

/// Returns whether the first channel after the colours is the transparency of the merged picture: the count of layers
/// is negative then.
fn is_clear(input: &mut Input<'_>, at: u64, len: u64, big: bool) -> Option<bool> {
    let size = if big { 8 } else { 4 };
    if len < size + 2 || length(input, at, big)? == 0 {
        return None;
    }
    let count = input.range(at + size, 2).ok()?;
    Some(count[0] & 0x80 != 0)
}

fn thumbnail(input: &mut Input<'_>, head: &Head, ask: &Ask<'_>) -> Option<crate::paint::Picture> {
    let (at, len) = head.thumbnail?;
    let len = len.checked_sub(28).filter(|len| *len <= MAX_THUMBNAIL)?;
    let bytes = input.range(at.checked_add(28)?, len).ok()?;
    let mut inner = Input::new(Memory(&bytes), len);
    picture::read(&mut inner, ImageFormat::Jpeg, ask)
        .ok()?
        .picture
}

/// Where the rows of the channels lie.
struct Rows {
    /// For each channel: where its rows begin.
    starts: Vec<u64>,
    /// For each channel and row, its length; empty if nothing is compressed.
    lens: Vec<Vec<u32>>,
    /// The length of a row that is not compressed.
    plain: u64,
}

/// Reads the merged picture.
fn merged(
    input: &mut Input<'_>,
    head: &Head,
    ask: &Ask<'_>,
    found: &mut DecodedFile,
) -> Result<(), Reason> {
    let size = (head.width, head.height);
    check_size(size.into(), ask.limits)?;
    let Some(mut canvas) = ask.canvas(size.into())? else {
        return Ok(());
    };
    if !matches!(head.depth, 1 | 8 | 16 | 32) || usize::from(head.channels) < head.mode.channels() {
        return Err(damaged("its depth and channels make no picture"));
    }
    let clear = head.clear && usize::from(head.channels) > head.mode.channels();
    let count = head.mode.channels() + usize::from(clear);
    let rows = rows(input, head, count)?;
    let width = head.width as usize;
    let mut out = vec![0; width * 4];
    let mut y = 0;
    while y < head.height {
        let end = rows.batch(y, head.height);
        let mut parts = Vec::new();
        for channel in 0..count {
            parts.push(rows.read(input, channel, y, end)?);
        }
        for row in 0..(end - y) as usize {
            let from = row * rows.plain as usize;
            let line: Vec<Vec<u8>> = parts
                .iter()
                .map(|part| samples(&part[from..from + rows.plain as usize], head, width))
                .collect();
            mix(&line, head, clear, &mut out);
            canvas.row(&out);
        }
        y = end;
    }
    found.picture = Some(canvas.finish());
    Ok(())
}

fn rows(input: &mut Input<'_>, head: &Head, count: usize) -> Result<Rows, Reason> {
    let plain = (u64::from(head.width) * u64::from(head.depth)).div_ceil(8);
    let how = input.range(head.pixels, 2).map_err(damaged)?;
    let at = head.pixels + 2;
    let height = u64::from(head.height);
    match u16_at(&how, 0) {
        Some(0) => {
            let starts = (0..count as u64).map(|channel| at + channel * plain * height);
            Ok(Rows {
                starts: starts.collect(),
                lens: Vec::new(),
                plain,
            })
        }
        Some(1) => {
            let size = if head.big { 4 } else { 2 };
            let mut start = at + u64::from(head.channels) * height * size;
            let (mut starts, mut lens) = (Vec::new(), Vec::new());
            for channel in 0..count as u64 {
                let table = input.range(at + channel * height * size, height * size);
                let table = table.map_err(damaged)?;
                let channel: Vec<u32> = table
                    .chunks_exact(size as usize)
                    .map(|n| n.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
                    .collect();
                starts.push(start);
                start += channel.iter().map(|len| u64::from(*len)).sum::<u64>();
                lens.push(channel);
            }
            Ok(Rows {
                starts,
                lens,
                plain,
            })
        }
        // The specification has these two ways for layers.
        Some(2 | 3) => Err(Reason::new(
            Kind::Unknown,
            "the merged picture is compressed in a way that dmv does not know",
        )),
        _ => Err(damaged("no Photoshop document is compressed in this way")),
    }
}

impl Rows {
    /// Returns the end of the rows to read at once.
    fn batch(&self, from: u32, height: u32) -> u32 {
        let rows = (BATCH / self.plain.max(1)).clamp(1, 4096) as u32;
        from.saturating_add(rows).min(height)
    }

    /// Returns rows of a channel, decompressed.
    fn read(
        &self,
        input: &mut Input<'_>,
        channel: usize,
        from: u32,
        to: u32,
    ) -> Result<Vec<u8>, Reason> {
        let count = u64::from(to - from);
        let Some(lens) = self.lens.get(channel) else {
            let at = self.starts[channel] + u64::from(from) * self.plain;
            return input.range(at, count * self.plain).map_err(damaged);
        };
        let sum = |lens: &[u32]| lens.iter().map(|len| u64::from(*len)).sum::<u64>();
        let at = self.starts[channel] + sum(&lens[..from as usize]);
        let lens = &lens[from as usize..to as usize];
        // A row gains at most one byte for each 128.
        if sum(lens) > count * (self.plain * 2 + 64) {
            return Err(damaged("a row of the merged picture is too long"));
        }
        let packed = input.range(at, sum(lens)).map_err(damaged)?;
        let mut rest = packed.as_slice();
        let mut out = Vec::with_capacity((count * self.plain) as usize);
        for (row, len) in (1..).zip(lens) {
            let (line, after) = rest.split_at(*len as usize);
            unpack(line, row * self.plain as usize, &mut out);
            rest = after;
        }
        Ok(out)
    }
}

/// Decompresses a row (PackBits) until `out` has `end` bytes. What is missing is zero.
fn unpack(mut row: &[u8], end: usize, out: &mut Vec<u8>) {
    while let (Some((count, rest)), true) = (row.split_first(), out.len() < end) {
        let space = end - out.len();
        match count.cast_signed() {
            -128 => row = rest,
            n if n >= 0 => {
                let len = (n as usize + 1).min(rest.len());
                out.extend_from_slice(&rest[..len.min(space)]);
                row = &rest[len..];
            }
            n => {
                let Some((byte, rest)) = rest.split_first() else {
                    break;
                };
                let len = 1 - isize::from(n);
                out.resize(out.len() + len.unsigned_abs().min(space), *byte);
                row = rest;
            }
        }
    }
    out.resize(end, 0);
}

/// Returns a row's samples as 8 bits.
fn samples(row: &[u8], head: &Head, width: usize) -> Vec<u8> {
    match head.depth {
        // A set bit is black.
        1 => (0..width)
            .map(|x| {
                if row[x / 8] >> (7 - x % 8) & 1 == 1 {
                    0
                } else {
                    255
                }
            })
            .collect(),
        16 => row
            .as_chunks::<2>()
            .0
            .iter()
            .map(|two| narrow(u16::from_be_bytes(*two)))
            .collect(),
        32 => row
            .as_chunks::<4>()
            .0
            .iter()
            .map(|four| light(f32::from_be_bytes(*four)))
            .collect(),
        _ => row.to_vec(),
    }
}

/// Makes pixels of the channels' samples.
fn mix(line: &[Vec<u8>], head: &Head, clear: bool, out: &mut [u8]) {
    for (x, pixel) in out.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let at = |channel: usize| line[channel][x];
        let [r, g, b] = match head.mode {
            Mode::Bitmap | Mode::Grey | Mode::Multichannel => [at(0); 3],
            Mode::Indexed => [0, 256, 512].map(|part| {
                head.palette
                    .get(part + usize::from(at(0)))
                    .copied()
                    .unwrap_or(0)
            }),
            Mode::Rgb => [at(0), at(1), at(2)],
            Mode::Cmyk => [0, 1, 2].map(|c| (u32::from(at(c)) * u32::from(at(3)) / 255) as u8),
            Mode::Lab => lab([at(0), at(1), at(2)]),
        };
        *pixel = if clear {
            plain([r, g, b], at(head.mode.channels()))
        } else {
            [r, g, b, 255]
        };
    }
}

/// Takes away the white that Photoshop puts behind what is transparent.
fn plain(colours: [u8; 3], alpha: u8) -> [u8; 4] {
    let white = 255 - i32::from(alpha);
    let [r, g, b] = colours.map(|colour| match alpha {
        0 => 255,
        _ => ((i32::from(colour) - white) * 255 / i32::from(alpha)).clamp(0, 255) as u8,
    });
    [r, g, b, alpha]
}

/// Returns a colour of the CIE's Lab (light of D50) as sRGB.
pub fn lab([l, a, b]: [u8; 3]) -> [u8; 3] {
    let (l, a, b) = (
        f32::from(l) / 2.55,
        f32::from(a) - 128.0,
        f32::from(b) - 128.0,
    );
    let y = (l + 16.0) / 116.0;
    let cube = |t: f32| {
        if t > 6.0 / 29.0 {
            t * t * t
        } else {
            (t - 4.0 / 29.0) * 108.0 / 841.0
        }
    };
    let (x, y, z) = (
        0.9642 * cube(y + a / 500.0),
        cube(y),
        0.8249 * cube(y - b / 200.0),
    );
    [
        light(3.1339 * x - 1.6169 * y - 0.4906 * z),
        light(-0.9788 * x + 1.9161 * y + 0.0335 * z),
        light(0.0719 * x - 0.2290 * y + 1.4052 * z),
    ]
}

fn length(input: &mut Input<'_>, at: u64, wide: bool) -> Option<u64> {
    let bytes = input.range(at, if wide { 8 } else { 4 }).ok()?;
    let len = bytes
        .iter()
        .fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte));
    (len <= input.len()).then_some(len)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_be_bytes(bytes))
}
