//! Transfers between simulated repositories. A seed replays every run.

use super::*;
use crate::wire::{Filter, LITTLE_BYTES, UnaskedObjects, Want};
use dmv_core::hash::ObjectId;
use dmv_core::job::Bound;
use dmv_core::object::commit::{Commit, Person};
use dmv_core::object::list::ListBuilder;
use dmv_core::object::mem::MemObjects;
use dmv_core::object::name::SafeName;
use dmv_core::object::tree::{Kind, TreeBuilder, TreeEntry, TreeSummary};
use dmv_core::object::{ObjectRead, ObjectType};
use dmv_core::reach;
use dmv_random::Rng;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

mod bases;
mod pick;
mod slices;

type Outcome = Result<(), SyncError>;

/// The files of a commit by directory and number. The value stands for the content.
type Files = BTreeMap<(u64, u64), u64>;

fn entry(name: String, kind: Kind, id: ObjectId, size: u64) -> TreeEntry {
    TreeEntry {
        name: SafeName::new(name.as_bytes()).expect("test names are allowed"),
        kind,
        is_list: false,
        id,
        size,
        files: 0,
        attrs: None,
    }
}

fn put_file(mem: &MemObjects, name: u64, content: u64) -> Result<TreeEntry, ObjectError> {
    let mut writer = mem;
    let mut list = ListBuilder::new();
    for n in 0..content % 40 {
        let bytes = [content.to_le_bytes(), n.to_le_bytes()].concat();
        list.push(mem.insert(ObjectType::Chunk, &bytes), 16, &mut writer)?;
    }
    let blob = list.finish(&mut writer)?;
    let file = entry(format!("{name:08}"), Kind::File, blob.id, blob.size);
    Ok(TreeEntry {
        is_list: blob.is_list,
        ..file
    })
}

fn put_tree(mem: &MemObjects, files: &Files) -> Result<TreeSummary, ObjectError> {
    let mut writer = mem;
    let mut root = TreeBuilder::new();
    let dirs: BTreeSet<u64> = files.keys().map(|(dir, _)| *dir).collect();
    for dir in dirs {
        let mut builder = TreeBuilder::new();
        for ((_, name), content) in files.range((dir, 0)..=(dir, u64::MAX)) {
            builder.push(&put_file(mem, *name, *content)?, &mut writer)?;
        }
        let made = builder.finish(&mut writer)?;
        let dir = entry(format!("{dir:05}"), Kind::Directory, made.id, made.bytes);
        let files = made.files;
        root.push(&TreeEntry { files, ..dir }, &mut writer)?;
    }
    root.finish(&mut writer)
}

fn put_commit(
    mem: &MemObjects,
    parents: &[ObjectId],
    files: &Files,
    message: &str,
) -> Result<ObjectId, ObjectError> {
    let tree = put_tree(mem, files)?;
    let mut generation = 0;
    for parent in parents {
        generation = generation.max(dmv_core::history::load_commit(mem, parent)?.generation);
    }
    let person = Person {
        name: "Ada".into(),
        email: String::new(),
        seconds: 0,
        nanos: 0,
        tz_minutes: 0,
    };
    let commit = Commit {
        tree: tree.id,
        tree_bytes: tree.bytes,
        tree_files: tree.files,
        parents: parents.to_vec(),
        generation: generation + 1,
        author: person.clone(),
        committer: person,
        message: message.to_owned(),
        extras: Vec::new(),
        signature: None,
    };
    Ok(mem.insert(ObjectType::Commit, &commit.encode()?))
}

type Objects = BTreeSet<(ObjectType, ObjectId)>;

fn closure(mem: &MemObjects, tips: &[ObjectId]) -> Result<Objects, ObjectError> {
    let mut seen = Objects::new();
    let mut stack: Vec<_> = tips.iter().map(|id| (ObjectType::Commit, *id)).collect();
    while let Some((ty, id)) = stack.pop() {
        if seen.insert((ty, id)) {
            stack.extend(ty.links(&mem.require(ty, &id)?).expect("it decodes"));
        }
    }
    Ok(seen)
}

/// What is in transit from a sender.
enum Packet {
    Message(Message),
    Object(ObjectType, ObjectId),
    /// A frame with so many chunks of so many bytes, which the receiver cannot decode.
    LacksBase(u64, u64),
}

