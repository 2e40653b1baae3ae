mod many;
mod moves;
mod nodes;

use super::walk::read_conflict;
use super::*;
use crate::object::ObjectType;
use crate::object::commit::{Commit, Person};
use crate::object::conflict::Term;
use crate::object::list::Blob;
use crate::object::mem::MemObjects;
use crate::object::tree::{Kind, TreeEntry, TreeIter, empty_tree_id, put_empty_tree};
use proptest::prelude::*;
use std::collections::BTreeMap;

type Outcome = Result<(), MergeError>;

/// The content that a test puts at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    Text(String),
    Program(String),
    Link(String),
    Conflict(Vec<Option<Item>>),
    EmptyDir,
}

use Item::{EmptyDir, Link, Program, Text};

type Files = BTreeMap<String, Item>;

fn text(content: &str) -> Item {
    Text(content.to_owned())
}

fn files<const N: usize>(list: [(&str, Item); N]) -> Files {
    list.into_iter()
        .map(|(path, item)| (path.to_owned(), item))
        .collect()
}

#[derive(Default)]
struct Lab {
    mem: MemObjects,
    never: AtomicBool,
}

impl Lab {
    fn entry(&self, item: &Item) -> Result<TreeEntry, ObjectError> {
        let (kind, content) = match item {
            Text(content) => (Kind::File, content),
            Program(content) => (Kind::Executable, content),
            Link(target) => (Kind::Symlink, target),
            EmptyDir => {
                let id = put_empty_tree(&mut &self.mem)?;
                return Ok(plain(Kind::Directory, id, false, 0));
            }
            Item::Conflict(terms) => return self.conflict(terms),
        };
        let Blob { id, is_list, size } = write_blob(content.as_bytes(), &mut &self.mem)?;
        Ok(plain(kind, id, is_list, size))
    }

    fn conflict(&self, terms: &[Option<Item>]) -> Result<TreeEntry, ObjectError> {
        let (mut bases, mut sides) = (Vec::new(), Vec::new());
        for (n, item) in terms.iter().enumerate() {
            let entry = item.as_ref().map(|item| self.entry(item)).transpose()?;
            let list = if n % 2 == 0 { &mut sides } else { &mut bases };
            list.push(entry.as_ref().and_then(Term::of_entry));
        }
        let bytes = Conflict { bases, sides }.encode()?;
        let id = self.mem.insert(ObjectType::Conflict, &bytes);
        Ok(plain(Kind::Conflict, id, false, 0))
    }

    fn tree(&self, files: &Files) -> Result<ObjectId, ObjectError> {
        let root = put_empty_tree(&mut &self.mem)?;
        let mut edits = Edits::new();
        for (path, item) in files {
            edits.insert(at(path), Some(self.entry(item)?));
        }
        Ok(edit_tree(&self.mem, &mut &self.mem, root, &edits)?.id)
    }

    fn content(&self, term: &Term) -> Result<String, ObjectError> {
        let blob = content::blob_of(term);
        let bytes = content::read_short(&self.mem, blob, &mut 0)?.expect("short and here");
        Ok(String::from_utf8(bytes).expect("tests store text"))
    }

    fn item(&self, term: &Term) -> Result<Item, ObjectError> {
        Ok(match term.kind {
            Kind::File => Text(self.content(term)?),
            Kind::Executable => Program(self.content(term)?),
            Kind::Symlink => Link(self.content(term)?),
            Kind::Directory => EmptyDir,
            Kind::Conflict => unreachable!("no term is a conflict"),
        })
    }

