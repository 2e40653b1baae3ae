//! A simulated bucket with its writers and readers. Every step is a choice of the caller, so a
//! list of choices replays every run.

mod again;
mod ends;
mod expire;
mod join;
mod purge;

use super::super::*;
use crate::format::{Age, Entry, Page, Row, RowKind};
use dmv_core::hash::{check, encode_hex};
use dmv_core::refs::{Change, Timestamp};
use dmv_core::store::RepositoryId;
use join::Made;
use std::collections::{BTreeMap, BTreeSet};

/// An object: a number. What it needs stands in [`World::children`].
pub type Object = u16;

/// A file of the bucket.
#[derive(Clone, Debug)]
pub enum File {
    Pack(BTreeSet<Object>),
    Page(Vec<u8>),
}

/// A change of the bucket.
#[derive(Clone, Debug)]
pub enum Write {
    Root(Vec<u8>, Option<Tag>),
    Files(Vec<(Name, File)>),
    Delete(Vec<Name>),
}

/// What goes wrong with a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It is carried out, and the answer is lost.
    AnswerLost,
    /// The writer gives up waiting. It may be carried out later, or never.
    Late,
    /// It is carried out, and may be carried out again later.
    Repeated,
    /// It is not carried out, and there is no answer.
    Lost,
    /// The store denies it.
    Refused,
    /// It does not get to the store.
    NotSent,
}

/// A rule of the store, or of the work that the machines give to their caller, that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The store replaces the root without looking at the condition.
    Condition,
    /// A push relies on everything in listed packs, whether or not it is complete.
    Complete,
    /// A push takes what its uploaded packs have for complete.
    StopAtSent,
    /// Packs are named by their content, so that a name comes again.
    NamesOnce,
    /// gc does not mark what the log leads to.
    MarkLog,
    /// gc takes joined packs for complete that lack what a later root needs.
    JoinStale,
    /// gc lists joined packs that another gc may have freed meanwhile.
    JoinOld,
    /// A push relies on purged chunks that are still in listed packs.
    RelyOnPurged,
    /// A purge copies whatever is in a pack.
    CopyPurged,
    /// A purge counts chunks as purged that other files need.
    PurgeShared,
    /// A purge leaves files alone that no root names.
    SpareStrays,
    /// Objects expire that a branch has at its tip.
    ExpireTips,
    /// A push takes what has expired below a commit of the root for there.
    RelyOnExpired,
    /// A push does not bring expired objects that are below what commits of the root have.
    StopAbove,
    /// A push brings expired objects, and leaves them on the list.
    LeaveOnList,
}

#[derive(Clone, Debug)]
enum Doing {
    Ask(Request),
    Prepare(Box<Prepare>),
    Upload(Row, BTreeSet<Object>, BTreeSet<Object>),
    Mark(Box<Mark>),
    Join(Box<Made>, BTreeSet<Object>, MarkResult),
    Read(Box<Read>),
    Nothing,
}

#[derive(Clone, Debug)]
enum Device {
    Push(Push, [u8; 16]),
    Collect(Collect, [u8; 16]),
    Fetch(Fetch),
}

/// One device at the bucket.
#[derive(Clone, Debug)]
pub struct Actor {
    number: u8,
    machine: Option<Device>,
    doing: Doing,
    ids: u64,
    known: Option<(Root, Tag)>,
    /// Packs that a push has uploaded, as it would note them on its disk.
    sent: Vec<UploadedPack>,
    /// Whether its gc joins packs, and what it has made of them.
    joins: bool,
    made: Option<Made>,
    /// What its gc purges besides, and whether it only notes that a purge has ended.
    wish: Option<BTreeSet<Object>>,
    settles: Option<u64>,
    /// What its gc gives up besides.
    expires: BTreeSet<Object>,
    /// Packs with purged chunks that stay until the next round of its purge.
    held: BTreeSet<Name>,
    /// The commit that it pushed last.
    pub last: Option<Object>,
    /// The id of its last push, and what that was to change.
    pushed: ([u8; 16], Vec<Change>),
    /// The attempts without an answer of its last push.
    pub open: Option<Attempt>,
}

