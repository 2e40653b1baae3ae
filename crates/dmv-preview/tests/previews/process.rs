//! Previews through the process that decodes: what it makes, and what happens when it does not.

use dmv_preview::{Cache, Form, Kind, Limits, Maker, PreviewKind, ReadAt, Source, WorkerCommand};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

fn command() -> WorkerCommand {
    WorkerCommand {
        program: env!("CARGO_BIN_EXE_dmv-preview-worker").into(),
        args: Vec::new(),
    }
}

fn maker(limits: Limits) -> Maker {
    Maker::new(command(), limits, None)
}

/// A PNG of one colour per column.
fn png(width: u32, height: u32) -> Vec<u8> {
    let pixels = image::RgbaImage::from_fn(width, height, |x, _| image::Rgba([x as u8, 9, 9, 255]));
    let mut out = io::Cursor::new(Vec::new());
    let written = pixels.write_to(&mut out, image::ImageFormat::Png);
    written.expect("encoded");
    out.into_inner()
}

/// Bytes that count how often they are read.
struct Counted(Vec<u8>, AtomicU64);

impl ReadAt for Counted {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.read_at(offset, buf)
    }
}

/// Content that is not here.
struct Gone;

impl ReadAt for Gone {
    fn read_at(&self, _: u64, _: &mut [u8]) -> io::Result<()> {
        Err(io::Error::other("it is at nas"))
    }
}

fn source<'a>(id: &'a str, bytes: &'a Vec<u8>) -> Source<'a> {
    Source {
        id,
        name: "a.png",
        len: bytes.len() as u64,
        bytes,
    }
}

/// A crash is a defect of the decoder. The file may be intact, so nobody may be told that it is damaged.
#[test]
fn a_crash_is_not_called_damage() {
    for script in ["exit 101", "kill -SEGV $$", "kill -KILL $$"] {
        let command = WorkerCommand {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), script.into()],
        };
        let maker = Maker::new(command, Limits::default(), None);
        let made = maker.make(&source("1", &png(8, 8)), PreviewKind::Thumbnail);
        let why = made.expect_err("no preview");
        assert_eq!(why.kind, Kind::Crash, "{script}: {why}");
        assert!(!why.words.contains("damaged"), "{why}");
    }
}

#[test]
fn a_picture_comes_in_every_size_that_is_wanted() {
    let maker = maker(Limits::default());
    let bytes = png(3000, 1500);
    let make = |wanted| maker.make(&source("1", &bytes), wanted).expect("made");
    for (wanted, form, size) in [
        (PreviewKind::Thumbnail, Form::Jpeg, (256, 128)),
        (PreviewKind::Large, Form::Jpeg, (2048, 1024)),
        (PreviewKind::Pixels { max_edge: 100 }, Form::Rgba, (100, 50)),
        (
            PreviewKind::Pixels { max_edge: u32::MAX },
            Form::Rgba,
            (3000, 1500),
        ),
        (PreviewKind::Metadata, Form::Nothing, (0, 0)),
    ] {
        let preview = make(wanted);
        assert_eq!(
            (preview.form, preview.width, preview.height),
            (form, size.0, size.1)
        );
        assert_eq!(preview.original, Some((3000, 1500)));
        assert!(preview.facts.contains(&("format".into(), "PNG".into())));
    }
    let pixels = make(PreviewKind::Pixels { max_edge: u32::MAX }).bytes;
    assert_eq!(pixels[4 * 77..4 * 78], [77, 9, 9, 255]);
}

#[test]
fn the_cache_answers_without_content_and_remembers_reasons() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = Cache::new(dir.path(), 1 << 20);
    let maker = Maker::new(command(), Limits::default(), Some(cache));
    let content = Counted(png(300, 300), AtomicU64::new(0));
    let source = |id| Source {
        id,
        name: "x.PNG",
        len: content.0.len() as u64,
        bytes: &content,
    };
    let first = maker
        .make(&source("1"), PreviewKind::Thumbnail)
        .expect("made");
    let reads = content.1.load(Ordering::Relaxed);
    assert!(reads > 0);
    assert_eq!(
        maker.make(&source("1"), PreviewKind::Thumbnail),
        Ok(first.clone())
    );
    assert_eq!(
        maker.cached("1", "renamed.png", PreviewKind::Thumbnail),
        Some(Ok(first))
    );
    assert_eq!(content.1.load(Ordering::Relaxed), reads);
    assert_eq!(maker.cached("1", "x.png", PreviewKind::Large), None);
    assert_eq!(maker.cached("2", "x.png", PreviewKind::Thumbnail), None);

    let broken = png(300, 300)[..60].to_vec();
    let broken = Source {
        id: "../../etc/passwd\0",
        name: "b.png",
        len: 60,
        bytes: &broken,
    };
    let reason = maker
        .make(&broken, PreviewKind::Large)
        .expect_err("damaged");
    assert_eq!(reason.kind, Kind::Damaged);
    assert_eq!(
        maker.cached(broken.id, "b.png", PreviewKind::Large),
        Some(Err(reason))
    );
}