/// The result of one transfer.
#[derive(Debug, Default)]
struct Run {
    done: bool,
    round_trips: u64,
    messages: usize,
    objects: usize,
    /// Objects that were requested because their frames could not be decoded.
    plain: usize,
}

/// How a transfer is disturbed.
#[derive(Clone, Copy, Default)]
struct Trouble {
    /// The number of steps after which the line is cut; 0: never.
    cut_after: u64,
    /// Whether the receiver forgets objects that it has not published.
    crash: bool,
    /// Whether some chunks come in frames with bases that the receiver lacks.
    lacks_bases: bool,
}

/// What a receiver announced about the bytes to come, and what came.
#[derive(Default)]
struct Foreseen {
    /// The bytes of chunks that came.
    came: u64,
    /// Every total that was announced, and how exact it was.
    said: Vec<(u64, Bound)>,
    /// The bytes that had come when nothing more was to come unasked.
    unasked: Option<u64>,
}

impl Foreseen {
    fn came(&mut self, ty: ObjectType, len: u64) {
        if ty == ObjectType::Chunk {
            self.came += len;
        }
    }

    fn look(&mut self, receiver: &Receiver) {
        let Some((ahead, bound)) = receiver.ahead() else {
            return;
        };
        if bound != Bound::AtMost {
            self.unasked.get_or_insert(self.came);
        }
        self.said.push((self.came + ahead, bound));
    }

    /// Checks that every announcement was right.
    fn is_true(&self) {
        for (said, bound) in &self.said {
            match bound {
                Bound::Exact => assert_eq!(*said, self.came),
                Bound::AtLeast => assert!(*said <= self.came),
                Bound::AtMost => assert!(Some(*said) >= self.unasked),
            }
        }
    }
}

/// Runs one transfer of `tips` step by step, in an order that the dice choose.
fn transfer(
    from: &MemObjects,
    to: &MemObjects,
    goal: Goal,
    trouble: Trouble,
    dice: &mut Rng,
) -> Result<Run, SyncError> {
    let mut sender = Sender::new(goal.tips.clone())
        .saying_total(dice.below(2) == 0)
        .giving_little(dice.below(2) == 0);
    let mut receiver =
        Receiver::new(goal, to)?.expecting_bases(trouble.lacks_bases, trouble.lacks_bases);
    run(from, to, &mut sender, &mut receiver, trouble, dice)
}

fn run(
    from: &MemObjects,
    to: &MemObjects,
    sender: &mut Sender,
    receiver: &mut Receiver,
    trouble: Trouble,
    dice: &mut Rng,
) -> Result<Run, SyncError> {
    let (mut there, mut back) = (VecDeque::new(), VecDeque::new());
    let (mut held, mut unkept): (Vec<_>, Vec<(ObjectType, ObjectId)>) = Default::default();
    let mut run = Run::default();
    let mut idle = 0;
    let mut steps = 0;
    let mut foreseen = Foreseen::default();
    while !run.done {
        foreseen.look(receiver);
        steps += 1;
        if steps == trouble.cut_after {
            break;
        }
        idle += 1;
        assert!(idle < 10_000, "both sides wait");
        match dice.below(4) {
            0 => match receiver.poll(to)? {
                Some(Output::Send(message)) => back.push_back(message),
                Some(Output::Keep) => {
                    for (ty, id) in unkept.drain(..) {
                        to.insert(ty, &from.require(ty, &id)?);
                    }
                }
                Some(Output::Done) => run.done = true,
                Some(_) => {}
                None => continue,
            },
            1 => match sender.poll(from)? {
                Some(Output::Send(message)) => there.push_back(Packet::Message(message)),
                Some(Output::Objects(objects)) => {
                    for (ty, id) in objects {
                        let is_here = from.holds(ty, &id)?;
                        assert!(is_here || ty == ObjectType::Chunk, "{ty:?} {id}");
                        held.extend(is_here.then_some((ty, id)));
                    }
                }
                Some(Output::Flush) => {
                    // Objects that share a frame come in the order in the frame.
                    held.sort_by_key(|(ty, id)| (*ty != ObjectType::List, *id));
                    for (ty, id) in held.drain(..) {
                        let in_vain = trouble.lacks_bases && ty == ObjectType::Chunk;
                        there.push_back(if in_vain && dice.below(3) == 0 {
                            let len = from.require(ty, &id)?.len() as u64;
                            Packet::LacksBase(1, len)
                        } else {
                            Packet::Object(ty, id)
                        });
                    }
                }
                Some(Output::PlainObjects(objects)) => {
                    run.plain += objects.len();
                    there.extend(objects.into_iter().map(|(ty, id)| Packet::Object(ty, id)));
                }
                Some(_) => {}
                None => continue,
            },
            2 => match there.pop_front() {
                Some(Packet::Message(message)) => {
                    let bytes = message.frame();
                    assert!(bytes.wire_len() < (1 << 20));
                    run.messages += 1;
                    receiver.handle(message, to)?;
                }
                Some(Packet::LacksBase(objects, bytes)) => receiver.lacks_base(objects, bytes)?,
                Some(Packet::Object(ty, id)) => {
                    let len = from.require(ty, &id)?.len() as u64;
                    receiver.admit(ty, &id, len)?;
                    foreseen.came(ty, len);
                    let new = !to.holds(ty, &id)? && !unkept.contains(&(ty, id));
                    receiver.noted(1, 1, new)?;
                    run.objects += 1;
                    unkept.push((ty, id));
                }
                None => continue,
            },
            _ => match back.pop_front() {
                Some(message) => sender.handle(message, from)?,
                None => continue,
            },
        }
        idle = 0;
    }
    if !trouble.crash || run.done {
        for (ty, id) in unkept {
            to.insert(ty, &from.require(ty, &id)?);
        }
    }
    run.round_trips = receiver.round_trips();
    if run.done && receiver.absent().next().is_none() {
        foreseen.is_true();
    }
    Ok(run)
}