    fn files(&self, tree: ObjectId) -> Result<Files, ObjectError> {
        let mut out = Files::new();
        let mut dirs = vec![(String::new(), tree)];
        while let Some((dir, tree)) = dirs.pop() {
            for entry in TreeIter::new(&self.mem, tree) {
                let entry = entry?;
                let name = std::str::from_utf8(entry.name.as_bytes()).expect("tests use text");
                let path = match dir.as_str() {
                    "" => name.to_owned(),
                    dir => format!("{dir}/{name}"),
                };
                let item = match entry.kind {
                    Kind::Directory if entry.id != empty_tree_id() => {
                        dirs.push((path, entry.id));
                        continue;
                    }
                    Kind::Conflict => self.conflict_item(&entry.id)?,
                    _ => self.item(&Term::of_entry(&entry).expect("no conflict"))?,
                };
                out.insert(path, item);
            }
        }
        Ok(out)
    }

    fn conflict_item(&self, id: &ObjectId) -> Result<Item, ObjectError> {
        let Conflict { bases, sides } = read_conflict(&self.mem, id)?;
        let mut terms = Vec::new();
        for (n, side) in sides.iter().enumerate() {
            if let Some(base) = n.checked_sub(1).and_then(|n| bases.get(n)) {
                terms.push(base.as_ref().map(|term| self.item(term)).transpose()?);
            }
            terms.push(side.as_ref().map(|term| self.item(term)).transpose()?);
        }
        Ok(Item::Conflict(terms))
    }

    /// Makes a commit of `files`, and returns it with its generation.
    fn commit(
        &self,
        files: &Files,
        parents: &[(ObjectId, u64)],
    ) -> Result<(ObjectId, u64), ObjectError> {
        let person = Person {
            name: "t".into(),
            email: String::new(),
            seconds: 0,
            nanos: 0,
            tz_minutes: 0,
        };
        let generation = 1 + parents.iter().map(|(_, g)| *g).max().unwrap_or(0);
        let commit = Commit {
            tree: self.tree(files)?,
            tree_bytes: 0,
            tree_files: 0,
            parents: parents.iter().map(|(id, _)| *id).collect(),
            generation,
            author: person.clone(),
            committer: person,
            message: String::new(),
            extras: Vec::new(),
            signature: None,
        };
        let bytes = commit.encode().expect("a commit as others are");
        Ok((self.mem.insert(ObjectType::Commit, &bytes), generation))
    }

    fn merge(&self, base: &Files, ours: &Files, theirs: &Files) -> Result<MergeResult, MergeError> {
        let trees = Trees {
            base: Some(self.tree(base)?),
            ours: self.tree(ours)?,
            theirs: self.tree(theirs)?,
        };
        self.mem.reset_reads();
        merge_trees(&self.mem, &mut &self.mem, trees, &self.never)
    }

    /// Merges in both directions. The trees must be equal except for the order of sides.
    fn merged(&self, base: &Files, ours: &Files, theirs: &Files) -> Result<Files, MergeError> {
        let merged = self.merge(base, ours, theirs)?;
        let listed = self.files(merged.tree.id)?;
        for conflict in &merged.conflicts {
            let item = &listed[&conflict.path.to_string()];
            assert!(matches!(item, Item::Conflict(_)));
        }
        let back = self.merge(base, theirs, ours)?;
        let mut swapped = self.files(back.tree.id)?;
        for item in swapped.values_mut() {
            if let Item::Conflict(terms) = item {
                terms.reverse();
            }
        }
        assert_eq!(listed, swapped, "sides change places");
        Ok(listed)
    }
}

fn plain(kind: Kind, id: ObjectId, is_list: bool, size: u64) -> TreeEntry {
    TreeEntry {
        name: crate::object::name::SafeName::new(b"x").expect("a name"),
        kind,
        is_list,
        id,
        size,
        files: 0,
        attrs: None,
    }
}

fn at(path: &str) -> RepoPath {
    RepoPath::parse(path.as_bytes()).expect("a path")
}

fn three(ours: Option<Item>, base: Option<Item>, theirs: Option<Item>) -> Item {
    Item::Conflict(vec![ours, base, theirs])
}

