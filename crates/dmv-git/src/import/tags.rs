//! Annotated tags come in: each becomes a commit that tags another one.

use super::{Problem, Trouble, WantedRefs};
use crate::commit::MAX_EXTRA_BYTES;
use crate::error::GitError;
use crate::id::{GitId, GitType};
use crate::map::IdMap;
use crate::object::GitTag;
use crate::source::{GitRef, GitSource, SourceError};
use crate::tag;
use dmv_core::ObjectId;
use dmv_core::history::load_commit;
use dmv_core::limits::MAX_TAG_DEPTH;
use dmv_core::object::{ObjectError, ObjectRead, ObjectType, ObjectWrite};
use dmv_core::repo::Repo;
use std::collections::{HashMap, HashSet};
use std::io::Read;

/// Why a tag is taken without its message.
const TAG_TOO_LONG: &str =
    "the tag is too long to be kept; its commit has the name without the message";

/// Why a tag is left out.
const NO_COMMIT: &str = "it names no commit";

/// An annotated tag.
pub struct AnnotatedTag {
    /// `tag/NAME`.
    pub key: String,
    /// The tag objects, from the one that the ref names to the one that names the commit, with their ids.
    pub objects: Vec<(GitId, Vec<u8>)>,
}

/// Reads annotated tags, also those that name other tags.
pub fn read_tags(
    source: &GitSource,
    tags: Vec<GitRef>,
    wanted: &mut WantedRefs,
) -> Result<(), GitError> {
    struct OpenTag {
        found: GitRef,
        objects: Vec<(GitId, Vec<u8>)>,
        next: GitId,
    }
    let mut open: Vec<OpenTag> = tags
        .into_iter()
        .map(|found| OpenTag {
            next: found.id,
            found,
            objects: Vec::new(),
        })
        .collect();
    let mut whole = Vec::new();
    for _ in 0..MAX_TAG_DEPTH {
        if open.is_empty() {
            break;
        }
        let ids: Vec<GitId> = open.iter().map(|tag| tag.next).collect();
        let mut stream = source.read(&ids)?;
        let mut deeper = Vec::new();
        for mut tag in std::mem::take(&mut open) {
            let header = stream.next_object()?;
            header.ok_or_else(|| SourceError::Answer("too few tags".to_owned()))?;
            let mut bytes = Vec::new();
            // Of one that is too long to be kept, the beginning says what it tags.
            let mut beginning = Read::by_ref(&mut stream).take(MAX_EXTRA_BYTES as u64);
            beginning.read_to_end(&mut bytes).map_err(GitError::Read)?;
            let (object, ty) = match GitTag::parse(&bytes) {
                Ok(git) => (git.object, GitType::from_word(git.ty)),
                Err(e) => {
                    wanted.leave(tag.found, &e.to_string());
                    continue;
                }
            };
            tag.objects.push((tag.next, bytes));
            tag.next = object;
            match ty {
                Some(GitType::Commit) => whole.push(tag),
                Some(GitType::Tag) => deeper.push(tag),
                _ => wanted.leave(tag.found, NO_COMMIT),
            }
        }
        stream.end()?;
        open = deeper;
    }
    for tag in open {
        wanted.leave(tag.found, "it names a tag that names a tag, and so on");
    }
    // A tag may lie about what it names.
    let named: Vec<GitId> = whole.iter().map(|tag| tag.next).collect();
    let commits: HashSet<GitId> = source.commits_among(&named)?.into_iter().collect();
    for OpenTag {
        found,
        objects,
        next,
    } in whole
    {
        if !commits.contains(&next) {
            wanted.leave(found, NO_COMMIT);
            continue;
        }
        let key = found.name.replacen("refs/tags/", "tag/", 1);
        wanted.refs.insert(key.clone(), next);
        wanted.tags.push(AnnotatedTag { key, objects });
    }
    Ok(())
}

/// Annotated tags as commits.
#[derive(Default)]
pub struct ConvertedTags {
    /// The commits that stand for the tags, by their keys. Tags of commits that are not here have none.
    pub last: HashMap<String, ObjectId>,
    /// The bytes of those that are not stored yet.
    new: Vec<Vec<u8>>,
}

/// Makes commits of the annotated tags.
pub fn convert_tags(
    repo: &Repo,
    wanted: &WantedRefs,
    map: &mut IdMap,
) -> Result<ConvertedTags, GitError> {
    let mut converted = ConvertedTags::default();
    for AnnotatedTag { key, objects } in &wanted.tags {
        let target = wanted.refs.get(key).ok_or(GitError::Stale)?;
        let Some(known) = map.get(target)? else {
            continue;
        };
        let mut id = known.id;
        let mut tagged = load_commit(repo.objects(), &id)?;
        for (_, bytes) in objects.iter().rev() {
            let Some(tag) = tag::to_dmv(bytes, id, &tagged)? else {
                break;
            };
            let bytes = tag.encode().map_err(ObjectError::from)?;
            id = ObjectType::Commit.id_of(&bytes);
            if !repo.store().holds(ObjectType::Commit, &id)? {
                converted.new.push(bytes);
            }
            tagged = tag;
        }
        converted.last.insert(key.clone(), id);
    }
    Ok(converted)
}

/// Returns the tags that are taken without their messages.
pub fn long_tags(wanted: &WantedRefs) -> impl Iterator<Item = Problem> {
    wanted.tags.iter().filter_map(|tag| {
        let mut objects = tag.objects.iter().rev();
        let (object, _) = objects.find(|(_, bytes)| tag::is_too_long(bytes))?;
        Some(Problem::new(*object, Trouble::Id, TAG_TOO_LONG))
    })
}

/// Stores the commits that stand for annotated tags, and returns them by the keys of the tags.
pub fn put_tags(repo: &Repo, tags: ConvertedTags) -> Result<HashMap<String, ObjectId>, GitError> {
    if !tags.new.is_empty() {
        let incoming = repo.incoming()?;
        let mut lane = incoming.lane();
        for bytes in &tags.new {
            lane.put(ObjectType::Commit, bytes)?;
        }
        lane.flush()?;
        drop(lane);
        repo.keep_incoming(incoming)?;
    }
    Ok(tags.last)
}