fn goal(tips: &[ObjectId], complete: &[ObjectId], to: &MemObjects) -> Goal {
    Goal {
        tips: tips.to_vec(),
        complete: complete.to_vec(),
        empty: to.is_empty(),
        filter: reach::Filter::default(),
    }
}

/// A simulated repository: its branches and the files it works on.
#[derive(Default)]
struct Peer {
    objects: MemObjects,
    refs: BTreeMap<String, (ObjectId, Files)>,
}

impl Peer {
    fn complete(&self) -> Vec<ObjectId> {
        self.refs.values().map(|(id, _)| *id).collect()
    }

    fn commit(&mut self, name: &str, n: u64, dice: &mut Rng) -> Result<(), ObjectError> {
        let mut parents = Vec::new();
        let mut files = Files::new();
        if let Some((id, old)) = self.refs.get(name) {
            parents.push(*id);
            files = old.clone();
        } else if let Some((id, old)) = self.refs.values().next() {
            parents.push(*id);
            files = old.clone();
        }
        // Sometimes it merges another branch: its files overlay this one's.
        if dice.below(4) == 0
            && let Some((id, theirs)) = self.refs.values().last()
            && !parents.contains(id)
        {
            parents.push(*id);
            files.extend(theirs);
        }
        for _ in 0..dice.below(30) + if parents.is_empty() { 200 } else { 1 } {
            files.insert((dice.below(6), dice.below(300)), dice.below(90));
        }
        let id = put_commit(&self.objects, &parents, &files, &format!("{name} {n}"))?;
        self.refs.insert(name.to_owned(), (id, files));
        Ok(())
    }
}

fn simulate(seed: u64) -> Outcome {
    let mut dice = Rng::new(seed | 1);
    let mut peers: Vec<Peer> = Vec::new();
    peers.resize_with(2 + dice.below(4) as usize, Peer::default);
    peers[0].commit("b0", 0, &mut dice)?;
    for step in 1..40 {
        let me = dice.below(peers.len() as u64) as usize;
        if dice.below(3) == 0 {
            // Each branch has one author. So a peer's copy of a branch is the same or older.
            peers[me].commit(&format!("b{me}"), step, &mut dice)?;
            continue;
        }
        let other = dice.below(peers.len() as u64) as usize;
        if other != me {
            let trouble = Trouble {
                cut_after: [0, dice.below(400) + 1][dice.below(2) as usize],
                crash: dice.below(2) == 0,
                lacks_bases: dice.below(3) == 0,
            };
            exchange(&mut peers, other, me, trouble, &mut dice)?;
        }
    }
    // Then every peer gets everything, without cuts, along a chain and back.
    let n = peers.len();
    for (from, to) in (1..n)
        .map(|n| (n - 1, n))
        .chain((1..n).rev().map(|n| (n, n - 1)))
    {
        exchange(&mut peers, from, to, Trouble::default(), &mut dice)?;
    }
    for peer in &peers {
        let whole = closure(&peer.objects, &peer.complete());
        assert!(whole.is_ok(), "seed {seed}: a peer lacks {whole:?}");
    }
    for peer in &peers[1..] {
        assert_eq!(peer.refs.len(), peers[0].refs.len(), "seed {seed}");
    }
    Ok(())
}