#[test]
fn missing_content_is_a_reason_that_is_not_remembered() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = Cache::new(dir.path(), 1 << 20);
    let maker = Maker::new(command(), Limits::default(), Some(cache));
    let gone = Source {
        id: "1",
        name: "x.png",
        len: 1000,
        bytes: &Gone,
    };
    let reason = maker.make(&gone, PreviewKind::Thumbnail).expect_err("gone");
    assert_eq!(reason.kind, Kind::Unreadable);
    assert_eq!(reason.words, "the content cannot be read: it is at nas");
    assert_eq!(maker.cached("1", "x.png", PreviewKind::Thumbnail), None);
}

#[test]
fn what_is_too_large_is_refused_before_it_is_decoded() {
    let bytes = png(3000, 1500);
    let few = Limits {
        pixels: 4_000_000,
        ..Limits::default()
    };
    let reason = maker(few).make(&source("1", &bytes), PreviewKind::Thumbnail);
    let reason = reason.expect_err("too many pixels");
    assert_eq!(reason.kind, Kind::TooLarge);
    assert_eq!(
        reason.words,
        "the picture has 3000 x 1500 pixels; previews are made up to 4 million"
    );
    let little = Limits {
        memory: 24 << 20,
        ..Limits::default()
    };
    let reason = maker(little).make(&source("1", &bytes), PreviewKind::Thumbnail);
    assert_eq!(reason.expect_err("no memory").kind, Kind::TooLarge);
    let short = Limits {
        read_bytes: 1000,
        ..Limits::default()
    };
    assert!(
        maker(short)
            .make(&source("1", &bytes), PreviewKind::Thumbnail)
            .is_err()
    );
}

#[cfg(unix)]
#[test]
fn processes_that_lie_hang_or_do_not_exist_are_reasons() {
    let limits = Limits {
        wall: Duration::from_millis(300),
        ..Limits::default()
    };
    let bytes = png(3, 3);
    for (program, args, kind) in [
        ("/nowhere/dmv", &[][..], Kind::NoWorker),
        ("/bin/sleep", &["60"][..], Kind::TooSlow),
        ("/bin/sh", &["-c", "yes"][..], Kind::Crash),
        ("/bin/sh", &["-c", "exit 0"][..], Kind::Crash),
        (
            "/bin/sh",
            &["-c", "exec >&-; exec sleep 60"][..],
            Kind::Crash,
        ),
        ("/bin/sh", &["-c", "kill -SEGV $$"][..], Kind::Crash),
        ("/bin/sh", &["-c", "kill -ABRT $$"][..], Kind::TooLarge),
        ("/bin/sh", &["-c", "kill -XCPU $$"][..], Kind::TooSlow),
        ("/bin/sh", &["-c", "exit 97"][..], Kind::NoWorker),
        // Asks for bytes beyond the end, and promises an answer of 4 GiB.
        (
            "/usr/bin/printf",
            &[r"\003\014\0\0\0\377\0\0\0\0\0\0\0\001\0\0\0"][..],
            Kind::Crash,
        ),
        (
            "/usr/bin/printf",
            &[r"\004\377\377\377\377"][..],
            Kind::Crash,
        ),
    ] {
        let command = WorkerCommand {
            program: program.into(),
            args: args.iter().map(Into::into).collect(),
        };
        let maker = Maker::new(command, limits, None);
        let start = Instant::now();
        let reason = maker.make(&source("1", &bytes), PreviewKind::Thumbnail);
        let reason = reason.expect_err("no preview");
        assert_eq!(reason.kind, kind, "{program} {args:?}: {reason}");
        assert!(
            start.elapsed() < Duration::from_secs(3),
            "{program} {args:?}"
        );
    }
}

