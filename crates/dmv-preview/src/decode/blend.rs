//! Blender files: the picture that Blender puts at the beginning, into the block `TEST`. The file may be compressed as
//! a whole.
#![expect(clippy::big_endian_bytes, reason = "the format has such numbers")]

use super::{Ask, DecodedFile, damaged};
use crate::input::Input;
use crate::preview::{Kind, Reason};
use std::io::{Read, Seek, SeekFrom};

/// The picture stands among the first blocks.
const MAX_BLOCKS: usize = 16;
/// So much of the file is looked at.
const MAX_START: u64 = 2 << 20;
/// The largest picture that Blender writes has 256 pixels each way.
const MAX_EDGE: u32 = 512;
/// The most memory that a compressed file may ask for, as a power of two.
const MAX_WINDOW: u32 = 27;

/// How the numbers of a file are written.
struct Numbers {
    little: bool,
    /// Bytes of an address.
    wide: bool,
    /// Blender 5 has blocks with longer heads.
    long: bool,
}

/// Returns whether a file that begins like this is a Blender file, if its name says so.
pub fn is_packed(head: &[u8]) -> bool {
    head.starts_with(b"\x1f\x8b") || head.starts_with(b"\x28\xb5\x2f\xfd")
}

/// Reads the picture.
pub fn read(input: &mut Input<'_>, ask: &Ask<'_>) -> Result<DecodedFile, Reason> {
    let start = start(input)?;
    let (numbers, blocks) =
        head(&start).ok_or_else(|| damaged("it does not begin like a Blender file"))?;
    let mut found = DecodedFile::default();
    found.fact("format", "Blender file");
    found.fact("version", version(&start).unwrap_or_default());
    let Some((width, height, pixels)) = thumbnail(blocks, &numbers) else {
        return match ask.edge {
            None => Ok(found),
            Some(_) => Err(Reason::new(
                Kind::Absent,
                "this Blender file was saved without a picture of itself (preferences, Save & Load, \
                 File Preview Type)",
            )),
        };
    };
    if let Some(mut canvas) = ask.canvas((width, height).into())? {
        // The lowest row comes first.
        pixels
            .chunks_exact(width as usize * 4)
            .rev()
            .for_each(|row| canvas.row(row));
        found.picture = Some(canvas.finish());
        found.fact(
            "shown",
            format!("the picture in the file, {width} x {height} pixels"),
        );
    }
    Ok(found)
}

/// Returns the first bytes of the file, decompressed.
fn start(input: &mut Input<'_>) -> Result<Vec<u8>, Reason> {
    let head = input.start(4).map_err(damaged)?;
    input.seek(SeekFrom::Start(0)).map_err(damaged)?;
    let mut out = Vec::new();
    let read = if head.starts_with(b"\x1f\x8b") {
        flate2::bufread::GzDecoder::new(input)
            .take(MAX_START)
            .read_to_end(&mut out)
    } else if is_packed(&head) {
        let mut decoder = zstd::stream::read::Decoder::with_buffer(input).map_err(damaged)?;
        decoder.window_log_max(MAX_WINDOW).map_err(damaged)?;
        decoder.take(MAX_START).read_to_end(&mut out)
    } else {
        input.take(MAX_START).read_to_end(&mut out)
    };
    match (read, out.is_empty()) {
        // The picture may lie before the damage.
        (Err(e), true) => Err(damaged(e)),
        _ => Ok(out),
    }
}

/// Returns how numbers are written, and what follows the file's head.
fn head(start: &[u8]) -> Option<(Numbers, &[u8])> {
    let rest = start.strip_prefix(b"BLENDER")?;
    if rest.first()?.is_ascii_digit() {
        // The length of the head, then the format's version: "17-01v0500".
        let numbers = Numbers {
            little: true,
            wide: true,
            long: true,
        };
        return Some((numbers, start.get(17..)?));
    }
    let numbers = Numbers {
        wide: *rest.first()? == b'-',
        little: *rest.get(1)? == b'v',
        long: false,
    };
    Some((numbers, start.get(12..)?))
}

fn version(start: &[u8]) -> Option<String> {
    let digits = if start.get(7)?.is_ascii_digit() {
        start.get(13..17)?
    } else {
        start.get(9..12)?
    };
    let number: u32 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(format!("{}.{}", number / 100, number % 100))
}

impl Numbers {
    fn u32(&self, bytes: &[u8], at: usize) -> Option<u32> {
        let bytes = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(if self.little {
            u32::from_le_bytes(bytes)
        } else {
            u32::from_be_bytes(bytes)
        })
    }

    /// Returns the length of a block's head, and the length of what follows it.
    fn block(&self, head: &[u8]) -> Option<(usize, u32)> {
        match (self.long, self.wide) {
            (true, _) => Some((32, self.u32(head, 16)?)),
            (false, true) => Some((24, self.u32(head, 4)?)),
            (false, false) => Some((20, self.u32(head, 4)?)),
        }
    }
}

/// Returns the picture's size and its pixels.
fn thumbnail<'a>(mut blocks: &'a [u8], numbers: &Numbers) -> Option<(u32, u32, &'a [u8])> {
    for _ in 0..MAX_BLOCKS {
        let (head, len) = numbers.block(blocks)?;
        let data = blocks.get(head..)?;
        if blocks.starts_with(b"TEST") {
            let (width, height) = (numbers.u32(data, 0)?, numbers.u32(data, 4)?);
            let fits = (1..=MAX_EDGE).contains(&width) && (1..=MAX_EDGE).contains(&height);
            let len = fits.then(|| width as usize * height as usize * 4)?;
            return Some((width, height, data.get(8..8 + len)?));
        }
        blocks = data.get(len as usize..)?;
    }
    None
}
