use super::*;
use crate::limits::{NODE_MAX, NODE_MIN};
use crate::object::mem::MemObjects;
use crate::object::name::RepoPath;
use crate::object::{ObjectError, ObjectRead, ObjectType};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use std::collections::BTreeMap;

type Outcome = Result<(), ObjectError>;

fn name(bytes: impl AsRef<[u8]>) -> SafeName {
    SafeName::new(bytes.as_ref()).expect("test names are allowed")
}

fn file(bytes: impl AsRef<[u8]>, content: u64) -> TreeEntry {
    TreeEntry {
        name: name(bytes),
        kind: Kind::File,
        is_list: false,
        id: ObjectType::Chunk.id_of(&content.to_le_bytes()),
        size: content % 1000,
        files: 0,
        attrs: None,
    }
}

fn numbered(range: std::ops::Range<u64>) -> BTreeMap<SafeName, TreeEntry> {
    range
        .map(|n| file(format!("file-{n:06}"), n))
        .map(|entry| (entry.name.clone(), entry))
        .collect()
}

fn build(
    mem: &MemObjects,
    entries: &BTreeMap<SafeName, TreeEntry>,
) -> Result<TreeSummary, ObjectError> {
    let mut writer = mem;
    let mut builder = TreeBuilder::new();
    for entry in entries.values() {
        builder.push(entry, &mut writer)?;
    }
    builder.finish(&mut writer)
}

fn put_node(mem: &MemObjects, node: &Node) -> ObjectId {
    let bytes = node.encode().expect("test nodes are valid");
    mem.insert(ObjectType::Tree, &bytes)
}

fn assert_reads_back(mem: &MemObjects, entries: &BTreeMap<SafeName, TreeEntry>) -> Outcome {
    let dir = build(mem, entries)?;
    let read = TreeIter::new(mem, dir.id).collect::<Result<Vec<_>, _>>()?;
    assert!(read.iter().eq(entries.values()));
    assert_eq!(dir.entries, entries.len() as u64);
    assert_eq!(dir.bytes, entries.values().map(|e| e.size).sum::<u64>());
    assert_eq!(dir.files, entries.values().map(TreeEntry::file_count).sum());
    Ok(())
}

fn arb_attrs() -> impl Strategy<Value = Option<Box<[u8]>>> {
    // Of the lower tags, those that are known have values of their own.
    let attrs = btree_map(5u8..100, vec(any::<u8>(), 0..8), 1..4).prop_map(|tags| {
        let mut out = Vec::new();
        for (tag, value) in tags {
            out.extend_from_slice(&[tag, value.len() as u8]);
            out.extend_from_slice(&value);
        }
        out.into()
    });
    prop::option::weighted(0.2, attrs)
}

prop_compose! {
    fn arb_entry()(
        text in "[a-z]{1,3}",
        kind in 1u8..=5,
        list in any::<bool>(),
        id in any::<[u8; 32]>(),
        size in 1u64..4096,
        files in 0u64..100,
        attrs in arb_attrs(),
    ) -> TreeEntry {
        let kind = Kind::from_number(kind).expect("1 to 5 are kinds");
        TreeEntry {
            name: name(text),
            kind,
            is_list: list && kind.is_blob(),
            id: ObjectId::from_bytes(id),
            size: if kind == Kind::Conflict { 0 } else { size },
            files: if kind == Kind::Directory { files } else { 0 },
            attrs,
        }
    }
}

fn arb_dir(max: usize) -> impl Strategy<Value = BTreeMap<SafeName, TreeEntry>> {
    vec(arb_entry(), 0..max).prop_map(|all| all.into_iter().map(|e| (e.name.clone(), e)).collect())
}