#[test]
fn what_one_side_did_is_taken_and_what_both_did_is_taken_once() -> Outcome {
    let lab = Lab::default();
    let base = files([
        ("a", text("1")),
        ("b", text("1")),
        ("d/c", text("1")),
        ("gone", text("1")),
    ]);
    let ours = files([
        ("a", text("2")),
        ("b", text("1")),
        ("d/c", text("3")),
        ("new", text("n")),
    ]);
    let theirs = files([
        ("a", text("1")),
        ("b", text("2")),
        ("d/c", text("3")),
        ("d/e/f", text("n")),
    ]);
    let want = files([
        ("a", text("2")),
        ("b", text("2")),
        ("d/c", text("3")),
        ("d/e/f", text("n")),
        ("new", text("n")),
    ]);
    assert_eq!(lab.merged(&base, &ours, &theirs)?, want);
    Ok(())
}

#[test]
fn both_added_the_same() -> Outcome {
    let lab = Lab::default();
    let (none, side) = (
        files([]),
        files([("a", text("1")), ("d/b", Link("x".into()))]),
    );
    assert_eq!(lab.merged(&none, &side, &side)?, side);
    Ok(())
}

#[test]
fn both_added_something_else() -> Outcome {
    let lab = Lab::default();
    let (ours, theirs) = (files([("a", text("1"))]), files([("a", text("2"))]));
    let merged = lab.merged(&files([]), &ours, &theirs)?;
    assert_eq!(merged["a"], three(Some(text("1")), None, Some(text("2"))));
    Ok(())
}

#[test]
fn texts_are_merged_by_lines() -> Outcome {
    let lab = Lab::default();
    let of = |content| files([("a", text(content))]);
    let merged = lab.merged(&of("1\n2\n3\n"), &of("x\n2\n3\n"), &of("1\n2\ny\n"))?;
    assert_eq!(merged, of("x\n2\ny\n"));
    let merged = lab.merged(&of("1\n"), &of("x\n"), &of("y\n"))?;
    let want = three(Some(text("x\n")), Some(text("1\n")), Some(text("y\n")));
    assert_eq!(merged["a"], want);
    Ok(())
}

#[test]
fn content_that_is_not_text_is_not_merged() -> Outcome {
    let lab = Lab::default();
    let of = |content: &str| files([("a", text(content))]);
    let (base, ours, theirs) = ("\0\n2\n3\n", "\0x\n2\n3\n", "\0\n2\ny\n");
    let merged = lab.merged(&of(base), &of(ours), &of(theirs))?;
    let want = three(Some(text(ours)), Some(text(base)), Some(text(theirs)));
    assert_eq!(merged["a"], want);
    Ok(())
}

#[test]
fn all_that_is_not_here_and_would_decide_is_named() -> Outcome {
    let lab = Lab::default();
    let of = |a: &str, b: &str| files([("d/a", text(a)), ("d/b", text(b)), ("d/c", text(a))]);
    let base = of("1\n2\n3\n", "1\n");
    let (ours, theirs) = (of("x\n2\n3\n", "2\n"), of("1\n2\ny\n", "1\n"));
    for files in [&base, &ours, &theirs] {
        lab.tree(files)?;
    }
    let trees = Trees {
        base: Some(lab.tree(&base)?),
        ours: lab.tree(&ours)?,
        theirs: lab.tree(&theirs)?,
    };
    // Content that only one side has changed is not read.
    for (side, path) in [(&base, "d/a"), (&ours, "d/a"), (&ours, "d/b")] {
        let chunk = lab.entry(&side[path])?.id;
        lab.mem.remove(ObjectType::Chunk, &chunk);
    }
    let refused = merge_trees(&lab.mem, &mut &lab.mem, trees, &lab.never);
    let Err(MergeError::Lacking { lacks, .. }) = refused else {
        panic!("it cannot be merged: {refused:?}");
    };
    let paths: Vec<&[u8]> = lacks.iter().map(|lack| lack.path.as_bytes()).collect();
    assert_eq!(paths, [b"d/a", b"d/a", b"d/c", b"d/c"], "base and ours");
    // An absent directory is reported, and the rest is still examined.
    let of = |a: &str, b: &str| files([("a", text(a)), ("d/b", text(b)), ("e/c", text(b))]);
    let (base, ours, theirs) = (of("1", "1"), of("2", "2"), of("3", "3"));
    let trees = Trees {
        base: Some(lab.tree(&base)?),
        ours: lab.tree(&ours)?,
        theirs: lab.tree(&theirs)?,
    };
    for dir in [&ours["d/b"], &theirs["d/b"]] {
        let name = |n: &str| files([(n, dir.clone())]);
        let (d, e) = (lab.tree(&name("b"))?, lab.tree(&name("c"))?);
        lab.mem.remove(ObjectType::Tree, &d);
        lab.mem.remove(ObjectType::Tree, &e);
    }
    let refused = merge_trees(&lab.mem, &mut &lab.mem, trees, &lab.never);
    let Err(MergeError::Lacking { lacks, .. }) = refused else {
        panic!("it cannot be merged: {refused:?}");
    };
    let paths: Vec<&[u8]> = lacks.iter().map(|lack| lack.path.as_bytes()).collect();
    assert_eq!(paths, [b"d", b"e"], "one side of each at first");
    Ok(())
}

