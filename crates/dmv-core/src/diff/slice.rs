//! The differences between two trees, each seen through a subset.
//!
//! Directories that both subsets exclude are not read. If both subsets include all of a directory,
//! or one includes all and the other nothing, [`diff_dirs`] does the work and skips equal ids.

use super::{DiffVisitor, diff_dirs, is_reported, reports};
use crate::hash::ObjectId;
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry, TreeIter, empty_tree_id, lookup};
use crate::object::{ObjectError, ObjectRead};
use crate::subset::{Extent, PathSet, Subset};
use std::cmp::Ordering;
use std::ops::ControlFlow;

/// A tree, limited to some of its paths.
#[derive(Clone, Copy)]
pub(crate) struct Slice<'s> {
    /// The root; `None` means no tree at all.
    pub tree: Option<ObjectId>,
    /// The paths.
    pub subset: &'s Subset,
}

/// Returns the entries of the directory `tree` (at the path `dir`) that the subset includes, and
/// the directories that may contain included paths.
///
/// The entries are in name order. If the patterns determine the names, no other entries are read.
pub(crate) fn entries_in(
    reader: &dyn ObjectRead,
    tree: &ObjectId,
    subset: &dyn PathSet,
    dir: &RepoPath,
) -> Result<Vec<TreeEntry>, ObjectError> {
    let mut found = Vec::new();
    each_entry_in(reader, tree, subset, dir, &mut |entry| found.push(entry))?;
    Ok(found)
}

/// Visits the entries that [`entries_in`] returns, without holding all of them in memory.
pub(crate) fn each_entry_in(
    reader: &dyn ObjectRead,
    tree: &ObjectId,
    subset: &dyn PathSet,
    dir: &RepoPath,
    visit: &mut dyn FnMut(TreeEntry),
) -> Result<(), ObjectError> {
    let extent = subset.extent(dir.as_bytes());
    if extent == Extent::None {
        return Ok(());
    }
    let wanted = |entry: &TreeEntry| {
        extent == Extent::All || {
            let path = dir.join(&entry.name);
            path.is_ok_and(|path| is_wanted(subset, &path, entry))
        }
    };
    if let (Extent::Part, Some(names)) = (extent, subset.names_in(dir.as_bytes())) {
        for name in names {
            lookup(reader, tree, &name)?.filter(wanted).map(&mut *visit);
        }
        return Ok(());
    }
    for entry in TreeIter::new(reader, *tree) {
        let entry = entry?;
        if wanted(&entry) {
            visit(entry);
        }
    }
    Ok(())
}

/// Returns whether the subset includes the entry at `path` or, for a directory, may include a path
/// below it.
pub fn is_wanted(subset: &dyn PathSet, path: &RepoPath, entry: &TreeEntry) -> bool {
    match entry.kind {
        Kind::Directory => subset.extent(path.as_bytes()) != Extent::None,
        _ => subset.includes(path.as_bytes(), false),
    }
}

/// Reports the differences between two slices, as [`diff_trees`](super::diff_trees) does for trees.
/// A path that a slice's subset excludes counts as absent from it.
pub(crate) fn diff_slices<V: DiffVisitor + ?Sized>(
    reader: &dyn ObjectRead,
    old: Slice<'_>,
    new: Slice<'_>,
    visitor: &mut V,
) -> Result<ControlFlow<()>, V::Error> {
    let mut walk = Walk {
        reader,
        same_subset: old.subset == new.subset,
        old: old.subset,
        new: new.subset,
        empty: empty_tree_id(),
        stack: Vec::new(),
    };
    let mut flow = walk.descend(&RepoPath::root(), old.tree, new.tree, visitor)?;
    while flow.is_continue() {
        let Some((dir, pairs)) = walk.stack.last_mut() else {
            break;
        };
        flow = match pairs.next() {
            Some((old, new)) => {
                let dir = dir.clone();
                walk.compare(&dir, old, new, visitor)?
            }
            None => {
                walk.stack.pop();
                flow
            }
        };
    }
    Ok(flow)
}

type Pair = (Option<TreeEntry>, Option<TreeEntry>);

struct Walk<'a> {
    reader: &'a dyn ObjectRead,
    old: &'a Subset,
    new: &'a Subset,
    same_subset: bool,
    empty: ObjectId,
    /// Directories that are compared entry by entry.
    stack: Vec<(RepoPath, std::vec::IntoIter<Pair>)>,
}

