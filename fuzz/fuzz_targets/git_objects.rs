//! Git's commits, tags and trees are taken apart or refused, and a commit comes back byte for byte.
#![no_main]

use dmv_core::ObjectId;
use dmv_core::object::commit::Commit;
use dmv_core::object::tree::{TreeSummary, empty_tree_id};
use dmv_git::commit::{CommitPlace, Form, GitOrigin, to_dmv, to_git};
use dmv_git::id::{Algorithm, GitType, id_of};
use dmv_git::object::{GitCommit, GitTag, GitTree, put_entry};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = GitTag::parse(data);
    tree(data);
    commit(data);
    // No mutation finds an id.
    let tree = id_of(Algorithm::Sha1, GitType::Tree, b"");
    commit(&[format!("tree {tree}\n").as_bytes(), data].concat());
});

fn tree(data: &[u8]) {
    let mut bytes = Vec::new();
    for entry in GitTree::new(data, Algorithm::Sha1) {
        let Ok(entry) = entry else {
            return;
        };
        let _ = entry.kind();
        put_entry(&mut bytes, entry);
    }
    assert_eq!(bytes, data);
}

fn commit(data: &[u8]) {
    let Ok(git) = GitCommit::parse(data) else {
        return;
    };
    let tree = TreeSummary {
        id: empty_tree_id(),
        bytes: 0,
        files: 0,
        entries: 0,
    };
    let place = CommitPlace {
        tree,
        parents: Vec::new(),
        generation: 1,
        git_parents: Vec::new(),
    };
    let commit = to_dmv(&git, id_of(Algorithm::Sha1, GitType::Commit, data), place);
    let bytes = commit.encode().expect("every commit can be encoded");
    let again = Commit::decode(&bytes).expect("what is encoded can be decoded");
    let is_whole = GitOrigin::of(&again).is_some_and(|origin| origin.form != Form::TooLong);
    // The digits of an id may have been capital letters, and the commit may end within its first line.
    let is_usual = data.starts_with(format!("tree {}\n", git.tree).as_bytes());
    if is_whole && is_usual {
        let id = ObjectId::from_bytes([0; 32]);
        assert_eq!(to_git(&again, id, git.tree, &git.parents), data);
    }
}