#[test]
fn deleted_here_changed_there() -> Outcome {
    let lab = Lab::default();
    let (base, theirs) = (files([("a", text("1"))]), files([("a", text("2"))]));
    let merged = lab.merged(&base, &files([]), &theirs)?;
    assert_eq!(merged["a"], three(None, Some(text("1")), Some(text("2"))));
    // Also in a directory that was removed completely; its unchanged files are removed.
    let base = files([("d/a", text("1")), ("d/b", text("1"))]);
    let theirs = files([("d/a", text("2")), ("d/b", text("1"))]);
    let merged = lab.merged(&base, &files([]), &theirs)?;
    let open = three(None, Some(text("1")), Some(text("2")));
    assert_eq!(merged, files([("d/a", open)]));
    Ok(())
}

#[test]
fn deleted_here_deleted_there() -> Outcome {
    let lab = Lab::default();
    let base = files([("a", text("1")), ("d/b", text("1")), ("k", text("1"))]);
    let kept = files([("k", text("1"))]);
    assert_eq!(lab.merged(&base, &kept, &kept)?, kept);
    Ok(())
}

#[test]
fn the_executable_bit_is_merged_by_itself() -> Outcome {
    let lab = Lab::default();
    let base = files([("a", text("1\n2\n3\n"))]);
    let ours = files([("a", Program("1\n2\n3\n".into()))]);
    let theirs = files([("a", text("x\n2\n3\n"))]);
    let want = files([("a", Program("x\n2\n3\n".into()))]);
    assert_eq!(lab.merged(&base, &ours, &theirs)?, want);
    // The same if both changed the content as well.
    let ours = files([("a", Program("1\n2\ny\n".into()))]);
    let want = files([("a", Program("x\n2\ny\n".into()))]);
    assert_eq!(lab.merged(&base, &ours, &theirs)?, want);
    // Without a base it is unknown which of the two is the change.
    let (ours, theirs) = (
        files([("n", Program("1".into()))]),
        files([("n", text("1"))]),
    );
    let merged = lab.merge(&files([]), &ours, &theirs)?;
    assert_eq!(
        ConflictKind::of(&merged.conflicts[0].conflict),
        ConflictKind::Mode
    );
    Ok(())
}

#[test]
fn symlinks_and_changes_of_kind() -> Outcome {
    let lab = Lab::default();
    let link = |target: &str| Link(target.to_owned());
    let cases = [
        (link("a"), link("b"), link("c"), ConflictKind::Symlink),
        (text("a"), link("b"), text("c"), ConflictKind::Type),
        (text("a"), text("b"), text("c"), ConflictKind::Content),
    ];
    for (base, ours, theirs, kind) in cases {
        let of = |item: &Item| files([("a", item.clone())]);
        let merged = lab.merged(&of(&base), &of(&ours), &of(&theirs))?;
        assert_eq!(
            merged["a"],
            three(Some(ours.clone()), Some(base.clone()), Some(theirs.clone()))
        );
        let merged = lab.merge(&of(&base), &of(&ours), &of(&theirs))?;
        assert_eq!(ConflictKind::of(&merged.conflicts[0].conflict), kind);
    }
    Ok(())
}

