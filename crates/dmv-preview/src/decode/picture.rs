//! The formats of the `image` crate.

use super::{Ask, DecodedFile, damaged, eighth, tables};
use crate::input::{Input, Memory};
use crate::paint::{Canvas, Picture, Size, check_size};
use crate::preview::{Kind, Reason};
use image::metadata::Orientation;
use image::{ColorType, DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader};
use std::io::{BufRead, Cursor, Seek, SeekFrom};

/// A JPEG is read at an eighth of its size up to this length, because all of it is in memory then.
const MAX_AT_ONCE: u64 = 64 << 20;

/// Reads a picture: of several frames or pages, the first.
pub fn read(
    input: &mut Input<'_>,
    format: ImageFormat,
    ask: &Ask<'_>,
) -> Result<DecodedFile, Reason> {
    if format == ImageFormat::Jpeg && ask.is_thumbnail && input.len() <= MAX_AT_ONCE {
        let bytes = input.start(MAX_AT_ONCE).map_err(damaged)?;
        return decode(Cursor::new(&bytes), format, Some(&bytes), ask);
    }
    if format == ImageFormat::Ico
        && let Some(png) = png_of_icon(input)
    {
        let mut found = decode(Cursor::new(png), ImageFormat::Png, None, ask)?;
        for (_, value) in found.facts.iter_mut().filter(|(what, _)| what == "format") {
            name(format).clone_into(value);
        }
        return Ok(found);
    }
    input.seek(SeekFrom::Start(0)).map_err(damaged)?;
    decode(input, format, None, ask)
}

/// Returns the largest picture of an icon, if it is a PNG. The crate `image` takes only PNGs with transparency.
fn png_of_icon(input: &mut Input<'_>) -> Option<Vec<u8>> {
    const ENTRY: usize = 16;
    const MARK: &[u8] = b"\x89PNG\r\n\x1a\n";
    let head = input.start(6).ok()?;
    let count = u16::from_le_bytes(head.get(4..6)?.try_into().ok()?);
    let entries = input.range(6, u64::from(count) * ENTRY as u64).ok()?;
    // 0 stands for 256.
    let edge = |byte: u8| u32::from(byte.wrapping_sub(1)) + 1;
    let area = |entry: &&[u8; ENTRY]| edge(entry[0]) * edge(entry[1]);
    let largest = entries.as_chunks::<ENTRY>().0.iter().max_by_key(area)?;
    let number = |at: usize| {
        let bytes = largest[at..].first_chunk()?;
        Some(u64::from(u32::from_le_bytes(*bytes)))
    };
    let (len, at) = (number(8)?, number(12)?);
    let is_png = input.range(at, MARK.len() as u64).ok()? == MARK;
    let png = is_png.then(|| input.range(at, len.min(MAX_AT_ONCE)).ok());
    png.flatten()
}

/// Decodes a picture. `whole` is the file again if a thumbnail of a JPEG is wanted.
fn decode(
    file: impl BufRead + Seek,
    format: ImageFormat,
    whole: Option<&[u8]>,
    ask: &Ask<'_>,
) -> Result<DecodedFile, Reason> {
    let mut reader = ImageReader::with_format(file, format);
    reader.limits(limits(ask));
    let mut decoder = reader.into_decoder().map_err(failed)?;
    let size = decoder.dimensions();
    check_size(size.into(), ask.limits)?;
    ask.check_bytes(decoder.total_bytes())?;
    let exif = exif(&mut decoder);
    let turn = match exif.as_deref().map(Orientation::from_exif_chunk) {
        Some(turn) => turn,
        None => decoder.orientation().ok(),
    };
    let turn = turn.unwrap_or(Orientation::NoTransforms);
    let mut found = DecodedFile::default();
    found.fact("format", name(format));
    found.fact("colour", colour(decoder.color_type()));
    found.original = Some(seen(size, turn));
    found.turned = turn != Orientation::NoTransforms;
    if let Some(bytes) = &exif {
        camera(bytes, &mut found);
    }
    if let Some(canvas) = ask.canvas(size.into())? {
        let picture = match whole.and_then(|bytes| small(bytes, size.into(), ask)) {
            Some(small) => small,
            None => paint(
                canvas,
                &DynamicImage::from_decoder(decoder).map_err(failed)?,
                ask.gain,
            ),
        };
        found.picture = Some(picture.turned(turn));
    }
    Ok(found)
}

/// Returns a JPEG that is at least eight times as large as what is wanted, from the means of its blocks.
fn small(bytes: &[u8], size: Size, ask: &Ask<'_>) -> Option<Picture> {
    let edge = ask.edge?;
    if size.longer() < edge.saturating_mul(8) {
        return None;
    }
    let means = eighth::read(bytes, ask.limits.pixels / 64)?;
    let canvas = Canvas::of_blocks(size, means.size, edge, ask.limits);
    let mut canvas = canvas.ok().filter(|_| means.original == size)?;
    for row in means.rgb.chunks_exact(means.size.width as usize * 3) {
        canvas.opaque_row(row);
    }
    Some(canvas.finish())
}

/// Returns the EXIF data. Some programs leave the mark of JPEG's segment in, also in other formats.
fn exif(decoder: &mut impl ImageDecoder) -> Option<Vec<u8>> {
    let bytes = decoder.exif_metadata().ok()??;
    let stripped = bytes.strip_prefix(b"Exif\0\0").map(<[u8]>::to_vec);
    Some(stripped.unwrap_or(bytes))
}

