//! Purges in the simulation: gc that also says what was purged. The file is an object, its pieces are the
//! leaves below it.

use super::*;
use crate::format::{PurgedContent, Purges};
use dmv_core::hash::ObjectId;
use dmv_core::repo::Purge;

pub(super) fn id(object: Object) -> ObjectId {
    let mut bytes = [0; 32];
    bytes[..2].copy_from_slice(&object.to_le_bytes());
    ObjectId::from_bytes(bytes)
}

pub(super) fn object(id: &ObjectId) -> Object {
    u16::from_le_bytes([id.as_bytes()[0], id.as_bytes()[1]])
}

impl World {
    /// Begins to purge objects; without any, to do what earlier purges had to leave.
    pub fn purge(&mut self, actor: usize, files: BTreeSet<Object>) {
        self.collect(actor, 0, false);
        self.actors[actor].wish = Some(files);
    }

    /// Returns the purged objects of a root, and the chunks that must not be stored; `None` if a page is
    /// missing.
    pub(super) fn buried(&self, root: &Root) -> Option<(BTreeSet<Object>, BTreeSet<Object>)> {
        let (mut files, mut pieces) = (BTreeSet::new(), BTreeSet::new());
        for page in &root.purges.pages {
            let Page::Purges(purges) = self.page(page.name)? else {
                return None;
            };
            for buried in purges.values() {
                files.extend(buried.files.iter().map(object));
                pieces.extend(buried.pieces.iter().map(object));
            }
        }
        Some((files, pieces))
    }

    /// Returns the chunks of purged objects that nothing else needs.
    pub(super) fn pieces(
        &self,
        purged: &BTreeSet<Object>,
        needed: &BTreeSet<Object>,
    ) -> BTreeSet<Object> {
        let shares = self.broken == Some(Broken::PurgeShared);
        let mut below = self.walk(purged.iter().copied(), &BTreeSet::new());
        let is_leaf = |object: &Object| self.children[object].is_empty();
        below.retain(|object| is_leaf(object) && (shares || !needed.contains(object)));
        below
    }

    /// Adds to what was marked what the root does not say yet.
    pub(super) fn note_purge(
        &self,
        mark: &Mark,
        purged: &BTreeSet<Object>,
        pieces: &BTreeSet<Object>,
        held: &BTreeSet<Name>,
        marked: &mut MarkResult,
    ) {
        let (files, known) = self.buried(&mark.root).unwrap_or_default();
        let buried = PurgedContent {
            files: purged
                .difference(&files)
                .map(|object| id(*object))
                .collect(),
            pieces: pieces
                .difference(&known)
                .map(|object| id(*object))
                .collect(),
        };
        let why = Purge {
            at: 0,
            by: "who".to_owned(),
            reason: "why".to_owned(),
        };
        if !buried.is_empty() {
            marked.purges = Purges::from([(why, buried)]);
        }
        if self.broken == Some(Broken::SpareStrays) {
            marked.listed.clear();
        }
        let rows = mark.rows.iter().map(|row| row.name);
        let named: BTreeSet<Name> = rows
            .chain(mark.root.pages().map(|page| page.name))
            .collect();
        let strays = marked.listed.difference(&named).count();
        marked.unpurged = Some((marked.dead.len() + held.len() + strays) as u64);
    }

    /// Notes that a purge has ended, if nothing else was purged since.
    pub(super) fn settle(&mut self, actor: usize, mark: &Mark, purged: u64) -> Result<(), Hole> {
        let is_same = mark.root.purges.count == purged;
        self.purged += u32::from(is_same);
        let marked = MarkResult {
            unpurged: is_same.then_some(0),
            ..MarkResult::default()
        };
        self.marked(actor, Some(marked))
    }

    /// After the files of a purge are deleted.
    pub(super) fn purge_goes_on(&mut self, actor: usize, purged: Option<u64>) {
        let device = &mut self.actors[actor];
        if device.wish.is_none() || device.settles.is_some() {
            return;
        }
        if !device.held.is_empty() {
            self.purge(actor, BTreeSet::new());
            return;
        }
        self.collect(actor, 0, false);
        self.actors[actor].settles = purged;
    }

    /// A push ends because it needs what was purged.
    pub(super) fn unpushed(&mut self, actor: usize) -> Result<(), Hole> {
        let Some(Device::Push(_, id)) = self.actors[actor].machine.take() else {
            return Err("nobody prepares but a push".to_owned());
        };
        self.refused.insert(id);
        self.unpushed += 1;
        let device = &mut self.actors[actor];
        device.sent.clear();
        device.known = Some((
            Root::decode(&self.root).expect("it is valid"),
            tag(&self.root),
        ));
        Ok(())
    }

    /// Checks that a root lists no further pack with purged content, and none when it says so.
    pub(super) fn check_purged(&self, root: &Root, next: &Root) -> Result<(), Hole> {
        let (_, pieces) = self.buried(next).ok_or("a page of purges is missing")?;
        let before = self.rows(root).unwrap_or_default();
        let before: BTreeSet<Name> = before.iter().map(|row| row.name).collect();
        for row in self.rows(next).ok_or("the rows cannot be read")? {
            let objects = self.objects(row.name).ok_or("a pack is missing")?;
            if objects.is_disjoint(&pieces) {
                continue;
            }
            if next.purges.unpurged == 0 || !before.contains(&row.name) {
                return Err(format!("a purged chunk is in {:?}", row.name));
            }
        }
        Ok(())
    }

    /// Checks that no file has anything that was purged.
    pub fn check_is_purged(&self) -> Result<(), Hole> {
        let root = self.root();
        let (_, pieces) = self.buried(&root).ok_or("a page of purges is missing")?;
        for (name, file) in &self.files {
            if let File::Pack(objects) = file
                && !objects.is_disjoint(&pieces)
            {
                return Err(format!("purged content stays in {name:?}"));
            }
        }
        match root.purges.unpurged {
            0 => Ok(()),
            _ => Err("the purge does not come to its end".to_owned()),
        }
    }
}
