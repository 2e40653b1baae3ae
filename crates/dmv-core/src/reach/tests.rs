//! The walk compared with a closure that is computed the simple way, over random histories.

mod filtered;

use super::*;
use crate::object::commit::Person;
use crate::object::list::ListBuilder;
use crate::object::mem::MemObjects;
use crate::object::name::SafeName;
use crate::object::tree::{TreeBuilder, TreeSummary};
use dmv_random::Rng;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

type Outcome = Result<(), ObjectError>;
type Objects = BTreeSet<(ObjectType, ObjectId)>;

/// Files by path of at most two components. The number stands for the content.
type Files = BTreeMap<(u64, u64), u64>;

fn blob_entry(mem: &MemObjects, name: String, content: u64) -> Result<TreeEntry, ObjectError> {
    let mut writer = mem;
    let mut list = ListBuilder::new();
    // Content 7 is one chunk, 8 two chunks, and multiples of 10 have lists of several levels.
    let chunks = if content.is_multiple_of(10) {
        700
    } else {
        content % 4
    };
    for n in 0..chunks {
        // Versions of a file share chunks.
        let bytes = [(content / 4).to_le_bytes(), n.to_le_bytes()].concat();
        list.push(mem.insert(ObjectType::Chunk, &bytes), 16, &mut writer)?;
    }
    let blob = list.finish(&mut writer)?;
    Ok(TreeEntry {
        name: SafeName::new(name.as_bytes()).expect("test names are allowed"),
        kind: Kind::File,
        is_list: blob.is_list,
        id: blob.id,
        size: blob.size,
        files: 0,
        attrs: None,
    })
}

fn put_tree(mem: &MemObjects, files: &Files) -> Result<TreeSummary, ObjectError> {
    let mut writer = mem;
    let mut root = TreeBuilder::new();
    let dirs: BTreeSet<u64> = files.keys().map(|(dir, _)| *dir).collect();
    for dir in dirs {
        let mut builder = TreeBuilder::new();
        for ((_, name), content) in files.range((dir, 0)..=(dir, u64::MAX)) {
            builder.push(
                &blob_entry(mem, format!("{name:06}"), *content)?,
                &mut writer,
            )?;
        }
        let made = builder.finish(&mut writer)?;
        let entry = TreeEntry {
            name: SafeName::new(format!("{dir:03}").as_bytes()).expect("allowed"),
            kind: Kind::Directory,
            is_list: false,
            id: made.id,
            size: made.bytes,
            files: made.files,
            attrs: None,
        };
        root.push(&entry, &mut writer)?;
    }
    root.finish(&mut writer)
}

fn put_commit(
    mem: &MemObjects,
    parents: &[ObjectId],
    tree: &TreeSummary,
    generation: u64,
) -> Result<ObjectId, ObjectError> {
    put_commit_at(mem, parents, tree, generation, 0)
}

/// Makes a commit with the given time in seconds since 1970.
fn put_commit_at(
    mem: &MemObjects,
    parents: &[ObjectId],
    tree: &TreeSummary,
    generation: u64,
    seconds: i64,
) -> Result<ObjectId, ObjectError> {
    let person = Person {
        name: "Ada".into(),
        email: String::new(),
        seconds,
        nanos: 0,
        tz_minutes: 0,
    };
    let commit = Commit {
        tree: tree.id,
        tree_bytes: tree.bytes,
        tree_files: tree.files,
        parents: parents.to_vec(),
        generation,
        author: person.clone(),
        committer: person,
        message: format!("{parents:?}"),
        extras: Vec::new(),
        signature: None,
    };
    Ok(mem.insert(ObjectType::Commit, &commit.encode()?))
}

/// Returns everything that `tips` refer to, computed the simple way.
fn closure(mem: &MemObjects, tips: &[ObjectId]) -> Result<Objects, ObjectError> {
    let mut seen = Objects::new();
    let mut stack: Vec<_> = tips.iter().map(|id| (ObjectType::Commit, *id)).collect();
    while let Some((ty, id)) = stack.pop() {
        if seen.insert((ty, id)) {
            stack.extend(ty.links(&mem.require(ty, &id)?).expect("it decodes"));
        }
    }
    Ok(seen)
}

