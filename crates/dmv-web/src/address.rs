//! Addresses of pages: from the path of a request to names as bytes, and back. A path is only ever
//! looked up in a tree; nothing here or elsewhere joins it to a directory.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

/// What a segment of a path or a value of a query may show unencoded.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// The most bytes of a request's target.
pub const MAX_TARGET_BYTES: usize = 12 << 10;

/// What a request asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The segments of the path, decoded. A trailing slash leaves none.
    pub segments: Vec<Vec<u8>>,
    /// The query, decoded, in its order.
    pub query: Vec<(String, Vec<u8>)>,
}

impl Target {
    /// Decodes a request's target. `None` if it is too long, or has a NUL in it.
    pub fn parse(path: &str, query: Option<&str>) -> Option<Target> {
        if path.len() + query.map_or(0, str::len) > MAX_TARGET_BYTES {
            return None;
        }
        let decoded = |text: &str| percent_decode_str(text).collect::<Vec<u8>>();
        let trimmed = path.trim_matches('/');
        let segments: Vec<Vec<u8>> = match trimmed {
            "" => Vec::new(),
            trimmed => trimmed.split('/').map(decoded).collect(),
        };
        let query = query.map(pairs).unwrap_or_default();
        let has_nul = |bytes: &[u8]| bytes.contains(&0);
        let bad = segments.iter().any(|s| has_nul(s)) || query.iter().any(|(_, v)| has_nul(v));
        (!bad).then_some(Target { segments, query })
    }

    /// The first value of `name`.
    pub fn value(&self, name: &str) -> Option<&[u8]> {
        let found = self.query.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| &value[..])
    }

    /// The same as text; text that is not UTF-8 is none.
    pub fn text(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.value(name)?).ok()
    }

    /// Whether the answer is to be JSON.
    pub fn json(&self) -> bool {
        self.value("json").is_some()
    }

    /// The path of a repository that begins with segment `from`.
    pub fn path_from(&self, from: usize) -> Vec<u8> {
        self.segments.get(from..).unwrap_or_default().join(&b'/')
    }
}

/// The pairs of a query or of a form.
pub fn pairs(text: &str) -> Vec<(String, Vec<u8>)> {
    let decoded = |text: &str| -> Vec<u8> {
        let spaced = text.replace('+', " ");
        percent_decode_str(&spaced).collect()
    };
    let pair = |part: &str| {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        (
            String::from_utf8_lossy(&decoded(key)).into_owned(),
            decoded(value),
        )
    };
    let parts = text.split('&').filter(|part| !part.is_empty());
    parts.map(pair).collect()
}

/// One segment of a path, or a value of a query.
pub fn encoded(bytes: &[u8]) -> String {
    percent_encode(bytes, PLAIN).to_string()
}

/// The address of a page about `path` in `revision`: `/file/REV/PATH`.
pub fn link<P: AsRef<[u8]> + ?Sized>(page: &str, revision: &str, path: &P) -> String {
    let mut out = format!("/{page}/{}", encoded(revision.as_bytes()));
    push_path(&mut out, path.as_ref());
    out
}

/// The address of a history: `/log/PATH`.
pub fn log_link(path: &[u8]) -> String {
    let mut out = "/log".to_owned();
    push_path(&mut out, path);
    out
}

/// A path in a revision. The root if the path is empty.
pub struct Place<'a>(pub &'a str, pub &'a [u8]);

/// The address of a comparison.
pub fn compare_link(a: Place<'_>, b: Place<'_>) -> String {
    let place = |Place(revision, path)| {
        let text = [revision.as_bytes(), b":", path].concat();
        encoded(&text)
    };
    format!("/compare?a={}&b={}", place(a), place(b))
}

/// The address of a comparison of the two sides of the conflict at a path.
pub fn sides_link(revision: &str, path: &[u8]) -> String {
    compare_link(Place(revision, path), Place(revision, path)) + "&a-side=ours&b-side=theirs"
}

fn push_path(out: &mut String, path: &[u8]) {
    for name in path.split(|b| *b == b'/').filter(|name| !name.is_empty()) {
        out.push('/');
        out.push_str(&encoded(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_survives_the_way_into_an_address_and_back() {
        let names: [&[u8]; 5] = [
            b"a/b c.txt",
            b"100%/#?&=+.png",
            b"\"><script>/x",
            b"\xff\xfe/..x",
            "Gr\u{fc}\u{df}e/\u{1f600}".as_bytes(),
        ];
        for name in names {
            let address = link("file", "feature/x", name);
            assert!(address.is_ascii() && !address.contains(['"', '<', '>', '?', '#', '+']));
            let target = Target::parse(&address, None).expect("an address");
            assert_eq!(target.segments[0], b"file");
            assert_eq!(target.segments[1], b"feature/x");
            assert_eq!(target.path_from(2), name);
        }
    }

    #[test]
    fn a_nul_is_in_no_address() {
        assert_eq!(Target::parse("/file/@/a%00b", None), None);
        assert_eq!(Target::parse("/", Some("a=%00")), None);
        assert_eq!(Target::parse(&"/a".repeat(MAX_TARGET_BYTES), None), None);
    }

    #[test]
    fn a_query_has_values_in_order() {
        let target = Target::parse("/compare", Some("a=x%3Ay+z&b=&json")).expect("a target");
        assert_eq!(target.text("a"), Some("x:y z"));
        assert_eq!(target.value("b"), Some(&b""[..]));
        assert!(target.json());
        assert_eq!(target.value("c"), None);
    }
}
