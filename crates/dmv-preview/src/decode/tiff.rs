//! TIFF and BigTIFF files: the first picture of a file, strip by strip or tile by tile. The crate `tiff` reads the
//! tables and decompresses; what the samples mean is decided here, because that crate leaves palettes, Lab and YCbCr to
//! its callers, and cannot join tiles whose channels lie apart. The TIFF 6.0 specification describes the layout.
#![expect(clippy::big_endian_bytes, reason = "the format has such numbers")]

use super::picture::{light, narrow, seen};
use super::psd::lab;
use super::{Ask, DecodedFile, damaged, tables};
use crate::input::Input;
use crate::paint::{Canvas, check_size};
use crate::preview::{Kind, Reason};
use ::tiff::decoder::{Decoder, DecodingResult, Limits};
use ::tiff::tags::Tag;
use ::tiff::{TiffError, TiffFormatError};
use image::metadata::Orientation;
use std::io::{self, Read, Seek, SeekFrom};

/// Bytes of one value in the tables: the places of two million strips.
const MAX_VALUE: usize = 16 << 20;
/// No table has more entries.
const MAX_ENTRIES: u64 = 4096;
/// The most channels of a pixel.
const MAX_CHANNELS: u16 = 64;
/// The value of the photometric interpretation that says that samples are plain numbers.
const BLACK_IS_ZERO: u32 = 1;
/// Compression as JPEG, which joins the parts of YCbCr by itself.
const JPEG: u16 = 7;

/// Returns whether a file that begins like this is a TIFF or a BigTIFF.
pub fn is_tiff(head: &[u8]) -> bool {
    [b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"].contains(&head.first_chunk().unwrap_or(b"\0\0\0\0"))
}

/// What a sample stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Colour {
    WhiteIsZero,
    BlackIsZero,
    Rgb,
    Palette,
    Cmyk,
    YCbCr,
    /// Lab with signed a and b.
    CieLab,
    /// Lab with a and b from 0 on.
    IccLab,
}

impl Colour {
    fn of(number: u16) -> Option<Self> {
        Some(match number {
            0 => Self::WhiteIsZero,
            // A mask is black and white.
            1 | 4 => Self::BlackIsZero,
            2 => Self::Rgb,
            3 => Self::Palette,
            5 => Self::Cmyk,
            6 => Self::YCbCr,
            8 => Self::CieLab,
            9 => Self::IccLab,
            _ => return None,
        })
    }

    fn channels(self) -> usize {
        match self {
            Self::WhiteIsZero | Self::BlackIsZero | Self::Palette => 1,
            Self::Rgb | Self::YCbCr | Self::CieLab | Self::IccLab => 3,
            Self::Cmyk => 4,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::WhiteIsZero | Self::BlackIsZero => "grey",
            Self::Rgb => "RGB",
            Self::Palette => "palette",
            Self::Cmyk => "CMYK",
            Self::YCbCr => "YCbCr",
            Self::CieLab | Self::IccLab => "Lab",
        }
    }
}

/// How the channel after the colours is transparent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Alpha {
    None,
    /// Colours are multiplied with it.
    Associated,
    Unassociated,
}

/// What the first table says.
struct Head {
    size: (u32, u32),
    colour: Colour,
    bits: u16,
    is_float: bool,
    /// Samples of a pixel.
    samples: usize,
    alpha: Alpha,
    /// Whether each channel has strips or tiles of its own.
    is_planar: bool,
    /// The colours of a palette.
    palette: Vec<[u8; 3]>,
    turn: Orientation,
    /// How pixels share the colours of YCbCr, unless each has its own.
    units: Option<Units>,
}

/// Pixels of YCbCr that share one pair of colours: a unit is the brightness of each pixel, row by row, and the pair.
#[derive(Clone, Copy)]
struct Units {
    columns: usize,
    rows: usize,
}

impl Units {
    /// Bytes of a unit.
    fn len(self) -> usize {
        self.columns * self.rows + 2
    }
}

