//! A picture from the beginning of a film, found by `ffmpeg` where the system has it.
//!
//! `ffmpeg` loads its libraries and opens its input by itself, so it cannot run in the process that may open nothing.
//! It has one of its own ([`become_ffmpeg`]), which may read the system's programs and libraries and nothing else
//! (`confine::enter_film`). The film is a file in memory: its beginning and its end, where films have their
//! tables, and a hole between them. The picture that comes out is not trusted either, and is decoded as any other file.

use crate::confine;
use crate::preview::{PreviewKind, Source};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Where `ffmpeg` may be. Only the administrator of the system can write there.
const PLACES: [&str; 2] = ["/usr/bin/ffmpeg", "/usr/local/bin/ffmpeg"];
/// Bytes of the beginning and of the end that are in memory.
const PART: u64 = 16 << 20;
/// Bytes that are read at once.
const PIECE: u64 = 1 << 20;
/// The argument that makes a worker become `ffmpeg`. The format follows.
pub const MARK: &str = "film";
/// The longest picture that is taken.
pub const MAX_PICTURE: u64 = 48 << 20;

/// Returns where `ffmpeg` is.
pub fn installed() -> Option<&'static Path> {
    let mut places = PLACES.iter().map(Path::new);
    places.find(|place| place.is_file())
}

/// Returns the name of `ffmpeg` for the film's format, if a picture is wanted and the file is a film by its name.
pub fn format(ending: &str, wanted: PreviewKind) -> Option<&'static str> {
    if !matches!(wanted, PreviewKind::Thumbnail | PreviewKind::Large) {
        return None;
    }
    match ending {
        "mp4" | "m4v" | "mov" => Some("mov"),
        "mkv" | "webm" => Some("matroska"),
        _ => None,
    }
}

/// Returns the film as a file in memory, of its full length, with its beginning and its end.
pub fn in_memory(source: &Source<'_>) -> io::Result<File> {
    let file = File::from(memfd_create("film", MemfdFlags::CLOEXEC)?);
    ftruncate(&file, source.len)?;
    let tail = source.len.saturating_sub(PART).max(PART.min(source.len));
    let mut piece = vec![0; PIECE as usize];
    for (from, to) in [(0, PART.min(source.len)), (tail, source.len)] {
        let mut at = from;
        while at < to {
            let len = PIECE.min(to - at) as usize;
            source.bytes.read_at(at, &mut piece[..len])?;
            file.write_all_at(&piece[..len], at)?;
            at += len as u64;
        }
    }
    Ok(file)
}

/// Takes the rights from this process and becomes `ffmpeg`, which reads a film from the standard input and writes a
/// picture to the standard output. Returns only if that fails.
pub fn become_ffmpeg(format: &str) -> ExitCode {
    let format = ["mov", "matroska"]
        .into_iter()
        .find(|known| *known == format);
    let (Some(program), Some(format)) = (installed(), format) else {
        return ExitCode::FAILURE;
    };
    if confine::enter_film().is_err() {
        return ExitCode::from(confine::REFUSED);
    }
    let edge = PreviewKind::LARGE;
    // The picture that differs least from its neighbours: not the black one at the start.
    let filter = format!(
        "thumbnail=24,scale=w='min({edge},iw)':h='min({edge},ih)':force_original_aspect_ratio=decrease"
    );
    let error = Command::new(program)
        .args([
            "-nostdin",
            "-hide_banner",
            "-loglevel",
            "quiet",
            "-threads",
            "1",
        ])
        .args(["-protocol_whitelist", "file,pipe", "-f", format])
        // Unlike "pipe:" it can be read from any place.
        .args([
            "-i",
            "file:/dev/stdin",
            "-map",
            "0:v:0",
            "-an",
            "-sn",
            "-dn",
        ])
        .args(["-vf", &filter, "-frames:v", "1"])
        .args(["-f", "image2pipe", "-c:v", "png", "pipe:1"])
        .env_clear()
        .exec();
    drop(error);
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preview::ReadAt;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A film of any length, whose bytes count.
    struct Endless(AtomicU64);

    impl ReadAt for Endless {
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
            self.0.fetch_add(buf.len() as u64, Ordering::Relaxed);
            for (at, byte) in (offset..).zip(buf) {
                *byte = (at % 251) as u8;
            }
            Ok(())
        }
    }

    #[test]
    fn only_the_ends_of_a_film_are_read() {
        for (len, read) in [
            (12, 12),
            (PART, PART),
            (PART + 1, PART + 1),
            (2 * PART, 2 * PART),
            (2 * PART + 9, 2 * PART),
            (1 << 40, 2 * PART),
        ] {
            let bytes = Endless(AtomicU64::new(0));
            let source = Source {
                id: "",
                name: "a.MP4",
                len,
                bytes: &bytes,
            };
            let file = in_memory(&source).expect("memory");
            assert_eq!(bytes.0.load(Ordering::Relaxed), read, "{len} bytes");
            assert_eq!(file.metadata().expect("a file").len(), len);
            for at in [0, 1, len / 3, len - 1] {
                let mut byte = [0];
                file.read_exact_at(&mut byte, at).expect("a byte");
                let is_hole = at >= PART && at < len.saturating_sub(PART);
                assert_eq!(
                    u64::from(byte[0]),
                    if is_hole { 0 } else { at % 251 },
                    "{at} of {len}"
                );
            }
        }
    }

    #[test]
    fn ffmpeg_comes_from_the_system_alone() {
        assert!(PLACES.iter().all(|place| place.starts_with("/usr/")));
        assert!(installed().is_none_or(Path::is_absolute));
    }

    #[test]
    fn a_film_is_one_by_its_name() {
        assert_eq!(format("mov", PreviewKind::Large), Some("mov"));
        assert_eq!(format("webm", PreviewKind::Thumbnail), Some("matroska"));
        assert_eq!(format("webm", PreviewKind::Metadata), None);
        assert_eq!(format("avi", PreviewKind::Thumbnail), None);
    }
}