fn found(reach: &mut Reach, mem: &dyn ObjectRead) -> Result<Objects, ObjectError> {
    let mut out = Objects::new();
    while let Some(found) = reach.next(mem)? {
        assert!(found.here, "{found:?}");
        out.insert((found.ty, found.id));
    }
    Ok(out)
}

/// Returns random commits with their files, each with up to two earlier parents.
fn history(mem: &MemObjects, dice: &mut Rng, n: usize) -> Result<Vec<ObjectId>, ObjectError> {
    let mut made: Vec<(ObjectId, u64, Files)> = Vec::new();
    for _ in 0..n {
        let mut parents: Vec<usize> = Vec::new();
        for _ in 0..dice.below(3).min(made.len() as u64) {
            let pick = made.len() - 1 - dice.below(made.len().min(3) as u64) as usize;
            if !parents.contains(&pick) {
                parents.push(pick);
            }
        }
        let mut files = parents
            .first()
            .map(|p| made[*p].2.clone())
            .unwrap_or_default();
        for _ in 0..dice.below(40) + if parents.is_empty() { 300 } else { 1 } {
            let path = (dice.below(4), dice.below(400));
            // Every second change is another version of a file.
            let path = match files.range(path..).next() {
                Some((there, _)) if dice.below(2) == 0 => *there,
                _ => path,
            };
            match dice.below(4) {
                0 => drop(files.remove(&path)),
                // A version of content that no other path has.
                1 => drop(files.insert(path, 1001 + path.1 * 40 + dice.below(3))),
                _ => drop(files.insert(path, dice.below(60))),
            }
        }
        let generation = 1 + parents.iter().map(|p| made[*p].1).max().unwrap_or(0);
        let ids: Vec<_> = parents.iter().map(|p| made[*p].0).collect();
        let tree = put_tree(mem, &files)?;
        let seconds = dice.below(20) as i64;
        let id = put_commit_at(mem, &ids, &tree, generation, seconds)?;
        made.push((id, generation, files));
    }
    Ok(made.into_iter().map(|(id, ..)| id).collect())
}

fn some(dice: &mut Rng, of: &[ObjectId]) -> Vec<ObjectId> {
    (0..dice.below(3) + 1)
        .map(|_| of[dice.below(of.len() as u64) as usize])
        .collect()
}

/// Files of all sizes in a directory.
fn directory(dir: u64, count: u64) -> Files {
    (0..count).map(|name| ((dir, name), name)).collect()
}

