//! From bytes to previews: which format a file has, and one module for each kind of format. Everything here runs in
//! the process without rights, and nothing here believes the file: sizes are compared with the limits before they are
//! allocated.

mod blend;
mod dds;
mod eighth;
mod font;
mod openexr;
mod picture;
mod psd;
mod raw;
mod sound;
mod tables;
mod tiff;
mod zip;

use crate::input::Input;
use crate::paint::{Canvas, Picture, Size};
use crate::preview::{Form, Kind, Limits, Preview, PreviewKind, Reason, Sound};
use crate::wire::Job;
use image::ImageFormat;
use std::fmt::Display;

/// What is asked of the module of a format.
pub struct Ask<'a> {
    /// The longer edge of the picture; `None` if facts are enough.
    edge: Option<u32>,
    /// Whether a picture may be a little less sharp than its pixels allow.
    is_thumbnail: bool,
    /// By how much light is multiplied.
    gain: f32,
    limits: &'a Limits,
}

impl Ask<'_> {
    /// Returns a canvas for a picture of this size, or nothing if facts are enough.
    fn canvas(&self, size: Size) -> Result<Option<Canvas>, Reason> {
        let canvas = self.edge.map(|edge| Canvas::new(size, edge, self.limits));
        canvas.transpose()
    }

    /// Refuses a buffer that is larger than a decoded file may be.
    fn check_bytes(&self, bytes: u64) -> Result<(), Reason> {
        if bytes > self.limits.decoded_bytes {
            let words = format!(
                "the picture needs {} MiB when it is decoded; previews are made up to {}",
                bytes >> 20,
                self.limits.decoded_bytes >> 20
            );
            Err(Reason::new(Kind::TooLarge, words))
        } else {
            Ok(())
        }
    }
}

/// What the module of a format found.
#[derive(Default)]
pub struct DecodedFile {
    /// The size of the original as it is seen.
    original: Option<(u32, u32)>,
    picture: Option<Picture>,
    /// Whether the picture had an orientation, and was turned as it says.
    turned: bool,
    sound: Option<Sound>,
    /// The number of parts, the number of channels, and the peaks.
    peaks: Option<(u32, u32, Vec<u8>)>,
    facts: Vec<(String, String)>,
}

impl DecodedFile {
    fn fact(&mut self, name: &str, value: impl Display) {
        let value = value.to_string();
        if !value.trim().is_empty() {
            self.facts.push((name.to_owned(), value));
        }
    }
}