impl Walk<'_> {
    fn descend<V: DiffVisitor + ?Sized>(
        &mut self,
        dir: &RepoPath,
        old: Option<ObjectId>,
        new: Option<ObjectId>,
        visitor: &mut V,
    ) -> Result<ControlFlow<()>, V::Error> {
        if old == new && self.same_subset {
            return Ok(ControlFlow::Continue(()));
        }
        let extent = |subset: &Subset, tree: Option<ObjectId>| match tree {
            Some(_) => subset.extent(dir.as_bytes()),
            None => Extent::None,
        };
        let extents = (extent(self.old, old), extent(self.new, new));
        if extents.0 != Extent::Part && extents.1 != Extent::Part {
            let old = old.filter(|_| extents.0 == Extent::All);
            let new = new.filter(|_| extents.1 == Extent::All);
            return diff_dirs(self.reader, dir, old, new, visitor);
        }
        let entries = |subset: &Subset, tree: Option<ObjectId>| match tree {
            Some(tree) => entries_in(self.reader, &tree, subset, dir),
            None => Ok(Vec::new()),
        };
        let pairs = paired(entries(self.old, old)?, entries(self.new, new)?);
        self.stack.push((dir.clone(), pairs.into_iter()));
        Ok(ControlFlow::Continue(()))
    }

    /// Reports the difference of one name, and descends if it is a directory.
    fn compare<V: DiffVisitor + ?Sized>(
        &mut self,
        dir: &RepoPath,
        old: Option<TreeEntry>,
        new: Option<TreeEntry>,
        visitor: &mut V,
    ) -> Result<ControlFlow<()>, V::Error> {
        let Some(either) = old.as_ref().or(new.as_ref()) else {
            return Ok(ControlFlow::Continue(()));
        };
        let path = dir
            .join(&either.name)
            .map_err(|error| super::damaged_tree(either.id, error.why()))?;
        let is_dir = |entry: &&TreeEntry| entry.kind == Kind::Directory;
        // A directory that only leads to included paths does not count itself.
        let shown = |subset: &Subset, entry: &&TreeEntry| {
            !is_dir(entry) || subset.includes(path.as_bytes(), true)
        };
        let (a, b) = (
            old.as_ref().filter(|e| shown(self.old, e)),
            new.as_ref().filter(|e| shown(self.new, e)),
        );
        let reports = match (a, b) {
            (Some(a), Some(b)) if a.same_content(b) => [(None, None); 2],
            (a, b) => reports(a, b, visitor.joins_kinds(), self.empty),
        };
        for (old, new) in reports {
            if is_reported(old, new, self.empty) && visitor.change(&path, old, new)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        let content = |entry: Option<&TreeEntry>| {
            let dir = entry.filter(|e| is_dir(e) && e.id != self.empty);
            dir.map(|e| e.id)
        };
        let (old, new) = (content(old.as_ref()), content(new.as_ref()));
        if (old.is_some() || new.is_some()) && visitor.enter(&path, [old, new]) {
            self.descend(&path, old, new, visitor)
        } else {
            Ok(ControlFlow::Continue(()))
        }
    }
}