#[test]
fn what_was_renamed_is_not_sent_again() -> Outcome {
    let mem = MemObjects::new();
    let base: Files = directory(3, 50)
        .into_iter()
        .chain(directory(1, 5))
        .collect();
    let tree = put_tree(&mem, &base)?;
    let first = put_commit(&mem, &[], &tree, 1)?;
    let moved = |from: (u64, u64), to: (u64, u64), files: &Files| {
        let mut files = files.clone();
        let content = files.remove(&from).expect("it is there");
        files.insert(to, content);
        files
    };
    let renamed = |dir: u64| -> Files {
        let at = |((of, name), content): (&(u64, u64), &u64)| {
            (if *of == 3 { (dir, *name) } else { (*of, *name) }, *content)
        };
        base.iter().map(at).collect()
    };
    let mut edited = renamed(2);
    // Content 44 shares no chunk with content 10, and 14 differs from 10 in few.
    edited.insert((2, 10), 44);
    for (files, most) in [
        // A commit and the root.
        (renamed(2), 2),
        (renamed(9), 2),
        // Both directories, too, of one or two nodes.
        (moved((3, 40), (1, 77), &base), 8),
        (moved((3, 40), (8, 40), &base), 8),
        (moved((1, 4), (3, 99), &renamed(2)), 9),
        (edited, 8),
    ] {
        let tree = put_tree(&mem, &files)?;
        let second = put_commit(&mem, &[first], &tree, 2)?;
        let walk = || Reach::new([second], [first], Detail::All);
        let all = found(&mut walk(), &mem)?;
        let few = found(&mut walk().skipping_moved(), &mem)?;
        assert!(few.len() <= most, "{} of {}", few.len(), all.len());
        let needed = closure(&mem, &[second])?;
        let had = closure(&mem, &[first])?;
        assert!(needed.difference(&had).all(|object| few.contains(object)));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(dmv_random::cases(12)))]

    #[test]
    fn a_walk_finds_what_is_needed_and_nothing_foreign(seed in 1u64..) {
        let run = || -> Outcome {
            let (mem, mut dice) = (MemObjects::new(), Rng::new(seed));
            let commits = history(&mem, &mut dice, 12)?;
            let (tips, hidden) = (some(&mut dice, &commits), some(&mut dice, &commits));
            let all = closure(&mem, &tips)?;
            let had = closure(&mem, &hidden)?;
            let walk = || Reach::new(tips.clone(), hidden.clone(), Detail::All);
            let needed: Objects = all.difference(&had).copied().collect();
            let without_moved = found(&mut walk().skipping_moved(), &mem)?;
            let found = found(&mut walk(), &mem)?;
            assert!(found.is_subset(&all));
            assert!(needed.is_subset(&found), "{:?}", needed.difference(&found));
            assert!(needed.is_subset(&without_moved), "what was moved takes more along");
            assert!(without_moved.is_subset(&found));
            let new = |o: &&(ObjectType, ObjectId)| o.0 == ObjectType::Commit && had.contains(o);
            assert_eq!(found.iter().filter(new).count(), 0, "a hidden commit was found");
            Ok(())
        };
        run().expect("memory answers");
    }

    #[test]
    fn what_was_missing_is_walked_once_it_is_there(seed in 1u64..) {
        let run = || -> Outcome {
            let (theirs, mut dice) = (MemObjects::new(), Rng::new(seed));
            let commits = history(&theirs, &mut dice, 6)?;
            let tip = commits[5];
            let ours = MemObjects::new();
            let mut reach = Reach::new([tip], [], Detail::All);
            loop {
                let mut any = false;
                while let Some(found) = reach.next(&ours)? {
                    if !found.here {
                        any = true;
                        ours.insert(found.ty, &theirs.require(found.ty, &found.id)?);
                    }
                }
                if !reach.retry() && !any {
                    break;
                }
            }
            assert_eq!(closure(&ours, &[tip])?, closure(&theirs, &[tip])?);
            Ok(())
        };
        run().expect("memory answers");
    }
}

#[test]
fn a_change_of_one_file_reads_a_few_nodes() -> Outcome {
    let mem = MemObjects::new();
    let mut files = Files::new();
    for n in 0..20_000 {
        files.insert((n % 20, n), n % 50 + 1);
    }
    let first = put_commit(&mem, &[], &put_tree(&mem, &files)?, 1)?;
    files.insert((3, 3), 9);
    files.insert((4, 100_000), 11);
    let second = put_commit(&mem, &[first], &put_tree(&mem, &files)?, 2)?;
    mem.reset_reads();
    let found = found(&mut Reach::new([second], [first], Detail::All), &mem)?;
    let trees = found.iter().filter(|o| o.0 == ObjectType::Tree).count();
    assert!(trees <= 5 && found.len() <= 14, "{found:?}");
    assert!(mem.reads() < 40, "{} reads", mem.reads());
    Ok(())
}

/// The middle state and the first one must not rely on each other for what they share.
#[test]
fn a_state_that_comes_back_hides_nothing() -> Outcome {
    let mem = MemObjects::new();
    let state = |n| -> Result<TreeSummary, ObjectError> {
        let files = Files::from([
            ((0, 0), n),
            ((0, 1), 3),
            ((0, 2), 10),
            ((1, 0), 40 + 10 * n),
        ]);
        put_tree(&mem, &files)
    };
    let mut tips: Vec<ObjectId> = Vec::new();
    for generation in 1..=6 {
        let parents: Vec<ObjectId> = tips.last().copied().into_iter().collect();
        tips.push(put_commit(
            &mem,
            &parents,
            &state(1 + generation % 2)?,
            generation,
        )?);
        let tip = tips[tips.len() - 1];
        let found = found(&mut Reach::new([tip], [], Detail::All), &mem)?;
        assert_eq!(found, closure(&mem, &[tip])?, "{generation} commits");
    }
    Ok(())
}