fn exchange(
    peers: &mut [Peer],
    from: usize,
    to: usize,
    trouble: Trouble,
    dice: &mut Rng,
) -> Outcome {
    let newer: Vec<(String, (ObjectId, Files))> = peers[from]
        .refs
        .iter()
        .filter(|(name, _)| name[1..] != to.to_string())
        .filter(|(name, (id, _))| peers[to].refs.get(*name).is_none_or(|(ours, _)| ours != id))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if newer.is_empty() {
        return Ok(());
    }
    let tips: Vec<ObjectId> = newer.iter().map(|(_, (id, _))| *id).collect();
    let complete = peers[to].complete();
    let goal = goal(&tips, &complete, &peers[to].objects);
    let run = transfer(
        &peers[from].objects,
        &peers[to].objects,
        goal,
        trouble,
        dice,
    )?;
    if run.done {
        closure(&peers[to].objects, &tips)?;
        peers[to].refs.extend(newer);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(dmv_random::cases(8)))]

    #[test]
    fn peers_that_are_cut_and_crash_agree_in_the_end(seed in 1u64..) {
        simulate(seed).expect("nobody breaks the protocol");
    }
}

#[test]
fn one_commit_in_a_large_repository_takes_two_round_trips() -> Outcome {
    for (gives_little, most) in [(true, 1), (false, 2)] {
        // The Hello messages cost one more round trip.
        let round_trips = fetch_of_one_commit(gives_little)?;
        assert!(round_trips <= most, "{gives_little}: {round_trips}");
    }
    Ok(())
}

/// Returns the round trips of a transfer of one commit with ten changed files out of 20,000.
fn fetch_of_one_commit(gives_little: bool) -> Result<u64, SyncError> {
    let (theirs, ours) = (MemObjects::new(), MemObjects::new());
    let mut files = Files::new();
    for n in 0..20_000 {
        files.insert((n / 100, n), n % 39 + 1);
    }
    let first = put_commit(&theirs, &[], &files, "first")?;
    let mut dice = Rng::new(7);
    let none = Trouble::default();
    let cloned = transfer(&theirs, &ours, goal(&[first], &[], &ours), none, &mut dice)?;
    assert!(cloned.done);
    assert_eq!(
        cloned.round_trips, 1,
        "into an empty repository everything comes at once"
    );
    for n in 0..10 {
        files.insert((n * 18, n * 18 * 100), 40_000 + n);
    }
    let second = put_commit(&theirs, &[first], &files, "second")?;
    let missing = closure(&theirs, &[second])?.len() - closure(&theirs, &[first])?.len();
    let goal = goal(&[second], &[first], &ours);
    let mut sender = Sender::new([second]).giving_little(gives_little);
    let mut receiver = Receiver::new(goal, &ours)?;
    let run = run(&theirs, &ours, &mut sender, &mut receiver, none, &mut dice)?;
    assert!(run.done);
    assert!(run.objects <= missing + 2, "{run:?} for {missing}");
    Ok(run.round_trips)
}

