//! Git's trees, commits and tags: their bytes taken apart, without a copy.
//!
//! Everything here is pure, and treats the bytes as hostile. Sources: Git's documentation,
//! gitdatamodel and gitformat-signature; `git fsck` for what Git itself refuses.

use crate::id::{Algorithm, GitId};

/// The header of a Git commit that names the DMV commit from which it was made.
pub const DMV_HEADER: &[u8] = b"dmv-commit ";

/// One name in a Git tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GitEntry<'a> {
    /// The mode in octal digits, as the tree has it.
    pub mode: &'a [u8],
    /// The name.
    pub name: &'a [u8],
    /// The object.
    pub id: GitId,
}

/// What a mode says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModeKind {
    /// A file, and whether it is executable.
    File {
        /// Whether its owner may execute it.
        executable: bool,
    },
    /// A symbolic link.
    Symlink,
    /// A directory.
    Directory,
    /// A commit of another repository.
    Submodule,
}

impl GitEntry<'_> {
    /// Returns what the mode says, and whether the mode is written as Git writes it today; `None` if Git
    /// knows no such mode.
    pub fn kind(&self) -> Option<(ModeKind, bool)> {
        kind_of(self.mode)
    }
}

/// Returns what a mode says, and whether it is written as Git writes it today; `None` if Git knows no such
/// mode. Other bytes than octal digits are no mode.
pub fn kind_of(mode: &[u8]) -> Option<(ModeKind, bool)> {
    let number = parse_octal(mode)?;
    let kind = match number & 0o170_000 {
        0o040_000 => ModeKind::Directory,
        0o120_000 => ModeKind::Symlink,
        0o160_000 => ModeKind::Submodule,
        0o100_000 => ModeKind::File {
            executable: number & 0o100 != 0,
        },
        _ => return None,
    };
    Some((kind, mode == usual_mode(kind)))
}

/// Returns the mode as Git writes it today.
pub fn usual_mode(kind: ModeKind) -> &'static [u8] {
    match kind {
        ModeKind::File { executable: true } => b"100755",
        ModeKind::File { executable: false } => b"100644",
        ModeKind::Symlink => b"120000",
        ModeKind::Directory => b"40000",
        ModeKind::Submodule => b"160000",
    }
}

fn parse_octal(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || digits.len() > 7 {
        return None;
    }
    digits.iter().try_fold(0, |value, digit| match digit {
        b'0'..=b'7' => Some(value * 8 + u32::from(digit - b'0')),
        _ => None,
    })
}

/// Takes a tree apart. After an entry that is no entry, it returns `Err` once and ends.
pub struct GitTree<'a> {
    rest: &'a [u8],
    algorithm: Algorithm,
}

/// The bytes are not what Git writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadObject(pub &'static str);

impl<'a> GitTree<'a> {
    /// Returns the entries of the tree with these bytes.
    pub fn new(bytes: &'a [u8], algorithm: Algorithm) -> GitTree<'a> {
        GitTree {
            rest: bytes,
            algorithm,
        }
    }

    fn entry(&mut self) -> Option<GitEntry<'a>> {
        let space = self.rest.iter().take(8).position(|b| *b == b' ')?;
        let (mode, rest) = (&self.rest[..space], &self.rest[space + 1..]);
        let end = rest.iter().position(|b| *b == 0)?;
        let (name, rest) = (&rest[..end], &rest[end + 1..]);
        let (id, rest) = rest.split_at_checked(self.algorithm.bytes())?;
        self.rest = rest;
        let id = GitId::new(id)?;
        Some(GitEntry { mode, name, id })
    }
}

impl<'a> Iterator for GitTree<'a> {
    type Item = Result<GitEntry<'a>, BadObject>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let entry = self.entry();
        if entry.is_none() {
            self.rest = &[];
        }
        Some(entry.ok_or(BadObject("a tree has an entry that Git does not write")))
    }
}

/// Appends an entry to the bytes of a tree.
pub fn put_entry(out: &mut Vec<u8>, entry: GitEntry<'_>) {
    out.extend_from_slice(entry.mode);
    out.push(b' ');
    out.extend_from_slice(entry.name);
    out.push(0);
    out.extend_from_slice(entry.id.as_bytes());
}

/// Returns the key by which Git orders the names of a tree: a directory's name ends in `/`.
pub fn order_key(name: &[u8], is_directory: bool) -> Vec<u8> {
    let mut key = name.to_vec();
    if is_directory {
        key.push(b'/');
    }
    key
}

