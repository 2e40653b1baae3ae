//! Whether a push changes what others hold, where a repository or bucket keeps to claims. docs/protocol.md,
//! "Claims", has the rule.

use super::claims::{ClaimInfo, present, version_at};
use super::exchange::RefUpdate;
use crate::claims::{Claim, ClaimBook, ClaimList, DEVICE_BYTES, HeldClaims, Writer};
use crate::diff::differing_names;
use crate::hash::ObjectId;
use crate::history::forks::{Fork, forks};
use crate::history::load_commit;
use crate::object::name::SafeName;
use crate::object::tree::{Kind, TreeEntry, lookup};
use crate::object::{ObjectRead, ObjectType};
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use std::collections::{BTreeSet, HashMap};

/// How many branches of the other side are looked at.
const MAX_BRANCHES: usize = 1024;
/// How many commits are read to find where a push begins.
const MAX_COMMITS: usize = 100_000;
/// With how many commits a push is compared.
const MAX_BASES: usize = 256;
/// Of so many names that differ in a directory, none is kept in memory.
const MAX_NAMES: usize = 1 << 16;

/// What a push has to keep to.
#[derive(Clone, Copy, Debug)]
pub struct PushedInto<'a> {
    /// The claims that are known here.
    pub book: &'a ClaimBook,
    /// The commits of the branches there. Tags do not count: nothing keeps anybody from pushing one.
    pub branches: &'a [ObjectId],
    /// The claims that hold there.
    pub held: &'a HeldClaims,
    /// The device that pushes, if it is known.
    pub device: Option<[u8; DEVICE_BYTES]>,
}

impl Repo {
    /// Returns the first claim that a push is not to pass: one of another device that holds, on a path that
    /// the push changes. What is absent here is not looked at.
    pub fn claim_against_push(
        &self,
        update: &RefUpdate,
        into: &PushedInto<'_>,
    ) -> Result<Option<ClaimInfo>, RepoError> {
        let (Some(new), Some(branch)) = (update.new, update.key.strip_prefix("branch/")) else {
            return Ok(None);
        };
        let mut held = held_by_others(into);
        let objects = self.objects();
        let Some(after) = tree_of(objects, &new)?.filter(|_| !held.is_empty()) else {
            return Ok(None);
        };
        let before = match update.old {
            Some(old) => tree_of(objects, &old)?,
            None => None,
        };
        if let Some(before) = before {
            held = changed(objects, before, after, held)?;
            // Whoever works on this branch waits for nothing that others bring to it.
            if let Some(held) = held.iter().find(|held| held.claim.branch == branch) {
                return Ok(Some(held.info()));
            }
        }
        if !held.is_empty() {
            for base in bases(objects, &new, into.branches)? {
                if let Some(before) = tree_of(objects, &base)? {
                    held = changed(objects, before, after, held)?;
                }
            }
        }
        if update.old.is_none() {
            held = other_than_claimed(objects, after, held)?;
        }
        Ok(held.first().map(HeldByOther::info))
    }
}

/// A claim of another device that holds.
struct HeldByOther<'b> {
    writer: Writer,
    list: &'b ClaimList,
    claim: &'b Claim,
}

impl HeldByOther<'_> {
    fn info(&self) -> ClaimInfo {
        ClaimInfo {
            claim: self.claim.clone(),
            writer: self.writer,
            by: self.list.by.clone(),
            is_own: false,
            is_here: false,
            held_at: Vec::new(),
            held_here: true,
            behind: None,
            progress: None,
        }
    }
}

fn held_by_others<'b>(into: &PushedInto<'b>) -> Vec<HeldByOther<'b>> {
    let others = into.held.iter();
    let others = others.filter(|held| Some(held.writer.device) != into.device);
    let found = others.filter_map(|held| {
        let list = into.book.get(&held.writer)?.list();
        let claim = list.at(&held.path)?;
        let writer = held.writer;
        Some(HeldByOther {
            writer,
            list,
            claim,
        })
    });
    found.collect()
}

