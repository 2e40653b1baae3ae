//! Filters compared with the simplest reading of docs/protocol.md: path by path.

use super::*;
use crate::history::load_commit;
use crate::object::conflict::Term;
use crate::object::name::RepoPath;
use crate::subset::{Extent, Subset, Union};

fn subset(patterns: &[&str]) -> Subset {
    Subset::new(patterns.iter().map(|p| p.as_bytes())).expect("sound patterns")
}

/// Returns what is wanted of the directory `tree` at `path` and of everything below it.
fn dir(
    mem: &MemObjects,
    filter: &Filter,
    path: &RepoPath,
    tree: ObjectId,
    out: &mut Objects,
) -> Outcome {
    if filter.paths.extent(path.as_bytes()) == Extent::None {
        return Ok(());
    }
    let mut nodes = vec![tree];
    while let Some(id) = nodes.pop() {
        out.insert((ObjectType::Tree, id));
        let bytes = mem.require(ObjectType::Tree, &id)?;
        match Node::decode(&bytes).expect("it decodes") {
            Node::Inner { children, .. } => nodes.extend(children.iter().map(|c| c.id)),
            Node::Leaf(entries) => {
                for entry in entries {
                    let path = path.join(&entry.name).expect("short");
                    if entry.kind == Kind::Directory {
                        dir(mem, filter, &path, entry.id, out)?;
                    } else if filter.paths.includes(path.as_bytes(), false)
                        && !filter.dropped.contains(&entry.id)
                    {
                        file(mem, filter, entry.is_list, entry.id, out)?;
                    }
                }
            }
        }
    }
    Ok(())
}

fn file(
    mem: &MemObjects,
    filter: &Filter,
    is_list: bool,
    id: ObjectId,
    out: &mut Objects,
) -> Outcome {
    let ty = if is_list {
        ObjectType::List
    } else {
        ObjectType::Chunk
    };
    let mut stack = vec![(ty, id)];
    while let Some((ty, id)) = stack.pop() {
        if ty != ObjectType::Chunk || !filter.metadata_only {
            out.insert((ty, id));
            stack.extend(ty.links(&mem.require(ty, &id)?).expect("it decodes"));
        }
    }
    Ok(())
}

/// Returns what is wanted of `tips`, and the boundary. The commits in `had`, and what only they
/// lead to, are left out.
fn wanted(
    mem: &MemObjects,
    tips: &[ObjectId],
    filter: &Filter,
    had: &Objects,
) -> Result<(Objects, BTreeSet<ObjectId>), ObjectError> {
    let (mut out, mut ends) = (Objects::new(), Vec::new());
    let mut kept: BTreeSet<ObjectId> = tips.iter().copied().collect();
    let mut round: Vec<ObjectId> = kept.iter().copied().collect();
    for distance in 1.. {
        let mut next = Vec::new();
        for id in round {
            let commit = load_commit(mem, &id)?;
            if had.contains(&(ObjectType::Commit, id)) {
                kept.remove(&id);
                continue;
            }
            let is_old = filter.since.is_some_and(|t| commit.committer.seconds < t);
            if is_old || distance == filter.depth {
                ends.push((id, commit.parents));
                continue;
            }
            next.extend(commit.parents.into_iter().filter(|p| kept.insert(*p)));
        }
        if next.is_empty() {
            break;
        }
        round = next;
    }
    for id in &kept {
        out.insert((ObjectType::Commit, *id));
        let tree = load_commit(mem, id)?.tree;
        dir(mem, filter, &RepoPath::root(), tree, &mut out)?;
    }
    ends.retain(|(_, parents)| parents.iter().any(|p| !kept.contains(p)));
    Ok((out, ends.into_iter().map(|(id, _)| id).collect()))
}

fn random_filter(dice: &mut Rng) -> Filter {
    let patterns = [
        "001",
        "002/000123",
        "!001/000005",
        "*7",
        "00[12]/*1*",
        "003/",
        "!000",
        "**/00000?",
    ];
    let some = |dice: &mut Rng| {
        let n = dice.below(4);
        let picks: Vec<&str> = (0..n)
            .map(|_| patterns[dice.below(patterns.len() as u64) as usize])
            .collect();
        subset(&picks)
    };
    let paths = match dice.below(3) {
        0 => Union::of([some(dice), some(dice)]),
        _ => Union::of([some(dice)]),
    };
    Filter {
        paths,
        metadata_only: dice.below(4) == 0,
        ..Filter::default()
    }
}