/// Who and when, as a commit or tag has it: `Ada <ada@example.org> 1700000000 +0100`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ident<'a> {
    /// The name.
    pub name: &'a [u8],
    /// The address.
    pub email: &'a [u8],
    /// Seconds since 1970-01-01 UTC; 0 if there is no such number.
    pub seconds: i64,
    /// Offset of the local time from UTC, in minutes to the east; 0 if it is not a usual one.
    pub tz_minutes: i16,
}

impl<'a> Ident<'a> {
    /// Reads what it can: histories have idents without dates and with odd time zones.
    pub fn parse(line: &'a [u8]) -> Ident<'a> {
        let Some(open) = line.iter().position(|b| *b == b'<') else {
            return Ident {
                name: line.trim_ascii(),
                ..Ident::default()
            };
        };
        let name = line[..open].strip_suffix(b" ").unwrap_or(&line[..open]);
        let rest = &line[open + 1..];
        let close = rest.iter().rposition(|b| *b == b'>').unwrap_or(rest.len());
        let email = &rest[..close];
        let date = rest.get(close + 1..).unwrap_or_default().trim_ascii();
        let mut words = date.split(|b| *b == b' ');
        Ident {
            name,
            email,
            seconds: number(words.next().unwrap_or_default()).unwrap_or(0),
            tz_minutes: offset(words.next().unwrap_or_default()).unwrap_or(0),
        }
    }
}

fn number(digits: &[u8]) -> Option<i64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Reads `+0530`.
fn offset(text: &[u8]) -> Option<i16> {
    let (sign, digits) = match text {
        [b'+', digits @ ..] => (1, digits),
        [b'-', digits @ ..] => (-1, digits),
        _ => return None,
    };
    let value: i16 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (digits.len() == 4 && value < 2400 && value % 100 < 60)
        .then(|| sign * (value / 100 * 60 + value % 100))
}

/// A commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitCommit<'a> {
    /// The tree.
    pub tree: GitId,
    /// The parents, in order.
    pub parents: Vec<GitId>,
    /// Everything after the line of the tree.
    pub after_tree: &'a [u8],
    /// Everything after the lines of the parents.
    pub after_parents: &'a [u8],
    /// Who made the change.
    pub author: Ident<'a>,
    /// Who made the commit.
    pub committer: Ident<'a>,
    /// The value of the header `encoding`.
    pub encoding: Option<&'a [u8]>,
    /// The value of the header [`DMV_HEADER`].
    pub dmv: Option<&'a [u8]>,
    /// The message.
    pub message: &'a [u8],
}

impl<'a> GitCommit<'a> {
    /// Takes a commit apart.
    pub fn parse(bytes: &'a [u8]) -> Result<GitCommit<'a>, BadObject> {
        let mut rest = bytes;
        let tree = field(&mut rest, b"tree ").and_then(GitId::from_hex);
        let tree = tree.ok_or(BadObject("a commit does not begin with its tree"))?;
        let after_tree = rest;
        let mut parents = Vec::new();
        while rest.starts_with(b"parent ") {
            let parent = field(&mut rest, b"parent ").and_then(GitId::from_hex);
            parents.push(parent.ok_or(BadObject("a commit's parent is no id"))?);
        }
        let mut commit = GitCommit {
            tree,
            parents,
            after_tree,
            after_parents: rest,
            author: Ident::default(),
            committer: Ident::default(),
            encoding: None,
            dmv: None,
            message: b"",
        };
        while let Some(line) = line(&mut rest) {
            if line.is_empty() {
                commit.message = rest;
                break;
            } else if let Some(author) = line.strip_prefix(b"author ") {
                commit.author = Ident::parse(author);
            } else if let Some(committer) = line.strip_prefix(b"committer ") {
                commit.committer = Ident::parse(committer);
            } else if let Some(encoding) = line.strip_prefix(b"encoding ") {
                commit.encoding = Some(encoding);
            } else if let Some(id) = line.strip_prefix(DMV_HEADER) {
                commit.dmv = Some(id);
            }
        }
        Ok(commit)
    }
}

/// Returns the next line without its end, and leaves what follows; `None` at the end.
fn line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    if rest.is_empty() {
        return None;
    }
    let end = rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
    let line = &rest[..end];
    *rest = rest.get(end + 1..).unwrap_or_default();
    Some(line)
}

/// Returns the value of the next line, which must begin with `key`.
fn field<'a>(rest: &mut &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    line(rest)?.strip_prefix(key)
}

/// An annotated tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GitTag<'a> {
    /// The tagged object.
    pub object: GitId,
    /// Its type, in Git's word.
    pub ty: &'a [u8],
    /// Who tagged it; old tags do not say.
    pub tagger: Ident<'a>,
    /// The message, with a signature at its end if there is one.
    pub message: &'a [u8],
}

