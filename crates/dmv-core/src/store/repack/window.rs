//! Metadata that was read in the order in which it was stored, and the order in which it is stored again.
//!
//! What is read together should lie together, and what is alike should share a frame. Versions of one
//! directory or file are alike, but they are far apart where each commit was stored by itself. So the
//! objects of a window are sorted by path, and then by time:
//!
//! 1. older versions of directories and lists: `log -- PATH` and `blame` read those of few paths,
//! 2. the newest version at each path: a checkout of the newest commit reads these and no others,
//! 3. root directories, which everything reads that goes through the history,
//! 4. commits, which `log` reads alone.
//!
//! Paths are in the order of the first version at each, so neighbours stay neighbours. A window knows paths
//! only from its own commits. What they do not lead to keeps its place among the others.

use crate::hash::ObjectId;
use crate::object::ObjectType;
use crate::store::id_search::head_of;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Bytes of a window in memory, with what sorting takes.
const WINDOW_BYTES: usize = 64 << 20;
/// About the memory for each object of a window, apart from its bytes.
const OBJECT_BYTES: usize = 128;

/// The path of an object as a number. Equal paths have equal numbers. If different ones do, their
/// versions share frames.
type Path = u64;
const UNKNOWN: Path = 0;
const ROOT: Path = 1;

/// Objects of meta packs, in the order in which they were stored.
#[derive(Default)]
pub(super) struct Window {
    raw: Vec<u8>,
    objects: Vec<WindowObject>,
}

struct WindowObject {
    id: ObjectId,
    ty: ObjectType,
    from: u32,
    len: u32,
}

/// The part of a window in which an object is stored. The numbers are those of the list above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WindowPart {
    Older,
    Newest,
    Roots,
    Commits,
}

impl Window {
    /// Returns whether the window should be stored before an object of `len` bytes is added.
    pub fn is_full_for(&self, len: usize) -> bool {
        let objects = self.objects.len() + 1;
        !self.objects.is_empty() && self.raw.len() + len + objects * OBJECT_BYTES > WINDOW_BYTES
    }

    /// Adds an object.
    pub fn push(&mut self, id: ObjectId, ty: ObjectType, bytes: &[u8]) {
        let from = self.raw.len() as u32;
        self.raw.extend_from_slice(bytes);
        let len = bytes.len() as u32;
        self.objects.push(WindowObject { id, ty, from, len });
    }

    /// Empties the window and keeps its memory.
    pub fn clear(&mut self) {
        self.raw.clear();
        self.objects.clear();
    }

    /// Returns the objects in the order in which to store them, with their parts.
    pub fn in_order(&self) -> impl Iterator<Item = (WindowPart, ObjectId, ObjectType, &[u8])> {
        let order = self.order().into_iter();
        order.map(|(part, _, n)| {
            let held = &self.objects[n as usize];
            (part, held.id, held.ty, self.bytes(held))
        })
    }

    fn bytes(&self, held: &WindowObject) -> &[u8] {
        &self.raw[held.from as usize..][..held.len as usize]
    }

    /// Returns for each object its part, the number of the first version at its path, and its own.
    fn order(&self) -> Vec<(WindowPart, u32, u32)> {
        let paths = self.paths();
        let mut order: Vec<(WindowPart, u32, u32)> = Vec::with_capacity(self.objects.len());
        let mut by_path: Vec<(Path, u32)> = Vec::with_capacity(self.objects.len());
        for (n, (held, path)) in (0u32..).zip(self.objects.iter().zip(&paths)) {
            match (held.ty, *path) {
                (ObjectType::Commit, _) => order.push((WindowPart::Commits, 0, n)),
                (_, ROOT) => order.push((WindowPart::Roots, 0, n)),
                (_, UNKNOWN) => order.push((WindowPart::Older, n, n)),
                (_, path) => by_path.push((path, n)),
            }
        }
        by_path.sort_unstable();
        for versions in by_path.chunk_by(|a, b| a.0 == b.0) {
            let first = versions[0].1;
            let (newest, older) = versions.split_last().expect("no part is empty");
            order.extend(older.iter().map(|(_, n)| (WindowPart::Older, first, *n)));
            order.push((WindowPart::Newest, first, newest.1));
        }
        order.sort_unstable();
        order
    }