#[test]
fn many_threads_share_few_processes_and_make_nothing_twice() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = Cache::new(dir.path(), 1 << 20);
    let maker = Maker::new(command(), Limits::default(), Some(cache));
    let content = Counted(png(40, 40), AtomicU64::new(0));
    let source = |id| Source {
        id,
        name: "x.png",
        len: content.0.len() as u64,
        bytes: &content,
    };
    maker
        .make(&source("0"), PreviewKind::Thumbnail)
        .expect("made");
    let once = content.1.swap(0, Ordering::Relaxed);
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let (maker, source) = (&maker, &source);
            scope.spawn(move || {
                let id = ["a", "b", "c", "d"][thread % 4];
                maker
                    .make(&source(id), PreviewKind::Thumbnail)
                    .expect("made");
            });
        }
    });
    assert_eq!(content.1.load(Ordering::Relaxed), 4 * once);
}

#[test]
fn unknown_files_are_named_in_words() {
    let maker = maker(Limits::default());
    for (name, bytes, kind, words) in [
        ("x", &b""[..], Kind::Absent, "the file is empty"),
        (
            "x.zzz",
            b"hello",
            Kind::Unknown,
            "previews are not made for this kind of file (.zzz)",
        ),
        (
            "x.<script>",
            b"hello",
            Kind::Unknown,
            "previews are not made for this kind of file",
        ),
        (
            "x.svg",
            b"<svg xmlns='http://www.w3.org/2000/svg'/>",
            Kind::Unknown,
            "SVG drawings are shown by the browser, not as a preview",
        ),
    ] {
        let bytes = bytes.to_vec();
        let source = Source {
            id: "1",
            name,
            len: bytes.len() as u64,
            bytes: &bytes,
        };
        let reason = maker.make(&source, PreviewKind::Thumbnail).expect_err(name);
        assert_eq!((reason.kind, reason.words.as_str()), (kind, words));
    }
}

/// Runs `ffmpeg` of the system as a test needs it. `false`: it is not installed.
#[cfg(target_os = "linux")]
fn ffmpeg(args: &[&str]) -> bool {
    let done = std::process::Command::new("/usr/bin/ffmpeg")
        .args(["-nostdin", "-hide_banner", "-loglevel", "error", "-y"])
        .args(args)
        .status();
    done.is_ok_and(|status| status.success())
}

#[cfg(target_os = "linux")]
#[test]
fn a_film_is_shown_by_a_picture_from_its_beginning() {
    let dir = tempfile::tempdir().expect("a directory");
    // Two seconds of black would be a bad picture; half a second is passed over.
    let filter = "color=black:s=640x360:r=20:d=0.5[a];color=red:s=640x360:r=20:d=2[b];[a][b]concat";
    for (name, codec) in [("a.mp4", "mpeg4"), ("a.mkv", "mpeg4"), ("a.mov", "mjpeg")] {
        let path = dir.path().join(name);
        let to = path.to_str().expect("text");
        if !ffmpeg(&["-filter_complex", filter, "-c:v", codec, to]) {
            dmv_random::skip("ffmpeg is not installed");
            return;
        }
        let bytes = std::fs::read(&path).expect("the film");
        let maker = maker(Limits::default());
        let film = Source {
            id: "1",
            name,
            len: bytes.len() as u64,
            bytes: &bytes,
        };
        let made = maker.make(&film, PreviewKind::Thumbnail);
        let made = made.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(
            (made.form, made.width, made.height),
            (Form::Jpeg, 256, 144),
            "{name}"
        );
        let picture = image::load_from_memory(&made.bytes)
            .expect("a picture")
            .to_rgb8();
        let [r, g, b] = picture.get_pixel(128, 72).0;
        assert!(r > 200 && g < 50 && b < 50, "{name}: {r} {g} {b}");
        let large = maker.make(&film, PreviewKind::Large).expect("a picture");
        assert_eq!((large.width, large.height), (640, 360), "{name}");
        // A film that is none, one that names other files, and one that is cut off.
        for bytes in [
            vec![0; 5000],
            b"ffconcat version 1.0\nfile /etc/passwd\n".repeat(20),
            b"#EXTM3U\n#EXTINF:1,\nhttp://127.0.0.1:9/x.ts\n".repeat(20),
            bytes[..bytes.len() / 20].to_vec(),
        ] {
            let none = Source {
                id: "2",
                name,
                len: bytes.len() as u64,
                bytes: &bytes,
            };
            let made = maker.make(&none, PreviewKind::Thumbnail);
            assert_eq!(made.map_err(|e| e.kind).err(), Some(Kind::Absent), "{name}");
        }
    }
}