/// What a file is, from its first bytes and, where these say nothing, from its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Picture(ImageFormat),
    /// TIFF and BigTIFF.
    Tiff,
    Dds,
    Exr,
    Psd,
    /// Camera RAW with tables like TIFF.
    Raw,
    /// Camera RAW of Fujifilm.
    Raf,
    Zip,
    Blend,
    Sound,
    Font,
    /// Known, but no preview is made; a browser may show it.
    Other(&'static str),
    /// Known, but nothing here decodes it, for this reason.
    Closed(&'static str),
    Unknown,
}

/// Makes the preview that a job wants.
pub fn make(input: &mut Input<'_>, job: &Job) -> Result<Preview, Reason> {
    let head = input.start(512).map_err(damaged)?;
    if head.is_empty() {
        return Err(Reason::new(Kind::Absent, "the file is empty"));
    }
    let edge = match job.wanted {
        PreviewKind::Thumbnail => Some(PreviewKind::THUMBNAIL),
        PreviewKind::Large | PreviewKind::Exposed { .. } => Some(PreviewKind::LARGE),
        PreviewKind::Pixels { max_edge } => Some(max_edge),
        PreviewKind::Waveform { .. } | PreviewKind::Metadata => None,
    };
    let limits = &job.limits;
    let gain = match job.wanted {
        PreviewKind::Exposed { stops } => 2f32.powi(i32::from(stops)),
        _ => 1.0,
    };
    let ask = Ask {
        edge,
        is_thumbnail: job.wanted == PreviewKind::Thumbnail,
        gain,
        limits,
    };
    let format = format_of(&head, &job.ending);
    let has_light = matches!(format, Format::Exr | Format::Picture(ImageFormat::Hdr));
    if matches!(job.wanted, PreviewKind::Exposed { .. }) && !has_light {
        let words = "the file knows no more light than a screen shows";
        return Err(Reason::new(Kind::Absent, words));
    }
    let found = match format {
        Format::Picture(format) => picture::read(input, format, &ask)?,
        Format::Tiff => tiff::read(input, &ask)?,
        Format::Dds => dds::read(input, &ask)?,
        Format::Exr => openexr::read(input, &ask)?,
        Format::Psd => psd::read(input, &ask)?,
        Format::Raw => raw::read(input, &ask)?,
        Format::Raf => raw::read_raf(input, &ask)?,
        Format::Zip => zip::read(input, &job.ending, &ask)?,
        Format::Blend => blend::read(input, &ask)?,
        Format::Sound => sound::read(input, &job.ending, job.wanted, &ask)?,
        Format::Font => font::read(input, &ask)?,
        Format::Other(what) => {
            let words = format!("{what} are shown by the browser, not as a preview");
            return Err(Reason::new(Kind::Unknown, words));
        }
        Format::Closed(why) => return Err(Reason::new(Kind::Unknown, why)),
        Format::Unknown => {
            if MARKED.contains(&job.ending.as_str()) {
                return Err(damaged(format!(
                    "it does not begin as .{} files do",
                    job.ending
                )));
            }
            let words = match job.ending.as_str() {
                "" => "previews are not made for this kind of file".to_owned(),
                ending => format!("previews are not made for this kind of file (.{ending})"),
            };
            return Err(Reason::new(Kind::Unknown, words));
        }
    };
    if matches!(job.wanted, PreviewKind::Waveform { .. }) && found.peaks.is_none() {
        return Err(Reason::new(Kind::Absent, "the file has no sound"));
    }
    finish(found, job.wanted)
}

/// Encodes what was found.
fn finish(found: DecodedFile, wanted: PreviewKind) -> Result<Preview, Reason> {
    let mut preview = match found.picture {
        Some(picture) => picture.encode(wanted)?,
        None => Preview {
            form: Form::Nothing,
            bytes: Vec::new(),
            width: 0,
            height: 0,
            original: None,
            sound: None,
            facts: Vec::new(),
        },
    };
    if let Some((buckets, channels, bytes)) = found.peaks {
        preview.form = Form::Peaks;
        (preview.width, preview.height, preview.bytes) = (buckets, channels, bytes);
    }
    preview.sound = found.sound;
    preview.original = found.original;
    preview.facts = found.facts;
    Ok(preview)
}

/// Endings of RAW files that begin like TIFF files.
const RAW: [&str; 19] = [
    "3fr", "arw", "cr2", "dcr", "dng", "erf", "fff", "iiq", "k25", "kdc", "mef", "mos", "nef",
    "nrw", "pef", "raw", "sr2", "srf", "srw",
];

/// Endings of files that always begin with a mark.
const MARKED: [&str; 21] = [
    "aif", "aiff", "blend", "bmp", "dds", "exr", "flac", "gif", "ico", "jpeg", "jpg", "kra", "ora",
    "png", "psb", "psd", "qoi", "tif", "tiff", "wav", "webp",
];

fn format_of(head: &[u8], ending: &str) -> Format {
    let at = |offset: usize, mark: &[u8]| head.get(offset..).is_some_and(|h| h.starts_with(mark));
    let tiff = tiff::is_tiff(head);
    // Panasonic and Olympus have marks of their own.
    let other_raw = [&b"IIU\0"[..], b"IIRO", b"IIRS", b"MMOR"];
    let is_raw = tiff && RAW.contains(&ending) || other_raw.iter().any(|mark| at(0, mark));
    match () {
        () if at(0, b"\xff\xd8\xff") => Format::Picture(ImageFormat::Jpeg),
        () if at(0, b"\x89PNG\r\n\x1a\n") => Format::Picture(ImageFormat::Png),
        () if at(0, b"GIF87a") || at(0, b"GIF89a") => Format::Picture(ImageFormat::Gif),
        () if at(0, b"RIFF") && at(8, b"WEBP") => Format::Picture(ImageFormat::WebP),
        () if at(0, b"BM") && ending != "tga" => Format::Picture(ImageFormat::Bmp),
        () if is_raw => Format::Raw,
        () if at(0, b"FUJIFILMCCD-RAW") => Format::Raf,
        () if tiff => Format::Tiff,
        () if at(0, b"DDS |\0\0\0") => Format::Dds,
        () if at(0, b"\0\0\x01\0") && ending != "tga" => Format::Picture(ImageFormat::Ico),
        () if is_portable(head) => Format::Picture(ImageFormat::Pnm),
        () if at(0, b"#?RADIANCE") || at(0, b"#?RGBE") => Format::Picture(ImageFormat::Hdr),
        () if at(0, b"qoif") => Format::Picture(ImageFormat::Qoi),
        () if at(0, b"\x76\x2f\x31\x01") => Format::Exr,
        () if at(0, b"8BPS") => Format::Psd,
        () if at(0, b"PK\x03\x04") => Format::Zip,
        () if at(0, b"BLENDER") => Format::Blend,
        () if ending.starts_with("blend") && blend::is_packed(head) => Format::Blend,
        () if is_sound(head, ending) => Format::Sound,
        () if FONT.iter().any(|mark| at(0, mark)) => Format::Font,
        () if at(0, b"wOFF") || at(0, b"wOF2") => Format::Other("web fonts"),
        () if at(4, b"ftypcrx ") => {
            Format::Closed("no maintained library in Rust reads CR3, the RAW format of Canon")
        }
        () if has_brand(head, &[b"avif", b"avis"]) => Format::Other("AVIF pictures"),
        () if has_brand(head, &[b"heic", b"heix", b"hevc", b"hevx"]) => Format::Closed(
            "HEIC pictures are compressed with HEVC, and dmv has no decoder for it; some browsers show them",
        ),
        () if at(0, b"\xff\x0a") || at(4, b"JXL \r\n\x87\n") => {
            Format::Closed("dmv has no decoder for JPEG XL")
        }
        () if is_film(head) => Format::Other("videos"),
        () if is_svg(head) => Format::Other("SVG drawings"),
        () if ending == "tga" => Format::Picture(ImageFormat::Tga),
        () => Format::Unknown,
    }
}

/// Returns whether a file of boxes says at its beginning that it follows one of these rules.
#[expect(clippy::big_endian_bytes, reason = "the format has such numbers")]
fn has_brand(head: &[u8], wanted: &[&[u8; 4]]) -> bool {
    let Some(([a, b, c, d], b"ftyp")) = head.first_chunk().zip(head.get(4..8)) else {
        return false;
    };
    let len = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
    let brands = head.get(8..len.min(head.len())).unwrap_or_default();
    let mut brands = brands.as_chunks::<4>().0.iter();
    brands.any(|brand| wanted.contains(&brand))
}

/// Returns whether a file begins as a film. QuickTime files of before 2001 begin with any of their boxes.
fn is_film(head: &[u8]) -> bool {
    let boxes = [
        &b"ftyp"[..],
        b"moov",
        b"mdat",
        b"wide",
        b"pnot",
        b"skip",
        b"free",
    ];
    // The first four bytes are the length of the box. In a text they would be letters.
    let is_box = head.first().is_some_and(|byte| *byte < b' ');
    let first = head.get(4..8).unwrap_or_default();
    head.starts_with(b"\x1aE\xdf\xa3") || is_box && boxes.contains(&first)
}

/// Returns whether a file begins as one of the portable formats: PBM, PGM, PPM and PAM.
fn is_portable(head: &[u8]) -> bool {
    matches!(head, [b'P', b'1'..=b'7', mark, ..] if mark.is_ascii_whitespace() || *mark == b'#')
}

/// How fonts begin.
const FONT: [&[u8]; 4] = [b"\0\x01\0\0", b"true", b"OTTO", b"ttcf"];

fn is_sound(head: &[u8], ending: &str) -> bool {
    let at = |offset: usize, mark: &[u8]| head.get(offset..).is_some_and(|h| h.starts_with(mark));
    let wave = (at(0, b"RIFF") || at(0, b"RF64")) && at(8, b"WAVE");
    let aiff = at(0, b"FORM") && (at(8, b"AIFF") || at(8, b"AIFC"));
    let apple = at(4, b"ftypM4A") || at(4, b"ftypM4B") || at(4, b"ftyp") && ending == "m4a";
    // MP3 and bare AAC begin with a frame, so that only the name makes them sure.
    let frame = at(0, b"\xff") && head.get(1).is_some_and(|byte| byte & 0xe0 == 0xe0);
    let named = matches!(ending, "mp3" | "aac" | "mpga") && frame;
    wave || aiff || apple || named || at(0, b"fLaC") || at(0, b"OggS") || at(0, b"ID3")
}

fn is_svg(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    text.starts_with("<svg")
        || (text.starts_with("<?xml") || text.starts_with("<!")) && text.contains("<svg")
}

/// Says that a decoder refused the file.
fn damaged(why: impl Display) -> Reason {
    let why = why.to_string();
    let why = why.trim_end_matches('.');
    Reason::new(Kind::Damaged, format!("the file is damaged: {why}"))
}
