//! DirectDraw surfaces (DDS), the textures of games: the largest picture of a file, one row of blocks at a time.
//! Microsoft's "Programming Guide for DDS" describes the layout. Numbers are little-endian. The crate `bcdec_rs` decodes
//! the blocks.

use super::picture::{light, narrow, share};
use super::{Ask, DecodedFile, damaged};
use crate::input::Input;
use crate::paint::{Canvas, check_size};
use crate::preview::{Kind, Reason};

/// Where the head ends, and where it ends if it has the extension of DirectX 10.
const HEAD: u64 = 128;
const LONG_HEAD: u64 = 148;
/// A block has so many rows and columns.
const EDGE: usize = 4;

/// How pixels are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PixelFormat {
    /// Block compression: BC1 to BC5 and BC7, as 8 bits for each channel.
    Blocks(Block),
    /// Block compression of light, BC6H.
    Light { is_signed: bool },
    /// Whole pixels of 1 to 4 bytes; which bits of them are red, green, blue and transparency.
    Masks { bytes: usize, masks: [u32; 4] },
    /// Four channels of 16 bits.
    Wide,
    /// Four channels of 32-bit floating point.
    Float,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    Bc1,
    Bc2,
    Bc3,
    Bc4 { is_signed: bool },
    Bc5 { is_signed: bool },
    Bc7,
}

impl PixelFormat {
    /// Returns the format that the four letters of the head name.
    fn of_letters(letters: &[u8]) -> Option<Self> {
        Some(Self::Blocks(match letters {
            b"DXT1" => Block::Bc1,
            b"DXT2" | b"DXT3" => Block::Bc2,
            b"DXT4" | b"DXT5" => Block::Bc3,
            b"ATI1" | b"BC4U" => Block::Bc4 { is_signed: false },
            b"BC4S" => Block::Bc4 { is_signed: true },
            b"ATI2" | b"BC5U" => Block::Bc5 { is_signed: false },
            b"BC5S" => Block::Bc5 { is_signed: true },
            // Numbers of Direct3D 9 stand in the place of the letters.
            [36, 0, 0, 0] => return Some(Self::Wide),
            [116, 0, 0, 0] => return Some(Self::Float),
            _ => return None,
        }))
    }

