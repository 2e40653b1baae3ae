//! Edits of directories of many nodes.

use super::*;
use crate::merge::edit_stored_tree;
use dmv_random::{Rng, seed};

type Names = BTreeMap<String, u64>;

fn entry(size: u64) -> TreeEntry {
    let id = ObjectId::from_bytes([size as u8; 32]);
    plain(Kind::File, id, false, size)
}

/// Makes a directory of files at once. Paths may have one slash.
fn anew(mem: &MemObjects, files: &Names) -> Result<TreeSummary, ObjectError> {
    let root = put_empty_tree(&mut &*mem)?;
    let edits = files
        .iter()
        .map(|(path, size)| (at(path), Some(entry(*size))));
    edit_tree(mem, &mut &*mem, root, &edits.collect())
}

fn edited(mem: &MemObjects, root: ObjectId, edits: &Edits) -> Result<TreeSummary, ObjectError> {
    edit_stored_tree(mem, &mut &*mem, root, &borrow_edits(edits))
}

#[test]
fn nodes_that_are_taken_over_are_those_that_would_be_made() -> Result<(), ObjectError> {
    let mut rng = Rng::new(seed(35));
    for round in 0..20 {
        let mem = MemObjects::new();
        let most = [5, 40, 600, 5_000][round % 4];
        let mut files: Names = (0..most)
            .map(|n| match n % 7 {
                0 => (format!("dir/{n}"), n),
                _ => (format!("{n:x}"), n),
            })
            .collect();
        let mut root = anew(&mem, &files)?;
        for _ in 0..6 {
            let mut edits = Edits::new();
            // Single edits, and runs of neighbours that are added or go away.
            for _ in 0..=rng.below(3) {
                let names: Vec<&String> = files.keys().collect();
                let from = rng.below(names.len().max(1) as u64) as usize;
                let run = [1, 3, 700][rng.below(3) as usize];
                let near: Vec<String> = names.into_iter().skip(from).take(run).cloned().collect();
                let kind = rng.below(3);
                for name in near {
                    let name = if kind == 0 { format!("{name}!") } else { name };
                    let new = (kind < 2).then(|| rng.below(1_000));
                    match new {
                        Some(size) => files.insert(name.clone(), size),
                        None => files.remove(&name),
                    };
                    edits.insert(at(&name), new.map(entry));
                }
            }
            files.entry("dir/stays".to_owned()).or_insert(1);
            edits.insert(at("dir/stays"), Some(entry(files["dir/stays"])));
            root = edited(&mem, root.id, &edits)?;
            assert_eq!(root, anew(&mem, &files)?, "seed {}", seed(35));
        }
    }
    Ok(())
}

#[test]
fn an_edit_of_a_large_directory_reads_only_what_is_around_it() -> Result<(), ObjectError> {
    let mem = MemObjects::new();
    let files: Names = (0..100_000).map(|n| (format!("{n:x}"), n)).collect();
    let root = anew(&mem, &files)?;
    for name in ["0", "8000", "ffff", "zz"] {
        let before = mem.reads();
        let edits = Edits::from([(at(name), Some(entry(7)))]);
        edited(&mem, root.id, &edits)?;
        let read = mem.reads() - before;
        assert!(read < 20, "{name}: {read} nodes of some 600 were read");
    }
    Ok(())
}
