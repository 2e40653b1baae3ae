//! A Git commit as a DMV commit, and back: docs/format/git.md.
//!
//! What a DMV commit has no field for is kept in its extra `git`, so that the way back gives the same
//! bytes. The module is pure: it reads and writes no objects.

use crate::id::{Algorithm, GitId};
use crate::object::{DMV_HEADER, GitCommit, Ident};
use dmv_core::ObjectId;
use dmv_core::object::commit::{Commit, GIT_KEY, Person};
use dmv_core::object::tree::TreeSummary;

const VERSION: u8 = 1;
/// Bytes of a value of an extra: docs/format/objects.md, "Commit".
pub const MAX_EXTRA_BYTES: usize = 64 << 10;
/// Bytes of a message: docs/format/objects.md, "Commit".
const MAX_MESSAGE_BYTES: usize = 256 << 10;
/// Bytes of a name or address: docs/format/objects.md, "Commit".
const MAX_PERSON_BYTES: usize = 1024;
/// Parents of a commit: docs/format/objects.md, "Commit".
pub const MAX_PARENTS: usize = 64;

/// How the bytes of a Git commit follow from the DMV commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// All of them follow from its fields.
    Usual,
    /// The tree and the parents do. These bytes come after them.
    AfterParents(Vec<u8>),
    /// The tree does. These bytes come after it, because Git has other parents.
    AfterTree(Vec<u8>),
    /// They are too many to be kept.
    TooLong,
}

/// Where a commit comes from: the content of its extra.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitOrigin {
    /// The id of the Git commit.
    pub id: GitId,
    /// How its bytes follow.
    pub form: Form,
}

impl GitOrigin {
    /// Returns the origin of a commit; `None` if it does not come from Git, or if the extra is of a
    /// version that is not known.
    pub fn of(commit: &Commit) -> Option<GitOrigin> {
        let extra = commit.extras.iter().find(|(key, _)| key == GIT_KEY);
        let (version, rest) = extra?.1.split_first()?;
        let (form, rest) = rest.split_first()?;
        let (length, rest) = rest.split_first()?;
        let (id, rest) = rest.split_at_checked(usize::from(*length))?;
        let id = GitId::new(id).filter(|_| *version == VERSION)?;
        let form = match (form, rest) {
            (0, []) => Form::Usual,
            (1, _) => Form::AfterParents(rest.to_vec()),
            (2, _) => Form::AfterTree(rest.to_vec()),
            (3, []) => Form::TooLong,
            _ => return None,
        };
        Some(GitOrigin { id, form })
    }

    fn value(&self) -> Vec<u8> {
        let (form, rest): (_, &[u8]) = match &self.form {
            Form::Usual => (0, b""),
            Form::AfterParents(rest) => (1, rest),
            Form::AfterTree(rest) => (2, rest),
            Form::TooLong => (3, b""),
        };
        let id = self.id.as_bytes();
        let mut value = vec![VERSION, form, id.len() as u8];
        value.extend_from_slice(id);
        value.extend_from_slice(rest);
        value
    }
}

/// What a commit is converted with: its place among the converted objects.
#[derive(Clone, Debug)]
pub struct CommitPlace {
    /// The tree, converted.
    pub tree: TreeSummary,
    /// The parents, converted, all different and at most [`MAX_PARENTS`].
    pub parents: Vec<ObjectId>,
    /// 1 + the greatest generation of the parents.
    pub generation: u64,
    /// The Git parents that `parents` stands for, in order. A difference to the commit's own list is kept.
    pub git_parents: Vec<GitId>,
}

/// Returns the DMV commit that stands for a Git commit.
///
/// Equal commits give equal ids, whoever imports them.
pub fn to_dmv(git: &GitCommit<'_>, id: GitId, at: CommitPlace) -> Commit {
    let is_latin = git.encoding.is_some_and(|name| {
        let names: [&[u8]; 3] = [b"iso-8859-1", b"iso8859-1", b"latin1"];
        names.iter().any(|latin| name.eq_ignore_ascii_case(latin))
    });
    let person = |ident| person_of(ident, is_latin);
    let mut commit = Commit {
        tree: at.tree.id,
        tree_bytes: at.tree.bytes,
        tree_files: at.tree.files,
        parents: at.parents,
        generation: at.generation,
        author: person(&git.author),
        committer: person(&git.committer),
        message: message_of(git.message, is_latin),
        extras: Vec::new(),
        signature: None,
    };
    let form = if at.git_parents != git.parents {
        Form::AfterTree(git.after_tree.to_vec())
    } else if after_parents(&commit, None) == git.after_parents {
        Form::Usual
    } else {
        Form::AfterParents(git.after_parents.to_vec())
    };
    let mut origin = GitOrigin { id, form };
    if origin.value().len() > MAX_EXTRA_BYTES {
        origin.form = Form::TooLong;
    }
    commit.extras.push((GIT_KEY.to_vec(), origin.value()));
    commit
}

