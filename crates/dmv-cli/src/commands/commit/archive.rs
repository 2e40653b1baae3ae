//! Reading tar archives from anywhere. Limits come first, and what no commit can take is refused.

use crate::failure::{EXIT_OTHER, EXIT_REFUSED, Failure};
use dmv_core::fsutil::FileTime;
use dmv_core::object::name::{RepoPath, escape};
use dmv_core::path::PathError;
use dmv_core::repo::{FileFacts, RepoError};
use std::io::{self, Read};
use tar::{Archive, Entry, EntryType, PaxExtensions};

/// A long name or a list of attributes has at most so many bytes.
const MAX_HEADER_BYTES: u64 = 1 << 20;

/// An archive has at most so many entries.
const MAX_ENTRIES: usize = 1 << 20;

/// What an archive has at a path.
pub enum Item<'r> {
    /// A file.
    File {
        /// Its permissions and time.
        facts: FileFacts,
        /// Its content.
        content: &'r mut dyn Read,
    },
    /// A symlink to this.
    Link(Vec<u8>),
    /// A directory.
    Directory,
}

/// Passes everything in an archive to `take`, up to the first failure.
///
/// # Errors
///
/// If it is no archive, or not whole, or has something that no commit can take.
pub fn read_archive(
    input: impl Read,
    take: &mut dyn FnMut(RepoPath, Item<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut input = WatchedEnd {
        input,
        has_ended: false,
    };
    let mut archive = Archive::new(&mut input);
    let mut long = LongNames::default();
    for (number, entry) in archive.entries().map_err(broken)?.raw(true).enumerate() {
        if number == MAX_ENTRIES {
            return Err(refused("the archive", "it has too many entries"));
        }
        let mut entry = entry.map_err(broken)?;
        if !long.note(&mut entry)? {
            pass(entry, std::mem::take(&mut long), take)?;
        }
    }
    if input.has_ended {
        return Err(broken(io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(())
}

/// What stands before an entry because its header has no room for it.
#[derive(Default)]
struct LongNames {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<Vec<u8>>,
    modified: Option<FileTime>,
}

impl LongNames {
    /// Returns whether the entry is about the next one, and notes it then.
    fn note(&mut self, entry: &mut Entry<'_, impl Read>) -> Result<bool, Failure> {
        match entry.header().entry_type() {
            EntryType::GNULongName => self.path = Some(text(entry)?),
            EntryType::GNULongLink => self.link = Some(text(entry)?),
            EntryType::XHeader => {
                let bytes = bounded(entry)?;
                for extension in PaxExtensions::new(&bytes) {
                    let extension = extension.map_err(broken)?;
                    let value = Some(extension.value_bytes().to_vec());
                    match extension.key_bytes() {
                        b"path" => self.path = value,
                        b"linkpath" => self.link = value,
                        b"size" => self.size = value,
                        b"mtime" => self.modified = time_of(extension.value_bytes()),
                        key if key.starts_with(b"GNU.sparse") => {
                            return Err(refused("the archive", "it has files with holes"));
                        }
                        _ => {}
                    }
                }
            }
            // Comments about the archive.
            EntryType::XGlobalHeader => drop(bounded(entry)?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn pass(
    mut entry: Entry<'_, impl Read>,
    long: LongNames,
    take: &mut dyn FnMut(RepoPath, Item<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let name = match long.path {
        Some(name) => name,
        None => entry.path_bytes().into_owned(),
    };
    let ty = entry.header().entry_type();
    let is_directory = ty == EntryType::Directory || name.ends_with(b"/");
    let Some(path) = path_of(&name)? else {
        // The directory that was packed.
        return Ok(());
    };
    let size = entry.header().entry_size().map_err(broken)?;
    if long
        .size
        .is_some_and(|told| told != size.to_string().as_bytes())
    {
        // The reader would go on at the wrong place.
        return Err(refused(
            &path.to_string(),
            "its size is only in a pax header; use tar --format=gnu",
        ));
    }
    match ty {
        EntryType::Directory => take(path, Item::Directory),
        EntryType::Regular | EntryType::Continuous if is_directory && size > 0 => Err(refused(
            &path.to_string(),
            "it is a file whose name ends with a slash",
        )),
        EntryType::Regular | EntryType::Continuous if is_directory => take(path, Item::Directory),
        EntryType::Regular | EntryType::Continuous => {
            let header = entry.header();
            let seconds = header.mtime().ok().and_then(|time| time.try_into().ok());
            let told = seconds.map(|seconds| FileTime { seconds, nanos: 0 });
            let facts = FileFacts {
                mode: header.mode().map_err(broken)?,
                modified: long.modified.or(told),
            };
            let mut content = Whole {
                content: &mut entry,
                left: size,
            };
            let content = &mut content;
            take(path, Item::File { facts, content })
        }
        EntryType::Symlink => {
            let told = entry.link_name_bytes().map(|name| name.into_owned());
            take(path, Item::Link(long.link.or(told).unwrap_or_default()))
        }
        ty => {
            let what = match ty {
                EntryType::Link => "a hard link",
                EntryType::Char | EntryType::Block => "a device",
                EntryType::Fifo => "a FIFO",
                EntryType::GNUSparse => "a file with holes",
                _ => "of an unknown type",
            };
            Err(refused(&path.to_string(), &format!("it is {what}")))
        }
    }
}

/// The path of an entry; `None` for the directory that was packed.
fn path_of(name: &[u8]) -> Result<Option<RepoPath>, Failure> {
    let mut rest = name;
    while let Some(below) = rest.strip_prefix(b"./") {
        rest = below;
    }
    let rest = rest.strip_suffix(b"/").unwrap_or(rest);
    if rest.is_empty() && !name.starts_with(b"/") || rest == b"." {
        return Ok(None);
    }
    match RepoPath::parse(rest) {
        Ok(path) if !path.is_root() => Ok(Some(path)),
        Ok(_) => Err(refused(
            &escape(name).to_string(),
            "it is no path of a repository",
        )),
        Err(e) => Err(refused(&escape(name).to_string(), &e.to_string())),
    }
}

/// A time in seconds since 1970, perhaps with a fraction. One that makes no sense is none.
fn time_of(text: &[u8]) -> Option<FileTime> {
    let text = str::from_utf8(text).ok()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let seconds: i64 = whole.parse().ok()?;
    if whole.starts_with('-') || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let digits: String = fraction
        .chars()
        .chain("000000000".chars())
        .take(9)
        .collect();
    let nanos = digits.parse().ok()?;
    Some(FileTime { seconds, nanos })
}

/// The failure of storing content from an archive. If the content has ended too early, the archive has.
pub fn not_stored(e: RepoError) -> Failure {
    match e {
        RepoError::Io(PathError { source, .. })
            if source.kind() == io::ErrorKind::UnexpectedEof =>
        {
            broken(source)
        }
        e => e.into(),
    }
}

/// The text of an entry, without the zero byte at its end.
fn text(entry: &mut Entry<'_, impl Read>) -> Result<Vec<u8>, Failure> {
    let mut text = bounded(entry)?;
    let end = text.iter().position(|b| *b == 0);
    text.truncate(end.unwrap_or(text.len()));
    Ok(text)
}

fn bounded(entry: &mut Entry<'_, impl Read>) -> Result<Vec<u8>, Failure> {
    let size = entry.header().entry_size().map_err(broken)?;
    if size > MAX_HEADER_BYTES {
        return Err(refused("the archive", "it has a header of more than 1 MiB"));
    }
    let mut bytes = Vec::new();
    let mut content = Whole {
        content: entry,
        left: size,
    };
    content.read_to_end(&mut bytes).map_err(broken)?;
    Ok(bytes)
}

/// Content that fails if it ends too early.
struct Whole<R> {
    content: R,
    left: u64,
}

impl<R: Read> Read for Whole<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.content.read(buf)?;
        if read == 0 && self.left > 0 && !buf.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= read as u64;
        Ok(read)
    }
}

/// Input that tells whether its end was read. An archive says itself where it ends, so none that is whole gets there.
struct WatchedEnd<R> {
    input: R,
    has_ended: bool,
}

impl<R: Read> Read for WatchedEnd<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buf)?;
        self.has_ended |= read == 0 && !buf.is_empty();
        Ok(read)
    }
}

fn broken(e: io::Error) -> Failure {
    let message = match e.kind() {
        io::ErrorKind::UnexpectedEof => "the archive is not whole: it ends too early".to_owned(),
        _ => format!("cannot read the archive: {e}"),
    };
    Failure::new("bad-archive", EXIT_OTHER, message)
}

fn refused(what: &str, why: &str) -> Failure {
    let message = format!("{what} cannot be committed: {why}; nothing was committed");
    Failure::new("refused-entry", EXIT_REFUSED, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tar::{Builder, Header};

    /// An archive of one entry with this name in its header, whatever it is.
    fn archive(ty: EntryType, name: &[u8], content: &[u8]) -> Vec<u8> {
        let mut header = Header::new_gnu();
        header.as_old_mut().name[..name.len()].copy_from_slice(name);
        header.set_entry_type(ty);
        header.set_size(content.len() as u64);
        header.set_mode(0o755);
        header.set_cksum();
        let mut out = header.as_bytes().to_vec();
        out.extend_from_slice(content);
        out.resize(out.len().next_multiple_of(512), 0);
        out
    }

    fn end(mut archive: Vec<u8>) -> Vec<u8> {
        archive.resize(archive.len() + 1024, 0);
        archive
    }

    fn read(bytes: &[u8]) -> Result<Vec<(String, String)>, &'static str> {
        let mut out = Vec::new();
        let done = read_archive(bytes, &mut |path, item| {
            let what = match item {
                Item::File { facts, content } => {
                    let mut text = String::new();
                    content.read_to_string(&mut text).map_err(broken)?;
                    let at = facts.modified.map(|time| (time.seconds, time.nanos));
                    format!("{:o} {text} {at:?}", facts.mode)
                }
                Item::Link(target) => format!("-> {}", escape(&target)),
                Item::Directory => "directory".to_owned(),
            };
            out.push((path.to_string(), what));
            Ok(())
        });
        done.map(|()| out).map_err(|failure| failure.code)
    }

    fn pair(path: &str, what: &str) -> (String, String) {
        (path.to_owned(), what.to_owned())
    }

    #[test]
    fn files_links_and_directories_are_passed_on() -> io::Result<()> {
        let long = format!("d/{}", "x".repeat(200));
        let mut builder = Builder::new(Vec::new());
        let mut header = Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(1);
        header.set_mtime(7);
        builder.append_data(&mut header.clone(), &long, &b"1"[..])?;
        builder.append_pax_extensions([("path", &b"pax"[..]), ("mtime", &b"8.25"[..])])?;
        builder.append_data(&mut header.clone(), "short", &b"2"[..])?;
        header.set_size(0);
        header.set_entry_type(EntryType::Symlink);
        builder.append_link(&mut header.clone(), "link", format!("../{long}"))?;
        let packed = [
            builder
                .into_inner()?
                .split_last_chunk::<1024>()
                .map_or(&[][..], |(all, _)| all),
            &archive(EntryType::Directory, b"./e/", b""),
            &archive(EntryType::Directory, b"./", b""),
        ]
        .concat();
        let expected = [
            pair(&long, "644 1 Some((7, 0))"),
            pair("pax", "644 2 Some((8, 250000000))"),
            pair("link", &format!("-> ../{long}")),
            pair("e", "directory"),
        ];
        assert_eq!(read(&end(packed)), Ok(expected.to_vec()));
        Ok(())
    }

    #[test]
    fn what_no_commit_can_take_is_refused() {
        for (ty, name) in [
            (EntryType::Regular, &b"../a"[..]),
            (EntryType::Regular, b"/a"),
            (EntryType::Regular, b"a/../b"),
            (EntryType::Regular, b"a//b"),
            (EntryType::Regular, b".dmv/config.toml"),
            (EntryType::Regular, b"a/.git/config"),
            (EntryType::Link, b"a"),
            (EntryType::Char, b"a"),
            (EntryType::Block, b"a"),
            (EntryType::Fifo, b"a"),
            (EntryType::GNUSparse, b"a"),
            (EntryType::new(b'Z'), b"a"),
            (EntryType::Directory, b"/"),
        ] {
            let packed = end(archive(ty, name, b""));
            assert_eq!(read(&packed), Err("refused-entry"), "{}", escape(name));
        }
        let file = end(archive(EntryType::Regular, b"a/", b"content"));
        assert_eq!(read(&file), Err("refused-entry"));
        let size = [
            &archive(EntryType::XHeader, b"x", b"12 size=100\n"),
            &archive(EntryType::Regular, b"a", b"1")[..],
        ];
        assert_eq!(read(&end(size.concat())), Err("refused-entry"));
        let sparse = archive(EntryType::XHeader, b"x", b"22 GNU.sparse.major=1\n");
        assert_eq!(read(&end(sparse)), Err("refused-entry"));
    }

    #[test]
    fn a_time_that_makes_no_sense_is_none() {
        for text in ["", ".", "-1", "1e3", "1.x", "99999999999999999999"] {
            assert_eq!(time_of(text.as_bytes()), None, "{text}");
        }
        let time = |seconds, nanos| Some(FileTime { seconds, nanos });
        assert_eq!(time_of(b"5"), time(5, 0));
        assert_eq!(time_of(b"5.0000000019"), time(5, 1));
    }

    #[test]
    fn a_long_name_is_not_read_beyond_its_limit() {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::GNULongName);
        header.set_size(MAX_HEADER_BYTES + 1);
        header.set_cksum();
        assert_eq!(read(&end(header.as_bytes().to_vec())), Err("refused-entry"));
    }

    #[test]
    fn some_text_is_no_archive() {
        assert_eq!(
            read(b"no archive at all, but some text".repeat(40).as_slice()),
            Err("bad-archive")
        );
    }
}