/// Walks as a receiver that has nothing of `filter` yet and gets what it requests, in small parts
/// and any order. At the start it has what an earlier attempt left.
fn fill(
    theirs: &MemObjects,
    tips: &[ObjectId],
    filter: &Filter,
    dice: &mut Rng,
) -> Result<(Objects, BTreeSet<ObjectId>), ObjectError> {
    let ours = MemObjects::new();
    for (ty, id) in wanted(theirs, tips, filter, &Objects::new())?.0 {
        if dice.below(3) == 0 {
            ours.insert(ty, &theirs.require(ty, &id)?);
        }
    }
    let tips = tips.iter().copied();
    let mut reach = Reach::filtered(tips, [], Detail::All, filter.clone());
    let mut all = Objects::new();
    loop {
        let mut lacking = Vec::new();
        while let Some(found) = reach.next(&ours)? {
            all.insert((found.ty, found.id));
            if !found.here {
                lacking.push((found.ty, found.id));
            }
        }
        for (ty, id) in &lacking {
            ours.insert(*ty, &theirs.require(*ty, id)?);
        }
        if !reach.retry() && lacking.is_empty() {
            return Ok((all, reach.boundary()));
        }
    }
}

/// Returns some of the blobs that `tips` need; sometimes none.
fn some_dropped(
    mem: &MemObjects,
    tips: &[ObjectId],
    filter: &Filter,
    dice: &mut Rng,
) -> Result<BTreeSet<ObjectId>, ObjectError> {
    let all = wanted(mem, tips, filter, &Objects::new())?.0.into_iter();
    let blobs = all.filter(|(ty, _)| matches!(ty, ObjectType::List | ObjectType::Chunk));
    let blobs: Vec<ObjectId> = blobs.map(|(_, id)| id).collect();
    let share = dice.below(3);
    Ok(blobs
        .into_iter()
        .filter(|_| dice.below(4) < share)
        .collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(dmv_random::cases(8)))]

    #[test]
    fn a_filtered_walk_finds_what_the_rules_say(seed in 1u64..) {
        let run = || -> Outcome {
            let (mem, mut dice) = (MemObjects::new(), Rng::new(seed));
            let commits = history(&mem, &mut dice, 8)?;
            let tips = some(&mut dice, &commits);
            let mut filter = random_filter(&mut dice);
            match dice.below(3) {
                0 => filter.depth = dice.below(5) as u32 + 1,
                1 => filter.since = Some(dice.below(20) as i64),
                _ => {}
            }
            filter.dropped = some_dropped(&mem, &tips, &filter, &mut dice)?;
            let want = wanted(&mem, &tips, &filter, &Objects::new())?;
            let mut reach = Reach::filtered(tips.clone(), [], Detail::All, filter.clone());
            let found = found(&mut reach, &mem)?;
            let same = |found: (Objects, BTreeSet<ObjectId>)| {
                let lacks: Vec<_> = want.0.difference(&found.0).take(9).collect();
                let foreign: Vec<_> = found.0.difference(&want.0).take(9).collect();
                assert!(lacks.is_empty() && foreign.is_empty(), "{lacks:?} {foreign:?} {filter:?}");
                assert_eq!(found.1, want.1, "{filter:?}");
            };
            same((found, reach.boundary()));
            same(fill(&mem, &tips, &filter, &mut dice)?);
            Ok(())
        };
        run().expect("memory answers");
    }

    #[test]
    fn hidden_commits_hide_what_their_holder_has(seed in 1u64..) {
        let run = || -> Outcome {
            let (mem, mut dice) = (MemObjects::new(), Rng::new(seed));
            let commits = history(&mem, &mut dice, 8)?;
            let (tips, hidden) = (some(&mut dice, &commits), some(&mut dice, &commits));
            let mut filter = random_filter(&mut dice);
            filter.dropped = some_dropped(&mem, &hidden, &filter, &mut dice)?;
            // The receiver got the hidden commits with a limit.
            let limited = Filter {
                depth: dice.below(3) as u32,
                ..filter.clone()
            };
            let (had, boundary) = wanted(&mem, &hidden, &limited, &Objects::new())?;
            filter.shallow = boundary;
            let all = wanted(&mem, &tips, &filter, &had)?.0;
            let mut reach = Reach::filtered(tips, hidden, Detail::All, filter.clone());
            let found = found(&mut reach, &mem)?;
            assert!(found.is_subset(&all));
            let needed: Objects = all.difference(&had).copied().collect();
            assert!(needed.is_subset(&found), "{:?}", needed.difference(&found));
            assert!(reach.boundary().is_empty());
            Ok(())
        };
        run().expect("memory answers");
    }
}