/// Returns text as a DMV commit has it, at most `most` bytes. `is_latin`: it is ISO 8859-1 if it is not UTF-8.
fn text_of(bytes: &[u8], most: usize, is_latin: bool) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => clip(text, most),
        Err(_) if is_latin => clip(&bytes.iter().map(|b| *b as char).collect::<String>(), most),
        Err(_) => clip(&String::from_utf8_lossy(bytes), most),
    }
}

/// Returns a message of Git as a DMV commit has it.
pub fn message_of(message: &[u8], is_latin: bool) -> String {
    let message = message.strip_suffix(b"\n").unwrap_or(message);
    text_of(message, MAX_MESSAGE_BYTES, is_latin)
}

/// Returns a person of Git as a DMV commit has one.
pub fn person_of(ident: &Ident<'_>, is_latin: bool) -> Person {
    let text = |bytes| text_of(bytes, MAX_PERSON_BYTES, is_latin).replace(['\0', '\n'], " ");
    Person {
        name: text(ident.name),
        email: text(ident.email),
        seconds: ident.seconds,
        nanos: 0,
        tz_minutes: ident.tz_minutes,
    }
}

/// Returns the bytes of the Git commit that stands for a DMV commit with the id `id`.
///
/// The extra may come from a peer. Its bytes are taken only if they name no other parents than `parents`;
/// otherwise Git would get a history with commits that it does not have.
pub fn to_git(commit: &Commit, id: ObjectId, tree: GitId, parents: &[GitId]) -> Vec<u8> {
    let first = format!("tree {tree}\n").into_bytes();
    let lines: String = parents.iter().map(|id| format!("parent {id}\n")).collect();
    let form = GitOrigin::of(commit).map(|origin| origin.form);
    let kept = match &form {
        Some(Form::AfterTree(rest)) => Some([&first, &rest[..]].concat()),
        Some(Form::AfterParents(rest)) => Some([&first, lines.as_bytes(), rest].concat()),
        _ => None,
    };
    if let Some(bytes) = kept
        && let Ok(git) = GitCommit::parse(&bytes)
        && match form {
            Some(Form::AfterTree(_)) => git.parents.iter().all(|id| parents.contains(id)),
            _ => git.parents == parents,
        }
    {
        return bytes;
    }
    let own = form.is_none().then_some(id);
    [&first, lines.as_bytes(), &after_parents(commit, own)].concat()
}

/// Returns whether the extra of a commit names an id of this algorithm, or none.
pub fn fits(commit: &Commit, algorithm: Algorithm) -> bool {
    GitOrigin::of(commit).is_none_or(|origin| origin.id.algorithm() == algorithm)
}

/// Returns the usual bytes after the parents. `own`: the id of the DMV commit, if Git does not know it.
fn after_parents(commit: &Commit, own: Option<ObjectId>) -> Vec<u8> {
    let is_new = own.is_some();
    let [author, committer] = [&commit.author, &commit.committer].map(|who| ident(who, is_new));
    let mut out = format!("author {author}\ncommitter {committer}\n");
    if let Some(id) = own {
        let header = String::from_utf8_lossy(DMV_HEADER);
        out += &format!("{header}{id}\n");
    }
    out.push('\n');
    if !commit.message.is_empty() {
        out += &commit.message;
        out.push('\n');
    }
    out.into_bytes()
}

/// Returns a person with a time, as Git writes them. `is_new`: Git does not know it yet, and takes only what it could
/// have written.
pub fn ident(person: &Person, is_new: bool) -> String {
    // Git refuses them, and has no way to write them.
    let clean = |text: &str| {
        if is_new {
            text.replace(['<', '>'], "").trim().to_owned()
        } else {
            text.to_owned()
        }
    };
    let seconds = if is_new {
        person.seconds.max(0)
    } else {
        person.seconds
    };
    let sign = if person.tz_minutes < 0 { '-' } else { '+' };
    let tz = person.tz_minutes.abs();
    let (name, email) = (clean(&person.name), clean(&person.email));
    format!(
        "{name} <{email}> {seconds} {sign}{:02}{:02}",
        tz / 60,
        tz % 60
    )
}

