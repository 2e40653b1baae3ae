//! The style sheet, the script and the icon. Their addresses have their hashes, so browsers keep
//! them until the program changes. They are sent compressed; pages are not, because they have secrets
//! beside text of others, and a length could tell something about both.

use crate::address::Target;
use crate::answer::{Answer, answer, set, whole};
use dmv_core::hash::ObjectId;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::StatusCode;
use hyper::header::{ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, HeaderMap, VARY};
use std::io::Write;
use std::sync::LazyLock;

const STYLE: &str = include_str!("../assets/style.css");
const SCRIPT: &str = include_str!("../assets/script.js");
const ICON: &str = include_str!("../assets/icon.svg");

struct Asset {
    name: String,
    kind: &'static str,
    text: &'static str,
    packed: Vec<u8>,
}

static ALL: LazyLock<[Asset; 3]> = LazyLock::new(|| {
    let asset = |stem: &str, ending: &str, kind, text: &'static str| {
        // Any hash would do; this one is at hand.
        let hash = dmv_core::hash::chunk_id(text.as_bytes());
        Asset {
            name: format!("{stem}-{}.{ending}", ObjectId::short(&hash, 12)),
            kind,
            text,
            packed: packed(text.as_bytes()),
        }
    };
    [
        asset("style", "css", "text/css; charset=utf-8", STYLE),
        asset("script", "js", "text/javascript; charset=utf-8", SCRIPT),
        asset("icon", "svg", "image/svg+xml", ICON),
    ]
});

/// The address of the style sheet.
pub fn style() -> String {
    format!("/{}", ALL[0].name)
}

/// The address of the script.
pub fn script() -> String {
    format!("/{}", ALL[1].name)
}

/// The address of the icon.
pub fn icon() -> String {
    format!("/{}", ALL[2].name)
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::best());
    let written = out.write_all(bytes).and_then(|()| out.finish());
    written.expect("writing to memory cannot fail")
}

/// Whether a browser takes compressed bytes.
fn unpacks(headers: &HeaderMap) -> bool {
    let accepts = headers.get_all(ACCEPT_ENCODING).iter();
    let mut accepts = accepts.filter_map(|value| value.to_str().ok());
    accepts.any(|value| value.split(',').any(|one| one.trim() == "gzip"))
}

/// The asset at an address. Anyone on this machine may have it: it is part of the program.
pub fn find(target: &Target, headers: &HeaderMap) -> Option<Answer> {
    let [name] = &target.segments[..] else {
        return None;
    };
    let asset = ALL.iter().find(|asset| asset.name.as_bytes() == name)?;
    let mut found = if unpacks(headers) {
        let mut found = answer(StatusCode::OK, asset.kind, whole(&asset.packed[..]));
        set(&mut found, CONTENT_ENCODING, "gzip");
        found
    } else {
        answer(StatusCode::OK, asset.kind, whole(asset.text))
    };
    set(&mut found, VARY, "accept-encoding");
    set(
        &mut found,
        CACHE_CONTROL,
        "public, max-age=31536000, immutable",
    );
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_browser_loads_once_stays_small() {
        assert!(SCRIPT.len() <= 20 << 10, "{}", SCRIPT.len());
        let sent: usize = ALL.iter().map(|asset| asset.packed.len()).sum();
        assert!(sent <= 14 << 10, "{sent}");
    }

    #[test]
    fn nothing_comes_from_elsewhere() {
        for text in [STYLE, SCRIPT] {
            assert!(
                !text.contains("http:") && !text.contains("https:") && !text.contains("@import")
            );
        }
    }
}