/// Content just above the limit does not come with metadata. The receiver requests it.
#[test]
fn content_comes_with_metadata_where_it_is_little() -> Outcome {
    let (theirs, ours) = (MemObjects::new(), MemObjects::new());
    let mut files = Files::from([((0, 0), 1)]);
    let first = put_commit(&theirs, &[], &files, "first")?;
    let none = Trouble::default();
    transfer(
        &theirs,
        &ours,
        goal(&[first], &[], &ours),
        none,
        &mut Rng::new(7),
    )?;
    // The chunks have 16 bytes; a file has at most 39.
    for n in 0..LITTLE_BYTES / 16 / 39 + 1 {
        files.insert((n / 100, n + 1), n * 40 + 39);
    }
    let second = put_commit(&theirs, &[first], &files, "second")?;
    // The receiver disconnects from a sender that ignores the limit.
    let mut receiver = Receiver::new(goal(&[second], &[first], &ours), &ours)?;
    receiver.handle(Message::Common(Vec::new(), true), &ours)?;
    let other = ObjectId::from_bytes([7; 32]);
    receiver.admit(ObjectType::Chunk, &other, LITTLE_BYTES)?;
    assert!(receiver.admit(ObjectType::Chunk, &other, 1).is_err());
    let mut sender = Sender::new([second]).giving_little(true);
    let mut receiver = Receiver::new(goal(&[second], &[first], &ours), &ours)?;
    let dice = &mut Rng::new(9);
    let run = run(&theirs, &ours, &mut sender, &mut receiver, none, dice)?;
    assert_eq!((run.done, run.round_trips), (true, 2));
    Ok(())
}

#[test]
fn a_cut_transfer_goes_on_where_it_was() -> Outcome {
    let (theirs, mut files) = (MemObjects::new(), Files::new());
    let mut tip: Vec<ObjectId> = Vec::new();
    for n in 0..100 {
        for m in 0..5 {
            files.insert((n % 7, n * 5 + m), n * 5 + m + 1);
        }
        tip = vec![put_commit(&theirs, &tip, &files, "more")?];
    }
    let all = closure(&theirs, &tip)?;
    let ours = MemObjects::new();
    let mut dice = Rng::new(11);
    let (mut came, mut cuts) = (0, 0);
    loop {
        let trouble = Trouble {
            cut_after: 20_000 + dice.below(20_000),
            ..Trouble::default()
        };
        let goal = goal(&tip, &[], &ours);
        let run = transfer(&theirs, &ours, goal, trouble, &mut dice)?;
        came += run.objects;
        if run.done {
            break;
        }
        cuts += 1;
        assert!(cuts < 100);
    }
    assert!(cuts > 0);
    assert_eq!(closure(&ours, &tip)?, all);
    // The commits come again each time, and nothing else does.
    assert!(
        came <= all.len() + 100 * cuts,
        "{came} for {} after {cuts} cuts",
        all.len()
    );
    Ok(())
}

#[test]
fn histories_that_parted_long_ago_are_joined_without_sending_all() -> Outcome {
    let (theirs, ours) = (MemObjects::new(), MemObjects::new());
    let mut files = Files::new();
    for n in 0..50 {
        files.insert((0, n), n);
    }
    let mut tip: Vec<ObjectId> = Vec::new();
    let mut middle = Vec::new();
    let mut dice = Rng::new(3);
    let none = Trouble::default();
    for n in 0..600 {
        files.insert((0, n % 50), n);
        tip = vec![put_commit(&theirs, &tip, &files, "theirs")?];
        if n == 400 {
            middle = tip.clone();
        }
    }
    transfer(&theirs, &ours, goal(&middle, &[], &ours), none, &mut dice)?;
    let mut mine = middle.clone();
    for n in 0..100 {
        mine = vec![put_commit(&ours, &mine, &files, &format!("ours {n}"))?];
    }
    let run = transfer(&theirs, &ours, goal(&tip, &mine, &ours), none, &mut dice)?;
    assert!(run.done && run.round_trips <= 2, "{run:?}");
    let missing = closure(&theirs, &tip)?.len() - closure(&theirs, &middle)?.len();
    assert!(run.objects <= missing * 3 / 2, "{run:?} for {missing}");
    Ok(())
}

fn want(tips: &[ObjectId]) -> Message {
    Message::Want(Want {
        tips: crate::wire::to_wire(tips),
        filter: Filter::default(),
        unasked: UnaskedObjects::All,
        haves: Vec::new(),
        last: true,
        shallow: Vec::new(),
    })
}

/// Returns one message of each type.
fn all_messages() -> Vec<Message> {
    vec![
        want(&[]),
        Message::Have(Vec::new(), false),
        Message::Common(Vec::new(), true),
        Message::End,
        Message::Need(vec![(1, [0; 32])]),
        Message::Absent(vec![(1, [0; 32])]),
        Message::NeedEnd,
        Message::Complete,
        Message::Push(Vec::new()),
        Message::Pushed(Vec::new()),
        Message::Bye,
        Message::Keep(Vec::new(), true),
        Message::Unkept(Vec::new(), true),
        Message::Working,
        Message::Total(1),
    ]
}

