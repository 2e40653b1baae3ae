//! The files of a bucket, as bytes: docs/format/bucket.md.
//!
//! The decoders compare every length and count with its limit before they allocate memory for it,
//! and accept only what the encoders make.

mod claims;
mod listed;
mod page;
mod places;
mod root;
mod rows;
mod view;

pub use claims::{CLAIMS, ClaimsFile, MAX_CLAIMS_BYTES};
pub use listed::{
    Expirations, ListedContent, MAX_LISTED_PAGES, PurgedContent, Purges, Reason, ReasonList,
    join_listed,
};
pub use page::{Page, PageKind, PageRef};
pub use places::{FramePlace, MAX_PLACES, Node, Places};
pub use root::{Age, MAX_ENTRIES, MAX_ROWS, Root, RootPurges};
pub use rows::{Entry, MAX_LEFT, Row, RowKind};
pub use view::{View, ViewChanges};

use dmv_core::hash::{check, decode_hex, encode_hex};
use dmv_core::object::codec::{DecodeError, Decoder};
use dmv_core::store::RepositoryId;
use std::fmt;

/// The name of the file of a bucket that says what the repository consists of, below the bucket's prefix.
pub const ROOT: &str = "root";
/// The maximum number of bytes of a root.
pub const MAX_ROOT_BYTES: usize = 1 << 20;
/// The maximum number of bytes of a page.
pub const MAX_PAGE_BYTES: usize = 16 << 20;
/// The maximum number of pages of one kind that a root names.
pub const MAX_PAGES: usize = 4096;
const MAX_KEY_BYTES: usize = 1024;
const MAX_VALUE_BYTES: usize = 128 << 10;
const CHECK_BYTES: usize = 8;

/// The name of a file in a bucket that never changes: a pack or a page. It is random, and names one
/// upload only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(pub [u8; 16]);

impl Name {
    /// Returns the path of the file below the bucket's prefix.
    pub fn path(&self, repository: RepositoryId) -> String {
        format!("{repository}/{self}")
    }

    /// Returns the name that is written like this, if it is one.
    pub fn from_hex(hex: &str) -> Option<Name> {
        decode_hex(hex)?.try_into().ok().map(Name)
    }

    fn decode(input: &mut Decoder) -> Result<Name, DecodeError> {
        Ok(Name(sixteen(input)?))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&encode_hex(&self.0))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

fn sixteen(input: &mut Decoder) -> Result<[u8; 16], DecodeError> {
    Ok(input
        .take(16)?
        .try_into()
        .expect("sixteen bytes were taken"))
}

/// Begins a file: its magic and the version.
fn begin(magic: &[u8; 8], version: u8) -> Vec<u8> {
    [&magic[..], &[version]].concat()
}

/// Ends a file with the check of everything before.
fn end(mut bytes: Vec<u8>) -> Vec<u8> {
    let check = check(&[&bytes]);
    bytes.extend_from_slice(&check);
    bytes
}

/// Returns the version of a file, up to the `newest`, and a decoder of what stands between the version
/// and the check.
fn open<'a>(
    bytes: &'a [u8],
    magic: &[u8; 8],
    newest: u8,
    max: usize,
) -> Result<(u8, Decoder<'a>), DecodeError> {
    let mut input = Decoder::new(bytes);
    if bytes.len() > max {
        return Err(input.error("file is too large"));
    }
    if input.take(8)? != magic {
        return Err(input.error("wrong magic"));
    }
    // A later version may have another check.
    let version = input.version(1..=newest)?;
    let body = input.remaining().checked_sub(CHECK_BYTES);
    let body = input.position() + body.ok_or_else(|| input.error("input ends too soon"))?;
    let (checked, found) = bytes.split_at(body);
    if check(&[checked]) != *found {
        return Err(input.error("wrong check"));
    }
    let mut input = Decoder::new(checked);
    input.take(8 + 1)?;
    Ok((version, input))
}
