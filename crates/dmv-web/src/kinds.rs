//! What a file is, by its name: how a page shows it, and which content type `/raw` may say.
//!
//! The name is only a guess. A browser that shows the bytes does so in a sandbox and never looks
//! for another type (`nosniff`), so a wrong guess shows nothing instead of running something.

/// How a page shows a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// A picture that browsers show.
    Picture,
    /// A picture that only programs for pictures show.
    Raster,
    /// Sound that browsers play.
    Sound,
    /// A film that browsers may play.
    Film,
    /// Lines of text.
    Text,
    /// A scene or model.
    Scene,
    /// An archive.
    Archive,
    /// Anything else.
    Other,
}

impl Sort {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Sort::Picture | Sort::Raster => "picture",
            Sort::Sound => "sound",
            Sort::Film => "film",
            Sort::Text => "text",
            Sort::Scene => "scene",
            Sort::Archive => "archive",
            Sort::Other => "file",
        }
    }

    /// Whether frames of a sequence may be of this sort.
    pub fn is_image(self) -> bool {
        matches!(self, Sort::Picture | Sort::Raster)
    }
}

/// Endings, the sort, and the content type under which a browser may show the file; without one it
/// is only downloaded.
const TABLE: &[(&[&str], Sort, Option<&str>)] = &[
    (&["jpg", "jpeg", "jpe"], Sort::Picture, Some("image/jpeg")),
    (&["png", "apng"], Sort::Picture, Some("image/png")),
    (&["gif"], Sort::Picture, Some("image/gif")),
    (&["webp"], Sort::Picture, Some("image/webp")),
    (&["avif"], Sort::Picture, Some("image/avif")),
    (&["bmp"], Sort::Picture, Some("image/bmp")),
    (&["ico"], Sort::Picture, Some("image/x-icon")),
    (&["svg"], Sort::Picture, Some("image/svg+xml")),
    (
        &[
            "tga", "tif", "tiff", "hdr", "qoi", "exr", "psd", "psb", "kra", "ora", "dpx", "cin",
            "dds", "ppm", "pgm", "pbm", "pnm", "pam", "cr2", "cr3", "nef", "arw", "dng", "raf",
            "rw2", "orf", "heic", "jxl", "xcf",
        ],
        Sort::Raster,
        None,
    ),
    (&["wav", "wave", "bwf"], Sort::Sound, Some("audio/wav")),
    (&["mp3"], Sort::Sound, Some("audio/mpeg")),
    (&["flac"], Sort::Sound, Some("audio/flac")),
    (&["ogg", "oga", "opus"], Sort::Sound, Some("audio/ogg")),
    (&["m4a", "aac"], Sort::Sound, Some("audio/mp4")),
    (&["aif", "aiff"], Sort::Sound, Some("audio/aiff")),
    (&["mp4", "m4v"], Sort::Film, Some("video/mp4")),
    (&["mov"], Sort::Film, Some("video/quicktime")),
    (&["webm"], Sort::Film, Some("video/webm")),
    (&["ogv"], Sort::Film, Some("video/ogg")),
    (
        &["mkv", "avi", "mxf", "mts", "r3d", "braw"],
        Sort::Film,
        None,
    ),
    (
        &[
            "txt",
            "md",
            "markdown",
            "rst",
            "edl",
            "csv",
            "tsv",
            "json",
            "xml",
            "yaml",
            "yml",
            "toml",
            "ini",
            "cfg",
            "conf",
            "log",
            "srt",
            "vtt",
            "ass",
            "fdx",
            "fountain",
            "otio",
            "cube",
            "cdl",
            "cc",
            "ccc",
            "ale",
            "usda",
            "obj",
            "mtl",
            "gltf",
            "rs",
            "py",
            "js",
            "ts",
            "c",
            "h",
            "cpp",
            "hpp",
            "java",
            "go",
            "sh",
            "lua",
            "gd",
            "glsl",
            "hlsl",
            "html",
            "htm",
            "css",
            "tex",
            "bib",
            "tscn",
            "tres",
            "meta",
            "shader",
            "nk",
            "ma",
            "diff",
            "patch",
            "dmvignore",
            "dmvattributes",
            "gitignore",
            "gitattributes",
            "xmp",
        ],
        Sort::Text,
        Some("text/plain; charset=utf-8"),
    ),
    (
        &[
            "blend", "fbx", "glb", "usd", "usdc", "usdz", "abc", "mb", "max", "c4d", "hip",
            "uasset", "umap", "unity", "stl", "ztl", "spp", "3ds",
        ],
        Sort::Scene,
        None,
    ),
    (
        &["zip", "tar", "gz", "xz", "zst", "7z", "rar", "bz2", "tgz"],
        Sort::Archive,
        None,
    ),
];

/// The ending of a name, in lower case; empty if there is none.
pub fn ending(name: &[u8]) -> String {
    let name = name.rsplit(|b| *b == b'/').next().unwrap_or_default();
    match name.iter().rposition(|b| *b == b'.') {
        Some(at) => String::from_utf8_lossy(&name[at + 1..]).to_ascii_lowercase(),
        None => String::new(),
    }
}

/// The sort of a file, and the type that `/raw` may say.
pub fn sort_of(name: &[u8]) -> (Sort, Option<&'static str>) {
    let ending = ending(name);
    let row = TABLE
        .iter()
        .find(|(endings, ..)| endings.contains(&ending.as_str()));
    row.map_or((Sort::Other, None), |(_, sort, mime)| (*sort, *mime))
}

/// Whether bytes are lines of text, as far as their beginning tells.
pub fn looks_like_text(start: &[u8]) -> bool {
    if start.contains(&0) {
        return false;
    }
    match std::str::from_utf8(start) {
        Ok(_) => true,
        // A character that the end of the bytes cuts.
        Err(e) => e.error_len().is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_can_run_is_shown_as_what_it_is() {
        for name in ["a.html", "a.HTM", "x.js", "a.xml"] {
            assert_eq!(
                sort_of(name.as_bytes()).1,
                Some("text/plain; charset=utf-8")
            );
        }
        for name in [
            "a.pdf",
            "a.swf",
            "a.xhtml",
            "noending",
            "a.mht",
            ".html.exe",
        ] {
            assert_eq!(sort_of(name.as_bytes()).1, None, "{name}");
        }
    }

    #[test]
    fn an_ending_stands_once_in_the_table() {
        let mut all: Vec<&str> = TABLE.iter().flat_map(|(e, ..)| e.iter().copied()).collect();
        let len = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), len);
    }

    #[test]
    fn text_is_told_by_its_bytes() {
        assert!(looks_like_text("gr\u{fc}n".as_bytes()) && looks_like_text(b""));
        assert!(looks_like_text(&"gr\u{fc}n".as_bytes()[..3]));
        assert!(!looks_like_text(b"a\0b") && !looks_like_text(b"\xff\xfe"));
    }
}
