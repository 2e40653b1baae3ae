//! What a transaction shows before and after it is published.

use super::*;
use crate::object::name::{RepoPath, SafeName};
use crate::object::tree::{Kind, TreeEntry, put_empty_tree};
use crate::repo::Repo;
use crate::repo::base::keys::{BUDGET, LOG_PURGED};
use std::path::Path;

fn request() -> OperationRequest {
    let time = Timestamp {
        seconds: 1_000,
        nanos: 0,
        tz_minutes: 0,
    };
    OperationRequest::new("test", "test", time)
}

fn repository() -> (tempfile::TempDir, Repo) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let repo = Repo::init(dir.path(), "main", true, request()).expect("a new repository");
    (dir, repo)
}

fn reopened(dir: &Path) -> Repo {
    Repo::open(dir).expect("the repository opens again")
}

fn holds(repo: &Repo, id: &ObjectId) -> bool {
    let found = repo.objects().read(ObjectType::Chunk, id);
    found.expect("the store answers").is_some()
}

/// Returns the edit that puts a file with this content at `path`.
fn file(tx: &mut Transaction<'_>, path: &str, text: &[u8]) -> Edits {
    let path = RepoPath::parse(path.as_bytes()).expect("a path");
    let entry = TreeEntry {
        name: SafeName::new(path.file_name().expect("a name")).expect("a safe name"),
        kind: Kind::File,
        is_list: false,
        id: tx
            .put(ObjectType::Chunk, text)
            .expect("the chunk is stored"),
        size: text.len() as u64,
        files: 0,
        attrs: None,
    };
    Edits::from([(path, Some(entry))])
}

/// Returns a commit of a tree on nothing.
fn commit_of(tree: TreeSummary) -> Commit {
    let person = crate::object::commit::Person {
        name: "test".to_owned(),
        email: String::new(),
        seconds: 1_000,
        nanos: 0,
        tz_minutes: 0,
    };
    Commit {
        tree: tree.id,
        tree_bytes: tree.bytes,
        tree_files: tree.files,
        parents: Vec::new(),
        generation: 1,
        author: person.clone(),
        committer: person,
        message: "test".to_owned(),
        extras: Vec::new(),
        signature: None,
    }
}

#[test]
fn objects_can_be_read_once_asked_for_and_are_gone_with_the_transaction() {
    let (dir, repo) = repository();
    let mut tx = Transaction::begin(&repo, &request());
    let id = tx.put(ObjectType::Chunk, b"text").expect("stored");
    assert!(!holds(&repo, &id), "nothing reads what is being written");
    tx.objects().expect("sealed");
    assert!(holds(&repo, &id));
    assert!(!holds(&reopened(dir.path()), &id), "it is not published");
    drop(tx);
    assert!(!holds(&repo, &id));
}

#[test]
fn a_transaction_edits_its_own_trees_and_publishes_all_at_once() {
    let (dir, repo) = repository();
    let mut tx = Transaction::begin(&repo, &request());
    let root = put_empty_tree(&mut tx).expect("stored");
    let edits = file(&mut tx, "a/one", b"1");
    let first = tx.edit_tree(root, &edits).expect("edited");
    let edits = file(&mut tx, "a/two", b"22");
    let second = tx.edit_tree(first.id, &edits).expect("edited");
    assert_eq!((second.files, second.bytes), (2, 3));
    let id = tx.put_commit(&commit_of(second)).expect("stored");
    assert!(tx.stored_bytes().expect("sealed") > 0);
    let main = "branch/main".to_owned();
    tx.set(main.clone(), Some(id.as_bytes().to_vec()))
        .expect("set");
    assert_eq!(repo.refs.get(&main).expect("read"), None);
    let done = tx.publish(Effect::Kept).expect("published");
    assert_eq!((done.undoes, done.changes.len()), (0, 1));
    let again = reopened(dir.path());
    assert_eq!(again.head_commit().expect("read"), Some(id));
    for text in [&b"1"[..], b"22"] {
        assert!(holds(&again, &ObjectType::Chunk.id_of(text)));
    }
}

#[test]
fn a_name_for_an_object_that_is_nowhere_is_refused() {
    let (_dir, repo) = repository();
    let mut tx = Transaction::begin(&repo, &request());
    let nowhere = Some(vec![7; 32]);
    tx.set("branch/main".to_owned(), nowhere).expect("set");
    let failed = tx.publish(Effect::Kept);
    assert!(matches!(
        failed,
        Err(RepoError::Refs(RefsError::NotStored { .. }))
    ));
    assert_eq!(repo.head_commit().expect("read"), None);
}

#[test]
fn a_value_that_a_key_has_already_is_no_change_but_a_record() {
    let (_dir, repo) = repository();
    let count = || repo.refs.operations(100).expect("read").len();
    let set = |value: &str| {
        let mut tx = Transaction::begin(&repo, &request());
        let value = Some(value.as_bytes().to_vec());
        tx.set(BUDGET.to_owned(), value).expect("set");
        tx.publish_changes(Effect::Kept).expect("published");
    };
    let before = count();
    set("1000000");
    assert_eq!(count(), before + 1);
    set("1000000");
    assert_eq!(count(), before + 1);
    for n in 2..4 {
        let mut tx = Transaction::begin(&repo, &request());
        tx.record(LOG_PURGED, "1 1".to_owned()).expect("recorded");
        tx.publish_changes(Effect::Kept).expect("published");
        assert_eq!(count(), before + n);
    }
}

#[test]
fn only_a_transaction_within_the_budget_is_limited() {
    let (_dir, repo) = repository();
    let mut tx = Transaction::begin(&repo, &request());
    tx.set(BUDGET.to_owned(), Some(b"1".to_vec())).expect("set");
    tx.publish(Effect::Kept).expect("published");
    let write = |mut tx: Transaction<'_>| {
        tx.put(ObjectType::Chunk, b"text")?;
        tx.objects()?;
        tx.record(LOG_PURGED, "1 1".to_owned())?;
        tx.publish(Effect::Kept)
    };
    let limited = Transaction::within_budget(&repo, &request()).expect("begun");
    assert!(write(limited).is_err());
    write(Transaction::begin(&repo, &request())).expect("no limit");
}

#[test]
fn an_undo_names_what_it_undoes() {
    let (_dir, repo) = repository();
    let last = repo.refs.operations(1).expect("read")[0].seq;
    let mut tx = Transaction::begin(&repo, &request()).undoing(last);
    tx.record(LOG_PURGED, "1 1".to_owned()).expect("recorded");
    let done = tx.publish(Effect::Kept).expect("published");
    assert_eq!(done.undoes, last);
}