/// The bucket and the devices.
#[derive(Clone, Debug)]
pub struct World {
    root: Vec<u8>,
    files: BTreeMap<Name, File>,
    pub late: Vec<Write>,
    pub actors: Vec<Actor>,
    pub children: BTreeMap<Object, Vec<Object>>,
    /// Objects that are commits.
    pub commits: BTreeSet<Object>,
    /// Changes the order of ids.
    salt: u64,
    broken: Option<Broken>,
    pub limits: Limits,
    /// How often each operation was published.
    landed: BTreeMap<[u8; 16], u32>,
    /// Operations that their writers hold for not published.
    refused: BTreeSet<[u8; 16]>,
    pub published: u32,
    pub freed: u32,
    pub joined: u32,
    pub purged: u32,
    pub unpushed: u32,
    pub expired: u32,
    pub back: u32,
    pub unknown: u32,
}

/// A hole: what was found, in words.
pub type Hole = String;

pub fn tag(bytes: &[u8]) -> Tag {
    Tag {
        etag: Some(encode_hex(&check(&[bytes]))),
        version: None,
    }
}

pub fn value(object: Option<Object>) -> Option<Vec<u8>> {
    object.map(|object| object.to_le_bytes().to_vec())
}

fn tip(value: &[u8]) -> Object {
    u16::from_le_bytes([value[0], value[1]])
}

fn stamp(id: [u8; 16]) -> Stamp {
    Stamp {
        id,
        time: Timestamp {
            seconds: 0,
            nanos: 0,
            tz_minutes: 0,
        },
        who: String::new(),
        command: String::new(),
        undoes: 0,
    }
}

impl Actor {
    fn fresh(&mut self, salt: u64) -> [u8; 16] {
        self.ids += 1;
        // Different for each actor and number, in an order that the salt changes.
        let low = self.ids | u64::from(self.number) << 32;
        let high = (low ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut id = [0; 16];
        id[..8].copy_from_slice(&high.to_le_bytes());
        id[8..].copy_from_slice(&low.to_le_bytes());
        id
    }

    pub fn is_idle(&self) -> bool {
        self.machine.is_none()
    }

    /// Returns whether the open request changes the bucket.
    pub fn is_writing(&self) -> bool {
        match &self.doing {
            Doing::Ask(request) => {
                !matches!(request, Request::GetRoot { .. } | Request::GetPages(_))
            }
            Doing::Upload(..) | Doing::Join(..) => true,
            _ => false,
        }
    }

    /// Returns the value of a key in the root that it saw last.
    pub fn seen(&self, key: &str) -> Option<Vec<u8>> {
        let (root, _) = self.known.as_ref()?;
        root.view.get(key).cloned().flatten()
    }
}

impl World {
    /// Returns a bucket with an empty root.
    pub fn new(actors: u8, limits: Limits, salt: u64, broken: Option<Broken>) -> World {
        let root = Root::first(RepositoryId::from_bytes([7; 16]), [1; 16]);
        let actor = |number| Actor {
            number,
            machine: None,
            doing: Doing::Nothing,
            ids: 0,
            known: None,
            sent: Vec::new(),
            joins: false,
            made: None,
            wish: None,
            settles: None,
            expires: BTreeSet::new(),
            held: BTreeSet::new(),
            last: None,
            pushed: ([0; 16], Vec::new()),
            open: None,
        };
        World {
            root: root.encode().expect("it is small"),
            files: BTreeMap::new(),
            late: Vec::new(),
            actors: (0..actors).map(actor).collect(),
            children: BTreeMap::new(),
            commits: BTreeSet::new(),
            salt,
            broken,
            limits,
            landed: BTreeMap::new(),
            refused: BTreeSet::new(),
            published: 0,
            freed: 0,
            joined: 0,
            purged: 0,
            unpushed: 0,
            expired: 0,
            back: 0,
            unknown: 0,
        }
    }

    pub fn root(&self) -> Root {
        Root::decode(&self.root).expect("the bucket has what was encoded")
    }

    pub fn push(&mut self, actor: usize, changes: Vec<Change>, resume: bool) -> Result<(), Hole> {
        let (salt, limits) = (self.salt, self.limits);
        let device = &mut self.actors[actor];
        let id = device.fresh(salt);
        let sent = std::mem::take(&mut device.sent);
        let sent = if resume { sent } else { Vec::new() };
        (device.pushed, device.open) = ((id, changes.clone()), None);
        let mut push = Push::new(stamp(id), changes, device.known.clone(), sent, limits);
        let step = push.start(&mut || device.fresh(salt));
        self.pushing(actor, push, id, step)
    }

