//! A Git tree becomes a DMV tree.
//!
//! What a DMV entry has no field for is kept among its attributes: docs/format/git.md.

use crate::error::GitError;
use crate::id::{Algorithm, GitId};
use crate::map::{Became, IdMap, KnownObject};
use crate::object::{GitEntry, GitTree, ModeKind};
use dmv_core::limits::{MAX_ATTR_BYTES, MAX_SYMLINK_BYTES};
use dmv_core::object::ObjectWrite;
use dmv_core::object::codec::{Decoder, put_bytes, put_varint};
use dmv_core::object::name::{NameError, SafeName};
use dmv_core::object::tree::{
    Kind, TreeBuilder, TreeEntry, TreeSummary, empty_tree_id, put_empty_tree,
};
use std::collections::{HashMap, HashSet};

/// The tag of what Git knows among the attributes of an entry.
pub const TAG_GIT: u64 = 3;
/// The value begins with one of these. Then follows the mode, the submodule's commit, or the pointer.
pub const ATTR_MODE: u8 = 1;
/// See [`ATTR_MODE`].
pub const ATTR_SUBMODULE: u8 = 2;
/// An empty directory that Git has, too.
pub const ATTR_EMPTY: u8 = 3;
/// A pointer of Git LFS.
pub const ATTR_POINTER: u8 = 4;

/// A tree cannot be converted yet.
pub enum NotYet {
    /// These objects have to come first.
    Needs(Vec<GitId>),
    /// It never can.
    Failed(GitError),
}

impl<E: Into<GitError>> From<E> for NotYet {
    fn from(e: E) -> NotYet {
        NotYet::Failed(e.into())
    }
}

/// A name that a tree of DMV cannot have.
#[derive(Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The name.
    pub name: Vec<u8>,
    /// The reason.
    pub why: String,
}

/// Converts trees whose entries are converted.
pub struct TreeMaker<'m> {
    /// What is converted.
    pub map: &'m mut IdMap,
    /// The texts of pointers whose content was taken instead.
    pub pointers: &'m HashMap<GitId, Vec<u8>>,
    /// The algorithm of the ids in the trees.
    pub algorithm: Algorithm,
}

impl TreeMaker<'_> {
    /// Converts a tree with these bytes, and stores it. Adds what has no place to `left_out`.
    pub fn convert(
        &mut self,
        bytes: &[u8],
        objects: &mut dyn ObjectWrite,
        left_out: &mut Vec<LeftOut>,
    ) -> Result<TreeSummary, NotYet> {
        let mut entries = Vec::new();
        let mut missing = Vec::new();
        let mut refused = Vec::new();
        for entry in GitTree::new(bytes, self.algorithm) {
            let entry = entry.map_err(GitError::from)?;
            match self.entry(entry, objects)? {
                EntryOutcome::Entry(made) => entries.push(made),
                EntryOutcome::Needs(id) => missing.push(id),
                EntryOutcome::Refused(why) => refused.push(LeftOut {
                    name: entry.name.to_vec(),
                    why,
                }),
            }
        }
        if !missing.is_empty() {
            return Err(NotYet::Needs(missing));
        }
        left_out.append(&mut refused);
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        entries.dedup_by(|second, first| {
            let is_double = second.name == first.name;
            if is_double {
                left_out.push(LeftOut {
                    name: second.name.as_bytes().to_vec(),
                    why: TWICE.to_owned(),
                });
            }
            is_double
        });
        let mut builder = TreeBuilder::new();
        for entry in &entries {
            builder.push(entry, objects)?;
        }
        Ok(builder.finish(objects)?)
    }

    fn entry(
        &mut self,
        git: GitEntry<'_>,
        objects: &mut dyn ObjectWrite,
    ) -> Result<EntryOutcome, GitError> {
        let refused = |why: &str| Ok(EntryOutcome::Refused(why.to_owned()));
        let (name, mode, is_usual) = match checked(&git) {
            Ok(checked) => checked,
            Err(why) => return refused(why),
        };
        if mode == ModeKind::Submodule {
            put_empty_tree(objects)?;
            let attrs = attribute(ATTR_SUBMODULE, git.id.as_bytes());
            return Ok(EntryOutcome::Entry(TreeEntry::directory(
                name,
                &empty_tree(),
                attrs,
            )));
        }
        let Some(known) = self.map.get(&git.id)? else {
            return Ok(EntryOutcome::Needs(git.id));
        };
        let mut attrs = if is_usual {
            None
        } else {
            attribute(ATTR_MODE, git.mode)
        };
        let kind = match (mode, known.became) {
            (ModeKind::Directory, Became::Tree { bytes, files }) => {
                if known.id == empty_tree_id() {
                    attrs = attribute(ATTR_EMPTY, b"");
                }
                let summary = TreeSummary {
                    id: known.id,
                    bytes,
                    files,
                    entries: 0,
                };
                return Ok(EntryOutcome::Entry(TreeEntry::directory(
                    name, &summary, attrs,
                )));
            }
            (ModeKind::File { executable }, Became::Blob { .. }) => {
                if let Some(text) = self.pointers.get(&git.id) {
                    attrs = attribute(ATTR_POINTER, text);
                }
                if executable {
                    Kind::Executable
                } else {
                    Kind::File
                }
            }
            (ModeKind::Symlink, Became::Blob { size, has_nul, .. }) => {
                if !is_target(size, has_nul) {
                    return refused(NO_TARGET);
                }
                Kind::Symlink
            }
            _ => return refused("its mode does not fit the type of the object"),
        };
        let Became::Blob { size, is_list, .. } = known.became else {
            return refused("its mode does not fit the type of the object");
        };
        Ok(EntryOutcome::Entry(TreeEntry {
            name,
            kind,
            is_list,
            id: known.id,
            size,
            files: 0,
            attrs,
        }))
    }
}