/// The file, with other bytes at some places: the crate `tiff` is told that samples are plain numbers, whatever they
/// mean, and that units are rows of bytes.
struct PlainSamples<'a, 'b> {
    input: &'a mut Input<'b>,
    at: u64,
    patches: Vec<Patch>,
}

/// Other bytes at a place.
#[derive(Clone)]
struct Patch {
    at: u64,
    bytes: Vec<u8>,
}

impl Read for PlainSamples<'_, '_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = self.input.read(buf)?;
        for patch in &self.patches {
            for (place, byte) in (patch.at..).zip(&patch.bytes) {
                let offset = place.checked_sub(self.at);
                let within = offset.and_then(|at| buf[..len].get_mut(usize::try_from(at).ok()?));
                if let Some(within) = within {
                    *within = *byte;
                }
            }
        }
        self.at += len as u64;
        Ok(len)
    }
}

impl Seek for PlainSamples<'_, '_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.at = self.input.seek(to)?;
        Ok(self.at)
    }
}

type TiffDecoder<'a, 'b> = Decoder<PlainSamples<'a, 'b>>;

/// Reads the first picture of a file.
pub fn read(input: &mut Input<'_>, ask: &Ask<'_>) -> Result<DecodedFile, Reason> {
    let mut found = DecodedFile::default();
    let table = FirstTable::read(input).ok_or_else(|| damaged("its first table is cut off"))?;
    let colour = table.value(input, Tag::PhotometricInterpretation);
    let colour = colour.ok_or_else(|| damaged("its first table names no colours"))?;
    let mut patches = table.patch(Tag::PhotometricInterpretation, BLACK_IS_ZERO);
    let camera = (!table.is_big).then(|| tables::read(input, 0)).flatten();
    let mut head = head(&mut decoder(input, &patches, ask)?, colour)?;
    check_size(head.size.into(), ask.limits)?;
    found.fact("format", if table.is_big { "BigTIFF" } else { "TIFF" });
    found.fact("colour", describe(&head));
    found.original = Some(seen(head.size, head.turn));
    found.turned = head.turn != Orientation::NoTransforms;
    if let Some(camera) = camera {
        camera.tell(&mut found);
    }
    if let Some(mut canvas) = ask.canvas(head.size.into())? {
        if let Some(units) = head.units {
            patches.extend(table.as_units(input, head.size, units)?);
            head.samples = 3;
        }
        let mut decoder = decoder(input, &patches, ask)?;
        paint(&mut decoder, &head, ask, &mut canvas)?;
        found.picture = Some(canvas.finish().turned(head.turn));
    }
    Ok(found)
}

/// Opens the file with other bytes at some places.
fn decoder<'a, 'b>(
    input: &'a mut Input<'b>,
    patches: &[Patch],
    ask: &Ask<'_>,
) -> Result<TiffDecoder<'a, 'b>, Reason> {
    input.seek(SeekFrom::Start(0)).map_err(damaged)?;
    let reader = PlainSamples {
        input,
        at: 0,
        patches: patches.to_vec(),
    };
    let mut limits = Limits::default();
    let most = usize::try_from(ask.limits.decoded_bytes).unwrap_or(usize::MAX);
    limits.decoding_buffer_size = most;
    limits.intermediate_buffer_size = most;
    limits.ifd_value_size = MAX_VALUE;
    Ok(Decoder::new(reader).map_err(failed)?.with_limits(limits))
}

/// Where the entries of the first table stand.
struct FirstTable {
    is_big: bool,
    is_little: bool,
    /// The tag and the place of each entry.
    entries: Vec<EntryPlace>,
}

struct EntryPlace {
    tag: u16,
    at: u64,
}