    pub fn collect(&mut self, actor: usize, forget: u64, joins: bool) {
        let (salt, limits) = (self.salt, self.limits);
        let actor = &mut self.actors[actor];
        (actor.joins, actor.made) = (joins, None);
        (actor.wish, actor.settles) = (None, None);
        actor.expires.clear();
        let id = actor.fresh(salt);
        let mut collect = Collect::new(stamp(id), forget, actor.known.clone(), limits);
        actor.doing = Doing::Ask(collect.start());
        actor.machine = Some(Device::Collect(collect, id));
    }

    pub fn fetch(&mut self, actor: usize) {
        let actor = &mut self.actors[actor];
        let fetch = Fetch::new(actor.known.clone());
        actor.doing = Doing::Ask(fetch.start());
        actor.machine = Some(Device::Fetch(fetch));
    }

    /// Ends a device in the middle of what it does.
    pub fn kill(&mut self, actor: usize) {
        self.actors[actor].machine = None;
        self.actors[actor].doing = Doing::Nothing;
    }

    /// Carries out the open request or work of a device.
    pub fn step(&mut self, actor: usize, trouble: Option<Trouble>) -> Result<(), Hole> {
        match std::mem::replace(&mut self.actors[actor].doing, Doing::Nothing) {
            Doing::Ask(request) => {
                let answer = self.carry_out(request, trouble)?;
                self.answer(actor, answer)
            }
            Doing::Prepare(prepare) => self.prepare(actor, *prepare),
            Doing::Upload(row, objects, back) => self.upload(actor, row, objects, back, trouble),
            Doing::Mark(mark) => self.mark(actor, *mark),
            Doing::Join(made, objects, marked) => self.join(actor, *made, objects, marked, trouble),
            Doing::Read(read) => self.read(actor, &read.root),
            Doing::Nothing => Ok(()),
        }
    }

    /// Carries out a change that was late, or repeats one.
    pub fn arrive(&mut self, late: usize) -> Result<(), Hole> {
        let write = self.late.remove(late);
        self.write(write).map(|_| ())
    }

    fn carry_out(&mut self, request: Request, trouble: Option<Trouble>) -> Result<Answer, Hole> {
        let is_read = matches!(request, Request::GetRoot { .. } | Request::GetPages(_));
        if trouble.is_some() && is_read {
            return Ok(Answer::Unclear);
        }
        let write = match request {
            Request::GetRoot { unless, .. } => {
                let now = tag(&self.root);
                return Ok(if unless == Some(now.clone()) {
                    Answer::Unchanged
                } else {
                    Answer::Root(Box::new(self.root()), now)
                });
            }
            Request::GetPages(pages) => {
                let pages = pages.iter().map(|page| self.page(page.name)).collect();
                let pages: Option<Vec<Page>> = pages;
                return Ok(pages.map_or(Answer::Gone, Answer::Pages));
            }
            Request::PutRoot { bytes, over } => Write::Root(bytes, over),
            Request::PutPages(pages) => {
                let file = |(name, bytes)| (name, File::Page(bytes));
                Write::Files(pages.into_iter().map(file).collect())
            }
            Request::Delete(names) => Write::Delete(names),
        };
        self.write_with(write, trouble)
    }

    fn write_with(&mut self, write: Write, trouble: Option<Trouble>) -> Result<Answer, Hole> {
        let again = write.clone();
        match trouble {
            None => self.write(write),
            Some(Trouble::AnswerLost) => self.write(write).map(|_| Answer::Unclear),
            Some(Trouble::Late) => {
                self.late.push(again);
                Ok(Answer::Unclear)
            }
            Some(Trouble::Repeated) => {
                self.late.push(again);
                self.write(write)
            }
            Some(Trouble::Lost) => Ok(Answer::Unclear),
            // Other writes are repeated below the machines, and fail there.
            Some(_) if !matches!(write, Write::Root(..)) => Ok(Answer::Unclear),
            Some(Trouble::Refused) => Ok(Answer::Refused),
            Some(Trouble::NotSent) => Ok(Answer::NotSent),
        }
    }

    fn write(&mut self, write: Write) -> Result<Answer, Hole> {
        let answer = match write {
            Write::Root(bytes, over) => {
                if over != Some(tag(&self.root)) && self.broken != Some(Broken::Condition) {
                    return Ok(Answer::Unclear);
                }
                self.replace(bytes)?
            }
            Write::Files(files) => {
                self.files.extend(files);
                Answer::Done
            }
            Write::Delete(names) => {
                names.iter().for_each(|name| drop(self.files.remove(name)));
                Answer::Done
            }
        };
        self.check()?;
        Ok(answer)
    }