fn arb_node() -> impl Strategy<Value = Node> {
    let leaf = arb_dir(20).prop_map(|dir| Node::Leaf(dir.into_values().collect()));
    let child = (any::<[u8; 32]>(), 1u64..1000, any::<u32>(), any::<u32>());
    let inner = (1u8..=12, btree_map("[a-z]{1,3}", child, 1..20)).prop_map(|(level, children)| {
        let child =
            |(last, (id, entries, bytes, files)): (String, ([u8; 32], u64, u32, u32))| Child {
                last: name(last),
                id: ObjectId::from_bytes(id),
                totals: Totals {
                    entries,
                    bytes: u64::from(bytes),
                    files: u64::from(files),
                },
            };
        Node::Inner {
            level,
            children: children.into_iter().map(child).collect(),
        }
    });
    prop_oneof![leaf, inner]
}

proptest! {
    #[test]
    fn nodes_round_trip(node in arb_node()) {
        let bytes = node.encode().expect("the strategy makes valid nodes");
        prop_assert_eq!(Node::decode(&bytes), Ok(node));
    }

    #[test]
    fn changed_bytes_fail_or_are_another_nodes_encoding(
        node in arb_node(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<bool>(),
    ) {
        let mut bytes = node.encode().expect("the strategy makes valid nodes");
        let at = at.index(bytes.len());
        if cut {
            bytes.truncate(at);
        } else {
            bytes[at] = byte;
        }
        if let Ok(node) = Node::decode(&bytes) {
            prop_assert_eq!(node.encode(), Ok(bytes));
        }
    }

    #[test]
    fn any_bytes_decode_without_panic(bytes in vec(any::<u8>(), 0..200)) {
        let bytes = [&[3, 1][..], &bytes].concat();
        let _ = Node::decode(&bytes);
    }

    #[test]
    fn directories_agree_with_a_map(dir in arb_dir(900), probe in "[a-z]{1,3}") {
        let mem = MemObjects::new();
        assert_reads_back(&mem, &dir)?;
        let root = build(&mem, &dir)?.id;
        let probe = name(probe);
        prop_assert_eq!(lookup(&mem, &root, probe.as_bytes())?, dir.get(&probe).cloned());
        let rest = TreeIter::starting_at(&mem, root, probe.as_bytes());
        let rest = rest.collect::<Result<Vec<_>, _>>()?;
        prop_assert!(rest.iter().eq(dir.range::<SafeName, _>(&probe..).map(|(_, e)| e)));
    }

    #[test]
    fn every_entry_is_found(dir in arb_dir(600)) {
        let mem = MemObjects::new();
        let root = build(&mem, &dir)?.id;
        for (name, entry) in &dir {
            prop_assert_eq!(lookup(&mem, &root, name.as_bytes())?, Some(entry.clone()));
        }
    }
}

#[test]
fn sizes_around_the_node_limits_read_back() -> Outcome {
    for n in [
        0,
        1,
        NODE_MIN - 1,
        NODE_MIN,
        NODE_MIN + 1,
        NODE_MAX - 1,
        NODE_MAX,
        NODE_MAX + 1,
    ] {
        assert_reads_back(&MemObjects::new(), &numbered(0..n as u64))?;
    }
    assert_reads_back(&MemObjects::new(), &numbered(0..20_000))
}

#[test]
fn the_empty_directory_is_one_known_node() -> Outcome {
    let mem = MemObjects::new();
    let dir = build(&mem, &BTreeMap::new())?;
    assert_eq!(dir.id, empty_tree_id());
    assert_eq!(put_empty_tree(&mut &mem)?, empty_tree_id());
    assert_eq!((dir.entries, dir.files, dir.bytes), (0, 0, 0));
    assert_eq!(TreeIter::new(&mem, dir.id).count(), 0);
    assert_eq!(lookup(&mem, &dir.id, b"a")?, None);
    Ok(())
}

#[test]
fn nodes_end_by_the_rule_and_the_last_root_alone_is_short() -> Outcome {
    let mem = MemObjects::new();
    let dir = build(&mem, &numbered(0..30_000))?;
    let mut nodes = vec![(dir.id, true)];
    let mut leaves = 0;
    while let Some((id, last)) = nodes.pop() {
        let node = Node::decode(&mem.require(ObjectType::Tree, &id)?).expect("just built");
        assert!(node.ends_where_it_should(last));
        assert!(last || node.count() >= NODE_MIN);
        if let Node::Inner { children, .. } = &node {
            let end = children.len() - 1;
            let below = children.iter().enumerate();
            nodes.extend(below.map(|(i, child)| (child.id, last && i == end)));
        } else {
            leaves += 1;
        }
    }
    assert!(
        (120..=260).contains(&leaves),
        "{leaves} leaves for 30,000 names"
    );
    Ok(())
}

#[test]
fn one_new_name_makes_few_new_nodes() -> Outcome {
    let mem = MemObjects::new();
    let mut entries = numbered(0..10_000);
    build(&mem, &entries)?;
    for n in 0..100 {
        let added = file(format!("file-{:06}+", n * 97), n);
        entries.insert(added.name.clone(), added);
        let before = mem.len();
        build(&mem, &entries)?;
        let new = mem.len() - before;
        // One path of three levels. As many nodes again are new where a node splits, or where the
        // fixed minimum shifts the end of the next node.
        assert!(new <= 8, "{new} new nodes");
    }
    Ok(())
}

#[test]
fn lookup_reads_one_node_per_level() -> Outcome {
    let mem = MemObjects::new();
    let dir = build(&mem, &numbered(0..10_000))?;
    mem.reset_reads();
    assert!(lookup(&mem, &dir.id, b"file-005000")?.is_some());
    assert!(mem.reads() <= 3);
    Ok(())
}

#[test]
fn paths_are_followed_through_directories_only() -> Outcome {
    let mem = MemObjects::new();
    let inner = numbered(7..8);
    let below = build(&mem, &inner)?;
    let dir = TreeEntry {
        kind: Kind::Directory,
        id: below.id,
        size: below.bytes,
        files: below.files,
        ..file("dir", 0)
    };
    let root = build(&mem, &[(dir.name.clone(), dir.clone())].into())?.id;
    let find = |path: &str| {
        let path = RepoPath::parse(path.as_bytes()).expect("test paths are allowed");
        lookup_path(&mem, &root, &path)
    };
    assert_eq!(find("dir")?, Some(dir));
    assert_eq!(find("dir/file-000007")?.as_ref(), inner.values().next());
    assert_eq!(find("dir/file-000007/x")?, None);
    assert_eq!(find("none/file-000007")?, None);
    assert_eq!(find("")?, None);
    Ok(())
}

#[test]
fn unordered_and_invalid_entries_are_refused() -> Outcome {
    let mut mem = MemObjects::new();
    let mut builder = TreeBuilder::new();
    builder.push(&file("b", 1), &mut mem)?;
    for wrong in ["a", "b"] {
        let pushed = builder.push(&file(wrong, 1), &mut mem);
        assert!(
            matches!(pushed, Err(ObjectError::Unencodable(_))),
            "{wrong}"
        );
    }
    let base = file("c", 1);
    let attrs = |bytes: &[u8]| TreeEntry {
        attrs: Some(bytes.into()),
        ..base.clone()
    };
    for wrong in [
        TreeEntry {
            kind: Kind::Symlink,
            size: 0,
            ..base.clone()
        },
        TreeEntry {
            kind: Kind::Symlink,
            size: 4096,
            ..base.clone()
        },
        TreeEntry {
            kind: Kind::Conflict,
            size: 1,
            ..base.clone()
        },
        TreeEntry {
            kind: Kind::Directory,
            is_list: true,
            ..base.clone()
        },
        TreeEntry {
            files: 1,
            ..base.clone()
        },
        attrs(b""),
        attrs(&[2]),
        attrs(&[2, 0, 2, 0]),
        attrs(&[1, 2, 0, 0]),
        attrs(&[2; 1025]),
    ] {
        assert!(builder.push(&wrong, &mut mem).is_err(), "{wrong:?}");
        assert!(Node::Leaf(vec![wrong]).encode().is_err());
    }
    let full = TreeEntry {
        size: u64::MAX,
        ..base.clone()
    };
    assert!(
        builder.push(&full, &mut mem).is_err(),
        "sizes would overflow"
    );
    Ok(())
}

#[test]
fn nodes_that_break_a_rule_are_refused() {
    let entry = |text: &str| file(text, 1);
    let child = Child {
        last: name("a"),
        id: empty_tree_id(),
        totals: Totals {
            entries: 1,
            bytes: 0,
            files: 0,
        },
    };
    let inner = |level, child: &Child| Node::Inner {
        level,
        children: vec![child.clone()],
    };
    let none = Child {
        totals: Totals::default(),
        ..child.clone()
    };
    for (node, why) in [
        (
            Node::Leaf(vec![entry("b"), entry("a")]),
            "names do not rise",
        ),
        (
            Node::Leaf(vec![entry("a"), entry("a")]),
            "names do not rise",
        ),
        (
            Node::Inner {
                level: 1,
                children: vec![],
            },
            "inner node is empty",
        ),
        (inner(13, &child), "node level is too high"),
        (inner(1, &none), "child node is empty"),
    ] {
        assert_eq!(node.encode().map_err(|e| e.what), Err(why));
    }
    let too_new = Node::decode(&[3, 2, 0, 0]).map_err(|e| e.what);
    assert_eq!(too_new, Err("format too new"));
}

#[test]
fn a_child_that_is_not_what_its_parent_says_is_damage() {
    let mem = MemObjects::new();
    let leaf = |range| Node::Leaf(numbered(range).into_values().collect());
    let child = |node: &Node| Child {
        last: node.name_range().expect("not empty").1.clone(),
        id: put_node(&mem, node),
        totals: node.totals().expect("small"),
    };
    let [first, second] = [child(&leaf(0..40)), child(&leaf(40..80))];
    let dir = |level, first: &Child, second: &Child| {
        let children = vec![first.clone(), second.clone()];
        put_node(&mem, &Node::Inner { level, children })
    };
    let last = numbered(79..80).into_keys().next().expect("one name");
    let read = |root| TreeIter::new(&mem, root).collect::<Result<Vec<_>, _>>();
    assert_eq!(
        read(dir(1, &first, &second)).map(|all| all.len()).ok(),
        Some(80)
    );

    let lie = |change: &dyn Fn(&mut Child)| {
        let mut child = second.clone();
        change(&mut child);
        child
    };
    for (root, want) in [
        (dir(1, &first, &lie(&|c| c.totals.entries += 1)), "totals"),
        (dir(1, &first, &lie(&|c| c.totals.bytes += 1)), "totals"),
        (dir(1, &first, &lie(&|c| c.totals.files -= 1)), "totals"),
        (dir(1, &first, &lie(&|c| c.last = name("zzz"))), "last name"),
        (dir(2, &first, &second), "level"),
        (dir(1, &first, &child(&leaf(39..80))), "rise"),
        (
            put_node(
                &mem,
                &Node::Inner {
                    level: 1,
                    children: vec![first.clone()],
                },
            ),
            "single",
        ),
        (
            dir(1, &first, &lie(&|c| c.id = ObjectType::Tree.id_of(b"none"))),
            "absent from this repository",
        ),
    ] {
        let error = read(root).expect_err(want).to_string();
        assert!(error.contains(want), "{error}");
        let error = lookup(&mem, &root, last.as_bytes());
        assert!(error.is_err() || error.ok().flatten().is_none(), "{want}");
    }
}

#[test]
fn iteration_ends_after_an_error() -> Outcome {
    let mem = MemObjects::new();
    let dir = build(&mem, &numbered(0..2_000))?;
    let Ok(Node::Inner { children, .. }) = Node::read_root(&mem, &dir.id) else {
        panic!("2,000 entries need two levels");
    };
    mem.remove(ObjectType::Tree, &children[1].id);
    let mut iter = TreeIter::new(&mem, dir.id);
    let good = iter.by_ref().take_while(Result::is_ok).count();
    assert_eq!(good as u64, children[0].totals.entries);
    assert!(iter.next().is_none());
    Ok(())
}

#[test]
fn the_empty_directory_is_known_without_a_copy() -> Outcome {
    let mem = MemObjects::new();
    assert!(TreeIter::new(&mem, empty_tree_id()).next().is_none());
    assert!(lookup(&mem, &empty_tree_id(), b"name")?.is_none());
    Ok(())
}