impl FirstTable {
    fn read(input: &mut Input<'_>) -> Option<Self> {
        let head = input.start(16).ok()?;
        let mut table = Self {
            is_big: head.get(2..4)?.contains(&b'+'),
            is_little: head.first()? == &b'I',
            entries: Vec::new(),
        };
        let (first, count_len, entry_len) = if table.is_big {
            (table.number(input, 8, 8)?, 8, 20)
        } else {
            (table.number(input, 4, 4)?, 2, 12)
        };
        let count = table.number(input, first, count_len)?.min(MAX_ENTRIES);
        for entry in 0..count {
            let at = first.checked_add(count_len + entry * entry_len)?;
            let tag = table.number(input, at, 2)?;
            let tag = u16::try_from(tag).ok()?;
            table.entries.push(EntryPlace { tag, at });
        }
        Some(table)
    }

    fn number(&self, input: &mut Input<'_>, at: u64, len: u64) -> Option<u64> {
        let bytes = input.range(at, len).ok()?;
        let mut out = [0; 8];
        if self.is_little {
            out[..bytes.len()].copy_from_slice(&bytes);
            return Some(u64::from_le_bytes(out));
        }
        out[8 - bytes.len()..].copy_from_slice(&bytes);
        Some(u64::from_be_bytes(out))
    }

    fn place(&self, tag: Tag) -> Option<u64> {
        let entry = self.entries.iter().find(|entry| entry.tag == tag.to_u16());
        entry.map(|entry| entry.at)
    }

    /// Returns the first value of an entry that holds 16-bit numbers.
    fn value(&self, input: &mut Input<'_>, tag: Tag) -> Option<u16> {
        let value_at = if self.is_big { 12 } else { 8 };
        let value = self.number(input, self.place(tag)? + value_at, 2)?;
        u16::try_from(value).ok()
    }

    /// Makes an entry hold one number. There is nothing to do if the table has no such entry.
    fn patch(&self, tag: Tag, value: u32) -> Vec<Patch> {
        const LONG: u16 = 4;
        let Some(at) = self.place(tag) else {
            return Vec::new();
        };
        let mut bytes = self.bytes(u64::from(LONG), 2);
        bytes.extend(self.bytes(1, if self.is_big { 8 } else { 4 }));
        // A shorter value stands at the beginning of its field.
        bytes.extend(self.bytes(u64::from(value), 4));
        vec![Patch { at: at + 2, bytes }]
    }

    fn bytes(&self, value: u64, len: usize) -> Vec<u8> {
        if self.is_little {
            value.to_le_bytes()[..len].to_vec()
        } else {
            value.to_be_bytes()[8 - len..].to_vec()
        }
    }

    /// Makes a picture of units one of bytes: a row of units becomes a row of its bytes.
    fn as_units(
        &self,
        input: &mut Input<'_>,
        (width, height): (u32, u32),
        units: Units,
    ) -> Result<Vec<Patch>, Reason> {
        let long = |input: &mut Input<'_>, tag| {
            let place = self.place(tag)?;
            let value_at = if self.is_big { 12 } else { 8 };
            // A 16-bit number stands at the beginning of the field.
            let kind = self.number(input, place + 2, 2)?;
            let len = if kind == 3 { 2 } else { 4 };
            u32::try_from(self.number(input, place + value_at, len)?).ok()
        };
        let tile_width = long(input, Tag::TileWidth).unwrap_or(width);
        let rows = long(input, Tag::TileLength).or_else(|| long(input, Tag::RowsPerStrip));
        let rows = rows
            .unwrap_or(height)
            .min(height.next_multiple_of(units.rows as u32));
        if tile_width == 0 || rows == 0 || rows % units.rows as u32 != 0 {
            return Err(damaged("its strips or tiles cut pixels that share colours"));
        }
        let row_len = u64::from(tile_width).div_ceil(units.columns as u64) * units.len() as u64;
        let across = u64::from(width.div_ceil(tile_width));
        let short = |n: u64| u32::try_from(n).map_err(damaged);
        let unit_rows = rows / units.rows as u32;
        let down = height.div_ceil(units.rows as u32);
        Ok([
            (Tag::ImageWidth, short(row_len * across)?),
            (Tag::ImageLength, down),
            (Tag::TileWidth, short(row_len)?),
            (Tag::TileLength, unit_rows),
            (Tag::RowsPerStrip, unit_rows),
            (Tag::SamplesPerPixel, 1),
            (Tag::BitsPerSample, 8),
        ]
        .into_iter()
        .flat_map(|(tag, value)| self.patch(tag, value))
        .collect())
    }
}