/// Returns the commits that the branches there share with a pushed one: where the work on it began.
fn bases(
    objects: &dyn ObjectRead,
    new: &ObjectId,
    branches: &[ObjectId],
) -> Result<BTreeSet<ObjectId>, RepoError> {
    let mut tips: Vec<ObjectId> = Vec::new();
    let different: BTreeSet<ObjectId> = branches.iter().copied().collect();
    for tip in different.into_iter().take(MAX_BRANCHES) {
        if objects.holds(ObjectType::Commit, &tip)? {
            tips.push(tip);
        }
    }
    let mut found = BTreeSet::new();
    let forks = forks(objects, new, &tips, MAX_COMMITS)?;
    for (tip, fork) in tips.into_iter().zip(forks) {
        match fork {
            Fork::Contained => drop(found.insert(tip)),
            Fork::From(bases) => found.extend(bases),
            Fork::Covered | Fork::Unknown => {}
        }
    }
    Ok(found.into_iter().take(MAX_BASES).collect())
}

/// Keeps the claims on whose paths a tree has something else than the commit that their work began at.
fn other_than_claimed<'b>(
    objects: &dyn ObjectRead,
    tree: ObjectId,
    held: Vec<HeldByOther<'b>>,
) -> Result<Vec<HeldByOther<'b>>, RepoError> {
    let mut kept = Vec::new();
    for held in held {
        if version_at(objects, tree, &held.claim.path)?.is_some_and(|at| at != held.claim.version) {
            kept.push(held);
        }
    }
    Ok(kept)
}

/// Keeps the claims on whose paths two trees differ.
fn changed<'b>(
    objects: &dyn ObjectRead,
    before: ObjectId,
    after: ObjectId,
    held: Vec<HeldByOther<'b>>,
) -> Result<Vec<HeldByOther<'b>>, RepoError> {
    let mut trees = TreePair::new(objects, before, after);
    let mut kept = Vec::new();
    for held in held {
        let found = trees.at(held.claim.path.components())?;
        if found.two != FoundEntry::Unknown && !found.is_same() {
            kept.push(held);
        }
    }
    Ok(kept)
}

/// What a tree has at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundEntry {
    /// There is nothing.
    Nothing,
    /// A directory.
    Directory(ObjectId),
    /// A file, a symlink or a conflict.
    File(ObjectId),
    /// It is absent here.
    Unknown,
}

impl FoundEntry {
    fn of(entry: Option<TreeEntry>) -> FoundEntry {
        match entry {
            None => FoundEntry::Nothing,
            Some(entry) if entry.kind == Kind::Directory => FoundEntry::Directory(entry.id),
            Some(entry) => FoundEntry::File(entry.id),
        }
    }
}

/// What two trees have at a path.
#[derive(Clone, Copy, Debug)]
pub struct FoundPair {
    /// What the first one has.
    pub one: FoundEntry,
    /// What the second one has.
    pub two: FoundEntry,
}

impl FoundPair {
    const NOTHING: FoundPair = FoundPair {
        one: FoundEntry::Nothing,
        two: FoundEntry::Nothing,
    };

    /// Returns whether both have the same, as far as both know what they have.
    pub fn is_same(self) -> bool {
        self.one == self.two
    }

    /// Returns whether both know what they have.
    pub fn is_known(self) -> bool {
        ![self.one, self.two].contains(&FoundEntry::Unknown)
    }
}

/// Two trees that are compared at some paths. Reads only directories that differ, and each of them once.
pub struct TreePair<'o> {
    objects: &'o dyn ObjectRead,
    roots: FoundPair,
    /// What differs in the directories that were compared, by their paths.
    levels: HashMap<Vec<u8>, Differences>,
}

/// The names that differ in two directories; `None` if part of one is absent, or if they are too many to keep.
type Differences = Option<HashMap<SafeName, FoundPair>>;

