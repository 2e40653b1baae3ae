//! A DMV tree becomes a Git tree.

use super::lfs::{
    ATTRIBUTES, AttributesLine, Fate, LfsChoice, LfsStore, MAX_ATTRIBUTES_BYTES, RuleReader, Rules,
    may_be_pointer, with_lines,
};
use crate::error::GitError;
use crate::id::{GitId, GitType};
use crate::import::lfs::{ContentHash, Pointer};
use crate::import::trees::{ATTR_EMPTY, ATTR_MODE, ATTR_POINTER, ATTR_SUBMODULE, git_attribute};
use crate::map::{Became, IdMap, KnownObject};
use crate::object::{BadObject, GitEntry, ModeKind, kind_of, order_key, put_entry, usual_mode};
use crate::pack::PackWriter;
use crate::source::GitSource;
use dmv_core::ObjectId;
use dmv_core::object::list::{Blob, BlobChunks};
use dmv_core::object::tree::{Kind, Totals, TreeEntry, TreeIter, empty_tree_id};
use dmv_core::object::{ObjectRead, ObjectType};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

/// Directories in each other that a path can have.
const MAX_DEPTH: usize = 1024;
/// Lines for attribute files that are remembered. Beyond them, directories are converted again.
const MOST_LINES: usize = 1 << 20;

/// What goes out as pointers of Git LFS, and where the content of these goes.
pub struct LfsExport {
    /// Files that become pointers in commits that DMV made.
    pub choice: LfsChoice,
    /// Where Git LFS looks for their content.
    pub store: LfsStore,
}

/// What trees could not give to Git as it is, or gave in another form.
#[derive(Clone, Copy, Debug, Default)]
pub struct TreeCounts {
    /// Directories without anything that Git can have.
    pub empty_directories: u64,
    /// Private files, which others may read in Git.
    pub private_files: u64,
    /// Files that came as pointers of Git LFS and go as content.
    pub unwanted_pointers: u64,
    /// Contents that became pointers of Git LFS.
    pub pointers: u64,
}

/// Converts trees, each once.
pub struct TreeExport<'e> {
    objects: &'e dyn ObjectRead,
    lfs: Option<LfsExport>,
    /// Trees and blobs that the target has. A directory without anything that Git can have is `None`.
    done: HashMap<ObjectId, Option<WrittenTree>>,
    /// Directories of commits that DMV made, if Git LFS gets some of their files.
    ruled: HashMap<RuledTree, RuledResult>,
    /// How many lines `ruled` has.
    lines: usize,
    rules: RuleReader,
    /// Pointers of Git LFS that the target has, by the content's id and their texts.
    pointers: HashMap<(ObjectId, Vec<u8>), GitId>,
    /// The pointers that stand for contents; `None` of one that is a pointer itself.
    made: HashMap<ObjectId, Option<GitId>>,
    counts: TreeCounts,
}

/// An object of Git that stands for one of DMV.
#[derive(Clone, Copy)]
struct WrittenTree {
    id: GitId,
    /// Whether an import makes the DMV object of it, or one that a commit keeps more of.
    is_exact: bool,
}

/// What a directory becomes depends on this.
#[derive(Clone, PartialEq, Eq, Hash)]
struct RuledTree {
    tree: ObjectId,
    path: Vec<u8>,
    rules: u64,
}

/// What a directory became.
#[derive(Clone)]
struct RuledResult {
    written: Option<WrittenTree>,
    /// The lines that the attribute file of the root needs for it.
    lines: Rc<BTreeSet<AttributesLine>>,
}

/// A directory that is converted.
#[derive(Clone, Copy)]
struct Dir<'d> {
    tree: ObjectId,
    path: &'d [u8],
    totals: Totals,
    depth: usize,
    /// What says which files become pointers; `None` if only those do that came as pointers.
    rules: Option<&'d Rules>,
}

/// Where converted objects go.
pub struct Sink<'t, 's> {
    /// What is converted.
    pub map: &'t mut IdMap,
    /// The objects for the target.
    pub pack: &'t mut PackWriter<'s>,
}