/// Joins two lists in name order by name.
fn paired(old: Vec<TreeEntry>, new: Vec<TreeEntry>) -> Vec<Pair> {
    let mut pairs = Vec::with_capacity(old.len().max(new.len()));
    let (mut old, mut new) = (old.into_iter().peekable(), new.into_iter().peekable());
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => return pairs,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(old), Some(new)) => old.name.cmp(&new.name),
        };
        pairs.push(match order {
            Ordering::Less => (old.next(), None),
            Ordering::Greater => (None, new.next()),
            Ordering::Equal => (old.next(), new.next()),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::{Change, changes};
    use crate::object::mem::MemObjects;
    use crate::object::name::SafeName;
    use crate::object::tree::TreeBuilder;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// Paths of files with their content. A path that ends in a slash is an empty directory.
    type Files = BTreeMap<String, u8>;

    fn tree(mem: &MemObjects, files: &Files, dir: &str) -> ObjectId {
        let names: BTreeSet<&str> = files
            .keys()
            .filter_map(|path| path.strip_prefix(dir))
            .filter_map(|rest| rest.split('/').next())
            .filter(|name| !name.is_empty())
            .collect();
        let (mut builder, mut writer) = (TreeBuilder::new(), mem);
        for name in names {
            let path = format!("{dir}{name}");
            let (kind, id) = match files.get(&path) {
                Some(content) => (Kind::File, ObjectId::from_bytes([*content; 32])),
                None => (Kind::Directory, tree(mem, files, &format!("{path}/"))),
            };
            let entry = TreeEntry {
                name: SafeName::new(name.as_bytes()).expect("test names are allowed"),
                kind,
                is_list: false,
                id,
                size: 0,
                files: 0,
                attrs: None,
            };
            builder
                .push(&entry, &mut writer)
                .expect("memory takes everything");
        }
        builder
            .finish(&mut writer)
            .expect("memory takes everything")
            .id
    }

    fn files() -> impl Strategy<Value = Files> {
        let path = prop::sample::select(vec![
            "a", "a/", "a/x", "a/y", "a/b/", "a/b/x", "b/", "b/x", "b/a/x", "b/a/y", "c", "c/x",
        ]);
        prop::collection::btree_map(path, 0..3u8, 0..10).prop_map(|all| {
            let is_taken = |path: &str| {
                let above = |other: &&str| {
                    let dir = other.trim_end_matches('/');
                    path.trim_end_matches('/').starts_with(&format!("{dir}/"))
                };
                // A file wins over paths below it, and over a directory of the same name.
                all.keys()
                    .any(|other| above(other) && !other.ends_with('/'))
                    || path.ends_with('/') && all.contains_key(path.trim_end_matches('/'))
            };
            let kept = all.iter().filter(|(path, _)| !is_taken(path));
            kept.map(|(path, content)| (path.to_string(), *content))
                .collect()
        })
    }

    fn subset() -> impl Strategy<Value = Subset> {
        let pattern = prop::sample::select(vec![
            "a", "b/a", "c", "!a/b", "b/", "*x", "!*y", "b/a/x", "!b", "a/x", "c/",
        ]);
        prop::collection::vec(pattern, 0..4)
            .prop_map(|all| Subset::new(all.iter().map(|p| p.as_bytes())).expect("sound"))
    }

    /// Returns the content of a slice: files, and directories that are empty in the complete tree.
    fn held(mem: &MemObjects, tree: ObjectId, subset: &Subset) -> BTreeMap<RepoPath, TreeEntry> {
        let all = changes(mem, None, Some(tree)).expect("memory answers");
        let new = all
            .into_iter()
            .filter_map(|c| c.new.map(|entry| (c.path, entry)));
        new.filter(|(path, e)| subset.includes(path.as_bytes(), e.kind == Kind::Directory))
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(dmv_random::cases(250)))]

        #[test]
        fn applied_to_one_slice_the_differences_give_the_other(
            old in files(), new in files(), from in subset(), to in subset(),
        ) {
            let mem = MemObjects::new();
            let (old, new) = (tree(&mem, &old, ""), tree(&mem, &new, ""));
            let mut have = held(&mem, old, &from);
            let want = held(&mem, new, &to);
            let (mut told, mut last) = (Vec::new(), None);
            let mut visit = |path: &RepoPath, old: Option<&TreeEntry>, new: Option<&TreeEntry>| {
                told.push(Change { path: path.clone(), old: old.cloned(), new: new.cloned() });
                Ok::<_, ObjectError>(ControlFlow::Continue(()))
            };
            let (from, to) = (Slice { tree: Some(old), subset: &from }, Slice { tree: Some(new), subset: &to });
            let flow = diff_slices(&mem, from, to, &mut visit).expect("memory answers");
            prop_assert!(flow.is_continue());
            for Change { path, old, new } in told {
                prop_assert!(last.as_ref() <= Some(&path), "{:?} after {:?}", path, last);
                last = Some(path.clone());
                let is_full = |e: &TreeEntry| e.kind == Kind::Directory && e.id != empty_tree_id();
                if let Some(old) = old.filter(|e| !is_full(e)) {
                    prop_assert_eq!(have.remove(&path), Some(old));
                }
                if let Some(new) = new.filter(|e| !is_full(e)) {
                    prop_assert!(have.insert(path, new).is_none());
                }
            }
            prop_assert_eq!(have, want);
        }
    }

    #[test]
    fn what_both_leave_out_is_not_read() {
        let mem = MemObjects::new();
        let old: Files = (0..40_000)
            .map(|i| (format!("d{:03}/f{i}", i % 400), 0))
            .collect();
        let new: Files = old.keys().map(|path| (path.clone(), 1)).collect();
        let (old, new) = (tree(&mem, &old, ""), tree(&mem, &new, ""));
        let one = Subset::new([&b"d007"[..]]).expect("sound");
        let count = |from: &Subset, to: &Subset, old, new| {
            mem.reset_reads();
            let (from, to) = (
                Slice {
                    tree: old,
                    subset: from,
                },
                Slice {
                    tree: new,
                    subset: to,
                },
            );
            let mut seen = 0;
            let mut visit = |_: &RepoPath, _: Option<&TreeEntry>, _: Option<&TreeEntry>| {
                seen += 1;
                Ok::<_, ObjectError>(ControlFlow::Continue(()))
            };
            let flow = diff_slices(&mem, from, to, &mut visit).expect("memory answers");
            assert!(flow.is_continue());
            (seen, mem.reads())
        };
        let (seen, reads) = count(&one, &one, Some(old), Some(new));
        assert!(seen == 100 && reads < 20, "{seen} {reads}");
        let (seen, reads) = count(&Subset::nothing(), &one, Some(new), Some(new));
        assert!(seen == 100 && reads < 10, "{seen} {reads}");
        let (seen, reads) = count(&one, &one, Some(new), Some(new));
        assert!(seen == 0 && reads == 0, "{seen} {reads}");
    }
}