    fn replace(&mut self, bytes: Vec<u8>) -> Result<Answer, Hole> {
        let next = Root::decode(&bytes).map_err(|e| format!("a root does not decode: {e}"))?;
        let root = self.root();
        if next.previous != root.write || next.generation != root.generation + 1 {
            return Err("a root was overwritten that its successor does not know".to_owned());
        }
        self.check_purged(&root, &next)?;
        let tag = tag(&bytes);
        self.root = bytes;
        let times = self.landed.entry(next.last.1).or_default();
        *times += 1;
        if *times > 1 {
            return Err("an operation was published twice".to_owned());
        }
        if self.refused.contains(&next.last.1) {
            return Err("an operation was published after its writer heard that it was not".into());
        }
        Ok(Answer::Replaced(tag))
    }

    fn page(&self, name: Name) -> Option<Page> {
        match self.files.get(&name)? {
            File::Page(bytes) => Page::decode(bytes).ok(),
            File::Pack(_) => None,
        }
    }

    /// Visits the log of a root from its newest entry on; `None` if a page is missing.
    fn log(&self, root: &Root) -> Option<Vec<Entry>> {
        let mut entries = Vec::new();
        for page in &root.log_pages {
            let Page::Log(of_page, _) = self.page(page.name)? else {
                return None;
            };
            entries.extend(of_page);
        }
        entries.extend(root.log.iter().cloned());
        Some(entries)
    }

    fn rows(&self, root: &Root) -> Option<Vec<Row>> {
        let mut rows = root.rows.clone();
        for page in root.meta_pages.iter().chain(&root.data_pages) {
            let (Page::MetaRows(of_page) | Page::DataRows(of_page)) = self.page(page.name)? else {
                return None;
            };
            rows.extend(of_page);
        }
        Some(rows)
    }

    /// Returns the commits that a root leads to, with the log from a sequence number on; `None` if
    /// a page is missing.
    fn tips(&self, root: &Root, log_from: u64) -> Option<BTreeSet<Object>> {
        let mut view = match root.view_page {
            None => BTreeMap::new(),
            Some(page) => match self.page(page.name)? {
                Page::View(view) => view,
                _ => return None,
            },
        };
        for (key, value) in &root.view {
            match value {
                Some(value) => drop(view.insert(key.clone(), value.clone())),
                None => drop(view.remove(key)),
            }
        }
        let mut tips: BTreeSet<Object> = view.values().map(|value| tip(value)).collect();
        for entry in self.log(root)? {
            if entry.operation.seq >= log_from {
                let changes = entry.operation.changes.iter();
                let values = changes.flat_map(|change| [&change.old, &change.new]);
                tips.extend(values.flatten().map(|value| tip(value)));
            }
        }
        Some(tips)
    }

    /// Returns what the tips lead to, up to what is known.
    fn walk(
        &self,
        tips: impl IntoIterator<Item = Object>,
        have: &BTreeSet<Object>,
    ) -> BTreeSet<Object> {
        let mut all = BTreeSet::new();
        let mut next: Vec<Object> = tips.into_iter().collect();
        while let Some(object) = next.pop() {
            if !have.contains(&object) && all.insert(object) {
                next.extend(self.children.get(&object).into_iter().flatten());
            }
        }
        all
    }

    fn objects(&self, name: Name) -> Option<&BTreeSet<Object>> {
        match self.files.get(&name)? {
            File::Pack(objects) => Some(objects),
            File::Page(_) => None,
        }
    }

    /// Checks that everything that the root names is there.
    fn check(&self) -> Result<(), Hole> {
        let root = self.root();
        if let Some(page) = root.pages().find(|page| self.page(page.name).is_none()) {
            return Err(format!("the root names a missing page {:?}", page.name));
        }
        let rows = self.rows(&root).ok_or("the rows cannot be read")?;
        let mut there: BTreeSet<Object> = BTreeSet::new();
        for row in rows {
            let objects = self.objects(row.name);
            there.extend(objects.ok_or(format!("a listed pack is missing: {:?}", row.name))?);
        }
        let tips = self.tips(&root, 0).ok_or("the log cannot be read")?;
        let (purged, _) = self.buried(&root).ok_or("a page of purges is missing")?;
        let expired = self
            .expired_at(&root)
            .ok_or("a page of expired objects is missing")?;
        self.check_expired(&root, &expired, &purged)?;
        let absent = &purged | &expired;
        match self.walk(tips, &absent).difference(&there).next() {
            Some(object) => Err(format!("object {object} is needed and in no pack")),
            None => Ok(()),
        }
    }