/// An entry of a Git tree.
struct NewEntry {
    mode: Vec<u8>,
    name: Vec<u8>,
    id: GitId,
    is_directory: bool,
    is_exact: bool,
}

impl<'e> TreeExport<'e> {
    /// Returns a converter of trees among `objects`.
    pub fn new(objects: &'e dyn ObjectRead, lfs: Option<LfsExport>) -> TreeExport<'e> {
        TreeExport {
            objects,
            lfs,
            done: HashMap::new(),
            ruled: HashMap::new(),
            lines: 0,
            rules: RuleReader::default(),
            pointers: HashMap::new(),
            made: HashMap::new(),
            counts: TreeCounts::default(),
        }
    }

    /// Returns what was counted.
    pub fn counts(&self) -> TreeCounts {
        self.counts
    }

    /// Notes what of some trees, and of everything below them, `target` has under an id that `map` knows.
    pub fn has(
        &mut self,
        trees: Vec<ObjectId>,
        map: &IdMap,
        target: &GitSource,
    ) -> Result<(), GitError> {
        let (mut seen, mut candidates) = (HashSet::new(), HashMap::new());
        let mut note = |id: ObjectId| -> Result<(), GitError> {
            for git in map.all_git_of(&id)? {
                candidates.insert(git, id);
            }
            Ok(())
        };
        let mut next = trees;
        while let Some(tree) = next.pop() {
            // Whether Git has an empty directory depends on the entry.
            if tree == empty_tree_id() || !seen.insert(tree) {
                continue;
            }
            note(tree)?;
            for entry in TreeIter::new(self.objects, tree) {
                let entry = entry?;
                if entry.kind == Kind::Directory {
                    next.push(entry.id);
                } else if seen.insert(entry.id) {
                    note(entry.id)?;
                }
            }
        }
        // An export to another repository may have given them other ids.
        let ids: Vec<GitId> = candidates.keys().copied().collect();
        for (_, id) in target.objects_among(&ids)? {
            let is_exact = true;
            self.done
                .insert(candidates[&id], Some(WrittenTree { id, is_exact }));
        }
        Ok(())
    }

    /// Converts the tree of a commit, and writes what the target lacks. `is_own`: DMV made the commit.
    pub fn root(
        &mut self,
        tree: ObjectId,
        is_own: bool,
        sink: &mut Sink<'_, '_>,
    ) -> Result<GitId, GitError> {
        let dir = Dir {
            tree,
            path: b"",
            totals: Totals::default(),
            depth: 0,
            rules: None,
        };
        let written = match &self.lfs {
            Some(lfs) if is_own => {
                let choice = lfs.choice.clone();
                self.ruled_root(&choice, dir, sink)?
            }
            _ => self.tree(dir, sink)?,
        };
        match written {
            Some(written) => Ok(written.id),
            None => sink.pack.add(GitType::Tree, b""),
        }
    }

    /// Converts a tree of a commit that DMV made, and adds the lines to its attribute file that Git LFS needs.
    fn ruled_root(
        &mut self,
        choice: &LfsChoice,
        dir: Dir<'_>,
        sink: &mut Sink<'_, '_>,
    ) -> Result<Option<WrittenTree>, GitError> {
        if self.lines > MOST_LINES {
            self.ruled.clear();
            self.lines = 0;
        }
        let file = self.attribute_file(dir.tree)?;
        let may_add = file.as_ref().is_none_or(is_readable);
        let rules = RuleReader::above_root(choice, may_add);
        let dir = Dir {
            rules: Some(&rules),
            ..dir
        };
        let mut lines = BTreeSet::new();
        let mut entries = self.entries(dir, &mut lines, sink)?;
        if !lines.is_empty() {
            let text = match &file {
                Some(file) => self.content(file)?,
                None => Vec::new(),
            };
            let id = sink.pack.add(GitType::Blob, &with_lines(text, &lines))?;
            match entries.iter_mut().find(|made| made.name == ATTRIBUTES) {
                Some(made) => made.id = id,
                None => entries.push(NewEntry {
                    mode: usual_mode(ModeKind::File { executable: false }).to_vec(),
                    name: ATTRIBUTES.to_vec(),
                    id,
                    is_directory: false,
                    is_exact: false,
                }),
            }
        }
        write_tree(entries, sink)
    }

    /// Returns the entry of the attribute file in a directory.
    fn attribute_file(&self, tree: ObjectId) -> Result<Option<TreeEntry>, GitError> {
        for entry in TreeIter::new(self.objects, tree) {
            let entry = entry?;
            if entry.name.as_bytes() == ATTRIBUTES {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// Returns `None` for a directory without anything that Git can have.
    fn tree(
        &mut self,
        dir: Dir<'_>,
        sink: &mut Sink<'_, '_>,
    ) -> Result<Option<WrittenTree>, GitError> {
        if dir.tree == empty_tree_id() {
            return Ok(None);
        }
        if let Some(done) = self.done.get(&dir.tree) {
            return Ok(*done);
        }
        let entries = self.entries(dir, &mut BTreeSet::new(), sink)?;
        let written = write_tree(entries, sink)?;
        note_tree(dir, written, sink)?;
        self.done.insert(dir.tree, written);
        Ok(written)
    }

    /// The same where rules say which files become pointers.
    fn ruled_tree(
        &mut self,
        dir: Dir<'_>,
        rules: &Rules,
        lines: &mut BTreeSet<AttributesLine>,
        sink: &mut Sink<'_, '_>,
    ) -> Result<Option<WrittenTree>, GitError> {
        if dir.tree == empty_tree_id() {
            return Ok(None);
        }
        let path = if rules.is_empty() { b"" } else { dir.path };
        let key = RuledTree {
            tree: dir.tree,
            path: path.to_vec(),
            rules: rules.number,
        };
        let done = match self.ruled.get(&key) {
            Some(done) => done.clone(),
            None => {
                let mut own = BTreeSet::new();
                let entries = self.entries(dir, &mut own, sink)?;
                let written = write_tree(entries, sink)?;
                note_tree(dir, written, sink)?;
                self.lines += own.len();
                let lines = Rc::new(own);
                let done = RuledResult { written, lines };
                self.ruled.insert(key, done.clone());
                done
            }
        };
        lines.extend(done.lines.iter().cloned());
        Ok(done.written)
    }

    /// Converts what a directory has.
    fn entries(
        &mut self,
        dir: Dir<'_>,
        lines: &mut BTreeSet<AttributesLine>,
        sink: &mut Sink<'_, '_>,
    ) -> Result<Vec<NewEntry>, GitError> {
        if dir.depth > MAX_DEPTH {
            return Err(BadObject("directories lie too deep in each other").into());
        }
        let rules = match dir.rules {
            Some(above) => Some(self.rules_in(dir, above)?),
            None => None,
        };
        let dir = Dir {
            rules: rules.as_ref(),
            ..dir
        };
        let mut made = Vec::new();
        for entry in TreeIter::new(self.objects, dir.tree) {
            let entry = entry?;
            made.extend(if entry.kind == Kind::Directory {
                self.directory(&entry, dir, lines, sink)?
            } else {
                Some(self.file(&entry, dir, lines, sink)?)
            });
        }
        Ok(made)
    }

    /// Returns the rules in a directory below those above it.
    fn rules_in(&mut self, dir: Dir<'_>, above: &Rules) -> Result<Rules, GitError> {
        let Some(file) = self.attribute_file(dir.tree)?.filter(is_readable) else {
            return Ok(above.clone());
        };
        let mut rules = std::mem::take(&mut self.rules);
        let inside = rules.enter(above, dir.path, file.id, || self.content(&file));
        self.rules = rules;
        inside
    }

    fn directory(
        &mut self,
        entry: &TreeEntry,
        above: Dir<'_>,
        lines: &mut BTreeSet<AttributesLine>,
        sink: &mut Sink<'_, '_>,
    ) -> Result<Option<NewEntry>, GitError> {
        let attribute = git_attribute(entry.attrs.as_deref());
        let made = |mode: &[u8], written: WrittenTree| NewEntry {
            mode: mode.to_vec(),
            name: entry.name.as_bytes().to_vec(),
            id: written.id,
            is_directory: kind_of(mode).is_some_and(|(kind, _)| kind == ModeKind::Directory),
            is_exact: written.is_exact,
        };
        let exact = |id: GitId| WrittenTree { id, is_exact: true };
        if let Some((ATTR_SUBMODULE, id)) = attribute
            && let Some(id) = GitId::new(id).filter(|_| entry.files == 0)
            && id.algorithm() == sink.pack.algorithm()
        {
            return Ok(Some(made(b"160000", exact(id))));
        }
        let path = path_below(above, entry);
        let dir = Dir {
            tree: entry.id,
            path: &path,
            totals: Totals {
                entries: 0,
                bytes: entry.size,
                files: entry.files,
            },
            depth: above.depth + 1,
            rules: above.rules,
        };
        let written = match above.rules {
            Some(rules) => self.ruled_tree(dir, rules, lines, sink)?,
            None => self.tree(dir, sink)?,
        };
        let mode = mode_of(attribute, ModeKind::Directory);
        match written {
            Some(written) => Ok(Some(made(mode, written))),
            None if matches!(attribute, Some((ATTR_EMPTY, _))) => {
                Ok(Some(made(mode, exact(sink.pack.add(GitType::Tree, b"")?))))
            }
            None => {
                self.counts.empty_directories += 1;
                Ok(None)
            }
        }
    }

    /// Converts a file or a symlink.
    fn file(
        &mut self,
        entry: &TreeEntry,
        dir: Dir<'_>,
        lines: &mut BTreeSet<AttributesLine>,
        sink: &mut Sink<'_, '_>,
    ) -> Result<NewEntry, GitError> {
        let attribute = git_attribute(entry.attrs.as_deref());
        self.counts.private_files += u64::from(entry.is_private());
        let kind = match entry.kind {
            Kind::Symlink => ModeKind::Symlink,
            kind => ModeKind::File {
                executable: kind == Kind::Executable,
            },
        };
        let (mut is_exact, mut pointer) = (true, None);
        if let Some((ATTR_POINTER, text)) = attribute {
            pointer = self.pointer_again(entry, text, sink)?;
            is_exact = pointer.is_some();
        }
        if pointer.is_none()
            && let Some(rules) = dir.rules
            && let Fate::Pointer(line) = rules.fate(&path_below(dir, entry), entry)
        {
            pointer = self.new_pointer(entry, sink)?;
            if pointer.is_some() {
                is_exact = false;
                lines.extend(line);
            }
        }
        let id = match pointer {
            Some(id) => id,
            None => self.blob(entry, sink)?,
        };
        Ok(NewEntry {
            mode: mode_of(attribute, kind).to_vec(),
            name: entry.name.as_bytes().to_vec(),
            id,
            is_directory: false,
            is_exact,
        })
    }

    /// Writes the content of a file or a symlink's target.
    fn blob(&mut self, entry: &TreeEntry, sink: &mut Sink<'_, '_>) -> Result<GitId, GitError> {
        if let Some(Some(written)) = self.done.get(&entry.id) {
            return Ok(written.id);
        }
        let mut object = sink.pack.begin_object(GitType::Blob, entry.size)?;
        let mut has_nul = false;
        self.read(entry, |bytes| {
            has_nul |= bytes.contains(&0);
            object.write(bytes)
        })?;
        let git = object.end()?;
        let written = WrittenTree {
            id: git,
            is_exact: true,
        };
        self.done.insert(entry.id, Some(written));
        note_blob(entry, git, has_nul, sink)?;
        Ok(git)
    }

    /// Passes the content of an entry on, piece by piece.
    fn read(
        &self,
        entry: &TreeEntry,
        mut pass: impl FnMut(&[u8]) -> Result<(), GitError>,
    ) -> Result<(), GitError> {
        let blob = Blob {
            id: entry.id,
            is_list: entry.is_list,
            size: entry.size,
        };
        for chunk in BlobChunks::new(self.objects, blob) {
            let (_, id, _) = chunk?;
            pass(&self.objects.require(ObjectType::Chunk, &id)?)?;
        }
        Ok(())
    }

    /// Returns the content of a small file.
    fn content(&self, entry: &TreeEntry) -> Result<Vec<u8>, GitError> {
        let mut bytes = Vec::new();
        self.read(entry, |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(bytes)
    }

    /// Writes the pointer of Git LFS that a file came as, and the content for it where Git LFS looks for it. Returns
    /// `None` if pointers are not wanted, or if this one does not fit the content: it may come from a peer.
    fn pointer_again(
        &mut self,
        entry: &TreeEntry,
        text: &[u8],
        sink: &mut Sink<'_, '_>,
    ) -> Result<Option<GitId>, GitError> {
        let Some(lfs) = &self.lfs else {
            self.counts.unwanted_pointers += 1;
            return Ok(None);
        };
        let key = (entry.id, text.to_vec());
        if let Some(git) = self.pointers.get(&key) {
            return Ok(Some(*git));
        }
        let Some(pointer) = Pointer::parse(text).filter(|pointer| pointer.size == entry.size)
        else {
            return Ok(None);
        };
        if lfs.store.has(&pointer) {
            let mut hash = ContentHash::default();
            self.read(entry, |bytes| {
                hash.update(bytes);
                Ok(())
            })?;
            if !hash.fits(&pointer) {
                return Ok(None);
            }
        } else if self.keep_content(entry, lfs, Some(&pointer))?.is_none() {
            return Ok(None);
        }
        let git = sink.pack.add(GitType::Blob, text)?;
        self.counts.pointers += 1;
        self.pointers.insert(key, git);
        Ok(Some(git))
    }

    /// Writes the pointer of Git LFS for a file, and its content. Returns `None` if the file is a pointer itself.
    fn new_pointer(
        &mut self,
        entry: &TreeEntry,
        sink: &mut Sink<'_, '_>,
    ) -> Result<Option<GitId>, GitError> {
        let Some(lfs) = &self.lfs else {
            return Ok(None);
        };
        if let Some(made) = self.made.get(&entry.id) {
            return Ok(*made);
        }
        if may_be_pointer(entry.size) && Pointer::parse(&self.content(entry)?).is_some() {
            self.made.insert(entry.id, None);
            return Ok(None);
        }
        // An earlier export or the import has hashed it.
        let known = sink.map.pointers_of(&entry.id)?;
        let mut known = known.iter().filter_map(|text| {
            let pointer = Pointer::parse(text)?;
            (pointer.size == entry.size && pointer.text() == *text).then_some(pointer)
        });
        let pointer = match known.find(|pointer| lfs.store.has(pointer)) {
            Some(pointer) => Some(pointer),
            None => self.keep_content(entry, lfs, None)?,
        };
        let Some(pointer) = pointer else {
            return Ok(None);
        };
        let text = pointer.text();
        let git = sink.pack.add(GitType::Blob, &text)?;
        // What others have changed around it comes back, and then it stands for this content.
        sink.map.keep_pointer(&git, &text)?;
        note_blob(entry, git, false, sink)?;
        self.counts.pointers += 1;
        self.made.insert(entry.id, Some(git));
        Ok(Some(git))
    }

    /// Writes the content of a file to where Git LFS looks for it, and returns its pointer; `None` if this is not
    /// `wanted`.
    fn keep_content(
        &self,
        entry: &TreeEntry,
        lfs: &LfsExport,
        wanted: Option<&Pointer>,
    ) -> Result<Option<Pointer>, GitError> {
        let mut content = lfs.store.begin().map_err(GitError::Read)?;
        self.read(entry, |bytes| content.write(bytes).map_err(GitError::Read))?;
        lfs.store.end(content, wanted).map_err(GitError::Read)
    }
}

/// Writes a directory; `None` if it has nothing that Git can have.
fn write_tree(
    mut entries: Vec<NewEntry>,
    sink: &mut Sink<'_, '_>,
) -> Result<Option<WrittenTree>, GitError> {
    if entries.is_empty() {
        return Ok(None);
    }
    entries.sort_by_cached_key(|made| order_key(&made.name, made.is_directory));
    let mut bytes = Vec::new();
    for made in &entries {
        put_entry(&mut bytes, made.entry());
    }
    Ok(Some(WrittenTree {
        id: sink.pack.add(GitType::Tree, &bytes)?,
        is_exact: entries.iter().all(|made| made.is_exact),
    }))
}

/// Lets the map know which tree a directory stands for. An import makes another tree of one with new pointers. Of a
/// root, the totals are not known.
fn note_tree(
    dir: Dir<'_>,
    written: Option<WrittenTree>,
    sink: &mut Sink<'_, '_>,
) -> Result<(), GitError> {
    if let Some(WrittenTree {
        id: git,
        is_exact: true,
    }) = written
        && dir.depth > 0
        && sink.map.get(&git)?.is_none()
    {
        let Totals { bytes, files, .. } = dir.totals;
        let (id, became) = (dir.tree, Became::Tree { bytes, files });
        sink.map.add(git, KnownObject { id, became });
    }
    Ok(())
}

/// Lets the map know which content a blob or pointer stands for.
fn note_blob(
    entry: &TreeEntry,
    git: GitId,
    has_nul: bool,
    sink: &mut Sink<'_, '_>,
) -> Result<(), GitError> {
    if sink.map.get(&git)?.is_none() {
        let became = Became::Blob {
            size: entry.size,
            is_list: entry.is_list,
            has_nul,
        };
        let id = entry.id;
        sink.map.add(git, KnownObject { id, became });
    }
    Ok(())
}

/// Returns whether an attribute file can be read as one: Git ignores other kinds of entries, too.
fn is_readable(file: &TreeEntry) -> bool {
    matches!(file.kind, Kind::File | Kind::Executable) && file.size <= MAX_ATTRIBUTES_BYTES
}

fn path_below(dir: Dir<'_>, entry: &TreeEntry) -> Vec<u8> {
    let name = entry.name.as_bytes();
    if dir.path.is_empty() {
        name.to_vec()
    } else {
        [dir.path, b"/", name].concat()
    }
}

/// Returns the mode of an entry: the one that Git had, if it says the same as the entry, or the usual one.
///
/// The attribute may come from a peer. A mode is written before the name, so it must be nothing else.
fn mode_of(attribute: Option<(u8, &[u8])>, kind: ModeKind) -> &[u8] {
    match attribute {
        Some((ATTR_MODE, mode)) if kind_of(mode).is_some_and(|(said, _)| said == kind) => mode,
        _ => usual_mode(kind),
    }
}

impl NewEntry {
    fn entry(&self) -> GitEntry<'_> {
        GitEntry {
            mode: &self.mode,
            name: &self.name,
            id: self.id,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_of_a_peer_is_a_mode_or_is_not_written() {
        let file = ModeKind::File { executable: false };
        for (mode, kind, want) in [
            (&b"100664"[..], file, &b"100664"[..]),
            (b"040000", ModeKind::Directory, b"040000"),
            // Another kind than the entry's.
            (b"120000", file, b"100644"),
            (b"100755", file, b"100644"),
            (b"160000", ModeKind::Directory, b"40000"),
            // More than a mode: it would bring a name of its own.
            (b"100644 .git\0", file, b"100644"),
            (b"", ModeKind::Symlink, b"120000"),
        ] {
            let mode = mode_of(Some((ATTR_MODE, mode)), kind);
            assert_eq!(mode, want, "{}", mode.escape_ascii());
        }
        assert_eq!(mode_of(None, file), b"100644");
    }
}