fn unknown(words: &str) -> Reason {
    let words = format!("this variant of the format is not known: {words}");
    Reason::new(Kind::Unknown, words)
}

/// Reads what the picture's table says.
fn head(decoder: &mut TiffDecoder<'_, '_>, colour: u16) -> Result<Head, Reason> {
    let colour = Colour::of(colour)
        .ok_or_else(|| unknown(&format!("TIFF with photometric interpretation {colour}")))?;
    let size = decoder.dimensions().map_err(failed)?;
    let bits = numbers(decoder, Tag::BitsPerSample)?.unwrap_or_else(|| vec![1]);
    let bits = bits.first().copied().unwrap_or(1);
    let samples = number(decoder, Tag::SamplesPerPixel)?.unwrap_or(1);
    if usize::from(samples) < colour.channels() || samples > MAX_CHANNELS {
        return Err(damaged("its number of channels makes no picture"));
    }
    let form = numbers(decoder, Tag::SampleFormat)?.unwrap_or_default();
    let form = form.first().copied().unwrap_or(1);
    let extra = numbers(decoder, Tag::ExtraSamples)?.unwrap_or_default();
    let is_joined = usize::from(samples) > colour.channels();
    let head = Head {
        size,
        colour,
        bits,
        is_float: form == 3,
        samples: usize::from(samples),
        alpha: match extra.first() {
            Some(1) if is_joined => Alpha::Associated,
            Some(2) if is_joined => Alpha::Unassociated,
            _ => Alpha::None,
        },
        is_planar: number(decoder, Tag::PlanarConfiguration)? == Some(2) && samples > 1,
        palette: palette(decoder, colour, bits)?,
        turn: orientation(decoder)?,
        units: units(decoder, colour)?,
    };
    let is_lab = matches!(head.colour, Colour::CieLab | Colour::IccLab);
    if is_lab && (head.is_float || ![8, 16].contains(&head.bits)) {
        return Err(unknown("Lab that has neither 8 nor 16 bits"));
    }
    if head.units.is_some() && (head.bits != 8 || head.is_planar || head.samples != 3) {
        return Err(unknown("YCbCr with more than three channels of 8 bits"));
    }
    Ok(head)
}

/// Returns how pixels share the colours of YCbCr.
fn units(decoder: &mut TiffDecoder<'_, '_>, colour: Colour) -> Result<Option<Units>, Reason> {
    if colour != Colour::YCbCr || number(decoder, Tag::Compression)? == Some(JPEG) {
        return Ok(None);
    }
    // The specification's default is 2, 2.
    let told = numbers(decoder, Tag::ChromaSubsampling)?;
    match told.as_deref().unwrap_or(&[2, 2]) {
        [1, 1] => Ok(None),
        [columns @ (1 | 2 | 4), rows @ (1 | 2 | 4)] => Ok(Some(Units {
            columns: usize::from(*columns),
            rows: usize::from(*rows),
        })),
        _ => Err(damaged(
            "its pixels share colours in a way that TIFF does not have",
        )),
    }
}

fn numbers(decoder: &mut TiffDecoder<'_, '_>, tag: Tag) -> Result<Option<Vec<u16>>, Reason> {
    decoder.find_tag_unsigned_vec(tag).map_err(failed)
}

fn number(decoder: &mut TiffDecoder<'_, '_>, tag: Tag) -> Result<Option<u16>, Reason> {
    decoder.find_tag_unsigned(tag).map_err(failed)
}

fn orientation(decoder: &mut TiffDecoder<'_, '_>) -> Result<Orientation, Reason> {
    let told = number(decoder, Tag::Orientation)?.and_then(|n| u8::try_from(n).ok());
    let told = told.and_then(Orientation::from_exif);
    Ok(told.unwrap_or(Orientation::NoTransforms))
}