impl TreePair<'_> {
    /// Returns two trees to compare. Reads nothing yet.
    pub fn new(objects: &dyn ObjectRead, one: ObjectId, two: ObjectId) -> TreePair<'_> {
        TreePair {
            objects,
            roots: FoundPair {
                one: FoundEntry::Directory(one),
                two: FoundEntry::Directory(two),
            },
            levels: HashMap::new(),
        }
    }

    /// Returns what both have at a path. Two equal values say that they have the same there, or that it is the
    /// same directory above that neither of them knows.
    pub fn at<'n>(
        &mut self,
        names: impl Iterator<Item = &'n [u8]>,
    ) -> Result<FoundPair, RepoError> {
        let (mut path, mut found) = (Vec::new(), self.roots);
        for name in names {
            if found.is_same() {
                break;
            }
            found = self.below(&path, found, name)?;
            path.push(b'/');
            path.extend_from_slice(name);
        }
        Ok(found)
    }

    /// Returns what both have at a name in what they have at `path`.
    fn below(
        &mut self,
        path: &[u8],
        found: FoundPair,
        name: &[u8],
    ) -> Result<FoundPair, RepoError> {
        if let (FoundEntry::Directory(one), FoundEntry::Directory(two)) = (found.one, found.two) {
            if !self.levels.contains_key(path) {
                let level = differing(self.objects, one, two)?;
                self.levels.insert(path.to_vec(), level);
            }
            if let Some(Some(level)) = self.levels.get(path) {
                return Ok(level.get(name).copied().unwrap_or(FoundPair::NOTHING));
            }
        }
        Ok(FoundPair {
            one: found_below(self.objects, found.one, name)?,
            two: found_below(self.objects, found.two, name)?,
        })
    }
}

fn differing(
    objects: &dyn ObjectRead,
    one: ObjectId,
    two: ObjectId,
) -> Result<Differences, RepoError> {
    let names = present(differing_names(objects, one, two, MAX_NAMES))?;
    Ok(names.filter(|names| names.len() < MAX_NAMES).map(|names| {
        let both = names.into_iter().filter_map(|[one, two]| {
            let name = one.as_ref().or(two.as_ref())?.name.clone();
            let (one, two) = (FoundEntry::of(one), FoundEntry::of(two));
            Some((name, FoundPair { one, two }))
        });
        both.collect()
    }))
}

/// Returns what one tree has at a name in what it has above it.
fn found_below(
    objects: &dyn ObjectRead,
    above: FoundEntry,
    name: &[u8],
) -> Result<FoundEntry, RepoError> {
    match above {
        FoundEntry::Directory(dir) => {
            let entry = present(lookup(objects, &dir, name))?;
            Ok(entry.map_or(FoundEntry::Unknown, FoundEntry::of))
        }
        FoundEntry::File(_) | FoundEntry::Nothing => Ok(FoundEntry::Nothing),
        FoundEntry::Unknown => Ok(FoundEntry::Unknown),
    }
}

