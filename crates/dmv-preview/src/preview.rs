//! What goes in and comes out: sources, wishes, previews, and reasons why there is none.

use std::io;
use std::time::Duration;

/// A file whose preview is wanted.
pub struct Source<'a> {
    /// Names the content: files with one id have the same bytes. It is part of the cache's key and nothing else.
    pub id: &'a str,
    /// The file's name. Only its ending is used, for formats that do not begin with a mark of their own.
    pub name: &'a str,
    /// The file's length in bytes.
    pub len: u64,
    /// Reads the file.
    pub bytes: &'a dyn ReadAt,
}

/// Reads any range of a file.
pub trait ReadAt {
    /// Fills `buf` with the bytes from `offset` on. The range lies within the file's length.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;
}

impl ReadAt for [u8] {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(offset).ok().and_then(|at| self.get(at..));
        let part = from.and_then(|bytes| bytes.get(..buf.len()));
        buf.copy_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

impl ReadAt for Vec<u8> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.as_slice().read_at(offset, buf)
    }
}

/// What is wanted of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PreviewKind {
    /// A picture whose longer edge is at most [`PreviewKind::THUMBNAIL`] pixels. Sounds are drawn as waveforms, fonts as a
    /// line of text.
    Thumbnail,
    /// The same with at most [`PreviewKind::LARGE`] pixels.
    Large,
    /// The same of a picture that knows more light than a screen (EXR, Radiance HDR), brighter by `stops`: each doubles
    /// the light. Below 0 it shows what is too bright for [`PreviewKind::Large`].
    Exposed {
        /// From -[`PreviewKind::MAX_STOPS`] to [`PreviewKind::MAX_STOPS`].
        stops: i8,
    },
    /// Bare pixels for comparing: RGBA, 8 bits each, sRGB, not premultiplied, row by row. The picture is made smaller
    /// until its longer edge is at most `max_edge`; it is never made larger.
    Pixels {
        /// The longest edge in pixels. The output limit bounds it as well.
        max_edge: u32,
    },
    /// The lowest and the highest sample of each of `buckets` equal parts of the samples from `from` up to `to`, for
    /// each channel. [`Preview::sound`] says which range it became.
    Waveform {
        /// The first sample, counted per channel.
        from: u64,
        /// The end of the range; [`u64::MAX`] for the end of the sound.
        to: u64,
        /// How many parts, at most [`PreviewKind::MAX_BUCKETS`].
        buckets: u32,
    },
    /// The facts alone. Nothing is decoded that the facts do not need.
    Metadata,
}

impl PreviewKind {
    /// The longer edge of a thumbnail.
    pub const THUMBNAIL: u32 = 256;
    /// The longer edge of a large picture.
    pub const LARGE: u32 = 2048;
    /// The most stops of exposure.
    pub const MAX_STOPS: i8 = 16;
    /// The most parts that a waveform can have.
    pub const MAX_BUCKETS: u32 = 16_384;
}

/// What the bytes of a preview are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A PNG file.
    Png,
    /// A JPEG file.
    Jpeg,
    /// Pixels as [`PreviewKind::Pixels`] has them.
    Rgba,
    /// Peaks: for each channel, for each part, the lowest and the highest sample as 16-bit little-endian numbers.
    Peaks,
    /// No bytes: facts alone.
    Nothing,
}

impl Form {
    /// Returns the media type for a `Content-Type`.
    pub fn mime(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Rgba | Self::Peaks | Self::Nothing => "application/octet-stream",
        }
    }
}

/// A preview.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preview {
    /// What `bytes` are.
    pub form: Form,
    /// The picture, the pixels or the peaks.
    pub bytes: Vec<u8>,
    /// The size of the picture in `bytes`, in pixels; the number of parts and channels of peaks.
    pub width: u32,
    /// See `width`.
    pub height: u32,
    /// The size of the original as it is seen, thus turned as its orientation says. `None` if it has no pixels.
    pub original: Option<(u32, u32)>,
    /// Of a sound, which part of it `bytes` are.
    pub sound: Option<Sound>,
    /// Names and values for people, in the order to show them: format, colour, camera, duration and so on. Names are
    /// in lower case. No value has control characters, but values may hold markup.
    pub facts: Vec<(String, String)>,
}

/// The samples of a sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sound {
    /// Samples per second and channel.
    pub rate: u32,
    /// The number of channels.
    pub channels: u32,
    /// Samples per channel in the whole file, if it says so.
    pub samples: Option<u64>,
    /// The first sample of the peaks.
    pub from: u64,
    /// The end of the peaks' samples.
    pub to: u64,
}

/// Why there is no preview, in words for people: "the file has 90000 x 90000 pixels; previews are made up to 128
/// million".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// What a caller can do about it.
    pub kind: Kind,
    /// A clause that begins with a lower-case letter and has no full stop.
    pub words: String,
}

/// Kinds of reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No preview exists for this format. A browser may know it: SVG and AVIF pictures, videos.
    Unknown,
    /// The format is known, but this file lacks what a preview is made of.
    Absent,
    /// The file is damaged.
    Damaged,
    /// Decoding the file crashed. That is a defect of the decoder, and says nothing about the file.
    Crash,
    /// The file needs more memory, pixels or bytes than a preview may.
    TooLarge,
    /// Decoding takes longer than a preview may.
    TooSlow,
    /// The content could not be read. Trying again may help.
    Unreadable,
    /// The process for decoding could not be started. Trying again may help.
    NoWorker,
}

impl Reason {
    /// Makes a reason.
    pub fn new(kind: Kind, words: impl Into<String>) -> Self {
        let words = words.into();
        Self { kind, words }
    }

    /// Returns whether the content itself is the cause, so that another try ends the same.
    pub fn is_lasting(&self) -> bool {
        match self.kind {
            Kind::Unknown | Kind::Absent | Kind::Damaged | Kind::Crash | Kind::TooLarge => true,
            // A busy machine can be the cause.
            Kind::TooSlow | Kind::Unreadable | Kind::NoWorker => false,
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.words)
    }
}

impl std::error::Error for Reason {}

/// What the process that decodes one file may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many processes run at a time.
    pub workers: usize,
    /// Bytes of address space of one process.
    pub memory: u64,
    /// Seconds of processor time.
    pub cpu_seconds: u64,
    /// Time from start to result.
    pub wall: Duration,
    /// Pixels of the original.
    pub pixels: u64,
    /// Bytes of the decoded original, checked before they are allocated.
    pub decoded_bytes: u64,
    /// Bytes that a process may read of the file.
    pub read_bytes: u64,
    /// Bytes of a preview.
    pub output_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // One for each core, as far as the memory of all together stays bearable.
            workers: std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 4)),
            memory: 768 << 20,
            cpu_seconds: 10,
            wall: Duration::from_secs(20),
            pixels: 128_000_000,
            decoded_bytes: 448 << 20,
            read_bytes: 2 << 30,
            output_bytes: 64 << 20,
        }
    }
}