#[test]
fn a_file_on_one_side_and_a_directory_on_the_other() -> Outcome {
    let lab = Lab::default();
    let (base, file) = (files([("a", text("1"))]), files([("a", text("2"))]));
    let dir = files([("a/b", text("1"))]);
    for (base, theirs) in [(&base, &file), (&files([]), &file)] {
        let merged = lab.merge(base, &dir, theirs)?;
        let kinds: Vec<_> = merged
            .conflicts
            .iter()
            .map(|c| ConflictKind::of(&c.conflict))
            .collect();
        assert_eq!(kinds, [ConflictKind::FileDirectory]);
    }
    // Only one side changed it.
    assert_eq!(lab.merged(&base, &dir, &base)?, dir);
    assert_eq!(lab.merged(&base, &dir, &files([]))?, dir);
    assert_eq!(lab.merged(&dir, &file, &dir)?, file);
    assert_eq!(lab.merged(&dir, &file, &files([]))?, file);
    Ok(())
}

#[test]
fn empty_directories_are_kept_unless_a_side_deleted_them() -> Outcome {
    let lab = Lab::default();
    let (none, dir) = (files([]), files([("d", EmptyDir)]));
    assert_eq!(lab.merged(&none, &dir, &none)?, dir);
    assert_eq!(lab.merged(&dir, &dir, &none)?, none);
    // Each side removed a part of it.
    let base = files([("d/a", text("1")), ("d/b", text("1"))]);
    let (ours, theirs) = (files([("d/a", text("1"))]), files([("d/b", text("1"))]));
    assert_eq!(lab.merged(&base, &ours, &theirs)?, dir);
    Ok(())
}

#[test]
fn a_file_moved_here_and_changed_there_is_changed_in_its_new_place() -> Outcome {
    let lab = Lab::default();
    let base = files([("a", text("1\n2\n3\n")), ("z", text("z"))]);
    let ours = files([("d/b", text("1\n2\n3\n")), ("z", text("z"))]);
    let theirs = files([("a", text("1\n2\nx\n")), ("z", text("z"))]);
    let want = files([("d/b", text("1\n2\nx\n")), ("z", text("z"))]);
    assert_eq!(lab.merged(&base, &ours, &theirs)?, want);
    let moves = lab.merge(&base, &ours, &theirs)?.moves;
    assert_eq!(
        moves,
        [MovedEntry {
            from: at("a"),
            to: at("d/b")
        }]
    );
    Ok(())
}

/// Seed 252 of the comparison with Git. Git reports a conflict here, because its merge of the two
/// bases has the file at its former path.
#[test]
fn a_move_that_both_sides_have_settled_on_is_not_asked_about_again() -> Outcome {
    let lab = Lab::default();
    let one = |name: &str, content: &str| files([(name, text(content)), ("z", text("z"))]);
    let first = lab.commit(&one("f", "0\n2\n3\n4\n5\n6\n"), &[])?;
    let moved = lab.commit(&one("d/g", "1\n2\n3\n4\n5\n6\n"), &[first])?;
    let deleted = lab.commit(&files([("z", text("z"))]), &[first])?;
    // Both accepted the moved file, each in its own merge.
    let settled = one("d/g", "1\n2\n3\n4\n5\n6\n");
    let ours = lab.commit(&settled, &[moved, deleted])?;
    let theirs = lab.commit(&settled, &[deleted, moved])?;
    let ours = lab.commit(&one("d/g", "1\n2\n3\n4\n5\nx\n"), &[ours])?;
    let theirs = lab.commit(&one("d/g", "y\n2\n3\n4\n5\n6\n"), &[theirs])?;
    let merged = merge_commits(
        &lab.mem,
        &mut &lab.mem,
        &ours.0,
        &theirs.0,
        &AtomicBool::new(false),
    )?;
    let want = one("d/g", "y\n2\n3\n4\n5\nx\n");
    assert_eq!(lab.files(merged.tree.id)?, want);
    Ok(())
}

