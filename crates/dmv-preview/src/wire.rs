//! What goes over the pipe between [`crate::Maker`] and the process that decodes, and what lies in the cache: frames,
//! jobs and results as bytes. Numbers are little-endian.
//!
//! The reader believes nothing: each length is compared with its limit before anything is allocated, and a result
//! whose bytes are not what its form says is refused.

use crate::preview::{Form, Kind, Limits, Preview, PreviewKind, Reason, Sound};
use std::io::{self, Read, Write};
use std::time::Duration;

/// A frame's kind: the parent says what to do.
pub const JOB: u8 = 1;
/// The parent sends the bytes that were asked for.
pub const BYTES: u8 = 2;
/// The process asks for bytes: offset and length.
pub const READ: u8 = 3;
/// The process is done: a result.
pub const DONE: u8 = 4;

/// The most bytes that the process may ask for at once.
pub const MAX_READ: u32 = 1 << 20;
/// The longest job.
pub const MAX_JOB: u32 = 4096;
/// What a result may have besides its preview's bytes.
pub const MAX_EXTRA: u64 = 256 << 10;
const MAX_FACTS: usize = 64;
const MAX_WORDS: usize = 600;

/// Writes a frame and flushes.
pub fn send(to: &mut impl Write, kind: u8, payload: &[u8]) -> io::Result<()> {
    let len = u32::try_from(payload.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut head = [kind, 0, 0, 0, 0];
    head[1..].copy_from_slice(&len.to_le_bytes());
    to.write_all(&head)?;
    to.write_all(payload)?;
    to.flush()
}

/// Reads a frame's head: its kind and length. `None` at a clean end.
pub fn head(from: &mut impl Read) -> io::Result<Option<(u8, u32)>> {
    let mut head = [0; 5];
    let mut got = 0;
    while got < head.len() {
        match from.read(&mut head[got..]) {
            Ok(0) if got == 0 => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => got += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    let [kind, a, b, c, d] = head;
    Ok(Some((kind, u32::from_le_bytes([a, b, c, d]))))
}

/// Reads `len` bytes. Memory grows with what arrives, not with what was promised.
pub fn payload(from: &mut impl Read, len: u32) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    from.take(u64::from(len)).read_to_end(&mut out)?;
    if out.len() as u64 == u64::from(len) {
        Ok(out)
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

/// What the process shall do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The name's ending in lower case.
    pub ending: String,
    /// The file's length.
    pub len: u64,
    /// What is wanted.
    pub wanted: PreviewKind,
    /// The limits.
    pub limits: Limits,
}

impl Job {
    /// Returns the bytes of a [`JOB`] frame.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Out::default();
        out.text(&self.ending);
        out.u64(self.len);
        let (tag, a, b, c) = match self.wanted {
            PreviewKind::Thumbnail => (0, 0, 0, 0),
            PreviewKind::Large => (1, 0, 0, 0),
            PreviewKind::Pixels { max_edge } => (2, 0, 0, max_edge),
            PreviewKind::Waveform { from, to, buckets } => (3, from, to, buckets),
            PreviewKind::Metadata => (4, 0, 0, 0),
            PreviewKind::Exposed { stops } => (5, 0, 0, u32::from(stops.cast_unsigned())),
        };
        out.0.push(tag);
        out.u64(a);
        out.u64(b);
        out.u32(c);
        let limits = &self.limits;
        let wall = u64::try_from(limits.wall.as_millis()).unwrap_or(u64::MAX);
        for number in [limits.memory, limits.cpu_seconds, wall, limits.pixels] {
            out.u64(number);
        }
        for number in [limits.decoded_bytes, limits.read_bytes, limits.output_bytes] {
            out.u64(number);
        }
        out.0
    }

    /// Reads the bytes of a [`JOB`] frame.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = In(bytes);
        let ending = from.text()?;
        let len = from.u64()?;
        let (tag, a, b, c) = (from.u8()?, from.u64()?, from.u64()?, from.u32()?);
        let wanted = match tag {
            0 => PreviewKind::Thumbnail,
            1 => PreviewKind::Large,
            2 => PreviewKind::Pixels { max_edge: c },
            3 => PreviewKind::Waveform {
                from: a,
                to: b,
                buckets: c,
            },
            4 => PreviewKind::Metadata,
            5 => PreviewKind::Exposed {
                stops: u8::try_from(c).ok()?.cast_signed(),
            },
            _ => return None,
        };
        let limits = Limits {
            workers: 1,
            memory: from.u64()?,
            cpu_seconds: from.u64()?,
            wall: Duration::from_millis(from.u64()?),
            pixels: from.u64()?,
            decoded_bytes: from.u64()?,
            read_bytes: from.u64()?,
            output_bytes: from.u64()?,
        };
        from.0.is_empty().then_some(Self {
            ending,
            len,
            wanted,
            limits,
        })
    }
}

/// Returns a result as bytes.
pub fn encode_result(result: &Result<Preview, Reason>) -> Vec<u8> {
    let mut out = Out::default();
    match result {
        Ok(preview) => {
            out.0.push(0);
            out.0.push(form_number(preview.form));
            out.u32(preview.width);
            out.u32(preview.height);
            let (width, height) = preview.original.unwrap_or_default();
            out.u32(width);
            out.u32(height);
            out.sound(preview.sound.as_ref());
            out.u32(preview.facts.len().min(MAX_FACTS) as u32);
            for (name, value) in preview.facts.iter().take(MAX_FACTS) {
                out.text(name);
                out.text(value);
            }
            out.0.extend_from_slice(&preview.bytes);
        }
        Err(reason) => {
            out.0.push(1);
            out.0.push(kind_number(reason.kind));
            out.text(&reason.words);
        }
    }
    out.0
}

/// Reads a result. `None` if the bytes are none, or if they cannot be one.
pub fn decode_result(bytes: &[u8]) -> Option<Result<Preview, Reason>> {
    let mut from = In(bytes);
    if from.u8()? == 1 {
        let kind = kind_of(from.u8()?)?;
        let words = from.text()?;
        return Some(Err(Reason { kind, words }));
    }
    let form = form_of(from.u8()?)?;
    let (width, height) = (from.u32()?, from.u32()?);
    let original = (from.u32()?, from.u32()?);
    let sound = from.sound()?;
    let count = from.u32()? as usize;
    if count > MAX_FACTS {
        return None;
    }
    let mut facts = Vec::new();
    for _ in 0..count {
        facts.push((from.text()?, from.text()?));
    }
    let preview = Preview {
        form,
        bytes: from.0.to_vec(),
        width,
        height,
        original: (original != (0, 0)).then_some(original),
        sound,
        facts,
    };
    is_what_it_says(&preview).then_some(Ok(preview))
}

/// Returns whether the bytes are of the form.
fn is_what_it_says(preview: &Preview) -> bool {
    let numbers = u64::from(preview.width) * u64::from(preview.height);
    let len = preview.bytes.len() as u64;
    match preview.form {
        Form::Png => preview.bytes.starts_with(b"\x89PNG\r\n\x1a\n"),
        Form::Jpeg => preview.bytes.starts_with(b"\xff\xd8\xff"),
        Form::Rgba | Form::Peaks => numbers.checked_mul(4) == Some(len),
        Form::Nothing => len == 0,
    }
}

const FORMS: [Form; 5] = [
    Form::Png,
    Form::Jpeg,
    Form::Rgba,
    Form::Peaks,
    Form::Nothing,
];
const KINDS: [Kind; 8] = [
    Kind::Unknown,
    Kind::Absent,
    Kind::Damaged,
    Kind::TooLarge,
    Kind::TooSlow,
    Kind::Unreadable,
    Kind::NoWorker,
    Kind::Crash,
];

fn form_number(form: Form) -> u8 {
    FORMS.iter().position(|f| *f == form).unwrap_or_default() as u8
}

fn form_of(number: u8) -> Option<Form> {
    FORMS.get(usize::from(number)).copied()
}

fn kind_number(kind: Kind) -> u8 {
    KINDS.iter().position(|k| *k == kind).unwrap_or_default() as u8
}

fn kind_of(number: u8) -> Option<Kind> {
    KINDS.get(usize::from(number)).copied()
}

/// Returns a text without control characters and with a bounded length. Characters that turn the direction of writing
/// are dropped as well: they would make a text lie.
pub fn tame(text: &str) -> String {
    let turns = |c: char| matches!(c, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let calm = text.chars().filter(|c| !c.is_control() && !turns(*c));
    let mut out = String::new();
    for c in calm {
        if out.len() + c.len_utf8() > MAX_WORDS {
            break;
        }
        out.push(c);
    }
    out.trim().to_owned()
}

#[derive(Default)]
struct Out(Vec<u8>);

impl Out {
    fn u32(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn u64(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        let text = tame(text);
        self.u32(text.len() as u32);
        self.0.extend_from_slice(text.as_bytes());
    }

    fn sound(&mut self, sound: Option<&Sound>) {
        let Some(sound) = sound else {
            return self.0.push(0);
        };
        self.0.push(1);
        self.u32(sound.rate);
        self.u32(sound.channels);
        // No sound has so many samples.
        self.u64(sound.samples.unwrap_or(u64::MAX));
        self.u64(sound.from);
        self.u64(sound.to);
    }
}

struct In<'a>(&'a [u8]);

impl<'a> In<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn u32(&mut self) -> Option<u32> {
        let bytes = self.take(4)?.try_into().ok()?;
        Some(u32::from_le_bytes(bytes))
    }

    fn u64(&mut self) -> Option<u64> {
        let bytes = self.take(8)?.try_into().ok()?;
        Some(u64::from_le_bytes(bytes))
    }

    fn text(&mut self) -> Option<String> {
        let len = self.u32()? as usize;
        if len > MAX_WORDS {
            return None;
        }
        let text = std::str::from_utf8(self.take(len)?).ok()?;
        Some(tame(text))
    }

    fn sound(&mut self) -> Option<Option<Sound>> {
        match self.u8()? {
            0 => Some(None),
            1 => Some(Some(Sound {
                rate: self.u32()?,
                channels: self.u32()?,
                samples: Some(self.u64()?).filter(|n| *n != u64::MAX),
                from: self.u64()?,
                to: self.u64()?,
            })),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preview(form: Form, bytes: &[u8]) -> Preview {
        Preview {
            form,
            bytes: bytes.to_vec(),
            width: 1,
            height: 1,
            original: Some((40, 30)),
            sound: Some(Sound {
                rate: 48_000,
                channels: 2,
                samples: None,
                from: 1,
                to: 7,
            }),
            facts: vec![("format".into(), "a".into())],
        }
    }

    #[test]
    fn jobs_and_results_come_back_as_they_were() {
        for wanted in [
            PreviewKind::Thumbnail,
            PreviewKind::Large,
            PreviewKind::Pixels { max_edge: 7 },
            PreviewKind::Waveform {
                from: 1,
                to: u64::MAX,
                buckets: 9,
            },
            PreviewKind::Exposed { stops: -5 },
            PreviewKind::Metadata,
        ] {
            let job = Job {
                ending: "tga".into(),
                len: 77,
                wanted,
                limits: Limits {
                    workers: 1,
                    ..Limits::default()
                },
            };
            let bytes = job.encode();
            assert!(bytes.len() <= MAX_JOB as usize);
            assert_eq!(Job::decode(&bytes), Some(job));
            for len in 0..bytes.len() {
                assert_eq!(Job::decode(&bytes[..len]), None, "{len} bytes");
            }
        }
        for kind in KINDS {
            let result = Err(Reason::new(kind, "so"));
            assert_eq!(decode_result(&encode_result(&result)), Some(result));
        }
        for (form, bytes) in [
            (Form::Png, &b"\x89PNG\r\n\x1a\n..."[..]),
            (Form::Jpeg, b"\xff\xd8\xff..."),
            (Form::Rgba, b"1234"),
            (Form::Peaks, b"1234"),
            (Form::Nothing, b""),
        ] {
            let result = Ok(preview(form, bytes));
            assert_eq!(decode_result(&encode_result(&result)), Some(result));
        }
    }

    #[test]
    fn bytes_of_another_form_are_refused() {
        for (form, bytes) in [
            (Form::Png, &b"<html>"[..]),
            (Form::Jpeg, b"<script>"),
            (Form::Rgba, b"123"),
            (Form::Peaks, b"12345"),
            (Form::Nothing, b"1"),
        ] {
            let bytes = encode_result(&Ok(preview(form, bytes)));
            assert_eq!(decode_result(&bytes), None, "{form:?}");
        }
    }

    #[test]
    fn words_are_tame_and_short() {
        assert_eq!(tame(" a\u{1b}[31m\n\u{202e}b "), "a[31mb");
        assert!(tame(&"ä".repeat(10_000)).len() <= MAX_WORDS);
    }

    #[test]
    fn a_promised_length_allocates_nothing() {
        let promise = payload(&mut &b"abc"[..], u32::MAX);
        assert!(promise.is_err());
    }
}