    /// Returns the format of a number of DXGI_FORMAT.
    fn of_number(number: u32) -> Option<Self> {
        let whole = |masks| Some(Self::Masks { bytes: 4, masks });
        Some(match number {
            1..=2 => Self::Float,
            11 => Self::Wide,
            27..=29 => return whole([0xff, 0xff00, 0xff_0000, 0xff00_0000]),
            87 | 90 | 91 => return whole([0xff_0000, 0xff00, 0xff, 0xff00_0000]),
            88 | 92 | 93 => return whole([0xff_0000, 0xff00, 0xff, 0]),
            61 => Self::Masks {
                bytes: 1,
                masks: [0xff, 0xff, 0xff, 0],
            },
            70..=72 => Self::Blocks(Block::Bc1),
            73..=75 => Self::Blocks(Block::Bc2),
            76..=78 => Self::Blocks(Block::Bc3),
            79 | 80 => Self::Blocks(Block::Bc4 { is_signed: false }),
            81 => Self::Blocks(Block::Bc4 { is_signed: true }),
            82 | 83 => Self::Blocks(Block::Bc5 { is_signed: false }),
            84 => Self::Blocks(Block::Bc5 { is_signed: true }),
            94 | 95 => Self::Light { is_signed: false },
            96 => Self::Light { is_signed: true },
            97..=99 => Self::Blocks(Block::Bc7),
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Blocks(Block::Bc1) => "BC1 (DXT1)",
            Self::Blocks(Block::Bc2) => "BC2 (DXT3)",
            Self::Blocks(Block::Bc3) => "BC3 (DXT5)",
            Self::Blocks(Block::Bc4 { .. }) => "BC4",
            Self::Blocks(Block::Bc5 { .. }) => "BC5",
            Self::Blocks(Block::Bc7) => "BC7",
            Self::Light { .. } => "BC6H",
            Self::Masks { .. } => "not compressed",
            Self::Wide => "not compressed, 16 bits",
            Self::Float => "not compressed, 32-bit floating point",
        }
    }

    /// Returns the bytes of one row of blocks or pixels, and how many rows of pixels it is.
    fn row(self, width: usize) -> (usize, usize) {
        let blocks = width.div_ceil(EDGE);
        match self {
            Self::Blocks(Block::Bc1 | Block::Bc4 { .. }) => (blocks * 8, EDGE),
            Self::Blocks(_) | Self::Light { .. } => (blocks * 16, EDGE),
            Self::Masks { bytes, .. } => (width * bytes, 1),
            Self::Wide => (width * 8, 1),
            Self::Float => (width * 16, 1),
        }
    }
}

/// Reads the largest picture.
pub fn read(input: &mut Input<'_>, ask: &Ask<'_>) -> Result<DecodedFile, Reason> {
    let head = input.range(0, HEAD).map_err(damaged)?;
    let size = (number(&head, 16), number(&head, 12));
    check_size(size.into(), ask.limits)?;
    let (format, start) = pixel_format(input, &head)?;
    let mut found = DecodedFile {
        original: Some(size),
        ..DecodedFile::default()
    };
    found.fact("format", "DDS");
    found.fact("compression", format.name());
    if let Some(mut canvas) = ask.canvas(size.into())? {
        paint(input, start, size, format, &mut canvas)?;
        found.picture = Some(canvas.finish());
    }
    Ok(found)
}

/// Returns how pixels are stored, and where they begin.
fn pixel_format(input: &mut Input<'_>, head: &[u8]) -> Result<(PixelFormat, u64), Reason> {
    const HAS_LETTERS: u32 = 4;
    let letters = &head[84..88];
    let unknown = |what: String| {
        let words = format!("this variant of the format is not known: DDS with {what}");
        Reason::new(Kind::Unknown, words)
    };
    if number(head, 80) & HAS_LETTERS == 0 {
        let bits = number(head, 88);
        let masks = [92, 96, 100, 104].map(|at| number(head, at));
        if !(1..=4).contains(&(bits / 8)) || !bits.is_multiple_of(8) {
            return Err(unknown(format!("pixels of {bits} bits")));
        }
        let [red, green, blue, alpha] = masks;
        // Brightness alone stands in the place of red.
        let is_grey = green == 0 && blue == 0;
        let masks = if is_grey {
            [red, red, red, alpha]
        } else {
            masks
        };
        let bytes = bits as usize / 8;
        return Ok((PixelFormat::Masks { bytes, masks }, HEAD));
    }
    if letters == b"DX10" {
        let format = input.range(HEAD, 4).map_err(damaged)?;
        let format = number(&format, 0);
        let found = PixelFormat::of_number(format);
        let format = found.ok_or_else(|| unknown(format!("the format {format}")))?;
        return Ok((format, LONG_HEAD));
    }
    let shown = letters.escape_ascii();
    let format = PixelFormat::of_letters(letters);
    Ok((
        format.ok_or_else(|| unknown(format!("the code {shown}")))?,
        HEAD,
    ))
}

fn paint(
    input: &mut Input<'_>,
    start: u64,
    (width, height): (u32, u32),
    format: PixelFormat,
    canvas: &mut Canvas,
) -> Result<(), Reason> {
    let (len, rows) = format.row(width as usize);
    // A row of blocks may reach beyond the picture.
    let pitch = (width as usize).next_multiple_of(EDGE) * 4;
    let mut pixels = vec![0; pitch * rows];
    for (row, top) in (0..height).step_by(rows).enumerate() {
        let at = start + row as u64 * len as u64;
        let bytes = input.range(at, len as u64).map_err(damaged)?;
        match format {
            PixelFormat::Blocks(block) => decode_blocks(block, &bytes, &mut pixels, pitch),
            PixelFormat::Light { is_signed } => decode_light(is_signed, &bytes, &mut pixels, pitch),
            PixelFormat::Masks { bytes: n, masks } => decode_masks(n, masks, &bytes, &mut pixels),
            PixelFormat::Wide => {
                let values = bytes.as_chunks::<2>().0.iter();
                let narrowed = values.map(|value| narrow(u16::from_le_bytes(*value)));
                fill(&mut pixels, narrowed);
            }
            PixelFormat::Float => {
                let values = bytes.as_chunks::<4>().0.iter().zip(0..);
                let shown = values.map(|(value, n)| {
                    let value = f32::from_le_bytes(*value);
                    if n % 4 == 3 {
                        share(value)
                    } else {
                        light(value)
                    }
                });
                fill(&mut pixels, shown);
            }
        }
        for line in pixels.chunks_exact(pitch).take((height - top) as usize) {
            canvas.row(&line[..width as usize * 4]);
        }
    }
    Ok(())
}

fn fill(pixels: &mut [u8], values: impl Iterator<Item = u8>) {
    for (pixel, value) in pixels.iter_mut().zip(values) {
        *pixel = value;
    }
}

fn decode_blocks(block: Block, bytes: &[u8], pixels: &mut [u8], pitch: usize) {
    let size = if matches!(block, Block::Bc1 | Block::Bc4 { .. }) {
        8
    } else {
        16
    };
    for (column, bytes) in bytes.chunks_exact(size).enumerate() {
        let out = &mut pixels[column * EDGE * 4..];
        match block {
            Block::Bc1 => bcdec_rs::bc1(bytes, out, pitch),
            Block::Bc2 => bcdec_rs::bc2(bytes, out, pitch),
            Block::Bc3 => bcdec_rs::bc3(bytes, out, pitch),
            Block::Bc7 => bcdec_rs::bc7(bytes, out, pitch),
            Block::Bc4 { is_signed } => {
                let mut grey = [0; EDGE * EDGE];
                bcdec_rs::bc4(bytes, &mut grey, EDGE, is_signed);
                place(&grey, out, pitch, |[l]: [u8; 1]| [l, l, l, 255]);
            }
            Block::Bc5 { is_signed } => {
                let mut two = [0; EDGE * EDGE * 2];
                bcdec_rs::bc5(bytes, &mut two, EDGE * 2, is_signed);
                place(&two, out, pitch, |[r, g]: [u8; 2]| [r, g, 0, 255]);
            }
        }
    }
}

/// Writes the values of a block to the rows of the picture.
fn place<T: Copy, const N: usize>(
    block: &[T],
    out: &mut [u8],
    pitch: usize,
    pixel: impl Fn([T; N]) -> [u8; 4],
) {
    let values = block.as_chunks::<N>().0;
    for (row, values) in values.chunks_exact(EDGE).enumerate() {
        let line = &mut out[row * pitch..];
        for (place, value) in line.as_chunks_mut::<4>().0.iter_mut().zip(values) {
            *place = pixel(*value);
        }
    }
}

fn decode_light(is_signed: bool, bytes: &[u8], pixels: &mut [u8], pitch: usize) {
    for (column, bytes) in bytes.chunks_exact(16).enumerate() {
        let mut colours = [0.0; EDGE * EDGE * 3];
        bcdec_rs::bc6h_float(bytes, &mut colours, EDGE * 3, is_signed);
        let out = &mut pixels[column * EDGE * 4..];
        place(&colours, out, pitch, |[r, g, b]: [f32; 3]| {
            [light(r), light(g), light(b), 255]
        });
    }
}

fn decode_masks(len: usize, masks: [u32; 4], bytes: &[u8], pixels: &mut [u8]) {
    for (place, bytes) in pixels
        .as_chunks_mut::<4>()
        .0
        .iter_mut()
        .zip(bytes.chunks_exact(len))
    {
        let mut whole = [0; 4];
        whole[..len].copy_from_slice(bytes);
        let value = u32::from_le_bytes(whole);
        let [r, g, b, a] = masks.map(|mask| part(value, mask));
        *place = [r, g, b, if masks[3] == 0 { 255 } else { a }];
    }
}

/// Returns the bits of a mask as 8 bits.
fn part(value: u32, mask: u32) -> u8 {
    let shift = mask.trailing_zeros();
    let most = u64::from(mask.checked_shr(shift).unwrap_or(0));
    let value = u64::from((value & mask).checked_shr(shift).unwrap_or(0));
    (value * 255).checked_div(most).unwrap_or(0) as u8
}

/// Returns the number at a place of the head.
fn number(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes.get(at..at + 4).and_then(|b| b.first_chunk());
    u32::from_le_bytes(*bytes.unwrap_or(&[0; 4]))
}