/// Two entries for one tree, repeated downwards: very many paths in few nodes.
#[test]
fn a_tree_that_doubles_at_every_level_is_walked_node_by_node() -> Outcome {
    let mem = MemObjects::new();
    let bomb = |content: u64| -> Result<TreeSummary, ObjectError> {
        let mut below = put_tree(&mem, &Files::from([((0, 0), content)]))?;
        for _ in 0..40 {
            let mut builder = TreeBuilder::new();
            for name in ["a", "b"] {
                let entry = TreeEntry {
                    name: SafeName::new(name.as_bytes()).expect("allowed"),
                    kind: Kind::Directory,
                    is_list: false,
                    id: below.id,
                    size: below.bytes,
                    files: below.files,
                    attrs: None,
                };
                builder.push(&entry, &mut &mem)?;
            }
            below = builder.finish(&mut &mem)?;
        }
        Ok(below)
    };
    let first = put_commit(&mem, &[], &bomb(1)?, 1)?;
    let second = put_commit(&mem, &[first], &bomb(2)?, 2)?;
    mem.reset_reads();
    let found = found(&mut Reach::new([second], [], Detail::All), &mem)?;
    assert_eq!(found, closure(&mem, &[second])?);
    Ok(())
}

#[test]
fn generations_that_do_not_rise_and_totals_that_lie_are_damage() -> Outcome {
    let mem = MemObjects::new();
    let tree = put_tree(&mem, &Files::from([((0, 0), 1)]))?;
    let first = put_commit(&mem, &[], &tree, 1)?;
    let second = put_commit(&mem, &[first], &tree, 2)?;
    let wrong = |tip| {
        let walked = found(&mut Reach::new([tip], [], Detail::All), &mem);
        assert!(
            matches!(walked, Err(ObjectError::Damaged { .. })),
            "{walked:?}"
        );
    };
    wrong(put_commit(&mem, &[first], &tree, 5)?);
    wrong(put_commit(&mem, &[second], &tree, 2)?);
    let lie = TreeSummary {
        bytes: tree.bytes + 1,
        ..tree
    };
    wrong(put_commit(&mem, &[], &lie, 1)?);
    Ok(())
}

/// Objects that count how they are looked for.
struct Asked<'m> {
    objects: &'m MemObjects,
    single: std::sync::atomic::AtomicUsize,
    together: std::sync::atomic::AtomicUsize,
}

impl ObjectRead for Asked<'_> {
    fn read(
        &self,
        ty: ObjectType,
        id: &ObjectId,
    ) -> Result<Option<std::sync::Arc<[u8]>>, ObjectError> {
        self.objects.read(ty, id)
    }

    fn holds(&self, ty: ObjectType, id: &ObjectId) -> Result<bool, ObjectError> {
        let chunks = usize::from(ty == ObjectType::Chunk);
        self.single
            .fetch_add(chunks, std::sync::atomic::Ordering::Relaxed);
        self.objects.holds(ty, id)
    }

    fn holds_all(&self, wanted: &[(ObjectType, ObjectId)]) -> Result<Vec<bool>, ObjectError> {
        self.together
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.objects.holds_all(wanted)
    }
}

#[test]
fn chunks_are_looked_up_together_and_none_of_them_alone() -> Outcome {
    const FILES: u64 = 20_000;
    let mem = MemObjects::new();
    let files = (0..FILES).map(|n| ((n / 500, n), 4 * n + 1));
    let tree = put_tree(&mem, &files.collect())?;
    let tip = put_commit(&mem, &[], &tree, 1)?;
    let chunks = |mut reach: Reach| -> Result<(u64, usize, usize), ObjectError> {
        let request = Asked {
            objects: &mem,
            single: 0.into(),
            together: 0.into(),
        };
        let mut count = 0;
        while let Some(found) = reach.next(&request)? {
            assert!(found.here);
            count += u64::from(found.ty == ObjectType::Chunk);
        }
        Ok((
            count,
            request.single.into_inner(),
            request.together.into_inner(),
        ))
    };
    let (count, single, together) = chunks(Reach::new([tip], [], Detail::All))?;
    assert_eq!(count, FILES, "one for each");
    // At first 1024 of them, and each time twice as many.
    let most = (count / 1024).ilog2() as usize + 3;
    assert!(single == 0 && together <= most, "{single}, {together}");
    let skipping = Reach::new([tip], [], Detail::All).skipping_chunks();
    let (found, single, together) = chunks(skipping)?;
    assert_eq!(found, count);
    assert!(single == 0 && together <= 1, "{single}, {together}");
    Ok(())
}