#[test]
fn a_file_moved_and_changed_is_known_by_what_is_left_of_it() -> Outcome {
    let lab = Lab::default();
    let base = files([("a", text("1\n2\n3\n4\n5\n6\n"))]);
    let ours = files([("b", text("1\n2\n3\n4\n5\nx\n")), ("c", text("other\n"))]);
    let theirs = files([("a", text("y\n2\n3\n4\n5\n6\n"))]);
    let want = files([("b", text("y\n2\n3\n4\n5\nx\n")), ("c", text("other\n"))]);
    assert_eq!(lab.merged(&base, &ours, &theirs)?, want);
    Ok(())
}

#[test]
fn changes_in_a_directory_follow_it_to_its_new_name() -> Outcome {
    let lab = Lab::default();
    let base = files([("d/a", text("1")), ("d/s/b", text("1")), ("k/k", text("1"))]);
    let ours = files([
        ("k/e/a", text("1")),
        ("k/e/s/b", text("1")),
        ("k/k", text("1")),
    ]);
    let theirs = files([
        ("d/a", text("2")),
        ("d/s/b", text("1")),
        ("d/s/new", text("n")),
        ("k/k", text("1")),
    ]);
    let want = files([
        ("k/e/a", text("2")),
        ("k/e/s/b", text("1")),
        ("k/e/s/new", text("n")),
        ("k/k", text("1")),
    ]);
    assert_eq!(lab.merged(&base, &ours, &theirs)?, want);
    Ok(())
}

#[test]
fn a_move_to_a_place_that_the_other_side_has_taken_is_not_followed() -> Outcome {
    let lab = Lab::default();
    let base = files([("a", text("1"))]);
    let ours = files([("b", text("1"))]);
    let theirs = files([("a", text("2")), ("b", text("3"))]);
    let merged = lab.merged(&base, &ours, &theirs)?;
    assert_eq!(merged["a"], three(None, Some(text("1")), Some(text("2"))));
    assert_eq!(merged["b"], three(Some(text("1")), None, Some(text("3"))));
    // The same above it.
    let ours = files([("b/c", text("1"))]);
    let merged = lab.merged(&base, &ours, &theirs)?;
    assert!(matches!(merged["a"], Item::Conflict(_)) && matches!(merged["b"], Item::Conflict(_)));
    Ok(())
}

#[test]
fn conflicts_are_inputs_like_others() -> Outcome {
    let lab = Lab::default();
    let open = three(Some(text("o")), Some(text("b")), Some(text("t")));
    let of = |item: &Item| files([("a", item.clone())]);
    let (x, y) = (text("x"), text("y"));
    // Kept, settled on one side, and settled equally on both.
    let kept = lab.merge(&of(&x), &of(&open), &of(&x))?;
    assert_eq!(lab.files(kept.tree.id)?, of(&open));
    assert_eq!(lab.merged(&of(&open), &of(&open), &of(&x))?, of(&x));
    assert_eq!(lab.merged(&of(&open), &of(&x), &of(&x))?, of(&x));
    // Settled in two ways: the conflict is between the two, never a version that neither side has.
    let merged = lab.merged(&of(&open), &of(&x), &of(&y))?;
    assert_eq!(
        merged["a"],
        three(Some(x.clone()), Some(text("b")), Some(y.clone()))
    );
    for (one, other) in [("o", "t"), ("o", "b"), ("b", "t")] {
        let (one, other) = (text(one), text(other));
        let merged = lab.merged(&of(&open), &of(&one), &of(&other))?;
        assert_eq!(merged["a"], three(Some(one), Some(text("b")), Some(other)));
    }
    let merged = lab.merged(&of(&open), &of(&x), &files([]))?;
    assert_eq!(merged["a"], three(Some(x.clone()), Some(text("b")), None));
    // One of the sides changed further. It takes its former place.
    let merged = lab.files(lab.merge(&of(&text("t")), &of(&open), &of(&y))?.tree.id)?;
    assert_eq!(
        merged["a"],
        three(Some(text("o")), Some(text("b")), Some(y))
    );
    Ok(())
}