/// Returns the colours of a palette, if the picture has one.
fn palette(
    decoder: &mut TiffDecoder<'_, '_>,
    colour: Colour,
    bits: u16,
) -> Result<Vec<[u8; 3]>, Reason> {
    if colour != Colour::Palette {
        return Ok(Vec::new());
    }
    let wrong = || damaged("its palette does not fit its bits");
    let values = numbers(decoder, Tag::ColorMap)?.ok_or_else(wrong)?;
    if bits > 8 {
        return Err(unknown("a palette of more than 256 colours"));
    }
    if values.len() != 3 << bits {
        return Err(wrong());
    }
    // Some programs write 8 bits where the specification wants 16.
    let is_short = values.iter().all(|value| *value < 256);
    let short = |value: u16| if is_short { value as u8 } else { narrow(value) };
    let (red, rest) = values.split_at(1 << bits);
    let (green, blue) = rest.split_at(1 << bits);
    let colours = red.iter().zip(green).zip(blue);
    Ok(colours.map(|((r, g), b)| [*r, *g, *b].map(short)).collect())
}

fn describe(head: &Head) -> String {
    let alpha = if head.alpha == Alpha::None {
        ""
    } else {
        " with alpha"
    };
    let float = if head.is_float {
        "-bit floating point"
    } else {
        " bits"
    };
    format!("{}{alpha}, {}{float}", head.colour.name(), head.bits)
}

/// Decodes the picture, one row of strips or tiles at a time.
fn paint(
    decoder: &mut TiffDecoder<'_, '_>,
    head: &Head,
    ask: &Ask<'_>,
    canvas: &mut Canvas,
) -> Result<(), Reason> {
    let (width, height) = decoder.dimensions().map_err(failed)?;
    let (chunk_width, chunk_height) = decoder.chunk_dimensions();
    if chunk_width == 0 || chunk_height == 0 {
        return Err(damaged("its tiles have no pixels"));
    }
    let across = width.div_ceil(chunk_width);
    let in_plane = u64::from(across) * u64::from(height.div_ceil(chunk_height));
    let planes = if head.is_planar { used(head) } else { 1 };
    let rows = chunk_height.min(height);
    let bytes = u64::from(width) * u64::from(rows) * (u64::from(head.bits).div_ceil(8));
    ask.check_bytes(bytes.saturating_mul(head.samples as u64))?;
    let mut line = vec![0; head.size.0 as usize * head.samples];
    let mut pixels = Pixels::new(head);
    for (row, top) in (0..height).step_by(chunk_height as usize).enumerate() {
        let mut parts = Vec::new();
        for plane in 0..planes as u64 {
            for column in 0..across {
                let chunk = plane * in_plane + row as u64 * u64::from(across) + u64::from(column);
                let chunk = u32::try_from(chunk).map_err(damaged)?;
                parts.push(TiffChunk {
                    samples: decoder.read_chunk(chunk).map_err(failed)?,
                    width: decoder.chunk_data_dimensions(chunk).0 as usize,
                    at: column as usize * chunk_width as usize,
                    channel: plane as usize,
                });
            }
        }
        for y in 0..rows.min(height - top) as usize {
            for within in 0..head.units.map_or(1, |units| units.rows) {
                for part in &parts {
                    match head.units {
                        Some(units) => part.write_units(y, within, units, &mut line)?,
                        None => part.write_row(y, head, &mut line)?,
                    }
                }
                // Rows of the last units that lie below the picture are left out by the canvas.
                pixels.paint(&line, canvas);
            }
        }
    }
    Ok(())
}

/// How many channels are read: the colours, and the transparency.
fn used(head: &Head) -> usize {
    head.colour.channels() + usize::from(head.alpha != Alpha::None)
}

/// A decoded strip or tile: all channels of it, or one.
struct TiffChunk {
    samples: DecodingResult,
    width: usize,
    /// The column of its first pixel.
    at: usize,
    /// Its first channel.
    channel: usize,
}