/// Returns as much of the beginning of `text` as `most` bytes have room for.
fn clip(text: &str, most: usize) -> String {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

/// Converts a commit of the empty tree without parents, for tests.
#[cfg(test)]
pub(crate) fn first_commit(bytes: &[u8]) -> Commit {
    use dmv_core::object::tree::empty_tree_id;
    let git = GitCommit::parse(bytes).expect("a commit");
    let id = crate::id::id_of(Algorithm::Sha1, crate::id::GitType::Commit, bytes);
    let tree = TreeSummary {
        id: empty_tree_id(),
        bytes: 0,
        files: 0,
        entries: 0,
    };
    let at = CommitPlace {
        tree,
        parents: Vec::new(),
        generation: 1,
        git_parents: Vec::new(),
    };
    to_dmv(&git, id, at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

    fn tree() -> GitId {
        GitId::from_hex(TREE.as_bytes()).expect("40 digits")
    }

    fn back(commit: &Commit) -> Vec<u8> {
        to_git(commit, ObjectId::from_bytes([1; 32]), tree(), &[])
    }

    #[test]
    fn a_usual_commit_needs_no_bytes_of_its_own() {
        let text = format!(
            "tree {TREE}\nauthor Ada <a@x> 12 +0100\ncommitter Bo <b@x> -7 -0130\n\none\n\ntwo\n"
        );
        let commit = first_commit(text.as_bytes());
        assert_eq!(commit.message, "one\n\ntwo");
        let origin = GitOrigin::of(&commit).expect("an origin");
        assert_eq!(origin.form, Form::Usual);
        assert_eq!(back(&commit), text.as_bytes());
    }

    #[test]
    fn what_has_no_field_is_kept() {
        for after in [
            &b"author A <a> 1 +0000\ncommitter B <b> 2 -0000\n\nm\n"[..],
            b"author A <a> 1 +0000\ncommitter B <b> 2 +0000\ngpgsig x\n y\n\nm\n",
            b"author A <a> 1 +0000\ncommitter B <b> 2 +0000\nencoding latin1\n\n\xe9\n",
            b"author A <a> 1 +0000\ncommitter B <b> 2 +0000\n\nno end of line",
            b"author A <a> 1 +0000\ncommitter B <b> 2 +0000\n\n\n",
            b"author A <a>\ncommitter B\n\n",
            b"author A <a> 1 +0000\ncommitter B <b> 2 +0000",
            b"",
        ] {
            let bytes = [format!("tree {TREE}\n").as_bytes(), after].concat();
            let commit = first_commit(&bytes);
            assert_eq!(back(&commit), bytes, "{}", after.escape_ascii());
        }
        let latin = b"author A <a> 1 +0000\ncommitter B <b> 2 +0000\nencoding latin1\n\n\xe9\n";
        let latin = first_commit(&[format!("tree {TREE}\n").as_bytes(), latin].concat());
        assert_eq!(latin.message, "é");
    }

    #[test]
    fn too_much_is_said_instead_of_kept() {
        let long = "x".repeat(70_000);
        let text = format!(
            "tree {TREE}\nauthor A <a> 1 +0000\ncommitter B <b> 2 +0000\ngpgsig {long}\n\nm\n"
        );
        let origin = GitOrigin::of(&first_commit(text.as_bytes())).expect("an origin");
        assert_eq!(origin.form, Form::TooLong);
    }

    #[test]
    fn a_commit_of_dmv_says_so_in_git() {
        let text = format!("tree {TREE}\nauthor A <a> 1 +0000\ncommitter B <b> 2 +0000\n\nm\n");
        let mut own = first_commit(text.as_bytes());
        own.extras.clear();
        own.author.name = "A <x>".to_owned();
        own.author.nanos = 5;
        let bytes = back(&own);
        let git = GitCommit::parse(&bytes).expect("a commit");
        assert_eq!(git.author.name, b"A x");
        let id = ObjectId::from_bytes([1; 32]).to_string();
        assert_eq!(git.dmv, Some(id.as_bytes()));
    }

    #[test]
    fn a_peer_cannot_add_parents() {
        let text = format!("tree {TREE}\nauthor A <a> 1 +0000\ncommitter B <b> 2 +0000\n\nm\n");
        let commit = first_commit(text.as_bytes());
        let id = GitOrigin::of(&commit).expect("an origin").id;
        let more = format!("parent {TREE}\nauthor A <a> 1 +0000\ncommitter B <b> 2 +0000\n\nm\n");
        for form in [
            Form::AfterParents(more.clone().into_bytes()),
            Form::AfterTree(more.into_bytes()),
        ] {
            let mut forged = commit.clone();
            forged.extras = vec![(GIT_KEY.to_vec(), GitOrigin { id, form }.value())];
            assert_eq!(back(&forged), text.as_bytes());
        }
    }

    proptest! {
        #[test]
        fn every_commit_comes_back_byte_for_byte(after in proptest::collection::vec(any::<u8>(), 0..300)) {
            let bytes = [format!("tree {TREE}\n").as_bytes(), &after].concat();
            prop_assume!(!after.starts_with(b"parent "));
            let commit = first_commit(&bytes);
            prop_assert!(commit.encode().is_ok());
            prop_assert_eq!(back(&commit), bytes);
        }
    }
}