#[test]
fn disjoint_changes_need_no_content_and_few_nodes() -> Outcome {
    let lab = Lab::default();
    let mut base = Files::new();
    for n in 0..4_000 {
        base.insert(format!("d{:03}/f{n}", n % 400), text(&n.to_string()));
    }
    let mut sides = [base.clone(), base.clone()];
    for n in 0..40 {
        sides[0].insert(format!("d{:03}/f{n}", n % 400), text("ours"));
        let n = n + 200;
        sides[1].insert(format!("d{:03}/f{n}", n % 400), text("theirs"));
    }
    let merged = lab.merge(&base, &sides[0], &sides[1])?;
    assert_eq!((merged.content_bytes, merged.conflicts.len()), (0, 0));
    assert!(lab.mem.reads() < 30, "{} reads", lab.mem.reads());
    // Changes of different files in the same directories read the directories, not the files.
    let mut theirs = base.clone();
    for n in 400..440 {
        theirs.insert(format!("d{:03}/f{n}", n % 400), text("theirs"));
    }
    let merged = lab.merge(&base, &sides[0], &theirs)?;
    assert_eq!((merged.content_bytes, merged.conflicts.len()), (0, 0));
    assert!(lab.mem.reads() < 30 + 3 * 40, "{} reads", lab.mem.reads());
    Ok(())
}

#[test]
fn what_is_too_long_to_be_merged_is_a_conflict_and_not_read() -> Outcome {
    use crate::limits::MAX_MERGE_TEXT_BYTES;
    let lab = Lab::default();
    let of = |first: &str, len: u64| {
        let mut content = first.to_owned();
        content.push_str(&"line\n".repeat(len as usize / 5 + 1));
        content.truncate(len as usize);
        files([("a", text(&content))])
    };
    let max = MAX_MERGE_TEXT_BYTES;
    let base = of("\n", max);
    let theirs = of("x\n", max - 100);
    assert_eq!(
        lab.merge(&base, &of("y\n", max + 1), &theirs)?
            .conflicts
            .len(),
        1
    );
    let merged = lab.merge(&base, &of("y\n", max + 1), &theirs)?;
    assert!(merged.content_bytes <= 2 * max);
    Ok(())
}

#[test]
fn a_merge_can_be_stopped() -> Outcome {
    let lab = Lab::default();
    lab.never.store(true, std::sync::atomic::Ordering::Relaxed);
    let (a, b) = (files([("a", text("1"))]), files([("a", text("2"))]));
    let stopped = lab.merge(&files([]), &a, &b);
    assert!(matches!(stopped, Err(MergeError::Cancelled)));
    Ok(())
}

#[test]
fn edits_replace_make_and_remove_entries() -> Outcome {
    let lab = Lab::default();
    let before = files([
        ("a", text("1")),
        ("d/b", text("1")),
        ("d/c", text("1")),
        ("e/f/g", text("1")),
    ]);
    let root = lab.tree(&before)?;
    let mut edits = Edits::new();
    edits.insert(at("d/b"), None);
    edits.insert(at("d/bb"), Some(lab.entry(&text("2"))?));
    edits.insert(at("e"), None);
    edits.insert(at("m/n/o"), Some(lab.entry(&text("2"))?));
    edits.insert(at("x/y"), None);
    let tree = edit_tree(&lab.mem, &mut &lab.mem, root, &edits)?;
    let want = files([
        ("a", text("1")),
        ("d/bb", text("2")),
        ("d/c", text("1")),
        ("m/n/o", text("2")),
    ]);
    assert_eq!(lab.files(tree.id)?, want);
    assert_eq!(tree.id, lab.tree(&want)?);
    Ok(())
}