    fn prepare(&mut self, actor: usize, prepare: Prepare) -> Result<(), Hole> {
        let root = &prepare.root;
        let read = self.tips(root, 0).zip(self.rows(root));
        let absent = self.buried(root).zip(self.expired_at(root));
        let Some(((tips, rows), ((purged, pieces), expired))) = read.zip(absent) else {
            return self.prepared(actor, None);
        };
        let mut have = match self.broken {
            Some(Broken::RelyOnExpired) => self.walk(tips, &purged),
            _ => self.walk(tips, &(&purged | &expired)),
        };
        // They are left out.
        have.extend(&purged);
        let new = prepare.changes.iter();
        let new = new.filter_map(|change| change.new.as_ref());
        let new: Vec<Object> = new.map(|value| tip(value)).collect();
        let mut back = self.back(&new, &expired, &purged);
        if self.broken == Some(Broken::LeaveOnList) {
            back.clear();
        }
        let mut wanted = new;
        if self.broken != Some(Broken::StopAbove) {
            wanted.extend(&back);
        }
        let brought = self.walk(wanted.iter().copied(), &have);
        if !brought.is_disjoint(&pieces) && self.broken != Some(Broken::RelyOnPurged) {
            return self.unpushed(actor);
        }
        for row in &rows {
            let Some(objects) = self.objects(row.name) else {
                return self.prepared(actor, None);
            };
            let is_leaf = |object: &&Object| self.children[object].is_empty();
            let all = self.broken == Some(Broken::Complete);
            have.extend(objects.iter().filter(|object| all || is_leaf(object)));
        }
        let of_sent = prepare
            .sent
            .iter()
            .filter_map(|sent| self.objects(sent.row.name));
        let sent: BTreeSet<Object> = of_sent.flatten().copied().collect();
        if self.broken == Some(Broken::StopAtSent) {
            have.extend(&sent);
        }
        let mut need = self.walk(wanted, &have);
        need.retain(|object| !sent.contains(object));
        if need.is_empty() {
            return self.uploaded(actor, None, &back);
        }
        let salt = self.salt;
        let name = match self.broken {
            Some(Broken::NamesOnce) => {
                let bytes: Vec<u8> = need
                    .iter()
                    .flat_map(|object| object.to_le_bytes())
                    .collect();
                let check = check(&[&bytes]);
                [check, check]
                    .concat()
                    .try_into()
                    .map_err(|_| "a check has eight bytes")?
            }
            _ => self.actors[actor].fresh(salt),
        };
        self.actors[actor].doing = Doing::Upload(row(Name(name)), need, back);
        Ok(())
    }

    fn upload(
        &mut self,
        actor: usize,
        row: Row,
        objects: BTreeSet<Object>,
        back: BTreeSet<Object>,
        trouble: Option<Trouble>,
    ) -> Result<(), Hole> {
        let files = vec![(row.name, File::Pack(objects.clone()))];
        if matches!(
            self.write_with(Write::Files(files), trouble)?,
            Answer::Unclear
        ) {
            self.actors[actor].doing = Doing::Upload(row, objects, back);
            return Ok(());
        }
        self.uploaded(actor, Some(row), &back)
    }

    fn uploaded(
        &mut self,
        actor: usize,
        row: Option<Row>,
        back: &BTreeSet<Object>,
    ) -> Result<(), Hole> {
        self.back += back.len() as u32;
        let prepared = Preparation {
            rows: row.into_iter().collect(),
            back: back.iter().map(|object| purge::id(*object)).collect(),
            ..Preparation::default()
        };
        self.prepared(actor, Some(prepared))
    }

    fn prepared(&mut self, actor: usize, done: Option<Preparation>) -> Result<(), Hole> {
        let salt = self.salt;
        let Some(Device::Push(mut push, id)) = self.actors[actor].machine.take() else {
            return Err("nobody prepares but a push".to_owned());
        };
        let step = push.prepared(done, &mut || self.actors[actor].fresh(salt));
        self.pushing(actor, push, id, step)
    }