#[test]
fn a_message_that_does_not_belong_is_an_error_in_every_phase() -> Outcome {
    let mem = MemObjects::new();
    let tip = put_commit(&mem, &[], &Files::from([((0, 0), 3)]), "one")?;
    let same = |a: &Message, b: &Message| std::mem::discriminant(a) == std::mem::discriminant(b);
    // How far each side goes first, and which messages are allowed then.
    let sender_phases: [(usize, &[Message]); 2] = [
        (0, &[want(&[])]),
        (1, &[Message::Need(vec![(1, [0; 32])]), Message::Complete]),
    ];
    for (phase, allowed) in sender_phases {
        for message in all_messages() {
            let mut sender = Sender::new([tip]);
            if phase == 1 {
                sender.handle(want(&[tip]), &mem)?;
                while sender.poll(&mem)?.is_some() {}
            }
            let taken = sender.handle(message.clone(), &mem).is_ok();
            assert_eq!(
                taken,
                allowed.iter().any(|a| same(a, &message)),
                "{phase} {message:?}"
            );
        }
    }
    let empty = MemObjects::new();
    let receiver_phases: [(usize, &[Message]); 3] = [
        (0, &[Message::Common(Vec::new(), true)]),
        (1, &[Message::End, Message::Total(7)]),
        (2, &[Message::NeedEnd]),
    ];
    for (phase, allowed) in receiver_phases {
        for message in all_messages() {
            let mut receiver = Receiver::new(goal(&[tip], &[], &empty), &empty)?;
            while receiver.poll(&empty)?.is_some() {}
            for step in [Message::Common(Vec::new(), true), Message::End]
                .into_iter()
                .take(phase)
            {
                receiver.handle(step, &empty)?;
                while receiver.poll(&empty)?.is_some() {}
            }
            if phase == 2 {
                receiver.admit(ObjectType::Commit, &tip, 1)?;
            }
            let taken = receiver.handle(message.clone(), &empty).is_ok();
            assert_eq!(
                taken,
                allowed.iter().any(|a| same(a, &message)),
                "{phase} {message:?}"
            );
        }
    }
    Ok(())
}

/// Total is allowed once, before the first chunk, and only if everything comes unasked.
#[test]
fn a_total_that_does_not_belong_is_an_error() -> Outcome {
    let (mem, empty) = (MemObjects::new(), MemObjects::new());
    let tip = put_commit(&mem, &[], &Files::from([((0, 0), 3)]), "one")?;
    let begin = |goal| -> Result<Receiver, SyncError> {
        let mut receiver = Receiver::new(goal, &empty)?;
        receiver.handle(Message::Common(Vec::new(), true), &empty)?;
        Ok(receiver)
    };
    let all = goal(&[tip], &[], &empty);
    let total = Message::Total(u64::MAX);
    let mut receiver = begin(all.clone())?;
    assert_eq!(receiver.ahead(), None);
    receiver.handle(total.clone(), &empty)?;
    assert_eq!(receiver.ahead(), Some((u64::MAX, Bound::AtMost)));
    assert!(receiver.handle(total.clone(), &empty).is_err());
    let mut receiver = begin(all.clone())?;
    receiver.handle(Message::Total(0), &empty)?;
    // More bytes than announced are no failure: nothing depends on the number.
    receiver.admit(ObjectType::Chunk, &tip, 1 << 20)?;
    assert_eq!(receiver.ahead(), Some((0, Bound::AtMost)));
    let mut receiver = begin(all.clone())?;
    receiver.admit(ObjectType::Chunk, &tip, 1)?;
    assert!(receiver.handle(total.clone(), &empty).is_err());
    let some = Goal {
        empty: false,
        ..all
    };
    assert!(begin(some)?.handle(total, &empty).is_err());
    Ok(())
}