/// Content that is never merged by lines.
fn arb_item() -> impl Strategy<Value = Item> {
    (0u8..3, 0u8..3).prop_map(|(kind, n)| match kind {
        0 => Program(format!("\0{n}")),
        1 => Link(format!("l{n}")),
        _ => text(&format!("\0{n}")),
    })
}

fn arb_files() -> impl Strategy<Value = Files> {
    // No name is a file in one state and a directory in another.
    let path = prop::sample::select(vec!["a", "b", "d/a", "d/b", "d/e/c", "f/g"]);
    prop::collection::btree_map(path.prop_map(str::to_owned), arb_item(), 0..6)
}

/// Merges one path without moves, as the guide describes it.
fn model(base: Option<&Item>, ours: Option<&Item>, theirs: Option<&Item>) -> Option<Item> {
    let parts = |item: &Item| match item {
        Text(content) => Some((content.clone(), false)),
        Program(content) => Some((content.clone(), true)),
        _ => None,
    };
    if ours == theirs || theirs == base {
        return ours.cloned();
    }
    if ours == base {
        return theirs.cloned();
    }
    if let (Some(b), Some(o), Some(t)) = (
        base.and_then(parts),
        ours.and_then(parts),
        theirs.and_then(parts),
    ) {
        let exec = if o.1 == b.1 { t.1 } else { o.1 };
        let content = match () {
            () if o.0 == t.0 || t.0 == b.0 => Some(o.0),
            () if o.0 == b.0 => Some(t.0),
            () => None,
        };
        if let Some(content) = content {
            return Some(if exec {
                Program(content)
            } else {
                Text(content)
            });
        }
    }
    Some(three(ours.cloned(), base.cloned(), theirs.cloned()))
}

proptest! {
    #[test]
    fn every_path_is_merged_as_the_model_does(
        base in arb_files(), ours in arb_files(), theirs in arb_files()
    ) {
        let lab = Lab::default();
        let merged = lab.merge(&base, &ours, &theirs).expect("memory");
        if !merged.moves.is_empty() {
            // The model does not cover moves.
            return Ok(());
        }
        let mut want = Files::new();
        let paths: std::collections::BTreeSet<&String> =
            base.keys().chain(ours.keys()).chain(theirs.keys()).collect();
        for path in paths {
            let item = model(base.get(path), ours.get(path), theirs.get(path));
            want.extend(item.map(|item| (path.clone(), item)));
        }
        let mut got = lab.files(merged.tree.id).expect("memory");
        got.retain(|_, item| *item != EmptyDir);
        prop_assert_eq!(got, want);
    }

    #[test]
    fn edits_make_the_tree_that_would_be_made_anew(before in arb_files(), after in arb_files()) {
        let lab = Lab::default();
        let root = lab.tree(&before).expect("memory");
        let mut edits = Edits::new();
        for path in before.keys().chain(after.keys()) {
            let entry = after.get(path).map(|item| lab.entry(item).expect("memory"));
            edits.insert(at(path), entry);
        }
        let tree = edit_tree(&lab.mem, &mut &lab.mem, root, &edits).expect("memory");
        let mut got = lab.files(tree.id).expect("memory");
        got.retain(|_, item| *item != EmptyDir);
        prop_assert_eq!(got, after);
    }

    #[test]
    fn nothing_of_either_side_is_lost(
        base in arb_files(), ours in arb_files(), theirs in arb_files()
    ) {
        // Content that one side has, and that the base has at no path, is in the result.
        let lab = Lab::default();
        let merged = lab.merge(&base, &ours, &theirs).expect("memory");
        let got = format!("{:?}", lab.files(merged.tree.id).expect("memory"));
        for (path, item) in ours.iter().chain(&theirs) {
            let (Text(content) | Program(content) | Link(content)) = item else { continue };
            let known = format!("{content:?}");
            if !format!("{base:?}").contains(&known) {
                prop_assert!(got.contains(&known), "{path} {content:?}");
            }
        }
    }
}
