//! Camera RAW files: the largest JPEG that the camera put into the file. The sensor's data is not developed.
#![expect(clippy::big_endian_bytes, reason = "the format has such numbers")]

use super::{Ask, DecodedFile, damaged, picture, tables};
use crate::input::{Input, Memory};
use crate::preview::{Kind, Reason};
use image::ImageFormat;

/// A JPEG within a file is at most this long.
const MAX_JPEG: u64 = 64 << 20;

/// Reads a RAW file with tables like a TIFF file's.
pub fn read(input: &mut Input<'_>, ask: &Ask<'_>) -> Result<DecodedFile, Reason> {
    let tables = tables::read(input, 0).unwrap_or_default();
    let mut found = embedded(input, tables.pictures.clone(), ask)?;
    tables.tell(&mut found);
    // A JPEG with an orientation of its own has been turned.
    if let (Some(turn), false) = (tables.orientation, found.turned) {
        found.original = found.original.map(|size| picture::seen(size, turn));
        found.picture = found.picture.map(|picture| picture.turned(turn));
    }
    Ok(found)
}

/// Reads a Fujifilm RAF file: a head with the place of the JPEG.
pub fn read_raf(input: &mut Input<'_>, ask: &Ask<'_>) -> Result<DecodedFile, Reason> {
    let head = input.range(84, 8).map_err(damaged)?;
    let number = |at: usize| u64::from(u32::from_be_bytes([0, 1, 2, 3].map(|i| head[at + i])));
    embedded(input, vec![(number(0), number(4))], ask)
}

/// Decodes the largest of the JPEG streams, or the smallest that is large enough for a thumbnail.
fn embedded(
    input: &mut Input<'_>,
    mut parts: Vec<tables::Part>,
    ask: &Ask<'_>,
) -> Result<DecodedFile, Reason> {
    parts.retain(|(_, len)| (100..=MAX_JPEG).contains(len));
    parts.sort_by_key(|(_, len)| std::cmp::Reverse(*len));
    parts.dedup();
    for (at, len) in parts.into_iter().take(8) {
        let Ok(head) = input.range(at, len.min(64 << 10)) else {
            continue;
        };
        if !is_picture(&head) {
            continue;
        }
        let bytes = input.range(at, len).map_err(damaged)?;
        let mut inner = Input::new(Memory(&bytes), len);
        let mut found = picture::read(&mut inner, ImageFormat::Jpeg, ask)?;
        found
            .facts
            .retain(|(name, _)| name != "format" && name != "colour");
        found
            .facts
            .insert(0, ("format".into(), "camera RAW".into()));
        found.fact("shown", "the JPEG that the camera put into the file");
        return Ok(found);
    }
    Err(Reason::new(
        Kind::Absent,
        "the camera put no JPEG into this RAW file, and dmv does not develop RAW data",
    ))
}

/// Returns whether a JPEG stream is a picture for people. The sensor's own data may be a JPEG stream as well: a
/// lossless one, which has another frame mark.
fn is_picture(head: &[u8]) -> bool {
    if !head.starts_with(b"\xff\xd8\xff") {
        return false;
    }
    let mut at = 2;
    while let Some([0xff, mark, high, low]) = head.get(at..at + 4) {
        match mark {
            0xc0..=0xc2 => return head.get(at + 4) == Some(&8),
            0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf | 0xd9 | 0xda => return false,
            _ => at += 2 + (usize::from(*high) << 8 | usize::from(*low)),
        }
    }
    // Its head is longer than what was read; the decoder decides.
    at >= head.len()
}
