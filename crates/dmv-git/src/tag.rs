//! An annotated tag of Git as a DMV commit, and back: docs/format/git.md, "Tags".
//!
//! The module is pure: it reads and writes no objects.

use crate::commit::{MAX_EXTRA_BYTES, ident, message_of, person_of};
use crate::id::{GitId, GitType};
use crate::object::{BadObject, GitTag};
use dmv_core::ObjectId;
use dmv_core::object::commit::{Commit, TAG_KEY};
use std::borrow::Cow;

const VERSION: u8 = 1;

/// Returns the DMV commit that stands for the annotated tag with these bytes. It tags `tagged`, whose id is `id`.
/// Returns `None` if the tag is too long to be kept.
pub fn to_dmv(bytes: &[u8], id: ObjectId, tagged: &Commit) -> Result<Option<Commit>, BadObject> {
    let git = GitTag::parse(bytes)?;
    if is_too_long(bytes) {
        return Ok(None);
    }
    let value = [&[VERSION], bytes].concat();
    let tagger = person_of(&git.tagger, false);
    Ok(Some(Commit {
        tree: tagged.tree,
        tree_bytes: tagged.tree_bytes,
        tree_files: tagged.tree_files,
        parents: vec![id],
        generation: tagged.generation.saturating_add(1),
        author: tagger.clone(),
        committer: tagger,
        message: message_of(git.message, false),
        extras: vec![(TAG_KEY.to_vec(), value)],
        signature: None,
    }))
}

/// Returns whether a tag with these bytes is too long to be kept.
pub fn is_too_long(bytes: &[u8]) -> bool {
    bytes.len() >= MAX_EXTRA_BYTES
}

/// Returns the bytes of the tag that a commit stands for, if they tag the object `tagged` of the type `ty`.
///
/// The commit may come from a peer.
pub fn to_git(tag: &Commit, tagged: GitId, ty: GitType) -> Option<Cow<'_, [u8]>> {
    if let Some(name) = tag.tag_name() {
        let kind = format!("object {tagged}\ntype {}\ntag {name}\ntagger ", ty.word());
        let who = ident(&tag.committer, true);
        let text = format!("{kind}{who}\n\n{}\n", tag.message);
        return Some(text.into_bytes().into());
    }
    let (_, value) = tag.extras.iter().find(|(key, _)| key == TAG_KEY)?;
    let (version, bytes) = value.split_first()?;
    let git = GitTag::parse(bytes).ok().filter(|_| *version == VERSION)?;
    let fits = git.object == tagged && GitType::from_word(git.ty) == Some(ty);
    fits.then_some(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::first_commit;
    use crate::id::{Algorithm, id_of};
    use dmv_core::hash::{decode_hex, encode_hex};
    use dmv_core::object::ObjectType;

    #[test]
    fn a_tag_comes_back_byte_for_byte_and_only_for_its_object() {
        let git = id_of(Algorithm::Sha1, GitType::Commit, b"x");
        let text = format!(
            "object {git}\ntype commit\ntag v1\ntagger Ada <a@x> 12 +0100\n\nfirst\n\nmore\n"
        );
        let commit = Commit::decode(&sample()).expect("a commit");
        let id = ObjectId::from_bytes([1; 32]);
        let tag = to_dmv(text.as_bytes(), id, &commit)
            .expect("a tag")
            .expect("short enough");
        assert_eq!(
            Commit::decode(&tag.encode().expect("valid")),
            Ok(tag.clone())
        );
        assert_eq!(
            (&tag.message[..], &tag.author.name[..]),
            ("first\n\nmore", "Ada")
        );
        assert_eq!(
            (tag.tagged(), tag.generation, tag.tree),
            (Some(id), 2, commit.tree)
        );
        let bytes = to_git(&tag, git, GitType::Commit);
        assert_eq!(bytes.as_deref(), Some(text.as_bytes()));
        assert_eq!(to_git(&tag, git, GitType::Tag), None);
        let other = id_of(Algorithm::Sha1, GitType::Commit, b"y");
        assert_eq!(to_git(&tag, other, GitType::Commit), None);
        // The limit, and one byte more.
        let long = |bytes: usize| format!("{text}{}", "x".repeat(bytes - text.len()));
        let take = |text: String| to_dmv(text.as_bytes(), id, &commit).expect("a tag");
        let longest = take(long(MAX_EXTRA_BYTES - 1)).expect("short enough");
        assert!(longest.encode().is_ok());
        assert_eq!(take(long(MAX_EXTRA_BYTES)), None);
        assert!(to_dmv(b"object x", id, &commit).is_err());
    }

    #[test]
    fn a_tag_that_was_made_here_becomes_one_of_git() {
        let git = id_of(Algorithm::Sha1, GitType::Commit, b"x");
        let sample = Commit::decode(&sample()).expect("a commit");
        let tag = Commit {
            parents: vec![ObjectId::from_bytes([1; 32])],
            generation: 2,
            message: "final cut".to_owned(),
            extras: vec![Commit::tag_extra("v1.0")],
            ..sample
        };
        let bytes = to_git(&tag, git, GitType::Commit).expect("a tag");
        let text = format!("object {git}\ntype commit\ntag v1.0\ntagger ");
        assert!(bytes.starts_with(text.as_bytes()));
        assert!(bytes.ends_with(b"\n\nfinal cut\n"));
        let read = GitTag::parse(&bytes).expect("a tag of Git");
        assert_eq!((read.object, read.message), (git, &b"final cut\n"[..]));
    }

    /// Each line of the vectors has an object of Git and the commit that stands for it. A tag is one of the commit
    /// in the line before.
    #[test]
    fn commits_and_tags_have_the_bytes_of_the_vectors() {
        let text = include_str!("../../../docs/format/vectors/git.txt");
        let mut before: Option<(Commit, GitId, GitType)> = None;
        let mut lines = 0;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let [name, git, dmv] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{line}");
            };
            let git = decode_hex(git).expect("hex");
            let commit = Commit::decode(&decode_hex(dmv).expect("hex")).expect(name);
            let is_tag = name.starts_with("tag");
            let ty = if is_tag {
                GitType::Tag
            } else {
                GitType::Commit
            };
            let made = match &before {
                Some((tagged, id, ty)) if is_tag => {
                    assert_eq!(
                        to_git(&commit, *id, *ty).as_deref(),
                        Some(&git[..]),
                        "{name}"
                    );
                    let of = ObjectType::Commit.id_of(&tagged.encode().expect(name));
                    to_dmv(&git, of, tagged).expect(name).expect(name)
                }
                _ => first_commit(&git),
            };
            assert_eq!(encode_hex(&made.encode().expect(name)), dmv, "{name}");
            before = Some((made, id_of(Algorithm::Sha1, ty, &git), ty));
            lines += 1;
        }
        assert_eq!(lines, 4);
    }

    /// The bytes of a first commit.
    fn sample() -> Vec<u8> {
        let person = person_of(&crate::object::Ident::default(), false);
        let commit = Commit {
            tree: dmv_core::object::tree::empty_tree_id(),
            tree_bytes: 0,
            tree_files: 0,
            parents: Vec::new(),
            generation: 1,
            author: person.clone(),
            committer: person,
            message: String::new(),
            extras: Vec::new(),
            signature: None,
        };
        commit.encode().expect("valid")
    }
}