impl TiffChunk {
    /// Writes one row of pixels from row `y` of the units: the row `within` of each.
    fn write_units(
        &self,
        y: usize,
        within: usize,
        units: Units,
        line: &mut [u8],
    ) -> Result<(), Reason> {
        let short = || damaged("a strip or tile is too short");
        let DecodingResult::U8(bytes) = &self.samples else {
            return Err(short());
        };
        let row = bytes.get(y * self.width..(y + 1) * self.width);
        let row = row.ok_or_else(short)?.chunks_exact(units.len());
        let start = self.at / units.len() * units.columns;
        let places = line.get_mut(start * 3..).unwrap_or_default();
        let places = places.as_chunks_mut::<3>().0.chunks_mut(units.columns);
        for (places, unit) in places.zip(row) {
            let (bright, pair) = unit.split_at(units.columns * units.rows);
            let bright = &bright[within * units.columns..];
            for (place, y) in places.iter_mut().zip(bright) {
                *place = [*y, pair[0], pair[1]];
            }
        }
        Ok(())
    }

    /// Writes the samples of row `y` to their places in `line`, as 8 bits. Indexes and the parts of Lab keep their bits.
    fn write_row(&self, y: usize, head: &Head, line: &mut [u8]) -> Result<(), Reason> {
        let samples = if head.is_planar { 1 } else { head.samples };
        let count = self.width * samples;
        let (from, to) = (y * count, (y + 1) * count);
        let step = head.samples / samples;
        let start = self.at * head.samples + self.channel;
        let places = line.get_mut(start..).unwrap_or_default();
        let mut places = places.iter_mut().step_by(step);
        let short = || damaged("a strip or tile is too short");
        macro_rules! write {
            ($values:expr, $short:expr) => {
                for (place, value) in places.zip($values.get(from..to).ok_or_else(short)?) {
                    *place = $short(*value);
                }
            };
        }
        let is_raw = matches!(head.colour, Colour::CieLab | Colour::IccLab);
        match &self.samples {
            DecodingResult::U8(values) if head.bits < 8 => {
                let bits = usize::from(head.bits);
                let len = (count * bits).div_ceil(8);
                let row = values.get(y * len..(y + 1) * len).ok_or_else(short)?;
                let most = (1u16 << bits) - 1;
                for n in 0..count {
                    let Some(place) = places.next() else { break };
                    let value = bits_at(row, n * bits, bits);
                    *place = if head.colour == Colour::Palette {
                        value
                    } else {
                        (u16::from(value) * 255 / most) as u8
                    };
                }
            }
            DecodingResult::U8(values) => write!(values, |v: u8| v),
            DecodingResult::U16(values) if is_raw => write!(values, |v: u16| (v >> 8) as u8),
            DecodingResult::U16(values) => write!(values, narrow),
            DecodingResult::U32(values) => write!(values, |v: u32| (v >> 24) as u8),
            DecodingResult::U64(values) => write!(values, |v: u64| (v >> 56) as u8),
            DecodingResult::F16(values) => write!(values, |v| light(f32::from(v))),
            DecodingResult::F32(values) => write!(values, light),
            DecodingResult::F64(values) => write!(values, |v: f64| light(v as f32)),
            DecodingResult::I8(values) if is_raw => write!(values, i8::cast_unsigned),
            DecodingResult::I8(values) => write!(values, |v: i8| (v.max(0) as u8) << 1),
            DecodingResult::I16(values) if is_raw => {
                write!(values, |v: i16| (v.cast_unsigned() >> 8) as u8)
            }
            DecodingResult::I16(values) => write!(values, |v: i16| (v.max(0) >> 7) as u8),
            DecodingResult::I32(values) => write!(values, |v: i32| (v.max(0) >> 23) as u8),
            DecodingResult::I64(values) => write!(values, |v: i64| (v.max(0) >> 55) as u8),
        }
        Ok(())
    }
}

