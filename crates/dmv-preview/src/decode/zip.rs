//! Documents that are zip archives with a picture of themselves: Krita, OpenRaster, Procreate, FreeCAD and others.
//! One entry is read; nothing else of the archive is decompressed.

use super::{Ask, DecodedFile, damaged, picture};
use crate::input::{Input, Memory};
use crate::preview::{Kind, Reason};
use flate2::read::DeflateDecoder;
use image::ImageFormat;
use std::io::Read;

/// The whole picture of a document, as entries that programs write.
const WHOLE: [&str; 2] = ["mergedimage.png", "preview.png"];
/// Small pictures.
const SMALL: [&str; 9] = [
    "preview.png",
    "Thumbnails/thumbnail.png",
    "QuickLook/Thumbnail.png",
    "thumbnails/Thumbnail.png",
    "previews/preview.png",
    "Metadata/thumbnail.png",
    "docProps/thumbnail.jpeg",
    "QuickLook/Thumbnail.jpg",
    "preview.jpg",
];

/// The list of an archive's entries is at most this long, and a picture in it.
const MAX_LIST: u64 = 8 << 20;
const MAX_PICTURE: u64 = 256 << 20;

/// Where an entry lies.
struct Entry {
    at: u64,
    stored: u64,
    len: u64,
    deflated: bool,
}

/// Reads the picture of a document.
pub fn read(input: &mut Input<'_>, ending: &str, ask: &Ask<'_>) -> Result<DecodedFile, Reason> {
    let list =
        list(input).ok_or_else(|| damaged("the list of the archive's entries is missing"))?;
    let is_small = ask.edge.is_none_or(|edge| edge <= 256);
    let names = if is_small && ending != "kra" && ending != "ora" {
        SMALL.iter().chain(&WHOLE)
    } else {
        WHOLE.iter().chain(&SMALL)
    };
    for name in names {
        let Some(entry) = find(&list, name) else {
            continue;
        };
        let bytes = content(input, &entry)?;
        let format = if name.ends_with(".png") {
            ImageFormat::Png
        } else {
            ImageFormat::Jpeg
        };
        let mut inner = Input::new(Memory(&bytes), bytes.len() as u64);
        let mut found = picture::read(&mut inner, format, ask)?;
        found.facts.retain(|(name, _)| name == "colour");
        found
            .facts
            .insert(0, ("format".into(), program(ending).into()));
        found.fact("shown", format!("the picture in the file ({name})"));
        return Ok(found);
    }
    Err(Reason::new(
        Kind::Absent,
        "the file is an archive without a picture of itself",
    ))
}

fn program(ending: &str) -> &'static str {
    match ending {
        "kra" | "krz" => "Krita document",
        "ora" => "OpenRaster document",
        "procreate" => "Procreate document",
        "fcstd" => "FreeCAD document",
        "sketch" => "Sketch document",
        "3mf" => "3MF model",
        _ => "document in a zip archive",
    }
}

/// Returns the archive's list of entries.
fn list(input: &mut Input<'_>) -> Option<Vec<u8>> {
    // The end has a comment of at most 64 KiB.
    let len = input.len().min(22 + 65_535);
    let start = input.len() - len;
    let end = input.range(start, len).ok()?;
    let at = (0..=end.len().checked_sub(22)?)
        .rev()
        .find(|at| end[*at..].starts_with(b"PK\x05\x06"))?;
    let end = &end[at..];
    let (len, offset) = (u64::from(u32_at(end, 12)?), u64::from(u32_at(end, 16)?));
    (len <= MAX_LIST).then(|| input.range(offset, len).ok())?
}

fn find(list: &[u8], name: &str) -> Option<Entry> {
    let mut rest = list;
    while rest.starts_with(b"PK\x01\x02") {
        let lens = [28, 30, 32].map(|at| u16_at(rest, at).map(usize::from));
        let [Some(name_len), Some(extra), Some(comment)] = lens else {
            return None;
        };
        if rest.get(46..46 + name_len) == Some(name.as_bytes()) {
            let method = u16_at(rest, 10)?;
            let is_secret = u16_at(rest, 8)? & 1 == 1;
            return (!is_secret && (method == 0 || method == 8)).then_some(Entry {
                at: u64::from(u32_at(rest, 42)?),
                stored: u64::from(u32_at(rest, 20)?),
                len: u64::from(u32_at(rest, 24)?),
                deflated: method == 8,
            });
        }
        rest = rest.get(46 + name_len + extra + comment..)?;
    }
    None
}

/// Returns the content of an entry. Its length is what the list says, so that a bomb ends there.
fn content(input: &mut Input<'_>, entry: &Entry) -> Result<Vec<u8>, Reason> {
    if entry.len > MAX_PICTURE || entry.stored > MAX_PICTURE {
        return Err(Reason::new(
            Kind::TooLarge,
            format!("the picture in the archive has {} MiB", entry.len >> 20),
        ));
    }
    let head = input.range(entry.at, 30).map_err(damaged)?;
    if !head.starts_with(b"PK\x03\x04") {
        return Err(damaged(
            "an entry of the archive is not where its list says",
        ));
    }
    let skip = [26, 28].map(|at| u64::from(u16_at(&head, at).unwrap_or(0)));
    let at = entry.at + 30 + skip[0] + skip[1];
    let stored = input.range(at, entry.stored).map_err(damaged)?;
    if !entry.deflated {
        return Ok(stored);
    }
    let mut out = Vec::new();
    let mut inflater = DeflateDecoder::new(stored.as_slice()).take(entry.len);
    inflater.read_to_end(&mut out).map_err(damaged)?;
    Ok(out)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    Some(u16::from_le_bytes([bytes[0], bytes[1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_le_bytes(bytes))
}