    /// Returns the path of each object, as far as the commits of the window lead to it.
    fn paths(&self) -> Vec<Path> {
        let numbers = (0u32..).zip(&self.objects);
        let by_id: HashMap<u64, u32, BuildHasherDefault<AsItIs>> = numbers
            .map(|(n, held)| (head_of(held.id.as_bytes()), n))
            .collect();
        let mut paths = vec![UNKNOWN; self.objects.len()];
        let mut open: Vec<u32> = Vec::new();
        for n in (0..self.objects.len() as u32).rev() {
            if self.objects[n as usize].ty == ObjectType::Commit {
                open.push(n);
            }
            while let Some(n) = open.pop() {
                let held = &self.objects[n as usize];
                let above = paths[n as usize];
                let followed = held.ty.each_link(self.bytes(held), &mut |name, ty, id| {
                    if ty == ObjectType::Chunk || ty == ObjectType::Commit {
                        return;
                    }
                    let known = by_id.get(&head_of(id.as_bytes())).map(|n| *n as usize);
                    if let Some(n) = known
                        && paths[n] == UNKNOWN
                        && self.objects[n].id == id
                    {
                        paths[n] = match held.ty {
                            ObjectType::Commit => ROOT,
                            ObjectType::List => above,
                            _ => below(above, name),
                        };
                        open.push(n as u32);
                    }
                });
                // Every object was decoded before. One that were damaged would have no path.
                let _ = followed;
            }
        }
        paths
    }
}

/// Returns the number of the path of an entry.
fn below(above: Path, name: &[u8]) -> Path {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let mix = |path: u64, byte: &u8| (path ^ u64::from(*byte)).wrapping_mul(PRIME);
    let path = name.iter().fold(mix(above, &b'/'), mix);
    // Low bits depend on few bits of the names.
    (path ^ path >> 29).max(ROOT + 1)
}