/// Why an entry is left out whose symlink has no valid target.
pub const NO_TARGET: &str = "a symbolic link leads to no path";
/// Why the second entry with a name is left out.
const TWICE: &str = "the directory has this name twice";

/// Returns the name of an entry, what its mode says, and whether the mode is written as usual; or why DMV cannot have
/// the entry, whatever it names.
fn checked(git: &GitEntry<'_>) -> Result<(SafeName, ModeKind, bool), &'static str> {
    let name = SafeName::new(git.name).map_err(NameError::why)?;
    let (mode, is_usual) = git.kind().ok_or("Git knows no such kind of file")?;
    Ok((name, mode, is_usual))
}

/// Returns whether a blob of `size` bytes can be the target of a symlink.
pub fn is_target(size: u64, has_nul: bool) -> bool {
    size > 0 && size <= MAX_SYMLINK_BYTES as u64 && !has_nul
}

/// What a tree has that DMV may refuse, as far as its bytes say.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Doubts {
    /// The names that are left out.
    pub left_out: Vec<LeftOut>,
    /// The names of symlinks, with their blobs: [`is_target`] says the rest.
    pub links: Vec<(Vec<u8>, GitId)>,
}

impl Doubts {
    /// Looks at the bytes of a tree.
    pub fn of(bytes: &[u8], algorithm: Algorithm) -> Result<Doubts, GitError> {
        let mut doubts = Doubts::default();
        let mut names = HashSet::new();
        for entry in GitTree::new(bytes, algorithm) {
            let entry = entry?;
            let why = match checked(&entry) {
                Err(why) => why,
                Ok(_) if !names.insert(entry.name) => TWICE,
                Ok((_, ModeKind::Symlink, _)) => {
                    doubts.links.push((entry.name.to_vec(), entry.id));
                    continue;
                }
                Ok(_) => continue,
            };
            doubts.left_out.push(LeftOut {
                name: entry.name.to_vec(),
                why: why.to_owned(),
            });
        }
        Ok(doubts)
    }
}

enum EntryOutcome {
    Entry(TreeEntry),
    Needs(GitId),
    Refused(String),
}

/// The empty directory.
fn empty_tree() -> TreeSummary {
    TreeSummary {
        id: empty_tree_id(),
        bytes: 0,
        files: 0,
        entries: 0,
    }
}

/// Returns the attributes of an entry: docs/format/objects.md, "Tree node".
fn attribute(kind: u8, value: &[u8]) -> Option<Box<[u8]>> {
    let mut attrs = Vec::new();
    put_varint(&mut attrs, TAG_GIT);
    put_bytes(&mut attrs, &[&[kind], value].concat());
    Some(attrs.into_boxed_slice())
}

/// Returns what Git knows of an entry: the kind, and what follows it.
pub fn git_attribute(attrs: Option<&[u8]>) -> Option<(u8, &[u8])> {
    let mut input = Decoder::new(attrs?);
    while input.remaining() > 0 {
        let tag = input.varint().ok()?;
        let value = input.bytes(MAX_ATTR_BYTES, "attribute is too long").ok()?;
        if tag == TAG_GIT {
            return value.split_first().map(|(kind, value)| (*kind, value));
        }
    }
    None
}

/// Returns the entry of the map for a converted tree.
pub fn known_tree(summary: &TreeSummary) -> KnownObject {
    KnownObject {
        id: summary.id,
        became: Became::Tree {
            bytes: summary.bytes,
            files: summary.files,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::put_entry;

    #[test]
    fn a_look_at_a_tree_finds_what_is_left_out() {
        let id = GitId::new(&[7; 20]).expect("20 bytes");
        let mut bytes = Vec::new();
        for (mode, name) in [
            ("100644", ".hg"),
            ("100644", "a"),
            ("120000", "link"),
            ("20000", "pipe"),
            ("40000", "a"),
        ] {
            let (mode, name) = (mode.as_bytes(), name.as_bytes());
            put_entry(&mut bytes, GitEntry { mode, name, id });
        }
        let doubts = Doubts::of(&bytes, Algorithm::Sha1).expect("a tree");
        let names: Vec<&[u8]> = doubts.left_out.iter().map(|out| &out.name[..]).collect();
        assert_eq!(names, [&b".hg"[..], b"pipe", b"a"]);
        assert_eq!(doubts.links, [(b"link".to_vec(), id)]);
        assert!(Doubts::of(b"100644 a", Algorithm::Sha1).is_err());
        assert!(is_target(1, false) && is_target(4095, false));
        assert!(!is_target(0, false) && !is_target(1, true) && !is_target(1 << 20, false));
    }

    #[test]
    fn an_attribute_is_read_back() {
        for length in [0, 1, 126, 127, 128, 700] {
            let value = vec![7; length];
            let attrs = attribute(ATTR_POINTER, &value);
            assert_eq!(
                git_attribute(attrs.as_deref()),
                Some((ATTR_POINTER, &value[..]))
            );
        }
        assert_eq!(git_attribute(None), None);
        assert_eq!(git_attribute(Some(&[1, 0])), None);
        assert_eq!(git_attribute(Some(&[3, 9, 1])), None, "cut off");
        assert_eq!(git_attribute(Some(&[0xff; 20])), None);
    }
}