impl<'a> GitTag<'a> {
    /// Takes a tag apart.
    pub fn parse(bytes: &'a [u8]) -> Result<GitTag<'a>, BadObject> {
        let mut rest = bytes;
        let object = field(&mut rest, b"object ").and_then(GitId::from_hex);
        let object = object.ok_or(BadObject("a tag does not begin with its object"))?;
        let ty = field(&mut rest, b"type ").ok_or(BadObject("a tag has no type"))?;
        let (mut tagger, mut message) = (Ident::default(), &b""[..]);
        while let Some(line) = line(&mut rest) {
            if line.is_empty() {
                message = rest;
                break;
            } else if let Some(ident) = line.strip_prefix(b"tagger ") {
                tagger = Ident::parse(ident);
            }
        }
        Ok(GitTag {
            object,
            ty,
            tagger,
            message,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_ident_is_read_whatever_it_lacks() {
        let ada = |seconds, tz_minutes| Ident {
            name: b"Ada",
            email: b"a@x",
            seconds,
            tz_minutes,
        };
        for (line, want) in [
            (&b"Ada <a@x> 12 +0100"[..], ada(12, 60)),
            (b"Ada <a@x> -7 -0130", ada(-7, -90)),
            (b"Ada <a@x> 12 +9999", ada(12, 0)),
            (b"Ada <a@x> 12", ada(12, 0)),
            (b"Ada <a@x>", ada(0, 0)),
            (b"Ada <a@x", ada(0, 0)),
        ] {
            assert_eq!(Ident::parse(line), want, "{}", line.escape_ascii());
        }
        let nameless = Ident::parse(b"<a@x> 1 +0000");
        assert_eq!((nameless.name, nameless.seconds), (&b""[..], 1));
    }

    #[test]
    fn a_commit_comes_apart_into_its_lines() {
        let id = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";
        let text = format!(
            "tree {id}\nparent {id}\nauthor A <a> 1 +0000\ncommitter B <b> 2 +0000\nencoding latin1\n\
             gpgsig one\n two\n\nsubject\n\nbody\n"
        );
        let commit = GitCommit::parse(text.as_bytes()).expect("a commit");
        assert_eq!((commit.parents.len(), commit.author.name), (1, &b"A"[..]));
        assert_eq!(
            (commit.encoding, commit.committer.seconds),
            (Some(&b"latin1"[..]), 2)
        );
        assert_eq!(commit.message, b"subject\n\nbody\n");
        assert!(commit.after_parents.starts_with(b"author "));
        assert!(GitCommit::parse(b"tree 12\n").is_err());
    }

    #[test]
    fn modes_are_known_whatever_their_form() {
        let entry = |mode: &'static [u8]| GitEntry {
            mode,
            name: b"n",
            id: GitId::new(&[0; 20]).expect("20 bytes"),
        };
        for (mode, want) in [
            (&b"40000"[..], Some((ModeKind::Directory, true))),
            (b"040000", Some((ModeKind::Directory, false))),
            (
                b"100664",
                Some((ModeKind::File { executable: false }, false)),
            ),
            (b"100755", Some((ModeKind::File { executable: true }, true))),
            (b"160000", Some((ModeKind::Submodule, true))),
            (b"20000", None),
            (b"8", None),
            (b"", None),
        ] {
            assert_eq!(entry(mode).kind(), want, "{}", mode.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn a_tree_is_its_entries(names in proptest::collection::vec("[a-z]{1,9}", 0..9), cut in any::<prop::sample::Index>()) {
            let mut bytes = Vec::new();
            let id = GitId::new(&[7; 20]).expect("20 bytes");
            for name in &names {
                put_entry(&mut bytes, GitEntry { mode: b"100644", name: name.as_bytes(), id });
            }
            let read: Vec<_> = GitTree::new(&bytes, Algorithm::Sha1).map(|entry| entry.expect("whole").name.to_vec()).collect();
            prop_assert_eq!(read, names.iter().map(|name| name.as_bytes().to_vec()).collect::<Vec<_>>());
            // Whatever is cut off: an end.
            let cut = cut.index(bytes.len() + 1);
            prop_assert!(GitTree::new(&bytes[..cut], Algorithm::Sha1).count() <= names.len());
        }

        #[test]
        fn hostile_bytes_give_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = GitCommit::parse(&bytes);
            let _ = GitTag::parse(&bytes);
            let _ = Ident::parse(&bytes);
            let _ = GitTree::new(&bytes, Algorithm::Sha256).count();
        }
    }
}