/// Takes the first bytes of an id, which is a hash already, as its hash.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn write(&mut self, _: &[u8]) {
        unreachable!("only numbers are hashed");
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::commit::{Commit, Person};
    use crate::object::list::{ListEntry, ListNode};
    use crate::object::name::SafeName;
    use crate::object::tree::{Kind, Node, TreeEntry};
    use std::collections::BTreeMap;
    use std::error::Error;

    type Done = Result<(), Box<dyn Error>>;

    /// A window, and a name for each object in it.
    #[derive(Default)]
    struct NamedWindow {
        window: Window,
        names: BTreeMap<ObjectId, String>,
    }

    impl NamedWindow {
        fn add(&mut self, name: &str, ty: ObjectType, bytes: &[u8]) -> ObjectId {
            let id = ty.id_of(bytes);
            self.window.push(id, ty, bytes);
            self.names.insert(id, name.to_owned());
            id
        }

        fn list(&mut self, name: &str, n: u8) -> ObjectId {
            let entries = [n, 77].map(|n| ListEntry {
                id: ObjectType::Chunk.id_of(&[n]),
                len: 20_000,
            });
            let node = ListNode {
                level: 0,
                entries: entries.to_vec(),
            };
            self.add(name, ObjectType::List, &node.encode())
        }

        fn tree(
            &mut self,
            name: &str,
            of: &[(&str, Kind, ObjectId)],
        ) -> Result<ObjectId, Box<dyn Error>> {
            let mut entries = Vec::new();
            for (name, kind, id) in of {
                entries.push(TreeEntry {
                    name: SafeName::new(name.as_bytes())?,
                    kind: *kind,
                    is_list: *kind == Kind::File,
                    id: *id,
                    size: 40_000,
                    files: u64::from(*kind == Kind::Directory),
                    attrs: None,
                });
            }
            let bytes = Node::Leaf(entries).encode()?;
            Ok(self.add(name, ObjectType::Tree, &bytes))
        }

        fn commit(&mut self, name: &str, tree: ObjectId) -> Done {
            let person = Person {
                name: name.into(),
                email: "a@b".into(),
                seconds: 0,
                nanos: 0,
                tz_minutes: 0,
            };
            let commit = Commit {
                tree,
                tree_bytes: 0,
                tree_files: 0,
                parents: Vec::new(),
                generation: 1,
                author: person.clone(),
                committer: person,
                message: name.into(),
                extras: Vec::new(),
                signature: None,
            };
            self.add(name, ObjectType::Commit, &commit.encode()?);
            Ok(())
        }

        fn order(&self) -> Vec<&str> {
            let order = self.window.in_order();
            order.map(|(_, id, ..)| self.names[&id].as_str()).collect()
        }
    }

    use Kind::{Directory, File};

    /// Three commits that change `a/x` and `b/y`, in turn.
    fn history() -> Result<NamedWindow, Box<dyn Error>> {
        let mut made = NamedWindow::default();
        let x = made.list("x1", 1);
        let a = made.tree("a1", &[("x", File, x)])?;
        let y = made.list("y1", 2);
        let b = made.tree("b1", &[("y", File, y)])?;
        let root = made.tree("root1", &[("a", Directory, a), ("b", Directory, b)])?;
        made.commit("commit1", root)?;
        let y = made.list("y2", 3);
        let b = made.tree("b2", &[("y", File, y)])?;
        let root = made.tree("root2", &[("a", Directory, a), ("b", Directory, b)])?;
        made.commit("commit2", root)?;
        let x = made.list("x2", 4);
        let a = made.tree("a2", &[("x", File, x)])?;
        let root = made.tree("root3", &[("a", Directory, a), ("b", Directory, b)])?;
        made.commit("commit3", root)?;
        Ok(made)
    }

    const SORTED: [&str; 14] = [
        "x1", "a1", "y1", "b1", "x2", "a2", "y2", "b2", "root1", "root2", "root3", "commit1",
        "commit2", "commit3",
    ];

    #[test]
    fn versions_lie_by_path_and_what_is_newest_lies_together() -> Done {
        assert_eq!(history()?.order(), SORTED);
        Ok(())
    }

    #[test]
    fn what_is_sorted_stays_so_and_later_commits_join_it() -> Done {
        let made = history()?;
        let mut again = NamedWindow {
            names: made.names.clone(),
            ..NamedWindow::default()
        };
        for (_, id, ty, bytes) in made.window.in_order() {
            again.window.push(id, ty, bytes);
        }
        assert_eq!(again.order(), SORTED);
        let y = again.list("y3", 5);
        let b = again.tree("b3", &[("y", File, y)])?;
        let root = again.tree("root4", &[("b", Directory, b)])?;
        again.commit("commit4", root)?;
        assert_eq!(
            again.order(),
            [
                "x1", "a1", "y1", "y2", "b1", "b2", "x2", "a2", "y3", "b3", "root1", "root2",
                "root3", "root4", "commit1", "commit2", "commit3", "commit4"
            ]
        );
        Ok(())
    }

    #[test]
    fn what_no_commit_of_the_window_leads_to_keeps_its_place() -> Done {
        let mut made = NamedWindow::default();
        let x = made.list("x1", 1);
        made.tree("lost1", &[("x", File, x)])?;
        let x = made.list("x2", 2);
        made.tree("lost2", &[("x", File, x)])?;
        assert_eq!(made.order(), ["x1", "lost1", "x2", "lost2"]);
        assert_eq!(Window::default().in_order().count(), 0);
        Ok(())
    }

    #[test]
    fn a_window_holds_a_bounded_number_of_bytes_and_any_single_object() {
        let mut window = Window::default();
        assert!(!window.is_full_for(2 * WINDOW_BYTES));
        let (mut objects, bytes) = (0, [0; 1_000]);
        while !window.is_full_for(bytes.len()) {
            window.push(ObjectId::from_bytes([0; 32]), ObjectType::Tree, &bytes);
            objects += 1;
        }
        assert_eq!(objects, WINDOW_BYTES / (1_000 + OBJECT_BYTES));
        window.clear();
        assert!(!window.is_full_for(bytes.len()));
    }
}