#[test]
fn lies_of_a_sender_are_noticed() -> Outcome {
    let (mem, empty) = (MemObjects::new(), MemObjects::new());
    let tip = put_commit(&mem, &[], &Files::from([((0, 0), 3)]), "one")?;
    let begin = || -> Result<Receiver, SyncError> {
        let mut receiver = Receiver::new(goal(&[tip], &[], &empty), &empty)?;
        receiver.handle(Message::Common(Vec::new(), true), &empty)?;
        receiver.handle(Message::End, &empty)?;
        while receiver.poll(&empty)?.is_some() {}
        Ok(receiver)
    };
    // The sender sends an object that was not requested, or the right id with another type.
    let other = ObjectId::from_bytes([7; 32]);
    assert!(begin()?.admit(ObjectType::Chunk, &other, 1).is_err());
    assert!(begin()?.admit(ObjectType::Tree, &tip, 1).is_err());
    // The sender says that it has answered, but it has not.
    assert!(begin()?.handle(Message::NeedEnd, &empty).is_err());
    // The sender lacks the commit that it offered. So nothing is complete.
    let mut receiver = begin()?;
    receiver.handle(Message::Absent(vec![(5, *tip.as_bytes())]), &empty)?;
    receiver.handle(Message::NeedEnd, &empty)?;
    assert!(matches!(
        receiver.poll(&empty),
        Err(SyncError::Absent { count: 1, .. })
    ));
    // The sender reports that another object is absent, which was not requested.
    let absent = Message::Absent(vec![(5, *other.as_bytes())]);
    assert!(begin()?.handle(absent, &empty).is_err());
    // The sender never finds a common commit and never begins to send.
    let mut long: Vec<ObjectId> = Vec::new();
    for n in 0..40 {
        long = vec![put_commit(&empty, &long, &Files::new(), &n.to_string())?];
    }
    let mut receiver = Receiver::new(goal(&[tip], &long, &empty), &empty)?;
    let endless = (0..100).find(|_| {
        receiver
            .handle(Message::Common(Vec::new(), false), &empty)
            .is_err()
    });
    assert!(endless.is_some());
    // The sender repeats the same objects.
    let mut receiver = begin()?;
    assert!((0..1000).any(|_| receiver.noted(1, 1 << 20, false).is_err()));
    Ok(())
}

#[test]
fn a_receiver_gets_what_is_offered_and_no_more_at_once_than_allowed() -> Outcome {
    let mem = MemObjects::new();
    let tip = put_commit(&mem, &[], &Files::new(), "one")?;
    let hidden = put_commit(&mem, &[], &Files::new(), "two")?;
    let mut sender = Sender::new([tip]);
    let refused = sender.handle(want(&[hidden]), &mem);
    assert!(matches!(refused, Err(SyncError::NotOffered(id)) if id == hidden));
    let mut sender = Sender::new([tip]);
    sender.handle(want(&[tip]), &mem)?;
    while sender.poll(&mem)?.is_some() {}
    let need = Message::Need(vec![(1, [0; 32])]);
    let taken = (0..100).take_while(|_| sender.handle(need.clone(), &mem).is_ok());
    assert_eq!(taken.count(), crate::wire::MAX_NEEDS);
    let mut sender = Sender::new([tip]);
    let Message::Want(mut filtered) = want(&[tip]) else {
        return Ok(());
    };
    filtered.filter.subsets = vec![vec![b"../up".to_vec()]];
    let refused = sender.handle(Message::Want(filtered), &mem);
    assert!(matches!(refused, Err(SyncError::Broken(_))));
    Ok(())
}

#[test]
fn chunks_come_after_all_that_tells_where_they_belong() -> Outcome {
    let mem = MemObjects::new();
    let mut tips = Vec::new();
    for n in 0..3 {
        let files = (0..3000).map(|name| ((name % 7, name), name + 10_000 * n));
        let files: Files = files.collect();
        tips = vec![put_commit(&mem, &tips, &files, &n.to_string())?];
    }
    let mut sender = Sender::new(tips.clone());
    sender.handle(want(&tips), &mem)?;
    let (mut came, mut flushes) = (Vec::new(), Vec::new());
    while let Some(output) = sender.poll(&mem)? {
        match output {
            Output::Objects(objects) => came.extend(objects),
            Output::Flush => flushes.push(came.len()),
            _ => {}
        }
    }
    let first = came.iter().position(|(ty, _)| *ty == ObjectType::Chunk);
    let first = first.unwrap_or(came.len());
    assert!(first < came.len());
    assert!(came[first..].iter().all(|(ty, _)| *ty == ObjectType::Chunk));
    assert_eq!(flushes, [first, came.len()], "frames do not mix the two");
    came.sort_unstable();
    came.dedup();
    assert_eq!(came.len(), closure(&mem, &tips)?.len());
    Ok(())
}