/// Returns a number of fewer than 8 bits, the highest of which is the bit `at`.
fn bits_at(row: &[u8], at: usize, bits: usize) -> u8 {
    let high = row.get(at / 8).copied().unwrap_or(0);
    let low = row.get(at / 8 + 1).copied().unwrap_or(0);
    let both = u16::from_be_bytes([high, low]);
    (both >> (16 - at % 8 - bits)) as u8 & ((1 << bits) - 1)
}

/// Makes pixels of samples.
struct Pixels<'a> {
    head: &'a Head,
    row: Vec<u8>,
}

impl<'a> Pixels<'a> {
    fn new(head: &'a Head) -> Self {
        let row = vec![0; head.size.0 as usize * 4];
        Self { head, row }
    }

    /// Adds a row of samples to the canvas.
    fn paint(&mut self, line: &[u8], canvas: &mut Canvas) {
        let head = self.head;
        if head.colour == Colour::Rgb && head.samples == 3 {
            return canvas.opaque_row(line);
        }
        let pixels = self.row.as_chunks_mut::<4>().0.iter_mut();
        for (pixel, samples) in pixels.zip(line.chunks_exact(head.samples)) {
            let colours = colours(samples, head);
            *pixel = match (head.alpha, samples.get(head.colour.channels())) {
                (Alpha::Associated, Some(alpha)) => divided(colours, *alpha),
                (Alpha::Unassociated, Some(alpha)) => [colours[0], colours[1], colours[2], *alpha],
                _ => [colours[0], colours[1], colours[2], 255],
            };
        }
        canvas.row(&self.row);
    }
}

fn colours(samples: &[u8], head: &Head) -> [u8; 3] {
    match (head.colour, samples) {
        (Colour::WhiteIsZero, [white, ..]) => [255 - white; 3],
        (Colour::Palette, [index, ..]) => {
            let colour = head.palette.get(usize::from(*index));
            colour.copied().unwrap_or_default()
        }
        (Colour::Cmyk, [c, m, y, k, ..]) => {
            let left = |ink: u8| u32::from(255 - ink);
            [*c, *m, *y].map(|ink| (left(ink) * left(*k) / 255) as u8)
        }
        (Colour::YCbCr, [y, cb, cr, ..]) => bright([*y, *cb, *cr]),
        (Colour::CieLab, [l, a, b, ..]) => lab([*l, a ^ 0x80, b ^ 0x80]),
        (Colour::IccLab, [l, a, b, ..]) => lab([*l, *a, *b]),
        (_, [r, g, b, ..]) if head.colour == Colour::Rgb => [*r, *g, *b],
        (_, [grey, ..]) => [*grey; 3],
        (_, []) => [0; 3],
    }
}

/// Returns a colour of YCbCr, with the coefficients of ITU-R BT.601 as the specification's default, as RGB.
fn bright([y, cb, cr]: [u8; 3]) -> [u8; 3] {
    let (y, cb, cr) = (f32::from(y), f32::from(cb) - 128.0, f32::from(cr) - 128.0);
    let rgb = [
        y + 1.402 * cr,
        y - 0.344_136 * cb - 0.714_136 * cr,
        y + 1.772 * cb,
    ];
    rgb.map(|value| (value + 0.5).clamp(0.0, 255.0) as u8)
}

/// Takes the transparency out of colours that are multiplied with it.
fn divided(colours: [u8; 3], alpha: u8) -> [u8; 4] {
    let full = |colour: u8| {
        let scaled = (u32::from(colour) * 255).checked_div(u32::from(alpha));
        scaled.unwrap_or(0).min(255) as u8
    };
    [full(colours[0]), full(colours[1]), full(colours[2]), alpha]
}

fn failed(e: TiffError) -> Reason {
    match e {
        TiffError::LimitsExceeded => Reason::new(
            Kind::TooLarge,
            "the picture needs more memory than a preview may use",
        ),
        TiffError::UnsupportedError(e) => unknown(&e.to_string()),
        TiffError::FormatError(TiffFormatError::RequiredTagNotFound(tag)) => {
            damaged(format!("its table lacks {tag:?}"))
        }
        e => damaged(e),
    }
}
