//! Real files of every format: what other programs made, seen as these programs see it. `tests/files/make.sh` made
//! the files.

use dmv_preview::{Form, Kind, Limits, Preview, PreviewKind, Reason, in_process};
use std::path::{Path, PathBuf};

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files")
}

fn read(name: &str) -> Vec<u8> {
    std::fs::read(dir().join(name)).expect(name)
}

fn make(name: &str, wanted: PreviewKind) -> Result<Preview, Reason> {
    in_process(name, &read(name), wanted, Limits::default())
}

const ALL: PreviewKind = PreviewKind::Pixels { max_edge: u32::MAX };

/// Returns the largest difference of two pictures' samples. Pixels that both see as clear are equal.
fn difference(a: &[u8], b: &[u8]) -> u8 {
    assert_eq!(a.len(), b.len());
    let pixels = a.as_chunks::<4>().0.iter().zip(b.as_chunks::<4>().0);
    let seen = pixels.filter(|(a, b)| a[3] != 0 || b[3] != 0);
    let parts = seen.flat_map(|(a, b)| a.iter().zip(b));
    parts.map(|(a, b)| a.abs_diff(*b)).max().unwrap_or(0)
}

#[test]
fn every_picture_is_seen_as_its_program_sees_it() {
    let (mut seen, mut wrong) = (0, Vec::new());
    for entry in std::fs::read_dir(dir()).expect("the files") {
        let path = entry.expect("the files").path();
        let expected = path.file_name().expect("a name").to_string_lossy();
        let Some(name) = expected.strip_suffix(".rgba") else {
            continue;
        };
        let preview = make(name, ALL).unwrap_or_else(|e| panic!("{name}: {e}"));
        let off = difference(&preview.bytes, &read(&expected));
        let most = match name {
            // ImageMagick leaves out the half step that Radiance itself adds to each sample.
            "light.hdr" => 13,
            // 8 bits of Lab are coarser than 8 bits of RGB.
            "lab.tif" => 8,
            _ => 2,
        };
        if off > most {
            wrong.push(format!("{name}: {off} of 255 away"));
        }
        seen += 1;
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(seen >= 20, "{seen} pictures");
}

#[test]
fn documents_show_the_picture_that_they_hold() {
    for name in [
        "packed.kra",
        "stored.ora",
        "plain.blend",
        "five.blend",
        "gzip.blend",
        "zstd.blend",
    ] {
        let preview = make(name, ALL).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(preview.bytes, read("base.png.rgba"), "{name}");
    }
    for (name, size) in [("camera.dng", (17, 24)), ("camera.raf", (24, 17))] {
        let preview = make(name, ALL).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!((preview.width, preview.height), size, "{name}");
        let plain = make("plain.jpg", ALL).expect("a picture");
        if size == (24, 17) {
            assert_eq!(preview.bytes, plain.bytes, "{name}");
        }
    }
}

fn facts(name: &str) -> String {
    let preview = make(name, PreviewKind::Metadata).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert_eq!(preview.form, Form::Nothing);
    let facts = preview
        .facts
        .iter()
        .map(|(name, value)| format!("{name}: {value}"));
    facts.collect::<Vec<_>>().join("; ")
}

#[test]
fn facts_tell_what_a_file_is() {
    for (name, says) in [
        (
            "turned.jpg",
            "format: JPEG; colour: RGB, 8 bits; camera: DMV One; exposure: 1/125 s; \
             aperture: f/2.8; sensitivity: ISO 200",
        ),
        ("deep.tif", "format: TIFF; colour: RGB, 16 bits"),
        ("big.tif", "format: BigTIFF; colour: RGB, 8 bits"),
        ("indexed.tif", "format: TIFF; colour: palette, 4 bits"),
        ("tiles.tif", "format: TIFF; colour: RGB with alpha, 8 bits"),
        ("blocks5.dds", "format: DDS; compression: BC3 (DXT5)"),
        ("turned.webp", "format: WebP; colour: RGB, 8 bits"),
        ("base.ico", "format: ICO; colour: RGB, 8 bits"),
        (
            "camera.dng",
            "format: camera RAW; shown: the JPEG that the camera put into the file; \
             camera: DMV Cameras R1",
        ),
        (
            "large.psb",
            "format: Photoshop (PSB); colour: RGB, 8 bits; channels: 3",
        ),
        (
            "zip16.exr",
            "format: OpenEXR; channels: B, G, R; depth: f16; compression: zip block compression",
        ),
        ("five.blend", "format: Blender file; version: 5.0"),
        ("plain.blend", "format: Blender file; version: 3.6"),
        ("plain.ttf", "format: TrueType font; glyphs: 20"),
        (
            "plain.wav",
            "format: Waveform Audio File Format; codec: PCM Signed 16-bit Little-Endian Interleaved; \
             duration: 0:00.1; sample rate: 8000 Hz; channels: 2; depth: 16 bits",
        ),
    ] {
        assert_eq!(facts(name), says, "{name}");
    }
}

/// The peaks of a sound with two channels: 0.8 x a ramp of 0.1 s with 440 Hz on the left, 0.3 with 880 Hz on the right.
#[test]
fn sounds_have_the_peaks_that_were_put_in() {
    for (name, exact) in [
        ("plain.wav", true),
        ("plain.aiff", true),
        ("plain.flac", true),
        ("lossless.m4a", true),
        ("plain.mp3", false),
        ("plain.m4a", false),
        ("plain.aac", false),
        ("plain.ogg", false),
    ] {
        let wanted = PreviewKind::Waveform {
            from: 0,
            to: u64::MAX,
            buckets: 10,
        };
        let preview = make(name, wanted).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!((preview.form, preview.height), (Form::Peaks, 2), "{name}");
        let sound = preview.sound.expect("a sound");
        assert_eq!((sound.rate, sound.channels), (8000, 2), "{name}");
        let numbers: Vec<i16> = preview
            .bytes
            .as_chunks::<2>()
            .0
            .iter()
            .map(|two| i16::from_le_bytes(*two))
            .collect();
        let (left, right) = numbers.split_at(numbers.len() / 2);
        let top = |part: &[i16]| f32::from(part.iter().copied().max().unwrap_or(0)) / 32768.0;
        assert!((0.7..=0.9).contains(&top(left)), "{name}: {}", top(left));
        assert!((0.25..=0.4).contains(&top(right)), "{name}: {}", top(right));
        if exact {
            assert_eq!((preview.width, sound.samples), (10, Some(800)), "{name}");
            for bucket in 0..10 {
                let height = f32::from(left[2 * bucket + 1]) / 32768.0;
                let most = 0.08 * (bucket as f32 + 1.0);
                assert!(
                    height <= most + 0.001 && height > most - 0.09,
                    "{name} {bucket}: {height}"
                );
                let height = f32::from(right[2 * bucket + 1]) / 32768.0;
                assert!((height - 0.3).abs() < 0.01, "{name} {bucket}: {height}");
            }
        }
        let picture = make(name, PreviewKind::Thumbnail).expect("a drawing");
        assert_eq!(picture.form, Form::Png);
        assert_eq!(picture.height, 96);
    }
}

#[test]
fn a_range_of_a_sound_has_the_samples_of_that_range() {
    for name in ["plain.wav", "plain.flac", "plain.aiff"] {
        let whole = PreviewKind::Waveform {
            from: 0,
            to: 800,
            buckets: 800,
        };
        let part = PreviewKind::Waveform {
            from: 313,
            to: 500,
            buckets: 187,
        };
        let (whole, part) = (
            make(name, whole).expect(name),
            make(name, part).expect(name),
        );
        let sound = part.sound.expect("a sound");
        assert_eq!(
            (sound.from, sound.to, part.width),
            (313, 500, 187),
            "{name}"
        );
        for channel in 0..2 {
            let of = |p: &Preview, from: usize, to: usize| {
                let start = channel * p.width as usize;
                p.bytes[(start + from) * 4..(start + to) * 4].to_vec()
            };
            assert_eq!(of(&part, 0, 187), of(&whole, 313, 500), "{name}");
        }
    }
}

#[test]
fn a_font_draws_letters() {
    let picture = make("plain.ttf", PreviewKind::Pixels { max_edge: 256 }).expect("a font");
    assert_eq!((picture.width, picture.height), (256, 64));
    let dark = picture
        .bytes
        .as_chunks::<4>()
        .0
        .iter()
        .filter(|p| p[0] < 100)
        .count();
    assert!((500..8000).contains(&dark), "{dark} dark pixels");
}

#[test]
fn a_document_without_a_picture_says_why() {
    let mut psd = read("plain.psd");
    let mut version = b"8BIM\x04\x21\0\0\0\0\0\x05\0\0\0\x01\0\0".to_vec();
    psd.splice(34..34, version.drain(..));
    // The length of all resources.
    psd[33] += 18;
    let reason = in_process("a.psd", &psd, PreviewKind::Thumbnail, Limits::default());
    let reason = reason.expect_err("no picture");
    assert_eq!(reason.kind, Kind::Absent);
    assert_eq!(
        reason.words,
        "this document was saved without its merged picture (Maximize Compatibility off)"
    );
    let blend = b"BLENDER-v306ENDB\0\0\0\0aaaaaaaa\0\0\0\0\0\0\0\0";
    let reason = in_process("a.blend", blend, PreviewKind::Large, Limits::default());
    assert_eq!(reason.expect_err("no picture").kind, Kind::Absent);
}

/// A picture of one light, in the Radiance format: 4 x 4 pixels that are `2^(exponent - 129)` as bright as white.
fn light(exponent: u8) -> Vec<u8> {
    let mut out = b"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n-Y 4 +X 4\n".to_vec();
    out.extend([128, 128, 128, exponent].repeat(16));
    out
}

#[test]
fn exposure_multiplies_light_before_it_is_cut_at_white() {
    let bytes = light(132);
    for (stops, want) in [
        (1, 255),
        (0, 255),
        (-3, 255),
        (-4, 188),
        (-5, 137),
        (-16, 0),
    ] {
        let wanted = PreviewKind::Exposed { stops };
        let made = in_process("a.hdr", &bytes, wanted, Limits::default()).expect("made");
        let shown = image::load_from_memory(&made.bytes)
            .expect("a JPEG")
            .to_rgb8();
        let got = shown.get_pixel(1, 1).0;
        assert!(
            got.iter().all(|c| c.abs_diff(want) <= 3),
            "{stops}: {got:?}"
        );
    }
    let why = in_process(
        "a.png",
        b"\x89PNG\r\n\x1a\n",
        PreviewKind::Exposed { stops: 1 },
        Limits::default(),
    );
    assert_eq!(why.expect_err("no light").kind, Kind::Absent);
}

#[test]
fn formats_that_nothing_decodes_are_told_by_their_names() {
    for (bytes, words) in [
        (&b"\0\0\0\x18ftypheic\0\0\0\0mif1heic"[..], "HEIC"),
        (b"\0\0\0\x18ftypmif1\0\0\0\0mif1heic", "HEIC"),
        (b"\0\0\0\x18ftypmif1\0\0\0\0mif1avif", "AVIF"),
        (b"\0\0\0\x18ftypcrx \0\0\0\x01crx isom", "CR3"),
        (b"\xff\x0a\0\0", "JPEG XL"),
        (b"\0\0\0\x18ftypqt  \0\0\0\0qt  ", "videos"),
        (b"\0\0\0\x08wide\0\x10\0\0mdat", "videos"),
        (b"\0\0\x02\xb8moov\0\0\0\x6cmvhd", "videos"),
        (b"the free world of letters", "this kind of file"),
    ] {
        let why = in_process("a", bytes, PreviewKind::Thumbnail, Limits::default());
        let why = why.expect_err("no decoder");
        assert!(
            why.kind == Kind::Unknown && why.words.contains(words),
            "{why:?}"
        );
    }
}

/// What a file begins with decides. A name that promises another beginning tells that the file is damaged.
#[test]
fn a_file_that_lost_its_beginning_is_damaged_and_not_unknown() {
    for name in [
        "plain.psd",
        "deep.tif",
        "plain.jpg",
        "base.png",
        "blocks1.dds",
        "zip1.exr",
    ] {
        let mut bytes = read(name);
        bytes[..4].fill(0x20);
        let why = in_process(name, &bytes, PreviewKind::Thumbnail, Limits::default());
        let why = why.expect_err(name);
        assert_eq!(why.kind, Kind::Damaged, "{name}: {why}");
        let why = in_process("a.xyz", &bytes, PreviewKind::Thumbnail, Limits::default());
        assert_eq!(why.expect_err(name).kind, Kind::Unknown, "{name}");
    }
}

#[test]
fn a_photoshop_document_with_wrong_numbers_is_damaged() {
    let whole = read("plain.psd");
    // The version, the mode twice, and the depth.
    for (at, value, kind) in [
        (5, 9, Kind::Damaged),
        (25, 200, Kind::Damaged),
        (25, 7, Kind::Unknown),
        (23, 7, Kind::Damaged),
    ] {
        let mut bytes = whole.clone();
        bytes[at] = value;
        let why = in_process("a.psd", &bytes, PreviewKind::Large, Limits::default());
        assert_eq!(why.expect_err("a reason").kind, kind, "{at}: {value}");
    }
    // The way of compression stands before the pixels, which end the file.
    let mut bytes = read("deep.psd");
    let pixels = bytes.len() - 24 * 17 * 3 * 2;
    bytes[pixels - 1] = 77;
    let why = in_process("a.psd", &bytes, PreviewKind::Large, Limits::default());
    assert_eq!(why.expect_err("a reason").kind, Kind::Damaged);
}