    fn mark(&mut self, actor: usize, mark: Mark) -> Result<(), Hole> {
        let from = match self.broken {
            Some(Broken::MarkLog) => u64::MAX,
            _ => mark.kept_from,
        };
        if let Some(purged) = self.actors[actor].settles {
            return self.settle(actor, &mark, purged);
        }
        let wish = self.actors[actor].wish.clone();
        let read = self.tips(&mark.root, from).zip(self.buried(&mark.root));
        let Some(((tips, (mut purged, known)), expired)) = read.zip(self.expired_at(&mark.root))
        else {
            return self.marked(actor, None);
        };
        purged.extend(wish.iter().flatten());
        let mut absent = &purged | &expired;
        let expiring = self.expiring(actor, &mark.root, &tips, &absent);
        absent.extend(&expiring);
        let needed = self.walk(tips, &absent);
        let mut pieces = known.clone();
        if wish.is_some() {
            pieces.extend(self.pieces(&purged, &needed));
        }
        let mut marked = MarkResult {
            listed: self.files.keys().copied().collect(),
            expired: World::expirations(&expiring),
            ..MarkResult::default()
        };
        let mut held = BTreeSet::new();
        for row in &mark.rows {
            let Some(objects) = self.objects(row.name) else {
                return self.marked(actor, None);
            };
            if objects.is_disjoint(&needed) {
                marked.dead.insert(row.name);
            } else if !objects.is_disjoint(&pieces) {
                held.insert(row.name);
            }
        }
        if wish.is_some() {
            self.note_purge(&mark, &purged, &pieces, &held, &mut marked);
        }
        self.actors[actor].held.clone_from(&held);
        let joins = self.actors[actor].joins;
        let is_source = |row: &&Row| joins && !marked.dead.contains(&row.name);
        let sources: Vec<Row> = if held.is_empty() {
            mark.rows.iter().filter(is_source).copied().collect()
        } else {
            mark.rows
                .iter()
                .filter(|row| held.contains(&row.name))
                .copied()
                .collect()
        };
        if sources.len() >= if held.is_empty() { 2 } else { 1 } {
            self.begin_to_join(actor, &mark, sources, &needed, &pieces, marked)
        } else {
            self.marked(actor, Some(marked))
        }
    }

    fn marked(&mut self, actor: usize, marked: Option<MarkResult>) -> Result<(), Hole> {
        let salt = self.salt;
        let Some(Device::Collect(mut collect, id)) = self.actors[actor].machine.take() else {
            return Err("nobody marks but gc".to_owned());
        };
        let fresh = &mut || self.actors[actor].fresh(salt);
        let step = collect.marked(marked, fresh);
        self.collecting(actor, collect, id, step)
    }

    fn read(&mut self, actor: usize, root: &Root) -> Result<(), Hole> {
        let Some(Device::Fetch(mut fetch)) = self.actors[actor].machine.take() else {
            return Err("nobody reads but a fetch".to_owned());
        };
        let mut pages = root.pages().map(|page| page.name);
        let gone = pages.find(|name| !self.files.contains_key(name));
        let rows = self.rows(root).unwrap_or_default();
        let gone = gone.or_else(|| {
            let mut names = rows.iter().map(|row| row.name);
            names.find(|name| !self.files.contains_key(name))
        });
        let step = fetch.read(gone.map_or(Ok(()), Err));
        self.fetching(actor, fetch, step)
    }

    fn answer(&mut self, actor: usize, answer: Answer) -> Result<(), Hole> {
        let salt = self.salt;
        match self.actors[actor].machine.take() {
            Some(Device::Push(mut push, id)) => {
                let step = push.answer(answer, &mut || self.actors[actor].fresh(salt));
                self.pushing(actor, push, id, step)
            }
            Some(Device::Collect(mut collect, id)) => {
                let step = collect.answer(answer, &mut || self.actors[actor].fresh(salt));
                self.collecting(actor, collect, id, step)
            }
            Some(Device::Fetch(mut fetch)) => {
                let step = fetch.answer(answer);
                self.fetching(actor, fetch, step)
            }
            None => Ok(()),
        }
    }
}

fn row(name: Name) -> Row {
    Row {
        generation: 1,
        name,
        kind: RowKind::Joint,
        metadata: 100,
        commits_end: 200,
        tail: 300,
        len: 400,
    }
}