/// Returns the tree of a commit; `None` if the commit is absent.
pub fn tree_of(objects: &dyn ObjectRead, commit: &ObjectId) -> Result<Option<ObjectId>, RepoError> {
    Ok(present(load_commit(objects, commit))?.map(|commit| commit.tree))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::PLACE_BYTES;
    use crate::hash::chunk_id;
    use crate::object::ObjectError;
    use crate::object::mem::MemObjects;
    use crate::object::name::RepoPath;
    use crate::object::tree::{TreeBuilder, TreeSummary};

    type Outcome = Result<(), Box<dyn std::error::Error>>;

    fn name(text: &str) -> SafeName {
        SafeName::new(text.as_bytes()).expect("it is allowed")
    }

    fn file(at: &str, content: &str) -> TreeEntry {
        TreeEntry {
            name: name(at),
            kind: Kind::File,
            is_list: false,
            id: chunk_id(content.as_bytes()),
            size: 1,
            files: 0,
            attrs: None,
        }
    }

    fn tree(mem: &MemObjects, entries: &[TreeEntry]) -> Result<TreeSummary, ObjectError> {
        let (mut writer, mut builder) = (mem, TreeBuilder::new());
        for entry in entries {
            builder.push(entry, &mut writer)?;
        }
        builder.finish(&mut writer)
    }

    /// A tree with 60 directories of 60 files each. Those in `changed` have another content.
    fn world(mem: &MemObjects, changed: &[&str]) -> Result<ObjectId, ObjectError> {
        let mut dirs = Vec::new();
        for d in 10..70 {
            let mut files = Vec::new();
            for f in 10..70 {
                let is_changed = changed.contains(&&*format!("d{d}/f{f}"));
                let content = if is_changed { "new" } else { "old" };
                files.push(file(&format!("f{f}"), content));
            }
            let below = tree(mem, &files)?;
            dirs.push(TreeEntry::directory(name(&format!("d{d}")), &below, None));
        }
        Ok(tree(mem, &dirs)?.id)
    }

    fn claims(paths: impl Iterator<Item = String>) -> ClaimList {
        let (device, place) = ([1; DEVICE_BYTES], [1; PLACE_BYTES]);
        let mut list = ClaimList::before_the_first(Writer { device, place });
        for path in paths {
            list.put(Claim {
                path: RepoPath::parse(path.as_bytes()).expect("it is allowed"),
                branch: String::new(),
                base: None,
                version: None,
                takes: false,
                time: 1,
                since: 0,
                reason: String::new(),
            });
        }
        list
    }

    fn held(list: &ClaimList) -> Vec<HeldByOther<'_>> {
        let all = list.claims.iter();
        let held = all.map(|claim| HeldByOther {
            writer: list.writer,
            list,
            claim,
        });
        held.collect()
    }

    fn paths_of(held: &[HeldByOther<'_>]) -> Vec<String> {
        held.iter()
            .map(|held| held.claim.path.to_string())
            .collect()
    }

    #[test]
    fn only_directories_that_differ_are_read() -> Outcome {
        let mem = MemObjects::new();
        let (before, after) = (world(&mem, &[])?, world(&mem, &["d20/f30", "d40/f50"])?);
        let all = (10..70).flat_map(|d| (10..70).map(move |f| format!("d{d}/f{f}")));
        let list = claims(all);
        mem.reset_reads();
        let found = changed(&mem, before, after, held(&list))?;
        assert_eq!(paths_of(&found), ["d20/f30", "d40/f50"]);
        // The two roots and the two directories that differ, each with a few nodes.
        let most = 2 * 3 * 4;
        assert!(mem.reads() <= most, "{} reads", mem.reads());
        mem.reset_reads();
        assert_eq!(
            paths_of(&changed(&mem, after, after, held(&list))?),
            [""; 0]
        );
        assert_eq!(mem.reads(), 0, "nothing differs");
        Ok(())
    }

    #[test]
    fn a_claim_counts_above_at_and_below_a_change() -> Outcome {
        let mem = MemObjects::new();
        let (before, after) = (world(&mem, &[])?, world(&mem, &["d20/f30"])?);
        let paths = ["d20", "d20/f30", "d20/f30/x", "d20/f31", "d21", "none/x"];
        let list = claims(paths.into_iter().map(str::to_owned));
        let found = changed(&mem, before, after, held(&list))?;
        assert_eq!(paths_of(&found), ["d20", "d20/f30"]);
        let small = tree(&mem, &[])?.id;
        let found = changed(&mem, before, small, held(&list))?;
        assert_eq!(paths_of(&found), ["d20", "d20/f30", "d20/f31", "d21"]);
        // What is absent is not looked at.
        let directory = lookup(&mem, &after, b"d20")?.ok_or("a directory")?.id;
        assert!(mem.remove(ObjectType::Tree, &directory));
        let found = changed(&mem, before, after, held(&list))?;
        assert_eq!(paths_of(&found), ["d20"]);
        Ok(())
    }
}