/// A tree of which a part is wanted at one path and all at another, the part being met first.
#[test]
fn what_was_visited_in_part_is_visited_again_where_all_of_it_is_wanted() -> Outcome {
    let mem = MemObjects::new();
    let mut files = Files::new();
    for dir in [1, 2] {
        for name in 0..50 {
            files.insert((dir, name), name * 4 + 1);
        }
    }
    let tree = put_tree(&mem, &files)?;
    let tip = put_commit(&mem, &[], &tree, 1)?;
    for patterns in [["001/000007", "002"], ["001", "002/000007"]] {
        let filter = Filter {
            paths: Union::of([subset(&patterns)]),
            ..Filter::default()
        };
        let want = wanted(&mem, &[tip], &filter, &Objects::new())?.0;
        let mut reach = Reach::filtered([tip], [], Detail::All, filter);
        let mut found = Vec::new();
        while let Some(next) = reach.next(&mem)? {
            found.push((next.ty, next.id));
        }
        let once: Objects = found.iter().copied().collect();
        assert_eq!(once, want, "{patterns:?}");
        assert_eq!(found.len(), want.len(), "something was found twice");
    }
    Ok(())
}

#[test]
fn sides_of_a_conflict_are_wanted_by_the_conflicts_path() -> Outcome {
    let mem = MemObjects::new();
    let below = put_tree(&mem, &Files::from([((3, 3), 1), ((4, 4), 5)]))?;
    let term = |kind, id, size, files| Term {
        kind,
        is_list: false,
        is_private: false,
        id,
        size,
        files,
    };
    let chunk = mem.insert(ObjectType::Chunk, b"a side");
    let conflict = Conflict {
        bases: vec![None],
        sides: vec![
            Some(term(Kind::Directory, below.id, below.bytes, below.files)),
            Some(term(Kind::File, chunk, 6, 0)),
        ],
    };
    let bytes = conflict.encode().expect("it is valid");
    let mut root = TreeBuilder::new();
    root.push(
        &TreeEntry {
            name: SafeName::new(b"both").expect("allowed"),
            kind: Kind::Conflict,
            is_list: false,
            id: mem.insert(ObjectType::Conflict, &bytes),
            size: 0,
            files: 0,
            attrs: None,
        },
        &mut &mem,
    )?;
    let tip = put_commit(&mem, &[], &root.finish(&mut &mem)?, 1)?;
    // For each filter: the numbers of trees, chunks and conflicts.
    for (patterns, want) in [
        (vec![], (4, 3, 1)),
        (vec!["both"], (4, 3, 1)),
        (vec!["both/003"], (3, 1, 1)),
        (vec!["both/"], (4, 2, 1)),
        (vec!["other"], (1, 0, 0)),
    ] {
        let filter = Filter {
            paths: Union::of([subset(&patterns)]),
            ..Filter::default()
        };
        let mut reach = Reach::filtered([tip], [], Detail::All, filter);
        let found = found(&mut reach, &mem)?;
        let count = |ty| found.iter().filter(|o| o.0 == ty).count();
        let counts = (
            count(ObjectType::Tree),
            count(ObjectType::Chunk),
            count(ObjectType::Conflict),
        );
        assert_eq!(counts, want, "{patterns:?}");
    }
    Ok(())
}

#[test]
fn a_slice_of_a_large_tree_reads_nodes_of_the_slice() -> Outcome {
    let mem = MemObjects::new();
    let files: Files = (0..40_000).map(|n| ((n % 400, n), n % 50 + 1)).collect();
    let first = put_commit(&mem, &[], &put_tree(&mem, &files)?, 1)?;
    let filter = Filter {
        paths: Union::of([subset(&["007", "350"])]),
        ..Filter::default()
    };
    mem.reset_reads();
    let mut reach = Reach::filtered([first], [], Detail::Metadata, filter);
    let trees = found(&mut reach, &mem)?.into_iter();
    let trees = trees.filter(|o| o.0 == ObjectType::Tree).count();
    // The nodes of the root, about three, and one or two of each directory.
    assert!(trees < 12 && mem.reads() < 300, "{trees} {}", mem.reads());
    Ok(())
}

/// A file was given up, and a later version shares chunks with it. The walk must not count on those.
#[test]
fn what_a_file_shares_with_one_that_was_given_up_is_visited() -> Outcome {
    let mem = MemObjects::new();
    let mut files = Files::from([((0, 0), 2)]);
    let before = put_tree(&mem, &files)?;
    let first = put_commit(&mem, &[], &before, 1)?;
    files.insert((0, 0), 3);
    let second = put_commit(&mem, &[first], &put_tree(&mem, &files)?, 2)?;
    let filter = Filter {
        dropped: BTreeSet::from([blob_entry(&mem, "0".to_owned(), 2)?.id]),
        ..Filter::default()
    };
    let mut reach = Reach::filtered([second], [first], Detail::All, filter);
    let found = found(&mut reach, &mem)?;
    let chunks = found.iter().filter(|(ty, _)| *ty == ObjectType::Chunk);
    assert_eq!(chunks.count(), 3, "{found:?}");
    Ok(())
}