/// Adds what the EXIF data tells.
fn camera(exif: &[u8], found: &mut DecodedFile) {
    let mut input = Input::new(Memory(exif), exif.len() as u64);
    if let Some(tables) = tables::read(&mut input, 0) {
        tables.tell(found);
    }
}

fn limits(ask: &Ask<'_>) -> image::Limits {
    let mut limits = image::Limits::default();
    // A decoder needs some memory besides the picture.
    limits.max_alloc = Some(ask.limits.decoded_bytes + ask.limits.decoded_bytes / 4);
    limits
}

/// Returns the size as it is seen.
pub fn seen((width, height): (u32, u32), turn: Orientation) -> (u32, u32) {
    use Orientation::{Rotate90, Rotate90FlipH, Rotate270, Rotate270FlipH};
    match turn {
        Rotate90 | Rotate270 | Rotate90FlipH | Rotate270FlipH => (height, width),
        _ => (width, height),
    }
}

/// Puts a decoded picture onto a canvas, row by row.
fn paint(mut canvas: Canvas, picture: &DynamicImage, gain: f32) -> Picture {
    let light = |value: f32| light(value * gain);
    let width = picture.width() as usize;
    let mut row = vec![0; width * 4];
    macro_rules! rows {
        ($image:expr, $n:literal, $pixel:expr) => {
            for line in $image.as_raw().chunks_exact(width * $n) {
                let pixels = line.as_chunks::<$n>().0.iter().copied().map($pixel);
                for (place, pixel) in row.as_chunks_mut::<4>().0.iter_mut().zip(pixels) {
                    *place = pixel;
                }
                canvas.row(&row);
            }
        };
    }
    match picture {
        DynamicImage::ImageLuma8(p) => rows!(p, 1, |[l]| [l, l, l, 255]),
        DynamicImage::ImageLumaA8(p) => rows!(p, 2, |[l, a]| [l, l, l, a]),
        DynamicImage::ImageRgb8(p) => {
            for line in p.as_raw().chunks_exact(width * 3) {
                canvas.opaque_row(line);
            }
        }
        DynamicImage::ImageRgba8(p) => rows!(p, 4, |pixel| pixel),
        DynamicImage::ImageLuma16(p) => rows!(p, 1, |[l]| grey(narrow(l), 255)),
        DynamicImage::ImageLumaA16(p) => rows!(p, 2, |[l, a]| grey(narrow(l), narrow(a))),
        DynamicImage::ImageRgb16(p) => {
            rows!(p, 3, |[r, g, b]| [narrow(r), narrow(g), narrow(b), 255]);
        }
        DynamicImage::ImageRgba16(p) => rows!(p, 4, |pixel: [u16; 4]| pixel.map(narrow)),
        DynamicImage::ImageRgb32F(p) => {
            rows!(p, 3, |[r, g, b]| [light(r), light(g), light(b), 255]);
        }
        DynamicImage::ImageRgba32F(p) => {
            rows!(p, 4, |[r, g, b, a]| [
                light(r),
                light(g),
                light(b),
                share(a)
            ]);
        }
        // No decoder makes other buffers today.
        other => {
            let p = other.to_rgba8();
            rows!(p, 4, |pixel| pixel);
        }
    }
    canvas.finish()
}

fn grey(l: u8, a: u8) -> [u8; 4] {
    [l, l, l, a]
}

/// Returns 16 bits as 8, rounded.
pub fn narrow(value: u16) -> u8 {
    ((u32::from(value) + 128) / 257) as u8
}

/// Returns linear light as sRGB.
pub fn light(value: f32) -> u8 {
    let curved = match value {
        v if v <= 0.003_130_8 => v * 12.92,
        v => 1.055 * v.powf(1.0 / 2.4) - 0.055,
    };
    share(curved)
}

/// Returns a share from 0 to 1 as 8 bits. What is no number becomes 0.
pub fn share(value: f32) -> u8 {
    (value.clamp(0.0, 1.0) * 255.0 + 0.5) as u8
}

fn failed(e: ImageError) -> Reason {
    match e {
        ImageError::Limits(_) => Reason::new(
            Kind::TooLarge,
            "the picture needs more memory than a preview may use",
        ),
        ImageError::Unsupported(e) => Reason::new(
            Kind::Unknown,
            format!("this variant of the format is not known: {e}"),
        ),
        e => damaged(e),
    }
}

fn name(format: ImageFormat) -> &'static str {
    match format {
        ImageFormat::Jpeg => "JPEG",
        ImageFormat::Png => "PNG",
        ImageFormat::Gif => "GIF",
        ImageFormat::WebP => "WebP",
        ImageFormat::Bmp => "BMP",
        ImageFormat::Tga => "TGA",
        ImageFormat::Ico => "ICO",
        ImageFormat::Pnm => "portable (PNM)",
        ImageFormat::Hdr => "Radiance HDR",
        ImageFormat::Qoi => "QOI",
        _ => "",
    }
}

fn colour(colour: ColorType) -> &'static str {
    match colour {
        ColorType::L8 => "grey, 8 bits",
        ColorType::La8 => "grey with alpha, 8 bits",
        ColorType::Rgb8 => "RGB, 8 bits",
        ColorType::Rgba8 => "RGB with alpha, 8 bits",
        ColorType::L16 => "grey, 16 bits",
        ColorType::La16 => "grey with alpha, 16 bits",
        ColorType::Rgb16 => "RGB, 16 bits",
        ColorType::Rgba16 => "RGB with alpha, 16 bits",
        ColorType::Rgb32F => "RGB, 32-bit floating point",
        ColorType::Rgba32F => "RGB with alpha, 32-bit floating point",
        _ => "",
    }
}
